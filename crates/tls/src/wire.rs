// SPDX-License-Identifier: BSD-2-Clause
//! Numbers, bytes and texts one after the other.

use zeroize::Zeroizing;

#[derive(Clone, Copy)]
pub(crate) struct WireReader<'a>(pub &'a [u8]);

impl<'a> WireReader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()? as usize;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}

/// Bytes written so far. They hold keys: they are wiped on drop, and the capacity is reserved once, since the buffer
/// that a growing vector leaves behind isn't wiped.
pub(crate) struct WireWriter(pub Zeroizing<Vec<u8>>);

impl WireWriter {
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).expect("files are shorter than 4 GB"));
        self.0.extend_from_slice(bytes);
    }

    /// Writes the number of items that follow.
    pub fn count(&mut self, number: usize) {
        self.u32(u32::try_from(number).expect("nobody has so many"));
    }

    pub fn place(&self) -> u64 {
        self.0.len() as u64
    }
}
