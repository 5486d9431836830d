// SPDX-License-Identifier: BSD-2-Clause
//! One variant of an objhead: its state, its bytes.
//!
//! What is known of it beside (digest, times, fetch, hits, lengths) is in words that its boc has while it is fetched, and then
//! its bytes: an objcore has the one or the other. Of an object that survives its worker they are the words of its record.
//!
//! An objcore is busy, stored or dying, and only ever moves in that direction; the state changes under its shard's lock.
//! Its memory is free when the last handle on it is gone.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use base::{Mono, Vxid};
use storage::{
    Buf, Facts, HeadLengths, HomeId, HomeRest, ObjectTimes, OwnFacts, Record, RecordId, Rest, StoreError, StoreId,
    piece_at,
};
use sync::NotedNumber;
use sys::arc_cell::ArcCell;
use tables::counters::Main;

use crate::attrs::{Attrs, ObjectFlags, VaryKey};
use crate::boc::Boc;
use crate::digest::Digest;
use crate::forms::Forms;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum ObjcoreStage {
    Busy,
    Stored,
    Dying,
}

/// No head was stored yet, so `n_object` doesn't count the object.
const NO_STORE: StoreId = StoreId::MAX;
/// Not in the expiry heap, not in an eviction list.
pub(crate) const NO_SLOT: u32 = u32::MAX;
/// Flags in [`Objcore::overtaken`], above the number.
const OVERTAKEN: u64 = 1 << 62;
const SOFTLY: u64 = 1 << 63;
const FLAGS: u64 = OVERTAKEN | SOFTLY;
/// Bits of a number in [`Objcore::overtaken`]: enough for a million invalidations a second over two years. Those of the
/// tenant are between them and the flags.
const NUMBER_BITS: u32 = 46;
const NUMBER: u64 = (1 << NUMBER_BITS) - 1;
const TENANT: u64 = (u16::MAX as u64) << NUMBER_BITS;
/// Parts of a second in which uses are noted.
const USES_PER_SECOND: f64 = 16.0;
/// Not attached to the ban list.
pub(crate) const NO_BAN: u64 = u64::MAX;
/// Highest value of the access count that eviction looks at.
pub(crate) const MAX_FREQ: u8 = 3;

/// See the module. The fields that a hit reads come first.
#[repr(C)]
pub(crate) struct Objcore {
    bytes: OnceLock<ObjBytes>,
    state: AtomicU8,
    flags: AtomicU8,
    freq: AtomicU8,
    store: AtomicU8,
    pub heap_slot: AtomicU32,
    /// Number up to which all bans have been tested; [`NO_BAN`] when it isn't on the ban list.
    pub ban_seq: NotedNumber,
    /// With [`OVERTAKEN`]: number of the first invalidation that overtook it; requests older than that may still have the
    /// object. With [`SOFTLY`], too, the invalidation only shortened its times. Without: the time of the last use, in
    /// parts of a second of the monotonic clock; 0 if unknown. The number of its tenant's row is there in any case.
    overtaken: AtomicU64,
    /// Until there are bytes; of a pass, or a fetch that failed, as long as the objcore. Then its forms.
    boc: ArcCell<Boc, Forms>,
    main: &'static Main,
    pub evict_slot: AtomicU32,
    /// The object's weight and uses, which decide its rank. Changed by the evictor under its lock.
    pub worth: AtomicU32,
}

/// The effect on a request of an invalidation that came during a fetch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FetchInvalidation {
    Not,
    /// The invalidation is older than the request, so the request must not find the object.
    Before,
    /// The request is older than the invalidation: for it the object hasn't expired, whatever its times say.
    Later,
}

/// A stored head with its vary key and auxiliary attributes, in one block; a small body may follow them.
#[derive(Clone, Debug)]
pub(crate) struct HeadBlock {
    pub buf: Buf,
    pub lengths: HeadLengths,
}

#[derive(Clone, Copy)]
pub(crate) struct HeadView<'a> {
    bytes: &'a [u8],
    lengths: HeadLengths,
}

/// The object has no forms, as its fetch isn't over or has failed.
#[derive(Debug)]
pub(crate) struct NotWhole;

pub(crate) struct ObjBytes {
    buf: Buf,
    tail: Option<Box<Tail>>,
}

pub(crate) struct Tail {
    /// The facts of an object without a record.
    facts: OwnFacts,
    /// A body that isn't in the head block.
    rest: Option<Rest>,
}

impl Objcore {
    pub fn busy(main: &'static Main, boc: Arc<Boc>) -> Arc<Self> {
        main.n_objectcore.inc();
        Arc::new(Self::new(ObjcoreStage::Busy, ObjectFlags::NONE, NO_STORE, OnceLock::new(), Some(boc), main))
    }

    pub fn adopted(flags: ObjectFlags, store: StoreId, bytes: ObjBytes, main: &'static Main) -> Arc<Self> {
        main.n_objectcore.inc();
        main.n_object.inc();
        Arc::new(Self::new(ObjcoreStage::Stored, flags, store, OnceLock::from(bytes), None, main))
    }

    fn new(
        state: ObjcoreStage,
        flags: ObjectFlags,
        store: StoreId,
        bytes: OnceLock<ObjBytes>,
        boc: Option<Arc<Boc>>,
        main: &'static Main,
    ) -> Self {
        Self {
            bytes,
            state: AtomicU8::new(state as u8),
            flags: AtomicU8::new(flags.bits()),
            freq: AtomicU8::new(0),
            store: AtomicU8::new(store),
            heap_slot: AtomicU32::new(NO_SLOT),
            ban_seq: NotedNumber::new(NO_BAN),
            overtaken: AtomicU64::new(0),
            boc: ArcCell::new(boc),
            main,
            evict_slot: AtomicU32::new(NO_SLOT),
            worth: AtomicU32::new(0),
        }
    }

    /// Reads its words, wherever they are: a few of them, as a lock may be held.
    pub fn with_facts<R>(&self, read: impl FnOnce(Facts<'_>) -> R) -> R {
        if let Some(bytes) = self.bytes.get() {
            return read(bytes.facts());
        }
        self.boc.with(|boc| match boc {
            Some(boc) => read(boc.facts.facts()),
            None => read(self.bytes.get().expect("an objcore has its bytes or its boc").facts()),
        })
    }

    /// Changes the facts, unless another worker has taken them over and judges the object by its own bans and purges.
    /// Returns `true` if they were changed.
    fn change_facts(&self, change: impl FnOnce(Facts<'_>)) -> bool {
        let is_own = self.bytes.get().is_none_or(|bytes| !bytes.buf.is_frozen());
        if is_own {
            self.with_facts(change);
        }
        is_own
    }

    pub fn digest(&self) -> Digest {
        Digest(self.with_facts(|facts| facts.digest()))
    }

    pub fn is_of(&self, digest: &Digest) -> bool {
        self.with_facts(|facts| facts.is_of(&digest.0))
    }

    pub fn hits(&self) -> u32 {
        self.with_facts(|facts| facts.hits())
    }

    /// Counts a delivery. The caller holds the shard's lock.
    pub fn count_hit(&self) {
        self.with_facts(|facts| facts.set_hits(facts.hits().wrapping_add(1)));
    }

    pub fn state(&self) -> ObjcoreStage {
        match self.state.load(Relaxed) {
            0 => ObjcoreStage::Busy,
            1 => ObjcoreStage::Stored,
            _ => ObjcoreStage::Dying,
        }
    }

    /// Moves on. The caller holds the shard's lock, or the objcore is private.
    pub fn set_state(&self, next: ObjcoreStage) {
        let old = self.state.swap(next as u8, Relaxed);
        assert!(old < next as u8, "an objcore's state only moves forward");
    }

    pub fn xid(&self) -> Vxid {
        Vxid(self.with_facts(|facts| facts.xid()))
    }

    pub fn flags(&self) -> ObjectFlags {
        ObjectFlags::of_bits(self.flags.load(Relaxed))
    }

    pub fn set_esi(&self) {
        self.flags.fetch_or(ObjectFlags::ESI, Relaxed);
    }

    pub fn store(&self) -> StoreId {
        self.store.load(Relaxed)
    }

    pub fn tenant(&self) -> u16 {
        ((self.overtaken.load(Relaxed) & TENANT) >> NUMBER_BITS) as u16
    }

    /// Call it at most once, before the object is filled or in the index.
    pub fn set_tenant(&self, id: u16) {
        self.overtaken.fetch_or(u64::from(id) << NUMBER_BITS, Relaxed);
    }

    pub fn times(&self) -> ObjectTimes {
        self.with_facts(|facts| facts.times())
    }

    /// The caller holds the shard's lock, or the objcore is private. False: they stay as they are, as the object is another
    /// worker's by now.
    pub fn set_times(&self, times: ObjectTimes) -> bool {
        self.change_facts(|facts| facts.set_times(times))
    }

    /// Notes the attributes that the boc doesn't hold. The objcore is busy.
    pub fn describe(&self, attrs: &Attrs, store: StoreId) {
        self.flags.store(attrs.flags.bits(), Relaxed);
        if self.store.swap(store, Relaxed) == NO_STORE {
            self.main.n_object.inc();
        }
    }

    /// Notes the number of an invalidation; the lowest counts. Returns `true` for the first one.
    pub fn overtake(&self, seq: u64) -> bool {
        let lower = |old: u64| {
            let number = if old & OVERTAKEN == 0 { seq } else { seq.min(old & NUMBER) };
            let new = number | OVERTAKEN | old & TENANT;
            (new != old).then_some(new)
        };
        self.overtaken.try_update(Relaxed, Relaxed, lower).is_ok_and(|old| old & FLAGS != OVERTAKEN)
    }

    /// Notes the number of a soft purge, unless something else was first.
    pub fn overtake_softly(&self, seq: u64) {
        let first = |old: u64| (old & OVERTAKEN == 0).then_some(seq | FLAGS | old & TENANT);
        let _ = self.overtaken.try_update(Relaxed, Relaxed, first);
    }

    /// Notes that it was stored or delivered at that moment, unless an invalidation has overtaken it. Writes nothing if that
    /// was known.
    pub fn note_use(&self, now: Mono) {
        let (old, new) = (self.overtaken.load(Relaxed), u64::from((now.0 * USES_PER_SECOND) as u32));
        if old & OVERTAKEN == 0 && old & NUMBER < new {
            let _ = self.overtaken.compare_exchange(old, new | old & TENANT, Relaxed, Relaxed);
        }
    }

    /// The moment of the last use, to a part of a second, if it is known.
    pub fn last_use(&self) -> Option<Mono> {
        let word = self.overtaken.load(Relaxed);
        let noted = word & NUMBER;
        (noted != 0 && word & OVERTAKEN == 0).then(|| Mono(noted as f64 / USES_PER_SECOND))
    }

    /// The object's invalidation during its fetch, for a request that came when `arrival_sequence` was the newest one.
    pub fn overtaken_for(&self, arrival_sequence: u64) -> FetchInvalidation {
        let overtaken = self.overtaken.load(Relaxed);
        let is_older = arrival_sequence < overtaken & NUMBER;
        match overtaken & FLAGS {
            OVERTAKEN if is_older => FetchInvalidation::Not,
            OVERTAKEN => FetchInvalidation::Before,
            FLAGS if is_older => FetchInvalidation::Later,
            _ => FetchInvalidation::Not,
        }
    }

    /// True if new requests can't find the object.
    pub fn is_overtaken(&self) -> bool {
        self.overtaken.load(Relaxed) & FLAGS == OVERTAKEN
    }

    /// Counts a use for eviction. No lock, and no write once it is popular.
    pub fn touch(&self) {
        let freq = self.freq.load(Relaxed);
        if freq < MAX_FREQ {
            self.freq.store(freq + 1, Relaxed);
        }
    }

    pub fn freq(&self) -> u8 {
        self.freq.load(Relaxed)
    }

    pub fn set_freq(&self, freq: u8) {
        self.freq.store(freq, Relaxed);
    }

    pub fn boc(&self) -> Option<Arc<Boc>> {
        match self.bytes.get() {
            Some(_) => None,
            None => self.boc.get(),
        }
    }

    pub fn drop_boc(&self) {
        assert!(self.bytes.get().is_some(), "an objcore has its bytes or its boc");
        drop(self.boc.take());
    }

    /// The forms of its body, of a whole one.
    pub fn forms(&self) -> Option<Arc<Forms>> {
        self.boc.second()
    }

    /// Replaces the object's forms, and returns the former ones.
    pub fn set_forms(&self, forms: Forms) -> Result<Option<Arc<Forms>>, NotWhole> {
        self.bytes.get().ok_or(NotWhole)?;
        self.boc.put_second(Some(Arc::new(forms))).map_err(|_| NotWhole)
    }

    pub fn bytes(&self) -> Option<&ObjBytes> {
        self.bytes.get()
    }

    pub fn has_tail(&self) -> bool {
        self.bytes.get().is_some_and(|bytes| bytes.tail.is_some())
    }

    pub fn record(&self) -> Option<RecordId> {
        self.bytes.get()?.buf.record()
    }

    /// The body, if it was read back from the store's home and is too long to have come with the head.
    pub fn home_rest(&self) -> Option<&HomeRest> {
        match self.bytes.get()?.rest()? {
            Rest::Home(rest) => Some(rest),
            Rest::Blocks(_) => None,
        }
    }

    /// The name of the stored copy in the store's home, if there is one.
    pub fn home(&self) -> Option<HomeId> {
        self.bytes.get()?.own_facts()?.home()
    }

    /// Sets or clears the name of the stored copy. The object is complete, and the caller has the shard's lock or the
    /// objcore isn't in the index.
    pub fn set_home(&self, id: Option<HomeId>) {
        let facts = self.bytes.get().and_then(ObjBytes::own_facts);
        facts.expect("no object of a store with a home has a record").set_home(id);
    }

    /// Completes the object. The caller holds the shard's lock: it brings along changes to times and hits since the
    /// bytes were made.
    pub fn set_bytes(&self, bytes: ObjBytes) {
        if !bytes.buf.is_frozen() {
            self.with_facts(|former| {
                let facts = bytes.facts();
                facts.set_times(former.times());
                facts.set_hits(former.hits());
            });
        }
        assert!(self.bytes.set(bytes).is_ok(), "an object is finished once");
        self.note_ban_seq();
    }

    /// Notes in the facts of a complete object how far it has been tested. Called after further tests, and after its
    /// completion.
    pub fn note_ban_seq(&self) {
        self.ban_seq.note(
            || self.bytes.get(),
            |_, seq| {
                if seq != NO_BAN {
                    self.change_facts(|facts| facts.raise_ban_seq(seq));
                }
            },
        );
    }

    /// True if the request selects this variant. An object without a vary key or without a head suits every request.
    pub fn vary_matches(&self, matches: impl Fn(VaryKey<'_>) -> bool) -> bool {
        if let Some(bytes) = self.bytes.get() {
            return bytes.view().vary().is_none_or(matches);
        }
        self.with_head_block(|block| block.vary().is_none_or(matches)).unwrap_or(true)
    }

    pub fn has_vary_of(&self, other: &Objcore) -> bool {
        let same = |one: HeadView<'_>| {
            other.with_head_block(|two| match (one.vary(), two.vary()) {
                (None, None) => true,
                (Some(one), Some(two)) => (one.spec, one.values) == (two.spec, two.values),
                (None, Some(_)) | (Some(_), None) => false,
            })
        };
        self.with_head_block(same).flatten().unwrap_or(false)
    }

    /// The stored head and its vary key, also while the body streams.
    pub fn with_head_block<R>(&self, read: impl FnOnce(HeadView<'_>) -> R) -> Option<R> {
        if let Some(bytes) = self.bytes.get() {
            return Some(read(bytes.view()));
        }
        match self.boc.get() {
            Some(boc) => boc.head_block().map(|block| read(block.view())),
            None => self.bytes.get().map(|bytes| read(bytes.view())),
        }
    }

    pub fn has_lost_body(&self) -> bool {
        self.bytes.get().is_some_and(ObjBytes::has_lost_body)
    }

    /// Bytes its store is charged with.
    pub fn weight(&self) -> u64 {
        self.bytes.get().map_or(0, |bytes| bytes.buf.charged_bytes() + bytes.rest().map_or(0, Rest::charged_bytes))
    }
}

impl HeadBlock {
    pub fn view(&self) -> HeadView<'_> {
        HeadView { bytes: &self.buf, lengths: self.lengths }
    }
}

impl<'a> HeadView<'a> {
    pub fn head(self) -> &'a [u8] {
        &self.bytes[..self.lengths.head as usize]
    }

    pub fn vary(self) -> Option<VaryKey<'a>> {
        let HeadLengths { head, spec, .. } = self.lengths;
        if spec == 0 {
            return None;
        }
        let (spec, values) = self.bytes.get(head as usize..self.lengths.kept())?.split_at(spec as usize);
        Some(VaryKey { spec, values })
    }

    /// Bytes that the engine stored beside the head.
    pub fn aux_attrs(self) -> &'a [u8] {
        &self.bytes[self.lengths.kept()..self.lengths.all()]
    }
}

impl ObjBytes {
    /// Bytes of an object that `record` describes, with that record or without one.
    pub fn new(buf: Buf, rest: Option<Rest>, record: &Record) -> Self {
        let tail = match (buf.facts(), rest) {
            (Some(_), None) => None,
            (Some(_), rest) => Some(Tail { facts: OwnFacts::default(), rest }),
            (None, rest) => Some(Tail { facts: OwnFacts::new(record), rest }),
        };
        Self { buf, tail: tail.map(Box::new) }
    }

    fn facts(&self) -> Facts<'_> {
        let own = || self.own_facts().expect("an object without a record has words of its own").facts();
        self.buf.facts().unwrap_or_else(own)
    }

    pub fn own_facts(&self) -> Option<&OwnFacts> {
        self.tail.as_ref().filter(|_| self.buf.facts().is_none()).map(|tail| &tail.facts)
    }

    fn lengths(&self) -> HeadLengths {
        self.facts().lengths()
    }

    pub fn view(&self) -> HeadView<'_> {
        HeadView { bytes: &self.buf, lengths: self.lengths() }
    }

    fn rest(&self) -> Option<&Rest> {
        self.tail.as_ref()?.rest.as_ref()
    }

    /// True if the body was only in the home and isn't there any more.
    fn has_lost_body(&self) -> bool {
        matches!(self.rest(), Some(Rest::Home(rest)) if rest.front().is_none() && !rest.stored().is_there())
    }

    pub fn body_len(&self) -> u64 {
        match self.rest() {
            Some(rest) => rest.len(),
            None => (self.buf.len() - self.lengths().all()) as u64,
        }
    }

    /// Body bytes from the start of `wanted` on, up to the end of their block; `None` at the body's end. Of a body in memory
    /// always ready: only one in a store's home is a call that can't be seen through, and wants to know how far it is read.
    #[inline]
    pub fn poll_at(
        &self,
        cx: &mut Context<'_>,
        waiter: &mut Option<u64>,
        wanted: Range<u64>,
    ) -> Poll<Result<Option<Buf>, StoreError>> {
        let offset = wanted.start;
        if offset >= self.body_len() {
            return Poll::Ready(Ok(None));
        }
        Poll::Ready(Ok(match self.rest() {
            None => Some(self.buf.slice(self.lengths().all() + offset as usize..self.buf.len())),
            Some(Rest::Blocks(pieces)) => piece_at(pieces, offset),
            Some(Rest::Home(rest)) => match rest.front() {
                Some(pieces) => piece_at(pieces, offset),
                None => return rest.stored().poll_at(cx, waiter, wanted).map_ok(Some),
            },
        }))
    }

    /// Removes a reader that waited for the store.
    pub fn forget(&self, waiter: u64) {
        if let Some(Rest::Home(rest)) = self.rest() {
            rest.stored().forget(waiter);
        }
    }
}

impl Drop for Objcore {
    fn drop(&mut self) {
        self.main.n_objectcore.untally(1);
        if self.store() != NO_STORE {
            self.main.n_object.untally(1);
        }
    }
}

impl std::fmt::Debug for Objcore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Objcore({:?} x={} {:?})", self.digest(), self.xid(), self.state())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objcore_is_small() {
        // With the two counts of its Arc: a class of the allocator's.
        assert!(size_of::<Objcore>() + 16 <= 96, "{}", size_of::<Objcore>());
    }
}
