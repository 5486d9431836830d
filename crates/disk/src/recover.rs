// SPDX-License-Identifier: BSD-2-Clause
//! Recovery: the tables of all segments into the index, the newest first, a little at a time, while what is there already
//! is served. Removals are known before what they concern is read; if those of a segment that was on stable storage are
//! lost, nobody can say what of the older segments still counts, and these are given up.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::core::Core;
use crate::footer;
use crate::format::removal::Removal;
use crate::format::segment::FooterLine;
use crate::scan::{self, Scanned};
use crate::segments::DiskSegmentState;
use crate::task;
use crate::writer::{Appended, slot_of};
use crate::{open, seal, segments};

const AT_ONCE: usize = 512;

/// A segment that has no footer and gets one once all are read.
struct Unsealed {
    index: u32,
    scanned: Scanned,
    /// The generation whose footer was there before.
    previous: u64,
}

pub(crate) async fn recover(core: &Arc<Core>, order: Vec<u32>) {
    core.segments_to_load.store(order.len() as u64, Relaxed);
    // So many of the newest segments may never have been on stable storage as a whole: prepared, open, and being sealed.
    let unsure = 2 * core.segments_ahead() + 1;
    let mut unsealed: Vec<Unsealed> = Vec::new();
    // The generation that was sealed before the one that was read last.
    let mut expected = 0;
    for (turn, &index) in order.iter().enumerate() {
        if core.is_closing() {
            break;
        }
        let generation = core.generation_of(index);
        if expected > generation {
            // A segment that held removals for this one and for all older ones isn't there.
            give_up(core, &order[turn..]);
            break;
        }
        let footer = footer::read(core, index, generation).await;
        let removals = match &footer {
            Some(footer) => footer.removals(core).await,
            None => None,
        };
        if expected == generation && removals.is_none() {
            give_up(core, &order[turn..]);
            break;
        }
        let lines = match &footer {
            Some(footer) => footer.lines(core).await,
            None => None,
        };
        let (lines, is_sealed) = match (lines, &footer, removals) {
            (Some(lines), Some(_), Some(removals)) => {
                note(core, removals);
                (lines, true)
            }
            (_, _, removals) => {
                let mut scanned = scan::scan(core, index, generation).await;
                if !scanned.is_empty() {
                    core.counters.segments_scanned.count();
                }
                let is_sealed = removals.is_some();
                scanned.removals.extend(removals.unwrap_or_default());
                let found = scanned.lines.clone();
                note(core, scanned.removals.clone());
                if !is_sealed {
                    unsealed.push(Unsealed { index, scanned, previous: 0 });
                }
                (found, is_sealed)
            }
        };
        if let Some(footer) = footer.filter(|_| is_sealed) {
            expected = footer.trailer.previous;
            unsealed.iter_mut().filter(|own| own.previous == 0).for_each(|own| own.previous = generation);
            let mut log = core.log.lock();
            log.sealed = generation.max(log.sealed);
            log.segments[index as usize].is_trusted = turn >= unsure;
        }
        load(core, index, generation, &lines, is_sealed).await;
        core.segments_loaded.fetch_add(1, Relaxed);
    }
    core.is_read_in.store(true, Relaxed);
    core.changed.raise();
    let mine = core.writing_allowed().await && rebind(core).await;
    if mine {
        finish(core, unsealed).await;
    }
}

/// Gives the store the number of its journal's present life, if it hasn't got it when it was opened. Without it the store is
/// read alone: a device that fails is asked again each second. False: the store closes before.
async fn rebind(core: &Core) -> bool {
    while let Err(error) = open::bind(core, core.geometry().superblock).await {
        core.note_error(error, &core.counters.write_errors);
        let failed = core.now.load(Relaxed);
        let goes_on = || core.is_closing() || core.now.load(Relaxed) != failed;
        core.changed.wait_for(|| goes_on().then_some(())).await;
        if core.is_closing() {
            return false;
        }
    }
    true
}

fn note(core: &Core, removals: Vec<Removal>) {
    let mut log = core.log.lock();
    let recovery = log.recovery.as_mut().expect("recovery is under way");
    removals.into_iter().for_each(|removal| recovery.add(removal));
}

async fn load(core: &Arc<Core>, index: u32, generation: u64, lines: &[FooterLine], is_sealed: bool) {
    let units = core.units_of(index);
    let mut least = u64::MAX;
    // In the index's order: what is near in memory is worked on at a time, and many of them at once: half the time in all.
    let order = core.index.in_order(lines.iter().map(|line| &line.key));
    let mut found = Vec::with_capacity(AT_ONCE);
    for some in order.chunks(AT_ONCE) {
        {
            // Whoever removes an object takes this lock, too: either it is told here or it finds the object.
            let mut log = core.log.lock();
            let recovery = log.recovery.as_mut().expect("recovery is under way");
            for &(place, number) in some {
                let line = &lines[number as usize];
                let at = units.start + u64::from(line.offset);
                let is_removed = recovery.keys.get(&line.key).is_some_and(|&before| line.ban_seq < before)
                    || recovery.records.contains(&(generation, at));
                let is_here = line.offset != 0 && units.contains(&(at + u64::from(line.units).saturating_sub(1)));
                let is_old = line.expiry <= core.now.load(Relaxed) || line.ban_seq < core.least_ban_seq();
                if is_removed || is_old || !is_here {
                    continue;
                }
                least = least.min(line.ban_seq);
                let appended = Appended { generation, at, len: u64::from(line.units), end: 0 };
                found.push((place, slot_of(&appended, line.expiry)));
            }
            let inserted = core.index.insert_all(&found);
            core.counters.index_full.add((found.len() - inserted) as u64);
            found.clear();
        }
        task::yield_now().await;
    }
    let mut log = core.log.lock();
    let segment = &mut log.segments[index as usize];
    segment.least_ban_seq = least;
    segment.state = if is_sealed { DiskSegmentState::Sealed } else { DiskSegmentState::Full };
}

fn give_up(core: &Core, order: &[u32]) {
    let mut log = core.log.lock();
    for &index in order {
        core.counters.segments_unjudged.count();
        core.free(&mut log, index);
    }
}

/// All are read: those without a footer get one, the oldest first, and the store can be written.
async fn finish(core: &Arc<Core>, unsealed: Vec<Unsealed>) {
    for Unsealed { index, scanned, previous } in unsealed.into_iter().rev() {
        {
            // What they removed was in no footer: it comes into the next.
            let mut log = core.log.lock();
            log.unsealed.extend(&scanned.removals);
        }
        // Its removals may be nowhere else.
        if scanned.lines.is_empty() && scanned.removals.is_empty() {
            let mut log = core.log.lock();
            core.free(&mut log, index);
        } else {
            seal::seal_recovered(core, index, &scanned, previous).await;
        }
    }
    core.log.lock().recovery = None;
    core.changed.raise();
}

impl Core {
    pub fn generation_of(&self, index: u32) -> u64 {
        self.geometry().generations[index as usize].load(Relaxed)
    }

    /// Gives up the content of a segment, of which the index has nothing.
    pub fn free(&self, log: &mut crate::core::DiskLog, index: u32) {
        self.geometry().generations[index as usize].store(0, Relaxed);
        let segment = &mut log.segments[index as usize];
        *segment = segments::DiskSegment { is_quarantined: segment.is_quarantined, ..segments::DiskSegment::FREE };
    }
}
