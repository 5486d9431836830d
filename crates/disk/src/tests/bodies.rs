// SPDX-License-Identifier: BSD-2-Clause
//! Long bodies and who reads them: in few operations, each at its own pace, within bounds, and through a stall.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use storage::{Buf, StoreError, StoredBody};

use super::bed::{Bed, NOW, bytes_of, digest_of};
use super::simulated::{OperationKind, Simulated, SimulatedFault};
use crate::body::DiskBody;
use crate::disk::Disk;
use crate::options::DiskStoreOptions;

const LEN: usize = 900_000;

/// A store with a long body, and the body, opened with these options.
fn bed_with(options: DiskStoreOptions) -> (Bed, DiskBody) {
    let mut bed = Bed::ready(9, 16);
    bed.put_slowly(1, LEN);
    let disk = bed.disk.clone();
    bed.run(disk.sync()).unwrap().unwrap();
    let device = Simulated::new(bed.device.image());
    let (disk, driver) = Disk::open(device.clone(), options);
    (bed.device, bed.disk, bed.driver) = (device, disk, Some(driver));
    bed.settle();
    let [candidate] = bed.disk.find(&digest_of(1))[..] else { panic!("it is found") };
    let load = bed.disk.load(candidate, &digest_of(1));
    let loaded = bed.run(load).unwrap().unwrap();
    (bed, loaded.body)
}

fn bed() -> (Bed, DiskBody) {
    bed_with(DiskStoreOptions::new(NOW, 5))
}

/// One that reads from `at` on.
struct Reader {
    number: Option<u64>,
    at: usize,
}

impl Reader {
    fn at(at: usize) -> Reader {
        Reader { number: None, at }
    }

    fn poll(&mut self, cx: &mut Context<'_>, body: &DiskBody) -> Poll<Result<Buf, StoreError>> {
        let polled = body.poll_at(cx, &mut self.number, self.at as u64..u64::MAX);
        if let Poll::Ready(Ok(bytes)) = &polled {
            assert!(bytes[..] == bytes_of(1, 0, LEN)[self.at..self.at + bytes.len()], "a wrong byte at {}", self.at);
            self.at += bytes.len();
        }
        polled
    }

    /// True if the reader got on.
    fn step(&mut self, body: &DiskBody) -> bool {
        self.at < LEN && self.poll(&mut Context::from_waker(Waker::noop()), body).is_ready()
    }
}

fn read_all(bed: &mut Bed, body: &DiskBody, reader: &mut Reader) -> Result<(), StoreError> {
    while reader.at < LEN {
        bed.run(poll_fn(|cx| reader.poll(cx, body))).expect("the body comes")?;
    }
    Ok(())
}

#[test]
fn a_long_body_is_read_in_few_operations_and_each_byte_once() {
    let (mut bed, body) = bed();
    let (reads, bytes) = (bed.device.reads(), bed.disk.counts().bytes_read);
    let mut reader = Reader::at(0);
    read_all(&mut bed, &body, &mut reader).unwrap();
    let (reads, bytes) = (bed.device.reads() - reads, bed.disk.counts().bytes_read - bytes);
    assert!(reads <= 8, "{reads} for 14 chunks, of which two lie side by side in each segment");
    assert!(bytes <= LEN as u64 + 14 * 64 + 8192 * reads, "{bytes} bytes");
}

#[test]
fn what_was_read_for_one_who_goes_is_let_go() {
    let (mut bed, body) = bed();
    let held = |bed: &Bed| bed.disk.usage().read_bytes;
    let (mut one, mut two) = (Reader::at(0), Reader::at(500_000));
    bed.run(poll_fn(|cx| one.poll(cx, &body))).unwrap().unwrap();
    bed.run(poll_fn(|cx| two.poll(cx, &body))).unwrap().unwrap();
    bed.settle();
    assert!(held(&bed) >= 4 * 65536, "some is read ahead");
    body.forget(one.number.unwrap());
    assert!(held(&bed) > 0, "the other's is there");
    body.forget(two.number.unwrap());
    assert_eq!(held(&bed), 0);
    // Once more, while it is being read.
    let mut three = Reader::at(0);
    assert!(!three.step(&body));
    body.forget(three.number.unwrap());
    bed.settle();
    assert_eq!(held(&bed), 0);
}

#[test]
fn who_doesnt_wait_gets_little_read_ahead() {
    let (mut bed, body) = bed();
    let mut reader = Reader::at(0);
    bed.run(poll_fn(|cx| reader.poll(cx, &body))).unwrap().unwrap();
    for _ in 0..6 {
        bed.settle();
        assert!(reader.step(&body), "it is there before it is asked for");
        assert!(bed.disk.usage().read_bytes <= 9 * 65536 + 65536, "{}", bed.disk.usage().read_bytes);
    }
}

#[test]
fn without_memory_each_chunk_is_read_when_it_is_wanted() {
    let (mut bed, body) = bed_with(DiskStoreOptions { read_ahead_bytes: 0, ..DiskStoreOptions::new(NOW, 5) });
    let mut reader = Reader::at(0);
    while reader.at < LEN {
        let bytes = bed.run(poll_fn(|cx| reader.poll(cx, &body))).unwrap().unwrap();
        bed.settle();
        assert!(bed.disk.usage().read_bytes <= 18 * 4096, "{} bytes of it were read", bytes.len());
    }
}

#[test]
fn readers_wait_for_each_other_when_few_reads_are_allowed() {
    let (mut bed, body) = bed_with(DiskStoreOptions { most_reads: 1, ..DiskStoreOptions::new(NOW, 5) });
    let mut readers: Vec<Reader> = (0..12).map(|turn| Reader::at(turn * 70_000)).collect();
    let work = poll_fn(|cx| {
        for reader in &mut readers {
            while reader.at < LEN
                && let Poll::Ready(read) = reader.poll(cx, &body)
            {
                read.unwrap();
            }
        }
        if readers.iter().all(|reader| reader.at == LEN) { Poll::Ready(()) } else { Poll::Pending }
    });
    bed.run(work).expect("nobody is forgotten");
    assert_eq!(bed.disk.counts().reads_refused, 0);
}

#[test]
fn a_body_in_delivery_outlasts_a_stall_but_not_any_number() {
    let (mut bed, body) = bed();
    let mut reader = Reader::at(0);
    bed.run(poll_fn(|cx| reader.poll(cx, &body))).unwrap().unwrap();
    bed.device.set_fault(Some((OperationKind::Read, SimulatedFault::Hang)));
    let mut far = Reader::at(800_000);
    for _ in 0..3 {
        assert!(!far.step(&body));
        bed.device.give_up();
    }
    bed.device.set_fault(None);
    read_all(&mut bed, &body, &mut far).unwrap();
    bed.device.set_fault(Some((OperationKind::Read, SimulatedFault::Hang)));
    let mut far = Reader::at(400_000);
    let mut stalls = 0;
    let error = loop {
        match far.poll(&mut Context::from_waker(Waker::noop()), &body) {
            Poll::Ready(read) => break read.unwrap_err(),
            Poll::Pending => bed.device.give_up(),
        }
        stalls += 1;
        assert!(stalls < 100, "there is an end to it");
    };
    assert_eq!(error, StoreError("the body can't be read"));
    assert_eq!(bed.disk.find(&digest_of(1)).len(), 0, "nothing is found before the next tick");
    bed.disk.tick(NOW);
    assert_eq!(bed.disk.find(&digest_of(1)).len(), 1, "what was only too slow is still there");
}

/// Puts objects that nobody asks for until the oldest segment's objects can't be found any more.
fn churn_until_gone(bed: &mut Bed, name: u8) {
    for turn in 0..400_u64 {
        if bed.disk.find(&digest_of(name)).is_empty() {
            return;
        }
        let _ = bed.put(100 + (turn % 100) as u8, 20_000);
        bed.settle();
    }
    panic!("nothing was reclaimed");
}

#[test]
fn who_holds_a_body_reads_on_when_it_was_written_anew() {
    let mut bed = Bed::ready(21, 8);
    bed.put_slowly(1, 90_000);
    let disk = bed.disk.clone();
    bed.run(disk.sync()).unwrap().unwrap();
    let [candidate] = bed.disk.find(&digest_of(1))[..] else { panic!("it is found") };
    let load = bed.disk.load(candidate, &digest_of(1));
    let body = bed.run(load).unwrap().unwrap().body;
    for round in 1..=3 {
        let before = bed.disk.counts();
        while bed.disk.counts().moved == before.moved
            || bed.disk.counts().segments_reclaimed < before.segments_reclaimed + 8
        {
            bed.disk.find(&digest_of(1)).into_iter().for_each(|candidate| bed.disk.note_use(candidate));
            let _ = bed.put(100, 20_000);
            bed.settle();
        }
        assert!(body.is_there());
        let (mut number, mut at) = (None, 0);
        let expected = bytes_of(1, 0, 90_000);
        while at < expected.len() {
            let read = bed.run(poll_fn(|cx| body.poll_at(cx, &mut number, at as u64..u64::MAX))).expect("it comes");
            let bytes = read.unwrap_or_else(|error| panic!("round {round}: {error}"));
            assert!(bytes[..] == expected[at..at + bytes.len()]);
            at += bytes.len();
        }
        number.into_iter().for_each(|number| body.forget(number));
    }
}

#[test]
fn a_segment_that_is_read_is_reclaimed_a_little_later_and_nobody_begins_to_read_it() {
    let mut bed = Bed::ready(22, 8);
    bed.put_slowly(1, 150_000);
    let disk = bed.disk.clone();
    bed.run(disk.sync()).unwrap().unwrap();
    let [candidate] = bed.disk.find(&digest_of(1))[..] else { panic!("it is found") };
    let load = bed.disk.load(candidate, &digest_of(1));
    let body = bed.run(load).unwrap().unwrap().body;
    let expected = bytes_of(1, 0, 150_000);
    let (mut number, mut at) = (None, 0);
    let mut read = |bed: &mut Bed| {
        let bytes = bed.run(poll_fn(|cx| body.poll_at(cx, &mut number, at as u64..at as u64 + 1))).expect("it comes");
        let bytes = bytes.expect("it is there as long as it is read");
        assert!(bytes[..] == expected[at..at + bytes.len()]);
        at += bytes.len();
        at < expected.len()
    };
    read(&mut bed);
    churn_until_gone(&mut bed, 1);
    assert!(!body.is_there(), "nobody else is to begin");
    while read(&mut bed) {}
    number.into_iter().for_each(|number| body.forget(number));
    bed.disk.tick(NOW);
    bed.settle();
    assert_eq!(bed.disk.counts().segments_reclaimed, 1);
}
