// SPDX-License-Identifier: BSD-2-Clause
//! Bytes for a disk: whole blocks of 4096 bytes that begin on one, as direct I/O wants them, alone or out of a [`PagePool`].
//!
//! A pool is one mapping that never moves, so that a ring can register it once for all ([`crate::uring`]). It is cut as
//! a buddy allocator does: what is asked for is rounded up to a power of two, and halves that are both free join again.
//! A pool that is used up, or is asked for more than [`PagePool::MOST`], gives memory of its own for that once.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes of a block: what a disk reads and writes at least, and where its operations begin.
pub const BLOCK: usize = 4096;

/// Owned bytes, aligned to [`BLOCK`], as many as whole blocks have.
pub struct Pages {
    at: NonNull<u8>,
    len: usize,
    /// Pool that they go back to; pages in memory of their own have none.
    pool: Option<Arc<PagePool>>,
}

// SAFETY: the bytes are reached through their only owner, and neither allocator is tied to a thread.
unsafe impl Send for Pages {}
// SAFETY: as above; a shared borrow only reads them.
unsafe impl Sync for Pages {}

impl Pages {
    pub const fn empty() -> Pages {
        Pages { at: NonNull::dangling(), len: 0, pool: None }
    }

    /// Memory of their own with zeros in it; `len` is rounded up to whole blocks.
    pub fn zeroed(len: usize) -> Pages {
        let Some(layout) = layout(rounded(len)) else { return Pages::empty() };
        // SAFETY: `layout` never has a size of zero.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(at) = NonNull::new(memory) else { handle_alloc_error(layout) };
        Pages { at, len: layout.size(), pool: None }
    }

    pub fn blocks(&self) -> usize {
        self.len / BLOCK
    }

    pub fn is_of(&self, pool: &PagePool) -> bool {
        self.pool.as_ref().is_some_and(|own| std::ptr::eq(&raw const **own, pool))
    }
}

/// The size of so many bytes in memory of their own; `None` for none.
fn layout(len: usize) -> Option<Layout> {
    (len > 0)
        .then(|| Layout::from_size_align(len, BLOCK).expect("a length that is rounded up to blocks below isize::MAX"))
}

fn rounded(len: usize) -> usize {
    len.next_multiple_of(BLOCK)
}

impl Default for Pages {
    fn default() -> Pages {
        Pages::empty()
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes at this address are owned by `self` and have a value (zeros, or what was written since).
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed by nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.put(self.at, self.len);
        } else if let Some(layout) = layout(self.len) {
            // SAFETY: allocated with this layout in `zeroed`, and given back once.
            unsafe { dealloc(self.at.as_ptr(), layout) };
        }
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pages({} blocks)", self.blocks())
    }
}

#[derive(Debug)]
pub struct PagePool {
    mapped: (NonNull<c_void>, usize),
    /// First byte, on a huge page.
    base: NonNull<u8>,
    len: usize,
    free: Mutex<Free>,
}

// SAFETY: the mapping isn't tied to a thread; its parts are reached through the pages that own them alone.
unsafe impl Send for PagePool {}
// SAFETY: as above; the lists of free parts are behind a lock.
unsafe impl Sync for PagePool {}

const HUGE: usize = 2 << 20;

/// Powers of two that a part can have, in blocks: 1 to 256.
const ORDERS: usize = 9;

/// First blocks of the free parts, by the power of two of their length; the lowest is taken first.
#[derive(Debug, Default)]
struct Free([BTreeSet<u32>; ORDERS]);

impl PagePool {
    /// The longest part that a pool is asked for.
    pub const MOST: usize = BLOCK << (ORDERS - 1);

    /// A pool of `len` bytes, rounded up to a multiple of a huge page. Memory is used as parts of it are, the lowest first, in
    /// huge pages where the system has them for us: a disk's operation on one needs a single entry in its list.
    ///
    /// # Errors
    /// The system's, when there isn't so much address space.
    pub fn new(len: usize) -> io::Result<Arc<PagePool>> {
        let too_long = || io::Error::from(io::ErrorKind::InvalidInput);
        let len = len.max(1).checked_next_multiple_of(HUGE).ok_or_else(too_long)?;
        let mapped = len.checked_add(HUGE).filter(|mapped| mapped / BLOCK <= u32::MAX as usize);
        let mapped = mapped.and_then(NonZeroUsize::new).ok_or_else(too_long)?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: new memory at an address of the kernel's choice aliases nothing of ours.
        let start = unsafe { mmap_anonymous(None, mapped, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags) }?;
        // SAFETY: less than HUGE bytes on, in a mapping that is HUGE bytes longer than the pool.
        let base: NonNull<u8> = unsafe { start.cast::<u8>().add(start.cast::<u8>().align_offset(HUGE)) };
        if !cfg!(miri) {
            // SAFETY: `len` bytes of that mapping. It only asks for larger pages; where there are none it does without.
            let _ = unsafe { madvise(base.cast(), len, MmapAdvise::MADV_HUGEPAGE) };
        }
        let mut free = Free::default();
        free.0[ORDERS - 1] = (0..(len / BLOCK) as u32).step_by(PagePool::MOST / BLOCK).collect();
        Ok(Arc::new(PagePool { mapped: (start, mapped.get()), base, len, free: Mutex::new(free) }))
    }

    /// Pages of `len` bytes, rounded up to whole blocks, with whatever was in them before.
    pub fn take(self: &Arc<PagePool>, len: usize) -> Pages {
        let len = rounded(len);
        let Some(order) = order(len) else { return Pages::zeroed(len) };
        match self.free().take(order) {
            Some(first) => Pages { at: self.at(first), len, pool: Some(self.clone()) },
            None => Pages::zeroed(len),
        }
    }

    pub fn free_bytes(&self) -> usize {
        self.free().0.iter().enumerate().map(|(order, parts)| parts.len() * (BLOCK << order)).sum()
    }

    pub fn bytes(&self) -> usize {
        self.len
    }

    /// The memory: first byte and length.
    pub(crate) fn memory(&self) -> (NonNull<u8>, usize) {
        (self.base, self.len)
    }

    fn put(&self, at: NonNull<u8>, len: usize) {
        let offset = at.as_ptr() as usize - self.base.as_ptr() as usize;
        let order = order(len).expect("pages of a pool are as long as it gave them");
        self.free().put((offset / BLOCK) as u32, order);
    }

    fn at(&self, first: u32) -> NonNull<u8> {
        let offset = first as usize * BLOCK;
        assert!(offset < self.len, "pages beyond their pool");
        // SAFETY: within the mapping, which lives as long as `self`.
        unsafe { self.base.add(offset) }
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        // Only an assertion about the lists themselves panics under this lock.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PagePool {
    fn drop(&mut self) {
        // SAFETY: exactly the range that was mapped; pages hold their pool, so that none is left.
        let _ = unsafe { munmap(self.mapped.0, self.mapped.1) };
    }
}

/// The power of two, in blocks, of the part for so many bytes of whole blocks; `None` for nothing and for too many.
fn order(len: usize) -> Option<usize> {
    let order = len.div_ceil(BLOCK).next_power_of_two().trailing_zeros() as usize;
    (len > 0 && order < ORDERS).then_some(order)
}

impl Free {
    fn take(&mut self, order: usize) -> Option<u32> {
        let found = (order..ORDERS).find(|&order| !self.0[order].is_empty())?;
        let first = self.0[found].pop_first()?;
        // The upper halves of what was found are free again.
        for half in order..found {
            self.0[half].insert(first + (1 << half));
        }
        Some(first)
    }

    fn put(&mut self, mut first: u32, mut order: usize) {
        while order < ORDERS - 1 && self.0[order].remove(&(first ^ (1 << order))) {
            first &= !(1 << order);
            order += 1;
        }
        assert!(self.0[order].insert(first), "pages are given back once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aligned(pages: &Pages) -> bool {
        pages.is_empty() || (pages.as_ptr() as usize).is_multiple_of(BLOCK)
    }

    #[test]
    fn pages_are_aligned_whole_blocks() {
        for (len, blocks) in [(0, 0), (1, 1), (BLOCK, 1), (BLOCK + 1, 2)] {
            let pages = Pages::zeroed(len);
            assert_eq!(pages.blocks(), blocks);
            assert!(aligned(&pages) && pages.iter().all(|&byte| byte == 0));
        }
        assert!(Pages::empty().is_empty());
    }

    #[test]
    fn a_pool_gives_the_same_memory_again() {
        let pool = PagePool::new(1).unwrap();
        assert_eq!((pool.bytes(), pool.free_bytes()), (HUGE, HUGE));
        let first = pool.take(3 * BLOCK);
        let at = first.as_ptr();
        assert!(at.addr().is_multiple_of(HUGE) && first.blocks() == 3 && first.is_of(&pool));
        assert_eq!(pool.free_bytes(), HUGE - 4 * BLOCK);
        drop(first);
        assert_eq!((pool.free_bytes(), pool.take(BLOCK).as_ptr()), (HUGE, at));
    }

    #[test]
    fn a_pool_that_is_used_up_gives_memory_of_its_own() {
        let pool = PagePool::new(HUGE).unwrap();
        let all = [pool.take(PagePool::MOST), pool.take(PagePool::MOST)];
        let (more, long) = (pool.take(BLOCK), pool.take(PagePool::MOST + 1));
        assert!(all.iter().all(|pages| pages.is_of(&pool)) && !more.is_of(&pool) && !long.is_of(&pool));
        assert!(aligned(&more) && aligned(&long));
        assert_eq!(pool.free_bytes(), 0);
    }

    #[test]
    fn pages_of_a_pool_are_nobody_elses_and_all_come_back() {
        let pool = PagePool::new(4 * PagePool::MOST).unwrap();
        let mut state = 1_u64;
        let mut draw = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut held: Vec<(Pages, u8)> = Vec::new();
        for turn in 0..if cfg!(miri) { 60 } else { 4000 } {
            if draw(3) > 0 || held.is_empty() {
                let mut pages = pool.take(draw(300) as usize * BLOCK / 2);
                pages.fill(turn as u8);
                held.push((pages, turn as u8));
            } else {
                let (pages, mark) = held.swap_remove(draw(held.len() as u64) as usize);
                assert!(pages.iter().all(|&byte| byte == mark), "somebody else wrote there");
            }
            held.truncate(40);
        }
        held.clear();
        assert_eq!(pool.free_bytes(), 4 * PagePool::MOST);
        assert_eq!(pool.take(PagePool::MOST).blocks(), PagePool::MOST / BLOCK);
    }
}
