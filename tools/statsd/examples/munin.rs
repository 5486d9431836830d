// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer munin` alone, for tests of this crate.

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    std::process::exit(lacquer_statsd::munin("lacquer", &args));
}
