// SPDX-License-Identifier: BSD-2-Clause
//! A record of the log as bytes: two words of head and the data (contract of the ring: `shm::vsl::layout`).

use shm::vsl::Marker;
use tables::Tag;

#[derive(Clone, Copy, Debug)]
pub struct Rec<'a> {
    pub tag: Tag,
    pub vxid: u32,
    pub marker: Marker,
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

const CLIENT: u32 = 1 << 30;
const BACKEND: u32 = 1 << 31;
/// The words before the data.
pub const HEAD: usize = 8;

fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Bytes of the record that begins with `first`, head and padding included. A batch's head is 8 bytes long.
pub fn length(first: u32) -> usize {
    HEAD + ((first & 0xffff) as usize).next_multiple_of(4)
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
    let (first, id) = (word_at(bytes, 0)?, word_at(bytes, 4)?);
    let (whole, rest) = bytes.split_at_checked(length(first))?;
    let marker = match (id & CLIENT != 0, id & BACKEND != 0) {
        (true, _) => Marker::Client,
        (_, true) => Marker::Backend,
        _ => Marker::None,
    };
    let data = &whole[HEAD..HEAD + (first & 0xffff) as usize];
    let rec = Tag::from_number((first >> 24) as u8).map(|tag| Rec {
        tag,
        vxid: id & !(CLIENT | BACKEND),
        marker,
        raw: data,
        bytes: whole,
    });
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

pub fn make(tag: Tag, vxid: u32, marker: Marker, text: &[u8]) -> Vec<u8> {
    let text = &text[..text.len().min(0xfff0)];
    let mut out = Vec::with_capacity(HEAD + text.len() + 4);
    let id = vxid
        | match marker {
            Marker::Client => CLIENT,
            Marker::Backend => BACKEND,
            Marker::None => 0,
        };
    out.extend(((tag.number() as u32) << 24 | (text.len() as u32 + 1)).to_ne_bytes());
    out.extend(id.to_ne_bytes());
    out.extend(text);
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out
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
