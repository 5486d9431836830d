// SPDX-License-Identifier: BSD-2-Clause
//! How many transactions may be in progress: `thread_pools` times `thread_pool_max`, as if each took a thread. A request
//! beyond that waits, in the order in which they came, while `thread_queue_limit` allows; else it is refused. Usually
//! a request waits, or is refused, before its head is read: see `conn_queue`. A fetch counts and never waits, and neither
//! does a request that goes on after it was parked: others wait for them.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use base::lock::Mutex;
use params::Params;

use crate::sess::Sess;

/// What is refused because memory is short.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
#[repr(u8)]
pub enum Pressure {
    /// Nothing.
    #[default]
    None,
    /// Fetches that no client waits for.
    BackgroundFetches,
    /// All fetches that haven't begun.
    Fetches,
    /// All requests.
    Requests,
}

/// The count and the queue. Shared by all threads.
#[derive(Debug, Default)]
pub struct Admission {
    busy: AtomicU64,
    /// What parameters allow; none at all under [`Pressure::Requests`].
    most: AtomicU64,
    most_waiting: AtomicU64,
    configured: Mutex<Configured>,
    pressure: AtomicU8,
    waiting: AtomicU64,
    queue: Mutex<VecDeque<Arc<Waiter>>>,
}

/// The limits that parameters give.
#[derive(Debug, Default)]
struct Configured {
    most: u64,
    most_waiting: u64,
}

/// A request in the queue.
#[derive(Debug, Default)]
struct Waiter(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    New,
    Waiting(Waker),
    /// Its turn has come: it is counted.
    Called,
    /// It went away.
    Gone,
}

/// There is no room in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueFull;

/// Whether a request may begin.
#[derive(Debug)]
pub enum Entry {
    /// At once.
    Now(Slot),
    /// Later: await it.
    Later(SlotWait),
}

impl Admission {
    /// With the limits of these parameters.
    pub fn new(params: &Params) -> Self {
        let admission = Self::default();
        admission.apply(params);
        admission
    }

    /// New parameters are in force.
    pub fn apply(&self, params: &Params) {
        let pools = u64::from(params.thread_pools);
        let most = pools * u64::from(params.thread_pool_max);
        let most_waiting = pools * u64::from(params.thread_queue_limit);
        self.allow(|configured| *configured = Configured { most, most_waiting });
    }

    /// Memory is short, or no longer.
    pub fn set_pressure(&self, pressure: Pressure) {
        self.allow(|_| self.pressure.store(pressure as u8, Relaxed));
    }

    /// What is refused because memory is short. Asked where something begins that needs much of it, never on a hit's way.
    pub fn pressure(&self) -> Pressure {
        match self.pressure.load(Relaxed) {
            0 => Pressure::None,
            1 => Pressure::BackgroundFetches,
            2 => Pressure::Fetches,
            _ => Pressure::Requests,
        }
    }

    /// Changes what the limits hang on, and puts them into force.
    fn allow(&self, change: impl FnOnce(&mut Configured)) {
        {
            let mut configured = self.configured.lock();
            change(&mut configured);
            let is_shut = self.pressure() == Pressure::Requests;
            self.most.store(if is_shut { 0 } else { configured.most }, SeqCst);
            self.most_waiting.store(if is_shut { 0 } else { configured.most_waiting }, SeqCst);
        }
        self.call_next();
    }

    /// Transactions in progress.
    pub fn busy(&self) -> u64 {
        self.busy.load(Relaxed)
    }

    /// Requests that wait.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    /// Whether a request that came now would have to wait or be refused.
    pub fn is_saturated(&self) -> bool {
        self.busy.load(Relaxed) >= self.most.load(Relaxed)
    }

    /// Whether it would be refused.
    pub fn is_full(&self) -> bool {
        self.is_saturated() && self.waiting.load(Relaxed) >= self.most_waiting.load(Relaxed)
    }

    fn try_enter(&self) -> bool {
        if self.busy.fetch_add(1, SeqCst) < self.most.load(Relaxed) {
            return true;
        }
        self.leave();
        false
    }

    fn leave(&self) {
        self.busy.fetch_sub(1, SeqCst);
        // Who queues up says so before it looks at `busy` again: one of the two sees the other.
        if self.waiting.load(SeqCst) > 0 {
            self.call_next();
        }
        crate::conn_queue::call_first();
    }

    /// Calls as many of the queue as there is room for.
    fn call_next(&self) {
        let mut called = Vec::new();
        {
            let mut queue = self.queue.lock();
            while self.busy.load(SeqCst) < self.most.load(SeqCst) {
                let Some(place) = queue.pop_front() else { break };
                self.waiting.store(queue.len() as u64, SeqCst);
                let mut state = place.0.lock();
                let before = std::mem::replace(&mut *state, State::Called);
                match before {
                    State::Gone => *state = State::Gone,
                    State::New | State::Called => drop(self.busy.fetch_add(1, SeqCst)),
                    State::Waiting(waker) => {
                        self.busy.fetch_add(1, SeqCst);
                        called.push(waker);
                    }
                }
            }
        }
        called.into_iter().for_each(Waker::wake);
    }
}

/// A slot for a request of this session, or its place in the queue. `main` counts what happens.
///
/// # Errors
/// [`QueueFull`].
pub fn enter(sess: &Rc<Sess>) -> Result<Entry, QueueFull> {
    let (admission, main) = (&sess.engine.admission, sess.engine.main);
    if admission.try_enter() {
        return Ok(Entry::Now(Slot(sess.clone())));
    }
    main.threads_limited.inc();
    let place = Arc::<Waiter>::default();
    {
        let mut queue = admission.queue.lock();
        if queue.len() as u64 >= admission.most_waiting.load(SeqCst) {
            return Err(QueueFull);
        }
        queue.push_back(place.clone());
        admission.waiting.store(queue.len() as u64, SeqCst);
    }
    main.sess_queued.inc();
    admission.call_next();
    Ok(Entry::Later(SlotWait { sess: sess.clone(), place }))
}

/// A slot whatever the limit: for what others wait for.
pub fn enter_anyway(sess: &Rc<Sess>) -> Slot {
    sess.engine.admission.busy.fetch_add(1, SeqCst);
    Slot(sess.clone())
}

/// One of the transactions in progress.
pub struct Slot(Rc<Sess>);

impl Drop for Slot {
    fn drop(&mut self) {
        if base::failpoint::fault("a slot that isn't given back") {
            return;
        }
        self.0.engine.admission.leave();
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Slot")
    }
}

/// A place in the queue.
pub struct SlotWait {
    sess: Rc<Sess>,
    place: Arc<Waiter>,
}

impl Future for SlotWait {
    type Output = Slot;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Slot> {
        let mut state = self.place.0.lock();
        if matches!(*state, State::Called) {
            *state = State::Gone;
            return Poll::Ready(Slot(self.sess.clone()));
        }
        *state = State::Waiting(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for SlotWait {
    fn drop(&mut self) {
        let admission = &self.sess.engine.admission;
        let before = std::mem::replace(&mut *self.place.0.lock(), State::Gone);
        match before {
            State::Called => admission.leave(),
            State::New | State::Waiting(_) => {
                let mut queue = admission.queue.lock();
                queue.retain(|place| !Arc::ptr_eq(place, &self.place));
                admission.waiting.store(queue.len() as u64, SeqCst);
            }
            State::Gone => {}
        }
    }
}

impl std::fmt::Debug for SlotWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wait")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn under_the_last_pressure_nothing_is_admitted_whatever_parameters_say() {
        let mut params = Params::default();
        let admission = Admission::new(&params);
        let state = || (admission.is_saturated(), admission.is_full());
        assert_eq!((state(), admission.pressure()), ((false, false), Pressure::None));
        admission.set_pressure(Pressure::Fetches);
        assert_eq!(state(), (false, false), "a request may be a hit");
        admission.set_pressure(Pressure::Requests);
        assert_eq!(state(), (true, true));
        params.thread_pool_max = 10;
        admission.apply(&params);
        assert_eq!((state(), admission.pressure()), ((true, true), Pressure::Requests));
        admission.set_pressure(Pressure::None);
        assert_eq!((state(), admission.most.load(Relaxed)), ((false, false), u64::from(params.thread_pools) * 10));
    }
}
