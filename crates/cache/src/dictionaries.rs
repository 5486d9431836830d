// SPDX-License-Identifier: BSD-2-Clause
//! Compression dictionaries (RFC 9842): copies of bodies that clients may have kept, found by their SHA-256.
//!
//! A dictionary outlives its object: a newer version, expiry and eviction leave it, because clients still have the old
//! bytes. A purge or ban that means its object ends it. It has its own copy of what bans test, and counts as hit where
//! that isn't known: a dictionary that goes too early costs bytes on the wire, nothing else.
//!
//! The bytes of all dictionaries and their number are bounded; the one that was used longest ago goes first. They don't
//! survive the worker.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use base::critical::Lock;
use base::{Mono, Vxid};
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
/// Bodies that may be read at a time to become dictionaries.
const READERS: usize = 4;
/// Objects with equal bodies that one dictionary stands for, the latest ones.
const SOURCES: usize = 16;
/// Seconds of TTL that an object has left if no soft purge has taken them.
const LEAST_TTL: f64 = 0.001;

/// A body that clients may have.
pub struct Dictionary {
    pub hash: DictionaryHash,
    pub bytes: Box<[u8]>,
    /// Number of the use, of all dictionaries' uses, that was its last.
    used: AtomicU64,
}

/// The request and response that brought a dictionary, as far as its use depends on them.
pub struct DictionarySource {
    pub rule: DictionaryRule,
    pub host: Box<[u8]>,
    pub url: Box<[u8]>,
}

struct KnownSource {
    source: DictionarySource,
    object: SourceObject,
}

struct SourceObject {
    digest: Digest,
    xid: Vxid,
    head: Box<[u8]>,
    times: ObjectTimes,
    tags: Vec<Box<[u8]>>,
    tenant: Option<Box<str>>,
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

impl KnownSource {
    fn charge(&self) -> u64 {
        let tags: usize = self.object.tags.iter().map(|tag| size_of::<Box<[u8]>>() + tag.len()).sum();
        let texts = self.source.host.len()
            + self.source.url.len()
            + self.object.head.len()
            + self.object.tenant.as_ref().map_or(0, |name| name.len());
        (size_of::<Self>() + self.source.rule.bytes() + texts + tags) as u64
    }

    fn key(&self) -> (Digest, Vxid) {
        (self.object.digest, self.object.xid)
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

impl BanSubject for KnownSource {
    fn with_head<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        Some(read(&self.object.head))
    }

    fn times(&self) -> ObjectTimes {
        self.object.times
    }

    fn last_use(&self) -> Option<Mono> {
        None
    }

    fn has_key(&self, _shared: &CacheShared, keys: &[Box<[u8]>]) -> bool {
        crate::ban::are_meant(&self.object.tags, keys)
    }

    fn is_of_tenant(&self, _shared: &CacheShared, name: &str, equal: bool) -> bool {
        crate::tenants::is_named(self.object.tenant.as_deref(), name, equal)
    }
}

impl CacheRequest for KnownSource {
    fn vary_values(&self, _: &[u8], _: &mut Vec<u8>) {}

    fn url(&self) -> &[u8] {
        &self.source.url
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        name.eq_ignore_ascii_case("host").then_some(&self.source.host)
    }
}

pub(crate) struct Dictionaries {
    space: AtomicU64,
    most: AtomicUsize,
    uses: AtomicU64,
    readers: AtomicUsize,
    known: Lock<KnownDictionaries>,
    main: &'static Main,
}

struct KnownDictionary {
    dictionary: Arc<Dictionary>,
    sources: Vec<Arc<KnownSource>>,
    queued: u64,
}

impl KnownDictionary {
    fn charge(&self) -> u64 {
        let sources: u64 = self.sources.iter().map(|source| source.charge()).sum();
        (size_of::<Self>() + size_of::<Dictionary>() + self.dictionary.bytes.len()) as u64 + sources
    }
}

#[derive(Default)]
struct KnownDictionaries {
    by_hash: HashMap<DictionaryHash, KnownDictionary>,
    /// A key is the last use of a dictionary, or an earlier one.
    by_use: BTreeMap<u64, DictionaryHash>,
    by_object: HashMap<(Digest, Vxid), DictionaryHash>,
    bytes: u64,
}

/// Memory that is freed after the unlock.
#[derive(Default)]
struct Gone {
    sources: Vec<Arc<KnownSource>>,
    dictionaries: Vec<Arc<Dictionary>>,
}

impl KnownDictionaries {
    fn add(&mut self, dictionary: &Arc<Dictionary>, source: &Arc<KnownSource>, gone: &mut Gone) {
        let digest = source.object.digest;
        let same = |known: &Arc<KnownSource>| known.object.digest == digest;
        self.remove_sources(&dictionary.hash, same, gone);
        let queued = dictionary.used.load(Relaxed);
        let known = self.by_hash.entry(dictionary.hash).or_insert_with(|| {
            self.by_use.insert(queued, dictionary.hash);
            KnownDictionary { dictionary: dictionary.clone(), sources: Vec::new(), queued }
        });
        known.dictionary.used.store(queued, Relaxed);
        let former = if known.sources.is_empty() { 0 } else { known.charge() };
        if known.sources.len() == SOURCES {
            let oldest = known.sources.remove(0);
            self.by_object.remove(&oldest.key());
            gone.sources.push(oldest);
        }
        known.sources.push(source.clone());
        self.bytes = self.bytes - former + known.charge();
        self.by_object.insert(source.key(), dictionary.hash);
    }

    /// Removes the sources for which `goes` is true, and the dictionary with the last one.
    fn remove_sources(&mut self, hash: &DictionaryHash, goes: impl Fn(&Arc<KnownSource>) -> bool, gone: &mut Gone) {
        let Some(known) = self.by_hash.get_mut(hash) else { return };
        self.bytes -= known.charge();
        for source in known.sources.extract_if(.., |source| goes(source)) {
            self.by_object.remove(&source.key());
            gone.sources.push(source);
        }
        if !known.sources.is_empty() {
            self.bytes += known.charge();
        } else if let Some(ended) = self.by_hash.remove(hash) {
            self.by_use.remove(&ended.queued);
            gone.dictionaries.push(ended.dictionary);
        }
    }

    fn remove_oldest(&mut self, gone: &mut Gone) {
        while let Some((queued, hash)) = self.by_use.pop_first() {
            let Some(known) = self.by_hash.get_mut(&hash) else { continue };
            let used = known.dictionary.used.load(Relaxed);
            if used == queued {
                return self.remove_sources(&hash, |_| true, gone);
            }
            known.queued = used;
            self.by_use.insert(used, hash);
        }
    }
}

impl Dictionaries {
    pub fn new(main: &'static Main, space: u64, most: usize) -> Self {
        Dictionaries {
            space: AtomicU64::new(space),
            most: AtomicUsize::new(most),
            uses: AtomicU64::new(0),
            readers: AtomicUsize::new(0),
            known: Lock::default(),
            main,
        }
    }

    pub fn set_bounds(&self, space: u64, most: usize) {
        self.space.store(space, Relaxed);
        self.most.store(most, Relaxed);
        self.change(|_, _| {});
    }

    /// Changes what is known, and keeps to the bounds. Returns the number of dictionaries that the change has ended.
    fn change(&self, change: impl FnOnce(&mut KnownDictionaries, &mut Gone)) -> usize {
        let mut gone = Gone::default();
        let mut known = self.known.lock();
        change(&mut known, &mut gone);
        let ended = gone.dictionaries.len();
        while known.bytes > self.space.load(Relaxed) || known.by_hash.len() > self.most.load(Relaxed) {
            known.remove_oldest(&mut gone);
            self.main.dictionary_evicted.inc();
        }
        self.main.n_dictionary.set(known.by_hash.len() as u64);
        self.main.dictionary_bytes.set(known.bytes);
        drop(known);
        ended
    }

    fn may_keep(&self, dictionary: &Dictionary, source: &KnownSource) -> bool {
        let charge = (size_of::<KnownDictionary>() + size_of::<Dictionary>() + dictionary.bytes.len()) as u64;
        self.most.load(Relaxed) > 0 && charge + source.charge() <= self.space.load(Relaxed) / LARGEST
    }

    fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Relaxed) + 1
    }

    fn add(&self, dictionary: &Arc<Dictionary>, source: &Arc<KnownSource>) {
        dictionary.used.store(self.next_use(), Relaxed);
        self.change(|known, gone| known.add(dictionary, source, gone));
    }

    /// Ends the sources for which `goes` is true. It runs without a lock.
    fn end(&self, goes: impl Fn(&KnownSource) -> bool) {
        let all: Vec<_> = {
            let known = self.known.lock();
            let pairs = |(hash, one): (&DictionaryHash, &KnownDictionary)| {
                one.sources.iter().map(|source| (*hash, source.clone())).collect::<Vec<_>>()
            };
            known.by_hash.iter().flat_map(pairs).collect()
        };
        for (hash, source) in all.iter().filter(|(_, source)| goes(source)) {
            self.drop_one(hash, source);
        }
    }

    fn drop_one(&self, hash: &DictionaryHash, ended: &Arc<KnownSource>) {
        let ends = |source: &Arc<KnownSource>| Arc::ptr_eq(source, ended);
        let count = self.change(|known, gone| known.remove_sources(hash, ends, gone));
        self.main.dictionary_invalidated.add(count as u64);
    }

    pub fn ban(&self, shared: &CacheShared, ban: &Ban) {
        self.end(|source| ban.may_hit(shared, source));
    }

    /// Ends those of an object's digest, by any purge of it.
    pub fn purge(&self, digest: &Digest) {
        self.end(|source| source.object.digest == *digest);
    }

    pub fn purge_key(&self, key: &[u8]) {
        self.end(|source| source.object.tags.iter().any(|tag| message::tags::covers(key, tag)));
    }

    fn find(
        &self,
        hash: &DictionaryHash,
        fits: impl Fn(&KnownSource) -> Result<(), DictionaryMiss>,
    ) -> Result<Arc<Dictionary>, DictionaryMiss> {
        let known = self.known.lock().by_hash.get(hash).map(|known| (known.dictionary.clone(), known.sources.clone()));
        let (dictionary, sources) = known.ok_or(DictionaryMiss::Unknown)?;
        let mut miss = DictionaryMiss::Unknown;
        for source in sources {
            match fits(&source) {
                Ok(()) => {
                    dictionary.used.store(self.next_use(), Relaxed);
                    return Ok(dictionary);
                }
                Err(reason) => miss = reason,
            }
        }
        Err(miss)
    }
}

/// The right to read a body that becomes a dictionary, one of few.
pub struct DictionaryReader(Cache);

impl Drop for DictionaryReader {
    fn drop(&mut self) {
        self.0.shared().dictionaries.readers.fetch_sub(1, Relaxed);
    }
}

impl Cache {
    /// `None`: as many bodies as may be are being read.
    pub fn begin_dictionary(&self) -> Option<DictionaryReader> {
        let more = |readers| (readers < READERS).then_some(readers + 1);
        let begun = self.shared().dictionaries.readers.try_update(Relaxed, Relaxed, more);
        begun.is_ok().then(|| DictionaryReader(self.clone()))
    }

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
        self.keep_dictionary(obj, &Arc::new(Dictionary { hash, bytes: bytes.into(), used: AtomicU64::new(0) }), source)
    }

    /// The dictionary that the body of an object is.
    pub fn dictionary_of(&self, obj: &ObjRef) -> Option<Arc<Dictionary>> {
        let known = self.shared().dictionaries.known.lock();
        let hash = known.by_object.get(&(obj.objcore().digest(), obj.xid()))?;
        known.by_hash.get(hash).map(|known| known.dictionary.clone())
    }

    /// Like [`Cache::learn_dictionary`], where the body is known as a dictionary.
    ///
    /// # Errors
    /// [`NoDictionary`].
    pub fn keep_dictionary(
        &self,
        obj: &ObjRef,
        dictionary: &Arc<Dictionary>,
        source: DictionarySource,
    ) -> Result<(), NoDictionary> {
        let (shared, oc) = (self.shared(), obj.objcore());
        let dictionaries = &shared.dictionaries;
        let stood = oc.ban_seq.get();
        let object = SourceObject {
            digest: oc.digest(),
            xid: obj.xid(),
            head: obj.head().into(),
            times: obj.times(),
            tags: shared.tags.keys_of(oc),
            tenant: shared.tenants.row(oc.tenant()).map(|row| row.name().into()),
        };
        let source = Arc::new(KnownSource { source, object });
        if !dictionaries.may_keep(dictionary, &source) {
            return Err(NoDictionary::TooLarge);
        }
        dictionaries.add(dictionary, &source);
        // Afterwards: an invalidation that comes now finds the source, and an earlier one has marked the object.
        let is_whole = stood != NO_BAN && oc.state() == ObjcoreStage::Stored && !oc.is_overtaken();
        let times = obj.times();
        let is_fresh = times.t_origin.plus(times.ttl).0 > shared.now().0 + LEAST_TTL;
        if is_whole && is_fresh && !shared.bans.any_since(stood, |ban| ban.may_hit(shared, &*source)) {
            return Ok(());
        }
        dictionaries.drop_one(&dictionary.hash, &source);
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
