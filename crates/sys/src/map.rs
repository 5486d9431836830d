// SPDX-License-Identifier: BSD-2-Clause
//! Shared memory as a safe type: bytes copied in and out, and whole words as atomics.
//!
//! No reference to mapped bytes is ever handed out, so no other process or thread can change memory under one. (Arenas,
//! [`crate::arena`], do so, of bytes that don't change while it lives, and keep their mapping to themselves.)

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// A shared, readable and writable mapping of a whole file or memfd. Offsets and lengths are bytes.
#[derive(Debug)]
pub struct Map {
    base: NonNull<u8>,
    len: usize,
    fd: OwnedFd,
}

// SAFETY: the mapping is plain shared memory owned by this value; it isn't tied to a thread.
unsafe impl Send for Map {}
// SAFETY: all access goes through atomics or through raw copies that hold no reference (see `write`).
unsafe impl Sync for Map {}

impl Map {
    /// Anonymous memory of `len` bytes, zeroed, that can be passed to another process by its descriptor.
    pub fn memfd(name: &str, len: usize) -> io::Result<Map> {
        let name = CString::new(name)?;
        let fd = memfd_create(name.as_c_str(), MFdFlags::MFD_CLOEXEC)?;
        nix::unistd::ftruncate(&fd, len as i64)?;
        Map::from_fd(fd, len)
    }

    /// Maps `len` bytes of a file, growing it to that size when it's shorter.
    pub fn file(file: File, len: usize) -> io::Result<Map> {
        if file.metadata()?.len() < len as u64 {
            file.set_len(len as u64)?;
        }
        Map::from_fd(file.into(), len)
    }

    /// Maps `len` bytes of what the descriptor refers to; it must be at least that long.
    pub fn from_fd(fd: OwnedFd, len: usize) -> io::Result<Map> {
        let size = NonZeroUsize::new(len).ok_or(io::ErrorKind::InvalidInput)?;
        let have = nix::sys::stat::fstat(&fd)?.st_size;
        if have < len as i64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: a new shared mapping at an address of the kernel's choice aliases nothing of ours.
        let base =
            unsafe { mmap(None, size, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED, &fd, 0) }?;
        Ok(Map { base: base.cast(), len, fd })
    }

    /// [`Map::from_fd`] at an address that is a multiple of `align`, a power of two and of a page.
    pub(crate) fn aligned(fd: OwnedFd, len: usize, align: usize) -> io::Result<Map> {
        assert!(align.is_power_of_two() && align.is_multiple_of(4096), "an alignment of pages");
        let len = len.next_multiple_of(4096);
        let wide = len.checked_add(align).and_then(NonZeroUsize::new).ok_or(io::ErrorKind::InvalidInput)?;
        let size = NonZeroUsize::new(len).ok_or(io::ErrorKind::InvalidInput)?;
        if nix::sys::stat::fstat(&fd)?.st_size < len as i64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: addresses of the kernel's choice, which alias nothing of ours; no access is allowed to them.
        let wide_base = unsafe { mmap_anonymous(None, wide, ProtFlags::PROT_NONE, flags) }?;
        let before = wide_base.as_ptr().align_offset(align);
        // SAFETY: `before` is less than `align`, so that this is within the range just reserved.
        let base = unsafe { wide_base.cast::<u8>().add(before) };
        let at = NonZeroUsize::new(base.as_ptr() as usize);
        let (prot, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED | MapFlags::MAP_FIXED);
        // SAFETY: it replaces a part of the range just reserved, which nobody else knows of.
        let mapped = unsafe { mmap(at, size, prot, flags, &fd, 0) };
        let unmap = |from: NonNull<u8>, len: usize| {
            if len > 0 {
                // SAFETY: parts of the reserved range outside of what is mapped now.
                let _ = unsafe { munmap(from.cast(), len) };
            }
        };
        unmap(wide_base.cast(), before);
        // SAFETY: the end of the mapping, within the reserved range or at its end.
        unmap(unsafe { base.add(len) }, align - before);
        match mapped {
            Ok(_) => Ok(Map { base, len, fd }),
            Err(error) => {
                unmap(base, len);
                Err(error.into())
            }
        }
    }

    /// From now on what is written here is seen here alone, and what others write is seen as long as the page wasn't written
    /// here. Addresses and bytes stay; other threads may read and write meanwhile.
    pub(crate) fn make_private(&self) -> io::Result<()> {
        let size = NonZeroUsize::new(self.len).expect("a mapping has at least one byte");
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // Made elsewhere and moved here: made in this place it could be refused after the old one is gone.
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing of ours.
        let made = unsafe { mmap(None, size, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags, &self.fd, 0) }?;
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: the mapping just made, of the same length, takes the place of this one. Its bytes are those of the same
        // file, so that references into it stay true; who writes them proves that nobody reads them, as ever.
        let moved = unsafe { libc::mremap(made.as_ptr(), self.len, self.len, flags, self.base.as_ptr()) };
        if moved == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            // SAFETY: the mapping just made, which nobody else knows of.
            let _ = unsafe { munmap(made, self.len) };
            return Err(error);
        }
        Ok(())
    }

    /// Has the pages of a private mapping be this process's own, as they are.
    pub(crate) fn populate(&self, offset: usize, len: usize) -> io::Result<()> {
        let at = self.at(offset, len);
        // SAFETY: pages of the mapping; none of their bytes changes by this.
        match unsafe { libc::madvise(at.cast(), len, libc::MADV_POPULATE_WRITE) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The first byte. Whoever makes references from it proves that nobody writes where they point.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a mapping has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The descriptor behind the mapping, to pass on.
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

    /// Copies out of the mapping.
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

    /// The aligned 32-bit word at `offset`.
    pub fn u32_at(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4), "unaligned word");
        // SAFETY: as in `u64_at`.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast()) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `of` mapped; nothing borrowed from it outlives `self`.
        let _ = unsafe { munmap(self.base.cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_maps_of_one_memfd_share_words() {
        let a = Map::memfd("t", 4096).unwrap();
        let b = Map::from_fd(a.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
        a.u64_at(16).store(7, Ordering::Release);
        a.write(100, b"hello");
        let mut text = [0; 5];
        b.read(100, &mut text);
        assert_eq!((b.u64_at(16).load(Ordering::Acquire), &text), (7, b"hello"));
    }

    #[test]
    #[should_panic(expected = "beyond")]
    fn access_beyond_the_end_is_a_bug() {
        Map::memfd("t", 64).unwrap().write(62, b"abc");
    }
}
