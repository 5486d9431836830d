// SPDX-License-Identifier: BSD-2-Clause
//! A flag that follows from other state: one relaxed load to read, calculated anew by whoever changes that state.
//!
//! Two threads may change two things at a time. Each calculates the flag after its change, one after the other, so that the last
//! one sees both changes. Nobody sees a flag without the change of a thread whose [`DerivedFlag::update`] has returned: without
//! the lock a thread that saw the state as it was before could clear a flag that another one has just set.

use std::sync::atomic::Ordering::Relaxed;

use sys::atomic::AtomicBool;

use crate::lock::Lock;

#[derive(Debug, Default)]
pub struct DerivedFlag {
    flag: AtomicBool,
    updating: Lock<()>,
}

impl DerivedFlag {
    #[inline]
    pub fn get(&self) -> bool {
        self.flag.load(Relaxed)
    }

    /// Calculates it. Called after each change of what `value` looks at.
    pub fn update(&self, value: impl FnOnce() -> bool) {
        let _one_at_a_time = self.updating.lock();
        self.flag.store(value(), Relaxed);
    }
}

#[cfg(all(test, loom))]
mod proofs;
