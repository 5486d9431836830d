// SPDX-License-Identifier: BSD-2-Clause
//! Moments and timers of this thread's runtime: tokio's, or those of the simulation ([`crate::sim`]) that the thread runs.

use std::future::Future;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::sim;

/// A moment of the clock that this thread goes by. Moments of two threads may be compared when neither simulates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Instant(std::time::Instant);

impl Instant {
    pub fn now() -> Instant {
        Instant(sim::now().unwrap_or_else(base::clock::now))
    }

    pub fn from_std(std: std::time::Instant) -> Instant {
        Instant(std)
    }

    pub fn into_std(self) -> std::time::Instant {
        self.0
    }

    pub fn elapsed(&self) -> Duration {
        Instant::now() - *self
    }

    /// Time since `earlier`, zero if that is later.
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }

    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// `None` when that is beyond what the clock can say.
    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        self.0.checked_add(duration).map(Instant)
    }

    /// `None` when that is before what the clock can say.
    pub fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        self.0.checked_sub(duration).map(Instant)
    }
}

impl From<std::time::Instant> for Instant {
    fn from(std: std::time::Instant) -> Instant {
        Instant(std)
    }
}

impl From<Instant> for std::time::Instant {
    fn from(instant: Instant) -> std::time::Instant {
        instant.0
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant(self.0 + duration)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        Instant(self.0 - duration)
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

pin_project_lite::pin_project! {
    #[derive(Debug)]
    #[must_use = "a future does nothing by itself"]
    pub struct Sleep {
        #[pin]
        timer: Timer,
    }
}

pin_project_lite::pin_project! {
    #[derive(Debug)]
    #[project = PinnedTimer]
    enum Timer {
        Real { #[pin] sleep: tokio::time::Sleep },
        Simulated { timer: sim::SimTimer },
    }
}

impl Sleep {
    pub fn deadline(&self) -> Instant {
        match &self.timer {
            Timer::Real { sleep } => Instant(sleep.deadline().into_std()),
            Timer::Simulated { timer } => Instant(timer.deadline()),
        }
    }

    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        match self.project().timer.project() {
            PinnedTimer::Real { sleep } => sleep.reset(deadline.0.into()),
            PinnedTimer::Simulated { timer } => timer.reset(deadline.0),
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.project().timer.project() {
            PinnedTimer::Real { sleep } => sleep.poll(cx),
            PinnedTimer::Simulated { timer } => timer.poll(cx),
        }
    }
}

pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(crate::far(duration))
}

/// Waits until then.
///
/// # Panics
/// This thread has neither a runtime nor a simulation.
pub fn sleep_until(deadline: Instant) -> Sleep {
    let timer = match sim::SimTimer::until(deadline.0) {
        Some(timer) => Timer::Simulated { timer },
        None => Timer::Real { sleep: tokio::time::sleep_until(deadline.0.into()) },
    };
    Sleep { timer }
}
