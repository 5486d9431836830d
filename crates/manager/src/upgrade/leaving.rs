// SPDX-License-Identifier: BSD-2-Clause
//! Workers of before an upgrade: they accept no more, and end when their connections have ended, or their time is over.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::clock::Mono;
use shm::vsm::SharedSegment;
use sys::process::Exit;

use crate::life::{panic_text, print_panic};
use crate::manager::Manager;
use crate::reply::CliStatus;
use crate::report::{ReportSeverity, print};
use crate::worker::ManagedWorker;

/// Most leaving workers at a time; the oldest ends for the next one.
pub const MOST: usize = 8;
/// Time added to the limit before a leaving worker is killed.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Leaving {
    pub worker: ManagedWorker,
    /// Segment of its panic message.
    pub panic: SharedSegment,
    pub panic_file: OwnedFd,
    pub memory: PathBuf,
    pub until: Mono,
    /// True if it has handed over to a successor, which hears of what it is told to invalidate, and may still serve
    /// what it had.
    pub hands_over: bool,
}

impl Leaving {
    fn is_due(&self, now: Mono) -> bool {
        self.worker.has_ended() || self.until + GRACE < now
    }
}

impl Manager {
    pub(crate) fn leaving_descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.upgrade.leaving.iter().flat_map(|leaving| leaving.worker.descriptors())
    }

    /// Time at which the first that takes too long is killed.
    pub(crate) fn leaving_due(&self) -> Option<Mono> {
        let ends = self.upgrade.leaving.iter().map(|leaving| leaving.until + GRACE + Duration::from_millis(1));
        ends.reduce(|first, end| if end < first { end } else { first })
    }

    pub(crate) fn tend_leaving(&mut self) {
        self.upgrade.leaving.iter_mut().for_each(|leaving| leaving.worker.relay_output());
        let now = self.now();
        while let Some(at) = self.upgrade.leaving.iter().position(|leaving| leaving.is_due(now)) {
            let leaving = self.upgrade.leaving.remove(at);
            self.bury_leaving(leaving);
        }
    }

    /// Sends them a command for the present worker, too. One that is gone meanwhile has nobody to serve.
    pub(crate) fn tell_leaving(&mut self, line: &[u8]) {
        let now = self.now();
        // Who has handed over serves nothing any more that the present one invalidates.
        for leaving in self.upgrade.leaving.iter_mut().filter(|leaving| !leaving.hands_over) {
            if leaving.worker.command(line).status == CliStatus::Comms {
                // It can't be told any more: it ends now.
                leaving.until = now.plus(-GRACE.as_secs_f64() - 1.0);
            }
        }
    }

    pub(crate) fn end_leaving(&mut self) {
        for leaving in std::mem::take(&mut self.upgrade.leaving) {
            self.bury_leaving(leaving);
        }
    }

    pub(crate) fn limit_leaving(&mut self) {
        while self.upgrade.leaving.len() > MOST {
            let oldest = self.upgrade.leaving.remove(0);
            self.bury_leaving(oldest);
        }
    }

    fn bury_leaving(&mut self, mut leaving: Leaving) {
        leaving.worker.take_times(&self.params);
        let ended = leaving.worker.reap();
        if leaving.memory != Path::new(crate::memory::WORKER_DIR) {
            crate::workdir::remove_tree(&leaving.memory, &self.jail);
        }
        let Some((pid, exit)) = ended else { return };
        let how = match exit {
            Exit::Status(0) => {
                return print(ReportSeverity::Info, &format!("Child ({pid}) from before the upgrade ended"));
            }
            Exit::Status(status) => format!("died status={status}"),
            Exit::Signal(number, _) => format!("died signal={number}"),
        };
        print(ReportSeverity::Error, &format!("Child ({pid}) from before the upgrade {how}"));
        if matches!(exit, Exit::Signal(..)) {
            self.count(|m| m.counters.child_died.inc());
        }
        if let Some(text) = panic_text(self.clock.real(), &leaving.panic.read_text()) {
            print_panic(pid, &text);
            self.note_panic(text);
        }
    }
}
