// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer vcl profile`: counts for a while what the lines of a running VCL cost, and shows it.

use std::os::fd::AsFd;
use std::time::Duration;

use admin::AdminConnection;
use sys::fd::Interest;
use sys::signal::{SIGINT, SIGTERM, Signals};
use toolkit::options::{HelpPart, Opt};
use toolkit::print;
use toolkit::tool::Tool;

use crate::Config;
use crate::words::{AdmTool, AdmWords, tool};

const INTRODUCTION: &str = "\
Usage: lacquer vcl profile [options] [VCL]

Measures the CPU time of a VCL on a running server (the active VCL unless named). Prints its share of a request's CPU
time, the time of each subroutine, and for each line, the most expensive first, how often it ran, how often its condition
was true, and its CPU time. Then suggests what to change. Ends after the given time, or with Ctrl-C.

";

const EPILOGUE: &str = "
Examples:
 lacquer vcl profile -t 60
 lacquer vcl profile -n /var/lib/varnish/site reload_20261121
";

const HELP: &[HelpPart<AdmWords>] = &[
    (
        INTRODUCTION,
        &[
            AdmWords::WORKDIR,
            AdmWords::ADDRESS,
            AdmWords::SECRET,
            AdmWords::flag("-t <seconds>", "How long to measure (default: 10)"),
            AdmWords::switch("-j", "Print JSON: the same numbers, in nanoseconds, and the suggestions"),
            Opt::HELP,
        ],
    ),
    (EPILOGUE, &[]),
];

pub const TOOL: AdmTool = Tool { column: 18, ..tool("lacquer vcl profile", HELP) };

/// Runs it: the exit status. 1: the server refused; 2: it wasn't asked.
pub fn main(args: &[String]) -> i32 {
    let words = match TOOL.settle(TOOL.read(AdmWords::default(), args)) {
        Ok(words) => words,
        Err(status) => return status,
    };
    if words.rest.len() > 1 {
        return TOOL.refuse("one VCL at a time");
    }
    let seconds = match words.last("-t").unwrap_or("10").parse::<f64>() {
        Ok(seconds) if (0.0..=86400.0).contains(&seconds) => Duration::from_secs_f64(seconds),
        _ => return TOOL.refuse("-t wants seconds, at most a day"),
    };
    let config = Config { timeout: None, ..words.config() };
    let Some(mut connection) = config.connect() else { return 2 };
    match count(&mut connection, words.rest.first().map(String::as_str), seconds, words.last("-j").is_some()) {
        Ok(table) => {
            print::foreign(format_args!("{}\n", table.trim_end()));
            0
        }
        Err(reason) => {
            print::err(format_args!("lacquer vcl profile: {}\n", reason.trim_end()));
            1
        }
    }
}

/// Counts for that long, or until a signal; switches off in any case.
fn count(connection: &mut AdminConnection, vcl: Option<&str>, time: Duration, json: bool) -> Result<String, String> {
    let mut signals = Signals::new(&[SIGINT, SIGTERM]).map_err(|e| e.to_string())?;
    let command = |what: &str, vcl: Option<&str>| format!("vcl.profile {what} {}", vcl.unwrap_or_default());
    let on = connection.ask_for(&command("on", vcl))?.text().into_owned();
    // Another VCL may be in use by the time it ends.
    let named = on.strip_prefix("VCL ").and_then(|rest| rest.rsplit_once(": ")).map(|(name, _)| name.to_owned());
    let vcl = named.as_deref().or(vcl);
    print::err(format_args!(
        "counting {} for {} s; Ctrl-C ends it early\n",
        vcl.unwrap_or_default(),
        time.as_secs_f64()
    ));
    let _ = sys::fd::wait(signals.as_fd(), Interest::Read, Some(time));
    let _ = signals.take();
    let show = if json { "-j show" } else { "show" };
    connection.ask_for(&command("off", vcl))?;
    Ok(connection.ask_for(&command(show, vcl))?.text().into_owned())
}
