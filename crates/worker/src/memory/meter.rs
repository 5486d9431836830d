// SPDX-License-Identifier: BSD-2-Clause
//! How much memory the server takes: worker and manager together. Asked often, so it costs a few microseconds.
//!
//! The sum is never less than what monitoring shows as Pss of the processes: heaps, stacks and stores in memory, the pages of
//! the program, log and counters. An arena counts by its store's account: a new worker hasn't touched what survived. Of a store
//! on a disk, its front, its index and what is on its way are the worker's own memory.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use base::clock;
use parking_lot::Mutex;
use storage::Stores;
use sys::memory::{Mapped, Resident, ResidentReader};

/// Mappings change rarely: a backend more has a counter segment of its own. The log fills once.
const MAPPED_AGE: Duration = Duration::from_millis(250);
/// The path of every segment of log and counters goes on so from the workdir, where the worker is.
const MONITORED: &str = "/_.vsm_";

pub struct MemoryMeter {
    worker: Option<ResidentReader>,
    /// The manager may be hidden from the worker's user: then it doesn't count.
    manager: Option<ResidentReader>,
    mapped: Mutex<Option<(Instant, Mapped)>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// The worker's own: heap, stacks, pages of stores without an arena.
    pub private: u64,
    pub arenas: u64,
    pub monitored: u64,
    pub program: u64,
    pub manager: u64,
}

impl MemoryUsage {
    pub fn bytes(&self) -> u64 {
        let MemoryUsage { private, arenas, monitored, program, manager } = *self;
        private + arenas + monitored + program + manager
    }

    /// Splits the kernel's figures. They don't tell what shared memory is for: it may all be the program's.
    fn of(worker: Resident, manager: Resident, mapped: Mapped, arenas: u64) -> MemoryUsage {
        let program = (worker.shared + manager.shared).min(mapped.program);
        MemoryUsage { private: worker.private, arenas, monitored: mapped.monitored, program, manager: manager.private }
    }
}

impl MemoryMeter {
    pub fn new(manager_pid: u32) -> MemoryMeter {
        let manager = ResidentReader::of_process(manager_pid).ok();
        MemoryMeter { worker: ResidentReader::of_self().ok(), manager, mapped: Mutex::default() }
    }

    /// The present usage; zero where there is no `/proc`.
    pub fn read(&self, stores: &Stores) -> MemoryUsage {
        let read = |reader: &Option<ResidentReader>| reader.as_ref().and_then(|reader| reader.read().ok());
        let Some(worker) = read(&self.worker) else { return MemoryUsage::default() };
        let arenas = stores.all().iter().filter_map(|store| store.arena_bytes()).sum();
        MemoryUsage::of(worker, read(&self.manager).unwrap_or_default(), self.mapped(), arenas)
    }

    fn mapped(&self) -> Mapped {
        let mut known = self.mapped.lock();
        if let Some((when, mapped)) = *known
            && when.elapsed() < MAPPED_AGE
        {
            return mapped;
        }
        let mapped = sys::memory::mapped(segment).unwrap_or_default();
        *known = Some((clock::now(), mapped));
        mapped
    }
}

/// Path of a segment of log or counters, seen from the workdir: its own path may lead through closed directories.
fn segment(path: &str) -> Option<PathBuf> {
    path.rfind(MONITORED).map(|at| PathBuf::from(&path[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_counts_once_and_stores_in_files_dont() {
        let mapped = Mapped { program: 100, monitored: 50 };
        let of = |private, shared, mine, both, arenas| {
            let (worker, manager) = (Resident { private, shared }, Resident { private: mine, shared: both });
            let usage = MemoryUsage::of(worker, manager, mapped, arenas);
            let MemoryUsage { private, arenas, monitored, program, manager } = usage;
            assert_eq!(usage.bytes(), private + arenas + monitored + program + manager);
            [private, arenas, monitored, program, manager]
        };
        assert_eq!(of(1000, 60, 7, 20, 0), [1000, 0, 50, 80, 7]);
        assert_eq!(of(1000, 5000, 7, 20, 0), [1000, 0, 50, 100, 7], "a store in a file is mapped");
        assert_eq!(of(1000, 60, 7, 20, 3000), [1000, 3000, 50, 80, 7], "an arena of which nothing is touched yet");
    }

    #[test]
    fn segments_are_found_from_the_workdir() {
        let found = |path| segment(path).map(|path| path.to_string_lossy().into_owned());
        assert_eq!(found("/var/lib/v/_.vsm_child/_.Log.1").as_deref(), Some("_.vsm_child/_.Log.1"));
        assert_eq!(found("/memfd:s0 (deleted)"), None);
    }
}
