// SPDX-License-Identifier: BSD-2-Clause
//! How long a client may take to read a response: `send_timeout` and `idle_send_timeout`, as varnishd has them.
//!
//! The response has `send_timeout` in all, from the last timestamp before its head. That is looked at before each write
//! but the first, and, while a client doesn't keep up, each time when it has kept us waiting for `idle_send_timeout`: a
//! client that pauses is waited for until the response's time is over.

use std::time::Duration;

use base::Mono;
use params::timeouts::AT_ONCE;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SendLimits {
    since: Option<Mono>,
    limit: Duration,
    is_begun: bool,
    /// Since when the client has been behind, or since we last looked.
    behind_since: Option<Mono>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientWait {
    /// Look again after that much more waiting.
    For(Duration),
    Forever,
    Over,
}

impl SendLimits {
    /// Nothing is under way.
    pub(crate) const NONE: Self =
        SendLimits { since: None, limit: Duration::ZERO, is_begun: false, behind_since: None };

    pub(crate) fn begin(&mut self, since: Mono, limit: Duration) {
        (self.since, self.limit, self.is_begun) = (Some(since), limit, false);
    }

    /// True if a write would come too late. The clock isn't read for bytes that are sent at once.
    pub(crate) fn forbid_write(&self, now: impl FnOnce() -> Mono) -> bool {
        if !self.is_begun {
            return self.limit == AT_ONCE;
        }
        self.behind_since.is_none() && !self.limit.is_zero() && self.is_over(now())
    }

    /// Something was written; `all`: nothing is left that waits for the client.
    pub(crate) fn wrote(&mut self, all: bool) {
        self.is_begun = true;
        if all {
            self.behind_since = None;
        }
    }

    /// The client can't take more now. `limit` is for what is no response of its own.
    pub(crate) fn wait(&mut self, now: Mono, limit: Duration, idle: Duration) -> ClientWait {
        if self.since.is_none() {
            self.begin(now, limit);
        }
        self.is_begun = true;
        let behind_since = *self.behind_since.get_or_insert(now);
        if idle.is_zero() {
            return match self.left(now) {
                _ if self.limit.is_zero() => ClientWait::Forever,
                Duration::ZERO => ClientWait::Over,
                left => ClientWait::For(left),
            };
        }
        let waited = now.since(behind_since);
        if waited < idle.as_secs_f64() {
            return ClientWait::For(idle - Duration::from_secs_f64(waited.max(0.0)));
        }
        if self.is_over(now) {
            return ClientWait::Over;
        }
        self.behind_since = Some(now);
        ClientWait::For(idle)
    }

    /// True if the time of the whole response is up; without a limit it always is.
    fn is_over(&self, now: Mono) -> bool {
        self.left(now).is_zero()
    }

    fn left(&self, now: Mono) -> Duration {
        let passed = self.since.map_or(0.0, |since| now.since(since).max(0.0));
        self.limit.saturating_sub(Duration::try_from_secs_f64(passed).unwrap_or(Duration::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn begun(limit: u64) -> SendLimits {
        let mut limits = SendLimits::NONE;
        limits.begin(Mono(100.0), secs(limit));
        limits
    }

    #[test]
    fn the_first_write_is_free_and_asks_for_no_clock() {
        assert!(!begun(1).forbid_write(|| unreachable!()));
        let mut limits = begun(1);
        limits.wrote(true);
        assert!(!limits.forbid_write(|| Mono(100.9)));
        assert!(limits.forbid_write(|| Mono(101.1)));
    }

    #[test]
    fn a_client_that_pauses_is_waited_for_until_the_responses_time_is_over() {
        let mut limits = begun(3);
        limits.wrote(false);
        assert_eq!(limits.wait(Mono(100.5), secs(9), secs(1)), ClientWait::For(secs(1)));
        assert_eq!(limits.wait(Mono(101.0), secs(9), secs(1)), ClientWait::For(Duration::from_millis(500)));
        assert_eq!(limits.wait(Mono(101.5), secs(9), secs(1)), ClientWait::For(secs(1)));
        assert_eq!(limits.wait(Mono(102.5), secs(9), secs(1)), ClientWait::For(secs(1)));
        assert_eq!(limits.wait(Mono(103.5), secs(9), secs(1)), ClientWait::Over);
        assert_eq!(limits.wait(Mono(103.6), secs(9), secs(1)), ClientWait::Over, "and nothing else is tried");
    }

    #[test]
    fn who_reads_slowly_has_the_idle_time_even_when_that_is_longer() {
        let mut limits = begun(3);
        assert_eq!(limits.wait(Mono(100.0), secs(9), secs(60)), ClientWait::For(secs(60)));
        limits.wrote(false);
        assert!(!limits.forbid_write(|| Mono(140.0)), "one write that goes on");
        assert_eq!(limits.wait(Mono(140.0), secs(9), secs(60)), ClientWait::For(secs(20)));
        limits.wrote(true);
        assert!(limits.forbid_write(|| Mono(141.0)));
    }

    #[test]
    fn zero_is_no_limit() {
        let mut limits = begun(0);
        limits.wrote(true);
        assert!(!limits.forbid_write(|| Mono(1e6)));
        assert_eq!(limits.wait(Mono(100.0), secs(9), secs(0)), ClientWait::Forever);
        assert_eq!(limits.wait(Mono(100.0), secs(9), secs(1)), ClientWait::For(secs(1)));
        assert_eq!(limits.wait(Mono(101.0), secs(9), secs(1)), ClientWait::Over);
        let mut limits = begun(3);
        assert_eq!(limits.wait(Mono(101.0), secs(9), secs(0)), ClientWait::For(secs(2)));
        assert_eq!(limits.wait(Mono(103.0), secs(9), secs(0)), ClientWait::Over);
    }

    #[test]
    fn at_once_lets_no_byte_of_a_response_out() {
        let mut limits = SendLimits::NONE;
        limits.begin(Mono(100.0), AT_ONCE);
        assert!(limits.forbid_write(|| unreachable!()));
    }

    #[test]
    fn what_is_no_response_has_its_time_from_the_first_wait() {
        let mut limits = SendLimits::NONE;
        limits.wrote(false);
        assert!(!limits.forbid_write(|| Mono(0.0)));
        assert_eq!(limits.wait(Mono(50.0), secs(2), secs(1)), ClientWait::For(secs(1)));
        assert_eq!(limits.wait(Mono(51.0), secs(2), secs(1)), ClientWait::For(secs(1)));
        assert_eq!(limits.wait(Mono(52.0), secs(2), secs(1)), ClientWait::Over);
    }
}
