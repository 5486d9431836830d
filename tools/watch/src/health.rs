// SPDX-License-Identifier: BSD-2-Clause
//! `/healthz` checks that a server runs here. `/readyz` checks that it can serve clients.

use serde_json::{Value, json};

use crate::counters::{NamedCounters, WatchedCounters};
use crate::options::Ready;
use crate::state::{ProbeHealth, WatchShared, WatchState};

/// Maximum age of counters, in seconds. Older ones are ignored.
const FRESH_SECONDS: u64 = 10;

/// The backend in the last output of `backend.list -j`, if the CLI was asked.
pub fn listed<'a>(state: &'a WatchState, vcl: &str, backend: &str) -> Option<&'a Value> {
    state.listed.as_ref()?.get(format!("{vcl}.{backend}"))
}

/// The last result of a backend's probe in the log. `None` if another VCL has a backend of that name, unless the CLI has listed this one.
pub fn logged(state: &WatchState, vcl: &str, backend: &str) -> Option<ProbeHealth> {
    let is_known = !state.twins.contains(backend) || listed(state, vcl, backend).is_some();
    let known = state.health.get(backend).filter(|_| is_known);
    known.or_else(|| state.health.get(&format!("{vcl}.{backend}"))).copied()
}

/// True if a backend is healthy, by the last report of the CLI, the log or its counters. A backend without a probe is healthy.
pub fn is_well(state: &WatchState, vcl: &str, backend: &str, set: &NamedCounters<'_>) -> bool {
    if let Some(backend) = listed(state, vcl, backend) {
        return is_up(backend);
    }
    match (logged(state, vcl, backend), set.get("happy")) {
        (Some(health), _) => health.is_well,
        (None, Some(0) | None) => true,
        (None, Some(happy)) => happy & 1 == 1,
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct HealthVerdict {
    pub is_good: bool,
    reasons: Vec<(&'static str, bool, String)>,
}

impl HealthVerdict {
    fn new(reasons: Vec<(&'static str, bool, String)>) -> HealthVerdict {
        HealthVerdict { is_good: reasons.iter().all(|(_, is_good, _)| *is_good), reasons }
    }

    pub fn word(&self) -> &'static str {
        if self.is_good { "ok" } else { "failed" }
    }

    pub fn json(&self) -> Value {
        let checks: Vec<_> =
            self.reasons.iter().map(|(name, ok, text)| json!({ "check": name, "ok": ok, "reason": text })).collect();
        json!({ "status": self.word(), "checks": checks })
    }
}

/// Checks that manager and worker run and that their counters can be read.
pub fn alive(shared: &WatchShared) -> HealthVerdict {
    let state = shared.state();
    HealthVerdict::new(alive_reasons(&state))
}

fn alive_reasons(state: &WatchState) -> Vec<(&'static str, bool, String)> {
    let age = state.read_at.map(|at| at.elapsed().as_secs());
    let fresh = match age {
        None => (false, "nothing was read yet".to_owned()),
        Some(age) if age > FRESH_SECONDS => (false, format!("counters were last read {age} s ago")),
        Some(_) => match &state.problem {
            Some(problem) => (false, problem.clone()),
            None => (true, "counters are read".to_owned()),
        },
    };
    let manager = match state.status.manager {
        Some((pid, _)) => (true, format!("the manager runs: process {pid}")),
        None => (false, "no manager runs in the working directory".to_owned()),
    };
    let worker = match state.status.worker {
        Some((pid, _)) => (true, format!("the worker runs: process {pid}")),
        None => (false, "no worker runs: it has ended, was stopped, or has not been started".to_owned()),
    };
    vec![("manager", manager.0, manager.1), ("worker", worker.0, worker.1), ("counters", fresh.0, fresh.1)]
}

/// The checks of [`alive`], and whether a VCL is loaded and, if configured, backends are healthy. `listed` is the reply to `backend.list
/// -j`, which includes `backend.set_health`. Without it, the probes decide alone.
pub fn ready(shared: &WatchShared, listed: Option<&Value>) -> HealthVerdict {
    let state = shared.state();
    let mut reasons = alive_reasons(&state);
    let counters = WatchedCounters::new(&state.readings);
    let vcls = counters.main("n_vcl_avail");
    let text = if vcls > 0 { format!("VCLs that can be used: {vcls}") } else { "no VCL can be used".to_owned() };
    reasons.push(("vcl", vcls > 0, text));
    if counters.mgt("draining") > 0 {
        reasons.push(("drain", false, "out of service by the command drain".to_owned()));
    }
    if counters.peers.get("warming").is_some_and(|warming| *warming > 0) {
        reasons.push(("warm", false, "fetches hot objects from its peers".to_owned()));
    }
    let backends = match listed.and_then(Value::as_object) {
        Some(listed) => listed.iter().map(|(name, backend)| (short(name), is_up(backend))).collect(),
        None => probed(&state, &counters),
    };
    if let Some(reason) = verdict_on(&backends, &shared.options.ready) {
        reasons.push(reason);
    }
    HealthVerdict::new(reasons)
}

/// The backends in shared memory, each with the verdict of its probe.
fn probed<'a>(state: &WatchState, counters: &WatchedCounters<'a>) -> Vec<(&'a str, bool)> {
    counters.backends.iter().map(|((vcl, name), set)| (*name, is_well(state, vcl, name, set))).collect()
}

/// The backend's name without its VCL's.
fn short(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, name)| name)
}

/// True if a backend of `backend.list -j` gets requests: the administrator's verdict overrides the probe's.
fn is_up(backend: &Value) -> bool {
    match backend["admin_health"].as_str() {
        Some("sick") => false,
        Some("healthy") => true,
        _ => backend["probe_message"][2] != "sick",
    }
}

fn verdict_on(backends: &[(&str, bool)], wanted: &Ready) -> Option<(&'static str, bool, String)> {
    let (is_good, text) = match wanted {
        Ready::Vcl => return None,
        Ready::AnyBackend => {
            let healthy = backends.iter().find(|(_, is_well)| *is_well);
            match (healthy, backends.len()) {
                (Some((name, _)), _) => (true, format!("{name} is healthy")),
                (None, 0) => (false, "there is no backend".to_owned()),
                (None, n) => (false, format!("all backends are sick ({n})")),
            }
        }
        Ready::Backends(names) => {
            let is_up = |name: &String| backends.iter().any(|(known, is_well)| known == name && *is_well);
            let is_there = |name: &String| backends.iter().any(|(known, _)| known == name);
            match names.iter().find(|name| is_up(name)) {
                Some(name) => (true, format!("{name} is healthy")),
                None => {
                    let told =
                        |name: &String| format!("{name} {}", if is_there(name) { "is sick" } else { "isn't there" });
                    (false, names.iter().map(told).collect::<Vec<_>>().join(", "))
                }
            }
        }
    };
    Some(("backend", is_good, text))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;
    use crate::counters::tests::readings;
    use crate::options::WatchOptions;
    use crate::state::ProbeHealth;

    fn shared(ready: Ready, values: &[(&str, &str, u64)]) -> WatchShared {
        let shared = WatchShared::new(WatchOptions { ready, ..WatchOptions::default() }, "/none".into());
        {
            let mut state = shared.state();
            state.status = shm::reader::WorkdirStatus { manager: Some((1, 1)), worker: Some((2, 2)) };
            state.readings = Arc::new(readings(values));
            state.read_at = Some(Instant::now());
        }
        shared
    }

    fn told(verdict: &HealthVerdict) -> String {
        let bad: Vec<_> = verdict.reasons.iter().filter(|(_, ok, _)| !ok).map(|(_, _, text)| text.as_str()).collect();
        format!("{} {}", verdict.word(), bad.join("; "))
    }

    #[test]
    fn a_server_that_runs_is_alive() {
        let s = shared(Ready::Vcl, &[("MAIN", "n_vcl_avail", 1)]);
        assert_eq!((told(&alive(&s)), told(&ready(&s, None))), ("ok ".into(), "ok ".into()));
        s.state().status.worker = None;
        assert_eq!(told(&alive(&s)), "failed no worker runs: it has ended, was stopped, or has not been started");
        assert!(alive(&s).json().to_string().contains("\"check\":\"worker\",\"ok\":false"));
    }

    #[test]
    fn without_a_vcl_nothing_is_ready() {
        let s = shared(Ready::Vcl, &[("MAIN", "n_vcl_avail", 0)]);
        assert_eq!(told(&ready(&s, None)), "failed no VCL can be used");
    }

    #[test]
    fn a_server_that_drains_is_not_ready() {
        let s = shared(Ready::Vcl, &[("MAIN", "n_vcl_avail", 1), ("MGT", "draining", 1)]);
        assert_eq!(
            (told(&alive(&s)), told(&ready(&s, None))),
            ("ok ".into(), "failed out of service by the command drain".into())
        );
    }

    #[test]
    fn a_server_that_warms_is_not_ready() {
        let told_with = |warming| {
            let s = shared(Ready::Vcl, &[("MAIN", "n_vcl_avail", 1), ("PEERS", "warming", warming)]);
            (told(&alive(&s)), told(&ready(&s, None)))
        };
        assert_eq!(told_with(1), ("ok ".into(), "failed fetches hot objects from its peers".into()));
        assert_eq!(told_with(0), ("ok ".into(), "ok ".into()));
    }

    #[test]
    fn backends_count_where_that_was_asked_for() {
        let values = [("MAIN", "n_vcl_avail", 1), ("VBE.boot.a", "happy", 6), ("VBE.boot.b", "happy", 7)];
        assert_eq!(told(&ready(&shared(Ready::AnyBackend, &values), None)), "ok ");
        assert_eq!(told(&ready(&shared(Ready::AnyBackend, &values[..2]), None)), "failed all backends are sick (1)");
        let named = |names: &[&str]| Ready::Backends(names.iter().map(|n| (*n).to_owned()).collect());
        assert_eq!(told(&ready(&shared(named(&["a", "b"]), &values), None)), "ok ");
        assert_eq!(told(&ready(&shared(named(&["a", "c"]), &values), None)), "failed a is sick, c isn't there");
        let s = shared(named(&["a"]), &values);
        s.state().health.insert("a".into(), ProbeHealth { is_well: true, since: 0 });
        assert_eq!(told(&ready(&s, None)), "ok ");
    }

    #[test]
    fn the_administrators_verdict_goes_before_the_probes() {
        let listed = |admin: &str, probe: &str| json!({ "boot.a": { "type": "backend", "admin_health": admin, "probe_message": [0, 0, probe], "last_change": 1.0 } });
        // The probe has succeeded, according to shared memory.
        let s =
            shared(Ready::Backends(vec!["a".to_owned()]), &[("MAIN", "n_vcl_avail", 1), ("VBE.boot.a", "happy", 7)]);
        let told = |admin, probe| told(&ready(&s, Some(&listed(admin, probe))));
        assert_eq!(
            (told("sick", "healthy"), told("probe", "sick")),
            ("failed a is sick".into(), "failed a is sick".into())
        );
        assert_eq!((told("healthy", "sick"), told("probe", "healthy")), ("ok ".into(), "ok ".into()));
        assert_eq!(self::told(&ready(&s, Some(&json!({})))), "failed a isn't there");
    }
}
