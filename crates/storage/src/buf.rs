// SPDX-License-Identifier: BSD-2-Clause
//! Counted handles on stored bytes.

use std::fmt;
use std::ops::Range;

use sys::splice::SpliceRanges;

use crate::store::{Block, Charge, bytes_of};

/// An owned handle on a range of stored bytes: 16 bytes, cheap to clone, may go to any thread.
#[derive(Clone)]
pub struct Buf {
    block: Block,
    start: u32,
    len: u32,
}

impl Buf {
    /// A handle on bytes that no store accounts for (made-up bodies, filter output). At most 4 GiB.
    pub fn unaccounted(bytes: Vec<u8>) -> Self {
        Self::over(Charge::unaccounted(bytes))
    }

    /// A handle on a whole block.
    pub(crate) fn over(block: Block) -> Self {
        let len =
            u32::try_from(bytes_of(&block).len()).expect("blocks are at most MAX_BLOCK, buffers of ours below 4 GiB");
        Self { block, start: 0, len }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A handle on a part of this range. Panics when `range` isn't within it.
    pub fn slice(&self, range: Range<usize>) -> Buf {
        assert!(range.start <= range.end && range.end <= self.len(), "slice outside its buffer");
        let len = (range.end - range.start) as u32;
        Buf { block: self.block.clone(), start: self.start + range.start as u32, len }
    }

    /// Notes that its block is sent once more; whether lending it ([`Buf::splice`]) pays.
    pub fn note_send(&self) -> bool {
        self.block.header.header.extent().is_some_and(|extent| extent.note_send())
    }

    /// Lends its bytes from `skip` on. False: they can't be lent, or no more can.
    pub fn splice<'a>(&'a self, skip: usize, loans: &mut SpliceRanges<'a>) -> bool {
        let (start, end) = (self.start as usize + skip, (self.start + self.len) as usize);
        self.block.header.header.extent().is_some_and(|extent| loans.add(extent, start..end))
    }

    /// What the whole block behind this handle is charged with, in bytes; 0 when no store accounts for it.
    pub fn charged_bytes(&self) -> u64 {
        self.block.header.header.charged_bytes()
    }
}

impl std::ops::Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytes_of(&self.block)[self.start as usize..(self.start + self.len) as usize]
    }
}

impl AsRef<[u8]> for Buf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}

/// Handles are equal when their bytes are.
impl PartialEq for Buf {
    fn eq(&self, other: &Buf) -> bool {
        **self == **other
    }
}

impl Eq for Buf {}
