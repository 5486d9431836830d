// SPDX-License-Identifier: BSD-2-Clause
//! The second tier as transactions see it: the peer that a miss asks before the origin, the state of the members, and
//! the keys that this node is asking for.
//!
//! A server without `--peers` has only an empty cell. A client's hit looks at nothing here.
//!
//! * A miss that may be cached asks the key's owner ([`Peers::route`], `bereq::peer`), and adopts the object's lifetime
//!   from its response.
//! * The asking node proves that it is a member ([`hop`]). A peer's request goes to the origin and no further
//!   (`req::peer`).
//! * Two nodes that each take the other for the owner would wait for each other's fetches. So a peer's request is
//!   refused if it would wait for a fetch that itself asks a peer ([`Peers::is_asking`]), whatever the nodes know of
//!   the members.

pub(crate) mod hop;
pub(crate) mod lives;
pub mod warm;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use ::fleet::LogServer;
use ::fleet::peers::{HotKeys, Loads, PeerRing, Route, TierMember};
use arc_swap::ArcSwap;
use backend::Backend;
use base::Mono;
use base::lock::Mutex;
use cache::Digest;
use tables::counters;

use hop::TierSecret;

/// An owner that is at work says so again after so long.
pub(crate) const SIGN_PACE: Duration = Duration::from_secs(1);
/// Failures in a row until a member counts as away.
const FAILURES: u32 = 3;
/// Time for which an absent member isn't asked, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

pub type PeerBackendMaker = Box<dyn Fn(&TierMember) -> Arc<Backend> + Send + Sync>;

/// The tier that this server is a member of.
pub struct Peers {
    own: ArcSwap<String>,
    secret: TierSecret,
    make: PeerBackendMaker,
    view: ArcSwap<View>,
    pub(crate) hot: HotKeys,
    /// Moment of the last invalidation here that is in no log, in milliseconds of the monotonic clock; 0: never.
    invalidated: AtomicU64,
    /// Keys that peers are being asked for, and the number of such requests.
    asking: Mutex<HashMap<Digest, u32>>,
    /// True while the list of hot objects is made, one at a time.
    is_listing: Arc<AtomicBool>,
    pub(crate) counters: &'static counters::Peers,
}

#[derive(Default)]
struct View {
    ring: PeerRing,
    peers: Vec<Arc<TierPeer>>,
    loads: Loads,
}

pub struct TierPeer {
    member: TierMember,
    pub(crate) backend: Arc<Backend>,
    failures: AtomicU32,
    /// When it may be tried again, in milliseconds of the monotonic clock; 0: it isn't away.
    away_until: AtomicU64,
    pause_ms: AtomicU64,
}

/// The node that a miss is fetched from.
pub(crate) enum PeerTarget {
    /// The origin: this node owns the key.
    Own,
    /// The peer that owns the key.
    Ask(Arc<TierPeer>),
    /// The origin: nobody else is there.
    Nobody,
}

impl TierPeer {
    pub fn name(&self) -> &str {
        &self.member.name
    }

    pub fn server(&self) -> &LogServer {
        &self.member.server
    }

    pub fn is_away(&self) -> bool {
        self.away_until.load(Relaxed) != 0
    }

    /// True if the peer may be asked. While it is away, one request at a time finds out if it is back.
    fn may_be_asked(&self, now: Mono) -> bool {
        let until = self.away_until.load(Relaxed);
        if until == 0 {
            return true;
        }
        let now = ms(now);
        let next = now + self.pause_ms.load(Relaxed);
        now >= until && self.away_until.compare_exchange(until, next, Relaxed, Relaxed).is_ok()
    }

    /// Notes a failed request. Returns `true` if the peer counts as away from now on.
    pub fn failed(&self, now: Mono) -> bool {
        let failures = self.failures.fetch_add(1, Relaxed) + 1;
        if failures < FAILURES {
            return false;
        }
        let was_away = self.is_away();
        if was_away {
            let double = |pause: u64| Some((pause * 2).min(LONGEST_PAUSE.as_millis() as u64));
            let _ = self.pause_ms.try_update(Relaxed, Relaxed, double);
        }
        self.away_until.store(ms(now) + self.pause_ms.load(Relaxed), Relaxed);
        !was_away
    }

    /// Notes an answer. Returns `true` if the peer was away until now.
    pub fn answered(&self) -> bool {
        if self.failures.load(Relaxed) == 0 {
            return false;
        }
        self.failures.store(0, Relaxed);
        self.pause_ms.store(FIRST_PAUSE.as_millis() as u64, Relaxed);
        self.away_until.swap(0, Relaxed) != 0
    }
}

impl std::fmt::Debug for TierPeer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TierPeer({})", self.name())
    }
}

/// Milliseconds of the clock; never 0.
fn ms(at: Mono) -> u64 {
    (at.0 * 1000.0) as u64 + 1
}

/// A guard that notes a key as being asked for.
pub(crate) struct Asking<'a> {
    peers: &'a Peers,
    digest: Digest,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut asking = self.peers.asking.lock();
        if let Some(count) = asking.get_mut(&self.digest) {
            *count -= 1;
            if *count == 0 {
                asking.remove(&self.digest);
            }
        }
    }
}

impl Peers {
    /// A tier without members, as the node called `own`. `secret` is the key that all members share.
    pub fn new(own: &str, secret: &[u8], make: PeerBackendMaker, counters: &'static counters::Peers) -> Peers {
        Peers {
            own: ArcSwap::from_pointee(own.to_owned()),
            secret: TierSecret::new(secret),
            make,
            view: ArcSwap::default(),
            hot: HotKeys::default(),
            invalidated: AtomicU64::new(0),
            asking: Mutex::default(),
            is_listing: Arc::default(),
            counters,
        }
    }

    pub fn own_name(&self) -> Arc<String> {
        self.own.load_full()
    }

    pub fn counters(&self) -> &'static counters::Peers {
        self.counters
    }

    pub(crate) fn secret(&self) -> &TierSecret {
        &self.secret
    }

    /// Sets the members, and this node's name `own`. Members that stay keep their state. Returns `true` if anything has
    /// changed.
    pub fn set_members(&self, members: Vec<TierMember>, own: &str) -> bool {
        let before = self.view.load_full();
        let ring = PeerRing::new(members, own);
        if ring.members() == before.ring.members() && **self.own.load() == own {
            return false;
        }
        let known = |member: &TierMember| before.peers.iter().find(|peer| peer.member == *member).cloned();
        let peers: Vec<_> =
            ring.members().iter().map(|member| known(member).unwrap_or_else(|| self.peer(member))).collect();
        let loads = Loads::new(peers.len());
        self.counters.members.set(peers.len() as u64);
        self.own.store(Arc::new(own.to_owned()));
        self.view.store(Arc::new(View { ring, peers, loads }));
        true
    }

    fn peer(&self, member: &TierMember) -> Arc<TierPeer> {
        Arc::new(TierPeer {
            member: member.clone(),
            backend: (self.make)(member),
            failures: AtomicU32::new(0),
            away_until: AtomicU64::new(0),
            pause_ms: AtomicU64::new(FIRST_PAUSE.as_millis() as u64),
        })
    }

    pub(crate) fn route(&self, digest: &Digest, now: Mono) -> PeerTarget {
        let view = self.view.load();
        let weights = view.peers.iter().filter(|peer| !peer.is_away()).map(|peer| peer.member.weight);
        let there: f64 = weights.sum();
        let may_ask = |at: usize| {
            let peer = &view.peers[at];
            view.loads.may_take(at, peer.member.weight / there, Loads::FLOOR) && peer.may_be_asked(now)
        };
        match view.ring.route(&digest.0, self.hot.is_hot(&digest.0), may_ask) {
            Route::Own => {
                view.ring.own().into_iter().for_each(|own| view.loads.take(own));
                PeerTarget::Own
            }
            Route::Ask(at) => {
                view.loads.take(at);
                PeerTarget::Ask(view.peers[at].clone())
            }
            Route::Nobody => PeerTarget::Nobody,
        }
    }

    pub(crate) fn note_invalidation(&self, now: Mono) {
        self.invalidated.fetch_max(ms(now), Relaxed);
    }

    /// Seconds since that; `None`: it never was.
    pub(crate) fn since_invalidation(&self, now: Mono) -> Option<f64> {
        match self.invalidated.load(Relaxed) {
            0 => None,
            at => Some(ms(now).saturating_sub(at) as f64 / 1000.0),
        }
    }

    pub(crate) fn asking(&self, digest: &Digest) -> Asking<'_> {
        *self.asking.lock().entry(*digest).or_default() += 1;
        Asking { peers: self, digest: *digest }
    }

    pub(crate) fn is_asking(&self, digest: &Digest) -> bool {
        self.asking.lock().contains_key(digest)
    }

    /// A second has passed.
    pub fn tick(&self) {
        let view = self.view.load();
        view.loads.halve();
        self.hot.tick();
        self.counters.away.set(view.peers.iter().filter(|peer| peer.is_away()).count() as u64);
    }

    pub fn others(&self) -> Vec<Arc<TierPeer>> {
        let view = self.view.load();
        let others = view.peers.iter().enumerate().filter(|(at, _)| view.ring.own() != Some(*at));
        others.map(|(_, peer)| peer.clone()).collect()
    }

    /// The members by name: where each is, its weight, whether it is this node, whether it is away.
    pub fn list(&self) -> Vec<ListedPeer> {
        let view = self.view.load();
        let state = |(at, peer): (usize, &Arc<TierPeer>)| ListedPeer {
            name: peer.member.name.clone(),
            address: peer.member.server.to_string(),
            weight: peer.member.weight,
            is_own: view.ring.own() == Some(at),
            is_away: peer.is_away(),
        };
        view.peers.iter().enumerate().map(state).collect()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ListedPeer {
    pub name: String,
    pub address: String,
    /// Relative share of the keys.
    pub weight: f64,
    pub is_own: bool,
    pub is_away: bool,
}
