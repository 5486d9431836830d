// SPDX-License-Identifier: BSD-2-Clause
//! The response goes out: framing, then the body as it is stored or comes in, then what is behind it.

use std::future::poll_fn;

use base::Vxid;
use filters::{FilterNote, Multipart};
use message::incremental::Forwarding;
use message::{Head, digest, names};
use shm::vsl::num::dec;
use storage::Buf;
use tables::close::SessClose;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::delivery::{Answer, Delivery, Extent};
use super::downstream::Downstream;
use super::esi::Adapter;
use super::outlet::{Amount, Outlet, close_of, resting};
use super::plan::Plan;
use super::{Req, ReqStep};
use crate::httplog::RESP;
use crate::synthetic::SynthOrder;
use crate::trailers::Trailers;
use crate::transport::{BodyLen, Transport};

/// The part of the stored body that is sent if nothing else happens to it, so that the rest needn't be read.
pub(super) enum Window {
    All,
    /// The bytes from the first up to and with the second.
    Part(u64, u64),
    /// The bytes between these ends, as far as there are any: the body's length isn't known.
    UpTo(u64, u64),
    /// Several, with what goes between them.
    Parts(Box<Multipart>),
}

/// Reasons why a delivery broke off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryFailure {
    /// The fetch failed behind it.
    Fetch,
    Client(SessClose),
    /// A fragment failed that the whole page can't do without.
    Page,
}

impl DeliveryFailure {
    pub(super) const GONE: DeliveryFailure = DeliveryFailure::Client(SessClose::RemClose);
}

type ExpectedTrailers = Option<(Trailers, Vxid)>;

impl Req {
    pub(super) async fn transmit(&mut self, mut answer: Answer, transport: &mut dyn Transport) -> ReqStep {
        if transport.asks_tunnel() && self.resp.head.status() % 1000 / 100 == 2 {
            self.refuse_tunnel();
        }
        let clen = http1::framing::content_length(&self.resp.head, true).ok().flatten();
        let Ok(plan) = self.plan(&mut answer, clen) else {
            self.log.put(Tag::Error, b"Failure to push processors");
            self.client.close = Some(SessClose::Overload);
            self.mark("Resp");
            return ReqStep::Done;
        };
        if self.is_left_out() {
            self.cut_off(DeliveryFailure::Fetch, transport);
            self.mark("Resp");
            return ReqStep::Done;
        }
        if self.wants_digest() {
            // Boxed: few ask for one.
            Box::pin(self.add_digests(&answer, &plan)).await;
        }
        let announced = self.frame(&answer, plan.len, clen);
        let sends = !matches!(announced, BodyLen::None);
        if sends
            && let Answer::Object(delivery) = &answer
            && !delivery.has_all_of(&plan.window, plan.chain.is_empty())
        {
            return self.refuse_beyond_parts();
        }
        if sends && plan.chain.holding().is_some() && self.may_not_wait_for(&answer) {
            let details = "a filter needs the whole body";
            return ReqStep::Synth(SynthOrder::because(501, ProxyError::IncrementalRefused, details));
        }
        if self.resp.head.status() % 1000 >= 500 && !self.esi.is_fragment() && self.client.trial.is_none() {
            self.engine().main.client_5xx.tally();
        }
        self.client.close = transport.send_head(&mut self.resp.head, announced, self.client.close, &mut self.log);
        match self.send(answer, plan, sends, transport).await {
            Ok(trailers) => self.send_end(trailers, transport),
            Err(cut) => self.cut_off(cut, transport),
        }
        if !self.esi.is_fragment()
            && !transport.has_input()
            && let Err(error) = poll_fn(|cx| resting(transport.poll_flush(cx, 0), self)).await
        {
            self.client.close.get_or_insert(close_of(error));
        }
        self.mark("Resp");
        ReqStep::Done
    }

    /// True if the body is still on its way, and its origin wants it to be forwarded as it comes (RFC 10036).
    fn may_not_wait_for(&self, answer: &Answer) -> bool {
        answer.obj().is_some_and(|obj| obj.body_len().is_none())
            && Forwarding::of(&self.resp.head) == Forwarding::Incremental
    }

    /// True if the object may be an answer to HEAD: it has no body, and its field is that of the body which GET has. Releases
    /// before 8 say 0 then.
    fn keeps_length(&self, obj: &cache::ObjRef) -> bool {
        self.params.compat().is_9() && obj.body_len() == Some(0)
    }

    /// Says in the head how long the body is, where that isn't said already. `clen` is what the stored head says.
    fn frame(&mut self, answer: &Answer, len: Option<u64>, clen: Option<u64>) -> BodyLen {
        let to_head = self.ask.original.method() == b"HEAD";
        let status = self.resp.head.status() % 1000;
        let has_none = status < 200 || status == 204 || status == 304;
        let keeps_field =
            to_head && answer.obj().is_some_and(|obj| obj.flags().is_uncacheable() || self.keeps_length(obj));
        if to_head && answer.obj().is_some() && !keeps_field {
            // The stored one is of the body that GET has.
            RESP.unset(&mut self.resp.head, &mut self.log, digest::CONTENT_DIGEST);
        }
        let may_send = !(to_head || has_none);
        // What is behind a body of announced length reaches few clients, and nothing is behind none.
        let has_trailers = may_send && answer.delivery().is_some_and(Delivery::has_trailers);
        let len = len.filter(|&len| !has_trailers || (clen.is_some() && len > 0));
        if has_none {
            RESP.unset(&mut self.resp.head, &mut self.log, names::CONTENT_LENGTH);
        } else if clen.is_some() && clen == len {
            // The stored field says it already.
        } else if keeps_field {
            // What the backend said to HEAD stands.
        } else {
            RESP.unset(&mut self.resp.head, &mut self.log, names::CONTENT_LENGTH);
            if let Some(len) = len {
                self.set_resp(names::CONTENT_LENGTH, &[dec(len).as_bytes()]);
            }
        }
        match len {
            _ if !may_send => BodyLen::None,
            Some(0) => BodyLen::None,
            Some(len) => BodyLen::Known(len),
            None => BodyLen::Unknown,
        }
    }

    /// Sends the body, if it `sends` one. The result is what goes behind it.
    async fn send(
        &mut self,
        mut answer: Answer,
        plan: Plan,
        sends: bool,
        transport: &mut dyn Transport,
    ) -> Result<Option<Head>, DeliveryFailure> {
        let is_stored_body = plan.chain.is_empty() && !plan.do_esi && matches!(plan.window, Window::All);
        let mut down = Downstream::new(plan.chain, Adapter::Through);
        let mut trailers = answer.take_trailers().filter(|_| sends);
        let mut sent = Ok(());
        if sends {
            sent = match self.adapter(answer.obj(), plan.do_esi, transport).await {
                Some(adapter) => {
                    down.adapter = adapter;
                    if let Some(first) = down.chain.take_subrequests() {
                        // Boxed: few ask for anything.
                        Box::pin(self.answer_filters(first, &mut down.chain, transport)).await;
                    }
                    self.resp.is_told = !(plan.do_esi || answer.has_slices() || self.esi.is_fragment());
                    self.engine().count_gzip(&down.chain);
                    let mut out = Outlet { req: self, down: &mut down, transport };
                    out.send_body(answer, plan.window, plan.do_esi, &mut trailers).await
                }
                None => Err(DeliveryFailure::Fetch),
            };
        }
        if sends || !self.esi.is_fragment() {
            // A fragment that its page can't go on from weighs more than why it broke off.
            self.end_body(&down, plan.do_esi, sends)?;
        }
        sent?;
        let mut behind = trailers.and_then(|(trailers, made_by)| trailers.take(made_by));
        if let Some(fields) = behind.as_mut().filter(|_| !is_stored_body) {
            digest::remove(fields);
        }
        Ok(behind.filter(|fields| !fields.is_empty()))
    }

    fn send_end(&mut self, trailers: Option<Head>, transport: &mut dyn Transport) {
        if let Some(trailers) = &trailers {
            RESP.log_fields(trailers, &mut self.log);
        }
        transport.send_end(trailers.as_ref());
    }

    fn cut_off(&mut self, cut: DeliveryFailure, transport: &mut dyn Transport) {
        transport.abort();
        self.client.close = Some(match cut {
            DeliveryFailure::Fetch | DeliveryFailure::Page => SessClose::TxError,
            DeliveryFailure::Client(close) => close,
        });
        if let Some(parent) = self.esi.parent_mut() {
            parent.cut = Some(cut);
        }
    }

    pub(super) fn put_status(&mut self, status: u16) {
        if self.resp.head.set_status(status).is_err() {
            self.log.count_lost();
        }
        RESP.log_status(&self.resp.head, &mut self.log);
    }

    /// Logs the filters' notes at the end, and reports a fragment's result to its page.
    fn end_body(&mut self, down: &Downstream, does_esi: bool, sends: bool) -> Result<(), DeliveryFailure> {
        let says_acct = !self.log.ring().is_masked(Tag::VdpAcct);
        let closing: Vec<_> = down.chain.close().collect();
        if says_acct && does_esi {
            self.log.putf(Tag::VdpAcct, format_args!("esi {} {}", down.steps, down.stored));
        }
        let mut bytes_in = down.given;
        for (note, acct) in closing.into_iter().rev() {
            if says_acct {
                self.log.putf(Tag::VdpAcct, format_args!("{} {} {bytes_in}", acct.name, acct.calls));
            }
            bytes_in = acct.bytes;
            if let Some(FilterNote::Gzip(text)) = note {
                self.log.put(Tag::Gzip, text.as_bytes());
            }
        }
        if says_acct && sends {
            let name = down.adapter.name(self.esi.is_fragment());
            self.log.putf(Tag::VdpAcct, format_args!("{name} {} {}", down.calls, down.bytes));
        }
        let Some(fragment) = self.esi.as_fragment() else { return Ok(()) };
        fragment.body_bytes = down.bytes;
        if matches!(down.adapter, Adapter::Through) {
            return Ok(());
        }
        match down.adapter.sum(down.bytes) {
            Ok(sum) => {
                fragment.parent.sum = sum;
                Ok(())
            }
            // Half of a fragment's blocks are in the page's gzip: no way on from there.
            Err(error) => {
                self.log.putf(Tag::Error, format_args!("{error}"));
                Err(DeliveryFailure::Page)
            }
        }
    }
}

impl Answer {
    fn take_trailers(&mut self) -> ExpectedTrailers {
        match self {
            Answer::Made(_) => None,
            Answer::Object(delivery) => delivery.trailers.take().map(|trailers| (trailers, delivery.obj.xid())),
        }
    }

    fn has_slices(&self) -> bool {
        self.delivery().is_some_and(|delivery| matches!(delivery.extent, Extent::Slices(_)))
    }
}

impl Outlet<'_> {
    async fn send_body(
        &mut self,
        mut answer: Answer,
        window: Window,
        do_esi: bool,
        trailers: &mut ExpectedTrailers,
    ) -> Result<(), DeliveryFailure> {
        match (window, &mut answer) {
            // Boxed: the few objects in slices shan't make every request's future larger, nor pages with ESI.
            (window, Answer::Object(Delivery { extent: Extent::Slices(sliced), .. })) => {
                let sent = Box::pin(sliced.send(window, self)).await;
                if sliced.is_partly_fetched() {
                    // The trailers are of the head's fetch, and something else was fetched since.
                    *trailers = None;
                }
                sent?;
            }
            (_, Answer::Object(delivery)) if do_esi => Box::pin(self.send_esi(delivery)).await?,
            (Window::All, _) => self.send_all(answer).await?,
            (Window::Part(low, high), _) => self.send_only_span(answer, low, high, Amount::Exactly).await?,
            (Window::UpTo(low, high), _) => self.send_only_span(answer, low, high, Amount::AtMost).await?,
            (Window::Parts(multipart), _) => {
                let Multipart { parts, heads, tail } = *multipart;
                for part in parts {
                    self.begin_part(&heads, part).await?;
                    self.send_span(&mut answer, part.low, part.high).await?;
                }
                self.push(Buf::unaccounted(tail), false).await?;
            }
        }
        if self.down.chain.is_empty() {
            return Ok(());
        }
        self.push(Buf::unaccounted(Vec::new()), true).await
    }

    async fn send_all(&mut self, answer: Answer) -> Result<(), DeliveryFailure> {
        match answer {
            Answer::Made(body) => self.push(body, false).await,
            Answer::Object(Delivery { extent: Extent::Form(form), .. }) => self.send_form(&form, 0, form.bytes()).await,
            Answer::Object(delivery) => self.send_object(&mut delivery.into_reader(0), Amount::All).await,
        }
    }

    /// Does what [`Outlet::send_span`] does, and leaves nobody but the reader with the object: a body that outgrows its
    /// store is passed on to a single holder.
    async fn send_only_span(
        &mut self,
        answer: Answer,
        low: u64,
        high: u64,
        amount: fn(u64) -> Amount,
    ) -> Result<(), DeliveryFailure> {
        match answer {
            Answer::Object(delivery) if delivery.form().is_none() => {
                let start = delivery.offset_of(low, high)?;
                self.send_object(&mut delivery.into_reader(start), amount(high - low + 1)).await
            }
            mut answer => self.send_span(&mut answer, low, high).await,
        }
    }

    /// Sends the bytes from `low` up to and with `high`.
    async fn send_span(&mut self, answer: &mut Answer, low: u64, high: u64) -> Result<(), DeliveryFailure> {
        match answer {
            Answer::Made(body) => self.push(body.slice(low as usize..high as usize + 1), false).await,
            Answer::Object(Delivery { extent: Extent::Form(form), .. }) => self.send_form(form, low, high + 1).await,
            Answer::Object(delivery) => {
                let start = delivery.offset_of(low, high)?;
                self.send_object(&mut delivery.reader_at(start), Amount::Exactly(high - low + 1)).await
            }
        }
    }
}
