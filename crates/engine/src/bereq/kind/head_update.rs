// SPDX-License-Identifier: BSD-2-Clause
//! A 200 to HEAD updates what is stored (RFC 9111 4.3.5), whether the request went past the cache or VCL kept HEAD in a miss: an object
//! with the same body and another head takes its place. Such a head says how long that is fresh, and VCL, which sees the answer as any
//! other, has the last word.

use std::sync::Arc;

use cache::{Attrs, Busy, Found, Lookup, LookupOptions, ObjRef, ObjectFlags, ObjectTimes, Purge, Search, VaryKey};
use message::hop::HopDirection;
use message::rfc9111::{self, QueryVariance, RequestDirectives};
use message::{Head, names};
use storage::Store;

use super::FetchKind;
use crate::aux_attrs::AuxAttrs;
use crate::bereq::Bereq;
use crate::bereq::start::has_validator;
use crate::bereq::state::Cacheability;
use crate::engine::Engine;
use crate::req::lookup::LookupRequest;
use crate::slices::{self, SliceSet};

/// An update that VCL hasn't decided on yet. Meanwhile the fetch has the times that the updated object would have.
#[derive(Debug)]
pub(crate) struct HeadUpdate {
    stored: ObjRef,
    times: ObjectTimes,
    t_origin: base::Real,
}

/// An object that takes the place of another one with the same body.
struct Successor {
    busy: Busy,
    stored: ObjRef,
    head: Vec<u8>,
    /// The names in Vary, and the values for them.
    variant: Option<(Vec<u8>, Vec<u8>)>,
    attrs: Attrs,
    tags: Vec<Box<[u8]>>,
    store: Arc<Store>,
}

impl Bereq {
    /// A 200 to HEAD tells of what is stored: what isn't that any more is validated before it is used, what is gets the new fields once
    /// VCL has seen them.
    pub(super) fn heed_head(&mut self) {
        if self.ask.head.method() != b"HEAD" || !self.beresp.is_status(200) {
            return;
        }
        let now = self.engine.clock.mono();
        let request = LookupRequest::normalised(&self.ask.head, self.params.supported_codings());
        let mut newest: Option<ObjRef> = None;
        for obj in self.engine.cache.stored_for(&self.fill.digest, &request) {
            let Some(stored) = self.comparable(&obj) else { continue };
            if rfc9111::is_outdated(&stored, &self.beresp) {
                let ttl = (obj.times().fresh_until(None).0 > now.0).then_some(0.0);
                self.engine.cache.rearm(&obj, now, Purge { ttl, grace: Some(0.0), keep: None });
            } else if newest.as_ref().is_none_or(|other| other.times().t_origin.0 <= obj.times().t_origin.0) {
                newest = Some(obj);
            }
        }
        // Of such a request nothing is stored, nor of what may be one user's.
        if let Some(stored) = newest
            && matches!(self.kind, FetchKind::Whole)
            && !RequestDirectives::from_head(&self.ask.original).no_store
            && !self.ask.original.has(names::AUTHORIZATION)
        {
            self.begin_head_update(stored);
        }
    }

    /// The head of an object that may be compared with the origin's: what was packed here isn't what that tells of.
    fn comparable(&self, obj: &ObjRef) -> Option<Head> {
        if obj.flags().is_recoded {
            return None;
        }
        let mut stored = Head::with_limits(self.beresp.limits());
        stored.load_from(obj.head()).ok().map(|()| stored)
    }

    fn begin_head_update(&mut self, stored: ObjRef) {
        let Some(updated) = self.updated_head(&stored) else { return };
        let lives = self.lives_of(&updated);
        let (times, t_origin) = (self.fill.object.times, self.fill.object.t_origin);
        self.fill.object.times = lives;
        self.fill.object.t_origin = self.engine.real_of(lives.t_origin);
        self.kind = FetchKind::HeadUpdate(Box::new(HeadUpdate { stored, times, t_origin }));
    }

    fn updated_head(&mut self, stored: &ObjRef) -> Option<Head> {
        let old = self.comparable(stored).filter(|old| old.is_status(200))?;
        let updated = rfc9111::updated(&old, &self.beresp);
        if updated.is_err() {
            self.log.count_lost();
        }
        updated.ok()
    }

    /// After vcl_backend_response, which wants the answer delivered if `is_delivered`.
    pub(in crate::bereq) fn decided(&mut self, is_delivered: bool) {
        if !matches!(self.kind, FetchKind::HeadUpdate(_)) {
            return;
        }
        let FetchKind::HeadUpdate(update) = std::mem::take(&mut self.kind) else { return };
        let HeadUpdate { stored, times, t_origin } = *update;
        let lives = std::mem::replace(&mut self.fill.object.times, times);
        self.fill.object.t_origin = t_origin;
        if !is_delivered {
            return;
        }
        let Some(updated) = self.updated_head(&stored) else { return };
        // What says something else of queries would be found by requests that it isn't for.
        let known = self.fill.alias.as_ref().map(|alias| &alias.learned.variance);
        if QueryVariance::from_head(&updated).as_ref() != known {
            return;
        }
        // With the right to fetch nothing comes between: a purge or ban that comes now hits the successor, too.
        let options = LookupOptions {
            max_age: Some(0.0),
            ignore_busy: true,
            looks_behind_markers: true,
            ..LookupOptions::default()
        };
        let request = LookupRequest::normalised(&self.ask.head, self.params.supported_codings());
        let mut search = Search::new(self.fill.digest, self.engine.clock.mono(), options);
        let Lookup::Ready(found) = search.look(&self.engine.cache, &request) else { return };
        let (busy, found) = match found {
            Found::MissStale { busy, stale } => (busy, Some(stale)),
            Found::HitForMiss { busy, stale, .. } => (busy, stale),
            Found::Miss(busy) => (busy, None),
            Found::Hit(_) | Found::Grace { .. } | Found::HitForPass { .. } | Found::Refused => return,
        };
        if found.is_none_or(|found| found.xid() != stored.xid()) {
            return busy.release();
        }
        if lives.ttl <= 0.0 {
            busy.release();
            self.engine.cache.kill(&stored);
            if let Some(set) = SliceSet::of(&stored) {
                slices::free(&self.engine.cache, self.fill.digest, set);
            }
            return;
        }
        self.succeed(busy, stored, &updated, lives);
    }

    fn succeed(&mut self, mut busy: Busy, stored: ObjRef, updated: &Head, times: ObjectTimes) {
        let supported = self.params.supported_codings();
        let variant = match rfc9111::key(updated, &self.ask.head) {
            Ok(spec) => spec.map(|spec| {
                let mut values = Vec::new();
                rfc9111::values(&spec, &self.ask.head, supported, &mut values);
                (spec, values)
            }),
            Err(_) => return busy.release(),
        };
        let may_be_revalidated = || updated.is_status(200) && has_validator(self.params.compat(), updated);
        let reuse = Cacheability::cacheable().reuse(may_be_revalidated);
        let attrs = Attrs { times, xid: self.log.vxid(), flags: ObjectFlags { reuse, ..stored.flags() } };
        let mut head = Vec::new();
        updated.store_to(&mut head, |field| HopDirection::Insert.keeps(field));
        let tags = self.tags_of_updated(&stored, updated);
        let store = self.engine.cache.stores().get(stored.store()).clone();
        if let Some(tenant) = self.engine.cache.tenant_of(&stored) {
            busy.set_tenant(tenant);
        }
        let successor = Successor { busy, stored, head, variant, attrs, tags, store };
        let (engine, digest) = (self.engine.clone(), self.fill.digest);
        // The body may have to be read from a disk: the answer to HEAD doesn't wait for that.
        rt::spawn(async move { successor.run(&engine, digest).await });
    }

    /// Those that fields give the new head, and what VCL has given the stored one.
    fn tags_of_updated(&self, stored: &ObjRef, updated: &Head) -> Vec<Box<[u8]>> {
        if !self.engine.cache.keeps_tags() {
            return Vec::new();
        }
        let host = self.ask.original.get(names::HOST).unwrap_or_default();
        let of_fields = |head: &Head| {
            let mut tags = Vec::new();
            self.gather_tags_of(head, &mut tags);
            tags.extend(rfc9111::group_tags(head, host));
            tags
        };
        let mut old = Vec::new();
        if let Some(head) = self.comparable(stored) {
            old = of_fields(&head);
        }
        let mut tags = self.engine.cache.tags_of(stored);
        tags.retain(|tag| !old.contains(tag));
        tags.extend(of_fields(updated));
        tags
    }
}

impl Successor {
    async fn run(self, engine: &Engine, digest: cache::Digest) {
        let Successor { mut busy, stored, head, variant, attrs, tags, store } = self;
        if stored.finished().await.is_err() {
            return busy.release();
        }
        let vary = variant.as_ref().map(|(spec, values)| VaryKey { spec, values });
        let aux_attrs = AuxAttrs { reason: None, ..AuxAttrs::read(stored.aux_attrs()) }.store();
        let is_put = busy.set_head(&store, &head, vary, &attrs, &[]).is_ok()
            && busy.set_aux_attrs(&aux_attrs, attrs.flags.has_esi).is_ok();
        if !is_put {
            return busy.release();
        }
        busy.set_tags(tags);
        let mut reader = stored.reader(0);
        loop {
            rt::give_way().await;
            match reader.next().await {
                Ok(None) => break,
                Ok(Some(piece)) => {
                    if let Err(piece) = busy.share(piece, stored.store())
                        && busy.append(&piece).is_err()
                    {
                        return busy.release();
                    }
                }
                Err(_) => return busy.release(),
            }
        }
        let new = busy.object();
        if busy.finish(None).is_err() {
            return;
        }
        engine.cache.kill(&stored);
        engine.main.rfc9111_updated.inc();
        if let Some(set) = SliceSet::of(&stored) {
            slices::renew(&engine.cache, digest, set, new);
        }
    }
}
