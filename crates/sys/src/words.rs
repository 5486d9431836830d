// SPDX-License-Identifier: BSD-2-Clause
//! Memory for large tables that grow: whole pages from the system, as many as are asked for. The kernel moves them when there
//! is no room behind; nothing is copied, and nothing is left over for others, as a general allocator would.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use nix::sys::mman::{MRemapFlags, MapFlags, ProtFlags, mmap_anonymous, mremap, munmap};

const PAGE: usize = 4096;

/// Owned words, zero until something is written to them, as many as whole pages have.
pub struct OwnedWords {
    base: NonNull<u64>,
    bytes: usize,
}

// SAFETY: the mapping is reached through its only owner and isn't tied to a thread.
unsafe impl Send for OwnedWords {}
// SAFETY: as above; a shared borrow only reads it.
unsafe impl Sync for OwnedWords {}

impl OwnedWords {
    pub const PAGE: usize = PAGE / size_of::<u64>();

    pub const fn new() -> OwnedWords {
        OwnedWords { base: NonNull::dangling(), bytes: 0 }
    }

    /// Makes them `len` at least, rounded up to whole pages; those that come are zero.
    ///
    /// # Errors
    /// The system's, when it has no more; then they are as before.
    pub fn grow(&mut self, len: usize) -> io::Result<()> {
        let bytes = len.checked_mul(size_of::<u64>()).and_then(|bytes| bytes.checked_next_multiple_of(PAGE));
        let bytes = bytes.and_then(NonZeroUsize::new).ok_or(io::ErrorKind::InvalidInput)?;
        if bytes.get() <= self.bytes {
            return Ok(());
        }
        let base = if self.bytes == 0 {
            let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
            // SAFETY: new memory at an address of the kernel's choice aliases nothing of ours.
            unsafe { mmap_anonymous(None, bytes, prot, MapFlags::MAP_PRIVATE) }?
        } else {
            // SAFETY: exactly the range that is mapped; it is borrowed exclusively, so that nobody knows its old address.
            unsafe { mremap(self.base.cast(), self.bytes, bytes.get(), MRemapFlags::MREMAP_MAYMOVE, None) }?
        };
        (self.base, self.bytes) = (base.cast(), bytes.get());
        Ok(())
    }
}

impl Default for OwnedWords {
    fn default() -> OwnedWords {
        OwnedWords::new()
    }
}

impl Deref for OwnedWords {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        // SAFETY: so many words are mapped here, aligned to a page, and have a value; none: a dangling pointer will do.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes / size_of::<u64>()) }
    }
}

impl DerefMut for OwnedWords {
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and `self` is borrowed by nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes / size_of::<u64>()) }
    }
}

impl Drop for OwnedWords {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: exactly the range that is mapped, given up once.
            let _ = unsafe { munmap(self.base.cast(), self.bytes) };
        }
    }
}

impl fmt::Debug for OwnedWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnedWords({})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_grow_by_pages_and_keep_what_is_in_them() {
        let mut words = OwnedWords::new();
        assert!(words.is_empty() && words.grow(0).is_err());
        for pages in [1, 2, 3, 50, 51, 4000] {
            let before = words.len();
            words.grow(pages * OwnedWords::PAGE - 1).unwrap();
            assert_eq!(words.len(), pages * OwnedWords::PAGE);
            assert!(words[before..].iter().all(|&word| word == 0));
            (before..words.len()).for_each(|at| words[at] = at as u64);
            assert!(words.iter().enumerate().all(|(at, &word)| word == at as u64));
        }
        words.grow(5).unwrap();
        assert_eq!(words.len(), 4000 * OwnedWords::PAGE);
        assert!(words.grow(1 << 50).is_err() && words.grow(usize::MAX / 8).is_err());
        assert_eq!(words.len(), 4000 * OwnedWords::PAGE, "it is as before");
    }
}
