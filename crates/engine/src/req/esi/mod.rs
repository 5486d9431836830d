// SPDX-License-Identifier: BSD-2-Clause
//! ESI delivery: walks an object's program; what it includes are requests of their own whose bodies go into this one's.
//!
//! Varnish's ESI 1.0 subset: one include after the other (or `esi_parallel` at once: see `prefetch`), `max_esi_depth` levels, each fragment with its own VCL, TTL
//! and log transaction. A gzip page is joined from gzip pieces without being unpacked.

mod adapter;
mod body_only;
mod child_transport;
mod context;
mod prefetch;
mod subrequest;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use cache::BodyReader;
use esi::{EsiInclude, EsiProgram, EsiStep};
use filters::stitch::{self, GzipSum};
use message::{Head, names};
use params::FeatureBit;
use storage::Buf;
use tables::Compat;
use tables::close::SessClose;
use tables::tags::Tag;

pub(super) use self::adapter::Adapter;
use self::child_transport::ChildTransport;
pub(crate) use self::context::EsiContext;
use self::context::Top;
use self::prefetch::{End, Prefetch};
use super::Req;
use super::delivery::Delivery;
use super::outlet::{Outlet, QUEUE_BYTES, close_of};
use super::transmit::DeliveryFailure;
use crate::aux_attrs::AuxAttrs;
use crate::contain::{Panic, contained};
use crate::current::StepName;
use crate::httplog::REQ;
use crate::transport::Transport;

/// Levels beyond which `max_esi_depth` doesn't count: each is a nested call, and the stack has an end.
const DEPTH_MAX: u32 = 64;

/// The body of a page as it is read along its program.
struct StoredPage {
    reader: BodyReader,
    at: u64,
}

/// The page's own gzip: what was joined so far.
struct Page {
    is_gzip: bool,
    sum: GzipSum,
}

impl Outlet<'_> {
    /// Delivers an object along its ESI program.
    pub(in crate::req) async fn send_esi(&mut self, delivery: &mut Delivery) -> Result<(), DeliveryFailure> {
        let top = self.req.share_top();
        let obj = delivery.obj.clone();
        let Ok(mut program) = EsiProgram::parse(AuxAttrs::read(obj.aux_attrs()).program.unwrap_or_default()) else {
            return Err(self.req.corrupt());
        };
        let mut page = Page { is_gzip: program.is_gzip(), sum: GzipSum::default() };
        let has_frame = page.is_gzip && !self.req.esi.parent().is_some_and(|parent| parent.is_gzip);
        if has_frame {
            self.push(Buf::unaccounted(stitch::HEADER.to_vec()), false).await?;
        }
        let mut stored = StoredPage { reader: delivery.reader_at(0), at: 0 };
        let mut prefetch = self.req.may_include().then(|| Prefetch::new(top.clone(), program));
        if let Some(prefetch) = &mut prefetch {
            self.req.prefetch(prefetch, page.is_gzip);
        }
        while let Some(step) = program.next_step().map_err(|_| self.req.corrupt())? {
            self.down.steps += 1;
            // Beside what each piece is charged with: a page may be nothing but crumbs.
            if rt::spend_piece(0) {
                self.let_others_go_first().await?;
            }
            let done = match step {
                EsiStep::Skip { bytes } => {
                    stored.skip(bytes);
                    Ok(())
                }
                EsiStep::Verbatim { bytes, piece } => {
                    self.down.stored += bytes;
                    if let Some(piece) = piece {
                        page.sum.join(GzipSum { crc: piece.crc, plain_bytes: piece.plain_bytes });
                    }
                    self.send_verbatim(&mut stored, bytes).await
                }
                EsiStep::Include(include) => match prefetch.as_mut().map(|prefetch| prefetch.take(program)) {
                    Some(Some(fragment)) => self.deliver_prefetched(fragment, &mut page).await,
                    Some(None) => self.include(&include, &top, &mut page).await,
                    None => self.req.refuse_include(&include),
                },
            };
            if self.down.is_over() {
                break;
            }
            if let Some(prefetch) = prefetch.as_mut().filter(|_| done.is_ok()) {
                self.req.prefetch(prefetch, page.is_gzip);
            }
            if done.is_err() {
                self.req.joined(&page, has_frame);
                return done;
            }
        }
        if has_frame {
            let tail = stitch::tail(page.sum.crc, page.sum.plain_bytes);
            self.push(Buf::unaccounted(tail.to_vec()), false).await?;
        }
        self.req.joined(&page, has_frame);
        Ok(())
    }

    async fn send_verbatim(&mut self, stored: &mut StoredPage, mut bytes: u64) -> Result<(), DeliveryFailure> {
        while bytes > 0 {
            let Some(piece) = self.next_piece(&mut stored.reader).await? else {
                return Err(self.req.corrupt());
            };
            let n = bytes.min(piece.len() as u64);
            self.push(piece.slice(0..n as usize), false).await?;
            bytes -= n;
            stored.skip(n);
        }
        Ok(())
    }

    async fn include(&mut self, include: &EsiInclude, top: &Rc<Top>, page: &mut Page) -> Result<(), DeliveryFailure> {
        // Nobody asks for fragments on behalf of a client that is gone.
        poll_fn(|cx| match self.transport.poll_flush(cx, NOTICE_BYTES) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(())),
        })
        .await
        .map_err(|error| DeliveryFailure::Client(close_of(error)))?;
        // However deep: all of a page's fragments run within its own task, and are charged to it.
        if rt::spend_guess(FRAGMENT_MICROS) {
            self.let_others_go_first().await?;
        }
        let mut child = self.req.child(include, top, page.is_gzip);
        let mut nested = ChildTransport::new(&mut *self.down, &mut *self.transport);
        let ran = {
            // Named, for a future that contains itself has no size.
            let mut run: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(child.run(&mut nested));
            contained(run.as_mut()).await
        };
        if ran.is_err() {
            child.note_panic();
        }
        let flushed = poll_fn(|cx| nested.poll_flush(cx, QUEUE_BYTES)).await;
        let (is_cut, failure) = (nested.is_cut(), nested.failure().copied());
        child.finish(&nested);
        crate::current::enter(self.req.log.vxid(), const { StepName::new("esi") });
        if let Some(failure) = failure {
            self.req.log.putf(Tag::Error, format_args!("{failure}"));
            return Err(DeliveryFailure::Fetch);
        }
        flushed.map_err(|error| DeliveryFailure::Client(close_of(error)))?;
        self.req.included(ran.map(|()| child.end_of_fragment(is_cut)), include.continue_on_error, page)
    }
}

impl Req {
    /// The state that the fragments of this response share.
    fn share_top(&mut self) -> Rc<Top> {
        let (head, t_req, params) = (&self.ask.head, self.ask.t_req, &self.params);
        let crawler = self.crawler();
        self.esi.share(|| {
            let mut copy = Head::with_limits(head.limits());
            copy.copy_from(head);
            let places = match params.esi_parallel {
                1 => 0,
                many => many,
            };
            Top { head: copy, t_req, crawler, places: Cell::new(places) }
        })
    }

    /// Tells the page around this one what was joined to it.
    fn joined(&mut self, page: &Page, has_frame: bool) {
        if let Some(parent) = self.esi.parent_mut().filter(|_| page.is_gzip && !has_frame) {
            parent.sum = page.sum;
        }
    }

    fn corrupt(&mut self) -> DeliveryFailure {
        self.log.put(Tag::Error, b"ESI program is corrupt");
        DeliveryFailure::Fetch
    }

    /// True if fragments may be nested one level deeper.
    fn may_include(&self) -> bool {
        self.esi.level() < self.params.max_esi_depth.min(DEPTH_MAX)
    }

    /// An include that is nested too deep. Up to 7.3 the page goes on without it, whatever its onerror says.
    fn refuse_include(&mut self, include: &EsiInclude) -> Result<(), DeliveryFailure> {
        self.refuse_depth();
        let ends_page = self.params.compat().is_9() && !include.continue_on_error && self.heeds_onerror();
        if ends_page { Err(DeliveryFailure::Page) } else { Ok(()) }
    }

    fn heeds_onerror(&self) -> bool {
        self.params.feature.has(FeatureBit::EsiIncludeOnerror)
    }

    /// True for a fragment whose response is an error that its page must not contain. Up to 7.1 it is included.
    pub(super) fn is_left_out(&self) -> bool {
        let is_error = || !matches!(self.resp.head.status() % 1000, 200 | 204);
        self.esi.is_fragment() && self.params.compat().is_9() && self.heeds_onerror() && is_error()
    }

    fn refuse_depth(&mut self) {
        let limit = self.params.max_esi_depth.min(DEPTH_MAX);
        self.log.putf(Tag::VclError, format_args!("ESI depth limit reach (param max_esi_depth = {limit})"));
    }

    /// Result of a fragment for its page. `is_cut`: its transport was told that it is incomplete.
    fn end_of_fragment(&self, is_cut: bool) -> End {
        let parent = self.esi.parent().expect("only fragments are ended so");
        End { sum: parent.sum, cut: parent.cut, is_cut }
    }

    /// A fragment came to its end: whether its page goes on.
    fn included(
        &mut self,
        end: Result<End, Panic>,
        continues_on_error: bool,
        page: &mut Page,
    ) -> Result<(), DeliveryFailure> {
        let Ok(End { sum, cut, is_cut }) = end else { return Err(DeliveryFailure::Client(SessClose::Overload)) };
        page.sum.join(sum);
        match cut {
            Some(DeliveryFailure::Fetch) => {}
            Some(cut @ (DeliveryFailure::Client(_) | DeliveryFailure::Page)) => return Err(cut),
            None if is_cut => {}
            None => return Ok(()),
        }
        if self.heeds_onerror() && !continues_on_error { Err(DeliveryFailure::Page) } else { Ok(()) }
    }

    /// The request for a fragment: as the client's came, but for what asks for a part, a condition, a body.
    fn child(&mut self, include: &EsiInclude, top: &Rc<Top>, is_gzip: bool) -> Box<Req> {
        let engine = self.engine().clone();
        let vxid = engine.vxids.take();
        let mut child = Box::new(Req::new(&self.client.sess, vxid, self.params.clone(), self.ask.t_req));
        let level = self.esi.level() + 1;
        match self.params.compat() {
            Compat::V7_1 => {
                child.log.putf(Tag::Begin, format_args!("req {} esi", self.log.vxid()));
                self.log.putf(Tag::Link, format_args!("req {vxid} esi"));
            }
            Compat::V9 => {
                child.log.putf(Tag::Begin, format_args!("req {} esi {level}", self.log.vxid()));
                self.log.putf(Tag::Link, format_args!("req {vxid} esi {level}"));
            }
        }
        child.log.timestamp("Start", engine.clock.real());
        engine.main.esi_req.inc();
        child.esi = EsiContext::fragment(level, top.clone(), is_gzip);
        child.client.early = self.client.early.clone();
        child.vcl = self.vcl.of_fragment();
        if child.ask_for(include, is_gzip, &self.ask.original).is_err() {
            child.log.count_lost();
        }
        child
    }

    fn ask_for(&mut self, include: &EsiInclude, is_gzip: bool, parent: &Head) -> Result<(), message::LostHeader> {
        let (head, log) = (&mut self.ask.head, &mut self.log);
        head.copy_from(parent);
        head.set_url(&include.url)?;
        log.put(Tag::ReqUrl, &include.url);
        if let Some(host) = include.host.as_ref().filter(|host| !host.is_empty()) {
            REQ.unset(head, log, names::HOST);
            REQ.append(head, log, names::HOST, &[host])?;
        }
        if head.method() != b"GET" {
            head.set_method("GET")?;
            log.put(Tag::ReqMethod, b"GET");
        }
        if head.proto() != b"HTTP/1.1" {
            head.set_proto("HTTP/1.1")?;
            log.put(Tag::ReqProtocol, b"HTTP/1.1");
        }
        for name in [names::IF_MODIFIED_SINCE, names::IF_NONE_MATCH, names::RANGE] {
            REQ.unset(head, log, name);
        }
        if is_gzip {
            REQ.force(head, log, names::ACCEPT_ENCODING, b"gzip")?;
        } else {
            REQ.unset(head, log, names::ACCEPT_ENCODING);
        }
        // The client's body went with the page.
        REQ.unset(head, log, names::CONTENT_LENGTH);
        head.unset(names::TRANSFER_ENCODING);
        Ok(())
    }
}

/// Bytes that may be queued before an include checks if the client still reads.
const NOTICE_BYTES: usize = 16 * 1024;
/// Least charge for a fragment in microseconds: about one from the cache.
const FRAGMENT_MICROS: u32 = 10;

impl StoredPage {
    fn skip(&mut self, bytes: u64) {
        self.at += bytes;
        self.reader.seek(self.at);
    }
}
