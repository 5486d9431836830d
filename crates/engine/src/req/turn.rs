// SPDX-License-Identifier: BSD-2-Clause
//! A request's turn among the transactions in progress, and the answer to one that there is no room for.

use message::hop::{self, Persistence};
use message::names;
use tables::close::SessClose;
use tables::no_hit::NoHit;

use super::{Req, why};
use crate::httplog::RESP;
use crate::transport::{BodyLen, BodyState, Transport};
use crate::turns::{self, Entry};

impl Req {
    /// Waits until there is room for one more transaction.
    pub(super) async fn take_turn(&mut self, transport: &mut dyn Transport) -> Result<(), turns::Full> {
        let turn = match turns::enter(&self.sess) {
            Ok(Entry::Now(turn)) => turn,
            Ok(Entry::Later(wait)) => {
                self.log.flush();
                self.drive(transport, wait).await
            }
            Err(full) => {
                self.refuse(transport);
                return Err(full);
            }
        };
        self.turn = Some(turn);
        Ok(())
    }

    /// 503, with as little work as can be. The connection stays where it can: to close it and to accept its successor costs
    /// many times what this answer does, and that is taken from the requests in progress.
    fn refuse(&mut self, transport: &mut dyn Transport) {
        let main = self.engine().main;
        main.sess_dropped.inc();
        main.req_dropped.inc();
        self.why = Some(why::Why::new(NoHit::Refused, "thread_queue_limit"));
        let stays = transport.body_state() == BodyState::None
            && matches!(hop::connection(&mut self.head), Ok(Persistence::Keep))
            && self.resp.start_response(b"HTTP/1.1", 503).is_ok();
        if !stays {
            self.minimal(transport, 503);
            self.close = Some(SessClose::Overload);
            return;
        }
        RESP.log_status(&self.resp, &mut self.log);
        self.set_resp(names::CONTENT_LENGTH, &[b"0"]);
        self.close = transport.send_head(&mut self.resp, BodyLen::None, None, &mut self.log);
        transport.send_end();
    }
}
