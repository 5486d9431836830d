// SPDX-License-Identifier: BSD-2-Clause
//! Where every HTTP version meets the engine: what a front must offer for one request and its response.
//!
//! Output is queued by plain calls and written by [`Transport::poll_flush`], so that a head, its body and the answers to
//! pipelined requests can leave in one write. Input is the request's body, in pieces.

use std::task::{Context, Poll};

pub use backend::BodyLen;
use message::Head;
use shm::vsl::TxnLog;
use storage::Buf;
use tables::close::SessClose;
pub use vrt::ctx::RapidResets;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyState {
    None,
    Unread,
    Done,
    /// The client broke it or went away; it will never be complete.
    Failed,
}

/// The reason why the request's body is unavailable. The front supplies texts that depend on the framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReqBodyError {
    Malformed(&'static str),
    Closed(&'static str),
    /// The client sends nothing, or too slowly.
    TimedOut(&'static str),
    /// More than may be kept.
    TooLarge,
    /// The body may not be kept, as its client wants it to be forwarded as it comes (RFC 10036).
    Incremental,
    /// A filter of ours failed, for want of memory or the like: the body itself is valid.
    FiltersFailed,
    /// Nobody reads the body any more.
    GivenUp,
}

impl ReqBodyError {
    /// varnishd's FetchError record for it, in the transaction of whoever sent the body.
    pub fn text(self) -> &'static str {
        match self {
            Self::Malformed(text) | Self::Closed(text) | Self::TimedOut(text) => text,
            Self::TooLarge => "Request body too big to cache",
            Self::Incremental => "Incremental request body refused: std.cache_req_body needs all of it",
            Self::FiltersFailed => "req.body filters failed",
            Self::GivenUp => "Request body given up",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    Closed,
    /// The client doesn't read, or too slowly.
    TimedOut,
}

/// Bytes of one request and its response, for the log and the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportAcct {
    pub req_head: u64,
    /// Body of the request, framing left out.
    pub req_body: u64,
    pub resp_head: u64,
    /// Body of the response, framing left out.
    pub resp_body: u64,
}

pub struct Tunnel {
    pub stream: net::Stream,
    /// Bytes that were read past the request's head.
    pub buffered: Vec<u8>,
}

/// One request's way to its client.
pub trait Transport {
    /// Reads the statements of the request's head about the connection: marks the headers that go no further, and
    /// returns the reason if the connection ends after this request.
    ///
    /// # Errors
    /// The request can't be accepted: the reason why the connection ends after the refusal.
    fn connection(&mut self, head: &mut Head) -> Result<Option<SessClose>, SessClose>;

    /// Queues the response's head. Adds the headers that only the front knows (Connection, Transfer-Encoding) to it and
    /// to the log. `close` asks for the connection's end after this response; returns the reason if it will end.
    fn send_head(
        &mut self,
        resp: &mut Head,
        len: BodyLen,
        close: Option<SessClose>,
        log: &mut TxnLog,
    ) -> Option<SessClose>;

    fn send_data(&mut self, piece: Buf);

    /// The body is complete. `trailers` are the fields behind it (RFC 9110 6.5), which reach a client that takes them.
    fn send_end(&mut self, trailers: Option<&Head>);

    /// Ends the response early, in a way that shows the client that the body is incomplete.
    fn abort(&mut self);

    /// Queues and logs a bare response that VCL never sees: 400, 417, 500, 503. It has at most one header, `Proxy-Status`.
    fn send_minimal(&mut self, status: u16, proxy_status: Option<&str>, log: &mut TxnLog);

    fn send_continue(&mut self, log: &mut TxnLog);

    fn has_input(&self) -> bool;

    fn send_interim(&mut self, interim: &Head);

    /// Bytes queued and not yet written.
    fn queued(&self) -> usize;

    /// Writes until at most `keep` bytes are queued.
    fn poll_flush(&mut self, cx: &mut Context<'_>, keep: usize) -> Poll<Result<(), SendError>>;

    /// Ready when the client has closed its end, as far as that is visible: bytes that it sent and nobody read yet hide
    /// it.
    fn poll_peer_closed(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Ready when the client has given up this request alone. It wants no response, whatever was begun for it.
    fn poll_reset(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// True if the request's body has to be read to its end before the answer, because nothing else separates one
    /// request's bytes from the next one's.
    fn reads_all(&self) -> bool {
        true
    }

    fn body_state(&self) -> BodyState;

    fn body_len(&self) -> Option<u64>;

    /// The next piece of the request's body, `None` at its end.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, ReqBodyError>>;

    /// The fields behind the request's body, once that is complete, where the front keeps them.
    fn take_trailers(&mut self) -> Option<Head> {
        None
    }

    /// The limit of rapid resets of the client's connection, which is then changed to `limit`, if any. `None`: it isn't
    /// HTTP/2.
    fn rapid_resets(&mut self, limit: Option<RapidResets>) -> Option<RapidResets> {
        let _ = limit;
        None
    }

    /// True if the request asks for a tunnel on its stream (extended CONNECT, RFC 8441), which a response of 2xx opens.
    /// The client's bytes on it are no body: [`Transport::poll_body`] returns them without a time limit, and
    /// [`Transport::body_state`] says that there is none.
    fn asks_tunnel(&self) -> bool {
        false
    }

    /// The raw connection, when this version of HTTP can give it away.
    fn take_tunnel(&mut self) -> Option<Tunnel>;

    fn acct(&self) -> TransportAcct;
}
