// SPDX-License-Identifier: BSD-2-Clause
//! `tls.cert.commit` and `tls.cert.reload` where there are many certificates. Files are read a little at a time, between what else the
//! manager has to do, and a thread puts the bundle together. The CLI session that asked hears at the end how it went; what changes
//! certificates has its turn then.
//!
//! ```text
//! a reload:  Reading ─▶ Making ─▶ the answer
//! a commit:             Making ─▶ the answer
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use base::clock::Mono;
use tables::cli_cmds::ManagerCommand;
use tls::tickets::TicketKey;

use super::draft::CertsDraft;
use super::watch::MANY;
use super::{BundleCandidate, Certs, Rereading};
use crate::fatal::errno_text;
use crate::manager::Manager;
use crate::reply::CliReply;

const LONGEST_STEP: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub struct Work {
    command: Command,
    stage: Stage,
}

#[derive(Debug)]
enum Command {
    Commit,
    /// Reloads all; holds the keys read from the file of keys for tickets.
    Reload(Option<Vec<TicketKey>>),
}

#[derive(Debug)]
enum Stage {
    Reading(Rereading),
    Making(Making),
    Failed(String),
}

#[derive(Debug)]
struct Making {
    draft: CertsDraft,
    made: Receiver<Result<BundleCandidate, String>>,
    /// Hangs up when the bundle is made.
    done: OwnedFd,
}

impl Certs {
    pub fn is_at_work(&self) -> bool {
        self.work.is_some()
    }

    /// The descriptor that hangs up once there is something to do.
    pub fn work_descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.work.as_ref()?.stage {
            Stage::Making(making) => Some(making.done.as_fd()),
            Stage::Reading(_) | Stage::Failed(_) => None,
        }
    }

    pub fn work_due(&self, now: Mono) -> Option<Mono> {
        match &self.work.as_ref()?.stage {
            Stage::Making(_) => None,
            Stage::Reading(_) | Stage::Failed(_) => Some(now),
        }
    }

    fn make(&self) -> Stage {
        let begin = || {
            let (done, told) = sys::fd::pipe()?;
            let draft = CertsDraft::of(self);
            let taken = draft.another();
            let made = sys::process::beside(move || {
                let _told = told;
                taken.with_staged()
            })?;
            Ok(Making { draft, made, done })
        };
        begin().map_or_else(
            |e: std::io::Error| Stage::Failed(format!("no thread for it: {}", errno_text(&e))),
            Stage::Making,
        )
    }
}

/// True if a command changes certificates, and so waits for one that isn't done.
pub fn changes_certificates(id: ManagerCommand) -> bool {
    matches!(
        id,
        ManagerCommand::TlsCertLoad
            | ManagerCommand::TlsCertDiscard
            | ManagerCommand::TlsCertCommit
            | ManagerCommand::TlsCertRollback
            | ManagerCommand::TlsCertReload
    )
}

impl Manager {
    /// Begins a command that takes long, so that its reply comes later ([`Manager::answer_later`]). False for a command
    /// that is answered at once.
    pub(crate) fn begins_long_command(&mut self, id: ManagerCommand) -> bool {
        if self.tls.certs.rows.len() <= MANY {
            return false;
        }
        let (command, stage) = match id {
            ManagerCommand::TlsCertCommit if self.tls.certs.has_staged() => (Command::Commit, self.tls.certs.make()),
            ManagerCommand::TlsCertReload if !self.tls.certs.has_staged() => self.begin_reload(),
            _ => return false,
        };
        self.tls.certs.work = Some(Work { command, stage });
        if let Some(making) = self.tls.certs.making.take() {
            // Of another draft: the next bundle has what both have changed.
            self.tls.certs.gather(making.into_read(), self.clock.mono());
        }
        true
    }

    fn begin_reload(&mut self) -> (Command, Stage) {
        let jail = self.jail.clone();
        let keys = self.read_ticket_keys();
        match keys.and_then(|keys| Ok((keys, self.tls.certs.begin_rereading(&jail)?))) {
            Ok((keys, rereading)) => (Command::Reload(keys), Stage::Reading(rereading)),
            Err(reason) => (Command::Reload(None), Stage::Failed(reason)),
        }
    }

    pub(crate) fn tend_long_command(&mut self) {
        let Some(Work { command, stage }) = self.tls.certs.work.take() else { return };
        match self.advance(stage) {
            Ok(Some(stage)) => self.tls.certs.work = Some(Work { command, stage }),
            Ok(None) => self.end_long_command(command, Ok(())),
            Err(reason) => self.end_long_command(command, Err(reason)),
        }
    }

    /// The next stage; none: the bundle is in its place.
    fn advance(&mut self, stage: Stage) -> Result<Option<Stage>, String> {
        let Making { draft, made, .. } = match stage {
            Stage::Failed(reason) => return Err(reason),
            Stage::Reading(mut rereading) => {
                if !self.tls.certs.reread_some(&mut rereading, LONGEST_STEP, &self.jail)? {
                    return Ok(Some(Stage::Reading(rereading)));
                }
                self.tls.certs.take_reread(rereading);
                return Ok(Some(self.tls.certs.make()));
            }
            Stage::Making(making) => making,
        };
        // The thread has just ended, or is about to say what came of it.
        let made = made.recv().map_err(|_| "the certificates couldn't be put together".to_owned())?;
        if !draft.is_of(&self.tls.certs) {
            // A certificate has come by ACME meanwhile.
            return Ok(Some(self.tls.certs.make()));
        }
        // Before the rows are changed: they needn't be copied then.
        drop(draft);
        self.put_in_place(made?, true)?;
        Ok(None)
    }

    fn end_long_command(&mut self, command: Command, done: Result<(), String>) {
        let done = match command {
            Command::Commit => done,
            Command::Reload(keys) => {
                let done = done.and_then(|()| keys.map_or(Ok(()), |keys| self.use_ticket_keys(keys)));
                if done.is_err() {
                    self.tls.certs.forget_fresh();
                }
                done
            }
        };
        self.answer_later(done.map_or_else(CliReply::cant, |()| CliReply::ok("")));
    }
}
