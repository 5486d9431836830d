// SPDX-License-Identifier: BSD-2-Clause
//! Loading what was found: the record is read and checked; its body comes when it is asked for.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use base::Real;
use storage::{Buf, Record, StoredBody};
use sys::pages::Pages;

use crate::body::DiskBody;
use crate::core::Core;
use crate::device::DeviceError;
use crate::format::entry::{DiskEntryKind, EntryHead};
use crate::format::object::{self, ObjectTexts};
use crate::format::{BLOCK, UNIT, checksum};
use crate::index::{IndexPlace, MOST_USE};
use crate::task;

/// Blocks of a record that are read at first.
const FIRST_BLOCKS: u64 = 33;

/// A record that may be of the object that was sought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordCandidate {
    pub(crate) generation: u64,
    pub(crate) at: u64,
    pub(crate) blocks: u8,
    pub(crate) place: IndexPlace,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    Gone,
    OtherDigest,
    /// The record's checksum is wrong. It can't be found again.
    Damaged,
    /// The record can't be read. It can't be found again, unless the device was only too slow.
    Device(DeviceError),
    Busy,
}

#[derive(Debug)]
pub struct Loaded {
    pub record: Record<Real>,
    pub body: DiskBody,
    pub head: Buf,
    pub tags: Buf,
}

impl Loaded {
    pub fn texts(&self) -> ObjectTexts<'_> {
        ObjectTexts { head: &self.head, tags: &self.tags }
    }
}

impl Core {
    pub fn find(&self, digest: &[u8; 32]) -> Vec<RecordCandidate> {
        if self.is_stalled.load(Relaxed) {
            return Vec::new();
        }
        let place = self.index.place(&crate::format::key_of(digest));
        let slots = self.index.find(place, self.now.load(Relaxed));
        let mut found: Vec<RecordCandidate> = slots
            .into_iter()
            .map(|slot| RecordCandidate {
                generation: self.generation_at(slot.at),
                at: slot.at,
                blocks: slot.blocks,
                place,
            })
            .collect();
        found.sort_unstable_by_key(|candidate| std::cmp::Reverse((candidate.generation, candidate.at)));
        found
    }

    /// Loads a candidate, if it is of an object that is meant.
    pub async fn load(
        self: &Arc<Core>,
        candidate: RecordCandidate,
        is_meant: impl Fn(&[u8; 32]) -> bool,
    ) -> Result<Loaded, Lost> {
        let result = self.load_record(candidate, is_meant).await;
        match result {
            Ok(_) => self.counters.loads.count(),
            Err(Lost::Gone) => self.counters.loads_gone.count(),
            Err(Lost::OtherDigest) => self.counters.loads_mismatched.count(),
            Err(lost) => self.lost(Some(candidate), (candidate.generation, candidate.at), lost),
        }
        result
    }

    async fn load_record(
        self: &Arc<Core>,
        candidate: RecordCandidate,
        is_meant: impl Fn(&[u8; 32]) -> bool,
    ) -> Result<Loaded, Lost> {
        let RecordCandidate { generation, at, blocks, .. } = candidate;
        if generation == 0 || self.generation_at(at) != generation {
            return Err(Lost::Gone);
        }
        let store_id = self.geometry().superblock.store_id;
        let first = u64::from(blocks).min(FIRST_BLOCKS);
        let mut bytes = self.read_units(at, first * BLOCK as u64 / UNIT - at % (BLOCK as u64 / UNIT)).await?;
        let head = EntryHead::decode(&bytes, store_id, generation, at).ok_or_else(|| self.damage(at, generation))?;
        if head.kind != DiskEntryKind::Object || !is_meant(&head.own) {
            return Err(Lost::OtherDigest);
        }
        if u64::from(head.len) > object::MOST_ENTRY {
            return Err(self.damage(at, generation));
        }
        if head.units() * UNIT > bytes.len() as u64 {
            bytes = self.read_units(at, head.units()).await?;
        }
        let entry = bytes.get(..head.len as usize).unwrap_or(&bytes);
        let loaded = self.decode_object(candidate, store_id, head.own, entry);
        let loaded = loaded.ok_or_else(|| self.damage(at, generation))?;
        if loaded.record.ban_seq < self.least_ban_seq() {
            return Err(Lost::Gone);
        }
        if !loaded.body.is_there() {
            // A part of it was in a segment that has been reclaimed.
            self.remove(candidate);
            return Err(Lost::Gone);
        }
        Ok(loaded)
    }

    fn decode_object(
        self: &Arc<Core>,
        candidate: RecordCandidate,
        store_id: u64,
        digest: [u8; 32],
        entry: &[u8],
    ) -> Option<Loaded> {
        let record = object::decode(store_id, digest, entry)?;
        let is_inline = record.chunks.first().is_some_and(|chunk| chunk.at == 0);
        let inline = is_inline.then_some(record.inline);
        if let (Some(bytes), Some(chunk)) = (inline, record.chunks.first())
            && (bytes.len() as u64 != record.body_len || checksum(store_id, bytes) != chunk.sum)
        {
            return None;
        }
        let ObjectTexts { head, tags } = record.texts;
        let [head, tags] = [head, tags].map(|text| Buf::unaccounted(text.to_vec()));
        let inline = inline.map(|bytes| Buf::unaccounted(bytes.to_vec()));
        let body = DiskBody::new(self, Some(candidate), crate::format::key_of(&digest), record.chunks, inline);
        Some(Loaded { record: record.record, body, head, tags })
    }

    /// The bytes of so many units, in as few blocks as they touch.
    pub async fn read_units(self: &Arc<Core>, at: u64, units: u64) -> Result<Units, Lost> {
        let bytes = at * UNIT..(at + units) * UNIT;
        let block = BLOCK as u64;
        let blocks = bytes.start / block * block..bytes.end.next_multiple_of(block);
        if blocks.end > self.geometry().superblock.end() {
            return Err(Lost::Damaged);
        }
        let pages = self.read(blocks.start, (blocks.end - blocks.start) as usize).await?;
        Ok(Units { pages, range: (bytes.start - blocks.start) as usize..(bytes.end - blocks.start) as usize })
    }

    async fn read(self: &Arc<Core>, at: u64, len: usize) -> Result<Pages, Lost> {
        let running = Running::begin(self).ok_or_else(|| {
            self.counters.reads_refused.count();
            Lost::Busy
        })?;
        let read = task::read_into(&*self.device, at, self.pages(len)).await;
        drop(running);
        self.counters.bytes_read.add(len as u64);
        read.map_err(Lost::Device)
    }

    /// Something is wrong at `at`: unless it has been written over meanwhile.
    pub fn damage(&self, at: u64, generation: u64) -> Lost {
        let is_unchanged = self.generation_at(at) == generation && !self.is_handed_over();
        if is_unchanged { Lost::Damaged } else { Lost::Gone }
    }

    /// Handles a failed read of this generation at this unit, of a record or a part of its body: the record isn't found
    /// again.
    pub fn lost(self: &Arc<Core>, record: Option<RecordCandidate>, (generation, at): (u64, u64), lost: Lost) {
        match lost {
            Lost::Gone | Lost::OtherDigest | Lost::Busy => return,
            Lost::Device(error) => {
                self.note_error(error, &self.counters.read_errors);
                if matches!(error, DeviceError::Stalled | DeviceError::Busy | DeviceError::Closed) {
                    return;
                }
            }
            Lost::Damaged => self.counters.checksum_errors.count(),
        }
        if let Some(record) = record {
            self.remove(record);
        }
        let Some(index) = self.geometry().superblock.segment_at(at) else { return };
        let mut log = self.log.lock();
        let segment = &log.segments[index as usize];
        if segment.generation == generation && (segment.is_trusted || lost != Lost::Damaged) {
            self.quarantine(&mut log, index);
        }
    }

    pub fn note_use(&self, candidate: RecordCandidate) {
        self.index.update(candidate.place, candidate.at, |slot| slot.used = (slot.used + 1).min(MOST_USE));
    }
}

/// Units in the blocks that they were read with.
pub(crate) struct Units {
    pages: Pages,
    range: Range<usize>,
}

impl Units {
    /// A handle on them; `held` counts what such handles hold.
    pub fn into_buf(self, held: &Arc<AtomicU64>) -> Buf {
        Buf::of_pages(self.pages, held.clone()).narrow(self.range)
    }
}

impl std::ops::Deref for Units {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.pages[self.range.clone()]
    }
}

/// The right to read; given up when it is dropped.
pub(crate) struct Running {
    core: Arc<Core>,
    wakes_nobody: bool,
}

impl Running {
    /// `None`: there are as many as there may be.
    pub fn begin(core: &Arc<Core>) -> Option<Running> {
        let most = core.options.most_reads;
        core.reads.try_update(SeqCst, SeqCst, |reads| (reads < most).then_some(reads + 1)).ok()?;
        Some(Running { core: core.clone(), wakes_nobody: false })
    }

    /// Gives the right up without waking waiters.
    pub fn give_back(mut self) {
        self.wakes_nobody = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.core.reads.fetch_sub(1, SeqCst);
        if !self.wakes_nobody {
            self.core.reads_waiting.wake_one();
        }
    }
}
