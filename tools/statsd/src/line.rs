// SPDX-License-Identifier: BSD-2-Clause
//! The protocol: a packet's bytes in, samples out. Knows no socket and keeps nothing.
//!
//! Every turn of it is node statsd 0.10's, its oddities included (an unknown type is a counter, `1|ms ` with a space may
//! be negative), except what stops node's process: a rate that its second reader can't read (`@+1`, `@ 1`, `@Infinity`)
//! or that is 0 is a bad line here, and `constructor` is a name like any other.
//!
//! Beyond it stands what Datadog's clients send (DogStatsD 1.1 to 1.4): several values of one type (`1:2:3|ms`), and fields for a container,
//! a time, an entity or a cardinality (`|c:ID`, `|T1656581400`, `|e:ID`, `|card:low`), which end the tags and are ignored, as any field
//! behind tags is.

use std::borrow::Cow;

use memchr::{memchr, memrchr};

use crate::{chars, number};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PacketSample<'a> {
    /// Add to a counter; the rate is worked in.
    Count(f64),
    /// A duration, and how many events it stands for.
    Time(f64, f64),
    Gauge(f64),
    Change(f64),
    Member(&'a [u8]),
}

pub trait PacketSink {
    /// A line that isn't empty begins; its name is clean if names are cleaned.
    fn line(&mut self, name: &[u8], line: &[u8]);
    fn sample(&mut self, name: &[u8], sample: PacketSample<'_>);
    /// A sample of the line that says nothing.
    fn bad(&mut self, sample: &[u8], line: &[u8]);
}

/// Takes packets apart. Holds only memory for names that have to be changed.
#[derive(Debug, Default)]
pub struct PacketParser {
    name: Vec<u8>,
}

impl PacketParser {
    /// Feeds all lines of `packet` to `sink`. Bytes that aren't UTF-8 count as U+FFFD, as in node.
    pub fn packet(&mut self, packet: &[u8], clean_names: bool, sink: &mut impl PacketSink) {
        if packet.is_ascii() {
            return self.lines(packet, clean_names, sink);
        }
        match String::from_utf8_lossy(packet) {
            Cow::Borrowed(_) => self.lines(packet, clean_names, sink),
            Cow::Owned(text) => self.lines(text.as_bytes(), clean_names, sink),
        }
    }

    fn lines(&mut self, mut rest: &[u8], clean_names: bool, sink: &mut impl PacketSink) {
        while !rest.is_empty() {
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            if end > 0 {
                self.line(&rest[..end], clean_names, sink);
            }
            rest = rest.get(end + 1..).unwrap_or_default();
        }
    }

    fn line(&mut self, line: &[u8], clean_names: bool, sink: &mut impl PacketSink) {
        let (body, tags, after) = split_tags(line);
        let (name, samples) = match memchr(b':', body) {
            Some(at) => (&body[..at], Some(&body[at + 1..])),
            None => (body, None),
        };
        let buffer = &mut self.name;
        let name = if tags.is_empty() && (!clean_names || chars::is_clean(name)) {
            name
        } else {
            tagged(buffer, name, tags, clean_names);
            buffer
        };
        sink.line(name, line);
        // A name alone counts as the sample "1", which has no type.
        let Some(mut samples) = samples else { return sink.bad(b"1", line) };
        // The type, and the fields behind it, of values that share one; looked for once for all of them.
        let mut shared = None;
        loop {
            let (text, rest) = split_sample(samples);
            let read = match memchr(b'|', text) {
                Some(bar) => {
                    shared = None;
                    sample(&text[..bar], &text[bar + 1..], after)
                }
                None => {
                    let fields = *shared.get_or_insert_with(|| rest.and_then(next_type));
                    fields.and_then(|fields| sample(text, fields, after))
                }
            };
            match read {
                Some(sample) => sink.sample(name, sample),
                None => sink.bad(text, line),
            }
            let Some(rest) = rest else { return };
            samples = rest;
        }
    }
}

/// A line's part before `|#`, the tags behind it, and the fields behind these.
fn split_tags(line: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let Some(at) = mark(line) else { return (line, &[], &[]) };
    let tags = &line[at + 2..];
    let end = memchr(b'|', tags).unwrap_or(tags.len());
    (&line[..at], &tags[..end], tags.get(end + 1..).unwrap_or_default())
}

/// The first of several samples, which end with `:`, and the others.
fn split_sample(samples: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut from = 0;
    while let Some(at) = memchr(b':', &samples[from..]) {
        let at = from + at;
        if !is_key(&samples[..at]) {
            return (&samples[..at], Some(&samples[at + 1..]));
        }
        match memchr(b'|', &samples[at..]) {
            Some(end) => from = at + end,
            None => break,
        }
    }
    (samples, None)
}

/// True if a sample up to a `:` ends with the key of a field: `1|c|c`, but not the type in `1|c`.
fn is_key(text: &[u8]) -> bool {
    let Some(bar) = memrchr(b'|', text) else { return false };
    KEYS.contains(&&text[bar + 1..]) && memchr(b'|', &text[..bar]).is_some()
}

/// Fields that have a value: the container, the entity, the cardinality of tags.
const KEYS: [&[u8]; 3] = [b"c", b"e", b"card"];

/// The type, and what follows it, of the next sample that has one.
fn next_type(samples: &[u8]) -> Option<&[u8]> {
    let bar = memchr(b'|', samples)?;
    let start = memrchr(b':', &samples[..bar]).map_or(0, |at| at + 1);
    Some(&split_sample(&samples[start..]).0[bar - start + 1..])
}

/// Offset of `|#`, which begins the tags.
fn mark(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = memchr(b'#', &text[from..]) {
        let at = from + at;
        if at > 0 && text[at - 1] == b'|' {
            return Some(at - 1);
        }
        from = at + 1;
    }
    None
}

/// Writes `name;k=v;k=v` to `out`: in each tag the first `;` becomes `_` and the first `:` becomes `=`.
fn tagged(out: &mut Vec<u8>, name: &[u8], tags: &[u8], clean_names: bool) {
    out.clear();
    let mut whole = Cow::Borrowed(name);
    if !tags.is_empty() {
        let whole = whole.to_mut();
        for tag in tags.split(|b| *b == b',') {
            whole.push(b';');
            let start = whole.len();
            whole.extend_from_slice(tag);
            let tag = &mut whole[start..];
            if let Some(at) = memchr(b';', tag) {
                tag[at] = b'_';
            }
            if let Some(at) = memchr(b':', tag) {
                tag[at] = b'=';
            }
        }
    }
    if clean_names {
        chars::clean_into(out, &whole);
    } else {
        out.extend_from_slice(&whole);
    }
}

/// A value with its `type` or `type|@rate`, and the fields behind the line's tags; None is a bad line.
fn sample<'a>(value: &'a [u8], fields: &'a [u8], after: &'a [u8]) -> Option<PacketSample<'a>> {
    let (kind, events) = match memchr(b'|', fields) {
        None => (fields, rate(None, after)?),
        Some(at) => (&fields[..at], rate(Some(&fields[at + 1..]), after)?),
    };
    match kind {
        b"c" => Some(PacketSample::Count(number::parse(value)? * events)),
        b"g" => gauge(value),
        b"ms" => number::parse(value).filter(|n| *n >= 0.0).map(|n| PacketSample::Time(n, events)),
        b"s" => Some(PacketSample::Member(member(value))),
        // Any other text is checked as a counter's and then taken for what it is without white space.
        other => {
            let n = number::parse(value)?;
            match chars::trim(other) {
                b"ms" => Some(PacketSample::Time(n, events)),
                b"g" => gauge(value),
                b"s" => Some(PacketSample::Member(member(value))),
                _ => Some(PacketSample::Count(n * events)),
            }
        }
    }
}

fn gauge(value: &[u8]) -> Option<PacketSample<'static>> {
    let n = number::parse(value)?;
    Some(if matches!(value.first(), Some(b'+' | b'-')) { PacketSample::Change(n) } else { PacketSample::Gauge(n) })
}

fn member(value: &[u8]) -> &[u8] {
    if value.is_empty() { b"0" } else { value }
}

/// Number of events that one stands for, by the fields behind its type, of which the first that isn't one of
/// DogStatsD's is the rate, and those behind the tags.
fn rate(fields: Option<&[u8]>, after: &[u8]) -> Option<f64> {
    let own = fields.and_then(|fields| fields.split(|b| *b == b'|').find(|field| !is_extension(field)));
    own.or_else(|| after.split(|b| *b == b'|').find(|field| field.starts_with(b"@"))).map_or(Some(1.0), events)
}

/// True if a field is one of DogStatsD's.
fn is_extension(field: &[u8]) -> bool {
    let key = memchr(b':', field).map(|at| &field[..at]);
    let time = field.strip_prefix(b"T").is_some_and(|time| !time.is_empty() && time.iter().all(u8::is_ascii_digit));
    time || key.is_some_and(|key| KEYS.contains(&key))
}

/// Number of events that one stands for: 1 by the rate behind `@`. A rate is any number by node's first reader; its
/// second one takes the digits and points it begins with.
fn events(field: &[u8]) -> Option<f64> {
    let rate = field.strip_prefix(b"@")?;
    if rate.first() == Some(&b'-') {
        return None;
    }
    number::parse(rate)?;
    let digits = rate.iter().position(|b| !b.is_ascii_digit() && *b != b'.').unwrap_or(rate.len());
    let rate = number::parse(&rate[..digits])?;
    (rate > 0.0).then(|| 1.0 / rate)
}

#[cfg(test)]
mod tests;
