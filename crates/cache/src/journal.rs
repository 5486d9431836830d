// SPDX-License-Identifier: BSD-2-Clause
//! The journal of bans and purges, as the cache uses it: written by every invalidation, read once by a new worker.
//!
//! An invalidation is appended where its number is given, and committed before its caller goes on: nobody has been told of
//! one that isn't kept.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use base::Clock;
use base::lock::Mutex;
use storage::journal::{Entry, Journal, Ticket};

use crate::ban::KeptBans;
use crate::cache::Cache;

/// The journal, once the cache has one.
#[derive(Default)]
pub(crate) struct Log {
    journal: OnceLock<Arc<Journal>>,
    /// What went wrong, until somebody asks.
    trouble: Mutex<Option<String>>,
    /// Somebody was told that the journal is incomplete.
    told: AtomicBool,
}

impl Log {
    /// Puts an entry behind the others. Without a journal `entry` isn't asked.
    pub fn append(&self, entry: impl FnOnce() -> Entry) -> Option<Ticket> {
        self.journal.get().map(|journal| journal.append(&entry()))
    }

    /// The same, if that is so.
    pub fn append_if(&self, so: bool, entry: impl FnOnce() -> Entry) -> Option<Ticket> {
        if so { self.append(entry) } else { None }
    }

    /// Returns when what was appended is kept.
    pub fn commit(&self, ticket: Option<Ticket>) {
        if let Some((journal, ticket)) = self.journal.get().zip(ticket) {
            self.note(journal.commit(ticket));
        }
    }

    /// The journal, if it ought to be begun anew.
    pub fn oversized(&self) -> Option<&Journal> {
        self.journal.get().map(|journal| &**journal).filter(|journal| journal.is_oversized())
    }

    /// Keeps in mind what somebody has to be told.
    pub fn note(&self, result: io::Result<()>) {
        if let Err(error) = result {
            *self.trouble.lock() = Some(error.to_string());
        }
    }

    fn take_trouble(&self) -> Option<String> {
        if let Some(error) = self.trouble.lock().take() {
            return Some(format!("the journal of bans and purges can't be written: {error}"));
        }
        let failure = self.journal.get()?.failure().filter(|_| !self.told.swap(true, Relaxed))?;
        Some(format!("the journal of bans and purges is incomplete: {failure}: no object will outlive this process"))
    }
}

/// What a former worker's journal says.
#[derive(Default)]
pub struct Replay {
    bans: KeptBans,
    /// Newest number given.
    newest: u64,
}

impl Replay {
    /// Understands the entries; `None` if there is something that can't be: then no object of that worker may be served.
    pub fn read(entries: &[Entry], clock: &Clock) -> Option<Replay> {
        let mut replay = Replay::default();
        for entry in entries {
            replay.add(entry, clock)?;
        }
        Some(replay)
    }

    fn add(&mut self, entry: &Entry, clock: &Clock) -> Option<()> {
        let seq = match entry {
            Entry::Ban(ban) => {
                self.bans.add(ban, clock)?;
                ban.seq
            }
            Entry::Completed { seq, successor } => {
                self.bans.complete(*seq, *successor);
                *seq
            }
            Entry::Oldest { seq } => {
                self.bans.drop_before(*seq);
                *seq
            }
            // They have reached all objects, or nobody was told of them.
            Entry::Purge(purge) => purge.seq,
            Entry::TagPurge(purge) => purge.seq,
            Entry::Done { seq } | Entry::Newest { seq } => *seq,
        };
        self.newest = self.newest.max(seq);
        Some(())
    }
}

impl Cache {
    /// Takes over what a former worker's journal says, and writes into the journal from now on. Before the first lookup.
    pub fn replay(&self, journal: Journal, replay: Replay) {
        let shared = self.shared();
        shared.bans.restore(replay.bans, replay.newest);
        shared.bans.rewrite(&journal, &shared.clock);
        assert!(shared.bans.log.journal.set(Arc::new(journal)).is_ok(), "a cache has one journal");
    }

    /// What went wrong with the journal since this was asked last.
    pub fn journal_trouble(&self) -> Option<String> {
        self.shared().bans.log.take_trouble()
    }
}
