// SPDX-License-Identifier: BSD-2-Clause
//! The seam between the disk home and what its blocks are on: operations that are begun here and end later, elsewhere.
//!
//! An operation may fail, end late or not have happened at all after a power cut. The order of operations in progress
//! is nobody's promise: who needs one waits for the first to end; what has ended is on stable storage once a
//! [`DeviceOp::Sync`] has ended that was begun after it. If that one fails, nobody knows of what ended before it, and a later sync says nothing
//! of it either: on Linux the kernel may have dropped the blocks.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sys::pages::Pages;

#[cfg(test)]
pub(crate) mod faulty;
mod file;
mod local;
mod ring;
mod threads;
mod watched;

pub use file::{DeviceEngine, DeviceOptions, FileDevice};
pub use watched::{DeviceCounts, Patience};

/// Bytes in blocks of [`sys::pages::BLOCK`] that outlive a process.
pub trait Device: Send + Sync + fmt::Debug {
    /// Bytes: whole blocks, and the same as long as it is open.
    fn len(&self) -> u64;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Begins an operation; never blocks. `done` is called exactly once, on any thread, maybe before this returns: it
    /// takes no lock that the caller of `start` may hold, and is quick.
    fn start(&self, op: DeviceOp, done: Done);
}

#[derive(Debug)]
pub enum DeviceOp {
    Read {
        /// The first byte, a multiple of the block size.
        at: u64,
        /// Pages that come back filled.
        into: Pages,
    },
    Write {
        at: u64,
        /// Pages that don't change meanwhile.
        from: Arc<Pages>,
    },
    /// Bring to stable storage whatever has ended before.
    Sync,
}

/// Hears how an operation ended: with the pages of a read, or with none.
pub type Done = Box<dyn FnOnce(Result<Pages, DeviceError>) + Send>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceError {
    /// The system's number, as EIO.
    Os(i32),
    /// The device ended before the operation did: the file was truncated.
    Short,
    /// Not whole blocks of the device. Nothing was done.
    Range,
    /// Too many operations are in progress. Nothing was done.
    Busy,
    /// The operation took too long. It may still happen at any later time: a write's blocks hold anything until then.
    Stalled,
    /// The device is closed. Nothing was done.
    Closed,
}

impl DeviceError {
    pub fn is_no_space(self) -> bool {
        const ENOSPC: i32 = 28;
        const EDQUOT: i32 = 122;
        matches!(self, DeviceError::Os(ENOSPC | EDQUOT))
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceError::Os(number) => write!(f, "{}", std::io::Error::from_raw_os_error(*number)),
            DeviceError::Short => f.write_str("the device is shorter than it was"),
            DeviceError::Range => f.write_str("not whole blocks of the device"),
            DeviceError::Busy => f.write_str("too many operations are in progress"),
            DeviceError::Stalled => f.write_str("the operation took too long"),
            DeviceError::Closed => f.write_str("the device is closed"),
        }
    }
}

impl std::error::Error for DeviceError {}

/// Has one operation done and waits for its end: for tools and for the time before there is traffic.
///
/// # Errors
/// The operation's.
pub fn perform(device: &dyn Device, op: DeviceOp) -> Result<Pages, DeviceError> {
    let (said, hears) = channel();
    // A ring of this thread's would wait for the thread, which waits here.
    local::passed_by(|| device.start(op, Box::new(move |result| drop(said.send(result)))));
    hears.recv().unwrap_or(Err(DeviceError::Closed))
}

pub(crate) fn stated(error: &io::Error) -> DeviceError {
    match (error.raw_os_error(), error.kind()) {
        (Some(number), _) => DeviceError::Os(number),
        (None, io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero) => DeviceError::Short,
        (None, _) => DeviceError::Closed,
    }
}

/// Tells an operation's end. What panics there has been reported, and costs nobody else the answer.
fn answer(done: Done, result: Result<Pages, DeviceError>) {
    let _ = catch_unwind(AssertUnwindSafe(|| done(result)));
}

thread_local! {
    /// This thread is a device's: it waits for no device's end, which may be its own.
    static IS_DEVICES: Cell<bool> = const { Cell::new(false) };
}

/// Waits for the threads of a device, for a while: one that the disk doesn't let go ends by itself later.
#[derive(Debug)]
struct Ends(Mutex<Receiver<()>>);

impl Ends {
    const PATIENCE: Duration = Duration::from_secs(2);

    /// A sender that each thread holds until it has let go of all else; and the other side.
    fn new() -> (Sender<()>, Ends) {
        let (end, ends) = channel();
        (end, Ends(Mutex::new(ends)))
    }

    fn wait(&self) {
        if IS_DEVICES.get() {
            return;
        }
        // Nobody sends: this ends when the last thread drops its side.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(Ends::PATIENCE);
    }
}

#[cfg(test)]
pub(crate) mod tests;
