// SPDX-License-Identifier: BSD-2-Clause
//! A coordinator: reads the source, deals requests to the workers, adds up what they count.
//!
//! Rates and connections are divided among the workers that are there when a part begins. What a worker counted is known up to
//! its last second; when it is lost, what it was dealt since is told as unaccounted for, and the others go on.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use logq::source::strerror;
use serde_json::{Value, json};

use super::dealer::{Dealer, DealtWorkers};
use super::orders::{Open, OpenStream, OrderPart};
use super::wire::{Frame, MAX_FRAME, ReplayFrameKind};
use super::{MAX_STREAMS, SILENCE, handshake, prepare, tally};
use crate::end::ReplayEnd;
use crate::engine::{ReplayEngine, ReplayLimits};
use crate::options::ReplayOptions;
use crate::pace::ReplayPace;
use crate::progress::ReplayStanding;
use crate::reader::{self, ReaderReport, ReadingPlan};
use crate::report::{self, CountedRequests, ReplayClient};
use crate::run::{RequestSender, RunWatch};
use crate::server::round;
use crate::stats::{ReplaySecond, ReplayStats, ReplayTimes};
use crate::stream::Keep;
use crate::target::TargetAddresses;

/// Figures of workers that wait to be taken in.
const MAX_WAITING: usize = 1024;
const CONNECT: Duration = Duration::from_secs(5);
/// Longest wait for the first requests before a part begins.
const FIRST: Duration = Duration::from_millis(500);
/// Seconds of which a worker's figures may still be missing.
const MAX_OPEN_SECONDS: usize = 12;
const SECOND: Duration = Duration::from_secs(1);

enum Heard {
    Tick(Value),
    Report(Value),
    Gone(String),
}

struct Member {
    /// Address of the worker as given.
    name: String,
    stats: Vec<ReplayStats>,
    cpu: f64,
    ns: u64,
    /// Requests of each stream that are over, since the beginning.
    done: [u64; MAX_STREAMS],
    end: Option<ReplayEnd>,
    /// True if it takes part in this part.
    is_asked: bool,
    heard: Instant,
    second: Option<u64>,
    /// Time since which it can't be written to. Its last messages may still be on their way.
    deaf: Option<Instant>,
    lost: Option<String>,
}

struct Shared {
    name: &'static str,
    told: Arc<ReaderReport>,
    is_open: bool,
    stats: ReplayStats,
    /// Seconds that aren't complete.
    open: BTreeMap<u64, (ReplaySecond, ReplayTimes)>,
    seconds: Vec<ReplaySecond>,
}

pub struct Coordinator<'o> {
    options: &'o ReplayOptions,
    /// For Ctrl-C, and to be woken.
    engine: ReplayEngine,
    addresses: TargetAddresses,
    dealt_workers: Arc<DealtWorkers>,
    heard: Receiver<(usize, Heard)>,
    members: Vec<Member>,
    is_stopped: bool,
    shared: Vec<Shared>,
}

impl<'o> Coordinator<'o> {
    /// One whose workers are ready and are dealt to. Must be made before there are threads.
    ///
    /// # Errors
    /// A worker that isn't there, or refuses.
    pub fn new(o: &'o ReplayOptions) -> Result<Coordinator<'o>, String> {
        let addresses = TargetAddresses::default();
        let engine = ReplayEngine::new(addresses.clone()).map_err(|e| strerror(&e))?;
        let mut lines = Vec::new();
        for name in &o.workers {
            let line = reach(name, &o.secret).map_err(|e| format!("worker {name}: {}", strerror(&e)))?;
            lines.push(line);
        }
        let ears: Vec<TcpStream> =
            lines.iter().map(TcpStream::try_clone).collect::<Result<_, _>>().map_err(|e| strerror(&e))?;
        let dealt_workers = Arc::new(DealtWorkers::new(lines, addresses.clone()));
        let (to, heard) = sync_channel(MAX_WAITING);
        for (at, ear) in ears.into_iter().enumerate() {
            listen(at, ear, dealt_workers.clone(), to.clone(), engine.waker()).map_err(|e| strerror(&e))?;
        }
        let members = o.workers.iter().map(|name| Member::new(name)).collect();
        let (is_stopped, shared) = (false, Vec::new());
        let mut coordinator =
            Coordinator { options: o, engine, addresses, dealt_workers, heard, members, is_stopped, shared };
        coordinator.open()?;
        Ok(coordinator)
    }

    fn open(&mut self) -> Result<(), String> {
        let o = self.options;
        let n = self.members.len();
        for at in 0..n {
            let first = OpenStream {
                name: "replay".into(),
                // Divided; what is left over goes to the first ones.
                connections: o.connections / n + usize::from(at < o.connections % n),
                keep: o.keep,
                is_beside: false,
            };
            let walker = OpenStream {
                name: "walker".into(),
                connections: 1,
                keep: Keep { share: 1.0, most: None },
                is_beside: true,
            };
            let streams = if self.has_walker(at) { vec![first, walker] } else { vec![first] };
            let (seed, trust) = (o.plan.seed.wrapping_add(1000 * at as u64), o.trust.clone());
            let open = Open { streams, top: o.top, seed, trust };
            self.dealt_workers.send(at, &Frame::json(ReplayFrameKind::Open, &open.json()));
        }
        self.shared.push(self.deal("replay", &o.plan, o.pace, 0)?);
        if let Some((plan, pace)) = &o.walker {
            self.shared.push(self.deal("walker", plan, *pace, 1)?);
        }
        Ok(())
    }

    /// True if the walker is on this worker: it is on the first one.
    fn has_walker(&self, at: usize) -> bool {
        at == 0 && self.options.walker.is_some()
    }

    fn deal(&self, name: &'static str, plan: &ReadingPlan, pace: ReplayPace, stream: usize) -> Result<Shared, String> {
        let told = self.dealer(plan, stream, 0)?;
        let stats = ReplayStats::new(self.options.top);
        Ok(Shared { name, told, is_open: pace.is_open(), stats, open: BTreeMap::new(), seconds: Vec::new() })
    }

    fn dealer(&self, plan: &ReadingPlan, stream: usize, generation: u32) -> Result<Arc<ReaderReport>, String> {
        let failed = |e: std::io::Error| strerror(&e);
        let (from, told) = reader::start(plan.clone(), self.addresses.clone(), || ()).map_err(failed)?;
        let dealer = Dealer {
            from,
            told: told.clone(),
            dealt_workers: self.dealt_workers.clone(),
            stream,
            generation,
            to: if stream == 0 { self.dealt_workers.living() } else { vec![0] },
            is_timed: plan.is_timed,
            most: self.options.requests.filter(|_| stream == 0),
        };
        std::thread::Builder::new().name("replay-dealer".into()).spawn(move || dealer.run()).map_err(failed)?;
        Ok(told)
    }

    fn begin(&mut self, pace: ReplayPace, limits: &ReplayLimits) -> usize {
        let living = self.dealt_workers.living();
        for (i, &at) in living.iter().enumerate() {
            let mut paces = vec![share(pace, i, living.len())];
            if self.has_walker(at)
                && let Some((_, pace)) = self.options.walker
            {
                paces.push((pace, 0));
            }
            self.dealt_workers
                .send(at, &Frame::json(ReplayFrameKind::Part, &OrderPart { paces, limits: limits.clone() }.json()));
            self.members[at].begin();
        }
        for shared in &mut self.shared {
            shared.stats = ReplayStats::new(self.options.top);
            (shared.open, shared.seconds) = (BTreeMap::new(), Vec::new());
        }
        living.len()
    }

    fn hear_all(&mut self) {
        while let Ok((at, heard)) = self.heard.try_recv() {
            let heard_well = match heard {
                Heard::Tick(value) => self.take(at, &value, None),
                Heard::Report(value) => {
                    let end = value["end"].as_str().and_then(ReplayEnd::parse).unwrap_or(ReplayEnd::Interrupted);
                    let taken = self.take(at, &value, Some(end));
                    // It leaves: the others' parts and passes go on without it.
                    if matches!(end, ReplayEnd::Interrupted | ReplayEnd::InterruptedInWarmup) && !self.is_stopped {
                        self.lose(at, "it was interrupted there");
                    }
                    taken
                }
                Heard::Gone(why) => {
                    self.lose(at, &why);
                    Some(())
                }
            };
            if heard_well.is_none() {
                self.lose(at, "what it says makes no sense");
            }
        }
        for at in 0..self.members.len() {
            let is_alive = self.dealt_workers.worker(at).is_alive;
            let member = &mut self.members[at];
            if !member.is_under_way() {
                continue;
            }
            if !is_alive {
                member.deaf.get_or_insert_with(Instant::now);
            }
            if member.heard.elapsed() > SILENCE {
                self.lose(at, "it was silent for 10 s");
            } else if member.deaf.is_some_and(|since| since.elapsed() > SECOND) {
                self.lose(at, "it can't be written to");
            }
        }
    }

    fn lose(&mut self, at: usize, why: &str) {
        self.dealt_workers.lose(at);
        self.members[at].lost.get_or_insert_with(|| why.to_owned());
    }

    /// Takes a worker's figures in; None: they are none.
    fn take(&mut self, at: usize, value: &Value, end: Option<ReplayEnd>) -> Option<()> {
        let member = &mut self.members[at];
        member.heard = Instant::now();
        member.cpu = value["cpu"].as_f64().filter(|cpu| (0.0..1e9).contains(cpu))?;
        let second = value["second"].as_u64().filter(|second| *second < 1 << 40);
        let streams = value["streams"].as_array()?;
        for (i, (stream, shared)) in streams.iter().zip(&mut self.shared).enumerate() {
            let (stats, of_second) = tally::decode(stream, self.options.top)?;
            member.stats[i] = stats;
            member.done[i] = value["done"][i].as_u64()?;
            if let (Some(second), Some((counts, times))) = (second, of_second) {
                shared.add_second(second, counts, &times);
            }
        }
        member.ns = value["ns"].as_u64().or(value["passed"].as_u64()).filter(|ns| *ns < 1 << 60)?;
        (member.second, member.end) = (second.or(member.second), end);
        Some(())
    }

    /// Closes the seconds of which all have told; the last one closed.
    fn close_seconds(&mut self, is_over: bool) {
        let told = |m: &Member| if m.is_under_way() { Some(m.second.unwrap_or(0)) } else { None };
        let until = self.members.iter().filter_map(told).min().unwrap_or(u64::MAX);
        for shared in &mut self.shared {
            while let Some((&at, _)) = shared.open.first_key_value() {
                if !(is_over || at <= until || shared.open.len() > MAX_OPEN_SECONDS) {
                    break;
                }
                let Some((mut second, times)) = shared.open.remove(&at) else { break };
                second.close(&times);
                shared.seconds.push(second);
            }
        }
    }

    fn sum(&mut self) {
        for (i, shared) in self.shared.iter_mut().enumerate() {
            shared.stats = ReplayStats::new(self.options.top);
            for member in self.members.iter().filter(|m| m.is_asked) {
                if let Some(stats) = member.stats.get(i) {
                    tally::add(&mut shared.stats, stats);
                }
            }
            shared.stats.series.over.clone_from(&shared.seconds);
        }
    }

    fn standing(&self) -> ReplayStanding<'_> {
        let shared = &self.shared[0];
        let sum = |of: &dyn Fn(&ReplayStats) -> u64| self.members.iter().filter_map(|m| m.stats.first()).map(of).sum();
        ReplayStanding {
            answers: sum(&|s| s.answers),
            second: shared.seconds.last().copied().unwrap_or_default(),
            tells_hits: sum(&|s| s.cache.known) > 0,
            failed: sum(&ReplayStats::failed),
            begun: sum(&|s| s.sent),
            most: self.options.requests,
            told: &shared.told,
        }
    }

    fn report(&self, watch: &RunWatch) -> (Value, ReplayEnd) {
        let took_part = || self.members.iter().filter(|m| m.is_asked);
        let ns = took_part().map(|m| m.ns).max().unwrap_or(0).max(1);
        let ends: Vec<ReplayEnd> = took_part().filter(|m| m.lost.is_none()).filter_map(|m| m.end).collect();
        let end = ReplayEnd::ALL.into_iter().find(|end| ends.contains(end)).unwrap_or(ReplayEnd::GaveUp);
        let cpu = || took_part().map(|m| m.cpu);
        let client = ReplayClient { cpu_seconds: cpu().sum(), busiest: cpu().fold(0.0, f64::max) };
        let streams: Vec<CountedRequests<'_>> = self.shared.iter().map(Shared::counted).collect();
        let mut report = report::run(&streams, ns, end, client, watch.meter.as_ref());
        report["workers"] = took_part().map(row).collect();
        if let Some(notes) = report["notes"].as_array_mut() {
            for (at, member) in self.members.iter().enumerate() {
                notes.extend(self.note(at, member).map(Value::from));
            }
        }
        (report, end)
    }

    fn note(&self, at: usize, m: &Member) -> Option<String> {
        let why = m.lost.as_ref()?;
        let dealt: u64 = self.dealt_workers.worker(at).dealt.iter().sum();
        let open = dealt.saturating_sub(m.done.iter().sum());
        Some(format!(
            "worker {} is lost ({why}): what it counted up to its last second is in the report, {open} requests that it was dealt are not",
            m.name
        ))
    }
}

impl RequestSender for Coordinator<'_> {
    fn refill(&mut self) -> Result<(), String> {
        let generation = self.dealt_workers.renew(0);
        for at in self.dealt_workers.living() {
            self.dealt_workers.send(at, &Frame::of_stream(ReplayFrameKind::Refill, 0, generation));
        }
        self.shared[0].told = self.dealer(&self.options.plan, 0, generation)?;
        Ok(())
    }

    fn part(
        &mut self,
        pace: ReplayPace,
        limits: &ReplayLimits,
        watch: &mut RunWatch,
    ) -> Result<(Value, ReplayEnd), String> {
        self.dealt_workers.wait_served(0, FIRST);
        if self.begin(pace, limits) == 0 {
            return Err("all workers are lost".into());
        }
        let begun = Instant::now();
        let (mut next, mut interrupts) = (SECOND, 0);
        // After Ctrl-C they have this long to say what there is.
        let mut until = None;
        while self.members.iter().any(Member::is_under_way) && until.is_none_or(|until| Instant::now() < until) {
            if self.engine.rest(next.saturating_sub(begun.elapsed())).map_err(|e| strerror(&e))? {
                interrupts += 1;
                self.is_stopped = true;
                self.dealt_workers
                    .living()
                    .into_iter()
                    .for_each(|at| self.dealt_workers.send(at, &Frame::empty(ReplayFrameKind::Stop)));
                until = Some(Instant::now() + if interrupts > 1 { Duration::ZERO } else { 3 * SECOND });
            }
            self.hear_all();
            self.close_seconds(false);
            if begun.elapsed() >= next {
                next = begun.elapsed() + SECOND;
                watch.tick(begun.elapsed().as_nanos() as u64, &self.standing());
            }
        }
        let slow: Vec<usize> = (0..self.members.len()).filter(|at| self.members[*at].is_under_way()).collect();
        slow.into_iter().for_each(|at| self.lose(at, "it didn't end in time"));
        watch.end();
        self.close_seconds(true);
        self.sum();
        let (report, end) = self.report(watch);
        Ok((report, if interrupts > 0 && !end.is_unmeasured() { ReplayEnd::Interrupted } else { end }))
    }

    fn stats(&self) -> &ReplayStats {
        &self.shared[0].stats
    }

    fn is_unanswered(&self) -> bool {
        self.shared.iter().all(|s| s.stats.answers == 0)
    }

    fn is_damaged(&self) -> bool {
        self.members.iter().any(|m| m.lost.is_some())
    }
}

impl Member {
    fn new(name: &str) -> Member {
        Member {
            name: name.to_owned(),
            stats: Vec::new(),
            cpu: 0.0,
            ns: 0,
            done: [0; MAX_STREAMS],
            end: None,
            is_asked: false,
            heard: Instant::now(),
            second: None,
            deaf: None,
            lost: None,
        }
    }

    fn begin(&mut self) {
        self.stats = vec![ReplayStats::new(0); MAX_STREAMS];
        (self.cpu, self.ns, self.end, self.second) = (0.0, 0, None, None);
        (self.is_asked, self.heard) = (true, Instant::now());
    }

    fn is_under_way(&self) -> bool {
        self.is_asked && self.end.is_none() && self.lost.is_none()
    }
}

impl Shared {
    fn add_second(&mut self, at: u64, second: ReplaySecond, times: &ReplayTimes) {
        let (sum, all) = self.open.entry(at).or_default();
        sum.answers = sum.answers.saturating_add(second.answers);
        sum.faults = sum.faults.saturating_add(second.faults);
        sum.hits = sum.hits.saturating_add(second.hits);
        all.add_all(times);
    }

    fn counted(&self) -> CountedRequests<'_> {
        CountedRequests { name: self.name, stats: &self.stats, told: &self.told, is_open: self.is_open }
    }
}

fn row(m: &Member) -> Value {
    let seconds = m.ns as f64 / 1e9;
    let (answers, failed) = m.stats.iter().fold((0, 0), |(a, f), s| (a + s.answers, f + s.failed()));
    json!({
        "address": m.name,
        "seconds": round(seconds, 3),
        "answers": answers,
        "failed": failed,
        "rate": round(answers as f64 / seconds.max(1e-9), 3),
        "p99_ms": round(m.stats.first().map_or(0, |s| s.latency.percentile(99.0)) as f64 / 1e6, 3),
        "cpu_seconds": round(m.cpu, 3),
        "end": m.end.map(ReplayEnd::word),
        "lost": m.lost,
    })
}

/// A worker's share of a pace: of a rate its part, begun so much later than the first worker's that all together are even.
fn share(pace: ReplayPace, i: usize, n: usize) -> (ReplayPace, u64) {
    match pace {
        ReplayPace::Rate { rate, is_random } => {
            let offset = if is_random { 0.0 } else { 1e9 / rate * i as f64 };
            (ReplayPace::Rate { rate: rate / n as f64, is_random }, offset as u64)
        }
        ReplayPace::Closed { .. } | ReplayPace::Log { .. } => (pace, 0),
    }
}

fn reach(name: &str, secret: &[u8]) -> std::io::Result<TcpStream> {
    let found: Vec<SocketAddr> = name.to_socket_addrs()?.collect();
    let mut last = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
    for address in found {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => {
                prepare(&stream)?;
                handshake::by_coordinator(&stream, secret)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The thread that listens to a worker: credits go to who deals, the rest to who adds up.
fn listen(
    at: usize,
    stream: TcpStream,
    dealt_workers: Arc<DealtWorkers>,
    to: SyncSender<(usize, Heard)>,
    wake: impl Fn() + Send + 'static,
) -> std::io::Result<()> {
    let run = move || {
        let mut from = BufReader::new(stream);
        loop {
            let heard = match Frame::read(&mut from, MAX_FRAME).and_then(|frame| word(at, &dealt_workers, &frame)) {
                Ok(None) => continue,
                Ok(Some(heard)) => heard,
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Heard::Gone("it ended".into()),
                Err(error) => Heard::Gone(strerror(&error)),
            };
            let is_last = matches!(heard, Heard::Gone(_));
            if is_last {
                dealt_workers.lose(at);
            }
            if to.send((at, heard)).is_err() {
                return;
            }
            wake();
            if is_last {
                return;
            }
        }
    };
    std::thread::Builder::new().name("replay-worker".into()).spawn(run).map(drop)
}

/// The message in a worker's frame.
fn word(at: usize, dealt_workers: &DealtWorkers, frame: &Frame) -> std::io::Result<Option<Heard>> {
    match frame.kind {
        ReplayFrameKind::Credit => {
            let (stream, generation) = frame.stream()?;
            if stream >= MAX_STREAMS {
                return Err(super::wire::broken());
            }
            dealt_workers.credit(at, stream, generation);
            Ok(None)
        }
        ReplayFrameKind::Tick => Ok(Some(Heard::Tick(frame.value()?))),
        ReplayFrameKind::Report => Ok(Some(Heard::Report(frame.value()?))),
        _ => Err(super::wire::broken()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_divided_evenly() {
        let rate = |rate| ReplayPace::Rate { rate, is_random: false };
        assert_eq!(share(rate(100.0), 0, 4), (rate(25.0), 0));
        assert_eq!(share(rate(100.0), 3, 4), (rate(25.0), 30_000_000));
        let random = ReplayPace::Rate { rate: 100.0, is_random: true };
        assert_eq!(share(random, 3, 4), (ReplayPace::Rate { rate: 25.0, is_random: true }, 0));
        assert_eq!(share(ReplayPace::Log { speed: 2.0 }, 3, 4), (ReplayPace::Log { speed: 2.0 }, 0));
    }
}
