// SPDX-License-Identifier: BSD-2-Clause
//! Stores with a home: what is evicted from memory is read back, late, or not at all.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use storage::{Buf, StoreError, StoreSpec};
use tables::counters::Xkey;
use testkit_storage::SimulatedHome;

use super::kit::*;
use crate::*;

fn specs(home: &SimulatedHome) -> Vec<StoreSpec> {
    let mut specs = StoreSpec::in_memory(Some(1 << 20));
    specs[0].home = Some(Arc::new(home.clone()));
    specs
}

fn kit() -> (Kit, SimulatedHome) {
    let home = SimulatedHome::new();
    (Kit::of(&specs(&home), CacheParams::default()), home)
}

/// A worker that begins with the same home, and knows the bans and purges by key of the one before.
fn next_worker(kit: &Kit, home: &SimulatedHome) -> Kit {
    let next = Kit::at(kit.clock.clone(), &specs(home), CacheParams::default());
    next.go_on_from(kit);
    next.cache.shared().bans.take_over(&kit.cache.shared().bans);
    next
}

#[test]
fn a_spread_ban_means_what_is_only_in_a_home_too() {
    let (kit, _home) = kit();
    let put = |url| kit.put_as(&TestReq::new(url), None, kit.attrs(100.0, 50.0, 0.0, ObjectFlags::NONE), b"x");
    ["/early", "/late"].into_iter().for_each(put);
    kit.evict_all();
    kit.cache.ban_text("over=10s obj.status == 200").unwrap();
    assert_eq!(verdict(&kit, "/early"), "hit");
    kit.pass(11.0);
    assert_eq!(["/early", "/late"].map(|url| verdict(&kit, url)), ["grace+fetch"; 2]);
}

#[test]
fn old_copies_in_a_home_do_not_keep_a_spread_ban_from_ending() {
    let (kit, home) = kit();
    let lurk = || while kit.cache.lurk(kit.now(), &mut |_| {}) < 0.5 {};
    kit.put_as(&TestReq::new("/"), None, kit.attrs(100.0, 50.0, 0.0, ObjectFlags::NONE), b"x");
    kit.evict_all();
    kit.cache.ban_text("over=10s obj.status == 200").unwrap();
    lurk();
    assert_eq!((kit.cache.spreads().len(), home.copies()), (1, 1));
    kit.pass(11.0);
    lurk();
    assert_eq!((kit.cache.spreads(), kit.main.bans_spread.get()), (Vec::new(), 0));
    assert_eq!(verdict(&kit, "/"), "grace+fetch");
}

#[test]
fn a_copy_that_a_spread_ban_means_is_kept_and_gets_its_moment_when_it_is_read() {
    let (kit, home) = kit();
    kit.put_as(&TestReq::new("/"), None, kit.attrs(100.0, 50.0, 0.0, ObjectFlags::NONE), b"x");
    kit.evict_all();
    kit.cache.ban_text("rate=1/s obj.status == 200").unwrap();
    kit.pass(5.0);
    home.move_all();
    assert_eq!(home.copies(), 1);
    assert_eq!(verdict(&kit, "/"), "grace+fetch");
}

fn next(reader: &mut BodyReader, bell: &Arc<TestBell>) -> Poll<Result<Option<Buf>, BodyReadError>> {
    reader.poll_next(&mut Context::from_waker(&Waker::from(bell.clone())))
}

fn body() -> Vec<u8> {
    (0..2500u32).map(|n| n as u8).collect()
}

fn reading(looked: Looked) -> Box<Waiting> {
    waiting_for(Awaits::Home, looked)
}

/// The result of a lookup whose loads are all ready at once.
fn found(kit: &Kit, req: &TestReq) -> Looked {
    kit.load(kit.look_as(req), req)
}

fn verdict(kit: &Kit, url: &str) -> &'static str {
    word(&found(kit, &TestReq::new(url)))
}

fn bytes_of(obj: &ObjRef) -> Vec<u8> {
    block_on(read_all(obj)).unwrap()
}

fn read_late(reader: &mut BodyReader, home: &SimulatedHome) -> Result<Vec<u8>, BodyReadError> {
    let (bell, mut out) = (Arc::new(TestBell::default()), Vec::new());
    loop {
        match next(reader, &bell) {
            Poll::Ready(Ok(Some(buf))) => out.extend_from_slice(&buf),
            Poll::Ready(Ok(None)) => return Ok(out),
            Poll::Ready(Err(error)) => return Err(error),
            Poll::Pending => assert_eq!(home.serve(Ok(())), 1),
        }
    }
}

/// A hit on an object with a long body whose head was read back and whose body wasn't.
fn long_hit(kit: &Kit, home: &SimulatedHome) -> ObjRef {
    kit.put("/", 10.0, &body());
    kit.evict_all();
    let obj = hit_of(found(kit, &TestReq::new("/")));
    home.hold(true);
    obj
}

#[test]
fn what_was_evicted_is_read_back_as_it_was() {
    let (kit, home) = kit();
    let attrs = kit.attrs(100.0, 20.0, 30.0, ObjectFlags { is_recoded: true, ..ObjectFlags::NONE });
    let mut busy = busy_of(kit.look("/"));
    let store = kit.cache.stores().all()[0].clone();
    busy.set_head(&store, HEAD, None, &attrs, b"aux").unwrap();
    busy.append(b"small").unwrap();
    busy.finish(None).unwrap();
    assert_eq!((kit.verdict("/"), home.copies(), home.loads()), ("hit", 1, 0), "it is in memory");
    kit.pass(3.0);
    assert_eq!((kit.evict_all(), kit.held(), kit.cache.census().0), (1, 0, 0));
    let obj = hit_of(found(&kit, &TestReq::new("/")));
    assert_eq!((obj.head(), obj.aux_attrs(), obj.flags(), obj.store()), (HEAD, &b"aux"[..], attrs.flags, 0));
    assert_eq!((obj.xid(), obj.times(), bytes_of(&obj)), (attrs.xid, attrs.times, b"small".to_vec()));
    assert_eq!((kit.verdict("/"), home.loads(), home.copies(), home.bodies()), ("hit", 1, 1, 0));
    assert_eq!((kit.main.home_loads.get(), kit.main.home_hit.get()), (1, 1));
    kit.cache.audit().unwrap();
}

#[test]
fn bodies_of_all_lengths_are_read_back() {
    let (kit, home) = kit();
    for len in [0, 1, 1999, 2000, 2001, 20_000, 200_000] {
        let long: Vec<u8> = (0..len).map(|n: u32| (n % 251) as u8).collect();
        kit.put("/", 100.0, &long);
        assert_eq!(kit.evict_all(), 1);
        let obj = hit_of(found(&kit, &TestReq::new("/")));
        assert_eq!((obj.body_len(), bytes_of(&obj)), (Some(u64::from(len)), long), "{len}");
        kit.cache.purge(&digest("/"), kit.now(), Purge::HARD);
        drop(obj);
        assert_eq!((home.copies(), home.bodies(), kit.held()), (0, 0, 0));
    }
}

#[test]
fn a_body_that_comes_late_is_whole() {
    let (kit, home) = kit();
    let obj = long_hit(&kit, &home);
    assert_eq!((obj.head(), obj.body_len(), home.bodies()), (HEAD, Some(2500), 1));
    let (mut reader, bell) = (obj.reader(0), Arc::new(TestBell::default()));
    assert!(next(&mut reader, &bell).is_pending());
    assert!(next(&mut reader, &bell).is_pending(), "asking again doesn't help");
    assert_eq!((home.serve(Ok(())), bell.rings()), (1, 1));
    assert_eq!(next(&mut reader, &bell), Poll::Ready(Ok(Some(Buf::unaccounted(body()[..1000].to_vec())))));
    assert_eq!(read_late(&mut reader, &home).unwrap(), &body()[1000..]);
    reader.seek(2400);
    assert_eq!(read_late(&mut reader, &home).unwrap(), &body()[2400..]);
    drop((reader, obj));
    kit.pass(20.0);
    kit.cache.expire(kit.now(), 10, &mut |_| {});
    assert_eq!((home.bodies(), kit.held()), (0, 0), "nobody holds it any more");
}

#[test]
fn the_home_hears_how_far_a_reader_will_read() {
    let (kit, home) = kit();
    let (mut reader, bell) = (long_hit(&kit, &home).reader(100), Arc::new(TestBell::default()));
    assert!(next(&mut reader, &bell).is_pending());
    assert_eq!(home.wanted(), 100..u64::MAX);
    reader.stop_at(700);
    assert!(next(&mut reader, &bell).is_pending());
    assert_eq!(home.wanted(), 100..700);
}

#[test]
fn each_reader_waits_for_itself() {
    let (kit, home) = kit();
    let obj = long_hit(&kit, &home);
    let (mut one, mut two) = (obj.reader(0), obj.reader(2000));
    let (bell_one, bell_two) = (Arc::new(TestBell::default()), Arc::new(TestBell::default()));
    assert!(next(&mut one, &bell_one).is_pending() && next(&mut two, &bell_two).is_pending());
    assert_eq!(home.waiting(), 2);
    drop(one);
    assert_eq!((home.serve(Ok(())), bell_one.rings(), bell_two.rings()), (1, 0, 1));
    assert_eq!(read_late(&mut two, &home).unwrap(), &body()[2000..]);
}

#[test]
fn an_object_that_its_store_lost_is_a_miss() {
    let (kit, home) = kit();
    let obj = long_hit(&kit, &home);
    let (mut reader, bell) = (obj.reader(0), Arc::new(TestBell::default()));
    assert!(next(&mut reader, &bell).is_pending());
    let lost = StoreError("flipped bit");
    home.serve(Err(lost));
    assert_eq!(next(&mut reader, &bell), Poll::Ready(Err(BodyReadError::Store(lost))));
    assert_eq!(kit.verdict("/"), "hit", "nobody has told the cache");
    kit.cache.lose(&obj);
    assert!(obj.is_dying());
    assert_eq!((kit.verdict("/"), home.copies()), ("miss", 0));
    // A second report of the same object does no harm to what took its place.
    kit.put("/", 10.0, b"");
    kit.cache.lose(&obj);
    assert_eq!((kit.verdict("/"), home.copies()), ("hit", 1));
}

#[test]
fn others_wait_while_an_object_is_read_back() {
    let (kit, home) = kit();
    kit.put("/", 10.0, &body());
    kit.evict_all();
    home.hold(true);
    let (bell, req) = (Arc::new(TestBell::default()), TestReq::new("/"));
    let mut loading = reading(kit.look("/"));
    let mut ticket = parked(kit.look("/"));
    assert!(poll(&mut loading, &bell).is_pending() && poll(&mut ticket, &bell).is_pending());
    assert_eq!((home.serve(Ok(())), bell.rings()), (1, 1));
    assert!(poll(&mut loading, &bell).is_ready() && poll(&mut ticket, &bell).is_pending());
    let obj = hit_of(kit.look_again(loading, &req));
    assert!(poll(&mut ticket, &bell).is_ready());
    let other = hit_of(kit.look_again(ticket, &req));
    home.hold(false);
    assert_eq!((bytes_of(&obj), bytes_of(&other), home.loads()), (body(), body(), 1));
}

#[test]
fn what_cannot_be_read_back_is_fetched_with_the_same_right() {
    for is_late in [false, true] {
        let (kit, home) = kit();
        kit.put("/", 10.0, &body());
        kit.evict_all();
        home.hold(true);
        let (bell, req) = (Arc::new(TestBell::default()), TestReq::new("/"));
        let mut loading = reading(kit.look("/"));
        assert!(poll(&mut loading, &bell).is_pending());
        let mut ticket = parked(kit.look("/"));
        if is_late {
            loading.pending.give_up();
            assert_eq!(home.waiting(), 0);
        } else {
            home.serve(Err(StoreError("EIO")));
        }
        assert!(poll(&mut loading, &bell).is_ready());
        let busy = busy_of(kit.look_again(loading, &req));
        assert!(poll(&mut ticket, &bell).is_pending(), "who waits doesn't notice");
        home.hold(false);
        kit.fill(busy, &req, None, kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), b"fetched");
        assert!(poll(&mut ticket, &bell).is_ready());
        assert_eq!(bytes_of(&hit_of(kit.look_again(ticket, &req))), b"fetched");
        assert_eq!((kit.main.home_late.get(), kit.main.home_fail.get()), (u64::from(is_late), u64::from(!is_late)));
    }
}

#[test]
fn who_gives_up_reading_back_leaves_it_to_the_next() {
    let (kit, home) = kit();
    kit.put("/", 10.0, &body());
    kit.evict_all();
    home.hold(true);
    let (bell, req) = (Arc::new(TestBell::default()), TestReq::new("/"));
    let mut loading = reading(kit.look("/"));
    let (mut one, mut two) = (parked(kit.look("/")), parked(kit.look("/")));
    assert!(poll(&mut loading, &bell).is_pending());
    assert!(poll(&mut one, &bell).is_pending() && poll(&mut two, &bell).is_pending());
    drop(loading);
    assert_eq!((home.waiting(), bell.rings()), (0, 2));
    home.hold(false);
    let loading = reading(kit.look_again(one, &req));
    let ticket = parked(kit.look_again(two, &req));
    let obj = hit_of(kit.load(Err(loading), &req));
    assert_eq!((bytes_of(&obj), bytes_of(&hit_of(kit.look_again(ticket, &req)))), (body(), body()));
    drop(obj);
    kit.pass(100.0);
    kit.cache.expire(kit.now(), 10, &mut |_| {});
    assert_eq!(kit.cache.census(), (0, 0, 0));
}

#[test]
fn variants_are_read_back_until_one_matches() {
    let (kit, home) = kit();
    let req = |value: &str| TestReq::new("/").field("accept", value);
    for value in ["a", "b", "c"] {
        let attrs = kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE);
        kit.put_as(&req(value), Some("accept"), attrs, value.as_bytes());
        kit.pass(0.1);
    }
    kit.evict_all();
    assert_eq!(bytes_of(&hit_of(found(&kit, &req("b")))), b"b");
    assert_eq!((home.loads(), kit.cache.census().0), (2, 2), "the newest was looked at first");
    assert_eq!(kit.verdict_as(&req("c")), "hit");
    assert_eq!(word(&found(&kit, &req("d"))), "miss");
    assert_eq!((home.loads(), kit.cache.census().0), (3, 3));
    assert_eq!(kit.verdict_as(&req("d")), "miss", "what is in the index isn't read again");
}

#[test]
fn a_newer_one_in_memory_comes_first() {
    let (kit, home) = kit();
    kit.put("/", 100.0, b"old");
    kit.evict_all();
    kit.pass(1.0);
    kit.put("/", 10.0, b"new");
    assert_eq!(bytes_of(&hit_of(kit.look("/"))), b"new");
    kit.pass(20.0);
    // The newer one is over and still there: the older one is fresh, and comes back behind it.
    assert_eq!(bytes_of(&hit_of(found(&kit, &TestReq::new("/")))), b"old");
    assert_eq!((home.loads(), kit.verdict("/")), (1, "hit"));
}

#[test]
fn a_stale_object_on_disk_is_used_as_one_in_memory_is() {
    let (kit, _home) = kit();
    let attrs = kit.attrs(10.0, 20.0, 30.0, ObjectFlags::NONE);
    kit.put_as(&TestReq::new("/"), None, attrs, &body());
    kit.evict_all();
    kit.pass(15.0);
    assert_eq!(verdict(&kit, "/"), "grace+fetch");
    kit.evict_all();
    kit.pass(20.0);
    assert_eq!(verdict(&kit, "/"), "miss+stale");
    kit.evict_all();
    kit.pass(100.0);
    assert_eq!(verdict(&kit, "/"), "miss");
}

#[test]
fn a_purge_reaches_what_is_on_disk_alone() {
    for purge in [Purge::HARD, Purge { ttl: Some(0.0), ..Purge::default() }] {
        let (kit, home) = kit();
        kit.put("/", 10.0, &body());
        kit.evict_all();
        assert_eq!(kit.cache.purge(&digest("/"), kit.now(), purge), 1);
        assert_eq!((verdict(&kit, "/"), home.copies(), home.loads()), ("miss", 0, 0));
    }
}

#[test]
fn what_is_purged_while_it_is_read_back_stays_away() {
    let (kit, home) = kit();
    kit.put("/", 10.0, &body());
    kit.evict_all();
    home.hold(true);
    let bell = Arc::new(TestBell::default());
    let mut loading = reading(kit.look("/"));
    assert!(poll(&mut loading, &bell).is_pending());
    kit.cache.purge(&digest("/"), kit.now(), Purge::HARD);
    home.serve(Ok(()));
    assert!(poll(&mut loading, &bell).is_ready());
    assert_eq!(word(&kit.look_again(loading, &TestReq::new("/"))), "miss");
}

#[test]
fn what_is_purged_while_it_is_fetched_is_not_on_disk() {
    let (kit, home) = kit();
    let mut busy = busy_of(kit.look("/"));
    let store = kit.cache.stores().all()[0].clone();
    busy.set_head(&store, HEAD, None, &kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
    busy.start_stream();
    busy.append(&body()).unwrap();
    kit.cache.purge(&digest("/"), kit.now(), Purge::HARD);
    busy.finish(None).unwrap();
    assert_eq!((home.copies(), verdict(&kit, "/")), (0, "miss"));
}

#[test]
fn lives_that_were_cut_short_are_not_found_long_on_disk() {
    let (kit, home) = kit();
    let attrs = kit.attrs(100.0, 100.0, 0.0, ObjectFlags::NONE);
    kit.put_as(&TestReq::new("/"), None, attrs, b"soft");
    kit.cache.purge(&digest("/"), kit.now(), Purge { ttl: Some(0.0), ..Purge::default() });
    kit.pass(1.0);
    assert_eq!((kit.verdict("/"), home.copies()), ("grace+fetch", 0));
    let long = kit.attrs(100.0, 0.0, 0.0, ObjectFlags::NONE);
    kit.put_as(&TestReq::new("/2"), None, long, b"cut");
    kit.cache.rearm(&hit_of(kit.look("/2")), kit.now(), Purge { ttl: Some(5.0), ..Purge::default() });
    kit.evict_all();
    assert_eq!(verdict(&kit, "/2"), "miss");
}

#[test]
fn a_ban_reaches_what_is_on_disk_alone_and_stays_as_long_as_that_needs_it() {
    let (kit, home) = kit();
    kit.put("/red", 1000.0, &body());
    kit.put("/spared", 1000.0, &body());
    kit.evict_all();
    kit.cache.ban_text("obj.http.x-tag == red && req.url == /red").unwrap();
    kit.cache.ban_text("obj.http.server == other").unwrap();
    kit.pass(100.0);
    while kit.cache.lurk(kit.now(), &mut |_| {}) < 1.0 {}
    assert_eq!((kit.main.bans.get(), kit.main.bans_completed.get()), (3, 1), "both are needed, and neither is done");
    assert_eq!((verdict(&kit, "/red"), verdict(&kit, "/spared")), ("miss", "hit"));
    assert_eq!(home.copies(), 1);
    kit.cache.purge(&digest("/spared"), kit.now(), Purge::HARD);
    while kit.cache.lurk(kit.now(), &mut |_| {}) < 1.0 {}
    assert_eq!(kit.main.bans.get(), 1, "nothing on disk is older than they are");
}

#[test]
fn a_purge_by_key_reaches_what_is_on_disk_alone() {
    let (kit, home) = kit();
    kit.cache.enable_tags(Box::leak(Box::<Xkey>::default()));
    let put = |url: &str, key: &str| {
        let mut busy = busy_of(found(&kit, &TestReq::new(url)));
        busy.set_tags(vec![key.as_bytes().into()]);
        kit.fill(busy, &TestReq::new(url), None, kit.attrs(1000.0, 100.0, 0.0, ObjectFlags::NONE), b"x");
    };
    let purge = |key: &[u8], is_soft| {
        let mut purge = kit.cache.purge_tags([key].into_iter(), kit.now(), is_soft);
        while purge.step().is_none() {}
    };
    for url in ["/1", "/2", "/3"] {
        put(url, url);
    }
    kit.evict_all();
    kit.pass(1.0);
    purge(b"/1", false);
    purge(b"/2", true);
    kit.pass(1.0);
    while kit.cache.lurk(kit.now(), &mut |_| {}) < 1.0 {}
    assert_eq!([verdict(&kit, "/1"), verdict(&kit, "/2"), verdict(&kit, "/3")], ["miss", "grace+fetch", "hit"]);
    assert_eq!(home.copies(), 1, "one was purged, and the other one's lives aren't those on disk");
    // What comes after a purge isn't hit by it; what is read back is found by its key.
    put("/1", "/1");
    kit.evict_all();
    assert_eq!((verdict(&kit, "/1"), verdict(&kit, "/3")), ("hit", "hit"));
    purge(b"/3", false);
    assert_eq!((verdict(&kit, "/1"), verdict(&kit, "/3"), home.copies()), ("hit", "miss", 1));
}

#[test]
fn what_is_refreshed_or_pushed_out_by_variants_leaves_the_disk_too() {
    let (kit, home) = kit();
    kit.put("/", 10.0, b"old");
    kit.cache.kill(&hit_of(kit.look("/")));
    assert_eq!((home.copies(), verdict(&kit, "/")), (0, "miss"));
    let kit = Kit::of(&specs(&home), CacheParams { vary_limit: 2, ..CacheParams::default() });
    for value in ["a", "b", "c"] {
        let req = TestReq::new("/").field("accept", value);
        kit.put_as(&req, Some("accept"), kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), b"x");
    }
    assert_eq!(home.copies(), 2);
}

#[test]
fn only_what_can_be_a_hit_goes_to_disk() {
    let (kit, home) = kit();
    for (ttl, flags) in [(10.0, ObjectFlags::HIT_FOR_MISS), (10.0, ObjectFlags::HIT_FOR_PASS), (0.0, ObjectFlags::NONE)]
    {
        kit.put_as(&TestReq::new("/"), None, kit.attrs(ttl, 0.0, 0.0, flags), b"x");
    }
    let mut private = kit.cache.private();
    let store = kit.cache.stores().all()[0].clone();
    private.set_head(&store, HEAD, None, &kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
    private.append(b"x").unwrap();
    private.finish(None).unwrap();
    let mut failed = busy_of(kit.look("/failed"));
    failed.set_head(&store, HEAD, None, &kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
    failed.append(b"x").unwrap();
    failed.fail(FetchFailed::new("planned"));
    assert_eq!(home.copies(), 0);
    let transient = kit.cache.stores().transient().clone();
    let mut busy = busy_of(kit.look("/transient"));
    busy.set_head(&transient, HEAD, None, &kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
    busy.finish(None).unwrap();
    assert_eq!(home.copies(), 0);
}

#[test]
fn a_fetch_that_begins_anew_is_stored_once() {
    let (kit, home) = kit();
    let mut busy = busy_of(kit.look("/"));
    let store = kit.cache.stores().all()[0].clone();
    busy.set_head(&store, HEAD, None, &kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
    busy.append(b"first").unwrap();
    busy.reset();
    busy.append(b"second").unwrap();
    busy.finish(None).unwrap();
    kit.evict_all();
    assert_eq!((home.copies(), bytes_of(&hit_of(found(&kit, &TestReq::new("/"))))), (1, b"second".to_vec()));
}

#[test]
fn what_the_disk_does_not_take_stays_in_memory() {
    let (kit, home) = kit();
    home.refuse(true);
    kit.put("/", 10.0, &body());
    assert_eq!((home.copies(), bytes_of(&hit_of(kit.look("/")))), (0, body()));
    kit.evict_all();
    assert_eq!(verdict(&kit, "/"), "miss");
    home.refuse(false);
    home.fall_behind(true);
    kit.put("/", 10.0, &body());
    kit.evict_all();
    assert_eq!(verdict(&kit, "/"), "miss", "it isn't written yet");
    home.fall_behind(false);
    assert_eq!(verdict(&kit, "/"), "hit");
}

#[test]
fn a_copy_that_was_written_anew_is_still_the_objects() {
    let (kit, home) = kit();
    kit.put("/", 10.0, b"x");
    home.move_all();
    kit.pass(20.0);
    kit.put("/2", 100.0, b"x");
    home.move_all();
    // Expired, but in the index: the candidate of another name is recognised.
    let attrs = kit.attrs(1.0, 0.0, 100.0, ObjectFlags::NONE);
    kit.put_as(&TestReq::new("/3"), None, attrs, b"x");
    home.move_all();
    kit.pass(2.0);
    assert_eq!((verdict(&kit, "/3"), kit.cache.census().0), ("miss+stale", 3));
    let loads = home.loads();
    assert_eq!((verdict(&kit, "/3"), home.loads()), ("miss+stale", loads), "it is known by its new name");
    kit.cache.purge(&digest("/3"), kit.now(), Purge::HARD);
    assert_eq!(verdict(&kit, "/3"), "miss");
}

#[test]
fn members_of_a_family_are_in_no_home() {
    let (kit, home) = kit();
    let mut busy = busy_of(kit.look("/1"));
    busy.join_family(&digest("/"));
    kit.fill(busy, &TestReq::new("/1"), None, kit.attrs(1000.0, 0.0, 0.0, ObjectFlags::NONE), b"x");
    assert_eq!((verdict(&kit, "/1"), home.copies()), ("hit", 0));
    kit.evict_all();
    assert_eq!(verdict(&kit, "/1"), "miss");
}

#[test]
fn a_home_learns_what_may_be_written_anew() {
    let (kit, home) = kit();
    kit.cache.enable_tags(Box::leak(Box::<Xkey>::default()));
    for url in ["/1", "/2", "/3"] {
        let mut busy = busy_of(kit.look(url));
        busy.set_tags(vec![url.as_bytes().into()]);
        kit.fill(busy, &TestReq::new(url), None, kit.attrs(1000.0, 0.0, 0.0, ObjectFlags::NONE), url.as_bytes());
    }
    kit.evict_all();
    let mut purge = kit.cache.purge_tags([&b"/1"[..]].into_iter(), kit.now(), false);
    while purge.step().is_none() {}
    kit.cache.ban_text("obj.http.server == other").unwrap();
    home.move_all();
    assert_eq!(home.copies(), 2, "what was purged by its key isn't");
    kit.pass(100.0);
    while kit.cache.lurk(kit.now(), &mut |_| {}) < 1.0 {}
    while kit.cache.lurk(kit.now(), &mut |_| {}) < 1.0 {}
    assert_eq!(kit.main.bans.get(), 1, "the others have stood the ban");
    kit.cache.ban_text("obj.http.x-tag == red").unwrap();
    home.move_all();
    assert_eq!((home.copies(), kit.main.n_object.get()), (0, 0));
}

#[test]
fn a_ban_by_tenant_knows_the_names_in_a_home_if_no_row_is_free() {
    let (kit, home) = kit();
    for (name, url) in [("a", "/1"), ("b", "/2"), ("c", "/3")] {
        let mut busy = busy_of(kit.look(url));
        busy.set_tenant(kit.cache.tenant(name));
        kit.fill(busy, &TestReq::new(url), None, kit.attrs(1000.0, 0.0, 0.0, ObjectFlags::NONE), &body());
    }
    kit.put("/4", 1000.0, &body());
    let next = next_worker(&kit, &home);
    next.cache.set_tenants(1, &[]);
    assert_eq!(next.cache.tenant("x").name(), "x");
    next.cache.ban_text("obj.tenant == B").unwrap();
    home.move_all();
    assert_eq!(home.copies(), 3, "b's has gone");
    next.cache.ban_text("obj.tenant != a").unwrap();
    home.move_all();
    assert_eq!(home.copies(), 1, "a's is left");
    assert_eq!(next.main.tenant_others.get(), 0, "nobody requested them");
}

#[test]
fn another_worker_finds_what_is_on_disk() {
    let (kit, home) = kit();
    kit.put("/1", 100.0, &body());
    kit.put("/2", 100.0, &body());
    let mut fetch = busy_of(kit.look("/3"));
    let store = kit.cache.stores().all()[0].clone();
    fetch.set_head(&store, HEAD, None, &kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
    fetch.append(b"not whole").unwrap();
    kit.cache.ban_text("req.url == /2").unwrap();
    let next = next_worker(&kit, &home);
    drop((fetch, kit));
    assert_eq!([verdict(&next, "/1"), verdict(&next, "/2"), verdict(&next, "/3")], ["hit", "miss", "miss"]);
}

#[test]
fn a_worker_that_does_not_know_the_bans_serves_nothing_that_is_older() {
    let (kit, home) = kit();
    kit.cache.ban_text("req.url == /other").unwrap();
    kit.put("/", 100.0, &body());
    let next = Kit::at(kit.clock.clone(), &specs(&home), CacheParams::default());
    assert_eq!(verdict(&next, "/"), "miss");
}

#[test]
fn what_a_home_says_that_cannot_be_is_a_miss() {
    let (kit, home) = kit();
    kit.put("/", 100.0, &body());
    kit.evict_all();
    home.damage(|record| record.lengths.head += 1);
    assert_eq!(verdict(&kit, "/"), "miss");
    home.damage(|record| (record.lengths.head, record.flags) = (record.lengths.head - 1, 0xff));
    assert_eq!(verdict(&kit, "/"), "miss");
    home.damage(|record| record.flags = 0x100);
    assert_eq!(verdict(&kit, "/"), "miss");
    home.damage(|record| (record.flags, record.times.t_origin.0) = (0, f64::NAN));
    assert_eq!(verdict(&kit, "/"), "miss");
    home.damage(|record| record.times.t_origin.0 = 1e9 + 1000.0);
    assert_eq!(verdict(&kit, "/"), "hit");
}

#[test]
fn a_front_without_room_gives_a_miss() {
    let (kit, _home) = kit();
    kit.put("/", 100.0, &body());
    kit.evict_all();
    kit.put("/large", 100.0, &vec![1; (1 << 20) - 8000]);
    let mut used = vec![hit_of(kit.look("/large"))];
    while kit.cache.stores().all()[0].free_bytes().unwrap() > 30 {
        let free = kit.cache.stores().all()[0].free_bytes().unwrap() as usize;
        let url = format!("/{}", used.len());
        kit.put(&url, 100.0, &vec![1; (free - HEAD.len()).min(1000)]);
        used.push(hit_of(kit.look(&url)));
    }
    assert_eq!(verdict(&kit, "/"), "miss");
}

/// Moves wanted bodies to the front, as far as the home lets it.
fn admit(kit: &Kit) {
    let mut admission = std::pin::pin!(kit.cache.admit());
    let _ = admission.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

#[test]
fn a_long_body_comes_to_the_front_when_it_is_used_again() {
    let (kit, home) = kit();
    let obj = long_hit(&kit, &home);
    home.hold(false);
    admit(&kit);
    assert_eq!((kit.main.home_admit.get(), kit.held() < 100), (0, true), "the first use is that which read it back");
    let mut reader = obj.reader(0);
    let bell = Arc::new(TestBell::default());
    assert!(next(&mut reader, &bell).is_ready());
    drop(hit_of(kit.look("/")));
    admit(&kit);
    assert_eq!((kit.main.home_admit.get(), kit.held() > 2500), (1, true));
    home.fail(Some(StoreError("nothing is read any more")));
    assert_eq!(bytes_of(&hit_of(kit.look("/"))), body());
    assert_eq!(read_late(&mut reader, &home).unwrap(), &body()[1000..], "who had begun goes on in the front");
    kit.cache.audit().unwrap();
    drop((reader, obj));
    assert_eq!((kit.evict_all(), kit.held(), home.bodies(), home.copies()), (1, 0, 0, 1));
}

#[test]
fn a_body_is_brought_to_a_full_front_only_in_the_place_of_one_that_is_used_less() {
    let (kit, _home) = kit();
    kit.put("/", 100.0, &body());
    kit.evict_all();
    kit.put("/full", 100.0, &vec![1; (1 << 20) - 2000]);
    (0..3).for_each(|_| assert_eq!(verdict(&kit, "/full"), "hit"));
    (0..2).for_each(|_| assert_eq!(verdict(&kit, "/"), "hit"));
    assert!(kit.cache.stores().all()[0].free_bytes().unwrap() < body().len() as u64);
    admit(&kit);
    assert_eq!(kit.main.home_admit.get(), 0, "what is used more stays");
    (0..6).for_each(|_| assert_eq!(verdict(&kit, "/"), "hit"));
    admit(&kit);
    assert_eq!((kit.main.home_admit.get(), kit.main.n_lru_nuked.get()), (1, 2), "one for the room, one before");
    kit.cache.audit().unwrap();
}

#[test]
fn a_body_that_takes_much_of_the_front_or_cannot_be_read_stays_in_the_home() {
    let (kit, home) = kit();
    kit.put("/long", 100.0, &[1; 200_000]);
    kit.put("/lost", 100.0, &body());
    kit.put("/gone", 100.0, &body());
    kit.evict_all();
    for url in ["/long", "/lost", "/gone"] {
        assert_eq!([verdict(&kit, url), verdict(&kit, url), verdict(&kit, url)], ["hit"; 3]);
    }
    kit.cache.purge(&digest("/gone"), kit.now(), Purge::HARD);
    home.fail(Some(StoreError("EIO")));
    admit(&kit);
    home.fail(None);
    admit(&kit);
    assert_eq!((kit.main.home_admit.get(), kit.held() < 200), (0, true));
    assert_eq!(bytes_of(&hit_of(kit.look("/lost"))), body());
}

#[test]
fn a_body_in_memory_is_there_at_once() {
    let kit = Kit::new();
    kit.put("/", 10.0, &[7; 100_000]);
    let (mut reader, bell) = (hit_of(kit.look("/")).reader(0), Arc::new(TestBell::default()));
    let mut bytes = 0;
    while let Poll::Ready(Ok(Some(buf))) = next(&mut reader, &bell) {
        bytes += buf.len();
    }
    assert_eq!((bytes, next(&mut reader, &bell)), (100_000, Poll::Ready(Ok(None))));
}

#[test]
fn a_hit_whose_body_is_gone_from_the_home_is_none() {
    let (kit, home) = kit();
    let obj = long_hit(&kit, &home);
    home.hold(false);
    assert_eq!((kit.verdict("/"), home.copies()), ("hit", 1));
    home.reclaim(0);
    assert_eq!(kit.verdict("/"), "miss", "nobody gets its head and no body");
    assert!(obj.is_dying());
    kit.cache.audit().unwrap();
}

#[test]
fn a_search_that_reads_back_keeps_the_time_of_the_request() {
    let (kit, home) = kit();
    kit.put("/", 10.0, &body());
    kit.evict_all();
    home.hold(true);
    let bell = Arc::new(TestBell::default());
    let mut loading = reading(kit.look("/"));
    assert!(poll(&mut loading, &bell).is_pending());
    kit.pass(9.0);
    home.serve(Ok(()));
    assert!(poll(&mut loading, &bell).is_ready());
    kit.pass(2.0);
    // The object was fresh when the request came.
    assert_eq!(word(&kit.look_again(loading, &TestReq::new("/"))), "hit");
}
