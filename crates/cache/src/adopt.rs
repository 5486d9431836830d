// SPDX-License-Identifier: BSD-2-Clause
//! Objects that outlive their worker: the record of each is kept in step with its objcore here, and a new worker makes
//! objcores of the records that it finds (adopts the survivors of the former one).
//!
//! What holds:
//! * A record is published once its object is whole and in the index, and forgotten at the moment at which the object
//!   leaves the index, or is there only for requests that are older than an invalidation. Both under the shard's lock.
//! * While survivors remain, a lookup, a purge or a forced miss adopts those of its digest first, so that what is in the index
//!   under a digest is never older than a survivor of it; a walk adopts the rest. All of that goes by [`CacheShared::adopt`],
//!   which holds the shard's lock from the moment at which a survivor is given out until it is in the index: an
//!   invalidation finds it in one place or in the other.
//! * Until the walk is done no ban leaves the list or counts as done ([`crate::ban`]), and purges by key are held for
//!   those that come later ([`crate::tags`]).
//! * A survivor that can't be judged isn't served: the caller says with [`Cache::adopt_survivors`] that the list of bans and
//!   the purges by key are those of the former worker, or drops all survivors with [`Cache::disown_survivors`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};

use base::Mono;
use base::critical::Lock;
use storage::{Cursor, HeadLengths, Record, RecordId, StoreId, Survivor};

use crate::attrs::ObjectFlags;
use crate::cache::{Cache, CacheShared};
use crate::digest::Digest;
use crate::events::CacheEvent;
use crate::objcore::{NO_BAN, ObjBytes, Objcore, ObjcoreStage};
use crate::tags::{self, HeldPurge};
use crate::tenants::{self, Tenant};
use crate::tombstones::TombstoneCause;

/// Digests that a step of the walk takes from a store.
const STRIDE: usize = 64;

/// Steps of the walk made for one eviction from a store that is full of survivors, at most.
const STEPS_FOR_ROOM: usize = 16;

/// Seconds that a time of origin may be ahead of now; a record with a later one is damaged.
const AHEAD: f64 = 1.0;

#[derive(Default)]
pub(crate) struct Adoption {
    is_on: AtomicBool,
    /// Held during a step: the thread that finds the walk's end knows that no earlier step is still in progress.
    walk: Lock<Walk>,
}

#[derive(Default)]
struct Walk {
    store: usize,
    cursor: Cursor,
}

impl Adoption {
    /// True while there may be survivors that aren't in the index.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Acquire)
    }
}

/// Things to be freed after the shard's lock is released.
#[derive(Default)]
struct Rejects {
    survivors: Vec<Survivor>,
    objcs: Vec<Arc<Objcore>>,
    events: Vec<CacheEvent>,
}

impl Cache {
    /// Begins to adopt the survivors of a former worker: whether there are any. Before the first lookup, and after the
    /// bans and purges by key of that worker are known here again; [`Cache::adopt_some`] does the rest.
    pub fn adopt_survivors(&self) -> bool {
        let shared = self.shared();
        let has_survivors = self.stores().all().iter().any(|store| store.is_adopting());
        if has_survivors {
            shared.bans.hold();
            shared.adoption.is_on.store(true, Release);
        } else {
            shared.release_tags();
        }
        self.redo_purges(has_survivors);
        has_survivors
    }

    /// Forgets all survivors of a former worker, because it is unknown which of them were banned or purged. Call it
    /// before the first lookup, instead of [`Cache::adopt_survivors`].
    pub fn disown_survivors(&self) {
        assert!(!self.is_adopting(), "survivors are adopted or disowned");
        self.shared().release_tags();
        for store in self.stores().all().iter().filter(|store| store.is_adopting()) {
            let mut cursor = Cursor::default();
            while let Some(digests) = store.next_digests(&mut cursor, STRIDE) {
                let survivors = digests.iter().flat_map(|digest| store.survivors(digest));
                survivors.for_each(|survivor| store.forget(survivor.id));
            }
            store.sweep();
        }
    }

    pub fn is_adopting(&self) -> bool {
        self.shared().adoption.is_on()
    }

    /// Number of objects that a former worker left, adopted or not. It takes long: don't call it on a serving thread.
    pub fn left_by_former(&self) -> usize {
        self.stores().all().iter().filter(|store| store.is_adopting()).map(|store| store.published()).sum()
    }

    /// Adopts the survivors of about `budget` more digests, and calls `tell` for those that have expired. Returns
    /// `false` if none are left and all memory that no record holds is free. Don't call it on a serving thread: the
    /// last step takes a while.
    pub fn adopt_some(&self, budget: usize, tell: &mut dyn FnMut(CacheEvent)) -> bool {
        let shared = self.shared();
        for _ in 0..budget.div_ceil(STRIDE) {
            if !shared.walk_on(tell) {
                shared.end_adoption();
                return false;
            }
        }
        true
    }

    /// Holds a purge by key of the former worker, with its number, that may not have reached all objects. Each survivor
    /// with that key whose fetch began earlier counts as purged, softly if a moment is given. Call it before
    /// [`Cache::adopt_survivors`].
    pub fn hold_tag_purge(&self, key: &[u8], soft: Option<base::Mono>, seq: u64) {
        self.shared().tags.hold(key, soft, seq);
    }
}

impl CacheShared {
    /// Adopts the survivors of a digest, and calls `tell` for those that have expired. Returns `true` if there were
    /// any.
    pub fn adopt(&self, digest: &Digest, tell: &mut dyn FnMut(CacheEvent)) -> bool {
        let Some(tenants) = self.tenants_of_survivors(digest) else { return false };
        let mut rejects = Rejects::default();
        let has_survivors = {
            let mut shard = self.shard(digest).lock();
            let survivors = self.survivors(digest);
            let has_survivors = !survivors.is_empty();
            let judged = survivors
                .into_iter()
                .filter_map(|(store, survivor)| self.judge(store, survivor, &tenants, &mut rejects));
            let objcs: Vec<Arc<Objcore>> = judged.collect();
            shard.heads.adopt(digest, &objcs, self.hot_params.vary_notice());
            for oc in &objcs {
                shard.tails += u64::from(oc.has_tail());
                self.arm(&mut shard, oc, oc.times().dead_at());
                self.evictable_again(oc);
            }
            has_survivors
        };
        rejects.events.drain(..).for_each(tell);
        has_survivors
    }

    /// The tenants of a digest's survivors, whose rows stay as long as this does; `None` if there are no survivors. A new
    /// tenant's counters may need a file, so this comes before the shard's lock is taken. Survivors only become fewer.
    fn tenants_of_survivors(&self, digest: &Digest) -> Option<Vec<(String, Tenant)>> {
        let tags: Vec<_> = self.stores().all().iter().flat_map(|store| store.survivor_tags(&digest.0)).collect();
        let name = |bytes: &Vec<u8>| tags::decoded(bytes).and_then(|(_, mut keys)| tenants::take_name(&mut keys));
        (!tags.is_empty())
            .then(|| tags.iter().filter_map(name).map(|name| (name.clone(), self.tenant(&name))).collect())
    }

    /// Oldest first, as far as that is known: two stores don't know of each other.
    fn survivors(&self, digest: &Digest) -> Vec<(StoreId, Survivor)> {
        let mut survivors = Vec::new();
        for store in self.stores().all().iter().filter(|store| store.is_adopting()) {
            survivors.extend(store.survivors(&digest.0).into_iter().map(|found| (store.id(), found)));
        }
        if survivors.first().map(|first| first.0) != survivors.last().map(|last| last.0) {
            survivors.sort_by(|a, b| a.1.record.times.t_origin.0.total_cmp(&b.1.record.times.t_origin.0));
        }
        survivors
    }

    /// Makes an objcore of a survivor, or forgets it.
    fn judge(
        &self,
        store: StoreId,
        survivor: Survivor,
        tenants: &[(String, Tenant)],
        rejects: &mut Rejects,
    ) -> Option<Arc<Objcore>> {
        let (record, id, now) = (survivor.record, survivor.id, self.now());
        let times = record.times;
        let sound = sound_flags(&record, survivor.head.len(), survivor.rest.is_none(), now);
        let is_over = times.ttl <= 0.0 || times.dead_at().0 <= now.0;
        let known = sound.zip(tags::decoded(&survivor.tags)).filter(|_| !is_over);
        let Some((flags, (began, mut keys))) = known else {
            if is_over {
                self.tell_over(&record, rejects);
            }
            self.refuse(store, id);
            rejects.survivors.push(survivor);
            return None;
        };
        let bytes = ObjBytes::new(survivor.head, survivor.rest, &record);
        let oc = Objcore::adopted(flags, store, bytes, self.main);
        if let Some(name) = tenants::take_name(&mut keys) {
            let Some((_, tenant)) = tenants.iter().find(|(own, _)| *own == name) else {
                // Another text than a moment before: the record is damaged.
                self.refuse(store, id);
                rejects.objcs.push(oc);
                return None;
            };
            oc.set_tenant(tenant.id());
            self.tenants.note_come(&oc);
        }
        oc.note_use(now);
        if let Some(cause) = self.overtaken_meanwhile(&oc, &keys, began, record.ban_seq) {
            self.tombstones.note(&oc.digest(), cause, now);
            self.tags.detach(&oc);
            self.tenants.note_gone(&oc);
            self.refuse(store, id);
            rejects.objcs.push(oc);
            return None;
        }
        self.main.adopted.inc();
        Some(oc)
    }

    /// Applies the bans and purges that came while an object was in no index. Returns the cause if the object has
    /// ended. Its fetch began at number `began`, and it was tested against the bans up to `ban_seq`. May shorten its
    /// times.
    pub fn overtaken_meanwhile(
        &self,
        oc: &Arc<Objcore>,
        keys: &[Box<[u8]>],
        began: u64,
        ban_seq: u64,
    ) -> Option<TombstoneCause> {
        let held = self.tags.adopt(oc, keys, began);
        if let HeldPurge::Soft(at) = held {
            oc.set_times(tags::softened(oc.times(), at));
        }
        if oc.times().dead_at().0 <= self.now().0 {
            return Some(TombstoneCause::Expired);
        }
        (held == HeldPurge::Hard || !self.bans.adopt(oc, ban_seq)).then_some(TombstoneCause::Purged)
    }

    fn tell_over(&self, record: &Record, rejects: &mut Rejects) {
        let now = self.now();
        self.tombstones.note(&Digest(record.digest), TombstoneCause::Expired, now);
        self.main.n_expired.inc();
        let ttl_left = record.times.fresh_until(None).since(now);
        let (xid, hits) = (base::Vxid(record.xid), record.hits);
        rejects.events.push(CacheEvent::Expired { xid, ttl_left, hits, is_purged: false });
    }

    fn refuse(&self, store: StoreId, record: RecordId) {
        self.stores().get(store).forget(record);
        self.main.adopt_refused.inc();
    }

    /// Makes one step of the walk; returns `false` at its end. Calls `tell` for expired survivors after the unlock.
    fn walk_on(&self, tell: &mut dyn FnMut(CacheEvent)) -> bool {
        if !self.adoption.is_on() {
            return false;
        }
        let mut over = Vec::new();
        let goes_on = self.step(&mut self.adoption.walk.lock(), &mut over);
        over.into_iter().for_each(tell);
        goes_on
    }

    /// Adopts the next of the walk; false at its end.
    fn step(&self, walk: &mut Walk, over: &mut Vec<CacheEvent>) -> bool {
        while let Some(store) = self.stores().all().get(walk.store) {
            let digests = store.is_adopting().then(|| store.next_digests(&mut walk.cursor, STRIDE)).flatten();
            if let Some(digests) = digests {
                for digest in digests {
                    self.adopt(&Digest(digest), &mut |event| over.push(event));
                }
                return true;
            }
            *walk = Walk { store: walk.store + 1, cursor: Cursor::default() };
        }
        false
    }

    /// Adopts some survivors so that they can be evicted; false when there are none.
    pub fn adopt_for_room(&self, steps: &mut usize) -> bool {
        *steps += 1;
        *steps <= STEPS_FOR_ROOM && self.walk_on(&mut |_| {})
    }

    fn end_adoption(&self) {
        // A thread that took survivors before that held its shard's lock: they are in the index now.
        self.shards.iter().for_each(|shard| drop(shard.lock()));
        if !self.adoption.is_on.swap(false, Release) {
            return;
        }
        self.bans.release();
        self.release_tags();
        self.bans.log.all_done();
        self.stores().all().iter().filter(|store| store.is_adopting()).for_each(|store| store.sweep());
    }
}

/// The record of an objcore. The caller has the shard's lock, but for [`CacheShared::record_of`] and [`CacheShared::is_to_survive`].
impl CacheShared {
    /// The record of a fetched object. Some of it may change until the object has its bytes: see
    /// [`Objcore::set_bytes`].
    pub fn record_of(&self, oc: &Objcore, lengths: HeadLengths) -> Record {
        let (ban_seq, flags) = (oc.ban_seq.get(), oc.flags().bits().into());
        Record { ban_seq, flags, lengths, ..oc.with_facts(|facts| facts.record()) }
    }

    /// True if lookups may find the object later. Otherwise a record is of no use.
    pub fn is_to_survive(&self, oc: &Objcore) -> bool {
        let is_found = oc.times().ttl > 0.0 && oc.ban_seq.get() != NO_BAN;
        is_found && oc.state() == ObjcoreStage::Stored && !oc.is_overtaken()
    }

    /// Makes a complete object survive the worker, unless it has left the index or is only there for older requests.
    pub fn publish_record(&self, oc: &Objcore) {
        let Some(record) = oc.record() else { return };
        if oc.state() != ObjcoreStage::Stored || oc.is_overtaken() {
            return;
        }
        self.stores().get(oc.store()).publish(record);
    }

    pub fn forget_record(&self, oc: &Objcore) {
        if base::failpoint::fault("a record that outlives its object") {
            return;
        }
        if let Some(record) = oc.record() {
            self.stores().get(oc.store()).forget(record);
        }
    }
}

/// The flags of an object, if its record is consistent with its head block of `bytes`, behind which its body may be, and
/// its times are those of an object.
pub(crate) fn sound_flags(record: &Record, bytes: usize, has_body: bool, now: Mono) -> Option<ObjectFlags> {
    let are_sound = record.times.are_finite() && record.times.t_origin.0 <= now.0 + AHEAD;
    flags_of_parts(record, bytes, has_body).filter(|_| are_sound)
}

/// The flags of an object, if its record is consistent with its head block of `bytes`.
pub(crate) fn flags_of_parts<T>(record: &Record<T>, bytes: usize, has_body: bool) -> Option<ObjectFlags> {
    let len = record.lengths.all();
    let fits = if has_body { len <= bytes } else { len == bytes };
    ObjectFlags::of_stored(record.flags).filter(|_| fits)
}
