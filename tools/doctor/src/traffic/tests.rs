// SPDX-License-Identifier: BSD-2-Clause
//! Logs that say what they should, and others.

use std::time::{Duration, Instant};

use logq::Grouping;
use logq::group::{Grouper, TxnFilter};
use logq::record;
use proptest::prelude::*;
use shm::vsl::Marker;

use super::*;

fn read(bytes: &[u8]) -> Traffic {
    let mut traffic = Traffic::default();
    read_into(&mut traffic, bytes);
    traffic
}

fn read_into(traffic: &mut Traffic, bytes: &[u8]) {
    let wanted = TxnFilter { backend: true, client: true, esi: true, limit: 1000, timeout: Duration::from_secs(120) };
    let mut grouper = Grouper::new(Grouping::Vxid, wanted);
    let mut rest = bytes;
    while let Some((_, after)) = record::split(rest) {
        grouper.feed(&rest[..rest.len() - after.len()], Instant::now());
        rest = after;
    }
    grouper.flush(Instant::now());
    while grouper.take(|group| group.iter().for_each(|txn| traffic.add(txn))).is_some() {}
}

/// The transaction's number, how it begins, what it says.
type Told<'a> = (u32, &'a str, &'a [(Tag, &'a str)]);

fn log(transactions: &[Told<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (vxid, begin, records) in transactions {
        let marker = if begin.starts_with("req") { Marker::Client } else { Marker::Backend };
        let mut put = |tag, text: &str| bytes.extend(record::make(tag, *vxid, marker, text.as_bytes()));
        put(Tag::Begin, begin);
        records.iter().for_each(|(tag, text)| put(*tag, text));
        put(Tag::End, "");
    }
    bytes
}

const PASSED: &[(Tag, &str)] = &[
    (Tag::Timestamp, "Start: 1000.5 0.0 0.0"),
    (Tag::ReqMethod, "GET"),
    (Tag::ReqUrl, "/a.png?x"),
    (Tag::ReqHeader, "Host: a.nz"),
    (Tag::ReqHeader, "Cookie: s=1"),
    (Tag::VclCall, "RECV"),
    (Tag::VclReturn, "pass"),
    (Tag::Timestamp, "Waitinglist: 1002.5 2.0 2.0"),
    (Tag::RespStatus, "503"),
];
const FETCHED: &[(Tag, &str)] = &[
    (Tag::Timestamp, "Start: 1000.0 0.0 0.0"),
    (Tag::BereqUrl, "/p?utm_source=x"),
    (Tag::BereqHeader, "Host: a.nz"),
    (Tag::BereqHeader, "User-Agent: one"),
    (Tag::BackendOpen, "23 boot.a 127.0.0.1 80 127.0.0.1 4711 connect"),
    (Tag::Timestamp, "Bereq: 1000.0 0.0 0.0"),
    (Tag::Timestamp, "Beresp: 1003.0 3.0 3.0"),
    (Tag::BerespHeader, "Date: Thu, 01 Jan 1970 00:10:00 GMT"),
    (Tag::BerespHeader, "Vary: User-Agent"),
    (Tag::BerespHeader, "Cache-Control: no-cache"),
    (Tag::BerespHeader, "Set-Cookie: a=b"),
    (Tag::Ttl, "RFC 3 10 0 1003 1003 1003 0 3 cacheable"),
    (Tag::Timestamp, "BerespBody: 1004.0 4.0 1.0"),
];

#[test]
fn requests_are_added_up() {
    let traffic = read(&log(&[(3, "req 2 rxreq", PASSED), (5, "req 4 rxreq", PASSED)]));
    let url = &traffic.urls["a.nz/a.png"];
    assert_eq!((traffic.requests, traffic.errors, url.requests, url.errors, url.cookie_passes), (2, 2, 2, 2, 2));
    assert_eq!((url.waits, url.wait_seconds), (2, 4.0));
    assert_eq!(traffic.passes, BTreeMap::from([(COOKIE, (2, "a.nz/a.png?x".to_owned()))]));
}

#[test]
fn why_vcl_failed() {
    let failed = |text| [PASSED, &[(Tag::VclError, text), (Tag::VclError, "another")]].concat();
    let (request, fetch) = (failed("Workspace overflow: req"), [FETCHED, &[(Tag::VclError, "third")]].concat());
    let traffic = read(&log(&[(3, "req 2 rxreq", PASSED), (5, "req 4 rxreq", &request), (7, "bereq 6 fetch", &fetch)]));
    assert_eq!(traffic.vcl_errors, (2, "Workspace overflow: req".to_owned()));
}

#[test]
fn fetches_are_added_up() {
    let traffic = read(&log(&[(3, "bereq 2 fetch", FETCHED), (5, "bereq 4 pass", FETCHED)]));
    let (url, backend) = (&traffic.urls["a.nz/p"], &traffic.backends["boot.a"]);
    assert_eq!((url.fetches, url.fetch_seconds, url.backend.as_str()), (2, 8.0, "boot.a"));
    // What is passed isn't cached by intent.
    assert_eq!((url.set_cookie, url.forbidden, url.short, url.shortest), (1, 1, 1, Some(3.0)));
    assert_eq!((url.vary.as_str(), url.variants.len(), traffic.tracked.0), ("User-Agent", 1, 1));
    assert_eq!((backend.dated, backend.skewed, backend.skew, backend.first_byte.len()), (2, 2, -403.0, 2));
    assert_eq!(traffic.window, Some((1000.0, 1000.0)));
}

#[test]
fn why_a_request_is_passed() {
    let with = |records: &[(Tag, &'static str)]| {
        let mut all = vec![(Tag::ReqMethod, "GET"), (Tag::ReqUrl, "/")];
        all.extend_from_slice(records);
        all.push((Tag::VclReturn, "pass"));
        read(&log(&[(3, "req 2 rxreq", &all)])).passes.into_keys().next()
    };
    assert_eq!(with(&[(Tag::ReqHeader, "authorization: x"), (Tag::ReqHeader, "Cookie: a")]), Some(AUTHORIZATION));
    assert_eq!(with(&[(Tag::ReqHeader, "Cookie: a"), (Tag::ReqUnset, "Cookie: a")]), Some(BY_VCL));
    assert_eq!(with(&[(Tag::HitPass, "7 100.0")]), Some(MARKED));
    let post = read(&log(&[(3, "req 2 rxreq", &[(Tag::ReqMethod, "POST"), (Tag::VclReturn, "pass")])]));
    assert_eq!(post.passes.into_keys().next(), Some(METHOD));
}

#[test]
fn files_and_parameters_by_their_names() {
    assert!(is_static("a.nz/x.PNG") && is_static("/a/b.woff2") && !is_static("a.js") && !is_static("a.nz/x.png/"));
    for (url, want) in [
        ("/?utm_medium=x", true),
        ("/?a=1&fbclid=2", true),
        ("/?_=1354844750363", true),
        ("/?_=12", false),
        ("/?_=abcdefghijklm", false),
        ("/?page=2", false),
        ("/utm_source", false),
    ] {
        assert_eq!(is_tracked(url.as_bytes()), want, "{url}");
    }
}

#[test]
fn memory_is_bounded() {
    let mut traffic = Traffic::default();
    let long = "/x".repeat(1000);
    for n in 0..MOST_URLS + 10 {
        traffic.url(b"h", format!("/{n}{long}").as_bytes());
    }
    assert_eq!((traffic.urls.len(), traffic.left_out), (MOST_URLS, 10));
    assert!(traffic.urls.keys().all(|name| name.len() <= 2 * MOST_BYTES));
    assert_eq!(shown(&[0xff; 1000]).len(), MOST_BYTES);
}

#[test]
fn variants_are_bounded() {
    let fetch = |url: &str, agent: u32| {
        let vxid = 2 * agent + 3;
        let (url, agent) = (format!("/{url}"), format!("User-Agent: {agent}"));
        let records =
            [(Tag::BereqUrl, url.as_str()), (Tag::BereqHeader, &agent), (Tag::BerespHeader, "Vary: User-Agent")];
        log(&[(vxid, "bereq 2 fetch", &records)])
    };
    let one = read(&(0..MOST_VARIANTS as u32 + 50).flat_map(|n| fetch("a", n)).collect::<Vec<u8>>());
    assert_eq!((one.urls["/a"].variants.len(), one.variants_left_out), (MOST_VARIANTS, 0));
    let mut traffic = Traffic::default();
    let add = |traffic: &mut Traffic, url: &str, agent| read_into(traffic, &fetch(url, agent));
    traffic.variants = MOST_VARIANTS_OF_ALL - 1;
    [0, 1, 0, 2].into_iter().for_each(|agent| add(&mut traffic, "a", agent));
    // One that is known takes nothing.
    assert_eq!((traffic.urls["/a"].variants.len(), traffic.variants_left_out), (1, 2));
}

#[test]
fn no_text_of_strangers_commands_a_terminal() {
    const EVIL: &str = "/\u{1b}[2J\u{9b}2Jé";
    let asked =
        [(Tag::ReqUrl, EVIL), (Tag::ReqHeader, "Host: \u{1b}c"), (Tag::ReqMethod, "GET"), (Tag::VclReturn, "pass")];
    let fetched = [(Tag::BereqUrl, EVIL), (Tag::BereqHeader, "Host: \u{9b}b"), (Tag::BerespHeader, "Vary: \u{1b}")];
    let traffic = read(&log(&[(3, "req 2 rxreq", &asked), (5, "bereq 4 fetch", &fetched)]));
    let mut urls: Vec<&String> = traffic.urls.keys().collect();
    urls.sort();
    assert_eq!(urls, ["?b/?[2J?2Jé", "?c/?[2J?2Jé"]);
    let url = &traffic.urls["?b/?[2J?2Jé"];
    assert_eq!((url.vary.as_str(), &traffic.passes[BY_VCL].1), ("?", urls[1]));
}

proptest! {
    #[test]
    fn no_log_can_hurt(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0usize..600, byte: u8) {
        read(&bytes);
        let mut good = log(&[(3, "req 2 rxreq", PASSED), (5, "bereq 3 fetch", FETCHED)]);
        let at = at % good.len();
        good[at] = byte;
        read(&good);
    }
}

#[test]
fn cookies_that_no_page_depends_on() {
    let harmless = |cookie: &str| is_harmless(cookie.as_bytes());
    assert!(harmless("_ga=GA1.2.3") && harmless("_ga_X1=2; _gid=3;__utma=4"));
    assert!(!harmless("") && !harmless("_ga=1; PHPSESSID=2") && !harmless("session=_ga") && !harmless("_ga=1; "));
}
