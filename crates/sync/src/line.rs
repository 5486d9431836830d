// SPDX-License-Identifier: BSD-2-Clause
//! A line: those who wait for their turn, first come, first served. Whoever goes away and had been called passes the call on.
//!
//! A [`Line`] has no lock. It is part of its owner's state: the owner joins, calls and leaves it under the lock of that state,
//! or on one thread. So a call and a departure never cross. A call reaches somebody who is still there, and whoever leaves
//! learns whether it had been called. Only a look at one's own [`Turn`] needs nothing of the owner's. The lock of a turn is a
//! leaf.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::lock::Lock;

/// See the module. `R` says why somebody is called.
#[derive(Debug)]
pub struct Line<R> {
    turns: VecDeque<Arc<Lock<TurnState<R>>>>,
    /// Number of `turns` that have left; always less than half of them.
    left: usize,
}

/// A place in a line. Its owner gives it to [`Line::leave`] when it is dropped.
#[derive(Debug)]
pub struct Turn<R>(Arc<Lock<TurnState<R>>>);

#[derive(Debug)]
enum TurnState<R> {
    /// Holds the waker of the last poll.
    Waiting(Option<Waker>),
    Called(R),
    /// The call was used, or the line was left.
    Over,
}

/// Somebody was called. Its task has to be woken, once no lock is held.
#[must_use]
#[derive(Debug)]
pub struct Called(Option<Waker>);

impl Called {
    pub fn wake(self) {
        self.0.into_iter().for_each(Waker::wake);
    }

    /// The task's waker, if the turn was polled before.
    pub fn into_waker(self) -> Option<Waker> {
        self.0
    }
}

impl<R> Default for Line<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R> Line<R> {
    pub const fn new() -> Self {
        Self { turns: VecDeque::new(), left: 0 }
    }

    /// Number of those who wait.
    pub fn len(&self) -> usize {
        self.turns.len() - self.left
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn join(&mut self) -> Turn<R> {
        let turn = Arc::new(Lock::new(TurnState::Waiting(None)));
        self.turns.push_back(turn.clone());
        Turn(turn)
    }

    /// Calls the one that has waited longest. `None`: nobody waits.
    pub fn call(&mut self, reason: R) -> Option<Called> {
        while let Some(turn) = self.turns.pop_front() {
            let mut state = turn.lock();
            if let TurnState::Waiting(waker) = &mut *state {
                let waker = waker.take();
                *state = TurnState::Called(reason);
                return Some(Called(waker));
            }
            self.left -= 1;
        }
        None
    }

    /// Takes a place out of the line. `Some`: it had been called and hasn't used that, so another one is to be called.
    #[must_use]
    pub fn leave(&mut self, turn: &Turn<R>) -> Option<R> {
        let before = mem::replace(&mut *turn.0.lock(), TurnState::Over);
        match before {
            TurnState::Called(reason) => return Some(reason),
            TurnState::Over => {}
            TurnState::Waiting(_) => {
                // Swept away when half of them are like it: then a departure costs the same however long the line is.
                self.left += 1;
                if self.left * 2 >= self.turns.len() {
                    self.turns.retain(|turn| matches!(*turn.lock(), TurnState::Waiting(_)));
                    self.left = 0;
                }
            }
        }
        None
    }
}

impl<R> Turn<R> {
    /// Ready once it has been called (or is over). The call isn't used by that.
    pub fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let TurnState::Waiting(kept) = &mut *self.0.lock() else { return Poll::Ready(()) };
        match kept {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *kept = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Uses the call, if there is one: from now on it isn't passed on.
    pub fn take(&self) -> Option<R> {
        let mut state = self.0.lock();
        if !matches!(*state, TurnState::Called(_)) {
            return None;
        }
        match mem::replace(&mut *state, TurnState::Over) {
            TurnState::Called(reason) => Some(reason),
            TurnState::Waiting(_) | TurnState::Over => None,
        }
    }

    /// True if it has been called and hasn't used that.
    pub fn is_called(&self) -> bool {
        matches!(*self.0.lock(), TurnState::Called(_))
    }
}

#[cfg(all(test, loom))]
mod proofs;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn is_ready<R>(turn: &Turn<R>) -> bool {
        turn.poll(&Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_first_is_called_first_and_uses_its_call_once() {
        let mut line = Line::new();
        let [first, second] = [line.join(), line.join()];
        assert!(!is_ready(&first) && first.take().is_none());
        assert!(line.call(1).is_some_and(|called| called.into_waker().is_some()), "it was polled");
        assert!(line.call(2).is_some_and(|called| called.into_waker().is_none()), "it will look");
        assert!(line.call(3).is_none() && line.is_empty() && is_ready(&first) && is_ready(&second));
        assert_eq!((first.take(), first.take(), line.leave(&first)), (Some(1), None, None));
        assert_eq!((line.leave(&second), line.leave(&second), second.is_called()), (Some(2), None, false));
    }

    #[test]
    fn those_who_leave_are_not_called_and_are_swept_away() {
        let mut line = Line::new();
        let turns: Vec<_> = (0..1000).map(|_| line.join()).collect();
        for (n, turn) in turns.iter().enumerate().filter(|(n, _)| n % 100 != 99) {
            assert_eq!(line.leave(turn), None);
            assert!(line.len() == 1000 - (n + 1 - n / 100) && line.turns.len() <= 2 * line.len());
        }
        for turn in turns.iter().skip(99).step_by(100) {
            assert!(line.call(()).is_some() && turn.is_called());
        }
        assert!(line.is_empty() && line.turns.is_empty() && line.left == 0);
    }
}
