// SPDX-License-Identifier: BSD-2-Clause
//! A body on the disk, read as it is asked for and a little ahead of each reader. Each chunk is checked before a byte of it
//! is given out. What has been read is held as long as a reader is about to want it, and shared by all who are.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use storage::{Buf, StoreError, StoredBody};
use sys::pages::Pages;

use crate::core::Core;
use crate::device::{DeviceError, DeviceOp};
use crate::format::entry::{DiskEntryKind, EntryHead};
use crate::format::object::Chunk;
use crate::format::{BLOCK, CHUNK, DigestKey, UNIT, checksum};
use crate::load::{Lost, RecordCandidate, Running};
use crate::put::{part_bytes, part_name};
use readers::Readers;
use runs::{RunPlace, Runs};

mod living;
mod readers;
mod runs;

pub(crate) use living::Living;

/// Most times that a body is read again when the device was too slow (or closed): its reader has nothing better to do.
const MOST_STALLS: u32 = 10;

#[derive(Clone)]
pub struct DiskBody {
    shared: Arc<Shared>,
}

struct Shared {
    core: Arc<Core>,
    key: DigestKey,
    len: AtomicU64,
    inline: Option<Buf>,
    state: Mutex<DiskBodyState>,
}

#[derive(Default)]
struct DiskBodyState {
    /// The body's record, once there is one.
    candidate: Option<RecordCandidate>,
    chunks: Vec<Chunk>,
    runs: Runs,
    readers: Readers,
    stalls: u32,
    lost: Option<StoreError>,
    /// Segments that aren't reclaimed yet, for a while, as somebody reads.
    pinned: Vec<u32>,
}

struct Start {
    place: RunPlace,
    running: Running,
}

enum Step {
    Take {
        chunk: Chunk,
        entry: Buf,
    },
    /// The chunk is read and needs a check.
    Check {
        number: usize,
        run: u64,
        chunk: Chunk,
        entry: Buf,
    },
    Wait,
    Gone(Chunk),
    Lost(StoreError),
}

impl DiskBody {
    pub(crate) fn new(
        core: &Arc<Core>,
        candidate: Option<RecordCandidate>,
        key: DigestKey,
        chunks: Vec<Chunk>,
        inline: Option<Buf>,
    ) -> DiskBody {
        let len = AtomicU64::new(chunks.iter().map(|chunk| u64::from(chunk.len)).sum());
        let state = Mutex::new(DiskBodyState { candidate, chunks, ..DiskBodyState::default() });
        let shared = Arc::new(Shared { core: core.clone(), key, len, inline, state });
        if let Some(record) = candidate.filter(|_| shared.inline.is_none()) {
            core.living.add(record, &shared);
        }
        DiskBody { shared }
    }

    pub fn inline(&self) -> Option<&Buf> {
        self.shared.inline.as_ref()
    }

    pub(crate) fn grow(&self, more: &[Chunk]) {
        let bytes: u64 = more.iter().map(|chunk| u64::from(chunk.len)).sum();
        self.shared.state.lock().chunks.extend_from_slice(more);
        self.shared.len.fetch_add(bytes, Relaxed);
    }

    /// Notes that the record is on its way: it goes with the body.
    pub(crate) fn set_record(&self, record: RecordCandidate) {
        self.shared.state.lock().candidate = Some(record);
        self.shared.core.living.add(record, &self.shared);
    }

    /// Notes that the same bytes are written at `to`, as well.
    fn move_on(&self, to: RecordCandidate, chunks: &[Chunk]) {
        let shared = &self.shared;
        {
            let mut state = shared.state.lock();
            state.unpin(&shared.core);
            state.candidate = Some(to);
            state.chunks = chunks.to_vec();
            // Who waits for one that is being read is woken by that, and begins anew.
            state.runs = Runs::default();
            if !state.readers.is_empty() {
                state.pin(&shared.core);
            }
        }
        shared.core.living.add(to, shared);
    }

    pub(crate) fn read_chunk(&self, number: usize) -> impl Future<Output = Result<Buf, Lost>> + Send + use<> {
        let chunk = self.shared.state.lock().chunks[number];
        let shared = self.shared.clone();
        async move {
            if !shared.core.has(chunk) {
                return Err(Lost::Gone);
            }
            let entry = shared.core.read_units(chunk.at, part_bytes(chunk.len).div_ceil(UNIT)).await?;
            let entry = entry.into_buf(&shared.core.read_bytes);
            shared.check(number, chunk, &entry)?;
            Ok(bytes_of(chunk, &entry, 0))
        }
    }

    pub(crate) fn chunk_count(&self) -> usize {
        if self.shared.inline.is_some() { 0 } else { self.shared.state.lock().chunks.len() }
    }
}

impl StoredBody for DiskBody {
    fn len(&self) -> u64 {
        self.shared.len.load(Relaxed)
    }

    fn is_there(&self) -> bool {
        let core = &self.shared.core;
        let state = self.shared.state.lock();
        let is_there = |chunk: &Chunk| core.has(*chunk) && !core.is_condemned(chunk.at);
        self.shared.inline.is_some() || state.lost.is_none() && state.chunks.iter().all(is_there)
    }

    fn at_hand(&self) -> Option<Buf> {
        self.shared.inline.clone()
    }

    fn poll_at(
        &self,
        cx: &mut Context<'_>,
        reader: &mut Option<u64>,
        wanted: Range<u64>,
    ) -> Poll<Result<Buf, StoreError>> {
        let shared = &self.shared;
        if let Some(bytes) = &shared.inline {
            return Poll::Ready(Ok(bytes.slice(wanted.start as usize..bytes.len())));
        }
        let offset = (wanted.start % CHUNK as u64) as usize;
        loop {
            let mut starts = Vec::new();
            let step = shared.state.lock().step(&shared.core, cx, reader, &wanted, &mut starts);
            starts.into_iter().for_each(|start| shared.start(start));
            match step {
                Step::Take { chunk, entry } => return Poll::Ready(Ok(bytes_of(chunk, &entry, offset))),
                Step::Check { number, run, chunk, entry } => match shared.check(number, chunk, &entry) {
                    Ok(()) => {
                        shared.state.lock().runs.note_checked(number, run);
                        return Poll::Ready(Ok(bytes_of(chunk, &entry, offset)));
                    }
                    Err(lost) => shared.lose(chunk, lost),
                },
                Step::Wait => return Poll::Pending,
                Step::Gone(chunk) => shared.lose(chunk, Lost::Gone),
                Step::Lost(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn forget(&self, reader: u64) {
        {
            let mut state = self.shared.state.lock();
            let left = state.readers.remove(reader);
            state.drop_unwanted(left);
            if state.readers.is_empty() {
                state.unpin(&self.shared.core);
            }
        }
        // It may have been woken in the place of another.
        self.shared.core.reads_waiting.wake_one();
    }
}

impl DiskBodyState {
    /// Looks for the chunk that a reader wants, and sees to it that this and what follows is being read.
    fn step(
        &mut self,
        core: &Arc<Core>,
        cx: &mut Context<'_>,
        reader: &mut Option<u64>,
        wanted: &Range<u64>,
        starts: &mut Vec<Start>,
    ) -> Step {
        if let Some(lost) = self.lost {
            if let Some(id) = reader.take() {
                self.readers.remove(id);
            }
            self.unpin(core);
            return Step::Lost(lost);
        }
        let number = (wanted.start / CHUNK as u64) as usize;
        let until = wanted.end.div_ceil(CHUNK as u64).min(self.chunks.len() as u64) as usize;
        let chunk = self.chunks[number];
        if self.readers.is_empty() {
            self.pin(core);
        }
        let id = *reader.get_or_insert_with(|| self.readers.add(number));
        let left = self.readers.go_to(id, number..until.max(number + 1));
        self.drop_unwanted(left);
        if !self.runs.has(number) && !core.has(chunk) {
            return Step::Gone(chunk);
        }
        self.read_ahead(core, cx, id, starts);
        match self.runs.entry(number, chunk) {
            Some((entry, None)) => Step::Take { chunk, entry },
            Some((entry, Some(run))) => Step::Check { number, run, chunk, entry },
            None => {
                self.readers.wait(id, cx.waker());
                Step::Wait
            }
        }
    }

    fn read_ahead(&mut self, core: &Arc<Core>, cx: &mut Context<'_>, id: u64, starts: &mut Vec<Start>) {
        let has_memory = core.read_bytes.load(Relaxed) < core.options.read_ahead_bytes;
        let wanted = self.readers.wanted(id, has_memory);
        let mut at = self.runs.first_unread(wanted.clone());
        // Not chunk by chunk: a device does the more at once the better.
        if at > wanted.start && (at - wanted.start) * 2 > wanted.len() {
            return;
        }
        while at < wanted.end {
            let running = Running::begin(core).or_else(|| {
                core.reads_waiting.add(cx.waker());
                // One that ended meanwhile may have found nobody to wake.
                Running::begin(core)
            });
            let Some(running) = running else { return };
            let place = self.runs.begin(&self.chunks, at..wanted.end);
            at = self.runs.first_unread(place.chunks.end..wanted.end);
            starts.push(Start { place, running });
        }
    }

    fn pin(&mut self, core: &Core) {
        let Some(opened) = core.opened() else { return };
        for chunk in &self.chunks {
            let segment = opened.superblock.segment_at(chunk.at).filter(|segment| self.pinned.last() != Some(segment));
            if let Some(segment) = segment {
                opened.uses[segment as usize].readers.fetch_add(1, Relaxed);
                self.pinned.push(segment);
            }
        }
    }

    fn unpin(&mut self, core: &Core) {
        let Some(opened) = core.opened() else { return };
        for segment in self.pinned.drain(..) {
            opened.uses[segment as usize].readers.fetch_sub(1, Relaxed);
        }
    }

    fn drop_unwanted(&mut self, left: Range<usize>) {
        let readers = &self.readers;
        self.runs.retain(left, |chunks| readers.want_any(chunks));
    }
}

impl Core {
    /// True if a chunk's segment is still the one that it was written to.
    fn has(&self, chunk: Chunk) -> bool {
        chunk.generation != 0 && self.generation_at(chunk.at) == chunk.generation
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        state.unpin(&self.core);
        if let Some(record) = state.candidate.filter(|_| self.inline.is_none()) {
            self.core.living.note_drop(record);
        }
    }
}

impl Shared {
    /// Begins a reading. Nothing is locked: it may end at once.
    fn start(self: &Arc<Shared>, start: Start) {
        let Start { place, running } = start;
        let core = &self.core;
        let (first, end, block) = (place.units.start * UNIT, place.units.end * UNIT, BLOCK as u64);
        let (at, end) = (first / block * block, end.next_multiple_of(block));
        let len = (end - at) as usize;
        if end > core.geometry().superblock.end() {
            return self.ended(&place, 0, Err(DeviceError::Range), running);
        }
        core.counters.bytes_read.add(len as u64);
        let (own, into) = (self.clone(), core.pages(len));
        let done = move |result: Result<Pages, DeviceError>| {
            let whole = result.and_then(|pages| if pages.len() < len { Err(DeviceError::Short) } else { Ok(pages) });
            own.ended(&place, (first - at) as usize, whole, running);
        };
        core.device.start(DeviceOp::Read { at, into }, Box::new(done));
    }

    /// A reading has ended; the first entry begins at `skip`.
    fn ended(&self, place: &RunPlace, skip: usize, result: Result<Pages, DeviceError>, running: Running) {
        let error = result.as_ref().err().copied();
        let (woken, is_lost, chunk) = {
            let mut state = self.state.lock();
            let entries = result.ok().map(|pages| Buf::of_pages(pages, self.core.read_bytes.clone()));
            state.runs.end(place, entries.map(|all| all.slice(skip..all.len())));
            state.stalls = match error {
                None => 0,
                Some(error) => state.stalls + u32::from(is_passing(error)),
            };
            let is_lost = match error {
                None | Some(DeviceError::Busy) => false,
                Some(error) if is_passing(error) => state.stalls >= MOST_STALLS,
                Some(_) => true,
            };
            (state.readers.take_wakers(place.chunks.clone()), is_lost, state.chunks[place.chunks.start])
        };
        match error {
            // Who asks again at once would be refused again.
            Some(DeviceError::Busy) => {
                running.give_back();
                woken.iter().for_each(|waker| self.core.reads_waiting.add(waker));
                return;
            }
            Some(error) if is_lost => self.lose(chunk, Lost::Device(error)),
            Some(error) => self.core.note_error(error, &self.core.counters.read_errors),
            None => {}
        }
        drop(running);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Checks that it is the chunk's entry, and whole.
    fn check(&self, number: usize, chunk: Chunk, entry: &[u8]) -> Result<(), Lost> {
        let store_id = self.core.geometry().superblock.store_id;
        let head = EntryHead::decode(entry, store_id, chunk.generation, chunk.at);
        let own = part_name(&self.key, number as u32);
        let body = entry.get(UNIT as usize..part_bytes(chunk.len) as usize);
        let is_its = head.is_some_and(|head| head.kind == DiskEntryKind::Part && head.own == own);
        let is_whole = |bytes: &[u8]| !self.core.checks_bodies() || checksum(store_id, bytes) == chunk.sum;
        match body.filter(|body| is_its && is_whole(body)) {
            Some(_) => Ok(()),
            None => Err(self.core.damage(chunk.at, chunk.generation)),
        }
    }

    /// Marks the body as lost, because of this chunk: nobody gets any more of it.
    fn lose(&self, chunk: Chunk, lost: Lost) {
        let candidate = self.state.lock().candidate;
        self.core.lost(candidate, (chunk.generation, chunk.at), lost);
        let woken = {
            let mut state = self.state.lock();
            state.lost.get_or_insert(StoreError(text(lost)));
            state.runs = Runs::default();
            state.readers.take_wakers(0..usize::MAX)
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

/// True for an error that says nothing about the body: the device was too slow, or the thread that read has ended.
fn is_passing(error: DeviceError) -> bool {
    matches!(error, DeviceError::Stalled | DeviceError::Closed)
}

fn bytes_of(chunk: Chunk, entry: &Buf, offset: usize) -> Buf {
    entry.slice(UNIT as usize + offset..part_bytes(chunk.len) as usize)
}

impl std::fmt::Debug for DiskBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DiskBody({} bytes)", self.len())
    }
}

fn text(lost: Lost) -> &'static str {
    match lost {
        Lost::Gone | Lost::OtherDigest => "the body's segment was reclaimed",
        Lost::Damaged => "a checksum of the body is wrong",
        Lost::Device(_) => "the body can't be read",
        Lost::Busy => "too many reads are in progress",
    }
}
