// SPDX-License-Identifier: BSD-2-Clause
//! Requests parked on a busy objhead, and what wakes them.
//!
//! No wake-up is lost: whoever was woken and goes away without looking up again wakes the next.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base::Mono;
use sync::waiter::Leave;

use crate::cache::Cache;
use crate::digest::Digest;
use crate::objcore::Objcore;

/// Objects of a shard for which parked requests were woken a moment ago. Until those have looked again, an invalidation
/// that came later than the requests leaves them the object.
#[derive(Default)]
pub(crate) struct RecentRushes(VecDeque<(usize, Mono)>);

/// Most objects remembered; beyond that the oldest are forgotten, and a request may have to wait once more.
const AWAITED: usize = 1024;

impl RecentRushes {
    /// Requests were woken for `oc`; they will look it up by `until`.
    pub fn add(&mut self, oc: &Arc<Objcore>, now: Mono, until: Mono) {
        while self.0.front().is_some_and(|(_, end)| end.0 < now.0) || self.0.len() >= AWAITED {
            self.0.pop_front();
        }
        self.0.push_back((Arc::as_ptr(oc).addr(), until));
    }

    /// True if one of them may still be on its way. An address may belong to another objcore by now, which then just
    /// lives on unseen for a moment.
    pub fn has(&self, oc: &Arc<Objcore>, now: Mono) -> bool {
        self.0.iter().any(|(at, until)| *at == Arc::as_ptr(oc).addr() && until.0 >= now.0)
    }
}

/// One parked request, as the objhead knows it.
pub(crate) type ParkedRequest = sync::Waiter<RushReason>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RushReason {
    LookAgain,
    /// The fetch produced nothing that another request could use. Each request fetches on its own; otherwise they would
    /// do so one after the other.
    EachAlone,
}

/// A place on the waitinglist. Await it (or poll it), then give it to [`Cache::resume`]. Dropping it leaves the list.
pub struct Ticket {
    cache: Cache,
    digest: Digest,
    waiter: Arc<ParkedRequest>,
    /// The invalidations known when the request first looked up: later ones don't concern it.
    arrival_sequence: u64,
    is_used: bool,
    /// The ticket is on a list; otherwise it only lets other tasks have their turn.
    is_parked: bool,
}

impl Ticket {
    pub(crate) fn new(cache: Cache, digest: Digest, waiter: Arc<ParkedRequest>, arrival_sequence: u64) -> Self {
        Self { cache, digest, waiter, arrival_sequence, is_used: false, is_parked: true }
    }

    /// A ticket for a request that isn't parked and continues after other tasks had their turn.
    pub(crate) fn unparked(cache: Cache, digest: Digest, arrival_sequence: u64, is_alone: bool) -> Self {
        let waiter = ParkedRequest::new();
        if is_alone {
            waiter.call(RushReason::EachAlone);
        }
        Self { cache, digest, waiter, arrival_sequence, is_used: false, is_parked: false }
    }

    /// Uses the ticket for another lookup. The lookup's result decides which requests are woken next.
    pub(crate) fn redeem(mut self) -> Redemption {
        self.is_used = true;
        let before = self.waiter.leave();
        // A request that looks up again before it was woken leaves its place like one that goes away.
        if !matches!(before, Leave::Called(_)) && self.is_parked {
            self.cache.count_gone(&self.digest);
        }
        let is_alone = before == Leave::Called(RushReason::EachAlone);
        Redemption {
            digest: self.digest,
            arrival_sequence: self.arrival_sequence,
            is_alone,
            was_parked: self.is_parked,
        }
    }

    pub fn is_woken(&self) -> bool {
        self.waiter.is_called()
    }
}

pub(crate) struct Redemption {
    pub digest: Digest,
    pub arrival_sequence: u64,
    /// The request doesn't wait again.
    pub is_alone: bool,
    pub was_parked: bool,
}

impl Future for Ticket {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(is_first) = self.waiter.park(cx.waker()) else { return Poll::Ready(()) };
        if self.is_parked {
            return Poll::Pending;
        }
        cx.waker().wake_by_ref();
        if is_first { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.is_used || !self.is_parked {
            return;
        }
        self.cache.shared().main.busy_killed.inc();
        match self.waiter.leave() {
            Leave::Called(RushReason::LookAgain)
                if base::failpoint::fault("a waiter left behind by a dropped client") => {}
            Leave::Called(RushReason::LookAgain) => self.cache.rush(&self.digest),
            // All the others were woken, too.
            Leave::Called(RushReason::EachAlone) => {}
            Leave::Uncalled | Leave::Repeated => self.cache.count_gone(&self.digest),
        }
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ticket({:?})", self.digest)
    }
}
