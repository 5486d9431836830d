// SPDX-License-Identifier: BSD-2-Clause
//! What one input has gathered since the store last collected it. Each thread that receives has its own and takes its
//! lock once per batch of packets; only the store's collecting ever competes for it.

use std::sync::Arc;

use crate::budget::{AtFlush, Budget, NAME_BYTES};
use crate::line::{PacketParser, PacketSample, PacketSink};
use crate::sample::{SetMembers, TimerSample};
use crate::table::{StatName, StatsdTable};

/// Changes of a gauge that are kept apart, so that they are added in the order node would add them; further ones are
/// folded into the last.
const CHANGES: usize = 256;
/// Bad lines that are shown between two collections; the others are counted.
const EXAMPLES: usize = 20;
/// Lines that `dumpMessages` shows between two collections.
const DUMPED: usize = 10_000;
/// A shown line's longest part.
const EXAMPLE_BYTES: usize = 400;

#[derive(Clone, Debug, PartialEq)]
pub enum GaugeOp {
    /// Set to a value; changes after that are worked in.
    Set(f64),
    /// Changed from whatever it is.
    Change(Vec<f64>),
}

/// A value that changed. JavaScript takes 0 and NaN for "no value".
pub fn changed(value: f64, by: f64) -> f64 {
    if value == 0.0 || value.is_nan() { by } else { value + by }
}

impl GaugeOp {
    fn change(&mut self, by: f64) {
        match self {
            GaugeOp::Set(value) => *value = changed(*value, by),
            GaugeOp::Change(list) if list.len() < CHANGES => list.push(by),
            GaugeOp::Change(list) => {
                if let Some(last) = list.last_mut() {
                    *last += by;
                }
            }
        }
    }
}

/// Names with something to collect: a table whose names outlive the interval, and the slots in use in this one.
#[derive(Debug)]
struct ActiveNames<T> {
    table: StatsdTable<Option<T>>,
    touched: Vec<u32>,
    name_bytes: u64,
}

impl<T> Default for ActiveNames<T> {
    fn default() -> Self {
        ActiveNames { table: StatsdTable::default(), touched: Vec::new(), name_bytes: 0 }
    }
}

impl<T: AtFlush> ActiveNames<T> {
    /// The value of `name`, made by `fresh` if this is its first in the interval; None when no name more fits.
    #[inline]
    fn touch(
        &mut self,
        name: &[u8],
        budget: &Budget,
        new_names: &mut usize,
        fresh: impl FnOnce() -> T,
    ) -> Option<&mut T> {
        let at = match self.table.find(name) {
            Some(at) => at,
            None => self.add(name, budget, new_names)?,
        };
        let value = self.table.at(at);
        if value.is_none() {
            self.touched.push(at);
        }
        Some(value.get_or_insert_with(fresh))
    }

    #[cold]
    fn add(&mut self, name: &[u8], budget: &Budget, new_names: &mut usize) -> Option<u32> {
        let cost = name.len() as u64 + NAME_BYTES + T::BYTES;
        if self.table.len() >= budget.max_names() || !budget.has_names(*new_names + 1) || !budget.take(cost) {
            return None;
        }
        self.name_bytes += cost;
        *new_names += 1;
        Some(self.table.insert(name.into(), None))
    }

    fn collect(&mut self) -> Vec<(StatName, T)> {
        let taken = self.touched.drain(..).filter_map(|at| {
            let (name, value) = self.table.entry(at);
            Some((Arc::clone(name), value.take()?))
        });
        taken.collect()
    }

    fn forget(&mut self, budget: &Budget) {
        debug_assert!(self.touched.is_empty(), "collected first");
        budget.give(std::mem::take(&mut self.name_bytes));
        self.table = StatsdTable::default();
    }
}

#[derive(Debug, Default)]
pub struct ShardSnapshot {
    pub counters: Vec<(StatName, f64)>,
    pub timers: Vec<(StatName, TimerSample)>,
    pub gauges: Vec<(StatName, GaugeOp)>,
    pub sets: Vec<(StatName, SetMembers)>,
    /// Lines by name, when they are counted.
    pub names: Vec<(StatName, u64)>,
    pub totals: ShardTotals,
    pub examples: Vec<String>,
    pub dumped: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardTotals {
    pub packets: u64,
    /// Lines that aren't empty.
    pub lines: u64,
    pub bad: u64,
    pub dropped: u64,
    /// When the last packet came, seconds since 1970; 0 for never.
    pub last_packet: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsdOptions {
    pub clean_names: bool,
    pub dump: bool,
    pub count_names: bool,
}

#[derive(Debug)]
pub struct StatsdShard {
    parser: PacketParser,
    inner: Inner,
}

#[derive(Debug)]
struct Inner {
    budget: Arc<Budget>,
    options: StatsdOptions,
    counters: ActiveNames<f64>,
    timers: ActiveNames<TimerSample>,
    gauges: ActiveNames<GaugeOp>,
    sets: ActiveNames<SetMembers>,
    names: ActiveNames<u64>,
    new_names: usize,
    totals: ShardTotals,
    examples: Vec<String>,
    dumped: Vec<String>,
}

impl StatsdShard {
    pub fn new(budget: Arc<Budget>, options: StatsdOptions) -> StatsdShard {
        let inner = Inner {
            budget,
            options,
            counters: ActiveNames::default(),
            timers: ActiveNames::default(),
            gauges: ActiveNames::default(),
            sets: ActiveNames::default(),
            names: ActiveNames::default(),
            new_names: 0,
            totals: ShardTotals::default(),
            examples: Vec::new(),
            dumped: Vec::new(),
        };
        StatsdShard { parser: PacketParser::default(), inner }
    }

    pub fn set_options(&mut self, options: StatsdOptions) {
        self.inner.options = options;
    }

    pub fn packet(&mut self, packet: &[u8]) {
        self.inner.totals.packets += 1;
        self.parser.packet(packet, self.inner.options.clean_names, &mut self.inner);
    }

    /// When the packets just taken in came, seconds since 1970.
    pub fn seen(&mut self, now: u64) {
        self.inner.totals.last_packet = now;
    }

    pub fn overlong(&mut self, line: &[u8]) {
        self.inner.totals.lines += 1;
        self.inner.bad(b"", line);
    }

    /// Takes everything out. With `forget`, names are forgotten too, so that idle ones cost nothing.
    pub fn collect(&mut self, forget: bool) -> ShardSnapshot {
        let inner = &mut self.inner;
        let last_packet = inner.totals.last_packet;
        let collected = ShardSnapshot {
            counters: inner.counters.collect(),
            timers: inner.timers.collect(),
            gauges: inner.gauges.collect(),
            sets: inner.sets.collect(),
            names: inner.names.collect(),
            totals: std::mem::replace(&mut inner.totals, ShardTotals { last_packet, ..ShardTotals::default() }),
            examples: std::mem::take(&mut inner.examples),
            dumped: std::mem::take(&mut inner.dumped),
        };
        inner.new_names = 0;
        if forget {
            inner.counters.forget(&inner.budget);
            inner.timers.forget(&inner.budget);
            inner.gauges.forget(&inner.budget);
            inner.sets.forget(&inner.budget);
            inner.names.forget(&inner.budget);
        }
        collected
    }

    pub fn names(&self) -> usize {
        let inner = &self.inner;
        inner.counters.table.len() + inner.timers.table.len() + inner.gauges.table.len() + inner.sets.table.len()
    }
}

impl PacketSink for Inner {
    #[inline]
    fn line(&mut self, name: &[u8], line: &[u8]) {
        self.totals.lines += 1;
        if self.options.count_names {
            let mut uncounted = 0;
            if let Some(count) = self.names.touch(name, &self.budget, &mut uncounted, || 0) {
                *count += 1;
            }
        }
        if self.options.dump && self.dumped.len() < DUMPED {
            self.dumped.push(shown(line));
        }
    }

    #[inline]
    fn sample(&mut self, name: &[u8], sample: PacketSample<'_>) {
        let (budget, new) = (&*self.budget, &mut self.new_names);
        let kept = match sample {
            PacketSample::Count(n) => {
                self.counters.touch(name, budget, new, || 0.0).map(|sum| *sum = changed(*sum, n)).is_some()
            }
            PacketSample::Time(n, events) => self
                .timers
                .touch(name, budget, new, TimerSample::default)
                .is_some_and(|timer| timer.push(n, events, budget)),
            PacketSample::Gauge(n) => {
                self.gauges.touch(name, budget, new, || GaugeOp::Set(n)).map(|op| *op = GaugeOp::Set(n)).is_some()
            }
            PacketSample::Change(by) => {
                let fresh = || GaugeOp::Change(Vec::new());
                self.gauges.touch(name, budget, new, fresh).map(|op| op.change(by)).is_some()
            }
            PacketSample::Member(member) => {
                let members = self.sets.touch(name, budget, new, SetMembers::default);
                members.is_some_and(|members| members.insert(member, budget))
            }
        };
        self.totals.dropped += u64::from(!kept);
    }

    #[cold]
    fn bad(&mut self, sample: &[u8], line: &[u8]) {
        self.totals.bad += 1;
        if self.examples.len() < EXAMPLES {
            let fields = shown(sample).replace('|', ",");
            self.examples.push(format!("Bad line: {fields} in msg \"{}\"", shown(line)));
        }
    }
}

/// A line as text for a log: cut, and without control characters.
fn shown(line: &[u8]) -> String {
    let cut = &line[..line.len().min(EXAMPLE_BYTES)];
    String::from_utf8_lossy(cut).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
