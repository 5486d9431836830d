// SPDX-License-Identifier: BSD-2-Clause
//! What is added up: requests and bytes of each network and country, in windows of time.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use accesslog::Entry;
use networks::{Country, Database, Origin, address};

/// Windows at most: a clock that jumps makes no more.
const MOST_WINDOWS: usize = 10_000;

/// What is counted, and in which pieces of time. Times are nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Window {
    pub from: Option<i64>,
    pub to: Option<i64>,
    pub length: Option<Duration>,
}

/// Requests and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sum {
    pub requests: u64,
    pub bytes: u64,
}

impl Sum {
    pub fn add(&mut self, other: Sum) {
        self.requests += other.requests;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Of one window.
#[derive(Debug, Default)]
pub struct Part {
    /// First and last time of a request in it.
    pub times: Option<(i64, i64)>,
    pub sums: HashMap<Origin, Sum>,
}

/// See the module.
#[derive(Default)]
pub struct Tally {
    /// By the window's beginning.
    pub parts: BTreeMap<i64, Part>,
    /// Entries that count nowhere: without an address, without a time where one is needed, of other times, of other
    /// countries, of more windows than there may be.
    pub no_address: u64,
    pub no_time: u64,
    pub other_times: u64,
    pub other_countries: u64,
    pub too_many: u64,
}

impl Tally {
    /// Counts an entry.
    pub fn add(&mut self, entry: &Entry<'_>, window: &Window, countries: &[Country], database: &Database) {
        let Some(address) = entry.client.as_deref().and_then(address) else {
            self.no_address += 1;
            return;
        };
        let time = entry.time.map(|time| time.ns);
        let at = match (time, window) {
            (_, Window { from: None, to: None, length: None }) => 0,
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
            (*first, *last) = (time.min(*first), time.max(*last));
        }
        part.sums.entry(origin).or_default().add(Sum { requests: 1, bytes: entry.bytes.unwrap_or(0) });
    }
}

impl Window {
    fn has(&self, time: i64) -> bool {
        self.from.is_none_or(|from| time >= from) && self.to.is_none_or(|to| time < to)
    }

    /// When the window of that time begins: hours and days are those of the local zone.
    fn begin(&self, time: i64) -> i64 {
        let Some(length) = self.length else { return 0 };
        let length = i64::try_from(length.as_nanos()).unwrap_or(i64::MAX).max(1);
        let zone = zone_seconds(time.div_euclid(1_000_000_000)) * 1_000_000_000;
        (time + zone).div_euclid(length) * length - zone
    }
}

/// How much later than in UTC it is here.
fn zone_seconds(seconds: i64) -> i64 {
    let zone = sys::localtime::format("%z", seconds).unwrap_or_default();
    let number = |range| zone.get(range).and_then(|digits: &str| digits.parse::<i64>().ok()).unwrap_or(0);
    let offset = number(1..3) * 3600 + number(3..5) * 60;
    if zone.starts_with('-') { -offset } else { offset }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_follow_the_local_clock() {
        let window = Window { length: Some(Duration::from_secs(3600)), ..Window::default() };
        let at = window.begin(1_346_932_800_000_000_000 + 1_234_000_000_000);
        assert_eq!((1_346_932_800_000_000_000 - at).rem_euclid(60_000_000_000), 0);
        assert!((0..3_600_000_000_000).contains(&(1_346_934_034_000_000_000 - at)));
    }
}
