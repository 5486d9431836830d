// SPDX-License-Identifier: BSD-2-Clause
//! Pieces of gzip: header and trailer, plain bytes as stored blocks, combined checksums, and the deflate blocks of one
//! gzip body made fit to stand in the middle of another (RFC 1951, RFC 1952). ESI joins gzip fragments with them.

use zlib_rs::crc32;

use crate::GzipBits;

/// The header of gzip bodies that we make: no name, no time.
pub const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3];

pub const TAIL_BYTES: usize = 13;

/// Most plain bytes of one stored block.
pub const STORED_MAX: usize = 65_535;

/// An empty last block, the checksum and the length: what ends a body whose blocks end on a byte boundary.
pub fn tail(crc: u32, plain_bytes: u64) -> [u8; TAIL_BYTES] {
    let mut out = [0; TAIL_BYTES];
    out[..5].copy_from_slice(&[1, 0, 0, 0xff, 0xff]);
    out[5..9].copy_from_slice(&crc.to_le_bytes());
    out[9..].copy_from_slice(&(plain_bytes as u32).to_le_bytes());
    out
}

/// The bytes before `len` (at most [`STORED_MAX`]) plain bytes in a deflate stream, where they stand as they are.
pub fn stored_header(len: u16) -> [u8; 5] {
    let (l, n) = (len.to_le_bytes(), (!len).to_le_bytes());
    [0, l[0], l[1], n[0], n[1]]
}

/// Checksum and length of what was joined so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GzipSum {
    /// CRC-32 of the plain bytes.
    pub crc: u32,
    pub plain_bytes: u64,
}

impl GzipSum {
    pub fn new(bytes: &[u8]) -> Self {
        let mut sum = Self::default();
        sum.add(bytes);
        sum
    }

    pub fn add(&mut self, bytes: &[u8]) {
        self.crc = crc32::crc32(self.crc, bytes);
        self.plain_bytes += bytes.len() as u64;
    }

    /// A piece follows of which only checksum and length are known.
    pub fn join(&mut self, piece: GzipSum) {
        self.crc = crc32::crc32_combine(self.crc, piece.crc, piece.plain_bytes);
        self.plain_bytes += piece.plain_bytes;
    }
}

/// Takes the deflate blocks out of a gzip body while it streams by: no header, no "last" mark, ended on a byte
/// boundary, no trailer. The trailer gives the [`GzipSum`].
pub struct Blocks {
    bits: GzipBits,
    at: u64,
    trailer: [u8; 8],
    seen: usize,
}

impl Blocks {
    /// `None` when the positions can't be those of a gzip body of `len` bytes.
    pub fn new(bits: GzipBits, len: u64) -> Option<Self> {
        let sound = bits.start > 0
            && bits.start & 7 == 0
            && bits.start <= bits.last
            && bits.last < bits.stop
            && bits.stop.div_ceil(8) + 8 == len;
        sound.then_some(Self { bits, at: 0, trailer: [0; 8], seen: 0 })
    }

    /// Bytes of the body in order; appends what may stand in another body's middle: at most 16 bytes more than came in.
    pub fn push(&mut self, mut body: &[u8], out: &mut Vec<u8>) {
        while let Some((&byte, rest)) = body.split_first() {
            let (first, last, stop) = (self.bits.start / 8, self.bits.last / 8, self.bits.stop / 8);
            let plain_until = if self.at < last { last } else { stop };
            if self.at >= first && self.at != last && self.at < plain_until {
                let n = body.len().min((plain_until - self.at) as usize);
                out.extend_from_slice(&body[..n]);
                self.at += n as u64;
                body = &body[n..];
                continue;
            }
            self.one(byte, out);
            self.at += 1;
            body = rest;
        }
    }

    /// A byte that needs a look: before the blocks, the one with the "last" mark, the one where they end, the trailer.
    fn one(&mut self, byte: u8, out: &mut Vec<u8>) {
        let (first, last, stop) = (self.bits.start / 8, self.bits.last / 8, self.bits.stop / 8);
        if self.at < first {
            return;
        }
        let mut byte = byte;
        if self.at == last {
            byte &= !(1 << (self.bits.last & 7));
        }
        let used = (self.bits.stop & 7) as u32;
        if self.at < stop {
            out.push(byte);
        } else if self.at == stop && used > 0 {
            align(byte, used, out);
        } else if self.seen < 8 {
            self.trailer[self.seen] = byte;
            self.seen += 1;
        }
    }

    pub fn sum(&self) -> Option<GzipSum> {
        let [a, b, c, d, e, f, g, h] = self.trailer;
        (self.seen == 8).then(|| GzipSum {
            crc: u32::from_le_bytes([a, b, c, d]),
            plain_bytes: u64::from(u32::from_le_bytes([e, f, g, h])),
        })
    }
}

/// Writes the `used` low bits of the last byte and empty blocks up to a byte boundary: blocks in RFC 1951's own codes, 10
/// bits each (not last, type 1, end), where they get there; else a stored one (three zero bits, zeros up to the
/// boundary, the length 0 and its complement).
pub(crate) fn align(byte: u8, used: u32, out: &mut Vec<u8>) {
    let mut word = u32::from(byte) & ((1 << used) - 1);
    let mut bits = used;
    if used.is_multiple_of(2) {
        while !bits.is_multiple_of(8) {
            word |= 2 << bits;
            bits += 10;
        }
        out.extend_from_slice(&word.to_le_bytes()[..bits as usize / 8]);
        return;
    }
    out.push(word as u8);
    if used + 3 > 8 {
        out.push(0);
    }
    out.extend_from_slice(&[0, 0, 0xff, 0xff]);
}
