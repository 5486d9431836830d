// SPDX-License-Identifier: BSD-2-Clause
//! The metrics as a page for Prometheus (text format 0.0.4): counters that never go back to 0 at a flush, gauges, timers
//! as summaries in their own unit, sets as gauges of the last interval. Tags become labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::number;
use crate::store::{MetricStore, Snapshot};
use crate::table::{StatName, StatsdTable};

/// Totals of all flushes, kept because a flush forgets them.
#[derive(Debug, Default)]
pub struct PrometheusTotals {
    counters: StatsdTable<f64>,
    timers: StatsdTable<TimerTotal>,
    sets: StatsdTable<usize>,
}

#[derive(Clone, Debug, Default)]
struct TimerTotal {
    events: f64,
    sum: f64,
    /// Quantile and value at the last flush that had values.
    quantiles: Vec<(f64, f64)>,
}

fn slot<'a, T: Default>(table: &'a mut StatsdTable<T>, name: &StatName, limit: usize) -> Option<&'a mut T> {
    let at = match table.find(name) {
        Some(at) => at,
        None if table.len() < limit => table.insert(Arc::clone(name), T::default()),
        None => return None,
    };
    Some(table.at(at))
}

impl PrometheusTotals {
    /// Adds a flush. At most `limit` names of a kind are kept.
    pub fn add(&mut self, flush: &Snapshot, limit: usize) {
        for (name, sum, _) in &flush.counters {
            if let Some(total) = slot(&mut self.counters, name, limit) {
                *total += sum;
            }
        }
        for timer in &flush.timers {
            let Some(total) = slot(&mut self.timers, &timer.name, limit) else { continue };
            if timer.values.is_empty() {
                continue;
            }
            total.events += timer.figures.plain.iter().find(|(n, _)| &**n == "count").map_or(0.0, |(_, v)| *v);
            total.sum += timer.values.iter().sum::<f64>();
            total.quantiles = timer.figures.plain.iter().filter_map(|(n, v)| Some((quantile(n)?, *v))).collect();
        }
        for (name, members) in &flush.sets {
            if let Some(size) = slot(&mut self.sets, name, limit) {
                *size = members.len();
            }
        }
    }
}

impl PrometheusTotals {
    /// All metrics as lines of type, name and value with tabs between them: counters since the start, gauges now, timers
    /// as their number of events and their sum.
    pub fn lines(&self, store: &MetricStore) -> Vec<u8> {
        let mut all: BTreeMap<(u8, Vec<u8>), f64> = BTreeMap::new();
        let mut add = |kind: u8, name: &[u8], tail: &str, value: f64| {
            *all.entry((kind, [name, tail.as_bytes()].concat())).or_insert(0.0) += value;
        };
        self.counters.iter().for_each(|(name, total)| add(b'c', name, "", *total));
        store.counters.iter().for_each(|(name, sum)| add(b'c', name, "", *sum));
        store.gauges.iter().for_each(|(name, gauge)| add(b'g', name, "", gauge.value));
        self.timers.iter().for_each(|(name, timer)| {
            add(b't', name, ".count", timer.events);
            add(b't', name, ".sum", timer.sum);
        });
        store.timers.iter().for_each(|(name, timer)| {
            add(b't', name, ".count", timer.events);
            add(b't', name, ".sum", timer.values.iter().sum());
        });
        let mut out = Vec::new();
        for ((kind, name), value) in all {
            out.extend_from_slice(&[kind, b'\t']);
            // Names that aren't cleaned may hold anything but a newline.
            out.extend(name.iter().map(|b| if b.is_ascii_control() { b'?' } else { *b }));
            out.push(b'\t');
            number::write(&mut out, value);
            out.push(b'\n');
        }
        out
    }
}

/// `upper_90` is 0.9, `lower_top10` too, `upper` is 1 and `lower` 0.
fn quantile(figure: &str) -> Option<f64> {
    let percent = |text: &str| text.replace('_', ".").parse::<f64>().ok();
    match figure {
        "upper" => Some(1.0),
        "lower" => Some(0.0),
        "median" => Some(0.5),
        _ => match figure.strip_prefix("upper_") {
            Some(text) => percent(text).map(|p| p / 100.0),
            None => percent(figure.strip_prefix("lower_top")?).map(|p| (100.0 - p) / 100.0),
        },
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Counter,
    Gauge,
    Summary,
}

/// Lines of one name: what is added to the name, and labels, to a value.
type Family = BTreeMap<(&'static str, String), f64>;

/// A page in the making: each name once, with all its lines.
#[derive(Debug, Default)]
pub struct PrometheusPage {
    families: BTreeMap<String, (Option<Kind>, Family)>,
}

impl PrometheusPage {
    pub fn fill(&mut self, store: &MetricStore, totals: &PrometheusTotals) {
        for (name, total) in totals.counters.iter() {
            self.add(Kind::Counter, name, "", None, *total);
        }
        for (name, sum) in store.counters.iter() {
            self.add(Kind::Counter, name, "", None, *sum);
        }
        for (name, gauge) in store.gauges.iter() {
            self.add(Kind::Gauge, name, "", None, gauge.value);
        }
        for (name, timer) in totals.timers.iter() {
            for (quantile, value) in &timer.quantiles {
                self.add(Kind::Summary, name, "", Some(*quantile), *value);
            }
            self.add(Kind::Summary, name, "_sum", None, timer.sum);
            self.add(Kind::Summary, name, "_count", None, timer.events);
        }
        for (name, timer) in store.timers.iter() {
            self.add(Kind::Summary, name, "_sum", None, timer.values.iter().sum());
            self.add(Kind::Summary, name, "_count", None, timer.events);
        }
        for (name, size) in totals.sets.iter() {
            self.add(Kind::Gauge, name, "", None, *size as f64);
        }
    }

    pub fn own(&mut self, name: &str, counts: bool, value: f64) {
        self.add(if counts { Kind::Counter } else { Kind::Gauge }, name.as_bytes(), "", None, value);
    }

    fn add(&mut self, kind: Kind, name: &[u8], tail: &'static str, quantile: Option<f64>, value: f64) {
        let (stem, labels) = split(name, quantile);
        // A name of two kinds: the later kinds say so in the name.
        let taken = |page: &PrometheusPage, name: &str| {
            page.families.get(name).is_some_and(|(k, _)| k.is_some_and(|k| k != kind))
        };
        let mut full = stem;
        while taken(self, &full) {
            full.push_str(match kind {
                Kind::Counter => "_counter",
                Kind::Gauge => "_gauge",
                Kind::Summary => "_timer",
            });
        }
        let (known, family) = self.families.entry(full).or_default();
        *known = Some(kind);
        let line = family.entry((tail, labels)).or_insert(0.0);
        // Two names may become one; a gauge's or a quantile's value can't be added up.
        *line = if kind == Kind::Gauge || quantile.is_some() { value } else { *line + value };
    }

    pub fn text(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, (kind, family)) in &self.families {
            let kind = match kind {
                Some(Kind::Counter) => "counter",
                Some(Kind::Summary) => "summary",
                Some(Kind::Gauge) | None => "gauge",
            };
            out.extend_from_slice(format!("# TYPE {name} {kind}\n").as_bytes());
            for ((tail, labels), value) in family {
                out.extend_from_slice(format!("{name}{tail}{labels} ").as_bytes());
                write_value(&mut out, *value);
                out.push(b'\n');
            }
        }
        out
    }
}

fn write_value(out: &mut Vec<u8>, value: f64) {
    match value {
        v if v == f64::INFINITY => out.extend_from_slice(b"+Inf"),
        v if v == f64::NEG_INFINITY => out.extend_from_slice(b"-Inf"),
        v => number::write(out, v),
    }
}

/// A Prometheus name, and the tags as `{k="v"}`.
fn split(name: &[u8], quantile: Option<f64>) -> (String, String) {
    let text = String::from_utf8_lossy(name);
    let mut parts = text.split(';');
    let mut stem = identifier(parts.next().unwrap_or_default());
    if stem.is_empty() {
        stem.push('_');
    }
    // Sorted, and each name once.
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    for tag in parts {
        let (key, value) = tag.split_once('=').unwrap_or((tag, "true"));
        let key = identifier(key).replace(':', "_");
        if !key.is_empty() && key != "quantile" {
            labels.insert(key, value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"));
        }
    }
    if let Some(quantile) = quantile {
        labels.insert("quantile".to_owned(), number::show(quantile));
    }
    if labels.is_empty() {
        return (stem, String::new());
    }
    let list: Vec<_> = labels.iter().map(|(k, v)| format!("{k}=\"{v}\"")).collect();
    (stem, format!("{{{}}}", list.join(",")))
}

fn identifier(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 1);
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        out.push('_');
    }
    out.extend(text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == ':' { c } else { '_' }));
    out
}
