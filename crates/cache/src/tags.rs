// SPDX-License-Identifier: BSD-2-Clause
//! Tags: which objects bear which key, and purging by key.
//!
//! A purge by key takes a number from the sequence of all invalidations and stays in a journal while a fetch runs that
//! began before it: the object that such a fetch brings answers the requests that waited for it and no later ones (or, after
//! a soft purge, has no ttl). Off until [`Cache::enable_tags`]: objects stored before that aren't found by key.
//!
//! A member of a key knows where its object lists it, and the object where the key does, so that taking out an object costs
//! the same however many others bear its keys. The lock is a leaf, under the shard's.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use base::Mono;
use base::critical::Lock;
use storage::journal::Ticket;
use tables::counters::Xkey;

use crate::attrs::Times;
use crate::ban::Bans;
use crate::busy::Busy;
use crate::cache::{Cache, Shared};
use crate::journal;
use crate::objcore::{Objcore, State};
use crate::objref::ObjRef;

/// Purges that the journal holds; a fetch that began before one which fell out counts as overtaken.
const JOURNAL: usize = 1024;
/// Keys whose purges are held for survivors.
const HELD: usize = 1 << 16;
/// Members looked at under one hold of the lock.
const STRIDE: usize = 128;
/// An object without any ttl is never found; this much is none to everybody else.
const NO_TTL: f64 = 1e-6;

#[derive(Default)]
pub(crate) struct Tags {
    is_on: AtomicBool,
    counters: OnceLock<&'static Xkey>,
    inner: Lock<Inner>,
}

#[derive(Default)]
struct Inner {
    keys: HashMap<Arc<[u8]>, Key>,
    /// By the objcore's address, which can't be another's while a member holds it weakly.
    objects: HashMap<usize, Box<[Link]>>,
    /// Links of all objects.
    links: usize,
    /// What the keys' texts take.
    text_bytes: usize,
    /// What the keys' lists of members take.
    member_bytes: usize,
    /// Fetches in progress, by the number known when they began.
    running: BTreeMap<u64, usize>,
    journal: VecDeque<Entry>,
    /// Number of the newest purge that fell out of the journal too early.
    lost: u64,
    /// Purges that count for what comes into the index later: survivors of a former worker, stored copies.
    held: HashMap<Box<[u8]>, Held>,
    /// There were more than [`HELD`]: whatever comes, has a key and was fetched before that number counts as purged.
    lost_held: u64,
}

/// The purges held for a key.
#[derive(Default)]
struct Held {
    /// Number of the newest hard one; 0: none.
    hard: u64,
    /// Number of the newest soft one, and the moment of the oldest.
    soft: Option<(u64, Mono)>,
}

/// Whether a purge by key was held for a survivor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum HeldPurge {
    No,
    /// It takes the ttl, from that moment on.
    Soft(Mono),
    Hard,
}

#[derive(Default)]
struct Key {
    members: Vec<Member>,
}

struct Member {
    oc: Weak<Objcore>,
    /// Which of the object's links this is.
    back: u32,
}

struct Link {
    key: Arc<[u8]>,
    /// Where the key has it.
    at: u32,
}

struct Entry {
    seq: u64,
    key: Arc<[u8]>,
    /// When, if it was a soft one.
    soft: Option<Mono>,
    /// The objcore that the purging transaction itself fetches, by its address: while that is in use no other fetch that began
    /// before this entry has it.
    own: Option<usize>,
}

/// What came over the keys of an object while it was fetched.
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
    /// Whether keys are kept at all.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    fn turn_on(&self, counters: &'static Xkey) {
        self.counters.get_or_init(|| counters);
        self.is_on.store(true, Relaxed);
    }

    /// A fetch begins: the number it must give back with [`Tags::end`] or [`Tags::attach`].
    pub fn begin(&self, bans: &Bans) -> Option<u64> {
        self.is_on().then(|| {
            let mut inner = self.inner.lock();
            let seq = bans.seq();
            *inner.running.entry(seq).or_default() += 1;
            seq
        })
    }

    /// A fetch ended without an object.
    pub fn end(&self, began: Option<u64>) {
        if let Some(began) = began {
            self.inner.lock().end(began);
        }
    }

    /// A fetch has become an object with these keys.
    pub fn attach(&self, oc: &Arc<Objcore>, keys: &[Box<[u8]>], began: Option<u64>) -> KeyInvalidation {
        if began.is_none() && keys.is_empty() {
            return KeyInvalidation::default();
        }
        let mut inner = self.inner.lock();
        let own = Arc::as_ptr(oc) as usize;
        let found = began.map_or_else(KeyInvalidation::default, |began| inner.overtaken(keys, began, own));
        if !keys.is_empty() {
            inner.insert(oc, keys);
            self.count(&inner);
        }
        if let Some(began) = began {
            inner.end(began);
        }
        found
    }

    /// A survivor comes, with these keys, whose fetch began at that number: what came over them since. After a hard purge
    /// it isn't listed.
    pub fn adopt(&self, oc: &Arc<Objcore>, keys: &[Box<[u8]>], began: u64) -> HeldPurge {
        if keys.is_empty() {
            return HeldPurge::No;
        }
        let mut inner = self.inner.lock();
        let held = inner.held_for(keys, began);
        if held != HeldPurge::Hard {
            // The VCL that imports the module may come later.
            self.is_on.store(true, Relaxed);
            inner.insert(oc, keys);
            self.count(&inner);
        }
        held
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

    /// What is held, for a journal that is begun anew.
    pub fn held_entries(&self) -> Vec<storage::journal::Entry> {
        let inner = self.inner.lock();
        let mut entries = Vec::new();
        for (key, held) in &inner.held {
            let hard = (held.hard > 0).then_some((held.hard, None));
            let soft = held.soft.map(|(seq, at)| (seq, Some(at.0)));
            for (seq, soft) in hard.into_iter().chain(soft) {
                entries.extend([journal::tag_purge(seq, key, soft), storage::journal::Entry::Reached { seq }]);
            }
        }
        if inner.lost_held > 0 {
            entries.push(storage::journal::Entry::KeysLost { seq: inner.lost_held });
        }
        entries
    }

    /// There are no survivors any more, and purges up to that number concern no stored copy.
    pub fn release(&self, least_stored: u64) {
        let mut inner = self.inner.lock();
        if inner.lost_held <= least_stored {
            inner.lost_held = 0;
        }
        inner.held.retain(|_, held| held.newest() > least_stored);
    }

    /// Whether a purge was held for an object with these keys, whose fetch began at that number.
    pub fn is_held(&self, keys: &[Box<[u8]>], began: u64) -> bool {
        !keys.is_empty() && self.inner.lock().held_for(keys, began) != HeldPurge::No
    }

    /// An object leaves the cache.
    pub fn detach(&self, oc: &Objcore) {
        if self.is_on() {
            let mut inner = self.inner.lock();
            if inner.remove(std::ptr::from_ref(oc) as usize) {
                self.count(&inner);
            }
        }
    }

    /// The object's keys.
    pub fn keys_of(&self, oc: &Objcore) -> Vec<Box<[u8]>> {
        if !self.is_on() {
            return Vec::new();
        }
        let inner = self.inner.lock();
        let links = inner.objects.get(&(std::ptr::from_ref(oc) as usize));
        links.map_or_else(Vec::new, |links| links.iter().map(|link| Box::from(&*link.key)).collect())
    }

    fn count(&self, inner: &Inner) {
        let Some(counters) = self.counters.get() else { return };
        let of = |count: usize, each: usize| (count * each) as u64;
        let keys = of(inner.keys.len(), size_of::<Key>() + size_of::<Arc<[u8]>>()) + inner.text_bytes as u64;
        let objects = of(inner.objects.len(), size_of::<usize>() + size_of::<Box<[Link]>>());
        counters.g_keys.set(inner.keys.len() as u64);
        counters.g_hashhead_bytes.set(keys);
        counters.g_oc_bytes.set(objects);
        let links = of(inner.links, size_of::<Link>()) + inner.member_bytes as u64;
        counters.g_ochead_bytes.set(links);
        counters.g_bytes.set(keys + objects + links);
    }

    /// Puts a purge into the journal: its number.
    fn enter(&self, shared: &Shared, key: &[u8], soft: Option<Mono>, own: Option<usize>) -> (u64, Option<Ticket>) {
        let mut inner = self.inner.lock();
        let seq = shared.bans.next_seq();
        let moment = soft.map(|at| at.0);
        let ticket = shared.bans.log.begin(seq, || journal::tag_purge(seq, key, moment));
        if shared.adoption.is_on() || !shared.homes.is_empty() {
            inner.hold(key, soft, seq, || shared.least_stored_of_homes());
        }
        inner.trim();
        if !inner.running.is_empty() {
            inner.journal.push_back(Entry { seq, key: key.into(), soft, own });
        }
        if inner.journal.len() > JOURNAL {
            inner.lost = inner.journal.pop_front().map_or(0, |entry| entry.seq);
        }
        (seq, ticket)
    }

    /// Up to [`STRIDE`] objects with that key below place `end`, and where to go on.
    fn some(&self, key: &[u8], end: usize) -> (Vec<Arc<Objcore>>, usize) {
        let inner = self.inner.lock();
        let Some(members) = inner.keys.get(key).map(|key| &key.members) else { return (Vec::new(), 0) };
        let end = end.min(members.len());
        let begin = end.saturating_sub(STRIDE);
        (members[begin..end].iter().filter_map(|member| member.oc.upgrade()).collect(), begin)
    }
}

impl Inner {
    fn end(&mut self, began: u64) {
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
        if self.held.len() >= HELD && !self.held.contains_key(key) {
            let least_stored = least_stored();
            self.held.retain(|_, held| held.newest() > least_stored);
            if self.held.len() >= HELD {
                self.lost_held = seq;
                return;
            }
        }
        let held = self.held.entry(key.into()).or_default();
        match soft {
            None => held.hard = held.hard.max(seq),
            Some(at) => {
                let (newest, oldest) = held.soft.unwrap_or((seq, at));
                held.soft = Some((newest.max(seq), if oldest.0 < at.0 { oldest } else { at }));
            }
        }
    }

    fn held_for(&self, keys: &[Box<[u8]>], began: u64) -> HeldPurge {
        let held = || keys.iter().filter_map(|key| self.held.get(key));
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
        let counts = |entry: &&Entry| entry.own != Some(own) && keys.iter().any(|key| **key == *entry.key);
        for entry in self.journal.range(from..).filter(counts) {
            match entry.soft {
                Some(at) => found.soft = Some((entry.seq, at)),
                None => found.hard = found.hard.or(Some(entry.seq)),
            }
        }
        found
    }

    fn insert(&mut self, oc: &Arc<Objcore>, keys: &[Box<[u8]>]) {
        let mut links: Vec<Link> = Vec::with_capacity(keys.len());
        for name in keys {
            if links.iter().any(|link| *link.key == **name) {
                continue;
            }
            let name = match self.keys.get_key_value(&**name) {
                Some((name, _)) => name.clone(),
                None => {
                    self.text_bytes += text_bytes(name);
                    Arc::from(&**name)
                }
            };
            let members = &mut self.keys.entry(name.clone()).or_default().members;
            self.member_bytes -= list_bytes(members);
            links.push(Link { key: name, at: members.len() as u32 });
            members.push(Member { oc: Arc::downgrade(oc), back: links.len() as u32 - 1 });
            self.member_bytes += list_bytes(members);
        }
        self.links += links.len();
        self.objects.insert(Arc::as_ptr(oc) as usize, links.into());
    }

    fn remove(&mut self, address: usize) -> bool {
        let Some(links) = self.objects.remove(&address) else { return false };
        self.links -= links.len();
        for link in &links {
            let members = &mut self.keys.get_mut(&link.key).expect("a link's key exists").members;
            members.swap_remove(link.at as usize);
            let moved = members.get(link.at as usize).map(|member| (member.oc.as_ptr() as usize, member.back));
            if members.is_empty() {
                self.member_bytes -= list_bytes(members);
                self.text_bytes -= text_bytes(&link.key);
                self.keys.remove(&link.key);
            }
            if let Some((address, back)) = moved {
                self.objects.get_mut(&address).expect("a member's object is listed")[back as usize].at = link.at;
            }
        }
        true
    }
}

/// A key's text with its two counts of references.
fn text_bytes(key: &[u8]) -> usize {
    key.len() + 2 * size_of::<usize>()
}

fn list_bytes(members: &Vec<Member>) -> usize {
    members.capacity() * size_of::<Member>()
}

/// A purge by keys under way: it goes in steps, so that no thread is held by a key with a million objects.
pub struct TagPurge {
    cache: Cache,
    keys: VecDeque<Box<[u8]>>,
    is_soft: bool,
    now: Mono,
    own: Option<usize>,
    /// The key that is being worked on, the purge's number, and the place it has come to.
    at: Option<(Box<[u8]>, u64, usize)>,
    /// The last entry in the journal.
    last: Option<Ticket>,
    count: usize,
}

impl TagPurge {
    /// The same by a transaction that fetches: what that brings is newer than the purge, and stays.
    #[must_use]
    pub fn by(self, own: Option<&Busy>) -> TagPurge {
        TagPurge { own: own.map(Busy::address), ..self }
    }

    /// Purges some more; how many objects it reached in all, once it is done.
    pub fn step(&mut self) -> Option<usize> {
        let shared = self.cache.shared().clone();
        let (key, seq, end) = match self.at.take() {
            Some(at) => at,
            None => {
                let Some(key) = self.keys.pop_front() else { return Some(self.count) };
                let soft = self.is_soft.then_some(self.now.0);
                shared.former.tell(|| journal::tag_purge(0, &key, soft));
                let (seq, ticket) = shared.tags.enter(&shared, &key, self.is_soft.then_some(self.now), self.own);
                self.last = ticket;
                (key, seq, usize::MAX)
            }
        };
        let (objects, begin) = shared.tags.some(&key, end);
        let purge =
            |oc: &&Arc<Objcore>| if self.is_soft { shared.soften(oc, self.now) } else { shared.invalidate(oc, seq) };
        self.count += objects.iter().filter(purge).count();
        self.at = (begin > 0).then_some((key, seq, begin));
        if self.at.is_some() {
            return None;
        }
        let log = &shared.bans.log;
        // Survivors that are still to come bear keys, too.
        if !shared.adoption.is_on() {
            self.last = log.done(seq);
        }
        if !self.keys.is_empty() {
            return None;
        }
        log.commit(self.last);
        Some(self.count)
    }
}

impl Cache {
    /// Keeps keys from now on ([`crate::Busy::set_tags`]) and shows how many there are in `counters`.
    pub fn enable_tags(&self, counters: &'static Xkey) {
        self.shared().tags.turn_on(counters);
    }

    /// Whether keys are kept: else a fetch needn't look for them.
    pub fn keeps_tags(&self) -> bool {
        self.shared().tags.is_on()
    }

    /// The keys of an object that is in the cache.
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
pub(crate) fn encoded(began: u64, keys: &[Box<[u8]>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + keys.iter().map(|key| key.len() + 4).sum::<usize>());
    out.extend_from_slice(&began.to_le_bytes());
    for key in keys {
        let len = u32::try_from(key.len()).expect("a key is a part of a head");
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(key);
    }
    out
}

/// Undoes [`encoded`]; nothing at all is an object without keys. `None` for what it didn't make.
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
pub(crate) fn softened(times: Times, now: Mono) -> Times {
    let ttl = now.since(times.t_origin);
    if ttl > 0.0 {
        return Times { ttl, ..times };
    }
    Times { t_origin: times.t_origin.plus(-NO_TTL), ttl: NO_TTL, ..times }
}

impl Shared {
    /// Takes the ttl of a stored object that has some left; whether it had.
    fn soften(&self, oc: &Arc<Objcore>, now: Mono) -> bool {
        let dead = {
            let mut shard = self.shard(&oc.digest()).lock();
            if oc.state() != State::Stored || oc.times().fresh_until(None).0 <= now.0 {
                return false;
            }
            let can_live = self.set_times(oc, softened(oc.times(), now));
            if !can_live || oc.times().dead_at().0 <= now.0 {
                self.main.n_expired.inc();
                Some(self.unlink(&mut shard, oc, crate::tombstones::Cause::Purged))
            } else {
                self.arm(&mut shard, oc, oc.times().dead_at());
                None
            }
        };
        drop(dead);
        true
    }
}
