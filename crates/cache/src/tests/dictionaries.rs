// SPDX-License-Identifier: BSD-2-Clause
//! Compression dictionaries: how long they stay, what ends them, and their bounds.

use message::dictionary::{DictionaryHash, DictionaryRule};
use tables::counters::Xkey;

use super::kit::*;
use crate::*;

const HOST: &[u8] = b"Example.com";

fn hash(n: u32) -> DictionaryHash {
    let mut hash = [0; 32];
    hash[..4].copy_from_slice(&n.to_be_bytes());
    hash
}

fn source(url: &str) -> DictionarySource {
    let rule = DictionaryRule::parse(b"match=\"/app*\", match-dest=(\"script\")", HOST, url.as_bytes()).unwrap();
    DictionarySource { rule, host: HOST.into(), url: url.as_bytes().into() }
}

fn learn(kit: &Kit, url: &str, n: u32, bytes: usize) -> Result<(), NoDictionary> {
    kit.put(url, 100.0, b"stored");
    kit.cache.learn_dictionary(&hit_of(kit.look(url)), hash(n), vec![b'x'; bytes], source(url))
}

fn find(kit: &Kit, n: u32) -> Result<(), DictionaryMiss> {
    kit.cache.dictionary(&hash(n), b"example.com", b"/app.v2.js?x", Some(b"script")).map(drop)
}

const GONE: Result<(), DictionaryMiss> = Err(DictionaryMiss::Unknown);

#[test]
fn a_dictionary_is_found_by_hash_host_and_rule() {
    let kit = Kit::new();
    learn(&kit, "/app.v1.js", 1, 1000).unwrap();
    assert_eq!((find(&kit, 1), find(&kit, 2)), (Ok(()), GONE));
    let miss = |host: &[u8], url: &[u8], dest| kit.cache.dictionary(&hash(1), host, url, dest).map(drop).unwrap_err();
    assert_eq!(miss(b"example.org", b"/app", None), DictionaryMiss::OtherHost);
    assert_eq!(miss(HOST, b"/other", None), DictionaryMiss::NoMatch);
    assert_eq!(miss(HOST, b"/app", Some(b"document")), DictionaryMiss::NoMatch);
    assert_eq!(kit.main.n_dictionary.get(), 1);
    assert!((1000..2000).contains(&kit.main.dictionary_bytes.get()));
}

#[test]
fn objects_with_equal_bodies_are_one_dictionary() {
    let kit = Kit::new();
    for url in ["/app.v1.js", "/app.copy.js", "/app.v1.js"] {
        learn(&kit, url, 1, 1000).unwrap();
    }
    assert_eq!(kit.main.n_dictionary.get(), 1);
    kit.cache.purge(&digest("/app.v1.js"), kit.now(), Purge::HARD);
    assert_eq!((find(&kit, 1), kit.main.n_dictionary.get()), (Ok(()), 1), "it is still the other one's");
    kit.cache.purge(&digest("/app.copy.js"), kit.now(), Purge::HARD);
    assert_eq!((find(&kit, 1), kit.main.dictionary_invalidated.get(), kit.main.dictionary_bytes.get()), (GONE, 1, 0));
}

#[test]
fn a_body_under_many_urls_takes_the_room_of_one() {
    let kit = Kit::new();
    learn(&kit, "/app.v1.js", 1, 1 << 20).unwrap();
    for n in 1..=31 {
        learn(&kit, &format!("/app.js?n={n}"), 2, 1 << 20).unwrap();
    }
    assert_eq!((find(&kit, 1), find(&kit, 2), kit.main.n_dictionary.get()), (Ok(()), Ok(()), 2));
    assert!(kit.main.dictionary_bytes.get() < (2 << 20) + 32 * 1024, "{}", kit.main.dictionary_bytes.get());
    for n in 16..=31 {
        kit.cache.purge(&digest(&format!("/app.js?n={n}")), kit.now(), Purge::HARD);
    }
    assert_eq!(find(&kit, 2), GONE, "16 objects are remembered");
}

#[test]
fn a_refreshed_object_is_the_dictionary_that_it_was() {
    let kit = Kit::new();
    learn(&kit, "/app.js", 1, 1000).unwrap();
    let known = kit.cache.dictionary_of(&hit_of(kit.look("/app.js"))).expect("it was learned");
    kit.put("/app.js", 100.0, b"refreshed");
    let obj = hit_of(kit.look("/app.js"));
    assert!(kit.cache.dictionary_of(&obj).is_none());
    kit.cache.keep_dictionary(&obj, &known, source("/app.js")).unwrap();
    assert_eq!(kit.cache.dictionary_of(&obj).map(|known| known.hash), Some(hash(1)));
    assert_eq!((find(&kit, 1), kit.main.n_dictionary.get()), (Ok(()), 1));
    kit.cache.purge(&digest("/app.js"), kit.now(), Purge::HARD);
    assert_eq!((find(&kit, 1), kit.main.dictionary_bytes.get()), (GONE, 0));
    assert!(kit.cache.dictionary_of(&obj).is_none());
}

#[test]
fn few_bodies_are_read_at_a_time() {
    let kit = Kit::new();
    let mut readers: Vec<_> = (0..4).map(|_| kit.cache.begin_dictionary().expect("four")).collect();
    assert!(kit.cache.begin_dictionary().is_none());
    readers.pop();
    assert!(kit.cache.begin_dictionary().is_some());
}

#[test]
fn a_dictionary_outlives_its_object_unless_that_is_invalidated() {
    let kit = Kit::new();
    for n in 0..3 {
        learn(&kit, "/app.js", n, 1000).unwrap();
    }
    kit.pass(1000.0);
    kit.evict_all();
    assert_eq!([0, 1, 2].map(|n| find(&kit, n)), [Ok(()); 3]);
    kit.cache.purge(&digest("/app.js"), kit.now(), Purge { ttl: Some(0.0), ..Purge::default() });
    assert_eq!([0, 1, 2].map(|n| find(&kit, n)), [GONE; 3], "also by a soft purge");
    assert_eq!((kit.main.n_dictionary.get(), kit.main.dictionary_bytes.get()), (0, 0));
    assert_eq!(kit.main.dictionary_invalidated.get(), 3);
}

#[track_caller]
fn check_ban(ban: &str, ends: bool) {
    let kit = Kit::new();
    learn(&kit, "/app.v1.js", 1, 1000).unwrap();
    kit.put("/app.v1.js", 100.0, b"newer");
    kit.cache.ban(kit.cache.ban_of_text(ban).unwrap());
    assert_eq!(find(&kit, 1).is_err(), ends, "{ban}");
}

#[test]
fn a_ban_that_may_mean_the_object_ends_the_dictionary() {
    check_ban("req.url ~ /app", true);
    check_ban("req.url == /app.v2.js", false);
    check_ban("req.url ~ /app && req.http.host == Example.com", true);
    check_ban("req.http.Host == example.org", false);
    check_ban("obj.http.x-tag == red", true);
    check_ban("obj.http.x-tag == blue", false);
    check_ban("obj.status == 200 && obj.http.server ~ kit", true);
    check_ban("obj.status != 200", false);
    check_ban("obj.ttl < 1000s", true);
    check_ban("obj.ttl > 1000s", false);
    check_ban("req.http.x-country == de", true);
    check_ban("req.http.x-country == de && req.url ~ /other", false);
    check_ban("obj.last_hit > 1d", true);
}

#[test]
fn a_purge_by_key_ends_the_dictionary() {
    for (key, is_soft, ends) in [("red", false, true), ("red", true, true), ("blue", false, false)] {
        let kit = Kit::new();
        kit.cache.enable_tags(Box::leak(Box::<Xkey>::default()));
        let mut busy = busy_of(kit.look("/app.js"));
        busy.set_tags(vec![b"red"[..].into()]);
        kit.fill(busy, &TestReq::new("/app.js"), None, kit.attrs(100.0, 10.0, 0.0, ObjectFlags::NONE), b"x");
        let obj = hit_of(kit.look("/app.js"));
        kit.cache.learn_dictionary(&obj, hash(1), vec![b'x'; 10], source("/app.js")).unwrap();
        kit.put("/app.js", 100.0, b"newer, without a key");
        let mut purge = kit.cache.purge_tags([key.as_bytes()].into_iter(), kit.now(), is_soft);
        while purge.step().is_none() {}
        assert_eq!(find(&kit, 1).is_err(), ends, "{key}");
    }
}

#[test]
fn an_object_that_was_invalidated_meanwhile_becomes_no_dictionary() {
    let invalidations: [&dyn Fn(&Kit); 4] = [
        &|kit| assert_eq!(kit.cache.purge(&digest("/app.js"), kit.now(), Purge::HARD), 1),
        &|kit| {
            assert_eq!(kit.cache.purge(&digest("/app.js"), kit.now(), Purge { ttl: Some(0.0), ..Purge::default() }), 1)
        },
        &|kit| kit.cache.ban(kit.cache.ban_of_text("req.url == /app.js").unwrap()),
        &|kit| kit.pass(101.0),
    ];
    for (n, invalidate) in invalidations.into_iter().enumerate() {
        let kit = Kit::new();
        kit.put_as(&TestReq::new("/app.js"), None, kit.attrs(100.0, 1000.0, 0.0, ObjectFlags::NONE), b"x");
        let obj = hit_of(kit.look("/app.js"));
        invalidate(&kit);
        let learned = kit.cache.learn_dictionary(&obj, hash(1), vec![b'x'; 10], source("/app.js"));
        assert_eq!((learned, find(&kit, 1)), (Err(NoDictionary::Gone), GONE), "invalidation {n}");
    }
}

#[test]
fn ten_thousand_dictionaries_keep_to_their_bounds() {
    let params = CacheParams { dictionary_space: 1 << 20, dictionary_max: 100, ..CacheParams::default() };
    let kit = Kit::with(None, params);
    kit.put("/app.js", 1e6, b"stored");
    let obj = hit_of(kit.look("/app.js"));
    for n in 0..10_000 {
        let bytes = vec![b'x'; 1000 + n as usize * 2];
        kit.cache.learn_dictionary(&obj, hash(n), bytes, source("/app.js")).unwrap();
        find(&kit, 0).expect("it is used all the time");
        assert!(kit.main.dictionary_bytes.get() <= 1 << 20 && kit.main.n_dictionary.get() <= 100);
    }
    assert_eq!(find(&kit, 9_000), GONE, "used longest ago");
    assert_eq!(find(&kit, 9_999), Ok(()));
    assert_eq!(kit.main.dictionary_evicted.get() + kit.main.n_dictionary.get(), 10_000);
    assert_eq!(learn(&kit, "/app.js", 1, 300_000), Err(NoDictionary::TooLarge));
}

#[test]
fn smaller_bounds_hold_at_once() {
    let kit = Kit::new();
    for n in 0..10 {
        learn(&kit, &format!("/app{n}"), n, 1000).unwrap();
    }
    kit.cache.set_params(CacheParams { dictionary_max: 3, ..CacheParams::default() });
    assert_eq!((kit.main.n_dictionary.get(), find(&kit, 9), find(&kit, 6)), (3, Ok(()), GONE));
    kit.cache.set_params(CacheParams { dictionary_max: 0, ..CacheParams::default() });
    assert_eq!(learn(&kit, "/app", 1, 1), Err(NoDictionary::TooLarge));
    kit.cache.set_params(CacheParams { dictionary_space: 0, ..CacheParams::default() });
    assert_eq!((kit.main.n_dictionary.get(), kit.main.dictionary_bytes.get()), (0, 0));
    assert_eq!(learn(&kit, "/app", 1, 1), Err(NoDictionary::TooLarge));
}

fn make_against(kit: &Kit, obj: &ObjRef, n: u32, body: &[u8]) {
    let mut right = kit.cache.wants_form_against(obj, hash(n)).expect("at once");
    right.add(body).unwrap();
    right.keep().0.unwrap();
}

#[test]
fn an_object_has_a_form_for_each_dictionary_up_to_a_bound() {
    let kit = Kit::new();
    kit.put("/app.v2.js", 10_000.0, b"stored");
    let obj = hit_of(kit.look("/app.v2.js"));
    for n in 0..10 {
        if n == 8 {
            assert!(kit.cache.wants_form_against(&obj, hash(n)).is_none(), "too many for now");
            assert!(kit.cache.has_many_forms_against(&obj));
            kit.pass(600.0);
        }
        make_against(&kit, &obj, n, &n.to_be_bytes());
    }
    let found = |n| kit.cache.form(&obj, hash(n), kit.now()).is_some();
    assert!((2..10).all(found) && !found(1));
    assert_eq!((kit.main.n_form.get(), kit.main.form_bytes.get()), (8, 32));
    assert!(kit.cache.wants_form_against(&obj, hash(9)).is_none(), "it is there");
    kit.cache.purge(&digest("/app.v2.js"), kit.now(), Purge::HARD);
    drop(obj);
    assert_eq!((kit.main.n_form.get(), kit.main.form_bytes.get()), (0, 0));
}

#[test]
fn hashes_in_turn_have_few_forms_made() {
    let kit = Kit::new();
    kit.put("/", 10_000.0, b"stored");
    let obj = hit_of(kit.look("/"));
    let mut made = 0;
    for n in 0..1000 {
        if kit.cache.form(&obj, hash(n % 9), kit.now()).is_none()
            && let Some(mut right) = kit.cache.wants_form_against(&obj, hash(n % 9))
        {
            right.add(b"form").unwrap();
            right.keep().0.unwrap();
            made += 1;
        }
    }
    assert_eq!(made, 8);
    assert!(kit.cache.wants_hard_form(&obj, message::Coding::Gzip).is_some(), "others aren't counted");
}

#[test]
fn half_of_the_makers_are_for_ordinary_forms() {
    let kit = Kit::new();
    kit.put("/", 100.0, b"stored");
    let obj = hit_of(kit.look("/"));
    let rights: Vec<_> = (0..8).filter_map(|n| kit.cache.wants_form_against(&obj, hash(n))).collect();
    assert_eq!(rights.len(), 4);
    assert!(kit.cache.wants_hard_form(&obj, message::Coding::Gzip).is_some());
}

#[test]
fn a_form_against_a_dictionary_that_was_refused_is_not_asked_for_again() {
    let kit = Kit::new();
    kit.put("/", 10_000.0, b"stored");
    let obj = hit_of(kit.look("/"));
    for n in 0..12 {
        if n == 8 {
            kit.pass(600.0);
        }
        kit.cache.wants_form_against(&obj, hash(n)).expect("another one").refuse();
        assert!(kit.cache.is_form_refused(&obj, hash(n)));
        assert!(kit.cache.wants_form_against(&obj, hash(n)).is_none());
    }
    assert!(!kit.cache.is_form_refused(&obj, hash(0)), "only the latest are remembered");
}
