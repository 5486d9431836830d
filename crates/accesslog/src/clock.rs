// SPDX-License-Identifier: BSD-2-Clause
//! The time of a log, whose lines may be out of order or from a wrong clock.

const HOUR: i64 = 3600 * 1_000_000_000;

/// The latest time. A jump of more than an hour is believed once the next entry agrees with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntryClock {
    now: Option<i64>,
    doubt: Option<i64>,
    /// Entries whose time wasn't believed.
    pub doubted: u64,
    /// Times at which it went back by more than an hour.
    pub went_back: u64,
    pub missing: u64,
}

impl EntryClock {
    /// The time at an entry that says it is `time`; 0 before any said so.
    pub fn at(&mut self, time: Option<i64>) -> i64 {
        match (time, self.now) {
            (None, _) => self.missing += 1,
            (Some(time), None) => self.now = Some(time),
            (Some(time), Some(now)) if near(time, now) => {
                self.now = Some(time.max(now));
                self.doubt = None;
            }
            (Some(time), Some(now)) if self.doubt.is_some_and(|doubt| near(time, doubt)) => {
                self.went_back += u64::from(time < now);
                self.doubted -= 1;
                (self.now, self.doubt) = (Some(time), None);
            }
            (Some(time), Some(_)) => {
                self.doubted += 1;
                self.doubt = Some(time);
            }
        }
        self.now.unwrap_or(0)
    }

    /// An entry's own time where it is believed, else that of those around it.
    pub fn own(&mut self, time: i64) -> i64 {
        let now = self.at(Some(time));
        if near(time, now) { time } else { now }
    }

    pub fn is_known(&self) -> bool {
        self.now.is_some()
    }
}

fn near(a: i64, b: i64) -> bool {
    a.abs_diff(b) <= HOUR as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_clock_is_not_believed() {
        let mut clock = EntryClock::default();
        let hours = |all: &[i64], clock: &mut EntryClock| -> Vec<i64> {
            all.iter().map(|hour| clock.at(Some(hour * HOUR)) / HOUR).collect()
        };
        assert_eq!(hours(&[10, 11, 10, 99, 11, 12], &mut clock), [10, 11, 11, 11, 11, 12], "one line");
        assert_eq!(clock.doubted, 1);
        assert_eq!(hours(&[90, 90, 91], &mut clock), [12, 90, 91], "a gap");
        assert_eq!(hours(&[20, 21, 22], &mut clock), [91, 21, 22], "an older file");
        assert_eq!((clock.doubted, clock.went_back), (1, 1));
        assert_eq!(clock.at(None) / HOUR, 22);
        let mut own = |hour: i64| clock.own(hour * HOUR) / HOUR;
        assert_eq!([21, 22, 90, 21].map(&mut own), [21, 22, 22, 21], "each its own");
        assert_eq!(hours(&[i64::MIN / HOUR, i64::MAX / HOUR, 22], &mut clock), [22, 22, 22]);
    }
}
