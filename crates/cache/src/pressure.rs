// SPDX-License-Identifier: BSD-2-Clause
//! Eviction that no object asked for: memory is short, whatever the stores' limits say.

use std::sync::atomic::Ordering::Relaxed;

use storage::StoreId;

use crate::cache::{Cache, CacheShared};
use crate::events::CacheEvent;
use crate::objcore::ObjcoreStage;

impl Cache {
    /// From now on objects of stores without a limit can be evicted, too: those that are there and those to come.
    pub fn evict_unlimited(&self) {
        let shared = self.shared();
        if shared.evicts_unlimited.swap(true, Relaxed) {
            return;
        }
        for shard in &shared.shards {
            let shard = shard.lock();
            let stored = shard.heads.all().filter(|oc| oc.state() == ObjcoreStage::Stored);
            // An object that is being finished right now is added by the finishing thread.
            for oc in stored.filter(|oc| shared.has_no_limit(oc.store()) && oc.bytes().is_some()) {
                shared.evictors[oc.store() as usize].add(oc, 0);
            }
        }
    }

    /// Evicts from a store until it holds `bytes` bytes less than now, but at most `most` objects. Returns the number
    /// of evicted objects, and calls `log` for each.
    pub fn evict(&self, store: StoreId, bytes: u64, most: u64, log: &mut dyn FnMut(CacheEvent)) -> u64 {
        let shared = self.shared();
        let store = shared.stores().get(store);
        let goal = store.used_bytes().saturating_sub(bytes);
        let mut went = 0;
        while went < most && store.used_bytes() > goal {
            let Some(event) = shared.evict_one(store.id(), None) else { break };
            log(event);
            went += 1;
        }
        went
    }
}

impl CacheShared {
    pub fn may_evict_from(&self, store: StoreId) -> bool {
        !self.has_no_limit(store) || self.evicts_unlimited.load(Relaxed)
    }

    fn has_no_limit(&self, store: StoreId) -> bool {
        self.stores().get(store).limit_bytes().is_none()
    }
}
