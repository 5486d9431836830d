// SPDX-License-Identifier: BSD-2-Clause
//! Writing field sections: the static table and literals, of which nobody needs to remember anything.

use super::statics::{name_index, static_field};
use crate::int;

/// A field that the table has as it is (RFC 7541 6.1).
const INDEXED: u8 = 0x80;
/// Literal without indexing (RFC 7541 6.2.2).
const LITERAL: u8 = 0x00;
/// Literal that nobody may index (6.2.3): what is worth guessing (7.1.3).
const NEVER_INDEXED: u8 = 0x10;
/// The entry of `:status` 200, the first of its name.
const STATUS: u8 = 8;
/// Bytes that a length takes.
const MOST_INTEGER: usize = 6;
const NAME_BITS: u32 = 4;

/// State that the next section has to announce to the peer.
#[derive(Clone, Copy, Debug, Default)]
pub struct HpackEncoder {
    /// The peer has made its table smaller than what we might have used: we say that we use none.
    owes_update: bool,
    is_empty: bool,
}

/// The table that an encoder has to begin with.
const INITIAL_TABLE: u32 = 4096;

impl HpackEncoder {
    /// Sets the peer's SETTINGS_HEADER_TABLE_SIZE.
    pub fn table_size(&mut self, size: u32) {
        self.owes_update |= size < INITIAL_TABLE && !self.is_empty;
    }

    /// Begins a field section.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if self.owes_update {
            out.push(0x20);
            *self = HpackEncoder { owes_update: false, is_empty: true };
        }
    }
}

/// A field; the name in any case.
#[inline]
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.reserve(name.len() + value.len() + 2 * MOST_INTEGER);
    let index = name_index(name);
    if let Some(whole) = whole_field(index, value) {
        out.push(INDEXED | whole);
        return;
    }
    let pattern = if is_secret(index, value) { NEVER_INDEXED } else { LITERAL };
    int::write(out, pattern, NAME_BITS, u64::from(index));
    if index == 0 {
        int::write(out, 0, 7, name.len() as u64);
        lower(out, name);
    }
    text(out, value);
}

/// Appends the field `:status` of a response.
#[inline]
pub fn status(out: &mut Vec<u8>, text: [u8; 3]) {
    if &text == b"200" { out.push(INDEXED | STATUS) } else { field(out, b":status", &text) }
}

/// The static entry of a field whose name's first one is `index`, where the value is the same, too: methods, schemes, usual statuses.
#[inline]
fn whole_field(index: u8, value: &[u8]) -> Option<u8> {
    const METHOD: u8 = 2;
    const LAST: u8 = 14;
    if !(METHOD..=STATUS).contains(&index) {
        return None;
    }
    let of_name = (index..=LAST).map_while(|i| static_field(u64::from(i)).map(|(_, known)| (i, known)));
    of_name
        .take(usize::from(LAST - STATUS) + 1)
        .find(|(i, known)| *known == value && same_name(*i, index))
        .map(|(i, _)| i)
}

fn same_name(a: u8, b: u8) -> bool {
    let name = |i: u8| static_field(u64::from(i)).map(|(name, _)| name);
    name(a) == name(b)
}

/// Credentials, and cookies that are short enough to be guessed.
fn is_secret(index: u8, value: &[u8]) -> bool {
    const AUTHORIZATION: u8 = 23;
    const COOKIE: u8 = 32;
    const PROXY_AUTHORIZATION: u8 = 49;
    const SET_COOKIE: u8 = 55;
    match index {
        AUTHORIZATION | PROXY_AUTHORIZATION => true,
        COOKIE | SET_COOKIE => value.len() < 20,
        _ => false,
    }
}

/// A string as it is. Huffman's code would save a quarter of the bytes, for more time than all the rest takes.
#[inline]
fn text(out: &mut Vec<u8>, text: &[u8]) {
    int::write(out, 0, 7, text.len() as u64);
    out.extend_from_slice(text);
}

#[inline]
pub(crate) fn lower(out: &mut Vec<u8>, name: &[u8]) {
    let at = out.len();
    out.extend_from_slice(name);
    out[at..].make_ascii_lowercase();
}

#[cfg(test)]
mod tests {
    use super::super::HpackDecoder;
    use super::*;

    #[test]
    fn a_decoder_reads_what_was_written() {
        let long = "v".repeat(300);
        let fields = [
            (":status", "404"),
            (":status", "201"),
            (":method", "POST"),
            (":method", "200"),
            (":path", "/x"),
            ("age", "3"),
            ("X-Custom", "a b"),
            ("Set-Cookie", "a=b"),
            ("authorization", "x"),
            ("via", &long),
        ];
        let mut out = Vec::new();
        fields.iter().for_each(|(name, value)| field(&mut out, name.as_bytes(), value.as_bytes()));
        let mut got = Vec::new();
        let mut decoder = HpackDecoder::new(4096);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder
            .decode(&out, 1 << 20, &mut Vec::new(), &mut |name, value, _| got.push((text(name), text(value))))
            .unwrap();
        let want = fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_string()));
        assert_eq!(got, want.collect::<Vec<_>>());
        assert_eq!(&out[..8], [0x80 | 13, 0x08, 3, b'2', b'0', b'1', 0x83, 0x02]);
        assert_eq!(decoder.memory(), 0);
    }

    #[test]
    fn a_smaller_table_is_answered_once() {
        let mut encoder = HpackEncoder::default();
        let begin = |encoder: &mut HpackEncoder| {
            let mut out = Vec::new();
            encoder.begin(&mut out);
            out
        };
        encoder.table_size(8000);
        assert_eq!(begin(&mut encoder), []);
        encoder.table_size(100);
        assert_eq!(begin(&mut encoder), [0x20]);
        encoder.table_size(0);
        assert_eq!(begin(&mut encoder), []);
    }
}
