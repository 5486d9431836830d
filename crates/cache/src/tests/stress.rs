// SPDX-License-Identifier: BSD-2-Clause
//! Many threads at once: readers of a growing body, a crowd on one objhead, a passed body under back-pressure.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::kit::*;
use crate::*;

const THREADS: usize = 8;

fn data(from: usize, size: usize) -> Vec<u8> {
    (from..from + size).map(|n| (n % 251) as u8).collect()
}

#[test]
fn readers_on_many_threads_see_the_same_body() {
    let kit = Kit::new();
    for round in 0..20 {
        let url = format!("/{round}");
        let mut busy = busy_of(kit.look(&url));
        let (kit, url, obj, gate) = (&kit, &url, &busy.object(), &Barrier::new(THREADS + 1));
        thread::scope(|scope| {
            let readers: Vec<_> = (0..THREADS)
                .map(|_| {
                    scope.spawn(move || {
                        gate.wait();
                        block_on(async {
                            obj.headers().await.unwrap();
                            read_all(&hit_of(kit.look(url))).await.unwrap()
                        })
                    })
                })
                .collect();
            gate.wait();
            busy.set_head(
                &kit.cache.stores().all()[0].clone(),
                HEAD,
                None,
                &kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE),
                &[],
            )
            .unwrap();
            busy.start_stream();
            let mut sent = 0;
            for n in 0..200 {
                let size = [1, 100, 5000, 70_000][n % 4];
                busy.append(&data(sent, size)).unwrap();
                sent += size;
            }
            busy.finish(Some(sent as u64)).unwrap();
            let want = data(0, sent);
            readers.into_iter().for_each(|reader| assert!(reader.join().unwrap() == want));
        });
        assert_eq!(block_on(read_all(obj)).unwrap().len(), 200 / 4 * 75_101);
    }
    kit.cache.stores().all().iter().for_each(|store| assert!(store.used_bytes() < 20 * (200 / 4 * 75_101 + 100)));
}

/// One client: looks up until it has a response; some go away while they wait.
async fn client(kit: &Kit, url: &str, fetched: &AtomicUsize, seed: usize) {
    let req = TestReq::new(url);
    let mut looked = kit.look_as(&req);
    loop {
        looked = match looked {
            Err(waiting) if seed.is_multiple_of(7) => return drop(waiting),
            Err(mut waiting) => {
                (&mut waiting).await;
                if seed.is_multiple_of(5) {
                    return drop(waiting);
                }
                kit.look_again(waiting, &req)
            }
            Ok(Found::Hit(obj)) => {
                // Its fetch may fail while it streams.
                return drop(read_all(&obj).await);
            }
            other => {
                let busy = busy_of(other);
                if seed.is_multiple_of(3) {
                    return drop(busy);
                }
                fetched.fetch_add(1, Ordering::Relaxed);
                return kit.fill(busy, &req, None, kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), b"body");
            }
        }
    }
}

#[test]
fn a_crowd_on_one_objhead_gets_its_answers() {
    let kit = Kit::new();
    let (kit, fetched) = (&kit, &AtomicUsize::new(0));
    for round in 0..200 {
        let url = format!("/{}", round / 2);
        let (url, gate) = (&url, &Barrier::new(THREADS));
        thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    gate.wait();
                    (0..10).for_each(|n| block_on(client(kit, url, fetched, round + thread * 10 + n)));
                });
            }
        });
        if round % 2 == 0 {
            kit.cache.purge(&digest(url), kit.now(), Purge::HARD);
        }
    }
    let main = kit.main;
    assert_eq!(main.waitinglist_len.get(), 0);
    kit.pass(100.0);
    kit.cache.expire(kit.now(), usize::MAX, &mut |_| {});
    assert_eq!((kit.cache.census(), kit.held(), main.n_object.get(), main.n_objectcore.get()), ((0, 0, 0), 0, 0, 0));
}

#[test]
fn a_passed_body_stays_within_its_bounds() {
    let kit = Kit::new();
    let mut busy = kit.cache.private();
    busy.set_transit_buffer(Some(100_000));
    let obj = busy.object();
    let transient = kit.cache.stores().transient().clone();
    thread::scope(|scope| {
        let reader = scope.spawn(move || block_on(read_all(&obj)).unwrap());
        busy.set_head(&transient, HEAD, None, &kit.attrs(-1.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
        busy.start_stream();
        let mut sent = 0;
        while sent < 20_000_000 {
            block_on(std::future::poll_fn(|cx| busy.poll_room(cx))).unwrap();
            busy.append(&data(sent, 30_000)).unwrap();
            assert!(transient.used_bytes() < 200_000, "{transient:?}");
            sent += 30_000;
        }
        busy.finish(None).unwrap();
        assert!(reader.join().unwrap() == data(0, sent));
    });
    assert_eq!(kit.held(), 0);
}

#[test]
fn ranges_of_passed_bodies_come_whole() {
    for seed in 0..60 {
        let (kit, mut rng) = (Kit::new(), TestRng::new(seed));
        let size = 1 + rng.below(600_000);
        let (start, room) = (rng.below(size), rng.below(50_000) as u64);
        let mut busy = kit.cache.private();
        busy.set_transit_buffer(Some(room));
        let obj = busy.object();
        let transient = kit.cache.stores().transient().clone();
        thread::scope(|scope| {
            let read = async move {
                let (mut reader, mut got) = (obj.into_reader(start as u64), Vec::new());
                while let Some(piece) = reader.next().await.unwrap() {
                    got.extend_from_slice(&piece);
                }
                got
            };
            let reader = scope.spawn(move || block_on(read));
            busy.set_head(&transient, HEAD, None, &kit.attrs(-1.0, 0.0, 0.0, ObjectFlags::NONE), &[]).unwrap();
            busy.start_stream();
            let mut at = 0;
            while at < size {
                let piece = (1 + rng.below(40_000)).min(size - at);
                block_on(std::future::poll_fn(|cx| busy.poll_room(cx))).unwrap();
                busy.append(&data(at, piece)).unwrap();
                at += piece;
                // What lies before the range is kept until its reader has said where that begins.
                assert!(transient.used_bytes() < 200_000, "seed {seed}: {transient:?}");
            }
            busy.finish(None).unwrap();
            assert!(reader.join().unwrap() == data(start, size - start), "seed {seed}");
        });
        assert_eq!(kit.held(), 0, "seed {seed}");
    }
}

#[test]
fn eviction_and_lookups_on_many_threads() {
    let kit = Kit::with(Some(1 << 20), CacheParams::default());
    let kit = &kit;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut rng = TestRng::new(thread as u64);
                for _ in 0..2000 {
                    let url = format!("/{}", rng.below(200));
                    let req = TestReq::new(&url);
                    match kit.look_as(&req) {
                        // The only error is that its fetch found no room.
                        Ok(Found::Hit(obj)) => {
                            if let Ok(body) = block_on(read_all(&obj)) {
                                assert_eq!(obj.body_len(), Some(body.len() as u64), "nothing is cut");
                                assert!(body == data(0, body.len()));
                            }
                        }
                        Err(waiting) => drop(waiting),
                        other => {
                            let mut busy = busy_of(other);
                            let store = kit.cache.stores().all()[0].clone();
                            let attrs = kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE);
                            let size = 100 + rng.below(30_000);
                            if busy.set_head(&store, HEAD, None, &attrs, &[]).is_err() {
                                continue;
                            }
                            if rng.below(2) == 0 {
                                busy.start_stream();
                            }
                            let mut at = 0;
                            while at < size {
                                let piece = (1 + rng.below(size)).min(size - at);
                                if busy.append(&data(at, piece)).is_err() {
                                    break;
                                }
                                at += piece;
                            }
                            if at == size {
                                busy.finish(Some(size as u64)).unwrap();
                            }
                        }
                    }
                }
            });
        }
    });
    kit.pass(100.0);
    kit.cache.expire(kit.now(), usize::MAX, &mut |_| {});
    assert_eq!((kit.cache.census(), kit.held(), kit.main.n_object.get()), ((0, 0, 0), 0, 0));
}
