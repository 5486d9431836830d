// SPDX-License-Identifier: BSD-2-Clause
//! Latencies: histograms that never decrease, for Prometheus, and percentiles of an interval, for the page.

use hdrhistogram::Histogram;

/// Upper bounds of the buckets, in seconds. A hit takes tens of microseconds, a slow origin many seconds.
pub const BOUNDS: [f64; 20] = [
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    30.0, 60.0, 300.0,
];

/// A histogram. No count ever decreases.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Buckets {
    /// Count of each bucket, not cumulative. The last bucket is beyond all bounds.
    counts: [u64; BOUNDS.len() + 1],
    /// The sum of all times, in seconds.
    pub sum: f64,
}

impl Buckets {
    pub fn add(&mut self, seconds: f64) {
        let at = BOUNDS.partition_point(|bound| *bound < seconds);
        self.counts[at] += 1;
        self.sum += seconds;
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// For each bound, the number of times that are at most the bound.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut sum = 0;
        BOUNDS.iter().zip(self.counts).map(move |(bound, count)| {
            sum += count;
            (*bound, sum)
        })
    }
}

pub const PERCENTILES: [f64; 3] = [50.0, 90.0, 99.0];
/// Maximum time that is recorded, in microseconds: one hour.
const LONGEST: u64 = 3_600_000_000;

/// Times of an interval. Percentiles are accurate to 1 %.
#[derive(Debug)]
pub struct LatencyWindow(Histogram<u32>);

impl Default for LatencyWindow {
    fn default() -> LatencyWindow {
        let histogram = Histogram::new_with_bounds(1, LONGEST, 2);
        LatencyWindow(histogram.expect("the bounds are in order and two digits are allowed"))
    }
}

impl LatencyWindow {
    pub fn add(&mut self, seconds: f64) {
        self.0.saturating_record((seconds * 1e6).round().max(0.0) as u64);
    }

    pub fn append(&mut self, other: &LatencyWindow) {
        // Both have the same bounds.
        let _ = self.0.add(&other.0);
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The [`PERCENTILES`] in milliseconds. `None` if no time was recorded.
    pub fn percentiles(&self) -> Option<[f32; 3]> {
        (self.count() > 0).then(|| PERCENTILES.map(|p| self.0.value_at_percentile(p) as f32 / 1000.0))
    }

    pub fn clear(&mut self) {
        self.0.reset();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_time_on_a_bound_lies_below_it() {
        let mut buckets = Buckets::default();
        [0.0, 0.001, 0.0011, 1000.0].into_iter().for_each(|seconds| buckets.add(seconds));
        let at = |bound: f64| buckets.cumulative().find(|(b, _)| *b == bound).unwrap().1;
        assert_eq!((at(0.00005), at(0.001), at(0.0025), at(300.0), buckets.count()), (1, 2, 3, 3, 4));
        assert!((buckets.sum - 1000.0021).abs() < 1e-9);
    }

    #[test]
    fn percentiles_of_a_window_are_milliseconds() {
        let mut window = LatencyWindow::default();
        assert_eq!(window.percentiles(), None);
        (1..=100).for_each(|n| window.add(f64::from(n) / 1000.0));
        let [half, most, nearly_all] = window.percentiles().unwrap();
        assert!((half - 50.0).abs() < 1.0 && (most - 90.0).abs() < 1.0 && (nearly_all - 99.0).abs() < 1.0);
        let mut both = LatencyWindow::default();
        both.append(&window);
        both.add(f64::INFINITY);
        assert_eq!(both.count(), 101);
        window.clear();
        assert_eq!(window.count(), 0);
    }

    proptest! {
        #[test]
        fn buckets_only_grow(times in proptest::collection::vec(0.0f64..1000.0, 1..100)) {
            let mut buckets = Buckets::default();
            for (n, seconds) in times.iter().enumerate() {
                buckets.add(*seconds);
                prop_assert_eq!(buckets.count(), n as u64 + 1);
            }
            let mut last = 0;
            for (bound, count) in buckets.cumulative() {
                prop_assert!(count >= last);
                prop_assert_eq!(count, times.iter().filter(|t| **t <= bound).count() as u64);
                last = count;
            }
        }
    }
}
