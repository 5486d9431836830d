// SPDX-License-Identifier: BSD-2-Clause
//! The threads for calls that block: one pool for the process, whose size follows from the number of CPUs.
//!
//! The first thread is made by [`prepare_blocking`] at start and stays, so that a system which gives the process no
//! more threads slows these calls down and ends nothing. The others end when they have had nothing to do for a while.
//!
//! A lookup of a name may take as long as somebody else's DNS server likes, and clients may choose the name: lookups
//! have half of the threads at most, so that reading a file never waits for them.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

/// Threads of the pool: this many, and some for each CPU.
const THREADS: usize = 16;
const THREADS_PER_CPU: usize = 4;
/// Calls that may wait for a thread, of each kind.
const QUEUE: usize = 1_000;
/// A thread other than the last one ends when it has had nothing to do for this long.
const IDLE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CallKind {
    /// The call works on files, or calculates.
    Own,
    /// The call asks a resolver.
    Lookup,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoThread {
    /// 1,000 calls wait for a thread already.
    QueueFull,
    /// The pool has no thread, and the system refuses to make one.
    Refused,
}

impl NoThread {
    pub fn text(self) -> &'static str {
        match self {
            Self::QueueFull => "no thread for a blocking call: 1000 of them wait already",
            Self::Refused => "no thread for a blocking call: the system gives no more (see the pids limit)",
        }
    }
}

pub fn prepare_blocking() -> std::io::Result<()> {
    let pool = pool();
    let mut state = pool.lock();
    if state.threads == 0 { pool.add_thread(&mut state) } else { Ok(()) }
}

/// Runs a call that blocks on a thread of the pool: one that reads files or calculates for long.
///
/// # Errors
/// There is no thread for it now. The call wasn't made.
pub async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Result<T, NoThread> {
    run(pool(), CallKind::Own, call).await
}

/// Does what [`blocking`] does, for a call that asks a resolver for a name's addresses.
///
/// # Errors
/// The same as for [`blocking`].
pub async fn blocking_lookup<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Result<T, NoThread> {
    run(pool(), CallKind::Lookup, call).await
}

/// Has a call made on a thread of the pool that nobody waits for.
///
/// # Errors
/// The same as for [`blocking`].
pub fn hand_off(call: impl FnOnce() + Send + 'static) -> Result<(), NoThread> {
    pool().submit(CallKind::Own, Box::new(call))
}

pub fn threads_failed() -> u64 {
    THREADS_FAILED.load(Relaxed)
}

static THREADS_FAILED: AtomicU64 = AtomicU64::new(0);

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool::new(THREADS + THREADS_PER_CPU * sys::cpu::usable()))
}

async fn run<T: Send + 'static>(
    pool: &'static Pool,
    kind: CallKind,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoThread> {
    if crate::sim::is_on() {
        crate::sim::yield_now().await;
        return Ok(call());
    }
    let (sender, receiver) = oneshot::channel::<Result<T, Box<dyn Any + Send>>>();
    let job = move || {
        // Nobody waits for it any more.
        if sender.is_closed() {
            return;
        }
        let _contained = base::critical::contain();
        let _ = sender.send(catch_unwind(AssertUnwindSafe(call)));
    };
    pool.submit(kind, Box::new(job))?;
    match receiver.await.expect("a job that is queued runs, and sends") {
        Ok(value) => Ok(value),
        // A panic goes to whoever awaits.
        Err(panic) => resume_unwind(panic),
    }
}

type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    most_threads: usize,
    state: Mutex<PoolState>,
    more: Condvar,
}

#[derive(Default)]
struct PoolState {
    own: VecDeque<Job>,
    lookups: VecDeque<Job>,
    threads: usize,
    idle: usize,
    looking_up: usize,
}

impl PoolState {
    fn queue(&mut self, kind: CallKind) -> &mut VecDeque<Job> {
        match kind {
            CallKind::Own => &mut self.own,
            CallKind::Lookup => &mut self.lookups,
        }
    }
}

impl Pool {
    fn new(most_threads: usize) -> Pool {
        Pool { most_threads, state: Mutex::default(), more: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // No call runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&'static self, kind: CallKind, job: Job) -> Result<(), NoThread> {
        let mut state = self.lock();
        let queue = state.queue(kind);
        if queue.len() >= QUEUE {
            return Err(NoThread::QueueFull);
        }
        queue.push_back(job);
        let runnable = state.own.len() + state.lookups.len().min(self.free_for_lookups(&state));
        if runnable > state.idle && state.threads < self.most_threads && self.add_thread(&mut state).is_err() {
            // Another thread of the pool will have time for it.
            if state.threads == 0 {
                state.queue(kind).pop_back();
                return Err(NoThread::Refused);
            }
        }
        drop(state);
        self.more.notify_one();
        Ok(())
    }

    fn free_for_lookups(&self, state: &PoolState) -> usize {
        (self.most_threads / 2).max(1).saturating_sub(state.looking_up)
    }

    fn add_thread(&'static self, state: &mut PoolState) -> std::io::Result<()> {
        let started = match base::failpoint::fault("no more threads") {
            true => Err(std::io::ErrorKind::WouldBlock.into()),
            false => std::thread::Builder::new().name("lacquer-blocking".to_owned()).spawn(|| self.work()).map(drop),
        };
        match started {
            Ok(()) => state.threads += 1,
            Err(_) => drop(THREADS_FAILED.fetch_add(1, Relaxed)),
        }
        started
    }

    fn work(&self) {
        sys::fault::protect_this_thread();
        let mut state = self.lock();
        loop {
            let (kind, job) = match self.next_job(&mut state) {
                Some(next) => next,
                None => {
                    state.idle += 1;
                    let waited = self.more.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
                    state = waited.0;
                    state.idle -= 1;
                    let has_work =
                        !state.own.is_empty() || !state.lookups.is_empty() && self.free_for_lookups(&state) > 0;
                    if waited.1.timed_out() && !has_work && state.threads > 1 {
                        state.threads -= 1;
                        return;
                    }
                    continue;
                }
            };
            let is_lookup = kind == CallKind::Lookup;
            state.looking_up += usize::from(is_lookup);
            drop(state);
            job();
            state = self.lock();
            state.looking_up -= usize::from(is_lookup);
        }
    }

    fn next_job(&self, state: &mut PoolState) -> Option<(CallKind, Job)> {
        if let Some(job) = state.own.pop_front() {
            return Some((CallKind::Own, job));
        }
        if self.free_for_lookups(state) == 0 {
            return None;
        }
        state.lookups.pop_front().map(|job| (CallKind::Lookup, job))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    fn leaked(most_threads: usize) -> &'static Pool {
        Box::leak(Box::new(Pool::new(most_threads)))
    }

    /// A job that says that it has begun, and ends when it is told to.
    fn held(pool: &'static Pool, kind: CallKind) -> (Receiver<()>, Sender<()>) {
        let ((begins, begun), (end, ends)) = (channel(), channel());
        let job = move || {
            let _ = begins.send(());
            let _ = ends.recv();
        };
        pool.submit(kind, Box::new(job)).unwrap();
        (begun, end)
    }

    fn on_runtime<T>(main: impl Future<Output = T>) -> T {
        crate::run(main).unwrap()
    }

    #[test]
    fn without_a_thread_a_call_is_refused_and_with_one_it_waits_for_it() {
        let pool = leaked(4);
        base::failpoint::plant(Some("no more threads"));
        let refused = on_runtime(run(pool, CallKind::Own, || 1));
        assert_eq!(refused, Err(NoThread::Refused));
        base::failpoint::plant(None);
        pool.add_thread(&mut pool.lock()).unwrap();
        base::failpoint::plant(Some("no more threads"));
        let (begun, end) = held(pool, CallKind::Own);
        begun.recv().unwrap();
        let both = on_runtime(async {
            let waits = run(pool, CallKind::Own, || 2);
            let frees = async {
                crate::yield_now().await;
                end.send(()).unwrap();
            };
            crate::join(waits, frees).await.0
        });
        base::failpoint::plant(None);
        assert_eq!((both, pool.lock().threads), (Ok(2), 1));
    }

    #[test]
    fn lookups_leave_half_of_the_threads_to_others() {
        let pool = leaked(4);
        let lookups: Vec<_> = (0..4).map(|_| held(pool, CallKind::Lookup)).collect();
        lookups[..2].iter().for_each(|(begun, _)| begun.recv().unwrap());
        assert_eq!(on_runtime(run(pool, CallKind::Own, || 5)), Ok(5));
        assert!(lookups[2].0.try_recv().is_err(), "a third lookup");
        lookups[0].1.send(()).unwrap();
        lookups[2].0.recv().unwrap();
    }

    #[test]
    fn the_queue_is_bounded_and_a_call_that_nobody_waits_for_is_not_made() {
        let pool = leaked(1);
        let (begun, end) = held(pool, CallKind::Own);
        begun.recv().unwrap();
        let was_made = Arc::new(Mutex::new(false));
        on_runtime(async {
            let made = was_made.clone();
            let call = run(pool, CallKind::Own, move || *made.lock().unwrap() = true);
            assert_eq!(crate::timeout(Duration::from_nanos(1), call).await, Err(crate::Elapsed));
        });
        for _ in 1..QUEUE {
            pool.submit(CallKind::Own, Box::new(|| {})).unwrap();
        }
        assert_eq!(on_runtime(run(pool, CallKind::Own, || ())), Err(NoThread::QueueFull));
        end.send(()).unwrap();
        let (last, _end) = held_when_free(pool);
        last.recv().unwrap();
        assert!(!*was_made.lock().unwrap());
    }

    /// Does what [`held`] does, as soon as the queue has room.
    fn held_when_free(pool: &'static Pool) -> (Receiver<()>, Sender<()>) {
        while pool.lock().own.len() >= QUEUE {
            std::thread::yield_now();
        }
        held(pool, CallKind::Own)
    }

    #[test]
    fn a_panic_goes_to_who_awaits_and_the_thread_lives_on() {
        let pool = leaked(1);
        let panics = catch_unwind(|| on_runtime(run(pool, CallKind::Own, || panic!("planted"))));
        assert!(panics.is_err());
        assert_eq!((on_runtime(run(pool, CallKind::Own, || 7)), pool.lock().threads), (Ok(7), 1));
    }
}
