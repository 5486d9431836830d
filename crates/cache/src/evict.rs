// SPDX-License-Identifier: BSD-2-Clause
//! Which object goes when a store is full: the one with the least use for its bytes (greedy dual, by size and frequency).
//!
//! An object's rank = the clock at the last look + uses / size. The object with the least rank goes, and its rank becomes
//! the clock, so that what nobody asks for grows old. A hit only bumps a number in the objcore; it counts when the
//! object's turn has come: then it gets a new rank instead. What has gone is remembered for a while with its uses.
//!
//! Simulated (bench/policies.py; a tenth of the bytes, sizes 0.5 to 32 KB): 0.70 of a zipf trace's requests hit, with
//! S3-FIFO 0.65, LRU 0.61; with scans in it 0.53, 0.50, 0.44; while popularity drifts 0.60, 0.53, 0.54. Of the bytes 0.68
//! hit, with S3-FIFO 0.70: small objects stay for large ones. So that large ones in steady use stay too, none counts as
//! larger than [`LARGEST`] average ones.
//!
//! `lacquer simulate` repeats this arithmetic (`tools/simulate/src/policy.rs`): a change here is one there, too.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::critical::Lock;
use storage::Store;
use tables::counters::Main;

use crate::digest::Digest;
use crate::objcore::{NO_SLOT, Objcore};
use crate::rows::Rows;

/// Handles on an idle object: index, expiry heap, and this list.
const IDLE_HANDLES: usize = 3;
/// Times the average size.
const LARGEST: u64 = 8;
/// Amount that one use of an object of 16 bytes adds to the clock.
const SCALE: u64 = 1 << 24;
/// Most uses that are counted, as many as fit beside the weight.
const MAX_USES: u8 = (1 << USES_BITS) - 1;
const USES_BITS: u32 = 6;
/// Heavier ones count as this: [`LARGEST`] average ones are less.
const MAX_WEIGHT: u32 = u32::MAX >> USES_BITS;
/// Stands for the worth of an object that isn't in the list yet, if it is hardly expected to be used.
const LITTLE: u32 = 1;
/// Objects that memory is got for at a time.
const CHUNK: usize = 512;
/// Objects that one search for a victim looks at.
const MAX_TRIES: usize = 20_000;

pub(crate) struct Evictor {
    inner: Lock<Inner>,
    main: &'static Main,
}

/// A heap, least rank first, whose members know their place.
#[derive(Default)]
struct Inner {
    items: Rows<Item, CHUNK>,
    clock: u64,
    weight: u64,
    ghosts: Ghosts,
}

struct Item {
    rank: u64,
    oc: Arc<Objcore>,
}

/// An object's weight, in units of 16 bytes, and its number of uses. Stands in the objcore, which is at hand whenever
/// its item moves.
#[derive(Clone, Copy)]
struct Worth {
    weight: u32,
    uses: u8,
}

impl Worth {
    fn of(oc: &Objcore) -> Worth {
        let packed = oc.worth.load(Relaxed);
        Worth { weight: packed >> USES_BITS, uses: (packed as u8) & MAX_USES }
    }

    fn note(self, oc: &Objcore) {
        oc.worth.store(self.weight << USES_BITS | u32::from(self.uses), Relaxed);
    }
}

pub(crate) fn expect_little_use(oc: &Objcore) {
    oc.worth.store(LITTLE, Relaxed);
}

impl Evictor {
    pub fn new(main: &'static Main) -> Self {
        Self { inner: Lock::default(), main }
    }

    /// Memory that the list and the memory of those evicted take, in bytes.
    pub fn bytes(&self) -> u64 {
        let inner = self.inner.lock();
        inner.items.bytes() + (inner.ghosts.slots.capacity() * size_of::<u64>()) as u64
    }

    /// Adds an object that was just finished, or one from a former worker that had `former_hits` hits.
    pub fn add(&self, oc: &Arc<Objcore>, former_hits: u32) {
        let weight = oc.weight().div_ceil(16).clamp(1, u64::from(MAX_WEIGHT)) as u32;
        let mut inner = self.inner.lock();
        if oc.evict_slot.load(Relaxed) != NO_SLOT {
            return;
        }
        let former_uses = former_hits.min(u32::from(MAX_GHOST_USES)) as u8;
        let own = u8::from(oc.worth.load(Relaxed) != LITTLE);
        let uses = inner.ghosts.remove(&oc.digest()).max(former_uses) + own;
        oc.set_freq(0);
        // Of two with the same use for their bytes the older one goes first.
        inner.clock += 1;
        inner.push(oc.clone(), Worth { weight, uses });
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
            (slot != NO_SLOT).then(|| inner.take(slot as usize))
        };
        drop(removed);
    }

    /// Takes out the object that should go next; one in use isn't chosen, since its bytes would stay. The store's home hears of
    /// those that are asked for.
    pub fn victim(&self, store: &Store) -> Option<Arc<Objcore>> {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        for _ in 0..(inner.items.len() * 5).min(MAX_TRIES) {
            let first = inner.items.first()?;
            let (rank, freq) = (first.rank, first.oc.freq());
            inner.clock = inner.clock.max(rank);
            let is_idle =
                Arc::strong_count(&first.oc) <= IDLE_HANDLES || base::failpoint::fault("an eviction under delivery");
            if freq > 0 || !is_idle {
                first.oc.set_freq(0);
                if let (true, Some(home), Some(id)) = (freq > 0, store.home(), first.oc.home()) {
                    home.note_use(&first.oc.digest().0, id);
                }
                self.main.n_lru_moved.inc();
                inner.again(freq.max(1), is_idle);
                continue;
            }
            let item = inner.take(0);
            let resident = inner.items.len();
            inner.ghosts.insert(&item.oc.digest(), Worth::of(&item.oc).uses, resident);
            return Some(item.oc);
        }
        None
    }

    /// True if an object with `uses` uses has been used more than the one that would be evicted next.
    pub fn is_before_next(&self, uses: u32) -> bool {
        let inner = self.inner.lock();
        let of = |oc: &Objcore| u32::from(Worth::of(oc).uses) + u32::from(oc.freq());
        inner.items.first().is_none_or(|first| of(&first.oc) < uses)
    }
}

impl Inner {
    fn rank(&self, worth: Worth) -> u64 {
        let average = (self.weight / (self.items.len() as u64).max(1)).max(1);
        let weight = u64::from(worth.weight).min(LARGEST * average);
        self.clock + (SCALE * u64::from(worth.uses) / weight).max(1)
    }

    fn push(&mut self, oc: Arc<Objcore>, worth: Worth) {
        self.weight += u64::from(worth.weight);
        let rank = self.rank(worth);
        worth.note(&oc);
        self.items.push(Item { rank, oc });
        let at = self.up(self.items.len() - 1);
        self.place(at);
    }

    /// Gives the first item a new rank after a use. An item in use goes behind the next one at least: the rank of a
    /// large object hardly grows, so it would be looked at again and again.
    fn again(&mut self, more: u8, is_idle: bool) {
        let before = Worth::of(&self.items[0].oc);
        let worth = Worth { uses: before.uses.saturating_add(more).min(MAX_USES), ..before };
        let next = (1..self.items.len().min(3)).map(|child| self.items[child].rank).min();
        let least = next.filter(|_| !is_idle).map_or(0, |next| next.saturating_add(1));
        worth.note(&self.items[0].oc);
        self.items[0].rank = self.rank(worth).max(least);
        self.down(0);
    }

    fn take(&mut self, at: usize) -> Item {
        let item = self.items.swap_remove(at);
        item.oc.evict_slot.store(NO_SLOT, Relaxed);
        self.weight -= u64::from(Worth::of(&item.oc).weight);
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
