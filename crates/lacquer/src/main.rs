// SPDX-License-Identifier: BSD-2-Clause
//! The one binary: `lacquer serve|…`; started as `varnishd` it is that program.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod commands;
mod man;
mod modules;

use std::ffi::OsString;
use std::path::Path;

use toolkit::print;

/// Counts what the heap's users hold; with debug assertions, how often they ask.
struct AllocationCounter;

impl sys::alloc::HeapListener for AllocationCounter {
    #[inline(always)]
    fn allocation() {
        base::costs::allocation();
    }

    #[inline(always)]
    fn changed(bytes: isize) {
        sys::memory::heap_changed(bytes);
    }
}

#[global_allocator]
static ALLOCATOR: sys::alloc::ListeningAllocator<sys::alloc::Mimalloc, AllocationCounter> =
    sys::alloc::ListeningAllocator::new(sys::alloc::Mimalloc);

fn main() {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_else(|| OsString::from("lacquer"));
    let name = Path::new(&name).file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let args: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    std::process::exit(match manager::handover::socket() {
        Some(socket) => worker::main(&socket, worker::Vmods { signatures: modules::MODULES, code: modules::ALL }),
        None => run(&name, &args),
    });
}

fn run(name: &str, args: &[String]) -> i32 {
    match name {
        manager::checker::PROGRAM => manager::checker::run_child(modules::MODULES),
        manager::naming::PROGRAM => manager::naming::run_child(),
        manager::signer::PROGRAM => manager::signer::run_child(),
        acme::process::PROGRAM => acme::process::run(),
        manager::rollout::PROGRAM => rollout_agent::run(args),
        manager::watch::PROGRAM => lacquer_watch::main(args, lacquer_doctor::findings),
        manager::upgrade::PROGRAM => manager::upgrade::run_trial(modules::MODULES),
        _ if let Some(command) = commands::of_program(name) => {
            let status = (command.run)(name, args);
            if let Some(text) = commands::other_name(name).filter(|_| commands::asks_help(args)) {
                print::out(text);
            }
            status
        }
        // Munin's plugins are links whose name ends in what they show.
        _ if name.starts_with("lacquer_") || name.starts_with("statsd_") => lacquer_statsd::munin(name, args),
        "lacquer" => lacquer(args),
        _ if commands::is_later(name) => commands::refuse(name),
        _ => lacquer(args),
    }
}

fn lacquer(args: &[String]) -> i32 {
    match args.first().map(String::as_str) {
        Some("--version" | "-V" | "version") => {
            let versions = tables::Compat::ALL.map(tables::Compat::version).join(" or ");
            print::out(format_args!("{} (compatible with {versions})\n", manager::usage::OWN_VERSION));
            0
        }
        Some("--help" | "-h" | "-?") => commands::help(&args[1..]),
        Some(name) => match commands::find(name) {
            Some(command) => (command.run)(&format!("lacquer {}", command.name), &args[1..]),
            None if commands::is_later(name) => commands::refuse(&format!("lacquer {name}")),
            None => commands::unknown(name),
        },
        None => {
            print::err(commands::FIRST);
            2
        }
    }
}
