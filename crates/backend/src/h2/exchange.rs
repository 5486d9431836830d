// SPDX-License-Identifier: BSD-2-Clause
//! One request and its response, as a stream of a shared connection.

use std::sync::Arc;
use std::task::{Context, Poll};

use message::{Head, names};
use net::Address;
use storage::Buf;
use tables::close::SessClose;
use tables::proxy_error::ProxyError;

use super::Shared;
use super::stream::{End, RequestEnd, Stream};
use crate::buffers::Buffer;
use crate::exchange::{
    BodyLen, BodyStatus, Data, Exchange, ExchangeAcct, ExchangeHeadError, ExchangeSendError, Received, RespLimits,
    ResponseBodyError, SendProgress,
};
use crate::pool::PeerLabel;

pub(crate) struct Http2Exchange {
    shared: Shared,
    label: Arc<PeerLabel>,
    state: ExchangeState,
    is_alone: bool,
    asks_tunnel: bool,
    to_head: bool,
    /// True if the caller knows that the response has begun.
    has_begun_told: bool,
    piece: Buffer,
    trailers: Option<Box<Head>>,
    /// The connection's count of frames when the request was made.
    heard: u64,
    /// Size of the response's body. All counts once the stream is gone.
    acct: ExchangeAcct,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExchangeState {
    Idle,
    Open(u32),
    Refused,
}

const NO_STREAM: End = End::Broken(ProxyError::ConnectionTerminated, super::connection::CLOSED);

impl Http2Exchange {
    pub(super) fn new(shared: &Shared) -> Self {
        let connection = shared.borrow();
        Http2Exchange {
            shared: shared.clone(),
            label: connection.label.clone(),
            state: ExchangeState::Idle,
            is_alone: false,
            asks_tunnel: false,
            to_head: false,
            has_begun_told: false,
            piece: Buffer::default(),
            trailers: None,
            heard: connection.heard(),
            acct: ExchangeAcct::default(),
        }
    }

    pub(crate) fn label(&self) -> &Arc<PeerLabel> {
        &self.label
    }

    /// Makes the connection end with this exchange.
    pub(super) fn alone(mut self) -> Self {
        self.is_alone = true;
        self
    }

    fn id(&self) -> Option<u32> {
        match self.state {
            ExchangeState::Open(id) => Some(id),
            ExchangeState::Idle | ExchangeState::Refused => None,
        }
    }

    fn with<T>(&self, gone: T, look: impl FnOnce(&mut Stream) -> T) -> T {
        let mut connection = self.shared.borrow_mut();
        self.id().and_then(|id| connection.stream(id)).map_or(gone, look)
    }

    fn end(&self) -> End {
        match self.state {
            ExchangeState::Refused => End::Refused,
            ExchangeState::Idle | ExchangeState::Open(_) => self.with(NO_STREAM, |stream| stream.end),
        }
    }

    fn spoken(&mut self, beresp: &mut Head) -> Option<SendProgress> {
        let is_told = self.has_begun_told;
        let (interim, spoken) = self.with((None, Some(SendProgress::Answered)), |stream| {
            let interim = stream.interims.pop_front();
            let spoken = match stream.end {
                End::Broken(..) | End::Refused => Some(SendProgress::Answered),
                End::Whole if !stream.is_sent() && !stream.is_tunnel => Some(SendProgress::Answered),
                End::Open if stream.is_answered && !is_told && !stream.is_sent() => Some(SendProgress::Begun),
                End::Open | End::Whole => None,
            };
            (interim, spoken)
        });
        if let Some(interim) = interim {
            self.put_head(interim, beresp);
            return Some(SendProgress::Interim);
        }
        self.has_begun_told |= spoken == Some(SendProgress::Begun);
        spoken
    }

    fn put_head(&self, mut head: Head, beresp: &mut Head) {
        std::mem::swap(&mut head, beresp);
        self.shared.borrow_mut().take_back(head);
    }

    fn use_piece(&mut self) {
        let Some(id) = self.id().filter(|_| !self.piece.is_empty()) else { return };
        self.shared.borrow_mut().consumed(id, self.piece.len());
        self.piece.release();
    }
}

impl Exchange for Http2Exchange {
    fn peer(&self) -> Address {
        self.label.peer
    }

    fn unknown_length(&self) -> Option<(&'static str, &'static [u8])> {
        None
    }

    fn ask_tunnel(&mut self) -> bool {
        self.asks_tunnel = self.shared.borrow().takes_tunnels();
        self.asks_tunnel
    }

    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.borrow_mut().poll_settled(cx)
    }

    fn send_head(&mut self, bereq: &Head, body: BodyLen, _limits: &RespLimits) {
        self.to_head = bereq.method() == b"HEAD";
        let mut connection = self.shared.borrow_mut();
        self.heard = connection.heard();
        let opened = match bereq.get(names::UPGRADE).filter(|_| self.asks_tunnel) {
            Some(protocol) => connection.open_tunnel(bereq, &protocol.to_ascii_lowercase()),
            None => connection.open(bereq, body),
        };
        self.state = opened.map_or(ExchangeState::Refused, ExchangeState::Open);
    }

    fn send_data(&mut self, piece: Buf) {
        let Some(id) = self.id() else { return };
        let mut connection = self.shared.borrow_mut();
        let Some(stream) = connection.stream(id).filter(|stream| stream.takes_more()) else { return };
        (stream.piece, stream.sent) = (Some(piece), 0);
        connection.offer(id);
    }

    fn takes_trailers(&self) -> bool {
        true
    }

    fn send_end(&mut self, trailers: Option<&Head>) {
        let Some(id) = self.id() else { return };
        let mut connection = self.shared.borrow_mut();
        let Some(stream) = connection.stream(id) else { return };
        if !matches!(stream.request_end, RequestEnd::Open) || !stream.takes_more() {
            return;
        }
        let trailers = trailers.map(|trailers| {
            let mut copy = Head::with_limits(trailers.limits());
            copy.copy_from(trailers);
            Box::new(copy)
        });
        stream.request_end = RequestEnd::Due(trailers);
        connection.wake_task();
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, beresp: &mut Head) -> Poll<Result<SendProgress, ExchangeSendError>> {
        if self.end() == End::Refused {
            return Poll::Ready(Err(ExchangeSendError::Refused));
        }
        if let Some(spoken) = self.spoken(beresp) {
            return Poll::Ready(Ok(spoken));
        }
        self.with(Poll::Ready(Ok(SendProgress::Answered)), |stream| {
            let is_out = stream.piece.is_none() && !matches!(stream.request_end, RequestEnd::Due(_));
            if is_out { Poll::Ready(Ok(SendProgress::All)) } else { stream.park(cx) }
        })
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>, beresp: &mut Head) -> Poll<SendProgress> {
        match self.spoken(beresp) {
            Some(spoken) => Poll::Ready(spoken),
            None => self.with(Poll::Ready(SendProgress::Answered), |stream| stream.park(cx)),
        }
    }

    fn poll_head(&mut self, cx: &mut Context<'_>, beresp: &mut Head) -> Poll<Result<Received, ExchangeHeadError>> {
        let end = self.end();
        let (head, is_interim, announced) =
            self.with((None, false, None), |stream| match stream.interims.pop_front() {
                Some(interim) => (Some(interim), true, None),
                None => (stream.head.take(), false, stream.announced),
            });
        let Some(head) = head else {
            return match end {
                End::Open => self.with(Poll::Ready(Err(ExchangeHeadError::Closed)), |stream| stream.park(cx)),
                End::Refused => Poll::Ready(Err(ExchangeHeadError::Refused)),
                End::Broken(error, reason) => Poll::Ready(Err(ExchangeHeadError::Reset(error, reason))),
                End::Whole => Poll::Ready(Err(ExchangeHeadError::NotFinal)),
            };
        };
        self.put_head(head, beresp);
        if is_interim {
            return Poll::Ready(Ok(Received::Interim));
        }
        let has_body =
            self.with(false, |stream| stream.end != End::Whole || !stream.body.is_empty() || stream.trailers.is_some());
        let body = match announced {
            _ if !has_body || self.to_head || matches!(beresp.status(), 204 | 304) => BodyStatus::None,
            Some(len @ 1..) => BodyStatus::Length(len),
            Some(0) | None => BodyStatus::Chunked,
        };
        Poll::Ready(Ok(Received::Final { body, close: None }))
    }

    fn has_begun(&self) -> bool {
        self.with(false, |stream| stream.acct.beresp_head > 0)
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Data, ResponseBodyError>> {
        self.use_piece();
        let taken = self.with(None, |stream| (!stream.body.is_empty()).then(|| std::mem::take(&mut stream.body)));
        if let Some(body) = taken {
            self.acct.beresp_body += body.len() as u64;
            self.piece = body;
            return Poll::Ready(Ok(Data::Piece));
        }
        match self.end() {
            End::Open => self.with(Poll::Ready(Ok(Data::Part)), |stream| stream.park(cx)),
            End::Whole => {
                self.trailers = self.with(None, |stream| stream.trailers.take());
                Poll::Ready(Ok(Data::End { close: None }))
            }
            End::Refused => {
                Poll::Ready(Err(ResponseBodyError::Broken(ProxyError::ConnectionTerminated, super::connection::CLOSED)))
            }
            End::Broken(error, reason) => Poll::Ready(Err(ResponseBodyError::Broken(error, reason))),
        }
    }

    fn data(&self) -> &[u8] {
        &self.piece
    }

    fn is_drained(&self) -> bool {
        self.with(false, |stream| stream.body.is_empty() && stream.end == End::Open)
    }

    fn trailers(&self) -> Option<&Head> {
        self.trailers.as_deref()
    }

    fn reset(&mut self, _reason: SessClose) {
        if let Some(id) = self.id() {
            self.shared.borrow_mut().reset(id, "request body broken");
        }
    }

    fn acct(&self) -> ExchangeAcct {
        let mut acct = self.with(ExchangeAcct::default(), |stream| stream.acct);
        acct += self.acct;
        acct
    }
}

impl Drop for Http2Exchange {
    fn drop(&mut self) {
        // A panic in the connection's task may have left it borrowed. The connection then ends anyway.
        let Ok(mut connection) = self.shared.try_borrow_mut() else { return };
        if self.is_alone {
            connection.retire();
        }
        let ExchangeState::Open(id) = self.state else { return };
        let is_silent = connection.heard() == self.heard;
        if is_silent && connection.stream(id).is_some_and(|stream| stream.end == End::Open) {
            // Nothing arrived while this exchange waited, so the connection may be dead: the next one should use another.
            connection.retire();
        }
        connection.leave(id);
    }
}
