// SPDX-License-Identifier: BSD-2-Clause
//! Starting, watching and burying workers.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use base::Real;
use cli::handoff::{ManagerStart, SecretsStart};
use params::{DebugBit, FeatureBit};
use sys::process::{Exit, Spawn};
use sys::{sentinel, signal};

use crate::arenas::{DEATHS, Legacy, WorkerEnd};
use crate::deaths::Death;
use crate::fatal::errno_text;
use crate::handover;
use crate::jail::JailRole;
use crate::manager::Manager;
use crate::memory::ManagerMemory;
use crate::reply::{CliReply, CliStatus, ReplyExt};
use crate::report::{self, ReportSeverity, print};
use crate::upgrade::carried::elapsed;
use crate::worker::WorkerState;

/// A worker that lived shorter than this makes the next one wait.
const SHORT_LIFE: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

const LAUNCH_FAILED: &str =
    "failed on launch, before it got any VCL (it may have logged more above, and a panic is in panic.show)";

/// Exit status bits: a worker ended with a status, by a signal, with a core.
const ENDED: i32 = 0x20;
const KILLED: i32 = 0x40;
const DUMPED: i32 = 0x80;

/// A worker's end, but for how the system saw it.
#[derive(Debug)]
pub struct Departure {
    pub pid: i32,
    pub panic: Vec<u8>,
    pub end: WorkerEnd,
    pub legacy: Legacy,
    pub at: Real,
    pub lived: Duration,
}

impl Departure {
    pub fn panic_text(&self) -> Option<String> {
        panic_text(self.at, &self.panic)
    }
}

impl Manager {
    pub(crate) fn launch_worker(&mut self) -> CliReply {
        if !matches!(self.worker.state, WorkerState::Stopped | WorkerState::Died) {
            return CliReply::ok("");
        }
        let reply = self.try_launch();
        self.count(|m| m.tidy(&self.jail));
        reply
    }

    fn try_launch(&mut self) -> CliReply {
        self.worker.state = WorkerState::Starting;
        self.ended.restart = None;
        self.worker.started = self.now();
        let (pid, start) = match self.spawn_worker() {
            Ok(started) => started,
            Err(e) => {
                let text = format!("Could not start the child: {}", errno_text(&e));
                print(ReportSeverity::Error, &text);
                self.forget_child_memory();
                self.worker.state = WorkerState::Stopped;
                return CliReply::new(CliStatus::Cant, text);
            }
        };
        print(ReportSeverity::Debug, &format!("Child ({pid}) Started"));
        self.count(|m| m.counters.child_start.inc());
        let greeting = self.worker.hand_over(&start);
        if !greeting.is_ok() {
            return self.failed_start(pid, LAUNCH_FAILED, greeting);
        }
        report::stderr("Child launched OK");
        if let Err(reason) = self.push_origin_keys() {
            return self.failed_start(pid, "Pushing keys of backends failed", CliReply::cant(reason));
        }
        for line in self.vcls.push_lines() {
            let answer = self.worker.command(&line);
            if !answer.is_ok() {
                return self.failed_start(pid, "Pushing vcls failed", answer);
            }
        }
        for line in self.challenge_lines() {
            // An order that fails for lack of an answer is tried again.
            let _ = self.worker.command(line);
        }
        self.carry_health();
        if self.is_draining() {
            // A worker that doesn't know the command is of an older program.
            let _ = self.worker.command("drain on");
        }
        if let Err(answer) = self.have_it_hand_over() {
            return self.failed_start(pid, "The previous child can't hand over its objects", answer);
        }
        let answer = self.worker.command("start");
        if !answer.is_ok() {
            return self.failed_start(pid, "Acceptor start failed", answer);
        }
        self.worker.state = WorkerState::Running;
        self.schedule_ping();
        CliReply::ok("")
    }

    fn failed_start(&mut self, pid: i32, what: &str, answer: CliReply) -> CliReply {
        print(ReportSeverity::Error, &format!("Child ({pid}) {what}:\n{}", answer.text()));
        self.end_worker(WorkerEnd::Unserving);
        CliReply::new(if answer.is_ok() { CliStatus::Cant } else { answer.status }, answer.body)
    }

    fn spawn_worker(&mut self) -> std::io::Result<(i32, Vec<u8>)> {
        let jail = self.jail.clone();
        let memory = self.server.memory.as_mut().expect("memory exists before any worker");
        let panic = memory.child_new(&jail)?;
        let (ours, theirs) = sys::fd::socket_pair()?;
        let (output, printed) = sys::fd::pipe()?;
        let null = std::fs::File::open("/dev/null")?;
        let depth = self.params.listen_depth.min(i32::MAX as u32) as i32;
        self.listening.listeners.iter_mut().try_for_each(|listener| listener.listen(depth, &jail))?;
        let ends = self.relay_ends()?;
        self.storage.complete_arenas();
        let pipes: Vec<_> = (0..sentinel::COUNT).map(|_| sys::fd::pipe()).collect::<std::io::Result<_>>()?;
        let (sentinels, held): (Vec<OwnedFd>, Vec<OwnedFd>) = pipes.into_iter().unzip();
        let secrets = self.secrets_end()?;
        self.begin_signer()?;
        let certificates = self.certificates_for_worker()?;
        let held_numbers = held.iter().map(AsRawFd::as_raw_fd).collect();
        if let Some(quic) = &mut self.listening.quic {
            quic.begin_worker(self.upgrade.is_taking_over, !self.upgrade.leaving.is_empty());
        }
        let certificates_fd = certificates.as_ref().map(AsRawFd::as_raw_fd);
        let ticket_keys_fd = self.tls.ticket_keys.file().map(AsRawFd::as_raw_fd);
        let start = handover::gather(
            self,
            ManagerStart { pid: std::process::id(), panic_fd: Some(panic.as_raw_fd()), sentinel_fds: held_numbers },
            SecretsStart { certificates_fd, ticket_keys_fd, socket_fd: Some(secrets.as_raw_fd()) },
            &ends,
        );
        let mut arguments = std::env::args_os();
        let mut spawn = Spawn::new(&self.server.exe, arguments.next().unwrap_or_else(|| "varnishd".into()))?
            .env(handover::SOCKET, &theirs.as_raw_fd().to_string())?
            .standard(0, null.as_fd())
            .standard(1, printed.as_fd())
            .standard(2, printed.as_fd())
            .keep(theirs.as_fd())
            .keep(panic.as_fd())
            .credentials(jail.credentials(JailRole::Worker))
            .still_blocked(&[signal::SIGTERM, signal::SIGINT])
            .oom_score(oom_score());
        if self.params.feature.has(FeatureBit::NoCoredump) {
            spawn = spawn.no_core();
        }
        for arg in arguments {
            spawn = spawn.arg(arg)?;
        }
        for socket in self.listening.listeners.iter().flat_map(|listener| &listener.sockets) {
            spawn = spawn.keep(socket.as_fd());
        }
        let secret = certificates.iter().chain(self.tls.ticket_keys.file()).map(AsFd::as_fd);
        for fd in secret.chain([secrets.as_fd()]) {
            spawn = spawn.keep(fd);
        }
        let inherited = self.storage.descriptors().chain(held.iter().map(AsFd::as_fd)).chain(ends.descriptors());
        for fd in inherited {
            spawn = spawn.keep(fd);
        }
        let child = jail.privileged(|| spawn.start())?;
        let pid = child.pid();
        self.worker.adopt(child, ours, output);
        self.worker.watch(sentinels);
        Ok((pid, start.message()))
    }

    pub(crate) fn count(&self, what: impl FnOnce(&ManagerMemory)) {
        if let Some(memory) = &self.server.memory {
            what(memory);
        }
    }

    fn forget_child_memory(&mut self) {
        let keep = self.debug(DebugBit::VtcMode);
        if let Some(memory) = &mut self.server.memory {
            memory.child_gone(&self.jail, keep);
        }
    }

    pub(crate) fn schedule_ping(&mut self) {
        let interval = Duration::from_secs(u64::from(self.params.ping_interval));
        self.worker.ping = (!interval.is_zero()).then(|| self.now() + interval);
    }

    pub(crate) fn ping_worker(&mut self) {
        self.worker.ping = None;
        if self.worker.state != WorkerState::Running {
            return;
        }
        let answer = self.worker.command("ping");
        if !answer.is_ok() || !answer.text().starts_with("PONG ") {
            let text = format!("Unexpected reply from ping: {} {}", answer.status as u16, answer.text());
            print(ReportSeverity::Error, &text);
            if answer.status != CliStatus::Comms {
                self.worker.give_up();
            }
        }
        self.schedule_ping();
    }

    pub(crate) fn stop_worker(&mut self) {
        self.end_worker(WorkerEnd::Asked);
    }

    fn end_worker(&mut self, end: WorkerEnd) {
        self.ended.restart = None;
        if self.worker.state == WorkerState::Died {
            self.worker.state = WorkerState::Stopped;
        }
        if !matches!(self.worker.state, WorkerState::Running | WorkerState::Starting) {
            return;
        }
        self.worker.state = WorkerState::Stopping;
        print(ReportSeverity::Debug, "Stopping Child");
        if !self.upgrade.is_taking_over {
            self.end_leaving();
        }
        self.reap_worker(end);
    }

    /// Waits for the worker's end, says how it was, and starts the next one if one is due.
    pub(crate) fn reap_worker(&mut self, end: WorkerEnd) {
        if let Some((pid, exit)) = self.worker.reap() {
            let end = if exit == Exit::Status(0) { end } else { end.of_its_own() };
            let departure = self.depart(pid, end);
            self.obituary(&departure, exit);
            self.settle_legacy(departure.legacy);
            if let Some(text) = departure.panic_text() {
                self.note_panic(text.clone());
                self.tell_panic(pid, text);
            }
        }
        self.be_without_worker();
    }

    /// Facts about a worker that runs no more, taken while its memory is there.
    pub(crate) fn depart(&mut self, pid: i32, end: WorkerEnd) -> Departure {
        let now = self.now();
        Departure {
            pid,
            panic: self.server.memory.as_ref().map(ManagerMemory::panic_text).unwrap_or_default(),
            end,
            legacy: self.storage.succession.ended(end, now),
            at: self.clock.real(),
            lived: elapsed(self.worker.started, now),
        }
    }

    /// Clears up behind it, and has the next one started if one is due.
    pub(crate) fn be_without_worker(&mut self) {
        (self.worker.ping, self.ended.look) = (None, None);
        self.forget_child_memory();
        print(ReportSeverity::Debug, "Child cleanup complete");
        match self.worker.state {
            WorkerState::Running if self.params.auto_restart => {
                self.worker.state = WorkerState::Died;
                let wait = self.restart_wait();
                self.ended.restart = Some(self.now() + wait);
            }
            WorkerState::Running | WorkerState::Stopping | WorkerState::Starting => {
                self.worker.state = WorkerState::Stopped;
                self.reopen_listeners();
                self.count(|m| m.tidy(&self.jail));
            }
            WorkerState::Stopped | WorkerState::Died => {}
        }
    }

    pub(crate) fn settle_legacy(&mut self, legacy: Legacy) {
        if legacy == Legacy::Distrusted {
            self.count(|m| m.counters.child_distrust.inc());
            let text = format!("Child died {DEATHS} times within a minute: the next one starts with empty stores");
            print(ReportSeverity::Error, &text);
        }
        self.storage.settle(legacy);
    }

    /// Reopens the listeners, so that no client waits for a worker that isn't going to come.
    fn reopen_listeners(&mut self) {
        // With another worker beside it the sockets are that one's.
        if self.server.is_ending || self.upgrade.is_taking_over {
            return;
        }
        for listener in &mut self.listening.listeners {
            if let Err(e) = listener.reopen(&self.jail) {
                let text = format!("Could not reopen listen socket {}: {}", listener.endpoint, errno_text(&e));
                print(ReportSeverity::Error, &text);
            }
        }
    }

    /// The first restart comes at once; workers that die young make the next ones wait longer and longer.
    fn restart_wait(&mut self) -> Duration {
        if self.now() > self.worker.started + SHORT_LIFE {
            self.ended.restarts = 0;
        }
        self.ended.restarts = self.ended.restarts.saturating_add(1);
        match self.ended.restarts {
            1 => Duration::ZERO,
            n => Duration::from_millis(100 << (n - 2).min(10)).min(LONGEST_WAIT),
        }
    }

    pub(crate) fn restart_worker(&mut self) {
        self.ended.restart = None;
        if self.worker.state != WorkerState::Died {
            return;
        }
        let reply = self.launch_worker();
        if !reply.is_ok() && self.params.auto_restart {
            // The cause may pass (no memory, no descriptors): try again, slower.
            self.worker.state = WorkerState::Died;
            let wait = self.restart_wait();
            self.ended.restart = Some(self.now() + wait);
        }
    }

    pub(crate) fn obituary(&mut self, departure: &Departure, exit: Exit) {
        let pid = departure.pid;
        let mut text = format!("Child ({pid}) ");
        let cause = cause_of(exit, &departure.panic);
        let keeps_cores = !self.params.feature.has(FeatureBit::NoCoredump);
        match exit {
            Exit::Status(0) => text.push_str("ended"),
            Exit::Status(status) => {
                text.push_str(&format!("died status={status}"));
                self.ended.exit_status |= ENDED;
                self.count(|m| if status == 1 { m.counters.child_exit.inc() } else { m.counters.child_stop.inc() });
            }
            Exit::Signal(signal, core) => {
                text.push_str(&format!("died signal={signal}"));
                self.ended.exit_status |= KILLED;
                self.count(|m| m.counters.child_died.inc());
                if core {
                    text.push_str(" (core dumped)");
                    self.ended.exit_status |= if keeps_cores { DUMPED } else { 0 };
                    self.count(|m| m.counters.child_dump.inc());
                }
            }
        }
        if let Some(cause) = &cause {
            text.push_str(&format!(": {cause}"));
        }
        print(if exit == Exit::Status(0) { ReportSeverity::Info } else { ReportSeverity::Error }, &text);
        let how = text.split_once(") ").map_or(text.as_str(), |(_, how)| how).to_owned();
        self.ended.deaths.note(Death {
            at: departure.at,
            lived: departure.lived,
            pid,
            how,
            was_asked: departure.end != WorkerEnd::Died,
            emptied: departure.legacy == Legacy::Distrusted,
        });
    }

    /// `panic.show` shows it from now on.
    pub(crate) fn note_panic(&mut self, text: String) {
        self.count(|m| m.counters.child_panic.inc());
        self.ended.panic = Some(text);
    }
}

/// Last words as they are shown, if there are any.
pub(crate) fn panic_text(at: Real, panic: &[u8]) -> Option<String> {
    (!panic.is_empty()).then(|| format!("Panic at: {}\n{}", message::date::text(at), printable(panic)))
}

pub(crate) fn print_panic(pid: i32, text: &str) {
    print(ReportSeverity::Error, &format!("Child ({pid}) {text}"));
}

/// The cause of a worker's end in one line, as far as it is known.
fn cause_of(exit: Exit, panic: &[u8]) -> Option<String> {
    let panic = printable(panic);
    let mut lines = panic.lines();
    if let Some(first) = lines.next() {
        let transaction = lines.find(|line| line.starts_with("transaction = ")).map(|line| format!(" ({line})"));
        return Some(format!("{first}{}", transaction.unwrap_or_default()));
    }
    match exit {
        Exit::Signal(signal::SIGKILL, _) => Some("killed from outside, or by the kernel for lack of memory".to_owned()),
        Exit::Signal(signal::SIGQUIT, _) => Some("stopped by the manager because it didn't reply".to_owned()),
        Exit::Signal(..) | Exit::Status(_) => None,
    }
}

/// The worker is what memory is taken from first.
fn oom_score() -> i32 {
    let own = std::fs::read_to_string("/proc/self/oom_score_adj").ok().and_then(|t| t.trim().parse::<i32>().ok());
    (own.unwrap_or(0) + 200).min(1000)
}

/// Text with what terminals might act on escaped.
fn printable(text: &[u8]) -> String {
    let mut out = String::new();
    for c in String::from_utf8_lossy(text).chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out
}
