// SPDX-License-Identifier: BSD-2-Clause
//! Transactions that servers recorded, and malformed ones.

use logq::record::make;
use proptest::prelude::*;
use shm::vsl::Marker;

use super::*;

pub fn transaction(records: &[(Tag, &str)]) -> Vec<u8> {
    records.iter().flat_map(|(tag, text)| make(*tag, 7, Marker::Client, text.as_bytes())).collect()
}

/// URL, handling and status of each request of a client.
fn requests(records: &[testkit::recorded::TestRecord]) -> Vec<String> {
    let bytes = testkit::recorded::log(records, |name| Tag::from_name(name).expect("a tag").number());
    let mut transactions: Vec<Vec<u8>> = Vec::new();
    for rec in record::records(&bytes) {
        if rec.tag == Tag::Begin {
            transactions.push(Vec::new());
        }
        let whole = make(rec.tag, 7, Marker::Client, rec.text());
        transactions.last_mut().expect("a transaction begins").extend(whole);
    }
    let one = |bytes: &Vec<u8>| match read(bytes) {
        Some(WatchedTransaction::Request(r)) if !r.is_fragment => {
            assert!(r.start > 1.7e9 && r.host == b"site.test" && (r.vcl == b"boot" || !r.is_first), "{r:?}");
            assert!(r.is_restarted || r.duration.is_some_and(|seconds| seconds < 60.0), "{r:?}");
            Some(format!("{} {:?} {}", String::from_utf8_lossy(r.url), r.handling, r.status))
        }
        Some(WatchedTransaction::Fetch(f)) if f.error.is_none() => {
            assert!(f.backend == b"default" && !f.url.is_empty(), "{f:?}");
            None
        }
        _ => None,
    };
    transactions.iter().filter_map(one).collect()
}

#[test]
fn records_of_both_servers_say_what_became_of_each_request() {
    let (ours, theirs) = (requests(&testkit::recorded::lacquer()), requests(&testkit::recorded::varnish()));
    let want = [
        "/a Miss 200",
        "/a Hit 200",
        "/pass Pass 200",
        "/synth Synth 403",
        "/page Miss 200",
        "/dead Miss 503",
        "/private Miss 200",
        "/pipe Pipe 0",
        "/post Pass 200",
        "/withcookie Pass 200",
    ];
    for all in [&ours, &theirs] {
        want.iter().for_each(|line| assert!(all.iter().any(|got| got == line), "{line}: {all:?}"));
    }
    assert_eq!(ours, theirs);
}

#[test]
fn which_of_several_records_counts() {
    let records = testkit::recorded::repeated();
    let of = |vxid| {
        let own: Vec<_> = records.iter().filter(|rec| rec.vxid == vxid).copied().collect();
        testkit::recorded::log(&own, |name| Tag::from_name(name).expect("a tag").number())
    };
    let (request, fetch) = (of(3), of(4));
    let (Some(WatchedTransaction::Request(r)), Some(WatchedTransaction::Fetch(f))) = (read(&request), read(&fetch))
    else {
        panic!()
    };
    let shown = |bytes| String::from_utf8_lossy(bytes);
    assert_eq!(
        [r.method, r.url, r.host, r.vcl, r.loaded].map(shown),
        ["GET", "/asked?q=1", "asked.test", "www", "reload_2"]
    );
    assert_eq!((r.handling, r.status, r.fetch, r.bytes), (Handling::Pass, 200, 4, 1000));
    assert_eq!((r.start, r.first_byte, r.duration), (1_700_000_000.1, Some(0.7), Some(0.8)));
    assert!((r.backend_seconds - 0.3).abs() < 1e-9 && !r.is_restarted);
    assert_eq!(
        [f.backend, f.url, f.store, f.error.unwrap_or_default()].map(shown),
        ["second", "/sent", "s1", "HTC eof (-1)"]
    );
    assert_eq!((f.status, f.next, f.bytes, f.first_byte, f.duration), (200, 6, 1000, Some(0.1), Some(0.3)));
}

#[test]
fn a_request_is_what_the_client_sent_and_what_became_of_it() {
    let bytes = transaction(&[
        (Tag::Begin, "req 6 rxreq"),
        (Tag::Timestamp, "Start: 1700000000.5 0.000000 0.000000"),
        (Tag::VclUse, "reload_1 via www"),
        (Tag::ReqMethod, "GET"),
        (Tag::ReqUrl, "/a?b"),
        (Tag::ReqHeader, "Host: x.test"),
        (Tag::VclCall, "RECV"),
        (Tag::ReqUrl, "/rewritten"),
        (Tag::ReqHeader, "Host: y.test"),
        (Tag::VclCall, "MISS"),
        (Tag::Link, "bereq 8 bgfetch"),
        (Tag::Link, "bereq 9 fetch"),
        (Tag::Link, "req 10 esi 1"),
        (Tag::Notice, "lacquer: no hit: expired 3s ago"),
        (Tag::Timestamp, "Fetch: 1700000000.6 0.100000 0.090000"),
        (Tag::RespStatus, "200"),
        (Tag::VclCall, "DELIVER"),
        (Tag::Timestamp, "Process: 1700000000.6 0.110000 0.010000"),
        (Tag::Timestamp, "Resp: 1700000000.7 0.200000 0.090000"),
        (Tag::ReqAcct, "35 0 35 246 1000 1246"),
        (Tag::End, ""),
    ]);
    assert!(is_whole(&bytes));
    let Some(WatchedTransaction::Request(r)) = read(&bytes) else { panic!() };
    assert_eq!((r.method, r.url, r.host, r.vcl), (&b"GET"[..], &b"/a?b"[..], &b"x.test"[..], &b"www"[..]));
    assert_eq!((r.handling, r.status, r.bytes, r.is_first), (Handling::Miss, 200, 1000, true));
    assert_eq!((r.first_byte, r.duration, r.backend_seconds), (Some(0.11), Some(0.2), 0.09));
    assert_eq!((r.why, r.fetch, r.loaded), (Some(&b"expired 3s ago"[..]), 9, &b"reload_1"[..]));
}

#[test]
fn a_fetch_names_its_backend_and_store() {
    let bytes = transaction(&[
        (Tag::Begin, "bereq 6 fetch"),
        (Tag::VclUse, "boot"),
        (Tag::BereqUrl, "/a"),
        (Tag::BackendOpen, "24 default 127.0.0.1 8080 127.0.0.1 41234 connect"),
        (Tag::Timestamp, "Beresp: 1700000000.6 0.010000 0.010000"),
        (Tag::BerespStatus, "404"),
        (Tag::Storage, "malloc s0"),
        (Tag::Timestamp, "BerespBody: 1700000000.6 0.020000 0.010000"),
        (Tag::BereqAcct, "100 0 100 200 3000 3200"),
        (Tag::End, ""),
    ]);
    let Some(WatchedTransaction::Fetch(f)) = read(&bytes) else { panic!() };
    assert_eq!((f.backend, f.store, f.status, f.bytes), (&b"default"[..], &b"s0"[..], 404, 3000));
    assert_eq!((f.first_byte, f.duration), (Some(0.01), Some(0.02)));
    assert_eq!((f.number, f.next, f.has_failed(), f.failing()), (7, 0, false, &b"default"[..]));
    assert_eq!(f.loaded, b"boot");
}

#[test]
fn a_failed_fetch_names_its_backend() {
    let check = |records: &[(Tag, &str)], name: &str, had_none_healthy, next| {
        let bytes = transaction(&[&[(Tag::Begin, "bereq 6 fetch")], records].concat());
        let Some(WatchedTransaction::Fetch(f)) = read(&bytes) else { panic!() };
        let found = (String::from_utf8_lossy(f.failing()), f.had_none_healthy(), f.next);
        assert!(f.has_failed() && found == (name.into(), had_none_healthy, next), "{records:?}: {found:?}");
    };
    let open = (Tag::BackendOpen, "24 a 127.0.0.1 8080 127.0.0.1 41234 connect");
    let error = |text: &'static str| (Tag::FetchError, text);
    check(&[error("backend a: fail errno 111 (Connection refused)")], "a", false, 0);
    check(&[error("backend a(10.0.0.1:80): unhealthy"), (Tag::Link, "bereq 8 retry")], "a(10.0.0.1:80)", false, 8);
    check(&[open, error("HTC eof (-1)"), (Tag::BerespStatus, "503")], "a", false, 0);
    check(&[open, (Tag::BerespStatus, "502")], "a", false, 0);
    check(&[error("Director rr returned no backend")], "", true, 0);
    check(&[error("No backend")], "", false, 0);
    check(&[error("backend of nothing")], "", false, 0);
}

#[test]
fn urls_of_a_kind_look_the_same() {
    let p = |url: &str| String::from_utf8(pattern(url.as_bytes())).unwrap();
    assert_eq!(p("/news/2023/11/04/4711.html?page=2"), "/news/#/#/#/#?");
    assert_eq!(p("/a/0d9f3c7e-1111-4222-8333-abcdefabcdef/b"), "/a/#/b");
    assert_eq!(p("/img/photo1.jpg"), "/img/photo1.jpg");
    assert_eq!(p("/1/2/3/4/5/6/7/8"), "/#/#/#/#/#/#/...");
    assert_eq!(p(""), "");
}

proptest! {
    #[test]
    fn no_records_can_hurt(bytes in proptest::collection::vec(any::<u8>(), 0..200), url in ".{0,80}") {
        let mut whole = make(Tag::Begin, 1, Marker::Client, b"req 1 rxreq");
        whole.extend(&bytes);
        let _ = read(&whole);
        let _ = read(&bytes);
        let _ = is_whole(&bytes);
        prop_assert!(pattern(url.as_bytes()).len() <= url.len() + 400);
    }
}
