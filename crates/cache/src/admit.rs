// SPDX-License-Identifier: BSD-2-Clause
//! Admission to the front: a long body that is only in its store's home is copied to memory once it is used again,
//! while its readers go on. It must fit, or have been used more often than the objects that would be evicted for it.
//! One task does that, one object after the other; objects beyond its speed stay where they are.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use base::critical::Lock;
use storage::{BodyBlocks, HomeRest, Store, StoreError};

use crate::cache::{Cache, CacheShared};
use crate::objcore::{Objcore, ObjcoreStage};

/// Divisor: a body larger than one part in `SHARE` of its front stays in the home.
const SHARE: u64 = 8;
/// Objects that wait to be admitted at most.
const MOST_WAITING: usize = 256;

#[derive(Default)]
pub(crate) struct Admissions {
    inner: Lock<Inner>,
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Weak<Objcore>>,
    waker: Option<Waker>,
}

impl Admissions {
    fn push(&self, oc: &Arc<Objcore>) {
        let waker = {
            let mut inner = self.inner.lock();
            if inner.waiting.len() >= MOST_WAITING {
                return;
            }
            inner.waiting.push_back(Arc::downgrade(oc));
            inner.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    async fn next(&self) -> Arc<Objcore> {
        poll_fn(|cx| {
            let mut inner = self.inner.lock();
            while let Some(oc) = inner.waiting.pop_front() {
                if let Some(oc) = oc.upgrade() {
                    return Poll::Ready(oc);
                }
            }
            inner.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Cache {
    /// True if a store has a home, so that [`Cache::admit`] may have work to do.
    pub fn has_homes(&self) -> bool {
        !self.shared().homes.is_empty()
    }

    /// Brings bodies to the fronts of their stores that are wanted there, for as long as it is polled: one task does it.
    pub async fn admit(&self) {
        let shared = self.shared();
        loop {
            let oc = shared.admissions.next().await;
            shared.bring_body(&oc).await;
        }
    }
}

impl CacheShared {
    /// An object of a store with a home is delivered: is its body to come to the front?
    pub fn note_delivery(&self, oc: &Arc<Objcore>) {
        let Some(rest) = oc.home_rest().filter(|rest| rest.front().is_none()) else { return };
        let limit = self.stores().get(oc.store()).limit_bytes().unwrap_or(u64::MAX);
        let uses = rest.count_use();
        // At the second use since it was read back, and at times after that: at last each 128th.
        if rest.stored().len() <= limit / SHARE && uses > 1 && uses.is_power_of_two() {
            self.admissions.push(oc);
        }
    }

    /// True if the store has room for `bytes` of a body, or the object is used more than those that would be evicted
    /// for it.
    fn is_worth_room(&self, store: &Store, payer: u16, rest: &HomeRest, bytes: u64) -> bool {
        let has_room = store.free_bytes().is_none_or(|free| free >= bytes);
        has_room || self.evictors[store.id() as usize].is_before_next(rest.uses().into(), payer, bytes)
    }

    async fn bring_body(&self, oc: &Arc<Objcore>) {
        let store = self.stores().get(oc.store());
        let Some(rest) = oc.home_rest().filter(|rest| rest.front().is_none()) else { return };
        // Not read at all where something has to go that is used more.
        if !self.is_worth_room(store, oc.tenant(), rest, rest.stored().len()) {
            return;
        }
        let Some(body) = self.read_body(store, oc, rest).await else { return };
        if !rest.set_front(body.pieces().cloned().collect()) {
            return;
        }
        self.main.home_admit.inc();
        let _shard = self.shard(&oc.digest()).lock();
        if oc.state() == ObjcoreStage::Stored {
            // It is heavier now.
            self.evictors[oc.store() as usize].remove(oc);
            self.evictable_again(oc);
        }
    }

    /// The body in blocks of the front; `None` if there is no room, it can't be read, or no request wants it any more.
    async fn read_body(&self, store: &Store, oc: &Objcore, rest: &HomeRest) -> Option<BodyBlocks> {
        let (mut body, mut nukes_left) = (BodyBlocks::default(), self.hot_params.nuke_limit());
        let mut reading = Reading { rest, reader: None };
        while body.len() < rest.stored().len() {
            let bytes = reading.next(body.len()).await.ok()?;
            if oc.state() != ObjcoreStage::Stored || !self.is_worth_room(store, oc.tenant(), rest, bytes.len() as u64) {
                return None;
            }
            let block = self.block(store, oc.tenant(), &[&bytes], &mut nukes_left, &mut Vec::new());
            body.push(block.ok()?);
        }
        Some(body)
    }
}

struct Reading<'a> {
    rest: &'a HomeRest,
    reader: Option<u64>,
}

impl Reading<'_> {
    async fn next(&mut self, offset: u64) -> Result<storage::Buf, StoreError> {
        let stored = self.rest.stored();
        poll_fn(|cx| stored.poll_at(cx, &mut self.reader, offset..stored.len())).await
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if let Some(reader) = self.reader {
            self.rest.stored().forget(reader);
        }
    }
}
