// SPDX-License-Identifier: BSD-2-Clause
//! Hit rates over sizes of the cache, with their errors.
//!
//! Of a sampled trace the misses are counted and divided by the rate: pages that are asked for often, which a sample has or
//! hasn't, hardly miss. Three things make an error: which pages the sample has (the spread of their misses), that its bytes
//! aren't exactly its share of all (the hit rates of a cache that is smaller or larger by as much), and that the number of all
//! objects is a guess.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::cache::{CacheOutcome, CacheSize, SimulatedLives, run, squares};
use crate::policy::{EvictionPolicy, Greedy, Lru};
use crate::trace::Trace;

/// Standard deviations that an error says. 19 of 20 would be within two, were pages alike: some are asked for so often that
/// a sample without them can't know how far it is off, and by test 19 of 20 are within three.
const DEVIATIONS: f64 = 3.0;

/// The policy that decides which object goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EvictBy {
    Lacquer,
    Lru,
}

impl EvictBy {
    pub const ALL: [EvictBy; 2] = [EvictBy::Lacquer, EvictBy::Lru];

    pub const fn name(self) -> &'static str {
        match self {
            EvictBy::Lacquer => "lacquer",
            EvictBy::Lru => "lru",
        }
    }

    pub fn charge(self, body: u64, beside: u64) -> u64 {
        match self {
            EvictBy::Lacquer => Greedy::charge(body, beside),
            EvictBy::Lru => Lru::charge(body, beside),
        }
    }
}

/// Percent, and the points that it may be wrong by.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Percent {
    pub value: f64,
    pub error: f64,
}

/// One size's hit rates, of all requests and bytes of the log.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CurvePoint {
    pub memory: u64,
    pub requests: Percent,
    pub bytes: Percent,
}

#[derive(Clone, Debug)]
pub struct CurvePlan<'a> {
    pub trace: &'a Trace,
    pub bodies: &'a [u64],
    pub lives: SimulatedLives,
    pub beside: u64,
    /// The share of the requests that only fills the cache.
    pub warm_up: f64,
    /// The share of all requests and bytes of the log that may be kept at all.
    pub cacheable: (f64, f64),
    pub by: EvictBy,
    pub memory: u64,
}

impl CurvePlan<'_> {
    /// The point; `None`: it was to stop.
    fn point(&self, stop: &AtomicBool) -> Option<CurvePoint> {
        let rate = self.trace.rate();
        let counted = Counted::new(self);
        let here = self.run(1.0, stop)?;
        let mut point = CurvePoint {
            memory: self.memory,
            requests: counted.requests(&here, self.cacheable.0),
            bytes: counted.bytes(&here, self.cacheable.1),
        };
        if rate < 1.0 {
            let spread = self.spread();
            let (small, large) = (self.run(1.0 - spread, stop)?, self.run(1.0 + spread, stop)?);
            let between = |rate: &dyn Fn(&CacheOutcome) -> Percent| (rate(&large).value - rate(&small).value) / 2.0;
            let requests = between(&|o| counted.requests(o, self.cacheable.0));
            let bytes = between(&|o| counted.bytes(o, self.cacheable.1));
            point.requests.error = together(point.requests.error, requests).min(100.0);
            point.bytes.error = together(point.bytes.error, bytes).min(100.0);
        }
        Some(point)
    }

    fn run(&self, times: f64, stop: &AtomicBool) -> Option<CacheOutcome> {
        let size = CacheSize { bytes: self.memory, share: self.trace.rate() * times, beside: self.beside };
        let warm_up = self.warm_up();
        match self.by {
            EvictBy::Lacquer => run::<Greedy>(self.trace, self.bodies, self.lives, size, warm_up, stop),
            EvictBy::Lru => run::<Lru>(self.trace, self.bodies, self.lives, size, warm_up, stop),
        }
    }

    fn warm_up(&self) -> usize {
        (self.trace.refs().len() as f64 * self.warm_up) as usize
    }

    /// The share by which the sample's bytes may differ from the rate's share of all.
    fn spread(&self) -> f64 {
        let mut pages = vec![0u64; self.trace.pages()];
        for (object, body) in self.trace.objects().iter().zip(self.bodies) {
            pages[object.page as usize] += self.by.charge(*body, self.beside);
        }
        let sum: f64 = pages.iter().map(|page| *page as f64).sum();
        let spread = ((1.0 - self.trace.rate()) * squares(pages.into_iter())).sqrt() / sum.max(1.0);
        (DEVIATIONS * together(spread, self.trace.rate_deviation())).min(0.9)
    }
}

/// The number of requests and bytes of the whole that a hit rate is of.
struct Counted {
    rate: f64,
    rate_deviation: f64,
    requests: f64,
    bytes: f64,
}

impl Counted {
    fn new(plan: &CurvePlan<'_>) -> Counted {
        let refs = plan.trace.refs();
        let (all, after) = (refs.iter(), refs[plan.warm_up().min(refs.len())..].iter());
        let sum = |refs: std::slice::Iter<'_, crate::trace::Ref>| refs.map(|one| f64::from(one.bytes)).sum::<f64>();
        let (all, after) = (sum(all), sum(after));
        let share = if all > 0.0 { after / all } else { 0.0 };
        Counted {
            rate: plan.trace.rate(),
            rate_deviation: plan.trace.rate_deviation(),
            requests: plan.trace.requests() * (1.0 - plan.warm_up),
            bytes: plan.trace.bytes() * share,
        }
    }

    fn requests(&self, outcome: &CacheOutcome, cacheable: f64) -> Percent {
        self.percent(outcome.misses as f64, outcome.squared_misses, self.requests, cacheable)
    }

    fn bytes(&self, outcome: &CacheOutcome, cacheable: f64) -> Percent {
        self.percent(outcome.miss_bytes as f64, outcome.squared_miss_bytes, self.bytes, cacheable)
    }

    fn percent(&self, misses: f64, squares: f64, all: f64, cacheable: f64) -> Percent {
        if all <= 0.0 {
            return Percent::default();
        }
        let all = all * self.rate;
        let deviation = together(((1.0 - self.rate).max(0.0) * squares).sqrt(), misses * self.rate_deviation);
        Percent {
            value: ((1.0 - misses / all) * cacheable * 100.0).clamp(0.0, 100.0),
            error: (DEVIATIONS * deviation / all * cacheable * 100.0).min(100.0),
        }
    }
}

/// Time between two looks whether to go on.
const LOOK: Duration = Duration::from_millis(50);

/// Works on all plans, on so many threads; `look` is told how many are done and says whether to go on. What wasn't done is
/// `None`.
pub fn points(plans: &[CurvePlan<'_>], threads: usize, mut look: impl FnMut(usize) -> bool) -> Vec<Option<CurvePoint>> {
    let (stop, next) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (made, makes) = mpsc::channel();
    let mut points = vec![None; plans.len()];
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, plans.len().max(1)) {
            let (made, stop, next) = (made.clone(), &stop, &next);
            scope.spawn(move || {
                loop {
                    let n = next.fetch_add(1, Relaxed);
                    let Some(point) = plans.get(n).and_then(|plan| plan.point(stop)) else { break };
                    // Whoever waits for it waits until all threads are done.
                    let _ = made.send((n, point));
                }
            });
        }
        drop(made);
        let mut done = 0;
        loop {
            match makes.recv_timeout(LOOK) {
                Ok((n, point)) => {
                    points[n] = Some(point);
                    done += 1;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if !look(done) {
                stop.store(true, Relaxed);
            }
        }
    });
    points
}

/// Sizes that show where the curve bends: powers of two up to the first that holds it all.
pub fn sizes(working_set: u64) -> Vec<u64> {
    const POINTS: u32 = 10;
    let last = working_set.max(LEAST_SIZE).checked_next_power_of_two().unwrap_or(1 << 63);
    (0..POINTS).rev().map(|n| last >> n).filter(|size| *size >= LEAST_SIZE).collect()
}

const LEAST_SIZE: u64 = 64 << 10;

/// The deviation of a sum of two values that err independently of each other.
/// (`f64::hypot` is a function of the C library, whose version of today needs glibc 2.35.)
fn together(one: f64, other: f64) -> f64 {
    (one * one + other * other).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::Identity;
    use crate::tests::{SimulateDraw, mixed};

    #[test]
    fn sizes_go_up_to_what_holds_all() {
        assert_eq!(sizes(0), [64 << 10]);
        assert_eq!(sizes(1000 << 10), [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20]);
        assert_eq!(sizes(5 << 30).len(), 10);
        assert_eq!(sizes(5 << 30).last(), Some(&(8 << 30)));
        assert_eq!(sizes(u64::MAX).last(), Some(&(1 << 63)));
    }

    fn zipf(most: usize, seed: u64) -> Trace {
        let (mut trace, mut draw) = (Trace::new(most), SimulateDraw(seed));
        for n in 0..120_000 {
            // Popularity is a power of the rank.
            let page = (40_000f64.powf(draw.unit())) as u64;
            let body = 500 << (mixed(page) % 6);
            let hash = mixed(page ^ seed << 32);
            trace.add(Identity { page: hash, object: hash }, n, body, Some(body));
        }
        trace
    }

    fn curve(trace: &Trace, by: EvictBy) -> Vec<CurvePoint> {
        let bodies = trace.bodies(None).expect("lengths");
        let plan = |memory| CurvePlan {
            trace,
            bodies: &bodies,
            lives: SimulatedLives::default(),
            beside: 300,
            warm_up: 0.0,
            cacheable: (1.0, 1.0),
            by,
            memory,
        };
        let plans: Vec<CurvePlan<'_>> = [1 << 20, 8 << 20, 32 << 20, 128 << 20].into_iter().map(plan).collect();
        points(&plans, 2, |_| true).into_iter().map(|point| point.expect("to the end")).collect()
    }

    #[test]
    fn samples_say_how_wrong_they_are() {
        let (mut within, mut all) = (0, 0);
        for seed in 1..=8 {
            let whole = zipf(1 << 20, seed);
            let sample = zipf(12_000, seed);
            assert!(sample.rate() < 0.3 && sample.rate() > 0.01, "{}", sample.rate());
            for by in EvictBy::ALL {
                for (exact, guess) in curve(&whole, by).iter().zip(curve(&sample, by)) {
                    assert!(exact.requests.error == 0.0);
                    assert!(exact.memory < 32 << 20 || guess.requests.error < 3.0, "{guess:?}");
                    for (exact, guess) in [(exact.requests, guess.requests), (exact.bytes, guess.bytes)] {
                        all += 1;
                        within += u32::from((exact.value - guess.value).abs() <= guess.error + 0.1);
                    }
                }
            }
        }
        assert!(within * 10 >= all * 9, "{within} of {all}");
    }

    #[test]
    fn it_stops_when_it_should() {
        let trace = zipf(1 << 20, 1);
        let bodies = trace.bodies(None).expect("lengths");
        let plan = CurvePlan {
            trace: &trace,
            bodies: &bodies,
            lives: SimulatedLives::default(),
            beside: 0,
            warm_up: 0.5,
            cacheable: (1.0, 1.0),
            by: EvictBy::Lru,
            memory: 1 << 20,
        };
        assert!(points(&vec![plan; 300], 2, |_| false).iter().any(Option::is_none));
    }
}
