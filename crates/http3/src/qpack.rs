// SPDX-License-Identifier: BSD-2-Clause
//! Field sections (RFC 9204) without a dynamic table: we announce one without room, and fill none of the peer's. So nothing waits for
//! another stream, and nobody's table is held. Values are written as they are, without Huffman's code: it costs more than it saves.

use http2::{huffman, int};

use crate::error::{Http3Error, Http3ErrorCode};
use crate::stream::SECTION_TOO_LONG;
use table::TABLE;

mod table;

/// The charge for each field beside its bytes (RFC 9114 4.2.2).
const FIELD_OVERHEAD: usize = 32;

const FAILED: Http3Error = Http3Error::connection(Http3ErrorCode::Decompression, "Field section can't be unpacked");
const NO_TABLE: Http3Error = Http3Error::connection(Http3ErrorCode::Decompression, "Reference to a table without room");

/// The room in which a string in Huffman's code is unpacked; kept for the next section.
#[derive(Debug, Default)]
pub struct QpackScratch {
    name: Vec<u8>,
    value: Vec<u8>,
}

/// Unpacks a section: calls `field` with name and value of each, which are at most `max_bytes` with all overheads.
///
/// # Errors
/// It is malformed, too long, or `field` says so.
pub fn decode(
    section: &[u8],
    max_bytes: usize,
    scratch: &mut QpackScratch,
    mut field: impl FnMut(&[u8], &[u8]) -> Result<(), Http3Error>,
) -> Result<(), Http3Error> {
    let mut input = Input(section);
    if input.int(8)? != 0 {
        return Err(NO_TABLE);
    }
    // The base, which nothing refers to; it would lie before the table's begin if it were less than what is needed of that, which
    // is nothing (RFC 9204 4.5.1.2).
    const IS_BELOW: u8 = 0x80;
    if input.0.first().is_some_and(|first| first & IS_BELOW != 0) {
        return Err(FAILED);
    }
    input.int(7)?;
    let mut left = max_bytes;
    while let Some(&first) = input.0.first() {
        scratch.name.clear();
        scratch.value.clear();
        let (name, value): (&[u8], &[u8]) = match first {
            // 1Txxxxxx: an entry.
            0b1100_0000.. => {
                let (name, value) = entry(input.int(6)?)?;
                (name.as_bytes(), value.as_bytes())
            }
            0b1000_0000.. => return Err(NO_TABLE),
            // 01NTxxxx: an entry's name.
            0b0100_0000.. if first & 0b0001_0000 == 0 => return Err(NO_TABLE),
            0b0100_0000.. => {
                let (name, _) = entry(input.int(4)?)?;
                (name.as_bytes(), input.string(7, &mut scratch.value)?)
            }
            // 001NHxxx: a name.
            0b0010_0000.. => {
                let name = input.string(3, &mut scratch.name)?;
                (name, input.string(7, &mut scratch.value)?)
            }
            // An entry behind the base, or its name.
            _ => return Err(NO_TABLE),
        };
        let bytes = name.len() + value.len() + FIELD_OVERHEAD;
        left = left.checked_sub(bytes).ok_or(SECTION_TOO_LONG)?;
        field(name, value)?;
    }
    Ok(())
}

fn entry(index: u64) -> Result<(&'static str, &'static str), Http3Error> {
    usize::try_from(index).ok().and_then(|index| TABLE.get(index)).copied().ok_or(FAILED)
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// An integer behind a prefix of so many bits.
    fn int(&mut self, bits: u32) -> Result<u64, Http3Error> {
        let (value, len) = int::read(self.0, bits).map_err(|_| FAILED)?;
        self.0 = &self.0[len..];
        Ok(value)
    }

    /// A string whose length has so many bits, in front of which a bit tells whether it is in Huffman's code.
    fn string<'s>(&mut self, bits: u32, unpacked: &'s mut Vec<u8>) -> Result<&'s [u8], Http3Error>
    where
        'a: 's,
    {
        let is_packed = self.0.first().is_some_and(|first| first >> bits & 1 == 1);
        let len = self.int(bits)?;
        let len = usize::try_from(len).ok().filter(|len| *len <= self.0.len()).ok_or(FAILED)?;
        let (text, rest) = self.0.split_at(len);
        self.0 = rest;
        if !is_packed {
            return Ok(text);
        }
        // Bounded by the section: a byte is unpacked to 8/5 at most.
        huffman::decode(text, unpacked).map_err(|_| FAILED)?;
        Ok(unpacked)
    }
}

#[derive(Debug)]
pub struct QpackEncoder<'o>(&'o mut Vec<u8>);

impl<'o> QpackEncoder<'o> {
    /// Begins it at the end of `out`.
    pub fn begin(out: &'o mut Vec<u8>) -> Self {
        // No entry is needed of a table, and so the base is nowhere.
        out.extend_from_slice(&[0, 0]);
        QpackEncoder(out)
    }

    /// Adds a field, its name in lower case.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        let mut lower = [0; table::MAX_NAME];
        let lower = match lower.get_mut(..name.len()) {
            Some(lower) => {
                lower.copy_from_slice(name);
                lower.make_ascii_lowercase();
                lower
            }
            None => &mut [],
        };
        match table::find(lower, value) {
            table::Found::Whole(index) => int::write(self.0, 0b1100_0000, 6, index as u64),
            table::Found::Name(index) => {
                int::write(self.0, 0b0101_0000, 4, index as u64);
                self.plain(value);
            }
            table::Found::Nothing => {
                int::write(self.0, 0b0010_0000, 3, name.len() as u64);
                let at = self.0.len();
                self.0.extend_from_slice(name);
                self.0[at..].make_ascii_lowercase();
                self.plain(value);
            }
        }
    }

    fn plain(&mut self, value: &[u8]) {
        int::write(self.0, 0, 7, value.len() as u64);
        self.0.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests;
