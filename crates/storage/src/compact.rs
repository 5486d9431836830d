// SPDX-License-Identifier: BSD-2-Clause
//! Compacting a finished object for its stay: a small body goes with its head into one block, the short blocks of a long
//! one are coalesced.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::body::{BodyBlocks, BodyPiece};
use crate::buf::Buf;
use crate::home::StoredBody;
use crate::store::Store;

/// Bodies up to this length are copied once, behind their head, into one block.
pub const SMALL_BODY: u64 = 16 << 10;

/// Blocks below this length are coalesced with their neighbours.
const SHORT: usize = 4 << 10;

/// Coalesced blocks are about this long.
pub(crate) const COALESCED: usize = 64 << 10;

/// An object in its compacted form.
#[derive(Debug)]
pub struct Compact {
    /// The head block; the body follows in it when there is no `rest`.
    pub head: Buf,
    /// The body of which nothing is in the head block.
    pub rest: Option<Rest>,
}

/// A whole body beside its head. As large as one of its arms: each byte here is one of every object with a long body.
#[derive(Debug)]
pub enum Rest {
    /// The blocks in memory.
    Blocks(Box<[BodyPiece]>),
    /// In the store's home, and maybe in its front.
    Home(Box<HomeRest>),
}

/// A body in a home; once it has come to the front, readers find it there.
#[derive(Debug)]
pub struct HomeRest {
    stored: Arc<dyn StoredBody>,
    front: OnceLock<Box<[BodyPiece]>>,
    /// Deliveries since it was read back, as far as they count.
    uses: AtomicU8,
}

impl HomeRest {
    /// A body that the front hasn't.
    pub fn new(stored: Arc<dyn StoredBody>) -> HomeRest {
        HomeRest { stored, front: OnceLock::new(), uses: AtomicU8::new(0) }
    }

    /// Counts a delivery; returns the count, as far as that is possible: after 255 comes 128.
    pub fn count_use(&self) -> u8 {
        const AGAIN: u8 = 128;
        let next = |uses: u8| uses.checked_add(1).unwrap_or(AGAIN);
        next(self.uses.update(Relaxed, Relaxed, next))
    }

    /// Number of deliveries, as far as they were counted.
    pub fn uses(&self) -> u8 {
        self.uses.load(Relaxed)
    }

    /// The body in the home.
    pub fn stored(&self) -> &Arc<dyn StoredBody> {
        &self.stored
    }

    /// The body in the front, if it is there.
    pub fn front(&self) -> Option<&[BodyPiece]> {
        self.front.get().map(|pieces| &**pieces)
    }

    /// The body has come to the front; whether nobody else was first.
    pub fn set_front(&self, pieces: Box<[BodyPiece]>) -> bool {
        assert_eq!(pieces.last().map_or(0, BodyPiece::end), self.stored.len(), "all of a body is in front, or nothing");
        self.front.set(pieces).is_ok()
    }
}

impl Rest {
    /// Number of its bytes.
    pub fn len(&self) -> u64 {
        match self {
            Rest::Blocks(pieces) => pieces.last().map_or(0, BodyPiece::end),
            Rest::Home(rest) => rest.stored.len(),
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the store is charged with for it.
    pub fn charged_bytes(&self) -> u64 {
        // An end that is in the object's record is charged with that, as its head is.
        let own = self.blocks().iter().filter(|piece| piece.buf.record().is_none());
        own.map(|piece| piece.buf.charged_bytes()).sum()
    }

    /// The blocks in memory; none of a body that is in a home alone.
    pub fn blocks(&self) -> &[BodyPiece] {
        match self {
            Rest::Blocks(pieces) => pieces,
            Rest::Home(rest) => rest.front().unwrap_or_default(),
        }
    }
}

impl Store {
    /// Compacts an object of this head block (one of this store's) and this whole body. When there is no room for a copy,
    /// what is there stays as it is: this never fails.
    pub fn compact(&self, head: Buf, body: &BodyBlocks) -> Compact {
        if body.is_empty() {
            return Compact { head, rest: None };
        }
        if body.len() <= SMALL_BODY {
            let parts: Vec<&[u8]> =
                std::iter::once(&head[..]).chain(body.pieces().map(|piece| &piece.buf[..])).collect();
            if let Ok(block) = self.block(&parts) {
                return Compact { head: block, rest: None };
            }
        }
        Compact { head, rest: Some(Rest::Blocks(self.coalesced(body))) }
    }

    pub(crate) fn coalesced(&self, body: &BodyBlocks) -> Box<[BodyPiece]> {
        let pieces: Vec<BodyPiece> = body.pieces().cloned().collect();
        let mut out: Vec<BodyPiece> = Vec::with_capacity(pieces.len());
        let mut at = 0;
        while at < pieces.len() {
            let run = run_length(&pieces[at..]);
            let parts: Vec<&[u8]> = pieces[at..at + run].iter().map(|piece| &piece.buf[..]).collect();
            match if run > 1 { self.block(&parts).ok() } else { None } {
                Some(buf) => out.push(BodyPiece { start: pieces[at].start, buf }),
                None => out.extend_from_slice(&pieces[at..at + run]),
            }
            at += run;
        }
        out.into_boxed_slice()
    }
}

/// Number of blocks from the first on that become one: short ones together, until the result is long enough. At least
/// 1.
fn run_length(pieces: &[BodyPiece]) -> usize {
    let mut bytes = 0;
    let fits = |piece: &&BodyPiece| {
        let first = bytes == 0;
        let short = piece.buf.len() < SHORT || bytes < SHORT;
        bytes += piece.buf.len();
        first || (short && bytes <= COALESCED)
    };
    pieces.iter().take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_costs_bodies_in_memory_nothing() {
        assert_eq!(size_of::<Rest>(), size_of::<Box<[BodyPiece]>>());
        assert_eq!(size_of::<Option<Box<Rest>>>(), 8);
    }
}
