// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer watch` alone, for measurements of it (bench/watch.py).

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    std::process::exit(lacquer_watch::main(&args, |_, _, _, _, _| serde_json::Value::Null));
}
