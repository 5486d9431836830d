// SPDX-License-Identifier: BSD-2-Clause
//! All that is known of the server, as one thread reads it and others show it.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use logq::Redaction;
use serde_json::{Value, json};
use shm::reader::{CounterValue, Status};
use tokio::sync::broadcast;

use crate::control::Channel;
use crate::counters::BackendSums;
use crate::events::Before;
use crate::history::History;
use crate::live::Live;
use crate::options::Options;
use crate::problems::Problem;
use crate::tally::Tally;

/// Messages that wait for a viewer; one that is slower loses the oldest, and is told how many.
const QUEUE: usize = 4;
/// Events that are kept.
const EVENTS: usize = 100;
/// Kinds of events, each with a colour on the page: workers that ended; workers that began, upgrades; backends; VCLs; bans and purges of
/// nearly everything; the log itself.
const KINDS: [&str; 6] = ["worker", "start", "backend", "vcl", "purge", "log"];

/// How reading the log goes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LogState {
    /// Whether there is a log to follow.
    pub is_open: bool,
    /// How much of it is read: 1 is all.
    pub share: f64,
    /// Whether parts were left out of late, on purpose.
    pub is_sampled: bool,
    /// How often the writer has overtaken us.
    pub overruns: u64,
    /// How often parts were left out.
    pub skips: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// How often another worker's log was taken up.
    pub reopened: u64,
    /// Milliseconds from a request's beginning to its being read here, of the last ones.
    pub late_ms: f64,
}

/// What was noticed: a worker that died, a backend that went sick.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// Seconds since 1970.
    pub at: u64,
    /// One of [`KINDS`].
    pub kind: &'static str,
    /// What it is.
    pub text: String,
}

/// What a backend's probe said last.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Health {
    /// Whether it is well.
    pub is_well: bool,
    /// When that began: seconds since 1970; 0: it was so before anybody watched.
    pub since: u64,
}

/// What the reading thread knows.
#[derive(Debug, Default)]
pub struct State {
    /// Who runs.
    pub status: Status,
    /// The last reading.
    pub readings: Arc<Vec<CounterValue>>,
    /// When that was.
    pub read_at: Option<Instant>,
    /// Why there is none.
    pub problem: Option<String>,
    /// What the log added up to.
    pub tally: Tally,
    /// Seconds and minutes.
    pub history: History,
    /// Backends over all VCLs.
    pub backends: BackendSums,
    /// How often each counter that is shown by the second grew in the last one.
    pub rates: BTreeMap<String, f64>,
    /// Probes, by backend.
    pub health: BTreeMap<String, Health>,
    /// What happened.
    pub events: VecDeque<Event>,
    /// What events are noticed by.
    pub before: Before,
    /// The backends of the VCL in use as `backend.list -j` had them last, where the server's own channel is there to ask.
    pub listed: Option<Value>,
    /// The server's name and version: `Lacquer 0.1.0`.
    pub program: String,
    /// What is wrong now, the worst first.
    pub problems: Vec<Problem>,
    /// How reading the log goes.
    pub log: LogState,
}

impl State {
    /// Keeps an event.
    pub fn tell(&mut self, at: u64, kind: &'static str, text: impl Into<String>) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(Event { at, kind, text: text.into() });
    }

    /// The events for the page, the newest first.
    pub fn events_json(&self) -> Value {
        self.events.iter().rev().map(|e| json!([e.at, e.kind, e.text])).collect()
    }

    /// Takes what [`State::events_json`] wrote.
    pub fn restore_events(&mut self, saved: &Value) {
        let event = |saved: &Value| {
            let kind = KINDS.iter().find(|kind| saved[1] == **kind)?;
            Some(Event { at: saved[0].as_u64()?, kind, text: saved[2].as_str()?.to_owned() })
        };
        let all = saved.as_array().map_or(&[][..], Vec::as_slice);
        self.events = all.iter().take(EVENTS).rev().filter_map(event).collect();
    }
}

/// What threads share.
#[derive(Debug)]
pub struct Shared {
    /// How it was started.
    pub options: Options,
    /// The server's workdir.
    pub workdir: PathBuf,
    /// What is known.
    pub state: Mutex<State>,
    /// Where the server's CLI answers questions, if the server has given that.
    pub channel: Option<Channel>,
    /// The list of requests.
    pub live: Mutex<Live>,
    /// What the page is told each second, as an event of its stream.
    pub seconds: broadcast::Sender<Arc<str>>,
    /// Those who look at the page.
    pub viewers: AtomicUsize,
    /// Messages that viewers lost since they were too slow.
    pub lost: AtomicUsize,
    /// Seconds since 1970 when it began.
    pub begun: u64,
}

impl Shared {
    /// Nothing is known yet.
    pub fn new(options: Options, workdir: PathBuf) -> Shared {
        let live = Live::new(Redaction::new(&options.show_headers));
        let (seconds, _) = broadcast::channel(QUEUE);
        Shared {
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

    /// The workdir's name for people: of the server's own process, which is told another way to it, too.
    pub fn shown_workdir(&self) -> String {
        self.options.shown_workdir.as_ref().unwrap_or(&self.workdir).display().to_string()
    }

    /// What is known.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list of requests.
    pub fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody looks.
    pub fn is_watched(&self) -> bool {
        self.viewers.load(Ordering::Relaxed) > 0
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_secs())
}
