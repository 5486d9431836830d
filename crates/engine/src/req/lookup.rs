// SPDX-License-Identifier: BSD-2-Clause
//! Lookup: from the request to the step that its result leads to.

use cache::{BodyReader, Busy, Found, Lookup, LookupOptions, ObjRef, Search};
use message::{Codings, Head};
use tables::no_hit::NoHit;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::delivery::Delivery;
use super::hit::HitRight;
use super::reason::NoHitReason;
use super::search::ReqSearch;
use super::verdict::ReqVerdict;
use super::{Req, ReqStep};
use crate::serving::Noted;
use crate::synthetic::SynthOrder;
use crate::transport::Transport;

/// A request as the cache asks about it.
pub(crate) struct LookupRequest<'a> {
    head: &'a Head,
    supported: Codings,
    /// True if the values that Vary names are compared as RFC 9111 says.
    is_normalised: bool,
}

impl<'a> LookupRequest<'a> {
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
        LookupRequest { head: &self.ask.head, supported, is_normalised: self.settings.rfc9111 }
    }

    pub(super) fn lookup_options(&self) -> LookupOptions {
        let asked = self.settings.lookup;
        let options = self.with_directives(LookupOptions { tells: self.tells_reason(), ..asked });
        let engine = self.engine();
        engine.through_gate(options)
    }

    pub(super) async fn lookup(&mut self, transport: &mut dyn Transport) -> ReqStep {
        let options = self.lookup_options();
        let mut asked =
            ReqSearch::new(Search::new(self.ask.digest, self.engine().mono_of(self.ask.t_req), options), true);
        loop {
            let found = 'found: {
                let pending = match asked.look(self) {
                    Lookup::Ready(found) => break 'found found,
                    Lookup::Pending(pending) => pending,
                };
                match self.wait_out(pending, &mut asked, transport).await {
                    Ok(found) => found,
                    // Boxed, as what else is rare: the many hits shan't have a larger future.
                    Err(end) => return Box::pin(self.end_search(end, transport)).await,
                }
            };
            self.log_events(&mut asked);
            if !found.object().is_some_and(|obj| self.lacks(obj) || self.is_to_be_read(obj)) {
                self.note_search(&found, &asked);
                return self.after_lookup(found, None);
            }
            if let Some((found, reader)) = Box::pin(self.reconsider(found, &mut asked, transport)).await {
                self.note_search(&found, &asked);
                return self.after_lookup(found, reader);
            }
        }
    }

    /// An object was found that may not do: parts of it are missing, or its body may be unreadable. `None`: another one is
    /// to be searched for. With the reader that has the first piece of the body, if that had to be read.
    async fn reconsider(
        &mut self,
        found: Found,
        asked: &mut ReqSearch,
        transport: &mut dyn Transport,
    ) -> Option<(Found, Option<Box<BodyReader>>)> {
        let obj = found.object()?.clone();
        if self.lacks(&obj) {
            asked.is_partial = true;
            // The right to refresh it is the right to fetch what is missing.
            let Some(busy) = found.into_busy() else {
                asked.wants_missing = true;
                return None;
            };
            let missed = match self.settings.rfc9111 {
                true => Found::MissStale { busy, stale: obj },
                false => Found::Miss(busy),
            };
            return Some((missed, None));
        }
        if let Some(reader) = self.read_first(&obj, asked, transport).await {
            return Some((found, Some(reader)));
        }
        self.engine().cache.lose(&obj);
        found.into_busy().map(|busy| (Found::Miss(busy), None))
    }

    /// Notes what the search came across, and why it ended as it did.
    #[inline]
    fn note_search(&mut self, found: &Found, asked: &ReqSearch) {
        let skipped = asked.search.report.variants_skipped;
        if skipped >= self.params.vary_notice as usize {
            self.log.putf(Tag::Notice, format_args!("vsl: High number of variants ({skipped})"));
        }
        if asked.was_parked {
            self.mark("Waitinglist");
        }
        self.verdict = match found {
            Found::Miss(_) | Found::MissStale { .. } if asked.is_partial => {
                ReqVerdict::no_hit(NoHitReason::new(NoHit::Partial, ""))
            }
            _ => ReqVerdict::of_search(found, &asked.search, &self.ask.head),
        };
    }

    /// The step that a lookup's result leads to.
    #[inline]
    fn after_lookup(&mut self, found: Found, reader: Option<Box<BodyReader>>) -> ReqStep {
        let main = self.engine().main;
        match found {
            Found::Hit(obj) => self.found(obj, reader, HitRight::None),
            Found::Grace { stale, busy } => self.found(stale, reader, HitRight::of_refresh(busy)),
            Found::Miss(busy) => self.missed(Box::new(busy), None),
            Found::MissStale { busy, stale } if self.is_stale_good_enough(&stale) => {
                self.found(stale, reader, HitRight::Miss(Box::new(busy)))
            }
            Found::MissStale { busy, stale } => self.missed(Box::new(busy), Some(stale)),
            Found::HitForMiss { busy, xid, ttl_left, stale } => {
                self.log.record(Tag::HitMiss).num(xid.log_id()).sp_fixed6(ttl_left);
                main.cache_hitmiss.tally();
                self.missed(Box::new(busy), stale)
            }
            Found::HitForPass { xid, ttl_left } => {
                self.log.record(Tag::HitPass).num(xid.log_id()).sp_fixed6(ttl_left);
                main.cache_hitpass.tally();
                self.unless_only_cached().unwrap_or(ReqStep::Pass)
            }
            Found::Refused => {
                ReqStep::Synth(SynthOrder::because(503, ProxyError::HttpRequestDenied, "waitinglist_limit"))
            }
        }
    }

    pub(super) fn missed(&mut self, busy: Box<Busy>, stale: Option<ObjRef>) -> ReqStep {
        if self.settings.rfc9111
            && let Some(step) = self.instead_of_fetch(stale.as_ref())
        {
            return step;
        }
        ReqStep::Miss { busy, stale }
    }

    pub(super) fn found(&mut self, obj: ObjRef, first_reader: Option<Box<BodyReader>>, right: HitRight) -> ReqStep {
        let times = obj.times();
        let left = times.t_origin.plus(times.ttl).since(self.engine().mono_of(self.ask.t_req));
        // The log names the announced length only while the object is still being fetched.
        let is_whole = obj.body_len().is_some();
        let head = if is_whole { None } else { message::head::StoredHead::parse(obj.head()).ok() };
        let announced = head.and_then(|head| {
            let text = std::str::from_utf8(head.get(message::names::CONTENT_LENGTH)?).ok()?;
            text.parse::<u64>().ok()
        });
        let mut record = self.log.record(Tag::Hit);
        record.num(obj.xid().log_id()).sp_fixed6(left).sp_fixed6(times.grace).sp_fixed6(times.keep);
        if obj.body_len().is_none()
            && let Some(fetched) = obj.fetched()
        {
            record.sp_num(fetched);
            if let Some(len) = announced {
                record.sp_num(len);
            }
        }
        drop(record);
        self.resp.noted = Noted::begin(self.engine().cache.stores(), &obj);
        ReqStep::Hit { delivery: Delivery::found(obj, first_reader), right }
    }
}
