// SPDX-License-Identifier: BSD-2-Clause
//! The door to bytes that aren't in memory: a store may have a home (a disk) that takes finished bodies and gives them
//! back by polling, late or not at all. Stores of `-s malloc` and `-s file` have none: what they hold is there at once,
//! and no call through a trait object stands between them and a reader.

use std::ops::Range;
use std::task::{Context, Poll};

use crate::body::Body;
use crate::buf::Buf;

/// A home couldn't give back what it had taken. The object is lost; the text says how, for the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreError(pub &'static str);

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for StoreError {}

/// Where a store keeps bodies that aren't in memory.
pub trait Home: Send + Sync + std::fmt::Debug {
    /// Takes the body of a finished object. `None`: it stays where it is.
    fn keep(&self, body: &Body) -> Option<Box<dyn StoredBody>>;
}

/// A body in a home. It is given up by dropping this.
pub trait StoredBody: Send + Sync + std::fmt::Debug {
    /// Number of bytes: known without asking the home.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the store is charged with for it, in bytes.
    fn charged_bytes(&self) -> u64;

    /// Ready with some bytes from the start of `wanted` on, which is below the length; its end may lie anywhere: nothing is
    /// read ahead beyond it. Many may read at once: who does is told apart by `reader`, `None` at first, and is woken once it
    /// should ask again. What is left in `reader` is forgotten in the end.
    ///
    /// # Errors
    /// The bytes are lost, now and for everybody who asks again.
    fn poll_at(
        &self,
        cx: &mut Context<'_>,
        reader: &mut Option<u64>,
        wanted: Range<u64>,
    ) -> Poll<Result<Buf, StoreError>>;

    /// A reader goes away.
    fn forget(&self, reader: u64);
}
