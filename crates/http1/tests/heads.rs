// SPDX-License-Identifier: BSD-2-Clause
//! Facts about whole heads, and what must hold for any octets.

use http1::{
    Framing, FramingError, HeadError, HeadProgress, HeadScan, Http1Limits, ParsedHead, parse_found_request,
    parse_request, parse_response,
};
use message::{Head, HeadLimits};
use proptest::prelude::*;

fn request(input: &str, want: Result<(&str, &str), HeadError>) {
    request_with(&Http1Limits::default(), input, want);
}

fn lenient(input: &str, want: Result<(&str, &str), HeadError>) {
    request_with(&Http1Limits { lenient: true, ..Http1Limits::default() }, input, want);
}

/// `want`: the target, and Host.
fn request_with(limits: &Http1Limits, input: &str, want: Result<(&str, &str), HeadError>) {
    let mut head = Head::new();
    let got = parse_request(input.as_bytes(), limits, &mut head).map(|progress| {
        assert!(matches!(progress, HeadProgress::Complete(_)), "{input:?}: {progress:?}");
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        (text(head.url()), text(head.get("Host").unwrap_or_default()))
    });
    assert_eq!(got, want.map(|(a, b)| (a.to_owned(), b.to_owned())), "{input:?}");
}

#[test]
fn good_requests() {
    request("GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n", Ok(("/a?b", "h")));
    request("GET / HTTP/1.0\r\n\r\n", Ok(("/", "")));
    request("\r\n\r\nGET / HTTP/1.1\nHost: h:80\n\n", Ok(("/", "h:80")));
    request("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", Ok(("*", "h")));
    request("FROB / HTTP/1.1\r\nHost: h\r\n\r\n", Ok(("/", "h")));
    request("GET http://x/a HTTP/1.1\r\nHost: h\r\n\r\n", Ok(("/a", "x")));
    request("GET http://x HTTP/1.1\r\nHost: h\r\n\r\n", Ok(("/", "x")));
    request("GET https://x/a HTTP/1.1\r\nHost: h\r\n\r\n", Ok(("/a", "x")));
    request("GET HTTPS://x?a HTTP/1.1\r\nHost: h\r\n\r\n", Ok(("/?a", "x")));
    request("OPTIONS https://x HTTP/1.1\r\nHost: h\r\n\r\n", Ok(("*", "x")));
    request("GET /\u{e4} HTTP/1.1\r\nHost: h\r\n\r\n", Ok(("/\u{e4}", "h")));
    let no_https = Http1Limits { https_scheme: false, ..Http1Limits::default() };
    request_with(&no_https, "GET https://x/a HTTP/1.1\r\nHost: h\r\n\r\n", Ok(("https://x/a", "h")));
}

#[test]
fn programs_that_purge_mean_an_object() {
    let host = |method: &str, url: &str, host: &str, want| {
        request(&format!("{method} {url} HTTP/1.0\nHost: {host}\n\n"), want)
    };
    host("BAN", "/2012/a/", "http://www.example.org", Ok(("/2012/a/", "www.example.org")));
    host("PURGE", "/a", "https://WWW.example.org:443/", Ok(("/a", "www.example.org")));
    host("PURGE", "/", "http://h:8080/blog", Ok(("/blog/", "h:8080")));
    host("PURGE", "/a", "http://h/a#b", Ok(("/a", "h")));
    host("PURGE", "http://x/a", "http://h/b", Ok(("/a", "x")));
    host("PURGE", "https://x/a?b", "x", Ok(("/a?b", "x")));
    host("REFRESH", "/a", "http://h", Ok(("/a", "h")));
    let bad = Err(HeadError::BadHost);
    host("GET", "/a", "http://h", bad);
    host("DELETE", "/a", "http://h", bad);
    host("PURGE", "/a", "http://", bad);
    host("PURGE", "/a", "http://u@h/", bad);
    host("PURGE", "/", "http://h/a b", bad);
    host("PURGE", "/", "ftp://h/a", bad);
    lenient("PURGE / HTTP/1.1\r\nHost: http://h/a.html\r\n\r\n", Ok(("/a.html", "h")));
    lenient("GET / HTTP/1.1\r\nHost: http://h/a\r\n\r\n", Ok(("/", "http://h/a")));
}

#[test]
fn a_lone_lf_is_told_and_may_be_refused() {
    let parse = |input: &str, lone_lf| {
        parse_request(input.as_bytes(), &Http1Limits { lone_lf, ..Http1Limits::default() }, &mut Head::new())
    };
    let told = |input: &str| match parse(input, true) {
        Ok(HeadProgress::Complete(parsed)) => parsed.lone_lf,
        other => panic!("{other:?}"),
    };
    assert!(!told("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    for input in [
        "GET / HTTP/1.0\n\n",
        "GET / HTTP/1.1\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n\n",
    ] {
        assert!(told(input), "{input:?}");
        assert_eq!(parse(input, false), Err(HeadError::LoneLf), "{input:?}");
    }
}

#[test]
fn bad_start_lines() {
    for bad in [
        "GET /",
        "GET ",
        "GET",
        "GET  / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET /a b HTTP/1.1",
        "GET /\x0b HTTP/1.1",
    ] {
        let mut head = Head::new();
        let input = format!("{bad}\r\nHost: h\r\n\r\n");
        assert!(parse_request(input.as_bytes(), &Http1Limits::default(), &mut head).is_err(), "{bad}");
    }
    request(" GET / HTTP/1.1\r\n\r\n", Err(HeadError::LeadingBlanks));
    request("G(T / HTTP/1.1\r\n\r\n", Err(HeadError::BadMethod));
    for version in ["HTTP/0.9", "HTTP/1.2", "HTTP/1.10", "HTTP/2.0", "http/1.1", "HTTP/01.1", "HTTP/1,1"] {
        request(&format!("GET / {version}\r\n\r\n"), Err(HeadError::BadVersion));
    }
}

#[test]
fn what_no_cache_should_forward() {
    request("CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n", Err(HeadError::Connect));
    for target in
        ["a", "*", "/a#b", "http://", "http:///a", "http://u@h/", "http://h:x/", "https://u@h/", "ftp://h/", "//h#"]
    {
        request(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"), Err(HeadError::BadTarget));
    }
    request("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Err(HeadError::BadHost));
    request("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", Err(HeadError::MultipleHost));
}

#[test]
fn lenient_is_as_varnishd() {
    lenient("GET  a#b http/1.1 \r\nHost: a b\r\n\r\n", Err(HeadError::BadVersion));
    lenient("GET \t a#b http/1.1\r\nHost: a b\r\n\r\n", Ok(("a#b", "a b")));
    lenient(" \r\n GET * HTTP/1.1\r\nHost: u@h\r\n\r\n", Ok(("*", "u@h")));
    lenient("CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", Ok(("h:1", "h")));
    lenient("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", Err(HeadError::MultipleHost));
}

#[test]
fn bodies_that_cannot_be() {
    request("HEAD / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n", Err(HeadError::BadBody));
    request("POST / HTTP/1.0\r\n\r\n", Err(HeadError::BadBody));
    request("POST / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Ok(("/", "")));
    request("POST / HTTP/1.0\r\nContent-Length: 0\r\n\r\n", Ok(("/", "")));
    request("POST / HTTP/1.1\nHost: h\nContent-Length: 5\n\n", Err(HeadError::LoneLf));
    let bad_length = Err(HeadError::Framing(FramingError::BadLength));
    request("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", bad_length);
}

#[test]
fn the_head_size_limit_counts_to_the_octet() {
    let limits = Http1Limits { head_bytes: 40, ..Http1Limits::default() };
    let head_of = |n: usize| {
        let fixed = "GET / HTTP/1.1\r\nHost: h\r\n\r\n".len() + "X: \r\n".len();
        format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(n - fixed))
    };
    request_with(&limits, &head_of(40), Ok(("/", "h")));
    request_with(&limits, &head_of(41), Err(HeadError::Overflow));
    let mut head = Head::new();
    assert_eq!(parse_request(&[b'x'; 39], &limits, &mut head), Ok(HeadProgress::Incomplete));
    assert_eq!(parse_request(&[b'x'; 40], &limits, &mut head), Err(HeadError::Overflow));
}

#[test]
fn the_number_of_lines_is_limited() {
    let mut head = Head::with_limits(HeadLimits { fields: 2, bytes: 1000 });
    let input = b"GET / HTTP/1.1\r\nHost: h\r\na: b\r\nc: d\r\n\r\n";
    let error = parse_request(input, &Http1Limits::default(), &mut head).unwrap_err();
    assert_eq!(error, HeadError::TooManyFields { at: 31 });
    assert_eq!(error.bogo_header(input).as_deref(), Some(&b"Too many headers: c: d (see http_max_hdr)"[..]));
}

#[test]
fn empty_lines_are_idle_until_they_are_too_many() {
    let mut head = Head::new();
    let mut check = |n: usize, want| {
        assert_eq!(parse_request("\r\n".repeat(n).as_bytes(), &Http1Limits::default(), &mut head), want, "{n}");
    };
    check(0, Ok(HeadProgress::Idle));
    check(16, Ok(HeadProgress::Idle));
    check(17, Err(HeadError::LeadingBlanks));
}

#[test]
fn http2_with_prior_knowledge_is_told_apart() {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut head = Head::new();
    for end in 1..preface.len() {
        assert_eq!(
            parse_request(&preface[..end], &Http1Limits::default(), &mut head),
            Ok(HeadProgress::Incomplete),
            "{end}"
        );
    }
    assert_eq!(parse_request(preface, &Http1Limits::default(), &mut head), Ok(HeadProgress::Http2Preface));
    request("PRI * HTTP/2.0\r\n\r\nXX", Err(HeadError::BadVersion));
}

fn response(input: &str, want: Result<(u16, &str), HeadError>) {
    let mut head = Head::new();
    let got = parse_response(input.as_bytes(), &Http1Limits::default(), &mut head).map(|progress| {
        assert!(matches!(progress, HeadProgress::Complete(_)), "{input:?}: {progress:?}");
        (head.status(), String::from_utf8_lossy(head.reason()).into_owned())
    });
    assert_eq!(got, want.map(|(status, reason)| (status, reason.to_owned())), "{input:?}");
}

#[test]
fn responses() {
    response("HTTP/1.1 200 OK\r\nA: b\r\n\r\n", Ok((200, "OK")));
    response("HTTP/1.0 404\nA: b\n\n", Ok((404, "Not Found")));
    response("HTTP/1.1 599 \r\n\r\n", Ok((599, "Unknown HTTP Status")));
    response("HTTP/1.2 200 Very fine indeed\r\n\r\n", Ok((200, "Very fine indeed")));
    response("HTTP/1.1 99 x\r\n\r\n", Err(HeadError::BadStatus));
    response("HTTP/1.1 1000 x\r\n\r\n", Err(HeadError::BadStatus));
    response("HTTP/1.1 2x0 x\r\n\r\n", Err(HeadError::BadStatus));
    response("HTTP/2.0 200 x\r\n\r\n", Err(HeadError::BadVersion));
    response("ICY 200 OK\r\n\r\n", Err(HeadError::BadVersion));
    response("garbage\r\n\r\n", Err(HeadError::BadStartLine));
    response("HTTP/1.1 200 O\0K\r\n\r\n", Err(HeadError::BadStartLine));
    response("HTTP/1.1 200 OK\r\nA: \0\r\n\r\n", Err(HeadError::ControlChar { byte: 0 }));
}

/// Octets that look like a head often enough to get far.
fn headish() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("GET "),
        Just("POST "),
        Just("/a"),
        Just("http://h"),
        Just(" HTTP/1.1"),
        Just(" HTTP/1.0"),
        Just("HTTP/1.1 200 OK"),
        Just("\r\n"),
        Just("\r\n"),
        Just("\n"),
        Just("\r"),
        Just(" "),
        Just("\t"),
        Just("Host: h"),
        Just("Host:"),
        Just("Content-Length: 5"),
        Just("Transfer-Encoding: chunked"),
        Just(":"),
        Just("x"),
        Just("\0"),
        Just("\u{e4}"),
        Just("#"),
        Just("PRI * HTTP/2.0\r\n\r\n"),
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat().into_bytes())
}

type Parser = fn(&[u8], &Http1Limits, &mut Head) -> Result<HeadProgress, HeadError>;

/// Gives the parser one octet more each time until it has an answer.
fn drip(parse: Parser, input: &[u8], limits: &Http1Limits, head: &mut Head) -> Result<HeadProgress, HeadError> {
    let mut progress = Ok(HeadProgress::Idle);
    for end in 0..=input.len() {
        progress = parse(&input[..end], limits, head);
        if !matches!(progress, Ok(HeadProgress::Idle | HeadProgress::Incomplete)) {
            break;
        }
    }
    progress
}

proptest! {
    #[test]
    fn any_octets_give_an_answer(input in proptest::collection::vec(any::<u8>(), 0..300), lenient: bool) {
        let limits = Http1Limits { lenient, ..Http1Limits::default() };
        let _ = parse_request(&input, &limits, &mut Head::new());
        let _ = parse_response(&input, &limits, &mut Head::new());
        let ended = [&input[..], b"\r\n\r\n"].concat();
        let mut scan = HeadScan::new(&limits);
        if let Some(end) = scan.find(&ended) {
            let (mut one, mut other) = (Head::new(), Head::new());
            let found = parse_found_request(&ended[..end], &scan, &limits, &mut one);
            prop_assert_eq!(found, parse_request(&ended[..end], &limits, &mut other));
            prop_assert_eq!(one, other);
        }
        let _ = parse_request(&ended, &limits, &mut Head::new());
        let _ = parse_response(&ended, &limits, &mut Head::new());
    }

    #[test]
    fn octet_by_octet_is_the_same_as_at_once(input in headish(), lenient: bool, is_request: bool) {
        let limits = Http1Limits { lenient, head_bytes: 120, ..Http1Limits::default() };
        let parse: Parser = if is_request { parse_request } else { parse_response };
        let (mut one, mut two) = (Head::new(), Head::new());
        let at_once = parse(&input, &limits, &mut one);
        let dripped = drip(parse, &input, &limits, &mut two);
        prop_assert_eq!(at_once, dripped);
        if let Ok(HeadProgress::Complete(_)) = at_once {
            prop_assert_eq!(one, two);
        }
    }

    #[test]
    fn a_scan_finds_the_same_end_as_the_parser(input in headish(), lenient: bool) {
        let limits = Http1Limits { lenient, ..Http1Limits::default() };
        let mut scan = HeadScan::new(&limits);
        let found = (0..=input.len()).find_map(|end| scan.find(&input[..end]));
        if let Ok(HeadProgress::Complete(ParsedHead { consumed, .. })) = parse_request(&input, &limits, &mut Head::new()) {
            prop_assert_eq!(found, Some(consumed));
        }
    }

    #[test]
    fn what_is_accepted_is_well_formed_when_written(input in headish()) {
        let mut head = Head::new();
        let limits = Http1Limits::default();
        if let Ok(HeadProgress::Complete(parsed)) = parse_request(&input, &limits, &mut head) {
            let mut wire = Vec::new();
            head.write_to(&mut wire);
            let mut again = Head::new();
            let second = parse_request(&wire, &limits, &mut again);
            let want = ParsedHead { consumed: wire.len(), begin: 0, framing: parsed.framing, lone_lf: parsed.lone_lf, is_absolute: parsed.is_absolute };
            prop_assert_eq!(second, Ok(HeadProgress::Complete(want)));
            prop_assert_eq!(head, again);
            prop_assert!(parsed.framing != Framing::Eof);
        }
    }
}
