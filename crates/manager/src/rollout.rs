// SPDX-License-Identifier: BSD-2-Clause
//! What takes part in roll-outs, where `--fleet` says `deploy=on`: a process of this program (the *agent*), which speaks with the log's server and
//! has this manager load and use what is rolled out, over a CLI channel of its own. It reads what comes over the network, so it is the checker's
//! user and may give a few commands only. The manager starts it before the first worker, so that a node that comes late serves with what its
//! group runs; it waits for that no longer than the fleet's setting `wait`. When it dies the next one begins, and is told what that was in the midst of
//! (`fleet.kept`); nothing else ends by that.

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use cli::CliRequest;
use cli::handoff::FleetStart;
use fleet::FleetSettings;
use sys::process::Spawn;
use sys::signal::Signals;

use crate::companion::{Companion, CompanionProcess};
use crate::jail::JailRole;
use crate::manager::Manager;
use crate::reply::{CliReply, CliStatus};
use crate::report::{ReportSeverity, print};
use crate::session::CliSessionKind;

/// The program name under which this executable is the agent.
pub const PROGRAM: &str = "lacquer-rollout";

/// Longest pause between a death and the next agent.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The longest state that is kept for it, in bytes.
const KEPT: usize = 256 << 10;

pub(crate) fn agent() -> Companion {
    Companion::new("rollout", LONGEST_PAUSE)
}

/// The trial that this node takes part in, and what was in use before, in the agent's own words: for the next agent, if that one dies.
#[derive(Debug, Default)]
pub(crate) struct NodeTrial {
    kept: Vec<u8>,
}

impl NodeTrial {
    pub fn is_on(&self) -> bool {
        !self.kept.is_empty()
    }
}

pub(crate) fn is_allowed(request: &CliRequest) -> bool {
    const COMMANDS: [&str; 12] = [
        "ping",
        "start",
        "vcl.list",
        "vcl.use",
        "vcl.discard",
        "fleet.kept",
        "fleet.load",
        "fleet.deployed",
        "param.show",
        "param.set",
        "param.reset",
        "backend.list",
    ];
    COMMANDS.contains(&request.name())
}

impl Manager {
    /// The fleet's setting `wait`, if this node takes part in roll-outs.
    fn rollout_wait(&self) -> Option<Duration> {
        let settings = FleetSettings::parse(&self.fleet.start.as_ref()?.spec).ok()?;
        settings.deploys.then_some(settings.wait)
    }

    pub(crate) fn begin_rollout(&mut self) {
        if !self.fleet.agent.takes_turn() || self.rollout_wait().is_none() {
            return;
        }
        let Some(fleet) = self.fleet.start.clone() else { return };
        let process = self.try_begin_rollout(&fleet);
        let now = self.now();
        self.fleet.agent.begin_with(process, now);
    }

    fn try_begin_rollout(&mut self, fleet: &FleetStart) -> io::Result<CompanionProcess> {
        let mut words =
            vec![b"fleet".to_vec(), fleet.spec.clone().into_bytes(), self.server.identity.clone().into_bytes()];
        for (role, contents) in &fleet.files {
            words.extend([role.clone().into_bytes(), contents.clone()]);
        }
        let mut settings = sys::fd::memfd("lacquer rollout")?;
        settings.write_all(&cli::client::encode(&words))?;
        let (said, its_output) = sys::fd::pipe()?;
        let (end, its_end) = sys::fd::socket_pair()?;
        let spawn = Spawn::new(&self.server.exe, PROGRAM)?
            .arg(format!("--settings=/proc/self/fd/{}", settings.as_raw_fd()))?
            .arg(format!("--cli-channel={}", its_end.as_raw_fd()))?
            .standard(1, its_output.as_fd())
            .standard(2, its_output.as_fd())
            .keep(settings.as_fd())
            .keep(its_end.as_fd())
            .credentials(self.jail.credentials(JailRole::Checker))
            .no_core()
            .new_group();
        let child = self.jail.privileged(|| spawn.start())?;
        self.open_session(CliSessionKind::Rollout, "rollout".into(), end, None);
        Ok(CompanionProcess::new(child, said, None, self.now()))
    }

    /// Waits before the first worker, until the agent has had it started with the group's program, or the time is up.
    /// True to stop the manager.
    pub(crate) fn await_rollout(&mut self, signals: &mut Signals) -> bool {
        let Some(wait) = self.rollout_wait() else { return false };
        self.begin_rollout();
        let until = self.now() + wait;
        while self.worker.pid().is_none() && self.fleet.agent.is_running() {
            if until <= self.now() {
                print(
                    ReportSeverity::Info,
                    "rollout: the release of this group can't be determined in time: starting without it",
                );
                break;
            }
            self.fleet.wait_until = Some(until);
            if self.turn(signals) {
                return true;
            }
        }
        self.fleet.wait_until = None;
        false
    }

    pub(crate) fn fleet_kept(&mut self, state: Option<&Vec<u8>>) -> CliReply {
        match state {
            None => CliReply { status: CliStatus::Ok, body: self.fleet.trial.kept.clone() },
            Some(state) if state.len() > KEPT => CliReply::new(CliStatus::Param, "that is more than is kept"),
            Some(state) => {
                self.fleet.trial.kept.clone_from(state);
                CliReply::ok("")
            }
        }
    }

    pub(crate) fn end_rollout(&mut self) {
        self.fleet.agent.end(&self.jail);
    }

    /// Takes what it says, and notices its end.
    pub(crate) fn tend_rollout(&mut self) {
        let now = self.now();
        self.fleet.agent.tend(&self.jail, now, None);
    }
}
