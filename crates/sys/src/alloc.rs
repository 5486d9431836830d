// SPDX-License-Identifier: BSD-2-Clause
//! The allocator, mimalloc, and one that tells somebody of each allocation.
#![allow(unsafe_code)] // an allocator's methods are unsafe: whoever calls them promises

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::marker::PhantomData;

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc, mi_zalloc_aligned,
};

/// mimalloc. Asked for an alignment it looks for a block that happens to have it, and takes a larger one where none is at
/// hand; all its blocks have the alignment of nearly all that is asked for.
pub struct Mimalloc;

/// Alignment of every block: mimalloc counts sizes in words.
const ALIGNED: usize = size_of::<usize>();

// SAFETY: mimalloc's contract is malloc's: a block of at least `size` bytes that nobody else has, aligned to a word or as
// asked, or null. `mi_free` and `mi_realloc*` take what any of the others gave; an alignment beyond a word was asked for at
// birth and is asked for again.
unsafe impl GlobalAlloc for Mimalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        let at = if align <= ALIGNED {
            // SAFETY: a plain number.
            unsafe { mi_malloc(size) }
        } else {
            // SAFETY: plain numbers; the alignment is a power of two (`Layout` has no other).
            unsafe { mi_malloc_aligned(size, align) }
        };
        at.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, _: Layout) {
        // SAFETY: the caller got `at` from this allocator and gives it up.
        unsafe { mi_free(at.cast::<c_void>()) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        let at = if align <= ALIGNED {
            // SAFETY: a plain number.
            unsafe { mi_zalloc(size) }
        } else {
            // SAFETY: as in `alloc`.
            unsafe { mi_zalloc_aligned(size, align) }
        };
        at.cast()
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (at, align) = (at.cast::<c_void>(), layout.align());
        let at = if align <= ALIGNED {
            // SAFETY: the caller got `at` from this allocator and gives it up for the result.
            unsafe { mi_realloc(at, size) }
        } else {
            // SAFETY: as above; the alignment is the one that the block was asked for with.
            unsafe { mi_realloc_aligned(at, size, align) }
        };
        at.cast()
    }
}

unsafe extern "C" {
    /// mimalloc's; the bindings have it only among many others that nobody here wants.
    safe fn mi_collect(force: bool);
}

/// Gives memory back to the system that this thread's part of mimalloc holds and nobody uses.
pub fn give_back() {
    mi_collect(true);
}

/// Receiver of the heap's changes. It must not allocate.
pub trait HeapListener {
    fn allocation();

    /// Reports that so many bytes more are in use, or fewer.
    fn changed(bytes: isize);
}

/// `A`, heard by `L`.
pub struct ListeningAllocator<A, L>(A, PhantomData<L>);

impl<A, L> ListeningAllocator<A, L> {
    pub const fn new(inner: A) -> Self {
        ListeningAllocator(inner, PhantomData)
    }
}

// SAFETY: every call goes on to `A` unchanged, and its result comes back unchanged; the listener touches neither.
unsafe impl<A: GlobalAlloc, L: HeapListener> GlobalAlloc for ListeningAllocator<A, L> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        L::allocation();
        // SAFETY: the caller's promise is the one that `A` wants.
        let at = unsafe { self.0.alloc(layout) };
        given::<L>(at, layout.size() as isize)
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        L::changed(-(layout.size() as isize));
        // SAFETY: as above; `at` came from `A`.
        unsafe { self.0.dealloc(at, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        L::allocation();
        // SAFETY: as above.
        let at = unsafe { self.0.alloc_zeroed(layout) };
        given::<L>(at, layout.size() as isize)
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        L::allocation();
        // SAFETY: as above; `at` came from `A`.
        let at = unsafe { self.0.realloc(at, layout, size) };
        given::<L>(at, size as isize - layout.size() as isize)
    }
}

/// Tells of the change, unless there was no memory for it.
#[inline]
fn given<L: HeapListener>(at: *mut u8, bytes: isize) -> *mut u8 {
    if !at.is_null() {
        L::changed(bytes);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_keep_their_bytes() {
        for align in [1, 2, 4, 8, 16, 64, 4096] {
            for size in [1, 7, 8, 24, 100, 1368, 5000, 200_000] {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: the size isn't zero.
                let at = unsafe { Mimalloc.alloc_zeroed(layout) };
                assert!(!at.is_null() && (at as usize).is_multiple_of(align), "{size} {align}");
                // SAFETY: the block has that many bytes, which are initialised, and nobody else uses it.
                let bytes = unsafe { std::slice::from_raw_parts_mut(at, size) };
                assert_eq!(bytes[size - 1], 0, "{size} {align}");
                bytes[0] = 7;
                // SAFETY: `at` is a block of that layout, and isn't used again.
                let more = unsafe { Mimalloc.realloc(at, layout, size * 3) };
                // SAFETY: the first byte was written, and the block's bytes came along.
                let first = unsafe { more.read() };
                assert!((more as usize).is_multiple_of(align) && first == 7, "{size} {align}");
                // SAFETY: `more` is a block of that size and alignment, and isn't used again.
                unsafe { Mimalloc.dealloc(more, Layout::from_size_align(size * 3, align).unwrap()) };
            }
        }
    }
}
