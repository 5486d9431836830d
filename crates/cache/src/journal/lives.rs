// SPDX-License-Identifier: BSD-2-Clause
//! The numbers by which a journal and the stores on disk recognize that they belong together.

use base::Clock;
use storage::journal::{JournalEntry, JournalLife};

/// Most lives in a row that end before all stores are bound; later ones reuse the number.
const MOST_KNOWN: usize = 16;

/// The numbers of a journal: a store that lasts has the one of the life in which it was opened last.
#[derive(Clone, Default)]
pub(super) struct Lives {
    pub own: JournalLife,
    /// Numbers of earlier lives that ended before every store was known to have the next number.
    pub known: Vec<u64>,
    /// All stores have the present number.
    pub is_bound: bool,
}

impl Lives {
    pub fn next(mut self, next: JournalLife) -> Lives {
        if self.own == JournalLife::default() {
            // There was none.
            return Lives { own: next, ..self };
        }
        // Before all stores were bound some may have this number and some an older one.
        if self.known.len() >= MOST_KNOWN {
            return Lives { own: JournalLife { number: self.own.number, ..next }, known: self.known, is_bound: false };
        }
        self.known.push(self.own.number);
        Lives { own: next, known: self.known, is_bound: false }
    }

    pub fn bind(&mut self) {
        self.known.clear();
        self.is_bound = true;
    }

    pub fn entries(&self, clock: &Clock) -> Vec<JournalEntry> {
        let known = self.known.iter().map(|&number| JournalEntry::Known { number });
        let own = JournalEntry::Life(JournalLife { epoch: epoch(clock), ..self.own });
        known.chain([own]).chain(self.is_bound.then_some(JournalEntry::Bound)).collect()
    }
}

/// When the machine's clock was 0: seconds since 1970.
pub(super) fn epoch(clock: &Clock) -> f64 {
    clock.real().0 - clock.mono().0
}
