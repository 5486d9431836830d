// SPDX-License-Identifier: BSD-2-Clause
//! The journal of bans and purges at a worker's birth: what the former worker wrote is replayed before the first lookup.
//!
//! A worker without a journal works all the same: what it leaves behind can't be judged, and isn't served.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use cache::{Cache, Replay};
use cli::handoff::WorkerStart;
use disk::Bond;
use storage::journal::{Journal, JournalEntry, JournalError, JournalFile, Medium};

use crate::worker::Worker;

/// Longest wait of the CLI for an invalidation to be kept: nothing else is answered meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

pub fn start(worker: &Arc<Worker>) {
    if !worker.engine.cache.journal_needs_thread() {
        return;
    }
    let cache = worker.engine.cache.clone();
    let thread = std::thread::Builder::new().name("lacquer-journal".to_owned());
    if let Err(error) = thread.spawn(move || cache.write_journal()) {
        crate::panic::die(&format!("Panic: no thread for the journal: {error}\n"));
    }
}

/// Waits until what was invalidated is kept.
///
/// # Errors
/// Why it isn't.
pub fn wait(worker: &Worker) -> Result<(), String> {
    let Some(unkept) = worker.engine.cache.unkept() else { return Ok(()) };
    match rt::run(rt::timeout(PATIENCE, unkept)) {
        Ok(Ok(kept)) => kept,
        Ok(Err(rt::Elapsed)) => Err("the disk takes too long".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A journal that was read, before the stores are opened and the cache is made.
pub struct FormerJournal {
    journal: Journal,
    replay: Replay,
    /// A former worker has left something that can be used.
    is_known: bool,
}

pub struct PastJournal {
    known: Vec<u64>,
    number: u64,
    /// Objects that were judged by no invalidation of this number or a newer one aren't served.
    pub least_ban_seq: u64,
}

impl PastJournal {
    /// The bond by which a store knows that this journal has all of its invalidations. `life` tells apart stores that
    /// are to begin empty although the journal has been there before; 0 for those that aren't.
    pub fn bond(&self, life: u64) -> Bond {
        Bond { known: self.known.iter().map(|number| number ^ life).collect(), own: self.number ^ life }
    }
}

impl FormerJournal {
    pub fn past(&self) -> PastJournal {
        PastJournal {
            known: self.replay.known(),
            number: self.replay.number(),
            least_ban_seq: self.replay.least_ban_seq(),
        }
    }

    /// Replays it. Whether objects of a former worker may be served, as all is known of what was banned and purged.
    pub fn replay(self, cache: &Cache) -> bool {
        cache.replay(self.journal, self.replay);
        self.is_known
    }
}

pub fn read(start: &WorkerStart, clock: &Clock) -> Option<FormerJournal> {
    let file = sys::fd::inherit(start.journal.fd?).map(File::from);
    let former = file.map_err(JournalError::from).and_then(|file| open(&file, start.journal.lasts, clock));
    former.map_err(|error| report_line!("{error}: bans won't outlive this process")).ok()
}

/// Reads the journal in this file, on a disk if it lasts, or begins one in an empty file.
///
/// # Errors
/// The system's.
pub fn open(file: &File, lasts: bool, clock: &Clock) -> Result<FormerJournal, JournalError> {
    let kind = if lasts { JournalFile::on_disk } else { JournalFile::in_memory };
    open_on(|| file.try_clone().map(kind), clock)
}

/// Reads the journal on that medium, or begins one on an empty medium.
///
/// # Errors
/// The system's.
pub fn open_on<M: Medium + 'static>(
    medium: impl Fn() -> io::Result<M>,
    clock: &Clock,
) -> Result<FormerJournal, JournalError> {
    let life = Replay::life(draw(), sys::process::boot_number().unwrap_or_default(), clock);
    let new = || -> Result<FormerJournal, JournalError> {
        Ok(FormerJournal { journal: Journal::format(medium()?)?, replay: Replay::nothing(life), is_known: false })
    };
    let is_new = medium()?.is_empty()?;
    let understood = |(journal, entries): (Journal, Vec<JournalEntry>)| {
        let replay = Replay::read(&entries, life).ok_or(JournalError::Damaged)?;
        Ok(FormerJournal { journal, replay, is_known: true })
    };
    let former = if is_new { new() } else { Journal::open(medium()?).and_then(understood) };
    let former = former.or_else(|error| {
        report_line!("{error}: starting without the earlier bans and objects");
        new()
    })?;
    let FormerJournal { journal, replay, .. } = &former;
    journal.commit(journal.append(&replay.beginning()))?;
    Ok(former)
}

/// A number that no other worker has drawn, and that isn't 0.
fn draw() -> u64 {
    RandomState::new().hash_one(std::process::id()) | 1
}
