// SPDX-License-Identifier: BSD-2-Clause
//! A connection as the engine's [`Transport`]: request bodies in, responses out.

use std::io::ErrorKind;
use std::task::{Context, Poll, ready};

use engine::httplog::RESP;
use engine::transport::{BodyLen, BodyState, ReqBodyError, SendError, Transport, TransportAcct, Tunnel};
use http1::{BodyStep, Framing};
use message::hop::{self, Persistence};
use message::{Head, HttpVersion};
use shm::vsl::TxnLog;
use storage::Buf;
use tables::close::SessClose;

use super::request_body::RequestBody;
use super::response::Response;
use crate::buffers::Buffers;
use crate::conn::{AFTER_PIPE, ClientConn, CloseState};
use crate::output::OutputQueue;
use crate::waits::{RecvWait, SendWait};

const BODY_READ_BYTES: usize = 16 * 1024;
/// Bytes of a chunked body that are checked for broken framing before the request runs.
const LOOK_BYTES: usize = 64 * 1024;
/// Read at once where only the connection's end is looked for: the beginning of the next request, if it isn't the end.
const GONE_READ_BYTES: usize = 1024;
/// A buffer that grew beyond this isn't kept.
const KEEP_BYTES: usize = 16 * 1024;

pub(crate) struct H1 {
    pub(crate) conn: Box<ClientConn>,
    pub(crate) used: usize,
    pub(crate) acct: TransportAcct,
    output: OutputQueue,
    body: RequestBody,
    response: Response,
    /// The client is to get a reset instead of an end.
    is_reset: bool,
    recv: RecvWait,
    send: SendWait,
    pub(crate) was_busy: bool,
}

impl H1 {
    pub(crate) fn new(mut conn: Box<ClientConn>, buffers: Buffers) -> Self {
        let Buffers { input, output } = buffers;
        if conn.input.is_empty() {
            conn.input = input;
        }
        H1 {
            conn,
            used: 0,
            acct: TransportAcct::default(),
            output,
            body: RequestBody::None,
            response: Response::new(HttpVersion::HTTP11),
            is_reset: false,
            recv: RecvWait::default(),
            send: SendWait::new(),
            was_busy: false,
        }
    }

    /// The connection is idle from now on, or at its end. Its buffers are for the next one when nothing is in them.
    pub(crate) fn into_parts(mut self) -> (Box<ClientConn>, Buffers) {
        self.compact();
        let input = if self.conn.input.is_empty() { std::mem::take(&mut self.conn.input) } else { Vec::new() };
        (self.conn, Buffers { input, output: self.output }.emptied())
    }

    pub(crate) fn is_piped(&self) -> bool {
        self.conn.stream.is_none()
    }

    pub(crate) fn head_is_sent(&self) -> bool {
        self.response.is_begun()
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.response.is_broken()
    }

    pub(crate) fn compact(&mut self) {
        self.conn.input.drain(..self.used);
        self.used = 0;
    }

    /// Reads to the end of the input, as much as it has room for; 0 is the end of the stream.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        let stream = self.conn.stream.as_mut().expect(AFTER_PIPE);
        stream.poll_read_buf(cx, &mut self.conn.input)
    }

    pub(crate) fn begin_request(&mut self, framing: Framing, version: HttpVersion) {
        self.body = RequestBody::new(framing);
        self.response = Response::new(version);
    }

    /// The fault in the framing of the body that has begun, as far as the client has sent it by now. Nobody has heard
    /// of the request yet, so the whole of it can be refused: later its origin would see it break off.
    pub(crate) fn broken_at_once(&mut self) -> Option<http1::BodyError> {
        let mut scout = self.body.scout()?;
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

    pub(crate) fn end_request(&mut self) {
        self.acct = TransportAcct::default();
        self.body = RequestBody::None;
        self.recv = RecvWait::default();
        self.send = SendWait::new();
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.output.add(|out| out.extend_from_slice(bytes));
    }

    pub(crate) fn close_state(&self) -> CloseState {
        let is_sending = self.body.expects_more();
        CloseState { is_sending, has_input: self.has_input(), is_reset: self.is_reset }
    }

    /// Reads more of the body. Ready when something was read, or never will be.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReqBodyError>> {
        if self.used == self.conn.input.len() {
            self.conn.input.clear();
            self.used = 0;
        }
        let read = match self.conn.poll_more(cx, BODY_READ_BYTES) {
            Poll::Ready(read) => read,
            Poll::Pending => {
                return self.recv.poll(&self.conn.sess, cx).map(|()| Err(ReqBodyError::TimedOut(self.body.cut())));
            }
        };
        Poll::Ready(match read {
            Ok(bytes @ 1..) => {
                self.recv.moved(bytes);
                Ok(())
            }
            Ok(0) | Err(_) => {
                self.recv.over();
                Err(ReqBodyError::Closed(self.body.cut()))
            }
        })
    }

    fn shrink(&mut self) {
        if self.conn.input.capacity() > KEEP_BYTES * 4 && !self.has_input() {
            self.conn.input = Vec::new();
            self.used = 0;
        }
    }
}

impl Transport for H1 {
    fn connection(&mut self, head: &mut Head) -> Result<Option<SessClose>, SessClose> {
        if hop::takes_trailers(head) {
            self.response.take_trailers();
        }
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
        self.conn.set_tos();
        let mut close = close;
        if self.conn.sess.engine.sessions.drain.ends_connections() {
            close.get_or_insert(SessClose::RespClose);
        }
        let close = self.response.begin(resp, len, close, log);
        self.send.begin(self.conn.sess.engine.mono_of(log.last()), &self.conn.sess);
        self.output.begin_body(match len {
            BodyLen::Known(len) => Some(len),
            BodyLen::None | BodyLen::Unknown => None,
        });
        self.acct.resp_head += self.output.add(|out| resp.write_to(out)) as u64;
        close
    }

    fn send_data(&mut self, piece: Buf) {
        self.acct.resp_body += self.response.data(piece, &mut self.output) as u64;
    }

    fn send_end(&mut self, trailers: Option<&Head>) {
        self.response.end(trailers, &mut self.output);
    }

    fn abort(&mut self) {
        // What is queued may go out: without its last chunk, or its announced length, nobody takes it for whole. A body
        // that ends with the connection would look whole: there the client gets a reset.
        if self.response.would_look_whole() {
            self.conn.stream().reset_on_close();
            self.is_reset = true;
            self.output.clear();
        }
    }

    fn send_minimal(&mut self, status: u16, proxy_status: Option<&str>, log: &mut TxnLog) {
        let fields = RESP.log_minimal("HTTP/1.1", status, proxy_status, log);
        let reason = message::status::reason(status);
        self.acct.resp_head += self.output.add(|out| {
            out.extend_from_slice(format!("HTTP/1.1 {status} {reason}\r\n").as_bytes());
            fields.iter().for_each(|field| out.extend_from_slice(&[field.line(), b"\r\n"].concat()));
            out.extend_from_slice(b"\r\n");
        }) as u64;
        self.response.begin_minimal();
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
        if self.response.may_be_interim() {
            self.acct.resp_head += self.output.add(|out| interim.write_to(out)) as u64;
        }
    }

    fn queued(&self) -> usize {
        self.output.len()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>, keep: usize) -> Poll<Result<(), SendError>> {
        while self.output.len() > keep {
            let Some(stream) = &self.conn.stream else { return Poll::Ready(Err(SendError::Closed)) };
            if self.send.forbids_write(&self.conn.sess) {
                return Poll::Ready(Err(SendError::TimedOut));
            }
            match self.output.write(stream) {
                Ok(0) => return Poll::Ready(Err(SendError::Closed)),
                Ok(n) => {
                    // Room in the socket for all that is queued isn't a client that has caught up: more is at hand.
                    self.send.wrote(n, keep == 0 && self.output.len() == 0);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => match stream.poll_writable(cx) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(SendError::Closed)),
                    Poll::Pending => return self.send.poll(&self.conn.sess, cx).map(|()| Err(SendError::TimedOut)),
                },
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Poll::Ready(Err(SendError::Closed)),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_peer_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_piped() || self.body.expects_more() {
            return Poll::Pending;
        }
        // Behind a request that is at hand already an end isn't looked for: its answer is still wanted.
        while !self.has_input() {
            match ready!(self.conn.poll_more(cx, GONE_READ_BYTES)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(_) => {}
            }
        }
        Poll::Pending
    }

    fn body_state(&self) -> BodyState {
        self.body.state()
    }

    fn body_len(&self) -> Option<u64> {
        self.body.len()
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, ReqBodyError>> {
        loop {
            let piece = match self.body.decode(&self.conn.input[self.used..]) {
                Ok(BodyStep::Data(range)) => {
                    let piece = self.conn.input[self.used..][range.clone()].to_vec();
                    self.used += range.end;
                    self.acct.req_body += piece.len() as u64;
                    Some(Buf::unaccounted(piece))
                }
                Ok(BodyStep::End { consumed }) => {
                    self.used += consumed;
                    None
                }
                Ok(BodyStep::More { consumed }) => {
                    self.used += consumed;
                    if let Err(error) = ready!(self.poll_fill(cx)) {
                        return Poll::Ready(Err(self.body.fail(error)));
                    }
                    continue;
                }
                Err(error) => return Poll::Ready(Err(error)),
            };
            self.shrink();
            return Poll::Ready(Ok(piece));
        }
    }

    fn take_tunnel(&mut self) -> Option<Tunnel> {
        let stream = self.conn.stream.take()?;
        let buffered = self.conn.input[self.used..].to_vec();
        self.used = self.conn.input.len();
        Some(Tunnel { stream, buffered })
    }

    fn acct(&self) -> TransportAcct {
        self.acct
    }
}
