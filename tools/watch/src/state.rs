// SPDX-License-Identifier: BSD-2-Clause
//! The shared state: written by the reading thread, shown by the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use logq::Redaction;
use serde_json::{Value, json};
use shm::reader::{CounterValue, WorkdirStatus};
use tokio::sync::broadcast;

use crate::control::CliChannel;
use crate::counters::BackendSums;
use crate::events::Before;
use crate::history::WatchHistory;
use crate::live::LiveRequests;
use crate::options::WatchOptions;
use crate::problems::Problem;
use crate::tally::WatchTally;

/// Size of a viewer's queue, in messages. A viewer that is slower loses the oldest ones, and is informed how many.
const QUEUE: usize = 4;
const EVENTS: usize = 100;
/// Kinds of events, each with a colour on the page: ended workers; new workers and upgrades; backends; VCLs; bans and purges of nearly
/// everything; the log itself.
const KINDS: [&str; 6] = ["worker", "start", "backend", "vcl", "purge", "log"];

#[derive(Clone, PartialEq, Debug, Default)]
pub struct LogState {
    pub is_open: bool,
    /// Share of the log that is read, from 0 to 1.
    pub share: f64,
    /// True if parts were recently left out on purpose.
    pub is_sampled: bool,
    pub overruns: u64,
    /// Number of times that parts were left out.
    pub skips: u64,
    pub bytes: u64,
    /// Number of times that the log of a new worker was opened.
    pub reopened: u64,
    /// Age of the last request when it was read here, in milliseconds.
    pub late_ms: f64,
}

/// An event for the page: a worker died, a backend went sick.
#[derive(Clone, PartialEq, Debug)]
pub struct PageEvent {
    /// Time in seconds since 1970.
    pub at: u64,
    /// Kind of the event, one of [`KINDS`].
    pub kind: &'static str,
    pub text: String,
}

/// The last result of a backend's probe.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProbeHealth {
    pub is_well: bool,
    /// Time of the last change, in seconds since 1970. 0 if it is older than this process.
    pub since: u64,
}

#[derive(Debug, Default)]
pub struct WatchState {
    pub status: WorkdirStatus,
    pub readings: Arc<Vec<CounterValue>>,
    pub read_at: Option<Instant>,
    pub problem: Option<String>,
    pub tally: WatchTally,
    pub history: WatchHistory,
    pub backends: BackendSums,
    /// Growth per second of each counter that the page updates every second.
    pub rates: BTreeMap<String, f64>,
    /// Results of probes, by backend.
    pub health: BTreeMap<String, ProbeHealth>,
    /// Names of backends that several loaded VCLs have. Log records don't tell whose probe they are about.
    pub twins: BTreeSet<String>,
    /// Time in seconds since 1970 until which a VCL that is loaded may have brought further twins.
    pub loading_until: u64,
    /// The VCLs that get requests: the active one and those with labels. `None` if the server hasn't handed its channel over.
    pub in_use: Option<BTreeSet<String>>,
    pub events: VecDeque<PageEvent>,
    /// The state of the second before, from which events are derived.
    pub before: Before,
    /// The last output of `backend.list -j` for the VCL in use, if the server has handed its channel over.
    pub listed: Option<Value>,
    /// The server's name and version: `Lacquer 0.1.0`.
    pub program: String,
    /// Present problems, the worst first. `None` before the first check.
    pub problems: Option<Vec<Problem>>,
    pub log: LogState,
}

impl WatchState {
    /// True if a VCL gets requests, or is the only one that could. Without the server's channel that is known from the log: the last
    /// `vcl.use`, and VCLs with recent requests or a label.
    pub fn is_in_use(&self, vcl: &str) -> bool {
        match (&self.in_use, self.before.vcl.as_deref()) {
            (Some(in_use), _) => in_use.contains(vcl),
            (None, None) if self.tally.used.is_idle() => true,
            (None, active) => active == Some(vcl) || self.tally.used.contains(vcl),
        }
    }

    pub fn tell(&mut self, at: u64, kind: &'static str, text: impl Into<String>) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(PageEvent { at, kind, text: text.into() });
    }

    pub fn events_json(&self) -> Value {
        self.events.iter().rev().map(|e| json!([e.at, e.kind, e.text])).collect()
    }

    pub fn restore_events(&mut self, saved: &Value) {
        let event = |saved: &Value| {
            let kind = KINDS.iter().find(|kind| saved[1] == **kind)?;
            Some(PageEvent { at: saved[0].as_u64()?, kind, text: saved[2].as_str()?.to_owned() })
        };
        let all = saved.as_array().map_or(&[][..], Vec::as_slice);
        self.events = all.iter().take(EVENTS).rev().filter_map(event).collect();
    }
}

#[derive(Debug)]
pub struct WatchShared {
    pub options: WatchOptions,
    pub workdir: PathBuf,
    pub state: Mutex<WatchState>,
    /// The channel to the server's CLI, if the server has handed one over.
    pub channel: Option<CliChannel>,
    pub live: Mutex<LiveRequests>,
    /// Events of the page's stream, one per second.
    pub seconds: broadcast::Sender<Arc<str>>,
    pub viewers: AtomicUsize,
    /// Number of messages that viewers lost because they were too slow.
    pub lost: AtomicUsize,
    /// Start time of this process, in seconds since 1970.
    pub begun: u64,
}

impl WatchShared {
    pub fn new(options: WatchOptions, workdir: PathBuf) -> WatchShared {
        let live = LiveRequests::new(Redaction::new(&options.show_headers));
        let (seconds, _) = broadcast::channel(QUEUE);
        WatchShared {
            options,
            workdir,
            state: Mutex::default(),
            channel: None,
            live: Mutex::new(live),
            seconds,
            viewers: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
            begun: now(),
        }
    }

    /// The workdir to show. A process that the server has started knows it by another path.
    pub fn shown_workdir(&self) -> String {
        self.options.shown_workdir.as_ref().unwrap_or(&self.workdir).display().to_string()
    }

    pub fn state(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn live(&self) -> MutexGuard<'_, LiveRequests> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_watched(&self) -> bool {
        self.viewers.load(Ordering::Relaxed) > 0
    }
}

/// Present time in seconds since 1970.
pub fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_secs())
}

#[cfg(test)]
mod tests {
    use logq::Handling;
    use tables::Tag;

    use super::*;
    use crate::events;
    use crate::tally::tests::request;
    use crate::transaction::{WatchedRequest, WatchedTransaction};

    fn ask(state: &mut WatchState, vcl: &str, loaded: &str) {
        let request = request(Handling::Hit, 200, "/", 0.001);
        let request = WatchedRequest { vcl: vcl.as_bytes(), loaded: loaded.as_bytes(), ..request };
        state.tally.add(&WatchedTransaction::Request(request));
    }

    fn command(state: &mut WatchState, text: &str) {
        events::record(state, Tag::Cli, format!("Rd {text}").as_bytes(), 1);
    }

    #[test]
    fn the_log_shows_every_vcl_in_use() {
        let mut state = WatchState::default();
        command(&mut state, "vcl.use boot");
        let names: Vec<String> = (0..40).map(|n| format!("shop{n}")).collect();
        names.iter().for_each(|name| ask(&mut state, &format!("label_{name}"), name));
        assert!(state.is_in_use("boot") && !state.is_in_use("old"));
        assert!(names.iter().all(|name| state.is_in_use(name)));
        // Requests of theirs are rare.
        (0..100).for_each(|_| drop(state.tally.end_second()));
        assert!(names.iter().all(|name| state.is_in_use(name)));
        command(&mut state, "vcl.use next");
        assert!(names.iter().all(|name| state.is_in_use(name)) && !state.is_in_use("boot"));
    }

    #[test]
    fn labels_are_known_from_commands() {
        let mut state = WatchState::default();
        command(&mut state, "vcl.label www shop_1");
        assert!(state.is_in_use("boot") && state.is_in_use("shop_1"), "the active VCL isn't known");
        command(&mut state, "vcl.use www");
        assert!(state.is_in_use("shop_1") && !state.is_in_use("boot"));
        command(&mut state, "vcl.label www shop_2");
        assert!(state.is_in_use("shop_2") && !state.is_in_use("shop_1"));
        command(&mut state, "vcl.use boot");
        assert!(state.is_in_use("shop_2") && state.is_in_use("boot"));
        command(&mut state, "vcl.discard www");
        assert!(!state.is_in_use("shop_2") && state.is_in_use("boot"));
    }
}
