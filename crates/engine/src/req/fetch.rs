// SPDX-License-Identifier: BSD-2-Clause
//! A fetch was started: wait until the object's head is there, lending the fetch the request's body meanwhile.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use cache::FetchFailed;
use tables::close::SessClose;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::delivery::Delivery;
use super::transmit::DeliveryFailure;
use super::{Req, ReqStep};
use crate::bereq::StartedFetch;
use crate::synthetic::SynthOrder;
use crate::transport::Transport;

impl Req {
    pub(super) async fn fetch(&mut self, started: StartedFetch, transport: &mut dyn Transport) -> ReqStep {
        self.engine().main.s_fetch.tally();
        self.show_life(transport);
        let lends = self.client.body.is_lent();
        if lends {
            self.log.put(Tag::Storage, b"malloc Transient");
        }
        let arrived = self.hear(&started, transport).await;
        if lends && !self.client.body.is_unread() {
            self.end_reading();
        }
        self.mark("Fetch");
        self.client.waited.origin += self.log.last().since(started.began) as f32;
        if lends && self.client.body.is_unread() && arrived.is_some() {
            // The fetch went without it. Its client was made to wait already, and goes on sending.
            self.read_away(transport, true).await;
        }
        match arrived {
            Some(Ok(())) => ReqStep::Deliver(Delivery::fetched(started.obj, started.trailers)),
            Some(Err(FetchFailed { reason, error })) => {
                ReqStep::Synth(SynthOrder::because(503, error.unwrap_or(ProxyError::ProxyInternalError), reason))
            }
            None if self.client.gives_up => self.give_up(),
            None => self.end_reset(),
        }
    }

    /// The client has reset its request. What is fetched is others', too.
    pub(super) fn end_reset(&mut self) -> ReqStep {
        self.log.put(Tag::Error, b"Request reset before it was answered");
        self.client.close = Some(SessClose::RemClose);
        if let Some(parent) = self.esi.parent_mut() {
            parent.cut = Some(DeliveryFailure::GONE);
        }
        ReqStep::Done
    }

    /// Waits for the object's head; what the backend says before goes to the client at once. `None`: the client is gone.
    async fn hear(&mut self, started: &StartedFetch, transport: &mut dyn Transport) -> Option<Result<(), FetchFailed>> {
        let obj = &started.obj;
        let Some(interims) = &started.interims else { return self.drive_for_client(transport, obj.headers()).await };
        let mut arrives = pin!(obj.headers());
        loop {
            let next = poll_fn(|cx| match interims.next() {
                Some(interim) => Poll::Ready(Err(interim)),
                None => arrives.as_mut().poll(cx).map(Ok),
            });
            match self.drive_for_client(transport, next).await? {
                Ok(arrived) => return Some(arrived),
                Err(interim) => transport.send_interim(&interim),
            }
        }
    }

    /// The client is gone, and nobody else wants its pass: the fetch finds that out from its objcore.
    fn give_up(&mut self) -> ReqStep {
        self.engine().main.pass_abort.inc();
        self.log.put(Tag::Error, b"Client gone before its pass was answered");
        self.client.close = Some(SessClose::RemClose);
        if let Some(parent) = self.esi.parent_mut() {
            parent.cut = Some(DeliveryFailure::GONE);
        }
        ReqStep::Done
    }
}
