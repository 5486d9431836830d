// SPDX-License-Identifier: BSD-2-Clause
//! Compression dictionaries (RFC 9842): copies of bodies that clients may have kept, found by their SHA-256.
//!
//! A dictionary outlives its object: a newer version, expiry and eviction leave it, because clients still have the old
//! bytes. A purge or ban that means its object ends it. It has its own copy of what bans test, and counts as hit where
//! that isn't known: a dictionary that goes too early costs bytes on the wire, nothing else.
//!
//! The bytes of all dictionaries and their number are bounded; the one that was used longest ago goes first. They don't
//! survive the worker.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use base::Mono;
use base::critical::Lock;
use message::dictionary::{DictionaryHash, DictionaryRule};
use storage::ObjectTimes;
use tables::counters::Main;

use crate::ban::{Ban, BanSubject};
use crate::cache::{Cache, CacheShared};
use crate::digest::Digest;
use crate::objcore::{NO_BAN, ObjcoreStage};
use crate::objref::ObjRef;
use crate::request::CacheRequest;

/// Divisor: one dictionary may take one part in `LARGEST` of the bytes that all may take.
const LARGEST: u64 = 4;
/// Seconds of TTL that an object has left if no soft purge has taken them.
const LEAST_TTL: f64 = 0.001;

/// A body that clients may have, and the requests for which it counts.
pub struct Dictionary {
    pub hash: DictionaryHash,
    pub bytes: Box<[u8]>,
    source: DictionarySource,
    object: SourceObject,
    /// Number of the use, of all dictionaries' uses, that was its last.
    used: AtomicU64,
}

/// The request and response that brought a dictionary, as far as its use depends on them.
pub struct DictionarySource {
    pub rule: DictionaryRule,
    pub host: Box<[u8]>,
    pub url: Box<[u8]>,
}

struct SourceObject {
    digest: Digest,
    head: Box<[u8]>,
    times: ObjectTimes,
    tags: Vec<Box<[u8]>>,
}

/// The reason why a dictionary isn't kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDictionary {
    TooLarge,
    Gone,
}

/// The reason why a client's dictionary isn't used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DictionaryMiss {
    Unknown,
    OtherHost,
    NoMatch,
}

impl DictionaryMiss {
    pub const fn text(self) -> &'static str {
        match self {
            DictionaryMiss::Unknown => "no dictionary has this hash",
            DictionaryMiss::OtherHost => "it is another host's",
            DictionaryMiss::NoMatch => "its match doesn't mean this request",
        }
    }
}

impl Dictionary {
    fn charge(&self) -> u64 {
        let tags: usize = self.object.tags.iter().map(|tag| size_of::<Box<[u8]>>() + tag.len()).sum();
        let texts = self.source.host.len() + self.source.url.len() + self.object.head.len() + self.bytes.len();
        (size_of::<Self>() + self.source.rule.bytes() + texts + tags) as u64
    }

    fn fits(&self, host: &[u8], url: &[u8], destination: Option<&[u8]>) -> Result<(), DictionaryMiss> {
        if !self.source.host.eq_ignore_ascii_case(host) {
            return Err(DictionaryMiss::OtherHost);
        }
        self.source.rule.matches(url, destination).then_some(()).ok_or(DictionaryMiss::NoMatch)
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dictionary({} bytes)", self.bytes.len())
    }
}

impl BanSubject for Dictionary {
    fn with_head<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        Some(read(&self.object.head))
    }

    fn times(&self) -> ObjectTimes {
        self.object.times
    }

    fn last_use(&self) -> Option<Mono> {
        None
    }
}

impl CacheRequest for Dictionary {
    fn vary_values(&self, _: &[u8], _: &mut Vec<u8>) {}

    fn url(&self) -> &[u8] {
        &self.source.url
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        name.eq_ignore_ascii_case("host").then_some(&self.source.host)
    }
}

pub(crate) struct Dictionaries {
    is_used: AtomicBool,
    space: AtomicU64,
    most: AtomicUsize,
    uses: AtomicU64,
    known: Lock<KnownDictionaries>,
    main: &'static Main,
}

#[derive(Default)]
struct KnownDictionaries {
    /// Several have one hash if objects have equal bodies.
    by_hash: HashMap<DictionaryHash, Vec<Arc<Dictionary>>>,
    count: usize,
    bytes: u64,
}

impl KnownDictionaries {
    fn all(&self) -> impl Iterator<Item = &Arc<Dictionary>> {
        self.by_hash.values().flatten()
    }

    fn add(&mut self, dictionary: Arc<Dictionary>) {
        self.count += 1;
        self.bytes += dictionary.charge();
        self.by_hash.entry(dictionary.hash).or_default().push(dictionary);
    }

    /// Removes those for which `goes` is true, and returns them: they are freed after the unlock.
    fn remove(&mut self, hash: &DictionaryHash, goes: impl Fn(&Arc<Dictionary>) -> bool) -> Vec<Arc<Dictionary>> {
        let Some(same) = self.by_hash.get_mut(hash) else { return Vec::new() };
        let gone: Vec<_> = same.extract_if(.., |dictionary| goes(dictionary)).collect();
        if same.is_empty() {
            self.by_hash.remove(hash);
        }
        self.count -= gone.len();
        self.bytes -= gone.iter().map(|dictionary| dictionary.charge()).sum::<u64>();
        gone
    }

    fn remove_oldest(&mut self) -> Vec<Arc<Dictionary>> {
        let Some(oldest) = self.all().min_by_key(|dictionary| dictionary.used.load(Relaxed)).cloned() else {
            return Vec::new();
        };
        self.remove(&oldest.hash, |dictionary| Arc::ptr_eq(dictionary, &oldest))
    }
}

impl Dictionaries {
    pub fn new(main: &'static Main, space: u64, most: usize) -> Self {
        Dictionaries {
            is_used: AtomicBool::new(false),
            space: AtomicU64::new(space),
            most: AtomicUsize::new(most),
            uses: AtomicU64::new(0),
            known: Lock::default(),
            main,
        }
    }

    pub fn set_bounds(&self, space: u64, most: usize) {
        self.space.store(space, Relaxed);
        self.most.store(most, Relaxed);
        let _gone = self.change(|_| Vec::new());
    }

    /// Changes what is known, keeps to the bounds, and returns what went.
    fn change(&self, change: impl FnOnce(&mut KnownDictionaries) -> Vec<Arc<Dictionary>>) -> Vec<Arc<Dictionary>> {
        let mut known = self.known.lock();
        let mut gone = change(&mut known);
        while known.bytes > self.space.load(Relaxed) || known.count > self.most.load(Relaxed) {
            gone.append(&mut known.remove_oldest());
            self.main.dictionary_evicted.inc();
        }
        self.is_used.store(known.count > 0, Relaxed);
        self.main.n_dictionary.set(known.count as u64);
        self.main.dictionary_bytes.set(known.bytes);
        gone
    }

    fn may_keep(&self, dictionary: &Dictionary) -> bool {
        dictionary.charge() <= self.space.load(Relaxed) / LARGEST
    }

    fn add(&self, dictionary: &Arc<Dictionary>) {
        dictionary.used.store(self.uses.fetch_add(1, Relaxed) + 1, Relaxed);
        let digest = dictionary.object.digest;
        let _gone = self.change(|known| {
            let former = known.remove(&dictionary.hash, |former| former.object.digest == digest);
            known.add(dictionary.clone());
            former
        });
    }

    /// Ends those for which `goes` is true. It runs without a lock.
    fn end(&self, goes: impl Fn(&Dictionary) -> bool) {
        if !self.is_used.load(Relaxed) {
            return;
        }
        let all: Vec<_> = self.known.lock().all().cloned().collect();
        for dictionary in all.iter().filter(|dictionary| goes(dictionary)) {
            self.drop_one(dictionary);
        }
    }

    fn drop_one(&self, ended: &Arc<Dictionary>) {
        let gone = self.change(|known| known.remove(&ended.hash, |dictionary| Arc::ptr_eq(dictionary, ended)));
        self.main.dictionary_invalidated.add(gone.len() as u64);
    }

    pub fn ban(&self, shared: &CacheShared, ban: &Ban) {
        self.end(|dictionary| ban.may_hit(shared, dictionary));
    }

    /// Ends those of an object's digest, by any purge of it.
    pub fn purge(&self, digest: &Digest) {
        self.end(|dictionary| dictionary.object.digest == *digest);
    }

    pub fn purge_key(&self, key: &[u8]) {
        self.end(|dictionary| dictionary.object.tags.iter().any(|tag| message::tags::covers(key, tag)));
    }

    fn find(
        &self,
        hash: &DictionaryHash,
        fits: impl Fn(&Dictionary) -> Result<(), DictionaryMiss>,
    ) -> Result<Arc<Dictionary>, DictionaryMiss> {
        let same = self.known.lock().by_hash.get(hash).cloned().unwrap_or_default();
        let mut miss = DictionaryMiss::Unknown;
        for dictionary in same {
            match fits(&dictionary) {
                Ok(()) => {
                    dictionary.used.store(self.uses.fetch_add(1, Relaxed) + 1, Relaxed);
                    return Ok(dictionary);
                }
                Err(reason) => miss = reason,
            }
        }
        Err(miss)
    }
}

impl Cache {
    /// Keeps the decoded body of a stored object as a dictionary.
    ///
    /// # Errors
    /// [`NoDictionary`].
    pub fn learn_dictionary(
        &self,
        obj: &ObjRef,
        hash: DictionaryHash,
        bytes: Vec<u8>,
        source: DictionarySource,
    ) -> Result<(), NoDictionary> {
        let (shared, oc) = (self.shared(), obj.objcore());
        let dictionaries = &shared.dictionaries;
        let stood = oc.ban_seq.get();
        let object = SourceObject {
            digest: oc.digest(),
            head: obj.head().into(),
            times: obj.times(),
            tags: shared.tags.keys_of(oc),
        };
        let used = AtomicU64::new(0);
        let dictionary = Arc::new(Dictionary { hash, bytes: bytes.into(), source, object, used });
        if !dictionaries.may_keep(&dictionary) {
            return Err(NoDictionary::TooLarge);
        }
        dictionaries.add(&dictionary);
        // Afterwards: an invalidation that comes now finds the dictionary, and an earlier one has marked the object.
        let is_whole = stood != NO_BAN && oc.state() == ObjcoreStage::Stored && !oc.is_overtaken();
        let times = obj.times();
        let is_fresh = times.t_origin.plus(times.ttl).0 > shared.now().0 + LEAST_TTL;
        if is_whole && is_fresh && !shared.bans.any_since(stood, |ban| ban.may_hit(shared, &*dictionary)) {
            return Ok(());
        }
        dictionaries.drop_one(&dictionary);
        Err(NoDictionary::Gone)
    }

    pub fn largest_dictionary(&self) -> usize {
        (self.shared().dictionaries.space.load(Relaxed) / LARGEST) as usize
    }

    /// The dictionary with that hash for a request of a host.
    ///
    /// # Errors
    /// [`DictionaryMiss`].
    pub fn dictionary(
        &self,
        hash: &DictionaryHash,
        host: &[u8],
        url: &[u8],
        destination: Option<&[u8]>,
    ) -> Result<Arc<Dictionary>, DictionaryMiss> {
        self.shared().dictionaries.find(hash, |dictionary| dictionary.fits(host, url, destination))
    }
}
