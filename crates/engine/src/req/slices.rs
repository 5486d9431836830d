// SPDX-License-Identifier: BSD-2-Clause
//! Delivery of an object that is kept in slices (`crate::slices`): finds or fetches those that the client asked for, one after
//! the other, with a few ahead. The first is at hand before the response begins, so that what has changed is begun anew
//! and what can't be had is 503; later the answer is cut: it is never mixed from two versions.

use std::collections::VecDeque;

use cache::{Busy, Digest, FetchFailed, Found, Lookup, LookupOptions, ObjRef, Search};
use message::range::{self, Selection};
use message::{conditional, names};
use storage::Buf;
use tables::close::SessClose;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::delivery::{Delivery, Extent};
use super::outlet::{Amount, Outlet};
use super::search::{ReqSearch, Unfound};
use super::transmit::{DeliveryFailure, Window};
use super::{Req, ReqStep};
use crate::bereq::{SliceOf, start_slice};
use crate::classes::ClassWorker;
use crate::slices::{CHANGED, SliceSet};
use crate::synthetic::SynthOrder;
use crate::transport::Transport;

/// Times that a response may be begun anew because the object had changed, and that one slice is fetched for one
/// response.
const TRIES: u32 = 3;

/// Lookups of one slice while others' fetches of it fail.
const LOOKS: u32 = 16;

pub(crate) struct SlicedDelivery {
    set: SliceSet,
    digest: Digest,
    head: ObjRef,
    /// Slices that were found or are being fetched ahead of their turn, in order.
    ahead: VecDeque<(u64, ObjRef)>,
    hits: u64,
    fetched: u64,
}

enum NoSlice {
    Changed,
    /// The origin doesn't give it: the type of error, where that is known.
    Failed(Option<ProxyError>),
    /// The class has neither a worker nor a slot in its queue: the response to that.
    Refused(Box<SynthOrder>),
    Gone,
}

impl SlicedDelivery {
    pub fn total(&self) -> u64 {
        self.set.total
    }

    pub fn is_partly_fetched(&self) -> bool {
        self.fetched > 0
    }

    /// The slice, if it was begun ahead of its turn; those before it are of no use any more.
    fn take_ahead(&mut self, index: u64) -> Option<ObjRef> {
        while let Some((at, obj)) = self.ahead.pop_front() {
            if at == index {
                return Some(obj);
            }
        }
        None
    }

    pub(super) async fn send(&mut self, window: Window, out: &mut Outlet<'_>) -> Result<(), DeliveryFailure> {
        let sent = match window {
            Window::All => self.send_span(0, self.total() - 1, out).await,
            Window::Part(low, high) | Window::UpTo(low, high) => self.send_span(low, high, out).await,
            Window::Parts(multipart) => self.send_parts(*multipart, out).await,
        };
        if sent == Err(DeliveryFailure::Fetch) {
            out.req.engine().main.slice_cut.inc();
        }
        let (hits, fetched) = (self.hits, self.fetched);
        out.req.log.putf(Tag::Notice, format_args!("lacquer: slices: {hits} found, {fetched} fetched"));
        sent
    }

    async fn send_parts(&mut self, multipart: filters::Multipart, out: &mut Outlet<'_>) -> Result<(), DeliveryFailure> {
        for part in multipart.parts {
            out.begin_part(&multipart.heads, part).await?;
            self.send_span(part.low, part.high, out).await?;
        }
        out.push(Buf::unaccounted(multipart.tail), false).await
    }

    /// Sends the bytes from `low` up to and with `high`.
    async fn send_span(&mut self, low: u64, high: u64, out: &mut Outlet<'_>) -> Result<(), DeliveryFailure> {
        let (mut at, mut tries) = (low, 0);
        while at <= high && !out.down.is_over() {
            let (index, last) = (self.set.index_of(at), self.set.index_of(high));
            let place = self.set.place(index);
            let slice = self.slice(index, false, out.req, out.transport).await.map_err(|no| match no {
                NoSlice::Changed | NoSlice::Failed(_) | NoSlice::Refused(_) => DeliveryFailure::Fetch,
                NoSlice::Gone => DeliveryFailure::GONE,
            })?;
            self.fetch_ahead(index, last, out.req);
            let (start, end) = (at - place.low, high.min(place.high) + 1 - place.low);
            let mut reader = slice.into_reader(start);
            match out.send_object(&mut reader, Amount::Exactly(end - start)).await {
                Ok(()) => {
                    at = place.low + end;
                    tries = 0;
                }
                // Its fetch broke off, or its store lost it: the rest is of the same version, if it can be had at all.
                Err(DeliveryFailure::Client(SessClose::RangeShort)) if tries < TRIES => {
                    at = place.low + reader.offset();
                    tries += 1;
                }
                Err(DeliveryFailure::Client(SessClose::RangeShort)) => return Err(DeliveryFailure::Fetch),
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Begins to fetch the slices behind `index`, as far as `last` and as many as `slice_ahead` says.
    fn fetch_ahead(&mut self, index: u64, last: u64, req: &mut Req) {
        let most = u64::from(req.params.slice_ahead);
        for next in index + 1..=last.min(index + most) {
            if self.ahead.iter().any(|(at, _)| *at == next) {
                continue;
            }
            // One that has to be waited for is waited for when its turn has come.
            let Lookup::Ready(found) = self.search_for(next, req).look(req) else { return };
            let found = match found {
                Found::Hit(obj) | Found::Grace { stale: obj, .. } => self.found(obj, req),
                Found::Miss(busy) | Found::MissStale { busy, .. } | Found::HitForMiss { busy, .. } => {
                    // When its turn has come, it waits for a worker of its class.
                    let Ok(worker) = req.worker_if_free() else { return };
                    self.fetch(busy, next, worker, req)
                }
                Found::HitForPass { .. } | Found::Refused => return,
            };
            self.ahead.push_back((next, found));
        }
    }

    /// A search for a slice. One that exists is as good as the head, which was judged before.
    fn search_for(&self, index: u64, req: &Req) -> ReqSearch {
        let options = LookupOptions { takes_stale: true, ..LookupOptions::default() };
        let now = req.engine().clock.mono();
        ReqSearch::new(Search::new(self.set.digest(&self.digest, index), now, options), false)
    }

    fn found(&mut self, obj: ObjRef, req: &Req) -> ObjRef {
        req.engine().main.slice_hit.inc();
        self.hits += 1;
        obj
    }

    fn fetch(&mut self, busy: Busy, index: u64, worker: Option<Box<ClassWorker>>, req: &mut Req) -> ObjRef {
        self.fetched += 1;
        let slice = SliceOf { set: self.set.clone(), index, head: self.head.clone() };
        start_slice(req, busy, slice, worker)
    }

    /// The slice, as soon as its body begins to come. `is_first`: nothing was sent yet.
    async fn slice(
        &mut self,
        index: u64,
        is_first: bool,
        req: &mut Req,
        transport: &mut dyn Transport,
    ) -> Result<ObjRef, NoSlice> {
        let mut fetches = 0;
        if let Some(obj) = self.take_ahead(index) {
            match self.with_head(obj, index, req, transport).await {
                Err(NoSlice::Failed(_)) => fetches = 1,
                other => return other,
            }
        }
        for _ in 0..LOOKS {
            let Some(obj) = self.find(index, &mut fetches, is_first, req, transport).await? else { continue };
            match self.with_head(obj, index, req, transport).await {
                // Its fetch may have been another one's, who had no patience with its origin.
                Err(NoSlice::Failed(_)) if fetches < TRIES => {}
                other => return other,
            }
        }
        Err(NoSlice::Failed(None))
    }

    /// One look for a slice, with what follows from it; nothing when it is to be looked for again.
    async fn find(
        &mut self,
        index: u64,
        fetches: &mut u32,
        is_first: bool,
        req: &mut Req,
        transport: &mut dyn Transport,
    ) -> Result<Option<ObjRef>, NoSlice> {
        let mut asked = self.search_for(index, req);
        let found = match asked.look(req) {
            Lookup::Ready(found) => found,
            Lookup::Pending(pending) => {
                req.wait_out(pending, &mut asked, transport).await.map_err(|end| match end {
                    Unfound::Gone => NoSlice::Gone,
                    Unfound::TimedOut | Unfound::Crossed => NoSlice::Failed(None),
                })?
            }
        };
        match found {
            Found::Hit(obj) | Found::Grace { stale: obj, .. } => Ok(Some(self.found(obj, req))),
            Found::Miss(busy) | Found::MissStale { busy, .. } | Found::HitForMiss { busy, .. } => {
                if is_first && self.head.is_dying() {
                    // Somebody has found out, or invalidated it: what is there now is what the client gets.
                    return Err(NoSlice::Changed);
                }
                // Boxed: few wait for a worker.
                let worker = Box::pin(req.take_worker(transport)).await.map_err(|step| match step {
                    ReqStep::Synth(order) => NoSlice::Refused(Box::new(order)),
                    _ => NoSlice::Gone,
                })?;
                *fetches += 1;
                Ok(Some(self.fetch(busy, index, worker, req)))
            }
            Found::HitForPass { .. } | Found::Refused => Err(NoSlice::Failed(None)),
        }
    }

    async fn with_head(
        &self,
        obj: ObjRef,
        index: u64,
        req: &mut Req,
        transport: &mut dyn Transport,
    ) -> Result<ObjRef, NoSlice> {
        match req.drive_for_client(transport, obj.headers()).await {
            None => return Err(NoSlice::Gone),
            Some(Err(FetchFailed { reason: CHANGED, .. })) => return Err(NoSlice::Changed),
            Some(Err(FetchFailed { error, .. })) => return Err(NoSlice::Failed(error)),
            Some(Ok(())) => {}
        }
        let is_it = self.set.is_slice(&obj, index);
        debug_assert!(is_it, "a digest of a slice has led to something else");
        if is_it { Ok(obj) } else { Err(NoSlice::Failed(None)) }
    }
}

impl Req {
    /// Prepares the delivery of an object with these slices. `Err` is the step to go to instead.
    pub(super) async fn begin_slices(
        &mut self,
        set: SliceSet,
        delivery: &mut Delivery,
        transport: &mut dyn Transport,
    ) -> Result<(), ReqStep> {
        let mut sliced = Box::new(SlicedDelivery {
            set,
            digest: self.ask.digest,
            head: delivery.obj.clone(),
            ahead: VecDeque::new(),
            hits: 0,
            fetched: 0,
        });
        if let Some(first) = self.first_slice(&sliced) {
            match sliced.slice(first, true, self, transport).await {
                Ok(slice) => sliced.ahead.push_back((first, slice)),
                Err(none) => return Err(self.without_slice(none)),
            }
            if sliced.is_partly_fetched() {
                // The trailers are of the head's fetch, and something else was fetched since.
                delivery.trailers = None;
            }
        }
        delivery.extent = Extent::Slices(sliced);
        Ok(())
    }

    /// The step where the slice that a response would begin with can't be had.
    fn without_slice(&mut self, none: NoSlice) -> ReqStep {
        match none {
            NoSlice::Gone => self.end_reset(),
            NoSlice::Refused(order) => ReqStep::Synth(*order),
            NoSlice::Changed if self.ask.begun_anew < TRIES => {
                self.ask.begun_anew += 1;
                self.engine().main.slice_again.inc();
                self.log.put(Tag::Notice, b"lacquer: the object has changed, starting again");
                ReqStep::Lookup
            }
            error @ (NoSlice::Changed | NoSlice::Failed(_)) => {
                self.log.put(Tag::Error, b"no slice of the object can be had");
                let error = match error {
                    NoSlice::Failed(Some(error)) => error,
                    _ => ProxyError::ProxyInternalError,
                };
                ReqStep::Synth(SynthOrder::because(503, error, "no slice of the object can be had"))
            }
        }
    }

    /// The slice that the response begins with, as far as that can be said before VCL has had its say.
    fn first_slice(&self, sliced: &SlicedDelivery) -> Option<u64> {
        let is_conditional = self.ask.head.has(names::IF_NONE_MATCH) || self.ask.head.has(names::IF_MODIFIED_SINCE);
        if self.ask.head.method() != b"GET" || (is_conditional && !self.esi.is_fragment()) {
            return None;
        }
        let holds = || {
            let mut head = message::Head::with_limits(self.resp.head.limits());
            head.load_from(sliced.head.head()).is_ok() && conditional::if_range_holds(&self.ask.head, &head)
        };
        let asked = range::asked(&self.ask.head).filter(|_| self.params.http_range_support && holds());
        let Some(asked) = asked else { return Some(0) };
        let byte = match range::select(asked, Some(sliced.total()), self.params.http_range_parts as usize) {
            Ok(Selection::One(slice)) => slice.low,
            Ok(Selection::Many(slices)) => slices.first()?.low,
            Ok(Selection::Whole) => 0,
            // 416
            Err(_) => return None,
        };
        Some(sliced.set.index_of(byte))
    }
}
