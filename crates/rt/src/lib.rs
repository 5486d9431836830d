// SPDX-License-Identifier: BSD-2-Clause
//! The only wrapper of tokio's runtime: spawning, timers, the blocking pool. A simulator can take its place.
//!
//! Every CPU has one `current_thread` runtime with a `LocalSet`; tasks stay on the thread that spawned them.

#![cfg_attr(not(test), warn(clippy::shadow_unrelated, clippy::wildcard_enum_match_arm))]

mod blocking;
mod deadline;
mod notify;
mod progress;
mod readable;
mod runner;
pub mod sim;
mod stint;
mod time;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

pub use blocking::{NoThread, blocking, blocking_lookup, hand_off, prepare_blocking, threads_failed};
pub use deadline::Deadline;
pub use notify::Notify;
pub use progress::{RuntimeProgress, RuntimeWatch};
pub use readable::Readable;
pub use runner::{Runners, RunningJob};
pub use sim::JoinHandle;
pub use stint::{
    GiveWay, Observer, give_way, observe_steps, spend, spend_bytes, spend_guess, spend_piece, spent, spent_guess,
    time_steps,
};
pub use time::{Instant, Sleep, sleep, sleep_until};

/// Runs `main` on this thread's runtime until it ends. Local tasks it spawned are dropped then.
///
/// # Errors
/// The operating system refused what a runtime needs (an epoll instance, an eventfd).
pub fn run<F: Future>(main: F) -> std::io::Result<F::Output> {
    sys::fault::protect_this_thread();
    let runtime = builder().build()?;
    let local = tokio::task::LocalSet::new();
    RUNS.set(true);
    let output = local.block_on(&runtime, main);
    RUNS.set(false);
    drop(local);
    deadline::forget_timers();
    stint::forget_line();
    Ok(output)
}

/// Does what [`run`] does, with its progress to be seen from another thread through a [`RuntimeWatch`]. `settle` runs on this thread whenever
/// it is about to wait for events, and now and then while it has no time to.
///
/// # Errors
/// As [`run`].
pub fn run_watched<F: Future>(progress: Arc<RuntimeProgress>, settle: fn(), main: F) -> std::io::Result<F::Output> {
    let (asleep, awake) = (progress.clone(), progress.clone());
    sys::fault::protect_this_thread();
    let runtime = builder()
        .on_thread_park(move || {
            settle();
            asleep.asleep();
        })
        .on_thread_unpark(move || {
            PARKS.with(|turn| turn.set(turn.get() + 1));
            awake.awake();
        })
        .build()?;
    progress.on_this_thread();
    let local = tokio::task::LocalSet::new();
    local.spawn_local(progress.answer(settle));
    RUNS.set(true);
    let output = local.block_on(&runtime, main);
    RUNS.set(false);
    drop(local);
    settle();
    deadline::forget_timers();
    stint::forget_line();
    Ok(output)
}

fn builder() -> tokio::runtime::Builder {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all();
    builder
}

thread_local! {
    static PARKS: Cell<u64> = const { Cell::new(0) };
    /// True while this thread is in [`run`] or [`run_watched`].
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

/// True if the caller is a task of a runtime's thread: one that may [`spawn`], and has a [`Readable`].
pub fn is_task() -> bool {
    RUNS.get() && tokio::task::try_id().is_some()
}

/// Number of times that this thread has waited for events under [`run_watched`]: while it is the same, the runtime has
/// heard nothing new for sure. (Under load it may have: it looks now and then without waiting.)
pub fn park_count() -> u64 {
    PARKS.with(Cell::get)
}

/// A number for this thread, and so for its runtime: different for every thread there ever was.
pub fn home() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static HOME: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    HOME.with(|home| *home)
}

/// Spawns a task on this thread's runtime, or in its simulation. The task is boxed: the runtime's code for tasks is compiled once, not for each
/// type of future, which would be a megabyte of the program.
pub fn spawn(task: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
    spawn_boxed(Box::pin(task))
}

type BoxedTask = Pin<Box<dyn Future<Output = ()>>>;

fn spawn_boxed(task: BoxedTask) -> JoinHandle<()> {
    sim::spawn(task).unwrap_or_else(|task| JoinHandle::Real(tokio::task::spawn_local(Turns(task))))
}

/// A task, each of whose turns is a stint's ([`stint`]).
struct Turns(BoxedTask);

impl Future for Turns {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        stint::turn(|| self.0.as_mut().poll(cx))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

/// Waits for `future`, at most `limit`. A zero limit means none, as with Varnish's timeouts.
///
/// # Errors
/// [`Elapsed`] when the time ran out.
pub async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    if limit.is_zero() {
        return Ok(future.await);
    }
    timeout_at(far(limit), future).await
}

/// Both results, once both futures are ready; they run in turn on this task.
pub async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    tokio::join!(a, b)
}

/// The moment that long from now; some decades when that is farther than a clock goes.
fn far(limit: Duration) -> Instant {
    const DECADES: Duration = Duration::from_secs(30 * 365 * 86_400);
    let now = Instant::now();
    now.checked_add(limit).unwrap_or_else(|| now + DECADES)
}

pub async fn timeout_at<F: Future>(deadline: Instant, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut timer = Deadline::until(deadline);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => timer.poll(cx).map(|()| Err(Elapsed)),
    })
    .await
}

/// Lets other tasks of this thread run once.
pub async fn yield_now() {
    if sim::is_on() {
        return sim::yield_now().await;
    }
    tokio::task::yield_now().await;
}
