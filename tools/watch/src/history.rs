// SPDX-License-Identifier: BSD-2-Clause
//! The last minutes by seconds and the last day by minutes, in rings that never grow.

use std::collections::VecDeque;

use serde_json::{Value, json};

/// Seconds that are kept.
pub const SECONDS: usize = 300;
/// Minutes that are kept.
pub const MINUTES: usize = 1440;

/// A second, or the mean second of a minute.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Point {
    /// Seconds since 1970.
    pub at: u64,
    /// Requests, and how they were answered.
    pub requests: f64,
    /// Of them: hits, misses, passes, pipes, made by VCL.
    pub answers: [f64; 5],
    /// Bytes of bodies to clients.
    pub bytes: f64,
    /// Bytes of bodies from backends.
    pub fetched: f64,
    /// Answers of 500 and above, as far as the log was read, and fetches that failed.
    pub errors: f64,
    /// Percentiles of hits, misses and passes, in milliseconds.
    pub times: [Option<[f32; 3]>; 3],
    /// How much of the log was read: 1 is all of it.
    pub share: f64,
}

impl Point {
    /// As the page has it: a list, whose order `watch.js` knows.
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
        Value::Array(out)
    }
}

/// Both rings.
#[derive(Debug, Default)]
pub struct History {
    seconds: VecDeque<Point>,
    minutes: VecDeque<Point>,
    /// Seconds of the minute that isn't over.
    open: Vec<Point>,
}

impl History {
    /// Adds a second. True: a minute is over with it.
    pub fn add(&mut self, point: Point) -> bool {
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

    /// Ends the minute, whose percentiles these are; the second that was added last begins the next one.
    pub fn end_minute(&mut self, times: [Option<[f32; 3]>; 3]) {
        let open = std::mem::take(&mut self.open);
        if let Some(first) = open.first() {
            let mean = |of: &dyn Fn(&Point) -> f64| open.iter().map(of).sum::<f64>() / open.len() as f64;
            if self.minutes.len() == MINUTES {
                self.minutes.pop_front();
            }
            self.minutes.push_back(Point {
                at: first.at / 60 * 60,
                requests: mean(&|p| p.requests),
                answers: [0, 1, 2, 3, 4].map(|n: usize| mean(&|p| p.answers[n])),
                bytes: mean(&|p| p.bytes),
                fetched: mean(&|p| p.fetched),
                errors: mean(&|p| p.errors),
                times,
                share: mean(&|p| p.share),
            });
        }
        self.open.extend(self.seconds.back());
    }

    /// The last second.
    pub fn last(&self) -> Option<&Point> {
        self.seconds.back()
    }

    /// All of it for the page.
    pub fn json(&self) -> Value {
        let list = |points: &VecDeque<Point>| points.iter().map(Point::json).collect::<Vec<_>>();
        json!({ "seconds": list(&self.seconds), "minutes": list(&self.minutes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_the_mean_of_its_seconds() {
        let mut history = History::default();
        let mut ended = 0;
        for at in 0..200u64 {
            let point = Point { at: 600 + at, requests: (at / 60) as f64, share: 1.0, ..Point::default() };
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
    fn nothing_grows_for_ever() {
        let mut history = History::default();
        for at in 0..(MINUTES as u64 + 10) * 60 {
            if history.add(Point { at, ..Point::default() }) {
                history.end_minute([None; 3]);
            }
        }
        assert_eq!((history.seconds.len(), history.minutes.len()), (SECONDS, MINUTES));
        assert!(history.open.len() <= 60);
    }

    #[test]
    fn a_point_is_a_list() {
        let point = Point {
            at: 7,
            requests: 1.005,
            times: [Some([0.1234, 1.0, 2.0]), None, None],
            share: 1.0,
            ..Point::default()
        };
        let text = point.json().to_string();
        assert_eq!(text, "[7,1.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.123,1.0,2.0,null,null,null,null,null,null,1.0]");
    }
}
