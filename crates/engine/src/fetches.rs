// SPDX-License-Identifier: BSD-2-Clause
//! State common to all fetches: facts about origins that one fetch learns and another one uses.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::hints::Hints;
use crate::loops::Loops;
use crate::queries::Queries;
use crate::refreshes::Refreshes;
use crate::uploads::Uploads;

#[derive(Default)]
pub struct Fetches {
    pub(crate) hints: Hints,
    pub(crate) queries: Queries,
    pub(crate) refreshes: Refreshes,
    pub loops: Loops,
    pub(crate) uploads: Uploads,
    piece_bytes: AtomicUsize,
}

impl Fetches {
    /// Bodies are stored in pieces of this many bytes (`debug.fragfetch`); 0: as they come.
    pub(crate) fn piece_bytes(&self) -> usize {
        self.piece_bytes.load(Relaxed)
    }

    pub fn set_piece_bytes(&self, bytes: usize) {
        self.piece_bytes.store(bytes, Relaxed);
    }
}
