// SPDX-License-Identifier: BSD-2-Clause
//! Facts about streams in memory, seen through [`Stream`] where that is what its users see.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, fail by a panic")]

use std::io::{self, ErrorKind, IoSlice};
use std::task::{Context, Waker};
use std::time::Duration;

use net::{Address, ConnectError, ConnectTarget, IdleState, IoError, Socketless, Stream, connect};
use testkit_net::memory::{MemoryEnd, MemoryNetwork, REFUSED, pair};

fn addr(text: &str) -> Address {
    Address::inet(text.parse().unwrap())
}

fn streams() -> (Stream, MemoryEnd) {
    let (ours, theirs) = pair(addr("192.0.2.1:80"), addr("192.0.2.9:4000"));
    (ours.into(), theirs)
}

fn run<F: Future>(test: F) -> F::Output {
    rt::run(test).unwrap()
}

fn would_block<T: std::fmt::Debug>(result: io::Result<T>) {
    assert_eq!(result.unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn there_is_no_descriptor_and_all_that_wants_one_has_another_way() {
    let (ours, theirs) = streams();
    assert!(ours.socket_number().is_none());
    assert!(ours.zero_copy().is_none());
    assert_eq!((ours.peer(), ours.local()), (addr("192.0.2.9:4000"), addr("192.0.2.1:80")));
    assert_ne!(ours.number(), theirs.number());
    assert!(!ours.is_unix());
    assert_eq!(ours.peer_ids(), None);
    ours.set_tos(8).unwrap();
    assert_eq!(ours.park().unpark().unwrap().pending(), IdleState::Nothing);
}

#[test]
fn bytes_go_through_and_either_direction_ends_by_itself() {
    run(async {
        let (ours, theirs) = streams();
        ours.write_all(b"hello", None).await.unwrap();
        ours.shutdown_write();
        let mut got = [0; 16];
        assert_eq!(theirs.try_read(&mut got).unwrap(), 5);
        assert_eq!(theirs.try_read(&mut got).unwrap(), 0);
        assert_eq!(ours.pending(), IdleState::Nothing);
        theirs.try_write(b"still open").unwrap();
        assert_eq!(ours.pending(), IdleState::Data);
        assert_eq!(ours.read(&mut got, None).await.unwrap(), 10);
        assert!(matches!(ours.write_all(b"x", None).await, Err(IoError::Closed)));
        drop(theirs);
        assert_eq!(ours.pending(), IdleState::Closed);
        assert_eq!(ours.read(&mut got, None).await.unwrap(), 0);
    });
}

#[test]
fn who_waits_is_woken_by_bytes_by_room_and_by_the_end() {
    run(async {
        let (ours, theirs) = streams();
        let read = async {
            let mut got = Vec::with_capacity(8);
            while ours.read_buf(&mut got, None).await.unwrap() > 0 {}
            got
        };
        let write = async {
            rt::yield_now().await;
            theirs.try_write(b"abc").unwrap();
            rt::yield_now().await;
            theirs.shutdown_write();
        };
        assert_eq!(rt::join(read, write).await.0, b"abc");
        theirs.set_window(2);
        let (wrote, ()) = rt::join(ours.write_all(b"12345", None), async {
            let mut got = Vec::new();
            while got.len() < 5 {
                theirs.readable().await.unwrap();
                let mut piece = [0; 8];
                let n = theirs.try_read(&mut piece).unwrap();
                assert!(n <= 2);
                got.extend_from_slice(&piece[..n]);
            }
            assert_eq!(got, b"12345");
        })
        .await;
        wrote.unwrap();
    });
}

#[test]
fn a_peer_that_doesnt_read_stops_its_writer_until_the_window_opens() {
    let (ours, theirs) = streams();
    theirs.set_window(3);
    assert_eq!(ours.try_write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b"cd")]).unwrap(), 3);
    would_block(ours.try_write(b"d"));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(ours.poll_writable(&mut cx).is_pending());
    theirs.set_window(4);
    assert!(ours.poll_writable(&mut cx).is_ready());
    assert_eq!(ours.try_write(b"d").unwrap(), 1);
    assert_eq!(theirs.unread(), 4);
    theirs.set_step(1);
    let mut got = [0; 8];
    assert_eq!(theirs.try_read(&mut got).unwrap(), 1);
}

#[test]
fn a_reset_loses_what_was_under_way() {
    let (ours, theirs) = streams();
    ours.try_write(b"lost").unwrap();
    theirs.try_write(b"lost").unwrap();
    theirs.reset();
    let mut got = [0; 8];
    assert_eq!(ours.try_read(&mut got).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(theirs.try_read(&mut got).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(ours.try_write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert_eq!(ours.pending(), IdleState::Closed);
}

#[test]
fn closing_resets_where_something_is_unread_or_comes_later() {
    let mut got = [0; 8];
    let (ours, theirs) = streams();
    theirs.try_write(b"unread").unwrap();
    drop(ours);
    assert_eq!(theirs.try_read(&mut got).unwrap_err().kind(), ErrorKind::ConnectionReset);

    let (ours, theirs) = streams();
    ours.try_write(b"answer").unwrap();
    drop(ours);
    assert_eq!(theirs.peek().unwrap(), 1, "an end, behind the answer");
    assert_eq!(theirs.try_write(b"late").unwrap(), 4);
    assert_eq!(theirs.try_read(&mut got).unwrap_err().kind(), ErrorKind::ConnectionReset);

    let (ours, theirs) = streams();
    ours.try_write(b"answer").unwrap();
    ours.reset_on_close();
    drop(ours);
    assert_eq!(theirs.try_read(&mut got).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_thread_may_have_a_network_of_its_own() {
    run(async {
        let target = ConnectTarget::Inet("192.0.2.80:80".parse().unwrap());
        let network = MemoryNetwork::install();
        let refused = connect(&target, Duration::from_secs(1)).await;
        assert!(matches!(refused, Err(ConnectError::Os(error)) if error.raw_os_error() == Some(REFUSED)));
        let listener = network.listen(target.clone());
        let (ours, theirs) = rt::join(connect(&target, Duration::from_secs(1)), listener.accept()).await;
        let ours = ours.unwrap();
        assert_eq!((ours.peer(), ours.number()), (addr("192.0.2.80:80"), 1));
        ours.try_write(b"x").unwrap();
        assert_eq!(theirs.unread(), 1);
        let (one, _other) = Stream::pair().unwrap();
        assert!(one.socket_number().is_none());
        drop(listener);
        assert!(connect(&target, Duration::from_secs(1)).await.is_err());
        drop(network);
        assert!(Stream::pair().unwrap().0.socket_number().is_some());
    });
}
