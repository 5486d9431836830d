// SPDX-License-Identifier: BSD-2-Clause
//! A certificate authority asks whether a name is ours (HTTP-01, RFC 8555 8.3). It is answered before VCL, so that no redirect,
//! password or block there can be in the way; and only if the answer is known here: else the request is like any other.

use message::names;
use storage::Buf;
use tables::tags::Tag;

use super::delivery::Answer;
use super::{Req, ReqStep};
use crate::transport::Transport;

impl Req {
    /// The answer, if the request is such a question. While no certificate is being ordered this is one load.
    #[inline]
    pub(super) fn challenge_answer(&self) -> Option<String> {
        let body = self.engine().sessions.challenges.body(self.ask.head.url())?;
        let is_asked =
            matches!(self.ask.head.method(), b"GET" | b"HEAD") && self.ask.restarts == 0 && !self.esi.is_fragment();
        is_asked.then_some(body)
    }

    pub(super) async fn answer_challenge(&mut self, body: String, transport: &mut dyn Transport) -> ReqStep {
        if self.client.trial.is_none() {
            self.engine().main.acme_answers.inc();
        }
        self.log.put(Tag::Notice, b"ACME: answered before VCL");
        self.start_synth(200, None, None);
        self.set_resp(names::CONTENT_TYPE, &[b"application/octet-stream"]);
        self.set_resp(names::CONTENT_LENGTH, &[body.len().to_string().as_bytes()]);
        self.resp.filters.reset();
        self.resp.time.set(None);
        self.discard_body(transport).await;
        ReqStep::Transmit(Answer::Made(Buf::unaccounted(body.into_bytes())))
    }
}
