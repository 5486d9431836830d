// SPDX-License-Identifier: BSD-2-Clause
//! Keys that are asked for often, within a fixed amount of memory: counts by slots that several keys may share, so that a rate is rather
//! taken for too high than for too low.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Slots, a power of two.
const SLOTS: usize = 4096;
/// Seconds for which a key stays hot to those that were told.
const STAYS: u32 = 30;

/// Rates of keys as an owner counts them, and the keys of which other owners have said that they are hot.
#[derive(Debug)]
pub struct HotKeys {
    /// Number of requests, halved each second: twice the rate at a steady pace.
    counts: Box<[AtomicU32]>,
    /// The second until which a key is hot.
    until: Box<[AtomicU32]>,
    seconds: AtomicU32,
}

impl Default for HotKeys {
    fn default() -> Self {
        let slots = || sys::zeroed::table(SLOTS);
        HotKeys { counts: slots(), until: slots(), seconds: AtomicU32::new(1) }
    }
}

impl HotKeys {
    /// Counts a request; true if there were more than `most` a second (0: never).
    pub fn count(&self, key: &[u8; 32], most: u32) -> bool {
        let count = self.counts[slot(key)].fetch_add(1, Relaxed).saturating_add(1);
        most > 0 && count > most.saturating_mul(2)
    }

    /// Marks a key as hot, as its owner says.
    pub fn heat(&self, key: &[u8; 32]) {
        self.until[slot(key)].store(self.seconds.load(Relaxed) + STAYS, Relaxed);
    }

    pub fn is_hot(&self, key: &[u8; 32]) -> bool {
        self.until[slot(key)].load(Relaxed) > self.seconds.load(Relaxed)
    }

    /// A second has passed.
    pub fn tick(&self) {
        self.seconds.fetch_add(1, Relaxed);
        for count in self.counts.iter().filter(|count| count.load(Relaxed) > 0) {
            let _ = count.try_update(Relaxed, Relaxed, |count| Some(count / 2));
        }
    }
}

fn slot(key: &[u8; 32]) -> usize {
    usize::from(u16::from_le_bytes([key[24], key[25]])) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hot_above_its_rate_and_cools() {
        let (keys, key) = (HotKeys::default(), [7; 32]);
        let second = |times: u32| {
            let is_hot = (0..times).fold(false, |_, _| keys.count(&key, 100));
            keys.tick();
            is_hot
        };
        assert!(!(0..10).any(|_| second(90)), "90 a second are below 100");
        assert!((0..10).any(|_| second(120)));
        (0..10).for_each(|_| keys.tick());
        assert!(!second(90));
        assert!(!(0..10_000).any(|_| keys.count(&key, 0)), "switched off");
    }

    #[test]
    fn what_was_told_is_forgotten() {
        let (keys, key) = (HotKeys::default(), [7; 32]);
        assert!(!keys.is_hot(&key));
        keys.heat(&key);
        assert!(keys.is_hot(&key));
        (0..STAYS).for_each(|_| keys.tick());
        assert!(!keys.is_hot(&key));
    }
}
