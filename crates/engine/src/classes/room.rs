// SPDX-License-Identifier: BSD-2-Clause
//! The waiting room of a class, for visitors with a token who found no slot in the queue. Places are numbers in the
//! order of first arrival. A place lasts as long as its visitor comes again in time.

use std::collections::{BTreeMap, BTreeSet};

use base::Real;

#[derive(Debug, Default)]
pub(super) struct Room {
    /// Until when each is kept, in seconds since 1970.
    places: BTreeMap<u64, f64>,
    /// Places of before this worker that it has served: their tokens are good for nothing more.
    spent: BTreeSet<u64>,
}

/// Most spent places remembered. Beyond that no token of a former worker is accepted.
const MAX_SPENT: usize = 10_000;

impl Room {
    /// Number of places, including those of visitors who left unnoticed.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn has(&self, key: u64) -> bool {
        self.places.contains_key(&key)
    }

    /// True if the place of a former worker may be taken up again.
    pub fn may_restore(&self, key: u64) -> bool {
        self.spent.len() < MAX_SPENT && !self.spent.contains(&key)
    }

    /// Number of visitors before `key` (before a newcomer if it is `None`), counted up to `most`.
    pub fn ahead_of(&mut self, key: Option<u64>, most: usize, now: Real) -> usize {
        let mut ahead = 0;
        let mut from = 0;
        while ahead < most {
            let Some((&other, &until)) = self.places.range(from..).next() else { break };
            if key.is_some_and(|key| other >= key) {
                break;
            }
            if until < now.0 {
                self.places.remove(&other);
            } else {
                ahead += 1;
            }
            from = other + 1;
        }
        ahead
    }

    /// Keeps the place until then; whether there is room for it.
    pub fn keep(&mut self, key: u64, until: f64, most: usize, now: Real) -> bool {
        if self.places.len() >= most && !self.has(key) {
            // Only the first places are checked for visitors who left, so that nobody can make this expensive.
            let gone: Vec<u64> =
                self.places.iter().take(64).filter(|(_, end)| **end < now.0).map(|(k, _)| *k).collect();
            for past in gone {
                self.places.remove(&past);
            }
            if self.places.len() >= most {
                return false;
            }
        }
        self.places.insert(key, until);
        true
    }

    pub fn admit(&mut self, key: u64) {
        if self.places.remove(&key).is_none() {
            self.spent.insert(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_first_is_first_and_who_stays_away_is_not_counted() {
        let (mut room, now) = (Room::default(), Real(100.0));
        assert!(room.keep(10, 110.0, 3, now) && room.keep(20, 105.0, 3, now) && room.keep(30, 120.0, 3, now));
        assert!(!room.keep(40, 110.0, 3, now), "it is full");
        assert!(room.keep(20, 106.0, 3, now), "who is in it stays");
        let mut ahead = |key, most, at| room.ahead_of(key, most, Real(at));
        assert_eq!([ahead(Some(10), 9, 100.0), ahead(Some(20), 9, 100.0), ahead(Some(30), 9, 100.0)], [0, 1, 2]);
        assert_eq!([ahead(None, 9, 100.0), ahead(None, 2, 100.0), ahead(None, 0, 100.0)], [3, 2, 0]);
        assert_eq!(ahead(None, 9, 107.0), 2, "20 didn't come again");
        assert_eq!(room.len(), 2);
        assert!(room.keep(50, 130.0, 2, Real(115.0)), "10 has gone, too");
        assert!(!room.has(10) && room.has(30) && room.has(50));
    }

    #[test]
    fn a_place_is_good_for_one_time() {
        let mut room = Room::default();
        room.keep(10, 110.0, 3, Real(100.0));
        room.admit(10);
        assert!(!room.has(10) && room.may_restore(11));
        room.admit(5);
        assert!(!room.may_restore(5), "a token of a former worker, used again");
    }
}
