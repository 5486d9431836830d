// SPDX-License-Identifier: BSD-2-Clause
//! Little-endian words, one after the other.

#[derive(Clone, Copy, Debug)]
pub struct WordReader<'a>(pub &'a [u8]);

impl<'a> WordReader<'a> {
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next 8 bytes as a number that is finite.
    pub fn f64(&mut self) -> Option<f64> {
        self.array().map(f64::from_le_bytes).filter(|number| number.is_finite())
    }
}

pub trait PutWords {
    fn put_u8(&mut self, word: u8);
    fn put_u32(&mut self, word: u32);
    fn put_u64(&mut self, word: u64);
    fn put_f64(&mut self, word: f64);
}

impl PutWords for Vec<u8> {
    fn put_u8(&mut self, word: u8) {
        self.push(word);
    }

    fn put_u32(&mut self, word: u32) {
        self.extend_from_slice(&word.to_le_bytes());
    }

    fn put_u64(&mut self, word: u64) {
        self.extend_from_slice(&word.to_le_bytes());
    }

    fn put_f64(&mut self, word: f64) {
        self.extend_from_slice(&word.to_le_bytes());
    }
}
