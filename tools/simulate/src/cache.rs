// SPDX-License-Identifier: BSD-2-Clause
//! A trace before a cache of a certain size: what hits.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::policy::EvictionPolicy;
use crate::trace::{Ref, Trace};

/// Requests between two looks whether somebody wants an end.
const LOOK: usize = 4096;

/// The lives of objects, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimulatedLives {
    /// The value `i64::MAX` stands for ever.
    pub ttl: i64,
    /// After that: still delivered, while a new one is fetched.
    pub grace: i64,
}

impl Default for SimulatedLives {
    fn default() -> Self {
        SimulatedLives { ttl: i64::MAX, grace: 10_000_000_000 }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CacheSize {
    pub bytes: u64,
    /// The share of it that the trace's sample has.
    pub share: f64,
    pub beside: u64,
}

/// Result of a simulated cache: misses of the requests that count.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CacheOutcome {
    pub requests: u64,
    pub bytes: u64,
    pub misses: u64,
    pub miss_bytes: u64,
    /// Sums over the pages of the squares of how far they are from the average page's.
    pub squared_misses: f64,
    pub squared_miss_bytes: f64,
}

/// Asks for all of a trace; the first `warm_up` requests don't count. `None`: it was to stop.
pub fn run<P: EvictionPolicy>(
    trace: &Trace,
    bodies: &[u64],
    lives: SimulatedLives,
    size: CacheSize,
    warm_up: usize,
    stop: &AtomicBool,
) -> Option<CacheOutcome> {
    let mut cache = Cache::<P>::new(trace, lives, size);
    let mut outcome = CacheOutcome::default();
    let mut missed = vec![(0u64, 0u64); trace.pages()];
    for (n, one) in trace.refs().iter().enumerate() {
        if n % LOOK == 0 && stop.load(Relaxed) {
            return None;
        }
        let is_hit = cache.ask(one, bodies[one.object as usize]);
        if n < warm_up {
            continue;
        }
        outcome.requests += 1;
        outcome.bytes += u64::from(one.bytes);
        if !is_hit {
            let page = &mut missed[trace.objects()[one.object as usize].page as usize];
            page.0 += 1;
            page.1 += u64::from(one.bytes);
        }
    }
    let misses = missed.iter().map(|page| page.0);
    let bytes = missed.iter().map(|page| page.1);
    (outcome.misses, outcome.miss_bytes) = (misses.clone().sum(), bytes.clone().sum());
    (outcome.squared_misses, outcome.squared_miss_bytes) = (squares(misses), squares(bytes));
    Some(outcome)
}

/// The sum of the squares of how far each is from the average.
pub fn squares(all: impl Iterator<Item = u64> + Clone) -> f64 {
    let average = all.clone().map(|one| one as f64).sum::<f64>() / (all.clone().count() as f64).max(1.0);
    all.map(|one| (one as f64 - average).powi(2)).sum()
}

struct Cache<P> {
    policy: P,
    lives: SimulatedLives,
    size: CacheSize,
    capacity: u64,
    used: u64,
    stored: Vec<Stored>,
    /// The time at which each object is over; one that was stored again since is passed over.
    ends: VecDeque<(i64, u32)>,
}

/// Cost 0: it isn't.
#[derive(Clone, Copy, Default)]
struct Stored {
    cost: u64,
    born: i64,
}

impl<P: EvictionPolicy> Cache<P> {
    fn new(trace: &Trace, lives: SimulatedLives, size: CacheSize) -> Cache<P> {
        let objects = trace.objects();
        Cache {
            policy: P::new(objects.iter().map(|object| object.hash).collect()),
            lives,
            size,
            capacity: (size.bytes as f64 * size.share) as u64,
            used: 0,
            stored: vec![Stored::default(); objects.len()],
            ends: VecDeque::new(),
        }
    }

    fn ask(&mut self, one: &Ref, body: u64) -> bool {
        self.expire(one.time);
        let Stored { cost, born } = self.stored[one.object as usize];
        let age = one.time.saturating_sub(born);
        let is_stored = cost > 0;
        if is_stored && age < self.lives.ttl {
            self.policy.note_use(one.object);
            return true;
        }
        if is_stored {
            self.drop(one.object);
        }
        self.store(one, body);
        is_stored && age < self.lives.end()
    }

    fn store(&mut self, one: &Ref, body: u64) {
        let cost = P::charge(body, self.size.beside).max(1);
        // Among the sample's objects a large one may be larger than the sample's share.
        if cost > self.size.bytes {
            return;
        }
        while self.used + cost > self.capacity {
            let Some(victim) = self.policy.victim() else { break };
            self.used -= std::mem::take(&mut self.stored[victim as usize]).cost;
        }
        self.used += cost;
        self.stored[one.object as usize] = Stored { cost, born: one.time };
        self.policy.add(one.object, cost);
        if self.lives.ttl != i64::MAX {
            self.ends.push_back((one.time.saturating_add(self.lives.end()), one.object));
        }
    }

    fn expire(&mut self, now: i64) {
        while let Some(&(end, object)) = self.ends.front().filter(|(end, _)| *end <= now) {
            self.ends.pop_front();
            let Stored { cost, born } = self.stored[object as usize];
            if cost > 0 && born.saturating_add(self.lives.end()) == end {
                self.drop(object);
            }
        }
    }

    fn drop(&mut self, object: u32) {
        self.policy.remove(object);
        self.used -= std::mem::take(&mut self.stored[object as usize]).cost;
    }
}

impl SimulatedLives {
    fn end(self) -> i64 {
        self.ttl.saturating_add(self.grace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Greedy, Lru};
    use crate::scheme::Identity;
    use crate::tests::mixed;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;

    /// Requests for pages of a hundred bytes, at these seconds.
    fn trace(asked: impl IntoIterator<Item = (u64, i64)>) -> Trace {
        let mut trace = Trace::new(1 << 20);
        for (page, second) in asked {
            let id = Identity { page: mixed(page), object: mixed(page) };
            trace.add(id, second * SECOND, 100, Some(100));
        }
        trace
    }

    fn misses<P: EvictionPolicy>(trace: &Trace, lives: SimulatedLives, objects: u64) -> u64 {
        let size = CacheSize { bytes: objects * 100, share: 1.0, beside: 0 };
        let bodies = trace.bodies(None).expect("lengths");
        run::<P>(trace, &bodies, lives, size, 0, &AtomicBool::new(false)).expect("to the end").misses
    }

    #[test]
    fn objects_live_as_long_as_they_may() {
        let lives = SimulatedLives { ttl: 60 * SECOND, grace: 10 * SECOND };
        let asked = trace([(1, 0), (1, 59), (1, 65), (1, 66), (1, 124), (1, 200)]);
        // A miss, a hit, a hit in grace that renews it, two hits, a miss.
        assert_eq!(misses::<Lru>(&asked, lives, 5), 2);
        assert_eq!(misses::<Greedy>(&asked, lives, 5), 2);
        assert_eq!(misses::<Lru>(&asked, SimulatedLives::default(), 5), 1);
        // What is over makes room.
        let asked = trace([(1, 0), (2, 50), (3, 71), (2, 72)]);
        assert_eq!(misses::<Lru>(&asked, lives, 2), 3);
        // A clock that goes back keeps what is there.
        assert_eq!(misses::<Lru>(&trace([(1, 9000), (1, 0), (1, 1)]), lives, 2), 1);
    }

    #[test]
    fn what_has_no_room_at_all_isnt_stored() {
        let mut asked = trace([(1, 0), (1, 1)]);
        let id = Identity { page: mixed(2), object: mixed(2) };
        (0..2).for_each(|_| asked.add(id, 2 * SECOND, 1000, Some(1000)));
        asked.add(Identity { page: mixed(1), object: mixed(1) }, 3, 100, None);
        assert_eq!(misses::<Lru>(&asked, SimulatedLives::default(), 5), 3);
    }

    /// Mattson's stack: how many others were asked for since the last time.
    fn distances(asked: &[u64]) -> Vec<Option<usize>> {
        let mut stack: Vec<u64> = Vec::new();
        let mut all = Vec::new();
        for page in asked {
            let at = stack.iter().rposition(|other| other == page);
            all.push(at.map(|at| stack.len() - 1 - at));
            at.map(|at| stack.remove(at));
            stack.push(*page);
        }
        all
    }

    proptest! {
        #[test]
        fn least_recently_used_is_by_reuse_distance(asked in proptest::collection::vec(0u64..30, 0..300), size in 1u64..30) {
            let far = distances(&asked).iter().filter(|d| d.is_none_or(|d| d as u64 >= size)).count();
            let trace = trace(asked.iter().map(|page| (*page, 0)));
            if !asked.is_empty() {
                prop_assert_eq!(misses::<Lru>(&trace, SimulatedLives::default(), size), far as u64);
            }
        }

        /// Whatever is asked when: no more is stored than there is room for.
        #[test]
        fn a_store_holds_its_limit(
            asked in proptest::collection::vec((0u64..30, 0i64..500, 0u64..3000), 1..300), bytes in 1u64..20_000, ttl in 1i64..200,
        ) {
            let mut trace = Trace::new(1 << 20);
            for (page, second, body) in asked {
                trace.add(Identity { page: mixed(page), object: mixed(page) }, second * SECOND, body, Some(body));
            }
            let bodies = trace.bodies(None).expect("lengths");
            let lives = SimulatedLives { ttl: ttl * SECOND, grace: 5 * SECOND };
            let mut cache = Cache::<Greedy>::new(&trace, lives, CacheSize { bytes, share: 1.0, beside: 100 });
            for one in trace.refs() {
                cache.ask(one, bodies[one.object as usize]);
                prop_assert!(cache.used <= bytes);
                prop_assert_eq!(cache.used, cache.stored.iter().map(|stored| stored.cost).sum::<u64>());
            }
        }
    }
}
