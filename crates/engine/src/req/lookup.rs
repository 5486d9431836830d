// SPDX-License-Identifier: BSD-2-Clause
//! Lookup, and the wait for another request's fetch.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use cache::{Busy, CacheEvent, EventTag, Lookup, LookupOptions, LookupOutcome, ObjRef, Ticket};
use message::{Codings, Head};
use params::DebugBit;
use tables::no_hit::NoHit;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::reason::NoHitReason;
use super::verdict::ReqVerdict;
use super::{Req, ReqStep};
use crate::serving::Noted;
use crate::transport::Transport;

/// A request as the cache asks about it.
pub(crate) struct LookupRequest<'a> {
    head: &'a Head,
    supported: Codings,
    /// True if the values that Vary names are compared as RFC 9111 says.
    is_normalised: bool,
}

impl<'a> LookupRequest<'a> {
    /// Compares values as Varnish does.
    pub fn new(head: &'a Head, supported: Codings) -> Self {
        LookupRequest { head, supported, is_normalised: false }
    }

    /// Compares values as RFC 9111 does.
    pub fn normalised(head: &'a Head, supported: Codings) -> Self {
        LookupRequest { head, supported, is_normalised: true }
    }
}

impl cache::CacheRequest for LookupRequest<'_> {
    fn vary_values(&self, spec: &[u8], out: &mut Vec<u8>) {
        match self.is_normalised {
            true => message::rfc9111::values(spec, self.head, self.supported, out),
            false => message::vary::rekey(spec, self.head, self.supported, out),
        }
    }

    fn vary_matches(&self, spec: &[u8], values: &[u8]) -> bool {
        let _ = spec;
        match self.is_normalised {
            true => message::rfc9111::matches(values, self.head, self.supported),
            false => message::vary::matches(values, self.head, self.supported),
        }
    }

    fn url(&self) -> &[u8] {
        self.head.url()
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.head.get(name)
    }
}

impl Req {
    pub(super) fn lookup_request(&self) -> LookupRequest<'_> {
        let supported = self.params.supported_codings();
        LookupRequest { head: &self.head, supported, is_normalised: self.settings.rfc9111 }
    }

    /// VCL's settings for the lookup.
    pub(super) fn lookup_options(&self) -> LookupOptions {
        let asked = self.settings.lookup;
        let options = self.with_directives(LookupOptions { tells: self.tells_reason(), ..asked });
        let engine = self.engine();
        if engine.is_restricted() { engine.restrict(options) } else { options }
    }

    pub(super) async fn lookup(&mut self, transport: &mut dyn Transport) -> ReqStep {
        let sess = self.sess.clone();
        let engine = &sess.engine;
        // The time that the cache is asked about: that of the request, and after a wait that of its end.
        let mut now = engine.mono_of(self.t_req);
        let options = self.lookup_options();
        let mut outcome = engine.cache.lookup(&self.digest, &self.lookup_request(), now, &options);
        let (mut waited, mut deadline, mut disk_deadline) = (false, None, None);
        let mut is_partial = false;
        self.first_reader = None;
        loop {
            let mut ticket = match outcome.lookup {
                Lookup::Wait(ticket) => ticket,
                Lookup::Unfinished(mut ticket) => {
                    self.drive(transport, rt::give_way()).await;
                    self.drive(transport, &mut ticket).await;
                    outcome = engine.cache.resume(ticket, &self.lookup_request(), now, &options);
                    continue;
                }
                Lookup::Loading(mut loading) => {
                    self.log_events(&outcome.events);
                    self.read_back(&mut loading, &mut disk_deadline, transport).await;
                    outcome = engine.cache.look_on(loading, &self.lookup_request(), now, &options);
                    continue;
                }
                Lookup::Hit(ref obj) | Lookup::Grace { stale: ref obj, .. } if self.lacks(obj) => {
                    self.log_events(&outcome.events);
                    is_partial = true;
                    outcome = match outcome.lookup {
                        Lookup::Grace { stale, busy: Some(busy) } if self.settings.rfc9111 => {
                            let lookup = Lookup::MissStale { busy, stale };
                            LookupOutcome { lookup, events: Vec::new(), ..outcome }
                        }
                        _ => {
                            let wanted = self.for_what_is_missing(&options);
                            engine.cache.lookup(&self.digest, &self.lookup_request(), now, &wanted)
                        }
                    };
                    continue;
                }
                Lookup::Hit(ref obj) | Lookup::Grace { stale: ref obj, .. } if self.is_to_be_read(obj) => {
                    let obj = obj.clone();
                    // Boxed: the many hits in memory shan't have a larger future.
                    if Box::pin(self.can_read(&obj, &mut disk_deadline, transport)).await {
                        break;
                    }
                    self.log_events(&outcome.events);
                    engine.cache.lose(&obj);
                    outcome = match outcome.lookup {
                        Lookup::Grace { busy: Some(busy), .. } => {
                            LookupOutcome { lookup: Lookup::Miss(busy), events: Vec::new(), ..outcome }
                        }
                        _ => engine.cache.lookup(&self.digest, &self.lookup_request(), now, &options),
                    };
                    continue;
                }
                _ => break,
            };
            if self.would_wait_in_a_circle() {
                // Boxed: it is rare.
                return Box::pin(self.refuse_peer("crossed", transport)).await;
            }
            self.show_life(transport);
            waited = true;
            let tells = self.params.debug.has(DebugBit::Waitinglist);
            if tells {
                self.log.putf(
                    Tag::Debug,
                    format_args!("on waiting list <0x{:02x}{:02x}...>", self.digest.0[0], self.digest.0[1]),
                );
            }
            self.log.flush();
            let began = engine.clock.mono();
            let came = self.wait_for(&mut ticket, &mut deadline, transport).await;
            self.waited.busy += engine.clock.mono().since(began) as f32;
            if tells {
                self.log.put(Tag::Debug, b"off waiting list");
            }
            let Some(came) = came else { return self.end_reset() };
            if !came {
                engine.main.busy_timeout.inc();
                self.verdict = ReqVerdict::no_hit(NoHitReason::new(NoHit::Waitinglist, "waitinglist_timeout"));
                self.mark("Waitinglist");
                self.synthetic.ask_because(503, ProxyError::HttpRequestDenied, "waitinglist_timeout");
                return ReqStep::Synth;
            }
            now = engine.clock.mono();
            outcome = engine.cache.resume(ticket, &self.lookup_request(), now, &options);
        }
        self.log_events(&outcome.events);
        if outcome.variants_skipped >= self.params.vary_notice as usize {
            let count = outcome.variants_skipped;
            self.log.putf(Tag::Notice, format_args!("vsl: High number of variants ({count})"));
        }
        if waited {
            self.mark("Waitinglist");
        }
        self.verdict = ReqVerdict::of_lookup(&outcome, &options, &self.head, now);
        if is_partial && matches!(outcome.lookup, Lookup::Miss(_) | Lookup::MissStale { .. }) {
            self.verdict = ReqVerdict::no_hit(NoHitReason::new(NoHit::Partial, ""));
        }
        match outcome.lookup {
            Lookup::Hit(obj) => self.found(obj),
            Lookup::Grace { stale, busy } => {
                self.busy = busy;
                self.found(stale)
            }
            Lookup::Miss(busy) => self.missed(busy, None),
            Lookup::MissStale { busy, stale } => self.missed(busy, Some(stale)),
            Lookup::HitForMiss { busy, xid, ttl_left, stale } => {
                self.log.record(Tag::HitMiss).num(u64::from(xid.log_id())).sp_fixed6(ttl_left);
                engine.main.cache_hitmiss.tally();
                self.missed(busy, stale)
            }
            Lookup::HitForPass { xid, ttl_left } => {
                self.log.record(Tag::HitPass).num(u64::from(xid.log_id())).sp_fixed6(ttl_left);
                engine.main.cache_hitpass.tally();
                self.unless_only_cached().unwrap_or(ReqStep::Pass)
            }
            Lookup::Refused => {
                self.synthetic.ask_because(503, ProxyError::HttpRequestDenied, "waitinglist_limit");
                ReqStep::Synth
            }
            Lookup::Wait(_) | Lookup::Unfinished(_) | Lookup::Loading(_) => unreachable!("waited for above"),
        }
    }

    /// Logs the events of the lookup.
    fn log_events(&mut self, events: &[CacheEvent]) {
        for event in events {
            let tag = match event.tag() {
                EventTag::ExpKill => Tag::ExpKill,
                EventTag::ExpBan => Tag::ExpBan,
            };
            self.log.putf(tag, format_args!("{event}"));
        }
    }

    /// Waits until the ticket is called; `false` when that takes longer than a request may be parked, all waits together; `None`
    /// when the client has reset its request.
    pub(super) async fn wait_for(
        &mut self,
        ticket: &mut Ticket,
        deadline: &mut Option<rt::Deadline>,
        transport: &mut dyn Transport,
    ) -> Option<bool> {
        let limit = self.params.waitinglist_timeout;
        if limit.is_zero() {
            return self.drive_for_client(transport, ticket).await.map(|()| true);
        }
        let deadline = deadline.get_or_insert_with(|| rt::Deadline::until(rt::Instant::now() + limit));
        let called = poll_fn(|cx| match Pin::new(&mut *ticket).poll(cx) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending => deadline.poll(cx).map(|()| false),
        });
        self.drive_for_client(transport, called).await
    }

    pub(super) fn missed(&mut self, busy: Busy, stale: Option<ObjRef>) -> ReqStep {
        self.busy = Some(busy);
        if self.settings.rfc9111
            && let Some(step) = self.instead_of_fetch(stale.as_ref())
        {
            return step;
        }
        ReqStep::Miss(stale)
    }

    pub(super) fn found(&mut self, obj: ObjRef) -> ReqStep {
        let times = obj.times();
        let left = times.t_origin.plus(times.ttl).since(self.engine().mono_of(self.t_req));
        // The log names the announced length only while the object is still being fetched.
        let is_whole = obj.body_len().is_some();
        let head = if is_whole { None } else { message::head::StoredHead::parse(obj.head()).ok() };
        let announced = head.and_then(|head| {
            let text = std::str::from_utf8(head.get(message::names::CONTENT_LENGTH)?).ok()?;
            text.parse::<u64>().ok()
        });
        let mut record = self.log.record(Tag::Hit);
        record.num(u64::from(obj.xid().log_id())).sp_fixed6(left).sp_fixed6(times.grace).sp_fixed6(times.keep);
        if obj.body_len().is_none()
            && let Some(fetched) = obj.fetched()
        {
            record.sp_num(fetched);
            if let Some(len) = announced {
                record.sp_num(len);
            }
        }
        drop(record);
        self.noted = Noted::begin(&self.engine().stores, &obj);
        ReqStep::Hit(obj)
    }
}
