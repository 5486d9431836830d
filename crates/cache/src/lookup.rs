// SPDX-License-Identifier: BSD-2-Clause
//! One look at the index: what it has for a request. The scan and the decision hold the lock of the objhead's shard; bans
//! are tested and survivors adopted without it, and then the scan begins anew.

use std::sync::Arc;

use base::{Mono, Vxid};
use sync::Called;

use crate::attrs::{Reuse, VaryKey};
use crate::ban::BanOutcome;
use crate::boc::{Boc, VaryGuess};
use crate::busy::Busy;
use crate::cache::{Cache, ShardGuard};
use crate::digest::Digest;
use crate::events::CacheEvent;
use crate::homes::{HomeRead, Right};
use crate::objcore::{Objcore, ObjcoreStage};
use crate::objref::ObjRef;
use crate::pending::{OtherTasks, Pending, Wait};
use crate::scan::{BATCH, Query, Scan};
use crate::search::{Lookup, SearchReport};
use crate::tombstones::TombstoneCause;
use crate::trace::LookupTrace;
use crate::waiting::{Parked, RushReason};

/// Result of a lookup.
#[derive(Debug)]
pub enum Found {
    /// A fresh object. [`ObjRef::fetched`] is `Some` while it still streams.
    Hit(ObjRef),
    Grace {
        stale: ObjRef,
        /// The right to refresh it in the background, unless another request has it already.
        busy: Option<Busy>,
    },
    /// Nothing usable: fetch it.
    Miss(Busy),
    /// Nothing usable, but an older object that the fetch may revalidate.
    MissStale { busy: Busy, stale: ObjRef },
    /// The object is known to be uncacheable: fetch it. No request waits for that fetch.
    HitForMiss {
        busy: Busy,
        /// Transaction that made the marker, for the log record HitMiss.
        xid: Vxid,
        /// Seconds for which that is still known; negative once over.
        ttl_left: f64,
        /// An older object that the fetch may revalidate, where the request looks behind markers.
        stale: Option<ObjRef>,
    },
    HitForPass {
        /// Transaction that made the marker, for the log record HitPass.
        xid: Vxid,
        /// Seconds for which that is still known.
        ttl_left: f64,
    },
    /// The object is being fetched, and as many requests wait already as may.
    Refused,
}

impl Found {
    pub fn object(&self) -> Option<&ObjRef> {
        match self {
            Found::Hit(obj) | Found::Grace { stale: obj, .. } => Some(obj),
            Found::Miss(_)
            | Found::MissStale { .. }
            | Found::HitForMiss { .. }
            | Found::HitForPass { .. }
            | Found::Refused => None,
        }
    }

    pub fn into_busy(self) -> Option<Busy> {
        match self {
            Found::Miss(busy) | Found::MissStale { busy, .. } | Found::HitForMiss { busy, .. } => Some(busy),
            Found::Grace { busy, .. } => busy,
            Found::Hit(_) | Found::HitForPass { .. } | Found::Refused => None,
        }
    }
}

impl Query<'_> {
    /// The auxiliary attributes of an object that says "don't cache", if they are wanted.
    fn marker_attrs(&self, oc: &Objcore) -> Vec<u8> {
        let aux_attrs = self.options.tells.then(|| oc.with_head_block(|block| block.aux_attrs().to_vec()));
        aux_attrs.flatten().unwrap_or_default()
    }

    fn hit_for_miss(&self, oc: &Objcore, busy: Busy, stale: Option<ObjRef>, trace: &mut LookupTrace) -> Found {
        trace.marker = self.marker_attrs(oc);
        Found::HitForMiss { busy, xid: oc.xid(), ttl_left: self.ttl_left(oc), stale }
    }

    /// Seconds left of an object's own ttl, whatever `req.ttl` says.
    fn ttl_left(&self, oc: &Objcore) -> f64 {
        oc.times().fresh_until(None).since(self.now)
    }

    /// The request's key by the Vary of `other`, a variant of another request.
    fn guess_by(&self, other: &Objcore) -> Option<VaryGuess> {
        let spec = other.with_head_block(|block| block.vary().map(|vary| Box::<[u8]>::from(vary.spec)))??;
        let mut values = Vec::new();
        self.req.vary_values(&spec, &mut values);
        Some((spec, values.into_boxed_slice()))
    }
}

impl Cache {
    /// The right to fetch what `digest` names, whatever the index has.
    pub fn claim(&self, digest: &Digest) -> Busy {
        self.claim_with(digest, &mut Vec::new())
    }

    fn claim_with(&self, digest: &Digest, events: &mut Vec<CacheEvent>) -> Busy {
        let shared = self.shared();
        if shared.adoption.is_on() {
            // The response to a fetch from now on is newer than they are.
            shared.adopt(digest, &mut |event| events.push(event));
        }
        let mut shard = shared.shard(digest).lock();
        base::failpoint::index_error("objhead");
        self.insert_busy(&mut shard, digest, None)
    }

    pub(crate) fn look(&self, query: &Query<'_>, right: &mut Right, report: &mut SearchReport) -> Lookup {
        let shared = self.shared();
        report.variants_skipped = 0;
        if query.options.always_miss {
            return Lookup::Ready(Found::Miss(self.claim_with(query.digest, &mut report.events)));
        }
        let (mut has_adopted, mut banned) = (false, 0);
        loop {
            let mut shard = shared.shard(query.digest).lock();
            base::failpoint::index_error("objhead");
            let mut scan = self.scan(&shard, query, right, banned);
            if !scan.unchecked.is_empty() {
                drop(shard);
                let are_tested = scan.unchecked.iter().all(|oc| self.test_bans(oc, query, report));
                banned += scan.unchecked.iter().filter(|oc| oc.state() == ObjcoreStage::Dying).count();
                if !are_tested || scan.unchecked.len() == BATCH {
                    return Lookup::Pending(Pending(Wait::Turn(OtherTasks::default())));
                }
                continue;
            }
            if !has_adopted && scan.hit.is_none() && shared.adoption.is_on() {
                drop(shard);
                has_adopted = true;
                shared.adopt(query.digest, &mut |event| report.events.push(event));
                continue;
            }
            if !shared.homes.is_empty()
                && let Some(oc) = scan.hit.as_ref().or(scan.stale.as_ref()).filter(|oc| oc.has_lost_body()).cloned()
            {
                // Better before its head goes out. It may have a copy elsewhere.
                drop(shard);
                shared.kill(&oc, TombstoneCause::Evicted);
                continue;
            }
            report.variants_skipped = scan.skipped;
            if !shared.homes.is_empty()
                && let Some(read) = self.read_home(&mut shard, query, &mut scan, right)
            {
                return Lookup::Pending(Pending(Wait::Home(Box::new(read))));
            }
            let mut called = self.call_waiters(&mut shard, query, &scan);
            let lookup = self.decide(&mut shard, query, scan, &mut report.trace, right);
            if matches!(lookup, Lookup::Pending(Pending(Wait::Parked(_)))) {
                called.extend(shard.leaders.call(query.digest));
            }
            drop(shard);
            if !shared.homes.is_empty()
                && let Lookup::Ready(found) = &lookup
                && let Some(obj) = found.object()
            {
                shared.note_delivery(obj.objcore());
            }
            self.wake(called);
            return lookup;
        }
    }

    /// Counts the result of a look after a wait for another request's fetch.
    pub(crate) fn count_parked(&self, lookup: &Lookup) {
        let main = self.shared().main;
        match lookup {
            Lookup::Ready(Found::Refused) => {}
            Lookup::Ready(found) if found.object().is_some() => main.busy_hit.inc(),
            Lookup::Ready(_) => main.busy_fetch.inc(),
            Lookup::Pending(Pending(Wait::Parked(_))) => main.busy_again.inc(),
            Lookup::Pending(Pending(Wait::Turn(_) | Wait::Home(_))) => {}
        }
    }

    /// Tests the bans that an object wasn't tested against, and invalidates it if one hits; `false` if there are more of
    /// them than fit into one turn.
    fn test_bans(&self, oc: &Arc<Objcore>, query: &Query<'_>, report: &mut SearchReport) -> bool {
        let shared = self.shared();
        let (seq, ban, event): (_, _, fn(Vxid) -> CacheEvent) =
            match shared.bans.check(shared, oc, query.req, query.arrival_sequence) {
                BanOutcome::Clean => return true,
                BanOutcome::Hit(ban) => (ban.seq, ban.spec.to_string(), CacheEvent::BannedByLookup),
                BanOutcome::TooMany(seq) => (seq, "ban_lookup_limit".to_owned(), CacheEvent::KilledByLookupLimit),
                BanOutcome::Unfinished => return false,
            };
        let matches = |vary: VaryKey<'_>| query.req.vary_matches(vary.spec, vary.values);
        let is_for_request = query.options.ignore_vary || oc.vary_matches(matches);
        if shared.invalidate(oc, seq, TombstoneCause::Banned) {
            shared.main.bans_obj_killed.inc();
            report.events.push(event(oc.xid()));
        }
        if is_for_request {
            report.trace.banned = Some(ban);
        }
        true
    }

    /// The right to fetch with the copies that the homes may have, if there are any.
    fn read_home(
        &self,
        shard: &mut ShardGuard<'_>,
        query: &Query<'_>,
        scan: &mut Scan,
        right: &mut Right,
    ) -> Option<HomeRead> {
        let is_marked = scan.marker.is_some() || scan.stale.as_ref().is_some_and(|oc| oc.flags().is_uncacheable());
        if scan.hit.is_some() || scan.is_busy || is_marked {
            return None;
        }
        let candidates = right.candidates.get_or_insert_with(|| self.shared().candidates(shard, query.digest));
        let candidates = std::mem::take(candidates);
        if candidates.is_empty() {
            return None;
        }
        let busy = self.right_to_fetch(shard, query, scan.other.take(), right);
        Some(HomeRead::new(self, busy, *query.digest, candidates))
    }

    /// Calls parked requests, as what they wait for is here.
    fn call_waiters(&self, shard: &mut ShardGuard<'_>, query: &Query<'_>, scan: &Scan) -> Vec<Called> {
        let is_here = |oc: &Arc<Objcore>| oc.flags().reuse != Reuse::HitForMiss;
        if !scan.has_waiters || !scan.hit.as_ref().is_some_and(is_here) {
            return Vec::new();
        }
        let max = self.shared().params.load().rush_exponent;
        shard.heads.call_waiters(query.digest, max, RushReason::LookAgain)
    }

    /// Turns the findings into a result.
    fn decide(
        &self,
        shard: &mut ShardGuard<'_>,
        query: &Query<'_>,
        scan: Scan,
        trace: &mut LookupTrace,
        right: &mut Right,
    ) -> Lookup {
        if let Some(oc) = scan.hit {
            return match oc.flags().reuse {
                Reuse::HitForMiss => {
                    let busy = self.right_to_fetch(shard, query, scan.other, right);
                    Lookup::Ready(query.hit_for_miss(&oc, busy, None, trace))
                }
                Reuse::HitForPass => {
                    trace.marker = query.marker_attrs(&oc);
                    Lookup::Ready(Found::HitForPass { xid: oc.xid(), ttl_left: query.ttl_left(&oc) })
                }
                Reuse::Hit | Reuse::HitOrRevalidate => Lookup::Ready(Found::Hit(hit_on(oc, query.now))),
            };
        }
        if let Some(oc) = scan.stale.as_ref().filter(|oc| oc.flags().is_uncacheable()) {
            let busy = self.right_to_fetch(shard, query, scan.other, right);
            return Lookup::Ready(query.hit_for_miss(oc, busy, None, trace));
        }
        self.note(query, &scan, trace);
        let in_grace = |oc: &Objcore| {
            base::failpoint::fault("grace beyond its end") || query.options.is_in_grace(&oc.times(), query.now)
        };
        if let Some(oc) = scan.marker.filter(|_| !scan.stale.as_deref().is_some_and(in_grace)) {
            let stale = scan.stale.map(ObjRef::new);
            let busy = self.right_to_fetch(shard, query, scan.other, right);
            return Lookup::Ready(query.hit_for_miss(&oc, busy, stale, trace));
        }
        let found = match (scan.stale, scan.is_busy) {
            (Some(oc), true) if in_grace(&oc) => Found::Grace { stale: hit_on(oc, query.now), busy: None },
            (Some(oc), false) if in_grace(&oc) => {
                let busy = Some(self.right_to_fetch(shard, query, scan.other, right));
                Found::Grace { stale: hit_on(oc, query.now), busy }
            }
            (Some(oc), false) => {
                let busy = self.right_to_fetch(shard, query, scan.other, right);
                Found::MissStale { busy, stale: ObjRef::new(oc) }
            }
            (None, false) => Found::Miss(self.right_to_fetch(shard, query, scan.other, right)),
            (_, true) => return self.park(shard, query.digest),
        };
        Lookup::Ready(found)
    }

    /// Notes why nothing is fresh.
    fn note(&self, query: &Query<'_>, scan: &Scan, trace: &mut LookupTrace) {
        trace.stale = scan.stale.as_ref().map(|oc| oc.times());
        trace.is_over_max_age = scan.is_over_max_age;
        trace.is_overtaken = scan.is_overtaken;
        trace.ignored_busy = scan.ignored_busy;
        if scan.stale.is_none() && !scan.is_busy {
            let values =
                |oc: &Arc<Objcore>| oc.with_head_block(|block| block.vary().map(|vary| Box::from(vary.values)))?;
            trace.other = scan.other.as_ref().and_then(values);
            trace.tombstone = self.shared().tombstones.cause(query.digest, query.now);
        }
    }

    /// Parks the request on the objhead, if the waitinglist isn't full.
    fn park(&self, shard: &mut ShardGuard<'_>, digest: &Digest) -> Lookup {
        let shared = self.shared();
        if !shard.heads.may_park(digest, shared.params.load().waitinglist_limit) {
            shared.main.busy_refused.inc();
            return Lookup::Ready(Found::Refused);
        }
        let turn = shard.heads.park(digest);
        shared.main.busy_sleep.inc();
        Lookup::Pending(Pending(Wait::Parked(Parked::new(self.clone(), *digest, turn))))
    }

    /// The right to fetch: the one in hand, or a new busy objcore. `other` is another request's variant, from whose Vary the
    /// new one's is guessed.
    fn right_to_fetch(
        &self,
        shard: &mut ShardGuard<'_>,
        query: &Query<'_>,
        other: Option<Arc<Objcore>>,
        right: &mut Right,
    ) -> Busy {
        match right.busy.take() {
            Some(busy) => busy,
            None => self.insert_busy(shard, query.digest, other.and_then(|oc| query.guess_by(&oc))),
        }
    }

    fn insert_busy(&self, shard: &mut ShardGuard<'_>, digest: &Digest, guess: Option<VaryGuess>) -> Busy {
        let shared = self.shared();
        let boc = Arc::new(Boc::new(*digest, false, shared.hot_params.transit_buffer(), guess));
        let oc = Objcore::busy(shared.main, boc.clone());
        shared.bans.pin(&oc);
        shard.heads.add(oc.clone());
        Busy::new(self.clone(), oc, boc, false)
    }
}

/// A handle on an object that is delivered. The caller holds the shard's lock.
fn hit_on(oc: Arc<Objcore>, now: Mono) -> ObjRef {
    oc.count_hit();
    oc.touch();
    oc.note_use(now);
    ObjRef::new(oc)
}
