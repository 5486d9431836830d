// SPDX-License-Identifier: BSD-2-Clause
//! Says whether this thread is changing shared state. A panic in pure code costs one request; a panic between
//! [`enter`] and the drop of its guard may have left shared state half changed, so the worker must end with a report.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static CONTAINED: Cell<u32> = const { Cell::new(0) };
}

/// Whoever catches panics further up says so while this lives. Stays on its thread.
#[derive(Debug)]
pub struct Containment(PhantomData<*const ()>);

pub fn contain() -> Containment {
    CONTAINED.with(|depth| depth.set(depth.get() + 1));
    Containment(PhantomData)
}

/// True if somebody further up deals with a panic. Where nobody does, it would disappear with its task.
pub fn is_contained() -> bool {
    CONTAINED.with(Cell::get) > 0
}

impl Drop for Containment {
    fn drop(&mut self) {
        CONTAINED.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Shared state is being changed while this lives. Stays on its thread.
#[derive(Debug)]
pub struct Critical(PhantomData<*const ()>);

pub fn enter() -> Critical {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    Critical(PhantomData)
}

/// True if this thread is between [`enter`] and the drop of its guard.
pub fn is_critical() -> bool {
    DEPTH.with(Cell::get) > 0
}

impl Drop for Critical {
    fn drop(&mut self) {
        // The panic hook runs before guards are dropped, so it still sees the depth.
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// A lock whose holder is in a critical section: a panic under it ends the worker.
#[derive(Debug, Default)]
pub struct Lock<T>(parking_lot::Mutex<T>);

#[derive(Debug)]
pub struct Guard<'a, T> {
    inner: parking_lot::MutexGuard<'a, T>,
    _critical: Critical,
}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Lock(parking_lot::Mutex::new(value))
    }

    pub fn lock(&self) -> Guard<'_, T> {
        crate::costs::lock();
        Guard { inner: self.0.lock(), _critical: enter() }
    }

    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let inner = self.0.try_lock()?;
        crate::costs::lock();
        Some(Guard { inner, _critical: enter() })
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_contained_as_long_as_its_guard() {
        assert!(!is_contained());
        {
            let _outer = contain();
            drop(contain());
            assert!(is_contained());
        }
        assert!(!is_contained());
    }

    #[test]
    fn a_held_lock_is_critical() {
        let lock = Lock::new(1);
        assert!(!is_critical());
        {
            let mut held = lock.lock();
            *held += 1;
            assert!(is_critical());
            assert!(lock.try_lock().is_none());
        }
        assert!(!is_critical());
    }
}
