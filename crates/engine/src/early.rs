// SPDX-License-Identifier: BSD-2-Clause
//! Early data (RFC 8470): requests that came before their client's handshake was done. An attacker could have replayed
//! them, so only safe methods are served meanwhile, origins are informed (`Early-Data: 1`), and an origin that responds
//! with 425 is asked once more after the handshake.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use message::{Head, names};
use tables::close::SessClose;
use tables::tags::Tag;

use crate::bereq::Bereq;
use crate::httplog::BEREQ;
use crate::req::Req;

/// The status "Too Early" (RFC 8470 5.2).
const TOO_EARLY: u16 = 425;

/// Methods that change nothing (RFC 9110 9.2.1), of those that we know.
const SAFE: [&[u8]; 3] = [b"GET", b"HEAD", b"OPTIONS"];

/// True for a method whose request may be answered from early data if it has no body.
pub fn is_safe(head: &Head) -> bool {
    SAFE.contains(&head.method())
}

/// A handshake that continues while requests of early data are served. Wakes tasks that wait for its end.
#[derive(Debug, Default)]
pub struct Handshaking {
    progress: Cell<HandshakeProgress>,
    wakers: RefCell<Vec<Waker>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum HandshakeProgress {
    #[default]
    Running,
    /// The client has shown that it is there.
    Done,
    Failed,
}

impl Handshaking {
    pub fn end(&self, is_done: bool) {
        self.progress.set(if is_done { HandshakeProgress::Done } else { HandshakeProgress::Failed });
        self.wakers.take().into_iter().for_each(Waker::wake);
    }

    pub fn is_done(&self) -> bool {
        self.progress.get() == HandshakeProgress::Done
    }

    pub fn poll_end(&self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.progress.get() != HandshakeProgress::Running {
            return Poll::Ready(self.is_done());
        }
        let mut wakers = self.wakers.borrow_mut();
        if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Req {
    /// Marks a request that came by early data during a handshake. A request that carries Early-Data already came
    /// through a proxy, whose client is to receive the 425.
    pub fn came_early(&mut self, handshaking: &Rc<Handshaking>) {
        if self.ask.head.has(names::EARLY_DATA) {
            return;
        }
        if self.ask.head.append(names::EARLY_DATA, b"1").is_err() {
            self.log.count_lost();
        }
        self.client.early = Some(handshaking.clone());
    }
}

impl Bereq {
    /// Adds Early-Data for the origin, whatever VCL made of the client's header, unless the handshake is done
    /// meanwhile.
    pub(crate) fn say_early(&mut self) {
        let Some(handshaking) = &self.requester.client.early else { return };
        let is_done = handshaking.is_done();
        let (head, log) = (&mut self.ask.original, &mut self.log);
        if is_done {
            self.requester.client.early = None;
            BEREQ.unset(head, log, names::EARLY_DATA);
        } else if BEREQ.force(head, log, names::EARLY_DATA, b"1").is_err() {
            self.log.count_lost();
        }
    }

    /// Sends the request again, once the client's handshake is done, to an origin that refused early data. Keeps the
    /// refusal if the handshake fails. The error means that the origin didn't respond this time.
    pub(crate) async fn ask_not_too_early(&mut self) -> Result<(), ()> {
        if !self.beresp.is_status(TOO_EARLY) {
            return Ok(());
        }
        let Some(handshaking) = self.requester.client.early.take() else { return Ok(()) };
        self.log.flush();
        let ended = self.unless_unwanted(poll_fn(|cx| handshaking.poll_end(cx))).await;
        if ended != Some(true) {
            return Ok(());
        }
        self.engine.main.early_data_retry.inc();
        self.end_link(Some(SessClose::RespClose));
        self.log.put(Tag::Debug, b"425: asked again after the handshake");
        BEREQ.unset(&mut self.ask.head, &mut self.log, names::EARLY_DATA);
        BEREQ.unset(&mut self.ask.original, &mut self.log, names::EARLY_DATA);
        self.ask_backend().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_waits_is_woken_once_it_is_known() {
        for is_done in [true, false] {
            let (handshaking, woken) = (Handshaking::default(), Arc::<Woken>::default());
            let waker = Waker::from(woken.clone());
            let mut cx = Context::from_waker(&waker);
            assert!(handshaking.poll_end(&mut cx).is_pending() && handshaking.poll_end(&mut cx).is_pending());
            assert!(!handshaking.is_done() && !woken.0.load(Ordering::Relaxed));
            handshaking.end(is_done);
            assert!(woken.0.load(Ordering::Relaxed));
            assert_eq!((handshaking.poll_end(&mut cx), handshaking.is_done()), (Poll::Ready(is_done), is_done));
        }
    }
}
