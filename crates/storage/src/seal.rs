// SPDX-License-Identifier: BSD-2-Clause
//! Packing a whole body for its stay: a small one goes with its head into one block, a long one loses its crumbs.

use crate::body::{Body, Piece};
use crate::buf::Buf;
use crate::store::Store;

/// Bodies up to this length are copied once, behind their head, into one block.
pub const SMALL_BODY: u64 = 16 << 10;

/// Blocks below this length are merged with their neighbours.
const CRUMB: usize = 4 << 10;

/// Merged blocks are about this long.
const MERGED: usize = 64 << 10;

/// A packed object.
#[derive(Debug)]
pub struct Sealed {
    /// The head; the body follows in the same block when `more` is empty.
    pub front: Buf,
    /// The blocks of a long body.
    pub more: Box<[Piece]>,
}

impl Store {
    /// Packs `front` (a block of this store) and a whole body. When there is no room for the copy, what is there stays
    /// as it is: sealing never fails.
    pub fn seal(&self, front: Buf, body: &Body) -> Sealed {
        if body.is_empty() {
            return Sealed { front, more: Box::default() };
        }
        if body.len() <= SMALL_BODY {
            let parts: Vec<&[u8]> =
                std::iter::once(&front[..]).chain(body.pieces().map(|piece| &piece.buf[..])).collect();
            if let Ok(block) = self.block(&parts) {
                return Sealed { front: block, more: Box::default() };
            }
        }
        Sealed { front, more: self.merged(body) }
    }

    fn merged(&self, body: &Body) -> Box<[Piece]> {
        let pieces: Vec<Piece> = body.pieces().cloned().collect();
        let mut out: Vec<Piece> = Vec::with_capacity(pieces.len());
        let mut at = 0;
        while at < pieces.len() {
            let run = run_length(&pieces[at..]);
            let parts: Vec<&[u8]> = pieces[at..at + run].iter().map(|piece| &piece.buf[..]).collect();
            match if run > 1 { self.block(&parts).ok() } else { None } {
                Some(buf) => out.push(Piece { start: pieces[at].start, buf }),
                None => out.extend_from_slice(&pieces[at..at + run]),
            }
            at += run;
        }
        out.into_boxed_slice()
    }
}

/// How many blocks from the first on become one: crumbs together, until the result is long enough. At least 1.
fn run_length(pieces: &[Piece]) -> usize {
    let mut bytes = 0;
    let fits = |piece: &&Piece| {
        let first = bytes == 0;
        let crumb = piece.buf.len() < CRUMB || bytes < CRUMB;
        bytes += piece.buf.len();
        first || (crumb && bytes <= MERGED)
    };
    pieces.iter().take_while(fits).count().max(1)
}
