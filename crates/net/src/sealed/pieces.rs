// SPDX-License-Identifier: BSD-2-Clause
//! Pieces of plaintext that are copied into records one after the other.

use std::io::IoSlice;

pub(super) struct Pieces<'a> {
    pieces: &'a [IoSlice<'a>],
    /// Bytes of the first one that are used.
    used: usize,
    left: usize,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(pieces: &'a [IoSlice<'a>]) -> Self {
        Pieces { pieces, used: 0, left: pieces.iter().map(|piece| piece.len()).sum() }
    }

    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Appends the next `count` bytes to `out`.
    pub(super) fn copy(&mut self, mut count: usize, out: &mut Vec<u8>) {
        while let (Some(first), true) = (self.pieces.first(), count > 0) {
            let rest = &first[self.used..];
            let taken = rest.len().min(count);
            out.extend_from_slice(&rest[..taken]);
            (count, self.left) = (count - taken, self.left - taken);
            self.used += taken;
            if self.used == first.len() {
                (self.pieces, self.used) = (&self.pieces[1..], 0);
            }
        }
    }
}
