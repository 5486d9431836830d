// SPDX-License-Identifier: BSD-2-Clause
//! Facts about sealed streams: both ends in this process, over sockets or over streams in memory that tear everything apart.

use std::any::Any;
use std::time::Duration;

use proptest::prelude::*;
use rt::Instant;
use testkit_tls::{NAME, TlsWorld};
use tls::{Handshake, HandshakeInfo};

use super::*;
use crate::handshake::{Failed, handshake};
use crate::memory::{self, MemoryEnd};
use crate::{Address, HandshakeError, IoError};

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(20))
}

async fn both(world: &TlsWorld, server: Stream, client: Stream) -> ((Stream, HandshakeInfo), (Stream, HandshakeInfo)) {
    let (as_server, as_client) = world.both();
    let (server, client) = tokio::join!(
        handshake(server, as_server.unwrap(), Vec::new(), soon()),
        handshake(client, as_client.unwrap(), Vec::new(), soon()),
    );
    (server.unwrap(), client.unwrap())
}

/// Two ends of a sealed connection over sockets: server, client.
async fn pair() -> (Stream, Stream) {
    let (server, client) = Stream::pair().unwrap();
    let ((server, _), (client, _)) = both(&TlsWorld::new(), server, client).await;
    (server, client)
}

/// The same in memory, where each call moves `step` bytes at most.
async fn torn_pair(step: usize) -> (Stream, Stream) {
    let (server, client) = memory::pair(Address::Unix, Address::Unix);
    server.set_step(step);
    let ((server, _), (client, _)) = both(&TlsWorld::new(), server.into(), client.into()).await;
    (server, client)
}

async fn read_to_end(stream: &Stream, at_once: usize) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let mut piece = Vec::with_capacity(at_once);
        if stream.read_buf(&mut piece, soon()).await.unwrap() == 0 {
            return all;
        }
        all.extend_from_slice(&piece);
    }
}

fn end(stream: &Stream) -> &MemoryEnd {
    match stream {
        Stream::Sealed(sealed) => match sealed.inner() {
            Stream::Socketless(end) => (&**end as &dyn Any).downcast_ref().expect("a stream in memory"),
            other => panic!("not in memory: {other:?}"),
        },
        other => panic!("not sealed: {other:?}"),
    }
}

#[test]
fn bytes_go_both_ways_and_the_end_is_told() {
    rt::run(async {
        let (server, client) = pair().await;
        client.write_all(b"request", soon()).await.unwrap();
        let mut got = Vec::with_capacity(100);
        assert_eq!(server.read_buf(&mut got, soon()).await.unwrap(), 7);
        assert_eq!(got, b"request");
        let body = vec![b'x'; 300_000];
        let (wrote, read) = tokio::join!(
            async {
                server
                    .write_all_vectored(&mut [IoSlice::new(b"head"), IoSlice::new(&body)], Duration::ZERO, soon())
                    .await
                    .unwrap();
                server.shutdown_write();
            },
            read_to_end(&client, 10_000),
        );
        let () = wrote;
        assert_eq!(read.len(), 300_004);
        assert!(read.starts_with(b"headxxx"));
        assert!(!client.was_cut());
        assert!(client.is_sealed() && client.zero_copy().is_none());
    })
    .unwrap();
}

#[test]
fn an_end_without_the_peers_word_is_a_cut() {
    rt::run(async {
        let (server, client) = pair().await;
        server.write_all(b"half of it", soon()).await.unwrap();
        drop(server);
        assert_eq!(read_to_end(&client, 100).await, b"half of it");
        assert!(client.was_cut());
    })
    .unwrap();
}

#[test]
fn a_record_that_was_cut_is_never_read() {
    rt::run(async {
        let (server, client) = torn_pair(64).await;
        end(&client).set_window(100);
        // The rest of the record stays with the server.
        assert!(matches!(server.try_write(&[7; 200]), Err(error) if error.kind() == ErrorKind::WouldBlock));
        drop(server);
        assert_eq!(read_to_end(&client, 100).await, b"");
        assert!(client.was_cut());
    })
    .unwrap();
}

#[test]
fn what_the_socket_does_not_take_is_reported_once_it_is_sent() {
    rt::run(async {
        let (server, client) = torn_pair(usize::MAX).await;
        end(&client).set_window(1000);
        let body = vec![b'y'; 3000];
        assert!(matches!(server.try_write(&body), Err(error) if error.kind() == ErrorKind::WouldBlock));
        assert!(matches!(server.try_write(&body), Err(error) if error.kind() == ErrorKind::WouldBlock));
        end(&client).set_window(100_000);
        // The call may begin with the same bytes and be longer, or be shorter.
        assert_eq!(server.try_write(&body[..1000]).unwrap(), 1000);
        assert_eq!(server.pending(), IdleState::Nothing);
        assert_eq!(server.try_write(&body[1000..]).unwrap(), 2000);
        server.shutdown_write();
        assert_eq!(read_to_end(&client, 700).await, body);
    })
    .unwrap();
}

#[test]
fn an_idle_connection_tells_what_waits_on_it() {
    rt::run(async {
        let mut world = TlsWorld::new();
        world.server.ticketer = Some(testkit_tls::ticketer());
        let (server, client) = Stream::pair().unwrap();
        let ((server, _), (client, _)) = both(&world, server, client).await;
        // Tickets came behind the handshake, which nobody has read.
        assert_eq!(client.pending(), IdleState::Nothing);
        let parked = client.park();
        assert_eq!(parked.pending(), IdleState::Nothing);
        assert_eq!(parked.heard(), IdleState::Nothing);
        server.write_all(b"unasked", soon()).await.unwrap();
        assert_eq!(parked.pending(), IdleState::Data);
        assert_eq!(parked.heard(), IdleState::Data);
        let client = parked.unpark().unwrap();
        let mut got = [0; 100];
        assert_eq!(client.read(&mut got, soon()).await.unwrap(), 7, "it was looked at and not read");
        server.shutdown_write();
        assert_eq!(client.pending(), IdleState::Closed);
    })
    .unwrap();
}

#[test]
fn who_reads_slowly_is_seen_to_read() {
    rt::run(async {
        let (server, client) = torn_pair(usize::MAX).await;
        end(&client).set_window(1000);
        let body = vec![b'z'; 20_000];
        assert!(server.try_write(&body).is_err());
        // The first record is through, and not yet the others.
        end(&client).set_window(6000);
        assert_eq!(server.try_write(&body).unwrap(), SHORT);
        assert!(server.try_write(&body[SHORT..]).is_err());
        end(&client).set_window(100_000);
        assert_eq!(server.try_write(&body[SHORT..]).unwrap(), body.len() - SHORT);
        server.shutdown_write();
        assert_eq!(read_to_end(&client, 9000).await, body);
    })
    .unwrap();
}

#[test]
fn part_of_a_record_on_an_idle_connection_is_something() {
    rt::run(async {
        let (server, client) = torn_pair(usize::MAX).await;
        end(&client).set_window(20);
        assert!(server.try_write(b"unasked for, and late").is_err());
        assert_eq!(client.pending(), IdleState::Data);
    })
    .unwrap();
}

#[test]
fn who_asks_for_new_keys_and_never_reads_costs_no_memory() {
    rt::run(async {
        let world = TlsWorld::new();
        let (server, client) = memory::pair(Address::Unix, Address::Unix);
        let (as_server, as_client) = world.both();
        let (mut as_client, mut got, mut out) = (as_client.unwrap(), Vec::new(), Vec::new());
        let slot = std::rc::Rc::new(RefCell::new(None));
        let filled = slot.clone();
        drop(rt::spawn(async move {
            *filled.borrow_mut() =
                Some(handshake(server.into(), as_server.unwrap(), Vec::new(), soon()).await.unwrap().0);
        }));
        while as_client.advance(&mut got, &mut out).unwrap() == tls::HandshakeProgress::Waits {
            client.try_write(&std::mem::take(&mut out)).unwrap();
            client.readable().await.unwrap();
            let mut piece = [0; 4096];
            let read = client.try_read(&mut piece).unwrap();
            got.extend_from_slice(&piece[..read]);
        }
        client.set_window(0);
        client.try_write(&out).unwrap();
        let (mut traffic, _) = as_client.finish().unwrap();
        while slot.borrow().is_none() {
            rt::yield_now().await;
        }
        let server = slot.take().unwrap();
        for _ in 0..2000 {
            let mut records = Vec::new();
            traffic.request_new_keys(&mut records).unwrap();
            traffic.seal(&mut records, |plain| plain.extend_from_slice(&[b'x'; 4096])).unwrap();
            client.try_write(&records).unwrap();
            let mut got = 0;
            while got < 4096 {
                got += server.read(&mut [0; 5000], soon()).await.unwrap();
            }
        }
        let Stream::Sealed(sealed) = &server else { panic!("not sealed") };
        let held = sealed.state.borrow().unsent.bytes.len();
        assert!((1..100).contains(&held), "{held}");
    })
    .unwrap();
}

#[test]
fn an_end_that_the_socket_does_not_take_is_told_later() {
    rt::run(async {
        for room in [0, 1, 10] {
            let (server, client) = torn_pair(usize::MAX).await;
            end(&client).set_window(room);
            server.shutdown_write();
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert!(server.poll_ended(&mut cx).is_pending());
            // Not cut off in the middle of the alert.
            assert!(
                matches!(client.try_read(&mut [0; 10]), Err(error) if error.kind() == ErrorKind::WouldBlock),
                "{room}"
            );
            end(&client).set_window(1000);
            poll_fn(|cx| server.poll_ended(cx)).await;
            assert_eq!(client.read(&mut [0; 10], soon()).await.unwrap(), 0);
            assert!(!client.was_cut());
        }
    })
    .unwrap();
}

#[test]
fn why_nothing_can_be_written_is_kept() {
    rt::run(async {
        let (server, client) = torn_pair(usize::MAX).await;
        assert!(server.tls_write_fault().is_none());
        drop(client);
        while server.try_write(b"for nobody").is_ok() {}
        assert!(matches!(server.tls_write_fault(), Some(WriteFault::Os(ErrorKind::BrokenPipe, _))));
        assert!(server.tls_fault().is_none(), "reading is another matter");
        let (server, _client) = torn_pair(usize::MAX).await;
        server.shutdown_write();
        assert!(server.try_write(b"after the end").is_err());
        assert!(matches!(server.tls_write_fault(), Some(WriteFault::Tls(_))));
    })
    .unwrap();
}

#[test]
fn a_stream_moves_between_runtimes() {
    rt::run(async {
        let (server, client) = pair().await;
        let server = server.park();
        let other = std::thread::spawn(move || {
            rt::run(async { server.unpark().unwrap().write_all(b"moved", None).await.unwrap() }).unwrap();
        });
        let mut got = [0; 5];
        assert_eq!(client.read(&mut got, soon()).await.unwrap(), 5);
        assert_eq!(&got, b"moved");
        other.join().unwrap();
    })
    .unwrap();
}

#[test]
fn what_is_no_record_ends_the_connection_in_words() {
    rt::run(async {
        let (server, client) = pair().await;
        let Stream::Sealed(sealed) = &client else { panic!("not sealed") };
        sealed.inner().write_all(b"\x17\x03\x03\x00\x20not what was sealed by anyone...", soon()).await.unwrap();
        let Err(IoError::Os(error)) = server.read(&mut [0; 10], soon()).await else { panic!("it was read") };
        assert!(error.to_string().contains("decrypted"), "{error}");
        // Whoever asks again hears the same, and never of an end.
        assert!(matches!(server.read(&mut [0; 10], soon()).await, Err(IoError::Os(_))) && server.was_cut());
        assert_eq!(server.pending(), IdleState::Closed);
        // The peer hears of it.
        let Err(IoError::Os(error)) = client.read(&mut [0; 10], soon()).await else { panic!("no alert") };
        assert!(error.to_string().contains("BadRecordMac"), "{error}");
    })
    .unwrap();
}

#[test]
fn who_does_not_answer_is_not_waited_for() {
    rt::run(async {
        let (server, _client) = Stream::pair().unwrap();
        let (as_server, _) = TlsWorld::new().both();
        let until = Some(Instant::now() + Duration::from_millis(5));
        let failed = handshake(server, as_server.unwrap(), Vec::new(), until).await;
        assert!(matches!(failed, Err(Failed { error: HandshakeError::Timeout, .. })));
        let (server, client) = Stream::pair().unwrap();
        drop(client);
        let (as_server, _) = TlsWorld::new().both();
        let failed = handshake(server, as_server.unwrap(), Vec::new(), soon()).await;
        assert!(matches!(failed, Err(Failed { error: HandshakeError::Closed, .. })));
    })
    .unwrap();
}

#[test]
fn an_alert_is_sent_and_read() {
    rt::run(async {
        let (server, client) = Stream::pair().unwrap();
        let (as_server, _) = TlsWorld::new().both();
        // Another world's: the client doesn't know who issued the certificate.
        let (_, as_client): (_, Result<Handshake, tls::TlsError>) = TlsWorld::new().both();
        let (server, client) = tokio::join!(
            handshake(server, as_server.unwrap(), Vec::new(), soon()),
            handshake(client, as_client.unwrap(), Vec::new(), soon()),
        );
        let kind = |failed: Result<(Stream, HandshakeInfo), Failed>| match failed {
            Err(Failed { error: HandshakeError::Tls(error), .. }) => error.kind(),
            other => panic!("{other:?}"),
        };
        assert_eq!(kind(server), tls::ErrorKind::Alert(48));
        assert_eq!(kind(client), tls::ErrorKind::Certificate);
        assert_eq!(NAME, "a.example");
    })
    .unwrap();
}

#[test]
fn nothing_is_held_while_nothing_is_to_be_done() {
    rt::run(async {
        let (server, client) = pair().await;
        for _ in 0..3 {
            client.write_all(&[b'r'; 400], soon()).await.unwrap();
            server.read(&mut [0; 1000], soon()).await.unwrap();
            server.write_all(&[b'a'; 5000], soon()).await.unwrap();
            let mut got = 0;
            while got < 5000 {
                got += client.read(&mut [0; 300], soon()).await.unwrap();
            }
        }
        for stream in [&server, &client] {
            let Stream::Sealed(sealed) = stream else { panic!("not sealed") };
            let state = sealed.state.borrow();
            let held = [&state.records, &state.plain.bytes, &state.unsent.bytes].map(Vec::capacity);
            assert_eq!((held, state.ends.capacity()), ([0; 3], 0));
        }
        let bytes = size_of::<SealedStream>();
        assert!(bytes <= 1536, "{bytes} bytes");
    })
    .unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_written_is_read(
        step in 1..3000_usize,
        window in prop_oneof![Just(64 * 1024_usize), 1..5000_usize],
        at_once in 1..40_000_usize,
        writes in proptest::collection::vec(1..30_000_usize, 1..6),
    ) {
        let all: Vec<u8> = (0..writes.iter().sum::<usize>()).map(|n| (n * 7 % 251) as u8).collect();
        let read = rt::run(async {
            let (server, client) = torn_pair(step).await;
            end(&client).set_window(window);
            let (_, read) = tokio::join!(
                async {
                    let mut rest = &all[..];
                    for length in &writes {
                        let (piece, after) = rest.split_at(*length);
                        let (one, other) = piece.split_at(length / 3);
                        let mut pieces = [IoSlice::new(one), IoSlice::new(other)];
                        server.write_all_vectored(&mut pieces, Duration::ZERO, soon()).await.unwrap();
                        rest = after;
                    }
                    server.shutdown_write();
                    poll_fn(|cx| server.poll_ended(cx)).await;
                },
                read_to_end(&client, at_once),
            );
            assert!(!client.was_cut());
            read
        })
        .unwrap();
        prop_assert!(read == all);
    }
}

#[test]
fn handshakes_take_turns_with_everybody_else() {
    rt::run(async {
        let world = TlsWorld::new();
        let done = std::rc::Rc::new(std::cell::Cell::new(0));
        let mut served = Vec::new();
        let (clients, servers): (Vec<_>, Vec<_>) = (0..40).map(|_| memory::pair(Address::Unix, Address::Unix)).unzip();
        for (client, server) in clients.into_iter().zip(servers) {
            let (as_server, as_client) = world.both();
            let done = done.clone();
            drop(rt::spawn(async move {
                let (server, _client) = tokio::join!(
                    handshake(server.into(), as_server.unwrap(), Vec::new(), soon()),
                    handshake(client.into(), as_client.unwrap(), Vec::new(), soon()),
                );
                done.set(done.get() + u32::from(server.is_ok()));
            }));
        }
        while done.get() < 40 {
            rt::yield_now().await;
            served.push(done.get());
        }
        // Another task runs between any two that get done.
        assert!(served.windows(2).all(|two| two[1] - two[0] <= 2), "{served:?}");
    })
    .unwrap();
}
