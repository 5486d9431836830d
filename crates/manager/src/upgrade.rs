// SPDX-License-Identifier: BSD-2-Clause
//! `upgrade`: the program that is installed now takes over, in this same process, without a pause.
//!
//! ```text
//! this program                                   the installed one
//! state::State of everything ──────────────────▶ trial: reads it, compiles every VCL        (a short-lived process)
//!   refused: the answer says why, nothing changed
//! exec: same pid, sockets, pid files, CLI ─────▶ resume: a manager of that state
//!                                                  starts a worker beside the present one, waits for its probes
//!   (exec again, with the reason) ◀── failed ────  answers the CLI, has the old worker drain
//! ```

pub(crate) mod carried;
mod health;
mod leaving;
mod relay;
pub(crate) mod resume;
pub(crate) mod state;
mod trial;
mod workers;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use base::clock::Mono;
use cli::record;
use cli::record::Fd;
use sys::process::Executable;

use crate::checker::Checker;
use crate::dying::LONGEST_DYING;
use crate::fatal::errno_text;
use crate::manager::Manager;
use crate::naming;
use crate::reply::CliReply;
use crate::report::{ReportSeverity, print};
use crate::worker::WorkerState::Running;
use carried::{Carried, Successor, copy};
use leaving::Leaving;
pub(crate) use relay::RelayEnds;
use state::UpgradeState;
pub use trial::{PROGRAM, run_trial};

/// The variable that tells a program that it takes over: the number of the state's descriptor.
const STATE: &str = "LACQUER_UPGRADE";
/// The variable that gives the program of before the reason why the other one failed.
const FAILED: &str = "LACQUER_UPGRADE_FAILED";

#[derive(Debug, Default)]
pub struct Upgrade {
    pub program: PathBuf,
    pub leaving: Vec<Leaving>,
    /// True if the worker that starts is to take the place of the last one of `leaving`.
    pub is_taking_over: bool,
    pub hands_over: bool,
    /// Socket from the present worker to its successor: the end that the successor will get.
    pub relay: Option<OwnedFd>,
}

record! {
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub(crate) struct UpgradeRecord {
        one "program" pub program: PathBuf,
        maybe "relay" pub relay: Option<Fd>,
    }
}

impl Carried for Upgrade {
    type Record = UpgradeRecord;

    fn save(&self, _: Mono) -> UpgradeRecord {
        UpgradeRecord { program: self.program.clone(), relay: self.relay.as_ref().map(Fd::of) }
    }

    /// Workers are taken later.
    fn restore(record: &UpgradeRecord, _: &Successor<'_>) -> Result<Upgrade, String> {
        let relay = record.relay.map(copy).transpose()?;
        Ok(Upgrade { program: record.program.clone(), relay, ..Upgrade::default() })
    }
}

/// Path that this process was started by, for when another program lies there: as it was called, not where links lead
/// to today. Call it before the directory is changed.
pub fn program_path() -> PathBuf {
    let own = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let called = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let places: Vec<PathBuf> = match called.components().count() {
        1 => {
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).map(|dir| dir.join(&called)).collect()
        }
        _ => vec![called],
    };
    let is_own = |place: &PathBuf| std::fs::canonicalize(place).is_ok_and(|file| file == own);
    let found = places.into_iter().find(is_own).and_then(|place| std::path::absolute(place).ok());
    found.unwrap_or(own)
}

impl Manager {
    /// Upgrades for the CLI session `at`. Comes back only with the reason why that can't be: else the next program answers.
    pub(crate) fn upgrade(&mut self, at: usize) -> CliReply {
        let program = self.upgrade.program.clone();
        match self.try_upgrade(at, &program) {
            Err(reason) => {
                let text = format!("Not upgraded to {}: {reason}", program.display());
                print(ReportSeverity::Error, &text);
                CliReply::cant(text)
            }
            Ok(never) => match never {},
        }
    }

    fn try_upgrade(&mut self, at: usize, program: &Path) -> Result<std::convert::Infallible, String> {
        // What a worker has on disks it gives to a successor that it can talk to.
        if self.worker.state == Running && self.upgrade.relay.is_none() && !self.storage.files.is_empty() {
            return Err("the worker has handed its stores over before, to one that failed: restart instead".to_owned());
        }
        if self.fleet.trial.is_on() {
            return Err("a VCL is being rolled out and on trial here: upgrade when that is over".to_owned());
        }
        let said = |e: io::Error| errno_text(&e);
        let next = self.jail.privileged(|| Executable::open(program)).map_err(said)?;
        // How they ended is known to this program alone.
        self.bury_dying(LONGEST_DYING);
        self.finish_naming(naming::PATIENCE);
        let (state, _held) = self.capture(at)?;
        let text = state.text();
        let next_version = trial::run(Checker { exe: &next, jail: &self.jail }, &text)?;
        print(ReportSeverity::Info, &format!("Upgrade from {} to {next_version}", state.writer));
        let file = state_file(&text).map_err(said)?;
        self.end_acme();
        self.end_watch();
        self.end_rollout();
        let failed = self.jail.privileged(|| exec(&next, &state, &file, None)).to_string();
        self.begin_acme();
        self.begin_watch();
        self.begin_rollout();
        Err(failed)
    }
}

/// The state as a file that the next program reads.
fn state_file(text: &[u8]) -> io::Result<File> {
    let mut file = sys::fd::memfd("lacquer upgrade")?;
    file.write_all(text)?;
    Ok(file)
}

/// Becomes another program with this state. On failure everything is as before.
fn exec(program: &Executable, state: &UpgradeState, file: &File, failed: Option<&str>) -> io::Error {
    let mut all = state.all_descriptors();
    all.insert(file.as_raw_fd());
    let passed = all.iter().try_for_each(|fd| sys::fd::set_number_inheritable(*fd, true));
    let error = match passed {
        Err(error) => error,
        Ok(()) => {
            let number = file.as_raw_fd().to_string();
            let mut env = vec![(STATE, number.as_str())];
            env.extend(failed.map(|reason| (FAILED, reason)));
            program.replace_this_program(&state.args, &env)
        }
    };
    for fd in all {
        let _ = sys::fd::set_number_inheritable(fd, false);
    }
    error
}
