// SPDX-License-Identifier: BSD-2-Clause
//! Lookup: what the index has for a request.

use std::ops::ControlFlow;
use std::sync::Arc;

use base::{Mono, Vxid};

use crate::attrs::{ObjectTimes, Reuse, VaryKey};
use crate::ban::BanOutcome;
use crate::boc::Boc;
use crate::busy::Busy;
use crate::cache::{Cache, ShardGuard, ShardInner};
use crate::digest::Digest;
use crate::events::CacheEvent;
use crate::homes::{Loading, LoadingQuery, Right};
use crate::objcore::{FetchInvalidation, Objcore, ObjcoreStage};
use crate::objhead::{ANY, BUSY, HASHED_FROM, Objhead, vary_hash};
use crate::objref::ObjRef;
use crate::request::CacheRequest;
use crate::tombstones::TombstoneCause;
use crate::trace::LookupTrace;
use crate::waiting::{ParkedRequest, Redemption, RushReason, Ticket};

#[derive(Clone, Copy, Debug, Default)]
pub struct LookupOptions {
    pub always_miss: bool,
    pub ignore_busy: bool,
    pub ignore_vary: bool,
    /// `req.ttl`, seconds; only a value above 0 limits.
    pub max_ttl: Option<f64>,
    /// `req.grace`, seconds; only a value of 0 or more limits.
    pub max_grace: Option<f64>,
    /// Greatest age in seconds that the request accepts; 0: nothing without a validation (RFC 9111 5.2.1).
    pub max_age: Option<f64>,
    /// Seconds for which the object must stay fresh (`min-fresh`).
    pub min_fresh: Option<f64>,
    /// Markers that say "don't cache" hide no object: one that is fresh or in grace is delivered all the same, and
    /// another stale one may be revalidated (RFC 9111, by which nothing is stored of an uncacheable response).
    pub looks_behind_markers: bool,
    /// Any object that hasn't expired is a hit, however stale, because the caller has judged that.
    pub takes_stale: bool,
    /// The caller wants [`LookupTrace::marker`].
    pub tells: bool,
}

impl LookupOptions {
    /// The moment until which an object is fresh for this request.
    pub fn fresh_until(&self, times: &ObjectTimes) -> Mono {
        self.wished(times, times.fresh_until(self.max_ttl))
    }

    /// True if a stale object may be revalidated. One that is too old for the request's own limits may; one that is
    /// stale by `req.ttl` alone may not.
    pub fn is_stale(&self, times: &ObjectTimes, now: Mono) -> bool {
        self.wished(times, times.fresh_until(None)).0 <= now.0
    }

    /// True if the object may be served while a new one is fetched. A request with its own limits of freshness takes no
    /// stale object.
    pub fn is_in_grace(&self, times: &ObjectTimes, now: Mono) -> bool {
        self.max_age.is_none() && self.min_fresh.is_none() && times.grace_until(self.max_ttl, self.max_grace).0 >= now.0
    }

    fn wished(&self, times: &ObjectTimes, fresh_until: Mono) -> Mono {
        let until = fresh_until.plus(-self.min_fresh.unwrap_or(0.0));
        match self.max_age {
            Some(age) if age > 0.0 => Mono(until.0.min(times.t_origin.plus(age).0)),
            Some(_) => Mono(f64::NEG_INFINITY),
            None => until,
        }
    }
}

#[derive(Debug)]
pub enum Lookup {
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
    /// The object is being fetched: await the ticket, then call [`Cache::resume`].
    Wait(Ticket),
    /// Nothing usable in memory, but the home of a store may have it: await this, then [`Cache::look_on`].
    Loading(Loading),
    /// More bans have to be tested than fit into one turn: await the ticket, then call [`Cache::resume`].
    Unfinished(Ticket),
    /// The object is being fetched, and as many requests wait already as may.
    Refused,
}

#[derive(Debug)]
pub struct LookupOutcome {
    pub lookup: Lookup,
    /// Objects found banned on the way, for the log. Mostly empty (and then not allocated).
    pub events: Vec<CacheEvent>,
    /// Variants of other requests passed on the way (`vary_notice`).
    pub variants_skipped: usize,
    pub trace: LookupTrace,
}

#[derive(Default)]
struct Scan {
    hit: Option<Arc<Objcore>>,
    /// The newest of the stale ones.
    stale: Option<Arc<Objcore>>,
    /// The newest that says "don't cache" and hides nothing.
    marker: Option<Arc<Objcore>>,
    is_busy: bool,
    /// One is being fetched, but this request doesn't wait.
    ignored_busy: bool,
    /// One is fresh, but older than the request allows.
    is_over_max_age: bool,
    /// A matching object was banned or purged; only requests that came earlier may still have it.
    is_overtaken: bool,
    has_waiters: bool,
    /// Bans have to be tested on this one first, without a lock.
    unchecked: Option<Arc<Objcore>>,
    skipped: usize,
    /// A variant of another request, from which this request's variant can be guessed.
    other: Option<Arc<Objcore>>,
}

struct Query<'a> {
    digest: &'a Digest,
    req: &'a dyn CacheRequest,
    now: Mono,
    options: &'a LookupOptions,
    /// Invalidations after this one don't concern the request.
    arrival_sequence: u64,
    /// The request doesn't wait: it has waited before, for a fetch that helped nobody.
    is_alone: bool,
    /// The request has waited for another request's fetch.
    was_parked: bool,
}

impl Query<'_> {
    /// The auxiliary attributes of an object that says "don't cache", if they are wanted.
    fn marker_attrs(&self, oc: &Objcore) -> Vec<u8> {
        let aux_attrs = self.options.tells.then(|| oc.with_head_block(|block| block.aux_attrs().to_vec()));
        aux_attrs.flatten().unwrap_or_default()
    }

    fn hit_for_miss(&self, oc: &Objcore, busy: Busy, stale: Option<ObjRef>, trace: &mut LookupTrace) -> Lookup {
        trace.marker = self.marker_attrs(oc);
        Lookup::HitForMiss { busy, xid: oc.xid(), ttl_left: self.ttl_left(oc), stale }
    }

    /// Seconds left of an object's own ttl, whatever `req.ttl` says.
    fn ttl_left(&self, oc: &Objcore) -> f64 {
        oc.times().fresh_until(None).since(self.now)
    }
}

impl Cache {
    pub fn lookup(&self, digest: &Digest, req: &dyn CacheRequest, now: Mono, options: &LookupOptions) -> LookupOutcome {
        let arrival_sequence = self.shared().bans.seq();
        let query = Query { digest, req, now, options, arrival_sequence, is_alone: false, was_parked: false };
        self.look(&query, &mut Right::default())
    }

    /// Looks up again after the ticket's wait. Invalidations after the request's first lookup don't concern it, so it
    /// can have the response that it waited for.
    pub fn resume(&self, ticket: Ticket, req: &dyn CacheRequest, now: Mono, options: &LookupOptions) -> LookupOutcome {
        let Redemption { digest, arrival_sequence, is_alone, was_parked } = ticket.redeem();
        let query = Query { digest: &digest, req, now, options, arrival_sequence, is_alone, was_parked };
        let outcome = self.look(&query, &mut Right::default());
        if was_parked {
            self.count_parked(&outcome.lookup);
        }
        outcome
    }

    pub(crate) fn look_with_right(
        &self,
        loading: &LoadingQuery,
        mut right: Right,
        req: &dyn CacheRequest,
        now: Mono,
        options: &LookupOptions,
    ) -> LookupOutcome {
        let LoadingQuery { digest, arrival_sequence, is_alone, was_parked } = *loading;
        let query = Query { digest: &digest, req, now, options, arrival_sequence, is_alone, was_parked };
        let outcome = self.look(&query, &mut right);
        match &outcome.lookup {
            Lookup::Hit(_) | Lookup::Grace { .. } => self.shared().main.home_hit.inc(),
            Lookup::Miss(_)
            | Lookup::MissStale { .. }
            | Lookup::HitForMiss { .. }
            | Lookup::HitForPass { .. }
            | Lookup::Wait(_)
            | Lookup::Loading(_)
            | Lookup::Unfinished(_)
            | Lookup::Refused => {}
        }
        if was_parked {
            self.count_parked(&outcome.lookup);
        }
        right.busy.into_iter().for_each(Busy::release);
        outcome
    }

    fn count_parked(&self, lookup: &Lookup) {
        let main = self.shared().main;
        match lookup {
            Lookup::Hit(_) | Lookup::Grace { .. } => main.busy_hit.inc(),
            Lookup::Miss(_) | Lookup::MissStale { .. } | Lookup::HitForMiss { .. } | Lookup::HitForPass { .. } => {
                main.busy_fetch.inc();
            }
            Lookup::Wait(_) => main.busy_again.inc(),
            Lookup::Refused | Lookup::Unfinished(_) | Lookup::Loading(_) => {}
        }
    }

    fn look(&self, query: &Query<'_>, right: &mut Right) -> LookupOutcome {
        let shared = self.shared();
        let mut events = Vec::new();
        let (mut banned, mut has_adopted) = (None, false);
        loop {
            if query.options.always_miss && shared.adoption.is_on() {
                // What is fetched now is newer than they are.
                shared.adopt(query.digest, &mut |event| events.push(event));
            }
            let mut shard = shared.shard(query.digest).lock();
            base::failpoint::index_error("objhead");
            if query.options.always_miss {
                let busy = self.insert_busy(&mut shard, query, None, right);
                let trace = LookupTrace { banned, ..LookupTrace::default() };
                return LookupOutcome { lookup: Lookup::Miss(busy), events, variants_skipped: 0, trace };
            }
            let mut scan = self.scan(&shard, query, right);
            if let Some(oc) = scan.unchecked {
                drop(shard);
                match shared.bans.check(shared, &oc, query.req, query.arrival_sequence) {
                    BanOutcome::Clean => {}
                    BanOutcome::Hit(ban) => {
                        if shared.invalidate(&oc, ban.seq, TombstoneCause::Banned) {
                            shared.main.bans_obj_killed.inc();
                            events.push(CacheEvent::BannedByLookup(oc.xid()));
                        }
                        banned = Some(ban.spec.to_string());
                    }
                    BanOutcome::TooMany(seq) => {
                        if shared.invalidate(&oc, seq, TombstoneCause::Banned) {
                            shared.main.bans_obj_killed.inc();
                            events.push(CacheEvent::KilledByLookupLimit(oc.xid()));
                        }
                        banned = Some("ban_lookup_limit".to_owned());
                    }
                    BanOutcome::Unfinished => {
                        let ticket =
                            Ticket::unparked(self.clone(), *query.digest, query.arrival_sequence, query.is_alone);
                        let trace = LookupTrace { banned, ..LookupTrace::default() };
                        let lookup = Lookup::Unfinished(ticket);
                        return LookupOutcome { lookup, events, variants_skipped: 0, trace };
                    }
                }
                continue;
            }
            if !has_adopted && scan.hit.is_none() && shared.adoption.is_on() {
                drop(shard);
                has_adopted = true;
                shared.adopt(query.digest, &mut |event| events.push(event));
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
            let variants_skipped = scan.skipped;
            if !shared.homes.is_empty()
                && let Some(loading) = self.loading(&mut shard, query, &mut scan, right)
            {
                let lookup = Lookup::Loading(loading);
                return LookupOutcome { lookup, events, variants_skipped, trace: LookupTrace::default() };
            }
            let mut trace = LookupTrace::default();
            let (lookup, waiters) = self.decide(&mut shard, query, scan, &mut trace, right);
            drop(shard);
            if !shared.homes.is_empty()
                && let Lookup::Hit(obj) | Lookup::Grace { stale: obj, .. } = &lookup
            {
                shared.note_delivery(obj.objcore());
            }
            self.wake(query.digest, waiters, RushReason::LookAgain);
            trace.banned = banned;
            return LookupOutcome { lookup, events, variants_skipped, trace };
        }
    }

    /// The right to fetch with the copies that the homes may have, if there are any.
    fn loading(
        &self,
        shard: &mut ShardGuard<'_>,
        query: &Query<'_>,
        scan: &mut Scan,
        right: &mut Right,
    ) -> Option<Loading> {
        let is_marked = scan.marker.is_some() || scan.stale.as_ref().is_some_and(|oc| oc.flags().is_uncacheable());
        if scan.hit.is_some() || scan.is_busy || is_marked {
            return None;
        }
        let candidates = right.candidates.get_or_insert_with(|| self.shared().candidates(shard, query.digest));
        let candidates = std::mem::take(candidates);
        if candidates.is_empty() {
            return None;
        }
        let busy = self.insert_busy(shard, query, scan.other.take(), right);
        let Query { digest, arrival_sequence, is_alone, was_parked, .. } = *query;
        let loading = LoadingQuery { digest: *digest, arrival_sequence, is_alone, was_parked };
        Some(Loading::new(self, busy, loading, candidates))
    }

    /// Scans the variants, newest first. Looks at those being fetched only when no other will do.
    fn scan(&self, shard: &ShardInner, query: &Query<'_>, right: &Right) -> Scan {
        let (objcs, head) = shard.heads.look(query.digest);
        let mut scan = Scan { has_waiters: head.is_some_and(Objhead::has_waiters), ..Scan::default() };
        match head.filter(|_| objcs.len() >= HASHED_FROM && !query.options.ignore_vary) {
            None => {
                let mut stored = objcs.iter().rev().filter(|oc| oc.state() != ObjcoreStage::Busy);
                if stored.try_for_each(|oc| self.consider(&mut scan, oc, query)).is_continue() {
                    let busy = objcs.iter().filter(|oc| oc.state() == ObjcoreStage::Busy && !right.is_of(oc));
                    busy.for_each(|oc| Self::consider_busy(&mut scan, oc, query));
                }
            }
            Some(head) => {
                let mut values = Vec::new();
                let mut own = |spec: &[u8]| {
                    values.clear();
                    query.req.vary_values(spec, &mut values);
                    vary_hash(spec, &values)
                };
                let wanted: Vec<u64> = head.specs.iter().map(|spec| own(spec)).collect();
                let rows = objcs.iter().zip(&head.hashes);
                let mut candidates = rows.clone().rev().filter(|(_, hash)| **hash == ANY || wanted.contains(hash));
                if candidates.try_for_each(|(oc, _)| self.consider(&mut scan, oc, query)).is_continue() {
                    let busy = rows.filter(|(oc, hash)| **hash == BUSY && !right.is_of(oc));
                    busy.for_each(|(oc, _)| Self::consider_busy(&mut scan, oc, query));
                }
                if scan.hit.is_none() {
                    scan.skipped = objcs.len();
                    scan.other = scan.other.or_else(|| objcs.last().cloned());
                }
            }
        }
        scan
    }

    /// Notes a variant that is being fetched if the request would wait for it.
    fn consider_busy(scan: &mut Scan, oc: &Objcore, query: &Query<'_>) {
        let options = query.options;
        let guess = oc.boc().filter(|_| !options.ignore_vary);
        let is_ours = guess.is_none_or(|boc| {
            boc.vary_guess.as_ref().is_none_or(|(spec, values)| query.req.vary_matches(spec, values))
        });
        if base::failpoint::fault("a second fetch beside the first") {
            return;
        }
        scan.is_busy |= is_ours && !options.ignore_busy && !query.is_alone;
        scan.ignored_busy |= is_ours && options.ignore_busy;
        scan.skipped += usize::from(!is_ours);
    }

    /// Weighs one stored variant; `Break` ends the walk.
    fn consider(&self, scan: &mut Scan, oc: &Arc<Objcore>, query: &Query<'_>) -> ControlFlow<()> {
        let options = query.options;
        let matches = |vary: VaryKey<'_>| query.req.vary_matches(vary.spec, vary.values);
        let times = oc.times();
        let overtaken = oc.overtaken_for(query.arrival_sequence);
        if overtaken == FetchInvalidation::Before || (times.ttl <= 0.0 && overtaken != FetchInvalidation::Later) {
            scan.is_overtaken |= overtaken == FetchInvalidation::Before;
            return ControlFlow::Continue(());
        }
        if !options.ignore_vary && !oc.vary_matches(matches) && !base::failpoint::fault("a mix-up of variants") {
            scan.skipped += 1;
            scan.other.get_or_insert_with(|| oc.clone());
            return ControlFlow::Continue(());
        }
        if base::failpoint::fault("a hit-for-miss that is serialised") && oc.flags().reuse == Reuse::HitForMiss {
            return ControlFlow::Continue(());
        }
        if self.shared().bans.has_news(oc, query.arrival_sequence) {
            scan.unchecked = Some(oc.clone());
            return ControlFlow::Break(());
        }
        if options.looks_behind_markers
            && oc.flags().reuse == Reuse::HitForMiss
            && !base::failpoint::fault("a marker that hides what is stale")
        {
            scan.marker.get_or_insert_with(|| oc.clone());
            return ControlFlow::Continue(());
        }
        if overtaken == FetchInvalidation::Later || Self::is_fresh(oc, &times, query) {
            scan.hit = Some(oc.clone());
            return ControlFlow::Break(());
        }
        let is_stale = options.is_stale(&times, query.now);
        scan.is_over_max_age |= !is_stale;
        if is_stale && scan.stale.as_ref().is_none_or(|other| times.t_origin.0 > other.times().t_origin.0) {
            scan.stale = Some(oc.clone());
        }
        ControlFlow::Continue(())
    }

    /// True if the object is fresh for the request. The request's `max-age` and `min-fresh` don't apply to markers that
    /// say "don't cache".
    fn is_fresh(oc: &Objcore, times: &ObjectTimes, query: &Query<'_>) -> bool {
        let until = match oc.flags().is_uncacheable() {
            true => times.fresh_until(query.options.max_ttl),
            false if query.options.takes_stale => times.dead_at(),
            false => query.options.fresh_until(times),
        };
        until.0 > query.now.0
    }

    /// Turns the findings into a result; also returns the requests to wake after the unlock.
    fn decide(
        &self,
        shard: &mut ShardGuard<'_>,
        query: &Query<'_>,
        scan: Scan,
        trace: &mut LookupTrace,
        right: &mut Right,
    ) -> (Lookup, Vec<Arc<ParkedRequest>>) {
        let (shared, options) = (self.shared(), query.options);
        if let Some(oc) = scan.hit {
            if oc.flags().reuse == Reuse::HitForMiss {
                let busy = self.insert_busy(shard, query, scan.other, right);
                return (query.hit_for_miss(&oc, busy, None, trace), Vec::new());
            }
            let waiters = match scan.has_waiters {
                true => shard.heads.take_waiters(query.digest, shared.params.load().rush_exponent),
                false => Vec::new(),
            };
            if oc.flags().reuse == Reuse::HitForPass {
                trace.marker = query.marker_attrs(&oc);
                return (Lookup::HitForPass { xid: oc.xid(), ttl_left: query.ttl_left(&oc) }, waiters);
            }
            return (Lookup::Hit(hit_on(oc)), waiters);
        }
        if let Some(oc) = scan.stale.as_ref().filter(|oc| oc.flags().is_uncacheable()) {
            let busy = self.insert_busy(shard, query, scan.other, right);
            return (query.hit_for_miss(oc, busy, None, trace), Vec::new());
        }
        trace.stale = scan.stale.as_ref().map(|oc| oc.times());
        trace.is_over_max_age = scan.is_over_max_age;
        trace.is_overtaken = scan.is_overtaken;
        trace.ignored_busy = scan.ignored_busy;
        if scan.stale.is_none() && !scan.is_busy {
            trace.other = scan
                .other
                .as_ref()
                .and_then(|oc| oc.with_head_block(|block| block.vary().map(|vary| Box::from(vary.values)))?);
            trace.tombstone = shared.tombstones.cause(query.digest, query.now);
        }
        let in_grace = |oc: &Objcore| {
            base::failpoint::fault("grace beyond its end") || options.is_in_grace(&oc.times(), query.now)
        };
        if let Some(oc) = scan.marker.filter(|_| !scan.stale.as_deref().is_some_and(in_grace)) {
            let stale = scan.stale.map(ObjRef::new);
            let busy = self.insert_busy(shard, query, scan.other, right);
            return (query.hit_for_miss(&oc, busy, stale, trace), Vec::new());
        }
        let lookup = match (scan.stale, scan.is_busy) {
            (Some(oc), true) if in_grace(&oc) => Lookup::Grace { stale: hit_on(oc), busy: None },
            (Some(oc), false) if in_grace(&oc) => {
                let busy = Some(self.insert_busy(shard, query, scan.other, right));
                Lookup::Grace { stale: hit_on(oc), busy }
            }
            (Some(oc), false) => {
                let busy = self.insert_busy(shard, query, scan.other, right);
                Lookup::MissStale { busy, stale: ObjRef::new(oc) }
            }
            (None, false) => Lookup::Miss(self.insert_busy(shard, query, scan.other, right)),
            (_, true) if !shard.heads.may_park(query.digest, shared.params.load().waitinglist_limit) => {
                shared.main.busy_refused.inc();
                Lookup::Refused
            }
            (_, true) => {
                let waiter = ParkedRequest::new();
                shard.heads.park(query.digest, waiter.clone());
                shared.main.busy_sleep.inc();
                Lookup::Wait(Ticket::new(self.clone(), *query.digest, waiter, query.arrival_sequence))
            }
        };
        (lookup, Vec::new())
    }

    /// The right to fetch: the one in hand, or a new busy objcore. `other` is another request's variant, from whose Vary the
    /// new one's is guessed.
    fn insert_busy(
        &self,
        shard: &mut ShardGuard<'_>,
        query: &Query<'_>,
        other: Option<Arc<Objcore>>,
        right: &mut Right,
    ) -> Busy {
        if let Some(busy) = right.busy.take() {
            return busy;
        }
        let shared = self.shared();
        let guess = other.and_then(|oc| {
            let spec = oc.with_head_block(|block| block.vary().map(|vary| Box::<[u8]>::from(vary.spec)))??;
            let mut values = Vec::new();
            query.req.vary_values(&spec, &mut values);
            Some((spec, values.into_boxed_slice()))
        });
        let boc = Arc::new(Boc::new(*query.digest, false, shared.hot_params.transit_buffer(), guess));
        let oc = Objcore::busy(shared.main, boc.clone());
        shared.bans.pin(&oc);
        shard.heads.add(oc.clone());
        Busy::new(self.clone(), oc, boc, false)
    }
}

/// A handle on an object that is delivered. The caller holds the shard's lock.
fn hit_on(oc: Arc<Objcore>) -> ObjRef {
    oc.count_hit();
    oc.touch();
    ObjRef::new(oc)
}
