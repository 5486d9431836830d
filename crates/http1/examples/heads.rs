// SPDX-License-Identifier: BSD-2-Clause
//! How long heads take: `cargo run --release -p http1 --example heads`. Nanoseconds each, best of five rounds.

#![allow(clippy::disallowed_methods, reason = "measures the machine")]

use std::hint::black_box;
use std::time::Instant;

use http1::{HeadProgress, Http1Limits, parse_request, parse_response};
use message::{Head, names};

const REQUEST: &[u8] = b"GET /articles/2021/09/an-ordinary-path.html?ref=front HTTP/1.1\r\n\
Host: www.example.com\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:91.0) Gecko/20100101 Firefox/91.0\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
Accept-Language: en-US,en;q=0.5\r\n\
Accept-Encoding: gzip, deflate, br\r\n\
Connection: keep-alive\r\n\
Upgrade-Insecure-Requests: 1\r\n\
Cache-Control: max-age=0\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\n\
Server: nginx/1.22.1\r\n\
Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
Content-Type: text/html; charset=utf-8\r\n\
Content-Length: 10240\r\n\
Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
ETag: \"61b2c3d4-2800\"\r\n\
Cache-Control: public, max-age=600\r\n\
Vary: Accept-Encoding\r\n\r\n";

fn measure(what: &str, mut step: impl FnMut()) {
    const ROUNDS: u32 = 200_000;
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            (0..ROUNDS).for_each(|_| step());
            start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
        })
        .fold(f64::INFINITY, f64::min);
    println!("{what:44} {best:8.1} ns");
}

fn main() {
    let limits = Http1Limits::default();
    let (mut req, mut resp, mut copy, mut stored, mut wire) =
        (Head::new(), Head::new(), Head::new(), Vec::new(), Vec::new());
    println!("request {} bytes, response {} bytes", REQUEST.len(), RESPONSE.len());
    measure("parse the request", || {
        let parsed = parse_request(black_box(REQUEST), &limits, &mut req);
        assert!(matches!(parsed, Ok(HeadProgress::Complete(_))));
    });
    measure("parse the response", || {
        let parsed = parse_response(black_box(RESPONSE), &limits, &mut resp);
        assert!(matches!(parsed, Ok(HeadProgress::Complete(_))));
    });
    resp.store_to(&mut stored, |_| true);
    measure("load the stored response", || copy.load_from(black_box(&stored)).expect("it is sound"));
    measure("copy a head", || copy.copy_from(black_box(&resp)));
    measure("write a head", || {
        wire.clear();
        black_box(&resp).write_to(&mut wire);
    });
    measure("look up five names", || {
        for name in [names::HOST, names::COOKIE, names::CACHE_CONTROL, names::ACCEPT_ENCODING, names::IF_NONE_MATCH] {
            black_box(req.get(name));
        }
    });
    measure("read Connection", || {
        let _ = black_box(message::hop::connection(black_box(&mut req)));
    });
    measure("format a date", || {
        black_box(message::date::format(base::clock::Real(black_box(784_111_777.0))));
    });
}
