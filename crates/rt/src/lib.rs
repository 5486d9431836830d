// SPDX-License-Identifier: BSD-2-Clause
//! The only wrapper of tokio's runtime: spawning, timers, the blocking pool. A simulator can take its place.
//!
//! Every CPU has one `current_thread` runtime with a `LocalSet`; tasks stay on the thread that spawned them.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use tokio::task::{AbortHandle, JoinHandle};
pub use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// Runs `main` on this thread's runtime until it ends. Local tasks it spawned are dropped then.
///
/// # Errors
/// The operating system refused what a runtime needs (an epoll instance, an eventfd).
pub fn run<F: Future>(main: F) -> std::io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    Ok(local.block_on(&runtime, main))
}

/// A number for this thread, and so for its runtime: different for every thread there ever was.
pub fn home() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static HOME: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    HOME.with(|home| *home)
}

/// Spawns a task on this thread's runtime.
pub fn spawn<F: Future<Output = ()> + 'static>(task: F) -> JoinHandle<()> {
    tokio::task::spawn_local(task)
}

/// Runs a blocking call on the runtime's bounded pool.
pub async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(call).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// The time ran out before the future was ready.
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
    tokio::time::timeout(limit, future).await.map_err(|_| Elapsed)
}

/// Both results, once both futures are ready; they run in turn on this task.
pub async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    tokio::join!(a, b)
}

/// Waits for `future` until `deadline`.
///
/// # Errors
/// [`Elapsed`] when the time ran out.
pub async fn timeout_at<F: Future>(deadline: Instant, future: F) -> Result<F::Output, Elapsed> {
    tokio::time::timeout_at(deadline, future).await.map_err(|_| Elapsed)
}

/// Lets other tasks of this thread run once.
pub async fn yield_now() {
    tokio::task::yield_now().await;
}
