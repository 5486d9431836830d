// SPDX-License-Identifier: BSD-2-Clause
//! Sizes of slots: steps of 16 bytes up to 1 KB, then a sixteenth, and how many pages a slab of each has, so that little
//! is left over at its end.

use crate::extent::PAGE;

pub(crate) const LARGEST: usize = 2 * PAGE;
/// Most slots of a slab: they are bits of a word.
const MOST_SLOTS: usize = 64;
pub(super) const MOST_PAGES: usize = 16;
/// Largest part of a slab that may be left over: one in this many.
const LEFT_OVER: usize = 32;

#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeClass {
    pub size: u16,
    pub pages: u8,
    pub slots: u8,
}

const COUNT: usize = 112;
/// Class `n` is `CLASSES[n - 1]`.
static CLASSES: [SizeClass; COUNT] = classes();

pub(crate) fn class(number: u8) -> Option<&'static SizeClass> {
    CLASSES.get(usize::from(number).checked_sub(1)?)
}

/// The number of the smallest class for `size` whose slots begin on multiples of `granule`.
pub(crate) fn fitting(size: usize, granule: usize) -> Option<u8> {
    let size = size.max(1);
    let first = match size {
        0..=1024 => size.div_ceil(16),
        1025..=2048 => 64 + (size - 1024).div_ceil(64),
        2049..=4096 => 80 + (size - 2048).div_ceil(128),
        _ => 96 + size.checked_sub(4096)?.div_ceil(256),
    };
    let fits = |number: &usize| usize::from(CLASSES[number - 1].size).is_multiple_of(granule);
    (first..=COUNT).find(fits).map(|number| number as u8)
}

impl SizeClass {
    pub fn cost(&self) -> u64 {
        (usize::from(self.pages) * PAGE / usize::from(self.slots)) as u64
    }

    pub fn all(&self) -> u64 {
        u64::MAX >> (MOST_SLOTS - usize::from(self.slots))
    }
}

const fn classes() -> [SizeClass; COUNT] {
    let mut classes = [SizeClass { size: 0, pages: 0, slots: 0 }; COUNT];
    let mut number = 1;
    while number <= COUNT {
        let size = match number {
            1..=64 => 16 * number,
            65..=80 => 1024 + 64 * (number - 64),
            81..=96 => 2048 + 128 * (number - 80),
            _ => 4096 + 256 * (number - 96),
        };
        classes[number - 1] = laid_out(size);
        number += 1;
    }
    classes
}

const fn laid_out(size: usize) -> SizeClass {
    let (mut pages, mut best, mut least) = (size.div_ceil(PAGE), 0, usize::MAX);
    while pages <= MOST_PAGES {
        let over = pages * PAGE % size;
        let is_less = best == 0 || over * best < least * pages;
        if is_less {
            (best, least) = (pages, over);
        }
        if over * LEFT_OVER <= pages * PAGE {
            break;
        }
        pages += 1;
    }
    let slots = best * PAGE / size;
    let slots = if slots > MOST_SLOTS { MOST_SLOTS } else { slots };
    SizeClass { size: size as u16, pages: best as u8, slots: slots as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_fit_and_little_is_lost() {
        for size in 1..=LARGEST {
            let number = fitting(size, 16).unwrap();
            let found = class(number).unwrap();
            let room = usize::from(found.size);
            assert!(room >= size && room - size < 16.max(size / 15), "{size}: {found:?}");
            assert!(usize::from(found.slots) * room <= usize::from(found.pages) * PAGE && found.slots <= 64);
            assert!(size < 64 || found.cost() * 100 <= room as u64 * 104, "{size}: {found:?}");
        }
        assert!(fitting(LARGEST + 1, 16).is_none() && class(0).is_none() && class(113).is_none());
    }

    #[test]
    fn slots_of_large_arenas_begin_on_coarser_places() {
        for granule in [32, 64, 128, 4096] {
            let all = (1..=LARGEST).map(|size| (size, class(fitting(size, granule).unwrap()).unwrap()));
            let mut fine = all.filter(|(size, class)| usize::from(class.size) >= *size);
            assert!(fine.all(|(_, class)| usize::from(class.size).is_multiple_of(granule)));
        }
    }
}
