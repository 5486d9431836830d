// SPDX-License-Identifier: BSD-2-Clause
//! A fragment's way out: no head, its body goes through what its parent's body goes through.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use filters::{FilterError, FilterState};
use storage::Buf;

use super::body_only::BodyOnly;
use crate::req::downstream::Downstream;
use crate::transport::{SendError, Transport};

/// Steps of the parent's filters in one turn.
const STEPS: usize = 8;
/// Bytes queued further out above which nothing more is made.
const AHEAD_BYTES: usize = 256 * 1024;

pub(super) struct ChildTransport<'a> {
    down: &'a mut Downstream,
    outer: &'a mut dyn Transport,
    /// Pieces that the parent's filters haven't taken.
    waiting: VecDeque<Buf>,
    waiting_bytes: usize,
    is_cut: bool,
    failure: Option<FilterError>,
}

impl<'a> ChildTransport<'a> {
    pub fn new(down: &'a mut Downstream, outer: &'a mut dyn Transport) -> Self {
        ChildTransport { down, outer, waiting: VecDeque::new(), waiting_bytes: 0, is_cut: false, failure: None }
    }

    /// True if the fragment had no response, or broke off.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

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
            let stepped = self.down.step(piece, false, &mut *self.outer).map(|step| step.state);
            self.waiting_bytes -= before - piece.len();
            match stepped {
                Ok(FilterState::More) => {}
                Ok(FilterState::Hungry) => drop(self.waiting.pop_front()),
                // The rest isn't wanted: the end of a range.
                Ok(FilterState::End) => {
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

impl BodyOnly for ChildTransport<'_> {
    fn put(&mut self, piece: Buf) {
        if self.waiting.is_empty() && self.down.is_immediate() {
            self.down.pass(piece, &mut *self.outer);
        } else if !piece.is_empty() {
            self.waiting_bytes += piece.len();
            self.waiting.push_back(piece);
        }
    }

    fn cut(&mut self) {
        self.is_cut = true;
    }

    fn held(&self) -> usize {
        self.waiting_bytes + self.outer.queued()
    }

    fn poll_room(&mut self, cx: &mut Context<'_>, keep: usize) -> Poll<Result<(), SendError>> {
        ready!(self.poll_filters(cx))?;
        self.outer.poll_flush(cx, keep)
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.outer.poll_peer_closed(cx)
    }
}
