// SPDX-License-Identifier: BSD-2-Clause
//! A flush as Graphite's points: names, and the two forms in which they travel. Knows no socket.

use crate::chars;
use crate::config::{Carbon, Graphite};
use crate::number;
use crate::store::Snapshot;

/// A pickled list longer than carbon takes (2^20 bytes) is sent as several.
const FRAME_BYTES: usize = 900_000;

/// Points in the form in which they travel, without what frames them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Points {
    chunks: Vec<Vec<u8>>,
    pub count: usize,
}

impl Points {
    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    pub fn add(&mut self, carbon: Carbon, name: &[u8], value: f64, timestamp: u64) {
        if self.chunks.last().is_none_or(|chunk| chunk.len() > FRAME_BYTES) {
            self.chunks.push(Vec::new());
        }
        self.count += 1;
        let Some(out) = self.chunks.last_mut() else { return };
        match carbon {
            Carbon::Text => {
                out.extend_from_slice(name);
                out.push(b' ');
                number::write(out, value);
                out.push(b' ');
                number::write(out, timestamp as f64);
                out.push(b'\n');
            }
            Carbon::Pickle => {
                out.extend_from_slice(b"(S'");
                // Quotes and backslashes only get here in tags of names that aren't cleaned.
                out.extend(name.iter().filter(|b| !matches!(b, b'\'' | b'\\' | b'\r')));
                out.extend_from_slice(b"'\n(L");
                number::write(out, timestamp as f64);
                out.extend_from_slice(b"L\nS'");
                number::write(out, value);
                out.extend_from_slice(b"'\ntta");
            }
        }
    }

    pub fn payload(&self, carbon: Carbon, out: &mut Vec<u8>) {
        for chunk in &self.chunks {
            match carbon {
                Carbon::Text => out.extend_from_slice(chunk),
                Carbon::Pickle => {
                    let length = chunk.len() as u32 + 3;
                    out.extend_from_slice(&length.to_be_bytes());
                    out.extend_from_slice(b"(l");
                    out.extend_from_slice(chunk);
                    out.push(b'.');
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendStats {
    /// When sending failed last, seconds since 1970; 0 for never.
    pub last_exception: u64,
    /// Time of the last success, seconds since 1970.
    pub last_flush: u64,
    pub flush_time: u64,
    pub flush_length: u64,
}

/// First parts of all names, put together once.
#[derive(Clone, Debug)]
pub struct GraphiteNames {
    config: Graphite,
    prefix: String,
    counters: Vec<u8>,
    timers: Vec<u8>,
    gauges: Vec<u8>,
    sets: Vec<u8>,
    global: Vec<u8>,
}

impl GraphiteNames {
    /// `prefix` is that of the server's own metrics.
    pub fn new(config: &Graphite, prefix: &str) -> GraphiteNames {
        let dotted = |parts: &[&str]| parts.iter().flat_map(|part| [part.as_bytes(), b"."].concat()).collect();
        let under = |part: &str| -> Vec<u8> {
            dotted(&[config.global.as_str(), part].into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>())
        };
        let legacy = config.legacy;
        GraphiteNames {
            config: config.clone(),
            prefix: prefix.to_owned(),
            counters: if legacy { dotted(&["stats"]) } else { under(&config.counter) },
            timers: if legacy { dotted(&["stats", "timers"]) } else { under(&config.timer) },
            gauges: if legacy { dotted(&["stats", "gauges"]) } else { under(&config.gauge) },
            sets: if legacy { dotted(&["stats", "sets"]) } else { under(&config.set) },
            global: if legacy { dotted(&["stats"]) } else { under("") },
        }
    }

    /// All points of a flush; `working_out_ms` answers how long that has taken so far.
    pub fn points(&self, flush: &Snapshot, working_out_ms: impl FnOnce() -> u64) -> Points {
        let mut points = Points::default();
        let mut sink = Sink { names: self, points: &mut points, name: Vec::new(), timestamp: flush.timestamp };
        for (name, sum, rate) in &flush.counters {
            let (rate_tail, count_head, count_tail): (&[&[u8]], &[u8], &[&[u8]]) = if self.config.legacy {
                (&[], b"stats_counts.", &[])
            } else {
                (&[b"rate"], &self.counters, &[b"count"])
            };
            sink.add(&self.counters, name, rate_tail, *rate);
            if self.config.flush_counts {
                sink.add(count_head, name, count_tail, *sum);
            }
        }
        for timer in &flush.timers {
            for (figure, value) in &timer.figures.plain {
                sink.add(&self.timers, &timer.name, &[figure.as_bytes()], *value);
            }
            for (bin, value) in timer.figures.bins.iter().flatten() {
                sink.add(&self.timers, &timer.name, &[b"histogram", bin.as_bytes()], *value);
            }
        }
        for (name, value) in &flush.gauges {
            sink.add(&self.gauges, name, &[], *value);
        }
        for (name, members) in &flush.sets {
            sink.add(&self.sets, name, &[b"count"], members.len() as f64);
        }
        let own = self.prefix.as_bytes();
        sink.add(if self.config.legacy { b"" } else { &self.global }, own, &[b"numStats"], flush.len() as f64);
        sink.add(&self.global, own, &[b"graphiteStats", b"calculationtime"], working_out_ms() as f64);
        sink.add(&self.global, own, &[b"processing_time"], flush.processing_ms as f64);
        points
    }

    pub fn add_stats(&self, points: &mut Points, stats: &SendStats, now: u64) {
        let mut sink = Sink { names: self, points, name: Vec::new(), timestamp: now };
        let all: [(&[u8], u64); 4] = [
            (b"last_exception", stats.last_exception),
            (b"last_flush", stats.last_flush),
            (b"flush_time", stats.flush_time),
            (b"flush_length", stats.flush_length),
        ];
        for (name, value) in all {
            sink.add(&self.global, self.prefix.as_bytes(), &[b"graphiteStats", name], value as f64);
        }
    }
}

struct Sink<'a> {
    names: &'a GraphiteNames,
    points: &'a mut Points,
    name: Vec<u8>,
    timestamp: u64,
}

impl Sink<'_> {
    /// `head` + the name before its tags + `.tail` + suffix + tags.
    fn add(&mut self, head: &[u8], name: &[u8], tail: &[&[u8]], value: f64) {
        let (stem, tags) = name.split_at(memchr::memchr(b';', name).unwrap_or(name.len()));
        let out = &mut self.name;
        out.clear();
        out.extend_from_slice(head);
        if self.names.config.clean {
            chars::clean_into(out, stem);
        } else {
            out.extend_from_slice(stem);
        }
        for part in tail {
            out.push(b'.');
            out.extend_from_slice(part);
        }
        out.extend_from_slice(self.names.config.suffix.as_bytes());
        out.extend_from_slice(tags);
        self.points.add(self.names.config.carbon, out, value, self.timestamp);
    }
}
