// SPDX-License-Identifier: BSD-2-Clause
//! Bodies that are longer than the memory of their store, which has a home: they are fetched at its pace, and their readers
//! find what has left memory there.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use storage::StoreSpec;
use testkit_storage::SimulatedHome;

use super::kit::*;
use crate::*;

/// The store has 1 MB of memory.
const LEN: usize = 3_000_000;
const PIECE: usize = 40_000;

fn kit() -> (Kit, SimulatedHome) {
    let home = SimulatedHome::new();
    let mut specs = StoreSpec::in_memory(Some(1 << 20));
    specs[0].home = Some(Arc::new(home.clone()));
    (Kit::of(&specs, CacheParams::default()), home)
}

fn body() -> &'static [u8] {
    static BODY: OnceLock<Vec<u8>> = OnceLock::new();
    BODY.get_or_init(|| (0..LEN).map(|n| (n % 251) as u8 ^ (n / 251) as u8).collect())
}

fn fetch(kit: &Kit) -> Busy {
    let mut busy = busy_of(kit.look("/"));
    let store = kit.cache.stores().all()[0].clone();
    busy.set_head(&store, HEAD, None, &kit.attrs(100.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
    busy.start_stream();
    busy
}

fn poll_now<T>(poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    match poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Appends a part of the body as a fetch does, and returns its length before the fetch had to wait.
fn append(busy: &mut Busy, part: std::ops::Range<usize>) -> Result<usize, storage::NoSpace> {
    let body = body();
    let mut at = part.start;
    while at < part.end && poll_now(|cx| busy.poll_room(cx)).is_some() {
        let end = part.end.min(at + PIECE);
        busy.append(&body[at..end])?;
        at = end;
    }
    Ok(at)
}

/// Reads the available bytes, at most `limit`, and compares them.
fn read(reader: &mut BodyReader, limit: usize) -> Option<Result<(), BodyReadError>> {
    let body = body();
    let end = reader.offset() + limit as u64;
    while reader.offset() < end {
        let at = reader.offset() as usize;
        match poll_now(|cx| reader.poll_next(cx))? {
            Ok(Some(bytes)) => assert!(bytes[..] == body[at..at + bytes.len()], "a wrong byte behind {at}"),
            Ok(None) => {
                assert_eq!(at, LEN);
                break;
            }
            Err(error) => return Some(Err(error)),
        }
    }
    Some(Ok(()))
}

fn finish(mut busy: Busy) {
    assert_eq!(poll_now(|cx| busy.poll_whole(cx)), Some(()));
    assert_eq!(busy.finish(None), Ok(LEN as u64));
}

#[test]
fn a_body_longer_than_the_memory_reaches_every_reader() {
    let (kit, home) = kit();
    let mut busy = fetch(&kit);
    let (mut near, mut far, mut later) = (busy.object().reader(0), busy.object().reader(0), busy.object().reader(0));
    for end in (PIECE..=LEN).step_by(PIECE) {
        assert_eq!(append(&mut busy, end - PIECE..end), Ok(end));
        assert_eq!(read(&mut near, PIECE), Some(Ok(())));
        assert_eq!(read(&mut far, PIECE / 3), Some(Ok(())));
        assert!(kit.held() <= 300_000, "{} bytes in memory", kit.held());
    }
    let mut range = hit_of(kit.look("/")).reader(100_000);
    range.stop_at(100_500);
    assert_eq!(read(&mut range, 500), Some(Ok(())));
    assert_eq!(home.wanted(), 100_000..100_500);
    finish(busy);
    for reader in [&mut near, &mut far, &mut later, &mut range] {
        assert_eq!(read(reader, LEN), Some(Ok(())));
    }
    let obj = hit_of(kit.look("/"));
    assert_eq!((obj.body_len(), home.copies()), (Some(LEN as u64), 1));
    assert_eq!(read(&mut obj.reader(0), LEN), Some(Ok(())));
    assert!(kit.held() < 4096, "{} bytes in memory", kit.held());
    drop((near, far, later, range, obj));
    assert_eq!((kit.evict_all(), kit.held()), (1, 0));
    let obj = hit_of(kit.load(kit.look("/"), &TestReq::new("/")));
    assert_eq!(read(&mut obj.reader(0), LEN), Some(Ok(())));
    kit.cache.audit().unwrap();
}

#[test]
fn a_reader_that_waits_for_the_home_leaves_nothing_there() {
    let (kit, home) = kit();
    let mut busy = fetch(&kit);
    let mut reader = busy.object().reader(0);
    assert_eq!(append(&mut busy, 0..800_000), Ok(800_000));
    home.hold(true);
    assert_eq!(read(&mut reader, PIECE), None);
    assert_eq!(home.waiting(), 1);
    reader.seek(780_000);
    assert_eq!(read(&mut reader, 1), Some(Ok(())), "that is in memory");
    assert_eq!(home.waiting(), 0);
    reader.seek(0);
    assert_eq!(read(&mut reader, PIECE), None);
    assert_eq!(home.waiting(), 1);
    drop(reader);
    assert_eq!(home.waiting(), 0);
}

#[test]
fn a_fetch_waits_for_a_home_that_stands_still() {
    let (kit, home) = kit();
    let (mut busy, bell) = (fetch(&kit), Arc::new(TestBell::default()));
    home.stall(true);
    let at = append(&mut busy, 0..LEN).unwrap();
    assert!((100_000..300_000).contains(&at), "{at}");
    let waker = Waker::from(bell.clone());
    assert!(busy.poll_room(&mut Context::from_waker(&waker)).is_pending());
    home.stall(false);
    assert_eq!(bell.rings(), 1);
    assert_eq!(append(&mut busy, at..LEN), Ok(LEN));
    home.stall(true);
    assert!(busy.poll_whole(&mut Context::from_waker(&waker)).is_pending());
    home.stall(false);
    finish(busy);
    assert_eq!(read(&mut hit_of(kit.look("/")).reader(0), LEN), Some(Ok(())));
}

#[test]
fn what_the_home_refuses_is_passed_on_to_the_only_reader() {
    for refused_at in [0, 1_200_000] {
        let (kit, home) = kit();
        let mut busy = fetch(&kit);
        let mut reader = busy.object().into_reader(0);
        assert_eq!(append(&mut busy, 0..refused_at), Ok(refused_at));
        home.refuse(true);
        let at = append(&mut busy, refused_at..LEN).unwrap();
        assert!(at < refused_at + (2 << 20), "{at}: it goes at the reader's pace, {refused_at}");
        assert_eq!(kit.verdict("/"), "miss", "nobody else is to have it");
        let mut sent = at;
        while sent < LEN {
            let behind = sent - reader.offset() as usize;
            assert_eq!(read(&mut reader, behind), Some(Ok(())));
            let now = append(&mut busy, sent..LEN).unwrap();
            assert!(now > sent, "who has read on gets more");
            sent = now;
        }
        finish(busy);
        assert_eq!(read(&mut reader, LEN), Some(Ok(())));
        drop(reader);
        assert_eq!((kit.held(), home.copies()), (0, 0), "{refused_at}");
        kit.cache.audit().unwrap();
    }
}

#[test]
fn what_the_home_refuses_and_two_are_reading_fails() {
    let (kit, home) = kit();
    let mut busy = fetch(&kit);
    let (mut one, _two) = (busy.object().into_reader(0), busy.object().into_reader(0));
    home.refuse(true);
    assert!(append(&mut busy, 0..LEN).is_err(), "there is no room for it");
    busy.fail(FetchFailed::new("no storage"));
    while let Some(Ok(())) = read(&mut one, 1) {}
    assert_eq!(read(&mut one, 1), Some(Err(BodyReadError::Fetch(FetchFailed::new("no storage")))));
}

#[test]
fn a_home_that_fails_at_the_end_costs_the_object_and_no_reader() {
    let (kit, home) = kit();
    let mut busy = fetch(&kit);
    let (mut one, mut two) = (busy.object().into_reader(0), busy.object().into_reader(0));
    assert_eq!(append(&mut busy, 0..LEN), Ok(LEN));
    assert_eq!(read(&mut one, 2_999_000), Some(Ok(())));
    home.refuse(true);
    finish(busy);
    assert_eq!(kit.verdict("/"), "miss");
    assert_eq!(read(&mut one, LEN), Some(Ok(())));
    assert_eq!(read(&mut two, LEN), Some(Ok(())));
    drop((one, two));
    assert_eq!((kit.held(), home.copies()), (0, 0));
}

#[test]
fn a_body_that_is_begun_anew_before_anybody_reads_it_is_the_new_one() {
    let (kit, _home) = kit();
    let mut busy = busy_of(kit.look("/"));
    let store = kit.cache.stores().all()[0].clone();
    busy.set_head(&store, HEAD, None, &kit.attrs(100.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
    for _ in 0..40 {
        assert!(poll_now(|cx| busy.poll_room(cx)).is_some());
        busy.append(&[1; PIECE]).unwrap();
    }
    busy.reset();
    assert_eq!(append(&mut busy, 0..LEN), Ok(LEN));
    finish(busy);
    assert_eq!(read(&mut hit_of(kit.look("/")).reader(0), LEN), Some(Ok(())));
}

#[test]
fn a_front_of_short_objects_has_room_for_a_long_one() {
    let (kit, home) = kit();
    for n in 0..2000 {
        kit.put(&format!("/{n}"), 100.0, &[1; 400]);
    }
    assert!(kit.held() > 500_000, "the front is in use");
    for announced in [LEN, 200_000] {
        let url = format!("/{announced}");
        let mut busy = busy_of(kit.look(&url));
        let store = kit.cache.stores().all()[0].clone();
        assert!(busy.make_room(&store, announced as u64), "{announced}");
        busy.set_head(&store, HEAD, None, &kit.attrs(100.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
        busy.start_stream();
        let _readers = (busy.object().reader(0), busy.object().reader(0));
        assert_eq!(append(&mut busy, 0..announced), Ok(announced));
        assert_eq!(poll_now(|cx| busy.poll_whole(cx)), Some(()));
        assert_eq!(busy.finish(None), Ok(announced as u64));
        assert_eq!(read(&mut hit_of(kit.look(&url)).reader(0), announced - 1), Some(Ok(())));
    }
    assert_eq!((kit.main.n_lru_limited.get(), home.copies()), (0, 2002), "nothing is lost");
    kit.cache.audit().unwrap();
}
