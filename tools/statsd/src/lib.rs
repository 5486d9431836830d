// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer statsd` and `lacquer munin`: a metrics server that takes node statsd's place, and a Munin plugin.

mod arith;
mod backend;
mod budget;
mod chars;
mod clock;
mod config;
mod date;
#[cfg(test)]
mod golden;
mod input;
mod line;
mod log;
mod management;
mod number;
mod run;
mod sample;
mod scrape;
mod server;
mod shard;
mod show;
mod store;
mod table;

/// Runs `lacquer statsd ARGS`; answers the exit code.
///
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> i32 {
    match args {
        [path] => match run::run(std::path::Path::new(path)) {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("lacquer statsd: {error}");
                1
            }
        },
        _ => 2,
    }
}

/// Runs `lacquer munin ARGS`; answers the exit code. `name` is what the program was started as: Munin's plugins are
/// links whose name ends in what they show (`lacquer_MAIN`).
pub fn munin(name: &str, args: &[String]) -> i32 {
    let _ = (name, args);
    todo!()
}
