// SPDX-License-Identifier: BSD-2-Clause
//! `range`: lets one range of the body through, or several as a multipart body (RFC 9110 section 14).
//!
//! Which ranges, and the head that goes with them, is decided by who opens the chain; this only counts.

use std::collections::VecDeque;

use crate::{Filter, FilterError, FilterState, FilterStep};

/// Several ranges of a body as one `multipart/byteranges` body (RFC 9110 14.6).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Multipart {
    /// The parts, none of which shares a byte with another.
    pub parts: Vec<RangePart>,
    pub heads: PartHeads,
    pub tail: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangePart {
    pub low: u64,
    pub high: u64,
}

/// The separators with each part's own fields. They differ in the range alone, and are made when their part's turn comes: a list of a
/// thousand ranges is a thousand short pieces of work, not one long one.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PartHeads {
    /// The bytes that precede `LOW-HIGH`.
    pub before: Vec<u8>,
    /// The bytes that follow `LOW-HIGH`.
    pub after: Vec<u8>,
}

impl PartHeads {
    pub fn of(&self, part: RangePart) -> Vec<u8> {
        let range = format!("{}-{}", part.low, part.high);
        [&self.before, range.as_bytes(), &self.after].concat()
    }

    fn bytes_of(&self, part: RangePart) -> u64 {
        let digits = |n: u64| u64::from(n.checked_ilog10().unwrap_or(0)) + 1;
        (self.before.len() + self.after.len() + 1) as u64 + digits(part.low) + digits(part.high)
    }
}

impl Multipart {
    pub fn bytes(&self) -> u64 {
        let part = |part: &RangePart| self.heads.bytes_of(*part) + (part.high - part.low + 1);
        self.parts.iter().map(part).sum::<u64>() + self.tail.len() as u64
    }

    pub fn sort(&mut self) {
        self.parts.sort_by_key(|part| part.low);
    }
}

pub struct RangeFilter {
    at: u64,
    parts: VecDeque<RangePart>,
    /// `None`: a part has none.
    heads: Option<PartHeads>,
    tail: Vec<u8>,
    own: Vec<u8>,
    own_at: usize,
    is_over: bool,
    /// The body may end before the range does.
    may_be_short: bool,
}

impl RangeFilter {
    /// `high` is the last byte wanted. `low` must not be above it.
    pub fn new(low: u64, high: u64) -> Self {
        Self::with([RangePart { low, high }].into(), None, Vec::new())
    }

    /// One range of a body whose length isn't known: what the body has of it.
    pub fn up_to(low: u64, high: u64) -> Self {
        Self { may_be_short: true, ..Self::new(low, high) }
    }

    /// Several ranges; they go out in the body's order.
    pub fn parts(mut multipart: Multipart) -> Self {
        multipart.sort();
        let mut end = 0;
        for part in &multipart.parts {
            assert!(end <= part.low && part.low <= part.high, "a range has at least one byte, and that once");
            end = part.high + 1;
        }
        let Multipart { parts, heads, tail } = multipart;
        Self::with(parts.into(), Some(heads), tail)
    }

    fn with(parts: VecDeque<RangePart>, heads: Option<PartHeads>, tail: Vec<u8>) -> Self {
        let mut range =
            Self { at: 0, parts, heads, tail, own: Vec::new(), own_at: 0, is_over: false, may_be_short: false };
        range.begin();
        range
    }

    fn begin(&mut self) {
        self.own_at = 0;
        self.own = match self.parts.front() {
            Some(part) => self.heads.as_ref().map(|heads| heads.of(*part)).unwrap_or_default(),
            None => {
                self.is_over = true;
                std::mem::take(&mut self.tail)
            }
        };
    }

    /// The body has ended within a range.
    fn early_end(&self) -> Result<FilterState, FilterError> {
        if self.may_be_short { Ok(FilterState::End) } else { Err(FilterError::RangeShort) }
    }

    /// Hands out bytes of our own; whether all are out.
    fn give_own(&mut self, out: &mut [u8], produced: &mut usize) -> bool {
        let left = &self.own[self.own_at..];
        let n = left.len().min(out.len() - *produced);
        out[*produced..*produced + n].copy_from_slice(&left[..n]);
        self.own_at += n;
        *produced += n;
        self.own_at == self.own.len()
    }
}

impl Filter for RangeFilter {
    fn name(&self) -> &'static str {
        "range"
    }

    fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError> {
        let len = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let (mut consumed, mut produced) = (0, 0);
        loop {
            // A part's head waits for its first byte: a body that ends early shall not announce it.
            if let Some(part) = self.parts.front() {
                let before = len(part.low.saturating_sub(self.at)).min(input.len() - consumed);
                consumed += before;
                self.at += before as u64;
            }
            let has_input = consumed < input.len();
            if (has_input || self.is_over) && !self.give_own(out, &mut produced) {
                return Ok(FilterStep { consumed, produced, state: FilterState::More });
            }
            let Some(part) = self.parts.front().filter(|_| !self.is_over) else {
                return Ok(FilterStep { consumed, produced, state: FilterState::End });
            };
            if !has_input {
                let state = if is_last { self.early_end()? } else { FilterState::Hungry };
                return Ok(FilterStep { consumed, produced, state });
            }
            let take =
                (input.len() - consumed).min(len(part.high - self.at).saturating_add(1)).min(out.len() - produced);
            out[produced..produced + take].copy_from_slice(&input[consumed..consumed + take]);
            (consumed, produced, self.at) = (consumed + take, produced + take, self.at + take as u64);
            if self.at <= part.high {
                let state = match consumed < input.len() || produced == out.len() {
                    true => FilterState::More,
                    false if is_last => self.early_end()?,
                    false => FilterState::Hungry,
                };
                return Ok(FilterStep { consumed, produced, state });
            }
            self.parts.pop_front();
            self.begin();
        }
    }
}
