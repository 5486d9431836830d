// SPDX-License-Identifier: BSD-2-Clause
//! Verdicts of a lookup.

use tables::Compat;

use base::Mono;

use super::kit::*;
use crate::*;

#[test]
fn what_was_fetched_is_found() {
    let kit = Kit::new();
    assert_eq!(kit.verdict("/"), "miss");
    kit.put("/", 10.0, b"hello");
    let obj = hit_of(kit.look("/"));
    assert_eq!((obj.head(), obj.body_len(), obj.hits(), obj.fetched()), (HEAD, Some(5), 1, None));
    assert_eq!(block_on(read_all(&obj)).unwrap(), b"hello");
    assert_eq!((kit.main.n_object.get(), kit.main.n_objecthead.get(), kit.main.n_objectcore.get()), (1, 1, 1));
}

#[test]
fn a_life_goes_fresh_grace_keep_gone() {
    let kit = Kit::new();
    kit.put_as(&TestReq::new("/"), None, kit.attrs(10.0, 5.0, 3.0, ObjectFlags::NONE), b"x");
    let mut seen = Vec::new();
    for _ in 0..20 {
        kit.cache.expire(kit.now(), 100, &mut |_| {});
        seen.push(kit.verdict("/"));
        kit.pass(1.0);
    }
    seen.dedup();
    assert_eq!(seen, ["hit", "grace+fetch", "miss+stale", "miss"]);
    assert_eq!((kit.main.n_expired.get(), kit.main.n_object.get(), kit.held()), (1, 0, 0));
}

#[test]
fn a_request_may_say_what_is_fresh_enough() {
    let kit = Kit::new();
    kit.put_as(&TestReq::new("/"), None, kit.attrs(10.0, 5.0, 60.0, ObjectFlags::NONE), b"x");
    kit.pass(4.0);
    let check = |max_age: Option<f64>, min_fresh: Option<f64>, is_hit: bool| {
        let looked =
            kit.look_with(&TestReq::new("/"), &LookupOptions { max_age, min_fresh, ..LookupOptions::default() });
        assert_eq!(word(&looked), if is_hit { "hit" } else { "miss+stale" }, "{max_age:?} {min_fresh:?}");
    };
    check(None, None, true);
    check(Some(5.0), Some(5.0), true);
    check(Some(4.0), None, false);
    check(Some(0.0), None, false);
    check(None, Some(6.0), false);
    // In its grace it is nothing to who has a wish.
    kit.pass(7.0);
    check(Some(20.0), None, false);
    check(None, Some(0.0), false);
    assert_eq!(kit.verdict("/"), "grace+fetch");
}

#[test]
fn a_marker_is_nothing_to_be_fresh_enough() {
    let kit = Kit::new();
    kit.put_as(&TestReq::new("/"), None, kit.attrs(10.0, 0.0, 0.0, ObjectFlags::HIT_FOR_PASS), b"");
    let wish = LookupOptions { max_age: Some(0.0), ..LookupOptions::default() };
    assert_eq!(word(&kit.look_with(&TestReq::new("/"), &wish)), "hit-for-pass");
}

#[test]
fn at_most_one_background_fetch() {
    let kit = Kit::new();
    kit.put_as(&TestReq::new("/"), None, kit.attrs(1.0, 60.0, 0.0, ObjectFlags::NONE), b"x");
    kit.pass(2.0);
    let first = kit.look("/");
    assert_eq!((word(&first), kit.verdict("/")), ("grace+fetch", "grace"));
    drop(first);
    assert_eq!(kit.verdict("/"), "grace+fetch");
}

#[test]
fn a_request_may_want_it_fresher() {
    let kit = Kit::new();
    kit.put_as(&TestReq::new("/"), None, kit.attrs(100.0, 100.0, 0.0, ObjectFlags::NONE), b"x");
    kit.pass(50.0);
    let verdict = |max_ttl, max_grace| {
        word(&kit.look_with(&TestReq::new("/"), &LookupOptions { max_ttl, max_grace, ..LookupOptions::default() }))
    };
    // Fresh by its own ttl, it isn't a stale candidate either: as in Varnish that is a plain miss.
    assert_eq!(
        (verdict(Some(40.0), None), verdict(Some(60.0), None), verdict(Some(-1.0), None)),
        ("miss", "hit", "hit")
    );
    kit.pass(60.0);
    assert_eq!(
        (verdict(None, Some(5.0)), verdict(None, Some(20.0)), verdict(None, Some(-1.0))),
        ("miss+stale", "grace+fetch", "grace+fetch")
    );
}

#[test]
fn options_bypass_what_they_say() {
    let kit = Kit::new();
    kit.put("/", 10.0, b"x");
    let options = LookupOptions { always_miss: true, ..LookupOptions::default() };
    assert_eq!(word(&kit.look_with(&TestReq::new("/"), &options)), "miss");
    let _busy = kit.look("/new");
    assert_eq!(kit.verdict("/new"), "wait");
    let options = LookupOptions { ignore_busy: true, ..LookupOptions::default() };
    assert_eq!(word(&kit.look_with(&TestReq::new("/new"), &options)), "miss");
}

#[test]
fn hit_for_miss_and_hit_for_pass() {
    let kit = Kit::new();
    kit.put_as(&TestReq::new("/m"), None, kit.attrs(10.0, 0.0, 100.0, ObjectFlags::HIT_FOR_MISS), b"x");
    kit.put_as(&TestReq::new("/p"), None, kit.attrs(10.0, 0.0, 100.0, ObjectFlags::HIT_FOR_PASS), b"x");
    let Ok(Found::HitForMiss { busy, ttl_left, .. }) = kit.look("/m") else { panic!() };
    // Nobody waits for it, though it is busy.
    assert_eq!((kit.verdict("/m"), kit.verdict("/p"), ttl_left), ("hit-for-miss", "hit-for-pass", 10.0));
    drop(busy);
    kit.pass(11.0);
    assert_eq!((kit.verdict("/m"), kit.verdict("/p")), ("hit-for-miss", "hit-for-miss"));
    // Its body went to its client and isn't kept.
    assert_eq!(kit.held(), 2 * HEAD.len() as u64);
}

#[test]
fn a_marker_hides_nothing_from_who_looks_behind_it() {
    let behind = LookupOptions { looks_behind_markers: true, ..LookupOptions::default() };
    let validated = ObjectFlags { reuse: Reuse::HitOrRevalidate, ..ObjectFlags::NONE };
    let kit = Kit::new();
    let req = |lang: &str| TestReq::new("/").field("lang", lang);
    kit.put_as(&req("de"), Some("lang"), kit.attrs(10.0, 5.0, 100.0, validated), b"x");
    kit.put_as(&req("en"), None, kit.attrs(30.0, 0.0, 0.0, ObjectFlags::HIT_FOR_MISS), b"x");
    let look = |lang| kit.look_with(&req(lang), &behind);
    assert_eq!((word(&look("de")), kit.verdict_as(&req("de"))), ("hit", "hit-for-miss"));
    kit.pass(11.0);
    assert_eq!(word(&look("de")), "grace+fetch");
    for _ in ["live", "over"] {
        kit.pass(15.0);
        let Ok(Found::HitForMiss { busy, stale: Some(stale), .. }) = look("de") else { panic!() };
        assert_eq!(stale.flags().reuse, Reuse::HitOrRevalidate);
        // Nobody waits for it, though it is busy.
        assert!(matches!(look("de"), Ok(Found::HitForMiss { stale: Some(_), .. })));
        assert!(matches!(look("en"), Ok(Found::HitForMiss { stale: None, .. })));
        drop(busy);
    }
}

#[test]
fn lives_are_extended_and_what_is_stale_may_be_a_hit() {
    let kit = Kit::new();
    let stale = LookupOptions { takes_stale: true, ..LookupOptions::default() };
    kit.put_as(&TestReq::new("/"), None, kit.attrs(10.0, 0.0, 10.0, ObjectFlags::NONE), b"x");
    let longer = ObjectTimes { t_origin: kit.now(), ttl: 30.0, grace: 0.0, keep: 10.0 };
    kit.pass(15.0);
    assert_eq!((kit.verdict("/"), word(&kit.look_with(&TestReq::new("/"), &stale))), ("miss+stale", "hit"));
    assert_eq!(kit.cache.extend_stored(&digest("/"), longer), 1);
    assert_eq!(kit.verdict("/"), "hit");
    assert_eq!(kit.cache.extend_stored(&digest("/"), longer), 0, "it lives as long");
    kit.pass(20.0);
    kit.cache.expire(kit.now(), usize::MAX, &mut |_| {});
    assert_eq!((kit.verdict("/"), word(&kit.look_with(&TestReq::new("/"), &stale))), ("miss+stale", "hit"));
    kit.cache.purge(&digest("/"), kit.now(), Purge::HARD);
    assert_eq!(kit.cache.extend_stored(&digest("/"), ObjectTimes { ttl: 90.0, ..longer }), 0);
    assert_eq!(word(&kit.look_with(&TestReq::new("/"), &stale)), "miss");
}

#[test]
fn what_is_stored_for_a_request_is_told_without_a_lookup() {
    let kit = Kit::new();
    let req = |lang: &str| TestReq::new("/").field("lang", lang);
    for (lang, flags) in [("de", ObjectFlags::NONE), ("en", ObjectFlags::NONE), ("de", ObjectFlags::HIT_FOR_MISS)] {
        kit.put_as(&req(lang), Some("lang"), kit.attrs(10.0, 0.0, 0.0, flags), lang.as_bytes());
    }
    let of = |lang| kit.cache.stored_for(&digest("/"), &req(lang)).len();
    assert_eq!((of("de"), of("en"), of("fr")), (1, 1, 0));
}

#[test]
fn a_marker_takes_the_place_of_an_older_one() {
    let kit = Kit::new();
    let put = |ttl: f64, vary: Option<&str>, flags: ObjectFlags| {
        kit.put_as(&TestReq::new("/").field("lang", "de"), vary, kit.attrs(ttl, 0.0, 0.0, flags), b"x");
    };
    (0..9).for_each(|_| put(10.0, None, ObjectFlags::HIT_FOR_MISS));
    assert_eq!((kit.main.n_object.get(), kit.main.n_objecthead.get()), (1, 1));
    // Not one that says something else, to others, or for longer.
    put(10.0, None, ObjectFlags::HIT_FOR_PASS);
    put(10.0, Some("lang"), ObjectFlags::HIT_FOR_PASS);
    put(5.0, Some("lang"), ObjectFlags::HIT_FOR_PASS);
    assert_eq!(kit.main.n_object.get(), 4);
    put(5.0, Some("lang"), ObjectFlags::HIT_FOR_PASS);
    assert_eq!(kit.main.n_object.get(), 4);
    // While it is busy the older one is found.
    let busy = busy_of(kit.look_with(&TestReq::new("/m"), &LookupOptions::default()));
    kit.fill(busy, &TestReq::new("/m"), None, kit.attrs(10.0, 0.0, 0.0, ObjectFlags::HIT_FOR_MISS), b"x");
    let busy = busy_of(kit.look("/m"));
    assert_eq!(kit.verdict("/m"), "hit-for-miss");
    kit.fill(busy, &TestReq::new("/m"), None, kit.attrs(10.0, 0.0, 0.0, ObjectFlags::HIT_FOR_MISS), b"x");
    assert_eq!((kit.verdict("/m"), kit.main.n_object.get()), ("hit-for-miss", 5));
}

#[test]
fn variants_by_vary() {
    let kit = Kit::new();
    let lang = |lang: &str| TestReq::new("/").field("lang", lang);
    kit.put_as(&lang("de"), Some("lang"), kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), b"de");
    assert_eq!((kit.verdict_as(&lang("de")), kit.verdict_as(&lang("fr"))), ("hit", "miss"));
    let options = LookupOptions { ignore_vary: true, ..LookupOptions::default() };
    assert_eq!(word(&kit.look_with(&lang("fr"), &options)), "hit");
    // Who asks for another variant than the one being fetched isn't kept waiting.
    let fetch = kit.look_as(&lang("fr"));
    assert_eq!((word(&fetch), kit.verdict_as(&lang("fr")), kit.verdict_as(&lang("it"))), ("miss", "wait", "miss"));
}

#[test]
fn one_of_thousands_of_variants() {
    let kit = Kit::with(None, CacheParams { vary_limit: 1000, ..CacheParams::default() });
    let user = |n: usize| TestReq::new("/").field("user", &n.to_string()).field("lang", "de");
    for n in 0..1005 {
        let spec = if n % 2 == 0 { "user" } else { "user,lang" };
        kit.put_as(&user(n), Some(spec), kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), n.to_string().as_bytes());
    }
    let obj = hit_of(kit.look_as(&user(777)));
    assert_eq!(block_on(read_all(&obj)).unwrap(), b"777");
    // The oldest had to go; no other was touched.
    assert_eq!(
        (kit.verdict_as(&user(4)), kit.verdict_as(&user(5)), kit.verdict_as(&user(5000))),
        ("miss", "hit", "miss")
    );
    assert_eq!((kit.main.vary_limit.get(), kit.main.n_object.get(), kit.main.n_objecthead.get()), (5, 1000, 1));
    let many = || (kit.main.vary_many.get(), kit.main.n_vary_many.get());
    assert_eq!((many(), kit.main.vary_max.get()), ((1, 1), 1001));
    kit.put_as(
        &TestReq::new("/few").field("user", "a"),
        Some("user"),
        kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE),
        b"a",
    );
    assert_eq!(many(), (1, 1));
    kit.cache.purge(&digest("/"), kit.now(), Purge::HARD);
    assert_eq!((many(), kit.main.vary_max.get()), ((1, 0), 1001));
}

#[test]
fn a_purge_takes_all_variants() {
    let kit = Kit::new();
    for lang in ["de", "fr"] {
        let req = TestReq::new("/").field("lang", lang);
        kit.put_as(&req, Some("lang"), kit.attrs(10.0, 10.0, 10.0, ObjectFlags::NONE), b"x");
    }
    assert_eq!(kit.cache.purge(&digest("/"), kit.now(), Purge::HARD), 2);
    assert_eq!((kit.verdict("/"), kit.held(), kit.main.n_obj_purged.get()), ("miss", 0, 2));
    assert_eq!(kit.cache.census(), (0, 0, 0));
}

#[test]
fn who_sleeps_until_an_object_is_due_hears_of_an_earlier_one() {
    let kit = Kit::new();
    let bell = std::sync::Arc::new(TestBell::default());
    kit.cache.wake_expiry_by(bell.clone().into(), kit.now().plus(5.0));
    kit.put_as(&TestReq::new("/late"), None, kit.attrs(100.0, 0.0, 0.0, ObjectFlags::NONE), b"x");
    assert_eq!(bell.rings(), 0);
    kit.put_as(&TestReq::new("/soon"), None, kit.attrs(1.0, 0.0, 0.0, ObjectFlags::NONE), b"x");
    kit.put_as(&TestReq::new("/sooner"), None, kit.attrs(0.5, 0.0, 0.0, ObjectFlags::NONE), b"x");
    assert_eq!(bell.rings(), 1, "once");
}

#[test]
fn a_soft_purge_of_a_fetch_leaves_grace() {
    let kit = Kit::new();
    let busy = busy_of(kit.look("/"));
    kit.cache.purge(&digest("/"), kit.now(), Purge { ttl: Some(0.0), grace: None, keep: None });
    // The answer is younger than the purge.
    kit.pass(1.0);
    kit.fill(busy, &TestReq::new("/"), None, kit.attrs(10.0, 20.0, 0.0, ObjectFlags::NONE), b"x");
    kit.pass(1.0);
    assert_eq!(kit.verdict("/"), "grace+fetch");
}

#[test]
fn a_softly_purged_fetch_still_answers_who_asked_before() {
    let kit = Kit::new();
    let fetch = busy_of(kit.look("/"));
    let early = parked(kit.look("/"));
    kit.cache.purge(&digest("/"), kit.now(), Purge { ttl: Some(0.0), grace: None, keep: None });
    let late = parked(kit.look("/"));
    kit.cache.purge(&digest("/"), kit.now(), Purge { ttl: Some(0.0), grace: None, keep: None });
    kit.pass(1.0);
    // It has no grace: dead already, but for those who asked before.
    kit.fill(fetch, &TestReq::new("/"), None, kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), b"old");
    kit.cache.expire(kit.now(), usize::MAX, &mut |_| {});
    let early = kit.look_again(early, &TestReq::new("/"));
    assert_eq!((word(&early), word(&kit.look_again(late, &TestReq::new("/")))), ("hit", "miss"));
    kit.pass(100.0);
    kit.cache.expire(kit.now(), usize::MAX, &mut |_| {});
    assert_eq!(kit.cache.census(), (0, 0, 0));
}

#[test]
fn a_soft_purge_brings_nothing_back() {
    let kit = Kit::new();
    kit.put_as(&TestReq::new("/"), None, kit.attrs(100.0, 20.0, 0.0, ObjectFlags::NONE), b"x");
    kit.pass(10.0);
    let soft = Purge { ttl: Some(0.0), ..Purge::default() };
    kit.cache.purge(&digest("/"), kit.now(), soft);
    let before = kit.now();
    kit.pass(5.0);
    kit.cache.purge(&digest("/"), kit.now(), soft);
    // A request that came between the two, and looks up after both.
    let between = Mono(before.0 + 1.0);
    let mut search = Search::new(digest("/"), between, LookupOptions::default());
    let lookup = search.look(&kit.cache, &TestReq::new("/"));
    assert!(matches!(lookup, Lookup::Ready(Found::Grace { busy: Some(_), .. })));
}

#[test]
fn a_dead_origin_is_survived_for_the_graced_time() {
    const HOUR: f64 = 3600.0;
    let kit = Kit::new();
    kit.put_as(&TestReq::new("/"), None, kit.attrs(60.0, 4.0 * HOUR, HOUR, ObjectFlags::NONE), b"x");
    // VCL's choice: ten seconds while the origin is well, four hours once it is not.
    let with_grace =
        |grace| kit.look_with(&TestReq::new("/"), &LookupOptions { max_grace: Some(grace), ..Default::default() });
    kit.pass(65.0);
    assert_eq!(word(&with_grace(10.0)), "grace+fetch");
    for _ in 0..239 {
        // Each minute somebody asks, the fetch behind it fails, and the page is there.
        kit.pass(60.0);
        let Ok(Found::Grace { stale, busy: Some(busy) }) = with_grace(4.0 * HOUR) else { panic!("it is there") };
        busy.fail(FetchFailed::new("the origin is dead"));
        assert_eq!(block_on(read_all(&stale)).unwrap(), b"x");
        assert_eq!(word(&with_grace(10.0)), "miss+stale");
        kit.cache.expire(kit.now(), usize::MAX, &mut |_| {});
    }
    // Four hours and a minute after it came: too old to be delivered, good enough to be revalidated.
    kit.pass(60.0);
    assert_eq!(word(&with_grace(4.0 * HOUR)), "miss+stale");
    kit.pass(HOUR);
    kit.cache.expire(kit.now(), usize::MAX, &mut |_| {});
    assert_eq!(word(&with_grace(4.0 * HOUR)), "miss");
}

#[test]
fn a_soft_purge_leaves_grace() {
    let kit = Kit::new();
    kit.put_as(&TestReq::new("/"), None, kit.attrs(100.0, 50.0, 0.0, ObjectFlags::NONE), b"x");
    kit.pass(1.0);
    kit.cache.purge(&digest("/"), kit.now(), Purge { ttl: Some(0.0), grace: Some(20.0), keep: None });
    kit.pass(0.1);
    assert_eq!(kit.verdict("/"), "grace+fetch");
    kit.pass(20.0);
    assert_eq!(kit.cache.expire(kit.now(), 10, &mut |_| {}), 1);
    assert_eq!(kit.verdict("/"), "miss");
}

#[test]
fn a_purge_overtakes_a_fetch() {
    let kit = Kit::new();
    let fetch = busy_of(kit.look("/"));
    let early = parked(kit.look("/"));
    kit.cache.purge(&digest("/"), kit.now(), Purge::HARD);
    let (late, later) = (parked(kit.look("/")), parked(kit.look("/")));
    kit.fill(fetch, &TestReq::new("/"), None, kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), b"old");
    assert!(early.is_woken() && late.is_woken() && later.is_woken());
    // Who asked after the purge gets a new one, and only one of them fetches it.
    let fetch = busy_of(kit.look_again(late, &TestReq::new("/")));
    let later = parked(kit.look_again(later, &TestReq::new("/")));
    // Who asked before has its answer.
    assert_eq!(word(&kit.look_again(early, &TestReq::new("/"))), "hit");
    kit.fill(fetch, &TestReq::new("/"), None, kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), b"new");
    let obj = hit_of(kit.look_again(later, &TestReq::new("/")));
    assert_eq!(block_on(read_all(&obj)).unwrap(), b"new");
    kit.pass(11.0);
    kit.cache.expire(kit.now(), 10, &mut |_| {});
    drop(obj);
    assert_eq!((kit.cache.census(), kit.held()), ((0, 0, 0), 0));
}

#[test]
fn the_digest_is_varnishs() {
    let mut builder = DigestBuilder::new();
    [Some(&b"/"[..]), Some(b"localhost"), None].into_iter().for_each(|part| builder.add(part));
    // SHA-256 of "/localhost" and a NUL.
    let mut same = DigestBuilder::new();
    same.add(Some(b"/localhost\0"));
    assert_eq!(builder.finish(), same.finish());
}

/// A search that is parked behind a fetch, whose object it finds `seconds` after it came.
fn after_a_wait(kit: &Kit, ttl: f64, seconds: f64) -> Box<Waiting> {
    let busy = busy_of(kit.look("/"));
    let waiting = parked(kit.look("/"));
    kit.fill(busy, &TestReq::new("/"), None, kit.attrs(ttl, 0.0, 60.0, ObjectFlags::NONE), b"x");
    kit.pass(seconds);
    waiting
}

#[test]
fn after_a_wait_the_search_judges_by_the_time_of_its_end() {
    let kit = Kit::new();
    let Waiting { mut search, pending } = *after_a_wait(&kit, 10.0, 11.0);
    assert_eq!(search.now(), Mono(1000.0));
    let lookup = search.look_again(&kit.cache, pending, &TestReq::new("/"));
    assert!(matches!(lookup, Lookup::Ready(Found::MissStale { .. })));
    // The report of the result compares with the same time.
    let stale = search.report.trace.stale.unwrap();
    assert!(stale.fresh_until(None).0 <= search.now().0 && search.now() == kit.now());
}

#[test]
fn a_search_that_begins_anew_keeps_its_time_and_forgets_its_wait() {
    let kit = Kit::new();
    let Waiting { mut search, pending } = *after_a_wait(&kit, 100.0, 11.0);
    assert!(matches!(search.look_again(&kit.cache, pending, &TestReq::new("/")), Lookup::Ready(Found::Hit(_))));
    let ended = search.now();
    kit.pass(1.0);
    assert!(matches!(search.look(&kit.cache, &TestReq::new("/")), Lookup::Ready(Found::Hit(_))));
    assert_eq!((search.now(), kit.main.busy_hit.get()), (ended, 1));
}

#[test]
fn events_before_a_wait_are_kept() {
    let kit = Kit::new();
    kit.put("/", 100.0, b"x");
    let always_miss = LookupOptions { always_miss: true, ..LookupOptions::default() };
    let _busy = busy_of(kit.look_with(&TestReq::new("/"), &always_miss));
    kit.cache.ban_text("req.url == /").unwrap();
    let waiting = parked(kit.look("/"));
    let events = waiting.search.report.events.iter().map(|event| event.text(Compat::V7_1).to_string());
    assert_eq!(events.collect::<Vec<_>>(), ["1 banned lookup"]);
}

#[test]
fn a_claim_takes_the_right_to_fetch_whatever_is_there() {
    let kit = Kit::new();
    kit.put("/", 10.0, b"old");
    let busy = kit.cache.claim(&digest("/"));
    assert_eq!(kit.verdict("/"), "hit");
    kit.fill(busy, &TestReq::new("/"), None, kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), b"new");
    assert_eq!(block_on(read_all(&hit_of(kit.look("/")))).unwrap(), b"new");
}
