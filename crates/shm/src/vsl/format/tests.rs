// SPDX-License-Identifier: BSD-2-Clause
//! Heads of each format, whose numbers a log has, and bytes that no server writes.

use proptest::prelude::*;

use super::*;

const ALL: [LogFormat; 3] = [LogFormat::Seven, LogFormat::Eight, LogFormat::Nine];

fn written(format: LogFormat, tag: Tag, vxid: u64, text: &str) -> Vec<u8> {
    let (words, count) = format.head(tag, vxid, Marker::Client, text.len() + 1).expect("a record of that release");
    let mut bytes: Vec<u8> = [format.unstamped(words[0]), words[1], words[2]][..count]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .chain(text.bytes())
        .chain([0])
        .collect();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn shown(bytes: &[u8]) -> Vec<String> {
    let mut rest = bytes;
    let next = || {
        let (record, after) = RecordParts::split(rest)?;
        rest = after;
        let text = String::from_utf8_lossy(record.data).trim_end_matches('\0').to_owned();
        Some(format!("{} {} {text}", record.vxid, record.tag().map_or("?", Tag::name)))
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn heads_name_the_layout() {
    let of_file = |head: &[u8]| LogFormat::of_file(head);
    assert_eq!(of_file(b"VSL\0"), Some(LogFormat::Seven));
    assert_eq!(of_file(b"VSL2"), Some(LogFormat::Nine));
    assert_eq!((of_file(b"VSL3"), of_file(b"VSL"), of_file(b"")), (None, None, None));
    let of_ring = |head: &[u8; 8]| LogFormat::of_ring(u64::from_ne_bytes(*head));
    assert_eq!(of_ring(b"VSLHEAD1"), Some(LogFormat::Seven));
    assert_eq!(of_ring(b"VSLHEAD2"), Some(LogFormat::Nine));
    assert_eq!(of_ring(b"VSLHEAD3"), None);
    for format in ALL {
        assert_eq!(of_file(format.file_head()).map(LogFormat::is_wide), Some(format.is_wide()));
    }
}

#[test]
fn a_record_is_as_varnish_9_lays_it_out() {
    // vapi/vsl_int.h of 9.0.2: tag, version, length; the id's lower 32 bits; sides and its upper bits.
    let expected: Vec<u8> = [16 << 24 | 1 << 16 | 3, 0x2345_6789, 1 << 30 | 1]
        .iter()
        .flat_map(|word: &u32| word.to_ne_bytes())
        .chain(*b"/a\0\0")
        .collect();
    assert_eq!(written(LogFormat::Nine, Tag::ReqUrl, 0x1_2345_6789, "/a"), expected);
}

#[test]
fn ids_have_the_room_that_the_format_gives() {
    let fits = |format: LogFormat, vxid| format.head(Tag::End, vxid, Marker::None, 1).is_some();
    assert!(fits(LogFormat::Seven, (1 << 30) - 1) && !fits(LogFormat::Seven, 1 << 30));
    assert!(fits(LogFormat::Nine, (1 << 51) - 1) && !fits(LogFormat::Nine, 1 << 51));
    assert!(LogFormat::Nine.head(Tag::BackendReuse, 1, Marker::None, 1).is_none(), "9 has no such tag");
}

#[test]
fn records_tell_whose_numbers_they_have() {
    for format in [LogFormat::Eight, LogFormat::Nine] {
        for (tag, vxid, text) in [
            (Tag::Begin, 3, "req 2 rxreq"),
            (Tag::Begin, 3, "bereq 2 fetch 1"),
            (Tag::Timestamp, 3, "Start: 1700000000.250000 0.000000 0.000000"),
            (Tag::BackendHealth, 0, "boot.default Still sick ---- 0 3 8 0.000000 0.000000 \"\""),
        ] {
            let mut log = [written(format, Tag::ReqUrl, 9, "/a"), written(format, tag, vxid, text)].concat();
            let mut stamp = FormatStamp::new(LogFormat::Nine);
            stamp.stamp(&mut log);
            assert_eq!((stamp.format(), stamp.notes().count()), (format, 0), "{text}");
            assert_eq!(shown(&log), ["9 ReqURL /a".to_owned(), format!("{vxid} {} {text}", tag.name())]);
        }
    }
}

#[test]
fn what_a_client_can_write_tells_nothing() {
    // The numbers of `Begin` and `Timestamp` in one release belong to records in the other that hold no client's words.
    for format in [LogFormat::Eight, LogFormat::Nine] {
        for tag in [Tag::ReqUrl, Tag::ReqHeader, Tag::VclLog, Tag::HttpGarbage, Tag::Hash, Tag::BogoHeader] {
            for text in ["req 1 rxreq", "Start: 1.0 0.0 0.0", "boot.a Went sick"] {
                let mut log = written(format, tag, 5, text);
                let mut stamp = FormatStamp::new(format);
                stamp.stamp(&mut log);
                assert!(stamp.told.is_none(), "{} {text}", tag.name());
            }
        }
    }
}

#[test]
fn unknown_numbers_are_noted_once() {
    let mut record = written(LogFormat::Nine, Tag::ReqUrl, 5, "/a");
    record[3] = 200;
    let mut log = [record.clone(), record.clone(), written(LogFormat::Nine, Tag::ReqUrl, 5, "/b")].concat();
    let mut stamp = FormatStamp::new(LogFormat::Nine);
    stamp.stamp(&mut log);
    assert_eq!(stamp.notes().collect::<Vec<_>>(), [LogNote::UnknownTag(200)]);
    stamp.stamp(&mut record);
    assert_eq!(stamp.notes().count(), 0);
    assert_eq!(shown(&log), ["5 ? /a", "5 ? /a", "5 ReqURL /b"]);
}

#[test]
fn stamps_are_taken_off_again() {
    for format in ALL {
        let as_written = written(format, Tag::ReqUrl, 5, "/a");
        let mut log = as_written.clone();
        FormatStamp::new(format).stamp(&mut log);
        let first = word_at(&log, 0).expect("a head");
        assert_eq!(LogFormat::stamped(first), format);
        log[..4].copy_from_slice(&format.unstamped(first).to_ne_bytes());
        assert_eq!(log, as_written);
    }
}

proptest! {
    #[test]
    fn no_bytes_can_hurt(bytes in proptest::collection::vec(any::<u8>(), 0..200), which in 0usize..3) {
        let mut log = bytes.clone();
        let mut stamp = FormatStamp::new(ALL[which]);
        stamp.look_ahead(&log);
        stamp.heed(word_at(&log, 0).unwrap_or(0));
        stamp.stamp(&mut log);
        prop_assert_eq!(log.len(), bytes.len());
        let mut rest = &log[..];
        let mut total = 0;
        while let Some((record, after)) = RecordParts::split(rest) {
            prop_assert!(record.data.len() < record.bytes.len());
            total += record.bytes.len();
            rest = after;
        }
        prop_assert!(total <= log.len());
        prop_assert!(stamp.notes().count() <= 257);
    }

    #[test]
    fn what_is_written_is_read(vxid in 0u64..1 << 30, number in 1u8..94, which in 0usize..3, text in "[ -~]{0,40}") {
        let format = ALL[which];
        let tag = format.numbers().tag(number).expect("all have that many");
        let mut log = written(format, tag, vxid, &text);
        let stamped = word_at(&log, 0).expect("a head") & !SPARE | format.stamp();
        log[..4].copy_from_slice(&stamped.to_ne_bytes());
        prop_assert_eq!(shown(&log), vec![format!("{vxid} {} {text}", tag.name())]);
    }
}
