// SPDX-License-Identifier: BSD-2-Clause
//! A request's slot among the transactions in progress, and the answer to one that there is no room for.

use std::task::{Context, Waker};

use message::names;
use tables::close::SessClose;
use tables::no_hit::NoHit;

use super::Req;
use super::reason::Reason;
use super::verdict::Verdict;
use crate::admission::{self, Entry, Pressure};
use crate::httplog::RESP;
use crate::transport::{BodyLen, BodyState, Transport};

/// Seconds after which a client may try again that was refused for lack of memory: the same that the built-in VCL says.
pub(super) const RETRY_AFTER: &[u8] = b"5";

/// It was refused, or nobody wants it any more.
pub(super) struct Refused;

impl Req {
    /// Waits until there is room for one more transaction.
    pub(super) async fn take_slot(&mut self, transport: &mut dyn Transport) -> Result<(), Refused> {
        if self.slot.is_some() {
            // It waited before it was read.
            return if self.has_lost_client(transport) { Err(Refused) } else { Ok(()) };
        }
        let slot = match admission::enter(&self.sess) {
            Ok(Entry::Now(slot)) => slot,
            Ok(Entry::Later(wait)) => {
                self.log.flush();
                let slot = self.drive(transport, wait).await;
                if self.has_lost_client(transport) {
                    return Err(Refused);
                }
                slot
            }
            Err(admission::QueueFull) => {
                self.refuse(transport);
                return Err(Refused);
            }
        };
        self.slot = Some(slot);
        Ok(())
    }

    /// Whether the client went away while its request waited: nothing is begun for it then. As with a pass, that is asked
    /// only where `pass_abort` says that a client which has closed its end wants no answer.
    fn has_lost_client(&mut self, transport: &mut dyn Transport) -> bool {
        let is_gone = self.params.pass_abort
            && transport.body_state() == BodyState::None
            && transport.poll_peer_closed(&mut Context::from_waker(Waker::noop())).is_ready();
        if is_gone {
            self.verdict = Verdict::no_hit(Reason::new(NoHit::Refused, "the client is gone"));
            self.close = Some(SessClose::RemClose);
        }
        is_gone
    }

    /// 503, with as little work as can be. The connection stays where it can: to close it and to accept its successor costs
    /// many times what this answer does, and that is taken from the requests in progress.
    fn refuse(&mut self, transport: &mut dyn Transport) {
        let main = self.engine().main;
        let lacks_memory = self.engine().admission.pressure() == Pressure::Requests;
        main.sess_dropped.inc();
        main.req_dropped.inc();
        main.mem_shed.add(u64::from(lacks_memory));
        let limit = if lacks_memory { "memory_limit" } else { "thread_queue_limit" };
        self.verdict = Verdict::no_hit(Reason::new(NoHit::Refused, limit));
        let stays = transport.body_state() == BodyState::None
            && transport.connection(&mut self.head) == Ok(None)
            && self.resp.start_response(b"HTTP/1.1", 503).is_ok();
        if !stays {
            self.minimal(transport, 503);
            self.close = Some(SessClose::Overload);
            return;
        }
        RESP.log_status(&self.resp, &mut self.log);
        self.set_resp(names::CONTENT_LENGTH, &[b"0"]);
        if lacks_memory {
            self.set_resp(names::RETRY_AFTER, &[RETRY_AFTER]);
        }
        self.engine().main.client_5xx.tally();
        self.close = transport.send_head(&mut self.resp, BodyLen::None, None, &mut self.log);
        transport.send_end(None);
    }
}
