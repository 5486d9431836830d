// SPDX-License-Identifier: BSD-2-Clause
//! Transaction ids. Internally 64 bits and used once; varnish-7.1's log shows the low 30 bits, never 0.

use std::sync::atomic::{AtomicU64, Ordering};

/// Id of a transaction (a session, a request or a backend request). Never 0 except [`Vxid::NONE`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Default)]
pub struct Vxid(pub u64);

/// Ids wrap in the 7.1 log after this value.
const LOG_MASK: u64 = (1 << 30) - 1;

impl Vxid {
    /// Records that belong to no transaction.
    pub const NONE: Vxid = Vxid(0);

    /// The id as varnish-7.1's tools know it: 30 bits, never 0 for a real transaction.
    pub fn log_id(self) -> u32 {
        match (self.0, self.0 & LOG_MASK) {
            (0, _) => 0,
            (_, 0) => 1,
            (_, low) => low as u32,
        }
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
}

impl VxidSource {
    /// The first id handed out is 1.
    pub fn new() -> Self {
        Self { next: AtomicU64::new(1) }
    }

    pub fn take(&self) -> Vxid {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        if id & LOG_MASK == 0 { Vxid(self.next.fetch_add(1, Ordering::Relaxed)) } else { Vxid(id) }
    }

    pub fn last(&self) -> u64 {
        self.next.load(Ordering::Relaxed) - 1
    }

    /// Makes `last + 1` the next id (`debug.xid`).
    pub fn set_last(&self, last: u64) {
        self.next.store(last + 1, Ordering::Relaxed);
    }
}

impl Default for VxidSource {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_the_one_set() {
        let source = VxidSource::new();
        source.set_last(999);
        assert_eq!((source.take(), source.take()), (Vxid(1000), Vxid(1001)));
    }

    #[test]
    fn the_log_never_shows_zero() {
        let source = VxidSource::new();
        source.set_last(LOG_MASK);
        assert_eq!(source.take().log_id(), 1);
    }
}
