// SPDX-License-Identifier: BSD-2-Clause
//! Making room: the oldest segment's objects go, those that were used since they were written are written anew, and the
//! segment begins a new life, which is on stable storage before anything is written into it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::core::{Core, DiskLog};
use crate::footer;
use crate::format::object::Chunk;
use crate::format::segment::{FooterLine, encode_head};
use crate::format::{UNIT, key_of};
use crate::load::RecordCandidate;
use crate::put::{Put, Refused};
use crate::segments::{self, DiskSegmentState};
use crate::task;

/// Lines that are looked at in one go.
const AT_ONCE: usize = 512;

/// Seconds that a segment that is to be written anew waits for those who read from it.
const READERS_PATIENCE: u32 = 10;

struct Moved {
    from: RecordCandidate,
    to: RecordCandidate,
    chunks: Vec<Chunk>,
}

enum Next {
    Prepare(Vec<u32>),
    Reclaim(u32),
    Close,
}

pub(crate) async fn run(core: &Arc<Core>) {
    loop {
        match core.changed.wait_for(|| next(core, &core.log.lock())).await {
            Next::Prepare(free) => prepare(core, &free).await,
            Next::Reclaim(index) => reclaim(core, index).await,
            Next::Close => return,
        }
    }
}

fn next(core: &Core, log: &DiskLog) -> Option<Next> {
    if core.is_closing() {
        return Some(Next::Close);
    }
    let missing = core.segments_ahead() - log.prepared.len();
    // Several at a time: a sync takes as long for one.
    let is_enough = missing * 2 < core.segments_ahead() || missing == 0;
    if is_enough || log.is_handed_over || core.now.load(Relaxed) < log.paused_until {
        return None;
    }
    let usable = (0..).zip(&log.segments).filter(|(_, own)| own.is_usable()).map(|(index, _)| index);
    let free: Vec<u32> = usable.take(missing).collect();
    let is_written = !log.sealing.is_empty() || !log.in_flight.is_empty();
    // What another process may still read is left as it is.
    match segments::oldest(&log.segments, is_written).filter(|_| core.is_own()) {
        Some(oldest) if free.len() < missing && (free.is_empty() || !log.prepared.is_empty()) => {
            Some(Next::Reclaim(oldest))
        }
        _ => (!free.is_empty()).then_some(Next::Prepare(free)),
    }
}

async fn prepare(core: &Arc<Core>, free: &[u32]) {
    let generations: Vec<u64> = {
        let mut log = core.log.lock();
        if log.is_handed_over {
            return;
        }
        log.is_preparing = true;
        log.under_way.begin(core.now.load(Relaxed));
        free.iter().map(|_| log.draw_generation(core.options.drawn as u32)).collect()
    };
    let superblock = core.geometry().superblock;
    let mut written = Vec::with_capacity(free.len());
    for (&index, &generation) in free.iter().zip(&generations) {
        let head = encode_head(superblock.store_id, index, generation);
        written.push(task::write(&*core.device, superblock.segment_start(index), &head).await);
    }
    let synced = match written.iter().any(Result::is_ok) {
        true => core.sync_device().await,
        false => Ok(()),
    };
    let mut log = core.log.lock();
    log.is_preparing = false;
    log.has_begun = true;
    log.under_way.end(core.now.load(Relaxed));
    let mut is_any_prepared = false;
    for ((&index, generation), outcome) in free.iter().zip(generations).zip(written) {
        match (outcome, synced) {
            (Ok(()), Ok(())) => {
                prepared(core, &mut log, index, generation);
                is_any_prepared = true;
            }
            // That isn't the segment's fault: it is begun anew, with another generation.
            (Ok(()), Err(_)) => {}
            (Err(error), _) => {
                core.note_error(error, &core.counters.write_errors);
                core.blame(&mut log, index, error);
            }
        }
    }
    if !is_any_prepared {
        log.paused_until = core.now.load(Relaxed).saturating_add(1).max(log.paused_until);
    }
    drop(log);
    core.changed.raise();
}

fn prepared(core: &Core, log: &mut DiskLog, index: u32, generation: u64) {
    core.geometry().generations[index as usize].store(generation, Relaxed);
    core.geometry().uses[index as usize].is_condemned.store(false, Relaxed);
    let segment = &mut log.segments[index as usize];
    (segment.generation, segment.state, segment.least_ban_seq) = (generation, DiskSegmentState::Prepared, u64::MAX);
    segment.is_trusted = false;
    log.prepared.push_back(index);
}

/// Takes a segment's objects out of the index, after it has written those anew that were used.
async fn reclaim(core: &Arc<Core>, index: u32) {
    let generation = core.generation_of(index);
    let was_sealed = {
        let mut log = core.log.lock();
        log.moved.clear();
        let segment = &mut log.segments[index as usize];
        std::mem::replace(&mut segment.state, DiskSegmentState::Dropping) == DiskSegmentState::Sealed
    };
    let lines = match footer::read(core, index, generation).await {
        Some(footer) if was_sealed => footer.lines(core).await,
        _ => None,
    };
    if let Some(lines) = &lines {
        let used = drop_unused(core, index, lines).await;
        let moved = move_used(core, index, generation, &used).await;
        drop_lines(core, index, &used).await;
        follow(core, moved).await;
    } else {
        sweep(core, index).await;
    }
    readers_gone(core, index).await;
    let mut log = core.log.lock();
    core.free(&mut log, index);
    core.counters.segments_reclaimed.count();
    drop(log);
    core.changed.raise();
}

/// Takes out what nobody used since it was written, which is the most, and says what is left, as it stands in the segment.
async fn drop_unused(core: &Core, index: u32, lines: &[FooterLine]) -> Vec<FooterLine> {
    let first = core.units_of(index).start;
    let mut used = Vec::new();
    for some in core.index.in_order(lines.iter().map(|line| &line.key)).chunks(AT_ONCE) {
        let at = |number: u32| first + u64::from(lines[number as usize].offset);
        let all: Vec<_> = some.iter().map(|&(place, number)| (place, at(number))).collect();
        let removed = core.index.remove_unused(&all, core.now.load(Relaxed), |position| used.push(some[position].1));
        core.counters.reclaimed.add(removed as u64);
        task::yield_now().await;
    }
    used.sort_unstable();
    used.into_iter().map(|number| lines[number as usize]).collect()
}

/// Writes anew what was used, half a segment of it at most: reclaiming has to make room.
async fn move_used(core: &Arc<Core>, index: u32, generation: u64, lines: &[FooterLine]) -> Vec<Moved> {
    let first = core.units_of(index).start;
    let mut left = core.geometry().superblock.segment_bytes / 2;
    let mut moved = Vec::new();
    for line in lines {
        let (at, place) = (first + u64::from(line.offset), core.index.place(&line.key));
        let Some(slot) = core.index.get(place, at) else { continue };
        let bytes = u64::from(line.units) * UNIT + u64::from(line.body_kb) * 1024;
        if slot.expiry <= core.now.load(Relaxed) || bytes > left || core.is_closing() {
            continue;
        }
        left -= bytes;
        let candidate = RecordCandidate { generation, at, blocks: slot.blocks, place };
        // What can't be moved goes with its segment.
        moved.extend(move_one(core, candidate, line).await.ok());
    }
    moved
}

async fn move_one(core: &Arc<Core>, candidate: RecordCandidate, line: &FooterLine) -> Result<Moved, Refused> {
    let loaded = core.load(candidate, |digest| key_of(digest) == line.key).await;
    let Ok(loaded) = loaded else { return Err(Refused::Failed) };
    let mut record = loaded.record;
    record.ban_seq = core.judge(&record, &loaded.texts()).ok_or(Refused::Overtaken)?;
    let mut put = Put::moving(core, &record.digest, candidate);
    if let Some(bytes) = loaded.body.inline() {
        put.push(bytes)?;
    }
    for number in 0..loaded.body.chunk_count() {
        match loaded.body.read_chunk(number).await {
            Ok(bytes) => put.push(&bytes)?,
            Err(lost) => {
                core.lost(Some(candidate), (candidate.generation, candidate.at), lost);
                return Err(Refused::Failed);
            }
        }
    }
    let (to, chunks) = put.finish_copy(&record, &loaded.texts())?;
    Ok(Moved { from: candidate, to, chunks })
}

/// Has holders of bodies that were written anew read them at the new place, once they are written.
async fn follow(core: &Arc<Core>, moved: Vec<Moved>) {
    if moved.is_empty() {
        return;
    }
    let (position, failures) = {
        let mut log = core.appending();
        log.flush();
        (log.position, log.failures)
    };
    let written = core.changed.wait_for(|| {
        let log = core.log.lock();
        let has_failed = log.failures != failures;
        (has_failed || log.written() >= position).then_some(!has_failed)
    });
    if written.await {
        moved.iter().for_each(|Moved { from, to, chunks }| core.living.move_on(*from, *to, chunks));
    }
}

/// Waits a while for readers of a segment, unless its room is needed soon; nobody begins any more.
async fn readers_gone(core: &Arc<Core>, index: u32) {
    let using = &core.geometry().uses[index as usize];
    using.is_condemned.store(true, Relaxed);
    let until = core.now.load(Relaxed).saturating_add(READERS_PATIENCE);
    let most = core.geometry().superblock.segment_bytes / 4 * 3;
    let is_needed = || core.log.lock().open.as_ref().is_none_or(|open| open.filled > most);
    let is_over = || core.is_closing() || core.now.load(Relaxed) >= until || is_needed();
    core.changed.wait_for(|| (using.readers.load(Relaxed) == 0 || is_over()).then_some(())).await;
}

async fn drop_lines(core: &Arc<Core>, index: u32, lines: &[FooterLine]) {
    let first = core.units_of(index).start;
    for some in lines.chunks(AT_ONCE) {
        for line in some {
            if core.index.remove(core.index.place(&line.key), first + u64::from(line.offset)).is_some() {
                core.counters.reclaimed.count();
            }
        }
        task::yield_now().await;
    }
}

/// Without its table, the whole index is looked through.
async fn sweep(core: &Arc<Core>, index: u32) {
    let units = core.units_of(index);
    for shard in 0..core.index.shards() {
        core.counters.reclaimed.add(core.index.sweep(shard, &units) as u64);
        task::yield_now().await;
    }
}
