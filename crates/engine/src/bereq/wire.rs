// SPDX-License-Identifier: BSD-2-Clause
//! One exchange with a backend over HTTP/1: the request goes out, with the body it has, and the response's head comes in.

use std::future::poll_fn;
use std::io::IoSlice;
use std::task::Poll;
use std::time::Duration;

use http1::{ChunkHeader, Framing, LAST_CHUNK, Limits, Progress, parse_response, response_framing};
use message::hop::{self, Persistence};
use message::names;
use net::IoError;
use rt::Instant;
use storage::Buf;
use tables::tags::Tag;

use super::fetch::why;
use super::{Bereq, BereqBody, Link};
use crate::httplog::BEREQ;

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
        let body = self.body.clone();
        let chunked = matches!(&body, BereqBody::Lent(lent) if lent.bytes().is_none());
        if chunked && !self.head.has(names::TRANSFER_ENCODING) {
            let coding: &[&[u8]] = &[b"chunked"];
            self.count_lost(|this| BEREQ.append(&mut this.head, &mut this.log, names::TRANSFER_ENCODING, coding));
        }
        let mut head = Vec::with_capacity(512);
        self.head.write_to(&mut head);
        let sent = self.send(link, &head, &body, chunked).await;
        self.mark("Bereq");
        self.engine.main.backend_req.inc();
        sent?;
        self.receive_head(link).await
    }

    async fn send(&mut self, link: &mut Link, head: &[u8], body: &BereqBody, chunked: bool) -> Result<(), Failure> {
        let stream = link.conn.stream();
        let limit = self.timeouts().between_bytes;
        if let BereqBody::Kept(pieces) = body {
            let mut slices: Vec<&[u8]> = vec![head];
            slices.extend(pieces.iter().map(|piece| &piece[..]));
            self.written(link, stream_write(link, &slices, limit).await)?;
            self.acct.bereq_head += head.len() as u64;
            self.acct.bereq_body += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
            return Ok(());
        }
        let result = stream.write_all(head, deadline(limit)).await;
        self.written(link, result)?;
        self.acct.bereq_head += head.len() as u64;
        let BereqBody::Lent(lent) = body else { return Ok(()) };
        self.no_retry = Some("req.body not cached");
        loop {
            // An answer before the body's end is taken at once; the connection can't be used again then.
            let next = poll_fn(|cx| {
                if let Poll::Ready(piece) = lent.poll_next(cx) {
                    return Poll::Ready(Some(piece));
                }
                link.conn.stream().poll_readable(cx).map(|_| None)
            })
            .await;
            match next {
                None => {
                    link.close = Some(why::RX_BODY);
                    return Ok(());
                }
                Some(Ok(Some(piece))) => {
                    let result = write_piece(link, &piece, chunked, limit).await;
                    if result.is_err() && answer_waits(link) {
                        link.close = Some(why::RX_BODY);
                        return Ok(());
                    }
                    self.written(link, result)?;
                    self.acct.bereq_body += piece.len() as u64;
                }
                Some(Ok(None)) => {
                    if chunked {
                        let result = link.conn.stream().write_all(LAST_CHUNK, deadline(limit)).await;
                        self.written(link, result)?;
                    }
                    return Ok(());
                }
                Some(Err(error)) => {
                    // The origin must not take a broken upload for a whole one: the connection is cut.
                    self.log.putf(Tag::FetchError, format_args!("req.body read error: {error:?}"));
                    link.conn.stream().reset_on_close();
                    link.close = Some(why::RX_BODY);
                    return Err(LATE);
                }
            }
        }
    }

    fn written(&mut self, link: &mut Link, result: Result<(), IoError>) -> Result<(), Failure> {
        let Err(error) = result else { return Ok(()) };
        self.log.putf(Tag::FetchError, format_args!("backend write error: {}", write_error_text(&error)));
        link.close = Some("Error transaction");
        Err(EARLY)
    }

    async fn receive_head(&mut self, link: &mut Link) -> Result<(), Failure> {
        let (limits, times) = (self.response_limits(), self.timeouts());
        let mut patience = times.first_byte;
        let mut interim = 0;
        loop {
            match parse_response(&link.input[link.used..], &limits, &mut self.beresp) {
                Ok(Progress::Complete(parsed)) => {
                    link.used += parsed.consumed;
                    self.acct.beresp_head += parsed.consumed as u64;
                    let status = self.beresp.status();
                    if (100..200).contains(&status) && status != 101 {
                        interim += 1;
                        if interim > MAX_INTERIM {
                            self.fetch_error("too many interim responses");
                            link.close = Some(why::RX_JUNK);
                            return Err(LATE);
                        }
                        continue;
                    }
                    return self.settle(link);
                }
                Ok(Progress::Idle | Progress::Incomplete) => {}
                Ok(Progress::Http2Preface) => return self.junk(link, "Received junk", why::RX_JUNK),
                Err(http1::HeadError::Overflow) => return self.junk(link, "overflow", "Received buffer overflow"),
                Err(_) => {
                    self.acct.beresp_head += (link.input.len() - link.used) as u64;
                    return self.junk(link, "http format error", why::RX_JUNK);
                }
            }
            let nothing_yet = link.input.is_empty();
            link.input.reserve(HEAD_READ_BYTES);
            match link.conn.stream_mut().read_more(&mut link.input, deadline(patience)).await {
                Ok(0) | Err(IoError::Closed) => {
                    self.acct.beresp_head += (link.input.len() - link.used) as u64;
                    self.fetch_error("backend closed");
                    link.close = Some(why::RESP_CLOSE);
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
                return self.junk(link, text, why::RX_JUNK);
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
            Err(_) => return self.junk(link, "Connection names a field that must stay", why::RX_BAD),
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
            _ if to_head => main.fetch_head.inc(),
            (_, 204) => main.fetch_204.inc(),
            (_, 304) => main.fetch_304.inc(),
            (Framing::Length(_), _) => main.fetch_length.inc(),
            (Framing::Chunked, _) => main.fetch_chunked.inc(),
            (Framing::Eof, _) => main.fetch_eof.inc(),
            (Framing::None, _) => main.fetch_none.inc(),
        }
    }

    fn response_limits(&self) -> Limits {
        Limits {
            head_bytes: self.params.http_resp_size as usize,
            line_bytes: self.params.http_resp_hdr_len as usize,
            lenient: self.params.http_lenient,
            https_scheme: false,
        }
    }

    /// How long this fetch waits for its backend.
    pub(super) fn timeouts(&self) -> backend::Timeouts {
        let backend = self.backend.as_ref().expect("a connection has a backend");
        backend.timeouts(super::ctx::limit(self.first_byte_timeout), super::ctx::limit(self.between_bytes_timeout))
    }
}

/// That far from now; a zero limit is none.
pub(super) fn deadline(limit: Duration) -> Option<Instant> {
    (!limit.is_zero()).then(|| Instant::now() + limit)
}

async fn stream_write(link: &Link, slices: &[&[u8]], limit: Duration) -> Result<(), IoError> {
    let mut slices: Vec<IoSlice<'_>> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
    link.conn.stream().write_all_vectored(&mut slices, Duration::ZERO, deadline(limit)).await
}

async fn write_piece(link: &Link, piece: &Buf, chunked: bool, limit: Duration) -> Result<(), IoError> {
    if !chunked {
        return link.conn.stream().write_all(piece, deadline(limit)).await;
    }
    let size = ChunkHeader::new(piece.len());
    stream_write(link, &[size.as_bytes(), piece, b"\r\n"], limit).await
}

/// Whether the backend said something before it stopped reading.
fn answer_waits(link: &Link) -> bool {
    link.conn.stream().pending() == net::Pending::Data
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
