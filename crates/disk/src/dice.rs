// SPDX-License-Identifier: BSD-2-Clause
//! Numbers drawn from a seed, for tests: the same seed, the same numbers.

#[derive(Clone, Debug)]
pub(crate) struct DiskDice(u64);

impl DiskDice {
    pub fn new(seed: u64) -> DiskDice {
        DiskDice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound
    }

    pub fn one_in(&mut self, turns: u64) -> bool {
        self.below(turns) == 0
    }
}
