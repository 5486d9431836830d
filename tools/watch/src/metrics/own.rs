// SPDX-License-Identifier: BSD-2-Clause
//! Metrics with our own names. Frequently used ones have descriptive names. The other counters are `lacquer_SET_NAME`, with the types,
//! units and texts of shared memory. Debug counters are left out.

use shm::reader::CounterValue;
use tables::counters::{CounterFormat, CounterKind, CounterLevel};

use super::{Exposition, Labels};
use crate::counters::WatchedCounters;
use crate::health;
use crate::state::{WatchShared, WatchState};
use crate::tally::WatchTally;

/// A counter, its metric, a label with its value, and the help text if it differs from the counter's.
type Row = (&'static str, &'static str, Option<(&'static str, &'static str)>, &'static str);

/// Counters of the worker and the manager whose own names aren't descriptive.
const NAMES: &[Row] = &[
    ("MAIN.client_req", "requests", None, "Requests of clients"),
    ("MAIN.cache_hit", "lookups", Some(("result", "hit")), "Lookups in the cache, by result"),
    ("MAIN.cache_miss", "lookups", Some(("result", "miss")), ""),
    ("MAIN.cache_hitpass", "lookups", Some(("result", "hit_for_pass")), ""),
    ("MAIN.cache_hitmiss", "lookups", Some(("result", "hit_for_miss")), ""),
    ("MAIN.cache_hit_grace", "hits_in_grace", None, "Hits of objects whose ttl was over"),
    ("MAIN.s_pass", "unlooked", Some(("handling", "pass")), "Requests that weren't answered by way of a lookup"),
    ("MAIN.s_pipe", "unlooked", Some(("handling", "pipe")), ""),
    ("MAIN.s_synth", "unlooked", Some(("handling", "synth")), ""),
    ("MAIN.s_fetch", "fetches", None, "Fetches from backends"),
    ("MAIN.s_bgfetch", "fetches_in_background", None, "Of the fetches, those that nobody waited for"),
    ("MAIN.fetch_failed", "fetches_failed", None, "Fetches that failed"),
    ("MAIN.s_req_hdrbytes", "request_head_bytes", None, "Bytes of requests' heads"),
    ("MAIN.s_req_bodybytes", "request_body_bytes", None, "Bytes of requests' bodies"),
    ("MAIN.s_resp_hdrbytes", "response_head_bytes", None, "Bytes of answers' heads"),
    ("MAIN.s_resp_bodybytes", "response_body_bytes", None, "Bytes of answers' bodies"),
    ("MAIN.s_pipe_hdrbytes", "pipe_head_bytes", None, "Bytes of heads of piped requests"),
    ("MAIN.s_pipe_in", "pipe_in_bytes", None, "Bytes piped from clients"),
    ("MAIN.s_pipe_out", "pipe_out_bytes", None, "Bytes piped to clients"),
    ("MAIN.s_sess", "sessions", None, "Sessions"),
    ("MAIN.sess_conn", "connections_accepted", None, "Connections of clients"),
    ("MAIN.sess_dropped", "connections_dropped", None, "Connections dropped or requests refused, limits being reached"),
    ("MAIN.sess_queued", "requests_queued", None, "Requests that waited for their turn"),
    ("MAIN.n_object", "objects", None, "Objects in the cache"),
    ("MAIN.n_objecthead", "object_keys", None, "Keys that objects are found by"),
    ("MAIN.n_lru_nuked", "objects_removed", Some(("reason", "evicted")), "Objects that left the cache, by reason"),
    ("MAIN.n_expired", "objects_removed", Some(("reason", "expired")), ""),
    ("MAIN.n_obj_purged", "objects_removed", Some(("reason", "purged")), ""),
    ("MAIN.bans_obj_killed", "objects_removed", Some(("reason", "banned")), ""),
    ("MAIN.bans", "bans", None, "Bans on the list"),
    ("MAIN.bans_completed", "bans_completed", None, "Of the bans on the list, those that hit nothing any more"),
    ("MAIN.n_purges", "purges", None, "Purges"),
    ("MAIN.n_vcl", "vcls", None, "VCLs loaded"),
    ("MAIN.n_backend", "backends", None, "Backends"),
    ("MAIN.uptime", "worker_uptime_seconds", None, "How long the worker has been running"),
    ("MGT.uptime", "uptime_seconds", None, "How long the manager has been running"),
    ("MGT.child_start", "worker_starts", None, "Workers started"),
    ("MGT.child_exit", "worker_ends", Some(("how", "exit")), "Workers that ended, by how they did"),
    ("MGT.child_stop", "worker_ends", Some(("how", "stop")), ""),
    ("MGT.child_died", "worker_ends", Some(("how", "died")), ""),
    ("MGT.child_panic", "worker_ends", Some(("how", "panic")), ""),
];

/// Counters of each store: counter, metric, help text.
const STORES: &[(&str, &str, &str)] = &[
    ("g_bytes", "store_used_bytes", "Bytes in use, by store"),
    ("g_space", "store_free_bytes", "Bytes free, by store"),
    ("g_alloc", "store_allocations", "Allocations outstanding, by store"),
    ("c_fail", "store_failures", "Allocations that failed, by store"),
    ("c_bytes", "store_allocated_bytes", "Bytes ever allocated, by store"),
    ("c_freed", "store_freed_bytes", "Bytes ever freed, by store"),
    ("c_req", "store_requests", "Allocations asked for, by store"),
];

/// Counters of each backend, summed over all VCLs that have it.
const BACKENDS: &[Row] = &[
    ("req", "backend_requests", None, "Requests sent, by backend"),
    ("fail", "backend_connections_failed", None, "Connections that failed, by backend"),
    (
        "unhealthy",
        "backend_fetches_not_tried",
        Some(("reason", "unhealthy")),
        "Fetches not tried, by backend and reason",
    ),
    ("busy", "backend_fetches_not_tried", Some(("reason", "busy")), ""),
    ("helddown", "backend_fetches_not_tried", Some(("reason", "helddown")), ""),
    ("bereq_hdrbytes", "backend_request_head_bytes", None, "Bytes of requests' heads, by backend"),
    ("bereq_bodybytes", "backend_request_body_bytes", None, "Bytes of requests' bodies, by backend"),
    ("beresp_hdrbytes", "backend_response_head_bytes", None, "Bytes of answers' heads, by backend"),
    ("beresp_bodybytes", "backend_response_body_bytes", None, "Bytes of answers' bodies, by backend"),
];

const PREFIX: &str = "lacquer_";

pub fn exposition(shared: &WatchShared) -> Exposition {
    let state = shared.state();
    let mut out = Exposition::default();
    for reading in state.readings.iter() {
        counter(&mut out, reading);
    }
    backends(&mut out, &state);
    latency(&mut out, &state.tally);
    own_state(&mut out, shared, &state);
    out
}

fn put(out: &mut Exposition, reading: &CounterValue, name: &str, help: &str, labels: Labels<'_>) {
    match reading.about.kind {
        CounterKind::Counter => out.counter(name, help, labels, reading.value as f64),
        CounterKind::Gauge => out.gauge(name, help, labels, reading.signed() as f64),
        CounterKind::Bitmap => {}
    }
}

fn counter(out: &mut Exposition, reading: &CounterValue) {
    let (set, name) = (&*reading.set, reading.about.name.as_str());
    let (class, ident) = set.split_once('.').unwrap_or((set, ""));
    let help = reading.about.oneliner.as_str();
    match class {
        // Backends are summed by name, not by VCL.
        "VBE" => {}
        "MAIN" | "MGT" => {
            let full = format!("{set}.{name}");
            match NAMES.iter().find(|(counter, ..)| *counter == full) {
                Some((_, metric, label, text)) => {
                    let text = if text.is_empty() { help } else { text };
                    put(out, reading, &format!("{PREFIX}{metric}"), text, label.as_slice());
                }
                None if reading.about.level == CounterLevel::Debug => {}
                None => put(out, reading, &mechanical(class, reading), help, &[]),
            }
        }
        "NOHIT" => {
            let help = "Requests that weren't hits, by reason";
            put(out, reading, &format!("{PREFIX}not_hits"), help, &[("reason", name)]);
        }
        "SMA" | "SMF" | "SMU" | "MSE" => {
            let labels = [("store", ident), ("kind", kind_of_store(class))];
            match STORES.iter().find(|(counter, ..)| *counter == name) {
                Some((_, metric, text)) => put(out, reading, &format!("{PREFIX}{metric}"), text, &labels),
                None => put(out, reading, &mechanical("store", reading), help, &labels),
            }
        }
        _ if reading.about.level == CounterLevel::Debug => {}
        _ if ident.is_empty() => put(out, reading, &mechanical(class, reading), help, &[]),
        _ => put(out, reading, &mechanical(class, reading), help, &[("id", ident)]),
    }
}

const fn kind_of_store(class: &str) -> &'static str {
    match class.as_bytes() {
        b"SMA" => "malloc",
        b"SMF" => "file",
        b"SMU" => "umem",
        _ => "mse",
    }
}

/// Derives the name of a metric from the counter's: `lacquer_main_losthdr`, `lacquer_main_mem_used_bytes`.
fn mechanical(class: &str, reading: &CounterValue) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let name: String = reading.about.name.chars().map(allowed).collect();
    let class: String = class.chars().map(allowed).collect();
    let unit = match reading.about.format {
        CounterFormat::Bytes => "_bytes",
        CounterFormat::Duration => "_seconds",
        CounterFormat::Integer | CounterFormat::Bitmap => "",
    };
    // `hdrbytes` becomes `hdr_bytes`.
    let name = if unit == "_bytes" { name.trim_end_matches("bytes").trim_end_matches('_') } else { &name };
    // The format adds the suffix of counters.
    let name = name.strip_suffix("_total").unwrap_or(name);
    format!("{PREFIX}{class}_{name}{unit}")
}

fn backends(out: &mut Exposition, state: &WatchState) {
    for (backend, sums) in state.backends.sums() {
        for (counter, metric, label, help) in BACKENDS {
            let Some(value) = sums.get(*counter) else { continue };
            let labels: Vec<_> = std::iter::once(("backend", backend.as_str())).chain(*label).collect();
            let help = BACKENDS.iter().find(|row| row.1 == *metric).map_or(*help, |row| row.3);
            out.counter(&format!("{PREFIX}{metric}"), help, &labels, *value as f64);
        }
    }
    let counters = WatchedCounters::new(&state.readings);
    let mut up = std::collections::BTreeMap::<&str, (bool, bool)>::new();
    for ((vcl, backend), set) in &counters.backends {
        let connections = set.get("conn").copied().unwrap_or(0) as i64;
        out.gauge(
            &format!("{PREFIX}backend_connections"),
            "Connections in use, by backend",
            &[("backend", backend)],
            connections as f64,
        );
        // A backend counts as healthy if it is healthy in any VCL that gets requests, or in any if no such VCL has it.
        let verdict = (state.is_in_use(vcl), health::is_well(state, vcl, backend, set));
        let best = up.entry(backend).or_default();
        *best = verdict.max(*best);
    }
    for (backend, (_, is_well)) in up {
        let help = "1: the backend is well, or has no probe; 0: it is sick";
        out.gauge(&format!("{PREFIX}backend_up"), help, &[("backend", backend)], f64::from(u8::from(is_well)));
    }
}

fn latency(out: &mut Exposition, tally: &WatchTally) {
    for ((handling, class, vcl), times) in &tally.requests {
        let status = status(*class);
        let labels = [("handling", handling.name()), ("status", status.as_str()), ("vcl", tally.vcls.name(*vcl))];
        let help = "Until the head of the answer was ready; of the requests that were read of the log";
        out.histogram(&format!("{PREFIX}request_first_byte_seconds"), help, &labels, &times.first_byte);
        let help = "Until the last byte of the answer was handed over; of the requests that were read of the log";
        out.histogram(&format!("{PREFIX}request_duration_seconds"), help, &labels, &times.duration);
    }
    for ((backend, class), buckets) in &tally.fetches {
        let status = status(*class);
        let labels = [("backend", tally.backends.name(*backend)), ("status", status.as_str())];
        let help = "Until a backend's answer had its head here; of the fetches that were read of the log";
        out.histogram(&format!("{PREFIX}backend_first_byte_seconds"), help, &labels, buckets);
    }
}

fn status(class: u8) -> String {
    if class == 0 { "none".to_owned() } else { format!("{class}xx") }
}

fn own_state(out: &mut Exposition, shared: &WatchShared, state: &WatchState) {
    use std::sync::atomic::Ordering::Relaxed;
    let bool = |b: bool| f64::from(u8::from(b));
    let log = &state.log;
    let mut gauge = |name: &str, help: &str, value: f64| out.gauge(&format!("{PREFIX}{name}"), help, &[], value);
    gauge("up", "1: a manager runs in the working directory", bool(state.status.manager.is_some()));
    gauge("worker_up", "1: a worker runs", bool(state.status.worker.is_some()));
    gauge("watch_log_open", "1: there is a log to read", bool(log.is_open));
    gauge("watch_log_share_ratio", "How much of the log is read; below 1 it is sampled", log.share);
    gauge("watch_viewers", "Those who look at the page", shared.viewers.load(Relaxed) as f64);
    gauge("watch_start_time_seconds", "When watching began, in seconds since 1970", shared.begun as f64);
    let mut counter = |name: &str, help: &str, value: f64| out.counter(&format!("{PREFIX}{name}"), help, &[], value);
    counter("watch_log_overruns", "Times that the log was faster than it could be read", log.overruns as f64);
    counter("watch_log_skips", "Times that a part of the log was left out, to sample it", log.skips as f64);
    counter("watch_log_read_bytes", "Bytes of the log that were read", log.bytes as f64);
    counter("watch_transactions_read", "Transactions of the log that were read", state.tally.transactions as f64);
    counter("watch_messages_lost", "Messages to viewers that were too slow for them", shared.lost.load(Relaxed) as f64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::tests::readings;
    use crate::metrics::MetricsFormat as Written;

    fn text(values: &[(&str, &str, u64)]) -> String {
        let shared = WatchShared::new(crate::options::WatchOptions::default(), "/none".into());
        {
            let mut state = shared.state();
            let all = readings(values);
            state.backends.add(&all);
            state.readings = std::sync::Arc::new(all);
        }
        exposition(&shared).text(Written::Text, "_total")
    }

    fn check(values: &[(&str, &str, u64)], line: &str) {
        let text = text(values);
        assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
    }

    #[test]
    fn names_say_what_is_counted() {
        check(&[("MAIN", "client_req", 7)], "lacquer_requests_total 7");
        check(&[("MAIN", "cache_hit", 5)], "lacquer_lookups_total{result=\"hit\"} 5");
        check(&[("MAIN", "mem_used", 9)], "lacquer_main_mem_used_bytes 9");
        check(&[("MAIN", "s_pipe_in", 2)], "lacquer_pipe_in_bytes_total 2");
        check(&[("SMA.s0", "c_bytes", 2)], "lacquer_store_allocated_bytes_total{store=\"s0\",kind=\"malloc\"} 2");
        check(&[("MAIN", "losthdr", 1)], "lacquer_main_losthdr_total 1");
        check(&[("NOHIT", "expired", 2)], "lacquer_not_hits_total{reason=\"expired\"} 2");
        check(&[("SMA.s0", "g_bytes", 3)], "lacquer_store_used_bytes{store=\"s0\",kind=\"malloc\"} 3");
        check(&[("MGT", "child_panic", 1)], "lacquer_worker_ends_total{how=\"panic\"} 1");
    }

    #[test]
    fn a_backend_is_one_series_whatever_vcls_it_is_in() {
        let values = [
            ("VBE.boot.a", "req", 4),
            ("VBE.reload_1.a", "req", 5),
            ("VBE.boot.a", "unhealthy", 1),
            ("VBE.boot.a", "conn", 2),
        ];
        check(&values, "lacquer_backend_requests_total{backend=\"a\"} 9");
        check(&values, "lacquer_backend_connections{backend=\"a\"} 2");
        check(&values, "lacquer_backend_fetches_not_tried_total{backend=\"a\",reason=\"unhealthy\"} 1");
        check(&values, "lacquer_backend_up{backend=\"a\"} 1");
        assert!(!text(&values).contains("vcl=\""));
    }

    #[test]
    fn all_named_counters_exist() {
        use tables::counters::{CounterFields, Main, Mgt, Sma, Vbe};
        let has = |elems: &[tables::counters::Elem], name: &str| elems.iter().any(|elem| elem.name == name);
        for (full, ..) in NAMES {
            let (set, name) = full.split_once('.').unwrap();
            assert!(has(if set == "MAIN" { Main::ELEMS } else { Mgt::ELEMS }, name), "{full}");
        }
        assert!(STORES.iter().all(|(name, ..)| has(Sma::ELEMS, name)));
        assert!(BACKENDS.iter().all(|(name, ..)| has(Vbe::ELEMS, name)));
    }
}
