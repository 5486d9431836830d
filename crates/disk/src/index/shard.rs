// SPDX-License-Identifier: BSD-2-Clause
//! A part of the index: slots sorted by tag, with gaps, each as near as the others let it to the place that its tag has
//! by its size. What is sought stands behind that place, before the next gap; nothing beside the slots is stored. It grows in
//! place, on pages of its own: there is nothing beside it that somebody would have to count.

use sys::words::OwnedWords;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IndexSlot {
    /// Unit of the record, 40 bits, never 0.
    pub at: u64,
    /// Blocks that it touches, 255 for more.
    pub blocks: u8,
    pub expiry: u32,
    /// Number of uses since it was written, at most [`MOST_USE`].
    pub used: u8,
}

pub(crate) const MOST_USE: u8 = 3;

const AT_BITS: u32 = 40;
/// A shard grows by one part in so many, and by whole pages.
const GROWTH: usize = 8;
const PAGE: usize = OwnedWords::PAGE / 2;
/// Room behind the last place for what is pushed beyond it.
const TAIL: usize = 8;

/// A tag and a slot in two words: tag and expiry, then address, blocks and use. All zero: a gap.
type Packed = [u64; 2];

const GAP: Packed = [0, 0];

fn pack(tag: u32, slot: IndexSlot) -> Packed {
    debug_assert!(slot.at != 0 && slot.at >> AT_BITS == 0, "an address of 40 bits, never 0");
    let rest = u64::from(slot.blocks) | u64::from(slot.used) << 8;
    [u64::from(tag) << 32 | u64::from(slot.expiry), slot.at | rest << AT_BITS]
}

fn is_gap(packed: Packed) -> bool {
    packed[1] == 0
}

fn tag_of(packed: Packed) -> u32 {
    (packed[0] >> 32) as u32
}

fn slot_of(packed: Packed) -> IndexSlot {
    let rest = packed[1] >> AT_BITS;
    IndexSlot {
        at: packed[1] & ((1 << AT_BITS) - 1),
        blocks: rest as u8,
        expiry: packed[0] as u32,
        used: (rest >> 8) as u8,
    }
}

#[derive(Default, Debug)]
pub(crate) struct IndexShard {
    words: OwnedWords,
    /// Places that tags are spread over; behind them is a tail.
    places: usize,
    len: usize,
}

impl IndexShard {
    pub fn of_tag(&self, tag: u32) -> impl Iterator<Item = IndexSlot> {
        self.run(tag).filter(move |&&packed| tag_of(packed) == tag).map(|&packed| slot_of(packed))
    }

    /// True if it must grow before one more goes in: it is 85 % full, or something stands at its very end.
    pub fn is_crowded(&self) -> bool {
        (self.len + 1) * 20 > self.places * 17 || self.is_full_to_the_end()
    }

    fn is_full_to_the_end(&self) -> bool {
        self.slots().last().is_none_or(|&last| !is_gap(last))
    }

    pub fn bytes(&self) -> u64 {
        size_of_val(&*self.words) as u64
    }

    /// Makes it larger, by so many bytes at most. False: it is as before.
    pub fn grow(&mut self, most: u64) -> bool {
        let (bound, before) = (self.bytes().saturating_add(most), self.places);
        let mut slots = (self.slots().len() + (before / GROWTH).max(1)).next_multiple_of(PAGE);
        let places = slots - TAIL;
        let mut is_in_place = true;
        loop {
            if (slots * size_of::<Packed>()) as u64 > bound || self.words.grow(2 * slots).is_err() {
                assert!(is_in_place || self.spread(before), "what had room has room");
                return false;
            }
            is_in_place = self.spread(places);
            if is_in_place && !self.is_full_to_the_end() {
                return true;
            }
            // Tags that crowd the last places push the tail out.
            slots += PAGE;
        }
    }

    /// Looks where tags belong, before they are all added: the memory's answers to many come in the time of one.
    pub fn touch(&self, tags: impl Iterator<Item = u32>) {
        let slots = self.slots();
        std::hint::black_box(tags.fold(0, |sum, tag| sum ^ slots.get(self.home(tag)).map_or(0, |slot| slot[1])));
    }

    /// Adds one; it isn't crowded.
    pub fn insert(&mut self, tag: u32, slot: IndexSlot) {
        self.len += 1;
        let mut at = self.home(tag);
        let slots = self.slots_mut();
        while !is_gap(slots[at]) && tag_of(slots[at]) <= tag {
            at += 1;
        }
        let mut gap = at;
        while !is_gap(slots[gap]) {
            gap += 1;
        }
        slots.copy_within(at..gap, at + 1);
        slots[at] = pack(tag, slot);
    }

    /// Takes out one of that tag that is meant.
    pub fn remove(&mut self, tag: u32, is_meant: impl Fn(&IndexSlot) -> bool) -> Option<IndexSlot> {
        let at = self.position(tag, is_meant)?;
        let removed = slot_of(self.slots()[at]);
        // Those behind it move up, as far as none stands at its own place.
        let moved = self.slots()[at + 1..].iter().enumerate();
        let moved = moved.take_while(|&(skipped, &slot)| !is_gap(slot) && self.home(tag_of(slot)) < at + 1 + skipped);
        let end = at + 1 + moved.count();
        let slots = self.slots_mut();
        slots.copy_within(at + 1..end, at);
        slots[end - 1] = GAP;
        self.len -= 1;
        Some(removed)
    }

    pub fn update(&mut self, tag: u32, at: u64, change: impl FnOnce(&mut IndexSlot)) -> bool {
        let Some(position) = self.position(tag, |slot| slot.at == at) else { return false };
        let mut slot = slot_of(self.slots()[position]);
        change(&mut slot);
        self.slots_mut()[position] = pack(tag, slot);
        true
    }

    pub fn retain(&mut self, stays: impl Fn(&IndexSlot) -> bool) -> usize {
        let mut removed = 0;
        for packed in self.slots_mut().iter_mut().filter(|packed| !is_gap(**packed)) {
            if !stays(&slot_of(*packed)) {
                *packed = GAP;
                removed += 1;
            }
        }
        self.len -= removed;
        if removed > 0 {
            // What stood at another's cost may move up now; the size stays.
            assert!(self.spread(self.places), "fewer have room where more had it");
        }
        removed
    }

    fn slots(&self) -> &[Packed] {
        self.words.as_chunks().0
    }

    fn slots_mut(&mut self) -> &mut [Packed] {
        self.words.as_chunks_mut().0
    }

    /// The place of a tag; tags in order have places in order.
    fn home(&self, tag: u32) -> usize {
        home(tag, self.places)
    }

    /// Those that may have a tag, and some before them.
    fn run(&self, tag: u32) -> impl Iterator<Item = &Packed> {
        self.slots()[self.home(tag)..].iter().take_while(move |&&packed| !is_gap(packed) && tag_of(packed) <= tag)
    }

    fn position(&self, tag: u32, is_meant: impl Fn(&IndexSlot) -> bool) -> Option<usize> {
        let mut run = self.run(tag).enumerate();
        let found = run.find(|&(_, &packed)| tag_of(packed) == tag && is_meant(&slot_of(packed)));
        found.map(|(skipped, _)| self.home(tag) + skipped)
    }

    /// Lays everything out anew over so many places: to the end without gaps, and from there to where it belongs, which
    /// is never behind where it stands if all have room. False: they haven't; all are there still, but not in place.
    fn spread(&mut self, places: usize) -> bool {
        self.places = places;
        let len = self.len;
        let slots = self.slots_mut();
        let mut to = slots.len();
        for from in (0..slots.len()).rev() {
            if !is_gap(slots[from]) {
                to -= 1;
                slots.swap(from, to);
            }
        }
        debug_assert_eq!(slots.len() - to, len, "all are counted");
        let mut next = 0;
        for from in to..slots.len() {
            let at = home(tag_of(slots[from]), places).max(next);
            if at > from {
                return false;
            }
            slots.swap(from, at);
            next = at + 1;
        }
        true
    }
}

fn home(tag: u32, places: usize) -> usize {
    ((u64::from(tag) * places as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(shard: &mut IndexShard, tag: u32, at: u64) {
        if shard.is_crowded() {
            assert!(shard.grow(u64::MAX));
        }
        shard.insert(tag, IndexSlot { at, blocks: 1, expiry: 1, used: 0 });
    }

    #[test]
    fn tags_that_crowd_the_last_place_push_the_end_out() {
        for tag in [u32::MAX, 0, 1 << 31] {
            let mut shard = IndexShard::default();
            (1..=3000).for_each(|at| insert(&mut shard, tag, at));
            insert(&mut shard, tag ^ 1, 1);
            assert_eq!((shard.of_tag(tag).count(), shard.of_tag(tag ^ 1).count()), (3000, 1));
            assert_eq!(shard.retain(|slot| slot.at % 2 == 1), 1500);
            assert_eq!((shard.of_tag(tag).count(), shard.of_tag(tag ^ 1).count()), (1500, 1));
            assert!((1..=3000).step_by(2).all(|at| shard.remove(tag, |slot| slot.at == at).is_some()));
            assert_eq!((shard.of_tag(tag).count(), shard.of_tag(tag ^ 1).count()), (0, 1));
        }
    }

    #[test]
    fn what_stands_at_the_very_end_stays_when_others_go() {
        let mut shard = IndexShard::default();
        assert!(shard.grow(u64::MAX));
        insert(&mut shard, 0, 1);
        let mut at = 1;
        while !shard.is_crowded() {
            at += 1;
            shard.insert(u32::MAX, IndexSlot { at, blocks: 1, expiry: 1, used: 0 });
        }
        assert!(shard.is_full_to_the_end());
        assert_eq!(shard.retain(|slot| slot.at != 1), 1);
        assert_eq!((shard.of_tag(u32::MAX).count() as u64, shard.of_tag(0).count()), (at - 1, 0));
        insert(&mut shard, u32::MAX, 1);
        assert_eq!(shard.of_tag(u32::MAX).count() as u64, at);
    }

    #[test]
    fn one_that_may_not_grow_is_as_before() {
        let mut shard = IndexShard::default();
        assert!(!shard.grow(4095) && shard.bytes() == 0 && shard.grow(4096));
        let mut at = 0;
        while !shard.is_crowded() {
            at += 1;
            shard.insert(u32::MAX, IndexSlot { at, blocks: 1, expiry: 1, used: 0 });
        }
        assert!(!shard.grow(4095));
        assert_eq!((shard.of_tag(u32::MAX).count() as u64, shard.bytes()), (at, 4096));
    }
}
