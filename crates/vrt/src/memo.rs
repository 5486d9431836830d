// SPDX-License-Identifier: BSD-2-Clause
//! What tests said of values that were seen before. Clients repeat themselves (their User-Agent, the host they ask for, hot
//! URLs), so that most requests need no pattern to be run. Each thread has one table of a fixed size for all VCLs.
//!
//! An entry is found by the whole value, so that an answer is never another value's. A value enters when it is seen for the
//! second time within a while: those that come once (a session's cookie) push nothing out.

use std::cell::RefCell;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::DefaultHashBuilder;

/// Values that may be in one place of the table.
const WAYS: usize = 4;
const SETS: usize = 256;
/// Longer values are not kept: the whole table takes 512 KB at most.
const LONGEST: usize = 512 - 64;
/// Values that were seen once: only so much of their hash is kept.
const SEEN: usize = 2048;

/// Known answers about a value: a bit for each test of its subject.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KnownAnswers {
    pub asked: u64,
    pub holds: u64,
}

/// Place of a value's answers; by default nowhere.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AnswerSlot {
    entry: u16,
    /// 0: nowhere. It never comes twice, so that it names one value for good, in whatever thread.
    stamp: u64,
}

#[derive(Debug, Default)]
struct MemoEntry {
    /// Number of the tests' owner; 0: none, the entry is free.
    of: u64,
    hash: u64,
    stamp: u64,
    answers: KnownAnswers,
    value: Vec<u8>,
}

struct Memo {
    entries: Vec<MemoEntry>,
    seen: Vec<u32>,
    hasher: DefaultHashBuilder,
}

/// For things that tests belong to: each has a number of its own.
pub(crate) fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

thread_local! {
    static MEMO: RefCell<Memo> = RefCell::new(Memo::new());
}

/// Known answers about `value` in the tests of `of`, and the place for further ones.
pub(crate) fn recall(of: u64, value: &[u8]) -> (AnswerSlot, KnownAnswers) {
    if value.len() > LONGEST {
        return Default::default();
    }
    // Err: this thread is ending.
    MEMO.try_with(|memo| memo.borrow_mut().recall(of, value)).unwrap_or_default()
}

pub(crate) fn keep(place: AnswerSlot, answers: KnownAnswers) {
    if place.stamp != 0 {
        let _ = MEMO.try_with(|memo| {
            if let Some(entry) = memo.borrow_mut().entries.get_mut(usize::from(place.entry))
                && entry.stamp == place.stamp
            {
                entry.answers = answers;
            }
        });
    }
}

impl Memo {
    fn new() -> Memo {
        let entries = std::iter::repeat_with(MemoEntry::default).take(SETS * WAYS).collect();
        Memo { entries, seen: vec![0; SEEN], hasher: DefaultHashBuilder::default() }
    }

    fn recall(&mut self, of: u64, value: &[u8]) -> (AnswerSlot, KnownAnswers) {
        let hash = self.hasher.hash_one((of, value));
        let first = (hash as usize % SETS) * WAYS;
        let set = &mut self.entries[first..first + WAYS];
        if let Some(way) = set.iter().position(|entry| entry.hash == hash && entry.of == of && entry.value == value) {
            // The last way is the next to go; what is asked for moves away from there, one at a time.
            let way = if way + 1 == WAYS {
                set.swap(way - 1, way);
                way - 1
            } else {
                way
            };
            return (AnswerSlot { entry: (first + way) as u16, stamp: set[way].stamp }, set[way].answers);
        }
        let (slot, mark) = ((hash >> 16) as usize % SEEN, (hash >> 32) as u32 | 1);
        if std::mem::replace(&mut self.seen[slot], mark) != mark {
            return Default::default();
        }
        let entry = &mut set[WAYS - 1];
        (entry.of, entry.hash, entry.stamp, entry.answers) = (of, hash, number(), KnownAnswers::default());
        entry.value.clear();
        entry.value.extend_from_slice(value);
        (AnswerSlot { entry: (first + WAYS - 1) as u16, stamp: entry.stamp }, KnownAnswers::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YES: KnownAnswers = KnownAnswers { asked: 3, holds: 1 };

    fn known(of: u64, value: &[u8]) -> KnownAnswers {
        recall(of, value).1
    }

    #[test]
    fn a_value_is_known_from_its_third_time_on() {
        let of = number();
        assert_eq!(known(of, b"a"), KnownAnswers::default());
        keep(recall(of, b"a").0, YES);
        assert_eq!(known(of, b"a"), YES);
    }

    #[test]
    fn the_same_value_of_something_else_is_another() {
        let (one, other) = (number(), number());
        for _ in 0..2 {
            keep(recall(one, b"a").0, YES);
        }
        assert_eq!((known(one, b"a"), known(other, b"a")), (YES, KnownAnswers::default()));
    }

    #[test]
    fn values_that_come_once_push_nothing_out() {
        let of = number();
        for _ in 0..2 {
            keep(recall(of, b"a").0, YES);
        }
        for n in 0..100_000u32 {
            keep(recall(of, &n.to_le_bytes()).0, YES);
        }
        assert_eq!(known(of, b"a"), YES);
    }

    #[test]
    fn a_place_that_was_given_away_takes_nothing() {
        let of = number();
        recall(of, b"a");
        let place = recall(of, b"a").0;
        for n in 0..20_000u32 {
            recall(of, &n.to_le_bytes());
            recall(of, &n.to_le_bytes());
        }
        keep(place, YES);
        let answers = MEMO.with(|memo| memo.borrow().entries.iter().map(|entry| entry.answers).max_by_key(|a| a.asked));
        assert_eq!(answers, Some(KnownAnswers::default()));
    }

    #[test]
    fn long_values_are_not_kept() {
        let of = number();
        let long = [b'x'; LONGEST + 1];
        for _ in 0..3 {
            keep(recall(of, &long).0, YES);
        }
        assert_eq!(known(of, &long), KnownAnswers::default());
    }
}
