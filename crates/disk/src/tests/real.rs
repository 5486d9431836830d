// SPDX-License-Identifier: BSD-2-Clause
//! The store on a file, with threads that put, find, load and remove at the same time; what is closed, or only dropped, is
//! there again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use storage::StoredBody;
use testkit::block_on;

use super::bed::{NOW, bytes_of, digest_of, head_of, record_of};
use crate::device::{DeviceEngine, DeviceOptions, FileDevice};
use crate::dice::DiskDice;
use crate::disk::{Disk, Stage};
use crate::format::object::ObjectTexts;
use crate::options::DiskStoreOptions;

fn load(disk: &Disk, name: u8) -> Option<usize> {
    let digest = digest_of(name);
    let candidate = disk.find(&digest).first().copied()?;
    let loaded = block_on(disk.load(candidate, &digest)).ok()?;
    let version = u64::from_le_bytes(loaded.head[1..9].try_into().unwrap()) as usize;
    assert_eq!(loaded.head[..], head_of(name, version));
    let (mut read, mut waiter) = (Vec::new(), None);
    while (read.len() as u64) < loaded.body.len() {
        let offset = read.len() as u64;
        let bytes = block_on(std::future::poll_fn(|cx| loaded.body.poll_at(cx, &mut waiter, offset..u64::MAX)));
        read.extend_from_slice(&bytes.ok()?);
    }
    assert!(read == bytes_of(name, version, read.len()), "a wrong byte");
    disk.note_use(candidate);
    Some(version)
}

fn work(disk: &Disk, thread: u8, numbers: &AtomicU64) -> u64 {
    let mut dice = DiskDice::new(u64::from(thread));
    let mut served = 0;
    for turn in 0..600 {
        let name = dice.below(40) as u8;
        match dice.below(8) {
            0..3 => {
                let mut put = disk.put(&digest_of(name));
                let version = numbers.fetch_add(1, Relaxed) as usize;
                let most = [2000, 20_000, 200_000][dice.below(3) as usize];
                let body = bytes_of(name, version, dice.below(most) as usize);
                let head = head_of(name, version);
                let texts = ObjectTexts { head: &head, ..ObjectTexts::default() };
                let pushed = body.chunks(50_000).try_for_each(|piece| put.push(piece));
                if pushed.and_then(|()| put.finish(&record_of(name, version as u64, &head), &texts).map(drop)).is_err()
                {
                    // The disk falls behind: it gets the time that an origin would take.
                    let _ = block_on(disk.sync());
                }
            }
            3 if turn % 3 == 0 => drop(disk.remove_all(&digest_of(name), numbers.fetch_add(1, Relaxed))),
            4 => disk.tick(NOW),
            5 => drop(block_on(disk.sync())),
            _ => served += u64::from(load(disk, name).is_some()),
        }
    }
    served
}

fn check(engine: DeviceEngine) {
    let path = crate::device::tests::path();
    let options = DeviceOptions { bytes: Some(8 << 20), engine, ..DeviceOptions::default() };
    let open = || -> (Disk, thread::JoinHandle<()>) {
        let device = Arc::new(FileDevice::open(&path, &options).unwrap());
        let store = DiskStoreOptions {
            segment_bytes: Some(512 << 10),
            ..DiskStoreOptions::new(NOW, std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1))
        };
        let (disk, driver) = Disk::open(device, store);
        let driving = thread::spawn(|| block_on(driver));
        block_on(disk.opened()).unwrap();
        while disk.progress().stage != Stage::Ready || !disk.progress().may_store {
            thread::yield_now();
        }
        (disk, driving)
    };
    let numbers = AtomicU64::new(0);
    for _ in 0..2 {
        let (disk, driving) = open();
        let served: u64 = thread::scope(|scope| {
            let (disk, numbers) = (&disk, &numbers);
            let running: Vec<_> = (0..4).map(|number| scope.spawn(move || work(disk, number, numbers))).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let counts = disk.counts();
        assert!(served > 50 && counts.segments_reclaimed > 0, "{served} served, {counts:?}");
        assert_eq!((counts.read_errors, counts.write_errors, counts.checksum_errors), (0, 0, 0));
        block_on(disk.close());
        driving.join().unwrap();
        let (there, counts) = (disk.progress().objects, disk.counts());
        assert!(there > 10, "{there} objects");
        drop(disk);
        let (disk, driving) = open();
        let objects = disk.progress().objects;
        // An object that was dropped for want of use is in its segment until that is written anew.
        let most = there + counts.reclaimed + 1;
        assert!(objects <= most, "{there} objects have become {objects}, and one was put: {counts:?}");
        assert!((0..40).filter(|&name| load(&disk, name).is_some()).count() > 5);
        block_on(disk.close());
        driving.join().unwrap();
        // Reclaiming goes on until the driver has ended, and counts objects only after it has taken them out of the index.
        let (objects, counts) = (disk.progress().objects, disk.counts());
        let gone = counts.reclaimed + counts.removed;
        assert!(objects + gone + 2 >= there, "of {there} objects {objects} are there again, {gone} have gone");
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn many_threads_use_a_store_on_a_file_at_once_by_rings() {
    check(DeviceEngine::IfPossible);
}

#[test]
fn many_threads_use_a_store_on_a_file_at_once_by_threads() {
    check(DeviceEngine::Threads);
}
