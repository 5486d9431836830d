// SPDX-License-Identifier: BSD-2-Clause
//! Times as people and programs read them.

use message::date::civil;

use crate::UnixNs;

const DAY: u64 = 86_400;

/// `2023-11-14T22:13:20.000100Z` (RFC 3339), with microseconds as the log has them.
pub fn rfc3339(at: UnixNs) -> String {
    let (seconds, below) = (at.0 / 1_000_000_000, at.0 % 1_000_000_000 / 1000);
    let (year, month, day) = civil((seconds / DAY) as i64);
    let (hour, minute, second) = (seconds % DAY / 3600, seconds % 3600 / 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{below:06}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar() {
        let text = |seconds: u64| rfc3339(UnixNs(seconds * 1_000_000_000 + 100_999));
        assert_eq!(text(0), "1970-01-01T00:00:00.000100Z");
        assert_eq!(text(1_700_000_000), "2023-11-14T22:13:20.000100Z");
        assert_eq!(text(951_782_399), "2000-02-28T23:59:59.000100Z");
        assert_eq!(text(951_782_400), "2000-02-29T00:00:00.000100Z");
        assert_eq!(text(4_107_542_400), "2100-03-01T00:00:00.000100Z");
    }
}
