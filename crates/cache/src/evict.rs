// SPDX-License-Identifier: BSD-2-Clause
//! Which object goes when a store is full: the one with the least use for its bytes (greedy dual, by size and frequency).
//!
//! An object's rank = the clock at the last look + uses x value / size. The object with the least rank goes, and its rank
//! becomes the clock, so that what nobody asks for grows old. A hit only bumps a number in the objcore; it counts when the
//! object's turn has come: then it gets a new rank instead. What has gone is remembered for a while with its uses.
//!
//! The value of a use is one hit, or the time that the origin took ([`EvictBy`]). So that most bytes hit, the use is divided
//! by the root of the size instead, and a single use counts as a quarter: with the size itself as value, small objects lose
//! more requests than large ones win bytes. Times and roots are in units of the average, so that ranks of different kinds
//! can be compared after a change of the parameter.
//!
//! Simulated (bench/policies.py; a tenth of the bytes, sizes 0.5 to 32 KB): 0.70 of a zipf trace's requests hit, with
//! S3-FIFO 0.65, LRU 0.61; with scans in it 0.53, 0.50, 0.44; while popularity drifts 0.60, 0.53, 0.54. Of the bytes 0.68
//! hit, with S3-FIFO 0.70: small objects stay for large ones. So that large ones in steady use stay too, none counts as
//! larger than [`LARGEST`] average ones.
//!
//! Each tenant has a heap and a clock of its own. The next victim is an object of the tenant that holds the most for its
//! share, with the bytes of its fetches in progress. Tenants that want more than there is end with equally much for their
//! shares, and a tenant that wants less loses nothing (max-min fairness). Room for a tenant that holds as much as any is
//! made by its own objects; if it has none to give, it gets no room.
//!
//! `lacquer simulate` repeats this arithmetic (`tools/simulate/src/policy.rs`): a change here is one there, too.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::critical::Lock;
use storage::Store;
use tables::choices::EvictBy;
use tables::counters::Main;

use crate::digest::Digest;
use crate::objcore::{NO_SLOT, Objcore};
use crate::rows::Rows;
use crate::tenants::{NO_TENANT, Tenants};
use crate::worth::{MAX_USES, Worth};

/// Handles on an idle object: index, expiry heap, and this list.
const IDLE_HANDLES: usize = 3;
/// Times the average size.
const LARGEST: u64 = 8;
/// Amount that one use of an object of 16 bytes adds to the clock.
const SCALE: u64 = 1 << 24;
/// With [`EvictBy::Bytes`] a single use counts as this part of one.
const NEWCOMER: u64 = 4;
/// No object costs more than so many average ones.
const COSTLIEST: u64 = 1024;
/// Objects that memory is got for at a time.
const CHUNK: usize = 512;
/// Objects that one search for a victim looks at.
const MAX_TRIES: usize = 20_000;

/// Units of load that a weight of one is for a share of one.
const LOAD_UNIT: u64 = 1 << 16;

pub(crate) struct Evictor {
    inner: Lock<Inner>,
    main: &'static Main,
    tenants: Arc<Tenants>,
}

struct Inner {
    /// One queue for each tenant, at the number of its row.
    queues: Vec<Queue>,
    /// Weight of each queue for its share, if it has objects; searched for the largest.
    loads: Vec<u64>,
    len: usize,
    ghosts: Ghosts,
    by: EvictBy,
}

/// A heap of one tenant's objects, least rank first, whose members know their place.
struct Queue {
    items: Rows<Item, CHUNK>,
    clock: u64,
    weight: u64,
    /// Bytes that fetches in progress hold.
    fetched: u64,
    /// Load of a weight of one.
    unit: u64,
    /// Sum of the known costs, in quarters of a millisecond, and the number of objects that have one.
    cost: u64,
    priced: u64,
}

struct Item {
    rank: u64,
    oc: Arc<Objcore>,
}

impl Evictor {
    pub fn new(main: &'static Main, tenants: Arc<Tenants>, by: EvictBy) -> Self {
        let evictor = Self { inner: Lock::default(), main, tenants };
        evictor.set_by(by);
        evictor
    }

    /// Memory that the lists and the memory of those evicted take, in bytes.
    pub fn bytes(&self) -> u64 {
        let inner = self.inner.lock();
        let queues = inner.queues.iter().map(|queue| queue.items.bytes()).sum::<u64>();
        let words = inner.ghosts.slots.capacity() + inner.loads.capacity();
        queues + (words * size_of::<u64>() + inner.queues.capacity() * size_of::<Queue>()) as u64
    }

    /// Objects get ranks of the new kind as their turns come.
    pub fn set_by(&self, by: EvictBy) {
        self.inner.lock().by = by;
    }

    pub fn set_share(&self, tenant: u16, share: u32) {
        let mut inner = self.inner.lock();
        inner.queue(tenant).unit = (LOAD_UNIT / u64::from(share.max(1))).max(1);
        inner.note_load(tenant);
    }

    /// Adds an object that was just finished, or one from a former worker that had `former_hits` hits.
    pub fn add(&self, oc: &Arc<Objcore>, former_hits: u32) {
        let weight = Worth::weigh(oc.weight());
        {
            let mut inner = self.inner.lock();
            if oc.evict_slot.load(Relaxed) != NO_SLOT {
                return;
            }
            let former_uses = former_hits.min(u32::from(MAX_GHOST_USES)) as u8;
            let before = Worth::of(oc);
            let own = u8::from(!before.is_little());
            let uses = inner.ghosts.remove(&oc.digest()).max(former_uses) + own;
            oc.set_freq(0);
            // Counted first: it can be taken out as soon as it is in.
            self.tenants.count(oc.tenant(), |row| row.counters().bytes.add(weight * 16));
            inner.push(oc.clone(), Worth { weight, uses, cost: before.cost });
        }
    }

    /// A fetch in progress of the tenant holds `after` bytes and held `before`.
    pub fn charge(&self, tenant: u16, before: u64, after: u64) {
        if before == after {
            return;
        }
        let mut inner = self.inner.lock();
        let queue = inner.queue(tenant);
        queue.fetched = (queue.fetched + after).saturating_sub(before);
        inner.note_load(tenant);
    }

    #[cfg(test)]
    pub fn fetched(&self, tenant: u16) -> u64 {
        self.inner.lock().queue(tenant).fetched
    }

    /// Takes an object out, if it is in. The caller has its shard's lock, without which none is added.
    pub fn remove(&self, oc: &Objcore) {
        if oc.evict_slot.load(Relaxed) == NO_SLOT {
            return;
        }
        // The handle is freed after the unlock; the caller holds another.
        let removed = {
            let mut inner = self.inner.lock();
            let slot = oc.evict_slot.load(Relaxed);
            (slot != NO_SLOT).then(|| inner.take(oc.tenant(), slot as usize))
        };
        if removed.is_some() {
            self.note_removed(oc);
        }
    }

    fn note_removed(&self, oc: &Objcore) {
        let bytes = Worth::of(oc).weight * 16;
        self.tenants.count(oc.tenant(), |row| row.counters().bytes.sub(bytes));
    }

    /// Takes out the object that should go next, for so many bytes of the tenant `wanted`; one in use isn't chosen, since
    /// its bytes would stay. The store's home hears of those that are asked for.
    pub fn victim(&self, store: &Store, wanted: Option<(u16, u64)>) -> Option<Arc<Objcore>> {
        let victim = self.inner.lock().victim(store, wanted, self.main)?;
        self.note_removed(&victim);
        Some(victim)
    }

    /// True if an object with `uses` uses has been used more than the one that would be evicted next, for `needed` bytes of
    /// the tenant `payer`.
    pub fn is_before_next(&self, uses: u32, payer: u16, needed: u64) -> bool {
        let inner = self.inner.lock();
        let of = |oc: &Objcore| u32::from(Worth::of(oc).uses) + u32::from(oc.freq());
        match inner.heaviest(Some((payer, needed))) {
            Some(tenant) if tenant == payer => {
                let first = inner.queues[usize::from(tenant)].items.first();
                first.is_none_or(|first| of(&first.oc) < uses)
            }
            // A tenant below its share needn't be used more than one above.
            Some(_) => true,
            None => inner.len == 0,
        }
    }
}

impl Default for Inner {
    fn default() -> Self {
        // Objects without a tenant have the first.
        Inner {
            queues: vec![Queue::default()],
            loads: vec![0],
            len: 0,
            ghosts: Ghosts::default(),
            by: EvictBy::default(),
        }
    }
}

impl Inner {
    fn queue(&mut self, tenant: u16) -> &mut Queue {
        let at = usize::from(tenant);
        if at >= self.queues.len() {
            self.queues.resize_with(at + 1, Queue::default);
            self.loads.resize(at + 1, 0);
        }
        &mut self.queues[at]
    }

    fn note_load(&mut self, tenant: u16) {
        let queue = &self.queues[usize::from(tenant)];
        self.loads[usize::from(tenant)] = if queue.items.len() == 0 { 0 } else { queue.load(0) };
    }

    fn push(&mut self, oc: Arc<Objcore>, worth: Worth) {
        let tenant = oc.tenant();
        let by = self.by;
        self.queue(tenant).push(oc, worth, by);
        self.note_load(tenant);
        self.len += 1;
    }

    fn take(&mut self, tenant: u16, at: usize) -> Item {
        let item = self.queues[usize::from(tenant)].take(at);
        self.note_load(tenant);
        self.len -= 1;
        item
    }

    /// The tenant that makes room for the bytes of the tenant `wanted`: itself, if it would then hold as much for its share
    /// as any. If nobody wants them because memory is short, the one that holds the most makes room.
    /// `None`: no object can go, or the tenant would hold more than any that can make room.
    fn heaviest(&self, wanted: Option<(u16, u64)>) -> Option<u16> {
        if let [load] = self.loads[..] {
            return (load > 0).then_some(NO_TENANT);
        }
        let (at, &most) = self.loads.iter().enumerate().max_by_key(|(_, load)| **load)?;
        let payer = wanted.and_then(|(payer, needed)| Some((payer, needed, self.queues.get(usize::from(payer))?)));
        let Some((payer, needed, queue)) = payer else { return (most > 0).then_some(at as u16) };
        let after = queue.load(needed);
        if self.loads[usize::from(payer)] > 0 && after >= most {
            return Some(payer);
        }
        (most > 0 && after <= most).then_some(at as u16)
    }

    fn victim(&mut self, store: &Store, wanted: Option<(u16, u64)>, main: &Main) -> Option<Arc<Objcore>> {
        let mut tries = MAX_TRIES;
        let mut passed_over = Vec::new();
        let mut victim = None;
        while tries > 0
            && victim.is_none()
            && let Some(tenant) = self.heaviest(wanted)
        {
            match self.queues[usize::from(tenant)].find_victim(store, self.by, &mut tries, main) {
                true => victim = Some(self.take(tenant, 0)),
                // All its objects are in use: the next one is searched.
                false => {
                    self.loads[usize::from(tenant)] = 0;
                    passed_over.push(tenant);
                }
            }
        }
        if victim.is_none() && tries > 0 && self.loads.iter().any(|load| *load > 0) {
            main.tenant_limited.inc();
        }
        passed_over.into_iter().for_each(|tenant| self.note_load(tenant));
        let item = victim?;
        self.ghosts.insert(&item.oc.digest(), Worth::of(&item.oc).uses, self.len);
        Some(item.oc)
    }
}

impl Default for Queue {
    fn default() -> Self {
        Queue { items: Rows::default(), clock: 0, weight: 0, fetched: 0, unit: LOAD_UNIT, cost: 0, priced: 0 }
    }
}

impl Queue {
    /// The load if the tenant holds `more` bytes more than now.
    fn load(&self, more: u64) -> u64 {
        let fetched = self.fetched.saturating_add(more).div_ceil(16);
        self.weight.saturating_add(fetched).saturating_mul(self.unit)
    }

    /// Brings the object that should go next to the front. False if there is none that isn't in use.
    fn find_victim(&mut self, store: &Store, by: EvictBy, tries: &mut usize, main: &Main) -> bool {
        let most = (self.items.len() * 5).min(*tries);
        for _ in 0..most {
            *tries -= 1;
            let Some(first) = self.items.first() else { return false };
            let (rank, freq) = (first.rank, first.oc.freq());
            self.clock = self.clock.max(rank);
            let is_idle =
                Arc::strong_count(&first.oc) <= IDLE_HANDLES || base::failpoint::fault("an eviction under delivery");
            if freq == 0 && is_idle {
                return true;
            }
            first.oc.set_freq(0);
            if let (true, Some(home), Some(id)) = (freq > 0, store.home(), first.oc.home()) {
                home.note_use(&first.oc.digest().0, id);
            }
            main.n_lru_moved.inc();
            self.again(freq.max(1), is_idle, by);
        }
        false
    }

    fn rank(&self, worth: Worth, by: EvictBy) -> u64 {
        let average = (self.weight / (self.items.len() as u64).max(1)).max(1);
        let weight = worth.weight.min(LARGEST * average);
        let uses = SCALE * u64::from(worth.uses);
        let gain = match (by, worth.cost.quarters()) {
            (EvictBy::Bytes, _) => {
                let uses = if worth.uses == 1 { uses / NEWCOMER } else { uses };
                uses / (worth.weight * average).isqrt().max(1)
            }
            (EvictBy::Cost, Some(cost)) => {
                let common = (self.cost / self.priced.max(1)).max(1);
                uses * cost.min(COSTLIEST * common) / (weight * common)
            }
            (EvictBy::Requests | EvictBy::Cost, _) => uses / weight,
        };
        self.clock + gain.max(1)
    }

    /// Notes the cost of an object that comes or goes.
    fn count_cost(&mut self, worth: Worth, count: impl Fn(u64, u64) -> u64) {
        if let Some(cost) = worth.cost.quarters() {
            (self.cost, self.priced) = (count(self.cost, cost), count(self.priced, 1));
        }
    }

    fn push(&mut self, oc: Arc<Objcore>, worth: Worth, by: EvictBy) {
        // The older one of two with the same use for their bytes goes first.
        self.clock += 1;
        self.weight += worth.weight;
        self.count_cost(worth, u64::saturating_add);
        let rank = self.rank(worth, by);
        worth.note(&oc);
        self.items.push(Item { rank, oc });
        let at = self.up(self.items.len() - 1);
        self.place(at);
    }

    /// Gives the first item a new rank after a use. An item in use goes behind the next one at least: the rank of a
    /// large object hardly grows, so it would be looked at again and again.
    fn again(&mut self, more: u8, is_idle: bool, by: EvictBy) {
        let before = Worth::of(&self.items[0].oc);
        let worth = Worth { uses: before.uses.saturating_add(more).min(MAX_USES), ..before };
        let next = (1..self.items.len().min(3)).map(|child| self.items[child].rank).min();
        let least = next.filter(|_| !is_idle).map_or(0, |next| next.saturating_add(1));
        worth.note(&self.items[0].oc);
        self.items[0].rank = self.rank(worth, by).max(least);
        self.down(0);
    }

    fn take(&mut self, at: usize) -> Item {
        let item = self.items.swap_remove(at);
        item.oc.evict_slot.store(NO_SLOT, Relaxed);
        let worth = Worth::of(&item.oc);
        self.weight -= worth.weight;
        self.count_cost(worth, u64::saturating_sub);
        if at < self.items.len() {
            let at = self.up(at);
            self.down(at);
        }
        item
    }

    fn place(&self, at: usize) {
        self.items[at].oc.evict_slot.store(at as u32, Relaxed);
    }

    fn up(&mut self, mut at: usize) -> usize {
        while at > 0 && self.items[at].rank < self.items[(at - 1) / 2].rank {
            self.items.swap(at, (at - 1) / 2);
            self.place(at);
            at = (at - 1) / 2;
        }
        at
    }

    /// Down to where it belongs; its place is noted in any case.
    fn down(&mut self, mut at: usize) {
        loop {
            let children = (2 * at + 1)..(2 * at + 3).min(self.items.len());
            match children.min_by_key(|child| self.items[*child].rank) {
                Some(child) if self.items[child].rank < self.items[at].rank => {
                    self.items.swap(at, child);
                    self.place(at);
                    at = child;
                }
                Some(_) | None => return self.place(at),
            }
        }
    }
}

/// Recently evicted digests: a direct-mapped table of fingerprints, each with its uses and the turn in which it was
/// added.
#[derive(Default)]
struct Ghosts {
    slots: Vec<u64>,
    turn: u32,
}

/// Bits of a turn; the bits above count uses.
const TURN_BITS: u32 = 28;
const TURNS: u32 = (1 << TURN_BITS) - 1;
const MAX_GHOST_USES: u8 = 15;

impl Ghosts {
    /// Remembers as many as there are objects.
    fn insert(&mut self, digest: &Digest, uses: u8, resident: usize) {
        let want = resident.clamp(64, 1 << 22).next_power_of_two();
        if want > self.slots.len() {
            self.slots = vec![0; want];
            self.turn = 0;
        }
        self.turn = self.turn.wrapping_add(1);
        let (at, print) = self.locate(digest);
        let uses = u64::from(uses.min(MAX_GHOST_USES));
        self.slots[at] = u64::from(print) << 32 | uses << TURN_BITS | u64::from(self.turn & TURNS);
    }

    /// Forgets a digest; its uses, 0 when it wasn't known.
    fn remove(&mut self, digest: &Digest) -> u8 {
        if self.slots.is_empty() {
            return 0;
        }
        let (at, print) = self.locate(digest);
        let (found, turn) = ((self.slots[at] >> 32) as u32, self.slots[at] as u32);
        let age = self.turn.wrapping_sub(turn) & TURNS;
        if found != print || age as usize > self.slots.len() {
            return 0;
        }
        self.slots[at] = 0;
        (turn >> TURN_BITS) as u8
    }

    fn locate(&self, digest: &Digest) -> (usize, u32) {
        let hash = digest.hash();
        ((hash as usize) & (self.slots.len() - 1), ((hash >> 32) as u32) | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_in_the_list_costs_two_words() {
        assert_eq!(size_of::<Item>(), 16);
    }

    #[test]
    fn ghosts_keep_their_uses() {
        let mut ghosts = Ghosts::default();
        let digests: Vec<Digest> = (0..50u8).map(|n| Digest([n.wrapping_mul(37); 32])).collect();
        for (n, digest) in digests.iter().enumerate() {
            ghosts.insert(digest, n as u8, 1000);
        }
        let kept = digests.iter().enumerate().filter(|(n, d)| ghosts.remove(d) == (*n as u8).min(MAX_GHOST_USES));
        assert!(kept.count() >= 40, "most don't meet in the table");
        assert_eq!(ghosts.remove(&digests[9]), 0, "once");
    }
}
