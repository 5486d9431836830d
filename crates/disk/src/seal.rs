// SPDX-License-Identifier: BSD-2-Clause
//! Sealing: a segment that is full gets its footer, once all of it is written, and both are brought to stable storage.
//! From then on the journal needn't hold what the footer removes, as soon as the next one says that this one was there.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::core::{Core, DiskLog, SegmentSealing};
use crate::device::DeviceError;
use crate::format::removal::{self, Removal};
use crate::format::segment::{FooterLine, Trailer, encode_footer};
use crate::scan::Scanned;
use crate::segments::DiskSegmentState;
use crate::task;

pub(crate) async fn run(core: &Arc<Core>) {
    while let SealDue::Segments(count) = core.changed.wait_for(|| due(core, &core.log.lock())).await {
        seal(core, count).await;
    }
}

enum SealDue {
    /// Number of segments that can be sealed now.
    Segments(usize),
    /// All are sealed, and the store is being closed.
    Nothing,
}

fn due(core: &Core, log: &DiskLog) -> Option<SealDue> {
    let is_due = |own: &&SegmentSealing| log.written() >= own.position || log.failures != own.failures_before;
    match log.sealing.iter().take_while(is_due).count() {
        0 if log.sealing.is_empty() && core.is_closing() => Some(SealDue::Nothing),
        0 => None,
        count => Some(SealDue::Segments(count)),
    }
}

/// A footer, or none for a segment that isn't whole.
struct Footer {
    index: u32,
    generation: u64,
    bytes: Option<Vec<u8>>,
}

/// Seals so many, with one sync. All their removals are in the footer of the last; those that a segment's own entries tell of
/// are in its footer, too, since that may reach stable storage without the last one. Which of them does first is nobody's to say, so
/// no footer names another of them.
async fn seal(core: &Arc<Core>, count: usize) {
    let (footers, removals) = {
        let mut log = core.log.lock();
        log.under_way.begin(core.now.load(Relaxed));
        footers(core, &mut log, count)
    };
    let mut results = Vec::with_capacity(count);
    for footer in &footers {
        results.push(match &footer.bytes {
            Some(bytes) => write(core, footer.index, bytes).await.map(|()| true),
            None => Ok(false),
        });
    }
    let synced = match results.contains(&Ok(true)) {
        true => core.sync_device().await,
        false => Ok(()),
    };
    let mut log = core.log.lock();
    log.under_way.end(core.now.load(Relaxed));
    log.sealing.drain(..count);
    for (at, (footer, result)) in footers.iter().zip(results).enumerate() {
        let is_last = at + 1 == count;
        match result {
            Ok(true) if synced.is_ok() => {
                sealed(&mut log, footer.index, footer.generation, is_last.then_some(removals));
            }
            // Without a footer, or with one that isn't known to be on stable storage: that isn't the segment's fault.
            Ok(_) => {}
            Err(error) => core.fail_footer(&mut log, footer.index, error),
        }
    }
    drop(log);
    core.changed.raise();
}

/// The footers of the first so many that wait, and how many removals are in the last.
fn footers(core: &Core, log: &mut DiskLog, count: usize) -> (Vec<Footer>, usize) {
    let (mut footers, mut in_last) = (Vec::with_capacity(count), 0);
    for at in 0..count {
        let sealing = &mut log.sealing[at];
        let (index, generation, end) = (sealing.index, sealing.generation, sealing.end as u32);
        let is_whole = sealing.failures_before == log.failures;
        let (lines, own) = (std::mem::take(&mut sealing.lines), std::mem::take(&mut sealing.own));
        let all = sealing.removals.min(log.unsealed.len());
        let others = if at + 1 == count { &log.unsealed[..all] } else { &[] };
        let trailer = Trailer { generation, end, previous: log.sealed, ..Trailer::default() };
        let bytes;
        (bytes, in_last) = fitting(core, trailer, &lines, &own, others);
        footers.push(Footer { index, generation, bytes: bytes.filter(|_| is_whole) });
    }
    (footers, in_last)
}

/// The footer with its own removals and as many others as there is room for, and how many these are; `None`: it doesn't fit.
fn fitting(
    core: &Core,
    trailer: Trailer,
    lines: &[FooterLine],
    own: &[Removal],
    others: &[Removal],
) -> (Option<Vec<u8>>, usize) {
    let superblock = core.geometry().superblock;
    let room = superblock.segment_bytes.saturating_sub(u64::from(trailer.end));
    let fits = |count| crate::format::segment::FooterParts::of(lines.len(), count).len <= room;
    let encoded = |removals: &[Removal]| encode_footer(superblock.store_id, trailer, lines, removals);
    // Of its own what isn't among all that wait is on stable storage by another footer.
    if others.len() >= own.len() && fits(others.len()) {
        return (Some(encoded(others)), others.len());
    }
    let mut count = others.len().min((room as usize / removal::BYTES / 2).saturating_sub(own.len()));
    while count > 0 && !fits(own.len() + count) {
        count -= 1.max(count / 64);
    }
    let removals = || encoded(&[own, &others[..count]].concat());
    (fits(own.len()).then(removals), count)
}

async fn write(core: &Core, index: u32, footer: &[u8]) -> Result<(), DeviceError> {
    let superblock = core.geometry().superblock;
    let end = superblock.segment_start(index) + superblock.segment_bytes;
    task::write(&*core.device, end - footer.len() as u64, footer).await
}

/// Notes that a footer is on stable storage; `removals`: with the first so many of those that wait, and it is the one
/// to be named.
fn sealed(log: &mut DiskLog, index: u32, generation: u64, removals: Option<usize>) {
    let segment = &mut log.segments[index as usize];
    // It may have been reclaimed meanwhile, if it was the only one.
    if segment.generation == generation && segment.state == DiskSegmentState::Full {
        segment.state = DiskSegmentState::Sealed;
        segment.is_trusted = true;
    }
    let Some(count) = removals else { return };
    log.sealed = generation;
    log.sealed_least = least(log.unsealed.drain(..count));
    log.sealing.iter_mut().for_each(|waiting| waiting.removals = waiting.removals.saturating_sub(count));
}

/// The least number of what is removed by key.
pub(crate) fn least(removals: impl Iterator<Item = Removal>) -> Option<u64> {
    let numbers = removals.map(|removal| match removal {
        Removal::Key { before, .. } => Some(before),
        Removal::Record { .. } => None,
    });
    numbers.flatten().min()
}

pub(crate) async fn seal_recovered(core: &Arc<Core>, index: u32, scanned: &Scanned, previous: u64) {
    let generation = core.generation_of(index);
    let trailer = Trailer { generation, end: scanned.end as u32, previous, ..Trailer::default() };
    let (Some(footer), _) = fitting(core, trailer, &scanned.lines, &scanned.removals, &[]) else { return };
    if let Err(error) = write(core, index, &footer).await {
        return core.fail_footer(&mut core.log.lock(), index, error);
    }
    if core.sync_device().await.is_ok() {
        let mut log = core.log.lock();
        log.sealed = generation.max(log.sealed);
        log.segments[index as usize].state = DiskSegmentState::Sealed;
    }
}

impl Core {
    /// Brings to stable storage what was written. An error is no single segment's.
    pub async fn sync_device(&self) -> Result<(), DeviceError> {
        let synced = task::sync(&*self.device).await;
        synced.inspect_err(|&error| self.note_error(error, &self.counters.sync_errors))
    }

    /// A footer couldn't be written: the segment goes on without one.
    fn fail_footer(&self, log: &mut DiskLog, index: u32, error: DeviceError) {
        self.note_error(error, &self.counters.write_errors);
        self.blame(log, index, error);
    }
}
