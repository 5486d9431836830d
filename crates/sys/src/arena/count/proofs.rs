// SPDX-License-Identifier: BSD-2-Clause
//! Models of [`Count`] and of the books ([`Slots`]), both the product's own. The slot is two counts and one cell instead of a piece
//! of a mapping, and the few lines of `Arena` and `handle` between them are repeated here: `Arena::slot`, `Unheld::free`, `Arena::own`.
//!
//! Weakened: the `Release` of a drop, the fence after the last one, and, between generations, the wait for the former process.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::thread;

use super::*;
use crate::arena::slots::{SlotPlace, Slots};
use crate::atomic::AtomicBool;
use crate::atomic::model::{Weakness, fails_when, holds};

/// A class of slots that take whole pages: a slab has one.
const BIG: u8 = 0;

struct Slot {
    counts: [Count; 2],
    bytes: UnsafeCell<u64>,
    books: [Mutex<Slots>; 2],
    has_let_go: AtomicBool,
}

impl Slot {
    /// In use by the process that counts in `counts[0]`, with so many handles.
    fn new(handles: usize) -> (Arc<Slot>, SlotPlace) {
        let mut slots = Slots::new(2);
        let place = slots.add(1, 1, BIG);
        let slot = Slot {
            counts: [Count(AtomicU32::new(0)), Count(AtomicU32::new(0))],
            bytes: UnsafeCell::new(1),
            books: [Mutex::new(slots), Mutex::new(Slots::new(2))],
            has_let_go: AtomicBool::new(false),
        };
        slot.counts[0].first();
        (1..handles).for_each(|_| slot.counts[0].add());
        (Arc::new(slot), place)
    }

    fn read(&self) -> u64 {
        // SAFETY: bytes don't change while there is a handle; loom checks that.
        self.bytes.with(|at| unsafe { *at })
    }

    fn write(&self, value: u64) {
        // SAFETY: the slot is the caller's alone; loom checks that.
        self.bytes.with_mut(|at| unsafe { *at = value });
    }

    /// Drops a handle of a process. The last one frees the slot; whether its page is free now.
    fn drop_handle(&self, process: usize, place: SlotPlace) -> bool {
        self.counts[process].is_last_dropped() && self.books[process].lock().unwrap().put_or_defer(place).is_some()
    }

    /// Takes and writes a page of that process's books if it is free; false if it isn't.
    fn reuse(&self, process: usize) -> bool {
        let mut slots = self.books[process].lock().unwrap();
        let is_free = slots.of_page(1).is_none();
        if is_free {
            slots.add(1, 1, BIG);
            drop(slots);
            self.write(2);
        }
        is_free
    }
}

/// Two threads read and drop a handle each, a third uses the place again as soon as it is free.
fn drop_and_reuse() {
    let (slot, place) = Slot::new(2);
    let readers = [(); 2].map(|()| {
        let slot = slot.clone();
        thread::spawn(move || {
            assert_eq!(slot.read(), 1, "somebody wrote there");
            slot.drop_handle(0, place)
        })
    });
    slot.reuse(0);
    let freed = readers.map(|reader| usize::from(reader.join().unwrap()));
    assert_eq!(freed.iter().sum::<usize>(), 1, "one of them had the last handle");
}

fn clone_and_drop() {
    let (slot, place) = Slot::new(1);
    slot.counts[0].add();
    let other = thread::spawn({
        let slot = slot.clone();
        move || {
            slot.counts[0].add();
            let first = slot.drop_handle(0, place);
            assert_eq!(slot.read(), 1);
            [first, slot.drop_handle(0, place)]
        }
    });
    let mine = slot.drop_handle(0, place);
    let freed = [&[mine][..], &other.join().unwrap()[..]].concat();
    assert_eq!(freed.into_iter().filter(|&freed| freed).count(), 1);
    slot.write(2);
}

/// A process takes the slot over, claims it, drops it, and looks for room, while the former one still reads it.
fn two_generations(waits: bool) {
    let (slot, place) = Slot::new(1);
    let former = thread::spawn({
        let slot = slot.clone();
        move || {
            assert_eq!(slot.read(), 1, "the successor wrote there");
            // Its own books are frozen: they give nothing out any more.
            assert!(slot.drop_handle(0, place));
            slot.has_let_go.store(true, Release);
        }
    });
    {
        let mut slots = slot.books[1].lock().unwrap();
        slots.found(1, 1, BIG);
        slots.deferred = Some(Vec::new());
        assert!(slots.claim(place) && !slots.claim(place));
        slot.counts[1].first();
    }
    assert_eq!(slot.read(), 1);
    assert!(!slot.drop_handle(1, place), "another process may still read it");
    assert!(!slot.reuse(1));
    if !waits || slot.has_let_go.load(Acquire) {
        let mut slots = slot.books[1].lock().unwrap();
        for place in slots.deferred.take().unwrap() {
            assert!(slots.put(place).is_some());
        }
        drop(slots);
        assert!(slot.reuse(1));
    }
    former.join().unwrap();
}

#[test]
fn a_place_is_used_again_after_its_last_handle() {
    holds(drop_and_reuse);
}

#[test]
fn a_clone_counts() {
    holds(clone_and_drop);
}

#[test]
fn a_successor_uses_no_place_that_is_still_read() {
    holds(|| two_generations(true));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_drop_releases() {
    fails_when(Weakness::NoRelease, drop_and_write);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn the_last_drop_acquires() {
    fails_when(Weakness::NoFence, drop_and_write);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_successor_waits_until_the_former_process_has_let_go() {
    holds(|| two_generations(false));
}

/// The same as [`drop_and_reuse`], with a last holder who writes at once: no lock of the books hides an ordering.
fn drop_and_write() {
    let (slot, _) = Slot::new(2);
    let other = thread::spawn({
        let slot = slot.clone();
        move || {
            slot.read();
            if slot.counts[0].is_last_dropped() {
                slot.write(2);
            }
        }
    });
    slot.read();
    if slot.counts[0].is_last_dropped() {
        slot.write(2);
    }
    other.join().unwrap();
}
