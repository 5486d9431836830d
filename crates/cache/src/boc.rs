// SPDX-License-Identifier: BSD-2-Clause
//! A fetch in progress: its state, the body so far, and the readers that wait for more.
//!
//! ```text
//! ReqDone -> PrepStream -> Stream{fetched} -> Finished{length}
//!    \____________\______________\__________> Failed
//! ```
//! (A fetch that doesn't stream goes from PrepStream straight to Finished.)

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use base::Mono;
use base::critical::Lock;
use storage::{BodyBlocks, Buf, OwnFacts, Record, StoredBody};
use tables::Compat;
use tables::proxy_error::ProxyError;

use crate::attrs::Attrs;
use crate::digest::Digest;
use crate::objcore::HeadBlock;
use crate::purge::Purge;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchFailed {
    pub reason: &'static str,
    /// The registered type of error, where a cause is known.
    pub error: Option<ProxyError>,
}

impl FetchFailed {
    pub const fn new(reason: &'static str) -> Self {
        FetchFailed { reason, error: None }
    }
}

/// Progress of a fetch. Only the fetch moves it, and only forward.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BocState {
    /// The request is ready to go out.
    ReqDone,
    /// The head is stored; lookups don't find it yet.
    PrepStream,
    /// Found and read while it grows.
    Stream { fetched: u64 },
    /// The fetch is complete.
    Finished { length: u64 },
    /// The fetch was broken off.
    Failed(FetchFailed),
}

impl BocState {
    fn rank(self) -> u8 {
        match self {
            Self::ReqDone => 0,
            Self::PrepStream => 1,
            Self::Stream { .. } => 2,
            Self::Finished { .. } => 3,
            Self::Failed(_) => 4,
        }
    }

    /// The least rank at which it is over.
    const OVER: u8 = 3;

    fn is_over(self) -> bool {
        self.rank() >= Self::OVER
    }
}

/// Field names, and the values a request must have for them.
pub(crate) type VaryGuess = (Box<[u8]>, Box<[u8]>);

/// See the module. The atomics are read without the lock. Only the fetch writes them, except the client counts.
pub(crate) struct Boc {
    /// The object's digest, times, fetch and hits, until it has bytes.
    pub facts: OwnFacts,
    head_block: OnceLock<HeadBlock>,
    /// A guess, from the older variants, of the requests that this fetch will suit.
    pub vary_guess: Option<VaryGuess>,
    /// [`BocState::rank`]. Changes under the lock from Stream on, so that no reader waits for bytes that are there.
    rank: AtomicU8,
    fetched: AtomicU64,
    /// The body goes to one reader and isn't kept.
    transit: AtomicBool,
    /// Readers stay here to the end, also once the body is complete.
    stays: AtomicBool,
    /// The store is full: body bytes in transit are charged to no store, and the next ones wait until these are taken.
    squeezed: AtomicBool,
    /// Most bytes a transit body may be ahead of its reader; [`ANY_ROOM`] without a limit.
    room: AtomicU64,
    /// Set and taken under the shard's lock.
    has_soft_purge: AtomicBool,
    clients: AtomicU32,
    /// Set after the first of them is counted.
    had_client: AtomicBool,
    inner: Lock<Inner>,
}

const ANY_ROOM: u64 = u64::MAX;

struct Inner {
    reason: FetchFailed,
    body: BodyBlocks,
    /// The source for parts of the body that aren't in memory any more.
    stored: Option<Arc<dyn StoredBody>>,
    /// Offset in the body before which bytes were dropped from memory.
    left: u64,
    consumed: u64,
    waiters: Waiters,
    next_waiter: u64,
    writer: Option<Waker>,
    soft_purge: Option<SoftPurge>,
}

/// Readers that wait for more bytes, by number. There is nearly always one, whose place needs no allocation.
#[derive(Default)]
struct Waiters {
    first: Option<(u64, Waker)>,
    more: Vec<(u64, Waker)>,
}

impl Waiters {
    fn insert(&mut self, id: u64, waker: &Waker) {
        if let Some((_, old)) = self.first.iter_mut().chain(&mut self.more).find(|(other, _)| *other == id) {
            return old.clone_from(waker);
        }
        match &mut self.first {
            None => self.first = Some((id, waker.clone())),
            Some(_) => self.more.push((id, waker.clone())),
        }
    }

    fn remove(&mut self, id: u64) {
        self.first.take_if(|(other, _)| *other == id);
        self.more.retain(|(other, _)| *other != id);
    }

    /// After the unlock: each of them takes the lock first thing.
    fn wake(self) {
        self.first.into_iter().chain(self.more).for_each(|(_, waker)| waker.wake());
    }
}

/// A soft purge that came while the object was fetched. Several count as one, from the first one's time.
#[derive(Clone, Copy)]
pub(crate) struct SoftPurge {
    pub seq: u64,
    pub at: Mono,
    pub purge: Purge,
}

pub(crate) enum ReadState {
    Bytes(Buf),
    End,
    /// The bytes aren't in memory any more but can be read from here.
    Stored(Arc<dyn StoredBody>),
    /// The body moved into the objcore.
    Moved,
}

impl Boc {
    pub fn new(digest: Digest, transit: bool, room: Option<u64>, vary_guess: Option<VaryGuess>) -> Self {
        let inner = Inner {
            reason: FetchFailed::new(""),
            body: BodyBlocks::default(),
            stored: None,
            left: 0,
            consumed: 0,
            waiters: Waiters::default(),
            next_waiter: 0,
            writer: None,
            soft_purge: None,
        };
        Self {
            facts: OwnFacts::new(&Record { digest: digest.0, ..Record::default() }),
            head_block: OnceLock::new(),
            vary_guess,
            rank: AtomicU8::new(0),
            fetched: AtomicU64::new(0),
            transit: AtomicBool::new(transit),
            stays: AtomicBool::new(false),
            squeezed: AtomicBool::new(false),
            room: AtomicU64::new(room.unwrap_or(ANY_ROOM)),
            has_soft_purge: AtomicBool::new(false),
            clients: AtomicU32::new(0),
            had_client: AtomicBool::new(false),
            inner: Lock::new(inner),
        }
    }

    pub fn digest(&self) -> Digest {
        Digest(self.facts.facts().digest())
    }

    /// Notes the attributes known when the head is stored. The objcore is busy.
    pub fn describe(&self, attrs: &Attrs) {
        self.facts.set_xid(attrs.xid.0);
        self.facts.facts().set_times(attrs.times);
    }

    pub fn head_block(&self) -> Option<&HeadBlock> {
        self.head_block.get()
    }

    pub fn set_head_block(&self, head_block: HeadBlock) {
        assert!(self.head_block.set(head_block).is_ok(), "a head is published once");
    }

    pub fn state(&self) -> BocState {
        let rank = self.rank.load(Acquire);
        let fetched = self.fetched.load(Relaxed);
        match rank {
            0 => BocState::ReqDone,
            1 => BocState::PrepStream,
            2 => BocState::Stream { fetched },
            3 => BocState::Finished { length: fetched },
            _ => BocState::Failed(self.inner.lock().reason),
        }
    }

    /// [`Boc::state`] for a caller that holds the lock.
    fn state_in(&self, inner: &Inner) -> BocState {
        match self.rank.load(Relaxed) {
            4.. => BocState::Failed(inner.reason),
            _ => self.state(),
        }
    }

    pub fn is_transit(&self) -> bool {
        self.transit.load(Relaxed)
    }

    pub fn set_transit(&self) {
        self.transit.store(true, Relaxed);
    }

    pub fn room(&self) -> Option<u64> {
        Some(self.room.load(Relaxed)).filter(|&room| room != ANY_ROOM)
    }

    pub fn set_room(&self, room: Option<u64>) {
        self.room.store(room.unwrap_or(ANY_ROOM), Relaxed);
    }

    pub fn purge_softly(&self, new: SoftPurge, compat: Compat) {
        let mut inner = self.inner.lock();
        let merged = match inner.soft_purge {
            None => new,
            Some(old) => SoftPurge { purge: old.purge.then(&new.purge, compat), ..old },
        };
        inner.soft_purge = Some(merged);
        self.has_soft_purge.store(true, Relaxed);
    }

    pub fn take_soft_purge(&self) -> Option<SoftPurge> {
        if !self.has_soft_purge.load(Relaxed) {
            return None;
        }
        self.inner.lock().soft_purge.take()
    }

    pub fn fetched(&self) -> u64 {
        self.fetched.load(Relaxed)
    }

    pub fn advance(&self, next: BocState) {
        let now = self.rank.load(Relaxed);
        assert!(next.rank() > now && now < BocState::OVER, "a boc only moves forward");
        if next == BocState::PrepStream {
            // Nobody waits for that.
            return self.rank.store(next.rank(), Release);
        }
        let woken = {
            let mut inner = self.inner.lock();
            if let BocState::Failed(reason) = next {
                inner.reason = reason;
            }
            self.rank.store(next.rank(), Release);
            if matches!(next, BocState::Finished { .. }) && self.is_moved_at_end() {
                // Readers go on in the objcore. What came of a failed body is theirs until they have gone.
                inner.body.drop_before(u64::MAX);
            }
            std::mem::take(&mut inner.waiters)
        };
        woken.wake();
    }

    pub fn push(&self, buf: Buf) {
        let woken = {
            let mut inner = self.inner.lock();
            assert!(self.rank.load(Relaxed) < BocState::OVER, "no bytes after the end of a fetch");
            inner.body.push(buf);
            let fetched = inner.body.len();
            self.fetched.store(fetched, Relaxed);
            if self.is_transit() {
                if !self.had_client.load(Acquire) {
                    inner.consumed = fetched;
                }
                // The reader of a range may have skipped what comes only now.
                let consumed = inner.consumed;
                inner.body.drop_before(consumed);
            }
            std::mem::take(&mut inner.waiters)
        };
        woken.wake();
    }

    /// Drops the body so far; nobody reads it yet.
    pub fn clear_body(&self) {
        let mut inner = self.inner.lock();
        inner.body = BodyBlocks::default();
        (inner.stored, inner.left) = (None, 0);
        inner.consumed = 0;
        self.fetched.store(0, Relaxed);
    }

    /// Lets go of the blocks before `offset`, which can be read from `stored`.
    pub fn let_go(&self, offset: u64, stored: Arc<dyn StoredBody>) {
        let mut inner = self.inner.lock();
        inner.body.drop_before(offset);
        inner.left = inner.body.start();
        inner.stored = Some(stored);
    }

    pub fn has_let_go(&self) -> bool {
        self.inner.lock().left > 0
    }

    /// The source for the whole body, if parts of it were dropped from memory.
    pub fn stored(&self) -> Option<Arc<dyn StoredBody>> {
        self.inner.lock().stored.clone()
    }

    /// The part of the body that is in memory.
    pub fn held(&self) -> Range<u64> {
        let inner = self.inner.lock();
        inner.body.start()..inner.body.len()
    }

    pub fn first_end(&self) -> u64 {
        let inner = self.inner.lock();
        inner.body.pieces().next().map_or(inner.body.len(), |piece| piece.end())
    }

    /// Passes the body, which was to be kept, on to the only client, who may be behind.
    pub fn pass_on(&self, room: Option<u64>) {
        let mut inner = self.inner.lock();
        inner.consumed = inner.body.start();
        self.set_room(room);
        self.set_transit();
    }

    pub fn keep_for_readers(&self) {
        self.stays.store(true, Relaxed);
    }

    /// True if readers continue in the objcore once the body is complete.
    pub fn is_moved_at_end(&self) -> bool {
        !self.is_transit() && !self.stays.load(Relaxed)
    }

    /// Notes whether the store of a transit body is full. Returns `true` if it has just become full.
    pub fn set_squeezed(&self, is_squeezed: bool) -> bool {
        is_squeezed != self.is_squeezed() && !self.squeezed.swap(is_squeezed, Relaxed)
    }

    pub fn is_squeezed(&self) -> bool {
        self.squeezed.load(Relaxed)
    }

    pub fn clients(&self) -> u32 {
        self.clients.load(Acquire)
    }

    /// Wakes all readers because of an event outside the boc.
    pub fn wake_readers(&self) {
        let woken = std::mem::take(&mut self.inner.lock().waiters);
        woken.wake();
    }

    pub fn tail(&self, count: usize) -> Vec<Buf> {
        self.inner.lock().body.tail(count)
    }

    pub fn replace_tail(&self, count: usize, merged: Buf) {
        self.inner.lock().body.replace_tail(count, merged);
    }

    /// Takes the whole body out for compacting: the blocks, to be handed to [`storage::Store::compact`]. Readers keep finding
    /// them here until [`Boc::advance`] to Finished.
    pub fn copy_body(&self) -> BodyBlocks {
        let inner = self.inner.lock();
        let mut body = BodyBlocks::default();
        inner.body.pieces().for_each(|piece| body.push(piece.buf.clone()));
        body
    }

    pub fn client_in(&self) {
        self.clients.fetch_add(1, AcqRel);
        // Written once, not by each of them.
        if !self.had_client.load(Relaxed) {
            self.had_client.store(true, Release);
        }
    }

    /// Counts a handle of a client that was dropped. Nobody may need the fetch any more.
    pub fn client_out(&self) {
        let before = self.clients.fetch_sub(1, AcqRel);
        assert!(before > 0, "more clients left a fetch than came");
        // The fetch looks under the lock before it waits: either it has seen that the last one is gone, or it is woken here.
        if before == 1 && self.is_transit() {
            let writer = self.inner.lock().writer.take();
            writer.into_iter().for_each(Waker::wake);
        }
    }

    /// True if somebody needs the rest of the body. An object that will be stored always counts as needed.
    pub fn is_wanted(&self) -> bool {
        !self.is_transit() || !self.had_client.load(Acquire) || self.clients.load(Acquire) > 0
    }

    /// Ready once there is room for more bytes. The error means that nobody needs more.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), ()>> {
        if !self.is_transit() {
            return Poll::Ready(Ok(()));
        }
        let mut inner = self.inner.lock();
        if !self.is_wanted() {
            return Poll::Ready(Err(()));
        }
        // A range begins where the body hasn't come to yet.
        let ahead = inner.body.len().saturating_sub(inner.consumed);
        let room = if self.is_squeezed() { Some(1) } else { self.room() };
        let is_full = self.clients.load(Acquire) > 0 && room.is_some_and(|room| ahead >= room.max(1));
        if !is_full {
            return Poll::Ready(Ok(()));
        }
        inner.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    pub fn poll_unwanted(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.lock();
        if !self.is_wanted() {
            return Poll::Ready(());
        }
        match &mut inner.writer {
            Some(writer) => writer.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    pub fn poll_state(
        &self,
        cx: &mut Context<'_>,
        id: &mut Option<u64>,
        done: impl Fn(BocState) -> bool,
    ) -> Poll<BocState> {
        let mut state = self.state();
        if !done(state) {
            let mut inner = self.inner.lock();
            state = self.state_in(&inner);
            if !done(state) {
                inner.wait(cx, id);
                return Poll::Pending;
            }
        }
        // The thread that moved it there took all waiters.
        *id = None;
        Poll::Ready(state)
    }

    /// Ready once there are bytes at `offset`. Everything before it counts as consumed.
    pub fn poll_at(
        &self,
        cx: &mut Context<'_>,
        id: &mut Option<u64>,
        offset: u64,
    ) -> Poll<Result<ReadState, FetchFailed>> {
        let mut writer = None;
        let found = {
            let mut inner = self.inner.lock();
            if self.is_transit() && offset > inner.consumed {
                inner.consumed = offset;
                inner.body.drop_before(offset);
                writer = inner.writer.take();
            }
            match self.state_in(&inner) {
                BocState::Finished { .. } if self.is_moved_at_end() => Poll::Ready(Ok(ReadState::Moved)),
                state @ (BocState::ReqDone
                | BocState::PrepStream
                | BocState::Stream { .. }
                | BocState::Finished { .. }
                | BocState::Failed(_)) => match inner.body.at(offset) {
                    Some(buf) => Poll::Ready(Ok(ReadState::Bytes(buf))),
                    None if let Some(stored) = inner.stored.as_ref().filter(|_| offset < inner.left) => {
                        Poll::Ready(Ok(ReadState::Stored(stored.clone())))
                    }
                    None if let BocState::Failed(reason) = state => Poll::Ready(Err(reason)),
                    None if offset < inner.consumed => Poll::Ready(Err(FetchFailed::new("body already passed on"))),
                    None if state.is_over() => Poll::Ready(Ok(ReadState::End)),
                    None => {
                        inner.wait(cx, id);
                        Poll::Pending
                    }
                },
            }
        };
        writer.into_iter().for_each(Waker::wake);
        found
    }

    /// Removes a waiter. Each event wakes all waiters, so there is no wake-up to pass on.
    pub fn forget(&self, id: u64) {
        self.inner.lock().waiters.remove(id);
    }
}

impl Inner {
    fn wait(&mut self, cx: &Context<'_>, id: &mut Option<u64>) {
        let id = *id.get_or_insert_with(|| {
            self.next_waiter += 1;
            self.next_waiter
        });
        self.waiters.insert(id, cx.waker());
    }
}

impl std::fmt::Debug for Boc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Boc({:?})", self.state())
    }
}
