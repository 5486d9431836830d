// SPDX-License-Identifier: BSD-2-Clause
//! Looking at a store without serving from it, for tools: which segments there are, which objects are in them, whether
//! these are whole. Nothing is ever written, and memory is that of one segment's table and of the removals.
//!
//! An object counts here if a start would find it: the segments are read as recovery reads them ([`crate::recover`]),
//! the newest first, so that removals are known before what they concern.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use base::Real;
use storage::{Record, StoredBody};

use crate::core::{Core, OpenedDisk, Recovering};
use crate::device::Device;
use crate::footer;
use crate::format::UNIT;
use crate::format::segment::FooterLine;
use crate::load::{Lost, RecordCandidate};
use crate::open;
use crate::options::{DiskOpenError, DiskStoreOptions};
use crate::scan;
use crate::segments::DiskSegment;
use crate::writer::blocks_of;

/// Objects that are looked at side by side.
const AT_ONCE: usize = 32;

pub struct Survey {
    core: Arc<Core>,
    /// Segments to be read, the newest first, with their generations.
    order: Vec<(u32, u64)>,
    turn: usize,
    known: Recovering,
    /// The generation that was sealed before the segment that was read last: one that has to be there.
    expected: u64,
    shape: Shape,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    pub segment_bytes: u64,
    pub segments: u32,
    pub used: u32,
    /// Those whose beginning can't be read.
    pub unreadable: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SurveyTable {
    /// The segment has a table of its objects, or nothing was written to it yet.
    Whole,
    /// The table is missing or damaged: the entries were read instead.
    Scanned,
    /// Removals that concern it are lost: nothing in it counts.
    Unjudged,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundSegment {
    pub table: SurveyTable,
    /// Objects that a start would find.
    pub entries: Vec<SurveyedEntry>,
    pub removed: u64,
    pub expired: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SurveyedEntry {
    candidate: RecordCandidate,
    /// The second from which on nobody wants it.
    pub expiry: u32,
    /// Bytes of its record on the device, the body included where it is short.
    pub record_bytes: u64,
    /// Bytes of its body, rounded up to KB.
    pub body_bytes: u64,
}

pub type SurveyedRecord = Result<Details, Lost>;

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Details {
    pub record: Record<Real>,
    pub body_bytes: u64,
}

impl Survey {
    /// Looks at what is on a device. `None`: nothing but zeros, no store was ever made there.
    ///
    /// # Errors
    /// It holds no store that this program can read.
    pub fn open(device: Arc<dyn Device>, now: u32) -> Result<Option<Survey>, DiskOpenError> {
        let core = Core::new(device, DiskStoreOptions::new(now, 0));
        let Some(superblock) = wait(open::find(&core))? else { return Ok(None) };
        let heads = wait(open::heads(&core, &superblock));
        let generations = heads.iter().map(|head| head.unwrap_or_default().unwrap_or_default());
        let mut order: Vec<(u32, u64)> = (0..).zip(generations.clone()).filter(|own| own.1 != 0).collect();
        order.sort_unstable_by_key(|&(_, generation)| std::cmp::Reverse(generation));
        let shape = Shape {
            segment_bytes: superblock.segment_bytes,
            segments: superblock.segments,
            used: order.len() as u32,
            unreadable: heads.iter().filter(|head| head.is_err()).count() as u32,
        };
        let opened = OpenedDisk::new(superblock, generations.map(AtomicU64::new).collect());
        let is_first = core.opened.set(Ok(opened)).is_ok();
        assert!(is_first, "a store is opened once");
        core.log.lock().segments = vec![DiskSegment::FREE; superblock.segments as usize];
        Ok(Some(Survey { core, order, turn: 0, known: Recovering::default(), expected: 0, shape }))
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub fn next_segment(&mut self) -> Option<FoundSegment> {
        let &(index, generation) = self.order.get(self.turn)?;
        self.turn += 1;
        let core = self.core.clone();
        let footer = wait(footer::read(&core, index, generation));
        let removals = footer.as_ref().and_then(|footer| wait(footer.removals(&core)));
        if self.expected > generation || self.expected == generation && removals.is_none() {
            // Nothing that is as old as this or older counts any more.
            self.expected = u64::MAX;
            return Some(FoundSegment { table: SurveyTable::Unjudged, entries: Vec::new(), removed: 0, expired: 0 });
        }
        if let Some(footer) = footer.as_ref().filter(|_| removals.is_some()) {
            self.expected = footer.trailer.previous;
        }
        removals.iter().flatten().for_each(|&removal| self.known.add(removal));
        let lines = footer.as_ref().filter(|_| removals.is_some()).and_then(|footer| wait(footer.lines(&core)));
        Some(match lines {
            Some(lines) => self.judge(index, generation, SurveyTable::Whole, &lines),
            None => {
                let scanned = wait(scan::scan(&core, index, generation));
                scanned.removals.iter().for_each(|&removal| self.known.add(removal));
                let table = if scanned.is_empty() { SurveyTable::Whole } else { SurveyTable::Scanned };
                self.judge(index, generation, table, &scanned.lines)
            }
        })
    }

    /// Tells what counts from what doesn't.
    fn judge(&self, index: u32, generation: u64, table: SurveyTable, lines: &[FooterLine]) -> FoundSegment {
        let units = self.core.units_of(index);
        let mut found = FoundSegment { table, entries: Vec::with_capacity(lines.len()), removed: 0, expired: 0 };
        for line in lines {
            let (at, len) = (units.start + u64::from(line.offset), u64::from(line.units));
            let is_here = line.offset != 0 && units.contains(&(at + len.saturating_sub(1)));
            let is_removed = self.known.keys.get(&line.key).is_some_and(|&before| line.ban_seq < before)
                || self.known.records.contains(&(generation, at));
            match () {
                () if is_removed || !is_here => found.removed += 1,
                () if line.expiry <= self.core.options.now => found.expired += 1,
                () => found.entries.push(SurveyedEntry {
                    candidate: RecordCandidate {
                        generation,
                        at,
                        blocks: blocks_of(at, len),
                        place: self.core.index.place(&line.key),
                    },
                    expiry: line.expiry,
                    record_bytes: len * UNIT,
                    body_bytes: u64::from(line.body_kb) * 1024,
                }),
            }
        }
        found
    }

    /// Reads the records of these objects. With `verify` their bodies are read and checked, too. `told` gets each
    /// result.
    pub fn look(&self, entries: &[SurveyedEntry], verify: bool, mut told: impl FnMut(&SurveyedEntry, SurveyedRecord)) {
        for some in entries.chunks(AT_ONCE) {
            let looks = some.iter().map(|entry| -> Look<'_> { Box::pin(self.look_at(entry, verify)) });
            let looked = wait(All { looks: looks.map(|look| (look, None)).collect() });
            some.iter().zip(looked).for_each(|(entry, looked)| told(entry, looked));
        }
    }

    async fn look_at(&self, entry: &SurveyedEntry, verify: bool) -> SurveyedRecord {
        let loaded = self.core.load(entry.candidate, |_| true).await?;
        if verify {
            for number in 0..loaded.body.chunk_count() {
                loaded.body.read_chunk(number).await?;
            }
        }
        Ok(Details { record: loaded.record, body_bytes: loaded.body.len() })
    }
}

impl std::fmt::Debug for Survey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Survey({} of {} segments)", self.turn, self.order.len())
    }
}

type Look<'a> = Pin<Box<dyn Future<Output = SurveyedRecord> + 'a>>;

struct All<'a> {
    looks: Vec<(Look<'a>, Option<SurveyedRecord>)>,
}

impl Future for All<'_> {
    type Output = Vec<SurveyedRecord>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<SurveyedRecord>> {
        for (look, end) in self.looks.iter_mut().filter(|(_, end)| end.is_none()) {
            if let Poll::Ready(looked) = look.as_mut().poll(cx) {
                *end = Some(looked);
            }
        }
        match self.looks.iter().all(|(_, end)| end.is_some()) {
            true => Poll::Ready(self.looks.iter().filter_map(|(_, end)| *end).collect()),
            false => Poll::Pending,
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait<F: Future>(work: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut work, mut cx) = (pin!(work), Context::from_waker(&waker));
    loop {
        match work.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
