// SPDX-License-Identifier: BSD-2-Clause
//! How many different hashes there were, in 16 KB (HyperLogLog).

const BITS: u32 = 14;

/// The error of a guess, relative to it: one standard deviation.
pub const DEVIATION: f64 = 1.04 / (1 << (BITS / 2)) as f64;

/// The longest run of zeros in each part of the hashes.
pub struct SimulateDistinct(Vec<u8>);

impl Default for SimulateDistinct {
    fn default() -> Self {
        SimulateDistinct(vec![0; 1 << BITS])
    }
}

impl std::fmt::Debug for SimulateDistinct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "about {:.0}", self.count())
    }
}

impl SimulateDistinct {
    pub fn add(&mut self, hash: u64) {
        // The highest bits draw the sample.
        let hash = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let part = (hash >> (64 - BITS)) as usize;
        let run = ((hash << BITS) | 1 << (BITS - 1)).leading_zeros() as u8 + 1;
        self.0[part] = self.0[part].max(run);
    }

    pub fn count(&self) -> f64 {
        let parts = self.0.len() as f64;
        let sum: f64 = self.0.iter().map(|run| 2f64.powi(-i32::from(*run))).sum();
        let guess = 0.7213 / (1.0 + 1.079 / parts) * parts * parts / sum;
        let empty = self.0.iter().filter(|run| **run == 0).count() as f64;
        // While many are empty, these say more.
        if guess <= 2.5 * parts && empty > 0.0 { parts * (parts / empty).ln() } else { guess }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_near() {
        let mut distinct = SimulateDistinct::default();
        let mut next = 1;
        for n in 0..300_000u64 {
            distinct.add(crate::tests::mixed(n));
            distinct.add(crate::tests::mixed(n / 2));
            if n + 1 == next {
                let far = (distinct.count() / next as f64 - 1.0).abs();
                assert!(far < 3.5 * DEVIATION, "{next}: {}", distinct.count());
                next *= 3;
            }
        }
    }
}
