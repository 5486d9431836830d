// SPDX-License-Identifier: BSD-2-Clause
//! Following the log ring of a workdir, ours or a genuine varnishd's.
//!
//! Stretches of the ring are copied out by reading its file, and only copies are looked at: a writer that overtakes us,
//! or a ring full of nonsense, is noticed as [`RingStep::Overrun`], never as a crash. The words that say a record is complete
//! are read first, its data by a second read, so that the order the writer keeps is kept here too.

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

use super::{Line, index, index_head, index_text, u32_at, u64_at};
use crate::vsl::layout::{BATCH, END, LOG_AT, MAGIC_AT, OFFSETS_AT, SEGMENT_N_AT, SEGMENTS, SEGSIZE_AT, WRAP};
use crate::vsl::{FormatStamp, LogFormat, LogNote};
use crate::vsm::SetOwner;

/// Bytes copied at once; a longer batch is copied whole.
const STRETCH: usize = 128 << 10;
/// A longer batch is none: writers gather at most `vsl_buffer` bytes.
const BATCH_BYTES: usize = 64 << 20;
/// Number of segments behind the writer at which bytes that we read may be written over.
const TOO_FAR: u32 = SEGMENTS as u32 - 2;

/// The start of reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartAt {
    /// At the end: only what is logged from now on.
    Now,
    /// From as far back as is safe; ends ([`RingStep::Eof`]) at the end.
    Past,
    /// From as far back as is safe, and then on.
    PastAndOn,
}

/// Result of the next look at the ring.
#[derive(Debug)]
pub enum RingStep<'a> {
    /// Whole records (never a batch's head), stamped with their format: one, or all those of a batch, which belong to one
    /// transaction.
    Records(&'a [u8]),
    /// There is nothing new yet.
    End,
    /// The end was reached, and was asked for.
    Eof,
    /// The ring is no longer the worker's.
    Abandoned,
    /// The writer has overtaken us, or what is there is no log.
    Overrun,
}

/// Reasons why there is no log to follow.
#[derive(Debug)]
pub enum LogError {
    /// No worker, or it has no log yet.
    NoLog,
    /// The segment isn't a log of a version that we know.
    NotALog,
    /// The writer moves faster than we read.
    TooFast,
    /// The operating system refused.
    Io(io::Error),
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::NoLog => f.write_str("No VSL chunk found (child not started ?)"),
            LogError::NotALog => f.write_str("Not a VSL chunk"),
            LogError::TooFast => f.write_str("Cursor initialization failure (-3)"),
            LogError::Io(error) => write!(f, "Cannot open the log: {error}"),
        }
    }
}

impl std::error::Error for LogError {}

/// A place in the log of a workdir, which moves on as it is read.
#[derive(Debug)]
pub struct LogCursor {
    watch: Watch,
    file: File,
    /// Offset of the segment in its file.
    base: u64,
    segsize: usize,
    /// Word of the ring that is read next, and the number of its segment.
    at: usize,
    segment: u32,
    /// Whole records copied out of the ring from `at`, and how many bytes of them were given out.
    copy: Vec<u8>,
    given: usize,
    stop_at_end: bool,
    stamp: FormatStamp,
}

impl LogCursor {
    /// Opens the log of the worker in `workdir`.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub fn open(workdir: &Path, from: StartAt) -> Result<LogCursor, LogError> {
        let (watch, line) = Watch::new(workdir)?;
        let file = super::open(&watch.dir.join(&line.file)).map_err(LogError::Io)?;
        let mut head = [0; LOG_AT];
        file.read_exact_at(&mut head, line.offset).map_err(|_| LogError::NotALog)?;
        let words = u64_at(&head, SEGSIZE_AT).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let bytes = words.checked_mul(4 * SEGMENTS).and_then(|n| n.checked_add(LOG_AT));
        let format = u64_at(&head, MAGIC_AT).and_then(LogFormat::of_ring).ok_or(LogError::NotALog)?;
        if words == 0 || bytes.is_none_or(|n| n as u64 > line.length) {
            return Err(LogError::NotALog);
        }
        // No file is that long: places in it can be added up from here on.
        if line.offset.checked_add(line.length).is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(LogError::NotALog);
        }
        let mut ring = LogCursor {
            watch,
            file,
            base: line.offset,
            segsize: words,
            at: 0,
            segment: 0,
            copy: Vec::new(),
            given: 0,
            stop_at_end: from == StartAt::Past,
            stamp: FormatStamp::new(format),
        };
        match from {
            StartAt::Now => ring.go_to_end()?,
            StartAt::Past | StartAt::PastAndOn => ring.go_back(&head)?,
        }
        Ok(ring)
    }

    /// The log's format as far as it is known.
    pub fn format(&self) -> LogFormat {
        self.stamp.format()
    }

    /// True if there is something to be said of the log since the last time.
    pub const fn has_notes(&self) -> bool {
        self.stamp.has_notes()
    }

    /// Takes what is to be said of the log since the last time.
    pub fn notes(&mut self) -> impl Iterator<Item = LogNote> + '_ {
        self.stamp.notes()
    }

    /// Reads the next records.
    pub fn step(&mut self) -> RingStep<'_> {
        loop {
            if self.given < self.copy.len() {
                match unit(self.format(), &self.copy[self.given..]) {
                    // A ring is never left in its first segment; one that says so could be walked round for ever.
                    Unit::Wrap if !self.segment.is_multiple_of(SEGMENTS as u32) => {
                        self.at = 0;
                        while !self.segment.is_multiple_of(SEGMENTS as u32) {
                            self.segment = self.segment.wrapping_add(1);
                        }
                        self.copy.clear();
                        self.given = 0;
                    }
                    Unit::Records { head, bytes } => {
                        let first = self.given + head;
                        self.given = first + bytes;
                        self.advance((head + bytes) / 4);
                        let records = &mut self.copy[first..first + bytes];
                        self.stamp.stamp(records);
                        return RingStep::Records(records);
                    }
                    // Written over between the two reads.
                    Unit::Wrap | Unit::Partial { .. } | Unit::End | Unit::Nonsense => return self.lost(),
                }
                continue;
            }
            match self.fill() {
                Fill::Some => {}
                Fill::Lost => return self.lost(),
                Fill::End if !self.watch.is_valid() => return RingStep::Abandoned,
                Fill::End if self.stop_at_end => return RingStep::Eof,
                Fill::End => return RingStep::End,
            }
        }
    }

    /// Leaves out what lies before the segment that is being written now, and goes on at its beginning. False: that is the one that is being
    /// read, and nothing was left out. For readers that want some of a log that is faster than they are.
    pub fn skip_ahead(&mut self) -> bool {
        let Some(segment) = self.segment_n().filter(|now| *now != self.segment) else { return false };
        fence(Ordering::Acquire);
        let mut offset = [0; 8];
        let entry = self.base + (OFFSETS_AT + 8 * (segment as usize % SEGMENTS)) as u64;
        if self.file.read_exact_at(&mut offset, entry).is_err() {
            return false;
        }
        let begin = usize::try_from(i64::from_ne_bytes(offset)).ok().filter(|begin| *begin < self.end());
        let Some(begin) = begin else {
            return false;
        };
        (self.segment, self.at) = (segment, begin);
        self.copy.clear();
        self.given = 0;
        true
    }

    fn lost(&mut self) -> RingStep<'static> {
        if self.watch.is_valid() { RingStep::Overrun } else { RingStep::Abandoned }
    }

    fn advance(&mut self, words: usize) {
        self.at += words;
        // The last word is never used: who stands behind it is lost, which `fill` notices.
        while self.at < self.end() && self.at / self.segsize > (self.segment % SEGMENTS as u32) as usize {
            self.segment = self.segment.wrapping_add(1);
        }
    }

    fn end(&self) -> usize {
        self.segsize * SEGMENTS
    }

    fn segment_n(&self) -> Option<u32> {
        let mut word = [0; 4];
        self.file.read_exact_at(&mut word, self.base + SEGMENT_N_AT as u64).ok()?;
        Some(u32::from_ne_bytes(word))
    }

    fn is_near(&self) -> bool {
        self.segment_n().is_some_and(|n| n.wrapping_sub(self.segment) < TOO_FAR)
    }

    fn read_words(&mut self, bytes: usize) -> bool {
        self.copy = vec![0; bytes];
        let at = self.base + (LOG_AT + self.at * 4) as u64;
        self.file.read_exact_at(&mut self.copy, at).is_ok()
    }

    fn fill(&mut self) -> Fill {
        self.given = 0;
        if self.at >= self.end() || !self.is_near() || !self.read_words(4) {
            self.copy.clear();
            return Fill::Lost;
        }
        let first = u32_at(&self.copy, 0);
        if first == Some(END) {
            self.copy.clear();
            return Fill::End;
        }
        let room = ((self.end() - self.at) * 4).min(BATCH_BYTES);
        let mut want = STRETCH.min(room);
        let whole = loop {
            if !self.read_words(want) {
                return Fill::Lost;
            }
            match whole_units(self.format(), &self.copy) {
                (0, need) if need > want && need <= room => want = need,
                (0, _) => {
                    self.copy.clear();
                    return Fill::Lost;
                }
                (whole, _) => break whole,
            }
        };
        // The heads were seen complete; what they stand for was written before them and is read after them.
        fence(Ordering::Acquire);
        if !self.read_words(whole) || !self.is_near() {
            self.copy.clear();
            return Fill::Lost;
        }
        // A record that tells of the release may come behind others of its tag numbers.
        if self.stamp.is_new() {
            self.stamp.look_ahead(&self.copy);
        }
        Fill::Some
    }

    fn go_to_end(&mut self) -> Result<(), LogError> {
        let segment = self.segment_n().ok_or(LogError::NotALog)?;
        fence(Ordering::Acquire);
        self.segment = segment;
        let mut offset = [0; 8];
        let at = self.base + (OFFSETS_AT + 8 * (segment as usize % SEGMENTS)) as u64;
        self.file.read_exact_at(&mut offset, at).map_err(|_| LogError::NotALog)?;
        self.at = usize::try_from(i64::from_ne_bytes(offset)).map_err(|_| LogError::NotALog)?;
        if self.at >= self.end() {
            return Err(LogError::NotALog);
        }
        loop {
            if self.segment_n().is_none_or(|now| now.wrapping_sub(segment) > 1) {
                return Err(LogError::TooFast);
            }
            match self.step() {
                RingStep::Records(_) => {}
                RingStep::End | RingStep::Eof => return Ok(()),
                RingStep::Abandoned => return Err(LogError::NoLog),
                RingStep::Overrun => return Err(LogError::TooFast),
            }
        }
    }

    fn go_back(&mut self, head: &[u8]) -> Result<(), LogError> {
        let now = u32_at(head, SEGMENT_N_AT).ok_or(LogError::NotALog)?;
        for back in (0..=SEGMENTS as u32 - 3).rev() {
            let segment = now.wrapping_sub(back);
            let offset = u64_at(head, OFFSETS_AT + 8 * (segment as usize % SEGMENTS)).ok_or(LogError::NotALog)?;
            // -1: nothing in that segment yet.
            if let Some(at) = usize::try_from(offset as i64).ok().filter(|at| *at < self.end()) {
                self.segment = segment;
                self.at = at;
                return Ok(());
            }
        }
        Err(LogError::NotALog)
    }
}

enum Fill {
    Some,
    End,
    Lost,
}

#[derive(Debug, PartialEq, Eq)]
enum Unit {
    /// A record, or a batch after its head.
    Records {
        head: usize,
        bytes: usize,
    },
    /// More bytes are needed: so many in all.
    Partial {
        need: usize,
    },
    Wrap,
    End,
    Nonsense,
}

fn unit(format: LogFormat, bytes: &[u8]) -> Unit {
    let head = format.head_bytes();
    match u32_at(bytes, 0) {
        None => Unit::Partial { need: head },
        Some(END) => Unit::End,
        Some(WRAP) => Unit::Wrap,
        Some(0) => Unit::Nonsense,
        Some(BATCH) => {
            let Some(len) = u32_at(bytes, 4) else { return Unit::Partial { need: head } };
            let len = len as usize;
            if !len.is_multiple_of(4) {
                return Unit::Nonsense;
            }
            match bytes.get(head..head + len) {
                None => Unit::Partial { need: head + len },
                Some(records) if fills(format, records) => Unit::Records { head, bytes: len },
                Some(_) => Unit::Nonsense,
            }
        }
        Some(word) => {
            let need = format.record_bytes(word);
            if bytes.len() < need { Unit::Partial { need } } else { Unit::Records { head: 0, bytes: need } }
        }
    }
}

fn fills(format: LogFormat, mut records: &[u8]) -> bool {
    while !records.is_empty() {
        match unit(format, records) {
            Unit::Records { head: 0, bytes } => records = &records[bytes..],
            Unit::Records { .. } | Unit::Partial { .. } | Unit::Wrap | Unit::End | Unit::Nonsense => return false,
        }
    }
    true
}

/// Number of bytes that are whole units, the mark of a wrap included; and how many the next one needs.
fn whole_units(format: LogFormat, bytes: &[u8]) -> (usize, usize) {
    let mut at = 0;
    loop {
        match unit(format, &bytes[at..]) {
            Unit::Records { head, bytes } => at += head + bytes,
            Unit::Wrap => return (at + 4, 0),
            Unit::Partial { need } => return (at, need),
            Unit::End | Unit::Nonsense => return (at, 0),
        }
    }
}

/// Knows when the ring's segment has left the index.
#[derive(Debug)]
struct Watch {
    manager: PathBuf,
    dir: PathBuf,
    head: (u64, u64),
    line: Line,
    seen: Option<IndexState>,
}

type IndexState = (u64, u64, u64, i64, i64);

fn seen(meta: &Metadata) -> IndexState {
    (meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec())
}

impl Watch {
    fn new(workdir: &Path) -> Result<(Watch, Line), LogError> {
        let manager = workdir.join(SetOwner::Manager.dir_name()).join(crate::vsm::INDEX_NAME);
        let dir = workdir.join(SetOwner::Worker.dir_name());
        if !manager.exists() {
            return Err(LogError::NoLog);
        }
        let before = std::fs::metadata(dir.join(crate::vsm::INDEX_NAME)).ok();
        let text = index_text(&dir);
        let head = index_head(&text).ok_or(LogError::NoLog)?;
        let lines = index(&text).ok_or(LogError::NoLog)?;
        let line = lines.into_iter().find(|line| line.class == "Log").ok_or(LogError::NoLog)?;
        Ok((Watch { manager, dir, head, line: line.clone(), seen: before.as_ref().map(seen) }, line))
    }

    fn is_valid(&mut self) -> bool {
        if !self.manager.exists() {
            return false;
        }
        let Ok(meta) = std::fs::metadata(self.dir.join(crate::vsm::INDEX_NAME)) else { return false };
        if self.seen == Some(seen(&meta)) {
            return true;
        }
        let text = index_text(&self.dir);
        let same = index_head(&text) == Some(self.head) && index(&text).is_some_and(|lines| lines.contains(&self.line));
        self.seen = same.then(|| seen(&meta));
        same
    }
}

#[cfg(test)]
mod tests;
