// SPDX-License-Identifier: BSD-2-Clause
//! Buffers of connections that are busy. An idle connection has none: they stay with what it was busy on (see `runner`).

use crate::output::Output;

/// A buffer that grew beyond this isn't kept.
const KEEP_BYTES: usize = 32 * 1024;

/// What a connection reads into and writes from.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) input: Vec<u8>,
    pub(crate) output: Output,
}

impl Buffers {
    /// Empty, for the next connection.
    pub(crate) fn emptied(mut self) -> Self {
        if self.input.capacity() > KEEP_BYTES || self.output.kept_bytes() > KEEP_BYTES {
            return Self::default();
        }
        self.input.clear();
        self.output.clear();
        self
    }
}
