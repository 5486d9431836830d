// SPDX-License-Identifier: BSD-2-Clause
//! Counted handles on objects, and readers of their bodies.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use base::{Mono, Vxid};
use storage::{Buf, Facts, ObjectTimes, RecordId, StoreError, StoreId, StoredBody};

use crate::attrs::ObjectFlags;
use crate::boc::{Boc, BocState, FetchFailed, ReadState};
use crate::objcore::{ObjBytes, Objcore, ObjcoreStage};

/// A counted handle: the object stays readable as long as it is held, whatever becomes of it in the index.
pub struct ObjRef {
    oc: Arc<Objcore>,
    boc: Option<Arc<Boc>>,
}

impl ObjRef {
    /// True for a pass whose store is full: bytes that wait for the client are charged to no store.
    pub fn is_squeezed(&self) -> bool {
        self.boc.as_ref().is_some_and(|boc| boc.is_squeezed())
    }

    pub(crate) fn new(oc: Arc<Objcore>) -> Self {
        let boc = oc.boc();
        Self::with(oc, boc)
    }

    pub(crate) fn with(oc: Arc<Objcore>, boc: Option<Arc<Boc>>) -> Self {
        boc.iter().for_each(|boc| boc.client_in());
        Self { oc, boc }
    }

    pub(crate) fn objcore(&self) -> &Arc<Objcore> {
        &self.oc
    }

    /// The stored head, as given to `set_head`. Empty before [`ObjRef::headers`] is ready.
    pub fn head(&self) -> &[u8] {
        match (self.oc.bytes(), &self.boc) {
            (Some(bytes), _) => bytes.view().head(),
            (None, Some(boc)) => boc.head_block().map_or(&[], |block| block.view().head()),
            (None, None) => &[],
        }
    }

    /// Attributes that [`Busy::set_aux_attrs`](crate::Busy::set_aux_attrs) stored beside the head. Empty before that,
    /// and during a fetch that got its attributes after it was published.
    pub fn aux_attrs(&self) -> &[u8] {
        match (self.oc.bytes(), &self.boc) {
            (Some(bytes), _) => bytes.view().aux_attrs(),
            (None, Some(boc)) => boc.head_block().map_or(&[], |block| block.view().aux_attrs()),
            (None, None) => &[],
        }
    }

    pub fn xid(&self) -> Vxid {
        Vxid(self.with_facts(|facts| facts.xid()))
    }

    /// The present times, which a purge may have cut.
    pub fn times(&self) -> ObjectTimes {
        self.with_facts(|facts| facts.times())
    }

    /// Reads the facts where they are. Those of a fetch in progress are in the boc, for which the objcore would take a lock.
    fn with_facts<R>(&self, read: impl FnOnce(Facts<'_>) -> R) -> R {
        match &self.boc {
            Some(boc) if self.oc.bytes().is_none() => read(boc.facts.facts()),
            Some(_) | None => self.oc.with_facts(read),
        }
    }

    /// True if the object has left the cache: purged, banned or evicted.
    pub fn is_dying(&self) -> bool {
        self.oc.state() == ObjcoreStage::Dying
    }

    pub fn flags(&self) -> ObjectFlags {
        self.oc.flags()
    }

    /// Times it was delivered from the cache.
    pub fn hits(&self) -> u32 {
        self.oc.hits()
    }

    /// Counts a delivery of an object that a lookup returned for validation.
    pub fn note_hit(&self, now: Mono) {
        self.oc.count_hit();
        self.oc.touch();
        self.oc.note_use(now);
    }

    /// The record in the store's arena that survives, once the object is complete.
    pub fn record(&self) -> Option<RecordId> {
        self.oc.record()
    }

    pub fn store(&self) -> StoreId {
        self.oc.store()
    }

    /// Length of the body when it is whole.
    pub fn body_len(&self) -> Option<u64> {
        match (&self.boc, self.oc.bytes()) {
            (Some(boc), _) => match boc.state() {
                BocState::Finished { length } => Some(length),
                BocState::ReqDone | BocState::PrepStream | BocState::Stream { .. } | BocState::Failed(_) => None,
            },
            (None, bytes) => bytes.map(ObjBytes::body_len),
        }
    }

    /// Body bytes so far when it was found while its fetch ran, as the log's Hit record wants to know.
    pub fn fetched(&self) -> Option<u64> {
        self.boc.as_ref().map(|boc| boc.fetched())
    }

    /// Progress of its fetch; an object found whole is Finished.
    pub fn state(&self) -> BocState {
        match &self.boc {
            Some(boc) => boc.state(),
            None => BocState::Finished { length: self.oc.bytes().map_or(0, ObjBytes::body_len) },
        }
    }

    /// Ready when the head can be read.
    pub fn headers(&self) -> Headers<'_> {
        Headers { obj: self, id: None }
    }

    pub fn finished(&self) -> Finished<'_> {
        Finished { obj: self, id: None }
    }

    /// True if the body of a complete object can be read only from its store's home: late, or with an error.
    #[inline]
    pub fn is_in_home_alone(&self) -> bool {
        self.boc.is_none() && self.oc.home_rest().is_some_and(|rest| rest.front().is_none())
    }

    pub fn is_same(&self, other: &ObjRef) -> bool {
        Arc::ptr_eq(&self.oc, &other.oc)
    }

    /// Reads the body from `start` on, following the fetch if it still runs.
    pub fn reader(&self, start: u64) -> BodyReader {
        BodyReader::new(self.clone(), start)
    }

    pub fn into_reader(self, start: u64) -> BodyReader {
        BodyReader::new(self, start)
    }

    fn poll_state(
        &self,
        cx: &mut Context<'_>,
        id: &mut Option<u64>,
        done: impl Fn(BocState) -> bool,
    ) -> Poll<Result<(), FetchFailed>> {
        let Some(boc) = &self.boc else { return Poll::Ready(Ok(())) };
        match ready!(boc.poll_state(cx, id, done)) {
            BocState::Failed(reason) => Poll::Ready(Err(reason)),
            BocState::ReqDone | BocState::PrepStream | BocState::Stream { .. } | BocState::Finished { .. } => {
                Poll::Ready(Ok(()))
            }
        }
    }

    fn forget(&self, id: Option<u64>) {
        if let (Some(id), Some(boc)) = (id, &self.boc) {
            boc.forget(id);
        }
    }
}

impl Clone for ObjRef {
    fn clone(&self) -> Self {
        Self::with(self.oc.clone(), self.boc.clone())
    }
}

impl Drop for ObjRef {
    fn drop(&mut self) {
        self.boc.iter().for_each(|boc| boc.client_out());
    }
}

impl std::fmt::Debug for ObjRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.oc.fmt(f)
    }
}

pub struct Headers<'a> {
    obj: &'a ObjRef,
    id: Option<u64>,
}

impl Future for Headers<'_> {
    type Output = Result<(), FetchFailed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let obj = self.obj;
        obj.poll_state(cx, &mut self.id, |state| !matches!(state, BocState::ReqDone | BocState::PrepStream))
    }
}

impl Drop for Headers<'_> {
    fn drop(&mut self) {
        self.obj.forget(self.id);
    }
}

pub struct Finished<'a> {
    obj: &'a ObjRef,
    id: Option<u64>,
}

impl Future for Finished<'_> {
    type Output = Result<(), FetchFailed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let obj = self.obj;
        obj.poll_state(cx, &mut self.id, |state| matches!(state, BocState::Finished { .. } | BocState::Failed(_)))
    }
}

impl Drop for Finished<'_> {
    fn drop(&mut self) {
        self.obj.forget(self.id);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyReadError {
    Fetch(FetchFailed),
    /// The store lost the body: report it with [`Cache::lose`](crate::Cache::lose).
    Store(StoreError),
}

/// The place where a reader waits, and its number there.
#[derive(Clone, Copy)]
enum Waits {
    Nowhere,
    Fetch(u64),
    Store(u64),
    /// Waits for bytes that the fetch has dropped from memory and that are in the home.
    Left(u64),
}

/// Reads a body. Any number of readers may follow one fetch, except of an uncacheable one, which has one.
pub struct BodyReader {
    obj: ObjRef,
    offset: u64,
    /// Offset at which the reader stops.
    until: u64,
    waits: Waits,
}

impl BodyReader {
    fn new(obj: ObjRef, offset: u64) -> Self {
        Self { obj, offset, until: u64::MAX, waits: Waits::Nowhere }
    }

    /// The next bytes (at most a block); `None` at the end. Asking again says that the bytes before are done with.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, BodyReadError>> {
        let found = match &self.obj.boc {
            None => ReadState::Moved,
            Some(boc) => {
                let mut id = if let Waits::Fetch(id) = self.waits { Some(id) } else { None };
                let found = boc.poll_at(cx, &mut id, self.offset);
                if !matches!(found, Poll::Ready(Ok(ReadState::Stored(_)))) {
                    self.leave_left();
                }
                if let Some(id) = id {
                    self.waits = Waits::Fetch(id);
                }
                ready!(found).map_err(BodyReadError::Fetch)?
            }
        };
        let buf = match found {
            ReadState::Bytes(buf) => Some(buf),
            ReadState::End => None,
            ReadState::Stored(stored) => Some(ready!(self.poll_left(cx, &*stored)).map_err(BodyReadError::Store)?),
            ReadState::Moved => ready!(self.poll_stored(cx)).map_err(BodyReadError::Store)?,
        };
        self.offset += buf.as_ref().map_or(0, |buf| buf.len() as u64);
        Poll::Ready(Ok(buf))
    }

    /// The next stored bytes. They are always ready for a body in memory.
    #[inline]
    fn poll_stored(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, StoreError>> {
        if base::failpoint::fault("an eviction under delivery") && self.obj.is_dying() {
            return Poll::Ready(Ok(None));
        }
        let Some(bytes) = self.obj.oc.bytes() else { return Poll::Ready(Ok(None)) };
        // The end of the fetch has woken, and forgotten, all that waited for it.
        let mut id = if let Waits::Store(id) = self.waits { Some(id) } else { None };
        let found = bytes.poll_at(cx, &mut id, self.offset..self.until);
        self.waits = id.map_or(Waits::Nowhere, Waits::Store);
        found
    }

    /// Bytes that the fetch has dropped from memory.
    #[cold]
    fn poll_left(&mut self, cx: &mut Context<'_>, stored: &dyn StoredBody) -> Poll<Result<Buf, StoreError>> {
        // The fetch removes its waiters itself.
        let mut id = if let Waits::Left(id) = self.waits { Some(id) } else { None };
        let found = stored.poll_at(cx, &mut id, self.offset..self.until.min(stored.len()));
        self.waits = id.map_or(Waits::Nowhere, Waits::Left);
        found
    }

    fn leave_left(&mut self) {
        if let (Waits::Left(id), Some(boc)) = (self.waits, &self.obj.boc) {
            self.waits = Waits::Nowhere;
            boc.stored().into_iter().for_each(|stored| stored.forget(id));
        }
    }

    pub async fn next(&mut self) -> Result<Option<Buf>, BodyReadError> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub fn seek(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// Announces that no bytes from `offset` on will be needed. The last piece may still reach beyond.
    pub fn stop_at(&mut self, offset: u64) {
        self.until = offset;
    }

    pub fn object(&self) -> &ObjRef {
        &self.obj
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        self.leave_left();
        match (self.waits, self.obj.oc.bytes()) {
            (Waits::Nowhere | Waits::Left(_), _) | (Waits::Store(_), None) => {}
            (Waits::Fetch(id), _) => self.obj.forget(Some(id)),
            (Waits::Store(id), Some(bytes)) => bytes.forget(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_of_a_home_is_as_small_as_one_of_a_fetch() {
        assert_eq!(size_of::<BodyReader>(), size_of::<(ObjRef, u64, u64, Option<u64>)>());
        assert_eq!(
            size_of::<Poll<Result<Option<Buf>, BodyReadError>>>(),
            size_of::<Poll<Result<Option<Buf>, FetchFailed>>>()
        );
    }
}
