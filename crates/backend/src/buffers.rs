// SPDX-License-Identifier: BSD-2-Clause
//! Buffers that exchanges leave to later ones of their thread. Few are in use at a time, since a waiting exchange holds none.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

const KEPT: usize = 16;
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

pub fn leave(mut buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > BUFFER_BYTES {
        return;
    }
    // The pool is gone if the thread is ending.
    let _ = POOL.try_with(|pool| {
        let mut pool = pool.borrow_mut();
        if pool.len() < KEPT {
            buffer.clear();
            pool.push(buffer);
        }
    });
}

#[derive(Debug, Default)]
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    /// Takes a buffer from the pool if this has none.
    pub(crate) fn provide(&mut self) -> &mut Vec<u8> {
        if self.0.capacity() == 0 {
            self.0 = take();
        }
        &mut self.0
    }

    /// Gives the memory back. The buffer is then empty.
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
