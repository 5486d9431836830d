// SPDX-License-Identifier: BSD-2-Clause
//! The cluster as transactions see it: a fleet, which shares invalidations, a tier of caches that ask each other, a successor of this worker.
//! Bans and purges by VCL are appended to the fleet's log and acknowledged once they are there. The log's follower decides which cached
//! objects may be found.
//!
//! A server without a cluster has an empty [`Cluster`]. A lookup looks at one flag, [`CacheGate::is_restricted`], whether there is a fleet or
//! not.
//!
//! Two kinds of invalidations aren't logged: those that a response causes by RFC 9111, which every cache does for
//! itself, and bans in `vcl_init`, which every node runs.

use std::sync::OnceLock;

use ::fleet::{Gate, Invalidation, Node, PendingInvalidation};
use base::Mono;
use cache::Digest;
use vrt::ctx::VclFailure;

use crate::engine::Engine;
use crate::gate::CacheGate;
use crate::peers::Peers;

/// Other caches that this one shares its work with.
#[derive(Default)]
pub struct Cluster {
    node: OnceLock<Node>,
    peers: OnceLock<Peers>,
    pub gate: CacheGate,
}

impl Cluster {
    /// Makes the server a node of a fleet. Nothing is found until the gate is opened.
    pub fn join_fleet(&self, node: Node) {
        self.gate.set(Gate::Closed);
        assert!(self.node.set(node).is_ok(), "a server belongs to one fleet");
    }

    pub fn node(&self) -> Option<&Node> {
        self.node.get()
    }

    pub fn join_tier(&self, peers: Peers) {
        assert!(self.peers.set(peers).is_ok(), "a server belongs to one tier");
    }

    pub fn peers(&self) -> Option<&Peers> {
        self.peers.get()
    }

    /// Checks that an invalidation can reach the whole fleet. While the log is away nothing is invalidated here either.
    ///
    /// # Errors
    /// The reason why it can't.
    pub fn may_announce(&self) -> Result<(), VclFailure> {
        self.node().map_or(Ok(()), Node::check).map_err(VclFailure::new)
    }
}

impl Engine {
    /// Announces an invalidation here that the other nodes will receive. Until the result is dropped no copies are
    /// taken from peers. Without a log the others receive nothing, and no copies are taken that are older.
    pub fn begin_invalidation(&self) -> Option<PendingInvalidation> {
        let node = self.cluster.node();
        if node.is_none()
            && let Some(peers) = self.cluster.peers()
        {
            peers.note_invalidation(self.clock.mono());
        }
        node.map(Node::begin_invalidation)
    }

    /// Invalidates in the other caches of the tier what a response has invalidated here (RFC 9111 4.4); otherwise their
    /// copies would come back. Nobody waits for it.
    pub(crate) fn announce_to_peers(&self, what: impl FnOnce() -> Invalidation, at: Mono) {
        let Some(peers) = self.cluster.peers() else { return };
        match self.cluster.node() {
            Some(node) => drop(node.append(what(), self.real_of(at).0)),
            None => peers.note_invalidation(self.clock.mono()),
        }
    }
}

/// A ban as the fleet's log has it.
pub fn ban(spec: &cache::BanSpec) -> Invalidation {
    match spec.spread_words() {
        spread if spread.is_empty() => Invalidation::Ban(spec.words()),
        spread => Invalidation::SpreadBan { spread, words: spec.words() },
    }
}

pub(crate) fn purge(digest: &Digest, purge: cache::Purge) -> Invalidation {
    let cache::Purge { ttl, grace, keep } = purge;
    Invalidation::Purge { digest: digest.0, ttl, grace, keep }
}
