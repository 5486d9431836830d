// SPDX-License-Identifier: BSD-2-Clause
//! What is added up: requests and bytes of each network and country, in windows of time.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use accesslog::{AccessEntry, EntryStamp};
use networks::{AddressOrigin, Country, Database, address};

/// Windows at most: a clock that jumps makes no more.
const MOST_WINDOWS: usize = 10_000;

/// A time that an option names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamedMoment {
    /// Nanoseconds since 1970; without a zone, by the clock of the log.
    pub ns: i64,
    pub has_zone: bool,
}

/// The requests that are counted, and the pieces of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CountedWindow {
    pub from: Option<NamedMoment>,
    pub to: Option<NamedMoment>,
    pub length: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestSum {
    pub requests: u64,
    pub bytes: u64,
}

impl RequestSum {
    pub fn add(&mut self, other: RequestSum) {
        self.requests += other.requests;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// The counts of one window.
#[derive(Debug, Default)]
pub struct WindowCounts {
    /// First and last time of a request in it.
    pub times: Option<(EntryStamp, EntryStamp)>,
    pub sums: HashMap<AddressOrigin, RequestSum>,
}

#[derive(Default)]
pub struct AsnTally {
    pub parts: BTreeMap<i64, WindowCounts>,
    /// Entries that count nowhere: without an address, without a time where one is needed, of other times, of other
    /// countries, of more windows than there may be.
    pub no_address: u64,
    pub no_time: u64,
    pub other_times: u64,
    pub other_countries: u64,
    pub too_many: u64,
}

impl AsnTally {
    pub fn add(&mut self, entry: &AccessEntry<'_>, window: &CountedWindow, countries: &[Country], database: &Database) {
        let Some(address) = entry.client.as_deref().and_then(address) else {
            self.no_address += 1;
            return;
        };
        let time = entry.time;
        let at = match (time, window) {
            (_, CountedWindow { from: None, to: None, length: None }) => 0,
            (None, _) => {
                self.no_time += 1;
                return;
            }
            (Some(time), window) if window.has(time) => window.begin(time),
            (Some(_), _) => {
                self.other_times += 1;
                return;
            }
        };
        let origin = database.origin(address);
        if !countries.is_empty() && origin.country.is_none_or(|country| !countries.contains(&country)) {
            self.other_countries += 1;
            return;
        }
        if self.parts.len() >= MOST_WINDOWS && !self.parts.contains_key(&at) {
            self.too_many += 1;
            return;
        }
        let part = self.parts.entry(at).or_default();
        if let Some(time) = time {
            let (first, last) = part.times.get_or_insert((time, time));
            if time.ns < first.ns {
                *first = time;
            }
            if time.ns > last.ns {
                *last = time;
            }
        }
        part.sums.entry(origin).or_default().add(RequestSum { requests: 1, bytes: entry.bytes.unwrap_or(0) });
    }
}

impl CountedWindow {
    fn has(&self, time: EntryStamp) -> bool {
        let at = |moment: NamedMoment| if moment.has_zone { moment.ns } else { moment.ns - ahead(time) };
        self.from.is_none_or(|from| time.ns >= at(from)) && self.to.is_none_or(|to| time.ns < at(to))
    }

    /// When the window of that time begins: hours and days are those of the log's clock.
    fn begin(&self, time: EntryStamp) -> i64 {
        let Some(length) = self.length else { return 0 };
        let length = i64::try_from(length.as_nanos()).unwrap_or(i64::MAX).max(1);
        let ahead = ahead(time);
        (time.ns + ahead).div_euclid(length) * length - ahead
    }
}

/// Nanoseconds by which the clock that people read is ahead of UTC: the log's own, else this machine's.
pub fn ahead(time: EntryStamp) -> i64 {
    let seconds = time.zone.map_or_else(|| zone_seconds(time.ns.div_euclid(1_000_000_000)), i64::from);
    seconds * 1_000_000_000
}

/// Seconds by which it is later here than in UTC.
fn zone_seconds(seconds: i64) -> i64 {
    let zone = sys::localtime::format("%z", seconds).unwrap_or_default();
    let number = |range| zone.get(range).and_then(|digits: &str| digits.parse::<i64>().ok()).unwrap_or(0);
    let offset = number(1..3) * 3600 + number(3..5) * 60;
    if zone.starts_with('-') { -offset } else { offset }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(text: &str) -> EntryStamp {
        EntryStamp::parse(text).unwrap()
    }

    #[test]
    fn windows_follow_the_clock_of_the_log() {
        let window = CountedWindow { length: Some(Duration::from_secs(86_400)), ..CountedWindow::default() };
        for (time, day) in [
            ("06/Sep/2012:00:30:00 +1200", "06/Sep/2012:00:00:00 +1200"),
            ("06/Sep/2012:23:59:59 +1200", "06/Sep/2012:00:00:00 +1200"),
            ("06/Sep/2012:00:30:00 -0330", "06/Sep/2012:00:00:00 -0330"),
            ("06/Sep/2012:00:30:00 +0000", "06/Sep/2012:00:00:00 +0000"),
        ] {
            assert_eq!(window.begin(stamp(time)), stamp(day).ns, "{time}");
        }
    }

    #[test]
    fn noon_is_noon_where_the_log_was_written() {
        let moment = |text: &str| NamedMoment { ns: stamp(text).ns, has_zone: stamp(text).zone.is_some() };
        let noon = |from, to| CountedWindow { from: Some(moment(from)), to: Some(moment(to)), length: None };
        let (plain, zoned) = (
            noon("2012-09-06T12:00:00", "2012-09-06T13:00:00"),
            noon("2012-09-06T12:00:00+12:00", "2012-09-06T13:00:00+12:00"),
        );
        for (time, by_plain, by_zoned) in [
            ("06/Sep/2012:12:00:00 +1200", true, true),
            ("06/Sep/2012:13:00:00 +1200", false, false),
            ("06/Sep/2012:12:30:00 +0000", true, false),
            ("06/Sep/2012:00:30:00 +0000", false, true),
        ] {
            assert_eq!((plain.has(stamp(time)), zoned.has(stamp(time))), (by_plain, by_zoned), "{time}");
        }
    }
}
