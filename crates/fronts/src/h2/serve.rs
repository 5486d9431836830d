// SPDX-License-Identifier: BSD-2-Clause
//! The connection's task: reads what is there, begins the requests that came, and writes what all streams have, as one.
//!
//! ```text
//! Serving --client's GOAWAY, drain--> no stream is left --> End
//!    |------fault, abuse--> GOAWAY is written, streams end --> End
//!    \------client gone, or reads nothing--> streams end --> End
//! Serving --no stream, nothing to say--> Idle
//! ```

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use base::Mono;
use engine::pool;
use engine::transport::ReqBodyError;
use http2::fields::SectionFacts;
use http2::{ErrorCode, Http2Event, Http2Fault, Http2FrameType, Http2Scratch, ReceiveStep};
use message::Head;
use params::Params;
use rt::{Deadline, Instant};
use tables::close::SessClose;

use super::mux::{Mux, MuxState, RESET_TEXT};
use super::places::Places;
use super::request::{self, Job, JobKind};
use super::stream::{Gone, Phase};
use super::{codes, wire};
use crate::buffers::Buffers;
use crate::conn::{ClientConn, CloseState};
use crate::refusal::HeadRefusal;
use crate::session::SessionOutcome;
use crate::waits::SendWait;

const READ_BYTES: usize = 16 * 1024;
/// Bytes waiting for the client above which nothing is read.
const HELD_BYTES: usize = 256 * 1024;
/// Number of reads before others have their turn.
const ROUNDS: usize = 8;
/// CPU time that a request is charged with, in microseconds, beside its long parts.
const REQUEST_MICROS: u32 = 10;
/// Room for so many requests that wait is kept.
const KEPT_JOBS: usize = 32;

thread_local! {
    static SCRATCH: RefCell<Http2Scratch> = RefCell::default();
}

/// Memory of a busy connection. It stays with what the connection was busy on (see [`rt::Runners`]).
#[derive(Default)]
pub(super) struct Workspace {
    buffers: Buffers,
    codec: http2::Workspace,
    streams: Places,
    waiting: VecDeque<Job>,
}

pub(super) struct Serving {
    conn: Box<ClientConn>,
    mux: Rc<Mux>,
    head: Head,
    params: Arc<Params>,
    send: SendWait,
    /// A drain's, while the client's answer is waited for.
    drain: Option<Deadline>,
    /// Deadline of the next lingering stream, when it is reset.
    linger: Option<(Instant, Deadline)>,
    is_lost: bool,
    /// Nothing is listened to, and nothing but what is in the output is said.
    is_shut: bool,
    is_told: bool,
    /// Something came that means anything.
    was_active: bool,
    /// Requests that came, and are begun once others have had their turn.
    waiting: VecDeque<Job>,
    /// The wait for others' turn.
    turn: Option<rt::GiveWay>,
}

impl Serving {
    pub(super) fn new(mut conn: Box<ClientConn>, workspace: Workspace) -> Self {
        let mux = conn.h2.clone().expect("a connection that speaks HTTP/2 has its codec");
        let Workspace { buffers: Buffers { input, mut output }, codec, streams, waiting } = workspace;
        if conn.input.is_empty() {
            conn.input = input;
        }
        // Frames lie between the pieces of a body: they aren't lent.
        output.begin_body(Some(u64::MAX));
        mux.with(|state| {
            state.output = output;
            state.resume(codec, streams);
        });
        let params = conn.sess.engine.params.load_full();
        let head = pool::request_head(&params);
        Serving {
            conn,
            mux,
            head,
            params,
            send: SendWait::new(),
            drain: None,
            linger: None,
            is_lost: false,
            is_shut: false,
            is_told: false,
            was_active: false,
            waiting,
            turn: None,
        }
    }

    /// The connection is idle from now on, or at its end.
    pub(super) fn into_parts(mut self) -> (Box<ClientConn>, Workspace) {
        pool::leave_head(self.head);
        let (output, (codec, streams)) = self.mux.with(|state| (std::mem::take(&mut state.output), state.rest()));
        if self.was_active {
            self.conn.idle_since = Instant::now();
        }
        let input = std::mem::take(&mut self.conn.input);
        self.waiting.clear();
        self.waiting.shrink_to(KEPT_JOBS);
        let buffers = Buffers { input, output }.emptied();
        (self.conn, Workspace { buffers, codec, streams, waiting: self.waiting })
    }

    pub(super) async fn run(&mut self) -> SessionOutcome {
        poll_fn(|cx| {
            self.mux.with(|state| state.is_running = true);
            let polled = self.poll(cx);
            self.mux.with(|state| state.waits(cx));
            polled
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<SessionOutcome> {
        for _ in 0..ROUNDS {
            let has_turn = self.poll_turn(cx).is_ready();
            let is_held = self.is_held();
            let has_read = has_turn && !is_held && self.poll_read(cx).is_ready();
            self.drain_if_due(cx);
            self.reset_lingering(cx);
            self.is_shut |= self.mux.with(|state| state.is_ended);
            self.write(cx);
            if let Some(outcome) = self.outcome(has_read) {
                return Poll::Ready(outcome);
            }
            if !has_read && (!has_turn || !is_held || self.is_held()) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ready once others have had their turn, if they were let go first.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(turn) = &mut self.turn {
            std::task::ready!(Pin::new(turn).poll(cx));
            self.turn = None;
        }
        Poll::Ready(())
    }

    fn listens(&self) -> bool {
        !self.is_lost && !self.is_shut
    }

    /// True if the client doesn't read what was sent: it is heard no further.
    fn is_held(&self) -> bool {
        self.mux.with(|state| state.unsent()) > HELD_BYTES
    }

    /// Takes what has come. Pending: nothing has, or nobody listens.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.waiting.is_empty() {
            self.begin_waiting(cx);
            return Poll::Ready(());
        }
        if !self.listens() {
            return Poll::Pending;
        }
        if self.conn.input.is_empty() {
            match std::task::ready!(self.conn.poll_more(cx, READ_BYTES)) {
                Ok(1..) => {}
                Ok(0) | Err(_) => {
                    self.mux.with(|state| state.wire.debug(format_args!("H2: No frame (hs=EOF)")));
                    self.lose(SessClose::RemClose);
                    return Poll::Ready(());
                }
            }
        }
        let (mut input, mut jobs) = (std::mem::take(&mut self.conn.input), std::mem::take(&mut self.waiting));
        self.take_input(&input, &mut jobs);
        input.clear();
        (self.conn.input, self.waiting) = (input, jobs);
        self.begin_waiting(cx);
        Poll::Ready(())
    }

    fn begin_waiting(&mut self, cx: &mut Context<'_>) {
        while let Some(job) = self.waiting.pop_front() {
            request::start(job, cx);
            if rt::spend(REQUEST_MICROS) {
                self.turn = Some(rt::give_way());
                return;
            }
        }
        self.waiting.shrink_to(KEPT_JOBS);
    }

    fn lose(&mut self, close: SessClose) {
        self.is_lost = true;
        self.mux.with(|state| {
            state.close.get_or_insert(close);
            state.end_all();
        });
    }

    fn take_input(&mut self, input: &[u8], jobs: &mut VecDeque<Job>) {
        let mux = self.mux.clone();
        let now = self.conn.sess.engine.clock.mono();
        SCRATCH.with_borrow_mut(|scratch| {
            mux.with(|state| {
                let (mut at, mut idle_steps) = (0, 0);
                loop {
                    let rest = &input[at..];
                    let step = state.codec.receive(rest, now, &mut self.head, scratch);
                    at += step.consumed;
                    state.wire.received(step.frame, &rest[step.payload.clone()]);
                    let is_none = matches!(step.event, Http2Event::None);
                    let is_over = is_none && at == input.len();
                    idle_steps = if is_none && step.consumed == 0 { idle_steps + 1 } else { 0 };
                    debug_assert!(idle_steps < 3, "the codec takes all that comes");
                    if idle_steps == 3 {
                        // What isn't understood mustn't be skipped, nor stop the thread: it ends this connection.
                        self.is_lost = true;
                        state.close.get_or_insert(SessClose::RxJunk);
                        return state.end_all();
                    }
                    if state.preface_left > 0 && !matches!(step.event, Http2Event::Fault(_)) {
                        self.take_preface(state, step.consumed, jobs);
                    }
                    self.act(state, step, rest, now, jobs);
                    if is_over {
                        break;
                    }
                }
            });
        });
    }

    fn take_preface(&mut self, state: &mut MuxState, consumed: usize, jobs: &mut VecDeque<Job>) {
        state.preface_left = state.preface_left.saturating_sub(consumed);
        if state.preface_left > 0 {
            return;
        }
        self.was_active = true;
        state.wire.debug(format_args!("H2: Got pu PRISM"));
        if let Some(upgraded) = self.mux.upgraded.take() {
            let place = state.open(1, Phase::None, None, upgraded.head_bytes);
            jobs.push_back(Job { mux: self.mux.clone(), place, kind: JobKind::Upgraded(upgraded) });
        }
    }

    fn act(&mut self, state: &mut MuxState, step: ReceiveStep, input: &[u8], now: Mono, jobs: &mut VecDeque<Job>) {
        // Who asks for nothing is idle, whatever else is said.
        self.was_active |= matches!(
            step.event,
            Http2Event::Head { .. }
                | Http2Event::HeadTooLarge { .. }
                | Http2Event::Trailers { .. }
                | Http2Event::Data { .. }
        );
        match step.event {
            Http2Event::None | Http2Event::SettingsAck | Http2Event::PingAck(_) => {}
            Http2Event::Head { stream, end, section } => {
                let refusal = section.refusal.map(HeadRefusal::Meaningless);
                jobs.push_back(self.begin(state, stream, end, &section, refusal));
            }
            Http2Event::HeadTooLarge { stream, end, malformed } => {
                let refusal = Some(HeadRefusal::TooLarge(malformed));
                jobs.push_back(self.begin(state, stream, end, &SectionFacts::default(), refusal));
            }
            Http2Event::Trailers { stream } => {
                if let Some(place) = state.find(stream) {
                    let trailers = std::mem::replace(&mut self.head, pool::request_head(&self.params));
                    state.stream(place).upload.end_with(trailers);
                    state.stream(place).wake();
                }
                state.end_lingering(stream);
            }
            Http2Event::Data { stream, body, end } => match state.find(stream) {
                Some(place) => {
                    state.stream(place).upload.push(&input[body], end);
                    state.stream(place).wake();
                }
                None => {
                    state.codec.consumed(stream, body.len());
                    if end {
                        state.end_lingering(stream);
                    }
                }
            },
            Http2Event::Reset { stream, .. } => {
                state.lost(stream, Gone::ByClient, ReqBodyError::Closed(RESET_TEXT));
                state.end_lingering(stream);
            }
            Http2Event::Broken { stream, fault } => {
                state.wire.debug(format_args!("H2: stream {stream}: {}", fault.text));
                state.wire.debug(format_args!("H2: stream {stream}: {}", codes::meaning(fault.code)));
                self.conn.sess.engine.main.h2_streams_broken.inc();
                state.lost(stream, Gone::ByUs, ReqBodyError::Malformed(fault.text));
                state.end_lingering(stream);
            }
            Http2Event::BadHead { stream, malformed } => {
                request::refuse(&self.conn.sess, self.params.clone(), &malformed, state.wire.section_bytes());
                self.conn.sess.engine.main.h2_streams_broken.inc();
                let code = malformed.code();
                state.wire.debug(format_args!("H2: stream {stream}: {}", codes::meaning(code)));
            }
            Http2Event::Refused { stream } => {
                self.conn.sess.engine.main.h2_streams_refused.inc();
                state.wire.debug(format_args!("H2: stream {stream}: Hit maximum number of concurrent streams"));
                state.wire.debug(format_args!("H2: stream {stream}: {}", codes::meaning(ErrorCode::RefusedStream)));
            }
            Http2Event::Settings => {
                if step.frame.is_some_and(|frame| frame.kind == Http2FrameType::Settings) {
                    let payload = &input[step.payload];
                    wire::settings_text(payload).for_each(|text| state.wire.debug(format_args!("{text}")));
                }
                state.window_opened(0, now, &self.conn.sess);
            }
            Http2Event::Window { stream } => state.window_opened(stream, now, &self.conn.sess),
            Http2Event::GoAway { code, .. } => self.leave(state, code),
            Http2Event::Fault(fault) => self.fail(state, fault),
        }
    }

    fn begin(
        &mut self,
        state: &mut MuxState,
        stream: u32,
        end: bool,
        section: &SectionFacts,
        refusal: Option<HeadRefusal>,
    ) -> Job {
        let phase = if end { Phase::None } else { Phase::Open };
        let head_bytes = state.wire.section_bytes();
        let place = state.open(stream, phase, section.content_length, head_bytes);
        let head = std::mem::replace(&mut self.head, pool::request_head(&self.params));
        let t_req = self.conn.sess.engine.clock.real();
        // Those in force now, which may be newer than the connection's.
        let params = self.conn.sess.engine.params.load_full();
        let kind = JobKind::New { head, refusal, is_tunnel: section.extended, t_req, params };
        Job { mux: self.mux.clone(), place, kind }
    }

    /// The client opens no more streams. As varnishd ends all at once if something was wrong.
    fn leave(&mut self, state: &mut MuxState, code: ErrorCode) {
        state.wire.debug(format_args!("GOAWAY {}", code.name()));
        state.close.get_or_insert(codes::close_reason(code));
        if code != ErrorCode::NoError {
            self.is_shut = true;
            state.end_all();
        }
    }

    /// The client broke the protocol or asked for too much: GOAWAY is in the output.
    fn fail(&mut self, state: &mut MuxState, fault: Http2Fault) {
        state.wire.debug(format_args!("H2: {}", fault.text));
        state.wire.debug(format_args!("H2 CLEANUP {}", fault.code.name()));
        if let Some(abuse) = fault.abuse {
            codes::counter(abuse, self.conn.sess.engine.main).inc();
        }
        state.close.get_or_insert(codes::fault_reason(&fault));
        state.end_all();
        // Its PINGs are answered as long as it stays.
        self.is_shut = !fault.soft;
        if state.preface_left > 0 {
            // To who doesn't speak HTTP/2 nothing is said in it.
            self.is_lost = true;
        }
    }

    fn reset_lingering(&mut self, cx: &mut Context<'_>) {
        while let Some(until) = self.mux.with(MuxState::reset_lingering) {
            let timer = match &mut self.linger {
                Some((at, timer)) if *at == until => timer,
                other => &mut other.insert((until, Deadline::until(until))).1,
            };
            if timer.poll(cx).is_pending() {
                return;
            }
        }
        self.linger = None;
    }

    /// Tells the client of a drain that has begun, and ends the connection once no stream is under way.
    fn drain_if_due(&mut self, cx: &mut Context<'_>) {
        if !self.conn.sess.engine.sessions.drain.has_begun() || self.is_shut {
            return;
        }
        let until = self.mux.announce_drain();
        let is_late = self.drain.get_or_insert_with(|| Deadline::until(until)).poll(cx).is_ready();
        self.mux.with(|state| {
            if is_late {
                state.codec.end_drain();
            }
            if state.live() == 0 && (is_late || state.codec.is_drained()) {
                state.close.get_or_insert(SessClose::RespClose);
                self.is_shut = true;
            }
        });
    }

    fn write(&mut self, cx: &mut Context<'_>) {
        self.conn.set_tos();
        while !self.is_lost {
            let waiting = self.mux.with(MuxState::fill);
            if waiting == 0 {
                self.mux.has_said_all();
                return;
            }
            let wrote = self.mux.with(|state| {
                let wrote = state.output.write(self.conn.stream())?;
                Ok((wrote, state.output.len() == 0))
            });
            match wrote {
                Ok((1.., true)) => self.send = SendWait::new(),
                Ok((bytes @ 1.., false)) => self.send.wrote(bytes, false),
                Err(error) if std::io::Error::kind(&error) == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => match self.conn.stream().poll_writable(cx) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => self.lose(SessClose::RemClose),
                    Poll::Pending => {
                        if self.send.poll(&self.conn.sess, cx).is_ready() {
                            self.lose(SessClose::TxError);
                        }
                        return;
                    }
                },
                Ok((0, _)) | Err(_) => self.lose(SessClose::RemClose),
            }
        }
    }

    fn outcome(&mut self, has_read: bool) -> Option<SessionOutcome> {
        let (live, lingers, unsent, close) =
            self.mux.with(|state| (state.live(), state.lingers(), state.output.len(), state.close));
        if !self.is_lost && unsent > 0 {
            return None;
        }
        if self.is_shut && !self.is_lost && !std::mem::replace(&mut self.is_told, true) {
            // The client may read that it is over while requests find out.
            self.conn.stream().shutdown_write();
        }
        if live > 0 {
            return None;
        }
        if self.is_lost || self.is_shut {
            let state = CloseState { is_sending: !self.is_lost, ..CloseState::default() };
            return Some(SessionOutcome::End(close.unwrap_or(SessClose::RemClose), state));
        }
        if has_read || lingers {
            return None;
        }
        match close {
            Some(SessClose::RemClose) => Some(SessionOutcome::End(SessClose::RemClose, CloseState::default())),
            // After a fault it waits for the client to go, no longer than for a request.
            Some(_) | None => Some(SessionOutcome::Idle),
        }
    }
}

/// The connection was idle, and ends for the reason `close`: a client that is still there is told, as far as the socket takes it at once.
/// Why the session ends, in varnishd's words.
pub(crate) fn say_goodbye(conn: &ClientConn, mux: &Mux, close: SessClose) -> SessClose {
    mux.with(|state| {
        let status = if close == SessClose::RemClose { "EOF" } else { "TIMEOUT" };
        state.wire.debug(format_args!("H2: No frame (hs={status})"));
        state.codec.go_away(ErrorCode::NoError);
        state.fill();
        // The end itself says the same to a client that doesn't read it.
        let _ = state.output.write(conn.stream());
        state.close.unwrap_or(SessClose::RemClose)
    })
}
