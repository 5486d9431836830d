// SPDX-License-Identifier: BSD-2-Clause
//! Models of [`ArcCell`] itself, on loom's `Arc`, which also finds counts that are wrong, and use after the last one.
//!
//! Two threads each: of more, those that wait for the lock could look at it for ever, one after the other, without an end that loom
//! knows of.
//!
//! Weakened: the lock's `Acquire`, and its `Release`. Each alone makes a model fail.

use loom::cell::UnsafeCell;
use loom::thread;

use super::*;
use crate::atomic::model::{Weakness, fails_when, holds};

/// Something that is written once without an ordering of its own: loom finds a read that isn't ordered after the write.
struct Written(UnsafeCell<u64>);

impl Written {
    fn new(value: u64) -> Arc<Self> {
        let written = Self(UnsafeCell::new(0));
        // SAFETY: nobody else has it yet.
        written.0.with_mut(|at| unsafe { *at = value });
        Arc::new(written)
    }

    fn read(&self) -> u64 {
        // SAFETY: nobody writes once it is shared; loom checks that.
        self.0.with(|at| unsafe { *at })
    }
}

fn cell(value: Option<u64>) -> Arc<ArcCell<Written>> {
    Arc::new(ArcCell::new(value.map(Written::new)))
}

/// One clones and looks while another takes it out: it gets all of it or nothing, and it is freed once.
fn clone_and_take() {
    let cell = cell(Some(7));
    let looking = thread::spawn({
        let cell = cell.clone();
        move || {
            let got = cell.get().map(|got| got.read());
            [got, cell.with(|found| found.map(Written::read))]
        }
    });
    assert_eq!(cell.take().map(|taken| taken.read()), Some(7));
    assert!(cell.get().is_none());
    assert!(matches!(looking.join().unwrap(), [Some(7), Some(7) | None] | [None, None]));
}

fn take_twice() {
    let cell = cell(Some(7));
    let other = thread::spawn({
        let cell = cell.clone();
        move || cell.take().is_some()
    });
    let took = cell.take().is_some();
    assert!(took != other.join().unwrap(), "one of them has it");
}

/// One puts in a `U` while another takes out the `T` and then looks for the `U`.
fn put_and_read() {
    let cell: Arc<ArcCell<u64, Written>> = Arc::new(ArcCell::new(Some(Arc::new(1))));
    let reading = thread::spawn({
        let cell = cell.clone();
        move || {
            assert!(cell.take().is_some());
            cell.second().map(|second| second.read())
        }
    });
    let was_put = cell.put_second(Some(Written::new(9))).is_ok();
    let seen = reading.join().unwrap();
    assert!(seen.is_none() || was_put && seen == Some(9));
    assert_eq!(cell.second().map(|second| second.read()), was_put.then_some(9));
}

/// A reader who finds nothing sees what was written before the value was taken out: an objcore has its bytes or its
/// fetch in progress.
fn nothing_means_taken() {
    let (cell, bytes) = (cell(Some(7)), Written::new(0));
    let finishing = thread::spawn({
        let (cell, bytes) = (cell.clone(), bytes.clone());
        move || {
            // SAFETY: the others read it only once the cell is empty; loom checks that.
            bytes.0.with_mut(|at| unsafe { *at = 8 });
            drop(cell.take());
        }
    });
    let seen = cell.with(|found| found.map_or_else(|| bytes.read(), Written::read));
    assert!(seen == 7 || seen == 8);
    finishing.join().unwrap();
}

#[test]
fn threads_that_clone_and_one_that_takes_agree() {
    holds(clone_and_take);
}

#[test]
fn what_is_in_it_is_taken_once() {
    holds(take_twice);
}

#[test]
fn who_reads_what_was_put_in_sees_all_of_it() {
    holds(put_and_read);
}

#[test]
fn an_empty_cell_is_seen_after_what_came_before() {
    holds(nothing_means_taken);
}

#[test]
#[should_panic]
fn the_lock_acquires() {
    fails_when(Weakness::NoAcquire, nothing_means_taken);
}

#[test]
#[should_panic]
fn the_lock_releases() {
    fails_when(Weakness::NoRelease, nothing_means_taken);
}
