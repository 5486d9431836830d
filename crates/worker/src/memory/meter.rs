// SPDX-License-Identifier: BSD-2-Clause
//! How much memory the server takes: worker and manager together. Asked often, so it costs a few microseconds.
//!
//! The sum is never less than what monitoring shows as Pss of the processes: heaps, stacks and stores in memory, the pages of
//! the program, log and counters. A store in a file isn't in it: the system takes its pages back when it wants them.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sys::memory::{Mapped, Resident, ResidentReader};

/// Mappings change rarely: a backend more has a counter segment of its own.
const MAPPED_AGE: Duration = Duration::from_secs(1);
/// The path of every segment of log and counters has this in it.
const MONITORED: &str = "/_.vsm_";

/// Reads it.
pub struct Meter {
    worker: Option<ResidentReader>,
    /// The manager may be hidden from the worker's user: then it doesn't count.
    manager: Option<ResidentReader>,
    mapped: Mutex<Option<(Instant, Mapped)>>,
}

/// What there is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The worker's own: heap, stacks, stores' pages.
    pub private: u64,
    /// Log and counters.
    pub monitored: u64,
    /// Pages of the program and its libraries.
    pub program: u64,
    /// The manager's own.
    pub manager: u64,
}

impl Usage {
    /// All of it.
    pub fn bytes(&self) -> u64 {
        let Usage { private, monitored, program, manager } = *self;
        private + monitored + program + manager
    }

    /// Of what the kernel says: the program's pages may be the worker's, the manager's or both's.
    fn of(worker: Resident, manager: Resident, mapped: Mapped) -> Usage {
        // What else is shared belongs to stores.
        let shared = worker.shared.min(mapped.program + mapped.monitored);
        let monitored = mapped.monitored.min(shared);
        let program = shared - monitored + manager.shared.min(mapped.program);
        Usage { private: worker.private, monitored, program: program.min(mapped.program), manager: manager.private }
    }
}

impl Meter {
    /// Of this process and its manager.
    pub fn new(manager_pid: u32) -> Meter {
        let manager = ResidentReader::of_process(manager_pid).ok();
        Meter { worker: ResidentReader::of_self().ok(), manager, mapped: Mutex::default() }
    }

    /// What there is now; nothing where there is no `/proc`.
    pub fn read(&self) -> Usage {
        let read = |reader: &Option<ResidentReader>| reader.as_ref().and_then(|reader| reader.read().ok());
        let Some(worker) = read(&self.worker) else { return Usage::default() };
        Usage::of(worker, read(&self.manager).unwrap_or_default(), self.mapped())
    }

    fn mapped(&self) -> Mapped {
        let mut known = self.mapped.lock();
        if let Some((when, mapped)) = *known
            && when.elapsed() < MAPPED_AGE
        {
            return mapped;
        }
        let mapped = sys::memory::mapped(|path| path.contains(MONITORED)).unwrap_or_default();
        *known = Some((Instant::now(), mapped));
        mapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_counts_once_and_stores_in_files_dont() {
        let mapped = Mapped { program: 100, monitored: 50 };
        let of = |private, shared, mine, both| {
            let (worker, manager) = (Resident { private, shared }, Resident { private: mine, shared: both });
            let Usage { private, monitored, program, manager } = Usage::of(worker, manager, mapped);
            [private, monitored, program, manager]
        };
        assert_eq!(of(1000, 90, 7, 20), [1000, 50, 60, 7]);
        assert_eq!(of(1000, 5000, 7, 20), [1000, 50, 100, 7], "a store in a file is mapped");
        assert_eq!(of(1000, 30, 0, 0), [1000, 30, 0, 0], "a log that isn't full");
    }
}
