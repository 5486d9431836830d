// SPDX-License-Identifier: BSD-2-Clause
//! A device by rings (io_uring): tasks read by one of their thread's own; for all else there is a thread with a ring, which hands
//! over what others have asked for and tells them the end.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread;

use sys::blockfile::BlockFile;
use sys::pages::PagePool;
use sys::uring::{Ended, IoRing, RingBell, RingJob};

use super::{Device, DeviceError, DeviceOp, Done, Ends, IS_DEVICES, answer, local, stated};

#[derive(Debug)]
pub struct RingDevice {
    len: u64,
    is_registered: bool,
    shared: Arc<Shared>,
    bell: Arc<RingBell>,
    ends: Ends,
}

pub(super) struct Shared {
    pub file: Arc<BlockFile>,
    pub pool: Option<Arc<PagePool>>,
    is_closed: AtomicBool,
    /// Threads that run rings of their own: they are to hear of the end.
    locals: Mutex<Vec<Waker>>,
    queue: Mutex<Queue>,
    /// The thread waits for the kernel, or is about to: who adds to the queue rings the bell.
    is_waiting: AtomicBool,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(RingJob, Done)>,
    is_closing: bool,
}

struct Work {
    ring: IoRing,
    shared: Arc<Shared>,
    waiting: Vec<Option<Done>>,
    vacant: Vec<usize>,
}

impl RingDevice {
    /// A device with at most `most` operations in the kernel at a time; the others wait here.
    ///
    /// # Errors
    /// The system's: it has no rings for us, or no thread.
    pub fn new(
        file: Arc<BlockFile>,
        most: u32,
        pool: Option<&Arc<PagePool>>,
        held: Option<&Arc<File>>,
    ) -> io::Result<RingDevice> {
        let (len, pool, held) = (file.len(), pool.cloned(), held.cloned());
        let shared = Arc::new(Shared {
            file: file.clone(),
            pool: pool.clone(),
            is_closed: AtomicBool::new(false),
            locals: Mutex::default(),
            queue: Mutex::default(),
            is_waiting: AtomicBool::new(false),
        });
        let (end, ends) = Ends::new();
        let (said, hears) = channel();
        let work = {
            let shared = shared.clone();
            move || {
                IS_DEVICES.set(true);
                // A ring belongs to the thread that makes it.
                match IoRing::new(file, most, pool.as_ref(), held.as_ref()) {
                    Ok(ring) => {
                        let _ = said.send(Ok((ring.bell(), ring.is_registered())));
                        Work::new(ring, shared, most as usize).run();
                    }
                    Err(error) => drop(said.send(Err(error))),
                }
                drop((pool, end));
            }
        };
        thread::Builder::new().name("disk-ring".into()).spawn(work)?;
        let (bell, is_registered) = hears.recv().map_err(|_| io::ErrorKind::Other)??;
        Ok(RingDevice { len, is_registered, shared, bell, ends })
    }

    pub fn is_registered(&self) -> bool {
        self.is_registered
    }
}

impl Device for RingDevice {
    fn len(&self) -> u64 {
        self.len
    }

    fn start(&self, op: DeviceOp, done: Done) {
        let (job, done) = match op {
            DeviceOp::Read { at, into } => match local::start(&self.shared, RingJob::Read { at, into }, done) {
                Ok(()) => return,
                Err(back) => back,
            },
            DeviceOp::Write { at, from } => (RingJob::Write { at, from }, done),
            DeviceOp::Sync => (RingJob::Sync, done),
        };
        {
            let mut queue = self.shared.queue();
            if queue.is_closing {
                drop(queue);
                return answer(done, Err(DeviceError::Closed));
            }
            queue.jobs.push_back((job, done));
        }
        // The thread says that it waits, and looks into the queue after that.
        if self.shared.is_waiting.swap(false, SeqCst) {
            self.bell.ring();
        }
    }
}

impl Drop for RingDevice {
    fn drop(&mut self) {
        self.shared.close();
        self.bell.ring();
        self.ends.wait();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_closing(&self) -> bool {
        self.is_closed.load(SeqCst)
    }

    /// Notes a thread with a ring of its own, which gives it up when it hears of the end.
    pub fn note_local(&self, waker: &Waker) {
        self.locals.lock().unwrap_or_else(PoisonError::into_inner).push(waker.clone());
        // It may have closed before.
        if self.is_closing() {
            waker.wake_by_ref();
        }
    }

    fn close(&self) {
        self.is_closed.store(true, SeqCst);
        let locals = std::mem::take(&mut *self.locals.lock().unwrap_or_else(PoisonError::into_inner));
        locals.into_iter().for_each(Waker::wake);
        let left = {
            let mut queue = self.queue();
            queue.is_closing = true;
            std::mem::take(&mut queue.jobs)
        };
        left.into_iter().for_each(|(_, done)| answer(done, Err(DeviceError::Closed)));
    }
}

impl Work {
    fn new(ring: IoRing, shared: Arc<Shared>, most: usize) -> Work {
        Work { ring, shared, waiting: (0..most).map(|_| None).collect(), vacant: (0..most).rev().collect() }
    }

    fn run(mut self) {
        let mut ended: Vec<Ended> = Vec::new();
        loop {
            self.shared.is_waiting.store(true, SeqCst);
            let is_closing = self.take_jobs();
            if is_closing && self.ring.is_idle() {
                return;
            }
            let result = self.ring.run(true, &mut ended);
            self.shared.is_waiting.store(false, SeqCst);
            for (tag, outcome) in ended.drain(..) {
                self.vacant.push(tag as usize);
                if let Some(done) = self.waiting[tag as usize].take() {
                    answer(done, outcome.map_err(|error| stated(&error)));
                }
            }
            if let Err(error) = result {
                return self.fail(&error);
            }
        }
    }

    /// Puts into the ring what waits, as far as there is room. Whether the device closes.
    fn take_jobs(&mut self) -> bool {
        let mut queue = self.shared.queue();
        while self.ring.room() > 0
            && let Some(tag) = self.vacant.pop()
            && let Some((job, done)) = queue.jobs.pop_front().or_else(|| {
                self.vacant.push(tag);
                None
            })
        {
            self.waiting[tag] = Some(done);
            let pushed = self.ring.push(tag as u64, job);
            assert!(pushed.is_ok(), "a ring takes what it has room for");
        }
        queue.is_closing
    }

    /// The ring is of no use any more: nobody waits for it in vain.
    fn fail(mut self, error: &io::Error) {
        self.shared.close();
        for done in self.waiting.iter_mut().filter_map(Option::take) {
            answer(done, Err(stated(error)));
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} waiting", self.queue().jobs.len())
    }
}
