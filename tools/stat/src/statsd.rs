// SPDX-License-Identifier: BSD-2-Clause
//! `--statsd`: the counters to a statsd, by interval. Counters go as what was added since the last time, gauges as they are.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use logq::tool::ToolFailure;
use shm::reader::{CounterReader, CounterValue};
use statsd_client::{DATAGRAM_BYTES, SampleBatch, StatsdClient, StatsdTarget};
use sys::fd::Interest;
use sys::signal::{SIGINT, SIGTERM, Signals};
use tables::counters::CounterKind;
use toolkit::print;

use crate::filter::StatFilter;

const INTERVAL: Duration = Duration::from_secs(10);
const PREFIX: &str = "varnish.";

#[derive(Clone, Debug)]
pub struct Statsd {
    pub target: StatsdTarget,
    pub interval: Duration,
    pub prefix: String,
}

impl Statsd {
    /// Settings for a target's text.
    ///
    /// # Errors
    /// It is none.
    pub fn new(target: &str) -> Result<Statsd, String> {
        let target = target.parse().map_err(|error| format!("--statsd={target}: {error}"))?;
        Ok(Statsd { target, interval: INTERVAL, prefix: PREFIX.to_owned() })
    }

    /// Sends until a signal ends it.
    ///
    /// # Errors
    /// The statsd's address can't be found.
    pub fn run(self, reader: &mut CounterReader, filter: &StatFilter) -> Result<(), ToolFailure> {
        let failed = |error: io::Error| ToolFailure::new(format!("{}: {error}", self.target));
        let mut signals = Signals::new(&[SIGINT, SIGTERM]).map_err(failed)?;
        let client = StatsdClient::connect(&self.target).map_err(failed)?;
        let mut batch = SampleBatch::new(&self.prefix, "", DATAGRAM_BYTES);
        let mut last = Last::default();
        let mut next = Instant::now();
        let mut is_told = false;
        loop {
            match reader.read() {
                Ok(readings) => {
                    let shown = readings.iter().filter(|reading| filter.shows(&reading.full_name()));
                    last.take(shown, &mut |sample| add(&mut batch, &client, &sample));
                    client.send(&mut batch);
                    is_told = false;
                }
                // It may come back.
                Err(error) if !std::mem::replace(&mut is_told, true) => print::err(format_args!("{error}\n")),
                Err(_) => {}
            }
            next = (next + self.interval).max(Instant::now());
            let pause = next.saturating_duration_since(Instant::now());
            let _ = sys::fd::wait(&signals, Interest::Read, Some(pause));
            if signals.take().is_ok_and(|signal| signal.is_some()) {
                return Ok(());
            }
        }
    }
}

/// The value that is sent for a counter.
#[derive(Debug, PartialEq)]
enum Sample {
    Count(String, i64),
    Gauge(String, f64),
}

fn add(batch: &mut SampleBatch, client: &StatsdClient, sample: &Sample) {
    match sample {
        Sample::Count(name, count) => batch.count(name.as_bytes(), *count),
        Sample::Gauge(name, value) => batch.gauge(name.as_bytes(), *value),
    }
    if batch.is_large() {
        client.send(batch);
    }
}

/// The counters as they were at the last look.
#[derive(Debug, Default)]
struct Last {
    values: HashMap<String, u64>,
}

impl Last {
    fn take<'a>(&mut self, readings: impl Iterator<Item = &'a CounterValue>, send: &mut dyn FnMut(Sample)) {
        let before = std::mem::take(&mut self.values);
        for reading in readings {
            let name = reading.full_name();
            match reading.about.kind {
                CounterKind::Counter => {
                    // At the first look nothing is known of before; a new worker begins at 0.
                    let added = before.get(&name).map(|was| reading.value.checked_sub(*was).unwrap_or(reading.value));
                    if let Some(added) = added.filter(|added| *added > 0) {
                        send(Sample::Count(name.clone(), i64::try_from(added).unwrap_or(i64::MAX)));
                    }
                    self.values.insert(name, reading.value);
                }
                CounterKind::Gauge => send(Sample::Gauge(name, reading.signed().max(0) as f64)),
                // Of the looks at a backend's health the last one.
                CounterKind::Bitmap => send(Sample::Gauge(name, (reading.value & 1) as f64)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use shm::reader::CounterDoc;
    use tables::counters::{CounterFormat, CounterLevel};

    fn reading(name: &str, kind: CounterKind, value: u64) -> CounterValue {
        let about = CounterDoc::new(name, kind, CounterLevel::Info, CounterFormat::Integer);
        CounterValue { set: "MAIN".into(), about: Arc::new(about), value }
    }

    fn taken(last: &mut Last, readings: &[CounterValue]) -> Vec<Sample> {
        let mut samples = Vec::new();
        last.take(readings.iter(), &mut |sample| samples.push(sample));
        samples
    }

    #[test]
    fn counters_are_sent_as_changes() {
        let mut last = Last::default();
        let hits = |value| [reading("cache_hit", CounterKind::Counter, value)];
        assert_eq!(taken(&mut last, &hits(7)), []);
        assert_eq!(taken(&mut last, &hits(9)), [Sample::Count("MAIN.cache_hit".into(), 2)]);
        assert_eq!(taken(&mut last, &hits(9)), []);
        // A new worker.
        assert_eq!(taken(&mut last, &hits(3)), [Sample::Count("MAIN.cache_hit".into(), 3)]);
    }

    #[test]
    fn gauges_are_sent_as_they_are() {
        let readings = [
            reading("threads", CounterKind::Gauge, 4),
            reading("n_object", CounterKind::Gauge, u64::MAX),
            reading("happy", CounterKind::Bitmap, 0b10),
        ];
        let gauge = |name: &str, value| Sample::Gauge(format!("MAIN.{name}"), value);
        assert_eq!(
            taken(&mut Last::default(), &readings),
            [gauge("threads", 4.0), gauge("n_object", 0.0), gauge("happy", 0.0)]
        );
    }
}
