// SPDX-License-Identifier: BSD-2-Clause
//! When requests are sent: as fast as answers come, at a fixed rate, or by the log's clock.

use crate::order::ReplayRng;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ReplayPace {
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

impl ReplayPace {
    pub fn is_open(self) -> bool {
        !matches!(self, ReplayPace::Closed { .. })
    }

    pub fn think(self, rng: &mut ReplayRng) -> u64 {
        match self {
            ReplayPace::Closed { from, to } if to > from => from + (rng.unit() * (to - from) as f64) as u64,
            ReplayPace::Closed { from, .. } => from,
            ReplayPace::Rate { .. } | ReplayPace::Log { .. } => 0,
        }
    }

    /// Nanoseconds until the next request of a rate.
    pub fn gap(self, rng: &mut ReplayRng) -> f64 {
        match self {
            ReplayPace::Rate { rate, is_random: false } => 1e9 / rate,
            ReplayPace::Rate { rate, is_random: true } => -(1.0 - rng.unit()).ln() * 1e9 / rate,
            ReplayPace::Closed { .. } | ReplayPace::Log { .. } => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_as_asked() {
        let mut rng = ReplayRng::new(7);
        let mut mean = |f: &mut dyn FnMut(&mut ReplayRng) -> f64| (0..20_000).map(|_| f(&mut rng)).sum::<f64>() / 2e4;
        let even = ReplayPace::Rate { rate: 100.0, is_random: false };
        let random = ReplayPace::Rate { rate: 100.0, is_random: true };
        let thinking = ReplayPace::Closed { from: 1_000, to: 3_000 };
        assert_eq!(mean(&mut |r| even.gap(r)), 1e7);
        assert!((mean(&mut |r| random.gap(r)) - 1e7).abs() < 3e5);
        assert!((mean(&mut |r| thinking.think(r) as f64) - 2e3).abs() < 50.0);
        assert_eq!(ReplayPace::Closed { from: 5, to: 5 }.think(&mut rng), 5);
    }
}
