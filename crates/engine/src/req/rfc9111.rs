// SPDX-License-Identifier: BSD-2-Clause
//! The client side by RFC 9111 (`req.rfc9111`): directives of the request, fields that aren't sent again, URLs that a successful
//! unsafe request invalidates beside its own.

use std::sync::Arc;

use cache::{Digest, LookupOptions, ObjRef, Purge};
use message::rfc9111::{self, RequestDirectives, ResponseDirectives, StaleCause};
use message::{Head, list, names};
use tables::no_hit::NoHit;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;
use tables::vclsubs::HashAction;

use super::hit::HitRight;
use super::reason::NoHitReason;
use super::verdict::{FoundKind, ReqVerdict};
use super::{Req, ReqStep};
use crate::httplog::RESP;
use crate::queries::Learned;
use crate::synthetic::SynthOrder;
use crate::transport::Transport;

/// The exact URL for which a request's digest is an alias (`crate::queries`).
#[derive(Clone, Debug)]
pub(crate) struct Alias {
    /// The digest of its URL as it stands.
    pub exact: Digest,
    /// The knowledge of its path at that time.
    pub learned: Arc<Learned>,
}

impl Req {
    /// Cache-Control as VCL left it: who doesn't want clients to decide takes the field away.
    fn directives(&self) -> RequestDirectives {
        match self.settings.rfc9111 && self.ask.head.has(names::CACHE_CONTROL) {
            true => RequestDirectives::from_head(&self.ask.head),
            false => RequestDirectives::default(),
        }
    }

    /// Applies the request's Cache-Control to the lookup.
    pub(super) fn with_directives(&self, options: LookupOptions) -> LookupOptions {
        let asked = self.directives();
        LookupOptions {
            looks_behind_markers: self.settings.rfc9111,
            max_age: if asked.no_cache { Some(0.0) } else { asked.max_age.map(f64::from).or(options.max_age) },
            min_fresh: asked.min_fresh.map(f64::from),
            ..options
        }
    }

    /// The step that the request's directives require instead of a fetch. `None` fetches.
    pub(super) fn instead_of_fetch(&mut self, stale: Option<&ObjRef>) -> Option<ReqStep> {
        let asked = self.directives();
        if let Some(stale) = stale.filter(|stale| self.takes_stale(stale, &asked) && !self.lacks(stale)) {
            self.verdict.take_stale();
            stale.note_hit(self.engine().mono_of(self.ask.t_req));
            return Some(self.found(stale.clone(), None, HitRight::None));
        }
        if let Some(step) = self.unless_only_cached() {
            return Some(step);
        }
        asked.no_store.then_some(ReqStep::Pass)
    }

    /// True if the client accepts the stale object (RFC 9111 5.2.1.2).
    fn takes_stale(&self, stale: &ObjRef, asked: &RequestDirectives) -> bool {
        let Some(most) = asked.max_stale.filter(|_| !asked.no_cache && asked.min_fresh.is_none()) else { return false };
        let (now, times) = (self.engine().mono_of(self.ask.t_req), stale.times());
        let is_young = asked.max_age.is_none_or(|age| now.since(times.t_origin) <= f64::from(age));
        let mut head = Head::with_limits(self.resp.head.limits());
        if !is_young || stale.is_in_home_alone() || head.load_from(stale.head()).is_err() {
            return false;
        }
        let directives = ResponseDirectives::from_head(&head, &self.params.rfc9111_targeted);
        let staleness = now.since(times.fresh_until(None));
        rfc9111::may_serve_stale(&directives, StaleCause::MaxStale(most), staleness)
    }

    /// 504 where the origin would be asked and mustn't be (5.2.1.7).
    pub(super) fn unless_only_cached(&mut self) -> Option<ReqStep> {
        if !self.directives().only_if_cached {
            return None;
        }
        self.verdict = ReqVerdict::no_hit(NoHitReason::new(NoHit::OnlyIfCached, ""));
        Some(ReqStep::Synth(SynthOrder::because(504, ProxyError::ProxyInternalResponse, "only-if-cached")))
    }

    /// Before `vcl_deliver`: what a stored response mustn't send again, and what an unsafe request has changed.
    pub(super) async fn deliver_by_rfc9111(&mut self, obj: &ObjRef, transport: &mut dyn Transport) {
        if self.verdict.found() == FoundKind::Hit {
            self.leave_unshared_out();
        } else if obj.flags().is_private && self.ask.family.is_none() && !rfc9111::is_safe(self.ask.head.method()) {
            // Boxed: it is rare.
            Box::pin(self.invalidate_locations(transport)).await;
        }
    }

    /// `no-cache="names"`: those need a validation, the rest doesn't (5.2.2.4).
    fn leave_unshared_out(&mut self) {
        let names_some = |field: &str| self.resp.head.get(field).is_some_and(|value| list::has(value, b"no-cache"));
        let targeted = self.params.rfc9111_targeted.split([' ', ',']).filter(|name| !name.is_empty());
        if !names_some(names::CACHE_CONTROL) && !targeted.into_iter().any(names_some) {
            return;
        }
        let directives = ResponseDirectives::from_head(&self.resp.head, &self.params.rfc9111_targeted);
        for name in directives.unshared_fields() {
            if let Ok(name) = std::str::from_utf8(name) {
                RESP.unset(&mut self.resp.head, &mut self.log, name);
            }
        }
    }

    /// Replaces the digest by an alias of all URLs that differ only in insignificant parts of the query, if something
    /// is known of queries of that path.
    pub(super) async fn hash_alias(&mut self, transport: &mut dyn Transport) -> Result<(), ReqStep> {
        let host = self.ask.head.get(names::HOST).unwrap_or_default();
        let Some(learned) = self.engine().fetches.queries.of(host, self.ask.head.url()) else { return Ok(()) };
        let own = self.ask.head.url().to_vec();
        let Some(reduced) = Box::pin(self.hash_of(&learned.variance.reduced(&own), transport)).await else {
            return Err(ReqStep::VclFail);
        };
        self.ask.alias = Some(Box::new(Alias { exact: self.ask.digest, learned: learned.clone() }));
        self.ask.digest = learned.alias(&reduced);
        Ok(())
    }

    /// The digest that `vcl_hash` calculates for another URL with the request's other headers; `None` if VCL fails.
    async fn hash_of(&mut self, url: &[u8], transport: &mut dyn Transport) -> Option<Digest> {
        let own = self.ask.head.url().to_vec();
        if self.ask.head.set_url(url).is_err() {
            self.log.count_lost();
            return None;
        }
        let action: HashAction = self.run_vcl(transport).await;
        let digest = self.ask.hasher.finish();
        if self.ask.head.set_url(&own).is_err() {
            self.log.count_lost();
        }
        (action == HashAction::Lookup).then_some(digest)
    }

    /// Purges what Location and Content-Location of a successful answer name, as `vcl_hash` hashes it.
    async fn invalidate_locations(&mut self, transport: &mut dyn Transport) {
        if !matches!(self.resp.head.status() % 1000, 200..400) {
            return;
        }
        let host = self.ask.head.get(names::HOST).unwrap_or_default();
        let targets = rfc9111::locations(&self.resp.head, host, self.ask.head.url());
        if targets.is_empty() {
            return;
        }
        if let Err(refusal) = self.engine().may_invalidate_here() {
            self.log.put(Tag::VclError, refusal.0.as_bytes());
            return;
        }
        for target in targets {
            let Some(exact) = self.hash_of(&target, transport).await else { continue };
            self.purge_by_rfc9111(&exact);
            let own_host = self.ask.head.get(names::HOST).unwrap_or_default();
            let Some(learned) = self.engine().fetches.queries.of(own_host, &target) else { continue };
            if let Some(reduced) = self.hash_of(&learned.variance.reduced(&target), transport).await {
                self.purge_by_rfc9111(&learned.alias(&reduced));
            }
        }
    }

    fn purge_by_rfc9111(&mut self, digest: &Digest) {
        let now = self.engine().clock.mono();
        let count = self.engine().purge(None, digest, now, Purge::HARD);
        self.engine().main.rfc9111_invalidated.add(count as u64);
        self.engine().announce_to_peers(|| crate::cluster::purge(digest, Purge::HARD), now);
        self.vcl.invalidations.note();
    }
}
