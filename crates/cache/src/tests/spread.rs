// SPDX-License-Identifier: BSD-2-Clause
//! Bans that spread: when their objects become stale.

use tables::counters::Xkey;

use super::kit::*;
use crate::*;

const OBJECTS: usize = 200;

fn url(n: usize) -> String {
    format!("/{n}")
}

/// A cache with objects that are fresh for 1,000 s.
fn filled(objects: usize) -> Kit {
    let kit = Kit::new();
    kit.cache.enable_tags(Box::leak(Box::<Xkey>::default()));
    (0..objects).for_each(|n| put(&kit, &url(n)));
    kit
}

fn put(kit: &Kit, url: &str) {
    put_tagged(kit, url, "news");
}

fn put_tagged(kit: &Kit, url: &str, tag: &str) {
    let always = LookupOptions { always_miss: true, ..LookupOptions::default() };
    let busy = busy_of(kit.look_with(&TestReq::new(url), &always));
    fill(kit, busy, url, tag);
}

fn fill(kit: &Kit, mut busy: Busy, url: &str, tag: &str) {
    busy.set_tags(vec![tag.as_bytes().into()]);
    kit.fill(busy, &TestReq::new(url), None, kit.attrs(1000.0, 500.0, 0.0, ObjectFlags::NONE), b"x");
}

fn stale(kit: &Kit, urls: std::ops::Range<usize>) -> usize {
    urls.filter(|n| kit.verdict(&url(*n)) == "grace+fetch").count()
}

fn lurk(kit: &Kit) {
    while kit.cache.lurk(kit.now(), &mut |_| {}) < 0.5 {}
}

fn row(kit: &Kit) -> SpreadRow {
    let [row] = &kit.cache.spreads()[..] else { panic!("one ban is being spread") };
    row.clone()
}

#[test]
fn objects_become_stale_one_after_the_other() {
    let kit = filled(OBJECTS);
    kit.cache.ban_text("over=100s obj.tag == news").unwrap();
    lurk(&kit);
    assert_eq!((stale(&kit, 0..OBJECTS), row(&kit).matched), (0, OBJECTS as u64));
    let mut seen = Vec::new();
    for quarter in 1..4 {
        kit.pass(25.0);
        let count = stale(&kit, 0..OBJECTS);
        seen.push(count);
        assert!(row(&kit).turned.abs_diff(count as u64) <= 3, "{seen:?} {:?}", row(&kit));
        assert!((40 * quarter..60 * quarter).contains(&count), "{seen:?}");
    }
    kit.pass(25.0);
    assert_eq!(stale(&kit, 0..OBJECTS), OBJECTS);
    lurk(&kit);
    assert_eq!((kit.cache.spreads(), kit.main.bans_spread.get()), (Vec::new(), 0));
    assert_eq!(kit.main.bans_spread_objects.get(), OBJECTS as u64);
    assert_eq!(kit.main.bans_lurker_obj_killed.get() + kit.main.bans_obj_killed.get(), 0);
}

#[test]
fn a_rate_holds_whoever_tests_the_objects() {
    let kit = filled(OBJECTS);
    kit.cache.ban_text("over=2s rate=5/s obj.status == 200").unwrap();
    kit.cache.ban_text("rate=5/s obj.status == 404").unwrap();
    let mut before = 0;
    for second in 1..=40 {
        // Lookups have found half of them before the lurker comes.
        let now = stale(&kit, 0..OBJECTS / 2) + if second > 10 { stale(&kit, OBJECTS / 2..OBJECTS) } else { 0 };
        if second > 11 {
            assert!(now - before <= 6, "{before} -> {now} in second {second}");
        }
        before = now;
        kit.pass(1.0);
        lurk(&kit);
    }
    kit.pass(1.0);
    assert_eq!(stale(&kit, 0..OBJECTS), OBJECTS);
}

#[test]
fn only_what_was_fetched_before_is_meant() {
    let kit = filled(0);
    let always = LookupOptions { always_miss: true, ..LookupOptions::default() };
    let busy = busy_of(kit.look_with(&TestReq::new("/early"), &always));
    kit.cache.ban_text("over=10s obj.tag == a,news").unwrap();
    put(&kit, "/late");
    fill(&kit, busy, "/early", "news");
    put_tagged(&kit, "/other", "b");
    assert_eq!(["/early", "/late", "/other"].map(|url| kit.verdict(url)), ["hit"; 3]);
    kit.pass(11.0);
    assert_eq!(["/early", "/late", "/other"].map(|url| kit.verdict(url)), ["grace+fetch", "hit", "hit"]);
    put(&kit, "/early");
    assert_eq!(kit.verdict("/early"), "hit", "what renews an object isn't meant");
}

#[test]
fn nothing_lives_longer_by_a_spread_ban() {
    let kit = Kit::new();
    kit.put("/short", 3.0, b"x");
    kit.put("/graceless", 1000.0, b"x");
    kit.cache.ban_text("over=50s obj.status == 200").unwrap();
    lurk(&kit);
    assert_eq!(["/short", "/graceless"].map(|url| kit.verdict(url)), ["hit"; 2]);
    kit.pass(3.1);
    assert_eq!([kit.verdict("/short"), kit.verdict("/graceless")], ["miss+stale", "hit"]);
    kit.pass(50.0);
    assert_eq!(kit.verdict("/graceless"), "miss+stale");
}

#[test]
fn a_ban_counts_beside_a_spread_one() {
    let kit = filled(2);
    kit.cache.ban_text("over=50s obj.status == 200").unwrap();
    kit.cache.ban_text("req.url == /1").unwrap();
    assert_eq!([kit.verdict("/0"), kit.verdict("/1")], ["hit", "miss"]);
    kit.cache.ban_text("obj.status == 200").unwrap();
    assert_eq!(kit.verdict("/0"), "miss");
    assert_eq!(kit.main.bans_dups.get(), 0, "a ban and a spread one don't say the same");
}

#[test]
fn a_cancelled_ban_means_no_further_object() {
    let kit = filled(OBJECTS);
    kit.cache.ban_text("over=100s obj.tag == news").unwrap();
    // Half of them have their moments.
    let half = OBJECTS / 2;
    assert_eq!(stale(&kit, 0..half), 0);
    kit.pass(50.0);
    let turned = stale(&kit, 0..half);
    assert_eq!(kit.cache.cancel_spread(row(&kit).id + 1), None);
    let left = kit.cache.cancel_spread(row(&kit).id).unwrap();
    assert!(left.abs_diff((half - turned) as u64) <= 1, "{left} {turned}");
    assert_eq!((kit.cache.spreads(), kit.main.bans_spread.get()), (Vec::new(), 0));
    lurk(&kit);
    kit.pass(100.0);
    assert_eq!((stale(&kit, 0..half), stale(&kit, half..OBJECTS)), (half, 0));
    put(&kit, "/new");
    assert_eq!(kit.verdict("/new"), "hit");
}

#[test]
fn a_slow_rate_makes_objects_stale_and_does_not_remove_them() {
    let kit = Kit::new();
    kit.put_as(&TestReq::new("/"), None, kit.attrs(10_000.0, 5.0, 0.0, ObjectFlags::NONE), b"x");
    kit.cache.ban_text("rate=1/m obj.status == 200").unwrap();
    kit.pass(59.0);
    lurk(&kit);
    kit.pass(0.001);
    assert_eq!(kit.verdict("/"), "grace+fetch");
}

#[test]
fn what_expires_before_its_moment_takes_no_place() {
    let kit = filled(0);
    (0..20).for_each(|n| kit.put(&format!("/short{n}"), 30.0, b"x"));
    put(&kit, "/0");
    // Objects that expire soon are tested first.
    let ban = "rate=1/m obj.status == 200";
    kit.cache.ban_text(ban).unwrap();
    (0..20).for_each(|n| _ = kit.verdict(&format!("/short{n}")));
    lurk(&kit);
    assert_eq!((row(&kit).matched, kit.main.bans_spread_objects.get()), (2, 2), "one at once, one a minute later");
    kit.pass(60.1);
    assert_eq!(kit.verdict("/0"), "grace+fetch");
}

#[test]
fn nothing_keeps_a_ban_from_ending() {
    let ends = |kit: &Kit, text: &str| {
        kit.cache.ban_text(text).unwrap();
        lurk(kit);
        kit.pass(5.0);
        lurk(kit);
        assert_eq!(kit.cache.spreads().len(), 1, "{text}");
        kit.pass(5.1);
        let spec = kit.cache.ban_of_text("over=10s obj.status == 200").unwrap();
        assert_eq!(kit.cache.may_ban(&spec), Ok(()));
        assert_eq!((kit.main.bans_spread.get(), kit.cache.spreads().len()), (0, 0), "{text}");
    };
    let kit = filled(10);
    ends(&kit, "over=10s req.url == /1 && obj.status == 200");
    // A fetch that began before it.
    let _busy = busy_of(kit.look("/busy"));
    ends(&kit, "over=10s obj.status == 200");
    kit.cache.set_params(CacheParams { ban_lurker_sleep: 0.0, ..CacheParams::default() });
    ends(&kit, "over=10s obj.status == 404");
}

#[test]
fn bans_that_nobody_lists_end_too() {
    let kit = Kit::new();
    let made = |n: usize| {
        let spec = kit.cache.ban_of_text(&format!("over=10s req.url == /{n}")).unwrap();
        kit.cache.ban_made_at(spec, kit.clock.real())
    };
    assert!((0..64).all(made));
    assert!(!made(64), "objects become stale at once");
    assert_eq!((kit.main.bans_spread.get(), kit.cache.spreads().len()), (64, 64));
    kit.put_as(&TestReq::new("/65"), None, kit.attrs(100.0, 50.0, 0.0, ObjectFlags::NONE), b"x");
    assert!(!made(65));
    assert_eq!(kit.verdict("/65"), "grace+fetch");
    kit.pass(10.1);
    assert!(made(66));
    assert_eq!(kit.main.bans_spread.get(), 1);
}

#[test]
fn a_request_can_be_what_a_spread_ban_looks_at() {
    let kit = filled(3);
    kit.cache.ban_text("over=5s req.url != /1").unwrap();
    lurk(&kit);
    assert_eq!(row(&kit).matched, 0, "the lurker knows no requests");
    assert_eq!(stale(&kit, 0..3), 0);
    kit.pass(6.0);
    assert_eq!([0, 1, 2].map(|n| kit.verdict(&url(n))), ["grace+fetch", "hit", "grace+fetch"]);
}

#[test]
fn hosts_and_prefixes_are_tags_of_urls() {
    let kit = filled(0);
    for (host, path) in [("a.org", "/x/1"), ("a.org", "/y"), ("b.org", "/x/1")] {
        let tag = String::from_utf8(message::tags::of_url(host.as_bytes(), path.as_bytes())).unwrap();
        put_tagged(&kit, &format!("{host}{path}"), &tag);
    }
    let verdicts = || ["a.org/x/1", "a.org/y", "b.org/x/1"].map(|url| kit.verdict(url));
    kit.cache.ban_text("obj.prefix == http://A.org:80/x/").unwrap();
    assert_eq!(verdicts(), ["miss", "hit", "hit"]);
    kit.cache.ban_text("obj.host != a.org").unwrap();
    assert_eq!(verdicts(), ["miss", "hit", "miss"]);
    kit.cache.ban_text("obj.host == a.org/").unwrap();
    assert_eq!(verdicts(), ["miss"; 3]);
}

#[test]
fn what_is_said_to_wrong_settings() {
    let kit = Kit::new();
    let said = |text: &str| match kit.cache.ban_of_text(text) {
        Ok(spec) => spec.to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(said("over=1.5h rate=30/m obj.status == 200"), "over=90m rate=0.5/s obj.status == 200");
    assert_eq!(said("rate=7 obj.host == a"), "rate=7/s obj.host == a");
    for bad in ["over=0s", "over=8d", "over=", "over=-1s", "rate=0/s", "rate=1/d", "rate=nan", "rate=inf/s", "rate="] {
        let text = said(&format!("{bad} obj.status == 200"));
        assert!(
            text.starts_with(&format!("expected {}=<", &bad[..4])) && text.ends_with(&format!("got \"{bad}\"")),
            "{text}"
        );
    }
    assert_eq!(said("obj.tag ~ a"), "expected conditional (== or !=) got \"~\"");
    for bad in ["obj.tag == ,", "obj.host == a/b", "obj.host == http://", "obj.prefix == a.org", "obj.prefix == /x"] {
        assert!(said(bad).contains("names no object: obj.tag takes tags"), "{bad}: {}", said(bad));
    }
    let may = |text: &str| kit.cache.may_ban(&kit.cache.ban_of_text(text).unwrap()).map_err(|error| error.to_string());
    assert!(may("obj.tag == a").unwrap_err().contains("No tags are kept"));
    assert_eq!(may("over=1d obj.status == 1"), Ok(()));
    (0..64).for_each(|n| kit.cache.ban_text(&format!("over=1d obj.status == {n}")).unwrap());
    assert!(may("over=1d obj.status == 1").unwrap_err().contains("64 bans are being spread already"));
    assert_eq!(may("obj.status == 1"), Ok(()));
    // A node of a fleet can't refuse what others have carried out.
    kit.cache.ban_made_at(kit.cache.ban_of_text("over=1d obj.status == 1").unwrap(), kit.clock.real());
    assert_eq!(kit.cache.spreads().len(), 64);
    let many = |count: usize| said(&format!("obj.tag == {}", vec!["a"; count].join(",")));
    assert!(many(256).starts_with("obj.tag == a,") && many(257).starts_with("obj.tag takes 256 tags at most, got 257"));
}
