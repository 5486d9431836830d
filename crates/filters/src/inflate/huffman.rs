// SPDX-License-Identifier: BSD-2-Clause
//! Canonical Huffman codes (RFC 1951, section 3.2.2): a table for codes up to [`FAST`] bits, and a walk by length for
//! the few that are longer.

use std::sync::OnceLock;

const FAST: u32 = 10;
const MAX_LEN: usize = 15;

pub(super) const LEN_BASE: [u16; 29] =
    [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
pub(super) const LEN_EXTRA: [u8; 29] =
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
pub(super) const DIST_BASE: [u16; 30] = [
    1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145,
    8193, 12289, 16385, 24577,
];
pub(super) const DIST_EXTRA: [u8; 30] =
    [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13];

pub(super) enum NextCode {
    /// A symbol and how many bits its code has.
    Symbol(u16, u32),
    /// The beginning of a code.
    Short,
    Bad,
}

#[derive(Clone)]
pub(super) struct Table {
    /// Code by the next [`FAST`] bits: symbol << 4 | length; 0 if the code is longer or none.
    fast: [u16; 1 << FAST],
    counts: [u16; MAX_LEN + 1],
    /// Symbols in the order of their codes.
    symbols: [u16; 288],
    longest: usize,
}

impl Table {
    pub(super) fn empty() -> Self {
        Self { fast: [0; 1 << FAST], counts: [0; MAX_LEN + 1], symbols: [0; 288], longest: 0 }
    }

    /// Builds the codes of these lengths. False if they are no code: too many, or too few (`must_be_full`: always; else
    /// a single code of one bit, or none at all, will do).
    pub(super) fn build(&mut self, lens: &[u8], must_be_full: bool) -> bool {
        *self = Self::empty();
        for &len in lens {
            self.counts[usize::from(len)] += 1;
        }
        self.counts[0] = 0;
        self.longest = (1..=MAX_LEN).rev().find(|&len| self.counts[len] > 0).unwrap_or(0);
        if self.longest == 0 {
            return true;
        }
        let mut free = 1i32;
        for len in 1..=MAX_LEN {
            free = (free << 1) - i32::from(self.counts[len]);
            if free < 0 {
                return false;
            }
        }
        if free > 0 && (must_be_full || self.longest != 1) {
            return false;
        }
        self.assign(lens);
        true
    }

    fn assign(&mut self, lens: &[u8]) {
        let (mut codes, mut offsets) = ([0u16; MAX_LEN + 2], [0u16; MAX_LEN + 2]);
        for len in 1..=MAX_LEN {
            codes[len + 1] = (codes[len] + self.counts[len]) << 1;
            offsets[len + 1] = offsets[len] + self.counts[len];
        }
        for (symbol, len) in lens.iter().map(|&len| usize::from(len)).enumerate().filter(|&(_, len)| len > 0) {
            self.symbols[usize::from(offsets[len])] = symbol as u16;
            offsets[len] += 1;
            let code = codes[len];
            codes[len] += 1;
            if len as u32 <= FAST {
                let reversed = usize::from(code.reverse_bits() >> (16 - len));
                for slot in (reversed..1 << FAST).step_by(1 << len) {
                    self.fast[slot] = (symbol as u16) << 4 | len as u16;
                }
            }
        }
    }

    /// Looks up the low bits of `bits`, of which `have` count.
    #[inline]
    pub(super) fn find(&self, bits: u64, have: u32) -> NextCode {
        let entry = self.fast[(bits & ((1 << FAST) - 1)) as usize];
        let len = u32::from(entry & 15);
        if len > 0 {
            return if len <= have { NextCode::Symbol(entry >> 4, len) } else { NextCode::Short };
        }
        self.walk(bits, have)
    }

    #[cold]
    fn walk(&self, mut bits: u64, have: u32) -> NextCode {
        let (mut code, mut first, mut index) = (0u32, 0u32, 0u32);
        for len in 1..=self.longest {
            if len as u32 > have {
                return NextCode::Short;
            }
            code |= (bits & 1) as u32;
            bits >>= 1;
            let count = u32::from(self.counts[len]);
            if code < first + count {
                return NextCode::Symbol(self.symbols[(index + code - first) as usize], len as u32);
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        NextCode::Bad
    }
}

/// The codes of fixed blocks: literals and lengths, distances.
pub(super) fn fixed() -> (&'static Table, &'static Table) {
    static TABLES: OnceLock<(Table, Table)> = OnceLock::new();
    let (codes, dists) = TABLES.get_or_init(|| {
        let mut lens = [8u8; 288];
        lens[144..256].fill(9);
        lens[256..280].fill(7);
        let (mut codes, mut dists) = (Table::empty(), Table::empty());
        assert!(codes.build(&lens, false) && dists.build(&[5; 32], false), "RFC 1951's own codes are codes");
        (codes, dists)
    });
    (codes, dists)
}
