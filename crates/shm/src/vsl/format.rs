// SPDX-License-Identifier: BSD-2-Clause
//! Formats of the log by release, and the one decoder of a record's head.
//!
//! A log names its layout in its first bytes: `VSLHEAD1` in shared memory and `VSL` with a NUL in a file stand for heads of two words
//! (6.0 to 7.2, and our own), `VSLHEAD2` and `VSL2` for heads of three, with ids of 51 bits (7.3 and later). Nothing there tells the tag
//! numbers of 7.3 to 8.0 from those of 9: [`FormatStamp`] does, by the records themselves. It writes what it found into bits of
//! each record's first word that no release uses, so that records keep their format wherever they are copied.

use tables::tag_numbers::TagNumbers;
use tables::{Compat, Tag};

use super::layout::{Marker, data_words};

/// Layout of the records and numbers of the tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// Varnish 6.0 to 7.2, and our own log.
    Seven,
    /// Varnish 7.3 to 8.0.
    Eight,
    /// Varnish 9, and its layout as long as nothing else is known.
    Nine,
}

/// Heads of files: with records of two words, and of three.
pub const FILE_HEADS: [&[u8; 4]; 2] = [b"VSL\0", b"VSL2"];
/// Length of a file's head.
pub const FILE_HEAD_BYTES: usize = FILE_HEADS[0].len();
const RING_HEADS: [u64; 2] = [u64::from_ne_bytes(*b"VSLHEAD1"), u64::from_ne_bytes(*b"VSLHEAD2")];

const BATCH: u8 = 255;
const LENGTH: u32 = 0xffff;
/// Version of a record and the bits behind it. 7.1 leaves all of them 0, 7.3 and later write [`VERSION`] and leave the rest 0.
const SPARE: u32 = 0x00ff_0000;
/// Version that 7.3 and later write into each record, though not into heads of batches.
const VERSION: u32 = 1 << 16;
const STAMP_SHIFT: u32 = 18;
const STAMP: u32 = 3 << STAMP_SHIFT;
const IDS: u64 = (1 << 51) - 1;

impl LogFormat {
    /// The format that a server writes.
    pub const fn of_server(compat: Compat) -> LogFormat {
        match compat {
            Compat::V7_1 => LogFormat::Seven,
            Compat::V9 => LogFormat::Nine,
        }
    }

    /// The format of a file that begins so. One of 7.3 or later counts as 9's until its records say otherwise.
    pub fn of_file(head: &[u8]) -> Option<LogFormat> {
        let at = FILE_HEADS.iter().position(|known| known.as_slice() == head)?;
        Some(LogFormat::of_layout(at > 0))
    }

    /// The format of a ring that begins so.
    pub fn of_ring(head: u64) -> Option<LogFormat> {
        let at = RING_HEADS.iter().position(|known| *known == head)?;
        Some(LogFormat::of_layout(at > 0))
    }

    /// The first bytes of a ring in this format.
    pub const fn ring_head(self) -> u64 {
        RING_HEADS[self.is_wide() as usize]
    }

    const fn of_layout(is_wide: bool) -> LogFormat {
        if is_wide { LogFormat::Nine } else { LogFormat::Seven }
    }

    /// The first bytes of a file in this format.
    pub const fn file_head(self) -> &'static [u8; 4] {
        FILE_HEADS[self.is_wide() as usize]
    }

    /// True if a record's head has three words and ids have more than 30 bits.
    #[inline]
    pub const fn is_wide(self) -> bool {
        !matches!(self, LogFormat::Seven)
    }

    /// Bytes before a record's data.
    #[inline]
    pub const fn head_bytes(self) -> usize {
        if self.is_wide() { 12 } else { 8 }
    }

    /// Bytes of the record that begins with `first`, its padding included.
    #[inline]
    pub const fn record_bytes(self, first: u32) -> usize {
        self.head_bytes() + 4 * data_words((first & LENGTH) as usize)
    }

    /// IDs in the log are smaller. From release 7.3 on they are integers of VCL, which have at most 15 digits.
    pub const fn vxid_limit(self) -> u64 {
        if self.is_wide() { 999_999_999_999_999 } else { 1 << 30 }
    }

    /// Numbers of the tags.
    pub const fn numbers(self) -> TagNumbers {
        match self {
            LogFormat::Seven => TagNumbers::Seven,
            LogFormat::Eight => TagNumbers::Eight,
            LogFormat::Nine => TagNumbers::Nine,
        }
    }

    /// The format that a [`FormatStamp`] wrote into a record's first word.
    #[inline]
    pub const fn stamped(first: u32) -> LogFormat {
        match (first & STAMP) >> STAMP_SHIFT {
            0 => LogFormat::Seven,
            1 => LogFormat::Eight,
            _ => LogFormat::Nine,
        }
    }

    const fn stamp(self) -> u32 {
        let stamp = match self {
            LogFormat::Seven => 0,
            LogFormat::Eight => 1,
            LogFormat::Nine => 2,
        };
        stamp << STAMP_SHIFT
    }

    /// The first word of a record as its server wrote it.
    pub const fn unstamped(self, first: u32) -> u32 {
        first & !SPARE | if self.is_wide() { VERSION } else { 0 }
    }

    /// The stamped head of a record with `bytes` of data, as many words of it as the format has. `None` if the format has no such tag or
    /// not so large an id.
    pub fn head(self, tag: Tag, vxid: u64, marker: Marker, bytes: usize) -> Option<([u32; 3], usize)> {
        let number = self.numbers().number(tag)?;
        let first = u32::from(number) << 24 | self.stamp() | u32::try_from(bytes).ok().filter(|n| *n <= LENGTH)?;
        if vxid & !self.ids() != 0 {
            return None;
        }
        let [low, high] = self.id_words(vxid, marker);
        let version = if self.is_wide() { VERSION } else { 0 };
        Some(([first | version, low, high], self.head_bytes() / 4))
    }

    /// The bits of an ID.
    const fn ids(self) -> u64 {
        if self.is_wide() { IDS } else { IDS >> 21 }
    }

    /// The words of a head that hold ID and side. The second is 0 if a head has one of them only.
    pub(super) const fn id_words(self, vxid: u64, marker: Marker) -> [u32; 2] {
        let (vxid, side) = (vxid & self.ids(), side_bits(marker));
        let (low, high) = (vxid as u32, (vxid >> 32) as u32);
        if self.is_wide() { [low, high | side] } else { [low | side, 0] }
    }
}

const CLIENT: u32 = 1 << 30;
const BACKEND: u32 = 1 << 31;

const fn side_bits(marker: Marker) -> u32 {
    match marker {
        Marker::Client => CLIENT,
        Marker::Backend => BACKEND,
        Marker::None => 0,
    }
}

/// A record's head, and its data.
#[derive(Clone, Copy, Debug)]
pub struct RecordParts<'a> {
    /// Number of the tag as its server wrote it.
    pub number: u8,
    /// Format of the record.
    pub format: LogFormat,
    /// ID of the transaction, or 0.
    pub vxid: u64,
    /// Side of the transaction.
    pub marker: Marker,
    /// Data, of text with the final NUL.
    pub data: &'a [u8],
    /// Head, data and padding.
    pub bytes: &'a [u8],
}

impl<'a> RecordParts<'a> {
    /// The tag, if the release that wrote the record has it in its list.
    #[inline]
    pub const fn tag(&self) -> Option<Tag> {
        self.format.numbers().tag(self.number)
    }

    /// Reads the first of stamped records, and returns the rest. `None` if no whole one is there.
    #[inline]
    pub fn split(bytes: &'a [u8]) -> Option<(RecordParts<'a>, &'a [u8])> {
        let [a, b, c, d, ..] = bytes else { return None };
        let first = u32::from_ne_bytes([*a, *b, *c, *d]);
        RecordParts::split_head(LogFormat::stamped(first), first, bytes)
    }

    /// Reads the first of records as they stand in a log of this format.
    pub(super) fn split_as(format: LogFormat, bytes: &'a [u8]) -> Option<(RecordParts<'a>, &'a [u8])> {
        RecordParts::split_head(format, word_at(bytes, 0)?, bytes)
    }

    #[inline]
    fn split_head(format: LogFormat, first: u32, bytes: &'a [u8]) -> Option<(RecordParts<'a>, &'a [u8])> {
        let [_, _, _, _, a, b, c, d, ..] = bytes else { return None };
        let low = u32::from_ne_bytes([*a, *b, *c, *d]);
        let (vxid, side) = if format.is_wide() {
            let high = word_at(bytes, 8)?;
            ((u64::from(high) << 32 | u64::from(low)) & IDS, high)
        } else {
            (u64::from(low & !(CLIENT | BACKEND)), low)
        };
        let (whole, rest) = bytes.split_at_checked(format.record_bytes(first))?;
        let data = whole.get(format.head_bytes()..format.head_bytes() + (first & LENGTH) as usize)?;
        let marker = match (side & CLIENT != 0, side & BACKEND != 0) {
            (true, _) => Marker::Client,
            (_, true) => Marker::Backend,
            _ => Marker::None,
        };
        Some((RecordParts { number: (first >> 24) as u8, format, vxid, marker, data, bytes: whole }, rest))
    }
}

#[inline]
fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Something about a log that its reader should say, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogNote {
    /// Records with this number are left out: no tag that we know has it.
    UnknownTag(u8),
    /// The log goes on in another format.
    Mixed,
}

impl std::fmt::Display for LogNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LogNote::UnknownTag(number) => {
                write!(
                    f,
                    "The log has records of tag number {number}, which this version doesn't know: they are left out"
                )
            }
            LogNote::Mixed => {
                f.write_str("The log holds records of several releases, each of which is read by its own format")
            }
        }
    }
}

/// Stamps the records of one source with their format.
#[derive(Debug)]
pub struct FormatStamp {
    format: LogFormat,
    /// Release whose tag numbers the last record that told of one had.
    told: Option<LogFormat>,
    unknown: [u64; 4],
    is_mixed: bool,
    notes: Vec<LogNote>,
}

impl FormatStamp {
    /// The stamp of a source whose head names this format.
    pub fn new(format: LogFormat) -> FormatStamp {
        FormatStamp { format, told: None, unknown: [0; 4], is_mixed: false, notes: Vec::new() }
    }

    /// The format as far as it is known.
    pub const fn format(&self) -> LogFormat {
        self.format
    }

    /// True until a record has told of its release.
    pub const fn is_new(&self) -> bool {
        self.told.is_none()
    }

    /// True if there is something to be said since the last time.
    #[inline]
    pub const fn has_notes(&self) -> bool {
        !self.notes.is_empty()
    }

    /// Takes what is to be said since the last time.
    pub fn notes(&mut self) -> std::vec::Drain<'_, LogNote> {
        self.notes.drain(..)
    }

    /// Goes on in the format that a file names by a head within it. False: these bytes are no such head.
    pub fn is_file_head(&mut self, bytes: &[u8]) -> bool {
        // Records begin with `V` only by their length.
        let Some(format) = Some(bytes).filter(|bytes| bytes.first() == Some(&b'V')).and_then(LogFormat::of_file) else {
            return false;
        };
        if format.is_wide() != self.format.is_wide() {
            self.turn_to(self.other_layout());
        }
        true
    }

    /// Goes on in the layout of a record that stands in a file: one server may have appended to what another began.
    pub fn heed(&mut self, first: u32) {
        let is_batch = (first >> 24) as u8 == BATCH;
        let is_other = match first & SPARE {
            0 => self.format.is_wide(),
            VERSION => !self.format.is_wide(),
            _ => false,
        };
        if is_other && !is_batch {
            self.turn_to(self.other_layout());
        }
    }

    /// The format with the other layout. If that is the wide one, the numbers are those that its records told of before.
    fn other_layout(&self) -> LogFormat {
        if self.format.is_wide() { LogFormat::Seven } else { self.told.unwrap_or(LogFormat::Nine) }
    }

    /// Stamps whole records, which all have the present layout. Learns from them whose numbers they are.
    pub fn stamp(&mut self, records: &mut [u8]) {
        if self.format.is_wide() && may_tell(self.format, records) {
            told_by(self.format, records).for_each(|format| self.learn(format));
        }
        let (mut at, format) = (0, self.format);
        while let Some(first) = word_at(records, at) {
            let number = (first >> 24) as u8;
            if format.numbers().tag(number).is_none() && number != BATCH {
                self.note_unknown(number);
            }
            let stamped = format.unstamped(first) | format.stamp();
            if stamped != first {
                records[at..at + 4].copy_from_slice(&stamped.to_ne_bytes());
            }
            at += format.record_bytes(first);
        }
    }

    /// Learns whose numbers a log has from what comes next: records and batches. The last record may be cut.
    pub fn look_ahead(&mut self, bytes: &[u8]) {
        if self.format.is_wide()
            && let Some(format) = told_by(self.format, bytes).next()
        {
            self.learn(format);
        }
    }

    fn learn(&mut self, format: LogFormat) {
        if self.told.replace(format).is_some_and(|before| before != format) {
            self.turn_to(format);
        }
        self.format = format;
    }

    fn turn_to(&mut self, format: LogFormat) {
        self.format = format;
        if !std::mem::replace(&mut self.is_mixed, true) {
            self.notes.push(LogNote::Mixed);
        }
    }

    fn note_unknown(&mut self, number: u8) {
        let (word, bit) = (&mut self.unknown[usize::from(number / 64)], 1 << (number % 64));
        if *word & bit == 0 {
            *word |= bit;
            self.notes.push(LogNote::UnknownTag(number));
        }
    }
}

/// Numbers that stand for a telling tag in one of the releases.
static TELLING: [bool; 256] = {
    let (mut telling, mut number) = ([false; 256], 0u8);
    while number < 255 {
        let of = [TagNumbers::Eight.tag(number), TagNumbers::Nine.tag(number)];
        telling[number as usize] = is_telling(of[0]) || is_telling(of[1]);
        number += 1;
    }
    telling
};

const fn is_telling(tag: Option<Tag>) -> bool {
    matches!(tag, Some(Tag::Begin | Tag::Timestamp | Tag::BackendHealth))
}

/// True if one of these records has a number that may tell.
fn may_tell(layout: LogFormat, records: &[u8]) -> bool {
    let mut at = 0;
    while let Some(first) = word_at(records, at) {
        if TELLING[(first >> 24) as usize] {
            return true;
        }
        at += layout.record_bytes(first);
    }
    false
}

fn told_by(layout: LogFormat, records: &[u8]) -> impl Iterator<Item = LogFormat> {
    let mut rest = records;
    std::iter::from_fn(move || {
        loop {
            let first = word_at(rest, 0)?;
            let number = (first >> 24) as u8;
            if first & SPARE != VERSION {
                rest = rest.get(layout.head_bytes()..).filter(|_| number == BATCH)?;
                continue;
            }
            if !TELLING[usize::from(number)] {
                rest = rest.get(layout.record_bytes(first)..)?;
                continue;
            }
            let (record, after) = RecordParts::split_head(layout, first, rest)?;
            rest = after;
            if let Some(format) = format_told_by(&record) {
                return Some(format);
            }
        }
    })
}

/// The release whose number for a tag this record has, if its text can be nothing but that tag's. A client can't choose
/// the text of a record that the other release has under the same number.
fn format_told_by(record: &RecordParts<'_>) -> Option<LogFormat> {
    [LogFormat::Eight, LogFormat::Nine].into_iter().find(|format| {
        let text = record.data.split(|b| *b == 0).next().unwrap_or_default();
        let mut words = text.split(|b| *b == b' ');
        let mut next = || words.next().unwrap_or_default();
        match format.numbers().tag(record.number) {
            Some(Tag::Begin) => {
                matches!(next(), b"sess" | b"req" | b"bereq") && is_number(next()) && !next().is_empty()
            }
            Some(Tag::Timestamp) => next().ends_with(b":") && [next(), next(), next()].into_iter().all(is_number),
            Some(Tag::BackendHealth) if record.vxid == 0 => {
                next().contains(&b'.') && matches!(next(), b"Went" | b"Still") && matches!(next(), b"healthy" | b"sick")
            }
            _ => false,
        }
    })
}

fn is_number(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(|b| b.is_ascii_digit() || *b == b'.')
}

#[cfg(test)]
mod tests;
