// SPDX-License-Identifier: BSD-2-Clause
//! Bans: invalidation by expression. The list, and testing one object against what is new on it.
//!
//! Bans and purges take numbers from one sequence. An objcore knows up to which number it has been tested; a busy one
//! starts at the number known when its fetch began, so that a ban which comes meanwhile counts. Each ban counts the
//! objects that stand at it (`refs`) and the fetches that began there (`pins`); what is older than all of them is gone.

mod kept;
mod lurker;
mod show;
mod spec;
mod spread;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::task::Waker;

use base::critical::Lock;
use base::{Clock, Mono, Real};
use storage::journal::{JournalPeer, JournalTicket};
use tables::counters::Main;

pub(crate) use self::kept::KeptBans;
pub use self::spec::{BAN_FIELDS, BanError, BanSpec};
pub(crate) use self::spec::{BanSubject, UnlistedObject, are_meant};
use self::spread::Spread;
pub use self::spread::{SpreadPlan, SpreadRow};
use crate::cache::{Cache, CacheShared};
use crate::journal::CacheJournal;
use crate::objcore::{NO_BAN, Objcore};
use crate::request::CacheRequest;

/// Bans taken off the list at a time while an object is tested.
const CHUNK: usize = 64;
/// Bans that an object is tested against before others get their turn.
const SLICE: usize = 512;

pub(crate) enum BanOutcome {
    Clean,
    Hit(Arc<Ban>),
    Unfinished,
    /// More bans than a lookup may test, up to that number.
    TooMany(u64),
}

pub(crate) struct Ban {
    pub seq: u64,
    pub real: Real,
    pub mono: Mono,
    pub spec: BanSpec,
    /// Moments given to matching objects, if they don't end at once.
    pub spread: Option<Arc<Spread>>,
    /// Every object that it could hit has been tested, or a newer ban says the same.
    pub is_completed: AtomicBool,
    /// Number of that newer ban; 0 when there is none.
    pub successor: AtomicU64,
}

impl Ban {
    pub fn new(seq: u64, (real, mono): (Real, Mono), spec: BanSpec) -> Ban {
        let spread = spec.spread.map(|plan| Arc::new(Spread::new(mono, plan)));
        Ban { seq, real, mono, spec, spread, is_completed: AtomicBool::new(false), successor: AtomicU64::new(0) }
    }

    pub fn is_completed(&self) -> bool {
        self.is_completed.load(Acquire)
    }

    /// True if the ban may mean the object of a dictionary.
    pub fn may_hit<S: BanSubject + CacheRequest>(&self, shared: &CacheShared, subject: &S) -> bool {
        self.spec.may_match(shared, self.mono, subject)
    }

    /// True if a request that came when `arrival_sequence` was the newest must still be tested against this ban.
    fn counts_for(&self, arrival_sequence: u64) -> bool {
        !self.is_completed() || self.successor.load(Relaxed) > arrival_sequence
    }
}

/// The bans that hit an object.
#[derive(Default)]
struct FoundBans {
    tests: u64,
    hit: Option<Arc<Ban>>,
    spreads: Vec<Arc<Spread>>,
}

pub(crate) struct Bans {
    /// Number of the newest invalidation of any kind.
    seq: AtomicU64,
    newest: AtomicU64,
    pub log: CacheJournal,
    inner: Lock<List>,
    lurker: Lock<lurker::Lurker>,
    /// Bans by which objects are still to become stale.
    spreads: Lock<Vec<Arc<Ban>>>,
    kick: Lock<Option<Waker>>,
    main: &'static Main,
}

/// Oldest first; never empty.
struct List {
    entries: VecDeque<BanListEntry>,
}

struct BanListEntry {
    ban: Arc<Ban>,
    refs: u64,
    pins: u64,
}

impl List {
    /// Index of the ban at which objects stand that have been tested up to `seq`.
    fn position(&self, seq: u64) -> usize {
        let after = self.entries.partition_point(|entry| entry.ban.seq <= seq);
        after.checked_sub(1).expect("a ban that something stands at is on the list")
    }

    fn at(&mut self, seq: u64) -> &mut BanListEntry {
        let at = self.position(seq);
        &mut self.entries[at]
    }

    fn newest(&self) -> &BanListEntry {
        self.entries.back().expect("the list is never empty")
    }
}

impl Bans {
    pub fn new(main: &'static Main, clock: &Clock) -> Self {
        let bans = Self {
            seq: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            log: CacheJournal::default(),
            inner: Lock::new(List { entries: VecDeque::new() }),
            lurker: Lock::default(),
            spreads: Lock::default(),
            kick: Lock::new(None),
            main,
        };
        // As in Varnish there is always one; the first is empty and done.
        bans.insert(BanSpec::default(), (clock.real(), clock.mono()), false);
        bans.complete(&bans.inner.lock().newest().ban);
        bans
    }

    /// Replaces a new list by that of another worker; for tests.
    #[cfg(test)]
    pub fn take_over(&self, other: &Bans) {
        let entries: VecDeque<_> = {
            let list = other.inner.lock();
            list.entries.iter().map(|entry| BanListEntry { ban: entry.ban.clone(), refs: 0, pins: 0 }).collect()
        };
        self.main.bans.set(entries.len() as u64);
        self.main.bans_completed.set(entries.iter().filter(|entry| entry.ban.is_completed()).count() as u64);
        self.seq.store(other.seq(), Relaxed);
        self.newest.store(other.newest.load(Relaxed), Relaxed);
        self.inner.lock().entries = entries;
    }

    pub fn seq(&self) -> u64 {
        self.seq.load(Acquire)
    }

    pub fn next_seq(&self) -> u64 {
        self.seq.fetch_add(1, Release) + 1
    }

    /// Adds a ban to the list that was made at `made`; with `dups` older ones that say the same are done. Not before [`Cache::unkept`]
    /// has ended is it sure to be kept.
    pub fn insert(&self, spec: BanSpec, made: (Real, Mono), dups: bool) -> Arc<Ban> {
        let is_for_lurker = !spec.has_req();
        let (ban, ticket) = {
            let mut list = self.inner.lock();
            let ban = Ban::new(self.next_seq(), made, spec);
            self.main.bans_added.inc();
            self.count(&ban);
            // Before the older ones are done: a reader of the journal must not find them done without the newer one.
            let ticket = self.log.append(|| kept::entry(&ban));
            for entry in list.entries.iter().filter(|entry| dups && !entry.ban.is_completed()) {
                if entry.ban.spec.says_the_same(&ban.spec) {
                    entry.ban.successor.store(ban.seq, Relaxed);
                    self.complete(&entry.ban);
                    self.main.bans_dups.inc();
                }
            }
            self.newest.store(ban.seq, Release);
            let ban = Arc::new(ban);
            list.entries.push_back(BanListEntry { ban: ban.clone(), refs: 0, pins: 0 });
            (ban, ticket)
        };
        self.log.commit(ticket);
        self.note_spread(&ban);
        if is_for_lurker {
            self.kick();
        }
        ban
    }

    /// Number of the oldest ban on the list.
    fn oldest(&self) -> u64 {
        self.inner.lock().entries[0].ban.seq
    }

    fn count(&self, ban: &Ban) {
        let main = self.main;
        main.bans.inc();
        main.bans_obj.add(u64::from(ban.spec.has_obj()));
        main.bans_req.add(u64::from(ban.spec.has_req()));
        main.bans_persisted_bytes.add(ban.spec.bytes());
    }

    fn kick(&self) {
        let waker = self.kick.lock().take();
        waker.into_iter().for_each(Waker::wake);
    }

    fn complete(&self, ban: &Ban) -> Option<JournalTicket> {
        let was_completed = ban.is_completed.swap(true, Release);
        if !was_completed {
            self.count_completed(ban);
        }
        self.log.append_if(!was_completed, || kept::completed(ban))
    }

    fn count_completed(&self, ban: &Ban) {
        self.main.bans_completed.inc();
        self.main.bans_persisted_fragmentation.add(ban.spec.bytes() - spec::HEAD_BYTES);
    }

    /// Drops the bans that are older than everything; stored copies have stood those up to `least_stored`.
    fn clean_tail(&self, least_stored: u64) {
        let mut gone = Vec::new();
        let mut list = self.inner.lock();
        let has_idle_tail = |bans: &List| {
            bans.entries.len() > 1
                && bans.entries[0].refs + bans.entries[0].pins == 0
                && bans.entries[1].ban.seq <= least_stored
        };
        while has_idle_tail(&list) {
            gone.extend(list.entries.pop_front().map(|entry| entry.ban));
        }
        let oldest = list.entries[0].ban.seq;
        let ticket = self.log.append_if(!gone.is_empty(), || kept::oldest(oldest));
        drop(list);
        self.log.commit(ticket);
        let main = self.main;
        for ban in gone {
            main.bans_deleted.inc();
            self.uncount(&ban);
            let kept = if ban.is_completed() { spec::HEAD_BYTES } else { ban.spec.bytes() };
            main.bans_persisted_fragmentation.add(kept);
        }
    }

    fn uncount(&self, ban: &Ban) {
        let main = self.main;
        main.bans.dec();
        main.bans_completed.sub(u64::from(ban.is_completed()));
        main.bans_obj.sub(u64::from(ban.spec.has_obj()));
        main.bans_req.sub(u64::from(ban.spec.has_req()));
    }

    /// Pins the newest ban for a fetch that begins.
    pub fn pin(&self, oc: &Objcore) {
        let mut list = self.inner.lock();
        let seq = self.seq();
        oc.ban_seq.set(seq);
        list.at(seq).pins += 1;
    }

    pub fn unpin(&self, oc: &Objcore) {
        let mut list = self.inner.lock();
        let seq = oc.ban_seq.replace(NO_BAN);
        let entry = list.at(seq);
        assert!(entry.pins > 0, "a fetch leaves the ban it began at");
        entry.pins -= 1;
    }

    pub fn attach(&self, oc: &Objcore) {
        if base::failpoint::fault("a ban that forgets a running fetch") {
            self.unpin(oc);
            self.pin(oc);
        }
        let mut list = self.inner.lock();
        let seq = oc.ban_seq.get();
        let entry = list.at(seq);
        assert!(entry.pins > 0, "a fetch leaves the ban it began at");
        entry.pins -= 1;
        entry.refs += 1;
    }

    /// From now on nothing leaves the list, and none of the bans on it is done: objects may come that stand anywhere on it.
    pub fn hold(&self) {
        self.inner.lock().entries[0].pins += 1;
    }

    /// Ends [`Bans::hold`], once all objects have been adopted.
    pub fn release(&self) {
        self.inner.lock().entries[0].pins -= 1;
        self.kick();
    }

    /// Puts an object on the list that a former worker tested up to `seq`. Returns `false` if the list doesn't reach
    /// back to `seq` or isn't as new, so that it is unknown which bans hit the object.
    pub fn adopt(&self, oc: &Objcore, seq: u64) -> bool {
        let mut list = self.inner.lock();
        if seq < list.entries[0].ban.seq || seq > self.seq() {
            return false;
        }
        oc.ban_seq.set(seq);
        list.at(seq).refs += 1;
        true
    }

    pub fn detach(&self, oc: &Objcore) {
        let mut list = self.inner.lock();
        let seq = oc.ban_seq.replace(NO_BAN);
        if seq != NO_BAN {
            list.at(seq).refs -= 1;
        }
    }

    /// The journal is a successor's from now on, as the objects' records are since the stores were frozen.
    pub fn hand_over(&self, successor: Box<dyn JournalPeer>) -> io::Result<()> {
        // A thread that was about to note in a record how far it was tested has done so.
        drop(self.inner.lock());
        self.log.hand_over(successor)
    }

    /// Notes that an object tested up to `from` has been tested up to `to`. Returns `false` when another thread was first.
    fn advance(&self, oc: &Objcore, from: u64, to: u64) -> bool {
        let mut list = self.inner.lock();
        if oc.ban_seq.get() != from {
            return false;
        }
        list.at(from).refs -= 1;
        list.at(to).refs += 1;
        oc.ban_seq.set(to);
        oc.note_ban_seq();
        true
    }

    /// True if there are bans up to number `arrival_sequence` that the object wasn't tested against.
    pub fn has_news(&self, oc: &Objcore, arrival_sequence: u64) -> bool {
        oc.ban_seq.get() < self.newest_for(arrival_sequence)
    }

    /// Number of the newest ban that counts for a request that came when `arrival_sequence` was the newest invalidation.
    pub fn newest_for(&self, arrival_sequence: u64) -> u64 {
        self.newest.load(Acquire).min(arrival_sequence)
    }

    /// Tests an object against bans up to number `arrival_sequence`, but at most as many as may be tested in one go:
    /// the oldest of them, and among those the newest first. Notes how far the object has been tested.
    pub fn check(
        &self,
        shared: &CacheShared,
        oc: &Arc<Objcore>,
        req: &dyn CacheRequest,
        arrival_sequence: u64,
    ) -> BanOutcome {
        let from = oc.ban_seq.get();
        let to = self.newest.load(Acquire).min(arrival_sequence);
        if from >= to {
            return BanOutcome::Clean;
        }
        let (count, slice_end) = self.measure(from, to);
        if count > self.main.bans_lookup_max.get() {
            self.main.bans_lookup_max.set(count);
        }
        let limit = shared.params.load().ban_lookup_limit;
        if limit > 0 && count > limit {
            self.main.bans_lookup_cutoff.inc();
            return BanOutcome::TooMany(to);
        }
        let found = self.find(shared, oc, req, from, slice_end.unwrap_or(to), arrival_sequence);
        self.main.bans_tested.inc();
        self.main.bans_tests_tested.add(found.tests);
        if let Some(ban) = found.hit {
            return BanOutcome::Hit(ban);
        }
        // Before it is noted: after a crash in between, the next worker does it again.
        found.spreads.iter().for_each(|spread| shared.turn_later(oc, spread));
        self.advance(oc, from, slice_end.unwrap_or(to));
        if slice_end.is_some() { BanOutcome::Unfinished } else { BanOutcome::Clean }
    }

    /// Number of bans in (`from`, `to`], and, if they are more than a slice, the number of the last ban of the first
    /// slice.
    fn measure(&self, from: u64, to: u64) -> (u64, Option<u64>) {
        let list = self.inner.lock();
        let at = |seq| list.entries.partition_point(|entry| entry.ban.seq <= seq);
        let (start, end) = (at(from), at(to));
        let slice_end = (end - start > SLICE).then(|| list.entries[start + SLICE - 1].ban.seq);
        ((end - start) as u64, slice_end)
    }

    /// The ban up to number `arrival_sequence` that hits the object, if there is one. Notes nothing.
    pub fn would_hit(
        &self,
        shared: &CacheShared,
        oc: &Objcore,
        req: &dyn CacheRequest,
        arrival_sequence: u64,
    ) -> Option<Arc<Ban>> {
        let to = self.newest.load(Acquire).min(arrival_sequence);
        self.find(shared, oc, req, oc.ban_seq.get(), to, arrival_sequence).hit
    }

    /// Looks for the newest ban in (`from`, `to`] that hits the object.
    fn find(
        &self,
        shared: &CacheShared,
        oc: &Objcore,
        req: &dyn CacheRequest,
        from: u64,
        to: u64,
        arrival_sequence: u64,
    ) -> FoundBans {
        let (mut below, mut found) = (to, FoundBans::default());
        loop {
            let chunk = self.chunk(from, below);
            let Some(last) = chunk.last() else { return found };
            below = last.seq - 1;
            for ban in chunk.iter().filter(|ban| ban.counts_for(arrival_sequence)) {
                match &ban.spread {
                    _ if !ban.spec.matches(shared, ban.mono, oc, Some(req), &mut found.tests) => {}
                    Some(spread) => found.spreads.push(spread.clone()),
                    None => return FoundBans { hit: Some(ban.clone()), ..found },
                }
            }
        }
    }

    /// Tests an object in no index that passed the bans up to `from`. Returns the number up to which it passed all
    /// invalidations when number `to` was the newest; `None` if a ban hits it, or it can't be judged. Stops at a ban
    /// that needs a request, or gives the object a moment.
    pub fn judge(&self, shared: &CacheShared, object: &UnlistedObject<'_>, from: u64, to: u64) -> Option<u64> {
        if from < self.oldest() {
            return None;
        }
        let (mut stood, mut below, mut tests) = (to, to, 0);
        loop {
            let chunk = self.chunk(from, below);
            let Some(last) = chunk.last() else { return Some(stood.max(from)) };
            below = last.seq - 1;
            for ban in chunk.iter().filter(|ban| !ban.is_completed()) {
                if ban.spec.has_req() {
                    stood = ban.seq - 1;
                } else if ban.spec.matches(shared, ban.mono, object, None, &mut tests) {
                    match &ban.spread {
                        Some(_) => stood = ban.seq - 1,
                        None => return None,
                    }
                }
            }
        }
    }

    /// True if one of the bans behind number `from` `hits`.
    pub fn any_since(&self, from: u64, hits: impl Fn(&Ban) -> bool) -> bool {
        let mut below = self.newest.load(Acquire);
        loop {
            let chunk = self.chunk(from, below);
            let Some(last) = chunk.last() else { return false };
            below = last.seq - 1;
            if chunk.iter().any(|ban| hits(ban)) {
                return true;
            }
        }
    }

    /// The newest bans in (`from`, `to`], newest first.
    fn chunk(&self, from: u64, to: u64) -> Vec<Arc<Ban>> {
        let list = self.inner.lock();
        let end = list.entries.partition_point(|entry| entry.ban.seq <= to);
        let newest_first = list.entries.range(..end).rev();
        newest_first.map(|entry| &entry.ban).take_while(|ban| ban.seq > from).take(CHUNK).cloned().collect()
    }
}

impl Cache {
    /// Adds a ban from the words of the CLI's `ban`.
    ///
    /// # Errors
    /// [`BanError`], whose text is varnishd's.
    pub fn ban_words(&self, words: &[&str]) -> Result<(), BanError> {
        self.ban(self.ban_of_words(words)?);
        Ok(())
    }

    /// Parses the words of the CLI's `ban`.
    ///
    /// # Errors
    /// Those of [`Cache::ban_words`].
    pub fn ban_of_words(&self, words: &[&str]) -> Result<BanSpec, BanError> {
        BanSpec::from_words(words, &*self.shared().regexes)
    }

    /// Parses the text of VCL's `ban()` or `std.ban()`.
    ///
    /// # Errors
    /// [`BanError`], whose text is varnishd's.
    pub fn ban_of_text(&self, text: &str) -> Result<BanSpec, BanError> {
        BanSpec::from_text(text, &*self.shared().regexes)
    }

    pub fn ban(&self, spec: BanSpec) {
        let clock = &self.shared().clock;
        self.add_ban(spec, (clock.real(), clock.mono()));
    }

    /// Adds a ban that was made elsewhere at that time, from which TTLs and ages count. Returns `false` if too many bans are
    /// being spread, so that the objects become stale at once: the ban can't be refused any more.
    pub fn ban_made_at(&self, mut spec: BanSpec, made: Real) -> bool {
        let shared = self.shared();
        let is_at_once = spec.is_spread() && shared.has_most_spreads();
        if is_at_once {
            spec.spread = Some(SpreadPlan::AT_ONCE);
        }
        // Clocks differ: none is made in the future.
        let mono = Mono(shared.clock.mono_of(made).0.min(shared.clock.mono().0));
        self.add_ban(spec, (shared.clock.real_of(mono), mono));
        !is_at_once
    }

    fn add_ban(&self, spec: BanSpec, made: (Real, Mono)) {
        let shared = self.shared();
        shared.former.tell(|| kept::told(&spec, made));
        let ban = shared.bans.insert(spec, made, shared.params.load().ban_dups);
        shared.dictionaries.ban(shared, &ban);
    }
}
