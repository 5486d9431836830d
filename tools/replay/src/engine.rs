// SPDX-License-Identifier: BSD-2-Clause
//! The loop that sends and receives: one thread, edge-triggered epoll, buffers reused.
//!
//! Streams of requests (`stream`) decide what is sent and when; connections (`link`) carry it. An open loop keeps no queue:
//! what is due and finds no connection free stays where it is, and its latency counts from when it was due.

mod links;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use nix::poll::{PollFd, PollFlags, ppoll};
use sys::signal::{self, Signals};
use tls::Spoken;

use crate::answer::Codec;
use crate::end::ReplayEnd;
use crate::faults::ReplayFault;
use crate::h3;
use crate::link::ReplayLink;
use crate::stream::ReplayStream;
use crate::target::{ReplayAddress, TargetAddresses};

const SECOND: u64 = 1_000_000_000;
const LOOK: u64 = SECOND / 10;
const BACK_OFF: u64 = SECOND / 10;
/// Longest wait for answers after Ctrl-C.
const PARTING: u64 = SECOND;
const BUFFER_BYTES: usize = 128 << 10;
/// Waits shorter than this are timed exactly.
const FINE: u64 = 20_000_000;

const WAKE: Token = Token(usize::MAX);
const SIGNAL: Token = Token(usize::MAX - 1);

#[derive(Clone, Debug)]
pub struct ReplayLimits {
    pub duration: Option<u64>,
    /// Warm-up in nanoseconds, in which nothing is counted.
    pub warmup: u64,
    pub timeout: u64,
    /// Longest time with failures and no answer, in nanoseconds; 0: for ever.
    pub give_up: u64,
    pub bind: Vec<IpAddr>,
    pub tls: Option<Arc<tls::TlsClient>>,
    pub spoken: Spoken,
}

/// Called once a second, and when the warm-up is over: nanoseconds since the start, and the streams.
pub type Tick<'a> = dyn FnMut(u64, &[ReplayStream]) + 'a;

pub struct ReplayEngine {
    poll: Poll,
    waker: Arc<Waker>,
    signals: Signals,
    begun: Instant,
    links: Vec<Option<ReplayLink>>,
    free: Vec<usize>,
    addresses: Vec<ReplayAddress>,
    all: TargetAddresses,
    codec: Codec,
    buffer: Vec<u8>,
    /// When a user has thought, and of which stream.
    thinking: BinaryHeap<Reverse<(u64, usize)>>,
    /// When time has to tell of something, and which connection: those over QUIC.
    alarms: BinaryHeap<Reverse<(u64, usize)>>,
    quic: Option<h3::ReplayHttp3Config>,
    binds: usize,
    interrupts: u32,
    /// Another thread wants the run to end.
    is_stopped: Arc<AtomicBool>,
}

impl ReplayEngine {
    /// One without connections. Must be made before there are threads: it blocks signals.
    ///
    /// # Errors
    /// The operating system's word.
    pub fn new(all: TargetAddresses) -> io::Result<ReplayEngine> {
        let signals = Signals::new(&[signal::SIGINT, signal::SIGTERM])?;
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        poll.registry().register(&mut SourceFd(&signals.as_fd().as_raw_fd()), SIGNAL, Interest::READABLE)?;
        // Else a wait ends up to 50 us late.
        let _ = nix::sys::prctl::set_timerslack(1);
        Ok(ReplayEngine {
            poll,
            waker,
            signals,
            begun: Instant::now(),
            links: Vec::new(),
            free: Vec::new(),
            addresses: Vec::new(),
            all,
            codec: Codec::default(),
            buffer: vec![0; BUFFER_BYTES],
            thinking: BinaryHeap::new(),
            alarms: BinaryHeap::new(),
            quic: None,
            binds: 0,
            interrupts: 0,
            is_stopped: Arc::default(),
        })
    }

    /// Forgets the connections, the addresses and that it was to stop.
    pub fn renew(&mut self, all: TargetAddresses) {
        (self.links, self.free, self.addresses) = (Vec::new(), Vec::new(), Vec::new());
        self.thinking.clear();
        self.alarms.clear();
        self.quic = None;
        (self.all, self.is_stopped) = (all, Arc::default());
    }

    pub fn stopper(&self) -> impl Fn() + Send + 'static {
        let (is_stopped, wake) = (self.is_stopped.clone(), self.waker());
        move || {
            is_stopped.store(true, Ordering::SeqCst);
            wake();
        }
    }

    /// Waits between runs until a waker calls, or so long; true after Ctrl-C.
    ///
    /// # Errors
    /// Waiting failed.
    pub fn rest(&mut self, limit: Duration) -> io::Result<bool> {
        let before = self.interrupts;
        let mut events = Events::with_capacity(64);
        match self.poll.poll(&mut events, Some(limit)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        while let Ok(Some(_)) = self.signals.take() {
            self.interrupts += 1;
        }
        Ok(self.interrupts > before)
    }

    pub fn was_interrupted(&self) -> bool {
        self.interrupts > 0
    }

    pub fn waker(&self) -> impl Fn() + Send + 'static {
        let waker = self.waker.clone();
        move || {
            let _ = waker.wake();
        }
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Sends all that `streams` have until an end is reached. Nanoseconds that were counted, and why it ended.
    ///
    /// # Errors
    /// Waiting failed.
    pub fn run(
        &mut self,
        streams: &mut [ReplayStream],
        limits: &ReplayLimits,
        tick: &mut Tick<'_>,
    ) -> io::Result<(u64, ReplayEnd)> {
        let start = self.now();
        let mut run = Run {
            start,
            counted_from: start,
            end: limits.duration.map(|d| start + limits.warmup + d),
            next_second: start + SECOND,
            next_look: start + LOOK,
            is_warm: limits.warmup == 0,
            over: None,
            last_answer: start,
            failing: None,
            drain_until: u64::MAX,
        };
        self.thinking.clear();
        streams.iter_mut().for_each(|s| s.begin(start, run.end));
        let mut events = Events::with_capacity(512);
        loop {
            let mut now = self.now();
            self.timers(streams, limits, &mut run, now, tick);
            self.ring(streams, limits, &mut run, now);
            for s in 0..streams.len() {
                self.pump(streams, s, limits, &mut run);
            }
            // After what was due before the end had its chance.
            if run.over.is_none() && run.end.is_some_and(|end| now >= end) {
                run.over = Some(ReplayEnd::Time);
                run.drain_until = now + limits.timeout;
            }
            if self.is_over(streams, &mut run) {
                break;
            }
            self.wait(&mut events, &run, streams)?;
            for event in &events {
                match event.token() {
                    WAKE => {}
                    SIGNAL => self.signal(&mut run),
                    Token(at) => {
                        now = self.now();
                        self.event(streams, at, event.is_readable(), event.is_read_closed(), limits, &mut run, now);
                    }
                }
            }
        }
        let now = self.now();
        self.part(streams);
        if run.over == Some(ReplayEnd::Time) {
            let end = run.end.unwrap_or(now);
            streams.iter_mut().for_each(|s| s.count_unsent(end, now));
        }
        streams.iter_mut().for_each(|s| s.stats.settle());
        let end = run.over.unwrap_or(ReplayEnd::Done);
        let end = if run.is_warm { end } else { end.in_warmup() };
        if end.is_unmeasured() {
            streams.iter_mut().for_each(ReplayStream::forget);
        }
        let until = run.end.filter(|_| run.over == Some(ReplayEnd::Time)).map_or(now, |end| end.max(run.last_answer));
        Ok((until.saturating_sub(run.counted_from).max(1), end))
    }

    fn signal(&mut self, run: &mut Run) {
        while let Ok(Some(_)) = self.signals.take() {
            self.interrupts += 1;
            let now = self.now();
            run.over = Some(ReplayEnd::Interrupted);
            run.drain_until = if self.interrupts > 1 { now } else { now + PARTING };
        }
    }

    fn timers(
        &mut self,
        streams: &mut [ReplayStream],
        limits: &ReplayLimits,
        run: &mut Run,
        now: u64,
        tick: &mut Tick<'_>,
    ) {
        while let Some(Reverse((at, s))) = self.thinking.peek().copied() {
            if at > now {
                break;
            }
            self.thinking.pop();
            streams[s].ready += 1;
        }
        if !run.is_warm && run.over.is_none() && now >= run.start + limits.warmup {
            run.is_warm = true;
            tick(now - run.start, streams);
            run.counted_from = now;
            run.next_second = now + SECOND;
            streams.iter_mut().for_each(ReplayStream::forget);
        }
        if now >= run.next_second {
            run.next_second += SECOND * ((now - run.next_second) / SECOND + 1);
            tick(now - run.start, streams);
            streams.iter_mut().for_each(|s| s.stats.end_second());
        }
        if run.over.is_none() && self.is_stopped.load(Ordering::Relaxed) {
            (run.over, run.drain_until) = (Some(ReplayEnd::Interrupted), now + PARTING);
        }
        if now >= run.next_look {
            run.next_look = now + LOOK;
            self.time_out(streams, limits, run, now);
            if limits.give_up > 0 && run.failing_time() >= limits.give_up && run.over.is_none() {
                run.over = Some(ReplayEnd::GaveUp);
                run.drain_until = now;
            }
        }
    }

    fn ring(&mut self, streams: &mut [ReplayStream], limits: &ReplayLimits, run: &mut Run, now: u64) {
        while let Some(Reverse((alarm, at))) = self.alarms.peek().copied().filter(|Reverse((alarm, _))| *alarm <= now) {
            self.alarms.pop();
            let Some(link) = self.links.get_mut(at).and_then(Option::as_mut) else { continue };
            if link.elapse(alarm, now) {
                self.event(streams, at, true, false, limits, run, now);
            } else {
                self.set_alarm(at);
            }
        }
    }

    fn set_alarm(&mut self, at: usize) {
        let alarm = self.links.get_mut(at).and_then(Option::as_mut).and_then(ReplayLink::new_alarm);
        self.alarms.extend(alarm.map(|alarm| Reverse((alarm, at))));
    }

    fn time_out(&mut self, streams: &mut [ReplayStream], limits: &ReplayLimits, run: &mut Run, now: u64) {
        for at in 0..self.links.len() {
            let is_late = |link: &ReplayLink| link.job.as_ref().is_some_and(|job| now - job.begun > limits.timeout);
            if self.links[at].as_ref().is_some_and(is_late) {
                self.fail(streams, at, ReplayFault::Timeout, run, now);
            }
        }
    }

    fn is_over(&self, streams: &[ReplayStream], run: &mut Run) -> bool {
        let is_idle = streams.iter().all(|s| s.active == 0);
        if run.over.is_some() {
            return is_idle || self.now() >= run.drain_until;
        }
        // What walks beside the others doesn't keep them.
        if streams.iter().filter(|s| !s.is_beside).all(|s| s.is_finished()) {
            run.over = Some(ReplayEnd::Done);
            run.drain_until = u64::MAX;
            return is_idle;
        }
        false
    }

    fn part(&mut self, streams: &mut [ReplayStream]) {
        for at in 0..self.links.len() {
            if self.links[at].as_ref().is_some_and(|link| link.job.is_some()) {
                let Some(link) = self.links[at].take() else { continue };
                self.free.push(at);
                let stream = &mut streams[link.stream];
                stream.active -= 1;
                stream.open -= 1;
                stream.stats.unfinished += 1;
            }
        }
    }

    fn wait(&mut self, events: &mut Events, run: &Run, streams: &[ReplayStream]) -> io::Result<()> {
        let now = self.now();
        let mut until = run.next_second.min(run.next_look).min(run.drain_until);
        until = until.min(self.alarms.peek().map_or(u64::MAX, |Reverse((alarm, _))| *alarm));
        until = until.min(run.end.filter(|_| run.over.is_none()).unwrap_or(u64::MAX));
        let mut fine = u64::MAX;
        if run.over.is_none() {
            fine = streams.iter().map(|s| s.wake_at).min().unwrap_or(u64::MAX);
            fine = fine.min(self.thinking.peek().map_or(u64::MAX, |Reverse((at, _))| *at));
        }
        let left = until.min(fine).saturating_sub(now);
        let mut timeout = Duration::from_nanos(left);
        if left > 0 && fine < until && left < FINE {
            // epoll_wait knows milliseconds only.
            let mut fds = [PollFd::new(self.poll.registry().as_fd(), PollFlags::POLLIN)];
            match ppoll(&mut fds, Some(timeout.into()), None) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            timeout = Duration::ZERO;
        }
        match self.poll.poll(events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            other => other,
        }
    }

    fn pump(&mut self, streams: &mut [ReplayStream], s: usize, limits: &ReplayLimits, run: &mut Run) {
        if run.over.is_some() {
            return;
        }
        loop {
            let now = self.now();
            let Some(job) = streams[s].next(now) else { return };
            self.begin(streams, s, job, limits, run, now);
        }
    }
}

struct Run {
    start: u64,
    counted_from: u64,
    end: Option<u64>,
    next_second: u64,
    next_look: u64,
    is_warm: bool,
    over: Option<ReplayEnd>,
    last_answer: u64,
    /// The first and the last failure since the last answer.
    failing: Option<(u64, u64)>,
    drain_until: u64,
}

impl Run {
    fn failed(&mut self, now: u64) {
        self.failing = Some((self.failing.map_or(now, |(first, _)| first), now));
    }

    /// Time for which there were failures and no answer. A pause of the log after a failure says nothing.
    fn failing_time(&self) -> u64 {
        self.failing.map_or(0, |(first, last)| last - first)
    }
}
