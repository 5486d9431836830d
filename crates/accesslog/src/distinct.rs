// SPDX-License-Identifier: BSD-2-Clause
//! About how many different things there were: a bit for each, by its hash, and from the bits that are still clear how many were set
//! twice (linear counting, Whang 1990). Within some percent up to five times as many things as bits.

#[derive(Clone, Debug)]
pub struct Distinct(Box<[u64]>);

impl Distinct {
    /// Nothing yet; `bits` is a power of two.
    pub fn new(bits: usize) -> Distinct {
        Distinct(vec![0; (bits / 64).max(1)].into())
    }

    pub fn add(&mut self, hash: u64) {
        let bit = hash as usize % (self.0.len() * 64);
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    pub fn estimate(&self) -> f64 {
        let bits = (self.0.len() * 64) as f64;
        let clear: u32 = self.0.iter().map(|word| word.count_zeros()).sum();
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
}
