// SPDX-License-Identifier: BSD-2-Clause
//! The runners of fetches. A fetch runs in a task of its own ([`run`]), or in that of the client that waits for its head
//! ([`AttendedFetch`]): then neither has to wake the other.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use rt::{Runners, RunningJob};

use super::Bereq;
use crate::current::{self, SuspendedWork};

thread_local! {
    static FETCHES: Runners<Box<Bereq>> = const { Runners::new() };
    static LEFT: Runners<AttendedJob> = const { Runners::new() };
}

/// CPU time, in microseconds, that the client's task is charged with for sending the fetch's request: its connection may
/// begin many at once.
const ASKING_MICROS: u32 = 10;

type AttendedJob = RunningJob<Box<Bereq>, ()>;

pub(crate) fn trim() {
    FETCHES.with(Runners::trim);
    LEFT.with(Runners::trim);
}

pub(super) fn run(bereq: Box<Bereq>) {
    Runners::spawn(&FETCHES, crate::contain::fetch, bereq);
}

/// A fetch that its client's task polls. Once this is dropped, the fetch continues in a task of its own.
pub(crate) struct AttendedFetch(Option<AttendedJob>);

impl AttendedFetch {
    pub(super) fn new(bereq: Box<Bereq>) -> Self {
        rt::spend(ASKING_MICROS);
        let fetch = async |job: Box<Bereq>, (): ()| (crate::contain::fetch(job).await, ());
        AttendedFetch(Some(Runners::run_here(&FETCHES, fetch, bereq)))
    }

    /// Lets the fetch go on as far as it gets without waiting. True if it is over.
    pub fn advance(&mut self, cx: &mut Context<'_>) -> bool {
        // A fetch that panics while it ends is dropped by this, which fails its object.
        let Some(mut job) = self.0.take() else { return true };
        let _client = SuspendedClient(Some(current::leave()));
        let is_over = Pin::new(&mut job).poll(cx).is_ready();
        if !is_over {
            self.0 = Some(job);
        }
        is_over
    }
}

/// The client's work on this thread, which goes on when this is dropped, also by a panic.
struct SuspendedClient(Option<SuspendedWork>);

impl Drop for SuspendedClient {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(current::take_up);
    }
}

impl Drop for AttendedFetch {
    fn drop(&mut self) {
        // Nothing can be spawned where a runtime ends: it drops the fetch, as it drops all tasks.
        if let Some(job) = self.0.take()
            && (rt::is_task() || rt::sim::is_on())
        {
            Runners::spawn(&LEFT, async |left: AttendedJob| left.await, job);
        }
    }
}
