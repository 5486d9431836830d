// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer drain`: takes a server out of service, and waits until no request is in progress.

use std::os::fd::AsFd;
use std::time::Duration;

use admin::AdminConnection;
use base::clock;
use cli::drain::DrainState;
use serde_json::Value;
use sys::fd::Interest;
use sys::signal::{SIGINT, SIGTERM, Signals};
use toolkit::args;
use toolkit::options::{HelpPart, Opt};
use toolkit::print;
use toolkit::tool::Tool;

use crate::Config;
use crate::words::{AdmTool, AdmWords, read, tool};

const INTRODUCTION: &str = "\
Usage: lacquer drain [options]

Takes a running server out of service: /readyz returns 503, each response closes its HTTP/1 connection, and peers of a
fleet ask it no more. Requests that still come are served. Waits until load balancers have noticed and no request is in
progress.

";

const EPILOGUE: &str = "
The exit status is 0 if the server has drained, 1 if requests are still in progress or the command
was interrupted, 2 if it couldn't be asked.
";

const HELP: &[HelpPart<AdmWords>] = &[
    (
        INTRODUCTION,
        &[
            AdmWords::WORKDIR,
            AdmWords::ADDRESS,
            AdmWords::SECRET,
            AdmWords::flag("--wait <time>", "How long load balancers take to notice (default: 10s)"),
            AdmWords::flag("--limit <time>", "How long to wait for requests after that (default: 60s)"),
            AdmWords::switch("--stop", "Then stop the worker, as the command stop of varnishadm"),
            AdmWords::switch("--off", "Bring the server back into service instead"),
            Opt::HELP,
        ],
    ),
    (EPILOGUE, &[]),
];

pub const TOOL: AdmTool = Tool { column: 18, ..tool("lacquer drain", HELP) };

const DAY: Duration = Duration::from_secs(86400);
const LOOK: Duration = Duration::from_millis(200);
const WAY_BACK: &str = "the server stays out of service: lacquer drain --off brings it back";

struct DrainTimes {
    wait: Duration,
    limit: Duration,
}

enum DrainEnd {
    Drained(DrainState),
    Busy(DrainState),
    Interrupted,
}

pub fn main(args: &[String]) -> i32 {
    let words = match read(&TOOL, args, Some("no arguments are accepted; not")) {
        Ok(words) => words,
        Err(status) => return status,
    };
    let time = |flag, default| args::time(flag, words.last(flag).unwrap_or(default), Duration::ZERO..=DAY);
    let times = match (time("--wait", "10s"), time("--limit", "60s")) {
        (Ok(wait), Ok(limit)) => DrainTimes { wait, limit },
        (Err(reason), _) | (_, Err(reason)) => return TOOL.refuse(reason),
    };
    let (is_off, stops) = (words.last("--off").is_some(), words.last("--stop").is_some());
    if is_off && stops {
        return TOOL.refuse("either --off or --stop");
    }
    // A worker that stops may take as long as its requests.
    let config = Config { timeout: None, ..words.config() };
    let Some(mut connection) = config.connect() else { return 2 };
    match if is_off { bring_back(&mut connection) } else { take_out(&mut connection, &times, stops) } {
        Ok(status) => status,
        Err(reason) => {
            print::foreign_err(format_args!("lacquer drain: {}\n", reason.trim_end()));
            2
        }
    }
}

fn bring_back(connection: &mut AdminConnection) -> Result<i32, String> {
    connection.ask_for("drain -j off")?;
    print::out("the server is in service\n");
    Ok(0)
}

fn take_out(connection: &mut AdminConnection, times: &DrainTimes, stops: bool) -> Result<i32, String> {
    let mut signals = Signals::new(&[SIGINT, SIGTERM]).map_err(|e| e.to_string())?;
    let state = state(&connection.ask_for("drain -j on")?.text())?;
    print::out(format_args!("out of service: /readyz returns 503; {}\n", told(state)));
    match drained(connection, times, &mut signals)? {
        DrainEnd::Drained(state) => print::out(format_args!("drained: {}\n", told(state))),
        DrainEnd::Busy(state) => {
            print::err(format_args!("not drained: {}; {WAY_BACK}\n", told(state)));
            return Ok(1);
        }
        DrainEnd::Interrupted => {
            print::err(format_args!("interrupted; {WAY_BACK}\n"));
            return Ok(1);
        }
    }
    if stops {
        connection.ask_for("stop")?;
        print::out("stopped: varnishadm start starts the worker again\n");
    }
    Ok(0)
}

/// Waits for the balancers, then for the requests.
fn drained(connection: &mut AdminConnection, times: &DrainTimes, signals: &mut Signals) -> Result<DrainEnd, String> {
    let (begun, mut pause) = (clock::now(), times.wait);
    loop {
        if sys::fd::wait(signals.as_fd(), Interest::Read, Some(pause)).unwrap_or(false) {
            let _ = signals.take();
            return Ok(DrainEnd::Interrupted);
        }
        let state = state(&connection.ask_for("drain -j")?.text())?;
        if !state.is_on {
            return Err("another command has brought the server back into service".to_owned());
        }
        if state.requests == 0 {
            return Ok(DrainEnd::Drained(state));
        }
        if begun.elapsed() >= times.wait.saturating_add(times.limit) {
            return Ok(DrainEnd::Busy(state));
        }
        pause = LOOK;
    }
}

fn told(state: DrainState) -> String {
    let many = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    format!("{}, {} in progress", many(state.connections, "connection"), many(state.requests, "request"))
}

/// Reads `[ 2, ["drain", "-j"], time, {"drain": true, "connections": 3, "requests": 1} ]`.
fn state(reply: &str) -> Result<DrainState, String> {
    let read = || {
        let all: Value = serde_json::from_str(reply).ok()?;
        let number = |name: &str| all[3][name].as_u64();
        let (connections, requests) = (number("connections")?, number("requests")?);
        Some(DrainState { is_on: all[3]["drain"].as_bool()?, connections, requests })
    };
    read().ok_or_else(|| format!("the server's reply isn't understood: {reply}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_read_as_it_is_written() {
        let written = DrainState { is_on: true, connections: 3, requests: 1 };
        assert_eq!(state(&format!("[ 2, [\"drain\"], 1.5{}\n]\n", written.json())), Ok(written));
        assert_eq!(told(written), "3 connections, 1 request in progress");
        for bad in ["", "[]", "[ 2, [\"drain\"], 1.5,\n{\"drain\": 1}\n]"] {
            assert!(state(bad).is_err(), "{bad}");
        }
    }
}
