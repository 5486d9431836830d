// SPDX-License-Identifier: BSD-2-Clause
//! How a worker leaves: at a stop it finishes the requests in progress for `shutdown_grace`; with a successor beside it
//! (`debug.drain`) it waits for its connections to end, each by its own time. Either way it stops accepting.
//!
//! Every response that is sent from then on tells its client to connect anew; HTTP/2 connections get GOAWAY, also those that sleep.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use base::clock;
use engine::Engine;
use net::{Accept, Listener};
use parking_lot::Mutex;

use crate::worker::Worker;

/// Between two looks at whether the last connection has ended.
pub const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
pub struct Drain {
    /// End of the time that connections have.
    until: Mutex<Option<Instant>>,
    running: std::sync::atomic::AtomicUsize,
}

/// A task that accepts, in the count of them.
#[derive(Debug)]
pub struct Acceptor<'d>(&'d Drain);

impl Drop for Acceptor<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Release);
    }
}

impl Drain {
    pub fn acceptor(&self) -> Acceptor<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Acceptor(self)
    }

    /// Stops accepting; what is connected has this long.
    pub fn begin(&self, engine: &Engine, limit: Duration) {
        let now = clock::now();
        *self.until.lock() = Some(now.checked_add(limit).unwrap_or(now));
        engine.cluster.gate.set_successor(true);
        engine.sessions.drain.begin();
    }

    pub fn has_begun(&self) -> bool {
        self.until.lock().is_some()
    }

    /// True if nobody is connected any more, or the time is over.
    pub fn is_over(&self, engine: &Engine) -> bool {
        let Some(until) = *self.until.lock() else { return false };
        // In this order: a connection is counted before its acceptor may leave.
        let is_empty = self.running.load(Ordering::Acquire) == 0 && engine.sessions.open() <= 0;
        is_empty || clock::now() >= until
    }
}

impl Acceptor<'_> {
    /// The next connection; `None` when no more are to be taken.
    pub async fn next(&self, listener: &Listener, engine: &Engine, is_known: &mut bool) -> Option<Accept> {
        self.or_drain(listener.accept(), engine, is_known).await
    }

    /// The result of `accept`; `None` when no more are to be taken.
    pub async fn or_drain<F: Future>(&self, accept: F, engine: &Engine, is_known: &mut bool) -> Option<F::Output> {
        let mut accept = pin!(accept);
        std::future::poll_fn(|cx| {
            if !*is_known {
                // A task's waker stays the same, so once is enough.
                engine.sessions.drain.add(cx.waker().clone());
                *is_known = true;
            }
            if engine.sessions.drain.has_begun() {
                return Poll::Ready(None);
            }
            accept.as_mut().poll(cx).map(Some)
        })
        .await
    }
}

const DISK_PATIENCE: Duration = Duration::from_secs(5);

/// Time that all HTTP/2 connections have for their first GOAWAY, and all of QUIC for their close.
const GOODBYE: Duration = Duration::from_millis(200);

/// Waits until clients that can be told of the end were told: what says so is with the kernel.
fn wait_for(untold: &AtomicI64) {
    let until = clock::now() + GOODBYE;
    while untold.load(Ordering::Relaxed) > 0 && clock::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The manager is gone or said stop: requests in progress may end, for `shutdown_grace`.
pub fn finish(worker: &Worker) {
    let engine = &worker.engine;
    engine.sessions.drain.begin();
    wait_for(&engine.sessions.drain.http2_untold);
    let grace = engine.params.load().shutdown_grace;
    let until = clock::now() + grace;
    // Connections without a request don't count: nobody loses anything with them.
    let is_busy = || worker.threads.lock().iter().any(|thread| thread.work.open() > 0);
    while is_busy() && clock::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    engine.sessions.drain.is_over.store(true, Ordering::Relaxed);
    wait_for(&engine.sessions.drain.quic_untold);
    std::thread::sleep(Duration::from_millis(worker.shutdown_delay_ms.load(Ordering::Relaxed)));
    worker.disks.close(DISK_PATIENCE);
    crate::suspects::clear(engine.cache.stores(), worker.threads.lock().len());
    report_line!("Child dies");
}
