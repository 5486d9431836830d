// SPDX-License-Identifier: BSD-2-Clause
//! Objects that outlive their worker. A worker dies by being left as it is while a copy of its arena is opened by the next.

use base::Vxid;
use storage::{HeadLengths, ObjectTimes, Record};
use tables::counters::Xkey;

use super::kit::*;
use super::line::TestLine;
use crate::*;

fn long_body() -> Vec<u8> {
    (0..200_000u32).map(|n| (n % 251) as u8).collect()
}

#[test]
fn what_was_whole_is_served_by_the_next_worker() {
    let line = TestLine::new();
    let flags = ObjectFlags { reuse: Reuse::HitOrRevalidate, is_recoded: true, has_esi: true, ..ObjectFlags::NONE };
    let attrs = line.kit.attrs(100.0, 20.0, 30.0, flags);
    let mut busy = busy_of(line.kit.look("/"));
    let store = line.kit.cache.stores().all()[0].clone();
    busy.set_head(&store, HEAD, None, &attrs, b"aux").unwrap();
    busy.append(b"small").unwrap();
    busy.finish(None).unwrap();
    line.kit.put("/long", 100.0, &long_body());
    line.kit.pass(3.0);
    let line = line.die();
    let obj = hit_of(line.kit.look("/"));
    assert_eq!((obj.head(), obj.aux_attrs(), obj.flags(), obj.store()), (HEAD, &b"aux"[..], flags, 0));
    assert_eq!((obj.xid(), obj.times(), obj.hits()), (attrs.xid, attrs.times, 1));
    assert_eq!(block_on(read_all(&obj)).unwrap(), b"small");
    assert_eq!(block_on(read_all(&hit_of(line.kit.look("/long")))).unwrap(), long_body());
    assert_eq!(line.kit.main.adopted.get(), 2);
}

#[test]
fn the_walk_adopts_what_nobody_asks_for() {
    let line = TestLine::new();
    for n in 0..300 {
        line.kit.put(&format!("/{n}"), 100.0, b"x");
    }
    let line = line.die();
    assert!(line.kit.cache.is_adopting());
    assert_eq!(line.kit.verdict("/7"), "hit");
    line.adopt_all();
    assert_eq!((line.kit.cache.census(), line.kit.main.adopted.get()), ((300, 300, 300), 300));
    assert_eq!((line.kit.main.n_object.get(), line.kit.main.n_objecthead.get()), (300, 300));
    assert_eq!(line.kit.verdict("/299"), "hit");
    // They live as any other does, and survive once more.
    let line = line.die();
    line.adopt_all();
    line.kit.pass(200.0);
    assert_eq!(line.kit.cache.expire(line.kit.now(), 1000, &mut |_| {}), 300);
    assert_eq!((line.kit.cache.census(), line.kit.held()), ((0, 0, 0), 0));
    assert!(!line.die().kit.cache.is_adopting(), "nothing is left to be adopted");
}

#[test]
fn words_that_are_another_workers_by_now_are_left_alone() {
    let line = TestLine::new();
    let attrs = line.kit.attrs(100.0, 20.0, 0.0, ObjectFlags::NONE);
    line.kit.put_as(&TestReq::new("/"), None, attrs, b"body");
    line.kit.cache.stores().all()[0].freeze();
    line.kit.cache.ban_text("obj.http.x == nothing").unwrap();
    let ban = line.kit.cache.shared().bans.seq();
    let obj = hit_of(line.kit.look("/"));
    assert_eq!(obj.objcore().ban_seq.get(), ban, "it was tested here");
    let next = line.successor();
    let survivor = next.kit.cache.stores().all()[0].survivors(&digest("/").0).remove(0);
    assert!(survivor.record.ban_seq < ban);
    let soft = Purge { ttl: Some(0.0), ..Purge::default() };
    assert_eq!(line.kit.cache.purge(&digest("/"), line.kit.now(), soft), 1);
    assert_eq!(obj.times(), attrs.times);
    assert_eq!(line.kit.verdict("/"), "miss", "what can't be told how long it lives is gone");
}

#[test]
fn what_was_not_whole_is_gone() {
    let line = TestLine::new();
    let mut busy = busy_of(line.kit.look("/"));
    let store = line.kit.cache.stores().all()[0].clone();
    busy.set_head(&store, HEAD, None, &line.kit.attrs(100.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
    busy.start_stream();
    busy.append(b"half").unwrap();
    let pass = line.kit.cache.private();
    line.kit.fill(pass, &TestReq::new("/pass"), None, line.kit.attrs(0.0, 0.0, 0.0, ObjectFlags::NONE), b"x");
    line.kit.put("/zero", 0.0, b"x");
    let next = line.dead();
    assert!(!next.kit.cache.adopt_survivors());
    assert_eq!(next.verdicts(["/", "/zero"]), ["miss", "miss"]);
    drop(busy);
}

#[test]
fn what_left_the_cache_does_not_come_back() {
    let line = TestLine::new();
    for url in ["/purged", "/banned", "/killed", "/replaced", "/stays", "/unseen"] {
        line.kit.put(url, 100.0, b"x");
    }
    line.kit.put("/short", 5.0, b"x");
    line.kit.cache.purge(&digest("/purged"), line.kit.now(), Purge::HARD);
    line.kit.cache.ban_text("req.url == /banned").unwrap();
    assert_eq!(line.verdicts(["/banned", "/stays"]), ["miss", "hit"]);
    line.kit.cache.ban_text("req.url == /unseen").unwrap();
    line.kit.cache.kill(&hit_of(line.kit.look("/killed")));
    line.kit.put("/replaced", 100.0, b"new");
    line.kit.pass(10.0);
    let line = line.die();
    let urls = ["/purged", "/banned", "/killed", "/stays", "/unseen", "/short"];
    assert_eq!(line.verdicts(urls), ["miss", "miss", "miss", "hit", "miss", "miss"]);
    assert_eq!(block_on(read_all(&hit_of(line.kit.look("/replaced")))).unwrap(), b"new");
    assert_eq!(line.kit.main.n_expired.get(), 1);
}

#[test]
fn an_invalidation_during_the_fetch_counts_for_the_next_worker() {
    let line = TestLine::new();
    line.kit.cache.enable_tags(Box::leak(Box::<Xkey>::default()));
    let begin = |url: &str| busy_of(line.kit.look(url));
    let (mut a, mut b, mut c) = (begin("/purged"), begin("/banned"), begin("/streaming"));
    let store = line.kit.cache.stores().all()[0].clone();
    for busy in [&mut a, &mut b, &mut c] {
        busy.set_head(&store, HEAD, None, &line.kit.attrs(100.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
    }
    c.start_stream();
    let soft = Purge { ttl: Some(0.0), ..Purge::default() };
    line.kit.cache.purge(&digest("/purged"), line.kit.now(), Purge::HARD);
    line.kit.cache.purge(&digest("/streaming"), line.kit.now(), Purge::HARD);
    line.kit.cache.ban_text("req.url == /banned").unwrap();
    for busy in [a, b, c] {
        busy.finish(None).unwrap();
    }
    let mut busy = begin("/soft");
    busy.set_head(&store, HEAD, None, &line.kit.attrs(100.0, 50.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
    line.kit.cache.purge(&digest("/soft"), line.kit.now(), soft);
    busy.finish(None).unwrap();
    line.kit.pass(1.0);
    let line = line.die();
    let urls = ["/purged", "/banned", "/streaming", "/soft"];
    assert_eq!(line.verdicts(urls), ["miss", "miss", "miss", "grace+fetch"]);
}

#[test]
fn shortened_lives_stay_short() {
    let line = TestLine::new();
    for url in ["/soft", "/rearmed"] {
        line.kit.put_as(&TestReq::new(url), None, line.kit.attrs(100.0, 50.0, 0.0, ObjectFlags::NONE), b"x");
    }
    line.kit.cache.purge(&digest("/soft"), line.kit.now(), Purge { ttl: Some(0.0), ..Purge::default() });
    let obj = hit_of(line.kit.look("/rearmed"));
    line.kit.cache.rearm(&obj, line.kit.now(), Purge { ttl: Some(7.0), grace: Some(1.0), keep: None });
    let times = obj.times();
    line.kit.pass(1.0);
    let line = line.die();
    assert_eq!(line.verdicts(["/soft", "/rearmed"]), ["grace+fetch", "hit"]);
    assert_eq!(hit_of(line.kit.look("/rearmed")).times(), times);
}

#[test]
fn a_purge_finds_what_nobody_has_touched() {
    let line = TestLine::new();
    line.kit.put("/a", 100.0, b"x");
    line.kit.put("/b", 100.0, b"x");
    let line = line.die();
    assert_eq!(line.kit.cache.purge(&digest("/a"), line.kit.now(), Purge::HARD), 1);
    assert_eq!(line.verdicts(["/a", "/b"]), ["miss", "hit"]);
    line.adopt_all();
    assert_eq!(line.verdicts(["/a", "/b"]), ["miss", "hit"]);
    assert_eq!(line.die().verdicts(["/a", "/b"]), ["miss", "hit"]);
}

#[test]
fn bans_wait_for_those_that_come_late() {
    let params = CacheParams { ban_lurker_age: 1.0, ..CacheParams::default() };
    let line = TestLine::with(Some(8 << 20), params);
    line.kit.put("/a", 1000.0, b"x");
    line.kit.put("/b", 1000.0, b"x");
    let line = line.die();
    line.kit.cache.ban_text("obj.http.x-tag == red").unwrap();
    line.kit.pass(10.0);
    let lurk = |line: &TestLine| while line.kit.cache.lurk(line.kit.now(), &mut |_| {}) < 1.0 {};
    lurk(&line);
    assert_eq!(line.kit.main.bans.get(), 2, "no ban leaves the list");
    assert_eq!(line.kit.verdict("/a"), "miss");
    line.kit.cache.ban_text("req.url == /c").unwrap();
    line.adopt_all();
    assert_eq!(line.kit.verdict("/b"), "miss");
    line.kit.cache.expire(line.kit.now(), 10, &mut |_| {});
    lurk(&line);
    assert_eq!(line.kit.main.bans.get(), 1, "now they leave");
}

#[test]
fn an_object_that_stands_beyond_the_list_is_not_taken_over() {
    let line = TestLine::new();
    line.kit.put("/old", 100.0, b"x");
    line.kit.cache.ban_text("req.url == /x").unwrap();
    line.kit.put("/new", 100.0, b"x");
    // The next one knows nothing of the bans.
    let mut line = line.dead();
    line.kit = Kit::at(line.kit.clock.clone(), &line.specs(), CacheParams::default());
    line.kit.cache.adopt_survivors();
    assert_eq!(line.kit.verdict("/new"), "miss");
    assert_eq!((line.kit.main.adopted.get(), line.kit.main.adopt_refused.get()), (0, 1));
}

fn tagged(line: &TestLine, url: &str, keys: &str) {
    let mut busy = busy_of(line.kit.look(url));
    busy.set_tags(keys.split(' ').map(|key| key.as_bytes().into()).collect());
    line.kit.fill(busy, &TestReq::new(url), None, line.kit.attrs(100.0, 50.0, 0.0, ObjectFlags::NONE), b"x");
}

fn purge_tag(line: &TestLine, key: &str, soft: bool) -> usize {
    let mut purge = line.kit.cache.purge_tags([key.as_bytes()].into_iter(), line.kit.now(), soft);
    loop {
        if let Some(count) = purge.step() {
            return count;
        }
    }
}

#[test]
fn a_purge_by_prefix_waits_for_survivors() {
    let line = TestLine::new();
    line.kit.cache.enable_tags(Box::leak(Box::default()));
    for url in ["/a/1", "/b/1"] {
        let mut busy = busy_of(line.kit.look(url));
        busy.set_tags(vec![message::tags::of_url(b"h", url.as_bytes()).into()]);
        line.kit.fill(busy, &TestReq::new(url), None, line.kit.attrs(100.0, 0.0, 0.0, ObjectFlags::NONE), b"x");
    }
    let line = line.dead();
    line.kit.cache.hold_tag_purge(&message::tags::of_prefix(b"h", b"/a/"), None, 2);
    line.kit.cache.adopt_survivors();
    assert_eq!((line.kit.verdict("/a/1"), line.kit.verdict("/b/1")), ("miss", "hit"));
}

#[test]
fn a_purge_waits_for_the_survivors_of_its_family() {
    let line = TestLine::new();
    for (url, family) in [("/1", "/a"), ("/2", "/a"), ("/3", "/b")] {
        let mut busy = busy_of(line.kit.look(url));
        busy.join_family(&digest(family));
        line.kit.fill(busy, &TestReq::new(url), None, line.kit.attrs(100.0, 0.0, 0.0, ObjectFlags::NONE), b"x");
    }
    let line = line.dead();
    line.kit.cache.adopt_survivors();
    line.kit.cache.purge(&digest("/a"), line.kit.now(), Purge::HARD);
    assert_eq!(line.verdicts(["/1", "/2", "/3"]), ["miss", "miss", "hit"]);
    // An adopted member turns families on.
    assert_eq!(line.kit.cache.purge(&digest("/b"), line.kit.now(), Purge::HARD), 1);
    assert_eq!(line.verdicts(["/3"]), ["miss"]);
}

#[test]
fn keys_survive_and_purges_by_key_wait() {
    let xkey = || Box::leak(Box::<Xkey>::default()) as &'static Xkey;
    let line = TestLine::new();
    line.kit.cache.enable_tags(xkey());
    let keys = [("/a", "all a"), ("/b", "all b"), ("/c", "all c b"), ("/d", "all"), ("/f", "f")];
    for (url, keys) in keys {
        tagged(&line, url, keys);
    }
    // As if this purge by its digest had been one by both keys that wasn't done when the worker died.
    line.kit.cache.purge(&digest("/x"), line.kit.now(), Purge::HARD);
    tagged(&line, "/e", "e");
    line.kit.pass(1.0);
    let line = line.dead();
    line.kit.cache.enable_tags(xkey());
    line.kit.cache.hold_tag_purge(b"f", None, 2);
    line.kit.cache.hold_tag_purge(b"e", None, 2);
    line.kit.cache.adopt_survivors();
    assert_eq!(line.kit.verdict("/a"), "hit");
    assert_eq!(purge_tag(&line, "a", false), 1, "what was adopted has its keys");
    assert_eq!(purge_tag(&line, "b", true), 0, "nothing is here yet");
    line.kit.pass(1.0);
    assert_eq!(purge_tag(&line, "b", true), 0);
    assert_eq!(purge_tag(&line, "c", false), 0);
    // What is fetched now is newer than these purges.
    tagged(&line, "/new", "b c");
    line.adopt_all();
    let urls = ["/a", "/b", "/c", "/d", "/e", "/f", "/new"];
    let want = ["miss", "grace+fetch", "miss", "hit", "hit", "miss", "hit"];
    assert_eq!(line.verdicts(urls), want);
    let line = line.die();
    line.kit.cache.enable_tags(xkey());
    assert_eq!(line.verdicts(urls), want);
    assert_eq!(purge_tag(&line, "all", false), 2);
    assert_eq!(line.verdicts(["/b", "/d"]), ["miss", "miss"]);
}

#[test]
fn damaged_keys_are_noticed() {
    let keys: Vec<Box<[u8]>> = vec![b"one"[..].into(), b""[..].into(), b"\0two"[..].into()];
    let bytes = crate::tags::encoded(9, keys.iter().map(|key| &key[..]));
    assert_eq!(crate::tags::decoded(&bytes), Some((9, keys)));
    assert_eq!(crate::tags::decoded(b""), Some((0, Vec::new())));
    let whole = [0, 8, 15, 19];
    for end in 0..bytes.len() {
        assert_eq!(crate::tags::decoded(&bytes[..end]).is_some(), whole.contains(&end), "{end}");
    }
    assert_eq!(crate::tags::decoded(&[0xff; 17]), None);
}

#[test]
fn variants_come_back_in_their_order() {
    let line = TestLine::new();
    let req = |lang: &str| TestReq::new("/").field("lang", lang);
    for n in 0..12 {
        line.kit.put_as(
            &req(&format!("l{n}")),
            Some("lang"),
            line.kit.attrs(100.0, 0.0, 0.0, ObjectFlags::NONE),
            b"old",
        );
    }
    line.kit.put_as(&req("l3"), Some("lang"), line.kit.attrs(100.0, 0.0, 0.0, ObjectFlags::NONE), b"new");
    let body = |line: &TestLine, lang: &str| block_on(read_all(&hit_of(line.kit.look_as(&req(lang))))).unwrap();
    let line = line.die();
    assert_eq!((body(&line, "l3"), body(&line, "l11")), (b"new".to_vec(), b"old".to_vec()));
    // A forced miss is newer than all of them.
    let line = line.die();
    line.kit.put_as(&req("l5"), Some("lang"), line.kit.attrs(100.0, 0.0, 0.0, ObjectFlags::NONE), b"forced");
    line.adopt_all();
    assert_eq!((body(&line, "l5"), body(&line, "l4")), (b"forced".to_vec(), b"old".to_vec()));
    assert_eq!(line.kit.cache.peek(&digest("/"), &req("l5"), line.kit.now()).count, 14);
}

#[test]
fn a_note_that_something_is_uncacheable_survives() {
    let line = TestLine::new();
    let attrs = line.kit.attrs(100.0, 0.0, 0.0, ObjectFlags::HIT_FOR_PASS);
    line.kit.put_as(&TestReq::new("/pass"), None, attrs, b"body");
    line.kit.put_as(&TestReq::new("/miss"), None, line.kit.attrs(100.0, 0.0, 0.0, ObjectFlags::HIT_FOR_MISS), b"");
    assert_eq!(line.die().verdicts(["/pass", "/miss"]), ["hit-for-pass", "hit-for-miss"]);
}

#[test]
fn what_cannot_be_judged_is_disowned() {
    let line = TestLine::new();
    line.kit.put("/a", 100.0, b"x");
    line.kit.put("/b", 100.0, &long_body());
    let line = line.dead();
    line.kit.cache.disown_survivors();
    assert_eq!((line.verdicts(["/a", "/b"]), line.kit.cache.is_adopting()), (["miss", "miss"], false));
    assert_eq!(line.kit.held(), 0);
    assert!(!line.die().kit.cache.is_adopting());
}

#[test]
fn a_record_that_says_what_cannot_be_is_forgotten() {
    let line = TestLine::new();
    let now = line.kit.now();
    let times = ObjectTimes { t_origin: now, ttl: 100.0, grace: 0.0, keep: 0.0 };
    let lengths = HeadLengths { head: 4, ..HeadLengths::default() };
    let good = Record { digest: digest("/").0, xid: 7, ban_seq: 1, times, lengths, ..Record::default() };
    let store = line.kit.cache.stores().all()[0].clone();
    let bad = [
        Record { flags: 0x80, ..good },
        Record { flags: 1 << 2, ..good },
        Record { times: ObjectTimes { ttl: f64::NAN, ..times }, ..good },
        Record { times: ObjectTimes { grace: f64::INFINITY, ..times }, ..good },
        Record { times: ObjectTimes { t_origin: now.plus(1000.0), ..times }, ..good },
        Record { ban_seq: 2, ..good },
        Record { ban_seq: 0, ..good },
        Record { times: ObjectTimes { ttl: -1.0, ..times }, ..good },
    ];
    let keep = |record: &Record, tags: &[u8]| {
        let head = store.block(&[b"head"]).unwrap();
        let (compact, id) = store.keep(record, head, tags, &storage::BodyBlocks::default());
        store.publish(id.unwrap());
        compact
    };
    let mut held: Vec<_> = bad.iter().map(|record| keep(record, b"")).collect();
    held.push(keep(&good, b"\x01\x02"));
    let line = line.die();
    assert_eq!(line.kit.verdict("/"), "miss");
    line.adopt_all();
    assert_eq!((line.kit.main.adopted.get(), line.kit.main.adopt_refused.get()), (0, held.len() as u64 - 2));
    // (A store gives out none with times that are no numbers.)
    assert_eq!((line.kit.held(), line.kit.cache.census()), (0, (0, 0, 0)));
    keep(&good, b"");
}

#[test]
fn a_store_full_of_survivors_makes_room() {
    let line = TestLine::with(Some(256 << 10), CacheParams::default());
    for n in 0..40 {
        line.kit.put(&format!("/{n}"), 100.0, &[7; 10_000]);
    }
    let line = line.die();
    line.kit.put("/new", 100.0, &[8; 10_000]);
    line.kit.put("/newer", 100.0, &[8; 10_000]);
    assert_eq!(line.kit.verdict("/newer"), "hit");
    line.adopt_all();
    let store = &line.kit.cache.stores().all()[0];
    assert!(store.used_bytes() <= 256 << 10);
}

#[test]
fn what_was_asked_for_often_stays_with_the_next_worker() {
    let line = TestLine::with(Some(256 << 10), CacheParams::default());
    line.kit.put("/often", 1000.0, &[7; 4000]);
    for n in 0..200 {
        line.kit.put(&format!("/{n}"), 1000.0, &[7; 4000]);
        assert_eq!(line.kit.verdict("/often"), "hit");
    }
    let line = line.die();
    line.adopt_all();
    for n in 200..250 {
        line.kit.put(&format!("/{n}"), 1000.0, &[7; 4000]);
    }
    let obj = hit_of(line.kit.look("/often"));
    assert!(obj.hits() > 50 && obj.xid() == Vxid(1), "{}", obj.hits());
}
