// SPDX-License-Identifier: BSD-2-Clause
//! Models of [`Line`] behind a lock, as all that share one have it. A waiter that gives up passes its call on, as they do when its
//! future is dropped.
//!
//! Weakened: a waiter that looks for a call and keeps its waker in two steps, one that leaves without passing its call on, and a
//! call to one that has left. Loom finds each as a thread that waits for ever.

use std::future::poll_fn;

use loom::thread;
use sys::atomic::model::{block_on, holds};

use super::*;

type Shared = Arc<Lock<Line<u8>>>;

fn join_two(line: &Shared) -> [Turn<u8>; 2] {
    let mut line = line.lock();
    [line.join(), line.join()]
}

fn call(line: &Shared) {
    let called = line.lock().call(1);
    called.into_iter().for_each(Called::wake);
}

fn give_up(line: &Shared, turn: &Turn<u8>) {
    let unused = line.lock().leave(turn);
    if unused.is_some() {
        call(line);
    }
}

fn wait(turn: &Turn<u8>) {
    block_on(poll_fn(|cx| turn.poll(cx)));
}

fn call_and_wait(wait: fn(&Turn<u8>)) {
    let line = Shared::default();
    let turn = line.lock().join();
    let caller = thread::spawn({
        let line = line.clone();
        move || call(&line)
    });
    wait(&turn);
    assert_eq!(turn.take(), Some(1));
    caller.join().unwrap();
}

/// One call for two, of whom the first goes away: the second is called.
fn give_up_and_wait(give_up: fn(&Shared, &Turn<u8>), call: fn(&Shared)) {
    let line = Shared::default();
    let [first, second] = join_two(&line);
    let caller = thread::spawn({
        let line = line.clone();
        move || call(&line)
    });
    let leaver = thread::spawn({
        let line = line.clone();
        move || give_up(&line, &first)
    });
    wait(&second);
    caller.join().unwrap();
    leaver.join().unwrap();
    assert!(line.lock().is_empty());
}

#[test]
fn a_call_reaches_one_that_is_about_to_wait() {
    holds(|| call_and_wait(wait));
}

#[test]
fn who_gives_up_passes_its_call_on() {
    holds(|| give_up_and_wait(give_up, call));
}

/// Both use their call, or leave, at the same time as they are called: each call is used once or passed on.
#[test]
fn a_call_is_used_or_passed_on() {
    holds(|| {
        let line = Shared::default();
        let [first, second] = join_two(&line);
        let caller = thread::spawn({
            let line = line.clone();
            move || call(&line)
        });
        let used = first.take();
        give_up(&line, &first);
        caller.join().unwrap();
        assert_eq!(second.is_called(), used.is_none(), "one of the two has the call");
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn looking_and_waiting_are_one_step() {
    holds(|| {
        call_and_wait(|turn| {
            block_on(poll_fn(|cx| {
                if turn.is_called() {
                    return Poll::Ready(());
                }
                if let TurnState::Waiting(kept) = &mut *turn.0.lock() {
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
    holds(|| give_up_and_wait(|line, turn| drop(line.lock().leave(turn)), call));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_call_to_one_that_has_left_is_lost() {
    holds(|| {
        give_up_and_wait(give_up, |line| {
            let first = line.lock().turns.pop_front();
            let before = first.map(|turn| mem::replace(&mut *turn.lock(), TurnState::Called(1)));
            if let Some(TurnState::Waiting(Some(waker))) = before {
                waker.wake();
            }
        });
    });
}
