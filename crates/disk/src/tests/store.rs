// SPDX-License-Identifier: BSD-2-Clause
//! What a store does when nothing goes wrong.

use storage::{Home, StoredBody};

use super::bed::{Bed, NOW, SEGMENT, VersionLife, bytes_of, digest_of, record_of};
use super::simulated::Simulated;
use crate::dice::DiskDice;
use crate::disk::{Disk, Stage};
use crate::format::BLOCK;
use crate::format::object::ObjectTexts;
use crate::options::{Bond, DiskOpenError, DiskStoreOptions};
use crate::put::Refused;

#[test]
fn objects_of_all_sizes_are_read_back_and_outlive_a_restart() {
    let mut bed = Bed::ready(1, 16);
    for (name, len) in [0, 1, 4095, 4096, 65_535, 65_536, 65_537, 300_000, 1_000_000].into_iter().enumerate() {
        bed.put_slowly(name as u8, len);
        bed.disk.tick(NOW);
        bed.disk.tick(NOW);
        bed.settle();
    }
    assert_eq!(bed.load_everything(), 9);
    let closing = bed.disk.clone();
    bed.run(closing.close()).unwrap();
    bed.settle();
    assert!(bed.driver.is_none(), "the driver has ended");
    bed.restart(bed.device.image());
    assert_eq!(bed.load_everything(), 0, "nothing is found before anything was read");
    bed.settle();
    assert_eq!((bed.disk.progress().stage, bed.load_everything()), (Stage::Ready, 9));
    assert_eq!(bed.disk.counts().segments_scanned, 0, "all segments were sealed");
}

#[test]
fn a_store_that_its_journal_does_not_know_begins_empty() {
    let mut bed = Bed::ready(13, 16);
    let bond = |known: &[u64], own| Some(Bond { known: known.to_vec(), own });
    let mut open = |image: Vec<u8>, journal: Option<Bond>| {
        let device = Simulated::new(image);
        let drawn = 100 + journal.as_ref().map_or(0, |journal| journal.own);
        let options = DiskStoreOptions { journal, segment_bytes: Some(SEGMENT), ..DiskStoreOptions::new(NOW, drawn) };
        let (disk, driver) = Disk::open(device.clone(), options);
        (bed.device, bed.driver) = (device.clone(), Some(driver));
        bed.settle();
        let own = disk.clone();
        assert_eq!(bed.run(own.opened()), Some(Ok(())));
        let found = (disk.find(&digest_of(1)).len(), disk.was_unknown());
        if found.0 == 0 {
            disk.put(&digest_of(1)).finish(&record_of(1, 0, b""), &ObjectTexts::default()).unwrap();
        }
        let own = disk.clone();
        bed.run(own.close()).unwrap();
        (device.image(), found)
    };
    let (image, found) = open(vec![0; 16 * SEGMENT as usize], bond(&[1], 1));
    assert_eq!(found, (0, false), "nothing was there");
    let (image, found) = open(image, bond(&[1, 2], 2));
    assert_eq!(found, (1, false));
    let (image, found) = open(image, bond(&[1, 3], 3));
    assert_eq!(found, (0, true), "it has number 2");
    assert_eq!(open(image.clone(), None).1, (1, false), "who has no journal doesn't ask");
    // The one superblock has the new number, the other one the old: as when the power was cut while it was bound.
    let bound = open(image.clone(), bond(&[3, 4], 4)).0;
    let mixed = [&bound[..BLOCK], &image[BLOCK..]].concat();
    assert_eq!(open(mixed.clone(), bond(&[3, 4], 4)).1, (1, false));
    assert_eq!(open(mixed, bond(&[5], 5)).1, (0, true));
    let torn = [&vec![7; BLOCK][..], &image[BLOCK..]].concat();
    assert_eq!(open(torn, bond(&[3, 4], 4)).1, (1, false));
}

#[test]
fn what_isnt_a_store_that_can_be_used_is_made_anew_if_the_owner_wants_it() {
    let mut bed = Bed::ready(12, 16);
    bed.put(1, 100).unwrap();
    let closing = bed.disk.clone();
    bed.run(closing.close()).unwrap();
    let image = bed.device.image();
    let len = image.len();
    // Opened as it is, and with leave to replace it: whether it is refused, and whether the object is found.
    let mut check = |image: Vec<u8>, refused: Option<DiskOpenError>, found: [usize; 2]| {
        for replaces in [false, true] {
            let device = Simulated::new(image.clone());
            let options = DiskStoreOptions { replaces, segment_bytes: Some(SEGMENT), ..DiskStoreOptions::new(NOW, 5) };
            let (disk, driver) = Disk::open(device.clone(), options);
            (bed.device, bed.driver) = (device.clone(), Some(driver));
            bed.settle();
            let own = disk.clone();
            let refused = refused.filter(|_| !replaces);
            assert_eq!(bed.run(own.opened()), Some(refused.map_or(Ok(()), Err)), "{replaces}");
            assert_eq!(disk.find(&digest_of(1)).len(), found[usize::from(replaces)], "{replaces}");
            if refused.is_some() {
                assert_eq!(
                    (Home::is_ready(&disk), Home::journal_needed_from(&disk)),
                    (true, None),
                    "nobody waits for it"
                );
            }
        }
    };
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut image = image.clone();
        change(&mut image);
        image
    };
    check(image.clone(), None, [1, 1]);
    check(changed(&|image| image[..2 * BLOCK].fill(0)), None, [0, 0]);
    check(changed(&|image| image[..2 * BLOCK].fill(7)), Some(DiskOpenError::Foreign), [0, 0]);
    check(
        changed(&|image| [0, BLOCK].into_iter().for_each(|at| image[at + 8] = 9)),
        Some(DiskOpenError::OtherVersion(9)),
        [0, 0],
    );
    check(
        changed(&|image| [0, BLOCK].into_iter().for_each(|at| image[at + 20] ^= 1)),
        Some(DiskOpenError::Damaged),
        [0, 0],
    );
    let (had, has) = (len as u64, 10 * SEGMENT);
    check(changed(&|image| image.truncate(has as usize)), Some(DiskOpenError::Truncated { had, has }), [0, 0]);
    // A device that has grown: there is room for more segments than it has.
    check(changed(&|image| image.resize(len + BLOCK, 0)), None, [1, 1]);
    check(changed(&|image| image.resize(len + SEGMENT as usize, 0)), None, [1, 0]);
}

#[test]
fn a_wrong_byte_in_a_body_is_sent_only_if_nobody_wants_it_checked() {
    let mut bed = Bed::ready(13, 16);
    bed.put_slowly(1, 300_000);
    let closing = bed.disk.clone();
    bed.run(closing.close()).unwrap();
    let mut image = bed.device.image();
    let body = bytes_of(1, 0, 300_000);
    let at = image.windows(64).position(|some| some == &body[1000..1064]).expect("the body is in the image");
    image[at] ^= 1;
    bed.is_hostile = true;
    for checks_bodies in [true, false] {
        let device = Simulated::new(image.clone());
        let options = DiskStoreOptions { checks_bodies, segment_bytes: Some(SEGMENT), ..DiskStoreOptions::new(NOW, 5) };
        let (disk, driver) = Disk::open(device.clone(), options);
        (bed.device, bed.disk, bed.driver) = (device, disk, Some(driver));
        bed.settle();
        let found = bed.disk.find(&digest_of(1))[0];
        assert_eq!(bed.load(1, found).is_ok(), !checks_bodies);
        assert_eq!(bed.disk.counts().checksum_errors, u64::from(checks_bodies));
    }
}

#[test]
fn what_is_put_is_found_once_it_is_written() {
    let mut bed = Bed::ready(2, 8);
    bed.put(1, 100).unwrap();
    assert!(bed.disk.find(&digest_of(1)).is_empty());
    let disk = bed.disk.clone();
    bed.run(disk.sync()).unwrap().unwrap();
    assert_eq!(bed.load_all(1).len(), 1);
    assert!(bed.disk.find(&digest_of(2)).is_empty());
}

#[test]
fn removed_objects_are_gone_at_once_and_after_a_restart() {
    let mut bed = Bed::ready(3, 8);
    let written = bed.put(1, 100).unwrap();
    bed.put(2, 100).unwrap();
    bed.put(3, 100).unwrap();
    let disk = bed.disk.clone();
    bed.run(disk.sync()).unwrap().unwrap();
    let unwritten = bed.put(4, 100).unwrap();
    assert!(bed.disk.remove(written) && bed.disk.remove(unwritten) && !bed.disk.remove(written));
    assert_eq!(bed.disk.remove_all(&digest_of(2), 9), 1);
    for name in [1, 2, 4] {
        bed.model.get_mut(&name).unwrap()[0].life = VersionLife::Dead;
    }
    assert_eq!((bed.load_all(1).len(), bed.load_all(2).len()), (0, 0));
    bed.run(disk.sync()).unwrap().unwrap();
    assert!(bed.load_all(4).is_empty());
    bed.cut_power();
    bed.settle();
    assert_eq!(bed.load_everything(), 1);
}

/// The record of a long object is behind its body: the segments with the body's beginning are reclaimed before its own.
#[test]
fn an_object_whose_body_is_reclaimed_in_part_leaves_the_index() {
    let mut bed = Bed::ready(5, 16);
    bed.put_slowly(1, 900_000);
    let disk = bed.disk.clone();
    bed.run(disk.sync()).unwrap().unwrap();
    let [candidate] = bed.disk.find(&digest_of(1))[..] else { panic!("it is found") };
    let mut others = 0_u8;
    while bed.disk.counts().segments_reclaimed == 0 {
        others += 1;
        bed.put_slowly(1 + others, 100_000);
        bed.disk.tick(NOW);
        bed.settle();
    }
    assert_eq!(bed.disk.find(&digest_of(1)), [candidate], "its record is in a later segment");
    assert_eq!(bed.load(1, candidate), Err("Gone".to_owned()));
    assert!(bed.disk.find(&digest_of(1)).is_empty(), "the next lookup reads nothing");
}

#[test]
fn the_oldest_make_room_and_what_was_used_stays() {
    let mut bed = Bed::ready(4, 8);
    bed.put(0, 3000).unwrap();
    for turn in 0..600_u32 {
        bed.put(1 + (turn % 200) as u8, 7000).unwrap();
        bed.settle();
        bed.disk.tick(NOW);
        bed.disk.tick(NOW);
        bed.settle();
        assert_eq!(bed.load_all(0).len(), 1, "turn {turn}");
    }
    let counts = bed.disk.counts();
    assert!(counts.segments_reclaimed > 10 && counts.moved > 2 && counts.reclaimed > 100, "{counts:?}");
    let usage = bed.disk.usage();
    assert!(usage.objects > 100 && usage.total_bytes == 8 * SEGMENT, "{usage:?}");
    let least = bed.disk.least_ban_seq();
    assert_eq!(least, Some(1));
}

#[test]
fn bytes_that_wait_for_the_disk_are_bounded() {
    let mut bed = Bed::ready(5, 32);
    let refused = (0..100).find_map(|name| bed.put(name, 60_000).err());
    // Nothing has been asked of the driver meanwhile, which prepares segments.
    assert!(matches!(refused, Some(Refused::NoSegment | Refused::Slow)), "{refused:?}");
    assert!(bed.disk.usage().buffer_bytes <= 1 << 20);
    bed.settle();
    assert!(bed.put(200, 60_000).is_ok());
    let counts = bed.disk.counts();
    assert_eq!(counts.puts_slow + counts.puts_no_segment, 1);
}

#[test]
fn a_put_that_is_given_up_leaves_nothing() {
    let mut bed = Bed::ready(6, 8);
    let mut put = bed.disk.put(&digest_of(1));
    put.push(&bytes_of(1, 0, 100_000)).unwrap();
    drop(put);
    let disk = bed.disk.clone();
    bed.run(disk.sync()).unwrap().unwrap();
    bed.cut_power();
    bed.settle();
    assert!(bed.disk.find(&digest_of(1)).is_empty());
}

#[test]
fn an_object_that_was_invalidated_while_it_was_put_isnt_stored() {
    let bed = Bed::ready(7, 8);
    let put = bed.disk.put(&digest_of(1));
    bed.disk.remove_all(&digest_of(1), 2);
    assert_eq!(put.finish(&record_of(1, 1, b""), &ObjectTexts::default()), Err(Refused::Overtaken));
    let put = bed.disk.put(&digest_of(1));
    assert!(put.finish(&record_of(1, 2, b""), &ObjectTexts::default()).is_ok());
}

#[test]
fn the_expired_and_those_that_bans_are_gone_for_arent_found() {
    let mut bed = Bed::ready(8, 8);
    let candidate = bed.put(1, 10).unwrap();
    let disk = bed.disk.clone();
    bed.run(disk.sync()).unwrap().unwrap();
    bed.disk.tick(NOW + 999);
    assert_eq!(bed.disk.find(&digest_of(1)), [candidate]);
    bed.disk.tick(NOW + 1000);
    assert!(bed.disk.find(&digest_of(1)).is_empty());
    let device = Simulated::new(bed.device.image());
    let options = DiskStoreOptions { least_ban_seq: 2, ..DiskStoreOptions::new(NOW, 5) };
    let (disk, driver) = Disk::open(device.clone(), options);
    (bed.device, bed.disk, bed.driver) = (device, disk, Some(driver));
    bed.settle();
    assert_eq!((bed.disk.progress().stage, bed.disk.progress().objects), (Stage::Ready, 0));
}

#[test]
fn a_body_has_many_readers_at_once_and_is_read_as_far_as_it_is_wanted() {
    let mut bed = Bed::ready(9, 16);
    bed.put_slowly(1, 900_000);
    let disk = bed.disk.clone();
    bed.run(disk.sync()).unwrap().unwrap();
    let [candidate] = bed.disk.find(&digest_of(1))[..] else { panic!("it is found") };
    let loaded = bed.run(disk.load(candidate, &digest_of(1))).unwrap().unwrap();
    let before = disk.counts().bytes_read;
    let wanted = 400_000..400_009;
    let range =
        bed.run(std::future::poll_fn(|cx| loaded.body.poll_at(cx, &mut None, wanted.clone()))).unwrap().unwrap();
    assert_eq!(range[..9], bytes_of(1, 0, 900_000)[400_000..400_009]);
    bed.settle();
    assert!(disk.counts().bytes_read - before <= 18 * 4096, "the chunk that has the range, and no other");

    let expected = bytes_of(1, 0, 900_000);
    let mut readers: Vec<(Option<u64>, usize)> = (0..12).map(|turn| (None, turn * 70_000)).collect();
    while readers.iter().any(|(_, at)| *at < expected.len()) {
        for (waiter, at) in readers.iter_mut().filter(|(_, at)| *at < expected.len()) {
            let body = &loaded.body;
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            if let std::task::Poll::Ready(bytes) = body.poll_at(&mut cx, waiter, *at as u64..u64::MAX) {
                let bytes = bytes.unwrap();
                assert_eq!(bytes[..], expected[*at..*at + bytes.len()]);
                *at += bytes.len();
            }
        }
        bed.step();
    }
}

#[test]
fn nothing_is_stored_before_a_first_segment_is_prepared() {
    let mut bed = Bed::new(14, 16);
    let mut was_ready = false;
    while !bed.disk.progress().may_store {
        was_ready |= bed.disk.progress().stage == Stage::Ready;
        assert!(matches!(bed.put_at_once(1, 100), Err(Refused::NotOpen | Refused::NoSegment)));
        assert!(bed.step(), "the first segment is prepared one day");
    }
    assert!(was_ready, "a sync is behind it");
    bed.put_at_once(2, 100).expect("there is a segment");
}

#[test]
fn what_isnt_a_store_is_refused_with_its_reason() {
    fn check(image: Vec<u8>, format: bool) -> Result<(), DiskOpenError> {
        let device = Simulated::new(image);
        let (disk, driver) = Disk::open(device.clone(), DiskStoreOptions { format, ..DiskStoreOptions::new(NOW, 1) });
        let mut bed = Bed::new(1, 4);
        (bed.device, bed.driver) = (device, Some(driver));
        bed.run(disk.opened()).unwrap()
    }
    let bed = Bed::ready(10, 6);
    let mut image = bed.device.image();
    let has = image.len() as u64;
    assert_eq!(check(image.clone(), false), Ok(()));
    assert_eq!(
        check(image[..4 * SEGMENT as usize].to_vec(), false),
        Err(DiskOpenError::Truncated { had: has, has: 4 * SEGMENT })
    );
    image[30] ^= 1;
    assert_eq!(check(image.clone(), false), Ok(()), "the other superblock is whole");
    image[4096 + 30] ^= 1;
    assert_eq!(check(image.clone(), false), Err(DiskOpenError::Damaged));
    for block in [0, 4096] {
        image[block + 8] = 7;
    }
    assert_eq!(check(image.clone(), false), Err(DiskOpenError::OtherVersion(7)));
    let mut dice = DiskDice::new(3);
    image.iter_mut().for_each(|byte| *byte = dice.word() as u8);
    assert_eq!(check(image.clone(), false), Err(DiskOpenError::Foreign));
    assert_eq!(check(image, true), Ok(()));
    assert_eq!(check(vec![0; 8192], false), Err(DiskOpenError::TooSmall { has: 8192 }));
}

#[test]
fn a_burst_fills_several_short_segments_while_the_disk_is_busy() {
    let mut bed = Bed::ready(1, 64);
    for name in 0..24 {
        bed.put_at_once(name, 24_000).unwrap();
    }
    let counts = bed.disk.counts();
    assert_eq!((counts.puts, counts.puts_no_segment), (24, 0), "that are four segments");
    bed.settle();
    bed.disk.tick(NOW);
    bed.disk.tick(NOW);
    bed.settle();
    assert_eq!(bed.load_everything(), 24);
    bed.purge(3);
    for name in 40..64 {
        bed.put_at_once(name, 24_000).unwrap();
    }
    let disk = bed.disk.clone();
    bed.run(disk.close()).expect("closing ends");
    bed.cut_power();
    bed.settle();
    assert_eq!(bed.load_everything(), 47);
    assert_eq!(bed.disk.counts().segments_scanned, 0, "all had their footers");
}
