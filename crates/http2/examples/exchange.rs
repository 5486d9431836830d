// SPDX-License-Identifier: BSD-2-Clause
//! How long a usual request takes: `cargo run --release -p http2 --example exchange`. Nanoseconds each, best of five rounds.

#![allow(clippy::disallowed_methods, reason = "measures the machine")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use base::clock::Mono;
use http2::hpack::HpackDecoder;
use http2::{Connection, Http2Config, Http2Event, Http2Scratch, Http2Settings, PREFACE, huffman};
use message::Head;

const REQUEST: &[(&str, &str)] = &[
    ("Host", "www.example.com"),
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:91.0) Gecko/20100101 Firefox/91.0"),
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("Accept-Language", "en-US,en;q=0.5"),
    ("Accept-Encoding", "gzip, deflate, br"),
    ("Upgrade-Insecure-Requests", "1"),
    ("Cache-Control", "max-age=0"),
];

const RESPONSE: &[(&str, &str)] = &[
    ("Server", "nginx/1.22.1"),
    ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("Content-Type", "text/html; charset=utf-8"),
    ("Content-Length", "1024"),
    ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("ETag", "\"61b2c3d4-2800\""),
    ("Cache-Control", "public, max-age=600"),
    ("Vary", "Accept-Encoding"),
    ("X-Varnish", "32770 3"),
    ("Age", "7"),
    ("Via", "1.1 varnish (Varnish/7.1)"),
    ("Accept-Ranges", "bytes"),
];

fn measure(what: &str, mut step: impl FnMut()) {
    const ROUNDS: u32 = 200_000;
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            (0..ROUNDS).for_each(|_| step());
            start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
        })
        .fold(f64::INFINITY, f64::min);
    println!("{what:52} {best:8.1} ns");
}

fn literal(name: &str, value: &str, is_huffman: bool, is_indexed: bool) -> Vec<u8> {
    let mut out = vec![if is_indexed { 0x40 } else { 0x00 }];
    for text in [name.to_ascii_lowercase(), value.to_owned()] {
        let mut code = text.into_bytes();
        if is_huffman {
            code = {
                let mut short = Vec::new();
                huffman::encode(&code, &mut short);
                short
            };
        }
        http2::int::write(&mut out, if is_huffman { 0x80 } else { 0 }, 7, code.len() as u64);
        out.extend_from_slice(&code);
    }
    out
}

/// The section of the request: by literals, by Huffman's code, or as a client sends it the second time.
fn section(is_huffman: bool, is_indexed: bool) -> Vec<u8> {
    let mut out = vec![0x82, 0x87];
    out.extend(literal(":path", "/articles/2021/09/an-ordinary-path.html?ref=front", is_huffman, false));
    let named = REQUEST.iter().map(|(name, value)| (if *name == "Host" { ":authority" } else { *name }, *value));
    named.for_each(|(name, value)| out.extend(literal(name, value, is_huffman, is_indexed)));
    out
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    http2::frame::write(&mut out, http2::Http2FrameType::from_number(kind), flags, stream, payload);
    out
}

fn main() {
    let mut response = Head::new();
    response.start_response(b"HTTP/1.1", 200).expect("it fits");
    RESPONSE.iter().for_each(|(name, value)| response.append(name, value).expect("it fits"));
    let (mut head, mut scratch) = (Head::new(), Http2Scratch::default());
    let repeated = {
        let mut out = vec![0x82, 0x87];
        out.extend(literal(":path", "/articles/2021/09/an-ordinary-path.html?ref=front", true, false));
        out.extend((0..REQUEST.len() as u8).rev().map(|i| 0x80 | (62 + i)));
        out
    };
    for (what, first, block) in [
        ("literals", Vec::new(), section(false, false)),
        ("Huffman's code", Vec::new(), section(true, false)),
        ("a table's entries", section(true, true), repeated),
    ] {
        let mut decoder = HpackDecoder::new(4096);
        let mut strings = Vec::new();
        decoder.decode(&first, 1 << 20, &mut strings, &mut |_, _, _| {}).expect("it is good");
        measure(&format!("decode {} bytes of {what}, fields dropped", block.len()), || {
            decoder
                .decode(black_box(&block), 1 << 20, &mut strings, &mut |name, value, _| {
                    black_box((name, value));
                })
                .expect("it is good");
        });
        let mut conn = Connection::server(
            Arc::new(Http2Config {
                settings: Http2Settings { max_concurrent_streams: 100, ..Http2Settings::default() },
                ..Http2Config::default()
            }),
            Mono(0.0),
        );
        let mut stream = 1u32;
        let time = std::cell::Cell::new(0.0);
        let mut read = |conn: &mut Connection, head: &mut Head, bytes: &[u8]| {
            let mut at = 0;
            let mut heads = 0;
            while at < bytes.len() {
                let step = conn.receive(&bytes[at..], Mono(time.get()), head, &mut scratch);
                at += step.consumed;
                heads += u32::from(matches!(step.event, Http2Event::Head { .. }));
            }
            heads
        };
        read(&mut conn, &mut head, PREFACE);
        let mut request = |conn: &mut Connection, head: &mut Head, block: &[u8], respond: bool| {
            let bytes = frame(1, 5, stream, block);
            assert_eq!(read(conn, head, &bytes), 1);
            if respond {
                conn.send_head(stream, black_box(&response), false);
                black_box(conn.send_data(stream, 0, true));
                conn.flush();
                conn.wrote(conn.output().len());
            } else {
                conn.reset(stream, http2::ErrorCode::NoError);
                conn.wrote(conn.output().len());
            }
            conn.release(stream);
            time.set(time.get() + 1e-4);
            stream = (stream + 2) & 0x7fff_ffff;
        };
        if !first.is_empty() {
            request(&mut conn, &mut head, &first, true);
        }
        measure(&format!("a request of {what}"), || request(&mut conn, &mut head, &block, false));
        measure(&format!("a request of {what}, and its response"), || request(&mut conn, &mut head, &block, true));
    }
}
