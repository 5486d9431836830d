// SPDX-License-Identifier: BSD-2-Clause
//! The message of a manager to the program that takes its place: a [record](cli::record) in a memfd, with a version; descriptors
//! by their numbers. A program refuses another version, as it refuses a line that it doesn't know: better no upgrade than
//! half of one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use base::clock::{Clock, Mono};
use cli::record;
use cli::record::{Fd, Record};
use params::Params;

use super::carried::{Carried, Successor};
use super::workers::WorkersRecord;
use super::{Upgrade, UpgradeRecord};
use crate::access::{CliAccess, CliRecord};
use crate::clienttls::{ClientTls, TlsRecord};
use crate::ended::{EndedRecord, EndedWorkers};
use crate::fleet::FleetMembership;
use crate::jail::Jail;
use crate::listening::{Listening, ListeningRecord};
use crate::manager::Manager;
use crate::options::ManagerOptions;
use crate::server::{Server, ServerRecord};
use crate::storage::{Storage, StorageRecord};
use crate::usage::OWN_VERSION;
use crate::vcls::ManagerVcls;
use crate::vcls::carry::VclsRecord;
use crate::watch::Watcher;
use crate::worker::ManagedWorker;

/// First line of the text; any change of the lines counts the number up.
const HEAD: &str = "LACQUER-UPGRADE 6";

record! {
    #[derive(Clone, Debug, Default, PartialEq)]
    pub(crate) struct UpgradeState {
        one "writer" pub writer: String,
        one "args" pub args: Vec<OsString>,
        /// The program that wrote this, open: it goes on when the new one fails.
        one "writer_file" pub writer_file: Fd,
        part pub upgrade: UpgradeRecord,
        part pub params: ParamsRecord,
        part pub server: ServerRecord,
        part pub listening: ListeningRecord,
        part pub storage: StorageRecord,
        part pub tls: TlsRecord,
        part pub vcls: VclsRecord,
        part pub workers: WorkersRecord,
        part pub ended: EndedRecord,
        part pub cli: CliRecord,
        /// The file in which processes of `--watch` leave their history.
        maybe "watch_history" pub watch_history: Option<Fd>,
    }
}

record! {
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub(crate) struct ParamsRecord {
        one "params" pub values: String,
        one "protected" pub protected: Vec<String>,
    }
}

impl Carried for Params {
    type Record = ParamsRecord;

    fn save(&self, _: Mono) -> ParamsRecord {
        let protected = self.protected().iter().map(|name| (*name).to_owned()).collect();
        ParamsRecord { values: self.encode(), protected }
    }

    fn restore(record: &ParamsRecord, _: &Successor<'_>) -> Result<Params, String> {
        let mut params = Params::decode(&record.values).map_err(|e| e.to_string())?;
        if !record.protected.is_empty() {
            params.protect(&record.protected.join(",")).map_err(|e| e.to_string())?;
        }
        Ok(params)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StateError {
    /// Not a state, or of another version.
    Head(String),
    Line(String),
}

impl std::fmt::Display for StateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Head(head) => write!(f, "the running program's state begins with {head:?}, not {HEAD:?}"),
            Self::Line(line) => write!(f, "the running program's state has a line that can't be read: {line}"),
        }
    }
}

impl UpgradeState {
    pub fn all_descriptors(&self) -> BTreeSet<i32> {
        let mut all = BTreeSet::new();
        self.descriptors(&mut |fd| _ = all.insert(fd));
        all
    }

    pub fn text(&self) -> Vec<u8> {
        let mut out = format!("{HEAD}\n").into_bytes();
        out.extend(self.encode());
        out
    }

    pub fn read(bytes: &[u8]) -> Result<UpgradeState, StateError> {
        let end = bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len());
        let (head, body) = bytes.split_at(end);
        if head != HEAD.as_bytes() {
            return Err(StateError::Head(String::from_utf8_lossy(&head[..head.len().min(40)]).into_owned()));
        }
        UpgradeState::decode(body).map_err(StateError::Line)
    }

    /// A manager of this state that has no worker yet. Not dropped: its end would be that of the workers it takes.
    pub fn manager(&self, options: &ManagerOptions, jail: Rc<Jail>) -> Result<ManuallyDrop<Manager>, String> {
        let clock = Clock::system();
        let by = Successor { options, jail: &jail, now: clock.mono() };
        let manager = Manager {
            params: Params::restore(&self.params, &by)?,
            storage: Storage::restore(&self.storage, &by)?,
            tls: ClientTls::restore(&self.tls, &by)?,
            server: Server::restore(&self.server, &by)?,
            vcls: ManagerVcls::restore(&self.vcls, &by)?,
            listening: Listening::restore(&self.listening, &by)?,
            ended: EndedWorkers::restore(&self.ended, &by)?,
            cli: CliAccess::restore(&self.cli, &by)?,
            upgrade: Upgrade::restore(&self.upgrade, &by)?,
            watcher: Watcher::restore(&self.watch_history, &by)?,
            fleet: FleetMembership::read(options, &jail)?,
            worker: ManagedWorker::new(jail.clone()),
            jail,
            clock,
        };
        Ok(ManuallyDrop::new(manager))
    }
}

impl Manager {
    /// Everything, for the CLI session `asks`; and descriptors that have to stay open until exec.
    pub(crate) fn capture(&self, asks: usize) -> Result<(UpgradeState, Vec<OwnedFd>), String> {
        if self.tls.certs.has_staged() {
            return Err("certificates are staged: tls.cert.commit or tls.cert.rollback first".to_owned());
        }
        let now = self.now();
        let (workers, held) = self.running_workers()?;
        let state = UpgradeState {
            writer: OWN_VERSION.to_owned(),
            args: std::env::args_os().collect(),
            writer_file: Fd::of(&self.server.exe),
            upgrade: self.upgrade.save(now),
            params: self.params.save(now),
            server: self.server.save(now),
            listening: self.listening.save(now),
            storage: self.storage.save(now),
            tls: self.tls.save(now),
            vcls: self.vcls.save(now),
            workers,
            ended: self.ended.save(now),
            cli: CliRecord { sessions: self.open_sessions(asks)?, ..self.cli.save(now) },
            watch_history: self.watcher.save(now),
        };
        Ok((state, held))
    }
}

#[cfg(test)]
mod tests;
