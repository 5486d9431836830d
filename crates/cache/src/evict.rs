// SPDX-License-Identifier: BSD-2-Clause
//! Which object goes when a store is full: S3-FIFO, weighed in bytes.
//!
//! A new object enters a small queue (a tenth of the bytes); one that was used there moves on to the main queue, one that
//! wasn't goes, and is remembered: should it come back soon it enters the main queue at once. The main queue gives
//! each object as many more rounds as it was used, up to three. A hit only bumps a number in the objcore.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::critical::Lock;
use tables::counters::Main;

use crate::digest::Digest;
use crate::objcore::{NO_SLOT, Objcore};

/// Handles on an idle object: index, expiry heap, and this list.
const IDLE_HANDLES: usize = 3;

/// The small queue's share of the bytes is one in so many.
const SMALL_SHARE: u64 = 10;

/// One store's objects.
pub(crate) struct Evictor {
    inner: Lock<Inner>,
    main: &'static Main,
}

#[derive(Default)]
struct Inner {
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// Small, main.
    queues: [Queue; 2],
    ghosts: Ghosts,
}

struct Node {
    oc: Option<Arc<Objcore>>,
    prev: u32,
    next: u32,
    /// Bytes, in units of 16.
    weight: u32,
    queue: u8,
}

struct Queue {
    /// Newest.
    head: u32,
    /// Oldest: next to be looked at.
    tail: u32,
    weight: u64,
    count: usize,
}

const SMALL: u8 = 0;
const MAIN: u8 = 1;

impl Default for Queue {
    fn default() -> Self {
        Self { head: NO_SLOT, tail: NO_SLOT, weight: 0, count: 0 }
    }
}

impl Evictor {
    pub fn new(main: &'static Main) -> Self {
        Self { inner: Lock::default(), main }
    }

    /// Adds an object that was just finished.
    pub fn add(&self, oc: &Arc<Objcore>) {
        let weight = oc.weight().div_ceil(16).min(u64::from(u32::MAX)) as u32;
        let mut inner = self.inner.lock();
        if oc.evict_slot.load(Relaxed) != NO_SLOT {
            return;
        }
        let queue = if inner.ghosts.remove(&oc.digest) { MAIN } else { SMALL };
        oc.set_freq(0);
        inner.push(oc.clone(), weight, queue);
    }

    /// Takes an object out, if it is in.
    pub fn remove(&self, oc: &Objcore) {
        // The handle is freed after the unlock; the caller holds another.
        let removed = {
            let mut inner = self.inner.lock();
            let slot = oc.evict_slot.load(Relaxed);
            (slot != NO_SLOT).then(|| inner.take(slot))
        };
        drop(removed);
    }

    /// Takes out the object that should go next; one in use isn't chosen, since its bytes would stay.
    pub fn victim(&self) -> Option<Arc<Objcore>> {
        let mut inner = self.inner.lock();
        let mut tries = (inner.count() * 5).min(20_000);
        while tries > 0 {
            tries -= 1;
            let small = &inner.queues[SMALL as usize];
            let total = small.weight + inner.queues[MAIN as usize].weight;
            let from_small = small.count > 0 && (small.weight * SMALL_SHARE >= total || inner.main_is_empty());
            let queue = if from_small { SMALL } else { MAIN };
            let slot = inner.queues[queue as usize].tail;
            if slot == NO_SLOT {
                return None;
            }
            let (oc, weight) = inner.take(slot);
            let is_used = oc.freq() > 0;
            if is_used || Arc::strong_count(&oc) > IDLE_HANDLES {
                let rounds = if queue == SMALL { 0 } else { oc.freq().saturating_sub(1) };
                oc.set_freq(rounds);
                self.main.n_lru_moved.inc();
                inner.push(oc, weight, MAIN);
                continue;
            }
            if queue == SMALL {
                let resident = inner.count();
                inner.ghosts.insert(&oc.digest, resident);
            }
            return Some(oc);
        }
        None
    }
}

impl Inner {
    fn count(&self) -> usize {
        self.queues[0].count + self.queues[1].count
    }

    fn main_is_empty(&self) -> bool {
        self.queues[MAIN as usize].count == 0
    }

    /// Puts an object at a queue's head.
    fn push(&mut self, oc: Arc<Objcore>, weight: u32, queue: u8) {
        let next = self.queues[queue as usize].head;
        let node = Node { oc: Some(oc.clone()), prev: NO_SLOT, next, weight, queue };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.nodes[slot as usize] = node;
                slot
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        oc.evict_slot.store(slot, Relaxed);
        let q = &mut self.queues[queue as usize];
        q.head = slot;
        q.weight += u64::from(weight);
        q.count += 1;
        match next {
            NO_SLOT => q.tail = slot,
            next => self.nodes[next as usize].prev = slot,
        }
    }

    /// Takes an object out of its queue.
    fn take(&mut self, slot: u32) -> (Arc<Objcore>, u32) {
        let node = &mut self.nodes[slot as usize];
        let oc = node.oc.take().expect("an eviction slot in use has an objcore");
        let (prev, next, weight, queue) = (node.prev, node.next, node.weight, node.queue);
        oc.evict_slot.store(NO_SLOT, Relaxed);
        self.free.push(slot);
        match prev {
            NO_SLOT => self.queues[queue as usize].head = next,
            prev => self.nodes[prev as usize].next = next,
        }
        match next {
            NO_SLOT => self.queues[queue as usize].tail = prev,
            next => self.nodes[next as usize].prev = prev,
        }
        let q = &mut self.queues[queue as usize];
        q.weight -= u64::from(weight);
        q.count -= 1;
        (oc, weight)
    }
}

/// Digests evicted of late: a direct-mapped table of fingerprints, each with the turn in which it came in.
#[derive(Default)]
struct Ghosts {
    slots: Vec<u64>,
    turn: u32,
}

impl Ghosts {
    /// Remembers as many as there are objects.
    fn insert(&mut self, digest: &Digest, resident: usize) {
        let want = resident.clamp(64, 1 << 22).next_power_of_two();
        if want > self.slots.len() {
            self.slots = vec![0; want];
            self.turn = 0;
        }
        self.turn = self.turn.wrapping_add(1);
        let (at, print) = self.locate(digest);
        self.slots[at] = u64::from(print) << 32 | u64::from(self.turn);
    }

    /// Forgets a digest; whether it was known.
    fn remove(&mut self, digest: &Digest) -> bool {
        if self.slots.is_empty() {
            return false;
        }
        let (at, print) = self.locate(digest);
        let (found, turn) = ((self.slots[at] >> 32) as u32, self.slots[at] as u32);
        let is_known = found == print && self.turn.wrapping_sub(turn) as usize <= self.slots.len();
        if is_known {
            self.slots[at] = 0;
        }
        is_known
    }

    fn locate(&self, digest: &Digest) -> (usize, u32) {
        let hash = digest.hash();
        ((hash as usize) & (self.slots.len() - 1), ((hash >> 32) as u32) | 1)
    }
}
