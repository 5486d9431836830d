// SPDX-License-Identifier: BSD-2-Clause
//! Buffers of connections that are busy. An idle connection gives its own back; a thread keeps some for the next one.

use std::cell::RefCell;

use crate::output::Output;

/// Pairs that a thread keeps.
const SPARE: usize = 64;
/// A buffer that grew beyond this isn't kept.
const KEEP_BYTES: usize = 32 * 1024;

/// What a connection reads into and writes from.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) input: Vec<u8>,
    pub(crate) output: Output,
}

thread_local! {
    static BUFFERS: RefCell<Vec<Buffers>> = const { RefCell::new(Vec::new()) };
}

/// Buffers, empty; their memory mostly isn't.
pub(crate) fn take() -> Buffers {
    BUFFERS.with(|spare| spare.borrow_mut().pop()).unwrap_or_default()
}

/// Gives empty buffers back.
pub(crate) fn give(mut buffers: Buffers) {
    buffers.input.clear();
    buffers.output.clear();
    if buffers.input.capacity() > KEEP_BYTES || buffers.output.kept_bytes() > KEEP_BYTES {
        return;
    }
    // A thread that ends has no use for them.
    let _ = BUFFERS.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < SPARE {
            spare.push(buffers);
        }
    });
}
