// SPDX-License-Identifier: BSD-2-Clause
//! An exchange that a task of this thread answers, without a connection. The fetch has an [`Exchange`], the task a [`Responder`]. Bodies
//! stream in both directions, and each side waits for the other.
//!
//! Counters and log records are those of HTTP/1: the response says how its body is framed, and that the connection closes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use http1::{BodyError as Http1Error, ChunkHeader, LAST_CHUNK, Truncation};
use message::{Head, hop, names, status};
use net::Address;
use storage::Buf;
use tables::close::SessClose;
use tables::proxy_error::ProxyError;

use crate::exchange::{
    BodyLen, BodyStatus, Data, Exchange, ExchangeAcct, ExchangeHeadError, ExchangeSendError, Received, RespLimits,
    ResponseBodyError, SendProgress,
};
use crate::h1::broken;

/// Maximum number of unread bytes in one direction.
const AHEAD: usize = 64 * 1024;
/// Short pieces of a response are collected up to this size.
const PIECE: usize = 16 * 1024;

/// The reason why there is no whole response, for a log record.
pub type FailureText = String;

pub fn exchange() -> (Box<dyn Exchange>, Responder) {
    let shared = Rc::<RefCell<Shared>>::default();
    let fetch = Fetch {
        shared: shared.clone(),
        limits: RespLimits { head_bytes: 0, line_bytes: 0, lenient: false },
        to_head: false,
        is_chunked: false,
        body: BodyStatus::None,
        left: 0,
        piece: Vec::new(),
        acct: ExchangeAcct::default(),
    };
    let responder = Responder {
        shared,
        head: Head::new(),
        target: Vec::new(),
        has_body: false,
        is_chunked: false,
        response: None,
        output: Vec::new(),
        sends_body: false,
        is_finished: false,
    };
    (Box::new(fetch), responder)
}

#[derive(Default)]
struct Shared {
    request: Option<(Head, BodyLen)>,
    response: Option<Response>,
    up: Channel<Buf>,
    down: Channel<Vec<u8>>,
    fetch: Option<Waker>,
    task: Option<Waker>,
}

struct Channel<T> {
    pieces: VecDeque<T>,
    bytes: usize,
    end: End,
    /// True if the reader has gone, or wants no more.
    is_unread: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    Whole,
    Cut,
}

struct Response {
    status: u16,
    reason: Vec<u8>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    len: Option<u64>,
}

impl<T> Default for Channel<T> {
    fn default() -> Self {
        Channel { pieces: VecDeque::new(), bytes: 0, end: End::Open, is_unread: false }
    }
}

impl<T: AsRef<[u8]>> Channel<T> {
    fn is_full(&self) -> bool {
        self.bytes >= AHEAD && !self.is_unread
    }

    fn put(&mut self, piece: T) {
        if !self.is_unread {
            self.bytes += piece.as_ref().len();
            self.pieces.push_back(piece);
        }
    }

    fn take(&mut self) -> Option<T> {
        let piece = self.pieces.pop_front()?;
        self.bytes -= piece.as_ref().len();
        Some(piece)
    }

    fn leave(&mut self) {
        (self.is_unread, self.bytes) = (true, 0);
        self.pieces.clear();
    }

    fn end(&mut self, end: End) {
        if self.end == End::Open {
            self.end = end;
        }
    }
}

impl Shared {
    fn wake_task(&mut self) {
        self.task.take().into_iter().for_each(Waker::wake);
    }

    fn wake_fetch(&mut self) {
        self.fetch.take().into_iter().for_each(Waker::wake);
    }

    fn park_task<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        self.task = Some(cx.waker().clone());
        Poll::Pending
    }

    fn park_fetch<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        self.fetch = Some(cx.waker().clone());
        Poll::Pending
    }

    /// True if a poll of the fetch returns something: a response's head, or that there will be none.
    fn is_answered(&self) -> bool {
        self.response.is_some() || self.down.end != End::Open
    }
}

struct Fetch {
    shared: Rc<RefCell<Shared>>,
    limits: RespLimits,
    to_head: bool,
    /// True if the request's body has no known length.
    is_chunked: bool,
    body: BodyStatus,
    /// Number of missing bytes of a body of known length.
    left: u64,
    piece: Vec<u8>,
    acct: ExchangeAcct,
}

impl Drop for Fetch {
    fn drop(&mut self) {
        let mut shared = self.shared.borrow_mut();
        shared.up.end(End::Cut);
        shared.down.leave();
        shared.wake_task();
    }
}

impl Exchange for Fetch {
    fn peer(&self) -> Address {
        Address::Unix
    }

    fn unknown_length(&self) -> Option<(&'static str, &'static [u8])> {
        Some((names::TRANSFER_ENCODING, b"chunked"))
    }

    fn send_head(&mut self, bereq: &Head, body: BodyLen, limits: &RespLimits) {
        self.limits = *limits;
        self.to_head = bereq.method() == b"HEAD";
        self.is_chunked = body == BodyLen::Unknown;
        self.acct.bereq_head += wire_bytes(bereq);
        let mut head = Head::with_limits(bereq.limits());
        head.copy_from(bereq);
        let mut shared = self.shared.borrow_mut();
        if matches!(body, BodyLen::None | BodyLen::Known(0)) {
            shared.up.end(End::Whole);
        }
        shared.request = Some((head, body));
        shared.wake_task();
    }

    fn send_data(&mut self, piece: Buf) {
        let framing = if self.is_chunked { ChunkHeader::new(piece.len()).as_bytes().len() + 2 } else { 0 };
        self.acct.bereq_body += (piece.len() + framing) as u64;
        let mut shared = self.shared.borrow_mut();
        shared.up.put(piece);
        shared.wake_task();
    }

    fn send_end(&mut self, _trailers: Option<&Head>) {
        if self.is_chunked {
            self.acct.bereq_body += LAST_CHUNK.len() as u64;
        }
        let mut shared = self.shared.borrow_mut();
        shared.up.end(End::Whole);
        shared.wake_task();
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, _beresp: &mut Head) -> Poll<Result<SendProgress, ExchangeSendError>> {
        let mut shared = self.shared.borrow_mut();
        if shared.down.end == End::Cut && shared.response.is_none() && shared.up.end == End::Open {
            return Poll::Ready(Err(ExchangeSendError::Closed));
        }
        if !shared.up.is_full() {
            return Poll::Ready(Ok(SendProgress::All));
        }
        if shared.is_answered() {
            return Poll::Ready(Ok(SendProgress::Answered));
        }
        shared.park_fetch(cx)
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>, _beresp: &mut Head) -> Poll<SendProgress> {
        let mut shared = self.shared.borrow_mut();
        if shared.is_answered() { Poll::Ready(SendProgress::Answered) } else { shared.park_fetch(cx) }
    }

    fn poll_head(&mut self, cx: &mut Context<'_>, beresp: &mut Head) -> Poll<Result<Received, ExchangeHeadError>> {
        let response = {
            let mut shared = self.shared.borrow_mut();
            match shared.response.take() {
                Some(response) => response,
                None if shared.down.end != End::Open => return Poll::Ready(Err(ExchangeHeadError::Closed)),
                None => return shared.park_fetch(cx),
            }
        };
        Poll::Ready(self.take_head(&response, beresp))
    }

    fn has_begun(&self) -> bool {
        self.acct.beresp_head > 0
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Data, ResponseBodyError>> {
        self.piece.clear();
        if self.is_complete() {
            return Poll::Ready(Ok(Data::End { close: None }));
        }
        let mut shared = self.shared.borrow_mut();
        let Some(mut piece) = shared.down.take() else {
            return match shared.down.end {
                End::Open => shared.park_fetch(cx),
                End::Whole if self.body == BodyStatus::Chunked => Poll::Ready(Ok(Data::End { close: None })),
                End::Whole | End::Cut => Poll::Ready(Err(broken(Http1Error::Truncated(self.cut())))),
            };
        };
        shared.wake_task();
        drop(shared);
        if let BodyStatus::Length(_) = self.body {
            piece.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= piece.len() as u64;
        }
        self.acct.beresp_body += piece.len() as u64;
        self.piece = piece;
        Poll::Ready(Ok(Data::Piece))
    }

    fn data(&self) -> &[u8] {
        &self.piece
    }

    fn is_drained(&self) -> bool {
        !self.is_complete() && self.shared.borrow().down.pieces.is_empty()
    }

    fn trailers(&self) -> Option<&Head> {
        None
    }

    fn reset(&mut self, _why: SessClose) {
        let mut shared = self.shared.borrow_mut();
        shared.up.end(End::Cut);
        shared.wake_task();
    }

    fn acct(&self) -> ExchangeAcct {
        self.acct
    }
}

impl Fetch {
    fn take_head(&mut self, response: &Response, beresp: &mut Head) -> Result<Received, ExchangeHeadError> {
        let Response { status, reason, fields, len } = response;
        let longest = fields.iter().map(|(name, value)| name.len() + value.len() + 4).max();
        beresp.clear();
        let length = len.map(|len| len.to_string());
        let framing: Option<(&str, &[u8])> = match &length {
            _ if matches!(status, 204 | 304) => None,
            Some(length) => Some((names::CONTENT_LENGTH, length.as_bytes())),
            None if !self.to_head => Some((names::TRANSFER_ENCODING, b"chunked")),
            None => None,
        };
        let made = beresp.start_response(b"HTTP/1.1", *status).and_then(|()| {
            beresp.set_reason(reason)?;
            fields.iter().try_for_each(|(name, value)| beresp.append(name, value))?;
            framing.iter().try_for_each(|(name, value)| beresp.append(name, value))?;
            beresp.append(names::CONNECTION, "close")
        });
        let bytes = wire_bytes(beresp);
        self.acct.beresp_head += bytes;
        if made.is_err() || bytes > self.limits.head_bytes as u64 {
            return Err(ExchangeHeadError::Overflow);
        }
        if longest.is_some_and(|longest| longest > self.limits.line_bytes) {
            return Err(ExchangeHeadError::Garbage(ProxyError::HttpResponseHeaderSize, (*b"HTTP/1.1").into()));
        }
        if *status < 200 {
            return Err(ExchangeHeadError::NotFinal);
        }
        // This marks the headers that Connection nominates. The connection never persists.
        let close = hop::connection(beresp).map_or(SessClose::RxBad, |_| SessClose::RespClose);
        let body = match len {
            _ if self.to_head || matches!(status, 204 | 304) => BodyStatus::None,
            Some(0) => BodyStatus::None,
            Some(len) => BodyStatus::Length(*len),
            None => BodyStatus::Chunked,
        };
        (self.body, self.left) = (body, len.unwrap_or(0));
        Ok(Received::Final { body, close: Some(close) })
    }

    fn is_complete(&self) -> bool {
        match self.body {
            BodyStatus::None => true,
            BodyStatus::Length(_) => self.left == 0,
            BodyStatus::Chunked | BodyStatus::Eof => false,
        }
    }

    fn cut(&self) -> Truncation {
        if self.body == BodyStatus::Chunked { Truncation::Chunking } else { Truncation::Length }
    }
}

/// Size of a head in HTTP/1.
fn wire_bytes(head: &Head) -> u64 {
    let mut out = crate::buffers::take();
    head.write_to(&mut out);
    let bytes = out.len();
    crate::buffers::leave(out);
    bytes as u64
}

/// The responding end: a request and the way back. Dropping it before [`Responder::finish`] cuts the response off.
pub struct Responder {
    shared: Rc<RefCell<Shared>>,
    pub head: Head,
    pub target: Vec<u8>,
    pub has_body: bool,
    is_chunked: bool,
    /// The response, until the fetch takes it.
    response: Option<Response>,
    output: Vec<u8>,
    sends_body: bool,
    is_finished: bool,
}

impl Drop for Responder {
    fn drop(&mut self) {
        let mut shared = self.shared.borrow_mut();
        shared.down.end(if self.is_finished { End::Whole } else { End::Cut });
        // The sender must not get an error for the rest of the request before it has read the response.
        shared.up.leave();
        shared.wake_fetch();
    }
}

impl Responder {
    /// Waits for the request's head. Returns false if there won't be one.
    pub async fn begin(&mut self) -> bool {
        let request = poll_fn(|cx| {
            let mut shared = self.shared.borrow_mut();
            match shared.request.take() {
                Some(request) => Poll::Ready(Some(request)),
                None if shared.up.end == End::Cut => Poll::Ready(None),
                None => shared.park_task(cx),
            }
        });
        let Some((head, body)) = request.await else { return false };
        self.has_body = !matches!(body, BodyLen::None | BodyLen::Known(0));
        self.is_chunked = body == BodyLen::Unknown;
        self.sends_body = head.method() != b"HEAD";
        self.target = head.url().to_vec();
        self.head = head;
        true
    }

    /// Ready once the fetch has dropped the exchange.
    pub fn given_up(&self) -> impl Future<Output = ()> + use<> {
        let shared = self.shared.clone();
        poll_fn(move |cx| {
            let mut shared = shared.borrow_mut();
            if shared.down.is_unread { Poll::Ready(()) } else { shared.park_task(cx) }
        })
    }

    /// The next bytes of the request's body. `None` at its end.
    ///
    /// # Errors
    /// It is broken.
    pub async fn next_piece(&mut self) -> Result<Option<Buf>, FailureText> {
        let next = poll_fn(|cx| {
            let mut shared = self.shared.borrow_mut();
            if let Some(piece) = shared.up.take() {
                shared.wake_fetch();
                return Poll::Ready(Ok(Some(piece)));
            }
            match shared.up.end {
                End::Open => shared.park_task(cx),
                End::Whole => Poll::Ready(Ok(None)),
                End::Cut => Poll::Ready(Err(())),
            }
        });
        let cut = if self.is_chunked { Truncation::Chunking } else { Truncation::Length };
        next.await.map_err(|()| format!("bad request body: {}", Http1Error::Truncated(cut).text()))
    }

    /// Begins the response. Its body has `len` bytes, or an unknown number for `None`. Headers of framing and the connection are the
    /// exchange's own.
    pub fn respond(&mut self, status: u16, reason: &[u8], fields: &[(&[u8], &[u8])], len: Option<u64>) {
        let reason = if reason.is_empty() { status::reason(status).as_bytes() } else { reason }.to_vec();
        let fields = fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        self.sends_body &= !matches!(status, 204 | 304);
        self.response = Some(Response { status, reason, fields, len });
    }

    /// Sends more of the response's body.
    ///
    /// # Errors
    /// The fetch has gone.
    pub async fn send(&mut self, data: &[u8]) -> Result<(), FailureText> {
        if data.is_empty() || !self.sends_body {
            return Ok(());
        }
        if self.output.len() + data.len() > PIECE {
            self.flush().await?;
        }
        self.output.extend_from_slice(data);
        if self.output.len() > PIECE { self.flush().await } else { Ok(()) }
    }

    /// Passes collected bytes on to the fetch.
    ///
    /// # Errors
    /// The fetch has gone.
    pub async fn flush(&mut self) -> Result<(), FailureText> {
        let room = poll_fn(|cx| {
            let mut shared = self.shared.borrow_mut();
            if shared.down.is_full() { shared.park_task(cx) } else { Poll::Ready(()) }
        });
        room.await;
        let mut shared = self.shared.borrow_mut();
        if shared.down.is_unread {
            return Err("the connection ended".to_owned());
        }
        if let Some(response) = self.response.take() {
            shared.response = Some(response);
        }
        if !self.output.is_empty() {
            shared.down.put(std::mem::take(&mut self.output));
        }
        shared.wake_fetch();
        Ok(())
    }

    /// Completes the response.
    ///
    /// # Errors
    /// The fetch has gone.
    pub async fn finish(mut self) -> Result<(), FailureText> {
        self.flush().await?;
        self.is_finished = true;
        Ok(())
    }

    /// Sends a response without a body.
    ///
    /// # Errors
    /// The fetch has gone.
    pub async fn refuse(mut self, status: u16) -> Result<(), FailureText> {
        self.respond(status, b"", &[], Some(0));
        self.finish().await
    }
}

#[cfg(test)]
mod tests;
