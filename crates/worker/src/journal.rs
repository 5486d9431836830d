// SPDX-License-Identifier: BSD-2-Clause
//! The journal of bans and purges at a worker's birth: what the former worker wrote is replayed before the first lookup.
//!
//! A worker without a journal works all the same: what it leaves behind can't be judged, and isn't served.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use cache::{Cache, Replay};
use storage::journal::{Entry, Journal, JournalError, JournalFile};

use crate::startup::Worker;

/// How long the CLI waits for what was invalidated to be kept: nothing else is answered meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

/// Starts the thread that writes the journal, if it needs one.
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

/// Replays the journal in the manager's memory. Whether objects of a former worker may be served, as all is known of what
/// was banned and purged.
pub fn replay(cache: &Cache, number: Option<i32>, clock: &Clock) -> bool {
    let Some(number) = number else { return false };
    match open(number, clock) {
        Ok((journal, former)) => {
            let is_known = former.is_some();
            cache.replay(journal, former.unwrap_or_default());
            is_known
        }
        Err(error) => {
            eprintln!("{error}: bans won't outlive this process");
            false
        }
    }
}

/// The journal, and what a former worker left in it, if that can be used.
fn open(number: i32, clock: &Clock) -> Result<(Journal, Option<Replay>), JournalError> {
    let file = File::from(sys::fd::inherit(number)?);
    let medium = || file.try_clone().map(JournalFile::in_memory);
    if file.metadata()?.len() == 0 {
        return Ok((Journal::format(medium()?)?, None));
    }
    let understood = |(journal, entries): (Journal, Vec<Entry>)| {
        Replay::read(&entries, clock).map(|replay| (journal, replay)).ok_or(JournalError::Damaged)
    };
    match Journal::open(medium()?).and_then(understood) {
        Ok((journal, replay)) => Ok((journal, Some(replay))),
        Err(error) => {
            eprintln!("{error}: starting without the bans and the objects of the former worker");
            Ok((Journal::format(medium()?)?, None))
        }
    }
}
