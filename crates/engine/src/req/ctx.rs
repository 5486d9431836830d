// SPDX-License-Identifier: BSD-2-Clause
//! The client side as VCL sees it.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use base::{Clock, Real};
use cache::{Busy, ObjRef};
use filters::FilterList;
use message::incremental::Forwarding;
use message::{Head, HeadLimits};
use params::Params;
use shm::vsl::TxnLog;
use tables::Compat;
use tables::counters::Main;
use tables::tags::Tag;
use tables::vclsubs::Method;
use tables::vclvars::{HeadId, Var};
use vrt::ctx::{RapidResets, StoreProperty, VclWait};
use vrt::value::{BackendRef, Text};
use vrt::{Ctx, Machine, Privates, RunOutcome, Value, VclFailure};

use super::Req;
use super::bots::{self, BotView};
use super::esi::EsiContext;
use super::filter_list::FilterFacts;
use super::settings::{BackendHint, BodyKey, ReqSettings};
use super::state::{ReqAsk, ReqClient, Response};
use super::tenant;
use super::verdict::{FoundKind, ReqVerdict};
use crate::aux_attrs::AuxAttrs;
use crate::bereq::body_filters;
use crate::bereq::pipe::PipeBereq;
use crate::choice::DirectorChoice;
use crate::engine::Engine;
use crate::reqbody::{BeyondLimit, ReqBody};
use crate::sess::SessTimeouts;
use crate::transport::{ReqBodyError, Transport};
use crate::vcl_run::{VclRun, VclSide};
use crate::{pool, synthetic, vars};

/// The parts of a request that VCL sees and may change, with what the step lends.
struct ReqView<'a, 'l> {
    log: &'a mut TxnLog,
    client: &'a mut ReqClient,
    ask: &'a mut ReqAsk,
    resp: &'a mut Response,
    settings: &'a mut ReqSettings,
    vcl: &'a mut VclRun,
    verdict: &'a ReqVerdict,
    esi: &'a EsiContext,
    params: &'a Params,
    method: Method,
    lent: &'a mut Lent<'l>,
    transport: &'a mut dyn Transport,
}

/// Objects that a step lends to its subroutine beside the request.
pub(crate) enum Lent<'a> {
    Nothing,
    Found {
        obj: &'a ObjRef,
        refresh: Option<&'a Busy>,
        head: &'a mut ObjHead,
    },
    Missing(&'a Busy),
    Delivered(&'a ObjRef),
    Pipe(&'a mut PipeBereq),
    /// The body, which `vcl_synth` writes.
    Body(&'a mut Vec<u8>),
}

/// The head of an object, read when VCL looks at it for the first time.
#[derive(Default)]
pub(crate) struct ObjHead(Option<Head>);

impl ObjHead {
    fn of(&mut self, obj: &ObjRef, limits: HeadLimits) -> Option<&Head> {
        if self.0.is_none() {
            let [mut head] = pool::heads(limits);
            if head.load_from(obj.head()).is_err() {
                pool::leave_heads([&mut head]);
                return None;
            }
            self.0 = Some(head);
        }
        self.0.as_ref()
    }
}

impl Drop for ObjHead {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|head| pool::leave_heads([head]));
    }
}

impl<'a> Lent<'a> {
    /// The object, in `vcl_hit` and `vcl_deliver`.
    fn obj(&self) -> Option<&'a ObjRef> {
        match self {
            Lent::Found { obj, .. } | Lent::Delivered(obj) => Some(obj),
            Lent::Nothing | Lent::Missing(_) | Lent::Pipe(_) | Lent::Body(_) => None,
        }
    }

    /// The right to fetch, which mustn't be invalidated by the one who has it.
    fn busy(&self) -> Option<&'a Busy> {
        match self {
            Lent::Found { refresh, .. } => *refresh,
            Lent::Missing(busy) => Some(busy),
            Lent::Nothing | Lent::Delivered(_) | Lent::Pipe(_) | Lent::Body(_) => None,
        }
    }

    fn bereq(&mut self) -> Option<&mut PipeBereq> {
        match self {
            Lent::Pipe(bereq) => Some(bereq),
            Lent::Nothing | Lent::Found { .. } | Lent::Missing(_) | Lent::Delivered(_) | Lent::Body(_) => None,
        }
    }
}

/// A request while its VCL runs, with the way to its client.
pub(super) struct ReqVcl<'a, 'l> {
    pub req: &'a mut Req,
    pub transport: &'a mut dyn Transport,
    pub lent: Lent<'l>,
}

impl VclSide for ReqVcl<'_, '_> {
    fn engine(&self) -> &Engine {
        self.req.engine()
    }

    fn vcl_and_log(&mut self) -> (&mut VclRun, &mut TxnLog) {
        (&mut self.req.vcl, &mut self.req.log)
    }

    fn is_traced(&self) -> bool {
        vars::is_traced(self.req.settings.trace, &self.req.params, &self.req.log)
    }

    fn advance(&mut self, machine: &mut Machine, method: Method) -> RunOutcome {
        let Req { log, client, ask, resp, params, vcl, settings, verdict, esi, _open } = &mut *self.req;
        let (lent, transport) = (&mut self.lent, &mut *self.transport);
        machine.run(&mut ReqView {
            log,
            client,
            ask,
            resp,
            settings,
            vcl,
            verdict,
            esi,
            params,
            method,
            lent,
            transport,
        })
    }

    async fn wait<F: Future>(&mut self, future: F) -> F::Output {
        let done = self.req.drive(self.transport, future).await;
        if self.req.client.body.take_kept_for_vcl() {
            self.req.end_reading();
            if self.req.client.body.is_cached() {
                let bytes = self.req.client.body.bytes().unwrap_or(0);
                self.req.engine().main.transit_stored.add(bytes);
            }
        }
        done
    }

    fn is_trial(&self) -> bool {
        self.req.client.trial.is_some()
    }
}

impl Ctx for ReqView<'_, '_> {
    fn compat(&self) -> Compat {
        self.params.compat()
    }

    fn head(&mut self, id: HeadId) -> Option<&Head> {
        match id {
            HeadId::Req => Some(&self.ask.head),
            HeadId::ReqTop => Some(self.esi.top().map_or(&self.ask.head, |top| &top.head)),
            HeadId::Resp => Some(&self.resp.head),
            HeadId::Obj => self.object_head(),
            HeadId::Bereq => self.lent.bereq().map(|bereq| &bereq.head),
            HeadId::Beresp => None,
        }
    }

    fn edit(&mut self, id: HeadId) -> Option<(&mut Head, &mut TxnLog)> {
        match id {
            HeadId::Req => Some((&mut self.ask.head, &mut *self.log)),
            HeadId::Resp => Some((&mut self.resp.head, &mut *self.log)),
            HeadId::Bereq => self.lent.bereq().map(|bereq| (&mut bereq.head, &mut bereq.log)),
            HeadId::ReqTop | HeadId::Obj | HeadId::Beresp => None,
        }
    }

    fn get(&mut self, var: Var) -> Value {
        let timeouts = self.client.sess.timeouts.get();
        match var {
            Var::Req => Value::Http(HeadId::Req),
            Var::Resp => Value::Http(HeadId::Resp),
            Var::ReqBackendHint => Value::Backend(self.settings.director(self.vcl.loaded())),
            Var::ReqCanGzip => Value::Bool(message::Coding::Gzip.is_accepted_by(&self.ask.head)),
            Var::ReqEsi => Value::Bool(!self.settings.disable_esi),
            Var::ReqClass => Value::String(Some(self.settings.class.clone().unwrap_or_else(|| Text::from("")))),
            Var::ReqClassState => Value::text(self.client.class_state.word()),
            Var::ReqTenant => Value::text(tenant::name_of(self.settings, self.ask, self.params).into_owned()),
            Var::ReqBotBudget => Value::Duration(self.bot_view().account().1),
            Var::ReqBotClass => Value::text(self.bot_view().class().word()),
            Var::ReqBotCost => Value::Duration(self.bot_view().account().0),
            Var::ReqBotNetwork => Value::Int(self.settings.bot_network.into()),
            Var::ReqBotVerified => {
                Value::String(Some(self.settings.verified_bot.clone().unwrap_or_else(|| Text::from(""))))
            }
            Var::ReqEsiLevel => Value::Int(i64::from(self.esi.level())),
            Var::ReqGrace => Value::Duration(self.settings.lookup.max_grace.unwrap_or(-1.0)),
            Var::ReqTtl => Value::Duration(self.settings.lookup.max_ttl.unwrap_or(-1.0)),
            Var::ReqHash => Value::Blob(Some(vrt::value::Blob::new(self.ask.digest.0))),
            Var::ReqHashAlwaysMiss => Value::Bool(self.settings.lookup.always_miss),
            Var::ReqHashIgnoreBusy => Value::Bool(self.settings.lookup.ignore_busy),
            Var::ReqHashIgnoreVary => Value::Bool(self.settings.lookup.ignore_vary),
            Var::ReqHashBody => Value::Bool(self.settings.body_key.applies_to(self.ask.head.method())),
            Var::ReqIsHitmiss => Value::Bool(self.verdict.found() == FoundKind::HitForMiss),
            Var::ReqIsHitpass => Value::Bool(self.verdict.found() == FoundKind::HitForPass),
            Var::ReqRfc9111 => Value::Bool(self.settings.rfc9111),
            Var::ReqFilters => match &self.settings.body_filters {
                Some(listed) => Value::String(Some(listed.clone())),
                None => Value::text(""),
            },
            Var::ReqTrace => Value::Bool(vars::is_traced(self.settings.trace, self.params, self.log)),
            Var::ReqRestarts => Value::Int(i64::from(self.ask.restarts)),
            Var::ReqStorage => Value::Stevedore(self.settings.storage.clone()),
            Var::ReqTime => Value::Time(self.ask.t_req.0),
            Var::ReqTopTime => Value::Time(self.esi.top().map_or(self.ask.t_req, |top| top.t_req).0),
            // A fragment's is what varnishd calls its includes.
            Var::ReqTransport => {
                Value::text(if self.esi.level() > 0 { "ESI_INCLUDE" } else { self.client.sess.version.get() })
            }
            Var::ReqXid => vars::id(self.log.vxid()),
            Var::RespTime => Value::Time(self.t_resp().0),
            Var::RespDoEsi => Value::Bool(!self.settings.disable_esi),
            Var::RespFilters => match self.resp.filters.list() {
                Some(listed) => Value::String(Some(listed.clone())),
                None => Value::text(self.filter_list().as_bytes()),
            },
            Var::RespIsStreaming => Value::Bool(self.lent.obj().is_some_and(|obj| obj.body_len().is_none())),
            Var::SessIdleSendTimeout => Value::limit(timeouts.idle_send),
            Var::SessSendTimeout => Value::limit(timeouts.send),
            Var::SessTimeoutIdle => Value::limit(timeouts.idle),
            Var::SessTimeoutLinger => Value::limit(timeouts.linger),
            other => self.get_elsewhere(other),
        }
    }

    fn filters_open(&self, var: Var) -> Result<(), VclFailure> {
        match self.resp.filters.list() {
            None => Ok(()),
            Some(_) => Err(vars::filters_fixed("resp", var)),
        }
    }

    fn set(&mut self, var: Var, value: Value) -> Result<(), VclFailure> {
        let mut timeouts = self.client.sess.timeouts.get();
        let compat = self.params.compat();
        match var {
            Var::ReqBackendHint => match value {
                Value::Backend(director) => self.settings.backend_hint = BackendHint::Set(director),
                other => return Err(vars::wrong(&other)),
            },
            // As VCL 4.0 always had it: a fragment can't switch itself off. `resp.do_esi` can.
            Var::ReqEsi if self.esi.level() > 0 => {}
            Var::ReqEsi => self.settings.disable_esi = !vars::boolean(&value)?,
            Var::RespDoEsi => {
                self.filters_open(var)?;
                self.settings.disable_esi = !vars::boolean(&value)?;
                return Ok(());
            }
            Var::ReqGrace => self.settings.lookup.max_grace = Some(vars::seconds(&value)?),
            Var::ReqTtl => self.settings.lookup.max_ttl = Some(vars::seconds(&value)?),
            Var::ReqHashAlwaysMiss => self.settings.lookup.always_miss = vars::boolean(&value)?,
            Var::ReqHashIgnoreBusy => self.settings.lookup.ignore_busy = vars::boolean(&value)?,
            Var::ReqHashIgnoreVary => self.settings.lookup.ignore_vary = vars::boolean(&value)?,
            Var::ReqHashBody => {
                self.settings.body_key = if vars::boolean(&value)? { BodyKey::Always } else { BodyKey::Never };
            }
            Var::ReqClass => self.settings.class = vars::text(value)?,
            Var::ReqTenant => self.settings.tenant = tenant::named(value, self.log)?,
            Var::ReqBotClass => self.settings.bot_class = bots::set_class(vars::text(value)?)?,
            Var::ReqBotNetwork => self.settings.bot_network = bots::network(&value)?,
            Var::ReqBotVerified => self.settings.verified_bot = vars::text(value)?,
            Var::ReqFilters if self.client.body.exists() && !self.client.body.is_unread() => {
                return Err(VclFailure::new("req.filters not settable: the request's body was read already"));
            }
            Var::ReqFilters => self.settings.body_filters = body_filters::listed("req.filters", value)?,
            Var::ReqTrace => self.settings.trace = Some(vars::boolean(&value)?),
            Var::ReqStorage => self.settings.storage = vars::text(value)?,
            Var::ReqRfc9111 => self.settings.rfc9111 = vars::boolean(&value)?,
            Var::ClientIdentity => self.settings.client_identity = vars::text(value)?,
            Var::RespFilters => self.resp.filters.set_list(vars::text(value)?),
            Var::SessIdleSendTimeout => timeouts.idle_send = vars::duration(&value)?,
            Var::SessSendTimeout => timeouts.send = vars::limit(compat, &value)?,
            Var::SessTimeoutIdle => timeouts.idle = vars::limit(compat, &value)?,
            Var::SessTimeoutLinger => timeouts.linger = vars::duration(&value)?,
            other => match self.lent.bereq() {
                Some(bereq) => return bereq.set(other, value),
                None => return Err(vars::misplaced(other)),
            },
        }
        self.client.sess.timeouts.set(timeouts);
        Ok(())
    }

    fn unset(&mut self, var: Var) -> Result<(), VclFailure> {
        let (mut timeouts, defaults) = (self.client.sess.timeouts.get(), SessTimeouts::new(self.params));
        match var {
            Var::ReqGrace => self.settings.lookup.max_grace = None,
            Var::ReqTtl => self.settings.lookup.max_ttl = None,
            Var::SessIdleSendTimeout => timeouts.idle_send = defaults.idle_send,
            Var::SessSendTimeout => timeouts.send = defaults.send,
            Var::SessTimeoutIdle => timeouts.idle = defaults.idle,
            Var::SessTimeoutLinger => timeouts.linger = defaults.linger,
            other => match self.lent.bereq() {
                Some(bereq) => return bereq.unset(other),
                None => return Err(vars::misplaced(other)),
            },
        }
        self.client.sess.timeouts.set(timeouts);
        Ok(())
    }

    fn is_traced(&mut self) -> bool {
        vars::is_traced(self.settings.trace, self.params, self.log)
    }

    fn body(&mut self, data: &[u8], append: bool) -> Result<(), VclFailure> {
        match self.lent {
            Lent::Body(body) => synthetic::write(body, data, append),
            Lent::Nothing | Lent::Found { .. } | Lent::Missing(_) | Lent::Delivered(_) | Lent::Pipe(_) => {
                return Err(VclFailure::new("a body is only made in vcl_synth{}"));
            }
        }
        Ok(())
    }

    fn log(&mut self) -> &mut TxnLog {
        self.log
    }

    fn hash_data(&mut self, data: Option<&[u8]>) {
        if let Some(data) = data {
            self.log.put(Tag::Hash, data);
            if let Some(trial) = &mut self.client.trial {
                trial.hashed.push(format!("\"{}\"", String::from_utf8_lossy(data)));
            }
        }
        self.ask.hasher.add(data);
    }

    fn trial(&mut self) -> Option<&mut Vec<String>> {
        self.client.trial.as_mut().map(|trial| &mut trial.would)
    }

    fn ban(&mut self, spec: &[u8]) -> Result<(), String> {
        if let Some(list) = self.trial() {
            list.push(format!("ban {}", String::from_utf8_lossy(spec)));
            return Ok(());
        }
        self.client.sess.engine.ban_everywhere(&mut self.vcl.invalidations, spec)
    }

    fn clock(&self) -> &Clock {
        &self.client.sess.engine.clock
    }

    fn task(&mut self) -> &mut Privates {
        &mut self.vcl.task
    }

    fn rollback(&mut self, id: HeadId) -> Result<(), VclFailure> {
        match id {
            HeadId::Req => {
                self.ask.head.copy_from(&self.ask.original);
                self.resp.filters.reset();
                Ok(())
            }
            HeadId::ReqTop | HeadId::Bereq | HeadId::Beresp | HeadId::Obj | HeadId::Resp => {
                Err(VclFailure::new("std.rollback() must be called with req on the client side"))
            }
        }
    }

    fn random(&mut self) -> f64 {
        self.engine().vcls.random.next()
    }

    fn late_100_continue(&mut self, late: bool) {
        self.client.body.set_late(late);
    }

    fn main_counters(&self) -> Option<&'static Main> {
        Some(self.engine().main)
    }

    fn set_ip_tos(&mut self, tos: i64) -> Result<(), VclFailure> {
        self.client.sess.tos.set(Some(tos as u32));
        Ok(())
    }

    fn peer_ids(&mut self) -> Result<(u32, u32), String> {
        self.client.sess.ends.peer_ids.ok_or_else(|| "not listening on a Unix domain socket".to_owned())
    }

    fn proxy_tlvs(&mut self) -> Option<Vec<u8>> {
        self.client.sess.ends.proxy_tlvs()
    }

    fn tls(&mut self) -> Option<&tls::HandshakeInfo> {
        self.client.sess.tls.get().map(|info| &**info)
    }

    fn rapid_resets(&mut self, limit: Option<RapidResets>) -> Option<RapidResets> {
        self.transport.rapid_resets(limit)
    }

    fn cache_req_body(&mut self, limit: u64) -> Result<VclWait<bool>, VclFailure> {
        let body = ReqBody::clone(&self.client.body);
        let store = self.settings.store_for_body(self.engine());
        let is_new = body.is_unread();
        match Forwarding::of(&self.ask.head) {
            Forwarding::Incremental => body.refuse_to_keep(ReqBodyError::Incremental),
            Forwarding::AsUsual | Forwarding::Prompt => body.keep(limit, &store, BeyondLimit::Fails),
        }
        if let Some(error) = body.failure().filter(|_| is_new) {
            // The request's head has `Incremental: ?1`: none of the body is read.
            self.log.put(Tag::FetchError, error.text().as_bytes());
        } else if is_new {
            self.log.put_parts(Tag::Storage, &[store.kind().as_str().as_bytes(), b" ", store.name().as_bytes()]);
            self.client.body.keep_for_vcl();
        }
        Ok(Box::pin(std::future::poll_fn(move |cx| body.poll_kept(cx))))
    }

    fn may_invalidate(&self) -> Result<(), VclFailure> {
        self.engine().may_invalidate()
    }

    fn purge(&mut self, ttl: f64, grace: Option<f64>, keep: Option<f64>) -> Result<i64, VclFailure> {
        let engine = self.engine();
        engine.may_invalidate()?;
        let purge = cache::Purge { ttl: Some(ttl), grace, keep };
        let now = engine.mono_of(self.ask.t_req);
        let busy = self.lent.busy();
        Ok(self.ask.purge(&self.client.sess.engine, &mut self.vcl.invalidations, busy, now, purge) as i64)
    }

    fn purge_tags(&mut self, keys: &[&[u8]], soft: bool) -> Result<VclWait<i64>, VclFailure> {
        self.client.sess.engine.purge_tags_everywhere(&mut self.vcl.invalidations, self.lent.busy(), keys, soft)
    }

    fn injected_filters(&mut self) -> Option<&mut filters::InjectedFilters> {
        Some(self.resp.filters.injected())
    }

    fn object_metadata(&mut self, filter: &str) -> Option<Vec<u8>> {
        let obj = self.lent.obj()?;
        AuxAttrs::read(obj.aux_attrs()).metadata?.by(filter).map(<[u8]>::to_vec)
    }

    fn kept_body(&mut self, piece: &mut dyn FnMut(&[u8])) -> bool {
        let body = &self.client.body;
        body.cached().iter().for_each(|buf| piece(buf));
        body.is_cached()
    }

    fn client_socket(&mut self) -> Option<sys::tcp::SocketNumber> {
        Some(self.client.sess.socket.unwrap_or(sys::tcp::SocketNumber::NONE))
    }

    fn healthy(&mut self, director: &BackendRef) -> bool {
        director.healthy_for(&self.choice()).ok
    }

    fn store(&mut self, name: &[u8], property: StoreProperty) -> Value {
        self.engine().store_property(name, property)
    }

    fn resolve(&mut self, director: &BackendRef) -> Option<BackendRef> {
        if let Some(list) = self.trial() {
            // A director's turn is one for all.
            list.push(format!("have {} choose a backend, and go on with none here", director.name()));
            return None;
        }
        let found = director.resolve(&self.choice());
        found.map(|backend| backend as BackendRef)
    }

    fn has_store(&mut self, name: &[u8]) -> bool {
        self.engine().store_named(name).is_some()
    }
}

impl ReqView<'_, '_> {
    fn bot_view(&self) -> BotView<'_> {
        BotView { client: self.client, ask: self.ask, settings: self.settings }
    }

    fn choice(&mut self) -> DirectorChoice<'_> {
        DirectorChoice {
            sess: &self.client.sess,
            head: &self.ask.head,
            url: self.ask.head.url(),
            task: &self.vcl.task,
            digest: &self.ask.digest.0,
            identity: self.settings.client_identity.as_ref(),
            identity_text: OnceCell::new(),
            is_bereq: false,
            log: RefCell::new(&mut *self.log),
        }
    }

    fn get_elsewhere(&mut self, var: Var) -> Value {
        if var == Var::ReqIsPeer {
            return Value::Bool(self.client.is_of_peer(&self.ask.original, self.esi.is_fragment(), self.log));
        }
        let of_session = vars::of_session(&self.client.sess, self.settings.client_identity.as_ref(), var);
        if let Some(value) = of_session {
            return value;
        }
        // For whom the object was fetched it has no hits, though others may have hit it by now.
        if var == Var::ObjHits
            && self.verdict.found() != FoundKind::Hit
            && self.method != Method::Hit
            && self.lent.obj().is_some()
        {
            return Value::Int(0);
        }
        let now = self.now();
        let of_object = self.lent.obj().and_then(|obj| vars::of_object(self.engine(), obj, now, var));
        match (of_object, self.lent.bereq()) {
            (Some(value), _) => value,
            (None, Some(bereq)) => bereq.get(var, self.params, &self.ask.digest),
            (None, None) => Value::Absent,
        }
    }

    fn engine(&self) -> &'_ Arc<Engine> {
        &self.client.sess.engine
    }

    /// The time with which objects' times are compared: when the request came, or in `vcl_deliver` when that began.
    fn now(&self) -> Real {
        if self.method == Method::Deliver { self.t_resp() } else { self.ask.t_req }
    }

    /// When the response was begun (`resp.time`): the clock is looked at once VCL asks for it.
    fn t_resp(&self) -> Real {
        let time = self.resp.time.get().unwrap_or_else(|| self.engine().clock.real());
        self.resp.time.set(Some(time));
        time
    }

    fn object_head(&mut self) -> Option<&Head> {
        match self.lent {
            Lent::Found { obj, head, .. } => head.of(obj, self.ask.head.limits()),
            Lent::Nothing | Lent::Missing(_) | Lent::Delivered(_) | Lent::Pipe(_) | Lent::Body(_) => None,
        }
    }

    fn filter_list(&self) -> FilterList {
        let facts = FilterFacts { head: &self.ask.head, resp: self.resp, settings: self.settings, params: self.params };
        facts.list(self.lent.obj())
    }
}
