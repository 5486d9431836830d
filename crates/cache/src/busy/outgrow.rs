// SPDX-License-Identifier: BSD-2-Clause
//! Bodies that are longer than their store's front (its memory) can spare for one.
//!
//! Until it has grown to its share, such a body is in memory as any other, and goes to the home beside. From there on its
//! fetch goes at the home's pace: it lets go of blocks that the home has written, and readers that are behind read those
//! from there, as they will all of the body once it is whole. What isn't known to be written stays in memory.
//!
//! When the home can't take it (a disk that fails, stands still, is being read in, or is too small), a body that fits into
//! memory stays there. One that doesn't is passed on to its only reader and not kept, and without exactly one reader its
//! fetch fails. So it is in a store without a home. At its end nothing more has to fit: then any number of readers get it.
//!
//! What is passed on, as what is passed, goes by way of Transient. When that is full, too, the origin waits for the reader, piece by piece.

use std::task::{Context, Poll, Waker};

use storage::{Buf, NoSpace, StoreError, Writing};

use super::Busy;
use crate::boc::Boc;
use crate::tombstones::TombstoneCause;

impl Busy {
    /// Ready when more of a body that is kept should be appended.
    pub(super) fn poll_front(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(filling) = &mut self.filling else { return Poll::Ready(()) };
        let Some(share) = filling.store.front_share() else { return Poll::Ready(()) };
        let held = self.boc.held();
        let held = held.end - held.start;
        if held < share / 2 && !self.is_long {
            return Poll::Ready(());
        }
        let Some(writing) = &mut filling.writing else { return Poll::Ready(()) };
        let result = match writing.poll_room(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(())) if held < share => return Poll::Ready(()),
            Poll::Ready(Ok(())) => match let_go(&self.boc, &mut **writing, cx, share / 2) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(result) => result,
            },
        };
        self.short_blocks = 0;
        if result.is_err() {
            self.lose_home();
        }
        Poll::Ready(())
    }

    /// Ready when the object may be finished: all of the body that isn't in memory is in its home, or nobody can find
    /// the object any more. Append nothing after the call.
    pub fn poll_whole(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.boc.is_transit() || !self.boc.has_let_go() {
            return Poll::Ready(());
        }
        let writing = self.filling.as_mut().and_then(|filling| filling.writing.as_mut());
        match writing.map(|writing| writing.poll_whole(cx)) {
            Some(Poll::Pending) => return Poll::Pending,
            Some(Poll::Ready(Ok(_))) => {}
            Some(Poll::Ready(Err(_))) | None => {
                self.give_up_writing();
                self.publish();
                self.cache.shared().kill(&self.oc, TombstoneCause::Evicted);
                self.boc.keep_for_readers();
            }
        }
        Poll::Ready(())
    }

    /// Passes a body that is longer than its store allows on to its only reader, and doesn't keep it. Returns `false`
    /// if there isn't exactly one reader.
    pub fn outgrow(&mut self) -> bool {
        self.pass_on()
    }

    /// Allocates a block for more of the body. If the store has no room left, the body drops bytes from memory or is
    /// passed on.
    pub(super) fn body_block(&mut self, part: &[u8]) -> Result<Buf, NoSpace> {
        let full = match self.own_block(part) {
            Ok(buf) => {
                self.boc.set_squeezed(false);
                return Ok(buf);
            }
            Err(full) => full,
        };
        if self.boc.is_transit() {
            return Ok(self.squeezed(part));
        }
        let filling = self.filling.as_mut().expect("the head is stored before the body");
        if let Some(writing) = &mut filling.writing {
            let _ = let_go(&self.boc, &mut **writing, &mut Context::from_waker(Waker::noop()), 0);
            self.short_blocks = 0;
            if let Ok(buf) = self.own_block(part) {
                return Ok(buf);
            }
        }
        if !self.pass_on() {
            return Err(full);
        }
        Ok(self.own_block(part).unwrap_or_else(|_| self.squeezed(part)))
    }

    /// Allocates bytes that are charged to no store, on their way to a reader whose store is full. They stay few, since
    /// the origin is held up until the reader has taken them ([`Boc::poll_room`]).
    fn squeezed(&self, part: &[u8]) -> Buf {
        if self.boc.set_squeezed(true) {
            self.cache.shared().main.fetch_squeezed.inc();
        }
        Buf::unaccounted(part.to_vec())
    }

    fn own_block(&mut self, part: &[u8]) -> Result<Buf, NoSpace> {
        let filling = self.filling.as_ref().expect("the head is stored before the body");
        let store = filling.passed_in.as_ref().map_or(&filling.store, |(store, _)| store);
        self.cache.shared().block(store, self.oc.tenant(), &[part], &mut self.nukes_left, &mut self.events)
    }

    /// Notes that the home takes no more of the body. A body of which a part has left memory can't become an object
    /// then.
    pub(super) fn lose_home(&mut self) {
        self.give_up_writing();
        if self.boc.has_let_go() {
            self.pass_on();
        }
    }

    /// Passes the body on to its only reader from now on, and hides the object from others. Returns `false` if there isn't
    /// exactly one reader.
    fn pass_on(&mut self) -> bool {
        self.give_up_writing();
        if self.is_private || !self.is_published() || self.boc.clients() != 1 {
            return false;
        }
        let shared = self.cache.shared();
        shared.kill(&self.oc, TombstoneCause::Evicted);
        // A request that found it before is counted by now.
        if self.boc.clients() != 1 {
            return false;
        }
        self.boc.pass_on(shared.hot_params.transit_buffer());
        shared.main.fetch_passed_on.inc();
        let transient = shared.stores().transient().clone();
        self.filling.as_mut().expect("it is published").passed_in = Some((transient, self.boc.held().end));
        true
    }

    fn give_up_writing(&mut self) {
        if let Some(filling) = &mut self.filling {
            filling.writing = None;
        }
    }
}

/// Drops bytes from memory that the home has written, down to `least` bytes. Ready once that is a block at least.
fn let_go(boc: &Boc, writing: &mut dyn Writing, cx: &mut Context<'_>, least: u64) -> Poll<Result<(), StoreError>> {
    let first_end = boc.first_end();
    let settled = match writing.poll_settled(cx, first_end.saturating_sub(1)) {
        Poll::Pending => return Poll::Pending,
        Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
        Poll::Ready(Ok(settled)) => settled,
    };
    let stored = writing.so_far().ok_or(StoreError("a body in progress can't be read from here"))?;
    boc.let_go(settled.min(boc.fetched().saturating_sub(least)).max(first_end), stored);
    Poll::Ready(Ok(()))
}
