// SPDX-License-Identifier: BSD-2-Clause
//! Sends points to Graphite's carbon: one connection for each flush, as node does. What can't be sent waits, within a
//! bound, and goes before the next flush's points; what the bound pushes out is counted.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::graphite::{GraphiteNames, Points, SendStats};
use crate::clock;
use crate::config::{Carbon, Graphite};
use crate::log::{Logger, StatsdLevel};

/// Time limit of connecting, and of each step of sending.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct CarbonSender {
    names: GraphiteNames,
    host: String,
    port: u16,
    carbon: Carbon,
    limit: usize,
    queue: RefCell<Queue>,
    stats: RefCell<SendStats>,
    wake: Notify,
    idle: Notify,
    debug: bool,
    logger: Rc<Logger>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Points>,
    bytes: usize,
    dropped: u64,
    sending: bool,
    failures: u64,
}

impl Queue {
    /// Drops the oldest points that are too much; the newest always stay.
    fn trim(&mut self, limit: usize) {
        while self.bytes > limit && self.waiting.len() > 1 {
            if let Some(oldest) = self.waiting.pop_front() {
                self.bytes -= oldest.bytes();
                self.dropped += oldest.count as u64;
            }
        }
    }
}

impl CarbonSender {
    /// Nothing is sent yet. None when no host is configured: then points go nowhere.
    pub fn new(
        config: &Graphite,
        names: GraphiteNames,
        started: u64,
        debug: bool,
        logger: Rc<Logger>,
    ) -> Option<Rc<CarbonSender>> {
        let host = config.host.clone()?;
        Some(Rc::new(CarbonSender {
            names,
            host,
            port: config.port,
            carbon: config.carbon,
            limit: config.backlog_bytes,
            queue: RefCell::default(),
            stats: RefCell::new(SendStats { last_flush: started, ..SendStats::default() }),
            wake: Notify::new(),
            idle: Notify::new(),
            debug,
            logger,
        }))
    }

    pub fn push(&self, points: Points) {
        let mut queue = self.queue.borrow_mut();
        queue.bytes += points.bytes();
        queue.waiting.push_back(points);
        queue.trim(self.limit);
        queue.sending = true;
        self.wake.notify_one();
    }

    /// Gives what waits to another sender, which takes this one's place.
    pub fn hand_over(&self, to: &CarbonSender) {
        let mut queue = self.queue.borrow_mut();
        queue.bytes = 0;
        for points in std::mem::take(&mut queue.waiting) {
            // Text can't travel as pickle.
            if to.carbon == self.carbon {
                to.push(points);
            } else {
                to.queue.borrow_mut().dropped += points.count as u64;
            }
        }
    }

    /// Sends whenever there is something; never ends.
    pub async fn run(self: Rc<CarbonSender>) {
        loop {
            self.wake.notified().await;
            let mut batch = {
                let mut queue = self.queue.borrow_mut();
                queue.bytes = 0;
                std::mem::take(&mut queue.waiting)
            };
            if !batch.is_empty() {
                match self.send(&batch).await {
                    Ok(()) => batch.clear(),
                    Err(error) => self.failed(batch, &error),
                }
            }
            let mut queue = self.queue.borrow_mut();
            queue.sending = false;
            drop(queue);
            self.idle.notify_waiters();
        }
    }

    /// Waits until nothing is being sent, at most `patience`.
    pub async fn settle(&self, patience: Duration) {
        let wait = async {
            while self.queue.borrow().sending {
                self.idle.notified().await;
            }
        };
        let _ = tokio::time::timeout(patience, wait).await;
    }

    pub fn dropped(&self) -> u64 {
        self.queue.borrow().dropped
    }

    pub fn waiting(&self) -> usize {
        self.queue.borrow().waiting.iter().map(|points| points.count).sum()
    }

    pub fn failures(&self) -> u64 {
        self.queue.borrow().failures
    }

    pub fn stats(&self) -> SendStats {
        *self.stats.borrow()
    }

    async fn send(&self, batch: &VecDeque<Points>) -> io::Result<()> {
        let connect = TcpStream::connect((self.host.as_str(), self.port));
        let mut stream = tokio::time::timeout(PATIENCE, connect).await??;
        let mut payload = Vec::new();
        let newest = batch.len() - 1;
        for (at, points) in batch.iter().enumerate() {
            if at == newest {
                let mut points = points.clone();
                self.names.add_stats(&mut points, &self.stats(), clock::seconds());
                points.payload(self.carbon, &mut payload);
            } else {
                points.payload(self.carbon, &mut payload);
            }
        }
        let began = Instant::now();
        let mut rest = payload.as_slice();
        while !rest.is_empty() {
            let written = tokio::time::timeout(PATIENCE, stream.write(rest)).await??;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = &rest[written..];
        }
        stream.shutdown().await?;
        let mut stats = self.stats.borrow_mut();
        stats.flush_time = began.elapsed().as_millis() as u64;
        stats.flush_length = payload.len() as u64;
        stats.last_flush = clock::seconds();
        Ok(())
    }

    fn failed(&self, batch: VecDeque<Points>, error: &io::Error) {
        self.stats.borrow_mut().last_exception = clock::seconds();
        let mut queue = self.queue.borrow_mut();
        queue.failures += 1;
        for points in batch.into_iter().rev() {
            queue.bytes += points.bytes();
            queue.waiting.push_front(points);
        }
        queue.trim(self.limit);
        let first_failure = queue.failures == 1;
        drop(queue);
        if self.debug || first_failure {
            let text = format!("graphite {}:{}: {error}; its points wait", self.host, self.port);
            self.logger.log(StatsdLevel::Warning, &text);
        }
    }
}
