// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer probe`: small requests at a steady pace, each on a connection of its own, and whether slow answers are slow
//! because of packets that were lost.
//!
//! The main thread keeps the schedule; each request has a thread (`shot`), so that a slow one delays no other.
//! `ladder` knows the times at which packets are sent again, `verdict` says in words what the samples show.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod h2;
mod kernel;
mod ladder;
mod options;
mod report;
mod schedule;
mod shot;
mod target;
mod verdict;

use std::sync::Arc;

use tls::{Spoken, Trust};
use toolkit::print;

pub use options::TOOL;
use options::{ProbeFormat, ProbeOptions};
use target::ProbeTarget;

/// Runs it: `args` are the words after `lacquer probe`; the exit status. 1: nothing was answered; 2: nothing was sent.
///
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> i32 {
    TOOL.main(args, options::parse, |options| run(&options))
}

fn run(options: &ProbeOptions) -> Result<i32, String> {
    let targets = ProbeTarget::all(options)?;
    let tls = if targets.iter().any(|target| target.is_tls) { Some(tls_client(options)?) } else { None };
    let report = schedule::run(options, &targets, tls.as_ref())?;
    if options.format == ProbeFormat::Json {
        print::out(format_args!("{:#}\n", report.json()));
    }
    Ok(i32::from(report.answered() == 0))
}

fn tls_client(options: &ProbeOptions) -> Result<Arc<tls::TlsClient>, String> {
    let read = |path: &String| std::fs::read_to_string(path).map_err(|error| format!("--ca {path}: {error}"));
    let authorities = options.ca.as_ref().map(read).transpose()?;
    let spoken = if options.is_http2 { Spoken::Http2 } else { Spoken::Http1 };
    let trust = Trust { is_blind: options.is_blind, authorities, is_fresh: options.is_fresh, spoken };
    trust.client().map_err(|error| format!("--ca: {error}"))
}
