// SPDX-License-Identifier: BSD-2-Clause
//! What comes back from a ring, where this system has rings.

use std::path::PathBuf;

use super::*;
use crate::blockfile::{BlockOptions, Direct};
use crate::pages::BLOCK;

const BLOCKS: u64 = 64;

/// A file of 64 blocks, the first byte of each its number, on a disk.
fn file(name: &str, direct: Direct) -> (Arc<BlockFile>, PathBuf) {
    let path = std::env::temp_dir().join(format!("lacquer-uring-{name}-{}", std::process::id()));
    let options = BlockOptions { bytes: Some(BLOCKS * BLOCK as u64), direct, ..BlockOptions::default() };
    let file = BlockFile::open(&path, &options).unwrap();
    for block in 0..BLOCKS {
        let mut pages = Pages::zeroed(BLOCK);
        pages[0] = block as u8;
        file.write(block * BLOCK as u64, &pages).unwrap();
    }
    (Arc::new(file), path)
}

/// Runs `test` with a ring on such a file, with the page cache and past it. Where rings are forbidden there is nothing to test.
fn with_ring(name: &str, pool: Option<&Arc<PagePool>>, test: impl Fn(&mut IoRing)) {
    for direct in [Direct::IfPossible, Direct::Never] {
        let (file, path) = file(name, direct);
        let ring = IoRing::new(file, 8, pool, None);
        std::fs::remove_file(path).unwrap();
        match ring {
            Ok(mut ring) => test(&mut ring),
            Err(error) => println!("no rings here: {error}"),
        }
    }
}

fn all(ring: &mut IoRing) -> Vec<Ended> {
    let mut ended = Vec::new();
    while !ring.is_idle() {
        ring.run(true, &mut ended).unwrap();
    }
    ended.sort_by_key(|(tag, _)| *tag);
    ended
}

#[test]
fn operations_end_with_their_own_tags_and_bytes() {
    let pool = PagePool::new(1).unwrap();
    with_ring("tags", Some(&pool), |ring| {
        for tag in 0..8 {
            let into = if tag % 2 == 0 { pool.take(BLOCK) } else { Pages::zeroed(BLOCK) };
            ring.push(tag, RingJob::Read { at: tag * 3 * BLOCK as u64, into }).unwrap();
        }
        assert_eq!(ring.room(), 0);
        assert!(ring.push(9, RingJob::Sync).is_err(), "more than there is room for");
        let ended = all(ring);
        let first_bytes: Vec<_> = ended.iter().map(|(tag, pages)| (*tag, pages.as_ref().unwrap()[0])).collect();
        assert_eq!(first_bytes, (0..8).map(|tag| (tag, tag as u8 * 3)).collect::<Vec<_>>());
    });
}

#[test]
fn what_is_written_is_read_again() {
    let pool = PagePool::new(1).unwrap();
    with_ring("writes", Some(&pool), |ring| {
        for (tag, mut from) in [pool.take(2 * BLOCK), Pages::zeroed(2 * BLOCK)].into_iter().enumerate() {
            from.fill(100 + tag as u8);
            ring.push(tag as u64, RingJob::Write { at: tag as u64 * 4 * BLOCK as u64, from: Arc::new(from) }).unwrap();
        }
        assert!(all(ring).iter().all(|(_, result)| result.as_ref().is_ok_and(|pages| pages.is_empty())));
        ring.push(2, RingJob::Sync).unwrap();
        assert!(all(ring)[0].1.is_ok());
        ring.push(3, RingJob::Read { at: 0, into: pool.take(8 * BLOCK) }).unwrap();
        let (_, read) = all(ring).remove(0);
        let read = read.unwrap();
        let first_bytes: Vec<_> = read.chunks(BLOCK).map(|block| block[BLOCK - 1]).collect();
        assert_eq!(first_bytes, [100, 100, 0, 0, 101, 101, 0, 0]);
    });
}

#[test]
fn a_file_that_ends_before_the_operation_is_an_error() {
    with_ring("short", None, |ring| {
        ring.push(0, RingJob::Read { at: (BLOCKS - 1) * BLOCK as u64, into: Pages::zeroed(2 * BLOCK) }).unwrap();
        ring.push(1, RingJob::Read { at: BLOCKS * BLOCK as u64, into: Pages::zeroed(BLOCK) }).unwrap();
        for (_, result) in all(ring) {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    });
}

#[test]
fn the_bell_ends_a_wait_in_which_nothing_else_does() {
    with_ring("bell", None, |ring| {
        let bell = ring.bell();
        let ringer = std::thread::spawn(move || bell.ring());
        let mut ended = Vec::new();
        ring.run(true, &mut ended).unwrap();
        ringer.join().unwrap();
        assert!(ended.is_empty());
        ring.bell().ring();
        ring.run(true, &mut ended).unwrap();
    });
}

#[test]
fn a_ring_that_goes_waits_for_its_operations() {
    let pool = PagePool::new(1).unwrap();
    with_ring("drop", Some(&pool), |ring| {
        let mut ended = Vec::new();
        for tag in 0..8 {
            ring.push(tag, RingJob::Read { at: 0, into: pool.take(BLOCK) }).unwrap();
        }
        ring.run(false, &mut ended).unwrap();
    });
    assert_eq!(pool.free_bytes(), pool.bytes(), "pages were lost");
}

#[test]
fn a_lock_on_what_a_ring_holds_lasts_as_long_as_the_ring() {
    let (file, path) = file("held", Direct::IfPossible);
    let lock = crate::fd::memfd("lock").unwrap();
    let mine = Arc::new(crate::fd::reopen(&lock).unwrap());
    mine.lock().unwrap();
    let Ok(mut ring) = IoRing::new(file, 8, None, Some(&mine)) else { return };
    let others = crate::fd::reopen(&lock).unwrap();
    assert!(others.try_lock().is_err());
    // As when a process ends: what it had open is closed first.
    ring._held = None;
    drop(mine);
    assert!(others.try_lock().is_err(), "the kernel has it");
    drop(ring);
    others.lock().unwrap();
    std::fs::remove_file(path).unwrap();
}
