// SPDX-License-Identifier: BSD-2-Clause
//! strftime(3) in UTC and the C locale, with glibc's flags `_ - 0 ^ #` and field widths.

use std::fmt::Write;

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// A width beyond this is cut: a format can't ask for unbounded memory.
const MAX_WIDTH: usize = 1024;

struct Tm {
    secs: i64,
    year: i64,
    month: i64,
    day: i64,
    /// 0 is the first of January.
    yday: i64,
    /// Day of the week; 0 is Sunday.
    wday: i64,
    hour: i64,
    min: i64,
    sec: i64,
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days from 1970-01-01 to the first of January.
fn days_before(year: i64) -> i64 {
    let y = year - 1;
    365 * (year - 1970) + (y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400)) - 477
}

impl Tm {
    /// `None` for years that no calendar has (the C library says EOVERFLOW).
    fn new(secs: f64) -> Option<Tm> {
        if secs.is_nan() || secs.abs() > 6.7e16 {
            return None;
        }
        let secs = secs as i64;
        let (days, of_day) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
        let mut year = 1970 + days.div_euclid(366);
        while days_before(year + 1) <= days {
            year += ((days - days_before(year + 1)) / 366).max(1);
        }
        let yday = days - days_before(year);
        let mut day = yday;
        let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut month = 0;
        while day >= lengths[month] {
            day -= lengths[month];
            month += 1;
        }
        let (hour, min, sec) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let wday = (days + 4).rem_euclid(7);
        Some(Tm { secs, year, month: month as i64, day: day + 1, yday, wday, hour, min, sec })
    }

    fn iso_week(&self) -> (i64, i64) {
        let weekday = (self.wday + 6) % 7;
        let week = (self.yday - weekday + 10) / 7;
        let weeks = |year: i64| {
            let first = (days_before(year) + 4).rem_euclid(7);
            if first == 4 || (first == 3 && is_leap(year)) { 53 } else { 52 }
        };
        if week < 1 {
            (self.year - 1, weeks(self.year - 1))
        } else if week > weeks(self.year) {
            (self.year + 1, 1)
        } else {
            (self.year, week)
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Field {
    pad: Option<u8>,
    upper: bool,
    swap: bool,
    width: usize,
}

/// The time by the format; `None` when it has no date.
pub(crate) fn format(secs: f64, format: &[u8]) -> Option<Vec<u8>> {
    let tm = Tm::new(secs)?;
    let mut out = Vec::new();
    write(&tm, format, &mut out);
    Some(out)
}

fn write(tm: &Tm, mut format: &[u8], out: &mut Vec<u8>) {
    while let Some((&byte, rest)) = format.split_first() {
        let spec = format;
        format = rest;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut field = Field::default();
        while let [flag @ (b'_' | b'-' | b'0' | b'^' | b'#'), rest @ ..] = format {
            match flag {
                b'^' => field.upper = true,
                b'#' => field.swap = true,
                pad => field.pad = Some(*pad),
            }
            format = rest;
        }
        while let [digit @ b'0'..=b'9', rest @ ..] = format {
            field.width = (field.width * 10 + usize::from(digit - b'0')).min(MAX_WIDTH);
            format = rest;
        }
        if let [b'E' | b'O', rest @ ..] = format {
            format = rest;
        }
        let Some((&letter, rest)) = format.split_first() else {
            out.push(b'%');
            return;
        };
        if !conversion(tm, letter, field, out) {
            // As glibc: what isn't known stands as it was.
            out.extend_from_slice(&spec[..spec.len() - rest.len()]);
        }
        format = rest;
    }
}

fn conversion(tm: &Tm, letter: u8, field: Field, out: &mut Vec<u8>) -> bool {
    let hour12 = (tm.hour + 11) % 12 + 1;
    let (day, month) = (DAYS[tm.wday as usize], MONTHS[tm.month as usize]);
    match letter {
        b'%' => out.push(b'%'),
        b'n' => out.push(b'\n'),
        b't' => out.push(b'\t'),
        b'a' => text(&day[..3], field, out),
        b'A' => text(day, field, out),
        b'b' | b'h' => text(&month[..3], field, out),
        b'B' => text(month, field, out),
        b'p' if field.swap => text(if tm.hour < 12 { "am" } else { "pm" }, Field { swap: false, ..field }, out),
        b'p' => text(if tm.hour < 12 { "AM" } else { "PM" }, field, out),
        b'P' => text(if tm.hour < 12 { "am" } else { "pm" }, field, out),
        b'Z' if field.swap => text("gmt", Field { swap: false, ..field }, out),
        b'Z' => text("GMT", field, out),
        b'z' => text("+0000", field, out),
        b'C' => number(tm.year.div_euclid(100), 2, b'0', field, out),
        b'd' => number(tm.day, 2, b'0', field, out),
        b'e' => number(tm.day, 2, b'_', field, out),
        b'g' => number(tm.iso_week().0.rem_euclid(100), 2, b'0', field, out),
        b'G' => number(tm.iso_week().0, 1, b'0', field, out),
        b'H' => number(tm.hour, 2, b'0', field, out),
        b'I' => number(hour12, 2, b'0', field, out),
        b'j' => number(tm.yday + 1, 3, b'0', field, out),
        b'k' => number(tm.hour, 2, b'_', field, out),
        b'l' => number(hour12, 2, b'_', field, out),
        b'm' => number(tm.month + 1, 2, b'0', field, out),
        b'M' => number(tm.min, 2, b'0', field, out),
        b's' => number(tm.secs, 1, b'0', field, out),
        b'S' => number(tm.sec, 2, b'0', field, out),
        b'u' => number((tm.wday + 6) % 7 + 1, 1, b'0', field, out),
        b'U' => number((tm.yday + 7 - tm.wday) / 7, 2, b'0', field, out),
        b'V' => number(tm.iso_week().1, 2, b'0', field, out),
        b'w' => number(tm.wday, 1, b'0', field, out),
        b'W' => number((tm.yday + 7 - (tm.wday + 6) % 7) / 7, 2, b'0', field, out),
        b'y' => number(tm.year.rem_euclid(100), 2, b'0', field, out),
        b'Y' => number(tm.year, 1, b'0', field, out),
        b'c' => composed(tm, b"%a %b %e %H:%M:%S %Y", field, out),
        b'D' | b'x' => composed(tm, b"%m/%d/%y", field, out),
        b'F' => composed(tm, b"%Y-%m-%d", field, out),
        b'r' => composed(tm, b"%I:%M:%S %p", field, out),
        b'R' => composed(tm, b"%H:%M", field, out),
        b'T' | b'X' => composed(tm, b"%H:%M:%S", field, out),
        _ => return false,
    }
    true
}

fn composed(tm: &Tm, format: &[u8], field: Field, out: &mut Vec<u8>) {
    let mut inner = Vec::new();
    write(tm, format, &mut inner);
    text(&String::from_utf8_lossy(&inner), field, out);
}

fn text(text: &str, field: Field, out: &mut Vec<u8>) {
    let pad = if field.pad == Some(b'0') { b'0' } else { b' ' };
    out.extend(std::iter::repeat_n(pad, field.width.saturating_sub(text.len())));
    let upper = field.upper || field.swap;
    out.extend(text.bytes().map(|b| if upper { b.to_ascii_uppercase() } else { b }));
}

fn number(value: i64, digits: usize, pad: u8, field: Field, out: &mut Vec<u8>) {
    let pad = match field.pad.unwrap_or(pad) {
        b'-' => None,
        b'_' => Some(b' '),
        other => Some(other),
    };
    let mut text = String::new();
    let _ = write!(text, "{}", value.unsigned_abs());
    let width = if pad.is_some() { digits.max(field.width) } else { field.width };
    if value < 0 {
        out.push(b'-');
    }
    let fill = width.saturating_sub(text.len() + usize::from(value < 0));
    out.extend(std::iter::repeat_n(pad.unwrap_or(b' '), fill));
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    fn check(secs: f64, format: &str, want: &str) {
        let got = super::format(secs, format.as_bytes()).expect("a date");
        assert_eq!(String::from_utf8_lossy(&got), want, "{format}");
    }

    #[test]
    fn conversions() {
        let t = 784_111_777.0; // Sun, 06 Nov 1994 08:49:37 GMT
        check(t, "%a, %d %b %Y %H:%M:%S GMT", "Sun, 06 Nov 1994 08:49:37 GMT");
        check(t, "%A %B %e|%j|%U|%W|%u|%w|%y|%C", "Sunday November  6|310|45|44|7|0|94|19");
        check(t, "%c|%D|%F|%T|%R|%r", "Sun Nov  6 08:49:37 1994|11/06/94|1994-11-06|08:49:37|08:49|08:49:37 AM");
        check(t, "%G-W%V %g|%s|%z %Z|%p%P", "1994-W44 94|784111777|+0000 GMT|AMam");
        check(t, "%-d|%_d|%05d|%^a|%#p|%k|%l|%I", "6| 6|00006|SUN|am| 8| 8|08");
        check(t, "%5Y|%_5d|%-5d|%^B", "01994|    6|    6|NOVEMBER");
        check(t, "100%%%n%t%Q|%", "100%\n\t%Q|%");
    }

    #[test]
    fn calendars_edges() {
        check(0.0, "%F %a %j", "1970-01-01 Thu 001");
        check(-1.0, "%F %T", "1969-12-31 23:59:59");
        check(951_782_400.0, "%F %j", "2000-02-29 060");
        check(1_104_537_600.0, "%F %G-%V", "2005-01-01 2004-53");
        check(1_230_768_000.0, "%F %G-%V", "2009-01-01 2009-01");
        check(-11_676_096_000.0, "%F %a", "1600-01-01 Sat");
        check(253_402_300_800.0, "%F", "10000-01-01");
        assert_eq!(super::format(f64::NAN, b"%F"), None);
        assert_eq!(super::format(1e300, b"%F"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_time_and_format(secs in -1e15f64..1e15, format in "[%a-zA-Z0-9_#^-]{0,20}") {
            proptest::prop_assert!(super::format(secs, format.as_bytes()).is_some());
        }
    }
}
