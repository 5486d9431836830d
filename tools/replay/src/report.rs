// SPDX-License-Identifier: BSD-2-Clause
//! The report at the end of a run: numbers as JSON, and the same as text.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use base::text::decimal_bytes;
use serde_json::{Value, json};

use crate::answer::SIGNS;
use crate::end::ReplayEnd;
use crate::faults::ReplayFault;
use crate::head::Unsent;
use crate::reader::ReaderReport;
use crate::server::round;
use crate::stats::ReplayStats;

/// CPU usage from which on the client itself may limit a run (percent of a CPU).
const BUSY_CLIENT: f64 = 90.0;
/// Requests of an open loop that begin later than this are told of (milliseconds).
const LATE: f64 = 10.0;

#[derive(Clone, Copy)]
pub struct CountedRequests<'a> {
    pub name: &'a str,
    pub stats: &'a ReplayStats,
    pub told: &'a ReaderReport,
    /// Requests were due at times of their own.
    pub is_open: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayClient {
    /// CPU seconds of all who sent.
    pub cpu_seconds: f64,
    /// CPU seconds of the busiest sender.
    pub busiest: f64,
}

impl ReplayClient {
    pub fn alone(cpu_seconds: f64) -> ReplayClient {
        ReplayClient { cpu_seconds, busiest: cpu_seconds }
    }
}

fn stream(stream: CountedRequests<'_>, seconds: f64) -> Value {
    let s = stream.stats;
    let status: serde_json::Map<String, Value> =
        s.status.iter().enumerate().filter(|(_, n)| **n > 0).map(|(code, n)| (code.to_string(), json!(n))).collect();
    let faults: serde_json::Map<String, Value> =
        ReplayFault::ALL.iter().map(|f| (f.word().to_owned(), json!(s.faults[*f as usize]))).collect();
    let mut out = json!({
        "name": stream.name,
        "seconds": round(seconds, 6),
        "sent": s.sent,
        "answers": s.answers,
        "failed": s.failed(),
        "unsent": s.unsent,
        "unfinished": s.unfinished,
        "rate": round(s.answers as f64 / seconds, 3),
        "bytes_in": s.bytes.received,
        "body_bytes": s.bytes.bodies,
        "bytes_out": s.bytes.sent,
        "connections": s.connections,
        "resent": s.resent,
        "latency_ms": s.latency.json(),
        "service_ms": s.service.json(),
        "connect_ms": s.connect.json(),
        "status": status,
        "errors": faults,
        "cache": cache(s),
        "source": source(stream.told),
        "slowest": s.slowest.iter().map(|(ns, status, url)| json!({"ms": ms(*ns), "status": status, "url": url}))
            .collect::<Vec<_>>(),
        "series": series(s),
    });
    if stream.is_open {
        out["late_ms"] = s.late.json();
    }
    if let Some(tls) = tls(s) {
        out["tls"] = tls;
    }
    out
}

fn tls(s: &ReplayStats) -> Option<Value> {
    let handshakes = s.tls.times.len();
    (handshakes > 0 || s.tls.failure.is_some()).then(|| {
        json!({
            "handshakes": handshakes,
            "resumed": s.tls.resumed,
            "resumed_share": share(s.tls.resumed, handshakes),
            "handshake_ms": s.tls.times.json(),
            "agreed": s.tls.agreed,
            "failure": s.tls.failure,
        })
    })
}

fn ms(ns: u64) -> f64 {
    round(ns as f64 / 1e6, 3)
}

fn share(part: u64, whole: u64) -> Value {
    if whole == 0 { Value::Null } else { json!(round(part as f64 / whole as f64, 6)) }
}

fn cache(s: &ReplayStats) -> Value {
    let mut by = json!({});
    for (name, (told, hits)) in SIGNS.iter().zip(s.cache.by_sign).filter(|(_, (told, _))| *told > 0) {
        by[*name] = json!({"told": told, "hits": hits, "hit_rate": share(hits, told)});
    }
    json!({"told": s.cache.known, "hits": s.cache.hits, "hit_rate": share(s.cache.hits, s.cache.known), "by": by})
}

fn source(told: &ReaderReport) -> Value {
    let of = |unsent: &Unsent| told.skipped[unsent.place()].load(Ordering::Relaxed);
    let skipped: serde_json::Map<String, Value> =
        Unsent::ALL.iter().map(|unsent| (unsent.word().to_owned(), json!(of(unsent)))).collect();
    json!({
        "requests": told.requests.load(Ordering::Relaxed),
        "skipped": skipped,
        "clock_jumps": told.clock_jumps.load(Ordering::Relaxed),
    })
}

fn series(s: &ReplayStats) -> Value {
    let all = |f: &dyn Fn(&crate::stats::ReplaySecond) -> Value| s.series.over.iter().map(f).collect::<Value>();
    json!({
        "answers": all(&|x| json!(x.answers)),
        "failed": all(&|x| json!(x.faults)),
        "hits": all(&|x| json!(x.hits)),
        "mean_ms": all(&|x| json!(ms(x.mean as u64))),
        "p50_ms": all(&|x| json!(ms(x.p50))),
        "p99_ms": all(&|x| json!(ms(x.p99))),
    })
}

pub fn run(
    streams: &[CountedRequests<'_>],
    ns: u64,
    end: ReplayEnd,
    client: ReplayClient,
    server: Option<&crate::server::CpuMeter>,
) -> Value {
    let seconds = ns as f64 / 1e9;
    let mut out = streams.first().map_or(Value::Null, |first| stream(*first, seconds));
    let answers: u64 = streams.iter().map(|s| s.stats.answers).sum();
    out["end"] = json!(end.word());
    out["client"] = json!({
        "cpu_seconds": round(client.cpu_seconds, 3),
        "cpu_percent": round(100.0 * client.cpu_seconds / seconds, 1),
        "answers_per_cpu_second": round(answers as f64 / client.cpu_seconds.max(1e-6), 0),
    });
    if let Some(meter) = server {
        out["server"] = meter.json(seconds, answers);
        out["series"]["server_cpu_ms"] = meter.series();
    }
    for beside in streams.iter().skip(1) {
        out[beside.name] = stream(*beside, seconds);
    }
    out["notes"] = notes(streams, &out, 100.0 * client.busiest / seconds);
    out
}

fn notes(streams: &[CountedRequests<'_>], report: &Value, busy: f64) -> Value {
    let mut notes: Vec<String> = Vec::new();
    for stream in streams {
        if let Ok(told) = stream.told.notes.lock() {
            notes.extend(told.iter().cloned());
        }
        let late = ms(stream.stats.late.percentile(99.0));
        if late > LATE {
            notes.push(format!(
                "one in a hundred requests began {late} ms late or later: the connections were all busy (-c), or this client was"
            ));
        }
    }
    // The CPU time of a short run is mostly its beginning.
    let is_long = report["seconds"].as_f64().unwrap_or(0.0) >= 1.0;
    if busy > BUSY_CLIENT && is_long {
        notes.push(format!("this client used {} % of a CPU: it may be what limits the rate", round(busy, 1)));
    }
    if report["server"]["gone"] == json!(true) {
        notes.push("the server's processes ended during the run".into());
    }
    if report["end"] == json!("gave_up") {
        notes.push("given up: requests failed and none was answered for too long".into());
    }
    let end = report["end"].as_str().and_then(ReplayEnd::parse);
    notes.extend(match end {
        Some(ReplayEnd::Interrupted) => Some("interrupted: this is what there was up to then".to_owned()),
        Some(ReplayEnd::InterruptedInWarmup) => Some("interrupted in the warm-up: nothing was measured".to_owned()),
        Some(ReplayEnd::DoneInWarmup) => Some(
            "the last request was sent in the warm-up: nothing was measured; shorten --warmup, or give --loop"
                .to_owned(),
        ),
        _ => None,
    });
    json!(notes)
}

pub fn text(report: &Value) -> String {
    let mut out = String::new();
    if report["end"].as_str().and_then(ReplayEnd::parse).is_some_and(ReplayEnd::is_unmeasured) {
        note_lines(&mut out, report);
        return out;
    }
    block(&mut out, report);
    if let Some(server) = report.get("server") {
        let each = server["us_per_answer"].as_f64().map_or(String::new(), |us| format!(", {us} us an answer"));
        line(&mut out, "server", &format!("{} s of CPU, {} %{each}", server["cpu_seconds"], server["cpu_percent"]));
    }
    let client = &report["client"];
    let cost = format!(
        "{} s of CPU, {} %, {} answers per CPU second",
        client["cpu_seconds"], client["cpu_percent"], client["answers_per_cpu_second"]
    );
    line(&mut out, "client", &cost);
    for worker in report["workers"].as_array().into_iter().flatten() {
        let lost = worker["lost"].as_str().map_or(String::new(), |why| format!(", lost: {why}"));
        let counts = format!("{} answered, {} failed, {}/s", worker["answers"], worker["failed"], worker["rate"]);
        let name = worker["address"].as_str().unwrap_or_default();
        line(
            &mut out,
            "worker",
            &format!("{name}: {counts}, p99 {} ms, {} s of CPU{lost}", worker["p99_ms"], worker["cpu_seconds"]),
        );
    }
    for beside in ["walker"] {
        if let Some(stream) = report.get(beside) {
            let _ = writeln!(out, "\n{beside}");
            block(&mut out, stream);
        }
    }
    note_lines(&mut out, report);
    out
}

fn note_lines(out: &mut String, report: &Value) {
    for note in report["notes"].as_array().into_iter().flatten() {
        line(out, "note", note.as_str().unwrap_or_default());
    }
}

fn line(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "{name:<12} {text}");
}

fn block(out: &mut String, s: &Value) {
    let n = |name: &str| s[name].as_u64().unwrap_or(0);
    let seconds = s["seconds"].as_f64().unwrap_or(0.0);
    let mut counts = format!("{} sent, {} answered, {} failed", n("sent"), n("answers"), n("failed"));
    for (name, what) in [("unsent", "due but not sent"), ("unfinished", "not waited for")] {
        if n(name) > 0 {
            let _ = write!(counts, ", {} {what}", n(name));
        }
    }
    line(out, "requests", &format!("{counts}, in {} s", round(seconds, 2)));
    let per_second = |bytes: u64| decimal_bytes((bytes as f64 / seconds.max(1e-9)) as u64);
    let (rate, inward, outward) = (&s["rate"], per_second(n("bytes_in")), per_second(n("bytes_out")));
    line(out, "rate", &format!("{rate} answers/s, {inward}/s in, {outward}/s out"));
    line(out, "latency", &times(&s["latency_ms"]));
    if s.get("late_ms").is_some() {
        line(out, "", &format!("counted from when each was due; from its begin: {}", times(&s["service_ms"])));
    }
    let pairs = |value: &Value, f: &dyn Fn(&str, &Value) -> Option<String>| -> Vec<String> {
        value.as_object().into_iter().flatten().filter_map(|(name, value)| f(name, value)).collect()
    };
    let status = pairs(&s["status"], &|code, n| Some(format!("{code}: {n}")));
    line(out, "status", if status.is_empty() { "none".to_owned() } else { status.join("  ") }.as_str());
    cache_lines(out, &s["cache"]);
    let made = format!("{} made, {} requests sent again on a new one", n("connections"), n("resent"));
    line(out, "connections", &made);
    if let Some(tls) = s.get("tls") {
        tls_lines(out, tls);
    }
    for fault in ReplayFault::ALL {
        let count = s["errors"][fault.word()].as_u64().unwrap_or(0);
        if count > 0 {
            line(out, "errors", &format!("{count} {}", fault.text()));
        }
    }
    line(out, "source", &format!("{} requests read", s["source"]["requests"]));
    for unsent in Unsent::ALL {
        let count = s["source"]["skipped"][unsent.word()].as_u64().unwrap_or(0);
        if count > 0 {
            line(out, "", &format!("{count} {} left out", unsent.text()));
        }
    }
    if let Some(jumps) = s["source"]["clock_jumps"].as_u64().filter(|n| *n > 0) {
        line(out, "", &format!("{jumps} jumps of the log's clock, or pauses cut (--max-gap)"));
    }
    for (i, slow) in s["slowest"].as_array().into_iter().flatten().enumerate() {
        let name = if i == 0 { "slowest" } else { "" };
        let url: String = slow["url"].as_str().unwrap_or_default().chars().take(100).collect();
        line(out, name, &format!("{:>10} ms  {}  {url}", slow["ms"].to_string(), slow["status"]));
    }
}

fn tls_lines(out: &mut String, tls: &Value) {
    if let Some(agreed) = tls["agreed"].as_str() {
        let resumed = round(100.0 * tls["resumed_share"].as_f64().unwrap_or(0.0), 2);
        line(out, "TLS", &format!("{agreed}: {} handshakes, {resumed} % resumed", tls["handshakes"]));
        line(out, "", &format!("a handshake: {}", times(&tls["handshake_ms"])));
    }
    if let Some(failure) = tls["failure"].as_str() {
        line(out, "", &format!("failed: {failure}"));
    }
}

fn cache_lines(out: &mut String, cache: &Value) {
    let percent = |v: &Value| v["hit_rate"].as_f64().map_or(0.0, |r| round(100.0 * r, 2));
    if cache["told"].as_u64().unwrap_or(0) == 0 {
        line(out, "cache", "no answer tells (X-Varnish, Age, X-Cache, Cache-Status)");
        return;
    }
    let by: Vec<String> =
        cache["by"].as_object().into_iter().flatten().map(|(name, v)| format!("{name} {} %", percent(v))).collect();
    let of = format!("{} of {} hits, {} %", cache["hits"], cache["told"], percent(cache));
    line(out, "cache", &format!("{of} (by {})", by.join(", ")));
}

fn times(t: &Value) -> String {
    let of = |name: &str| t[name].as_f64().unwrap_or(0.0);
    format!(
        "mean {} ms, p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
        of("mean"),
        of("p50"),
        of("p90"),
        of("p99"),
        of("p99.9"),
        of("max")
    )
}
