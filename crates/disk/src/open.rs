// SPDX-License-Identifier: BSD-2-Clause
//! Opening a store: its superblock, or a new one on a blank device, and the first block of each segment.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::core::{Core, OpenedDisk};
use crate::device::{DeviceError, DeviceOp, stated};
use crate::format::superblock::{FoundSuperblock, Superblock};
use crate::format::{BLOCK, segment};
use crate::options::DiskOpenError;
use crate::segments::{DiskSegment, DiskSegmentState};
use crate::task::{self, StartedOperation};
use sys::blockfile::BlockFile;
use sys::pages::Pages;

const AT_ONCE: usize = 96;

/// Opens the store and says which segments are to be recovered, the newest first.
pub(crate) async fn open(core: &Arc<Core>) -> Result<Vec<u32>, DiskOpenError> {
    core.taken_over().await;
    let superblock = superblock(core).await?;
    let heads = heads(core, &superblock).await;
    let segments: Vec<DiskSegment> = heads.iter().map(|head| of_head(*head)).collect();
    let generations = segments.iter().map(|segment| AtomicU64::new(segment.generation)).collect();
    let mut order: Vec<u32> = (0..superblock.segments).collect();
    order.retain(|&index| segments[index as usize].state == DiskSegmentState::Unread);
    order.sort_unstable_by_key(|&index| std::cmp::Reverse(segments[index as usize].generation));
    {
        let mut log = core.log.lock();
        let newest = order.first().map_or(0, |&index| segments[index as usize].generation);
        log.next_generation = (newest >> 32) as u32 + 1;
        log.segments = segments;
    }
    let is_first = core.opened.set(Ok(OpenedDisk::new(superblock, generations))).is_ok();
    assert!(is_first, "a store is opened once");
    core.changed.raise();
    Ok(order)
}

fn of_head(head: Result<Option<u64>, DeviceError>) -> DiskSegment {
    match head {
        Ok(Some(generation)) => {
            DiskSegment { generation, state: DiskSegmentState::Unread, least_ban_seq: 0, ..DiskSegment::FREE }
        }
        Ok(None) => DiskSegment::FREE,
        Err(_) => DiskSegment { is_quarantined: true, ..DiskSegment::FREE },
    }
}

async fn superblock(core: &Core) -> Result<Superblock, DiskOpenError> {
    let found = find(core).await;
    if core.options.format && !matches!(found, Err(DiskOpenError::TooSmall { .. })) {
        return make(core).await;
    }
    match found {
        Ok(Some(own)) if core.options.replaces && !own.fits(core.device.len()) => make(core).await,
        Ok(Some(own)) if core.journal().is_some_and(|journal| !journal.known.contains(&own.journal)) => {
            core.is_another_journals.store(true, Relaxed);
            make(core).await
        }
        Ok(Some(own)) if core.may_write() => bind(core, own).await.map_err(DiskOpenError::Device),
        Ok(Some(own)) => Ok(own),
        Ok(None) => make(core).await,
        Err(why) if core.options.replaces && why.is_contents() => make(core).await,
        Err(why) => Err(why),
    }
}

/// The superblock of the store that is there; `None`: nothing but zeros is.
pub(crate) async fn find(core: &Core) -> Result<Option<Superblock>, DiskOpenError> {
    let mut found = Vec::new();
    for at in SUPERBLOCKS {
        found.push(task::read(&*core.device, at, BLOCK).await.map(|block| Superblock::decode(&block)));
    }
    judge(&found, core.device.len())
}

/// The same for who has the file open and doesn't serve from it: whoever decides whether a store is to be kept.
///
/// # Errors
/// What is in it is no store that this program can use.
pub fn identify(file: &BlockFile) -> Result<Option<Superblock>, DiskOpenError> {
    let read = |at| {
        let mut block = Pages::zeroed(BLOCK);
        let read = file.read(at, &mut block).map_err(|error| stated(&error));
        read.map(|()| Superblock::decode(&block))
    };
    judge(&SUPERBLOCKS.map(read), file.len())
}

const SUPERBLOCKS: [u64; 2] = [0, BLOCK as u64];

/// The superblock, from two blocks that should be superblocks of a device of `has` bytes.
fn judge(found: &[Result<FoundSuperblock, DeviceError>], has: u64) -> Result<Option<Superblock>, DiskOpenError> {
    if has < 2 * BLOCK as u64 {
        return Err(DiskOpenError::TooSmall { has });
    }
    let ours =
        found.iter().find_map(|found| if let Ok(FoundSuperblock::Ours(own)) = found { Some(*own) } else { None });
    if let Some(own) = ours {
        return if own.end() <= has { Ok(Some(own)) } else { Err(DiskOpenError::Truncated { had: own.end(), has }) };
    }
    match (found[0], found[1]) {
        (Ok(FoundSuperblock::Blank), Ok(FoundSuperblock::Blank)) => Ok(None),
        (Ok(FoundSuperblock::OtherVersion(version)), _) | (_, Ok(FoundSuperblock::OtherVersion(version))) => {
            Err(DiskOpenError::OtherVersion(version))
        }
        (Ok(FoundSuperblock::Damaged), _) | (_, Ok(FoundSuperblock::Damaged)) => Err(DiskOpenError::Damaged),
        (Err(error), _) | (_, Err(error)) => Err(DiskOpenError::Device(error)),
        _ => Err(DiskOpenError::Foreign),
    }
}

/// Makes a new store. What other stores have left is recognised by their number.
async fn make(core: &Core) -> Result<Superblock, DiskOpenError> {
    // Nothing that was there can be found: who waits for that goes on, though others may still write.
    core.is_read_in.store(true, Relaxed);
    core.changed.raise();
    if !core.writing_allowed().await {
        return Err(DiskOpenError::Device(DeviceError::Closed));
    }
    let has = core.device.len();
    let segment_bytes = core.options.segment_bytes(has) / BLOCK as u64 * BLOCK as u64;
    let own = Superblock::cut(core.options.drawn, has, segment_bytes).ok_or(DiskOpenError::TooSmall { has })?;
    let own = Superblock { journal: core.journal().map_or(0, |journal| journal.own), ..own };
    let both = own.encode().repeat(2);
    task::write(&*core.device, 0, &both).await.map_err(DiskOpenError::Device)?;
    task::sync(&*core.device).await.map_err(DiskOpenError::Device)?;
    Ok(own)
}

/// Gives the store the number of its journal's present life. One superblock is whole at any time; with either number the
/// journal knows it.
pub(crate) async fn bind(core: &Core, own: Superblock) -> Result<Superblock, DeviceError> {
    let Some(journal) = core.journal().map(|journal| journal.own).filter(|&journal| journal != own.journal) else {
        return Ok(own);
    };
    let own = Superblock { journal, ..own };
    for at in SUPERBLOCKS {
        task::write(&*core.device, at, &own.encode()).await?;
        task::sync(&*core.device).await?;
    }
    Ok(own)
}

/// The generation of each segment; `None`: it was never written by this store.
pub(crate) async fn heads(core: &Core, superblock: &Superblock) -> Vec<Result<Option<u64>, DeviceError>> {
    let start = |index: u32| {
        let at = superblock.segment_start(index);
        StartedOperation::start(&*core.device, DeviceOp::Read { at, into: Pages::zeroed(BLOCK) })
    };
    let (mut running, mut heads) = (VecDeque::new(), Vec::with_capacity(superblock.segments as usize));
    for index in 0..superblock.segments {
        running.push_back((index, start(index)));
        if running.len() == AT_ONCE {
            heads.push(head(core, superblock, running.pop_front()).await);
        }
    }
    while !running.is_empty() {
        heads.push(head(core, superblock, running.pop_front()).await);
    }
    heads
}

async fn head(
    core: &Core,
    superblock: &Superblock,
    running: Option<(u32, StartedOperation)>,
) -> Result<Option<u64>, DeviceError> {
    let (index, operation) = running.expect("the caller has seen one");
    let block = operation.await.inspect_err(|&error| core.note_error(error, &core.counters.read_errors))?;
    Ok(segment::decode_head(&block, superblock.store_id, index))
}
