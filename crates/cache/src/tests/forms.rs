// SPDX-License-Identifier: BSD-2-Clause
//! Forms of bodies: found with their object and gone with it, within their share.

use message::Coding;

use super::kit::*;
use crate::*;

/// The right to a form of a stored object, wanted often enough.
fn wanted(kit: &Kit, obj: &ObjRef, coding: Coding) -> Option<FormRight> {
    (0..3).find_map(|_| kit.cache.wants_form(obj, coding))
}

fn make(kit: &Kit, obj: &ObjRef, coding: Coding, body: &[u8]) -> Result<(), NoForm> {
    let mut right = wanted(kit, obj, coding).expect("there is none");
    right.add(body)?;
    right.keep().0
}

fn found(kit: &Kit, url: &str, coding: Coding) -> Option<Vec<u8>> {
    let form = kit.cache.form(&hit_of(kit.look(url)), coding, kit.now())?;
    Some(form.pieces().iter().flat_map(|piece| piece.to_vec()).collect())
}

#[test]
fn a_form_is_made_when_it_was_wanted_a_few_times() {
    let kit = Kit::new();
    kit.put("/", 100.0, b"packed");
    let obj = hit_of(kit.look("/"));
    assert!(kit.cache.wants_form(&obj, Coding::Identity).is_none());
    assert!(kit.cache.wants_form(&obj, Coding::Brotli).is_none(), "each coding by itself");
    assert!(kit.cache.wants_form(&obj, Coding::Identity).is_none());
    let mut right = kit.cache.wants_form(&obj, Coding::Identity).expect("the third time");
    assert!(wanted(&kit, &obj, Coding::Identity).is_none(), "it is in the making");
    right.add(b"what it").unwrap();
    right.add(b" unpacks to").unwrap();
    assert_eq!(found(&kit, "/", Coding::Identity), None, "not before it is whole");
    assert_eq!(right.keep().0, Ok(()));
    assert_eq!(found(&kit, "/", Coding::Identity), Some(b"what it unpacks to".to_vec()));
    assert_eq!((found(&kit, "/", Coding::Gzip), kit.main.n_form.get(), kit.main.form_made.get()), (None, 1, 1));
    assert!(wanted(&kit, &obj, Coding::Identity).is_none(), "it is there");
}

#[test]
fn it_goes_with_its_object_and_its_bytes_are_the_stores() {
    let kit = Kit::with(Some(1 << 20), CacheParams::default());
    kit.put("/", 100.0, &[b'x'; 1000]);
    let (before, obj) = (kit.held(), hit_of(kit.look("/")));
    make(&kit, &obj, Coding::Identity, &[b'y'; 3000]).unwrap();
    make(&kit, &obj, Coding::Brotli, &[b'z'; 500]).unwrap();
    assert_eq!((kit.held(), kit.main.form_bytes.get()), (before + 3500, 3500));
    assert_eq!(kit.cache.audit().unwrap().bytes[&obj.store()], kit.held());
    kit.cache.kill(&obj);
    assert!(found_of(&kit, &obj), "whoever has the object has its forms");
    drop(obj);
    assert_eq!((kit.held(), kit.main.form_bytes.get(), kit.main.n_form.get()), (0, 0, 0));
}

fn found_of(kit: &Kit, obj: &ObjRef) -> bool {
    kit.cache.form(obj, Coding::Brotli, kit.now()).is_some()
}

#[test]
fn one_in_delivery_keeps_its_bytes_and_they_count() {
    let kit = Kit::new();
    kit.put("/", 100.0, b"packed");
    let obj = hit_of(kit.look("/"));
    make(&kit, &obj, Coding::Identity, &[b'y'; 3000]).unwrap();
    let form = kit.cache.form(&obj, Coding::Identity, kit.now()).unwrap();
    kit.cache.kill(&obj);
    drop(obj);
    assert_eq!((kit.main.form_bytes.get(), form.pieces()[0].len()), (3000, 3000));
    drop(form);
    assert_eq!(kit.main.form_bytes.get(), 0);
}

#[test]
fn a_harder_one_takes_the_place_of_its_like() {
    let kit = Kit::new();
    kit.put("/", 100.0, b"packed");
    let obj = hit_of(kit.look("/"));
    make(&kit, &obj, Coding::Brotli, b"packed somehow").unwrap();
    let mut right = kit.cache.wants_hard_form(&obj, Coding::Brotli).expect("there is none so hard");
    assert!(right.is_hard() && kit.cache.wants_hard_form(&obj, Coding::Brotli).is_none());
    right.add(b"hard").unwrap();
    right.keep().0.unwrap();
    assert_eq!((found(&kit, "/", Coding::Brotli), kit.main.n_form.get()), (Some(b"hard".to_vec()), 1));
    assert!(kit.cache.wants_hard_form(&obj, Coding::Brotli).is_none(), "as hard as it can be");
}

#[test]
fn what_was_refused_is_not_asked_for_again() {
    let kit = Kit::new();
    kit.put("/", 100.0, b"packed");
    let obj = hit_of(kit.look("/"));
    wanted(&kit, &obj, Coding::Zstd).unwrap().refuse();
    assert!(wanted(&kit, &obj, Coding::Zstd).is_none());
    drop(wanted(&kit, &obj, Coding::Gzip).expect("others are"));
    assert!(wanted(&kit, &obj, Coding::Gzip).is_some(), "nothing was said of this one");
    assert_eq!(kit.main.form_refused.get(), 1);
}

#[test]
fn forms_keep_to_their_share_and_the_one_that_is_not_used_goes() {
    let kit = Kit::with(Some(1 << 20), CacheParams::default());
    for n in 0..40 {
        let url = format!("/{n}");
        kit.put(&url, 1000.0, &[b'x'; 1000]);
        let obj = hit_of(kit.look(&url));
        make(&kit, &obj, Coding::Identity, &[b'y'; 20_000]).unwrap();
        assert!(kit.main.form_bytes.get() <= 1 << 18);
        found(&kit, "/0", Coding::Identity).expect("it is used all the time");
    }
    assert!(kit.main.form_evicted.get() > 20);
    assert_eq!(kit.verdict("/1"), "hit", "objects stay");
    // Larger than one may be.
    let obj = hit_of(kit.look("/39"));
    let right = wanted(&kit, &obj, Coding::Zstd).unwrap();
    assert!(right.may_be(1 << 16) && !right.may_be((1 << 16) + 1));
    drop(right);
    assert_eq!(make(&kit, &obj, Coding::Brotli, &[b'y'; 70_000]), Err(NoForm::NoRoom));
    assert!(wanted(&kit, &obj, Coding::Brotli).is_none());
}

#[test]
fn one_that_nobody_uses_goes_before_an_object() {
    let kit = Kit::with(Some(1 << 20), CacheParams::default());
    kit.put("/old", 1000.0, &[b'x'; 1000]);
    let obj = hit_of(kit.look("/old"));
    make(&kit, &obj, Coding::Identity, &[b'y'; 60_000]).unwrap();
    drop(obj);
    let fill = |from: usize| (from..from + 29).for_each(|n| kit.put(&format!("/{n}"), 1000.0, &[b'x'; 32_000]));
    fill(0);
    assert_eq!((kit.main.n_form.get(), kit.main.n_lru_nuked.get()), (1, 0));
    kit.pass(31.0);
    kit.put("/more", 1000.0, &[b'x'; 60_000]);
    assert_eq!((kit.main.n_form.get(), kit.main.form_evicted.get(), kit.main.n_lru_nuked.get()), (0, 1, 0));
    assert_eq!(kit.verdict("/old"), "hit");
}

#[test]
fn none_are_kept_where_there_is_no_space_for_any() {
    let kit = Kit::with(None, CacheParams { form_space: 0, ..CacheParams::default() });
    kit.put("/", 100.0, b"packed");
    let obj = hit_of(kit.look("/"));
    assert!(wanted(&kit, &obj, Coding::Identity).is_none());
    assert!(kit.cache.wants_hard_form(&obj, Coding::Brotli).is_none());
}

#[test]
fn few_are_made_at_a_time() {
    let kit = Kit::new();
    let rights: Vec<_> = (0..20)
        .filter_map(|n| {
            let url = format!("/{n}");
            kit.put(&url, 100.0, b"packed");
            wanted(&kit, &hit_of(kit.look(&url)), Coding::Identity)
        })
        .collect();
    assert_eq!(rights.len(), 8);
    drop(rights);
    assert!(wanted(&kit, &hit_of(kit.look("/19")), Coding::Identity).is_some());
}
