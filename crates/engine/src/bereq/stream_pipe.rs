// SPDX-License-Identifier: BSD-2-Clause
//! A pipe whose client has a stream of HTTP/2 or HTTP/3 (extended CONNECT, RFC 8441, RFC 9220). The bytes of both sides travel as bodies do, so that
//! windows hold back who is faster than the other.
//!
//! ```text
//! request --101, 200--> 200, bytes both ways --both have ended--> over
//!    |                  \--one breaks, silence--> both are reset
//!    |--any other answer--> that answer, and its body
//!    \--no answer, no handshake--> 502, 503
//! ```

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use backend::{BackendConn, BodyLen, BodyStatus, Data, Received, SendProgress};
use message::{Head, names};
use rt::{Instant, Sleep};
use shm::vsl::TxnLog;
use storage::Buf;
use tables::close::SessClose;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::pipe::PipeAcct;
use super::relay::HELD_BYTES;
use super::wire::response_limits;
use crate::httplog::BEREQ;
use crate::proxy_status::ProxyCause;
use crate::req::Req;
use crate::transport::Transport;

/// Moves of bytes before other tasks get their turn.
const ROUNDS: usize = 16;

/// Reasons why the pipe didn't end as either side wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PipeError {
    Client,
    Backend,
    /// Nothing moved for `pipe_timeout`, or the time for all is over.
    Late,
    /// There is no answer that could be passed on: why.
    NoAnswer(&'static str),
}

impl PipeError {
    /// Tells both sides, and the log where there is something to say.
    pub(super) fn tell(self, conn: &mut BackendConn, log: &mut TxnLog, req: &mut Req, transport: &mut dyn Transport) {
        match self {
            PipeError::Client => conn.reset(SessClose::RemClose),
            PipeError::Backend | PipeError::Late => transport.abort(),
            PipeError::NoAnswer(reason) => {
                log.put(Tag::FetchError, reason.as_bytes());
                let cause = ProxyCause::new(ProxyError::HttpUpgradeFailed, reason);
                refuse(502, &cause.at(Some(conn.backend()), &req.params), req, transport);
            }
        }
    }
}

/// Answers a client that has a stream and no pipe. One that has a connection sees that closed, as ever.
pub(super) fn refuse(status: u16, cause: &ProxyCause, req: &mut Req, transport: &mut dyn Transport) {
    if transport.asks_tunnel() {
        req.minimal_because(transport, status, cause);
    }
}

pub(super) async fn carry(
    conn: &mut BackendConn,
    bereq: &mut Head,
    log: &mut TxnLog,
    req: &mut Req,
    transport: &mut dyn Transport,
    acct: &mut PipeAcct,
) -> Result<(), PipeError> {
    let handshake = Handshake::begin(conn, bereq, log)?;
    let limit = params::timeouts::pipe(&req.params);
    let mut silence = Silence::new(limit);
    let mut beresp = Head::with_limits(bereq.limits());
    conn.send_head(bereq, BodyLen::None, &response_limits(&req.params));
    let body = poll_fn(|cx| {
        if let Poll::Ready(answer) = poll_answer(conn, &mut beresp, transport, cx) {
            return Poll::Ready(answer);
        }
        silence.poll(cx).map(Err)
    })
    .await?;
    let is_open = handshake.judge(&mut beresp)?;
    let len = match body {
        _ if is_open => BodyLen::Unknown,
        BodyStatus::None => BodyLen::None,
        BodyStatus::Length(len) => BodyLen::Known(len),
        BodyStatus::Chunked | BodyStatus::Eof => BodyLen::Unknown,
    };
    transport.send_head(&mut beresp, len, None, &mut req.log);
    req.log.record(Tag::RespStatus).num(u64::from(beresp.status()));
    req.log.put(Tag::RespReason, message::status::reason(beresp.status()).as_bytes());
    let mut duplex = Duplex {
        conn,
        transport,
        acct,
        beresp,
        up: if is_open { Up::Reading } else { Up::Over },
        is_down: len != BodyLen::None,
        has_moved: true,
    };
    poll_fn(|cx| {
        for _ in 0..ROUNDS {
            if let Poll::Ready(over) = duplex.poll(cx) {
                return Poll::Ready(over);
            }
            if !std::mem::take(&mut duplex.has_moved) {
                return silence.poll(cx).map(Err);
            }
            silence.moved();
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

/// The protocol switch asked of the backend.
enum Handshake {
    /// No switch is asked for.
    None,
    /// A WebSocket as HTTP/1 has it: the key that was sent.
    Http1 { key: String },
    /// A WebSocket that is a stream of the backend's, too.
    Stream,
}

impl Handshake {
    fn begin(conn: &mut BackendConn, bereq: &mut Head, log: &mut TxnLog) -> Result<Self, PipeError> {
        if !is_websocket(bereq) {
            return Ok(Handshake::None);
        }
        if !conn.ask_tunnel() {
            return Err(PipeError::NoAnswer("The backend takes no extended CONNECT"));
        }
        if conn.tunnel().is_none() {
            // It has no use for a key (RFC 8441 5).
            BEREQ.unset(bereq, log, names::SEC_WEBSOCKET_KEY);
            return Ok(Handshake::Stream);
        }
        let key = tls::websocket::key().ok_or(PipeError::NoAnswer("No random numbers"))?;
        BEREQ
            .force(bereq, log, names::SEC_WEBSOCKET_KEY, key.as_bytes())
            .map_err(|_| PipeError::NoAnswer("No room for Sec-WebSocket-Key"))?;
        Ok(Handshake::Http1 { key })
    }

    /// Makes the answer one for a stream; whether that is a tunnel from now on.
    fn judge(&self, beresp: &mut Head) -> Result<bool, PipeError> {
        match (beresp.status(), self) {
            (101, Handshake::Http1 { key }) => {
                let is_accepted = beresp
                    .get(names::SEC_WEBSOCKET_ACCEPT)
                    .is_some_and(|accept| accept == tls::websocket::accept(key).as_bytes());
                if !is_accepted || !is_websocket(beresp) {
                    return Err(PipeError::NoAnswer("Wrong handshake: Sec-WebSocket-Accept"));
                }
                beresp.unset(names::SEC_WEBSOCKET_ACCEPT);
                beresp.set_status(200).map_err(|_| PipeError::NoAnswer("No room for the answer"))?;
                Ok(Self::opens(beresp))
            }
            (200..300, Handshake::Stream) => Ok(Self::opens(beresp)),
            // The client would take it for the beginning of a tunnel.
            (100..300, _) => Err(PipeError::NoAnswer("The backend didn't switch protocols")),
            _ => Ok(false),
        }
    }

    /// Makes the response open a tunnel: bytes of another protocol have no length.
    fn opens(beresp: &mut Head) -> bool {
        beresp.unset(names::CONTENT_LENGTH);
        true
    }
}

/// True if the head asks for a WebSocket, or agrees to one.
pub(super) fn is_websocket(head: &Head) -> bool {
    head.get(names::UPGRADE).is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"))
}

/// Sends what is queued, and then waits for the final head; what body it has.
fn poll_answer(
    conn: &mut BackendConn,
    beresp: &mut Head,
    transport: &mut dyn Transport,
    cx: &mut Context<'_>,
) -> Poll<Result<BodyStatus, PipeError>> {
    const NO_ANSWER: PipeError = PipeError::NoAnswer("No answer of the backend");
    loop {
        match conn.poll_send(cx, beresp) {
            Poll::Ready(Ok(SendProgress::All | SendProgress::Answered | SendProgress::Begun)) => {}
            Poll::Ready(Ok(SendProgress::Part | SendProgress::Interim)) => continue,
            Poll::Ready(Err(_)) => return Poll::Ready(Err(NO_ANSWER)),
            Poll::Pending => break,
        }
        match conn.poll_head(cx, beresp) {
            Poll::Ready(Ok(Received::Final { body, .. })) => return Poll::Ready(Ok(body)),
            Poll::Ready(Ok(Received::Part | Received::Interim)) => {}
            Poll::Ready(Err(_)) => return Poll::Ready(Err(NO_ANSWER)),
            Poll::Pending => break,
        }
    }
    transport.poll_peer_closed(cx).map(|()| Err(PipeError::Client))
}

/// State of the direction from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Up {
    /// The next bytes are waited for.
    Reading,
    /// Some are on their way to the backend; `ends`: they are the last.
    Writing { ends: bool },
    /// No more come, or nobody wants them.
    Over,
}

struct Duplex<'a> {
    conn: &'a mut BackendConn,
    transport: &'a mut dyn Transport,
    acct: &'a mut PipeAcct,
    beresp: Head,
    up: Up,
    is_down: bool,
    has_moved: bool,
}

impl Duplex<'_> {
    /// Moves what can be moved; ready once both have ended, or one has broken.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PipeError>> {
        self.poll_up(cx)?;
        let was_held = self.transport.queued() > HELD_BYTES;
        if self.is_down && !was_held {
            self.poll_down(cx)?;
        }
        let flushed = self.transport.poll_flush(cx, 0).map_err(|_| PipeError::Client)?;
        self.has_moved |= was_held && self.transport.queued() <= HELD_BYTES;
        if flushed.is_ready() && !self.is_down && self.up == Up::Over {
            return Poll::Ready(Ok(()));
        }
        if self.is_down && self.up != Up::Reading && self.transport.poll_peer_closed(cx).is_ready() {
            return Poll::Ready(Err(PipeError::Client));
        }
        Poll::Pending
    }

    fn poll_up(&mut self, cx: &mut Context<'_>) -> Result<(), PipeError> {
        match self.up {
            Up::Over => return Ok(()),
            Up::Reading => match self.transport.poll_body(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Err(_)) => return Err(PipeError::Client),
                Poll::Ready(Ok(Some(piece))) if piece.is_empty() => {}
                Poll::Ready(Ok(Some(piece))) => {
                    self.acct.inwards += piece.len() as u64;
                    self.conn.send_data(piece);
                    self.up = Up::Writing { ends: false };
                }
                Poll::Ready(Ok(None)) => {
                    self.conn.send_end(None);
                    self.up = Up::Writing { ends: true };
                }
            },
            Up::Writing { ends } => match self.conn.poll_send(cx, &mut self.beresp) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(SendProgress::All)) => self.up = if ends { Up::Over } else { Up::Reading },
                Poll::Ready(Ok(SendProgress::Part | SendProgress::Interim | SendProgress::Begun)) => {}
                Poll::Ready(Ok(SendProgress::Answered) | Err(_)) => return Err(PipeError::Backend),
            },
        }
        self.has_moved = true;
        Ok(())
    }

    fn poll_down(&mut self, cx: &mut Context<'_>) -> Result<(), PipeError> {
        match self.conn.poll_data(cx) {
            Poll::Pending => return Ok(()),
            Poll::Ready(Err(_)) => return Err(PipeError::Backend),
            Poll::Ready(Ok(Data::Part)) => {}
            Poll::Ready(Ok(Data::Piece)) => {
                let piece = self.conn.data().to_vec();
                self.acct.outwards += piece.len() as u64;
                self.transport.send_data(Buf::unaccounted(piece));
            }
            Poll::Ready(Ok(Data::End { .. })) => {
                self.transport.send_end(None);
                self.is_down = false;
            }
        }
        self.has_moved = true;
        Ok(())
    }
}

struct Silence {
    limit: Duration,
    last: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    fn new(limit: Duration) -> Self {
        Silence { limit, last: Instant::now(), timer: None }
    }

    fn moved(&mut self) {
        self.last = Instant::now();
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<PipeError> {
        if self.limit.is_zero() {
            return Poll::Pending;
        }
        let until = self.last + self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(rt::sleep_until(until)));
        if timer.deadline() != until {
            timer.as_mut().reset(until);
        }
        timer.as_mut().poll(cx).map(|()| PipeError::Late)
    }
}
