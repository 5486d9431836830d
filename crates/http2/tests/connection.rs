// SPDX-License-Identifier: BSD-2-Clause
//! Facts about connections: both ends against each other, and single frames against one.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, fail by a panic")]

mod peer;

use std::sync::Arc;

use http2::{ErrorCode, Http2Abuse, Http2AbuseLimits, Http2Config, Http2Settings, PREFACE};
use peer::{PeerEnds, TestPeer, frame, hex, request, response, settings_config};

#[test]
fn a_request_and_its_response() {
    let mut ends = PeerEnds::new();
    let stream = ends.client.conn.open(&request("GET", "/a", &[("x", "y")]), "http", true, ends.now).unwrap();
    assert_eq!(stream, 1);
    ends.exchange();
    assert_eq!(ends.server.take(), ["Settings", "head 1 GET /a end: scheme: http, host: h, x: y", "SettingsAck"]);
    assert_eq!(ends.client.take(), ["Settings", "SettingsAck"]);
    assert!(ends.server.conn.send_head(1, &response(200, &[("Server", "s")]), false) > 0);
    ends.server.body(1, &[7; 40_000], true);
    ends.exchange();
    assert_eq!(ends.client.take(), ["head 1 200: server: s", "data 1 40000 end"]);
    ends.server.conn.release(1);
    ends.client.conn.consumed(1, 40_000);
    ends.client.conn.release(1);
    ends.exchange();
    assert!(ends.server.conn.is_idle() && ends.client.conn.is_idle());
    ends.server.conn.rest();
    assert!(ends.server.conn.memory() < 1500, "{}", ends.server.conn.memory());
    assert!(size_of_val(&ends.server.conn) < 1200, "{}", size_of_val(&ends.server.conn));
}

#[test]
fn bodies_and_trailers_both_ways() {
    let mut ends = PeerEnds::new();
    let post = request("POST", "/", &[("content-length", "70000"), ("te", "trailers")]);
    let stream = ends.client.conn.open(&post, "https", false, ends.now).unwrap();
    ends.client.body(stream, &[1; 70_000], false);
    ends.exchange();
    // The stream's window.
    assert_eq!(ends.client.queued(stream), 70_000 - 65_535);
    assert!(ends.client.conn.is_blocked(stream));
    let got = ends.server.take();
    assert!(got.contains(&"data 1 65535".to_owned()), "{got:?}");
    ends.server.conn.consumed(stream, 65_535);
    ends.exchange();
    assert_eq!(ends.client.queued(stream), 0);
    ends.client.conn.send_trailers(stream, &request("", "", &[("check", "sum")]));
    ends.server.conn.send_head(stream, &response(103, &[("link", "x")]), false);
    ends.server.conn.send_head(stream, &response(200, &[]), false);
    ends.server.conn.send_trailers(stream, &response(0, &[("grpc-status", "0")]));
    ends.exchange();
    assert_eq!(ends.server.take(), ["data 1 4465", "trailers 1: check: sum"]);
    let got = ends.client.take();
    assert_eq!(got[got.len() - 3..], ["head 1 103: link: x", "head 1 200: ", "trailers 1: grpc-status: 0"]);
}

#[test]
fn a_response_that_ended_gives_its_place_back() {
    let ends: [fn(&mut TestPeer, u32); 3] = [
        |server, stream| assert!(server.conn.send_head(stream, &response(204, &[]), true) > 0),
        |server, stream| {
            server.conn.send_head(stream, &response(200, &[]), false);
            server.body(stream, b"body", true);
        },
        |server, stream| {
            server.conn.send_head(stream, &response(200, &[]), false);
            server.conn.send_trailers(stream, &response(0, &[("grpc-status", "0")]));
        },
    ];
    for end in ends {
        let mut peers = PeerEnds::new();
        let places = peers.client.conn.slots();
        let stream = peers.client.conn.open(&request("GET", "/", &[]), "http", true, peers.now).unwrap();
        peers.exchange();
        end(&mut peers.server, stream);
        peers.exchange();
        peers.client.conn.release(stream);
        peers.server.conn.release(stream);
        assert!(peers.server.conn.is_idle(), "the server still counts the stream");
        assert_eq!(peers.client.conn.slots(), places, "the client still counts the stream");
    }
}

#[test]
fn cut_at_every_byte() {
    let mut whole = Vec::new();
    let mut client = TestPeer::client();
    client.conn.open(&request("POST", "/", &[("x", &"y".repeat(20_000))]), "http", false, client.now).unwrap();
    client.body(1, b"0123456789", true);
    client.conn.ping([9; 8]);
    client.write(&mut whole);
    let mut at_once = TestPeer::server();
    at_once.read(&whole);
    let want = at_once.take();
    assert_eq!(want.len(), 3, "{want:?}");
    for piece in [1, 2, 3, 7, 10, 1000] {
        let mut server = TestPeer::server();
        whole.chunks(piece).for_each(|piece| server.read(piece));
        assert_eq!(server.take(), want, "{piece}");
        let (mut a, mut b) = (Vec::new(), Vec::new());
        server.write(&mut a);
        at_once.conn.ping([0; 8]);
        at_once.write(&mut b);
        assert!(!a.is_empty());
    }
}

/// Frames of a server in reply to these, behind a preface and SETTINGS.
fn answers(frames: &[&str]) -> (Vec<String>, Vec<String>) {
    let mut server = TestPeer::server();
    server.greet();
    frames.iter().for_each(|frames| server.read(&hex(frames)));
    (server.take(), server.written())
}

fn goaway(frames: &[&str], code: ErrorCode, last: u32) {
    let (events, out) = answers(frames);
    assert!(events.last().is_some_and(|event| event.starts_with("Fault")), "{frames:?}: {events:?}");
    assert_eq!(out.last().cloned(), Some(format!("GOAWAY {last} {}", code.name())), "{frames:?}");
}

fn reset(frames: &[&str], stream: u32, code: ErrorCode) {
    let (events, out) = answers(frames);
    assert_eq!(out.last().cloned(), Some(format!("RST_STREAM {stream} {}", code.name())), "{frames:?}: {events:?}");
}

fn fine(frames: &[&str]) {
    let (events, out) = answers(&[frames, &["000008 06 00 00000000 0102030405060708"]].concat());
    assert_eq!(out.last().map(String::as_str), Some("PING ACK"), "{frames:?}: {events:?}");
}

/// GET / with END_HEADERS on stream 1, and with END_STREAM, too.
const OPEN: &str = "000003 01 04 00000001 828684";
const GET: &str = "000003 01 05 00000001 828684";

#[test]
fn frames_where_they_may_not_be() {
    use ErrorCode::{FrameSizeError, ProtocolError, StreamClosed};
    goaway(&["000003 80 00 00000002 010203", "000005 02 00 00000002 0000000010"], ProtocolError, 0);
    goaway(&["000003 01 05 00000003 828684", GET], ProtocolError, 3);
    goaway(&["000008 06 80 00000001 0102030405060708"], ProtocolError, 0);
    goaway(&["000007 06 80 00000000 01020304050607"], FrameSizeError, 0);
    goaway(&[OPEN, "000008 05 00 00000001 0001020304050607"], ProtocolError, 1);
    goaway(&["000004 03 00 00000007 00000008"], ProtocolError, 0);
    goaway(&[OPEN, "000005 03 00 00000001 0000000800"], FrameSizeError, 1);
    goaway(&["000000 03 00 00000000 00000008"], ProtocolError, 0);
    goaway(&["000001 00 00 00000001 00"], ProtocolError, 0);
    goaway(&["000001 00 00 00000000 00"], ProtocolError, 0);
    goaway(&["000003 01 05 00000000 828684"], ProtocolError, 0);
    goaway(&["000003 09 04 00000001 828684"], ProtocolError, 0);
    goaway(&[OPEN, "000003 09 04 00000001 828684"], ProtocolError, 1);
    goaway(&["000003 01 00 00000001 828684", "000008 06 00 00000000 0102030405060708"], ProtocolError, 1);
    goaway(&["000003 01 00 00000001 828684", "000001 ee 00 00000001 00"], ProtocolError, 1);
    goaway(&["000003 01 00 00000001 828684", "000003 09 04 00000003 828684"], ProtocolError, 1);
    goaway(&[GET, GET], StreamClosed, 1);
    goaway(&[OPEN, OPEN], ProtocolError, 1);
    goaway(&["004001 00 00 00000001"], FrameSizeError, 0);
    goaway(&["000000 04 00 00000001"], ProtocolError, 0);
    goaway(&["000008 07 00 00000001 0000000000000000"], ProtocolError, 0);
    goaway(&["000007 10 00 00000000 00000000 753d31"], ProtocolError, 0);
    goaway(&["000007 10 00 00000000 00000002 753d31"], ProtocolError, 0);
    goaway(&["000003 10 00 00000000 000001"], FrameSizeError, 0);
    fine(&["000007 10 00 00000000 00000007 753d31", GET, "000007 10 00 00000000 00000001 753d37"]);
    fine(&["000001 ff ff 00000002 00", "000000 ee 00 00000000"]);
    fine(&["000005 02 00 00000007 0000000010", GET]);
    fine(&[GET, "000004 08 00 00000001 00004000"]);
}

#[test]
fn padding_in_every_place_and_cut_at_every_byte() {
    // (Payload of a padded DATA frame that ends the stream, bytes of data.)
    for (payload, data) in [("00", 0), ("0100", 0), ("00 61", 1), ("02 61 0000", 1)] {
        let payload = hex(payload);
        let mut bytes = hex(OPEN);
        bytes.extend(hex(&format!("{:06x} 00 09 00000001", payload.len())));
        bytes.extend(&payload);
        for piece in 1..=bytes.len() {
            let mut server = TestPeer::server();
            server.greet();
            bytes.chunks(piece).for_each(|piece| server.read(piece));
            let got: Vec<_> = server.take().into_iter().filter(|event| event.starts_with("data")).collect();
            let ended = got.last().is_some_and(|event| event.ends_with(" end"));
            let sum: usize = got.iter().map(|event| event.split(' ').nth(2).unwrap().parse::<usize>().unwrap()).sum();
            assert!(ended && sum == data, "{payload:?} in pieces of {piece}: {got:?}");
        }
    }
    goaway(&[OPEN, "000001 00 09 00000001 01"], ErrorCode::ProtocolError, 1);
    goaway(&[OPEN, "000003 00 08 00000001 036100"], ErrorCode::ProtocolError, 1);
}

#[test]
fn settings_and_pings() {
    use ErrorCode::{FlowControlError, FrameSizeError, ProtocolError};
    goaway(&["000001 04 01 00000000 aa"], FrameSizeError, 0);
    goaway(&["000001 04 00 00000000 aa"], ProtocolError, 0);
    goaway(&["000006 04 00 00000000 000480000000"], FlowControlError, 0);
    fine(&["000006 04 00 00000000 ffff00000000"]);
    // An answer to no PING: GOAWAY, and PINGs are answered all the same.
    let (events, out) = answers(&["000008 06 01 00000000 0000000000000000", "000008 06 00 00000000 0102030405060708"]);
    assert!(events.last().is_some_and(|event| event.starts_with("Fault PROTOCOL_ERROR")), "{events:?}");
    assert_eq!(out[out.len() - 2..], ["GOAWAY 0 PROTOCOL_ERROR", "PING ACK"]);
}

#[test]
fn windows() {
    use ErrorCode::{FlowControlError, FrameSizeError, ProtocolError, StreamClosed};
    reset(&[OPEN, "000004 08 00 00000001 00000000"], 1, ProtocolError);
    reset(&[OPEN, "000004 08 00 00000001 40000000", "000004 08 00 00000001 40000000"], 1, FlowControlError);
    goaway(&["000004 08 00 00000000 40000000", "000004 08 00 00000000 40000000"], FlowControlError, 0);
    goaway(&["000004 08 00 00000000 00000000"], ProtocolError, 0);
    goaway(&[OPEN, "000003 08 00 00000001 010203"], FrameSizeError, 1);
    goaway(&["000004 08 00 00000001 00000001"], ProtocolError, 0);
    goaway(&[OPEN, "000004 08 00 00000001 7fff0000", "000006 04 00 00000000 00047fffffff"], FlowControlError, 1);
    // The end of a stream is the end.
    reset(&[GET, "000001 00 00 00000001 00"], 1, StreamClosed);
    // More data than a window has.
    let much = format!("004000 00 00 00000001 {}", "00".repeat(16_384));
    let (_, out) = answers(&[OPEN, &much, &much, &much, &much]);
    assert_eq!(out.last().map(String::as_str), Some("RST_STREAM 1 FLOW_CONTROL_ERROR"));
}

/// RFC 9113, 6.9.2 allows it.
#[test]
fn settings_may_make_a_window_negative() {
    let mut server = TestPeer::server();
    server.greet();
    server.read(&hex("000006 04 00 00000000 000400000064"));
    server.read(&hex(OPEN));
    server.conn.send_head(1, &response(200, &[]), false);
    server.queue(1, &[0; 1000], true);
    let mut left = |frame: &str| {
        server.read(&hex(frame));
        server.write(&mut Vec::new());
        server.queued(1)
    };
    assert_eq!(left(""), 900);
    // From 0 to -90; to nothing; to one.
    assert_eq!(left("000006 04 00 00000000 00040000000a"), 900);
    assert_eq!(left("000004 08 00 00000001 0000005a"), 900);
    assert_eq!(left("000004 08 00 00000001 00000001"), 899);
    // Windows become what they were.
    assert_eq!(left("000006 04 00 00000000 000400000064"), 809);
}

/// A client that has heard all, and still sends its body, owes that stream's window nothing.
#[test]
fn settings_break_no_window_that_nobody_needs() {
    let widest = ["000004 08 00 00000001 7fff0000", "000006 04 00 00000000 000400010000"];
    let mut server = TestPeer::server();
    server.greet();
    server.read(&hex(OPEN));
    server.read(&hex(widest[0]));
    server.conn.send_head(1, &response(200, &[]), true);
    server.read(&hex(widest[1]));
    assert_eq!(server.take().last().map(String::as_str), Some("Settings"));
    goaway(&[OPEN, widest[0], widest[1]], ErrorCode::FlowControlError, 1);
}

#[test]
fn heads_that_are_broken() {
    use ErrorCode::{CompressionError, ProtocolError};
    goaway(&["00000c 01 05 00000001 ffffffffffffffffffffffff"], CompressionError, 1);
    goaway(&["000012 01 05 00000001 828684410f7777772e6578616d706c652e63"], CompressionError, 1);
    goaway(&["000001 01 09 00000001 ff"], ProtocolError, 1);
    goaway(&["000001 01 09 00000001 01"], ProtocolError, 1);
    goaway(&["000004 01 21 00000001 aabbccdd"], ProtocolError, 1);
    reset(&["000008 01 25 00000001 0000000110 828684"], 1, ProtocolError);
    reset(&["000008 01 05 00000001 828684 00 01 41 01 62"], 1, ProtocolError);
    // Content-Length against what there is.
    reset(&["000006 01 05 00000001 828684 5c 01 33"], 1, ProtocolError);
    reset(&["000006 01 04 00000001 838684 5c 01 33", "000004 00 00 00000001 01020304"], 1, ProtocolError);
    reset(&["000006 01 04 00000001 838684 5c 01 33", "000002 00 01 00000001 0102"], 1, ProtocolError);
    reset(&["000006 01 04 00000001 838684 5c 01 33", "000007 00 08 00000001 02 01020304 0000"], 1, ProtocolError);
    fine(&["000006 01 04 00000001 838684 5c 01 33", "000006 00 09 00000001 02 010203 0000"]);
    goaway(&[OPEN, "000002 00 08 00000001 02 00"], ProtocolError, 1);
    goaway(&[OPEN, "000000 00 08 00000001"], ProtocolError, 1);
}

#[test]
fn more_streams_than_allowed() {
    let settings = Http2Settings { max_concurrent_streams: 1, ..Http2Settings::default() };
    let mut server = TestPeer::new_server(settings_config(settings, Http2AbuseLimits::default()));
    server.greet();
    server.read(&hex(GET));
    server.read(&hex("000003 01 05 00000003 828684"));
    assert_eq!(server.take(), ["Settings", "head 1 GET / end: scheme: http", "Refused 3"]);
    // A reset doesn't make room: the owner's work does.
    server.read(&hex("000004 03 00 00000001 00000008"));
    server.read(&hex("000003 01 05 00000005 828684"));
    assert_eq!(server.take(), ["Reset 1 CANCEL", "Refused 5"]);
    server.conn.release(1);
    server.read(&hex("000003 01 05 00000007 828684"));
    assert_eq!(server.take(), ["head 7 GET / end: scheme: http"]);
}

#[test]
fn a_drain() {
    let mut ends = PeerEnds::new();
    ends.client.conn.open(&request("GET", "/", &[]), "http", true, ends.now).unwrap();
    ends.exchange();
    ends.server.conn.begin_drain();
    // This one was on its way.
    ends.client.conn.open(&request("GET", "/2", &[]), "http", true, ends.now).unwrap();
    ends.exchange();
    assert!(ends.server.take().iter().any(|event| event.starts_with("head 3 GET /2")));
    let got = ends.client.take();
    assert!(got.ends_with(&["GoAway 2147483647 NO_ERROR".to_owned(), "GoAway 3 NO_ERROR".to_owned()]), "{got:?}");
    let too_late = ends.client.conn.open(&request("GET", "/", &[]), "http", true, ends.now);
    assert_eq!(too_late, Err(http2::StreamOpenError::GoingAway));
    assert!(ends.client.conn.was_processed(3) && !ends.client.conn.was_processed(5));
    for stream in [1, 3] {
        assert!(!ends.server.conn.is_drained());
        ends.server.conn.send_head(stream, &response(200, &[]), true);
        ends.server.conn.release(stream);
    }
    assert!(ends.server.conn.is_drained());
    // What comes too late is nobody's.
    ends.server.take();
    ends.server.write(&mut Vec::new());
    ends.server.read(&hex("000003 01 04 00000005 828684 000001 00 01 00000005 00"));
    assert_eq!((ends.server.take(), ends.server.written()), (vec![], vec!["WINDOW_UPDATE 0 40960".to_owned()]));
}

#[test]
fn a_head_that_is_only_too_large_may_be_answered() {
    let limits = Http2AbuseLimits { line_bytes: 200, ..Http2AbuseLimits::default() };
    let server = TestPeer::new_server(settings_config(Http2Settings::default(), limits));
    let mut ends = PeerEnds { server, ..PeerEnds::new() };
    ends.exchange();
    ends.server.take();
    let long = "a".repeat(300);
    let head = request("GET", "/a", &[("x-long", &long), ("x-end", "indexed")]);
    let stream = ends.client.conn.open(&head, "http", false, ends.now).unwrap();
    ends.exchange();
    assert_eq!(ends.server.take(), ["HeadTooLarge 1 431 false Header too large: x-long: aaaaaaaaaaaa"]);
    ends.server.conn.send_head(stream, &response(431, &[]), true);
    ends.exchange();
    assert!(ends.client.take().contains(&"head 1 431 end: ".to_owned()));
    // The fields behind the long one are in the table of the codec.
    ends.client.conn.open(&request("GET", "/b", &[("x-end", "indexed")]), "http", true, ends.now).unwrap();
    ends.exchange();
    assert_eq!(ends.server.take(), ["head 3 GET /b end: scheme: http, host: h, x-end: indexed"]);
}

/// Sends `step(n)` until the server has enough; how often that was.
fn abuse(limits: Http2AbuseLimits, step: impl Fn(u32) -> Vec<u8>, want: Http2Abuse) -> u32 {
    let mut server = TestPeer::new_server(settings_config(
        Http2Settings { max_concurrent_streams: 100, ..Http2Settings::default() },
        limits,
    ));
    server.greet();
    for n in 0..20_000 {
        server.read(&step(n));
        for event in server.take() {
            if event.starts_with("Reset") || event.starts_with("Broken") {
                server.conn.release(event.split(' ').nth(1).unwrap().parse().unwrap());
            }
            if event.starts_with("Fault") {
                assert_eq!(event, format!("Fault ENHANCE_YOUR_CALM {}", want.text()));
                assert!(server.conn.memory() < 300_000, "{}", server.conn.memory());
                return n;
            }
        }
        if want != Http2Abuse::Unread {
            server.write(&mut Vec::new());
        }
    }
    panic!("{want:?}: nothing happened");
}

#[test]
fn every_abuse_has_its_end() {
    let limits = Http2AbuseLimits::default;
    let get = |n: u32| hex(&format!("000003 01 05 {:08x} 828684", 2 * n + 1));
    let rst = |n: u32| hex(&format!("000004 03 00 {:08x} 00000008", 2 * n + 1));
    let check = |what: Http2Abuse, most: u32, step: &dyn Fn(u32) -> Vec<u8>| {
        let count = abuse(limits(), step, what);
        assert!((most / 2..=most + 1).contains(&count), "{what:?} after {count}");
    };
    check(Http2Abuse::RapidReset, 100, &|n| [get(n), rst(n)].concat());
    let zero = |n: u32| hex(&format!("000003 01 04 {:08x} 828684 000004 08 00 {:08x} 00000000", 2 * n + 1, 2 * n + 1));
    let limits_of_streams = abuse(limits(), zero, Http2Abuse::MadeReset);
    assert_eq!(limits_of_streams, 100);
    check(Http2Abuse::Refused, 1100, &get);
    check(Http2Abuse::MadeReset, 100, &|n| hex(&format!("000001 01 05 {:08x} 82", 2 * n + 1)));
    check(Http2Abuse::Settings, 100, &|_| hex("000000 04 00 00000000"));
    check(Http2Abuse::Ping, 1000, &|_| hex("000008 06 00 00000000 0000000000000000"));
    check(Http2Abuse::Priority, 1000, &|_| hex("000005 02 00 00000007 0000000010"));
    check(Http2Abuse::Priority, 1000, &|_| hex("000007 10 00 00000000 00000001 753d31"));
    check(Http2Abuse::Ignored, 1000, &|_| hex("000000 ee 00 00000000"));
    check(Http2Abuse::WindowUpdate, 1000, &|_| hex("000004 08 00 00000000 00000001"));
    let first = |n: u32, first: &str, then: &str| hex(if n == 0 { first } else { then });
    check(Http2Abuse::EmptyData, 100, &|n| first(n, OPEN, "000000 00 00 00000001"));
    check(Http2Abuse::EmptyData, 100, &|n| first(n, OPEN, "000003 00 08 00000001 020000"));
    check(Http2Abuse::EmptyData, 100, &|n| first(n, OPEN, "000001 00 08 00000001 00"));
    for small in ["000001 00 00 00000001 61", "000003 00 08 00000001 016100"] {
        let few = Http2AbuseLimits { small_data: 200, ..limits() };
        assert_eq!(abuse(few, |n| first(n, OPEN, small), Http2Abuse::SmallData), 201);
    }
    check(Http2Abuse::Continuation, 33, &|n| first(n, "000003 01 00 00000001 828684", "000000 09 00 00000001"));
    let piece = format!("003000 09 00 00000001 {}", "00".repeat(0x3000));
    check(Http2Abuse::SectionBytes, 11, &|n| first(n, "000003 01 00 00000001 828684", &piece));
    // Three fields with 27 bytes, and 32 more for each.
    let list = |list_bytes: u32| Http2AbuseLimits { list_bytes, ..limits() };
    assert_eq!(abuse(list(122), get, Http2Abuse::SectionBytes), 0);
    assert!(abuse(list(123), get, Http2Abuse::Refused) > 100);
    let slow = Http2AbuseLimits { pings: 0, ..limits() };
    let unread = abuse(slow, |_| hex("000008 06 00 00000000 0000000000000000"), Http2Abuse::Unread);
    assert!((3000..4000).contains(&unread), "{unread}");
}

#[test]
fn small_messages_are_no_flood() {
    let check = |limit: u32, message: usize, answers: bool| {
        let limits = Http2AbuseLimits { small_data: limit, ..Http2AbuseLimits::default() };
        let mut server = TestPeer::new_server(settings_config(Http2Settings::default(), limits));
        server.greet();
        server.read(&hex(OPEN));
        server.conn.send_head(1, &response(200, &[]), false);
        for _ in 0..1000 {
            server.read(&frame::whole(0, 0, 1, &vec![0; message]));
            server.conn.consumed(1, message);
            if answers {
                server.body(1, b"ok", false);
            }
            server.write(&mut Vec::new());
        }
        !server.take().iter().any(|event| event.starts_with("Fault"))
    };
    assert!(check(100, 32, false), "large enough");
    assert!(check(100, 5, true), "each has its answer");
    assert!(check(0, 5, false) && check(1000, 5, false));
    assert!(!check(100, 5, false));
}

#[test]
fn each_side_begins_with_settings() {
    let check = |config: Http2Config, first: &str, want: &str| {
        let mut server = TestPeer::new_server(Arc::new(config));
        server.read(PREFACE);
        server.read(&hex(first));
        assert_eq!(server.written().last().map(String::as_str), Some(want), "{first}");
    };
    let lax = || Http2Config { lax_start: true, ..Http2Config::default() };
    check(Http2Config::default(), "000000 04 00 00000000", "SETTINGS ACK");
    for first in [GET, "000000 04 01 00000000", "000008 06 00 00000000 0102030405060708", "000000 ee 00 00000000"] {
        check(Http2Config::default(), first, "GOAWAY 0 PROTOCOL_ERROR");
    }
    check(lax(), "000008 06 00 00000000 0102030405060708", "PING ACK");
}

#[test]
fn small_windows_are_counted() {
    let mut server = TestPeer::server();
    server.greet();
    server.read(&hex("000006 04 00 00000000 000400000001"));
    server.read(&hex(OPEN));
    server.conn.send_head(1, &response(200, &[]), false);
    server.queue(1, &[0; 20_000], false);
    for n in 0..2000 {
        server.write(&mut Vec::new());
        server.read(&hex("000004 08 00 00000001 00000001"));
        if server.take().iter().any(|event| event.ends_with(Http2Abuse::SmallWindow.text())) {
            assert!((900..1100).contains(&n), "{n}");
            return;
        }
    }
    panic!("nothing happened");
}

#[test]
fn who_sends_next() {
    let mut server = TestPeer::server();
    server.greet();
    let open = |server: &mut TestPeer, stream: u32, priority: &str| {
        let field = format!("00 08 7072696f72697479 {:02x} {}", priority.len(), peer::to_hex(priority.as_bytes()));
        let field = if priority.is_empty() { String::new() } else { field };
        let block = hex(&format!("828684 {field}"));
        server.read(&frame::whole(1, 5, stream, &block));
        server.conn.send_head(stream, &response(200, &[]), false);
        server.conn.offer(stream);
    };
    let order = |server: &mut TestPeer, count: usize| -> Vec<u32> {
        let send = |server: &mut TestPeer| {
            let grant = server.conn.next_send().unwrap();
            server.conn.send_data(grant.stream, 100, false).unwrap();
            grant.stream
        };
        (0..count).map(|_| send(server)).collect()
    };
    // Who says nothing takes turns.
    (1..=5).step_by(2).for_each(|stream| open(&mut server, stream, ""));
    assert_eq!(order(&mut server, 6), [1, 3, 5, 1, 3, 5]);
    // Urgent ones first; what is of no use in part goes on until it is done.
    open(&mut server, 7, "u=1");
    open(&mut server, 9, "u=1");
    open(&mut server, 11, "u=1, i");
    open(&mut server, 13, "u=0");
    assert_eq!(order(&mut server, 2), [13, 13]);
    server.conn.withdraw(13);
    assert_eq!(order(&mut server, 2), [7, 7]);
    server.conn.send_data(7, 0, true).unwrap();
    server.conn.reset(9, ErrorCode::Cancel);
    assert_eq!(order(&mut server, 2), [11, 11]);
    // The client changes its mind.
    server.read(&frame::whole(0x10, 0, 0, &[&3u32.to_be_bytes()[..], b"u=0"].concat()));
    assert_eq!(order(&mut server, 2), [3, 3]);
    server.take();
}

/// A GET of this stream that the server has answered and let go.
fn answered(server: &mut TestPeer, stream: u32, end: bool) {
    server.read(&frame::whole(1, if end { 5 } else { 4 }, stream, &hex("828684")));
    assert!(server.conn.send_head(stream, &response(200, &[]), true) > 0);
    server.conn.release(stream);
}

#[test]
fn what_is_behind_a_broken_stream_is_read() {
    let (events, _) =
        answers(&["000006 01 04 00000001 838684 5c 01 35 000000 00 01 00000001 000003 01 05 00000003 828684"]);
    assert!(events.last().is_some_and(|event| event.starts_with("head 3 GET /")), "{events:?}");
}

#[test]
fn heads_that_nobody_reads_have_a_bound() {
    let mut server = TestPeer::server();
    server.greet();
    let large = response(200, &[("x", &"y".repeat(6000))]);
    for n in 0..1000 {
        server.read(&frame::whole(1, 5, 2 * n + 1, &hex("828684")));
        server.conn.send_head(2 * n + 1, &large, true);
        server.conn.release(2 * n + 1);
    }
    assert!(server.take().iter().any(|event| event.ends_with(Http2Abuse::Unread.text())));
    assert!(server.conn.output().len() < (1 << 20) + 10_000);
}

#[test]
fn a_long_name_by_reference_ends_the_connection() {
    let name = [&hex("828684 40 7f a1 1e")[..], &[b'a'; 4000], &hex("01 62")].concat();
    let mut server = TestPeer::server();
    server.greet();
    server.read(&frame::whole(1, 5, 1, &name));
    server.read(&frame::whole(1, 5, 3, &[&hex("828684")[..], &hex("0f2f00").repeat(5000)].concat()));
    assert!(server.take().iter().any(|event| event.ends_with(Http2Abuse::SectionBytes.text())));
}

#[test]
fn what_was_on_its_way_for_a_reset_stream_is_dropped() {
    let mut server = TestPeer::server();
    server.greet();
    answered(&mut server, 1, false);
    (3..1000).step_by(2).for_each(|stream| answered(&mut server, stream, stream % 4 == 3));
    server.take();
    server.write(&mut Vec::new());
    (0..200).for_each(|_| server.read(&hex("000001 00 00 00000001 07")));
    server.read(&hex("000003 01 05 00000001 828684"));
    let said = server.written();
    assert_eq!(server.take(), [""; 0]);
    assert!(said.iter().all(|frame| frame.starts_with("WINDOW_UPDATE 0")), "{said:?}");
}

#[test]
fn credit_behind_the_end_is_no_abuse() {
    let mut server = TestPeer::server();
    server.greet();
    for stream in (1..6001).step_by(2) {
        server.read(&hex("000004 08 00 00000000 00000001"));
        answered(&mut server, stream, true);
        server.read(&frame::whole(8, 0, stream, &[0, 0, 1, 0]));
        server.write(&mut Vec::new());
    }
    assert!(!server.take().iter().any(|event| event.starts_with("Fault")));
}

#[test]
fn a_shut_window_is_opened_by_what_is_consumed() {
    let mut server = TestPeer::server();
    server.greet();
    let mut room = 65_535;
    let frame_of = |stream: u32, len: usize| frame::whole(0, 0, stream, &vec![0; len]);
    // Five that nobody reads, and one that is read: until its window, or the connection's, is used up.
    let mut give = |server: &mut TestPeer, stream: u32, mut left: usize| {
        while left > 0 && room > 0 {
            let len = left.min(room).min(16_384);
            server.read(&frame_of(stream, len));
            let credit = |frame: String| frame.strip_prefix("WINDOW_UPDATE 0 ").and_then(|by| by.parse::<usize>().ok());
            room = room - len + server.written().into_iter().filter_map(credit).sum::<usize>();
            left -= len;
        }
        left
    };
    (1..=11).step_by(2).for_each(|stream| server.read(&frame::whole(1, 4, stream, &hex("838684"))));
    (1..=9).step_by(2).for_each(|stream| assert_eq!(give(&mut server, stream, 65_535), 0));
    for _ in 0..40 {
        assert_eq!(give(&mut server, 11, 16_384), 0, "it goes on");
        server.conn.consumed(11, 16_384);
    }
}

#[test]
fn a_stream_let_go_inside_a_frame_leaves_nothing() {
    let mut server = TestPeer::server();
    server.greet();
    for n in 0..200 {
        let stream = 2 * n + 1;
        server.read(&frame::whole(1, 4, stream, &hex("838684")));
        server.read(&[&frame::whole(0, 8, stream, &[0; 10_000])[..9]].concat());
        server.conn.send_head(stream, &response(403, &[]), true);
        server.conn.release(stream);
        server.read(&[0; 10_000]);
        server.write(&mut Vec::new());
    }
    assert!(!server.take().iter().any(|event| event.starts_with("Fault")));
}

#[test]
fn a_request_that_goes_on_behind_its_response_gets_no_window_and_holds_up_no_drain() {
    let mut server = TestPeer::server();
    server.greet();
    // POST with a Content-Length of 9, of which nothing will be held against it any more.
    server.read(&frame::whole(1, 4, 1, &hex("838684 0f0d 01 39")));
    server.read(&frame::whole(0, 0, 1, &[0; 5]));
    assert!(!server.conn.linger(1), "there is no response yet");
    server.conn.send_head(1, &response(413, &[]), true);
    assert!(server.conn.linger(1));
    let mut out = Vec::new();
    server.write(&mut out);
    for _ in 0..3 {
        server.read(&frame::whole(0, 0, 1, &[0; 16_000]));
        server.conn.consumed(1, 16_000);
    }
    let said = server.written();
    assert!(!said.is_empty() && said.iter().all(|line| line.starts_with("WINDOW_UPDATE 0 ")), "{said:?}");
    server.conn.begin_drain();
    server.conn.end_drain();
    assert!(server.conn.is_drained());
    server.write(&mut Vec::new());
    server.conn.release(1);
    assert_eq!(server.written(), ["RST_STREAM 1 NO_ERROR"]);
    assert!(!server.take().iter().any(|event| event.starts_with("Fault") || event.starts_with("Broken")));
}

#[test]
fn a_client_that_has_its_response_may_take_back_the_rest() {
    let mut server = TestPeer::server();
    server.greet();
    for n in 0..500 {
        let stream = 2 * n + 1;
        server.read(&frame::whole(1, 4, stream, &hex("838684")));
        server.conn.send_head(stream, &response(413, &[]), true);
        assert!(server.conn.linger(stream));
        server.read(&frame::whole(3, 0, stream, &[0, 0, 0, 8]));
        server.conn.release(stream);
        server.write(&mut Vec::new());
    }
    assert_eq!(server.conn.stream_count(), 0);
    assert!(!server.take().iter().any(|event| event.starts_with("Fault")));
}
