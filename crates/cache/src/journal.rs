// SPDX-License-Identifier: BSD-2-Clause
//! The journal of bans and purges, as the cache uses it: written by every invalidation, read once by a new worker.
//!
//! An invalidation is appended where its number is given, and committed before it is acknowledged: by its caller, or,
//! if that takes time, by a thread ([`Cache::write_journal`]) for whose work [`Cache::unkept`] waits. When a purge has
//! reached all objects, a further entry says so. The next worker repeats a purge without that entry, which was never
//! acknowledged.
//!
//! A home removes purged objects, too, but not at once on stable storage, and it doesn't know keys. So with homes a
//! purge stays in the journal until all of them have it ([`Home::journal_needed_from`]), and a purge by key for as long
//! as a stored copy is old enough ([`crate::tags`]). The next worker repeats these purges to its homes before the first
//! lookup.
//!
//! [`Home::journal_needed_from`]: storage::Home::journal_needed_from

mod lives;
mod purges;
mod replay;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::lock::Mutex;
use base::{Clock, Mono};
use storage::journal::{
    Followed, Journal, JournalEntry, JournalFailure, JournalHeld, JournalPeer, JournalTagPurge, JournalTicket, Unkept,
};

use self::lives::Lives;
use self::purges::Purges;
pub use self::replay::Replay;
use crate::cache::{Cache, CacheShared};
use crate::digest::Digest;
use crate::purge::Purge;
use crate::succession;

/// Interval between looks at a journal that nobody writes to.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct CacheJournal {
    journal: OnceLock<Arc<Journal>>,
    purges: Mutex<Purges>,
    has_homes: AtomicBool,
    /// The numbers of the journal's present and earlier lives.
    lives: Mutex<Lives>,
    followed: Mutex<Option<Followed>>,
    held: Mutex<BTreeMap<String, JournalHeld>>,
    trouble: Mutex<Option<String>>,
    /// The last reported reason why the journal is incomplete.
    told: Mutex<Option<JournalFailure>>,
    /// The journal is a successor's ...
    is_handed_over: AtomicBool,
    /// ... which hears of all that is appended.
    tells_successor: Arc<AtomicBool>,
    /// Nothing is written any more, as nothing will be read.
    is_abandoned: AtomicBool,
}

/// A successor, until it can't be reached any more.
#[derive(Debug)]
struct Told {
    successor: Box<dyn JournalPeer>,
    is_told: Arc<AtomicBool>,
}

impl JournalPeer for Told {
    fn carry_out(&mut self, entries: &[u8]) -> io::Result<()> {
        // What it wasn't told of once it would never learn.
        if !self.is_told.load(Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.successor.carry_out(entries).inspect_err(|_| self.is_told.store(false, Relaxed))
    }
}

impl CacheJournal {
    pub fn lives(&self, clock: &Clock) -> Vec<JournalEntry> {
        self.lives.lock().entries(clock)
    }

    /// The followed position as an entry for a new journal. Call it before the old journal is cut.
    pub fn followed(&self) -> Option<JournalEntry> {
        self.followed.lock().clone().map(JournalEntry::Followed)
    }

    /// The held entries of the fleet's log for a new journal. Call it after the old journal is cut: what came before is
    /// among them.
    pub fn held(&self) -> Vec<JournalEntry> {
        self.held.lock().values().cloned().map(JournalEntry::Held).collect()
    }

    fn journal(&self) -> Option<&Arc<Journal>> {
        // What a successor tells that one keeps.
        let is_kept_elsewhere = || self.is_handed_over.load(Relaxed) && succession::is_told();
        self.journal.get().filter(|_| !self.is_abandoned.load(Relaxed) && !is_kept_elsewhere())
    }

    pub fn abandon(&self) {
        self.is_abandoned.store(true, Relaxed);
    }

    /// Puts an entry behind the others. Without a journal `entry` isn't asked.
    pub fn append(&self, entry: impl FnOnce() -> JournalEntry) -> Option<JournalTicket> {
        self.journal().map(|journal| journal.append(&entry()))
    }

    pub fn append_if(&self, so: bool, entry: impl FnOnce() -> JournalEntry) -> Option<JournalTicket> {
        if so { self.append(entry) } else { None }
    }

    /// A purge of that number begins.
    pub fn begin(&self, seq: u64, entry: impl FnOnce() -> JournalEntry) -> Option<JournalTicket> {
        let Some(journal) = self.journal() else {
            self.keep_told(seq, entry);
            return None;
        };
        let entry = entry();
        let mut purges = self.purges.lock();
        let ticket = journal.append(&entry);
        purges.begin(seq, entry);
        Some(ticket)
    }

    /// Keeps a purge that the successor has in its journal. If the successor ends soon, homes of this worker still need
    /// it.
    fn keep_told(&self, seq: u64, entry: impl FnOnce() -> JournalEntry) {
        if self.is_handed_over.load(Relaxed)
            && self.has_homes.load(Relaxed)
            && let JournalEntry::Purge(purge) = entry()
        {
            self.purges.lock().keep(seq, purge.digest);
        }
    }

    /// Marks a purge as done: it has reached all objects and the homes.
    pub fn done(&self, seq: u64) -> Option<JournalTicket> {
        let journal = self.journal()?;
        let mut purges = self.purges.lock();
        let purge = purges.end(seq);
        if !self.has_homes.load(Relaxed) {
            return Some(journal.append(&JournalEntry::Done { seq }));
        }
        if let Some(JournalEntry::Purge(purge)) = purge {
            purges.keep(seq, purge.digest);
        }
        Some(journal.append(&JournalEntry::Reached { seq }))
    }

    /// Marks all waiting purges as done, since no more objects of a former worker come.
    pub fn all_done(&self) {
        let open: Vec<u64> = self.with_purges(|purges| purges.open().keys().copied().collect());
        let last = open.into_iter().filter_map(|seq| self.done(seq)).last();
        self.commit(last);
    }

    /// Calls `look` with the purges that are still needed. None begins and none ends meanwhile.
    pub fn with_purges<T>(&self, look: impl FnOnce(&Purges) -> T) -> T {
        look(&self.purges.lock())
    }

    /// Makes the appended entry durable, either before this returns or soon after, if the medium is slow
    /// ([`Cache::unkept`]).
    pub fn commit(&self, ticket: Option<JournalTicket>) {
        if IS_GATHERING.get() {
            return;
        }
        if let Some((journal, ticket)) = self.journal().zip(ticket) {
            self.note(journal.flush(ticket));
        }
    }

    pub fn hand_over(&self, successor: Box<dyn JournalPeer>) -> io::Result<()> {
        let Some(journal) = self.journal() else { return Ok(()) };
        self.is_handed_over.store(true, Relaxed);
        self.tells_successor.store(true, Relaxed);
        journal.hand_over(Box::new(Told { successor, is_told: self.tells_successor.clone() }))
    }

    /// Writes the journal here again after the successor has ended. Returns `false` if there is no journal.
    pub fn take_back(&self) -> bool {
        let Some(journal) = self.journal.get() else { return false };
        self.is_handed_over.store(false, Relaxed);
        self.tells_successor.store(false, Relaxed);
        self.note(journal.take_back());
        true
    }

    pub fn is_handed_over(&self) -> bool {
        self.is_handed_over.load(Relaxed)
    }

    pub fn tells_successor(&self) -> bool {
        self.tells_successor.load(Relaxed)
    }

    pub fn note(&self, result: io::Result<()>) {
        if let Err(error) = result {
            *self.trouble.lock() = Some(error.to_string());
        }
    }

    fn take_trouble(&self) -> Option<String> {
        if let Some(error) = self.trouble.lock().take() {
            return Some(format!("the journal of bans and purges can't be written: {error}"));
        }
        let failure = self.journal()?.failure();
        let mut told = self.told.lock();
        if *told == failure {
            return None;
        }
        *told = failure.clone();
        let JournalFailure { reason, is_written } = failure?;
        Some(match is_written {
            true => {
                format!("the journal of bans and purges is incomplete: {reason}: no object will outlive this process")
            }
            false => format!("the journal of bans and purges can't be written: {reason}: what they hit may come back"),
        })
    }
}

thread_local! {
    /// Invalidations by this thread are committed later, all at once.
    static IS_GATHERING: Cell<bool> = const { Cell::new(false) };
}

/// A guard during whose life this thread commits nothing.
struct Gathering;

impl Gathering {
    fn begin() -> Gathering {
        IS_GATHERING.set(true);
        Gathering
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        IS_GATHERING.set(false);
    }
}

impl Cache {
    /// Runs `work`, and commits all its invalidations on this thread in one piece. So a slow medium is waited for once,
    /// by the thread that writes, and not for each entry. Acknowledge none of them meanwhile.
    pub fn invalidate_together<T>(&self, work: impl FnOnce() -> T) -> T {
        let gathering = Gathering::begin();
        let done = work();
        drop(gathering);
        let log = &self.shared().bans.log;
        log.commit(log.journal().map(|journal| journal.newest()));
        done
    }

    /// Takes over the contents of a former worker's journal, and writes into the journal from now on. Call it before
    /// the first lookup, and before [`Cache::adopt_survivors`].
    pub fn replay(&self, journal: Journal, replay: Replay) {
        let shared = self.shared();
        let has_homes = self.stores().homes().next().is_some();
        let mut lives = replay.lives.clone();
        if !has_homes {
            lives.bind();
        }
        let log = &shared.bans.log;
        log.has_homes.store(has_homes, Relaxed);
        shared.bans.restore(replay.bans, replay.newest);
        let hold = |purge: &JournalTagPurge| {
            let soft = purge.soft.map(Mono);
            self.hold_tag_purge(&purge.key, soft, purge.seq);
        };
        let open = replay.purges.open().values();
        open.for_each(|entry| {
            if let JournalEntry::TagPurge(purge) = entry {
                hold(purge)
            }
        });
        if has_homes {
            replay.keys.iter().for_each(hold);
            shared.tags.lose(replay.keys_lost);
            replay.purges.digests().for_each(|(seq, digest)| {
                shared.stores().homes().for_each(|home| _ = home.remove_all(digest, seq));
            });
            *log.purges.lock() = replay.purges;
        } else {
            *log.purges.lock() = replay.purges.without_homes();
        }
        *log.lives.lock() = lives;
        *log.followed.lock() = replay.followed;
        *log.held.lock() = replay.held;
        shared.rewrite_journal(&journal);
        assert!(log.journal.set(Arc::new(journal)).is_ok(), "a cache has one journal");
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
        for entry in log.with_purges(|purges| purges.open().clone()).values() {
            if let JournalEntry::Purge(purge) = entry {
                let lives = Purge { ttl: purge.ttl, grace: purge.grace, keep: purge.keep };
                self.purge(&Digest(purge.digest), Mono(purge.at), lives);
                log.commit(log.done(purge.seq));
            }
        }
    }

    /// Position in the log of a fleet up to which the stored objects are current; `None` if unknown.
    pub fn followed(&self) -> Option<Followed> {
        self.shared().bans.log.followed.lock().clone()
    }

    /// Notes the position in the fleet's log up to which everything is carried out, at which the next worker continues.
    /// Becomes durable after the earlier invalidations.
    pub fn set_followed(&self, place: Followed) {
        let log = &self.shared().bans.log;
        *log.followed.lock() = Some(place.clone());
        // A successor follows the log itself.
        if !log.is_handed_over() {
            log.commit(log.append(|| JournalEntry::Followed(place)));
        }
    }

    /// Entries of the fleet's log that a former worker held.
    pub fn held(&self) -> Vec<JournalHeld> {
        self.shared().bans.log.held.lock().values().cloned().collect()
    }

    /// Keeps an entry of the fleet's log, for the next worker, too. An entry without a text is forgotten.
    pub fn hold(&self, entry: JournalHeld) {
        let log = &self.shared().bans.log;
        hold(&mut log.held.lock(), entry.clone());
        // A successor follows the log itself.
        if !log.is_handed_over() {
            log.commit(log.append(|| JournalEntry::Held(entry)));
        }
    }

    /// Resolves when all invalidations so far are durable; `None` if they already are. Don't acknowledge an
    /// invalidation before it resolves.
    pub fn unkept(&self) -> Option<Unkept> {
        self.shared().bans.log.journal()?.unkept()
    }

    /// Writes the journal on this thread for as long as it is used; returns at once if there is none, or none that takes time.
    pub fn write_journal(&self) {
        let shared = self.shared();
        if let Some(journal) = shared.bans.log.journal.get().filter(|journal| journal.needs_thread()) {
            journal.work(LOOK, &mut || shared.tend_journal());
        }
    }

    /// True if a thread has to call [`Cache::write_journal`].
    pub fn journal_needs_thread(&self) -> bool {
        self.shared().bans.log.journal.get().is_some_and(|journal| journal.needs_thread())
    }

    /// The error of the journal since the last call.
    pub fn journal_trouble(&self) -> Option<String> {
        let shared = self.shared();
        shared.bans.log.take_trouble().inspect(|_| shared.main.journal_fail.inc())
    }
}

impl CacheShared {
    /// Drops entries that no home needs any more, and rewrites the journal if it has grown long. May take time.
    pub fn tend_journal(&self) {
        let log = &self.bans.log;
        let Some(journal) = log.journal.get() else { return };
        if log.has_homes.load(Relaxed) {
            self.ask_homes(journal);
        }
        if journal.is_oversized() {
            self.rewrite_journal(journal);
        }
    }

    pub fn begin_journal_anew(&self) {
        if let Some(journal) = self.bans.log.journal.get() {
            self.rewrite_journal(journal);
        }
    }

    fn ask_homes(&self, journal: &Journal) {
        let log = &self.bans.log;
        let homes = || self.stores().homes();
        if homes().all(|home| home.is_ready()) {
            let mut lives = log.lives.lock();
            if !lives.is_bound {
                lives.bind();
                log.note(journal.flush(journal.append(&JournalEntry::Bound)));
            }
        }
        let needed_from = homes().filter_map(|home| home.journal_needed_from()).min();
        let has_too_many = log.purges.lock().let_go(needed_from.unwrap_or(u64::MAX));
        if has_too_many {
            journal.renounce("homes haven't kept so many purges yet");
        }
    }

    /// Rewrites the journal with the entries needed now: the ban list, and the purges that are still needed.
    fn rewrite_journal(&self, journal: &Journal) {
        let (bans, log) = (&self.bans, &self.bans.log);
        let Some((cut, mut needed)) = bans.begin_anew(journal, &self.clock) else { return };
        // After the cut: a purge that came before it is held by now.
        if log.has_homes.load(Relaxed) {
            needed.extend(self.tags.held_entries());
        }
        log.note(cut.finish(&needed));
    }
}

fn hold(held: &mut BTreeMap<String, JournalHeld>, entry: JournalHeld) {
    match entry.bytes.is_empty() {
        true => drop(held.remove(&entry.id)),
        false => drop(held.insert(entry.id.clone(), entry)),
    }
}

pub(crate) fn purge(seq: u64, digest: &Digest, at: f64, lives: &Purge) -> JournalEntry {
    let [ttl, grace, keep] = [lives.ttl, lives.grace, lives.keep].map(|life| life.map(finite));
    JournalEntry::Purge(storage::journal::JournalPurge { seq, digest: digest.0, at: finite(at), ttl, grace, keep })
}

pub(crate) fn tag_purge(seq: u64, key: &[u8], soft: Option<f64>) -> JournalEntry {
    JournalEntry::TagPurge(JournalTagPurge { seq, key: key.to_vec(), soft: soft.map(finite) })
}

/// Clamps a number of seconds from VCL to finite values, the only ones that a reader of the journal accepts.
fn finite(seconds: f64) -> f64 {
    if seconds.is_nan() { 0.0 } else { seconds.clamp(f64::MIN, f64::MAX) }
}
