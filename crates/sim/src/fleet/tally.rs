// SPDX-License-Identifier: BSD-2-Clause
//! Sums over histories of a fleet: faults, losses, and how often a node invalidated its whole cache, by reason.

use std::collections::BTreeMap;
use std::fmt;

/// Reasons why a node gives up its whole cache: words of the product's texts, and how the table names them.
const REASONS: &[(&str, &str)] = &[
    ("says so", "another node or program has told all"),
    ("damaged", "a damaged entry"),
    ("can't be understood", "an entry of a later version"),
    ("can't be reached", "the log is unreachable when a node starts"),
    ("another one than before", "the log was replaced"),
    ("it has lost entries", "the log lost more than the node held"),
    ("is missing or has changed", "the log lost more than the node held"),
    ("it is unknown which", "a node without a position"),
    ("nobody knows whether", "a node that had read no entry of the log"),
    ("", "the log was trimmed, or entries don't arrive"),
];

#[derive(Clone, Debug, Default)]
pub struct FleetTally {
    pub histories: u64,
    pub answers: u64,
    pub acknowledged: u64,
    /// Acknowledged invalidations that the log had lost, and of which no node had a journal any more.
    pub held_by_nobody: u64,
    /// Entries that a log lost, and entries that nodes appended again.
    pub lost: u64,
    pub restored: u64,
    /// Histories in which no node invalidated its whole cache.
    pub without_loss: u64,
    pub faults: BTreeMap<&'static str, u64>,
    pub invalidated: BTreeMap<&'static str, u64>,
}

impl FleetTally {
    pub fn give_up(&mut self, why: &str) {
        let reason = REASONS.iter().find(|(words, _)| why.contains(words)).map_or("", |(_, reason)| reason);
        *self.invalidated.entry(reason).or_default() += 1;
    }

    pub fn add(&mut self, other: &FleetTally) {
        self.histories += other.histories;
        self.answers += other.answers;
        self.acknowledged += other.acknowledged;
        self.held_by_nobody += other.held_by_nobody;
        self.lost += other.lost;
        self.restored += other.restored;
        self.without_loss += other.without_loss;
        for (into, from) in [(&mut self.faults, &other.faults), (&mut self.invalidated, &other.invalidated)] {
            from.iter().for_each(|(name, count)| *into.entry(name).or_default() += count);
        }
    }
}

impl fmt::Display for FleetTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("histories", self.histories),
            ("answers judged", self.answers),
            ("acknowledged purges and bans", self.acknowledged),
            ("of these held by nobody at some moment", self.held_by_nobody),
            ("entries that the log lost", self.lost),
            ("entries appended again", self.restored),
            ("histories without an invalidated cache", self.without_loss),
        ];
        rows.iter().try_for_each(|(name, count)| writeln!(f, "{count:>10}  {name}"))?;
        self.faults.iter().try_for_each(|(name, count)| writeln!(f, "{count:>10}  fault: {name}"))?;
        self.invalidated.iter().try_for_each(|(name, count)| writeln!(f, "{count:>10}  caches invalidated: {name}"))
    }
}
