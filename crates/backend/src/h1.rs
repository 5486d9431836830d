// SPDX-License-Identifier: BSD-2-Clause
//! HTTP/1 with an origin (RFC 9112): the first implementation of [`Exchange`], over a stream.
//!
//! Bodies are chunked or have a length; what the origin says before the request is out is read and kept. A connection may go
//! back to its pool when both messages are whole and nothing follows them.

use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;
use std::task::{Context, Poll, ready};

use http1::framing::is_guess;
use http1::{
    BodyStep, ChunkHeader, Framing, FramingDecoder, HeadProgress, Http1Limits, LAST_CHUNK, parse_response,
    response_framing,
};
use message::hop::{self, Persistence};
use message::{Head, HeadLimits, names};
use net::{Address, IdleState, IoError, Stream};
use storage::Buf;
use tables::close::SessClose;
use tables::proxy_error::ProxyError;

use crate::buffers::{self, Buffer};
use crate::exchange::{
    BodyLen, BodyStatus, Data, Exchange, ExchangeAcct, ExchangeHeadError, ExchangeSendError, MAX_INTERIM, Received,
    RespLimits, ResponseBodyError, SendProgress,
};

/// Size of a read of the head. Bytes of the body that follow are kept.
const HEAD_READ_BYTES: usize = 16 * 1024;
const BODY_READ_BYTES: usize = 64 * 1024;
const KEEP_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub struct Http1 {
    stream: Stream,
    output: Output,
    is_chunked: bool,
    /// True for a HEAD request: its response has no body.
    to_head: bool,
    /// Bytes that were read. Those before `used` were processed.
    input: Buffer,
    used: usize,
    /// Number of input bytes that are known not to be a complete head.
    incomplete: usize,
    piece: Range<usize>,
    limits: Http1Limits,
    interims: u32,
    decoder: FramingDecoder,
    trailers: Option<Box<Head>>,
    has_strict_end: bool,
    tunnel: Tunnel,
    overlap: Overlap,
    acct: ExchangeAcct,
}

/// The rest of a request that is sent while its response comes (RFC 9112 9.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overlap {
    No,
    Allowed,
    Begun,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tunnel {
    No,
    /// The connection becomes a tunnel if the response has status 101.
    Asked,
    Open,
    Ended,
}

#[derive(Debug, Default)]
struct Output {
    front: Buffer,
    piece: Option<Buf>,
    back: &'static [u8],
    written: usize,
    is_head: bool,
}

impl Http1 {
    /// The next exchange over an idle connection. `preface` bytes were sent ahead of it.
    pub fn new(stream: Stream, preface: usize) -> Self {
        Http1 {
            stream,
            output: Output::default(),
            is_chunked: false,
            to_head: false,
            input: Buffer::default(),
            used: 0,
            incomplete: 0,
            piece: 0..0,
            limits: Http1Limits::default(),
            interims: 0,
            decoder: FramingDecoder::response(Framing::None),
            trailers: None,
            has_strict_end: false,
            tunnel: Tunnel::No,
            overlap: Overlap::No,
            acct: ExchangeAcct { bereq_head: preface as u64, ..ExchangeAcct::default() },
        }
    }

    /// Sets whether a body that ends with its TLS connection requires a close_notify.
    pub(crate) fn with_strict_end(self, has_strict_end: bool) -> Self {
        Http1 { has_strict_end, ..self }
    }

    /// Returns the connection. Unprocessed input is lost.
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    fn hear(&mut self, beresp: &mut Head) -> Option<SendProgress> {
        let input = self.input.provide();
        input.reserve(HEAD_READ_BYTES);
        let has_ended = match self.stream.try_read_buf(input) {
            Ok(n) => n == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        self.heard(beresp, has_ended)
    }

    /// Parses the input so far. Interim responses don't count as an answer. A final response, the end of the connection and junk do;
    /// [`Exchange::poll_head`] will find them again. Only an error, or the end of the connection, says that the rest isn't wanted.
    fn heard(&mut self, beresp: &mut Head, has_ended: bool) -> Option<SendProgress> {
        match parse_response(&self.input[self.used..], &self.limits, beresp) {
            Ok(HeadProgress::Complete(parsed)) if is_interim(beresp.status()) && self.interims < MAX_INTERIM => {
                self.take_head(parsed.consumed);
                self.interims += 1;
                Some(SendProgress::Interim)
            }
            Ok(HeadProgress::Idle | HeadProgress::Incomplete) => has_ended.then_some(SendProgress::Answered),
            Ok(HeadProgress::Complete(_))
                if self.overlap == Overlap::Allowed && !has_ended && !self.output.is_head && takes_the_rest(beresp) =>
            {
                self.overlap = Overlap::Begun;
                Some(SendProgress::Begun)
            }
            Ok(HeadProgress::Complete(_) | HeadProgress::Http2Preface) | Err(_) => Some(SendProgress::Answered),
        }
    }

    fn heard_before(&mut self, beresp: &mut Head) -> Option<SendProgress> {
        if self.used == self.input.len() { None } else { self.heard(beresp, false) }
    }

    fn take_head(&mut self, bytes: usize) {
        self.used += bytes;
        self.acct.beresp_head += bytes as u64;
    }

    /// Reads about `room` bytes more. A waiting exchange holds no buffer, so few are in use, and they stay in the processor's cache.
    fn poll_read(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<Result<usize, IoError>> {
        if self.input.is_empty() {
            self.input.release();
        }
        let prepare = |input: &mut Vec<u8>| {
            if input.capacity() == 0 {
                *input = buffers::take();
            }
            input.reserve(room);
        };
        self.stream.poll_read_more(cx, &mut self.input, prepare, &mut None)
    }

    /// Decides by a final head which body follows, and whether the connection can be reused.
    fn settle(&mut self, beresp: &mut Head) -> Result<Received, ExchangeHeadError> {
        if beresp.is_status(101) && self.tunnel == Tunnel::Asked {
            self.tunnel = Tunnel::Open;
            self.decoder = FramingDecoder::response(Framing::Eof);
            return Ok(Received::Final { body: BodyStatus::Eof, close: Some(SessClose::TxPipe) });
        }
        let framing = response_framing(beresp, self.to_head).map_err(ExchangeHeadError::Framing)?;
        if beresp.status() < 200 {
            return Err(ExchangeHeadError::NotFinal);
        }
        if beresp.count(names::CONTENT_LENGTH) > 1
            && let Some(length) = beresp.get(names::CONTENT_LENGTH).map(<[u8]>::to_vec)
        {
            // The values are equal, and one is enough (RFC 9110 8.6). There is always room for it.
            let _ = beresp.set(names::CONTENT_LENGTH, length);
        }
        self.decoder = FramingDecoder::response(framing);
        let close = match hop::connection(beresp) {
            Ok(Persistence::Keep) if framing == Framing::Eof => Some(SessClose::RespClose),
            // The peer sent unexpected bytes. They would become the next response on this connection.
            Ok(Persistence::Keep) if framing == Framing::None && self.has_more() => Some(SessClose::RxJunk),
            Ok(Persistence::Keep) => {
                (framing == Framing::None && is_guess(beresp, self.to_head)).then_some(SessClose::RespClose)
            }
            Ok(Persistence::Close | Persistence::Http10) => Some(SessClose::RespClose),
            // Like varnishd, we accept the response but close its connection.
            Err(_) => Some(SessClose::RxBad),
        };
        // The request may break off, and nobody counts whether all of it went out.
        let close = close.or((self.overlap == Overlap::Begun).then_some(SessClose::RxBody));
        let body = match framing {
            Framing::None => BodyStatus::None,
            Framing::Length(len) => BodyStatus::Length(len),
            Framing::Chunked => BodyStatus::Chunked,
            Framing::Eof => BodyStatus::Eof,
        };
        Ok(Received::Final { body, close })
    }

    fn has_more(&self) -> bool {
        self.used < self.input.len()
    }

    /// Parses the input if it is a head or can't become one.
    fn parse(&mut self, beresp: &mut Head) -> Result<Option<Received>, ExchangeHeadError> {
        if !self.has_more() || self.incomplete == self.input.len() {
            return Ok(None);
        }
        match parse_response(&self.input[self.used..], &self.limits, beresp) {
            Ok(HeadProgress::Complete(parsed)) => {
                self.take_head(parsed.consumed);
                if !is_interim(beresp.status()) {
                    return self.settle(beresp).map(Some);
                }
                self.interims += 1;
                if self.interims > MAX_INTERIM {
                    return Err(ExchangeHeadError::TooManyInterim);
                }
                Ok(Some(Received::Interim))
            }
            Ok(HeadProgress::Idle | HeadProgress::Incomplete) => {
                self.incomplete = self.input.len();
                Ok(None)
            }
            Err(http1::HeadError::Overflow) => Err(ExchangeHeadError::Overflow),
            broken @ (Ok(HeadProgress::Http2Preface) | Err(_)) => {
                let error = broken.map_or_else(type_of, |_| ProxyError::HttpProtocolError);
                self.count_rest();
                let seen = &self.input[self.used..];
                let end = seen.iter().position(u8::is_ascii_whitespace).unwrap_or(seen.len());
                Err(ExchangeHeadError::Garbage(error, seen[..end].into()))
            }
        }
    }

    fn count_rest(&mut self) {
        self.acct.beresp_head += (self.input.len() - self.used) as u64;
    }

    fn decode(&mut self) -> Result<Option<Data>, ResponseBodyError> {
        if self.is_drained() {
            return Ok(None);
        }
        let step = self.decoder.decode(&self.input[self.used..]);
        Ok(match step.map_err(broken)? {
            BodyStep::Data(range) => {
                self.piece = self.used + range.start..self.used + range.end;
                self.used = self.piece.end;
                self.acct.beresp_body += self.piece.len() as u64;
                Some(Data::Piece)
            }
            BodyStep::More { consumed } => {
                self.used += consumed;
                None
            }
            BodyStep::End { consumed } => {
                self.used += consumed;
                self.trailers = self.decoder.trailers(HeadLimits::default()).map(Box::new);
                Some(self.end())
            }
        })
    }

    fn end(&self) -> Data {
        // The peer sent unexpected bytes. They would become the next response on this connection.
        Data::End { close: self.has_more().then_some(SessClose::RxJunk) }
    }

    fn clear_input(&mut self) {
        self.input.clear();
        self.used = 0;
        if self.input.capacity() > KEEP_BYTES {
            self.input.release();
        }
    }

    /// Handles a connection that the origin has closed, cleanly or not, before the body's end.
    fn cut(&mut self, is_in_order: bool) -> Result<Data, ResponseBodyError> {
        match self.decoder.end_of_input() {
            Ok(()) if is_in_order => Ok(self.end()),
            // A reset doesn't validly end a body that ends with its connection.
            Ok(()) => Err(ResponseBodyError::Broken(ProxyError::ConnectionTerminated, "eof socket fail")),
            Err(error) => Err(broken(error)),
        }
    }
}

fn type_of(error: http1::HeadError) -> ProxyError {
    match error {
        http1::HeadError::LineTooLong { .. } => ProxyError::HttpResponseHeaderSize,
        http1::HeadError::Overflow | http1::HeadError::TooManyFields { .. } | http1::HeadError::NoSpace => {
            ProxyError::HttpResponseHeaderSectionSize
        }
        http1::HeadError::LeadingBlanks
        | http1::HeadError::BadStartLine
        | http1::HeadError::BadMethod
        | http1::HeadError::BadVersion
        | http1::HeadError::BadStatus
        | http1::HeadError::ControlChar { .. }
        | http1::HeadError::LeadingFold { .. }
        | http1::HeadError::NoName { .. }
        | http1::HeadError::BadNameChar { .. }
        | http1::HeadError::NoColon { .. }
        | http1::HeadError::LoneLf
        | http1::HeadError::Framing(_)
        | http1::HeadError::BadBody
        | http1::HeadError::Connect
        | http1::HeadError::BadTarget
        | http1::HeadError::MultipleHost
        | http1::HeadError::MultipleContentLength
        | http1::HeadError::BadHost => ProxyError::HttpProtocolError,
    }
}

pub(crate) fn broken(error: http1::BodyError) -> ResponseBodyError {
    let kind = match error {
        http1::BodyError::Truncated(_) => ProxyError::ConnectionTerminated,
        http1::BodyError::BadSize
        | http1::BodyError::SizeTooLong
        | http1::BodyError::SizeTooLarge
        | http1::BodyError::BadExtension
        | http1::BodyError::NoCrlf => ProxyError::HttpResponseTransferCoding,
        http1::BodyError::BadTrailer => ProxyError::HttpProtocolError,
    };
    ResponseBodyError::Broken(kind, error.text())
}

impl Exchange for Http1 {
    fn peer(&self) -> Address {
        self.stream.peer()
    }

    fn unknown_length(&self) -> Option<(&'static str, &'static [u8])> {
        Some((names::TRANSFER_ENCODING, b"chunked"))
    }

    fn ask_tunnel(&mut self) -> bool {
        self.tunnel = Tunnel::Asked;
        true
    }

    fn overlap(&mut self) {
        self.overlap = Overlap::Allowed;
    }

    fn send_head(&mut self, bereq: &Head, body: BodyLen, limits: &RespLimits) {
        let RespLimits { head_bytes, line_bytes, lenient } = *limits;
        self.limits = Http1Limits { head_bytes, line_bytes, lenient, https_scheme: false, lone_lf: true };
        self.to_head = bereq.method() == b"HEAD";
        self.is_chunked = body == BodyLen::Unknown;
        self.output.is_head = true;
        bereq.write_to(self.output.front.provide());
    }

    fn send_data(&mut self, piece: Buf) {
        if self.is_chunked {
            self.output.front.provide().extend_from_slice(ChunkHeader::new(piece.len()).as_bytes());
            self.output.back = b"\r\n";
        }
        self.output.piece = Some(piece);
    }

    fn send_end(&mut self, trailers: Option<&Head>) {
        if self.tunnel == Tunnel::Open {
            self.tunnel = Tunnel::Ended;
            return self.stream.shutdown_write();
        }
        match trailers {
            _ if !self.is_chunked => {}
            None => self.output.back = LAST_CHUNK,
            Some(trailers) => {
                let front = self.output.front.provide();
                front.extend_from_slice(b"0\r\n");
                trailers.write_fields(front);
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, beresp: &mut Head) -> Poll<Result<SendProgress, ExchangeSendError>> {
        let hears = matches!(self.tunnel, Tunnel::No | Tunnel::Asked) && self.overlap != Overlap::Begun;
        if hears && let Some(sent) = self.heard_before(beresp) {
            return Poll::Ready(Ok(self.stopped(sent)));
        }
        let mut has_moved = false;
        while !self.output.is_out() {
            let error = match self.output.write(&self.stream) {
                Ok(0) => ExchangeSendError::Closed,
                Ok(n) => {
                    self.output.written += n;
                    has_moved = true;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.stream.poll_writable(cx).is_ready() {
                        continue;
                    }
                    if hears && self.stream.poll_readable(cx).is_ready() {
                        match self.hear(beresp) {
                            Some(sent) => return Poll::Ready(Ok(self.stopped(sent))),
                            None => continue,
                        }
                    }
                    return if has_moved { Poll::Ready(Ok(SendProgress::Part)) } else { Poll::Pending };
                }
                Err(error) if error.kind() == ErrorKind::BrokenPipe => ExchangeSendError::Closed,
                Err(error) => ExchangeSendError::Os(error),
            };
            // An origin that closes has often sent the reason before.
            if hears
                && self.stream.pending() == IdleState::Data
                && let Some(sent) = self.hear(beresp)
            {
                return Poll::Ready(Ok(self.stopped(sent)));
            }
            return Poll::Ready(Err(error));
        }
        self.count_output();
        if self.tunnel == Tunnel::Ended {
            ready!(self.stream.poll_ended(cx));
        }
        Poll::Ready(Ok(SendProgress::All))
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>, beresp: &mut Head) -> Poll<SendProgress> {
        if let Some(sent) = self.heard_before(beresp) {
            return Poll::Ready(sent);
        }
        loop {
            // An error will reappear at the next read.
            let _ = ready!(self.stream.poll_readable(cx));
            if let Some(sent) = self.hear(beresp) {
                return Poll::Ready(sent);
            }
        }
    }

    fn poll_head(&mut self, cx: &mut Context<'_>, beresp: &mut Head) -> Poll<Result<Received, ExchangeHeadError>> {
        if let Some(received) = self.parse(beresp)? {
            return Poll::Ready(Ok(received));
        }
        match ready!(self.poll_read(cx, HEAD_READ_BYTES)) {
            Ok(0) | Err(IoError::Closed | IoError::Timeout) => {
                self.count_rest();
                Poll::Ready(Err(ExchangeHeadError::Closed))
            }
            Ok(_) => Poll::Ready(Ok(self.parse(beresp)?.unwrap_or(Received::Part))),
            Err(IoError::Os(error)) => Poll::Ready(Err(ExchangeHeadError::Os(error))),
        }
    }

    fn has_begun(&self) -> bool {
        !self.input.is_empty()
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Data, ResponseBodyError>> {
        self.piece = 0..0;
        if !self.is_drained() {
            return Poll::Ready(Ok(self.decode()?.unwrap_or(Data::Part)));
        }
        self.clear_input();
        Poll::Ready(match ready!(self.poll_read(cx, BODY_READ_BYTES)) {
            Ok(0) => self.cut(!(self.has_strict_end && self.stream.was_cut())),
            Err(IoError::Closed | IoError::Timeout) => self.cut(false),
            Ok(_) => Ok(self.decode()?.unwrap_or(Data::Part)),
            Err(IoError::Os(error)) => Err(ResponseBodyError::Os(error)),
        })
    }

    fn data(&self) -> &[u8] {
        &self.input[self.piece.clone()]
    }

    fn is_drained(&self) -> bool {
        !self.has_more() && !self.decoder.is_complete()
    }

    fn trailers(&self) -> Option<&Head> {
        self.trailers.as_deref()
    }

    fn reset(&mut self, _why: SessClose) {
        self.stream.reset_on_close();
    }

    fn acct(&self) -> ExchangeAcct {
        self.acct
    }
}

impl Http1 {
    /// Counts the output if the response ends the sending before everything was sent.
    fn stopped(&mut self, sent: SendProgress) -> SendProgress {
        if sent == SendProgress::Answered && !self.output.is_head {
            self.count_output();
        }
        sent
    }

    /// Counts the output that was sent, or as much of it as ever will be.
    fn count_output(&mut self) {
        let bytes = self.output.len() as u64;
        let part = if self.output.is_head { &mut self.acct.bereq_head } else { &mut self.acct.bereq_body };
        *part += bytes;
        self.output.clear();
    }
}

impl Output {
    fn parts(&self) -> [&[u8]; 3] {
        [&self.front, self.piece.as_deref().unwrap_or_default(), self.back]
    }

    fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    fn is_out(&self) -> bool {
        self.written == self.len()
    }

    fn write(&self, stream: &Stream) -> io::Result<usize> {
        let mut slices = self.parts().map(IoSlice::new);
        let mut left = &mut slices[..];
        IoSlice::advance_slices(&mut left, self.written);
        stream.try_write_vectored(left)
    }

    fn clear(&mut self) {
        self.front.release();
        self.piece = None;
        (self.back, self.written, self.is_head) = (b"", 0, false);
    }
}

/// True for a response that another one follows (RFC 9110 15.2). After 101, the connection uses another protocol.
fn is_interim(status: u16) -> bool {
    (100..200).contains(&status) && status != 101
}

fn takes_the_rest(beresp: &mut Head) -> bool {
    (200..400).contains(&beresp.status())
        && matches!(hop::connection(beresp), Ok(Persistence::Keep))
        && !matches!(response_framing(beresp, false), Ok(Framing::Eof) | Err(_))
}

#[cfg(test)]
mod tests;
