// SPDX-License-Identifier: BSD-2-Clause
//! The response goes out: filters, range, framing, and the body as it is stored or comes in.

use std::future::poll_fn;
use std::task::{Context, Poll};

use base::Vxid;
use cache::{BodyReadError, BodyReader, ObjRef};
use filters::{
    Chain, DeliverInput, Edit, FilterNote, FilterState, Multipart, PartHeads, RangePart, RangeVerdict, open_deliver,
};
use message::{Coding, names};
use shm::vsl::num::dec;
use storage::Buf;
use tables::close::SessClose;
use tables::tags::Tag;

use super::downstream::Downstream;
use super::esi::Adapter;
use super::parts::place_of;
use super::{BodySource, Req, ReqStep};
use crate::aux_attrs::AuxAttrs;
use crate::httplog::{RESP, log_processors};
use crate::parts::StoredParts;
use crate::transport::{BodyLen, SendError, Transport};

/// Bytes that may be queued for the client before the delivery waits for it.
pub(super) const QUEUE_BYTES: usize = 256 * 1024;

/// Bytes that may be queued if filters made them: they are in no store.
const MADE_BYTES: usize = 64 * 1024;

/// Bytes that may be queued if they are in no store.
const SQUEEZED_BYTES: usize = 16 * 1024;

/// Charge in microseconds for each part of a multipart response, in addition to its bytes.
const PART_MICROS: u32 = 2;

struct Plan {
    chain: Chain,
    do_esi: bool,
    len: Option<u64>,
    window: Window,
}

/// The part of the stored body that is sent if nothing else happens to it, so that the rest needn't be read.
pub(super) enum Window {
    All,
    /// The bytes from the first up to and with the second.
    Part(u64, u64),
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

impl Req {
    pub(super) async fn transmit(&mut self, source: BodySource, transport: &mut dyn Transport) -> ReqStep {
        if transport.asks_tunnel() && self.resp.status() % 1000 / 100 == 2 {
            self.refuse_tunnel();
        }
        let clen = http1::framing::content_length(&self.resp, true).ok().flatten();
        let parts = source.object().and_then(StoredParts::of);
        let stored = match &source {
            BodySource::Object(_) if let Some(parts) = &parts => Some(parts.total),
            BodySource::Object(obj) => match &self.sliced {
                Some(sliced) => Some(sliced.total()),
                None => obj.body_len().or(clen),
            },
            BodySource::Made(body) => Some(body.len() as u64),
        };
        let to_head = self.original.method() == b"HEAD";
        let Ok(plan) = self.plan(source.object(), stored) else {
            self.log.put(Tag::Error, b"Failure to push processors");
            self.close = Some(SessClose::Overload);
            self.mark("Resp");
            return ReqStep::Done;
        };
        let status = self.resp.status() % 1000;
        let mut send_body = !(to_head || status < 200 || status == 204 || status == 304);
        // What is behind a body of announced length reaches few clients, and nothing is behind none.
        let has_trailers = send_body && self.has_trailers(&source);
        let len = plan.len.filter(|&len| !has_trailers || (clen.is_some() && len > 0));
        if status < 200 || status == 204 || status == 304 {
            RESP.unset(&mut self.resp, &mut self.log, names::CONTENT_LENGTH);
        } else if clen.is_some() && clen == len {
            // The stored field says it already.
        } else if to_head && source.object().is_some_and(|obj| obj.flags().is_uncacheable()) {
            // What the backend said to HEAD stands.
        } else {
            RESP.unset(&mut self.resp, &mut self.log, names::CONTENT_LENGTH);
            if let Some(len) = len {
                self.set_resp(names::CONTENT_LENGTH, &[dec(len).as_bytes()]);
            }
        }
        send_body &= len != Some(0);
        if send_body
            && let Some(parts) = &parts
            && let Some(step) = self.refuse_beyond_parts(parts, &plan.window, plan.chain.is_empty())
        {
            return step;
        }
        let announced = match (send_body, len) {
            (false, _) => BodyLen::None,
            (true, Some(len)) => BodyLen::Known(len),
            (true, None) => BodyLen::Unknown,
        };
        let made_by = source.object().map(ObjRef::xid);
        if self.resp.status() % 1000 >= 500 && !self.esi.is_fragment() && self.trial.is_none() {
            self.engine().main.client_5xx.tally();
        }
        self.close = transport.send_head(&mut self.resp, announced, self.close, &mut self.log);
        let mut down = Downstream::new(plan.chain, Adapter::Through);
        let asks_more = plan.do_esi || self.sliced.is_some() || self.esi.is_fragment();
        let mut sent = Ok(());
        if send_body {
            sent = match self.adapter(source.object(), plan.do_esi, transport).await {
                Some(adapter) => {
                    down.adapter = adapter;
                    if let Some(first) = down.chain.take_subrequests() {
                        // Boxed: few ask for anything.
                        Box::pin(self.answer_filters(first, &mut down.chain, transport)).await;
                    }
                    self.is_told = !asks_more;
                    self.send_body(source, plan.window, plan.do_esi, &mut down, transport).await
                }
                None => Err(DeliveryFailure::Fetch),
            };
        }
        if send_body || !self.esi.is_fragment() {
            let ended = self.end_body(&down, plan.do_esi, send_body);
            // A fragment that its page can't go on from weighs more than why it broke off.
            sent = ended.and(sent);
        }
        match sent {
            Ok(()) => self.send_end(made_by.filter(|_| send_body), transport),
            Err(cut) => {
                transport.abort();
                self.close = Some(match cut {
                    DeliveryFailure::Fetch | DeliveryFailure::Page => SessClose::TxError,
                    DeliveryFailure::Client(close) => close,
                });
                if let Some(parent) = self.esi.parent_mut() {
                    parent.cut = Some(cut);
                }
            }
        }
        if !self.esi.is_fragment()
            && !transport.has_input()
            && let Err(error) = poll_fn(|cx| resting(transport.poll_flush(cx, 0), self)).await
        {
            self.close.get_or_insert(close_of(error));
        }
        self.mark("Resp");
        ReqStep::Done
    }

    fn has_trailers(&self, source: &BodySource) -> bool {
        let Some(obj) = source.object() else { return false };
        self.trailers.as_ref().is_some_and(|trailers| trailers.are_there(obj.xid()))
    }

    /// The body is out, with what its fetch, if it was this request's, has found behind it.
    fn send_end(&mut self, made_by: Option<Vxid>, transport: &mut dyn Transport) {
        let trailers = self.trailers.take().zip(made_by).and_then(|(trailers, made_by)| trailers.take(made_by));
        if let Some(trailers) = &trailers {
            RESP.log_fields(trailers, &mut self.log);
        }
        transport.send_end(trailers.as_ref());
    }

    fn plan(&mut self, obj: Option<&ObjRef>, stored: Option<u64>) -> Result<Plan, ()> {
        self.form = None;
        let mut list = self.list_to_run(obj);
        // As varnishd: a form is what these would make of the body.
        self.log.put(Tag::Filters, list.as_bytes());
        let stored = self.take_form(obj).or(stored);
        if self.form.is_some() {
            list = self.list_to_run(obj);
        }
        log_processors(&mut self.log, &self.params, "VDP_push", list.as_bytes());
        self.name_form();
        if list.is_empty() {
            return Ok(Plan { chain: Chain::new(), do_esi: false, len: stored, window: Window::All });
        }
        let coding = Coding::of_content(self.resp.joined(names::CONTENT_ENCODING).as_deref());
        // Before a range is judged, as each filter changes the head when its turn comes.
        if list.undoes_coding() {
            RESP.unset(&mut self.resp, &mut self.log, names::CONTENT_ENCODING);
        }
        let has_esi = obj.is_some_and(|obj| obj.flags().has_esi);
        let mut window = Window::All;
        let mut injected = std::mem::take(self.filters.injected());
        let opened = open_deliver(
            &list,
            DeliverInput {
                body_bytes: stored,
                plain_bytes: obj.and_then(plain_bytes),
                has_esi,
                status: self.resp.status(),
                coding,
                range: &mut |len| {
                    let verdict = self.judge_range(obj, len);
                    match &verdict {
                        RangeVerdict::Part(low, high) => window = Window::Part(*low, *high),
                        RangeVerdict::Parts(parts) => window = Window::Parts(Box::new(parts.clone())),
                        RangeVerdict::Whole | RangeVerdict::Unsatisfiable => {}
                    }
                    verdict
                },
            },
            &mut injected,
        );
        let opened = opened.map_err(|error| self.log.putf(Tag::Error, format_args!("{error}")))?;
        for (name, reason) in &opened.left_out {
            self.log.putf(Tag::VclError, format_args!("{name} leaves the body as it is: {reason}"));
        }
        for edit in &opened.edits {
            match edit {
                Edit::Unset(name) => RESP.unset(&mut self.resp, &mut self.log, name),
                Edit::WeakenEtag => self.weaken_resp_etag(),
                Edit::SetCoding(_) | Edit::VaryAcceptEncoding => {}
            }
        }
        let only_range = !matches!(window, Window::All) && opened.chain.len() == 1 && !opened.do_esi;
        let (chain, window) = if only_range { (Chain::new(), window) } else { (opened.chain, Window::All) };
        Ok(Plan { chain, do_esi: opened.do_esi, len: opened.body_bytes, window })
    }

    pub(super) fn put_status(&mut self, status: u16) {
        if self.resp.set_status(status).is_err() {
            self.log.count_lost();
        }
        RESP.log_status(&self.resp, &mut self.log);
    }

    async fn send_body(
        &mut self,
        source: BodySource,
        window: Window,
        do_esi: bool,
        down: &mut Downstream,
        transport: &mut dyn Transport,
    ) -> Result<(), DeliveryFailure> {
        self.engine().count_gzip(&down.chain);
        match source {
            BodySource::Made(body) => {
                let body = Buf::unaccounted(body);
                let cut = |low: u64, high: u64| body.slice(low as usize..high as usize + 1);
                match window {
                    Window::All => self.push(down, body, false, transport).await?,
                    Window::Part(low, high) => self.push(down, cut(low, high), false, transport).await?,
                    Window::Parts(multipart) => {
                        for part in multipart.parts {
                            self.begin_part(&multipart.heads, part, down, transport).await?;
                            self.push(down, cut(part.low, part.high), false, transport).await?;
                        }
                        self.push(down, Buf::unaccounted(multipart.tail), false, transport).await?;
                    }
                }
            }
            BodySource::Object(_) if let Some(form) = self.form.take() => {
                self.send_form(&form, window, down, transport).await?;
            }
            // Boxed: the few pages with ESI shan't make every request's future larger.
            BodySource::Object(_) if self.sliced.is_some() => {
                Box::pin(self.send_slices(window, down, transport)).await?
            }
            BodySource::Object(obj) if do_esi => Box::pin(self.send_esi(&obj, down, transport)).await?,
            BodySource::Object(obj) => match window {
                Window::All => {
                    let mut reader = self.reader_of(obj, 0);
                    self.send_object(&mut reader, None, down, transport).await?;
                }
                Window::Part(low, high) => {
                    let at = place_of(&obj, low, high)?;
                    let mut reader = self.reader_of(obj, at);
                    self.send_object(&mut reader, Some(high - low + 1), down, transport).await?;
                }
                Window::Parts(multipart) => {
                    for part in multipart.parts {
                        self.begin_part(&multipart.heads, part, down, transport).await?;
                        let bytes = part.high - part.low + 1;
                        let at = place_of(&obj, part.low, part.high)?;
                        let mut reader = self.reader_of(obj.clone(), at);
                        self.send_object(&mut reader, Some(bytes), down, transport).await?;
                    }
                    self.push(down, Buf::unaccounted(multipart.tail), false, transport).await?;
                }
            },
        }
        if down.chain.is_empty() {
            return Ok(());
        }
        self.push(down, Buf::unaccounted(Vec::new()), true, transport).await.map(drop)
    }

    pub(super) async fn begin_part(
        &mut self,
        heads: &PartHeads,
        part: RangePart,
        down: &mut Downstream,
        transport: &mut dyn Transport,
    ) -> Result<(), DeliveryFailure> {
        if rt::spend(PART_MICROS) {
            self.let_others_go_first(transport).await?;
        }
        self.push(down, Buf::unaccounted(heads.of(part)), false, transport).await
    }

    pub(super) async fn send_object(
        &mut self,
        reader: &mut BodyReader,
        bytes: Option<u64>,
        down: &mut Downstream,
        transport: &mut dyn Transport,
    ) -> Result<(), DeliveryFailure> {
        let mut left = bytes.unwrap_or(u64::MAX);
        reader.stop_at(reader.offset().saturating_add(left));
        while left > 0 {
            let mut piece = match self.next_piece(reader, transport).await {
                Ok(Some(piece)) => piece,
                // A range that ends early ends with `RangeShort`, whatever cut it.
                Ok(None) => break,
                Err(DeliveryFailure::Fetch) if bytes.is_some() => break,
                Err(cut) => return Err(cut),
            };
            if piece.len() as u64 > left {
                piece = piece.slice(0..left as usize);
            }
            left -= piece.len() as u64;
            self.noted.again(&self.engine().stores);
            self.push(down, piece, false, transport).await?;
            if reader.object().is_squeezed() {
                self.flush_to(SQUEEZED_BYTES, transport).await?;
            }
        }
        if bytes.is_some() && left > 0 {
            return Err(DeliveryFailure::Client(SessClose::RangeShort));
        }
        Ok(())
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

    /// The next piece of the stored body. While it isn't there what is queued goes out.
    pub(super) async fn next_piece(
        &mut self,
        reader: &mut BodyReader,
        transport: &mut dyn Transport,
    ) -> Result<Option<Buf>, DeliveryFailure> {
        let body = self.body.clone();
        poll_fn(|cx| {
            if let Poll::Ready(next) = reader.poll_next(cx) {
                return Poll::Ready(next.map_err(|error| self.broken_object(error, reader.object())));
            }
            let _ = body.poll_pump(cx, transport);
            self.log.rest();
            match transport.poll_flush(cx, 0) {
                Poll::Ready(Err(error)) => Poll::Ready(Err(DeliveryFailure::Client(close_of(error)))),
                Poll::Ready(Ok(())) | Poll::Pending if self.gives_up => {
                    self.poll_peer_closed(cx, transport).map(|()| Err(DeliveryFailure::GONE))
                }
                Poll::Ready(Ok(())) | Poll::Pending => transport.poll_reset(cx).map(|()| Err(DeliveryFailure::GONE)),
            }
        })
        .await
    }

    /// Handles a body that can't be read on.
    #[cold]
    fn broken_object(&mut self, error: BodyReadError, obj: &ObjRef) -> DeliveryFailure {
        if let BodyReadError::Store(error) = error {
            self.log.putf(Tag::Error, format_args!("Storage: {error}"));
            self.engine().cache.lose(obj);
        }
        DeliveryFailure::Fetch
    }

    /// Ready when the client is gone, if that is to be noticed before the next write.
    pub(super) fn poll_peer_closed(&self, cx: &mut Context<'_>, transport: &mut dyn Transport) -> Poll<()> {
        if self.params.pass_abort { transport.poll_peer_closed(cx) } else { Poll::Pending }
    }

    /// Queues a piece, through the filters; waits when much is queued.
    pub(super) async fn push(
        &mut self,
        down: &mut Downstream,
        mut piece: Buf,
        is_last: bool,
        transport: &mut dyn Transport,
    ) -> Result<(), DeliveryFailure> {
        if down.is_immediate() {
            // Who reads as fast as we write would have the thread to itself.
            if rt::spend_piece(piece.len()) {
                self.let_others_go_first(transport).await?;
            }
            down.pass(piece, transport);
            return self.flush_some(transport).await;
        }
        loop {
            let step = match down.step(&mut piece, is_last, transport) {
                Ok(step) => step,
                Err(error) => return Err(self.broken_body(down, &error)),
            };
            if transport.queued() >= MADE_BYTES {
                self.flush_to(MADE_BYTES / 4, transport).await?;
            }
            if rt::spend_guess(down.take_micros()) {
                self.let_others_go_first(transport).await?;
            }
            match step.state {
                FilterState::End | FilterState::Hungry => return Ok(()),
                FilterState::More => {}
            }
        }
    }

    /// Lets other tasks run, after its stint. Queued bytes go out first.
    pub(super) async fn let_others_go_first(&mut self, transport: &mut dyn Transport) -> Result<(), DeliveryFailure> {
        let flushed = poll_fn(|cx| Poll::Ready(transport.poll_flush(cx, 0))).await;
        if let Poll::Ready(Err(error)) = flushed {
            return Err(DeliveryFailure::Client(close_of(error)));
        }
        rt::give_way().await;
        Ok(())
    }

    /// Handles a body that a filter can't process, and logs the filter's text if it has one.
    fn broken_body(&mut self, down: &mut Downstream, error: &filters::FilterError) -> DeliveryFailure {
        let told = down.take_gzip_notes();
        if told.is_empty() {
            self.log.putf(Tag::Error, format_args!("{error}"));
        }
        for text in told {
            self.log.put(Tag::Gzip, text.as_bytes());
        }
        match error {
            filters::FilterError::RangeShort => DeliveryFailure::Client(SessClose::RangeShort),
            _ => DeliveryFailure::Fetch,
        }
    }

    async fn flush_some(&mut self, transport: &mut dyn Transport) -> Result<(), DeliveryFailure> {
        if transport.queued() < QUEUE_BYTES {
            return Ok(());
        }
        self.flush_to(QUEUE_BYTES / 4, transport).await
    }

    async fn flush_to(&mut self, keep: usize, transport: &mut dyn Transport) -> Result<(), DeliveryFailure> {
        let body = self.body.clone();
        poll_fn(|cx| {
            let _ = body.poll_pump(cx, transport);
            resting(transport.poll_flush(cx, keep), self)
        })
        .await
        .map_err(|error| DeliveryFailure::Client(close_of(error)))
    }
}

/// Passes the result on. While the client doesn't read, releases memory that others can use.
fn resting<T>(polled: Poll<T>, req: &mut Req) -> Poll<T> {
    if polled.is_pending() {
        req.rest();
    }
    polled
}

/// Length of the decompressed stored body, if that is known.
pub(super) fn plain_bytes(obj: &ObjRef) -> Option<u64> {
    obj.body_len()?;
    let aux_attrs = AuxAttrs::read(obj.aux_attrs());
    let gzip = aux_attrs.gzip_bits.map(|bits| bits.plain_bytes).filter(|&plain| plain > 0);
    gzip.or(aux_attrs.plain_bytes)
}

pub(super) fn close_of(error: SendError) -> SessClose {
    match error {
        SendError::Closed => SessClose::RemClose,
        SendError::TimedOut => SessClose::TxError,
    }
}
