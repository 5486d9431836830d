// SPDX-License-Identifier: BSD-2-Clause
//! A place for an `Arc` of one of two types, that others may clone until it is taken out: one word, its lock included.
//!
//! The lock is held for the few steps of a clone or a look, so that whoever finds it held spins.

use std::marker::PhantomData;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::atomic::{Arc, AtomicPtr, spin_loop, yield_now};

/// In the pointer: somebody has the lock. What an `Arc` points to isn't at odd addresses.
const LOCKED: usize = 1;
/// In the pointer: it points to a `U`. Nothing that has one in it is at addresses between multiples of four.
const SECOND: usize = 2;
/// Looks at a lock that is held before the thread lets others run: its holder may be one of them.
const SPINS: u32 = 64;

/// See the module. It has a `T` in it, or a `U`, or nothing.
pub struct ArcCell<T, U = T> {
    /// Null, or what [`Arc::into_raw`] gave, with [`SECOND`] if that was an `Arc<U>`, and with [`LOCKED`].
    at: AtomicPtr<()>,
    owns: PhantomData<(Arc<T>, Arc<U>)>,
}

impl<T, U> ArcCell<T, U> {
    const ALIGNED: () =
        assert!(align_of::<T>() > LOCKED + SECOND && align_of::<U>() > LOCKED + SECOND, "room for both");

    pub fn new(arc: Option<Arc<T>>) -> Self {
        let () = Self::ALIGNED;
        Self { at: AtomicPtr::new(raw(arc)), owns: PhantomData }
    }

    /// Another handle on the `T` in it.
    pub fn get(&self) -> Option<Arc<T>> {
        let held = self.lock();
        // SAFETY: while it is locked, the cell's own count of what is in it stays.
        unsafe { another(held.first()) }
    }

    pub fn second(&self) -> Option<Arc<U>> {
        let held = self.lock();
        // SAFETY: while it is locked, the cell's own count of what is in it stays.
        unsafe { another(held.second()) }
    }

    /// Reads the `T` in it, with the lock held: a few words at most.
    #[inline]
    pub fn with<R>(&self, read: impl FnOnce(Option<&T>) -> R) -> R {
        let held = self.lock();
        // SAFETY: `first` came of `into_raw`, and the cell's own count stays while it is locked.
        read(unsafe { held.first().as_ref() })
    }

    /// Takes out the `T` in it. A `U` stays.
    pub fn take(&self) -> Option<Arc<T>> {
        let mut held = self.lock();
        let first = held.first();
        if first.is_null() {
            return None;
        }
        held.at = std::ptr::null_mut();
        // SAFETY: it came of `into_raw`; with the pointer the cell gives up its count.
        Some(unsafe { Arc::from_raw(first) })
    }

    /// Puts in a `U`, or nothing, in the place of a `U` or nothing, which comes out.
    ///
    /// # Errors
    /// There is a `T` in it: it stays, and `second` comes back.
    pub fn put_second(&self, second: Option<Arc<U>>) -> Result<Option<Arc<U>>, Option<Arc<U>>> {
        let mut held = self.lock();
        if !held.first().is_null() {
            return Err(second);
        }
        let old = held.second();
        held.at = raw(second).map_addr(|addr| if addr == 0 { 0 } else { addr | SECOND });
        // SAFETY: it came of `into_raw`; with the pointer the cell gives up its count.
        Ok((!old.is_null()).then(|| unsafe { Arc::from_raw(old) }))
    }

    fn lock(&self) -> Held<'_, T, U> {
        let mut looks = 0;
        loop {
            let at = self.at.load(Relaxed);
            let locked = at.map_addr(|addr| addr | LOCKED);
            if at != locked && self.at.compare_exchange_weak(at, locked, Acquire, Relaxed).is_ok() {
                return Held { cell: self, at };
            }
            looks += 1;
            if looks % SPINS == 0 { yield_now() } else { spin_loop() }
        }
    }
}

/// The lock, until it is dropped: then `at` is what is in the cell.
struct Held<'a, T, U> {
    cell: &'a ArcCell<T, U>,
    at: *mut (),
}

impl<T, U> Held<'_, T, U> {
    /// Null where there is no `T`.
    fn first(&self) -> *const T {
        if self.at.addr() & SECOND == 0 { self.at.cast_const().cast() } else { std::ptr::null() }
    }

    /// Null where there is no `U`.
    fn second(&self) -> *const U {
        if self.at.addr() & SECOND == 0 {
            return std::ptr::null();
        }
        self.at.map_addr(|addr| addr & !SECOND).cast_const().cast()
    }
}

impl<T, U> Drop for Held<'_, T, U> {
    fn drop(&mut self) {
        self.cell.at.store(self.at, Release);
    }
}

fn raw<A>(arc: Option<Arc<A>>) -> *mut () {
    arc.map_or(std::ptr::null_mut(), |arc| Arc::into_raw(arc).cast_mut().cast())
}

/// Another handle on what came of `into_raw`; none on nothing.
///
/// # Safety
/// `at` is null, or came of [`Arc::into_raw`] and its count stays during the call.
unsafe fn another<A>(at: *const A) -> Option<Arc<A>> {
    if at.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    unsafe { Arc::increment_strong_count(at) };
    // SAFETY: the count is the one just added.
    Some(unsafe { Arc::from_raw(at) })
}

impl<T, U> Drop for ArcCell<T, U> {
    fn drop(&mut self) {
        drop(self.take());
        drop(self.put_second(None));
    }
}

#[cfg(all(test, loom))]
mod proofs;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_cell_is_cloned_until_it_is_taken() {
        let arc = Arc::new(7u64);
        let cell: ArcCell<u64> = ArcCell::new(Some(arc.clone()));
        assert_eq!((size_of::<ArcCell<u64>>(), cell.get(), Arc::strong_count(&arc)), (8, Some(arc.clone()), 3));
        assert_eq!((cell.with(|in_it| in_it.copied()), Arc::strong_count(&arc)), (Some(7), 2));
        assert_eq!((cell.take(), cell.get(), cell.take()), (Some(arc.clone()), None, None));
        drop(ArcCell::<u64>::new(Some(arc.clone())));
        assert_eq!(Arc::strong_count(&arc), 1);
        let empty = ArcCell::<u64>::new(None);
        assert_eq!((empty.get(), empty.with(|in_it| in_it.copied())), (None, None));
    }

    #[test]
    fn one_of_two_types_is_in_a_cell() {
        let (first, second, third) = (Arc::new(7u64), Arc::new("a".to_owned()), Arc::new("b".to_owned()));
        let cell: ArcCell<u64, String> = ArcCell::new(Some(first.clone()));
        assert_eq!(cell.put_second(Some(second.clone())), Err(Some(second.clone())));
        assert_eq!((cell.second(), cell.take()), (None, Some(first.clone())));
        assert_eq!(cell.put_second(Some(second.clone())), Ok(None));
        assert_eq!((cell.get(), cell.take(), cell.with(|in_it| in_it.copied())), (None, None, None));
        assert_eq!((cell.second(), Arc::strong_count(&second)), (Some(second.clone()), 3));
        assert_eq!(cell.put_second(Some(third.clone())), Ok(Some(second.clone())));
        drop(cell);
        let counts = (Arc::strong_count(&first), Arc::strong_count(&second), Arc::strong_count(&third));
        assert_eq!(counts, (1, 1, 1));
    }

    #[test]
    fn threads_that_clone_and_one_that_takes_agree() {
        for round in 0..200u64 {
            let arc = Arc::new(round);
            let cell: ArcCell<u64> = ArcCell::new(Some(arc.clone()));
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
