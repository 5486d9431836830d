// SPDX-License-Identifier: BSD-2-Clause
//! A fragment's way out: no head, its body goes through what its parent's body goes through.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use filters::{FilterError, State};
use message::Head;
use shm::vsl::TxnLog;
use storage::Buf;
use tables::close::SessClose;

use super::downstream::Downstream;
use crate::transport::{Acct, BodyError, BodyLen, BodyState, SendError, Transport, Tunnel};

/// Steps of the parent's filters in one turn.
const STEPS: usize = 8;
/// While so much is queued further out no more is made.
const AHEAD_BYTES: usize = 256 * 1024;

/// See the module.
pub(super) struct Nested<'a> {
    down: &'a mut Downstream,
    outer: &'a mut dyn Transport,
    /// What the parent's filters haven't taken.
    waiting: VecDeque<Buf>,
    waiting_bytes: usize,
    is_cut: bool,
    failure: Option<FilterError>,
}

impl<'a> Nested<'a> {
    pub fn new(down: &'a mut Downstream, outer: &'a mut dyn Transport) -> Self {
        Nested { down, outer, waiting: VecDeque::new(), waiting_bytes: 0, is_cut: false, failure: None }
    }

    /// Whether the fragment was answered by nothing, or broke off.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Why the parent's filters gave up, if they did.
    pub fn failure(&self) -> Option<&FilterError> {
        self.failure.as_ref()
    }

    fn poll_filters(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        if self.failure.is_some() {
            return Poll::Ready(Err(SendError::Closed));
        }
        for _ in 0..STEPS {
            let Some(piece) = self.waiting.front_mut() else { return Poll::Ready(Ok(())) };
            if self.outer.queued() >= AHEAD_BYTES {
                ready!(self.outer.poll_flush(cx, AHEAD_BYTES / 4))?;
            }
            let before = piece.len();
            let stepped = self.down.step(piece, false, &mut *self.outer);
            self.waiting_bytes -= before - piece.len();
            match stepped {
                Ok(State::More) => {}
                Ok(State::Hungry) => drop(self.waiting.pop_front()),
                // The rest isn't wanted: the end of a range.
                Ok(State::End) => {
                    self.waiting.clear();
                    self.waiting_bytes = 0;
                }
                Err(error) => {
                    self.failure = Some(error);
                    return Poll::Ready(Err(SendError::Closed));
                }
            }
        }
        if self.waiting.is_empty() {
            return Poll::Ready(Ok(()));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Transport for Nested<'_> {
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
        if self.waiting.is_empty() && self.down.is_immediate() {
            self.down.pass(&piece, &mut *self.outer);
        } else if !piece.is_empty() {
            self.waiting_bytes += piece.len();
            self.waiting.push_back(piece);
        }
    }

    fn send_end(&mut self) {}

    fn abort(&mut self) {
        self.is_cut = true;
    }

    fn send_minimal(&mut self, status: u16) {
        let _ = status;
        self.is_cut = true;
    }

    fn send_continue(&mut self) {}

    fn has_input(&self) -> bool {
        false
    }

    fn send_interim(&mut self, interim: &Head) {
        // Hints for the page were the page's to give.
        let _ = interim;
    }

    fn queued(&self) -> usize {
        self.waiting_bytes + self.outer.queued()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>, keep: usize) -> Poll<Result<(), SendError>> {
        ready!(self.poll_filters(cx))?;
        self.outer.poll_flush(cx, keep)
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.outer.poll_gone(cx)
    }

    fn body_state(&self) -> BodyState {
        BodyState::None
    }

    fn body_len(&self) -> Option<u64> {
        None
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, BodyError>> {
        let _ = cx;
        Poll::Ready(Ok(None))
    }

    fn take_tunnel(&mut self) -> Option<Tunnel> {
        None
    }

    fn acct(&self) -> Acct {
        Acct::default()
    }
}
