// SPDX-License-Identifier: BSD-2-Clause
//! Maps under Miri, which can't map files: memory of the heap instead, so that it checks what is done with the bytes. Two maps of
//! one file share nothing.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::MemoryMap;

const PAGE: usize = 4096;

impl MemoryMap {
    /// A file that is removed at once, and memory beside it.
    pub fn memfd(name: &str, len: usize) -> io::Result<MemoryMap> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{name}-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        file.set_len(len as u64)?;
        MemoryMap::from_fd(file.into(), len)
    }

    /// Memory for a file that is at least that long.
    pub fn from_fd(fd: OwnedFd, len: usize) -> io::Result<MemoryMap> {
        MemoryMap::aligned(fd, len, PAGE)
    }

    /// The same at a multiple of `align`.
    pub(crate) fn aligned(fd: OwnedFd, len: usize, align: usize) -> io::Result<MemoryMap> {
        let file = File::from(fd);
        if len == 0 || file.metadata()?.len() < len as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let layout = Layout::from_size_align(len.next_multiple_of(PAGE), align).map_err(io::Error::other)?;
        // SAFETY: the layout isn't empty.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(memory) else { handle_alloc_error(layout) };
        Ok(MemoryMap { base, len, fd: file.into(), layout })
    }

    /// Does nothing: the memory is private already.
    pub(crate) fn make_private(&self) -> io::Result<()> {
        Ok(())
    }

    /// Does nothing: the memory is there already.
    pub(crate) fn populate(&self, offset: usize, len: usize) -> io::Result<()> {
        self.at(offset, len);
        Ok(())
    }
}

impl Drop for MemoryMap {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `aligned`; nothing borrowed from it outlives `self`.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}
