// SPDX-License-Identifier: BSD-2-Clause
//! One exchange with a backend: the request goes out, with the body it has, and the response's head comes in.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use backend::{
    BackendFault, BodyLen, BodyStatus, ExchangeHeadError, ExchangeSendError, Received, RespLimits, SendProgress,
    announced_length,
};
use base::Mono;
use filters::Chain;
use message::{Head, names};
use params::Params;
use params::timeouts::AT_ONCE;
use rt::Deadline;
use storage::Buf;
use tables::Compat;
use tables::close::SessClose;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use super::fetch::GONE;
use super::upload::{FetchUpload, Pieces};
use super::{Bereq, BereqBody, OriginExchange};
use crate::httplog::BEREQ;
use crate::synthetic::SynthOrder;
use crate::transport::ReqBodyError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The origin says that it has done nothing with the request: another try is in order.
    Refused,
    /// Not a byte of a response had come, for that reason: with a pooled connection another try is in order.
    Early(BackendFault<'static>),
    /// Any other fault of the backend: no other try is made.
    Late(BackendFault<'static>),
    /// Not the backend's fault: the client is gone, or its request's body broke off.
    Aborted,
}

impl Failure {
    pub fn fault(self) -> Option<BackendFault<'static>> {
        match self {
            Self::Refused => Some(BackendFault::REFUSED),
            Self::Early(fault) | Self::Late(fault) => Some(fault),
            Self::Aborted => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    All,
    /// The backend has answered and takes no more.
    Answered,
    /// The backend has answered, and takes the rest beside that.
    Begun,
}

enum NextPiece {
    Piece(Buf),
    End,
    Broken(ReqBodyError),
    /// Nothing now: the backend speaks.
    Not(Sent),
}

/// The record of a request that its origin has refused unseen.
const REFUSED: &str = "refused by the backend";

/// The kinds of waits for the backend that have a limit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    FirstByte,
    BetweenBytes,
}

pub(super) enum WaitOutcome<T> {
    Done(T),
    TimedOut,
    Unwanted,
}

/// A wait for the backend, for the account that pays for the fetch.
#[derive(Default)]
pub(super) struct BackendWait(Option<Mono>);

impl BackendWait {
    pub fn begin(&mut self, bereq: &Bereq) {
        if self.0.is_none() && bereq.requester.turn.charge.is_some() {
            self.0 = Some(bereq.engine.clock.mono());
        }
    }

    pub fn end(self, bereq: &mut Bereq) {
        if let (Some(began), Some(charge)) = (self.0, &mut bereq.requester.turn.charge) {
            charge.add(bereq.engine.clock.mono().since(began));
        }
    }
}

impl OriginExchange {
    /// The backend has answered before it had all of the body: the rest isn't sent.
    fn overtake(&mut self) -> Sent {
        self.close = Some(SessClose::RxBody);
        Sent::Answered
    }
}

impl Bereq {
    /// Exchanges heads over [`Ask::link`].
    pub(super) async fn exchange(&mut self) -> Result<(), Failure> {
        let filters = self.open_body_filters();
        if let Some(chain) = &filters {
            self.engine.count_gzip(chain);
        }
        let body = self.announce_body(filters.is_some());
        self.announce_trailers();
        let link = OriginExchange::of(&mut self.ask.link);
        link.conn.overlap();
        link.conn.send_head(&self.ask.head, body, &response_limits(&self.params));
        let sent = self.send(filters).await;
        self.mark("Bereq");
        self.engine.main.backend_req.tally();
        sent?;
        self.receive_head().await
    }

    /// Waits for what `poll` waits for: it gets the head that a response is received into.
    pub(super) async fn wait_for<T>(
        &mut self,
        limit: Limit,
        mut poll: impl FnMut(&mut OriginExchange, &mut Head, &mut Context<'_>) -> Poll<T>,
    ) -> WaitOutcome<T> {
        let mut deadline = None;
        let may_end = self.may_end();
        let mut wait = BackendWait::default();
        let outcome = poll_fn(|cx| {
            let link = OriginExchange::of(&mut self.ask.link);
            let polled = poll(link, &mut self.beresp, cx);
            // A backend that waits for the rest of the client's body isn't slow itself.
            let waits_for_client = link.upload.as_ref().is_some_and(FetchUpload::is_incomplete);
            if let Poll::Ready(done) = polled {
                return Poll::Ready(WaitOutcome::Done(done));
            }
            if !waits_for_client {
                wait.begin(self);
            }
            // Many wait, few write: the buffer of the records is for those.
            self.log.rest();
            let deadline = deadline.get_or_insert_with(|| Deadline::after(self.time_limit(limit)));
            if deadline.as_mut().is_some_and(|deadline| deadline.poll(cx).is_ready()) {
                return Poll::Ready(WaitOutcome::TimedOut);
            }
            if may_end { self.busy().poll_unwanted(cx).map(|()| WaitOutcome::Unwanted) } else { Poll::Pending }
        })
        .await;
        wait.end(self);
        outcome
    }

    /// Adds `TE: trailers` if the client can take the response's trailers.
    fn announce_trailers(&mut self) {
        if self.requester.client.trailers.is_some() && OriginExchange::of(&mut self.ask.link).conn.takes_trailers() {
            self.count_lost(|this| BEREQ.force(&mut this.ask.head, &mut this.log, names::TE, b"trailers"));
        }
    }

    /// Makes the head announce the body that is sent, whatever VCL wrote: else the rest of it, or of the next request,
    /// would be taken for something that it isn't.
    fn announce_body(&mut self, is_filtered: bool) -> BodyLen {
        let announced = announced_length(&self.ask.head);
        let len = match &self.ask.body {
            BereqBody::None | BereqBody::Gone => {
                if announced != Some(0) {
                    BEREQ.unset(&mut self.ask.head, &mut self.log, names::CONTENT_LENGTH);
                }
                BEREQ.unset(&mut self.ask.head, &mut self.log, names::TRANSFER_ENCODING);
                return BodyLen::None;
            }
            BereqBody::Lent(_) | BereqBody::Cached(_) if is_filtered => None,
            BereqBody::Lent(lent) => lent.bytes(),
            BereqBody::Cached(pieces) => Some(pieces.iter().map(|piece| piece.len() as u64).sum()),
        };
        let Some(len) = len else {
            BEREQ.unset(&mut self.ask.head, &mut self.log, names::CONTENT_LENGTH);
            match OriginExchange::of(&mut self.ask.link).conn.unknown_length() {
                Some((name, value)) => {
                    self.count_lost(|this| BEREQ.force(&mut this.ask.head, &mut this.log, name, value));
                }
                None => BEREQ.unset(&mut self.ask.head, &mut self.log, names::TRANSFER_ENCODING),
            }
            return BodyLen::Unknown;
        };
        BEREQ.unset(&mut self.ask.head, &mut self.log, names::TRANSFER_ENCODING);
        if announced != Some(len) {
            let len = len.to_string();
            self.count_lost(|this| {
                BEREQ.force(&mut this.ask.head, &mut this.log, names::CONTENT_LENGTH, len.as_bytes())
            });
        }
        BodyLen::Known(len)
    }

    /// Sends head and body. An answer before the body's end is taken at once; the connection of HTTP/1 can't be used again then.
    async fn send(&mut self, filters: Option<Chain>) -> Result<(), Failure> {
        let mut sent = self.push().await?;
        let Some(body) = Pieces::new(&self.ask.body) else { return Ok(()) };
        let mut body = body.through(filters);
        while sent == Sent::All {
            match self.next_piece(&mut body).await {
                NextPiece::Piece(piece) => OriginExchange::of(&mut self.ask.link).conn.send_data(piece),
                NextPiece::End => {
                    let link = OriginExchange::of(&mut self.ask.link);
                    body.end(&mut link.conn);
                    // What the origin takes only while it answers goes out then.
                    link.upload = Some(FetchUpload::new(None));
                    return self.push().await.map(drop);
                }
                NextPiece::Broken(_) if base::failpoint::fault("an upload completed after a cut") => {
                    OriginExchange::of(&mut self.ask.link).conn.send_end(None);
                    return self.push().await.map(drop);
                }
                NextPiece::Broken(error) => {
                    self.break_upload(error);
                    return Err(Failure::Aborted);
                }
                NextPiece::Not(instead) => {
                    sent = instead;
                    break;
                }
            }
            sent = self.push().await?;
        }
        if sent == Sent::Begun {
            OriginExchange::of(&mut self.ask.link).upload = Some(FetchUpload::new(Some(body)));
        }
        Ok(())
    }

    /// The origin must not take a broken upload for a whole one: it sees a cut.
    fn break_upload(&mut self, error: ReqBodyError) {
        self.log.putf(Tag::FetchError, format_args!("req.body read error: {}", error.text()));
        let link = OriginExchange::of(&mut self.ask.link);
        link.conn.reset(SessClose::RxBody);
        link.close = Some(SessClose::RxBody);
        // Up to 7.1 it is a fault of the fetch (503), from 8.0 on of the client, whose body broke off or isn't in its coding.
        if self.params.compat().is_9() && error != ReqBodyError::FiltersFailed {
            let order = SynthOrder::because(400, ProxyError::HttpRequestError, "the request's body broke off");
            self.failure.made.ask(order);
        }
    }

    /// The next piece of the body, unless the backend answers before.
    async fn next_piece(&mut self, body: &mut Pieces) -> NextPiece {
        loop {
            let Bereq { beresp, log, ask, .. } = self;
            let link = OriginExchange::of(&mut ask.link);
            let next = poll_fn(|cx| match body.poll_next(cx) {
                Poll::Ready(piece) => Poll::Ready(Ok(piece)),
                Poll::Pending => {
                    log.rest();
                    link.conn.poll_answer(cx, beresp).map(Err)
                }
            });
            match next.await {
                Ok(Ok(Some(piece))) => return NextPiece::Piece(piece),
                Ok(Ok(None)) => return NextPiece::End,
                Ok(Err(error)) => return NextPiece::Broken(error),
                Err(SendProgress::Interim) => self.pass_interim_on(),
                Err(SendProgress::Answered) => {
                    return NextPiece::Not(OriginExchange::of(&mut self.ask.link).overtake());
                }
                Err(SendProgress::Begun) => return NextPiece::Not(Sent::Begun),
                Err(SendProgress::All | SendProgress::Part) => {}
            }
        }
    }

    /// Writes what is queued, or as much of it as the backend takes before it answers.
    async fn push(&mut self) -> Result<Sent, Failure> {
        loop {
            match self.push_some().await {
                Some(Ok(SendProgress::All)) => return Ok(Sent::All),
                Some(Ok(SendProgress::Part)) => {}
                Some(Ok(SendProgress::Interim)) => self.pass_interim_on(),
                Some(Ok(SendProgress::Answered)) => return Ok(OriginExchange::of(&mut self.ask.link).overtake()),
                Some(Ok(SendProgress::Begun)) => return Ok(Sent::Begun),
                Some(Err(ExchangeSendError::Refused)) => {
                    self.fetch_error(REFUSED);
                    OriginExchange::of(&mut self.ask.link).close = Some(SessClose::RespClose);
                    return Err(Failure::Refused);
                }
                failed => {
                    let fault = if failed.is_none() { BackendFault::Stuck } else { BackendFault::Closed };
                    let text = write_error_text(failed.and_then(Result::err));
                    self.log.putf(Tag::FetchError, format_args!("backend write error: {text}"));
                    OriginExchange::of(&mut self.ask.link).close = Some(SessClose::TxError);
                    return Err(Failure::Early(fault));
                }
            }
        }
    }

    /// `None`: the backend took nothing for too long. A timeout of 0 is about responses.
    async fn push_some(&mut self) -> Option<Result<SendProgress, ExchangeSendError>> {
        let mut deadline = None;
        let mut wait = BackendWait::default();
        let outcome = poll_fn(|cx| {
            if let Poll::Ready(sent) = OriginExchange::of(&mut self.ask.link).conn.poll_send(cx, &mut self.beresp) {
                return Poll::Ready(Some(sent));
            }
            wait.begin(self);
            self.log.rest();
            let deadline =
                deadline.get_or_insert_with(|| Deadline::after(none_at_once(self.time_limit(Limit::BetweenBytes))));
            deadline.as_mut().map_or(Poll::Pending, |deadline| deadline.poll(cx).map(|()| None))
        })
        .await;
        wait.end(self);
        outcome
    }

    async fn receive_head(&mut self) -> Result<(), Failure> {
        let mut limit = Limit::FirstByte;
        loop {
            let had_begun = OriginExchange::of(&mut self.ask.link).conn.has_begun();
            let error = match self.wait_for(limit, |link, beresp, cx| link.conn.poll_head(cx, beresp)).await {
                WaitOutcome::Done(Ok(Received::Part)) => {
                    limit = Limit::BetweenBytes;
                    continue;
                }
                WaitOutcome::Done(Ok(Received::Interim)) => {
                    limit = Limit::BetweenBytes;
                    self.pass_interim_on();
                    continue;
                }
                WaitOutcome::Done(Ok(Received::Final { body, close })) => {
                    self.count_body(body);
                    let link = OriginExchange::of(&mut self.ask.link);
                    link.body = body;
                    link.close = link.close.or(close);
                    return Ok(());
                }
                WaitOutcome::Done(Err(error)) => error,
                WaitOutcome::TimedOut => {
                    self.fetch_error(if had_begun { "timeout" } else { "first byte timeout" });
                    OriginExchange::of(&mut self.ask.link).close = Some(SessClose::RxTimeout);
                    return Err(Failure::Late(BackendFault::Late));
                }
                WaitOutcome::Unwanted => {
                    self.fetch_error(GONE);
                    OriginExchange::of(&mut self.ask.link).close = Some(SessClose::RxBody);
                    return Err(Failure::Aborted);
                }
            };
            OriginExchange::of(&mut self.ask.link).close = Some(error.close());
            self.log_head_error(&error);
            let is_ended = matches!(error, ExchangeHeadError::Closed | ExchangeHeadError::Os(_));
            return Err(match &error {
                ExchangeHeadError::Refused => Failure::Refused,
                _ if is_ended && !had_begun => Failure::Early(BackendFault::Closed),
                error => Failure::Late(error.fault()),
            });
        }
    }

    fn log_head_error(&mut self, error: &ExchangeHeadError) {
        match error {
            ExchangeHeadError::Closed => self.fetch_error(match self.params.compat() {
                Compat::V7_1 => "HTC eof (-1)",
                Compat::V9 => "HTC eof (Unexpected end of input)",
            }),
            ExchangeHeadError::Refused => self.fetch_error(REFUSED),
            ExchangeHeadError::Reset(_, text) => self.fetch_error(text),
            ExchangeHeadError::Os(error) => self.log.putf(Tag::FetchError, format_args!("backend read error: {error}")),
            ExchangeHeadError::Overflow => self.fetch_error("overflow"),
            ExchangeHeadError::Garbage(_, word) => {
                self.log.put(Tag::HttpGarbage, word);
                self.log.put(Tag::BerespStatus, b"503");
                self.log.put(Tag::BerespReason, b"Service Unavailable");
                self.fetch_error("http format error");
            }
            ExchangeHeadError::TooManyInterim => {
                self.engine.main.fetch_1xx.inc();
                self.fetch_error("too many interim responses");
            }
            ExchangeHeadError::Framing(framing) => {
                self.ask.tries.status = self.beresp.status();
                // As varnishd counts: a 204 is one, whatever else it says.
                match self.beresp.is_status(204) {
                    true => self.engine.main.fetch_204.tally(),
                    false => self.engine.main.fetch_bad.inc(),
                }
                self.log.put(Tag::Error, b"Body cannot be fetched");
                self.fetch_error(framing.text());
            }
            ExchangeHeadError::NotFinal => {
                self.engine.main.fetch_1xx.inc();
                self.fetch_error("1xx response");
            }
        }
    }

    /// The head just read is an interim one.
    fn pass_interim_on(&mut self) {
        if self.beresp.is_status(104) {
            self.learn_upload();
        }
        if self.is_sign_of_life() {
            return;
        }
        let goes_on = self
            .requester
            .client
            .interims
            .as_ref()
            .is_some_and(|interims| interims.put(&self.beresp, self.params.http_lenient));
        if goes_on {
            self.busy().wake_readers();
        }
        let what = if goes_on { "passed on" } else { "dropped" };
        self.log.putf(Tag::Debug, format_args!("Interim response {} {what}", self.beresp.status()));
    }

    fn count_body(&self, body: BodyStatus) {
        let main = self.engine.main;
        match (body, self.beresp.status() % 1000) {
            _ if self.ask.head.method() == b"HEAD" => main.fetch_head.tally(),
            (_, 204) => main.fetch_204.tally(),
            (_, 304) => main.fetch_304.tally(),
            (BodyStatus::Length(_), _) => main.fetch_length.tally(),
            (BodyStatus::Chunked, _) => main.fetch_chunked.tally(),
            (BodyStatus::Eof, _) => main.fetch_eof.tally(),
            (BodyStatus::None, _) => main.fetch_none.tally(),
        }
    }

    /// The fetch's limit of a wait for its backend; zero is none.
    fn time_limit(&mut self, limit: Limit) -> Duration {
        let set = self.ask.limits.set(self.params.compat());
        let limits = OriginExchange::of(&mut self.ask.link).conn.backend().limits(set);
        match limit {
            Limit::FirstByte => limits.first_byte,
            Limit::BetweenBytes => limits.between_bytes,
        }
    }
}

/// No limit (0) in place of one that ends every wait at once.
fn none_at_once(limit: Duration) -> Duration {
    if limit <= AT_ONCE { Duration::ZERO } else { limit }
}

pub(super) fn response_limits(params: &Params) -> RespLimits {
    RespLimits {
        head_bytes: params.http_resp_size as usize,
        line_bytes: params.http_resp_hdr_len as usize,
        lenient: params.http_lenient,
    }
}

/// varnishd's words: number and text of the error. `None`: it took too long.
fn write_error_text(error: Option<ExchangeSendError>) -> String {
    match error {
        None => "11 (Resource temporarily unavailable)".to_owned(),
        Some(ExchangeSendError::Closed | ExchangeSendError::Refused) => "32 (Broken pipe)".to_owned(),
        Some(ExchangeSendError::Os(error)) => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_owned();
            format!("{} ({text})", error.raw_os_error().unwrap_or(0))
        }
    }
}
