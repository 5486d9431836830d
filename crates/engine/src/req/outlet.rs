// SPDX-License-Identifier: BSD-2-Clause
//! The way of a response's body to the client: pieces pass the filters and are queued at the transport; a client that
//! doesn't read is waited for, and so is a body that is still being fetched.

use std::future::poll_fn;
use std::task::{Context, Poll};

use cache::{BodyReadError, BodyReader, ObjRef};
use filters::{FilterError, FilterState, PartHeads, RangePart};
use storage::Buf;
use tables::close::SessClose;
use tables::tags::Tag;

use super::Req;
use super::downstream::Downstream;
use super::transmit::DeliveryFailure;
use crate::transport::{SendError, Transport};

/// Bytes that may be queued for the client before the delivery waits for it.
pub(super) const QUEUE_BYTES: usize = 256 * 1024;

/// Bytes that may be queued if filters made them: they are in no store.
const MADE_BYTES: usize = 64 * 1024;

/// Bytes that may be queued if they are in no store.
const SQUEEZED_BYTES: usize = 16 * 1024;

/// Charge in microseconds for each part of a multipart response, in addition to its bytes.
const PART_MICROS: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    All,
    /// A number of bytes. A body that has fewer is cut off.
    Exactly(u64),
    AtMost(u64),
}

pub(super) struct Outlet<'a> {
    pub req: &'a mut Req,
    pub down: &'a mut Downstream,
    pub transport: &'a mut dyn Transport,
}

impl Outlet<'_> {
    pub async fn begin_part(&mut self, heads: &PartHeads, part: RangePart) -> Result<(), DeliveryFailure> {
        if rt::spend(PART_MICROS) {
            self.let_others_go_first().await?;
        }
        self.push(Buf::unaccounted(heads.of(part)), false).await
    }

    pub async fn send_object(&mut self, reader: &mut BodyReader, amount: Amount) -> Result<(), DeliveryFailure> {
        let (mut left, is_exact) = match amount {
            Amount::All => (u64::MAX, false),
            Amount::Exactly(bytes) => (bytes, true),
            Amount::AtMost(bytes) => (bytes, false),
        };
        reader.stop_at(reader.offset().saturating_add(left));
        while left > 0 {
            let mut piece = match self.next_piece(reader).await {
                Ok(Some(piece)) => piece,
                // A range that ends early ends with `RangeShort`, whatever cut it.
                Ok(None) => break,
                Err(DeliveryFailure::Fetch) if is_exact => break,
                Err(cut) => return Err(cut),
            };
            if piece.len() as u64 > left {
                piece = piece.slice(0..left as usize);
            }
            left -= piece.len() as u64;
            self.req.resp.noted.again(self.req.engine().cache.stores());
            self.push(piece, false).await?;
            if self.down.is_over() {
                return Ok(());
            }
            if reader.object().is_squeezed() {
                self.flush_to(SQUEEZED_BYTES).await?;
            }
        }
        if is_exact && left > 0 {
            return Err(DeliveryFailure::Client(SessClose::RangeShort));
        }
        Ok(())
    }

    /// The next piece of the stored body. While it isn't there what is queued goes out.
    pub async fn next_piece(&mut self, reader: &mut BodyReader) -> Result<Option<Buf>, DeliveryFailure> {
        let Outlet { req, transport, .. } = self;
        let body = req.client.body.clone();
        poll_fn(|cx| {
            if let Poll::Ready(next) = reader.poll_next(cx) {
                return Poll::Ready(next.map_err(|error| req.broken_object(error, reader.object())));
            }
            let _ = body.poll_pump(cx, &mut **transport);
            req.log.rest();
            match transport.poll_flush(cx, 0) {
                Poll::Ready(Err(error)) => Poll::Ready(Err(DeliveryFailure::Client(close_of(error)))),
                Poll::Ready(Ok(())) | Poll::Pending if req.client.gives_up => {
                    req.poll_peer_closed(cx, &mut **transport).map(|()| Err(DeliveryFailure::GONE))
                }
                Poll::Ready(Ok(())) | Poll::Pending => transport.poll_reset(cx).map(|()| Err(DeliveryFailure::GONE)),
            }
        })
        .await
    }

    /// Queues a piece, through the filters; waits when much is queued.
    pub async fn push(&mut self, mut piece: Buf, is_last: bool) -> Result<(), DeliveryFailure> {
        if self.down.is_immediate() {
            // A client that reads as fast as we write would have the thread to itself.
            if rt::spend_piece(piece.len()) {
                self.let_others_go_first().await?;
            }
            self.down.pass(piece, &mut *self.transport);
            return self.flush_some().await;
        }
        loop {
            let step = match self.down.step(&mut piece, is_last, &mut *self.transport) {
                Ok(step) => step,
                Err(error) => return Err(self.broken_body(&error)),
            };
            if self.transport.queued() >= MADE_BYTES {
                self.flush_to(MADE_BYTES / 4).await?;
            }
            if rt::spend_guess(self.down.take_micros()) {
                self.let_others_go_first().await?;
            }
            match step.state {
                FilterState::End | FilterState::Hungry => return Ok(()),
                FilterState::More => {}
            }
        }
    }

    /// Lets other tasks run, after its stint. Queued bytes go out first.
    pub async fn let_others_go_first(&mut self) -> Result<(), DeliveryFailure> {
        let flushed = poll_fn(|cx| Poll::Ready(self.transport.poll_flush(cx, 0))).await;
        if let Poll::Ready(Err(error)) = flushed {
            return Err(DeliveryFailure::Client(close_of(error)));
        }
        rt::give_way().await;
        Ok(())
    }

    /// Handles a body that a filter can't process, and logs the filter's text if it has one.
    fn broken_body(&mut self, error: &FilterError) -> DeliveryFailure {
        let told = self.down.take_gzip_notes();
        if told.is_empty() {
            self.req.log.putf(Tag::Error, format_args!("{error}"));
        }
        for text in told {
            self.req.log.put(Tag::Gzip, text.as_bytes());
        }
        match error {
            FilterError::RangeShort => DeliveryFailure::Client(SessClose::RangeShort),
            _ => DeliveryFailure::Fetch,
        }
    }

    async fn flush_some(&mut self) -> Result<(), DeliveryFailure> {
        if self.transport.queued() < QUEUE_BYTES {
            return Ok(());
        }
        self.flush_to(QUEUE_BYTES / 4).await
    }

    async fn flush_to(&mut self, keep: usize) -> Result<(), DeliveryFailure> {
        let Outlet { req, transport, .. } = self;
        let body = req.client.body.clone();
        poll_fn(|cx| {
            let _ = body.poll_pump(cx, &mut **transport);
            resting(transport.poll_flush(cx, keep), req)
        })
        .await
        .map_err(|error| DeliveryFailure::Client(close_of(error)))
    }
}

impl Req {
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
}

/// Passes the result on. While the client doesn't read, releases memory that others can use.
pub(super) fn resting<T>(polled: Poll<T>, req: &mut Req) -> Poll<T> {
    if polled.is_pending() {
        req.rest();
    }
    polled
}

pub(super) fn close_of(error: SendError) -> SessClose {
    match error {
        SendError::Closed => SessClose::RemClose,
        SendError::TimedOut => SessClose::TxError,
    }
}
