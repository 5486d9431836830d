// SPDX-License-Identifier: BSD-2-Clause
//! What happens when file descriptors get few. The kernel gives the lowest number that is free, so a new descriptor whose number is near
//! the limit says without a system call that nearly all are open. From then on they are counted, until there are enough again.
//!
//! Some descriptors are left to fetches: a client that comes then takes the place of the thread's longest idle one. The last ones are left to
//! the CLI, so that an operator can still load VCL: neither a client nor an origin gets them.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::task::{Poll, Waker};

/// Number from which on clients take the places of idle ones.
static SCARCE: AtomicI32 = AtomicI32::new(i32::MAX);
/// Number from which on descriptors are the CLI's.
static KEPT: AtomicI32 = AtomicI32::new(i32::MAX);

/// A number was that high, and there weren't enough again since.
static IS_NEAR: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Idle connections, in the order in which they went idle, each with the turn in which it did.
    static IDLE: RefCell<VecDeque<(Rc<IdleEntry>, u64)>> = const { RefCell::new(VecDeque::new()) };
}

/// This process may have `limit` descriptors.
pub fn set_limit(limit: u64) {
    let number = |of: u64, least: u64, most: u64| {
        i32::try_from(limit.saturating_sub((limit / of).clamp(least, most))).unwrap_or(i32::MAX)
    };
    KEPT.store(number(32, 4, 32), Relaxed);
    SCARCE.store(number(10, 12, 1024), Relaxed);
}

/// True if few are left, now that there is a descriptor of this number; `None`: there was none any more.
#[inline]
pub fn are_few_left(number: Option<i32>) -> bool {
    let scarce = SCARCE.load(Relaxed);
    if number.is_none_or(|number| number >= scarce) {
        IS_NEAR.store(true, Relaxed);
        return true;
    }
    IS_NEAR.load(Relaxed) && count(scarce)
}

#[cold]
fn count(scarce: i32) -> bool {
    let open = sys::limits::open_files().map_or(i32::MAX, |open| open.try_into().unwrap_or(i32::MAX));
    if open < scarce / 8 * 7 {
        IS_NEAR.store(false, Relaxed);
    }
    open >= scarce
}

/// True if few were left a short while ago: a connection that is over isn't kept open then.
#[inline]
pub fn is_near() -> bool {
    IS_NEAR.load(Relaxed)
}

/// True if it is one of those that are left to the CLI.
#[inline]
pub fn is_kept(number: i32) -> bool {
    number >= KEPT.load(Relaxed)
}

/// Entry of a connection among the idle ones of its thread. It is made when the connection is idle for the first time,
/// so that later times allocate nothing.
#[derive(Default)]
pub struct IdleSlot(OnceCell<Rc<IdleEntry>>);

/// A connection that is idle, as long as this lives.
pub struct IdlePlace<'s>(&'s IdleEntry);

#[derive(Default)]
struct IdleEntry {
    waker: Cell<Option<Waker>>,
    is_called: Cell<bool>,
    /// Odd while it is idle.
    turn: Cell<u64>,
}

impl IdleEntry {
    fn is_in(&self, turn: u64) -> bool {
        self.turn.get() == turn
    }
}

impl IdleSlot {
    /// The connection of this task is idle from now on.
    pub fn take(&self) -> IdlePlace<'_> {
        let entry = self.0.get_or_init(Rc::default);
        entry.turn.set(entry.turn.get() + 1);
        IDLE.with_borrow_mut(|idle| {
            // Those that have left are dropped when they are first, or when there is no room for another one.
            if idle.len() == idle.capacity() {
                idle.retain(|(other, turn)| other.is_in(*turn));
            }
            idle.push_back((entry.clone(), entry.turn.get()));
        });
        IdlePlace(entry)
    }
}

impl IdlePlace<'_> {
    /// Ready when the connection is to end.
    pub fn poll(&self, waker: &Waker) -> Poll<()> {
        if self.0.is_called.get() {
            return Poll::Ready(());
        }
        self.0.waker.set(Some(waker.clone()));
        Poll::Pending
    }
}

impl Drop for IdlePlace<'_> {
    fn drop(&mut self) {
        self.0.turn.set(self.0.turn.get() + 1);
        let _ = IDLE.try_with(|idle| {
            let mut idle = idle.borrow_mut();
            while idle.front().is_some_and(|(entry, turn)| !entry.is_in(*turn)) {
                idle.pop_front();
            }
        });
    }
}

/// Ends this thread's longest idle connection; whether there was one.
pub fn end_longest_idle() -> bool {
    let called = IDLE.with_borrow_mut(|idle| {
        while let Some((entry, turn)) = idle.pop_front() {
            if entry.is_in(turn) {
                return Some(entry);
            }
        }
        None
    });
    let Some(entry) = called else { return false };
    entry.is_called.set(true);
    entry.waker.take().into_iter().for_each(Waker::wake);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_idle_goes_first_and_who_has_left_is_passed_over() {
        let slots: [IdleSlot; 4] = Default::default();
        let [first, second, third, fourth] = slots.each_ref().map(IdleSlot::take);
        let ended = |place: &IdlePlace<'_>| place.poll(Waker::noop()).is_ready();
        assert!(end_longest_idle());
        assert_eq!([&first, &second, &third, &fourth].map(ended), [true, false, false, false]);
        drop((second, third));
        let second = slots[1].take();
        assert!(end_longest_idle() && ended(&fourth) && !ended(&second), "it has been busy since");
        assert!(end_longest_idle() && ended(&second) && !end_longest_idle());
    }

    #[test]
    fn idle_places_that_were_left_take_no_room() {
        let (stays, comes) = (IdleSlot::default(), IdleSlot::default());
        let _stays = stays.take();
        for _ in 0..10_000 {
            drop(comes.take());
        }
        assert!(IDLE.with_borrow(VecDeque::capacity) < 100);
    }
}
