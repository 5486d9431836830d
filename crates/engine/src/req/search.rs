// SPDX-License-Identifier: BSD-2-Clause
//! The waits of a request's searches: for another request's fetch, for a stored copy, for other tasks. The only place that
//! knows how long each may take.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use cache::{Awaits, EventTag, Found, Lookup, Pending, Search};
use params::{DebugBit, Params};
use tables::no_hit::NoHit;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::reason::NoHitReason;
use super::verdict::ReqVerdict;
use super::{Req, ReqStep};
use crate::synthetic::SynthOrder;
use crate::transport::Transport;

pub(super) struct ReqSearch {
    pub search: Search,
    /// The end of all waits for other requests' fetches together.
    parked_until: Option<rt::Deadline>,
    /// The end of all waits for a disk together.
    read_until: Option<rt::Deadline>,
    /// True if the client's request itself waits, not a slice of its response: peers, log and Server-Timing hear of it.
    is_shown: bool,
    pub was_parked: bool,
    /// An object was found of which wanted parts are missing.
    pub is_partial: bool,
    /// The next look is for the right to fetch those.
    pub wants_missing: bool,
}

/// The reason why a search ended without a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unfound {
    /// `waitinglist_timeout` was over.
    TimedOut,
    /// The client has reset its request.
    Gone,
    /// A peer would wait for a fetch that itself waits for the peer.
    Crossed,
}

impl ReqSearch {
    /// A search for the client's request if `is_shown`, otherwise for a slice of its response.
    #[inline]
    pub fn new(search: Search, is_shown: bool) -> Self {
        ReqSearch {
            search,
            parked_until: None,
            read_until: None,
            is_shown,
            was_parked: false,
            is_partial: false,
            wants_missing: false,
        }
    }

    /// A look from the beginning.
    #[inline]
    pub fn look(&mut self, req: &Req) -> Lookup {
        if self.wants_missing {
            return self.look_for_missing(req);
        }
        self.search.look(&req.engine().cache, &req.lookup_request())
    }

    #[cold]
    fn look_for_missing(&mut self, req: &Req) -> Lookup {
        self.wants_missing = false;
        let options = self.search.options;
        self.search.options = req.for_what_is_missing(&options);
        let lookup = self.search.look(&req.engine().cache, &req.lookup_request());
        // After a wait anything will do that has the parts.
        self.search.options = options;
        lookup
    }

    /// The deadline for what is read from a disk.
    pub fn read_until(&mut self, params: &Params) -> &mut rt::Deadline {
        self.read_until.get_or_insert_with(|| rt::Deadline::until(rt::Instant::now() + params.disk_timeout))
    }

    fn parked_until(&mut self, params: &Params) -> Option<&mut rt::Deadline> {
        let limit = params.waitinglist_timeout;
        if limit.is_zero() {
            return None;
        }
        Some(self.parked_until.get_or_insert_with(|| rt::Deadline::until(rt::Instant::now() + limit)))
    }
}

impl Req {
    /// Waits until the search has a result.
    pub(super) async fn wait_out(
        &mut self,
        mut pending: Pending,
        asked: &mut ReqSearch,
        transport: &mut dyn Transport,
    ) -> Result<Found, Unfound> {
        loop {
            self.log_events(asked);
            self.wait(&mut pending, asked, transport).await?;
            pending = match asked.search.look_again(&self.engine().cache, pending, &self.lookup_request()) {
                Lookup::Ready(found) => return Ok(found),
                Lookup::Pending(next) => next,
            };
        }
    }

    async fn wait(
        &mut self,
        pending: &mut Pending,
        asked: &mut ReqSearch,
        transport: &mut dyn Transport,
    ) -> Result<(), Unfound> {
        match pending.awaits() {
            Awaits::Fetch if asked.is_shown => self.park(pending, asked, transport).await,
            Awaits::Fetch => self.wait_for_fetch(pending, asked, transport).await,
            Awaits::Turn => {
                self.drive(transport, rt::give_way()).await;
                self.drive(transport, pending).await;
                Ok(())
            }
            Awaits::Home => {
                let deadline = asked.read_until(&self.params);
                if !self.drive(transport, until(deadline, pending)).await {
                    pending.give_up();
                }
                Ok(())
            }
        }
    }

    /// Waits for another request's fetch, as the log and a peer see it.
    async fn park(
        &mut self,
        pending: &mut Pending,
        asked: &mut ReqSearch,
        transport: &mut dyn Transport,
    ) -> Result<(), Unfound> {
        if self.would_wait_in_a_circle() {
            return Err(Unfound::Crossed);
        }
        self.show_life(transport);
        asked.was_parked = true;
        let tells = self.params.debug.has(DebugBit::Waitinglist);
        if tells {
            let [first, second, ..] = self.ask.digest.0;
            self.log.putf(Tag::Debug, format_args!("on waiting list <0x{first:02x}{second:02x}...>"));
        }
        let began = self.engine().clock.mono();
        let waited = self.wait_for_fetch(pending, asked, transport).await;
        self.client.waited.busy += self.engine().clock.mono().since(began) as f32;
        if tells {
            self.log.put(Tag::Debug, b"off waiting list");
        }
        waited
    }

    async fn wait_for_fetch(
        &mut self,
        pending: &mut Pending,
        asked: &mut ReqSearch,
        transport: &mut dyn Transport,
    ) -> Result<(), Unfound> {
        self.log.flush();
        let came = match asked.parked_until(&self.params) {
            None => self.drive_for_client(transport, pending).await.map(|()| true),
            Some(deadline) => self.drive_for_client(transport, until(deadline, pending)).await,
        };
        match came {
            Some(true) => Ok(()),
            Some(false) => Err(Unfound::TimedOut),
            None => Err(Unfound::Gone),
        }
    }

    /// The step after a search without a result.
    pub(super) async fn end_search(&mut self, end: Unfound, transport: &mut dyn Transport) -> ReqStep {
        match end {
            Unfound::Crossed => self.refuse_peer("crossed", transport).await,
            Unfound::Gone => self.end_reset(),
            Unfound::TimedOut => {
                self.engine().main.busy_timeout.inc();
                self.verdict = ReqVerdict::no_hit(NoHitReason::new(NoHit::Waitinglist, "waitinglist_timeout"));
                self.mark("Waitinglist");
                ReqStep::Synth(SynthOrder::because(503, ProxyError::HttpRequestDenied, "waitinglist_timeout"))
            }
        }
    }

    /// Logs the events of a look for the client's request.
    #[inline]
    pub(super) fn log_events(&mut self, asked: &mut ReqSearch) {
        if !asked.is_shown || asked.search.report.events.is_empty() {
            return;
        }
        for event in asked.search.report.events.drain(..) {
            let tag = match event.tag() {
                EventTag::ExpKill => Tag::ExpKill,
                EventTag::ExpBan => Tag::ExpBan,
            };
            self.log.putf(tag, format_args!("{}", event.text(self.params.compat())));
        }
    }
}

/// `true` once the wait is over, `false` at the deadline.
fn until(deadline: &mut rt::Deadline, pending: &mut Pending) -> impl Future<Output = bool> {
    poll_fn(|cx| match Pin::new(&mut *pending).poll(cx) {
        Poll::Ready(()) => Poll::Ready(true),
        Poll::Pending => deadline.poll(cx).map(|()| false),
    })
}
