// SPDX-License-Identifier: BSD-2-Clause
//! Where things are in an arena: a header page, the serving words, the table of pages, the heads of the buckets, the pages.
//! All are little-endian words at fixed places; whoever reads them later may be another build.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::arena::classes::class;
use crate::arena::slots::Slots;
use crate::extent::{EXTENT, PAGE, WHAT};
use crate::map::MemoryMap;

const MAGIC: u64 = u64::from_le_bytes(*b"LACQARNA");
/// Changes with everything that is laid out here, and with what owners keep in slots.
const VERSION: u32 = 2;

/// Words that say which record a thread serves; each has a cache line. Odd and even generations have a half each, as two may
/// serve at a time.
pub const SERVING: usize = 512;
const SERVING_AT: usize = PAGE;
const SERVING_STRIDE: usize = 64;

/// In the table of pages: a slab of this class begins here.
pub(super) const SLAB: u32 = 2 << 30;
/// In the table of pages: a slot of so many pages begins here.
pub(super) const BIG: u32 = 3 << 30;

/// Words of the header page.
const VERSION_AT: usize = 8;
const PAGES_AT: usize = 12;
const BUCKETS_AT: usize = 16;
const GENERATION_AT: usize = 20;
/// The generation that is to let go.
pub(super) const RECALLED_AT: usize = 24;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArenaSize {
    /// Pages for extents and slots. The first isn't used: no slot has the number 0.
    pub pages: u32,
    pub buckets: u32,
}

pub(super) fn is_of_this_format(file: &File) -> io::Result<bool> {
    let mut head = [0; VERSION_AT + 4];
    file.read_exact_at(&mut head, 0)?;
    let (magic, version) = head.split_at(VERSION_AT);
    Ok(magic == MAGIC.to_le_bytes() && version == VERSION.to_le_bytes())
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub size: ArenaSize,
    pub table: usize,
    pub buckets: usize,
    pub data: usize,
    pub len: usize,
    /// Slots begin on multiples of so many bytes, so that a word has room for their number.
    pub granule: usize,
}

impl Layout {
    pub fn new(size: ArenaSize) -> io::Result<Layout> {
        if !size.buckets.is_power_of_two() || size.pages < 2 || size.pages & WHAT != 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let table = SERVING_AT + SERVING * SERVING_STRIDE;
        let buckets = (table + size.pages as usize * 4).next_multiple_of(PAGE);
        let data = (buckets + size.buckets as usize * 4).next_multiple_of(PAGE);
        let bytes = size.pages as usize * PAGE;
        let granule = (bytes >> 32).max(1).next_power_of_two().max(16);
        // One more doubling where the division above has left something.
        let granule = if bytes / granule > u32::MAX as usize { granule * 2 } else { granule };
        Ok(Layout { size, table, buckets, data, len: data + bytes, granule })
    }

    pub fn serving(thread: usize, is_odd: bool) -> usize {
        let half = SERVING / 2;
        SERVING_AT + (thread % half + usize::from(is_odd) * half) * SERVING_STRIDE
    }

    /// Slots that the threads of the generation before this one were serving, unless that one lives.
    pub fn take_serving(&self, map: &MemoryMap, generation: u32, lives: bool) -> Vec<u32> {
        let is_odd = generation % 2 == 1;
        let take =
            |is_odd| (0..SERVING / 2).map(move |thread| map.u32_at(Self::serving(thread, is_odd)).swap(0, Relaxed));
        take(is_odd).for_each(drop);
        let former = if lives { Vec::new() } else { take(!is_odd).collect() };
        former.into_iter().filter(|&number| number != 0).collect()
    }

    pub fn table_word(&self, map: &MemoryMap, page: usize) -> u32 {
        map.u32_at(self.table + page * 4).load(Relaxed)
    }

    pub fn format(&self, map: &MemoryMap) {
        let words = [(VERSION_AT, VERSION), (PAGES_AT, self.size.pages), (BUCKETS_AT, self.size.buckets)];
        words.into_iter().for_each(|(at, word)| map.u32_at(at).store(word, Relaxed));
        map.u64_at(0).store(MAGIC, Release);
    }

    /// Checks that the header is one of ours, for an arena of this size.
    pub fn check(&self, map: &MemoryMap) -> Result<(), &'static str> {
        let word = |at| map.u32_at(at).load(Relaxed);
        match (map.u64_at(0).load(Relaxed), word(VERSION_AT)) {
            (MAGIC, VERSION) => {}
            (MAGIC, _) => return Err("it has another format version"),
            _ => return Err("it isn't an arena"),
        }
        if (word(PAGES_AT), word(BUCKETS_AT)) != (self.size.pages, self.size.buckets) {
            return Err("it is of another size");
        }
        Ok(())
    }

    /// Counts one worker more; returns its generation.
    pub fn next_generation(&self, map: &MemoryMap) -> u32 {
        map.u32_at(GENERATION_AT).fetch_add(1, Relaxed).wrapping_add(1)
    }

    /// Reads the table of pages: what is in use goes into `slots`, the gaps to `gap`. Answers how many pages are in use.
    pub fn read_table(
        &self,
        map: &MemoryMap,
        slots: &mut Slots,
        mut gap: impl FnMut(u32, u32),
    ) -> Result<u64, &'static str> {
        let word = |page: u32| self.table_word(map, page as usize);
        let (mut page, mut free_from, mut used) = (1, 1, 0);
        while page < self.size.pages {
            let found = word(page);
            if found == 0 {
                page += 1;
                continue;
            }
            let pages = match (found & WHAT, found & !WHAT) {
                (EXTENT | BIG, pages) => pages,
                (SLAB, number) => u8::try_from(number).ok().and_then(class).map_or(0, |class| u32::from(class.pages)),
                _ => 0,
            };
            let end = page.checked_add(pages).filter(|&end| pages > 0 && end <= self.size.pages);
            let end = end.ok_or("its table of pages is damaged")?;
            if (page + 1..end).any(|inner| word(inner) != 0) {
                return Err("its table of pages is damaged");
            }
            match found & WHAT {
                EXTENT => drop(slots.extents.insert(page, pages)),
                SLAB => slots.found(page, pages, (found & 0xff) as u8),
                _ => slots.found(page, pages, 0),
            }
            if page > free_from {
                gap(free_from, page - free_from);
            }
            used += u64::from(pages);
            (page, free_from) = (end, end);
        }
        if page > free_from {
            gap(free_from, page - free_from);
        }
        Ok(used)
    }
}
