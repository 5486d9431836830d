// SPDX-License-Identifier: BSD-2-Clause
//! Samples as statsd lines, packed into datagrams.

/// Payload that passes an Ethernet path without fragments, IPv6 header included.
pub const DATAGRAM_BYTES: usize = 1432;

/// The most bytes that a batch holds; beyond that samples are dropped.
const BATCH_BYTES: usize = 64 * 1024;

/// Samples waiting to be sent together, as the datagrams they will travel in.
///
/// A name's bytes that would break the line (`:`, `|`, `@`, `#`, control characters, space) become `_`.
#[derive(Debug)]
pub struct SampleBatch {
    prefix: Vec<u8>,
    suffix: Vec<u8>,
    limit: usize,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl SampleBatch {
    /// An empty batch. `prefix` and `suffix` are put around each name as they are; datagrams have at most `limit`
    /// bytes (at least 64).
    pub fn new(prefix: &str, suffix: &str, limit: usize) -> SampleBatch {
        let (prefix, suffix) = (cleaned(prefix.as_bytes()), cleaned(suffix.as_bytes()));
        SampleBatch { prefix, suffix, limit: limit.max(64), bytes: Vec::new(), ends: Vec::new() }
    }

    pub fn count(&mut self, name: &[u8], n: i64) {
        self.line(name, b"c", |out| write(out, format_args!("{n}")));
    }

    /// One duration, in milliseconds. What no timer can hold (negative, not a number) is dropped.
    pub fn timing(&mut self, name: &[u8], milliseconds: f64) {
        if !milliseconds.is_finite() || milliseconds < 0.0 {
            return;
        }
        self.line(name, b"ms", |out| write(out, format_args!("{milliseconds}")));
    }

    /// Sets a gauge. A negative value is sent as 0 and then as a change, because a sign means a change.
    pub fn gauge(&mut self, name: &[u8], value: f64) {
        if !value.is_finite() {
            return;
        }
        if value < 0.0 {
            self.line(name, b"g", |out| out.push(b'0'));
        }
        self.line(name, b"g", |out| write(out, format_args!("{value}")));
    }

    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self.ends.iter().copied().chain(std::iter::once(self.bytes.len()));
        let mut start = 0;
        ends.filter_map(move |end| {
            let datagram = &self.bytes[start..end];
            start = end;
            (!datagram.is_empty()).then(|| datagram.strip_suffix(b"\n").unwrap_or(datagram))
        })
    }

    /// Forgets the samples; memory is kept for the next ones.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// True when it holds half of what it may hold: time to send.
    pub fn is_large(&self) -> bool {
        self.bytes.len() > BATCH_BYTES / 2
    }

    fn line(&mut self, name: &[u8], kind: &[u8], value: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&self.prefix);
        clean_into(&mut self.bytes, name);
        self.bytes.extend_from_slice(&self.suffix);
        self.bytes.push(b':');
        value(&mut self.bytes);
        self.bytes.push(b'|');
        self.bytes.extend_from_slice(kind);
        self.bytes.push(b'\n');
        let datagram = self.ends.last().copied().unwrap_or(0);
        // The newline at a datagram's end isn't sent.
        if self.bytes.len() - start > self.limit + 1 || self.bytes.len() > BATCH_BYTES {
            self.bytes.truncate(start);
        } else if self.bytes.len() - datagram > self.limit + 1 {
            self.ends.push(start);
        }
    }
}

fn write(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    out.write_fmt(text).expect("a vector takes every byte");
}

fn cleaned(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    clean_into(&mut out, text);
    out
}

fn clean_into(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(text.iter().map(|&b| if b <= b' ' || b == 0x7f || b":|@#".contains(&b) { b'_' } else { b }));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(fill: impl FnOnce(&mut SampleBatch), lines: &str) {
        let mut batch = SampleBatch::new("p.", "", DATAGRAM_BYTES);
        fill(&mut batch);
        let sent: Vec<_> = batch.datagrams().map(|d| String::from_utf8_lossy(d).into_owned()).collect();
        assert_eq!(sent.join("\n"), lines);
    }

    #[test]
    fn each_kind_is_a_line() {
        check(|b| b.count(b"a", 1), "p.a:1|c");
        check(|b| b.count(b"a", -3), "p.a:-3|c");
        check(|b| b.timing(b"a", 12.5), "p.a:12.5|ms");
        check(|b| b.gauge(b"a", 7.0), "p.a:7|g");
        check(|b| b.gauge(b"a", -7.0), "p.a:0|g\np.a:-7|g");
    }

    #[test]
    fn what_no_line_can_say_is_dropped() {
        let mut batch = SampleBatch::new("", "", 64);
        batch.timing(b"a", -1.0);
        batch.timing(b"a", f64::NAN);
        batch.gauge(b"a", f64::INFINITY);
        batch.count(&[b'k'; 64], 1);
        assert!(batch.is_empty());
    }

    #[test]
    fn a_full_datagram_begins_another() {
        let mut batch = SampleBatch::new("", "", 64);
        (0..20).for_each(|n| batch.count(b"name.of.it", n));
        let sizes: Vec<_> = batch.datagrams().map(<[u8]>::len).collect();
        assert!(sizes.len() > 1 && sizes.iter().all(|n| *n <= 64), "{sizes:?}");
    }

    proptest! {
        #[test]
        fn datagrams_keep_their_limit_and_hold_whole_lines(
            names in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..200),
            limit in 0usize..300,
        ) {
            let mut batch = SampleBatch::new("x", "y", limit);
            names.iter().for_each(|name| batch.count(name, 1));
            let mut lines = 0;
            for datagram in batch.datagrams() {
                prop_assert!(datagram.len() <= limit.max(64));
                for line in datagram.split(|b| *b == b'\n') {
                    prop_assert!(line.ends_with(b"y:1|c") && line.starts_with(b"x"));
                    lines += 1;
                }
            }
            let fits = |name: &&Vec<u8>| name.len() + "xy:1|c".len() <= limit.max(64);
            prop_assert_eq!(lines, names.iter().filter(fits).count());
        }
    }
}
