// SPDX-License-Identifier: BSD-2-Clause
//! When requests are sent: as fast as answers come, at a fixed rate, or by the log's clock.

use crate::order::Rng;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// Closed loop: each connection sends when it has its answer and has thought, for a time between these (nanoseconds).
    Closed { from: u64, to: u64 },
    /// Open loop: so many a second, whatever the server does.
    Rate {
        rate: f64,
        /// Gaps of chance with that mean, as independent users make them (else they are equal).
        is_random: bool,
    },
    /// Open loop: as the log says, so many times as fast.
    Log {
        /// 1: as it was.
        speed: f64,
    },
}

impl Pace {
    pub fn is_open(self) -> bool {
        !matches!(self, Pace::Closed { .. })
    }

    pub fn think(self, rng: &mut Rng) -> u64 {
        match self {
            Pace::Closed { from, to } if to > from => from + (rng.unit() * (to - from) as f64) as u64,
            Pace::Closed { from, .. } => from,
            Pace::Rate { .. } | Pace::Log { .. } => 0,
        }
    }

    /// Nanoseconds until the next request of a rate.
    pub fn gap(self, rng: &mut Rng) -> f64 {
        match self {
            Pace::Rate { rate, is_random: false } => 1e9 / rate,
            Pace::Rate { rate, is_random: true } => -(1.0 - rng.unit()).ln() * 1e9 / rate,
            Pace::Closed { .. } | Pace::Log { .. } => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_as_asked() {
        let mut rng = Rng::new(7);
        let mut mean = |f: &mut dyn FnMut(&mut Rng) -> f64| (0..20_000).map(|_| f(&mut rng)).sum::<f64>() / 2e4;
        let even = Pace::Rate { rate: 100.0, is_random: false };
        let random = Pace::Rate { rate: 100.0, is_random: true };
        let thinking = Pace::Closed { from: 1_000, to: 3_000 };
        assert_eq!(mean(&mut |r| even.gap(r)), 1e7);
        assert!((mean(&mut |r| random.gap(r)) - 1e7).abs() < 3e5);
        assert!((mean(&mut |r| thinking.think(r) as f64) - 2e3).abs() < 50.0);
        assert_eq!(Pace::Closed { from: 5, to: 5 }.think(&mut rng), 5);
    }
}
