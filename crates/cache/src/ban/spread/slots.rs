// SPDX-License-Identifier: BSD-2-Clause
//! The slots of a spread ban: how many objects become stale in each of them.

use super::SpreadPlan;

/// Number of slots. The last one takes any number of objects.
const MOST: usize = 1 << 20;

pub(super) struct Slots {
    width_seconds: f64,
    most: u32,
    used: Vec<u32>,
    /// For a full slot, a later one that may have room. Else the slot itself.
    next: Vec<u32>,
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
        let is_limited = plan.rate > 0.0;
        let width = if is_limited { (1.0 / plan.rate).max(1.0) } else { 1.0 };
        let most = if is_limited { ((plan.rate * width) as u32).max(1) } else { u32::MAX };
        Slots { width_seconds: width, most, used: Vec::new(), next: Vec::new() }
    }

    /// End of the slot which that many seconds after the start are in.
    pub fn end_of_slot_at(&self, seconds: f64) -> f64 {
        (self.index(seconds) + 1) as f64 * self.width_seconds
    }

    /// Takes a place in the slot which that many seconds after the start are in, or in a later one if it is full. The places
    /// of a slot have equal distances, so no second has more than the rate allows.
    pub fn take(&mut self, seconds: f64) -> f64 {
        let wanted = self.index(seconds);
        let slot = self.free_from(wanted);
        let place = self.used[slot];
        self.used[slot] = place.saturating_add(1);
        if self.used[slot] >= self.most && slot + 1 < MOST {
            self.next[slot] = slot as u32 + 1;
        }
        let begin = slot as f64 * self.width_seconds;
        match self.most {
            u32::MAX => seconds.max(begin),
            most => begin + (f64::from(place) + 0.5).min(f64::from(most)) / f64::from(most) * self.width_seconds,
        }
    }

    /// Seconds from the start to the end of the last slot in use.
    pub fn end(&self) -> f64 {
        let last = self.used.iter().rposition(|used| *used > 0);
        last.map_or(0.0, |last| (last + 1) as f64 * self.width_seconds)
    }

    pub fn progress(&self, elapsed: f64) -> Progress {
        let at = (elapsed / self.width_seconds).max(0.0);
        let whole = (at as usize).min(self.used.len());
        let sum = |slots: &[u32]| slots.iter().map(|used| u64::from(*used)).sum::<u64>();
        let current = self.used.get(whole).map_or(0, |used| {
            let places = if self.most == u32::MAX { *used } else { self.most };
            (f64::from(places) * at.fract()).round().min(f64::from(*used)) as u64
        });
        Progress { matched: sum(&self.used), turned: sum(&self.used[..whole]) + current, end: self.end() }
    }

    fn index(&self, seconds: f64) -> usize {
        ((seconds / self.width_seconds).max(0.0) as usize).min(MOST - 1)
    }

    fn free_from(&mut self, mut slot: usize) -> usize {
        loop {
            let known = self.next.len();
            if slot >= known {
                self.next.extend(known as u32..=slot as u32);
                self.used.resize(slot + 1, 0);
            }
            let next = self.next[slot] as usize;
            if next == slot {
                return slot;
            }
            // Skips ahead, so that a long row of full slots is walked once.
            self.next[slot] = self.next.get(next).copied().unwrap_or(next as u32);
            slot = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slots(rate: f64) -> Slots {
        Slots::new(&SpreadPlan { over: 10.0, rate })
    }

    #[test]
    fn a_full_slot_leaves_the_rest_to_later_ones() {
        let mut slots = slots(2.0);
        let taken: Vec<f64> = [3.0, 3.9, 3.1, 5.0, 3.0, 3.0, 3.0].into_iter().map(|at| slots.take(at)).collect();
        assert_eq!(taken, [3.25, 3.75, 4.25, 5.25, 4.75, 5.75, 6.25]);
        assert_eq!((slots.end(), slots.end_of_slot_at(3.0)), (7.0, 4.0));
        assert_eq!(slots.progress(4.5), Progress { matched: 7, turned: 3, end: 7.0 });
        assert_eq!(slots.progress(100.0).turned, 7);
    }

    #[test]
    fn a_slow_rate_has_long_slots() {
        let mut slots = slots(0.1);
        assert_eq!([slots.take(0.0), slots.take(0.0), slots.take(35.0)], [5.0, 15.0, 35.0]);
    }

    #[test]
    fn without_a_rate_objects_get_what_they_draw() {
        let mut slots = slots(0.0);
        assert_eq!([slots.take(0.5), slots.take(0.5), slots.take(7.25)], [0.5, 0.5, 7.25]);
        assert_eq!(slots.end(), 8.0);
    }

    #[test]
    fn the_last_slot_takes_the_rest() {
        let mut slots = slots(1.0);
        let last = MOST as f64 - 0.5;
        assert_eq!([slots.take(last), slots.take(last + 1e9)], [last, MOST as f64]);
    }

    proptest! {
        #[test]
        fn no_second_has_more_than_the_rate(rate in 1u32..20, wanted in prop::collection::vec(0.0..8.0, 0..200)) {
            let mut slots = slots(f64::from(rate));
            let mut taken: Vec<f64> = wanted.iter().map(|at| slots.take(*at)).collect();
            prop_assert!(wanted.iter().zip(&taken).all(|(wanted, taken)| *taken >= wanted.floor()));
            taken.sort_by(f64::total_cmp);
            let close = taken.windows(rate as usize + 1).find(|few| few[rate as usize] - few[0] < 0.999_999);
            prop_assert_eq!(close, None);
        }
    }
}
