// SPDX-License-Identifier: BSD-2-Clause
//! Time. TTL, age and timeouts run on the monotonic clock; wall-clock time is for Date, logs and VCL's TIME.
//!
//! A [`Clock`] can be real or moved by hand (tests, simulation): nobody calls `Instant::now` elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Monotonic time: seconds since the clock was made.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Mono(pub f64);

/// Wall-clock time: seconds since 1970-01-01 UTC.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Real(pub f64);

impl Mono {
    /// Seconds from `earlier` to `self`; negative when `earlier` is later.
    pub fn since(self, earlier: Mono) -> f64 {
        self.0 - earlier.0
    }

    /// `self` moved by `seconds`.
    pub fn plus(self, seconds: f64) -> Mono {
        Mono(self.0 + seconds)
    }
}

impl Real {
    /// Seconds from `earlier` to `self`; negative when `earlier` is later.
    pub fn since(self, earlier: Real) -> f64 {
        self.0 - earlier.0
    }

    /// `self` moved by `seconds`.
    pub fn plus(self, seconds: f64) -> Real {
        Real(self.0 + seconds)
    }
}

/// A source of both times; cheap to clone.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System { start: Instant },
    Manual(Arc<AtomicU64>),
}

/// Where a manual clock's wall time starts: 2001-09-09T01:46:40Z.
const MANUAL_EPOCH: f64 = 1e9;

impl Clock {
    /// The machine's clocks.
    pub fn system() -> Self {
        Clock(Source::System { start: Instant::now() })
    }

    /// A clock that stands still until [`Clock::advance`] moves it.
    pub fn manual() -> Self {
        Clock(Source::Manual(Arc::new(AtomicU64::new(0))))
    }

    /// Moves a manual clock (and all its clones) forward. Panics on the system's clock.
    pub fn advance(&self, by: Duration) {
        match &self.0 {
            Source::Manual(ns) => ns.fetch_add(by.as_nanos() as u64, Ordering::Relaxed),
            Source::System { .. } => panic!("the system's clock can't be moved"),
        };
    }

    /// Monotonic now.
    pub fn mono(&self) -> Mono {
        match &self.0 {
            Source::System { start } => Mono(start.elapsed().as_secs_f64()),
            Source::Manual(ns) => Mono(ns.load(Ordering::Relaxed) as f64 / 1e9),
        }
    }

    /// Wall-clock now.
    pub fn real(&self) -> Real {
        match &self.0 {
            Source::System { .. } => {
                Real(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64())
            }
            Source::Manual(_) => Real(MANUAL_EPOCH + self.mono().0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_with_its_clones() {
        let clock = Clock::manual();
        let twin = clock.clone();
        clock.advance(Duration::from_millis(1500));
        assert_eq!(twin.mono(), Mono(1.5));
        assert_eq!(twin.real().since(Real(MANUAL_EPOCH)), 1.5);
    }
}
