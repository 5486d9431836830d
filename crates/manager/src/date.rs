// SPDX-License-Identifier: BSD-2-Clause
//! Dates as HTTP writes them (RFC 9110 5.6.7).

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Seconds since 1970 as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn http_date(unix: f64) -> String {
    let seconds = unix.max(0.0) as u64;
    let (days, second) = (seconds / 86400, seconds % 86400);
    let (year, month, day) = civil(days);
    format!(
        "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[month],
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Days since 1970-01-01 as year, month (0 to 11), day. Counts in 400-year cycles that begin on a first of March.
fn civil(days: u64) -> (u64, usize, u64) {
    let shifted = days + 719_468;
    let (cycle, day_of_cycle) = (shifted / 146_097, shifted % 146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12;
    let year = cycle * 400 + year_of_cycle + u64::from(month < 2);
    (year, month as usize, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        assert_eq!(http_date(784_111_777.0), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(951_782_400.0), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(http_date(0.0), "Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
