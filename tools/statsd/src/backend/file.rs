// SPDX-License-Identifier: BSD-2-Clause
//! The Perl port's File backend: `type TAB name TAB value` lines appended to a file at each flush.
//!
//! The port writes an address where a timer's values should be; here each value has its line. A fraction is written
//! where the port cuts a counter to a whole number.

use std::io::{self, Write as _};
use std::path::Path;

use crate::number;
use crate::store::Snapshot;

/// The originals' own metrics are left out, and ours if they are called otherwise.
const OWN: &[u8] = b"statsd.";

pub fn lines(flush: &Snapshot, prefix: &str) -> Vec<u8> {
    let own = format!("{prefix}.").into_bytes();
    let shown = |name: &[u8]| !name.starts_with(OWN) && !name.starts_with(&own);
    let mut out = Vec::new();
    let mut line = |kind: u8, name: &[u8], value: &dyn Fn(&mut Vec<u8>)| {
        if shown(name) {
            out.extend_from_slice(&[kind, b'\t']);
            out.extend_from_slice(name);
            out.push(b'\t');
            value(&mut out);
            out.push(b'\n');
        }
    };
    for (name, sum, _) in &flush.counters {
        line(b'c', name, &|out| number::write(out, *sum));
    }
    for timer in &flush.timers {
        for value in &timer.values {
            line(b't', &timer.name, &|out| six_places(out, *value));
        }
    }
    for (name, value) in &flush.gauges {
        line(b'g', name, &|out| six_places(out, *value));
    }
    for (name, members) in &flush.sets {
        line(b's', name, &|out| out.extend_from_slice(&members.join(&b';')));
    }
    out
}

fn six_places(out: &mut Vec<u8>, value: f64) {
    write!(out, "{value:.6}").expect("a vector takes every byte");
}

pub fn append(path: &Path, lines: &[u8]) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    std::fs::OpenOptions::new().append(true).create(true).open(path)?.write_all(lines)
}
