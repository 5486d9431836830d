// SPDX-License-Identifier: BSD-2-Clause
//! The journal of invalidations: what a new worker must know of bans and purges before it serves objects of a former one.
//!
//! [`Journal::append`] puts an entry into a queue in memory, so that it may be called under a lock; [`Journal::commit`]
//! returns when the entry lasts. Whoever comes to commit while another one writes waits for that, and then the first of
//! those who waited writes for all (group commit). Nobody is told that an invalidation is done before its commit.
//!
//! A medium that may take its time ([`Medium::takes_time`]) is written by a thread of its own ([`Journal::work`]), which
//! commits all that has come meanwhile at once. Others ask for that ([`Journal::flush`]) and await it ([`Unkept`]).
//!
//! What can't be written makes the journal incomplete, and that is written in its place: the next worker believes nothing
//! and starts empty. Only where not even that can be written does a commit fail.
//!
//! [`Journal::cut`] begins the log anew, with what is needed still.
//!
//! A worker that has its successor beside it writes no more: the log is that one's, who carries out what comes here and keeps
//! it ([`Journal::hand_over`]).

mod entry;
mod log;
mod medium;
#[cfg(test)]
mod tests;
mod unkept;

use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::task::Waker;
use std::thread::Thread;
use std::time::Duration;

use base::critical::Lock;
use base::lock::Mutex;

pub use entry::{Followed, JournalBan, JournalEntry, JournalHeld, JournalLife, JournalPurge, JournalTagPurge};
pub use log::{JournalError, is_foreign};
pub use medium::{JournalFile, Medium};
pub use unkept::Unkept;

use log::Log;

/// A log isn't begun anew before it has grown by so much.
const GROWTH: u64 = 1 << 20;

/// Bytes that may wait for a medium that stands still; with more the journal is given up.
const MOST_WAITING: usize = 64 << 20;

/// Position that the journal must reach for an entry to last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct JournalTicket(u64);

/// The journal of a worker.
#[derive(Debug)]
pub struct Journal {
    queue: Lock<Queue>,
    writer: Lock<Writer>,
    stable: AtomicU64,
    /// Entries that could not be made to last, nor could that be written down.
    refused: AtomicU64,
    /// Bytes to be written until the log ought to be begun anew.
    room: AtomicU64,
    failure: Mutex<Option<JournalFailure>>,
    thread: CommitThread,
}

/// State of an incomplete journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalFailure {
    /// The reason for the failure.
    pub reason: String,
    /// True if the failure is on stable storage, so that nobody will believe the journal; else a former state of it may
    /// come back.
    pub is_written: bool,
}

#[derive(Debug, Default)]
struct CommitThread {
    /// The medium takes its time: nobody else writes.
    is_needed: bool,
    handle: OnceLock<Thread>,
    /// Somebody waits, or has something to be written.
    is_asked: AtomicBool,
    is_to_end: AtomicBool,
}

impl CommitThread {
    fn ask(&self) {
        // Once is enough: it looks for all that is there.
        if !self.is_asked.swap(true, Release) {
            self.handle.get().into_iter().for_each(Thread::unpark);
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    pending: Vec<u8>,
    appended: u64,
    /// Entries since the cut, written or not, while the log is about to be begun anew.
    since_cut: Option<Vec<u8>>,
    /// Nothing is written any more.
    is_over: bool,
    /// More waited than may.
    has_overflowed: bool,
    is_handed_over: bool,
    /// Tasks that wait for entries to last, by a number of their own.
    waiting: BTreeMap<u64, Waker>,
    next_waiter: u64,
}

/// Another worker that serves the same objects.
pub trait JournalPeer: Send + std::fmt::Debug {
    /// Has these entries carried out and kept; returns when that is done.
    ///
    /// # Errors
    /// It isn't done.
    fn carry_out(&mut self, entries: &[u8]) -> io::Result<()>;

    /// Has it know, at once, that it isn't told any more.
    fn give_up(&mut self) {}

    /// Tells whether that was said by the other worker, or that one is gone.
    fn given_up(&self) -> Box<dyn Fn() -> bool + Send + Sync> {
        Box::new(|| false)
    }
}

#[derive(Debug)]
struct Writer {
    log: Log,
    /// Reason why the journal is incomplete, if it is, and whether that could be written down.
    failure: Option<(io::Error, bool)>,
    successor: Option<Box<dyn JournalPeer>>,
}

impl Journal {
    /// A new journal, in place of whatever is on the medium.
    ///
    /// # Errors
    /// The system's.
    pub fn format(medium: impl Medium + 'static) -> io::Result<Journal> {
        let mut first = Vec::new();
        JournalEntry::Newest { seq: 0 }.encode(&mut first);
        Ok(Journal::of(Log::format(Box::new(medium), &first)?))
    }

    /// Reads a journal: its entries, in the order in which they were appended. What was being written when its writer ended
    /// is whole or not there.
    ///
    /// # Errors
    /// Why it can't be used. Objects from before can't be judged then; [`Journal::format`] makes a new one.
    pub fn open(medium: impl Medium + 'static) -> Result<(Journal, Vec<JournalEntry>), JournalError> {
        let (mut log, payload) = Log::read(Box::new(medium))?;
        let entries = JournalEntry::decode_all(&payload).ok_or(JournalError::Damaged)?;
        // Nothing is ever written behind a torn frame.
        log.replace(&payload)?;
        Ok((Journal::of(log), entries))
    }

    fn of(log: Log) -> Journal {
        let journal = Journal {
            queue: Lock::default(),
            thread: CommitThread { is_needed: log.takes_time(), ..CommitThread::default() },
            writer: Lock::new(Writer { log, failure: None, successor: None }),
            stable: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            room: AtomicU64::new(0),
            failure: Mutex::default(),
        };
        journal.measure(&journal.writer.lock());
        journal
    }

    /// Puts an entry behind those that were appended before. It is [`Journal::commit`] that makes it last.
    pub fn append(&self, entry: &JournalEntry) -> JournalTicket {
        let mut queue = self.queue.lock();
        queue.appended += 1;
        if !queue.is_over {
            let begin = queue.pending.len();
            entry.encode(&mut queue.pending);
            let Queue { pending, since_cut, .. } = &mut *queue;
            since_cut.iter_mut().for_each(|since| since.extend_from_slice(&pending[begin..]));
            if pending.len().max(since_cut.as_ref().map_or(0, Vec::len)) > MOST_WAITING {
                (queue.is_over, queue.has_overflowed) = (true, true);
                (queue.pending, queue.since_cut) = (Vec::new(), None);
            }
        }
        JournalTicket(queue.appended)
    }

    /// Returns when the entry lasts, with all that were appended before it; or when it is written down that the journal is
    /// incomplete.
    ///
    /// # Errors
    /// Neither could be written: a former state of the journal may come back.
    pub fn commit(&self, ticket: JournalTicket) -> io::Result<()> {
        if self.is_stable(ticket) {
            return Ok(());
        }
        let mut writer = self.writer.lock();
        if self.is_stable(ticket) {
            return Ok(());
        }
        let (pending, appended, has_overflowed) = {
            let mut queue = self.queue.lock();
            (std::mem::take(&mut queue.pending), queue.appended, queue.has_overflowed)
        };
        let overflow = || io::Error::other("too much waits to be written");
        let carried_out = writer.successor.as_mut().map(|successor| match has_overflowed {
            true => Err(overflow()),
            false => successor.carry_out(&pending),
        });
        if let Some(Err(error)) = &carried_out {
            let failure = JournalFailure { reason: error.to_string(), is_written: true };
            self.failure.lock().get_or_insert(failure);
        }
        let result = match (carried_out, &writer.failure) {
            (Some(result), _) => result,
            (None, Some(_)) => self.fail(&mut writer, None),
            (None, None) if has_overflowed => self.fail(&mut writer, Some(overflow())),
            (None, None) => writer.log.append(&pending).or_else(|error| self.fail(&mut writer, Some(error))),
        };
        self.measure(&writer);
        match result {
            Ok(()) => self.stable.store(appended, Release),
            Err(_) => self.refused.store(appended, Release),
        }
        drop(writer);
        self.tell();
        result
    }

    /// Has the entry be made to last: when this returns where that takes no time, else soon, by [`Journal::work`].
    ///
    /// # Errors
    /// As [`Journal::commit`], where that is done here.
    pub fn flush(&self, ticket: JournalTicket) -> io::Result<()> {
        if !self.thread.is_needed {
            return self.commit(ticket);
        }
        if !self.is_stable(ticket) {
            self.thread.ask();
        }
        Ok(())
    }

    /// True if a thread has to do [`Journal::work`].
    pub fn needs_thread(&self) -> bool {
        self.thread.is_needed
    }

    /// Writes what others append, on this thread, until [`Journal::end`]. `beside` is done after each commit, and at least
    /// once in a `pause`.
    pub fn work(&self, pause: Duration, beside: &mut dyn FnMut()) {
        let is_first = self.thread.handle.set(std::thread::current()).is_ok();
        assert!(is_first, "one thread writes a journal");
        loop {
            let is_last = self.thread.is_to_end.load(Acquire);
            if !is_last && !self.thread.is_asked.swap(false, Acquire) {
                std::thread::park_timeout(pause);
            }
            // Who waits hears of the error; it is tried again with the next entry.
            let _ = self.commit(self.newest());
            if is_last {
                break;
            }
            beside();
        }
    }

    /// Ends [`Journal::work`], once what was appended before is written.
    pub fn end(&self) {
        self.thread.is_to_end.store(true, Release);
        self.thread.handle.get().into_iter().for_each(Thread::unpark);
    }

    /// Ticket of the last appended entry.
    pub fn newest(&self) -> JournalTicket {
        JournalTicket(self.queue.lock().appended)
    }

    fn tell(&self) {
        let waiting = std::mem::take(&mut self.queue.lock().waiting);
        waiting.into_values().for_each(Waker::wake);
    }

    /// True if the entry lasts.
    pub fn is_stable(&self, ticket: JournalTicket) -> bool {
        self.stable.load(Acquire) >= ticket.0
    }

    /// Writes what was appended, and nothing more from then on: a successor opens the log, and does what is appended later.
    ///
    /// # Errors
    /// The journal is incomplete, or could not be written: the successor can't believe what it finds.
    pub fn hand_over(&self, successor: Box<dyn JournalPeer>) -> io::Result<()> {
        let mut writer = self.writer.lock();
        let (pending, appended, has_overflowed) = {
            let mut queue = self.queue.lock();
            queue.is_handed_over = true;
            queue.since_cut = None;
            (std::mem::take(&mut queue.pending), queue.appended, queue.has_overflowed)
        };
        let result = match writer.failure {
            Some(_) => self.fail(&mut writer, None),
            None if has_overflowed => self.fail(&mut writer, Some(io::Error::other("too much waits to be written"))),
            None if pending.is_empty() => Ok(()),
            None => writer.log.append(&pending).or_else(|error| self.fail(&mut writer, Some(error))),
        };
        writer.successor = Some(successor);
        match result {
            Ok(()) => self.stable.store(appended, Release),
            Err(_) => self.refused.store(appended, Release),
        }
        drop(writer);
        self.tell();
        result
    }

    /// The successor is gone: writes here again. What the log says since [`Journal::hand_over`] is to be replaced at once, by
    /// [`Journal::cut`].
    ///
    /// # Errors
    /// What it has left can't be gone on from: the journal is incomplete.
    pub fn take_back(&self) -> io::Result<()> {
        let mut writer = self.writer.lock();
        if writer.successor.take().is_none() {
            return Ok(());
        }
        self.queue.lock().is_handed_over = false;
        if writer.failure.is_some() {
            return Ok(());
        }
        // What couldn't be told to the successor has been said where it mattered.
        *self.failure.lock() = None;
        let read = writer.log.read_again();
        read.or_else(|error| self.fail(&mut writer, Some(io::Error::other(error))))
    }

    /// The reason why the journal is incomplete, if it is.
    pub fn failure(&self) -> Option<JournalFailure> {
        self.failure.lock().clone()
    }

    /// True if the log ought to be begun anew: it is much longer than when it was begun.
    pub fn is_oversized(&self) -> bool {
        self.room.load(Relaxed) == 0
    }

    /// Begins the log anew: from now on entries go into the new one. Whoever calls this then gathers what is still needed of
    /// those appended before, which must not change in between, and calls [`Cut::finish`]. `None`: that is under way already.
    pub fn cut(&self) -> Option<Cut<'_>> {
        let mut queue = self.queue.lock();
        if queue.is_over || queue.is_handed_over || queue.since_cut.is_some() {
            return None;
        }
        queue.since_cut = Some(Vec::new());
        Some(Cut { journal: self, is_taken: false })
    }

    /// Something can't be told here any more: the next worker believes nothing.
    pub fn renounce(&self, reason: &'static str) {
        let mut writer = self.writer.lock();
        // What is a successor's is written by that one alone.
        if writer.failure.is_none() && writer.successor.is_none() {
            // Whether it could be written down is tried again by each commit.
            let _ = self.fail(&mut writer, Some(io::Error::other(reason)));
        }
    }

    /// The journal is incomplete, for this reason or as before: writes that down.
    fn fail(&self, writer: &mut Writer, error: Option<io::Error>) -> io::Result<()> {
        let mut queue = self.queue.lock();
        queue.is_over = true;
        queue.pending = Vec::new();
        drop(queue);
        let (error, was_told) = match (error, writer.failure.take()) {
            (_, Some(before)) => before,
            (error, None) => (error.unwrap_or_else(|| io::ErrorKind::Other.into()), false),
        };
        let told = if was_told { Ok(()) } else { writer.log.renounce() };
        *self.failure.lock() = Some(JournalFailure { reason: error.to_string(), is_written: told.is_ok() });
        writer.failure = Some((error, told.is_ok()));
        told
    }

    fn measure(&self, writer: &Writer) {
        let (bytes, base) = writer.log.sizes();
        self.room.store((2 * base + GROWTH).saturating_sub(bytes), Relaxed);
    }
}

/// The right to begin the log anew; dropped, the old one goes on.
#[derive(Debug)]
pub struct Cut<'a> {
    journal: &'a Journal,
    /// True if entries since the cut were taken: the next cut may be another's.
    is_taken: bool,
}

impl Cut<'_> {
    /// Writes the new log: the entries that are still needed of those before the cut, and all since.
    ///
    /// # Errors
    /// The system's. The old log goes on, or the journal is incomplete.
    pub fn finish(mut self, needed: &[JournalEntry]) -> io::Result<()> {
        let journal = self.journal;
        let mut payload = Vec::new();
        needed.iter().for_each(|entry| entry.encode(&mut payload));
        let mut writer = journal.writer.lock();
        if writer.successor.is_some() {
            self.is_taken = true;
            return Ok(());
        }
        let (pending, appended) = {
            let mut queue = journal.queue.lock();
            self.is_taken = true;
            if queue.has_overflowed {
                // The next commit says so.
                return Ok(());
            }
            payload.append(&mut queue.since_cut.take().unwrap_or_default());
            (std::mem::take(&mut queue.pending), queue.appended)
        };
        if writer.failure.is_some() {
            return Ok(());
        }
        let generation = writer.log.generation();
        let result = writer.log.replace(&payload);
        journal.measure(&writer);
        match result {
            Ok(()) => {
                journal.stable.store(appended, Release);
                drop(writer);
                journal.tell();
            }
            Err(error) if writer.log.generation() == generation => {
                let mut queue = journal.queue.lock();
                let later = std::mem::replace(&mut queue.pending, pending);
                queue.pending.extend_from_slice(&later);
                return Err(error);
            }
            Err(error) => journal.fail(&mut writer, Some(error))?,
        }
        Ok(())
    }
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        if !self.is_taken {
            self.journal.queue.lock().since_cut = None;
        }
    }
}
