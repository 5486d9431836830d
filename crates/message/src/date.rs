// SPDX-License-Identifier: BSD-2-Clause
//! HTTP dates (RFC 9110 5.6.7): the three formats in, IMF-fixdate out. Leap seconds don't exist here.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use base::clock::Real;

const DAYS: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const DAY_TAILS: [&[u8]; 7] = [b"day", b"day", b"sday", b"nesday", b"rsday", b"day", b"urday"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Length of a formatted date.
pub const LEN: usize = 29;

/// `Sun, 06 Nov 1994 08:49:37 GMT`. Times out of the years 0 to 9999 are pulled to the nearest that has the format.
pub fn format(t: Real) -> [u8; LEN] {
    const FIRST: i64 = -62_167_219_200;
    const LAST: i64 = 253_402_300_799;
    let secs = (t.0.floor().clamp(FIRST as f64, LAST as f64)) as i64;
    let (days, of_day) = (secs.div_euclid(86_400), secs.rem_euclid(86_400) as u32);
    let (year, month, day) = civil(days);
    let weekday = (days + 4).rem_euclid(7) as usize;
    let mut out = *b"Sun, 06 Nov 1994 08:49:37 GMT";
    out[..3].copy_from_slice(DAYS[weekday]);
    two_digits(&mut out[5..7], day);
    out[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    two_digits(&mut out[12..14], year / 100);
    two_digits(&mut out[14..16], year % 100);
    two_digits(&mut out[17..19], of_day / 3600);
    two_digits(&mut out[20..22], of_day / 60 % 60);
    two_digits(&mut out[23..25], of_day % 60);
    out
}

/// The date as a text, for lists and messages.
pub fn text(t: Real) -> String {
    format(t).iter().copied().map(char::from).collect()
}

fn two_digits(out: &mut [u8], n: u32) {
    out[0] = b'0' + (n / 10) as u8;
    out[1] = b'0' + (n % 10) as u8;
}

/// Remembers the last second it formatted: a busy thread formats once a second.
#[derive(Clone, Debug)]
pub struct DateCache {
    second: i64,
    text: [u8; LEN],
}

impl Default for DateCache {
    fn default() -> Self {
        DateCache { second: 0, text: format(Real(0.0)) }
    }
}

impl DateCache {
    /// Formats a time as [`format`] does.
    pub fn format(&mut self, t: Real) -> &[u8; LEN] {
        let second = t.0.floor() as i64;
        if second != self.second {
            *self = DateCache { second, text: format(t) };
        }
        &self.text
    }
}

/// Days since 1970-01-01 to year, month, day of the Gregorian calendar.
pub fn civil(days: i64) -> (u32, u32, u32) {
    // Years begin in March here, so that the leap day is the last of its year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, late) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    ((year_of_era + era * 400 + late) as u32, month as u32, day as u32)
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Reads a date: IMF-fixdate, the obsolete RFC 850 and asctime forms, and `1994-11-06T08:49:37` as varnishd does. `None` for
/// anything else: a wrong weekday, a day that its month hasn't, years before 1899, trailing text.
pub fn parse(text: &[u8]) -> Option<Real> {
    let Ok(fixed) = <[u8; LEN]>::try_from(text) else { return parse_any(text, takes_one_digit()) };
    let [last, before] = LAST.get();
    if last.0 == fixed {
        return Some(last.1);
    }
    let found = if before.0 == fixed { before } else { (fixed, parse_any(text, takes_one_digit())?) };
    LAST.set([found, last]);
    Some(found.1)
}

/// Takes a day before the tenth with one digit: the feature `http_date_postel`.
static TAKES_ONE_DIGIT: AtomicBool = AtomicBool::new(false);

/// Takes `Thu, 4 Jan 2018 06:26:29 GMT`, which RFC 9110 doesn't allow, as well, or not any longer. For the whole process:
/// a date is read in many places, and none of them has a reason to decide this for itself.
pub fn take_one_digit_days(on: bool) {
    TAKES_ONE_DIGIT.store(on, Ordering::Relaxed);
}

thread_local! {
    /// The two dates that this thread read last, the last one first: origins say the same Date for a second, and a Last-Modified beside it.
    static LAST: Cell<[([u8; LEN], Real); 2]> = const { Cell::new([([0; LEN], Real(0.0)); 2]) };
}

fn takes_one_digit() -> bool {
    TAKES_ONE_DIGIT.load(Ordering::Relaxed)
}

fn parse_any(text: &[u8], takes_one_digit: bool) -> Option<Real> {
    let mut p = Cursor { rest: skip_blanks(text), takes_one_digit };
    let first = *p.rest.first()?;
    let (date, time) = if first.is_ascii_digit() {
        let date = (p.digits(4)?, p.then(b"-")?.digits(2)?, p.then(b"-")?.digits(2)?);
        p.then(b"T")?;
        ((date, None), p.time()?)
    } else {
        let weekday = p.one_of(&DAYS)?;
        match p.rest.first()? {
            b',' => p.imf(weekday)?,
            b' ' => p.asctime(weekday)?,
            _ => p.rfc850(weekday)?,
        }
    };
    if !skip_blanks(p.rest).is_empty() {
        return None;
    }
    let ((year, month, day), weekday) = date;
    let days = checked_days(year, month, day)?;
    if weekday.is_some_and(|w| (days + 4).rem_euclid(7) != i64::from(w)) {
        return None;
    }
    Some(Real((days * 86_400 + i64::from(time)) as f64))
}

fn skip_blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] = text {
        text = rest;
    }
    text
}

fn checked_days(year: u32, month: u32, day: u32) -> Option<i64> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let longest = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year < 1899 || day == 0 || day > longest {
        return None;
    }
    Some(days_from_civil(i64::from(year), i64::from(month), i64::from(day)))
}

/// Year, month, day, and the weekday where the format has one; seconds of the day.
type Stamp = (((u32, u32, u32), Option<u32>), u32);

struct Cursor<'a> {
    rest: &'a [u8],
    takes_one_digit: bool,
}

impl Cursor<'_> {
    fn digits(&mut self, n: usize) -> Option<u32> {
        let (digits, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        digits.iter().try_fold(0, |sum, c| c.is_ascii_digit().then(|| sum * 10 + u32::from(c - b'0')))
    }

    fn then(&mut self, text: &[u8]) -> Option<&mut Self> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(self)
    }

    fn one_of(&mut self, words: &[&[u8; 3]]) -> Option<u32> {
        let (word, rest) = self.rest.split_at_checked(3)?;
        self.rest = rest;
        words.iter().position(|w| w[..] == *word).map(|i| i as u32)
    }

    fn time(&mut self) -> Option<u32> {
        let (h, m) = (self.digits(2)?, self.then(b":")?.digits(2)?);
        let s = self.then(b":")?.digits(2)?;
        (h < 24 && m < 60 && s <= 60).then(|| h * 3600 + m * 60 + s.min(59))
    }

    /// `, 06 Nov 1994 08:49:37 GMT`
    fn imf(&mut self, weekday: u32) -> Option<Stamp> {
        self.then(b", ")?;
        let is_short = self.takes_one_digit && self.rest.get(1) == Some(&b' ');
        let day = self.digits(if is_short { 1 } else { 2 })?;
        let month = self.then(b" ")?.one_of(&MONTHS)? + 1;
        let year = self.then(b" ")?.digits(4)?;
        let time = self.then(b" ")?.time()?;
        self.then(b" GMT")?;
        Some((((year, month, day), Some(weekday)), time))
    }

    /// ` Nov  6 08:49:37 1994`
    fn asctime(&mut self, weekday: u32) -> Option<Stamp> {
        let month = self.then(b" ")?.one_of(&MONTHS)? + 1;
        self.then(b" ")?;
        let day = if self.rest.first() == Some(&b' ') { self.then(b" ")?.digits(1)? } else { self.digits(2)? };
        let time = self.then(b" ")?.time()?;
        let year = self.then(b" ")?.digits(4)?;
        Some((((year, month, day), Some(weekday)), time))
    }

    /// `day, 06-Nov-94 08:49:37 GMT`: two-digit years are 1969 to 2068.
    fn rfc850(&mut self, weekday: u32) -> Option<Stamp> {
        self.then(DAY_TAILS[weekday as usize])?;
        let day = self.then(b", ")?.digits(2)?;
        let month = self.then(b"-")?.one_of(&MONTHS)? + 1;
        let year = 1900 + self.then(b"-")?.digits(2)?;
        let year = if year < 1969 { year + 100 } else { year };
        let time = self.then(b" ")?.time()?;
        self.then(b" GMT")?;
        Some((((year, month, day), Some(weekday)), time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, want: Option<f64>) {
        assert_eq!(parse(text.as_bytes()).map(|t| t.0), want, "{text}");
    }

    #[test]
    fn all_formats_of_one_moment() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "1994-11-06T08:49:37",
            "  Sun, 06 Nov 1994 08:49:37 GMT  ",
        ] {
            check(text, Some(784_111_777.0));
        }
        assert_eq!(&format(Real(784_111_777.9)), b"Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn what_is_no_date() {
        for text in [
            "",
            "0",
            "-1",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT x",
            "Thu, 30 Feb 2023 08:49:37 GMT",
            "sun, 06 nov 1994 08:49:37 gmt",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn a_day_of_one_digit_is_a_date_when_asked_for() {
        let short = |text: &[u8]| parse_any(text, true).map(|t| t.0);
        assert_eq!(short(b"Sun, 6 Nov 1994 08:49:37 GMT"), Some(784_111_777.0));
        assert_eq!(short(b"Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777.0));
        for text in
            ["Sun,  6 Nov 1994 08:49:37 GMT", "Sunday, 6-Nov-94 08:49:37 GMT", "Sun, x Nov 1994 08:49:37 GMT", "Sun, 6"]
        {
            assert_eq!(short(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_leap_second_is_the_second_before() {
        check("Sat, 31 Dec 2016 23:59:60 GMT", Some(1_483_228_799.0));
    }

    #[test]
    fn far_times_are_pulled_in() {
        assert_eq!(&format(Real(1e300))[..16], b"Fri, 31 Dec 9999");
        assert_eq!(&format(Real(-1e300))[..16], b"Sat, 01 Jan 0000");
    }

    proptest! {
        #[test]
        fn format_and_parse_agree(t in -2_208_988_800i64..253_402_300_799) {
            let text = format(Real(t as f64));
            prop_assert_eq!(parse(&text).map(|t| t.0), Some(t as f64));
            prop_assert_eq!(parse(&text).map(|t| t.0), Some(t as f64), "the same again");
            let mut cache = DateCache::default();
            prop_assert_eq!(cache.format(Real(t as f64)), &text);
        }

        #[test]
        fn any_bytes_are_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse(&text);
        }
    }
}
