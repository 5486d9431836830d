// SPDX-License-Identifier: BSD-2-Clause
//! What is known of an object beside its bytes, as words: those of its record, or, of one without, words of its own.
//! There is no copy elsewhere.

use std::num::NonZeroU64;
use std::sync::atomic::{Ordering::Relaxed, Ordering::Release};

use base::Mono;
use sys::arena::ArenaWords;

use crate::home::HomeId;
use crate::record::{HeadLengths, Record};
use crate::records::words::{
    self, AUX_LEN, BAN_SEQ, BODY_LEN, DIGEST, EXTENTS, GRACE, HEAD_LEN, HITS, KEEP, LONG_VARY, MIXED, STATE, T_ORIGIN,
    TTL, VARY_LENS, XID,
};
use crate::times::ObjectTimes;

/// Words of an object that has no record.
#[derive(Debug, Default)]
pub struct OwnFacts(ArenaWords);

/// A look at the words of an object.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a>(&'a ArenaWords);

impl OwnFacts {
    /// All that `record` says but the flags.
    pub fn new(record: &Record) -> OwnFacts {
        let words = ArenaWords::default();
        words::write_facts(&words, record);
        words.word(VARY_LENS).store(LONG_VARY, Relaxed);
        words.word(BODY_LEN).store(record.lengths.spec, Relaxed);
        words.word(EXTENTS).store(record.lengths.values, Relaxed);
        OwnFacts(words)
    }

    /// A look at them.
    pub fn facts(&self) -> Facts<'_> {
        Facts(&self.0)
    }

    /// The stored copy, if there is one: in the words that say where a record is.
    pub fn home(&self) -> Option<HomeId> {
        NonZeroU64::new(self.0.word64(STATE).load(Relaxed)).map(HomeId)
    }

    /// Sets the stored copy, or none.
    pub fn set_home(&self, id: Option<HomeId>) {
        self.0.word64(STATE).store(id.map_or(0, |id| id.0.get()), Relaxed);
    }

    /// Another fetch made it. (A record is of one fetch.)
    pub fn set_xid(&self, xid: u64) {
        self.0.word64(XID).store(xid, Relaxed);
    }
}

impl<'a> Facts<'a> {
    pub(crate) fn of_slot(words: &'a ArenaWords) -> Self {
        Facts(words)
    }

    /// The digest under which the object is found.
    pub fn digest(self) -> [u8; 32] {
        let mut digest = [0; 32];
        let (parts, _) = digest.as_chunks_mut::<8>();
        parts.iter_mut().enumerate().for_each(|(n, part)| *part = self.wide(DIGEST + 2 * n).to_le_bytes());
        digest
    }

    /// True if that is its digest.
    #[inline]
    pub fn is_of(self, digest: &[u8; 32]) -> bool {
        let (parts, _) = digest.as_chunks::<8>();
        parts.iter().enumerate().all(|(n, part)| self.wide(DIGEST + 2 * n) == u64::from_le_bytes(*part))
    }

    /// The fetch that made it.
    pub fn xid(self) -> u64 {
        self.wide(XID)
    }

    /// The present lifetimes of the record.
    #[inline]
    pub fn times(self) -> ObjectTimes {
        let short = |n| f64::from(f32::from_bits(self.word(n)));
        ObjectTimes {
            t_origin: Mono(f64::from_bits(self.wide(T_ORIGIN))),
            ttl: f64::from_bits(self.wide(TTL)),
            grace: short(GRACE),
            keep: short(KEEP),
        }
    }

    /// Changes the lifetimes of the record.
    pub fn set_times(self, times: ObjectTimes) {
        let set = |n, value: f64| self.0.word64(n).store(value.to_bits(), Release);
        let set_short = |n, value: f64| self.0.word(n).store((value as f32).to_bits(), Release);
        // The origin last: what is cut short must not outlive its worker because that dies between two of these words.
        set(TTL, times.ttl);
        set_short(GRACE, times.grace);
        set_short(KEEP, times.keep);
        set(T_ORIGIN, times.t_origin.0);
    }

    /// The bans up to this number have been tested; a lower one than is known changes nothing.
    pub fn raise_ban_seq(self, seq: u64) {
        self.0.word64(BAN_SEQ).fetch_max(seq, Release);
    }

    /// Times it was delivered.
    pub fn hits(self) -> u32 {
        self.word(HITS)
    }

    /// Sets the number of deliveries. Callers do so one after the other.
    #[inline]
    pub fn set_hits(self, hits: u32) {
        self.0.word(HITS).store(hits, Relaxed);
    }

    /// Lengths of the parts of the head block.
    #[inline]
    pub fn lengths(self) -> HeadLengths {
        let (spec, values) = match self.word(VARY_LENS) {
            LONG_VARY => (self.word(BODY_LEN), self.word(EXTENTS)),
            both => (both & 0xffff, both >> 16),
        };
        HeadLengths { head: self.word(HEAD_LEN), spec, values, aux: self.word(AUX_LEN) }
    }

    /// All of them. [`OwnFacts`] have no flags.
    pub fn record(self) -> Record {
        Record {
            digest: self.digest(),
            xid: self.xid(),
            ban_seq: self.wide(BAN_SEQ),
            times: self.times(),
            flags: self.word(MIXED) >> 16 & 0xff,
            hits: self.hits(),
            lengths: self.lengths(),
        }
    }

    #[inline]
    fn word(self, n: usize) -> u32 {
        self.0.word(n).load(Relaxed)
    }

    #[inline]
    fn wide(self, n: usize) -> u64 {
        self.0.word64(n).load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let digest = std::array::from_fn(|n| n as u8 * 7);
        let record = Record {
            digest,
            xid: 1 << 40 | 3,
            ban_seq: 17,
            times: ObjectTimes { t_origin: Mono(1234.5), ttl: 1e-6, grace: 10.5, keep: 86400.0 },
            flags: 0,
            hits: 3,
            lengths: HeadLengths { head: 100, spec: 70_000, values: 80_000, aux: 4 },
        };
        let own = OwnFacts::new(&record);
        let facts = own.facts();
        assert_eq!(facts.record(), record);
        assert!(facts.is_of(&digest) && !facts.is_of(&[7; 32]));
        let id = NonZeroU64::new(u64::MAX - 1).map(HomeId);
        assert_eq!(own.home(), None);
        own.set_home(id);
        assert_eq!((own.home(), facts.is_of(&digest)), (id, true));
        own.set_home(None);
        assert_eq!(own.home(), None);
        facts.raise_ban_seq(16);
        let times = ObjectTimes { ttl: 0.0, ..record.times };
        facts.set_times(times);
        assert_eq!(facts.record(), Record { times, ..record });
    }
}
