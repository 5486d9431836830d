// SPDX-License-Identifier: BSD-2-Clause
//! The few that matter most among any number, in bounded memory: the Space-Saving algorithm (Metwally, Agrawal, El Abbadi 2005)
//! with weights. When there is no room, the least goes, and what comes in its place may have had as much before: that is its
//! `error`. So whoever has more than the error of all is never missed.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use crate::distinct::Distinct;

pub const MAX_KEY_BYTES: usize = 240;
/// Bytes that a key takes beside its own: its counter, its places in heap and index, what the allocator adds.
const KEY_COSTS: usize = size_of::<Counter>() + 4 + 48 + 16;
const MIN_BYTES: usize = 16 << 10;
/// Bits that estimate how many different keys there were, once some are forgotten.
const DISTINCT_BITS: usize = 1 << 16;
/// Bits that estimate how many different elements a key has.
const ELEMENT_BITS: usize = 1 << 10;

/// The number by which keys are ranked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HittersMeasure {
    #[default]
    Requests,
    Bytes,
    Misses,
    BackendTime,
}

impl HittersMeasure {
    pub const ALL: [HittersMeasure; 4] =
        [HittersMeasure::Requests, HittersMeasure::Bytes, HittersMeasure::Misses, HittersMeasure::BackendTime];

    pub const fn word(self) -> &'static str {
        match self {
            HittersMeasure::Requests => "requests",
            HittersMeasure::Bytes => "bytes",
            HittersMeasure::Misses => "misses",
            HittersMeasure::BackendTime => "backend",
        }
    }
}

/// Numbers that are added up. They may fade, so they have fractions; up to 2^53 they are exact.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sums {
    pub requests: f64,
    pub bytes: f64,
    pub hits: f64,
    pub misses: f64,
    pub backend_seconds: f64,
}

impl Sums {
    pub fn of(&self, measure: HittersMeasure) -> f64 {
        match measure {
            HittersMeasure::Requests => self.requests,
            HittersMeasure::Bytes => self.bytes,
            HittersMeasure::Misses => self.misses,
            HittersMeasure::BackendTime => self.backend_seconds,
        }
    }

    pub fn add(&mut self, other: &Sums) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.hits += other.hits;
        self.misses += other.misses;
        self.backend_seconds += other.backend_seconds;
    }

    pub fn fade(&mut self, factor: f64) {
        self.requests *= factor;
        self.bytes *= factor;
        self.hits *= factor;
        self.misses *= factor;
        self.backend_seconds *= factor;
    }
}

#[derive(Debug)]
struct Counter {
    key: Box<[u8]>,
    hash: u64,
    /// The count by the measure, and what may have been before.
    weight: f64,
    error: f64,
    sums: Sums,
    elements: Option<Distinct>,
    place: u32,
}

/// Keys are found by a hash of 64 bits with a secret of its own: two keys that have the same are taken for one.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Hitter {
    pub key: Vec<u8>,
    /// The counts: no more than there was.
    pub sums: Sums,
    /// The possible error by the measure: there may have been so much more.
    pub error: f64,
    /// Number of different elements, about.
    pub elements: Option<f64>,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ranking {
    /// Those with most first.
    pub rows: Vec<Hitter>,
    /// Number of rows, from the first on, that are certainly the ones with most.
    pub certain: usize,
}

pub struct Hitters {
    measure: HittersMeasure,
    budget: usize,
    used: usize,
    counts_elements: bool,
    counters: Vec<Counter>,
    /// Numbers of counters, the least weight first.
    heap: Vec<u32>,
    index: HashMap<u64, u32, BuildHasherDefault<AsItIs>>,
    secret: RandomState,
    /// No key that isn't here had more.
    floor: f64,
    total: Sums,
    distinct: Distinct,
}

impl Hitters {
    /// None yet. `bytes`: of memory; `counts_elements`: each key also tells how many different elements it has.
    pub fn new(measure: HittersMeasure, bytes: usize, counts_elements: bool) -> Hitters {
        Hitters {
            measure,
            budget: bytes.max(MIN_BYTES).saturating_sub(DISTINCT_BITS / 8),
            used: 0,
            counts_elements,
            counters: Vec::new(),
            heap: Vec::new(),
            index: HashMap::default(),
            secret: RandomState::new(),
            floor: 0.0,
            total: Sums::default(),
            distinct: Distinct::new(DISTINCT_BITS),
        }
    }

    pub fn total(&self) -> &Sums {
        &self.total
    }

    pub fn measure(&self) -> HittersMeasure {
        self.measure
    }

    /// Number of different keys; the second is true if it is exact.
    pub fn distinct(&self) -> (f64, bool) {
        if self.floor == 0.0 { (self.counters.len() as f64, true) } else { (self.distinct.estimate(), false) }
    }

    /// A number for a text that nobody outside can foresee.
    pub fn hash(&self, text: &[u8]) -> u64 {
        self.secret.hash_one(text)
    }

    /// Adds to a key. `element`: what of it this is, as a hash.
    pub fn add(&mut self, key: &[u8], sums: &Sums, element: Option<u64>) {
        let key = &key[..key.len().min(MAX_KEY_BYTES)];
        let hash = self.hash(key);
        let weight = sums.of(self.measure);
        self.total.add(sums);
        self.distinct.add(hash);
        let at = match self.index.get(&hash) {
            Some(&at) => at,
            None => {
                // What weighs nothing pushes nobody out.
                if weight <= 0.0 && self.is_full(key) {
                    return;
                }
                self.insert(key, hash)
            }
        };
        let counter = &mut self.counters[at as usize];
        counter.sums.add(sums);
        counter.weight += weight;
        if let (Some(elements), Some(element)) = (&mut counter.elements, element) {
            elements.add(element);
        }
        let place = counter.place as usize;
        self.sink(place);
    }

    pub fn top(&self, most: usize) -> Ranking {
        let mut all: Vec<&Counter> = self.counters.iter().collect();
        let counted = |counter: &Counter| counter.sums.of(self.measure);
        all.sort_by(|a, b| {
            let equal = || b.sums.requests.total_cmp(&a.sums.requests).then_with(|| a.key.cmp(&b.key));
            counted(b).total_cmp(&counted(a)).then_with(equal)
        });
        // What anybody who comes after a line may have had.
        let mut after = vec![self.floor; all.len() + 1];
        for at in (0..all.len()).rev() {
            after[at] = all[at].weight.max(after[at + 1]);
        }
        let shown = all.len().min(most);
        let certain = (0..shown).rev().find(|at| counted(all[*at]) >= after[at + 1]).map_or(0, |at| at + 1);
        let rows = all[..shown].iter().map(|counter| Hitter {
            key: counter.key.to_vec(),
            sums: counter.sums,
            error: counter.error,
            elements: counter.elements.as_ref().map(Distinct::estimate),
        });
        Ranking { rows: rows.collect(), certain }
    }

    /// Makes all that was counted smaller, so that what comes now counts for more.
    pub fn fade(&mut self, factor: f64) {
        for counter in &mut self.counters {
            counter.weight *= factor;
            counter.error *= factor;
            counter.sums.fade(factor);
        }
        self.floor *= factor;
        self.total.fade(factor);
    }

    pub fn clear(&mut self) {
        *self = Hitters::new(self.measure, self.budget + DISTINCT_BITS / 8, self.counts_elements);
    }

    fn cost(&self, key: &[u8]) -> usize {
        KEY_COSTS + key.len() + if self.counts_elements { ELEMENT_BITS / 8 } else { 0 }
    }

    fn is_full(&self, key: &[u8]) -> bool {
        self.used + self.cost(key) > self.budget
    }

    fn insert(&mut self, key: &[u8], hash: u64) -> u32 {
        while self.is_full(key) && !self.heap.is_empty() {
            self.evict();
        }
        self.used += self.cost(key);
        let place = self.heap.len() as u32;
        let at = self.counters.len() as u32;
        self.counters.push(Counter {
            key: key.into(),
            hash,
            weight: self.floor,
            error: self.floor,
            sums: Sums::default(),
            elements: self.counts_elements.then(|| Distinct::new(ELEMENT_BITS)),
            place,
        });
        self.heap.push(at);
        self.index.insert(hash, at);
        self.rise(place as usize);
        at
    }

    /// The least goes; the last counter takes its number.
    fn evict(&mut self) {
        let last_place = self.heap.len() - 1;
        self.swap(0, last_place);
        let Some(at) = self.heap.pop() else { return };
        let gone = self.counters.swap_remove(at as usize);
        self.used -= self.cost(&gone.key);
        self.index.remove(&gone.hash);
        self.floor = self.floor.max(gone.weight);
        if let Some(moved) = self.counters.get(at as usize) {
            self.heap[moved.place as usize] = at;
            self.index.insert(moved.hash, at);
        }
        if !self.heap.is_empty() {
            self.sink(0);
        }
    }

    fn weight(&self, place: usize) -> f64 {
        self.counters[self.heap[place] as usize].weight
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for place in [a, b] {
            self.counters[self.heap[place] as usize].place = place as u32;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let children = [2 * place + 1, 2 * place + 2].into_iter().filter(|child| *child < self.heap.len());
            let Some(least) = children.min_by(|a, b| self.weight(*a).total_cmp(&self.weight(*b))) else { return };
            if self.weight(place) <= self.weight(least) {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.weight(place) < self.weight((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(bytes: f64) -> Sums {
        Sums { requests: 1.0, bytes, hits: 1.0, ..Sums::default() }
    }

    /// Numbers as `splitmix64` draws them.
    fn draw(state: &mut u64) -> f64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) as f64 / u64::MAX as f64
    }

    #[test]
    fn top_twenty_of_zipf_are_right_in_a_megabyte() {
        let keys = 100_000;
        let mut sum = 0.0;
        let edges: Vec<f64> = (1..=keys)
            .map(|rank| {
                sum += 1.0 / f64::from(rank);
                sum
            })
            .collect();
        for (seed, measure) in [(1, HittersMeasure::Requests), (2, HittersMeasure::Bytes)] {
            let mut state = seed;
            let mut exact = vec![0.0; keys as usize];
            // As in a report of five tables.
            let mut hitters = Hitters::new(measure, (1 << 20) / 5, false);
            for _ in 0..300_000 {
                let at = draw(&mut state) * sum;
                let key = edges.partition_point(|edge| *edge < at).min(keys as usize - 1);
                let sums = one((draw(&mut state) * 1000.0).round());
                exact[key] += sums.of(measure);
                hitters.add(format!("/some/path/to/page-{key}.html").as_bytes(), &sums, None);
            }
            let mut order: Vec<usize> = (0..exact.len()).collect();
            order.sort_by(|a, b| exact[*b].total_cmp(&exact[*a]));
            let ranking = hitters.top(20);
            for (row, key) in ranking.rows.iter().zip(&order) {
                let name = format!("/some/path/to/page-{key}.html");
                assert_eq!(String::from_utf8_lossy(&row.key), name, "{measure:?}");
                let counted = row.sums.of(measure);
                assert!(counted <= exact[*key] && exact[*key] <= counted + row.error, "{name}");
                assert!(counted > exact[*key] * 0.98, "{name}: {counted} of {}", exact[*key]);
            }
            let (different, is_exact) = hitters.distinct();
            let really = exact.iter().filter(|n| **n > 0.0).count() as f64;
            assert!(!is_exact && (different / really - 1.0).abs() < 0.1, "{different} of {really}");
            assert!(hitters.used <= hitters.budget);
        }
    }

    #[test]
    fn what_fits_is_exact() {
        let mut hitters = Hitters::new(HittersMeasure::Bytes, 1 << 20, true);
        for n in 0..1000u64 {
            let key = format!("{}", n % 10);
            hitters.add(key.as_bytes(), &one((n % 10) as f64), Some(hitters.hash(&(n / 100).to_ne_bytes())));
        }
        let ranking = hitters.top(3);
        let rows: Vec<_> = ranking.rows.iter().map(|r| (r.key[0], r.sums.requests, r.sums.bytes, r.error)).collect();
        assert_eq!(rows, [(b'9', 100.0, 900.0, 0.0), (b'8', 100.0, 800.0, 0.0), (b'7', 100.0, 700.0, 0.0)]);
        assert_eq!((ranking.certain, hitters.distinct()), (3, (10.0, true)));
        assert_eq!(ranking.rows[0].elements, Some(10.0));
        hitters.fade(0.5);
        assert_eq!(hitters.top(1).rows[0].sums.bytes, 450.0);
        hitters.clear();
        assert_eq!((hitters.top(1), hitters.total().requests), (Ranking::default(), 0.0));
    }

    proptest! {
        /// Whoever has more than can be forgotten is there, and no count is wrong by more than it says.
        #[test]
        fn bounds_hold(keys in proptest::collection::vec((0u32..400, 1u32..50), 1..3000)) {
            let mut hitters = Hitters::new(HittersMeasure::Bytes, 0, false);
            let mut exact = HashMap::<u32, f64>::new();
            for (key, bytes) in &keys {
                *exact.entry(*key).or_default() += f64::from(*bytes);
                hitters.add(format!("{key:0>100}").as_bytes(), &one(f64::from(*bytes)), None);
                prop_assert!(hitters.used <= hitters.budget);
            }
            let ranking = hitters.top(usize::MAX);
            let found: HashMap<u32, &Hitter> =
                ranking.rows.iter().map(|row| (String::from_utf8_lossy(&row.key).parse().unwrap(), row)).collect();
            for (key, bytes) in &exact {
                match found.get(key) {
                    None => prop_assert!(*bytes <= hitters.floor),
                    Some(row) => prop_assert!(row.sums.bytes <= *bytes && *bytes <= row.sums.bytes + row.error),
                }
            }
            let mut order: Vec<f64> = exact.values().copied().collect();
            order.sort_by(|a, b| b.total_cmp(a));
            if let Some(least) = ranking.certain.checked_sub(1) {
                let shown = &ranking.rows[..=least];
                prop_assert!(shown.iter().all(|row| row.sums.bytes + row.error >= order[least]));
            }
        }
    }
}
