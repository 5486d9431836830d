// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer status`: how a running server was started, what differs from the defaults, and how it fares, on one screen.

mod facts;
mod process;
mod screen;

use toolkit::options::{HelpPart, Opt};
use toolkit::print;

use crate::words::{AdmTool, AdmWords, read, tool};

const INTRODUCTION: &str = "\
Usage: lacquer status [options]

Summarises a running server on one screen: command line, addresses, VCLs, stores, hit rate, restarts with the last cause,
open file descriptors, changed parameters, and the problems that `lacquer doctor` finds. Works with varnishd, too. What
can't be determined (another user's process, no CLI) is listed as missing.

";

const EPILOGUE: &str = "
The exit status is 0 if the server's worker runs, 1 if it doesn't, 2 if there is no server.
";

const HELP: &[HelpPart<AdmWords>] = &[
    (
        INTRODUCTION,
        &[
            AdmWords::WORKDIR,
            AdmWords::flag("-T <host:port>", "CLI address of the server; only what the CLI reports is shown"),
            AdmWords::SECRET,
            AdmWords::TIMEOUT,
            AdmWords::FORMAT,
            Opt::HELP,
        ],
    ),
    (EPILOGUE, &[]),
];

pub const TOOL: AdmTool = tool("lacquer status", HELP);

/// A doctor's look at a server (-n, -T, -S) and its machine: the faults, a line each, or why it couldn't look.
pub type Doctor = fn(Option<&str>, Option<&str>, Option<&str>) -> Result<Vec<String>, String>;

pub fn main(args: &[String], doctor: Doctor) -> i32 {
    let words = match read(&TOOL, args, Some("no command")) {
        Ok(words) => words,
        Err(status) => return status,
    };
    let show = match words.last("--format").unwrap_or("text") {
        "text" => screen::text,
        "json" => |facts: &facts::Facts| format!("{:#}\n", facts.json()),
        other => return TOOL.refuse(format!("no format {other}")),
    };
    let Some(mut facts) = facts::gather(&words.config()) else { return 2 };
    facts.wrong = Some(doctor(facts.workdir.as_deref(), words.last("-T"), words.last("-S")));
    print::foreign(show(&facts));
    i32::from(!facts.is_running())
}
