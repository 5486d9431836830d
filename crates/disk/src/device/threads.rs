// SPDX-License-Identifier: BSD-2-Clause
//! A device by threads that read and write, each one operation at a time: what every system has.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use sys::blockfile::BlockFile;
use sys::pages::Pages;

use super::{Device, DeviceError, DeviceOp, Done, Ends, IS_DEVICES, answer, stated};

/// Enough for what a thread does when an operation has ended.
const STACK_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub struct Threads {
    shared: Arc<Shared>,
    ends: Ends,
}

#[derive(Debug)]
struct Shared {
    file: Arc<BlockFile>,
    queue: Mutex<Queue>,
    more: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(DeviceOp, Done)>,
    is_closing: bool,
}

impl Threads {
    /// Starts `threads` threads, or as many of them as the system grants.
    ///
    /// # Errors
    /// The system's: not one.
    pub fn new(file: Arc<BlockFile>, threads: usize) -> io::Result<Threads> {
        let shared = Arc::new(Shared { file, queue: Mutex::default(), more: Condvar::new() });
        let (end, ends) = Ends::new();
        for number in 0..threads.max(1) {
            let (shared, end) = (shared.clone(), end.clone());
            let work = move || {
                IS_DEVICES.set(true);
                shared.work();
                drop(shared);
                drop(end);
            };
            match thread::Builder::new().name(format!("disk-{number}")).stack_size(STACK_BYTES).spawn(work) {
                Ok(_) => {}
                Err(error) if number == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(Threads { shared, ends })
    }
}

impl Device for Threads {
    fn len(&self) -> u64 {
        self.shared.file.len()
    }

    fn start(&self, op: DeviceOp, done: Done) {
        self.shared.queue().jobs.push_back((op, done));
        self.shared.more.notify_one();
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let left = {
            let mut queue = self.shared.queue();
            queue.is_closing = true;
            std::mem::take(&mut queue.jobs)
        };
        self.shared.more.notify_all();
        left.into_iter().for_each(|(_, done)| answer(done, Err(DeviceError::Closed)));
        self.ends.wait();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((op, done)) = self.next() {
            answer(done, self.run(op));
        }
    }

    /// `None`: the device closes.
    fn next(&self) -> Option<(DeviceOp, Done)> {
        let mut queue = self.queue();
        loop {
            match queue.jobs.pop_front() {
                Some(job) => return Some(job),
                None if queue.is_closing => return None,
                None => queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn run(&self, op: DeviceOp) -> Result<Pages, DeviceError> {
        match op {
            DeviceOp::Read { at, mut into } => self.file.read(at, &mut into).map(|()| into),
            DeviceOp::Write { at, from } => self.file.write(at, &from).map(|()| Pages::empty()),
            DeviceOp::Sync => self.file.sync().map(|()| Pages::empty()),
        }
        .map_err(|error| stated(&error))
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} waiting", self.jobs.len())
    }
}
