// SPDX-License-Identifier: BSD-2-Clause
//! Draws that follow from a seed, and the ranges and choices that a scenario draws from.

use std::time::Duration;

/// The random number generator splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct SimDice(u64);

impl SimDice {
    /// Dice of their own for one thing of a history: what else is in it doesn't change what they draw.
    pub fn for_thing(seed: u64, thing: &str, number: u64) -> Self {
        let hash = thing
            .bytes()
            .fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let mut dice = SimDice(hash ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.next();
        dice
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// True in one of so many cases.
    pub fn one_in(&mut self, count: u64) -> bool {
        count > 0 && self.below(count) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

/// A number between two, both of which it may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NumberSpan {
    pub least: u64,
    pub most: u64,
}

impl NumberSpan {
    pub fn just(number: u64) -> Self {
        NumberSpan { least: number, most: number }
    }

    pub fn draw(self, dice: &mut SimDice) -> u64 {
        self.least + dice.below(self.most - self.least + 1)
    }

    /// A time from a span of milliseconds. Every other draw is one of the ends: what happens at one moment is what
    /// races.
    pub fn draw_time(self, dice: &mut SimDice) -> Duration {
        let ms = match dice.below(4) {
            0 => self.least,
            1 => self.most,
            _ => self.draw(dice),
        };
        Duration::from_millis(ms)
    }
}
