// SPDX-License-Identifier: BSD-2-Clause
//! Two caches over one arena, of which the former hands over to the other and still serves.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use storage::StoreSpec;
use storage::journal::{Journal, JournalEntry, JournalFile, JournalLife, JournalPeer};
use tables::counters::Xkey;
use testkit_storage::SimulatedHome;

use super::kit::*;
use super::line::unnamed;
use crate::*;

const LIFE: JournalLife = JournalLife { number: 1, boot: 1, epoch: 0.0 };

/// The way to the other one, as long as it is there.
#[derive(Clone, Default)]
struct Wire {
    other: Arc<OnceLock<Cache>>,
    is_cut: Arc<AtomicBool>,
    is_given_up: Arc<AtomicBool>,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wire")
    }
}

impl JournalPeer for Wire {
    fn carry_out(&mut self, entries: &[u8]) -> io::Result<()> {
        let other = self.other.get().filter(|_| !self.is_cut.load(Relaxed)).ok_or(io::ErrorKind::BrokenPipe)?;
        if other.carry_out(entries) { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    fn give_up(&mut self) {
        self.is_given_up.store(true, Relaxed);
    }

    fn given_up(&self) -> Box<dyn Fn() -> bool + Send + Sync> {
        let is_given_up = self.is_given_up.clone();
        Box::new(move || is_given_up.load(Relaxed))
    }
}

struct Pair {
    former: Kit,
    next: Kit,
    to_former: Wire,
    to_next: Wire,
    journal: std::fs::File,
}

fn medium(file: &std::fs::File) -> JournalFile {
    JournalFile::in_memory(file.try_clone().unwrap())
}

impl Pair {
    fn new(limit: u64) -> Pair {
        let mut specs = StoreSpec::in_memory(Some(limit));
        specs[0].arena = Some(unnamed());
        Pair::over(&specs)
    }

    /// Their store has a home, and no arena.
    fn with_home() -> (Pair, SimulatedHome) {
        let home = SimulatedHome::new();
        let mut specs = StoreSpec::in_memory(Some(1 << 20));
        specs[0].home = Some(Arc::new(home.clone()));
        (Pair::over(&specs), home)
    }

    fn over(specs: &[StoreSpec]) -> Pair {
        let former = Kit::of(specs, CacheParams::default());
        let next = Kit::beside(former.clock.clone(), specs, CacheParams::default());
        for kit in [&former, &next] {
            kit.cache.enable_tags(Box::leak(Box::<Xkey>::default()));
        }
        let journal = sys::fd::memfd("journal").unwrap();
        former.cache.replay(Journal::format(medium(&journal)).unwrap(), Replay::nothing(LIFE));
        let to_next = Wire::default();
        let to_former = Wire { is_given_up: to_next.is_given_up.clone(), ..Wire::default() };
        assert!(to_former.other.set(former.cache.clone()).is_ok() && to_next.other.set(next.cache.clone()).is_ok());
        Pair { former, next, to_former, to_next, journal }
    }

    fn hand_over(&self) {
        self.next.go_on_from(&self.former);
        self.former.cache.hand_over(Box::new(self.to_next.clone())).unwrap();
        self.next.cache.take_over(Some(Box::new(self.to_former.clone())));
        let (journal, entries) = Journal::open(medium(&self.journal)).unwrap();
        self.next.cache.replay(journal, Replay::read(&entries, LIFE).unwrap());
        self.next.cache.adopt_survivors();
    }

    /// The verdicts of the former worker and the next.
    fn verdicts(&self, url: &str) -> [&'static str; 2] {
        [self.former.verdict(url), self.next.verdict(url)]
    }
}

fn put_with_key(kit: &Kit, url: &str, key: &str) {
    let mut busy = busy_of(kit.look(url));
    busy.set_head(
        &kit.cache.stores().all()[0].clone(),
        HEAD,
        None,
        &kit.attrs(100.0, 50.0, 0.0, ObjectFlags::NONE),
        &[],
    )
    .unwrap();
    busy.set_tags(vec![key.as_bytes().into()]);
    busy.append(url.as_bytes()).unwrap();
    busy.finish(None).unwrap();
}

fn purge_key(kit: &Kit, key: &str, is_soft: bool) {
    let mut purge = kit.cache.purge_tags(std::iter::once(key.as_bytes()), kit.now(), is_soft);
    while purge.step().is_none() {}
}

#[test]
fn both_serve_what_was_there_and_each_what_it_fetches() {
    let pair = Pair::new(8 << 20);
    pair.former.put("/", 100.0, b"before");
    pair.former.cache.ban_text("req.url == /banned").unwrap();
    pair.hand_over();
    assert_eq!(pair.verdicts("/"), ["hit", "hit"]);
    assert_eq!(pair.next.main.bans.get(), pair.former.main.bans.get());
    pair.former.put("/former", 100.0, b"x");
    pair.next.put("/next", 100.0, b"x");
    assert_eq!([pair.verdicts("/former"), pair.verdicts("/next")], [["hit", "miss"], ["miss", "hit"]]);
    // What the former one drops is the next one's still.
    pair.former.cache.kill(&hit_of(pair.former.look("/")));
    pair.former.cache.let_go().unwrap();
    assert!(pair.former.cache.is_recalled());
    pair.next.cache.own();
    assert_eq!(pair.verdicts("/"), ["miss", "hit"]);
}

#[test]
fn what_is_invalidated_in_one_is_invalidated_in_both() {
    let soft = Purge { ttl: Some(0.0), ..Purge::default() };
    type Act = fn(&Kit, &str);
    // What the former one can't shorten the lives of any more it lets go.
    let softened = ["miss", "grace+fetch"];
    let acts: [(&str, Act, [&str; 2]); 5] = [
        ("/purge", |kit, url| assert_eq!(kit.cache.purge(&digest(url), kit.now(), Purge::HARD), 1), ["miss"; 2]),
        ("/ban", |kit, url| kit.cache.ban_text(&format!("req.url == {url}")).unwrap(), ["miss"; 2]),
        (
            "/obj-ban",
            |kit, url| kit.cache.ban_text(&format!("obj.http.x-tag == red && req.url == {url}")).unwrap(),
            ["miss"; 2],
        ),
        ("/key", |kit, url| purge_key(kit, url, false), ["miss"; 2]),
        ("/soft-key", |kit, url| purge_key(kit, url, true), softened),
    ];
    let pair = Pair::new(8 << 20);
    let urls = |url: &str| [0, 1, 2, 3].map(|n| format!("{url}{n}"));
    acts.iter()
        .flat_map(|(url, ..)| urls(url))
        .chain(urls("/soft"))
        .for_each(|url| put_with_key(&pair.former, &url, &url));
    pair.hand_over();
    pair.former.pass(1.0);
    for (url, act, verdicts) in acts {
        // Adopted already, and not yet.
        let [a, b, c, d] = urls(url);
        assert_eq!([pair.verdicts(&a), pair.verdicts(&c)], [["hit", "hit"], ["hit", "hit"]]);
        [&a, &b].into_iter().for_each(|url| act(&pair.former, url));
        [&c, &d].into_iter().for_each(|url| act(&pair.next, url));
        for url in [a, b, c, d] {
            assert_eq!(pair.verdicts(&url), verdicts, "{url}");
        }
    }
    let [a, b, ..] = urls("/soft");
    pair.former.cache.purge(&digest(&a), pair.former.now(), soft);
    pair.next.cache.purge(&digest(&b), pair.former.now(), soft);
    assert_eq!([pair.verdicts(&a), pair.verdicts(&b)], [softened; 2]);
    assert!(!pair.former.cache.is_recalled() && pair.former.cache.unkept().is_none());
    // A third one finds it so.
    let (_, entries) = Journal::open(medium(&pair.journal)).unwrap();
    assert!(Replay::read(&entries, LIFE).is_some());
}

#[test]
fn a_former_one_that_cannot_be_told_is_recalled() {
    let pair = Pair::new(8 << 20);
    pair.former.put("/", 100.0, b"x");
    pair.hand_over();
    pair.to_former.is_cut.store(true, Relaxed);
    assert!(!pair.former.cache.is_recalled());
    pair.next.cache.purge(&digest("/"), pair.next.now(), Purge::HARD);
    assert!(pair.former.cache.is_recalled() && !pair.next.cache.is_recalled());
}

#[test]
fn a_former_one_whose_room_is_needed_is_recalled_and_still_told_by() {
    let pair = Pair::new(8 << 20);
    pair.former.put("/", 100.0, b"x");
    pair.hand_over();
    pair.next.cache.recall();
    assert!(pair.former.cache.is_recalled() && !pair.to_former.is_given_up.load(Relaxed));
    pair.former.cache.purge(&digest("/"), pair.former.now(), Purge::HARD);
    assert!(pair.former.cache.unkept().is_none(), "what is invalidated there is kept here");
    assert_eq!(pair.next.verdict("/"), "miss");
}

#[test]
fn a_former_one_with_a_home_is_recalled_though_they_share_no_memory() {
    let (pair, _) = Pair::with_home();
    pair.former.put("/", 100.0, b"x");
    pair.hand_over();
    assert!(!pair.former.cache.is_recalled());
    pair.to_former.is_cut.store(true, Relaxed);
    pair.next.cache.purge(&digest("/"), pair.next.now(), Purge::HARD);
    assert!(pair.former.cache.is_recalled() && !pair.next.cache.is_recalled());
}

#[test]
fn a_former_one_with_a_home_serves_nothing_from_it_once_it_has_let_go() {
    let (pair, home) = Pair::with_home();
    pair.former.put("/", 100.0, b"x");
    pair.hand_over();
    pair.former.cache.let_go().unwrap();
    assert!(pair.former.cache.is_recalled() && home.copies() == 1);
}

#[test]
fn a_worker_with_a_home_takes_its_journal_back_when_its_successor_failed() {
    let (pair, _) = Pair::with_home();
    pair.former.cache.ban_text("req.url == /before").unwrap();
    pair.hand_over();
    pair.next.cache.purge(&digest("/told"), pair.next.now(), Purge::HARD);
    pair.to_next.is_cut.store(true, Relaxed);
    pair.to_next.is_given_up.store(true, Relaxed);
    assert!(pair.former.cache.is_recalled());
    pair.former.cache.take_back();
    assert!(!pair.former.cache.is_recalled());
    pair.former.cache.purge(&digest("/own"), pair.former.now(), Purge::HARD);
    pair.former.cache.ban_text("req.url == /after").unwrap();
    assert!(pair.former.cache.unkept().is_none(), "what is invalidated is kept again");
    let (_, entries) = Journal::open(medium(&pair.journal)).unwrap();
    let count = |is_it: fn(&JournalEntry) -> bool| entries.iter().filter(|entry| is_it(entry)).count();
    // The list begins with one of its own.
    assert_eq!(count(|entry| matches!(entry, JournalEntry::Ban(_))), 3);
    let purged = entries.iter().filter_map(|entry| match entry {
        JournalEntry::Purge(purge) => Some(purge.digest),
        _ => None,
    });
    assert_eq!(purged.collect::<Vec<_>>(), [digest("/told").0, digest("/own").0]);
}

#[test]
fn the_other_worker_counts_from_the_time_when_a_ban_was_made() {
    let pair = Pair::new(8 << 20);
    pair.former.put("/", 100.0, b"x");
    let made = pair.former.clock.real();
    pair.hand_over();
    pair.next.pass(10.0);
    let ban = |kit: &Kit| kit.cache.ban_made_at(kit.cache.ban_of_text("obj.age > 5s").unwrap(), made);
    assert!(ban(&pair.next));
    assert_eq!(pair.verdicts("/"), ["hit"; 2]);
    assert!(ban(&pair.former));
    assert_eq!(pair.verdicts("/"), ["hit"; 2]);
}

#[test]
fn where_the_successor_cannot_be_told_an_invalidation_fails() {
    let pair = Pair::new(8 << 20);
    pair.hand_over();
    assert!(pair.former.cache.tells_successor());
    pair.to_next.is_cut.store(true, Relaxed);
    pair.former.cache.purge(&digest("/"), pair.former.now(), Purge::HARD);
    let unkept = pair.former.cache.unkept().expect("it isn't kept");
    assert!(block_on(unkept).is_err());
    assert!(!pair.former.cache.tells_successor());
    // It doesn't begin to hear of some and not of others.
    pair.to_next.is_cut.store(false, Relaxed);
    pair.former.cache.ban_text("req.url == /").unwrap();
    assert!(block_on(pair.former.cache.unkept().unwrap()).is_err());
    pair.former.cache.take_back();
    assert!(pair.former.cache.unkept().is_none());
}

/// A body that repeats its URL.
fn body_of(n: usize) -> Vec<u8> {
    format!("{n}.").bytes().cycle().take(200 + n * 37 % 30_000).collect()
}

#[test]
fn a_store_that_is_full_gives_no_wrong_byte_while_it_changes_hands() {
    for seed in 1..6 {
        let mut rng = TestRng::new(seed);
        let pair = Pair::new(2 << 20);
        // A store that is full of what nobody has adopted yet may have no room.
        let put = |kit: &Kit, n: usize| {
            let always_miss = LookupOptions { always_miss: true, ..LookupOptions::default() };
            let mut busy = busy_of(kit.look_with(&TestReq::new(&format!("/{n}")), &always_miss));
            let (store, attrs) = (kit.cache.stores().all()[0].clone(), kit.attrs(1000.0, 0.0, 0.0, ObjectFlags::NONE));
            let is_stored = busy.set_head(&store, HEAD, None, &attrs, &[]).is_ok() && busy.append(&body_of(n)).is_ok();
            is_stored && busy.finish(None).is_ok()
        };
        let check = |obj: &ObjRef, n: usize| assert!(block_on(read_all(obj)).unwrap() == body_of(n), "{seed} {n}");
        let stored = (0..400).filter(|n| put(&pair.former, *n)).count();
        assert_eq!(stored, 400);
        pair.hand_over();
        // Deliveries of the former one that go on over all that follows.
        let mut held: Vec<(usize, ObjRef)> = Vec::new();
        let (mut served, mut stored) = ([0; 2], 0);
        for step in 0..3000 {
            let n = rng.below(500);
            if step > 200 && step % 20 == 0 {
                pair.next.cache.adopt_some(1, &mut |_| {});
            }
            if step == 1500 {
                pair.former.cache.let_go().unwrap();
                pair.next.cache.own();
            }
            match rng.below(4) {
                0 => stored += usize::from(put(&pair.next, n)),
                1 if step < 1500 => {
                    if let Ok(Found::Hit(obj)) = pair.former.look(&format!("/{n}")) {
                        check(&obj, n);
                        served[0] += 1;
                        held.push((n, obj));
                    }
                }
                2 if held.len() > 20 => {
                    let (n, obj) = held.swap_remove(rng.below(held.len()));
                    check(&obj, n);
                }
                _ => {
                    if let Ok(Found::Hit(obj)) = pair.next.look(&format!("/{n}")) {
                        check(&obj, n);
                        served[1] += 1;
                    }
                }
            }
        }
        assert!(served[0] > 100 && served[1] > 100 && !held.is_empty() && stored > 500, "{served:?} {stored}");
        held.iter().for_each(|(n, obj)| check(obj, *n));
        drop((held, pair.former));
        while pair.next.cache.adopt_some(1, &mut |_| {}) {}
        let store = &pair.next.cache.stores().all()[0];
        assert!(!store.is_shared() && store.deferred_bytes() == 0);
        pair.next.pass(2000.0);
        while pair.next.cache.expire(pair.next.now(), 1000, &mut |_| {}) > 0 {}
        assert_eq!(pair.next.held(), 0);
    }
}
