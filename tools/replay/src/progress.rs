// SPDX-License-Identifier: BSD-2-Clause
//! One line on the terminal while a run goes on: what was done, how fast, how much is left.

use std::io::IsTerminal;
use std::sync::atomic::Ordering;

use base::print;

use crate::server::round;
use crate::stream::Stream;

/// The line, or nothing where nobody looks.
pub struct Progress {
    is_shown: bool,
    /// Nanoseconds that the run lasts, warm-up included.
    duration: Option<u64>,
    repeats: bool,
}

impl Progress {
    /// For a run.
    pub fn new(quiet: bool, duration: Option<u64>, repeats: bool) -> Progress {
        Progress { is_shown: !quiet && std::io::stderr().is_terminal(), duration, repeats }
    }

    /// Shows how it stands.
    pub fn show(&self, passed: u64, streams: &[Stream]) {
        if self.is_shown {
            print::err(format_args!("\r\x1b[K{}", self.line(passed, streams)));
        }
    }

    /// Takes the line away.
    pub fn end(&self) {
        if self.is_shown {
            print::err("\r\x1b[K");
        }
    }

    fn line(&self, passed: u64, streams: &[Stream]) -> String {
        let Some(stream) = streams.first() else { return String::new() };
        let (second, times) = stream.stats.current();
        let seconds = passed as f64 / 1e9;
        let mut line = format!(
            "{seconds:.0} s  {} answers  {}/s  p99 {} ms  {} failed",
            stream.stats.answers,
            second.answers,
            round(times.percentile(99.0) as f64 / 1e6, 1),
            stream.stats.failed(),
        );
        if let Some(done) = self.done(passed, stream).filter(|done| *done > 0.0) {
            let left = seconds / done * (1.0 - done).max(0.0);
            line.push_str(&format!("  {:.0} %  {left:.0} s left", done * 100.0));
        }
        line
    }

    /// The share that is done: of time, of requests or of the source, whichever is further.
    fn done(&self, passed: u64, stream: &Stream) -> Option<f64> {
        let by_time = self.duration.map(|d| passed as f64 / d as f64);
        let by_count = stream.most.map(|most| stream.begun as f64 / most as f64);
        let size = stream.told.size.load(Ordering::Relaxed);
        let is_sized = size > 0 && !self.repeats;
        let by_source = is_sized.then(|| stream.told.read.load(Ordering::Relaxed) as f64 / size as f64);
        let furthest = [by_time, by_count, by_source]
            .into_iter()
            .flatten()
            .fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))));
        furthest.map(|done| done.min(1.0))
    }
}
