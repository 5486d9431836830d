// SPDX-License-Identifier: BSD-2-Clause
//! What the journal of a former worker says, in times of this one's clock.

use std::collections::BTreeMap;

use base::Clock;
use storage::journal::{Followed, JournalBan, JournalEntry, JournalHeld, JournalLife, JournalTagPurge};

use super::lives::{Lives, epoch};
use super::purges::Purges;
use crate::ban::KeptBans;

pub struct Replay {
    pub(super) lives: Lives,
    pub(super) bans: KeptBans,
    pub(super) newest: u64,
    pub(super) purges: Purges,
    /// Purges by key that have reached all that was in memory.
    pub(super) keys: Vec<JournalTagPurge>,
    /// Number up to which every purge by key counts, whatever its key.
    pub(super) keys_lost: u64,
    /// Position up to which the worker has followed the log of a fleet.
    pub(super) followed: Option<Followed>,
    /// Entries of that log by their names.
    pub(super) held: BTreeMap<String, JournalHeld>,
}

impl Replay {
    /// Nothing, in a journal that begins with this life of a worker.
    pub fn nothing(life: JournalLife) -> Replay {
        let lives = Lives { own: life, ..Lives::default() };
        Replay {
            lives,
            bans: KeptBans::default(),
            newest: 0,
            purges: Purges::default(),
            keys: Vec::new(),
            keys_lost: 0,
            followed: None,
            held: BTreeMap::new(),
        }
    }

    /// The life of a worker with this number, drawn for it, on a machine started that often: see [`JournalLife`].
    pub fn life(number: u64, boot: u64, clock: &Clock) -> JournalLife {
        JournalLife { number, boot, epoch: epoch(clock) }
    }

    /// Understands the entries; `None` if there is something that can't be: then no object of that worker may be served.
    pub fn read(entries: &[JournalEntry], life: JournalLife) -> Option<Replay> {
        let mut replay = Replay::nothing(JournalLife::default());
        for entry in entries {
            replay.add(entry, &life)?;
        }
        replay.lives = replay.lives.next(life);
        Some(replay)
    }

    /// The entry that says of a new life. It has to last before a store gets its number.
    pub fn beginning(&self) -> JournalEntry {
        JournalEntry::Life(self.lives.own)
    }

    /// The number that a store gets which is opened with this journal.
    pub fn number(&self) -> u64 {
        self.lives.own.number
    }

    /// The numbers of stores that this journal says all of: another one's objects may have been invalidated elsewhere.
    pub fn known(&self) -> Vec<u64> {
        self.lives.known.iter().copied().chain([self.lives.own.number]).collect()
    }

    /// Number of the oldest ban. An object tested up to an older one can't be judged.
    pub fn least_ban_seq(&self) -> u64 {
        self.bans.oldest()
    }

    fn add(&mut self, entry: &JournalEntry, now: &JournalLife) -> Option<()> {
        let then = self.lives.own;
        let translated = |seconds: f64| then.translate(seconds, now);
        let seq = match entry {
            JournalEntry::Ban(ban) => {
                self.bans.add(&JournalBan { mono: translated(ban.mono), ..ban.clone() })?;
                ban.seq
            }
            JournalEntry::Completed { seq, successor } => {
                self.bans.complete(*seq, *successor);
                *seq
            }
            JournalEntry::Oldest { seq } => {
                self.bans.drop_before(*seq);
                *seq
            }
            JournalEntry::Purge(purge) => {
                let purge = storage::journal::JournalPurge { at: translated(purge.at), ..purge.clone() };
                self.purges.begin(purge.seq, JournalEntry::Purge(purge.clone()));
                purge.seq
            }
            JournalEntry::TagPurge(purge) => {
                let purge = JournalTagPurge { soft: purge.soft.map(translated), ..purge.clone() };
                self.purges.begin(purge.seq, JournalEntry::TagPurge(purge.clone()));
                purge.seq
            }
            JournalEntry::Done { seq } => {
                self.purges.end(*seq);
                *seq
            }
            JournalEntry::Reached { seq } => {
                match self.purges.end(*seq) {
                    Some(JournalEntry::Purge(purge)) => self.purges.keep(*seq, purge.digest),
                    Some(JournalEntry::TagPurge(purge)) => self.keys.push(purge),
                    _ => {}
                }
                *seq
            }
            JournalEntry::KeysLost { seq } => {
                self.keys_lost = self.keys_lost.max(*seq);
                *seq
            }
            JournalEntry::Newest { seq } => *seq,
            JournalEntry::Followed(place) => {
                self.followed = Some(place.clone());
                return Some(());
            }
            JournalEntry::Held(held) => {
                super::hold(&mut self.held, held.clone());
                return Some(());
            }
            JournalEntry::Life(life) => {
                self.lives = std::mem::take(&mut self.lives).next(*life);
                return Some(());
            }
            JournalEntry::Known { number } => {
                self.lives.known.push(*number);
                return Some(());
            }
            JournalEntry::Bound => {
                self.lives.bind();
                return Some(());
            }
        };
        self.newest = self.newest.max(seq);
        Some(())
    }
}
