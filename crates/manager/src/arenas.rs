// SPDX-License-Identifier: BSD-2-Clause
//! What outlives a worker: the memory of each `malloc` store and the journal of invalidations, and whether the next worker
//! finds them.
//!
//! A worker that nobody asked to end leaves its objects to the next one, also when that one comes by `start`. A healthy
//! worker that is stopped takes them with it, as varnishd's does; one whose predecessor died may have been restarted to
//! mend that death, so it leaves them too. Workers that die again and again may do so because of what they find.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use base::clock::Mono;
use cli::record;
use cli::record::Fd;
use tables::stores::{StoreMedium, TRANSIENT};

use crate::stores::ManagerStores;
use crate::upgrade::carried::{Carried, Successor, copy, copy_file};

/// Deaths within [`WINDOW`] after which the stores are emptied.
pub const DEATHS: usize = 5;
/// Time in which [`DEATHS`] are counted.
const WINDOW: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerEnd {
    /// The manager told it to end.
    Asked,
    /// The start failed, for a reason outside of the worker.
    Unserving,
    Died,
}

impl WorkerEnd {
    /// The end of a worker that ended badly. One that was told to end may do so as it likes.
    pub fn of_its_own(self) -> WorkerEnd {
        match self {
            WorkerEnd::Asked => WorkerEnd::Asked,
            WorkerEnd::Unserving | WorkerEnd::Died => WorkerEnd::Died,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Legacy {
    Kept,
    Dropped,
    /// The objects are dropped, because the workers that found them died too often.
    Distrusted,
}

#[derive(Debug, Default)]
pub struct ArenaSuccession {
    /// When workers died of late, newest first.
    deaths: VecDeque<Mono>,
    /// The worker (or the next one) came after a death.
    after_death: bool,
}

impl ArenaSuccession {
    pub fn ended(&mut self, end: WorkerEnd, now: Mono) -> Legacy {
        match end {
            WorkerEnd::Asked if std::mem::take(&mut self.after_death) => Legacy::Kept,
            WorkerEnd::Asked => Legacy::Dropped,
            WorkerEnd::Unserving => Legacy::Kept,
            WorkerEnd::Died => self.died(now),
        }
    }

    pub fn is_after_death(&self) -> bool {
        self.after_death
    }

    /// Continues from the program before this one. Recent deaths are counted anew.
    pub fn resume(after_death: bool) -> ArenaSuccession {
        ArenaSuccession { after_death, ..ArenaSuccession::default() }
    }

    fn died(&mut self, now: Mono) -> Legacy {
        self.deaths.push_front(now);
        self.deaths.retain(|at| now.since(*at) <= WINDOW.as_secs_f64());
        self.after_death = self.deaths.len() < DEATHS;
        if self.after_death {
            return Legacy::Kept;
        }
        self.deaths.clear();
        Legacy::Distrusted
    }
}

#[derive(Debug)]
pub struct ManagerArena {
    pub store: String,
    /// A memfd; the worker gives it its size.
    pub file: File,
}

/// The memory of all stores that have some, and the journal of what was invalidated in it.
#[derive(Debug, Default)]
pub struct Arenas {
    stores: Vec<ManagerArena>,
    journal: Option<File>,
}

impl Arenas {
    /// Makes the missing arenas. Transient has none: its content isn't worth keeping.
    pub fn complete(&mut self, stores: &ManagerStores) -> io::Result<()> {
        for store in stores.iter().filter(|store| store.kind == StoreMedium::Malloc && store.name != TRANSIENT) {
            if self.descriptor_of(&store.name).is_none() {
                let file = sys::fd::memfd(&format!("lacquer storage.{}", store.name))?;
                self.stores.push(ManagerArena { store: store.name.clone(), file });
            }
        }
        // What is in a file, if that isn't kept, outlives a worker, too.
        if self.journal.is_none() && stores.iter().any(|store| store.name != TRANSIENT) {
            self.journal = Some(sys::fd::memfd("lacquer journal")?);
        }
        Ok(())
    }

    pub fn empty(&mut self) {
        *self = Arenas::default();
    }

    /// Drops the stores' memory and keeps the journal: stores on disks need that.
    pub fn empty_memory(&mut self) {
        self.stores.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.stores.is_empty()
    }

    pub fn are_of_this_format(&self) -> bool {
        self.stores.iter().all(|arena| sys::arena::is_of_this_format(&arena.file).unwrap_or(false))
    }

    /// The number by which a worker inherits a store's memory.
    pub fn descriptor_of(&self, store: &str) -> Option<i32> {
        self.stores.iter().find(|arena| arena.store == store).map(|arena| arena.file.as_raw_fd())
    }

    pub fn journal(&self) -> Option<i32> {
        self.journal.as_ref().map(AsRawFd::as_raw_fd)
    }

    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.stores.iter().map(|arena| &arena.file).chain(&self.journal).map(AsFd::as_fd)
    }
}

record! {
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ArenasRecord {
        each "arena" pub stores: Vec<(String, Fd)>,
        maybe "journal" pub journal: Option<Fd>,
    }
}

impl Carried for Arenas {
    type Record = ArenasRecord;

    fn save(&self, _: Mono) -> ArenasRecord {
        let stores = self.stores.iter().map(|arena| (arena.store.clone(), Fd::of(&arena.file)));
        ArenasRecord { stores: stores.collect(), journal: self.journal.as_ref().map(Fd::of) }
    }

    fn restore(record: &ArenasRecord, _: &Successor<'_>) -> Result<Arenas, String> {
        let arena = |(store, fd): &(String, Fd)| Ok(ManagerArena { store: store.clone(), file: copy(*fd)?.into() });
        let stores = record.stores.iter().map(arena).collect::<Result<_, String>>()?;
        Ok(Arenas { stores, journal: copy_file(record.journal)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ends: &[(WorkerEnd, f64)], left: &[Legacy]) {
        let mut succession = ArenaSuccession::default();
        let got: Vec<_> = ends.iter().map(|(end, at)| succession.ended(*end, Mono(*at))).collect();
        assert_eq!(got, left, "{ends:?}");
    }

    const ASKED: WorkerEnd = WorkerEnd::Asked;
    const DIED: WorkerEnd = WorkerEnd::Died;

    #[test]
    fn a_healthy_worker_that_is_stopped_leaves_nothing() {
        check(&[(ASKED, 1.0), (ASKED, 2.0)], &[Legacy::Dropped; 2]);
    }

    #[test]
    fn a_worker_that_dies_leaves_its_objects_to_the_next() {
        check(&[(DIED, 1.0), (DIED, 2.0)], &[Legacy::Kept; 2]);
    }

    #[test]
    fn stop_and_start_after_a_death_keep_and_the_next_ones_empty() {
        check(&[(DIED, 1.0), (ASKED, 2.0), (ASKED, 3.0)], &[Legacy::Kept, Legacy::Kept, Legacy::Dropped]);
    }

    #[test]
    fn a_start_that_fails_changes_nothing() {
        check(&[(DIED, 1.0), (WorkerEnd::Unserving, 2.0), (ASKED, 3.0)], &[Legacy::Kept; 3]);
        check(&[(WorkerEnd::Unserving, 2.0), (ASKED, 3.0)], &[Legacy::Kept, Legacy::Dropped]);
    }

    #[test]
    fn the_fifth_death_in_a_minute_empties() {
        let kept = [Legacy::Kept; 4];
        let deaths: Vec<_> = (0..10).map(|n| (DIED, 15.0 * f64::from(n))).collect();
        check(&deaths, &[&kept[..], &[Legacy::Distrusted], &kept, &[Legacy::Distrusted]].concat());
        let slower: Vec<_> = (0..10).map(|n| (DIED, 15.1 * f64::from(n))).collect();
        check(&slower, &[Legacy::Kept; 10]);
    }

    #[test]
    fn after_emptying_a_stop_empties_too() {
        let deaths = [(DIED, 0.0); 5];
        let ends = [&deaths[..], &[(ASKED, 1.0)]].concat();
        check(&ends, &[&[Legacy::Kept; 4][..], &[Legacy::Distrusted, Legacy::Dropped]].concat());
    }

    #[test]
    fn each_store_in_memory_but_transient_has_an_arena_until_emptied() {
        let mut stores = ManagerStores::default();
        for spec in ["malloc,10m", "big=malloc,20m", "file,/nowhere,10m", "Transient=malloc,5m"] {
            stores.add(spec).unwrap();
        }
        let mut arenas = Arenas::default();
        arenas.complete(&stores).unwrap();
        let numbers = |arenas: &Arenas| {
            let stores = ["s0", "big", "s1", TRANSIENT].map(|name| arenas.descriptor_of(name));
            (stores, arenas.journal())
        };
        let first = numbers(&arenas);
        assert_eq!((first.0.map(|fd| fd.is_some()), first.1.is_some()), ([true, true, false, false], true));
        arenas.complete(&stores).unwrap();
        assert_eq!(numbers(&arenas), first, "what is there is kept");
        arenas.stores[0].file.set_len(4096).unwrap();
        arenas.empty();
        assert_eq!(arenas.descriptors().count(), 0);
        arenas.complete(&stores).unwrap();
        assert_eq!(arenas.stores[0].file.metadata().unwrap().len(), 0, "a new one is empty");
    }
}
