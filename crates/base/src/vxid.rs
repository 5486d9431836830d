// SPDX-License-Identifier: BSD-2-Clause
//! Transaction IDs. An ID has 64 bits and is used once. The log shows its lower 51 bits, never 0; above them stands how often the
//! IDs of the log have begun again, which is after 2^30 of them in the log of release 7.1.

use std::sync::atomic::{AtomicU64, Ordering};

/// ID of a transaction (a session, a request or a backend request). Never 0 except [`Vxid::NONE`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Default)]
pub struct Vxid(pub u64);

const LOG_BITS: u32 = 51;

impl Vxid {
    /// Records that belong to no transaction.
    pub const NONE: Vxid = Vxid(0);

    /// The ID as the log shows it.
    #[inline]
    pub const fn log_id(self) -> u64 {
        self.0 & ((1 << LOG_BITS) - 1)
    }
}

impl std::fmt::Display for Vxid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.log_id())
    }
}

#[derive(Debug)]
pub struct VxidSource {
    next: AtomicU64,
    /// IDs that the log shows are smaller.
    limit: u64,
}

impl VxidSource {
    /// The first ID is 1. The log shows IDs below `limit`, which is at most 2^51.
    pub const fn new(limit: u64) -> Self {
        Self { next: AtomicU64::new(1), limit }
    }

    pub fn take(&self) -> Vxid {
        match self.next.fetch_add(1, Ordering::Relaxed) {
            number if number < self.limit => Vxid(number),
            number => self.again(number),
        }
    }

    /// The ID of a transaction for which those of the log have begun again.
    fn again(&self, number: u64) -> Vxid {
        let number = match number % self.limit {
            0 => self.next.fetch_add(1, Ordering::Relaxed),
            _ => number,
        };
        let (turn, shown) = (number / self.limit, number % self.limit);
        Vxid(turn << LOG_BITS | shown)
    }

    pub fn last(&self) -> u64 {
        self.next.load(Ordering::Relaxed) - 1
    }

    /// Makes `last + 1` the next id (`debug.xid`).
    pub fn set_last(&self, last: u64) {
        self.next.store(last + 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_the_one_set() {
        let source = VxidSource::new(1 << 30);
        source.set_last(999);
        assert_eq!((source.take(), source.take()), (Vxid(1000), Vxid(1001)));
    }

    #[test]
    fn the_log_shows_ids_again() {
        for limit in [1 << 30, 999_999_999_999_999] {
            let source = VxidSource::new(limit);
            source.set_last(limit - 2);
            let taken = [source.take(), source.take(), source.take()];
            assert_eq!(taken.map(Vxid::log_id), [limit - 1, 1, 2]);
            source.set_last(2 * limit);
            assert!(source.take().log_id() == 1 && !taken.contains(&source.take()), "used once: {taken:?}");
        }
    }
}
