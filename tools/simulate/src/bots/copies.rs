// SPDX-License-Identifier: BSD-2-Clause
//! Objects that a cache would hold, by number, with the end of their freshness. Bounded: the older half is forgotten when it is full.

use std::collections::HashMap;

const MOST: usize = 1_000_000;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CopyState {
    None,
    /// The copy expired so many seconds ago.
    Stale(f64),
    Fresh,
}

#[derive(Default)]
pub struct Copies {
    young: HashMap<u64, f64>,
    old: HashMap<u64, f64>,
}

impl Copies {
    pub fn look(&self, object: u64, now: f64) -> CopyState {
        match self.young.get(&object).or_else(|| self.old.get(&object)) {
            None => CopyState::None,
            Some(end) if *end > now => CopyState::Fresh,
            Some(end) => CopyState::Stale(now - end),
        }
    }

    pub fn keep(&mut self, object: u64, until: f64) {
        if self.young.len() >= MOST / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(object, until);
    }
}
