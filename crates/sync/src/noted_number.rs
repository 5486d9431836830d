// SPDX-License-Identifier: BSD-2-Clause
//! A number that has to be noted in another place too, which appears at some time: one thread raises the number, another one
//! makes the place, and neither waits for the other.

use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};

use sys::atomic::{AtomicU64, fence};

/// A number that has to be noted in another place, too; see the module.
#[derive(Debug)]
pub struct NotedNumber(AtomicU64);

impl NotedNumber {
    pub fn new(number: u64) -> Self {
        Self(AtomicU64::new(number))
    }

    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub fn set(&self, number: u64) {
        self.0.store(number, Relaxed);
    }

    pub fn replace(&self, number: u64) -> u64 {
        self.0.swap(number, Relaxed)
    }

    /// Notes the number in its place, if that is there: called after the number has changed, and after the place has appeared. Both
    /// callers write before the fence and read after it, so that one of them sees what the other did. The place may be given an
    /// older number last, so it keeps the highest.
    #[inline]
    pub fn note<P>(&self, place: impl FnOnce() -> Option<P>, write: impl FnOnce(P, u64)) {
        fence(SeqCst);
        let number = self.get();
        if let Some(place) = place() {
            write(place, number);
        }
    }
}

#[cfg(all(test, loom))]
mod proofs;
