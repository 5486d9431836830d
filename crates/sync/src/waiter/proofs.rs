// SPDX-License-Identifier: BSD-2-Clause
//! Models of [`Waiter`] and [`call_all`]. The queue is one behind a lock, as a shard's waitinglist is; a waiter that gives up passes
//! its call on, as `cache::Pending` does when it is dropped.
//!
//! Weakened: a waiter that looks for a call and keeps its waker in two steps, one that leaves without passing its call on, and a
//! caller that calls nobody instead of one that has left. Loom finds each as a thread that waits for ever.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;

use loom::thread;
use sys::atomic::model::{block_on, holds};

use super::*;

type Queue = Arc<Lock<VecDeque<Arc<Waiter<u8>>>>>;

fn queue(waiters: &[Arc<Waiter<u8>>]) -> Queue {
    Arc::new(Lock::new(waiters.iter().cloned().collect()))
}

fn take(queue: &Queue, count: usize) -> Vec<Arc<Waiter<u8>>> {
    let mut queue = queue.lock();
    let count = count.min(queue.len());
    queue.drain(..count).collect()
}

fn call_one(queue: &Queue) -> usize {
    call_all(take(queue, 1), 1, |count| take(queue, count))
}

fn wait(waiter: &Waiter<u8>) {
    block_on(poll_fn(|cx| match waiter.park(cx.waker()) {
        Some(_) => Poll::Pending,
        None => Poll::Ready(()),
    }));
}

fn call_and_wait(wait: fn(&Waiter<u8>)) {
    let waiter = Waiter::new();
    let caller = thread::spawn({
        let waiter = waiter.clone();
        move || assert!(waiter.call(1))
    });
    wait(&waiter);
    assert_eq!(waiter.leave(), Leave::Called(1));
    caller.join().unwrap();
}

/// One call for two, of whom the first goes away: the second is called.
fn give_up_and_wait(give_up: fn(&Waiter<u8>, &Queue), call_one: fn(&Queue) -> usize) {
    let (first, second) = (Waiter::new(), Waiter::new());
    let queue = queue(&[first.clone(), second.clone()]);
    let caller = thread::spawn({
        let queue = queue.clone();
        move || call_one(&queue)
    });
    let leaver = thread::spawn(move || give_up(&first, &queue));
    wait(&second);
    assert_eq!(caller.join().unwrap(), 1);
    leaver.join().unwrap();
}

fn give_up(waiter: &Waiter<u8>, queue: &Queue) {
    if let Leave::Called(_) = waiter.leave() {
        call_one(queue);
    }
}

#[test]
fn a_call_reaches_one_that_is_about_to_wait() {
    holds(|| call_and_wait(wait));
}

#[test]
fn who_gives_up_passes_its_call_on() {
    holds(|| give_up_and_wait(give_up, call_one));
}

#[test]
#[should_panic(expected = "deadlock")]
fn looking_and_waiting_are_one_step() {
    holds(|| {
        call_and_wait(|waiter| {
            block_on(poll_fn(|cx| {
                if waiter.is_called() {
                    return Poll::Ready(());
                }
                if let WaiterState::Waiting(kept) = &mut *waiter.state.lock() {
                    *kept = Some(cx.waker().clone());
                }
                Poll::Pending
            }));
        });
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_call_that_nobody_passes_on_is_lost() {
    holds(|| {
        give_up_and_wait(
            |waiter, _| {
                waiter.leave();
            },
            call_one,
        );
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_call_to_one_that_has_left_is_lost() {
    holds(|| {
        give_up_and_wait(give_up, |queue| {
            for waiter in take(queue, 1) {
                waiter.call(1);
            }
            1
        });
    });
}
