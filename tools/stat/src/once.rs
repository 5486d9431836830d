// SPDX-License-Identifier: BSD-2-Clause
//! The counters once: as text, XML, JSON, a list.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use shm::reader::CounterValue;
use tables::counters::{CounterFormat, CounterKind};

/// The value that is shown: a gauge below zero is 0, unless it is wanted as it is.
pub fn value(reading: &CounterValue, raw: bool) -> u64 {
    if !raw && reading.about.kind == CounterKind::Gauge && reading.signed() < 0 { 0 } else { reading.value }
}

/// Seconds that the worker has run.
pub fn uptime(readings: &[CounterValue]) -> u64 {
    readings.iter().find(|r| &*r.set == "MAIN" && r.about.name == "uptime").map_or(0, |r| r.value)
}

fn flag(kind: CounterKind) -> char {
    match kind {
        CounterKind::Counter => 'c',
        CounterKind::Gauge => 'g',
        CounterKind::Bitmap => 'b',
    }
}

fn letter(format: CounterFormat) -> char {
    match format {
        CounterFormat::Integer => 'i',
        CounterFormat::Bytes => 'B',
        CounterFormat::Bitmap => 'b',
        CounterFormat::Duration => 'd',
    }
}

fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    sys::localtime::format("%Y-%m-%dT%H:%M:%S", i64::try_from(seconds).unwrap_or(0)).unwrap_or_default()
}

/// -1: name, value, average per second, text.
pub fn text(out: &mut dyn Write, readings: &[&CounterValue], uptime: u64, raw: bool) -> io::Result<()> {
    let mut pad = 18;
    for reading in readings {
        let name = reading.full_name();
        // A name too long pushes all that follow to the right.
        pad = pad.max(name.len() + 1);
        let value = value(reading, raw);
        let average = match reading.about.kind {
            CounterKind::Counter if uptime > 0 => format!("{:.2}", value as f64 / uptime as f64),
            CounterKind::Counter => "0.00".to_owned(),
            CounterKind::Gauge | CounterKind::Bitmap => ".  ".to_owned(),
        };
        writeln!(out, "{name:<pad$}{value:>12} {average:>12} {}", reading.about.oneliner)?;
    }
    out.flush()
}

/// The output of -x.
pub fn xml(out: &mut dyn Write, readings: &[&CounterValue], raw: bool) -> io::Result<()> {
    writeln!(out, "<?xml version=\"1.0\"?>\n<varnishstat timestamp=\"{}\">", now())?;
    for reading in readings {
        let (flag, letter) = (flag(reading.about.kind), letter(reading.about.format));
        writeln!(
            out,
            "\t<stat>\n\t\t<name>{}</name>\n\t\t<value>{}</value>",
            reading.full_name(),
            value(reading, raw)
        )?;
        writeln!(out, "\t\t<flag>{flag}</flag>\n\t\t<format>{letter}</format>")?;
        writeln!(out, "\t\t<description>{}</description>\n\t</stat>", reading.about.oneliner)?;
    }
    writeln!(out, "</varnishstat>")?;
    out.flush()
}

/// Names of Varnish 3 and the counters of MAIN that count the same now: plugins of that time ask for them.
const OLD: &[(&str, &str)] = &[
    ("client_conn", "sess_conn"),
    ("client_drop", "sess_dropped"),
    ("n_wrk", "threads"),
    ("n_wrk_create", "threads_created"),
    ("n_wrk_drop", "sess_dropped"),
    ("n_wrk_failed", "threads_failed"),
    ("n_wrk_lqueue", "thread_queue_len"),
    ("n_wrk_max", "threads_limited"),
    ("n_wrk_queued", "sess_queued"),
    ("s_bodybytes", "s_resp_bodybytes"),
    ("s_hdrbytes", "s_resp_hdrbytes"),
];

/// --xml3: the set's class, its own name and the counter's apart; those of MAIN have only the last.
pub fn xml3(out: &mut dyn Write, readings: &[&CounterValue], raw: bool) -> io::Result<()> {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    writeln!(out, "<?xml version=\"1.0\"?>\n<varnishstat timestamp=\"{}\">", now())?;
    for reading in readings {
        let (class, ident) = reading.set.split_once('.').unwrap_or((&reading.set, ""));
        let mut one = |name: &str| {
            writeln!(out, "\t<stat>")?;
            if class != "MAIN" {
                writeln!(out, "\t\t<type>{}</type>", escape(class))?;
            }
            if !ident.is_empty() {
                writeln!(out, "\t\t<ident>{}</ident>", escape(ident))?;
            }
            // Then counters were called `a`, gauges `i`.
            let flag = if reading.about.kind == CounterKind::Counter { 'a' } else { 'i' };
            let (name, value) = (escape(name), value(reading, raw));
            writeln!(out, "\t\t<name>{name}</name>\n\t\t<value>{value}</value>\n\t\t<flag>{flag}</flag>")?;
            writeln!(out, "\t\t<description>{}</description>\n\t</stat>", escape(&reading.about.oneliner))
        };
        one(&reading.about.name)?;
        if class == "MAIN" {
            OLD.iter().filter(|(_, now)| *now == reading.about.name).try_for_each(|(old, _)| one(old))?;
        }
    }
    writeln!(out, "</varnishstat>")?;
    out.flush()
}

pub fn json(out: &mut dyn Write, readings: &[&CounterValue], raw: bool) -> io::Result<()> {
    writeln!(out, "{{\n  \"version\": 1,\n  \"timestamp\": \"{}\",\n  \"counters\": {{", now())?;
    for (i, reading) in readings.iter().enumerate() {
        let comma = if i > 0 { ",\n" } else { "" };
        let (name, text) = (tables::json::quote(&reading.full_name()), tables::json::quote(&reading.about.oneliner));
        writeln!(out, "{comma}    {name}: {{\n      \"description\": {text},")?;
        let (flag, letter) = (flag(reading.about.kind), letter(reading.about.format));
        writeln!(out, "      \"flag\": \"{flag}\",\n      \"format\": \"{letter}\",")?;
        write!(out, "      \"value\": {}\n    }}", value(reading, raw))?;
    }
    writeln!(out, "\n  }}\n}}")?;
    out.flush()
}

/// The output of -l.
pub fn list(out: &mut dyn Write, readings: &[&CounterValue]) -> io::Result<()> {
    writeln!(out, "Varnishstat -f option fields:\nField name                     Description")?;
    writeln!(out, "----------                     -----------")?;
    for reading in readings {
        writeln!(out, "{:<30} {}", reading.full_name(), reading.about.oneliner)?;
    }
    out.flush()
}
