// SPDX-License-Identifier: BSD-2-Clause
//! The header of a gzip member (RFC 1952, section 2.3), byte by byte.

use zlib_rs::crc32::crc32;

const FHCRC: u8 = 2;
const FEXTRA: u8 = 4;
const FNAME: u8 = 8;
const FCOMMENT: u8 = 16;
const RESERVED: u8 = 0xe0;

enum Part {
    /// The ten fixed bytes: how many are there.
    Fixed(usize),
    ExtraLen(Option<u8>),
    Extra(u16),
    Name,
    Comment,
    Crc(Option<u8>),
}

pub(super) struct Header {
    part: Part,
    flags: u8,
    crc: u32,
}

impl Header {
    pub(super) fn new() -> Self {
        Self { part: Part::Fixed(0), flags: 0, crc: 0 }
    }

    /// Takes the next byte; true when it was the last.
    pub(super) fn take(&mut self, byte: u8) -> Result<bool, &'static str> {
        let sum = self.crc as u16;
        self.crc = crc32(self.crc, &[byte]);
        match &mut self.part {
            Part::Fixed(at) => {
                match (*at, byte) {
                    (0, 0x1f) | (1, 0x8b) | (2, 8) => {}
                    (0 | 1, _) => return Err("incorrect header check"),
                    (2, _) => return Err("unknown compression method"),
                    (3, flags) if flags & RESERVED != 0 => return Err("unknown header flags set"),
                    (3, flags) => self.flags = flags,
                    _ => {}
                }
                *at += 1;
                return Ok(*at == 10 && self.next(0));
            }
            Part::ExtraLen(low @ None) => *low = Some(byte),
            Part::ExtraLen(Some(low)) => match u16::from_le_bytes([*low, byte]) {
                0 => return Ok(self.next(FEXTRA)),
                len => self.part = Part::Extra(len),
            },
            Part::Extra(1) => return Ok(self.next(FEXTRA)),
            Part::Extra(left) => *left -= 1,
            Part::Name if byte == 0 => return Ok(self.next(FNAME)),
            Part::Comment if byte == 0 => return Ok(self.next(FCOMMENT)),
            Part::Name | Part::Comment => {}
            Part::Crc(low @ None) => {
                *low = Some(byte);
                // The sum doesn't include itself: it is kept for the second byte.
                self.crc = u32::from(sum);
            }
            Part::Crc(Some(low)) => {
                let want = u16::from_le_bytes([*low, byte]);
                return if want == sum { Ok(true) } else { Err("header crc mismatch") };
            }
        }
        Ok(false)
    }

    /// Goes on to the first part behind `done` that the flags announce; true if there is none.
    fn next(&mut self, done: u8) -> bool {
        let has = |flag: u8| self.flags & flag != 0;
        self.part = if has(FEXTRA) && done < FEXTRA {
            Part::ExtraLen(None)
        } else if has(FNAME) && done < FNAME {
            Part::Name
        } else if has(FCOMMENT) && done < FCOMMENT {
            Part::Comment
        } else if has(FHCRC) {
            Part::Crc(None)
        } else {
            return true;
        };
        false
    }
}
