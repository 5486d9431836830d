// SPDX-License-Identifier: BSD-2-Clause
//! Bans and purges that outlive their worker: a cache dies, and a new one reads its journal.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use storage::journal::{Followed, Journal, JournalEntry, JournalFile, JournalHeld, JournalLife};

use super::kit::*;
use super::line::{copy as copy_arena, unnamed};
use crate::*;

const LIFE: JournalLife = JournalLife { number: 1, boot: 1, epoch: 0.0 };

/// A journal in memory that any number of caches have, one after the other.
struct Legacy(File);

impl Legacy {
    fn new() -> Legacy {
        let file = sys::fd::memfd("journal").unwrap();
        Journal::format(JournalFile::in_memory(file.try_clone().unwrap())).unwrap();
        Legacy(file)
    }

    fn entries(&self) -> (Journal, Vec<JournalEntry>) {
        Journal::open(JournalFile::in_memory(self.0.try_clone().unwrap())).unwrap()
    }

    /// A new cache, at a time when the former one may still have been at work.
    fn heir(&self, seconds: f64) -> Kit {
        let kit = Kit::with(None, CacheParams { ban_lurker_age: 3.0, ..CacheParams::default() });
        kit.clock.advance(Duration::from_secs_f64(seconds));
        let (journal, entries) = self.entries();
        kit.cache.replay(journal, Replay::read(&entries, LIFE).unwrap());
        kit
    }
}

fn lurk(kit: &Kit) {
    // A ban may be just old enough for the lurker to look for ever.
    let _ = (0..100).find(|_| kit.cache.lurk(kit.now(), &mut |_| {}) > 0.5);
}

/// `ban.list` without the objects that stand there.
fn list(kit: &Kit) -> Vec<String> {
    let all = kit.cache.ban_list(true);
    all.lines().skip(1).map(|line| format!("{}{}", &line[..17], &line[23..])).collect()
}

fn gauges(kit: &Kit) -> [u64; 4] {
    [&kit.main.bans, &kit.main.bans_completed, &kit.main.bans_obj, &kit.main.bans_req].map(|gauge| gauge.get())
}

#[test]
fn the_list_is_as_it_was_and_the_numbers_go_on() {
    let legacy = Legacy::new();
    let first = legacy.heir(0.0);
    let reader = busy_of(first.look("/"));
    first.cache.ban_text("req.url ~ a").unwrap();
    first.pass(1.5);
    first.cache.ban_text("obj.age > 1s && req.http.x == 1").unwrap();
    first.cache.purge(&digest("/x"), first.now(), Purge::HARD);
    first.cache.ban_text("req.url ~ a").unwrap();
    let before = (list(&first), gauges(&first));
    assert_eq!(before.0.len(), 4);
    let second = legacy.heir(1.5);
    assert_eq!((list(&second), gauges(&second)), before);
    second.cache.ban_text("obj.status == 1").unwrap();
    let newest = |kit: &Kit| list(kit)[0].split("0x").nth(1).unwrap().to_owned();
    assert_eq!(newest(&second), "6   obj.status == 1", "{:?}", list(&second));
    drop(reader);
}

#[test]
fn what_left_the_list_does_not_come_back() {
    let legacy = Legacy::new();
    let first = legacy.heir(0.0);
    first.cache.ban_text("obj.status == 1").unwrap();
    first.cache.ban_text("obj.status == 2").unwrap();
    first.pass(10.0);
    lurk(&first);
    assert_eq!(list(&first).len(), 1);
    assert_eq!(list(&legacy.heir(10.0)), list(&first));
}

#[test]
fn numbers_of_purges_go_on_and_those_that_are_done_are_not_repeated() {
    let legacy = Legacy::new();
    let first = legacy.heir(0.0);
    first.cache.purge(&digest("/x"), first.now(), Purge::HARD);
    let soft = Purge { ttl: Some(0.0), ..Purge::default() };
    first.cache.purge(&digest("/x"), first.now(), soft);
    let mut keys = first.cache.purge_tags([&b"a"[..], b"b"].into_iter(), first.now(), true);
    while keys.step().is_none() {}
    let second = legacy.heir(0.0);
    assert_eq!(second.cache.shared().bans.seq(), first.cache.shared().bans.seq());
    second.cache.shared().bans.log.with_purges(|purges| assert_eq!(purges.open().len(), 0));
}

#[test]
fn how_far_a_fleets_log_was_followed_outlives_a_worker_and_a_journal_begun_anew() {
    let legacy = Legacy::new();
    let first = legacy.heir(0.0);
    assert_eq!(first.cache.followed(), None);
    let place = |seq| Followed { epoch: b"e".to_vec(), seq, mark: Some(7) };
    first.cache.set_followed(place(1));
    first.cache.set_followed(place(2));
    let second = legacy.heir(0.0);
    assert_eq!(second.cache.followed(), Some(place(2)));
    second.cache.shared().begin_journal_anew();
    assert_eq!(legacy.heir(0.0).cache.followed(), Some(place(2)));
}

#[test]
fn held_entries_of_a_fleets_log_outlive_a_worker_and_a_journal_begun_anew() {
    let legacy = Legacy::new();
    let first = legacy.heir(0.0);
    let held =
        |id: &str, seq, text: &[u8]| JournalHeld { seq, mark: 7, since: 5.5, id: id.to_owned(), bytes: text.into() };
    [held("a", 0, b"1"), held("b", 2, b"2"), held("c", 3, b"3"), held("a", 1, b"1"), held("c", 0, b"")]
        .into_iter()
        .for_each(|entry| first.cache.hold(entry));
    let second = legacy.heir(0.0);
    assert_eq!(second.cache.held(), [held("a", 1, b"1"), held("b", 2, b"2")]);
    second.cache.shared().begin_journal_anew();
    assert_eq!(legacy.heir(0.0).cache.held(), [held("a", 1, b"1"), held("b", 2, b"2")]);
}

#[test]
fn a_purge_that_was_under_way_is_carried_out() {
    let legacy = Legacy::new();
    let first = legacy.heir(0.0);
    let log = &first.cache.shared().bans.log;
    log.begin(7, || crate::journal::purge(7, &digest("/x"), 1000.0, &Purge::HARD));
    log.begin(8, || crate::journal::tag_purge(8, b"key", None));
    first.cache.ban_text("obj.status == 1").unwrap();
    let second = legacy.heir(0.0);
    second.put("/x", 100.0, b"as if it had been there");
    assert_eq!(second.verdict("/x"), "hit");
    second.cache.redo_purges(true);
    second.cache.shared().bans.log.with_purges(|purges| assert_eq!(purges.open().keys().collect::<Vec<_>>(), [&8]));
    second.cache.redo_purges(false);
    assert_eq!(second.verdict("/x"), "miss");
    second.cache.shared().bans.log.with_purges(|purges| assert_eq!(purges.open().len(), 0));
}

/// A cache with journal and arena. A copy of both is what a killed worker leaves.
struct Worker {
    kit: Kit,
    legacy: Legacy,
    arena: Arc<File>,
}

impl Worker {
    fn begin(clock: base::Clock, legacy: Legacy, arena: Arc<File>) -> Worker {
        let mut specs = storage::StoreSpec::in_memory(Some(8 << 20));
        specs[0].arena = Some(arena.clone());
        let kit = Kit::at(clock, &specs, CacheParams::default());
        let (journal, entries) = legacy.entries();
        kit.cache.replay(journal, Replay::read(&entries, LIFE).unwrap());
        kit.cache.adopt_survivors();
        Worker { kit, legacy, arena }
    }

    fn next(&self) -> Worker {
        Worker::begin(self.kit.clock.clone(), Legacy(copy(&self.legacy.0)), copy_arena(&self.arena))
    }

    fn put(&self, url: &str, key: &[u8]) {
        let mut busy = busy_of(self.kit.look(url));
        busy.set_tags(vec![key.into()]);
        self.kit.fill(busy, &TestReq::new(url), None, self.kit.attrs(100.0, 50.0, 0.0, ObjectFlags::NONE), b"x");
    }

    fn purge(&self, key: &[u8], is_soft: bool) {
        let mut purge = self.kit.cache.purge_tags([key].into_iter(), self.kit.now(), is_soft);
        while purge.step().is_none() {}
    }

    fn open(&self) -> usize {
        self.kit.cache.shared().bans.log.with_purges(|purges| purges.open().len())
    }
}

fn copy(file: &File) -> File {
    let copy = sys::fd::memfd("copy").unwrap();
    std::os::unix::fs::FileExt::write_all_at(&copy, &bytes(file), 0).unwrap();
    copy
}

#[test]
fn a_purge_by_key_before_all_survivors_came_counts_for_the_next_worker_too() {
    let clock = base::Clock::manual();
    clock.advance(Duration::from_secs(1000));
    let first = Worker::begin(clock, Legacy::new(), unnamed());
    first.kit.cache.enable_tags(Box::leak(Box::default()));
    for (url, key) in [("/hard", "hard"), ("/soft", "soft"), ("/other", "other")] {
        first.put(url, key.as_bytes());
    }
    first.kit.pass(10.0);
    // None of them has come yet.
    let second = first.next();
    second.kit.cache.enable_tags(Box::leak(Box::default()));
    second.purge(b"hard", false);
    second.purge(b"soft", true);
    assert_eq!(second.open(), 2);
    second.put("/new", b"hard");
    second.kit.pass(10.0);
    let third = second.next();
    assert_eq!(
        ["/hard", "/soft", "/other", "/new"].map(|url| third.kit.verdict(url)),
        ["miss", "grace+fetch", "hit", "hit"]
    );
    assert_eq!(third.open(), 2);
    while third.kit.cache.adopt_some(1, &mut |_| {}) {}
    assert_eq!(third.open(), 0);
    // They bear their keys still, though no VCL has asked for keys yet.
    third.purge(b"other", false);
    assert_eq!(third.kit.verdict("/other"), "miss");
    assert_eq!(third.next().kit.verdict("/other"), "miss");
}

#[test]
fn what_a_spread_ban_gave_survives_and_the_next_worker_gives_the_rest() {
    const URLS: std::ops::Range<usize> = 0..40;
    let clock = base::Clock::manual();
    clock.advance(Duration::from_secs(1000));
    let first = Worker::begin(clock, Legacy::new(), unnamed());
    first.kit.cache.enable_tags(Box::leak(Box::default()));
    URLS.for_each(|n| first.put(&format!("/{n}"), b"k"));
    let stale = |worker: &Worker| -> Vec<bool> {
        URLS.map(|n| worker.kit.verdict(&format!("/{n}")) == "grace+fetch").collect()
    };
    first.kit.cache.ban_text("over=40s obj.tag == k").unwrap();
    // The objects that were looked up have their moments when the worker dies.
    URLS.take(20).for_each(|n| assert_eq!(first.kit.verdict(&format!("/{n}")), "hit"));
    let second = first.next();
    second.kit.pass(20.0);
    let turned = stale(&second);
    assert!((10..30).contains(&turned.iter().filter(|turned| **turned).count()), "{turned:?}");
    let [row] = &second.kit.cache.spreads()[..] else { panic!("it goes on") };
    assert!((15..=25).contains(&row.matched), "{row:?}");
    assert_eq!(second.kit.cache.cancel_spread(row.id + 1), None);
    let third = second.next();
    assert_eq!(stale(&third), turned);
    third.kit.pass(20.0);
    let left: Vec<_> =
        URLS.map(|n| third.kit.verdict(&format!("/{n}"))).filter(|verdict| *verdict != "grace+fetch").collect();
    assert_eq!(left, [""; 0], "{:?}", third.kit.cache.spreads());
    second.kit.cache.cancel_spread(row.id).unwrap();
    assert_eq!(second.next().kit.cache.spreads(), []);
}

#[test]
fn a_ban_counts_for_survivors_and_one_they_were_tested_against_does_not_again() {
    let clock = base::Clock::manual();
    clock.advance(Duration::from_secs(1000));
    let first = Worker::begin(clock, Legacy::new(), unnamed());
    for url in ["/a", "/b", "/c"] {
        first.kit.put(url, 100.0, b"x");
    }
    first.kit.cache.ban_text("req.url == /a").unwrap();
    first.kit.cache.ban_text("obj.age > 5s").unwrap();
    assert_eq!(first.kit.verdict("/c"), "hit");
    first.kit.pass(20.0);
    let second = first.next();
    lurk(&second.kit);
    assert_eq!(list(&second.kit), list(&first.kit));
    assert_eq!(["/a", "/b", "/c"].map(|url| second.kit.verdict(url)), ["miss", "hit", "hit"]);
    second.kit.cache.ban_text("req.url == /b").unwrap();
    let third = second.next();
    while third.kit.cache.adopt_some(1, &mut |_| {}) {}
    assert_eq!(["/a", "/b", "/c"].map(|url| third.kit.verdict(url)), ["miss", "miss", "hit"]);
}

#[test]
fn a_life_without_end_is_kept_as_a_very_long_one() {
    let legacy = Legacy::new();
    let first = legacy.heir(0.0);
    let purge = Purge { ttl: Some(f64::INFINITY), grace: Some(f64::NAN), keep: None };
    first.cache.purge(&digest("/x"), first.now(), purge);
    assert!(
        legacy.entries().1.iter().any(|entry| matches!(entry, JournalEntry::Purge(kept) if kept.ttl == Some(f64::MAX)))
    );
}

#[test]
fn a_long_journal_is_written_anew() {
    let legacy = Legacy::new();
    let first = legacy.heir(0.0);
    for n in 0..20_000 {
        first.cache.ban_text(&format!("obj.status == {n}")).unwrap();
        if n % 100 == 0 {
            first.pass(10.0);
            lurk(&first);
        }
    }
    assert!(legacy.entries().1.len() < 20_000);
    assert_eq!(list(&legacy.heir(2000.0)), list(&first));
}

#[test]
fn a_pattern_is_compiled_when_it_is_needed_and_one_that_cannot_be_hits_all() {
    let legacy = Legacy::new();
    let first = legacy.heir(0.0);
    first.cache.ban_text("obj.http.x-tag ~ red").unwrap();
    first.cache.ban_text("obj.http.x-tag !~ red").unwrap();
    let (journal, mut entries) = legacy.entries();
    for entry in &mut entries {
        if let JournalEntry::Ban(ban) = entry {
            let text = String::from_utf8_lossy(&ban.spec).replace("red", "r(d");
            ban.spec = text.into_bytes();
        }
    }
    let heir = Kit::new();
    heir.cache.replay(journal, Replay::read(&entries, LIFE).unwrap());
    assert!(list(&heir)[0].ends_with("obj.http.x-tag !~ r(d"), "{:?}", list(&heir));
}

#[test]
fn a_machine_that_was_started_again_translates_the_times() {
    let life = |number, boot, epoch| JournalLife { number, boot, epoch };
    let ban = |seq, mono| JournalEntry::Ban(storage::journal::JournalBan { seq, mono, ..Default::default() });
    let purge = |seq, at| JournalEntry::Purge(storage::journal::JournalPurge { seq, at, ..Default::default() });
    let soft = |seq, soft| JournalEntry::TagPurge(storage::journal::JournalTagPurge { seq, key: b"k".to_vec(), soft });
    let lives = [1e9 - 5.0, 1e9].map(|epoch| JournalEntry::Life(life(1, 7 + u64::from(epoch < 1e9), epoch)));
    let entries = [ban(1, 50.0), purge(2, 60.0), soft(3, Some(70.0)), soft(4, None)];
    let entries = [&lives[..], &entries].concat();
    let (kit, legacy) = (Kit::new(), Legacy::new());
    let now = life(2, 8, 1e9 + 1000.0);
    kit.cache.replay(legacy.entries().0, Replay::read(&entries, now).unwrap());
    let of_before = [ban(1, -950.0), purge(2, -940.0), soft(3, Some(-930.0)), soft(4, None)];
    assert!(legacy.entries().1.ends_with(&of_before), "{:?}", legacy.entries().1);
}

#[test]
fn a_store_is_known_by_the_numbers_of_lives_until_all_stores_have_the_last() {
    let life = |number| JournalLife { number, ..JournalLife::default() };
    let written = |number| JournalEntry::Life(life(number));
    let known = |entries: &[JournalEntry], number| {
        let replay = Replay::read(entries, life(number)).unwrap();
        assert!(replay.known().contains(&replay.number()));
        (replay.number(), replay.known())
    };
    assert_eq!(known(&[], 1), (1, vec![1]));
    assert_eq!(known(&[written(1), JournalEntry::Bound], 2), (2, vec![1, 2]));
    let unbound = [JournalEntry::Known { number: 1 }, written(2)];
    assert_eq!(known(&unbound, 3), (3, vec![1, 2, 3]), "some store may have the first one, some the second");
    assert_eq!(known(&[&unbound[..], &[JournalEntry::Bound]].concat(), 3), (3, vec![2, 3]));
    assert_eq!(known(&[written(1), written(2)], 3), (3, vec![1, 2, 3]));
    let many: Vec<JournalEntry> = (1..100).map(written).collect();
    assert_eq!(known(&many, 100), (17, (1..18).collect()));
    assert_eq!(
        known(&[written(1), JournalEntry::Bound, written(2)], 3),
        (3, vec![1, 2, 3]),
        "its stores may have been opened"
    );
}

#[test]
fn what_is_no_ban_is_not_replayed() {
    let ban = |seq, spec: &[u8]| {
        JournalEntry::Ban(storage::journal::JournalBan {
            seq,
            spec: spec.to_vec(),
            ..storage::journal::JournalBan::default()
        })
    };
    assert!(Replay::read(&[ban(3, b""), ban(4, b"")], JournalLife::default()).is_some());
    assert!(Replay::read(&[ban(3, b"junk")], JournalLife::default()).is_none());
    assert!(Replay::read(&[ban(3, b""), ban(3, b"")], JournalLife::default()).is_none(), "numbers only rise");
}

#[derive(Clone, Debug)]
enum Step {
    Ban(u8),
    Fetch,
    Give,
    Look(u8),
    Lurk,
    Purge(u8),
    Pass(u8),
}

proptest! {
    #[test]
    fn a_death_at_any_time_leaves_the_list(
        steps in prop::collection::vec(
            prop_oneof![
                (0u8..5).prop_map(Step::Ban),
                Just(Step::Fetch),
                Just(Step::Give),
                (0u8..4).prop_map(Step::Look),
                Just(Step::Lurk),
                (0u8..4).prop_map(Step::Purge),
                (0u8..5).prop_map(Step::Pass),
            ],
            1..40,
        )
    ) {
        const BANS: [&str; 5] =
            ["req.url == /1", "obj.status == 200", "obj.http.x-tag == blue", "obj.age > 3s", "req.url ~ 2 && obj.ttl < 1h"];
        let legacy = Legacy::new();
        let kit = legacy.heir(0.0);
        let mut fetches = Vec::new();
        for step in steps {
            match step {
                Step::Ban(n) => kit.cache.ban_text(BANS[usize::from(n)]).unwrap(),
                Step::Fetch => fetches.extend(match kit.look("/f") {
                    Ok(Found::Miss(busy)) => Some(busy),
                    _ => None,
                }),
                Step::Give => {
                    if let Some(busy) = fetches.pop() {
                        kit.fill(busy, &TestReq::new("/f"), None, kit.attrs(100.0, 0.0, 0.0, ObjectFlags::NONE), b"x");
                    }
                }
                Step::Look(n) => drop(kit.look(&format!("/{n}"))),
                Step::Lurk => lurk(&kit),
                Step::Purge(n) => drop(kit.cache.purge(&digest(&format!("/{n}")), kit.now(), Purge::HARD)),
                Step::Pass(n) => kit.pass(f64::from(n)),
            }
            let passed = kit.now().0 - 1000.0;
            let copy = Legacy(copy(&legacy.0));
            // The done marks may come later.
            let plain = |kit: &Kit| list(kit).iter().map(|line| line.replace(" C", " -")).collect::<Vec<_>>();
            prop_assert_eq!(plain(&copy.heir(passed)), plain(&kit));
        }
    }
}

fn bytes(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, 0).unwrap();
    bytes
}
