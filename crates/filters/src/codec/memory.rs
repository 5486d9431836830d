// SPDX-License-Identifier: BSD-2-Clause
//! What coders hold, in all threads together.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static HELD: AtomicU64 = AtomicU64::new(0);
static LIMIT: AtomicU64 = AtomicU64::new(256 << 20);
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Bytes of windows and tables that coders hold now.
pub fn held() -> u64 {
    HELD.load(Relaxed)
}

/// How many decoders have failed at the limit.
pub fn refused() -> u64 {
    REFUSED.load(Relaxed)
}

/// From now on decoders may make that so many bytes at most.
pub fn set_limit(bytes: u64) {
    LIMIT.store(bytes, Relaxed);
}

/// What one coder holds; given back when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Held(u64);

impl Held {
    /// It holds so many bytes by now. False: that is more than all may.
    pub fn set(&mut self, bytes: u64) -> bool {
        if bytes <= self.0 {
            return true;
        }
        let more = bytes - self.0;
        let sum = HELD.fetch_add(more, Relaxed) + more;
        self.0 = bytes;
        let fits = sum <= LIMIT.load(Relaxed);
        if !fits {
            REFUSED.fetch_add(1, Relaxed);
        }
        fits
    }

    /// As [`Held::set`], whatever all may: what packs is bounded by the number of fetches, and shan't fail them.
    pub fn set_anyway(&mut self, bytes: u64) {
        HELD.fetch_add(bytes.saturating_sub(self.0), Relaxed);
        self.0 = self.0.max(bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0, Relaxed);
    }
}
