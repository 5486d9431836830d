// SPDX-License-Identifier: BSD-2-Clause
//! What a connection and its streams share: the codec, the output, and the streams themselves. All on one thread, and borrowed for
//! the length of one call.
//!
//! Streams queue what they have; [`MuxState::pump`] moves it into the output by turns, as far as windows and the socket go, and the
//! connection's task writes that.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base::Mono;
use engine::Sess;
use engine::transport::{ReqBodyError, SendError, TransportAcct};
use http2::frame::END_STREAM;
use http2::{Connection, ErrorCode, FrameHeader, Grant};
use params::timeouts;
use rt::Instant;
use tables::close::SessClose;
use tables::tags::Tag;

use super::places::Places;
use super::stream::{End, Gone, Phase, Stream};
use super::upgrade::Upgraded;
use super::wire::Wire;
use super::{codes, config, drain};
use crate::output::OutputQueue;
use crate::waits::LINGER;

/// The output isn't filled beyond this: what is in it can't be overtaken any more.
const ROOM: usize = 128 * 1024;

/// Number of streams of a connection that may wait for a window as long as clients of HTTP/1 may: a page with videos
/// that are paused.
const PAUSED: usize = 4;

/// Text for a request's body that broke off, in records of its transaction.
pub(super) const RESET_TEXT: &str = "stream was reset";
pub(super) const CLOSED_TEXT: &str = "connection was closed";

pub(crate) struct Mux {
    pub(super) sess: Rc<Sess>,
    state: RefCell<MuxState>,
    /// The request that asked for the upgrade, until the client's preface has come.
    pub(super) upgraded: Cell<Option<Box<Upgraded>>>,
    pub(super) slot: Cell<usize>,
}

pub(super) struct MuxState {
    pub(super) codec: Connection,
    pub(super) output: OutputQueue,
    pub(super) wire: Wire,
    streams: Places,
    /// Streams whose response is complete and whose request isn't, and when each is reset, the first one first. The codec counts them among those
    /// that a client may have open.
    lingering: VecDeque<(Instant, u32)>,
    /// Bytes of the client's preface that haven't come: until then nothing is sent.
    pub(super) preface_left: usize,
    pub(super) close: Option<SessClose>,
    pub(super) is_ended: bool,
    /// True once the kernel has the frames that announce a drain.
    is_told: bool,
    /// The client was told of a drain; until when its answer is waited for.
    drain_until: Option<Instant>,
    task: Option<Waker>,
    /// True while the task runs: it will see what is queued.
    pub(super) is_running: bool,
}

impl Mux {
    pub(super) fn new(sess: &Rc<Sess>, upgraded: Option<Box<Upgraded>>) -> Self {
        let engine = &sess.engine;
        let (config, now) =
            (config::current(&engine.params.load_full(), sess.tls.get().is_some()), engine.clock.mono());
        let mut state = MuxState {
            codec: Connection::server(config.clone(), now),
            output: OutputQueue::default(),
            wire: Wire::new(sess),
            streams: Places::default(),
            lingering: VecDeque::new(),
            preface_left: http2::PREFACE.len(),
            close: None,
            is_ended: false,
            is_told: false,
            drain_until: None,
            task: None,
            is_running: false,
        };
        if let Some(upgraded) = &upgraded {
            state.upgrade(config, upgraded, now);
        }
        Mux { sess: sess.clone(), state: RefCell::new(state), upgraded: Cell::new(upgraded), slot: Cell::new(0) }
    }

    /// Works on what is shared.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut MuxState) -> T) -> T {
        work(&mut self.state.borrow_mut())
    }

    /// Ready when an idle connection has something to say of a drain.
    pub(crate) fn poll_drain(&self, cx: &mut Context<'_>) -> Poll<()> {
        let is_draining = self.sess.engine.sessions.drain.has_begun();
        self.with(|state| {
            let is_due = match state.drain_until {
                None => is_draining,
                Some(until) => Instant::now() >= until,
            };
            if is_due {
                return Poll::Ready(());
            }
            state.waits(cx);
            Poll::Pending
        })
    }

    /// Time until which the answer of a client that was told of a drain is waited for.
    pub(crate) fn drain_until(&self) -> Option<Instant> {
        self.with(|state| state.drain_until)
    }

    /// All that was to be said is with the kernel.
    pub(super) fn has_said_all(&self) {
        let is_news = self.with(|state| state.drain_until.is_some() && !std::mem::replace(&mut state.is_told, true));
        if is_news {
            self.sess.engine.sessions.drain.http2_untold.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Tells the client of a drain, unless it was told. Until when its answer is waited for.
    pub(super) fn announce_drain(&self) -> Instant {
        self.with(|state| {
            *state.drain_until.get_or_insert_with(|| {
                state.codec.begin_drain();
                Instant::now() + drain::PATIENCE
            })
        })
    }

    pub(crate) fn close(&self) {
        if let Some(mut upgraded) = self.upgraded.take() {
            self.with(|state| state.wire.debug(format_args!("H2: No/Bad OU PRISM")));
            let acct = TransportAcct { req_head: upgraded.head_bytes, ..TransportAcct::default() };
            upgraded.req.finish_with(acct);
        }
        self.with(|state| state.wire.close());
    }
}

impl Drop for Mux {
    fn drop(&mut self) {
        drain::leave(self.slot.get());
        if !self.state.get_mut().is_told {
            self.sess.engine.sessions.drain.http2_untold.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl MuxState {
    fn upgrade(&mut self, config: Arc<http2::Http2Config>, upgraded: &Upgraded, now: Mono) {
        match Connection::upgraded(config, &upgraded.settings, now) {
            Ok(codec) => self.codec = codec,
            // They were read without a fault before.
            Err(fault) => self.codec.go_away(fault.code),
        }
    }

    pub(super) fn live(&self) -> usize {
        self.streams.live()
    }

    /// A request has come. Its place.
    pub(super) fn open(&mut self, id: u32, upload: Phase, len: Option<u64>, head_bytes: u64) -> usize {
        let place = self.streams.take(id);
        self.streams[place].open(id, upload, len);
        self.streams[place].acct.req_head = head_bytes;
        place
    }

    pub(super) fn stream(&mut self, place: usize) -> &mut Stream {
        &mut self.streams[place]
    }

    pub(super) fn parts(&mut self, place: usize) -> (&mut Connection, &mut Stream) {
        (&mut self.codec, &mut self.streams[place])
    }

    pub(super) fn find(&self, id: u32) -> Option<usize> {
        self.streams.find(id)
    }

    pub(super) fn release(&mut self, place: usize) {
        let id = self.streams[place].id;
        if self.codec.linger(id) {
            self.lingering.push_back((Instant::now() + LINGER, id));
        } else {
            self.codec.release(id);
        }
        self.streams.leave(place);
        self.notify();
    }

    /// The client has ended a stream, too, or has reset it: if it was lingering, it is over.
    pub(super) fn end_lingering(&mut self, id: u32) {
        if let Some(at) = self.lingering.iter().position(|&(_, lingering)| lingering == id) {
            self.lingering.remove(at);
            self.codec.release(id);
        }
    }

    /// Resets streams that have lingered long enough. When the next one is to be reset.
    pub(super) fn reset_lingering(&mut self) -> Option<Instant> {
        loop {
            let &(until, id) = self.lingering.front()?;
            if until > Instant::now() {
                return Some(until);
            }
            self.lingering.pop_front();
            self.codec.release(id);
        }
    }

    pub(super) fn lingers(&self) -> bool {
        !self.lingering.is_empty()
    }

    /// Makes the connection busy, in memory that another one has left.
    pub(super) fn resume(&mut self, codec: http2::Workspace, streams: Places) {
        self.codec.resume(codec);
        self.streams = streams;
    }

    /// Leaves memory that no stream needs now.
    pub(super) fn rest(&mut self) -> (http2::Workspace, Places) {
        self.task = None;
        (self.codec.rest(), std::mem::take(&mut self.streams).emptied())
    }

    pub(super) fn notify(&mut self) {
        if !self.is_running
            && let Some(task) = self.task.take()
        {
            task.wake();
        }
    }

    pub(super) fn waits(&mut self, cx: &Context<'_>) {
        self.is_running = false;
        match &mut self.task {
            Some(task) => task.clone_from(cx.waker()),
            None => self.task = Some(cx.waker().clone()),
        }
    }

    /// Moves what the codec has to say into the output.
    pub(super) fn take_control(&mut self) {
        let control = self.codec.output();
        if control.is_empty() {
            return;
        }
        for (header, payload) in http2::frame::walk(control) {
            self.wire.sent(header, payload);
        }
        let bytes = self.output.add(|out| out.extend_from_slice(control));
        self.codec.wrote(bytes);
    }

    pub(super) fn unsent(&self) -> usize {
        self.output.len() + self.codec.output().len()
    }

    fn has_room(&self) -> bool {
        self.output.len() < ROOM
    }

    pub(super) fn pump(&mut self) {
        if self.preface_left > 0 || !self.has_room() {
            return;
        }
        self.codec.flush();
        self.take_control();
        while self.has_room()
            && let Some(Grant { stream, max }) = self.codec.next_send()
        {
            match self.find(stream) {
                Some(place) if self.streams[place].download.queued() > 0 => self.send_from(place, max),
                _ => self.codec.withdraw(stream),
            }
        }
    }

    /// Moves into the output what may go now, of the codec and of streams. How much is in it.
    pub(super) fn fill(&mut self) -> usize {
        self.pump();
        if self.preface_left == 0 && self.has_room() {
            self.take_control();
        }
        self.output.len()
    }

    /// Moves one DATA frame's worth.
    fn send_from(&mut self, place: usize, max: usize) {
        let stream = &mut self.streams[place];
        let len = stream.download.queued().min(max);
        let Some(header) = self.codec.send_data(stream.id, len, false) else { return self.codec.withdraw(stream.id) };
        self.take_control();
        self.put_data_header(header);
        let shows = self.wire.shows_bodies();
        let (sending, mut left) = (&mut self.streams[place], len);
        while left > 0
            && let Some(piece) = sending.download.take(left)
        {
            left -= piece.len();
            if shows {
                self.wire.record(Tag::H2TxBody, &piece);
            }
            self.output.add_stored(piece);
        }
        sending.download.shut_since = None;
        if sending.download.queued() == 0 {
            self.codec.withdraw(sending.id);
            self.end_if_due(place);
        }
        self.streams[place].wake();
    }

    fn put_data_header(&mut self, header: [u8; http2::frame::HEADER_BYTES]) {
        self.wire.sent(FrameHeader::parse(&header), &[]);
        self.output.add(|out| out.extend_from_slice(&header));
    }

    /// Tells the client that the response is complete, once all of it is in the output. As varnishd by a frame of its own, so that the
    /// accounts of both are the same.
    pub(super) fn end_if_due(&mut self, place: usize) {
        let stream = &mut self.streams[place];
        if stream.download.end != End::Due || stream.download.queued() > 0 {
            return;
        }
        stream.download.end = End::Said;
        if let Some(trailers) = stream.download.trailers.take() {
            self.codec.send_trailers(stream.id, &trailers);
        } else if let Some(header) = self.codec.send_data(stream.id, 0, true) {
            debug_assert!(header[4] & END_STREAM != 0);
            self.take_control();
            self.put_data_header(header);
        }
    }

    /// Ready when at most `keep` bytes of a stream are queued, or it is over; `None`: neither.
    pub(super) fn poll_queue(&mut self, place: usize, keep: usize) -> Option<Result<(), SendError>> {
        let stream = &self.streams[place];
        match stream.gone {
            Some(Gone::TooSlow) => return Some(Err(SendError::TimedOut)),
            Some(Gone::ByClient | Gone::ByUs) => return Some(Err(SendError::Closed)),
            None if stream.download.queued() <= keep => return Some(Ok(())),
            None => {}
        }
        self.pump();
        if self.streams[place].download.queued() > keep {
            return None;
        }
        self.notify();
        Some(Ok(()))
    }

    /// Time for which a stream whose window is shut may wait: `h2_window_timeout` where many wait, and
    /// `idle_send_timeout` each time, `send_timeout` in all. One that has waited too long is reset.
    pub(super) fn patience(&mut self, place: usize, now: Mono, sess: &Sess) -> Duration {
        let stream = &mut self.streams[place];
        if stream.gone.is_some() || !self.codec.is_blocked(stream.id) {
            return Duration::MAX;
        }
        let shut_since = *stream.download.shut_since.get_or_insert(now);
        self.time_left(place, shut_since, now, sess)
    }

    /// A window has been opened, with 0 the connection's: too late for streams that have waited too long.
    pub(super) fn window_opened(&mut self, id: u32, now: Mono, sess: &Sess) {
        if id != 0 {
            return self.find(id).into_iter().for_each(|place| self.judge_opened(place, now, sess));
        }
        for place in 0..self.streams.len() {
            self.judge_opened(place, now, sess);
        }
    }

    fn judge_opened(&mut self, place: usize, now: Mono, sess: &Sess) {
        if let Some(shut_since) = self.streams[place].download.shut_since {
            self.time_left(place, shut_since, now, sess);
        }
    }

    fn time_left(&mut self, place: usize, shut_since: Mono, now: Mono, sess: &Sess) -> Duration {
        let timeouts = sess.timeouts.get();
        let params = sess.engine.params.load();
        let limit = timeouts::limit(params.compat(), params.h2_window_timeout);
        let window = self.window_left(limit, shut_since, now);
        let idle = left(timeouts.idle_send, shut_since, now);
        let all = self.streams[place].download.since.map_or(Duration::MAX, |since| left(timeouts.send, since, now));
        let text = match (window, idle, all) {
            (Duration::ZERO, _, _) => "h2_window_timeout",
            (_, Duration::ZERO, _) => "idle_send_timeout waiting for WINDOW_UPDATE",
            (_, _, Duration::ZERO) => "send_timeout",
            _ => return window.min(idle).min(all),
        };
        self.wire.debug(format_args!("H2: stream {}: Hit {text}", self.streams[place].id));
        if window.is_zero() && self.is_all_shut() {
            self.end_for_shut_windows(sess);
            return Duration::ZERO;
        }
        self.reset(place, ErrorCode::Cancel, Gone::TooSlow);
        Duration::ZERO
    }

    /// The rest of `h2_window_timeout`, which is for connections of which more than [`PAUSED`] streams wait.
    fn window_left(&self, limit: Duration, shut_since: Mono, now: Mono) -> Duration {
        match left(limit, shut_since, now) {
            Duration::ZERO if !self.are_many_shut() => Duration::MAX,
            left => left,
        }
    }

    fn are_many_shut(&self) -> bool {
        let is_shut = |stream: &&Stream| stream.gone.is_none() && stream.download.shut_since.is_some();
        self.streams.iter().filter(is_shut).nth(PAUSED).is_some()
    }

    /// True if no stream has a window for what it has to send.
    fn is_all_shut(&self) -> bool {
        self.streams.in_use().all(|&(id, place)| {
            let stream = &self.streams[place];
            stream.gone.is_some() || stream.download.shut_since.is_some() && self.codec.is_blocked(id)
        })
    }

    /// A client that lets nothing of all that it asked for through is of no use, as newer releases of varnishd have it.
    fn end_for_shut_windows(&mut self, sess: &Sess) {
        self.wire.debug(format_args!("H2 CLEANUP {}", ErrorCode::EnhanceYourCalm.name()));
        sess.engine.main.h2_abuse_shut_windows.inc();
        self.close.get_or_insert(SessClose::Bankrupt);
        self.is_ended = true;
        self.codec.go_away(ErrorCode::EnhanceYourCalm);
        for stream in self.streams.iter_mut().filter(|stream| stream.id != 0) {
            stream.end(Gone::TooSlow, ReqBodyError::Closed(CLOSED_TEXT));
        }
        self.notify();
    }

    pub(super) fn reset(&mut self, place: usize, code: ErrorCode, gone: Gone) {
        if self.streams[place].gone.is_some() {
            return;
        }
        let id = self.streams[place].id;
        self.wire.debug(format_args!("H2: stream {id}: {}", codes::meaning(code)));
        if gone == Gone::TooSlow {
            self.wire.count_late();
        }
        self.codec.reset(id, code);
        self.streams[place].end(gone, ReqBodyError::GivenUp);
        self.notify();
    }

    /// A stream is over, by the codec's word.
    pub(super) fn lost(&mut self, id: u32, gone: Gone, error: ReqBodyError) {
        if let Some(place) = self.find(id) {
            self.streams[place].end(gone, error);
        }
    }

    pub(super) fn end_all(&mut self) {
        for stream in self.streams.iter_mut().filter(|stream| stream.id != 0) {
            stream.end(Gone::ByClient, ReqBodyError::Closed(CLOSED_TEXT));
        }
    }
}

/// The rest of a limit that runs since then; zero is no limit.
fn left(limit: Duration, since: Mono, now: Mono) -> Duration {
    if limit.is_zero() {
        return Duration::MAX;
    }
    limit.saturating_sub(Duration::try_from_secs_f64(now.since(since)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the two counts in front of it this is a size of which the allocator has blocks.
    #[test]
    fn an_idle_connection_keeps_a_kilobyte() {
        assert!(size_of::<Mux>() <= 1024 - 16, "{} bytes", size_of::<Mux>());
    }
}
