// SPDX-License-Identifier: BSD-2-Clause
//! What this manager has, as the state that the next program reads.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use sys::sock::SocketName;

use super::state::{Listening, OpenSession, OpenStore, RecordedDeath, RunningWorker, UpgradeState};
use crate::fatal::errno_text;
use crate::listen::BoundListener;
use crate::manager::Manager;
use crate::memory::WORKER_DIR;
use crate::session::Session;
use crate::usage::OWN_VERSION;
use crate::worker::ManagedWorker;

impl Manager {
    /// Everything, for the CLI session `asks`; and descriptors that have to stay open until exec.
    pub(crate) fn capture(&self, asks: usize) -> Result<(UpgradeState, Vec<OwnedFd>), String> {
        if self.certs.has_staged() {
            return Err("certificates are staged: tls.cert.commit or tls.cert.rollback first".to_owned());
        }
        let now = self.now();
        let mut held = Vec::new();
        let (vcls, active, booted) = self.vcls.parts(now);
        let (last, total_deaths, recent) = self.deaths.parts();
        let (arenas, journal) = self.arenas.parts();
        let state = UpgradeState {
            writer: OWN_VERSION.to_owned(),
            args: std::env::args_os().collect(),
            program: self.upgrade.program.clone(),
            writer_file: self.exe.as_fd().as_raw_fd(),
            workdir: self.workdir.clone(),
            identity: self.identity.clone(),
            vident: self.vident.clone(),
            uptime: now.since(self.timers.started),
            params: self.params.encode(),
            protected: self.params.protected().iter().map(|name| (*name).to_owned()).collect(),
            notes: self.printed_param_notes.iter().cloned().collect(),
            listeners: self.listeners.iter().map(listening).collect(),
            stores: self
                .store_files
                .iter()
                .map(|f| OpenStore { store: f.store.clone(), file: f.file.as_raw_fd(), bytes: f.bytes, life: f.life })
                .collect(),
            arenas: arenas.map(|(store, file)| (store.to_owned(), file.as_raw_fd())).collect(),
            journal: journal.map(|file| file.as_raw_fd()),
            journal_file: self.journal_file.as_ref().map(|file| file.as_raw_fd()),
            write_lock: self.write_lock.as_ref().map(AsRawFd::as_raw_fd),
            relay: self.upgrade.relay.as_ref().map(AsRawFd::as_raw_fd),
            certificates: self.certs.file().map(AsRawFd::as_raw_fd),
            ticket_keys: self.ticket_keys.file().map(AsRawFd::as_raw_fd),
            secrets: self.secrets.as_ref().map(AsRawFd::as_raw_fd),
            signer: self.signers.current().map(|(pid, fd)| (pid, fd.as_raw_fd())),
            leaving_signers: self.signers.leaving().collect(),
            ticket_file: self.ticket_keys.path().map(str::to_owned),
            ticket_due: self.ticket_keys.due().map(|due| due.0),
            watch_history: self.watcher.history().map(|fd| fd.as_raw_fd()),
            after_death: self.succession.is_after_death(),
            vcls,
            active,
            booted,
            worker_state: self.worker.state.word().to_owned(),
            workers: self.running_workers(&mut held)?,
            counters: self.memory.iter().flat_map(|memory| memory.values()).collect(),
            panic: self.panic.clone(),
            deaths: last
                .map(|d| RecordedDeath {
                    at: d.at.0,
                    lived: d.lived,
                    pid: d.pid,
                    how: d.how.clone(),
                    was_asked: d.was_asked,
                    emptied: d.emptied,
                })
                .collect(),
            total_deaths,
            recent_deaths: recent.map(|at| at.0).collect(),
            restarts: self.restarts,
            quic: self.quic,
            class_key: self.class_key,
            exit_status: self.exit_status,
            secret: self.secret.clone(),
            secret_is_ours: self.secret_is_ours,
            pid_files: self.pid_files.iter().map(|f| (f.path().to_owned(), f.as_fd().as_raw_fd())).collect(),
            cli_sockets: self.cli_sockets.iter().map(AsRawFd::as_raw_fd).collect(),
            masters: self.masters.iter().flat_map(|m| m.addresses()).map(ToString::to_string).collect(),
            sessions: self.open_sessions(asks)?,
        };
        Ok((state, held))
    }

    /// The present worker first, if there is one.
    fn running_workers(&self, held: &mut Vec<OwnedFd>) -> Result<Vec<RunningWorker>, String> {
        let now = self.now();
        let mut workers = Vec::new();
        if let (Some((pid, cli, output)), Some(memory)) = (self.worker.parts(), &self.memory) {
            let panic = memory.panic_file().map_err(|e| errno_text(&e))?;
            workers.push(RunningWorker {
                pid,
                cli: cli.as_raw_fd(),
                output: output.as_raw_fd(),
                panic: panic.as_raw_fd(),
                memory: WORKER_DIR.into(),
                lived: now.since(self.timers.worker_started),
                leaves_in: None,
                hands_over: false,
            });
            held.push(panic);
        }
        for leaving in &self.upgrade.leaving {
            let Some((pid, cli, output)) = ManagedWorker::parts(&leaving.worker) else { continue };
            workers.push(RunningWorker {
                pid,
                cli: cli.as_raw_fd(),
                output: output.as_raw_fd(),
                panic: leaving.panic_file.as_raw_fd(),
                memory: leaving.memory.clone(),
                lived: now.since(leaving.started),
                leaves_in: Some(leaving.until.since(now).max(0.0)),
                hands_over: leaving.hands_over,
            });
        }
        Ok(workers)
    }

    fn open_sessions(&self, asks: usize) -> Result<Vec<OpenSession>, String> {
        // The next program starts a process of its own for --watch.
        let goes_on = |session: &Session| !session.has_ended() && !session.is_watch();
        let open = self.sessions.iter().enumerate().filter(|(at, session)| *at == asks || goes_on(session));
        let parts = open.map(|(at, session)| {
            session.parts(at == asks).ok_or_else(|| "another CLI connection is executing a command".to_owned())
        });
        parts.collect()
    }
}

fn listening(listener: &BoundListener) -> Listening {
    let (address, is_uds) = match &listener.address {
        SocketName::Inet(address) => (address.to_string().into(), false),
        SocketName::Unix(path) => (path.clone(), true),
    };
    Listening {
        name: listener.name.clone(),
        transport: listener.transport,
        address,
        is_uds,
        endpoint: listener.endpoint.clone(),
        permissions: listener.permissions.numbers(),
        sockets: listener.sockets.iter().map(AsRawFd::as_raw_fd).collect(),
    }
}
