// SPDX-License-Identifier: BSD-2-Clause
//! The cache as a whole: its shards, its stores, and the moves that keep index, heap and lists in step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use arc_swap::ArcSwap;
use base::critical::{Guard, Lock};
use base::{Clock, Mono};
use storage::{Buf, HomeId, NoSpace, ObjectTimes, Store, StoreId, Stores};
use sync::{Called, Turn};
use tables::Compat;
use tables::choices::EvictBy;
use tables::counters::Main;

use crate::admit::Admissions;
use crate::adopt::Adoption;
use crate::ban::Bans;
use crate::boc::Boc;
use crate::busy::Busy;
use crate::dictionaries::Dictionaries;
use crate::digest::Digest;
use crate::events::CacheEvent;
use crate::evict::Evictor;
use crate::expire::{Alarm, PendingWake};
use crate::forms::FormKeeper;
use crate::heap::Heap;
use crate::homes::HomeJudge;
use crate::objcore::{ObjBytes, Objcore, ObjcoreStage};
use crate::objhead::ObjheadTable;
use crate::objref::ObjRef;
use crate::request::{HeadReader, Regexes};
use crate::succession::{FormerWorker, Successor};
use crate::tags::Tags;
use crate::tenants::Tenants;
use crate::tombstones::{TombstoneCause, Tombstones};
use crate::waiting::{Leaders, RecentRushes, RushReason};

/// A power of two; each is a lock, a table and a heap.
const SHARDS: usize = 512;

/// Time that an overtaken object stays for the requests that waited for it, in seconds.
const OVERTAKEN_LIFE: f64 = 10.0;

pub struct CacheConfig {
    /// For the moments that no caller names (bans, the end of fetches).
    pub clock: Clock,
    pub main: &'static Main,
    pub stores: Arc<Stores>,
    pub heads: Box<dyn HeadReader>,
    pub regexes: Box<dyn Regexes>,
    pub params: CacheParams,
}

/// The parameters that concern the cache, named as in `param.show`; times in seconds.
#[derive(Clone, Debug)]
pub struct CacheParams {
    /// Variants that a lookup tests against bans although they may not match the request.
    pub ban_any_variant: usize,
    /// Bans further down the list kill unread (0: none do).
    pub ban_cutoff: usize,
    /// Mark older bans that say the same as done.
    pub ban_dups: bool,
    /// An object that a lookup would have to test against more bans is killed untested (0: none is).
    pub ban_lookup_limit: u64,
    /// Younger bans are left to lookups.
    pub ban_lurker_age: f64,
    /// Objects the lurker tests at a stretch.
    pub ban_lurker_batch: usize,
    /// Pause between stretches; 0 switches the lurker off.
    pub ban_lurker_sleep: f64,
    /// Release whose purges and counters of purges the cache has.
    pub compat: Compat,
    /// Dictionaries that are kept at most, and the bytes that they may take (0: none are kept).
    pub dictionary_max: usize,
    pub dictionary_space: u64,
    pub evict_by: EvictBy,
    /// Bytes that forms of objects may take (0: none are kept).
    pub form_space: u64,
    /// Objects evicted for one object at most.
    pub nuke_limit: u32,
    /// Parked requests woken at a time when a fetch produced no usable object.
    pub rush_exponent: usize,
    /// An object that is stale already when it comes is still for all that waited for it.
    pub stale_serves_waiters: bool,
    /// Bytes that the index of tags may take (0: any number).
    pub tag_space: u64,
    /// Variants an objhead has at most (0: any number).
    pub vary_limit: usize,
    /// Number of variants from which on an objhead counts as having many.
    pub vary_notice: usize,
    /// Requests parked on one objhead at most (0: any number).
    pub waitinglist_limit: usize,
    /// Bytes a passed body may be ahead of its reader (`None`: any number).
    pub transit_buffer: Option<u64>,
}

impl Default for CacheParams {
    fn default() -> Self {
        Self {
            ban_any_variant: 0,
            ban_cutoff: 0,
            ban_dups: true,
            ban_lookup_limit: 0,
            ban_lurker_age: 60.0,
            ban_lurker_batch: 8,
            ban_lurker_sleep: 0.010,
            compat: Compat::default(),
            dictionary_max: 1000,
            dictionary_space: 32 << 20,
            evict_by: EvictBy::default(),
            form_space: 64 << 20,
            nuke_limit: 50,
            rush_exponent: 3,
            stale_serves_waiters: false,
            tag_space: 0,
            vary_limit: 0,
            vary_notice: 10,
            waitinglist_limit: 0,
            transit_buffer: Some(1 << 20),
        }
    }
}

/// Parameters that every lookup or fetch reads.
#[derive(Default)]
pub(crate) struct HotParams {
    ban_any_variant: AtomicUsize,
    nuke_limit: AtomicU32,
    vary_limit: AtomicUsize,
    vary_notice: AtomicUsize,
    /// `u64::MAX` means any number of bytes.
    transit_buffer: AtomicU64,
}

impl HotParams {
    fn set(&self, params: &CacheParams) {
        self.ban_any_variant.store(params.ban_any_variant, Relaxed);
        self.nuke_limit.store(params.nuke_limit, Relaxed);
        self.vary_limit.store(params.vary_limit, Relaxed);
        self.vary_notice.store(params.vary_notice, Relaxed);
        self.transit_buffer.store(params.transit_buffer.unwrap_or(u64::MAX), Relaxed);
    }

    pub fn ban_any_variant(&self) -> usize {
        self.ban_any_variant.load(Relaxed)
    }

    pub fn nuke_limit(&self) -> u32 {
        self.nuke_limit.load(Relaxed)
    }

    pub fn vary_limit(&self) -> usize {
        self.vary_limit.load(Relaxed)
    }

    pub fn vary_notice(&self) -> usize {
        self.vary_notice.load(Relaxed)
    }

    pub fn transit_buffer(&self) -> Option<u64> {
        Some(self.transit_buffer.load(Relaxed)).filter(|&bytes| bytes != u64::MAX)
    }
}

#[derive(Clone)]
pub struct Cache(Arc<CacheShared>);

pub(crate) struct CacheShared {
    pub shards: Box<[CacheShard]>,
    pub alarm: Arc<Alarm>,
    pub bans: Bans,
    pub tags: Tags,
    pub forms: FormKeeper,
    pub dictionaries: Dictionaries,
    pub main: &'static Main,
    pub clock: Clock,
    pub heads: Box<dyn HeadReader>,
    pub regexes: Box<dyn Regexes>,
    pub params: ArcSwap<CacheParams>,
    pub hot_params: HotParams,
    stores: Arc<Stores>,
    pub evictors: Box<[Evictor]>,
    pub tenants: Arc<Tenants>,
    /// Stores without a limit have an order of eviction, too.
    pub evicts_unlimited: AtomicBool,
    pub tombstones: Tombstones,
    pub adoption: Adoption,
    pub homes: Box<[StoreId]>,
    pub admissions: Admissions,
    pub former: FormerWorker,
    pub successor: Successor,
}

pub(crate) struct CacheShard {
    inner: Lock<ShardInner>,
    /// When the first of the heap is due, as bits of an `f64`; infinite when none is.
    pub next_expiry: AtomicU64,
    alarm: Arc<Alarm>,
}

pub(crate) struct ShardInner {
    pub heads: ObjheadTable,
    pub heap: Heap,
    pub recent_rushes: RecentRushes,
    pub leaders: Leaders,
    /// Objects here of which there is a [`crate::objcore::Tail`].
    pub tails: u64,
}

impl CacheShard {
    pub fn lock(&self) -> ShardGuard<'_> {
        ShardGuard { shard: self, inner: self.inner.lock(), rung: PendingWake::default() }
    }
}

pub(crate) struct ShardGuard<'a> {
    shard: &'a CacheShard,
    inner: Guard<'a, ShardInner>,
    /// Declared after the lock, so that woken threads can take it.
    rung: PendingWake,
}

impl ShardGuard<'_> {
    fn publish_next_expiry(&mut self) {
        let next = self.inner.heap.next().map_or(f64::INFINITY, |next| next.0);
        self.shard.next_expiry.store(next.to_bits(), Relaxed);
        if next < self.shard.alarm.before() {
            self.rung.0 = self.shard.alarm.take();
        }
    }
}

impl std::ops::Deref for ShardGuard<'_> {
    type Target = ShardInner;

    fn deref(&self) -> &ShardInner {
        &self.inner
    }
}

impl std::ops::DerefMut for ShardGuard<'_> {
    fn deref_mut(&mut self) -> &mut ShardInner {
        &mut self.inner
    }
}

impl Cache {
    pub fn new(config: CacheConfig) -> Cache {
        let CacheConfig { clock, main, stores, heads, regexes, params } = config;
        let alarm = Arc::new(Alarm::default());
        let shard = |_| CacheShard {
            inner: Lock::new(ShardInner {
                heads: ObjheadTable::new(main),
                heap: Heap::default(),
                recent_rushes: RecentRushes::default(),
                leaders: Leaders::default(),
                tails: 0,
            }),
            next_expiry: AtomicU64::new(f64::INFINITY.to_bits()),
            alarm: alarm.clone(),
        };
        let hot_params = HotParams::default();
        hot_params.set(&params);
        let homes = stores.all().iter().filter(|store| store.home().is_some()).map(|store| store.id()).collect();
        let former = FormerWorker::new(stores.clone());
        let forms = FormKeeper::new(main, stores.all().len(), params.form_space);
        let dictionaries = Dictionaries::new(main, params.dictionary_space, params.dictionary_max);
        let tenants = Arc::new(Tenants::new());
        let evictors = stores.all().iter().map(|_| Evictor::new(main, tenants.clone(), params.evict_by)).collect();
        let cache = Cache(Arc::new(CacheShared {
            shards: (0..SHARDS).map(shard).collect(),
            alarm: alarm.clone(),
            bans: Bans::new(main, &clock),
            tags: Tags::with_space(params.tag_space),
            forms,
            dictionaries,
            main,
            clock,
            heads,
            regexes,
            params: ArcSwap::from_pointee(params),
            hot_params,
            stores,
            evictors,
            tenants,
            evicts_unlimited: AtomicBool::new(false),
            tombstones: Tombstones::new(),
            adoption: Adoption::default(),
            homes,
            admissions: Admissions::default(),
            former,
            successor: Successor::default(),
        }));
        for home in cache.stores().all().iter().filter_map(|store| store.home()) {
            home.set_judge(Box::new(HomeJudge::new(&cache)));
        }
        cache
    }

    pub fn set_params(&self, params: CacheParams) {
        self.0.hot_params.set(&params);
        self.0.tags.set_space(params.tag_space);
        self.0.forms.set_space(params.form_space);
        self.0.dictionaries.set_bounds(params.dictionary_space, params.dictionary_max);
        self.0.evictors.iter().for_each(|evictor| evictor.set_by(params.evict_by));
        self.0.params.store(Arc::new(params));
    }

    pub fn stores(&self) -> &Arc<Stores> {
        &self.0.stores
    }

    /// Drops an object whose store has lost its body ([`crate::BodyReadError::Store`]). Later lookups fetch it again, and
    /// report a failed fetch as the cause.
    pub fn lose(&self, obj: &ObjRef) {
        self.0.kill(obj.objcore(), TombstoneCause::FetchFailed);
    }

    /// The right to fetch something that will never be found: a pass.
    pub fn private(&self) -> Busy {
        let boc = Arc::new(Boc::new(Digest([0; 32]), true, self.0.hot_params.transit_buffer(), None));
        let oc = Objcore::busy(self.0.main, boc.clone());
        Busy::new(self.clone(), oc, boc, true)
    }

    pub(crate) fn shared(&self) -> &Arc<CacheShared> {
        &self.0
    }

    /// Wakes as many of those parked on `digest` as the parameter says.
    pub(crate) fn rush(&self, digest: &Digest) {
        let max = self.0.params.load().rush_exponent;
        let called = self.0.shard(digest).lock().heads.call_waiters(digest, max, RushReason::LookAgain);
        self.wake(called);
    }

    /// Wakes those who were called, after the unlock.
    pub(crate) fn wake(&self, mut called: Vec<Called>) {
        if base::failpoint::fault("a lost wake-up") {
            called.pop();
        }
        if !called.is_empty() {
            self.0.main.busy_wakeup.add(called.len() as u64);
        }
        called.into_iter().for_each(Called::wake);
    }

    pub(crate) fn leave_waitinglist(&self, digest: &Digest, turn: &Turn<RushReason>) -> Option<RushReason> {
        self.0.shard(digest).lock().heads.leave(digest, turn)
    }

    /// Objcores in the index and in the expiry heaps, and objheads: for tests and for the panic report.
    pub fn census(&self) -> (usize, usize, usize) {
        self.0.shards.iter().fold((0, 0, 0), |sum, shard| {
            let shard = shard.lock();
            (sum.0 + shard.heads.all().count(), sum.1 + shard.heap.len(), sum.2 + shard.heads.len())
        })
    }
}

/// Most objects evicted from a front for one block. `nuke_limit` doesn't count these, since the home still has them;
/// otherwise a front full of short objects would have no room for a long one. So many objects hold far more bytes than
/// a block.
const FRONT_NUKES: u32 = 1024;

/// The counter of objects that may still be evicted from a store: one for the whole object, or, for a front, one for
/// each block.
fn nukes_of<'a>(store: &Store, for_all: &'a mut u32, for_each: &'a mut u32) -> &'a mut u32 {
    if store.home().is_some() { for_each } else { for_all }
}

impl CacheShared {
    pub fn shard(&self, digest: &Digest) -> &CacheShard {
        &self.shards[digest.shard(self.shards.len())]
    }

    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    pub fn now(&self) -> Mono {
        self.clock.mono()
    }

    /// Takes a stored objcore out of index, heap and lists. The caller drops the handle after the unlock.
    pub fn unlink(&self, shard: &mut ShardGuard<'_>, oc: &Arc<Objcore>, cause: TombstoneCause) -> Arc<Objcore> {
        self.tombstones.note(&oc.digest(), cause, self.now());
        assert_eq!(oc.state(), ObjcoreStage::Stored, "only what is stored can be taken out");
        oc.set_state(ObjcoreStage::Dying);
        self.forget_record(oc);
        match cause {
            // The copy is what is left of it, or goes by its time as well.
            TombstoneCause::Evicted | TombstoneCause::Expired | TombstoneCause::ZeroTtl => {}
            TombstoneCause::Banned
            | TombstoneCause::Purged
            | TombstoneCause::VaryLimit
            | TombstoneCause::Replaced
            | TombstoneCause::FetchFailed => self.end_copy(oc),
        }
        let removed = shard.heads.remove(oc);
        shard.tails -= u64::from(oc.has_tail());
        if oc.bytes().is_some() {
            self.tenants.note_gone(oc);
        }
        shard.heap.remove(oc);
        shard.publish_next_expiry();
        self.evictors[oc.store() as usize].remove(oc);
        self.bans.detach(oc);
        self.tags.detach(oc);
        removed
    }

    pub fn arm(&self, shard: &mut ShardGuard<'_>, oc: &Arc<Objcore>, when: Mono) {
        shard.heap.set(oc, when);
        shard.publish_next_expiry();
    }

    /// Takes an object out for good, if it is still there; whether it was.
    pub fn kill(&self, oc: &Arc<Objcore>, cause: TombstoneCause) -> bool {
        let dead = {
            let mut shard = self.shard(&oc.digest()).lock();
            (oc.state() == ObjcoreStage::Stored
                && shard.heads.objcs(&oc.digest()).iter().any(|other| Arc::ptr_eq(other, oc)))
            .then(|| self.unlink(&mut shard, oc, cause))
        };
        dead.is_some()
    }

    /// Invalidates the object by the invalidation of this number: at once, or soon if requests wait that may be older.
    /// Returns `true` for its first invalidation.
    pub fn invalidate(&self, oc: &Arc<Objcore>, seq: u64, cause: TombstoneCause) -> bool {
        let (dead, first) = {
            let mut shard = self.shard(&oc.digest()).lock();
            if oc.state() != ObjcoreStage::Stored {
                return false;
            }
            if shard.heads.has_waiters(&oc.digest()) || shard.recent_rushes.has(oc, self.now()) {
                let when = self.overtaken_until();
                self.arm(&mut shard, oc, when);
                self.forget_record(oc);
                self.end_copy(oc);
                return oc.overtake(seq);
            }
            let first = !oc.is_overtaken();
            (self.unlink(&mut shard, oc, cause), first)
        };
        drop(dead);
        first
    }

    /// Moment at which an objcore that is overtaken now during its fetch leaves the cache.
    pub fn overtaken_until(&self) -> Mono {
        self.now().plus(OVERTAKEN_LIFE)
    }

    /// Settles a completed object with these bytes. It survives the worker from now on if it has a record, and may be
    /// evicted; from a store without a limit only after [`Cache::evict_unlimited`]. `copy` is its stored copy, with the
    /// times written there.
    pub fn settle(&self, oc: &Arc<Objcore>, bytes: ObjBytes, copy: Option<(HomeId, ObjectTimes)>) {
        let mut shard = self.shard(&oc.digest()).lock();
        oc.set_bytes(bytes);
        if let Some((id, times)) = copy {
            self.settle_copy(oc, id, times);
        }
        if oc.state() == ObjcoreStage::Stored {
            shard.tails += u64::from(oc.has_tail());
            self.tenants.note_come(oc);
            if self.is_evictable(oc) {
                self.evictors[oc.store() as usize].add(oc, 0);
            }
            self.publish_record(oc);
        }
    }

    /// An object of a former worker may be evicted; the uses it had there count, as far as its record knows of them. The
    /// caller has the shard's lock.
    pub fn evictable_again(&self, oc: &Arc<Objcore>) {
        if self.is_evictable(oc) {
            self.evictors[oc.store() as usize].add(oc, oc.hits());
        }
    }

    fn is_evictable(&self, oc: &Objcore) -> bool {
        self.may_evict_from(oc.store())
    }

    /// Evicts until `store` has `needed` bytes free, while `nukes_left` allows. False: it hasn't. The room is for an
    /// object of the tenant `payer`.
    pub fn make_room(
        &self,
        store: &Store,
        payer: u16,
        needed: u64,
        nukes_left: &mut u32,
        events: &mut Vec<CacheEvent>,
    ) -> bool {
        let mut for_each = FRONT_NUKES;
        let nukes_left = nukes_of(store, nukes_left, &mut for_each);
        while store.free_bytes().is_some_and(|free| free < needed) {
            if store.limit_bytes().is_some_and(|limit| limit < needed)
                || !self.nuke(store, payer, needed, nukes_left, events)
            {
                return false;
            }
        }
        true
    }

    /// A block of `store` for an object of the tenant `payer`, making room by eviction while `nukes_left` allows.
    pub fn block(
        &self,
        store: &Store,
        payer: u16,
        parts: &[&[u8]],
        nukes_left: &mut u32,
        events: &mut Vec<CacheEvent>,
    ) -> Result<Buf, NoSpace> {
        let mut for_each = FRONT_NUKES;
        let nukes_left = nukes_of(store, nukes_left, &mut for_each);
        loop {
            let full = match store.block(parts) {
                Ok(buf) => return Ok(buf),
                Err(full) => full,
            };
            if !self.nuke(store, payer, full.needed, nukes_left, events) {
                return Err(full);
            }
        }
    }

    /// Evicts one object for another, or a form of little use. Returns `false` if there is none, or the limit is
    /// reached.
    fn nuke(&self, store: &Store, payer: u16, needed: u64, nukes_left: &mut u32, events: &mut Vec<CacheEvent>) -> bool {
        if self.give_up_idle_form(store) {
            return true;
        }
        if *nukes_left == 0 {
            self.main.n_lru_limited.inc();
            events.push(CacheEvent::NukeLimit);
            return false;
        }
        *nukes_left -= 1;
        let event = self.evict_one(store.id(), Some((payer, needed)));
        let has_gone = event.is_some();
        events.push(event.unwrap_or(CacheEvent::NothingToEvict));
        has_gone
    }

    /// Evicts the object that should go next, for so many bytes of the tenant `wanted`; `None`: for nobody.
    pub fn evict_one(&self, store: StoreId, wanted: Option<(u16, u64)>) -> Option<CacheEvent> {
        let mut steps = 0;
        loop {
            let Some(oc) = self.evictors[store as usize].victim(self.stores.get(store), wanted) else {
                if self.adopt_for_room(&mut steps) {
                    continue;
                }
                return None;
            };
            let xid = oc.xid();
            if self.kill(&oc, TombstoneCause::Evicted) {
                self.main.n_lru_nuked.inc();
                self.tenants.count(oc.tenant(), |row| row.counters().evicted.inc());
                return Some(CacheEvent::Evicted(xid));
            }
        }
    }
}
