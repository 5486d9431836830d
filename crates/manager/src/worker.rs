// SPDX-License-Identifier: BSD-2-Clause
//! The worker as the manager sees it: its process, the CLI to it, what it prints, and how it ends.
//!
//! ```text
//! Stopped ──start──▶ Starting ──ready──▶ Running ──stop──▶ Stopping ──▶ Stopped
//!    ▲                   │                  │
//!    └──── ended ────────┘◀─── Died ◀─ ended┘   (Died ──▶ Starting with auto_restart, else Stopped)
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use base::clock::Mono;
use params::Params;
use sys::fd::Interest;
use sys::process::{Child, Exit};
use sys::signal;

use crate::fatal::errno_text;
use crate::jail::Jail;
use crate::reply::{CliReply, CliStatus};
use crate::report::{ReportSeverity, print};
use crate::vcls::WorkerCli;

pub mod lines;

use lines::LineCollector;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// None runs, and none is wanted.
    Stopped,
    Starting,
    Running,
    Stopping,
    Died,
}

impl WorkerState {
    pub fn word(self) -> &'static str {
        match self {
            WorkerState::Stopped => "stopped",
            WorkerState::Starting => "starting",
            WorkerState::Running => "running",
            WorkerState::Stopping => "stopping",
            WorkerState::Died => "died, (restarting)",
        }
    }
}

#[derive(Debug)]
pub struct WorkerProcess {
    child: Child,
    cli: OwnedFd,
    replies: cli::ReplyDecoder,
    output: OwnedFd,
    output_open: bool,
    lines: LineCollector,
    /// Each hangs up when a thread of it ends ([`sys::sentinel`]).
    sentinels: Vec<OwnedFd>,
}

/// The worker, if there is one, and what was left of the last.
#[derive(Debug)]
pub struct ManagedWorker {
    pub state: WorkerState,
    process: Option<WorkerProcess>,
    jail: Rc<Jail>,
    pub reply_timeout: Duration,
    /// Time that a starting worker has, where that is longer.
    pub startup_timeout: Duration,
    /// Further time to end: parameter `shutdown_grace`.
    pub grace: Duration,
    pub started: Mono,
    pub ping: Option<Mono>,
}

impl ManagedWorker {
    pub fn new(jail: Rc<Jail>) -> ManagedWorker {
        ManagedWorker {
            state: WorkerState::Stopped,
            process: None,
            jail,
            reply_timeout: Duration::from_secs(60),
            startup_timeout: Duration::ZERO,
            grace: Duration::ZERO,
            started: Mono::default(),
            ping: None,
        }
    }

    /// Takes over a started process: our end of its CLI, and the read end of its output.
    pub fn adopt(&mut self, child: Child, cli: OwnedFd, output: OwnedFd) {
        assert!(self.process.is_none(), "one worker at a time");
        let _ = sys::fd::set_nonblocking(&output, true);
        self.process = Some(WorkerProcess {
            child,
            cli,
            replies: cli::ReplyDecoder::new(),
            output,
            output_open: true,
            lines: LineCollector::default(),
            sentinels: Vec::new(),
        });
    }

    /// Sets the times that parameters say. A worker that goes on over an upgrade gets them, too.
    pub fn take_times(&mut self, params: &Params) {
        self.reply_timeout = params.cli_timeout;
        self.startup_timeout = params.startup_timeout;
        self.grace = params.shutdown_grace;
    }

    /// Keeps the sentinels, which tell early that it ends.
    pub fn watch(&mut self, sentinels: Vec<OwnedFd>) {
        if let Some(process) = &mut self.process {
            process.sentinels = sentinels;
        }
    }

    /// True once, when it is known to have begun to end.
    pub fn begins_to_end(&mut self) -> bool {
        let Some(process) = &mut self.process else { return false };
        let begins = process.begins_to_end();
        if begins {
            // They would be ready from now on.
            process.sentinels.clear();
        }
        begins
    }

    /// True if nothing of it runs any more, though it may not count as ended yet.
    pub fn is_dying(&self) -> bool {
        let Some(process) = &self.process else { return false };
        !process.child.has_running_threads().unwrap_or(true)
    }

    /// Takes the rest of a dying worker. Its CLI is closed.
    pub fn take_dying(&mut self) -> Option<LingeringProcess> {
        self.process.take().map(LingeringProcess::from)
    }

    pub fn parts(&self) -> Option<(i32, BorrowedFd<'_>, BorrowedFd<'_>)> {
        self.process.as_ref().map(|p| (p.child.pid(), p.cli.as_fd(), p.output.as_fd()))
    }

    pub fn pid(&self) -> Option<i32> {
        self.process.as_ref().map(|p| p.child.pid())
    }

    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let Some(process) = &self.process else { return Vec::new() };
        let mut fds = vec![process.child.as_fd()];
        if process.output_open {
            fds.push(process.output.as_fd());
        }
        fds.extend(process.sentinels.iter().map(AsFd::as_fd));
        fds
    }

    /// Waits for a while, or until it prints or ends; relays what it printed.
    pub fn wait_output(&mut self, limit: Duration) {
        let wants: Vec<_> = self.descriptors().into_iter().map(|fd| (fd, Interest::Read)).collect();
        let _ = sys::fd::wait_any(&wants, Some(limit));
        drop(wants);
        self.relay_output();
    }

    pub fn relay_output(&mut self) {
        if let Some(process) = &mut self.process {
            process.relay_output();
        }
    }

    pub fn has_ended(&self) -> bool {
        let Some(process) = &self.process else { return false };
        sys::fd::wait(&process.child, Interest::Read, Some(Duration::ZERO)).unwrap_or(true)
    }

    /// Tells a new worker what it has to know and waits for its first word.
    pub fn hand_over(&mut self, message: &[u8]) -> CliReply {
        let patience = self.reply_timeout.max(self.startup_timeout);
        match &mut self.process {
            Some(process) => {
                let reply = match process.send(message, patience) {
                    Ok(()) => process.answer(patience),
                    Err(text) => CliReply::new(CliStatus::Comms, text),
                };
                process.explained(reply)
            }
            None => no_worker(),
        }
    }

    pub fn command(&mut self, line: impl AsRef<[u8]>) -> CliReply {
        let Some(process) = &mut self.process else { return no_worker() };
        let mut bytes = line.as_ref().to_vec();
        if !bytes.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        let reply = match process.send(&bytes, self.reply_timeout) {
            Ok(()) => process.answer(self.reply_timeout),
            Err(text) => CliReply::new(CliStatus::Comms, text),
        };
        if reply.status == CliStatus::Comms {
            self.give_up();
        }
        reply
    }

    pub fn give_up(&mut self) {
        if !matches!(self.state, WorkerState::Running | WorkerState::Starting) {
            return;
        }
        let Some(process) = &self.process else { return };
        let pid = process.child.pid();
        // One that is on its way out needs no help: its own status says more than a signal of ours.
        if process.begins_to_end()
            || sys::fd::wait(&process.child, Interest::Read, Some(Duration::from_millis(200))).unwrap_or(false)
        {
            return;
        }
        match self.jail.privileged(|| process.child.kill(signal::SIGQUIT)) {
            Ok(()) => print(ReportSeverity::Error, &format!("Child ({pid}) not responding to CLI, killed it.")),
            Err(e) => print(ReportSeverity::Error, &format!("Failed to kill child with PID {pid}: {}", errno_text(&e))),
        }
    }

    /// Kills it, and waits until it runs no more: [`ManagedWorker::reap`] says how it went.
    pub fn end_at_once(&mut self) {
        let Some(process) = &self.process else { return };
        let _ = self.jail.privileged(|| process.child.kill(signal::SIGKILL));
        let _ = sys::fd::wait(&process.child, Interest::Read, Some(Duration::from_secs(5)));
    }

    /// Closes the CLI, which asks for an orderly end, waits for it (killing when it takes longer than cli_timeout), and
    /// says how it went: pid and exit.
    pub fn reap(&mut self) -> Option<(i32, Exit)> {
        let mut rest = LingeringProcess::from(self.process.take()?);
        if !rest.wait(self.reply_timeout + self.grace) {
            print(ReportSeverity::Error, &format!("Child ({}) not dying, killing", rest.pid()));
            let _ = self.jail.privileged(|| rest.child.kill(signal::SIGQUIT));
            if !rest.wait(Duration::from_secs(5)) {
                let _ = self.jail.privileged(|| rest.child.kill(signal::SIGKILL));
            }
        }
        Some((rest.pid(), rest.bury()))
    }
}

fn no_worker() -> CliReply {
    CliReply::new(CliStatus::Cant, "")
}

impl WorkerCli for ManagedWorker {
    fn is_running(&self) -> bool {
        self.process.is_some()
    }
    fn ask(&mut self, line: &str) -> CliReply {
        self.command(line)
    }
    fn complain(&mut self, text: &str) {
        print(ReportSeverity::Error, text);
    }
}

fn said(pid: i32, line: &[u8]) {
    print(ReportSeverity::Info, &format!("Child ({pid}) said {}", String::from_utf8_lossy(line)));
}

/// Reads what is there; false when the other end is closed.
fn relay(output: &OwnedFd, lines: &mut LineCollector, pid: i32) -> bool {
    let mut buf = [0; 8192];
    loop {
        match sys::fd::read(output, &mut buf) {
            Ok(0) => return false,
            Ok(n) => lines.feed(&buf[..n], |line| said(pid, line)),
            Err(e) => return e.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}

#[derive(Debug)]
pub struct LingeringProcess {
    child: Child,
    output: OwnedFd,
    output_open: bool,
    lines: LineCollector,
}

impl From<WorkerProcess> for LingeringProcess {
    fn from(process: WorkerProcess) -> LingeringProcess {
        let WorkerProcess { child, output, output_open, lines, .. } = process;
        LingeringProcess { child, output, output_open, lines }
    }
}

impl LingeringProcess {
    pub fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Polls readable once it has ended.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.child.as_fd()
    }

    fn relay(&mut self) {
        self.output_open = self.output_open && relay(&self.output, &mut self.lines, self.child.pid());
    }

    /// True if the process ended in this time. Its output is drained meanwhile, so that it can't hang on that.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let deadline = std::time::Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            let mut wants = vec![(self.child.as_fd(), Interest::Read)];
            if self.output_open {
                wants.push((self.output.as_fd(), Interest::Read));
            }
            match sys::fd::wait_any(&wants, Some(left)) {
                Ok(ready) if ready[0] => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
            if left.is_zero() {
                return false;
            }
            self.relay();
        }
    }

    /// Waits for the end, however long that takes: how it ended. Its last output is relayed.
    pub fn bury(mut self) -> Exit {
        let exit = self.child.wait().unwrap_or(Exit::Status(1));
        self.relay();
        let pid = self.pid();
        self.lines.finish(|line| said(pid, line));
        exit
    }
}

impl WorkerProcess {
    fn relay_output(&mut self) {
        self.output_open = self.output_open && relay(&self.output, &mut self.lines, self.child.pid());
    }

    fn begins_to_end(&self) -> bool {
        self.sentinels.iter().any(|fd| sys::fd::is_hung_up(fd).unwrap_or(true))
    }

    /// The reply; in the place of a broken CLI's, what a process that is ending has said last.
    fn explained(&mut self, reply: CliReply) -> CliReply {
        if reply.status != CliStatus::Comms || !sys::fd::is_hung_up(&self.cli).unwrap_or(true) {
            return reply;
        }
        self.relay_output();
        match self.lines.last() {
            [] => reply,
            line => CliReply::new(CliStatus::Comms, String::from_utf8_lossy(line).into_owned()),
        }
    }

    /// Waits until the CLI is ready, relaying output meanwhile.
    fn wait_cli(&mut self, want: Interest, deadline: std::time::Instant) -> Result<(), String> {
        loop {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            let mut wants = vec![(self.cli.as_fd(), want)];
            wants.extend(self.sentinels.iter().map(|fd| (fd.as_fd(), Interest::Read)));
            if self.output_open {
                wants.push((self.output.as_fd(), Interest::Read));
            }
            let ready = sys::fd::wait_any(&wants, Some(left)).map_err(|e| errno_text(&e))?;
            if ready[0] {
                return Ok(());
            }
            if self.begins_to_end() {
                return Err("CLI communication error (hdr)".into());
            }
            if left.is_zero() {
                return Err("CLI communication error (timeout)".into());
            }
            self.relay_output();
        }
    }

    fn send(&mut self, mut bytes: &[u8], timeout: Duration) -> Result<(), String> {
        let deadline = std::time::Instant::now() + timeout;
        let _ = sys::fd::set_nonblocking(&self.cli, true);
        while !bytes.is_empty() {
            match sys::fd::write(&self.cli, bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => self.wait_cli(Interest::Write, deadline)?,
                Err(_) => return Err("CLI communication error".into()),
            }
        }
        Ok(())
    }

    fn answer(&mut self, timeout: Duration) -> CliReply {
        let deadline = std::time::Instant::now() + timeout;
        let _ = sys::fd::set_nonblocking(&self.cli, true);
        loop {
            match self.replies.next_reply() {
                Ok(Some(reply)) => return reply,
                Err(e) => return CliReply::new(CliStatus::Comms, e.to_string()),
                Ok(None) => {}
            }
            let mut buf = [0; 65536];
            match sys::fd::read(&self.cli, &mut buf) {
                Ok(0) => return CliReply::new(CliStatus::Comms, "CLI communication error (hdr)"),
                Ok(n) => self.replies.feed(&buf[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    if let Err(text) = self.wait_cli(Interest::Read, deadline) {
                        return CliReply::new(CliStatus::Comms, text);
                    }
                }
                Err(_) => return CliReply::new(CliStatus::Comms, "CLI communication error (hdr)"),
            }
        }
    }
}
