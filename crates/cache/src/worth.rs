// SPDX-License-Identifier: BSD-2-Clause
//! An object's worth to eviction, in one word of its objcore: weight, uses, and the time that the origin took for it.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::objcore::Objcore;

/// Most uses that are counted, as many as fit beside the weight.
pub(crate) const MAX_USES: u8 = (1 << USES_BITS) - 1;
const USES_BITS: u32 = 6;
const COST_BITS: u32 = 6;
const MANTISSA_BITS: u32 = 16;
/// Bits below a packed weight.
const WEIGHT_AT: u32 = USES_BITS + COST_BITS;
/// Heavier ones count as this: more than 16 GB.
const MAX_WEIGHT: u64 = (1 << (MANTISSA_BITS + 15)) - 1;

/// An object's weight, in units of 16 bytes, its number of uses, and the origin's time for it. Stands in the objcore,
/// which is at hand whenever its item moves.
#[derive(Clone, Copy, Default)]
pub(crate) struct Worth {
    /// A weight has 16 significant bits.
    pub weight: u64,
    pub uses: u8,
    pub cost: FetchCost,
}

/// Time that an origin took, to a fifth of it, from 1 ms to 49 s; 0 is unknown.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct FetchCost(u8);

impl FetchCost {
    const MAX: u8 = (1 << COST_BITS) - 1;

    fn of(time: Duration) -> FetchCost {
        let quarters = u64::try_from(time.as_micros() / 250).unwrap_or(u64::MAX).max(4);
        let octave = quarters.ilog2() - 2;
        let step = (quarters >> octave) & 3;
        FetchCost((1 + 4 * u64::from(octave) + step).min(Self::MAX.into()) as u8)
    }

    /// Quarters of a millisecond.
    pub fn quarters(self) -> Option<u64> {
        let step = u64::from(self.0.checked_sub(1)?);
        Some((4 + (step & 3)) << (step >> 2))
    }
}

impl Worth {
    pub fn of(oc: &Objcore) -> Worth {
        Worth::unpacked(oc.worth.load(Relaxed))
    }

    pub fn note(self, oc: &Objcore) {
        oc.worth.store(self.packed(), Relaxed);
    }

    fn unpacked(packed: u32) -> Worth {
        let weight = packed >> WEIGHT_AT;
        Worth {
            weight: u64::from(weight & ((1 << MANTISSA_BITS) - 1)) << (weight >> MANTISSA_BITS),
            uses: (packed as u8) & MAX_USES,
            cost: FetchCost((packed >> USES_BITS) as u8 & FetchCost::MAX),
        }
    }

    fn packed(self) -> u32 {
        let shift = excess_bits(self.weight);
        let weight = shift << MANTISSA_BITS | (self.weight >> shift) as u32;
        weight << WEIGHT_AT | u32::from(self.cost.0) << USES_BITS | u32::from(self.uses)
    }

    /// The weight of an object of so many bytes.
    pub fn weigh(bytes: u64) -> u64 {
        let weight = bytes.div_ceil(16).clamp(1, MAX_WEIGHT);
        let shift = excess_bits(weight);
        weight >> shift << shift
    }

    /// True of an object that isn't in the list yet, if it is hardly expected to be used.
    pub fn is_little(self) -> bool {
        self.weight == 0 && self.uses == 1
    }
}

/// Low bits of a weight that aren't kept.
fn excess_bits(weight: u64) -> u32 {
    (u64::BITS - weight.leading_zeros()).saturating_sub(MANTISSA_BITS)
}

/// Marks an object that isn't in the list yet.
pub(crate) fn expect_little_use(oc: &Objcore) {
    Worth { uses: 1, ..Worth::of(oc) }.note(oc);
}

/// Sets the cost of an object that isn't in the list yet. The cost of the object that it refreshes counts if it is more.
pub(crate) fn note_fetch_time(oc: &Objcore, time: Duration, old: Option<&Objcore>) {
    let old = old.map_or(FetchCost::default(), |old| Worth::of(old).cost);
    let cost = FetchCost(FetchCost::of(time).0.max(old.0));
    Worth { cost, ..Worth::of(oc) }.note(oc);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_known_to_a_fifth() {
        for millis in (1..49_000).step_by(7) {
            let cost = FetchCost::of(Duration::from_millis(millis)).quarters().unwrap();
            assert!(cost <= 4 * millis && 4 * millis < cost + cost / 4 + 1, "{millis} ms: {cost} quarters");
        }
        for (time, quarters) in [(Duration::ZERO, 4), (Duration::from_secs(60), 6 << 15), (Duration::MAX, 6 << 15)] {
            assert_eq!(FetchCost::of(time).quarters(), Some(quarters));
        }
        assert_eq!(FetchCost::default().quarters(), None);
    }

    #[test]
    fn a_weight_is_what_its_object_keeps() {
        for bytes in [1, 16, 17, 1 << 20, (1 << 20) + 1, 0xFFFF_FFFF, 123_456_789_012, u64::MAX] {
            let weight = Worth::weigh(bytes);
            let packed = Worth { weight, uses: 63, cost: FetchCost(41) }.packed();
            let Worth { weight: kept, uses, cost } = Worth::unpacked(packed);
            assert_eq!((kept, uses, cost), (weight, 63, FetchCost(41)), "{bytes}");
            let exact = bytes.div_ceil(16).min(MAX_WEIGHT);
            assert!(weight <= exact && exact - weight <= exact >> 15, "{bytes}: {weight} of {exact}");
        }
    }
}
