// SPDX-License-Identifier: BSD-2-Clause
//! The backend side as VCL and directors see it.

use std::cell::{OnceCell, RefCell};
use std::net::SocketAddr;
use std::sync::Arc;

use backend::{Backend, BackendLimits, Director};
use base::Clock;
use cache::ObjectTimes;
use message::{Coding, Head};
use shm::vsl::TxnLog;
use storage::Store;
use tables::Compat;
use tables::tags::Tag;
use tables::vclvars::{HeadId, Var};
use vrt::ctx::{StoreProperty, VclWait};
use vrt::value::{BackendRef, Blob, Text};
use vrt::{Ctx, Privates, Value, VclFailure};

use super::body_filters;
use super::kind::FetchKind;
use super::{Bereq, BereqBody, FetchMode, reach};
use crate::choice::DirectorChoice;
use crate::httplog::BEREQ;
use crate::req::verdict::FoundKind;
use crate::vars;

pub(super) const MAX_TAGS: usize = 10_000;

impl Ctx for Bereq {
    fn compat(&self) -> Compat {
        self.params.compat()
    }

    fn head(&mut self, id: HeadId) -> Option<&Head> {
        match id {
            HeadId::Bereq => Some(&self.ask.head),
            HeadId::Beresp => Some(&self.beresp),
            HeadId::Obj => self.kind.old_head(),
            HeadId::Req | HeadId::ReqTop | HeadId::Resp => None,
        }
    }

    fn edit(&mut self, id: HeadId) -> Option<(&mut Head, &mut TxnLog)> {
        match id {
            HeadId::Bereq => Some((&mut self.ask.head, &mut self.log)),
            HeadId::Beresp => Some((&mut self.beresp, &mut self.log)),
            HeadId::Req | HeadId::ReqTop | HeadId::Obj | HeadId::Resp => None,
        }
    }

    fn get(&mut self, var: Var) -> Value {
        let limits = |bereq: &Bereq| match &bereq.ask.backend {
            Some(backend) => backend.limits(BackendLimits::default()),
            None => BackendLimits::of(&bereq.params),
        };
        let seconds = |own: Option<f64>, otherwise| own.map_or_else(|| Value::limit(otherwise), Value::Duration);
        match var {
            Var::Bereq => Value::Http(HeadId::Bereq),
            Var::Beresp => Value::Http(HeadId::Beresp),
            Var::BereqBackend => Value::Backend(self.ask.director.clone()),
            Var::BereqConnectTimeout => seconds(self.ask.limits.connect, self.params.connect_timeout),
            Var::BereqFirstByteTimeout => seconds(self.ask.limits.first_byte, limits(self).first_byte),
            Var::BereqBetweenBytesTimeout => seconds(self.ask.limits.between_bytes, limits(self).between_bytes),
            Var::BereqDoSlice | Var::BerespDoSlice => Value::Bool(self.terms.slices.do_slice),
            Var::BereqSliceSize => Value::Bytes(self.slice_size().cast_signed()),
            Var::BereqHash => Value::Blob(Some(Blob::new(self.fill.digest.0))),
            Var::BereqIsBgfetch => Value::Bool(self.requester.mode == FetchMode::Background),
            Var::BereqIsHitmiss => Value::Bool(self.requester.found == FoundKind::HitForMiss),
            Var::BereqIsHitpass => Value::Bool(self.requester.found == FoundKind::HitForPass),
            Var::BereqFilters => match self.ask.body_filters.as_ref().and_then(|filters| filters.bereq.clone()) {
                Some(listed) => Value::String(Some(listed)),
                None => Value::text(""),
            },
            Var::BereqRetryConnect => Value::Bool(self.ask.tries.reconnects),
            Var::BereqTenant => {
                let tenant = self.fill.busy.as_ref().and_then(|busy| busy.tenant());
                Value::text(tenant.map_or("", |tenant| tenant.name()))
            }
            Var::BereqTrace => Value::Bool(self.is_traced()),
            Var::BereqRetries => Value::Int(i64::from(self.ask.tries.retries)),
            Var::BereqPeers => Value::Bool(self.ask.peer.may_ask),
            Var::BereqRfc9111 => Value::Bool(self.fill.rfc9111),
            Var::BereqTime => Value::Time(self.log.start().0),
            Var::BereqUncacheable | Var::BerespUncacheable => Value::Bool(self.fill.cacheability.is_uncacheable()),
            Var::BereqXid => vars::id(self.log.vxid()),
            Var::BerespAge => Value::Duration(self.age()),
            Var::BerespBackend => Value::Backend(self.ask.backend.clone().map(|backend| backend as Arc<dyn Director>)),
            Var::BerespBackendName => match &self.ask.backend {
                Some(backend) => Value::text(backend.name()),
                None => Value::NULL,
            },
            Var::BerespBackendIp => Value::Ip(self.ask.link.as_ref().map(|link| {
                let peer = link.conn.peer();
                SocketAddr::new(peer.ip(), peer.port())
            })),
            Var::BerespDoEsi => Value::Bool(self.fill.settings.do_esi),
            Var::BerespDoGzip => Value::Bool(self.fill.settings.recode.make.has(Coding::Gzip)),
            Var::BerespDoBrotli => Value::Bool(self.fill.settings.recode.make.has(Coding::Brotli)),
            Var::BerespDoZstd => Value::Bool(self.fill.settings.recode.make.has(Coding::Zstd)),
            Var::BerespDoGunzip => Value::Bool(self.fill.settings.recode.undo.has(Coding::Gzip)),
            Var::BerespDoUnbrotli => Value::Bool(self.fill.settings.recode.undo.has(Coding::Brotli)),
            Var::BerespDoUnzstd => Value::Bool(self.fill.settings.recode.undo.has(Coding::Zstd)),
            Var::BerespDoStream => Value::Bool(self.fill.settings.do_stream),
            Var::BerespFilters => match self.fill.settings.filters.list() {
                Some(listed) => Value::String(Some(listed.clone())),
                None => Value::text(self.filter_list().as_bytes()),
            },
            Var::BerespGrace => Value::Duration(self.fill.object.times.grace),
            Var::BerespKeep => Value::Duration(self.fill.object.times.keep),
            Var::BerespTtl => Value::Duration(self.fill.object.times.ttl.max(0.0) - self.age()),
            Var::BerespTags => self.shown_tags().map_or(Value::NULL, Value::text),
            Var::BerespTransitBuffer => {
                let bytes = self.busy().transit_buffer().unwrap_or(0);
                Value::Bytes(i64::try_from(bytes).unwrap_or(i64::MAX))
            }
            Var::BerespStorage | Var::BerespStorageHint => self.storage_value(var),
            Var::BerespTime => Value::Time(self.ask.times.received.0),
            Var::BerespWas304 => Value::Bool(self.kind.is_refresh()),
            Var::ObjStaleIsValid => Value::Bool(self.fill.stale.as_ref().is_some_and(|stale| !stale.is_dying())),
            other => self
                .fill
                .stale
                .as_ref()
                .and_then(|stale| vars::of_object(&self.engine, stale, self.log.last(), other))
                .or_else(|| vars::of_session(&self.requester.sess, self.requester.client_identity.as_ref(), other))
                .unwrap_or(Value::Absent),
        }
    }

    fn filters_open(&self, var: Var) -> Result<(), VclFailure> {
        match self.fill.settings.filters.list() {
            None => Ok(()),
            Some(_) => Err(vars::filters_fixed("beresp", var)),
        }
    }

    fn set(&mut self, var: Var, value: Value) -> Result<(), VclFailure> {
        match var {
            Var::BereqBackend => match value {
                Value::Backend(director) => self.ask.director = director,
                other => return Err(vars::wrong(&other)),
            },
            Var::BereqConnectTimeout => self.ask.limits.connect = Some(vars::seconds(&value)?),
            Var::BereqFirstByteTimeout => self.ask.limits.first_byte = Some(vars::seconds(&value)?),
            Var::BereqBetweenBytesTimeout => self.ask.limits.between_bytes = Some(vars::seconds(&value)?),
            // Who isn't to ask them, as a peer's own request, doesn't by VCL's word.
            Var::BereqPeers => self.ask.peer.may_ask &= vars::boolean(&value)?,
            Var::BereqFilters => {
                let listed = body_filters::listed("bereq.filters", value)?;
                if listed.is_some() || self.ask.body_filters.is_some() {
                    self.ask.body_filters.get_or_insert_default().bereq = listed;
                }
            }
            Var::BereqRetryConnect => self.ask.tries.reconnects = vars::boolean(&value)?,
            Var::BereqTrace => self.requester.trace = Some(vars::boolean(&value)?),
            Var::BereqRfc9111 => self.fill.rfc9111 = vars::boolean(&value)?,
            Var::BerespDoEsi
            | Var::BerespDoGzip
            | Var::BerespDoGunzip
            | Var::BerespDoBrotli
            | Var::BerespDoUnbrotli
            | Var::BerespDoZstd
            | Var::BerespDoUnzstd => {
                self.filters_open(var)?;
                self.set_wish(var, vars::boolean(&value)?);
            }
            Var::BereqDoSlice | Var::BerespDoSlice => self.terms.slices.do_slice = vars::boolean(&value)?,
            Var::BereqSliceSize => {
                let Value::Bytes(bytes) = value else { return Err(vars::wrong(&value)) };
                self.set_slice_size(bytes)?;
            }
            Var::BerespDoStream => self.fill.settings.do_stream = vars::boolean(&value)?,
            Var::BerespFilters => self.fill.settings.filters.set_list(vars::text(value)?),
            Var::BerespGrace => self.set_life(&value, |times, grace| times.grace = grace.max(0.0))?,
            Var::BerespKeep => self.set_life(&value, |times, keep| times.keep = keep.max(0.0))?,
            Var::BerespTtl => {
                let age = self.age();
                self.set_life(&value, |times, ttl| times.ttl = (ttl + age).max(0.0))?;
            }
            Var::BerespTags => self.set_tags(vars::text(value)?.as_ref().map_or(b"", |text| text.as_bytes()))?,
            Var::BerespTransitBuffer => {
                let Value::Bytes(bytes) = value else { return Err(vars::wrong(&value)) };
                let bytes = u64::try_from(bytes).ok().filter(|bytes| *bytes > 0);
                self.busy().set_transit_buffer(bytes);
            }
            Var::BerespStorage => self.fill.settings.storage = self.store_of(vars::text(value)?),
            Var::BerespStorageHint => {
                if let Some(store) = self.store_of(vars::text(value)?) {
                    self.fill.settings.storage = Some(store);
                }
            }
            Var::BerespUncacheable => {
                if !vars::boolean(&value)? && self.fill.cacheability.is_uncacheable() {
                    self.log.put(Tag::VclError, b"Ignoring attempt to reset beresp.uncacheable");
                } else if vars::boolean(&value)? {
                    self.fill.cacheability.refuse();
                }
                // The lives are logged whatever was set, as varnishd does.
                self.set_life(&Value::Duration(0.0), |_, _| ())?;
            }
            other => return Err(vars::misplaced(other)),
        }
        Ok(())
    }

    fn unset(&mut self, var: Var) -> Result<(), VclFailure> {
        match var {
            Var::BerespTags => return self.set_tags(b""),
            Var::BereqConnectTimeout => self.ask.limits.connect = None,
            Var::BereqFirstByteTimeout => self.ask.limits.first_byte = None,
            Var::BereqBetweenBytesTimeout => self.ask.limits.between_bytes = None,
            Var::BereqBody => {
                if let BereqBody::Lent(lent) = std::mem::replace(&mut self.ask.body, BereqBody::None) {
                    lent.give_back();
                }
                BEREQ.unset(&mut self.ask.head, &mut self.log, message::names::CONTENT_LENGTH);
                self.ask.head.unset(message::names::TRANSFER_ENCODING);
            }
            other => return Err(vars::misplaced(other)),
        }
        Ok(())
    }

    fn is_traced(&mut self) -> bool {
        vars::is_traced(self.requester.trace, &self.params, &self.log)
    }

    fn body(&mut self, data: &[u8], append: bool) -> Result<(), VclFailure> {
        self.failure.made.write(data, append);
        Ok(())
    }

    fn log(&mut self) -> &mut TxnLog {
        &mut self.log
    }

    fn hash_data(&mut self, _data: Option<&[u8]>) {
        // The compiler allows it in vcl_hash only.
    }

    fn pass_for(&mut self, seconds: f64) {
        (self.fill.object.times.ttl, self.fill.object.times.grace, self.fill.object.times.keep) = (seconds, 0.0, 0.0);
        let origin = self.engine.real_of(self.fill.object.times.t_origin).0;
        self.log.putf(Tag::Ttl, format_args!("HFP {seconds:.0} 0 0 {origin:.0} uncacheable"));
    }

    fn rfc_ttl(&mut self) -> Result<(), VclFailure> {
        self.take_lives();
        Ok(())
    }

    fn kept_body(&mut self, piece: &mut dyn FnMut(&[u8])) -> bool {
        let BereqBody::Cached(pieces) = &self.ask.body else { return false };
        pieces.iter().for_each(|buf| piece(buf));
        true
    }

    fn injected_filters(&mut self) -> Option<&mut filters::InjectedFilters> {
        Some(self.fill.settings.filters.injected())
    }

    fn slice(&mut self) -> Result<bool, VclFailure> {
        Ok(self.enable_slices())
    }

    fn fast_304(&mut self) -> Result<(), VclFailure> {
        if let FetchKind::Refresh(refresh) = &mut self.kind {
            refresh.keeps_head = true;
        }
        Ok(())
    }

    fn is_fast_304(&mut self) -> bool {
        matches!(&self.kind, FetchKind::Refresh(refresh) if refresh.keeps_head)
    }

    fn ban(&mut self, spec: &[u8]) -> Result<(), String> {
        self.engine.ban_everywhere(&mut self.vcl.invalidations, spec)
    }

    fn clock(&self) -> &Clock {
        &self.engine.clock
    }

    fn task(&mut self) -> &mut Privates {
        &mut self.vcl.task
    }

    fn rollback(&mut self, id: HeadId) -> Result<(), VclFailure> {
        match id {
            HeadId::Bereq => {
                self.end_unread();
                self.ask.head.copy_from(&self.ask.original);
                self.fill.settings.filters.reset();
                Ok(())
            }
            HeadId::Req | HeadId::ReqTop | HeadId::Beresp | HeadId::Obj | HeadId::Resp => {
                Err(VclFailure::new("std.rollback() must be called with bereq on the backend side"))
            }
        }
    }

    fn random(&mut self) -> f64 {
        self.engine.vcls.random.next()
    }

    fn proxy_tlvs(&mut self) -> Option<Vec<u8>> {
        self.requester.sess.ends.proxy_tlvs()
    }

    fn tls(&mut self) -> Option<&tls::HandshakeInfo> {
        self.ask.link.as_ref()?.conn.tls()
    }

    fn cache_req_body(&mut self, _limit: u64) -> Result<VclWait<bool>, VclFailure> {
        Err(VclFailure::new("req.body can only be cached in vcl_recv{}"))
    }

    fn may_invalidate(&self) -> Result<(), VclFailure> {
        self.engine.may_invalidate()
    }

    fn purge(&mut self, _ttl: f64, _grace: Option<f64>, _keep: Option<f64>) -> Result<i64, VclFailure> {
        Err(VclFailure::new("purge can only happen in vcl_hit{} or vcl_miss{}"))
    }

    fn purge_tags(&mut self, keys: &[&[u8]], soft: bool) -> Result<VclWait<i64>, VclFailure> {
        self.engine.purge_tags_everywhere(&mut self.vcl.invalidations, self.fill.busy.as_deref(), keys, soft)
    }

    fn add_tags(&mut self, keys: &[&[u8]]) -> Result<(), VclFailure> {
        if self.fill.object.keys.len() + keys.len() > MAX_TAGS {
            return Err(VclFailure::new(format!("an object has no more than {MAX_TAGS} keys")));
        }
        self.fill.object.keys.extend(keys.iter().map(|key| Box::from(*key)));
        Ok(())
    }

    fn healthy(&mut self, director: &BackendRef) -> bool {
        director.healthy_for(&self.choice()).ok
    }

    fn store(&mut self, name: &[u8], property: StoreProperty) -> Value {
        self.engine.store_property(name, property)
    }

    fn resolve(&mut self, director: &BackendRef) -> Option<BackendRef> {
        self.choose(director).map(|backend| backend as BackendRef)
    }

    fn has_store(&mut self, name: &[u8]) -> bool {
        self.engine.store_named(name).is_some()
    }
}

impl Bereq {
    /// Seconds from the object's origin to now, as VCL's TTL counts them.
    fn age(&self) -> f64 {
        // An object from the future would never be stale.
        self.log.last().since(self.fill.object.t_origin).max(0.0)
    }

    fn set_life(&mut self, value: &Value, change: impl FnOnce(&mut ObjectTimes, f64)) -> Result<(), VclFailure> {
        let Value::Duration(seconds) = value else { return Err(vars::wrong(value)) };
        change(&mut self.fill.object.times, *seconds);
        let (times, origin) = (self.fill.object.times, self.fill.object.t_origin.0);
        let word = if self.fill.cacheability.is_uncacheable() { "uncacheable" } else { "cacheable" };
        let (ttl, grace, keep) = (times.ttl, times.grace, times.keep);
        let mut record = self.log.record(Tag::Ttl);
        record.text("VCL").sp_whole(ttl).sp_whole(grace).sp_whole(keep).sp_whole(origin).text(" ").text(word);
        Ok(())
    }

    fn storage_value(&self, var: Var) -> Value {
        let name = self.fill.settings.storage.as_ref().map(|store| store.name());
        if var == Var::BerespStorage {
            return Value::Stevedore(name.map(Text::from));
        }
        Value::String(name.map(|name| Text::from(format!("storage.{name}"))))
    }

    fn store_of(&self, name: Option<Text>) -> Option<Arc<Store>> {
        self.engine.store_named(&name?).cloned()
    }

    fn choice(&mut self) -> DirectorChoice<'_> {
        DirectorChoice {
            sess: &self.requester.sess,
            head: &self.ask.head,
            url: self.ask.head.url(),
            task: &self.vcl.task,
            digest: &self.fill.digest.0,
            identity: self.requester.client_identity.as_ref(),
            identity_text: OnceCell::new(),
            is_bereq: true,
            log: RefCell::new(&mut self.log),
        }
    }

    fn choose(&mut self, director: &BackendRef) -> Option<Arc<Backend>> {
        director.resolve(&self.choice())
    }

    pub(super) fn find_backend(&mut self) -> Option<Arc<Backend>> {
        let director = self.ask.director.take();
        let found = reach::find(director.as_ref(), &self.choice());
        self.ask.director = director;
        found
    }
}
