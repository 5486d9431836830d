// SPDX-License-Identifier: BSD-2-Clause
//! How times are distributed: counts in steps of a tenth, from 0.1 ms to a day.

/// Steps to a power of ten.
const STEPS: f64 = 24.0;
/// Shortest distinguished time, in seconds.
const LEAST: f64 = 1e-4;
const MOST: usize = 24 * 9;

#[derive(Clone, Debug, Default)]
pub struct TrafficTimes {
    counts: Vec<u64>,
    n: u64,
}

impl TrafficTimes {
    pub fn add(&mut self, seconds: f64) {
        let at = ((seconds.max(LEAST) / LEAST).log10() * STEPS) as usize;
        if self.counts.is_empty() {
            self.counts = vec![0; MOST + 1];
        }
        self.counts[at.min(MOST)] += 1;
        self.n += 1;
    }

    pub fn len(&self) -> u64 {
        self.n
    }

    /// The time that so great a part of all doesn't exceed, within a tenth.
    pub fn quantile(&self, part: f64) -> f64 {
        let wanted = (self.n as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return LEAST * 10f64.powf((at as f64 + 0.5) / STEPS);
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_near() {
        let mut times = TrafficTimes::default();
        (1..=1000).for_each(|n| times.add(f64::from(n) / 1000.0));
        assert!((times.quantile(0.5) / 0.5 - 1.0).abs() < 0.1 && (times.quantile(0.95) / 0.95 - 1.0).abs() < 0.1);
        [f64::NAN, -1.0, 0.0, 1e30].iter().for_each(|odd| times.add(*odd));
        assert_eq!((times.len(), TrafficTimes::default().quantile(0.5)), (1004, 0.0));
    }
}
