// SPDX-License-Identifier: BSD-2-Clause
//! Whether a client keeps up a least rate (`min_recv_rate`, `min_send_rate`). Only time in which we wait for it counts, so
//! that a slow origin is never held against it.

use std::time::Duration;

use rt::Instant;

/// A rate is judged over so much time of waiting; within it a client may pause.
const WINDOW: Duration = Duration::from_secs(5);

/// Bytes in one direction, and the waits for them.
#[derive(Debug, Default)]
pub(crate) struct BytePace {
    bytes: u64,
    waited: Duration,
    waits_since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PaceVerdict {
    /// Fast enough; look again after that much more waiting (zero: no rate is asked for).
    GoOn(Duration),
    TooSlow,
}

impl BytePace {
    /// The client moved `bytes`; the clock is asked only after a wait.
    pub(crate) fn moved(&mut self, bytes: usize, now: impl FnOnce() -> Instant) {
        self.bytes += bytes as u64;
        if let Some(since) = self.waits_since.take() {
            self.waited += now().saturating_duration_since(since);
        }
    }

    pub(crate) fn waits(&mut self, now: Instant) {
        self.waits_since.get_or_insert(now);
    }

    /// Judges it by `least` bytes per second; zero asks for nothing.
    pub(crate) fn judge(&mut self, least: u64, now: Instant) -> PaceVerdict {
        if least == 0 {
            *self = BytePace::default();
            return PaceVerdict::GoOn(Duration::ZERO);
        }
        let waiting = self.waits_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let waited = self.waited + waiting;
        if waited < WINDOW {
            return PaceVerdict::GoOn(WINDOW - waited);
        }
        let is_slow = (self.bytes as f64) < least as f64 * waited.as_secs_f64();
        *self = BytePace { bytes: 0, waited: Duration::ZERO, waits_since: self.waits_since.map(|_| now) };
        if is_slow { PaceVerdict::TooSlow } else { PaceVerdict::GoOn(WINDOW) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_trickle_is_too_slow_and_a_pause_isnt() {
        let (start, mut pace) = (Instant::now(), BytePace::default());
        pace.waits(start);
        pace.moved(1000, || after(start, 4));
        assert_eq!(pace.judge(100, after(start, 4)), PaceVerdict::GoOn(Duration::from_secs(1)));
        pace.waits(after(start, 4));
        assert_eq!(pace.judge(100, after(start, 5)), PaceVerdict::GoOn(WINDOW));
        pace.moved(499, || after(start, 9));
        pace.waits(after(start, 9));
        assert_eq!(pace.judge(100, after(start, 10)), PaceVerdict::TooSlow);
    }

    #[test]
    fn time_in_which_nobody_waits_for_the_client_is_free() {
        let (start, mut pace) = (Instant::now(), BytePace::default());
        pace.moved(1, || start);
        assert_eq!(pace.judge(100, after(start, 3600)), PaceVerdict::GoOn(WINDOW));
    }

    #[test]
    fn no_rate_asks_for_nothing() {
        let (start, mut pace) = (Instant::now(), BytePace::default());
        pace.waits(start);
        assert_eq!(pace.judge(0, after(start, 3600)), PaceVerdict::GoOn(Duration::ZERO));
    }
}
