// SPDX-License-Identifier: BSD-2-Clause
//! Waiting without standing in the way: while a request waits for something, its body flows to whom reads it and what is
//! queued for the client goes out.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use cache::ObjRef;
use tables::close::SessClose;
use tables::tags::Tag;

use super::Req;
use crate::transport::{ReqBodyError, Transport};

/// The departure of a client that ends a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departure {
    /// None: the wait goes on without the client.
    Ignored,
    /// The client has taken its request back.
    Reset,
    /// The client has taken its request back, or has closed its end of the connection.
    Closed,
}

impl Departure {
    /// With `is_asked`, a client that has closed its end counts as gone, too.
    pub(crate) fn new(is_asked: bool) -> Self {
        if is_asked { Departure::Closed } else { Departure::Reset }
    }

    fn poll(self, cx: &mut Context<'_>, transport: &mut dyn Transport) -> Poll<()> {
        match self {
            Departure::Ignored => Poll::Pending,
            Departure::Reset => transport.poll_reset(cx),
            Departure::Closed => transport.poll_peer_closed(cx),
        }
    }
}

impl Req {
    pub(crate) async fn drive<F: Future>(&mut self, transport: &mut dyn Transport, wait: F) -> F::Output {
        let wait = pin!(wait);
        self.drive_until(Departure::Ignored, transport, wait).await.expect("a client's departure is ignored")
    }

    /// Waits with the client. Returns `None` if the client departs first, and then gives up the future.
    pub(crate) async fn drive_until<F: Future>(
        &mut self,
        until: Departure,
        transport: &mut dyn Transport,
        wait: F,
    ) -> Option<F::Output> {
        self.continue_if_due(transport);
        let body = self.client.body.clone();
        let mut wait = pin!(wait);
        poll_fn(|cx| {
            if let Poll::Ready(done) = wait.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            self.log.rest();
            // A client that doesn't read is gone only where its end matters.
            let sent = transport.poll_flush(cx, 0);
            if until == Departure::Closed && matches!(sent, Poll::Ready(Err(_))) {
                return Poll::Ready(None);
            }
            if body.exists()
                && body.poll_pump(cx, transport).is_ready()
                && let Poll::Ready(done) = wait.as_mut().poll(cx)
            {
                return Poll::Ready(Some(done));
            }
            until.poll(cx, transport).map(|()| None)
        })
        .await
    }

    /// Does what [`Req::drive_until`] does, until the client is gone as far as that matters to this request.
    pub(crate) async fn drive_for_client<F: Future>(
        &mut self,
        transport: &mut dyn Transport,
        wait: F,
    ) -> Option<F::Output> {
        // Others may have use for what isn't a pass: only a client that said so is gone then.
        let until = Departure::new(self.client.gives_up && self.params.pass_abort);
        if self.is_known_as_peers() {
            // Boxed: requests of clients shan't have a larger future.
            return Box::pin(self.drive_for_peer(until, transport, wait)).await;
        }
        self.drive_until(until, transport, wait).await
    }

    /// Tells the client to send its body, once somebody wants it.
    fn continue_if_due(&mut self, transport: &mut dyn Transport) {
        if self.client.body.take_due() {
            transport.send_continue(&mut self.log);
        }
    }

    /// The body was read for somebody, to its end or as far as it could be. After one that broke the connection ends.
    pub(super) fn end_reading(&mut self) {
        match self.client.body.failure() {
            Some(ReqBodyError::GivenUp) | None => {}
            Some(error) => {
                self.log.put(Tag::FetchError, error.text().as_bytes());
                self.client.close = Some(SessClose::RxBody);
            }
        }
        self.mark("ReqBody");
    }

    /// Lets a fetch that this request doesn't wait for have its body: until the body ends, or the fetch has an answer and
    /// reads no further.
    pub(super) async fn send_body_to(&mut self, fresh: &ObjRef, transport: &mut dyn Transport) {
        let body = self.client.body.clone();
        if !body.is_lent() {
            return;
        }
        self.log.put(Tag::Storage, b"malloc Transient");
        let mut answered = pin!(fresh.headers());
        let sent = poll_fn(|cx| match body.is_lent() {
            true => answered.as_mut().poll(cx).map(drop),
            false => Poll::Ready(()),
        });
        self.drive(transport, sent).await;
        self.end_reading();
    }

    /// Reads what is left of the body and throws it away, so that the connection can go on; gives up on a body that is
    /// broken or too long, and, where the connection can go on without it, on what hasn't come.
    pub async fn discard_body(&mut self, transport: &mut dyn Transport) {
        let waits = transport.reads_all();
        self.read_away(transport, waits).await;
    }

    /// Does what [`Req::discard_body`] does. With `waits`, waits for the part that hasn't come.
    pub(super) async fn read_away(&mut self, transport: &mut dyn Transport, waits: bool) {
        use crate::transport::BodyState;
        const MAX: usize = 1 << 20;
        if self.client.close.is_some() {
            // The answer needn't wait: the connection's end takes care of what still comes.
            return;
        }
        let is_unread = self.client.body.is_unread();
        if is_unread {
            self.log.put(Tag::Storage, b"malloc Transient");
        }
        if self.client.body.take_expected() {
            transport.send_continue(&mut self.log);
        }
        let mut seen = 0;
        while transport.body_state() == BodyState::Unread {
            let piece = poll_fn(|cx| {
                let _ = transport.poll_flush(cx, 0);
                match transport.poll_body(cx) {
                    Poll::Pending if !waits => Poll::Ready(Err(ReqBodyError::GivenUp)),
                    Poll::Pending => {
                        self.log.rest();
                        Poll::Pending
                    }
                    piece => piece,
                }
            })
            .await;
            match piece {
                Err(ReqBodyError::GivenUp) => break,
                Ok(Some(piece)) if seen + piece.len() <= MAX => seen += piece.len(),
                Ok(None) => break,
                Ok(Some(_)) => {
                    self.client.close = Some(SessClose::RxBody);
                    break;
                }
                Err(error) => {
                    self.log.put(Tag::FetchError, error.text().as_bytes());
                    self.client.close = Some(SessClose::RxBody);
                    break;
                }
            }
        }
        if is_unread {
            self.client.body.discarded();
            self.mark("ReqBody");
        }
    }
}
