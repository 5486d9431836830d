// SPDX-License-Identifier: BSD-2-Clause
//! A connection between its requests: all that an idle one holds, and its end.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use engine::Sess;
use net::Stream;
use net::scarce::IdleSlot;
use rt::Instant;

use crate::h2::Mux;

/// Panic text: the stream was used after `pipe` took it.
pub(crate) const AFTER_PIPE: &str = "nothing is read or written after a pipe";

pub(crate) struct ClientConn {
    /// There is one until `pipe` takes it.
    pub(crate) stream: Option<Stream>,
    pub(crate) sess: Rc<Sess>,
    /// Shared state of its streams, once it speaks HTTP/2.
    pub(crate) h2: Option<Rc<Mux>>,
    /// Bytes that were read; without memory while it is idle.
    pub(crate) input: Vec<u8>,
    pub(crate) has_asked: bool,
    /// The entry among idle connections, for when descriptors get few.
    pub(crate) idle_slot: IdleSlot,
    pub(crate) idle_since: Instant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CloseState {
    /// The client may still be sending something that nobody will read.
    pub(crate) is_sending: bool,
    /// Something was read that nobody wants.
    pub(crate) has_input: bool,
    pub(crate) is_reset: bool,
}

impl ClientConn {
    pub(crate) fn new(stream: Stream, sess: Rc<Sess>) -> Self {
        let (stream, input, idle_since) = (Some(stream), Vec::new(), Instant::now());
        ClientConn { stream, sess, h2: None, input, has_asked: false, idle_slot: IdleSlot::default(), idle_since }
    }

    pub(crate) fn stream(&self) -> &Stream {
        self.stream.as_ref().expect(AFTER_PIPE)
    }

    /// Reads up to `bytes`, or more if there is room already, to the end of the input; 0 is the end of the stream.
    pub(crate) fn poll_more(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<io::Result<usize>> {
        let stream = self.stream.as_mut().expect(AFTER_PIPE);
        self.input.reserve(bytes);
        loop {
            match ready!(stream.poll_read_buf(cx, &mut self.input)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return Poll::Ready(read),
            }
        }
    }

    /// Does what `std.set_ip_tos` asked for.
    pub(crate) fn set_tos(&self) {
        if let Some(tos) = self.sess.tos.take() {
            // A mark on packets is a wish: a kernel that refuses it costs no response.
            let _ = self.stream().set_tos(tos);
        }
    }

    pub(crate) fn idle_deadline(&self) -> Instant {
        self.idle_since + self.sess.timeouts.get().idle
    }

    /// The connection ends. Unread input would make the system reset it before the client has read the answer
    /// (RFC 9112 9.6): it is read, and `true` asks to go on with [`ClientConn::linger`].
    pub(crate) fn finish(&mut self, state: CloseState) -> bool {
        self.input = Vec::new();
        let Some(stream) = self.stream.as_ref().filter(|_| !state.is_reset) else { return false };
        // What stands behind a record that can't be opened is unread input, too.
        let is_sending = state.is_sending || state.has_input || stream.tls_fault().is_some();
        // With TLS the end itself has to be said.
        if is_sending || stream.is_sealed() {
            stream.shutdown_write();
        }
        let has_ended = stream.poll_ended(&mut Context::from_waker(Waker::noop())).is_ready();
        match drain(stream) {
            DrainOutcome::Ended | DrainOutcome::Waits { seen: 0 } if !has_ended => true,
            DrainOutcome::Ended => false,
            DrainOutcome::Waits { seen: 0 } => is_sending,
            DrainOutcome::Waits { .. } | DrainOutcome::Goes => {
                stream.shutdown_write();
                true
            }
        }
    }

    /// Reads on while the client sends what nobody wants, and tells it the end where that was more than its socket took: until it ends or
    /// pauses, and not for ever, nor while others need its descriptor.
    pub(crate) async fn linger(&self) {
        const PAUSE: Duration = Duration::from_secs(5);
        const MAX: Duration = Duration::from_secs(30);
        let Some(stream) = &self.stream else { return };
        let until = Instant::now() + MAX;
        let place = self.idle_slot.take();
        loop {
            let now = Instant::now();
            match drain(stream) {
                DrainOutcome::Ended => {
                    let _ = rt::timeout_at(until.min(now + PAUSE), poll_fn(|cx| stream.poll_ended(cx))).await;
                    return;
                }
                _ if now >= until || net::scarce::is_near() => return,
                DrainOutcome::Goes => rt::yield_now().await,
                DrainOutcome::Waits { .. } => {
                    let more = poll_fn(|cx| {
                        if place.poll(cx.waker()).is_ready() {
                            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                        }
                        let _ = stream.poll_ended(cx);
                        unread(stream).poll_readable(cx)
                    });
                    if !matches!(rt::timeout_at(until.min(now + PAUSE), more).await, Ok(Ok(()))) {
                        return;
                    }
                }
            }
        }
    }
}

enum DrainOutcome {
    /// The client has said that this was all, or is gone.
    Ended,
    /// The number of bytes that came; no more are at hand.
    Waits { seen: usize },
    /// Enough for one turn, and there may be more.
    Goes,
}

/// The stream to drain: below TLS if a record can't be opened.
fn unread(stream: &Stream) -> &Stream {
    if stream.tls_fault().is_some() { stream.carrier() } else { stream }
}

fn drain(stream: &Stream) -> DrainOutcome {
    const MAX: usize = 64 * 1024;
    let (mut waste, mut seen) = ([0; 4096], 0);
    while seen < MAX {
        match unread(stream).try_read(&mut waste) {
            Ok(0) => return DrainOutcome::Ended,
            Ok(n) => seen += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return DrainOutcome::Waits { seen },
            Err(_) => return DrainOutcome::Ended,
        }
    }
    DrainOutcome::Goes
}
