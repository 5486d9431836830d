// SPDX-License-Identifier: BSD-2-Clause
//! Logs that servers recorded, what a request caused, and damaged files.

use super::*;
use crate::Handling;
use proptest::prelude::*;
use shm::vsl::{LogFormat, Marker};

type Records = &'static [(Tag, &'static str)];

fn file(transactions: &[(u64, &str, Records)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (vxid, begin, records) in transactions {
        let mut put = |tag, text: &str| bytes.extend(record::make(tag, *vxid, Marker::Client, text.as_bytes()));
        put(Tag::Begin, begin);
        records.iter().for_each(|(tag, text)| put(*tag, text));
        put(Tag::End, "");
    }
    bytes
}

fn reader(format: LogFormat, bytes: &[u8]) -> RecordFile {
    RecordFile::behind_head(Box::new(std::io::Cursor::new(bytes.to_vec())), format)
}

fn entries(bytes: &[u8], extent: LogExtent, take: &mut dyn FnMut(Result<AccessEntry<'_>, Skip>)) {
    read(&mut reader(LogFormat::Seven, bytes), extent, &mut |found| {
        if let FoundEntry::Entry(entry) = found {
            take(entry);
        }
        true
    })
    .expect("whole");
}

fn shown(bytes: &[u8]) -> (Vec<String>, bool) {
    shown_as(LogFormat::Seven, bytes)
}

fn shown_as(format: LogFormat, bytes: &[u8]) -> (Vec<String>, bool) {
    let mut all = Vec::new();
    let s = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    let ended = read(&mut reader(format, bytes), LogExtent::Client, &mut |found| {
        all.push(match found {
            FoundEntry::Nothing => return true,
            FoundEntry::Note(note) => note,
            FoundEntry::Entry(Err(skip)) => format!("{skip:?}"),
            FoundEntry::Entry(Ok(d)) => {
                let fields: String = d.fields.iter().map(|(n, v)| format!(" {}={}", s(n), s(v))).collect();
                let host = d.host.as_deref().map_or_else(|| "-".into(), s);
                format!("{} {host} {}{fields} @{}", s(&d.method), s(&d.target), d.time.map_or(0, |t| t.ns))
            }
        });
        true
    });
    (all, ended.is_ok())
}

const TYPICAL: Records = &[
    (Tag::ReqStart, "192.0.2.1 4711 a0"),
    (Tag::Timestamp, "Start: 1700000000.25 0.000000 0.000000"),
    (Tag::ReqMethod, "GET"),
    (Tag::ReqUrl, "/a?b"),
    (Tag::ReqHeader, "Host: a.nz"),
    (Tag::ReqHeader, "Cookie: x=1"),
    (Tag::ReqHeader, "Cookie: y=2"),
    (Tag::ReqUnset, "Cookie: y=2"),
    (Tag::VclCall, "RECV"),
    (Tag::ReqUrl, "/rewritten"),
    (Tag::ReqUnset, "Cookie: x=1"),
    (Tag::RespStatus, "503"),
    (Tag::RespStatus, "200"),
    (Tag::ReqAcct, "30 0 30 100 2000 2100"),
];

#[test]
fn records_of_both_servers_are_the_requests_that_were_sent() {
    for records in [testkit::recorded::lacquer(), testkit::recorded::varnish()] {
        let log = testkit::recorded::log(&records, |name| Tag::from_name(name).expect("a tag").number());
        let (got, is_whole) = shown(&log);
        let targets: Vec<&str> = got.iter().filter_map(|line| line.split(' ').nth(2)).collect();
        let want = "/a /a /pass /synth /old /page /dead /error /private /private /cookie /pipe /vary /vary /short /short \
                    /graced /graced /post /a /withcookie /counted /two /forgotten /photo.jpg /member /hfp /hfp /fail /broken /logo.png \
                    /taken.css /again.png /twice.png /news /old-date /cached /late /landing?utm_source=x /body /slow /slow \
                    /probed";
        assert_eq!((targets.join(" ").as_str(), got.last().map(String::as_str)), (want, Some("NoRequest")));
        assert!(is_whole && got[0].starts_with("GET site.test /a User-Agent=recorder/1"), "{got:?}");
        assert!(
            got.iter().any(|line| line.contains("/withcookie") && line.contains("Cookie=sid=0123456789")),
            "{got:?}"
        );
    }
}

#[test]
fn logs_of_later_releases_hold_the_same_requests() {
    let records = testkit::recorded::varnish();
    // Later releases no longer have this tag.
    let records: Vec<_> = records.into_iter().filter(|record| record.tag != "Backend").collect();
    let expected = shown(&testkit::recorded::log(&records, |name| Tag::from_name(name).expect("a tag").number()));
    assert!(expected.0.len() > 40);
    for format in [LogFormat::Eight, LogFormat::Nine] {
        let number = |name: &str| format.numbers().number(Tag::from_name(name).expect("a tag")).expect("a number");
        let log = testkit::recorded::wide_log(&records, number);
        assert_eq!(shown_as(LogFormat::Nine, &log), expected, "{format:?}");
    }
}

#[test]
fn which_of_several_records_counts() {
    let log =
        testkit::recorded::log(&testkit::recorded::repeated(), |name| Tag::from_name(name).expect("a tag").number());
    let request = "GET asked.test /asked?q=1 Cookie=_ga=1 Cookie=b=2 User-Agent=kept @1700000000100000000";
    assert_eq!(shown(&log), (vec![request.to_owned()], true));
    for (extent, backend_ms) in [(LogExtent::Client, 300), (LogExtent::Caused, 300)] {
        let mut times = Vec::new();
        entries(&log, extent, &mut |entry| {
            let e = entry.expect("a request");
            assert_eq!((e.status, e.bytes, e.handling, e.is_tls), (Some(200), Some(1000), Some(Handling::Pass), true));
            assert_eq!(e.client.as_deref(), Some(&b"192.0.2.1"[..]));
            times.push((e.duration.map(|d| d.as_millis()), e.backend_time.map(|d| d.as_millis())));
        });
        assert_eq!(times, [(Some(800), Some(backend_ms))]);
    }
}

#[test]
fn what_clients_sent() {
    let bytes = file(&[
        (3, "req 2 rxreq", TYPICAL),
        (5, "req 3 esi 1", TYPICAL),
        (7, "req 2 rxreq", &[(Tag::ReqMethod, "GET")]),
    ]);
    let want = vec!["GET a.nz /a?b Cookie=x=1 @1700000000250000000".to_owned(), "NoRequest".to_owned()];
    assert_eq!(shown(&bytes), (want.clone(), true));
    assert_eq!(shown(&bytes[..bytes.len() - 3]), (want, false));
}

#[test]
fn who_asked_and_what_was_sent() {
    let mut told = Vec::new();
    let bytes = file(&[(3, "req 2 rxreq", TYPICAL)]);
    entries(&bytes, LogExtent::Client, &mut |entry| {
        let entry = entry.expect("a request");
        told.push((entry.client.map(|client| client.to_vec()), entry.status, entry.bytes));
    });
    assert_eq!(told, [(Some(b"192.0.2.1".to_vec()), Some(200), Some(2000))]);
}

#[test]
fn what_came_by_tls() {
    let is_tls = |start: &'static str| {
        let records: Vec<_> =
            TYPICAL.iter().map(|&(tag, text)| (tag, if tag == Tag::ReqStart { start } else { text })).collect();
        let bytes = file(&[(3, "req 2 rxreq", Vec::leak(records))]);
        let mut found = Vec::new();
        entries(&bytes, LogExtent::Client, &mut |entry| {
            found.push(entry.expect("a request").is_tls);
        });
        found
    };
    assert_eq!(is_tls("192.0.2.1 4711 a0 https"), [true]);
    assert_eq!(is_tls("192.0.2.1 4711 a0 http"), [false]);
    assert_eq!(is_tls("192.0.2.1 4711 https"), [false], "a listener's name");
}

#[test]
fn what_a_request_caused() {
    const FIRST: Records = &[
        (Tag::ReqStart, "192.0.2.1 4711 a0"),
        (Tag::Timestamp, "Start: 100.000000 0.000000 0.000000"),
        (Tag::ReqMethod, "GET"),
        (Tag::ReqUrl, "/a"),
        (Tag::VclCall, "RECV"),
        (Tag::VclReturn, "restart"),
        (Tag::Timestamp, "Restart: 100.100000 0.100000 0.100000"),
        (Tag::Link, "req 5 restart"),
    ];
    const AGAIN: Records = &[
        (Tag::Timestamp, "Start: 100.100000 0.100000 0.000000"),
        (Tag::VclCall, "MISS"),
        (Tag::Link, "bereq 7 fetch"),
        (Tag::Timestamp, "Fetch: 100.400000 0.400000 0.300000"),
        (Tag::RespStatus, "404"),
        (Tag::Timestamp, "Resp: 100.500000 0.500000 0.100000"),
        (Tag::ReqAcct, "30 0 30 100 2000 2100"),
    ];
    const FETCH: Records = &[
        (Tag::Timestamp, "Start: 100.110000 0.000000 0.000000"),
        (Tag::Timestamp, "BerespBody: 100.610000 0.500000 0.100000"),
    ];
    let transactions = [(3, "req 2 rxreq", FIRST), (5, "req 3 restart", AGAIN), (7, "bereq 5 fetch", FETCH)];
    let bytes = file(&transactions);
    let told = |extent| {
        let mut told = Vec::new();
        entries(&bytes, extent, &mut |entry| {
            let e = entry.expect("a request");
            told.push((
                e.status,
                e.bytes,
                e.handling,
                e.duration.map(|d| d.as_millis()),
                e.backend_time.map(|d| d.as_millis()),
            ));
        });
        told
    };
    assert_eq!(told(LogExtent::Caused), [(Some(404), Some(2000), Some(Handling::Miss), Some(500), Some(500))]);
    assert_eq!(told(LogExtent::Client), [(None, None, None, Some(100), None)]);
}

proptest! {
    #[test]
    fn no_file_can_hurt(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0usize..300, byte: u8) {
        shown(&bytes);
        let mut good = file(&[(3, "req 2 rxreq", TYPICAL)]);
        let at = at % good.len();
        good[at] = byte;
        shown(&good);
    }
}
