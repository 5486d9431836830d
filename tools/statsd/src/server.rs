// SPDX-License-Identifier: BSD-2-Clause
//! The running server's state, owned by the main thread, and what happens at a flush.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::backend::carbon::CarbonSender;
use crate::backend::graphite::GraphiteNames;
use crate::backend::prometheus::{PrometheusPage, PrometheusTotals};
use crate::backend::{console, file};
use crate::budget::Budget;
use crate::clock;
use crate::config::{BackendConfig, StatsdConfig, StatsdDialect};
use crate::input::udp::UdpReceiver;
use crate::input::{SharedRepeater, SharedShard};
use crate::log::{Logger, StatsdLevel};
use crate::shard::StatsdOptions;
use crate::store::{MetricStore, Snapshot};
use crate::table::StatsdTable;

/// Names that a shard may remember beyond those of the store before it forgets them all.
const STALE_NAMES: usize = 1024;
/// The most bad lines shown a second, over all inputs.
const SHOWN: usize = 20;

#[derive(Debug)]
pub struct StatsdServer {
    pub config: RefCell<StatsdConfig>,
    pub store: RefCell<MetricStore>,
    pub totals: RefCell<PrometheusTotals>,
    pub healthy: Cell<bool>,
    /// Start, in seconds since 1970.
    pub started: u64,
    pub budget: Arc<Budget>,
    pub receivers: Vec<UdpReceiver>,
    pub connections: SharedShard,
    pub repeater: SharedRepeater,
    pub logger: RefCell<Rc<Logger>>,
    /// Graphite's names, and the sender when there is a host.
    pub graphite: RefCell<Option<(GraphiteNames, Option<Rc<CarbonSender>>)>>,
    key_counts: RefCell<StatsdTable<u64>>,
    messages: RefCell<Messages>,
    numbers: RefCell<Numbers>,
}

#[derive(Debug, Default)]
struct Messages {
    examples: Vec<String>,
    bad: u64,
    dumped: Vec<String>,
    lines: u64,
}

/// Numbers about the server that only it changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    pub flushes: u64,
    pub reloads: u64,
    pub reload_failures: u64,
    /// Time when File was written last.
    pub file_flush: u64,
    /// Time when writing File failed last.
    pub file_exception: u64,
    pub kernel_drops: u64,
}

impl StatsdServer {
    pub fn new(
        config: StatsdConfig,
        budget: Arc<Budget>,
        receivers: Vec<UdpReceiver>,
        connections: SharedShard,
        repeater: SharedRepeater,
        logger: Rc<Logger>,
    ) -> StatsdServer {
        let started = clock::seconds();
        StatsdServer {
            store: RefCell::new(MetricStore::new(Arc::clone(&budget), &config.prefix)),
            totals: RefCell::default(),
            healthy: Cell::new(config.healthy),
            started,
            budget,
            receivers,
            connections,
            repeater,
            logger: RefCell::new(logger),
            graphite: RefCell::default(),
            key_counts: RefCell::default(),
            messages: RefCell::default(),
            numbers: RefCell::new(Numbers { file_flush: started, file_exception: started, ..Numbers::default() }),
            config: RefCell::new(config),
        }
    }

    pub fn log(&self, level: StatsdLevel, text: &str) {
        self.logger.borrow().log(level, text);
    }

    pub fn count(&self, change: impl FnOnce(&mut Numbers)) {
        change(&mut self.numbers.borrow_mut());
    }

    fn shards(&self) -> impl Iterator<Item = &SharedShard> {
        self.receivers.iter().map(|r| &r.shard).chain([&self.connections])
    }

    pub fn collect(&self) {
        let delete = self.config.borrow().delete;
        let mut store = self.store.borrow_mut();
        for shard in self.shards() {
            let known = store.names();
            let collected = {
                let mut shard = shard.lock();
                let forget = delete.any() || shard.names() > known + STALE_NAMES;
                shard.collect(forget)
            };
            let mut messages = self.messages.borrow_mut();
            messages.bad += collected.totals.bad;
            messages.lines += collected.totals.lines;
            let room = SHOWN.saturating_sub(messages.examples.len());
            messages.examples.extend(collected.examples.iter().take(room).cloned());
            messages.dumped.extend(collected.dumped.iter().cloned());
            let mut key_counts = self.key_counts.borrow_mut();
            for (name, lines) in &collected.names {
                match key_counts.find(name) {
                    Some(at) => *key_counts.at(at) += lines,
                    None if key_counts.len() < self.budget.max_names() => {
                        key_counts.insert(Arc::clone(name), *lines);
                    }
                    None => {}
                }
            }
            store.collect(collected, &delete);
        }
    }

    pub fn count_drops(&self) {
        let now: u64 = self.receivers.iter().map(|r| u64::from(sys::udp::drops(&*r.socket).unwrap_or(0))).sum();
        let mut numbers = self.numbers.borrow_mut();
        // The kernel's count wraps at 2^32; over several sockets the difference still comes out modulo that.
        let more = now.wrapping_sub(numbers.kernel_drops) & 0xffff_ffff;
        numbers.kernel_drops += more;
        self.store.borrow_mut().kernel_dropped(more);
    }

    pub fn show_messages(&self) {
        let messages = std::mem::take(&mut *self.messages.borrow_mut());
        for line in &messages.dumped {
            self.log(StatsdLevel::Info, line);
        }
        let unseen = messages.lines.saturating_sub(messages.dumped.len() as u64);
        if !messages.dumped.is_empty() && unseen > 0 {
            self.log(StatsdLevel::Info, &format!("{unseen} more lines are not shown"));
        }
        for text in &messages.examples {
            self.log(StatsdLevel::Debug, text);
        }
        let unseen = messages.bad.saturating_sub(messages.examples.len() as u64);
        if unseen > 0 {
            self.log(StatsdLevel::Debug, &format!("{unseen} more bad lines are not shown"));
        }
    }

    /// Ends the interval and gives it to all backends.
    pub fn flush(&self) {
        self.count_drops();
        self.collect();
        let config = self.config.borrow();
        let now = clock::seconds();
        let snapshot = self.store.borrow_mut().flush(&config.plan, &config.delete, now, config.flush_interval_ms);
        self.totals.borrow_mut().add(&snapshot, config.max_metrics);
        for backend in &config.backends {
            match backend {
                BackendConfig::Graphite => self.to_graphite(&snapshot),
                BackendConfig::Console => {
                    console::write(&snapshot, &config.plan.thresholds, config.dialect, config.pretty);
                }
                BackendConfig::File => self.to_file(&snapshot, &config),
                // These take packets as they come, or are asked.
                BackendConfig::Repeater | BackendConfig::Prometheus => {}
            }
        }
        self.count(|n| n.flushes += 1);
    }

    fn to_graphite(&self, snapshot: &Snapshot) {
        let graphite = self.graphite.borrow();
        let Some((names, sender)) = &*graphite else { return };
        let began = Instant::now();
        let points = names.points(snapshot, || began.elapsed().as_millis() as u64);
        if let Some(sender) = sender {
            sender.push(points);
        }
    }

    fn to_file(&self, snapshot: &Snapshot, config: &StatsdConfig) {
        let Some(path) = &config.file else { return };
        match file::append(path, &file::lines(snapshot, &config.prefix)) {
            Ok(()) => self.count(|n| n.file_flush = clock::seconds()),
            Err(error) => {
                self.count(|n| n.file_exception = clock::seconds());
                self.log(StatsdLevel::Warning, &format!("{}: {error}", path.display()));
            }
        }
    }

    pub fn options(config: &StatsdConfig) -> StatsdOptions {
        StatsdOptions { clean_names: config.clean_names, dump: config.dump, count_names: config.key_flush.is_some() }
    }

    pub fn configure_inputs(&self) {
        let config = self.config.borrow();
        self.budget.set_limits(config.max_metrics, config.max_bytes);
        for shard in self.shards() {
            shard.lock().set_options(StatsdServer::options(&config));
        }
    }

    /// The busiest names since the last time, as node reports them.
    pub fn key_report(&self, percent: f64) -> String {
        self.collect();
        let counts = std::mem::take(&mut *self.key_counts.borrow_mut());
        let mut sorted: Vec<_> = counts.iter().map(|(name, count)| (*count, name.clone())).collect();
        sorted.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let shown = (sorted.len() as f64 * (percent / 100.0)).ceil() as usize;
        let when = crate::date::long(clock::seconds());
        let line = |(count, name): &(u64, crate::table::StatName)| {
            format!("{when} count={count} key={}\n", String::from_utf8_lossy(name))
        };
        sorted.iter().take(shown).map(line).collect()
    }

    /// Numbers about the server: node's first, in its order.
    pub fn stats(&self) -> Vec<(String, f64)> {
        self.count_drops();
        self.collect();
        let store = self.store.borrow();
        let (lifetime, numbers) = (store.lifetime(), *self.numbers.borrow());
        let seen = if lifetime.last_packet == 0 { self.started } else { lifetime.last_packet };
        let mut all: Vec<(&str, f64)> =
            vec![("messages.last_msg_seen", seen as f64), ("messages.bad_lines_seen", lifetime.bad as f64)];
        self.backend_stats(&numbers, &mut all);
        let buffers: usize = self.receivers.iter().map(|r| r.buffer).sum();
        all.extend([
            ("server.packets_received", lifetime.packets as f64),
            ("server.metrics_received", lifetime.lines as f64),
            ("server.metrics_dropped", lifetime.dropped as f64),
            ("server.udp_drops", numbers.kernel_drops as f64),
            ("server.udp_sockets", self.receivers.len() as f64),
            ("server.udp_receive_buffer", buffers as f64),
            ("server.metrics", store.names() as f64),
            ("server.metrics_limit", self.budget.max_names() as f64),
            ("server.memory_held", self.budget.held() as f64),
            ("server.flushes", numbers.flushes as f64),
            ("server.reloads", numbers.reloads as f64),
            ("server.reload_failures", numbers.reload_failures as f64),
        ]);
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn backend_stats(&self, numbers: &Numbers, all: &mut Vec<(&'static str, f64)>) {
        let config = self.config.borrow();
        for backend in &config.backends {
            match backend {
                BackendConfig::Graphite => self.graphite_stats(all),
                BackendConfig::Console if config.dialect == StatsdDialect::Node => {
                    all.extend([
                        ("console.lastFlush", self.started as f64),
                        ("console.lastException", self.started as f64),
                    ]);
                }
                BackendConfig::File => all.extend([
                    ("file.last_flush", numbers.file_flush as f64),
                    ("file.last_exception", numbers.file_exception as f64),
                ]),
                BackendConfig::Repeater => {
                    if let Some(repeater) = &*self.repeater.lock() {
                        all.extend([
                            ("repeater.sent", repeater.sent.load(Ordering::Relaxed) as f64),
                            ("repeater.dropped", repeater.dropped.load(Ordering::Relaxed) as f64),
                        ]);
                    }
                }
                BackendConfig::Console | BackendConfig::Prometheus => {}
            }
        }
    }

    fn graphite_stats(&self, all: &mut Vec<(&'static str, f64)>) {
        let graphite = self.graphite.borrow();
        let Some((_, Some(sender))) = &*graphite else { return };
        let stats = sender.stats();
        all.extend([
            ("graphite.last_flush", stats.last_flush as f64),
            ("graphite.last_exception", stats.last_exception as f64),
            ("graphite.flush_time", stats.flush_time as f64),
            ("graphite.flush_length", stats.flush_length as f64),
            ("graphite.failures", sender.failures() as f64),
            ("graphite.waiting_points", sender.waiting() as f64),
            ("graphite.dropped_points", sender.dropped() as f64),
        ]);
    }

    pub fn page(&self) -> Vec<u8> {
        let stats = self.stats();
        let mut page = PrometheusPage::default();
        page.fill(&self.store.borrow(), &self.totals.borrow());
        for (name, value) in stats {
            let counts =
                ["_received", "_dropped", "_drops", "_seen", ".sent", ".dropped", "failures", "reloads", "flushes"]
                    .iter()
                    .any(|tail| name.ends_with(tail) && !name.contains("last_"));
            page.own(&format!("lacquer_statsd_{name}"), counts, value);
        }
        page.text()
    }
}
