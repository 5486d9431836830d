// SPDX-License-Identifier: BSD-2-Clause
//! One request to an origin and its response, whatever protocol is spoken with it: what `engine::Transport` is on the
//! client's side.
//!
//! ```text
//! send_head -> poll_send .. All -> (send_data -> poll_send .. All)* -> send_end -> poll_send .. All
//!     \____ Interim, Answered, Begun: the origin speaks before the request's end ____/
//! poll_head -> (Part | Interim)* -> Final -> poll_data -> (Piece | Part)* -> End
//! ```
//!
//! An implementation knows no clock, no log and no parameter: who drives it waits as long as it likes, logs, and tells the
//! origin's [`BackendConn`](crate::BackendConn) how the exchange ended. `Part` says that something moved and more is needed: a time limit
//! begins anew. Events say by a [`SessClose`] why the connection can't carry another request.
//!
//! HTTP/1 over a stream is [`Http1`](crate::Http1); a [`Service`](crate::Service) makes others, which may answer without any
//! connection. Heads have no bytes of framing, and a reason phrase may be missing, so that binary protocols fit: of a
//! multiplexed connection an exchange is one stream, whose flow control shows as `Pending`.

use std::io;
use std::task::{Context, Poll};

use http1::FramingError;
use message::Head;
use net::Address;
use storage::Buf;
use tables::close::SessClose;
use tables::proxy_error::ProxyError;

use crate::BackendFault;

/// More interim responses (RFC 9110 15.2) than this before the final one are a fault of the origin.
pub(crate) const MAX_INTERIM: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLen {
    None,
    Known(u64),
    /// Unknown length: chunked, the end of a stream, the connection's end for an HTTP/1.0 client.
    Unknown,
}

/// Framing of a response's body: varnishd's body status, with its numbers and words in FetchBody records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyStatus {
    None,
    Length(u64),
    Chunked,
    /// The body ends with its connection.
    Eof,
}

impl BodyStatus {
    /// Number in FetchBody records.
    pub fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Chunked => 2,
            Self::Length(_) => 3,
            Self::Eof => 4,
        }
    }

    /// Word in FetchBody records.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Chunked => "chunked",
            Self::Length(_) => "length",
            Self::Eof => "eof",
        }
    }
}

/// Limits for a response's head; the number of lines is bounded by the limits of the `Head` that takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RespLimits {
    pub head_bytes: usize,
    pub line_bytes: usize,
    pub lenient: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendProgress {
    All,
    Part,
    /// An interim response has arrived and is in the given head.
    Interim,
    /// The final response has begun, or the origin ended the exchange: the rest isn't sent, and [`Exchange::poll_head`] tells
    /// what there is. The connection can't be used again ([`SessClose::RxBody`]).
    Answered,
    /// The final response has begun, and the origin continues to read the request. Reported once.
    Begun,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Some bytes came, not the whole head.
    Part,
    /// An interim response (RFC 9110 15.2) is in the given head.
    Interim,
    /// The final response's head has arrived, as the origin sent it. Headers that Connection nominates are marked.
    Final { body: BodyStatus, close: Option<SessClose> },
}

#[derive(Debug)]
pub enum Data {
    /// [`Exchange::data`] has the next piece.
    Piece,
    /// Bytes arrived or were processed, but none of the body.
    Part,
    End {
        close: Option<SessClose>,
    },
}

#[derive(Debug)]
pub enum ExchangeSendError {
    Closed,
    /// The origin reports that it hasn't processed the request. It may be sent again, even if it isn't idempotent.
    Refused,
    Os(io::Error),
}

#[derive(Debug)]
pub enum ExchangeHeadError {
    /// The origin closed before its end.
    Closed,
    /// The origin reports that it hasn't processed the request. It may be sent again, even if it isn't idempotent.
    Refused,
    /// The origin has reset the request or violated the protocol: the type of error, and a description.
    Reset(ProxyError, &'static str),
    Os(io::Error),
    Overflow,
    /// The head is invalid: the type of error, and its first word.
    Garbage(ProxyError, Box<[u8]>),
    TooManyInterim,
    /// The headers contradict each other about the body's length.
    Framing(FramingError),
    /// The origin sent a 1xx without a final response.
    NotFinal,
}

impl ExchangeHeadError {
    pub fn close(&self) -> SessClose {
        match self {
            Self::Closed | Self::Reset(..) => SessClose::RxBad,
            Self::Os(_) | Self::Refused => SessClose::RespClose,
            Self::Overflow => SessClose::RxOverflow,
            Self::Garbage(..) | Self::TooManyInterim | Self::NotFinal => SessClose::RxJunk,
            Self::Framing(_) => SessClose::RxBody,
        }
    }
}

impl ExchangeHeadError {
    pub fn fault(&self) -> BackendFault<'static> {
        match self {
            Self::Closed | Self::Os(_) => BackendFault::Closed,
            Self::Refused => BackendFault::REFUSED,
            Self::Reset(error, text) => BackendFault::Invalid(*error, text),
            Self::Overflow => BackendFault::Invalid(
                ProxyError::HttpResponseHeaderSectionSize,
                "its head is larger than http_resp_size",
            ),
            Self::Garbage(error @ ProxyError::HttpResponseHeaderSize, _) => {
                BackendFault::Invalid(*error, "a header line is longer than http_resp_hdr_len")
            }
            Self::Garbage(error @ ProxyError::HttpResponseHeaderSectionSize, _) => {
                BackendFault::Invalid(*error, "its head has more lines than http_max_hdr")
            }
            Self::Garbage(error, _) => BackendFault::Invalid(*error, "it isn't HTTP"),
            Self::TooManyInterim => BackendFault::Invalid(ProxyError::HttpProtocolError, "too many interim responses"),
            Self::Framing(error @ FramingError::BadCoding) => {
                BackendFault::Invalid(ProxyError::HttpResponseTransferCoding, error.text())
            }
            Self::Framing(error) => BackendFault::Invalid(ProxyError::HttpProtocolError, error.text()),
            Self::NotFinal => BackendFault::Invalid(ProxyError::HttpProtocolError, "1xx without a final response"),
        }
    }
}

/// The response's body is incomplete. It must never be treated as complete.
#[derive(Debug)]
pub enum ResponseBodyError {
    /// The type of error, and a description in varnishd's words.
    Broken(ProxyError, &'static str),
    Os(io::Error),
}

/// The body's length in the response's head, if it is unambiguous.
pub fn announced_length(head: &Head) -> Option<u64> {
    http1::framing::content_length(head, true).ok().flatten()
}

/// Bytes of an exchange for BereqAcct: heads and the request's body with the framing they were sent in, the response's body
/// without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ExchangeAcct {
    pub bereq_head: u64,
    pub bereq_body: u64,
    pub beresp_head: u64,
    pub beresp_body: u64,
}

impl std::ops::AddAssign for ExchangeAcct {
    fn add_assign(&mut self, other: ExchangeAcct) {
        self.bereq_head += other.bereq_head;
        self.bereq_body += other.bereq_body;
        self.beresp_head += other.beresp_head;
        self.beresp_body += other.beresp_body;
    }
}

/// One request and its response. Dropping it aborts an exchange that isn't complete.
pub trait Exchange {
    fn peer(&self) -> Address;

    /// The header that announces a body of unknown length in this protocol, if there is one.
    fn unknown_length(&self) -> Option<(&'static str, &'static [u8])>;

    /// Requests a tunnel: the bytes behind both heads will be another protocol's. If the origin agrees, its response is a final one (101 in
    /// HTTP/1), and the pieces of both bodies are the raw bytes. Either side may end its own. Returns false if the protocol can't do that.
    fn ask_tunnel(&mut self) -> bool {
        false
    }

    /// Ready once [`Exchange::ask_tunnel`] has an answer: the origin has sent its settings.
    fn poll_settled(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Lets an HTTP/1 origin that begins its response early have the rest of the request beside it ([`SendProgress::Begun`]). The caller must
    /// read and send at once then. HTTP/2 always does so.
    fn overlap(&mut self) {}

    /// Queues the request's head. Called once. The head's statement about the body's length must be true. `limits` apply to the response's
    /// head.
    fn send_head(&mut self, bereq: &Head, body: BodyLen, limits: &RespLimits);

    /// Queues the next piece of the body. Everything before must have been sent, and the piece must not be empty.
    fn send_data(&mut self, piece: Buf);

    /// True if trailers may follow both bodies whatever their length, and the origin should learn that we read its own (RFC 9110 10.1.4).
    fn takes_trailers(&self) -> bool {
        false
    }

    /// Ends the body. A body of unknown length may have trailers.
    fn send_end(&mut self, trailers: Option<&Head>);

    /// Writes the queue. Ready with [`SendProgress::All`] when the origin accepts more. After [`SendProgress::Answered`], nothing more may
    /// be queued.
    fn poll_send(&mut self, cx: &mut Context<'_>, beresp: &mut Head) -> Poll<Result<SendProgress, ExchangeSendError>>;

    /// Ready when the origin sends something while nothing is queued: [`SendProgress::Interim`], [`SendProgress::Answered`] or
    /// [`SendProgress::Begun`].
    fn poll_answer(&mut self, cx: &mut Context<'_>, beresp: &mut Head) -> Poll<SendProgress>;

    fn poll_head(&mut self, cx: &mut Context<'_>, beresp: &mut Head) -> Poll<Result<Received, ExchangeHeadError>>;

    fn has_begun(&self) -> bool;

    /// Receives more of the body. The previous piece becomes invalid.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Data, ResponseBodyError>>;

    fn data(&self) -> &[u8];

    /// True if all received bytes were processed, so the next [`Exchange::poll_data`] waits for the origin. Otherwise it is ready at once.
    fn is_drained(&self) -> bool;

    /// The trailers of a complete body, if the protocol has kept them.
    fn trailers(&self) -> Option<&Head>;

    /// Makes the origin see an abort, not an end, when this is dropped: the request's body is incomplete.
    fn reset(&mut self, reason: SessClose);

    fn acct(&self) -> ExchangeAcct;
}
