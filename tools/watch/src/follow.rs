// SPDX-License-Identifier: BSD-2-Clause
//! The reading thread. It reads the log in small steps within a budget, and the counters once per second.
//!
//! If the log is faster than the budget, the thread reads a part of it: the beginning of each of the ring's segments, as far as the budget
//! goes. This approximates a random sample. A counter of all records yields the share that was read. (Counters of requests won't do:
//! varnishd counts a request only when its connection has no further one.)

use std::sync::Arc;
use std::time::{Duration, Instant};

use logq::Grouping;
use logq::group::{Grouper, TxnFilter};
use logq::record;
use shm::reader::log::{LogCursor, RingStep, StartAt};
use shm::reader::{CounterReader, CounterValue, status};

use crate::counters::{WatchedCounters, grown};
use crate::history::HistoryPoint;
use crate::keeping::Keeping;
use crate::state::{WatchShared, WatchState, now};
use crate::transaction::{self, WatchedTransaction};
use crate::{document, events};

/// Time between two steps while a viewer has the page open, and while nobody has.
const WATCHED_STEP: Duration = Duration::from_millis(50);
const IDLE_STEP: Duration = Duration::from_millis(250);
/// Budget in bytes of the log per second, in the same two cases. A request takes about 2 KB, and reading it takes some microseconds.
const WATCHED_BYTES: f64 = 15e6;
const IDLE_BYTES: f64 = 4e6;
/// Time between two attempts to open a missing log.
const RETRY: Duration = Duration::from_secs(1);
/// Time over which the share of the log that is read is averaged.
const SHARE_SECONDS: f64 = 5.0;
/// Minimum time between two events of a kind that may repeat.
const QUIET: Duration = Duration::from_secs(60);
/// Maximum number of transactions that wait for their remaining parts.
const PARTS: usize = 500;
/// Time between two writes of history and events to the file that outlives this process.
const KEEP: Duration = Duration::from_secs(5);

/// Number of bytes of the log that may be read now. It grows with time, up to one second's worth.
#[derive(Debug)]
struct Budget {
    left: f64,
    at: Instant,
}

impl Budget {
    fn refill(&mut self, per_second: f64, now: Instant) {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64().min(1.0);
        self.at = now;
        // Unused budget expires after a second.
        self.left = (self.left + seconds * per_second).min(per_second);
    }
}

/// Reads until the process ends. `keeping`: the file in which history and events outlive it.
pub fn run(shared: &WatchShared, mut keeping: Option<Keeping>) {
    if let Some(keeping) = &mut keeping {
        keeping.read(&mut shared.state(), now());
    }
    let mut follower = Follower::new(shared, keeping);
    loop {
        let now = Instant::now();
        follower.log(now);
        if now >= follower.next_second {
            follower.second(now);
        }
        let step = if shared.is_watched() || shared.live().is_followed() { WATCHED_STEP } else { IDLE_STEP };
        std::thread::sleep(step.min(follower.next_second.saturating_duration_since(Instant::now())));
    }
}

struct Follower<'a> {
    shared: &'a WatchShared,
    reader: CounterReader,
    ring: Option<Box<LogCursor>>,
    next_open: Instant,
    /// Transactions whose records come in several parts.
    parts: Grouper,
    budget: Budget,
    /// True if the budget ended before the log did.
    is_behind: bool,
    next_second: Instant,
    second_at: Instant,
    last: Arc<Vec<CounterValue>>,
    /// Number of records read since the last second ended.
    records: u64,
    /// Decaying sums of the records that were read, and of all records.
    read_records: f64,
    all_records: f64,
    last_skip: Option<Instant>,
    told_overrun: Option<Instant>,
    skips: u64,
    bytes: u64,
    keeping: Option<Keeping>,
    next_keep: Instant,
    /// The manager that `program` was determined for.
    manager: Option<(u64, u64)>,
    program: String,
}

fn parts() -> Grouper {
    let wanted = TxnFilter { backend: true, client: true, esi: true, limit: PARTS, timeout: Duration::from_secs(60) };
    Grouper::new(Grouping::Vxid, wanted)
}

impl<'a> Follower<'a> {
    fn new(shared: &'a WatchShared, keeping: Option<Keeping>) -> Follower<'a> {
        let now = Instant::now();
        Follower {
            shared,
            reader: CounterReader::new(&shared.workdir),
            ring: None,
            next_open: now,
            parts: parts(),
            budget: Budget { left: IDLE_BYTES, at: now },
            is_behind: false,
            next_second: now,
            second_at: now,
            last: Arc::default(),
            records: 0,
            read_records: 0.0,
            all_records: 0.0,
            last_skip: None,
            told_overrun: None,
            skips: 0,
            bytes: 0,
            keeping,
            next_keep: now + KEEP,
            manager: None,
            program: String::new(),
        }
    }

    fn log(&mut self, moment: Instant) {
        let watched = self.shared.is_watched() || self.shared.live().is_followed();
        self.budget.refill(if watched { WATCHED_BYTES } else { IDLE_BYTES }, moment);
        let Some(mut ring) = self.ring.take().or_else(|| self.open(moment)) else { return };
        if self.is_behind && ring.skip_ahead() {
            self.gap(moment);
        }
        self.is_behind = false;
        let shared = self.shared;
        let mut state = shared.state();
        let mut live = shared.live();
        let has_followers = live.is_followed();
        let mut last_start = 0.0;
        let lost = loop {
            if self.budget.left <= 0.0 {
                self.is_behind = true;
                break None;
            }
            match ring.step() {
                RingStep::Records(bytes) => {
                    self.budget.left -= bytes.len() as f64;
                    self.bytes += bytes.len() as u64;
                    self.records += record::records(bytes).count() as u64;
                    if has_followers {
                        live.feed(bytes, moment);
                    }
                    last_start = take(&mut state, &mut self.parts, bytes, moment).unwrap_or(last_start);
                    ring.notes().for_each(|note| state.tell(now(), "log", note.to_string()));
                }
                RingStep::End | RingStep::Eof => break None,
                RingStep::Abandoned => break Some(false),
                RingStep::Overrun => break Some(true),
            }
        };
        live.tick(moment);
        if last_start > 0.0 {
            let real =
                std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |t| t.as_secs_f64());
            state.log.late_ms = ((real - last_start) * 1000.0).max(0.0);
        }
        if let Some(is_overrun) = lost {
            state.log.overruns += u64::from(is_overrun);
            live.gap();
            self.parts = parts();
            self.last_skip = Some(moment);
            if is_overrun && self.told_overrun.is_none_or(|at| moment.duration_since(at) > QUIET) {
                self.told_overrun = Some(moment);
                state.tell(now(), "log", "the log was faster than it could be read: some requests are missing");
            }
            // The log can be read again from the writer's present position.
            if is_overrun && ring.skip_ahead() {
                self.ring = Some(ring);
                return;
            }
            state.log.is_open = false;
            self.next_open = moment;
            return;
        }
        self.ring = Some(ring);
    }

    fn open(&mut self, moment: Instant) -> Option<Box<LogCursor>> {
        if moment < self.next_open {
            return None;
        }
        self.next_open = moment + RETRY;
        let ring = LogCursor::open(&self.shared.workdir, StartAt::Now).ok()?;
        let mut state = self.shared.state();
        state.log.is_open = true;
        state.log.reopened += 1;
        Some(Box::new(ring))
    }

    /// Notes that a part of the log was left out on purpose.
    fn gap(&mut self, moment: Instant) {
        self.skips += 1;
        self.last_skip = Some(moment);
        self.parts = parts();
        self.shared.live().gap();
    }

    fn second(&mut self, moment: Instant) {
        let elapsed = moment.saturating_duration_since(self.second_at).as_secs_f64();
        self.second_at = moment;
        while self.next_second <= moment {
            self.next_second += Duration::from_secs(1);
        }
        let read = self.reader.read();
        let who = status(&self.shared.workdir);
        let at = now();
        let mut state = self.shared.state();
        let (readings, problem) = match read {
            Ok(readings) => (readings, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        state.status = who;
        state.problem = problem;
        state.backends.add(&readings);
        let last = Arc::clone(&self.last);
        let (new, before) = (WatchedCounters::new(&readings), WatchedCounters::new(&last));
        // A worker must be running to report its version.
        if who.manager != self.manager || self.program.is_empty() {
            (self.manager, self.program) = (who.manager, crate::program::name(self.shared, who.manager, &new));
        }
        events::second(&mut state, who, &new, &self.program, at);
        events::backends(&mut state, &new, &before);
        self.add_point(&mut state, &new, &before, at, elapsed, moment);
        self.last = Arc::new(readings);
        state.readings = Arc::clone(&self.last);
        state.read_at = Some(moment);
        state.program.clone_from(&self.program);
        (state.log.skips, state.log.bytes) = (self.skips, self.bytes);
        if let Some(keeping) = self.keeping.as_mut().filter(|_| moment >= self.next_keep) {
            self.next_keep = moment + KEEP;
            // If memory is short, the next process begins with an empty chart.
            let _ = keeping.write(&state, at);
        }
        if self.shared.is_watched() {
            let text = format!("event: second\ndata: {}\n\n", document::second(self.shared, &state));
            drop(state);
            // Sending fails if there are no viewers.
            let _ = self.shared.seconds.send(text.into());
        }
    }

    fn add_point(
        &mut self,
        state: &mut WatchState,
        now: &WatchedCounters<'_>,
        before: &WatchedCounters<'_>,
        at: u64,
        elapsed: f64,
        moment: Instant,
    ) {
        let is_first = self.last.is_empty();
        let of = |name: &str| if is_first { 0.0 } else { grown(before.main(name), now.main(name)) as f64 };
        let per_second = |n: f64| if elapsed > 0.05 { n / elapsed } else { 0.0 };
        let second = state.tally.end_second();
        state.tally.blame.end_second(at);
        let requests = of("client_req");
        let fade = 1.0 - 1.0 / SHARE_SECONDS;
        self.read_records = self.read_records * fade + std::mem::take(&mut self.records) as f64;
        self.all_records = self.all_records * fade + of("shm_records");
        let is_sampled = self.last_skip.is_some_and(|at| moment.duration_since(at) < Duration::from_secs(10));
        let share = if is_sampled && self.all_records > 0.0 {
            (self.read_records / self.all_records).clamp(0.0001, 1.0)
        } else {
            1.0
        };
        (state.log.share, state.log.is_sampled) = (share, is_sampled);
        let times = state.tally.recent_times();
        let fetched = if is_first { 0 } else { fetched_bytes(now, before) };
        let answers = ["cache_hit", "cache_miss", "s_pass", "s_pipe", "s_synth"].map(|name| per_second(of(name)));
        let point = HistoryPoint {
            at,
            requests: per_second(requests),
            answers,
            bytes: per_second(of("s_resp_bodybytes")),
            fetched: per_second(fetched as f64),
            errors: per_second(second.errors as f64 / share),
            times,
            share,
            error_bytes: per_second(second.error_bytes as f64 / share),
        };
        state.rates = rates(now, before, is_first, elapsed);
        if state.history.add(point) {
            let times = state.tally.end_minute();
            state.history.end_minute(times);
        }
    }
}

fn fetched_bytes(now: &WatchedCounters<'_>, before: &WatchedCounters<'_>) -> u64 {
    let of = |set: Option<&crate::counters::NamedCounters<'_>>| {
        set.and_then(|set| set.get("beresp_bodybytes")).copied().unwrap_or(0)
    };
    now.backends.iter().map(|(key, set)| grown(of(before.backends.get(key)), of(Some(set)))).sum()
}

/// Growth per second of the worker's counters, of reasons for misses, and of backends (`VCL.backend counter`).
fn rates(
    now: &WatchedCounters<'_>,
    before: &WatchedCounters<'_>,
    is_first: bool,
    elapsed: f64,
) -> std::collections::BTreeMap<String, f64> {
    let mut out = std::collections::BTreeMap::new();
    if is_first || elapsed < 0.05 {
        return out;
    }
    // Most counters don't grow. Only those that do get a name.
    let mut put = |before: u64, now: u64, name: &dyn Fn() -> String| {
        let n = grown(before, now);
        if n > 0 {
            out.insert(name(), n as f64 / elapsed);
        }
    };
    for (name, value) in &now.main {
        put(before.main(name), *value, &|| format!("MAIN.{name}"));
    }
    for ((name, value), (_, old)) in now.no_hit.iter().zip(&before.no_hit) {
        put(*old, *value, &|| format!("NOHIT.{name}"));
    }
    for (key, set) in &now.backends {
        let old = before.backends.get(key);
        for name in ["req", "fail", "beresp_bodybytes"] {
            let of = |set: Option<&crate::counters::NamedCounters<'_>>| {
                set.and_then(|set| set.get(name)).copied().unwrap_or(0)
            };
            put(of(old), of(Some(set)), &|| format!("{}.{} {name}", key.0, key.1));
        }
    }
    out
}

/// Handles records of one transaction, or of none. Returns the start time of the last request among them.
fn take(state: &mut WatchState, parts: &mut Grouper, bytes: &[u8], moment: Instant) -> Option<f64> {
    let (first, _) = record::split(bytes)?;
    if let Some(rec) = first.filter(|rec| rec.vxid == 0) {
        events::record(state, rec.tag, rec.text(), now());
        return None;
    }
    if transaction::is_whole(bytes) {
        return add(state, bytes);
    }
    parts.feed(bytes, moment);
    let mut last = None;
    while let Some(taken) = parts.take(|group| group.iter().filter_map(|txn| add(state, txn.records)).next_back()) {
        last = taken.shown().flatten().or(last);
    }
    last
}

fn add(state: &mut WatchState, records: &[u8]) -> Option<f64> {
    let transaction = transaction::read(records)?;
    state.tally.add(&transaction);
    match transaction {
        WatchedTransaction::Request(request) => Some(request.start).filter(|start| *start > 0.0),
        WatchedTransaction::Fetch(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use logq::record::make;
    use shm::vsl::Marker;
    use tables::Tag;

    use super::*;

    #[test]
    fn a_budget_fills_with_time_and_never_beyond_a_second() {
        let begun = Instant::now();
        let mut budget = Budget { left: 0.0, at: begun };
        budget.refill(1000.0, begun + Duration::from_millis(250));
        assert_eq!(budget.left, 250.0);
        budget.refill(1000.0, begun + Duration::from_secs(60));
        assert_eq!(budget.left, 1000.0);
        budget.left = -500.0;
        budget.refill(1000.0, begun + Duration::from_millis(60_100));
        assert_eq!(budget.left.round(), -400.0);
    }

    #[test]
    fn a_transaction_in_parts_is_added_once_it_is_whole() {
        let mut state = WatchState::default();
        let mut waiting = parts();
        let rec = |tag, text: &str| make(tag, 8, Marker::Client, text.as_bytes());
        let first = [rec(Tag::Begin, "req 7 rxreq"), rec(Tag::ReqMethod, "GET"), rec(Tag::ReqUrl, "/a")].concat();
        let second = [rec(Tag::VclCall, "HIT"), rec(Tag::RespStatus, "200"), rec(Tag::End, "")].concat();
        take(&mut state, &mut waiting, &first, Instant::now());
        assert_eq!(state.tally.transactions, 0);
        take(&mut state, &mut waiting, &second, Instant::now());
        assert_eq!((state.tally.transactions, state.tally.client_requests), (1, 1));
        take(&mut state, &mut waiting, &[first, second].concat(), Instant::now());
        assert_eq!(state.tally.transactions, 2);
    }
}
