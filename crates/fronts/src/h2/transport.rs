// SPDX-License-Identifier: BSD-2-Clause
//! A stream as the engine's [`Transport`]: the request's body out of what has come, the response into what waits for its turn.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use engine::httplog::RESP;
use engine::transport::{BodyLen, BodyState, RapidResets, ReqBodyError, SendError, Transport, TransportAcct, Tunnel};
use http2::fields::PreparedRuns;
use http2::{ErrorCode, RapidResetLimit};
use message::{Head, hop};
use rt::{Instant, Sleep};
use shm::vsl::TxnLog;
use storage::Buf;
use tables::close::SessClose;
use tables::tags::Tag;

use super::PROTOCOL;
use super::mux::{Mux, MuxState};
use super::stream::{End, Gone, Stream};
use crate::pace::{BytePace, PaceVerdict};
use crate::waits::RecvWait;

/// Text in records of a transaction whose client sends nothing.
const STALLED_TEXT: &str = "stream is idle";

thread_local! {
    static RUNS: RefCell<PreparedRuns> = RefCell::default();
}

/// Frees what is kept for further responses.
pub(super) fn trim() {
    RUNS.take();
}

pub(super) struct H2 {
    mux: Rc<Mux>,
    place: usize,
    /// True for an extended CONNECT: what the client sends is no body.
    is_tunnel: bool,
    /// Bytes of an announced length that are still to be queued.
    left: Option<u64>,
    recv: RecvWait,
    pace: BytePace,
    behind: usize,
    timer: Option<Pin<Box<Sleep>>>,
}

impl H2 {
    pub(super) fn new(mux: Rc<Mux>, place: usize, is_tunnel: bool) -> Self {
        H2 {
            mux,
            place,
            is_tunnel,
            left: None,
            recv: RecvWait::default(),
            pace: BytePace::default(),
            behind: 0,
            timer: None,
        }
    }

    pub(super) fn is_begun(&self) -> bool {
        self.with(|_, stream| stream.download.is_begun)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.with(|_, stream| stream.gone.is_some())
    }

    /// The request is over: what isn't complete is reset.
    pub(super) fn settle(&mut self) {
        let place = self.place;
        self.mux.with(|state| {
            if state.stream(place).download.end == End::Open {
                state.reset(place, ErrorCode::InternalError, Gone::ByUs);
            }
        });
    }

    /// Gives its place to another stream.
    pub(super) fn release(self) {
        self.mux.with(|state| state.release(self.place));
    }

    fn with<T>(&self, work: impl FnOnce(&mut http2::Connection, &mut Stream) -> T) -> T {
        self.mux.with(|state| {
            let (codec, stream) = state.parts(self.place);
            work(codec, stream)
        })
    }

    fn send_bare(&mut self, head: &Head) {
        let is_final = head.status() >= 200;
        self.mux.with(|state| {
            let (codec, stream) = state.parts(self.place);
            codec.send_head(stream.id, head, is_final);
            if is_final {
                (stream.download.is_begun, stream.download.end) = (true, End::Said);
            }
            state.notify();
        });
    }

    /// Time for which the client may go on as it does; zero if it may not.
    fn patience(&mut self, state: &mut MuxState) -> Duration {
        let sess = &self.mux.sess;
        let engine = &sess.engine;
        let (stream, now) = (state.stream(self.place), engine.clock.mono());
        let queued = stream.download.queued();
        if queued < self.behind {
            self.pace.moved(self.behind - queued, Instant::now);
        }
        self.behind = queued;
        let now_at = Instant::now();
        self.pace.waits(now_at);
        let pace = match self.pace.judge(engine.params.load().min_send_rate, now_at) {
            PaceVerdict::TooSlow => {
                engine.main.send_rate_low.inc();
                state.reset(self.place, ErrorCode::Cancel, Gone::TooSlow);
                return Duration::ZERO;
            }
            PaceVerdict::GoOn(Duration::ZERO) => Duration::MAX,
            PaceVerdict::GoOn(left) => left,
        };
        state.patience(self.place, now, sess).min(pace)
    }

    fn poll_timer(&mut self, limit: Duration, cx: &mut Context<'_>) -> Poll<()> {
        if limit == Duration::MAX {
            return Poll::Pending;
        }
        let until = Instant::now() + limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(rt::sleep_until(until)));
        if timer.deadline() != until {
            timer.as_mut().reset(until);
        }
        timer.as_mut().poll(cx)
    }
}

impl Transport for H2 {
    fn connection(&mut self, head: &mut Head) -> Result<Option<SessClose>, SessClose> {
        // Only a request that came by an upgrade can have the field.
        hop::connection(head).map(|_| None).map_err(|hop::BadConnection| SessClose::RxBad)
    }

    fn send_head(
        &mut self,
        resp: &mut Head,
        len: BodyLen,
        close: Option<SessClose>,
        log: &mut TxnLog,
    ) -> Option<SessClose> {
        log.put(Tag::RespProtocol, PROTOCOL.as_bytes());
        // What it nominates stays here, whatever that is.
        let _ = hop::connection(resp);
        let since = self.mux.sess.engine.mono_of(log.last());
        self.left = if let BodyLen::Known(len) = len { Some(len) } else { None };
        self.mux.with(|state| {
            let (codec, stream) = state.parts(self.place);
            let has_body = len != BodyLen::None;
            let bytes = RUNS.with_borrow_mut(|runs| codec.send_prepared_head(stream.id, resp, !has_body, runs));
            stream.acct.resp_head += bytes as u64;
            (stream.download.is_begun, stream.download.since) = (true, Some(since));
            if !has_body {
                stream.download.end = End::Said;
            }
            state.notify();
        });
        close
    }

    fn send_data(&mut self, mut piece: Buf) {
        if let Some(left) = &mut self.left {
            if piece.len() as u64 > *left {
                // Never more than was announced: the rest would make the message malformed.
                piece = piece.slice(0..*left as usize);
            }
            *left -= piece.len() as u64;
        }
        self.with(|codec, stream| {
            if piece.is_empty() || stream.download.end != End::Open {
                return;
            }
            stream.acct.resp_body += piece.len() as u64;
            if stream.gone.is_none() {
                stream.download.push(piece);
                codec.offer(stream.id);
            }
        });
    }

    fn send_end(&mut self, trailers: Option<&Head>) {
        if self.left.is_some_and(|left| left > 0) {
            return self.abort();
        }
        let place = self.place;
        self.mux.with(|state| {
            let stream = state.stream(place);
            if stream.download.end == End::Open {
                stream.download.end = End::Due;
                stream.download.trailers = trailers.map(|head| Box::new(head.clone()));
            }
            state.end_if_due(place);
            state.notify();
        });
    }

    fn abort(&mut self) {
        let place = self.place;
        // What breaks a tunnel is none of our faults (RFC 8441 5).
        let code = if self.is_tunnel { ErrorCode::Cancel } else { ErrorCode::InternalError };
        self.mux.with(|state| {
            state.pump();
            state.reset(place, code, Gone::ByUs);
        });
    }

    fn send_minimal(&mut self, status: u16, proxy_status: Option<&str>, log: &mut TxnLog) {
        self.send_bare(&RESP.log_minimal(PROTOCOL, status, proxy_status, log));
    }

    fn send_continue(&mut self, log: &mut TxnLog) {
        self.send_bare(&RESP.log_minimal(PROTOCOL, 100, None, log));
    }

    fn has_input(&self) -> bool {
        self.with(|_, stream| stream.upload.has_arrived())
    }

    fn send_interim(&mut self, interim: &Head) {
        self.mux.with(|state| {
            let (codec, stream) = state.parts(self.place);
            if !stream.download.is_begun {
                stream.acct.resp_head += codec.send_head(stream.id, interim, false) as u64;
                state.notify();
            }
        });
    }

    fn queued(&self) -> usize {
        self.with(|_, stream| stream.download.queued())
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>, keep: usize) -> Poll<Result<(), SendError>> {
        let mux = self.mux.clone();
        let patience = mux.with(|state| {
            if let Some(done) = state.poll_queue(self.place, keep) {
                return Err(done);
            }
            let patience = self.patience(state);
            if let Some(done) = state.poll_queue(self.place, keep) {
                return Err(done);
            }
            state.stream(self.place).waits(cx);
            state.notify();
            Ok(patience)
        });
        match patience {
            Err(done) => {
                self.timer = None;
                Poll::Ready(done)
            }
            Ok(patience) => {
                // When it is over this looks again, and ends it.
                if self.poll_timer(patience, cx).is_ready() {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    }

    fn poll_peer_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.with(|_, stream| {
            if stream.gone.is_some() {
                return Poll::Ready(());
            }
            stream.waits(cx);
            Poll::Pending
        })
    }

    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_peer_closed(cx)
    }

    fn rapid_resets(&mut self, limit: Option<RapidResets>) -> Option<RapidResets> {
        self.with(|codec, _| {
            let (now, left) = codec.rapid_resets();
            if let Some(RapidResets { within, most, period, .. }) = limit {
                codec.limit_rapid_resets(RapidResetLimit { within, most, period });
            }
            Some(RapidResets { within: now.within, most: now.most, period: now.period, left: left.into() })
        })
    }

    fn reads_all(&self) -> bool {
        false
    }

    fn body_state(&self) -> BodyState {
        if self.is_tunnel {
            return BodyState::None;
        }
        self.with(|_, stream| stream.upload.state())
    }

    fn body_len(&self) -> Option<u64> {
        self.with(|_, stream| stream.upload.len())
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, ReqBodyError>> {
        let taken = self.mux.with(|state| {
            let (codec, stream) = state.parts(self.place);
            let taken = stream.upload.take();
            match &taken {
                Some(Ok(Some(piece))) => {
                    codec.consumed(stream.id, piece.len());
                    stream.acct.req_body += piece.len() as u64;
                    state.notify();
                }
                Some(_) => {}
                None => stream.waits(cx),
            }
            taken
        });
        match taken {
            Some(Ok(Some(piece))) => {
                self.recv.moved(piece.len());
                Poll::Ready(Ok(Some(piece)))
            }
            Some(end) => {
                self.recv.over();
                Poll::Ready(end)
            }
            None if self.is_tunnel => Poll::Pending,
            None => self.recv.poll(&self.mux.sess, cx).map(|()| {
                let error = ReqBodyError::TimedOut(STALLED_TEXT);
                self.with(|_, stream| stream.upload.fail(error));
                Err(error)
            }),
        }
    }

    fn take_trailers(&mut self) -> Option<Head> {
        self.with(|_, stream| stream.upload.take_trailers())
    }

    fn asks_tunnel(&self) -> bool {
        self.is_tunnel
    }

    fn take_tunnel(&mut self) -> Option<Tunnel> {
        None
    }

    fn acct(&self) -> TransportAcct {
        self.with(|_, stream| stream.acct)
    }
}
