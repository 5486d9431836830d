// SPDX-License-Identifier: BSD-2-Clause
//! Counters: sets of 64-bit numbers in shared memory, and the JSON document that tells tools what each number is.
//!
//! A set is a `#[repr(C)]` struct of nothing but [`Counter`]s; `shm::vsc` places it in shared memory.

mod doc;
mod sets;
mod tally;

use std::sync::atomic::{AtomicU64, Ordering};

pub use crate::no_hit::NoHitCounts;
pub use doc::json_doc;
pub(crate) use sets::no_hit_set;
pub use sets::*;
pub use tally::{begin_tally, flush};

/// One number that other processes may read at any time. Relaxed: a counter orders nothing.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    #[inline]
    pub fn inc(&self) {
        self.add(1);
    }

    /// Takes `n` off; a gauge may wrap below 0 for a moment.
    #[inline]
    pub fn sub(&self, n: u64) {
        self.0.fetch_sub(n, Ordering::Relaxed);
    }

    #[inline]
    pub fn dec(&self) {
        self.sub(1);
    }

    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterKind {
    Counter,
    Gauge,
    Bitmap,
}

/// The people who want to see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterLevel {
    Info,
    /// The number is for who looks for the cause of something.
    Diag,
    Debug,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterFormat {
    Integer,
    Bytes,
    /// Single bits, shown in hex.
    Bitmap,
    Duration,
}

#[derive(Clone, Copy, Debug)]
pub struct Elem {
    pub name: &'static str,
    pub kind: CounterKind,
    pub level: CounterLevel,
    pub format: CounterFormat,
    /// Group (`wrk`, `ban_mtx`) or empty.
    pub group: &'static str,
    pub oneliner: &'static str,
    pub docs: &'static str,
}

pub(crate) mod sealed {
    /// Only structs of nothing but `Counter`s, declared in `sets`, are sets: `shm` relies on it.
    pub trait SealedCounters {}
}

/// A set of counters: a `repr(C)` struct whose fields are all [`Counter`]s, one for each of `ELEMS`, in that order.
/// Any bytes are a valid value of it, which is what lets `shm` lay it over shared memory.
pub trait CounterFields: sealed::SealedCounters + Default + Send + Sync + 'static {
    /// Name of the set (`MAIN`), the first part of a counter's full name.
    const NAME: &'static str;
    /// The set's place in tools.
    const ORDER: u32;
    const ONELINER: &'static str;
    const ELEMS: &'static [Elem];

    fn counter(&self, index: usize) -> Option<&Counter>;

    fn by_name(&self, name: &str) -> Option<&Counter> {
        self.counter(Self::ELEMS.iter().position(|e| e.name == name)?)
    }
}

#[cfg(test)]
mod tests;
