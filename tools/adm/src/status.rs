// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer status`: how a running server was started, what differs from the defaults, and how it fares, on one screen.

mod facts;
mod process;
mod screen;

use toolkit::print;

use crate::words::CommandLine;

const USAGE: &str = "\
Usage: lacquer status [options]

Says on one screen how a running server was started and how it fares: its arguments and addresses, VCLs, stores, hit
rate, restarts with the last cause, open descriptors, the parameters that differ from their defaults, and what `lacquer
doctor` would complain of. Works with varnishd, too. What can't be known (another user's process, no CLI) is left out,
and said to be.

 -n <dir>           The working directory of the server
 -T <host:port>     Where its manager listens: only what its CLI tells then
 -S <file>          The secret file
 -t <seconds|off>   How long to wait (default: 5)
 --format <format>  text or json (default: text)
 -h                 This text

The exit status is 0 when the server's worker runs, 1 when it doesn't, 2 when there is no server.
";

const COMMAND: CommandLine =
    CommandLine { name: "lacquer status", usage: USAGE, flags: &["-t", "--format"], no_word: Some("no command") };

/// A doctor's look at a server (-n, -T, -S) and its machine: the faults, a line each, or why it couldn't look.
pub type Doctor = fn(Option<&str>, Option<&str>, Option<&str>) -> Result<Vec<String>, String>;

/// Runs it: the exit status.
pub fn main(args: &[String], doctor: Doctor) -> i32 {
    let words = match COMMAND.read(args) {
        Ok(words) => words,
        Err(status) => return status,
    };
    let show = match words.last("--format").unwrap_or("text") {
        "text" => screen::text,
        "json" => |facts: &facts::Facts| format!("{:#}\n", facts.json()),
        other => return COMMAND.refuse(&format!("no format {other}")),
    };
    let Some(mut facts) = facts::gather(&words.config()) else { return 2 };
    facts.wrong = Some(doctor(facts.workdir.as_deref(), words.last("-T"), words.last("-S")));
    print::foreign(show(&facts));
    i32::from(!facts.is_running())
}
