// SPDX-License-Identifier: BSD-2-Clause
//! Bodies that leave memory while they come: they go at the disk's pace, and what is written of them is read meanwhile.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use storage::StoredBody;

use super::bed::{Bed, NOW, SEGMENT, bytes_of, digest_of, head_of, record_of};
use super::simulated::{OperationKind, SimulatedFault};
use crate::body::DiskBody;
use crate::device::DeviceError;
use crate::format::FIRST_SEGMENT;
use crate::format::object::ObjectTexts;
use crate::put::{Put, Refused};

const LEN: usize = 1_100_000;
const PIECE: usize = 50_000;

fn begin(bed: &Bed) -> Put {
    bed.disk.put(&digest_of(1))
}

/// Ready at once, or not at all.
fn now<T>(work: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    match work(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

fn read(bed: &mut Bed, body: &DiskBody, range: std::ops::Range<usize>) {
    let (mut reader, mut at) = (None, range.start);
    let expected = bytes_of(1, 0, LEN);
    while at < range.end {
        let wanted = at as u64..range.end as u64;
        let bytes = bed.run(poll_fn(|cx| body.poll_at(cx, &mut reader, wanted.clone()))).expect("it comes").unwrap();
        assert!(bytes[..] == expected[at..at + bytes.len()], "a wrong byte behind {at}");
        at += bytes.len();
    }
    reader.into_iter().for_each(|reader| body.forget(reader));
}

fn push(bed: &mut Bed, put: &mut Put, bytes: &[u8]) {
    for piece in bytes.chunks(PIECE) {
        bed.run(poll_fn(|cx| put.poll_room(cx))).expect("there will be room").unwrap();
        put.push(piece).unwrap();
    }
}

fn finish(bed: &mut Bed, put: Put) -> Result<(), Refused> {
    let head = head_of(1, 0);
    let done = put.finish(&record_of(1, 1, &head), &ObjectTexts { head: &head, tags: b"t" }).map(drop);
    let disk = bed.disk.clone();
    bed.run(disk.sync()).unwrap().unwrap();
    done
}

#[test]
fn what_is_written_of_a_body_is_read_before_it_is_whole() {
    let mut bed = Bed::ready(1, 16);
    let (mut put, expected) = (begin(&bed), bytes_of(1, 0, LEN));
    let body = put.so_far();
    let mut settled = 0;
    for (turn, piece) in expected.chunks(PIECE).enumerate() {
        bed.run(poll_fn(|cx| put.poll_room(cx))).expect("there will be room").unwrap();
        put.push(piece).unwrap();
        if turn % 5 == 4 {
            let more = bed.run(poll_fn(|cx| put.poll_settled(cx, settled))).expect("it is written").unwrap();
            assert!(more > settled && more <= ((turn + 1) * PIECE) as u64);
            read(&mut bed, &body, settled as usize..more as usize);
            read(&mut bed, &body, 0..more as usize);
            settled = more;
        }
    }
    assert_eq!(bed.run(poll_fn(|cx| put.poll_whole(cx))).expect("it is written").unwrap(), LEN as u64);
    assert_eq!(body.len(), LEN as u64);
    finish(&mut bed, put).unwrap();
    read(&mut bed, &body, 0..LEN);
    let [candidate] = bed.disk.find(&digest_of(1))[..] else { panic!("it is found") };
    let load = bed.disk.load(candidate, &digest_of(1));
    let loaded = bed.run(load).unwrap().unwrap();
    assert_eq!(loaded.body.len(), LEN as u64);
    read(&mut bed, &loaded.body, 0..LEN);
}

#[test]
fn a_body_that_comes_faster_than_the_disk_writes_waits_for_it() {
    let mut bed = Bed::ready(2, 16);
    let (mut put, expected) = (begin(&bed), bytes_of(1, 0, LEN));
    let mut waited = 0;
    for piece in expected.chunks(PIECE) {
        if now(|cx| put.poll_room(cx)).is_none() {
            waited += 1;
            bed.run(poll_fn(|cx| put.poll_room(cx))).expect("there will be room").unwrap();
        }
        put.push(piece).unwrap();
        assert!(bed.disk.usage().buffer_bytes <= 3 << 20);
    }
    assert!(waited > 0, "the disk does nothing by itself here");
    bed.run(poll_fn(|cx| put.poll_whole(cx))).expect("it is written").unwrap();
    finish(&mut bed, put).unwrap();
    assert_eq!(bed.disk.find(&digest_of(1)).len(), 1);
    assert_eq!(bed.disk.counts().puts_slow, 0);
}

#[test]
fn a_body_that_fits_no_half_of_the_store_is_refused() {
    let mut bed = Bed::ready(3, 8);
    let (mut put, expected) = (begin(&bed), bytes_of(1, 0, LEN));
    let refused = expected.chunks(PIECE).find_map(|piece| {
        let room = bed.run(poll_fn(|cx| put.poll_room(cx))).expect("it doesn't hang");
        room.and_then(|()| put.push(piece)).err()
    });
    assert_eq!(refused, Some(Refused::TooLarge));
    assert!(put.tail.len() < 2 * 65536 + PIECE, "what is refused isn't gathered");
    assert_eq!(bed.disk.counts().puts_too_large, 1);
}

#[test]
fn what_was_written_before_a_write_failed_can_still_be_read() {
    let mut bed = Bed::ready(4, 16);
    let (mut put, expected) = (begin(&bed), bytes_of(1, 0, LEN));
    push(&mut bed, &mut put, &expected[..400_000]);
    let body = put.so_far();
    let mut settled = bed.run(poll_fn(|cx| put.poll_settled(cx, 300_000))).unwrap().unwrap();
    bed.device.set_fault(Some((OperationKind::Write, SimulatedFault::Error(DeviceError::Os(5)))));
    put.push(&expected[400_000..700_000]).unwrap();
    let refused = loop {
        match bed.run(poll_fn(|cx| put.poll_settled(cx, settled))) {
            Some(Ok(more)) => settled = more,
            Some(Err(refused)) => break refused,
            None => bed.disk.tick(NOW + 60),
        }
    };
    assert!(matches!(refused, Refused::Failed | Refused::Slow), "{refused:?}: the write, or the next segment's");
    read(&mut bed, &body, 0..settled as usize);
}

#[test]
fn a_body_in_memory_stays_there_soon_when_the_disk_does_nothing() {
    let mut bed = Bed::ready(7, 16);
    let expected = bytes_of(1, 0, LEN);
    bed.device.set_fault(Some((OperationKind::Write, SimulatedFault::Hang)));
    let mut put = begin(&bed);
    assert!(now(|cx| put.poll_room(cx)).is_some());
    put.push(&expected[..800_000]).unwrap();
    assert!(now(|cx| put.poll_settled(cx, 0)).is_none());
    bed.disk.tick(NOW + 1);
    assert!(now(|cx| put.poll_settled(cx, 0)).is_none());
    bed.disk.tick(NOW + 2);
    assert_eq!(now(|cx| put.poll_settled(cx, 0)), Some(Err(Refused::Slow)));
    let mut next = bed.disk.put(&digest_of(2));
    assert!(now(|cx| next.poll_room(cx)).is_some());
    next.push(&expected[..100_000]).unwrap();
    assert_eq!(now(|cx| next.poll_settled(cx, 0)), Some(Err(Refused::Slow)), "nobody waits anew");
    bed.device.give_up();
    bed.device.set_fault(None);
    bed.disk.tick(NOW + 20);
    bed.settle();
    let mut put = begin(&bed);
    push(&mut bed, &mut put, &expected);
    bed.run(poll_fn(|cx| put.poll_whole(cx))).expect("it is written").unwrap();
}

#[test]
fn nobody_waits_for_ever_for_a_disk_that_does_nothing() {
    let mut bed = Bed::ready(5, 16);
    let (mut put, expected) = (begin(&bed), bytes_of(1, 0, LEN));
    push(&mut bed, &mut put, &expected[..400_000]);
    let _in_part_on_the_disk = put.so_far();
    bed.run(poll_fn(|cx| put.poll_settled(cx, 0))).unwrap().unwrap();
    bed.device.set_fault(Some((OperationKind::Write, SimulatedFault::Hang)));
    push(&mut bed, &mut put, &expected[400_000..500_000]);
    assert!(now(|cx| put.poll_settled(cx, 499_999)).is_none());
    bed.disk.tick(NOW + 9);
    assert!(now(|cx| put.poll_settled(cx, 499_999)).is_none());
    bed.disk.tick(NOW + 10);
    assert_eq!(now(|cx| put.poll_settled(cx, 499_999)), Some(Err(Refused::Slow)));
}

#[test]
fn a_body_in_part_on_the_disk_waits_a_while_where_segments_cant_be_begun() {
    for is_over_soon in [true, false] {
        let mut bed = Bed::ready(8, 16);
        let (mut put, expected) = (begin(&bed), bytes_of(1, 0, LEN));
        push(&mut bed, &mut put, &expected[..150_000]);
        let _in_part_on_the_disk = put.so_far();
        bed.run(poll_fn(|cx| put.poll_settled(cx, 0))).unwrap().unwrap();
        bed.device.set_fault(Some((OperationKind::Sync, SimulatedFault::Error(DeviceError::Os(5)))));
        put.push(&expected[150_000..600_000]).unwrap();
        bed.settle();
        assert!(now(|cx| put.poll_room(cx)).is_none(), "it was one of a few that failed, as far as is known");
        if is_over_soon {
            bed.device.set_fault(None);
            bed.disk.tick(NOW + 1);
            push(&mut bed, &mut put, &expected[600_000..]);
            bed.run(poll_fn(|cx| put.poll_whole(cx))).expect("it is written").unwrap();
            finish(&mut bed, put).unwrap();
            continue;
        }
        let room_at = |second| {
            bed.disk.tick(NOW + second);
            bed.settle();
            now(|cx| put.poll_room(cx))
        };
        let ends = [1, 2, 3].map(room_at);
        assert_eq!(ends, [None, None, Some(Err(Refused::Slow))]);
    }
}

#[test]
fn one_segment_that_cant_be_begun_stops_nothing() {
    let mut bed = Bed::ready(9, 64);
    let bad = FIRST_SEGMENT + 9 * SEGMENT;
    bed.device.spoil(bad..bad + SEGMENT);
    for name in 0..30 {
        bed.put_slowly(name, 100_000);
    }
    assert_eq!(bed.disk.counts().segments_quarantined, 1);
    let disk = bed.disk.clone();
    bed.run(disk.sync()).unwrap().unwrap();
    assert_eq!(bed.load_everything(), 30);
}

/// Pushes as much as is taken at once; what ended that.
fn push_without_waiting(put: &mut Put, bytes: &[u8]) -> Option<Refused> {
    bytes.chunks(PIECE).find_map(|piece| match now(|cx| put.poll_room(cx)).expect("it waits for nothing") {
        Ok(()) => put.push(piece).err(),
        Err(refused) => Some(refused),
    })
}

#[test]
fn nobody_waits_for_a_disk_whose_writes_fail() {
    let mut bed = Bed::ready(6, 16);
    bed.device.set_fault(Some((OperationKind::Write, SimulatedFault::Error(DeviceError::Os(5)))));
    bed.put(2, 40_000).unwrap();
    let disk = bed.disk.clone();
    bed.run(disk.sync()).unwrap().unwrap_err();
    let expected = bytes_of(1, 0, LEN);
    assert_eq!(push_without_waiting(&mut begin(&bed), &expected), Some(Refused::Slow));
    // It tries to begin a segment now and then, which fails as well.
    for second in 5..9 {
        bed.disk.tick(NOW + second);
        bed.settle();
        let mut put = begin(&bed);
        let refused = push_without_waiting(&mut put, &expected[..300_000]);
        let refused = refused.or_else(|| now(|cx| put.poll_settled(cx, 0)).expect("it waits for nothing").err());
        assert!(matches!(refused, Some(Refused::Slow | Refused::Failed)), "{refused:?} in second {second}");
    }
    bed.device.set_fault(None);
    bed.disk.tick(NOW + 20);
    bed.settle();
    let mut put = begin(&bed);
    push(&mut bed, &mut put, &expected);
    bed.run(poll_fn(|cx| put.poll_whole(cx))).expect("it is written").unwrap();
}
