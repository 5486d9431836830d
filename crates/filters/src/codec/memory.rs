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

/// Number of decoders that have failed at the limit.
pub fn refused() -> u64 {
    REFUSED.load(Relaxed)
}

/// Sets the limit for the memory of all decoders, in bytes.
pub fn set_limit(bytes: u64) {
    LIMIT.store(bytes, Relaxed);
}

/// Bytes that one coder holds; given back when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Held(u64);

impl Held {
    /// Sets the number of held bytes; false if all coders would hold more than the limit.
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

    /// Sets the number of held bytes, whatever the limit: encoders are bounded by the number of fetches, and shan't
    /// fail them.
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
