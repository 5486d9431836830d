// SPDX-License-Identifier: BSD-2-Clause
//! Loom's atomics, with two additions.
//!
//! *Sequential consistency.* Loom takes an access that is `SeqCst` for one that acquires and releases, and raises false alarms
//! where more is needed. Its `SeqCst` fences are true ones. So such an access has a fence before it, or, in another run, after it.
//! Each of the two orders the access among all others that are `SeqCst`, and each orders a weaker access on one of its sides,
//! too, which the language doesn't: what passes both runs relies on neither.
//!
//! *Weakening.* A model has to be able to fail: [`fails_when`] takes an ordering away from the code under test.

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::atomic as loom_atomic;

/// An ordering that the code under test is deprived of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weakness {
    /// Loads, and the loading half of updates, don't acquire.
    NoAcquire,
    /// Stores, and the storing half of updates, don't release.
    NoRelease,
    /// `SeqCst` accesses acquire and release only.
    NoSeqCst,
    NoFence,
}

thread_local! {
    // Loom runs the threads of a model one at a time on the test's own thread.
    static WEAKNESS: Cell<Option<Weakness>> = const { Cell::new(None) };
    static IS_FENCED_BEFORE: Cell<bool> = const { Cell::new(true) };
}

/// Preemptions in an execution: nearly all bugs need one or two.
const PREEMPTIONS: usize = 3;

/// Tries all interleavings of the threads that `model` starts.
///
/// # Panics
/// One of them panics, leaks, races or blocks for ever.
pub fn holds(model: impl Fn() + Sync + Send + 'static) {
    let model = Arc::new(model);
    for is_fenced_before in [true, false] {
        IS_FENCED_BEFORE.set(is_fenced_before);
        let model = model.clone();
        builder().check(move || model());
    }
}

/// Panics, and says how, when the code under test lacks an ordering.
///
/// # Panics
/// As it should; it doesn't when loom finds nothing.
pub fn fails_when(weakness: Weakness, model: impl Fn() + Sync + Send + 'static) {
    WEAKNESS.set(Some(weakness));
    builder().check(model);
}

/// Polls a future until it is ready, and blocks the thread until its waker is called in between. (Loom's own `block_on` aborts the
/// process where a thread waits for ever, as it drops one of loom's objects while it unwinds.)
///
/// # Panics
/// The waker is never called: a deadlock.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Woken(loom::sync::Notify);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.notify();
        }
    }

    let (mut future, woken) = (pin!(future), Arc::new(Woken(loom::sync::Notify::new())));
    let waker = Waker::from(woken.clone());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        woken.0.wait();
    }
}

fn builder() -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder
}

fn is_weak(weakness: Weakness) -> bool {
    WEAKNESS.get() == Some(weakness)
}

fn weakened(order: Ordering) -> Ordering {
    match order {
        Acquire if is_weak(Weakness::NoAcquire) => Relaxed,
        Release if is_weak(Weakness::NoRelease) => Relaxed,
        AcqRel if is_weak(Weakness::NoAcquire) => Release,
        AcqRel if is_weak(Weakness::NoRelease) => Acquire,
        order => order,
    }
}

fn access<R>(order: Ordering, access: impl FnOnce(Ordering) -> R) -> R {
    let needs_fence = order == SeqCst && !is_weak(Weakness::NoSeqCst);
    if needs_fence && IS_FENCED_BEFORE.get() {
        loom_atomic::fence(SeqCst);
    }
    let result = access(weakened(order));
    if needs_fence && !IS_FENCED_BEFORE.get() {
        loom_atomic::fence(SeqCst);
    }
    result
}

pub fn fence(order: Ordering) {
    if !is_weak(Weakness::NoFence) {
        loom_atomic::fence(order);
    }
}

macro_rules! atomic {
    ($name:ident, $value:ty $(, $generic:ident)?) => {
        /// Model of the type of that name in `std`.
        #[derive(Debug)]
        pub struct $name$(<$generic>)?(loom_atomic::$name$(<$generic>)?);

        impl$(<$generic>)? $name$(<$generic>)? {
            pub fn new(value: $value) -> Self {
                Self(loom_atomic::$name::new(value))
            }

            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                access(order, |order| self.0.load(order))
            }

            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                access(order, |order| self.0.store(value, order))
            }

            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                access(order, |order| self.0.swap(value, order))
            }

            /// Like `std`'s; may fail without a reason.
            ///
            /// # Errors
            /// The value found.
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                access(success, |success| self.0.compare_exchange_weak(current, new, success, failure))
            }
        }
    };
}

macro_rules! number {
    ($name:ident, $value:ty) => {
        atomic!($name, $value);

        impl $name {
            #[track_caller]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                access(order, |order| self.0.fetch_add(value, order))
            }

            #[track_caller]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                access(order, |order| self.0.fetch_sub(value, order))
            }

            #[track_caller]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                access(order, |order| self.0.fetch_max(value, order))
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new(0)
            }
        }
    };
}

number!(AtomicU32, u32);
number!(AtomicU64, u64);
atomic!(AtomicBool, bool);
atomic!(AtomicPtr, *mut T, T);

impl Default for AtomicBool {
    fn default() -> Self {
        Self::new(false)
    }
}

#[cfg(test)]
mod proofs {
    use super::*;

    /// Two threads write one word each and read the other's: with sequential consistency one of them sees the other.
    fn store_buffer(order: Ordering, is_fenced: bool) {
        let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let run = move |words: &[AtomicU32; 2], own: usize| {
            words[own].store(1, order);
            if is_fenced {
                fence(SeqCst);
            }
            words[1 - own].load(order)
        };
        let theirs = loom::thread::spawn({
            let words = words.clone();
            move || run(&words, 1)
        });
        let mine = run(&words, 0);
        assert!(mine + theirs.join().unwrap() > 0, "neither thread saw the other");
    }

    #[test]
    fn one_of_two_sequentially_consistent_threads_sees_the_other() {
        holds(|| store_buffer(SeqCst, false));
        holds(|| store_buffer(Relaxed, true));
    }

    #[test]
    #[should_panic(expected = "neither thread saw the other")]
    fn without_sequential_consistency_neither_may() {
        fails_when(Weakness::NoSeqCst, || store_buffer(SeqCst, false));
    }

    #[test]
    #[should_panic(expected = "neither thread saw the other")]
    fn without_a_fence_neither_may() {
        fails_when(Weakness::NoFence, || store_buffer(Relaxed, true));
    }
}
