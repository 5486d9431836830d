// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer replay`: the requests of a log, sent to a server at a chosen pace, and how it answered.
//!
//! A thread reads the sources and makes requests' bytes of them (`reader`); the main thread sends and measures (`engine`).

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod answer;
mod compare;
mod draft;
mod engine;
mod faults;
mod format;
mod input;
mod link;
mod ncsa;
mod options;
mod order;
mod pace;
mod progress;
mod reader;
mod report;
mod server;
mod socket;
mod stats;
mod stream;
mod target;
mod timing;
mod urls;
mod vsl;

use base::say;
use serde_json::Value;

use engine::{End, Engine};
pub use options::OPTIONS;
use options::{Asked, Format, Options};
use progress::Progress;
use server::Meter;
use stream::Stream;
use target::Addresses;

/// Runs it: `args` are the words after `lacquer replay`; the exit status.
///
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> i32 {
    let done = match options::parse(args) {
        Ok(Asked::Help) => {
            say::out(options::usage());
            return 0;
        }
        Ok(Asked::Compare(a, b, format)) => compared(&a, &b, format),
        Ok(Asked::Run(options)) => run(&options),
        Err(error) => {
            say::err(format_args!("lacquer replay: {error}\n"));
            return 2;
        }
    };
    done.unwrap_or_else(|error| {
        say::err(format_args!("lacquer replay: {error}\n"));
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
        Format::Text => say::out(text()),
        Format::Json => say::out(format_args!("{json:#}\n")),
    }
}

fn run(o: &Options) -> Result<i32, String> {
    let failed = |e: std::io::Error| logq::source::strerror(&e);
    // What can't be read at all ends the run before it begins.
    for name in o.plan.files.iter().filter(|name| *name != "-") {
        std::fs::File::open(name).map_err(|e| format!("{name}: {}", failed(e)))?;
    }
    let mut meter = o.watched.clone().map(Meter::new).transpose()?;
    // As many as may be: refused, it goes on with fewer.
    let _ = sys::limits::raise_open_files(2 * o.connections as u64 + 64);
    let addresses = Addresses::default();
    let mut engine = Engine::new(addresses.clone()).map_err(failed)?;
    let (from, told) = reader::start(o.plan.clone(), addresses, engine.waker()).map_err(failed)?;
    let mut stream = Stream::new("replay", from, told, o.pace, o.connections, o.top);
    (stream.keep, stream.most) = (o.keep, o.requests);
    let mut streams = [stream];
    let lasts = o.limits.duration.map(|d| d + o.limits.warmup);
    let progress = Progress::new(o.quiet, lasts, o.plan.repeat);
    let mut client = server::own_cpu_seconds();
    let mut is_warm = o.limits.warmup == 0;
    let mut tick = |passed: u64, streams: &[Stream]| {
        if !is_warm && passed > o.limits.warmup {
            is_warm = true;
            client = server::own_cpu_seconds();
            meter.iter_mut().for_each(Meter::restart);
        }
        meter.iter_mut().for_each(Meter::look);
        progress.show(passed, streams);
    };
    let (ns, end) = engine.run(&mut streams, &o.limits, &mut tick).map_err(failed)?;
    progress.end();
    meter.iter_mut().for_each(Meter::look);
    let report = report::run(&streams, ns, end, server::own_cpu_seconds() - client, meter.as_ref());
    print(o.format, &report, || report::text(&report));
    Ok(status(&streams, end))
}

fn status(streams: &[Stream], end: End) -> i32 {
    let nothing = streams.iter().all(|s| s.stats.answers == 0);
    i32::from(end == End::GaveUp || (nothing && end != End::Interrupted))
}
