// SPDX-License-Identifier: BSD-2-Clause
//! A request's slot among the fetches in progress, and the answer to one that there is no room for.

use std::task::{Context, Waker};

use message::names;
use tables::close::SessClose;
use tables::no_hit::NoHit;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::body::Departure;
use super::reason::NoHitReason;
use super::verdict::ReqVerdict;
use super::{Req, ReqStep};
use crate::admission::{self, AdmissionEntry, AdmissionRefusal, FetchSlot};
use crate::conn_queue;
use crate::httplog::RESP;
use crate::proxy_status::{PROXY_STATUS, ProxyCause};
use crate::synthetic::SynthOrder;
use crate::transport::{BodyLen, BodyState, Transport};

/// Seconds after which a client may try again that was refused for lack of memory: the same that the built-in VCL says.
pub(super) const RETRY_AFTER: &[u8] = b"5";

/// True if the client has closed its end.
fn is_gone(transport: &mut dyn Transport) -> bool {
    transport.poll_peer_closed(&mut Context::from_waker(Waker::noop())).is_ready()
}

impl Req {
    /// Before its fetch or pipe: its slot, which goes to that. `Err` is the step to go to instead.
    pub(super) async fn take_slot(&mut self, transport: &mut dyn Transport) -> Result<FetchSlot, ReqStep> {
        if self.esi.is_fragment() {
            return admission::enter_unqueued(&self.client.sess).map_err(|refusal| self.refuse_slot(refusal));
        }
        match admission::enter(&self.client.sess) {
            Ok(AdmissionEntry::Now(slot)) => Ok(slot),
            // Boxed: they are rare.
            other => Box::pin(self.wait_for_slot(other, transport)).await,
        }
    }

    async fn wait_for_slot(
        &mut self,
        mut entry: Result<AdmissionEntry, AdmissionRefusal>,
        transport: &mut dyn Transport,
    ) -> Result<FetchSlot, ReqStep> {
        self.log.flush();
        // As with a pass, a client that has closed its end wants no answer only where `pass_abort` says so.
        let until = Departure::new(self.params.pass_abort && transport.body_state() == BodyState::None);
        if let Err(AdmissionRefusal::QueueFull) = entry {
            let sess = self.client.sess.clone();
            if self.drive_until(until, transport, conn_queue::hold(&sess)).await.is_none() {
                return Err(self.leave_queue());
            }
            entry = admission::enter(&sess);
        }
        match entry {
            Ok(AdmissionEntry::Now(slot)) => Ok(slot),
            Ok(AdmissionEntry::Later(wait)) => match self.drive_until(until, transport, wait).await {
                // The client may have gone at the same moment.
                Some(slot) if until == Departure::Reset || !is_gone(transport) => Ok(slot),
                Some(_) | None => Err(self.leave_queue()),
            },
            Err(refusal) => Err(self.refuse_slot(refusal)),
        }
    }

    /// Nothing is begun for a client that is gone.
    fn leave_queue(&mut self) -> ReqStep {
        self.verdict = ReqVerdict::no_hit(NoHitReason::new(NoHit::Refused, "the client is gone"));
        self.end_reset()
    }

    /// 503, and come again.
    fn refuse_slot(&mut self, refusal: AdmissionRefusal) -> ReqStep {
        let main = self.engine().main;
        if refusal == AdmissionRefusal::QueueFull {
            main.sess_dropped.inc();
            main.req_dropped.inc();
        }
        main.fetch_no_thread.inc();
        self.verdict = ReqVerdict::no_hit(NoHitReason::new(NoHit::Refused, refusal.limit()));
        self.log.putf(Tag::Error, format_args!("{}: no fetch begins", refusal.limit()));
        ReqStep::Synth(SynthOrder::for_later(503, ProxyError::HttpRequestDenied, refusal.limit()))
    }

    /// 503 where memory suffices for no request, with as little work as can be. The connection stays where it can: to close it and to
    /// accept its successor costs many times what this answer does, and that is taken from the requests in progress.
    pub(super) fn refuse(&mut self, transport: &mut dyn Transport) {
        let main = self.engine().main;
        main.sess_dropped.inc();
        main.req_dropped.inc();
        main.mem_shed.inc();
        self.verdict = ReqVerdict::no_hit(NoHitReason::new(NoHit::Refused, "memory_limit"));
        let stays = transport.body_state() == BodyState::None
            && transport.connection(&mut self.ask.head) == Ok(None)
            && self.resp.head.start_response(b"HTTP/1.1", 503).is_ok();
        if !stays {
            self.minimal(transport, 503, ProxyError::ProxyInternalError);
            self.client.close = Some(SessClose::Overload);
            return;
        }
        RESP.log_status(&self.resp.head, &mut self.log);
        self.set_resp(names::CONTENT_LENGTH, &[b"0"]);
        self.set_resp(names::RETRY_AFTER, &[RETRY_AFTER]);
        if let Some(status) = ProxyCause::new(ProxyError::ProxyInternalError, "memory_limit").value(&self.params) {
            self.set_resp(PROXY_STATUS, &[status.as_bytes()]);
        }
        self.engine().main.client_5xx.tally();
        self.client.close = transport.send_head(&mut self.resp.head, BodyLen::None, None, &mut self.log);
        transport.send_end(None);
    }
}
