// SPDX-License-Identifier: BSD-2-Clause
//! The way out of a fragment: it has a body only. Its page had the head, the interim responses and the request's body.

use std::task::{Context, Poll};

use message::{Head, hop};
use shm::vsl::TxnLog;
use storage::Buf;
use tables::close::SessClose;

use crate::httplog::RESP;
use crate::transport::{BodyLen, BodyState, ReqBodyError, SendError, Transport, TransportAcct, Tunnel};

/// The part of a fragment's transport that differs between kinds.
pub(super) trait BodyOnly {
    /// Takes a piece of the body.
    fn put(&mut self, piece: Buf);
    fn cut(&mut self);
    /// Bytes taken and not yet gone.
    fn held(&self) -> usize;
    fn poll_room(&mut self, cx: &mut Context<'_>, keep: usize) -> Poll<Result<(), SendError>>;
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

impl<T: BodyOnly> Transport for T {
    fn connection(&mut self, head: &mut Head) -> Result<Option<SessClose>, SessClose> {
        // The head is its page's with fields of its own: what the page's Connection names goes no further here, either.
        hop::connection(head).map(|_| None).map_err(|hop::BadConnection| SessClose::RxBad)
    }

    fn send_head(
        &mut self,
        resp: &mut Head,
        len: BodyLen,
        close: Option<SessClose>,
        log: &mut TxnLog,
    ) -> Option<SessClose> {
        let _ = (resp, len, log);
        close
    }

    fn send_data(&mut self, piece: Buf) {
        self.put(piece);
    }

    fn send_end(&mut self, trailers: Option<&Head>) {
        let _ = trailers;
    }

    fn abort(&mut self) {
        self.cut();
    }

    fn send_minimal(&mut self, status: u16, _: Option<&str>, log: &mut TxnLog) {
        RESP.log_bare_status("HTTP/1.1", status, log);
        self.cut();
    }

    fn send_continue(&mut self, log: &mut TxnLog) {
        let _ = log;
    }

    fn has_input(&self) -> bool {
        false
    }

    fn send_interim(&mut self, interim: &Head) {
        // Hints for the page were the page's to give.
        let _ = interim;
    }

    fn queued(&self) -> usize {
        self.held()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>, keep: usize) -> Poll<Result<(), SendError>> {
        self.poll_room(cx, keep)
    }

    fn poll_peer_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_closed(cx)
    }

    fn body_state(&self) -> BodyState {
        BodyState::None
    }

    fn body_len(&self) -> Option<u64> {
        None
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, ReqBodyError>> {
        let _ = cx;
        Poll::Ready(Ok(None))
    }

    fn take_tunnel(&mut self) -> Option<Tunnel> {
        None
    }

    fn acct(&self) -> TransportAcct {
        TransportAcct::default()
    }
}
