// SPDX-License-Identifier: BSD-2-Clause
//! One operation of the device goes wrong: each of a store's life in turn. The store goes on, or the next process does, with
//! no wrong byte, nothing that was purged, and room for new objects. Blocks whose sync has failed stay uncertain until they are written again.

use super::bed::{Bed, NOW, VersionLife};
use super::simulated::{NthFault, SimulatedFault};
use crate::device::DeviceError;
use crate::disk::Stage;

const NAMES: u8 = 6;

/// Time passes, so that what waits is written and sealed.
fn pass(bed: &mut Bed) {
    for _ in 0..3 {
        bed.disk.tick(NOW);
        bed.settle();
    }
}

fn put(bed: &mut Bed, name: u8, len: usize) -> bool {
    let is_put = bed.put(name, len).is_ok();
    pass(bed);
    is_put
}

/// Trims the journal as far as the store lets it. What was removed before a sync that has succeeded is gone for good, unless a read fails, by
/// which a segment is lost with the removals in it, or an earlier sync has failed.
fn sync(bed: &mut Bed) -> bool {
    let disk = bed.disk.clone();
    let is_synced = bed.run(disk.sync()).expect("it ends").is_ok();
    if is_synced && !bed.device.has_doubts() && bed.device.once().is_none_or(|once| !once.hits_reads) {
        let removed = bed.model.values_mut().flatten().filter(|version| version.life == VersionLife::Removed);
        removed.for_each(|version| version.life = VersionLife::Dead);
    }
    bed.trim();
    is_synced
}

fn remove(bed: &mut Bed, name: u8) {
    if let Some((candidate, version)) = bed.load_all(name).pop()
        && bed.disk.remove(candidate)
    {
        bed.model.get_mut(&name).unwrap()[version].life = VersionLife::Removed;
    }
}

fn fill(bed: &mut Bed) {
    for name in 0..NAMES {
        put(bed, name, 10_000 + 15_000 * usize::from(name));
        if name % 3 == 2 {
            bed.purge(name - 1);
            remove(bed, name - 2);
            sync(bed);
        }
    }
    put(bed, 1, 30_000);
    sync(bed);
    bed.load_everything();
    pass(bed);
}

/// The life of a store, in which one operation goes wrong; whether one did.
fn live(nth: NthFault) -> bool {
    let mut bed = Bed::new(7, 6);
    bed.device.fail_once(nth);
    bed.settle();
    fill(&mut bed);
    let to_come = bed.device.once().expect("it was set");
    bed.cut_power();
    bed.device.fail_once(to_come);
    bed.settle();
    if bed.disk.progress().stage == Stage::Ready {
        bed.load_everything();
        fill(&mut bed);
        let disk = bed.disk.clone();
        bed.run(disk.close()).expect("closing ends");
    } else {
        assert_eq!(bed.device.once().map(|once| once.left), Some(0), "{:?}", bed.disk.progress().stage);
    }
    let has_failed = bed.device.once().is_some_and(|once| once.left == 0);
    bed.cut_power();
    bed.settle();
    assert_eq!(bed.disk.progress().stage, Stage::Ready);
    bed.load_everything();
    assert!(put(&mut bed, 3, 50_000), "it is stored");
    assert!(sync(&mut bed), "it is synced");
    let stored = bed.load_all(3).len();
    assert!(stored > 0);
    bed.cut_power();
    bed.settle();
    assert_eq!(bed.load_all(3).len(), stored);
    has_failed
}

fn check(fault: SimulatedFault, hits_reads: bool) {
    let check = |&left: &usize| {
        let nth = NthFault { left, fault, hits_reads };
        std::panic::catch_unwind(|| live(nth)).unwrap_or_else(|_| panic!("{nth:?}: see above"))
    };
    let count = (1..).take_while(check).count();
    println!("{fault:?}, hits_reads={hits_reads}: {count}");
    assert!(count > 30, "{fault:?}: {count} operations");
}

const EIO: DeviceError = DeviceError::Os(5);

#[test]
fn a_write_or_sync_that_fails_brings_nothing_back() {
    check(SimulatedFault::Error(EIO), false);
    check(SimulatedFault::Half(EIO), false);
}

#[test]
fn a_read_that_fails_brings_nothing_back() {
    check(SimulatedFault::Error(EIO), true);
}
