// SPDX-License-Identifier: BSD-2-Clause
//! Which slots of which slabs are taken: this process's own books, made from the table of pages at opening.

use std::collections::HashMap;

use crate::arena::classes::{SizeClass, class};

/// A slab: pages cut into slots of one class. Class 0: pages with one slot that fills them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slab {
    pub first: u32,
    pub pages: u32,
    pub class: u8,
    taken: u64,
    /// Neighbours among the slabs of its class with free slots.
    before: u32,
    after: u32,
}

const NONE: u32 = u32::MAX;

/// A slot: its slab, its position there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotPlace {
    pub slab: u32,
    pub slot: u8,
}

#[derive(Debug)]
pub(super) struct Slots {
    slabs: Vec<Slab>,
    vacant: Vec<u32>,
    /// Number of the slab plus 1, for each page.
    of_page: Vec<u32>,
    /// The first slab with free slots, for each class.
    open: [u32; 256],
    /// Slots that nobody has claimed yet, by slab (all that were there at opening are the first).
    unclaimed: Vec<u64>,
    /// Extents that were there at opening and that nobody has claimed yet: first page, pages.
    pub extents: HashMap<u32, u32>,
    /// Slots that were freed while another process may still read them; `None`: there is none.
    pub deferred: Option<Vec<SlotPlace>>,
}

impl Slab {
    fn all(&self) -> u64 {
        class(self.class).map_or(1, SizeClass::all)
    }
}

fn slots_of(slab: &Slab) -> impl Iterator<Item = u8> {
    let slots = class(slab.class).map_or(1, |class| class.slots);
    let taken = slab.taken;
    (0..slots).filter(move |slot| taken & 1 << slot != 0)
}

impl Slots {
    pub fn new(pages: u32) -> Slots {
        Slots {
            slabs: Vec::new(),
            vacant: Vec::new(),
            of_page: vec![0; pages as usize],
            open: [NONE; 256],
            unclaimed: Vec::new(),
            extents: HashMap::new(),
            deferred: None,
        }
    }

    /// A slab that was there at opening: until the sweep all its slots count as taken.
    pub fn found(&mut self, first: u32, pages: u32, class: u8) {
        let number = self.note(Slab { first, pages, class, taken: 0, before: NONE, after: NONE });
        let slab = &mut self.slabs[number as usize];
        slab.taken = slab.all();
        self.unclaimed.push(slab.taken);
    }

    /// A new slab whose first slot is taken at once.
    pub fn add(&mut self, first: u32, pages: u32, class: u8) -> SlotPlace {
        let number = self.note(Slab { first, pages, class, taken: 1, before: NONE, after: NONE });
        if self.slabs[number as usize].all() != 1 {
            self.open(number);
        }
        SlotPlace { slab: number, slot: 0 }
    }

    pub fn take(&mut self, class: u8) -> Option<SlotPlace> {
        let number = self.open[usize::from(class)];
        let slab = self.slabs.get_mut(number as usize)?;
        let slot = (!slab.taken).trailing_zeros() as u8;
        slab.taken |= 1 << slot;
        assert!(slab.taken & !slab.all() == 0, "an open slab has a free slot");
        if slab.taken == slab.all() {
            self.close(number);
        }
        Some(SlotPlace { slab: number, slot })
    }

    /// Frees a slot; answers its slab when that has become empty: it is gone from here, and its pages are the caller's.
    pub fn put(&mut self, place: SlotPlace) -> Option<Slab> {
        let slab = &mut self.slabs[place.slab as usize];
        let bit = 1 << place.slot;
        assert!(slab.taken & bit != 0, "a slot is freed once");
        let was_full = slab.taken == slab.all();
        slab.taken &= !bit;
        self.settle(place.slab, was_full)
    }

    /// Does what [`Slots::put`] does, later if another process may still read the slot: that knows those that were
    /// there at opening.
    pub fn put_or_defer(&mut self, place: SlotPlace) -> Option<Slab> {
        match &mut self.deferred {
            Some(deferred) if (place.slab as usize) < self.unclaimed.len() => {
                deferred.push(place);
                None
            }
            Some(_) | None => self.put(place),
        }
    }

    pub fn slab(&self, number: u32) -> &Slab {
        &self.slabs[number as usize]
    }

    pub fn of_page(&self, page: u32) -> Option<u32> {
        self.of_page.get(page as usize)?.checked_sub(1)
    }

    pub fn taken(&self) -> impl Iterator<Item = (&Slab, u8)> {
        self.slabs.iter().flat_map(|slab| slots_of(slab).map(move |slot| (slab, slot)))
    }

    /// Those of them that were taken or claimed by this process.
    pub fn held(&self) -> impl Iterator<Item = (&Slab, u8)> {
        let of = move |(number, slab): (usize, _)| {
            let unclaimed = self.unclaimed.get(number).copied().unwrap_or(0);
            slots_of(slab).filter(move |slot| unclaimed & 1 << slot == 0).map(move |slot| (slab, slot))
        };
        self.slabs.iter().enumerate().flat_map(of)
    }

    /// Takes a slot that was there at opening, once.
    pub fn claim(&mut self, place: SlotPlace) -> bool {
        let Some(unclaimed) = self.unclaimed.get_mut(place.slab as usize) else { return false };
        let bit = 1 << place.slot;
        let is_there = *unclaimed & bit != 0;
        *unclaimed &= !bit;
        is_there
    }

    pub fn is_unclaimed(&self, place: SlotPlace) -> bool {
        self.unclaimed.get(place.slab as usize).is_some_and(|unclaimed| unclaimed & 1 << place.slot != 0)
    }

    /// Slabs below this number may have unclaimed slots.
    pub fn found_slabs(&self) -> u32 {
        self.unclaimed.len() as u32
    }

    /// Frees the unclaimed slots of a slab; as [`Slots::put`].
    pub fn sweep(&mut self, number: u32) -> Option<Slab> {
        let unclaimed = std::mem::take(self.unclaimed.get_mut(number as usize)?);
        let slab = &mut self.slabs[number as usize];
        let was_full = slab.taken == slab.all();
        slab.taken &= !unclaimed;
        if unclaimed == 0 { None } else { self.settle(number, was_full) }
    }

    /// Does what [`Slots::sweep`] does while another process may still read the slots: they are free later.
    pub fn defer_unclaimed(&mut self, number: u32) {
        let Some(unclaimed) = self.unclaimed.get_mut(number as usize).map(std::mem::take) else { return };
        let places = (0..64).filter(|slot| unclaimed & 1 << slot != 0).map(|slot| SlotPlace { slab: number, slot });
        self.deferred.iter_mut().for_each(|deferred| deferred.extend(places.clone()));
    }

    fn settle(&mut self, number: u32, was_full: bool) -> Option<Slab> {
        let slab = self.slabs[number as usize];
        if slab.taken != 0 {
            if was_full {
                self.open(number);
            }
            return None;
        }
        if !was_full {
            self.close(number);
        }
        (slab.first..slab.first + slab.pages).for_each(|page| self.of_page[page as usize] = 0);
        // Of a slab that was found the number isn't used again: claims go by it.
        if number as usize >= self.unclaimed.len() {
            self.vacant.push(number);
        }
        Some(slab)
    }

    fn note(&mut self, slab: Slab) -> u32 {
        let number = match self.vacant.pop() {
            Some(number) => {
                self.slabs[number as usize] = slab;
                number
            }
            None => {
                self.slabs.push(slab);
                self.slabs.len() as u32 - 1
            }
        };
        (slab.first..slab.first + slab.pages).for_each(|page| self.of_page[page as usize] = number + 1);
        number
    }

    fn open(&mut self, number: u32) {
        let class = usize::from(self.slabs[number as usize].class);
        let after = std::mem::replace(&mut self.open[class], number);
        if let Some(after) = self.slabs.get_mut(after as usize) {
            after.before = number;
        }
        let slab = &mut self.slabs[number as usize];
        (slab.before, slab.after) = (NONE, after);
    }

    fn close(&mut self, number: u32) {
        let Slab { class, before, after, .. } = self.slabs[number as usize];
        match self.slabs.get_mut(before as usize) {
            Some(before) => before.after = after,
            None => self.open[usize::from(class)] = after,
        }
        if let Some(after) = self.slabs.get_mut(after as usize) {
            after.before = before;
        }
    }
}
