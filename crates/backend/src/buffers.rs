// SPDX-License-Identifier: BSD-2-Clause
//! Buffers that exchanges leave to the next ones of their thread: few are in use at a time, as who waits holds none.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Buffers that a thread keeps.
const KEPT: usize = 16;
/// A buffer that grew beyond this isn't kept.
const BUFFER_BYTES: usize = 128 * 1024;

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = RefCell::default();
}

pub fn trim() {
    drop(POOL.take());
}

/// An empty buffer; leave it when done.
pub fn take() -> Vec<u8> {
    POOL.with(|pool| pool.borrow_mut().pop()).unwrap_or_default()
}

/// Leaves a buffer to the next one who takes one.
pub fn leave(mut buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > BUFFER_BYTES {
        return;
    }
    // With the thread its pool goes, too.
    let _ = POOL.try_with(|pool| {
        let mut pool = pool.borrow_mut();
        if pool.len() < KEPT {
            buffer.clear();
            pool.push(buffer);
        }
    });
}

/// A buffer that goes back to the pool when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    /// A buffer of the pool, unless it is one.
    pub(crate) fn provide(&mut self) -> &mut Vec<u8> {
        if self.0.capacity() == 0 {
            self.0 = take();
        }
        &mut self.0
    }

    /// Gives the memory back, and is empty.
    pub(crate) fn release(&mut self) {
        leave(std::mem::take(&mut self.0));
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.release();
    }
}
