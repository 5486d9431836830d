// SPDX-License-Identifier: BSD-2-Clause
//! A body on the disk, read chunk by chunk as it is asked for, with a few chunks ahead. Each chunk is checked before
//! a byte of it is given out.

use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use storage::{Buf, StoreError, StoredBody};

use crate::core::Core;
use crate::format::entry::{EntryHead, Kind};
use crate::format::object::Chunk;
use crate::format::{CHUNK, Key, UNIT, checksum};
use crate::load::{Candidate, Lost};
use crate::put::{part_bytes, part_name};

/// Chunks that are read before they are asked for.
const AHEAD: usize = 2;
/// Chunks that are held though nobody waits for them.
const HELD: usize = 4;

type Reading = Pin<Box<dyn Future<Output = Result<Buf, Lost>> + Send>>;

/// A body on the disk.
pub struct DiskBody {
    core: Arc<Core>,
    candidate: Candidate,
    key: Key,
    chunks: Vec<Chunk>,
    len: u64,
    /// All of it, when it came with its record.
    inline: Option<Buf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    chunks: BTreeMap<usize, ChunkState>,
    waiters: BTreeMap<u64, Waiter>,
    next_waiter: u64,
    lost: Option<StoreError>,
}

enum ChunkState {
    Reading(Reading),
    Read(Buf),
}

struct Waiter {
    chunk: usize,
    waker: Waker,
}

impl DiskBody {
    pub(crate) fn new(
        core: &Arc<Core>,
        candidate: Candidate,
        key: Key,
        chunks: Vec<Chunk>,
        inline: Option<Buf>,
    ) -> DiskBody {
        let len = chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
        DiskBody { core: core.clone(), candidate, key, chunks, len, inline, state: Mutex::default() }
    }

    /// The body, when it came with its record.
    pub fn inline(&self) -> Option<&Buf> {
        self.inline.as_ref()
    }

    /// The bytes of one chunk, read now.
    pub(crate) fn read_chunk(&self, number: usize) -> Reading {
        let (core, key, chunk) = (self.core.clone(), self.key, self.chunks[number]);
        Box::pin(async move { read_chunk(&core, &key, number as u32, chunk).await })
    }

    /// How many chunks it has, when it didn't come with its record.
    pub(crate) fn chunk_count(&self) -> usize {
        if self.inline.is_some() { 0 } else { self.chunks.len() }
    }

    /// What is there from `offset` on, and who is to be woken after the unlock.
    fn poll_locked(
        &self,
        state: &mut State,
        cx: &mut Context<'_>,
        waiter: &mut Option<u64>,
        bytes: Range<u64>,
    ) -> (Poll<Result<Buf, StoreError>>, Vec<Waker>) {
        let (offset, until) = (bytes.start, bytes.end.div_ceil(CHUNK as u64) as usize);
        let wanted = (offset / CHUNK as u64) as usize;
        if state.lost.is_none() {
            let id = *waiter.get_or_insert_with(|| {
                state.next_waiter += 1;
                state.next_waiter
            });
            state.waiters.insert(id, Waiter { chunk: wanted, waker: cx.waker().clone() });
            self.advance(state, wanted, until);
        }
        if let Some(lost) = state.lost {
            state.chunks.clear();
            if let Some(id) = waiter.take() {
                state.waiters.remove(&id);
            }
            return (Poll::Ready(Err(lost)), wakers(state));
        }
        let Some(ChunkState::Read(bytes)) = state.chunks.get(&wanted) else { return (Poll::Pending, Vec::new()) };
        let bytes = bytes.slice((offset % CHUNK as u64) as usize..bytes.len());
        if let Some(id) = waiter.take() {
            state.waiters.remove(&id);
        }
        self.trim(state, wanted);
        // Readings were polled with the wakers of a moment ago: who still waits looks again and leaves its own.
        (Poll::Ready(Ok(bytes)), wakers(state))
    }

    /// Sees to it that a chunk and those behind it are being read, and takes what has come.
    fn advance(&self, state: &mut State, wanted: usize, until: usize) {
        let until = until.min(wanted + 1 + AHEAD).max(wanted + 1);
        for number in wanted..self.chunks.len().min(until) {
            state.chunks.entry(number).or_insert_with(|| ChunkState::Reading(self.read_chunk(number)));
        }
        // Whoever polls moves all readings on: each of them wakes all who wait.
        let waker = Waker::from(Arc::new(Wakers(state.waiters.values().map(|waiter| waiter.waker.clone()).collect())));
        let mut cx = Context::from_waker(&waker);
        for chunk in state.chunks.values_mut() {
            let ChunkState::Reading(reading) = chunk else { continue };
            match reading.as_mut().poll(&mut cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(bytes)) => *chunk = ChunkState::Read(bytes),
                Poll::Ready(Err(lost)) => {
                    self.core.lost(self.candidate, lost);
                    state.lost = Some(StoreError(text(lost)));
                    return;
                }
            }
        }
    }

    /// Lets go of chunks that nobody waits for, the first ones first.
    fn trim(&self, state: &mut State, wanted: usize) {
        let is_waited_for = |number: usize| state.waiters.values().any(|waiter| waiter.chunk == number);
        let idle: Vec<usize> =
            state.chunks.keys().copied().filter(|&number| number != wanted && !is_waited_for(number)).collect();
        for number in idle.iter().take(idle.len().saturating_sub(HELD)) {
            state.chunks.remove(number);
        }
    }
}

impl StoredBody for DiskBody {
    fn len(&self) -> u64 {
        self.len
    }

    fn at_hand(&self) -> Option<Buf> {
        self.inline.clone()
    }

    fn charged_bytes(&self) -> u64 {
        self.inline.as_ref().map_or(0, |bytes| bytes.len() as u64)
    }

    fn poll_at(
        &self,
        cx: &mut Context<'_>,
        reader: &mut Option<u64>,
        wanted: Range<u64>,
    ) -> Poll<Result<Buf, StoreError>> {
        if let Some(bytes) = &self.inline {
            return Poll::Ready(Ok(bytes.slice(wanted.start as usize..bytes.len())));
        }
        let (result, woken) = self.poll_locked(&mut self.state.lock(), cx, reader, wanted);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    fn forget(&self, waiter: u64) {
        let mut state = self.state.lock();
        state.waiters.remove(&waiter);
        let woken = wakers(&state);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl std::fmt::Debug for DiskBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DiskBody({} bytes at {})", self.len, self.candidate.at)
    }
}

/// Wakes all of them.
struct Wakers(Vec<Waker>);

impl std::task::Wake for Wakers {
    fn wake(self: Arc<Self>) {
        self.0.iter().for_each(Waker::wake_by_ref);
    }
}

fn wakers(state: &State) -> Vec<Waker> {
    state.waiters.values().map(|waiter| waiter.waker.clone()).collect()
}

fn text(lost: Lost) -> &'static str {
    match lost {
        Lost::Gone | Lost::OtherDigest => "the body's segment was reclaimed",
        Lost::Damaged => "a checksum of the body is wrong",
        Lost::Device(_) => "the body can't be read",
        Lost::Busy => "too many reads are in progress",
    }
}

async fn read_chunk(core: &Arc<Core>, key: &Key, number: u32, chunk: Chunk) -> Result<Buf, Lost> {
    if chunk.generation == 0 || core.generation_at(chunk.at) != chunk.generation {
        return Err(Lost::Gone);
    }
    let bytes = core.read_units(chunk.at, part_bytes(chunk.len).div_ceil(UNIT)).await?;
    let store_id = core.geometry().superblock.store_id;
    let head = EntryHead::decode(&bytes, store_id, chunk.generation, chunk.at);
    let is_its = head.is_some_and(|head| head.kind == Kind::Part && head.own == part_name(key, number));
    let body = bytes.get(UNIT as usize..part_bytes(chunk.len) as usize);
    let is_whole = |body: &[u8]| !core.options.checks_bodies || checksum(store_id, body) == chunk.sum;
    match body.filter(|body| is_its && is_whole(body)) {
        Some(body) => Ok(Buf::unaccounted(body.to_vec())),
        None => Err(core.damage(chunk.at, chunk.generation)),
    }
}
