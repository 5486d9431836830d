// SPDX-License-Identifier: BSD-2-Clause
//! Rates and service times as a log has them.

use std::collections::BTreeMap;

use accesslog::{Clock, Entry, Gathering};

use crate::options::{Class, Of};

/// Minutes that are kept apart; a clock that jumps makes no more.
const MAX_MINUTES: usize = 200_000;

/// What comes.
pub struct Measured {
    pub classes: Vec<Class>,
    /// All requests a second, hits and others.
    pub requests: f64,
    /// What there is to know.
    pub remarks: Vec<String>,
}

/// Times of one class.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    count: f64,
    sum: f64,
    squares: f64,
}

#[derive(Default)]
struct Tally {
    /// Short ones, long ones.
    times: [Times; 2],
    /// How many came, by minute.
    minutes: BTreeMap<i64, u64>,
    /// All requests, with a time of service or not.
    requests: u64,
    first: Option<i64>,
    last: Option<i64>,
    clock: Clock,
    without_time_of_day: u64,
    without_service: u64,
    too_many: u64,
}

impl Tally {
    fn add(&mut self, entry: &Entry<'_>, of: Of, split: Option<f64>) {
        self.requests += 1;
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
        let times = &mut self.times[usize::from(split.is_some_and(|split| seconds > split))];
        times.count += 1.0;
        times.sum += seconds;
        times.squares += seconds * seconds;
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
pub fn classes(gathering: Gathering, of: Of, split: Option<f64>) -> Result<Measured, String> {
    let gathered = gathering.run::<Tally>(move |tally, entry| tally.add(entry, of, split))?;
    let tally = &gathered.result;
    let what = match of {
        Of::Fetches => "fetches",
        Of::Requests => "requests",
    };
    let counted: f64 = tally.times.iter().map(|times| times.count).sum();
    let mut remarks = gathered.remarks();
    if counted == 0.0 {
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
    let class = |(name, times): (&str, &Times)| {
        let service = (times.sum / times.count).max(1e-6);
        let variance = (times.squares / times.count - service * service).max(0.0);
        Class { name: name.into(), rate: rate * times.count / counted, service, cv2: variance / (service * service) }
    };
    let classes = names.into_iter().zip(&tally.times).filter(|(_, times)| times.count > 0.0).map(class).collect();
    Ok(Measured { classes, requests: rate * tally.requests as f64 / counted, remarks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use accesslog::Stamp;
    use std::time::Duration;

    #[test]
    fn a_wrong_clock_makes_no_long_log() {
        let mut tally = Tally::default();
        for second in 0..10 {
            let wrong = if second == 5 { 1_000_000 } else { 0 };
            let time = Some(Stamp { ns: (1_700_000_000 + second + wrong) * 1_000_000_000, is_whole_second: true });
            let duration = Some(Duration::from_millis(1));
            tally.add(&Entry { time, duration, ..Entry::default() }, Of::Requests, None);
        }
        assert_eq!((tally.rate(), tally.clock.doubted), (Some(10.0 / 9.0), 1));
    }
}
