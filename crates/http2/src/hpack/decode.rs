// SPDX-License-Identifier: BSD-2-Clause
//! Reading field sections (RFC 7541 3, 6).

use super::dynamic::{Known, Table};
use super::statics::{FIRST_DYNAMIC, static_field};
use crate::fields::{is_checked_field, is_good_value};
use crate::{huffman, int};

/// The table that a peer may use before it has taken our settings (RFC 9113 6.5.2).
const INITIAL_TABLE: u32 = 4096;

/// A section that can't be read to its end: the state of the table is lost, and the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSection {
    /// The section is invalid (COMPRESSION_ERROR).
    Broken(&'static str),
    /// The section becomes larger than anybody needs (ENHANCE_YOUR_CALM): two bytes may stand for a name of thousands.
    TooLarge,
}

/// Bytes counted for a field beside its own.
const FIELD_OVERHEAD: usize = 32;

/// State that a peer's encoder has built up.
#[derive(Debug)]
pub struct HpackDecoder {
    table: Table,
    /// The largest table that the peer may use.
    limit: u32,
    /// Table size in our settings, once the peer has taken them.
    announced: u32,
    /// Our settings have made the table smaller: the peer must say that it knows (RFC 7541 4.2).
    expects_update: bool,
    /// Bytes that the present section may still become.
    left: usize,
}

/// A field as it is given on: name, value, and whether they have only bytes that fields may have.
pub type FieldSink<'a> = dyn FnMut(&[u8], &[u8], bool) + 'a;

impl HpackDecoder {
    /// A decoder for a peer that is sent `announced` as SETTINGS_HEADER_TABLE_SIZE.
    pub fn new(announced: u32) -> HpackDecoder {
        HpackDecoder {
            table: Table::new(INITIAL_TABLE as usize),
            limit: announced.max(INITIAL_TABLE),
            announced,
            expects_update: false,
            left: 0,
        }
    }

    /// The peer has taken our settings.
    pub fn settings_taken(&mut self) {
        self.limit = self.announced;
        self.expects_update |= self.table.max() > self.limit as usize;
    }

    /// Gives all fields of a section to `sink`, up to `most` bytes of them with 32 for each. `scratch` is emptied and used.
    ///
    /// # Errors
    /// See [`BadSection`]; some fields have been given.
    pub fn decode(
        &mut self,
        section: &[u8],
        most: usize,
        scratch: &mut Vec<u8>,
        sink: &mut FieldSink<'_>,
    ) -> Result<(), BadSection> {
        self.left = most;
        let mut rest = self.size_updates(section)?;
        while let Some(&first) = rest.first() {
            rest = match first {
                0x80.. => self.indexed(rest, sink)?,
                0x40..0x80 => self.literal(rest, 6, true, scratch, sink)?,
                0x20..0x40 => return Err(BadSection::Broken("a change of the table's size behind a field")),
                // Whether it may be indexed by others doesn't matter here: nothing of it is indexed again.
                0x00..0x20 => self.literal(rest, 4, false, scratch, sink)?,
            };
        }
        Ok(())
    }

    /// Changes of the table's size, which come first.
    fn size_updates<'a>(&mut self, section: &'a [u8]) -> Result<&'a [u8], BadSection> {
        let mut rest = section;
        while let [0x20..0x40, ..] = rest {
            let (size, after) = integer(rest, 5)?;
            if size > u64::from(self.limit) {
                return Err(BadSection::Broken("a table larger than allowed"));
            }
            self.table.resize(size as usize);
            (self.expects_update, rest) = (false, after);
        }
        if self.expects_update {
            return Err(BadSection::Broken("no change of the table's size although it became smaller"));
        }
        Ok(rest)
    }

    fn indexed<'a>(&mut self, rest: &'a [u8], sink: &mut FieldSink<'_>) -> Result<&'a [u8], BadSection> {
        let (index, after) = integer(rest, 7)?;
        let known = known(&self.table, index)?;
        count(&mut self.left, known.name.len() + known.value.len())?;
        sink(known.name, known.value, known.is_checked);
        Ok(after)
    }

    fn literal<'a>(
        &mut self,
        rest: &'a [u8],
        prefix: u32,
        is_indexed: bool,
        scratch: &mut Vec<u8>,
        sink: &mut FieldSink<'_>,
    ) -> Result<&'a [u8], BadSection> {
        scratch.clear();
        let (index, after) = integer(rest, prefix)?;
        let mut is_known = false;
        let (name, after) = if index == 0 {
            Text::read(after, scratch)?
        } else {
            let known = known(&self.table, index)?;
            is_known = known.is_checked;
            scratch.extend_from_slice(known.name);
            (Text::Scratch(0, known.name.len()), after)
        };
        let (value, after) = Text::read(after, scratch)?;
        let (name, value) = (name.bytes(scratch), value.bytes(scratch));
        count(&mut self.left, name.len() + value.len())?;
        let is_checked = if is_known { is_good_value(value) } else { is_checked_field(name, value) };
        sink(name, value, is_checked);
        if is_indexed {
            self.table.insert(name, value, is_checked);
        }
        Ok(after)
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.table.memory()
    }
}

fn count(left: &mut usize, bytes: usize) -> Result<(), BadSection> {
    *left = left.checked_sub(bytes + FIELD_OVERHEAD).ok_or(BadSection::TooLarge)?;
    Ok(())
}

fn known(table: &Table, index: u64) -> Result<Known<'_>, BadSection> {
    if let Some((name, value)) = static_field(index) {
        return Ok(Known { name, value, is_checked: true });
    }
    let age = index.checked_sub(FIRST_DYNAMIC).ok_or(BadSection::Broken("index 0"))?;
    table.get(age).ok_or(BadSection::Broken("an index that the table hasn't"))
}

/// A string as it lies in the input, or decoded in the scratch.
#[derive(Clone, Copy)]
enum Text<'a> {
    Input(&'a [u8]),
    Scratch(usize, usize),
}

impl<'a> Text<'a> {
    /// Reads a string literal (RFC 7541 5.2).
    fn read(rest: &'a [u8], scratch: &mut Vec<u8>) -> Result<(Text<'a>, &'a [u8]), BadSection> {
        let is_huffman = rest.first().is_some_and(|first| first & 0x80 != 0);
        let (len, after) = integer(rest, 7)?;
        let len = usize::try_from(len).map_err(|_| CUT)?;
        let (text, after) = after.split_at_checked(len).ok_or(CUT)?;
        if !is_huffman {
            return Ok((Text::Input(text), after));
        }
        let at = scratch.len();
        huffman::decode(text, scratch).map_err(|_| BadSection::Broken("a string that isn't Huffman's code of any"))?;
        Ok((Text::Scratch(at, scratch.len()), after))
    }

    fn bytes<'b>(self, scratch: &'b [u8]) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Text::Input(text) => text,
            Text::Scratch(from, to) => &scratch[from..to],
        }
    }
}

const CUT: BadSection = BadSection::Broken("a field section that ends inside a field");

#[inline]
fn integer(rest: &[u8], prefix: u32) -> Result<(u64, &[u8]), BadSection> {
    match int::read(rest, prefix) {
        Ok((value, len)) => Ok((value, &rest[len..])),
        Err(int::IntError::Short) => Err(CUT),
        Err(int::IntError::TooLarge) => Err(BadSection::Broken("an integer that is too large")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(decoder: &mut HpackDecoder, section: &[u8]) -> Result<String, BadSection> {
        let mut text = String::new();
        decoder.decode(section, 1 << 20, &mut Vec::new(), &mut |name, value, _| {
            text += &format!("{}: {}\n", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        })?;
        Ok(text)
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
    }

    const FIRST: &str = ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n";
    const THIRD: &str =
        ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value\n";

    #[test]
    fn requests_of_the_rfc() {
        // RFC 7541 C.3 and, with Huffman's code, C.4.
        for [first, second, third] in [
            [
                "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                "8286 84be 5808 6e6f 2d63 6163 6865",
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
            ],
            [
                "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
                "8286 84be 5886 a8eb 1064 9cbf",
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
            ],
        ] {
            let mut decoder = HpackDecoder::new(4096);
            assert_eq!(fields(&mut decoder, &bytes(first)).as_deref(), Ok(FIRST));
            assert_eq!(fields(&mut decoder, &bytes(second)), Ok(FIRST.to_owned() + "cache-control: no-cache\n"));
            assert_eq!(fields(&mut decoder, &bytes(third)).as_deref(), Ok(THIRD));
        }
    }

    #[test]
    fn responses_of_the_rfc() {
        // RFC 7541 C.6: a table of 256 bytes, from which fields are evicted.
        let mut decoder = HpackDecoder::new(4096);
        let first = "3fe1 01 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d \
                     29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3";
        let location = "location: https://www.example.com\n";
        let early = "date: Mon, 21 Oct 2013 20:13:21 GMT\n";
        assert_eq!(
            fields(&mut decoder, &bytes(first)),
            Ok(format!(":status: 302\ncache-control: private\n{early}{location}"))
        );
        assert_eq!(
            fields(&mut decoder, &bytes("4883 640e ffc1 c0bf")),
            Ok(format!(":status: 307\ncache-control: private\n{early}{location}"))
        );
        let third = "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 \
                     dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07";
        assert_eq!(
            fields(&mut decoder, &bytes(third)),
            Ok(format!(
                ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\n{location}content-encoding: gzip\n\
                 set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n"
            ))
        );
    }

    #[test]
    fn what_loses_the_state() {
        let bad = |hex: &str| assert!(fields(&mut HpackDecoder::new(4096), &bytes(hex)).is_err(), "{hex}");
        bad("80");
        bad("be");
        bad("ff ff ff ff ff ff");
        bad("41 0f 7777");
        bad("41");
        bad("40 01");
        bad("41 81 00");
        bad("3f e2 1f");
        bad("82 20");
    }

    #[test]
    fn a_long_name_by_reference_again_and_again() {
        let mut decoder = HpackDecoder::new(4096);
        let long = [&[0x40, 0x7f, 0xa1, 0x1e][..], &[b'a'; 4000], &[1, b'b']].concat();
        assert_eq!(decoder.decode(&long, 8000, &mut Vec::new(), &mut |_, _, _| {}), Ok(()));
        for field in [&[0x0f, 0x2f, 0x00][..], &[0xbe]] {
            let mut count = 0;
            let decoded = decoder.decode(&field.repeat(1000), 8000, &mut Vec::new(), &mut |_, _, _| count += 1);
            assert_eq!((decoded, count), (Err(BadSection::TooLarge), 1), "{field:x?}");
        }
    }

    #[test]
    fn a_smaller_table_is_acknowledged() {
        let mut decoder = HpackDecoder::new(0);
        assert_eq!(fields(&mut decoder, &bytes("40 01 61 01 62")).as_deref(), Ok("a: b\n"));
        decoder.settings_taken();
        assert!(fields(&mut decoder, &bytes("82")).is_err());
        assert_eq!(fields(&mut decoder, &bytes("20 82")).as_deref(), Ok(":method: GET\n"));
        assert_eq!(fields(&mut decoder, &bytes("40 01 61 01 62")).as_deref(), Ok("a: b\n"));
        assert!(fields(&mut decoder, &bytes("be")).is_err());
        assert!(fields(&mut decoder, &bytes("21")).is_err());
        let mut large = HpackDecoder::new(10_000);
        assert!(fields(&mut large, &bytes("3f f1 4d 82")).is_ok());
    }
}
