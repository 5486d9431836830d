// SPDX-License-Identifier: BSD-2-Clause
//! Requests for objects of which parts are stored (`crate::parts`): what has those that are wanted is a hit, anything else a miss.

use cache::{LookupOptions, ObjRef};
use message::Head;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::{Req, ReqStep};
use crate::parts::{StoredParts, WantedPart};
use crate::synthetic::SynthOrder;

/// Times that a response may be begun anew because the object found wasn't enough.
const TRIES: u32 = 3;

impl Req {
    /// True if the object can't answer the request because some of the bytes asked for are missing (RFC 9111 3.3).
    #[inline]
    pub(super) fn lacks(&self, obj: &ObjRef) -> bool {
        StoredParts::of(obj).is_some_and(|parts| self.wants_more(&parts, obj))
    }

    #[cold]
    pub(super) fn wants_more(&self, parts: &StoredParts, obj: &ObjRef) -> bool {
        let mut head = Head::with_limits(self.resp.head.limits());
        if self.esi.is_fragment() || head.load_from(obj.head()).is_err() {
            return true;
        }
        !parts.have(&WantedPart::of(&self.ask.head, &head, parts.total, &self.params))
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
        if self.ask.begun_anew < TRIES {
            self.ask.begun_anew += 1;
            return ReqStep::Lookup;
        }
        self.log.put(Tag::Error, b"no such part of the object can be had");
        let details = "parts of the object are missing";
        ReqStep::Synth(SynthOrder::because(503, ProxyError::ProxyInternalError, details))
    }

    /// The step where a response would need more of the body than the parts that are stored.
    #[cold]
    pub(super) fn refuse_beyond_parts(&mut self) -> ReqStep {
        self.log.put(
            Tag::Error,
            b"Parts of the object are missing, and VCL or its fetch has left the request without its range",
        );
        let details = "parts of the object are missing";
        ReqStep::Synth(SynthOrder::because(503, ProxyError::ProxyInternalError, details))
    }
}
