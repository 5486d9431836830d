// SPDX-License-Identifier: BSD-2-Clause
//! Allocators around another one: one that tells somebody of each allocation, one that asks for no alignment in vain.
#![allow(unsafe_code)] // an allocator's methods are unsafe: whoever calls them promises

use std::alloc::{GlobalAlloc, Layout};
use std::marker::PhantomData;

/// Who is told. It must not allocate.
pub trait Listener {
    /// Memory is asked for, or more of it.
    fn allocation();
}

/// `A`, heard by `L`.
pub struct Heard<A, L>(A, PhantomData<L>);

impl<A, L> Heard<A, L> {
    /// Around an allocator.
    pub const fn new(inner: A) -> Self {
        Heard(inner, PhantomData)
    }
}

// SAFETY: every call goes on to `A` unchanged, and its result comes back unchanged; the listener touches neither.
unsafe impl<A: GlobalAlloc, L: Listener> GlobalAlloc for Heard<A, L> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        L::allocation();
        // SAFETY: the caller's promise is the one that `A` wants.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above; `at` came from `A`.
        unsafe { self.0.dealloc(at, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        L::allocation();
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        L::allocation();
        // SAFETY: as above; `at` came from `A`.
        unsafe { self.0.realloc(at, layout, size) }
    }
}

/// `A`, asked for no more alignment than its blocks have by themselves, as mimalloc's do: asked for any, it leaves the size's
/// own class for the next larger one and a slower way, to free the block, too.
///
/// `A` must take back and resize a block whatever alignment it was asked for with.
pub struct Natural<A>(A);

/// What blocks of that size and more are aligned to.
const NATURAL: usize = 16;

impl<A> Natural<A> {
    /// Around an allocator.
    pub const fn new(inner: A) -> Self {
        Natural(inner)
    }
}

/// The layout without its alignment, where every block has that.
#[inline]
fn plain(size: usize, align: usize) -> Option<Layout> {
    if align > NATURAL || size < align { None } else { Layout::from_size_align(size, 1).ok() }
}

#[inline]
fn is_aligned(at: *mut u8, align: usize) -> bool {
    at.addr() & (align - 1) == 0
}

// SAFETY: a block is as large as was asked for, since `A` is asked for that size; it is aligned, since one that isn't (which
// only costs time) is given back for one that `A` was asked to align. `A` takes blocks back whatever their layout.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Natural<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some(plain) = plain(layout.size(), layout.align()) {
            // SAFETY: the caller's promise (a size above 0) holds for the same size.
            let at = unsafe { self.0.alloc(plain) };
            if is_aligned(at, layout.align()) {
                return at;
            }
            // SAFETY: just allocated with this layout.
            unsafe { self.0.dealloc(at, plain) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `at` came from `A`, which takes it back whatever layout it was asked for with.
        unsafe { self.0.dealloc(at, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if let Some(plain) = plain(layout.size(), layout.align()) {
            // SAFETY: as in `alloc`.
            let at = unsafe { self.0.alloc_zeroed(plain) };
            if is_aligned(at, layout.align()) {
                return at;
            }
            // SAFETY: just allocated with this layout.
            unsafe { self.0.dealloc(at, plain) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let plain = plain(size, layout.align()).and_then(|_| plain(layout.size(), layout.align()));
        let Some(plain) = plain else {
            // SAFETY: the caller's promise; `A` resizes a block whatever alignment it was asked for with.
            return unsafe { self.0.realloc(at, layout, size) };
        };
        // SAFETY: as above.
        let moved = unsafe { self.0.realloc(at, plain, size) };
        if is_aligned(moved, layout.align()) {
            return moved;
        }
        // SAFETY: the caller promised that `size` is valid for this alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: as in `alloc`.
        let aligned = unsafe { self.0.alloc(wanted) };
        if aligned.is_null() {
            // The old block is gone already: there is no way back.
            std::alloc::handle_alloc_error(wanted);
        }
        // SAFETY: two blocks of `size` bytes; `moved` is given back once.
        unsafe {
            std::ptr::copy_nonoverlapping(moved, aligned, size);
            self.0.dealloc(moved, plain);
        }
        aligned
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;
    use std::cell::Cell;

    use super::*;

    /// Aligns what it must, and of the rest every other block to nothing at all. Never frees.
    struct Odd(Cell<usize>);

    // SAFETY: blocks are those of `System` or 9 bytes into larger ones, which are never freed.
    unsafe impl GlobalAlloc for Odd {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            self.0.set(self.0.get() + 1);
            let skip = if layout.align() == 1 && self.0.get().is_multiple_of(2) { 9 } else { 0 };
            let larger = Layout::from_size_align(layout.size() + 9, layout.align().max(16)).expect("small");
            // SAFETY: not empty, and 9 bytes larger than what is given away.
            unsafe { System.alloc_zeroed(larger).add(skip) }
        }

        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
    }

    #[test]
    fn blocks_are_aligned_and_keep_their_bytes() {
        let odd = Natural::new(Odd(Cell::new(0)));
        for align in [1, 2, 4, 8, 16, 32, 64] {
            for size in [1, 4, 8, 15, 16, 24, 100] {
                for zeroed in [false, true] {
                    let layout = Layout::from_size_align(size, align).expect("small");
                    // SAFETY: `size` isn't 0; the block is written and read within it, and resized as it was allocated.
                    unsafe {
                        let at = if zeroed { odd.alloc_zeroed(layout) } else { odd.alloc(layout) };
                        assert!(is_aligned(at, align));
                        at.write_bytes(7, size);
                        let at = odd.realloc(at, layout, size * 3);
                        assert!(is_aligned(at, align));
                        assert!(std::slice::from_raw_parts(at, size).iter().all(|&byte| byte == 7));
                    }
                }
            }
        }
    }
}
