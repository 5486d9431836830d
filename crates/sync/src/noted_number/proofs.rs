// SPDX-License-Identifier: BSD-2-Clause
//! Models of [`NotedNumber`]. The place is a flag that is set with `Release` and looked at with `Acquire`, as a `OnceLock` is, and a
//! number that only rises, as an object's words keep how far it was tested against bans (`cache::objcore`).
//!
//! Weakened: the fence.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use loom::thread;
use sys::atomic::AtomicBool;
use sys::atomic::model::{Weakness, fails_when, holds};

use super::*;

struct Object {
    tested: NotedNumber,
    has_bytes: AtomicBool,
    noted: AtomicU64,
}

impl Object {
    fn note(&self) {
        let place = || self.has_bytes.load(Acquire).then_some(&self.noted);
        self.tested.note(place, |noted, number| {
            noted.fetch_max(number, Release);
        });
    }
}

/// One thread makes the place while others, one after the other, raise the number.
fn raise_and_publish(raised: &'static [u64]) {
    let object =
        Arc::new(Object { tested: NotedNumber::new(1), has_bytes: AtomicBool::new(false), noted: AtomicU64::new(0) });
    let raising = thread::spawn({
        let object = object.clone();
        move || {
            for &number in raised {
                object.tested.set(number);
                object.note();
            }
        }
    });
    object.has_bytes.store(true, Release);
    object.note();
    raising.join().unwrap();
    let last = *raised.last().unwrap();
    assert_eq!((object.tested.get(), object.noted.load(Acquire)), (last, last), "the last number is noted");
}

#[test]
fn the_last_number_is_noted() {
    holds(|| raise_and_publish(&[2]));
    holds(|| raise_and_publish(&[2, 3]));
}

#[test]
#[should_panic(expected = "the last number is noted")]
fn without_the_fence_neither_thread_notes_it() {
    fails_when(Weakness::NoFence, || raise_and_publish(&[2]));
}
