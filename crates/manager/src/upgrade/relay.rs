// SPDX-License-Identifier: BSD-2-Clause
//! The cache over an upgrade: the worker of before hands the stores' memory and the journal to its successor, and the two
//! speak with each other over a socket of which the manager keeps the successor's end until there is one.
//!
//! At most two workers have the stores' memory at a time: before a third begins, those that leave let go of it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::manager::Manager;
use crate::reply::{CliReply, ReplyExt};
use crate::report::{ReportSeverity, print};

/// Time in which a leaving worker has to let go of what it serves.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct RelayEnds {
    /// Socket to the worker whose place it takes, if that hands over.
    pub former: Option<OwnedFd>,
    /// Socket to the worker that will take its place.
    pub successor: OwnedFd,
    /// File that it locks as long as it writes to disks; an opening of its own.
    pub write_lock: Option<File>,
}

impl RelayEnds {
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let lock = self.write_lock.as_ref().map(AsFd::as_fd);
        self.former.iter().chain([&self.successor]).map(AsFd::as_fd).chain(lock)
    }
}

impl Manager {
    /// A worker is to begin beside the present one: that hands over what outlives it, if it can. Else the new one begins
    /// with memory of its own.
    pub(crate) fn prepare_handover(&mut self) {
        self.have_leaving_let_go();
        let has_disks = !self.storage.files.is_empty();
        let has_way = self.upgrade.relay.is_some() && (has_disks || !self.storage.arenas.is_empty());
        let is_readable = self.storage.arenas.are_of_this_format();
        self.upgrade.hands_over = has_way && (has_disks || is_readable);
        if has_way && !is_readable {
            let text = "The objects in memory have another format: the next worker starts with empty stores";
            print(ReportSeverity::Info, text);
            self.storage.arenas.empty_memory();
        }
        if !self.upgrade.hands_over {
            self.upgrade.relay = None;
            self.storage.arenas.empty();
        }
    }

    /// Sockets for a worker that is about to begin; what it leaves to its successor comes by the other end.
    pub(crate) fn relay_ends(&mut self) -> std::io::Result<RelayEnds> {
        if !self.upgrade.is_taking_over {
            self.have_leaving_let_go();
        }
        let former = self.upgrade.relay.take().filter(|_| self.upgrade.is_taking_over && self.upgrade.hands_over);
        let (successor, ours) = sys::fd::socket_pair()?;
        self.upgrade.relay = Some(ours);
        // Who has changed users doesn't reach its own descriptors through /proc.
        let write_lock =
            self.storage.write_lock.as_ref().map(|lock| self.jail.privileged(|| sys::fd::reopen(lock))).transpose()?;
        Ok(RelayEnds { former, successor, write_lock })
    }

    /// The new worker is ready to begin: the present one leaves the stores to it.
    ///
    /// # Errors
    /// It has disks, and can't: then it is the one that goes on.
    pub(crate) fn have_it_hand_over(&mut self) -> Result<(), CliReply> {
        if !self.upgrade.is_taking_over || !self.upgrade.hands_over {
            return Ok(());
        }
        let Some(leaving) = self.upgrade.leaving.last_mut() else { return Ok(()) };
        let answer = leaving.worker.command("debug.handover begin");
        leaving.hands_over = answer.is_ok();
        if !answer.is_ok() {
            if !self.storage.files.is_empty() {
                return Err(answer);
            }
            // It would go on writing where the new one writes.
            let pid = leaving.worker.pid().unwrap_or_default();
            print(
                ReportSeverity::Error,
                &format!("Child ({pid}) can't hand over its objects and is terminated: {}", answer.text().trim_end()),
            );
            leaving.worker.end_at_once();
        }
        Ok(())
    }

    /// Drops what the worker of before had left to its successor in memory, as that one failed.
    pub(crate) fn undo_handover(&mut self) {
        let answer = self.worker.command("debug.handover undo");
        if answer.text() == "undone" {
            self.upgrade.relay = None;
            self.storage.arenas.empty_memory();
        }
    }

    fn have_leaving_let_go(&mut self) {
        for leaving in self.upgrade.leaving.iter_mut().filter(|leaving| leaving.hands_over) {
            leaving.worker.reply_timeout = PATIENCE;
            let answer = leaving.worker.command("debug.handover end");
            leaving.hands_over = false;
            if !answer.is_ok() && !leaving.worker.has_ended() {
                let pid = leaving.worker.pid().unwrap_or_default();
                let text = format!("Child ({pid}) from before the upgrade is terminated: {}", answer.text().trim_end());
                print(ReportSeverity::Error, &text);
                leaving.worker.end_at_once();
            }
        }
    }
}
