// SPDX-License-Identifier: BSD-2-Clause
//! Nobody is told of a ban or a purge that isn't kept, where keeping takes time; nobody else waits for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use storage::journal::{Journal, JournalFile, JournalLife, Medium};

use super::*;

#[derive(Debug)]
struct Disk {
    file: JournalFile,
    is_broken: Arc<AtomicBool>,
}

impl Medium for Disk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_at(at, into)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        match self.is_broken.load(Relaxed) {
            true => Err(io::Error::other("broken")),
            false => self.file.write_at(at, bytes),
        }
    }

    fn clear(&self, at: u64, end: u64) -> io::Result<()> {
        self.file.clear(at, end)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn takes_time(&self) -> bool {
        true
    }
}

/// Compares the responses' statuses for a cache with a journal that is written from the second request on.
fn check(requests: &[&str], is_broken: bool, expected: &[u16]) {
    let world = World::new(&[], false);
    let disk = Arc::new(AtomicBool::new(false));
    let file = JournalFile::in_memory(sys::fd::memfd("journal").unwrap());
    let journal = Journal::format(Disk { file, is_broken: disk.clone() }).unwrap();
    let cache = world.engine.cache.clone();
    cache.replay(journal, cache::Replay::nothing(JournalLife::default()));
    disk.store(is_broken, Relaxed);
    rt::run(async {
        let (mut one, mut other) = (world.connect(), world.connect());
        for (at, request) in requests.iter().enumerate() {
            one.say(request);
            other.say("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(other.response().await.0, 200);
            if at == 0 {
                assert_eq!(one.end.unread(), 0, "it isn't kept yet");
                // It ends with this process.
                let cache = cache.clone();
                drop(std::thread::spawn(move || cache.write_journal()));
            }
            assert_eq!(one.response().await.0, expected[at], "{request}");
        }
    })
    .unwrap();
}

const PURGE: &str = "PURGE /1 HTTP/1.1\r\nHost: a\r\n\r\n";
const BAN: &str = "BAN /1 HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_purge_is_answered_once_it_is_kept() {
    check(&[PURGE, PURGE, BAN], false, &[200, 200, 200]);
}

#[test]
fn a_ban_is_answered_once_it_is_kept() {
    check(&[BAN, PURGE], false, &[200, 200]);
}

#[test]
fn what_cannot_be_kept_is_no_success() {
    check(&[PURGE], true, &[503]);
    check(&[BAN], true, &[503]);
}
