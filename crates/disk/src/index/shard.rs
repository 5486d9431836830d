// SPDX-License-Identifier: BSD-2-Clause
//! A part of the index: slots sorted by tag, with gaps, each as near as the others let it to the place that its tag has
//! by its size. What is sought stands behind that place, before the next gap; nothing beside the slots is stored.

/// What the index knows of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    /// Its unit, 40 bits, never 0.
    pub at: u64,
    /// Blocks that it touches, 255 for more.
    pub blocks: u8,
    /// The second from which on nobody wants it.
    pub expiry: u32,
    /// How often it was used since it was written, as far as [`MOST_USE`].
    pub used: u8,
}

/// What a slot counts up to.
pub(crate) const MOST_USE: u8 = 3;

const AT_BITS: u32 = 40;
/// A shard grows by one part in so many.
const GROWTH: usize = 8;
const LEAST: usize = 16;
/// Room behind the last place for what is pushed beyond it.
const TAIL: usize = 8;

/// A tag and a slot, packed: tag and expiry, then address, blocks and use. All zero: a gap.
#[derive(Clone, Copy, Default, Debug)]
struct Packed(u64, u64);

impl Packed {
    fn new(tag: u32, slot: Slot) -> Packed {
        debug_assert!(slot.at != 0 && slot.at >> AT_BITS == 0, "an address of 40 bits, never 0");
        let rest = u64::from(slot.blocks) | u64::from(slot.used) << 8;
        Packed(u64::from(tag) << 32 | u64::from(slot.expiry), slot.at | rest << AT_BITS)
    }

    fn is_gap(self) -> bool {
        self.1 == 0
    }

    fn tag(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn slot(self) -> Slot {
        let rest = self.1 >> AT_BITS;
        Slot { at: self.1 & ((1 << AT_BITS) - 1), blocks: rest as u8, expiry: self.0 as u32, used: (rest >> 8) as u8 }
    }
}

/// Slots of some keys.
#[derive(Default, Debug)]
pub(crate) struct Shard {
    slots: Box<[Packed]>,
    /// Places that tags are spread over; behind them is a tail.
    places: usize,
    len: usize,
}

impl Shard {
    /// What has that tag.
    pub fn of_tag(&self, tag: u32) -> impl Iterator<Item = Slot> {
        let run = self.slots[self.home(tag)..].iter().take_while(move |slot| !slot.is_gap() && slot.tag() <= tag);
        run.filter(move |slot| slot.tag() == tag).map(|slot| slot.slot())
    }

    /// Whether it must grow before one more goes in: it is 85 % full, or something stands at its very end.
    pub fn is_crowded(&self) -> bool {
        (self.len + 1) * 20 > self.places * 17 || self.slots.last().is_none_or(|slot| !slot.is_gap())
    }

    /// Bytes by which it grows.
    pub fn growth_bytes(&self) -> u64 {
        ((self.grown_places() + TAIL).saturating_sub(self.slots.len()) * size_of::<Packed>()) as u64
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        size_of_val(&*self.slots) as u64
    }

    /// Makes it larger.
    pub fn grow(&mut self) {
        self.spread(self.grown_places());
    }

    /// Adds one; it isn't crowded.
    pub fn insert(&mut self, tag: u32, slot: Slot) {
        self.len += 1;
        let mut at = self.home(tag);
        while !self.slots[at].is_gap() && self.slots[at].tag() <= tag {
            at += 1;
        }
        let mut gap = at;
        while !self.slots[gap].is_gap() {
            gap += 1;
        }
        self.slots.copy_within(at..gap, at + 1);
        self.slots[at] = Packed::new(tag, slot);
    }

    /// Takes out one of that tag that is meant.
    pub fn remove(&mut self, tag: u32, is_meant: impl Fn(&Slot) -> bool) -> Option<Slot> {
        let at = self.position(tag, is_meant)?;
        let removed = self.slots[at].slot();
        // Those behind it move up, as far as none stands at its own place.
        let mut end = at + 1;
        while self.slots.get(end).is_some_and(|slot| !slot.is_gap() && self.home(slot.tag()) < end) {
            end += 1;
        }
        self.slots.copy_within(at + 1..end, at);
        self.slots[end - 1] = Packed::default();
        self.len -= 1;
        Some(removed)
    }

    /// Changes one in its place. Whether it is there.
    pub fn update(&mut self, tag: u32, at: u64, change: impl FnOnce(&mut Slot)) -> bool {
        let Some(position) = self.position(tag, |slot| slot.at == at) else { return false };
        let mut slot = self.slots[position].slot();
        change(&mut slot);
        self.slots[position] = Packed::new(tag, slot);
        true
    }

    /// Takes out what isn't to stay, and says how many.
    pub fn retain(&mut self, stays: impl Fn(&Slot) -> bool) -> usize {
        let before = self.len;
        let mut is_hit = false;
        for slot in self.slots.iter_mut().filter(|slot| !slot.is_gap()) {
            if !stays(&slot.slot()) {
                *slot = Packed::default();
                self.len -= 1;
                is_hit = true;
            }
        }
        if is_hit {
            // What stood at another's cost may move up now; the size stays.
            self.spread(self.places);
        }
        before - self.len
    }

    /// The place of a tag; tags in order have places in order.
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.places as u64) >> 32) as usize
    }

    fn position(&self, tag: u32, is_meant: impl Fn(&Slot) -> bool) -> Option<usize> {
        let home = self.home(tag);
        let run = self.slots[home..].iter().take_while(|slot| !slot.is_gap() && slot.tag() <= tag);
        run.enumerate().find(|(_, slot)| slot.tag() == tag && is_meant(&slot.slot())).map(|(skipped, _)| home + skipped)
    }

    fn grown_places(&self) -> usize {
        (self.places + self.places / GROWTH).max(LEAST)
    }

    /// Lays everything out anew over so many places.
    fn spread(&mut self, places: usize) {
        let old = std::mem::take(&mut self.slots);
        self.places = places;
        let mut slots = Vec::with_capacity(places + TAIL);
        for slot in old.iter().filter(|slot| !slot.is_gap()) {
            let at = self.home(slot.tag()).max(slots.len());
            slots.resize(at, Packed::default());
            slots.push(*slot);
        }
        // Tags that crowd the last places push the tail out.
        slots.resize((places + TAIL).max(slots.len() + 1), Packed::default());
        self.slots = slots.into_boxed_slice();
    }
}
