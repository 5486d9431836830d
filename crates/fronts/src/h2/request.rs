// SPDX-License-Identifier: BSD-2-Clause
//! The request of a stream, from its head to its end: the engine's, over [`H2`].

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;

use base::Real;
use engine::transport::{Transport, TransportAcct};
use engine::{Req, Sess, contain, pool};
use http2::fields::Malformed;
use message::Head;
use params::Params;
use rt::Runners;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::PROTOCOL;
use super::mux::Mux;
use super::transport::H2;
use super::upgrade::Upgraded;
use crate::refusal::{self, HeadRefusal};

pub(super) struct Job {
    pub(super) mux: Rc<Mux>,
    pub(super) place: usize,
    pub(super) kind: JobKind,
}

pub(super) enum JobKind {
    New { head: Head, refusal: Option<HeadRefusal>, is_tunnel: bool, t_req: Real, params: Arc<Params> },
    Upgraded(Box<Upgraded>),
}

thread_local! {
    static RUNNERS: Runners<Job> = const { Runners::new() };
}

pub(super) fn trim() {
    RUNNERS.with(Runners::trim);
}

/// Begins a request: within the task that calls, as far as it gets without waiting.
pub(super) fn start(job: Job, cx: &mut Context<'_>) {
    let mut running = Runners::run_here(&RUNNERS, busy, job);
    if Pin::new(&mut running).poll(cx).is_pending() {
        rt::spawn(running);
    }
}

async fn busy(job: Job, (): ()) -> ((), ()) {
    let Job { mux, place, kind } = job;
    match kind {
        JobKind::New { mut head, refusal, is_tunnel, t_req, params } => {
            let mut req = Req::with_new_id(&mux.sess, params, t_req);
            std::mem::swap(&mut req.ask.head, &mut head);
            pool::leave_head(head);
            req.begin_stream(t_req, PROTOCOL);
            serve(H2::new(mux, place, is_tunnel), &mut req, refusal).await;
        }
        JobKind::Upgraded(mut upgraded) => serve(H2::new(mux, place, false), &mut upgraded.req, None).await,
    }
    ((), ())
}

async fn serve(mut h2: H2, req: &mut Req, refusal: Option<HeadRefusal>) {
    match refusal {
        // The client has taken it back already: nothing is fetched for it.
        _ if h2.is_gone() => {}
        None => answer(&mut h2, req).await,
        Some(refusal) => refusal.answer(req, &mut h2),
    }
    req.client.body.give_up();
    // Why it can't be sent any more is known to the stream.
    let _ = poll_fn(|cx| {
        let sent = h2.poll_flush(cx, 0);
        if sent.is_pending() {
            // It may wait for its window as long as its client likes: others need the buffer of its records more.
            req.rest();
        }
        sent
    })
    .await;
    h2.settle();
    req.finish(&h2);
    engine::current::end();
    h2.release();
}

async fn answer(h2: &mut H2, req: &mut Req) {
    if contain::contained(pin!(req.run(h2))).await.is_err() {
        req.engine().main.req_panic.inc();
        req.log.put(Tag::Error, b"Panic in the request: see the panic report");
        if h2.is_begun() {
            h2.abort();
        } else {
            req.minimal(h2, 503, ProxyError::ProxyInternalError);
        }
    }
}

/// Logs a request that never was one, and whose stream is reset.
pub(super) fn refuse(sess: &Rc<Sess>, params: Arc<Params>, malformed: &Malformed, head_bytes: u64) {
    let t_req = sess.engine.clock.real();
    let mut req = Req::with_new_id(sess, params, t_req);
    req.begin_stream(t_req, PROTOCOL);
    refusal::log(&mut req, malformed);
    req.finish_with(TransportAcct { req_head: head_bytes, ..TransportAcct::default() });
    engine::current::end();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred of them are well below a megabyte, with all that they point to.
    const MOST_FUTURE_BYTES: usize = 4096;

    /// Bytes of what the function returns.
    fn future_bytes<J, K, F: Future>(_: fn(J, K) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_hundred_waiting_streams_are_no_burden() {
        let bytes = future_bytes(busy);
        assert!(
            bytes <= MOST_FUTURE_BYTES,
            "a stream's future has {bytes} bytes: what of it is rare belongs into a box"
        );
    }
}
