// SPDX-License-Identifier: BSD-2-Clause
//! Bans: their language, what they hit, the lurker, the list.

use tables::Compat;

use std::sync::Arc;

use proptest::prelude::*;

use super::kit::*;
use crate::*;

fn words(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    match BanSpec::from_words(&words, &Contains) {
        Ok(spec) => spec.to_string(),
        Err(error) => error.to_string(),
    }
}

fn text(text: &str) -> String {
    match BanSpec::from_text(text, &Contains) {
        Ok(spec) => spec.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_the_cli_says_to_a_ban() {
    assert_eq!(words("req.url ~ foo"), "req.url ~ foo");
    assert_eq!(words("req.http.Host == a && obj.ttl > 90s"), "req.http.Host == a && obj.ttl > 90s");
    assert_eq!(words(""), "Wrong number of arguments");
    assert_eq!(words("req.url ~"), "Wrong number of arguments");
    assert_eq!(words("req.url ~ a || req.url ~ b"), "Found \"||\" expected &&");
    assert_eq!(words("foo == bar"), "Unknown or unsupported field \"foo\"");
    assert_eq!(words("req.url > bar"), "expected conditional (==, !=, ~ or !~) got \">\"");
    assert_eq!(words("obj.age ~ 1d"), "expected conditional (==, !=, >, >=, < or <=) got \"~\"");
    assert_eq!(words("obj.age < 1a"), "expected duration <n.nn>[ms|s|m|h|d|w|y] got \"1a\"");
    assert_eq!(words("req.url ~ ("), "Regex compile error: missing closing parenthesis");
}

#[test]
fn what_vcl_says_to_a_ban() {
    assert_eq!(text("req.url == / && obj.http.X != \"\""), "req.url == / && obj.http.X != \"\"");
    assert_eq!(text(" "), "No ban conditions found.");
    assert_eq!(text("req.url"), "Expected comparison operator.");
    assert_eq!(text("req.url =="), "Expected second operand.");
    assert_eq!(text("req.url == a and"), "Expected && between conditions, found \"and\"");
    assert_eq!(text("req.url == a &&"), "No ban conditions found.");
}

/// Words that a ban is made of again, on another node.
fn again(words: &[&str]) {
    let spec = BanSpec::from_words(words, &Contains).unwrap();
    let again = spec.words();
    assert_eq!(
        BanSpec::from_words(&again.iter().map(String::as_str).collect::<Vec<_>>(), &Contains).unwrap().words(),
        again
    );
    assert_eq!(again.len(), words.len());
}

#[test]
fn a_ban_can_be_made_again_of_its_words() {
    again(&["req.url", "~", "a b && c"]);
    again(&["obj.http.X", "==", "", "&&", "obj.status", "!=", "404"]);
    assert_eq!(BanSpec::from_words(&["obj.age", ">", "1.5h"], &Contains).unwrap().words(), ["obj.age", ">", "5400s"]);
    assert_eq!(BanSpec::from_words(&["obj.ttl", "<", "0.1ms"], &Contains).unwrap().words()[2], "0.0001s");
}

#[test]
fn ages_count_from_when_a_ban_was_made_elsewhere() {
    let kit = Kit::new();
    kit.pass(100.0);
    kit.put("/old", 1000.0, b"x");
    kit.pass(10.0);
    let made = kit.clock.real();
    kit.put("/young", 1000.0, b"x");
    kit.pass(10.0);
    let ban = |text: &str, at: base::Real| {
        let words: Vec<&str> = text.split(' ').collect();
        kit.cache.ban_made_at(kit.cache.ban_of_words(&words).unwrap(), at);
    };
    ban("obj.age > 5s", made);
    assert_eq!([kit.verdict("/old"), kit.verdict("/young")], ["miss", "hit"]);
    // A clock that is ahead: no ban is made in the future.
    ban("obj.age > 15s", made.plus(1e6));
    assert_eq!(kit.verdict("/young"), "hit");
}

#[test]
fn an_old_ban_from_elsewhere_moves_nothing_past_a_young_one() {
    let kit = Kit::new();
    kit.put("/a", 1000.0, b"x");
    let long_ago = kit.clock.real();
    kit.pass(200.0);
    kit.cache.ban_text("obj.status == 200").unwrap();
    kit.cache.ban_made_at(kit.cache.ban_of_words(&["obj.http.x", "==", "other"]).unwrap(), long_ago);
    // The lurker waits for the first to get older, with both.
    assert_eq!(lurk_all(&kit), [""; 0]);
    assert_eq!(kit.verdict("/a"), "miss");
}

#[test]
fn durations_as_the_list_writes_them() {
    let shown = |duration: &str| words(&format!("obj.grace > {duration}"))["obj.grace > ".len()..].to_owned();
    let all = ["0s", "1ms", "59s", "60s", "90s", "120m", "1d", "7d", "365d", "1.5s", "1h"].map(shown);
    assert_eq!(all, ["0s", "1ms", "59s", "1m", "90s", "2h", "1d", "1w", "1y", "1.500s", "1h"]);
}

proptest! {
    #[test]
    fn no_text_breaks_the_parser(input in "\\PC*") {
        let _ = text(&input);
        let _ = words(&input);
    }

    #[test]
    fn the_list_shows_what_was_said(
        tests in prop::collection::vec(
            (prop::sample::select(vec!["req.url", "req.http.a", "obj.http.b", "obj.status"]),
             prop::sample::select(vec!["==", "!=", "~", "!~"]),
             "[!-'*-~]{1,10}"),
            1..5,
        )
    ) {
        let said: Vec<String> = tests.iter().map(|(field, oper, value)| format!("{field} {oper} {value}")).collect();
        prop_assert_eq!(text(&said.join(" && ")), said.join(" && "));
        prop_assert_eq!(words(&said.join(" && ")), said.join(" && "));
    }
}

/// True if `ban` hits an object under `/a` (ttl 100 s, grace 10 s, age 5 s) asked for with `lang: de`.
fn hits(ban: &str) -> bool {
    let kit = Kit::new();
    let req = TestReq::new("/a").field("lang", "de");
    kit.put_as(&req, None, kit.attrs(100.0, 10.0, 0.0, ObjectFlags::NONE), b"x");
    kit.pass(5.0);
    kit.cache.ban_text(ban).unwrap();
    kit.verdict_as(&req) != "hit"
}

#[test]
fn what_a_ban_hits() {
    for ban in [
        "req.url == /a",
        "req.url ~ a",
        "req.url !~ b",
        "req.http.Lang == de",
        "req.http.none != x",
        "obj.http.X-Tag == red",
        "obj.status == 200",
        "obj.ttl > 94s",
        "obj.ttl <= 95s",
        "obj.age >= 5s",
        "obj.age < 6s",
        "obj.grace == 10s",
        "obj.keep != 1s",
        "obj.last_hit >= 5s",
        "obj.last_hit < 6s",
        "req.url == /a && obj.http.server ~ kit",
    ] {
        assert!(hits(ban), "{ban}");
    }
    for ban in [
        "req.url == /",
        "req.http.none ~ x",
        "req.http.none !~ x",
        "req.http.none == x",
        "obj.http.x-tag == re",
        "obj.status != 200",
        "obj.ttl > 95s",
        "obj.age > 5s",
        "obj.last_hit > 5s",
        "obj.last_hit <= 4s",
        "req.url == /a && obj.http.server ~ kat",
    ] {
        assert!(!hits(ban), "{ban}");
    }
}

#[test]
fn an_object_is_tested_once_and_only_against_newer_bans() {
    let kit = Kit::new();
    kit.cache.ban_text("req.url == /").unwrap();
    kit.put("/", 100.0, b"x");
    let tested = || (kit.main.bans_tested.get(), kit.main.bans_tests_tested.get());
    assert_eq!((kit.verdict("/"), tested()), ("hit", (0, 0)));
    kit.cache.ban_text("req.url == /b").unwrap();
    kit.cache.ban_text("req.url == /c && obj.status == 1").unwrap();
    assert_eq!((kit.verdict("/"), tested()), ("hit", (1, 2)));
    assert_eq!((kit.verdict("/"), tested()), ("hit", (1, 2)));
    kit.cache.ban_text("req.url == /").unwrap();
    let mut search = Search::new(digest("/"), kit.now(), LookupOptions::default());
    assert!(matches!(search.look(&kit.cache, &TestReq::new("/")), Lookup::Ready(Found::Miss(_))));
    assert_eq!((tested(), search.report.events.len()), ((2, 3), 1));
    assert_eq!(search.report.events[0].text(Compat::V7_1).to_string(), "1 banned lookup");
    assert_eq!((kit.main.bans_obj_killed.get(), kit.held()), (1, 0));
}

#[test]
fn a_ban_overtakes_a_fetch() {
    let kit = Kit::new();
    let fetch = busy_of(kit.look("/"));
    let early = parked(kit.look("/"));
    kit.cache.ban_text("req.url == /").unwrap();
    let late = parked(kit.look("/"));
    kit.fill(fetch, &TestReq::new("/"), None, kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), b"old");
    let early = kit.look_again(early, &TestReq::new("/"));
    assert_eq!((word(&early), word(&kit.look_again(late, &TestReq::new("/")))), ("hit", "miss"));
}

fn lurk_all(kit: &Kit) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..1000 {
        if kit.cache.lurk(kit.now(), &mut |event| told.push(event.text(Compat::V7_1).to_string())) > 0.5 {
            return told;
        }
    }
    panic!("the lurker never sleeps");
}

#[test]
fn the_lurker_kills_and_the_list_shrinks() {
    let kit = Kit::new();
    kit.put("/a", 1000.0, b"x");
    kit.put("/b", 1000.0, b"x");
    kit.cache.ban_text("obj.http.x-tag == blue").unwrap();
    // Too young.
    assert!(lurk_all(&kit).is_empty());
    assert_eq!(kit.main.bans.get(), 2);
    kit.pass(61.0);
    assert!(lurk_all(&kit).is_empty());
    assert_eq!((kit.main.bans.get(), kit.main.bans_completed.get(), kit.main.bans_lurker_tested.get()), (1, 1, 2));
    kit.cache.ban_text("obj.http.x-tag == red && obj.age < 1h").unwrap();
    kit.pass(61.0);
    assert_eq!(lurk_all(&kit).len(), 2);
    assert_eq!((kit.main.bans_lurker_obj_killed.get(), kit.held(), kit.main.n_object.get()), (2, 0, 0));
    assert_eq!((kit.main.bans.get(), kit.main.bans_deleted.get()), (1, 2));
}

#[test]
fn a_ban_on_requests_is_a_barrier() {
    let kit = Kit::new();
    kit.put("/a", 1000.0, b"x");
    kit.cache.ban_text("obj.status == 404").unwrap();
    kit.cache.ban_text("req.url == /a").unwrap();
    kit.cache.ban_text("obj.status == 500").unwrap();
    kit.pass(100.0);
    lurk_all(&kit);
    // The object stands below the barrier; the two others are done.
    let list = kit.cache.ban_list(false);
    let marks: Vec<&str> = list.lines().skip(1).map(|line| &line[18..25]).collect();
    assert_eq!(marks, ["    0 C", "    0 -", "    1 C"], "{list}");
    assert_eq!(kit.verdict("/a"), "miss");
    lurk_all(&kit);
    assert_eq!(kit.main.bans.get(), 1);
}

#[test]
fn beyond_the_cutoff_objects_are_killed_unread() {
    let kit = Kit::with(None, CacheParams { ban_cutoff: 3, ..CacheParams::default() });
    kit.put("/a", 1000.0, b"x");
    for n in 0..6 {
        kit.cache.ban_text(&format!("req.url == /{n}")).unwrap();
    }
    kit.pass(100.0);
    assert_eq!(lurk_all(&kit), ["1 killed for lurker cutoff"]);
    assert_eq!(kit.main.bans_lurker_obj_killed_cutoff.get(), 1);
}

#[test]
fn a_fetch_that_began_before_a_ban_meets_it() {
    let kit = Kit::new();
    let fetch = busy_of(kit.look("/"));
    kit.cache.ban_text("obj.http.x-tag == red").unwrap();
    kit.pass(100.0);
    // The lurker has nothing to test, but must not call the ban done.
    lurk_all(&kit);
    kit.fill(fetch, &TestReq::new("/"), None, kit.attrs(1000.0, 0.0, 0.0, ObjectFlags::NONE), b"old");
    assert_eq!(lurk_all(&kit), ["1 banned by lurker"]);
}

#[test]
fn duplicates_are_done() {
    let kit = Kit::new();
    for ban in ["req.url == /", "req.url == /", "obj.age > 1s", "obj.age > 1s"] {
        kit.cache.ban_text(ban).unwrap();
    }
    assert_eq!((kit.main.bans_dups.get(), kit.main.bans_completed.get(), kit.main.bans.get()), (1, 2, 5));
}

#[test]
fn the_list_as_text_and_json() {
    let kit = Kit::new();
    kit.put("/", 1000.0, b"x");
    kit.cache.ban_text("req.http.a ~ \"q\" && obj.keep > 90m").unwrap();
    let want = "Present bans:\n1000001000.000000     0 -  req.http.a ~ \"q\" && obj.keep > 90m\n\
                1000001000.000000     1 C  \n";
    assert_eq!(kit.cache.ban_list(false), want);
    assert!(kit.cache.ban_list_json(true).starts_with(
        "{\n  \"time\": 1000001000.000000,\n  \"refs\": 0,\n  \"completed\": false,\n  \
         \"spec\": \"req.http.a ~ \\\"q\\\" && obj.keep > 90m\",\n  \"req_tests\": true,\n  \"obj_tests\": true\n},\n{"
    ));
}

#[test]
fn a_new_ban_wakes_the_lurker() {
    let kit = Kit::new();
    let bell = std::sync::Arc::new(TestBell::default());
    kit.cache.wake_lurker_by(bell.clone().into());
    kit.cache.ban_text("req.url == /").unwrap();
    assert_eq!(bell.rings(), 0);
    kit.cache.ban_text("obj.status == 404").unwrap();
    assert_eq!(bell.rings(), 1);
}

#[test]
fn a_ban_that_a_later_one_repeats_counts_for_who_came_between() {
    let kit = Kit::new();
    let fetch = busy_of(kit.look("/"));
    kit.cache.ban_text("req.url == /").unwrap();
    let between = parked(kit.look("/"));
    kit.cache.ban_text("req.url == /").unwrap();
    assert_eq!(kit.main.bans_dups.get(), 1);
    kit.fill(fetch, &TestReq::new("/"), None, kit.attrs(10.0, 0.0, 0.0, ObjectFlags::NONE), b"old");
    assert_eq!(word(&kit.look_again(between, &TestReq::new("/"))), "miss");
}

#[test]
fn who_was_woken_finds_what_it_waited_for() {
    let invalidate: [&dyn Fn(&Kit); 3] = [
        &|kit| assert_eq!(kit.cache.purge(&digest("/"), kit.now(), Purge::HARD), 1),
        &|kit| {
            let soft = Purge { ttl: Some(0.0), ..Purge::default() };
            assert_eq!(kit.cache.purge(&digest("/"), kit.now(), soft), 1);
        },
        &|kit| {
            kit.cache.ban_text("req.url == /").unwrap();
            assert_eq!(kit.verdict("/"), "miss");
        },
    ];
    for invalidate in invalidate {
        let kit = Kit::new();
        let fetch = busy_of(kit.look("/"));
        let early = parked(kit.look("/"));
        kit.fill(fetch, &TestReq::new("/"), None, kit.attrs(1000.0, 0.0, 0.0, ObjectFlags::NONE), b"old");
        // It was woken, and then this came before it looked again.
        invalidate(&kit);
        assert_ne!(kit.verdict("/"), "hit");
        assert_eq!(word(&kit.look_again(early, &TestReq::new("/"))), "hit");
        // Long before its own end nobody can have waited for it any more.
        kit.pass(100.0);
        kit.cache.expire(kit.now(), usize::MAX, &mut |_| {});
        assert_eq!(kit.cache.census(), (0, 0, 0));
    }
}

/// The number of turns and the result of a hit on an object with 10,000 bans above it.
fn hit_below_many(params: CacheParams) -> (Kit, usize, &'static str) {
    let kit = Kit::with(None, CacheParams { ban_dups: false, ..params });
    kit.put("/", 1000.0, b"x");
    for n in 0..10_000 {
        kit.cache.ban_text(&format!("req.url ~ no-{n}-such")).unwrap();
    }
    let (mut looked, mut turns) = (kit.look("/"), 1);
    while let Err(mut waiting) = looked {
        let bell = Arc::new(TestBell::default());
        assert_eq!(waiting.pending.awaits(), Awaits::Turn);
        assert!(poll(&mut waiting, &bell).is_pending() && bell.rings() == 1, "others have their turn");
        assert!(poll(&mut waiting, &bell).is_ready());
        (looked, turns) = (kit.look_again(waiting, &TestReq::new("/")), turns + 1);
    }
    let word = word(&looked);
    drop(looked);
    (kit, turns, word)
}

#[test]
fn ten_thousand_bans_are_tested_in_turns_and_once() {
    let (kit, turns, word) = hit_below_many(CacheParams::default());
    assert_eq!((word, turns), ("hit", 20));
    let tests = || (kit.main.bans_tests_tested.get(), kit.main.bans_lookup_max.get());
    assert_eq!((tests(), kit.verdict("/"), tests()), ((10_000, 10_000), "hit", (10_000, 10_000)));
}

#[test]
fn more_bans_than_a_lookup_may_test_kill() {
    let (kit, turns, word) = hit_below_many(CacheParams { ban_lookup_limit: 9_999, ..CacheParams::default() });
    assert_eq!((word, turns, kit.main.bans_tests_tested.get()), ("miss", 1, 0));
    assert_eq!((kit.main.bans_lookup_cutoff.get(), kit.main.bans_obj_killed.get(), kit.held()), (1, 1, 0));
}

#[test]
fn the_last_hit_counts_from_the_last_delivery() {
    let kit = Kit::new();
    kit.put("/old", 1000.0, b"x");
    kit.put("/used", 1000.0, b"x");
    kit.pass(10.0);
    assert_eq!(kit.verdict("/used"), "hit");
    kit.pass(5.0);
    kit.cache.ban_text("obj.last_hit > 5s").unwrap();
    // The moment is that of the ban, not that of the test.
    kit.pass(60.0);
    assert_eq!([kit.verdict("/old"), kit.verdict("/used")], ["miss", "hit"]);
    kit.cache.ban_text("obj.last_hit > 5s").unwrap();
    kit.cache.ban_text("obj.last_hit > 5s").unwrap();
    assert_eq!(kit.main.bans_dups.get(), 0, "each has its own moment");
}

/// Variants in `langs`, and the cache that tests up to `any` of them although they don't match.
fn variants(any: usize, langs: &[String]) -> Kit {
    let kit = Kit::with(None, CacheParams { ban_any_variant: any, ..CacheParams::default() });
    for lang in langs {
        let req = TestReq::new("/").field("lang", lang);
        kit.put_as(&req, Some("lang"), kit.attrs(1000.0, 0.0, 0.0, ObjectFlags::NONE), b"x");
    }
    kit
}

/// Looks `lang` up after a ban on all requests for it, again after it had to wait; the number of variants that are left.
fn left_after_ban(kit: &Kit, lang: &str) -> usize {
    let req = TestReq::new("/").field("lang", lang);
    kit.cache.ban_text(&format!("req.http.lang == {lang}")).unwrap();
    let mut looked = kit.look_as(&req);
    while let Err(waiting) = looked {
        looked = kit.look_again(waiting, &req);
    }
    looked.unwrap().into_busy().expect("it is banned").release();
    kit.main.n_object.get() as usize
}

#[test]
fn bans_are_tested_on_as_many_variants_as_ban_any_variant_says() {
    for count in [3, 7, 8, 200] {
        let langs: Vec<String> = (0..count).map(|n| format!("l{n}")).collect();
        assert_eq!(left_after_ban(&variants(0, &langs), "l1"), count - 1, "the one that matches");
        assert_eq!(left_after_ban(&variants(10_000, &langs), "l1"), 0, "all of {count}");
        // The newest two, and the one that matches.
        assert_eq!(left_after_ban(&variants(2, &langs), "l0"), count - 3);
        assert_eq!(left_after_ban(&variants(2, &langs), &format!("l{}", count - 1)), count - 2);
    }
}

#[test]
fn a_variant_that_is_stored_later_is_tested_too() {
    let langs: Vec<String> = (0..20).map(|n| format!("l{n}")).collect();
    let kit = variants(10_000, &langs);
    let late = TestReq::new("/").field("lang", "late");
    let fetch = busy_of(kit.look_as(&late));
    kit.cache.ban_text("req.http.lang == nobody").unwrap();
    assert_eq!(kit.verdict_as(&TestReq::new("/").field("lang", "l3")), "hit");
    let tested = kit.main.bans_tested.get();
    assert_eq!(tested, 20);
    assert_eq!(kit.verdict_as(&TestReq::new("/").field("lang", "l4")), "hit");
    assert_eq!(kit.main.bans_tested.get(), tested, "each is tested once");
    kit.fill(fetch, &late, Some("lang"), kit.attrs(1000.0, 0.0, 0.0, ObjectFlags::NONE), b"x");
    assert_eq!(kit.verdict_as(&TestReq::new("/").field("lang", "l5")), "hit");
    assert_eq!(kit.main.bans_tested.get(), tested + 1);
}
