// SPDX-License-Identifier: BSD-2-Clause
//! One line on the terminal while a run goes on: what was done, how fast, how much is left.

use std::io::IsTerminal;
use std::sync::atomic::Ordering;

use toolkit::print;

use crate::reader::ReaderReport;
use crate::server::round;
use crate::stats::ReplaySecond;

/// Longer lines would leave their beginning behind on a terminal of 80 columns.
const WIDTH: usize = 79;

#[derive(Clone, Copy)]
pub struct ReplayStanding<'a> {
    pub answers: u64,
    /// The last second, its times in nanoseconds.
    pub second: ReplaySecond,
    pub tells_hits: bool,
    pub failed: u64,
    pub begun: u64,
    pub most: Option<u64>,
    pub told: &'a ReaderReport,
}

/// The line, or nothing where nobody looks.
pub struct ReplayProgress {
    is_shown: bool,
    /// Nanoseconds that the run lasts, warm-up included.
    duration: Option<u64>,
    repeats: bool,
}

impl ReplayProgress {
    pub fn new(quiet: bool, duration: Option<u64>, repeats: bool) -> ReplayProgress {
        ReplayProgress { is_shown: !quiet && std::io::stderr().is_terminal(), duration, repeats }
    }

    pub fn show(&self, passed: u64, standing: &ReplayStanding<'_>) {
        if self.is_shown {
            let line: String = self.line(passed, standing).chars().take(WIDTH).collect();
            print::err(format_args!("\r\x1b[K{line}"));
        }
    }

    pub fn end(&self) {
        if self.is_shown {
            print::err("\r\x1b[K");
        }
    }

    /// The line, with the important figures first: the end may be cut off.
    fn line(&self, passed: u64, standing: &ReplayStanding<'_>) -> String {
        let seconds = passed as f64 / 1e9;
        let mut line = match self.done(passed, standing).filter(|done| *done > 0.0) {
            Some(done) => format!("{:.0}%, {:.0} s left", done * 100.0, seconds / done * (1.0 - done).max(0.0)),
            None => format!("{seconds:.0} s"),
        };
        let second = &standing.second;
        let ms = |ns: u64| round(ns as f64 / 1e6, 1);
        line.push_str(&format!("  {}/s  p50 {} p99 {} ms", second.answers, ms(second.p50), ms(second.p99)));
        if standing.tells_hits && second.answers > 0 {
            line.push_str(&format!("  {:.0}% hits", 100.0 * second.hits as f64 / second.answers as f64));
        }
        line.push_str(&format!("  {} failed  {} answers", standing.failed, standing.answers));
        line
    }

    /// The share that is done: of time, of requests or of the source, whichever is further.
    fn done(&self, passed: u64, standing: &ReplayStanding<'_>) -> Option<f64> {
        let by_time = self.duration.map(|d| passed as f64 / d as f64);
        let by_count = standing.most.map(|most| standing.begun as f64 / most as f64);
        let size = standing.told.size.load(Ordering::Relaxed);
        let is_sized = size > 0 && !self.repeats;
        let by_source = is_sized.then(|| standing.told.read.load(Ordering::Relaxed) as f64 / size as f64);
        let furthest = [by_time, by_count, by_source]
            .into_iter()
            .flatten()
            .fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))));
        furthest.map(|done| done.min(1.0))
    }
}
