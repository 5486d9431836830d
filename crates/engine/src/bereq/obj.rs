// SPDX-License-Identifier: BSD-2-Clause
//! The backend's answer becomes an object: where it is stored, which variant it is, how long it lives.

use std::sync::Arc;

use backend::buffers;
use cache::{Attrs, ObjectFlags, ObjectTimes, VaryKey};
use message::hop::HopDirection;
use message::tag_fields::XKEY;
use message::{Codings, Field, Head, names, vary};
use storage::Store;
use tables::no_hit::Uncacheable;
use tables::tags::Tag;
use vrt::{Ctx, VclFailure};

use super::Bereq;
use super::start::has_validator;
use crate::httplog::OBJ;

/// Most bytes that an object keeps of why it can't be cached.
const WHY_BYTES: usize = 120;

/// The largest object, head and body, that Transient takes in the place of a store that has no room for it.
const SALVAGED_BYTES: u64 = 256 * 1024;

impl Bereq {
    /// Stores the head of the object, its body is to follow. `body`: what the filters make of the body. `streams`: clients get it while
    /// it comes.
    pub(super) fn store_head(&mut self, body: ObjectFlags, streams: bool) -> Result<(), ()> {
        let variant = self.variant();
        let Some(store) = self.choose_store() else {
            self.fetch_error("Could not get storage");
            return Err(());
        };
        let flags = self.object_flags(body);
        self.fill.object.body_limit = None;
        let mut stored = buffers::take();
        let filter =
            if self.fill.cacheability.is_uncacheable() { HopDirection::PassResponse } else { HopDirection::Insert };
        // A 416 says the object's length so (RFC 9110 15.5.17); beside another status the field would be about a part.
        let is_416 = self.beresp.is_status(416);
        let keeps = |field: &Field<'_>| filter.keeps(field) || is_416 && field.is(names::CONTENT_RANGE);
        self.beresp.store_to(&mut stored, keeps);
        self.log_object(keeps);
        let done = self.store_head_in(&store, &stored, variant.as_ref(), flags, streams);
        buffers::leave(stored);
        done
    }

    fn store_head_in(
        &mut self,
        store: &Arc<Store>,
        stored: &[u8],
        variant: Option<&(Vec<u8>, Vec<u8>)>,
        flags: ObjectFlags,
        streams: bool,
    ) -> Result<(), ()> {
        if self.may_fit(store, stored.len()) && self.put_head(store, stored, variant, flags).is_ok() {
            return Ok(());
        }
        let transient = self.engine.cache.stores().transient().clone();
        if store.id() != transient.id() && self.salvage(store, stored, variant, flags, streams).is_ok() {
            return Ok(());
        }
        self.fetch_error("Could not get storage");
        Err(())
    }

    /// Salvages an object for which its store has no room: a short-lived object is better than a failed request, but
    /// limits set by the operator stay. A body that isn't short passes through Transient to its client if it streams,
    /// no faster than the client reads.
    fn salvage(
        &mut self,
        store: &Store,
        stored: &[u8],
        variant: Option<&(Vec<u8>, Vec<u8>)>,
        flags: ObjectFlags,
        streams: bool,
    ) -> Result<(), ()> {
        let (head, is_front) = (stored.len() as u64, store.home().is_some());
        let transient = self.engine.cache.stores().transient().clone();
        let is_short = self.body_to_store().saturating_add(head) <= SALVAGED_BYTES;
        if !is_short && !streams && !is_front {
            return Err(());
        }
        let shortlived = self.params.shortlived.as_secs_f64();
        self.fill.object.times = ObjectTimes {
            ttl: self.fill.object.times.ttl.min(shortlived),
            grace: 0.0,
            keep: 0.0,
            ..self.fill.object.times
        };
        if is_short && !(is_front && self.is_of_unknown_length()) {
            self.fill.object.body_limit = Some(SALVAGED_BYTES - head);
            return self.put_head(&transient, stored, variant, flags);
        }
        // All memory of the store is in use, or it would be with this: this client gets the object, and others fetch for themselves.
        self.engine.main.fetch_passed_on.inc();
        self.fill.cacheability.refuse();
        self.fill.cacheability.set_reason(Uncacheable::NoRoom.word().as_bytes());
        let flags = ObjectFlags { reuse: self.fill.cacheability.reuse(|| false), ..flags };
        self.put_head(&transient, stored, variant, flags)
    }

    fn is_of_unknown_length(&self) -> bool {
        !self.kind.is_refresh() && self.announced().is_none()
    }

    fn body_to_store(&self) -> u64 {
        self.kind.bytes_to_store().or_else(|| self.announced()).unwrap_or(0)
    }

    /// True if the store has room, or could make it, for a head of that length and the body as announced. The body of a
    /// 304 may be there already, and one that is passed on isn't kept.
    fn may_fit(&mut self, store: &Arc<Store>, head: usize) -> bool {
        let is_stored = !self.kind.is_refresh() && !self.fill.cacheability.is_uncacheable();
        let body = if is_stored { self.body_to_store() } else { 0 };
        let needed = body.saturating_add(head as u64);
        let fits = self.busy().make_room(store, needed);
        self.log_events();
        fits
    }

    fn put_head(
        &mut self,
        store: &Arc<Store>,
        head: &[u8],
        variant: Option<&(Vec<u8>, Vec<u8>)>,
        flags: ObjectFlags,
    ) -> Result<(), ()> {
        let attrs = Attrs { times: self.fill.object.times, xid: self.log.vxid(), flags };
        let vary = variant.map(|(spec, values)| VaryKey { spec, values });
        let is_marker =
            self.fill.cacheability.is_uncacheable() && self.fill.object.times.ttl > 0.0 && !self.busy().is_private();
        let reason = self.fill.cacheability.reason().filter(|_| is_marker);
        let aux_attrs = self.kind.aux_attrs(reason);
        let done = self.busy().set_head(store, head, vary, &attrs, &aux_attrs);
        self.log_events();
        done.map_err(drop)?;
        if self.fill.rfc9111 {
            self.busy().keep_stale_from_waiters();
        }
        if self.engine.cache.keeps_tags() {
            let mut tags = std::mem::take(&mut self.fill.object.keys);
            self.gather_tags(&mut tags);
            if self.fill.rfc9111 {
                self.gather_groups(&mut tags);
            }
            if self.params.tag_urls {
                let host = self.ask.original.get(names::HOST).unwrap_or_default();
                tags.push(message::tags::of_url(host, self.ask.original.url()).into());
            }
            self.busy().set_tags(tags);
        }
        let (kind, name) = (store.kind().as_str(), store.name());
        self.log.put_parts(Tag::Storage, &[kind.as_bytes(), b" ", name.as_bytes()]);
        Ok(())
    }

    /// The tags that fields give the object, unless VCL has said which it has.
    fn gather_tags(&self, tags: &mut Vec<Box<[u8]>>) {
        if self.fill.object.has_own_tags {
            return;
        }
        self.gather_tags_of(&self.beresp, tags);
    }

    /// The tags that fields of a head give its object.
    pub(super) fn gather_tags_of(&self, head: &Head, tags: &mut Vec<Box<[u8]>>) {
        message::tags::gather(head, &self.params.tag_fields, tags);
        if self.engine.vcls.keeps_key_fields() {
            message::tags::gather(head, XKEY, tags);
        }
    }

    /// `beresp.tags`: tags between blanks. What ykey gives has names that no field has, and isn't shown.
    pub(super) fn shown_tags(&self) -> Option<Vec<u8>> {
        let mut tags: Vec<Box<[u8]>> =
            self.fill.object.keys.iter().filter(|tag| message::tags::is_plain(tag)).cloned().collect();
        self.gather_tags(&mut tags);
        (!tags.is_empty()).then(|| tags.join(&b' '))
    }

    /// Sets `beresp.tags`; nothing: the object has none.
    pub(super) fn set_tags(&mut self, text: &[u8]) -> Result<(), VclFailure> {
        self.fill.object.has_own_tags = true;
        self.fill.object.keys.retain(|tag| !message::tags::is_plain(tag));
        let tags: Vec<&[u8]> = message::tags::words(text).collect();
        self.add_tags(&tags)
    }

    pub(super) fn log_events(&mut self) {
        for event in self.busy().take_events() {
            self.log.putf(Tag::ExpKill, format_args!("{}", event.text(self.params.compat())));
        }
    }

    /// Notes what made the answer uncacheable, with the place in VCL or the field, after a subroutine ended (`is_passed`: with pass).
    pub(super) fn note_uncacheable(&mut self, is_passed: bool) {
        if !(self.fill.cacheability.is_uncacheable() || is_passed) || self.busy().is_private() {
            return;
        }
        let spot = if is_passed { self.vcl.ended_at() } else { self.vcl.uncacheable_at() };
        let Some(spot) = spot else { return };
        let cause = match spot.sub {
            _ if is_passed => Uncacheable::VclPass,
            "vcl_beresp_stale" if spot.is_builtin() => Uncacheable::Stale,
            "vcl_beresp_cookie" if spot.is_builtin() => Uncacheable::SetCookie,
            "vcl_beresp_control" if spot.is_builtin() => Uncacheable::CacheControl,
            "vcl_beresp_vary" if spot.is_builtin() => Uncacheable::Vary,
            _ => Uncacheable::Vcl,
        };
        let field = |name: &str| self.beresp.get(name).map(String::from_utf8_lossy);
        let detail = match cause {
            Uncacheable::CacheControl => field("Surrogate-Control").or_else(|| field(names::CACHE_CONTROL)),
            Uncacheable::Vcl | Uncacheable::VclPass => Some(spot.to_string().into()),
            Uncacheable::Stale
            | Uncacheable::SetCookie
            | Uncacheable::Vary
            | Uncacheable::BadVary
            | Uncacheable::NoRoom
            | Uncacheable::Peer
            | Uncacheable::Authorization
            | Uncacheable::Dictionary
            | Uncacheable::Status => None,
        };
        let word = cause.word().as_bytes();
        let bytes = word.len() + detail.as_ref().map_or(0, |detail| 1 + detail.len());
        let mut text = Vec::with_capacity(bytes.min(WHY_BYTES));
        text.extend_from_slice(word);
        if let Some(detail) = detail {
            text.push(b' ');
            let room = detail.floor_char_boundary(WHY_BYTES.saturating_sub(text.len()));
            text.extend_from_slice(&detail.as_bytes()[..room]);
        }
        self.fill.cacheability.set_reason(text);
    }

    /// Flags of the object: those of the `body` from the filters, and all others.
    fn object_flags(&mut self, body: ObjectFlags) -> ObjectFlags {
        let may_be_revalidated = || self.beresp.is_status(200) && has_validator(self.params.compat(), &self.beresp);
        let reuse = self.fill.cacheability.reuse(may_be_revalidated);
        ObjectFlags { reuse, is_private: self.busy().is_private(), ..body }
    }

    /// A star among other names in Vary: no request matches (RFC 9110 12.5.5), so it is passed. The bare star is VCL's to
    /// judge: the built-in one doesn't cache it. Called before filters add a name of theirs.
    pub(super) fn judge_star(&mut self) {
        let vary = self.beresp.get(names::VARY);
        if self.fill.cacheability.is_uncacheable()
            || vary == Some(b"*")
            || !vary::is_star(&self.beresp)
            || self.fill.busy.as_ref().is_some_and(|busy| busy.is_private())
        {
            return;
        }
        // A 304 without a Vary of its own: the object's, which was judged when that was fetched.
        if let Some(stale) = self.kind.kept_object() {
            let mut old = message::Head::with_limits(self.beresp.limits());
            if old.load_from(stale.head()).is_ok() && old.get(names::VARY) == vary {
                return;
            }
        }
        self.log.put(Tag::Error, b"'Vary' header from backend has a '*' among others, making this a pass.");
        self.fill.cacheability.refuse();
        self.fill.cacheability.set_reason(Uncacheable::Vary.word().as_bytes());
    }

    /// The names in Vary, and the values that this fetch had for them. A Vary that can't be read makes a pass of it.
    fn variant(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        if self.busy().is_private() || !self.kind.has_variants() {
            return None;
        }
        if self.fill.rfc9111 {
            return self.normalised_variant();
        }
        match vary::key(&self.beresp, &self.ask.head) {
            Ok(None) => None,
            Ok(Some(key)) => {
                let (mut spec, mut values) = (Vec::new(), Vec::new());
                vary::rekey(&key, &message::Head::new(), Codings::NONE, &mut spec);
                vary::rekey(&key, &self.ask.head, self.params.supported_codings(), &mut values);
                Some((spec, values))
            }
            Err(error) => {
                self.refuse_vary(error);
                None
            }
        }
    }

    pub(super) fn refuse_vary(&mut self, error: vary::VaryError) {
        self.log.put(Tag::Error, error.text().as_bytes());
        self.log.put(Tag::Error, b"Illegal 'Vary' header from backend, making this a pass.");
        self.fill.cacheability.refuse();
        self.fill.cacheability.set_reason(Uncacheable::BadVary.word().as_bytes());
    }

    /// The store that VCL or its turn has given, or Transient; `None` when VCL chose none.
    fn choose_store(&mut self) -> Option<Arc<Store>> {
        let main = self.engine.main;
        let life = self.fill.object.life();
        let chosen = self.fill.settings.storage.take();
        if self.fill.cacheability.is_uncacheable() {
            main.beresp_uncacheable.tally();
        } else if life < self.params.shortlived.as_secs_f64() {
            main.beresp_shortlived.tally();
        } else {
            return chosen;
        }
        Some(self.engine.cache.stores().transient().clone())
    }

    fn log_object(&mut self, keeps: impl Fn(&Field<'_>) -> bool) {
        if self.log.ring().is_masked(Tag::ObjHeader) {
            return;
        }
        OBJ.log_status(&self.beresp, &mut self.log);
        for field in self.beresp.iter().filter(|field| keeps(field)) {
            self.log.put(Tag::ObjHeader, field.line());
        }
    }
}
