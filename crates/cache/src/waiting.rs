// SPDX-License-Identifier: BSD-2-Clause
//! Requests parked on a busy objhead, and what wakes them.
//!
//! No wake-up is lost: whoever was woken and goes away without looking up again wakes the next.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base::Mono;
use sync::{Called, Line, Turn};

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

/// Holders of a right to fetch that haven't begun and want to know when another request is parked behind them.
#[derive(Default)]
pub(crate) struct Leaders(HashMap<Digest, Line<()>>);

impl Leaders {
    /// A request was parked; the caller wakes them after the unlock.
    pub fn call(&mut self, digest: &Digest) -> Vec<Called> {
        let Some(mut line) = self.0.remove(digest) else { return Vec::new() };
        std::iter::from_fn(|| line.call(())).collect()
    }

    fn join(&mut self, digest: &Digest) -> Turn<()> {
        self.0.entry(*digest).or_default().join()
    }

    fn leave(&mut self, digest: &Digest, turn: &Turn<()>) {
        if let Some(line) = self.0.get_mut(digest) {
            // All are called at once, so a call is never passed on.
            let _call = line.leave(turn);
            if line.is_empty() {
                self.0.remove(digest);
            }
        }
    }
}

/// Resolves once another request is parked behind a fetch.
#[must_use = "a future does nothing unless it is polled"]
pub struct Followed<'a> {
    cache: &'a Cache,
    digest: Digest,
    /// `None`: one is parked already.
    turn: Option<Turn<()>>,
}

impl<'a> Followed<'a> {
    pub(crate) fn new(cache: &'a Cache, digest: Digest) -> Self {
        let mut shard = cache.shared().shard(&digest).lock();
        let turn = if shard.heads.has_waiters(&digest) { None } else { Some(shard.leaders.join(&digest)) };
        Followed { cache, digest, turn }
    }
}

impl Future for Followed<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.turn.as_ref().map_or(Poll::Ready(()), |turn| turn.poll(cx))
    }
}

impl Drop for Followed<'_> {
    fn drop(&mut self) {
        if let Some(turn) = &self.turn {
            self.cache.shared().shard(&self.digest).lock().leaders.leave(&self.digest, turn);
        }
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
