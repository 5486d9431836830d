// SPDX-License-Identifier: BSD-2-Clause
//! The manager process: arguments, sockets, CLI, parameters, VCL sources, the worker's life. Never touches traffic.
//!
//! One thread and one poll loop ([`events`]). VCL is checked in a process of its own ([`checker`]); the worker is another
//! one ([`life`], [`worker`]). [`serve`] is the way from a command line to the loop.

#![allow(clippy::disallowed_methods, reason = "beside the traffic: no simulation moves its time")]

mod access;
mod acme;
mod arenas;
mod certs;
pub mod checker;
mod clienttls;
mod clitcp;
mod commands;
mod companion;
mod deaths;
mod docs;
mod dying;
mod ended;
mod events;
mod fatal;
mod fleet;
pub mod handover;
mod jail;
mod journalfile;
mod life;
mod listen;
mod listening;
mod manager;
mod memory;
mod named;
pub mod naming;
mod options;
mod originkeys;
mod peers;
mod reply;
mod report;
pub mod rollout;
mod serve;
mod server;
mod session;
pub mod signer;
mod storage;
mod storefile;
mod storelist;
mod stores;
mod ticketkeys;
pub mod upgrade;
pub mod usage;
mod vcls;
pub mod watch;
mod workdir;
mod worker;

use fatal::Fatal;
use options::ManagerInvocation;
use tables::Compat;
use tables::vmods::Modules;

/// Runs varnishd's command line, `args` without the program's name, which `program` gives for messages. `modules` are
/// built in. Returns the exit status.
pub fn main(program: &str, args: &[String], modules: Modules) -> i32 {
    let request = options::parse(program, args).and_then(|request| match &request {
        ManagerInvocation::Serve(options) => check_extensions(&options.extensions, modules).map(|()| request),
        ManagerInvocation::Version(_) | ManagerInvocation::Print(..) => Ok(request),
    });
    match request.and_then(|request| run(program, request)) {
        Ok(status) => status,
        Err(fatal) => {
            let text = fatal.to_string();
            if !text.is_empty() {
                report::stderr(&text);
            }
            if matches!(fatal, Fatal::Option(_)) {
                report::stdout(&usage::usage(program));
            }
            fatal.status()
        }
    }
}

/// Checks `-E NAME`, which loads an extension in release 7.2 and later: a module that is built in needs no loading.
fn check_extensions(names: &[String], modules: Modules) -> Result<(), Fatal> {
    names.iter().try_for_each(|name| match modules.extension(name) {
        Ok(_) => Ok(()),
        Err(reason) => fatal::argument(format!("-E: {reason}")),
    })
}

fn run(program: &str, request: ManagerInvocation) -> Result<i32, Fatal> {
    match request {
        ManagerInvocation::Version(option) => {
            report::stderr(usage::version_text(program, compat(option)?).trim_end());
            Ok(0)
        }
        ManagerInvocation::Print(kind, option) => print(&kind, compat(option)?),
        ManagerInvocation::Serve(options) => {
            // Whatever name it was started by: what monitoring looks for.
            let _ = sys::limits::set_thread_name("varnishd");
            serve::serve(&options)
        }
    }
}

/// The release that the option or the file of the packages chooses.
fn compat(option: Option<Compat>) -> Result<Compat, Fatal> {
    Compat::chosen(option).map_err(Fatal::Argument)
}

fn print(kind: &str, compat: Compat) -> Result<i32, Fatal> {
    let text = match kind {
        "parameter" => params::rst(compat),
        "vsl" => docs::log_records(),
        "cli" => docs::commands(),
        "builtin" => format!("{}\n", vcl::builtin(compat)),
        "optstring" => format!("{}\n", options::OPTSTRING),
        _ => return fatal::argument("Invalid -x argument"),
    };
    report::stdout(&text);
    Ok(0)
}
