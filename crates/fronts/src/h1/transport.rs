// SPDX-License-Identifier: BSD-2-Clause
//! A connection as the engine's [`Transport`]: request bodies in, responses out.

use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use engine::httplog::RESP;
use engine::transport::{Acct, BodyError, BodyLen, BodyState, SendError, Transport, Tunnel};
use http1::{ChunkHeader, Cut, Decoder, Framing, LAST_CHUNK, Step};
use message::hop::{self, Persistence};
use message::{Head, Version, list, names};
use rt::{Instant, Sleep};
use shm::vsl::TxnLog;
use storage::Buf;
use tables::close::SessClose;

use crate::buffers::Buffers;
use crate::conn::{AFTER_PIPE, Conn, Parting};
use crate::output::Output;
use crate::pace::{Pace, Verdict};
use crate::send_limits::{SendLimits, Wait};

/// Bytes of a request's body read at once.
const BODY_READ_BYTES: usize = 16 * 1024;
/// So much of a body is looked at before anybody hears of its request, when it has come by then.
const LOOK_BYTES: usize = 64 * 1024;
/// Read at once where only the connection's end is looked for: the beginning of the next request, if it isn't the end.
const GONE_READ_BYTES: usize = 1024;
/// A buffer that grew beyond this isn't kept.
const KEEP_BYTES: usize = 16 * 1024;

/// How the response's body is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    /// No head yet.
    Nothing,
    /// As it is.
    Plain,
    /// In chunks.
    Chunked,
    /// Not at all.
    NoBody,
}

/// A connection that is busy.
pub(crate) struct H1 {
    /// What lies in its input before `used` is done with.
    pub(crate) conn: Box<Conn>,
    pub(crate) used: usize,
    pub(crate) acct: Acct,
    output: Output,
    body: Option<Decoder>,
    body_len: Option<u64>,
    body_failed: Option<BodyError>,
    body_done: bool,
    version: Version,
    sending: Sending,
    /// Bytes of the announced length still to come.
    left: Option<u64>,
    /// The body wasn't what was announced: the connection can't go on.
    is_broken: bool,
    /// The client is to get a reset instead of an end.
    is_reset: bool,
    send_limits: SendLimits,
    send_timer: Option<Pin<Box<Sleep>>>,
    recv_timer: Option<Pin<Box<Sleep>>>,
    /// A request was served.
    pub(crate) was_busy: bool,
    /// When the head that has begun to come must be whole.
    pub(crate) head_deadline: Option<Instant>,
    /// Since when the client owes us the next piece of its body.
    recv_since: Option<Instant>,
    recv_pace: Pace,
    send_pace: Pace,
}

impl H1 {
    /// The connection is busy from now on.
    pub(crate) fn new(mut conn: Box<Conn>, buffers: Buffers) -> Self {
        let Buffers { input, output } = buffers;
        if conn.input.is_empty() {
            conn.input = input;
        }
        H1 {
            conn,
            used: 0,
            acct: Acct::default(),
            output,
            body: None,
            body_len: None,
            body_failed: None,
            body_done: true,
            version: Version::HTTP11,
            sending: Sending::Nothing,
            left: None,
            is_broken: false,
            is_reset: false,
            send_limits: SendLimits::NONE,
            send_timer: None,
            recv_timer: None,
            was_busy: false,
            head_deadline: None,
            recv_since: None,
            recv_pace: Pace::default(),
            send_pace: Pace::default(),
        }
    }

    /// The connection is idle from now on, or at its end. Its buffers are for the next one when nothing is in them.
    pub(crate) fn into_parts(mut self) -> (Box<Conn>, Buffers) {
        self.compact();
        let input = if self.conn.input.is_empty() { std::mem::take(&mut self.conn.input) } else { Vec::new() };
        (self.conn, Buffers { input, output: self.output }.emptied())
    }

    pub(crate) fn is_piped(&self) -> bool {
        self.conn.stream.is_none()
    }

    pub(crate) fn head_is_sent(&self) -> bool {
        self.sending != Sending::Nothing
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Moves what is left of the input to its start.
    pub(crate) fn compact(&mut self) {
        self.conn.input.drain(..self.used);
        self.used = 0;
    }

    /// Reads to the end of the input, as much as it has room for; 0 is the end of the stream.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        let stream = self.conn.stream.as_mut().expect(AFTER_PIPE);
        stream.poll_read_buf(cx, &mut self.conn.input)
    }

    /// A request begins, with this body.
    pub(crate) fn expect_body(&mut self, framing: Framing, version: Version) {
        self.version = version;
        self.body_failed = None;
        self.body_len = match framing {
            Framing::Length(n) => Some(n),
            Framing::None | Framing::Chunked | Framing::Eof => None,
        };
        self.body_done = framing == Framing::None;
        self.body = (!self.body_done).then(|| Decoder::request(framing));
        self.sending = Sending::Nothing;
        self.left = None;
    }

    /// What is broken about the framing of the body that has begun, as far as the client has sent it by now. Nobody has
    /// heard of the request yet, so the whole of it can be refused: later its origin would see it break off.
    pub(crate) fn broken_at_once(&mut self) -> Option<http1::BodyError> {
        let mut scout = self.body.as_ref().filter(|_| self.body_len.is_none())?.clone();
        let mut seen = self.used;
        while seen < self.conn.input.len() {
            match scout.skip(&self.conn.input[seen..]) {
                Ok(true) => return None,
                Ok(false) => seen = self.conn.input.len(),
                Err(error) => return Some(error),
            }
            if seen - self.used < LOOK_BYTES {
                self.conn.input.reserve(BODY_READ_BYTES);
                // An end or an error is found again by whoever reads the body.
                let _ = self.conn.stream.as_ref().map(|stream| stream.try_read_buf(&mut self.conn.input));
            }
        }
        None
    }

    /// A request is over.
    pub(crate) fn end_request(&mut self) {
        self.acct = Acct::default();
        self.body = None;
        self.recv_timer = None;
        self.recv_since = None;
        self.recv_pace = Pace::default();
        self.send_pace = Pace::default();
        self.send_limits = SendLimits::NONE;
        self.send_timer = None;
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.output.add(|out| out.extend_from_slice(bytes));
    }

    /// Whether the client may still be sending something that nobody will read.
    fn expects_more(&self) -> bool {
        match (&self.body, self.body_failed) {
            (None, _) => false,
            (Some(_), None) => !self.body_done,
            (Some(_), Some(error)) => !matches!(error, BodyError::Closed(_)),
        }
    }

    /// What its end has to heed.
    pub(crate) fn parting(&self) -> Parting {
        let is_sending = self.expects_more();
        Parting { is_sending, has_input: self.used < self.conn.input.len(), is_reset: self.is_reset }
    }

    /// What the decoder makes of the input at hand. `None`: more is needed.
    fn decode(&mut self) -> Option<Result<Option<Buf>, BodyError>> {
        let decoder = self.body.as_mut()?;
        match decoder.decode(&self.conn.input[self.used..]) {
            Ok(Step::Data(range)) => {
                let piece = self.conn.input[self.used + range.start..self.used + range.end].to_vec();
                self.used += range.end;
                self.acct.req_body += piece.len() as u64;
                Some(Ok(Some(Buf::unaccounted(piece))))
            }
            Ok(Step::More { consumed }) => {
                self.used += consumed;
                None
            }
            Ok(Step::End { consumed }) => {
                self.used += consumed;
                self.body_done = true;
                Some(Ok(None))
            }
            Err(error) => Some(Err(BodyError::Malformed(error.text()))),
        }
    }

    fn fail_body(&mut self, error: BodyError) -> Poll<Result<Option<Buf>, BodyError>> {
        self.body_failed = Some(error);
        Poll::Ready(Err(error))
    }

    /// What breaks off where the body is now.
    fn cut(&self) -> &'static str {
        let cut = self.body.as_ref().map_or(Cut::Length, Decoder::cut);
        http1::BodyError::Truncated(cut).text()
    }

    fn closed(&self) -> BodyError {
        BodyError::Closed(self.cut())
    }

    /// Reads more of the body. Ready when something was read, or never will be.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        let mut input = std::mem::take(&mut self.conn.input);
        if self.used == input.len() {
            input.clear();
            self.used = 0;
        }
        input.reserve(BODY_READ_BYTES);
        let filled = loop {
            match self.conn.stream().try_read_buf(&mut input) {
                Ok(0) => break Poll::Ready(Err(self.closed())),
                Ok(n) => break Poll::Ready(Ok(n)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => match self.conn.stream().poll_readable(cx) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => break Poll::Ready(Err(self.closed())),
                    Poll::Pending => break Poll::Pending,
                },
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break Poll::Ready(Err(self.closed())),
            }
        };
        self.conn.input = input;
        match filled {
            Poll::Ready(filled) => {
                self.recv_timer = None;
                self.recv_since = None;
                Poll::Ready(filled.map(|n| self.recv_pace.moved(n, Instant::now)))
            }
            Poll::Pending => self.poll_recv_patience(cx).map(|()| Err(BodyError::TimedOut(self.cut()))),
        }
    }

    /// Ready when the client has had time enough to send more of its body.
    fn poll_recv_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let engine = self.conn.sess.engine.clone();
        let (idle, least) = (self.conn.sess.timeouts.get().idle, engine.params.load().min_recv_rate);
        loop {
            let now = Instant::now();
            let since = *self.recv_since.get_or_insert(now);
            self.recv_pace.waits(now);
            let mut limit = idle.saturating_sub(now - since);
            match self.recv_pace.judge(least, now) {
                Verdict::TooSlow => {
                    engine.main.recv_rate_low.inc();
                    return Poll::Ready(());
                }
                Verdict::GoOn(_) if limit.is_zero() && !idle.is_zero() => return Poll::Ready(()),
                Verdict::GoOn(Duration::ZERO) => {}
                Verdict::GoOn(left) => limit = if idle.is_zero() { left } else { limit.min(left) },
            }
            if poll_timer(&mut self.recv_timer, limit, cx).is_pending() {
                return Poll::Pending;
            }
            self.recv_timer = None;
        }
    }

    /// Ready when the client has had time enough to read.
    fn poll_send_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let sess = self.conn.sess.clone();
        let (engine, timeouts) = (&sess.engine, sess.timeouts.get());
        let least = engine.params.load().min_send_rate;
        loop {
            let now = Instant::now();
            self.send_pace.waits(now);
            let mut limit = match self.send_limits.wait(engine.clock.mono(), timeouts.send, timeouts.idle_send) {
                Wait::Over => return Poll::Ready(()),
                Wait::For(limit) => limit,
                Wait::Forever => Duration::MAX,
            };
            match self.send_pace.judge(least, now) {
                Verdict::TooSlow => {
                    engine.main.send_rate_low.inc();
                    return Poll::Ready(());
                }
                Verdict::GoOn(Duration::ZERO) => {}
                Verdict::GoOn(left) => limit = limit.min(left),
            }
            if limit == Duration::MAX || poll_timer(&mut self.send_timer, limit, cx).is_pending() {
                return Poll::Pending;
            }
            self.send_timer = None;
        }
    }
}

/// Ready when `limit` has passed since the timer was first asked (zero: never).
fn poll_timer(timer: &mut Option<Pin<Box<Sleep>>>, limit: Duration, cx: &mut Context<'_>) -> Poll<()> {
    if limit.is_zero() {
        return Poll::Pending;
    }
    timer.get_or_insert_with(|| Box::pin(rt::sleep(limit))).as_mut().poll(cx)
}

impl Transport for H1 {
    fn connection(&mut self, head: &mut Head) -> Result<Option<SessClose>, SessClose> {
        match hop::connection(head) {
            Ok(Persistence::Keep) => Ok(None),
            Ok(Persistence::Close) => Ok(Some(SessClose::ReqClose)),
            Ok(Persistence::Http10) => Ok(Some(SessClose::ReqHttp10)),
            Err(hop::BadConnection) => Err(SessClose::RxBad),
        }
    }

    fn send_head(
        &mut self,
        resp: &mut Head,
        len: BodyLen,
        close: Option<SessClose>,
        log: &mut TxnLog,
    ) -> Option<SessClose> {
        if let Some(tos) = self.conn.sess.tos.take() {
            // A mark on packets is a wish: a kernel that refuses it costs no response.
            let _ = self.conn.stream().set_tos(tos);
        }
        let mut close = close;
        if self.conn.sess.engine.draining.load(Ordering::Relaxed) {
            close.get_or_insert(SessClose::RespClose);
        }
        let says_close = resp.get(names::CONNECTION).is_some_and(|value| list::is(value, b"close"));
        if says_close {
            close.get_or_insert(SessClose::RespClose);
        } else if close.is_some() {
            let _ = RESP.force(resp, log, names::CONNECTION, b"close");
        } else if !resp.has(names::CONNECTION) {
            let _ = RESP.append(resp, log, names::CONNECTION, &[b"keep-alive"]);
        }
        self.sending = match len {
            BodyLen::None => Sending::NoBody,
            BodyLen::Known(_) => Sending::Plain,
            BodyLen::Unknown if self.version == Version::HTTP11 => {
                let _ = RESP.append(resp, log, names::TRANSFER_ENCODING, &[b"chunked"]);
                Sending::Chunked
            }
            BodyLen::Unknown => {
                close = Some(SessClose::TxEof);
                Sending::Plain
            }
        };
        self.left = match len {
            BodyLen::Known(len) => Some(len),
            BodyLen::None | BodyLen::Unknown => None,
        };
        let sess = &self.conn.sess;
        self.send_limits.begin(sess.engine.mono_of(log.last()), sess.timeouts.get().send);
        self.output.begin_body(self.left);
        self.acct.resp_head += self.output.add(|out| resp.write_to(out)) as u64;
        close
    }

    fn send_data(&mut self, mut piece: Buf) {
        if let Some(left) = &mut self.left {
            if piece.len() as u64 > *left {
                // The client would take the excess for the next response.
                self.is_broken = true;
                piece = piece.slice(0..*left as usize);
            }
            *left -= piece.len() as u64;
        }
        if piece.is_empty() || self.sending == Sending::NoBody {
            return;
        }
        self.acct.resp_body += piece.len() as u64;
        if self.sending == Sending::Chunked {
            let size = ChunkHeader::new(piece.len());
            self.output.add(|out| out.extend_from_slice(size.as_bytes()));
            self.output.add_stored(piece);
            self.output.add(|out| out.extend_from_slice(b"\r\n"));
        } else {
            self.output.add_stored(piece);
        }
    }

    fn send_end(&mut self) {
        if self.left.is_some_and(|left| left > 0) {
            self.is_broken = true;
        }
        if self.sending == Sending::Chunked {
            self.output.add(|out| out.extend_from_slice(LAST_CHUNK));
        }
    }

    fn abort(&mut self) {
        // What is queued may go out: without its last chunk, or its announced length, nobody takes it for whole. A body
        // that ends with the connection would look whole: there the client gets a reset.
        if self.sending == Sending::Plain && self.version < Version::HTTP11 {
            self.conn.stream().reset_on_close();
            self.is_reset = true;
            self.output.clear();
        }
    }

    fn send_minimal(&mut self, status: u16, log: &mut TxnLog) {
        RESP.log_bare_status("HTTP/1.1", status, log);
        let reason = message::status::reason(status);
        self.acct.resp_head += self.output.add(|out| {
            out.extend_from_slice(format!("HTTP/1.1 {status} {reason}\r\n\r\n").as_bytes());
        }) as u64;
        self.sending = Sending::NoBody;
    }

    fn send_continue(&mut self, log: &mut TxnLog) {
        RESP.log_bare_status("HTTP/1.1", 100, log);
        let sent = self.output.add(|out| out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
        self.acct.resp_head += sent as u64;
    }

    fn has_input(&self) -> bool {
        self.used < self.conn.input.len()
    }

    fn send_interim(&mut self, interim: &Head) {
        if self.version >= Version::HTTP11 {
            self.acct.resp_head += self.output.add(|out| interim.write_to(out)) as u64;
        }
    }

    fn queued(&self) -> usize {
        self.output.len()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>, keep: usize) -> Poll<Result<(), SendError>> {
        while self.output.len() > keep {
            let Some(stream) = &self.conn.stream else { return Poll::Ready(Err(SendError::Closed)) };
            if self.send_limits.forbid_write(|| self.conn.sess.engine.clock.mono()) {
                return Poll::Ready(Err(SendError::TimedOut));
            }
            match self.output.write(stream) {
                Ok(0) => return Poll::Ready(Err(SendError::Closed)),
                Ok(n) => {
                    // Room in the socket for all that is queued isn't a client that has caught up: more is at hand.
                    self.send_limits.wrote(keep == 0 && self.output.len() == 0);
                    self.send_pace.moved(n, Instant::now);
                    self.send_timer = None;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => match stream.poll_writable(cx) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(SendError::Closed)),
                    Poll::Pending => return self.poll_send_patience(cx).map(|()| Err(SendError::TimedOut)),
                },
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Poll::Ready(Err(SendError::Closed)),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(stream) = self.conn.stream.as_ref().filter(|_| !self.expects_more()) else { return Poll::Pending };
        loop {
            // Behind a request that is at hand already an end isn't looked for: its answer is still wanted.
            if self.used < self.conn.input.len() {
                return Poll::Pending;
            }
            self.conn.input.reserve(GONE_READ_BYTES);
            match stream.try_read_buf(&mut self.conn.input) {
                Ok(0) => return Poll::Ready(()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => match stream.poll_readable(cx) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                },
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Poll::Ready(()),
            }
        }
    }

    fn body_state(&self) -> BodyState {
        match (&self.body, self.body_failed, self.body_done) {
            (_, Some(_), _) => BodyState::Failed,
            (None, ..) => BodyState::None,
            (Some(_), None, true) => BodyState::Done,
            (Some(_), None, false) => BodyState::Unread,
        }
    }

    fn body_len(&self) -> Option<u64> {
        self.body_len
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, BodyError>> {
        if let Some(error) = self.body_failed {
            return Poll::Ready(Err(error));
        }
        if self.body_done {
            return Poll::Ready(Ok(None));
        }
        loop {
            match self.decode() {
                Some(Ok(piece)) => {
                    if self.conn.input.capacity() > KEEP_BYTES * 4 && self.used == self.conn.input.len() {
                        self.conn.input = Vec::new();
                        self.used = 0;
                    }
                    return Poll::Ready(Ok(piece));
                }
                Some(Err(error)) => return self.fail_body(error),
                None => {}
            }
            match self.poll_fill(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return self.fail_body(error),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn take_tunnel(&mut self) -> Option<Tunnel> {
        let stream = self.conn.stream.take()?;
        let buffered = self.conn.input[self.used..].to_vec();
        self.used = self.conn.input.len();
        Some(Tunnel { stream, buffered })
    }

    fn acct(&self) -> Acct {
        self.acct
    }
}
