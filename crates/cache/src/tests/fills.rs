// SPDX-License-Identifier: BSD-2-Clause
//! Fetches: streaming, failing, waiting, back-pressure.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use storage::Store;

use super::kit::*;
use crate::*;

fn store(kit: &Kit) -> Arc<Store> {
    kit.cache.stores().all()[0].clone()
}

fn streaming(kit: &Kit, url: &str) -> Busy {
    let mut busy = busy_of(kit.look(url));
    busy.set_head(&store(kit), HEAD, None, &kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
    busy.start_stream();
    busy
}

fn next(reader: &mut BodyReader, bell: &Arc<TestBell>) -> Poll<Result<Option<Vec<u8>>, BodyReadError>> {
    let waker = Waker::from(bell.clone());
    reader.poll_next(&mut Context::from_waker(&waker)).map_ok(|buf| buf.map(|buf| buf.to_vec()))
}

#[test]
fn readers_follow_a_fetch() {
    let kit = Kit::new();
    let mut busy = streaming(&kit, "/");
    let obj = hit_of(kit.look("/"));
    assert_eq!((obj.head(), obj.fetched(), obj.body_len()), (HEAD, Some(0), None));
    let (mut reader, bell) = (obj.reader(0), Arc::new(TestBell::default()));
    assert_eq!(next(&mut reader, &bell), Poll::Pending);
    busy.append(b"one").unwrap();
    assert_eq!(bell.rings(), 1);
    assert_eq!(next(&mut reader, &bell), Poll::Ready(Ok(Some(b"one".to_vec()))));
    assert_eq!(next(&mut reader, &bell), Poll::Pending);
    busy.append(b"two").unwrap();
    busy.finish(Some(6)).unwrap();
    // The body has moved meanwhile; the reader doesn't notice.
    assert_eq!(next(&mut reader, &bell), Poll::Ready(Ok(Some(b"two".to_vec()))));
    assert_eq!(next(&mut reader, &bell), Poll::Ready(Ok(None)));
    assert_eq!((bell.rings(), obj.body_len()), (2, Some(6)));
    drop((reader, obj));
    assert_eq!(kit.held(), HEAD.len() as u64 + 6);
}

#[test]
fn a_dropped_reader_is_not_woken() {
    let kit = Kit::new();
    let mut busy = streaming(&kit, "/");
    let (mut reader, bell) = (hit_of(kit.look("/")).reader(0), Arc::new(TestBell::default()));
    assert_eq!(next(&mut reader, &bell), Poll::Pending);
    drop(reader);
    busy.append(b"x").unwrap();
    assert_eq!(bell.rings(), 0);
}

#[test]
fn a_failed_fetch_cuts_its_readers_and_is_forgotten() {
    let kit = Kit::new();
    let mut busy = streaming(&kit, "/");
    busy.append(b"half").unwrap();
    let obj = hit_of(kit.look("/"));
    busy.fail(FetchFailed::new("reset"));
    assert_eq!(block_on(read_all(&obj)), Err(BodyReadError::Fetch(FetchFailed::new("reset"))));
    assert_eq!(kit.verdict("/"), "miss");
    drop(obj);
    assert_eq!(
        (kit.held(), kit.main.n_object.get(), kit.main.n_objectcore.get(), kit.cache.census()),
        (0, 0, 0, (0, 0, 0))
    );
}

#[test]
fn a_body_of_another_length_than_announced_is_an_error() {
    let kit = Kit::new();
    for (declared, fetched) in [(10, 4), (4, 10)] {
        let mut busy = streaming(&kit, "/");
        busy.append(&vec![b'x'; fetched]).unwrap();
        let wrong = WrongLength { declared, fetched: fetched as u64 };
        assert_eq!((busy.finish(Some(declared)), kit.verdict("/")), (Err(wrong), "miss"));
    }
}

#[test]
fn without_streaming_the_head_comes_with_the_end() {
    let kit = Kit::new();
    let mut busy = busy_of(kit.look("/"));
    let (obj, bell) = (busy.object(), Arc::new(TestBell::default()));
    let mut headers = obj.headers();
    busy.set_head(&store(&kit), HEAD, None, &kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
    busy.append(b"body").unwrap();
    assert_eq!((poll(&mut headers, &bell), kit.verdict("/")), (Poll::Pending, "wait"));
    busy.finish(None).unwrap();
    assert_eq!((bell.rings() > 0, poll(&mut headers, &bell), kit.verdict("/")), (true, Poll::Ready(Ok(())), "hit"));
}

fn woken(parked: &[Box<Waiting>]) -> usize {
    parked.iter().filter(|ticket| ticket.is_woken()).count()
}

#[test]
fn waiting_requests_are_rushed_together() {
    let kit = Kit::new();
    let busy = busy_of(kit.look("/"));
    let parked: Vec<Box<Waiting>> = (0..10).map(|_| parked(kit.look("/"))).collect();
    assert_eq!((kit.main.busy_sleep.get(), kit.main.waitinglist_len.get()), (10, 10));
    kit.fill(busy, &TestReq::new("/"), None, kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), b"x");
    assert_eq!((woken(&parked), kit.main.waitinglist_len.get(), kit.main.busy_wakeup.get()), (10, 0, 10));
    parked.into_iter().for_each(|ticket| assert_eq!(word(&kit.look_again(ticket, &TestReq::new("/"))), "hit"));
    assert_eq!(kit.main.busy_hit.get(), 10);
}

#[test]
fn a_right_that_waits_learns_of_the_first_request_behind_it() {
    let kit = Kit::new();
    let (busy, other) = (busy_of(kit.look("/")), busy_of(kit.look("/other")));
    let (bell, other_bell) = (Arc::new(TestBell::default()), Arc::new(TestBell::default()));
    let mut followed = busy.followed().expect("a shared object");
    let mut other_followed = other.followed().expect("a shared object");
    assert_eq!(poll(&mut followed, &bell), Poll::Pending);
    assert_eq!(poll(&mut other_followed, &other_bell), Poll::Pending);
    let _parked = parked(kit.look("/"));
    assert_eq!((bell.rings(), poll(&mut followed, &bell)), (1, Poll::Ready(())));
    assert_eq!((other_bell.rings(), poll(&mut other_followed, &other_bell)), (0, Poll::Pending));
    drop((followed, other_followed));
    assert_eq!(poll(&mut busy.followed().expect("a shared object"), &bell), Poll::Ready(()), "one is parked already");
    let _later = parked(kit.look("/other"));
    assert_eq!(other_bell.rings(), 0, "nobody wants to know any more");
}

#[test]
fn a_right_given_back_rushes_in_threes() {
    let kit = Kit::new();
    let busy = busy_of(kit.look("/"));
    let mut parked: Vec<Box<Waiting>> = (0..10).map(|_| parked(kit.look("/"))).collect();
    drop(busy);
    assert_eq!(woken(&parked), 3);
    // One that was woken and goes away passes that on.
    drop(parked.remove(0));
    assert_eq!(woken(&parked), 5);
    let busy = busy_of(kit.look_again(parked.remove(0), &TestReq::new("/")));
    kit.fill(busy, &TestReq::new("/"), None, kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), b"x");
    parked.into_iter().for_each(|ticket| assert_eq!(word(&kit.look_again(ticket, &TestReq::new("/"))), "hit"));
    assert_eq!((kit.main.busy_fetch.get(), kit.main.busy_hit.get(), kit.main.waitinglist_len.get()), (1, 8, 0));
}

#[test]
fn nobody_waits_in_line_for_what_helps_nobody() {
    let kit = Kit::new();
    let busy = busy_of(kit.look("/"));
    let parked: Vec<Box<Waiting>> = (0..10).map(|_| parked(kit.look("/"))).collect();
    // Dead at birth.
    kit.fill(busy, &TestReq::new("/"), None, kit.attrs(0.0, 10.0, 0.0, ObjectFlags::NONE), b"x");
    assert_eq!(woken(&parked), 10);
    // All at once, though each but the first finds another one's fetch.
    let fetches: Vec<Busy> = parked.into_iter().map(|t| busy_of(kit.look_again(t, &TestReq::new("/")))).collect();
    assert_eq!(kit.verdict("/"), "wait");
    assert_eq!((fetches.len(), kit.main.busy_fetch.get()), (10, 10));
}

#[test]
fn what_comes_stale_may_be_for_all_that_waited() {
    for grace in [0.0, 10.0] {
        let kit = Kit::with(None, CacheParams { stale_serves_waiters: true, ..CacheParams::default() });
        let busy = busy_of(kit.look("/"));
        let parked: Vec<Box<Waiting>> = (0..10).map(|_| parked(kit.look("/"))).collect();
        kit.fill(busy, &TestReq::new("/"), None, kit.attrs(0.0, grace, 0.0, ObjectFlags::NONE), b"x");
        assert_eq!(woken(&parked), 10);
        parked.into_iter().for_each(|ticket| assert_eq!(word(&kit.look_again(ticket, &TestReq::new("/"))), "hit"));
        // The object is no newer for those that come now.
        assert_eq!(kit.verdict("/"), "miss");
        assert_eq!((kit.main.busy_fetch.get(), kit.main.busy_hit.get()), (0, 10));
    }
}

#[test]
fn limits_of_a_request_that_waited_count_from_its_begin() {
    let check = |max_age: Option<f64>, max_ttl: Option<f64>, is_hit: bool| {
        let kit = Kit::new();
        let busy = busy_of(kit.look("/"));
        kit.pass(1.0);
        let options = LookupOptions { max_age, max_ttl, ..LookupOptions::default() };
        let waiting = parked(kit.look_with(&TestReq::new("/"), &options));
        kit.pass(1.0);
        kit.fill(busy, &TestReq::new("/"), None, kit.attrs(10.0, 0.0, 60.0, ObjectFlags::NONE), b"x");
        kit.pass(1.0);
        let wanted = if is_hit { "hit" } else { "miss+stale" };
        assert_eq!(word(&kit.look_again(waiting, &TestReq::new("/"))), wanted, "{max_age:?} {max_ttl:?}");
    };
    check(Some(0.001), None, true);
    check(None, Some(0.001), true);
    // Nothing is new enough without a validation.
    check(Some(0.0), None, false);
}

#[test]
fn what_comes_stale_takes_the_place_of_what_came_so_before() {
    let kit = Kit::with(None, CacheParams { stale_serves_waiters: true, ..CacheParams::default() });
    for _ in 0..20 {
        let busy = busy_of(kit.look("/"));
        let waiting = parked(kit.look("/"));
        kit.fill(busy, &TestReq::new("/"), None, kit.attrs(0.0, 0.0, 0.0, ObjectFlags::NONE), b"x");
        assert_eq!(word(&kit.look_again(waiting, &TestReq::new("/"))), "hit");
    }
    assert!(kit.main.n_object.get() <= 2, "{} objects are kept", kit.main.n_object.get());
}

#[test]
fn what_comes_stale_and_uncacheable_is_for_nobody_else() {
    let kit = Kit::with(None, CacheParams { stale_serves_waiters: true, ..CacheParams::default() });
    let busy = busy_of(kit.look("/"));
    let waiting = parked(kit.look("/"));
    kit.fill(busy, &TestReq::new("/"), None, kit.attrs(0.0, 0.0, 0.0, ObjectFlags::HIT_FOR_MISS), b"x");
    busy_of(kit.look_again(waiting, &TestReq::new("/")));
}

#[test]
fn what_comes_stale_and_needs_a_validation_is_for_nobody_else() {
    let kit = Kit::with(None, CacheParams { stale_serves_waiters: true, ..CacheParams::default() });
    let mut busy = busy_of(kit.look("/"));
    let waiting = parked(kit.look("/"));
    busy.keep_stale_from_waiters();
    kit.fill(busy, &TestReq::new("/"), None, kit.attrs(0.0, 10.0, 0.0, ObjectFlags::NONE), b"x");
    busy_of(kit.look_again(waiting, &TestReq::new("/")));
}

#[test]
fn so_many_may_wait() {
    let kit = Kit::with(None, CacheParams { waitinglist_limit: 2, ..CacheParams::default() });
    let busy = busy_of(kit.look("/"));
    let first = parked(kit.look("/"));
    let _second = parked(kit.look("/"));
    assert_eq!((kit.verdict("/"), kit.main.busy_refused.get()), ("refused", 1));
    drop(first);
    let third = parked(kit.look("/"));
    kit.fill(busy, &TestReq::new("/"), None, kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), b"x");
    assert_eq!(word(&kit.look_again(third, &TestReq::new("/"))), "hit");
}

#[test]
fn a_failed_fetch_hands_over_to_the_next() {
    let kit = Kit::new();
    let busy = busy_of(kit.look("/"));
    let (first, second) = (parked(kit.look("/")), parked(kit.look("/")));
    drop(busy);
    assert!(first.is_woken());
    let busy = busy_of(kit.look_again(first, &TestReq::new("/")));
    let second = parked(kit.look_again(second, &TestReq::new("/")));
    kit.fill(busy, &TestReq::new("/"), None, kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), b"x");
    assert_eq!(word(&kit.look_again(second, &TestReq::new("/"))), "hit");
}

#[test]
fn uncacheable_answers_serialise_nobody() {
    for flags in [ObjectFlags::HIT_FOR_MISS, ObjectFlags::HIT_FOR_PASS] {
        let kit = Kit::new();
        let busy = busy_of(kit.look("/"));
        let parked: Vec<Box<Waiting>> = (0..50).map(|_| parked(kit.look("/"))).collect();
        kit.fill(busy, &TestReq::new("/"), None, kit.attrs(10.0, 0.0, 0.0, flags), b"x");
        assert!(parked.iter().all(|ticket| ticket.is_woken()));
        let words: Vec<_> = parked.into_iter().map(|ticket| kit.look_again(ticket, &TestReq::new("/"))).collect();
        assert!(words.iter().all(|lookup| word(lookup).starts_with("hit-for-")));
    }
}

#[test]
fn a_range_may_begin_where_a_passed_body_has_not_come_to() {
    let kit = Kit::new();
    let mut busy = kit.cache.private();
    busy.set_transit_buffer(Some(10));
    let obj = busy.object();
    busy.set_head(&store(&kit), HEAD, None, &kit.attrs(-1.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
    busy.start_stream();
    let (mut reader, bell) = (obj.reader(250), Arc::new(TestBell::default()));
    let waker = Waker::from(bell.clone());
    let mut cx = Context::from_waker(&waker);
    busy.append(&[b'a'; 100]).unwrap();
    assert_eq!(next(&mut reader, &bell), Poll::Pending);
    assert_eq!(busy.poll_room(&mut cx), Poll::Ready(Ok(())), "nothing of it is for later");
    busy.append(&[b'b'; 100]).unwrap();
    assert_eq!(kit.held(), HEAD.len() as u64, "what the range leaves out isn't kept");
    assert_eq!(busy.poll_room(&mut cx), Poll::Ready(Ok(())));
    busy.append(&[b'c'; 100]).unwrap();
    assert_eq!(next(&mut reader, &bell), Poll::Ready(Ok(Some(vec![b'c'; 50]))));
}

#[test]
fn a_passed_body_waits_for_its_reader() {
    let kit = Kit::new();
    let mut busy = kit.cache.private();
    busy.set_transit_buffer(Some(1000));
    let obj = busy.object();
    busy.set_head(&store(&kit), HEAD, None, &kit.attrs(-1.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
    busy.start_stream();
    let bell = Arc::new(TestBell::default());
    let waker = Waker::from(bell.clone());
    let mut cx = Context::from_waker(&waker);
    busy.append(&[b'a'; 1000]).unwrap();
    assert_eq!(busy.poll_room(&mut cx), Poll::Pending);
    let mut reader = obj.reader(0);
    let first = reader.now().unwrap().unwrap();
    assert_eq!((first.len(), busy.poll_room(&mut cx)), (1000, Poll::Pending));
    // Asking for more says that the first is done with.
    assert_eq!((reader.now(), bell.rings()), (Ok(None), 1));
    drop(first);
    assert_eq!((busy.poll_room(&mut cx), kit.held()), (Poll::Ready(Ok(())), HEAD.len() as u64));
    busy.append(b"end").unwrap();
    busy.finish(Some(1003)).unwrap();
    assert_eq!((reader.now().unwrap().unwrap().len(), obj.body_len()), (3, Some(1003)));
    assert_eq!(block_on(reader.next()).unwrap(), None);
    drop((reader, obj));
    assert_eq!((kit.held(), kit.main.n_object.get(), kit.verdict("/")), (0, 0, "miss"));
}

#[test]
fn a_pass_whose_client_left_is_not_wanted() {
    let kit = Kit::new();
    let mut busy = kit.cache.private();
    busy.set_transit_buffer(Some(10));
    let obj = busy.object();
    busy.set_head(&store(&kit), HEAD, None, &kit.attrs(-1.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
    busy.start_stream();
    busy.append(&[b'a'; 10]).unwrap();
    let bell = Arc::new(TestBell::default());
    let waker = Waker::from(bell.clone());
    assert_eq!(busy.poll_room(&mut Context::from_waker(&waker)), Poll::Pending);
    drop(obj);
    assert_eq!((bell.rings(), busy.is_wanted()), (1, false));
    assert_eq!(busy.poll_room(&mut Context::from_waker(&waker)), Poll::Ready(Err(Unwanted)));
    // A fetch for the cache goes on without clients.
    assert!(streaming(&kit, "/").is_wanted());
}

#[test]
fn crumbs_become_blocks() {
    let kit = Kit::new();
    let mut busy = streaming(&kit, "/");
    let (obj, mut want) = (hit_of(kit.look("/")), Vec::new());
    let mut reader = obj.reader(0);
    let mut got = Vec::new();
    for n in 0..3000u32 {
        let piece = vec![n as u8; 1 + n as usize % 60];
        busy.append(&piece).unwrap();
        want.extend_from_slice(&piece);
        if n % 7 == 0 {
            while let Some(buf) = reader.now().unwrap() {
                got.extend_from_slice(&buf);
            }
        }
    }
    let blocks = kit.sma[0].g_alloc.get();
    assert!(blocks < 250, "{blocks} blocks");
    busy.finish(None).unwrap();
    while let Some(buf) = block_on(reader.next()).unwrap() {
        got.extend_from_slice(&buf);
    }
    assert!(got == want && block_on(read_all(&obj)).unwrap() == want);
    assert!(kit.sma[0].g_alloc.get() < 10);
}

#[test]
fn a_range_is_read_from_its_offset() {
    let kit = Kit::new();
    let body: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
    kit.put("/", 10.0, &body);
    let obj = hit_of(kit.look("/"));
    let mut reader = obj.reader(150_000);
    assert_eq!(reader.now().unwrap().unwrap()[0], body[150_000]);
    reader.seek(200_000);
    assert_eq!(reader.now(), Ok(None));
}

#[test]
fn what_goes_with_the_head_stays_with_it() {
    let kit = Kit::new();
    let mut busy = busy_of(kit.look("/"));
    let packed = ObjectFlags { coding: message::Coding::Gzip, ..ObjectFlags::NONE };
    busy.set_head(&store(&kit), HEAD, None, &kit.attrs(10.0, 0.0, 0.0, packed), &[]).unwrap();
    busy.append(b"body").unwrap();
    busy.set_aux_attrs(b"first", false).unwrap();
    busy.set_aux_attrs(b"program", true).unwrap();
    busy.finish(Some(4)).unwrap();
    let obj = hit_of(kit.look("/"));
    assert_eq!((obj.head(), obj.aux_attrs(), obj.body_len()), (HEAD, &b"program"[..], Some(4)));
    assert_eq!(obj.flags(), ObjectFlags { has_esi: true, ..packed });
    assert_eq!(obj.reader(0).now().unwrap().unwrap()[..], *b"body");
    drop(obj);
    assert_eq!(kit.held(), HEAD.len() as u64 + 7 + 4);
}

#[test]
fn an_extra_that_comes_late_is_found_once_the_object_is_whole() {
    let kit = Kit::new();
    let mut busy = streaming(&kit, "/");
    let obj = hit_of(kit.look("/"));
    busy.append(b"body").unwrap();
    busy.set_aux_attrs(b"late", false).unwrap();
    assert_eq!((obj.head(), obj.aux_attrs()), (HEAD, &b""[..]));
    busy.finish(Some(4)).unwrap();
    assert_eq!((obj.head(), obj.aux_attrs()), (HEAD, &b"late"[..]));
}

#[test]
fn a_shared_body_is_held_once_and_stays_when_the_other_goes() {
    let kit = Kit::new();
    kit.put("/old", 10.0, &[7; 50_000]);
    let (old, before) = (hit_of(kit.look("/old")), kit.held());
    let mut busy = streaming(&kit, "/new");
    let bytes = old.reader(0).now().unwrap().expect("a body");
    assert_eq!(busy.share(bytes.clone(), old.store() + 1), Err(bytes.clone()));
    busy.share(bytes, old.store()).unwrap();
    busy.finish(Some(50_000)).unwrap();
    assert_eq!(kit.held(), before + HEAD.len() as u64);
    kit.cache.kill(&old);
    drop(old);
    assert_eq!(kit.held(), before);
    assert_eq!(hit_of(kit.look("/new")).reader(0).now().unwrap().as_deref(), Some(&[7; 50_000][..]));
}
