// SPDX-License-Identifier: BSD-2-Clause
//! The streams of a connection (RFC 9113 5.1), and which of them sends next (RFC 9218 10).

use std::collections::{BTreeSet, VecDeque};

use super::past::PastStreams;
use super::stream::{Closed, Stream};
use crate::priority::Priority;
use crate::settings::{DEFAULT_WINDOW, MAX_WINDOW};

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

/// The order of sending: the streams that have body at hand and an open window, with what they are chosen by.
#[derive(Debug, Default)]
struct SendOrder {
    ready: BTreeSet<(u64, u32)>,
    /// Counts sends, for fairness among equals.
    turn: u64,
}

impl SendOrder {
    /// The stream whose turn it is. RFC 9218 10 lets a less urgent one wait for ever; here one frame in [`FAVOUR`] is
    /// of a later band, of each in turn: a waiting stream gets one in `FAVOUR * BANDS` at least.
    fn next(&self) -> Option<u32> {
        let &(key, id) = self.ready.first()?;
        if self.turn % FAVOUR != FAVOUR - 1 {
            return Some(id);
        }
        let behind = (key >> BAND_SHIFT) + 1;
        let favoured = (self.turn / FAVOUR % BANDS).max(behind);
        let later = self.first_from(favoured).or_else(|| self.first_from(behind));
        Some(later.unwrap_or(id))
    }

    /// The first of this band or a later one.
    fn first_from(&self, band: u64) -> Option<u32> {
        self.ready.range((band << BAND_SHIFT, 0)..).next().map(|&(_, id)| id)
    }

    fn enter(&mut self, stream: &mut Stream) {
        let key = key(stream, self.turn);
        stream.ready = Some(key);
        self.ready.insert((key, stream.id));
    }

    fn leave(&mut self, stream: &mut Stream) {
        if let Some(key) = stream.ready.take() {
            self.ready.remove(&(key, stream.id));
        }
    }

    /// Puts a stream on the list of those that may send, or takes it off.
    fn settle(&mut self, stream: &mut Stream) {
        let may_send = stream.is_offered && stream.send_window > 0;
        if may_send == stream.ready.is_some() {
            return;
        }
        if may_send { self.enter(stream) } else { self.leave(stream) }
    }

    /// Changes a stream's position after its turn, or for another priority.
    fn requeue(&mut self, stream: &mut Stream) {
        let (place, is_alone) = (key(stream, self.turn), self.ready.len() == 1);
        // The only stream of the list keeps its place in its band.
        let is_moved = |before| if is_alone { before >> BAND_SHIFT != place >> BAND_SHIFT } else { before != place };
        if stream.ready.is_some_and(is_moved) {
            self.leave(stream);
            self.enter(stream);
        }
    }
}

/// The streams of a connection, and its window for what they send.
#[derive(Debug)]
pub(super) struct Streams {
    /// In the order of their numbers, in which they are opened. The oldest mostly end first.
    list: VecDeque<Stream>,
    order: SendOrder,
    past: PastStreams,
    send_window: i64,
    /// The highest stream there was: the peer's (server), ours (client).
    pub(super) highest: u32,
    /// The highest of them that was looked at.
    pub(super) last_taken: u32,
    /// The client has said of some request how urgent it is.
    has_priorities: bool,
}

impl Default for Streams {
    fn default() -> Self {
        Streams {
            list: VecDeque::new(),
            order: SendOrder::default(),
            past: PastStreams::default(),
            send_window: i64::from(DEFAULT_WINDOW),
            highest: 0,
            last_taken: 0,
            has_priorities: false,
        }
    }
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
            + self.order.ready.len() * size_of::<(u64, u32)>()
            + self.past.memory()
    }

    /// Gives up the room for streams while there is none.
    pub(super) fn rest(&mut self) -> Room {
        if !self.list.is_empty() {
            return Room::default();
        }
        debug_assert!(self.order.ready.is_empty(), "a stream that isn't there is ready to send");
        let (mut list, ready) = (std::mem::take(&mut self.list), std::mem::take(&mut self.order.ready));
        list.shrink_to(KEPT_STREAMS);
        // Another connection's streams would be looked for in vain for ever.
        Room { list, ready: Some(ready).filter(BTreeSet::is_empty).unwrap_or_default() }
    }

    /// Takes room for streams, unless there are some.
    pub(super) fn resume(&mut self, room: Room) {
        debug_assert!(room.list.is_empty() && room.ready.is_empty());
        if self.list.is_empty() {
            (self.list, self.order.ready) = (room.list, room.ready);
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

    pub(super) fn live(&mut self, id: u32) -> Option<&mut Stream> {
        self.get_mut(id).filter(|stream| stream.closed().is_none())
    }

    pub(super) fn is_live(&self, id: u32) -> bool {
        self.get(id).is_some_and(|stream| stream.closed().is_none())
    }

    /// The end of a stream that isn't there, or is over: if that is known.
    pub(super) fn past(&self, id: u32) -> Option<Closed> {
        match self.get(id) {
            Some(stream) => stream.closed(),
            None => self.past.find(id),
        }
    }

    pub(super) fn remember(&mut self, id: u32, closed: Closed) {
        self.past.remember(id, closed);
    }

    /// Resets it. It stays until it is released.
    pub(super) fn close(&mut self, id: u32, closed: Closed) {
        if let Some((stream, order)) = self.with_order(id) {
            order.leave(stream);
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
            self.past.remember(id, closed);
        }
    }

    pub(super) fn end_all(&mut self) {
        for stream in &mut self.list {
            stream.reset.get_or_insert(Closed::ByUs);
            (stream.is_offered, stream.ready) = (false, None);
        }
        self.order.ready.clear();
        self.list.retain(|stream| stream.is_held);
    }

    /// Changes the window of all streams; whether none becomes too large on which anything may still be sent.
    pub(super) fn move_windows(&mut self, change: i64) -> bool {
        let mut good = true;
        for stream in &mut self.list {
            stream.send_window += change;
            good &= stream.send_window <= i64::from(MAX_WINDOW) || !stream.sends();
            self.order.settle(stream);
        }
        good
    }

    /// Opens the connection's window. False if it becomes too large.
    pub(super) fn open_window(&mut self, increment: u32) -> bool {
        self.send_window += i64::from(increment);
        self.send_window <= i64::from(MAX_WINDOW)
    }

    fn with_order(&mut self, id: u32) -> Option<(&mut Stream, &mut SendOrder)> {
        let at = self.find(id)?;
        Some((&mut self.list[at], &mut self.order))
    }

    /// There is body at hand, or there is none.
    pub(super) fn offer(&mut self, id: u32, is_offered: bool) {
        if let Some((stream, order)) = self.with_order(id) {
            stream.is_offered = is_offered && stream.sends() && stream.has_sent_head();
            order.settle(stream);
        }
    }

    pub(super) fn settle(&mut self, id: u32) {
        if let Some((stream, order)) = self.with_order(id) {
            order.settle(stream);
        }
    }

    /// True if a stream's body is offered and a window keeps it back.
    pub(super) fn is_blocked(&self, id: u32) -> bool {
        self.get(id).is_some_and(|stream| stream.is_offered && stream.send_window.min(self.send_window) <= 0)
    }

    /// Sets the priority of a stream that has just begun, from its head. A client that says nothing of priorities gets all at once, in turns.
    pub(super) fn begin_with(&mut self, stream: &mut Stream, priority: Option<Priority>) {
        self.has_priorities |= priority.is_some();
        stream.priority = priority.unwrap_or_default();
        stream.priority.incremental |= !self.has_priorities;
    }

    /// Changes the priority. A stream that isn't there yet has it in its head again.
    pub(super) fn prioritize(&mut self, id: u32, priority: Priority) {
        self.has_priorities = true;
        if let Some((stream, order)) = self.with_order(id) {
            stream.priority = priority;
            order.requeue(stream);
        }
    }

    pub(super) fn next(&self) -> Option<u32> {
        self.order.next().filter(|_| self.send_window > 0)
    }

    pub(super) fn window(&self, id: u32) -> usize {
        let window = self.get(id).map_or(0, |stream| stream.send_window.min(self.send_window));
        usize::try_from(window).unwrap_or(0)
    }

    /// The stream has had its turn, which may have used its window up.
    fn end_turn(&mut self, id: u32) {
        if let Some((stream, order)) = self.with_order(id) {
            order.requeue(stream);
            order.settle(stream);
        }
    }

    /// A stream sends `len` bytes, and `end`s with them. True if a window is used up that keeps the rest back; `None`: it can't send.
    pub(super) fn send(&mut self, id: u32, len: usize, end: bool) -> Option<bool> {
        let stream = self.get_mut(id).filter(|stream| stream.sends() && stream.has_sent_head())?;
        let bytes = len as i64;
        stream.send_window -= bytes;
        let stream_window = stream.send_window;
        if end {
            stream.sent_all();
        }
        self.send_window -= bytes;
        self.order.turn += 1;
        if end {
            self.offer(id, false);
            self.forget(id);
        } else {
            self.end_turn(id);
        }
        Some(!end && (stream_window == 0 || self.send_window == 0))
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
            stream.priority = Priority { urgency, incremental };
            stream.sent_head();
            streams.push(stream);
            streams.offer(id, true);
        }
        let mut got = vec![0; priorities.len()];
        for _ in 0..count {
            let id = streams.next().unwrap();
            got[id as usize / 2] += 1;
            assert_eq!(streams.send(id, 0, false), Some(false));
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
    fn a_priority_that_changes_while_a_stream_is_alone_counts_beside_the_next() {
        for (urgency, first) in [(0, 1), (7, 3)] {
            let mut streams = Streams::default();
            for (id, of_stream) in [(1, 5), (3, 3)] {
                let mut stream = Stream::new(id, MAX_WINDOW, 0, 0.0);
                stream.priority = Priority { urgency: of_stream, incremental: true };
                stream.sent_head();
                streams.push(stream);
                if id == 3 {
                    streams.prioritize(1, Priority { urgency, incremental: true });
                }
                streams.offer(id, true);
            }
            assert_eq!(streams.next(), Some(first));
        }
    }

    #[test]
    fn what_is_over_or_shut_is_sent_no_further() {
        let mut streams = Streams::default();
        for id in [1, 3, 5] {
            let mut stream = Stream::new(id, 10, 0, 0.0);
            stream.sent_head();
            streams.push(stream);
            streams.offer(id, true);
        }
        streams.close(1, Closed::ByPeer);
        assert_eq!(streams.next(), Some(3));
        streams.offer(3, false);
        assert_eq!(streams.next(), Some(5));
        assert!(streams.move_windows(-10));
        assert_eq!(streams.next(), None);
        streams.prioritize(5, Priority { urgency: 0, incremental: true });
        assert_eq!(streams.next(), None, "another priority opens no window");
    }
}
