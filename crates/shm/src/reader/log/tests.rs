// SPDX-License-Identifier: BSD-2-Clause
//! The ring as this crate writes it, read back; and rings that nobody should write.

use std::sync::Arc;

use base::Vxid;
use proptest::prelude::*;
use tables::Tag;
use tables::tags::{LogSettings, TagMask};

use super::*;
use crate::vsc::CounterSet;
use crate::vsl::{LogRing, Marker, RecordParts, TxnLog};
use crate::vsm::SegmentSet;

struct Fixture {
    dir: PathBuf,
    manager: SegmentSet,
    worker: Option<SegmentSet>,
    ring: Arc<LogRing>,
}

impl Fixture {
    fn new(name: &str) -> Fixture {
        Fixture::of(name, LogFormat::Seven)
    }

    fn of(name: &str, format: LogFormat) -> Fixture {
        let dir = std::env::temp_dir().join(format!("shm-log-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let manager = SegmentSet::create(&dir, SetOwner::Manager, 1, None).unwrap();
        let worker = SegmentSet::create(&dir, SetOwner::Worker, 2, None).unwrap();
        let settings =
            LogSettings { space: 1 << 20, mask: TagMask::default(), reclen: 1000, buffer: 16 << 10, is_sync: false };
        let ring = Arc::new(LogRing::create(&worker, format, settings, CounterSet::private()).unwrap());
        Fixture { dir, manager, worker: Some(worker), ring }
    }

    fn one(&self, vxid: u64, text: &str) {
        self.ring.write_one(Tag::VclLog, Vxid(vxid), Marker::Client, text.as_bytes());
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn texts(ring: &mut LogCursor) -> (Vec<String>, &'static str) {
    let mut out = Vec::new();
    loop {
        match ring.step() {
            RingStep::Records(bytes) => {
                let (mut records, mut rest) = (Vec::new(), bytes);
                while let Some((record, after)) = RecordParts::split(rest) {
                    records.push(String::from_utf8_lossy(record.data).trim_end_matches('\0').to_owned());
                    rest = after;
                }
                out.push(records.join("+"));
            }
            RingStep::End => return (out, "end"),
            RingStep::Eof => return (out, "eof"),
            RingStep::Abandoned => return (out, "abandoned"),
            RingStep::Overrun => return (out, "overrun"),
        }
    }
}

#[test]
fn what_is_written_is_read_once() {
    let f = Fixture::new("once");
    f.one(3, "old");
    let mut now = LogCursor::open(&f.dir, StartAt::Now).unwrap();
    let mut past = LogCursor::open(&f.dir, StartAt::Past).unwrap();
    assert_eq!(texts(&mut now), (vec![], "end"));
    let mut txn = TxnLog::new(Arc::clone(&f.ring), Vxid(5), Marker::Client);
    txn.put(Tag::VclLog, b"a");
    txn.put(Tag::VclLog, b"b");
    txn.flush();
    assert_eq!(texts(&mut now), (vec!["a+b".into()], "end"));
    assert_eq!(texts(&mut past), (vec!["old".into(), "a+b".into()], "eof"));
    f.one(7, "");
    assert_eq!(texts(&mut now), (vec![String::new()], "end"));
}

/// Records and batches of each release; the first that tells of the release comes late.
#[test]
fn a_ring_of_each_release_is_read_by_its_numbers() {
    for format in [LogFormat::Seven, LogFormat::Eight, LogFormat::Nine] {
        let f = Fixture::of(&format!("{format:?}"), format);
        f.one(0, "early");
        for vxid in [1000, 1001] {
            let mut txn = TxnLog::new(Arc::clone(&f.ring), Vxid(vxid), Marker::Client);
            txn.put(Tag::BackendClose, b"24 default recycle");
            txn.put(Tag::Begin, b"req 1000 rxreq");
        }
        let tags = |from| {
            let (mut ring, mut tags) = (LogCursor::open(&f.dir, from).unwrap(), Vec::new());
            while let RingStep::Records(mut rest) = ring.step() {
                while let Some((record, after)) = RecordParts::split(rest) {
                    tags.push((record.vxid, record.tag().map_or("?", Tag::name)));
                    rest = after;
                }
            }
            (tags, ring.format())
        };
        let txn = |vxid| [(vxid, "BackendClose"), (vxid, "Begin")];
        let all = [&[(0, "VCL_Log")][..], &txn(1000), &txn(1001)].concat();
        assert_eq!(tags(StartAt::Past), (all, format));
        assert_eq!(tags(StartAt::Now), (vec![], format));
    }
}

#[test]
fn a_reader_follows_round_the_ring_and_notices_when_it_is_overtaken() {
    for format in [LogFormat::Seven, LogFormat::Nine] {
        check_round(&Fixture::of(&format!("round-{format:?}"), format));
    }
}

fn check_round(f: &Fixture) {
    let mut ring = LogCursor::open(&f.dir, StartAt::Now).unwrap();
    for i in 0..20_000 {
        let text = format!("{i} {}", "x".repeat(i % 200));
        f.one(1, &text);
        assert_eq!(texts(&mut ring), (vec![text], "end"), "{i}");
    }
    for _ in 0..6000 {
        f.one(1, &"y".repeat(300));
    }
    assert_eq!(texts(&mut ring).1, "overrun");
    let mut past = LogCursor::open(&f.dir, StartAt::PastAndOn).unwrap();
    let (all, end) = texts(&mut past);
    assert!(all.len() > 1000 && end == "end", "{} {end}", all.len());
}

#[test]
fn what_a_reader_has_no_time_for_is_left_out_up_to_the_segment_being_written() {
    let f = Fixture::new("skip");
    let mut ring = LogCursor::open(&f.dir, StartAt::Now).unwrap();
    assert!(!ring.skip_ahead(), "the segment that is read is the one that is written");
    for i in 0..2000 {
        f.one(1, &format!("{i} {}", "z".repeat(150)));
    }
    assert!(ring.skip_ahead());
    let (left, end) = texts(&mut ring);
    let first: usize = left[0].split(' ').next().unwrap().parse().unwrap();
    // A segment has 128 KB, of which a record takes 164 bytes or so.
    assert_eq!((left.len(), end), (2000 - first, "end"));
    assert!((1..900).contains(&left.len()), "{}", left.len());
    assert!(!ring.skip_ahead());
}

#[test]
fn a_log_that_is_gone_is_abandoned() {
    let mut f = Fixture::new("gone");
    let mut ring = LogCursor::open(&f.dir, StartAt::Now).unwrap();
    f.worker = None;
    std::fs::remove_dir_all(f.dir.join(SetOwner::Worker.dir_name())).unwrap();
    assert_eq!(texts(&mut ring), (vec![], "abandoned"));
    assert!(matches!(LogCursor::open(&f.dir, StartAt::Now), Err(LogError::NoLog)));
    f.manager.clone().close();
    assert!(matches!(LogCursor::open(&f.dir, StartAt::Now), Err(LogError::NoLog)));
}

fn workdir_of(name: &str, magic: &[u8; 8], segsize: u64, segment: u32, offsets: &[i64], words: &[u32]) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("shm-log-made-{}-{name}", std::process::id()));
    let mut file = magic.to_vec();
    file.extend(segsize.to_ne_bytes());
    file.extend(u64::from(segment).to_ne_bytes());
    file.extend(offsets.iter().flat_map(|o| o.to_ne_bytes()));
    file.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
    for home in [SetOwner::Manager, SetOwner::Worker] {
        std::fs::create_dir_all(dir.join(home.dir_name())).unwrap();
        let index = format!("# 1 2\n+ log 0 {} Log Log\n", file.len());
        std::fs::write(dir.join(home.dir_name()).join("_.index"), index).unwrap();
    }
    std::fs::write(dir.join("_.vsm_child/log"), &file).unwrap();
    dir
}

#[test]
fn a_ring_with_wide_records_is_read() {
    // Two single records, a batch of two, and the way back to the beginning, where the second round has begun.
    let record = |text: &[u8; 4], vxid: u32| [72 << 24 | 1 << 16 | 4, vxid, 1 << 30 | 1, u32::from_ne_bytes(*text)];
    let mut words = vec![0; 8 * 8];
    let mut put = |at: usize, what: &[u32]| words[at..at + what.len()].copy_from_slice(what);
    put(0, &record(b"new\0", 9));
    put(4, &[END]);
    put(40, &record(b"one\0", 3));
    put(44, &[BATCH, 32, 0]);
    put(47, &record(b"two\0", 5));
    put(51, &record(b"tri\0", 5));
    put(55, &[WRAP]);
    // The fifth segment begins with the first record.
    let offsets = [0, -1, -1, -1, -1, 40, -1, -1];
    let dir = workdir_of("wide", b"VSLHEAD2", 8, 8, &offsets, &words);
    let mut ring = LogCursor::open(&dir, StartAt::Past).unwrap();
    assert_eq!(texts(&mut ring), (vec!["one".into(), "two+tri".into(), "new".into()], "eof"));
    assert!(ring.format().is_wide() && ring.notes().next().is_none());
    let mut now = LogCursor::open(&dir, StartAt::Now).unwrap();
    assert_eq!(texts(&mut now), (vec![], "end"));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_log_of_an_unknown_layout_is_refused() {
    let dir = workdir_of("unknown", b"VSLHEAD3", 8, 8, &[0; 8], &[END; 64]);
    assert!(matches!(LogCursor::open(&dir, StartAt::Now), Err(LogError::NotALog)));
    std::fs::remove_dir_all(&dir).unwrap();
}

proptest! {
    #[test]
    fn no_bytes_can_hurt(bytes in proptest::collection::vec(any::<u8>(), 0..300), is_wide in any::<bool>()) {
        let (whole, _) = whole_units(if is_wide { LogFormat::Nine } else { LogFormat::Seven }, &bytes);
        prop_assert!(whole <= bytes.len());
    }

    #[test]
    fn no_ring_can_hurt(words in proptest::collection::vec(prop_oneof![
        Just(0u32), Just(END), Just(WRAP), Just(BATCH), Just(8), Just(0x0100_0004), Just(0x4a01_000c), any::<u32>()
    ], 64), n in any::<u32>(), offsets in proptest::collection::vec(-2i64..70, 8), segsize in 0u64..9, is_wide in any::<bool>()) {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let name = format!("hostile-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let magic = if is_wide { b"VSLHEAD2" } else { b"VSLHEAD1" };
        let dir = workdir_of(&name, magic, segsize, n, &offsets, &words);
        for from in [StartAt::Now, StartAt::Past, StartAt::PastAndOn] {
            if let Ok(mut ring) = LogCursor::open(&dir, from) {
                let (all, _) = texts(&mut ring);
                prop_assert!(all.len() <= 64 * 8);
            }
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
