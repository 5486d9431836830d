// SPDX-License-Identifier: BSD-2-Clause
//! Stored copies: the objects that a store's home (a disk) has, beside those in memory, the store's front.
//!
//! Invariants:
//! * A fetch writes its object into front and home at once, and its objcore names the stored copy ([`Objcore::home`]).
//!   Eviction removes the objcore and leaves the copy. Whatever ends the object (purge, ban, refresh, loss) or changes
//!   its times ends the copy first, under the shard's lock. An expired copy needs no such step.
//! * A lookup that would end with a right to fetch asks the homes, without I/O. If they may have the object, the right
//!   goes into a [`HomeRead`], for which the request waits ([`crate::Pending`]). It reads one candidate after the other and
//!   puts it into the index as it was, until a look finds something to deliver. So freshness, Vary, bans and keys are
//!   judged where they always are.
//! * A candidate that was removed while it was read isn't adopted. This is checked under the shard's lock, which purges
//!   take, too. Bans and purges by key, which don't know the contents of a home, are kept for as long as a stored copy
//!   may need them ([`CacheShared::least_stored`]).

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use base::Real;
use storage::{
    BodyBlocks, Buf, CopyJudge, HomeId, HomeRest, LoadFuture, ObjectTimes, Record, Rest, SMALL_BODY, Store, StoreId,
    Stored,
};

use crate::adopt::{flags_of_parts, sound_flags};
use crate::ban::UnlistedObject;
use crate::busy::Busy;
use crate::cache::{Cache, CacheShared, ShardGuard, ShardInner};
use crate::digest::Digest;
use crate::events::CacheEvent;
use crate::objcore::{ObjBytes, Objcore, ObjcoreStage};
use crate::tags;
use crate::tenants::{self, NO_TENANT, Tenant};

/// Candidates that one lookup reads at most, the newest of them.
const MOST_LOADS: usize = 32;
/// Two times of origin that differ by less are the same: clocks are translated between.
const SAME_ORIGIN: f64 = 0.01;

/// A stored copy that may be what a lookup seeks.
pub(crate) type HomeCandidate = (StoreId, HomeId);

/// The right to fetch, while the homes of stores are asked first. Dropped, it gives back the right.
pub(crate) struct HomeRead {
    cache: Cache,
    digest: Digest,
    busy: Option<Busy>,
    candidates: VecDeque<HomeCandidate>,
    load: Option<(StoreId, LoadFuture)>,
    nukes_left: u32,
    events: Vec<CacheEvent>,
}

/// The right to fetch that a lookup holds, and the remaining candidates once they are known.
#[derive(Default)]
pub(crate) struct Right {
    pub busy: Option<Busy>,
    pub candidates: Option<VecDeque<HomeCandidate>>,
}

impl Right {
    pub fn is_of(&self, oc: &Arc<Objcore>) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.is_of(oc))
    }
}

impl HomeRead {
    pub fn new(cache: &Cache, busy: Busy, digest: Digest, candidates: VecDeque<HomeCandidate>) -> HomeRead {
        let nukes_left = cache.shared().hot_params.nuke_limit();
        let busy = Some(busy);
        HomeRead { cache: cache.clone(), digest, busy, candidates, load: None, nukes_left, events: Vec::new() }
    }

    /// Stops reading: copies that aren't loaded by now are fetched instead.
    pub fn give_up(&mut self) {
        self.cache.shared().main.home_late.inc();
        self.load = None;
        self.candidates.clear();
    }

    /// Gives the next look the right to fetch and the candidates that weren't read.
    pub fn end(mut self, events: &mut Vec<CacheEvent>) -> Right {
        events.append(&mut self.events);
        Right { busy: self.busy.take(), candidates: Some(std::mem::take(&mut self.candidates)) }
    }

    /// Ready once another object is in the index, or nothing is left to be read.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let shared = self.cache.shared();
        loop {
            if self.load.is_none() {
                let Some((store, id)) = self.candidates.pop_front() else { return Poll::Ready(()) };
                let home = shared.stores().get(store).home().expect("a candidate is of a store with a home");
                self.load = Some((store, home.load(&self.digest.0, id)));
            }
            let Some((store, load)) = &mut self.load else { continue };
            let Poll::Ready(loaded) = load.as_mut().poll(cx) else { return Poll::Pending };
            let store = *store;
            self.load = None;
            let is_adopted = match loaded {
                Ok(stored) => shared.adopt_copy(store, stored, &mut self.nukes_left, &mut self.events),
                Err(_) => {
                    shared.main.home_fail.inc();
                    false
                }
            };
            if is_adopted {
                return Poll::Ready(());
            }
        }
    }
}

impl Drop for HomeRead {
    fn drop(&mut self) {
        self.busy.take().into_iter().for_each(Busy::release);
    }
}

impl std::fmt::Debug for HomeRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HomeRead({:?}, {} left)", self.busy, self.candidates.len())
    }
}

impl CacheShared {
    /// Copies that the homes may have of a digest and that aren't in the index.
    pub fn candidates(&self, shard: &ShardInner, digest: &Digest) -> VecDeque<HomeCandidate> {
        let mut found = VecDeque::new();
        for &store in &self.homes {
            let home = self.stores().get(store).home().expect("these are the stores with a home");
            let ids = home.find(&digest.0);
            if ids.is_empty() {
                continue;
            }
            let known = |id| shard.heads.objcs(digest).iter().any(|oc| oc.store() == store && oc.home() == Some(id));
            found.extend(ids.into_iter().filter(|&id| !known(id)).map(|id| (store, id)).take(MOST_LOADS));
        }
        found
    }

    /// The number of an invalidation that all stored copies have stood, and all before it.
    pub fn least_stored(&self) -> u64 {
        let homes = self.homes.iter().filter_map(|&store| self.stores().get(store).home());
        homes.filter_map(|home| home.least_ban_seq()).min().unwrap_or(u64::MAX)
    }

    /// [`CacheShared::least_stored`] for purges by key: of no survivor, that is.
    pub fn least_stored_of_homes(&self) -> u64 {
        if self.adoption.is_on() { 0 } else { self.least_stored() }
    }

    /// From time to time: [`CacheShared::least_stored`], and purges by key that concern no stored copy any more are let go.
    pub fn trim_to_stored(&self) -> u64 {
        let least_stored = self.least_stored();
        if !self.homes.is_empty() && !self.adoption.is_on() {
            self.tags.release(least_stored);
        }
        least_stored
    }

    /// Releases purges by key that were held for survivors and that concern no stored copy. Call it when no more
    /// survivors come.
    pub fn release_tags(&self) {
        self.tags.release(self.least_stored());
    }

    /// An invalidation of that number removes all copies of a digest; how many could be found.
    pub fn purge_copies(&self, digest: &Digest, seq: u64) -> usize {
        let homes = self.homes.iter().filter_map(|&store| self.stores().get(store).home());
        homes.map(|home| home.remove_all(&digest.0, seq)).sum()
    }

    /// The object's copy isn't to be found any more. The caller has the shard's lock.
    pub fn end_copy(&self, oc: &Objcore) {
        if let (Some(id), Some(home)) = (oc.home(), self.stores().get(oc.store()).home()) {
            oc.set_home(None);
            home.remove(&oc.digest().0, id);
        }
    }

    /// [`Objcore::set_times`] of a stored object. Ends its copy, which has the old times. The caller has the shard's
    /// lock.
    pub fn set_times(&self, oc: &Objcore, times: ObjectTimes) -> bool {
        self.end_copy(oc);
        oc.set_times(times)
    }

    /// Notes the copy of a complete object, unless the object has ended meanwhile or its times have changed. The caller
    /// has the shard's lock.
    pub fn settle_copy(&self, oc: &Objcore, id: HomeId, times: ObjectTimes) {
        oc.set_home(Some(id));
        if oc.state() != ObjcoreStage::Stored || oc.is_overtaken() || oc.times() != times {
            self.end_copy(oc);
        }
    }

    /// Puts a stored copy into the index as the object that it was; whether there is one more now.
    fn adopt_copy(&self, store: StoreId, stored: Stored, nukes_left: &mut u32, events: &mut Vec<CacheEvent>) -> bool {
        let (record, now) = (self.here(&stored.record), self.now());
        let lives = record.times.ttl > 0.0 && record.times.dead_at().0 > now.0;
        let flags = sound_flags(&record, stored.head.len(), false, now).filter(|_| lives);
        let Some((flags, (began, mut keys))) = flags.zip(tags::decoded(&stored.tags)) else { return false };
        let store = self.stores().get(store);
        let tenant = self.take_tenant(&mut keys);
        let payer = tenant.as_ref().map_or(NO_TENANT, Tenant::id);
        let Some(bytes) = self.brought_to_front(store, payer, &stored, &record, nukes_left, events) else {
            return false;
        };
        let home = store.home().expect("it came from there");
        let digest = Digest(record.digest);
        let oc = Objcore::adopted(flags, store.id(), bytes, self.main);
        oc.set_tenant(payer);
        oc.note_use(now);
        let kept_times = oc.times();
        let is_adopted = {
            let mut shard = self.shard(&digest).lock();
            // What was purged meanwhile isn't held any more, or will be removed once this lock is free.
            if !home.holds(&digest.0, stored.id) || self.is_known(&shard, &oc, stored.id) {
                false
            } else if let Some(cause) = self.overtaken_meanwhile(&oc, &keys, began, record.ban_seq) {
                self.tombstones.note(&digest, cause, now);
                self.tags.detach(&oc);
                home.remove(&digest.0, stored.id);
                false
            } else {
                oc.set_home(Some(stored.id));
                if oc.times() != kept_times {
                    self.end_copy(&oc);
                }
                shard.tails += u64::from(oc.has_tail());
                self.tenants.note_come(&oc);
                shard.heads.insert_by_age(&oc, self.hot_params.vary_notice());
                self.arm(&mut shard, &oc, oc.times().dead_at());
                self.evictable_again(&oc);
                true
            }
        };
        if is_adopted {
            home.note_use(&digest.0, stored.id);
            self.main.home_loads.inc();
        }
        is_adopted
    }

    /// True if the object of that copy is in the index already. The copy was then moved, and `id` is its name now.
    fn is_known(&self, shard: &ShardGuard<'_>, new: &Objcore, id: HomeId) -> bool {
        let is_same = |oc: &&Arc<Objcore>| {
            oc.xid() == new.xid()
                && oc.store() == new.store()
                && oc.state() == ObjcoreStage::Stored
                && oc.times().t_origin.since(new.times().t_origin).abs() < SAME_ORIGIN
        };
        let Some(known) = shard.heads.objcs(&new.digest()).iter().find(is_same) else { return false };
        let is_as_written = known.times().dead_at().since(new.times().dead_at()).abs() < SAME_ORIGIN;
        if known.bytes().is_some() {
            known.set_home(Some(id));
            if known.is_overtaken() || !is_as_written {
                self.end_copy(known);
            }
        }
        true
    }

    /// Moves the head, and a body that came with it, to the front; `None` if there is no room.
    fn brought_to_front(
        &self,
        store: &Store,
        payer: u16,
        stored: &Stored,
        record: &Record,
        nukes_left: &mut u32,
        events: &mut Vec<CacheEvent>,
    ) -> Option<ObjBytes> {
        let at_hand = stored.body.at_hand();
        let (beside, rest) = match &at_hand {
            None if stored.body.is_empty() => (&[][..], None),
            None => (&[][..], Some(Rest::Home(Box::new(HomeRest::new(stored.body.clone()))))),
            Some(body) if body.len() as u64 <= SMALL_BODY => (&body[..], None),
            Some(body) => {
                let mut blocks = BodyBlocks::default();
                blocks.push(self.block(store, payer, &[body], nukes_left, events).ok()?);
                (&[][..], Some(Rest::Blocks(blocks.pieces().cloned().collect())))
            }
        };
        let buf: Buf = self.block(store, payer, &[&stored.head, beside], nukes_left, events).ok()?;
        Some(ObjBytes::new(buf, rest, record))
    }

    /// The record of a stored copy, with the time of origin on this process's clock.
    fn here(&self, record: &Record<Real>) -> Record {
        record.on_clock(|real| self.clock.mono_of(real))
    }
}

/// Answers a home's questions from the cache's state.
#[derive(Debug)]
pub(crate) struct HomeJudge(Weak<CacheShared>);

impl HomeJudge {
    pub fn new(cache: &Cache) -> HomeJudge {
        HomeJudge(Arc::downgrade(cache.shared()))
    }
}

impl CopyJudge for HomeJudge {
    fn judge(&self, record: &Record<Real>, head: &[u8], tags: &[u8]) -> Option<u64> {
        let shared = self.0.upgrade()?;
        // Read first: what has a higher number is still to come.
        let newest = shared.bans.seq();
        let flags = flags_of_parts(record, head.len(), false)?;
        let (began, mut keys) = tags::decoded(tags)?;
        // The name is compared, not the row: tenants may share a row, and a ban knows the name.
        let tenant = tenants::take_name(&mut keys);
        if shared.tags.is_held(&keys, began) {
            return None;
        }
        let bytes = ObjBytes::new(Buf::unaccounted(head.to_vec()), None, &shared.here(record));
        let oc = Objcore::adopted(flags, 0, bytes, shared.main);
        let object = UnlistedObject { oc: &oc, tags: &keys, tenant: tenant.as_deref() };
        shared.bans.judge(&shared, &object, record.ban_seq, newest)
    }
}
