// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer statsd` and `lacquer munin`: a metrics server that takes node statsd's place, and a Munin plugin.

mod arith;
mod budget;
mod chars;
mod line;
mod number;
mod sample;
mod shard;
mod store;
mod table;

/// Runs `lacquer statsd ARGS`; answers the exit code.
///
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> i32 {
    let _ = args;
    todo!()
}

/// Runs `lacquer munin ARGS`; answers the exit code. `name` is what the program was started as: Munin's plugins are
/// links whose name ends in what they show (`lacquer_MAIN`).
pub fn munin(name: &str, args: &[String]) -> i32 {
    let _ = (name, args);
    todo!()
}
