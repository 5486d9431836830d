// SPDX-License-Identifier: BSD-2-Clause
//! The agent: a process beside the manager that does what is rolled out to its group. The manager starts it and ends it; it has no file and
//! no listener, reads the group's document from the fleet's board, and has the manager load and use what that says, by a CLI of its own.
//!
//! ```text
//! own, confirmed ── a trial names us ──▶ ready ── and wants us to use it ──▶ active ── it is confirmed ──▶ confirmed
//!        ▲                                 │ failed                             │
//!        └───────── the trial ends otherwise, or nobody tends it: back ◀────────┘
//! ```
//!
//! The log's server can hang or be away: then nothing is rolled out, and a trial that this node takes part in ends by itself. So it does when this
//! process dies in it: what was in use before is kept by the manager, and the next agent goes on from there (`trial::Inside`). Traffic never waits
//! for any of it, but for the first worker of all, which the manager holds back for a bounded time.

mod agent;
mod manager;
mod trial;

use std::fs;
use std::os::fd::OwnedFd;
use std::time::Duration;

use cli::CliDecoder;
use fleet::{FleetSettings, NodeRole};
use toolkit::print;

use agent::Agent;
use manager::ManagerCli;

/// Between two looks at the document.
const PACE: Duration = Duration::from_millis(300);

/// Runs it, started by the manager: the exit status.
pub fn run(args: &[String]) -> i32 {
    match begin(args) {
        Ok(mut agent) => {
            agent.serve();
            0
        }
        Err(reason) => {
            say(&reason);
            1
        }
    }
}

fn say(text: &str) {
    print::foreign(format_args!("rollout: {}\n", text.trim_end().replace('\n', " | ")));
}

fn begin(args: &[String]) -> Result<Agent, String> {
    let value =
        |flag: &str| args.iter().find_map(|arg| arg.strip_prefix(flag)).ok_or("it is started by the manager only");
    let bytes = fs::read(value("--settings=")?).map_err(|error| format!("settings: {error}"))?;
    let mut decoder = CliDecoder::trusted();
    decoder.feed(&bytes);
    let request = decoder.next_request().and_then(Result::ok).ok_or("no settings")?;
    let text =
        |at: usize| request.words.get(at).map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default();
    let mut settings = FleetSettings::parse(&text(1))?;
    if settings.node.is_empty() {
        settings.node = text(2);
    }
    for pair in request.words.get(3..).unwrap_or_default().chunks_exact(2) {
        let role = NodeRole::ALL.into_iter().find(|(name, _)| name.as_bytes() == pair[0]).map(|(_, role)| role);
        settings.provide(role.ok_or("a file of no role")?, &pair[1])?;
    }
    let number = value("--cli-channel=")?.parse().map_err(|_| "no channel")?;
    let socket: OwnedFd = sys::fd::inherit(number).map_err(|error| format!("the CLI's channel: {error}"))?;
    let connect = fleet::connector(&settings)?;
    Ok(Agent::new(settings, connect, ManagerCli::new(socket)?))
}

/// The reason why a step failed.
enum Wrong {
    Manager,
    /// The log's server is away.
    Server(String),
}
