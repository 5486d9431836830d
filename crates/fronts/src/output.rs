// SPDX-License-Identifier: BSD-2-Clause
//! What waits to be written to a client: heads and framing as bytes of our own, bodies as handles on storage.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use net::Stream;
use storage::Buf;

/// Most pieces in one system call (`http1_iovs` in Varnish).
const PIECES: usize = 64;

enum Piece {
    Own(Vec<u8>),
    Stored(Buf),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Own(bytes) => bytes,
            Piece::Stored(buf) => buf,
        }
    }
}

/// A queue of bytes for one connection.
#[derive(Default)]
pub(crate) struct Output {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are written.
    written: usize,
    bytes: usize,
}

impl Output {
    /// Bytes not yet written.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Adds bytes that `fill` writes.
    pub(crate) fn add(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> usize {
        if !matches!(self.pieces.back(), Some(Piece::Own(_))) {
            self.pieces.push_back(Piece::Own(Vec::with_capacity(512)));
        }
        let Some(Piece::Own(bytes)) = self.pieces.back_mut() else { unreachable!("pushed above") };
        let before = bytes.len();
        fill(bytes);
        let added = bytes.len() - before;
        self.bytes += added;
        added
    }

    /// Adds stored bytes.
    pub(crate) fn add_stored(&mut self, buf: Buf) {
        self.bytes += buf.len();
        self.pieces.push_back(Piece::Stored(buf));
    }

    /// Throws away what isn't written.
    pub(crate) fn clear(&mut self) {
        *self = Output::default();
    }

    /// Writes with one system call what fits; whether anything was.
    pub(crate) fn write(&mut self, stream: &Stream) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); PIECES];
        let mut count = 0;
        for piece in self.pieces.iter().take(PIECES) {
            let skip = if count == 0 { self.written } else { 0 };
            slices[count] = IoSlice::new(&piece.bytes()[skip..]);
            count += 1;
        }
        let wrote = match count {
            1 => stream.try_write(&slices[0])?,
            _ => stream.try_write_vectored(&slices[..count])?,
        };
        self.advance(wrote);
        Ok(wrote)
    }

    fn advance(&mut self, mut wrote: usize) {
        self.bytes -= wrote;
        while let Some(first) = self.pieces.front() {
            let left = first.bytes().len() - self.written;
            if wrote < left {
                self.written += wrote;
                return;
            }
            wrote -= left;
            self.written = 0;
            self.pieces.pop_front();
        }
    }
}
