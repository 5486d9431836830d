// SPDX-License-Identifier: BSD-2-Clause
//! The streams of a connection (RFC 9113 5.1), and which of them sends next (RFC 9218 10).

use std::collections::{BTreeSet, VecDeque};

use crate::priority::Priority;
use crate::settings::MAX_WINDOW;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// Both sides have said all.
    Ended,
    /// We have reset it: what the peer has sent in the meantime is to be ignored.
    ByUs,
    ByPeer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Head,
    Body,
    Ended,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    received: Side,
    sent: Side,
    reset: Option<Closed>,
    /// The owner was told of it and hasn't released it.
    pub(super) is_held: bool,
    /// The response is complete and the client still sends a body that nobody reads: it gets no more window.
    pub(super) lingers: bool,
    /// A client's HEAD: its response has no body, whatever it says of its length.
    pub(super) is_head_request: bool,
    /// A client's extended CONNECT: what follows a success has no length, whatever that says.
    pub(super) is_tunnel: bool,
    is_offered: bool,
    /// Key in the order of sending, while it may send.
    ready: Option<u64>,
    pub(super) priority: Priority,
    pub(super) send_window: i64,
    pub(super) receive_window: i64,
    /// Bytes of its body that were given out and aren't consumed.
    pub(super) unread: u32,
    /// Bytes that were consumed since it was last given credit.
    pub(super) consumed: u32,
    /// Bytes of padding and the like, which count as consumed once anything else is, or nothing is left of the window.
    pub(super) padding: u32,
    /// True while it is on the list of those whose credit is due.
    pub(super) is_due: bool,
    /// Bytes of the body that Content-Length still promises.
    pub(super) length_left: Option<u64>,
    /// When it began, in the connection's seconds.
    pub(super) began: f32,
}

impl Stream {
    pub(super) fn new(id: u32, send_window: u32, receive_window: u32, now: f32) -> Stream {
        Stream {
            id,
            received: Side::Head,
            sent: Side::Head,
            reset: None,
            is_held: true,
            lingers: false,
            is_head_request: false,
            is_tunnel: false,
            is_offered: false,
            ready: None,
            priority: Priority::default(),
            send_window: i64::from(send_window),
            receive_window: i64::from(receive_window),
            unread: 0,
            consumed: 0,
            padding: 0,
            is_due: false,
            length_left: None,
            began: now,
        }
    }

    pub(super) fn received_head(&mut self) {
        self.received = Side::Body;
    }

    pub(super) fn has_received_head(&self) -> bool {
        self.received != Side::Head
    }

    pub(super) fn received_all(&mut self) {
        self.received = Side::Ended;
    }

    pub(super) fn receives(&self) -> bool {
        self.received != Side::Ended && self.reset.is_none()
    }

    pub(super) fn sent_head(&mut self) {
        self.sent = Side::Body;
    }

    pub(super) fn has_sent_head(&self) -> bool {
        self.sent != Side::Head
    }

    pub(super) fn sent_all(&mut self) {
        self.sent = Side::Ended;
    }

    pub(super) fn sends(&self) -> bool {
        self.sent != Side::Ended && self.reset.is_none()
    }

    pub(super) fn closed(&self) -> Option<Closed> {
        let has_ended = self.received == Side::Ended && self.sent == Side::Ended;
        self.reset.or(has_ended.then_some(Closed::Ended))
    }
}

const REMEMBERED: usize = 32;
/// Number of reset streams that are remembered: frames on their way may still come.
const REMEMBERED_RESETS: usize = 256;

/// One frame in so many is of a band behind the first.
const FAVOUR: u64 = 16;
/// Streams are sent in bands: by urgency, and those that are of no use in part before the others.
const BANDS: u64 = 16;
/// A band in a key; what is below orders the streams within it.
const BAND_SHIFT: u32 = 56;

/// Streams that a list without any keeps room for: there may be a list for each connection that was ever busy beside others.
const KEPT_STREAMS: usize = 16;

/// Memory of streams that have ended: for those of another connection.
#[derive(Debug, Default)]
pub(super) struct Room {
    list: VecDeque<Stream>,
    ready: BTreeSet<(u64, u32)>,
}

/// In the order of their numbers, in which they are opened.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// The oldest mostly end first.
    list: VecDeque<Stream>,
    /// Those that have body at hand and an open window, with what they are chosen by: the least first.
    ready: BTreeSet<(u64, u32)>,
    past: Vec<(u32, Closed)>,
    past_at: usize,
    /// The last ones that we have reset.
    reset: Vec<u32>,
    reset_at: usize,
    /// The highest of those whose reset is forgotten: below it, what isn't known may be one of them.
    forgotten: u32,
}

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.list.iter()
    }

    pub(super) fn memory(&self) -> usize {
        self.list.capacity() * size_of::<Stream>()
            + self.ready.len() * size_of::<(u64, u32)>()
            + self.past.capacity() * size_of::<(u32, Closed)>()
            + self.reset.capacity() * size_of::<u32>()
    }

    /// Gives up the room for streams while there is none.
    pub(super) fn rest(&mut self) -> Room {
        if !self.list.is_empty() {
            return Room::default();
        }
        debug_assert!(self.ready.is_empty(), "a stream that isn't there is ready to send");
        let (mut list, ready) = (std::mem::take(&mut self.list), std::mem::take(&mut self.ready));
        list.shrink_to(KEPT_STREAMS);
        // Another connection's streams would be looked for in vain for ever.
        Room { list, ready: Some(ready).filter(BTreeSet::is_empty).unwrap_or_default() }
    }

    /// Takes room for streams, unless there are some.
    pub(super) fn resume(&mut self, room: Room) {
        debug_assert!(room.list.is_empty() && room.ready.is_empty());
        if self.list.is_empty() {
            (self.list, self.ready) = (room.list, room.ready);
        }
    }

    pub(super) fn push(&mut self, stream: Stream) {
        debug_assert!(self.list.back().is_none_or(|last| last.id < stream.id));
        self.list.push_back(stream);
    }

    /// Mostly the newest is asked for, or the oldest.
    #[inline]
    fn find(&self, id: u32) -> Option<usize> {
        let (oldest, newest) = (self.list.front()?.id, self.list.back()?.id);
        if id == newest {
            return Some(self.list.len() - 1);
        }
        if id == oldest { Some(0) } else { self.list.binary_search_by_key(&id, |stream| stream.id).ok() }
    }

    pub(super) fn get(&self, id: u32) -> Option<&Stream> {
        self.find(id).map(|i| &self.list[i])
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.find(id).map(|i| &mut self.list[i])
    }

    /// The end of a stream that isn't there, or is over: if that is known.
    pub(super) fn past(&self, id: u32) -> Option<Closed> {
        match self.get(id) {
            Some(stream) => stream.closed(),
            None => self.remembered(id),
        }
    }

    fn remembered(&self, id: u32) -> Option<Closed> {
        if let Some(&(_, closed)) = self.past.iter().find(|(past, _)| *past == id) {
            return Some(closed);
        }
        (id <= self.forgotten || self.reset.contains(&id)).then_some(Closed::ByUs)
    }

    pub(super) fn remember(&mut self, id: u32, closed: Closed) {
        if closed == Closed::ByUs {
            return self.remember_reset(id);
        }
        if self.past.len() < REMEMBERED {
            self.past.push((id, closed));
        } else {
            self.past[self.past_at] = (id, closed);
            self.past_at = (self.past_at + 1) % REMEMBERED;
        }
    }

    fn remember_reset(&mut self, id: u32) {
        if self.reset.len() < REMEMBERED_RESETS {
            self.reset.push(id);
            return;
        }
        let before = std::mem::replace(&mut self.reset[self.reset_at], id);
        self.forgotten = self.forgotten.max(before);
        self.reset_at = (self.reset_at + 1) % REMEMBERED_RESETS;
    }

    /// Resets it. It stays until it is released.
    pub(super) fn close(&mut self, id: u32, closed: Closed) {
        self.unready(id);
        if let Some(stream) = self.get_mut(id) {
            stream.reset.get_or_insert(closed);
            stream.is_offered = false;
            self.forget(id);
        }
    }

    /// The owner is done with it. Whether it has to be reset, and its unread bytes.
    pub(super) fn release(&mut self, id: u32) {
        if let Some(stream) = self.get_mut(id) {
            stream.is_held = false;
            self.forget(id);
        }
    }

    /// Takes it off the list if it is over and not held.
    pub(super) fn forget(&mut self, id: u32) {
        let Some(i) = self.find(id) else { return };
        let stream = &self.list[i];
        if let (Some(closed), false) = (stream.closed(), stream.is_held) {
            self.list.remove(i);
            self.remember(id, closed);
        }
    }

    pub(super) fn end_all(&mut self) {
        for stream in &mut self.list {
            stream.reset.get_or_insert(Closed::ByUs);
            (stream.is_offered, stream.ready) = (false, None);
        }
        self.ready.clear();
        self.list.retain(|stream| stream.is_held);
    }

    /// Changes the window of all streams; whether none becomes too large on which anything may still be sent.
    pub(super) fn move_windows(&mut self, change: i64, turn: u64) -> bool {
        let mut good = true;
        for i in 0..self.list.len() {
            let stream = &mut self.list[i];
            stream.send_window += change;
            good &= stream.send_window <= i64::from(MAX_WINDOW) || !stream.sends();
            let id = stream.id;
            self.settle(id, turn);
        }
        good
    }

    /// There is body at hand, or there is none.
    pub(super) fn offer(&mut self, id: u32, is_offered: bool, turn: u64) {
        if let Some(stream) = self.get_mut(id) {
            stream.is_offered = is_offered && stream.sends() && stream.has_sent_head();
            self.settle(id, turn);
        }
    }

    pub(super) fn is_offered(&self, id: u32) -> bool {
        self.get(id).is_some_and(|stream| stream.is_offered)
    }

    /// Offered, and its window is shut.
    pub(super) fn is_blocked(&self, id: u32) -> bool {
        self.get(id).is_some_and(|stream| stream.is_offered && stream.send_window <= 0)
    }

    /// Puts it on the list of those that may send, or takes it off.
    pub(super) fn settle(&mut self, id: u32, turn: u64) {
        let Some(stream) = self.get_mut(id) else { return };
        let may_send = stream.is_offered && stream.send_window > 0;
        if may_send == stream.ready.is_some() {
            return;
        }
        if may_send {
            let key = key(stream, turn);
            stream.ready = Some(key);
            self.ready.insert((key, id));
        } else {
            self.unready(id);
        }
    }

    fn unready(&mut self, id: u32) {
        if let Some(key) = self.get_mut(id).and_then(|stream| stream.ready.take()) {
            self.ready.remove(&(key, id));
        }
    }

    /// Changes its position after its turn, or for another priority.
    pub(super) fn requeue(&mut self, id: u32, turn: u64) {
        let Some(stream) = self.get_mut(id) else { return };
        let key = key(stream, turn);
        if let Some(before) = stream.ready
            && before != key
        {
            stream.ready = Some(key);
            self.ready.remove(&(before, id));
            self.ready.insert((key, id));
        }
    }

    /// The stream whose turn it is. RFC 9218 10 lets a less urgent one wait for ever; here one frame in [`FAVOUR`] is
    /// of a later band, of each in turn: a waiting stream gets one in `FAVOUR * BANDS` at least.
    pub(super) fn next(&self, turn: u64) -> Option<u32> {
        let &(key, id) = self.ready.first()?;
        if turn % FAVOUR != FAVOUR - 1 {
            return Some(id);
        }
        let behind = (key >> BAND_SHIFT) + 1;
        let favoured = (turn / FAVOUR % BANDS).max(behind);
        let later = self.first_from(favoured).or_else(|| self.first_from(behind));
        Some(later.unwrap_or(id))
    }

    /// The first of this band or a later one.
    fn first_from(&self, band: u64) -> Option<u32> {
        self.ready.range((band << BAND_SHIFT, 0)..).next().map(|&(_, id)| id)
    }
}

/// The sorting key: by urgency; then streams that are of no use in part, one after the other; then the others in turn.
fn key(stream: &Stream, turn: u64) -> u64 {
    let Priority { urgency, incremental } = stream.priority;
    let order = if incremental { turn } else { u64::from(stream.id) };
    (u64::from(urgency) * 2 + u64::from(incremental)) << BAND_SHIFT | order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of turns among `count` that each stream with these priorities gets.
    fn turns(priorities: &[(u8, bool)], count: u64) -> Vec<u64> {
        let mut streams = Streams::default();
        for (n, &(urgency, incremental)) in priorities.iter().enumerate() {
            let id = n as u32 * 2 + 1;
            let mut stream = Stream::new(id, MAX_WINDOW, 0, 0.0);
            (stream.priority, stream.sent) = (Priority { urgency, incremental }, Side::Body);
            streams.push(stream);
            streams.offer(id, true, 0);
        }
        let mut got = vec![0; priorities.len()];
        for turn in 0..count {
            let id = streams.next(turn).unwrap();
            got[id as usize / 2] += 1;
            streams.requeue(id, turn + 1);
        }
        got
    }

    #[test]
    fn who_is_less_urgent_waits_but_not_for_ever() {
        let check = |priorities: &[(u8, bool)], want: &[u64]| {
            assert_eq!(turns(priorities, FAVOUR * BANDS), want, "{priorities:?}");
        };
        check(&[(3, true), (3, true)], &[128, 128]);
        check(&[(3, false), (3, false)], &[256, 0]);
        check(&[(0, false), (7, true)], &[240, 16]);
        check(&[(3, false), (3, true)], &[240, 16]);
        let all: Vec<_> = (0..8).flat_map(|urgency| [(urgency, false), (urgency, true)]).collect();
        let got = turns(&all, FAVOUR * BANDS);
        assert!(got[0] == 240 && got.iter().all(|&frames| frames > 0), "{got:?}");
    }

    #[test]
    fn what_is_over_or_shut_is_sent_no_further() {
        let mut streams = Streams::default();
        for id in [1, 3, 5] {
            let mut stream = Stream::new(id, 10, 0, 0.0);
            stream.sent = Side::Body;
            streams.push(stream);
            streams.offer(id, true, 0);
        }
        streams.close(1, Closed::ByPeer);
        assert_eq!(streams.next(0), Some(3));
        streams.offer(3, false, 0);
        assert_eq!(streams.next(0), Some(5));
        assert!(streams.move_windows(-10, 0));
        assert_eq!(streams.next(0), None);
        streams.requeue(5, 7);
        assert_eq!(streams.next(0), None, "another priority opens no window");
    }
}
