// SPDX-License-Identifier: BSD-2-Clause
//! The door to objects that aren't in memory: a store may have a home (a disk) that takes objects as they are fetched and
//! gives them back by polling, late or not at all. The memory of such a store is its *front*. Stores of `-s malloc` have no
//! home: what they hold is there at once, and no call through a trait object stands between them and a reader.
//!
//! What a home holds is a *stored copy*: it outlives the object in the front, which is evicted without a word here, and ends
//! by [`Home::remove`], by [`Home::remove_all`], by its time, or when the home needs the room.

use std::num::NonZeroU64;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base::Real;

use crate::buf::Buf;
use crate::record::Record;

/// A home couldn't give back what it had taken. The object is lost; the text says how, for the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreError(pub &'static str);

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for StoreError {}

/// A stored copy, beside its digest: what a home calls it. Of one that has gone it may come to be another's, after years.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HomeId(pub NonZeroU64);

/// A stored copy on its way into memory.
pub type LoadFuture = Pin<Box<dyn Future<Output = Result<Stored, StoreError>> + Send>>;

/// Place where a store keeps objects that aren't in memory. Nothing here waits for a device, so that all may be called
/// under a lock.
pub trait Home: Send + Sync + std::fmt::Debug {
    /// Candidates for an object of this digest, the newest first, without I/O. Variants are told apart by loading them.
    fn find(&self, digest: &[u8; 32]) -> Vec<HomeId>;

    /// True if [`Home::find`] would name it.
    fn holds(&self, digest: &[u8; 32], id: HomeId) -> bool;

    /// Loads what was found. May be dropped at any time: who can't wait any longer has a miss. What is removed meanwhile may
    /// still come: see [`Home::holds`].
    fn load(&self, digest: &[u8; 32], id: HomeId) -> LoadFuture;

    /// Begins to take an object.
    fn begin(&self, digest: &[u8; 32]) -> Box<dyn Writing>;

    /// The object was served: it is worth its room.
    fn note_use(&self, digest: &[u8; 32], id: HomeId);

    /// Removes one stored copy, also one that isn't written yet. Whether it was there.
    fn remove(&self, digest: &[u8; 32], id: HomeId) -> bool;

    /// Removes all of a digest that don't know the invalidation of number `before`, those on their way included. How many
    /// could be found.
    fn remove_all(&self, digest: &[u8; 32], before: u64) -> usize;

    /// The least `ban_seq` of a stored copy: bans up to that number concern none of them. `None`: there are none.
    fn least_ban_seq(&self) -> Option<u64>;

    /// The least number of those told to [`Home::remove_all`] that a journal must still hold. `None`: none of them.
    fn journal_needed_from(&self) -> Option<u64>;

    /// True if all that it holds can be found; before that some of it is missed.
    fn is_ready(&self) -> bool;

    /// Says who knows whether an object may still be served. Once.
    fn set_judge(&self, judge: Box<dyn CopyJudge>);
}

/// Tells if an object may still be served: asked before a home writes a stored copy anew.
pub trait CopyJudge: Send + Sync + std::fmt::Debug {
    /// The number of the newest invalidation that the object has stood; `None`: it is to go. As in [`Stored`].
    fn judge(&self, record: &Record<Real>, head: &[u8], tags: &[u8]) -> Option<u64>;
}

/// A stored copy, loaded and checked.
#[derive(Debug)]
pub struct Stored {
    /// Number of the copy in its home.
    pub id: HomeId,
    /// Facts about the object.
    pub record: Record<Real>,
    /// The head block: as long as `record` says.
    pub head: Buf,
    /// The tags given to [`Writing::finish`].
    pub tags: Buf,
    /// Body of the object.
    pub body: Arc<dyn StoredBody>,
}

/// An object on its way into a home. It never waits: what the home can't take in time isn't stored. Dropped unfinished,
/// there was none.
pub trait Writing: Send {
    /// Adds to the body.
    ///
    /// # Errors
    /// It isn't stored: there is no use in going on.
    fn push(&mut self, bytes: &[u8]) -> Result<(), StoreError>;

    /// The body is whole: the object is found as soon as it is written. `head` has exactly the four parts that `record`
    /// gives lengths of. `None`: it isn't stored.
    fn finish(self: Box<Self>, record: &Record<Real>, head: &[u8], tags: &[u8]) -> Option<HomeId>;

    /// Ready when the home takes more: for bodies that can't stay in memory, whose fetch goes at the disk's pace.
    ///
    /// # Errors
    /// It isn't stored any more.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        let _ = cx;
        Poll::Ready(Ok(()))
    }

    /// Ready when more than `above` bytes of the body can be read from the home: how many.
    ///
    /// # Errors
    /// That won't be.
    fn poll_settled(&mut self, cx: &mut Context<'_>, above: u64) -> Poll<Result<u64, StoreError>> {
        let _ = (cx, above);
        Poll::Ready(Err(StoreError("a body in progress can't be read from here")))
    }

    /// Nothing more is pushed. Ready when all of the body can be read from the home: how many bytes.
    ///
    /// # Errors
    /// That won't be.
    fn poll_whole(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, StoreError>> {
        let _ = cx;
        Poll::Ready(Err(StoreError("a body in progress can't be read from here")))
    }

    /// Reads what is known to have settled, and all of it after [`Writing::poll_whole`]: then it is the object's body.
    fn so_far(&mut self) -> Option<Arc<dyn StoredBody>> {
        None
    }
}

/// A body in a home. It is given up by dropping this.
pub trait StoredBody: Send + Sync + std::fmt::Debug {
    /// Number of bytes: known without asking the home.
    fn len(&self) -> u64;

    /// True if there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if it can still be read, as far as that is known without asking the device.
    fn is_there(&self) -> bool {
        true
    }

    /// All of it, when it came with its record.
    fn at_hand(&self) -> Option<Buf> {
        None
    }

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
