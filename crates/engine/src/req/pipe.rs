// SPDX-License-Identifier: BSD-2-Clause
//! `pipe`: the two connections are joined and nothing is looked at any more.

use tables::tags::Tag;
use tables::vclsubs::PipeAction;

use super::ctx::Lent;
use super::{Req, ReqStep};
use crate::bereq::pipe::PipeBereq;
use crate::httplog::RESP;
use crate::transport::Transport;

impl Req {
    pub(super) async fn pipe(&mut self, transport: &mut dyn Transport) -> ReqStep {
        let engine = self.engine().clone();
        engine.main.s_pipe.inc();
        let mut bereq = PipeBereq::begin(self);
        match self.run_vcl_with(Lent::Pipe(&mut bereq), transport).await {
            PipeAction::Pipe => {}
            PipeAction::Synth(status) => {
                bereq.end();
                return self.synth_by_vcl(status);
            }
            PipeAction::Fail => {
                bereq.end();
                return ReqStep::VclFail;
            }
        }
        let _slot = match self.take_slot(transport).await {
            Ok(slot) => slot,
            Err(step) => {
                bereq.end();
                return step;
            }
        };
        self.mark("Process");
        bereq.log.timestamp("Process", self.log.last());
        // Answers to requests before this one; a client that is gone is found out below.
        let _ = std::future::poll_fn(|cx| transport.poll_flush(cx, 0)).await;
        let Some(_place) = PipeSlot::enter(&engine, self.params.pipe_sess_max) else {
            engine.main.pipe_limited.inc();
            bereq.end();
            return ReqStep::VclFail;
        };
        let close = bereq.run(self, transport).await;
        self.client.close = Some(close);
        ReqStep::Done
    }
}

impl Req {
    /// A success would tell the client that its stream is a tunnel (RFC 8441 5), which it is only where a pipe made it one.
    pub(super) fn refuse_tunnel(&mut self) {
        self.log.put(Tag::Error, b"No pipe for an extended CONNECT");
        // Three digits and a few words: without room the status alone stands.
        let _ = self.resp.head.set_status(501);
        let _ = self.resp.head.set_reason(message::status::reason(501).as_bytes());
        RESP.log_status(&self.resp.head, &mut self.log);
    }
}

/// One of the `pipe_sess_max` places.
struct PipeSlot<'a>(&'a crate::engine::Engine);

impl<'a> PipeSlot<'a> {
    fn enter(engine: &'a crate::engine::Engine, limit: u32) -> Option<Self> {
        use std::sync::atomic::Ordering::Relaxed;
        let open = engine.requests.pipes.fetch_add(1, Relaxed);
        engine.main.n_pipe.inc();
        let place = PipeSlot(engine);
        (limit == 0 || open < i64::from(limit)).then_some(place)
    }
}

impl Drop for PipeSlot<'_> {
    fn drop(&mut self) {
        self.0.requests.pipes.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        self.0.main.n_pipe.dec();
    }
}
