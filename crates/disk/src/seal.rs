// SPDX-License-Identifier: BSD-2-Clause
//! Sealing: a segment that is full gets its footer, once all of it is written, and both are brought to stable storage.
//! From then on the journal needn't hold what the footer removes, as soon as the next one says that this one was there.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::core::{Core, Log};
use crate::device::DeviceError;
use crate::format::removal::{self, Removal};
use crate::format::segment::{Line, Trailer, encode_footer};
use crate::scan::Scanned;
use crate::segments::State;
use crate::task;

/// Seals one segment after the other until the store is closed.
pub(crate) async fn run(core: &Arc<Core>) {
    while core.changed.wait_for(|| next(core, &core.log.lock())).await {
        seal(core).await;
    }
}

/// Whether there is one to be sealed now; `None`: not yet.
fn next(core: &Core, log: &Log) -> Option<bool> {
    match &log.sealing {
        Some(sealing) => {
            let is_due = log.written() >= sealing.position || log.failures != sealing.failures_before;
            is_due.then_some(true)
        }
        None if core.is_closing() => Some(false),
        None => None,
    }
}

async fn seal(core: &Arc<Core>) {
    let (index, generation, footer, count) = {
        let mut log = core.log.lock();
        let log = &mut *log;
        let sealing = log.sealing.as_mut().expect("seen by `next`");
        let (index, generation) = (sealing.index, sealing.generation);
        let is_whole = log.failures == sealing.failures_before;
        let lines = std::mem::take(&mut sealing.lines);
        let removals = &log.unsealed[..sealing.removals];
        let trailer = Trailer { generation, end: sealing.end as u32, previous: log.sealed, ..Trailer::default() };
        let (footer, count) = fitting(core, trailer, &lines, removals);
        log.under_way.begin(core.now.load(Relaxed));
        (index, generation, footer.filter(|_| is_whole), count)
    };
    let result = match footer {
        Some(footer) => write(core, index, &footer).await,
        None => Ok(false),
    };
    let mut log = core.log.lock();
    log.under_way.end(core.now.load(Relaxed));
    log.sealing = None;
    match result {
        Ok(true) => sealed(&mut log, index, generation, count),
        Ok(false) => {}
        Err(error) => core.fail_footer(&mut log, index, error),
    }
    drop(log);
    core.changed.raise();
}

/// The footer with as many removals as there is room for; `None`: it doesn't fit at all.
fn fitting(core: &Core, trailer: Trailer, lines: &[Line], removals: &[Removal]) -> (Option<Vec<u8>>, usize) {
    let superblock = core.geometry().superblock;
    let room = superblock.segment_bytes.saturating_sub(u64::from(trailer.end));
    let parts = |count| crate::format::segment::Parts::of(lines.len(), count).len;
    let mut count = removals.len().min(room as usize / removal::BYTES / 2);
    while count > 0 && parts(count) > room {
        count -= 1.max(count / 64);
    }
    let footer = (parts(count) <= room).then(|| encode_footer(superblock.store_id, trailer, lines, &removals[..count]));
    (footer, count)
}

/// Writes a footer to the end of its segment. Whether it is on stable storage.
async fn write(core: &Core, index: u32, footer: &[u8]) -> Result<bool, DeviceError> {
    let superblock = core.geometry().superblock;
    let end = superblock.segment_start(index) + superblock.segment_bytes;
    task::write(&*core.device, end - footer.len() as u64, footer).await?;
    task::sync(&*core.device).await.inspect_err(|_| core.counters.sync_errors.count())?;
    Ok(true)
}

fn sealed(log: &mut Log, index: u32, generation: u64, count: usize) {
    let segment = &mut log.segments[index as usize];
    // It may have been reclaimed meanwhile, if it was the only one.
    if segment.generation == generation && segment.state == State::Full {
        segment.state = State::Sealed;
        segment.is_trusted = true;
    }
    log.sealed = generation;
    log.sealed_least = least(log.unsealed.drain(..count));
}

/// The least number of what is removed by key.
pub(crate) fn least(removals: impl Iterator<Item = Removal>) -> Option<u64> {
    let numbers = removals.map(|removal| match removal {
        Removal::Key { before, .. } => Some(before),
        Removal::Record { .. } => None,
    });
    numbers.flatten().min()
}

/// Seals what was found without a footer, with the removals that it holds.
pub(crate) async fn seal_recovered(core: &Arc<Core>, index: u32, scanned: &Scanned, previous: u64) {
    let generation = core.generation_of(index);
    let trailer = Trailer { generation, end: scanned.end as u32, previous, ..Trailer::default() };
    let (footer, count) = fitting(core, trailer, &scanned.lines, &scanned.removals);
    let Some(footer) = footer.filter(|_| count == scanned.removals.len()) else { return };
    match write(core, index, &footer).await {
        Ok(_) => {
            let mut log = core.log.lock();
            log.sealed = generation.max(log.sealed);
            log.segments[index as usize].state = State::Sealed;
        }
        Err(error) => core.fail_footer(&mut core.log.lock(), index, error),
    }
}

impl Core {
    /// A footer couldn't be written: the segment goes on without one.
    fn fail_footer(&self, log: &mut Log, index: u32, error: DeviceError) {
        self.note_error(error, &self.counters.write_errors);
        self.blame(log, index, error);
    }
}
