// SPDX-License-Identifier: BSD-2-Clause
//! Models of [`Limit`] itself. A call that is lost is a thread that waits for ever, which loom finds.
//!
//! Weakened: the sequential consistency of `busy` and `waiting`, and a call that is counted once it can be seen.

use std::future::poll_fn;
use std::sync::Arc;

use loom::thread;
use sys::atomic::model::{Weakness, block_on, fails_when, holds};

use super::*;

fn limit(most: u64) -> Arc<Limit> {
    let limit = Limit::default();
    limit.set(most, 10);
    Arc::new(limit)
}

/// Does what `engine::admission::enter` and the future that it returns do.
fn enter(limit: &Limit) {
    if !limit.try_enter() {
        wait(limit, &limit.queue_up().unwrap());
    }
}

fn wait(limit: &Limit, place: &LimitPlace) {
    block_on(poll_fn(|cx| limit.poll(place, cx)));
}

fn is_idle(limit: &Limit) {
    assert_eq!((limit.busy(), limit.waiting()), (0, 0));
}

/// Threads that enter and leave, where one is allowed.
fn enter_and_leave(others: usize) {
    let limit = limit(1);
    let run = |limit: &Limit| {
        enter(limit);
        limit.leave();
    };
    let threads: Vec<_> = (0..others)
        .map(|_| {
            let limit = limit.clone();
            thread::spawn(move || run(&limit))
        })
        .collect();
    run(&limit);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    is_idle(&limit);
}

fn enter_and_raise() {
    let limit = limit(0);
    let raising = thread::spawn({
        let limit = limit.clone();
        move || {
            limit.set(1, 10);
            limit.call_next();
        }
    });
    enter(&limit);
    limit.leave();
    raising.join().unwrap();
    is_idle(&limit);
}

/// The first of two that wait gives up, maybe called already, while the place before them becomes free.
fn give_up_and_wait() {
    let limit = limit(1);
    assert!(limit.try_enter());
    let (first, second) = (limit.queue_up().unwrap(), limit.queue_up().unwrap());
    let leaving = thread::spawn({
        let limit = limit.clone();
        move || limit.leave()
    });
    let giving_up = thread::spawn({
        let limit = limit.clone();
        move || limit.give_up(&first)
    });
    wait(&limit, &second);
    limit.leave();
    leaving.join().unwrap();
    giving_up.join().unwrap();
    is_idle(&limit);
}

/// A waiter is counted before it is called: if it leaves at once, `busy` doesn't go below zero.
fn call_and_leave(call_next: fn(&Limit)) {
    let limit = limit(0);
    let place = limit.queue_up().unwrap();
    let calling = thread::spawn({
        let limit = limit.clone();
        move || {
            limit.set(1, 10);
            call_next(&limit);
        }
    });
    limit.give_up(&place);
    assert!(limit.busy() <= 1, "more have left than entered");
    calling.join().unwrap();
    is_idle(&limit);
}

#[test]
fn who_leaves_and_who_queues_up_see_each_other() {
    holds(|| enter_and_leave(1));
}

#[test]
fn three_that_come_at_once_all_have_their_turn() {
    holds(|| enter_and_leave(2));
}

#[test]
fn a_raised_limit_reaches_who_queues_up() {
    holds(enter_and_raise);
}

#[test]
fn who_gives_up_hands_its_turn_on() {
    holds(give_up_and_wait);
}

#[test]
fn who_is_called_is_counted() {
    holds(|| call_and_leave(Limit::call_next));
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_sequential_consistency_a_call_is_lost() {
    fails_when(Weakness::NoSeqCst, || enter_and_leave(1));
}

#[test]
#[should_panic(expected = "more have left than entered")]
fn a_call_that_is_counted_late_is_one_too_few() {
    holds(|| {
        call_and_leave(|limit| {
            let called = limit.queue.lock().call(());
            limit.waiting.store(0, SeqCst);
            if called.is_some() {
                limit.enter_anyway();
            }
            called.into_iter().for_each(Called::wake);
        });
    });
}
