// SPDX-License-Identifier: BSD-2-Clause
//! What the journal keeps for homes: purges that they may not have on stable storage, and what they are told of at a start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use base::lock::Mutex;
use storage::journal::{Journal, JournalEntry, JournalFile, JournalLife};
use storage::{CopyJudge, Home, HomeId, LoadFuture, StoreSpec, Writing};

use super::kit::*;
use crate::*;

const LIFE: JournalLife = JournalLife { number: 1, boot: 1, epoch: 0.0 };

/// A home that holds nothing and notes its orders to remove copies.
#[derive(Clone, Debug, Default)]
struct Deaf(Arc<State>);

#[derive(Debug, Default)]
struct State {
    removed: Mutex<Vec<([u8; 32], u64)>>,
    /// The number that the home reports; 0: none.
    needed_from: AtomicU64,
    least_ban_seq: AtomicU64,
    is_opening: AtomicBool,
}

impl Deaf {
    fn removed(&self, url: &str) -> Vec<u64> {
        let removed = self.0.removed.lock();
        removed.iter().filter(|(digest, _)| *digest == super::kit::digest(url).0).map(|(_, seq)| *seq).collect()
    }
}

fn some(number: &AtomicU64) -> Option<u64> {
    Some(number.load(Relaxed)).filter(|&number| number != 0)
}

impl Home for Deaf {
    fn find(&self, _: &[u8; 32]) -> Vec<HomeId> {
        Vec::new()
    }

    fn holds(&self, _: &[u8; 32], _: HomeId) -> bool {
        false
    }

    fn load(&self, _: &[u8; 32], _: HomeId) -> LoadFuture {
        unreachable!("it holds nothing")
    }

    fn begin(&self, _: &[u8; 32]) -> Box<dyn Writing> {
        unreachable!("nothing is fetched here")
    }

    fn note_use(&self, _: &[u8; 32], _: HomeId) {}

    fn remove(&self, _: &[u8; 32], _: HomeId) -> bool {
        false
    }

    fn remove_all(&self, digest: &[u8; 32], before: u64) -> usize {
        self.0.removed.lock().push((*digest, before));
        0
    }

    fn least_ban_seq(&self) -> Option<u64> {
        some(&self.0.least_ban_seq)
    }

    fn journal_needed_from(&self) -> Option<u64> {
        some(&self.0.needed_from)
    }

    fn set_judge(&self, _: Box<dyn CopyJudge>) {}

    fn is_ready(&self) -> bool {
        !self.0.is_opening.load(Relaxed)
    }
}

struct Worker {
    kit: Kit,
    home: Deaf,
    file: std::fs::File,
}

impl Worker {
    fn first() -> Worker {
        let file = sys::fd::memfd("journal").unwrap();
        Journal::format(JournalFile::in_memory(file.try_clone().unwrap())).unwrap();
        Worker::on(file, Deaf::default())
    }

    fn on(file: std::fs::File, home: Deaf) -> Worker {
        let mut specs = StoreSpec::in_memory(Some(8 << 20));
        specs[0].home = Some(Arc::new(home.clone()));
        let kit = Kit::of(&specs, CacheParams::default());
        let (journal, entries) = Journal::open(JournalFile::in_memory(file.try_clone().unwrap())).unwrap();
        kit.cache.replay(journal, Replay::read(&entries, LIFE).unwrap());
        kit.cache.adopt_survivors();
        Worker { kit, home, file }
    }

    fn next(self) -> Worker {
        Worker::on(self.file, Deaf::default())
    }

    fn purge(&self, url: &str) -> u64 {
        self.kit.cache.purge(&digest(url), self.kit.now(), Purge::HARD);
        self.kit.cache.shared().bans.seq()
    }

    fn purge_key(&self, key: &str, is_soft: bool) -> u64 {
        let mut purge = self.kit.cache.purge_tags([key.as_bytes()].into_iter(), self.kit.now(), is_soft);
        while purge.step().is_none() {}
        self.kit.cache.shared().bans.seq()
    }

    fn tend(&self) {
        self.kit.cache.shared().tend_journal();
    }

    /// The journal's entries now. Reads a copy, since opening a journal writes to it.
    fn entries(&self) -> Vec<JournalEntry> {
        let (_, entries) =
            Journal::open(JournalFile::in_memory(super::line::copy(&self.file).try_clone().unwrap())).unwrap();
        entries
    }
}

#[test]
fn a_home_is_told_of_purges_that_it_may_not_have_kept() {
    let first = Worker::first();
    let (a, b) = (first.purge("/a"), first.purge("/b"));
    first.home.0.needed_from.store(b, Relaxed);
    first.tend();
    // What is let go of leaves with the next log.
    let second = first.next();
    assert_eq!((second.home.removed("/a"), second.home.removed("/b")), (vec![a], vec![b]));
    second.home.0.needed_from.store(b, Relaxed);
    second.tend();
    second.kit.cache.shared().bans.log.with_purges(|purges| assert_eq!(purges.open().len(), 0));
    let third = second.next();
    assert_eq!((third.home.removed("/a"), third.home.removed("/b")), (vec![a], vec![b]));
    third.tend();
    let fourth = third.next();
    assert_eq!((fourth.home.removed("/a"), fourth.home.removed("/b")), (vec![a], vec![b]));
}

#[test]
fn what_homes_have_kept_leaves_the_journal() {
    let first = Worker::first();
    let (a, b) = (first.purge("/a"), first.purge("/b"));
    first.home.0.needed_from.store(b, Relaxed);
    first.tend();
    let digests = |worker: &Worker| {
        worker
            .kit
            .cache
            .shared()
            .bans
            .log
            .with_purges(|purges| purges.digests().map(|(seq, _)| seq).collect::<Vec<_>>())
    };
    assert_eq!(digests(&first), [b]);
    first.home.0.needed_from.store(0, Relaxed);
    first.tend();
    assert_eq!(digests(&first), [0; 0]);
    assert!(a < b);
}

#[test]
fn one_entry_a_digest_is_kept() {
    let first = Worker::first();
    first.home.0.needed_from.store(1, Relaxed);
    let newest = (0..1000).map(|n| first.purge(["/a", "/b"][n % 2])).max().unwrap();
    let second = first.next();
    assert_eq!((second.home.removed("/a"), second.home.removed("/b")), (vec![newest - 1], vec![newest]));
    let purges = second.entries().into_iter().filter(|entry| matches!(entry, JournalEntry::Purge(_))).count();
    assert_eq!(purges, 2);
}

#[test]
fn purges_by_key_are_held_again_with_their_numbers_and_moments() {
    let first = Worker::first();
    first.kit.cache.enable_tags(Box::leak(Box::default()));
    let (hard, soft) = (first.purge_key("a", false), first.purge_key("b", true));
    let at = first.kit.now();
    let second = first.next();
    let purged = |entry: &JournalEntry| match entry {
        JournalEntry::TagPurge(purge) => Some((purge.key.clone(), purge.seq, purge.soft)),
        _ => None,
    };
    // The journal was begun anew, and had to ask the tags what is held.
    let mut said: Vec<_> = second.entries().iter().filter_map(purged).collect();
    said.sort_by_key(|purge| purge.1);
    let soft_at = Some(at.0);
    assert_eq!(said, [(b"a".to_vec(), hard, None), (b"b".to_vec(), soft, soft_at)]);
    second.kit.cache.shared().bans.log.with_purges(|purges| assert_eq!(purges.open().len(), 0));
}

#[test]
fn stores_are_bound_once_all_are_ready() {
    let first = Worker::first();
    let is_bound = |worker: &Worker| worker.entries().contains(&JournalEntry::Bound);
    first.home.0.is_opening.store(true, Relaxed);
    first.tend();
    assert!(!is_bound(&first));
    first.home.0.is_opening.store(false, Relaxed);
    first.tend();
    assert!(is_bound(&first));
}

#[test]
fn purges_that_homes_never_keep_end_the_journal_and_not_the_memory() {
    let first = Worker::first();
    first.home.0.needed_from.store(1, Relaxed);
    let log = &first.kit.cache.shared().bans.log;
    for seq in 1..(1 << 20) + 2u64 {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&seq.to_le_bytes());
        let ticket = log.begin(seq, || crate::journal::purge(seq, &Digest(digest), 0.0, &Purge::HARD));
        log.done(seq);
        if seq.is_multiple_of(4096) {
            log.commit(ticket);
        }
    }
    first.tend();
    log.with_purges(|purges| assert_eq!(purges.digests().count(), 0));
    let trouble = first.kit.cache.journal_trouble().unwrap();
    assert!(trouble.contains("so many purges"), "{trouble}");
    assert_eq!((first.kit.cache.journal_trouble(), first.kit.main.journal_fail.get()), (None, 1));
    let reopened = Journal::open(JournalFile::in_memory(first.file.try_clone().unwrap()));
    assert!(matches!(reopened, Err(storage::journal::JournalError::Incomplete)));
}
