// SPDX-License-Identifier: BSD-2-Clause
//! Requests parked on a busy objhead, and what wakes them.
//!
//! No wake-up is lost: whoever was woken and goes away without looking up again wakes the next.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use base::critical::Lock;

use crate::cache::Cache;
use crate::digest::Digest;

/// One parked request, as the objhead knows it.
pub(crate) struct Waiter {
    state: Lock<Wait>,
}

enum Wait {
    Parked(Option<Waker>),
    Woken,
    Gone,
}

impl Waiter {
    pub fn parked() -> Arc<Self> {
        Arc::new(Self { state: Lock::new(Wait::Parked(None)) })
    }

    /// Rushes it; `false` when it has gone away meanwhile.
    pub fn wake(&self) -> bool {
        let waker = {
            let mut state = self.state.lock();
            match &mut *state {
                Wait::Gone => return false,
                Wait::Woken => return true,
                Wait::Parked(waker) => {
                    let waker = waker.take();
                    *state = Wait::Woken;
                    waker
                }
            }
        };
        waker.into_iter().for_each(Waker::wake);
        true
    }

    /// Goes away; `true` when it had been woken, so that somebody else must be.
    fn leave(&self) -> bool {
        matches!(std::mem::replace(&mut *self.state.lock(), Wait::Gone), Wait::Woken)
    }

    /// Whether it went away while parked.
    pub fn is_gone(&self) -> bool {
        matches!(*self.state.lock(), Wait::Gone)
    }
}

/// A place on the waitinglist. Await it (or poll it), then give it to [`Cache::resume`]. Dropping it leaves the list.
pub struct Ticket {
    cache: Cache,
    digest: Digest,
    waiter: Arc<Waiter>,
    /// The invalidations known when the request first looked up: later ones don't concern it.
    arrival: u64,
    is_used: bool,
}

impl Ticket {
    pub(crate) fn new(cache: Cache, digest: Digest, waiter: Arc<Waiter>, arrival: u64) -> Self {
        Self { cache, digest, waiter, arrival, is_used: false }
    }

    /// The request looks up again: whom it wakes next depends on what it finds.
    pub(crate) fn redeem(mut self) -> (Digest, u64) {
        self.is_used = true;
        // Whoever looks up again before it was woken leaves its place like one that goes away.
        if !self.waiter.leave() {
            self.cache.count_gone(&self.digest);
        }
        (self.digest, self.arrival)
    }

    /// Whether it has been woken.
    pub fn is_woken(&self) -> bool {
        matches!(*self.waiter.state.lock(), Wait::Woken)
    }
}

impl Future for Ticket {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut *self.waiter.state.lock() {
            Wait::Woken | Wait::Gone => Poll::Ready(()),
            Wait::Parked(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.is_used {
            return;
        }
        self.cache.shared().main.busy_killed.inc();
        if self.waiter.leave() {
            self.cache.rush(&self.digest);
        } else {
            self.cache.count_gone(&self.digest);
        }
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ticket({:?})", self.digest)
    }
}
