// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer statsd` and `lacquer munin`: a metrics server that takes node statsd's place, and a Munin plugin.
//!
//! A packet's way: `input` receives it, `line` takes it apart, `shard` adds it up without a lock of its own. The main
//! thread (`run`, `server`) collects the shards into the `store`; at a flush `arith` works timers out and `backend` sends.

mod accept;
mod args;
mod arith;
mod backend;
mod budget;
mod chars;
mod clock;
mod config;
mod date;
mod export;
#[cfg(test)]
mod golden;
mod input;
pub mod line;
mod log;
mod management;
mod munin;
mod number;
mod run;
mod sample;
mod scrape;
mod server;
mod shard;
mod show;
mod store;
mod table;

use std::path::Path;

pub use munin::TOOL as MUNIN;

use args::StatsdCommand;
use toolkit::print;

/// Runs `lacquer statsd ARGS`; answers the exit code.
///
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> i32 {
    let outcome = match args::parse(args) {
        Ok(StatsdCommand::Help) => {
            print::out(args::HELP);
            Ok(())
        }
        Ok(StatsdCommand::Serve(path)) => run::run(&path).map_err(|error| error.to_string()),
        Ok(StatsdCommand::Check(path)) => check(&path),
        Ok(StatsdCommand::Export(export)) => export::run(&export).map_err(|error| error.to_string()),
        Err(reason) => {
            print::err(format_args!("lacquer statsd: {reason}\n{}", args::HELP));
            return 2;
        }
    };
    match outcome {
        Ok(()) => 0,
        Err(reason) => {
            print::err(format_args!("lacquer statsd: {reason}\n"));
            1
        }
    }
}

/// Runs `lacquer munin ARGS`; answers the exit code. `name` is what the program was started as: Munin's plugins are
/// links whose name ends in what they show (`lacquer_MAIN`, `statsd_site`).
pub fn munin(name: &str, args: &[String]) -> i32 {
    munin::main(name, args)
}

fn check(path: &Path) -> Result<(), String> {
    let config = config::StatsdConfig::load(path).map_err(|error| error.to_string())?;
    print::out(format_args!(
        "{}: the configuration is good ({:?} dialect, backends {:?})\n",
        path.display(),
        config.dialect,
        config.backends
    ));
    Ok(())
}
