// SPDX-License-Identifier: BSD-2-Clause
//! The fleet as transactions see it. Bans and purges by VCL are appended to the fleet's log and acknowledged once they
//! are there. The log's follower decides which cached objects may be found.
//!
//! A server without a fleet has none of this but an empty [`Fleet`]. A lookup looks at one flag, [`Engine::is_restricted`], whether
//! there is a fleet or not.
//!
//! Two kinds of invalidations aren't logged: those that a response causes by RFC 9111, which every cache does for
//! itself, and bans in `vcl_init`, which every node runs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use ::fleet::{Gate, Invalidation, Node, PendingInvalidation};
use base::Mono;
use cache::{Digest, LookupOptions};
use vrt::ctx::VclFailure;

use crate::engine::Engine;

/// No limit on the age of objects that may be found ...
const OPEN: u64 = u64::MAX;
/// ... or none; else the greatest one in milliseconds.
const CLOSED: u64 = 0;

pub struct Fleet {
    node: OnceLock<Node>,
    /// Greatest age in milliseconds of objects that may be found.
    most_ms: AtomicU64,
}

impl Default for Fleet {
    fn default() -> Self {
        Fleet { node: OnceLock::new(), most_ms: AtomicU64::new(OPEN) }
    }
}

impl Engine {
    /// From now on it belongs to a fleet, and nothing is found until the gate is opened.
    pub fn join_fleet(&self, node: Node) {
        self.set_gate(Gate::Closed);
        assert!(self.fleet.node.set(node).is_ok(), "a server belongs to one fleet");
    }

    pub fn fleet_node(&self) -> Option<&Node> {
        self.fleet.node.get()
    }

    pub fn set_gate(&self, gate: Gate) {
        let most = match gate {
            Gate::Closed if base::failpoint::fault("a gate that is never closed") => OPEN,
            Gate::Capped(_) if base::failpoint::fault("a cap on staleness that is forgotten") => OPEN,
            Gate::Open => OPEN,
            Gate::Closed => CLOSED,
            Gate::Capped(age) => u64::try_from(age.as_millis()).unwrap_or(OPEN).clamp(CLOSED + 1, OPEN - 1),
        };
        self.fleet.most_ms.store(most, SeqCst);
        self.restrict_if_needed();
    }

    pub(crate) fn is_gated(&self) -> bool {
        self.fleet.most_ms.load(SeqCst) != OPEN
    }

    pub(crate) fn restrict(&self, options: LookupOptions) -> LookupOptions {
        let most = self.fleet.most_ms.load(Relaxed);
        let always_miss = options.always_miss || self.is_recalled() || most == CLOSED;
        if most == OPEN || most == CLOSED {
            return LookupOptions { always_miss, ..options };
        }
        let most = Duration::from_millis(most).as_secs_f64();
        let max_age = Some(options.max_age.map_or(most, |asked| asked.min(most)));
        LookupOptions { always_miss, max_age, ..options }
    }

    /// Checks that an invalidation can reach the whole fleet. While the log is away nothing is invalidated here either.
    ///
    /// # Errors
    /// The reason why it can't.
    pub fn may_announce(&self) -> Result<(), VclFailure> {
        self.fleet_node().map_or(Ok(()), Node::check).map_err(VclFailure::new)
    }

    /// Announces an invalidation here that the other nodes will receive. Until the result is dropped no copies are
    /// taken from peers. Without a log the others receive nothing, and no copies are taken that are older.
    pub fn begin_invalidation(&self) -> Option<PendingInvalidation> {
        if self.fleet_node().is_none()
            && let Some(peers) = self.peers.get()
        {
            peers.note_invalidation(self.clock.mono());
        }
        self.fleet_node().map(Node::begin_invalidation)
    }

    /// Invalidates in the other caches of the tier what a response has invalidated here (RFC 9111 4.4); otherwise their
    /// copies would come back. Nobody waits for it.
    pub(crate) fn announce_to_peers(&self, what: impl FnOnce() -> Invalidation, at: Mono) {
        let Some(peers) = self.peers.get() else { return };
        match self.fleet_node() {
            Some(node) => drop(node.append(what(), self.real_of(at).0)),
            None => peers.note_invalidation(self.clock.mono()),
        }
    }
}

pub(crate) fn purge(digest: &Digest, purge: cache::Purge) -> Invalidation {
    let cache::Purge { ttl, grace, keep } = purge;
    Invalidation::Purge { digest: digest.0, ttl, grace, keep }
}
