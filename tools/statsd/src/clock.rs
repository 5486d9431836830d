// SPDX-License-Identifier: BSD-2-Clause
//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

pub fn milliseconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64() * 1000.0)
}

/// Seconds since 1970, rounded as node rounds them.
pub fn seconds() -> u64 {
    crate::number::round(milliseconds() / 1000.0) as u64
}

/// Time from `now` until the next flush: flushes stand at whole intervals after the start. All in milliseconds.
pub fn until_flush(now: f64, started: f64, interval: f64) -> f64 {
    let passed = crate::number::round((now - started) / interval);
    (started + (passed + 1.0) * interval - now).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::until_flush;

    #[test]
    fn flushes_keep_to_their_grid() {
        assert_eq!(until_flush(1000.0, 1000.0, 10_000.0), 10_000.0);
        assert_eq!(until_flush(700.0, 1000.0, 10_000.0), 10_300.0);
        // A late one is followed by a shorter wait, one that came early by a longer one.
        assert_eq!(until_flush(11_400.0, 1000.0, 10_000.0), 9_600.0);
        assert_eq!(until_flush(10_990.0, 1000.0, 10_000.0), 10_010.0);
    }
}
