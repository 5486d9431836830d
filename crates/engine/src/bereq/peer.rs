// SPDX-License-Identifier: BSD-2-Clause
//! A miss asks the owner of its key before the origin, and the object lives no longer here than there.
//!
//! The owner gets the request as it was before `vcl_backend_fetch`, which changes what is meant for the origin. What has no answer that
//! counts (an owner that is away, slow, behind the log, or has failed itself) goes to the origin as if nobody had been asked.

use std::sync::Arc;

use message::{Head, names};
use shm::vsl::num::dec;
use tables::no_hit::Uncacheable;
use tables::tags::Tag;

use super::state::TimeLimits;
use super::{Bereq, BereqBody, FetchMode, reach};
use crate::httplog::BEREQ;
use crate::peers::hop::{Hop, HopWants, LACQUER_PEER};
use crate::peers::lives::{LACQUER_OBJECT, LACQUER_REFUSED, OwnerLives, OwnerSays};
use crate::peers::{PeerTarget, Peers, SIGN_PACE, TierPeer};
use crate::pool;

/// State of a fetch with respect to the tier's other members.
#[derive(Debug, Default)]
pub(crate) struct PeerState {
    /// The value of `bereq.peers`.
    pub may_ask: bool,
    /// An owner is being asked, or has answered.
    pub is_asked: bool,
    /// The only peer to be asked, because the request warms this node. The origin isn't asked then.
    pub warmer: Option<Arc<TierPeer>>,
    /// The lifetime that the owner gave for the object.
    pub lives: Option<Box<OwnerLives>>,
}

/// Each further sign of an owner may be late by this many times the limit for its first one.
const LATE: f64 = 10.0;
/// Bytes logged of an owner's reason for refusing.
const REASON: usize = 100;
/// The status by which an owner says that it is at work.
const AT_WORK: u16 = 102;

impl Bereq {
    /// Asks the key's owner. Returns true if its response is in `beresp` and the rest comes over the link.
    pub(super) async fn ask_owner(&mut self) -> bool {
        self.ask.peer.is_asked = false;
        self.ask.peer.lives = None;
        if !self.ask.peer.may_ask || !self.can_be_asked_for() {
            return false;
        }
        let engine = self.engine.clone();
        let Some(peers) = engine.cluster.peers() else { return false };
        let needed = match engine.cluster.node() {
            None => None,
            Some(node) => match node.position_needed() {
                Some(position) => Some(position),
                None => {
                    // Something was invalidated here of which no other node can know.
                    peers.counters.not_asked.inc();
                    return false;
                }
            },
        };
        let warmer = self.ask.peer.warmer.clone();
        let is_warming = warmer.is_some();
        let target = warmer.map_or_else(|| peers.route(&self.fill.digest, engine.clock.mono()), PeerTarget::Ask);
        let peer = match target {
            PeerTarget::Own => {
                peers.counters.owned.inc();
                return false;
            }
            PeerTarget::Nobody => {
                peers.counters.not_asked.inc();
                return false;
            }
            PeerTarget::Ask(peer) => peer,
        };
        if !is_warming {
            peers.counters.asked.inc();
        }
        let hop = Hop {
            from: peers.own_name().to_string(),
            to: peer.name().to_owned(),
            at: engine.clock.real(),
            log: needed,
            newer: peers.since_invalidation(engine.clock.mono()),
            wants: if is_warming { HopWants::Stored } else { HopWants::Object },
        };
        let _asking = peers.asking(&self.fill.digest);
        // Boxed: it is as large as all the rest of a fetch.
        let answered = Box::pin(self.ask_peer(peers, &peer, &hop)).await;
        let answered = answered.and_then(|()| self.take_owner_answer(peers));
        match answered {
            Ok(()) => {
                let counter = if is_warming { &peers.counters.warmed } else { &peers.counters.answered };
                counter.inc();
                true
            }
            Err(reason) => {
                if !is_warming {
                    peers.counters.passed_by.inc();
                }
                self.log.putf(Tag::Notice, format_args!("lacquer: peers: {} is passed by: {reason}", peer.name()));
                self.forget_owner();
                false
            }
        }
    }

    /// Only what may be stored, is asked for the first time, and is asked for as a whole.
    fn can_be_asked_for(&self) -> bool {
        self.requester.mode != FetchMode::Pass
            && self.ask.tries.retries == 0
            && self.requester.client.early.is_none()
            && matches!(self.ask.body, BereqBody::None)
            && !self.fill.cacheability.is_uncacheable()
            && !self.kind.is_of_slices()
    }

    async fn ask_peer(&mut self, peers: &Peers, peer: &TierPeer, hop: &Hop) -> Result<(), String> {
        let [mut asked] = pool::heads(self.ask.head.limits());
        asked.copy_from(&self.ask.original);
        let for_origin = std::mem::replace(&mut self.ask.head, asked);
        let limits = std::mem::take(&mut self.ask.limits);
        let first_byte = self.params.peers_first_byte_timeout.as_secs_f64();
        self.ask.limits = TimeLimits {
            connect: Some(self.params.peers_connect_timeout.as_secs_f64()),
            first_byte: Some(first_byte),
            // Until the head is there; how many signs there may be is bounded, too.
            between_bytes: Some(SIGN_PACE.as_secs_f64() + LATE * first_byte),
        };
        let id = dec(self.log.vxid().log_id());
        self.count_lost(|this| reach::give_host(&peer.backend, &mut this.ask.head, &mut this.log));
        self.count_lost(|this| BEREQ.append(&mut this.ask.head, &mut this.log, names::X_VARNISH, &[id.as_bytes()]));
        let field = peers.secret().field(hop, &self.ask.head);
        self.count_lost(|this| BEREQ.append(&mut this.ask.head, &mut this.log, LACQUER_PEER, &[field.as_bytes()]));
        self.ask.peer.is_asked = true;
        self.ask.backend = Some(peer.backend.clone());
        let answered = self.exchange_with(&peer.backend).await;
        self.ask.limits = limits;
        let mut for_peer = std::mem::replace(&mut self.ask.head, for_origin);
        pool::leave_heads([&mut for_peer]);
        let now = self.engine.clock.mono();
        match answered {
            Ok(()) => {
                if peer.answered() {
                    self.log.putf(Tag::Notice, format_args!("lacquer: peers: {} is back", peer.name()));
                }
                Ok(())
            }
            Err(()) => {
                if peer.failed(now) {
                    self.log.putf(Tag::Notice, format_args!("lacquer: peers: {} is away", peer.name()));
                }
                Err("it doesn't answer in time".to_owned())
            }
        }
    }

    /// Reads the headers in the owner's response that are meant for this node alone.
    fn take_owner_answer(&mut self, peers: &Peers) -> Result<(), String> {
        let says = self.beresp.get(LACQUER_OBJECT).and_then(OwnerSays::parse);
        let refused = self.beresp.get(LACQUER_REFUSED);
        let refused = refused.map(|value| ::fleet::one_line(&String::from_utf8_lossy(value), REASON));
        let Some(says) = says else {
            return Err(refused.unwrap_or_else(|| "it doesn't know this node for a peer".to_owned()));
        };
        if self.beresp.status() >= 500 && says.ttl <= 0.0 {
            // It has nothing either; the origin may be in reach from here.
            return Err(format!("it answers {}", self.beresp.status()));
        }
        if says.is_hot {
            peers.hot.heat(&self.fill.digest.0);
        }
        self.beresp.unset(LACQUER_OBJECT);
        self.ask.peer.lives = Some(Box::new(says.lives(self.ask.times.sent, self.engine.clock.real())));
        Ok(())
    }

    /// Restores the state in which nobody was asked.
    fn forget_owner(&mut self) {
        self.end_unread();
        self.ask.peer.is_asked = false;
        self.ask.peer.lives = None;
        self.ask.backend = None;
        self.beresp = Head::with_limits(self.beresp.limits());
    }

    /// True if the interim response in `beresp` is the owner's own sign of life.
    pub(super) fn is_sign_of_life(&self) -> bool {
        self.ask.peer.is_asked && self.beresp.status() == AT_WORK
    }

    /// The lives that the owner has said, in the place of those that the head's fields would give.
    pub(super) fn take_owner_lives(&mut self) {
        let Some(lives) = self.ask.peer.lives.as_ref().filter(|lives| !lives.is_uncacheable) else { return };
        self.fill.object.t_origin = lives.t_origin;
        self.fill.object.times = cache::ObjectTimes {
            t_origin: self.engine.mono_of(lives.t_origin),
            ttl: lives.ttl,
            grace: lives.grace,
            keep: lives.keep,
        };
    }

    /// After VCL: no life may end later than the owner's, and what the owner keeps for nobody isn't kept here.
    pub(super) fn keep_to_owner(&mut self) {
        let Some(lives) = self.ask.peer.lives.as_deref().copied() else { return };
        if lives.is_uncacheable {
            if !self.fill.cacheability.is_uncacheable() {
                self.fill.cacheability.refuse();
                self.fill.cacheability.set_reason(Uncacheable::Peer.word().as_bytes());
            }
            let age = self.engine.clock.mono().since(self.fill.object.times.t_origin).max(0.0);
            let most = age + self.params.uncacheable_ttl.as_secs_f64();
            let times = self.fill.object.times;
            self.fill.object.times = cache::ObjectTimes { ttl: times.ttl.min(most), grace: 0.0, keep: 0.0, ..times };
            return;
        }
        let times = self.fill.object.times;
        let ttl = times.ttl.min(lives.ttl);
        let grace_end = (times.ttl + times.grace).min(lives.ttl + lives.grace);
        let end = (times.ttl + times.grace + times.keep).min(lives.ttl + lives.grace + lives.keep);
        let grace = (grace_end - ttl).max(0.0);
        self.fill.object.times = cache::ObjectTimes { ttl, grace, keep: (end - ttl - grace).max(0.0), ..times };
    }
}
