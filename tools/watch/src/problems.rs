// SPDX-License-Identifier: BSD-2-Clause
//! Present problems of the server, for the strip at the top of the page: the findings of `lacquer doctor`'s rules over the last minute, the
//! worst first. They are computed in a separate thread, so that neither the log nor the page waits for them.
//!
//! A problem is red if visitors notice it, or if it makes the next reload or restart fail: a rule's fault, and errors. Everything else is
//! yellow, also a sick backend that others replace, and a worker that has died and was restarted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shm::reader::CounterValue;

use crate::blame::{Culprit, Sums};
use crate::control::{self, ControlQuestion};
use crate::counters::WatchedCounters;
use crate::state::{WatchShared, WatchState, now};
use crate::text::shown;
use crate::{events, health};

/// Time between two checks while the page has viewers, and while it has none.
const WATCHED_STEP: Duration = Duration::from_secs(2);
const IDLE_STEP: Duration = Duration::from_secs(10);
/// Time between two looks for viewers, and for a server's first figures.
const WAKE_STEP: Duration = Duration::from_millis(250);
/// Length of an interval. The worker's counters are compared over one to two intervals, "the last minute".
const STRETCH: Duration = Duration::from_secs(30);
/// The same for the manager, "the last hour": a worker's death takes a second, and must still be seen.
const LONG_STRETCH: Duration = Duration::from_secs(1800);
/// Seconds after the first check. A problem found within them may be older than the check: counters have to be compared, and errors to be
/// summed.
const SETTLED: u64 = IDLE_STEP.as_secs() + ERROR_SECONDS;
/// Seconds over which requests and errors are summed.
const ERROR_SECONDS: u64 = 30;
/// Number of URLs with errors that are passed to the judge.
const URLS: usize = 25;
/// Maximum number of lines on the page.
const MOST: usize = 12;

/// Recent requests: their number, the number of errors, and the errors by URL.
pub type Errors = (u64, u64, Vec<(String, u64)>);
/// Finds problems: `lacquer_doctor::findings`. Takes the workdir, the present and earlier counters, sick backends with the reason, and the
/// errors. Returns findings as in doctor's JSON.
pub type ProblemJudge = fn(&Path, &[CounterValue], &[CounterValue], &[(String, String)], Errors) -> Value;

#[derive(Clone, PartialEq, Debug)]
pub struct Problem {
    pub id: String,
    /// Name of the affected backend or store. Empty if it is the server.
    pub subject: String,
    /// True for red, false for yellow (see the module).
    pub is_bad: bool,
    /// A sentence without its full stop.
    pub what: String,
    /// Time when it began or happened, in seconds since 1970. 0 if it is older than the first check, or if the time means nothing.
    pub since: u64,
    /// True if it happened once and is over.
    pub is_past: bool,
    pub detail: String,
    pub why: String,
    /// Commands and steps for the operator, one per line.
    pub remedy: Vec<String>,
}

impl Problem {
    pub fn json(&self) -> Value {
        json!({
            "id": self.id, "bad": self.is_bad, "what": self.what, "since": self.since, "past": self.is_past, "detail": self.detail, "why": self.why,
            "fix": self.remedy, "part": part(&self.id),
        })
    }

    fn is(&self, ids: &[&str]) -> bool {
        ids.contains(&self.id.as_str())
    }
}

/// The part of the page that shows a rule's numbers.
fn part(id: &str) -> &'static str {
    match id {
        "errors" => "errors",
        "backend-sick" | "backend-failing" | "backend-busy" | "fetch-failed" => "backends",
        "nuked" | "store-stuck" | "transient" => "stores",
        "waiting" => "why",
        _ => "server",
    }
}

pub fn run(shared: &WatchShared, judge: ProblemJudge) {
    let mut court = Court::default();
    loop {
        let problems = court.look(shared, judge);
        let is_early = problems.is_none();
        shared.state().problems = problems;
        let begun = Instant::now();
        let step = || if shared.is_watched() { WATCHED_STEP } else { IDLE_STEP };
        // The first viewer is shown a verdict that is as recent as the figures.
        std::thread::sleep(WAKE_STEP);
        while !is_early && begun.elapsed() < step() {
            std::thread::sleep(WAKE_STEP);
        }
    }
}

/// The counters of one to two intervals ago.
#[derive(Debug, Default)]
struct Earlier {
    old: Option<Arc<Vec<CounterValue>>>,
    young: Option<(Instant, Arc<Vec<CounterValue>>)>,
}

impl Earlier {
    /// Stores the present counters and returns the earlier ones.
    fn turn(
        &mut self,
        readings: &Arc<Vec<CounterValue>>,
        moment: Instant,
        stretch: Duration,
    ) -> Arc<Vec<CounterValue>> {
        if self.young.as_ref().is_none_or(|(at, _)| moment.duration_since(*at) >= stretch) {
            let young = self.young.replace((moment, Arc::clone(readings))).map(|(_, readings)| readings);
            self.old = young.or_else(|| Some(Arc::clone(readings)));
        }
        Arc::clone(self.old.as_ref().unwrap_or(readings))
    }
}

#[derive(Debug, Default)]
struct Court {
    worker: Earlier,
    manager: Earlier,
    /// Time at which each present problem was first seen, in seconds since 1970.
    since: HashMap<(String, String), u64>,
    /// Time of the first check, in seconds since 1970.
    begun: Option<u64>,
}

impl Court {
    /// The problems. `None` if nothing is known of the server yet.
    fn look(&mut self, shared: &WatchShared, judge: ProblemJudge) -> Option<Vec<Problem>> {
        // Only over the server's own channel: any other connection would leave lines in the server's log.
        let ask = |ask| shared.channel.as_ref().map(|_| control::ask(shared, &ask));
        let listed = ask(ControlQuestion::Backends).and_then(|mut reply| reply["data"].as_array_mut()?.pop());
        let in_use = ask(ControlQuestion::Vcls).and_then(|reply| in_use(reply["data"].as_array()?));
        let (readings, sick, errors, mut seen) = {
            let mut state = shared.state();
            // Nothing was read yet at the start.
            state.read_at?;
            (state.listed, state.in_use) = (listed, in_use);
            events::listed(&mut state, now());
            (judged(&state), sick(&state), errors(&state), Seen::of(&state))
        };
        if readings.is_empty() || seen.manager_gone {
            return Some(self.dated(vec![seen.no_server(shared)], now()));
        }
        let moment = Instant::now();
        let managers: Vec<CounterValue> = readings.iter().filter(|r| &*r.set == "MGT").cloned().collect();
        let mut before = Vec::clone(&self.worker.turn(&readings, moment, STRETCH));
        before.retain(|reading| &*reading.set != "MGT");
        before.extend(self.manager.turn(&Arc::new(managers), moment, LONG_STRETCH).iter().cloned());
        seen.has_errors = errors.1 > 0;
        let found = judge(&shared.workdir, &readings, &before, &sick, errors.clone());
        let problems = found.as_array().into_iter().flatten().filter_map(problem).collect();
        let mut problems = self.dated(ranked(problems, &seen, &errors), now());
        let (own, shown) = (shared.workdir.display().to_string(), shared.shown_workdir());
        for problem in &mut problems {
            for text in [&mut problem.what, &mut problem.detail].into_iter().chain(&mut problem.remedy) {
                *text = text.replace(&own, &shown);
            }
            problem.since = match problem.id.as_str() {
                "worker-died" => seen.died_at.unwrap_or(problem.since),
                "backend-sick" => seen.sick_since.get(&problem.subject).copied().unwrap_or(problem.since),
                _ => problem.since,
            };
        }
        Some(problems)
    }

    fn dated(&mut self, mut problems: Vec<Problem>, now: u64) -> Vec<Problem> {
        let begun = *self.begun.get_or_insert(now);
        let mut since = HashMap::new();
        for problem in &mut problems {
            let key = (problem.id.clone(), problem.subject.clone());
            let is_old = now < begun + SETTLED || problem.is(&["certificate-ending", "certificate-expired"]);
            problem.since = self.since.get(&key).copied().unwrap_or(if is_old { 0 } else { now });
            since.insert(key, problem.since);
        }
        self.since = since;
        problems
    }
}

/// Further facts that decide how severe a finding is and how it is worded.
#[derive(Debug, Default)]
struct Seen {
    manager_gone: bool,
    reason: Option<String>,
    has_errors: bool,
    /// Statuses of the errors, the most frequent first.
    statuses: Vec<String>,
    died_at: Option<u64>,
    /// True if it was a worker that an upgrade had left behind.
    died_leaving: bool,
    sick_since: HashMap<String, u64>,
    blame: Blamed,
}

/// Recent errors and failed fetches, as far as the log names their backends.
#[derive(Debug, Default)]
struct Blamed {
    sums: Sums,
    /// The backends' numbers by name.
    numbers: HashMap<String, u16>,
    /// The backends of each VCL whose backends are all sick.
    all_sick: BTreeMap<String, BTreeSet<String>>,
}

impl Blamed {
    fn of(state: &WatchState) -> Blamed {
        let sums = state.tally.blame.since(now().saturating_sub(ERROR_SECONDS));
        let culprits = sums.errors_by.keys().chain(sums.failed_by.keys());
        let named = culprits.filter_map(|culprit| match culprit {
            Culprit::Backend(number) => Some((shown(state.tally.backends.name(*number).as_bytes()), *number)),
            Culprit::NoneHealthy(_) | Culprit::Unknown => None,
        });
        let numbers = named.collect();
        Blamed { sums, numbers, all_sick: all_sick(state) }
    }

    /// The culprits that a finding about a backend stands for.
    fn culprits(&self, problem: &Problem) -> BTreeSet<Culprit> {
        let own = self.numbers.get(short(&problem.subject)).map(|number| Culprit::Backend(*number));
        let vcls =
            self.all_sick.iter().filter(|(_, names)| problem.id == "backend-sick" && names.contains(&problem.subject));
        own.into_iter().chain(vcls.map(|(vcl, _)| Culprit::NoneHealthy(vcl.as_bytes().into()))).collect()
    }

    /// A VCL that has several backends, all sick, if the errors of one of its directors are among those of `culprits`.
    fn shared(&self, culprits: &BTreeSet<Culprit>) -> Option<&str> {
        let mut several = self.all_sick.iter().filter(|(_, names)| names.len() > 1);
        several.find_map(|(vcl, _)| {
            let culprit = Culprit::NoneHealthy(vcl.as_bytes().into());
            (culprits.contains(&culprit) && self.sums.errors_by.contains_key(&culprit)).then_some(vcl.as_str())
        })
    }

    fn errors(&self, culprits: &BTreeSet<Culprit>) -> u64 {
        culprits.iter().filter_map(|culprit| self.sums.errors_by.get(culprit)).sum()
    }

    /// True if hardly any fetches of others have failed.
    fn explain_fetches(&self, culprits: &BTreeSet<Culprit>) -> bool {
        let all: u64 = self.sums.failed_by.values().sum();
        let theirs: u64 = culprits.iter().filter_map(|culprit| self.sums.failed_by.get(culprit)).sum();
        (all - theirs) * 10 <= all
    }
}

/// The backend's name without its VCL's.
fn short(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, name)| name)
}

impl Seen {
    fn of(state: &WatchState) -> Seen {
        let mut statuses: Vec<(String, f64)> = Vec::new();
        for row in &state.tally.errors(URLS).0.rows {
            let status = shown(row.key.split(|b| *b == b'\t').next().unwrap_or_default());
            match statuses.iter_mut().find(|(known, _)| *known == status) {
                Some((_, n)) => *n += row.sums.requests,
                None => statuses.push((status, row.sums.requests)),
            }
        }
        statuses.sort_by(|a, b| b.1.total_cmp(&a.1));
        let all: f64 = statuses.iter().map(|(_, n)| n).sum();
        let frequent = statuses.into_iter().filter(|(_, n)| n * 10.0 >= all).map(|(status, _)| status);
        let sick = state.health.iter().filter(|(_, health)| !health.is_well);
        Seen {
            manager_gone: state.status.manager.is_none(),
            reason: state.problem.clone(),
            has_errors: false,
            statuses: frequent.collect(),
            died_at: state.before.died_at,
            died_leaving: state.before.died_leaving,
            blame: Blamed::of(state),
            sick_since: sick.map(|(name, health)| (name.clone(), health.since)).collect(),
        }
    }

    fn no_server(&self, shared: &WatchShared) -> Problem {
        Problem {
            id: "no-server".to_owned(),
            subject: String::new(),
            is_bad: true,
            what: "No server runs here".to_owned(),
            since: 0,
            is_past: false,
            detail: self.reason.clone().unwrap_or_default(),
            why: format!("No manager runs in {}: clients are refused.", shared.shown_workdir()),
            remedy: vec![
                "systemctl status varnish".to_owned(),
                "lacquer watch -n DIR    # a server with another working directory".to_owned(),
            ],
        }
    }
}

/// The VCLs that get requests, by the reply to `vcl.list -j`: the active one, and those that have a label.
fn in_use(list: &[Value]) -> Option<BTreeSet<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let active = list.iter().filter(|vcl| vcl["status"] == "active").filter_map(|vcl| text(&vcl["name"]));
    let labelled = list.iter().filter_map(|vcl| text(&vcl["label"]["name"]));
    let all: BTreeSet<String> = active.chain(labelled).collect();
    (!all.is_empty()).then_some(all)
}

/// The counters, without those of backends that get no requests since another VCL is in use.
fn judged(state: &WatchState) -> Arc<Vec<CounterValue>> {
    let is_old = |reading: &CounterValue| {
        let of_backend = reading.set.strip_prefix("VBE.").and_then(|rest| rest.split_once('.'));
        of_backend.is_some_and(|(vcl, _)| !state.is_in_use(vcl))
    };
    if !state.readings.iter().any(is_old) {
        return Arc::clone(&state.readings);
    }
    Arc::new(state.readings.iter().filter(|reading| !is_old(reading)).cloned().collect())
}

/// Backends that get no requests, each with the reason.
fn sick(state: &WatchState) -> Vec<(String, String)> {
    let counters = WatchedCounters::new(&state.readings);
    let all = counters.backends.iter().filter(|((vcl, _), _)| state.is_in_use(vcl));
    let sick = all.filter(|((vcl, name), set)| !health::is_well(state, vcl, name, set));
    let mut all: Vec<(String, String)> = sick
        .map(|((vcl, name), set)| {
            let admin = health::listed(state, vcl, name).and_then(|backend| backend["admin_health"].as_str());
            let good = set.get("happy").map_or(0, |happy| (happy & 0xff).count_ones());
            let reason = match admin {
                Some("sick") => "an administrator has set it sick".to_owned(),
                _ => format!("{good} of the last 8 probes succeeded"),
            };
            (shown(name.as_bytes()), reason)
        })
        .collect();
    // A VCL with a label may have backends of the same names.
    all.sort();
    all.dedup_by(|a, b| a.0 == b.0);
    all
}

/// The names of the backends of each VCL whose backends are all sick.
fn all_sick(state: &WatchState) -> BTreeMap<String, BTreeSet<String>> {
    let counters = WatchedCounters::new(&state.readings);
    let mut vcls: BTreeMap<String, (bool, BTreeSet<String>)> = BTreeMap::new();
    for ((vcl, name), set) in &counters.backends {
        let (all_sick, names) = vcls.entry((*vcl).to_owned()).or_insert_with(|| (true, BTreeSet::new()));
        *all_sick &= !health::is_well(state, vcl, name, set);
        names.insert(shown(name.as_bytes()));
    }
    vcls.into_iter().filter_map(|(vcl, (all_sick, names))| all_sick.then_some((vcl, names))).collect()
}

fn errors(state: &WatchState) -> Errors {
    let (requests, errors) = state.history.requests_and_errors(now().saturating_sub(ERROR_SECONDS));
    let url = |key: &[u8]| shown(key.split(|b| *b == b'\t').nth(1).unwrap_or_default());
    let ranking = state.tally.errors(URLS).0;
    let urls = ranking.rows.iter().map(|row| (url(&row.key), row.sums.requests.ceil() as u64));
    (requests.round() as u64, errors.round() as u64, urls.collect())
}

/// Converts a finding of doctor's JSON, unless it is only a notice.
fn problem(finding: &Value) -> Option<Problem> {
    let text = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let lines =
        |name: &str| finding[name].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let severity = finding["severity"].as_str()?;
    (severity != "notice").then(|| Problem {
        id: text("id"),
        subject: text("subject"),
        is_bad: severity == "fault",
        what: text("what"),
        since: 0,
        is_past: false,
        detail: lines("evidence").next().unwrap_or_default(),
        why: text("why"),
        remedy: lines("type").collect(),
    })
}

/// One line per cause, the worst first.
fn ranked(mut problems: Vec<Problem>, seen: &Seen, (requests, errors, _): &Errors) -> Vec<Problem> {
    const BACKEND: [&str; 2] = ["backend-sick", "backend-failing"];
    let blame = &seen.blame;
    // The share of the requests that are this part of the errors. The log may have been read in part.
    let share = |part: u64| {
        let part = if blame.sums.errors > 0 { part as f64 / blame.sums.errors as f64 } else { 1.0 };
        let share = if *requests > 0 { 100.0 * part * *errors as f64 / *requests as f64 } else { 0.0 };
        if share >= 10.0 { format!("{share:.0} %") } else { format!("{share:.1} %") }
    };
    let statuses = if seen.statuses.is_empty() { "500 or above".to_owned() } else { seen.statuses.join(", ") };
    let is_failing = problems.iter().any(|p| p.id == "errors");
    let is_served = !problems.iter().any(|p| p.id == "worker-stopped");
    for problem in &mut problems {
        match problem.id.as_str() {
            "errors" => {
                problem.is_bad = true;
                problem.detail.clear();
            }
            "backend-sick" => problem.is_bad = false,
            // Either a new worker runs, or `worker-stopped` reports that none does.
            "worker-died" => {
                (problem.is_bad, problem.is_past) = (false, true);
                problem.what = "A worker died".to_owned();
                problem.detail = match () {
                    () if seen.died_leaving => "it was one from before the upgrade".to_owned(),
                    () if is_served => "another one has taken over".to_owned(),
                    () => String::new(),
                };
            }
            _ => {}
        }
    }
    let sick: Vec<String> = problems.iter().filter(|p| p.id == "backend-sick").map(|p| p.subject.clone()).collect();
    problems.retain(|p| p.id != "backend-failing" || !sick.iter().any(|sick| sick == short(&p.subject)));
    // Errors are reported with the backends that the log names as their cause.
    let mut known = BTreeSet::new();
    for problem in problems.iter_mut().filter(|p| p.is(&BACKEND)) {
        let culprits = blame.culprits(problem);
        let caused = blame.errors(&culprits);
        known.extend(culprits.iter().cloned());
        if is_failing && caused > 0 {
            problem.is_bad = true;
            let shared =
                blame.shared(&culprits).map_or(String::new(), |vcl| format!(", as all backends of {vcl} are sick"));
            problem.detail = format!("{statuses} for {} of requests{shared}; {}", share(caused), problem.detail);
        }
    }
    let has_cause = problems.iter().any(|p| p.is(&BACKEND));
    problems.retain(|p| !(p.id == "fetch-failed" && has_cause && blame.explain_fetches(&known)));
    let caused = blame.errors(&known);
    let others = blame.sums.errors.saturating_sub(caused);
    problems.retain(|p| !(p.id == "errors" && caused > 0 && others * 10 <= blame.sums.errors));
    for problem in problems.iter_mut().filter(|p| p.id == "errors") {
        problem.what = format!("{} of requests are answered {statuses}", share(others));
    }
    // The sort is stable: within a colour, doctor's order is kept.
    problems.sort_by_key(|problem| !problem.is_bad);
    problems.truncate(MOST);
    problems
}

#[cfg(test)]
mod tests {
    use logq::record::make;
    use shm::vsl::Marker;
    use tables::Tag;

    use super::*;
    use crate::counters::tests::readings;
    use crate::options::WatchOptions;
    use crate::state::ProbeHealth;
    use crate::transaction;

    fn finding(id: &str, severity: &str, subject: &str) -> Value {
        json!({ "id": id, "severity": severity, "subject": subject, "what": format!("{id} {subject}"), "evidence": ["seen", "more"], "why": "w", "type": ["t"] })
    }

    /// Errors and failed fetches by backend. An empty name stands for a director without a healthy backend.
    fn blamed(errors: u64, errors_by: &[(&str, u64)], failed_by: &[(&str, u64)]) -> Blamed {
        let names = ["", "default", "other"];
        let culprit = |name: &str| match names.iter().position(|known| *known == name) {
            Some(0) => Culprit::NoneHealthy(b"boot"[..].into()),
            Some(number) => Culprit::Backend(number as u16),
            None => Culprit::Unknown,
        };
        let counts = |all: &[(&str, u64)]| all.iter().map(|(name, n)| (culprit(name), *n)).collect();
        let sums = Sums { errors, errors_by: counts(errors_by), failed_by: counts(failed_by) };
        let numbers = HashMap::from([("default".to_owned(), 1), ("other".to_owned(), 2)]);
        let all_sick = BTreeMap::from([("boot".to_owned(), BTreeSet::from(["default".to_owned()]))]);
        Blamed { sums, numbers, all_sick }
    }

    /// The lines, if the log says that all errors and failed fetches are of the backend `default`.
    fn lines(findings: &[Value], errors: (u64, u64)) -> Vec<String> {
        told(findings, errors, blamed(errors.1, &[("default", errors.1)], &[("default", errors.1)]))
    }

    fn told(findings: &[Value], errors: (u64, u64), blame: Blamed) -> Vec<String> {
        told_as(findings, errors, &Seen { statuses: vec!["503".to_owned()], blame, ..Seen::default() })
    }

    fn told_as(findings: &[Value], errors: (u64, u64), seen: &Seen) -> Vec<String> {
        let problems = findings.iter().filter_map(problem).collect();
        let ranked = ranked(problems, seen, &(errors.0, errors.1, Vec::new()));
        ranked.iter().map(|p| format!("{} {}: {}", if p.is_bad { "bad" } else { "warn" }, p.what, p.detail)).collect()
    }

    #[test]
    fn errors_are_told_with_their_cause() {
        let sick = finding("backend-sick", "fault", "default");
        let failing = finding("backend-failing", "warning", "boot.default");
        let (fetches, errors) = (finding("fetch-failed", "warning", ""), finding("errors", "warning", ""));
        let all = [sick.clone(), failing.clone(), fetches.clone(), errors.clone()];
        assert_eq!(lines(&all, (1000, 75)), ["bad backend-sick default: 503 for 7.5 % of requests; seen"]);
        assert_eq!(lines(&all[1..], (10, 10)), ["bad backend-failing boot.default: 503 for 100 % of requests; seen"]);
        // Grace, or another backend, hides it from visitors.
        assert_eq!(lines(&[sick], (1000, 0)), ["warn backend-sick default: seen"]);
        assert_eq!(
            lines(&[fetches, errors], (1000, 75)),
            ["bad 7.5 % of requests are answered 503: ", "warn fetch-failed : seen"]
        );
    }

    #[test]
    fn backends_are_blamed_for_their_own_errors_alone() {
        let sick = finding("backend-sick", "fault", "default");
        let failing = finding("backend-failing", "warning", "boot.other");
        let (fetches, errors) = (finding("fetch-failed", "warning", ""), finding("errors", "warning", ""));
        let all = [sick.clone(), fetches.clone(), errors.clone()];
        // A backend that nobody needs is sick; VCL, or a backend that answers, makes the errors.
        let want = ["bad 7.5 % of requests are answered 503: ", "warn backend-sick default: seen"];
        assert_eq!(told(&all, (1000, 75), blamed(75, &[], &[])), want);
        let want =
            ["bad 7.5 % of requests are answered 503: ", "warn backend-sick default: seen", "warn fetch-failed : seen"];
        assert_eq!(told(&all, (1000, 75), blamed(75, &[("x", 75)], &[("x", 75)])), want);
        // A third of them are the backend's. A fifth of the log was read.
        let want = [
            "bad backend-sick default: 503 for 2.5 % of requests; seen",
            "bad 5.0 % of requests are answered 503: ",
            "warn fetch-failed : seen",
        ];
        assert_eq!(told(&all, (1000, 75), blamed(15, &[("default", 5), ("x", 9)], &[("default", 5), ("x", 9)])), want);
        let all = [sick, failing, fetches, errors];
        let want = [
            "bad backend-sick default: 503 for 2.5 % of requests; seen",
            "bad backend-failing boot.other: 503 for 5.0 % of requests; seen",
        ];
        let both = [("default", 25), ("other", 50)];
        assert_eq!(told(&all, (1000, 75), blamed(75, &both, &both)), want);
        // A director had none to offer.
        let want = ["bad backend-sick default: 503 for 7.5 % of requests; seen"];
        assert_eq!(told(&[&all[..1], &all[2..]].concat(), (1000, 75), blamed(75, &[("", 75)], &[("", 75)])), want);
    }

    #[test]
    fn sick_backends_are_blamed_if_their_vcl_has_no_other() {
        let check = |error: &str, sick_ones: &[&str], want: &[&str]| {
            let mut state = WatchState::default();
            let happy = |set: &str| if sick_ones.contains(&set) { 6 } else { 7 };
            let all = ["VBE.boot.a", "VBE.boot.b", "VBE.shop.c"].map(|set| (set, "happy", happy(set)));
            state.readings = Arc::new(readings(&all));
            state.in_use = Some(["boot", "shop"].map(str::to_owned).into());
            let request: &[_] = &[
                (Tag::Begin, "req 6 rxreq"),
                (Tag::VclUse, "boot"),
                (Tag::ReqMethod, "GET"),
                (Tag::Link, "bereq 7 fetch"),
                (Tag::RespStatus, "503"),
            ];
            let fetch = &[(Tag::Begin, "bereq 6 fetch"), (Tag::VclUse, "boot"), (Tag::FetchError, error)];
            for records in [request, fetch] {
                let bytes: Vec<u8> =
                    records.iter().flat_map(|(tag, text)| make(*tag, 7, Marker::Client, text.as_bytes())).collect();
                state.tally.add(&transaction::read(&bytes).unwrap());
            }
            state.tally.end_second();
            state.tally.blame.end_second(now());
            let sick = sick(&state).into_iter().map(|(name, _)| finding("backend-sick", "fault", &name));
            let findings: Vec<Value> = sick.chain([finding("errors", "warning", "")]).collect();
            assert_eq!(told_as(&findings, (1, 1), &Seen::of(&state)), want, "{error}, {sick_ones:?}");
        };
        let director = "Director rr returned no backend";
        let errors = "bad 100 % of requests are answered 503: ";
        check("No backend", &["VBE.boot.a"], &[errors, "warn backend-sick a: seen"]);
        check(
            "No backend",
            &["VBE.boot.a", "VBE.boot.b"],
            &[errors, "warn backend-sick a: seen", "warn backend-sick b: seen"],
        );
        check(director, &["VBE.boot.a"], &[errors, "warn backend-sick a: seen"]);
        check(director, &["VBE.shop.c"], &[errors, "warn backend-sick c: seen"]);
        check(
            director,
            &["VBE.boot.a", "VBE.boot.b", "VBE.shop.c"],
            &[
                "bad backend-sick a: 503 for 100 % of requests, as all backends of boot are sick; seen",
                "bad backend-sick b: 503 for 100 % of requests, as all backends of boot are sick; seen",
                "warn backend-sick c: seen",
            ],
        );
    }

    #[test]
    fn only_vcls_that_get_requests_are_judged() {
        let list = json!([2, ["vcl.list", "-j"], 1.0,
            { "status": "available", "name": "old", "labels": 0 },
            { "status": "active", "name": "new", "labels": 0 },
            { "status": "available", "name": "shop", "labels": 1 },
            { "status": "available", "state": "label", "name": "lbl", "label": { "name": "shop" } } ]);
        let listed = in_use(list.as_array().unwrap()).unwrap();
        assert_eq!(listed, BTreeSet::from(["new".to_owned(), "shop".to_owned()]));
        assert_eq!(in_use(&[]), None);
        let mut state = WatchState::default();
        let all =
            [("VBE.old.a", "happy", 6), ("VBE.new.a", "happy", 7), ("VBE.shop.b", "happy", 0), ("MAIN", "uptime", 1)];
        state.readings = Arc::new(readings(&all));
        state.health.insert("b".to_owned(), ProbeHealth { is_well: false, since: 7 });
        state.twins.insert("a".to_owned());
        let names = |state: &WatchState| sick(state).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(&state), ["a", "b"], "nothing is known of VCLs");
        let sets = |state: &WatchState| {
            judged(state).chunk_by(|a, b| a.set == b.set).map(|set| set[0].set.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(sets(&state), ["MAIN", "VBE.new.a", "VBE.old.a", "VBE.shop.b"]);
        state.in_use = Some(listed);
        assert_eq!(names(&state), ["b"]);
        assert_eq!(sets(&state), ["MAIN", "VBE.new.a", "VBE.shop.b"]);
        // The log alone decides.
        state.in_use = None;
        state.before.vcl = Some("new".to_owned());
        assert!(state.is_in_use("new") && !state.is_in_use("old"));
    }

    #[test]
    fn what_visitors_notice_stands_first() {
        let all = [
            finding("worker-died", "fault", ""),
            finding("nuked", "warning", ""),
            finding("hit-rate", "notice", ""),
            finding("journal-failed", "fault", ""),
        ];
        assert_eq!(
            lines(&all, (0, 0)),
            ["bad journal-failed : seen", "warn A worker died: another one has taken over", "warn nuked : seen"]
        );
    }

    #[test]
    fn a_problem_is_as_old_as_its_first_look() {
        let mut court = Court::default();
        let at = |court: &mut Court, ids: &[&str], now| {
            let problems = ids.iter().filter_map(|id| problem(&finding(id, "fault", ""))).collect();
            court.dated(problems, now).iter().map(|p| p.since).collect::<Vec<_>>()
        };
        assert_eq!(at(&mut court, &["old"], 10), [0]);
        // The second check is the first that compares counters, and errors are summed for a while.
        assert_eq!(at(&mut court, &["late", "old"], 21), [0, 0]);
        assert_eq!(at(&mut court, &["a", "old"], 60), [60, 0]);
        assert_eq!(at(&mut court, &["b", "a", "certificate-ending"], 70), [70, 60, 0]);
        assert_eq!(at(&mut court, &["b"], 80), [70]);
        assert_eq!(at(&mut court, &["a"], 90), [90]);
    }

    #[test]
    fn the_rules_get_what_the_page_has_seen() {
        let shared = WatchShared::new(WatchOptions::default(), "/none".into());
        assert_eq!(Court::default().look(&shared, |_, _, _, _, _| json!([])), None, "nothing was read yet");
        {
            let mut state = shared.state();
            state.status = shm::reader::WorkdirStatus { manager: Some((1, 1)), worker: Some((2, 2)) };
            state.readings =
                Arc::new(readings(&[("MGT", "child_died", 1), ("VBE.boot.a", "happy", 6), ("VBE.boot.b", "happy", 7)]));
            state.read_at = Some(Instant::now());
            state.health.insert("a".to_owned(), ProbeHealth { is_well: false, since: 77 });
        }
        let judge: ProblemJudge = |_, now, before, sick, _| {
            assert_eq!(
                (now.len(), sick),
                (before.len(), &[("a".to_owned(), "2 of the last 8 probes succeeded".to_owned())][..])
            );
            json!([finding("backend-sick", "fault", "a")])
        };
        let problems = Court::default().look(&shared, judge).unwrap();
        assert_eq!(problems.iter().map(|p| (p.what.as_str(), p.since)).collect::<Vec<_>>(), [("backend-sick a", 77)]);
        shared.state().status = shm::reader::WorkdirStatus::default();
        let problems = Court::default().look(&shared, judge).unwrap();
        assert_eq!((problems.len(), problems[0].is_bad, problems[0].what.as_str()), (1, true, "No server runs here"));
    }

    #[test]
    fn counters_of_before_are_one_to_two_stretches_old() {
        let mut earlier = Earlier::default();
        let begun = Instant::now();
        let mut ages = Vec::new();
        for n in 0..7u64 {
            let readings = Arc::new(readings(&[("MAIN", "client_req", n)]));
            let old = earlier.turn(&readings, begun + Duration::from_secs(n * 10), Duration::from_secs(30));
            ages.push(n - WatchedCounters::new(&old).main("client_req"));
        }
        assert_eq!(ages, [0, 1, 2, 3, 4, 5, 3]);
    }
}
