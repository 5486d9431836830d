// SPDX-License-Identifier: BSD-2-Clause
//! Time. TTL, age and timeouts run on the monotonic clock; wall-clock time is for Date, logs and VCL's TIME.
//!
//! A [`Clock`] can be real or moved by hand (tests, simulation). Clippy lets product code read no other clock (`clippy.toml`): a task takes
//! `rt::Instant`, which the simulation moves; a thread that no simulation runs takes [`now`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Monotonic time: seconds on the machine's CLOCK_MONOTONIC, which all its processes have; of a manual clock since it was made.
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

    pub fn plus(self, seconds: f64) -> Mono {
        Mono(self.0 + seconds)
    }
}

impl std::ops::Add<Duration> for Mono {
    type Output = Mono;

    fn add(self, later: Duration) -> Mono {
        self.plus(later.as_secs_f64())
    }
}

impl Real {
    pub fn since(self, earlier: Real) -> f64 {
        self.0 - earlier.0
    }

    pub fn plus(self, seconds: f64) -> Real {
        Real(self.0 + seconds)
    }
}

/// A source of both times; cheap to clone.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System {
        skew: Arc<Skew>,
    },
    Manual {
        ns: Arc<AtomicU64>,
        /// Seconds by which its wall clock is ahead of the true time, as bits.
        ahead: Arc<AtomicU64>,
    },
}

/// The distance of wall-clock time from monotonic time, and the moment at which that was looked up. Two threads may
/// look it up at once: both are right.
#[derive(Debug, Default)]
struct Skew {
    seconds: AtomicU64,
    at: AtomicU64,
}

impl Skew {
    fn at(&self) -> f64 {
        f64::from_bits(self.at.load(Ordering::Relaxed))
    }
}

/// Seconds for which a difference holds: by so much may a step of the wall clock go unnoticed, for so long.
const SKEW_HOLDS: f64 = 1.0;

/// A change of the difference by less isn't one.
const SKEW_STEP: f64 = 0.01;

/// The start of a manual clock's wall time: 2001-09-09T01:46:40Z.
const MANUAL_EPOCH: f64 = 1e9;

impl Clock {
    pub fn system() -> Self {
        Clock(Source::System { skew: Arc::default() })
    }

    /// A clock that stands still until [`Clock::advance`] moves it.
    pub fn manual() -> Self {
        Clock(Source::Manual { ns: Arc::default(), ahead: Arc::default() })
    }

    /// Another machine's clock: the same manual clock with a wall clock of its own. Panics on the system's clock.
    pub fn beside(&self) -> Self {
        match &self.0 {
            Source::Manual { ns, .. } => Clock(Source::Manual { ns: ns.clone(), ahead: Arc::default() }),
            Source::System { .. } => panic!("the system has one wall clock"),
        }
    }

    /// Sets a manual clock's wall clock (and that of its clones) so many seconds ahead of the true time, or back. Panics on the system's.
    pub fn set_ahead(&self, seconds: f64) {
        match &self.0 {
            Source::Manual { ahead, .. } => ahead.store(seconds.to_bits(), Ordering::Relaxed),
            Source::System { .. } => panic!("the system's clock can't be set"),
        }
    }

    /// Moves a manual clock (and all its clones) forward. Panics on the system's clock.
    pub fn advance(&self, by: Duration) {
        match &self.0 {
            Source::Manual { ns, .. } => ns.fetch_add(by.as_nanos() as u64, Ordering::Relaxed),
            Source::System { .. } => panic!("the system's clock can't be moved"),
        };
    }

    pub fn mono(&self) -> Mono {
        match &self.0 {
            Source::System { .. } => Mono(seconds(ClockId::CLOCK_MONOTONIC)),
            Source::Manual { ns, .. } => Mono(ns.load(Ordering::Relaxed) as f64 / 1e9),
        }
    }

    /// A wall-clock time as monotonic time. The difference of the two clocks is looked up about once a second.
    pub fn mono_of(&self, real: Real) -> Mono {
        Mono(real.0 - self.skew(|skew| (skew.at() - real.0).abs() < SKEW_HOLDS))
    }

    pub fn real_of(&self, mono: Mono) -> Real {
        Real(mono.0 + self.skew(|_| true))
    }

    /// Wall-clock time minus monotonic time: the one looked up last while `holds`, else now.
    fn skew(&self, holds: impl Fn(&Skew) -> bool) -> f64 {
        let skew = match &self.0 {
            Source::System { skew, .. } => skew,
            Source::Manual { ahead, .. } => return MANUAL_EPOCH + f64::from_bits(ahead.load(Ordering::Relaxed)),
        };
        if skew.at() != 0.0 && holds(skew) {
            return f64::from_bits(skew.seconds.load(Ordering::Relaxed));
        }
        let real = self.real().0;
        let (now, known) = (real - self.mono().0, f64::from_bits(skew.seconds.load(Ordering::Relaxed)));
        // The same until the wall clock is set: times that are equal on one clock are on the other.
        let seconds = if (now - known).abs() < SKEW_STEP { known } else { now };
        skew.seconds.store(seconds.to_bits(), Ordering::Relaxed);
        skew.at.store(real.to_bits(), Ordering::Relaxed);
        seconds
    }

    pub fn real(&self) -> Real {
        match &self.0 {
            // Not by way of `SystemTime`, which takes three times as many steps: each request looks four times.
            Source::System { .. } => Real(seconds(ClockId::CLOCK_REALTIME)),
            Source::Manual { .. } => self.real_of(self.mono()),
        }
    }
}

/// Now, for a thread that waits for a disk, a socket or another process, and for measurements of the machine itself.
/// The simulation doesn't move it.
#[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
pub fn now() -> Instant {
    Instant::now()
}

fn seconds(clock: ClockId) -> f64 {
    clock_gettime(clock).map_or(0.0, |now| now.tv_sec() as f64 + now.tv_nsec() as f64 / 1e9)
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
        assert_eq!(clock.mono_of(twin.real()), Mono(1.5));
        assert_eq!(clock.real_of(Mono(2.0)), Real(MANUAL_EPOCH + 2.0));
    }

    #[test]
    fn machines_have_wall_clocks_of_their_own() {
        let clock = Clock::manual();
        let other = clock.beside();
        other.set_ahead(-3600.0);
        clock.advance(Duration::from_secs(1));
        assert_eq!((other.mono(), clock.real()), (Mono(1.0), Real(MANUAL_EPOCH + 1.0)));
        assert_eq!(other.clone().real(), Real(MANUAL_EPOCH - 3599.0));
        assert_eq!(other.mono_of(clock.real()), Mono(3601.0));
    }

    #[test]
    fn one_process_understands_another_ones_times() {
        let (one, other) = (Clock::system().mono(), Clock::system().mono());
        assert!((0.0..0.5).contains(&other.since(one)), "{one:?} {other:?}");
        let machine = seconds(ClockId::CLOCK_MONOTONIC);
        assert!((machine - one.0).abs() < 2.0, "it is the machine's clock");
    }

    #[test]
    fn the_two_clocks_are_translated() {
        let clock = Clock::system();
        let (real, mono) = (clock.real(), clock.mono());
        assert!((clock.mono_of(real).since(mono)).abs() < 0.1);
        assert!((clock.real_of(mono).since(real)).abs() < 0.1);
    }
}
