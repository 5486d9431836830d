// SPDX-License-Identifier: BSD-2-Clause
//! Memory that transactions leave to the next ones of their thread: heads and machines keep their capacity, so that a warm
//! thread allocates nothing for them.

use std::cell::RefCell;

use message::{Head, HeadLimits};
use params::Params;
use vrt::Machine;

/// Heads that a thread keeps: three a request, three a fetch, one an HTTP/2 connection.
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

impl Pool {
    fn keep(&mut self, mut head: Head) {
        if self.heads.len() < HEADS && head.arena_bytes() <= HEAD_BYTES {
            head.clear();
            self.heads.push(head);
        }
    }
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// Frees what this thread keeps for the next transactions.
pub fn trim() {
    drop(POOL.take());
    crate::bereq::trim();
    filters::trim();
    backend::buffers::trim();
}

pub(crate) fn client_limits(params: &Params) -> HeadLimits {
    HeadLimits::new(params.http_max_hdr, params.workspace_client.min(1 << 30) as u32)
}

pub fn request_head(params: &Params) -> Head {
    let [head] = heads(client_limits(params));
    head
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
    POOL.with_borrow_mut(|pool| {
        for head in heads {
            if head.arena_bytes() > 0 {
                pool.keep(std::mem::take(head));
            }
        }
    });
}

/// Keeps a head for the next transaction, whether it was used or not.
pub fn leave_head(head: Head) {
    POOL.with_borrow_mut(|pool| pool.keep(head));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_goes_back_to_the_pool_whether_it_was_used_or_not() {
        let kept = || POOL.with_borrow(|pool| pool.heads.len());
        let params = Params::default();
        let mut head = request_head(&params);
        head.append("Host", "a").unwrap();
        leave_head(head);
        leave_head(request_head(&params));
        assert_eq!(kept(), 1);
        let mut used = Head::default();
        used.append("Host", "a").unwrap();
        leave_heads([&mut used]);
        // The head was taken out: nothing is left to give.
        leave_heads([&mut used]);
        assert_eq!(kept(), 2);
    }
}
