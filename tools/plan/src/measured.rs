// SPDX-License-Identifier: BSD-2-Clause
//! Rates and service times as a log has them.

use std::collections::BTreeMap;

use accesslog::{AccessEntry, ClassUse, EntryClock, Gathering};

use crate::options::{Of, PlanClass};

/// Minutes that are kept apart; a clock that jumps makes no more.
const MAX_MINUTES: usize = 200_000;

pub struct Measured {
    pub classes: Vec<PlanClass>,
    /// All requests a second, hits and others.
    pub requests: f64,
    pub remarks: Vec<String>,
}

/// Most classes of a server that are told apart: more than one may have.
const MAX_CLASSES: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Those who were refused, and so have no time of service.
    refused: f64,
    count: f64,
    sum: f64,
    squares: f64,
}

#[derive(Default)]
struct Tally {
    /// Short ones, long ones; those of each class of the server, by name.
    times: [Times; 2],
    by_class: BTreeMap<String, Times>,
    minutes: BTreeMap<i64, u64>,
    /// All requests, with a time of service or not.
    requests: u64,
    first: Option<i64>,
    last: Option<i64>,
    clock: EntryClock,
    without_time_of_day: u64,
    without_service: u64,
    too_many: u64,
}

impl Times {
    fn add(&mut self, seconds: f64) {
        self.count += 1.0;
        self.sum += seconds;
        self.squares += seconds * seconds;
    }
}

impl Tally {
    fn add(&mut self, entry: &AccessEntry<'_>, of: Of, split: Option<f64>, only: Option<&str>) {
        self.requests += 1;
        if of == Of::Fetches && (!entry.classes.is_empty() || only.is_some()) {
            let uses = entry.classes.iter().filter(|it| only.is_none_or(|only| *it.name == *only.as_bytes()));
            return uses.for_each(|it| self.add_of_class(entry, it));
        }
        let service = match of {
            Of::Requests => entry.duration,
            // A hit is no work of a backend.
            Of::Fetches => match entry.handling {
                Some(handling) if !handling.is_fetched() => return,
                Some(_) => entry.backend_time,
                None => None,
            },
        };
        let Some(seconds) = service.map(|service| service.as_secs_f64()) else {
            self.without_service += 1;
            return;
        };
        self.times[usize::from(split.is_some_and(|split| seconds > split))].add(seconds);
        self.add_arrival(entry);
    }

    fn add_of_class(&mut self, entry: &AccessEntry<'_>, it: &ClassUse<'_>) {
        let name = String::from_utf8_lossy(&it.name).into_owned();
        if self.by_class.len() >= MAX_CLASSES && !self.by_class.contains_key(&name) {
            self.without_service += 1;
            return;
        }
        let times = self.by_class.entry(name).or_default();
        match it.times {
            Some((_, service)) => times.add(service.as_secs_f64()),
            None => times.refused += 1.0,
        }
        self.add_arrival(entry);
    }

    fn add_arrival(&mut self, entry: &AccessEntry<'_>) {
        let Some(time) = entry.time.map(|time| time.ns) else {
            self.without_time_of_day += 1;
            return;
        };
        let time = self.clock.own(time);
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = Some(self.last.map_or(time, |last| last.max(time)));
        let minute = time.div_euclid(60_000_000_000);
        if self.minutes.len() < MAX_MINUTES || self.minutes.contains_key(&minute) {
            *self.minutes.entry(minute).or_default() += 1;
        } else {
            self.too_many += 1;
        }
    }

    /// Arrivals a second in the busiest minute; of a log that is shorter, over all of it.
    fn rate(&self) -> Option<f64> {
        let seconds = (self.last?.checked_sub(self.first?)?) as f64 / 1e9;
        let count: u64 = self.minutes.values().sum();
        match seconds {
            0.0 => None,
            ..120.0 => Some(count as f64 / seconds),
            // What the first and the last minute had may be cut off, but is no more than they had.
            _ => self.minutes.values().max().map(|most| *most as f64 / 60.0),
        }
    }
}

/// Reads the log.
///
/// # Errors
/// The log has no times.
pub fn classes(gathering: Gathering, of: Of, split: Option<f64>, only: Option<&str>) -> Result<Measured, String> {
    let only = only.map(str::to_owned);
    let gathered = gathering.run::<Tally>(move |tally, entry| tally.add(entry, of, split, only.as_deref()))?;
    let tally = &gathered.result;
    let what = match of {
        Of::Fetches => "fetches",
        Of::Requests => "requests",
    };
    let all = || tally.times.iter().chain(tally.by_class.values());
    let served: f64 = all().map(|times| times.count).sum();
    // Who was refused came, too.
    let counted: f64 = all().map(|times| times.count + times.refused).sum();
    let mut remarks = gathered.remarks();
    if served == 0.0 {
        remarks.insert(0, format!("no {what} with their times in it (--log-format names them; a varnishlog has them)"));
        return Err(remarks.join("; "));
    }
    let rate = tally.rate().ok_or_else(|| format!("the {what} have no times of day from which a rate would follow"))?;
    let left_out = [
        (tally.without_service, "without their time of service left out"),
        (tally.without_time_of_day, "without a time of day"),
        (tally.clock.doubted, "of quite another time than those around them: theirs was taken"),
        (tally.too_many, "of too many different minutes left out"),
    ];
    remarks.extend(left_out.iter().filter(|(n, _)| *n > 0).map(|(n, text)| format!("{n} requests {text}")));
    let names = if split.is_some() { ["short", "long"] } else { [what, ""] };
    let refused: f64 = all().map(|times| times.refused).sum();
    if refused > 0.0 {
        remarks.push(format!("{refused} that were refused by their class are among those who came"));
    }
    let class = |(name, times): (&str, &Times)| {
        let service = (times.sum / times.count).max(1e-6);
        let variance = (times.squares / times.count - service * service).max(0.0);
        PlanClass {
            name: name.into(),
            rate: rate * (times.count + times.refused) / counted,
            service,
            cv2: variance / (service * service),
        }
    };
    let own = tally.by_class.iter().map(|(name, times)| (name.as_str(), times));
    let classes =
        names.into_iter().zip(&tally.times).chain(own).filter(|(_, times)| times.count > 0.0).map(class).collect();
    Ok(Measured { classes, requests: rate * tally.requests as f64 / counted, remarks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use accesslog::EntryStamp;
    use std::time::Duration;

    #[test]
    fn a_wrong_clock_makes_no_long_log() {
        let mut tally = Tally::default();
        for second in 0..10 {
            let wrong = if second == 5 { 1_000_000 } else { 0 };
            let time = Some(EntryStamp {
                ns: (1_700_000_000 + second + wrong) * 1_000_000_000,
                is_whole_second: true,
                zone: None,
            });
            let duration = Some(Duration::from_millis(1));
            tally.add(&AccessEntry { time, duration, ..AccessEntry::default() }, Of::Requests, None, None);
        }
        assert_eq!((tally.rate(), tally.clock.doubted), (Some(10.0 / 9.0), 1));
    }

    #[test]
    fn classes_of_a_server_are_told_apart() {
        let mut tally = Tally::default();
        let entry = |second: i64, text: &'static str| {
            let time =
                Some(EntryStamp { ns: (1_700_000_000 + second) * 1_000_000_000, is_whole_second: true, zone: None });
            AccessEntry { time, classes: vec![ClassUse::read(text.as_bytes()).unwrap()], ..AccessEntry::default() }
        };
        for second in 0..11 {
            tally.add(&entry(second, "lacquer: class: dear 0.1 2.0"), Of::Fetches, None, None);
            tally.add(&entry(second, "class dear: full"), Of::Fetches, None, None);
            tally.add(&entry(second, "lacquer: class: cheap 0 0.1"), Of::Fetches, None, Some("dear"));
        }
        let dear = tally.by_class["dear"];
        assert_eq!((dear.count, dear.refused, dear.sum, tally.by_class.len()), (11.0, 11.0, 22.0, 1));
        assert_eq!(tally.rate(), Some(2.2));
    }
}
