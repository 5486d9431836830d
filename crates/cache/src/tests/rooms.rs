// SPDX-License-Identifier: BSD-2-Clause
//! Room: accounting and eviction.

use super::kit::*;
use crate::*;

#[test]
fn a_full_store_makes_room() {
    let kit = Kit::with(Some(1 << 20), CacheParams::default());
    for n in 0..100 {
        kit.put(&format!("/{n}"), 100.0, &vec![b'x'; 50_000]);
    }
    assert!(kit.held() <= 1 << 20);
    assert_eq!((kit.verdict("/0"), kit.verdict("/99")), ("miss", "hit"));
    assert_eq!(kit.main.n_lru_nuked.get() + kit.main.n_object.get(), 100);
    let sma = kit.sma[0];
    assert_eq!((sma.g_bytes.get() + sma.g_space.get(), sma.c_bytes.get() - sma.c_freed.get()), (1 << 20, kit.held()));
}

#[test]
fn what_is_asked_for_again_stays() {
    let kit = Kit::with(Some(1 << 20), CacheParams::default());
    kit.put("/hot", 100.0, &[b'x'; 10_000]);
    for n in 0..1000 {
        let _ = hit_of(kit.look("/hot"));
        kit.put(&format!("/{n}"), 100.0, &[b'x'; 10_000]);
    }
    assert_eq!(kit.verdict("/hot"), "hit");
}

#[test]
fn an_object_in_use_keeps_its_bytes() {
    let kit = Kit::with(Some(1 << 20), CacheParams::default());
    // Whole pages: what is occupied is what was put in.
    kit.put("/", 100.0, &[b'x'; 122 * 4096]);
    let obj = hit_of(kit.look("/"));
    kit.cache.kill(&obj);
    assert_eq!((kit.verdict("/"), kit.held()), ("miss", 122 * 4096 + HEAD.len() as u64));
    let buf = obj.reader(0).now().unwrap().unwrap();
    drop(obj);
    // The last handle on a block holds just that block.
    assert_eq!(kit.held(), buf.charged_bytes());
    drop(buf);
    assert_eq!(kit.held(), 0);
}

#[test]
fn nuke_limit_bounds_what_one_object_may_cost() {
    let kit = Kit::with(Some(1 << 20), CacheParams { nuke_limit: 5, ..CacheParams::default() });
    for n in 0..1000 {
        kit.put(&format!("/{n}"), 100.0, &[b'x'; 1000]);
    }
    let mut busy = busy_of(kit.look("/big"));
    let attrs = kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE);
    busy.set_head(&kit.cache.stores().all()[0].clone(), HEAD, None, &attrs, &[]).unwrap();
    let appended = (0..100).try_for_each(|_| busy.append(&[b'x'; 1000]));
    assert_eq!((appended.is_err(), kit.main.n_lru_limited.get()), (true, 1));
    assert_eq!(busy.take_events().last(), Some(&CacheEvent::NukeLimit));
}

#[test]
fn nothing_busy_is_evicted() {
    let kit = Kit::with(Some(1 << 20), CacheParams::default());
    let mut busy = busy_of(kit.look("/"));
    let attrs = kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE);
    busy.set_head(&kit.cache.stores().all()[0].clone(), HEAD, None, &attrs, &[]).unwrap();
    busy.start_stream();
    while busy.append(&[b'x'; 10_000]).is_ok() {}
    assert_eq!((kit.main.n_lru_nuked.get(), busy.take_events()), (0, vec![CacheEvent::NothingToEvict]));
    drop(busy);
    assert_eq!(kit.held(), 0);
}

#[test]
fn a_body_may_fill_its_store_to_the_last_byte() {
    let kit = Kit::with(Some(1 << 20), CacheParams::default());
    kit.put("/", 100.0, &vec![b'x'; (1 << 20) - HEAD.len()]);
    assert_eq!((kit.verdict("/"), kit.sma[0].g_space.get()), ("hit", 0));
}

#[test]
fn the_footprint_grows_and_shrinks_with_the_objects() {
    let kit = Kit::with(Some(1 << 24), CacheParams::default());
    let empty = kit.cache.footprint();
    (0..2000).for_each(|n| kit.put(&format!("/{n}"), 100.0, b"x"));
    let full = kit.cache.footprint();
    // An objcore, its place in a table, in a heap and in a list.
    assert!(full.objcores - empty.objcores == 2000 * (96 + 136), "{full:?}");
    assert!(full.tables > empty.tables && full.expiry > empty.expiry && full.eviction > empty.eviction, "{full:?}");
    let each = (full.bytes() - empty.bytes()) / 2000;
    assert!((232..440).contains(&each), "{each} bytes an object");
    kit.pass(200.0);
    assert_eq!(kit.cache.expire(kit.now(), 5000, &mut |_| {}), 2000);
    let after = kit.cache.footprint();
    assert!(after.objcores == 0 && after.expiry < full.expiry && after.tombstones == full.tombstones, "{after:?}");
}

#[test]
fn a_capped_store_makes_room_below_its_limit() {
    let kit = Kit::with(Some(1 << 20), CacheParams::default());
    let store = kit.cache.stores().all()[0].clone();
    (0..40).for_each(|n| kit.put(&format!("/{n}"), 100.0, &[b'x'; 10_000]));
    let held = kit.held();
    store.set_cap(Some(held));
    assert_eq!(store.free_bytes(), Some(0));
    (40..100).for_each(|n| kit.put(&format!("/{n}"), 100.0, &[b'x'; 10_000]));
    assert!(kit.held() <= held && kit.main.n_lru_nuked.get() >= 60, "{} {}", kit.held(), kit.main.n_lru_nuked.get());
    let held = kit.held();
    store.set_cap(Some(10_000));
    assert_eq!((kit.held(), kit.verdict("/99")), (held, "hit"), "what is there stays");
    store.set_cap(None);
    assert_eq!(store.free_bytes(), Some((1 << 20) - held));
}

#[test]
fn memory_is_taken_from_a_store_without_a_limit() {
    let kit = Kit::new();
    let store = kit.cache.stores().all()[0].id();
    let evict = |bytes, most| kit.cache.evict(store, bytes, most, &mut |_| {});
    (0..50).for_each(|n| kit.put(&format!("/{n}"), 100.0, &[b'x'; 10_000]));
    assert_eq!(evict(100_000, 1000), 0, "no order of eviction is kept");
    kit.cache.evict_unlimited();
    let before = kit.held();
    assert_eq!(evict(100_000, 1000), 10);
    assert!(before - kit.held() >= 100_000 && kit.main.n_object.get() == 40);
    (50..60).for_each(|n| kit.put(&format!("/{n}"), 100.0, &[b'x'; 10_000]));
    assert_eq!((evict(u64::MAX, 7), evict(u64::MAX, 1000), kit.held()), (7, 43, 0));
    kit.cache.evict_unlimited();
    assert_eq!(evict(1, 1), 0);
    // What a delivery holds stays.
    kit.put("/held", 100.0, b"x");
    let obj = hit_of(kit.look("/held"));
    assert_eq!(evict(1, 100), 0);
    drop(obj);
    assert_eq!(evict(1, 100), 1);
}

#[test]
fn a_large_object_in_use_lets_small_ones_be_evicted() {
    let kit = Kit::with(Some(1 << 20), CacheParams::default());
    kit.put("/small", 100.0, b"x");
    kit.put("/large", 100.0, &[b'x'; 900_000]);
    let held = hit_of(kit.look("/large"));
    assert_eq!(kit.cache.evict(0, u64::MAX, 10, &mut |_| {}), 1);
    assert_eq!((kit.verdict("/large"), kit.verdict("/small")), ("hit", "miss"));
    drop(held);
    assert_eq!(kit.cache.evict(0, u64::MAX, 10, &mut |_| {}), 1);
}
