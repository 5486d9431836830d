// SPDX-License-Identifier: BSD-2-Clause
//! The moments of a spread ban: how many objects become stale in each part of its time, and how many after it.
//!
//! With a rate the time is divided into places that are 1/rate apart, of which each belongs to one object. A slot is a row
//! of places. An object gets the next free place of the slot that it draws, or of a later slot. After the last slot comes
//! the tail: one object after the other. No place has passed when it is given. Moments of the same object never get
//! earlier, so that one which has got its moment can't get another.

use super::{LONGEST_SECONDS, SpreadPlan};

/// Number of slots: 128 KB, and 8 MB for all spread bans together.
const MOST: usize = 1 << 14;

pub(super) struct Slots {
    width_seconds: f64,
    /// Slots before the tail.
    count: usize,
    /// Seconds between two places; 0 without a rate.
    gap: f64,
    /// Places of a slot.
    places: u32,
    /// The next place of each slot. Without a rate: the number of its objects.
    used: Vec<u32>,
    /// For a full slot, a later one that may have room. Else the slot itself.
    next: Vec<u32>,
    tail: f64,
    tail_count: u64,
    /// Objects beyond the longest time, at whose end they become stale.
    late: u64,
    matched: u64,
    /// Seconds from the start to the last moment that was given.
    end: f64,
}

/// A moment that [`Slots::take`] takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Offer {
    /// Seconds from the start.
    pub at: f64,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Place {
    Now,
    Slot(usize, u32),
    Tail,
    Late,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Progress {
    pub matched: u64,
    pub turned: u64,
    /// Seconds from the start to the last object's moment.
    pub end: f64,
}

impl Slots {
    pub fn new(plan: &SpreadPlan) -> Slots {
        let SpreadPlan { over, rate } = *plan;
        let least_width = over / MOST as f64;
        let (width, places, gap) = if rate > 0.0 {
            let places = (rate * least_width.max(1.0)).ceil();
            (places / rate, places as u32, 1.0 / rate)
        } else {
            (least_width, u32::MAX, 0.0)
        };
        let count = if width > 0.0 { ((over / width + 1e-6) as usize).min(MOST) } else { 0 };
        let tail = if count > 0 { count as f64 * width + gap / 2.0 } else { 0.0 };
        Slots {
            width_seconds: width,
            count,
            gap,
            places,
            used: Vec::new(),
            next: Vec::new(),
            tail,
            tail_count: 0,
            late: 0,
            matched: 0,
            end: 0.0,
        }
    }

    /// The moment for an object that draws `wanted`, at `elapsed` seconds after the start or later.
    pub fn offer(&mut self, wanted: f64, elapsed: f64) -> Offer {
        let wanted = wanted.max(elapsed);
        if self.gap == 0.0 {
            let place = if wanted > elapsed { Place::Slot(self.index(wanted).min(MOST - 1), 0) } else { Place::Now };
            return Offer { at: wanted, place };
        }
        if let Some((slot, place)) = self.free_place(self.index(wanted), elapsed) {
            let at = self.width_seconds * slot as f64 + (f64::from(place) + 0.5) * self.gap;
            return Offer { at: at.max(elapsed), place: Place::Slot(slot, place) };
        }
        let at = self.tail.max(elapsed);
        let latest = LONGEST_SECONDS.max(elapsed);
        Offer { at: at.min(latest), place: if at > latest { Place::Late } else { Place::Tail } }
    }

    pub fn take(&mut self, offer: &Offer) {
        self.matched += 1;
        self.end = self.end.max(offer.at);
        match offer.place {
            Place::Now => {}
            Place::Slot(slot, place) if self.gap > 0.0 => {
                self.used[slot] = place + 1;
                if place + 1 == self.places {
                    self.next[slot] = slot as u32 + 1;
                }
            }
            Place::Slot(slot, _) => {
                self.used.resize(self.used.len().max(slot + 1), 0);
                self.used[slot] = self.used[slot].saturating_add(1);
            }
            Place::Tail => {
                self.tail = offer.at + self.gap;
                self.tail_count += 1;
            }
            Place::Late => self.late += 1,
        }
    }

    /// Seconds from the start to the last moment that was given.
    pub fn end(&self) -> f64 {
        self.end
    }

    /// Frees the memory of slots that have passed.
    pub fn forget(&mut self) {
        (self.used, self.next) = (Vec::new(), Vec::new());
    }

    pub fn progress(&self, elapsed: f64) -> Progress {
        let left = self.left(elapsed).min(self.matched);
        Progress { matched: self.matched, turned: self.matched - left, end: self.end }
    }

    /// Objects whose moments haven't come.
    fn left(&self, elapsed: f64) -> u64 {
        if elapsed >= self.end {
            return 0;
        }
        let current = self.index(elapsed);
        let later: u64 = self.used.iter().skip(current.saturating_add(1)).map(|used| u64::from(*used)).sum();
        let here = self.used.get(current).copied().unwrap_or(0);
        if self.gap == 0.0 {
            let passed = (elapsed / self.width_seconds).fract();
            return later + (f64::from(here) * (1.0 - passed)).round() as u64;
        }
        let here = here.saturating_sub(self.first_place(current, elapsed));
        let tail = (((self.tail - elapsed) / self.gap).ceil() - 1.0).max(0.0) as u64;
        let late = if elapsed < LONGEST_SECONDS { self.late } else { 0 };
        later + u64::from(here) + tail.min(self.tail_count) + late
    }

    fn index(&self, seconds: f64) -> usize {
        (seconds / self.width_seconds).max(0.0) as usize
    }

    /// The first place of a slot that hasn't passed.
    fn first_place(&self, slot: usize, elapsed: f64) -> u32 {
        ((elapsed - slot as f64 * self.width_seconds) / self.gap - 0.5).ceil().max(0.0) as u32
    }

    fn free_place(&mut self, wanted: usize, elapsed: f64) -> Option<(usize, u32)> {
        let mut slot = self.free_from(wanted)?;
        loop {
            let place = self.used[slot].max(self.first_place(slot, elapsed));
            if place < self.places {
                return Some((slot, place));
            }
            // The places that are left have passed.
            self.next[slot] = slot as u32 + 1;
            slot = self.free_from(slot)?;
        }
    }

    fn free_from(&mut self, mut slot: usize) -> Option<usize> {
        while slot < self.count {
            let known = self.next.len();
            if slot >= known {
                self.next.extend(known as u32..=slot as u32);
                self.used.resize(slot + 1, 0);
            }
            let next = self.next[slot] as usize;
            if next == slot {
                return Some(slot);
            }
            // Skips ahead, so that a long row of full slots is walked once.
            self.next[slot] = self.next.get(next).copied().unwrap_or(next as u32);
            slot = next;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slots(over: f64, rate: f64) -> Slots {
        Slots::new(&SpreadPlan { over, rate })
    }

    fn take(slots: &mut Slots, wanted: f64, elapsed: f64) -> f64 {
        let offer = slots.offer(wanted, elapsed);
        slots.take(&offer);
        offer.at
    }

    #[test]
    fn a_full_slot_leaves_the_rest_to_later_ones() {
        let mut slots = slots(10.0, 2.0);
        let taken = [3.0, 3.9, 3.1, 5.0, 3.0, 3.0, 3.0].map(|at| take(&mut slots, at, 0.0));
        assert_eq!(taken, [3.25, 3.75, 4.25, 5.25, 4.75, 5.75, 6.25]);
        assert_eq!(slots.progress(4.5), Progress { matched: 7, turned: 3, end: 6.25 });
        assert_eq!(slots.progress(100.0).turned, 7);
        assert_eq!([9.9, 9.9, 9.9, 9.9].map(|at| take(&mut slots, at, 0.0)), [9.25, 9.75, 10.25, 10.75]);
        assert_eq!([10.2, 10.3, 10.8].map(|at| slots.progress(at).turned), [9, 10, 11]);
    }

    #[test]
    fn no_moment_has_passed() {
        let mut slow = slots(60.0, 0.1);
        assert_eq!([take(&mut slow, 0.0, 4.0), take(&mut slow, 0.0, 7.0)], [5.0, 15.0]);
        assert_eq!([take(&mut slow, 30.0, 36.0), slow.progress(44.0).turned as f64], [45.0, 2.0]);
        let mut tail = slots(0.0, 0.1);
        assert_eq!([3.0, 3.0, 50.0, 51.0].map(|at| take(&mut tail, 0.0, at)), [3.0, 13.0, 50.0, 60.0]);
        assert_eq!([50.0, 59.0, 60.0].map(|at| tail.progress(at).turned), [3, 3, 4]);
    }

    #[test]
    fn a_rate_between_whole_numbers_is_the_rate() {
        let mut slots = slots(0.0, 1.9);
        let last = (0..20).map(|_| take(&mut slots, 0.0, 0.0)).last();
        assert!((last.unwrap() - 10.0).abs() < 1e-9, "{last:?}");
    }

    #[test]
    fn without_a_rate_objects_get_what_they_draw() {
        let mut slots = slots(10.0, 0.0);
        assert_eq!([0.5, 0.5, 7.25].map(|at| take(&mut slots, at, 0.0)), [0.5, 0.5, 7.25]);
        assert_eq!(take(&mut slots, 0.5, 8.0), 8.0);
        assert_eq!(slots.progress(1.0), Progress { matched: 4, turned: 3, end: 8.0 });
    }

    #[test]
    fn the_longest_time_takes_the_rest() {
        let mut slots = slots(0.0, 0.001);
        let taken: Vec<f64> = (0..607).map(|_| take(&mut slots, 0.0, 0.0)).collect();
        assert_eq!(taken[603..], [603_000.0, 604_000.0, LONGEST_SECONDS, LONGEST_SECONDS]);
        assert_eq!((slots.progress(604_500.0).turned, slots.progress(LONGEST_SECONDS).turned), (605, 607));
        assert_eq!(take(&mut slots, 0.0, 7e5), 7e5);
    }

    proptest! {
        #[test]
        fn no_second_has_more_than_the_rate(
            rate in 1u32..200,
            over in 0u32..20,
            wanted in prop::collection::vec((0.0..1.0, 0.0..0.2), 0..200),
        ) {
            let rate = f64::from(rate) / 10.0;
            let mut slots = slots(f64::from(over), rate);
            let mut elapsed = 0.0;
            let mut taken = Vec::new();
            for (share, passes) in wanted {
                elapsed += passes;
                let wanted = share * f64::from(over);
                let at = take(&mut slots, wanted, elapsed);
                prop_assert!(at >= elapsed);
                prop_assert!(slots.offer(wanted, elapsed).at > at, "a second moment isn't earlier");
                taken.push(at);
                let left = taken.iter().filter(|at| **at > elapsed).count() as u64;
                prop_assert!((slots.progress(elapsed).matched - slots.progress(elapsed).turned).abs_diff(left) <= 1);
            }
            taken.sort_by(f64::total_cmp);
            let close = taken.windows(2).find(|two| (two[1] - two[0]) * rate < 0.999_999);
            prop_assert_eq!(close, None);
        }
    }
}
