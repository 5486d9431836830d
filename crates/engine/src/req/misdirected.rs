// SPDX-License-Identifier: BSD-2-Clause
//! A request for a host whose certificate would have asked something else of the client (RFC 9110 15.5.20): who was let in by one name
//! doesn't get what another keeps for clients that prove who they are. It looks only where a certificate asks clients for theirs.

use message::names;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::delivery::Answer;
use super::{Req, ReqStep};
use crate::proxy_status::ProxyCause;
use crate::transport::Transport;

impl Req {
    /// True if the client has to come again on another connection for that host, because its certificate requires
    /// client certificates.
    #[inline]
    pub(super) fn is_misdirected(&mut self) -> bool {
        self.engine().sessions.certificates.asks_clients() && self.is_elsewhere()
    }

    fn is_elsewhere(&mut self) -> bool {
        let is_its_own = self.ask.restarts == 0 && !self.esi.is_fragment() && self.client.trial.is_none();
        if !is_its_own || self.is_of_peer() {
            return false;
        }
        let held = self.client.sess.tls.get().and_then(|info| info.clients);
        let host = self.ask.original.get(names::HOST).and_then(host_of);
        let certificates = &self.engine().sessions.certificates;
        let is_here = held.is_none_or(|held| certificates.admits(&self.client.sess.listener.frontend, host, held));
        !is_here || self.params.tls_client_hosts && !certificates.admits_anywhere(host, held)
    }

    pub(super) async fn refuse_misdirected(&mut self, transport: &mut dyn Transport) -> ReqStep {
        self.engine().main.tls_misdirected.inc();
        self.log.put(Tag::Notice, b"TLS: the host's certificate requires client authentication, 421");
        let cause = ProxyCause::new(ProxyError::HttpRequestError, "the host needs another connection");
        self.refuse_empty(421, &cause, transport).await
    }

    /// True if this server has sent the request to itself and would do so again, or would wait for itself in a lookup.
    pub(super) fn has_come_back(&self, is_lookup: bool) -> bool {
        let is_its_own = self.ask.restarts == 0 && !self.esi.is_fragment();
        // VCL's word counts, not the client's directives: a request that VCL lets wait for itself is a loop.
        let asked = self.settings.lookup;
        let may_wait = is_lookup && !asked.ignore_busy && !asked.always_miss;
        let lookup = may_wait.then_some(&self.ask.digest);
        is_its_own && self.params.loop_detection && self.engine().fetches.loops.is_back(&self.ask.original, lookup)
    }

    pub(super) async fn refuse_loop(&mut self, transport: &mut dyn Transport) -> ReqStep {
        self.log.put(Tag::Error, b"Loop: a backend is this server's own listener, and the request has come back, 508");
        let cause = ProxyCause::new(ProxyError::ProxyLoopDetected, "the request has come back");
        self.refuse_empty(508, &cause, transport).await
    }

    async fn refuse_empty(&mut self, status: u16, cause: &ProxyCause, transport: &mut dyn Transport) -> ReqStep {
        self.start_synth(status, None, Some(cause));
        self.set_resp(names::CONTENT_LENGTH, &[b"0"]);
        self.resp.filters.reset();
        self.resp.time.set(None);
        self.discard_body(transport).await;
        ReqStep::Transmit(Answer::nothing())
    }
}

/// The name in a field Host, without its port.
fn host_of(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?.trim();
    match text.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|c| c.is_ascii_digit()) => Some(name),
        _ => Some(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_without_its_port() {
        for (value, name) in
            [("a.example", "a.example"), ("a.example:443", "a.example"), ("[::1]:8", "[::1]"), (" A. ", "A.")]
        {
            assert_eq!(host_of(value.as_bytes()), Some(name));
        }
        assert_eq!(host_of(b"\xff"), None);
    }
}
