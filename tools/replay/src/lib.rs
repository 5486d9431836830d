// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer replay`: the requests of a log, sent to a server at a chosen pace, and how it answered.
//!
//! A thread reads the sources and makes requests' bytes of them (`reader`); the main thread sends and measures (`engine`), or
//! others do (`fleet`).

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod answer;
mod compare;
mod end;
mod engine;
mod faults;
mod fleet;
mod h2;
mod h3;
mod head;
mod link;
mod local;
mod options;
mod order;
mod pace;
mod progress;
mod reader;
mod report;
mod run;
mod scenario;
mod server;
mod socket;
mod stats;
mod stream;
mod target;
mod timing;

use serde_json::Value;
use toolkit::print;

pub use options::TOOL;
use options::{ReplayFormat, ReplayInvocation};

/// Runs it: `args` are the words after `lacquer replay`; the exit status.
///
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> i32 {
    TOOL.main(args, options::parse, |invocation| match invocation {
        ReplayInvocation::Compare(names, format) => compared(names, format),
        ReplayInvocation::Serve(serve) => fleet::worker::serve(&serve),
        ReplayInvocation::Run(options) => run::run(&options),
    })
}

fn compared(names: Vec<String>, format: ReplayFormat) -> Result<i32, String> {
    let reports =
        names.into_iter().map(|name| Ok((compare::read(&name)?, name))).collect::<Result<Vec<_>, String>>()?;
    print(format, &compare::json(&reports), || compare::text(&reports));
    Ok(0)
}

fn print(format: ReplayFormat, json: &Value, text: impl FnOnce() -> String) {
    match format {
        ReplayFormat::Text => print::foreign(text()),
        ReplayFormat::Json => print::out(format_args!("{json:#}\n")),
    }
}
