// SPDX-License-Identifier: BSD-2-Clause
//! A request that another cache of the second tier sends, as its key's owner is asked: what it gets is the object as it is stored, with
//! the lives that it has left. `vcl_recv`, `vcl_hash` and what follows a lookup run as for a client; `vcl_deliver` and ESI are for who
//! answers the client. It never goes to a third cache.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::fleet::LogPosition;
use message::{Coding, Head, names};
use shm::vsl::TxnLog;
use storage::Buf;
use tables::tags::Tag;

use super::body::Departure;
use super::delivery::{Answer, Delivery};
use super::verdict::FoundKind;
use super::{Req, ReqClient, ReqStep};
use crate::httplog::{REQ, RESP};
use crate::peers::hop::{HopWants, LACQUER_PEER};
use crate::peers::lives::{LACQUER_OBJECT, LACQUER_REFUSED, OwnerSays};
use crate::peers::warm::{self, LACQUER_HOT_LIST};
use crate::peers::{SIGN_PACE, TierPeer};
use crate::transport::Transport;

/// Time for which a peer that is ahead in the log waits for this node to catch up: longer than an entry takes to all
/// nodes of a site.
const CATCH_UP: Duration = Duration::from_millis(20);
/// Between two looks at that.
const LOOK: Duration = Duration::from_millis(1);

/// The headers of a peer's request.
#[derive(Debug)]
pub(crate) struct PeerRequest {
    /// Position up to which this node must have carried out the fleet's log.
    needed: Option<LogPosition>,
    /// Seconds that the object may be old.
    newer: Option<f64>,
    wants: HopWants,
    /// The key is asked for often.
    is_hot: bool,
}

#[derive(Debug, Default)]
pub(crate) enum ReqSender {
    /// The headers weren't checked yet.
    #[default]
    Unchecked,
    Client,
    /// Another cache of the tier.
    Peer(Box<PeerRequest>),
    /// This node, which warms its cache from that peer (`crate::peers::warm`).
    Warming(Arc<TierPeer>),
}

impl ReqSender {
    fn peer(&self) -> Option<&PeerRequest> {
        match self {
            ReqSender::Peer(peer) => Some(peer),
            ReqSender::Unchecked | ReqSender::Client | ReqSender::Warming(_) => None,
        }
    }
}

impl ReqClient {
    /// True if a peer sends the request. Checked once, in the head as it came: VCL can't turn a peer into a client.
    pub fn is_of_peer(&mut self, original: &Head, is_fragment: bool, log: &mut TxnLog) -> bool {
        if matches!(self.sender, ReqSender::Unchecked) {
            self.sender = self.find_peer(original, is_fragment, log).map_or(ReqSender::Client, ReqSender::Peer);
        }
        self.sender.peer().is_some() || self.warmer().is_some()
    }

    pub(crate) fn warmer(&self) -> Option<&Arc<TierPeer>> {
        match &self.sender {
            ReqSender::Warming(peer) => Some(peer),
            ReqSender::Unchecked | ReqSender::Client | ReqSender::Peer(_) => None,
        }
    }

    fn find_peer(&self, original: &Head, is_fragment: bool, log: &mut TxnLog) -> Option<Box<PeerRequest>> {
        let engine = &self.sess.engine;
        let peers = engine.cluster.peers()?;
        if is_fragment || self.trial.is_some() || original.get(LACQUER_PEER).is_none() {
            return None;
        }
        match peers.secret().read(original, &peers.own_name(), engine.clock.real()) {
            Ok(hop) => {
                let (needed, newer, wants) = (hop.log, hop.newer, hop.wants);
                Some(Box::new(PeerRequest { needed, newer, wants, is_hot: false }))
            }
            Err(reason) => {
                peers.counters.hops_refused.inc();
                log.putf(
                    Tag::Notice,
                    format_args!("lacquer: peers: invalid header {LACQUER_PEER} of a client: {reason}"),
                );
                None
            }
        }
    }
}

impl Req {
    pub(crate) fn is_of_peer(&mut self) -> bool {
        self.client.is_of_peer(&self.ask.original, self.esi.is_fragment(), &mut self.log)
    }

    /// A peer's request before the lookup. `Some`: it is refused.
    pub(super) async fn take_in_peer(&mut self, transport: &mut dyn Transport) -> Option<ReqStep> {
        let sess = self.client.sess.clone();
        let peers = sess.engine.cluster.peers()?;
        // The page with its includes is made where the client is.
        self.settings.disable_esi = true;
        let ReqSender::Peer(peer) = &mut self.client.sender else { return None };
        peers.counters.served.inc();
        // A peer that warms asks once, however often its clients will ask.
        peer.is_hot = peer.wants == HopWants::Object && peers.hot.count(&self.ask.digest.0, self.params.peers_hot);
        if peer.is_hot {
            peers.counters.hot.inc();
        }
        self.settings.lookup.max_age = peer.newer;
        if peer.wants == HopWants::Stored {
            // A stale one would be refreshed.
            self.settings.lookup.max_grace = Some(0.0);
        }
        let needed = peer.needed?;
        if self.has_reached(needed, transport).await {
            return None;
        }
        peers.counters.behind.inc();
        Some(self.refuse_peer("behind the log", transport).await)
    }

    /// True if this node knows all invalidations of the requesting one. Call it before the lookup, so that the lookup's
    /// result is as new.
    async fn has_reached(&mut self, needed: LogPosition, transport: &mut dyn Transport) -> bool {
        let engine = self.engine().clone();
        let Some(node) = engine.cluster.node() else { return false };
        let deadline = rt::Instant::now() + CATCH_UP;
        loop {
            let position = node.log_position();
            if position.has_reached(&needed) {
                return true;
            }
            if position.log != needed.log || rt::Instant::now() >= deadline {
                return false;
            }
            self.drive(transport, rt::sleep(LOOK)).await;
        }
    }

    /// True if a peer would wait here for a fetch that itself asks a peer, which may wait for the same object.
    pub(super) fn would_wait_in_a_circle(&self) -> bool {
        let Some(peers) = self.engine().cluster.peers().filter(|_| self.is_known_as_peers()) else { return false };
        let is_asked = peers.is_asking(&self.ask.digest);
        if is_asked {
            peers.counters.crossed.inc();
        }
        is_asked
    }

    /// Tells a peer that it is worth waiting.
    pub(super) fn show_life(&mut self, transport: &mut dyn Transport) {
        if !self.is_known_as_peers() {
            return;
        }
        let mut head = message::Head::with_limits(self.resp.head.limits());
        if head.start_response(b"HTTP/1.1", 102).is_ok() {
            transport.send_interim(&head);
        }
    }

    /// True if the request is known to be a peer's.
    pub(super) fn is_known_as_peers(&self) -> bool {
        self.client.sender.peer().is_some()
    }

    /// Does what [`Req::drive_until`] does, for a peer's request. The peer is told repeatedly that this node is at work.
    pub(super) async fn drive_for_peer<F: Future>(
        &mut self,
        until: Departure,
        transport: &mut dyn Transport,
        wait: F,
    ) -> Option<F::Output> {
        let mut wait = pin!(wait);
        loop {
            let waited = self.drive_until(until, transport, rt::timeout(SIGN_PACE, wait.as_mut())).await?;
            match waited {
                Ok(done) => return Some(done),
                Err(rt::Elapsed) => self.show_life(transport),
            }
        }
    }

    /// Has the peer go to the origin.
    pub(super) async fn refuse_peer(&mut self, reason: &str, transport: &mut dyn Transport) -> ReqStep {
        self.log.putf(Tag::Notice, format_args!("lacquer: peers: refused a request of a peer: {reason}"));
        self.start_synth(503, None, None);
        self.set_resp(LACQUER_REFUSED, &[reason.as_bytes()]);
        self.set_resp(names::CONTENT_LENGTH, &[b"0"]);
        self.resp.filters.reset();
        self.resp.time.set(None);
        self.discard_body(transport).await;
        ReqStep::Transmit(Answer::nothing())
    }

    /// In the place of `vcl_deliver`: the object as it is, and what it has to live.
    pub(super) fn deliver_to_peer(&mut self, delivery: Delivery) -> ReqStep {
        self.resp.time.set(None);
        let (engine, flags, times) = (self.engine().clone(), delivery.obj.flags(), delivery.obj.times());
        let (now, real) = (engine.clock.mono(), engine.clock.real());
        let age = now.since(times.t_origin).max(0.0);
        let says = OwnerSays {
            age,
            ttl: times.ttl - age,
            grace: times.grace.max(0.0),
            keep: times.keep.max(0.0),
            took: real.since(self.ask.t_req).max(0.0),
            is_uncacheable: flags.is_passed(),
            is_hot: self.client.sender.peer().is_some_and(|peer| peer.is_hot),
        };
        for name in [LACQUER_OBJECT, names::X_VARNISH, "Server-Timing"] {
            RESP.unset(&mut self.resp.head, &mut self.log, name);
        }
        self.set_resp(LACQUER_OBJECT, &[says.text().as_bytes()]);
        self.take_stored_coding(flags.coding);
        self.mark("Process");
        if self.is_not_modified(&delivery.obj) {
            self.turn_to_not_modified();
        }
        ReqStep::Transmit(Answer::Object(delivery))
    }

    /// The body goes out in the coding that it is stored in, if the peer takes that: it makes others itself.
    fn take_stored_coding(&mut self, stored: Coding) {
        let takes = self.params.supported_codings().liked_by(&self.ask.head).codings().any(|coding| coding == stored);
        if stored != Coding::Identity
            && takes
            && REQ.force(&mut self.ask.head, &mut self.log, names::ACCEPT_ENCODING, stored.token().as_bytes()).is_err()
        {
            self.log.count_lost();
        }
    }

    /// Makes this a request that warms this node: `peer` alone is asked for its object.
    pub(crate) fn warm_from(&mut self, peer: &Arc<TierPeer>) {
        self.client.sender = ReqSender::Warming(peer.clone());
    }

    /// True if the origin mustn't be asked: the peer wants what is stored, or this node warms from a peer.
    pub(super) fn mustnt_fetch(&self, step: &ReqStep) -> bool {
        match &self.client.sender {
            ReqSender::Unchecked | ReqSender::Client => false,
            ReqSender::Peer(peer) => peer.wants == HopWants::Stored,
            ReqSender::Warming(_) => !matches!(step, ReqStep::Miss { .. }),
        }
    }

    pub(super) fn is_for_hot_list(&mut self) -> bool {
        self.is_of_peer() && self.client.sender.peer().is_some_and(|peer| peer.wants == HopWants::HotList)
    }

    /// The response to a peer that warms: the requests that find the hottest objects here.
    pub(super) async fn answer_hot_list(&mut self, transport: &mut dyn Transport) -> ReqStep {
        let engine = self.engine().clone();
        let list = self.drive(transport, warm::hot_list(&engine)).await;
        let list = match list {
            Ok(list) => list,
            Err(reason) => return self.refuse_peer(reason, transport).await,
        };
        self.start_synth(200, None, None);
        let code = {
            let field = self.ask.original.get(LACQUER_PEER).unwrap_or_default();
            engine.cluster.peers().map(|peers| peers.secret().response_code(field, &list)).unwrap_or_default()
        };
        self.set_resp(LACQUER_HOT_LIST, &[code.as_bytes()]);
        self.set_resp(names::CONTENT_LENGTH, &[list.len().to_string().as_bytes()]);
        self.resp.filters.reset();
        self.resp.time.set(None);
        self.discard_body(transport).await;
        ReqStep::Transmit(Answer::Made(Buf::unaccounted(list)))
    }

    /// True if this request's fetch may ask a key's owner. False for a peer's request, since this node is the owner for
    /// it, for one that wants something newer than the stored object, and for an object that wasn't cacheable before.
    pub(crate) fn may_ask_peers(&mut self) -> bool {
        if self.client.warmer().is_some() {
            return true;
        }
        if self.engine().cluster.peers().is_none() || self.is_of_peer() {
            return false;
        }
        let asked = self.with_directives(self.settings.lookup);
        let takes_stored = !asked.always_miss && asked.max_age.is_none() && asked.min_fresh.is_none();
        takes_stored && self.verdict.found() != FoundKind::HitForMiss
    }
}
