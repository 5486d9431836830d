// SPDX-License-Identifier: BSD-2-Clause
//! Layout of the log in shared memory, and how a format's records are written.
//!
//! A record is a head of two or three words and the data, padded to a word. Text ends in a NUL, which its length counts.

use base::Vxid;
use tables::Tag;
use tables::tags::{TagKind, TagMask};

use super::format::{LogFormat, RecordParts};

/// The ring is divided into so many segments, by which readers notice that they are overrun.
pub const SEGMENTS: usize = 8;
/// Byte offsets in the head of the ring.
pub const MAGIC_AT: usize = 0;
/// Words in a segment.
pub const SEGSIZE_AT: usize = 8;
/// Number of the segment being written.
pub const SEGMENT_N_AT: usize = 16;
/// First record of each segment.
pub const OFFSETS_AT: usize = 24;
/// Byte offset of the records.
pub const LOG_AT: usize = OFFSETS_AT + 8 * SEGMENTS;
/// The segment number starts a little below its end, so that its wrap is met early rather than after months.
pub const FIRST_SEGMENT_N: u32 = u32::MAX - SEGMENTS as u32 + 1;

/// Words before a record's data, at most.
pub const HEAD_WORDS: usize = 3;
/// Marks that there is no newer record.
pub const END: u32 = 0xfe45_4545;
/// Go on at the beginning of the ring.
pub const WRAP: u32 = 0xfe57_5757;
/// Head of a batch: the second word is the length in bytes of the records that follow, and a third one is 0.
pub const BATCH: u32 = 0xff00_0000;
/// The most data a record can hold.
pub const MAX_DATA: usize = 0xffff;

/// Side of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marker {
    /// The client's side: sessions and requests.
    Client,
    /// The backend's side: fetches.
    Backend,
    /// The record belongs to no transaction.
    None,
}

/// Words of data that `bytes` take.
pub const fn data_words(bytes: usize) -> usize {
    // Shorter than `div_ceil`, which heeds numbers that no length is.
    (bytes + 3) >> 2
}

/// The writer's view of a format. Chosen once for a log: no record asks for the format.
#[derive(Debug)]
pub struct RecordLayout {
    pub(super) format: LogFormat,
    /// Words before a record's data.
    pub(super) head_words: usize,
    /// Tags that the format has no number for: nobody writes them.
    pub(super) missing: TagMask,
    empty: [u32; Tag::ALL.len() + 1],
}

static LAYOUTS: [RecordLayout; 3] =
    [RecordLayout::new(LogFormat::Seven), RecordLayout::new(LogFormat::Eight), RecordLayout::new(LogFormat::Nine)];

impl RecordLayout {
    /// The layout of this format.
    pub fn of(format: LogFormat) -> &'static RecordLayout {
        &LAYOUTS[format as usize]
    }

    const fn new(format: LogFormat) -> RecordLayout {
        let (mut empty, mut missing) = ([0; Tag::ALL.len() + 1], TagMask::NOTHING);
        let mut i = 0;
        while i < Tag::ALL.len() {
            let tag = Tag::ALL[i];
            match format.numbers().number(tag) {
                Some(number) => empty[tag as usize] = format.unstamped((number as u32) << 24) | is_text(tag) as u32,
                None => missing.set(tag, true),
            }
            i += 1;
        }
        RecordLayout { format, head_words: format.head_bytes() / 4, missing, empty }
    }

    /// The first word of a record without data. Its length, and so its lowest bit, is 1 for text: that is the NUL.
    #[inline]
    pub(super) const fn empty(&self, tag: Tag) -> u32 {
        self.empty[tag as usize]
    }

    /// The second and the third word of a record. The third is 0 if a head has two.
    pub(super) fn id_words(&self, vxid: Vxid, marker: Marker) -> [u32; 2] {
        self.format.id_words(vxid.log_id(), marker)
    }

    /// Writes a record to where it just fits: text gets its NUL, what remains of the last word is 0.
    pub(super) fn fill(&self, words: &mut [u32], tag: Tag, vxid: Vxid, marker: Marker, data: &[u8]) {
        let (head, rest) = words.split_at_mut(self.head_words);
        head[0] = self.empty(tag) + data.len() as u32;
        head[1..].iter_mut().zip(self.id_words(vxid, marker)).for_each(|(word, id)| *word = id);
        for (n, word) in rest.iter_mut().enumerate() {
            let chunk = &data[(n * 4).min(data.len())..(n * 4 + 4).min(data.len())];
            let mut bytes = [0; 4];
            bytes[..chunk.len()].copy_from_slice(chunk);
            *word = u32::from_ne_bytes(bytes);
        }
    }
}

/// Bytes of the NUL behind the data, by the first word of a record without data.
#[inline]
pub(super) const fn nul_bytes(empty: u32) -> usize {
    (empty & 1) as usize
}

/// True if data of this tag ends in a NUL.
#[inline]
pub const fn is_text(tag: Tag) -> bool {
    !BINARY.has(tag)
}

const BINARY: TagMask = {
    let (mut set, mut i) = (TagMask([0; 2]), 0);
    while i < Tag::ALL.len() {
        set.set(Tag::ALL[i], matches!(Tag::ALL[i].kind(), TagKind::Binary));
        i += 1;
    }
    set
};

/// A record, read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Tag of the record.
    pub tag: Tag,
    /// The ID as the log shows it.
    pub vxid: u64,
    /// Side of the transaction.
    pub marker: Marker,
    /// Data, without the final NUL of text.
    pub data: Vec<u8>,
}

/// Reads complete records (no batch heads, no markers) until the end or the first that is none.
pub(super) fn records(format: LogFormat, bytes: &[u8]) -> Vec<Record> {
    let (mut out, mut rest) = (Vec::new(), bytes);
    while let Some((parts, after)) = RecordParts::split_as(format, rest) {
        let Some(tag) = parts.tag() else { break };
        let text = parts.data.strip_suffix(b"\0").filter(|_| is_text(tag));
        out.push(Record { tag, vxid: parts.vxid, marker: parts.marker, data: text.unwrap_or(parts.data).to_vec() });
        rest = after;
    }
    out
}
