// SPDX-License-Identifier: BSD-2-Clause
//! What the requests of a connection have in common, and why it ends.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use engine::Sess;
use engine::early::Handshaking;
use http3::abuse::Meters;
use http3::{Http3Abuse, Http3Error, Http3ErrorCode, Http3ErrorScope};
use net::quic::{Connection, ConnectionError, Frames, SendStream, VarInt};
use rt::Instant;
use shm::vsl::Marker;
use tables::close::SessClose;
use tables::tags::Tag;

use super::idle::Undelivered;
use super::limits;

/// Time for which a client that was told that no more requests are taken may still be sending one.
pub(super) const DRAIN_PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct LinkGroup {
    links: RefCell<Vec<Weak<Link>>>,
    is_draining: Cell<bool>,
    is_watched: Cell<bool>,
}

impl LinkGroup {
    /// No more requests are taken: connections end when those they have are answered.
    pub fn drain(&self) {
        self.is_draining.set(true);
        let links = self.links.borrow().clone();
        links.iter().filter_map(Weak::upgrade).for_each(|link| link.wake());
    }

    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    pub(super) fn add(self: &Rc<Self>, link: &Rc<Link>) {
        if !self.is_watched.replace(true) {
            limits::watch(Rc::downgrade(self));
        }
        let mut links = self.links.borrow_mut();
        if links.len() == links.capacity() {
            links.retain(|other| other.strong_count() > 0);
        }
        links.push(Rc::downgrade(link));
    }

    /// All of them, for who watches; who gets none watches no longer.
    pub(super) fn watched(&self) -> Vec<Weak<Link>> {
        let mut links = self.links.borrow_mut();
        links.retain(|link| link.strong_count() > 0);
        self.is_watched.set(!links.is_empty());
        links.clone()
    }
}

/// Urgencies of requests that a client has sent on its control stream; the oldest are forgotten first.
#[derive(Default)]
pub(super) struct Priorities {
    changes: Cell<u32>,
    /// Pairs of stream and urgency.
    said: RefCell<VecDeque<(u64, u8)>>,
}

/// Changes of priorities that a request is good for.
const PRIORITIES_PER_REQUEST: u32 = 4;

const MAX_PRIORITIES: usize = 100;

impl Priorities {
    pub(super) fn set(&self, stream: u64, urgency: u8) {
        let mut said = self.said.borrow_mut();
        said.retain(|(other, _)| *other != stream);
        if said.len() == MAX_PRIORITIES {
            said.pop_front();
        }
        said.push_back((stream, urgency));
        self.changes.set(self.changes.get().wrapping_add(1));
    }

    pub(super) fn changes(&self) -> u32 {
        self.changes.get()
    }

    pub(super) fn of(&self, stream: u64) -> Option<u8> {
        self.said.borrow().iter().find(|(other, _)| *other == stream).map(|(_, urgency)| *urgency)
    }
}

pub(super) struct Link {
    pub(super) conn: Connection,
    pub(super) sess: Rc<Sess>,
    pub(super) group: Rc<LinkGroup>,
    pub(super) control: RefCell<Option<SendStream>>,
    pub(super) priorities: Priorities,
    /// The handshake, where requests came by early data before its end.
    pub(super) handshaking: Option<Rc<Handshaking>>,
    /// The streams that a client has once: control, QPACK's encoder, its decoder.
    pub(super) has_stream: [Cell<bool>; 3],
    open: Cell<u32>,
    undelivered: RefCell<Undelivered>,
    /// Since when nothing was done for the client: its last request ended, what was sent arrived, or it was told that no more requests are taken.
    quiet_since: Cell<Instant>,
    next_stream: Cell<u64>,
    has_gone_away: Cell<bool>,
    end: Cell<Option<SessClose>>,
    waker: RefCell<Option<Waker>>,
    resets: Cell<(u32, Option<Instant>)>,
    born: Instant,
    meters: RefCell<Meters>,
    /// Frames of QUIC when they were looked at last.
    seen: Cell<Frames>,
    /// Bytes of heads and trailers that aren't whole.
    held: Cell<usize>,
}

/// Bytes that a request holds of a head, or of trailers, that isn't whole: in its connection's sum.
pub(super) struct Held {
    link: Rc<Link>,
    bytes: usize,
}

impl Held {
    pub(super) fn new(link: Rc<Link>) -> Self {
        Held { link, bytes: 0 }
    }

    /// Notes that it holds so many bytes now, and waits for more.
    pub(super) fn set(&mut self, bytes: usize) -> Result<(), Http3Error> {
        self.change(bytes);
        let limit = self.link.sess.engine.params.load().h3_limit_head_bytes;
        let sum = self.link.held.get();
        // One that is alone has the limit of a head.
        if limit > 0 && bytes > 0 && sum as u64 > limit && sum > bytes {
            self.release();
            self.link.sess.engine.main.h3_heads_refused.inc();
            return Err(Http3Error::stream(
                Http3ErrorCode::RequestRejected,
                "Too many bytes of heads that aren't whole",
            ));
        }
        Ok(())
    }

    pub(super) fn release(&mut self) {
        self.change(0);
    }

    fn change(&mut self, bytes: usize) {
        self.link.held.set(self.link.held.get() - self.bytes + bytes);
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

impl Link {
    pub(super) fn new(
        conn: Connection,
        sess: Rc<Sess>,
        group: Rc<LinkGroup>,
        handshaking: Option<Rc<Handshaking>>,
    ) -> Rc<Self> {
        Rc::new(Link {
            conn,
            sess,
            group,
            control: RefCell::default(),
            priorities: Priorities::default(),
            handshaking,
            has_stream: Default::default(),
            open: Cell::new(0),
            undelivered: RefCell::default(),
            quiet_since: Cell::new(Instant::now()),
            next_stream: Cell::new(0),
            has_gone_away: Cell::new(false),
            end: Cell::new(None),
            waker: RefCell::default(),
            resets: Cell::new((0, None)),
            born: Instant::now(),
            meters: RefCell::default(),
            seen: Cell::default(),
            held: Cell::new(0),
        })
    }

    /// The connection's task is woken by [`Link::wake`].
    pub(super) fn wait(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        match &mut *waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// A request begins, on this stream; it is refused if that is above what was announced.
    pub(super) fn begin_request(&self, stream: u64) -> bool {
        if self.has_gone_away.get() {
            return false;
        }
        self.next_stream.set(self.next_stream.get().max(stream + 4));
        self.open.set(self.open.get() + 1);
        self.meters.borrow_mut().pay_back(Http3Abuse::Priority, PRIORITIES_PER_REQUEST);
        true
    }

    pub(super) fn end_request(&self) {
        self.open.set(self.open.get() - 1);
        if self.open.get() == 0 {
            self.touch();
            self.wake();
        }
    }

    pub(super) fn open_requests(&self) -> u32 {
        self.open.get()
    }

    /// A response was sent whole on this stream: the connection isn't idle before the client has it.
    pub(super) fn await_delivery(&self, sent: SendStream) {
        self.undelivered.borrow_mut().add(sent);
    }

    pub(super) fn has_delivered(&self) -> bool {
        self.undelivered.borrow_mut().have_arrived()
    }

    pub(super) fn poll_delivered(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.undelivered.borrow_mut().poll_arrived(cx)
    }

    /// Something was done for the client.
    pub(super) fn touch(&self) {
        self.quiet_since.set(Instant::now());
    }

    pub(super) fn quiet_since(&self) -> Instant {
        self.quiet_since.get()
    }

    pub(super) fn has_gone_away(&self) -> bool {
        self.has_gone_away.get()
    }

    /// The first stream that isn't answered any more, once no more are taken.
    pub(super) fn next_stream(&self) -> u64 {
        self.next_stream.get()
    }

    pub(super) fn go_away(&self) {
        if self.has_gone_away.replace(true) {
            return;
        }
        self.touch();
        super::control::go_away(self);
    }

    /// Ends it, for that reason; nobody did wrong.
    pub(super) fn end(&self, close: SessClose) {
        if self.end.get().is_none() {
            self.end.set(Some(close));
        }
        self.conn.close(VarInt::from_u32(Http3ErrorCode::NoError.number()), b"");
    }

    /// The client broke the protocol. What ends is the connection if that is the error's scope; the stream is its owner's.
    pub(super) fn fail(&self, error: &Http3Error) {
        if error.scope == Http3ErrorScope::Stream {
            return;
        }
        let close = match error.code == Http3ErrorCode::ExcessiveLoad {
            true => SessClose::Overload,
            false => SessClose::RxJunk,
        };
        if self.end.get().is_none() {
            self.end.set(Some(close));
            let text = error.to_string();
            self.sess.engine.log.write_one(Tag::Error, self.sess.vxid, Marker::Client, text.as_bytes());
            self.sess.engine.main.h3_errors.inc();
            if let Some(abuse) = error.abuse {
                limits::counter(abuse, self.sess.engine.main).inc();
            }
        }
        self.conn.close(VarInt::from_u32(error.code.number()), error.text.as_bytes());
    }

    /// A request came to nothing by the client's doing: it was reset, or never was one. Who does that often ends the connection.
    pub(super) fn note_reset(&self) {
        let params = self.sess.engine.params.load();
        let (limit, period) = (params.h3_reset_limit, params.h3_reset_period);
        let now = Instant::now();
        let (count, since) = match self.resets.get() {
            (count, Some(since)) if now - since < period => (count + 1, since),
            _ => (1, now),
        };
        self.resets.set((count, Some(since)));
        if limit > 0 && count > limit {
            self.sess.engine.main.h3_reset_flood.inc();
            self.fail(&Http3Error::connection(Http3ErrorCode::ExcessiveLoad, "Too many requests reset"));
        }
    }

    pub(super) fn count(&self, abuse: Http3Abuse, times: u32) -> Result<(), Http3Error> {
        if times == 0 {
            return Ok(());
        }
        let limits = limits::limits(&self.sess.engine.params.load());
        let now = (Instant::now() - self.born).as_secs_f32();
        self.meters.borrow_mut().count(abuse, times, now, &limits)
    }

    pub(super) fn look(&self) {
        let frames = net::quic::frames(&self.conn);
        let seen = self.seen.replace(frames);
        for (abuse, times) in limits::counts(&seen, &frames) {
            if let Err(error) = self.count(abuse, times) {
                return self.fail(&error);
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "quinn's errors")]
    pub(super) fn why_it_ended(&self, error: &ConnectionError) -> SessClose {
        if let Some(close) = self.end.get() {
            return close;
        }
        match error {
            ConnectionError::TimedOut => SessClose::RxCloseIdle,
            ConnectionError::TransportError(error) => {
                let text = error.to_string();
                self.sess.engine.log.write_one(Tag::Error, self.sess.vxid, Marker::Client, text.as_bytes());
                SessClose::RxBad
            }
            error if super::is_gone(error) => SessClose::RemClose,
            _ => SessClose::TxError,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_last_counts_and_few_are_remembered() {
        let priorities = Priorities::default();
        priorities.set(0, 1);
        priorities.set(4, 7);
        priorities.set(0, 2);
        assert_eq!(
            (priorities.of(0), priorities.of(4), priorities.of(8), priorities.changes()),
            (Some(2), Some(7), None, 3)
        );
        (1000..1000 + MAX_PRIORITIES as u64).for_each(|stream| priorities.set(stream, 0));
        assert_eq!((priorities.of(0), priorities.of(4), priorities.of(1000)), (None, None, Some(0)));
        assert_eq!(priorities.said.borrow().len(), MAX_PRIORITIES);
    }
}
