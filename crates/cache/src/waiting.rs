// SPDX-License-Identifier: BSD-2-Clause
//! Requests parked on a busy objhead, and what wakes them.
//!
//! No wake-up is lost: whoever was woken and goes away without looking up again wakes the next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use base::Mono;
use sync::Turn;

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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RushReason {
    LookAgain,
    /// The fetch produced nothing that another request could use. Each request fetches on its own; otherwise they would
    /// do so one after the other.
    EachAlone,
}

/// A place on the waitinglist. Dropping it leaves the list.
pub(crate) struct Parked {
    cache: Cache,
    digest: Digest,
    turn: Turn<RushReason>,
    has_left: bool,
}

impl Parked {
    pub fn new(cache: Cache, digest: Digest, turn: Turn<RushReason>) -> Self {
        Self { cache, digest, turn, has_left: false }
    }

    /// Leaves the list for another look, whose result decides which requests are woken next; `true`: the request
    /// shouldn't wait again.
    pub fn leave(mut self) -> bool {
        self.end() == Some(RushReason::EachAlone)
    }

    /// The reason for which it was woken; a request that looks again before, or goes away, leaves its place.
    fn end(&mut self) -> Option<RushReason> {
        self.has_left = true;
        self.turn.take().or_else(|| self.cache.leave_waitinglist(&self.digest, &self.turn))
    }

    pub fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        self.turn.poll(cx)
    }

    #[cfg(test)]
    pub fn is_woken(&self) -> bool {
        self.turn.is_called()
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        self.cache.shared().main.busy_killed.inc();
        match self.end() {
            Some(RushReason::LookAgain) if base::failpoint::fault("a waiter left behind by a dropped client") => {}
            Some(RushReason::LookAgain) => self.cache.rush(&self.digest),
            // All the others were woken, too.
            Some(RushReason::EachAlone) | None => {}
        }
    }
}

impl std::fmt::Debug for Parked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Parked({:?})", self.digest)
    }
}
