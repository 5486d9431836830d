// SPDX-License-Identifier: BSD-2-Clause
//! What is stored beside an object's head: where the gzip blocks of its body are, its ESI program, why it can't be
//! cached.
//!
//! ```text
//! extra = ""  |  flags [start last stop plain_bytes] [length why] [program]
//!                flags: 1 gzip positions (LEB128), 2 program, 4 why it can't be cached
//! ```

use filters::GzipBits;

const GZIP: u8 = 1;
const ESI: u8 = 2;
const WHY: u8 = 4;

/// An object's extra, read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra<'a> {
    /// Positions in the stored body, which is gzip.
    pub gzip_bits: Option<GzipBits>,
    /// What [`esi::Program::parse`] reads.
    pub program: Option<&'a [u8]>,
    /// Why it can't be cached, in words.
    pub why: Option<&'a [u8]>,
}

impl<'a> Extra<'a> {
    /// Reads what [`Extra::store`] wrote; anything else is no extra.
    pub fn of(stored: &'a [u8]) -> Self {
        Self::parse(stored).unwrap_or_default()
    }

    fn parse(stored: &'a [u8]) -> Option<Self> {
        let (&flags, mut rest) = stored.split_first()?;
        let mut extra = Extra::default();
        if flags & GZIP != 0 {
            let mut number = || number(&mut rest);
            let (start, last, stop, plain_bytes) = (number()?, number()?, number()?, number()?);
            extra.gzip_bits = Some(GzipBits { start, last, stop, plain_bytes });
        }
        if flags & WHY != 0 {
            let len = usize::try_from(number(&mut rest)?).ok()?;
            let (why, after) = rest.split_at_checked(len)?;
            (extra.why, rest) = (Some(why), after);
        }
        if flags & ESI != 0 {
            extra.program = Some(rest);
        }
        Some(extra)
    }

    /// The bytes to be stored; empty when there is nothing to say.
    pub fn store(&self) -> Vec<u8> {
        let flag = |is: bool, bit| if is { bit } else { 0 };
        let flags =
            flag(self.gzip_bits.is_some(), GZIP) | flag(self.program.is_some(), ESI) | flag(self.why.is_some(), WHY);
        if flags == 0 {
            return Vec::new();
        }
        let bytes = [self.program, self.why].into_iter().flatten().map(<[u8]>::len).sum::<usize>();
        let mut out = Vec::with_capacity(48 + bytes);
        out.push(flags);
        if let Some(bits) = self.gzip_bits {
            [bits.start, bits.last, bits.stop, bits.plain_bytes].into_iter().for_each(|n| put(&mut out, n));
        }
        if let Some(why) = self.why {
            put(&mut out, why.len() as u64);
            out.extend_from_slice(why);
        }
        out.extend_from_slice(self.program.unwrap_or_default());
        out
    }
}

fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn number(from: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(n);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(gzip_bits: Option<GzipBits>, program: Option<&[u8]>) {
        for why in [None, Some(&b"set-cookie"[..]), Some(b"")] {
            let extra = Extra { gzip_bits, program, why };
            assert_eq!(Extra::of(&extra.store()), extra);
        }
    }

    #[test]
    fn what_was_stored_is_read() {
        let bits = GzipBits { start: 80, last: 1 << 40, stop: u64::MAX, plain_bytes: 127 };
        check(None, None);
        check(Some(bits), None);
        check(None, Some(b"program"));
        check(Some(bits), Some(b"program"));
        check(Some(GzipBits::default()), Some(b""));
    }

    #[test]
    fn a_torn_extra_is_none() {
        let bits = GzipBits { start: 80, last: 300, ..GzipBits::default() };
        let whole = Extra { gzip_bits: Some(bits), program: None, why: Some(b"vcl") };
        let stored = whole.store();
        (0..stored.len()).for_each(|n| assert_eq!(Extra::of(&stored[..n]), Extra::default(), "{n}"));
        assert_eq!(Extra::of(&[1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255]), Extra::default());
    }
}
