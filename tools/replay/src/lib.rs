// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer replay`: the requests of a log, sent to a server at a chosen pace, and how it answered.
//!
//! A thread reads the sources and makes requests' bytes of them (`reader`); the main thread sends and measures (`engine`).

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod answer;
mod compare;
mod engine;
mod faults;
mod head;
mod link;
mod options;
mod order;
mod pace;
mod progress;
mod reader;
mod report;
mod scenario;
mod server;
mod socket;
mod stats;
mod stream;
mod target;
mod timing;

use base::print;
use serde_json::Value;

use engine::{End, Engine};
pub use options::OPTIONS;
use options::{Format, Invocation, Options};
use pace::Pace;
use progress::Progress;
use reader::Plan;
use scenario::Scenario;
use server::Meter;
use stream::Stream;
use target::Addresses;

/// Runs it: `args` are the words after `lacquer replay`; the exit status.
///
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> i32 {
    let done = match options::parse(args) {
        Ok(Invocation::Help) => {
            print::out(options::usage());
            return 0;
        }
        Ok(Invocation::Compare(a, b, format)) => compared(&a, &b, format),
        Ok(Invocation::Run(options)) => run(&options),
        Err(error) => {
            print::err(format_args!("lacquer replay: {error}\n"));
            return 2;
        }
    };
    done.unwrap_or_else(|error| {
        print::err(format_args!("lacquer replay: {error}\n"));
        1
    })
}

fn compared(a: &str, b: &str, format: Format) -> Result<i32, String> {
    let (a, b) = (compare::read(a)?, compare::read(b)?);
    print(format, &compare::json(&a, &b), || compare::text(&a, &b));
    Ok(0)
}

fn print(format: Format, json: &Value, text: impl FnOnce() -> String) {
    match format {
        Format::Text => print::out(text()),
        Format::Json => print::out(format_args!("{json:#}\n")),
    }
}

fn run(o: &Options) -> Result<i32, String> {
    let failed = |e: std::io::Error| logq::source::strerror(&e);
    // What can't be read at all ends the run before it begins.
    let walked = o.walker.iter().flat_map(|(plan, _)| &plan.sources.files);
    for name in o.plan.sources.files.iter().chain(walked).filter(|name| *name != "-") {
        std::fs::File::open(name).map_err(|e| format!("{name}: {}", failed(e)))?;
    }
    let mut meter = o.watched.clone().map(Meter::new).transpose()?;
    // As many as may be: refused, it goes on with fewer.
    let _ = sys::limits::raise_open_files(2 * o.connections as u64 + 64);
    let addresses = Addresses::default();
    let mut engine = Engine::new(addresses.clone()).map_err(failed)?;
    let read =
        |plan: &Plan, engine: &Engine| reader::start(plan.clone(), addresses.clone(), engine.waker()).map_err(failed);
    let (from, told) = read(&o.plan, &engine)?;
    let mut streams = vec![Stream::new("replay", from, told, o.pace, o.connections, o.top)];
    (streams[0].keep, streams[0].most) = (o.keep, o.requests);
    if let Some((plan, pace)) = &o.walker {
        let (from, told) = read(plan, &engine)?;
        let mut walker = Stream::new("walker", from, told, *pace, 1, o.top);
        walker.is_beside = true;
        streams.push(walker);
    }
    let (mut parts, mut passed, mut worst) = (Vec::new(), None, 0);
    for i in 0..o.scenario.parts() {
        let (name, pace) = o.scenario.part(i, o.pace);
        if i > 0 && matches!(o.scenario, Scenario::Passes(_)) {
            let (from, told) = read(&o.plan, &engine)?;
            streams[0].refill(from, told);
        }
        streams[0].pace = pace;
        let (mut report, end) = part(o, &mut engine, &mut streams, &mut meter)?;
        if let Pace::Rate { rate, .. } = pace {
            report["target_rate"] = rate.into();
        }
        if o.format == Format::Text {
            let heading = if name.is_empty() { String::new() } else { format!("== {name}\n") };
            print::out(format_args!("{heading}{}", report::text(&report)));
        }
        parts.push(report);
        passed = o.scenario.passed(&streams[0].stats);
        worst = worst.max(status(&streams, end));
        let is_step_over = matches!(o.scenario, Scenario::Ramp { .. }) && end == End::Done;
        if passed.is_some() || is_step_over || matches!(end, End::Interrupted | End::GaveUp) {
            break;
        }
    }
    let whole = o.scenario.json(parts, passed);
    match (o.format, &o.scenario) {
        (Format::Json, _) => print::out(format_args!("{whole:#}\n")),
        (Format::Text, Scenario::Ramp { .. }) => {
            let passed =
                passed.map_or("no limit was passed".to_owned(), |limit| format!("{} was passed", limit.text()));
            print::out(format_args!("== {passed}; last good rate: {}\n", whole["last_good_rate"]));
        }
        (Format::Text, _) => {}
    }
    Ok(worst)
}

/// One run, and its report.
fn part(
    o: &Options,
    engine: &mut Engine,
    streams: &mut [Stream],
    meter: &mut Option<Meter>,
) -> Result<(Value, End), String> {
    let mut limits = o.limits.clone();
    if let Scenario::Ramp { hold, .. } = o.scenario {
        limits.duration = Some(hold);
    }
    let lasts = limits.duration.map(|d| d + limits.warmup);
    let progress = Progress::new(o.quiet, lasts, o.plan.repeat);
    let mut client = server::own_cpu_seconds();
    let mut is_warm = limits.warmup == 0;
    meter.iter_mut().for_each(Meter::restart);
    let mut tick = |passed: u64, streams: &[Stream]| {
        if !is_warm && passed > o.limits.warmup {
            is_warm = true;
            client = server::own_cpu_seconds();
            meter.iter_mut().for_each(Meter::restart);
        }
        meter.iter_mut().for_each(Meter::look);
        progress.show(passed, streams);
    };
    let (ns, end) = engine.run(streams, &limits, &mut tick).map_err(|e| logq::source::strerror(&e))?;
    progress.end();
    meter.iter_mut().for_each(Meter::look);
    let report = report::run(streams, ns, end, server::own_cpu_seconds() - client, meter.as_ref());
    Ok((report, end))
}

fn status(streams: &[Stream], end: End) -> i32 {
    let nothing = streams.iter().all(|s| s.stats.answers == 0);
    i32::from(end == End::GaveUp || (nothing && end != End::Interrupted))
}
