// SPDX-License-Identifier: BSD-2-Clause
//! How often a peer may do what costs it little and us much.

use base::clock::Mono;

/// Each number is how many there may be in a period; 0 means no limit. What honest peers do often is paid back by what they do it for
/// (see [`EventMeter::pay_back`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http2AbuseLimits {
    /// Seconds in which a spent allowance comes back: `h2_rapid_reset_period`.
    pub period: u32,
    /// Milliseconds from a stream's begin in which its reset is a rapid one: `h2_rapid_reset`.
    pub rapid_reset_ms: u32,
    /// Number of rapid resets.
    pub rapid_resets: u32,
    /// Streams that we reset for what the peer sent.
    pub made_resets: u32,
    /// Streams above the number that is allowed.
    pub refused: u32,
    /// CONTINUATION frames in one field section.
    pub continuations: u32,
    /// Bytes of one field section, compressed.
    pub section_bytes: u32,
    /// Bytes of one field section, decompressed, with 32 for each field. Twice `section_bytes` is a limit, too.
    pub list_bytes: u32,
    /// Bytes of one field: `http_req_hdr_len` or `http_resp_hdr_len`.
    pub line_bytes: u32,
    /// Number of SETTINGS frames.
    pub settings: u32,
    /// PING frames that answer no data of ours.
    pub pings: u32,
    /// PRIORITY and PRIORITY_UPDATE frames beyond a few for each stream.
    pub priorities: u32,
    /// DATA frames without data.
    pub empty_data: u32,
    /// DATA frames of a few bytes that don't end their stream.
    pub small_data: u32,
    /// WINDOW_UPDATE frames that answer no data of ours.
    pub window_updates: u32,
    /// DATA frames of ours that a window cut to a few bytes.
    pub small_windows: u32,
    /// Frames of unknown kinds and for streams that are over.
    pub ignored: u32,
    /// Bytes of answers to control frames that the peer hasn't read.
    pub unread_bytes: u32,
}

impl Default for Http2AbuseLimits {
    fn default() -> Self {
        Http2AbuseLimits {
            period: 60,
            rapid_reset_ms: 1000,
            rapid_resets: 100,
            made_resets: 100,
            refused: 1000,
            continuations: 32,
            section_bytes: 128 * 1024,
            list_bytes: 0,
            line_bytes: 0,
            settings: 100,
            pings: 1000,
            priorities: 1000,
            empty_data: 100,
            small_data: 100_000,
            window_updates: 1000,
            small_windows: 1000,
            ignored: 1000,
            unread_bytes: 64 * 1024,
        }
    }
}

/// How often a client may reset streams soon after they began. VCL can change it for a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RapidResetLimit {
    /// Seconds from a stream's begin in which its reset counts.
    pub within: f64,
    /// How many there may be in a period. 0: no limit.
    pub most: u32,
    /// Seconds.
    pub period: f64,
}

impl From<&Http2AbuseLimits> for RapidResetLimit {
    fn from(limits: &Http2AbuseLimits) -> Self {
        RapidResetLimit {
            within: f64::from(limits.rapid_reset_ms) / 1000.0,
            most: limits.rapid_resets,
            period: limits.period.into(),
        }
    }
}

/// Counts events in a sliding window: what was counted leaks away at the limit's rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventMeter {
    spent: f32,
    at: f32,
}

impl EventMeter {
    /// Counts one; whether it is one too many. `now`: seconds since the connection began.
    pub fn count(&mut self, now: f32, limit: u32, period: u32) -> bool {
        self.count_many(1, now, limit, period)
    }

    /// Like [`EventMeter::count`], for several events at once.
    pub fn count_many(&mut self, count: u32, now: f32, limit: u32, period: u32) -> bool {
        let period = period.max(1) as f32;
        (self.spent, self.at) = (self.spent_by(now, limit, period) + count as f32, now);
        limit > 0 && self.spent > limit as f32
    }

    /// Counts a rapid reset; whether it is one too many.
    pub(crate) fn count_reset(&mut self, now: f32, limit: RapidResetLimit) -> bool {
        (self.spent, self.at) = (self.spent_by(now, limit.most, limit.period as f32) + 1.0, now);
        limit.most > 0 && self.spent > limit.most as f32
    }

    /// Events that haven't leaked away.
    pub(crate) fn spent_by(&self, now: f32, limit: u32, period: f32) -> f32 {
        let leaked = (now - self.at).max(0.0) * limit as f32 / period;
        (self.spent - leaked).max(0.0)
    }

    /// There was a good reason for so many.
    pub fn pay_back(&mut self, count: u32) {
        self.spent = (self.spent - count as f32).max(0.0);
    }
}

/// Seconds since `born`, exact enough for limits.
pub(crate) fn seconds_since(born: Mono, now: Mono) -> f32 {
    now.since(born) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_comes_back() {
        let mut meter = EventMeter::default();
        assert!((0..10).all(|_| !meter.count(0.0, 10, 60)));
        assert!(meter.count(0.0, 10, 60));
        let mut meter = EventMeter::default();
        // One in six seconds is what ten a minute allow for ever.
        assert!((0..1000).all(|n| !meter.count(n as f32 * 6.0, 10, 60)));
        let mut meter = EventMeter::default();
        assert!((0..1000).all(|_| !meter.count(0.0, 0, 60)));
        let mut meter = EventMeter::default();
        for _ in 0..1000 {
            assert!(!meter.count(0.0, 10, 60));
            meter.pay_back(1);
        }
    }
}
