// SPDX-License-Identifier: BSD-2-Clause
//! The names of prometheus_varnish_exporter 1.6, for existing dashboards and alerts. tests/field/watch compares them with that program's
//! output for the same server.

use tables::counters::CounterKind;

use super::Exposition;
use crate::counters::WatchedCounters;
use crate::state::WatchShared;

pub fn exposition(shared: &WatchShared) -> Exposition {
    let state = shared.state();
    let mut out = Exposition::default();
    for reading in state.readings.iter().filter(|reading| !reading.set.starts_with("VBE.")) {
        let (name, label) = name(&reading.set, &reading.about.name);
        let labels: Vec<(&str, &str)> = label.as_ref().map(|(key, value)| (*key, value.as_str())).into_iter().collect();
        let help = match name.as_str() {
            "varnish_main_fetch" | "varnish_main_fetch_total" => "Number of fetches",
            "varnish_main_sessions" | "varnish_main_sessions_total" => "Number of sessions",
            _ => &reading.about.oneliner,
        };
        match reading.about.kind {
            CounterKind::Counter => out.counter(&name, help, &labels, reading.value as f64),
            CounterKind::Gauge | CounterKind::Bitmap => out.gauge(&name, help, &labels, reading.signed() as f64),
        }
    }
    backends(&mut out, &state);
    let is_up = state.status.worker.is_some();
    out.gauge("varnish_up", "Was the last scrape of varnish successful.", &[], f64::from(u8::from(is_up)));
    out
}

fn backends(out: &mut Exposition, state: &crate::state::WatchState) {
    // Totals continue over reloads. The exporter shows the newest VCL's counters, which begin at zero.
    for (backend, sums) in state.backends.sums() {
        let labels = [("backend", backend.as_str()), ("server", "unknown")];
        for (counter, value) in sums {
            out.counter(&format!("varnish_backend_{counter}"), "Of a backend", &labels, *value as f64);
        }
    }
    let mut seen = Vec::new();
    let counters = WatchedCounters::new(&state.readings);
    for ((_, backend), set) in counters.backends.iter().rev() {
        if seen.contains(backend) {
            continue;
        }
        seen.push(backend);
        let labels = [("backend", *backend), ("server", "unknown")];
        let happy = set.get("happy").copied().unwrap_or(0);
        out.gauge("varnish_backend_happy", "Probe results, newest in bit 0", &labels, happy as f64);
        out.gauge("varnish_backend_up", "Backend up as per the latest health probe", &labels, (happy & 1) as f64);
        let conn = set.get("conn").copied().unwrap_or(0) as i64;
        out.gauge("varnish_backend_conn", "Concurrent connections used", &labels, conn as f64);
    }
}

/// The name of a counter's metric, and its label if it has one.
fn name(set: &str, counter: &str) -> (String, Option<(&'static str, String)>) {
    let (class, ident) = set.split_once('.').unwrap_or((set, ""));
    match (class, counter) {
        ("MAIN", "s_sess") => ("varnish_main_sessions_total".to_owned(), None),
        ("MAIN", "s_fetch") => ("varnish_main_fetch_total".to_owned(), None),
        ("MAIN", _) => {
            for (prefix, metric) in [("sess_", "varnish_main_sessions"), ("fetch_", "varnish_main_fetch")] {
                if let Some(kind) = counter.strip_prefix(prefix) {
                    return (metric.to_owned(), Some(("type", kind.to_owned())));
                }
            }
            (format!("varnish_main_{counter}"), None)
        }
        ("LCK", _) => {
            let metric = match counter {
                "creat" => "varnish_lock_created",
                "destroy" => "varnish_lock_destroyed",
                "locks" => "varnish_lock_operations",
                _ => return (format!("varnish_lck_{counter}"), Some(("id", ident.to_owned()))),
            };
            (metric.to_owned(), Some(("target", ident.to_owned())))
        }
        ("MEMPOOL", _) => (format!("varnish_mempool_{counter}"), Some(("id", ident.to_owned()))),
        ("SMA" | "SMF", _) => {
            (format!("varnish_{}_{counter}", class.to_lowercase()), Some(("type", ident.to_lowercase())))
        }
        ("MGT", _) => (format!("varnish_mgt_{counter}"), None),
        _ if ident.is_empty() => (format!("varnish_main_{}_{counter}", class.to_lowercase()), None),
        _ => (format!("varnish_main_{}_{counter}", class.to_lowercase()), Some(("id", ident.to_owned()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(set: &str, counter: &str, expected: &str) {
        let (name, label) = name(set, counter);
        let label = label.map(|(key, value)| format!("{{{key}={value}}}")).unwrap_or_default();
        assert_eq!(format!("{name}{label}"), expected);
    }

    #[test]
    fn names_are_those_of_the_exporter() {
        check("MAIN", "cache_hit", "varnish_main_cache_hit");
        check("MAIN", "sess_conn", "varnish_main_sessions{type=conn}");
        check("MAIN", "s_sess", "varnish_main_sessions_total");
        check("MAIN", "fetch_304", "varnish_main_fetch{type=304}");
        check("NOHIT", "expired", "varnish_main_nohit_expired");
        check("SMA.Transient", "g_bytes", "varnish_sma_g_bytes{type=transient}");
        check("LCK.sess", "creat", "varnish_lock_created{target=sess}");
        check("LCK.sess", "dbg_busy", "varnish_lck_dbg_busy{id=sess}");
        check("MEMPOOL.req0", "live", "varnish_mempool_live{id=req0}");
        check("MGT", "uptime", "varnish_mgt_uptime");
    }
}
