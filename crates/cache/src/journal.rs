// SPDX-License-Identifier: BSD-2-Clause
//! The journal of bans and purges, as the cache uses it: written by every invalidation, read once by a new worker.
//!
//! An invalidation is appended where its number is given, and committed before anybody is told of it: by its caller, or,
//! where that takes time, by a thread ([`Cache::write_journal`]) for whose work [`Cache::unkept`] waits. A purge is followed by an entry that says that it has reached all objects; one without, which nobody
//! has been told of, is carried out again by the next worker.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::Clock;
use base::lock::Mutex;
use storage::journal::{Ban, Entry, Journal, Life, TagPurge, Ticket, Unkept};

use crate::ban::KeptBans;
use crate::cache::Cache;
use crate::digest::Digest;
use crate::purge::Purge;

/// Between two looks at a journal that nobody writes to.
const LOOK: Duration = Duration::from_secs(1);

/// The journal, once the cache has one.
#[derive(Default)]
pub(crate) struct Log {
    journal: OnceLock<Arc<Journal>>,
    /// Purges that may not have reached all objects yet, by their numbers.
    open: Mutex<BTreeMap<u64, Entry>>,
    /// Whose journal it is, and whose it was.
    lives: Mutex<Lives>,
    /// What went wrong, until somebody asks.
    trouble: Mutex<Option<String>>,
    /// Somebody was told that the journal is incomplete.
    told: AtomicBool,
}

/// The numbers of a journal: a store that lasts has the one of the life in which it was opened last.
#[derive(Clone, Default)]
struct Lives {
    own: Life,
    /// Of earlier lives, at whose end not every store was known to have the next number.
    known: Vec<u64>,
    /// All stores have the present one.
    is_bound: bool,
}

impl Lives {
    /// The life that follows.
    fn next(mut self, next: Life) -> Lives {
        if self.own == Life::default() {
            // There was none.
            return Lives { own: next, ..self };
        }
        if !self.is_bound {
            // Some store may have this number and some an older one; the next life goes on with it.
            return Lives { own: Life { number: self.own.number, ..next }, ..self };
        }
        self.known = vec![self.own.number];
        Lives { own: next, known: self.known, is_bound: false }
    }

    /// All stores have the number.
    fn bind(&mut self) {
        self.known.clear();
        self.is_bound = true;
    }

    /// As a journal that is begun anew says it.
    fn entries(&self, clock: &Clock) -> Vec<Entry> {
        let known = self.known.iter().map(|&number| Entry::Known { number });
        let own = Entry::Life(Life { epoch: epoch(clock), ..self.own });
        known.chain([own]).chain(self.is_bound.then_some(Entry::Bound)).collect()
    }
}

/// When the machine's clock was 0: seconds since 1970.
fn epoch(clock: &Clock) -> f64 {
    clock.real().0 - clock.machine_of(clock.mono())
}

impl Log {
    /// Whose journal it is, for the one that is begun anew.
    pub fn lives(&self, clock: &Clock) -> Vec<Entry> {
        self.lives.lock().entries(clock)
    }

    /// Puts an entry behind the others. Without a journal `entry` isn't asked.
    pub fn append(&self, entry: impl FnOnce() -> Entry) -> Option<Ticket> {
        self.journal.get().map(|journal| journal.append(&entry()))
    }

    /// The same, if that is so.
    pub fn append_if(&self, so: bool, entry: impl FnOnce() -> Entry) -> Option<Ticket> {
        if so { self.append(entry) } else { None }
    }

    /// A purge of that number begins.
    pub fn begin(&self, seq: u64, entry: impl FnOnce() -> Entry) -> Option<Ticket> {
        let journal = self.journal.get()?;
        let entry = entry();
        let mut open = self.open.lock();
        let ticket = journal.append(&entry);
        open.insert(seq, entry);
        Some(ticket)
    }

    /// It has reached all objects.
    pub fn done(&self, seq: u64) -> Option<Ticket> {
        let journal = self.journal.get()?;
        let mut open = self.open.lock();
        open.remove(&seq);
        Some(journal.append(&Entry::Done { seq }))
    }

    /// No object of a former worker is to come any more, so that purges which waited for those are done.
    pub fn all_done(&self) {
        let open: Vec<u64> = self.with_open(|open| open.keys().copied().collect());
        let last = open.into_iter().filter_map(|seq| self.done(seq)).last();
        self.commit(last);
    }

    /// Has `look` see the purges that aren't done, while none begins and none is done.
    pub fn with_open<T>(&self, look: impl FnOnce(&BTreeMap<u64, Entry>) -> T) -> T {
        look(&self.open.lock())
    }

    /// Has what was appended be kept: when this returns, or soon, where that takes time ([`Cache::unkept`]).
    pub fn commit(&self, ticket: Option<Ticket>) {
        if let Some((journal, ticket)) = self.journal.get().zip(ticket) {
            self.note(journal.flush(ticket));
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
pub struct Replay {
    lives: Lives,
    bans: KeptBans,
    /// Newest number given.
    newest: u64,
    /// Purges that may not have reached all objects.
    open: BTreeMap<u64, Entry>,
}

impl Replay {
    /// Nothing, in a journal that begins with this life of a worker.
    pub fn nothing(life: Life) -> Replay {
        let lives = Lives { own: life, ..Lives::default() };
        Replay { lives, bans: KeptBans::default(), newest: 0, open: BTreeMap::new() }
    }

    /// The life of a worker with this number, drawn for it, on a machine started that often: see [`Life`].
    pub fn life(number: u64, boot: u64, clock: &Clock) -> Life {
        Life { number, boot, epoch: epoch(clock) }
    }

    /// Understands the entries; `None` if there is something that can't be: then no object of that worker may be served.
    pub fn read(entries: &[Entry], life: Life, clock: &Clock) -> Option<Replay> {
        let mut replay = Replay::nothing(Life::default());
        for entry in entries {
            replay.add(entry, &life, clock)?;
        }
        replay.lives = replay.lives.next(life);
        Some(replay)
    }

    /// The entry that says of a new life. It has to last before a store gets its number.
    pub fn beginning(&self) -> Entry {
        Entry::Life(self.lives.own)
    }

    /// The number that a store gets which is opened with this journal.
    pub fn number(&self) -> u64 {
        self.lives.own.number
    }

    /// The numbers of stores that this journal says all of: another one's objects may have been invalidated elsewhere.
    pub fn known(&self) -> Vec<u64> {
        self.lives.known.iter().copied().chain([self.lives.own.number]).collect()
    }

    /// The oldest ban: nobody knows what objects must stand that no newer one has been tested against.
    pub fn least_ban_seq(&self) -> u64 {
        self.bans.oldest()
    }

    fn add(&mut self, entry: &Entry, now: &Life, clock: &Clock) -> Option<()> {
        let then = self.lives.own;
        let translated = |seconds: f64| then.translate(seconds, now);
        let seq = match entry {
            Entry::Ban(ban) => {
                self.bans.add(&Ban { mono: translated(ban.mono), ..ban.clone() }, clock)?;
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
            Entry::Purge(purge) => {
                let purge = storage::journal::Purge { at: translated(purge.at), ..purge.clone() };
                self.open.insert(purge.seq, Entry::Purge(purge.clone()));
                purge.seq
            }
            Entry::TagPurge(purge) => {
                let purge = TagPurge { soft: purge.soft.map(translated), ..purge.clone() };
                self.open.insert(purge.seq, Entry::TagPurge(purge.clone()));
                purge.seq
            }
            Entry::Done { seq } => {
                self.open.remove(seq);
                *seq
            }
            Entry::Newest { seq } => *seq,
            Entry::Life(life) => {
                self.lives = std::mem::take(&mut self.lives).next(*life);
                return Some(());
            }
            Entry::Known { number } => {
                self.lives.known.push(*number);
                return Some(());
            }
            Entry::Bound => {
                self.lives.bind();
                return Some(());
            }
        };
        self.newest = self.newest.max(seq);
        Some(())
    }
}

impl Cache {
    /// Takes over what a former worker's journal says, and writes into the journal from now on. Before the first lookup, and
    /// before [`Cache::adopt_survivors`].
    pub fn replay(&self, journal: Journal, replay: Replay) {
        let shared = self.shared();
        let mut lives = replay.lives;
        if self.stores().homes().next().is_none() {
            lives.bind();
        }
        shared.bans.restore(replay.bans, replay.newest);
        for entry in replay.open.values() {
            if let Entry::TagPurge(purge) = entry {
                let soft = purge.soft.map(|at| shared.clock.mono_of_machine(at));
                self.hold_tag_purge(&purge.key, soft, purge.seq);
            }
        }
        *shared.bans.log.open.lock() = replay.open;
        *shared.bans.log.lives.lock() = lives;
        shared.bans.rewrite(&journal, &shared.clock);
        assert!(shared.bans.log.journal.set(Arc::new(journal)).is_ok(), "a cache has one journal");
    }

    /// Carries out again the purges that a former worker had begun, now that its objects can be found. Those by key wait
    /// until all have come; without any nothing is left to be done.
    pub(crate) fn redo_purges(&self, has_survivors: bool) {
        let shared = self.shared();
        let log = &shared.bans.log;
        if !has_survivors {
            log.all_done();
            return;
        }
        for entry in log.with_open(BTreeMap::clone).values() {
            if let Entry::Purge(purge) = entry {
                let lives = Purge { ttl: purge.ttl, grace: purge.grace, keep: purge.keep };
                self.purge(&Digest(purge.digest), shared.clock.mono_of_machine(purge.at), lives);
                log.commit(log.done(purge.seq));
            }
        }
    }

    /// What was invalidated and isn't kept yet, if there is any. Nobody is to be told that it is done before this ends.
    pub fn unkept(&self) -> Option<Unkept> {
        self.shared().bans.log.journal.get()?.unkept()
    }

    /// Writes the journal on this thread for as long as it is used; returns at once if there is none, or none that takes time.
    pub fn write_journal(&self) {
        let shared = self.shared();
        if let Some(journal) = shared.bans.log.journal.get().filter(|journal| journal.needs_thread()) {
            journal.work(LOOK, &mut || shared.bans.trim_journal(&shared.clock));
        }
    }

    /// Whether a thread has to do [`Cache::write_journal`].
    pub fn journal_needs_thread(&self) -> bool {
        self.shared().bans.log.journal.get().is_some_and(|journal| journal.needs_thread())
    }

    /// What went wrong with the journal since this was asked last.
    pub fn journal_trouble(&self) -> Option<String> {
        self.shared().bans.log.take_trouble()
    }
}

/// A purge of all variants of a digest.
pub(crate) fn purge(seq: u64, digest: &Digest, at: f64, lives: &Purge) -> Entry {
    let [ttl, grace, keep] = [lives.ttl, lives.grace, lives.keep].map(|life| life.map(finite));
    Entry::Purge(storage::journal::Purge { seq, digest: digest.0, at: finite(at), ttl, grace, keep })
}

/// A purge of all objects with a key.
pub(crate) fn tag_purge(seq: u64, key: &[u8], soft: Option<f64>) -> Entry {
    Entry::TagPurge(TagPurge { seq, key: key.to_vec(), soft: soft.map(finite) })
}

/// VCL can make any number of seconds; who reads a journal believes only those that can be.
fn finite(seconds: f64) -> f64 {
    if seconds.is_nan() { 0.0 } else { seconds.clamp(f64::MIN, f64::MAX) }
}
