// SPDX-License-Identifier: BSD-2-Clause
//! The line that is printed each second, and the heading of its columns.

use crate::vsc::WorkerCounters;
use std::path::Path;
use std::time::{Duration, Instant};

pub const HEADING: &str = "requests/s    hits     half in      99% in    memory   objects     stored";

/// The counters as they were a second ago.
pub struct DemoStatus {
    counters: WorkerCounters,
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
        Self { counters: WorkerCounters::new(n), last: None }
    }

    /// One line: what happened since the last call; the first has nothing to tell. `latencies` are those of our own requests, `memory` is in octets.
    pub fn line(&mut self, latencies: &[Duration], memory: u64) -> String {
        self.counters.refresh();
        let c = &self.counters;
        let read = |name: &str| c.get(name).unwrap_or(0);
        let now =
            Sample { requests: read("MAIN.client_req"), hits: read("MAIN.cache_hit"), misses: read("MAIN.cache_miss") };
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
            c.get("MAIN.n_object").unwrap_or(0),
            megabytes(c.sum("SM", ".g_bytes")),
        )
    }
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
    use super::*;

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
