// SPDX-License-Identifier: BSD-2-Clause
//! Output of a connection: frames of the codec, and pieces of bodies without copying, in order.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use storage::Buf;

use crate::buffers::Buffer;

const PIECES: usize = 64;

#[derive(Debug)]
enum Piece {
    Own(usize),
    Body(Buf),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Piece::Own(len) => *len,
            Piece::Body(body) => body.len(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Output {
    /// Our own bytes, of all pieces one after the other, from `own_at` on.
    own: Buffer,
    own_at: usize,
    pieces: VecDeque<Piece>,
    /// Number of bytes of the first piece that were written.
    written: usize,
    bytes: usize,
}

impl Output {
    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.own.capacity() + self.pieces.capacity() * size_of::<Piece>()
    }

    pub fn add(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.own.provide().extend_from_slice(bytes);
        self.bytes += bytes.len();
        match self.pieces.back_mut() {
            Some(Piece::Own(len)) => *len += bytes.len(),
            _ => self.pieces.push_back(Piece::Own(bytes.len())),
        }
    }

    pub fn add_body(&mut self, piece: Buf) {
        if !piece.is_empty() {
            self.bytes += piece.len();
            self.pieces.push_back(Piece::Body(piece));
        }
    }

    pub fn write(&mut self, write: impl FnOnce(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<usize> {
        let (mut slices, mut count, mut own_at) = ([IoSlice::new(b""); PIECES], 0, self.own_at);
        for (slot, piece) in slices.iter_mut().zip(&self.pieces) {
            let bytes = match piece {
                Piece::Own(len) => {
                    own_at += len;
                    &self.own[own_at - len..own_at]
                }
                Piece::Body(body) => &body[..],
            };
            *slot = IoSlice::new(if count == 0 { &bytes[self.written..] } else { bytes });
            count += 1;
        }
        let written = write(&slices[..count])?;
        self.wrote(written);
        Ok(written)
    }

    fn wrote(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.written += bytes;
        while let Some(first) = self.pieces.front()
            && self.written >= first.len()
        {
            self.written -= first.len();
            if let Some(Piece::Own(len)) = self.pieces.pop_front() {
                self.own_at += len;
            }
        }
        if self.pieces.is_empty() {
            self.own.release();
            self.own_at = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_written_once_however_it_is_cut() {
        for step in 1..30 {
            let (mut output, mut wire, mut wanted) = (Output::default(), Vec::new(), Vec::new());
            for round in 0..40_u8 {
                output.add(&[round; 3]);
                output.add_body(Buf::unaccounted(vec![100 + round; 5]));
                output.add_body(Buf::unaccounted(Vec::new()));
                output.add(&[round; 2]);
                for (byte, count) in [(round, 3), (100 + round, 5), (round, 2)] {
                    wanted.extend(std::iter::repeat_n(byte, count));
                }
                output.write(|slices| Ok(take(slices, step, &mut wire))).unwrap();
            }
            while !output.is_empty() {
                output.write(|slices| Ok(take(slices, step, &mut wire))).unwrap();
            }
            assert_eq!(wire, wanted, "in steps of {step}");
            assert_eq!((output.pieces.len(), output.own.capacity(), output.written), (0, 0, 0));
        }
    }

    fn take(slices: &[IoSlice<'_>], most: usize, wire: &mut Vec<u8>) -> usize {
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let taken = all.len().min(most);
        wire.extend_from_slice(&all[..taken]);
        taken
    }
}
