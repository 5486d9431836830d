// SPDX-License-Identifier: BSD-2-Clause
//! Finds the end of a head.

/// Looks for the empty line that ends a head, and remembers how far it got, so that a head that comes in single bytes costs
/// linear time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    at: usize,
}

impl Scan {
    /// The length of the head (empty lines before it included) at the start of `input`, once it is whole. `input` must
    /// begin with what it began with at the call before.
    pub fn find(&mut self, input: &[u8]) -> Option<usize> {
        let _ = (input, self.at);
        todo!()
    }
}
