// SPDX-License-Identifier: BSD-2-Clause
//! Whether the cache is as its invariants say: looked at by the simulator after its steps (feature `audit`), never by the
//! product.

use std::collections::BTreeMap;

use storage::StoreId;

use crate::cache::{Cache, ShardInner};
use crate::heap::Heap;
use crate::objcore::{NO_SLOT, Objcore, State};

/// What there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Objcores that are being fetched, passes aside.
    pub busy: usize,
    /// Objcores that lookups may find.
    pub stored: usize,
    /// Requests that are parked.
    pub waiting: usize,
    /// What the finished objects of each store are charged with.
    pub bytes: BTreeMap<StoreId, u64>,
}

impl Cache {
    /// Looks at everything; no thread may be at work.
    ///
    /// # Errors
    /// The invariant that doesn't hold, in words.
    pub fn audit(&self) -> Result<Audit, String> {
        let shared = self.shared();
        let mut audit = Audit::default();
        let mut heads = 0;
        for (number, shard) in shared.shards.iter().enumerate() {
            let shard = shard.lock();
            if shard.heads.len() == 0 && shard.heap.len() == 0 {
                continue;
            }
            heads += shard.heads.len() as u64;
            let before = audit.stored;
            for oc in shard.heads.all() {
                if oc.digest.shard(shared.shards.len()) != number {
                    return Err(format!("{oc:?} is in another shard's index"));
                }
                audit.see(oc, &shard)?;
            }
            if shard.heap.len() != audit.stored - before {
                return Err(format!("{} in the heap of a shard that has {}", shard.heap.len(), audit.stored - before));
            }
            audit.waiting += shard.heads.audit()?;
        }
        let told = (shared.main.n_objecthead.get(), shared.main.waitinglist_len.get());
        let seen = (heads, audit.waiting as u64);
        if told != seen {
            return Err(format!("objheads and waiters are counted as {told:?}, and are {seen:?}"));
        }
        Ok(audit)
    }
}

impl Audit {
    fn see(&mut self, oc: &Objcore, shard: &ShardInner) -> Result<(), String> {
        let in_heap = is_in(&shard.heap, oc);
        match oc.state() {
            State::Busy if in_heap => Err(format!("{oc:?} is busy and in the expiry heap")),
            State::Busy if oc.boc().is_none() => Err(format!("{oc:?} is busy and nobody fetches it")),
            State::Busy => {
                self.busy += 1;
                Ok(())
            }
            State::Stored if !in_heap => Err(format!("{oc:?} is stored and not in the expiry heap")),
            State::Stored if oc.with_head_block(|_| ()).is_none() => Err(format!("{oc:?} is stored and has no head")),
            State::Stored => {
                self.stored += 1;
                *self.bytes.entry(oc.store()).or_default() += oc.weight();
                Ok(())
            }
            State::Dying => Err(format!("{oc:?} is dying and in the index")),
        }
    }
}

fn is_in(heap: &Heap, oc: &Objcore) -> bool {
    let slot = oc.heap_slot.load(std::sync::atomic::Ordering::Relaxed);
    slot != NO_SLOT && heap.is_at(slot, oc)
}
