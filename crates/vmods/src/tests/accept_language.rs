// SPDX-License-Identifier: BSD-2-Clause
//! The assertions of the module that sites had for VCL 2 and 3, what it got wrong, and RFC 4647.

use proptest::prelude::*;

use super::{Accept, basic, extended, languages};

/// The languages of those assertions.
const SITE: &str = "en bg cs da de es fi fy hu it ja no pl ru sq sk tr uk vn xx-lol zh-cn";

fn lookup<'a>(accept: &str, site: &'a str) -> &'a str {
    let languages = languages(site.as_bytes());
    let found = Accept::read(accept.as_bytes(), 100).lookup(&languages).unwrap_or(languages[0]);
    std::str::from_utf8(found).unwrap()
}

fn filter(accept: &str, site: &str, matches: fn(&[u8], &[u8]) -> bool) -> String {
    let languages = languages(site.as_bytes());
    String::from_utf8(Accept::read(accept.as_bytes(), 100).filter(&languages, matches).join(&b' ')).unwrap()
}

#[test]
fn the_old_module_s_own_assertions_hold() {
    for language in ["bg", "cs", "da", "en", "fi", "fy", "hu", "it", "ja", "no", "pl", "ru", "tr", "vn"] {
        assert_eq!(lookup(language, SITE), language);
        assert_eq!(lookup(&format!("{language},xy-zx;q=0.01"), SITE), language);
        assert_eq!(lookup(&format!("{language},en;q=0.99"), SITE), language);
    }
    for (accept, language) in [
        ("", "en"),
        ("xy", "en"),
        ("xy-XX", "en"),
        ("en-US,en-GB;q=0.9,de-AT;q=0.8,de;q=0.7", "en"),
        ("de-at", "de"),
        ("de-AT", "de"),
        ("zh-cn", "zh-cn"),
        ("zh-CN", "zh-cn"),
        ("xy,en;q=0.2,ru;q=0.9", "ru"),
        ("xy,en;q=0.97,ru;q=0.98,it;q=0.99", "it"),
        ("ru-RU,ru;q=0.9,en;q=0.8", "ru"),
        ("en-us,en;q=0.9", "en"),
        ("en-US,en;q=0.9", "en"),
        ("ru,en;q=0.9", "ru"),
        ("*,uk;q=0.2,fr;q=0.1", "uk"),
        ("de;q=0.8,pl,fr;q=0.2", "pl"),
        ("fr,en;q=0.9,ar;q=0.8,eu;q=0.7,zh;q=0.6,nl;q=0.5,de;q=0.4", "en"),
        ("en-us,en;q=0.5,x-ns1w9Ea$X$dNhK,x-ns2Ef70Nnym7b6", "en"),
        ("de-DE,tr;q=0.999,en;q=0.75,fr;q=0.9,it;q=0.8,ja;q=0.2,ru;q=0.1", "de"),
    ] {
        assert_eq!(lookup(accept, SITE), language, "{accept}");
    }
}

#[test]
fn what_the_old_module_got_wrong_is_right() {
    for (accept, site, language) in [
        ("de;q=0", SITE, "en"),
        ("en-GB,de", SITE, "en"),
        ("en-gb;q=0.5,ja;q=0.5", SITE, "en"),
        ("ja ; q=0.5, ru;q=0.9", SITE, "ru"),
        ("ja;q=abc,ru;q=0.9", SITE, "ru"),
        ("ja;q=2", SITE, "en"),
        ("*,ja", SITE, "ja"),
        ("bg:cs", SITE, "en"),
        ("tlh-Latn", "en tlh", "tlh"),
        ("zh-Hans-CN", "en zh-Hans zh", "zh-Hans"),
        ("zh-Hans-CN", "en zh", "zh"),
        ("zh", SITE, "en"),
        // The site's three of the field report.
        ("de-DE,tr;q=0.999,en;q=0.75,fr;q=0.9,it;q=0.8,ja;q=0.2,ru;q=0.1", "en ja", "en"),
        ("de-DE,tr;q=0.999,en;q=0.75,fr;q=0.9,it;q=0.8,ja;q=0.2,ru;q=0.1", "tr", "tr"),
    ] {
        assert_eq!(lookup(accept, site), language, "{accept}");
    }
    let many = format!("{}en-GB", "xy,".repeat(90));
    assert_eq!(lookup(&many, "de en"), "en");
    assert_eq!(lookup(&format!("{}-x", "a".repeat(300)), SITE), "en");
    // What it never may be: something that the field brought along.
    assert_eq!(lookup("EN-us", "En"), "En");
}

/// RFC 4647 3.4: the example's order of truncation, and what goes with a singleton.
#[test]
fn lookup_cuts_subtags_off_the_end() {
    let range = "zh-Hant-CN-x-private1-private2";
    for site in ["zh-Hant-CN-x-private1-private2", "zh-Hant-CN-x-private1", "zh-Hant-CN", "zh-Hant", "zh"] {
        assert_eq!(lookup(range, &format!("qq {site}")), site);
    }
    assert_eq!(lookup(range, "qq zh-Hant-CN-x"), "qq");
    assert_eq!(lookup("x-abc", "qq x"), "qq");
}

/// RFC 4647 3.3.1 and 3.3.2, with their examples.
#[test]
fn filtering_gives_all_that_match() {
    assert_eq!(filter("de-de", "de-DE-1996 de-Deva de-Latn-DE", basic), "de-DE-1996");
    assert_eq!(filter("de", "en de-AT de", basic), "de-AT de");
    assert_eq!(filter("fr;q=0.2,*;q=0.1,de", "en fr de", basic), "de fr en");
    assert_eq!(filter("*,de;q=0", "en de de-AT", basic), "en de-AT");
    for range in ["de-DE", "de-*-DE"] {
        let matched = "de-DE de-de de-Latn-DE de-Latf-DE de-DE-x-goethe de-Latn-DE-1996 de-Deva-DE";
        assert_eq!(filter(range, matched, extended), matched, "{range}");
        assert_eq!(filter(range, "de de-x-DE de-Deva", extended), "", "{range}");
    }
    assert_eq!(filter("*-CH", "de-CH fr-CH it", extended), "de-CH fr-CH");
}

#[test]
fn so_many_ranges_are_read_and_no_more() {
    let languages = languages(b"en, de");
    assert_eq!(Accept::read(b"xx,yy,de", 2).lookup(&languages), None);
    assert_eq!(Accept::read(b"xx,yy,de", 3).lookup(&languages), Some(&b"de"[..]));
    // Those that are none don't count.
    assert_eq!(Accept::read(b"$,;q=1,de", 1).lookup(&languages), Some(&b"de"[..]));
}

fn tag() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "de",
        "de-AT",
        "DE-at",
        "en",
        "en-GB",
        "zh-Hans-CN",
        "zh",
        "x-a",
        "*",
        "fr-*",
        "q",
        "a--b",
        "ä",
        "",
    ])
    .prop_map(str::to_owned)
}

fn field() -> impl Strategy<Value = Vec<(String, u16)>> {
    prop::collection::vec((tag(), 0u16..=1000), 0..12)
}

fn written(ranges: &[(String, u16)]) -> String {
    let one = |(tag, q): &(String, u16)| format!("{tag};q={}.{:03}", q / 1000, q % 1000);
    ranges.iter().map(one).collect::<Vec<_>>().join(", ")
}

proptest! {
    #[test]
    fn the_answer_is_always_of_the_list(accept in ".{0,200}", site in "([a-z]{1,3}(-[A-Za-z]{1,4})?[ ,]){1,8}") {
        prop_assume!(!languages(site.as_bytes()).is_empty());
        prop_assert!(languages(site.as_bytes()).contains(&lookup(&accept, &site).as_bytes()));
    }

    #[test]
    fn asked_for_its_own_answer_it_gives_it_again(ranges in field()) {
        let once = lookup(&written(&ranges), "en de de-AT zh x-a");
        prop_assert_eq!(lookup(once, "en de de-AT zh x-a"), once);
    }

    #[test]
    fn the_order_of_the_list_and_of_unequal_ranges_doesn_t_matter(mut ranges in field(), seed in any::<u64>()) {
        ranges.sort_by_key(|(_, q)| *q);
        ranges.dedup_by_key(|(_, q)| *q);
        let wanted = lookup(&written(&ranges), "en de de-AT zh x-a").to_owned();
        let turn = seed as usize % ranges.len().max(1);
        ranges.rotate_left(turn);
        prop_assert_eq!(lookup(&written(&ranges), "en x-a zh de-AT de"), wanted);
    }
}
