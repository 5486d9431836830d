// SPDX-License-Identifier: BSD-2-Clause
//! A ring of operations on a [`BlockFile`] (io_uring): many are handed to the kernel at once and end in any order.
//!
//! The ring owns the memory of what is in progress, so that the kernel never writes where somebody else reads; it is one
//! thread's own, which waits in [`IoRing::run`] until something has ended or another thread has rung its [`RingBell`].
//! Many containers and some systems forbid rings: then [`IoRing::new`] fails, and the caller has another way.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::types::{Fd, Fixed, FsyncFlags};
use io_uring::{IoUring, Probe, opcode, squeue};

use crate::blockfile::BlockFile;
use crate::pages::{PagePool, Pages};

#[derive(Debug)]
pub enum RingJob {
    /// Fill `into` with what is there from byte `at` on.
    Read { at: u64, into: Pages },
    /// Write `from`, whole, to byte `at` and on.
    Write {
        at: u64,
        /// Pages that don't change meanwhile.
        from: Arc<Pages>,
    },
    /// Bring to stable storage what has been written.
    Sync,
}

/// An operation that has ended: its tag, and the pages of a read or none. `UnexpectedEof`: the file ends before.
pub type Ended = (u64, io::Result<Pages>);

#[derive(Debug)]
pub struct RingBell(OwnedFd);

impl RingBell {
    fn new() -> io::Result<RingBell> {
        // SAFETY: takes no memory of ours.
        let fd = nix::errno::Errno::result(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
        // SAFETY: just made, and nobody else's.
        Ok(RingBell(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The wait ends, or the next one ends at once.
    pub fn ring(&self) {
        // It fails only with a signal, and then hasn't happened.
        while nix::unistd::write(&self.0, &1_u64.to_ne_bytes()) == Err(nix::errno::Errno::EINTR) {}
    }
}

pub struct IoRing {
    ring: IoUring,
    flights: Vec<Option<Flight>>,
    vacant: Vec<u32>,
    bell: Arc<RingBell>,
    /// Counter that the kernel writes when the bell was rung; in the ring while `bell_armed`.
    bell_count: Box<u64>,
    bell_armed: bool,
    /// The pool whose memory the kernel knows already.
    registered: Option<Arc<PagePool>>,
    /// Kept open, as the kernel has them.
    _file: Arc<BlockFile>,
    _held: Option<Arc<File>>,
}

struct Flight {
    tag: u64,
    job: RingJob,
    /// Bytes that came or went so far: the kernel may stop anywhere.
    moved: usize,
    retries: u8,
}

/// An operation's most bytes at once; what is longer goes on after that.
const MOST_BYTES: usize = 1 << 30;
/// The kernel asks for another try rarely, and hardly twice.
const MOST_RETRIES: u8 = 16;
const BELL: u64 = u64::MAX;

impl IoRing {
    /// A ring for at most `most` operations at a time on `file`. Memory of `pool` is made known to the kernel, which
    /// spares it some work each time; where that is refused, [`IoRing::is_registered`] says so.
    ///
    /// The kernel has `held` open as long as the ring is there, which may be longer than the process: operations of a process
    /// that was killed end some time later. So a lock on it tells others that none of them is in progress.
    ///
    /// # Errors
    /// The system's: rings are forbidden or too old here.
    pub fn new(
        file: Arc<BlockFile>,
        most: u32,
        pool: Option<&Arc<PagePool>>,
        held: Option<&Arc<File>>,
    ) -> io::Result<IoRing> {
        let mut ring = build(most + 1)?;
        check(&mut ring)?;
        let files = std::iter::once(file.as_fd()).chain(held.map(|held| held.as_fd()));
        ring.submitter().register_files(&files.map(|fd| fd.as_raw_fd()).collect::<Vec<_>>())?;
        let registered = pool.filter(|pool| register(&ring, pool).is_ok()).cloned();
        Ok(IoRing {
            ring,
            flights: (0..most).map(|_| None).collect(),
            vacant: (0..most).rev().collect(),
            bell: Arc::new(RingBell::new()?),
            bell_count: Box::new(0),
            bell_armed: false,
            registered,
            _file: file,
            _held: held.cloned(),
        })
    }

    pub fn bell(&self) -> Arc<RingBell> {
        self.bell.clone()
    }

    pub fn is_registered(&self) -> bool {
        self.registered.is_some()
    }

    pub fn room(&self) -> usize {
        self.vacant.len()
    }

    pub fn is_idle(&self) -> bool {
        self.vacant.len() == self.flights.len()
    }

    /// Adds an operation, which begins with the next [`IoRing::run`].
    ///
    /// # Errors
    /// There is no room: the job again.
    pub fn push(&mut self, tag: u64, job: RingJob) -> Result<(), RingJob> {
        let Some(at) = self.vacant.pop() else { return Err(job) };
        self.flights[at as usize] = Some(Flight { tag, job, moved: 0, retries: 0 });
        self.submit(at);
        Ok(())
    }

    /// Begins what was added and adds to `ended` what has ended; with `wait` not before something has, or the bell rang.
    ///
    /// # Errors
    /// The system's: the ring is of no use any more.
    pub fn run(&mut self, wait: bool, ended: &mut Vec<Ended>) -> io::Result<()> {
        self.arm_bell();
        self.ring.submit_and_wait(usize::from(wait)).map(|_| ()).or_else(pass_over)?;
        self.reap(ended);
        Ok(())
    }

    /// The same without waiting, nor for a bell: for a thread that learns otherwise when something has ended
    /// ([`IoRing::readiness`]). No system call where there is nothing to begin and nothing has ended. Whether all has begun: otherwise
    /// the system has no memory for now, and it is to be called again.
    ///
    /// # Errors
    /// As those of [`IoRing::run`].
    pub fn turn(&mut self, ended: &mut Vec<Ended>) -> io::Result<bool> {
        self.begin()?;
        self.reap(ended);
        // What the kernel did in part goes on.
        self.begin()
    }

    /// Begins what was added, and has the kernel tell what has ended. Whether all has begun.
    fn begin(&mut self) -> io::Result<bool> {
        let queue = self.ring.submission();
        let is_wanted = !queue.is_empty() || queue.taskrun() || queue.cq_overflow();
        drop(queue);
        if is_wanted {
            self.ring.submit_and_wait(0).map(|_| ()).or_else(pass_over)?;
        }
        Ok(self.ring.submission().is_empty())
    }

    /// A descriptor that becomes readable anew each time that something ends (epoll(7), edge-triggered), and is never read. The
    /// ring's own isn't of use: where work is left to the waiting thread, nobody is told of it.
    ///
    /// # Errors
    /// The system's: too many descriptors.
    pub fn readiness(&self) -> io::Result<OwnedFd> {
        let signal = RingBell::new()?;
        self.ring.submitter().register_eventfd(signal.0.as_raw_fd())?;
        Ok(signal.0)
    }

    /// Ends it without waiting: what is in progress keeps its memory and the ring for ever, since the kernel still writes there.
    pub fn abandon(self) {
        if self.bell_armed || !self.is_idle() {
            mem::forget(self);
        }
    }

    fn reap(&mut self, ended: &mut Vec<Ended>) {
        loop {
            let Some(entry) = self.ring.completion().next() else { return };
            match entry.user_data() {
                BELL => self.bell_armed = false,
                at => ended.extend(self.land(at as u32, entry.result())),
            }
        }
    }

    /// Waits until nothing is in progress, the bell included.
    fn land_all(&mut self) -> io::Result<()> {
        let mut ended = Vec::new();
        while self.bell_armed || !self.is_idle() {
            self.bell.ring();
            let waited = self.ring.submit_and_wait(1);
            self.reap(&mut ended);
            waited.map(|_| ()).or_else(pass_over)?;
        }
        Ok(())
    }

    fn arm_bell(&mut self) {
        if !self.bell_armed {
            self.bell_armed = true;
            let into = (&raw mut *self.bell_count).cast::<u8>();
            let entry = opcode::Read::new(Fd(self.bell.0.as_raw_fd()), into, size_of::<u64>() as u32).build();
            self.enqueue(&entry.user_data(BELL));
        }
    }

    fn submit(&mut self, at: u32) {
        let flight = self.flights[at as usize].as_mut().expect("what is submitted is in progress");
        let entry = flight.entry(self.registered.as_deref()).user_data(at.into());
        self.enqueue(&entry);
    }

    fn enqueue(&mut self, entry: &squeue::Entry) {
        // SAFETY: the memory that the entry names belongs to a flight or is the bell's count. Both stay in `self`, where nobody
        // touches them, until the kernel has told the entry's end; `drop` waits for that or leaves them there for ever.
        let pushed = unsafe { self.ring.submission().push(entry) };
        assert!(pushed.is_ok(), "the queue has an entry for each flight and one for the bell");
    }

    /// Takes note of how far the kernel came with an operation: `None` while it isn't at its end.
    fn land(&mut self, at: u32, result: i32) -> Option<Ended> {
        let flight = self.flights.get_mut(at as usize)?.as_mut()?;
        let Some(end) = flight.advance(result) else {
            self.submit(at);
            return None;
        };
        let flight = self.flights[at as usize].take()?;
        self.vacant.push(at);
        let pages = match flight.job {
            RingJob::Read { into, .. } => into,
            RingJob::Write { .. } | RingJob::Sync => Pages::empty(),
        };
        Some((flight.tag, end.map(|()| pages)))
    }
}

impl Drop for IoRing {
    fn drop(&mut self) {
        if self.land_all().is_err() {
            // Nobody can tell what the kernel still writes to: nobody else gets this memory.
            mem::forget(mem::take(&mut self.flights));
            mem::forget(mem::take(&mut self.bell_count));
            mem::forget(self.registered.take());
            return;
        }
        // The kernel takes a ring down some time later; the file's lock and the pool's memory are to be free at once.
        let _ = self.ring.submitter().unregister_files();
        let _ = self.ring.submitter().unregister_buffers();
    }
}

impl std::fmt::Debug for IoRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IoRing({} of {} in progress)", self.flights.len() - self.vacant.len(), self.flights.len())
    }
}

impl Flight {
    fn entry(&mut self, registered: Option<&PagePool>) -> squeue::Entry {
        let (file, moved) = (Fixed(0), self.moved);
        let known = |pages: &Pages| registered.is_some_and(|pool| pages.is_of(pool));
        match &mut self.job {
            RingJob::Read { at, into } => {
                let (known, rest) = (known(into), &mut into[moved..]);
                let (to, len, offset) = (rest.as_mut_ptr(), rest.len().min(MOST_BYTES) as u32, *at + moved as u64);
                match known {
                    true => opcode::ReadFixed::new(file, to, len, 0).offset(offset).build(),
                    false => opcode::Read::new(file, to, len).offset(offset).build(),
                }
            }
            RingJob::Write { at, from } => {
                let rest = &from[moved..];
                let (of, len, offset) = (rest.as_ptr(), rest.len().min(MOST_BYTES) as u32, *at + moved as u64);
                match known(from) {
                    true => opcode::WriteFixed::new(file, of, len, 0).offset(offset).build(),
                    false => opcode::Write::new(file, of, len).offset(offset).build(),
                }
            }
            RingJob::Sync => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
        }
    }

    /// The operation's result; `None` when there is more to do.
    fn advance(&mut self, result: i32) -> Option<io::Result<()>> {
        if matches!(-result, libc::EINTR | libc::EAGAIN) && self.retries < MOST_RETRIES {
            self.retries += 1;
            return None;
        }
        let Ok(moved) = usize::try_from(result) else { return Some(Err(io::Error::from_raw_os_error(-result))) };
        let (len, none) = match &self.job {
            RingJob::Read { into, .. } => (into.len(), io::ErrorKind::UnexpectedEof),
            RingJob::Write { from, .. } => (from.len(), io::ErrorKind::WriteZero),
            RingJob::Sync => return Some(Ok(())),
        };
        self.moved += moved;
        match (self.moved >= len, moved) {
            (true, _) => Some(Ok(())),
            (false, 0) => Some(Err(none.into())),
            (false, _) => None,
        }
    }
}

/// A signal, or too little memory for now, is no failure: what has ended makes room.
fn pass_over(error: io::Error) -> io::Result<()> {
    match error.raw_os_error() {
        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
        _ => Err(error),
    }
}

/// A ring as this kernel has it: newer ones leave all work to the thread that waits for it, which spares interruptions.
fn build(entries: u32) -> io::Result<IoUring> {
    let newest = IoUring::builder()
        .dontfork()
        .setup_clamp()
        .setup_submit_all()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .build(entries);
    newest.or_else(|_| IoUring::builder().dontfork().setup_clamp().build(entries))
}

/// Checks that the ring takes what we need, and lets an operation through.
fn check(ring: &mut IoUring) -> io::Result<()> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [
        opcode::Read::CODE,
        opcode::Write::CODE,
        opcode::ReadFixed::CODE,
        opcode::WriteFixed::CODE,
        opcode::Fsync::CODE,
    ];
    if !needed.iter().all(|&code| probe.is_supported(code)) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: an operation that does nothing names no memory.
    let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
    assert!(pushed.is_ok(), "a new queue is empty");
    ring.submit_and_wait(1)?;
    ring.completion().next().map(|_| ()).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

fn register(ring: &IoUring, pool: &Arc<PagePool>) -> io::Result<()> {
    let (base, len) = pool.memory();
    let memory = [libc::iovec { iov_base: base.as_ptr().cast(), iov_len: len }];
    // SAFETY: the pool's mapping is there as long as `IoRing` holds the pool, which is as long as the ring.
    unsafe { ring.submitter().register_buffers(&memory) }
}

#[cfg(test)]
mod tests;
