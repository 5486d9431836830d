// SPDX-License-Identifier: BSD-2-Clause
//! Requests for objects of which parts are stored (`crate::parts`): what has those that are wanted is a hit, anything else a miss.

use cache::{LookupOptions, ObjRef};
use message::Head;
use message::range::Slice;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::transmit::{DeliveryFailure, Window};
use super::{Req, ReqStep};
use crate::parts::{StoredParts, WantedPart};

/// Times that a response may be begun anew because the object found wasn't enough.
const TRIES: u32 = 3;

impl Req {
    /// True if the object can't answer the request because some of the bytes asked for are missing (RFC 9111 3.3).
    #[inline]
    pub(super) fn lacks(&self, obj: &ObjRef) -> bool {
        StoredParts::of(obj).is_some_and(|parts| self.wants_more(&parts, obj))
    }

    #[cold]
    fn wants_more(&self, parts: &StoredParts, obj: &ObjRef) -> bool {
        let mut head = Head::with_limits(self.resp.limits());
        if self.esi.is_fragment() || head.load_from(obj.head()).is_err() {
            return true;
        }
        !parts.have(&WantedPart::of(&self.head, &head, parts.total, &self.params))
    }

    /// Options for looking up the right to fetch the missing parts of an object. A request that doesn't follow RFC 9111
    /// fetches the whole.
    pub(super) fn for_what_is_missing(&self, options: &LookupOptions) -> LookupOptions {
        match self.settings.rfc9111 {
            true => LookupOptions { max_age: Some(0.0), ..*options },
            false => LookupOptions { always_miss: true, ..*options },
        }
    }

    /// Looks up again, because the object has changed or was fetched for a smaller range.
    #[cold]
    pub(super) fn look_again_for_parts(&mut self) -> ReqStep {
        if self.begun_anew < TRIES {
            self.begun_anew += 1;
            return ReqStep::Lookup;
        }
        self.log.put(Tag::Error, b"no such part of the object can be had");
        self.synthetic.ask_because(503, ProxyError::ProxyInternalError, "parts of the object are missing");
        ReqStep::Synth
    }

    /// Before a head goes out: where the body is no more than parts, those alone may be sent. A step: where to go in its place.
    pub(super) fn refuse_beyond_parts(
        &mut self,
        parts: &StoredParts,
        window: &Window,
        is_plain: bool,
    ) -> Option<ReqStep> {
        let have = |low, high| parts.offset_of(Slice { low, high }).is_some();
        let is_there = match window {
            Window::All => false,
            Window::Part(low, high) => have(*low, *high),
            Window::Parts(multipart) => multipart.parts.iter().all(|part| have(part.low, part.high)),
        };
        if is_there && is_plain {
            return None;
        }
        self.log.put(
            Tag::Error,
            b"Parts of the object are missing, and VCL or its fetch has left the request without its range",
        );
        self.synthetic.ask_because(503, ProxyError::ProxyInternalError, "parts of the object are missing");
        Some(ReqStep::Synth)
    }
}

/// Offset of these bytes of an object in its stored body.
pub(super) fn place_of(obj: &ObjRef, low: u64, high: u64) -> Result<u64, DeliveryFailure> {
    match StoredParts::of(obj) {
        None => Ok(low),
        Some(parts) => parts.offset_of(Slice { low, high }).ok_or(DeliveryFailure::Fetch),
    }
}
