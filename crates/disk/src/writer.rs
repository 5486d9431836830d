// SPDX-License-Identifier: BSD-2-Clause
//! Appending to the log. Entries are gathered in batches, which are written behind whoever appends; what has been appended
//! can be found once all before it is written. A write that fails ends its segment, and nothing that waits is kept.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::MutexGuard;
use sys::pages::Pages;

use crate::core::{Core, DiskLog, OpenSegment, SegmentSealing};
use crate::device::{DeviceError, DeviceOp};
use crate::format::entry::{DiskEntryKind, EntryHead, HEAD};
use crate::format::removal::{self, Removal};
use crate::format::segment::FooterParts;
use crate::format::{BLOCK, UNIT, checksum};
use crate::index::IndexSlot;
use crate::put::Refused;
use crate::segments::DiskSegmentState;

/// Bytes of a batch that is written without being asked to.
pub(crate) const BATCH: usize = 512 << 10;
/// Seconds without a put after a write that failed.
const PAUSE: u32 = 5;
const REMOVALS_AT_ONCE: usize = 1024;

/// Place of an entry in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    pub generation: u64,
    pub at: u64,
    pub len: u64,
    /// The log's position after it.
    pub end: u64,
}

/// A batch on its way: started once the log is unlocked.
#[derive(Debug)]
struct Outgoing {
    position: u64,
    at: u64,
    pages: Arc<Pages>,
}

/// The log while it is appended to. What became due is started when it is given up.
pub(crate) struct Appending<'a> {
    core: &'a Arc<Core>,
    log: Option<MutexGuard<'a, DiskLog>>,
    outgoing: Vec<Outgoing>,
    /// A segment ended or began, which others wait for; a write that would tell them need not follow.
    has_rolled: bool,
}

impl Core {
    pub fn appending(self: &Arc<Core>) -> Appending<'_> {
        Appending { core: self, log: Some(self.log.lock()), outgoing: Vec::new(), has_rolled: false }
    }

    fn batch_ended(&self, position: u64, result: Result<(), DeviceError>) {
        let mut log = self.log.lock();
        let bytes = log.in_flight.remove(&position).expect("a batch ends once");
        log.in_flight_bytes -= bytes;
        log.under_way.end(self.now.load(Relaxed));
        match result {
            Ok(()) => self.settle(&mut log),
            Err(error) => self.fail(&mut log, error),
        }
        drop(log);
        self.changed.raise();
    }

    /// Objects before which everything is written can be found.
    pub fn settle(&self, log: &mut DiskLog) {
        let written = log.written();
        while let Some(pending) = log.pending.pop_front_if(|pending| pending.end <= written) {
            if !self.index.insert(pending.place, pending.slot) {
                self.counters.index_full.count();
            }
        }
    }

    /// Nobody knows what a write that failed has left: its segment ends, no object counts on it, and its removals are written again.
    fn fail(&self, log: &mut DiskLog, error: DeviceError) {
        self.note_error(error, &self.counters.write_errors);
        log.failures += 1;
        log.paused_until = self.now.load(Relaxed).saturating_add(PAUSE);
        self.counters.puts_failed.add(log.pending.len() as u64);
        log.pending.clear();
        log.write_removals_again();
        // The batch may be of the segment before: that is found out when it is sealed.
        let Some(open) = log.open.take() else { return };
        log.segments[open.index as usize].state = DiskSegmentState::Full;
        self.blame(log, open.index, error);
    }
}

impl std::ops::Deref for Appending<'_> {
    type Target = DiskLog;

    fn deref(&self) -> &DiskLog {
        self.log.as_ref().expect("locked as long as this lives")
    }
}

impl std::ops::DerefMut for Appending<'_> {
    fn deref_mut(&mut self) -> &mut DiskLog {
        self.log.as_mut().expect("locked as long as this lives")
    }
}

impl Drop for Appending<'_> {
    fn drop(&mut self) {
        drop(self.log.take());
        for Outgoing { position, at, pages } in self.outgoing.drain(..) {
            let core = self.core.clone();
            let done = move |result: Result<Pages, DeviceError>| core.batch_ended(position, result.map(drop));
            self.core.device.start(DeviceOp::Write { at, from: pages }, Box::new(done));
        }
        if self.has_rolled {
            self.core.changed.raise();
        }
    }
}

impl Appending<'_> {
    /// Appends an entry whose head is followed by `pieces`. An object's also gets a line in its segment's table.
    pub fn append(&mut self, kind: DiskEntryKind, own: [u8; 32], pieces: &[&[u8]]) -> Result<Appended, Refused> {
        let len = HEAD + pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let padded = len.next_multiple_of(UNIT as usize);
        // A copy says that its original is no more.
        let (lines, removals) = match kind {
            DiskEntryKind::Part => (0, 0),
            DiskEntryKind::Object => (1, 1),
            DiskEntryKind::Removals => (0, (len - HEAD) / removal::BYTES),
        };
        self.make_room(padded as u64, lines, removals)?;
        let core = self.core;
        let geometry = core.geometry();
        let log = &mut **self;
        let open = log.open.as_mut().expect("room was made in it");
        let at = (geometry.superblock.segment_start(open.index) + open.filled) / UNIT;
        let generation = open.generation;
        let head = EntryHead { kind, generation, at, len: len as u32, own }.encode(geometry.superblock.store_id);
        open.batch.extend_from_slice(&head);
        pieces.iter().for_each(|piece| open.batch.extend_from_slice(piece));
        open.batch.resize(open.batch.len() + padded - len, 0);
        open.filled += padded as u64;
        log.position += padded as u64;
        core.counters.bytes_written.add(padded as u64);
        let end = log.position;
        self.emit(BATCH);
        Ok(Appended { generation, at, len: padded as u64 / UNIT, end })
    }

    /// Sees to it that so many bytes, and what they are in the footer, fit into the open segment, which may be the next.
    fn make_room(&mut self, bytes: u64, lines: usize, removals: usize) -> Result<(), Refused> {
        if self.recovery.is_some() || self.is_handed_over || self.core.is_closing() {
            return Err(Refused::NotOpen);
        }
        let behind = self.in_flight_bytes + self.open.as_ref().map_or(0, |open| open.batch.len());
        let is_behind = behind + bytes as usize > self.core.options.write_behind_bytes;
        if is_behind || self.core.now.load(Relaxed) < self.paused_until {
            return Err(Refused::Slow);
        }
        let segment_bytes = self.core.geometry().superblock.segment_bytes;
        let room = segment_bytes.saturating_sub(8 * BLOCK as u64);
        if bytes > room - self.footer_share() {
            return Err(Refused::TooLarge);
        }
        // One that has turned out to be bad is left as soon as there is another.
        let is_good =
            |open: &OpenSegment| !self.segments[open.index as usize].is_quarantined || self.prepared.is_empty();
        if self.open.as_ref().is_some_and(|open| is_good(open) && self.fits(open, bytes, lines, removals)) {
            return Ok(());
        }
        self.roll()
    }

    /// Bytes of a segment that removals may take away from objects, both copies.
    fn footer_share(&self) -> u64 {
        self.core.geometry().superblock.segment_bytes / 8
    }

    fn most_removals(&self) -> usize {
        self.footer_share() as usize / removal::BYTES / 2
    }

    /// True if so much more, padding to a block, and the footer still fit.
    fn fits(&self, open: &OpenSegment, bytes: u64, lines: usize, removals: usize) -> bool {
        let (own, most) = (open.removals.len() + removals, self.most_removals());
        let parts = FooterParts::of(open.lines.len() + lines, self.unsealed.len().min(most).max(own));
        let segment_bytes = self.core.geometry().superblock.segment_bytes;
        own <= most && open.filled + bytes + BLOCK as u64 + parts.len <= segment_bytes
    }

    /// Ends the open segment, which is sealed then, and opens the prepared one.
    fn roll(&mut self) -> Result<(), Refused> {
        let may_end = self.open.is_none() || self.sealing.len() < self.core.segments_ahead();
        let Some(index) = self.prepared.front().copied().filter(|_| may_end) else { return Err(Refused::NoSegment) };
        self.end_segment();
        self.has_rolled = true;
        let log = &mut **self;
        log.prepared.pop_front();
        let segment = &mut log.segments[index as usize];
        segment.state = DiskSegmentState::Open;
        log.open = Some(OpenSegment {
            index,
            generation: segment.generation,
            filled: BLOCK as u64,
            batch: Vec::new(),
            is_aged: false,
            lines: Vec::new(),
            removals: Vec::new(),
            failures_before: log.failures,
        });
        Ok(())
    }

    pub fn end_segment(&mut self) {
        self.pad();
        let log = &mut **self;
        let Some(open) = log.open.take() else { return };
        log.segments[open.index as usize].state = DiskSegmentState::Full;
        log.sealing.push_back(SegmentSealing {
            index: open.index,
            generation: open.generation,
            end: open.filled,
            lines: open.lines,
            own: open.removals,
            removals: log.unsealed.len(),
            position: log.position,
            failures_before: open.failures_before,
        });
    }

    pub fn flush(&mut self) {
        let Some(opened) = self.core.opened() else { return };
        while !self.unwritten.is_empty() {
            let count = self.unwritten.len().min(REMOVALS_AT_ONCE).min(self.most_removals());
            let mut bytes = Vec::with_capacity(count * removal::BYTES);
            self.unwritten[..count].iter().for_each(|removal| removal.encode(&mut bytes));
            let mut own = [0; 32];
            own[..4].copy_from_slice(&checksum(opened.superblock.store_id, &bytes).to_le_bytes());
            if self.append(DiskEntryKind::Removals, own, &[&bytes]).is_err() {
                break;
            }
            let log = &mut **self;
            let open = log.open.as_mut().expect("just appended to");
            open.removals.extend(log.unwritten.drain(..count));
        }
        self.pad();
    }

    /// Writes what is in the batch, padded to a block.
    fn pad(&mut self) {
        let log = &mut **self;
        let Some(open) = log.open.as_mut() else { return };
        let gap = open.batch.len().next_multiple_of(BLOCK) - open.batch.len();
        open.batch.resize(open.batch.len() + gap, 0);
        open.filled += gap as u64;
        log.position += gap as u64;
        self.emit(1);
    }

    /// Hands out the whole blocks of the batch if these are at least so many bytes.
    fn emit(&mut self, least: usize) {
        let start = |index| self.core.geometry().superblock.segment_start(index);
        let Some(open) = self.log.as_mut().and_then(|log| log.open.as_mut()) else { return };
        let len = open.batch.len() / BLOCK * BLOCK;
        if len < least {
            return;
        }
        let at = start(open.index) + open.filled - open.batch.len() as u64;
        let mut pages = self.core.pages(len);
        pages.copy_from_slice(&open.batch[..len]);
        let all = open.batch.len();
        open.batch.drain(..len);
        open.is_aged = false;
        let position = self.position - all as u64;
        self.in_flight.insert(position, len);
        self.in_flight_bytes += len;
        let now = self.core.now.load(Relaxed);
        self.under_way.begin(now);
        self.outgoing.push(Outgoing { position, at, pages: Arc::new(pages) });
    }

    pub fn note_removal(&mut self, removal: Removal) {
        if self.unsealed.len() < crate::core::MOST_REMOVALS {
            self.unsealed.push(removal);
            self.unwritten.push(removal);
        } else if let Removal::Key { before, .. } = removal {
            self.overflowed = Some(self.overflowed.map_or(before, |least| least.min(before)));
        }
    }
}

pub(crate) fn slot_of(appended: &Appended, expiry: u32) -> IndexSlot {
    IndexSlot { at: appended.at, blocks: blocks_of(appended.at, appended.len), expiry, used: 0 }
}

/// Blocks that so many units from `at` on touch, 255 for more.
pub(crate) fn blocks_of(at: u64, units: u64) -> u8 {
    let in_block = BLOCK as u64 / UNIT;
    ((at + units).div_ceil(in_block) - at / in_block).min(255) as u8
}
