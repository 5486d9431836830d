// SPDX-License-Identifier: BSD-2-Clause
//! The ban list in the journal: the entries for changes of the list, the list that a former worker left, and the
//! entries of the present list for a journal that is rewritten.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Relaxed, Ordering::Release};

use base::{Clock, Mono, Real};
use storage::journal::{self, Cut, Journal};

use super::{Ban, BanListEntry, BanSpec, Bans};

pub(super) fn entry(ban: &Ban) -> journal::JournalEntry {
    journal::JournalEntry::Ban(journal::JournalBan {
        seq: ban.seq,
        real: ban.real.0,
        mono: ban.mono.0,
        is_completed: ban.is_completed(),
        successor: ban.successor.load(Relaxed),
        spec: ban.spec.encode(),
    })
}

/// The entry of a ban for another worker, which gives it a number of its own.
pub(super) fn told(spec: &BanSpec, (real, mono): (Real, Mono)) -> journal::JournalEntry {
    let (real, mono, spec) = (real.0, mono.0, spec.encode());
    journal::JournalEntry::Ban(journal::JournalBan { real, mono, spec, ..journal::JournalBan::default() })
}

pub(super) fn completed(ban: &Ban) -> journal::JournalEntry {
    journal::JournalEntry::Completed { seq: ban.seq, successor: ban.successor.load(Relaxed) }
}

/// The entry that says that bans before `seq` have left the list.
pub(super) fn oldest(seq: u64) -> journal::JournalEntry {
    journal::JournalEntry::Oldest { seq }
}

impl Ban {
    /// The ban that a former worker wrote; `None` if its expression is malformed.
    fn of(kept: &journal::JournalBan) -> Option<Ban> {
        let ban = Ban::new(kept.seq, (Real(kept.real), Mono(kept.mono)), BanSpec::decode(&kept.spec)?);
        ban.is_completed.store(kept.is_completed, Relaxed);
        ban.successor.store(kept.successor, Relaxed);
        Some(ban)
    }
}

#[derive(Default)]
pub(crate) struct KeptBans(VecDeque<Ban>);

impl KeptBans {
    /// One entry more; `None` when it can't be understood. Bans come in the order of their numbers.
    pub fn add(&mut self, kept: &journal::JournalBan) -> Option<()> {
        let ban = Ban::of(kept)?;
        if self.0.back().is_some_and(|newest| newest.seq >= ban.seq) {
            return None;
        }
        self.0.push_back(ban);
        Some(())
    }

    pub fn complete(&mut self, seq: u64, successor: u64) {
        let at = self.0.partition_point(|ban| ban.seq < seq);
        if let Some(ban) = self.0.get(at).filter(|ban| ban.seq == seq) {
            ban.is_completed.store(true, Relaxed);
            ban.successor.store(successor, Relaxed);
        }
    }

    pub fn oldest(&self) -> u64 {
        self.0.front().map_or(0, |ban| ban.seq)
    }

    pub fn drop_before(&mut self, seq: u64) {
        let count = self.0.partition_point(|ban| ban.seq < seq);
        self.0.drain(..count);
    }
}

impl Bans {
    /// Takes over the list of a former worker, and continues its numbers after `newest`. Call it before any object
    /// stands on the list.
    pub fn restore(&self, kept: KeptBans, newest: u64) {
        let mut list = self.inner.lock();
        if !kept.0.is_empty() {
            for entry in std::mem::take(&mut list.entries) {
                assert!(entry.refs + entry.pins == 0, "a list that is replaced is nobody's");
                self.uncount(&entry.ban);
            }
        }
        for ban in kept.0 {
            self.count(&ban);
            if ban.is_completed() {
                self.count_completed(&ban);
            }
            list.entries.push_back(BanListEntry { ban: Arc::new(ban), refs: 0, pins: 0 });
        }
        let newest_ban = list.newest().ban.seq;
        self.newest.store(newest_ban, Release);
        self.seq.store(newest.max(newest_ban), Release);
        let is_spread = |entry: &&BanListEntry| entry.ban.is_spread() && !entry.ban.is_completed();
        let spreads: Vec<_> = list.entries.iter().filter(is_spread).map(|entry| entry.ban.clone()).collect();
        drop(list);
        self.main.bans_spread.set(spreads.len() as u64);
        *self.spreads.lock() = spreads;
    }

    /// The journal is to begin with this list and the purges that are needed still.
    pub fn begin_anew<'j>(&self, journal: &'j Journal, clock: &Clock) -> Option<(Cut<'j>, Vec<journal::JournalEntry>)> {
        // Before the cut: what it says is carried out is in the list, or appended after the cut.
        let followed = self.log.followed();
        let list = self.inner.lock();
        let (cut, purges) = self.log.with_purges(|purges| (journal.cut(), purges.entries().collect::<Vec<_>>()));
        let cut = cut?;
        // Read after the cut: an invalidation with a newer number is appended after the cut.
        let newest = journal::JournalEntry::Newest { seq: self.seq() };
        let bans = list.entries.iter().map(|on_list| entry(&on_list.ban));
        let head = std::iter::once(newest).chain(self.log.lives(clock)).chain(followed).chain(self.log.held());
        Some((cut, head.chain(bans).chain(purges).collect()))
    }
}
