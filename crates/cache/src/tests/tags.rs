// SPDX-License-Identifier: BSD-2-Clause
//! Purging by key.

use proptest::prelude::*;
use tables::counters::Xkey;

use super::kit::*;
use crate::*;

struct Tagged {
    kit: Kit,
    counters: &'static Xkey,
}

impl Tagged {
    fn new() -> Tagged {
        let (kit, counters) = (Kit::new(), Box::leak(Box::<Xkey>::default()) as &'static Xkey);
        kit.cache.enable_tags(counters);
        Tagged { kit, counters }
    }

    fn busy(&self, url: &str) -> Busy {
        busy_of(
            self.kit.look_with(&TestReq::new(url), &LookupOptions { always_miss: true, ..LookupOptions::default() }),
        )
    }

    fn fill(&self, mut busy: Busy, url: &str, keys: &str, grace: f64) {
        busy.set_tags(keys.split(' ').map(|key| key.as_bytes().into()).collect());
        self.kit.fill(busy, &TestReq::new(url), None, self.kit.attrs(100.0, grace, 0.0, ObjectFlags::NONE), b"x");
    }

    fn put(&self, url: &str, keys: &str) {
        self.fill(self.busy(url), url, keys, 50.0);
    }

    fn purge(&self, keys: &str, soft: bool) -> usize {
        let mut purge = self.kit.cache.purge_tags(keys.split(' ').map(str::as_bytes), self.kit.now(), soft);
        loop {
            if let Some(count) = purge.step() {
                return count;
            }
        }
    }
}

#[test]
fn objects_go_by_any_of_their_keys_and_count_once() {
    let t = Tagged::new();
    t.put("/a", "all a");
    t.put("/b", "all b b");
    t.put("/c", "all");
    assert_eq!(t.counters.g_keys.get(), 3);
    assert_eq!(t.purge("b nothing", false), 1);
    assert_eq!(["/a", "/b", "/c"].map(|url| t.kit.verdict(url)), ["hit", "miss", "hit"]);
    assert_eq!(t.purge("a all", false), 2);
    assert_eq!(["/a", "/b", "/c"].map(|url| t.kit.verdict(url)), ["miss", "miss", "miss"]);
    assert_eq!((t.counters.g_keys.get(), t.counters.g_bytes.get()), (0, 0));
}

#[test]
fn the_texts_of_keys_are_counted_once() {
    let t = Tagged::new();
    t.put("/a", "k");
    let short = t.counters.g_bytes.get();
    assert!((1..1000).contains(&short), "{short}");
    t.purge("k", false);
    let long = "k".repeat(1000);
    t.put("/a", &long);
    let one = t.counters.g_bytes.get();
    assert_eq!(one, short + 999);
    t.put("/b", &long);
    let two = t.counters.g_bytes.get();
    assert!(two > one && two < one + 200, "{one} {two}");
}

#[test]
fn a_soft_purge_leaves_grace_and_counts_what_was_fresh() {
    let t = Tagged::new();
    t.put("/a", "k");
    t.fill(t.busy("/b"), "/b", "k", 0.0);
    assert_eq!((t.purge("k", true), t.purge("k", true)), (2, 0));
    assert_eq!((t.kit.verdict("/a"), t.kit.verdict("/b")), ("grace+fetch", "miss"));
    assert_eq!(t.purge("k", false), 1);
    assert_eq!(t.kit.verdict("/a"), "miss");
}

#[test]
fn a_purge_that_overtakes_a_fetch_counts() {
    let t = Tagged::new();
    let (hard, soft, other) = (t.busy("/hard"), t.busy("/soft"), t.busy("/other"));
    assert_eq!((t.purge("h", false), t.purge("s", true)), (0, 0));
    t.fill(hard, "/hard", "h", 50.0);
    t.fill(soft, "/soft", "s", 50.0);
    t.fill(other, "/other", "o", 50.0);
    assert_eq!(["/hard", "/soft", "/other"].map(|url| t.kit.verdict(url)), ["miss", "grace+fetch", "hit"]);
    t.put("/hard", "h");
    assert_eq!(t.kit.verdict("/hard"), "hit", "a fetch that began later isn't overtaken");
}

#[test]
fn a_purge_by_who_fetches_spares_what_that_brings() {
    let t = Tagged::new();
    for soft in [false, true] {
        let (own, other) = (t.busy("/own"), t.busy("/other"));
        let mut purge = t.kit.cache.purge_tags([&b"x"[..], b"k"].into_iter(), t.kit.now(), soft).by(Some(&own));
        while purge.step().is_none() {}
        t.fill(own, "/own", "k", 50.0);
        t.fill(other, "/other", "k", 50.0);
        let overtaken = if soft { "grace+fetch" } else { "miss" };
        assert_eq!(["/own", "/other"].map(|url| t.kit.verdict(url)), ["hit", overtaken]);
        // Another's purge counts.
        assert_eq!(t.purge("k", false), 1 + usize::from(soft), "what was overtaken is gone already");
        let own = t.busy("/own");
        assert_eq!(t.purge("k", false), 0);
        t.fill(own, "/own", "k", 50.0);
        assert_eq!(t.kit.verdict("/own"), "miss");
    }
}

#[test]
fn more_purges_than_the_journal_holds_overtake_every_older_fetch() {
    let t = Tagged::new();
    let old = t.busy("/old");
    (0..3000).for_each(|n| assert_eq!(t.purge(&format!("k{n}"), false), 0));
    let young = t.busy("/young");
    t.fill(old, "/old", "x", 50.0);
    t.fill(young, "/young", "x", 50.0);
    assert_eq!((t.kit.verdict("/old"), t.kit.verdict("/young")), ("miss", "hit"));
}

#[test]
fn what_expires_leaves_the_index() {
    let t = Tagged::new();
    t.put("/a", "k");
    t.kit.pass(200.0);
    t.kit.cache.expire(t.kit.now(), 10, &mut |_| ());
    assert_eq!((t.counters.g_keys.get(), t.purge("k", false)), (0, 0));
}

#[test]
fn a_key_with_many_objects_is_purged_in_steps() {
    let t = Tagged::new();
    (0..1000).for_each(|n| t.put(&format!("/{n}"), "all"));
    let mut purge = t.kit.cache.purge_tags([&b"all"[..]].into_iter(), t.kit.now(), false);
    assert_eq!(purge.step(), None);
    t.put("/late", "all");
    let count = loop {
        if let Some(count) = purge.step() {
            break count;
        }
    };
    assert_eq!((count, t.kit.verdict("/late")), (1000, "hit"));
}

proptest! {
    #[test]
    fn the_index_agrees_with_a_plain_list(
        ops in proptest::collection::vec((0u8..4, 0u8..12, proptest::collection::vec(0u8..5, 1..4)), 1..80)
    ) {
        let t = Tagged::new();
        let mut plain: Vec<(u8, Vec<u8>)> = Vec::new();
        for (op, url, keys) in ops {
            let names: Vec<String> = keys.iter().map(|key| format!("k{key}")).collect();
            if op < 3 {
                t.kit.cache.purge(&digest(&format!("/{url}")), t.kit.now(), Purge::HARD);
                plain.retain(|(other, _)| *other != url);
                t.put(&format!("/{url}"), &names.join(" "));
                plain.push((url, keys));
            } else {
                let before = plain.len();
                plain.retain(|(_, own)| !own.iter().any(|key| keys.contains(key)));
                prop_assert_eq!(t.purge(&names.join(" "), false), before - plain.len());
            }
            let distinct: std::collections::BTreeSet<u8> = plain.iter().flat_map(|(_, keys)| keys.clone()).collect();
            prop_assert_eq!(t.counters.g_keys.get() as usize, distinct.len());
            let pairs = plain.iter().map(|(_, keys)| keys.iter().collect::<std::collections::BTreeSet<_>>().len());
            prop_assert_eq!(t.counters.g_references.get() as usize, pairs.sum::<usize>());
            for (url, keys) in &plain {
                let mut names = t.kit.cache.tags_of(&hit_of(t.kit.look(&format!("/{url}"))));
                let mut expected: Vec<Box<[u8]>> = keys.iter().map(|key| format!("k{key}").into_bytes().into()).collect();
                names.sort();
                expected.sort();
                expected.dedup();
                prop_assert_eq!(names, expected);
            }
            prop_assert_eq!(t.counters.g_bytes.get() == 0, plain.is_empty());
        }
    }
}

#[test]
fn the_keys_of_an_object_can_be_had() {
    let t = Tagged::new();
    t.put("/a", "all a a");
    assert_eq!(t.kit.cache.tags_of(&hit_of(t.kit.look("/a"))), [Box::from(&b"all"[..]), Box::from(&b"a"[..])]);
}

#[test]
fn a_hard_purge_holds_before_what_it_hit_is_taken_out() {
    let t = Tagged::new();
    (0..200).for_each(|n| t.put(&format!("/{n}"), "all"));
    let mut purge = t.kit.cache.purge_tags([&b"all"[..]].into_iter(), t.kit.now(), false);
    assert_eq!(purge.step(), None);
    assert_eq!((t.kit.verdict("/0"), t.kit.verdict("/199")), ("miss", "miss"));
    assert_eq!(t.counters.g_references.get(), 200, "the work is still to be done");
}

#[test]
fn a_purge_goes_in_short_steps() {
    for (is_soft, steps) in [(false, 1000 / 256 + 1000 / 32), (true, 1000 / 32)] {
        let t = Tagged::new();
        (0..1000).for_each(|n| t.put(&format!("/{n}"), "all"));
        let mut purge = t.kit.cache.purge_tags([&b"all"[..]].into_iter(), t.kit.now(), is_soft);
        let taken = (0..).find(|_| purge.step().is_some()).unwrap();
        assert!(taken >= steps, "{taken} steps");
    }
}

#[test]
fn what_finds_no_room_answers_and_goes() {
    let t = Tagged::new();
    t.put("/a", "k");
    t.kit.cache.set_params(CacheParams { tag_space: 1, ..CacheParams::default() });
    t.put("/b", "k");
    t.put("/c", "other");
    assert_eq!(["/a", "/b", "/c"].map(|url| t.kit.verdict(url)), ["hit", "miss", "miss"]);
    assert_eq!((t.counters.refused.get(), t.counters.g_references.get()), (2, 1));
    t.kit.cache.set_params(CacheParams::default());
    t.put("/b", "k");
    assert_eq!(t.kit.verdict("/b"), "hit");
}

/// Checks the index's bytes per tag of an object: the goal is 24 bytes at 10 tags an object.
#[test]
fn a_reference_is_small() {
    let t = Tagged::new();
    let tags_of = |n: usize| (0..10).map(|i| format!("tag-{}", (n * 7 + i * 131) % 1000)).collect::<Vec<_>>().join(" ");
    (0..5000).for_each(|n| t.put(&format!("/{n}"), &tags_of(n)));
    let (bytes, references) = (t.counters.g_bytes.get(), t.counters.g_references.get());
    assert_eq!(references, 50_000);
    assert!(bytes <= 24 * references, "{bytes} bytes, {} a reference", bytes / references);
}

impl Tagged {
    fn fill_url(&self, busy: Busy, host: &str, url: &str) {
        let mut busy = busy;
        busy.set_tags(vec![message::tags::of_url(host.as_bytes(), url.as_bytes()).into(), b"all".as_slice().into()]);
        let at = format!("{host}{url}");
        self.kit.fill(busy, &TestReq::new(&at), None, self.kit.attrs(100.0, 50.0, 0.0, ObjectFlags::NONE), b"x");
    }

    fn put_url(&self, host: &str, url: &str) {
        self.fill_url(self.busy(&format!("{host}{url}")), host, url);
    }

    fn purge_prefix(&self, host: &str, prefix: &str, soft: bool) -> usize {
        let purge = message::tags::of_prefix(host.as_bytes(), prefix.as_bytes());
        let mut purge = self.kit.cache.purge_tags([&purge[..]].into_iter(), self.kit.now(), soft);
        loop {
            if let Some(count) = purge.step() {
                return count;
            }
        }
    }
}

#[test]
fn a_purge_by_prefix_hits_what_begins_so_and_fetches_that_run() {
    let t = Tagged::new();
    for url in ["/a/1", "/a/2", "/b"] {
        t.put_url("h", url);
        t.put_url("h.org", url);
    }
    let running = ["/a/3", "/c"].map(|url| t.busy(&format!("h{url}")));
    assert_eq!((t.purge_prefix("h", "/a/", true), t.purge_prefix("h", "/a/", true)), (2, 0));
    assert_eq!((t.kit.verdict("h/a/1"), t.kit.verdict("h.org/a/1")), ("grace+fetch", "hit"));
    assert_eq!((t.purge_prefix("h", "/a", false), t.purge_prefix("h", "/a", false)), (2, 0));
    for (busy, url) in running.into_iter().zip(["/a/3", "/c"]) {
        t.fill_url(busy, "h", url);
    }
    assert_eq!(
        ["h/a/1", "h/a/3", "h/b", "h/c", "h.org/a/2"].map(|at| t.kit.verdict(at)),
        ["miss", "miss", "hit", "hit", "hit"]
    );
    assert_eq!(t.purge_prefix("h", "", false), 2);
    assert_eq!(t.purge_prefix("", "", false), 0, "no host is no host, not all of them");
    assert_eq!(t.purge("all", false), 3);
}

#[test]
fn a_prefix_hits_tags_in_all_parts_of_the_index() {
    let t = Tagged::new();
    (0..10_000).for_each(|n| t.put_url("h", &format!("/{}/{n}", n % 4)));
    assert_eq!(t.purge_prefix("h", "/3/", false), 2500);
    assert_eq!(t.purge_prefix("h", "/", true), 7500);
    assert_eq!(t.counters.g_references.get(), 15_000);
}

mod families {
    use super::*;

    struct Families(Kit);

    fn member_of(url: &str) -> String {
        format!("a body for {url}")
    }

    impl Families {
        fn new() -> Families {
            Families(Kit::new())
        }

        fn begin(&self, url: &str) -> Busy {
            let mut busy = busy_of(self.0.look(&member_of(url)));
            busy.join_family(&digest(url));
            busy
        }

        fn fill(&self, busy: Busy, url: &str) {
            let attrs = self.0.attrs(100.0, 50.0, 0.0, ObjectFlags::NONE);
            self.0.fill(busy, &TestReq::new(&member_of(url)), None, attrs, b"x");
        }

        fn purge(&self, url: &str, purge: Purge) -> usize {
            self.0.cache.purge(&digest(url), self.0.now(), purge)
        }

        fn check(&self, url: &str, verdict: &str) {
            assert_eq!(self.0.verdict(&member_of(url)), verdict, "{url}");
        }
    }

    #[test]
    fn a_purge_of_the_digest_ends_its_family_and_no_other() {
        let t = Families::new();
        ["/a", "/b"].iter().for_each(|url| t.fill(t.begin(url), url));
        assert_eq!(t.purge("/a", Purge::HARD), 1);
        t.check("/a", "miss");
        t.check("/b", "hit");
        assert_eq!(t.purge("/a", Purge::HARD), 0);
    }

    #[test]
    fn a_soft_purge_takes_the_ttl_and_leaves_the_grace() {
        let t = Families::new();
        t.fill(t.begin("/a"), "/a");
        assert_eq!(t.purge("/a", Purge { ttl: Some(0.0), ..Purge::default() }), 1);
        t.check("/a", "grace+fetch");
    }

    #[test]
    fn a_purge_that_leaves_the_ttl_leaves_the_family() {
        let t = Families::new();
        t.fill(t.begin("/a"), "/a");
        assert_eq!(t.purge("/a", Purge { keep: Some(0.0), ..Purge::default() }), 0);
        t.check("/a", "hit");
    }

    #[test]
    fn a_member_that_is_being_fetched_is_overtaken() {
        let t = Families::new();
        let busy = t.begin("/a");
        t.purge("/a", Purge::HARD);
        t.fill(busy, "/a");
        t.check("/a", "miss");
    }

    #[test]
    fn a_family_tracks_its_members_alone() {
        let t = Families::new();
        let purges = || t.0.cache.shared().bans.seq();
        t.fill(t.begin("/a"), "/a");
        assert!(!t.0.cache.keeps_tags());
        let other = busy_of(t.0.look("/other"));
        let before = purges();
        t.purge("/b", Purge::HARD);
        assert_eq!(purges(), before + 1, "no member of any family is fetched");
        let member = t.begin("/c");
        t.purge("/b", Purge::HARD);
        assert_eq!(purges(), before + 3, "one that is fetched may be of that family");
        t.fill(member, "/c");
        drop(other);
        t.purge("/b", Purge::HARD);
        assert_eq!(purges(), before + 4);
        t.check("/c", "hit");
    }

    #[test]
    fn a_purge_leaves_most_of_a_large_family_marked() {
        let t = Families::new();
        let put = |n: usize, xs: &[u8]| {
            let mut busy = busy_of(t.0.look(&format!("body {n}")));
            busy.join_family(&digest("/a"));
            let attrs = t.0.attrs(100.0, 50.0, 0.0, ObjectFlags::NONE);
            t.0.fill(busy, &TestReq::new(&format!("body {n}")), None, attrs, xs);
        };
        (0..1000).for_each(|n| put(n, b"old"));
        assert_eq!(t.purge("/a", Purge::HARD), 1000);
        assert_eq!(t.0.cache.census().0, 1000 - 8 * 32);
        assert!((0..1000).all(|n| t.0.verdict(&format!("body {n}")) == "miss"));
        // One that comes before the others went.
        put(0, b"new");
        let mut rounds = 0;
        while t.0.cache.expire(t.0.now(), 100, &mut |_| {}) >= 100 {
            rounds += 1;
        }
        assert_eq!((t.0.cache.census().0, t.0.verdict("body 0")), (1, "hit"));
        assert!(rounds >= 5, "{rounds}");
        assert_eq!(t.purge("/a", Purge::HARD), 1);
    }

    #[test]
    fn a_fetch_that_fails_leaves_its_family() {
        let t = Families::new();
        drop(t.begin("/a"));
        let before = t.0.cache.shared().bans.seq();
        t.purge("/a", Purge::HARD);
        assert_eq!(t.0.cache.shared().bans.seq(), before + 1);
    }
}

#[test]
fn the_hottest_objects_are_those_with_most_hits_per_second() {
    let t = Tagged::new();
    let put = |url: &str, hits: usize| {
        let mut busy = t.busy(url);
        busy.set_tags(vec![message::tags::of_url(b"h", url.as_bytes()).into(), "other".as_bytes().into()]);
        t.kit.fill(busy, &TestReq::new(url), None, t.kit.attrs(100.0, 0.0, 0.0, ObjectFlags::NONE), b"body");
        for _ in 0..hits {
            assert_eq!(t.kit.verdict(url), "hit");
        }
    };
    put("/old", 40);
    t.kit.pass(20.0);
    (0..600).for_each(|n| put(&format!("/once{n}"), 1));
    put("/new", 30);
    put("/never", 0);
    put("/purged", 50);
    t.put("/no-url", "all");
    let tag = message::tags::of_url(b"h", b"/purged");
    let mut purge = t.kit.cache.purge_tags(std::iter::once(&tag[..]), t.kit.now(), false);
    while purge.step().is_none() {}
    t.kit.pass(10.0);
    let hottest = |most| {
        let found = t.kit.cache.hottest(most);
        found.iter().map(|hot| String::from_utf8_lossy(&hot.url).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(hottest(2), ["/new", "/old"]);
    assert_eq!((hottest(1000).len(), hottest(0).len()), (602, 0));
    let first = &t.kit.cache.hottest(1)[0];
    assert_eq!((&*first.host, first.rate, first.body_bytes), (&b"h"[..], 3.0, 4));
    t.kit.pass(75.0);
    assert_eq!(hottest(1).len(), 1, "what came later is fresh still");
    t.kit.pass(25.0);
    assert_eq!(hottest(1).len(), 0, "nothing is fresh");
}
