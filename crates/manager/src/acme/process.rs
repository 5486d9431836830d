// SPDX-License-Identifier: BSD-2-Clause
//! The process that talks to the CA: started, heard, and started again.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime};

use acme::AcmeName;
use acme::certificate::printable;
use acme::process::{PROGRAM, SOCKET};
use acme::schedule;
use acme::talk::{AcmeCommand, AcmeReport, NameStanding, TalkLines, line, seconds};
use base::clock::{Mono, Real};
use message::date;
use sys::process::{Child, Spawn};
use sys::signal::SIGKILL;

use crate::fatal::errno_text;
use crate::jail::JailRole;
use crate::manager::Manager;
use crate::report::{ReportSeverity, print};

/// Pause before a process that ended is followed by the next.
const FIRST_PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct AcmeProcess {
    child: Child,
    pub(super) socket: OwnedFd,
    lines: TalkLines,
}

impl Manager {
    /// Starts it, if there is something to get.
    pub(crate) fn begin_acme(&mut self) {
        let Some(acme) = &mut self.tls.acme else { return };
        acme.restart = None;
        if acme.process.is_some() {
            return;
        }
        self.look_for_demand();
        if let Err(error) = self.try_begin_acme() {
            print(ReportSeverity::Error, &format!("ACME: can't start its process: {}", errno_text(&error)));
            self.acme_is_without_process();
        }
    }

    fn try_begin_acme(&mut self) -> std::io::Result<()> {
        let Some(acme) = &self.tls.acme else { return Ok(()) };
        let begin = acme.begin(self.challenge_kinds(&acme.settings), &self.jail)?;
        let (socket, theirs) = sys::fd::socket_pair()?;
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
        let spawn = Spawn::new(&self.server.exe, PROGRAM)?
            .env(SOCKET, &theirs.as_raw_fd().to_string())?
            .standard(0, null.as_fd())
            .standard(1, null.as_fd())
            .keep(theirs.as_fd())
            .credentials(self.jail.credentials(JailRole::Checker))
            .no_core()
            .new_group();
        let child = self.jail.privileged(|| spawn.start())?;
        drop(theirs);
        sys::fd::write_all(&socket, &line(&AcmeCommand::Begin(Box::new(begin))))?;
        if let Some(acme) = &mut self.tls.acme {
            acme.process = Some(AcmeProcess { child, socket, lines: TalkLines::default() });
        }
        Ok(())
    }

    pub(crate) fn end_acme(&mut self) {
        let Some(acme) = &mut self.tls.acme else { return };
        acme.restart = None;
        if let Some(process) = acme.process.take() {
            self.bury_acme(process);
        }
    }

    fn bury_acme(&mut self, process: AcmeProcess) {
        let AcmeProcess { child, socket, .. } = process;
        drop(socket);
        let _ = self.jail.privileged(|| child.kill(SIGKILL));
        let _ = child.wait();
        for challenge in self.tls.acme.as_ref().map(|acme| acme.challenges.clone()).unwrap_or_default() {
            self.hide_challenge(&challenge);
        }
    }

    fn acme_is_without_process(&mut self) {
        let now = self.now();
        let Some(acme) = &mut self.tls.acme else { return };
        acme.deaths = acme.deaths.saturating_add(1);
        acme.restart = Some(now + schedule::pause(FIRST_PAUSE, acme.deaths, None, schedule::draw()));
    }

    pub(crate) fn acme_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.tls.acme.as_ref()?.process.as_ref().map(|process| process.socket.as_fd())
    }

    /// Time at which the next process is to begin, or the worker to be asked.
    pub(crate) fn acme_due(&self) -> Option<Mono> {
        let acme = self.tls.acme.as_ref()?;
        let both = acme.restart.into_iter().chain(acme.demand);
        both.reduce(|first, due| if due < first { due } else { first })
    }

    pub(crate) fn on_acme_timer(&mut self) {
        let now = self.now();
        let Some(acme) = &self.tls.acme else { return };
        let (restart, demand) = (acme.restart, acme.demand);
        if restart.is_some_and(|due| due <= now) {
            self.begin_acme();
        }
        if demand.is_some_and(|due| due <= now) {
            self.look_for_demand();
        }
    }

    pub(crate) fn tend_acme(&mut self) {
        let Some(process) = self.tls.acme.as_mut().and_then(|acme| acme.process.as_mut()) else { return };
        // Once: more makes the socket readable again.
        let mut buf = vec![0; 64 * 1024];
        let read = sys::fd::read(&process.socket, &mut buf);
        let mut goes_on = matches!(read, Ok(1..));
        goes_on = goes_on && process.lines.feed(&buf[..read.unwrap_or(0)]).is_ok();
        while goes_on {
            let Some(process) = self.tls.acme.as_mut().and_then(|acme| acme.process.as_mut()) else { return };
            match process.lines.take::<AcmeReport>() {
                Ok(Some(report)) => goes_on = self.on_acme_report(report),
                Ok(None) => return,
                Err(_) => goes_on = false,
            }
        }
        if let Some(process) = self.tls.acme.as_mut().and_then(|acme| acme.process.take()) {
            print(ReportSeverity::Error, "ACME: its process has ended; it will be restarted");
            self.bury_acme(process);
            self.acme_is_without_process();
        }
    }

    /// Handles one report; false if it can't be answered.
    fn on_acme_report(&mut self, report: AcmeReport) -> bool {
        match report {
            AcmeReport::Account(credentials) => {
                let Some(acme) = &self.tls.acme else { return true };
                if let Err(error) = self.jail.privileged(|| acme.store.put_account(&credentials)) {
                    let place = acme.store.place().display();
                    print(
                        ReportSeverity::Error,
                        &format!("ACME: {place}: the account can't be stored: {}", errno_text(&error)),
                    );
                }
                true
            }
            AcmeReport::Challenge(number, challenge) => {
                let error = self.show_challenge(challenge).err();
                self.answer_acme(number, error)
            }
            AcmeReport::Over(challenge) => {
                self.hide_challenge(&challenge);
                true
            }
            AcmeReport::Issued { number, name, pem } => {
                let error = self.take_certificate(&name, &pem).err();
                self.answer_acme(number, error)
            }
            AcmeReport::Standing(name, standing) => {
                self.take_standing(&name, standing);
                true
            }
            AcmeReport::Ca(Some(text)) => {
                self.count(|m| m.counters.acme_failed.inc());
                print(
                    ReportSeverity::Error,
                    &format!("ACME: can't reach the certificate authority: {}", printable(&text)),
                );
                true
            }
            AcmeReport::Ca(None) => {
                print(ReportSeverity::Info, "ACME: the certificate authority responds again");
                true
            }
        }
    }

    fn answer_acme(&mut self, number: u64, error: Option<String>) -> bool {
        let Some(process) = self.tls.acme.as_ref().and_then(|acme| acme.process.as_ref()) else { return false };
        sys::fd::write_all(&process.socket, &line(&AcmeCommand::Done { number, error })).is_ok()
    }

    fn take_certificate(&mut self, name: &AcmeName, pem: &str) -> Result<(), String> {
        let facts = self.use_certificate(name, pem)?;
        self.count(|m| m.counters.acme_issued.inc());
        let until = date::text(Real(seconds(facts.validity.until)));
        print(
            ReportSeverity::Info,
            &format!("ACME: {name}: new certificate from {}, valid until {until}", facts.issuer),
        );
        let Some(acme) = &mut self.tls.acme else { return Ok(()) };
        acme.deaths = 0;
        // It is in use, whatever becomes of the file.
        if let Err(error) = self.jail.privileged(|| acme.store.put_certificate(name, pem)) {
            let place = acme.store.place().display();
            let text = format!("ACME: {name}: {place}: the certificate can't be stored: {}", errno_text(&error));
            print(ReportSeverity::Error, &text);
        }
        Ok(())
    }

    fn take_standing(&mut self, name: &AcmeName, standing: NameStanding) {
        let Some(held) = self.tls.acme.as_mut().and_then(|acme| acme.held.get_mut(name)) else { return };
        let before = std::mem::replace(&mut held.standing, standing.clone());
        if standing.failures > before.failures {
            self.count(|m| m.counters.acme_failed.inc());
            let wait = standing.next_at.map_or(0.0, |at| at - seconds(SystemTime::now())).max(0.0);
            let text = standing.error.as_deref().map(printable).unwrap_or_default();
            print(ReportSeverity::Error, &format!("ACME: {name}: {text}; next attempt in {wait:.0} s"));
        }
        let Some(acme) = &self.tls.acme else { return };
        if (before.failures, before.next_at, &before.error) != (standing.failures, standing.next_at, &standing.error)
            && let Err(error) = self.jail.privileged(|| acme.store.put_standing(name, &standing))
        {
            let place = acme.store.place().display();
            print(ReportSeverity::Error, &format!("ACME: {name}: {place}: {}", errno_text(&error)));
        }
    }
}
