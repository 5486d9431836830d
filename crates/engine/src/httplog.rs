// SPDX-License-Identifier: BSD-2-Clause
//! Changes of heads by the engine itself, with the log records that varnishd writes for them (vsl(7)).

use message::{Head, LostHeader, hop};
use params::{DebugBit, Params};
use shm::vsl::TxnLog;
use tables::tags::Tag;

use crate::proxy_status::PROXY_STATUS;

/// A record for each filter of a body, when `debug=+processors` asks for them; `what` is varnishd's word for the side.
pub fn log_processors(log: &mut TxnLog, params: &Params, what: &str, names: &[u8]) {
    if !params.debug.has(DebugBit::Processors) {
        return;
    }
    for name in names.split(|c| *c == b' ').filter(|name| !name.is_empty()) {
        log.put_parts(Tag::Debug, &[what.as_bytes(), b"(", name, b")"]);
    }
}

#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct HeadTags {
    pub method: Tag,
    pub url: Tag,
    pub protocol: Tag,
    pub status: Tag,
    pub reason: Tag,
    pub header: Tag,
    pub unset: Tag,
}

pub const REQ: HeadTags = HeadTags {
    method: Tag::ReqMethod,
    url: Tag::ReqUrl,
    protocol: Tag::ReqProtocol,
    status: Tag::ReqStatus,
    reason: Tag::ReqReason,
    header: Tag::ReqHeader,
    unset: Tag::ReqUnset,
};

pub const RESP: HeadTags = HeadTags {
    method: Tag::RespMethod,
    url: Tag::RespUrl,
    protocol: Tag::RespProtocol,
    status: Tag::RespStatus,
    reason: Tag::RespReason,
    header: Tag::RespHeader,
    unset: Tag::RespUnset,
};

pub const BEREQ: HeadTags = HeadTags {
    method: Tag::BereqMethod,
    url: Tag::BereqUrl,
    protocol: Tag::BereqProtocol,
    status: Tag::BereqStatus,
    reason: Tag::BereqReason,
    header: Tag::BereqHeader,
    unset: Tag::BereqUnset,
};

pub const BERESP: HeadTags = HeadTags {
    method: Tag::BerespMethod,
    url: Tag::BerespUrl,
    protocol: Tag::BerespProtocol,
    status: Tag::BerespStatus,
    reason: Tag::BerespReason,
    header: Tag::BerespHeader,
    unset: Tag::BerespUnset,
};

pub const OBJ: HeadTags = HeadTags {
    method: Tag::ObjMethod,
    url: Tag::ObjUrl,
    protocol: Tag::ObjProtocol,
    status: Tag::ObjStatus,
    reason: Tag::ObjReason,
    header: Tag::ObjHeader,
    unset: Tag::ObjUnset,
};

impl HeadTags {
    pub fn log_request(&self, head: &Head, log: &mut TxnLog) {
        log.put(self.method, head.method());
        log.put(self.url, head.url());
        log.put(self.protocol, head.proto());
        self.log_fields(head, log);
    }

    pub fn log_response(&self, head: &Head, log: &mut TxnLog) {
        self.log_status(head, log);
        self.log_fields(head, log);
    }

    /// Logs the start line of a response that has no head here.
    pub fn log_bare_status(&self, protocol: &str, status: u16, log: &mut TxnLog) {
        log.put(self.protocol, protocol.as_bytes());
        log.record(self.status).num(u64::from(status));
        log.put(self.reason, message::status::reason(status).as_bytes());
    }

    /// Makes and logs the head of a bare response, which has at most one header.
    pub fn log_minimal(&self, protocol: &str, status: u16, proxy_status: Option<&str>, log: &mut TxnLog) -> Head {
        self.log_bare_status(protocol, status, log);
        let mut head = Head::new();
        // One line of a few hundred bytes always fits.
        let _ = head.start_response(b"HTTP/1.1", status);
        if let Some(proxy_status) = proxy_status {
            let _ = self.append(&mut head, log, PROXY_STATUS, &[proxy_status.as_bytes()]);
        }
        head
    }

    pub fn log_status(&self, head: &Head, log: &mut TxnLog) {
        log.put(self.protocol, head.proto());
        log.record(self.status).num(u64::from(head.status()));
        log.put(self.reason, head.reason());
    }

    /// Logs all fields: also those behind a body, where whoever looks for a gRPC status finds it so.
    pub fn log_fields(&self, head: &Head, log: &mut TxnLog) {
        log.put_all(self.header, head.iter().map(|field| field.line()));
    }

    /// Adds a field at the end. The name is one of [`message::names`].
    ///
    /// # Errors
    /// No room, after a LostHeader record.
    pub fn append(&self, head: &mut Head, log: &mut TxnLog, name: &str, value: &[&[u8]]) -> Result<(), LostHeader> {
        if let Err(lost) = head.append_known(name, value) {
            log.put2(Tag::LostHeader, name.as_bytes(), b":");
            return Err(lost);
        }
        if let Some(field) = head.field(head.len() - 1) {
            log.put(self.header, field.line());
        }
        Ok(())
    }

    /// Adds an element to a list: behind the field's value if there is one, all lines of which become one.
    ///
    /// # Errors
    /// No room, after a LostHeader record.
    pub fn extend(&self, head: &mut Head, log: &mut TxnLog, name: &str, value: &[u8]) -> Result<(), LostHeader> {
        if !head.has(name) {
            return self.append(head, log, name, &[value]);
        }
        let joined = head.collect(name);
        let old = head.get(name).unwrap_or_default().to_vec();
        self.unset(head, log, name);
        self.append(head, log, name, &[&old, b", ", value])?;
        joined.map(|_| ())
    }

    pub fn unset(&self, head: &mut Head, log: &mut TxnLog, name: &str) {
        if !head.has(name) {
            return;
        }
        for field in head.iter().filter(|field| field.is(name)) {
            log.put(self.unset, field.line());
        }
        head.unset(name);
    }

    /// Removes the fields that Connection nominates, as [`hop::remove_nominated`] does.
    pub fn unset_nominated(&self, head: &mut Head, log: &mut TxnLog) {
        hop::remove_nominated(head, |field| log.put(self.unset, field.line()));
    }

    /// Makes the field have just this value; nothing is logged when it has it already.
    ///
    /// # Errors
    /// No room, after a LostHeader record.
    pub fn force(&self, head: &mut Head, log: &mut TxnLog, name: &str, value: &[u8]) -> Result<(), LostHeader> {
        if head.get(name).is_some_and(|old| old == value) {
            return Ok(());
        }
        self.unset(head, log, name);
        self.append(head, log, name, &[value])
    }
}
