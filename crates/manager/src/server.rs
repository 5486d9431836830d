// SPDX-License-Identifier: BSD-2-Clause
//! The server as a whole: its program, its names, its directory and what it shows in it.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use base::clock::Mono;
use cli::record;
use cli::record::Fd;
use params::DebugBit;
use sys::pidfile::PidFile;
use sys::process::Executable;

use crate::fatal::errno_text;
use crate::manager::Manager;
use crate::memory::ManagerMemory;
use crate::upgrade::carried::{Carried, Successor, begun, copy, elapsed};
use crate::workdir;

/// Between looks at what is looked at all the time: the uptime, files of certificates.
const TICK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Server {
    pub exe: Executable,
    pub workdir: PathBuf,
    pub remove_workdir: bool,
    pub identity: String,
    /// Platform and choices, as the banner shows them.
    pub vident: String,
    pub class_key: [u8; 32],
    pub pid_files: Vec<PidFile>,
    pub memory: Option<ManagerMemory>,
    /// Notes about parameters that have been printed.
    pub printed_notes: HashSet<String>,
    pub started: Mono,
    pub next_tick: Mono,
    /// On the way out: nothing is made ready for another worker.
    pub is_ending: bool,
}

record! {
    #[derive(Clone, Debug, Default, PartialEq)]
    pub(crate) struct ServerRecord {
        one "workdir" pub workdir: PathBuf,
        one "identity" pub identity: String,
        one "vident" pub vident: String,
        one "class_key" pub class_key: [u8; 32],
        each "pid_file" pub pid_files: Vec<(PathBuf, Fd)>,
        each "counter" pub counters: Vec<(String, u64)>,
        one "notes" pub notes: Vec<String>,
        one "uptime" pub uptime: Duration,
    }
}

impl Server {
    pub fn new(exe: Executable, workdir: PathBuf, identity: String, class_key: [u8; 32], now: Mono) -> Server {
        Server {
            exe,
            workdir,
            remove_workdir: false,
            identity,
            vident: String::new(),
            class_key,
            pid_files: Vec::new(),
            memory: None,
            printed_notes: HashSet::new(),
            started: now,
            next_tick: now,
            is_ending: false,
        }
    }
}

impl Carried for Server {
    type Record = ServerRecord;

    fn save(&self, now: Mono) -> ServerRecord {
        ServerRecord {
            workdir: self.workdir.clone(),
            identity: self.identity.clone(),
            vident: self.vident.clone(),
            class_key: self.class_key,
            pid_files: self.pid_files.iter().map(|f| (f.path().to_owned(), Fd::of(f))).collect(),
            counters: self.memory.iter().flat_map(|memory| memory.values()).collect(),
            notes: self.printed_notes.iter().cloned().collect(),
            uptime: elapsed(self.started, now),
        }
    }

    /// The shared memory is published later.
    fn restore(record: &ServerRecord, by: &Successor<'_>) -> Result<Server, String> {
        let pid_file = |(path, fd): &(PathBuf, Fd)| {
            PidFile::resume(copy(*fd)?, path).map_err(|e| format!("{}: {}", path.display(), errno_text(&e)))
        };
        let exe = Executable::open_self().map_err(|e| format!("my own executable: {}", errno_text(&e)))?;
        let ServerRecord { workdir, identity, class_key, .. } = record.clone();
        Ok(Server {
            vident: record.vident.clone(),
            pid_files: record.pid_files.iter().map(pid_file).collect::<Result<_, String>>()?,
            printed_notes: record.notes.iter().cloned().collect(),
            started: begun(record.uptime, by.now),
            ..Server::new(exe, workdir, identity, class_key, by.now)
        })
    }
}

impl Manager {
    pub(crate) fn on_tick(&mut self) {
        let now = self.now();
        self.server.next_tick = now + TICK;
        if sys::process::is_first() {
            let _ = sys::process::reap_adopted();
        }
        self.count(|memory| memory.counters.uptime.set(now.since(self.server.started) as u64));
        if self.tls.certs.is_on() {
            self.watch_certificates();
        }
    }

    /// Removes what shows that this server runs.
    pub(crate) fn cleanup(&mut self) {
        let vtc_mode = self.debug(DebugBit::VtcMode);
        if let Some(mut memory) = self.server.memory.take() {
            memory.close(&self.jail, vtc_mode);
        }
        if !self.debug(DebugBit::VclKeep) {
            let files: Vec<PathBuf> = self.vcls.files().cloned().collect();
            files.iter().for_each(|file| self.remove_vcl(file));
        }
        self.jail.privileged(|| {
            if let Some(secret) = self.cli.secret.as_ref().filter(|_| self.cli.secret_is_ours) {
                let _ = std::fs::remove_file(secret);
            }
            for file in self.server.pid_files.drain(..) {
                file.remove();
            }
        });
        if self.server.remove_workdir {
            let _ = self.jail.privileged(|| {
                let _ = std::fs::remove_dir("vmod_cache");
                let _ = std::env::set_current_dir("/");
                std::fs::remove_dir(&self.server.workdir)
            });
        }
    }

    pub(crate) fn remove_vcl(&self, file: &std::path::Path) {
        if self.debug(DebugBit::VclKeep) {
            return;
        }
        if let Some(dir) = file.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            workdir::remove_tree(dir, &self.jail);
        }
    }
}
