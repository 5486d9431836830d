// SPDX-License-Identifier: BSD-2-Clause
//! Tags: the keys of objects, and purging by key.
//!
//! A purge by key takes a number from the sequence of all invalidations and stays in a journal while a fetch runs that
//! began before it. The object of such a fetch is delivered to the requests that waited for it and no later ones (or,
//! after a soft purge, has no ttl). Off until [`Cache::enable_tags`]: objects stored before that aren't found by key.
//!
//! Purged objects are marked first, which is all that lookups need, and then taken out. So a purge of many objects
//! takes effect at once, and the remaining work can let other tasks run. The lock is a leaf, under the shard's.

mod index;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use base::Mono;
use base::critical::Lock;
use storage::ObjectTimes;
use storage::journal::JournalTicket;
use tables::counters::Xkey;

use self::index::Index;
use crate::ban::Bans;
use crate::busy::Busy;
use crate::cache::{Cache, CacheShared, ShardGuard};
use crate::digest::Digest;
use crate::journal;
use crate::objcore::{Objcore, ObjcoreStage};
use crate::objref::ObjRef;
use crate::purge::Purge;
use crate::tombstones::TombstoneCause;

/// Purges that the journal holds; a fetch that began before one which fell out counts as overtaken.
const JOURNAL: usize = 1024;
/// Most keys whose purges are held for survivors, and most prefixes of URLs. Every survivor is compared with each
/// prefix.
const HELD: usize = 1 << 16;
const HELD_PREFIXES: usize = 256;
/// Objects marked under one hold of the lock, and those taken out or softened in one step: some 25 microseconds' work.
const MARKS: usize = 256;
pub(crate) const STRIDE: usize = 32;
/// Steps in which a purge of a family takes members out itself; [`Cache::expire`] takes out the others.
const OWN_STEPS: usize = 8;
/// An object without any ttl is never found; this much is none to everybody else.
const NO_TTL: f64 = 1e-6;

#[derive(Default)]
pub(crate) struct Tags {
    is_on: AtomicBool,
    /// True once an object may have the tag of a family ([`Busy::join_family`]).
    has_families: AtomicBool,
    counters: OnceLock<&'static Xkey>,
    /// Most bytes that the index may take; 0: any number.
    space: AtomicU64,
    inner: Lock<Inner>,
    /// Hard purges whose objects are marked, and not all taken out yet.
    unfinished: Lock<Vec<Progress>>,
}

#[derive(Default)]
struct Inner {
    index: Index,
    /// Fetches in progress, by the number known when they began.
    running: BTreeMap<u64, usize>,
    /// Running fetches of members of families.
    families_running: usize,
    journal: VecDeque<TagEntry>,
    /// Number of the newest purge that fell out of the journal too early.
    lost: u64,
    /// Purges by key that count for objects that enter the index later: survivors of a former worker, stored copies.
    held: HashMap<Box<[u8]>, Held>,
    /// Held purges of URLs by prefix.
    held_prefixes: HashMap<Box<[u8]>, Held>,
    /// Set when there were more than [`HELD`] or [`HELD_PREFIXES`]: every later object with a key that was fetched
    /// before this number counts as purged.
    lost_held: u64,
}

/// A fetch that purges by key may overtake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TagFetch {
    pub began: u64,
    of_family: bool,
}

#[derive(Default)]
struct Held {
    /// Number of the newest hard one; 0: none.
    hard: u64,
    /// Number of the newest soft one, and the moment of the oldest.
    soft: Option<(u64, Mono)>,
}

/// A purge by key that is held for a survivor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum HeldPurge {
    No,
    /// The purge takes the ttl, from that moment on.
    Soft(Mono),
    Hard,
}

struct TagEntry {
    seq: u64,
    key: Arc<[u8]>,
    /// When, if it was a soft one.
    soft: Option<Mono>,
    /// The objcore that the purging transaction itself fetches, by its address: while that is in use no other fetch that began
    /// before this entry has it.
    own: Option<usize>,
}

/// Purges of an object's keys that came while it was fetched.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct KeyInvalidation {
    /// Number of the first hard purge.
    pub hard: Option<u64>,
    /// Number and moment of the last soft one.
    pub soft: Option<(u64, Mono)>,
}

impl KeyInvalidation {
    /// Notes it on the objcore, which is busy still.
    pub fn apply(&self, oc: &Objcore) {
        if let Some((_, at)) = self.soft {
            oc.set_times(softened(oc.times(), at));
        }
        if let Some(seq) = self.hard {
            oc.overtake(seq);
        }
    }
}

impl Held {
    /// Number of the newest of them.
    fn newest(&self) -> u64 {
        self.hard.max(self.soft.map_or(0, |(seq, _)| seq))
    }
}

impl Tags {
    pub fn with_space(bytes: u64) -> Tags {
        Tags { space: AtomicU64::new(bytes), ..Tags::default() }
    }

    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    fn turn_on(&self, counters: &'static Xkey) {
        self.counters.get_or_init(|| counters);
        self.is_on.store(true, Relaxed);
        // Survivors may have come before.
        self.count(&self.inner.lock());
    }

    /// True if an object may be in the index.
    fn has_any(&self) -> bool {
        self.is_on() || self.has_families.load(Acquire)
    }

    /// True if an object in the index, or one that is being fetched, may have that tag of a family.
    fn may_have_family(&self, tag: &[u8]) -> bool {
        self.has_families.load(Acquire) && {
            let inner = self.inner.lock();
            inner.families_running > 0 || inner.index.has(tag)
        }
    }

    /// A fetch begins, which must end with [`Tags::end`] or [`Tags::attach`].
    pub fn begin(&self, bans: &Bans) -> Option<TagFetch> {
        self.is_on().then(|| self.inner.lock().begin(bans))
    }

    /// A fetch of a member of a family begins; `fetch` if it has begun before, as one without a family.
    pub fn begin_in_family(&self, fetch: Option<TagFetch>, bans: &Bans) -> TagFetch {
        self.has_families.store(true, Release);
        let mut inner = self.inner.lock();
        let fetch = fetch.unwrap_or_else(|| inner.begin(bans));
        inner.families_running += usize::from(!fetch.of_family);
        TagFetch { of_family: true, ..fetch }
    }

    pub fn end(&self, fetch: Option<TagFetch>) {
        if let Some(fetch) = fetch {
            self.inner.lock().end(fetch);
        }
    }

    pub fn attach(
        &self,
        oc: &Arc<Objcore>,
        keys: &[Box<[u8]>],
        fetch: Option<TagFetch>,
        bans: &Bans,
    ) -> KeyInvalidation {
        if fetch.is_none() && keys.is_empty() {
            return KeyInvalidation::default();
        }
        let mut inner = self.inner.lock();
        let own = Arc::as_ptr(oc) as usize;
        let mut found = fetch.map_or_else(KeyInvalidation::default, |fetch| inner.overtaken(keys, fetch.began, own));
        if !self.list(&mut inner, oc, keys) {
            // No purge would find it: it answers those that wait for it, as if it were purged now.
            found.hard = found.hard.or_else(|| Some(bans.next_seq()));
        }
        if let Some(fetch) = fetch {
            inner.end(fetch);
        }
        found
    }

    /// Lists a survivor with these keys whose fetch began at number `began`, and returns the purge held for it. After a
    /// hard purge it isn't listed.
    pub fn adopt(&self, oc: &Arc<Objcore>, keys: &[Box<[u8]>], began: u64) -> HeldPurge {
        if keys.is_empty() {
            return HeldPurge::No;
        }
        let mut inner = self.inner.lock();
        let held = inner.held_for(keys, began);
        let of_families = keys.iter().filter(|key| message::tags::is_of_family(key)).count();
        if of_families < keys.len() {
            // The parameter or VCL that keeps tags may come later.
            self.is_on.store(true, Relaxed);
        }
        if of_families > 0 {
            self.has_families.store(true, Release);
        }
        if held != HeldPurge::Hard && !self.list(&mut inner, oc, keys) {
            return HeldPurge::Hard;
        }
        held
    }

    /// Puts an object into the index, if there is room: else it has to go.
    fn list(&self, inner: &mut Inner, oc: &Arc<Objcore>, keys: &[Box<[u8]>]) -> bool {
        if keys.is_empty() {
            return true;
        }
        let space = self.space.load(Relaxed);
        let has_room = space == 0 || (inner.index.footprint().all() as u64) < space;
        if has_room {
            inner.index.insert(oc, keys);
            self.count(inner);
        } else if let Some(counters) = self.counters.get() {
            counters.refused.inc();
        }
        has_room
    }

    pub fn set_space(&self, bytes: u64) {
        self.space.store(bytes, Relaxed);
    }

    /// A purge counts for the survivors that are still to come, too.
    pub fn hold(&self, key: &[u8], soft: Option<Mono>, seq: u64) {
        self.inner.lock().hold(key, soft, seq, || 0);
    }

    /// A former worker has lost purges up to that number; 0: none.
    pub fn lose(&self, seq: u64) {
        let mut inner = self.inner.lock();
        inner.lost_held = inner.lost_held.max(seq);
    }

    pub fn held_entries(&self) -> Vec<storage::journal::JournalEntry> {
        let inner = self.inner.lock();
        let mut entries = Vec::new();
        for (key, held) in inner.held.iter().chain(&inner.held_prefixes) {
            let hard = (held.hard > 0).then_some((held.hard, None));
            let soft = held.soft.map(|(seq, at)| (seq, Some(at.0)));
            for (seq, softened_at) in hard.into_iter().chain(soft) {
                entries.extend([
                    journal::tag_purge(seq, key, softened_at),
                    storage::journal::JournalEntry::Reached { seq },
                ]);
            }
        }
        if inner.lost_held > 0 {
            entries.push(storage::journal::JournalEntry::KeysLost { seq: inner.lost_held });
        }
        entries
    }

    /// Drops held purges when there are no survivors any more and purges up to that number concern no stored copy.
    pub fn release(&self, least_stored: u64) {
        let mut inner = self.inner.lock();
        if inner.lost_held <= least_stored {
            inner.lost_held = 0;
        }
        inner.held.retain(|_, held| held.newest() > least_stored);
        inner.held_prefixes.retain(|_, held| held.newest() > least_stored);
    }

    /// True if a purge is held for an object with these keys whose fetch began at number `began`.
    pub fn is_held(&self, keys: &[Box<[u8]>], began: u64) -> bool {
        !keys.is_empty() && self.inner.lock().held_for(keys, began) != HeldPurge::No
    }

    pub fn detach(&self, oc: &Objcore) {
        if self.has_any() {
            let mut inner = self.inner.lock();
            if inner.index.remove(std::ptr::from_ref(oc) as usize) {
                self.count(&inner);
            }
        }
    }

    pub fn keys_of(&self, oc: &Objcore) -> Vec<Box<[u8]>> {
        if !self.has_any() {
            return Vec::new();
        }
        self.inner.lock().index.names(std::ptr::from_ref(oc) as usize).map(Box::from).collect()
    }

    /// True if a purge by one of these keys means the object.
    pub fn has_one(&self, oc: &Objcore, keys: &[Box<[u8]>]) -> bool {
        let is_meant = |tag: &[u8]| keys.iter().any(|key| message::tags::covers(key, tag));
        self.has_any() && self.inner.lock().index.names(std::ptr::from_ref(oc) as usize).any(is_meant)
    }

    fn count(&self, inner: &Inner) {
        let Some(counters) = self.counters.get() else { return };
        let bytes = inner.index.footprint();
        counters.g_keys.set(inner.index.tags() as u64);
        counters.g_references.set(inner.index.references() as u64);
        counters.g_hashhead_bytes.set(bytes.tags as u64);
        counters.g_oc_bytes.set(bytes.objects as u64);
        counters.g_ochead_bytes.set(bytes.references as u64);
        counters.g_bytes.set(bytes.all() as u64);
    }

    fn enter(
        &self,
        shared: &CacheShared,
        key: &[u8],
        soft: Option<Mono>,
        own: Option<usize>,
    ) -> (u64, Option<JournalTicket>) {
        let mut inner = self.inner.lock();
        let seq = shared.bans.next_seq();
        let moment = soft.map(|at| at.0);
        let ticket = shared.bans.log.begin(seq, || journal::tag_purge(seq, key, moment));
        // No home has objects of families.
        let may_be_in_home = !shared.homes.is_empty() && !message::tags::is_of_family(key);
        if shared.adoption.is_on() || may_be_in_home {
            inner.hold(key, soft, seq, || shared.least_stored_of_homes());
        }
        inner.trim();
        if !inner.running.is_empty() {
            inner.journal.push_back(TagEntry { seq, key: key.into(), soft, own });
        }
        if inner.journal.len() > JOURNAL {
            inner.lost = inner.journal.pop_front().map_or(0, |entry| entry.seq);
        }
        (seq, ticket)
    }

    /// Up to [`STRIDE`] objects with that key below place `end`, and where to go on.
    fn some(&self, key: &[u8], end: usize) -> (Vec<Arc<Objcore>>, usize) {
        let mut objects = Vec::with_capacity(STRIDE);
        let begin = self.inner.lock().index.visit(key, end, STRIDE, |oc| objects.push(oc));
        (objects, begin)
    }

    /// Calls `look` for the objects of up to [`MARKS`] tags of URLs below place `end`, under the lock, and returns the
    /// place at which to continue.
    pub fn visit_urls(&self, end: usize, look: impl FnMut(&[u8], Arc<Objcore>)) -> usize {
        self.inner.lock().index.visit_urls(end, MARKS, look)
    }

    /// Marks up to [`MARKS`] objects with that key below place `end` as hit by an invalidation of that number: no later request
    /// finds them. How many weren't before, and where to go on.
    fn mark(&self, key: &[u8], end: usize, seq: u64) -> (usize, usize) {
        // The handles are dropped after the unlock, as each may be the last one.
        let (mut count, mut seen) = (0, Vec::new());
        let mark = |oc: Arc<Objcore>| {
            count += usize::from(oc.state() != ObjcoreStage::Dying && oc.overtake(seq));
            seen.push(oc);
        };
        let begin = self.inner.lock().index.visit(key, end, MARKS, mark);
        (count, begin)
    }
}

impl Inner {
    fn begin(&mut self, bans: &Bans) -> TagFetch {
        let began = bans.seq();
        *self.running.entry(began).or_default() += 1;
        TagFetch { began, of_family: false }
    }

    fn end(&mut self, fetch: TagFetch) {
        self.families_running -= usize::from(fetch.of_family);
        let began = fetch.began;
        if let Some(count) = self.running.get_mut(&began) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(&began);
                self.trim();
            }
        }
    }

    /// Drops the purges that no fetch in progress began before.
    fn trim(&mut self) {
        let oldest = self.running.keys().next().copied().unwrap_or(u64::MAX);
        while self.journal.front().is_some_and(|entry| entry.seq <= oldest) {
            self.journal.pop_front();
        }
    }

    fn hold(&mut self, key: &[u8], soft: Option<Mono>, seq: u64, least_stored: impl Fn() -> u64) {
        let (all, most) = match message::tags::prefix(key) {
            None => (&mut self.held, HELD),
            Some(_) => (&mut self.held_prefixes, HELD_PREFIXES),
        };
        if all.len() >= most && !all.contains_key(key) {
            let least_stored = least_stored();
            all.retain(|_, held| held.newest() > least_stored);
            if all.len() >= most {
                self.lost_held = seq;
                return;
            }
        }
        let held = all.entry(key.into()).or_default();
        match soft {
            None => held.hard = held.hard.max(seq),
            Some(at) => {
                let (newest, oldest) = held.soft.unwrap_or((seq, at));
                held.soft = Some((newest.max(seq), if oldest.0 < at.0 { oldest } else { at }));
            }
        }
    }

    fn held_for(&self, keys: &[Box<[u8]>], began: u64) -> HeldPurge {
        let is_meant = |purge: &[u8]| keys.iter().any(|key| message::tags::covers(purge, key));
        let by_prefix = || self.held_prefixes.iter().filter(|(purge, _)| is_meant(purge)).map(|(_, held)| held);
        let held = || keys.iter().filter_map(|key| self.held.get(key)).chain(by_prefix());
        if began < self.lost_held || held().any(|held| held.hard > began) {
            return HeldPurge::Hard;
        }
        let moments = held().filter_map(|held| held.soft.filter(|(seq, _)| *seq > began)).map(|(_, at)| at);
        moments.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(HeldPurge::No, HeldPurge::Soft)
    }

    fn overtaken(&self, keys: &[Box<[u8]>], began: u64, own: usize) -> KeyInvalidation {
        let mut found = KeyInvalidation::default();
        if began < self.lost {
            found.hard = Some(self.lost);
        }
        let from = self.journal.partition_point(|entry| entry.seq <= began);
        let is_meant = |entry: &TagEntry| keys.iter().any(|key| message::tags::covers(&entry.key, key));
        let counts = |entry: &&TagEntry| entry.own != Some(own) && is_meant(entry);
        for entry in self.journal.range(from..).filter(counts) {
            match entry.soft {
                Some(at) => found.soft = Some((entry.seq, at)),
                None => found.hard = found.hard.or(Some(entry.seq)),
            }
        }
        found
    }
}

/// A purge by keys in progress. It works in steps, so that a key with a million objects doesn't block a thread.
pub struct TagPurge {
    cache: Cache,
    keys: VecDeque<Box<[u8]>>,
    is_soft: bool,
    now: Mono,
    own: Option<usize>,
    at: Option<Progress>,
    last: Option<JournalTicket>,
    count: usize,
}

struct Progress {
    key: Box<[u8]>,
    seq: u64,
    stage: Stage,
    /// The place that was come to.
    end: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// All objects are marked, by a hard purge.
    Mark,
    /// The marked objects are taken out.
    TakeOut,
    /// All objects lose their ttl, by a soft purge.
    Soften,
}

impl TagPurge {
    /// Makes this a purge by a transaction that fetches: its new object is newer than the purge, and stays.
    #[must_use]
    pub fn by(self, own: Option<&Busy>) -> TagPurge {
        TagPurge { own: own.map(Busy::address), ..self }
    }

    /// Purges some more; how many objects it reached in all, once it is done.
    pub fn step(&mut self) -> Option<usize> {
        let shared = self.cache.shared().clone();
        let Some(mut at) = self.at.take().or_else(|| self.begin(&shared)) else { return Some(self.count) };
        self.work_on(&shared, &mut at);
        let is_over = match at.stage {
            Stage::Mark if at.end == 0 => {
                (at.stage, at.end) = (Stage::TakeOut, usize::MAX);
                false
            }
            Stage::Mark => false,
            Stage::TakeOut | Stage::Soften => at.end == 0,
        };
        if !is_over {
            self.at = Some(at);
            return None;
        }
        // Again: an object whose tags were read before is marked now.
        shared.dictionaries.purge_key(&at.key);
        let log = &shared.bans.log;
        // Survivors that are still to come bear keys, too.
        if !shared.adoption.is_on() {
            self.last = log.done(at.seq);
        }
        if !self.keys.is_empty() {
            return None;
        }
        log.commit(self.last);
        Some(self.count)
    }

    /// Leaves objects that are marked to [`Cache::take_out_some`]. Returns the number of those that the purge reached.
    fn leave_rest(self) -> usize {
        let shared = self.cache.shared();
        if let Some(at) = self.at {
            // An object whose tags were read before is marked now.
            shared.dictionaries.purge_key(&at.key);
            // The journal has it as open, in case that the worker ends before.
            shared.bans.log.commit(self.last);
            shared.tags.unfinished.lock().push(at);
            shared.alarm.take().into_iter().for_each(Waker::wake);
        }
        self.count
    }

    /// Begins with the next key: from then on the purge counts for fetches in progress.
    fn begin(&mut self, shared: &CacheShared) -> Option<Progress> {
        let key = self.keys.pop_front()?;
        let soft = self.is_soft.then_some(self.now.0);
        shared.former.tell(|| journal::tag_purge(0, &key, soft));
        let (seq, ticket) = shared.tags.enter(shared, &key, self.is_soft.then_some(self.now), self.own);
        self.last = ticket;
        shared.dictionaries.purge_key(&key);
        let stage = if self.is_soft { Stage::Soften } else { Stage::Mark };
        Some(Progress { key, seq, stage, end: usize::MAX })
    }

    fn work_on(&mut self, shared: &CacheShared, at: &mut Progress) {
        if at.stage == Stage::Mark {
            let (marked, end) = shared.tags.mark(&at.key, at.end, at.seq);
            (self.count, at.end) = (self.count + marked, end);
            return;
        }
        let (objects, end) = shared.tags.some(&at.key, at.end);
        at.end = end;
        if at.stage == Stage::Soften {
            self.count += objects.iter().filter(|oc| shared.soften(oc, self.now)).count();
            return;
        }
        for oc in objects.iter().filter(|oc| oc.is_overtaken()) {
            shared.invalidate(oc, at.seq, TombstoneCause::Purged);
        }
    }
}

impl Cache {
    /// Keeps keys from now on ([`crate::Busy::set_tags`]) and shows how many there are in `counters`.
    pub fn enable_tags(&self, counters: &'static Xkey) {
        self.shared().tags.turn_on(counters);
    }

    pub fn counts_tags(&self) -> bool {
        self.shared().tags.counters.get().is_some()
    }

    /// True if keys are kept. Otherwise a fetch needn't look for them.
    pub fn keeps_tags(&self) -> bool {
        self.shared().tags.is_on()
    }

    /// Purges the family of a digest and returns the number of its objects. The journal must have the purge of the digest
    /// as begun. A purge that leaves some ttl takes all of it. No lookup finds a purged one from the return on. Therefore
    /// all members are marked here, [`MARKS`] in some 25 microseconds, or softened, [`STRIDE`] in that time.
    pub(crate) fn purge_family(&self, digest: &Digest, now: Mono, purge: &Purge) -> usize {
        let shared = self.shared();
        let tag = message::tags::of_family(&digest.0);
        if purge.ttl.is_none() || !(shared.adoption.is_on() || shared.tags.may_have_family(&tag)) {
            return 0;
        }
        let mut purge = self.purge_tags(std::iter::once(&tag[..]), now, !purge.is_hard());
        let mut left = OWN_STEPS;
        loop {
            if purge.at.as_ref().is_some_and(|at| at.stage == Stage::TakeOut) {
                if left == 0 {
                    return purge.leave_rest();
                }
                left -= 1;
            }
            if let Some(count) = purge.step() {
                return count;
            }
        }
    }

    /// Takes some objects out whose purge has left them marked. False if there are none.
    pub(crate) fn take_out_some(&self) -> bool {
        let Some(at) = self.shared().tags.unfinished.lock().pop() else { return false };
        let mut purge = self.purge_tags(std::iter::empty(), self.shared().now(), false);
        purge.at = Some(at);
        if purge.step().is_none() {
            purge.leave_rest();
        }
        true
    }

    pub fn tags_of(&self, obj: &ObjRef) -> Vec<Box<[u8]>> {
        self.shared().tags.keys_of(obj.objcore())
    }

    /// A purge of all objects with any of these keys, to be carried out by [`TagPurge::step`]; a soft one takes their ttl
    /// only, and counts those that had some left.
    pub fn purge_tags<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, now: Mono, is_soft: bool) -> TagPurge {
        TagPurge {
            cache: self.clone(),
            keys: keys.map(Box::from).collect(),
            is_soft,
            now,
            own: None,
            at: None,
            last: None,
            count: 0,
        }
    }
}

/// Keys as a record has them: the number at which the fetch began, then each key with its length before it.
pub(crate) fn encoded<'k>(began: u64, keys: impl Iterator<Item = &'k [u8]> + Clone) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + keys.clone().map(|key| key.len() + 4).sum::<usize>());
    out.extend_from_slice(&began.to_le_bytes());
    for key in keys {
        let len = u32::try_from(key.len()).expect("a key is a part of a head");
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(key);
    }
    out
}

/// Decodes the result of [`encoded`]. An empty one is an object without keys; `None` if it is malformed.
pub(crate) fn decoded(bytes: &[u8]) -> Option<(u64, Vec<Box<[u8]>>)> {
    let mut keys = Vec::new();
    if bytes.is_empty() {
        return Some((0, keys));
    }
    let (began, mut bytes) = bytes.split_first_chunk()?;
    while let Some((len, rest)) = bytes.split_first_chunk() {
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        keys.push(key.into());
        bytes = rest;
    }
    bytes.is_empty().then_some((u64::from_le_bytes(*began), keys))
}

/// Fresh until `now` and no longer; grace and keep as they were. One that is younger than the purge was never fresh.
pub(crate) fn softened(times: ObjectTimes, now: Mono) -> ObjectTimes {
    let ttl = now.since(times.t_origin);
    if ttl > 0.0 {
        return ObjectTimes { ttl, ..times };
    }
    ObjectTimes { t_origin: times.t_origin.plus(-NO_TTL), ttl: NO_TTL, ..times }
}

impl CacheShared {
    /// Takes the ttl of a stored object that has some left; whether it had.
    fn soften(&self, oc: &Arc<Objcore>, now: Mono) -> bool {
        let dead = {
            let mut shard = self.shard(&oc.digest()).lock();
            if oc.state() != ObjcoreStage::Stored || oc.times().fresh_until(None).0 <= now.0 {
                return false;
            }
            self.shorten(&mut shard, oc, now)
        };
        drop(dead);
        true
    }

    /// Ends the ttl of a stored object at `due`, unless it ends before. Returns the object if it can't live any longer; the
    /// caller drops it after the unlock.
    pub fn shorten(&self, shard: &mut ShardGuard<'_>, oc: &Arc<Objcore>, due: Mono) -> Option<Arc<Objcore>> {
        if oc.times().fresh_until(None).0 <= due.0 {
            return None;
        }
        let can_live = self.set_times(oc, softened(oc.times(), due));
        if !can_live || oc.times().dead_at().0 <= self.now().0 {
            self.main.n_expired.inc();
            return Some(self.unlink(shard, oc, TombstoneCause::Purged));
        }
        self.arm(shard, oc, oc.times().dead_at());
        None
    }
}
