// SPDX-License-Identifier: BSD-2-Clause
//! The order of requests: as read, or shuffled within a window of bounded size.

use crate::reader::PlannedRequest;

/// Bytes of heads that a window holds at most.
const WINDOW_BYTES: usize = 256 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    #[default]
    AsRead,
    /// Drawn from a window of so many.
    Shuffled { window: usize },
}

/// Numbers that look random and follow from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct ReplayRng(u64);

impl ReplayRng {
    pub const fn new(seed: u64) -> ReplayRng {
        ReplayRng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One below `n`, which isn't 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// A number from 0 up to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for i in (1..things.len()).rev() {
            things.swap(i, self.below(i + 1));
        }
    }
}

/// Holds requests and gives out one of them for each that comes once it is full.
#[derive(Debug)]
pub struct Shuffler {
    window: usize,
    held: Vec<(Box<[u8]>, PlannedRequest)>,
    bytes: usize,
}

impl Shuffler {
    pub fn new(window: usize) -> Shuffler {
        Shuffler { window: window.max(1), held: Vec::new(), bytes: 0 }
    }

    /// Puts one in; takes one out when there are enough.
    pub fn swap(
        &mut self,
        head: &[u8],
        ask: PlannedRequest,
        rng: &mut ReplayRng,
    ) -> Option<(Box<[u8]>, PlannedRequest)> {
        self.bytes += head.len();
        let mut new = (Box::from(head), ask);
        if self.held.len() < self.window && self.bytes <= WINDOW_BYTES {
            self.held.push(new);
            return None;
        }
        let at = rng.below(self.held.len().max(1));
        if let Some(old) = self.held.get_mut(at) {
            std::mem::swap(old, &mut new);
        }
        self.bytes -= new.0.len();
        Some(new)
    }

    pub fn rest(mut self, rng: &mut ReplayRng) -> Vec<(Box<[u8]>, PlannedRequest)> {
        rng.shuffle(&mut self.held);
        self.held
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #[test]
        fn a_shuffle_loses_nothing(n in 0u64..300, window in 0usize..400, seed: u64) {
            let order = || {
                let (mut rng, mut shuffler, mut out) = (ReplayRng::new(seed), Shuffler::new(window), Vec::new());
                for due in 0..n {
                    let ask = PlannedRequest { begin: 0, end: 1, address: 0, due, is_head: false, is_safe: true };
                    out.extend(shuffler.swap(b"x", ask, &mut rng).map(|(_, ask)| ask.due));
                }
                out.extend(shuffler.rest(&mut rng).iter().map(|(_, ask)| ask.due));
                out
            };
            let first = order();
            prop_assert_eq!(&first, &order());
            let mut sorted = first;
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_large_window_mixes() {
        let mut things: Vec<u32> = (0..1000).collect();
        ReplayRng::new(1).shuffle(&mut things);
        let in_place = things.iter().enumerate().filter(|(i, n)| *i as u32 == **n).count();
        assert!(in_place < 10, "{in_place} of 1000 stayed");
    }
}
