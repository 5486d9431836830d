// SPDX-License-Identifier: BSD-2-Clause
//! Rules about which of several records counts, and records that no server writes.

use logq::record::make;
use logq::{BeginReason, TxnType};
use proptest::prelude::*;
use shm::vsl::Marker;

use super::*;

fn bytes(records: &[(Tag, &str)]) -> Vec<u8> {
    records.iter().flat_map(|(tag, text)| make(*tag, 7, Marker::Client, text.as_bytes())).collect()
}

/// The view of a client's request with these records.
fn check(records: &[(Tag, &str)], check: impl FnOnce(&View<'_>)) {
    let bytes = bytes(records);
    let txn = Txn { vxid: 7, level: 1, parent: 0, kind: TxnType::Req, reason: BeginReason::Rxreq, records: &bytes };
    check(&View::with_headers(&txn).read());
}

fn lines(lines: &HeaderLines<'_>) -> Vec<String> {
    let shown = |bytes| String::from_utf8_lossy(bytes).into_owned();
    lines.iter().map(|(name, value)| format!("{}: {}", shown(name), shown(value))).collect()
}

#[test]
fn a_request_as_it_came_and_as_vcl_left_it() {
    let records = [
        (Tag::ReqMethod, "GET"),
        (Tag::ReqUrl, "/a"),
        (Tag::ReqProtocol, "HTTP/1.0"),
        (Tag::ReqHeader, "host:  a.test "),
        (Tag::VclCall, "RECV"),
        (Tag::ReqUrl, "/b"),
        (Tag::ReqUnset, "host: a.test"),
        (Tag::ReqHeader, "Host: b.test"),
        (Tag::VclReturn, "pass"),
    ];
    check(&records, |view| {
        assert_eq!(view.came.url.zip(view.left.url), Some((&b"/a"[..], &b"/b"[..])));
        assert_eq!(view.came.host.zip(view.left.host), Some((&b"a.test"[..], &b"b.test"[..])));
        assert_eq!((view.came.method, view.left.method), (Some(&b"GET"[..]), Some(&b"GET"[..])));
        assert_eq!((view.request_line(), lines(&view.request_headers)), (&view.came, vec!["host: a.test".to_owned()]));
    });
}

#[test]
fn only_the_server_begins_a_response() {
    let records = [
        (Tag::RespProtocol, "HTTP/1.1"),
        (Tag::RespStatus, "103"),
        (Tag::RespReason, "Early Hints"),
        (Tag::RespHeader, "Link: </a>"),
        (Tag::RespProtocol, "HTTP/1.1"),
        (Tag::RespStatus, "200"),
        (Tag::RespHeader, "Age: 0"),
        (Tag::VclCall, "DELIVER"),
        (Tag::RespProtocol, "HTTP/1.0"),
        (Tag::RespHeader, "X: y"),
        (Tag::VclReturn, "deliver"),
        (Tag::RespHeader, "Connection: close"),
    ];
    check(&records, |view| {
        assert_eq!((view.response.status(), view.response.protocol), (200, Some(&b"HTTP/1.0"[..])));
        assert_eq!(view.response.reason, None);
        assert_eq!(lines(&view.response_headers), ["Age: 0", "X: y", "Connection: close"]);
    });
}

#[test]
fn a_protocol_alone_begins_no_response() {
    let records = [
        (Tag::RespProtocol, "HTTP/1.0"),
        (Tag::RespStatus, "200"),
        (Tag::RespReason, "OK"),
        (Tag::RespHeader, "Server: old"),
        (Tag::RespProtocol, "HTTP/1.1"),
        (Tag::RespHeader, "Age: 0"),
        (Tag::VclCall, "DELIVER"),
        (Tag::VclReturn, "deliver"),
    ];
    check(&records, |view| {
        let line = StatusLine { protocol: Some(b"HTTP/1.1"), status: Some(b"200"), reason: Some(b"OK") };
        assert_eq!(view.response, line);
        assert_eq!(lines(&view.response_headers), ["Server: old", "Age: 0"]);
    });
}

#[test]
fn one_record_removes_one_line() {
    let mut headers = HeaderLines::default();
    ["A: 1", "a:1", "A: 2", "no line"].into_iter().for_each(|line| headers.add(line.as_bytes()));
    headers.remove(b"a: 1");
    headers.remove(b"A: 3");
    assert_eq!(lines(&headers), ["a: 1", "A: 2"]);
    assert_eq!((headers.first("A"), headers.all("a").count(), headers.first("b")), (Some(&b"1"[..]), 2, None));
}

#[test]
fn timestamps_with_labels_of_vcl() {
    let records = [
        (Tag::Timestamp, "Start: 1700000000.100000 0.000000 0.000000"),
        (Tag::Timestamp, "a: b: 1700000000.200000 0.100000 0.100000"),
        (Tag::Timestamp, "Fetch: 1700000000.300000 0.200000 0.125000"),
        (Tag::Timestamp, "Start: 1700000000.400000 0.300000 0.100000"),
        (Tag::Timestamp, "Fetch: 1700000000.500000 0.400000 0.250000"),
        (Tag::Timestamp, "Fetch: 1700000000.400000 0.300000 -0.100000"),
        (Tag::Timestamp, "nothing"),
        (Tag::Timestamp, "Resp: soon inf nan"),
    ];
    check(&records, |view| {
        assert_eq!(view.begin().and_then(|stamp| stamp.at()), Some(crate::UnixNs(1_700_000_000_100_000_000)));
        assert_eq!(view.end(), Some(crate::UnixNs(1_700_000_000_500_000_000)));
        assert_eq!((view.seconds_until("Fetch"), view.seconds_until("Process")), (Some(0.375), None));
        assert_eq!(view.stamps[1].label(), b"a: b");
        assert_eq!(view.stamp(&["Fetch", "Process"]).and_then(|stamp| stamp.since_start()), Some(0.3));
        let last = view.stamp(&["Resp"]).expect("a stamp");
        assert_eq!((last.seconds(), last.since_start(), last.since_last(), last.at()), (None, None, None, None));
        assert_eq!((view.stamps[6].label(), view.stamps[6].at()), (&b"nothing"[..], None));
    });
}

#[test]
fn peers_and_bytes() {
    check(&[(Tag::ReqStart, "192.0.2.1 4711 a0 https"), (Tag::PipeAcct, "80 90 1000 2000")], |view| {
        let client = PeerView { address: b"192.0.2.1", port: 4711, name: b"a0", is_reused: false };
        assert_eq!((view.peer(), view.scheme()), (Some(client), &b"https"[..]));
        assert_eq!(view.bytes(), Some(ByteCounts { req_head: 80, req_body: 1000, resp_head: 0, resp_body: 2000 }));
    });
    check(&[(Tag::BackendOpen, "28 d 127.0.0.1 80 127.0.0.1 40000 reuse"), (Tag::ReqAcct, "1 2 3 4 5 9")], |view| {
        let backend = PeerView { address: b"127.0.0.1", port: 80, name: b"d", is_reused: true };
        assert_eq!((view.peer(), view.scheme()), (Some(backend), &b""[..]));
        assert_eq!(view.bytes(), Some(ByteCounts { req_head: 1, req_body: 2, resp_head: 4, resp_body: 5 }));
    });
    check(&[(Tag::ReqStart, "/run/socket"), (Tag::ReqAcct, "1 2 3 x 5 9")], |view| {
        assert_eq!(
            (view.peer().map(|peer| (peer.address, peer.port)), view.bytes()),
            (Some((&b"/run/socket"[..], 0)), None)
        );
    });
}

proptest! {
    #[test]
    fn no_records_can_hurt(records in proptest::collection::vec((0u8..110, "[ -~]{0,40}"), 0..40), is_fetch: bool) {
        let known = records.iter().filter_map(|(tag, text)| Some((Tag::from_number(*tag)?, text.as_str())));
        let bytes = bytes(&known.collect::<Vec<_>>());
        let kind = if is_fetch { TxnType::Bereq } else { TxnType::Req };
        let txn = Txn { vxid: 7, level: 1, parent: 0, kind, reason: BeginReason::Unknown, records: &bytes };
        let view = View::with_headers(&txn).read();
        let _ = (view.peer(), view.bytes(), view.end(), view.vcl_label(), view.response.status());
        let _ = (view.request_line(), view.scheme(), view.seconds_until("Fetch"));
    }
}
