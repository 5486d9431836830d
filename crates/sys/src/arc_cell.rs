// SPDX-License-Identifier: BSD-2-Clause
//! A place for an `Arc` that others may clone until it is taken out: one word, its lock included.
//!
//! The lock is held for the few steps of a clone or a look, so that whoever finds it held spins.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// In the pointer: somebody has the lock. What an `Arc` points to isn't at odd addresses.
const LOCKED: usize = 1;
/// Looks at a lock that is held before the thread lets others run: its holder may be one of them.
const SPINS: u32 = 64;

/// See the module.
pub struct ArcCell<T> {
    /// Null, or what [`Arc::into_raw`] gave, with [`LOCKED`].
    at: AtomicPtr<T>,
    owns: PhantomData<Arc<T>>,
}

impl<T> ArcCell<T> {
    const ALIGNED: () = assert!(align_of::<T>() > LOCKED, "a pointer has room for the lock");

    /// With that in it.
    pub fn new(arc: Option<Arc<T>>) -> Self {
        let () = Self::ALIGNED;
        Self { at: AtomicPtr::new(raw(arc)), owns: PhantomData }
    }

    /// Another handle on what is in it.
    pub fn get(&self) -> Option<Arc<T>> {
        let at = self.lock();
        if !at.is_null() {
            // SAFETY: `at` came of `into_raw`, and the cell's own count stays while it is locked.
            unsafe { Arc::increment_strong_count(at) };
        }
        self.at.store(at, Release);
        // SAFETY: as above; the count is the one just added.
        (!at.is_null()).then(|| unsafe { Arc::from_raw(at) })
    }

    /// Reads what is in it, with the lock held: a few words at most.
    #[inline]
    pub fn with<R>(&self, read: impl FnOnce(Option<&T>) -> R) -> R {
        let held = Held { cell: self, at: self.lock() };
        // SAFETY: `at` came of `into_raw`, and the cell's own count stays while it is locked.
        read(unsafe { held.at.as_ref() })
    }

    /// Takes out what is in it.
    pub fn take(&self) -> Option<Arc<T>> {
        let at = self.lock();
        self.at.store(std::ptr::null_mut(), Release);
        // SAFETY: it came of `into_raw`; with the pointer the cell gives up its count.
        (!at.is_null()).then(|| unsafe { Arc::from_raw(at) })
    }

    /// Waits for the lock; the pointer without it.
    fn lock(&self) -> *mut T {
        let mut looks = 0;
        loop {
            let at = self.at.load(Relaxed);
            let locked = at.map_addr(|addr| addr | LOCKED);
            if at != locked && self.at.compare_exchange_weak(at, locked, Acquire, Relaxed).is_ok() {
                return at;
            }
            looks += 1;
            if looks % SPINS == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// The lock, until it is dropped.
struct Held<'a, T> {
    cell: &'a ArcCell<T>,
    at: *mut T,
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.cell.at.store(self.at, Release);
    }
}

fn raw<T>(arc: Option<Arc<T>>) -> *mut T {
    arc.map_or(std::ptr::null_mut(), |arc| Arc::into_raw(arc).cast_mut())
}

impl<T> Drop for ArcCell<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_cell_is_cloned_until_it_is_taken() {
        let arc = Arc::new(7u64);
        let cell = ArcCell::new(Some(arc.clone()));
        assert_eq!((size_of::<ArcCell<u64>>(), cell.get(), Arc::strong_count(&arc)), (8, Some(arc.clone()), 3));
        assert_eq!((cell.with(|in_it| in_it.copied()), Arc::strong_count(&arc)), (Some(7), 2));
        assert_eq!((cell.take(), cell.get(), cell.take()), (Some(arc.clone()), None, None));
        drop(ArcCell::new(Some(arc.clone())));
        assert_eq!(Arc::strong_count(&arc), 1);
        let empty = ArcCell::<u64>::new(None);
        assert_eq!((empty.get(), empty.with(|in_it| in_it.copied())), (None, None));
    }

    #[test]
    fn threads_that_clone_and_one_that_takes_agree() {
        for round in 0..200u64 {
            let arc = Arc::new(round);
            let cell = ArcCell::new(Some(arc.clone()));
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        while let Some(got) = cell.get() {
                            assert_eq!(*got, round);
                        }
                    });
                }
                scope.spawn(|| while cell.with(|in_it| in_it.map(|found| assert_eq!(*found, round))).is_some() {});
                scope.spawn(|| assert!(cell.take().is_some()));
            });
            assert_eq!(Arc::strong_count(&arc), 1);
        }
    }
}
