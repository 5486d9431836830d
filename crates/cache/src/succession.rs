// SPDX-License-Identifier: BSD-2-Clause
//! Two workers at an upgrade: the former one hands its objects and its journal over and still serves its connections;
//! its successor adopts the objects.
//!
//! Invariants:
//! * An invalidation in one of the two is carried out in the other before it is acknowledged. If the former worker
//!   can't be reached, its objects are recalled: it finds none from then on ([`Cache::is_recalled`]). If the successor
//!   can't be reached, the invalidation fails.
//! * The successor reuses no memory that the former worker may read, until that worker has released it
//!   ([`Cache::let_go`]) or has ended.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use base::lock::Mutex;
use base::{Mono, Real};
use storage::Stores;
use storage::journal::{JournalEntry, JournalPeer};

use crate::ban::BanSpec;
use crate::cache::{Cache, CacheShared};
use crate::digest::Digest;
use crate::objcore::{Objcore, ObjcoreStage};
use crate::purge::Purge;
use crate::tombstones::TombstoneCause;

/// Objects taken out of the index under one lock.
const STRETCH: usize = 256;

pub(crate) struct FormerWorker {
    stores: Arc<Stores>,
    /// The former worker doesn't serve from the stores any more, or there is none.
    is_over: AtomicBool,
    peer: Mutex<Option<Box<dyn JournalPeer>>>,
}

#[derive(Default)]
pub(crate) struct Successor {
    /// Returns true if the successor tells this worker nothing any more, or is gone.
    is_silent: Mutex<Option<Box<dyn Fn() -> bool + Send + Sync>>>,
    /// The successor has everything; it hears of no further invalidations here.
    is_alone: AtomicBool,
}

thread_local! {
    /// This thread carries out invalidations of the other worker, which needn't be sent back to it.
    static IS_TOLD: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn is_told() -> bool {
    IS_TOLD.get()
}

impl FormerWorker {
    pub fn new(stores: Arc<Stores>) -> FormerWorker {
        FormerWorker { stores, is_over: AtomicBool::new(true), peer: Mutex::default() }
    }

    /// Before an invalidation is acknowledged: it counts there, too.
    pub fn tell(&self, entry: impl FnOnce() -> JournalEntry) {
        if self.is_over.load(Acquire) || is_told() {
            return;
        }
        let mut bytes = Vec::new();
        entry().encode(&mut bytes);
        let mut peer = self.peer.lock();
        let is_done = peer.as_mut().is_some_and(|peer| peer.carry_out(&bytes).is_ok());
        if !is_done {
            // What it has in a home only this recalls.
            peer.iter_mut().for_each(|peer| peer.give_up());
            drop(peer);
            self.recall();
        }
    }

    /// Takes the stores from the former worker, which then serves nothing from them.
    pub fn recall(&self) {
        if !self.is_over.load(Acquire) {
            self.stores.all().iter().for_each(|store| store.recall());
            self.is_over.store(true, Release);
        }
    }
}

impl Cache {
    /// Prepares to hand the stores and the journal over to another worker: `successor` carries out all further
    /// invalidations, too. Objects can be served until [`Cache::is_recalled`].
    ///
    /// # Errors
    /// The journal is incomplete, so the other worker won't trust what it finds.
    pub fn hand_over(&self, successor: Box<dyn JournalPeer>) -> io::Result<()> {
        self.stores().all().iter().for_each(|store| store.freeze());
        *self.shared().successor.is_silent.lock() = Some(successor.given_up());
        self.shared().bans.hand_over(successor)
    }

    pub fn has_handed_over(&self) -> bool {
        self.shared().bans.log.is_handed_over()
    }

    pub fn tells_successor(&self) -> bool {
        self.shared().bans.log.tells_successor()
    }

    /// True if nothing may be served from the index any more, since the successor's cache is ahead of it.
    pub fn is_recalled(&self) -> bool {
        let successor = &self.shared().successor;
        // Memory is recalled at once. A home's objects can be served as long as the successor reports its invalidations.
        let is_untold =
            || self.stores().homes().next().is_some() && successor.is_silent.lock().as_ref().is_some_and(|is| is());
        successor.is_alone.load(Acquire) || self.stores().all().iter().any(|store| store.is_recalled()) || is_untold()
    }

    /// Empties the index and copies the bytes that deliveries still read, after [`Cache::hand_over`]. From then on the
    /// successor may do with the stores what it likes. Takes a while.
    ///
    /// # Errors
    /// The system can't do that: the stores must not change before this process has ended.
    pub fn let_go(&self) -> io::Result<()> {
        self.shared().successor.is_alone.store(true, Release);
        self.shared().shards.iter().for_each(|shard| while self.shared().empty(shard) {});
        self.stores().all().iter().try_for_each(|store| store.let_go())
    }

    /// Takes over from a worker that has handed over and still serves its objects, or, without a way to reach it, has
    /// ended. Opens the stores' memory. Call it before the journal is replayed.
    pub fn take_over(&self, former: Option<Box<dyn JournalPeer>>) {
        let lives = former.is_some();
        for store in self.stores().all() {
            store.take_over(lives);
        }
        *self.shared().former.peer.lock() = former;
        self.shared().former.is_over.store(!lives, Release);
    }

    pub fn recall(&self) {
        self.shared().former.recall();
    }

    /// Takes the stores back after the successor ended before it began. If frozen arenas mean that nothing outlives
    /// this process, nothing more is journaled; with homes the journal continues.
    pub fn take_back(&self) {
        *self.shared().successor.is_silent.lock() = None;
        let log = &self.shared().bans.log;
        if self.stores().homes().next().is_none() {
            return log.abandon();
        }
        if log.take_back() {
            self.shared().begin_journal_anew();
        }
    }

    pub fn own(&self) {
        self.shared().former.is_over.store(true, Release);
        self.stores().all().iter().for_each(|store| store.own());
    }

    /// Carries out the other worker's invalidations. Returns `false` if an entry is malformed.
    pub fn carry_out(&self, entries: &[u8]) -> bool {
        IS_TOLD.set(true);
        let entries = JournalEntry::decode_all(entries);
        let is_done = entries.is_some_and(|entries| entries.iter().all(|entry| self.carry_out_one(entry)));
        IS_TOLD.set(false);
        is_done
    }

    fn carry_out_one(&self, entry: &JournalEntry) -> bool {
        match entry {
            JournalEntry::Ban(ban) => match BanSpec::decode(&ban.spec) {
                // A worker of an earlier release doesn't say when.
                Some(spec) if ban.real == 0.0 => self.ban(spec),
                Some(spec) => _ = self.ban_made_at(spec, Real(ban.real)),
                None => return false,
            },
            JournalEntry::Purge(purge) => {
                let lives = Purge { ttl: purge.ttl, grace: purge.grace, keep: purge.keep };
                self.purge(&Digest(purge.digest), Mono(purge.at), lives);
            }
            JournalEntry::TagPurge(purge) => {
                let now = purge.soft.map_or_else(|| self.shared().now(), Mono);
                let keys = std::iter::once(&purge.key[..]);
                let mut purge = self.purge_tags(keys, now, purge.soft.is_some());
                while purge.step().is_none() {}
            }
            // Of that worker's journal alone.
            JournalEntry::Completed { .. }
            | JournalEntry::Oldest { .. }
            | JournalEntry::Newest { .. }
            | JournalEntry::Done { .. }
            | JournalEntry::Reached { .. }
            | JournalEntry::KeysLost { .. }
            | JournalEntry::Followed(_)
            | JournalEntry::Held(_)
            | JournalEntry::Life(_)
            | JournalEntry::Known { .. }
            | JournalEntry::Bound => {}
        }
        true
    }
}

impl CacheShared {
    /// Takes some objects of a shard out of the index; false: it has none.
    fn empty(&self, shard: &crate::cache::CacheShard) -> bool {
        let mut shard = shard.lock();
        let stored = |oc: &&Arc<Objcore>| oc.state() == ObjcoreStage::Stored;
        let some: Vec<Arc<Objcore>> = shard.heads.all().filter(stored).take(STRETCH).cloned().collect();
        let dead: Vec<Arc<Objcore>> =
            some.iter().map(|oc| self.unlink(&mut shard, oc, TombstoneCause::Evicted)).collect();
        drop(shard);
        !dead.is_empty()
    }
}
