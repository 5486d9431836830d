// SPDX-License-Identifier: BSD-2-Clause
//! The scan of an objhead: weighs its variants for a request. Changes nothing.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::Mono;
use storage::ObjectTimes;

use crate::attrs::{Reuse, VaryKey};
use crate::cache::{Cache, ShardInner};
use crate::digest::Digest;
use crate::homes::Right;
use crate::objcore::{FetchInvalidation, Objcore, ObjcoreStage};
use crate::objhead::{ANY, BUSY, HASHED_FROM, Objhead, vary_hash};
use crate::request::CacheRequest;
use crate::search::LookupOptions;

/// Variants of other requests that are tested against bans before others get their turn.
pub(crate) const BATCH: usize = 64;

/// Findings of a scan.
#[derive(Default)]
pub(crate) struct Scan {
    pub hit: Option<Arc<Objcore>>,
    /// The newest of the stale ones.
    pub stale: Option<Arc<Objcore>>,
    /// The newest that says "don't cache" and hides nothing.
    pub marker: Option<Arc<Objcore>>,
    pub is_busy: bool,
    /// One is being fetched, but this request doesn't wait.
    pub ignored_busy: bool,
    /// One is fresh, but older than the request allows.
    pub is_over_max_age: bool,
    /// A matching object was banned or purged; only requests that came earlier may still have it.
    pub is_overtaken: bool,
    pub has_waiters: bool,
    /// Bans have to be tested on these first, without a lock: at most [`BATCH`].
    pub unchecked: Vec<Arc<Objcore>>,
    considered: usize,
    pub skipped: usize,
    /// A variant of another request, from which this request's variant can be guessed.
    pub other: Option<Arc<Objcore>>,
}

/// A request as one look at the index sees it.
pub(crate) struct Query<'a> {
    pub digest: &'a Digest,
    pub req: &'a dyn CacheRequest,
    pub now: Mono,
    pub options: &'a LookupOptions,
    /// Invalidations after this one don't concern the request.
    pub arrival_sequence: u64,
    /// The request doesn't wait: it has waited before, for a fetch that helped nobody.
    pub is_alone: bool,
}

impl Cache {
    /// Scans the variants, newest first. Looks at those being fetched only when no other will do.
    /// `banned` variants are gone since this look began.
    pub(crate) fn scan(&self, shard: &ShardInner, query: &Query<'_>, right: &Right, banned: usize) -> Scan {
        let (objcs, head) = shard.heads.look(query.digest);
        let has_waiters = head.is_some_and(Objhead::has_waiters);
        let mut scan = Scan { has_waiters, considered: banned, ..Scan::default() };
        match head.filter(|_| objcs.len() >= HASHED_FROM && !query.options.ignore_vary) {
            None => {
                let mut stored = objcs.iter().rev().filter(|oc| oc.state() != ObjcoreStage::Busy);
                if stored.try_for_each(|oc| self.consider(&mut scan, oc, query)).is_continue() {
                    let busy = objcs.iter().filter(|oc| oc.state() == ObjcoreStage::Busy && !right.is_of(oc));
                    busy.for_each(|oc| Self::consider_busy(&mut scan, oc, query));
                }
            }
            Some(head) => {
                scan.unchecked = self.untested(objcs, head, query, banned);
                if !scan.unchecked.is_empty() {
                    return scan;
                }
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

    /// The newest variants, of any requests, that bans have to be tested on as `ban_any_variant` says.
    fn untested(&self, objcs: &[Arc<Objcore>], head: &Objhead, query: &Query<'_>, banned: usize) -> Vec<Arc<Objcore>> {
        let shared = self.shared();
        let most = shared.hot_params.ban_any_variant().saturating_sub(banned);
        let newest = shared.bans.newest_for(query.arrival_sequence);
        if most == 0 || head.tested_to.load(Relaxed) >= newest {
            return Vec::new();
        }
        let stored = objcs.iter().rev().filter(|oc| oc.state() != ObjcoreStage::Busy).take(most);
        let has_news = |oc: &&Arc<Objcore>| {
            oc.times().ttl > 0.0 && !oc.is_overtaken() && shared.bans.has_news(oc, query.arrival_sequence)
        };
        let unchecked: Vec<_> = stored.filter(has_news).take(BATCH).cloned().collect();
        if unchecked.is_empty() {
            head.tested_to.store(newest, Relaxed);
        }
        unchecked
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
        scan.considered += 1;
        let tests_any = scan.considered <= self.shared().hot_params.ban_any_variant();
        if tests_any && self.shared().bans.has_news(oc, query.arrival_sequence) {
            scan.unchecked.push(oc.clone());
            return ControlFlow::Break(());
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
            scan.unchecked.push(oc.clone());
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
}
