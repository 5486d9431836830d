// SPDX-License-Identifier: BSD-2-Clause
//! An upgrade, as its two workers see it.
//!
//! ```text
//! the present one                                   its successor
//!                                                   is born: VCLs, probes; it knows nothing of the stores' memory yet
//! debug.handover begin: stores and journal are left
//!   as they are ──────────────────────────────────▶ start: takes over stores and journal, adopts, accepts
//! debug.drain: accepts no more, serves what it has
//!   ◀───────── what is invalidated in one is invalidated in both ────────▶
//!   ◀────────────────────────────────────────────── recalls, if it needs the room
//! lets go: forgets its objects, keeps copies of
//!   what deliveries read ─────────────────────────▶ uses all memory again
//! ```
//!
//! A disk is the present one's until it hands over: then it writes nothing more there. The successor reads there from its
//! start on, writes once the upgrade can't be undone any more (`debug.handover commit`), and writes over what was there once
//! the other one has let go. Until then the present one can take its disk back as it left it.
//!
//! `debug.handover end` has it let go at once, for another worker that comes; `undo` says that the successor failed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::clock;
use parking_lot::Mutex;

use crate::relay::{Ear, Relay, RelayMessage};
use crate::worker::Worker;

/// Interval at which a successor looks at what waits for the former worker.
const LOOK: Duration = Duration::from_millis(20);
/// The longest that objects are kept for a connection that may ask once more.
const LONGEST_IDLE: Duration = Duration::from_secs(10);
/// Time that disks have for writes under way.
const DISK_PATIENCE: Duration = Duration::from_secs(20);
/// Time for which a successor leaves data on disks to the deliveries of a former worker that has let go. As within one
/// worker.
const READERS_PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait of a successor for disks to be read in before it takes connections.
const READ_PATIENCE: Duration = Duration::from_secs(5);
/// Share of a store's size that may wait for the former worker: one part in this many; at least [`DEFERRED_LEAST`]
/// bytes.
const DEFERRED_SHARE: u64 = 16;
const DEFERRED_LEAST: u64 = 16 << 20;

#[derive(Debug, Default)]
pub struct Succession(Mutex<Option<Handover>>);

#[derive(Debug)]
struct Handover {
    relay: Relay,
    /// Time since which its successor takes the connections.
    since: Option<Instant>,
    has_let_go: bool,
}

impl Handover {
    /// True if that is longer ago than `limit`. The first look begins it: before, the successor may take its time to
    /// start.
    fn is_idle(&mut self, limit: Duration, now: Instant) -> bool {
        now - *self.since.get_or_insert(now) > limit
    }
}

/// Leaves stores and journal to a successor.
///
/// # Errors
/// There is none, or was one before.
pub fn begin(worker: &Arc<Worker>) -> Result<(), String> {
    let mut succession = worker.succession.0.lock();
    if succession.is_some() {
        return Err("the objects were already handed over".to_owned());
    }
    let number = worker.start.succession.successor_fd.ok_or("there is no way to a successor")?;
    // While traffic goes on as ever: what can't be handed over stays here.
    worker.disks.hand_over(DISK_PATIENCE)?;
    let opened = sys::fd::inherit(number).and_then(Relay::open);
    let opened = opened.map_err(|error| format!("the successor: {error}"));
    let heard = opened.and_then(|(relay, ear)| listen(worker, ear, Other::Successor).map(|()| relay));
    let relay = heard.inspect_err(|_| worker.disks.take_back())?;
    worker.engine.cluster.gate.set_successor(true);
    worker.quic.share();
    if let Err(error) = worker.engine.cache.hand_over(Box::new(relay.clone())) {
        report_line!("can't hand over the journal of bans and purges: {error}");
    }
    *succession = Some(Handover { relay, since: None, has_let_go: false });
    Ok(())
}

/// Lets go of what was handed over, if that is so and wasn't done yet.
///
/// # Errors
/// Why it can't.
pub fn end(worker: &Worker) -> Result<(), String> {
    let mut succession = worker.succession.0.lock();
    let Some(handover) = succession.as_mut().filter(|handover| !handover.has_let_go) else { return Ok(()) };
    handover.has_let_go = true;
    let let_go = worker.engine.cache.let_go();
    // What this thread has counted and kept to itself.
    tables::counters::flush();
    let_go.map_err(|error| format!("can't copy the objects that are being delivered: {error}"))?;
    // One that is gone needn't know.
    let _ = handover.relay.let_go();
    Ok(())
}

/// Goes on without the successor, which failed; whether it had been left anything. What is here in memory doesn't outlive this
/// worker, what is on disks does.
pub fn undo(worker: &Worker) -> bool {
    let was_begun = worker.succession.0.lock().is_some();
    if was_begun {
        worker.disks.take_back();
        worker.engine.cache.take_back();
    }
    worker.engine.cluster.gate.set_successor(false);
    worker.quic.own();
    was_begun
}

/// Lets go when it is time: no connection that was idle may ask any more, or the successor wants it.
pub fn tend(worker: &Worker) {
    let limit = worker.engine.params.load().timeout_idle.min(LONGEST_IDLE);
    let is_idle = match worker.succession.0.lock().as_mut() {
        Some(handover) if !handover.has_let_go => handover.is_idle(limit, clock::now()),
        _ => return,
    };
    if (is_idle || worker.engine.cache.is_recalled())
        && let Err(reason) = end(worker)
    {
        report_line!("{reason}: the memory of evicted objects is used again when this process has ended");
    }
}

/// Takes the place of the worker that has handed over, if this one was born beside it.
///
/// # Errors
/// There can't be a thread for what that one says.
pub fn take_over(worker: &Arc<Worker>) -> Result<(), String> {
    let Some(number) = worker.start.succession.former_fd else { return Ok(()) };
    let opened = sys::fd::inherit(number).and_then(Relay::open);
    let (relay, ear) = opened.map_err(|error| format!("the former worker: {error}"))?;
    worker.engine.cache.take_over(Some(Box::new(relay)));
    let journal = crate::journal::read(&worker.start, &worker.engine.clock);
    let past = journal.as_ref().map(crate::journal::FormerJournal::past);
    crate::worker::find_survivors(journal, &worker.engine);
    worker.disks.take_over(past.as_ref());
    crate::journal::start(worker);
    crate::adoption::start(worker);
    listen(worker, ear, Other::Former)?;
    crate::fleet::start(worker)?;
    // The former one takes connections as long.
    worker.disks.read_in(READ_PATIENCE);
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Other {
    Former,
    Successor,
}

/// Starts the thread that does what the other worker says.
fn listen(worker: &Arc<Worker>, ear: Ear, other: Other) -> Result<(), String> {
    let worker = worker.clone();
    let thread = std::thread::Builder::new().name("lacquer-relay".to_owned());
    let spawned = thread.spawn(move || attend(&worker, ear, other));
    spawned.map(drop).map_err(|error| format!("thread for the other worker: {error}"))
}

/// Does what the other worker says, until that is gone.
fn attend(worker: &Worker, mut ear: Ear, other: Other) {
    let cache = &worker.engine.cache;
    let mut readers_until = None;
    loop {
        if readers_until.take_if(|until| *until <= clock::now()).is_some() {
            worker.disks.own();
        }
        match ear.hear(LOOK) {
            RelayMessage::Entries(entries) => {
                // Where the journal is the other one's, that waits for this answer before it keeps what it has told.
                let is_kept = || cache.has_handed_over() || crate::journal::wait(worker).is_ok();
                let is_done = cache.carry_out(&entries) && is_kept();
                tables::counters::flush();
                ear.relay().answer(is_done);
            }
            RelayMessage::LetGo => {
                cache.own();
                readers_until = Some(clock::now() + READERS_PATIENCE);
            }
            RelayMessage::Gone => break,
            RelayMessage::Nothing => {}
        }
        let waits_too_much = |store: &Arc<storage::Store>| {
            let most = store.limit_bytes().unwrap_or(0) / DEFERRED_SHARE;
            store.is_shared() && store.deferred_bytes() > most.max(DEFERRED_LEAST)
        };
        if cache.stores().all().iter().any(waits_too_much) {
            cache.recall();
        }
    }
    // What was left to a successor is the next one's, whoever that is.
    if other == Other::Former {
        cache.own();
        // It wrote nothing any more since it had handed over.
        worker.disks.want_to_write();
        worker.disks.own();
        worker.quic.own();
    }
    tables::counters::flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_that_takes_long_to_start_costs_idle_connections_nothing() {
        let (socket, _other) = sys::fd::socket_pair().unwrap();
        let mut handover = Handover { relay: Relay::open(socket).unwrap().0, since: None, has_let_go: false };
        let (limit, begun) = (Duration::from_secs(5), clock::now() + Duration::from_secs(60));
        assert!(!handover.is_idle(limit, begun) && !handover.is_idle(limit, begun + limit));
        assert!(handover.is_idle(limit, begun + limit + Duration::from_millis(1)));
    }
}
