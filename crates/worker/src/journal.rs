// SPDX-License-Identifier: BSD-2-Clause
//! The journal of bans and purges at a worker's birth: what the former worker wrote is replayed before the first lookup.
//!
//! A worker without a journal works all the same: what it leaves behind can't be judged, and isn't served.

use std::fs::File;

use base::Clock;
use cache::{Cache, Replay};
use storage::journal::{Entry, Journal, JournalError, JournalFile};

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
