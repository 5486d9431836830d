// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer status`: how a running server was started, what differs from the defaults, and how it fares, on one screen.

mod facts;
mod process;
mod screen;

use base::print;

use crate::words::Words;

const USAGE: &str = "\
Usage: lacquer status [options]

Says on one screen how a running server was started and how it fares: its arguments and addresses, VCLs, stores, hit
rate, restarts with the last cause, open descriptors, and the parameters that differ from their defaults. Works with
varnishd, too. What can't be known (another user's process, no CLI) is left out, and said to be.

 -n <dir>           The working directory of the server
 -T <host:port>     Where its manager listens: only what its CLI tells then
 -S <file>          The secret file
 -t <seconds|off>   How long to wait (default: 5)
 --format <format>  text or json (default: text)
 -h                 This text

The exit status is 0 when the server's worker runs, 1 when it doesn't, 2 when there is no server.
";

/// Runs it: the exit status.
pub fn main(args: &[String]) -> i32 {
    let words = match Words::read(args, &["-t", "--format"]) {
        Ok(Some(words)) => words,
        Ok(None) => {
            print::out(format_args!("{USAGE}"));
            return 0;
        }
        Err(reason) => return refuse(&reason),
    };
    if let Some(word) = words.rest.first() {
        return refuse(&format!("no command {word}"));
    }
    let show = match words.last("--format").unwrap_or("text") {
        "text" => screen::text,
        "json" => |facts: &facts::Facts| format!("{:#}\n", facts.json()),
        other => return refuse(&format!("no format {other}")),
    };
    let mut config = words.config();
    config.timeout = words.last("-t").map(str::to_owned);
    if config.address.is_some() && config.name.is_some() {
        return refuse("either -T or -n");
    }
    let Some(facts) = facts::gather(&config) else { return 2 };
    print::out(show(&facts));
    i32::from(!facts.is_running())
}

fn refuse(reason: &str) -> i32 {
    print::err(format_args!("lacquer status: {reason}\n{USAGE}"));
    2
}
