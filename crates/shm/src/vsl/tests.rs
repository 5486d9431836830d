// SPDX-License-Identifier: BSD-2-Clause
//! The ring as a reader finds it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base::{Real, Vxid};
use proptest::prelude::*;
use tables::Tag;
use tables::counters::Main;
use tables::tags::{LogSettings, TagMask};

use super::layout::{self, END};
use super::*;
use crate::vsc::CounterSet;
use crate::vsm::{SegmentSet, SetOwner};

struct Fixture {
    dir: PathBuf,
    settings: LogSettings,
    main: CounterSet<Main>,
    ring: Arc<LogRing>,
}

impl Fixture {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut LogSettings)) -> Self {
        Self::of(LogFormat::Seven, change)
    }

    fn of(format: LogFormat, change: impl FnOnce(&mut LogSettings)) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("lacquer-vsl-{}-{n}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let set = SegmentSet::create(&dir, SetOwner::Worker, 1, None).unwrap();
        let mut settings =
            LogSettings { space: 1 << 20, mask: TagMask::default(), reclen: 255, buffer: 16 << 10, is_sync: false };
        settings.mask.set(Tag::Debug, true);
        change(&mut settings);
        let main = CounterSet::<Main>::private();
        let ring = Arc::new(LogRing::create(&set, format, settings, main.clone()).unwrap());
        Self { dir, settings, main, ring }
    }

    fn log(&self, vxid: u64) -> TxnLog {
        TxnLog::new(Arc::clone(&self.ring), Vxid(vxid), Marker::Client)
    }

    /// The records from the beginning of the ring to the end marker.
    fn read(&self) -> Vec<Record> {
        self.ring.records().0
    }

    fn texts(&self) -> Vec<String> {
        let text = |r: Record| format!("{} {} {}", r.vxid, r.tag.name(), String::from_utf8(r.data).unwrap());
        self.read().into_iter().map(text).collect()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

const ALL: [LogFormat; 3] = [LogFormat::Seven, LogFormat::Eight, LogFormat::Nine];

#[test]
fn a_transaction_is_one_batch() {
    for format in ALL {
        check_batch(&Fixture::of(format, |_| {}));
    }
}

fn check_batch(f: &Fixture) {
    let mut log = f.log(1001);
    log.put(Tag::Begin, b"req 1000 rxreq");
    log.timestamp("Start", Real(1e9));
    log.timestamp("Resp", Real(1e9 + 0.5));
    log.record(Tag::ReqAcct).num(1).sp_num(22).text(" ").fixed3(0.25).text(b" ").fixed6(1.5);
    log.put2(Tag::ReqHeader, b"Host: ", b"example.com");
    log.putf(Tag::VclLog, format_args!("{}-{}", 1, 2));
    log.putf(Tag::End, format_args!(""));
    assert_eq!(f.read(), []);
    log.flush();
    let want = [
        "1001 Begin req 1000 rxreq",
        "1001 Timestamp Start: 1000000000.000000 0.000000 0.000000",
        "1001 Timestamp Resp: 1000000000.500000 0.500000 0.500000",
        "1001 ReqAcct 1 22 0.250 1.500000",
        "1001 ReqHeader Host: example.com",
        "1001 VCL_Log 1-2",
        "1001 End ",
    ];
    assert_eq!(f.texts(), want);
    assert_eq!((f.main.shm_records.get(), f.main.shm_writes.get(), f.main.shm_flushes.get()), (7, 1, 0));
}

#[test]
fn what_finds_no_room_is_counted() {
    let f = Fixture::new();
    let counts =
        || [&f.main.losthdr, &f.main.ws_client_overflow, &f.main.ws_backend_overflow].map(|counter| counter.get());
    let mut log = f.log(1001);
    log.lost_header(&[b"Age: ", b"0"]);
    log.count_overflow();
    assert_eq!(counts(), [1, 1, 0]);
    // The next transaction is another overflow, of the other side.
    log.reset(Vxid(1002), Marker::Backend);
    log.count_lost();
    log.lost_header(&[b"Via: a"]);
    assert_eq!(counts(), [3, 1, 1]);
    log.reset(Vxid(1003), Marker::Client);
    log.count_overflow();
    assert_eq!(counts(), [3, 2, 1]);
    drop(log);
    assert_eq!(f.texts(), ["1001 LostHeader Age: 0", "1002 LostHeader Via: a"]);
    TxnLog::silent(Arc::clone(&f.ring)).lost_header(&[b"Age: 0"]);
    assert_eq!(counts(), [3, 2, 1]);
}

#[test]
fn single_records() {
    let f = Fixture::new();
    f.ring.write_one(Tag::Cli, Vxid::NONE, Marker::None, b"Rd ping");
    f.ring.write_onef(Tag::SessClose, Vxid(1000), Marker::Client, format_args!("REM_CLOSE {:.3}", 0.5));
    f.ring.write_one(Tag::Debug, Vxid(1000), Marker::Client, b"masked by default");
    f.ring.write_one(Tag::End, Vxid(1000), Marker::Client, b"");
    let read = f.read();
    assert_eq!(f.texts(), ["0 CLI Rd ping", "1000 SessClose REM_CLOSE 0.500", "1000 End "]);
    assert_eq!((read[0].marker, read[1].marker), (Marker::None, Marker::Client));
    assert_eq!(f.ring.word(0), 3 << 24 | 8, "the length counts the NUL");
}

/// The words of the ring, as include/vapi/vsl_int.h of 9.0.2 describes them.
#[test]
fn records_are_laid_out_as_varnish_9_has_them() {
    let f = Fixture::of(LogFormat::Nine, |_| {});
    let id = 0x3_2345_6789_abcd;
    f.ring.write_one(Tag::ReqUrl, Vxid(id), Marker::Client, b"/a");
    let mut log = TxnLog::new(Arc::clone(&f.ring), Vxid(id), Marker::Backend);
    log.announce(Tag::Link, Vxid(5), &[b"bereq"]);
    log.put(Tag::Tls, b"");
    log.record(Tag::H2RxHdr).push(b"abc");
    log.put(Tag::H2RxHdr, b"");
    log.flush();
    let text = |bytes: [u8; 4]| u32::from_ne_bytes(bytes);
    let (low, high) = (0x6789_abcd, 0x3_2345);
    let (client, backend) = (1 << 30, 1 << 31);
    let want = [
        16 << 24 | 1 << 16 | 3,
        low,
        client | high,
        text(*b"/a\0\0"),
        75 << 24 | 1 << 16 | 6,
        5,
        backend,
        text(*b"bere"),
        text(*b"q\0\0\0"),
        255 << 24,
        44,
        0,
        9 << 24 | 1 << 16 | 1,
        low,
        backend | high,
        0,
        86 << 24 | 1 << 16 | 3,
        low,
        backend | high,
        text(*b"abc\0"),
        86 << 24 | 1 << 16,
        low,
        backend | high,
        END,
    ];
    assert_eq!((0..want.len()).map(|at| f.ring.word(at)).collect::<Vec<_>>(), want);
}

#[test]
fn tags_that_a_format_lacks_are_not_written() {
    for (format, has_reuse, has_tls) in
        [(LogFormat::Seven, true, true), (LogFormat::Eight, false, false), (LogFormat::Nine, false, true)]
    {
        let f = Fixture::of(format, |_| {});
        let mut log = f.log(1);
        log.put(Tag::BackendReuse, b"");
        log.put(Tag::Tls, b"");
        drop(log);
        let has = |tag| f.read().iter().any(|record| record.tag == tag);
        assert_eq!((has(Tag::BackendReuse), has(Tag::Tls)), (has_reuse, has_tls), "{format:?}");
    }
}

#[test]
fn parameters_work_at_once() {
    let mut f = Fixture::with(|settings| settings.reclen = 16);
    let mut log = f.log(1);
    log.put(Tag::VclLog, b"0123456789abcdefghi");
    log.put(Tag::Debug, b"masked");
    f.settings.mask.set(Tag::Debug, false);
    f.settings.is_sync = true;
    f.ring.apply(f.settings);
    log.put(Tag::Debug, b"seen");
    assert_eq!(f.texts(), ["1 VCL_Log 0123456789abcde", "1 Debug seen"]);
    log.record(Tag::VclLog).text("0123456789").num(u64::MAX);
    assert_eq!(f.texts()[2], "1 VCL_Log 012345678918446");
}

#[test]
fn a_full_buffer_is_written() {
    let f = Fixture::with(|settings| (settings.reclen, settings.buffer) = (64, 256));
    let mut log = f.log(1);
    (0..10).for_each(|i| log.putf(Tag::VclLog, format_args!("{i:050}")));
    drop(log);
    assert_eq!(f.read().len(), 10);
    assert_eq!((f.main.shm_flushes.get(), f.main.shm_writes.get()), (2, 3));
}

#[test]
fn logs_are_reused() {
    let f = Fixture::new();
    let mut log = f.log(1);
    log.timestamp("Start", Real(10.0));
    log.put(Tag::End, b"");
    log.reset(Vxid(2), Marker::Backend);
    log.timestamp("Start", Real(20.0));
    drop(log);
    let want =
        ["1 Timestamp Start: 10.000000 0.000000 0.000000", "1 End ", "2 Timestamp Start: 20.000000 0.000000 0.000000"];
    assert_eq!(f.texts(), want);
    assert_eq!(f.read()[2].marker, Marker::Backend);
}

#[test]
fn the_ring_wraps() {
    let f = Fixture::new();
    let segsize = (1048576 - 88) / 4 / 8;
    assert_eq!(f.ring.segments(), (u32::MAX - 7, [0, !0, !0, !0, !0, !0, !0, !0]));
    let mut seen = Vec::new();
    for i in 0..20_000u32 {
        f.ring.write_onef(Tag::VclLog, Vxid(u64::from(i) + 1), Marker::Client, format_args!("{i:0100}"));
        seen.push(f.ring.segments().0);
    }
    seen.dedup();
    assert!(seen.is_sorted_by(|a, b| b.wrapping_sub(*a) == 1), "{seen:?}");
    let (n, offsets) = f.ring.segments();
    assert_eq!(f.main.shm_cycles.get(), 2);
    assert_eq!(n / 8, 1, "two turns beyond 2^32 - 8");
    for (i, offset) in offsets.iter().enumerate() {
        assert!((*offset as usize) / segsize == i, "{i}: {offset}");
        assert!(f.ring.word(*offset as usize) == END || f.ring.word(*offset as usize) >> 24 == Tag::VclLog as u32);
    }
    let last = f.read().pop().unwrap();
    assert_eq!(last.data.last(), Some(&b'9'));
}

#[test]
fn threads_share_the_ring() {
    let f = Fixture::new();
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            let mut log = f.log(t + 1);
            scope.spawn(move || {
                for i in 0..1000 {
                    log.putf(Tag::VclLog, format_args!("{t} {i}"));
                    log.flush();
                }
            });
        }
    });
    assert_eq!(f.main.shm_records.get(), 4000);
    let texts = f.texts();
    assert_eq!(texts.len(), 4000, "nothing lost before the first wrap");
    for t in 0..4 {
        let mine: Vec<_> = texts.iter().filter(|s| s.starts_with(&format!("{} ", t + 1))).collect();
        assert!(mine.iter().enumerate().all(|(i, s)| s.ends_with(&format!(" {i}"))), "in order");
    }
}

#[test]
fn what_is_gathered_waits_and_keeps_its_order() {
    let f = Fixture::new();
    gather_here();
    let (mut one, mut two) = (f.log(1), f.log(2));
    one.put(Tag::VclLog, b"first");
    one.flush();
    two.announce(Tag::Link, Vxid(1), &[b"req 2 esi"]);
    two.put(Tag::VclLog, b"second");
    two.flush();
    assert_eq!((f.texts().len(), f.main.shm_records.get(), f.main.shm_bytes.get()), (0, 0, 0));
    // A record that is written at once comes after what waited.
    f.ring.write_one(Tag::Cli, Vxid::NONE, Marker::None, b"Rd ping");
    let want = ["1 VCL_Log first", "1 Link req 2 esi", "2 VCL_Log second", "0 CLI Rd ping"];
    assert_eq!(f.texts(), want);
    assert_eq!((f.main.shm_records.get(), f.main.shm_writes.get()), (4, 4));
    one.put(Tag::VclLog, b"last");
    one.flush();
    flush_gathered();
    assert_eq!(f.texts().last().unwrap(), "1 VCL_Log last");
}

#[test]
fn what_is_gathered_is_bounded() {
    let f = Fixture::new();
    gather_here();
    let mut log = f.log(1);
    for _ in 0..500 {
        log.put(Tag::VclLog, &[b'x'; 100]);
        log.flush();
    }
    let waits = 500 - f.read().len();
    assert!(waits * 110 < 32 << 10, "{waits} records wait");
    flush_gathered();
    assert_eq!(f.read().len(), 500);
}

#[test]
fn rings_are_not_mixed() {
    let (f, g) = (Fixture::new(), Fixture::new());
    gather_here();
    for (fixture, text) in [(&f, "a"), (&g, "b"), (&f, "c")] {
        let mut log = fixture.log(1);
        log.put(Tag::VclLog, text.as_bytes());
    }
    flush_gathered();
    assert_eq!((f.texts(), g.texts()), (vec!["1 VCL_Log a".into(), "1 VCL_Log c".into()], vec!["1 VCL_Log b".into()]));
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(
        data in prop::collection::vec((1u8..100, prop::collection::vec(any::<u8>(), 0..80)), 0..40),
        buffer in 112u64..400,
        vxid in 1u64..1 << 30,
        which in 0usize..3,
    ) {
        let f = Fixture::of(ALL[which], |settings| {
            (settings.reclen, settings.buffer) = (100, buffer);
            settings.mask.set(Tag::Debug, false);
        });
        let mut log = f.log(vxid);
        let mut want = Vec::new();
        for (i, (number, data)) in data.iter().enumerate() {
            let tag = Tag::from_number(*number).unwrap();
            match i % 3 {
                0 => log.put(tag, data),
                1 => log.put2(tag, &data[..data.len() / 2], &data[data.len() / 2..]),
                _ => {
                log.record(tag).text(data);
            }
            }
            if !f.ring.is_masked(tag) {
                want.push((tag, vxid, Marker::Client, data.clone()));
            }
        }
        log.flush();
        let got: Vec<_> = f.read().into_iter().map(|r| (r.tag, r.vxid, r.marker, r.data)).collect();
        prop_assert_eq!(got, want);
    }

    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..256), which in 0usize..3) {
        let _ = layout::records(ALL[which], &bytes);
    }
}
