// SPDX-License-Identifier: BSD-2-Clause
//! The fate of objects that have left the cache, as far as it is remembered: a table of fixed size, direct-mapped by
//! digest, in which the latest of a slot wins. Only explains why a request was no hit; nothing is decided by it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::Mono;

use crate::digest::Digest;

/// A power of two. Memory that was never written to costs nothing.
const SLOTS: usize = 1 << 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum TombstoneCause {
    /// The ttl, grace and keep were over.
    Expired = 1,
    /// The object had no ttl, so no lookup could find it.
    ZeroTtl,
    Banned,
    Purged,
    Evicted,
    /// The URL had as many variants as `vary_limit` allows.
    VaryLimit,
    Replaced,
    FetchFailed,
}

const CAUSES: [TombstoneCause; 8] = [
    TombstoneCause::Expired,
    TombstoneCause::ZeroTtl,
    TombstoneCause::Banned,
    TombstoneCause::Purged,
    TombstoneCause::Evicted,
    TombstoneCause::VaryLimit,
    TombstoneCause::Replaced,
    TombstoneCause::FetchFailed,
];

/// See the module. A slot: 32 bits of the digest, 4 of the cause, 28 for the second.
pub(crate) struct Tombstones(Box<[AtomicU64]>);

impl Tombstones {
    pub fn new() -> Self {
        Self(sys::zeroed::table(SLOTS))
    }

    /// Memory it takes at most, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.0.len() * size_of::<AtomicU64>()) as u64
    }

    pub fn note(&self, digest: &Digest, cause: TombstoneCause, now: Mono) {
        let (at, print) = locate(digest);
        let second = now.0.max(0.0) as u64 & 0x0fff_ffff;
        self.0[at].store(print << 32 | (cause as u64) << 28 | second, Relaxed);
    }

    /// The fate of the last object with that digest, and its age in seconds.
    pub fn cause(&self, digest: &Digest, now: Mono) -> Option<(TombstoneCause, f64)> {
        let (at, print) = locate(digest);
        let slot = self.0[at].load(Relaxed);
        let cause = *CAUSES.get((slot >> 28 & 15).checked_sub(1)? as usize)?;
        (slot >> 32 == print).then(|| (cause, (now.0 - (slot & 0x0fff_ffff) as f64).max(0.0)))
    }
}

fn locate(digest: &Digest) -> (usize, u64) {
    let hash = digest.hash();
    (hash as usize & (SLOTS - 1), hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(byte: u8) -> Digest {
        Digest([byte; 32])
    }

    #[test]
    fn the_last_cause_is_remembered() {
        let tombstones = Tombstones::new();
        for (n, cause) in CAUSES.into_iter().enumerate() {
            tombstones.note(&digest(7), cause, Mono(100.0 + n as f64));
            assert_eq!(tombstones.cause(&digest(7), Mono(110.5 + n as f64)), Some((cause, 10.5)));
        }
        assert_eq!(tombstones.cause(&digest(8), Mono(200.0)), None);
    }

    #[test]
    fn another_digest_in_the_same_slot_is_not_taken_for_it() {
        let tombstones = Tombstones::new();
        let (mut one, mut two) = (digest(1), digest(1));
        (one.0[15], two.0[15]) = (1, 2);
        assert_eq!(locate(&one).0, locate(&two).0);
        tombstones.note(&one, TombstoneCause::Evicted, Mono(1.0));
        assert_eq!(tombstones.cause(&two, Mono(2.0)), None);
    }
}
