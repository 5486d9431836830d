// SPDX-License-Identifier: BSD-2-Clause
//! The counters of one moment, sorted by set. Also totals of backends and the manager that survive reloads of VCL and deaths of workers, so
//! they never decrease.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use shm::reader::{CounterDoc, CounterValue};
use tables::counters::CounterKind;

/// Maximum number of backends that are tracked. Further ones are left out and counted.
pub const MAX_BACKENDS: usize = 1000;

/// The counters of one set by name.
pub type NamedCounters<'a> = HashMap<&'a str, u64>;

#[derive(Debug, Default)]
pub struct WatchedCounters<'a> {
    pub main: NamedCounters<'a>,
    pub mgt: NamedCounters<'a>,
    pub peers: NamedCounters<'a>,
    pub no_hit: Vec<(&'a str, u64)>,
    /// Stores by name, with the kind of their set.
    pub stores: BTreeMap<&'a str, (&'a str, NamedCounters<'a>)>,
    /// Backends by VCL and name.
    pub backends: BTreeMap<(&'a str, &'a str), NamedCounters<'a>>,
}

impl<'a> WatchedCounters<'a> {
    pub fn new(readings: &'a [CounterValue]) -> WatchedCounters<'a> {
        let mut out = WatchedCounters::default();
        for reading in readings {
            let (name, value) = (reading.about.name.as_str(), reading.value);
            match reading.set.split_once('.') {
                None if &*reading.set == "MAIN" => {
                    out.main.insert(name, value);
                }
                None if &*reading.set == "MGT" => {
                    out.mgt.insert(name, value);
                }
                None if &*reading.set == "PEERS" => {
                    out.peers.insert(name, value);
                }
                None if &*reading.set == "NOHIT" => out.no_hit.push((name, value)),
                Some(("VBE", rest)) => {
                    let Some(key) = rest.split_once('.') else { continue };
                    if out.backends.len() < MAX_BACKENDS || out.backends.contains_key(&key) {
                        out.backends.entry(key).or_default().insert(name, value);
                    }
                }
                Some((kind @ ("SMA" | "SMF" | "SMU" | "DISK" | "MSE"), store)) => {
                    let entry = out.stores.entry(store).or_insert((kind, NamedCounters::default()));
                    // A store on a disk has two sets. The disk's own set is the one that shows its state.
                    if entry.0 == "DISK" {
                        entry.0 = kind;
                    }
                    entry.1.entry(name).or_insert(value);
                }
                _ => {}
            }
        }
        out
    }

    /// The value of a worker's counter, or 0 if there is none.
    pub fn main(&self, name: &str) -> u64 {
        self.main.get(name).copied().unwrap_or(0)
    }

    pub fn mgt(&self, name: &str) -> u64 {
        self.mgt.get(name).copied().unwrap_or(0)
    }
}

/// Growth of a counter that never decreases. A smaller value means that it was reset.
pub fn grown(before: u64, now: u64) -> u64 {
    if now >= before { now - before } else { now }
}

#[derive(Debug, Default)]
pub struct BackendSums {
    /// The values of the last reading, by set.
    last: HashMap<Arc<str>, Vec<(Arc<CounterDoc>, u64)>>,
    sums: BTreeMap<String, BTreeMap<String, u64>>,
}

impl BackendSums {
    /// Adds a reading. With a thousand backends, this handles about ten thousand counters per second; known counters cost no allocation.
    pub fn add(&mut self, readings: &[CounterValue]) {
        let mut now = HashMap::with_capacity(self.last.len());
        for set in readings.chunk_by(|a, b| a.set == b.set) {
            let name = &set[0].set;
            let Some((_, backend)) = name.strip_prefix("VBE.").and_then(|rest| rest.split_once('.')) else { continue };
            if !self.sums.contains_key(backend) {
                if self.sums.len() >= MAX_BACKENDS {
                    continue;
                }
                self.sums.insert(backend.to_owned(), BTreeMap::new());
            }
            let Some(sums) = self.sums.get_mut(backend) else { continue };
            let last = self.last.get(name).map_or(&[][..], Vec::as_slice);
            let counters = set.iter().filter(|reading| reading.about.kind == CounterKind::Counter);
            let read = counters.map(|reading| {
                let is_it =
                    |about: &Arc<CounterDoc>| Arc::ptr_eq(about, &reading.about) || about.name == reading.about.name;
                let before = last.iter().find(|(about, _)| is_it(about)).map_or(0, |(_, value)| *value);
                let grown = grown(before, reading.value);
                match sums.get_mut(&reading.about.name) {
                    Some(sum) => *sum += grown,
                    None => drop(sums.insert(reading.about.name.clone(), grown)),
                }
                (Arc::clone(&reading.about), reading.value)
            });
            now.insert(Arc::clone(name), read.collect());
        }
        self.last = now;
    }

    pub fn sums(&self) -> &BTreeMap<String, BTreeMap<String, u64>> {
        &self.sums
    }
}

#[cfg(test)]
pub mod tests {
    use shm::reader::CounterReader;
    use shm::vsm::{SegmentSet, SetOwner};

    use super::*;

    /// Builds counters like a reader's: all sets of the tables, with these values.
    pub fn readings(values: &[(&str, &str, u64)]) -> Vec<CounterValue> {
        use tables::counters::{CounterFields as _, Main, Mgt, NoHitCounts, Peers, Sma, Vbe};
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("watch-counters-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let manager = SegmentSet::create(&dir, SetOwner::Manager, 1, None).unwrap();
        fn put<S: tables::counters::CounterFields>(manager: &SegmentSet, set: &str, values: &[(&str, &str, u64)]) {
            let made = shm::vsc::CounterMaker::new(manager).add::<S>(set).unwrap();
            for (_, name, value) in values.iter().filter(|(of, ..)| *of == set) {
                let at = S::ELEMS.iter().position(|elem| elem.name == *name).unwrap_or_else(|| panic!("{name}"));
                made.counter(at).unwrap().set(*value);
            }
            std::mem::forget(made);
        }
        let mut sets: Vec<&str> = values.iter().map(|(set, ..)| *set).collect();
        sets.sort_unstable();
        sets.dedup();
        for set in sets {
            match set.split('.').next().unwrap() {
                Main::NAME => put::<Main>(&manager, set, values),
                Mgt::NAME => put::<Mgt>(&manager, set, values),
                NoHitCounts::NAME => put::<NoHitCounts>(&manager, set, values),
                Peers::NAME => put::<Peers>(&manager, set, values),
                Sma::NAME => put::<Sma>(&manager, set, values),
                Vbe::NAME => put::<Vbe>(&manager, set, values),
                other => panic!("{other}"),
            }
        }
        let out = CounterReader::new(&dir).read().unwrap();
        let _ = std::fs::remove_dir_all(&dir);
        out.into_iter().map(|r| CounterValue { set: Arc::clone(&r.set), ..r }).collect()
    }

    #[test]
    fn sets_are_sorted() {
        let all = readings(&[
            ("MAIN", "client_req", 7),
            ("MGT", "child_start", 2),
            ("NOHIT", "expired", 3),
            ("SMA.s0", "g_bytes", 9),
            ("VBE.boot.a.b", "req", 4),
            ("VBE.boot.a.b", "beresp_bodybytes", 100),
        ]);
        let counters = WatchedCounters::new(&all);
        assert_eq!((counters.main("client_req"), counters.mgt("child_start"), counters.main("nope")), (7, 2, 0));
        assert!(counters.no_hit.contains(&("expired", 3)));
        assert_eq!(counters.stores["s0"].1["g_bytes"], 9);
        assert_eq!(counters.backends[&("boot", "a.b")]["req"], 4);
        assert_eq!(counters.backends[&("boot", "a.b")]["beresp_bodybytes"], 100);
    }

    #[test]
    fn a_backend_counts_on_when_its_vcl_is_loaded_again() {
        let mut sums = BackendSums::default();
        let of = |sums: &BackendSums| sums.sums()["a"]["req"];
        sums.add(&readings(&[("VBE.boot.a", "req", 10)]));
        assert_eq!(of(&sums), 10);
        sums.add(&readings(&[("VBE.boot.a", "req", 12), ("VBE.reload_1.a", "req", 5)]));
        assert_eq!(of(&sums), 17);
        sums.add(&readings(&[("VBE.reload_1.a", "req", 6)]));
        assert_eq!(of(&sums), 18);
        // A new worker counts from zero.
        sums.add(&readings(&[("VBE.reload_1.a", "req", 2)]));
        assert_eq!(of(&sums), 20);
    }
}
