// SPDX-License-Identifier: BSD-2-Clause
//! The gate before the cache: which of its objects a lookup may find. Others invalidate, too, and this worker may not have heard of it: a
//! successor has another cache, and the fleet's log may be away. Most of the time the gate is open, which is one flag to look at.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use ::fleet::Gate;
use cache::LookupOptions;
use sync::DerivedFlag;

/// No limit on the age of objects that may be found ...
const OPEN: u64 = u64::MAX;
/// ... or none; else the greatest one in milliseconds.
const CLOSED: u64 = 0;

pub struct CacheGate {
    /// Another worker has taken this one's place, or is about to.
    has_successor: AtomicBool,
    most_ms: AtomicU64,
    is_restricted: DerivedFlag,
}

impl Default for CacheGate {
    fn default() -> Self {
        let has_successor = AtomicBool::new(false);
        CacheGate { has_successor, most_ms: AtomicU64::new(OPEN), is_restricted: DerivedFlag::default() }
    }
}

impl CacheGate {
    /// True if lookups have to go through [`CacheGate::restrict`], which is rare.
    pub fn is_restricted(&self) -> bool {
        self.is_restricted.get()
    }

    pub fn has_successor(&self) -> bool {
        self.has_successor.load(Relaxed)
    }

    pub fn set_successor(&self, has_successor: bool) {
        self.has_successor.store(has_successor, SeqCst);
        self.update();
    }

    pub fn set(&self, gate: Gate) {
        let most = match gate {
            Gate::Closed if base::failpoint::fault("a gate that is never closed") => OPEN,
            Gate::Capped(_) if base::failpoint::fault("a cap on staleness that is forgotten") => OPEN,
            Gate::Open => OPEN,
            Gate::Closed => CLOSED,
            Gate::Capped(age) => u64::try_from(age.as_millis()).unwrap_or(OPEN).clamp(CLOSED + 1, OPEN - 1),
        };
        self.most_ms.store(most, SeqCst);
        self.update();
    }

    fn update(&self) {
        self.is_restricted.update(|| self.has_successor.load(SeqCst) || self.most_ms.load(SeqCst) != OPEN);
    }

    /// Options for a lookup that finds nothing else. `is_recalled`: nothing of this cache may be served any more.
    pub(crate) fn restrict(&self, options: LookupOptions, is_recalled: bool) -> LookupOptions {
        let most = self.most_ms.load(Relaxed);
        let always_miss = options.always_miss || is_recalled || most == CLOSED;
        if most == OPEN || most == CLOSED {
            return LookupOptions { always_miss, ..options };
        }
        let most = Duration::from_millis(most).as_secs_f64();
        let max_age = Some(options.max_age.map_or(most, |asked| asked.min(most)));
        LookupOptions { always_miss, max_age, ..options }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_or_a_limit_restricts_lookups() {
        let gate = CacheGate::default();
        assert!(!gate.is_restricted());
        gate.set(Gate::Closed);
        gate.set_successor(true);
        gate.set(Gate::Open);
        assert!(gate.is_restricted() && gate.has_successor());
        gate.set_successor(false);
        assert!(!gate.is_restricted());
        gate.set(Gate::Capped(Duration::ZERO));
        assert!(gate.is_restricted());
    }

    #[test]
    fn a_lookup_finds_no_more_than_the_gate_allows() {
        let gate = CacheGate::default();
        let check = |asked: Option<f64>, is_recalled: bool, always_miss: bool, max_age: Option<f64>| {
            let options = gate.restrict(LookupOptions { max_age: asked, ..LookupOptions::default() }, is_recalled);
            assert_eq!((options.always_miss, options.max_age), (always_miss, max_age));
        };
        check(Some(5.0), false, false, Some(5.0));
        check(None, true, true, None);
        gate.set(Gate::Capped(Duration::from_secs(2)));
        check(None, false, false, Some(2.0));
        check(Some(5.0), true, true, Some(2.0));
        check(Some(1.0), false, false, Some(1.0));
        gate.set(Gate::Closed);
        check(Some(1.0), false, true, Some(1.0));
    }
}
