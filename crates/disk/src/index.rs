// SPDX-License-Identifier: BSD-2-Clause
//! The index in memory: 16 bytes an object, which say where its record is, how much to read of it, when it expires and
//! how often it was used. Who is meant is known by 32 bits of the key (more by the choice of the shard), so that one in
//! many thousand finds another's record; whoever loads it sees that by the digest.

mod shard;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::format::DigestKey;
use shard::IndexShard;
pub(crate) use shard::{IndexSlot, MOST_USE};

/// Position of a key's objects in the index: the shard, and the tag in it. Neighbouring places are neighbours in
/// memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct IndexPlace(u64);

impl IndexPlace {
    fn new(shard: u32, tag: u32) -> IndexPlace {
        IndexPlace(u64::from(shard) << 32 | u64::from(tag))
    }

    fn shard(self) -> usize {
        (self.0 >> 32) as usize
    }

    fn tag(self) -> u32 {
        self.0 as u32
    }
}

/// A shard for so many bytes of the device, and for so many of the index, which has whole pages in each.
const SHARD_BYTES: [u64; 2] = [64 << 20, 64 << 10];

/// Memory is asked for so many places at a time.
const TOUCHED: usize = 16;

#[derive(Debug)]
pub(crate) struct DiskIndex {
    shards: Box<[Mutex<IndexShard>]>,
    /// Drawn anew in each process: nobody outside can choose names that crowd one place.
    seeds: [u64; 2],
    bytes: AtomicU64,
    objects: AtomicU64,
    most_bytes: u64,
}

impl DiskIndex {
    /// An empty one for a device of `device_bytes`, of `most_bytes` at most.
    pub fn new(device_bytes: u64, most_bytes: u64) -> DiskIndex {
        let [of_device, of_index] = SHARD_BYTES;
        let shards = (device_bytes / of_device).clamp(16, 4096).min(most_bytes / of_index).max(1).next_power_of_two();
        let state = RandomState::new();
        DiskIndex {
            shards: (0..shards).map(|_| Mutex::new(IndexShard::default())).collect(),
            seeds: [state.hash_one(1), state.hash_one(2)],
            bytes: AtomicU64::new(shards * size_of::<Mutex<IndexShard>>() as u64),
            objects: AtomicU64::new(0),
            most_bytes,
        }
    }

    pub fn place(&self, key: &DigestKey) -> IndexPlace {
        let [low, high] = [0, 8].map(|at| u64::from_le_bytes(key[at..at + 8].try_into().expect("8 of 16 bytes")));
        let product = u128::from(low ^ self.seeds[0]) * u128::from(high ^ self.seeds[1]);
        let hash = (product >> 64) as u64 ^ product as u64;
        IndexPlace::new((hash >> 32) as u32 & (self.shards.len() as u32 - 1), hash as u32)
    }

    /// Slots at a place that haven't expired.
    pub fn find(&self, place: IndexPlace, now: u32) -> Vec<IndexSlot> {
        let shard = self.shard(place).lock();
        shard.of_tag(place.tag()).filter(|slot| slot.expiry > now).collect()
    }

    pub fn get(&self, place: IndexPlace, at: u64) -> Option<IndexSlot> {
        self.shard(place).lock().of_tag(place.tag()).find(|slot| slot.at == at)
    }

    /// Adds a slot; false if the bound is reached.
    pub fn insert(&self, place: IndexPlace, slot: IndexSlot) -> bool {
        let is_in = self.insert_into(&mut self.shard(place).lock(), place, slot);
        self.objects.fetch_add(u64::from(is_in), Relaxed);
        is_in
    }

    /// Adds many in the order of their places. How many: where the bound is reached, not all.
    pub fn insert_all(&self, all: &[(IndexPlace, IndexSlot)]) -> usize {
        let mut count = 0;
        for of_shard in all.chunk_by(|(one, _), (next, _)| one.shard() == next.shard()) {
            let mut shard = self.shard(of_shard[0].0).lock();
            for some in of_shard.chunks(TOUCHED) {
                shard.touch(some.iter().map(|(place, _)| place.tag()));
                count += some.iter().filter(|&&(place, slot)| self.insert_into(&mut shard, place, slot)).count();
            }
        }
        self.objects.fetch_add(count as u64, Relaxed);
        count
    }

    /// The places of keys, in their order, each with its key's number.
    pub fn in_order<'a>(&self, keys: impl Iterator<Item = &'a DigestKey>) -> Vec<(IndexPlace, u32)> {
        let mut order: Vec<_> = keys.map(|key| self.place(key)).zip(0..).collect();
        order.sort_unstable_by_key(|&(place, _)| place);
        order
    }

    fn insert_into(&self, shard: &mut IndexShard, place: IndexPlace, slot: IndexSlot) -> bool {
        if shard.is_crowded() {
            let before = shard.bytes();
            let has_grown = shard.grow(self.most_bytes.saturating_sub(self.bytes.load(Relaxed)));
            self.bytes.fetch_add(shard.bytes() - before, Relaxed);
            if !has_grown {
                return false;
            }
        }
        shard.insert(place.tag(), slot);
        true
    }

    pub fn remove(&self, place: IndexPlace, at: u64) -> Option<IndexSlot> {
        let removed = self.shard(place).lock().remove(place.tag(), |slot| slot.at == at);
        self.count_removed(usize::from(removed.is_some()));
        removed
    }

    /// Takes out those of many, in the order of their places, that weren't used or have expired, and hears of the others by
    /// their position. How many went.
    pub fn remove_unused(&self, all: &[(IndexPlace, u64)], now: u32, mut is_used: impl FnMut(usize)) -> usize {
        let (mut removed, mut position) = (0, 0);
        for of_shard in all.chunk_by(|(one, _), (next, _)| one.shard() == next.shard()) {
            let mut shard = self.shard(of_shard[0].0).lock();
            for some in of_shard.chunks(TOUCHED) {
                shard.touch(some.iter().map(|(place, _)| place.tag()));
                for &(place, at) in some {
                    let slot = shard.of_tag(place.tag()).find(|slot| slot.at == at);
                    match slot {
                        Some(slot) if slot.used > 0 && slot.expiry > now => is_used(position),
                        Some(_) => removed += usize::from(shard.remove(place.tag(), |other| other.at == at).is_some()),
                        None => {}
                    }
                    position += 1;
                }
            }
        }
        self.count_removed(removed);
        removed
    }

    pub fn remove_all(&self, place: IndexPlace) -> Vec<IndexSlot> {
        let mut shard = self.shard(place).lock();
        let removed: Vec<IndexSlot> = std::iter::from_fn(|| shard.remove(place.tag(), |_| true)).collect();
        self.count_removed(removed.len());
        removed
    }

    /// Changes a slot in its place; `change` leaves the address as it is. Whether it is there.
    pub fn update(&self, place: IndexPlace, at: u64, change: impl FnOnce(&mut IndexSlot)) -> bool {
        self.shard(place).lock().update(place.tag(), at, change)
    }

    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Takes out of one shard what is in that range of units.
    pub fn sweep(&self, shard: usize, units: &Range<u64>) -> usize {
        let removed = self.shards[shard].lock().retain(|slot| !units.contains(&slot.at));
        self.count_removed(removed);
        removed
    }

    pub fn objects(&self) -> u64 {
        self.objects.load(Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    fn shard(&self, place: IndexPlace) -> &Mutex<IndexShard> {
        &self.shards[place.shard()]
    }

    fn count_removed(&self, count: usize) {
        self.objects.fetch_sub(count as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::DiskDice;

    fn key(number: u64) -> DigestKey {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&number.to_le_bytes());
        key[8..].copy_from_slice(&(!number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        key
    }

    fn slot(at: u64) -> IndexSlot {
        IndexSlot { at, blocks: 1, expiry: 10, used: 0 }
    }

    #[test]
    fn an_object_takes_at_most_24_bytes() {
        let index = DiskIndex::new(1 << 30, u64::MAX);
        for number in 1..=300_000 {
            assert!(index.insert(index.place(&key(number)), slot(number)));
            // Below that the empty shards count.
            if number % 10_000 == 0 {
                assert!(index.bytes() <= 24 * number, "{} bytes for {number}", index.bytes());
            }
        }
        assert!((1..=300_000).all(|number| index.get(index.place(&key(number)), number) == Some(slot(number))));
        assert!((1..=1000).all(|number| index.find(index.place(&key(number)), 10).is_empty()), "they have expired");
    }

    #[test]
    fn it_is_a_map_under_any_operations() {
        let index = DiskIndex::new(1 << 20, u64::MAX);
        let mut dice = DiskDice::new(5);
        let mut model = std::collections::BTreeSet::new();
        for _ in 0..40_000 {
            let (name, at) = (dice.below(300), 1 + dice.below(20));
            let place = index.place(&key(name));
            match dice.below(8) {
                0 => {
                    let removed = index.remove_all(place).len();
                    let before = model.len();
                    model.retain(|&(other, _)| other != name);
                    assert_eq!(removed, before - model.len());
                }
                1..4 => assert_eq!(index.remove(place, at).is_some(), model.remove(&(name, at))),
                4 if dice.below(100) == 0 => {
                    (0..index.shards()).for_each(|shard| _ = index.sweep(shard, &(5..8)));
                    model.retain(|&(_, at)| !(5..8).contains(&at));
                }
                _ if model.insert((name, at)) => assert!(index.insert(place, slot(at))),
                _ => assert!(index.update(place, at, |slot| slot.used = 1)),
            }
            assert_eq!(index.objects(), model.len() as u64);
            assert_eq!(index.find(place, 0).len(), model.iter().filter(|(other, _)| *other == name).count());
        }
    }

    #[test]
    fn a_bound_is_kept() {
        let index = DiskIndex::new(1 << 20, 10_000);
        let taken: Vec<u64> =
            (1..5000).filter(|&number| index.insert(index.place(&key(number)), slot(number))).collect();
        assert!((300..600).contains(&taken.len()) && index.bytes() <= 10_000, "{}", taken.len());
        assert!(taken.iter().all(|&number| index.get(index.place(&key(number)), number).is_some()));
        let all: Vec<_> = (5000..5100).map(|number| (index.place(&key(number)), slot(number))).collect();
        assert_eq!((index.insert_all(&all), index.objects()), (0, taken.len() as u64));
    }

    #[test]
    fn many_are_added_at_once_as_one_by_one() {
        let index = DiskIndex::new(1 << 30, u64::MAX);
        let mut all: Vec<_> = (1..=50_000).map(|number| (index.place(&key(number % 40_000)), slot(number))).collect();
        all.sort_unstable_by_key(|&(place, _)| place);
        assert_eq!(all.chunks(700).map(|some| index.insert_all(some)).sum::<usize>(), 50_000);
        assert_eq!(index.objects(), 50_000);
        assert!(all.iter().all(|&(place, slot)| index.get(place, slot.at) == Some(slot)));
        all.iter().filter(|(_, slot)| slot.at % 7 == 0).for_each(|&(place, slot)| {
            assert!(index.update(place, slot.at, |slot| slot.used = 1));
        });
        let (names, mut used): (Vec<_>, _) = (all.iter().map(|&(place, slot)| (place, slot.at)).collect(), Vec::new());
        let removed = index.remove_unused(&names, 9, |position| used.push(names[position].1));
        used.sort_unstable();
        assert_eq!((removed, used), (50_000 - 50_000 / 7, (7..=50_000).step_by(7).collect()));
        assert_eq!(index.remove_unused(&names, 10, |_| panic!("they have expired")), 50_000 / 7);
        assert_eq!(index.objects(), 0);
    }
}
