// SPDX-License-Identifier: BSD-2-Clause
//! Shared memory as a safe type: bytes copied in and out, and whole words as atomics.
//!
//! No reference to mapped bytes is ever handed out, so no other process or thread can change memory under one. (Arenas,
//! [`crate::arena`], do so, of bytes that don't change while it lives, and keep their mapping to themselves.)

#[cfg(miri)]
mod heap;
#[cfg(not(miri))]
mod mapped;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A shared, readable and writable mapping of a whole file or memfd. Offsets and lengths are bytes.
#[derive(Debug)]
pub struct MemoryMap {
    base: NonNull<u8>,
    len: usize,
    fd: OwnedFd,
    #[cfg(miri)]
    layout: std::alloc::Layout,
}

// SAFETY: the mapping is plain shared memory owned by this value; it isn't tied to a thread.
unsafe impl Send for MemoryMap {}
// SAFETY: all access goes through atomics or through raw copies that hold no reference (see `write`).
unsafe impl Sync for MemoryMap {}

impl MemoryMap {
    /// Maps `len` bytes of a file, growing it to that size when it's shorter.
    pub fn file(file: File, len: usize) -> io::Result<MemoryMap> {
        if file.metadata()?.len() < len as u64 {
            file.set_len(len as u64)?;
        }
        MemoryMap::from_fd(file.into(), len)
    }

    /// The first byte. Whoever makes references from it proves that nobody writes where they point.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a mapping has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset, "access beyond the mapping");
        // SAFETY: `offset` is within the mapping, which lives as long as `self`.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// Copies `bytes` to `offset`. Readers elsewhere may see it half done: publish with an atomic store afterwards.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: `at` checked the range; `bytes` is ours and no reference to mapped memory exists, so they don't overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let from = self.at(offset, into.len());
        // SAFETY: as in `write`, the other way.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
    }

    /// The aligned 64-bit word at `offset`.
    pub fn u64_at(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "unaligned word");
        // SAFETY: in range and aligned (a mapping starts on a page); every bit pattern is a value; access is atomic.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8).cast()) }
    }

    pub fn u32_at(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4), "unaligned word");
        // SAFETY: as in `u64_at`.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    #[cfg_attr(miri, ignore = "two maps of one file")]
    fn two_maps_of_one_memfd_share_words() {
        let a = MemoryMap::memfd("t", 4096).unwrap();
        let b = MemoryMap::from_fd(a.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
        a.u64_at(16).store(7, Ordering::Release);
        a.write(100, b"hello");
        let mut text = [0; 5];
        b.read(100, &mut text);
        assert_eq!((b.u64_at(16).load(Ordering::Acquire), &text), (7, b"hello"));
    }

    #[test]
    #[should_panic(expected = "beyond")]
    fn access_beyond_the_end_is_a_bug() {
        MemoryMap::memfd("t", 64).unwrap().write(62, b"abc");
    }
}
