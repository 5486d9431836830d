// SPDX-License-Identifier: BSD-2-Clause
//! The store as the home of a `storage::Store`: the same operations under the names that the cache knows.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use base::Real;
use storage::{Home, HomeId, LoadFuture, Record, StoreError, Stored, StoredBody, Writing};

use crate::core::Core;
use crate::disk::{Disk, Stage};
use crate::format::key_of;
use crate::format::object::ObjectTexts;
use crate::format::removal::Removal;
use crate::load::{Loaded, Lost, RecordCandidate};
use crate::put::{Put, Refused};

/// Bits of an id that are the address; the others are of the generation's count, the half that isn't drawn.
const AT_BITS: u32 = 40;

impl Home for Disk {
    fn find(&self, digest: &[u8; 32]) -> Vec<HomeId> {
        Disk::find(self, digest).iter().filter_map(|candidate| id_of(candidate.generation, candidate.at)).collect()
    }

    fn holds(&self, digest: &[u8; 32], id: HomeId) -> bool {
        let place = self.core.index.place(&key_of(digest));
        self.core.resolve(id).is_some_and(|(_, at)| {
            let slot = self.core.index.get(place, at);
            slot.is_some_and(|slot| slot.expiry > self.core.now.load(Relaxed))
        })
    }

    fn load(&self, digest: &[u8; 32], id: HomeId) -> LoadFuture {
        let candidate = self.candidate(digest, id);
        let (disk, digest) = (self.clone(), *digest);
        Box::pin(async move {
            let candidate = candidate.ok_or(StoreError("it isn't there any more"))?;
            let loaded = disk.load(candidate, &digest).await.map_err(|lost| StoreError(text(lost)))?;
            let Loaded { record, body, head, tags } = loaded;
            Ok(Stored { id, record, head, tags, body: Arc::new(body) })
        })
    }

    fn begin(&self, digest: &[u8; 32]) -> Box<dyn Writing> {
        Box::new(self.put(digest))
    }

    fn note_use(&self, digest: &[u8; 32], id: HomeId) {
        if let Some(candidate) = self.candidate(digest, id) {
            Disk::note_use(self, candidate);
        }
    }

    fn remove(&self, digest: &[u8; 32], id: HomeId) -> bool {
        let place = self.core.index.place(&key_of(digest));
        match self.core.resolve(id) {
            Some((generation, at)) => Disk::remove(self, RecordCandidate { generation, at, blocks: 0, place }),
            // Its segment was reclaimed, and it may have been moved, then and again: nobody knows which it is now.
            None => self.core.remove_found(digest),
        }
    }

    fn remove_all(&self, digest: &[u8; 32], before: u64) -> usize {
        Disk::remove_all(self, digest, before)
    }

    fn least_ban_seq(&self) -> Option<u64> {
        if self.is_ready() { Disk::least_ban_seq(self) } else { Some(0) }
    }

    fn journal_needed_from(&self) -> Option<u64> {
        // One that can't be opened holds nothing, and is found to be another journal's if it can be one day.
        let is_refused = matches!(self.progress().stage, Stage::Refused(_));
        if is_refused { None } else { Disk::journal_needed_from(self) }
    }

    fn is_ready(&self) -> bool {
        // One that can't be opened holds nothing.
        matches!(self.progress().stage, Stage::Ready | Stage::Refused(_))
    }

    fn set_judge(&self, judge: Box<dyn storage::CopyJudge>) {
        assert!(self.core.judge.set(judge).is_ok(), "a store is judged by one");
    }
}

impl Disk {
    /// The candidate of an id, if it can be found.
    fn candidate(&self, digest: &[u8; 32], id: HomeId) -> Option<RecordCandidate> {
        let place = self.core.index.place(&key_of(digest));
        let (generation, at) = self.core.resolve(id)?;
        let slot = self.core.index.get(place, at)?;
        Some(RecordCandidate { generation, at, blocks: slot.blocks, place })
    }
}

impl Core {
    /// The number of the newest invalidation that a record has stood, as far as anybody knows; `None`: it is to go.
    pub fn judge(&self, record: &Record<Real>, texts: &ObjectTexts<'_>) -> Option<u64> {
        let Some(judge) = self.judge.get() else { return Some(record.ban_seq) };
        let newest = judge.judge(record, texts.head, texts.tags)?;
        Some(newest.max(record.ban_seq))
    }

    /// Generation and address: of now, or under which the record was moved away of late.
    fn resolve(&self, id: HomeId) -> Option<(u64, u64)> {
        let at = id.0.get() & ((1 << AT_BITS) - 1);
        let is_meant = |generation: &u64| id_of(*generation, at) == Some(id);
        let now = Some(self.generation_at(at)).filter(is_meant);
        now.map(|generation| (generation, at)).or_else(|| {
            let log = self.log.lock();
            // All of them are of one segment.
            let generation = log.moved.keys().next().map(|&(generation, _)| generation).filter(is_meant)?;
            log.moved.get(&(generation, at)).copied()
        })
    }

    /// Removes what can be found of a digest, whatever it knows.
    fn remove_found(self: &Arc<Core>, digest: &[u8; 32]) -> bool {
        let mut log = self.appending();
        let removed = self.index.remove_all(self.index.place(&key_of(digest)));
        for slot in &removed {
            log.note_removal(Removal::Record { generation: self.generation_at(slot.at), at: slot.at });
        }
        self.counters.removed.add(removed.len() as u64);
        !removed.is_empty()
    }
}

impl Writing for Put {
    fn push(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        Put::push(self, bytes).map_err(|refused| StoreError(refusal(refused)))
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        Put::poll_room(self, cx).map_err(|refused| StoreError(refusal(refused)))
    }

    fn poll_settled(&mut self, cx: &mut Context<'_>, above: u64) -> Poll<Result<u64, StoreError>> {
        Put::poll_settled(self, cx, above).map_err(|refused| StoreError(refusal(refused)))
    }

    fn poll_whole(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, StoreError>> {
        Put::poll_whole(self, cx).map_err(|refused| StoreError(refusal(refused)))
    }

    fn so_far(&mut self) -> Option<Arc<dyn StoredBody>> {
        Some(Arc::new(Put::so_far(self)))
    }

    fn finish(self: Box<Self>, record: &Record<Real>, head: &[u8], tags: &[u8]) -> Option<HomeId> {
        let candidate = Put::finish(*self, record, &ObjectTexts { head, tags }).ok()?;
        id_of(candidate.generation, candidate.at)
    }
}

/// `None` before there was anything in its segment.
fn id_of(generation: u64, at: u64) -> Option<HomeId> {
    let id = at | (generation >> 32) << AT_BITS;
    NonZeroU64::new(id).filter(|_| generation != 0).map(HomeId)
}

fn text(lost: Lost) -> &'static str {
    match lost {
        Lost::Gone => "it isn't there any more",
        Lost::OtherDigest => "it is another object's",
        Lost::Damaged => "a checksum of its record is wrong",
        Lost::Device(_) => "its record can't be read",
        Lost::Busy => "too many reads are in progress",
    }
}

fn refusal(refused: Refused) -> &'static str {
    match refused {
        Refused::NotOpen => "the store isn't open",
        Refused::Slow => "writing is behind",
        Refused::NoSegment => "no segment can be written",
        Refused::TooLarge => "it is too large",
        Refused::Overtaken => "it was removed meanwhile",
        Refused::Failed => "a part of it couldn't be written",
    }
}
