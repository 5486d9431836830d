// SPDX-License-Identifier: BSD-2-Clause
//! `/healthz`: does a server run here. `/readyz`: would it answer clients well.

use serde_json::{Value, json};

use crate::counters::{Counters, Set};
use crate::options::Ready;
use crate::state::{Shared, State};

/// Counters that weren't read for so many seconds say nothing.
const FRESH_SECONDS: u64 = 10;

/// Whether a backend is well: as its probe said last, in the log or in its counters. One without a probe is.
pub fn is_well(state: &State, vcl: &str, backend: &str, set: &Set<'_>) -> bool {
    let known = state.health.get(backend).or_else(|| state.health.get(&format!("{vcl}.{backend}")));
    match (known, set.get("happy")) {
        (Some(health), _) => health.is_well,
        (None, Some(0) | None) => true,
        (None, Some(happy)) => happy & 1 == 1,
    }
}

/// An answer: whether all is well, and each reason for or against it.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// Well.
    pub is_good: bool,
    reasons: Vec<(&'static str, bool, String)>,
}

impl Verdict {
    fn new(reasons: Vec<(&'static str, bool, String)>) -> Verdict {
        Verdict { is_good: reasons.iter().all(|(_, is_good, _)| *is_good), reasons }
    }

    /// The word that stands first.
    pub fn word(&self) -> &'static str {
        if self.is_good { "ok" } else { "failed" }
    }

    /// With the reasons.
    pub fn json(&self) -> Value {
        let checks: Vec<_> =
            self.reasons.iter().map(|(name, ok, text)| json!({ "check": name, "ok": ok, "reason": text })).collect();
        json!({ "status": self.word(), "checks": checks })
    }
}

/// Whether manager and worker run, and their counters can be read.
pub fn alive(shared: &Shared) -> Verdict {
    let state = shared.state();
    Verdict::new(alive_reasons(&state))
}

fn alive_reasons(state: &State) -> Vec<(&'static str, bool, String)> {
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

/// Also whether a VCL is there and, where that was asked for, backends are well.
pub fn ready(shared: &Shared) -> Verdict {
    let state = shared.state();
    let mut reasons = alive_reasons(&state);
    let counters = Counters::new(&state.readings);
    let vcls = counters.main("n_vcl_avail");
    let text = if vcls > 0 { format!("VCLs that can be used: {vcls}") } else { "no VCL can be used".to_owned() };
    reasons.push(("vcl", vcls > 0, text));
    if let Some(reason) = backends(&state, &counters, &shared.options.ready) {
        reasons.push(reason);
    }
    Verdict::new(reasons)
}

fn backends(state: &State, counters: &Counters<'_>, wanted: &Ready) -> Option<(&'static str, bool, String)> {
    let all = || counters.backends.iter().map(|((vcl, name), set)| (*vcl, *name, is_well(state, vcl, name, set)));
    let (is_good, text) = match wanted {
        Ready::Vcl => return None,
        Ready::AnyBackend => {
            let well: Vec<&str> = all().filter(|(.., is_well)| *is_well).map(|(_, name, _)| name).collect();
            match (well.first(), counters.backends.len()) {
                (Some(name), _) => (true, format!("{name} is well")),
                (None, 0) => (false, "there is no backend".to_owned()),
                (None, n) => (false, format!("all backends are sick ({n})")),
            }
        }
        Ready::Backends(names) => {
            let is_up = |name: &String| all().any(|(_, known, is_well)| known == name && is_well);
            let is_there = |name: &String| all().any(|(_, known, _)| known == name);
            match names.iter().find(|name| is_up(name)) {
                Some(name) => (true, format!("{name} is well")),
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
    use crate::options::Options;
    use crate::state::Health;

    fn shared(ready: Ready, values: &[(&str, &str, u64)]) -> Shared {
        let shared = Shared::new(Options { ready, ..Options::default() }, "/none".into());
        {
            let mut state = shared.state();
            state.status = shm::reader::Status { manager: Some((1, 1)), worker: Some((2, 2)) };
            state.readings = Arc::new(readings(values));
            state.read_at = Some(Instant::now());
        }
        shared
    }

    fn told(verdict: &Verdict) -> String {
        let bad: Vec<_> = verdict.reasons.iter().filter(|(_, ok, _)| !ok).map(|(_, _, text)| text.as_str()).collect();
        format!("{} {}", verdict.word(), bad.join("; "))
    }

    #[test]
    fn a_server_that_runs_is_alive() {
        let s = shared(Ready::Vcl, &[("MAIN", "n_vcl_avail", 1)]);
        assert_eq!((told(&alive(&s)), told(&ready(&s))), ("ok ".into(), "ok ".into()));
        s.state().status.worker = None;
        assert_eq!(told(&alive(&s)), "failed no worker runs: it has ended, was stopped, or has not been started");
        assert!(alive(&s).json().to_string().contains("\"check\":\"worker\",\"ok\":false"));
    }

    #[test]
    fn without_a_vcl_nothing_is_ready() {
        let s = shared(Ready::Vcl, &[("MAIN", "n_vcl_avail", 0)]);
        assert_eq!(told(&ready(&s)), "failed no VCL can be used");
    }

    #[test]
    fn backends_count_where_that_was_asked_for() {
        let values = [("MAIN", "n_vcl_avail", 1), ("VBE.boot.a", "happy", 6), ("VBE.boot.b", "happy", 7)];
        assert_eq!(told(&ready(&shared(Ready::AnyBackend, &values))), "ok ");
        assert_eq!(told(&ready(&shared(Ready::AnyBackend, &values[..2]))), "failed all backends are sick (1)");
        let named = |names: &[&str]| Ready::Backends(names.iter().map(|n| (*n).to_owned()).collect());
        assert_eq!(told(&ready(&shared(named(&["a", "b"]), &values))), "ok ");
        assert_eq!(told(&ready(&shared(named(&["a", "c"]), &values))), "failed a is sick, c isn't there");
        let s = shared(named(&["a"]), &values);
        s.state().health.insert("a".into(), Health { is_well: true, since: 0 });
        assert_eq!(told(&ready(&s)), "ok ");
    }
}
