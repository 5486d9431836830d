// SPDX-License-Identifier: BSD-2-Clause
//! The store as its owner sees it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::body::Living;
use crate::core::{Core, DiskLog, Waiting};
use crate::counters::{DiskCounters, DiskCounts};
use crate::device::{Device, DeviceError};
use crate::format::key_of;
use crate::format::removal::Removal;
use crate::handover::Tenure;
use crate::index::DiskIndex;
use crate::load::{Loaded, Lost, RecordCandidate};
use crate::options::{DiskOpenError, DiskStoreOptions};
use crate::put::Put;
use crate::task::{Driver, Signal};
use crate::{open, reclaim, recover, seal};

/// A store on a device. Cheap to clone; all methods may be called on any thread.
#[derive(Clone, Debug)]
pub struct Disk {
    pub(crate) core: Arc<Core>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskProgress {
    pub stage: Stage,
    pub segments_loaded: u64,
    pub segments: u64,
    pub objects: u64,
    /// A first segment was prepared, or could not be: what is put from now on is stored if the disk can store anything.
    pub may_store: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Another process has it.
    Waiting,
    /// Superblock and segments are being looked at; nothing is found yet.
    Opening,
    /// Objects are being found; those that aren't yet are misses, and nothing is stored.
    Recovering,
    Ready,
    Refused(DiskOpenError),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskUsage {
    pub objects: u64,
    pub index_bytes: u64,
    /// Memory of what waits to be written, of tables and of removals for footers to come.
    pub buffer_bytes: u64,
    /// Memory of what was read of bodies and is on its way to somebody.
    pub read_bytes: u64,
    pub segment_bytes: u64,
    pub total_bytes: u64,
    /// Bytes of segments that hold nothing.
    pub free_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncError {
    NotWritten,
    Failed,
    Device(DeviceError),
}

impl Disk {
    /// Begins to open what is on a device. Everything else is the driver's work, which has to be polled (on a thread of
    /// its own, or as a task) as long as the store is used. What is found can be asked for at once.
    pub fn open(device: Arc<dyn Device>, options: DiskStoreOptions) -> (Disk, Driver) {
        let core = Core::new(device, options);
        let own = core.clone();
        let work = async move {
            match open::open(&own).await {
                Ok(order) => recover::recover(&own, order).await,
                Err(why) => {
                    let is_first = own.opened.set(Err(why)).is_ok();
                    assert!(is_first, "a store is opened once");
                    own.changed.raise();
                }
            }
        };
        let (sealing, keeping) = (core.clone(), core.clone());
        let tasks: Vec<std::pin::Pin<Box<dyn Future<Output = ()> + Send>>> = vec![
            Box::pin(work),
            Box::pin(async move {
                if recovered(&sealing).await {
                    seal::run(&sealing).await;
                }
            }),
            Box::pin(async move {
                if recovered(&keeping).await {
                    reclaim::run(&keeping).await;
                }
            }),
        ];
        (Disk { core }, Driver { tasks })
    }

    /// Ends once the store is opened and objects may be found, or can't be opened.
    ///
    /// # Errors
    /// It can't be opened.
    pub async fn opened(&self) -> Result<(), DiskOpenError> {
        let core = &self.core;
        core.changed.wait_for(|| core.opened.get().map(|opened| opened.as_ref().map(drop).map_err(|&why| why))).await
    }

    /// Ends once all that was there can be found, or the store can't be opened.
    pub async fn read_in(&self) {
        let core = &self.core;
        let is_over = || core.is_read_in.load(Relaxed) || core.opened.get().is_some_and(Result::is_err);
        core.changed.wait_for(|| is_over().then_some(())).await;
    }

    /// True if it began empty because its journal knows nothing of the content ([`crate::Bond`]).
    pub fn was_unknown(&self) -> bool {
        self.core.is_another_journals.load(Relaxed)
    }

    pub fn progress(&self) -> DiskProgress {
        let (is_recovering, may_store) = {
            let log = self.core.log.lock();
            (log.recovery.is_some(), log.has_begun)
        };
        let stage = match self.core.opened.get() {
            None if self.core.tenure.past().is_none() => Stage::Waiting,
            None => Stage::Opening,
            Some(Err(why)) => Stage::Refused(*why),
            Some(Ok(_)) if is_recovering => Stage::Recovering,
            Some(Ok(_)) => Stage::Ready,
        };
        DiskProgress {
            stage,
            segments_loaded: self.core.segments_loaded.load(Relaxed),
            segments: self.core.segments_to_load.load(Relaxed),
            objects: self.core.index.objects(),
            may_store,
        }
    }

    /// Candidates for the object of a digest, the newest first, without I/O. Variants of one digest are told apart by
    /// loading them.
    pub fn find(&self, digest: &[u8; 32]) -> Vec<RecordCandidate> {
        self.core.find(digest)
    }

    /// Loads a candidate. May be dropped at any time; who can't wait any longer drops it and has a miss.
    ///
    /// # Errors
    /// It gives no object.
    pub fn load(
        &self,
        candidate: RecordCandidate,
        digest: &[u8; 32],
    ) -> impl Future<Output = Result<Loaded, Lost>> + Send + 'static {
        let (core, digest) = (self.core.clone(), *digest);
        async move { core.load(candidate, |own| *own == digest).await }
    }

    /// A candidate was served from: it is written anew before its segment is reclaimed.
    pub fn note_use(&self, candidate: RecordCandidate) {
        self.core.note_use(candidate);
    }

    pub fn put(&self, digest: &[u8; 32]) -> Put {
        Put::begin(&self.core, digest)
    }

    /// Removes one record, also one that isn't written yet. Whether it was there.
    pub fn remove(&self, candidate: RecordCandidate) -> bool {
        self.core.remove(candidate)
    }

    /// Removes all objects of a digest: an invalidation of the number `before`, which objects that know it have stood.
    /// Objects that aren't loaded yet are removed as well, as far as they don't know it; of loaded ones the index can't tell,
    /// so that what a journal repeats has to be told before the store is read. How many could be found.
    pub fn remove_all(&self, digest: &[u8; 32], before: u64) -> usize {
        self.core.remove_all(digest, before)
    }

    /// The least number of an invalidation that a journal still has to hold, of those that [`Disk::remove_all`] was
    /// told of: what is below is on stable storage here, twice. `None`: none of them.
    pub fn journal_needed_from(&self) -> Option<u64> {
        let log = self.core.log.lock();
        if log.recovery.is_some() {
            return Some(0);
        }
        let unsealed = seal::least(log.unsealed.iter().copied());
        [unsealed, log.sealed_least, log.overflowed].into_iter().flatten().min()
    }

    /// The least `ban_seq` of an object here: bans below that number concern none of them. `None`: there are none.
    pub fn least_ban_seq(&self) -> Option<u64> {
        let log = self.core.log.lock();
        let held = log.segments.iter().filter(|segment| segment.holds_objects());
        held.map(|segment| segment.least_ban_seq).min().filter(|&least| least != u64::MAX)
    }

    /// Writes what is there and ends once it is on stable storage: objects put before and removals, but not what an earlier sync failed to bring
    /// there. The removals among that are in the next footer.
    ///
    /// # Errors
    /// It isn't known to be.
    pub async fn sync(&self) -> Result<(), SyncError> {
        let core = &self.core;
        let (position, failures) = {
            let mut log = core.appending();
            log.flush();
            if !log.unwritten.is_empty() {
                return Err(SyncError::NotWritten);
            }
            (log.position, log.failures)
        };
        let written = core.changed.wait_for(|| {
            let log = core.log.lock();
            let has_failed = log.failures != failures;
            (has_failed || log.written() >= position).then_some(!has_failed)
        });
        if !written.await {
            return Err(SyncError::Failed);
        }
        core.sync_device().await.map_err(SyncError::Device)
    }

    /// To be called several times a second: the time, batches that have waited, what was put off.
    pub fn tick(&self, now: u32) {
        let core = &self.core;
        core.now.store(now, Relaxed);
        core.is_stalled.store(false, Relaxed);
        let mut log = core.appending();
        let is_aged = log.open.as_mut().is_none_or(|open| std::mem::replace(&mut open.is_aged, true));
        if is_aged && log.recovery.is_none() {
            log.flush();
        }
        drop(log);
        core.changed.raise();
        core.reads_waiting.wake_all();
    }

    /// Seals what is open and ends the driver, for a next start that has nothing to look for.
    pub async fn close(&self) {
        let core = &self.core;
        {
            let mut log = core.appending();
            log.flush();
            log.end_segment();
            core.is_closing.store(true, Relaxed);
        }
        core.changed.raise();
        core.changed.wait_for(|| core.log.lock().sealing.is_empty().then_some(())).await;
    }

    pub fn counts(&self) -> DiskCounts {
        self.core.counters.now()
    }

    pub fn usage(&self) -> DiskUsage {
        let log = self.core.log.lock();
        let batch = log.open.as_ref().map_or(0, |open| open.batch.capacity() + size_of_val(&*open.lines));
        let written = log.open.iter().map(|open| open.removals.capacity());
        let written: usize = written.chain(log.sealing.iter().map(|sealing| sealing.own.capacity())).sum();
        let removals = (log.unsealed.capacity() + log.unwritten.capacity() + written) * size_of::<Removal>();
        let segment_bytes = self.core.opened().map_or(0, |opened| opened.superblock.segment_bytes);
        let free = log.segments.iter().filter(|segment| !segment.holds_objects()).count() as u64;
        DiskUsage {
            objects: self.core.index.objects(),
            index_bytes: self.core.index.bytes(),
            buffer_bytes: (log.in_flight_bytes + batch + removals) as u64,
            read_bytes: self.core.read_bytes.load(Relaxed),
            segment_bytes,
            total_bytes: segment_bytes * log.segments.len() as u64,
            free_bytes: segment_bytes * free,
        }
    }
}

async fn recovered(core: &Core) -> bool {
    core.changed
        .wait_for(|| match core.opened.get()? {
            Err(_) => Some(false),
            Ok(_) => core.log.lock().recovery.is_none().then_some(true),
        })
        .await
}

impl Core {
    /// The core of a store whose device nobody has looked at.
    pub fn new(device: Arc<dyn Device>, options: DiskStoreOptions) -> Arc<Core> {
        Arc::new(Core {
            index: DiskIndex::new(device.len(), options.index_bytes),
            now: AtomicU32::new(options.now),
            device,
            tenure: Tenure::new(&options),
            options,
            judge: OnceLock::new(),
            counters: DiskCounters::default(),
            log: Mutex::new(DiskLog::new()),
            changed: Signal::default(),
            opened: OnceLock::new(),
            living: Living::default(),
            reads: AtomicUsize::new(0),
            reads_waiting: Waiting::default(),
            read_bytes: Arc::default(),
            is_stalled: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            is_another_journals: AtomicBool::new(false),
            is_read_in: AtomicBool::new(false),
            segments_loaded: AtomicU64::new(0),
            segments_to_load: AtomicU64::new(0),
        })
    }

    pub fn remove(self: &Arc<Core>, candidate: RecordCandidate) -> bool {
        let RecordCandidate { generation, at, place, .. } = candidate;
        let mut log = self.appending();
        let is_current = generation == self.generation_at(at);
        if is_current && (self.index.remove(place, at).is_some() || log.remove_pending(place, at)) {
            self.counters.removed.count();
            log.note_removal(Removal::Record { generation, at });
            return true;
        }
        let moved = log.moved.remove(&(generation, at));
        drop(log);
        moved.is_some_and(|to| self.remove(RecordCandidate { generation: to.0, at: to.1, ..candidate }))
    }

    pub fn remove_all(self: &Arc<Core>, digest: &[u8; 32], before: u64) -> usize {
        let key = key_of(digest);
        let place = self.index.place(&key);
        let removal = Removal::Key { key, before };
        let mut log = self.appending();
        let pending = log.pending.len();
        log.pending.retain(|own| own.key != key);
        let removed = pending - log.pending.len() + self.index.remove_all(place).len();
        log.puts.iter().filter_map(Weak::upgrade).filter(|mark| mark.key == key).for_each(|mark| {
            mark.removed_before.fetch_max(before, Relaxed);
        });
        if let Some(recovery) = &mut log.recovery {
            recovery.add(removal);
        }
        log.note_removal(removal);
        self.counters.removed.add(removed as u64);
        removed
    }
}
