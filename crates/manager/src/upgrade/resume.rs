// SPDX-License-Identifier: BSD-2-Clause
//! The other side of an upgrade: a manager of the state that the program before it left.
//!
//! The descriptors that the state names stay open beside the manager's own copies until the new worker serves: when it
//! can't, or anything else goes wrong or panics, the program of before takes over again, with the reason.

use std::fs::File;
use std::io::{Read, Seek};
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;

use base::clock::{Clock, Mono, Real};
use params::Params;
use shm::vsm::SharedSegment;
use sys::pidfile::PidFile;
use sys::process::{Child, Executable};
use sys::signal::{self, SIGHUP, SIGINT, SIGTERM, Signals};
use sys::sock::SocketName;

use super::leaving::Leaving;
use super::state::{Listening, RunningWorker, UpgradeState};
use super::{FAILED, STATE, Upgrade, exec};
use crate::acme::Acme;
use crate::arenas::{ArenaSuccession, Arenas};
use crate::certs::Certs;
use crate::certs::config::CertsConfig;
use crate::clitcp::Masters;
use crate::deaths::{Death, Deaths};
use crate::fatal::{Fatal, argument, errno_text};
use crate::jail::Jail;
use crate::listen::{BoundListener, Permissions};
use crate::manager::{Manager, Timers};
use crate::memory::{ManagerMemory, WORKER_DIR};
use crate::options::{ManagerOptions, OrderedArg, StartMode};
use crate::reply::{CliReply, ReplyExt};
use crate::report::{self, ReportSeverity, print};
use crate::session::Session;
use crate::signer::Signers;
use crate::storefile::StoreFile;
use crate::ticketkeys::TicketKeys;
use crate::usage::OWN_VERSION;
use crate::vcls::ManagerVcls;
use crate::worker::{ManagedWorker, WorkerState as Life};

#[derive(Debug)]
pub struct Inherited {
    file: File,
    /// The other program failed, as this says.
    failed: Option<String>,
}

/// The state's file. Call it first of all, while the process has one thread.
pub fn inherited() -> Result<Option<Inherited>, Fatal> {
    let failed = sys::process::take_env(FAILED).map(|reason| reason.to_string_lossy().into_owned());
    let Some(number) = sys::process::take_env(STATE) else { return Ok(None) };
    let number = number.to_str().and_then(|number| number.parse().ok());
    let file = number.map(sys::fd::inherit);
    match file {
        Some(Ok(file)) => Ok(Some(Inherited { file: file.into(), failed })),
        Some(Err(_)) | None => {
            argument(format!("The variable {STATE} of the environment names no state of an upgrade"))
        }
    }
}

/// The arguments of varnishd among those of a command line: without `serve` of `lacquer serve`.
pub fn varnishd_args(args: &[String]) -> Vec<String> {
    match args {
        [first, rest @ ..] if first == "serve" => rest.to_vec(),
        all => all.to_vec(),
    }
}

/// Goes on where the program before this one was; the value is the exit status.
pub fn resume(options: &ManagerOptions, mut inherited: Inherited) -> Result<i32, Fatal> {
    report::configure(matches!(options.mode, StartMode::Debug | StartMode::Foreground), true);
    sys::syslog::open("varnishd");
    let mut bytes = Vec::new();
    let read = inherited.file.rewind().and_then(|()| inherited.file.read_to_end(&mut bytes));
    read.or_else(|e| argument(format!("Cannot read the state of the upgrade: {}", errno_text(&e))))?;
    let state = UpgradeState::decode(&bytes).map_err(|e| Fatal::Argument(e.to_string()))?;
    let jail = match Jail::enter(options.jail.as_deref()) {
        Ok(jail) => Rc::new(jail),
        Err(fatal) => return Err(roll_back(&Jail::None, &state, &inherited, &fatal.to_string())),
    };
    let attempt =
        catch_unwind(AssertUnwindSafe(|| take_over(options, &state, jail.clone(), inherited.failed.is_some())));
    let reason = match attempt {
        Ok(Ok((manager, signals))) => {
            let mut manager = ManuallyDrop::into_inner(manager);
            manager.commit(&state, inherited);
            return Ok(manager.run(signals));
        }
        Ok(Err(reason)) => reason,
        Err(_) => "it panicked".to_owned(),
    };
    Err(roll_back(&jail, &state, &inherited, &reason))
}

/// Becomes the program of before again; what is said when even that fails.
fn roll_back(jail: &Jail, state: &UpgradeState, inherited: &Inherited, reason: &str) -> Fatal {
    print(ReportSeverity::Error, &format!("The upgrade failed: {reason}"));
    if inherited.failed.is_some() {
        return Fatal::Plain(2, format!("Neither program could take over: {reason}"));
    }
    // Its state names the same numbers, which are still open.
    let error = match sys::fd::duplicate_inherited(state.writer_file) {
        Ok(before) => jail.privileged(|| exec(&Executable::from(before), state, &inherited.file, Some(reason))),
        Err(error) => error,
    };
    Fatal::Plain(2, format!("The old program can't be started again: {}", errno_text(&error)))
}

type Resumed = (ManuallyDrop<Manager>, Signals);

/// A manager of the state, with a worker that serves: a new one, or after a failure the one that was there.
fn take_over(options: &ManagerOptions, state: &UpgradeState, jail: Rc<Jail>, failed: bool) -> Result<Resumed, String> {
    let manager = build(options, state, jail)?;
    // Its end would be the worker's.
    let mut manager = ManuallyDrop::new(manager);
    manager.params_changed();
    manager.publish_memory(state).map_err(|e| format!("shared memory: {}", errno_text(&e)))?;
    let _ = signal::ignore(SIGHUP);
    let signals = Signals::new(&[SIGTERM, SIGINT]).map_err(|e| format!("signals: {e}"))?;
    manager.use_kept_certificates();
    manager.take_workers(state, failed)?;
    Ok((manager, signals))
}

fn signers(state: &UpgradeState) -> Result<Signers, String> {
    let current = state.signer.map(|(pid, fd)| Ok::<_, String>((pid, copy(fd)?))).transpose()?;
    Signers::resume(current, &state.leaving_signers).map_err(|e| format!("the signer: {}", errno_text(&e)))
}

fn copy(fd: i32) -> Result<OwnedFd, String> {
    sys::fd::duplicate_inherited(fd).map_err(|e| format!("descriptor {fd}: {}", errno_text(&e)))
}

/// The ACME client for the command line and the present file of -A.
fn acme(options: &ManagerOptions, jail: &Jail) -> Result<Option<Acme>, String> {
    let path = options.ordered.iter().find_map(|item| match item {
        OrderedArg::Tls(path) => Some(path),
        _ => None,
    });
    let config = path.map(|path| CertsConfig::read(path, jail)).transpose().map_err(|fatal| fatal.to_string())?;
    Acme::open(&options.acme, config.as_ref().map(CertsConfig::acme).unwrap_or_default(), jail)
}

fn build(options: &ManagerOptions, state: &UpgradeState, jail: Rc<Jail>) -> Result<Manager, String> {
    let clock = Clock::system();
    let now = clock.mono();
    let mut params = Params::decode(&state.params).map_err(|e| e.to_string())?;
    if !state.protected.is_empty() {
        params.protect(&state.protected.join(",")).map_err(|e| e.to_string())?;
    }
    let copy_all = |fds: &[i32]| fds.iter().map(|fd| copy(*fd)).collect::<Result<Vec<_>, _>>();
    let store_files = state.stores.iter().map(|store| {
        let file = copy(store.file)?.into();
        Ok(StoreFile { store: store.store.clone(), file, bytes: store.bytes, life: store.life })
    });
    let arenas = state.arenas.iter().map(|(store, fd)| Ok((store.clone(), copy(*fd)?.into())));
    let journal = state.journal.map(copy).transpose()?.map(File::from);
    let journal_file = state.journal_file.map(copy).transpose()?.map(File::from);
    let relay = state.relay.map(copy).transpose()?;
    let write_lock = state.write_lock.map(copy).transpose()?.map(File::from);
    let certs = state.certificates.map(copy).transpose()?.map(File::from);
    let certs = certs.map(Certs::resume).transpose()?.unwrap_or_default();
    let vcls = ManagerVcls::from_parts(&state.vcls, state.active.clone(), state.booted, now);
    if certs.is_on() || vcls.as_ref().is_some_and(|vcls| vcls.keys().next().is_some()) {
        // An exec allows them again.
        jail.forbid_cores().map_err(|e| format!("can't disable core dumps: {}", errno_text(&e)))?;
    }
    let ticket_keys = state.ticket_keys.map(copy).transpose()?.map(File::from);
    let resumed = |file| TicketKeys::resume(file, state.ticket_file.clone(), state.ticket_due, now);
    let ticket_keys = ticket_keys.map(resumed).transpose()?;
    let pid_files = state.pid_files.iter().map(|(path, fd)| {
        PidFile::resume(copy(*fd)?, path).map_err(|e| format!("{}: {}", path.display(), errno_text(&e)))
    });
    let sessions =
        state.sessions.iter().map(|session| Session::from_parts(session, now)).collect::<Result<Vec<_>, _>>()?;
    let masters: Vec<SocketAddr> = state.masters.iter().filter_map(|address| address.parse().ok()).collect();
    let deaths = state.deaths.iter().map(|d| Death {
        at: Real(d.at),
        lived: d.lived,
        pid: d.pid,
        how: d.how.clone(),
        was_asked: d.was_asked,
        emptied: d.emptied,
    });
    Ok(Manager {
        exe: Executable::open_self().map_err(|e| format!("my own executable: {}", errno_text(&e)))?,
        worker: ManagedWorker::new(jail.clone()),
        params,
        printed_param_notes: state.notes.iter().cloned().collect(),
        stores: super::trial::stores_of(&options.ordered)?,
        store_files: store_files.collect::<Result<_, String>>()?,
        journal_file,
        write_lock,
        certs,
        ticket_keys: ticket_keys.unwrap_or_default(),
        secrets: state.secrets.map(copy).transpose()?,
        signers: signers(state)?,
        arenas: Arenas::from_parts(arenas.collect::<Result<_, String>>()?, journal),
        succession: ArenaSuccession::resume(state.after_death),
        listeners: state.listeners.iter().map(listener).collect::<Result<_, _>>()?,
        workdir: state.workdir.clone(),
        identity: state.identity.clone(),
        vident: state.vident.clone(),
        vcls: vcls.ok_or("the VCLs of the state make no sense")?,
        memory: None,
        panic: state.panic.clone(),
        deaths: Deaths::from_parts(deaths, state.total_deaths, state.recent_deaths.iter().map(|at| Real(*at))),
        exit_status: state.exit_status,
        dying: Vec::new(),
        naming: Default::default(),
        secret: state.secret.clone(),
        secret_is_ours: state.secret_is_ours,
        pid_files: pid_files.collect::<Result<_, String>>()?,
        cli_sockets: copy_all(&state.cli_sockets)?,
        masters: Masters::resume(masters, sessions.iter().any(Session::is_master), now),
        sessions,
        most_sessions: crate::manager::most_sessions(),
        timers: Timers { started: now.plus(-state.uptime), ..Timers::new(now) },
        restarts: state.restarts,
        quic: state.quic,
        class_key: state.class_key,
        fleet: crate::fleet::read(options.fleet.as_deref(), &jail).map_err(|reason| format!("--fleet {reason}"))?,
        peers: crate::peers::read(options.peers.as_deref(), options.fleet.as_deref(), &jail)
            .map_err(|reason| format!("--peers {reason}"))?,
        remove_workdir: false,
        ending: false,
        upgrade: Upgrade { program: state.program.clone(), relay, ..Upgrade::default() },
        acme: acme(options, &jail)?,
        agent: crate::rollout::agent(),
        trial: crate::rollout::NodeTrial::default(),
        watcher: crate::watch::Watcher::new(
            options.watch.as_deref().map(crate::watch::words).transpose()?.unwrap_or_default(),
            state.watch_history.map(copy).transpose()?,
        ),
        jail,
        clock,
    })
}

fn listener(listening: &Listening) -> Result<BoundListener, String> {
    let address = match listening.is_uds {
        true => SocketName::Unix(listening.address.clone()),
        false => {
            let text = listening.address.to_string_lossy();
            SocketName::Inet(text.parse().map_err(|_| format!("{text} is no address of a listener"))?)
        }
    };
    Ok(BoundListener {
        name: listening.name.clone(),
        transport: listening.transport,
        address,
        endpoint: listening.endpoint.clone(),
        sockets: listening.sockets.iter().map(|fd| copy(*fd)).collect::<Result<_, _>>()?,
        permissions: Permissions::from_numbers(listening.permissions),
    })
}

impl Manager {
    fn publish_memory(&mut self, state: &UpgradeState) -> std::io::Result<()> {
        let mut memory = ManagerMemory::create_beside(&self.jail, &self.identity)?;
        let mut lines = String::new();
        for socket in &self.cli_sockets {
            if let Ok(SocketName::Inet(bound)) = sys::sock::local_name(socket) {
                lines.push_str(&format!("{} {}\n", bound.ip(), bound.port()));
            }
        }
        if !lines.is_empty() {
            memory.publish("-T", &lines)?;
        }
        if let Some(path) = &self.secret {
            memory.publish("-S", &path.to_string_lossy())?;
        }
        memory.set_values(&state.counters);
        self.memory = Some(memory);
        Ok(())
    }

    /// The workers that run; and beside the present one a new one, unless that has `failed`.
    fn take_workers(&mut self, state: &UpgradeState, failed: bool) -> Result<(), String> {
        let has_present = state.worker_state == Life::Running.word();
        let (present, older) = match &state.workers[..] {
            [present, older @ ..] if has_present => (Some(present), older),
            older => (None, older),
        };
        for worker in older {
            let leaving = self.leaving_worker(worker)?;
            self.upgrade.leaving.push(leaving);
        }
        match present {
            None => {
                if state.worker_state == Life::Died.word() {
                    self.worker.state = Life::Died;
                    self.timers.restart = Some(self.now());
                }
                Ok(())
            }
            Some(present) if failed => self.keep_worker(present),
            Some(present) => self.replace_worker(present),
        }
    }

    fn leaving_worker(&self, running: &RunningWorker) -> Result<Leaving, String> {
        let now = self.now();
        let mut worker = ManagedWorker::new(self.jail.clone());
        let child = Child::adopt(running.pid).map_err(|e| format!("worker {}: {}", running.pid, errno_text(&e)))?;
        worker.adopt(child, copy(running.cli)?, copy(running.output)?);
        (worker.reply_timeout, worker.grace) = (self.params.cli_timeout, self.params.shutdown_grace);
        let panic_file = copy(running.panic)?;
        let panic = sys::fd::duplicate(&panic_file).and_then(SharedSegment::from_fd);
        Ok(Leaving {
            worker,
            panic: panic.map_err(|e| format!("worker {}: {}", running.pid, errno_text(&e)))?,
            panic_file,
            memory: running.memory.clone(),
            started: now.plus(-running.lived),
            until: running.leaves_in.map_or(Mono(f64::MAX), |seconds| now.plus(seconds)),
            hands_over: running.hands_over,
        })
    }

    /// The other program failed: the worker that was there goes on.
    fn keep_worker(&mut self, running: &RunningWorker) -> Result<(), String> {
        let Leaving { worker, panic_file, started, .. } = self.leaving_worker(running)?;
        self.worker = worker;
        self.worker.state = Life::Running;
        self.timers.worker_started = started;
        self.undo_handover();
        let aside = aside_of(running.pid);
        // The other program may have failed before it moved the directory.
        if is_memory_of(&aside, running.pid) {
            crate::workdir::remove_tree(Path::new(WORKER_DIR), &self.jail);
            let _ = self.jail.privileged(|| std::fs::rename(&aside, WORKER_DIR));
        }
        if let Some(memory) = &mut self.memory {
            memory.child_inherited(panic_file).map_err(|e| errno_text(&e))?;
        }
        self.schedule_ping();
        Ok(())
    }

    fn replace_worker(&mut self, running: &RunningWorker) -> Result<(), String> {
        let mut leaving = self.leaving_worker(running)?;
        leaving.memory = aside_of(running.pid).into();
        self.jail
            .privileged(|| std::fs::rename(WORKER_DIR, &leaving.memory))
            .map_err(|e| format!("{WORKER_DIR}: {}", errno_text(&e)))?;
        // Those of before the present one; it is asked later.
        self.prepare_handover();
        self.upgrade.leaving.push(leaving);
        self.upgrade.is_taking_over = true;
        let started = self.launch_worker();
        if started.is_ok() { Ok(()) } else { Err(format!("its worker: {}", started.text().trim_end())) }
    }

    /// There is no way back from here: the worker of before leaves, and who asked gets the answer.
    fn commit(&mut self, state: &UpgradeState, inherited: Inherited) {
        for fd in state.descriptors() {
            drop(sys::fd::inherit(fd));
        }
        let text = match (&inherited.failed, self.upgrade.is_taking_over) {
            (Some(reason), _) => format!("Not upgraded to {}: {reason}", state.program.display()),
            (None, true) => self.dismiss_worker(&state.writer),
            (None, false) => format!("Upgraded from {} to {OWN_VERSION}; no worker runs.", state.writer),
        };
        let severity = if inherited.failed.is_some() { ReportSeverity::Error } else { ReportSeverity::Info };
        print(severity, &text);
        let reply = if inherited.failed.is_some() { CliReply::cant(text) } else { CliReply::ok(format!("{text}\n")) };
        self.upgrade.is_taking_over = false;
        self.limit_leaving();
        self.begin_acme();
        self.begin_watch();
        self.begin_rollout();
        if let Some(at) = state.sessions.iter().position(|session| session.asks) {
            self.answer_session(at, reply);
        }
    }

    /// Has the worker whose place was taken accept no more; returns a message.
    fn dismiss_worker(&mut self, writer: &str) -> String {
        let (now, limit) = (self.now(), self.params.upgrade_drain);
        // A worker that can't be told ends, as ever, and the next one needs no leave.
        let _ = self.worker.command("debug.handover commit");
        let new = self.worker.pid().unwrap_or_default();
        let Some(leaving) = self.upgrade.leaving.last_mut() else { return String::new() };
        leaving.until = now + limit;
        let old = leaving.worker.pid().unwrap_or_default();
        let answer = leaving.worker.command(format!("debug.drain {:.3}", limit.as_secs_f64()));
        if !answer.is_ok() {
            // It is on its way out, or can't be talked to: then it is to end at once.
            print(
                ReportSeverity::Error,
                &format!("Child ({old}) from before the upgrade: {}", answer.text().trim_end()),
            );
            leaving.until = now;
        }
        format!(
            "Upgraded from {writer} to {OWN_VERSION}: worker {new} serves, worker {old} ends with its connections, or in {} s.",
            limit.as_secs()
        )
    }
}

/// True if this directory holds the shared memory of that worker, as its index says.
fn is_memory_of(dir: &str, pid: i32) -> bool {
    let index = std::fs::read_to_string(Path::new(dir).join("_.index")).unwrap_or_default();
    index.starts_with(&format!("# {pid} "))
}

fn aside_of(pid: i32) -> String {
    format!("{WORKER_DIR}.{pid}")
}
