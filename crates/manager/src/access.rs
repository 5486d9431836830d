// SPDX-License-Identifier: BSD-2-Clause
//! Ways to the CLI: sockets, the secret, connections to masters, and the sessions that are open.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use base::clock::Mono;
use cli::record;
use cli::record::Fd;
use sys::sock;

use crate::clitcp::{self, Masters};
use crate::manager::Manager;
use crate::report::{ReportSeverity, print};
use crate::session::carry::OpenSession;
use crate::session::{CliSessionKind, Session};
use crate::upgrade::carried::{Carried, Successor, copy};

/// CLI sessions at a time; further connections wait until one of them ends, or hasn't shown the secret yet.
const MAX_SESSIONS: usize = 256;
/// Sessions take at most one in this many of the manager's descriptors: sockets, stores and a new worker need the others.
const SESSION_SHARE: u64 = 4;
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct CliAccess {
    pub secret: Option<PathBuf>,
    pub secret_is_ours: bool,
    pub sockets: Vec<OwnedFd>,
    pub masters: Option<Masters>,
    pub sessions: Vec<Session>,
    pub most_sessions: usize,
    pub pause: Mono,
}

impl CliAccess {
    pub fn new(now: Mono) -> CliAccess {
        let share = sys::limits::open_files_limit().map_or(u64::MAX, |limit| limit / SESSION_SHARE);
        CliAccess {
            secret: None,
            secret_is_ours: false,
            sockets: Vec::new(),
            masters: None,
            sessions: Vec::new(),
            most_sessions: MAX_SESSIONS.min(usize::try_from(share).unwrap_or(MAX_SESSIONS)),
            pause: now,
        }
    }
}

record! {
    #[derive(Clone, Debug, Default, PartialEq)]
    pub(crate) struct CliRecord {
        maybe "secret" pub secret: Option<PathBuf>,
        one "secret_is_ours" pub secret_is_ours: bool,
        one "cli_sockets" pub sockets: Vec<Fd>,
        one "masters" pub masters: Vec<String>,
        each "session" pub sessions: Vec<OpenSession>,
    }
}

impl Carried for CliAccess {
    type Record = CliRecord;

    /// Sessions are saved by [`Manager::open_sessions`].
    fn save(&self, _: Mono) -> CliRecord {
        CliRecord {
            secret: self.secret.clone(),
            secret_is_ours: self.secret_is_ours,
            sockets: self.sockets.iter().map(Fd::of).collect(),
            masters: self.masters.iter().flat_map(Masters::addresses).map(ToString::to_string).collect(),
            sessions: Vec::new(),
        }
    }

    fn restore(record: &CliRecord, by: &Successor<'_>) -> Result<CliAccess, String> {
        let sessions: Vec<Session> =
            record.sessions.iter().map(|open| Session::restore(open, by.now)).collect::<Result<_, _>>()?;
        let masters: Vec<SocketAddr> = record.masters.iter().filter_map(|address| address.parse().ok()).collect();
        Ok(CliAccess {
            secret: record.secret.clone(),
            secret_is_ours: record.secret_is_ours,
            sockets: record.sockets.iter().map(|fd| copy(*fd)).collect::<Result<_, _>>()?,
            masters: Masters::resume(masters, sessions.iter().any(Session::is_master), by.now),
            sessions,
            ..CliAccess::new(by.now)
        })
    }
}

impl Manager {
    /// The sessions for the program after this one; `asks` is the one that asked for it.
    pub(crate) fn open_sessions(&self, asks: usize) -> Result<Vec<OpenSession>, String> {
        // The next program starts a process of its own for --watch.
        let goes_on = |session: &Session| !session.has_ended() && !session.is_watch();
        let open = self.cli.sessions.iter().enumerate().filter(|(at, session)| *at == asks || goes_on(session));
        let saved = open.map(|(at, session)| {
            session.save(at == asks).ok_or_else(|| "another CLI connection is executing a command".to_owned())
        });
        saved.collect()
    }

    pub(crate) fn takes_connections(&self) -> bool {
        self.has_room_for_session(self.cli.most_sessions) && self.cli.pause <= self.now()
    }

    pub(crate) fn on_connection(&mut self, at: usize) {
        match sock::accept(&self.cli.sockets[at]) {
            Ok(Some((socket, _))) => {
                self.make_room_for_session(self.cli.most_sessions);
                let identity = clitcp::identity("telnet", &socket);
                self.open_session(CliSessionKind::Telnet, identity, socket, None);
            }
            Ok(None) => {}
            // No descriptors, say: it stays readable, so look away for a while.
            Err(e) => {
                print(ReportSeverity::Error, &format!("Cannot take a CLI connection: {e}"));
                self.cli.pause = self.now() + ACCEPT_PAUSE;
            }
        }
    }

    pub(crate) fn connect_to_master(&mut self) {
        let now = self.now();
        if let Some(socket) = self.cli.masters.as_mut().and_then(|masters| masters.poll(now)) {
            let identity = clitcp::identity("master", &socket);
            self.open_session(CliSessionKind::Master, identity, socket, None);
        }
    }
}
