// SPDX-License-Identifier: BSD-2-Clause
//! Putting a body that can't stay in memory until it is whole: it goes at the disk's pace, and what of it is written can be
//! read at once. All else of a [`Put`] never waits.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use crate::body::DiskBody;
use crate::core::{Core, DiskLog};
use crate::format::CHUNK;
use crate::format::object::Chunk;
use crate::put::{Put, Refused};

/// Bytes that may have come and found no room in the log yet.
const MOST_BACKLOG: usize = 4 << 20;
/// Seconds without any room, or without anything written, after which there is no use in waiting.
const PATIENCE: u32 = 10;
/// The same where writes fail, for a body in part on the disk, which can't do without: it was one of a few that failed if
/// there is room in this time. All others don't wait at all: see [`GrowProgress::is_over`].
const PATIENCE_WITH_FAILURES: u32 = 3;
/// The same for a body of which nothing has left memory yet: there it may have room, and a client waits for it. From then on all
/// such bodies stay there, until the device has ended something.
const PATIENCE_IN_MEMORY: u32 = 2;

#[derive(Debug, Default)]
pub(crate) struct GrowProgress {
    /// Chunks that aren't known to be written, with the log's position after each.
    unwritten: VecDeque<(u64, Chunk)>,
    written: Vec<Chunk>,
    written_bytes: u64,
    /// The body up to the written chunks, for readers.
    pub body: Option<DiskBody>,
    pub is_patient: bool,
    /// The last chunk, of any length, has been appended or will be.
    pub is_whole: bool,
    waits_since: Option<u32>,
}

impl GrowProgress {
    pub fn appended(&mut self, end: u64, chunk: Chunk) {
        self.unwritten.push_back((end, chunk));
    }

    fn settle(&mut self, log: &DiskLog) {
        let written = log.written();
        let known = self.written.len();
        while let Some((_, chunk)) = self.unwritten.pop_front_if(|(end, _)| *end <= written) {
            self.written_bytes += u64::from(chunk.len);
            self.written.push(chunk);
        }
        if let Some(body) = &self.body {
            body.grow(&self.written[known..]);
        }
        if self.written.len() > known {
            self.waits_since = None;
        }
    }

    /// True if waiting is of no use any longer: it took too long, or writes fail, and nothing is on its way that could
    /// change anything. A client waits for this body, which may have room in memory as long as all of it is there.
    fn is_over(&mut self, core: &Core) -> bool {
        let now = core.now.load(Relaxed);
        let waits_since = *self.waits_since.get_or_insert(now);
        let log = core.log.lock();
        let is_in_memory = self.body.is_none();
        let has_failed = now < log.paused_until && log.in_flight.is_empty();
        let patience = match (has_failed, is_in_memory) {
            (true, true) => 0,
            (true, false) => PATIENCE_WITH_FAILURES,
            (false, _) => PATIENCE,
        };
        let is_futile = is_in_memory && log.under_way.stands_still(now, PATIENCE_IN_MEMORY);
        is_futile || now.saturating_sub(waits_since) >= patience
    }
}

impl Put {
    /// Ready when more can be pushed. From now on this put waits: what comes meanwhile is kept up to a bound.
    ///
    /// # Errors
    /// The object isn't stored.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        self.progress.is_patient = true;
        let core = self.core.clone();
        core.changed.poll_for(cx, || match self.append_backlog() {
            Ok(()) => {
                self.progress.waits_since = None;
                Some(Ok(()))
            }
            Err(Refused::Slow | Refused::NoSegment) if !self.progress.is_over(&core) => None,
            Err(refused) => Some(Err(self.refused(refused))),
        })
    }

    /// Ready when more than `above` bytes of the body are written, which is less than has been appended: how many.
    ///
    /// # Errors
    /// The object isn't stored.
    pub fn poll_settled(&mut self, cx: &mut Context<'_>, above: u64) -> Poll<Result<u64, Refused>> {
        let core = self.core.clone();
        core.changed.poll_for(cx, || match self.settle() {
            Ok(written) if written > above => Some(Ok(written)),
            Ok(_) if !self.progress.is_over(&core) => None,
            Ok(_) => Some(Err(self.refused(Refused::Slow))),
            Err(refused) => Some(Err(self.refused(refused))),
        })
    }

    /// Nothing more is pushed. Ready when all of the body is written: how many bytes.
    ///
    /// # Errors
    /// The object isn't stored.
    pub fn poll_whole(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, Refused>> {
        self.progress.is_whole = true;
        let core = self.core.clone();
        core.changed.poll_for(cx, || match self.append_all().and_then(|()| self.settle()) {
            Ok(written) if self.progress.unwritten.is_empty() => Some(Ok(written)),
            Ok(_) | Err(Refused::Slow | Refused::NoSegment) if !self.progress.is_over(&core) => None,
            Ok(_) => Some(Err(self.refused(Refused::Slow))),
            Err(refused) => Some(Err(self.refused(refused))),
        })
    }

    /// The written part of the body, for readers; it grows with later writes. In the end it is the object's body.
    pub fn so_far(&mut self) -> DiskBody {
        let (core, key) = (&self.core, self.mark.key);
        let written = &self.progress.written;
        self.progress.body.get_or_insert_with(|| DiskBody::new(core, None, key, written.clone(), None)).clone()
    }

    pub(crate) fn append_backlog(&mut self) -> Result<(), Refused> {
        while self.tail.len() > CHUNK {
            self.append_chunk(CHUNK)?;
        }
        Ok(())
    }

    /// Appends whole chunks. A lack of room is an error only if more bytes wait than the bound allows.
    pub(crate) fn append_patiently(&mut self) -> Result<(), Refused> {
        match self.append_backlog() {
            Err(Refused::Slow | Refused::NoSegment) if self.tail.len() <= MOST_BACKLOG => Ok(()),
            result => result,
        }
    }

    fn append_all(&mut self) -> Result<(), Refused> {
        self.append_backlog()?;
        if self.tail.is_empty() { Ok(()) } else { self.append_chunk(self.tail.len()) }
    }

    /// Number of written bytes. The rest is on its way after this.
    fn settle(&mut self) -> Result<u64, Refused> {
        self.append_patiently()?;
        let core = self.core.clone();
        let mut log = core.appending();
        if log.failures != self.failures {
            return Err(Refused::Failed);
        }
        self.progress.settle(&log);
        if !self.progress.unwritten.is_empty() && log.in_flight.is_empty() {
            log.flush();
        }
        Ok(self.progress.written_bytes)
    }
}
