// SPDX-License-Identifier: BSD-2-Clause
//! Responses that their origin wants to be forwarded as they come (RFC 10036). Filters hold nothing back of them; what needs the whole
//! body is left out or refuses the response.

use filters::Chain;
use message::incremental::{Forwarding, is_event_stream};
use tables::close::SessClose;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::{Bereq, FetchStep};
use crate::synthetic::SynthOrder;

impl Bereq {
    /// After vcl_backend_response: an event stream isn't parsed for ESI, which would hold it back to its end, unless its origin allows that.
    pub(super) fn keep_esi_off_events(&mut self) {
        if self.fill.settings.do_esi && is_event_stream(&self.beresp) && self.is_prompt() {
            self.fill.settings.do_esi = false;
            self.log.put(Tag::Notice, b"lacquer: no ESI in an event stream");
        }
    }

    pub(super) fn is_prompt(&self) -> bool {
        Forwarding::of(&self.beresp) != Forwarding::AsUsual
    }

    /// Refuses a response that may not be held back and is going to be, by ESI or in the `chain`.
    pub(super) fn judge_incremental(&mut self, chain: &Chain, is_esi: bool) -> Result<(), FetchStep> {
        let reason = if is_esi {
            "ESI needs the whole body"
        } else if chain.holding().is_some() || chain.has_metadata() {
            "a filter needs the whole body"
        } else if !self.fill.settings.do_stream {
            "beresp.do_stream is false"
        } else {
            return Ok(());
        };
        if Forwarding::of(&self.beresp) == Forwarding::Incremental {
            return Err(self.refuse_incremental(reason));
        }
        Ok(())
    }

    fn refuse_incremental(&mut self, reason: &'static str) -> FetchStep {
        self.log.putf(Tag::FetchError, format_args!("incremental response refused: {reason}"));
        self.failure.made.ask(SynthOrder::because(501, ProxyError::IncrementalRefused, reason));
        self.end_link(Some(SessClose::RespClose));
        FetchStep::Error
    }
}
