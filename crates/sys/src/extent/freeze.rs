// SPDX-License-Identifier: BSD-2-Clause
//! Whether the pages of a region are another process's, and the changes of their table that are still under way.

use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::atomic::{AtomicBool, AtomicU32, yield_now};

#[derive(Debug)]
pub(super) struct Freeze {
    is_frozen: AtomicBool,
    /// Pages that were taken and aren't in the table yet, or freed and in no list yet.
    changing: AtomicU32,
}

impl Freeze {
    pub fn new() -> Freeze {
        Freeze { is_frozen: AtomicBool::new(true), changing: AtomicU32::new(0) }
    }

    /// True if nothing is to be changed any more. It stays so while the caller has the list of free pages.
    pub fn is_frozen(&self) -> bool {
        self.is_frozen.load(Relaxed)
    }

    /// A change begins. The caller has the list of free pages, and found that they aren't frozen.
    pub fn begin_change(&self) {
        self.changing.fetch_add(1, Relaxed);
    }

    /// Ends a change: what was written for it is seen after [`Freeze::wait`].
    pub fn end_change(&self) {
        self.changing.fetch_sub(1, Release);
    }

    /// From now on no change begins, or they may again. The caller has the list of free pages.
    pub fn set(&self, is_frozen: bool) {
        self.is_frozen.store(is_frozen, Relaxed);
    }

    /// Once it is frozen: waits for the changes that are under way. The caller doesn't have the list, which they may need.
    pub fn wait(&self) {
        while self.changing.load(Acquire) > 0 {
            yield_now();
        }
    }
}

#[cfg(all(test, loom))]
mod proofs;
