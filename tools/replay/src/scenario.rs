// SPDX-License-Identifier: BSD-2-Clause
//! Runs of several parts: passes over the same source, steps of a rising rate.

use serde_json::{Value, json};

use crate::pace::ReplayPace;
use crate::server::round;
use crate::stats::ReplayStats;

const MAX_STEPS: usize = 1000;

#[derive(Clone, PartialEq, Debug)]
pub enum ReplayScenario {
    Plain,
    /// The source so many times, each reported by itself: the first finds a cold cache, the next a hot one.
    Passes(u32),
    /// Rates one after the other, each so long (nanoseconds), until a limit is passed.
    Ramp {
        rates: Vec<f64>,
        /// Time for which each is held.
        hold: u64,
        limits: Vec<ScenarioLimit>,
    },
}

impl ReplayScenario {
    pub fn parts(&self) -> usize {
        match self {
            ReplayScenario::Plain => 1,
            ReplayScenario::Passes(n) => *n as usize,
            ReplayScenario::Ramp { rates, .. } => rates.len(),
        }
    }

    pub fn part(&self, i: usize, pace: ReplayPace) -> (String, ReplayPace) {
        match (self, pace) {
            (ReplayScenario::Plain, _) => (String::new(), pace),
            (ReplayScenario::Passes(_), _) => (format!("pass {}", i + 1), pace),
            (ReplayScenario::Ramp { rates, .. }, _) => {
                let rate = rates.get(i).copied().unwrap_or(1.0);
                let is_random = matches!(pace, ReplayPace::Rate { is_random: true, .. });
                (format!("{rate} a second"), ReplayPace::Rate { rate, is_random })
            }
        }
    }

    pub fn passed(&self, stats: &ReplayStats) -> Option<ScenarioLimit> {
        match self {
            ReplayScenario::Plain | ReplayScenario::Passes(_) => None,
            ReplayScenario::Ramp { limits, .. } => limits.iter().find(|limit| limit.is_passed(stats)).copied(),
        }
    }

    pub fn json(&self, mut parts: Vec<Value>, passed: Option<ScenarioLimit>) -> Value {
        let rate = |part: &Value| part["target_rate"].clone();
        match self {
            ReplayScenario::Plain => parts.pop().unwrap_or_default(),
            ReplayScenario::Passes(_) => json!({"passes": parts}),
            ReplayScenario::Ramp { .. } => {
                let good = parts.len() - usize::from(passed.is_some() && !parts.is_empty());
                json!({
                    "limit_passed": passed.map(ScenarioLimit::text),
                    "last_good_rate": parts[..good].last().map(rate),
                    "steps": parts,
                })
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ScenarioLimit {
    /// Percentile, and its longest time in nanoseconds.
    Latency(f64, u64),
    /// The share of requests that fail, or are answered 5xx.
    Errors(f64),
}

impl ScenarioLimit {
    /// `p99>50ms` or `errors>1%`; `time` reads times.
    pub fn parse(text: &str, time: impl Fn(&str) -> Option<u64>) -> Option<ScenarioLimit> {
        let (what, most) = text.split_once('>')?;
        match (what.trim(), most.trim()) {
            ("errors", most) => {
                let percent = most.strip_suffix('%')?.parse::<f64>().ok()?;
                (0.0..=100.0).contains(&percent).then_some(ScenarioLimit::Errors(percent / 100.0))
            }
            (percentile, most) => {
                let percent = percentile.strip_prefix('p')?.parse::<f64>().ok()?;
                (0.0..=100.0).contains(&percent).then_some(())?;
                Some(ScenarioLimit::Latency(percent, time(most)?))
            }
        }
    }

    pub fn text(self) -> String {
        match self {
            ScenarioLimit::Latency(percent, ns) => format!("p{percent}>{}ms", round(ns as f64 / 1e6, 3)),
            ScenarioLimit::Errors(share) => format!("errors>{}%", round(share * 100.0, 3)),
        }
    }

    fn is_passed(self, stats: &ReplayStats) -> bool {
        match self {
            ScenarioLimit::Latency(percent, most) => stats.latency.percentile(percent) > most,
            ScenarioLimit::Errors(share) => {
                let bad = stats.failed() + stats.unsent + stats.status[500..600].iter().sum::<u64>();
                bad as f64 > share * (stats.sent + stats.unsent) as f64
            }
        }
    }
}

/// Parses `FROM:TO:STEP`, in requests per second.
pub fn rates(text: &str) -> Option<Vec<f64>> {
    let numbers: Vec<f64> = text.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [from, to, step] = numbers[..] else { return None };
    let is_good = [from, to, step].iter().all(|n| n.is_finite() && (1e-3..=1e8).contains(n)) && from <= to;
    let n = ((to - from) / step + 1e-9) as usize + 1;
    (is_good && n <= MAX_STEPS).then(|| (0..n).map(|i| from + step * i as f64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::ReplayFault;

    #[test]
    fn ramps_and_limits() {
        assert_eq!(rates("100:300:100"), Some(vec![100.0, 200.0, 300.0]));
        assert_eq!(rates("1:1:5"), Some(vec![1.0]));
        for bad in ["", "1:2", "3:2:1", "0:1:1", "1:1e8:1", "1:2:nan"] {
            assert_eq!(rates(bad), None, "{bad}");
        }
        let time = |text: &str| text.strip_suffix("ms")?.parse::<u64>().ok().map(|ms| ms * 1_000_000);
        assert_eq!(ScenarioLimit::parse("p99.9>50ms", time).map(ScenarioLimit::text), Some("p99.9>50ms".into()));
        assert_eq!(ScenarioLimit::parse("errors>0.5%", time).map(ScenarioLimit::text), Some("errors>0.5%".into()));
        for bad in ["", "p99", "p101>5ms", "errors>5", "x>5ms", "p99>5"] {
            assert_eq!(ScenarioLimit::parse(bad, time), None, "{bad}");
        }
    }

    #[test]
    fn a_limit_is_passed_when_it_is_exceeded() {
        let mut stats = ReplayStats::new(1);
        (stats.sent, stats.status[503]) = (100, 1);
        let passed = |stats: &ReplayStats| {
            (ScenarioLimit::Errors(0.01).is_passed(stats), ScenarioLimit::Latency(99.0, 5).is_passed(stats))
        };
        assert_eq!(passed(&stats), (false, false));
        stats.fault(ReplayFault::Reset);
        stats.latency.add(1_000_000);
        assert_eq!(passed(&stats), (true, true));
    }
}
