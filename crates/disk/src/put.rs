// SPDX-License-Identifier: BSD-2-Clause
//! Putting an object: its body as it comes, chunk by chunk, then its record. Nothing here waits for the disk; what can't
//! be taken now isn't stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::Real;
use storage::Record;

use crate::core::{Core, PendingObject, PutMark};
use crate::format::entry::DiskEntryKind;
use crate::format::object::{self, Chunk, ObjectTexts};
use crate::format::removal::Removal;
use crate::format::segment::FooterLine;
use crate::format::{CHUNK, DigestKey, UNIT, checksum, key_of};
use crate::grow::GrowProgress;
use crate::load::RecordCandidate;
use crate::writer::slot_of;

/// Reasons why an object isn't stored. All of these are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The store isn't open, is being recovered or is being closed.
    NotOpen,
    /// Writing is behind by too much, or has failed a short while ago.
    Slow,
    NoSegment,
    TooLarge,
    Overtaken,
    Failed,
}

/// An object on its way to the disk. Dropped unfinished, there was none.
#[derive(Debug)]
pub struct Put {
    pub(crate) core: Arc<Core>,
    pub(crate) mark: Arc<PutMark>,
    digest: [u8; 32],
    chunks: Vec<Chunk>,
    /// Bytes behind the chunks, at most a chunk unless the put waits for room.
    pub(crate) tail: Vec<u8>,
    /// The log's count of failures when this began.
    pub(crate) failures: u64,
    pub(crate) progress: GrowProgress,
    /// The record that this is a copy of.
    from: Option<RecordCandidate>,
}

impl Put {
    pub(crate) fn begin(core: &Arc<Core>, digest: &[u8; 32]) -> Put {
        let mark = Arc::new(PutMark { key: key_of(digest), removed_before: AtomicU64::new(0) });
        let mut log = core.log.lock();
        log.note_put(&mark);
        let failures = log.failures;
        drop(log);
        let (core, digest, progress) = (core.clone(), *digest, GrowProgress::default());
        Put { core, mark, digest, chunks: Vec::new(), tail: Vec::new(), failures, progress, from: None }
    }

    pub(crate) fn moving(core: &Arc<Core>, digest: &[u8; 32], from: RecordCandidate) -> Put {
        Put { from: Some(from), ..Put::begin(core, digest) }
    }

    /// Adds to the body.
    ///
    /// # Errors
    /// The object isn't stored: there is no use in going on.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), Refused> {
        assert!(!self.progress.is_whole, "nothing follows a body that was said to be whole");
        if self.progress.is_patient {
            self.tail.extend_from_slice(bytes);
            return self.append_patiently().map_err(|why| self.refused(why));
        }
        while !bytes.is_empty() {
            if self.tail.len() == CHUNK {
                self.append_chunk(CHUNK).map_err(|why| self.refused(why))?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - self.tail.len()));
            self.tail.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// The body is whole: the object can be found as soon as it is written. Its name, for [`crate::Disk::remove`].
    ///
    /// # Errors
    /// The object isn't stored.
    pub fn finish(mut self, record: &Record<Real>, texts: &ObjectTexts<'_>) -> Result<RecordCandidate, Refused> {
        let result = self.finish_record(record, texts);
        if let (Ok(candidate), Some(body)) = (&result, &self.progress.body) {
            body.set_record(*candidate);
        }
        if result.is_ok() && self.from.is_none() {
            self.core.counters.puts.count();
        }
        result
    }

    /// [`Put::finish`] of a copy: also where its chunks are.
    pub(crate) fn finish_copy(
        mut self,
        record: &Record<Real>,
        texts: &ObjectTexts<'_>,
    ) -> Result<(RecordCandidate, Vec<Chunk>), Refused> {
        let candidate = self.finish_record(record, texts)?;
        Ok((candidate, std::mem::take(&mut self.chunks)))
    }

    fn finish_record(&mut self, record: &Record<Real>, texts: &ObjectTexts<'_>) -> Result<RecordCandidate, Refused> {
        if texts.bytes() > object::MOST_TEXT {
            return Err(self.refused(Refused::TooLarge));
        }
        if !self.chunks.is_empty() && !self.tail.is_empty() {
            self.append_backlog().and_then(|()| self.append_chunk(self.tail.len())).map_err(|why| self.refused(why))?;
        }
        let core = self.core.clone();
        let store_id = core.opened().ok_or(Refused::NotOpen)?.superblock.store_id;
        if !self.tail.is_empty() {
            let sum = checksum(store_id, &self.tail);
            self.chunks.push(Chunk { generation: 0, at: 0, len: self.tail.len() as u32, sum });
        }
        let copy_of = self.from.map_or((0, 0), |from| (from.generation, from.at));
        let encoded = object::encode(store_id, record, copy_of, texts, &self.chunks);
        self.append_record(record, &encoded)
    }

    fn append_record(&mut self, record: &Record<Real>, encoded: &[u8]) -> Result<RecordCandidate, Refused> {
        let core = self.core.clone();
        let (place, expiry) = (core.index.place(&self.mark.key), object::expiry(&record.times));
        let mut log = core.appending();
        if (encoded.len() + self.tail.len()) as u64 + UNIT > object::MOST_ENTRY {
            return Err(self.refused(Refused::TooLarge));
        }
        let is_there = self.from.is_none_or(|from| core.index.get(place, from.at).is_some());
        if !is_there || self.mark.removed_before.load(Relaxed) > record.ban_seq {
            return Err(self.refused(Refused::Overtaken));
        }
        if log.failures != self.failures || !self.chunks.iter().all(|chunk| self.is_current(chunk)) {
            return Err(self.refused(Refused::Failed));
        }
        let pieces = [encoded, &self.tail];
        let appended = log.append(DiskEntryKind::Object, self.digest, &pieces).map_err(|why| self.refused(why))?;
        let body_bytes: u64 = self.chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
        let open = log.open.as_mut().expect("just appended to");
        let first = core.units_of(open.index).start;
        open.lines.push(FooterLine {
            key: self.mark.key,
            ban_seq: record.ban_seq,
            offset: (appended.at - first) as u32,
            expiry,
            units: appended.len as u32,
            body_kb: body_bytes.div_ceil(1024).min(u64::from(u32::MAX)) as u32,
        });
        let index = open.index as usize;
        let least = &mut log.segments[index].least_ban_seq;
        *least = record.ban_seq.min(*least);
        let slot = slot_of(&appended, expiry);
        log.pending.push_back(PendingObject { end: appended.end, place, key: self.mark.key, slot });
        if let Some(from) = self.from {
            core.index.remove(place, from.at);
            // The copy itself says so, until its segment has a footer.
            let original = Removal::Record { generation: from.generation, at: from.at };
            log.unsealed.push(original);
            log.open.as_mut().expect("just appended to").removals.push(original);
            log.moved.insert((from.generation, from.at), (appended.generation, appended.at));
            core.counters.moved.count();
        }
        Ok(RecordCandidate { generation: appended.generation, at: appended.at, blocks: slot.blocks, place })
    }

    fn is_current(&self, chunk: &Chunk) -> bool {
        chunk.at == 0 || self.core.generation_at(chunk.at) == chunk.generation
    }

    pub(crate) fn append_chunk(&mut self, len: usize) -> Result<(), Refused> {
        let core = self.core.clone();
        let Some(opened) = core.opened() else { return Err(Refused::NotOpen) };
        let bytes = &self.tail[..len];
        let sum = checksum(opened.superblock.store_id, bytes);
        let mut log = core.appending();
        if log.failures != self.failures {
            return Err(Refused::Failed);
        }
        if (self.chunks.len() + 1) as u64 * CHUNK as u64 > core.most_body_bytes(&log) {
            return Err(Refused::TooLarge);
        }
        let own = part_name(&self.mark.key, self.chunks.len() as u32);
        let appended = log.append(DiskEntryKind::Part, own, &[bytes])?;
        let chunk = Chunk { generation: appended.generation, at: appended.at, len: len as u32, sum };
        self.chunks.push(chunk);
        self.progress.appended(appended.end, chunk);
        self.tail.drain(..len);
        Ok(())
    }

    /// Counts it, if it isn't a copy that only stays where it is.
    pub(crate) fn refused(&self, why: Refused) -> Refused {
        let counters = &self.core.counters;
        match why {
            Refused::NotOpen => {}
            Refused::Slow => counters.puts_slow.count(),
            Refused::NoSegment => counters.puts_no_segment.count(),
            Refused::TooLarge => counters.puts_too_large.count(),
            Refused::Overtaken => counters.puts_overtaken.count(),
            Refused::Failed => counters.puts_failed.count(),
        }
        why
    }
}

/// Text in the head of a chunk's entry.
pub(crate) fn part_name(key: &DigestKey, number: u32) -> [u8; 32] {
    let mut own = [0; 32];
    own[..16].copy_from_slice(key);
    own[16..20].copy_from_slice(&number.to_le_bytes());
    own
}

pub(crate) fn part_bytes(len: u32) -> u64 {
    u64::from(len) + UNIT
}
