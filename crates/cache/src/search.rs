// SPDX-License-Identifier: BSD-2-Clause
//! A search: the lookup of one request from its first look at the index to its result, over all waits in between.
//!
//! ```text
//! look ---> Ready(Found)
//!   \-----> Pending --await, look_again--> Ready(Found)
//!              ^------------------------------/  Pending
//! ```
//!
//! The search owns the time of the request, with which it compares the times of objects: that of its begin, and after a
//! wait for another request's fetch that of its end.

use base::Mono;
use storage::ObjectTimes;

use crate::busy::Busy;
use crate::cache::Cache;
use crate::digest::Digest;
use crate::events::CacheEvent;
use crate::homes::Right;
use crate::lookup::Found;
use crate::pending::{Pending, Wait};
use crate::request::CacheRequest;
use crate::scan::Query;
use crate::trace::LookupTrace;

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

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all are the large one, which is worth no allocation each")]
pub enum Lookup {
    Ready(Found),
    /// The request has to wait: await this, then [`Search::look_again`].
    Pending(Pending),
}

#[derive(Debug)]
pub struct Search {
    digest: Digest,
    now: Mono,
    pub options: LookupOptions,
    /// The invalidations known when the request first looked: later ones don't concern it.
    arrival_sequence: u64,
    /// The request doesn't wait again: it has waited for a fetch that helped nobody.
    is_alone: bool,
    /// Seconds that the request has waited for fetches of others, if it has.
    waited: Option<f64>,
    has_looked: bool,
    pub report: SearchReport,
}

/// Observations of a search beside its result.
#[derive(Debug, Default)]
pub struct SearchReport {
    /// Objects found banned on the way, for the log, until the caller takes them. Mostly empty (and then not allocated).
    pub events: Vec<CacheEvent>,
    /// Variants of other requests that the last look passed (`vary_notice`).
    pub variants_skipped: usize,
    /// Findings of the last look.
    pub trace: LookupTrace,
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

    fn prolonged(&self, waited: f64) -> Self {
        // Limits of age count from the request's begin, as in Varnish: a short one would fit no response that requests wait for.
        let longer = |limit: Option<f64>| limit.map(|seconds| if seconds > 0.0 { seconds + waited } else { seconds });
        Self { max_ttl: longer(self.max_ttl), max_age: longer(self.max_age), ..*self }
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

impl Search {
    /// A search for a request that came at `now`.
    #[inline]
    pub fn new(digest: Digest, now: Mono, options: LookupOptions) -> Self {
        let report = SearchReport::default();
        Self { digest, now, options, arrival_sequence: 0, is_alone: false, waited: None, has_looked: false, report }
    }

    /// The time with which the last look compared.
    pub fn now(&self) -> Mono {
        self.now
    }

    /// Begins: the request knows all invalidations so far, and nothing of earlier looks.
    pub fn look(&mut self, cache: &Cache, req: &dyn CacheRequest) -> Lookup {
        self.begin_look();
        self.arrival_sequence = cache.shared().bans.seq();
        (self.is_alone, self.waited) = (false, None);
        self.look_with(cache, &mut Right::default(), req)
    }

    /// Continues after a wait. Invalidations after the first look don't concern the request, so it can have the
    /// response that it waited for.
    pub fn look_again(&mut self, cache: &Cache, pending: Pending, req: &dyn CacheRequest) -> Lookup {
        self.begin_look();
        match pending.0 {
            Wait::Turn(_) => self.look_with(cache, &mut Right::default(), req),
            Wait::Parked(parked) => {
                self.is_alone = parked.leave();
                let before = std::mem::replace(&mut self.now, cache.shared().now());
                self.waited = Some(self.waited.unwrap_or(0.0) + self.now.since(before));
                self.look_with(cache, &mut Right::default(), req)
            }
            Wait::Home(read) => {
                let mut right = read.end(&mut self.report.events);
                let lookup = self.look_with(cache, &mut right, req);
                if matches!(&lookup, Lookup::Ready(found) if found.object().is_some()) {
                    cache.shared().main.home_hit.inc();
                }
                right.busy.into_iter().for_each(Busy::release);
                lookup
            }
        }
    }

    /// Forgets what an earlier look came across; the first one of nearly all searches is the only one.
    #[inline]
    fn begin_look(&mut self) {
        if std::mem::replace(&mut self.has_looked, true) {
            self.report.trace = LookupTrace::default();
        }
    }

    #[inline]
    fn look_with(&mut self, cache: &Cache, right: &mut Right, req: &dyn CacheRequest) -> Lookup {
        let Search { digest, now, options, arrival_sequence, is_alone, waited, .. } = self;
        let prolonged = waited.map(|waited| options.prolonged(waited));
        let options = prolonged.as_ref().unwrap_or(options);
        let query = Query { digest, req, now: *now, options, arrival_sequence: *arrival_sequence, is_alone: *is_alone };
        let lookup = cache.look(&query, right, &mut self.report);
        if waited.is_some() {
            cache.count_parked(&lookup);
        }
        lookup
    }
}
