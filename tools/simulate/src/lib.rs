// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer simulate`: how large must the cache be, and what would other keys and lives of objects change.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bodies;
mod bots;
mod cache;
mod case;
mod chart;
mod curve;
mod distinct;
mod duplicates;
mod options;
mod policy;
mod report;
mod scheme;
mod trace;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use accesslog::Gathered;
use sys::signal::{SIGINT, SIGTERM, Signals};
use toolkit::print;

use bodies::Compared;
use bots::{BotsPlan, BotsReport, BotsTally};
use case::CaseTally;
use curve::{CurvePlan, CurvePoint};
pub use options::TOOL;
use options::{SimulateFormat, SimulateOptions};
use report::SimulateReport;

/// Runs it: `args` are the words after `lacquer simulate`; the exit status. 1: nothing was counted; 2: nothing can be said.
///
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> i32 {
    TOOL.main(args, options::parse, |options| run(&options))
}

fn run(options: &SimulateOptions) -> Result<i32, String> {
    if let Some(plan) = &options.bots {
        return run_bots(options, plan);
    }
    let (cases, sample) = (options.cases.clone(), options.sample);
    let mut is_new = true;
    let gathered = options.gathering.clone().run::<CaseTally>(move |tally, entry| {
        if std::mem::take(&mut is_new) {
            *tally = CaseTally::new(&cases, sample);
        }
        tally.add(entry);
    })?;
    let tally = &gathered.result;
    if tally.requests == 0 {
        TOOL.remark("no request was read");
        gathered.remarks().iter().for_each(|remark| TOOL.remark(remark));
        return Ok(1);
    }
    if options.cases.iter().any(|case| case.lives.ttl != i64::MAX) && !tally.clock.is_known() {
        return Err("the log has no times: --ttl says nothing".into());
    }
    let mut ending = Ending::new(options)?;
    let report = simulated(options, &gathered, &mut ending)?;
    match options.format {
        SimulateFormat::Json => print::out(format_args!("{:#}\n", report.json())),
        SimulateFormat::Text => print::foreign(report.text()),
        SimulateFormat::Svg => print::out(report.svg()),
    }
    if options.format != SimulateFormat::Json {
        report.remarks().iter().for_each(|remark| TOOL.remark(remark));
    }
    Ok(0)
}

fn run_bots(options: &SimulateOptions, plan: &BotsPlan) -> Result<i32, String> {
    let mut first = Some(plan.clone());
    let mut gathered = options.gathering.clone().run::<BotsTally>(move |tally, entry| {
        if let Some(plan) = first.take() {
            *tally = BotsTally::new(plan);
        }
        tally.add(entry);
    })?;
    if gathered.result.requests == 0 {
        TOOL.remark("no request was read");
        gathered.remarks().iter().for_each(|remark| TOOL.remark(remark));
        return Ok(1);
    }
    if !gathered.result.clock.is_known() {
        return Err("the log has no times: --bots says nothing".into());
    }
    let report = BotsReport::new(plan, &mut gathered);
    if options.format == SimulateFormat::Json {
        print::out(format_args!("{:#}\n", report.json()));
    } else {
        print::foreign(report.text());
        report.remarks().iter().for_each(|remark| TOOL.remark(remark));
    }
    Ok(0)
}

fn simulated<'a>(
    options: &'a SimulateOptions,
    gathered: &'a Gathered<CaseTally>,
    ending: &mut Ending,
) -> Result<SimulateReport<'a>, String> {
    let tally = &gathered.result;
    let kept = |case: &case::Case| tally.of(&case.rules).expect("there is one for each case");
    let bodies = options.cases.iter().map(|case| kept(case).trace.bodies(case.body)).collect::<Result<Vec<_>, _>>()?;
    let working_set = |by: &curve::EvictBy| {
        let all = options.cases.iter().zip(&bodies);
        all.map(|(case, bodies)| report::working_set(&kept(case).trace, bodies, *by, case.beside)).max().unwrap_or(0)
    };
    let largest = options.policies.iter().map(working_set).max().unwrap_or(0);
    let sizes = if options.sizes.is_empty() { curve::sizes(largest) } else { options.sizes.clone() };
    let mut plans = Vec::new();
    for (case, bodies) in options.cases.iter().zip(&bodies) {
        let kept = kept(case);
        let share = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 };
        let cacheable = (share(kept.requests, tally.requests), share(kept.bytes, tally.bytes));
        for (&by, &memory) in options.policies.iter().flat_map(|by| sizes.iter().map(move |size| (by, size))) {
            plans.push(CurvePlan {
                trace: &kept.trace,
                bodies,
                lives: case.lives,
                beside: case.beside,
                warm_up: options.warm_up,
                cacheable,
                by,
                memory,
            });
        }
    }
    let objects = options.cases.iter().map(|case| kept(case).trace.objects().len()).max().unwrap_or(0);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(threads(objects)));
    let points: Vec<Option<CurvePoint>> = curve::points(&plans, threads, |done| ending.look(done, plans.len()));
    let compared = options.bodies.as_deref().map(|server| compare(server, tally, ending)).transpose()?;
    ending.clear();
    let mut per_case = points.chunks(sizes.len() * options.policies.len());
    let curves = bodies.iter().map(|_| per_case.next().unwrap_or_default().to_vec()).collect();
    Ok(SimulateReport::new(options, gathered, &bodies, sizes.len(), curves, compared, ending.is_over))
}

/// Threads at most: each has a cache of its own, and where there are many objects two of them take what the help says.
fn threads(objects: usize) -> usize {
    const AT_ONCE: usize = 1_000_000;
    (AT_ONCE / objects.max(1)).clamp(2, 16)
}

fn compare(server: &str, tally: &CaseTally, ending: &mut Ending) -> Result<Compared, String> {
    bodies::compare(server, &tally.duplicates.groups(), |done, all| ending.look(done, all))
}

/// The work after reading: a line of progress, and Ctrl-C.
struct Ending {
    signals: Signals,
    is_shown: bool,
    begin: Instant,
    shown: Option<Instant>,
    is_over: bool,
}

const SHOW: Duration = Duration::from_millis(500);

impl Ending {
    fn new(options: &SimulateOptions) -> Result<Ending, String> {
        let signals = Signals::new(&[SIGINT, SIGTERM]).map_err(|error| error.to_string())?;
        let is_shown = !options.gathering.is_quiet && std::io::stderr().is_terminal();
        Ok(Ending { signals, is_shown, begin: Instant::now(), shown: None, is_over: false })
    }

    /// Shows progress; true to go on.
    fn look(&mut self, done: usize, all: usize) -> bool {
        self.is_over |= self.signals.take().is_ok_and(|signal| signal.is_some());
        if self.is_shown && self.shown.unwrap_or(self.begin).elapsed() >= SHOW {
            self.shown = Some(Instant::now());
            print::err(format_args!("\r\x1b[K{done} of {all} done"));
        }
        !self.is_over
    }

    fn clear(&self) {
        if self.shown.is_some() {
            print::err("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn many_objects_are_simulated_by_few_threads() {
        assert_eq!([0, 1000, 100_000, 500_000, 100_000_000].map(super::threads), [16, 16, 10, 2, 2]);
    }

    /// A hash of a number, for pages.
    pub fn mixed(n: u64) -> u64 {
        let mut x = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D;
        x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }

    pub struct SimulateDraw(pub u64);

    impl SimulateDraw {
        /// Between 0 and 1.
        pub fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            (mixed(self.0) >> 11) as f64 / (1u64 << 53) as f64
        }
    }
}
