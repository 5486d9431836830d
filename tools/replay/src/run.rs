// SPDX-License-Identifier: BSD-2-Clause
//! A run from its first part to its report, whoever sends: this process (`local`) or others (`fleet`).

use serde_json::Value;
use toolkit::print;

use crate::end::ReplayEnd;
use crate::engine::ReplayLimits;
use crate::fleet::coordinator::Coordinator;
use crate::local::Local;
use crate::options::{ReplayFormat, ReplayOptions};
use crate::pace::ReplayPace;
use crate::progress::{ReplayProgress, ReplayStanding};
use crate::report;
use crate::scenario::{ReplayScenario, ScenarioLimit};
use crate::server::CpuMeter;
use crate::stats::ReplayStats;

pub trait RequestSender {
    fn refill(&mut self) -> Result<(), String>;

    /// Sends one part; `watch` is told how it goes.
    ///
    /// # Errors
    /// What keeps it from it.
    fn part(
        &mut self,
        pace: ReplayPace,
        limits: &ReplayLimits,
        watch: &mut RunWatch,
    ) -> Result<(Value, ReplayEnd), String>;

    fn stats(&self) -> &ReplayStats;

    /// Nothing was answered, of any stream.
    fn is_unanswered(&self) -> bool;

    /// True if the run isn't whole for a reason that the engine doesn't know; for the exit status.
    fn is_damaged(&self) -> bool {
        false
    }
}

/// Work once a second: the server's CPU time, and the line on the terminal.
pub struct RunWatch {
    pub meter: Option<CpuMeter>,
    progress: ReplayProgress,
    warmup: u64,
    is_warm: bool,
}

impl RunWatch {
    fn new(meter: Option<CpuMeter>, progress: ReplayProgress, warmup: u64) -> RunWatch {
        let mut watch = RunWatch { meter, progress, warmup, is_warm: warmup == 0 };
        watch.meter.iter_mut().for_each(CpuMeter::restart);
        watch
    }

    /// Handles the end of a second, after `passed` nanoseconds; true when the warm-up has just ended.
    pub fn tick(&mut self, passed: u64, standing: &ReplayStanding<'_>) -> bool {
        let begins = !self.is_warm && passed >= self.warmup;
        if begins {
            self.is_warm = true;
            self.meter.iter_mut().for_each(CpuMeter::restart);
        } else {
            self.meter.iter_mut().for_each(CpuMeter::end_second);
        }
        self.progress.show(passed, standing);
        begins
    }

    pub fn end(&mut self) {
        self.progress.end();
        self.meter.iter_mut().for_each(CpuMeter::look);
    }
}

/// Runs it; the exit status.
///
/// # Errors
/// Why it can't begin, or go on.
pub fn run(o: &ReplayOptions) -> Result<i32, String> {
    // What can't be read at all ends the run before it begins.
    let walked = o.walker.iter().flat_map(|(plan, _)| &plan.sources.files);
    for name in o.plan.sources.files.iter().chain(walked).filter(|name| *name != "-") {
        std::fs::File::open(name).map_err(|e| format!("{name}: {}", logq::source::strerror(&e)))?;
    }
    let meter = o.watched.clone().map(CpuMeter::new).transpose()?;
    if o.workers.is_empty() { parts(o, meter, &mut Local::new(o)?) } else { parts(o, meter, &mut Coordinator::new(o)?) }
}

fn parts(o: &ReplayOptions, mut meter: Option<CpuMeter>, sender: &mut dyn RequestSender) -> Result<i32, String> {
    let (mut parts, mut passed, mut worst) = (Vec::new(), None, 0);
    for i in 0..o.scenario.parts() {
        let (name, pace) = o.scenario.part(i, o.pace);
        if i > 0 && matches!(o.scenario, ReplayScenario::Passes(_)) {
            sender.refill()?;
        }
        let mut limits = o.limits.clone();
        if let ReplayScenario::Ramp { hold, .. } = o.scenario {
            limits.duration = Some(hold);
        }
        let lasts = limits.duration.map(|d| d + limits.warmup);
        let progress = ReplayProgress::new(o.quiet, lasts, o.plan.repeat);
        let mut watch = RunWatch::new(meter.take(), progress, limits.warmup);
        let (mut report, end) = sender.part(pace, &limits, &mut watch)?;
        meter = watch.meter;
        if let ReplayPace::Rate { rate, .. } = pace {
            report["target_rate"] = rate.into();
        }
        if o.format == ReplayFormat::Text {
            let heading = if name.is_empty() { String::new() } else { format!("== {name}\n") };
            print::foreign(format_args!("{heading}{}", report::text(&report)));
        }
        parts.push(report);
        passed = o.scenario.passed(sender.stats());
        let failed = end == ReplayEnd::GaveUp
            || (sender.is_unanswered() && end != ReplayEnd::Interrupted)
            || sender.is_damaged();
        worst = worst.max(i32::from(failed));
        let is_step_over = matches!(o.scenario, ReplayScenario::Ramp { .. })
            && matches!(end, ReplayEnd::Done | ReplayEnd::DoneInWarmup);
        let is_ended = matches!(end, ReplayEnd::Interrupted | ReplayEnd::InterruptedInWarmup | ReplayEnd::GaveUp);
        if passed.is_some() || is_step_over || is_ended {
            break;
        }
    }
    conclude(o, parts, passed);
    Ok(worst)
}

fn conclude(o: &ReplayOptions, parts: Vec<Value>, passed: Option<ScenarioLimit>) {
    let whole = o.scenario.json(parts, passed);
    match (o.format, &o.scenario) {
        (ReplayFormat::Json, _) => crate::print(o.format, &whole, String::new),
        (ReplayFormat::Text, ReplayScenario::Ramp { .. }) => {
            let passed =
                passed.map_or("no limit was passed".to_owned(), |limit| format!("{} was passed", limit.text()));
            print::out(format_args!("== {passed}; last good rate: {}\n", whole["last_good_rate"]));
        }
        (ReplayFormat::Text, _) => {}
    }
}
