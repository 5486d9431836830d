// SPDX-License-Identifier: BSD-2-Clause
//! The right, and the duty, to fill an objcore. Dropping it unfinished is a failed fetch.

mod outgrow;

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base::Mono;
use storage::{
    BodyBlocks, Buf, HeadLengths, HomeId, HomeRest, NoSpace, ObjectTimes, Record, Rest, SMALL_BODY, Store, StoreId,
    Writing,
};
use sync::Called;

use crate::attrs::{Attrs, VaryKey};
use crate::boc::{Boc, BocState, FetchFailed};
use crate::cache::Cache;
use crate::digest::Digest;
use crate::events::CacheEvent;
use crate::objcore::{HeadBlock, ObjBytes, Objcore, ObjcoreStage};
use crate::objref::ObjRef;
use crate::tags::{self, TagFetch};
use crate::tenants::Tenant;
use crate::tombstones::TombstoneCause;
use crate::waiting::{Followed, RushReason};

/// Longest block a body is written in.
const PIECE: usize = 64 << 10;
/// Limits for gathering short appends: this many blocks in a row, or this many bytes, become one block.
const SHORT_BLOCK: usize = 4 << 10;
const SHORT_BLOCKS: usize = 16;
/// Estimate of the bytes that a record takes in addition to those of its object.
const RECORD_BYTES: u64 = 512;

/// The body is shorter or longer than was announced; the fetch has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongLength {
    pub declared: u64,
    pub fetched: u64,
}

/// Error: the only client of this fetch has gone, so nobody needs the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unwanted;

/// See the module. `Send`: a fetch may move between threads.
pub struct Busy {
    cache: Cache,
    oc: Arc<Objcore>,
    boc: Arc<Boc>,
    is_private: bool,
    is_over: bool,
    filling: Option<Filling>,
    nukes_left: u32,
    short_blocks: usize,
    /// The body was announced as longer than its share of the store's front.
    is_long: bool,
    /// The object is for those that wait for it, even if it is stale when it comes.
    is_for_waiters: bool,
    events: Vec<CacheEvent>,
    tags: Vec<Box<[u8]>>,
    record_tags: Vec<u8>,
    tags_began: Option<TagFetch>,
    /// The tag of its family ([`Busy::join_family`]).
    family: Option<Box<[u8]>>,
    /// Keeps its row for as long as the object isn't counted there.
    tenant: Option<Tenant>,
    /// Bytes for which the tenant is charged until the object is complete: in its store, and in the one that it is passed through.
    charged: [(StoreId, u64); 2],
}

struct Filling {
    store: Arc<Store>,
    head_block: HeadBlock,
    attrs: Attrs,
    is_published: bool,
    /// The object on its way into the store's home.
    writing: Option<Box<dyn Writing>>,
    /// The store that a body passes through on its way to the reader, if it can't be kept, from that byte on.
    passed_in: Option<(Arc<Store>, u64)>,
}

impl Filling {
    /// Bytes in its own store and in the one that it is passed through, of a body of which `body` is in memory.
    fn held_bytes(&self, body: Range<u64>) -> [(StoreId, u64); 2] {
        let (through, from) = match &self.passed_in {
            Some((store, from)) => (store.id(), (*from).clamp(body.start, body.end)),
            None => (self.store.id(), body.end),
        };
        let own = self.head_block.buf.len() as u64 + (from - body.start);
        [(self.store.id(), own), (through, body.end - from)]
    }
}

impl Busy {
    pub(crate) fn is_of(&self, oc: &Arc<Objcore>) -> bool {
        Arc::ptr_eq(&self.oc, oc)
    }

    /// An address that identifies the objcore while this exists.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.oc) as usize
    }

    pub(crate) fn new(cache: Cache, oc: Arc<Objcore>, boc: Arc<Boc>, is_private: bool) -> Self {
        let nukes_left = cache.shared().hot_params.nuke_limit();
        let shared = cache.shared();
        let tags_began = if is_private { None } else { shared.tags.begin(&shared.bans) };
        Self {
            cache,
            oc,
            boc,
            is_private,
            is_over: false,
            filling: None,
            nukes_left,
            short_blocks: 0,
            is_long: false,
            is_for_waiters: true,
            events: Vec::new(),
            tags: Vec::new(),
            record_tags: Vec::new(),
            tags_began,
            family: None,
            tenant: None,
            charged: [(0, 0); 2],
        }
    }

    /// A handle for the client that waits for this fetch: await its `headers()`, then read. Take it before the fetch
    /// starts; a background fetch needs none.
    pub fn object(&self) -> ObjRef {
        ObjRef::with(self.oc.clone(), Some(self.boc.clone()))
    }

    /// An object that is stale when it comes isn't for those that wait for it: each use needs a validation.
    pub fn keep_stale_from_waiters(&mut self) {
        self.is_for_waiters = false;
    }

    /// True if requests are parked until this fetch has a head.
    pub fn has_waiters(&self) -> bool {
        !self.is_private && self.cache.shared().shard(&self.boc.digest()).lock().heads.has_waiters(&self.boc.digest())
    }

    /// Resolves once a request is parked until this fetch has a head. `None`: none ever is.
    pub fn followed(&self) -> Option<Followed<'_>> {
        (!self.is_private).then(|| Followed::new(&self.cache, self.boc.digest()))
    }

    /// Forgets the body so far, so that the object can be filled again. Only before it is published.
    pub fn reset(&mut self) {
        assert!(!self.is_published(), "what others may read stays");
        self.boc.clear_body();
        self.short_blocks = 0;
        self.begin_writing();
        self.charge();
    }

    /// The keys by which [`Cache::purge_tags`] shall find the object. Before it is published.
    pub fn set_tags(&mut self, tags: Vec<Box<[u8]>>) {
        assert!(!self.is_published(), "an object's keys are known when it is published");
        self.tags = tags;
    }

    /// Makes the object a member of the family of that digest: a purge of the digest purges the object, too. Call it before
    /// the origin is asked.
    pub fn join_family(&mut self, digest: &Digest) {
        assert!(self.filling.is_none(), "an object's family is known before it is filled");
        if !self.is_private {
            let shared = self.cache.shared();
            self.tags_began = Some(shared.tags.begin_in_family(self.tags_began, &shared.bans));
            self.family = Some(message::tags::of_family(&digest.0).into());
        }
    }

    /// Names the owner of the object to be. Call it before the object is filled.
    pub fn set_tenant(&mut self, tenant: Tenant) {
        assert!(self.filling.is_none(), "an object's tenant is known before it is filled");
        self.oc.set_tenant(tenant.id());
        self.tenant = Some(tenant);
    }

    pub fn tenant(&self) -> Option<&Tenant> {
        self.tenant.as_ref()
    }

    pub fn is_private(&self) -> bool {
        self.is_private
    }

    /// The object is evicted before all others, unless it is used again. Before it is finished.
    pub fn expect_little_use(&self) {
        crate::worth::expect_little_use(&self.oc);
    }

    /// The origin took `time` for the object, or to confirm `old`. Before it is finished.
    pub fn note_fetch_time(&self, time: Duration, old: Option<&ObjRef>) {
        crate::worth::note_fetch_time(&self.oc, time, old.map(|old| &**old.objcore()));
    }

    /// Makes room in `store` for an object of `needed` bytes, as far as `nuke_limit` allows. Returns `false` if it
    /// wouldn't fit. Reserves nothing.
    pub fn make_room(&mut self, store: &Store, needed: u64) -> bool {
        let shared = self.cache.shared();
        self.nukes_left = shared.hot_params.nuke_limit();
        // In a front, from which what is evicted isn't lost, room is made as the body comes.
        let share = store.front_share();
        self.is_long = share.is_some_and(|share| needed > share);
        let needed = if share.is_some() { needed.min(PIECE as u64) } else { needed };
        shared.make_room(store, self.oc.tenant(), needed, &mut self.nukes_left, &mut self.events)
    }

    /// Stores the head, with bytes beside it that only the engine reads. Nobody sees it before [`Busy::start_stream`] or [`Busy::finish`]; until then it may be stored
    /// again, also in another store. With a hit-for-miss or hit-for-pass flag the body goes to the one client and isn't
    /// kept.
    ///
    /// # Errors
    /// [`NoSpace`] when eviction couldn't make room. The fetch may continue with another store.
    pub fn set_head(
        &mut self,
        store: &Arc<Store>,
        head: &[u8],
        vary: Option<VaryKey<'_>>,
        attrs: &Attrs,
        aux_attrs: &[u8],
    ) -> Result<(), NoSpace> {
        assert!(!self.is_published(), "the head is stored before it is published");
        let shared = self.cache.shared();
        let vary = vary.filter(|vary| !vary.spec.is_empty()).unwrap_or(VaryKey { spec: &[], values: &[] });
        let parts = [head, vary.spec, vary.values, aux_attrs];
        let buf = match shared.block(store, self.oc.tenant(), &parts, &mut self.nukes_left, &mut self.events) {
            // One of a pass lives as long as its client waits, as a request's own head does.
            Err(_) if self.is_private => Buf::unaccounted(parts.concat()),
            stored => stored?,
        };
        let head_block = HeadBlock { buf, lengths: HeadLengths::of(parts) };
        self.boc.describe(attrs);
        self.oc.describe(attrs, store.id());
        if attrs.flags.is_uncacheable() {
            self.boc.set_transit();
        }
        let filling = Filling {
            store: store.clone(),
            head_block,
            attrs: *attrs,
            is_published: false,
            writing: None,
            passed_in: None,
        };
        self.filling = Some(filling);
        self.begin_writing();
        self.charge();
        Ok(())
    }

    /// Stores opaque bytes beside the head, and replaces earlier ones. `has_esi` says that they include an ESI program.
    /// Needs [`Busy::set_head`]. If the object is published already, readers find the attributes once it is complete;
    /// in a pass they never do.
    ///
    /// # Errors
    /// [`NoSpace`] when eviction couldn't make room. The object is unchanged.
    pub fn set_aux_attrs(&mut self, aux_attrs: &[u8], has_esi: bool) -> Result<(), NoSpace> {
        let filling = self.filling.as_mut().expect("the head is stored before what goes with it");
        let old = &filling.head_block;
        let (kept, before) = old.buf.split_at(old.lengths.kept());
        if before == aux_attrs {
            self.note_esi(has_esi);
            return Ok(());
        }
        let buf = self.cache.shared().block(
            &filling.store,
            self.oc.tenant(),
            &[kept, aux_attrs],
            &mut self.nukes_left,
            &mut self.events,
        )?;
        filling.head_block.buf = buf;
        filling.head_block.lengths.aux = aux_attrs.len() as u32;
        self.note_esi(has_esi);
        Ok(())
    }

    fn note_esi(&mut self, has_esi: bool) {
        let Some(filling) = self.filling.as_mut().filter(|_| has_esi) else { return };
        filling.attrs.flags.has_esi = true;
        self.oc.set_esi();
    }

    /// Publishes the head: clients and lookups find the object while its body grows. Needs [`Busy::set_head`].
    pub fn start_stream(&mut self) {
        self.publish();
        self.boc.advance(BocState::Stream { fetched: 0 });
    }

    /// Adds body bytes; readers are woken.
    ///
    /// # Errors
    /// [`NoSpace`] when eviction couldn't make room: the fetch should fail.
    pub fn append(&mut self, data: &[u8]) -> Result<(), NoSpace> {
        for part in data.chunks(PIECE) {
            let buf = self.body_block(part)?;
            self.boc.push(buf);
            self.charge();
            self.short_blocks = if part.len() < SHORT_BLOCK { self.short_blocks + 1 } else { 0 };
        }
        self.write(data);
        if self.short_blocks >= SHORT_BLOCKS && !self.boc.is_transit() {
            self.coalesce();
        }
        Ok(())
    }

    /// Adds body bytes of another object: the same block then belongs to both. Readers are woken.
    ///
    /// # Errors
    /// The bytes again, when that object isn't in this one's store: they need a copy.
    pub fn share(&mut self, bytes: Buf, of: StoreId) -> Result<(), Buf> {
        let filling = self.filling.as_ref().expect("the head is stored before the body");
        if filling.store.id() != of {
            return Err(bytes);
        }
        self.write(&bytes);
        self.boc.push(bytes);
        self.charge();
        Ok(())
    }

    /// Ready when more should be appended: a body that is only passed on waits for its reader. Fails when its client
    /// has gone, so that the fetch can end.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Unwanted>> {
        if !self.boc.is_transit() {
            return self.poll_front(cx).map(Ok);
        }
        self.boc.poll_room(cx).map_err(|()| Unwanted)
    }

    /// Ready once nobody needs the fetch: its only client has gone, and the object isn't stored. Only for the fetch's
    /// own task, since there is one place for a waker.
    pub fn poll_unwanted(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.boc.poll_unwanted(cx)
    }

    /// Sets how many bytes a passed body may be ahead of its reader (`beresp.transit_buffer`); `None`: any number.
    pub fn set_transit_buffer(&mut self, bytes: Option<u64>) {
        self.boc.set_room(bytes);
    }

    /// The limit set by [`Busy::set_transit_buffer`], or the cache's own setting.
    pub fn transit_buffer(&self) -> Option<u64> {
        self.boc.room()
    }

    /// Wakes requests that wait for the head or the body, after an event beside the object.
    pub fn wake_readers(&self) {
        self.boc.wake_readers();
    }

    /// True if somebody needs this fetch. Returns `false` once the only client of an uncacheable object has gone.
    pub fn is_wanted(&self) -> bool {
        self.boc.is_wanted()
    }

    pub fn fetched(&self) -> u64 {
        self.boc.fetched()
    }

    /// Evictions and the like made for this fetch since last asked, for its log.
    pub fn take_events(&mut self) -> Vec<CacheEvent> {
        std::mem::take(&mut self.events)
    }

    /// Completes the body: publishes the head if that hasn't happened, moves the object into one block, and ends the
    /// fetch. Returns the body's length.
    ///
    /// # Errors
    /// [`WrongLength`] when `declared` differs from the length: the fetch has failed and the object is dropped. For
    /// callers that know the length and haven't checked it yet.
    pub fn finish(mut self, declared: Option<u64>) -> Result<u64, WrongLength> {
        self.complete(declared)
    }

    /// Does what [`Busy::finish`] does, without moving what is dropped next. Once only.
    ///
    /// # Errors
    /// See [`Busy::finish`].
    pub fn complete(&mut self, declared: Option<u64>) -> Result<u64, WrongLength> {
        assert!(!self.is_over, "a fetch ends once");
        let fetched = self.boc.fetched();
        if let Some(declared) = declared.filter(|&declared| declared != fetched) {
            self.end_failed(FetchFailed::new("body of another length than announced"));
            return Err(WrongLength { declared, fetched });
        }
        self.publish();
        let copy = self.finish_writing();
        let bytes = self.stored_bytes();
        self.end_finished(fetched, bytes, copy);
        Ok(fetched)
    }

    /// Like [`Busy::finish`], for the response to a failed fetch, which no other request may have: it leaves the index
    /// at once, and the cause is remembered. Returns the body's length.
    pub fn finish_failed(mut self) -> u64 {
        self.is_for_waiters = false;
        let (oc, cache) = (self.oc.clone(), self.cache.clone());
        let length = self.boc.fetched();
        assert!(self.finish(None).is_ok(), "no length was declared");
        cache.shared().kill(&oc, TombstoneCause::FetchFailed);
        length
    }

    /// Ends a fetch whose body broke off but whose beginning is useful to others, as the auxiliary attributes say. They
    /// find the object with that much of the body. Present readers get `reason` behind it.
    pub fn finish_cut(mut self, reason: FetchFailed) {
        assert!(!self.is_private, "a pass has one reader");
        self.publish();
        let copy = self.finish_writing();
        let bytes = self.stored_bytes().expect("what isn't a pass has bytes for the index");
        self.is_over = true;
        self.cache.shared().settle(&self.oc, bytes, copy);
        self.charge();
        self.boc.advance(BocState::Failed(reason));
        self.oc.drop_boc();
    }

    /// Ends the fetch. `bytes` is `None` for a pass, whose only reader has the body.
    /// Counts the bytes of a body that is only passed on.
    fn count_transit(&self) {
        if !self.boc.is_transit() {
            return;
        }
        let main = self.cache.shared().main;
        let counter = if self.boc.room().is_some() { &main.transit_buffered } else { &main.transit_stored };
        counter.add(self.boc.fetched());
    }

    fn end_finished(&mut self, length: u64, bytes: Option<ObjBytes>, copy: Option<(HomeId, ObjectTimes)>) {
        self.count_transit();
        self.is_over = true;
        let is_stored = bytes.is_some();
        if let Some(bytes) = bytes {
            self.cache.shared().settle(&self.oc, bytes, copy);
        }
        self.charge();
        self.boc.advance(BocState::Finished { length });
        if is_stored {
            self.oc.drop_boc();
        }
    }

    /// The home of the store takes the object, too, if it is one to be kept.
    fn begin_writing(&mut self) {
        let has_family = self.family.is_some();
        let Some(filling) = &mut self.filling else { return };
        let Some(home) = filling.store.home() else { return };
        // Purges of a family reach objects in memory only.
        let is_kept =
            !has_family && !self.is_private && !filling.attrs.flags.is_uncacheable() && filling.attrs.times.ttl > 0.0;
        filling.writing = is_kept.then(|| home.begin(&self.boc.digest().0));
    }

    /// Sends more of the body to the home. Bytes that the home can't take in time stay in memory only.
    #[inline]
    fn write(&mut self, data: &[u8]) {
        let Some(filling) = &mut self.filling else { return };
        if let Some(writing) = &mut filling.writing
            && writing.push(data).is_err()
        {
            self.lose_home();
        }
    }

    /// Completes the copy in the home; returns the copy's name and the times written there. The object is published.
    fn finish_writing(&mut self) -> Option<(HomeId, ObjectTimes)> {
        let filling = self.filling.as_mut()?;
        let writing = filling.writing.take()?;
        let (shared, times) = (self.cache.shared(), self.oc.times());
        if !shared.is_to_survive(&self.oc) {
            return None;
        }
        let record = Record { times, ..shared.record_of(&self.oc, filling.head_block.lengths) };
        let record = record.on_clock(|mono| shared.clock.real_of(mono));
        let id = writing.finish(&record, &filling.head_block.buf, &self.record_tags)?;
        Some((id, times))
    }

    /// Gives back an unneeded right to fetch. Waiting requests look up again.
    pub fn release(mut self) {
        self.is_over = true;
        assert!(!self.is_published(), "what was published is finished, or fails");
        self.boc.advance(BocState::Failed(FetchFailed::new("not needed")));
        let called = self.unlist(usize::MAX);
        self.cache.wake(called);
    }

    /// Takes a busy objcore out of the index, and calls at most `most` of the requests that wait.
    fn unlist(&mut self, most: usize) -> Vec<Called> {
        let (shared, digest) = (self.cache.shared(), self.boc.digest());
        let (removed, called) = {
            let mut shard = shared.shard(&digest).lock();
            self.oc.set_state(ObjcoreStage::Dying);
            let removed = shard.heads.remove(&self.oc);
            shared.bans.unpin(&self.oc);
            shared.tags.end(self.tags_began.take());
            (removed, shard.heads.call_waiters(&digest, most, RushReason::LookAgain))
        };
        drop(removed);
        called
    }

    pub fn fail(mut self, reason: FetchFailed) {
        self.end_failed(reason);
    }

    fn is_published(&self) -> bool {
        self.filling.as_ref().is_some_and(|filling| filling.is_published)
    }

    /// Makes the objcore findable (unless it is a pass) and rushes the waitinglist.
    fn publish(&mut self) {
        let filling = self.filling.as_mut().expect("the head is stored before it is published");
        if filling.is_published {
            return;
        }
        filling.is_published = true;
        self.boc.set_head_block(filling.head_block.clone());
        self.boc.advance(BocState::PrepStream);
        if self.is_private {
            self.oc.set_state(ObjcoreStage::Stored);
        } else {
            self.unbusy();
        }
    }

    fn unbusy(&mut self) {
        let filling = self.filling.as_ref().expect("only what has a head is published");
        let shared = self.cache.shared();
        let (oc, digest) = (&self.oc, &self.boc.digest());
        let mut surplus = None;
        if let Some(family) = self.family.take_if(|family| !self.tags.contains(family)) {
            self.tags.push(family);
        }
        if !(self.tags.is_empty() && self.tenant.is_none())
            && (filling.store.keeps_records() || filling.writing.is_some())
        {
            let name = self.tenant.as_ref().map(|tenant| message::tags::of_tenant(tenant.name().as_bytes()));
            let tags = self.tags.iter().map(|tag| &tag[..]).chain(name.as_deref());
            self.record_tags = tags::encoded(self.tags_began.map_or(0, |fetch| fetch.began), tags);
        }
        let called = {
            let mut shard = shared.shard(digest).lock();
            // What is dead at birth is never found.
            let (now, times) = (shared.now(), self.times());
            let is_found = times.ttl > 0.0 && times.grace_until(None, None).0 >= now.0;
            let mut when = times.dead_at();
            if let Some(soft) = self.boc.take_soft_purge() {
                oc.set_times(soft.purge.shorten(times, soft.at, shared.params.load().compat));
                when = self.times().dead_at();
                if is_found {
                    oc.overtake_softly(soft.seq);
                    when = Mono(when.0.max(shared.overtaken_until().0));
                }
            }
            oc.note_use(now);
            let by_key = shared.tags.attach(oc, &std::mem::take(&mut self.tags), self.tags_began.take(), &shared.bans);
            by_key.apply(oc);
            if let Some((seq, _)) = by_key.soft {
                when = self.times().dead_at();
                if is_found {
                    oc.overtake_softly(seq);
                    when = Mono(when.0.max(shared.overtaken_until().0));
                }
            }
            let serves_waiters = self.may_serve_waiters(now) && shard.heads.has_waiters(digest);
            if serves_waiters {
                oc.overtake_softly(shared.bans.next_seq());
                when = Mono(when.0.max(shared.overtaken_until().0));
            }
            if oc.is_overtaken() {
                when = shared.overtaken_until();
            }
            shard.heads.unbusy(digest, oc, filling.head_block.view().vary(), shared.hot_params.vary_notice());
            oc.set_state(ObjcoreStage::Stored);
            shared.bans.attach(oc);
            shared.arm(&mut shard, oc, when);
            if is_found
                && !oc.is_overtaken()
                && let Some(old) = shard.heads.superseded(oc)
            {
                surplus = Some(shared.unlink(&mut shard, &old, TombstoneCause::Replaced));
            } else if serves_waiters && let Some(old) = shard.heads.outlived(oc, now) {
                surplus = Some(shared.unlink(&mut shard, &old, TombstoneCause::Replaced));
            } else if let Some(old) =
                shard.heads.surplus(digest, shared.hot_params.vary_limit()).filter(|old| !Arc::ptr_eq(old, oc))
            {
                shared.main.vary_limit.inc();
                surplus = Some(shared.unlink(&mut shard, &old, TombstoneCause::VaryLimit));
            }
            // Requests that waited for an object that can't be found would otherwise fetch one after the other.
            let reason = if is_found || serves_waiters { RushReason::LookAgain } else { RushReason::EachAlone };
            let called = shard.heads.call_waiters(digest, usize::MAX, reason);
            if !called.is_empty() {
                shard.recent_rushes.add(oc, shared.now(), shared.overtaken_until());
            }
            called
        };
        drop(surplus);
        self.cache.wake(called);
    }

    /// The object's times while its fetch has them: without a lock, unlike the objcore's.
    fn times(&self) -> ObjectTimes {
        self.boc.facts.facts().times()
    }

    /// True if the object is stale already, and yet for all that waited for it. Requests that come later don't get it for that.
    fn may_serve_waiters(&self, now: Mono) -> bool {
        let (shared, oc) = (self.cache.shared(), &self.oc);
        let is_stale = self.times().fresh_until(None).0 <= now.0;
        is_stale
            && self.is_for_waiters
            && !oc.flags().is_uncacheable()
            && !oc.is_overtaken()
            && shared.params.load().stale_serves_waiters
    }

    /// Coalesces the short blocks at the end of the body into one block, if there is room.
    fn coalesce(&mut self) {
        let count = std::mem::take(&mut self.short_blocks);
        let Some(filling) = &self.filling else { return };
        let tail = self.boc.tail(count);
        let parts: Vec<&[u8]> = tail.iter().map(|buf| &buf[..]).collect();
        if let Ok(merged) = filling.store.block(&parts) {
            self.boc.replace_tail(count, merged);
        }
    }

    /// The bytes for the objcore, from the boc. `None`, of a pass: its one reader finds head and body in the boc.
    fn stored_bytes(&mut self) -> Option<ObjBytes> {
        let filling = self.filling.take().expect("only what has a head is finished");
        if self.is_private {
            return None;
        }
        let (store, head_block) = (filling.store, filling.head_block);
        let record = self.cache.shared().record_of(&self.oc, head_block.lengths);
        let is_moved = self.boc.is_moved_at_end();
        if let Some(stored) = is_moved.then(|| self.boc.stored()).flatten() {
            let rest = Rest::Home(Box::new(HomeRest::new(stored)));
            return Some(ObjBytes::new(head_block.buf, Some(rest), &record));
        }
        let body = if is_moved { self.boc.copy_body() } else { BodyBlocks::default() };
        let compact = match self.has_room_for_record(&store, head_block.lengths, &body) {
            true => store.keep(&record, head_block.buf, &self.record_tags, &body).0,
            false => store.compact(head_block.buf, &body),
        };
        Some(ObjBytes::new(compact.head, compact.rest, &record))
    }

    /// True if the object gets a record and there is room for it. Evicts for that: a small object is copied once more.
    fn has_room_for_record(&mut self, store: &Store, lengths: HeadLengths, body: &BodyBlocks) -> bool {
        let shared = self.cache.shared();
        if !store.keeps_records() || !shared.is_to_survive(&self.oc) {
            return false;
        }
        let copied = if body.len() <= SMALL_BODY { body.len() } else { 0 };
        let needed = (lengths.all() + self.record_tags.len()) as u64 + copied + RECORD_BYTES;
        shared.make_room(store, self.oc.tenant(), needed, &mut self.nukes_left, &mut self.events)
    }

    /// Charges the tenant for the bytes that the fetch holds; for none once it is over, as the index counts them then.
    fn charge(&mut self) {
        let shared = self.cache.shared();
        if !shared.tenants.are_used() {
            return;
        }
        let tenant = self.oc.tenant();
        let held = match self.filling.as_ref().filter(|_| !self.is_over) {
            Some(filling) => filling.held_bytes(self.boc.held()),
            None => self.charged.map(|(store, _)| (store, 0)),
        };
        for ((store, before), (now_in, after)) in self.charged.into_iter().zip(held) {
            if store == now_in {
                shared.evictors[usize::from(store)].charge(tenant, before, after);
            } else {
                shared.evictors[usize::from(store)].charge(tenant, before, 0);
                shared.evictors[usize::from(now_in)].charge(tenant, 0, after);
            }
        }
        self.charged = held;
    }

    fn end_failed(&mut self, reason: FetchFailed) {
        self.count_transit();
        self.is_over = true;
        let was_published = self.is_published();
        self.boc.advance(BocState::Failed(reason));
        if self.is_private {
            return;
        }
        let shared = self.cache.shared();
        if was_published {
            shared.kill(&self.oc, TombstoneCause::FetchFailed);
            return;
        }
        shared.tombstones.note(&self.boc.digest(), TombstoneCause::FetchFailed, shared.now());
        // One of them will fetch, and the others wait for that one.
        let max = shared.params.load().rush_exponent;
        let called = self.unlist(max);
        self.cache.wake(called);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if !self.is_over {
            self.end_failed(FetchFailed::new("fetch given up"));
        }
        self.charge();
    }
}

impl std::fmt::Debug for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Busy({:?}, {:?})", self.oc, self.boc)
    }
}
