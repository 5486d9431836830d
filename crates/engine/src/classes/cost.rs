// SPDX-License-Identifier: BSD-2-Clause
//! The cost of requests to a backend, estimated from its response times for similar requests: those with the same host
//! and path or, while too few of these were measured, the same directory. The estimate is a geometric mean that
//! forgets, and that one response can't move far. The table has a fixed size: the entry that was seen longest ago makes
//! room.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use base::lock::Mutex;

/// Places of the table, in sets.
const SETS: usize = 1024;
const WAYS: usize = 4;
/// Least weight of a new measurement.
const WEIGHT: f32 = 1.0 / 8.0;
/// Largest step of a measurement away from the estimate, in doublings or halvings.
const MAX_STEP: f32 = 3.0;
/// Number of measurements after which a path is known, and a directory.
const KNOWN: (u16, u16) = (2, 8);

/// Hashes by which requests of similar cost are recognized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostKey {
    path: u64,
    directory: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct CostEntry {
    key: u64,
    /// Logarithm of the seconds, to base 2.
    doublings: f32,
    count: u16,
    /// When it was seen last, by the table's clock.
    seen: u32,
}

/// Measured costs of fetches; see the module.
#[derive(Default)]
pub(super) struct Costs {
    is_on: AtomicBool,
    hasher: RandomState,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    entries: Vec<[CostEntry; WAYS]>,
    clock: u32,
}

impl Costs {
    /// Starts or stops measuring. Stopping forgets what was measured.
    pub fn set_on(&self, is_on: bool) {
        self.is_on.store(is_on, Relaxed);
        let mut table = self.table.lock();
        match is_on {
            true if table.entries.is_empty() => table.entries = vec![[CostEntry::default(); WAYS]; SETS],
            false => *table = Table::default(),
            true => {}
        }
    }

    pub fn key(&self, host: &[u8], url: &[u8]) -> CostKey {
        if !self.is_on.load(Relaxed) {
            return CostKey::default();
        }
        let path = url.split(|b| *b == b'?').next().unwrap_or_default();
        let directory = path.iter().rposition(|b| *b == b'/').map_or(&[][..], |slash| &path[..=slash]);
        CostKey { path: self.hasher.hash_one((host, path, 1)), directory: self.hasher.hash_one((host, directory, 2)) }
    }

    pub fn learn(&self, key: CostKey, seconds: f64) {
        if self.is_on.load(Relaxed) && key != CostKey::default() {
            let mut table = self.table.lock();
            table.learn(key.path, seconds);
            table.learn(key.directory, seconds);
        }
    }

    /// Estimated seconds until the backend responds, if similar requests are known.
    pub fn of(&self, key: CostKey) -> Option<f64> {
        if !self.is_on.load(Relaxed) {
            return None;
        }
        let table = self.table.lock();
        let known = |part, least| table.find(part).filter(|entry| entry.count >= least);
        let entry = known(key.path, KNOWN.0).or_else(|| known(key.directory, KNOWN.1))?;
        Some(f64::from(entry.doublings.exp2()))
    }
}

impl Table {
    fn find(&self, key: u64) -> Option<&CostEntry> {
        let set = self.entries.get(key as usize % SETS)?;
        set.iter().find(|entry| entry.count > 0 && entry.key == key)
    }

    fn learn(&mut self, key: u64, seconds: f64) {
        self.clock = self.clock.wrapping_add(1);
        let clock = self.clock;
        let Some(set) = self.entries.get_mut(key as usize % SETS) else { return };
        let doublings = (seconds.clamp(1e-5, 1e5) as f32).log2();
        let known = set.iter_mut().find(|entry| entry.count > 0 && entry.key == key);
        if let Some(entry) = known {
            let weight = (1.0 / f32::from(entry.count.saturating_add(1))).max(WEIGHT);
            entry.doublings += (doublings - entry.doublings).clamp(-MAX_STEP, MAX_STEP) * weight;
            entry.count = entry.count.saturating_add(1);
            entry.seen = clock;
            return;
        }
        let oldest = set.iter_mut().max_by_key(|entry| match entry.count {
            0 => u32::MAX,
            _ => clock.wrapping_sub(entry.seen),
        });
        if let Some(entry) = oldest {
            *entry = CostEntry { key, doublings, count: 1, seen: clock };
        }
    }
}

impl std::fmt::Debug for Costs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Costs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> Costs {
        let costs = Costs::default();
        costs.set_on(true);
        costs
    }

    fn check(costs: &Costs, url: &str, expected: Option<f64>) {
        let got = costs.of(costs.key(b"host", url.as_bytes()));
        let is_near = match (got, expected) {
            (Some(got), Some(expected)) => got / expected < 1.25 && expected / got < 1.25,
            (got, expected) => got == expected,
        };
        assert!(is_near, "{url}: {got:?}, {expected:?}");
    }

    fn learn(costs: &Costs, url: &str, seconds: f64, times: usize) {
        (0..times).for_each(|_| costs.learn(costs.key(b"host", url.as_bytes()), seconds));
    }

    #[test]
    fn the_query_doesnt_matter_and_a_path_is_known_after_two() {
        let costs = costs();
        learn(&costs, "/search?q=a", 2.0, 1);
        check(&costs, "/search?q=b", None);
        learn(&costs, "/search", 2.0, 1);
        check(&costs, "/search?q=b", Some(2.0));
        assert_eq!(costs.of(costs.key(b"other", b"/search")), None);
    }

    #[test]
    fn what_is_unknown_costs_what_its_directory_does() {
        let costs = costs();
        (0..8).for_each(|n| learn(&costs, &format!("/reports/{n}"), 1.0, 1));
        check(&costs, "/reports/99", Some(1.0));
        check(&costs, "/other/99", None);
        learn(&costs, "/reports/fast", 0.01, 2);
        check(&costs, "/reports/fast", Some(0.01));
    }

    #[test]
    fn one_answer_moves_little_and_many_move_it() {
        let costs = costs();
        learn(&costs, "/a", 0.01, 20);
        learn(&costs, "/a", 60.0, 1);
        assert!(costs.of(costs.key(b"host", b"/a")).unwrap() < 0.014);
        learn(&costs, "/a", 1.0, 100);
        check(&costs, "/a", Some(1.0));
    }

    #[test]
    fn the_table_doesnt_grow() {
        let costs = costs();
        (0..100_000).for_each(|n| learn(&costs, &format!("/{n}/x"), 1.0, 2));
        assert_eq!(costs.table.lock().entries.len(), SETS);
        check(&costs, "/99999/x", Some(1.0));
        check(&costs, "/1/x", None);
        costs.set_on(false);
        check(&costs, "/99999/x", None);
    }
}
