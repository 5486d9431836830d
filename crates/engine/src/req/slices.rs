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

use super::downstream::Downstream;
use super::search::{ReqSearch, Unfound};
use super::transmit::{DeliveryFailure, Window};
use super::{Req, ReqStep};
use crate::bereq::SliceOf;
use crate::bereq::start_slice;
use crate::slices::{CHANGED, SliceSet};
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoSlice {
    Changed,
    /// The origin doesn't give it: the type of error, where that is known.
    Failed(Option<ProxyError>),
    /// The class has neither a worker nor a slot in its queue. The response to that is prepared.
    Refused,
    Gone,
}

impl SlicedDelivery {
    pub fn total(&self) -> u64 {
        self.set.total
    }

    /// True if the first slice had to be fetched.
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
}

impl Req {
    /// Prepares the delivery of an object with these slices. A step: where to go in place of the delivery.
    pub(super) async fn begin_slices(
        &mut self,
        set: SliceSet,
        obj: &ObjRef,
        transport: &mut dyn Transport,
    ) -> Option<ReqStep> {
        self.sliced = Some(Box::new(SlicedDelivery {
            set,
            digest: self.digest,
            head: obj.clone(),
            ahead: VecDeque::new(),
            hits: 0,
            fetched: 0,
        }));
        let first = self.first_slice(obj)?;
        match self.slice(first, true, transport).await {
            Ok(slice) => {
                self.sliced.as_mut()?.ahead.push_back((first, slice));
                None
            }
            Err(NoSlice::Gone) => Some(self.end_reset()),
            Err(NoSlice::Refused) => {
                self.sliced = None;
                Some(ReqStep::Synth)
            }
            Err(NoSlice::Changed) if self.begun_anew < TRIES => {
                self.begun_anew += 1;
                self.sliced = None;
                self.engine().main.slice_again.inc();
                self.log.put(Tag::Notice, b"lacquer: the object has changed, starting again");
                Some(ReqStep::Lookup)
            }
            Err(error @ (NoSlice::Changed | NoSlice::Failed(_))) => {
                self.sliced = None;
                self.log.put(Tag::Error, b"no slice of the object can be had");
                let error = match error {
                    NoSlice::Failed(Some(error)) => error,
                    _ => ProxyError::ProxyInternalError,
                };
                self.synthetic.ask_because(503, error, "no slice of the object can be had");
                Some(ReqStep::Synth)
            }
        }
    }

    /// The slice that the response begins with, as far as that can be said before VCL has had its say.
    fn first_slice(&self, obj: &ObjRef) -> Option<u64> {
        let sliced = self.sliced.as_ref()?;
        let is_conditional = self.head.has(names::IF_NONE_MATCH) || self.head.has(names::IF_MODIFIED_SINCE);
        if self.head.method() != b"GET" || (is_conditional && !self.esi.is_fragment()) {
            return None;
        }
        let holds = || {
            let mut head = message::Head::with_limits(self.resp.limits());
            head.load_from(obj.head()).is_ok() && conditional::if_range_holds(&self.head, &head)
        };
        let asked = range::asked(&self.head).filter(|_| self.params.http_range_support && holds());
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

    pub(super) async fn send_slices(
        &mut self,
        window: Window,
        down: &mut Downstream,
        transport: &mut dyn Transport,
    ) -> Result<(), DeliveryFailure> {
        let total = self.sliced.as_ref().map_or(0, |sliced| sliced.total());
        let sent = match window {
            Window::All => self.send_span(0, total - 1, down, transport).await,
            Window::Part(low, high) => self.send_span(low, high, down, transport).await,
            Window::Parts(multipart) => self.send_parts(*multipart, down, transport).await,
        };
        if sent == Err(DeliveryFailure::Fetch) {
            self.engine().main.slice_cut.inc();
        }
        if let Some(SlicedDelivery { hits, fetched, .. }) = self.sliced.as_deref() {
            self.log.putf(Tag::Notice, format_args!("lacquer: slices: {hits} found, {fetched} fetched"));
        }
        sent
    }

    async fn send_parts(
        &mut self,
        multipart: filters::Multipart,
        down: &mut Downstream,
        transport: &mut dyn Transport,
    ) -> Result<(), DeliveryFailure> {
        for part in multipart.parts {
            self.begin_part(&multipart.heads, part, down, transport).await?;
            self.send_span(part.low, part.high, down, transport).await?;
        }
        self.push(down, Buf::unaccounted(multipart.tail), false, transport).await
    }

    /// Sends the bytes from `low` up to and with `high`.
    async fn send_span(
        &mut self,
        low: u64,
        high: u64,
        down: &mut Downstream,
        transport: &mut dyn Transport,
    ) -> Result<(), DeliveryFailure> {
        let (mut at, mut tries) = (low, 0);
        while at <= high {
            let (index, place, last) = {
                let set = &self.sliced.as_ref().ok_or(DeliveryFailure::Fetch)?.set;
                (set.index_of(at), set.place(set.index_of(at)), set.index_of(high))
            };
            let slice = self.slice(index, false, transport).await.map_err(|no| match no {
                NoSlice::Changed | NoSlice::Failed(_) | NoSlice::Refused => DeliveryFailure::Fetch,
                NoSlice::Gone => DeliveryFailure::GONE,
            })?;
            self.fetch_ahead(index, last);
            let (start, end) = (at - place.low, high.min(place.high) + 1 - place.low);
            let mut reader = slice.into_reader(start);
            match self.send_object(&mut reader, Some(end - start), down, transport).await {
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
    fn fetch_ahead(&mut self, index: u64, last: u64) {
        let most = u64::from(self.params.slice_ahead);
        for next in index + 1..=last.min(index + most) {
            let Some(sliced) = &self.sliced else { return };
            if sliced.ahead.iter().any(|(at, _)| *at == next) {
                continue;
            }
            // One that has to be waited for is waited for when its turn has come.
            let Lookup::Ready(found) = self.search_for(next).look(self) else { return };
            let found = match found {
                Found::Hit(obj) | Found::Grace { stale: obj, .. } => self.found_slice(obj),
                // When its turn has come, it waits for a worker of its class.
                Found::Miss(_) | Found::MissStale { .. } | Found::HitForMiss { .. } if !self.may_take_place() => {
                    return;
                }
                Found::Miss(busy) | Found::MissStale { busy, .. } | Found::HitForMiss { busy, .. } => {
                    self.fetch_slice(busy, next)
                }
                Found::HitForPass { .. } | Found::Refused => return,
            };
            if let Some(delivered) = &mut self.sliced {
                delivered.ahead.push_back((next, found));
            }
        }
    }

    /// A search for a slice. One that exists is as good as the head, which was judged before.
    fn search_for(&self, index: u64) -> ReqSearch {
        let sliced = self.sliced.as_ref().expect("slices are looked for while they are delivered");
        let options = LookupOptions { takes_stale: true, ..LookupOptions::default() };
        let now = self.engine().clock.mono();
        ReqSearch::new(Search::new(sliced.set.digest(&sliced.digest, index), now, options), false)
    }

    fn found_slice(&mut self, obj: ObjRef) -> ObjRef {
        self.engine().main.slice_hit.inc();
        self.sliced.iter_mut().for_each(|sliced| sliced.hits += 1);
        obj
    }

    fn fetch_slice(&mut self, busy: Busy, index: u64) -> ObjRef {
        let sliced = self.sliced.as_mut().expect("slices are fetched while they are delivered");
        sliced.fetched += 1;
        let slice = SliceOf { set: sliced.set.clone(), index, head: sliced.head.clone() };
        start_slice(self, busy, slice)
    }

    /// The slice, as soon as its body begins to come. `is_first`: nothing was sent yet.
    async fn slice(&mut self, index: u64, is_first: bool, transport: &mut dyn Transport) -> Result<ObjRef, NoSlice> {
        let mut fetches = 0;
        if let Some(obj) = self.sliced.as_mut().and_then(|sliced| sliced.take_ahead(index)) {
            match self.slice_head(obj, index, transport).await {
                Err(NoSlice::Failed(_)) => fetches = 1,
                other => return other,
            }
        }
        for _ in 0..LOOKS {
            let Some(obj) = self.find_slice(index, &mut fetches, is_first, transport).await? else { continue };
            match self.slice_head(obj, index, transport).await {
                // Its fetch may have been another one's, who had no patience with its origin.
                Err(NoSlice::Failed(_)) if fetches < TRIES => {}
                other => return other,
            }
        }
        Err(NoSlice::Failed(None))
    }

    /// One look for a slice, with what follows from it; nothing when it is to be looked for again.
    async fn find_slice(
        &mut self,
        index: u64,
        fetches: &mut u32,
        is_first: bool,
        transport: &mut dyn Transport,
    ) -> Result<Option<ObjRef>, NoSlice> {
        let mut asked = self.search_for(index);
        let found = match asked.look(self) {
            Lookup::Ready(found) => found,
            Lookup::Pending(pending) => {
                self.wait_out(pending, &mut asked, transport).await.map_err(|end| match end {
                    Unfound::Gone => NoSlice::Gone,
                    Unfound::TimedOut | Unfound::Crossed => NoSlice::Failed(None),
                })?
            }
        };
        match found {
            Found::Hit(obj) | Found::Grace { stale: obj, .. } => Ok(Some(self.found_slice(obj))),
            Found::Miss(busy) | Found::MissStale { busy, .. } | Found::HitForMiss { busy, .. } => {
                let is_gone = self.sliced.as_ref().is_none_or(|sliced| sliced.head.is_dying());
                if is_first && is_gone {
                    // Somebody has found out, or invalidated it: what is there now is what the client gets.
                    return Err(NoSlice::Changed);
                }
                // Boxed: few wait for a worker.
                if let Err(step) = Box::pin(self.take_place(transport)).await {
                    return Err(if matches!(step, ReqStep::Synth) { NoSlice::Refused } else { NoSlice::Gone });
                }
                *fetches += 1;
                Ok(Some(self.fetch_slice(busy, index)))
            }
            Found::HitForPass { .. } | Found::Refused => Err(NoSlice::Failed(None)),
        }
    }

    async fn slice_head(&mut self, obj: ObjRef, index: u64, transport: &mut dyn Transport) -> Result<ObjRef, NoSlice> {
        match self.drive_for_client(transport, obj.headers()).await {
            None => return Err(NoSlice::Gone),
            Some(Err(FetchFailed { reason: CHANGED, .. })) => return Err(NoSlice::Changed),
            Some(Err(FetchFailed { error, .. })) => return Err(NoSlice::Failed(error)),
            Some(Ok(())) => {}
        }
        let is_it = self.sliced.as_ref().is_some_and(|sliced| sliced.set.is_slice(&obj, index));
        debug_assert!(is_it, "a digest of a slice has led to something else");
        if is_it { Ok(obj) } else { Err(NoSlice::Failed(None)) }
    }
}
