// SPDX-License-Identifier: BSD-2-Clause
//! What is stored beside an object's head: where the gzip blocks of its body are, its ESI program, why it can't be
//! cached, the metadata of modules' filters, the slices of its body or which slice it is, which parts of it there are.
//!
//! ```text
//! attributes = ""  |  flags [start last stop plain_bytes] [length why] [length metadata] [plain_bytes] [length slices]
//!                [length slice] [length parts] [program]
//!                flags: 1 gzip positions (LEB128), 2 program, 4 why it can't be cached, 8 metadata, 16 length of a body in br or zstd,
//!                32 slices, 64 slice, 128 parts
//! metadata = (length name, length bytes) ...
//! ```

use filters::GzipBits;

const GZIP: u8 = 1;
const ESI: u8 = 2;
const WHY: u8 = 4;
const METADATA: u8 = 8;
const PLAIN: u8 = 16;
const SLICES: u8 = 32;
const SLICE: u8 = 64;
const PARTS: u8 = 128;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuxAttrs<'a> {
    /// Positions in the stored body, which is gzip.
    pub gzip_bits: Option<GzipBits>,
    /// Length of the decompressed body in bytes, if it is stored in an encoding other than gzip.
    pub plain_bytes: Option<u64>,
    pub program: Option<&'a [u8]>,
    /// The reason why the object can't be cached, in words.
    pub reason: Option<&'a [u8]>,
    pub metadata: Option<Metadata<'a>>,
    /// The set of slices ([`crate::slices::SliceSet`]) of an object without a body of its own.
    pub slices: Option<&'a [u8]>,
    pub slice: Option<&'a [u8]>,
    /// The stored parts of an incomplete object ([`crate::parts::StoredParts`]).
    pub parts: Option<&'a [u8]>,
}

/// Findings of filters about the body, each after the filter's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metadata<'a>(pub &'a [u8]);

impl<'a> Metadata<'a> {
    /// The attributes in stored form; `None` if there are none.
    pub fn to_bytes(all: &[(&'static str, Vec<u8>)]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for (name, bytes) in all {
            put_bytes(&mut out, name.as_bytes());
            put_bytes(&mut out, bytes);
        }
        (!all.is_empty()).then_some(out)
    }

    pub fn by(self, name: &str) -> Option<&'a [u8]> {
        let mut rest = self.0;
        loop {
            let (found, bytes) = (bytes(&mut rest)?, bytes(&mut rest)?);
            if found == name.as_bytes() {
                return Some(bytes);
            }
        }
    }
}

impl<'a> AuxAttrs<'a> {
    /// Reads the result of [`AuxAttrs::store`]. Malformed bytes count as no attributes.
    pub fn read(stored: &'a [u8]) -> Self {
        Self::parse(stored).unwrap_or_default()
    }

    fn parse(stored: &'a [u8]) -> Option<Self> {
        let (&flags, mut rest) = stored.split_first()?;
        let mut aux_attrs = AuxAttrs::default();
        if flags & GZIP != 0 {
            let mut number = || number(&mut rest);
            let (start, last, stop, plain_bytes) = (number()?, number()?, number()?, number()?);
            aux_attrs.gzip_bits = Some(GzipBits { start, last, stop, plain_bytes });
        }
        if flags & WHY != 0 {
            aux_attrs.reason = Some(bytes(&mut rest)?);
        }
        if flags & METADATA != 0 {
            aux_attrs.metadata = Some(Metadata(bytes(&mut rest)?));
        }
        if flags & PLAIN != 0 {
            aux_attrs.plain_bytes = Some(number(&mut rest)?);
        }
        if flags & SLICES != 0 {
            aux_attrs.slices = Some(bytes(&mut rest)?);
        }
        if flags & SLICE != 0 {
            aux_attrs.slice = Some(bytes(&mut rest)?);
        }
        if flags & PARTS != 0 {
            aux_attrs.parts = Some(bytes(&mut rest)?);
        }
        if flags & ESI != 0 {
            aux_attrs.program = Some(rest);
        }
        Some(aux_attrs)
    }

    /// The bytes to be stored; empty when there is nothing to say.
    pub fn store(&self) -> Vec<u8> {
        let flag = |is: bool, bit| if is { bit } else { 0 };
        let flags = flag(self.gzip_bits.is_some(), GZIP)
            | flag(self.program.is_some(), ESI)
            | flag(self.reason.is_some(), WHY)
            | flag(self.metadata.is_some(), METADATA)
            | flag(self.plain_bytes.is_some(), PLAIN)
            | flag(self.slices.is_some(), SLICES)
            | flag(self.slice.is_some(), SLICE)
            | flag(self.parts.is_some(), PARTS);
        if flags == 0 {
            return Vec::new();
        }
        let metadata = self.metadata.map(|metadata| metadata.0);
        let parts = [self.program, self.reason, metadata, self.slices, self.slice, self.parts];
        let parts_len = parts.into_iter().flatten().map(<[u8]>::len).sum::<usize>();
        let mut out = Vec::with_capacity(48 + parts_len);
        out.push(flags);
        if let Some(bits) = self.gzip_bits {
            [bits.start, bits.last, bits.stop, bits.plain_bytes].into_iter().for_each(|n| put(&mut out, n));
        }
        [self.reason, metadata].into_iter().flatten().for_each(|bytes| put_bytes(&mut out, bytes));
        if let Some(bytes) = self.plain_bytes {
            put(&mut out, bytes);
        }
        [self.slices, self.slice, self.parts].into_iter().flatten().for_each(|bytes| put_bytes(&mut out, bytes));
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

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(number(from)?).ok()?;
    let (bytes, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(bytes)
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
        let metadata = Metadata::to_bytes(&[("a", b"12".to_vec()), ("bc", Vec::new())]).expect("two of them");
        for reason in [None, Some(&b"set-cookie"[..]), Some(b"")] {
            for metadata in [None, Some(Metadata(&metadata))] {
                for plain_bytes in [None, Some(0), Some(u64::MAX)] {
                    let plain = AuxAttrs { gzip_bits, plain_bytes, program, reason, metadata, ..AuxAttrs::default() };
                    let slices = AuxAttrs { slices: Some(b"set"), ..plain };
                    let slice = AuxAttrs { slice: Some(b"3"), ..plain };
                    assert_eq!(AuxAttrs::read(&slices.store()), slices);
                    assert_eq!(AuxAttrs::read(&slice.store()), slice);
                    let parts = AuxAttrs { parts: Some(b"some"), ..plain };
                    assert_eq!(AuxAttrs::read(&parts.store()), parts);
                    let aux_attrs = plain;
                    assert_eq!(AuxAttrs::read(&aux_attrs.store()), aux_attrs);
                }
            }
        }
        let metadata = Metadata(&metadata);
        assert_eq!((metadata.by("a"), metadata.by("bc"), metadata.by("b")), (Some(&b"12"[..]), Some(&b""[..]), None));
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
        let whole = AuxAttrs {
            gzip_bits: Some(bits),
            reason: Some(b"vcl"),
            metadata: Some(Metadata(b"12")),
            slices: Some(b"set"),
            ..AuxAttrs::default()
        };
        let stored = whole.store();
        (0..stored.len()).for_each(|n| assert_eq!(AuxAttrs::read(&stored[..n]), AuxAttrs::default(), "{n}"));
        assert_eq!(AuxAttrs::read(&[1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255]), AuxAttrs::default());
    }
}
