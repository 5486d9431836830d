// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer statsd` alone, for tests and benchmarks of this crate.

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    std::process::exit(lacquer_statsd::main(&args));
}
