// SPDX-License-Identifier: BSD-2-Clause
//! Purges as the releases have them: what a soft one may lengthen, and what they count as.

use storage::ObjectTimes;
use tables::Compat;

use super::kit::*;
use crate::*;

fn kit_of(compat: Compat) -> Kit {
    Kit::with(None, CacheParams { compat, ..CacheParams::default() })
}

fn soft(ttl: f64, grace: f64, keep: f64) -> Purge {
    let life = |seconds: f64| Some(seconds).filter(|seconds| *seconds >= 0.0);
    Purge { ttl: Some(ttl), grace: life(grace), keep: life(keep) }
}

/// Checks the times, in seconds, of an object with 60 s of each that is purged after `age` seconds.
fn check(compat: Compat, age: f64, purges: &[Purge], want: (f64, f64, f64)) {
    let kit = kit_of(compat);
    kit.put_as(&TestReq::new("/"), None, kit.attrs(60.0, 60.0, 60.0, ObjectFlags::NONE), b"x");
    kit.pass(age);
    for purge in purges {
        kit.cache.purge(&digest("/"), kit.now(), *purge);
    }
    let objs = kit.cache.stored_for(&digest("/"), &TestReq::new("/"));
    let ObjectTimes { ttl, grace, keep, .. } = objs[0].times();
    assert_eq!((ttl, grace, keep), want, "{compat}: {purges:?} after {age} s");
}

#[test]
fn since_7_6_a_soft_purge_lengthens_nothing() {
    for compat in Compat::ALL {
        check(compat, 10.0, &[soft(0.0, -1.0, -1.0)], (10.0, 60.0, 60.0));
        check(compat, 70.0, &[soft(0.0, -1.0, -1.0)], (60.0, 60.0, 60.0));
        check(compat, 70.0, &[soft(0.0, 20.0, 10.0)], (60.0, 20.0, 10.0));
        check(compat, 5.0, &[soft(10.0, -1.0, -1.0)], (15.0, 60.0, 60.0));
        check(compat, 55.0, &[soft(10.0, -1.0, -1.0)], (60.0, 60.0, 60.0));
    }
    check(Compat::V9, 10.0, &[soft(0.0, 100.0, 61.0)], (10.0, 60.0, 60.0));
    check(Compat::V9, 10.0, &[soft(0.0, 5.0, 5.0), soft(0.0, 10.0, 10.0)], (10.0, 5.0, 5.0));
    check(Compat::V7_1, 10.0, &[soft(0.0, 100.0, 61.0)], (10.0, 100.0, 61.0));
}

#[test]
fn several_soft_purges_of_a_fetch_count_as_one() {
    for (compat, grace) in [(Compat::V7_1, 100.0), (Compat::V9, 10.0)] {
        let kit = kit_of(compat);
        let busy = busy_of(kit.look("/"));
        kit.cache.purge(&digest("/"), kit.now(), soft(0.0, 10.0, -1.0));
        kit.cache.purge(&digest("/"), kit.now(), soft(0.0, 100.0, -1.0));
        kit.fill(busy, &TestReq::new("/"), None, kit.attrs(60.0, 60.0, 0.0, ObjectFlags::NONE), b"x");
        let objs = kit.cache.stored_for(&digest("/"), &TestReq::new("/"));
        assert_eq!(objs[0].times().grace, grace, "{compat}");
    }
}

/// Checks n_expired, n_purges and n_obj_purged after a purge of an object without grace and keep, and its record.
fn check_counts(compat: Compat, purge: Purge, want: [u64; 3], told: &str) {
    let kit = kit_of(compat);
    kit.put("/", 60.0, b"x");
    let mut events = Vec::new();
    kit.cache.purge_for(None, &digest("/"), kit.now(), purge, &mut |event| {
        events.push(event.text(compat).to_string());
    });
    let main = kit.main;
    assert_eq!([main.n_expired.get(), main.n_purges.get(), main.n_obj_purged.get()], want, "{compat}: {purge:?}");
    assert_eq!(events, [told]);
}

#[test]
fn since_7_5_what_is_purged_is_not_expired() {
    check_counts(Compat::V7_1, Purge::HARD, [1, 1, 1], "EXP_Expired x=1 t=0");
    check_counts(Compat::V9, Purge::HARD, [0, 1, 1], "EXP_Removed x=1 t=60 h=0");
    check_counts(Compat::V9, soft(0.0, 0.0, 0.0), [0, 1, 1], "EXP_Removed x=1 t=60 h=0");
    // One that leaves grace or keep isn't a hard one, even if the object has none.
    check_counts(Compat::V7_1, soft(0.0, -1.0, -1.0), [1, 1, 1], "EXP_Expired x=1 t=0");
    check_counts(Compat::V9, soft(0.0, -1.0, -1.0), [1, 0, 0], "EXP_Expired x=1 t=0 h=0");
}
