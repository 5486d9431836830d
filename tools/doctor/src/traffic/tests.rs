// SPDX-License-Identifier: BSD-2-Clause
//! Logs that servers wrote, and others that say more or worse than a server would.

use std::time::{Duration, Instant};

use logq::Grouping;
use logq::group::{Grouper, TxnFilter};
use logq::record;
use proptest::prelude::*;
use shm::vsl::Marker;
use tables::Tag;
use testkit::recorded::{self, TestRecord};

use super::transaction::{AUTHORIZATION, BY_VCL, MARKED, METHOD};
use super::*;

fn read(bytes: &[u8]) -> LogTraffic {
    let mut traffic = LogTraffic::default();
    read_into(&mut traffic, bytes);
    traffic
}

fn read_into(traffic: &mut LogTraffic, bytes: &[u8]) {
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

/// The transaction's number, its Begin record and its other records.
type Told<'a> = (u64, &'a str, &'a [(Tag, &'a str)]);

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

/// The log that a server wrote about the requests of `record.py`.
fn log_of(records: &[TestRecord]) -> Vec<u8> {
    testkit::recorded::log(records, |name| Tag::from_name(name).expect("a tag").number())
}

#[test]
fn which_of_several_records_counts() {
    let traffic = read(&log_of(&recorded::repeated()));
    let mut urls: Vec<&str> = traffic.urls.keys().map(String::as_str).collect();
    urls.sort_unstable();
    assert_eq!(urls, ["asked.test/asked", "sent.test/sent"]);
    let (asked, sent) = (&traffic.urls["asked.test/asked"], &traffic.urls["sent.test/sent"]);
    assert_eq!((asked.requests, asked.errors, asked.waits), (1, 0, 1));
    assert!((asked.wait_seconds - 0.2).abs() < 1e-6 && (sent.fetch_seconds - 0.3).abs() < 1e-6, "{asked:?} {sent:?}");
    assert_eq!((sent.backend.as_str(), sent.fetches), ("second", 1));
    assert_eq!((traffic.vcl_errors, traffic.window), ((1, "first".into()), Some((1_700_000_000.1, 1_700_000_000.4))));
    let passes: Vec<_> = traffic.passes.iter().map(|(why, (n, example))| (*why, *n, example.as_str())).collect();
    assert_eq!(passes, [(COOKIE, 1, "asked.test/asked?q=1")]);
    assert_eq!(traffic.harmless, (1, "_ga".into()));
    let first_byte = traffic.backends["second"].first_byte.quantile(1.0);
    assert!((0.045..0.055).contains(&first_byte), "{first_byte}");

    let as_a_miss = |rec: TestRecord| TestRecord {
        text: if rec.text == "bereq 3 pass" { "bereq 3 fetch" } else { rec.text },
        ..rec
    };
    let fetched = read(&log_of(&recorded::repeated().into_iter().map(as_a_miss).collect::<Vec<_>>()));
    let sent = &fetched.urls["sent.test/sent"];
    assert_eq!((sent.forbidden, sent.set_cookie, sent.short, sent.shortest), (1, 0, 1, Some(3.0)));
    assert_eq!((sent.vary.as_str(), sent.variants.len(), fetched.tracked.0), ("X", 1, 0));
}

/// The traffic that each server logged for the same requests, with the server's name.
fn both() -> [(&'static str, LogTraffic); 2] {
    [("Lacquer", recorded::lacquer()), ("Varnish", recorded::varnish())].map(|(name, all)| (name, read(&log_of(&all))))
}

#[test]
fn requests_are_added_up() {
    for (server, traffic) in both() {
        // 44 of clients and one of ESI; a restart adds none.
        assert_eq!((traffic.requests, traffic.errors), (45, 6), "{server}");
        let url = |path: &str| &traffic.urls[&format!("site.test{path}")];
        let errors: Vec<u64> =
            ["/dead", "/error", "/fail", "/broken", "/late", "/probed", "/a"].map(|path| url(path).errors).to_vec();
        assert_eq!(errors, [1, 1, 1, 1, 1, 1, 0], "{server}");
        let slow = url("/slow");
        assert!(slow.waits == 1 && (0.5..1.2).contains(&slow.wait_seconds), "{server}: {slow:?}");
        let (first, last) = traffic.window.expect("requests have times");
        assert!(first > 1.7e9 && (3.0..60.0).contains(&(last - first)), "{server}: {first} {last}");
    }
}

#[test]
fn why_requests_are_passed() {
    for (server, traffic) in both() {
        let passes: Vec<_> = traffic.passes.iter().map(|(why, (n, example))| (*why, *n, example.as_str())).collect();
        let want = [
            (BY_VCL, 3, "site.test/pass"),
            (MARKED, 1, "site.test/hfp"),
            (METHOD, 2, "site.test/post"),
            (COOKIE, 5, "site.test/withcookie"),
            (AUTHORIZATION, 1, "site.test/member"),
        ];
        assert_eq!(passes.len(), want.len(), "{server}");
        want.iter().for_each(|one| assert!(passes.contains(one), "{server}: {passes:?}"));
        let of_cookies: Vec<u64> = ["/photo.jpg", "/late", "/member", "/forgotten", "/a"]
            .map(|path| traffic.urls[&format!("site.test{path}")].cookie_passes)
            .to_vec();
        assert_eq!(of_cookies, [1, 1, 0, 0, 0], "{server}");
        // One of two lines is a session's.
        assert_eq!(traffic.harmless, (1, "_ga _gid".to_owned()), "{server}");
    }
}

#[test]
fn why_vcl_failed() {
    for (server, traffic) in both() {
        assert_eq!(traffic.vcl_errors, (2, "no reason".to_owned()), "{server}");
    }
}

#[test]
fn fetches_are_added_up() {
    for (server, traffic) in both() {
        let url = |path: &str| &traffic.urls[&format!("site.test{path}")];
        let of = |path| (url(path).fetches, url(path).set_cookie, url(path).forbidden);
        assert_eq!((of("/logo.png"), of("/taken.css"), of("/private")), ((1, 1, 0), (1, 0, 0), (2, 0, 2)), "{server}");
        // A pass is no fetch for the cache, neither when it is tried again.
        assert_eq!((of("/twice.png"), of("/again.png")), ((2, 2, 2), (2, 0, 0)), "{server}");
        assert_eq!((url("/news").short, url("/news").shortest, url("/private").short), (1, Some(3.0), 0), "{server}");
        assert_eq!((url("/vary").vary.as_str(), url("/vary").variants.len()), ("Accept-Language", 2), "{server}");
        assert_eq!(traffic.tracked, (1, "/landing?utm_source=x".to_owned()), "{server}");
        let slow = url("/slow");
        assert!(
            slow.fetches == 1 && (1.2..5.0).contains(&slow.fetch_seconds) && slow.backend == "default",
            "{server}: {slow:?}"
        );
        assert_eq!(traffic.backends.keys().collect::<Vec<_>>(), ["default"], "nothing else was reached");
        let backend = &traffic.backends["default"];
        assert!(backend.first_byte.len() > 30 && (1.0..2.0).contains(&backend.first_byte.quantile(1.0)), "{server}");
        // The only old date is this response's; that of another cache's response says nothing.
        assert!(backend.dated > 30 && backend.skewed == 1 && backend.skew < -86_400.0, "{server}: {backend:?}");
    }
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
    let mut traffic = LogTraffic::default();
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
    let fetch = |url: &str, agent: u64| {
        let vxid = 2 * agent + 3;
        let (url, agent) = (format!("/{url}"), format!("User-Agent: {agent}"));
        let records =
            [(Tag::BereqUrl, url.as_str()), (Tag::BereqHeader, &agent), (Tag::BerespHeader, "Vary: User-Agent")];
        log(&[(vxid, "bereq 2 fetch", &records)])
    };
    let one = read(&(0..MOST_VARIANTS as u64 + 50).flat_map(|n| fetch("a", n)).collect::<Vec<u8>>());
    assert_eq!((one.urls["/a"].variants.len(), one.variants_left_out), (MOST_VARIANTS, 0));
    let mut traffic = LogTraffic::default();
    let add = |traffic: &mut LogTraffic, url: &str, agent| read_into(traffic, &fetch(url, agent));
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
    fn no_log_can_hurt(bytes in proptest::collection::vec(any::<u8>(), 0..400), at: usize, byte: u8) {
        read(&bytes);
        let mut good = log_of(&recorded::varnish()[..150]);
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
