// SPDX-License-Identifier: BSD-2-Clause
//! Two processes and one store: at an upgrade, and after a death.

use super::bed::{Bed, NOW, SEGMENT, bytes_of, digest_of};
use super::simulated::{OperationKind, Simulated, SimulatedFault};
use crate::device::DeviceError;
use crate::disk::{Disk, Stage};
use crate::options::{Bond, DiskStoreOptions, Others};
use crate::put::Refused;

/// A store with a few objects that were used, long and short.
fn filled(seed: u64) -> Bed {
    let mut bed = Bed::ready(seed, 16);
    for (name, len) in [100, 5000, 70_000, 300_000].into_iter().enumerate() {
        bed.put_slowly(name as u8, len);
    }
    write(&mut bed);
    assert_eq!(bed.load_everything(), 4);
    bed
}

/// Time passes, so that what waits is written.
fn write(bed: &mut Bed) {
    bed.disk.tick(NOW);
    bed.disk.tick(NOW);
    bed.settle();
}

fn hand_over(bed: &mut Bed) {
    let disk = bed.disk.clone();
    bed.run(disk.hand_over()).expect("it ends");
}

#[test]
fn what_is_handed_over_is_there_at_once_and_both_serve_it() {
    let mut former = filled(1);
    // Not written yet.
    former.put(4, 3000).unwrap();
    let mut next = former.beside(Others::Present);
    next.settle();
    assert_eq!((next.disk.progress().stage, next.load_everything()), (Stage::Waiting, 0));
    hand_over(&mut former);
    let image = former.device.image();
    next.disk.take_over(None, 0);
    let reading = next.disk.clone();
    next.run(reading.read_in()).expect("it ends before anything may be written");
    next.settle();
    assert_eq!(
        (next.disk.progress().stage, next.load_everything(), former.load_everything()),
        (Stage::Recovering, 5, 5)
    );
    assert_eq!((former.put(5, 10), next.put(6, 10)), (Err(Refused::NotOpen), Err(Refused::NotOpen)));
    former.purge(1);
    write(&mut former);
    write(&mut next);
    assert!(former.device.image() == image, "nobody writes");
    next.disk.remove_all(&digest_of(1), former.seq);
    next.disk.allow_writing();
    next.settle();
    assert_eq!((next.disk.progress().stage, next.disk.counts().segments_scanned), (Stage::Ready, 0));
    next.put_slowly(7, 100_000);
    write(&mut next);
    assert_eq!((next.load_everything(), former.load_everything()), (5, 4));
}

#[test]
fn what_the_former_process_reads_is_written_over_only_when_it_reads_no_more() {
    let mut former = filled(2);
    hand_over(&mut former);
    let mut next = former.beside(Others::Present);
    next.disk.take_over(None, 0);
    next.disk.allow_writing();
    next.settle();
    let fill = |next: &mut Bed| {
        let mut fill = |name: u8| {
            let put = next.put(10 + name, 150_000);
            write(next);
            put.is_ok()
        };
        (0..60).filter(|name| fill(name % 20)).count()
    };
    let stored = fill(&mut next);
    assert!((10..20).contains(&stored), "free segments are used, no others: {stored}");
    assert_eq!(former.load_everything(), 4);
    next.disk.own();
    next.settle();
    assert_eq!(fill(&mut next), 60);
    // What is still asked for is a miss, without any harm.
    assert_eq!(former.load_everything(), 0);
    let counts = former.disk.counts();
    assert_eq!((counts.checksum_errors, counts.segments_quarantined), (0, 0), "nothing is wrong with the device");
}

#[test]
fn a_body_that_the_next_process_has_written_over_is_cut_off_though_bodies_arent_checked() {
    let mut former = Bed::ready(3, 16);
    let new = DiskStoreOptions { checks_bodies: false, segment_bytes: Some(SEGMENT), ..DiskStoreOptions::new(NOW, 7) };
    let (disk, driver) = Disk::open(former.device.clone(), new);
    (former.disk, former.driver) = (disk, Some(driver));
    former.settle();
    former.put_slowly(1, 100_000);
    write(&mut former);
    let found = former.disk.find(&digest_of(1))[0];
    hand_over(&mut former);
    // Heads of entries stay as they are: only a checksum tells that the bytes are others.
    let mut image = former.device.image();
    let body = bytes_of(1, 0, 100_000);
    let at = image.windows(64).position(|some| some == &body[64..128]).expect("the body is in the image");
    image[at..at + 1000].fill(9);
    former.device.replace(image);
    assert!(former.load(1, found).is_err());
}

#[test]
fn a_store_that_is_taken_back_is_as_before() {
    let mut former = filled(4);
    let before = Bond { known: vec![1, 2], own: 2 };
    for round in 0..3_u8 {
        hand_over(&mut former);
        let mut next = former.beside(Others::Present);
        next.disk.take_over(Some(before.clone()), 0);
        next.settle();
        // What was put before has no journal's number: the next process would make the store anew.
        assert_eq!((next.disk.progress().stage, next.load_everything()), (Stage::Opening, 0));
        drop(next);
        former.disk.take_back();
        former.settle();
        former.put_slowly(20 + round, 60_000);
    }
    write(&mut former);
    assert_eq!(former.load_everything(), 7);
    let closing = former.disk.clone();
    former.run(closing.close()).unwrap();
    former.restart(former.device.image());
    former.settle();
    assert_eq!(former.load_everything(), 7);
}

#[test]
fn a_store_gets_the_number_of_its_journal_when_it_may_be_written() {
    let mut bed = Bed::ready(5, 16);
    bed.put_slowly(1, 100);
    let closing = bed.disk.clone();
    bed.run(closing.close()).unwrap();
    let mut image = bed.device.image();
    for (known, own, others) in [(0, 1, Others::Nobody), (1, 2, Others::Ended), (2, 3, Others::Present)] {
        let device = Simulated::new(image.clone());
        let journal = Some(Bond { known: vec![known], own });
        let past = if others == Others::Present { None } else { journal.clone() };
        let options = DiskStoreOptions {
            journal: past,
            others,
            segment_bytes: Some(SEGMENT),
            ..DiskStoreOptions::new(NOW, 100 + own)
        };
        let (disk, driver) = Disk::open(device.clone(), options);
        (bed.device, bed.disk, bed.driver) = (device, disk, Some(driver));
        if others == Others::Present {
            bed.disk.take_over(journal, 0);
        }
        bed.settle();
        assert_eq!(bed.load_everything(), 1, "{others:?}");
        if others != Others::Nobody {
            assert!(bed.device.image() == image, "nothing is written");
            assert!(!storage::Home::is_ready(&bed.disk), "the journal keeps the number that it has");
            bed.disk.allow_writing();
            bed.settle();
        }
        assert_eq!(bed.disk.progress().stage, Stage::Ready);
        image = bed.device.image();
    }
}

#[test]
fn a_store_whose_journal_is_gone_is_made_anew_when_nobody_else_writes() {
    let mut bed = filled(6);
    let closing = bed.disk.clone();
    bed.run(closing.close()).unwrap();
    let image = bed.device.image();
    let journal = Some(Bond { known: vec![8], own: 9 });
    let options = DiskStoreOptions {
        journal,
        others: Others::Ended,
        segment_bytes: Some(SEGMENT),
        ..DiskStoreOptions::new(NOW, 3)
    };
    let (disk, driver) = Disk::open(bed.device.clone(), options);
    (bed.disk, bed.driver) = (disk, Some(driver));
    let reading = bed.disk.clone();
    bed.run(reading.read_in()).expect("nobody waits for what isn't read");
    bed.settle();
    assert!(bed.disk.progress().stage == Stage::Opening && bed.device.image() == image);
    bed.disk.allow_writing();
    bed.settle();
    assert_eq!((bed.disk.progress().stage, bed.load_everything()), (Stage::Ready, 0));
}

#[test]
fn a_store_that_cannot_be_bound_to_its_journal_is_tried_again_each_second() {
    for kind in [OperationKind::Write, OperationKind::Sync] {
        let mut bed = Bed::ready(8, 16);
        bed.put_slowly(1, 100);
        let closing = bed.disk.clone();
        bed.run(closing.close()).unwrap();
        let journal = Some(Bond { known: vec![0], own: 1 });
        let options = DiskStoreOptions {
            journal,
            others: Others::Ended,
            segment_bytes: Some(SEGMENT),
            ..DiskStoreOptions::new(NOW, 3)
        };
        let (disk, driver) = Disk::open(bed.device.clone(), options);
        (bed.disk, bed.driver) = (disk, Some(driver));
        bed.settle();
        bed.device.set_fault(Some((kind, SimulatedFault::Error(DeviceError::Os(5)))));
        bed.disk.allow_writing();
        for second in 1..4 {
            bed.disk.tick(NOW + second);
            bed.settle();
            bed.disk.tick(NOW + second);
            bed.settle();
            let failed = bed.disk.counts().write_errors;
            assert_eq!((bed.disk.progress().stage, failed), (Stage::Recovering, u64::from(second)), "{kind:?}");
            assert_eq!(bed.load_everything(), 1);
        }
        bed.device.set_fault(None);
        bed.disk.tick(NOW + 4);
        bed.settle();
        assert_eq!((bed.disk.progress().stage, bed.load_everything()), (Stage::Ready, 1));
    }
}

#[test]
fn a_process_that_waits_for_others_can_be_ended() {
    for others in [Others::Ended, Others::Present] {
        let mut bed = filled(7).beside(others);
        bed.settle();
        let closing = bed.disk.clone();
        bed.run(closing.close()).expect("it ends");
        assert_eq!(bed.load_everything(), if others == Others::Ended { 4 } else { 0 });
    }
}

#[test]
fn a_purge_that_is_told_before_the_store_is_taken_over_spares_what_was_put_after_it() {
    let mut former = filled(7);
    for name in [1, 2] {
        former.purge(name);
    }
    let purged = former.seq;
    former.put_slowly(2, 5000);
    write(&mut former);
    let mut next = former.beside(Others::Present);
    hand_over(&mut former);
    // The journal says so again, whoever has done it already.
    for name in [1, 2] {
        next.disk.remove_all(&digest_of(name), purged);
    }
    next.disk.take_over(None, 0);
    let reading = next.disk.clone();
    next.run(reading.read_in()).expect("it ends");
    assert_eq!([1, 2].map(|name| next.disk.find(&digest_of(name)).len()), [0, 1]);
}
