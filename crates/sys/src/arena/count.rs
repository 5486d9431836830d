// SPDX-License-Identifier: BSD-2-Clause
//! How many handles of a process are on a slot. Who drops the last one may change the slot's bytes: everything that others did
//! with their handles is done by then.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::atomic::{AtomicU32, fence};

/// See the module. In an arena it is a word of the mapping.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Count(AtomicU32);

impl Count {
    /// There is one handle now. The caller has the slot alone.
    pub fn first(&self) {
        self.0.store(1, Relaxed);
    }

    /// One handle more. The caller has one.
    #[inline]
    pub fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// One handle less; whether it was the last. The caller had it.
    #[inline]
    pub fn is_last_dropped(&self) -> bool {
        let is_last = self.0.fetch_sub(1, Release) == 1;
        if is_last {
            fence(Acquire);
        }
        is_last
    }
}

#[cfg(all(test, loom))]
mod proofs;
