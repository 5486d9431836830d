// SPDX-License-Identifier: BSD-2-Clause
//! The last minutes by seconds and the last day by minutes, in rings of fixed size.

use std::collections::VecDeque;

use serde_json::{Value, json};

pub const SECONDS: usize = 300;
pub const MINUTES: usize = 1440;

/// One second, or the mean second of a minute.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct HistoryPoint {
    /// Time in seconds since 1970.
    pub at: u64,
    /// Number of requests of all kinds.
    pub requests: f64,
    /// Number of requests by handling: hits, misses, passes, pipes, synthetic responses.
    pub answers: [f64; 5],
    /// Bytes of bodies to clients.
    pub bytes: f64,
    /// Bytes of bodies from backends.
    pub fetched: f64,
    /// Responses of 500 and above per second, estimated from the log if that was sampled.
    pub errors: f64,
    /// Percentiles of hits, misses and passes in milliseconds, without errors: over the last 10 s, or over the minute.
    pub times: [Option<[f32; 3]>; 3],
    /// Share of the log that was read, from 0 to 1.
    pub share: f64,
    /// Bytes per second of the bodies of `errors`.
    pub error_bytes: f64,
}

/// Numbers in a point's JSON.
const NUMBERS: usize = 21;

impl HistoryPoint {
    /// The point as a list, in the order that `watch.js` expects.
    pub fn json(&self) -> Value {
        let round = |n: f64| (n * 100.0).round() / 100.0;
        let mut out = vec![json!(self.at), json!(round(self.requests))];
        out.extend(self.answers.iter().map(|n| json!(round(*n))));
        out.extend([json!(self.bytes.round()), json!(self.fetched.round()), json!(round(self.errors))]);
        for times in self.times {
            match times {
                Some(times) => out.extend(times.map(|t| json!((f64::from(t) * 1000.0).round() / 1000.0))),
                None => out.extend([Value::Null, Value::Null, Value::Null]),
            }
        }
        out.push(json!((self.share * 10000.0).round() / 10000.0));
        out.push(json!(self.error_bytes.round()));
        Value::Array(out)
    }

    /// Reads the output of [`HistoryPoint::json`]. `None` if `value` is anything else.
    fn from_json(value: &Value) -> Option<HistoryPoint> {
        let list = value.as_array().filter(|list| list.len() == NUMBERS)?;
        let n = |at: usize| list[at].as_f64().filter(|n| n.is_finite());
        let times = |at: usize| Some([n(at)? as f32, n(at + 1)? as f32, n(at + 2)? as f32]);
        Some(HistoryPoint {
            at: list[0].as_u64()?,
            requests: n(1)?,
            answers: [n(2)?, n(3)?, n(4)?, n(5)?, n(6)?],
            bytes: n(7)?,
            fetched: n(8)?,
            errors: n(9)?,
            times: [times(10), times(13), times(16)],
            share: n(19)?,
            error_bytes: n(20)?,
        })
    }
}

#[derive(Debug, Default)]
pub struct WatchHistory {
    seconds: VecDeque<HistoryPoint>,
    minutes: VecDeque<HistoryPoint>,
    /// Seconds of the current minute.
    open: Vec<HistoryPoint>,
}

impl WatchHistory {
    /// Adds a second. Returns true if a minute has ended with it.
    pub fn add(&mut self, point: HistoryPoint) -> bool {
        if self.seconds.len() == SECONDS {
            self.seconds.pop_front();
        }
        self.seconds.push_back(point);
        let is_over = self.open.first().is_some_and(|first| first.at / 60 != point.at / 60) || self.open.len() >= 120;
        if !is_over {
            self.open.push(point);
        }
        is_over
    }

    /// Ends the minute, whose percentiles are `times`. The last second added begins the next minute.
    pub fn end_minute(&mut self, times: [Option<[f32; 3]>; 3]) {
        let open = std::mem::take(&mut self.open);
        if let Some(first) = open.first() {
            let mean = |of: &dyn Fn(&HistoryPoint) -> f64| open.iter().map(of).sum::<f64>() / open.len() as f64;
            if self.minutes.len() == MINUTES {
                self.minutes.pop_front();
            }
            self.minutes.push_back(HistoryPoint {
                at: first.at / 60 * 60,
                requests: mean(&|p| p.requests),
                answers: [0, 1, 2, 3, 4].map(|n: usize| mean(&|p| p.answers[n])),
                bytes: mean(&|p| p.bytes),
                fetched: mean(&|p| p.fetched),
                errors: mean(&|p| p.errors),
                times,
                share: mean(&|p| p.share),
                error_bytes: mean(&|p| p.error_bytes),
            });
        }
        self.open.extend(self.seconds.back());
    }

    /// Sums of the requests and errors of the seconds after `since`, in seconds since 1970.
    pub fn requests_and_errors(&self, since: u64) -> (f64, f64) {
        let last = self.seconds.iter().rev().take_while(|point| point.at > since);
        last.fold((0.0, 0.0), |(requests, errors), point| (requests + point.requests, errors + point.errors))
    }

    pub fn last(&self) -> Option<&HistoryPoint> {
        self.seconds.back()
    }

    pub fn json(&self) -> Value {
        let list = |points: &VecDeque<HistoryPoint>| points.iter().map(HistoryPoint::json).collect::<Vec<_>>();
        json!({ "seconds": list(&self.seconds), "minutes": list(&self.minutes) })
    }

    /// Restores what [`WatchHistory::json`] wrote. Points that are too old or can't be read are left out.
    pub fn restore(&mut self, saved: &Value, now: u64) {
        let read = |name: &str, most: usize, unit: u64| {
            let all = saved[name].as_array().map_or(&[][..], Vec::as_slice);
            let young = |point: &HistoryPoint| point.at <= now && now - point.at <= most as u64 * unit;
            all.iter().rev().take(most).rev().filter_map(HistoryPoint::from_json).filter(young).collect::<VecDeque<_>>()
        };
        self.seconds = read("seconds", SECONDS, 1);
        self.minutes = read("minutes", MINUTES, 60);
        self.open = self.seconds.iter().filter(|point| point.at / 60 == now / 60).copied().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_the_mean_of_its_seconds() {
        let mut history = WatchHistory::default();
        let mut ended = 0;
        for at in 0..200u64 {
            let point =
                HistoryPoint { at: 600 + at, requests: (at / 60) as f64, share: 1.0, ..HistoryPoint::default() };
            if history.add(point) {
                ended += 1;
                history.end_minute([Some([1.0, 2.0, 3.0]), None, None]);
            }
        }
        assert_eq!((ended, history.minutes.len(), history.open.len()), (3, 3, 20));
        let means: Vec<_> = history.minutes.iter().map(|m| (m.at, m.requests)).collect();
        assert_eq!(means, [(600, 0.0), (660, 1.0), (720, 2.0)]);
    }

    #[test]
    fn recent_sums_are_of_time_and_not_of_points() {
        let mut history = WatchHistory::default();
        // Nothing was read from 610 to 700.
        for at in (600..610).chain(700..705) {
            history.add(HistoryPoint { at, requests: 2.0, errors: 1.0, ..HistoryPoint::default() });
        }
        assert_eq!(history.requests_and_errors(704 - 30), (10.0, 5.0));
        assert_eq!(history.requests_and_errors(605), (18.0, 9.0));
        assert_eq!(history.requests_and_errors(704), (0.0, 0.0));
    }

    #[test]
    fn nothing_grows_for_ever() {
        let mut history = WatchHistory::default();
        for at in 0..(MINUTES as u64 + 10) * 60 {
            if history.add(HistoryPoint { at, ..HistoryPoint::default() }) {
                history.end_minute([None; 3]);
            }
        }
        assert_eq!((history.seconds.len(), history.minutes.len()), (SECONDS, MINUTES));
        assert!(history.open.len() <= 60);
    }

    #[test]
    fn a_point_is_a_list() {
        let point = HistoryPoint {
            at: 7,
            requests: 1.005,
            times: [Some([0.1234, 1.0, 2.0]), None, None],
            share: 1.0,
            ..HistoryPoint::default()
        };
        let text = point.json().to_string();
        assert_eq!(text, "[7,1.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.123,1.0,2.0,null,null,null,null,null,null,1.0,0.0]");
    }

    #[test]
    fn what_was_kept_is_read_again() {
        let mut history = WatchHistory::default();
        for at in 600..1000u64 {
            let times = [Some([0.5, 1.0, 2.0]), None, Some([3.0, 4.0, 5.0])];
            let point =
                HistoryPoint { at, requests: at as f64, errors: 1.5, times, share: 0.5, ..HistoryPoint::default() };
            if history.add(point) {
                history.end_minute(times);
            }
        }
        let saved = history.json();
        let mut again = WatchHistory::default();
        again.restore(&saved, 1000);
        assert!(again.seconds == history.seconds && again.minutes == history.minutes);
        assert_eq!(again.open.len(), 40);
        // The seconds of ten minutes ago are too old to be restored; the minutes aren't.
        again.restore(&saved, 1600);
        assert_eq!((again.seconds.len(), again.minutes.len()), (0, history.minutes.len()));
        again.restore(&json!({ "seconds": [[1], "x", null], "minutes": 7 }), 1000);
        assert_eq!((again.seconds.len(), again.minutes.len()), (0, 0));
    }
}
