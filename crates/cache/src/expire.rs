// SPDX-License-Identifier: BSD-2-Clause
//! Expiry: objects whose ttl, grace and keep are over leave the cache.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Waker;

use base::Mono;
use base::critical::Lock;
use tables::Compat;

use crate::cache::{Cache, CacheShared};
use crate::events::CacheEvent;
use crate::tags;
use crate::tombstones::TombstoneCause;

/// Most objects that expire under one hold of a shard's lock.
const BATCH: usize = 64;

impl Cache {
    /// Expires objects due at `now`, about `budget` at most, and calls `tell` for each. Takes purged members of families out,
    /// too. Returns their number; if it isn't below the budget, more may be due.
    pub fn expire(&self, now: Mono, budget: usize, tell: &mut dyn FnMut(CacheEvent)) -> usize {
        let mut count = 0;
        while count < budget && self.take_out_some() {
            count += tags::STRIDE;
        }
        for shard in &self.shared().shards {
            while count < budget && f64::from_bits(shard.next_expiry.load(Relaxed)) <= now.0 {
                count += self.expire_some(shard, now, (budget - count).min(BATCH), tell);
            }
        }
        count
    }

    /// The moment at which the next object is due, if there is one.
    pub fn next_expiry(&self) -> Option<Mono> {
        let times = self.shared().shards.iter().map(|shard| f64::from_bits(shard.next_expiry.load(Relaxed)));
        times.min_by(f64::total_cmp).filter(|next| next.is_finite()).map(Mono)
    }

    /// Wakes this waker once when an object becomes due before `before`.
    pub fn wake_expiry_by(&self, waker: Waker, before: Mono) {
        self.shared().alarm.set(waker, before);
    }

    fn expire_some(
        &self,
        shard: &crate::cache::CacheShard,
        now: Mono,
        max: usize,
        tell: &mut dyn FnMut(CacheEvent),
    ) -> usize {
        let shared = self.shared();
        let mut dead = Vec::new();
        {
            let mut guard = shard.lock();
            while dead.len() < max
                && let Some(oc) = guard.heap.due(now).cloned()
            {
                let cause = match oc.times().ttl > 0.0 {
                    _ if oc.is_overtaken() => TombstoneCause::Purged,
                    true => TombstoneCause::Expired,
                    false => TombstoneCause::ZeroTtl,
                };
                dead.push(shared.unlink(&mut guard, &oc, cause));
            }
        }
        for oc in &dead {
            let is_purged = oc.is_overtaken();
            shared.count_expired(is_purged);
            let ttl_left = oc.times().fresh_until(None).since(now);
            tell(CacheEvent::Expired { xid: oc.xid(), ttl_left, hits: oc.hits(), is_purged });
        }
        dead.len()
    }
}

impl CacheShared {
    /// Counts an object whose time is over. Purged objects count as expired before 7.5 only.
    pub fn count_expired(&self, is_purged: bool) {
        if !is_purged || self.params.load().compat == Compat::V7_1 {
            self.main.n_expired.inc();
        }
    }
}

/// Wakes the thread that sleeps until an object is due when another becomes due earlier.
#[derive(Default)]
pub(crate) struct Alarm {
    /// End of the sleep, as bits of an `f64`; zero when no thread sleeps.
    before: AtomicU64,
    waker: Lock<Option<Waker>>,
}

impl Alarm {
    fn set(&self, waker: Waker, before: Mono) {
        *self.waker.lock() = Some(waker);
        self.before.store(before.0.to_bits(), Relaxed);
    }

    pub fn before(&self) -> f64 {
        f64::from_bits(self.before.load(Relaxed))
    }

    pub fn take(&self) -> Option<Waker> {
        self.before.store(0, Relaxed);
        self.waker.lock().take()
    }
}

#[derive(Default)]
pub(crate) struct PendingWake(pub Option<Waker>);

impl Drop for PendingWake {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Waker::wake);
    }
}
