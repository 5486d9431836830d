// SPDX-License-Identifier: BSD-2-Clause
//! About how many different things there were. The first few are counted exactly, by their hashes. Beyond that there is a bit for
//! each, by its hash, and from the bits that are still clear how many were set twice (linear counting, Whang 1990). Within some
//! percent up to five times as many things as bits.

/// Things that are counted exactly, if there is memory for their hashes.
const EXACT: usize = 16;

#[derive(Clone, Debug)]
pub struct Distinct {
    /// Hashes of the first things, or bits.
    words: Box<[u64]>,
    /// Number of hashes; `None` once the words are bits.
    exact: Option<usize>,
}

impl Distinct {
    /// Nothing yet; `bits` is a power of two.
    pub fn new(bits: usize) -> Distinct {
        Distinct { words: vec![0; (bits / 64).max(1)].into(), exact: Some(0) }
    }

    /// Counts a thing by its hash.
    pub fn add(&mut self, hash: u64) {
        match self.exact {
            Some(held) if self.words[..held].contains(&hash) => {}
            Some(held) if held < self.words.len().min(EXACT) => {
                self.words[held] = hash;
                self.exact = Some(held + 1);
            }
            Some(held) => {
                let mut first = [0; EXACT];
                first[..held].copy_from_slice(&self.words[..held]);
                self.words.fill(0);
                self.exact = None;
                first[..held].iter().for_each(|hash| self.set_bit(*hash));
                self.set_bit(hash);
            }
            None => self.set_bit(hash),
        }
    }

    fn set_bit(&mut self, hash: u64) {
        let bit = hash as usize % (self.words.len() * 64);
        self.words[bit / 64] |= 1 << (bit % 64);
    }

    /// Number of different things: exact up to 16, or up to the number of words if there are fewer.
    pub fn estimate(&self) -> f64 {
        if let Some(held) = self.exact {
            return held as f64;
        }
        let bits = (self.words.len() * 64) as f64;
        let clear: u32 = self.words.iter().map(|word| word.count_zeros()).sum();
        // With none clear there were at least so many.
        -bits * (f64::from(clear.max(1)) / bits).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::BuildHasher;

    #[test]
    fn within_some_percent() {
        let secret = std::hash::RandomState::new();
        let mut distinct = Distinct::new(1 << 16);
        assert_eq!(distinct.estimate(), 0.0);
        for n in 0..200_000u32 {
            distinct.add(secret.hash_one(n));
            distinct.add(secret.hash_one(n / 2));
        }
        let estimate = distinct.estimate();
        assert!((190_000.0..210_000.0).contains(&estimate), "{estimate}");
    }

    /// Hashes that share all their low bits would be one thing to the bits.
    #[test]
    fn the_first_few_are_exact() {
        for (bits, exact) in [(1 << 10, 16), (1 << 16, 16), (256, 4)] {
            let mut distinct = Distinct::new(bits);
            for n in 0..exact {
                distinct.add(n << 32);
                distinct.add(n << 32);
                assert_eq!(distinct.estimate(), (n + 1) as f64, "{bits} bits");
            }
            distinct.add(1);
            let estimate = distinct.estimate();
            assert!((1.9..2.1).contains(&estimate), "two bits of {bits}: {estimate}");
        }
    }
}
