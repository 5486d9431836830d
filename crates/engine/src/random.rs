// SPDX-License-Identifier: BSD-2-Clause
//! Random numbers for `std.random` and directors that tests can foresee: the additive feedback generator over the trinomial
//! x^31 + x^3 + 1 of random(3), so that a sequence after `debug.srandom` is the same as varnishd's.

use base::lock::Mutex;

const DEGREE: usize = 31;
/// Distance of the two words that are added.
const SEPARATION: usize = 3;
/// Numbers thrown away after seeding.
const WARM_UP: usize = 10 * DEGREE;

/// A generator, shared by all threads.
pub struct Random(Mutex<GeneratorState>);

struct GeneratorState {
    words: [u32; DEGREE],
    front: usize,
    rear: usize,
}

impl Random {
    pub fn seeded(seed: u32) -> Self {
        Random(Mutex::new(GeneratorState::seeded(seed)))
    }

    /// Starts over with this seed (`debug.srandom`).
    pub fn seed(&self, seed: u32) {
        *self.0.lock() = GeneratorState::seeded(seed);
    }

    /// A number in `[0, 1)`, of two numbers of the generator: more than the 53 bits that there is room for.
    pub fn next(&self) -> f64 {
        const SCALE: f64 = 1.0 / (1u32 << 31) as f64;
        let mut state = self.0.lock();
        let (high, low) = (state.next(), state.next());
        f64::from(high) * SCALE + f64::from(low) * SCALE * SCALE
    }
}

impl GeneratorState {
    fn seeded(seed: u32) -> Self {
        let mut words = [seed; DEGREE];
        for i in 1..DEGREE {
            words[i] = minimal_standard(words[i - 1]);
        }
        let mut state = GeneratorState { words, front: SEPARATION, rear: 0 };
        for _ in 0..WARM_UP {
            state.next();
        }
        state
    }

    /// The next number of 31 bits.
    fn next(&mut self) -> u32 {
        let sum = self.words[self.front].wrapping_add(self.words[self.rear]);
        self.words[self.front] = sum;
        self.front = (self.front + 1) % DEGREE;
        self.rear = (self.rear + 1) % DEGREE;
        // The lowest bit is the least random one.
        sum >> 1
    }
}

/// Park and Miller's generator, 16807 x mod 2^31 - 1, on numbers moved by one so that 0 is none of its fixed points.
fn minimal_standard(x: u32) -> u32 {
    const MODULUS: u64 = (1 << 31) - 1;
    let x = u64::from(x) % (MODULUS - 1) + 1;
    (16_807 * x % MODULUS - 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_numbers_that_varnishd_gives() {
        let random = Random::seeded(7);
        random.seed(1);
        let text: Vec<_> = (0..4).map(|_| format!("{:.3}", random.next())).collect();
        assert_eq!(text, ["0.656", "0.039", "0.292", "0.636"]);
    }
}
