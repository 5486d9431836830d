// SPDX-License-Identifier: BSD-2-Clause
//! Dates as node writes them, in UTC: a process of ours has no other zone.

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

struct Date {
    year: u64,
    month: usize,
    day: u64,
    weekday: usize,
    seconds: u64,
}

/// Days to a date of the Gregorian calendar, counted in eras of 400 years from a 1 March.
fn date(unix: u64) -> Date {
    let days = unix / 86_400;
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 2 } else { from_march - 10 };
    let year = year_of_era + era * 400 + u64::from(month < 2);
    Date { year, month: month as usize, day, weekday: (days % 7) as usize, seconds: unix % 86_400 }
}

fn clock(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Format `21 Nov 08:19:23`.
pub fn short(unix: u64) -> String {
    let d = date(unix);
    format!("{} {} {}", d.day, MONTHS[d.month], clock(d.seconds))
}

/// `Sat Nov 21 2026 08:19:23 GMT+0000 (Coordinated Universal Time)`
pub fn long(unix: u64) -> String {
    let d = date(unix);
    let (weekday, month) = (DAYS[d.weekday], MONTHS[d.month]);
    format!("{weekday} {month} {:02} {} {} GMT+0000 (Coordinated Universal Time)", d.day, d.year, clock(d.seconds))
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates() {
        assert_eq!(super::long(0), "Thu Jan 01 1970 00:00:00 GMT+0000 (Coordinated Universal Time)");
        assert_eq!(super::long(951_827_696), "Tue Feb 29 2000 12:34:56 GMT+0000 (Coordinated Universal Time)");
        assert_eq!(super::long(1_795_249_163), "Sat Nov 21 2026 08:19:23 GMT+0000 (Coordinated Universal Time)");
        assert_eq!(super::short(1_795_249_163), "21 Nov 08:19:23");
    }
}
