// SPDX-License-Identifier: BSD-2-Clause
//! A record of the log as bytes. [`RecordParts`] decodes its head, of whichever release it is.

use shm::vsl::{LogFormat, Marker, RecordParts};
use tables::Tag;

#[derive(Clone, Copy, Debug)]
pub struct Rec<'a> {
    pub tag: Tag,
    pub vxid: u64,
    pub marker: Marker,
    pub format: LogFormat,
    /// The data; of text, with the final NUL.
    pub raw: &'a [u8],
    pub bytes: &'a [u8],
}

impl<'a> Rec<'a> {
    /// The data up to the first NUL.
    pub fn text(&self) -> &'a [u8] {
        match memchr::memchr(0, self.raw) {
            Some(end) => &self.raw[..end],
            None => self.raw,
        }
    }

    pub fn side(&self) -> char {
        match self.marker {
            Marker::Client => 'c',
            Marker::Backend => 'b',
            Marker::None => '-',
        }
    }
}

/// The records in `bytes`; heads of batches and tags this version doesn't know are passed over, a cut record ends it.
pub fn records(bytes: &[u8]) -> TransactionRecords<'_> {
    TransactionRecords(bytes)
}

#[derive(Clone, Debug)]
pub struct TransactionRecords<'a>(&'a [u8]);

impl<'a> Iterator for TransactionRecords<'a> {
    type Item = Rec<'a>;

    fn next(&mut self) -> Option<Rec<'a>> {
        loop {
            let (rec, rest) = split(self.0)?;
            self.0 = rest;
            if rec.is_some() {
                return rec;
            }
        }
    }
}

/// The first record (None if it has no meaning for us) and what follows it; None when no whole one is there.
pub fn split(bytes: &[u8]) -> Option<(Option<Rec<'_>>, &[u8])> {
    let (parts, rest) = RecordParts::split(bytes)?;
    let RecordParts { vxid, marker, format, data, bytes, .. } = parts;
    let rec = parts.tag().map(|tag| Rec { tag, vxid, marker, format, raw: data, bytes });
    Some((rec, rest))
}

/// A word of a record, from 0; empty: there is none.
pub fn word(text: &[u8], n: usize) -> &[u8] {
    text.split(|b| *b == b' ').filter(|word| !word.is_empty()).nth(n).unwrap_or(b"")
}

pub fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (first, rest) = line.split_at_checked(name.len())?;
    if !first.eq_ignore_ascii_case(name) {
        return None;
    }
    rest.strip_prefix(b":").map(<[u8]>::trim_ascii)
}

pub fn make(tag: Tag, vxid: u64, marker: Marker, text: &[u8]) -> Vec<u8> {
    make_as(LogFormat::Seven, tag, vxid, marker, text)
}

/// A record of text in this format; nothing if the format has no such tag or not so large an id.
pub fn make_as(format: LogFormat, tag: Tag, vxid: u64, marker: Marker, text: &[u8]) -> Vec<u8> {
    let text = &text[..text.len().min(0xfff0)];
    let mut out = Vec::with_capacity(16 + text.len());
    put(format, tag, vxid, marker, &[text, b"\0"], &mut out);
    out
}

/// Writes a record as a file of this format has it, without a stamp. False: the format has no such tag or not so large an id.
pub fn write_as(rec: &Rec<'_>, format: LogFormat, out: &mut Vec<u8>) -> bool {
    let from = out.len();
    if rec.format.is_wide() == format.is_wide() {
        out.extend_from_slice(rec.bytes);
    } else if !put(format, rec.tag, rec.vxid, rec.marker, &[rec.raw], out) {
        return false;
    }
    let word: &mut [u8] = &mut out[from..from + 4];
    let first = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
    word.copy_from_slice(&format.unstamped(first).to_ne_bytes());
    true
}

fn put(format: LogFormat, tag: Tag, vxid: u64, marker: Marker, data: &[&[u8]], out: &mut Vec<u8>) -> bool {
    let length = data.iter().map(|piece| piece.len()).sum();
    let Some((words, count)) = format.head(tag, vxid, marker, length) else { return false };
    words[..count].iter().for_each(|word| out.extend_from_slice(&word.to_ne_bytes()));
    data.iter().for_each(|piece| out.extend_from_slice(piece));
    let padding = length.next_multiple_of(4) - length;
    out.resize(out.len() + padding, 0);
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_made_is_read() {
        let mut bytes = make(Tag::ReqUrl, 5, Marker::Client, b"/a");
        bytes.extend(make(Tag::End, 6, Marker::Backend, b""));
        let all: Vec<_> = records(&bytes).map(|r| (r.tag, r.vxid, r.side(), r.text().to_vec(), r.raw.len())).collect();
        assert_eq!(all, [(Tag::ReqUrl, 5, 'c', b"/a".to_vec(), 3), (Tag::End, 6, 'b', vec![], 1)]);
    }

    proptest! {
        #[test]
        fn no_bytes_can_hurt(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let total: usize = records(&bytes).map(|r| r.bytes.len()).sum();
            prop_assert!(total <= bytes.len());
        }
    }
}
