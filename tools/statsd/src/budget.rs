// SPDX-License-Identifier: BSD-2-Clause
//! How much may be kept: names, and bytes of names, timer values and set members. Shared by all inputs.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::sample::{SetMembers, TimerSample};
use crate::shard::GaugeOp;

/// Bytes that a table keeps beside a name's.
pub const NAME_BYTES: u64 = 96;

/// Memory for one name of a kind of metric at a flush, beside its name in two tables: what is worked out for backends,
/// and room that tables and lists have grown by. Estimates: with a limit of 100 MB a flush of timers was seen at 157 MB
/// in all, of counters, sets and gauges at 89 to 116.
pub trait AtFlush {
    const BYTES: u64;
}

/// A sum, and a sum a second.
impl AtFlush for f64 {
    const BYTES: u64 = 128;
}

/// The number of lines that a name had.
impl AtFlush for u64 {
    const BYTES: u64 = 32;
}

impl AtFlush for GaugeOp {
    const BYTES: u64 = 160;
}

/// Some fifteen figures of 32 bytes in a list of sixteen, with names of their own for those of a threshold.
impl AtFlush for TimerSample {
    const BYTES: u64 = 896;
}

/// The list of members is copied.
impl AtFlush for SetMembers {
    const BYTES: u64 = 256;
}

#[derive(Debug)]
pub struct Budget {
    names: AtomicUsize,
    max_names: AtomicUsize,
    held: AtomicU64,
    max_bytes: AtomicU64,
}

impl Budget {
    pub fn new(max_names: usize, max_bytes: u64) -> Budget {
        Budget {
            names: AtomicUsize::new(0),
            max_names: AtomicUsize::new(max_names),
            held: AtomicU64::new(0),
            max_bytes: AtomicU64::new(max_bytes),
        }
    }

    pub fn set_limits(&self, max_names: usize, max_bytes: u64) {
        self.max_names.store(max_names, Ordering::Relaxed);
        self.max_bytes.store(max_bytes, Ordering::Relaxed);
    }

    /// The store holds so many names.
    pub fn set_names(&self, names: usize) {
        self.names.store(names, Ordering::Relaxed);
    }

    pub fn has_names(&self, more: usize) -> bool {
        self.names.load(Ordering::Relaxed).saturating_add(more) <= self.max_names.load(Ordering::Relaxed)
    }

    pub fn max_names(&self) -> usize {
        self.max_names.load(Ordering::Relaxed)
    }

    /// Takes `bytes` if they are left.
    pub fn take(&self, bytes: u64) -> bool {
        let held = self.held.fetch_add(bytes, Ordering::Relaxed);
        let fits = held.saturating_add(bytes) <= self.max_bytes.load(Ordering::Relaxed);
        if !fits {
            self.give(bytes);
        }
        fits
    }

    /// Takes `bytes` that are in use already, limit or not.
    pub fn take_over(&self, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn give(&self, bytes: u64) {
        let before = self.held.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "more given back than taken");
    }

    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }
}
