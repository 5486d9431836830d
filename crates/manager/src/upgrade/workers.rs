// SPDX-License-Identifier: BSD-2-Clause
//! Workers over an upgrade: the present one goes on until another takes its place, those of earlier upgrades until they
//! have ended.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::clock::Mono;
use cli::record::Fd;
use cli::{record, words};
use shm::vsm::SharedSegment;
use sys::process::Child;

use super::carried::{begun, copy, elapsed};
use super::leaving::Leaving;
use crate::fatal::errno_text;
use crate::manager::Manager;
use crate::memory::WORKER_DIR;
use crate::reply::ReplyExt;
use crate::report::{ReportSeverity, print};
use crate::usage::OWN_VERSION;
use crate::worker::{ManagedWorker, WorkerState};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunningWorker {
    pub pid: i32,
    pub cli: Fd,
    pub output: Fd,
    pub panic: Fd,
    pub memory: PathBuf,
    pub lived: Duration,
    /// Time that the connections of one of an earlier upgrade have left.
    pub leaves_in: Option<Duration>,
    /// True if it has handed over what outlives workers, and may still read it.
    pub hands_over: bool,
}

words!(RunningWorker { pid, cli, output, panic, memory, lived, leaves_in, hands_over });

record! {
    #[derive(Clone, Debug, Default, PartialEq)]
    pub(crate) struct WorkersRecord {
        /// The state of the present worker, as `status` says it.
        one "worker_state" pub state: String,
        /// The present one first, if it runs.
        each "worker" pub all: Vec<RunningWorker>,
    }
}

impl Manager {
    /// All workers, and descriptors that have to stay open until exec.
    pub(crate) fn running_workers(&self) -> Result<(WorkersRecord, Vec<OwnedFd>), String> {
        let now = self.now();
        let (mut all, mut held) = (Vec::new(), Vec::new());
        let saved = |worker: &ManagedWorker, panic: &OwnedFd, memory: &Path| {
            let (pid, cli, output) = worker.parts()?;
            Some(RunningWorker {
                pid,
                cli: Fd::of(&cli),
                output: Fd::of(&output),
                panic: Fd::of(panic),
                memory: memory.to_owned(),
                lived: elapsed(worker.started, now),
                ..RunningWorker::default()
            })
        };
        if let (Some(_), Some(memory)) = (self.worker.pid(), &self.server.memory) {
            let panic = memory.panic_file().map_err(|e| errno_text(&e))?;
            all.extend(saved(&self.worker, &panic, Path::new(WORKER_DIR)));
            held.push(panic);
        }
        for leaving in &self.upgrade.leaving {
            let worker = saved(&leaving.worker, &leaving.panic_file, &leaving.memory);
            let leaves_in = Some(elapsed(now, leaving.until));
            all.extend(worker.map(|worker| RunningWorker { leaves_in, hands_over: leaving.hands_over, ..worker }));
        }
        Ok((WorkersRecord { state: self.worker.state.word().to_owned(), all }, held))
    }

    /// Takes the workers that run; and starts beside the present one a new one, unless that has `failed`.
    pub(super) fn take_workers(&mut self, workers: &WorkersRecord, failed: bool) -> Result<(), String> {
        let has_present = workers.state == WorkerState::Running.word();
        let (present, older) = match &workers.all[..] {
            [present, older @ ..] if has_present => (Some(present), older),
            older => (None, older),
        };
        for worker in older {
            let leaving = self.leaving_worker(worker)?;
            self.upgrade.leaving.push(leaving);
        }
        match present {
            None => {
                if workers.state == WorkerState::Died.word() {
                    self.worker.state = WorkerState::Died;
                    self.ended.restart = Some(self.now());
                }
                Ok(())
            }
            Some(present) if failed => self.keep_worker(present),
            Some(present) => self.replace_worker(present),
        }
    }

    fn leaving_worker(&self, running: &RunningWorker) -> Result<Leaving, String> {
        let now = self.now();
        let failed = |e: std::io::Error| format!("worker {}: {}", running.pid, errno_text(&e));
        let mut worker = ManagedWorker::new(self.jail.clone());
        worker.adopt(Child::adopt(running.pid).map_err(failed)?, copy(running.cli)?, copy(running.output)?);
        worker.take_times(&self.params);
        worker.started = begun(running.lived, now);
        let panic_file = copy(running.panic)?;
        let panic = sys::fd::duplicate(&panic_file).and_then(SharedSegment::from_fd);
        Ok(Leaving {
            worker,
            panic: panic.map_err(failed)?,
            panic_file,
            memory: running.memory.clone(),
            until: running.leaves_in.map_or(Mono(f64::MAX), |time| now + time),
            hands_over: running.hands_over,
        })
    }

    /// The other program failed: the worker that was there goes on.
    fn keep_worker(&mut self, running: &RunningWorker) -> Result<(), String> {
        let Leaving { worker, panic_file, .. } = self.leaving_worker(running)?;
        self.worker = worker;
        self.worker.state = WorkerState::Running;
        self.undo_handover();
        let aside = aside_of(running.pid);
        // The other program may have failed before it moved the directory.
        if is_memory_of(&aside, running.pid) {
            crate::workdir::remove_tree(Path::new(WORKER_DIR), &self.jail);
            let _ = self.jail.privileged(|| std::fs::rename(&aside, WORKER_DIR));
        }
        if let Some(memory) = &mut self.server.memory {
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
        // Workers before the present one; that is asked later.
        self.prepare_handover();
        self.upgrade.leaving.push(leaving);
        self.upgrade.is_taking_over = true;
        let started = self.launch_worker();
        if started.is_ok() { Ok(()) } else { Err(format!("its worker: {}", started.text().trim_end())) }
    }

    /// Has the worker whose place was taken accept no more; returns a message.
    pub(super) fn dismiss_worker(&mut self, writer: &str) -> String {
        let (now, limit) = (self.now(), self.params.upgrade_drain);
        // A worker that can't be told ends, as ever, and the next one needs no leave.
        let _ = self.worker.command("debug.handover commit");
        let new = self.worker.pid().unwrap_or_default();
        let Some(leaving) = self.upgrade.leaving.last_mut() else { return String::new() };
        leaving.until = now + limit;
        let old = leaving.worker.pid().unwrap_or_default();
        let answer = leaving.worker.command(format!("debug.drain {:.3}", limit.as_secs_f64()));
        if !answer.is_ok() {
            // The worker is on its way out, or can't be talked to: then it is to end at once.
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
