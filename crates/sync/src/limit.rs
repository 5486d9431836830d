// SPDX-License-Identifier: BSD-2-Clause
//! A limit on how many are in progress at once, with a queue for those who come when it is reached.
//!
//! Entering and leaving take no lock while nobody waits. Who leaves looks whether somebody waits; who queues up says so first,
//! and then looks whether there is room. Both sides write before they read, sequentially consistent, so that one of them sees
//! the other.
//!
//! The limit is one for who comes late, no wall: a call from the queue and somebody who enters at the same moment may both find
//! the last free place.

use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::task::{Context, Poll};

use sys::atomic::AtomicU64;

use crate::line::{Called, Line, Turn};
use crate::lock::Lock;

/// See the module. Without [`Limit::set`] nobody may enter.
#[derive(Debug, Default)]
pub struct Limit {
    busy: AtomicU64,
    most: AtomicU64,
    most_waiting: AtomicU64,
    waiting: AtomicU64,
    queue: Lock<Line<()>>,
}

/// A place in the queue. Once it isn't wanted any more, or is used, it goes to [`Limit::give_up`].
#[derive(Debug)]
pub struct LimitPlace(Turn<()>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueFull;

impl Limit {
    /// Sets how many may be in progress, and how many may wait. Who waits learns of it by [`Limit::call_next`].
    pub fn set(&self, most: u64, most_waiting: u64) {
        self.most.store(most, SeqCst);
        self.most_waiting.store(most_waiting, SeqCst);
    }

    #[inline]
    pub fn most(&self) -> u64 {
        self.most.load(Relaxed)
    }

    #[inline]
    pub fn busy(&self) -> u64 {
        self.busy.load(Relaxed)
    }

    #[inline]
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    /// True if one that came now would have to wait or be refused.
    #[inline]
    pub fn is_saturated(&self) -> bool {
        self.busy() >= self.most()
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.is_saturated() && self.waiting() >= self.most_waiting.load(Relaxed)
    }

    #[inline]
    pub fn try_enter(&self) -> bool {
        if self.busy.fetch_add(1, SeqCst) < self.most.load(Relaxed) {
            return true;
        }
        self.leave();
        false
    }

    #[inline]
    pub fn enter_anyway(&self) {
        self.busy.fetch_add(1, SeqCst);
    }

    /// Leaves, and calls the next waiter.
    #[inline]
    pub fn leave(&self) {
        self.busy.fetch_sub(1, SeqCst);
        // A waiter raises `waiting` before it reads `busy` again, so one of the two sees the other.
        if self.waiting.load(SeqCst) > 0 {
            self.call_next();
        }
    }

    pub fn queue_up(&self) -> Result<LimitPlace, QueueFull> {
        let turn = {
            let mut queue = self.queue.lock();
            if queue.len() as u64 >= self.most_waiting.load(SeqCst) {
                return Err(QueueFull);
            }
            let turn = queue.join();
            self.waiting.store(queue.len() as u64, SeqCst);
            turn
        };
        self.call_next();
        Ok(LimitPlace(turn))
    }

    /// Calls as many of the queue as there is room for.
    pub fn call_next(&self) {
        let mut called = Vec::new();
        {
            let mut queue = self.queue.lock();
            while !queue.is_empty() && self.busy.load(SeqCst) < self.most.load(SeqCst) {
                // Counted before it can be seen: who is called may leave at once.
                self.enter_anyway();
                called.extend(queue.call(()));
                self.waiting.store(queue.len() as u64, SeqCst);
            }
        }
        called.into_iter().for_each(Called::wake);
    }

    /// True if its turn has come: then it has entered, and is to [`Limit::leave`].
    pub fn poll(&self, place: &LimitPlace, cx: &mut Context<'_>) -> Poll<()> {
        place.0.poll(cx).map(|()| _ = place.0.take())
    }

    /// A place isn't wanted any more; without effect when its turn has come and [`Limit::poll`] has said so. `true`: it had been
    /// called, unseen, and somebody else has been called instead.
    pub fn give_up(&self, place: &LimitPlace) -> bool {
        let was_called = {
            let mut queue = self.queue.lock();
            let was_called = queue.leave(&place.0).is_some();
            self.waiting.store(queue.len() as u64, SeqCst);
            was_called
        };
        if was_called {
            self.leave();
        }
        was_called
    }
}

#[cfg(all(test, loom))]
mod proofs;

#[cfg(all(test, not(loom)))]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn who_gives_up_hands_its_turn_on() {
        let (limit, mut cx) = (Limit::default(), Context::from_waker(Waker::noop()));
        limit.set(1, 2);
        assert!(limit.try_enter() && !limit.try_enter() && limit.is_saturated() && !limit.is_full());
        let (first, second) = (limit.queue_up().unwrap(), limit.queue_up().unwrap());
        assert_eq!((limit.queue_up().unwrap_err(), limit.waiting(), limit.is_full()), (QueueFull, 2, true));
        assert!(limit.poll(&first, &mut cx).is_pending());
        limit.leave();
        assert_eq!((limit.busy(), limit.waiting(), limit.give_up(&first), limit.give_up(&first)), (1, 1, true, false));
        assert!(limit.poll(&second, &mut cx).is_ready() && !limit.give_up(&second));
        limit.leave();
        assert_eq!((limit.busy(), limit.waiting()), (0, 0));
    }
}
