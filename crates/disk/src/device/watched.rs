// SPDX-License-Identifier: BSD-2-Clause
//! A device with bounds: so many operations at a time, none outside of it, none that its starter waits for longer than
//! a [`Patience`]. What takes longer is answered as [`DeviceError::Stalled`] and keeps its place until it ends after all,
//! so that a disk that hangs takes a known amount of memory, and the rest is refused at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base::clock;
use sys::pages::{BLOCK, Pages};

use super::{Device, DeviceError, DeviceOp, Done};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// A read: somebody waits for it, who could have asked the origin.
    pub read: Duration,
    /// A write or a sync: nobody waits, and disks take their time for many.
    pub write: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { read: Duration::from_secs(1), write: Duration::from_secs(10) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceCounts {
    /// Reads, writes and syncs that ended well.
    pub reads: u64,
    pub writes: u64,
    pub syncs: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub errors: u64,
    pub stalls: u64,
    /// Operations that were refused: too many in progress, or not whole blocks of the device.
    pub refused: u64,
    /// Operations in progress, those that stalled included.
    pub in_progress: u64,
    /// Writes and syncs among these.
    pub writes_in_progress: u64,
}

#[derive(Debug)]
pub struct WatchedDevice<D> {
    device: D,
    book: Arc<Book>,
    watcher: Option<JoinHandle<()>>,
}

struct Book {
    places: Mutex<Places>,
    patience: Patience,
    tally: Tally,
    writes_in_progress: AtomicU64,
    /// The watcher looks again by itself. Otherwise it sleeps, and who begins an operation wakes it.
    is_awake: AtomicBool,
    is_closing: AtomicBool,
}

#[derive(Default)]
struct Tally {
    reads: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    errors: AtomicU64,
    stalls: AtomicU64,
    refused: AtomicU64,
}

struct Places {
    all: Vec<WatchedPlace>,
    vacant: Vec<u32>,
}

enum WatchedPlace {
    Vacant,
    InProgress {
        done: Done,
        until: Instant,
    },
    /// The caller has been answered; the device hasn't ended the operation.
    Stalled,
}

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write(u64),
    Sync,
}

impl Kind {
    /// True if the operation may change the device's content as long as it hasn't ended.
    fn is_change(self) -> bool {
        !matches!(self, Kind::Read)
    }
}

impl<D: Device> WatchedDevice<D> {
    pub fn new(device: D, most: usize, patience: Patience) -> WatchedDevice<D> {
        let places =
            Places { all: (0..most).map(|_| WatchedPlace::Vacant).collect(), vacant: (0..most as u32).rev().collect() };
        let book = Arc::new(Book {
            places: Mutex::new(places),
            patience,
            tally: Tally::default(),
            writes_in_progress: AtomicU64::new(0),
            is_awake: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
        });
        let watcher = thread::Builder::new().name("disk-watch".into()).spawn({
            let book = book.clone();
            move || book.watch()
        });
        // Without a watcher nothing is answered early; all else goes on.
        WatchedDevice { device, book, watcher: watcher.ok() }
    }

    pub fn counts(&self) -> DeviceCounts {
        let tally = &self.book.tally;
        DeviceCounts {
            reads: tally.reads.load(Relaxed),
            writes: tally.writes.load(Relaxed),
            syncs: tally.syncs.load(Relaxed),
            read_bytes: tally.read_bytes.load(Relaxed),
            written_bytes: tally.written_bytes.load(Relaxed),
            errors: tally.errors.load(Relaxed),
            stalls: tally.stalls.load(Relaxed),
            refused: tally.refused.load(Relaxed),
            in_progress: self.book.in_progress(),
            writes_in_progress: self.book.writes_in_progress.load(SeqCst),
        }
    }

    pub fn device(&self) -> &D {
        &self.device
    }

    fn is_within(&self, op: &DeviceOp) -> bool {
        let (at, len) = match op {
            DeviceOp::Read { at, into } => (*at, into.len()),
            DeviceOp::Write { at, from } => (*at, from.len()),
            DeviceOp::Sync => return true,
        };
        let end = at.checked_add(len as u64);
        len > 0 && at.is_multiple_of(BLOCK as u64) && end.is_some_and(|end| end <= self.device.len())
    }

    fn refuse(&self, done: Done, error: DeviceError) {
        self.book.tally.refused.fetch_add(1, Relaxed);
        done(Err(error));
    }
}

impl<D: Device> Device for WatchedDevice<D> {
    fn len(&self) -> u64 {
        self.device.len()
    }

    fn start(&self, op: DeviceOp, done: Done) {
        if !self.is_within(&op) {
            return self.refuse(done, DeviceError::Range);
        }
        let (kind, patience) = match &op {
            DeviceOp::Read { .. } => (Kind::Read, self.book.patience.read),
            DeviceOp::Write { from, .. } => (Kind::Write(from.len() as u64), self.book.patience.write),
            DeviceOp::Sync => (Kind::Sync, self.book.patience.write),
        };
        let place = match self.book.places().enter(done, clock::now() + patience) {
            Ok(place) => place,
            Err(done) => return self.refuse(done, DeviceError::Busy),
        };
        if kind.is_change() {
            self.book.writes_in_progress.fetch_add(1, SeqCst);
        }
        if !self.book.is_awake.swap(true, SeqCst)
            && let Some(watcher) = &self.watcher
        {
            watcher.thread().unpark();
        }
        let book = self.book.clone();
        self.device.start(op, Box::new(move |result| book.end(place, kind, result)));
    }
}

impl<D> Drop for WatchedDevice<D> {
    fn drop(&mut self) {
        self.book.is_closing.store(true, SeqCst);
        if let Some(watcher) = &self.watcher {
            watcher.thread().unpark();
        }
    }
}

impl Book {
    fn places(&self) -> MutexGuard<'_, Places> {
        // What panics under this lock is an assertion about the places themselves, after which nobody is answered wrongly.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_progress(&self) -> u64 {
        let places = self.places();
        (places.all.len() - places.vacant.len()) as u64
    }

    fn end(&self, place: u32, kind: Kind, result: Result<Pages, DeviceError>) {
        self.tally.count(kind, &result);
        if kind.is_change() {
            self.writes_in_progress.fetch_sub(1, SeqCst);
        }
        let done = self.places().leave(place);
        // After the unlock: it may begin the next operation.
        if let Some(done) = done {
            done(result);
        }
    }

    /// Answers what has taken too long, for as long as there is something in progress, and then sleeps.
    fn watch(&self) {
        let period = self.patience.read.min(self.patience.write) / 4;
        loop {
            let late = self.places().late(clock::now());
            self.tally.stalls.fetch_add(late.len() as u64, Relaxed);
            late.into_iter().for_each(|done| done(Err(DeviceError::Stalled)));
            if self.places().is_waited_for() {
                thread::park_timeout(period);
                continue;
            }
            if self.is_closing.load(SeqCst) {
                return;
            }
            self.is_awake.store(false, SeqCst);
            // What began since the last look hasn't woken anybody.
            if !self.places().is_waited_for() {
                thread::park();
            }
            self.is_awake.store(true, SeqCst);
        }
    }
}

impl std::fmt::Debug for Book {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in progress", self.in_progress())
    }
}

impl Tally {
    fn count(&self, kind: Kind, result: &Result<Pages, DeviceError>) {
        let (number, bytes, len) = match (kind, result) {
            (_, Err(_)) => (&self.errors, None, 0),
            (Kind::Read, Ok(pages)) => (&self.reads, Some(&self.read_bytes), pages.len() as u64),
            (Kind::Write(len), Ok(_)) => (&self.writes, Some(&self.written_bytes), len),
            (Kind::Sync, Ok(_)) => (&self.syncs, None, 0),
        };
        number.fetch_add(1, Relaxed);
        if let Some(bytes) = bytes {
            bytes.fetch_add(len, Relaxed);
        }
    }
}

impl Places {
    fn enter(&mut self, done: Done, until: Instant) -> Result<u32, Done> {
        let Some(place) = self.vacant.pop() else { return Err(done) };
        self.all[place as usize] = WatchedPlace::InProgress { done, until };
        Ok(place)
    }

    /// Removes an operation; returns its callback, if anybody still waits.
    fn leave(&mut self, place: u32) -> Option<Done> {
        let left = std::mem::replace(&mut self.all[place as usize], WatchedPlace::Vacant);
        self.vacant.push(place);
        match left {
            WatchedPlace::InProgress { done, .. } => Some(done),
            WatchedPlace::Stalled => None,
            WatchedPlace::Vacant => panic!("a device ended an operation twice"),
        }
    }

    /// Those that wait for what should have ended.
    fn late(&mut self, now: Instant) -> Vec<Done> {
        let mut late = Vec::new();
        for place in &mut self.all {
            let is_late = matches!(place, WatchedPlace::InProgress { until, .. } if *until <= now);
            if is_late && let WatchedPlace::InProgress { done, .. } = std::mem::replace(place, WatchedPlace::Stalled) {
                late.push(done);
            }
        }
        late
    }

    fn is_waited_for(&self) -> bool {
        self.all.iter().any(|place| matches!(place, WatchedPlace::InProgress { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::faulty::{DeviceFault, Faulty, FaultyOperation, On};
    use crate::device::{perform, threads::Threads};

    const LONG: Duration = Duration::from_secs(3600);

    /// A device of 16 blocks with faults to come, watched.
    fn device(most: usize, read: Duration) -> WatchedDevice<Faulty<Threads>> {
        let device = Faulty::new(Threads::new(Arc::new(crate::device::tests::file(16)), 2).unwrap());
        WatchedDevice::new(device, most, Patience { read, write: LONG })
    }

    fn read(device: &dyn Device, block: u64) -> Result<Pages, DeviceError> {
        perform(device, DeviceOp::Read { at: block * BLOCK as u64, into: Pages::zeroed(BLOCK) })
    }

    fn write(device: &dyn Device, block: u64) -> Result<Pages, DeviceError> {
        perform(device, DeviceOp::Write { at: block * BLOCK as u64, from: Arc::new(Pages::zeroed(BLOCK)) })
    }

    #[test]
    fn only_whole_blocks_of_the_device_are_asked_for() {
        let device = device(4, LONG);
        let at = |at, len| perform(&device, DeviceOp::Read { at, into: Pages::zeroed(len) }).map(|pages| pages.len());
        assert_eq!(at(15 * BLOCK as u64, BLOCK), Ok(BLOCK));
        for (first, len) in [(0, 0), (1, BLOCK), (15 * BLOCK as u64, 2 * BLOCK), (u64::MAX - 4095, BLOCK)] {
            assert_eq!(at(first, len), Err(DeviceError::Range), "{first} {len}");
        }
        assert_eq!((device.counts().reads, device.counts().refused), (1, 4));
    }

    #[test]
    fn what_ends_is_counted_by_its_kind() {
        let device = device(4, LONG);
        write(&device, 3).unwrap();
        read(&device, 3).unwrap();
        perform(&device, DeviceOp::Sync).unwrap();
        device.device().plan(DeviceFault { on: On::Read, times: 1, what: FaultyOperation::Error(5) });
        assert_eq!(read(&device, 0).unwrap_err(), DeviceError::Os(5));
        let bytes = BLOCK as u64;
        let expect = DeviceCounts {
            reads: 1,
            writes: 1,
            syncs: 1,
            read_bytes: bytes,
            written_bytes: bytes,
            errors: 1,
            ..DeviceCounts::default()
        };
        assert_eq!(device.counts(), expect);
    }

    #[test]
    fn a_read_that_stalls_is_answered_and_keeps_its_place_until_it_ends() {
        let device = device(2, Duration::from_millis(20));
        device.device().plan(DeviceFault { on: On::Read, times: 2, what: FaultyOperation::Hold });
        assert_eq!(read(&device, 0).unwrap_err(), DeviceError::Stalled);
        assert_eq!(read(&device, 1).unwrap_err(), DeviceError::Stalled);
        assert_eq!(read(&device, 2).unwrap_err(), DeviceError::Busy);
        assert_eq!((device.counts().stalls, device.counts().in_progress, device.counts().refused), (2, 2, 1));
        device.device().release();
        // The device ends what it held before it takes the next: there is room again.
        while device.counts().in_progress > 0 {
            thread::yield_now();
        }
        // A write has more patience: a busy machine may take longer than the reads of this device have.
        assert!(write(&device, 2).is_ok());
    }

    #[test]
    fn a_watcher_that_slept_sees_the_next_stall() {
        let device = device(2, Duration::from_millis(20));
        for _ in 0..3 {
            assert!(write(&device, 0).is_ok());
            while device.book.is_awake.load(SeqCst) {
                thread::yield_now();
            }
            device.device().plan(DeviceFault { on: On::Read, times: 1, what: FaultyOperation::Hold });
            assert_eq!(read(&device, 0).unwrap_err(), DeviceError::Stalled);
            device.device().release();
        }
    }

    #[test]
    fn a_write_or_a_sync_that_stalled_is_counted_until_it_ends() {
        for (on, op) in
            [(On::Write, DeviceOp::Write { at: 0, from: Arc::new(Pages::zeroed(BLOCK)) }), (On::Sync, DeviceOp::Sync)]
        {
            let faulty = Faulty::new(Threads::new(Arc::new(crate::device::tests::file(16)), 2).unwrap());
            let device = WatchedDevice::new(faulty, 2, Patience { read: LONG, write: Duration::from_millis(20) });
            device.device().plan(DeviceFault { on, times: 1, what: FaultyOperation::Hold });
            assert_eq!(perform(&device, op).unwrap_err(), DeviceError::Stalled);
            assert!(read(&device, 1).is_ok());
            assert_eq!(device.counts().writes_in_progress, 1);
            device.device().release();
            while device.counts().in_progress > 0 {
                thread::yield_now();
            }
            assert_eq!(device.counts().writes_in_progress, 0);
        }
    }

    #[test]
    fn writes_have_a_patience_of_their_own() {
        let device = device(2, Duration::from_millis(20));
        device.device().plan(DeviceFault { on: On::Write, times: 1, what: FaultyOperation::Hold });
        let (said, hears) = std::sync::mpsc::channel();
        let from = Arc::new(Pages::zeroed(BLOCK));
        device.start(DeviceOp::Write { at: 0, from }, Box::new(move |result| said.send(result).unwrap()));
        device.device().plan(DeviceFault { on: On::Read, times: 1, what: FaultyOperation::Hold });
        assert_eq!(read(&device, 0).unwrap_err(), DeviceError::Stalled);
        assert!(hears.try_recv().is_err(), "the write had more time");
        device.device().release();
        assert!(hears.recv().unwrap().is_ok());
    }
}
