// SPDX-License-Identifier: BSD-2-Clause
//! A response made here: `vcl_synth`.

use message::{date, list, names};
use storage::Buf;
use tables::close::SessClose;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;
use tables::vclsubs::SynthAction;

use super::ctx::Lent;
use super::delivery::Answer;
use super::{Req, ReqStep};
use crate::httplog::RESP;
use crate::proxy_status::{PROXY_STATUS, ProxyCause};
use crate::synthetic::SynthOrder;
use crate::transport::Transport;

impl Req {
    pub(super) async fn synth(&mut self, order: SynthOrder, transport: &mut dyn Transport) -> ReqStep {
        self.engine().main.s_synth.inc();
        let SynthOrder { status, reason, cause, is_for_later, refusal } = order;
        let status = if status < 100 { 501 } else { status };
        self.start_synth(status, reason, cause.as_deref());
        if is_for_later {
            self.set_resp(names::RETRY_AFTER, &[super::slot::RETRY_AFTER]);
        }
        if let Some(refusal) = &refusal {
            self.tell_refusal(refusal);
        }
        self.resp.filters.reset();
        self.resp.time.set(None);
        let mut body = Vec::new();
        let action: SynthAction = self.run_vcl_with(Lent::Body(&mut body), transport).await;
        self.mark("Process");
        match action {
            SynthAction::Restart if self.ask.restarts <= self.params.max_restarts => return ReqStep::Restart,
            SynthAction::Fail => {
                self.discard_body(transport).await;
                self.client.close = Some(SessClose::VclFailure);
                match self.client.is_reset {
                    true => self.minimal(transport, 408, ProxyError::HttpRequestError),
                    false => self.minimal(transport, 500, ProxyError::ProxyConfigurationError),
                }
                self.mark("Resp");
                return ReqStep::Done;
            }
            SynthAction::Restart | SynthAction::Deliver => {}
        }
        if let Some(refusal) = &refusal {
            self.replace_builtin_refusal(refusal, &mut body);
        }
        RESP.unset(&mut self.resp.head, &mut self.log, names::CONTENT_LENGTH);
        self.set_resp(names::CONTENT_LENGTH, &[body.len().to_string().as_bytes()]);
        if self.resp.head.get(names::CONNECTION).is_some_and(|value| list::is(value, b"close")) {
            self.client.close.get_or_insert(SessClose::RespClose);
        }
        self.discard_body(transport).await;
        self.log.put_parts(Tag::Storage, &[b"malloc Transient"]);
        self.engine().main.transit_stored.add(body.len() as u64);
        ReqStep::Transmit(Answer::Made(Buf::unaccounted(body)))
    }

    /// Begins the head. `cause`: why the response is made here, if it is an error.
    pub(super) fn start_synth(&mut self, status: u16, reason: Option<Vec<u8>>, cause: Option<&ProxyCause>) {
        let fits = self.resp.head.start_response(b"HTTP/1.1", status).is_ok();
        let named = reason.is_none_or(|reason| self.resp.head.set_reason(reason).is_ok());
        if !(fits && named) {
            self.log.count_lost();
        }
        RESP.log_status(&self.resp.head, &mut self.log);
        let now = self.engine().clock.real();
        self.set_resp(names::DATE, &[&date::format(now)]);
        self.set_resp(names::SERVER, &[b"Varnish"]);
        self.set_resp(names::X_VARNISH, &[self.log.vxid().to_string().as_bytes()]);
        self.announce_h3();
        if self.client.body.is_expected() {
            self.set_resp(names::CONNECTION, &[b"close"]);
        }
        if let Some(text) = cause.and_then(|cause| cause.value(&self.params)) {
            self.set_resp(PROXY_STATUS, &[text.as_bytes()]);
        }
    }
}
