// SPDX-License-Identifier: BSD-2-Clause
//! Models of [`DerivedFlag`] with two reasons, as an engine is restricted by a successor or by its fleet.
//!
//! Weakened: without the lock, as it was before: set first, calculated, cleared, and calculated again. In the end the flag was
//! right, but a thread that had set it could find it cleared.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use loom::thread;
use sys::atomic::model::holds;

use super::*;

#[derive(Default)]
struct Restriction {
    has_successor: AtomicBool,
    is_gated: AtomicBool,
    is_restricted: DerivedFlag,
}

impl Restriction {
    fn has_reason(&self) -> bool {
        self.has_successor.load(SeqCst) || self.is_gated.load(SeqCst)
    }

    fn update(&self) {
        self.is_restricted.update(|| self.has_reason());
    }

    fn update_without_lock(&self) {
        let flag = &self.is_restricted.flag;
        flag.store(true, SeqCst);
        if !self.has_reason() {
            flag.store(false, SeqCst);
            if self.has_reason() {
                flag.store(true, SeqCst);
            }
        }
    }
}

fn come_and_go(update: fn(&Restriction)) {
    let restriction = Arc::new(Restriction::default());
    restriction.is_gated.store(true, SeqCst);
    update(&restriction);
    let going = thread::spawn({
        let restriction = restriction.clone();
        move || {
            restriction.is_gated.store(false, SeqCst);
            update(&restriction);
        }
    });
    restriction.has_successor.store(true, SeqCst);
    update(&restriction);
    assert!(restriction.is_restricted.get(), "it has just been restricted");
    going.join().unwrap();
    assert!(restriction.is_restricted.get());
}

fn go_and_go() {
    let restriction = Arc::new(Restriction::default());
    restriction.is_gated.store(true, SeqCst);
    restriction.has_successor.store(true, SeqCst);
    restriction.update();
    let going = thread::spawn({
        let restriction = restriction.clone();
        move || {
            restriction.is_gated.store(false, SeqCst);
            restriction.update();
        }
    });
    restriction.has_successor.store(false, SeqCst);
    restriction.update();
    going.join().unwrap();
    assert!(!restriction.is_restricted.get());
}

#[test]
fn a_reason_that_has_come_is_seen_while_another_one_goes() {
    holds(|| come_and_go(Restriction::update));
}

#[test]
fn when_the_last_reason_goes_the_flag_does() {
    holds(go_and_go);
}

#[test]
#[should_panic(expected = "it has just been restricted")]
fn without_the_lock_a_set_flag_may_be_cleared_for_a_moment() {
    holds(|| come_and_go(Restriction::update_without_lock));
}
