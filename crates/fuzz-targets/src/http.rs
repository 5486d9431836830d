// SPDX-License-Identifier: BSD-2-Clause
//! Heads and bodies of HTTP/1, and single header fields.

use http1::{
    BodyStep, Framing, FramingDecoder, HeadError, HeadProgress, HeadScan, Http1Limits, parse_found_request,
    parse_request, parse_response, request_framing,
};
use message::{
    Head, cache_control, cookies, date, dictionary, digest, forwarded, list, range, rfc9111, trace_context, vary,
};

use crate::{choice, ended};

fn head_of(progress: &Result<HeadProgress, HeadError>) -> Option<usize> {
    match progress {
        Ok(HeadProgress::Complete(parsed)) => Some(parsed.consumed),
        Ok(HeadProgress::Idle | HeadProgress::Incomplete | HeadProgress::Http2Preface) | Err(_) => None,
    }
}

/// Writes a head as it goes to an origin.
fn written(head: &Head) -> Vec<u8> {
    let mut out = [head.method(), b" ", head.url(), b" HTTP/1.1\r\n"].concat();
    for field in head.iter() {
        out.extend_from_slice(field.line());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out
}

pub fn request(octets: &[u8]) {
    let (way, octets) = choice(octets);
    let limits = Http1Limits { lenient: way & 1 == 1, lone_lf: way & 2 == 0, ..Http1Limits::default() };
    let mut head = Head::new();
    let progress = parse_request(octets, &limits, &mut head);
    let Some(consumed) = head_of(&progress) else { return };
    assert!(consumed <= octets.len());
    let mut scan = HeadScan::new(&limits);
    let end = scan.find(octets).expect("a whole head has an end");
    let found = parse_found_request(&octets[..end], &scan, &limits, &mut Head::new());
    assert_eq!(found, progress, "found first");
    if limits.lenient {
        return;
    }
    // A strict reader understands the forwarded head in the same way: one head, and the same framing.
    let (sent, mut again) = (written(&head), Head::new());
    let strict =
        Http1Limits { lone_lf: false, https_scheme: false, head_bytes: usize::MAX, line_bytes: usize::MAX, ..limits };
    let read = parse_request(&sent, &strict, &mut again);
    if head.version() == message::HttpVersion::HTTP11 {
        assert_eq!(head_of(&read), Some(sent.len()), "{:?} became {:?}", octets.escape_ascii(), sent.escape_ascii());
        assert_eq!(request_framing(&again), request_framing(&head));
        assert_eq!((again.method(), again.url()), (head.method(), head.url()));
    }
}

pub fn response(octets: &[u8]) {
    let (way, octets) = choice(octets);
    let limits = Http1Limits { lenient: way & 1 == 1, ..Http1Limits::default() };
    let mut head = Head::new();
    if let Some(consumed) = head_of(&parse_response(octets, &limits, &mut head)) {
        assert!(consumed <= octets.len());
        let to_head = way & 2 == 2;
        if let Ok(framing) = http1::response_framing(&head, to_head) {
            ended(read_body(&mut FramingDecoder::response(framing), &octets[consumed..], usize::MAX));
        }
    }
}

/// The body's data, if its end came within `input`; the decoder sees `piece` octets at once.
fn read_body(
    decoder: &mut FramingDecoder,
    input: &[u8],
    piece: usize,
) -> Result<(Vec<u8>, Option<usize>), http1::BodyError> {
    let (mut data, mut at, mut end) = (Vec::new(), 0, input.len().min(piece));
    loop {
        match decoder.decode(&input[at..end])? {
            BodyStep::Data(range) => {
                data.extend_from_slice(&input[at..end][range.clone()]);
                at += range.end;
            }
            BodyStep::More { consumed } => {
                at += consumed;
                if end == input.len() {
                    return Ok((data, None));
                }
                end = input.len().min(end.saturating_add(piece));
            }
            BodyStep::End { consumed } => return Ok((data, Some(at + consumed))),
        }
    }
}

pub fn body(octets: &[u8]) {
    let (way, octets) = choice(octets);
    let framing = if way & 1 == 0 { Framing::Chunked } else { Framing::Length(u64::from(way >> 2)) };
    let new = || if way & 2 == 0 { FramingDecoder::request(framing) } else { FramingDecoder::response(framing) };
    let whole = read_body(&mut new(), octets, usize::MAX);
    let cut = read_body(&mut new(), octets, usize::from(way >> 3) + 1);
    assert_eq!(whole, cut, "a body in pieces");
}

pub fn fields(octets: &[u8]) {
    let (way, value) = choice(octets);
    match way % 12 {
        0 => ended(message::Codings::default()),
        1 => ended(cache_control::CacheControl::parse(value)),
        2 => ended(digest::digests(value)),
        3 => ended(trace_context::TraceContext::parse(value)),
        4 => {
            if let Some(time) = date::parse(value) {
                assert!(time.0.is_finite());
            }
        }
        5 => ended(http2::Priority::parse(value)),
        6 => ended(forwarded::is_list(value)),
        7 => ended(cookies::filtered(value, "a b*", "c")),
        8 => ended(dictionary::DictionaryRule::parse(value, b"a.test", b"/a/b?c")),
        9 => ended(list::is(value, b"chunked")),
        10 => {
            let mut key = Vec::new();
            ended(vary::write_key(value, &with_field("Accept", value), &mut key));
        }
        _ => ended(rfc9111::location(&with_field("Location", value), b"a.test", b"/a")),
    }
}

/// A head with one field, or without it where its value can't be one.
fn with_field(name: &str, value: &[u8]) -> Head {
    let mut head = Head::new();
    let line = [name.as_bytes(), b": ", value].concat();
    if message::chars::is_value(value) {
        ended(head.append_line(&line));
    }
    head
}

pub fn ranges(octets: &[u8]) {
    let (way, value) = choice(octets);
    let bytes = u64::from(way) * 7;
    ended(range::parse_one(value));
    if let Ok(found) = range::parse_many(value, 10) {
        assert!(found.len() <= 10);
        for one in found {
            if let Ok(Some(slice)) = one.resolve(Some(bytes)) {
                assert!(slice.bytes() <= bytes, "{slice:?} of {bytes}");
                ended(slice.content_range(Some(bytes)));
            }
        }
    }
    ended(range::select(value, Some(bytes), 10));
    ended(range::select_open(value));
    ended(range::content_range(&with_field("Content-Range", value)));
}

pub fn signatures(octets: &[u8]) {
    let mut head = Head::new();
    let limits = Http1Limits::default();
    if head_of(&parse_request(octets, &limits, &mut head)).is_none() {
        return;
    }
    let Ok(found) = message::signature::signatures(&head) else { return };
    for signature in found {
        let mut request = message::signature::SignedRequest::new(&head, true);
        ended(signature.agent(&mut request));
        ended(signature.base(&mut request));
        ended((signature.time("created"), signature.text("tag")));
    }
}
