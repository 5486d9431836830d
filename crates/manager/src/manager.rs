// SPDX-License-Identifier: BSD-2-Clause
//! The manager at work: one thread, one loop over everything that can happen.

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use base::clock::{Clock, Mono};
use params::DebugBit;
use params::Params;
use sys::fd::Interest;
use sys::pidfile::PidFile;
use sys::process::Executable;
use sys::signal::{self, Signals};
use sys::sock;

use crate::acme::Acme;
use crate::arenas::{ArenaSuccession, Arenas, WorkerEnd};
use crate::certs::Certs;
use crate::checker::{CheckOutcome, CheckRequest, Checker, CheckerSource, SINCE_4_1};
use crate::clitcp::{self, Masters};
use crate::deaths::Deaths;
use crate::dying::{DyingWorker, LONGEST_DYING};
use crate::jail::Jail;
use crate::listen::{BoundListener, DEFAULT_LISTENERS};
use crate::memory::ManagerMemory;
use crate::naming::{self, BacktraceNaming};
use crate::report::{self, ReportSeverity, print};
use crate::session::{CliSessionKind, Session};
use crate::storefile::StoreFile;
use crate::stores::ManagerStores;
use crate::ticketkeys::TicketKeys;
use crate::vcls::{ManagerVcls, Quota};
use crate::workdir;
use crate::worker::ManagedWorker;

/// Time until the first look for VCLs that may go cold.
const FIRST_COOLING: Duration = Duration::from_secs(3);

const UPTIME_STEP: Duration = Duration::from_secs(1);

/// CLI sessions at a time; further connections wait until one of them ends, or hasn't shown the secret yet.
const MAX_SESSIONS: usize = 256;
/// Sessions take at most one in this many of the manager's descriptors: sockets, stores and a new worker need the others.
const SESSION_SHARE: u64 = 4;
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_SLEEP: f64 = 3600.0;

#[derive(Debug)]
pub struct Manager {
    pub(crate) clock: Clock,
    pub(crate) exe: Executable,
    pub(crate) jail: Rc<Jail>,
    pub(crate) params: Params,
    pub(crate) printed_param_notes: HashSet<String>,
    pub(crate) stores: ManagerStores,
    pub(crate) store_files: Vec<StoreFile>,
    pub(crate) journal_file: Option<File>,
    /// File that a worker locks as long as it writes to one of the stores.
    pub(crate) write_lock: Option<File>,
    /// Memory of stores, which outlives workers as long as `succession` allows.
    pub(crate) arenas: Arenas,
    pub(crate) succession: ArenaSuccession,
    pub(crate) listeners: Vec<BoundListener>,
    pub(crate) certs: Certs,
    pub(crate) ticket_keys: TicketKeys,
    pub(crate) secrets: Option<OwnedFd>,
    pub(crate) signers: crate::signer::Signers,
    pub(crate) workdir: PathBuf,
    pub(crate) identity: String,
    /// Platform and choices, as the banner shows them.
    pub(crate) vident: String,
    pub(crate) vcls: ManagerVcls,
    pub(crate) worker: ManagedWorker,
    /// Workers that run no more, but don't count as ended yet.
    pub(crate) dying: Vec<DyingWorker>,
    pub(crate) naming: BacktraceNaming,
    pub(crate) memory: Option<ManagerMemory>,
    /// The last worker's panic, until it's cleared.
    pub(crate) panic: Option<String>,
    pub(crate) deaths: Deaths,
    pub(crate) exit_status: i32,
    pub(crate) secret: Option<PathBuf>,
    pub(crate) secret_is_ours: bool,
    pub(crate) pid_files: Vec<PidFile>,
    pub(crate) cli_sockets: Vec<OwnedFd>,
    pub(crate) masters: Option<Masters>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) most_sessions: usize,
    pub(crate) timers: Timers,
    pub(crate) restarts: u32,
    pub(crate) quic: Option<cli::handoff::QuicStart>,
    pub(crate) class_key: [u8; 32],
    pub(crate) fleet: Option<cli::handoff::FleetStart>,
    /// The second tier that workers are members of.
    pub(crate) peers: Option<cli::handoff::FleetStart>,
    pub(crate) remove_workdir: bool,
    /// On the way out: nothing is made ready for another worker.
    pub(crate) ending: bool,
    pub(crate) upgrade: crate::upgrade::Upgrade,
    pub(crate) acme: Option<Acme>,
    pub(crate) watcher: crate::watch::Watcher,
    /// The agent for the fleet's roll-outs, if this node takes part.
    pub(crate) agent: crate::companion::Companion,
    pub(crate) trial: crate::rollout::NodeTrial,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timers {
    pub(crate) started: Mono,
    pub(crate) uptime: Mono,
    pub(crate) ping: Option<Mono>,
    pub(crate) cooling: Mono,
    pub(crate) restart: Option<Mono>,
    /// Next look at the files of certificates.
    pub(crate) certificates: Mono,
    pub(crate) dying: Option<Mono>,
    pub(crate) dying_until: Mono,
    pub(crate) worker_started: Mono,
    /// End of the pause in accepting CLI connections.
    pub(crate) cli_pause: Mono,
    /// End of the first worker's wait for the group's program.
    pub(crate) rollout: Option<Mono>,
}

pub(crate) fn most_sessions() -> usize {
    let share = sys::limits::open_files_limit().map_or(u64::MAX, |limit| limit / SESSION_SHARE);
    MAX_SESSIONS.min(usize::try_from(share).unwrap_or(MAX_SESSIONS))
}

impl Timers {
    pub fn new(now: Mono) -> Timers {
        Timers {
            started: now,
            uptime: now,
            ping: None,
            cooling: now + FIRST_COOLING,
            restart: None,
            certificates: now,
            dying: None,
            dying_until: now,
            worker_started: now,
            cli_pause: now,
            rollout: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Signal,
    Worker,
    Leaving,
    Dying,
    Naming,
    Acme,
    Watch,
    Rollout,
    Signer,
    Certificates,
    CliSocket(usize),
    Session(usize),
    Master,
}

impl Manager {
    pub(crate) fn now(&self) -> Mono {
        self.clock.mono()
    }

    pub(crate) fn debug(&self, bit: DebugBit) -> bool {
        self.params.debug.has(bit)
    }

    pub(crate) fn params_changed(&mut self) {
        self.worker.reply_timeout = self.params.cli_timeout;
        self.worker.startup_timeout = self.params.startup_timeout;
        self.worker.grace = self.params.shutdown_grace;
        report::set_syslog(!self.debug(DebugBit::VtcMode));
    }

    pub(crate) fn quota(&self) -> Quota {
        Quota { most: self.params.max_vcl, handling: self.params.max_vcl_handling }
    }

    pub(crate) fn check_vcl(&self, source: CheckerSource, listing: bool) -> CheckOutcome {
        let mut features = Vec::new();
        for (on, word) in [
            (self.params.vcc_allow_inline_c, "allow_inline_c"),
            (self.params.vcc_err_unref, "err_unref"),
            (self.params.vcc_unsafe_path, "unsafe_path"),
            (self.params.backend_dns_lazy, "lazy_hosts"),
            (self.params.prefer_ipv6, "prefer_ipv6"),
        ] {
            if on {
                features.push(word.to_string());
            }
        }
        if self.listeners.iter().any(BoundListener::is_uds) {
            features.push(SINCE_4_1.to_string());
        }
        if self.params.vcl_dialect != "auto" {
            features.push(format!("dialect={}", self.params.vcl_dialect));
        }
        let request = CheckRequest {
            source,
            vcl_path: self.params.vcl_path.clone(),
            features,
            stores: self.stores.iter().map(|store| store.name.clone()).collect(),
            labels: self.vcls.labels(),
            listing,
            listeners: self.listeners_of_http(listing),
        };
        Checker { exe: &self.exe, jail: &self.jail }.check(&request)
    }

    /// The listeners that a backend may turn out to be, as the checker reads them. With `listing` nothing is served.
    fn listeners_of_http(&self, listing: bool) -> Vec<String> {
        if !self.params.loop_detection {
            return Vec::new();
        }
        let tcp = self.listeners.iter().filter(|listener| !listener.transport.is_quic);
        let mut list: Vec<_> = tcp.map(|listener| format!("{}={}", listener.name, listener.address)).collect();
        // Those of no -a are bound after the first VCL was checked.
        if self.listeners.is_empty() && !listing {
            list.extend(DEFAULT_LISTENERS.map(str::to_owned));
        }
        list
    }

    /// Serves until a signal, or the end of the -d session, says stop. Returns the exit status.
    pub fn run(&mut self, mut signals: Signals) -> i32 {
        while !self.turn(&mut signals) {}
        self.finish()
    }

    /// Waits for the next event and handles it; true to stop.
    pub(crate) fn turn(&mut self, signals: &mut Signals) -> bool {
        let events = self.wait(signals);
        let mut stop = false;
        for event in events {
            match event {
                Event::Signal => stop |= self.on_signal(signals),
                Event::Worker => self.on_worker(),
                Event::Leaving => self.tend_leaving(),
                Event::Naming => self.tend_naming(),
                Event::Acme => self.tend_acme(),
                Event::Watch => self.tend_watch(),
                Event::Rollout => self.tend_rollout(),
                Event::Signer => self.tend_signers(),
                Event::Certificates => self.tend_long_command(),
                Event::Dying => self.bury_dying(Duration::ZERO),
                Event::CliSocket(at) => self.on_connection(at),
                Event::Session(at) => self.on_session(at),
                Event::Master => {}
            }
        }
        self.expire_sessions(self.now());
        stop |= self.sweep_sessions();
        self.on_timers();
        stop
    }

    pub(crate) fn finish(&mut self) -> i32 {
        self.end_rollout();
        self.end_acme();
        self.end_watch();
        print(ReportSeverity::Info, "manager stopping child");
        self.end_serving();
        self.bury_dying(LONGEST_DYING);
        self.finish_naming(naming::PATIENCE);
        print(ReportSeverity::Info, "manager dies");
        self.exit_status
    }

    fn wait(&self, signals: &Signals) -> Vec<Event> {
        let mut wants: Vec<(BorrowedFd<'_>, Interest)> = vec![(signals.as_fd(), Interest::Read)];
        let mut events = vec![Event::Signal];
        for fd in self.worker.descriptors() {
            wants.push((fd, Interest::Read));
            events.push(Event::Worker);
        }
        for fd in self.leaving_descriptors() {
            wants.push((fd, Interest::Read));
            events.push(Event::Leaving);
        }
        for fd in self.dying_descriptors() {
            wants.push((fd, Interest::Read));
            events.push(Event::Dying);
        }
        if let Some(fd) = self.naming.descriptor() {
            wants.push((fd, Interest::Read));
            events.push(Event::Naming);
        }
        if let Some(fd) = self.acme_descriptor() {
            wants.push((fd, Interest::Read));
            events.push(Event::Acme);
        }
        if let Some(fd) = self.watcher.descriptor() {
            wants.push((fd, Interest::Read));
            events.push(Event::Watch);
        }
        if let Some(fd) = self.agent.descriptor() {
            wants.push((fd, Interest::Read));
            events.push(Event::Rollout);
        }
        for fd in self.signers.descriptors() {
            wants.push((fd, Interest::Read));
            events.push(Event::Signer);
        }
        if let Some(fd) = self.certs.work_descriptor() {
            wants.push((fd, Interest::Read));
            events.push(Event::Certificates);
        }
        let takes_more = self.has_room_for_session(self.most_sessions) && self.timers.cli_pause <= self.now();
        for (at, socket) in self.cli_sockets.iter().enumerate().filter(|_| takes_more) {
            wants.push((socket.as_fd(), Interest::Read));
            events.push(Event::CliSocket(at));
        }
        for (at, session) in self.sessions.iter().enumerate() {
            if let Some(want) = session.want() {
                wants.push(want);
                events.push(Event::Session(at));
            }
        }
        if let Some(want) = self.masters.as_ref().and_then(Masters::descriptor) {
            wants.push(want);
            events.push(Event::Master);
        }
        let timeout = Duration::from_secs_f64(self.next_timer().since(self.now()).clamp(0.0, LONGEST_SLEEP));
        match sys::fd::wait_any(&wants, Some(timeout)) {
            Ok(ready) => events.into_iter().zip(ready).filter(|(_, ready)| *ready).map(|(event, _)| event).collect(),
            Err(e) => {
                print(ReportSeverity::Error, &format!("poll: {e}"));
                Vec::new()
            }
        }
    }

    fn next_timer(&self) -> Mono {
        let t = &self.timers;
        let master = self.masters.as_ref().and_then(Masters::due);
        let (leaving, naming) = (self.leaving_due(), self.naming.due());
        let (keys, acme, signer) = (self.ticket_keys.due(), self.acme_due(), self.signers.due());
        let (watch, agent, certs) = (self.watcher.due(), self.agent.due(), self.certs.work_due(self.now()));
        let due = [t.ping, Some(t.cooling), t.restart, t.dying, t.rollout, master, leaving, naming, keys, acme, signer];
        let sessions = self.sessions.iter().filter_map(Session::due);
        let others = [watch, agent, certs].into_iter().chain(due).flatten().chain(sessions);
        others.fold(t.uptime, |first, due| if due < first { due } else { first })
    }

    fn on_timers(&mut self) {
        let now = self.now();
        if self.timers.uptime <= now {
            self.timers.uptime = now + UPTIME_STEP;
            if sys::process::is_first() {
                let _ = sys::process::reap_adopted();
            }
            if let Some(memory) = &self.memory {
                memory.counters.uptime.set(now.since(self.timers.started) as u64);
            }
        }
        if self.timers.ping.is_some_and(|due| due <= now) {
            self.ping_worker();
        }
        if self.ticket_keys.due().is_some_and(|due| due <= now) {
            self.rotate_ticket_keys();
        }
        if self.signers.due().is_some_and(|due| due <= now) {
            self.restart_signer();
        }
        if self.certs.work_due(now).is_some() {
            self.tend_long_command();
        }
        if self.certs.is_on() && self.timers.certificates <= now {
            self.watch_certificates();
        }
        if self.leaving_due().is_some_and(|due| due <= now) {
            self.tend_leaving();
        }
        if self.timers.cooling <= now {
            let cooldown = self.params.vcl_cooldown;
            self.timers.cooling = now + cooldown.mul_f64(0.45).max(Duration::from_millis(100));
            self.vcls.cool(now, cooldown, &mut self.worker);
        }
        if self.timers.dying.is_some_and(|due| due <= now) {
            self.look_at_dying();
        }
        let now = self.now();
        if self.timers.restart.is_some_and(|due| due <= now) {
            self.timers.restart = None;
            self.restart_worker();
        }
        if self.naming.due().is_some_and(|due| due <= now) {
            self.tend_naming();
        }
        self.begin_naming();
        if self.acme_due().is_some_and(|due| due <= now) {
            self.on_acme_timer();
        }
        if self.watcher.due().is_some_and(|due| due <= now) {
            self.begin_watch();
        }
        if self.agent.due().is_some_and(|due| due <= now) {
            self.begin_rollout();
        }
        if let Some(socket) = self.masters.as_mut().and_then(|masters| masters.poll(now)) {
            let identity = clitcp::identity("master", &socket);
            self.open_session(CliSessionKind::Master, identity, socket, None);
        }
    }

    pub(crate) fn on_signal(&mut self, signals: &mut Signals) -> bool {
        let mut stop = false;
        while let Ok(Some(number)) = signals.take() {
            print(ReportSeverity::Error, &format!("Manager got {}", signal::name(number)));
            self.end_serving();
            stop = true;
        }
        stop
    }

    /// Stops the worker for good. No other one will take who comes meanwhile: they are refused at once, and may ask another server, instead of waiting
    /// for the last request in progress.
    fn end_serving(&mut self) {
        self.ending = true;
        self.listeners.clear();
        self.stop_worker();
    }

    fn on_worker(&mut self) {
        self.worker.relay_output();
        if self.worker.has_ended() {
            self.reap_worker(WorkerEnd::Died);
        } else if self.worker.begins_to_end() {
            self.expect_death();
        }
    }

    fn on_connection(&mut self, at: usize) {
        match sock::accept(&self.cli_sockets[at]) {
            Ok(Some((socket, _))) => {
                self.make_room_for_session(self.most_sessions);
                let identity = clitcp::identity("telnet", &socket);
                self.open_session(CliSessionKind::Telnet, identity, socket, None);
            }
            Ok(None) => {}
            // No descriptors, say: it stays readable, so look away for a while.
            Err(e) => {
                print(ReportSeverity::Error, &format!("Cannot take a CLI connection: {e}"));
                self.timers.cli_pause = self.now() + ACCEPT_PAUSE;
            }
        }
    }

    fn cleanup(&mut self) {
        let vtc_mode = self.debug(DebugBit::VtcMode);
        if let Some(mut memory) = self.memory.take() {
            memory.close(&self.jail, vtc_mode);
        }
        if !self.debug(DebugBit::VclKeep) {
            let files: Vec<PathBuf> = self.vcls.files().cloned().collect();
            files.iter().for_each(|file| self.remove_vcl(file));
        }
        self.jail.privileged(|| {
            if let Some(secret) = self.secret.as_ref().filter(|_| self.secret_is_ours) {
                let _ = std::fs::remove_file(secret);
            }
            for file in self.pid_files.drain(..) {
                file.remove();
            }
        });
        if self.remove_workdir {
            let _ = self.jail.privileged(|| {
                let _ = std::fs::remove_dir("vmod_cache");
                let _ = std::env::set_current_dir("/");
                std::fs::remove_dir(&self.workdir)
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

impl Drop for Manager {
    fn drop(&mut self) {
        self.end_acme();
        self.end_watch();
        self.end_rollout();
        self.end_leaving();
        if self.worker.pid().is_some() {
            let _ = self.worker.reap();
        }
        self.bury_dying(LONGEST_DYING);
        self.cleanup();
    }
}
