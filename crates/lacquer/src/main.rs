// SPDX-License-Identifier: BSD-2-Clause
//! The one binary: `lacquer serve|…`; started as `varnishd` it is that program.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod man;

use std::ffi::OsString;
use std::path::Path;

use base::say;

/// In builds that count.
struct Counted;

impl sys::alloc::Listener for Counted {
    #[inline(always)]
    fn allocation() {
        base::costs::allocation();
    }
}

#[global_allocator]
static ALLOCATOR: sys::alloc::Heard<sys::alloc::Mimalloc, Counted> = sys::alloc::Heard::new(sys::alloc::Mimalloc);

/// What runs a tool: its name as started, its arguments; the result is the exit status.
type ToolMain = fn(&str, &[String]) -> i32;

/// Tools for operators: the name, the command.
const TOOLS: &[(&str, &str, ToolMain)] = &[
    ("varnishlog", "log", lacquer_log::main),
    ("varnishncsa", "ncsa", lacquer_ncsa::main),
    ("varnishstat", "stat", lacquer_stat::main),
    ("varnishtop", "top", lacquer_top::main),
    ("varnishhist", "hist", lacquer_hist::main),
    ("varnishadm", "adm", lacquer_adm::main),
];

/// Programs that will be part of this binary and aren't yet: the name, the command.
const LATER: &[(&str, &str)] = &[("varnishtest", "test")];

const HELP: &str = "\
Usage: lacquer <command> [options]

  serve      the accelerator, with varnishd's options (serve -? lists them)
  demo       a built-in origin behind the cache, to see it at work
  log        show the log, as varnishlog does
  ncsa       a line per request, as varnishncsa does
  stat       the counters, as varnishstat does
  top        the log's commonest entries, as varnishtop does; with --by, who asks most
  hist       how times and sizes are distributed, as varnishhist does
  adm        commands to a running server, as varnishadm does
  explain    would this URL be a hit, and if not, why (explain --help)
  statsd     a metrics server in the place of node's statsd (statsd --help)
  munin      a Munin plugin for the counters of either (munin --help)
  vcl        checks VCL files, shows what they compile to
  man        the manuals (man PAGE | man -d DIR writes all, in roff)
  help       this text
  --version  who this is

Started under the name varnishd it is `lacquer serve`.
";

fn main() {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_else(|| OsString::from("lacquer"));
    let name = Path::new(&name).file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let args: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    std::process::exit(run(&name, &args));
}

fn run(name: &str, args: &[String]) -> i32 {
    match name {
        manager::checker::PROGRAM => manager::checker::run_child(),
        manager::handover::PROGRAM => worker::main(args),
        "varnishd" => manager::main("varnishd", args),
        _ if let Some((_, _, tool)) = TOOLS.iter().find(|(program, ..)| *program == name) => tool(name, args),
        _ if LATER.iter().any(|(program, _)| *program == name) => refuse(name),
        // Munin's plugins are links whose name ends in what they show.
        _ if name.starts_with("lacquer_") || name.starts_with("statsd_") => statsd::munin(name, args),
        _ => lacquer(args),
    }
}

fn lacquer(args: &[String]) -> i32 {
    match args.first().map(String::as_str) {
        // varnishd has no long options: this one is lacquer's.
        Some("serve") if args[1..] == ["--help"] => manager::main("lacquer serve", &["-?".to_owned()]),
        Some("serve") => manager::main("lacquer serve", &args[1..]),
        Some("demo") => demo(&args[1..]),
        // The one of vcl's commands that asks a running server.
        Some("vcl") if args.get(1).is_some_and(|word| word == "profile") => lacquer_adm::profile::main(&args[2..]),
        Some("vcl") => vcltool::main(&args[1..], &|path| Box::new(manager::checker::DiskSources::new(path))),
        Some("statsd") => statsd::main(&args[1..]),
        Some("explain") => lacquer_adm::explain::main(&args[1..]),
        Some("munin") => statsd::munin("lacquer", &args[1..]),
        Some("man") => man::main(&args[1..]),
        Some("--version" | "-V" | "version") => {
            say::out(format_args!(
                "{} (compatible with {})\n",
                manager::usage::OWN_VERSION,
                manager::usage::COMPATIBLE_VERSION
            ));
            0
        }
        Some("help" | "--help" | "-h" | "-?") => {
            say::out(HELP);
            0
        }
        Some(command) if let Some((_, _, tool)) = TOOLS.iter().find(|(_, tool, _)| *tool == command) => {
            tool(&format!("lacquer {command}"), &args[1..])
        }
        Some(command) if LATER.iter().any(|(_, later)| *later == command) => refuse(&format!("lacquer {command}")),
        Some(other) => {
            say::err(format_args!("lacquer: no command {other:?}\n{HELP}"));
            2
        }
        None => {
            say::err(HELP);
            2
        }
    }
}

fn demo(args: &[String]) -> i32 {
    // The process ends with the demo: its code is the only thing left to say.
    if demo::main(args) == std::process::ExitCode::SUCCESS { 0 } else { 1 }
}

fn refuse(what: &str) -> i32 {
    say::err(format_args!("{what} isn't built yet; Varnish's own tools work with this server\n"));
    2
}
