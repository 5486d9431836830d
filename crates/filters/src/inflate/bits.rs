// SPDX-License-Identifier: BSD-2-Clause
//! Bits of the input, lowest first.

use super::Stop;

#[derive(Clone, Default)]
pub(super) struct Bits {
    word: u64,
    len: u32,
    bytes_in: u64,
}

impl Bits {
    #[inline]
    pub(super) fn fill(&mut self, rest: &mut &[u8]) {
        if let Some(eight) = rest.first_chunk::<8>() {
            // Whole bytes that still fit below bit 63; those beyond are read again next time.
            let n = (63 - self.len) / 8;
            self.word |= u64::from_le_bytes(*eight) << self.len;
            self.len += n * 8;
            // Bits above `len` must be zero: `byte` and `take` rely on nothing else being or-ed over them.
            self.word &= (1u64 << self.len) - 1;
            *rest = &rest[n as usize..];
            self.bytes_in += u64::from(n);
            return;
        }
        while self.len < 56 {
            let Some((&byte, tail)) = rest.split_first() else { return };
            self.word |= u64::from(byte) << self.len;
            self.len += 8;
            self.bytes_in += 1;
            *rest = tail;
        }
    }

    #[inline]
    pub(super) fn peek(&self) -> u64 {
        self.word
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(super) fn drop_bits(&mut self, n: u32) {
        self.word >>= n;
        self.len -= n;
    }

    /// The next `n` bits, at most 32.
    pub(super) fn take(&mut self, n: u32, rest: &mut &[u8]) -> Result<u64, Stop> {
        if self.len < n {
            self.fill(rest);
            if self.len < n {
                return Err(Stop::Input);
            }
        }
        let value = self.word & ((1u64 << n) - 1);
        self.drop_bits(n);
        Ok(value)
    }

    pub(super) fn byte(&mut self, rest: &mut &[u8]) -> Result<u8, Stop> {
        self.take(8, rest).map(|byte| byte as u8)
    }

    /// Drops what is left of a byte.
    pub(super) fn align(&mut self) {
        self.drop_bits(self.len & 7);
    }

    pub(super) fn whole_bytes(&self) -> usize {
        (self.len / 8) as usize
    }

    /// Bytes that went past the buffer.
    pub(super) fn count_bytes(&mut self, n: usize) {
        self.bytes_in += n as u64;
    }

    pub(super) fn position(&self) -> u64 {
        self.bytes_in * 8 - u64::from(self.len)
    }

    pub(super) fn bytes_in(&self) -> u64 {
        self.bytes_in
    }

    /// Gives whole unused bytes back, at most `limit`; how many.
    pub(super) fn give_back(&mut self, limit: usize) -> usize {
        let n = self.whole_bytes().min(limit);
        self.len -= n as u32 * 8;
        self.word &= (1u64 << self.len) - 1;
        self.bytes_in -= n as u64;
        n
    }
}
