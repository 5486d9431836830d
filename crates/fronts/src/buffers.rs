// SPDX-License-Identifier: BSD-2-Clause
//! Buffers of connections that are busy. An idle connection has none: they stay with what it was busy on (see `runner`).

use crate::output::OutputQueue;

/// An input that grew beyond this isn't kept.
const KEEP_INPUT: usize = 32 * 1024;
/// Nor an output; many small answers of HTTP/2 that go out together are about half of it.
const KEEP_OUTPUT: usize = 64 * 1024;

#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) input: Vec<u8>,
    pub(crate) output: OutputQueue,
}

impl Buffers {
    pub(crate) fn emptied(mut self) -> Self {
        if self.input.capacity() > KEEP_INPUT || self.output.kept_bytes() > KEEP_OUTPUT {
            return Self::default();
        }
        self.input.clear();
        self.output.clear();
        self
    }
}
