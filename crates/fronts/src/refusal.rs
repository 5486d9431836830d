// SPDX-License-Identifier: BSD-2-Clause
//! Answers to requests of HTTP/2 and HTTP/3 whose head is read and not served: on their own stream, and without VCL.

use engine::{Req, Transport};
use http2::fields::{FieldsRefusal, Malformed};
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

pub(crate) enum HeadRefusal {
    Meaningless(FieldsRefusal),
    /// Well-formed as far as it was read, and beyond a limit.
    TooLarge(Malformed),
}

impl HeadRefusal {
    pub(crate) fn answer(&self, req: &mut Req, transport: &mut dyn Transport) {
        match self {
            Self::Meaningless(FieldsRefusal::SeveralHosts) => req.refuse_head(transport, 400, "Multiple Host: headers"),
            Self::Meaningless(FieldsRefusal::Connect) => req.refuse_head(transport, 405, "CONNECT is not served"),
            Self::Meaningless(FieldsRefusal::Protocol) => req.refuse_head(transport, 501, "Unknown :protocol"),
            Self::TooLarge(malformed) => {
                log(req, malformed);
                req.log_refused_start();
                req.engine().main.client_req_400.inc();
                req.minimal(transport, malformed.status().unwrap_or(400), ProxyError::HttpRequestError);
            }
        }
    }
}

pub(crate) fn log(req: &mut Req, malformed: &Malformed) {
    match malformed.is_lost_header() {
        true => req.log.lost_header(&[&malformed.record()]),
        false => req.log.put(Tag::BogoHeader, &malformed.record()),
    }
}
