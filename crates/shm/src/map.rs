// SPDX-License-Identifier: BSD-2-Clause
//! A file mapped for writing, seen through atomics only: other processes read it, other threads may write it.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// A shared mapping of a whole file, page aligned. Unmapped on drop.
#[derive(Debug)]
pub struct FileMap {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to no thread, and every access goes through atomics.
unsafe impl Send for FileMap {}
// SAFETY: as above.
unsafe impl Sync for FileMap {}

impl FileMap {
    /// Makes `file` `len` bytes long and maps it. Its `first` bytes get room, so that no later write there can fail for
    /// lack of it, and where the others can't get some by [`reserve_more`], all do. How many did is the second value.
    pub fn create(file: &File, len: usize, first: usize) -> io::Result<(Self, usize)> {
        file.set_len(len as u64)?;
        let is_growing = first < len && reserve_more(file, 0, first).is_ok();
        if !is_growing {
            reserve(file, len)?;
        }
        Ok((Self::from_fd(file, len)?, if is_growing { first } else { len }))
    }

    pub fn from_fd(file: impl AsFd, len: usize) -> io::Result<Self> {
        let length = NonZeroUsize::new(len).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: no address is asked for, so nothing of ours is replaced.
        let base = unsafe { mmap(None, length, prot, MapFlags::MAP_SHARED, file, 0) }?;
        Ok(Self { base: base.cast(), len })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The byte at `at`, which must be mapped with `size` bytes after it and aligned to `size`.
    pub fn at(&self, at: usize, size: usize) -> NonNull<u8> {
        assert!(at.checked_add(size).is_some_and(|end| end <= self.len), "{at}+{size} of {}", self.len);
        // SAFETY: `at` is within the mapping, as just asserted.
        unsafe { self.base.add(at) }
    }

    pub fn u32(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4));
        // SAFETY: mapped (`at`), aligned (the base is page aligned), alive as long as `self`.
        unsafe { AtomicU32::from_ptr(self.at(at, 4).as_ptr().cast()) }
    }

    pub fn u64(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8));
        // SAFETY: mapped (`at`), aligned (the base is page aligned), alive as long as `self`.
        unsafe { AtomicU64::from_ptr(self.at(at, 8).as_ptr().cast()) }
    }

    pub fn words(&self, at: usize, count: usize) -> &[AtomicU32] {
        assert!(at.is_multiple_of(4));
        let first = self.at(at, count * 4);
        // SAFETY: mapped for all `count` words (`at`), aligned, alive as long as `self`; any bits are a valid word.
        unsafe { std::slice::from_raw_parts(first.as_ptr().cast::<AtomicU32>(), count) }
    }

    pub fn longs(&self, at: usize, count: usize) -> &[AtomicU64] {
        assert!(at.is_multiple_of(8));
        let first = self.at(at, count * 8);
        // SAFETY: mapped for all `count` words (`at`), aligned, alive as long as `self`; any bits are a valid word.
        unsafe { std::slice::from_raw_parts(first.as_ptr().cast::<AtomicU64>(), count) }
    }

    /// Tells the CPU that the `len` bytes from `at` will be written soon; nothing where it can't be told.
    #[inline]
    pub fn prefetch(&self, at: usize, len: usize) {
        #[cfg(target_arch = "x86_64")]
        for line in (at..(at + len).min(self.len)).step_by(64) {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            // SAFETY: a hint reads and writes nothing that the program can see, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(self.base.as_ptr().wrapping_add(line).cast()) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (at, len);
    }

    pub fn bytes(&self, at: usize, len: usize) -> &[AtomicU8] {
        let first = self.at(at, len);
        // SAFETY: mapped for all `len` bytes (`at`), alive as long as `self`; any bits are a valid byte.
        unsafe { std::slice::from_raw_parts(first.as_ptr().cast::<AtomicU8>(), len) }
    }

    pub fn write(&self, at: usize, data: &[u8]) {
        for (to, from) in self.bytes(at, data.len()).iter().zip(data) {
            to.store(*from, Ordering::Relaxed);
        }
    }
}

/// Gives the first bytes of `file`, which nobody writes yet, room.
fn reserve(file: &File, len: usize) -> io::Result<()> {
    // SAFETY: plain numbers; the call keeps none of them.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len as libc::off_t) } {
        0 | libc::EOPNOTSUPP | libc::EINVAL => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Gives the `len` bytes of `file` from `at` room while others may write them. Not every file system can
/// (`ErrorKind::Unsupported`): the C library's way around that reads and writes bytes, which those writers could lose by.
pub fn reserve_more(file: &File, at: usize, len: usize) -> io::Result<()> {
    // SAFETY: plain numbers; the call keeps none of them.
    match unsafe { libc::fallocate(file.as_raw_fd(), 0, at as libc::off_t, len as libc::off_t) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: mapped by `of` with this length; all borrows of it end with `self`.
        let unmapped = unsafe { munmap(self.base.cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}
