// SPDX-License-Identifier: BSD-2-Clause
//! Turns to fetch a directory. Number and rate are bounded, because clients may name directories.

use base::Mono;

/// Fetches of a kind at the same time.
pub(super) const MOST: usize = 4;
/// A fetch leaves its slot to another after this time in seconds, because the lookup of a name has no time limit.
pub(super) const SLOT_TIME: f64 = 30.0;
/// Fetches of a kind that haven't ended, those without a slot included.
const MOST_UNENDED: usize = 4 * MOST;
/// Fetches of new directories that clients name: so many at once, and then one in so many seconds.
pub(super) const BURST: f64 = 32.0;
pub(super) const SECONDS_PER_FETCH: f64 = 1.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnKind {
    /// VCL names the directory.
    Listed,
    /// A client has named the directory, and there are keys of it.
    Known,
    /// A client names a directory without keys.
    New,
}

pub(super) struct Turns {
    unended: [Vec<Turn>; 3],
    taken: u64,
    tokens: f64,
    filled: Mono,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    kind: TurnKind,
    number: u64,
    begin: Mono,
}

impl Default for Turns {
    fn default() -> Self {
        Turns { unended: Default::default(), taken: 0, tokens: BURST, filled: Mono::default() }
    }
}

impl Turns {
    pub(super) fn has(&mut self, kind: TurnKind, now: Mono) -> bool {
        self.tokens = BURST.min(self.tokens + now.since(self.filled).max(0.0) / SECONDS_PER_FETCH);
        self.filled = now;
        let unended = &self.unended[kind as usize];
        let slots = unended.iter().filter(|turn| now.since(turn.begin) < SLOT_TIME).count();
        slots < MOST && unended.len() < MOST_UNENDED && (kind != TurnKind::New || self.tokens >= 1.0)
    }

    pub(super) fn take(&mut self, kind: TurnKind, now: Mono) -> Turn {
        if kind == TurnKind::New {
            self.tokens -= 1.0;
        }
        self.taken += 1;
        let turn = Turn { kind, number: self.taken, begin: now };
        self.unended[kind as usize].push(turn);
        turn
    }

    pub(super) fn end(&mut self, turn: Turn) {
        self.unended[turn.kind as usize].retain(|other| other.number != turn.number);
    }
}
