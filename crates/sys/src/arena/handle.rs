// SPDX-License-Identifier: BSD-2-Clause
//! Counted handles on bytes, which are a block of the heap's or a slot's: a word says which, so that neither costs more
//! than it would alone.
//!
//! A handle on a slot points at the slot's count, just before its bytes: who clones a handle and reads the bytes touches
//! one place of memory. There are two counts, and a process uses one by whether it is an odd or an even user of the arena:
//! so two may hold handles at the same time, an old one and its successor.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;

use triomphe::ThinArc;

use crate::arena::count::Count;
use crate::arena::{Arena, ArenaWords, PAYLOAD, REFS};

/// Pointers to counts of slots have it, those to blocks of the heap don't: both are multiples of four.
const TAG: usize = 1;
/// The counts and the bytes' beginning are in one such piece of memory.
const UNIT: usize = 16;
const _: () = assert!(REFS.is_multiple_of(UNIT) && PAYLOAD - REFS == 8);
// Where loom runs the threads a count is no word, and there are no arenas.
const _: () = assert!(size_of::<Count>() == 4 || cfg!(loom));

#[derive(Debug)]
pub struct ArenaSlot {
    at: NonNull<u8>,
    /// Length of the bytes behind the words.
    len: u32,
}

// SAFETY: a slot isn't tied to a thread: its bytes don't change while there is a handle, its words and counts are atomics.
unsafe impl Send for ArenaSlot {}
// SAFETY: as above.
unsafe impl Sync for ArenaSlot {}

/// Header of a block of the heap, which says where its bytes are.
pub trait BlockHeader: Sized {
    fn bytes(block: &ThinArc<Self, u8>) -> &[u8];
}

/// A counted handle on a range of bytes: 16 bytes, cheap to clone.
pub struct ArenaBytes<H: BlockHeader> {
    at: NonNull<u8>,
    start: u32,
    len: u32,
    block: PhantomData<ThinArc<H, u8>>,
}

// SAFETY: it is a handle on a block, which may go where a `ThinArc` of that header may go, or on a slot, which may go anywhere.
unsafe impl<H: BlockHeader + Send + Sync> Send for ArenaBytes<H> {}
// SAFETY: as above.
unsafe impl<H: BlockHeader + Send + Sync> Sync for ArenaBytes<H> {}

fn is_slot(at: NonNull<u8>) -> bool {
    at.addr().get() & TAG != 0
}

/// The count that a tagged pointer means. It must be one, and its slot must not be free.
unsafe fn count<'a>(at: NonNull<u8>) -> &'a Count {
    let count: *const Count = at.as_ptr().wrapping_byte_sub(TAG).cast();
    // SAFETY: the caller's: a slot's count is behind the tag, a multiple of four, within the arena's mapping, and only ever
    // reached as an atomic.
    unsafe { &*count }
}

/// The first byte behind a slot's words.
fn payload(at: NonNull<u8>) -> *const u8 {
    let within = at.addr().get() % UNIT;
    at.as_ptr().wrapping_byte_sub(within).wrapping_byte_add(PAYLOAD - REFS)
}

/// The words of a slot. The pointer must be a tagged one, and its slot must not be free.
unsafe fn words<'a>(at: NonNull<u8>) -> &'a ArenaWords {
    let base: *const ArenaWords = payload(at).wrapping_byte_sub(PAYLOAD).cast();
    // SAFETY: the caller's: a slot begins with its words, on a multiple of 16, and they are atomics only.
    unsafe { &*base }
}

fn acquire(at: NonNull<u8>) {
    // SAFETY: `at` is that of a handle, so it is a tagged pointer and its slot isn't free.
    unsafe { count(at) }.add();
}

fn release(at: NonNull<u8>) {
    // SAFETY: as in `acquire`: the handle that is dropped still counts.
    if unsafe { count(at) }.is_last_dropped() {
        Arena::last_dropped(payload(at).addr() - PAYLOAD);
    }
}

impl ArenaSlot {
    /// The first handle on a slot whose bytes nobody will change from now on.
    ///
    /// # Safety
    /// `base` is the first byte of a slot of a mapped arena, with `len` bytes behind the words; the slot is taken, by the
    /// caller alone, who has a handle on the arena that it gives up to the slot.
    pub(super) unsafe fn first(base: NonNull<u8>, len: u32, odd: bool) -> ArenaSlot {
        // SAFETY: within the slot.
        let at = unsafe { base.byte_add(REFS + usize::from(odd) * 4 + TAG) };
        // SAFETY: just made.
        unsafe { count(at) }.first();
        ArenaSlot { at, len }
    }

    /// A view of a slot on which this process has no handle yet. Its counts stay as they are.
    ///
    /// # Safety
    /// `base` and `len` are as for [`ArenaSlot::first`]. The slot stays as it is for as long as the view is used.
    pub(super) unsafe fn view(base: NonNull<u8>, len: u32) -> ManuallyDrop<ArenaSlot> {
        // SAFETY: within the slot.
        let at = unsafe { base.byte_add(REFS + TAG) };
        ManuallyDrop::new(ArenaSlot { at, len })
    }

    pub fn words(&self) -> &ArenaWords {
        // SAFETY: the slot isn't free as long as `self` lives.
        unsafe { words(self.at) }
    }

    pub fn number(&self) -> u32 {
        Arena::number_at(payload(self.at).addr() - PAYLOAD)
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the slot has so many bytes there, which don't change while a handle lives.
        unsafe { std::slice::from_raw_parts(payload(self.at), self.len as usize) }
    }

    /// A handle on those bytes, for handles on blocks to be mixed with.
    pub fn into_bytes<H: BlockHeader>(self) -> ArenaBytes<H> {
        let slot = ManuallyDrop::new(self);
        ArenaBytes { at: slot.at, start: 0, len: slot.len, block: PhantomData }
    }
}

impl Drop for ArenaSlot {
    fn drop(&mut self) {
        release(self.at);
    }
}

impl<H: BlockHeader> ArenaBytes<H> {
    /// A handle on the whole of a block: at most 4 GiB.
    pub fn of_block(block: ThinArc<H, u8>) -> Self {
        let len = u32::try_from(H::bytes(&block).len()).expect("blocks are smaller than 4 GiB");
        let at = NonNull::new(ThinArc::into_raw(block).cast_mut()).expect("a block has an address");
        assert!(!is_slot(at.cast()), "blocks of the heap begin on words");
        Self { at: at.cast(), start: 0, len, block: PhantomData }
    }

    pub fn block(&self) -> Option<&ThinArc<H, u8>> {
        if is_slot(self.at) {
            return None;
        }
        let at: *const NonNull<u8> = &raw const self.at;
        // SAFETY: without the tag `at` is what `into_raw` gave, which is what a `ThinArc` is, transparently; borrowed as
        // long as `self`, it isn't dropped.
        Some(unsafe { &*at.cast::<ThinArc<H, u8>>() })
    }

    pub fn slot(&self) -> Option<u32> {
        is_slot(self.at).then(|| Arena::number_at(payload(self.at).addr() - PAYLOAD))
    }

    #[inline]
    pub fn words(&self) -> Option<&ArenaWords> {
        // SAFETY: the slot isn't free as long as `self` lives.
        is_slot(self.at).then(|| unsafe { words(self.at) })
    }

    pub fn is_frozen(&self) -> bool {
        is_slot(self.at) && Arena::is_frozen_at(payload(self.at).addr() - PAYLOAD)
    }

    pub fn slot_cost(&self) -> Option<u64> {
        is_slot(self.at).then(|| Arena::cost_at(payload(self.at).addr() - PAYLOAD))
    }

    pub fn len(&self) -> usize {
        self.len as usize
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Offset of the range in its block or slot.
    pub fn start(&self) -> usize {
        self.start as usize
    }

    /// This handle, on a part of its range. Panics when `range` isn't within it.
    pub fn narrow(mut self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "slice outside its buffer");
        self.start += range.start as u32;
        self.len = (range.end - range.start) as u32;
        self
    }

    /// A handle on a part of this range. Panics when `range` isn't within it.
    pub fn slice(&self, range: Range<usize>) -> Self {
        self.clone().narrow(range)
    }
}

impl<H: BlockHeader> std::ops::Deref for ArenaBytes<H> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self.block() {
            Some(block) => &H::bytes(block)[self.start as usize..(self.start + self.len) as usize],
            None => {
                // SAFETY: within the slot's bytes, as the range is (`slice` only makes it smaller).
                let first = unsafe { payload(self.at).byte_add(self.start as usize) };
                // SAFETY: the whole range is within the slot's bytes, which don't change while a handle lives.
                unsafe { std::slice::from_raw_parts(first, self.len as usize) }
            }
        }
    }
}

impl<H: BlockHeader> Clone for ArenaBytes<H> {
    #[inline]
    fn clone(&self) -> Self {
        match self.block() {
            Some(block) => std::mem::forget(block.clone()),
            None => acquire(self.at),
        }
        Self { at: self.at, start: self.start, len: self.len, block: PhantomData }
    }
}

impl<H: BlockHeader> Drop for ArenaBytes<H> {
    #[inline]
    fn drop(&mut self) {
        if is_slot(self.at) {
            return release(self.at);
        }
        // SAFETY: without the tag it is what `into_raw` gave; each handle owns one count, and drops it here.
        drop(unsafe { ThinArc::<H, u8>::from_raw(self.at.as_ptr().cast()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain;

    impl BlockHeader for Plain {
        fn bytes(block: &ThinArc<Self, u8>) -> &[u8] {
            &block.slice
        }
    }

    #[test]
    fn a_handle_on_a_block_counts() {
        assert_eq!(size_of::<Option<ArenaBytes<Plain>>>(), 16);
        let block = ThinArc::from_header_and_slice(Plain, b"hello");
        let count = block.clone();
        let bytes = ArenaBytes::of_block(block);
        let part = bytes.slice(1..4);
        assert_eq!((&part[..], ThinArc::strong_count(&count), bytes.slot()), (&b"ell"[..], 3, None));
        drop((bytes, part));
        assert_eq!(ThinArc::strong_count(&count), 1);
    }
}
