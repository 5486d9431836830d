// SPDX-License-Identifier: BSD-2-Clause
//! All metrics between two flushes, and what a flush hands to the backends. Only the main thread has one.

use std::sync::Arc;
use std::time::Instant;

use crate::arith::{self, Figures, PercentilePlan};
use crate::budget::{Budget, NAME_BYTES};
use crate::sample::{SetMembers, TimerSample};
use crate::shard::{GaugeOp, ShardSnapshot, ShardTotals, changed};
use crate::table::{StatName, StatsdTable};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delete {
    /// Counters go instead of becoming 0 (those about the server stay).
    pub counters: bool,
    /// Timers go instead of being empty.
    pub timers: bool,
    /// Sets go instead of being empty.
    pub sets: bool,
    /// Gauges go when they weren't sent for this many flushes.
    pub gauges: Option<u32>,
}

impl Delete {
    pub fn any(&self) -> bool {
        self.counters || self.timers || self.sets || self.gauges.is_some()
    }
}

#[derive(Clone, Debug)]
pub struct OwnNames {
    bad_lines: StatName,
    packets: StatName,
    metrics: StatName,
    lag: StatName,
    dropped: StatName,
    kernel_drops: StatName,
}

impl OwnNames {
    /// All begin with `prefix.`.
    pub fn new(prefix: &str) -> OwnNames {
        let name = |tail: &str| StatName::from(format!("{prefix}.{tail}").into_bytes());
        OwnNames {
            bad_lines: name("bad_lines_seen"),
            packets: name("packets_received"),
            metrics: name("metrics_received"),
            lag: name("timestamp_lag"),
            dropped: name("metrics_dropped"),
            kernel_drops: name("udp_drops"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Gauge {
    pub value: f64,
    ttl: Option<u32>,
}

#[derive(Debug)]
pub struct MetricStore {
    budget: Arc<Budget>,
    own: OwnNames,
    /// Sums of this interval.
    pub counters: StatsdTable<f64>,
    pub timers: StatsdTable<TimerSample>,
    pub gauges: StatsdTable<Gauge>,
    pub sets: StatsdTable<SetMembers>,
    last_flush: Option<u64>,
    lifetime: ShardTotals,
}

#[derive(Clone, Debug)]
pub struct TimerFlush {
    pub name: StatName,
    pub values: Vec<f64>,
    pub figures: Figures,
}

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Time in seconds since 1970.
    pub timestamp: u64,
    /// Name, sum, sum per second.
    pub counters: Vec<(StatName, f64, f64)>,
    pub timers: Vec<TimerFlush>,
    pub gauges: Vec<(StatName, f64)>,
    pub sets: Vec<(StatName, Vec<Box<[u8]>>)>,
    pub processing_ms: u64,
}

impl Snapshot {
    pub fn len(&self) -> usize {
        self.counters.len() + self.timers.len() + self.gauges.len() + self.sets.len()
    }
}

impl MetricStore {
    pub fn new(budget: Arc<Budget>, prefix: &str) -> MetricStore {
        let mut store = MetricStore {
            budget,
            own: OwnNames::new(prefix),
            counters: StatsdTable::default(),
            timers: StatsdTable::default(),
            gauges: StatsdTable::default(),
            sets: StatsdTable::default(),
            last_flush: None,
            lifetime: ShardTotals::default(),
        };
        store.start_own();
        store
    }

    /// The prefix of the server's own metrics changed.
    pub fn set_prefix(&mut self, prefix: &str) {
        self.own = OwnNames::new(prefix);
        self.start_own();
    }

    fn start_own(&mut self) {
        for name in [self.own.bad_lines.clone(), self.own.packets.clone(), self.own.metrics.clone()] {
            self.add_to_counter(&name, 0.0);
        }
    }

    /// Takes in what shards gathered. Gauges of several shards are applied shard by shard.
    pub fn collect(&mut self, from: ShardSnapshot, delete: &Delete) {
        let totals = from.totals;
        let mut lost = 0;
        for (name, sum) in from.counters {
            lost += u64::from(!self.add_to_counter(&name, sum));
        }
        for (name, timer) in from.timers {
            lost += self.take_timer(name, timer) as u64;
        }
        for (name, op) in from.gauges {
            lost += u64::from(!self.take_gauge(name, op, delete));
        }
        for (name, members) in from.sets {
            lost += self.take_set(name, members) as u64;
        }
        self.count_own(totals, lost);
        self.budget.set_names(self.names());
    }

    fn count_own(&mut self, totals: ShardTotals, lost: u64) {
        self.lifetime.packets += totals.packets;
        self.lifetime.lines += totals.lines;
        self.lifetime.bad += totals.bad;
        self.lifetime.dropped += totals.dropped + lost;
        self.lifetime.last_packet = self.lifetime.last_packet.max(totals.last_packet);
        let (bad, packets, metrics) = (self.own.bad_lines.clone(), self.own.packets.clone(), self.own.metrics.clone());
        self.add_to_counter(&bad, totals.bad as f64);
        self.add_to_counter(&packets, totals.packets as f64);
        self.add_to_counter(&metrics, totals.lines as f64);
        // Node has no such counter; it appears with the first loss, so that nothing changes where nothing is lost.
        if totals.dropped + lost > 0 {
            let name = self.own.dropped.clone();
            self.insert_or_add(&name, (totals.dropped + lost) as f64);
        }
    }

    /// The kernel dropped so many packets more, for want of room in a socket's buffer.
    pub fn kernel_dropped(&mut self, more: u64) {
        if more > 0 {
            let name = self.own.kernel_drops.clone();
            self.insert_or_add(&name, more as f64);
        }
    }

    pub fn lifetime(&self) -> ShardTotals {
        self.lifetime
    }

    pub fn names(&self) -> usize {
        self.counters.len() + self.timers.len() + self.gauges.len() + self.sets.len()
    }

    /// Adds to a counter; false when there is no room for its name.
    fn add_to_counter(&mut self, name: &StatName, by: f64) -> bool {
        match self.counters.find(name) {
            Some(at) => {
                let sum = self.counters.at(at);
                *sum = changed(*sum, by);
            }
            None => {
                let own = [&self.own.bad_lines, &self.own.packets, &self.own.metrics].contains(&name);
                if !own && !self.has_room() {
                    return false;
                }
                self.insert_or_add(name, by);
            }
        }
        true
    }

    /// The server's own names need no room.
    fn insert_or_add(&mut self, name: &StatName, by: f64) {
        match self.counters.find(name) {
            Some(at) => *self.counters.at(at) += by,
            None => {
                self.budget.take_over(cost(name));
                self.counters.insert(Arc::clone(name), by);
            }
        }
    }

    fn has_room(&self) -> bool {
        self.names() < self.budget.max_names()
    }

    fn take_timer(&mut self, name: StatName, mut timer: TimerSample) -> usize {
        match self.timers.find(&name) {
            Some(at) => self.timers.at(at).absorb(timer, &self.budget),
            None if self.has_room() => {
                self.budget.take_over(cost(&name));
                self.timers.insert(name, timer);
                0
            }
            None => {
                let lost = timer.values.len();
                timer.release(&self.budget);
                lost
            }
        }
    }

    fn take_gauge(&mut self, name: StatName, op: GaugeOp, delete: &Delete) -> bool {
        let at = match self.gauges.find(&name) {
            Some(at) => at,
            None if self.has_room() => {
                self.budget.take_over(cost(&name));
                self.gauges.insert(name, Gauge { value: 0.0, ttl: None })
            }
            None => return false,
        };
        let gauge = self.gauges.at(at);
        match op {
            GaugeOp::Set(value) => gauge.value = value,
            GaugeOp::Change(list) => gauge.value = list.into_iter().fold(gauge.value, changed),
        }
        if delete.gauges.is_some() {
            gauge.ttl = delete.gauges;
        }
        true
    }

    fn take_set(&mut self, name: StatName, mut members: SetMembers) -> usize {
        match self.sets.find(&name) {
            Some(at) => self.sets.at(at).absorb(members, &self.budget),
            None if self.has_room() => {
                self.budget.take_over(cost(&name));
                self.sets.insert(name, members);
                0
            }
            None => {
                let lost = members.list().len();
                members.release(&self.budget);
                lost
            }
        }
    }

    /// Ends the interval at `timestamp` (seconds since 1970): works everything out, then resets or deletes.
    pub fn flush(&mut self, plan: &PercentilePlan, delete: &Delete, timestamp: u64, interval_ms: f64) -> Snapshot {
        let began = Instant::now();
        if let Some(last) = self.last_flush.replace(timestamp) {
            self.set_lag(timestamp as f64 - last as f64 - interval_ms / 1000.0);
        }
        let seconds = interval_ms / 1000.0;
        let mut snapshot = Snapshot { timestamp, ..Snapshot::default() };
        for at in self.counters.in_script_order() {
            let (name, sum) = self.counters.entry(at);
            snapshot.counters.push((Arc::clone(name), *sum, *sum / seconds));
        }
        for at in self.timers.in_script_order() {
            let (name, timer) = self.timers.entry(at);
            self.budget.give(timer.values.capacity() as u64 * 8);
            let TimerSample { mut values, events } = std::mem::take(timer);
            values.sort_unstable_by(f64::total_cmp);
            let figures = arith::figures(plan, name, &values, events, seconds);
            snapshot.timers.push(TimerFlush { name: Arc::clone(name), values, figures });
        }
        for at in self.gauges.in_script_order() {
            let (name, gauge) = self.gauges.entry(at);
            snapshot.gauges.push((Arc::clone(name), gauge.value));
        }
        for at in self.sets.in_script_order() {
            let (name, members) = self.sets.entry(at);
            snapshot.sets.push((Arc::clone(name), members.list().to_vec()));
            members.release(&self.budget);
        }
        self.end_interval(delete);
        snapshot.processing_ms = began.elapsed().as_millis() as u64;
        snapshot
    }

    fn set_lag(&mut self, lag: f64) {
        let name = Arc::clone(&self.own.lag);
        match self.gauges.find(&name) {
            Some(at) => self.gauges.at(at).value = lag,
            None => {
                self.budget.take_over(cost(&name));
                self.gauges.insert(name, Gauge { value: lag, ttl: None });
            }
        }
    }

    fn end_interval(&mut self, delete: &Delete) {
        let own = |name: &[u8]| {
            let holds = |part: &str| memchr::memmem::find(name, part.as_bytes()).is_some();
            holds("packets_received") || holds("metrics_received") || holds("bad_lines_seen")
        };
        if delete.counters {
            remove(&mut self.counters, &self.budget, |name, _| !own(name));
        }
        self.counters.iter_mut().for_each(|(_, sum)| *sum = 0.0);
        if delete.timers {
            remove(&mut self.timers, &self.budget, |_, _| true);
        }
        if delete.sets {
            remove(&mut self.sets, &self.budget, |_, _| true);
        }
        if delete.gauges.is_some() {
            self.gauges.iter_mut().for_each(|(_, gauge)| gauge.ttl = gauge.ttl.map(|ttl| ttl.saturating_sub(1)));
            remove(&mut self.gauges, &self.budget, |_, gauge| gauge.ttl == Some(0));
        }
        self.budget.set_names(self.names());
    }

    pub fn delete_counter(&mut self, name: &[u8]) -> bool {
        self.gave_back(name, |store| store.counters.remove(name).is_some())
    }

    pub fn delete_timer(&mut self, name: &[u8]) -> bool {
        self.gave_back(name, |store| match store.timers.remove(name) {
            Some(mut timer) => {
                timer.release(&store.budget);
                true
            }
            None => false,
        })
    }

    pub fn delete_gauge(&mut self, name: &[u8]) -> bool {
        self.gave_back(name, |store| store.gauges.remove(name).is_some())
    }

    fn gave_back(&mut self, name: &[u8], remove: impl FnOnce(&mut MetricStore) -> bool) -> bool {
        let gone = remove(self);
        if gone {
            self.budget.give(cost(name));
            self.budget.set_names(self.names());
        }
        gone
    }
}

fn cost(name: &[u8]) -> u64 {
    name.len() as u64 + NAME_BYTES
}

fn remove<T>(table: &mut StatsdTable<T>, budget: &Budget, goes: impl Fn(&[u8], &T) -> bool) {
    let going: Vec<StatName> =
        table.iter().filter(|(name, value)| goes(name, value)).map(|(name, _)| name.clone()).collect();
    for name in going {
        table.remove(&name);
        budget.give(cost(&name));
    }
    table.compact();
}

#[cfg(test)]
mod tests;
