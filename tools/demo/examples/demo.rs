// SPDX-License-Identifier: BSD-2-Clause
//! The demo as a program of its own, for trying it in front of another varnishd: `--example demo -- --varnishd PATH`.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(lacquer_demo::main(&std::env::args().skip(1).collect::<Vec<_>>()) as u8)
}
