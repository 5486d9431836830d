// SPDX-License-Identifier: BSD-2-Clause
//! Facts about streams.

use super::*;

fn pair() -> (Stream, Stream) {
    Stream::pair().unwrap()
}

fn soon(ms: u64) -> Option<Instant> {
    Some(Instant::now() + Duration::from_millis(ms))
}

#[test]
fn bytes_go_through_and_the_end_is_zero() {
    rt::run(async {
        let (a, b) = pair();
        a.write_all_vectored(&mut [IoSlice::new(b""), IoSlice::new(b"hel"), IoSlice::new(b"lo")], Duration::ZERO, None)
            .await
            .unwrap();
        a.shutdown_write();
        let mut got = Vec::with_capacity(16);
        while b.read_buf(&mut got, soon(5000)).await.unwrap() > 0 {}
        assert_eq!(got, b"hello");
        assert!(matches!(b.try_read_buf(&mut Vec::new()), Err(e) if e.kind() == ErrorKind::InvalidInput));
        assert_eq!(b.peer().log_text(), "0.0.0.0 0");
    })
    .unwrap();
}

#[test]
fn deadlines_end_reads_and_writes() {
    rt::run(async {
        let (a, b) = pair();
        assert!(matches!(b.read(&mut [0; 4], soon(1)).await, Err(IoError::Timeout)));
        let much = vec![0; 8 << 20];
        assert!(matches!(a.write_all(&much, soon(1)).await, Err(IoError::Timeout)));
        let idle = a.write_all_vectored(&mut [IoSlice::new(&much)], Duration::from_millis(1), None).await;
        assert!(matches!(idle, Err(IoError::Timeout)));
        drop(b);
        assert!(matches!(a.write_all(b"x", None).await, Err(IoError::Closed)));
    })
    .unwrap();
}

#[test]
fn an_idle_connection_tells_what_waits_on_it() {
    rt::run(async {
        let (a, b) = pair();
        assert_eq!(a.pending(), IdleState::Nothing);
        b.write_all(b"x", None).await.unwrap();
        assert_eq!(a.pending(), IdleState::Data);
        a.read(&mut [0; 4], None).await.unwrap();
        let parked = a.park();
        assert_eq!(parked.pending(), IdleState::Nothing);
        drop(b);
        assert_eq!(parked.pending(), IdleState::Closed);
    })
    .unwrap();
}

#[test]
fn a_stream_moves_between_runtimes() {
    rt::run(async {
        let (mine, theirs) = pair();
        let theirs = theirs.park();
        let other = std::thread::spawn(move || {
            rt::run(async { theirs.unpark().unwrap().write_all(b"moved", None).await.unwrap() }).unwrap();
        });
        let mut got = [0; 5];
        let n = mine.read(&mut got, soon(5000)).await.unwrap();
        assert_eq!(&got[..n], b"moved");
        other.join().unwrap();
    })
    .unwrap();
}

#[test]
fn what_comes_in_the_turn_of_the_parking_is_seen() {
    rt::run(async {
        let (ours, theirs) = pair();
        // Read to the end: the runtime takes it that nothing is there until it hears of something.
        theirs.write_all(b"answer", soon(5000)).await.unwrap();
        let mut got = Vec::with_capacity(100);
        ours.read_buf(&mut got, soon(5000)).await.unwrap();
        let parked = ours.park();
        assert_eq!(parked.heard(), IdleState::Nothing);
        theirs.try_write(b"unasked").unwrap();
        assert_eq!(parked.heard(), IdleState::Data);
    })
    .unwrap();
}
