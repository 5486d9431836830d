// SPDX-License-Identifier: BSD-2-Clause
//! The line that is printed each second, and the heading of its columns.

use shm::reader::{CounterReader, CounterValue};
use std::path::Path;
use std::time::{Duration, Instant};

pub const HEADING: &str = "requests/s    hits     half in      99% in    memory   objects     stored";

pub struct DemoStatus {
    reader: CounterReader,
    last: Option<(Instant, Sample)>,
}

#[derive(Clone, Copy)]
struct Sample {
    requests: u64,
    hits: u64,
    misses: u64,
}

impl DemoStatus {
    pub fn new(n: &Path) -> Self {
        Self { reader: CounterReader::new(n), last: None }
    }

    /// One line: what happened since the last call; the first has nothing to tell. `latencies` are those of our own requests, `memory` is in octets.
    pub fn line(&mut self, latencies: &[Duration], memory: u64) -> String {
        // A cache that is about to stop has none.
        let counters = self.reader.read().unwrap_or_default();
        let main = |name| sum(&counters, "MAIN", name);
        let now = Sample { requests: main("client_req"), hits: main("cache_hit"), misses: main("cache_miss") };
        let at = Instant::now();
        let Some((then, before)) = self.last.replace((at, now)) else { return String::new() };
        // A new worker counts from zero: what went backwards counts as nothing.
        let since = |a: u64, b: u64| a.saturating_sub(b);
        let rate = since(now.requests, before.requests) as f64 / at.duration_since(then).as_secs_f64().max(0.001);
        let (hits, misses) = (since(now.hits, before.hits), since(now.misses, before.misses));
        let hit_rate = match hits + misses {
            0 => "-".into(),
            all => format!("{:.1}%", 100.0 * hits as f64 / all as f64),
        };
        format!(
            "{rate:10.0} {hit_rate:>7} {:>11} {:>11} {:>9} {:>9} {:>10}",
            percentile(latencies, 50),
            percentile(latencies, 99),
            megabytes(memory),
            main("n_object"),
            megabytes(sum(&counters, "SM", "g_bytes")),
        )
    }
}

/// Sum of the counters of one name in all sets whose names begin with `sets`.
fn sum(counters: &[CounterValue], sets: &str, name: &str) -> u64 {
    let wanted = counters.iter().filter(|one| one.set.starts_with(sets) && one.about.name == name);
    wanted.fold(0, |all, one| all.wrapping_add(one.value))
}

fn megabytes(octets: u64) -> String {
    format!("{:.1} MB", octets as f64 / 1e6)
}

/// The latency that `p` of a hundred requests stay below; `sorted` is in rising order.
fn percentile(sorted: &[Duration], p: usize) -> String {
    let rank = (sorted.len() * p).div_ceil(100);
    match sorted.get(rank.saturating_sub(1)) {
        Some(d) => format!("{:.2} ms", d.as_secs_f64() * 1000.0),
        None => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use shm::reader::CounterDoc;
    use tables::counters::{CounterFormat, CounterKind, CounterLevel};

    use super::*;

    #[test]
    fn counters_are_added_up_over_their_sets() {
        let counter = |set: &str, name, value| {
            let about = CounterDoc::new(name, CounterKind::Counter, CounterLevel::Info, CounterFormat::Integer);
            CounterValue { set: set.into(), about: about.into(), value }
        };
        let all = [
            counter("MAIN", "cache_hit", 7),
            counter("SMA.s0", "g_bytes", 30),
            counter("SMA.Transient", "g_bytes", 12),
            counter("SMA.s0", "g_space", 100),
        ];
        assert_eq!((sum(&all, "MAIN", "cache_hit"), sum(&all, "MAIN", "cache_miss")), (7, 0));
        assert_eq!(sum(&all, "SM", "g_bytes"), 42);
    }

    fn check(ms: &[u64], p: usize, expect: &str) {
        let sorted: Vec<Duration> = ms.iter().map(|&m| Duration::from_millis(m)).collect();
        assert_eq!(percentile(&sorted, p), expect);
    }

    #[test]
    fn percentiles() {
        check(&[], 50, "-");
        check(&[4], 99, "4.00 ms");
        check(&[1, 2, 3, 4], 50, "2.00 ms");
        check(&[1, 2, 3, 4], 99, "4.00 ms");
        check(&[1, 2, 3], 50, "2.00 ms");
    }
}
