// SPDX-License-Identifier: BSD-2-Clause
//! The simulator: a worker's engine, cache, stores and backends in one process without sockets, threads or a wall clock, with
//! scripted clients before the real fronts of HTTP/1 and HTTP/3 and scripted origins behind the real HTTP/1 client.
//!
//! A seed decides what clients and origins draw from a scenario and which ready task goes on next ([`rt::sim`]); time stands
//! still while anything can be done and then jumps. After each step stores keep to their limits, now and then the whole cache is
//! looked at (`cache::Cache::audit`), and when all is quiet nothing may be left: no request, no fetch, no parked waiter, no
//! byte that no object holds, no transaction without its End. What clients and origins saw is judged by `model`: what a
//! cache may answer. A history that fails is made as short as it can be, and printed with its seed.
//!
//! ```text
//! cargo run -p sim -- draw 500 [SCENARIO...]     so many histories of each scenario
//! cargo run -p sim -- again SCENARIO SEED        one of them again, with all that happened
//! cargo run -p sim -- soak 3600                  new seeds for so many seconds
//! cargo run -p sim -- faults 2000                is each planted fault found
//! cargo run -p sim -- rfc9111 4000               so many exchanges against the model of RFC 9111
//! cargo run -p sim -- fleet 1000                 so many histories of a fleet (`fleet`); `fleet again SEED`: one of them
//! ```
//! Over QUIC a seed gives the same plan and the same draws of the network, but TLS draws keys of its own: not each datagram is the same again.
//! `tests/sim/run.py` is the suite. What isn't simulated: threads (all tasks take turns on one; locks are never
//! contended), the operating system's sockets, the manager.
//!
//! # A scenario
//!
//! `scenarios/NAME.sim`; its name says what holds. Times are `2s`, `150ms`; `A..B` is drawn between both; words divided by `|`
//! are drawn from, `-` is none of them.
//!
//! ```text
//! store 1m                          the store's size (64m)
//! grace 2s / keep 5s                default_grace, default_keep (0)
//! param NAME VALUE
//! within 3s                         every answer takes at most so long
//! serialised /a                     one fetch of it at a time (and one more for each invalidation)
//! quic 80ms..150ms lost one in 20 doubled one in 100
//!                                   clients speak HTTP/3, and this becomes of each datagram: how long it takes, and so who overtakes whom
//! vcl {                             VCL behind `backend default`, indented, up to a line `}`
//! }
//! origin /a                         what the origin answers:
//!     status 200                    delay 0..2s (before the head)       lines 1..100 (of 32 bytes)
//!     pieces 1..4 pause 0..300ms    framing length|chunked|eof          header NAME VALUE
//!     ttl 2s (max-age)              private (Cache-Control: private)    vary FIELD
//!     etag 5s (304 for so long)     includes /f1 /f2 (an ESI page)      cut|refuse|fail one in 4
//! client 3                          so many clients, each of which does, one after the other:
//!     wait 0..2s
//!     get|head|post|purge|ban /a|/b
//!         header NAME x|y           range 0..100 200..300               body 0..100 (lines)
//!         pieces 1..4 pause 0..1s   cut one in 4 (the body)             slow 1000..5000 pause 0..1s (reads)
//!         framing length|chunked    gone one in 2 after 1ms..2s
//!         dropped one in 2 after 1ms..2s (its session's task, where it waits)
//! ```
//! PURGE and BAN are what the scenario's VCL makes of them. A fault to be found is a line in `faults`, and a place in the code
//! that asks [`base::failpoint::fault`].

#![allow(clippy::disallowed_methods, reason = "measures how long a simulation takes")]

#[cfg(not(debug_assertions))]
compile_error!("planted faults, audits and simulated time need debug assertions: build in the profile dev or soak");

mod client;
mod dice;
mod faults;
mod fleet;
mod history;
mod logbook;
mod model;
mod origin;
mod plan;
mod quic;
mod rfc9111;
mod run;
mod script;
mod text;
mod wire;
mod world;

use std::ops::Range;
use std::path::Path;

pub use faults::{FAULTS, PlantedFault};
pub use fleet::{FleetTally, again as again_fleet, draw_fleets};
pub use rfc9111::{EXCHANGES, draw_exchanges};
use run::{RunDraw, RunFailure};
use script::SimScenario;
use testkit_engine::Ground;

pub fn scenarios() -> Vec<String> {
    let files = std::fs::read_dir(directory()).expect("the scenarios lie beside the sources");
    let names =
        files.filter_map(|file| Some(file.ok()?.file_name().into_string().ok()?.strip_suffix(".sim")?.to_owned()));
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

fn directory() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

fn scenario(name: &str) -> Result<SimScenario, String> {
    let path = directory().join(format!("{name}.sim"));
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    SimScenario::parse(name, &text).map_err(|error| format!("{}:{}: {}", path.display(), error.line, error.what))
}

/// Draws a history of a scenario for each seed; the first that fails ends it.
///
/// # Errors
/// The failure as text: what was found, the plan, the history.
pub fn draw(name: &str, seeds: Range<u64>) -> Result<(), String> {
    let scenario = scenario(name)?;
    let mut ground = Ground::new();
    for seed in seeds {
        if seed % 1000 == 999 {
            ground = Ground::new();
        }
        run::history(&ground, &scenario, RunDraw { seed, fault: None })
            .map_err(|failure: Box<RunFailure>| failure.to_string())?;
    }
    Ok(())
}

/// One history as text, whatever came of it.
///
/// # Errors
/// The failure, shortened.
pub fn again(name: &str, seed: u64) -> Result<String, String> {
    let scenario = scenario(name)?;
    run::shown(&Ground::new(), &scenario, RunDraw { seed, fault: None })
        .map_err(|failure: Box<RunFailure>| failure.to_string())
}

#[derive(Clone, Debug)]
pub struct FoundFault {
    /// The first history that shows it.
    pub seed: u64,
    pub said: String,
}

/// Plants a fault and draws histories of its scenario until one fails, at most so many.
///
/// # Panics
/// The scenario can't be read.
pub fn find(fault: &PlantedFault, most: u64) -> Option<FoundFault> {
    match fault.scenario {
        faults::RFC9111 => return rfc9111::find(fault.name, most),
        faults::FLEET => return fleet::find(fault.name, most),
        _ => {}
    }
    let scenario = scenario(fault.scenario).unwrap_or_else(|error| panic!("{error}"));
    let ground = Ground::new();
    (0..most).find_map(|seed| {
        let failure = run::history(&ground, &scenario, RunDraw { seed, fault: Some(fault.name) }).err()?;
        Some(FoundFault { seed, said: format!("{}: {}", failure.finding.check, failure.finding.what) })
    })
}
