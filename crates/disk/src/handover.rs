// SPDX-License-Identifier: BSD-2-Clause
//! A store that goes from one process to the next while both run, or whose former process may not have ended altogether.
//!
//! ```text
//! the present process                                its successor ([`Others::Present`])
//! hand_over: writes what is there, seals, and
//!   writes nothing more ───────────────────────────▶ take_over: reads what is there, serves from it
//! reads on, and checks what it reads                 allow_writing: binds the store to its journal, and stores
//!   ... no more ────────────────────────────────────▶ own: reclaims
//! take_back, before the other one may write: goes on as if nothing had been
//! ```
//!
//! After a process that has died ([`Others::Ended`]) there is [`Disk::allow_writing`] alone: what it has written at last may
//! still arrive. Until then the next one only reads, and what it makes of a segment that changes meanwhile is one of the
//! states that a power cut could have left.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::core::{Core, DiskLog};
use crate::disk::Disk;
use crate::options::{Bond, DiskStoreOptions, Others};

#[derive(Debug)]
pub(crate) struct FormerDisk {
    journal: Option<Bond>,
    least_ban_seq: u64,
}

#[derive(Debug)]
pub(crate) struct Tenure {
    /// Set once nobody else writes.
    past: OnceLock<FormerDisk>,
    may_write: AtomicBool,
    is_own: AtomicBool,
    is_handed_over: AtomicBool,
}

impl Tenure {
    pub fn new(options: &DiskStoreOptions) -> Tenure {
        let past = || FormerDisk { journal: options.journal.clone(), least_ban_seq: options.least_ban_seq };
        let is_present = options.others == Others::Present;
        Tenure {
            past: if is_present { OnceLock::new() } else { past().into() },
            may_write: AtomicBool::new(options.others == Others::Nobody),
            is_own: AtomicBool::new(!is_present),
            is_handed_over: AtomicBool::new(false),
        }
    }

    /// `None`: another process writes.
    pub fn past(&self) -> Option<&FormerDisk> {
        self.past.get()
    }
}

impl Disk {
    /// Writes what is there, seals it, and ends when nothing is written any more: another process may take over. Objects
    /// are found and read as before, and may turn out to be gone; what is put from now on isn't stored. Begins once all that
    /// was there can be found. Dropped before its end, it has to be followed by [`Disk::take_back`].
    pub async fn hand_over(&self) {
        let core = &self.core;
        // Recovery writes at its end.
        let is_open = || core.opened.get().is_some_and(Result::is_err) || core.log.lock().recovery.is_none();
        core.changed.wait_for(|| is_open().then_some(())).await;
        {
            let mut log = core.appending();
            log.flush();
            log.end_segment();
            log.is_handed_over = true;
            core.tenure.is_handed_over.store(true, Release);
        }
        core.changed.raise();
        let is_still = |log: &DiskLog| log.sealing.is_empty() && log.in_flight.is_empty() && !log.is_preparing;
        core.changed.wait_for(|| is_still(&core.log.lock()).then_some(())).await;
    }

    /// Goes on after [`Disk::hand_over`]: the other process is gone, and has written nothing.
    pub fn take_back(&self) {
        self.core.log.lock().is_handed_over = false;
        self.core.tenure.is_handed_over.store(false, Release);
        self.core.changed.raise();
    }

    /// Takes the store over from a process that has handed it over, with what the journal says, as in [`DiskStoreOptions`].
    pub fn take_over(&self, journal: Option<Bond>, least_ban_seq: u64) {
        let is_first = self.core.tenure.past.set(FormerDisk { journal, least_ban_seq }).is_ok();
        assert!(is_first, "a store is taken over once, from another process");
        self.core.changed.raise();
    }

    /// Nobody else writes any more, nor will.
    pub fn allow_writing(&self) {
        self.core.tenure.may_write.store(true, Release);
        self.core.changed.raise();
    }

    /// Nobody else reads any more.
    pub fn own(&self) {
        self.core.tenure.is_own.store(true, Release);
        self.core.changed.raise();
    }
}

impl Core {
    pub fn journal(&self) -> Option<&Bond> {
        self.tenure.past()?.journal.as_ref()
    }

    /// Records that were judged by no invalidation of this number or a later one aren't served.
    pub fn least_ban_seq(&self) -> u64 {
        self.tenure.past().map_or(0, |past| past.least_ban_seq)
    }

    pub async fn taken_over(&self) {
        self.changed.wait_for(|| self.tenure.past().map(drop)).await;
    }

    pub fn may_write(&self) -> bool {
        self.tenure.may_write.load(Acquire)
    }

    /// Ends when this process may write. False: it closes before.
    pub async fn writing_allowed(&self) -> bool {
        self.changed.wait_for(|| if self.may_write() { Some(true) } else { self.is_closing().then_some(false) }).await
    }

    pub fn is_own(&self) -> bool {
        self.tenure.is_own.load(Acquire)
    }

    /// True if another process may write over blocks that are read here.
    pub fn is_handed_over(&self) -> bool {
        self.tenure.is_handed_over.load(Acquire)
    }

    pub fn checks_bodies(&self) -> bool {
        self.options.checks_bodies || self.is_handed_over()
    }
}
