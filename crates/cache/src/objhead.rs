// SPDX-License-Identifier: BSD-2-Clause
//! The index of one shard: digest to objhead, an objhead's variants and its waitinglist.
//!
//! Nearly all objheads have one variant and nobody waiting: those are a bare objcore in a table of their own, which costs
//! a pointer each. An objhead is in one of the two tables.
//! Variants stand in the order in which they were stored, the newest last, each with the hash of its vary key: finding
//! one among thousands reads a row of words, not thousands of objcores.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use hashbrown::HashTable;
use sync::{Called, Line, Turn};
use tables::counters::Main;

use base::Mono;

use crate::attrs::VaryKey;
use crate::digest::Digest;
use crate::objcore::{Objcore, ObjcoreStage};
use crate::waiting::RushReason;

/// The vary hash of an objcore that every request must look at: a stored one without Vary.
pub(crate) const ANY: u64 = 0;

/// The value for a busy objcore, instead of a vary hash. Lookups consider these when no stored one will do.
pub(crate) const BUSY: u64 = 2;

/// Number of variants from which on lookups use the hash of the vary key.
pub(crate) const HASHED_FROM: usize = 8;

pub(crate) struct ObjheadTable {
    /// Objheads with one variant and no parked requests.
    ones: HashTable<Arc<Objcore>>,
    /// Objheads with several variants or with parked requests.
    full: HashTable<Box<Objhead>>,
    /// One that isn't used now, empty: an object that can't be cached needs one whenever it is fetched beside its marker.
    spare: Option<Box<Objhead>>,
    main: &'static Main,
}

/// An objhead with room for more variants isn't kept as a spare.
const SPARE_VARIANTS: usize = 8;

pub(crate) struct Objhead {
    digest: Digest,
    pub objcs: Vec<Arc<Objcore>>,
    /// For each of `objcs`, in the same order.
    pub hashes: Vec<u64>,
    /// The sets of field names that variants were stored under.
    pub specs: Vec<Box<[u8]>>,
    /// Number up to which bans have been tested on all variants that `ban_any_variant` counts.
    pub tested_to: AtomicU64,
    waiting: Line<RushReason>,
    /// Number of variants from which on the objhead counts as having many.
    many_from: Option<usize>,
}

impl ObjheadTable {
    pub fn new(main: &'static Main) -> Self {
        Self { ones: HashTable::new(), full: HashTable::new(), spare: None, main }
    }

    /// The variants of an objhead, newest last; and the objhead, when it is more than one that nobody waits for.
    pub fn look(&self, digest: &Digest) -> (&[Arc<Objcore>], Option<&Objhead>) {
        if let Some(oc) = self.one(digest) {
            return (std::slice::from_ref(oc), None);
        }
        match self.full(digest) {
            None => (&[], None),
            Some(head) => (&head.objcs, Some(head)),
        }
    }

    /// The variants of an objhead, newest last.
    pub fn objcs(&self, digest: &Digest) -> &[Arc<Objcore>] {
        self.look(digest).0
    }

    fn is_here(&self, digest: &Digest) -> bool {
        self.one(digest).is_some() || self.full(digest).is_some()
    }

    pub fn len(&self) -> usize {
        self.ones.len() + self.full.len()
    }

    /// Bytes that the tables and the objheads take, without the objcores and the waiters.
    pub fn bytes(&self) -> u64 {
        let heads: usize = self.full.iter().chain(&self.spare).map(|head| head.bytes()).sum();
        (self.ones.allocation_size() + self.full.allocation_size() + heads) as u64
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Objcore>> {
        self.ones.iter().chain(self.full.iter().flat_map(|head| &head.objcs))
    }

    fn one(&self, digest: &Digest) -> Option<&Arc<Objcore>> {
        self.ones.find(digest.hash(), |oc| oc.is_of(digest))
    }

    fn full(&self, digest: &Digest) -> Option<&Objhead> {
        self.full.find(digest.hash(), |head| head.digest == *digest).map(|head| &**head)
    }

    fn full_mut(&mut self, digest: &Digest) -> Option<&mut Objhead> {
        self.full.find_mut(digest.hash(), |head| head.digest == *digest).map(|head| &mut **head)
    }

    fn insert_one(&mut self, digest: &Digest, oc: Arc<Objcore>) {
        self.ones.insert_unique(digest.hash(), oc, |oc| oc.digest().hash());
    }

    /// Takes an objcore that is all of its objhead out of the table.
    fn take_one(&mut self, digest: &Digest) -> Option<Arc<Objcore>> {
        let entry = self.ones.find_entry(digest.hash(), |oc| oc.is_of(digest)).ok()?;
        Some(entry.remove().0)
    }

    pub fn add(&mut self, oc: Arc<Objcore>) {
        let digest = oc.digest();
        if !self.is_here(&digest) {
            self.main.n_objecthead.inc();
            self.main.hcb_insert.inc();
            return self.insert_one(&digest, oc);
        }
        let head = self.head_mut(&digest);
        head.objcs.push(oc);
        head.hashes.push(BUSY);
    }

    /// Adds objects of a former worker, oldest first. The objects that are here already are newer.
    pub fn adopt(&mut self, digest: &Digest, older: &[Arc<Objcore>], notice: usize) {
        if let [one] = older
            && !self.is_here(digest)
        {
            return self.add(one.clone());
        }
        if older.is_empty() {
            return;
        }
        let main = self.main;
        let head = self.head_mut(digest);
        *head.tested_to.get_mut() = 0;
        let hashes: Vec<u64> = older.iter().map(|oc| head.note(oc)).collect();
        head.hashes.splice(0..0, hashes);
        head.objcs.splice(0..0, older.iter().cloned());
        head.count_many(notice, main);
    }

    /// Adds an object that was in no index for a while: behind those that are older, busy ones aside.
    pub fn insert_by_age(&mut self, oc: &Arc<Objcore>, notice: usize) {
        let digest = oc.digest();
        if !self.is_here(&digest) {
            return self.add(oc.clone());
        }
        let (main, t_origin) = (self.main, oc.times().t_origin);
        let head = self.head_mut(&digest);
        let is_older =
            |other: &Arc<Objcore>| other.state() != ObjcoreStage::Busy && other.times().t_origin.0 <= t_origin.0;
        let at = head.objcs.iter().rposition(is_older).map_or(0, |at| at + 1);
        *head.tested_to.get_mut() = 0;
        let hash = head.note(oc);
        head.objcs.insert(at, oc.clone());
        head.hashes.insert(at, hash);
        head.count_many(notice, main);
    }

    pub fn remove(&mut self, oc: &Arc<Objcore>) -> Arc<Objcore> {
        let digest = oc.digest();
        if let Some(one) = self.take_one(&digest) {
            assert!(Arc::ptr_eq(&one, oc), "an objcore is removed from where it is");
            self.main.n_objecthead.untally(1);
            return one;
        }
        let main = self.main;
        let head = self.full_mut(&digest).expect("an objcore that isn't dying has an objhead");
        // The oldest of many goes most often: it makes room for the newest.
        let at = match head.objcs.first() {
            Some(oldest) if Arc::ptr_eq(oldest, oc) => Some(0),
            _ => head.objcs.iter().rposition(|other| Arc::ptr_eq(other, oc)),
        };
        let at = at.expect("an objcore is removed from where it is");
        head.hashes.remove(at);
        let removed = head.objcs.remove(at);
        if head.many_from.is_some_and(|many| head.objcs.len() < many) {
            head.many_from = None;
            main.n_vary_many.dec();
        }
        self.drop_if_empty(&digest);
        removed
    }

    /// Makes a busy variant a stored one: the newest, found by its vary key. With `notice` of them the objhead has many.
    pub fn unbusy(&mut self, digest: &Digest, oc: &Arc<Objcore>, vary: Option<VaryKey<'_>>, notice: usize) {
        let main = self.main;
        let Some(head) = self.full_mut(digest) else { return };
        let hash = vary.map_or(ANY, |vary| vary_hash(vary.spec, vary.values));
        let at = head.objcs.iter().rposition(|other| Arc::ptr_eq(other, oc)).expect("a busy objcore is in its objhead");
        let tested_to = head.tested_to.get_mut();
        *tested_to = oc.ban_seq.get().min(*tested_to);
        let newest = head.objcs.remove(at);
        head.hashes.remove(at);
        head.objcs.push(newest);
        head.hashes.push(hash);
        if let Some(vary) = vary.filter(|vary| !head.specs.iter().any(|spec| **spec == *vary.spec)) {
            head.specs.push(vary.spec.into());
        }
        head.count_many(notice, main);
        self.drop_if_empty(digest);
    }

    /// The marker that `new` replaces: the newest older one that says the same to the same requests, and doesn't last
    /// longer. Where most responses are uncacheable there would otherwise be thousands of them.
    pub fn superseded(&self, new: &Arc<Objcore>) -> Option<Arc<Objcore>> {
        let old = self.before(new)?;
        let is_replaced =
            new.flags().is_uncacheable() && !old.is_overtaken() && old.times().dead_at().0 <= new.times().dead_at().0;
        is_replaced.then(|| old.clone())
    }

    /// The dead object that was kept for those that had waited for it: they get `new`, too.
    pub fn outlived(&self, new: &Arc<Objcore>, now: Mono) -> Option<Arc<Objcore>> {
        self.before(new).filter(|old| old.times().dead_at().0 <= now.0).cloned()
    }

    /// The newest older object of the same kind and the same requests.
    fn before(&self, new: &Arc<Objcore>) -> Option<&Arc<Objcore>> {
        let (objcs, head) = self.look(&new.digest());
        let hashes = &head?.hashes;
        let hash = hashes.last()?;
        let mut older = objcs.iter().zip(hashes).rev().filter(|(oc, other)| *other == hash && !Arc::ptr_eq(oc, new));
        let (old, _) = older.next()?;
        let is_same =
            old.state() == ObjcoreStage::Stored && old.flags().reuse == new.flags().reuse && old.has_vary_of(new);
        is_same.then_some(old)
    }

    /// The oldest stored variant, when there are more than `limit` (0: no limit).
    pub fn surplus(&self, digest: &Digest, limit: usize) -> Option<Arc<Objcore>> {
        let objcs = self.objcs(digest);
        if limit == 0 || objcs.len() <= limit {
            return None;
        }
        objcs.iter().find(|oc| oc.state() == ObjcoreStage::Stored).cloned()
    }

    /// True if another request may be parked when `limit` may be (0: any number).
    pub fn may_park(&self, digest: &Digest, limit: usize) -> bool {
        limit == 0 || self.look(digest).1.is_none_or(|head| head.waiting.len() < limit)
    }

    pub fn park(&mut self, digest: &Digest) -> Turn<RushReason> {
        self.main.waitinglist_len.inc();
        self.head_mut(digest).waiting.join()
    }

    pub fn has_waiters(&self, digest: &Digest) -> bool {
        self.look(digest).1.is_some_and(Objhead::has_waiters)
    }

    /// Calls parked requests off the list, oldest first; the caller wakes them after the unlock.
    pub fn call_waiters(&mut self, digest: &Digest, max: usize, reason: RushReason) -> Vec<Called> {
        let main = self.main;
        let Some(head) = self.full_mut(digest) else { return Vec::new() };
        let called: Vec<_> = std::iter::from_fn(|| head.waiting.call(reason)).take(max).collect();
        main.waitinglist_len.sub(called.len() as u64);
        self.drop_if_empty(digest);
        called
    }

    /// A parked request leaves the list. `Some`: it had been woken.
    pub fn leave(&mut self, digest: &Digest, turn: &Turn<RushReason>) -> Option<RushReason> {
        let main = self.main;
        // An objhead on which nobody waits may be gone.
        let Some(head) = self.full_mut(digest) else { return turn.take() };
        let before = head.waiting.len();
        let woken = head.waiting.leave(turn);
        main.waitinglist_len.sub((before - head.waiting.len()) as u64);
        self.drop_if_empty(digest);
        woken
    }

    /// Parked requests, and whether every objhead is whole: see `audit`.
    pub fn audit(&self) -> Result<usize, String> {
        let heads = self.full.iter();
        heads
            .map(|head| {
                let is_whole = head.hashes.len() == head.objcs.len()
                    && head.objcs.iter().all(|oc| oc.is_of(&head.digest))
                    && self.one(&head.digest).is_none();
                if !is_whole || head.objcs.is_empty() && head.waiting.is_empty() {
                    return Err(format!("the objhead of {:?} isn't whole", head.digest));
                }
                Ok(head.waiting.len())
            })
            .sum()
    }

    /// The objhead in its full form, made if need be.
    fn head_mut(&mut self, digest: &Digest) -> &mut Objhead {
        let one = self.take_one(digest);
        let entry = self.full.entry(digest.hash(), |head| head.digest == *digest, |head| head.digest.hash());
        let (main, spare) = (self.main, &mut self.spare);
        let head = entry.or_insert_with(|| {
            if one.is_none() {
                main.n_objecthead.inc();
                main.hcb_insert.inc();
            }
            let mut head = spare.take().unwrap_or_else(|| Box::new(Objhead::new()));
            head.begin(*digest, one);
            head
        });
        head.into_mut()
    }

    /// Brings an objhead to its smallest form, or drops it.
    fn drop_if_empty(&mut self, digest: &Digest) {
        let found = self.full.find_entry(digest.hash(), |head| head.digest == *digest);
        let Ok(entry) = found else { return };
        let head = entry.get();
        if !head.waiting.is_empty() || head.objcs.len() > 1 {
            return;
        }
        let (mut left, _) = entry.remove();
        match left.objcs.pop() {
            Some(oc) => self.insert_one(digest, oc),
            None => self.main.n_objecthead.untally(1),
        }
        if left.objcs.capacity() <= SPARE_VARIANTS {
            left.clear();
            self.spare = Some(left);
        }
    }
}

impl Objhead {
    fn bytes(&self) -> usize {
        let rows = self.objcs.capacity() * (size_of::<Arc<Objcore>>() + size_of::<u64>());
        size_of::<Self>() + rows + self.specs.iter().map(|spec| spec.len()).sum::<usize>()
    }

    pub fn has_waiters(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Counts variants after an object was stored. Objcores that are being fetched aren't variants yet, but an objhead
    /// with many fetches will have many variants.
    fn count_many(&mut self, notice: usize, main: &Main) {
        let count = self.objcs.len();
        if count as u64 > main.vary_max.get() {
            main.vary_max.set(count as u64);
        }
        if self.many_from.is_none() && count >= notice.max(2) {
            self.many_from = Some(notice.max(2));
            main.vary_many.inc();
            main.n_vary_many.inc();
        }
    }

    fn new() -> Self {
        Self {
            digest: Digest([0; 32]),
            objcs: Vec::new(),
            hashes: Vec::new(),
            specs: Vec::new(),
            tested_to: AtomicU64::new(0),
            waiting: Line::new(),
            many_from: None,
        }
    }

    /// Makes an empty one that of `digest`, of which there was one objcore or none.
    fn begin(&mut self, digest: Digest, oc: Option<Arc<Objcore>>) {
        self.digest = digest;
        if let Some(oc) = oc {
            let hash = self.note(&oc);
            self.objcs.push(oc);
            self.hashes.push(hash);
        }
    }

    fn clear(&mut self) {
        self.objcs.clear();
        self.hashes.clear();
        // Nearly always without memory, which others may have.
        (self.specs, self.waiting, self.many_from) = (Vec::new(), Line::new(), None);
        *self.tested_to.get_mut() = 0;
    }

    /// The vary hash of an objcore that wasn't here in this form; its spec is remembered.
    fn note(&mut self, oc: &Objcore) -> u64 {
        if oc.state() == ObjcoreStage::Busy {
            return BUSY;
        }
        oc.with_head_block(|head_block| {
            head_block.vary().map_or(ANY, |vary| {
                if !self.specs.iter().any(|spec| **spec == *vary.spec) {
                    self.specs.push(vary.spec.into());
                }
                vary_hash(vary.spec, vary.values)
            })
        })
        .unwrap_or(ANY)
    }
}

/// Hash of a vary key; never [`ANY`] or [`BUSY`]. (FNV-1a: a client that chooses the values can at worst make its own
/// lookups linear.)
pub(crate) fn vary_hash(spec: &[u8], values: &[u8]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for &byte in spec.iter().chain(&[0xff]).chain(values) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash | 1
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::boc::Boc;

    #[test]
    fn an_objhead_of_one_variant_costs_a_pointer_and_little_else() {
        let main: &'static Main = Box::leak(Box::default());
        let mut heads = ObjheadTable::new(main);
        let digests: Vec<Digest> = (0..1700u64)
            .map(|n| {
                let mut digest = [0; 32];
                digest[8..16].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
                Digest(digest)
            })
            .collect();
        for &digest in &digests {
            heads.add(Objcore::busy(main, Arc::new(Boc::new(digest, false, None, None))));
        }
        // Of 2048 places, 7 of 8 may be taken; each has a byte of the table's own.
        assert!(heads.bytes() < 1700 * 12, "{}", heads.bytes());
        let before = heads.bytes();
        let turn = heads.park(&digests[3]);
        assert!(heads.bytes() > before && heads.has_waiters(&digests[3]) && heads.objcs(&digests[3]).len() == 1);
        assert_eq!(heads.call_waiters(&digests[3], 9, RushReason::LookAgain).len(), 1);
        assert_eq!((heads.full.len(), heads.len()), (0, 1700));
        assert_eq!(heads.leave(&digests[3], &turn), Some(RushReason::LookAgain));
        assert_eq!((main.n_objecthead.get(), heads.all().count()), (1700, 1700));
    }

    #[test]
    fn a_spare_objhead_has_nothing_of_the_one_before() {
        let main: &'static Main = Box::leak(Box::default());
        let mut heads = ObjheadTable::new(main);
        let busy = |n: u8| Objcore::busy(main, Arc::new(Boc::new(Digest([n; 32]), false, None, None)));
        let key = VaryKey { spec: b"spec", values: b"values" };
        let (first, second) = (busy(1), busy(1));
        heads.add(first.clone());
        heads.add(second.clone());
        heads.unbusy(&second.digest(), &second, Some(key), 2);
        let full = heads.full.iter().next().map(|head| &raw const **head);
        assert!(main.n_vary_many.get() == 1 && full.is_some());
        heads.full(&Digest([1; 32])).unwrap().tested_to.store(7, Relaxed);
        heads.remove(&first);
        assert_eq!((heads.full.len(), main.n_vary_many.get()), (0, 0));
        heads.add(busy(2));
        heads.add(busy(2));
        let head = heads.full(&Digest([2; 32])).unwrap();
        assert_eq!(Some(&raw const *head), full);
        assert!(head.hashes == [BUSY; 2] && head.specs.is_empty() && head.many_from.is_none());
        assert_eq!(head.tested_to.load(Relaxed), 0);
        assert!(heads.audit() == Ok(0) && heads.objcs(&Digest([1; 32])).len() == 1);
    }
}
