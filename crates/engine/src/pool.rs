// SPDX-License-Identifier: BSD-2-Clause
//! Memory that transactions leave to the next ones of their thread: heads and machines keep their capacity, so that a warm
//! thread allocates nothing for them.

use std::cell::RefCell;

use message::{Head, HeadLimits};
use vrt::Machine;

/// Heads that a thread keeps: three a request, three a fetch.
const HEADS: usize = 512;
const MACHINES: usize = 128;
/// A head that grew beyond this isn't kept.
const HEAD_BYTES: usize = 16 * 1024;

#[derive(Default)]
struct Pool {
    heads: Vec<Head>,
    #[allow(clippy::vec_box, reason = "boxed so that lending one moves a pointer")]
    machines: Vec<Box<Machine>>,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// Frees the filters and exchanges that this thread keeps for the next transactions.
pub fn trim_pools() {
    drop(POOL.take());
    filters::trim();
    backend::buffers::trim();
}

pub(crate) fn heads<const N: usize>(limits: HeadLimits) -> [Head; N] {
    POOL.with(|spare| {
        let kept = &mut spare.borrow_mut().heads;
        std::array::from_fn(|_| match kept.pop() {
            Some(mut head) => {
                head.set_limits(limits);
                head
            }
            None => Head::with_limits(limits),
        })
    })
}

pub(crate) fn machine() -> Box<Machine> {
    POOL.with(|spare| spare.borrow_mut().machines.pop()).unwrap_or_default()
}

/// Keeps heads for the next transaction, emptied. Those that are empty already have been left before.
pub(crate) fn leave_heads<const N: usize>(heads: [&mut Head; N]) {
    POOL.with(|spare| {
        let kept = &mut spare.borrow_mut().heads;
        for head in heads {
            if kept.len() < HEADS && (1..=HEAD_BYTES).contains(&head.arena_bytes()) {
                head.clear();
                kept.push(std::mem::take(head));
            }
        }
    });
}

pub(crate) fn leave_machine(mut machine: Box<Machine>) {
    POOL.with(|spare| {
        let kept = &mut spare.borrow_mut().machines;
        if kept.len() < MACHINES {
            machine.clear();
            kept.push(machine);
        }
    });
}
