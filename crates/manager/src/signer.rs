// SPDX-License-Identifier: BSD-2-Clause
//! The signer, where `tls_signer` asks for one: a process that has the private keys in the worker's place and signs what the worker asks it
//! to. It has another user than the worker where there is one, opens no file and no connection, and ends with the worker.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use base::clock::Mono;
use cli::handoff::HandoffSecret;
use cli::record;
use cli::record::Fd;
use sys::fd::Interest;
use sys::process::{Child, Exit, Spawn};
use tls::Bundle;
use tls::signer::{MAX_ANSWER, MAX_QUESTION, SignerKeys};

use crate::fatal::errno_text;
use crate::jail::JailRole;
use crate::manager::Manager;
use crate::report::{ReportSeverity, print};
use crate::upgrade::carried::{Carried, Successor, copy};

/// The program name under which this executable signs.
pub const PROGRAM: &str = "lacquer-signer";

/// Pause between a death and the next signer.
const PAUSE: Duration = Duration::from_millis(200);
/// Bytes of the number of a question and its answer, by which late answers are recognised.
const NUMBER_BYTES: usize = 4;

#[derive(Debug)]
pub(crate) struct Signer {
    child: Child,
    control: OwnedFd,
}

#[derive(Debug, Default)]
pub(crate) struct Signers {
    current: Option<Signer>,
    /// Signers of earlier workers, which end with them.
    leaving: Vec<Child>,
    /// Time at which the next one begins.
    restart: Option<Mono>,
}

impl Signers {
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.current.iter().map(|signer| &signer.child).chain(&self.leaving).map(AsFd::as_fd)
    }

    pub fn due(&self) -> Option<Mono> {
        self.restart
    }

    fn dismiss(&mut self) {
        self.restart = None;
        self.leaving.extend(self.current.take().map(|signer| signer.child));
    }
}

record! {
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub(crate) struct SignersRecord {
        maybe "signer" pub current: Option<(i32, Fd)>,
        each "leaving_signer" pub leaving: Vec<i32>,
    }
}

impl Carried for Signers {
    type Record = SignersRecord;

    fn save(&self, _: Mono) -> SignersRecord {
        SignersRecord {
            current: self.current.as_ref().map(|signer| (signer.child.pid(), Fd::of(&signer.control))),
            leaving: self.leaving.iter().map(Child::pid).collect(),
        }
    }

    fn restore(record: &SignersRecord, _: &Successor<'_>) -> Result<Signers, String> {
        let adopt = |(pid, fd): (i32, Fd)| {
            let child = Child::adopt(pid).map_err(|e| format!("the signer: {}", errno_text(&e)))?;
            Ok::<_, String>(Signer { child, control: copy(fd)? })
        };
        let leaving = record.leaving.iter().filter_map(|pid| Child::adopt(*pid).ok()).collect();
        Ok(Signers { current: record.current.map(adopt).transpose()?, leaving, restart: None })
    }
}

impl Manager {
    /// A signer for a worker that is about to begin, if there is to be one; the one before stays with its worker.
    pub(crate) fn begin_signer(&mut self) -> io::Result<()> {
        self.tls.signers.dismiss();
        if self.params.tls_signer && self.tls.certs.is_on() {
            let theirs = self.spawn_signer()?;
            let secrets = self.tls.secrets.as_ref().ok_or(io::ErrorKind::NotConnected)?;
            sys::secret::send(secrets, HandoffSecret::Signer.letter(), &theirs)?;
        }
        Ok(())
    }

    /// Starts a signer with the present keys; returns the worker's end of its socket.
    fn spawn_signer(&mut self) -> io::Result<OwnedFd> {
        let (control, its_control) = sys::fd::socket_pair()?;
        let (theirs, its_questions) = sys::packet::pair()?;
        let spawn = Spawn::new(&self.server.exe, PROGRAM)?
            .standard(0, its_control.as_fd())
            .standard(1, its_questions.as_fd())
            .credentials(self.jail.credentials(JailRole::Checker))
            .no_core()
            .new_group();
        let child = self.jail.privileged(|| spawn.start())?;
        if let Some(file) = self.tls.certs.file() {
            sys::secret::send(&control, HandoffSecret::Certificates.letter(), file)?;
        }
        self.tls.signers.current = Some(Signer { child, control });
        Ok(theirs)
    }

    /// The certificates for a worker that is about to begin: without keys, where it has a signer.
    pub(crate) fn certificates_for_worker(&self) -> io::Result<Option<File>> {
        match &self.tls.signers.current {
            Some(_) => self.tls.certs.keyless(),
            None => self.tls.certs.file().map(File::try_clone).transpose(),
        }
    }

    pub(crate) fn teach_signer(&self, file: &File) -> Result<bool, String> {
        let Some(signer) = &self.tls.signers.current else { return Ok(false) };
        let sent = sys::secret::send(&signer.control, HandoffSecret::Certificates.letter(), file);
        sent.map(|()| true).map_err(|error| format!("can't pass it to the signer: {}", errno_text(&error)))
    }

    /// Looks for signers that have ended. One that didn't end with its worker is followed by another.
    pub(crate) fn tend_signers(&mut self) {
        self.tls.signers.leaving.retain(|child| matches!(child.try_wait(), Ok(None)));
        let Some(signer) = &self.tls.signers.current else { return };
        let Ok(Some(exit)) = signer.child.try_wait() else { return };
        self.tls.signers.current = None;
        if exit != Exit::Status(0) {
            print(ReportSeverity::Error, "The signer has crashed; it will be restarted");
            self.tls.signers.restart = Some(self.now() + PAUSE);
        }
    }

    pub(crate) fn restart_signer(&mut self) {
        self.tls.signers.restart = None;
        if self.worker.pid().is_none() {
            return;
        }
        let begun = self.spawn_signer().map_err(|error| errno_text(&error));
        if let Err(reason) = begun.and_then(|theirs| self.send_secret(HandoffSecret::Signer, &File::from(theirs))) {
            print(ReportSeverity::Error, &format!("can't start the signer: {reason}"));
            self.tls.signers.restart = Some(self.now() + PAUSE * 25);
        }
    }
}

/// The signer's process: standard input is where keys come, standard output where questions do. It ends when nobody can ask any more.
pub fn run_child() -> i32 {
    if sys::secret::forbid_core().is_err() {
        return 1;
    }
    let (control, questions) = (sys::fd::standard(0), sys::fd::standard(1));
    let (mut keys, mut is_taught) = (SignerKeys::default(), true);
    let mut room = [0; NUMBER_BYTES + MAX_QUESTION];
    loop {
        let mut wants = vec![(questions, Interest::Read)];
        if is_taught {
            wants.push((control, Interest::Read));
        }
        let Ok(ready) = sys::fd::wait_any(&wants, None) else { return 1 };
        // Keys first: a question may be about what came just before it.
        while is_taught {
            match sys::secret::receive(control) {
                Ok(Some((_, file))) => {
                    let secret = sys::secret::SealedSecret::map(&file).ok();
                    match secret.and_then(|secret| Bundle::open(Box::new(secret)).ok()) {
                        Some(bundle) => keys.replace(bundle),
                        None => return 1,
                    }
                }
                Ok(None) => break,
                Err(_) => is_taught = false,
            }
        }
        if !ready.first().is_some_and(|ready| *ready) {
            continue;
        }
        match sys::packet::receive(questions, &mut room) {
            Ok(0) => return 0,
            Ok(length) if length > NUMBER_BYTES => {
                let mut answer = room[..NUMBER_BYTES].to_vec();
                answer.extend(keys.answer(&room[NUMBER_BYTES..length]));
                answer.truncate(NUMBER_BYTES + MAX_ANSWER);
                let _ = sys::packet::send(questions, &answer);
            }
            Ok(_) => {}
            Err(_) => return 1,
        }
    }
}
