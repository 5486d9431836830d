// SPDX-License-Identifier: BSD-2-Clause
//! The lock for state that a panic can't leave half changed in a way that matters; for the rest there is
//! [`crate::critical::Lock`]. Builds with debug assertions count both (see [`crate::costs`]).

pub use parking_lot::MutexGuard;

use crate::costs;

/// A lock without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Mutex(parking_lot::Mutex::new(value))
    }

    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        costs::lock();
        self.0.lock()
    }

    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = self.0.try_lock()?;
        costs::lock();
        Some(guard)
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}
