// SPDX-License-Identifier: BSD-2-Clause
//! Tests of exchanges over a pair of streams. The test plays the origin and sends frames.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use message::{Head, HeadLimits};

use super::connection::Http2Origin;
use super::{Http2Exchange, Shared, task};
use crate::exchange::{BodyLen, Data, Exchange, Received, RespLimits, SendProgress};
use crate::pool::{EndpointPool, PeerLabel};
use crate::{BackendEnv, BackendParams, HeapServices};

const LIMITS: RespLimits = RespLimits { head_bytes: 1024, line_bytes: 512, lenient: false };
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// `:status: 200`, from the static table.
const OK: &[u8] = b"\x88";

fn run<F: Future<Output = ()>>(test: F) {
    rt::run(async {
        assert!(rt::timeout(Duration::from_secs(20), test).await.is_ok(), "the test hangs");
    })
    .unwrap();
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

struct Bed {
    shared: Shared,
    origin: net::Stream,
    _pool: Arc<EndpointPool>,
}

impl Bed {
    fn new() -> Self {
        Self::with(BackendParams::default())
    }

    fn with(params: BackendParams) -> Self {
        let (ours, origin) = net::Stream::pair().unwrap();
        let env = BackendEnv {
            clock: Clock::system(),
            services: Arc::new(HeapServices { params, ..HeapServices::default() }),
            compat: tables::Compat::default(),
        };
        let pool = EndpointPool::alone();
        let label = Arc::new(*PeerLabel::none());
        let shared = Rc::new(RefCell::new(Http2Origin::new(ours, label, &pool, env.clock.clone(), &params)));
        rt::spawn(task::run(shared.clone(), env));
        Bed { shared, origin, _pool: pool }
    }

    fn ask(&self) -> Http2Exchange {
        self.ask_within(&LIMITS)
    }

    fn ask_within(&self, limits: &RespLimits) -> Http2Exchange {
        let mut bereq = Head::with_limits(HeadLimits::new(256, (2 * limits.head_bytes).max(64 << 10) as u32));
        bereq.start_request(b"GET", b"/", b"HTTP/1.1").unwrap();
        bereq.append("Host", "h").unwrap();
        let mut exchange = Http2Exchange::new(&self.shared);
        exchange.send_head(&bereq, BodyLen::None, limits);
        exchange
    }

    async fn says(&self, bytes: &[u8]) {
        self.origin.write_all(bytes, None).await.unwrap();
    }

    async fn reads(&self) -> usize {
        self.origin.read_buf(&mut Vec::with_capacity(65_536), None).await.unwrap()
    }
}

async fn head(exchange: &mut Http2Exchange) -> String {
    let mut beresp = Head::new();
    loop {
        match poll_fn(|cx| exchange.poll_head(cx, &mut beresp)).await {
            Ok(Received::Part) => {}
            Ok(received) => return format!("{} {received:?}", beresp.status()),
            Err(error) => return format!("{error:?}"),
        }
    }
}

async fn body(exchange: &mut Http2Exchange) -> String {
    let mut got = Vec::new();
    loop {
        match poll_fn(|cx| exchange.poll_data(cx)).await {
            Ok(Data::Piece) => got.extend_from_slice(exchange.data()),
            Ok(Data::Part) => {}
            Ok(Data::End { .. }) => return format!("[{}]", String::from_utf8_lossy(&got)),
            Err(error) => return format!("[{}] {error:?}", String::from_utf8_lossy(&got)),
        }
    }
}

#[test]
fn an_answer_is_the_same_however_it_is_cut() {
    let answer = [
        SETTINGS,
        &frame(1, 4, 1, OK),
        &frame(0, 0, 1, b"hello "),
        &frame(0, 0, 1, b"world"),
        &frame(1, 5, 1, b"\0\x05x-sum\x011"),
    ]
    .concat();
    run(async {
        for step in [1, 2, 3, 7, 1000] {
            let bed = Bed::new();
            let mut exchange = bed.ask();
            bed.reads().await;
            for piece in answer.chunks(step) {
                bed.says(piece).await;
                rt::yield_now().await;
            }
            assert_eq!(head(&mut exchange).await, "200 Final { body: Chunked, close: None }", "in steps of {step}");
            assert_eq!(body(&mut exchange).await, "[hello world]");
            assert_eq!(exchange.trailers().and_then(|trailers| trailers.get("x-sum")), Some(&b"1"[..]));
            assert_eq!(exchange.acct().beresp_body, 11);
        }
    });
}

#[test]
fn interim_responses_are_bounded() {
    let early = frame(1, 4, 1, b"\x08\x03103");
    run(async {
        for (interims, last) in [
            (64, "200 Final { body: None, close: None }"),
            (65, "Reset(HttpProtocolError, \"too many interim responses\")"),
        ] {
            let bed = Bed::new();
            let mut exchange = bed.ask();
            bed.reads().await;
            bed.says(&[SETTINGS, &early.repeat(interims), &frame(1, 5, 1, OK)].concat()).await;
            let mut got = head(&mut exchange).await;
            while got == "103 Interim" {
                got = head(&mut exchange).await;
            }
            assert_eq!(got, last, "after {interims}");
        }
    });
}

#[test]
fn a_head_may_be_as_long_as_the_parameter_says() {
    let line = [&b"\0\x01x\x7f\x81\xf9\x01"[..], &[b'y'; 32_000]].concat();
    let answer = |lines: usize| {
        let section = [OK, &line.repeat(lines)].concat();
        let mut pieces = section.chunks(16_384).peekable();
        let mut frames = frame(1, 1, 1, pieces.next().unwrap());
        while let Some(piece) = pieces.next() {
            frames.extend(frame(9, if pieces.peek().is_none() { 4 } else { 0 }, 1, piece));
        }
        [SETTINGS, &frames].concat()
    };
    run(async {
        let whole = "200 Final { body: None, close: None }";
        let too_large =
            r#"Reset(HttpProtocolError, "Headers are larger than http_resp_size, or more than http_max_hdr")"#;
        for (resp_head_bytes, lines, last) in [
            (32 << 10, 1, whole),
            (32 << 10, 3, too_large),
            (512 << 10, 15, whole),
            (512 << 10, 17, r#"Reset(HttpProtocolError, "Field section too large")"#),
            (4 << 20, 120, whole),
        ] {
            let bed = Bed::with(BackendParams { resp_head_bytes, resp_line_bytes: 64_000, ..BackendParams::default() });
            let limits = RespLimits { head_bytes: resp_head_bytes as usize, line_bytes: 64_000, lenient: false };
            let mut exchange = bed.ask_within(&limits);
            bed.reads().await;
            bed.says(&answer(lines)).await;
            assert_eq!(head(&mut exchange).await, last, "{lines} lines, {resp_head_bytes} bytes");
        }
    });
}

#[test]
fn what_the_origin_cannot_have_seen_is_refused_and_nothing_else() {
    run(async {
        // The end arrives before the request is written.
        let bed = Bed::new();
        let mut before = bed.ask();
        bed.reads().await;
        bed.says(&[SETTINGS, &frame(1, 5, 1, OK)].concat()).await;
        assert_eq!(head(&mut before).await, "200 Final { body: None, close: None }");
        drop(before);
        bed.origin.shutdown_write();
        let mut exchange = bed.ask();
        assert_eq!(head(&mut exchange).await, "Refused");
        // The end arrives after the request.
        let bed = Bed::new();
        let mut exchange = bed.ask();
        bed.reads().await;
        bed.origin.shutdown_write();
        assert_eq!(head(&mut exchange).await, "Reset(ConnectionTerminated, \"HTTP/2 connection closed\")");
        assert_eq!(bed.shared.borrow().slots(), 0);
    });
}

#[test]
fn before_the_origin_has_spoken_it_gets_one_request() {
    run(async {
        let bed = Bed::new();
        assert_eq!(bed.shared.borrow().slots(), 1);
        let mut first = bed.ask();
        assert_eq!(bed.shared.borrow().slots(), 0);
        let mut second = bed.ask();
        let sent = poll_fn(|cx| second.poll_send(cx, &mut Head::new())).await;
        assert!(matches!(sent, Ok(SendProgress::All)), "the codec takes it all the same");
        bed.reads().await;
        bed.says(&[SETTINGS, &frame(1, 5, 3, OK), &frame(1, 5, 1, OK)].concat()).await;
        assert_eq!(head(&mut second).await, "200 Final { body: None, close: None }");
        assert_eq!(head(&mut first).await, "200 Final { body: None, close: None }");
        drop((first, second));
        assert_eq!(bed.shared.borrow().slots(), 100);
    });
}

#[test]
fn a_silent_origin_gets_no_further_request() {
    run(async {
        let bed = Bed::new();
        bed.says(SETTINGS).await;
        bed.reads().await;
        let exchange = bed.ask();
        bed.reads().await;
        rt::yield_now().await;
        drop(exchange);
        // The connection may have received the settings meanwhile. Then the next exchange finds out.
        drop(bed.ask());
        assert_eq!(bed.shared.borrow().slots(), 0);
    });
}

/// The number of requests that a connection takes after one was given up while `came` came for another one.
async fn slots_after(came: &[u8]) -> usize {
    let bed = Bed::new();
    let mut first = bed.ask();
    bed.reads().await;
    bed.says(&[SETTINGS, &frame(1, 4, 1, OK)].concat()).await;
    assert_eq!(head(&mut first).await, "200 Final { body: Chunked, close: None }");
    let given_up = bed.ask();
    bed.reads().await;
    bed.says(came).await;
    // When these bytes are received, so were all before them.
    if came.len() > 9 {
        assert!(matches!(poll_fn(|cx| first.poll_data(cx)).await, Ok(Data::Piece)));
    }
    drop(given_up);
    bed.shared.borrow().slots()
}

#[test]
fn an_origin_whose_frame_trickles_gets_no_further_request() {
    run(async {
        let whole = frame(0, 0, 1, b"some body");
        // A partial DATA frame of another stream is no sign of life, however many of its bytes arrive.
        assert_eq!(slots_after(&whole[..12]).await, 0);
        assert_ne!(slots_after(&whole).await, 0);
    });
}

#[test]
fn an_idle_connection_holds_no_buffer() {
    run(async {
        let bed = Bed::new();
        let mut exchange = bed.ask();
        bed.reads().await;
        bed.says(&[SETTINGS, &frame(1, 4, 1, OK), &frame(0, 1, 1, &[b'x'; 9000])].concat()).await;
        assert_eq!(head(&mut exchange).await, "200 Final { body: Chunked, close: None }");
        assert_eq!(body(&mut exchange).await.len(), 9002);
        drop(exchange);
        // The acknowledgement of SETTINGS is sent, and the connection's task has run.
        bed.reads().await;
        rt::yield_now().await;
        let bytes = bed.shared.borrow().memory();
        assert!(bytes <= 4096, "{bytes} bytes of an idle connection");
    });
}
