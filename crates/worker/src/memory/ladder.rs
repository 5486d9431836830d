// SPDX-License-Identifier: BSD-2-Clause
//! Which step is taken when memory comes near its limit. Below the limit lies a reserve; each quarter of it that is gone is
//! a step further. What a step does takes effect before the next is needed, and the last before the limit is reached.
//!
//! ```text
//! 0 ------------------ target ----- 3/4 ----- 1/2 ----- 1/4 ----- limit
//!        nothing         | trim     | evict   | refuse  | shed
//! ```

/// The reserve is this part of the limit,
const RESERVE_PART: u64 = 16;
/// at least so many bytes,
const RESERVE_LEAST: u64 = 4 << 20;
/// and at most so many: what may come between two looks doesn't grow with the limit.
const RESERVE_MOST: u64 = 512 << 20;
/// A step ends when so much of the reserve is free again beyond where it began.
const HYSTERESIS_PART: u64 = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum MemoryStep {
    #[default]
    None,
    /// Threads give up what they keep, stores stop to grow.
    Trim,
    Evict,
    /// No fetch begins that no client waits for.
    RefuseBackground,
    /// Requests that aren't hits are answered 503; at the limit all are.
    Shed,
}

/// All, from the least.
const STEPS: [MemoryStep; 5] =
    [MemoryStep::None, MemoryStep::Trim, MemoryStep::Evict, MemoryStep::RefuseBackground, MemoryStep::Shed];

impl MemoryStep {
    pub fn name(self) -> &'static str {
        match self {
            MemoryStep::None => "none",
            MemoryStep::Trim => "trim",
            MemoryStep::Evict => "evict",
            MemoryStep::RefuseBackground => "refuse background fetches",
            MemoryStep::Shed => "shed",
        }
    }

    pub fn numbered(number: u8) -> MemoryStep {
        STEPS[usize::from(number).min(STEPS.len() - 1)]
    }
}

#[derive(Debug)]
pub struct MemoryLadder {
    limit: u64,
    step: MemoryStep,
}

impl MemoryLadder {
    pub fn new(limit: u64) -> MemoryLadder {
        MemoryLadder { limit, step: MemoryStep::None }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    pub fn reserve(&self) -> u64 {
        (self.limit / RESERVE_PART).clamp(RESERVE_LEAST, RESERVE_MOST).min(self.limit / 2)
    }

    /// Bytes in use below which all of the reserve is free.
    pub fn target(&self) -> u64 {
        self.limit - self.reserve()
    }

    /// Bytes in use from which on a step is taken.
    fn begins(&self, step: MemoryStep) -> u64 {
        self.target() + self.reserve() / 4 * (step as u64).saturating_sub(1)
    }

    pub fn climb(&mut self, used: u64) -> MemoryStep {
        let up = |step: &&MemoryStep| **step != MemoryStep::None && used >= self.begins(**step);
        let reached = STEPS.iter().rev().find(up).copied().unwrap_or_default();
        // A step that was taken goes on until there is a little more room than where it began.
        let slack = self.reserve() / HYSTERESIS_PART;
        let stays = |step: &&MemoryStep| {
            **step <= self.step && **step != MemoryStep::None && used + slack >= self.begins(**step)
        };
        let kept = STEPS.iter().rev().find(stays).copied().unwrap_or_default();
        self.step = reached.max(kept);
        self.step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn each_quarter_of_the_reserve_is_a_step() {
        let step = |used| MemoryLadder::new(1600 * MB).climb(used * MB);
        assert_eq!(MemoryLadder::new(1600 * MB).target(), 1500 * MB);
        assert_eq!(
            [0, 1499, 1500, 1524].map(step),
            [MemoryStep::None, MemoryStep::None, MemoryStep::Trim, MemoryStep::Trim]
        );
        assert_eq!(
            [1525, 1549, 1550, 1575].map(step),
            [MemoryStep::Evict, MemoryStep::Evict, MemoryStep::RefuseBackground, MemoryStep::Shed]
        );
        assert_eq!(step(5000), MemoryStep::Shed);
    }

    #[test]
    fn a_step_ends_a_little_below_where_it_began() {
        let mut ladder = MemoryLadder::new(1600 * MB);
        let mut step = |used: u64| ladder.climb(used * MB);
        assert_eq!(
            [1576, 1564, 1562, 1540].map(&mut step),
            [MemoryStep::Shed, MemoryStep::Shed, MemoryStep::RefuseBackground, MemoryStep::RefuseBackground]
        );
        assert_eq!([1530, 1514, 1510].map(&mut step), [MemoryStep::Evict, MemoryStep::Evict, MemoryStep::Trim]);
        assert_eq!([1490, 1480, 1490].map(&mut step), [MemoryStep::Trim, MemoryStep::None, MemoryStep::None]);
    }

    #[test]
    fn small_and_large_limits_have_a_reserve_of_their_own() {
        assert_eq!(MemoryLadder::new(32 * MB).target(), 28 * MB);
        assert_eq!(MemoryLadder::new(100_000 * MB).target(), 99_488 * MB);
        let mut nothing = MemoryLadder::new(0);
        assert_eq!((nothing.target(), nothing.climb(1)), (0, MemoryStep::Shed));
    }
}
