// SPDX-License-Identifier: BSD-2-Clause
//! Facts about heads: which are malformed, and what the others become.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, fail by a panic")]

use http2::fields::{
    FieldsRefusal, HeadBuilder, Malformed, SectionFacts, SectionKind, SectionLimits, request_fields, response_fields,
    trailer_fields,
};
use message::{Head, HeadLimits};
use proptest::prelude::*;

fn build(kind: SectionKind, fields: &[(&str, &str)]) -> (Head, Result<SectionFacts, Malformed>) {
    let mut head = Head::new();
    let mut builder = HeadBuilder::new(&mut head, kind, b"HTTP/2.0", SectionLimits::NONE);
    fields.iter().for_each(|(name, value)| builder.field(name.as_bytes(), value.as_bytes()));
    let section = builder.finish();
    (head, section)
}

const REQUEST: SectionKind = SectionKind::Request { extended: false };
const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "http"), (":path", "/a?b"), (":authority", "h:80")];

fn wire(head: &Head) -> String {
    let mut out = Vec::new();
    head.write_to(&mut out);
    String::from_utf8(out).unwrap()
}

fn get(more: &[(&str, &str)]) -> (Head, Result<SectionFacts, Malformed>) {
    build(REQUEST, &[&GET, more].concat())
}

fn bad(fields: &[(&str, &str)], record: &str) {
    let (_, built) = build(REQUEST, fields);
    let got = built.map_err(|malformed| String::from_utf8(malformed.record()).unwrap());
    assert_eq!(got, Err(record.to_owned()), "{fields:?}");
}

fn bad_get(more: &[(&str, &str)], record: &str) {
    bad(&[&GET, more].concat(), record);
}

fn bad_pseudo(name: &str, value: &str, record: &str) {
    let changed = GET.map(|(known, before)| (known, if known == name { value } else { before }));
    bad(&changed, record);
}

#[test]
fn a_request_in_the_order_it_came() {
    let (head, built) =
        get(&[("accept", "*/*"), ("cookie", "a=b"), ("te", "trailers"), ("cookie", "c"), ("content-length", "7")]);
    assert_eq!(built.unwrap().content_length, Some(7));
    assert_eq!(
        wire(&head),
        "GET /a?b HTTP/2.0\r\nscheme: http\r\nhost: h:80\r\naccept: */*\r\ncookie: a=b; c\r\nte: trailers\r\n\
         content-length: 7\r\n\r\n"
    );
    let (head, built) = get(&[("priority", "u=1, i"), ("host", "H:80")]);
    assert_eq!(built.unwrap().priority, Some(http2::Priority { urgency: 1, incremental: true }));
    assert_eq!(head.count("host"), 1);
    let (head, built) = build(REQUEST, &[(":path", "*"), (":method", "OPTIONS"), (":scheme", "https"), ("host", "a")]);
    assert!(built.is_ok());
    assert_eq!(wire(&head), "OPTIONS * HTTP/2.0\r\nscheme: https\r\nhost: a\r\n\r\n");
}

#[test]
fn malformed_names_and_values() {
    bad_get(&[("", "x")], "Empty name");
    bad_get(&[(":", "x")], "Empty name");
    bad_get(&[("snaFu", "foo.bar")], "Illegal header name (upper-case): snaFu: foo.bar");
    bad_get(&[("sna[]fu", "foo.bar")], "Illegal header name: sna[]fu: foo.bar");
    bad_get(&[("a b", "")], "Illegal header name: a b: ");
    bad_get(&[("a:b", "")], "Illegal header name: a:b: ");
    bad_get(&[("a\r\n", "")], "Illegal header name: a\r\n: ");
    for value in ["a\r\nb: c", "a\nb", "a\0b", "\x7f", " a", "a\t", "\x01"] {
        let record = format!("Illegal header value: x: {value}");
        bad_get(&[("x", value)], &record);
    }
    bad_get(&[("content-length", "1x")], "Non-parseable Content-Length");
    bad_get(&[("content-length", "")], "Non-parseable Content-Length");
    bad_get(&[("content-length", "+1")], "Non-parseable Content-Length");
    bad_get(&[("content-length", "99999999999999999999")], "Non-parseable Content-Length");
    bad_get(&[("content-length", "1"), ("content-length", "1")], "Non-parseable Content-Length");
}

#[test]
fn fields_of_connections() {
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        bad_get(&[(name, "x")], &format!("Connection field: {}", &format!("{name}: x")[..(name.len() + 3).min(20)]));
    }
    bad_get(&[("te", "trailers, deflate")], "TE other than trailers: te: trailers, deflat");
    assert!(get(&[("te", "Trailers")]).1.is_ok());
}

#[test]
fn malformed_pseudo_header_fields() {
    bad_get(&[(":bla", "foo")], "Unknown pseudo-header: :bla: foo");
    bad_get(&[(":status", "200")], "Unknown pseudo-header: :status: 200");
    bad_get(&[(":protocol", "websocket")], "Unexpected :protocol");
    bad_get(&[(":method", "GET")], "Duplicate pseudo-header :method: GET");
    bad_get(&[("a", "b"), (":method", "GET")], "Pseudo-header after others: :method: GET");
    for missing in [":method", ":path", ":scheme"] {
        let others: Vec<_> = GET.into_iter().filter(|(name, _)| *name != missing).collect();
        bad(&others, &format!("Missing {missing}"));
    }
    for method in ["", "G ET", "GET /x HTTP/1.1", "G\u{e4}T"] {
        bad_pseudo(":method", method, &format!("Invalid method: {}", quote(":method", method)));
    }
    for path in ["", "a", "*", "/a b", "/a#b", "http://h/a", "//\u{20}"] {
        let (_, built) = build(REQUEST, &GET.map(|(name, value)| (name, if name == ":path" { path } else { value })));
        assert!(built.is_err(), "{path}");
    }
    for value in ["/\r\n", "/\0", "/\n"] {
        bad_pseudo(":path", value, &format!("Illegal header value: :path: {value}"));
    }
    for scheme in ["", "1", "ht tp", "http:", "h\u{e4}"] {
        bad_pseudo(":scheme", scheme, &format!("Invalid scheme: {}", quote(":scheme", scheme)));
    }
    for authority in ["", "a b", "u@h", "h/x", "h:99999", "a,b"] {
        bad_pseudo(":authority", authority, &format!("Invalid authority: {}", quote(":authority", authority)));
    }
}

fn quote(name: &str, value: &str) -> String {
    let whole = format!("{name}: {value}");
    String::from_utf8(whole.as_bytes()[..whole.len().min(20)].to_vec()).unwrap()
}

#[test]
fn host_is_the_authority_or_stands_for_it() {
    let refused =
        |built: Result<SectionFacts, Malformed>| assert_eq!(built.unwrap().refusal, Some(FieldsRefusal::SeveralHosts));
    let (head, built) = get(&[("host", "other")]);
    refused(built);
    assert_eq!((head.count("host"), head.get("host")), (1, Some(&b"h:80"[..])));
    let without: Vec<_> = GET.into_iter().filter(|(name, _)| *name != ":authority").collect();
    let (head, built) = build(REQUEST, &[&without[..], &[("host", "a"), ("host", "a")]].concat());
    refused(built);
    assert_eq!(head.count("host"), 1);
    bad(&[&without[..], &[("host", "a/b")]].concat(), "Invalid authority: host: a/b");
    bad(&[&without[..], &[("host", "")]].concat(), "Invalid authority: host: ");
    assert!(build(REQUEST, &without).1.is_ok());
}

#[test]
fn pseudo_header_fields_behind_others() {
    let late = |fields: &[(&str, &str)]| {
        let mut head = Head::new();
        let mut builder = HeadBuilder::new(&mut head, REQUEST, b"HTTP/2.0", SectionLimits::NONE);
        builder.take_late_pseudo();
        fields.iter().for_each(|(name, value)| builder.field(name.as_bytes(), value.as_bytes()));
        let built = builder.finish();
        (wire(&head), built.map_err(|malformed| String::from_utf8(malformed.record()).unwrap()))
    };
    let (head, built) = late(&[("foo", "bar"), (":method", "GET"), (":path", "/"), (":scheme", "http")]);
    assert!(built.is_ok());
    assert_eq!(head, "GET / HTTP/2.0\r\nfoo: bar\r\nscheme: http\r\n\r\n");
    let authority = [("foo", "bar"), (":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "a")];
    assert_eq!(late(&authority).1, Err("Pseudo-header after others: :authority: a".to_owned()));
    let twice = [("foo", "bar"), (":method", "GET"), (":path", "/"), (":scheme", "http"), (":path", "/")];
    assert_eq!(late(&twice).1, Err("Duplicate pseudo-header :path: /".to_owned()));
}

#[test]
fn connect() {
    let (head, built) = build(REQUEST, &[(":method", "CONNECT"), (":authority", "h:443")]);
    assert_eq!(built.unwrap().refusal, Some(FieldsRefusal::Connect));
    assert_eq!((head.url(), head.get("host")), (&b""[..], Some(&b"h:443"[..])));
    bad(&[(":method", "CONNECT")], "Missing :authority");
    bad(&[(":method", "CONNECT"), (":authority", "h"), (":path", "/")], "CONNECT with a path or a scheme");
    let websocket = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":path", "/chat"),
        (":authority", "h"),
        ("sec-websocket-version", "13"),
    ];
    // What HTTP/1 asks for a WebSocket with, but for the key: that is a connection's.
    let more = [("sec-websocket-key", "x"), ("content-length", "5")];
    let (head, built) = build(SectionKind::Request { extended: true }, &[&websocket[..], &more].concat());
    let section = built.unwrap();
    assert_eq!((section.extended, section.refusal, section.content_length), (true, None, None));
    assert_eq!((head.method(), head.url()), (&b"GET"[..], &b"/chat"[..]));
    assert_eq!((head.get("upgrade"), head.get("connection")), (Some(&b"websocket"[..]), Some(&b"upgrade"[..])));
    assert!(!head.has("sec-websocket-key") && !head.has("content-length"));
    let mut other = websocket;
    other[1].1 = "connect-udp";
    let (_, built) = build(SectionKind::Request { extended: true }, &other);
    let section = built.unwrap();
    assert_eq!((section.extended, section.refusal), (false, Some(FieldsRefusal::Protocol)));
    bad(&websocket, "Unexpected :protocol");
    let (_, built) = build(SectionKind::Request { extended: true }, &[&GET[..], &[(":protocol", "x")]].concat());
    assert!(built.is_err());
}

#[test]
fn limits_of_a_head() {
    let mut head = Head::with_limits(HeadLimits::new(8, 1000));
    let mut fill = |list_bytes, fields: &[(&str, &str)]| {
        let limits = SectionLimits { list_bytes, line_bytes: 900 };
        let mut builder = HeadBuilder::new(&mut head, REQUEST, b"HTTP/2.0", limits);
        GET.iter().chain(fields).for_each(|(name, value)| builder.field(name.as_bytes(), value.as_bytes()));
        builder.finish().map_err(|malformed| {
            assert_eq!(malformed.code(), http2::ErrorCode::EnhanceYourCalm);
            (malformed.status(), String::from_utf8(malformed.record()).unwrap())
        })
    };
    let refused = |status, record: &str| Err((Some(status), record.to_owned()));
    assert!(fill(u64::MAX, &[("a", "b")]).is_ok());
    assert_eq!(fill(u64::MAX, &[("a", "b"), ("c", "d")]), refused(431, "Too many headers: c: d"));
    // A line of HTTP/1 would be `a: ` and the value.
    assert!(fill(u64::MAX, &[("a", &"b".repeat(897))]).is_ok());
    assert_eq!(fill(u64::MAX, &[("a", &"b".repeat(898))]), refused(431, "Header too large: a: bbbbbbbbbbbbbbbbb"));
    assert_eq!(
        fill(u64::MAX, &[("a", &"b".repeat(600)), ("c", &"d".repeat(600))]).map_err(|(status, _)| status),
        Err(Some(431))
    );
    assert_eq!(fill(150, &[]), refused(431, "Header too large: :authority: h:80"));
}

#[test]
fn a_path_that_is_too_large_has_a_status_of_its_own() {
    let mut head = Head::with_limits(HeadLimits::new(8, 1000));
    let mut fill = |list_bytes, path: usize| {
        let limits = SectionLimits { list_bytes, line_bytes: 100 };
        let mut builder = HeadBuilder::new(&mut head, REQUEST, b"HTTP/2.0", limits);
        let path = format!("/{}", "p".repeat(path));
        for (name, value) in [(":method", "GET"), (":path", &path), (":scheme", "http"), (":authority", "h")] {
            builder.field(name.as_bytes(), value.as_bytes());
        }
        builder.finish().map(drop).map_err(|malformed| malformed.status())
    };
    // Over HTTP/1 it is no header line, either.
    assert_eq!(fill(u64::MAX, 900), Ok(()));
    assert_eq!(fill(u64::MAX, 1000), Err(Some(414)));
    assert_eq!(fill(500, 400), Err(Some(431)), "the scheme is too much");
    assert_eq!(fill(500, 450), Err(Some(414)));
}

#[test]
fn responses() {
    let (head, built) = build(SectionKind::Response, &[(":status", "200"), ("server", "x"), ("content-length", "3")]);
    assert_eq!(
        (wire(&head).as_str(), built.unwrap().content_length),
        ("HTTP/2.0 200 OK\r\nserver: x\r\ncontent-length: 3\r\n\r\n", Some(3))
    );
    for status in ["", "20", "2000", "099", "101", "abc", "-10"] {
        assert!(build(SectionKind::Response, &[(":status", status)]).1.is_err(), "{status}");
    }
    assert!(build(SectionKind::Response, &[("server", "x")]).1.is_err());
    assert!(build(SectionKind::Response, &[(":status", "200"), (":path", "/")]).1.is_err());
}

#[test]
fn trailers() {
    let (head, built) = build(SectionKind::Trailers, &[("grpc-status", "0"), ("x", "y")]);
    assert!(built.is_ok());
    assert_eq!(head.iter().map(|field| field.line().to_vec()).collect::<Vec<_>>(), [&b"grpc-status: 0"[..], b"x: y"]);
    for field in [(":status", "200"), ("content-length", "1"), ("host", "h"), ("transfer-encoding", "x")] {
        assert!(build(SectionKind::Trailers, &[field]).1.is_err(), "{field:?}");
    }
}

fn sent(walk: impl FnOnce(&mut dyn FnMut(&[u8], &[u8]))) -> Vec<String> {
    let mut fields = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    walk(&mut |name, value| fields.push(format!("{}: {}", text(name), text(value))));
    fields
}

#[test]
fn heads_that_go_out() {
    let mut head = Head::new();
    head.start_response(b"HTTP/1.1", 1404).unwrap();
    for line in [
        "Age: 3",
        "Connection: x",
        "Keep-Alive: a",
        "TE: gzip",
        "Upgrade: b",
        "Transfer-Encoding: chunked",
        "Via: 1\r\nX: y ",
    ] {
        let (name, value) = line.split_once(": ").unwrap();
        head.append(name, value).unwrap();
    }
    head.append("X", "nominated").unwrap();
    message::hop::connection(&mut head).unwrap();
    assert_eq!(sent(|take| response_fields(&head, take)), [":status: 404", "Age: 3", "Via: 1  X: y"]);
    head.start_request(b"GET", b"/x", b"HTTP/1.1").unwrap();
    head.append("Host", "h").unwrap();
    head.append("TE", "trailers").unwrap();
    assert_eq!(
        sent(|take| request_fields(&head, "https", take)),
        [":method: GET", ":scheme: https", ":path: /x", ":authority: h", "TE: trailers"]
    );
    assert_eq!(sent(|take| trailer_fields(&head, take)), [""; 0]);
}

proptest! {
    /// Whatever comes: what is taken can be laid out as HTTP/1 without meaning anything else.
    #[test]
    fn nothing_hides_in_a_head(
        fields in prop::collection::vec(("(:method|:path|:scheme|:authority|host|te|cookie|content-length|x|[a-zA-Z: \r\n]{0,5})", "[ -~\r\n\0\t/]{0,12}|GET|/|http"), 0..12),
    ) {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let (head, built) = build(REQUEST, &fields);
        if built.is_ok_and(|section| section.refusal.is_none()) {
            let wire = wire(&head);
            prop_assert_eq!(wire.matches('\n').count(), head.len() + 2);
            prop_assert_eq!(wire.matches('\r').count(), head.len() + 2);
            prop_assert_eq!(wire.lines().next().unwrap().split(' ').count(), 3);
            prop_assert!(head.count("host") <= 1 && head.count("content-length") <= 1 && !head.has("transfer-encoding"));
        }
    }
}
