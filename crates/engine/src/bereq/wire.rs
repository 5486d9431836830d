// SPDX-License-Identifier: BSD-2-Clause
//! One exchange with a backend over HTTP/1: the request goes out, with the body it has, and the response's head comes in.

use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll};

use http1::{ChunkHeader, Framing, LAST_CHUNK, Limits, Progress, parse_response, response_framing};
use message::hop::{self, Persistence};
use message::names;
use net::IoError;
use storage::Buf;
use tables::tags::Tag;

use super::fetch::{GONE, why};
use super::{Bereq, BereqBody, Link};
use crate::httplog::BEREQ;
use crate::reqbody::ReqBody;
use crate::spare;
use crate::transport::BodyError;

/// Bytes read at once while the head comes in; what follows of the body is taken along.
const HEAD_READ_BYTES: usize = 16 * 1024;
/// More interim responses than this before the final one are a fault of the backend.
const MAX_INTERIM: u32 = 64;

/// The exchange failed; the reason is logged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    /// Not a byte of a response had come: with a pooled connection another try is in order.
    pub before_first_byte: bool,
}

const EARLY: Failure = Failure { before_first_byte: true };
const LATE: Failure = Failure { before_first_byte: false };

impl Bereq {
    /// Sends the request and reads the response's head into `beresp`.
    pub(super) async fn exchange(&mut self) -> Result<(), Failure> {
        let mut link = self.link.take().expect("an exchange has a connection");
        let result = self.exchange_on(&mut link).await;
        self.link = Some(link);
        result
    }

    async fn exchange_on(&mut self, link: &mut Link) -> Result<(), Failure> {
        let chunked = self.frame_request();
        let mut head = spare::buffer();
        self.head.write_to(&mut head);
        let sent = self.send(link, &head, chunked).await;
        spare::leave_buffer(head);
        self.mark("Bereq");
        self.engine.main.backend_req.tally();
        sent?;
        self.receive_head(link).await
    }

    /// Makes the head announce the body that is sent, whatever VCL wrote: else the rest of it, or of the next request,
    /// would be taken for something that it isn't. Answers whether the body goes in chunks.
    fn frame_request(&mut self) -> bool {
        let announced = http1::framing::content_length(&self.head, true).ok().flatten();
        let len = match &self.body {
            BereqBody::None | BereqBody::Gone => {
                if announced != Some(0) {
                    BEREQ.unset(&mut self.head, &mut self.log, names::CONTENT_LENGTH);
                }
                BEREQ.unset(&mut self.head, &mut self.log, names::TRANSFER_ENCODING);
                return false;
            }
            BereqBody::Lent(lent) => lent.bytes(),
            BereqBody::Kept(pieces) => Some(pieces.iter().map(|piece| piece.len() as u64).sum()),
        };
        let Some(len) = len else {
            BEREQ.unset(&mut self.head, &mut self.log, names::CONTENT_LENGTH);
            self.count_lost(|this| BEREQ.force(&mut this.head, &mut this.log, names::TRANSFER_ENCODING, b"chunked"));
            return true;
        };
        BEREQ.unset(&mut self.head, &mut self.log, names::TRANSFER_ENCODING);
        if announced != Some(len) {
            let len = len.to_string();
            self.count_lost(|this| BEREQ.force(&mut this.head, &mut this.log, names::CONTENT_LENGTH, len.as_bytes()));
        }
        false
    }

    /// Sends head and body. An answer before the body's end is taken at once; the connection can't be used again then.
    async fn send(&mut self, link: &mut Link, head: &[u8], chunked: bool) -> Result<(), Failure> {
        if matches!(self.push(link, &[head]).await?, Sent::Answered) {
            return Ok(());
        }
        self.acct.bereq_head += head.len() as u64;
        let mut body = match &self.body {
            BereqBody::None | BereqBody::Gone => return Ok(()),
            BereqBody::Kept(pieces) => Pieces::Kept(pieces.clone(), 0),
            BereqBody::Lent(lent) => Pieces::Lent(lent.clone()),
        };
        if let Pieces::Lent(_) = body {
            self.no_retry = Some("req.body not cached");
        }
        loop {
            let Some(next) = self.next_piece(link, &mut body).await else { return Ok(()) };
            let sent = match next {
                Ok(Some(piece)) if chunked => {
                    let size = ChunkHeader::new(piece.len());
                    let sent = self.push(link, &[size.as_bytes(), &piece, b"\r\n"]).await?;
                    self.acct.bereq_body += (size.as_bytes().len() + piece.len() + 2) as u64;
                    sent
                }
                Ok(Some(piece)) => {
                    let sent = self.push(link, &[&piece]).await?;
                    self.acct.bereq_body += piece.len() as u64;
                    sent
                }
                Ok(None) => {
                    if chunked {
                        self.push(link, &[LAST_CHUNK]).await?;
                        self.acct.bereq_body += LAST_CHUNK.len() as u64;
                    }
                    return Ok(());
                }
                Err(error) => {
                    // The origin must not take a broken upload for a whole one: the connection is cut.
                    self.log.putf(Tag::FetchError, format_args!("req.body read error: {}", error.text()));
                    link.conn.stream().reset_on_close();
                    link.close = Some(why::RX_BODY);
                    return Err(LATE);
                }
            };
            if let Sent::Answered = sent {
                return Ok(());
            }
        }
    }

    /// The next piece of the body; `None` when the backend has answered meanwhile.
    async fn next_piece(&mut self, link: &mut Link, body: &mut Pieces) -> Option<Result<Option<Buf>, BodyError>> {
        loop {
            let next = poll_fn(|cx| match body.poll_next(cx) {
                Poll::Ready(piece) => Poll::Ready(Some(piece)),
                Poll::Pending => link.conn.stream().poll_readable(cx).map(|_| None),
            });
            match next.await {
                Some(piece) => return Some(piece),
                None if self.is_answered(link) => return None,
                None => {}
            }
        }
    }

    /// Writes it all, or as much as the backend takes before it answers.
    async fn push(&mut self, link: &mut Link, pieces: &[&[u8]]) -> Result<Sent, Failure> {
        let mut slices = [IoSlice::new(&[]); 3];
        for (slice, piece) in slices.iter_mut().zip(pieces) {
            *slice = IoSlice::new(piece);
        }
        let mut left = &mut slices[..];
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            let error = match link.conn.stream().try_write_vectored(left) {
                Ok(0) => IoError::Closed,
                Ok(n) => {
                    IoSlice::advance_slices(&mut left, n);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let (stream, limit) = (link.conn.stream(), self.timeouts().between_bytes);
                    let ready = poll_fn(|cx| match stream.poll_writable(cx) {
                        Poll::Ready(_) => Poll::Ready(false),
                        Poll::Pending => stream.poll_readable(cx).map(|_| true),
                    });
                    match rt::timeout(limit, ready).await {
                        Ok(true) if self.is_answered(link) => return Ok(Sent::Answered),
                        Ok(_) => continue,
                        Err(rt::Elapsed) => IoError::Timeout,
                    }
                }
                Err(error) if error.kind() == ErrorKind::BrokenPipe => IoError::Closed,
                Err(error) => IoError::Os(error),
            };
            // A backend that closes has often said why before.
            if link.conn.stream().pending() == net::Pending::Data && self.is_answered(link) {
                return Ok(Sent::Answered);
            }
            self.log.putf(Tag::FetchError, format_args!("backend write error: {}", write_error_text(&error)));
            link.close = Some("Error transaction");
            return Err(EARLY);
        }
        Ok(Sent::All)
    }

    /// Reads what the backend says while the request still goes out. Interim responses don't count; whether something
    /// final came: an answer, its end, or junk, which [`Bereq::receive_head`] will find again.
    fn is_answered(&mut self, link: &mut Link) -> bool {
        link.input.reserve(HEAD_READ_BYTES);
        let ended = match link.conn.stream().try_read_buf(&mut link.input) {
            Ok(n) => n == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        let limits = self.response_limits();
        let is_over = loop {
            match parse_response(&link.input[link.used..], &limits, &mut self.beresp) {
                Ok(Progress::Complete(parsed)) if is_interim(self.beresp.status()) && link.interim < MAX_INTERIM => {
                    link.interim += 1;
                    link.used += parsed.consumed;
                    self.acct.beresp_head += parsed.consumed as u64;
                    self.pass_interim_on();
                }
                Ok(Progress::Idle | Progress::Incomplete) => break ended,
                Ok(Progress::Complete(_) | Progress::Http2Preface) | Err(_) => break true,
            }
        };
        if is_over {
            link.close = Some(why::RX_BODY);
        }
        is_over
    }

    async fn receive_head(&mut self, link: &mut Link) -> Result<(), Failure> {
        let (limits, times) = (self.response_limits(), self.timeouts());
        let mut patience = times.first_byte;
        loop {
            let input = &link.input[link.used..];
            let parsed =
                if input.is_empty() { Ok(Progress::Idle) } else { parse_response(input, &limits, &mut self.beresp) };
            match parsed {
                Ok(Progress::Complete(parsed)) => {
                    link.used += parsed.consumed;
                    self.acct.beresp_head += parsed.consumed as u64;
                    if is_interim(self.beresp.status()) {
                        link.interim += 1;
                        if link.interim > MAX_INTERIM {
                            self.fetch_error("too many interim responses");
                            link.close = Some(why::RX_JUNK);
                            return Err(LATE);
                        }
                        self.pass_interim_on();
                        continue;
                    }
                    return self.settle(link);
                }
                Ok(Progress::Idle | Progress::Incomplete) => {}
                Ok(Progress::Http2Preface) => return self.junk(link, "Received junk", why::RX_JUNK),
                Err(http1::HeadError::Overflow) => return self.junk(link, "overflow", "Received buffer overflow"),
                Err(_) => {
                    self.acct.beresp_head += (link.input.len() - link.used) as u64;
                    let seen = &link.input[link.used..];
                    let end = seen.iter().position(|c| c.is_ascii_whitespace()).unwrap_or(seen.len());
                    self.log.put(Tag::HttpGarbage, &seen[..end]);
                    self.log.put(Tag::BerespStatus, b"503");
                    self.log.put(Tag::BerespReason, b"Service Unavailable");
                    return self.junk(link, "http format error", why::RX_JUNK);
                }
            }
            let nothing_yet = link.input.is_empty();
            let Some(read) = self.read_on(link, HEAD_READ_BYTES, patience).await else {
                self.fetch_error(GONE);
                link.close = Some(why::RX_BODY);
                return Err(LATE);
            };
            match read {
                Ok(0) | Err(IoError::Closed) => {
                    self.acct.beresp_head += (link.input.len() - link.used) as u64;
                    self.fetch_error("HTC eof (-1)");
                    link.close = Some(why::RX_BAD);
                    return Err(Failure { before_first_byte: nothing_yet });
                }
                Ok(_) => patience = times.between_bytes,
                Err(IoError::Timeout) => {
                    self.fetch_error(if nothing_yet { "first byte timeout" } else { "timeout" });
                    link.close = Some("Receive timeout");
                    return Err(LATE);
                }
                Err(IoError::Os(error)) => {
                    self.log.putf(Tag::FetchError, format_args!("backend read error: {error}"));
                    link.close = Some(why::RESP_CLOSE);
                    return Err(Failure { before_first_byte: nothing_yet });
                }
            }
        }
    }

    /// The head just read is an interim one.
    fn pass_interim_on(&mut self) {
        let goes_on = self.interims.as_ref().is_some_and(|interims| interims.put(&self.beresp));
        if goes_on {
            self.busy().nudge();
        }
        let what = if goes_on { "passed on" } else { "dropped" };
        self.log.putf(Tag::Debug, format_args!("Interim response {} {what}", self.beresp.status()));
    }

    fn junk(&mut self, link: &mut Link, text: &str, close: &'static str) -> Result<(), Failure> {
        self.fetch_error(text);
        link.close = Some(close);
        Err(LATE)
    }

    /// The head is final: how the body is framed, and whether the connection lives on.
    fn settle(&mut self, link: &mut Link) -> Result<(), Failure> {
        let to_head = self.head.method() == b"HEAD";
        let framing = match response_framing(&self.beresp, to_head) {
            Ok(framing) => framing,
            Err(error) => {
                let text = error.text();
                self.log.put(Tag::Error, b"Body cannot be fetched");
                return self.junk(link, text, why::RX_BODY);
            }
        };
        if self.beresp.status() < 200 {
            return self.junk(link, "1xx response", why::RX_JUNK);
        }
        self.count_framing(framing, to_head);
        link.framing = framing;
        match hop::connection(&mut self.beresp) {
            Ok(Persistence::Keep) => {}
            Ok(Persistence::Close | Persistence::Http10) => {
                link.close.get_or_insert(why::RESP_CLOSE);
            }
            // As with varnishd the answer is good, its connection isn't.
            Err(_) => {
                link.close.get_or_insert(why::RX_BAD);
            }
        }
        if framing == Framing::Eof {
            link.close.get_or_insert(why::RESP_CLOSE);
        }
        if framing == Framing::None && link.used < link.input.len() {
            // Bytes that nobody asked for: the next response on this connection would be theirs.
            link.close.get_or_insert(why::RX_JUNK);
        }
        Ok(())
    }

    fn count_framing(&self, framing: Framing, to_head: bool) {
        let main = self.engine.main;
        match (framing, self.beresp.status() % 1000) {
            _ if to_head => main.fetch_head.tally(),
            (_, 204) => main.fetch_204.tally(),
            (_, 304) => main.fetch_304.tally(),
            (Framing::Length(_), _) => main.fetch_length.tally(),
            (Framing::Chunked, _) => main.fetch_chunked.tally(),
            (Framing::Eof, _) => main.fetch_eof.tally(),
            (Framing::None, _) => main.fetch_none.tally(),
        }
    }

    fn response_limits(&self) -> Limits {
        Limits {
            head_bytes: self.params.http_resp_size as usize,
            line_bytes: self.params.http_resp_hdr_len as usize,
            lenient: self.params.http_lenient,
            https_scheme: false,
            lone_lf: true,
        }
    }

    /// How long this fetch waits for its backend.
    pub(super) fn timeouts(&self) -> backend::Timeouts {
        let backend = self.backend.as_ref().expect("a connection has a backend");
        backend.timeouts(super::ctx::limit(self.first_byte_timeout), super::ctx::limit(self.between_bytes_timeout))
    }
}

/// A response that another one follows (RFC 9110 15.2). After 101 the connection speaks another protocol.
fn is_interim(status: u16) -> bool {
    (100..200).contains(&status) && status != 101
}

/// How much of something the backend took.
enum Sent {
    All,
    /// It answered before.
    Answered,
}

/// A request's body, piece by piece.
enum Pieces {
    Lent(ReqBody),
    /// And which comes next.
    Kept(Rc<Vec<Buf>>, usize),
}

impl Pieces {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, BodyError>> {
        match self {
            Pieces::Lent(lent) => lent.poll_next(cx),
            Pieces::Kept(pieces, next) => {
                let piece = pieces.get(*next).cloned();
                *next += 1;
                Poll::Ready(Ok(piece))
            }
        }
    }
}

/// varnishd's words: number and text of the error.
fn write_error_text(error: &IoError) -> String {
    match error {
        IoError::Timeout => "11 (Resource temporarily unavailable)".to_owned(),
        IoError::Closed => "32 (Broken pipe)".to_owned(),
        IoError::Os(error) => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_owned();
            format!("{} ({text})", error.raw_os_error().unwrap_or(0))
        }
    }
}
