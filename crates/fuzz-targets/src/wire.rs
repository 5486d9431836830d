// SPDX-License-Identifier: BSD-2-Clause
//! Protocols of connections: HTTP/2, HTTP/3, PROXY, NATS, Redis.

use std::sync::Arc;

use base::clock::Mono;
use http2::hpack::HpackDecoder;
use http2::{Connection, Http2Config, Http2Event, Http2Scratch, PREFACE};
use http3::control::{ControlReader, DecoderStream, check_encoder};
use http3::qpack::{self, QpackScratch};
use http3::stream::{FrameReader, StreamStep};
use http3::{Http3Limits, head};
use message::{Head, HeadLimits};
use net::proxy::{self, ProxyProgress};

use crate::{choice, ended};

const SECTION_BYTES: usize = 4000;
/// Events of one input: an octet makes a few at most.
const STEPS: usize = 100_000;

fn new_head() -> Head {
    Head::with_limits(HeadLimits::new(100, 64 * 1024))
}

/// Feeds a connection until it takes no more, and answers every head.
fn converse(mut conn: Connection, mut input: &[u8]) {
    let (mut head, mut scratch, now) = (new_head(), Http2Scratch::default(), Mono(0.0));
    for _ in 0..STEPS {
        let step = conn.receive(input, now, &mut head, &mut scratch);
        assert!(step.consumed <= input.len());
        if let Http2Event::Data { body, stream, .. } = &step.event {
            assert!(body.end <= input.len());
            conn.consumed(*stream, body.len());
        }
        if let Http2Event::Head { stream, .. } | Http2Event::HeadTooLarge { stream, .. } = step.event {
            let mut answer = Head::new();
            answer.start_response(b"HTTP/1.1", 200).unwrap();
            conn.send_head(stream, &answer, true);
            conn.release(stream);
        }
        input = &input[step.consumed..];
        conn.flush();
        let sent = conn.output().len();
        conn.wrote(sent);
        if input.is_empty() && matches!(step.event, Http2Event::None) {
            return;
        }
    }
    panic!("the connection doesn't come to an end");
}

pub fn h2_connection(octets: &[u8]) {
    let mut config = Http2Config::default();
    config.limits.line_bytes = 200;
    let conn = Connection::server(Arc::new(config), Mono(0.0));
    converse(conn, &[PREFACE, octets].concat());
}

pub fn h2_upstream(octets: &[u8]) {
    let mut conn = Connection::client(Arc::new(Http2Config::default()), Mono(0.0));
    let mut request = Head::new();
    request.start_request(b"GET", b"/", b"HTTP/1.1").unwrap();
    ended(conn.open(&request, "http", true, Mono(0.0)));
    converse(conn, octets);
}

pub fn hpack(octets: &[u8]) {
    let (way, section) = choice(octets);
    let mut decoder = HpackDecoder::new(u32::from(way) * 32);
    let (mut scratch, most) = (Vec::new(), 2000);
    for part in section.split(|&octet| octet == 0xff) {
        let mut taken = 0;
        let read =
            decoder.decode(part, most, &mut scratch, &mut |name, value, _| taken += name.len() + value.len() + 32);
        assert!(taken <= most, "{taken} of {most}");
        if read.is_err() {
            return;
        }
    }
}

/// Steps of a request's stream, of which `piece` octets come at once.
fn stream_steps(octets: &[u8], piece: usize) -> Result<(Vec<u8>, Vec<Vec<u8>>), String> {
    let mut reader = FrameReader::request(SECTION_BYTES);
    let (mut data, mut sections, mut at, mut end) = (Vec::new(), Vec::new(), 0, octets.len().min(piece));
    loop {
        match reader.step(&octets[at..end]).map_err(|error| format!("{error:?}"))? {
            StreamStep::Fields(range) => {
                sections.push(octets[at..end][range.clone()].to_vec());
                at += range.end;
            }
            StreamStep::Data(range) => {
                data.extend_from_slice(&octets[at..end][range.clone()]);
                at += range.end;
            }
            StreamStep::More(done) => {
                at += done;
                if end == octets.len() {
                    return Ok((data, sections));
                }
                end = octets.len().min(end.saturating_add(piece));
            }
        }
    }
}

pub fn h3_request(octets: &[u8]) {
    let (way, octets) = choice(octets);
    let whole = stream_steps(octets, usize::MAX);
    assert_eq!(whole, stream_steps(octets, usize::from(way) + 1), "a stream in pieces");
    for section in whole.map_or_else(|_| Vec::new(), |(_, sections)| sections) {
        qpack_section(&section);
    }
}

pub fn h3_control(octets: &[u8]) {
    let (mut reader, mut at) = (ControlReader::default(), 0);
    while let Ok((event, done)) = reader.next(&octets[at..]) {
        at += done;
        if event.is_none() {
            break;
        }
    }
    ended(check_encoder(octets));
    ended(DecoderStream::default().check(octets));
}

fn qpack_section(section: &[u8]) {
    let limits = Http3Limits { section_bytes: SECTION_BYTES, line_bytes: 500 };
    let mut scratch = QpackScratch::default();
    ended(head::read_request(section, &limits, &mut scratch, &mut new_head()));
    ended(head::read_response(section, &limits, &mut scratch, &mut new_head()));
    ended(head::read_trailers(section, &limits, &mut scratch, &mut new_head()));
}

pub fn qpack(octets: &[u8]) {
    let (way, section) = choice(octets);
    let (mut taken, most) = (0, usize::from(way) * 8);
    ended(qpack::decode(section, most, &mut QpackScratch::default(), |name, value| {
        taken += name.len() + value.len() + 32;
        Ok(())
    }));
    assert!(taken <= most, "{taken} of {most}");
    qpack_section(section);
}

pub fn proxy(octets: &[u8]) {
    let whole = proxy::parse(octets);
    for end in 0..octets.len().min(600) {
        match (proxy::parse(&octets[..end]), &whole) {
            (Ok(ProxyProgress::Complete(early)), Ok(ProxyProgress::Complete(whole))) => assert_eq!(&early, whole),
            (Ok(ProxyProgress::Incomplete) | Err(_), _) => {}
            (Ok(ProxyProgress::Complete(early)), other) => panic!("{early:?}, then {other:?}"),
        }
    }
}

pub fn nats(octets: &[u8]) {
    let mut rest = octets;
    while let Ok(Some((_, used))) = fleet::nats_protocol::read(rest) {
        assert!(used > 0, "nothing was taken");
        rest = &rest[used.min(rest.len())..];
    }
}

pub fn resp(octets: &[u8]) {
    let (way, octets) = choice(octets);
    let read = |piece: usize| {
        let (mut reader, mut input, mut replies) = (redis_protocol::ReplyReader::default(), Vec::new(), Vec::new());
        for part in octets.chunks(piece) {
            input.extend_from_slice(part);
            loop {
                match reader.read(&mut input) {
                    Ok(Some(reply)) => replies.push(format!("{reply:?}")),
                    Ok(None) => break,
                    Err(error) => return (replies, Some(error)),
                }
            }
        }
        (replies, None)
    };
    assert_eq!(read(octets.len().max(1)), read(usize::from(way) + 1), "replies in pieces");
}
