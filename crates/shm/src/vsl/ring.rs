// SPDX-License-Identifier: BSD-2-Clause
//! The ring and its writer protocol. Space is reserved under a lock, data is copied outside it, and the record's first
//! word, which readers poll, is written last.
//!
//! A writer that sleeps for a whole turn of the ring writes into newer records; that is why every word is an atomic.
//! Readers notice by the segment number that they were overrun.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use base::Vxid;
use base::lock::Mutex;
use tables::Tag;
use tables::counters::{Counter, Main};
use tables::tags::{LogSettings, TagMask};

use super::format::LogFormat;
use super::gather;
use super::layout::{self, END, HEAD_WORDS, LOG_AT, Marker, Record, RecordLayout, SEGMENTS};
use super::txn::Announcement;
use crate::vsc::CounterSet;
use crate::vsm::{Reservation, Segment, SegmentSet};

/// Bytes of the ring that are fetched ahead of gathered records at most.
const PREFETCHED: usize = 2048;

/// The log of a worker. Share it as `Arc<LogRing>`.
#[derive(Debug)]
pub struct LogRing {
    layout: &'static RecordLayout,
    segment: Segment,
    /// Words in a segment of the ring.
    segsize: usize,
    position: Mutex<Position>,
    settings: Settings,
    main: CounterSet<Main>,
}

/// Place of the next record.
#[derive(Debug)]
struct Position {
    word: usize,
    segment_n: u32,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReservedAmount {
    writes: u64,
    records: u64,
    flushes: u64,
}

impl std::ops::AddAssign for ReservedAmount {
    fn add_assign(&mut self, more: ReservedAmount) {
        self.writes += more.writes;
        self.records += more.records;
        self.flushes += more.flushes;
    }
}

/// The settings in use, changed while others write.
#[derive(Debug, Default)]
struct Settings {
    mask: [AtomicU64; 2],
    reclen: AtomicU32,
    buffer: AtomicU32,
    sync: AtomicBool,
}

impl LogRing {
    /// Makes and publishes the `Log` segment of `settings.space` bytes. `main` gets the `shm_*` counters, and those of what found no room.
    pub fn create(
        set: &SegmentSet,
        format: LogFormat,
        settings: LogSettings,
        main: CounterSet<Main>,
    ) -> io::Result<Self> {
        let (ring, reservation) = Self::create_growing(set, format, settings, main)?;
        reservation.complete()?;
        Ok(ring)
    }

    /// The same at once: room for most of it comes by [`Reservation::complete`].
    pub fn create_growing(
        set: &SegmentSet,
        format: LogFormat,
        settings: LogSettings,
        main: CounterSet<Main>,
    ) -> io::Result<(Self, Reservation)> {
        let space = usize::try_from(settings.space).map_err(io::Error::other)?.next_multiple_of(8);
        let segsize = space.saturating_sub(LOG_AT) / 4 / SEGMENTS;
        if segsize < 1024 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "vsl_space is too small"));
        }
        let (segment, reservation) = set.prepare_growing("Log", "Log", space)?;
        let position = Mutex::new(Position { word: 0, segment_n: layout::FIRST_SEGMENT_N });
        let layout = RecordLayout::of(format);
        let mut ring = Self { layout, segment, segsize, position, settings: Settings::default(), main };
        ring.apply(settings);
        ring.write_head();
        ring.segment.publish()?;
        Ok((ring, reservation))
    }

    fn write_head(&self) {
        let map = self.segment.map();
        map.u64(layout::SEGSIZE_AT).store(self.segsize as u64, Ordering::Relaxed);
        map.u32(layout::SEGMENT_N_AT).store(layout::FIRST_SEGMENT_N, Ordering::Relaxed);
        (0..SEGMENTS).for_each(|i| self.offset(i).store(if i == 0 { 0 } else { u64::MAX }, Ordering::Relaxed));
        self.words()[0].store(END, Ordering::Relaxed);
        map.u64(layout::MAGIC_AT).store(self.format().ring_head(), Ordering::Release);
    }

    /// Uses all of `new` but its `space` for records from now on.
    pub fn apply(&self, new: LogSettings) {
        let settings = &self.settings;
        for ((word, bits), missing) in settings.mask.iter().zip(new.mask.0).zip(self.layout.missing.0) {
            word.store(bits | missing, Ordering::Relaxed);
        }
        let clamp = |n: u64, most: usize| n.min(most as u64) as u32;
        settings.reclen.store(clamp(new.reclen, layout::MAX_DATA), Ordering::Relaxed);
        // A batch never takes more than an eighth of the ring, or readers would be overrun by it.
        settings.buffer.store(clamp(new.buffer, self.segsize * 4 - 64), Ordering::Relaxed);
        settings.sync.store(new.is_sync, Ordering::Relaxed);
    }

    /// True if records of this tag are not written.
    #[inline]
    pub fn is_masked(&self, tag: Tag) -> bool {
        let n = tag as usize;
        self.settings.mask[n / 64].load(Ordering::Relaxed) & (1 << (n % 64)) != 0
    }

    /// Format of the log.
    pub fn format(&self) -> LogFormat {
        self.layout.format
    }

    #[inline]
    pub(super) fn layout(&self) -> &'static RecordLayout {
        self.layout
    }

    pub(super) fn main(&self) -> &Main {
        &self.main
    }

    /// The mask in force.
    pub fn mask(&self) -> TagMask {
        TagMask([0, 1].map(|i| self.settings.mask[i].load(Ordering::Relaxed)))
    }

    /// The most data of a record now, the NUL of text included.
    #[inline]
    pub(super) fn reclen(&self) -> usize {
        self.settings.reclen.load(Ordering::Relaxed) as usize
    }

    #[inline]
    pub(super) fn buffer_bytes(&self) -> usize {
        self.settings.buffer.load(Ordering::Relaxed) as usize
    }

    #[inline]
    pub(super) fn is_sync(&self) -> bool {
        self.settings.sync.load(Ordering::Relaxed)
    }

    /// Writes one record at once: for records of no transaction and for those of a session itself.
    pub fn write_one(&self, tag: Tag, vxid: Vxid, marker: Marker, data: &[u8]) {
        if self.is_masked(tag) {
            return;
        }
        let data = self.cut(tag, data);
        gather::flush_gathered();
        let at = self.reserve(self.record_words(tag, data), ReservedAmount { writes: 1, records: 1, flushes: 0 });
        self.put_record(at, tag, vxid, marker, data);
    }

    /// The data that a record of this tag may have.
    fn cut<'a>(&self, tag: Tag, data: &'a [u8]) -> &'a [u8] {
        let nul = layout::nul_bytes(self.layout.empty(tag));
        &data[..data.len().min(self.reclen().saturating_sub(nul))]
    }

    fn record_words(&self, tag: Tag, data: &[u8]) -> usize {
        self.layout.head_words + layout::data_words(data.len() + layout::nul_bytes(self.layout.empty(tag)))
    }

    /// Fills in a record whose place is reserved; its first word comes last.
    fn put_record(&self, at: usize, tag: Tag, vxid: Vxid, marker: Marker, data: &[u8]) {
        let words = &self.words()[at..][..self.record_words(tag, data)];
        let (head, rest) = words.split_at(self.layout.head_words);
        let mut chunks = data.chunks_exact(4);
        let mut to = rest.iter();
        for (chunk, word) in chunks.by_ref().zip(to.by_ref()) {
            word.store(u32::from_ne_bytes(chunk.try_into().expect("four bytes")), Ordering::Relaxed);
        }
        // The rest of the data and the NUL, padded.
        if let Some(word) = to.next() {
            let mut last = [0; 4];
            last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
            word.store(u32::from_ne_bytes(last), Ordering::Relaxed);
        }
        let id = self.layout.id_words(vxid, marker);
        head[1..].iter().zip(id).for_each(|(word, id)| word.store(id, Ordering::Relaxed));
        head[0].store(self.layout.empty(tag) + data.len() as u32, Ordering::Release);
    }

    /// The same as [`LogRing::write_one`], formatted.
    pub fn write_onef(&self, tag: Tag, vxid: Vxid, marker: Marker, text: fmt::Arguments<'_>) {
        if !self.is_masked(tag) {
            match text.as_str() {
                Some(text) => self.write_one(tag, vxid, marker, text.as_bytes()),
                None => self.write_one(tag, vxid, marker, text.to_string().as_bytes()),
            }
        }
    }

    /// Writes records of one vxid as a batch, and before it a record of another one. Where a thread gathers, they wait.
    pub(super) fn write_batch(
        self: &Arc<Self>,
        before: Option<Announcement>,
        records: &[u32],
        count: u64,
        overflow: bool,
    ) {
        let before = before.as_ref().map(|before| {
            let text = self.cut(before.tag, before.text());
            (before, text, self.record_words(before.tag, text))
        });
        let before_words = before.as_ref().map_or(0, |(_, _, words)| *words);
        let head_words = self.layout.head_words;
        let size = before_words + head_words + records.len();
        let more = u64::from(before.is_some());
        let amount = ReservedAmount { writes: 1 + more, records: count + more, flushes: u64::from(overflow) };
        let batch_head: [u32; HEAD_WORDS] = [layout::BATCH, (records.len() * 4) as u32, 0];
        let gathered = gather::add(self, size, amount, |words| {
            if let Some((before, text, len)) = before {
                let at = words.len();
                words.resize(at + len, 0);
                self.layout.fill(&mut words[at..], before.tag, before.vxid, before.marker, text);
            }
            words.extend_from_slice(&batch_head[..head_words]);
            words.extend_from_slice(records);
        });
        if gathered {
            return;
        }
        let at = self.reserve(size, amount);
        let head = &self.words()[at + before_words..][..head_words];
        self.copy(at + before_words + head_words, records);
        head[1..].iter().zip(&batch_head[1..]).for_each(|(word, part)| word.store(*part, Ordering::Relaxed));
        head[0].store(batch_head[0], Ordering::Release);
        if let Some((before, text, _)) = before {
            // Last: until its first word is there no reader comes to the batch behind it.
            self.put_record(at, before.tag, before.vxid, before.marker, text);
        }
        // The ring is larger than any cache: what comes next, likely as long as this, is fetched while others work.
        self.segment.map().prefetch(self.byte(at + size), size * 4);
    }

    /// Copies `records` to the word `at` and those after it; they are reserved. Two words at a time where that is aligned.
    fn copy(&self, at: usize, records: &[u32]) {
        if records.is_empty() {
            return;
        }
        let first = usize::from(!self.byte(at).is_multiple_of(8));
        let (single, rest) = records.split_at(first);
        let (pairs, last) = rest.as_chunks::<2>();
        for (word, record) in self.words()[at..].iter().zip(single) {
            word.store(*record, Ordering::Relaxed);
        }
        let longs = self.segment.map().longs(self.byte(at + first), pairs.len());
        for (long, [low, high]) in longs.iter().zip(pairs) {
            let bytes = u64::from(low.to_le()) | u64::from(high.to_le()) << 32;
            long.store(bytes.to_le(), Ordering::Relaxed);
        }
        for (word, record) in self.words()[at + first + pairs.len() * 2..].iter().zip(last) {
            word.store(*record, Ordering::Relaxed);
        }
    }

    fn byte(&self, word: usize) -> usize {
        self.segment.offset() + LOG_AT + word * 4
    }

    /// Words that a thread may gather: at most an eighth of the ring, as for a batch.
    pub(super) fn most_gathered(&self) -> usize {
        gather::MAX_WORDS.min(self.segsize - HEAD_WORDS)
    }

    /// Writes whole records and batches; the first word comes last.
    pub(super) fn write_words(&self, records: &[u32], amount: ReservedAmount) {
        let at = self.reserve(records.len(), amount);
        self.copy(at + 1, &records[1..]);
        self.words()[at].store(records[0], Ordering::Release);
        let next = (records.len() * 4).min(PREFETCHED);
        self.segment.map().prefetch(self.byte(at + records.len()), next);
    }

    /// Reserves so many words; the first one holds the end marker until the caller replaces it.
    fn reserve(&self, size: usize, amount: ReservedAmount) -> usize {
        let mut contended = false;
        let mut position = self.position.try_lock().unwrap_or_else(|| {
            contended = true;
            self.position.lock()
        });
        if position.word + size >= self.end() {
            self.wrap(&mut position);
        }
        let at = position.word;
        position.word += size;
        debug_assert!(position.word < self.end());
        self.words()[position.word].store(END, Ordering::Relaxed);
        self.cross_segments(&mut position);
        self.count(size, &amount, contended);
        at
    }

    /// Tells readers of each segment of the ring that now has its first record.
    fn cross_segments(&self, position: &mut Position) {
        if position.word < self.segsize * (position.segment_n as usize % SEGMENTS + 1) {
            return;
        }
        let now = position.word / self.segsize;
        while now > position.segment_n as usize % SEGMENTS {
            position.segment_n = position.segment_n.wrapping_add(1);
            self.offset(position.segment_n as usize % SEGMENTS).store(position.word as u64, Ordering::Relaxed);
        }
        self.publish_segment(position);
    }

    fn wrap(&self, position: &mut Position) {
        let to_next = SEGMENTS as u32 - position.segment_n % SEGMENTS as u32;
        position.segment_n = position.segment_n.wrapping_add(to_next);
        self.offset(0).store(0, Ordering::Relaxed);
        self.words()[0].store(END, Ordering::Relaxed);
        if position.word != 0 {
            // Release: who follows the wrap marker finds the end marker there.
            self.words()[position.word].store(layout::WRAP, Ordering::Release);
            position.word = 0;
        }
        self.publish_segment(position);
        bump(&self.main.shm_cycles, 1);
    }

    /// Release: the offsets and the end marker are there before the number that points at them.
    fn publish_segment(&self, position: &Position) {
        self.segment.map().u32(layout::SEGMENT_N_AT).store(position.segment_n, Ordering::Release);
    }

    fn count(&self, words: usize, amount: &ReservedAmount, contended: bool) {
        bump(&self.main.shm_bytes, 4 * words as u64);
        bump(&self.main.shm_writes, amount.writes);
        bump(&self.main.shm_records, amount.records);
        bump(&self.main.shm_flushes, amount.flushes);
        bump(&self.main.shm_cont, u64::from(contended));
    }

    fn words(&self) -> &[AtomicU32] {
        self.segment.map().words(self.segment.offset() + LOG_AT, self.end())
    }

    fn offset(&self, segment: usize) -> &AtomicU64 {
        self.segment.map().u64(self.segment.offset() + layout::OFFSETS_AT + segment * 8)
    }

    fn end(&self) -> usize {
        self.segsize * SEGMENTS
    }

    /// The records from the beginning of the ring to the end marker, and whether the ring has begun anew there: then older records
    /// follow. For tests of what is logged.
    pub fn records(&self) -> (Vec<Record>, bool) {
        let word = |at: usize| self.words()[at].load(Ordering::Acquire);
        let (mut at, mut out) = (0, Vec::new());
        loop {
            let (from, length) = match word(at) {
                END => return (out, false),
                layout::WRAP => return (out, true),
                layout::BATCH => (at + self.layout.head_words, word(at + 1) as usize / 4),
                first => (at, self.format().record_bytes(first) / 4),
            };
            at = from + length;
            let bytes: Vec<u8> = (from..at).flat_map(|at| word(at).to_ne_bytes()).collect();
            out.extend(layout::records(self.format(), &bytes));
        }
    }

    #[cfg(test)]
    pub(super) fn word(&self, at: usize) -> u32 {
        self.words()[at].load(Ordering::Acquire)
    }

    #[cfg(test)]
    pub(super) fn segments(&self) -> (u32, [u64; SEGMENTS]) {
        let n = self.segment.map().u32(layout::SEGMENT_N_AT).load(Ordering::Acquire);
        (n, std::array::from_fn(|i| self.offset(i).load(Ordering::Acquire)))
    }
}

/// Only the holder of the lock writes these counters, so a load and a store do what a locked add would.
fn bump(counter: &Counter, n: u64) {
    if n > 0 {
        counter.set(counter.get() + n);
    }
}
