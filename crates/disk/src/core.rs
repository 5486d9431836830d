// SPDX-License-Identifier: BSD-2-Clause
//! What all parts of the disk home share: the device, the index, the counters, and the state of the log under one lock.
//! Nothing is asked of the device, and nobody is woken, under that lock; the index's locks are taken under it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;

use parking_lot::Mutex;
use storage::CopyJudge;
use sys::pages::Pages;

use crate::body::Living;
use crate::counters::DiskCounters;
use crate::device::{Device, DeviceError};
use crate::format::removal::Removal;
use crate::format::segment::FooterLine;
use crate::format::superblock::Superblock;
use crate::format::{DigestKey, UNIT};
use crate::handover::Tenure;
use crate::index::{DiskIndex, IndexPlace, IndexSlot};
use crate::options::{DiskOpenError, DiskStoreOptions};
use crate::segments::DiskSegment;
use crate::task::Signal;

#[derive(Debug)]
pub(crate) struct Core {
    pub device: Arc<dyn Device>,
    pub options: DiskStoreOptions,
    pub judge: OnceLock<Box<dyn CopyJudge>>,
    pub counters: DiskCounters,
    pub index: DiskIndex,
    pub log: Mutex<DiskLog>,
    /// Raised when the log's state has changed in a way that somebody may wait for.
    pub changed: Signal,
    pub living: Living,
    pub opened: OnceLock<Result<OpenedDisk, DiskOpenError>>,
    /// Seconds since 1970, as the owner last said.
    pub now: AtomicU32,
    pub reads: AtomicUsize,
    /// Readers of bodies for whom there was no read to be had.
    pub reads_waiting: Waiting,
    /// Bytes of pages that bodies were read into and that somebody still has.
    pub read_bytes: Arc<AtomicU64>,
    /// The device was too slow lately: nothing is found until the next tick.
    pub is_stalled: AtomicBool,
    pub is_closing: AtomicBool,
    pub tenure: Tenure,
    pub is_another_journals: AtomicBool,
    /// All that was there can be found.
    pub is_read_in: AtomicBool,
    pub segments_loaded: AtomicU64,
    pub segments_to_load: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct OpenedDisk {
    pub superblock: Superblock,
    /// The generation of each segment; 0: its content isn't served.
    pub generations: Box<[AtomicU64]>,
    pub uses: Box<[SegmentUse]>,
}

impl OpenedDisk {
    pub fn new(superblock: Superblock, generations: Box<[AtomicU64]>) -> OpenedDisk {
        let uses = generations.iter().map(|_| SegmentUse::default()).collect();
        OpenedDisk { superblock, generations, uses }
    }
}

#[derive(Default, Debug)]
pub(crate) struct SegmentUse {
    /// Bodies with a reader that have a part there.
    pub readers: AtomicU32,
    /// True if it is about to be written anew: nobody is to begin.
    pub is_condemned: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct DiskLog {
    pub segments: Vec<DiskSegment>,
    pub open: Option<OpenSegment>,
    pub prepared: VecDeque<u32>,
    /// Those that get their footers next, or now.
    pub sealing: VecDeque<SegmentSealing>,
    /// Generations count on from here, in the upper half; the lower half is drawn, so that none ever comes twice.
    pub next_generation: u32,
    /// Bytes appended since the start, gaps included: what orders batches and objects.
    pub position: u64,
    /// Batches that are being written: where they begin, and their bytes.
    pub in_flight: BTreeMap<u64, usize>,
    pub in_flight_bytes: usize,
    /// Writes, preparations and seals that haven't ended.
    pub under_way: UnderWay,
    /// Objects that can be found once all before their end is written, in order.
    pub pending: VecDeque<PendingObject>,
    pub failures: u64,
    /// Nothing is put before this second, after a write that failed.
    pub paused_until: u32,
    pub puts: Vec<Weak<PutMark>>,
    pub unwritten: Vec<Removal>,
    pub unsealed: Vec<Removal>,
    /// The least number of those in the newest such footer: if that were damaged, the journal would still be needed.
    pub sealed_least: Option<u64>,
    /// The least number of removals that found no room: the journal has to hold them as long as this process lives.
    pub overflowed: Option<u64>,
    /// The newest generation whose footer is on stable storage; 0: none.
    pub sealed: u64,
    /// While the store is being recovered: what is no more, for what will yet be read.
    pub recovery: Option<Recovering>,
    /// The store was handed over: nothing is written any more.
    pub is_handed_over: bool,
    pub is_preparing: bool,
    /// A first segment was prepared, or that has failed: before, no object finds a place.
    pub has_begun: bool,
    /// New places of records from the segment reclaimed last, by generation and address: somebody may still know them
    /// by the old ones.
    pub moved: HashMap<(u64, u64), (u64, u64)>,
}

/// Operations that the device was asked for, to tell if it does anything at all.
#[derive(Default, Debug)]
pub(crate) struct UnderWay {
    count: u32,
    /// When the first of them began, or the last one before them ended.
    since: u32,
}

impl UnderWay {
    pub fn begin(&mut self, now: u32) {
        if self.count == 0 {
            self.since = now;
        }
        self.count += 1;
    }

    pub fn end(&mut self, now: u32) {
        self.count -= 1;
        self.since = now;
    }

    /// True if something is in progress and nothing has ended for so many seconds.
    pub fn stands_still(&self, now: u32, seconds: u32) -> bool {
        self.count > 0 && now.saturating_sub(self.since) >= seconds
    }
}

/// Facts that recovery keeps for objects that it hasn't reached.
#[derive(Default, Debug)]
pub(crate) struct Recovering {
    pub keys: HashMap<DigestKey, u64>,
    pub records: HashSet<(u64, u64)>,
}

impl Recovering {
    pub fn add(&mut self, removal: Removal) {
        match removal {
            Removal::Key { key, before } => {
                let known = self.keys.entry(key).or_default();
                *known = before.max(*known);
            }
            Removal::Record { generation, at } => drop(self.records.insert((generation, at))),
        }
    }
}

#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub index: u32,
    pub generation: u64,
    /// Bytes of the segment that are taken, what is in the batch included.
    pub filled: u64,
    /// Bytes that aren't being written yet; begins on a block.
    pub batch: Vec<u8>,
    /// The batch was there at the last tick already.
    pub is_aged: bool,
    pub lines: Vec<FooterLine>,
    /// Removals that its entries tell of.
    pub removals: Vec<Removal>,
    pub failures_before: u64,
}

#[derive(Debug)]
pub(crate) struct SegmentSealing {
    pub index: u32,
    pub generation: u64,
    pub end: u64,
    pub lines: Vec<FooterLine>,
    /// Removals that its entries tell of, which nobody looks at once there is a footer.
    pub own: Vec<Removal>,
    /// Number of removals when it ended. Later ones may concern objects in later segments, and recovery must know a
    /// removal before it reads what that concerns.
    pub removals: usize,
    /// Position up to which the log must be written before.
    pub position: u64,
    pub failures_before: u64,
}

#[derive(Debug)]
pub(crate) struct PendingObject {
    /// The log's position after its record.
    pub end: u64,
    pub place: IndexPlace,
    pub key: DigestKey,
    pub slot: IndexSlot,
}

/// A put in progress, seen by those who remove objects.
#[derive(Debug)]
pub(crate) struct PutMark {
    pub key: DigestKey,
    /// The highest number of a removal of this key that has come since.
    pub removed_before: AtomicU64,
}

/// Those who wait for a read: one more goes on whenever one has ended, and all of them with a tick.
#[derive(Default, Debug)]
pub(crate) struct Waiting {
    count: AtomicUsize,
    wakers: Mutex<VecDeque<Waker>>,
}

impl Waiting {
    pub fn add(&self, waker: &Waker) {
        let mut wakers = self.wakers.lock();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push_back(waker.clone());
            self.count.store(wakers.len(), SeqCst);
        }
    }

    pub fn wake_one(&self) {
        if self.count.load(SeqCst) == 0 {
            return;
        }
        let first = {
            let mut wakers = self.wakers.lock();
            let first = wakers.pop_front();
            self.count.store(wakers.len(), SeqCst);
            first
        };
        first.into_iter().for_each(Waker::wake);
    }

    pub fn wake_all(&self) {
        let all = {
            let mut wakers = self.wakers.lock();
            self.count.store(0, SeqCst);
            std::mem::take(&mut *wakers)
        };
        all.into_iter().for_each(Waker::wake);
    }
}

/// Bytes that may come in a burst, see [`Core::segments_ahead`].
const AHEAD: u64 = 32 << 20;
/// But no more than one segment in so many holds nothing for that.
const AHEAD_SHARE: u32 = 16;
const MOST_AHEAD: u64 = 8;

/// The most removals that are kept for footers to come.
pub(crate) const MOST_REMOVALS: usize = 1 << 20;

/// Puts that begin before those that have ended are looked for again, at least.
const LEAST_PUTS: usize = 64;

impl Core {
    /// The superblock and generations; `None` before they are read and if they can't be.
    pub fn opened(&self) -> Option<&OpenedDisk> {
        self.opened.get()?.as_ref().ok()
    }

    /// The same, where somebody could come only after they were.
    pub fn geometry(&self) -> &OpenedDisk {
        self.opened().expect("objects and segments are known after the store was opened")
    }

    pub fn generation_at(&self, at: u64) -> u64 {
        let Some(opened) = self.opened() else { return 0 };
        opened.superblock.segment_at(at).map_or(0, |index| opened.generations[index as usize].load(Relaxed))
    }

    pub fn is_condemned(&self, at: u64) -> bool {
        let Some(opened) = self.opened() else { return false };
        opened.superblock.segment_at(at).is_some_and(|index| opened.uses[index as usize].is_condemned.load(Relaxed))
    }

    pub fn note_error(&self, error: DeviceError, counter: &crate::counters::DiskCounter) {
        if error == DeviceError::Stalled {
            self.counters.stalls.count();
            self.is_stalled.store(true, Relaxed);
        } else {
            counter.count();
        }
    }

    /// A segment isn't written again if that error is its medium's.
    pub fn blame(&self, log: &mut DiskLog, index: u32, error: DeviceError) {
        match error {
            DeviceError::Busy | DeviceError::Closed | DeviceError::Range => {}
            DeviceError::Os(_) if error.is_no_space() => {}
            // What took too long may still be written, at a time when something else is there.
            DeviceError::Os(_) | DeviceError::Short | DeviceError::Stalled => self.quarantine(log, index),
        }
    }

    pub fn quarantine(&self, log: &mut DiskLog, index: u32) {
        let segment = &mut log.segments[index as usize];
        if !std::mem::replace(&mut segment.is_quarantined, true) {
            self.counters.segments_quarantined.count();
        }
    }

    pub fn units_of(&self, index: u32) -> std::ops::Range<u64> {
        let superblock = &self.geometry().superblock;
        let start = superblock.segment_start(index);
        start / UNIT..(start + superblock.segment_bytes) / UNIT
    }

    /// Most segments that are prepared, and that wait for their footers: short ones are full before a disk has brought
    /// one to stable storage.
    pub fn segments_ahead(&self) -> usize {
        let Superblock { segment_bytes, segments, .. } = self.geometry().superblock;
        (AHEAD / segment_bytes).min(u64::from(segments / AHEAD_SHARE)).clamp(1, MOST_AHEAD) as usize
    }

    /// The longest body: whoever stores it shan't need all of the store.
    pub fn most_body_bytes(&self, log: &DiskLog) -> u64 {
        self.geometry().superblock.segment_bytes * log.segments.len() as u64 / 2
    }

    pub fn pages(&self, len: usize) -> Pages {
        self.options.pool.as_ref().map_or_else(|| Pages::zeroed(len), |pool| pool.take(len))
    }

    pub fn is_closing(&self) -> bool {
        self.is_closing.load(Relaxed)
    }
}

impl DiskLog {
    pub fn new() -> DiskLog {
        DiskLog {
            segments: Vec::new(),
            open: None,
            prepared: VecDeque::new(),
            sealing: VecDeque::new(),
            next_generation: 1,
            position: 0,
            in_flight: BTreeMap::new(),
            in_flight_bytes: 0,
            under_way: UnderWay::default(),
            pending: VecDeque::new(),
            failures: 0,
            paused_until: 0,
            puts: Vec::new(),
            unwritten: Vec::new(),
            unsealed: Vec::new(),
            sealed_least: None,
            overflowed: None,
            sealed: 0,
            recovery: Some(Recovering::default()),
            is_handed_over: false,
            is_preparing: false,
            has_begun: false,
            moved: HashMap::new(),
        }
    }

    pub fn written(&self) -> u64 {
        let batch = self.open.as_ref().map_or(0, |open| open.batch.len() as u64);
        self.in_flight.keys().next().copied().unwrap_or(self.position - batch)
    }

    /// Takes out an object that can't be found yet. Whether it was there.
    pub fn remove_pending(&mut self, place: IndexPlace, at: u64) -> bool {
        let position = self.pending.iter().rposition(|own| own.slot.at == at && own.place == place);
        position.is_some_and(|position| self.pending.remove(position).is_some())
    }

    /// The next flush writes all removals that no footer on stable storage has.
    pub fn write_removals_again(&mut self) {
        self.unwritten.clone_from(&self.unsealed);
    }

    /// Notes a put in progress. Those that have ended are forgotten now and then.
    pub fn note_put(&mut self, mark: &Arc<PutMark>) {
        if self.puts.len() == self.puts.capacity() {
            self.puts.retain(|put| put.strong_count() > 0);
            self.puts.reserve(self.puts.len().max(LEAST_PUTS));
        }
        self.puts.push(Arc::downgrade(mark));
    }

    /// A generation that there never was.
    pub fn draw_generation(&mut self, salt: u32) -> u64 {
        let generation = u64::from(self.next_generation) << 32 | u64::from(salt);
        self.next_generation += 1;
        generation
    }
}
