// SPDX-License-Identifier: BSD-2-Clause
//! Checks the cache against its invariants, for the simulator after its steps and for tests. It exists in builds with debug
//! assertions, as other expensive checks of invariants do; the product never asks.

use std::collections::BTreeMap;

use storage::StoreId;

use crate::cache::{Cache, CacheShared, ShardInner};
use crate::heap::Heap;
use crate::objcore::{NO_SLOT, Objcore, ObjcoreStage};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Objcores that are being fetched, passes aside.
    pub busy: usize,
    /// Objcores that lookups may find.
    pub stored: usize,
    pub waiting: usize,
    pub records: usize,
    /// Bytes charged to each store for its finished objects.
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
            let tails = shard.heads.all().filter(|oc| oc.has_tail()).count() as u64;
            if tails != shard.tails {
                return Err(format!("{} tails are counted, and there are {tails}", shard.tails));
            }
            for oc in shard.heads.all() {
                if oc.digest().shard(shared.shards.len()) != number {
                    return Err(format!("{oc:?} is in another shard's index"));
                }
                audit.see(oc, &shard)?;
                audit.see_record(oc, shared)?;
            }
            if shard.heap.len() != audit.stored - before {
                return Err(format!("{} in the heap of a shard that has {}", shard.heap.len(), audit.stored - before));
            }
            audit.waiting += shard.heads.audit()?;
        }
        let published: usize = shared.stores().all().iter().map(|store| store.published()).sum();
        if !shared.adoption.is_on() && published != audit.records {
            return Err(format!("{published} records survive, and {} of them have an objcore", audit.records));
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
            ObjcoreStage::Busy if in_heap => Err(format!("{oc:?} is busy and in the expiry heap")),
            ObjcoreStage::Busy if oc.boc().is_none() => Err(format!("{oc:?} is busy and nobody fetches it")),
            ObjcoreStage::Busy => {
                self.busy += 1;
                Ok(())
            }
            ObjcoreStage::Stored if !in_heap => Err(format!("{oc:?} is stored and not in the expiry heap")),
            ObjcoreStage::Stored if oc.with_head_block(|_| ()).is_none() => {
                Err(format!("{oc:?} is stored and has no head"))
            }
            ObjcoreStage::Stored => {
                self.stored += 1;
                let forms = oc.forms().map_or(0, |forms| forms.charged_bytes());
                *self.bytes.entry(oc.store()).or_default() += oc.weight() + forms;
                Ok(())
            }
            ObjcoreStage::Dying => Err(format!("{oc:?} is dying and in the index")),
        }
    }
}

impl Audit {
    /// Checks that an object's record survives unless the object was overtaken or isn't whole.
    fn see_record(&mut self, oc: &Objcore, shared: &CacheShared) -> Result<(), String> {
        let Some(record) = oc.record() else { return Ok(()) };
        let is_published = shared.stores().get(oc.store()).is_published(record);
        self.records += usize::from(is_published);
        match (is_published, oc.is_overtaken()) {
            (true, true) => Err(format!("{oc:?} was overtaken and survives")),
            (false, false) => Err(format!("{oc:?} has a record that doesn't survive")),
            (true, false) | (false, true) => Ok(()),
        }
    }
}

fn is_in(heap: &Heap, oc: &Objcore) -> bool {
    let slot = oc.heap_slot.load(std::sync::atomic::Ordering::Relaxed);
    slot != NO_SLOT && heap.is_at(slot, oc)
}
