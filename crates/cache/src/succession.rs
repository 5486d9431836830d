// SPDX-License-Identifier: BSD-2-Clause
//! Two workers at an upgrade: the former one hands its objects and its journal over and still answers the connections that
//! it has; its successor adopts the objects.
//!
//! What holds:
//! * What is invalidated in one of the two is invalidated in the other one before it is acknowledged. Where the former one can't
//!   be told, its objects are recalled: it finds none from then on ([`Cache::is_recalled`]). Where the successor can't be told, the
//!   invalidation fails.
//! * The successor uses no memory again that the former one may read, until that has let go ([`Cache::let_go`]) or is gone.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use base::Mono;
use base::lock::Mutex;
use storage::Stores;
use storage::journal::{Entry, Peer};

use crate::ban::BanSpec;
use crate::cache::{Cache, Shared};
use crate::digest::Digest;
use crate::objcore::{Objcore, State};
use crate::purge::Purge;
use crate::tombstones::Cause;

/// Objects taken out of the index under one lock.
const STRETCH: usize = 256;

/// A former worker that may still serve what is in the stores.
pub(crate) struct Former {
    stores: Arc<Stores>,
    /// The former worker doesn't serve from the stores any more, or there is none.
    is_over: AtomicBool,
    peer: Mutex<Option<Box<dyn Peer>>>,
}

/// A successor, as the former worker sees it.
#[derive(Default)]
pub(crate) struct Successor {
    /// Returns true if the successor tells this worker nothing any more, or is gone.
    is_silent: Mutex<Option<Box<dyn Fn() -> bool + Send + Sync>>>,
    /// The successor has everything; it hears of no further invalidations here.
    is_alone: AtomicBool,
}

thread_local! {
    /// This thread carries out what the other worker has told: that one needn't be told of it.
    static IS_TOLD: Cell<bool> = const { Cell::new(false) };
}

/// True if the invalidations that this thread carries out come from the other worker.
pub(crate) fn is_told() -> bool {
    IS_TOLD.get()
}

impl Former {
    pub fn new(stores: Arc<Stores>) -> Former {
        Former { stores, is_over: AtomicBool::new(true), peer: Mutex::default() }
    }

    /// Before an invalidation is acknowledged: it counts there, too.
    pub fn tell(&self, entry: impl FnOnce() -> Entry) {
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
    /// The stores are about to be another worker's, as is the journal: what is invalidated here from now on `successor`
    /// carries out, too. Objects can be served until [`Cache::is_recalled`].
    ///
    /// # Errors
    /// The journal is incomplete: the other worker will not believe what it finds.
    pub fn hand_over(&self, successor: Box<dyn Peer>) -> io::Result<()> {
        self.stores().all().iter().for_each(|store| store.freeze());
        *self.shared().successor.is_silent.lock() = Some(successor.given_up());
        self.shared().bans.hand_over(successor)
    }

    /// True if the journal belongs to a successor.
    pub fn has_handed_over(&self) -> bool {
        self.shared().bans.log.is_handed_over()
    }

    /// True if a successor hears of invalidations made here.
    pub fn tells_successor(&self) -> bool {
        self.shared().bans.log.tells_successor()
    }

    /// True if nothing may be served from the index any more, since the successor's cache is ahead of it.
    pub fn is_recalled(&self) -> bool {
        let successor = &self.shared().successor;
        // Memory says so at once. What is in a home can be served as long as the successor tells what it invalidates.
        let is_untold =
            || self.stores().homes().next().is_some() && successor.is_silent.lock().as_ref().is_some_and(|is| is());
        successor.is_alone.load(Acquire) || self.stores().all().iter().any(|store| store.is_recalled()) || is_untold()
    }

    /// Empties the index and takes copies of what deliveries still read, after [`Cache::hand_over`]: from then on the
    /// successor may do with the stores what it likes. Takes a while.
    ///
    /// # Errors
    /// The system can't: nothing may change before this process is gone.
    pub fn let_go(&self) -> io::Result<()> {
        self.shared().successor.is_alone.store(true, Release);
        self.shared().shards.iter().for_each(|shard| while self.shared().empty(shard) {});
        self.stores().all().iter().try_for_each(|store| store.let_go())
    }

    /// Takes the place of a worker that has handed over, and still serves what it had; without a way to it, that is gone. Opens
    /// the stores' memory. Before the journal is replayed.
    pub fn take_over(&self, former: Option<Box<dyn Peer>>) {
        let lives = former.is_some();
        for store in self.stores().all() {
            store.take_over(lives);
        }
        *self.shared().former.peer.lock() = former;
        self.shared().former.is_over.store(!lives, Release);
    }

    /// The former worker shall serve nothing from the stores any more.
    pub fn recall(&self) {
        self.shared().former.recall();
    }

    /// The successor is gone before it began. Where nothing outlives this process, as its arenas are frozen, nothing is written
    /// down from now on; where there are homes the journal goes on.
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

    /// The former worker has let go, or is gone.
    pub fn own(&self) {
        self.shared().former.is_over.store(true, Release);
        self.stores().all().iter().for_each(|store| store.own());
    }

    /// Invalidates what the other worker does; false: that can't be understood.
    pub fn carry_out(&self, entries: &[u8]) -> bool {
        IS_TOLD.set(true);
        let entries = Entry::decode_all(entries);
        let is_done = entries.is_some_and(|entries| entries.iter().all(|entry| self.carry_out_one(entry)));
        IS_TOLD.set(false);
        is_done
    }

    fn carry_out_one(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Ban(ban) => match BanSpec::decode(&ban.spec) {
                Some(spec) => self.ban(spec),
                None => return false,
            },
            Entry::Purge(purge) => {
                let lives = Purge { ttl: purge.ttl, grace: purge.grace, keep: purge.keep };
                self.purge(&Digest(purge.digest), Mono(purge.at), lives);
            }
            Entry::TagPurge(purge) => {
                let now = purge.soft.map_or_else(|| self.shared().now(), Mono);
                let keys = std::iter::once(&purge.key[..]);
                let mut purge = self.purge_tags(keys, now, purge.soft.is_some());
                while purge.step().is_none() {}
            }
            // Of that worker's journal alone.
            Entry::Completed { .. }
            | Entry::Oldest { .. }
            | Entry::Newest { .. }
            | Entry::Done { .. }
            | Entry::Reached { .. }
            | Entry::KeysLost { .. }
            | Entry::Followed(_)
            | Entry::Life(_)
            | Entry::Known { .. }
            | Entry::Bound => {}
        }
        true
    }
}

impl Shared {
    /// Takes some objects of a shard out of the index; false: it has none.
    fn empty(&self, shard: &crate::cache::Shard) -> bool {
        let mut shard = shard.lock();
        let stored = |oc: &&Arc<Objcore>| oc.state() == State::Stored;
        let some: Vec<Arc<Objcore>> = shard.heads.all().filter(stored).take(STRETCH).cloned().collect();
        let dead: Vec<Arc<Objcore>> = some.iter().map(|oc| self.unlink(&mut shard, oc, Cause::Evicted)).collect();
        drop(shard);
        !dead.is_empty()
    }
}
