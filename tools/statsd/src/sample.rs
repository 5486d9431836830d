// SPDX-License-Identifier: BSD-2-Clause
//! What an interval gathers for a timer and for a set, accounted in the budget.

use std::hash::BuildHasher;
use std::sync::OnceLock;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::budget::Budget;

#[derive(Debug, Default)]
pub struct TimerSample {
    pub values: Vec<f64>,
    /// Number of events, with rates worked in.
    pub events: f64,
}

impl TimerSample {
    /// Adds a value; false when there is no room.
    pub fn push(&mut self, value: f64, events: f64, budget: &Budget) -> bool {
        if self.values.len() == self.values.capacity() && !self.grow(self.values.len().max(4), budget) {
            return false;
        }
        self.values.push(value);
        self.events += events;
        true
    }

    /// Moves another's values in; what there is no room for is the answer.
    pub fn absorb(&mut self, mut other: TimerSample, budget: &Budget) -> usize {
        if self.values.is_empty() {
            self.release(budget);
            other.events += self.events;
            *self = other;
            return 0;
        }
        let more = other.values.len();
        let fits = self.values.capacity() - self.values.len() >= more || self.grow(more, budget);
        if fits {
            self.values.append(&mut other.values);
            self.events += other.events;
        }
        other.release(budget);
        if fits { 0 } else { more }
    }

    pub fn release(&mut self, budget: &Budget) {
        budget.give(self.values.capacity() as u64 * 8);
        self.values = Vec::new();
    }

    fn grow(&mut self, by: usize, budget: &Budget) -> bool {
        let before = self.values.capacity();
        if !budget.take(by as u64 * 8) {
            return false;
        }
        self.values.reserve_exact(by);
        let charged = before + by;
        let real = self.values.capacity();
        // `reserve_exact` counts from the length, which the callers' cases keep at or near the capacity.
        if real > charged {
            budget.take_over((real - charged) as u64 * 8);
        } else {
            budget.give((charged - real) as u64 * 8);
        }
        true
    }
}

#[derive(Debug, Default)]
pub struct SetMembers {
    index: HashTable<u32>,
    list: Vec<Box<[u8]>>,
    bytes: u64,
}

/// Bytes that a member costs beside its own.
const MEMBER_BYTES: u64 = 40;

fn hasher() -> &'static DefaultHashBuilder {
    static HASHER: OnceLock<DefaultHashBuilder> = OnceLock::new();
    HASHER.get_or_init(DefaultHashBuilder::default)
}

impl SetMembers {
    pub fn insert(&mut self, member: &[u8], budget: &Budget) -> bool {
        let (list, hasher) = (&self.list, hasher());
        let hash = hasher.hash_one(member);
        if self.index.find(hash, |at| &*list[*at as usize] == member).is_some() {
            return true;
        }
        let cost = member.len() as u64 + MEMBER_BYTES;
        let Ok(at) = u32::try_from(list.len()) else { return false };
        if !budget.take(cost) {
            return false;
        }
        self.bytes += cost;
        self.list.push(member.into());
        let list = &self.list;
        self.index.insert_unique(hash, at, |at| hasher.hash_one(&*list[*at as usize]));
        true
    }

    /// Moves another's members in; how many there was no room for is the answer.
    pub fn absorb(&mut self, mut other: SetMembers, budget: &Budget) -> usize {
        if self.list.is_empty() {
            self.release(budget);
            *self = other;
            return 0;
        }
        let lost = other.list.iter().filter(|member| !self.insert(member, budget)).count();
        other.release(budget);
        lost
    }

    pub fn list(&self) -> &[Box<[u8]>] {
        &self.list
    }

    pub fn release(&mut self, budget: &Budget) {
        budget.give(self.bytes);
        *self = SetMembers::default();
    }
}
