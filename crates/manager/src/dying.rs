// SPDX-License-Identifier: BSD-2-Clause
//! Workers that are dying: nothing of them runs any more, but the system is still busy with their memory, and counts them as
//! ended only when that is done. With gigabytes in its stores this takes longer than to start the next worker, so nobody
//! waits for it: the next one starts as soon as the present one runs no more. How it ended is told when it is known.
//!
//! ```text
//! a sentinel's pipe hangs up ─▶ expect_death ─ a little later ─▶ look_at_dying ─ runs no more ─▶ succeed_dying ─▶ bury_dying
//!                                    └──────── it has ended already: reap_worker, as ever ────────┘
//! ```

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::arenas::WorkerEnd;
use crate::life::Departure;
use crate::manager::Manager;
use crate::report::{ReportSeverity, print};
use crate::worker::{LingeringProcess, WorkerState};

/// A worker that is dead within this is buried before the next one starts, so that messages come in their usual order.
const PATIENCE: Duration = Duration::from_millis(3);
/// Between looks at one that still runs.
const STEP: Duration = Duration::from_millis(1);
/// Longest time of frequent looks; after that the end is waited for as usual.
const LONGEST_LOOK: Duration = Duration::from_secs(5);
const MOST: usize = 4;
/// Longest wait for their end when the manager itself ends.
pub const LONGEST_DYING: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct DyingWorker {
    process: LingeringProcess,
    departure: Departure,
}

impl Manager {
    pub(crate) fn dying_descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.ended.dying.iter().map(|dying| dying.process.descriptor())
    }

    /// Looks often from now on, as the worker begins to end.
    pub(crate) fn expect_death(&mut self) {
        let now = self.now();
        self.ended.look = Some(now + PATIENCE);
        self.ended.look_until = now + LONGEST_LOOK;
    }

    /// Puts the next worker in its place, if it runs no more.
    pub(crate) fn look_at_dying(&mut self) {
        self.ended.look = None;
        if self.worker.has_ended() || !self.may_succeed_dying() {
            return;
        }
        if self.worker.is_dying() {
            self.succeed_dying();
        } else {
            let next = self.now() + STEP;
            self.ended.look = (next < self.ended.look_until).then_some(next);
        }
    }

    /// True if no dying worker still writes to disks that the next one waits for.
    fn may_succeed_dying(&self) -> bool {
        self.worker.state == WorkerState::Running && self.params.auto_restart && self.ended.dying.len() < MOST
    }

    fn succeed_dying(&mut self) {
        let Some(process) = self.worker.take_dying() else { return };
        print(ReportSeverity::Debug, &format!("Child ({}) is dying", process.pid()));
        let departure = self.depart(process.pid(), WorkerEnd::Died);
        self.settle_legacy(departure.legacy);
        if let Some(text) = departure.panic_text() {
            self.note_panic(text);
        }
        self.ended.dying.push(DyingWorker { process, departure });
        self.be_without_worker();
    }

    /// Tells how those ended that have, or do so within this time.
    pub(crate) fn bury_dying(&mut self, limit: Duration) {
        let until = Instant::now() + limit;
        for mut dying in std::mem::take(&mut self.ended.dying) {
            if !dying.process.wait(until.saturating_duration_since(Instant::now())) {
                self.ended.dying.push(dying);
                continue;
            }
            let DyingWorker { process, departure } = dying;
            self.obituary(&departure, process.bury());
            if let Some(text) = departure.panic_text() {
                self.tell_panic(departure.pid, text);
            }
        }
    }
}
