// SPDX-License-Identifier: BSD-2-Clause
//! Facts about sessions on a listener with TLS.

use net::{HandshakeError, IoError, Stream, handshake};
use tables::counters::Main;
use testkit_net::memory::MemoryEnd;
use testkit_tls::TlsWorld as Tls;
use tls::{ErrorKind, Handshake};

use super::*;
use crate::handshake::InProgress;

fn soon() -> Option<Instant> {
    Some(Instant::now() + std::time::Duration::from_secs(20))
}

/// A session with TLS, whose client is `run`.
fn session<F: Future>(world: World, run: impl FnOnce(MemoryEnd) -> F) -> &'static Main {
    super::session(world, |client| run(client.end))
}

async fn connected(tls: &Tls, end: MemoryEnd) -> Stream {
    let (_, as_client) = tls.both();
    handshake(end.into(), as_client.unwrap(), Vec::new(), soon()).await.unwrap().0
}

/// A client that has shaken hands without a stream, and its last flight, which is not sent yet.
async fn shaken_by_hand(tls: &Tls, end: &MemoryEnd) -> (Handshake, Vec<u8>) {
    let (_, as_client) = tls.both();
    let (mut as_client, mut out, mut got) = (as_client.unwrap(), Vec::new(), Vec::new());
    while as_client.advance(&mut got, &mut out).unwrap() == tls::HandshakeProgress::Waits {
        end.try_write(&std::mem::take(&mut out)).unwrap();
        got.resize(8192, 0);
        end.readable().await.unwrap();
        let read = end.try_read(&mut got).unwrap();
        got.truncate(read);
    }
    (as_client, out)
}

async fn exchange(stream: &Stream, request: &str, answer_ends: &str) -> String {
    stream.write_all(request.as_bytes(), soon()).await.unwrap();
    let mut got = Vec::with_capacity(4096);
    while !got.ends_with(answer_ends.as_bytes()) {
        assert_ne!(stream.read_buf(&mut got, soon()).await.unwrap(), 0, "{:?}", String::from_utf8_lossy(&got));
    }
    String::from_utf8(got).unwrap()
}

async fn is_over(stream: &Stream) -> bool {
    stream.read(&mut [0; 1], soon()).await.unwrap() == 0 && !stream.was_cut()
}

async fn all(end: MemoryEnd) -> Vec<u8> {
    let (stream, mut got) = (Stream::from(end), Vec::with_capacity(4096));
    while stream.read_buf(&mut got, soon()).await.unwrap() > 0 {}
    got
}

#[test]
fn requests_are_answered_over_tls_and_the_end_is_told() {
    for step in [1, usize::MAX] {
        let tls = Tls::new();
        let main = session(World::with_tls(&[], false, &tls), |end| async move {
            end.set_step(step);
            let stream = connected(&tls, end).await;
            for url in ["/1", "/2"] {
                let answer = exchange(&stream, &format!("GET {url} HTTP/1.1\r\nHost: a\r\n\r\n"), "HTTP/1").await;
                assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
                assert!(answer.ends_with(&format!("\r\n\r\n{url} 192.0.2.9 HTTP/1")), "{answer}");
            }
            exchange(&stream, "GET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1").await;
            assert!(is_over(&stream).await);
        });
        assert_eq!(main.sc_req_close.get(), 1);
    }
}

#[test]
fn who_stays_idle_is_told_the_end() {
    let tls = Tls::new();
    let main = session(World::with_tls(&[("timeout_idle", "0.02")], false, &tls), |end| async move {
        let stream = connected(&tls, end).await;
        assert!(is_over(&stream).await);
    });
    assert_eq!(main.sc_rx_close_idle.get(), 1);
}

#[test]
fn plain_http_is_told_so_in_clear() {
    let main = session(World::with_tls(&[], false, &Tls::new()), |end| async move {
        end.try_write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let answer = String::from_utf8(all(end).await).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        assert!(body.contains("HTTPS"), "{body}");
    });
    assert_eq!(main.sc_rx_bad.get(), 1);
}

#[test]
fn what_is_neither_gets_an_alert_at_most() {
    let cases: [(&[u8], &[u8]); 4] = [
        (b"\0\x01\x02", b""),
        // SSL 2.0: protocol_version
        (b"\x80\x2e\x01\x03\x01", &[21, 3, 3, 0, 2, 2, 70]),
        // An alert before anything.
        (b"\x15\x03\x01\x00\x02\x01\x00", &[21, 3, 3, 0, 2, 2, 10]),
        // A hello of garbage: decode_error
        (b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03", &[21, 3, 3, 0, 2, 2, 50]),
    ];
    for (said, answered) in cases {
        session(World::with_tls(&[], false, &Tls::new()), |end| async move {
            end.try_write(said).unwrap();
            assert_eq!(all(end).await, answered, "{said:?}");
        });
    }
}

#[test]
fn a_name_that_nobody_has_is_refused() {
    let tls = Tls::new();
    let main = session(World::with_tls(&[], false, &tls), |end| async move {
        let other = Handshake::client(&tls.make_client(), "b.example").unwrap();
        let failed = handshake(end.into(), other, Vec::new(), soon()).await.unwrap_err();
        let HandshakeError::Tls(error) = failed.error else { panic!("{:?}", failed.error) };
        assert_eq!(error.kind(), ErrorKind::Alert(112));
    });
    assert_eq!(main.sc_rx_bad.get(), 1);
}

#[test]
fn who_does_not_say_hello_is_not_waited_for() {
    let main = session(World::with_tls(&[("tls_handshake_timeout", "0.1")], false, &Tls::new()), |end| async move {
        end.try_write(&[22, 3, 1]).unwrap();
        assert_eq!(all(end).await, b"");
    });
    assert_eq!(main.sc_rx_bad.get(), 1);
}

#[test]
fn a_hello_that_takes_no_end_is_refused() {
    let main = session(World::with_tls(&[], false, &Tls::new()), |end| async move {
        // One record of a hello that announces 16 MB.
        let mut hello = vec![22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
        hello.resize(5 + 0x4000, 0);
        let _ = Stream::from(end).write_all(&hello, soon()).await;
    });
    assert_eq!(main.sc_rx_bad.get(), 1);
}

#[test]
fn a_proxy_header_comes_before_the_handshake() {
    let tls = Tls::new();
    session(World::with_tls(&[], true, &tls), |end| async move {
        end.try_write(b"PROXY TCP4 198.51.100.7 192.0.2.1 1000 443\r\n").unwrap();
        let stream = connected(&tls, end).await;
        exchange(&stream, "GET /1 HTTP/1.0\r\n\r\n", "/1 198.51.100.7 HTTP/1").await;
        assert!(is_over(&stream).await);
    });
}

#[test]
fn a_record_that_was_changed_ends_the_session() {
    let tls = Tls::new();
    let main = session(World::with_tls(&[], false, &tls), |end| async move {
        let (as_client, mut out) = shaken_by_hand(&tls, &end).await;
        let (mut traffic, _) = as_client.finish().unwrap();
        traffic.seal(&mut out, |plain| plain.extend_from_slice(b"GET / HTTP/1.1\r\n\r\n")).unwrap();
        *out.last_mut().unwrap() ^= 1;
        end.try_write(&out).unwrap();
        let stream = Stream::from(end);
        while !matches!(stream.read(&mut [0; 100], soon()).await, Ok(0) | Err(IoError::Closed)) {}
    });
    assert_eq!(main.req_panic.get(), 0);
    assert_eq!((main.client_req.get(), main.sc_rx_bad.get()), (0, 1));
}

#[test]
fn who_is_told_what_was_wrong_may_finish_the_sentence() {
    let tls = Tls::new();
    let main = session(World::with_tls(&[], false, &tls), |end| async move {
        let (_, mut out) = shaken_by_hand(&tls, &end).await;
        // A record that nobody has sealed, and more behind it: closing on that would be a reset, and the alert lost.
        out.extend_from_slice(&[23, 3, 3, 0, 40]);
        out.resize(out.len() + 50_000, b'x');
        end.try_write(&out).unwrap();
        end.readable().await.unwrap();
        end.try_write(b"and more").unwrap();
        end.shutdown_write();
        assert_eq!(all(end).await.len(), 5 + 2 + 1 + 16, "an alert, and the end");
    });
    assert_eq!((main.client_req.get(), main.sc_rx_bad.get()), (0, 1));
}

#[test]
fn there_is_a_bound_on_handshakes_in_progress() {
    let main = session(World::with_tls(&[], false, &Tls::new()), |end| async move {
        let held: Vec<_> = std::iter::from_fn(|| InProgress::begin().ok()).collect();
        assert_eq!(held.len(), 10_000);
        assert_eq!(all(end).await, b"");
    });
    assert_eq!((main.sess_dropped.get(), main.sc_overload.get()), (1, 1));
    assert!(InProgress::begin().is_ok());
}

#[test]
fn there_is_a_bound_on_what_handshakes_hold() {
    const HELLO: usize = 20 << 10;
    let tls = Tls::new();
    let main = session(World::with_tls(&[], false, &tls), |end| async move {
        let mut held = Vec::new();
        while let Ok(mut one) = InProgress::begin() {
            if one.hold(HELLO).is_err() {
                break;
            }
            held.push(one);
        }
        assert_eq!(held.len() * HELLO, 160 << 20);
        // The hello itself is too much.
        let (_, as_client) = tls.both();
        let mut hello = Vec::new();
        as_client.unwrap().advance(&mut Vec::new(), &mut hello).unwrap();
        end.try_write(&hello).unwrap();
        assert_eq!(all(end).await, b"");
    });
    assert_eq!((main.sess_dropped.get(), main.sc_overload.get(), main.tls_fail.get()), (1, 1, 1));
    assert!(InProgress::begin().unwrap().hold(160 << 20).is_ok(), "all is given back");
}
