// SPDX-License-Identifier: BSD-2-Clause
//! Ends of streams that are no longer there: the peer's frames for them may still be on their way.

use super::stream::Closed;

const REMEMBERED: u16 = 32;
/// No number of a stream has this bit (RFC 9113 5.1.1).
const BY_PEER: u32 = 1 << 31;
/// Number of reset streams that are remembered: frames on their way may still come.
const REMEMBERED_RESETS: u16 = 256;

#[derive(Debug, Default)]
pub(super) struct PastStreams {
    /// Numbers, with [`BY_PEER`] for those that the peer has reset.
    ended: Vec<u32>,
    ended_at: u16,
    reset: Vec<u32>,
    reset_at: u16,
    /// The highest of those whose reset is forgotten: below it, what isn't known may be one of them.
    forgotten: u32,
}

impl PastStreams {
    pub(super) fn find(&self, id: u32) -> Option<Closed> {
        if let Some(past) = self.ended.iter().find(|&past| past & !BY_PEER == id) {
            return Some(if past & BY_PEER == 0 { Closed::Ended } else { Closed::ByPeer });
        }
        (id <= self.forgotten || self.reset.contains(&id)).then_some(Closed::ByUs)
    }

    pub(super) fn remember(&mut self, id: u32, closed: Closed) {
        let past = match closed {
            Closed::Ended => id,
            Closed::ByPeer => id | BY_PEER,
            Closed::ByUs => return self.remember_reset(id),
        };
        if self.ended.len() < usize::from(REMEMBERED) {
            self.ended.push(past);
        } else {
            self.ended[usize::from(self.ended_at)] = past;
            self.ended_at = (self.ended_at + 1) % REMEMBERED;
        }
    }

    fn remember_reset(&mut self, id: u32) {
        if self.reset.len() < usize::from(REMEMBERED_RESETS) {
            self.reset.push(id);
            return;
        }
        let before = std::mem::replace(&mut self.reset[usize::from(self.reset_at)], id);
        self.forgotten = self.forgotten.max(before);
        self.reset_at = (self.reset_at + 1) % REMEMBERED_RESETS;
    }

    pub(super) fn memory(&self) -> usize {
        (self.ended.capacity() + self.reset.capacity()) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_are_remembered_longer_than_other_ends() {
        let mut past = PastStreams::default();
        past.remember(1, Closed::ByPeer);
        past.remember(3, Closed::ByUs);
        assert_eq!([1, 3, 5].map(|id| past.find(id)), [Some(Closed::ByPeer), Some(Closed::ByUs), None]);
        for n in 0..u32::from(REMEMBERED) {
            past.remember(5 + 2 * n, Closed::Ended);
        }
        assert_eq!(past.find(1), None);
        assert_eq!(past.find(3), Some(Closed::ByUs));
        assert_eq!(past.find(5), Some(Closed::Ended));
    }

    #[test]
    fn below_a_forgotten_reset_every_unknown_stream_may_be_one() {
        let mut past = PastStreams::default();
        for n in 0..=u32::from(REMEMBERED_RESETS) {
            past.remember(11 + 2 * n, Closed::ByUs);
        }
        assert_eq!([9, 11, 13].map(|id| past.find(id)), [Some(Closed::ByUs); 3]);
        assert_eq!(past.find(13 + 2 * u32::from(REMEMBERED_RESETS)), None);
    }
}
