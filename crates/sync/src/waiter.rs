// SPDX-License-Identifier: BSD-2-Clause
//! A waiter: someone who waits in a queue until called. The queue is its owner's, behind the owner's lock; the waiter's own lock
//! is a leaf.
//!
//! No call is lost. A waiter that leaves learns whether it had been called, and the caller learns whether the waiter had left:
//! one of the two then calls the next waiter.

use std::sync::Arc;
use std::task::Waker;

use crate::lock::Lock;

/// See the module. `R` says why it was called.
#[derive(Debug)]
pub struct Waiter<R> {
    state: Lock<WaiterState<R>>,
}

#[derive(Debug)]
enum WaiterState<R> {
    /// The waiter has left the waker of its last poll.
    Waiting(Option<Waker>),
    Called(R),
    Left,
}

#[derive(Debug)]
pub enum WaiterCall {
    /// The waiter left before: call another one.
    Left,
    /// An earlier call, which counts.
    Repeated,
    /// The waiter, whose task (if it has been polled) has to be woken.
    Made(Option<Waker>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave<R> {
    /// Not called: it may still be in the queue.
    Uncalled,
    /// Called: unless it uses the call, another one must be called.
    Called(R),
    Repeated,
}

impl<R: Copy> Waiter<R> {
    /// A waiter that wasn't polled yet.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { state: Lock::new(WaiterState::Waiting(None)) })
    }

    /// Calls it. `count` runs before anybody can see the call, under the waiter's lock. The caller wakes the task, once it holds
    /// no lock.
    pub fn call_counted(&self, reason: R, count: impl FnOnce()) -> WaiterCall {
        let mut state = self.state.lock();
        match &mut *state {
            WaiterState::Left => WaiterCall::Left,
            WaiterState::Called(_) => WaiterCall::Repeated,
            WaiterState::Waiting(waker) => {
                let waker = waker.take();
                count();
                *state = WaiterState::Called(reason);
                WaiterCall::Made(waker)
            }
        }
    }

    /// Calls it and wakes its task; `false` when it has left.
    pub fn call(&self, reason: R) -> bool {
        match self.call_counted(reason, || {}) {
            WaiterCall::Left => false,
            WaiterCall::Repeated => true,
            WaiterCall::Made(waker) => {
                waker.into_iter().for_each(Waker::wake);
                true
            }
        }
    }

    /// Keeps the waker for the call; `None` when there is nothing to wait for any more. Else whether this is the first time.
    pub fn park(&self, waker: &Waker) -> Option<bool> {
        match &mut *self.state.lock() {
            WaiterState::Called(_) | WaiterState::Left => None,
            WaiterState::Waiting(kept) => Some(kept.replace(waker.clone()).is_none()),
        }
    }

    /// Leaves: from now on no call reaches it.
    pub fn leave(&self) -> Leave<R> {
        match std::mem::replace(&mut *self.state.lock(), WaiterState::Left) {
            WaiterState::Waiting(_) => Leave::Uncalled,
            WaiterState::Called(reason) => Leave::Called(reason),
            WaiterState::Left => Leave::Repeated,
        }
    }

    /// True if it has been called and hasn't left.
    pub fn is_called(&self) -> bool {
        matches!(*self.state.lock(), WaiterState::Called(_))
    }

    pub fn has_left(&self) -> bool {
        matches!(*self.state.lock(), WaiterState::Left)
    }
}

/// Calls all of these. For those that have left `more` takes as many others off the queue, until there are none. Returns how many
/// were called.
pub fn call_all<R: Copy>(
    mut waiters: Vec<Arc<Waiter<R>>>,
    reason: R,
    mut more: impl FnMut(usize) -> Vec<Arc<Waiter<R>>>,
) -> usize {
    let mut sum = 0;
    while !waiters.is_empty() {
        let called = waiters.iter().filter(|waiter| waiter.call(reason)).count();
        sum += called;
        waiters = match waiters.len() - called {
            0 => Vec::new(),
            lost => more(lost),
        };
    }
    sum
}

#[cfg(all(test, loom))]
mod proofs;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_is_called_once_and_says_so_when_it_leaves() {
        let waiter = Waiter::new();
        assert_eq!((waiter.park(Waker::noop()), waiter.park(Waker::noop())), (Some(true), Some(false)));
        assert!(waiter.call(1) && waiter.call(2) && waiter.is_called());
        assert_eq!((waiter.park(Waker::noop()), waiter.leave()), (None, Leave::Called(1)));
        assert_eq!((waiter.call(3), waiter.has_left(), waiter.leave()), (false, true, Leave::Repeated));
    }

    #[test]
    fn for_one_that_has_left_another_is_called() {
        let waiters = [Waiter::new(), Waiter::new(), Waiter::new()];
        assert_eq!(waiters[0].leave(), Leave::Uncalled);
        let mut queue = waiters[1..].to_vec();
        assert_eq!(call_all(vec![waiters[0].clone()], (), |count| queue.drain(..count).collect()), 1);
        assert!(waiters[1].is_called() && !waiters[2].is_called());
    }
}
