// SPDX-License-Identifier: BSD-2-Clause
//! Models of [`Freeze`]. The table is a cell, so that loom finds a look at it that isn't ordered after all changes.
//!
//! Weakened: the `Release` of a change's end, the `Acquire` of the wait, and the wait itself.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::thread;

use super::*;
use crate::atomic::model::{Weakness, fails_when, holds};

struct Region {
    list: Mutex<()>,
    freeze: Freeze,
    table: [UnsafeCell<u32>; 2],
}

impl Region {
    fn new() -> Arc<Region> {
        let region =
            Region { list: Mutex::new(()), freeze: Freeze::new(), table: [(); 2].map(|()| UnsafeCell::new(0)) };
        region.freeze.set(false);
        Arc::new(region)
    }

    fn change(&self, own: usize) -> u32 {
        {
            let _list = self.list.lock().unwrap();
            if self.freeze.is_frozen() {
                return 0;
            }
            self.freeze.begin_change();
        }
        // SAFETY: another process reads it once nothing changes any more; loom checks that.
        self.table[own].with_mut(|at| unsafe { *at = 1 });
        self.freeze.end_change();
        1
    }

    fn stop(&self, waits: bool) -> u32 {
        {
            let _list = self.list.lock().unwrap();
            self.freeze.set(true);
        }
        if waits {
            self.freeze.wait();
        }
        // SAFETY: nobody changes it any more; loom checks that.
        self.table.iter().map(|word| word.with(|at| unsafe { *at })).sum()
    }
}

fn change_and_freeze(waits: bool) {
    let region = Region::new();
    let threads = [0, 1].map(|own| {
        let region = region.clone();
        thread::spawn(move || region.change(own))
    });
    let found = region.stop(waits);
    let entered: u32 = threads.map(|thread| thread.join().unwrap()).into_iter().sum();
    assert_eq!(found, entered, "the successor finds what was entered");
}

#[test]
fn a_frozen_table_changes_no_more() {
    holds(|| change_and_freeze(true));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn an_end_releases() {
    fails_when(Weakness::NoRelease, || change_and_freeze(true));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn the_wait_acquires() {
    fails_when(Weakness::NoAcquire, || change_and_freeze(true));
}

#[test]
#[should_panic]
fn freezing_waits() {
    holds(|| change_and_freeze(false));
}
