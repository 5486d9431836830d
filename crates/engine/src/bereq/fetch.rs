// SPDX-License-Identifier: BSD-2-Clause
//! `vcl_backend_fetch`, the backend's answer, what RFC 9111 makes of it, `vcl_backend_response`.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use backend::{
    Backend, BackendConn, BackendFault, BodyStatus, ConnectOpts, OutgoingBody, OutgoingRequest, announced_length,
};
use cache::ObjectTimes;
use message::freshness::{self, Defaults, Freshness};
use message::ttl_rules::{self, TtlRules};
use message::{Head, list, names, range};
use params::negative_ttl;
use shm::vsl::num::dec;
use tables::Compat;
use tables::close::SessClose;
use tables::dialects::Dialect;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;
use tables::vclsubs::{BackendFetchAction, BackendResponseAction};

use super::wire::{BackendWait, Failure};
use super::{Bereq, BereqBody, FetchStep, OriginExchange, reach};
use crate::bereq::FetchMode;
use crate::httplog::{BEREQ, BERESP};
use crate::loops::CDN_LOOP;
use crate::synthetic::SynthOrder;

/// Nobody waits for this fetch any more.
pub(super) const GONE: &str = "client gone";

impl Bereq {
    /// Awaits `work`; `None` when nobody needs this fetch before it is done. Only the fetch of a pass can be unwanted, and
    /// not when it may change something: what a client sends and doesn't wait for is done all the same, unless it took that back by a reset.
    pub(crate) fn unless_unwanted<T>(&mut self, work: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
        let may_end = self.may_end();
        async move {
            let mut work = pin!(work);
            poll_fn(|cx| match work.as_mut().poll(cx) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending if may_end => self.busy().poll_unwanted(cx).map(|()| None),
                Poll::Pending => Poll::Pending,
            })
            .await
        }
    }

    /// True if the fetch is given up when its client goes.
    pub(super) fn may_end(&self) -> bool {
        self.fill.cacheability.is_uncacheable()
            && (self.requester.can_be_reset || matches!(self.ask.head.method(), b"GET" | b"HEAD"))
    }

    /// Announces that a method with a body has none this time, as release 9 does: some servers insist on it (RFC 9110 8.6).
    fn say_empty(&mut self) {
        if self.params.compat() == Compat::V7_1 || !matches!(self.ask.body, BereqBody::None | BereqBody::Gone) {
            return;
        }
        match self.ask.head.method() {
            b"GET" | b"HEAD" | b"DELETE" | b"OPTIONS" | b"TRACE" => {
                BEREQ.unset(&mut self.ask.head, &mut self.log, names::CONTENT_LENGTH);
            }
            _ => self.count_lost(|this| BEREQ.force(&mut this.ask.head, &mut this.log, names::CONTENT_LENGTH, b"0")),
        }
    }

    pub(super) async fn start_fetch(&mut self) -> FetchStep {
        let stores = self.engine.cache.stores();
        self.fill.settings.storage =
            Some(if self.fill.cacheability.is_uncacheable() { stores.transient() } else { stores.next() }.clone());
        if self.ask.tries.retries > 0 {
            BEREQ.unset(&mut self.ask.head, &mut self.log, names::X_VARNISH);
        }
        let id = dec(self.log.vxid().log_id());
        self.count_lost(|this| BEREQ.append(&mut this.ask.head, &mut this.log, names::X_VARNISH, &[id.as_bytes()]));
        self.say_empty();
        match self.run_vcl().await {
            BackendFetchAction::Fetch => {}
            BackendFetchAction::Error(status) => return self.error_by_vcl(status),
            BackendFetchAction::Abandon => return self.abandon("given up in vcl_backend_fetch"),
            BackendFetchAction::Fail => return self.fail_by_vcl("given up in vcl_backend_fetch"),
        }
        self.ask_kind();
        self.mark("Fetch");
        self.ask.times.sent = self.log.last();
        let mut answered = match self.ask_owner().await {
            true => Ok(()),
            false if self.ask.peer.warmer.is_some() => return FetchStep::Fail("no peer has it"),
            false => self.ask_backend().await,
        };
        if answered.is_ok() && self.requester.client.early.is_some() {
            answered = self.ask_not_too_early().await;
        }
        if let Some(place) = &self.requester.turn.worker {
            place.answered();
        }
        let now = self.engine.clock.real();
        self.ask.times.received = now;
        self.log.timestamp("Beresp", now);
        if answered.is_err() {
            if !self.busy().is_wanted() {
                return FetchStep::Fail(GONE);
            }
            return FetchStep::Error;
        }
        BERESP.log_response(&self.beresp, &mut self.log);
        self.learn_upload();
        if self.fill.rfc9111 {
            self.invalidate().await;
        }
        if let Err(step) = self.judge() {
            return step;
        }
        let verdict = if self.kind.old_head().is_some() { self.ask_refresh().await } else { Ok(()) };
        self.note_fetch_time();
        match verdict {
            Ok(()) => self.after_response().await,
            Err(step) => step,
        }
    }

    /// Tells the cache what the object costs: the time from the request to the head of the response.
    fn note_fetch_time(&mut self) {
        let Some(busy) = &self.fill.busy else { return };
        let took = self.ask.times.received.since(self.ask.times.sent);
        let took = Duration::try_from_secs_f64(took).unwrap_or_default();
        busy.note_fetch_time(took, self.kind.kept_object());
    }

    /// Chooses a backend and exchanges heads with it; a stale pooled connection gets one more try.
    pub(crate) async fn ask_backend(&mut self) -> Result<(), ()> {
        // An earlier exchange, with a peer or too early, may have left its own.
        (self.ask.tries.status, self.failure.cause) = (0, None);
        let Some(backend) = self.find_backend() else {
            self.failure.cause = Some(Box::new(reach::cause_of_none(self.ask.director.is_some())));
            return Err(());
        };
        self.count_lost(|this| reach::give_host(&backend, &mut this.ask.head, &mut this.log));
        self.sign(&backend)?;
        self.ask.backend = Some(backend.clone());
        self.exchange_with(&backend).await
    }

    pub(super) async fn exchange_with(&mut self, backend: &Arc<Backend>) -> Result<(), ()> {
        let mut new_connection = false;
        loop {
            let has_body = matches!(self.ask.body, BereqBody::Lent(_) | BereqBody::Cached(_));
            let no_resend =
                has_body || !self.ask.tries.reconnects || !matches!(self.ask.head.method(), b"GET" | b"HEAD");
            let opts = ConnectOpts { new_connection, no_resend, ..ConnectOpts::default() };
            let conn = match backend.idle(&opts) {
                Some(conn) => {
                    // That took no time.
                    self.log.timestamp("Connected", self.log.last());
                    conn
                }
                // Boxed: it is large, and rare.
                None => Box::pin(self.connect(backend, opts)).await?,
            };
            conn.opened(|parts| self.log.put_parts(Tag::BackendOpen, parts));
            let is_own = self.mark_loop(&conn);
            let reused = conn.is_reused();
            self.ask.link = Some(OriginExchange::new(conn));
            if matches!(self.ask.body, BereqBody::Gone) {
                self.log.put(Tag::VclError, b"Uncached req.body can only be consumed once.");
                self.fetch_error("req.body is gone");
                self.blame(ProxyError::ProxyConfigurationError, "the request's body can be sent only once");
                self.end_link(Some(SessClose::RxJunk));
                return Err(());
            }
            let Err(failure) = self.exchange().await else {
                self.ask.tries.status = self.beresp.status();
                match is_own && self.beresp.is_status(508) {
                    true => backend.fails(BackendFault::Loop),
                    false => backend.answers(),
                }
                return Ok(());
            };
            self.end_link(Some(SessClose::RxJunk));
            let is_worth_it = match failure {
                Failure::Refused => true,
                Failure::Early(_) => reused && self.ask.is_repeatable(),
                Failure::Late(_) | Failure::Aborted => false,
            };
            let may_reconnect = self.ask.tries.reconnects && !self.ask.has_used_body();
            if !is_worth_it || new_connection || !may_reconnect {
                match failure.fault() {
                    Some(fault) => {
                        self.blame_backend(fault);
                        backend.fails(fault);
                    }
                    None => self.blame(ProxyError::HttpRequestError, "the request's body broke off"),
                }
                return Err(());
            }
            self.engine.main.backend_retry.inc();
            new_connection = true;
        }
    }

    /// Marks a request that goes to one of our own listeners. Whether it does.
    fn mark_loop(&mut self, conn: &BackendConn) -> bool {
        let mark = || {
            self.engine.fetches.loops.mark(
                conn,
                &self.fill.digest,
                self.requester.rounds,
                self.requester.mode == FetchMode::Pass,
            )
        };
        let mark = self.params.loop_detection.then(mark).flatten();
        let Some(mark) = mark else { return false };
        let is_marked =
            self.ask.head.iter().any(|field| field.is(CDN_LOOP.as_bytes()) && field.value() == mark.as_bytes());
        if !is_marked {
            self.count_lost(|this| BEREQ.append(&mut this.ask.head, &mut this.log, CDN_LOOP, &[mark.as_bytes()]));
        }
        true
    }

    /// The fields that the backend wants in each request, as VCL left that.
    fn sign(&mut self, backend: &Backend) -> Result<(), ()> {
        let Some(signer) = backend.signer() else { return Ok(()) };
        // The head as it will be sent, and a body that isn't the kept one.
        let is_filtered = self.open_body_filters().is_some();
        let body = match &self.ask.body {
            BereqBody::None => OutgoingBody::None,
            BereqBody::Cached(_) if is_filtered => OutgoingBody::Streams,
            BereqBody::Cached(pieces) => OutgoingBody::Kept(pieces.iter().map(|piece| &piece[..]).collect()),
            BereqBody::Lent(_) | BereqBody::Gone => OutgoingBody::Streams,
        };
        let fields = signer.0.fields(&OutgoingRequest {
            method: self.ask.head.method(),
            url: self.ask.head.url(),
            fields: self.ask.head.iter().map(|field| (field.name(), field.value())).collect(),
            body,
            now: self.engine.clock.real(),
        });
        let fields = fields.map_err(|reason| {
            self.fetch_error(&reason);
            self.blame(ProxyError::ProxyConfigurationError, "the request can't be signed");
        })?;
        for (name, value) in fields {
            self.count_lost(|this| BEREQ.force(&mut this.ask.head, &mut this.log, &name, value.as_bytes()));
        }
        Ok(())
    }

    async fn connect(&mut self, backend: &Backend, opts: ConnectOpts<'_>) -> Result<BackendConn, ()> {
        let ends = crate::vars::proxy_ends(&self.requester.sess);
        let opts = ConnectOpts { limits: self.ask.limits.set(self.params.compat()), ends, ..opts };
        self.log.rest();
        let mut wait = BackendWait::default();
        wait.begin(self);
        let connected = self.unless_unwanted(backend.connect(&opts)).await;
        wait.end(self);
        let Some(connected) = connected else {
            self.fetch_error(GONE);
            return Err(());
        };
        reach::connected(connected, &self.engine.clock, &mut self.log)
            .map_err(|error| self.blame_backend(error.fault()))
    }

    /// Interprets the response: sets its times, and completes a 304. `Err` is the step to go to instead of VCL.
    fn judge(&mut self) -> Result<(), FetchStep> {
        self.judge_kind()?;
        if let Some(link) = &mut self.ask.link
            && self.ask.head.get(names::CONNECTION).is_some_and(|value| list::has(value, b"close"))
        {
            link.close.get_or_insert(SessClose::ReqClose);
        }
        Ok(())
    }

    pub(super) fn complete_head(&mut self) {
        if !self.beresp.has(names::DATE) {
            let date = message::date::format(self.ask.times.received);
            self.count_lost(|this| BERESP.append(&mut this.beresp, &mut this.log, names::DATE, &[&date]));
        }
        self.count_lost(|this| this.beresp.collect(names::CACHE_CONTROL).map(drop));
        self.count_lost(|this| this.beresp.collect(names::VARY).map(drop));
    }

    pub(super) fn take_lives(&mut self) {
        self.take_lives_of_fields();
        self.take_owner_lives();
    }

    fn take_lives_of_fields(&mut self) {
        if self.fill.rfc9111 && !self.fill.cacheability.is_uncacheable() {
            return self.take_rfc9111_lives();
        }
        let now = self.ask.times.received;
        let fresh = if self.fill.cacheability.is_uncacheable() {
            freshness::passed(&self.beresp, now)
        } else {
            let params = &self.params;
            let defaults = Defaults {
                ttl: params.default_ttl.as_secs_f64(),
                grace: params.default_grace.as_secs_f64(),
                keep: params.default_keep.as_secs_f64(),
                clock_skew: f64::from(params.clock_skew),
                rules: ttl_rules(self.vcl.loaded().program.dialect),
            };
            let mut fresh = freshness::freshness(&self.beresp, now, &defaults);
            self.log_freshness(&fresh);
            self.shorten_negative(&mut fresh);
            fresh
        };
        self.fill.object.t_origin = fresh.t_origin;
        self.fill.object.times = ObjectTimes {
            t_origin: self.engine.mono_of(fresh.t_origin),
            ttl: fresh.ttl,
            grace: fresh.grace,
            keep: fresh.keep,
        };
    }

    /// Shortens the lifetime as `negative_ttl` says, for a response that doesn't give one itself.
    pub(super) fn shorten_negative(&mut self, fresh: &mut Freshness) {
        let Some(ttl) = negative_ttl::of(&self.params.negative_ttl, self.beresp.status()) else { return };
        if freshness::is_said(&self.beresp) {
            return;
        }
        (fresh.ttl, fresh.grace, fresh.keep) = (ttl, 0.0, 0.0);
        let mut record = self.log.record(Tag::Ttl);
        record.text("STATUS").sp_whole(ttl).sp_whole(0.0).sp_whole(0.0).sp_whole(self.ask.times.received.0);
        record.text(" cacheable");
    }

    /// `RFC 120 10 0 1000 1000 1000 0 0 cacheable`
    pub(super) fn log_freshness(&mut self, fresh: &Freshness) {
        let now = self.ask.times.received.0;
        let mut record = self.log.record(Tag::Ttl);
        record.text("RFC").sp_whole(fresh.ttl).sp_whole(fresh.grace).sp_whole(fresh.keep).sp_whole(now);
        record.sp_whole(fresh.t_origin.0).sp_whole(fresh.date).sp_whole(fresh.expires);
        record.sp_num(u64::from(fresh.max_age)).text(" cacheable");
    }

    /// Ends the exchange: VCL wants something else than the response.
    pub(super) fn without_response(&mut self) -> &mut Self {
        self.end_link(Some(SessClose::RespClose));
        self
    }

    /// The step after VCL has asked for another try instead of the response.
    pub(super) fn retry_response(&mut self) -> FetchStep {
        self.end_unread();
        if self.may_retry() {
            return FetchStep::Retry;
        }
        self.log.put(Tag::VclError, b"Too many retries, delivering 503");
        self.blame_too(ProxyError::ProxyConfigurationError, "max_retries");
        FetchStep::Error
    }

    /// The request whose range a response has to fit: up to 7.7 the client's, in 8.0 and later what VCL made of it.
    fn range_asked_for(&self) -> &Head {
        match self.params.compat() {
            Compat::V7_1 => &self.ask.original,
            Compat::V9 => &self.ask.head,
        }
    }

    async fn after_response(&mut self) -> FetchStep {
        const GIVEN_UP: &str = "given up in vcl_backend_response";
        self.preset();
        let action: BackendResponseAction = self.run_vcl().await;
        self.note_uncacheable(action == BackendResponseAction::Pass);
        self.decided(action == BackendResponseAction::Deliver);
        if let Some(link) = &mut self.ask.link
            && self.beresp.get(names::CONNECTION).is_some_and(|value| list::has(value, b"close"))
        {
            link.close.get_or_insert(SessClose::RespClose);
        }
        if self.params.http_range_support
            && !self.is_range_checked()
            && let announced = self.beresp.get(names::CONTENT_RANGE).and_then(|_| self.announced())
            && let Err(mismatch) = range::check_response(self.range_asked_for(), &self.beresp, announced)
        {
            self.log.put(Tag::Error, mismatch.0.as_bytes());
            self.blame(ProxyError::HttpProtocolError, "Content-Range is not what was asked for");
            self.end_link(Some(SessClose::RespClose));
            if let BackendResponseAction::Error(status) = action {
                self.failure.made.ask(SynthOrder::by_vcl(status, self.ask.tries.has_status()));
            }
            return FetchStep::Error;
        }
        match action {
            BackendResponseAction::Deliver if self.fill.rfc9111 => {
                if let Some(step) = self.keep_to_rfc9111() {
                    return step;
                }
            }
            BackendResponseAction::Deliver => {}
            BackendResponseAction::Pass => self.fill.cacheability.pass_from_now_on(),
            BackendResponseAction::Error(status) => return self.without_response().error_by_vcl(status),
            BackendResponseAction::Retry => return self.retry_response(),
            BackendResponseAction::Abandon => return self.without_response().abandon(GIVEN_UP),
            BackendResponseAction::Fail => return self.without_response().fail_by_vcl(GIVEN_UP),
        }
        self.keep_to_owner();
        if let Err(step) = self.settle() {
            return step;
        }
        if self.params.early_hints != "off" && !self.fill.cacheability.is_uncacheable() {
            self.engine.fetches.hints.remember(&self.fill.digest, &self.beresp);
        }
        self.mark("Process");
        self.keep_esi_off_events();
        if self.fill.settings.do_esi {
            self.fill.settings.do_stream = false;
        }
        self.kind.body_step()
    }

    pub(crate) fn has_body(&self) -> bool {
        self.ask.link.as_ref().is_some_and(|link| link.body != BodyStatus::None)
    }

    /// The body's length as the backend announced it.
    pub(crate) fn announced(&self) -> Option<u64> {
        announced_length(&self.beresp)
    }
}

/// The TTL rules of the release that a VCL was written for; `None` is today's language.
const fn ttl_rules(dialect: Option<Dialect>) -> &'static TtlRules {
    match dialect {
        None => &ttl_rules::TODAY,
        Some(Dialect::V30) => &ttl_rules::V30,
        Some(Dialect::V20 | Dialect::V21) => &ttl_rules::V2X,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dialect_has_the_rules_of_its_release() {
        let rules =
            [None, Some(Dialect::V30), Some(Dialect::V21), Some(Dialect::V20)].map(|dialect| *ttl_rules(dialect));
        assert_eq!(rules, [ttl_rules::TODAY, ttl_rules::V30, ttl_rules::V2X, ttl_rules::V2X]);
    }
}
