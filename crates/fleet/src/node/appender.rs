// SPDX-License-Identifier: BSD-2-Clause
//! The thread that appends. What has come meanwhile goes out at once and together; what got no answer is sent again over another
//! connection, until whoever made it has waited long enough.
//!
//! Between entries it asks for the log's end, so that it is known early when the log is away.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use super::{Reach, Shared, Waiting};
use crate::{Applier, Connect, FleetLink, LinkFault, LogBounds, OutgoingEntry, mark};

const BATCH: usize = 256;
/// Between two looks at the log's end.
const LOOK: Duration = Duration::from_secs(1);
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Between two attempts to connect, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub struct Appender {
    shared: Arc<Shared>,
    connect: Arc<dyn Connect>,
    applier: Arc<dyn Applier>,
    link: Option<Box<dyn FleetLink>>,
    epoch: String,
    turn: usize,
    pause: Duration,
    /// When it connects, or looks at the log's end.
    due: Instant,
    /// Entries that had ever come when it looked last.
    seen: u64,
}

impl Appender {
    pub(super) fn new(shared: Arc<Shared>, connect: Arc<dyn Connect>, applier: Arc<dyn Applier>) -> Appender {
        let due = shared.now();
        shared.set_keeper(&applier);
        Appender {
            shared,
            connect,
            applier,
            link: None,
            epoch: String::new(),
            turn: 0,
            pause: FIRST_PAUSE,
            due,
            seen: 0,
        }
    }

    pub(super) fn run(mut self) {
        while !self.shared.is_over() {
            let until = self.step();
            let mut queue = self.shared.queue.lock();
            if queue.count == self.seen && !self.shared.is_over() && self.shared.now() < until {
                self.shared.bell.wait_until(&mut queue, until);
            }
        }
        self.expire(None);
    }

    /// One thing that has to be done, if there is any: when the next one is due unless an entry comes before.
    pub fn step(&mut self) -> Instant {
        let now = self.shared.now();
        match self.link.take() {
            Some(link) => self.serve(link),
            None if now < self.due => self.wait(now),
            None => self.connect(),
        }
    }

    pub fn seen(&self) -> u64 {
        self.seen
    }

    fn server(&self) -> &crate::LogServer {
        let servers = &self.shared.settings.servers;
        &servers[self.turn % servers.len()]
    }

    fn connect(&mut self) -> Instant {
        let server = self.server();
        let connected = self.connect.connect(server, self.shared.now() + CONNECT_TIME).and_then(|mut link| {
            let bounds = link.bounds()?;
            self.check_log(&bounds.epoch)?;
            Ok((link, bounds))
        });
        match connected {
            Ok((link, LogBounds { epoch, last: head, .. })) => {
                let server = server.to_string();
                self.epoch = epoch;
                self.shared.change(&*self.applier, |status| {
                    (status.append, status.head) = (Reach::Up(server), head.max(status.applied));
                });
                (self.link, self.pause) = (Some(link), FIRST_PAUSE);
                self.due = self.shared.now() + LOOK;
                self.shared.now()
            }
            Err(fault) => self.failed(&fault),
        }
    }

    fn serve(&mut self, mut link: Box<dyn FleetLink>) -> Instant {
        if let Err(fault) = self.check_log(&self.epoch) {
            return self.failed(&fault);
        }
        let (batch, is_all) = self.next_batch();
        if batch.is_empty() && self.shared.now() < self.due {
            self.link = Some(link);
            return self.due;
        }
        let done = match batch.is_empty() {
            true => self.bounds(&mut *link).map(|LogBounds { epoch, last, .. }| {
                self.epoch = epoch;
                self.shared.change(&*self.applier, |status| status.head = last.max(status.applied));
            }),
            false => self.append(&mut *link, batch),
        };
        match done {
            Ok(()) => {
                self.link = Some(link);
                self.due = self.shared.now() + LOOK;
                if is_all { self.due } else { self.shared.now() }
            }
            Err(fault) => self.failed(&fault),
        }
    }

    /// Looks at the log. One that ends before an entry that this node has seen there has lost it.
    fn bounds(&self, link: &mut dyn FleetLink) -> Result<LogBounds, LinkFault> {
        let newest = self.shared.held.lock().newest();
        let bounds = link.bounds()?;
        if bounds.last < newest {
            self.shared.is_doubted.store(true, SeqCst);
        }
        Ok(bounds)
    }

    /// Checks that the log is the followed one. Nobody might ever carry out what is appended to another: servers that
    /// were named have each their own, or the log was made anew, and the follower hasn't noticed yet.
    fn check_log(&self, epoch: &str) -> Result<(), LinkFault> {
        let status = self.shared.status.lock();
        match status.follow.is_up() && status.epoch != epoch {
            true => {
                self.shared.is_doubted.store(true, SeqCst);
                Err(LinkFault::new("it keeps another log than the one that this node follows"))
            }
            false => Ok(()),
        }
    }

    fn append(&self, link: &mut dyn FleetLink, batch: Vec<Waiting>) -> Result<(), LinkFault> {
        let entries: Vec<OutgoingEntry<'_>> =
            batch.iter().map(|entry| OutgoingEntry { id: &entry.key, bytes: &entry.bytes }).collect();
        match link.append(&entries) {
            Ok(results) => self.settle(batch, results),
            Err(fault) => {
                self.requeue(batch);
                return Err(fault);
            }
        }
        Ok(())
    }

    fn failed(&mut self, fault: &LinkFault) -> Instant {
        let (why, now) = (format!("{}: {fault}", self.server()), self.shared.now());
        self.turn += 1;
        self.shared.change(&*self.applier, |status| {
            let since = match &status.append {
                Reach::Away(since, _) => *since,
                Reach::Up(_) => now,
            };
            status.append = Reach::Away(since, why);
        });
        self.due = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.wait(now)
    }

    fn next_batch(&mut self) -> (Vec<Waiting>, bool) {
        let mut queue = self.shared.queue.lock();
        self.seen = queue.count;
        let count = queue.waiting.len().min(BATCH);
        (queue.waiting.drain(..count).collect(), queue.waiting.is_empty())
    }

    fn requeue(&self, batch: Vec<Waiting>) {
        if base::failpoint::fault("an entry without an answer that is forgotten") {
            return;
        }
        let once_more = |mut entry: Waiting| {
            entry.bytes = self.shared.once_more(&entry.id, &entry.bytes);
            entry
        };
        let batch: Vec<Waiting> = batch.into_iter().map(once_more).collect();
        let mut queue = self.shared.queue.lock();
        batch.into_iter().rev().for_each(|entry| queue.waiting.push_front(entry));
    }

    fn settle(&self, batch: Vec<Waiting>, results: Vec<Result<u64, LinkFault>>) {
        let count = |counts: &dyn Fn(&Waiting, bool) -> bool| {
            batch.iter().zip(&results).filter(|(entry, result)| counts(entry, result.is_ok())).count() as u64
        };
        let appended = count(&|_, is_there| is_there);
        let restored = count(&|entry, is_there| is_there && entry.until.is_none());
        // Nobody asked for those that are appended again.
        let refused = count(&|entry, is_there| !is_there && entry.until.is_some());
        let head = results.iter().filter_map(|result| result.as_ref().ok()).max().copied().unwrap_or(0);
        self.shared.change(&*self.applier, |status| {
            status.appended += appended;
            status.restored += restored;
            status.refused += refused;
            status.head = status.head.max(head);
        });
        self.shared.newest_own.fetch_max(head, SeqCst);
        for (entry, result) in batch.into_iter().zip(results) {
            self.note(&entry, &result);
            let result = match result {
                Err(_) if base::failpoint::fault("a refusal taken for an acknowledgement") => Ok(0),
                result => result.map_err(|fault| format!("the fleet's log refused the entry: {fault}")),
            };
            match entry.until {
                None if result.is_err() => self.put_off(entry),
                _ => entry.outcome.set(result),
            }
        }
    }

    fn note(&self, entry: &Waiting, result: &Result<u64, LinkFault>) {
        let applied = self.shared.status.lock().applied;
        self.shared.change_held(|held, losses| match result {
            Ok(seq) => (Vec::new(), held.acknowledged(&entry.id, *seq, applied, losses)),
            Err(_) if entry.until.is_some() => (held.refused(&entry.id).into_iter().collect(), ()),
            Err(_) => (Vec::new(), ()),
        });
    }

    fn put_off(&self, entry: Waiting) {
        let (until, sent) = (self.shared.now() + LOOK, mark(&entry.bytes));
        let is_there = self.shared.held.lock().refused_again(&entry.id, Some(sent), until, entry.pending);
        if is_there {
            self.shared.change(&*self.applier, |status| status.restored += 1);
        }
    }

    /// Until the next attempt, or until somebody's time is over: those whose is are told that it is in vain.
    fn wait(&mut self, now: Instant) -> Instant {
        self.expire(Some(now));
        let queue = self.shared.queue.lock();
        self.seen = queue.count;
        let earliest = queue.waiting.iter().filter_map(|entry| entry.until).min();
        earliest.map_or(self.due, |earliest| earliest.min(self.due))
    }

    /// Gives up the entries whose time is over by `now`; `None`: all of them.
    fn expire(&self, now: Option<Instant>) {
        let expired: Vec<Waiting> = {
            let mut queue = self.shared.queue.lock();
            let is_over = |entry: &Waiting| now.is_none_or(|now| entry.until.is_some_and(|until| until <= now));
            let (expired, waiting): (Vec<_>, Vec<_>) = queue.waiting.drain(..).partition(is_over);
            queue.waiting = waiting.into();
            expired
        };
        if expired.is_empty() {
            return;
        }
        let refused = expired.iter().filter(|entry| entry.until.is_some()).count() as u64;
        self.shared.change(&*self.applier, |status| status.refused += refused);
        let why = match &self.shared.status.lock().append {
            Reach::Up(_) => "it takes too long".to_owned(),
            Reach::Away(_, why) => why.clone(),
        };
        for entry in &expired {
            self.shared.change_held(|held, _| (held.refused(&entry.id).into_iter().collect(), ()));
            entry.outcome.set(Err(self.shared.away(&why)));
        }
    }
}
