// SPDX-License-Identifier: BSD-2-Clause
//! The body on its way from the backend through the filters into storage.

use std::future::poll_fn;
use std::ops::Range;
use std::task::{Context, Poll};

use backend::{BodyStatus, Data, ResponseBodyError};
use cache::{ObjectFlags, Unwanted};
use esi::ComplaintSeverity;
use filters::{
    CacheSide, Chain, ChainOpenError, Edit, FetchFacts, FetchInput, FilterList, FilterNote, FilterState, GzipParams,
    PackParams, default_fetch, open_fetch,
};
use message::dictionary::USE_AS_DICTIONARY;
use message::{Coding, Head, LostHeader, digest, encoding, names};
use storage::{Buf, StoreId};
use tables::Compat;
use tables::close::SessClose;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;
use tables::vclvars::Var;

use super::digests::{BodyCheck, HASHED_A_MICRO};
use super::kind::OpenedBody;
use super::state::Fill;
use super::upload::UploadProgress;
use super::wire::{Limit, WaitOutcome};
use super::{Bereq, FetchStep, HELD, OriginExchange};
use crate::aux_attrs::{AuxAttrs, Metadata};
use crate::engine::Engine;
use crate::httplog::{BERESP, log_processors};

impl OriginExchange {
    /// Ready when something moved of what is left of the request. Where its client breaks it, the origin sees a cut.
    fn poll_upload(&mut self, beresp: &mut Head, cx: &mut Context<'_>) -> Poll<Result<(), ResponseBodyError>> {
        let Some(upload) = &mut self.upload else { return Poll::Pending };
        let Poll::Ready(progress) = upload.poll(&mut self.conn, beresp, cx) else { return Poll::Pending };
        let error = match progress {
            Ok(UploadProgress::Moved) => return Poll::Ready(Ok(())),
            Ok(UploadProgress::Over) => {
                self.upload = None;
                return Poll::Pending;
            }
            Err(error) => error,
        };
        self.upload = None;
        self.conn.reset(SessClose::RxBody);
        self.close = Some(SessClose::RxBody);
        Poll::Ready(Err(ResponseBodyError::Broken(ProxyError::HttpRequestError, error.text())))
    }
}

/// Bytes that are copied in about a microsecond to where nothing has been yet.
const NEW_BYTES_A_MICRO: usize = 3000;

pub(super) enum BodyFailure {
    /// A failure that is logged already.
    Logged,
    /// The connection broke off. This is logged already, and the bytes that came are good.
    Cut,
    /// The only client is gone: end in good order.
    Unwanted,
}

struct NoStorage;

impl Fill {
    fn append(&mut self, data: &[u8], engine: &Engine) -> Result<(), NoStorage> {
        if data.is_empty() {
            return Ok(());
        }
        let busy = self.busy.as_mut().expect(HELD);
        if let Some(left) = self.object.body_limit {
            let left = left.checked_sub(data.len() as u64);
            // Longer than a short one: that is its one client's.
            if left.is_none() && !busy.outgrow() {
                return Err(NoStorage);
            }
            self.object.body_limit = left;
        }
        let piece = match engine.fetches.piece_bytes() {
            0 => data.len(),
            piece => piece,
        };
        data.chunks(piece).try_for_each(|piece| busy.append(piece)).map_err(|_| NoStorage)
    }
}

impl Bereq {
    pub(super) async fn fetch_body(&mut self) -> FetchStep {
        let Some(link) = &self.ask.link else {
            self.fetch_error("No backend connection (rollback?)");
            return FetchStep::Error;
        };
        let received = link.body;
        let mut check = self.begin_check(received);
        let opened = match self.open(received).await {
            Ok(opened) => opened,
            Err(step) => return step,
        };
        let Ok((mut chain, flags, is_esi)) = self.open_chain(&opened) else {
            self.end_link(Some(SessClose::RxBody));
            return FetchStep::Error;
        };
        if opened.status != BodyStatus::None
            && let Err(step) = self.judge_incremental(&chain, is_esi)
        {
            return step;
        }
        // A slice or a part announces the length of more than the body that the trailers verify.
        let is_trailed = !self.kind.is_placed() && check.as_ref().is_some_and(|check| check.awaits_trailers());
        self.announce_truth(if is_trailed { BodyStatus::Chunked } else { opened.announced });
        // The program of an ESI object is known at its end, and so is its filters' metadata.
        let streams = self.fill.settings.do_stream && !is_esi && !chain.has_metadata();
        if self.store_head(flags, streams).is_err() {
            self.end_link(Some(SessClose::RxBody));
            return FetchStep::Error;
        }
        if streams {
            self.busy().start_stream();
        } else {
            // Nobody reads it before its end: there is no reader to wait for.
            self.busy().set_transit_buffer(None);
        }
        let (status, how) = (opened.status, if streams { "stream" } else { "-" });
        self.log.record(Tag::FetchBody).num(status.number().into()).text(" ").text(status.word()).text(" ").text(how);
        let moved = match (status, check.as_deref_mut()) {
            (BodyStatus::None, Some(check)) => self.check_end(check),
            (BodyStatus::None, None) => Ok(()),
            (_, check) => self.move_body(&mut chain, check).await,
        };
        let is_plain = chain.is_empty();
        self.close_filters(&mut chain);
        let moved = match moved {
            Ok(()) => self.store_aux_attrs(&mut chain).await,
            Err(failure) => Err(failure),
        };
        match moved {
            Ok(()) => self.end_body().await,
            Err(BodyFailure::Unwanted) => {
                self.log.put(Tag::Debug, b"Fetch: Pass delivery abandoned");
                self.end_link(Some(SessClose::RxBody));
                self.end_body().await
            }
            Err(BodyFailure::Cut) if streams && is_plain && self.cut(received) => {
                self.end_link(Some(SessClose::RxBody));
                FetchStep::Done
            }
            Err(BodyFailure::Logged | BodyFailure::Cut) => self.fail_body(streams),
        }
    }

    fn fail_body(&mut self, streams: bool) -> FetchStep {
        self.end_link(Some(SessClose::RxBody));
        if !streams {
            // The stored part of the body gives way to the error's.
            self.busy().reset();
            return FetchStep::Error;
        }
        self.engine.main.fetch_failed.inc();
        FetchStep::Fail("fetch failed")
    }

    /// The filters that the body needs, what they make of the object, and whether ESI is among them. An error is logged.
    fn open_chain(&mut self, opened: &OpenedBody) -> Result<(Chain, ObjectFlags, bool), ()> {
        if opened.status == BodyStatus::None {
            BERESP.unset(&mut self.beresp, &mut self.log, names::CONTENT_ENCODING);
            self.fill.settings.do_stream = false;
        } else if !opened.is_unfiltered {
            return self.open_filters().map_err(|error| {
                if let ChainOpenError::Refused { vcl_error, .. } = &error {
                    self.log.put(Tag::VclError, vcl_error.as_bytes());
                }
                self.log.putf(Tag::Error, format_args!("{error}"));
            });
        }
        self.log.put(Tag::Filters, b"");
        Ok((Chain::new(), ObjectFlags::NONE, false))
    }

    /// Clients of an object that streams get its announced length: one that VCL made up goes.
    /// (A filter that changes the length has removed the field.)
    fn announce_truth(&mut self, status: BodyStatus) {
        let len = match status {
            BodyStatus::Length(len) => Some(len),
            // The answer to HEAD, or one without a body: what the field says isn't about bytes on this connection.
            BodyStatus::None => return,
            BodyStatus::Chunked | BodyStatus::Eof => None,
        };
        if self.beresp.has(names::CONTENT_LENGTH) && self.announced() != len {
            BERESP.unset(&mut self.beresp, &mut self.log, names::CONTENT_LENGTH);
        }
    }

    pub(super) fn filter_list(&self) -> FilterList {
        let coding = || self.beresp_coding().filter(|&coding| self.params.supported_codings().can_undo(coding));
        self.fill.settings.filters.complete_list(CacheSide::Fetch, || self.default_filters(), coding)
    }

    pub(super) fn beresp_coding(&self) -> Option<Coding> {
        Coding::of_content(self.beresp.joined(names::CONTENT_ENCODING).as_deref())
    }

    fn default_filters(&self) -> FilterList {
        default_fetch(FetchFacts {
            has_body: self.has_body(),
            coding: self.beresp_coding(),
            recode: self.fill.settings.recode,
            do_esi: self.fill.settings.do_esi,
            supported: self.params.supported_codings(),
            is_worked_on: self.fill.settings.filters.go_by_themselves(),
        })
    }

    fn pack_params(&self) -> PackParams {
        let bytes = match self.ask.link.as_ref().map(|link| link.body) {
            Some(BodyStatus::Length(bytes)) => Some(bytes),
            Some(BodyStatus::Chunked | BodyStatus::Eof | BodyStatus::None) | None => None,
        };
        PackParams { bytes, ..crate::forms::pack_params(&self.params) }
    }

    /// Sets `beresp.do_esi`, or one of the variables that compress or decompress the body.
    pub(super) fn set_wish(&mut self, var: Var, is_on: bool) {
        let undo = &mut self.fill.settings.recode.undo;
        match var {
            Var::BerespDoGzip => self.set_made(Coding::Gzip, is_on),
            Var::BerespDoBrotli => self.set_made(Coding::Brotli, is_on),
            Var::BerespDoZstd => self.set_made(Coding::Zstd, is_on),
            Var::BerespDoGunzip => undo.set(Coding::Gzip, is_on),
            Var::BerespDoUnbrotli => undo.set(Coding::Brotli, is_on),
            Var::BerespDoUnzstd => undo.set(Coding::Zstd, is_on),
            _ => self.fill.settings.do_esi = is_on,
        }
    }

    /// Sets whether the body is compressed with an encoding. This server may not be set up to make it.
    fn set_made(&mut self, coding: Coding, is_on: bool) {
        self.fill.settings.recode.make.set(coding, is_on);
        let param = match coding {
            Coding::Identity | Coding::Gzip => return,
            Coding::Brotli => "http_brotli_support",
            Coding::Zstd => "http_zstd_support",
        };
        if is_on && !self.params.supported_codings().has(coding) {
            let coding = coding.token();
            self.log.putf(Tag::VclError, format_args!("The body isn't packed in {coding}: {param} is off"));
        }
    }

    fn open_filters(&mut self) -> Result<(Chain, ObjectFlags, bool), ChainOpenError> {
        let list = self.filter_list();
        let opened = open_fetch(
            &list,
            FetchInput {
                status: self.beresp.status(),
                coding: self.beresp_coding(),
                url: self.ask.head.url(),
                gzip: GzipParams { level: self.params.gzip_level as u8, memlevel: self.params.gzip_memlevel as u8 },
                pack: self.pack_params(),
                esi: crate::esi::features(&self.params),
            },
            self.fill.settings.filters.injected(),
        )?;
        self.log.put(Tag::Filters, list.as_bytes());
        log_processors(&mut self.log, &self.params, "VFP_Open", list.as_bytes());
        for (name, reason) in &opened.left_out {
            self.log.putf(Tag::VclError, format_args!("{name} leaves the body as it is: {reason}"));
        }
        self.engine.count_gzip(&opened.chain);
        opened.edits.iter().for_each(|edit| self.apply(*edit));
        let flags = ObjectFlags { coding: opened.coding, is_recoded: opened.is_recoded, ..ObjectFlags::NONE };
        Ok((opened.chain, flags, opened.is_esi))
    }

    async fn store_aux_attrs(&mut self, chain: &mut Chain) -> Result<(), BodyFailure> {
        let program = chain.take_esi();
        let gzip_bits = chain.gzip_bits().filter(|bits| bits.stop > 0);
        let metadata = Metadata::to_bytes(&chain.take_metadata());
        let plain_bytes = chain.plain_bytes();
        if gzip_bits.is_none() && plain_bytes.is_none() && program.is_none() && metadata.is_none() {
            // Why it is uncacheable was stored with the head.
            return Ok(());
        }
        let reason = self.fill.cacheability.reason().map(<[u8]>::to_vec);
        let aux_attrs = AuxAttrs {
            gzip_bits,
            plain_bytes,
            program: program.as_deref(),
            reason: reason.as_deref(),
            metadata: metadata.as_deref().map(Metadata),
            ..AuxAttrs::default()
        };
        // The program of a page with many tags is long, and is copied into memory that is new each time.
        let stored = aux_attrs.store();
        let micros = (stored.len() / NEW_BYTES_A_MICRO) as u32;
        rt::spent(micros).await;
        let put = self.put_aux_attrs(&stored, program.is_some());
        rt::spent(micros).await;
        put
    }

    pub(super) fn put_aux_attrs(&mut self, aux_attrs: &[u8], has_esi: bool) -> Result<(), BodyFailure> {
        if aux_attrs.is_empty() {
            return Ok(());
        }
        let done = self.busy().set_aux_attrs(aux_attrs, has_esi);
        self.log_events();
        if done.is_err() {
            self.fetch_error("Could not get storage");
            return Err(BodyFailure::Logged);
        }
        Ok(())
    }

    fn apply(&mut self, edit: Edit) {
        match edit {
            Edit::Unset(name) => BERESP.unset(&mut self.beresp, &mut self.log, name),
            Edit::OtherBody => {
                for name in [names::CONTENT_LENGTH].into_iter().chain(digest::OF_A_BODY) {
                    BERESP.unset(&mut self.beresp, &mut self.log, name);
                }
            }
            Edit::SetCoding(coding) => self.count_lost(|this| {
                let token = coding.token().as_bytes();
                BERESP.append(&mut this.beresp, &mut this.log, names::CONTENT_ENCODING, &[token])
            }),
            Edit::WeakenEtag => self.change(names::ETAG, encoding::weaken_etag),
            Edit::VaryAcceptEncoding => self.change(names::VARY, encoding::vary_on_encoding),
        }
    }

    /// Changes a field and logs that, if it did: each old line as it came.
    fn change(&mut self, name: &str, how: fn(&mut Head) -> Result<(), LostHeader>) {
        let value = self.beresp.get(name).map(<[u8]>::to_vec);
        let lines: Vec<_> =
            self.beresp.iter().filter(|field| field.is(name)).map(|field| field.line().to_vec()).collect();
        self.count_lost(|this| how(&mut this.beresp));
        let new = self.beresp.get(name);
        if new == value.as_deref() {
            return;
        }
        for line in &lines {
            self.log.put(Tag::BerespUnset, line);
        }
        if let Some(new) = new {
            self.log.put_parts(Tag::BerespHeader, &[name.as_bytes(), b": ", new]);
        }
    }

    async fn move_body(&mut self, chain: &mut Chain, check: Option<&mut BodyCheck>) -> Result<(), BodyFailure> {
        self.take_stored(true).await?;
        self.pump(chain, check).await?;
        self.take_stored(false).await
    }

    async fn pump(&mut self, chain: &mut Chain, mut check: Option<&mut BodyCheck>) -> Result<(), BodyFailure> {
        let is_cut = self.kind.is_less_than(OriginExchange::of(&mut self.ask.link).body);
        let flushes = !chain.is_empty() && self.is_prompt();
        let mut is_unflushed = false;
        loop {
            match self.next_data(is_unflushed).await? {
                Data::Piece => {
                    let received = OriginExchange::of(&mut self.ask.link).conn.data().len();
                    // It was read from the origin, and is copied. Not after that: readers who have the last piece, and ask for
                    // something else, shall find the connection in its pool.
                    if rt::spend_bytes(2 * received) {
                        rt::give_way().await;
                    }
                    if let Some(check) = &mut check {
                        self.check_piece(check, received)?;
                        rt::spent((received / HASHED_A_MICRO) as u32).await;
                    }
                    let (taken, is_over) = self.take(received, is_cut)?;
                    self.keep(chain, taken, false).await?;
                    is_unflushed = flushes;
                    if is_over {
                        OriginExchange::of(&mut self.ask.link).close.get_or_insert(SessClose::RespClose);
                        return Ok(());
                    }
                }
                Data::Part if is_unflushed => {
                    chain.flush();
                    self.keep(chain, 0, false).await?;
                    is_unflushed = false;
                }
                Data::Part => {}
                Data::End { close } => {
                    let link = OriginExchange::of(&mut self.ask.link);
                    link.close = link.close.or(close);
                    if let Some(check) = check {
                        self.check_end(check)?;
                    }
                    self.leave_trailers(chain);
                    self.end()?;
                    // What the filters still hold goes to storage.
                    return if chain.is_empty() { Ok(()) } else { self.keep(chain, 0, true).await };
                }
            }
        }
    }

    /// Logs the trailers of a complete body, and leaves those of an uncacheable one to the only client.
    fn leave_trailers(&mut self, chain: &Chain) {
        let Some(trailers) = OriginExchange::of(&mut self.ask.link).conn.trailers() else { return };
        BERESP.log_fields(trailers, &mut self.log);
        if self.fill.cacheability.is_uncacheable()
            && let Some(client) = &self.requester.client.trailers
            && client.put(self.log.vxid(), trailers, chain.is_empty()).is_err()
        {
            self.log.count_lost();
        }
    }

    /// Receives the next piece of the body. The origin is asked for more when there is room. With `says_dry`, returns
    /// an empty part where nothing is at hand.
    async fn next_data(&mut self, says_dry: bool) -> Result<Data, BodyFailure> {
        if OriginExchange::of(&mut self.ask.link).conn.is_drained() && !self.has_room().await {
            return Err(BodyFailure::Unwanted);
        }
        // In turn, so that neither direction holds up the other.
        let waited = self.wait_for(Limit::BetweenBytes, |link, beresp, cx| {
            let has_moved = link.poll_upload(beresp, cx)?.is_ready();
            match link.conn.poll_data(cx) {
                Poll::Pending if has_moved || says_dry => Poll::Ready(Ok(Data::Part)),
                polled => polled,
            }
        });
        let error = match waited.await {
            WaitOutcome::Done(Ok(data)) => return Ok(data),
            WaitOutcome::Done(Err(_)) if base::failpoint::fault("a torn body") => {
                return Ok(Data::End { close: Some(SessClose::RxBody) });
            }
            WaitOutcome::Done(Err(error)) => error,
            WaitOutcome::TimedOut => ResponseBodyError::Broken(ProxyError::ConnectionReadTimeout, "body read timeout"),
            WaitOutcome::Unwanted => return Err(BodyFailure::Unwanted),
        };
        match error {
            ResponseBodyError::Broken(kind, text) => {
                self.fetch_error(text);
                self.blame(kind, text);
            }
            ResponseBodyError::Os(error) => {
                self.log.putf(Tag::FetchError, format_args!("body read error: {error}"));
                self.blame(ProxyError::ConnectionTerminated, "body read error");
            }
        }
        Err(BodyFailure::Cut)
    }

    /// Waits until more of the body may come; what is left of the request goes out meanwhile. False: nobody wants more.
    async fn has_room(&mut self) -> bool {
        poll_fn(|cx| {
            let link = OriginExchange::of(&mut self.ask.link);
            // Who reads on hears of an upload that broke.
            if link.poll_upload(&mut self.beresp, cx).is_ready() && link.upload.is_some() {
                // A piece a turn: others have this thread, too.
                cx.waker().wake_by_ref();
            }
            self.poll_room(cx)
        })
        .await
        .is_ok()
    }

    /// Ready when readers have taken enough of what came before; with an error when nobody wants more.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Unwanted>> {
        let polled = self.busy().poll_room(cx);
        if polled.is_pending() {
            // Readers may take as long as they like: others need the buffer of the records more.
            self.log.rest();
        }
        polled
    }

    /// Sends the first `received` bytes of what came through the filters into storage, where readers find them at once.
    async fn keep(&mut self, chain: &mut Chain, received: usize, is_last: bool) -> Result<(), BodyFailure> {
        if chain.is_empty() {
            let data = &OriginExchange::of(&mut self.ask.link).conn.data()[..received];
            let appended = self.fill.append(data, &self.engine);
            return self.appended(appended);
        }
        let mut left = 0..received;
        loop {
            let step = filters::with_room(|room| self.keep_some(chain, left.clone(), is_last, room))?;
            left.start += step.consumed;
            let stops = matches!(step.state, FilterState::More) && step.consumed > 0;
            if base::failpoint::fault("a filter that drops a piece where it yields") && stops {
                left.start = left.end;
            }
            // Also of the last step of a piece: pieces may come as small as a step.
            rt::spent_guess(chain.take_micros()).await;
            match step.state {
                FilterState::End => return Ok(()),
                FilterState::Hungry => return Ok(()),
                FilterState::More => {}
            }
            if poll_fn(|cx| self.poll_room(cx)).await.is_err() {
                return Err(BodyFailure::Unwanted);
            }
        }
    }

    fn keep_some(
        &mut self,
        chain: &mut Chain,
        received: Range<usize>,
        is_last: bool,
        room: &mut [u8],
    ) -> Result<filters::FilterStep, BodyFailure> {
        let data = &OriginExchange::of(&mut self.ask.link).conn.data()[received];
        let step = chain.step(data, is_last, room);
        self.log_notes(chain.take_notes());
        let step = step.map_err(|error| {
            self.log.putf(Tag::FetchError, format_args!("{error}"));
            let kind = match error.is_of_content() {
                true => ProxyError::HttpResponseContentCoding,
                false => ProxyError::ProxyInternalError,
            };
            self.blame(kind, "the body can't be decoded");
            BodyFailure::Logged
        })?;
        self.append(&room[..step.produced])?;
        Ok(step)
    }

    fn append(&mut self, data: &[u8]) -> Result<(), BodyFailure> {
        let appended = self.fill.append(data, &self.engine);
        self.appended(appended)
    }

    fn appended(&mut self, appended: Result<(), NoStorage>) -> Result<(), BodyFailure> {
        self.log_events();
        appended.map_err(|NoStorage| {
            self.fetch_error("Could not get storage");
            BodyFailure::Logged
        })
    }

    /// Appends what the object of a 304 has: without a copy when it is in the same store.
    pub(super) fn take_over(&mut self, piece: Buf, of: StoreId) -> Result<(), BodyFailure> {
        match self.busy().share(piece, of) {
            Ok(()) => Ok(()),
            Err(piece) => self.append(&piece),
        }
    }

    fn log_esi(&mut self, severity: ComplaintSeverity, text: &str) {
        match severity {
            ComplaintSeverity::Error => self.engine.main.esi_errors.inc(),
            ComplaintSeverity::Warning => self.engine.main.esi_warnings.inc(),
            ComplaintSeverity::Info => {}
        }
        let word = match (self.params.compat(), severity) {
            (Compat::V7_1, ComplaintSeverity::Error) => "ERR ",
            (Compat::V7_1, ComplaintSeverity::Warning) => "WARN ",
            (Compat::V7_1, ComplaintSeverity::Info) => "",
            (Compat::V9, ComplaintSeverity::Error) => "ERR: ",
            (Compat::V9, ComplaintSeverity::Warning | ComplaintSeverity::Info) => "WARN: ",
        };
        self.log.put2(Tag::EsiXmlerror, word.as_bytes(), text.as_bytes());
    }

    fn log_notes(&mut self, notes: Vec<FilterNote>) {
        for note in notes {
            match note {
                FilterNote::Gzip(text) => self.log.put(Tag::Gzip, text.as_bytes()),
                FilterNote::Esi(severity, text) => self.log_esi(severity, &text),
                FilterNote::VclError(text) => self.log.put(Tag::VclError, text.as_bytes()),
            }
        }
    }

    fn close_filters(&mut self, chain: &mut Chain) {
        let closing: Vec<_> = chain.close().collect();
        for (note, acct) in closing {
            self.log_notes(note.into_iter().collect());
            if !self.log.ring().is_masked(Tag::VfpAcct) {
                self.log.putf(Tag::VfpAcct, format_args!("{} {} {}", acct.name, acct.calls, acct.bytes));
            }
        }
    }

    /// The object is whole: the connection goes back first, then the object's last state is published. A body that was too
    /// long for memory is on disk before that.
    pub(super) async fn end_body(&mut self) -> FetchStep {
        self.end_link(None);
        poll_fn(|cx| self.busy().poll_whole(cx)).await;
        let mut busy = self.fill.busy.take().expect(HELD);
        // Most objects replace none and are no dictionary: a handle takes more than ten atomic operations.
        let is_asked_for = self.fill.stale.is_some() || self.beresp.has(USE_AS_DICTIONARY);
        let object = is_asked_for.then(|| busy.object());
        let dictionary = object.as_ref().and_then(|object| self.dictionary_source(object));
        let known = self.kind.kept_object().and_then(|stale| self.engine.cache.dictionary_of(stale));
        // The exchange has compared what came with what was announced, and filters change the length.
        let finished = busy.complete(None);
        self.mark("BerespBody");
        if let Some(object) = &object {
            self.replace_stale(object);
        }
        match finished {
            Ok(length) => {
                self.log.record(Tag::Length).num(length);
                if let (Some(object), Some(source)) = (object, dictionary) {
                    self.learn_dictionary(object, source, known);
                }
            }
            Err(_) => self.fetch_error("body of another length than announced"),
        }
        FetchStep::Done
    }
}
