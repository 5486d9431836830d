// SPDX-License-Identifier: BSD-2-Clause
//! The expiry heap of a shard: a binary heap whose members know their place, so that any can leave at once.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::Mono;

use crate::objcore::{NO_SLOT, Objcore};
use crate::rows::Rows;

/// Members that memory is got for at a time: a shard has some hundreds.
const CHUNK: usize = 32;

#[derive(Default)]
pub(crate) struct Heap {
    items: Rows<(f64, Arc<Objcore>), CHUNK>,
}

impl Heap {
    pub fn next(&self) -> Option<Mono> {
        self.items.first().map(|item| Mono(item.0))
    }

    pub fn bytes(&self) -> u64 {
        self.items.bytes()
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_at(&self, slot: u32, oc: &Objcore) -> bool {
        (slot as usize) < self.items.len() && std::ptr::eq(Arc::as_ptr(&self.items[slot as usize].1), oc)
    }

    /// The first, when it is due.
    pub fn due(&self, now: Mono) -> Option<&Arc<Objcore>> {
        self.items.first().filter(|item| item.0 <= now.0).map(|item| &item.1)
    }

    /// Adds one, or changes when it is due.
    pub fn set(&mut self, oc: &Arc<Objcore>, when: Mono) {
        let slot = oc.heap_slot.load(Relaxed);
        let at = if slot == NO_SLOT {
            self.items.push((when.0, oc.clone()));
            self.place(self.items.len() - 1);
            self.items.len() - 1
        } else {
            self.items[slot as usize].0 = when.0;
            slot as usize
        };
        let at = self.up(at);
        self.down(at);
    }

    pub fn remove(&mut self, oc: &Objcore) {
        let slot = oc.heap_slot.swap(NO_SLOT, Relaxed);
        if slot == NO_SLOT {
            return;
        }
        let at = slot as usize;
        self.items.swap_remove(at);
        if at < self.items.len() {
            self.place(at);
            let at = self.up(at);
            self.down(at);
        }
    }

    fn place(&self, at: usize) {
        self.items[at].1.heap_slot.store(at as u32, Relaxed);
    }

    fn up(&mut self, mut at: usize) -> usize {
        while at > 0 && self.items[at].0 < self.items[(at - 1) / 2].0 {
            at = self.swap(at, (at - 1) / 2);
        }
        at
    }

    fn down(&mut self, mut at: usize) {
        loop {
            let children = (2 * at + 1)..(2 * at + 3).min(self.items.len());
            let least = children.min_by(|&a, &b| self.items[a].0.total_cmp(&self.items[b].0));
            match least {
                Some(child) if self.items[child].0 < self.items[at].0 => at = self.swap(at, child),
                Some(_) | None => return,
            }
        }
    }

    /// Swaps two and returns the second place.
    fn swap(&mut self, a: usize, b: usize) -> usize {
        self.items.swap(a, b);
        self.place(a);
        self.place(b);
        b
    }
}
