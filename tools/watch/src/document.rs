// SPDX-License-Identifier: BSD-2-Clause
//! The page's update, once per second: one JSON document for all viewers. Numbers are raw counts; the page formats them.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tables::counters::{CounterFields as _, NoHitCounts};
use tables::no_hit::NoHit;

use crate::counters::WatchedCounters;
use crate::health;
use crate::state::{WatchShared, WatchState, now};
use crate::tally::RateTable;
use crate::text::shown;

const ROWS: usize = 25;
const BACKENDS: usize = 100;
const TOTALS: [&str; 42] = [
    "uptime",
    "client_req",
    "cache_hit",
    "cache_hit_grace",
    "cache_miss",
    "cache_hitpass",
    "cache_hitmiss",
    "s_pass",
    "s_pipe",
    "s_synth",
    "s_fetch",
    "s_bgfetch",
    "fetch_failed",
    "s_resp_bodybytes",
    "s_resp_hdrbytes",
    "s_req_bodybytes",
    "sess_conn",
    "sess_dropped",
    "sess_queued",
    "tls_handshakes",
    "tls_post_quantum",
    "req_dropped",
    "threads",
    "txn_busy",
    "n_object",
    "n_objecthead",
    "n_expired",
    "n_lru_nuked",
    "n_vcl",
    "n_vcl_avail",
    "n_backend",
    "bans",
    "bans_completed",
    "bans_added",
    "bans_deleted",
    "bans_obj_killed",
    "bans_lurker_obj_killed",
    "bans_lurker_tested",
    "n_purges",
    "n_obj_purged",
    "mem_used",
    "backend_req",
];

pub fn second(shared: &WatchShared, state: &WatchState) -> Value {
    let counters = WatchedCounters::new(&state.readings);
    let totals: serde_json::Map<String, Value> =
        TOTALS.iter().filter_map(|name| Some(((*name).to_owned(), json!(counters.main.get(name)?)))).collect();
    let rate = |name: &str| state.rates.get(name).copied().unwrap_or(0.0);
    json!({
        "t": now(),
        "server": server(state, &counters),
        "problems": state.problems.as_ref().map(|all| all.iter().map(crate::problems::Problem::json).collect::<Vec<_>>()),
        "log": {
            "open": state.log.is_open, "share": state.log.share, "sampled": state.log.is_sampled, "overruns": state.log.overruns,
            "late_ms": state.log.late_ms.round(), "skips": state.log.skips,
        },
        "viewers": shared.viewers.load(Ordering::Relaxed), "lost": shared.lost.load(Ordering::Relaxed),
        "point": state.history.last().map(crate::history::HistoryPoint::json),
        "totals": totals,
        "rates": {
            "bans_added": rate("MAIN.bans_added"), "bans_obj_killed": rate("MAIN.bans_obj_killed"), "n_purges": rate("MAIN.n_purges"),
            "n_obj_purged": rate("MAIN.n_obj_purged"), "n_expired": rate("MAIN.n_expired"), "n_lru_nuked": rate("MAIN.n_lru_nuked"),
            "sess_conn": rate("MAIN.sess_conn"), "fetch_failed": rate("MAIN.fetch_failed"), "sess_dropped": rate("MAIN.sess_dropped"),
            "lurker_tested": rate("MAIN.bans_lurker_tested"),
        },
        "backends": backends(state, &counters),
        "stores": stores(&counters),
        "nohit": no_hit(state, &counters),
        "why": table(state, state.tally.why(ROWS)),
        "hot": table(state, state.tally.hot(ROWS)),
        "dear": table(state, state.tally.dear(ROWS)),
        "fill": table(state, state.tally.stores(ROWS)),
        "errors": table(state, state.tally.errors(ROWS)),
        "vcls": vcls(&counters, state),
        "events": state.events_json(),
    })
}

fn server(state: &WatchState, counters: &WatchedCounters<'_>) -> Value {
    let up = |is_there: bool, seconds: u64| is_there.then_some(seconds);
    json!({
        "manager": up(state.status.manager.is_some(), counters.mgt("uptime")),
        "worker": up(state.status.worker.is_some(), counters.main("uptime")),
        "problem": state.problem, "program": state.program,
        "starts": counters.mgt("child_start"), "panics": counters.mgt("child_panic"), "died": counters.mgt("child_died"),
        "stopped": counters.mgt("child_stop"), "exits": counters.mgt("child_exit"), "dumps": counters.mgt("child_dump"),
    })
}

fn backends(state: &WatchState, counters: &WatchedCounters<'_>) -> Value {
    let rate =
        |vcl: &str, name: &str, what: &str| state.rates.get(&format!("{vcl}.{name} {what}")).copied().unwrap_or(0.0);
    let mut rows: Vec<(bool, f64, Value)> = counters
        .backends
        .iter()
        .map(|((vcl, name), set)| {
            let of = |counter: &str| set.get(counter).copied().unwrap_or(0);
            let number = (1..=crate::tally::MAX_BACKENDS as u16).find(|n| state.tally.backends.name(*n) == *name);
            let logged = health::logged(state, vcl, name);
            let times = number.and_then(|n| state.tally.backend_times.get(&n));
            let requests = rate(vcl, name, "req");
            let row = json!({
                "vcl": shown(vcl.as_bytes()), "name": shown(name.as_bytes()),
                "well": health::is_well(state, vcl, name, set), "happy": format!("{:016x}", of("happy")),
                // Without a probe the counter has no bit, or since release 7.7 all of them; so has one whose probes all failed or succeeded.
                // The log and the CLI distinguish these.
                "probed": !matches!(of("happy"), 0 | u64::MAX) || logged.is_some(),
                "since": logged.map(|health| health.since),
                "req": of("req"), "rate": requests, "conn": of("conn") as i64, "fail": of("fail"), "unhealthy": of("unhealthy"),
                "busy": of("busy"), "bytes": rate(vcl, name, "beresp_bodybytes"), "failing": rate(vcl, name, "fail"),
                "times": times.and_then(crate::tally::BackendTimes::percentiles),
                "failed": times.map_or(0, |times| times.failed),
            });
            (row["well"] == true, requests, row)
        })
        .collect();
    let all = rows.len();
    // Sick backends come first: they get no requests, and operators look for them.
    rows.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    rows.truncate(BACKENDS);
    json!({ "all": all, "rows": rows.into_iter().map(|(_, _, row)| row).collect::<Vec<_>>() })
}

fn stores(counters: &WatchedCounters<'_>) -> Value {
    let rows = counters.stores.iter().map(|(name, (kind, set))| {
        let of = |counter: &str| set.get(counter).copied().unwrap_or(0);
        json!({
            "name": shown(name.as_bytes()), "kind": kind, "used": of("g_bytes"), "free": of("g_space"), "objects": of("g_alloc"),
            "fails": of("c_fail"),
        })
    });
    rows.collect()
}

/// Reasons with a count above zero, the currently most frequent first.
fn no_hit(state: &WatchState, counters: &WatchedCounters<'_>) -> Value {
    let mut rows: Vec<_> = counters
        .no_hit
        .iter()
        .filter(|(_, total)| *total > 0)
        .map(|(name, total)| (*name, *total, state.rates.get(&format!("NOHIT.{name}")).copied().unwrap_or(0.0)))
        .collect();
    rows.sort_by(|a, b| b.2.total_cmp(&a.2).then(b.1.cmp(&a.1)));
    let row = |(name, total, rate): (&str, u64, f64)| {
        let (word, text) = reason_of(name).map_or(("", ""), |reason| (reason.word(), reason.text()));
        json!([name, total, rate, text, word])
    };
    rows.into_iter().map(row).collect()
}

/// The reason that a counter of `NOHIT` counts. Some reasons have another word in the log than their counter's name.
fn reason_of(counter: &str) -> Option<NoHit> {
    let at = NoHitCounts::ELEMS.iter().position(|elem| elem.name == counter)?;
    NoHit::ALL.get(at).copied()
}

/// Rows: key, requests, bytes, backend seconds, each per second; hits and misses as shares of the requests.
fn table(state: &WatchState, (ranking, factor): RateTable) -> Value {
    let factor = factor / state.log.share.max(0.0001);
    let rows = ranking.rows.iter().filter(|row| row.sums.requests * factor > 0.005).map(|row| {
        let sums = &row.sums;
        let share = |n: f64| if sums.requests > 0.0 { n / sums.requests } else { 0.0 };
        json!([
            // A tab separates two keys and appears in neither.
            row.key.split(|b| *b == b'\t').map(shown).collect::<Vec<_>>(),
            sums.requests * factor,
            sums.bytes * factor,
            sums.backend_seconds * factor,
            share(sums.hits),
            share(sums.misses),
        ])
    });
    rows.collect()
}

/// Number of backends by VCL, and number of requests by VCL.
fn vcls(counters: &WatchedCounters<'_>, state: &WatchState) -> Value {
    let mut all = std::collections::BTreeMap::<&str, u64>::new();
    for (vcl, _) in counters.backends.keys() {
        *all.entry(vcl).or_default() += 1;
    }
    let mut used = std::collections::BTreeMap::<&str, u64>::new();
    for ((.., vcl), times) in &state.tally.requests {
        *used.entry(state.tally.vcls.name(*vcl)).or_default() += times.duration.count();
    }
    json!({ "backends": all, "used": used })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_of_reasons_has_its_word() {
        let word = |counter| reason_of(counter).map(NoHit::word);
        let want = [Some("hash-always-miss"), Some("req-ttl"), Some("hash-ignore-busy"), Some("pass-cookie"), None];
        assert_eq!(["always_miss", "request_ttl", "ignore_busy", "pass_cookie", "nope"].map(word), want);
        assert_eq!(NoHitCounts::ELEMS.len(), NoHit::ALL.len());
        // Equal texts imply equal order.
        assert!(NoHitCounts::ELEMS.iter().zip(NoHit::ALL).all(|(elem, reason)| elem.oneliner == reason.text()));
    }
}
