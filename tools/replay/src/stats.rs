// SPDX-License-Identifier: BSD-2-Clause
//! What is counted during a run: totals, distributions, a series of seconds, the slowest requests.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::answer::{ReplayAnswer, SIGNS, SignVerdict};
use crate::faults::ReplayFault;

/// The longest time that is told apart, in nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;
/// Seconds that are kept; of a longer run the last ones.
pub const MAX_SECONDS: usize = 100_000;
pub const PERCENTILES: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// Times in nanoseconds with three digits (HdrHistogram).
#[derive(Clone, Debug)]
pub struct ReplayTimes {
    all: Histogram<u64>,
    sum: u128,
}

impl Default for ReplayTimes {
    fn default() -> ReplayTimes {
        let all =
            Histogram::new_with_bounds(1000, LONGEST, 3).expect("1000 * 2 <= LONGEST, and 3 digits are few enough");
        ReplayTimes { all, sum: 0 }
    }
}

impl ReplayTimes {
    pub fn add(&mut self, ns: u64) {
        self.all.saturating_record(ns);
        self.sum += u128::from(ns);
    }

    pub fn add_all(&mut self, other: &ReplayTimes) {
        // Both have the same bounds: nothing is refused.
        let _ = self.all.add(&other.all);
        self.sum += other.sum;
    }

    pub fn add_many(&mut self, ns: u64, count: u64) {
        self.all.saturating_record_n(ns, count);
    }

    /// Each value (of three digits) and how often it came.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.all.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Sets what [`ReplayTimes::add_many`] can't know exactly.
    pub fn set_sum(&mut self, sum: u128) {
        self.sum = sum;
    }

    pub fn clear(&mut self) {
        self.all.reset();
        self.sum = 0;
    }

    pub fn len(&self) -> u64 {
        self.all.len()
    }

    pub fn mean(&self) -> f64 {
        if self.all.is_empty() { 0.0 } else { self.sum as f64 / self.all.len() as f64 }
    }

    pub fn max(&self) -> u64 {
        self.all.max()
    }

    /// The time that so many of a hundred don't exceed.
    pub fn percentile(&self, percent: f64) -> u64 {
        if self.all.is_empty() { 0 } else { self.all.value_at_percentile(percent).min(self.all.max()) }
    }

    pub fn json(&self) -> Value {
        let ms = |ns: f64| (ns / 1e3).round() / 1e3;
        let mut out = json!({"count": self.len(), "mean": ms(self.mean()), "max": ms(self.max() as f64)});
        for p in PERCENTILES {
            out[format!("p{p}")] = json!(ms(self.percentile(p) as f64));
        }
        out
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct ReplaySecond {
    pub answers: u64,
    pub faults: u64,
    pub hits: u64,
    pub mean: f64,
    pub p50: u64,
    pub p99: u64,
}

impl ReplaySecond {
    pub fn close(&mut self, times: &ReplayTimes) {
        (self.mean, self.p50, self.p99) = (times.mean(), times.percentile(50.0), times.percentile(99.0));
    }
}

#[derive(Clone, Debug)]
pub struct Slowest {
    most: usize,
    list: Vec<(u64, u16, String)>,
}

impl Slowest {
    /// Adds one if it is among them; `label` is asked for only then.
    pub fn add(&mut self, ns: u64, status: u16, label: impl FnOnce() -> String) {
        if self.list.len() >= self.most && self.list.last().is_none_or(|last| last.0 >= ns) {
            return;
        }
        let label = label();
        if let Some(at) = self.list.iter().position(|(.., known)| *known == label) {
            if self.list[at].0 >= ns {
                return;
            }
            self.list.remove(at);
        }
        let at = self.list.partition_point(|(time, ..)| *time >= ns);
        self.list.insert(at, (ns, status, label));
        self.list.truncate(self.most);
    }

    pub fn iter(&self) -> impl Iterator<Item = &(u64, u16, String)> {
        self.list.iter()
    }
}

/// The cache's part in answers, as their fields say.
#[derive(Clone, Debug, Default)]
pub struct CacheSigns {
    /// Answers that had each of [`SIGNS`], and those that it calls hits.
    pub by_sign: [(u64, u64); SIGNS.len()],
    pub known: u64,
    /// Hits by the first of [`SIGNS`] that they had.
    pub hits: u64,
}

impl CacheSigns {
    /// Counts an answer; true if it is a hit.
    fn add(&mut self, answer: &ReplayAnswer) -> bool {
        for (count, verdict) in self.by_sign.iter_mut().zip(answer.verdicts) {
            if let Some(verdict) = verdict {
                count.0 += 1;
                count.1 += u64::from(verdict == SignVerdict::Hit);
            }
        }
        let Some(first) = answer.verdicts.iter().flatten().next() else { return false };
        let is_hit = *first == SignVerdict::Hit;
        self.known += 1;
        self.hits += u64::from(is_hit);
        is_hit
    }
}

#[derive(Clone, Debug, Default)]
pub struct ReplayBytes {
    /// Bytes received, heads included.
    pub received: u64,
    pub bodies: u64,
    pub sent: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Handshakes {
    pub times: ReplayTimes,
    /// Those that took up an earlier session.
    pub resumed: u64,
    /// Version and cipher of the first one.
    pub agreed: Option<String>,
    /// The reason why the first one failed that did.
    pub failure: Option<String>,
}

impl Handshakes {
    pub fn add(&mut self, info: &tls::HandshakeInfo, time: u64) {
        self.times.add(time);
        self.resumed += u64::from(info.resumed);
        self.agreed.get_or_insert_with(|| format!("{} {}", info.version.name(), info.cipher()));
    }

    pub fn failed(&mut self, reason: &tls::TlsError) {
        self.failure.get_or_insert_with(|| reason.to_string());
    }
}

/// Counts of each second, and of the one that runs.
#[derive(Clone, Debug, Default)]
pub struct SecondSeries {
    /// The last [`MAX_SECONDS`] that are over.
    pub over: Vec<ReplaySecond>,
    current: ReplaySecond,
    times: ReplayTimes,
}

impl SecondSeries {
    fn answer(&mut self, latency: u64, is_hit: bool) {
        self.current.answers += 1;
        self.current.hits += u64::from(is_hit);
        self.times.add(latency);
    }

    fn end(&mut self) {
        let mut second = self.current;
        second.close(&self.times);
        if self.over.len() >= MAX_SECONDS {
            self.over.remove(0);
        }
        self.over.push(second);
    }

    fn begin(&mut self) {
        self.times.clear();
        self.current = ReplaySecond::default();
    }
}

#[derive(Clone, Debug)]
pub struct ReplayStats {
    pub sent: u64,
    pub answers: u64,
    pub status: Vec<u64>,
    pub faults: [u64; ReplayFault::ALL.len()],
    pub cache: CacheSigns,
    pub bytes: ReplayBytes,
    /// Time from when a request was due (open loop) or begun (closed loop) to the end of its answer.
    pub latency: ReplayTimes,
    pub service: ReplayTimes,
    /// Time by which requests were begun later than due (open loop).
    pub late: ReplayTimes,
    pub connect: ReplayTimes,
    pub tls: Handshakes,
    pub connections: u64,
    /// Requests sent again because a kept connection turned out to be closed.
    pub resent: u64,
    /// Requests that were due and not begun when the time was over.
    pub unsent: u64,
    /// Requests whose answer wasn't waited for when the run ended.
    pub unfinished: u64,
    pub slowest: Slowest,
    pub series: SecondSeries,
}

impl ReplayStats {
    pub fn new(top: usize) -> ReplayStats {
        ReplayStats {
            sent: 0,
            answers: 0,
            status: vec![0; 1000],
            faults: [0; ReplayFault::ALL.len()],
            cache: CacheSigns::default(),
            bytes: ReplayBytes::default(),
            latency: ReplayTimes::default(),
            service: ReplayTimes::default(),
            late: ReplayTimes::default(),
            connect: ReplayTimes::default(),
            tls: Handshakes::default(),
            connections: 0,
            resent: 0,
            unsent: 0,
            unfinished: 0,
            slowest: Slowest { most: top, list: Vec::new() },
            series: SecondSeries::default(),
        }
    }

    pub fn answer(&mut self, answer: &ReplayAnswer, latency: u64, service: u64, label: impl FnOnce() -> String) {
        self.answers += 1;
        if let Some(count) = self.status.get_mut(usize::from(answer.status)) {
            *count += 1;
        }
        self.bytes.bodies += answer.body_bytes;
        let is_hit = self.cache.add(answer);
        self.series.answer(latency, is_hit);
        self.service.add(service);
        self.slowest.add(latency, answer.status, label);
    }

    pub fn fault(&mut self, fault: ReplayFault) {
        self.faults[fault as usize] += 1;
        self.series.current.faults += 1;
    }

    /// A request never was begun; it has waited so long.
    pub fn unsent(&mut self, waited: u64) {
        self.unsent += 1;
        self.latency.add(waited);
    }

    pub fn failed(&self) -> u64 {
        self.faults.iter().sum()
    }

    pub fn current(&self) -> (&ReplaySecond, &ReplayTimes) {
        (&self.series.current, &self.series.times)
    }

    pub fn end_second(&mut self) {
        self.series.end();
        self.settle();
    }

    /// Adds what the part of a second brought that the run ended in; it is no second of the series.
    pub fn settle(&mut self) {
        self.latency.add_all(&self.series.times);
        self.series.begin();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let mut times = ReplayTimes::default();
        assert_eq!((times.percentile(99.0), times.mean()), (0, 0.0));
        (1..=1000u64).for_each(|n| times.add(n * 1_000_000));
        for p in [50.0, 90.0, 99.0, 99.9] {
            let (got, want) = (times.percentile(p) as f64, p * 1e7);
            assert!((got - want).abs() / want < 0.002, "p{p}: {got}");
        }
        assert!((times.mean() - 500.5e6).abs() < 1.0);
        times.add(u64::MAX);
        assert_eq!(times.len(), 1001);
    }

    #[test]
    fn the_slowest_are_kept_each_url_once() {
        let mut slowest = Slowest { most: 3, list: Vec::new() };
        for (ns, url) in [(5, "a"), (9, "b"), (1, "c"), (7, "a"), (6, "d"), (2, "e"), (9, "b"), (8, "a")] {
            slowest.add(ns, 200, || url.to_owned());
        }
        let got: Vec<_> = slowest.iter().map(|(ns, _, url)| (*ns, url.as_str())).collect();
        assert_eq!(got, [(9, "b"), (8, "a"), (6, "d")]);
    }

    #[test]
    fn sums_agree_with_the_series() {
        let mut stats = ReplayStats::new(1);
        let answer = ReplayAnswer {
            status: 200,
            verdicts: [None, None, Some(SignVerdict::Hit), None],
            keeps: true,
            body_bytes: 5,
        };
        for n in 0..10 {
            stats.answer(&answer, 1_000_000, 900_000, || "u".into());
            if n % 4 == 3 {
                stats.end_second();
            }
        }
        stats.settle();
        assert_eq!(stats.series.over.iter().map(|s| s.answers).collect::<Vec<_>>(), [4, 4]);
        assert_eq!((stats.answers, stats.latency.len(), stats.service.len()), (10, 10, 10));
        assert_eq!((stats.cache.known, stats.cache.hits, stats.bytes.bodies, stats.status[200]), (10, 10, 50, 10));
    }
}
