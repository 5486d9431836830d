// SPDX-License-Identifier: BSD-2-Clause
//! How many transactions may be in progress: `thread_pools` times `thread_pool_max`, as if each took a thread. A request
//! beyond that waits, in the order in which they came, while `thread_queue_limit` allows; else it is refused. Usually
//! a request waits, or is refused, before its head is read: see `conn_queue`. A fetch counts and never waits, and neither
//! does a request that goes on after it was parked: others wait for them.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll};

use base::lock::Mutex;
use params::Params;
use sync::Limit;
use sync::limit::Place;
pub use sync::limit::QueueFull;

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
    /// The transactions that parameters allow at once; none under [`Pressure::Requests`].
    limit: Limit,
    configured: Mutex<Configured>,
    pressure: AtomicU8,
}

/// The limits that parameters give.
#[derive(Debug, Default)]
struct Configured {
    most: u64,
    most_waiting: u64,
}

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
            match self.pressure() {
                Pressure::Requests => self.limit.set(0, 0),
                Pressure::None | Pressure::BackgroundFetches | Pressure::Fetches => {
                    self.limit.set(configured.most, configured.most_waiting);
                }
            }
        }
        self.limit.call_next();
    }

    /// Transactions in progress.
    pub fn busy(&self) -> u64 {
        self.limit.busy()
    }

    /// Requests that wait.
    pub fn waiting(&self) -> u64 {
        self.limit.waiting()
    }

    /// Whether a request that came now would have to wait or be refused.
    pub fn is_saturated(&self) -> bool {
        self.limit.is_saturated()
    }

    /// Whether it would be refused.
    pub fn is_full(&self) -> bool {
        self.limit.is_full()
    }

    fn try_enter(&self) -> bool {
        let has_entered = self.limit.try_enter();
        if !has_entered {
            crate::conn_queue::call_first();
        }
        has_entered
    }

    fn leave(&self) {
        self.limit.leave();
        crate::conn_queue::call_first();
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
    let place = admission.limit.queue_up()?;
    main.sess_queued.inc();
    Ok(Entry::Later(SlotWait { sess: sess.clone(), place }))
}

/// A slot whatever the limit: for what others wait for.
pub fn enter_anyway(sess: &Rc<Sess>) -> Slot {
    sess.engine.admission.limit.enter_anyway();
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
    place: Place,
}

impl Future for SlotWait {
    type Output = Slot;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Slot> {
        let limit = &self.sess.engine.admission.limit;
        limit.poll(&self.place, cx).map(|()| Slot(self.sess.clone()))
    }
}

impl Drop for SlotWait {
    fn drop(&mut self) {
        if self.sess.engine.admission.limit.give_up(&self.place) {
            crate::conn_queue::call_first();
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
        assert_eq!((state(), admission.limit.most()), ((false, false), u64::from(params.thread_pools) * 10));
    }
}
