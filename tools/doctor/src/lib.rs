// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer doctor`: what is wrong with a host and the server on it, why it matters, and what to type.
//!
//! `gather` looks at everything and changes nothing: files of the kernel (`host`), counters and CLI of the server
//! (`server`), its log (`traffic`). A rule (`rule`, `rules`) is declared once, with its texts, and judges those facts.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod facts;
mod gather;
mod host;
mod log;
mod options;
mod report;
mod rule;
mod rules;
mod server;
mod traffic;

use std::time::Duration;
use toolkit::print;

pub use options::usage;
use options::{Format, Invocation, Options};
use report::Report;

/// Time for which [`gravest`] waits for the CLI.
const LOOK: Duration = Duration::from_secs(5);

/// Runs it: `args` are the words after `lacquer doctor`; the exit status. 0: nothing worse than a notice; 1: a warning or a fault;
/// 2: it couldn't look.
///
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> i32 {
    match options::parse(args) {
        Ok(Invocation::Help) => print::out(usage()),
        Ok(Invocation::List(Format::Text)) => print::out(report::list()),
        Ok(Invocation::List(Format::Json)) => print::out(format_args!("{:#}\n", report::list_json())),
        Ok(Invocation::Explain(id)) => {
            rules::all().filter(|rule| rule.id == id).for_each(|rule| print::out(report::explained(rule)));
        }
        Ok(Invocation::Run(options)) => {
            return run(&options).unwrap_or_else(|error| {
                print::foreign_err(format_args!("lacquer doctor: {error}\n"));
                2
            });
        }
        Err(error) => {
            print::err(format_args!("lacquer doctor: {error}\n{}", options::SYNOPSIS));
            return 2;
        }
    }
    0
}

/// Findings worse than a notice on this machine and its server (`name`, `address` and `secret` as -n, -T and -S), one
/// line each, the gravest first. For programs that show them beside other things; doesn't read the log.
///
/// # Errors
/// The reason why it couldn't look.
pub fn gravest(name: Option<&str>, address: Option<&str>, secret: Option<&str>) -> Result<Vec<String>, String> {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let options = Options {
        name: owned(name),
        address: owned(address),
        secret: owned(secret),
        timeout: LOOK,
        root: "/".into(),
        skip: vec!["log".to_owned()],
        is_quiet: true,
        ..Options::default()
    };
    let seen = gather::facts(&options)?;
    Ok(Report::new(&options, &seen.facts, seen.is_early).gravest())
}

fn run(options: &Options) -> Result<i32, String> {
    let seen = gather::facts(options)?;
    let report = Report::new(options, &seen.facts, seen.is_early);
    match options.format {
        Format::Json => print::out(format_args!("{:#}\n", report.json())),
        Format::Text => print::foreign(report.text()),
    }
    Ok(match () {
        () if report.is_blind() || seen.is_gone => 2,
        () => i32::from(report.is_bad()),
    })
}
