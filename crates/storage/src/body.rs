// SPDX-License-Identifier: BSD-2-Clause
//! A body as a list of blocks that grows at its end and, when it is only passed through, shrinks at its start.

use std::collections::VecDeque;

use crate::buf::Buf;

/// A block of a body and the offset in the body of its first byte.
#[derive(Clone, Debug)]
pub struct BodyPiece {
    /// Offset of the first byte.
    pub start: u64,
    /// Bytes of the block.
    pub buf: Buf,
}

impl BodyPiece {
    /// Offset after the last byte.
    pub fn end(&self) -> u64 {
        self.start + self.buf.len() as u64
    }
}

/// The blocks of a body in progress, without gaps.
#[derive(Default, Debug)]
pub struct BodyBlocks {
    pieces: VecDeque<BodyPiece>,
    end: u64,
}

impl BodyBlocks {
    /// Total length so far, dropped parts included.
    pub fn len(&self) -> u64 {
        self.end
    }

    /// True if nothing was ever appended.
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Offset of the first byte still held; the length when none is.
    pub fn start(&self) -> u64 {
        self.pieces.front().map_or(self.end, |piece| piece.start)
    }

    /// The blocks still held.
    pub fn pieces(&self) -> impl DoubleEndedIterator<Item = &BodyPiece> + ExactSizeIterator {
        self.pieces.iter()
    }

    /// Adds a block at the end. An empty one is ignored.
    pub fn push(&mut self, buf: Buf) {
        if !buf.is_empty() {
            let start = self.end;
            self.end += buf.len() as u64;
            self.pieces.push_back(BodyPiece { start, buf });
        }
    }

    /// The bytes from `offset` on, up to the end of its block; `None` when they aren't there yet (or no longer).
    pub fn at(&self, offset: u64) -> Option<Buf> {
        let after = self.pieces.partition_point(|piece| piece.start <= offset);
        from(self.pieces.get(after.checked_sub(1)?)?, offset)
    }

    /// Lets go of the blocks that end at or before `offset`.
    pub fn drop_before(&mut self, offset: u64) {
        while self.pieces.front().is_some_and(|piece| piece.end() <= offset) {
            self.pieces.pop_front();
        }
    }

    /// The last `count` blocks (fewer when there aren't as many), first to last.
    pub fn tail(&self, count: usize) -> Vec<Buf> {
        self.pieces.iter().skip(self.pieces.len().saturating_sub(count)).map(|piece| piece.buf.clone()).collect()
    }

    /// Puts `merged` in the place of the last `count` blocks, whose bytes it must hold.
    pub fn replace_tail(&mut self, count: usize, merged: Buf) {
        let at = self.pieces.len().checked_sub(count).expect("no more blocks are replaced than there are");
        let start = self.pieces.get(at).map_or(self.end, |piece| piece.start);
        assert_eq!(start + merged.len() as u64, self.end, "a merged block has the length of what it replaces");
        self.pieces.truncate(at);
        if !merged.is_empty() {
            self.pieces.push_back(BodyPiece { start, buf: merged });
        }
    }
}

/// The bytes from `offset` on in a whole body, up to the end of its block; `None` at or after the end.
pub fn piece_at(pieces: &[BodyPiece], offset: u64) -> Option<Buf> {
    let after = pieces.partition_point(|piece| piece.start <= offset);
    from(pieces.get(after.checked_sub(1)?)?, offset)
}

fn from(piece: &BodyPiece, offset: u64) -> Option<Buf> {
    let skip = usize::try_from(offset - piece.start).ok().filter(|&skip| skip < piece.buf.len())?;
    Some(piece.buf.slice(skip..piece.buf.len()))
}
