// SPDX-License-Identifier: BSD-2-Clause
//! Files of each release, of several, and files that are none.

use std::io::Cursor;

use proptest::prelude::*;
use shm::vsl::Marker;
use tables::Tag;

use super::*;
use crate::record::{self, Rec, make_as, write_as};

const ALL: [LogFormat; 3] = [LogFormat::Seven, LogFormat::Eight, LogFormat::Nine];
const TRANSACTION: [(Tag, &str); 5] = [
    (Tag::Begin, "req 2 rxreq"),
    (Tag::Timestamp, "Start: 1700000000.250000 0.000000 0.000000"),
    (Tag::ReqUrl, "/a"),
    (Tag::BackendClose, "24 default recycle"),
    (Tag::End, ""),
];

fn records_of(format: LogFormat, vxid: u64, records: &[(Tag, &str)]) -> Vec<u8> {
    let stamped: Vec<u8> =
        records.iter().flat_map(|(tag, text)| make_as(format, *tag, vxid, Marker::Client, text.as_bytes())).collect();
    let mut out = Vec::new();
    assert!(record::records(&stamped).all(|rec| write_as(&rec, format, &mut out)));
    out
}

fn file_of(format: LogFormat, vxid: u64) -> Vec<u8> {
    [format.file_head().to_vec(), records_of(format, vxid, &TRANSACTION)].concat()
}

fn reader(bytes: &[u8]) -> Option<RecordFile> {
    let (head, rest) = bytes.split_at_checked(FILE_HEAD_BYTES)?;
    Some(RecordFile::behind_head(Box::new(Cursor::new(rest.to_vec())), LogFormat::of_file(head)?))
}

fn shown(bytes: &[u8]) -> Vec<String> {
    let Some(mut file) = reader(bytes) else { return vec!["no log".to_owned()] };
    let line = |rec: &Rec<'_>| format!("{} {} {}", rec.vxid, rec.tag.name(), String::from_utf8_lossy(rec.text()));
    let mut out = Vec::new();
    let end = loop {
        match file.record() {
            Ok(Some(bytes)) => out.extend(record::records(bytes).map(|rec| line(&rec))),
            Ok(None) => break None,
            Err(error) => break Some(format!("{:?}", error.kind())),
        }
    };
    out.extend(file.notes().map(|note| format!("{note:?}")));
    out.extend(end);
    out
}

fn transaction(vxid: u64) -> Vec<String> {
    TRANSACTION.iter().map(|(tag, text)| format!("{vxid} {} {text}", tag.name())).collect()
}

#[test]
fn files_of_each_release_hold_the_same() {
    for format in ALL {
        assert_eq!(shown(&file_of(format, 3)), transaction(3), "{format:?}");
    }
    assert_eq!(shown(b"VSL3"), ["no log"]);
}

#[test]
fn interrupted_reads_are_repeated() {
    struct Interrupted(bool, Cursor<Vec<u8>>);
    impl Read for Interrupted {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 = !self.0;
            if self.0 { Err(io::ErrorKind::Interrupted.into()) } else { self.1.read(buffer) }
        }
    }
    let records = records_of(LogFormat::Seven, 3, &TRANSACTION);
    let mut file = RecordFile::behind_head(Box::new(Interrupted(false, Cursor::new(records))), LogFormat::Seven);
    let whole = (0..TRANSACTION.len()).filter(|_| matches!(file.record(), Ok(Some(_)))).count();
    assert!(whole == TRANSACTION.len() && matches!(file.record(), Ok(None)), "{whole}");
}

#[test]
fn ids_of_more_than_32_bits_are_whole() {
    assert_eq!(shown(&file_of(LogFormat::Nine, (1 << 50) + 7)), transaction((1 << 50) + 7));
}

#[test]
fn records_before_the_first_that_tells_are_read_by_the_same_numbers() {
    let health = (Tag::ExpKill, "LRU_Cand p=0x1 f=0x0 r=1");
    for format in [LogFormat::Eight, LogFormat::Nine] {
        let log = [format.file_head().to_vec(), records_of(format, 0, &[health]), records_of(format, 3, &TRANSACTION)];
        assert_eq!(shown(&log.concat())[0], "0 ExpKill LRU_Cand p=0x1 f=0x0 r=1", "{format:?}");
    }
}

#[test]
fn a_file_may_go_on_in_another_format() {
    for (first, second) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        let (before, after) = (file_of(ALL[first], 3), file_of(ALL[second], 5));
        // Heads in the middle, as cat leaves them; none there, as varnishlog -a does.
        for log in [[&before[..], &after].concat(), [&before[..], &after[FILE_HEAD_BYTES..]].concat()] {
            let got = shown(&log);
            let expected = [transaction(3), transaction(5), vec!["Mixed".to_owned()]].concat();
            assert_eq!(got, expected, "{:?} {:?}", ALL[first], ALL[second]);
        }
    }
}

#[test]
fn a_file_that_goes_back_has_the_numbers_that_it_had() {
    for format in [LogFormat::Eight, LogFormat::Nine] {
        let url = records_of(format, 3, &TRANSACTION[2..3]);
        let log = [file_of(format, 3), records_of(LogFormat::Seven, 5, &TRANSACTION), url].concat();
        assert_eq!(shown(&log)[2 * TRANSACTION.len()], "3 ReqURL /a", "{format:?}");
    }
}

#[test]
fn a_cut_file_gives_what_is_whole() {
    for format in ALL {
        let whole = file_of(format, 3);
        for cut in FILE_HEAD_BYTES..whole.len() {
            let got = shown(&whole[..cut]);
            let (records, end) =
                got.split_at(got.len() - usize::from(got.last().is_some_and(|l| l == "UnexpectedEof")));
            assert_eq!(records, &transaction(3)[..records.len()], "{format:?} {cut}");
            assert!(records.len() < TRANSACTION.len() && end.len() <= 1);
        }
    }
}

#[test]
fn records_are_written_as_another_release_has_them() {
    for (from, to) in [(0, 1), (0, 2), (1, 0), (2, 0)] {
        let stamped = make_as(ALL[from], Tag::BackendClose, 7, Marker::Backend, b"24 default recycle");
        let rec = record::records(&stamped).next().expect("a record");
        let mut out = ALL[to].file_head().to_vec();
        assert!(write_as(&rec, ALL[to], &mut out));
        out.extend(records_of(ALL[to], 7, &TRANSACTION[..1]));
        assert_eq!(shown(&out)[0], "7 BackendClose 24 default recycle", "{from} {to}");
    }
    let wide = make_as(LogFormat::Nine, Tag::End, 1 << 40, Marker::None, b"");
    let rec = record::records(&wide).next().expect("a record");
    assert!(!write_as(&rec, LogFormat::Seven, &mut Vec::new()));
}

proptest! {
    #[test]
    fn no_file_can_hurt(head in prop_oneof![Just(b"VSL\0"), Just(b"VSL2")],
        words in proptest::collection::vec(prop_oneof![
            any::<u32>(), Just(u32::from_ne_bytes(*b"VSL2")), Just(u32::from_ne_bytes(*b"VSL\0")),
            (1u32..100).prop_map(|tag| tag << 24 | 1 << 16 | 3), (1u32..100).prop_map(|tag| tag << 24 | 3)
        ], 0..60)) {
        let bytes: Vec<u8> = head.iter().copied().chain(words.iter().flat_map(|word| word.to_ne_bytes())).collect();
        prop_assert!(shown(&bytes).len() <= words.len() + 258);
    }
}
