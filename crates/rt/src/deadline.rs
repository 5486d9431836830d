// SPDX-License-Identifier: BSD-2-Clause
//! Deadlines of waits. Nearly all waits end long before their deadline, so nothing is set and taken back for each of them:
//! a timer stays set when a wait is over and serves the thread's next one. Mostly it then fires too early, if ever, and only
//! then is it set anew.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::time::{Instant, Sleep, sleep_until};

/// Timers that a thread keeps: for connections that go from one kind of wait to another at once.
const SPARE: usize = 1024;

/// A wait shorter than this gets a timer of another such one: set for a moment or for minutes, a timer is of no use to the
/// other kind.
const SHORT: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Timers {
    short: Vec<Pin<Box<Sleep>>>,
    long: Vec<Pin<Box<Sleep>>>,
}

impl Timers {
    fn list(&mut self, is_short: bool) -> &mut Vec<Pin<Box<Sleep>>> {
        if is_short { &mut self.short } else { &mut self.long }
    }
}

thread_local! {
    static TIMERS: RefCell<Timers> = RefCell::default();
}

#[derive(Debug)]
pub struct Deadline {
    timer: Option<Pin<Box<Sleep>>>,
    limit: Limit,
    is_short: bool,
}

#[derive(Debug, Clone, Copy)]
enum Limit {
    At(Instant),
    /// The wait ends so long after it is first polled.
    After(Duration),
    /// The wait ends so long after a moment that has just been.
    Since(Instant, Duration),
}

impl Deadline {
    pub fn until(deadline: Instant) -> Self {
        Deadline { timer: None, limit: Limit::At(deadline), is_short: false }
    }

    /// A wait of that length from the first time that it is polled: what comes at once takes no look at the clock. A
    /// zero limit is none.
    pub fn after(limit: Duration) -> Option<Self> {
        (!limit.is_zero()).then(|| Deadline { timer: None, limit: Limit::After(limit), is_short: false })
    }

    /// A wait of that length from `start`, which has just been: takes no look at the clock either.
    pub fn since(start: Instant, limit: Duration) -> Self {
        Deadline { timer: None, limit: Limit::Since(start, limit), is_short: false }
    }

    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (timer, deadline) = match (&mut self.timer, self.limit) {
            (Some(timer), Limit::At(deadline)) => (timer, deadline),
            (none, limit) => {
                let (deadline, left) = match limit {
                    Limit::At(deadline) => (deadline, deadline.saturating_duration_since(Instant::now())),
                    Limit::After(left) => (crate::far(left), left),
                    Limit::Since(start, left) => (start + left, left),
                };
                self.is_short = left < SHORT;
                self.limit = Limit::At(deadline);
                (none.insert(take(deadline, self.is_short)), deadline)
            }
        };
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        let Some(timer) = self.timer.take() else { return };
        // With the thread its timers go, too.
        let _ = TIMERS.try_with(|timers| {
            let mut timers = timers.borrow_mut();
            let timers = timers.list(self.is_short);
            if timers.len() < SPARE {
                timers.push(timer);
            }
        });
    }
}

/// A timer that fires at `deadline` or before it.
fn take(deadline: Instant, is_short: bool) -> Pin<Box<Sleep>> {
    match TIMERS.with(|timers| timers.borrow_mut().list(is_short).pop()) {
        Some(mut timer) => {
            if timer.deadline() > deadline {
                timer.as_mut().reset(deadline);
            }
            timer
        }
        None => Box::pin(sleep_until(deadline)),
    }
}

/// The timers belong to a runtime, and go with it.
pub(crate) fn forget_timers() {
    TIMERS.with(|timers| timers.take());
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[test]
    fn a_limit_counts_from_where_it_began() {
        crate::run(async {
            let an_hour_ago = Instant::now() - Duration::from_secs(3600);
            let mut over = Deadline::since(an_hour_ago, Duration::from_secs(60));
            poll_fn(|cx| over.poll(cx)).await;
            let mut lasts = Deadline::since(an_hour_ago, Duration::from_secs(7200));
            let is_over = poll_fn(|cx| Poll::Ready(lasts.poll(cx).is_ready())).await;
            assert!(!is_over);
        })
        .unwrap();
    }
}
