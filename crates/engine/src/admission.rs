// SPDX-License-Identifier: BSD-2-Clause
//! How many fetches and pipes may be in progress: `thread_pools` times `thread_pool_max`. A request takes a slot when it needs an
//! origin and hands it to its fetch. A hit needs none, so that no origin, however slow, takes hits away. A request beyond the limit
//! waits, in the order in which they came, while `thread_queue_limit` allows; else it is refused.
//!
//! One client may hold a part of the slots ([`ClientShares`]), so that others have theirs. A fetch that goes on when its client is gone still
//! counts for that client.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll};

use base::lock::Mutex;
use net::Address;
use params::Params;
use sync::Limit;
use sync::limit::LimitPlace;

use crate::sess::Sess;

/// The work that is refused because memory is short.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
#[repr(u8)]
pub enum Pressure {
    #[default]
    None,
    BackgroundFetches,
    Fetches,
    /// Every request, also one that would be a hit.
    Requests,
}

/// The count and the queue. Shared by all threads.
#[derive(Debug, Default)]
pub struct Admission {
    /// The fetches that parameters allow at once; none under [`Pressure::Requests`].
    limit: Limit,
    clients: ClientShares,
    configured: Mutex<Configured>,
    pressure: AtomicU8,
}

#[derive(Debug, Default)]
struct Configured {
    most: u64,
    most_waiting: u64,
}

/// Permission for a fetch to begin, now or later.
#[derive(Debug)]
pub enum AdmissionEntry {
    Now(FetchSlot),
    /// Permission once a slot is free: await it.
    Later(SlotWait),
}

/// The reason why a fetch may not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdmissionRefusal {
    QueueFull,
    ClientShare,
}

impl AdmissionRefusal {
    pub fn limit(self) -> &'static str {
        match self {
            Self::QueueFull => "thread_queue_limit",
            Self::ClientShare => "max_fetches_per_ip",
        }
    }
}

impl Admission {
    pub fn new(params: &Params) -> Self {
        let admission = Self::default();
        admission.apply(params);
        admission
    }

    pub fn apply(&self, params: &Params) {
        let pools = u64::from(params.thread_pools);
        let most = pools * u64::from(params.thread_pool_max);
        let most_waiting = pools * u64::from(params.thread_queue_limit);
        self.clients.set(most, params.max_fetches_per_ip);
        self.allow(|configured| *configured = Configured { most, most_waiting });
    }

    pub fn set_pressure(&self, pressure: Pressure) {
        self.allow(|_| self.pressure.store(pressure as u8, Relaxed));
    }

    #[inline]
    pub fn pressure(&self) -> Pressure {
        match self.pressure.load(Relaxed) {
            0 => Pressure::None,
            1 => Pressure::BackgroundFetches,
            2 => Pressure::Fetches,
            _ => Pressure::Requests,
        }
    }

    /// True if every request is refused, also one that would be a hit.
    #[inline]
    pub fn refuses_all(&self) -> bool {
        self.pressure() == Pressure::Requests
    }

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

    pub fn busy(&self) -> u64 {
        self.limit.busy()
    }

    pub fn waiting(&self) -> u64 {
        self.limit.waiting()
    }

    pub(crate) fn is_full(&self) -> bool {
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

/// A slot for a fetch of this session, or its place in the queue.
///
/// # Errors
/// The fetch is refused: see [`AdmissionRefusal`].
pub fn enter(sess: &Rc<Sess>) -> Result<AdmissionEntry, AdmissionRefusal> {
    let (admission, main) = (&sess.engine.requests.admission, sess.engine.main);
    let charge = Charge::take(sess)?;
    if admission.try_enter() {
        return Ok(AdmissionEntry::Now(FetchSlot(charge)));
    }
    main.threads_limited.inc();
    let place = admission.limit.queue_up().map_err(|sync::limit::QueueFull| AdmissionRefusal::QueueFull)?;
    main.sess_queued.inc();
    Ok(AdmissionEntry::Later(SlotWait { charge: Some(charge), sess: sess.clone(), place }))
}

/// A slot for a fetch that never waits, whatever the limit of all: a page that has begun gets its fragments.
///
/// # Errors
/// [`AdmissionRefusal::ClientShare`].
pub fn enter_unqueued(sess: &Rc<Sess>) -> Result<FetchSlot, AdmissionRefusal> {
    let charge = Charge::take(sess)?;
    sess.engine.requests.admission.limit.enter_anyway();
    Ok(FetchSlot(charge))
}

/// A slot for a fetch that nobody waits for, if there is one.
pub fn enter_if_free(sess: &Rc<Sess>) -> Option<FetchSlot> {
    let charge = Charge::take(sess).ok()?;
    sess.engine.requests.admission.try_enter().then_some(FetchSlot(charge))
}

/// A slot whatever the limits: for the next piece of a response that has begun.
pub fn enter_anyway(sess: &Rc<Sess>) -> FetchSlot {
    sess.engine.requests.admission.limit.enter_anyway();
    FetchSlot(Charge::take_anyway(sess))
}

pub struct FetchSlot(Charge);

impl Drop for FetchSlot {
    fn drop(&mut self) {
        if base::failpoint::fault("a slot that isn't given back") {
            return;
        }
        self.0.sess.engine.requests.admission.leave();
    }
}

impl std::fmt::Debug for FetchSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Slot")
    }
}

pub struct SlotWait {
    charge: Option<Charge>,
    sess: Rc<Sess>,
    place: LimitPlace,
}

impl Future for SlotWait {
    type Output = FetchSlot;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<FetchSlot> {
        let called = self.sess.engine.requests.admission.limit.poll(&self.place, cx);
        called.map(|()| FetchSlot(self.charge.take().expect("a wait isn't polled after its end")))
    }
}

impl Drop for SlotWait {
    fn drop(&mut self) {
        if self.sess.engine.requests.admission.limit.give_up(&self.place) {
            crate::conn_queue::call_first();
        }
    }
}

impl std::fmt::Debug for SlotWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wait")
    }
}

struct Charge {
    sess: Rc<Sess>,
    at: ClientCells,
}

impl Charge {
    fn take(sess: &Rc<Sess>) -> Result<Charge, AdmissionRefusal> {
        let charge = Charge::take_anyway(sess);
        let engine = &sess.engine;
        if engine.requests.admission.clients.is_exceeded(charge.at) {
            engine.main.fetch_limited_ip.inc();
            return Err(AdmissionRefusal::ClientShare);
        }
        Ok(charge)
    }

    fn take_anyway(sess: &Rc<Sess>) -> Charge {
        let clients = &sess.engine.requests.admission.clients;
        let at = match sess.ends.client() {
            Address::Inet(addr) => {
                let params = sess.engine.params.load();
                let (v4_bits, v6_bits) = (params.max_sessions_ipv4_prefix, params.max_sessions_ipv6_prefix);
                clients.cells(net::address::network_of(addr.ip(), v4_bits, v6_bits))
            }
            // Nothing is known of the client but its connection.
            Address::Unix => clients.cells(sess.vxid),
        };
        clients.add(at);
        Charge { sess: sess.clone(), at }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.sess.engine.requests.admission.clients.remove(self.at);
    }
}

const CELLS: usize = 1024;
/// A client may always have this many fetches in progress, also on a server that allows few in all.
const LEAST_SHARE: u64 = 100;

/// Fetches in progress by client, in two rows of counters. In each row a client has one cell, chosen by a keyed hash of
/// its network. Takes no lock and no memory that grows. Clients may share a cell: a client is refused when both of its
/// cells are above the limit, and all slots together suffice for few such cells.
#[derive(Debug)]
struct ClientShares {
    rows: [Box<[AtomicU32]>; 2],
    keys: RandomState,
    most: AtomicU32,
}

#[derive(Clone, Copy)]
struct ClientCells([u16; 2]);

impl Default for ClientShares {
    fn default() -> Self {
        let row = || sys::zeroed::table(CELLS);
        ClientShares { rows: [row(), row()], keys: RandomState::new(), most: AtomicU32::new(u32::MAX) }
    }
}

impl ClientShares {
    /// One client may have `percent` of `all`.
    fn set(&self, all: u64, percent: u32) {
        let share = if percent >= 100 { u64::MAX } else { (all * u64::from(percent) / 100).max(LEAST_SHARE) };
        self.most.store(share.try_into().unwrap_or(u32::MAX), Relaxed);
    }

    fn cells(&self, client: impl std::hash::Hash) -> ClientCells {
        let hash = self.keys.hash_one(client);
        ClientCells([(hash % CELLS as u64) as u16, (hash / CELLS as u64 % CELLS as u64) as u16])
    }

    fn of(&self, at: ClientCells) -> [&AtomicU32; 2] {
        [&self.rows[0][usize::from(at.0[0])], &self.rows[1][usize::from(at.0[1])]]
    }

    fn add(&self, at: ClientCells) {
        self.of(at).iter().for_each(|count| _ = count.fetch_add(1, Relaxed));
    }

    fn remove(&self, at: ClientCells) {
        self.of(at).iter().for_each(|count| _ = count.fetch_sub(1, Relaxed));
    }

    fn is_exceeded(&self, at: ClientCells) -> bool {
        let most = self.most.load(Relaxed);
        self.of(at).iter().all(|count| count.load(Relaxed) > most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn under_the_last_pressure_nothing_is_admitted_whatever_parameters_say() {
        let mut params = Params::default();
        let admission = Admission::new(&params);
        let state = || (admission.refuses_all(), admission.is_full());
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

    #[test]
    fn a_client_has_its_share_and_others_have_theirs() {
        let shares = ClientShares::default();
        shares.set(10_000, 25);
        let greedy = shares.cells("greedy");
        for _ in 0..2_500 {
            shares.add(greedy);
            assert!(!shares.is_exceeded(greedy));
        }
        shares.add(greedy);
        assert!(shares.is_exceeded(greedy));
        let of_honest = (0..1_000).map(|n| shares.cells(n));
        assert!(of_honest.filter(|at| shares.is_exceeded(*at)).count() <= 1, "one of a million shares both cells");
        shares.remove(greedy);
        assert!(!shares.is_exceeded(greedy));
    }

    #[test]
    fn a_share_is_never_too_small_to_work_with_and_100_percent_is_no_limit() {
        let shares = ClientShares::default();
        for (all, percent, most) in [(10_000, 10, 1_000), (200, 25, 100), (10_000, 100, u32::MAX)] {
            shares.set(all, percent);
            assert_eq!(shares.most.load(Relaxed), most);
        }
    }
}
