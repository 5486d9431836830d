// SPDX-License-Identifier: BSD-2-Clause
//! A stream of requests: where they come from, their pace, their connections, what is counted of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};

use crate::link::ReplayJob;
use crate::order::ReplayRng;
use crate::pace::ReplayPace;
use crate::reader::{ReaderReport, SentBatch};
use crate::report::CountedRequests;
use crate::stats::ReplayStats;

/// Requests that were due and not begun, counted one by one at most.
const MAX_UNSENT: u64 = 10_000_000;

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Keep {
    pub share: f64,
    /// Requests on one connection at most.
    pub most: Option<u32>,
}

pub struct ReplayStream {
    pub name: String,
    pub pace: ReplayPace,
    pub connections: usize,
    pub keep: Keep,
    pub most: Option<u64>,
    pub is_beside: bool,
    pub stats: ReplayStats,
    pub told: Arc<ReaderReport>,
    pub active: usize,
    pub open: usize,
    pub ready: usize,
    pub idle: Vec<Vec<usize>>,
    /// Time at which it wants to be asked again.
    pub wake_at: u64,
    pub begun: u64,
    /// Nanoseconds by which its first request is later than the run, at a rate.
    pub offset: u64,
    /// Called when a batch is begun.
    pub on_taken: Option<Box<dyn Fn()>>,
    top: usize,
    from: Receiver<SentBatch>,
    current: Option<SentBatch>,
    at: usize,
    is_ended: bool,
    start: u64,
    /// Nothing that is due from here on is sent.
    end: u64,
    next_due: f64,
    rng: ReplayRng,
}

impl ReplayStream {
    pub fn new(
        name: &str,
        from: Receiver<SentBatch>,
        told: Arc<ReaderReport>,
        pace: ReplayPace,
        connections: usize,
        top: usize,
    ) -> ReplayStream {
        ReplayStream {
            name: name.to_owned(),
            pace,
            connections: connections.max(1),
            keep: Keep { share: 1.0, most: None },
            most: None,
            is_beside: false,
            stats: ReplayStats::new(top),
            told,
            active: 0,
            open: 0,
            ready: 0,
            idle: Vec::new(),
            wake_at: u64::MAX,
            begun: 0,
            offset: 0,
            on_taken: None,
            top,
            from,
            current: None,
            at: 0,
            is_ended: false,
            start: 0,
            end: u64::MAX,
            next_due: 0.0,
            rng: ReplayRng::new(0x1acc),
        }
    }

    pub fn begin(&mut self, now: u64, end: Option<u64>) {
        (self.start, self.end) = (now, end.unwrap_or(u64::MAX));
        self.begun = 0;
        self.ready = self.connections;
        self.next_due = (now + self.offset) as f64;
        self.stats = ReplayStats::new(self.top);
    }

    pub fn forget(&mut self) {
        let under_way = self.active as u64;
        self.stats = ReplayStats::new(self.top);
        // They end in what is counted from now on.
        self.stats.sent = under_way;
    }

    pub fn seed(&mut self, seed: u64) {
        self.rng = ReplayRng::new(seed);
    }

    pub fn refill(&mut self, from: Receiver<SentBatch>, told: Arc<ReaderReport>) {
        self.told.is_over.store(true, Ordering::Relaxed);
        (self.from, self.told, self.current, self.is_ended) = (from, told, None, false);
    }

    pub fn counted(&self) -> CountedRequests<'_> {
        CountedRequests { name: &self.name, stats: &self.stats, told: &self.told, is_open: self.pace.is_open() }
    }

    pub fn is_finished(&self) -> bool {
        self.active == 0 && (self.is_ended || self.is_full())
    }

    fn is_full(&self) -> bool {
        self.most.is_some_and(|most| self.begun >= most)
    }

    pub fn next(&mut self, now: u64) -> Option<ReplayJob> {
        self.wake_at = u64::MAX;
        let has_room = match self.pace {
            ReplayPace::Closed { .. } => self.ready > 0,
            ReplayPace::Rate { .. } | ReplayPace::Log { .. } => self.active < self.connections,
        };
        if !has_room || self.is_full() {
            return None;
        }
        if let ReplayPace::Rate { .. } = self.pace
            && self.next_due > now as f64
        {
            self.wake_at = if self.next_due < self.end as f64 { self.next_due as u64 } else { u64::MAX };
            return None;
        }
        if !self.fill() {
            return None;
        }
        let Some((batch, base)) = &self.current else { return None };
        let due = match self.pace {
            ReplayPace::Closed { .. } => now,
            ReplayPace::Rate { .. } => self.next_due as u64,
            ReplayPace::Log { speed } => self.start + ((base + batch.asks[self.at].due) as f64 / speed) as u64,
        };
        if due >= self.end {
            return None;
        }
        if due > now {
            self.wake_at = due;
            return None;
        }
        let job = ReplayJob::new(batch.clone(), self.at, due, now);
        self.at += 1;
        self.begun += 1;
        if self.pace.is_open() {
            self.next_due += self.pace.gap(&mut self.rng);
            self.stats.late.add(now - due);
        } else {
            self.ready -= 1;
        }
        Some(job)
    }

    /// Sees that there is a request to look at.
    fn fill(&mut self) -> bool {
        while self.current.as_ref().is_none_or(|(batch, _)| self.at >= batch.asks.len()) {
            if self.is_ended {
                return false;
            }
            let got = match self.from.try_recv() {
                Err(TryRecvError::Empty) => {
                    // Said before the second look: what comes after that wakes us.
                    self.told.is_hungry.store(true, Ordering::SeqCst);
                    self.from.try_recv()
                }
                other => other,
            };
            match got {
                Ok(sent) => {
                    (self.current, self.at) = (Some(sent), 0);
                    self.on_taken.iter().for_each(|tell| tell());
                }
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => self.is_ended = true,
            }
        }
        true
    }

    pub fn closes_after(&mut self, served: u32) -> bool {
        self.keep.most.is_some_and(|most| served + 1 >= most)
            || (self.keep.share < 1.0 && self.rng.unit() >= self.keep.share)
    }

    pub fn think(&mut self) -> u64 {
        self.pace.think(&mut self.rng)
    }

    /// Counts what was due before `end` and never begun: leaving it out would hide a server that stands still.
    pub fn count_unsent(&mut self, end: u64, now: u64) {
        if !matches!(self.pace, ReplayPace::Rate { .. }) || self.is_full() || self.is_ended {
            return;
        }
        let mut n = 0;
        while self.next_due < end as f64 && n < MAX_UNSENT && self.most.is_none_or(|most| self.begun + n < most) {
            self.stats.unsent(now.saturating_sub(self.next_due as u64));
            self.next_due += self.pace.gap(&mut self.rng);
            n += 1;
        }
    }
}

impl Drop for ReplayStream {
    fn drop(&mut self) {
        self.told.is_over.store(true, Ordering::Relaxed);
    }
}
