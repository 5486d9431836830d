// SPDX-License-Identifier: BSD-2-Clause
//! `range`: lets one range of the body through (RFC 9110 section 14).
//!
//! Which range, and the head that goes with it, is decided by who opens the chain; this only counts.

use crate::{Filter, FilterError, State, Step};

/// Lets the bytes `low..=high` through.
pub struct Range {
    at: u64,
    low: u64,
    /// First byte that isn't wanted.
    end: u64,
}

impl Range {
    /// `high` is the last byte wanted. `low` must not be above it.
    pub fn new(low: u64, high: u64) -> Self {
        assert!(low <= high, "a range has at least one byte");
        Self { at: 0, low, end: high.saturating_add(1) }
    }

    /// How many bytes at the body's start aren't wanted: a caller that can seek skips them and says so.
    pub fn to_skip(&self) -> u64 {
        self.low.saturating_sub(self.at)
    }

    /// The caller left out `n` bytes, at most [`Range::to_skip`].
    pub fn skipped(&mut self, n: u64) {
        assert!(n <= self.to_skip(), "skipped into the range");
        self.at += n;
    }
}

impl Filter for Range {
    fn name(&self) -> &'static str {
        "range"
    }

    fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<Step, FilterError> {
        let len = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let before = len(self.to_skip()).min(input.len());
        self.at += before as u64;
        let wanted = &input[before..];
        let take = if self.to_skip() > 0 { 0 } else { wanted.len().min(len(self.end - self.at)).min(out.len()) };
        out[..take].copy_from_slice(&wanted[..take]);
        self.at += take as u64;
        let consumed = before + take;
        let state = if self.at >= self.end {
            State::End
        } else if consumed < input.len() {
            State::More
        } else if is_last {
            return Err(FilterError::RangeShort);
        } else {
            State::Hungry
        };
        Ok(Step { consumed, produced: take, state })
    }
}
