// SPDX-License-Identifier: BSD-2-Clause
//! Counted handles on stored bytes.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use sys::arena::{ArenaBytes, ArenaSlot};
use sys::extent::Extent;
use sys::pages::Pages;
use sys::splice::SpliceRanges;
use triomphe::ThinArc;

use crate::record::RecordId;
use crate::records::Facts;
use crate::store::{Charge, StoreBlock};

/// An owned handle on a range of stored bytes: 16 bytes, cheap to clone, may go to any thread.
#[derive(Clone)]
pub struct Buf(ArenaBytes<Charge>);

impl Buf {
    /// A handle on bytes that no store accounts for (made-up bodies, filter output). At most 4 GiB.
    pub fn unaccounted(bytes: Vec<u8>) -> Self {
        Self::over(Charge::unaccounted(bytes))
    }

    /// A handle on pages that a disk has filled, without a copy. `held` counts their bytes as long as there is a handle on any.
    pub fn of_pages(pages: Pages, held: Arc<AtomicU64>) -> Self {
        Self::over(Charge::read(pages, held))
    }

    pub(crate) fn over(block: StoreBlock) -> Self {
        Self(ArenaBytes::of_block(block))
    }

    pub(crate) fn of_slot(slot: ArenaSlot) -> Self {
        Self(slot.into_bytes())
    }

    /// Number of its bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A handle on a part of this range. Panics when `range` isn't within it.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> Buf {
        Buf(self.0.slice(range))
    }

    /// This handle, on a part of its range. Panics when `range` isn't within it.
    pub fn narrow(self, range: Range<usize>) -> Buf {
        Buf(self.0.narrow(range))
    }

    /// Notes that its block is sent once more; whether lending it ([`Buf::splice`]) pays.
    pub fn note_send(&self) -> bool {
        self.extent().is_some_and(Extent::note_send)
    }

    /// Lends its bytes from `skip` on. False: they can't be lent, or no more can.
    pub fn splice<'a>(&'a self, skip: usize, loans: &mut SpliceRanges<'a>) -> bool {
        let (start, end) = (self.0.start() + skip, self.0.start() + self.len());
        self.extent().is_some_and(|extent| loans.add(extent, start..end))
    }

    /// Bytes that the whole block behind this handle is charged with; 0 when no store accounts for it.
    pub fn charged_bytes(&self) -> u64 {
        match self.0.block() {
            Some(block) => block.header.header.charged_bytes(),
            None => self.0.slot_cost().unwrap_or(0),
        }
    }

    /// The record whose bytes these are.
    pub fn record(&self) -> Option<RecordId> {
        self.0.slot().and_then(NonZeroU32::new).map(RecordId)
    }

    /// The words of that record.
    #[inline]
    pub fn facts(&self) -> Option<Facts<'_>> {
        self.0.words().map(Facts::of_slot)
    }

    /// True if these words are another process's by now ([`crate::Store::freeze`]), so that they aren't to be written.
    pub fn is_frozen(&self) -> bool {
        self.0.is_frozen()
    }

    pub(crate) fn is_only_handle(&self) -> bool {
        self.0.block().is_some_and(|block| ThinArc::strong_count(block) == 1)
    }

    /// The pages, if it is in pages of its own.
    fn extent(&self) -> Option<&Extent> {
        self.0.block()?.header.header.extent()
    }

    pub(crate) fn whole_extent(&self) -> Option<&Extent> {
        self.extent().filter(|extent| self.0.start() == 0 && self.len() == extent.len())
    }
}

impl std::ops::Deref for Buf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Buf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes)", self.len())
    }
}

/// Handles are equal when their bytes are.
impl PartialEq for Buf {
    fn eq(&self, other: &Buf) -> bool {
        **self == **other
    }
}

impl Eq for Buf {}
