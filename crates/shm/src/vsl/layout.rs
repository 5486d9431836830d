// SPDX-License-Identifier: BSD-2-Clause
//! Layout of the log as varnish-7.1 and our writer have it. What readers need to know of later layouts is in
//! [`format`](super::format).
//!
//! A record is two words of head and the data, padded to a word. Text ends in a NUL, which its length counts.

use base::Vxid;
use tables::Tag;
use tables::tags::{TagKind, TagMask};

/// Marks the beginning of the ring.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"VSLHEAD1");
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

/// Words before a record's data.
pub const HEAD_WORDS: usize = 2;
/// Marks that there is no newer record.
pub const END: u32 = 0xfe45_4545;
/// Go on at the beginning of the ring.
pub const WRAP: u32 = 0xfe57_5757;
/// Head of a batch: the second word is the length in bytes of the records that follow.
pub const BATCH: u32 = 0xff00_0000;
/// The most data a record can hold.
pub const MAX_DATA: usize = 0xffff;

const CLIENT_BIT: u32 = 1 << 30;
const BACKEND_BIT: u32 = 1 << 31;

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

/// The first word of a record.
pub const fn head(tag: Tag, bytes: usize) -> u32 {
    (tag as u32) << 24 | bytes as u32
}

/// Writes a record to where it just fits: text gets its NUL, what remains of the last word is 0.
pub fn fill(words: &mut [u32], tag: Tag, vxid: Vxid, marker: Marker, data: &[u8]) {
    words[0] = head(tag, data.len() + usize::from(is_text(tag)));
    words[1] = id_word(vxid, marker);
    for (n, word) in words[HEAD_WORDS..].iter_mut().enumerate() {
        let chunk = &data[(n * 4).min(data.len())..(n * 4 + 4).min(data.len())];
        let mut bytes = [0; 4];
        bytes[..chunk.len()].copy_from_slice(chunk);
        *word = u32::from_ne_bytes(bytes);
    }
}

/// The second word of a record.
pub fn id_word(vxid: Vxid, marker: Marker) -> u32 {
    vxid.log_id()
        | match marker {
            Marker::Client => CLIENT_BIT,
            Marker::Backend => BACKEND_BIT,
            Marker::None => 0,
        }
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
    /// The id as the log shows it.
    pub vxid: u32,
    /// Side of the transaction.
    pub marker: Marker,
    /// Data, without the final NUL of text.
    pub data: Vec<u8>,
}

/// Reads complete records (no batch heads, no markers) until the end or the first word that is none.
pub fn records(words: &[u32]) -> Vec<Record> {
    let mut out = Vec::new();
    let mut rest = words;
    while let [first, id, tail @ ..] = rest {
        let bytes = (first & 0xffff) as usize;
        let (Some(tag), true) = (Tag::from_number((first >> 24) as u8), tail.len() >= data_words(bytes)) else { break };
        let (data, next) = tail.split_at(data_words(bytes));
        let mut data: Vec<u8> = data.iter().flat_map(|w| w.to_ne_bytes()).take(bytes).collect();
        if is_text(tag) && data.last() == Some(&0) {
            data.pop();
        }
        let marker = match (id & CLIENT_BIT != 0, id & BACKEND_BIT != 0) {
            (true, _) => Marker::Client,
            (_, true) => Marker::Backend,
            _ => Marker::None,
        };
        out.push(Record { tag, vxid: id & !(CLIENT_BIT | BACKEND_BIT), marker, data });
        rest = next;
    }
    out
}
