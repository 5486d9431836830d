// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer doctor`: what is wrong with a host and the server on it, why it matters, and what to type.
//!
//! `gather` looks at everything and changes nothing: files of the kernel (`host`), counters and CLI of the server
//! (`server`), its log (`traffic`). A rule (`rule`, `rules`) is declared once, with its texts, and judges those facts.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod facts;
mod fleet;
mod gather;
mod host;
mod log;
mod options;
mod reach;
mod report;
mod rule;
mod rules;
mod server;
mod traffic;

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use shm::reader::CounterValue;
use toolkit::print;

pub use options::TOOL;
use options::{DoctorFormat, DoctorInvocation, DoctorOptions};
use report::DoctorReport;

use facts::DoctorFacts;
use host::Host;
use server::DoctorServer;
use traffic::LogTraffic;

/// Time for which [`gravest`] waits for the CLI.
const LOOK: Duration = Duration::from_secs(5);

/// Runs it: `args` are the words after `lacquer doctor`; the exit status. 0: nothing worse than a notice; 1: a warning or a fault;
/// 2: it couldn't look.
///
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> i32 {
    TOOL.main(args, options::parse, |invocation| {
        match invocation {
            DoctorInvocation::List(DoctorFormat::Text) => print::out(report::list()),
            DoctorInvocation::List(DoctorFormat::Json) => print::out(format_args!("{:#}\n", report::list_json())),
            DoctorInvocation::Explain(id) => {
                rules::all().filter(|rule| rule.id == id).for_each(|rule| print::out(report::explained(rule)));
            }
            DoctorInvocation::Run(options) => return run(&options),
        }
        Ok(0)
    })
}

/// Findings worse than a notice on this machine and its server (`name`, `address` and `secret` as -n, -T and -S), one
/// line each, the gravest first. For programs that show them beside other things; doesn't read the log.
///
/// # Errors
/// The reason why it couldn't look.
pub fn gravest(name: Option<&str>, address: Option<&str>, secret: Option<&str>) -> Result<Vec<String>, String> {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let options = DoctorOptions {
        name: owned(name),
        address: owned(address),
        secret: owned(secret),
        timeout: LOOK,
        root: "/".into(),
        skip: vec!["log".to_owned()],
        is_quiet: true,
        ..DoctorOptions::default()
    };
    let seen = gather::facts(&options)?;
    Ok(DoctorReport::new(&options, &seen.facts, seen.is_early).gravest())
}

/// Rules of [`findings`]: those about the server by its counters, and of the others those that cost no more than reading a small file. The
/// rest of the machine's is `lacquer doctor`'s alone: much of it never changes, and lists of connections are long.
const PAGE: [&str; 6] = ["server", "errors", "disk-full", "file-table", "memory-pressure", "cgroup-memory"];

/// Runs the rules of `PAGE` for `lacquer watch`; returns findings as in the JSON report. `now` and `before` are the counters of the
/// server of `workdir` now and a minute ago (the manager's: an hour ago). `sick` has the sick backends with the reason. The last tuple
/// counts recent requests, their errors with a status of 500 or above, and these errors by URL.
pub fn findings(
    workdir: &Path,
    now: &[CounterValue],
    before: &[CounterValue],
    sick: &[(String, String)],
    (requests, errors, urls): (u64, u64, Vec<(String, u64)>),
) -> Value {
    let only = PAGE.iter().map(|word| (*word).to_owned()).collect();
    let options = DoctorOptions { root: "/".into(), only, ..DoctorOptions::default() };
    let server = DoctorServer::seen(workdir.to_owned(), now, before, sick);
    let url = |(name, errors)| (name, traffic::Url { errors, ..traffic::Url::default() });
    let traffic = LogTraffic { requests, errors, urls: urls.into_iter().map(url).collect(), ..LogTraffic::default() };
    let host = Host::new(&options.root, server.worker.or(server.manager));
    let facts = DoctorFacts { host, server: Ok(server), traffic: Ok(traffic), fleet: Ok(None) };
    DoctorReport::new(&options, &facts, false).json()["findings"].take()
}

fn run(options: &DoctorOptions) -> Result<i32, String> {
    let seen = gather::facts(options)?;
    let report = DoctorReport::new(options, &seen.facts, seen.is_early);
    match options.format {
        DoctorFormat::Json => print::out(format_args!("{:#}\n", report.json())),
        DoctorFormat::Text => print::foreign(report.text()),
    }
    Ok(match () {
        () if report.is_blind() || seen.is_gone => 2,
        () => i32::from(report.is_bad()),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shm::reader::CounterDoc;
    use tables::counters::{CounterFormat as Unit, CounterKind, CounterLevel};

    use super::*;

    fn readings(values: &[(&str, &str, u64)]) -> Vec<CounterValue> {
        let one = |(set, name, value): &(&str, &str, u64)| {
            let about = Arc::new(CounterDoc::new(name, CounterKind::Counter, CounterLevel::Info, Unit::Integer));
            CounterValue { set: (*set).into(), about, value: *value }
        };
        values.iter().map(one).collect()
    }

    #[test]
    fn a_watcher_is_told_what_has_gone_wrong_since_before() {
        let counted = |died, dropped| {
            readings(&[
                ("MGT", "child_died", died),
                ("MGT", "child_panic", 0),
                ("MGT", "child_dump", 0),
                ("MAIN", "sess_dropped", dropped),
                ("MAIN", "req_dropped", 0),
            ])
        };
        let found = |now: &[CounterValue], sick: &[(String, String)], errors| {
            let found = findings(Path::new("/nonexistent"), now, &counted(1, 5), sick, errors);
            let line = |f: &Value| format!("{} {} {}", f["id"], f["subject"], f["evidence"][0]).replace('"', "");
            found.as_array().expect("a list").iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(found(&counted(1, 5), &[], (1000, 4, Vec::new())), Vec::<String>::new());
        let all = found(
            &counted(2, 7),
            &[("a".to_owned(), "0 of the last 8 probes succeeded".to_owned())],
            (1000, 75, vec![("example.org/".to_owned(), 75)]),
        );
        let want = [
            "worker-died  once in the last minute",
            "requests-dropped  2 connections and 0 requests in the last minute",
            "backend-sick a 0 of the last 8 probes succeeded",
            "errors  75 of 1,000 answers",
        ];
        assert_eq!(all, want);
    }
}
