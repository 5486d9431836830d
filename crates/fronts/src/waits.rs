// SPDX-License-Identifier: BSD-2-Clause
//! How long a client is waited for, in either direction: limits and least rates in one place, and the timer that ends the wait.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use base::Mono;
use engine::Sess;
use rt::{Instant, Sleep};

use crate::pace::{BytePace, PaceVerdict};
use crate::send_limits::{ClientWait, SendLimits};

/// Time for which a client that has its whole response may go on sending the request's body before its stream is
/// stopped. Some clients (curl before 8.1) lose the response if a reset comes together with it.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

/// Waits for the next piece of a request's body: `timeout_idle` each, and `min_recv_rate`.
#[derive(Default)]
pub(crate) struct RecvWait {
    /// Time since which the client owes it.
    since: Option<Instant>,
    pace: BytePace,
    timer: Timer,
}

/// Waits for a client that reads a response: `send_timeout`, `idle_send_timeout` and `min_send_rate`.
pub(crate) struct SendWait {
    limits: SendLimits,
    pace: BytePace,
    timer: Timer,
}

#[derive(Default)]
struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    /// Ready when `limit` has passed since it was first asked (zero: never).
    fn poll(&mut self, limit: Duration, cx: &mut Context<'_>) -> Poll<()> {
        if limit.is_zero() {
            return Poll::Pending;
        }
        self.0.get_or_insert_with(|| Box::pin(rt::sleep(limit))).as_mut().poll(cx)
    }

    fn forget(&mut self) {
        self.0 = None;
    }
}

impl RecvWait {
    pub(crate) fn moved(&mut self, bytes: usize) {
        self.over();
        self.pace.moved(bytes, Instant::now);
    }

    pub(crate) fn over(&mut self) {
        self.timer.forget();
        self.since = None;
    }

    /// Ready when the client has had time enough.
    pub(crate) fn poll(&mut self, sess: &Sess, cx: &mut Context<'_>) -> Poll<()> {
        let (idle, least) = (sess.timeouts.get().idle, sess.engine.params.load().min_recv_rate);
        loop {
            let now = Instant::now();
            let since = *self.since.get_or_insert(now);
            self.pace.waits(now);
            let mut limit = idle.saturating_sub(now - since);
            match self.pace.judge(least, now) {
                PaceVerdict::TooSlow => {
                    sess.engine.main.recv_rate_low.inc();
                    return Poll::Ready(());
                }
                PaceVerdict::GoOn(_) if limit.is_zero() && !idle.is_zero() => return Poll::Ready(()),
                PaceVerdict::GoOn(Duration::ZERO) => {}
                PaceVerdict::GoOn(left) => limit = if idle.is_zero() { left } else { limit.min(left) },
            }
            if self.timer.poll(limit, cx).is_pending() {
                return Poll::Pending;
            }
            self.timer.forget();
        }
    }
}

impl SendWait {
    pub(crate) fn new() -> Self {
        SendWait { limits: SendLimits::NONE, pace: BytePace::default(), timer: Timer::default() }
    }

    /// A response begins, whose time runs since then.
    pub(crate) fn begin(&mut self, since: Mono, sess: &Sess) {
        self.limits.begin(since, sess.timeouts.get().send);
    }

    pub(crate) fn forbids_write(&self, sess: &Sess) -> bool {
        self.limits.forbid_write(|| sess.engine.clock.mono())
    }

    /// Something was written; `all`: nothing is left that waits for the client.
    pub(crate) fn wrote(&mut self, bytes: usize, all: bool) {
        self.limits.wrote(all);
        self.pace.moved(bytes, Instant::now);
        self.timer.forget();
    }

    /// Ready when the client has had time enough to read.
    pub(crate) fn poll(&mut self, sess: &Sess, cx: &mut Context<'_>) -> Poll<()> {
        let (engine, timeouts) = (&sess.engine, sess.timeouts.get());
        let least = engine.params.load().min_send_rate;
        loop {
            let now = Instant::now();
            self.pace.waits(now);
            let mut limit = match self.limits.wait(engine.clock.mono(), timeouts.send, timeouts.idle_send) {
                ClientWait::Over => return Poll::Ready(()),
                ClientWait::For(limit) => limit,
                ClientWait::Forever => Duration::MAX,
            };
            match self.pace.judge(least, now) {
                PaceVerdict::TooSlow => {
                    engine.main.send_rate_low.inc();
                    return Poll::Ready(());
                }
                PaceVerdict::GoOn(Duration::ZERO) => {}
                PaceVerdict::GoOn(left) => limit = limit.min(left),
            }
            if limit == Duration::MAX || self.timer.poll(limit, cx).is_pending() {
                return Poll::Pending;
            }
            self.timer.forget();
        }
    }
}
