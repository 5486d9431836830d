// SPDX-License-Identifier: BSD-2-Clause
//! Maps as the system makes them.

use std::ffi::CString;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use super::MemoryMap;

impl MemoryMap {
    /// Anonymous memory of `len` bytes, zeroed, that can be passed to another process by its descriptor.
    pub fn memfd(name: &str, len: usize) -> io::Result<MemoryMap> {
        let name = CString::new(name)?;
        let fd = memfd_create(name.as_c_str(), MFdFlags::MFD_CLOEXEC)?;
        nix::unistd::ftruncate(&fd, len as i64)?;
        MemoryMap::from_fd(fd, len)
    }

    /// Maps `len` bytes of what the descriptor refers to; it must be at least that long.
    pub fn from_fd(fd: OwnedFd, len: usize) -> io::Result<MemoryMap> {
        let size = NonZeroUsize::new(len).ok_or(io::ErrorKind::InvalidInput)?;
        let have = nix::sys::stat::fstat(&fd)?.st_size;
        if have < len as i64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: a new shared mapping at an address of the kernel's choice aliases nothing of ours.
        let base =
            unsafe { mmap(None, size, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED, &fd, 0) }?;
        Ok(MemoryMap { base: base.cast(), len, fd })
    }

    /// [`MemoryMap::from_fd`] at an address that is a multiple of `align`, a power of two and of a page.
    pub(crate) fn aligned(fd: OwnedFd, len: usize, align: usize) -> io::Result<MemoryMap> {
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
            Ok(_) => Ok(MemoryMap { base, len, fd }),
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
}

impl Drop for MemoryMap {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `of` mapped; nothing borrowed from it outlives `self`.
        let _ = unsafe { munmap(self.base.cast(), self.len) };
    }
}
