// SPDX-License-Identifier: BSD-2-Clause
//! Sends an accelerator's own counters to any statsd: what a counter grew by as a count, gauges as they are.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use shm::reader::{CounterReader, CounterValue};
use statsd_client::{DATAGRAM_BYTES, SampleBatch, StatsdClient, StatsdTarget};
use sys::fd::Interest;
use sys::signal::{SIGINT, SIGTERM, Signals};
use tables::counters::{CounterKind, CounterLevel};

#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    pub target: StatsdTarget,
    pub workdir: PathBuf,
    pub interval: Duration,
    pub prefix: String,
}

/// Sends until SIGTERM or SIGINT. An accelerator or a statsd that isn't there is waited for.
pub fn run(export: &Export) -> std::io::Result<()> {
    let mut signals = Signals::new(&[SIGTERM, SIGINT])?;
    let mut reader = CounterReader::new(&export.workdir);
    let mut sender = Deltas::new(&export.prefix);
    let mut client = None;
    let mut complaint = String::new();
    loop {
        let outcome = reader.read().map_err(|error| error.to_string()).and_then(|readings| {
            if client.is_none() {
                client = Some(
                    StatsdClient::connect(&export.target).map_err(|error| format!("{:?}: {error}", export.target))?,
                );
            }
            sender.send(&readings, &mut |batch| client.iter().for_each(|client| client.send(batch)));
            Ok(())
        });
        // Said once, not every second.
        let said = outcome.err().unwrap_or_default();
        if !said.is_empty() && said != complaint {
            toolkit::print::err(format_args!("lacquer statsd: {said}\n"));
        }
        complaint = said;
        if sys::fd::wait(&signals, Interest::Read, Some(export.interval))? && signals.take()?.is_some() {
            return Ok(());
        }
    }
}

#[derive(Debug)]
struct Deltas {
    last: HashMap<String, u64>,
    batch: SampleBatch,
}

impl Deltas {
    fn new(prefix: &str) -> Deltas {
        Deltas { last: HashMap::new(), batch: SampleBatch::new(prefix, "", DATAGRAM_BYTES) }
    }

    /// The first reading only tells where counters stand.
    fn send(&mut self, readings: &[CounterValue], out: &mut dyn FnMut(&mut SampleBatch)) {
        let mut now = HashMap::with_capacity(readings.len());
        let known = !self.last.is_empty();
        for reading in readings.iter().filter(|r| r.about.level != CounterLevel::Debug) {
            let name = reading.full_name();
            match reading.about.kind {
                CounterKind::Gauge => self.batch.gauge(name.as_bytes(), reading.signed() as f64),
                CounterKind::Counter => {
                    // A counter that went back began again, and so did one that is new.
                    let before = self.last.get(&name).copied().filter(|before| *before <= reading.value).unwrap_or(0);
                    let grown = reading.value - before;
                    if known && grown > 0 {
                        self.batch.count(name.as_bytes(), i64::try_from(grown).unwrap_or(i64::MAX));
                    }
                    now.insert(name, reading.value);
                }
                CounterKind::Bitmap => {}
            }
            if self.batch.is_large() {
                out(&mut self.batch);
            }
        }
        self.last = now;
        out(&mut self.batch);
    }
}
