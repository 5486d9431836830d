// SPDX-License-Identifier: BSD-2-Clause
//! Counters of what requests cost: allocations and locks taken. Builds without debug assertions count nothing, and the
//! calls compile to nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub const COUNTED: bool = cfg!(debug_assertions);

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LOCKS: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Costs {
    /// Memory asked of the allocator, growing included.
    pub allocations: u64,
    pub locks: u64,
}

pub fn so_far() -> Costs {
    Costs { allocations: ALLOCATIONS.load(Relaxed), locks: LOCKS.load(Relaxed) }
}

#[inline(always)]
pub fn allocation() {
    if COUNTED {
        ALLOCATIONS.fetch_add(1, Relaxed);
    }
}

#[inline(always)]
pub fn lock() {
    if COUNTED {
        LOCKS.fetch_add(1, Relaxed);
    }
}
