// SPDX-License-Identifier: BSD-2-Clause
//! One variant of an objhead: its state, its times, its bytes.
//!
//! An objcore is busy, stored or dying, and only ever moves in that direction; the state changes under its shard's lock.
//! Its memory is free when the last handle on it is gone.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use base::critical::Lock;
use base::{Mono, Vxid};
use storage::{Buf, RecordFields, RecordId, Rest, StoreError, StoreId, piece_at};
use tables::counters::Main;

use crate::attrs::{Attrs, Flags, PackedFlags, Times, Vary};
use crate::boc::Boc;
use crate::digest::Digest;

/// Where an objcore is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum State {
    Busy,
    Stored,
    Dying,
}

/// No head was stored yet: `n_object` doesn't count it.
const NO_STORE: StoreId = StoreId::MAX;
/// Not in the expiry heap, not in an eviction list.
pub(crate) const NO_SLOT: u32 = u32::MAX;
/// See [`Objcore::overtaken`].
const SOFTLY: u64 = 1 << 63;
/// Not attached to the ban list.
pub(crate) const NO_BAN: u64 = u64::MAX;
/// Highest value of the access count that eviction looks at.
pub(crate) const MAX_FREQ: u8 = 3;

/// See the module. In the order in which a hit reads it: two or three cache lines.
#[repr(C)]
pub(crate) struct Objcore {
    pub digest: Digest,
    /// All bans up to this number have been tested; [`NO_BAN`] when it isn't on the ban list.
    pub ban_seq: AtomicU64,
    pub hits: AtomicU32,
    state: AtomicU8,
    flags: AtomicU8,
    freq: AtomicU8,
    store: AtomicU8,
    times: [AtomicU64; 4],
    /// Number of the first invalidation that overtook it: requests older than that may still have it. 0 = none. With
    /// [`SOFTLY`], it took the object's lives only.
    overtaken: AtomicU64,
    bytes: OnceLock<ObjBytes>,
    xid: AtomicU64,
    boc: Lock<Option<Arc<Boc>>>,
    main: &'static Main,
    pub heap_slot: AtomicU32,
    pub evict_slot: AtomicU32,
}

/// How an invalidation that came during a fetch bears on a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Invalidation {
    /// The object is what it seems.
    Not,
    /// The invalidation is older than the request, so the request must not find the object.
    Before,
    /// The request is older than the invalidation: for it the object's lives are not over yet, whatever its times say.
    Later,
}

/// A stored head with its vary key and auxiliary attributes, in one block; a small body may follow them.
#[derive(Clone, Debug)]
pub(crate) struct HeadBlock {
    pub buf: Buf,
    pub head_len: u32,
    pub spec_len: u32,
    pub values_len: u32,
    pub aux_len: u32,
}

/// All bytes of a finished object.
pub(crate) struct ObjBytes {
    pub head_block: HeadBlock,
    /// A body that isn't in the head block; thin, because most are.
    rest: Option<Box<Rest>>,
}

impl Objcore {
    pub fn busy(digest: Digest, main: &'static Main, boc: Arc<Boc>) -> Arc<Self> {
        main.n_objectcore.inc();
        Arc::new(Self {
            digest,
            main,
            xid: AtomicU64::new(0),
            times: Default::default(),
            ban_seq: AtomicU64::new(NO_BAN),
            overtaken: AtomicU64::new(0),
            hits: AtomicU32::new(0),
            heap_slot: AtomicU32::new(NO_SLOT),
            evict_slot: AtomicU32::new(NO_SLOT),
            state: AtomicU8::new(State::Busy as u8),
            flags: AtomicU8::new(0),
            freq: AtomicU8::new(0),
            store: AtomicU8::new(NO_STORE),
            bytes: OnceLock::new(),
            boc: Lock::new(Some(boc)),
        })
    }

    /// An object of a former worker, as its record has it.
    pub fn adopted(
        fields: &RecordFields,
        times: Times,
        store: StoreId,
        bytes: ObjBytes,
        main: &'static Main,
    ) -> Arc<Self> {
        main.n_objectcore.inc();
        main.n_object.inc();
        let oc = Self {
            digest: Digest(fields.digest),
            main,
            xid: AtomicU64::new(fields.xid),
            times: Default::default(),
            ban_seq: AtomicU64::new(NO_BAN),
            overtaken: AtomicU64::new(0),
            hits: AtomicU32::new(fields.hits),
            heap_slot: AtomicU32::new(NO_SLOT),
            evict_slot: AtomicU32::new(NO_SLOT),
            state: AtomicU8::new(State::Stored as u8),
            flags: AtomicU8::new(fields.flags),
            freq: AtomicU8::new(0),
            store: AtomicU8::new(store),
            bytes: OnceLock::from(bytes),
            boc: Lock::new(None),
        };
        oc.set_times(times);
        Arc::new(oc)
    }

    pub fn state(&self) -> State {
        match self.state.load(Relaxed) {
            0 => State::Busy,
            1 => State::Stored,
            _ => State::Dying,
        }
    }

    /// Moves on. The caller holds the shard's lock, or the objcore is private.
    pub fn set_state(&self, next: State) {
        let old = self.state.swap(next as u8, Relaxed);
        assert!(old < next as u8, "an objcore's state only moves forward");
    }

    pub fn xid(&self) -> Vxid {
        Vxid(self.xid.load(Relaxed))
    }

    pub fn flags(&self) -> Flags {
        self.packed_flags().unpack()
    }

    pub fn packed_flags(&self) -> PackedFlags {
        PackedFlags(self.flags.load(Relaxed))
    }

    /// Its ESI program is stored.
    pub fn set_esi(&self) {
        self.flags.fetch_or(PackedFlags::ESI, Relaxed);
    }

    pub fn store(&self) -> StoreId {
        self.store.load(Relaxed)
    }

    pub fn times(&self) -> Times {
        let [t_origin, ttl, grace, keep] = [0, 1, 2, 3].map(|i: usize| f64::from_bits(self.times[i].load(Relaxed)));
        Times { t_origin: Mono(t_origin), ttl, grace, keep }
    }

    pub fn set_times(&self, times: Times) {
        let values = [times.t_origin.0, times.ttl, times.grace, times.keep];
        self.times.iter().zip(values).for_each(|(slot, value)| slot.store(value.to_bits(), Relaxed));
    }

    /// Notes what the fetch knows; the objcore is busy.
    pub fn describe(&self, attrs: &Attrs, store: StoreId) {
        self.set_times(attrs.times);
        self.xid.store(attrs.xid.0, Relaxed);
        self.flags.store(PackedFlags::from(attrs.flags).0, Relaxed);
        if self.store.swap(store, Relaxed) == NO_STORE {
            self.main.n_object.inc();
        }
    }

    /// Notes the number of an invalidation; the lowest counts. Answers whether it is the first.
    pub fn overtake(&self, seq: u64) -> bool {
        let lower = |old: u64| {
            let new = if old == 0 { seq } else { seq.min(old & !SOFTLY) };
            (new != old).then_some(new)
        };
        self.overtaken.try_update(Relaxed, Relaxed, lower).is_ok_and(|old| old == 0 || old & SOFTLY != 0)
    }

    /// Notes the number of a soft purge, unless something else was first.
    pub fn overtake_softly(&self, seq: u64) {
        let _ = self.overtaken.compare_exchange(0, seq | SOFTLY, Relaxed, Relaxed);
    }

    /// What became of it for a request that came when `arrival_sequence` was the newest invalidation.
    pub fn overtaken_for(&self, arrival_sequence: u64) -> Invalidation {
        match self.overtaken.load(Relaxed) {
            0 => Invalidation::Not,
            softly if softly & SOFTLY != 0 && arrival_sequence < softly & !SOFTLY => Invalidation::Later,
            softly if softly & SOFTLY != 0 => Invalidation::Not,
            seq if arrival_sequence < seq => Invalidation::Not,
            _ => Invalidation::Before,
        }
    }

    /// Whether requests from now on don't find it.
    pub fn is_overtaken(&self) -> bool {
        let overtaken = self.overtaken.load(Relaxed);
        overtaken != 0 && overtaken & SOFTLY == 0
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

    /// The fetch in progress, if there is one.
    pub fn boc(&self) -> Option<Arc<Boc>> {
        match self.bytes.get() {
            Some(_) => None,
            None => self.boc.lock().clone(),
        }
    }

    /// The fetch is over (well or badly): lets go of it.
    pub fn drop_boc(&self) {
        *self.boc.lock() = None;
    }

    pub fn bytes(&self) -> Option<&ObjBytes> {
        self.bytes.get()
    }

    /// What survives of it, once it is whole; where that is is known of its bytes.
    pub fn record(&self) -> Option<RecordId> {
        self.bytes.get()?.head_block.buf.record()
    }

    pub fn set_bytes(&self, bytes: ObjBytes) {
        assert!(self.bytes.set(bytes).is_ok(), "an object is finished once");
    }

    /// Whether the request selects this variant; one without a vary key, or without a head yet, is everybody's.
    pub fn vary_matches(&self, matches: impl Fn(Vary<'_>) -> bool) -> bool {
        if let Some(bytes) = self.bytes.get() {
            return bytes.head_block.vary().is_none_or(matches);
        }
        let boc = self.boc.lock().clone();
        boc.is_none_or(|boc| boc.head_block().is_none_or(|block| block.vary().is_none_or(matches)))
    }

    /// Whether both are the same variant.
    pub fn has_vary_of(&self, other: &Objcore) -> bool {
        let same = |one: &HeadBlock| {
            other.with_head_block(|two| match (one.vary(), two.vary()) {
                (None, None) => true,
                (Some(one), Some(two)) => (one.spec, one.values) == (two.spec, two.values),
                (None, Some(_)) | (Some(_), None) => false,
            })
        };
        self.with_head_block(same).flatten().unwrap_or(false)
    }

    /// The stored head and its vary key, also while the body streams.
    pub fn with_head_block<R>(&self, read: impl FnOnce(&HeadBlock) -> R) -> Option<R> {
        if let Some(bytes) = self.bytes.get() {
            return Some(read(&bytes.head_block));
        }
        let boc = self.boc.lock().clone();
        match boc {
            Some(boc) => boc.head_block().map(read),
            None => self.bytes.get().map(|bytes| read(&bytes.head_block)),
        }
    }

    /// Bytes its store is charged with.
    pub fn weight(&self) -> u64 {
        self.bytes.get().map_or(0, |bytes| {
            let rest = bytes.rest.as_ref().map_or(0, |rest| rest.charged_bytes());
            bytes.head_block.buf.charged_bytes() + rest
        })
    }
}

impl HeadBlock {
    pub fn head(&self) -> &[u8] {
        &self.buf[..self.head_len as usize]
    }

    pub fn vary(&self) -> Option<Vary<'_>> {
        if self.spec_len == 0 {
            return None;
        }
        let (head, spec, values) = (self.head_len as usize, self.spec_len as usize, self.values_len as usize);
        let (spec, values) = self.buf.get(head..head + spec + values)?.split_at(spec);
        Some(Vary { spec, values })
    }

    /// What the engine stored beside the head.
    pub fn aux_attrs(&self) -> &[u8] {
        let end = self.len();
        &self.buf[end - self.aux_len as usize..end]
    }

    /// Length of all but a body.
    pub fn len(&self) -> usize {
        (self.head_len + self.spec_len + self.values_len + self.aux_len) as usize
    }
}

impl ObjBytes {
    pub fn new(head_block: HeadBlock, rest: Option<Rest>) -> Self {
        Self { head_block, rest: rest.map(Box::new) }
    }

    pub fn body_len(&self) -> u64 {
        match &self.rest {
            Some(rest) => rest.len(),
            None => (self.head_block.buf.len() - self.head_block.len()) as u64,
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
        let buf = &self.head_block.buf;
        Poll::Ready(Ok(match self.rest.as_deref() {
            None => Some(buf.slice(self.head_block.len() + offset as usize..buf.len())),
            Some(Rest::Blocks(pieces)) => piece_at(pieces, offset),
            Some(Rest::Home(body)) => return body.poll_at(cx, waiter, wanted).map_ok(Some),
        }))
    }

    /// A reader that waited for the store goes away.
    pub fn forget(&self, waiter: u64) {
        if let Some(Rest::Home(body)) = self.rest.as_deref() {
            body.forget(waiter);
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
        write!(f, "Objcore({:?} x={} {:?})", self.digest, self.xid(), self.state())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objcore_is_small() {
        // With the two counts of its Arc: a class of the allocator's.
        assert!(size_of::<Objcore>() + 16 <= 192, "{}", size_of::<Objcore>());
    }
}
