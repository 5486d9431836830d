// SPDX-License-Identifier: BSD-2-Clause
//! The ring as this crate writes it, read back; and rings that nobody should write.

use std::sync::Arc;

use base::Vxid;
use proptest::prelude::*;
use tables::Tag;
use tables::counters::Main;
use tables::tags::{LogSettings, TagMask};

use super::*;
use crate::vsc::CounterSet;
use crate::vsl::{LogRing, Marker, TxnLog};
use crate::vsm::SegmentSet;

struct Fixture {
    dir: PathBuf,
    manager: SegmentSet,
    worker: Option<SegmentSet>,
    ring: Arc<LogRing>,
}

impl Fixture {
    fn new(name: &str) -> Fixture {
        let dir = std::env::temp_dir().join(format!("shm-log-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let manager = SegmentSet::create(&dir, SetOwner::Manager, 1, None).unwrap();
        let worker = SegmentSet::create(&dir, SetOwner::Worker, 2, None).unwrap();
        let settings =
            LogSettings { space: 1 << 20, mask: TagMask::default(), reclen: 1000, buffer: 16 << 10, is_sync: false };
        let ring = Arc::new(LogRing::create(&worker, settings, CounterSet::<Main>::private()).unwrap());
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
                let words: Vec<u32> =
                    bytes.chunks_exact(4).map(|w| u32::from_ne_bytes(w.try_into().unwrap())).collect();
                let records = crate::vsl::records(&words);
                out.push(
                    records.iter().map(|r| String::from_utf8_lossy(&r.data).into_owned()).collect::<Vec<_>>().join("+"),
                );
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

#[test]
fn a_reader_follows_round_the_ring_and_notices_when_it_is_overtaken() {
    let f = Fixture::new("round");
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

proptest! {
    #[test]
    fn no_bytes_can_hurt(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (whole, _) = whole_units(&bytes);
        prop_assert!(whole <= bytes.len());
    }

    #[test]
    fn no_ring_can_hurt(words in proptest::collection::vec(prop_oneof![
        Just(0u32), Just(END), Just(WRAP), Just(BATCH), Just(8), Just(0x0100_0004), any::<u32>()
    ], 64), n in any::<u32>(), offsets in proptest::collection::vec(-2i64..70, 8), segsize in 0u64..9) {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let name = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("shm-log-hostile-{}-{name}", std::process::id()));
        for home in [SetOwner::Manager, SetOwner::Worker] {
            std::fs::create_dir_all(dir.join(home.dir_name())).unwrap();
            std::fs::write(dir.join(home.dir_name()).join("_.index"), "# 1 2\n+ log 0 344 Log Log\n").unwrap();
        }
        let mut file = MAGIC.to_ne_bytes().to_vec();
        file.extend(segsize.to_ne_bytes());
        file.extend(u64::from(n).to_ne_bytes());
        file.extend(offsets.iter().flat_map(|o| o.to_ne_bytes()));
        file.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
        std::fs::write(dir.join("_.vsm_child/log"), &file).unwrap();
        for from in [StartAt::Now, StartAt::Past, StartAt::PastAndOn] {
            if let Ok(mut ring) = LogCursor::open(&dir, from) {
                let (all, _) = texts(&mut ring);
                prop_assert!(all.len() <= 64 * 8);
            }
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
