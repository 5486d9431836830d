// SPDX-License-Identifier: BSD-2-Clause
//! An allocator that tells somebody of each allocation.
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
