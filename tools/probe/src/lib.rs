// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer probe`: small requests at a steady pace, each on a connection of its own, and whether slow answers are slow
//! because of packets that were lost.
//!
//! The main thread keeps the schedule; each request has a thread (`shot`), so that a slow one delays no other.
//! `ladder` knows the times at which packets are sent again, `verdict` says in words what the samples show.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod kernel;
mod ladder;
mod options;
mod report;
mod schedule;
mod shot;
mod target;
mod verdict;

use base::print;

pub use options::usage;
use options::{Format, Invocation, Options};
use report::Report;
use target::Target;

/// Runs it: `args` are the words after `lacquer probe`; the exit status. 1: nothing was answered; 2: nothing was sent.
///
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> i32 {
    match options::parse(args) {
        Ok(Invocation::Help) => {
            print::out(usage());
            0
        }
        Ok(Invocation::Run(options)) => match run(&options) {
            Ok(report) => {
                if options.format == Format::Json {
                    print::out(format_args!("{:#}\n", report.json()));
                }
                i32::from(report.answered() == 0)
            }
            Err(error) => {
                print::err(format_args!("lacquer probe: {error}\n"));
                2
            }
        },
        Err(error) => {
            print::err(format_args!("lacquer probe: {error}\n{}", options::SYNOPSIS));
            2
        }
    }
}

fn run(options: &Options) -> Result<Report, String> {
    let targets = Target::all(options)?;
    schedule::run(options, &targets)
}
