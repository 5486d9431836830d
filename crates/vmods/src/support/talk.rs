// SPDX-License-Identifier: BSD-2-Clause
//! A request of a module's over a connection, and its answer: what `client` and its callers need of `backend::Http1`.

use std::future::poll_fn;

use backend::{
    BodyLen, BodyStatus, Data, Exchange, ExchangeHeadError, ExchangeSendError, Http1, Received, RespLimits, Responder,
    ResponseBodyError, SendProgress,
};
use http1::Http1Limits;
use message::{Head, HeadLimits};
use net::Stream;
use storage::Buf;
use tables::close::SessClose;

use crate::support::client::ClientAnswer;

/// Bytes of a body that is kept.
const BODY_BYTES: usize = 10_000_000;

pub(crate) enum TalkUpload<'a> {
    None,
    Whole(&'a [u8]),
    /// The body that comes from a fetch, with its announced length.
    Streams(&'a mut Responder, Option<u64>),
}

impl TalkUpload<'_> {
    fn len(&self) -> BodyLen {
        match self {
            TalkUpload::None => BodyLen::None,
            TalkUpload::Whole(body) => BodyLen::Known(body.len() as u64),
            TalkUpload::Streams(_, len) => len.map_or(BodyLen::Unknown, BodyLen::Known),
        }
    }
}

pub(crate) struct Dialogue {
    exchange: Http1,
    pub(crate) head: Head,
    pub(crate) body: BodyStatus,
    /// Reason why the connection can't be used again.
    close: Option<SessClose>,
    is_whole: bool,
}

impl Dialogue {
    pub(crate) fn over(stream: Stream) -> Self {
        // As many lines as the bytes of a head have room for.
        let head = Head::with_limits(HeadLimits::new(1000, 128 * 1024));
        Dialogue { exchange: Http1::new(stream, 0), head, body: BodyStatus::None, close: None, is_whole: false }
    }

    /// Sends a request, or as much of it as the other side takes before it answers.
    pub(crate) async fn send(&mut self, request: &Head, upload: TalkUpload<'_>) -> Result<(), String> {
        let Http1Limits { head_bytes, line_bytes, lenient, .. } = Http1Limits::default();
        self.exchange.send_head(request, upload.len(), &RespLimits { head_bytes, line_bytes, lenient });
        let mut is_answered = self.push().await?;
        match upload {
            TalkUpload::None | TalkUpload::Whole(b"") => {}
            TalkUpload::Whole(body) if !is_answered => {
                self.exchange.send_data(Buf::unaccounted(body.to_vec()));
                is_answered = self.push().await?;
            }
            TalkUpload::Whole(_) => {}
            TalkUpload::Streams(responder, _) => {
                while !is_answered {
                    let Some(piece) = self.next_upload(responder).await? else { break };
                    self.exchange.send_data(piece);
                    is_answered = self.push().await?;
                }
            }
        }
        if !is_answered {
            self.exchange.send_end(None);
            self.push().await?;
        }
        Ok(())
    }

    /// The next piece of what a fetch sends; `None` at its end, or when there is an answer already.
    async fn next_upload(&mut self, responder: &mut Responder) -> Result<Option<Buf>, String> {
        loop {
            let answer = poll_fn(|cx| self.exchange.poll_answer(cx, &mut self.head));
            tokio::select! {
                biased;
                piece = responder.next_piece() => return piece,
                sent = answer => {
                    if sent == SendProgress::Answered {
                        self.close = Some(SessClose::RxBody);
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Sends what is queued; whether the answer came before.
    async fn push(&mut self) -> Result<bool, String> {
        loop {
            match poll_fn(|cx| self.exchange.poll_send(cx, &mut self.head)).await {
                Ok(SendProgress::All) => return Ok(self.close.is_some()),
                Ok(SendProgress::Part | SendProgress::Interim | SendProgress::Begun) => {}
                Ok(SendProgress::Answered) => {
                    self.close = Some(SessClose::RxBody);
                    return Ok(true);
                }
                Err(ExchangeSendError::Closed | ExchangeSendError::Refused | ExchangeSendError::Os(_)) => {
                    return Err("the connection ended".to_owned());
                }
            }
        }
    }

    pub(crate) async fn receive_head(&mut self) -> Result<(), String> {
        loop {
            match poll_fn(|cx| self.exchange.poll_head(cx, &mut self.head)).await {
                Ok(Received::Part | Received::Interim) => {}
                Ok(Received::Final { body, close }) => {
                    self.body = body;
                    self.close = self.close.or(close);
                    self.is_whole = body == BodyStatus::None;
                    return Ok(());
                }
                Err(ExchangeHeadError::Closed) => return Err("the connection ended before an answer".to_owned()),
                Err(ExchangeHeadError::Os(error)) => return Err(error.to_string()),
                Err(ExchangeHeadError::Framing(error)) => return Err(format!("bad answer: {}", error.text())),
                Err(error) => return Err(format!("bad answer: {error:?}")),
            }
        }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.exchange.has_begun()
    }

    /// The next bytes of the answer's body; `None` at its end.
    pub(crate) async fn next_piece(&mut self) -> Result<Option<&[u8]>, String> {
        while !self.is_whole {
            match poll_fn(|cx| self.exchange.poll_data(cx)).await {
                Ok(Data::Piece) => return Ok(Some(self.exchange.data())),
                Ok(Data::Part) => {}
                Ok(Data::End { close }) => {
                    self.close = self.close.or(close);
                    self.is_whole = true;
                }
                Err(ResponseBodyError::Broken(_, text)) => return Err(format!("bad answer: {text}")),
                Err(ResponseBodyError::Os(error)) => return Err(error.to_string()),
            }
        }
        Ok(None)
    }

    pub(crate) async fn answer(&mut self) -> Result<ClientAnswer, String> {
        let mut body = Vec::new();
        while let Some(piece) = self.next_piece().await? {
            body.extend_from_slice(piece);
            if body.len() > BODY_BYTES {
                return Err(format!("a body of more than {BODY_BYTES} bytes"));
            }
        }
        let fields = self.head.iter().map(|field| (field.name().to_vec(), field.value().to_vec())).collect();
        Ok(ClientAnswer { status: self.head.status(), reason: self.head.reason().to_vec(), fields, body })
    }

    pub(crate) fn reusable(self) -> Option<Stream> {
        (self.is_whole && self.close.is_none()).then(|| self.exchange.into_stream())
    }
}
