// SPDX-License-Identifier: BSD-2-Clause
//! The other side of an upgrade: a manager of the state that the program before it left.
//!
//! The descriptors that the state names stay open beside the manager's own copies until the new worker serves: when it
//! can't, or anything else goes wrong or panics, the program of before takes over again, with the reason.

use std::fs::File;
use std::io::{Read, Seek};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use sys::process::Executable;
use sys::signal::{self, SIGHUP, SIGINT, SIGTERM, Signals};
use sys::sock::SocketName;

use super::state::UpgradeState;
use super::{FAILED, STATE, exec};
use crate::fatal::{Fatal, argument, errno_text};
use crate::jail::Jail;
use crate::manager::Manager;
use crate::memory::ManagerMemory;
use crate::options::{ManagerOptions, StartMode};
use crate::reply::CliReply;
use crate::report::{self, ReportSeverity, print};
use crate::usage::OWN_VERSION;

#[derive(Debug)]
pub struct Inherited {
    file: File,
    /// The other program failed, as this says.
    failed: Option<String>,
}

/// The state's file. Call it first of all, while the process has one thread.
pub fn inherited() -> Result<Option<Inherited>, Fatal> {
    let failed = sys::process::take_env(FAILED).map(|reason| reason.to_string_lossy().into_owned());
    let Some(number) = sys::process::take_env(STATE) else { return Ok(None) };
    let number = number.to_str().and_then(|number| number.parse().ok());
    let file = number.map(sys::fd::inherit);
    match file {
        Some(Ok(file)) => Ok(Some(Inherited { file: file.into(), failed })),
        Some(Err(_)) | None => {
            argument(format!("The variable {STATE} of the environment names no state of an upgrade"))
        }
    }
}

/// The arguments of varnishd among those of a command line: without `serve` of `lacquer serve`.
pub fn varnishd_args(args: &[String]) -> Vec<String> {
    match args {
        [first, rest @ ..] if first == "serve" => rest.to_vec(),
        all => all.to_vec(),
    }
}

/// Goes on where the program before this one was; the value is the exit status.
pub fn resume(options: &ManagerOptions, mut inherited: Inherited) -> Result<i32, Fatal> {
    report::configure(matches!(options.mode, StartMode::Debug | StartMode::Foreground), true);
    sys::syslog::open("varnishd");
    let mut bytes = Vec::new();
    let read = inherited.file.rewind().and_then(|()| inherited.file.read_to_end(&mut bytes));
    read.or_else(|e| argument(format!("Cannot read the state of the upgrade: {}", errno_text(&e))))?;
    let state = UpgradeState::read(&bytes).map_err(|e| Fatal::Argument(e.to_string()))?;
    let jail = match Jail::enter(options.jail.as_deref()) {
        Ok(jail) => Rc::new(jail),
        Err(fatal) => return Err(roll_back(&Jail::None, &state, &inherited, &fatal.to_string())),
    };
    let attempt =
        catch_unwind(AssertUnwindSafe(|| take_over(options, &state, jail.clone(), inherited.failed.is_some())));
    let reason = match attempt {
        Ok(Ok((manager, signals))) => {
            let mut manager = ManuallyDrop::into_inner(manager);
            manager.commit(&state, inherited);
            return Ok(manager.run(signals));
        }
        Ok(Err(reason)) => reason,
        Err(_) => "it panicked".to_owned(),
    };
    Err(roll_back(&jail, &state, &inherited, &reason))
}

/// Becomes the program of before again; what is said when even that fails.
fn roll_back(jail: &Jail, state: &UpgradeState, inherited: &Inherited, reason: &str) -> Fatal {
    print(ReportSeverity::Error, &format!("The upgrade failed: {reason}"));
    if inherited.failed.is_some() {
        return Fatal::Plain(2, format!("Neither program could take over: {reason}"));
    }
    // Its state names the same numbers, which are still open.
    let error = match sys::fd::duplicate_inherited(state.writer_file.0) {
        Ok(before) => jail.privileged(|| exec(&Executable::from(before), state, &inherited.file, Some(reason))),
        Err(error) => error,
    };
    Fatal::Plain(2, format!("The old program can't be started again: {}", errno_text(&error)))
}

type Resumed = (ManuallyDrop<Manager>, Signals);

/// A manager of the state, with a worker that serves: a new one, or after a failure the one that was there.
fn take_over(options: &ManagerOptions, state: &UpgradeState, jail: Rc<Jail>, failed: bool) -> Result<Resumed, String> {
    let mut manager = state.manager(options, jail)?;
    manager.params_changed();
    manager.publish_memory(&state.server.counters).map_err(|e| format!("shared memory: {}", errno_text(&e)))?;
    let _ = signal::ignore(SIGHUP);
    let signals = Signals::new(&[SIGTERM, SIGINT]).map_err(|e| format!("signals: {e}"))?;
    manager.use_kept_certificates();
    manager.take_workers(&state.workers, failed)?;
    Ok((manager, signals))
}

impl Manager {
    fn publish_memory(&mut self, counters: &[(String, u64)]) -> std::io::Result<()> {
        let mut memory = ManagerMemory::create_beside(&self.jail, &self.server.identity, self.params.compat())?;
        let mut lines = String::new();
        for socket in &self.cli.sockets {
            if let Ok(SocketName::Inet(bound)) = sys::sock::local_name(socket) {
                lines.push_str(&format!("{} {}\n", bound.ip(), bound.port()));
            }
        }
        if !lines.is_empty() {
            memory.publish("-T", &lines)?;
        }
        if let Some(path) = &self.cli.secret {
            memory.publish("-S", &path.to_string_lossy())?;
        }
        memory.set_values(counters);
        self.server.memory = Some(memory);
        Ok(())
    }

    /// There is no way back from here: the worker of before leaves, and who asked gets the answer.
    fn commit(&mut self, state: &UpgradeState, inherited: Inherited) {
        for fd in state.all_descriptors() {
            drop(sys::fd::inherit(fd));
        }
        let text = match (&inherited.failed, self.upgrade.is_taking_over) {
            (Some(reason), _) => format!("Not upgraded to {}: {reason}", state.upgrade.program.display()),
            (None, true) => self.dismiss_worker(&state.writer),
            (None, false) => format!("Upgraded from {} to {OWN_VERSION}; no worker runs.", state.writer),
        };
        let severity = if inherited.failed.is_some() { ReportSeverity::Error } else { ReportSeverity::Info };
        print(severity, &text);
        let reply = if inherited.failed.is_some() { CliReply::cant(text) } else { CliReply::ok(format!("{text}\n")) };
        self.upgrade.is_taking_over = false;
        self.limit_leaving();
        self.begin_acme();
        self.begin_watch();
        self.begin_rollout();
        if let Some(at) = state.cli.sessions.iter().position(|session| session.asks) {
            self.answer_session(at, reply);
        }
    }
}
