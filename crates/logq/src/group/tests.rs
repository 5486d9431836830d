// SPDX-License-Identifier: BSD-2-Clause
//! Groups, and what becomes of records that don't fit.

use proptest::prelude::*;

use super::*;
use crate::record::{make, make_as, records};

fn wanted() -> TxnFilter {
    TxnFilter { backend: false, client: false, esi: false, limit: 1000, timeout: Duration::from_secs(120) }
}

/// `vxid:Tag text` per line; an empty line begins a new batch.
fn log(lines: &str) -> Vec<Vec<u8>> {
    log_as(LogFormat::Seven, lines)
}

fn log_as(format: LogFormat, lines: &str) -> Vec<Vec<u8>> {
    let mut batches = vec![Vec::new()];
    for line in lines.lines().map(str::trim) {
        let Some((vxid, rest)) = line.split_once(':') else {
            batches.push(Vec::new());
            continue;
        };
        let (tag, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let tag = Tag::from_name(tag).unwrap();
        if let Some(batch) = batches.last_mut() {
            batch.extend(make_as(format, tag, vxid.parse().unwrap(), Marker::Client, text.as_bytes()));
        }
    }
    batches
}

fn groups(grouper: &mut Grouper) -> Vec<String> {
    let mut out = Vec::new();
    while let Some(group) = grouper.take(|group| {
        let txn = |t: &Txn<'_>| {
            let records: Vec<_> = records(t.records)
                .filter(|r| matches!(r.tag, Tag::Vsl | Tag::ReqUrl | Tag::Begin))
                .map(|r| format!("{}={}", r.tag.name(), String::from_utf8_lossy(r.text())))
                .collect();
            format!("{}/{}:{}", t.level, t.vxid, records.join(","))
        };
        group.iter().map(txn).collect::<Vec<_>>().join(" ")
    }) {
        out.extend(group.shown());
    }
    out
}

fn check(grouping: Grouping, lines: &str, expected: &[&str]) {
    let mut grouper = Grouper::new(grouping, wanted());
    let now = Instant::now();
    let mut out = Vec::new();
    for batch in log(lines) {
        grouper.feed(&batch, now);
        out.extend(groups(&mut grouper));
    }
    grouper.flush(now);
    out.extend(groups(&mut grouper));
    assert_eq!(out, expected);
    assert!(grouper.all.is_empty() && grouper.incomplete.is_empty());
}

const ONE: &str = "1:Begin sess 0 HTTP/1
    1:Link req 2 rxreq

    3:Begin bereq 2 fetch
    3:End

    2:Begin req 1 rxreq
    2:ReqURL /a
    2:Link bereq 3 fetch
    2:End

    1:End";

#[test]
fn groupings() {
    check(
        Grouping::Vxid,
        ONE,
        &["1/3:Begin=bereq 2 fetch", "1/2:Begin=req 1 rxreq,ReqURL=/a", "1/1:Begin=sess 0 HTTP/1"],
    );
    check(Grouping::Request, ONE, &["1/2:Begin=req 1 rxreq,ReqURL=/a 2/3:Begin=bereq 2 fetch"]);
    check(Grouping::Session, ONE, &["1/1:Begin=sess 0 HTTP/1 2/2:Begin=req 1 rxreq,ReqURL=/a 3/3:Begin=bereq 2 fetch"]);
}

#[test]
fn restarts_stay_on_their_level() {
    let log = "1:Begin req 9 rxreq\n1:Link req 2 restart\n1:End\n\n2:Begin req 1 restart\n2:End";
    check(Grouping::Request, log, &["1/1:Begin=req 9 rxreq 1/2:Begin=req 1 restart"]);
}

#[test]
fn what_does_not_fit_is_said() {
    check(
        Grouping::Vxid,
        "1:Begin req 0 x\n1:Begin req 0 x\n1:End",
        &["1/1:Begin=req 0 x,Begin=req 0 x,VSL=duplicate begin (1:Begin \"req 0 x\")"],
    );
    check(
        Grouping::Vxid,
        "1:Begin req 0 x\n2:ReqURL /x\n1:End",
        &["1/1:Begin=req 0 x,ReqURL=/x,VSL=vxid mismatch (2:ReqURL \"/x\")"],
    );
    check(
        Grouping::Vxid,
        "1:Begin foo 0 x\n1:End",
        &["1/1:Begin=foo 0 x,VSL=unknown vxid type (1:Begin \"foo 0 x\"),VSL=vtx of unknown type marked complete"],
    );
    check(Grouping::Vxid, "1:Begin req 0 x\n1:ReqURL /a", &["1/1:Begin=req 0 x,ReqURL=/a,VSL=flush"]);
    check(
        Grouping::Request,
        "1:Begin req 0 x\n1:Link bereq 2 fetch\n1:End",
        &["1/1:Begin=req 0 x 2/2:Begin=bereq 0 synth,VSL=flush"],
    );
    check(Grouping::Session, "1:Begin req 1 x\n1:End", &[]);
}

#[test]
fn circles_are_refused() {
    let log = "1:Begin req 0 x\n1:Link req 2 esi\n\n2:Begin req 1 esi\n2:Link req 1 esi\n2:End\n\n1:End";
    check(Grouping::Request, log, &["1/1:Begin=req 0 x 2/2:Begin=req 1 esi,VSL=link to self (2:Link \"req 1 esi\")"]);
}

#[test]
fn the_oldest_goes_when_there_are_too_many() {
    let mut grouper = Grouper::new(Grouping::Vxid, TxnFilter { limit: 2, ..wanted() });
    for vxid in 1..=3 {
        for batch in log(&format!("{vxid}:Begin req 0 x")) {
            grouper.feed(&batch, Instant::now());
        }
    }
    assert_eq!(groups(&mut grouper), ["1/1:Begin=req 0 x,VSL=store overflow"]);
}

#[test]
fn a_transaction_that_never_ends_is_bounded() {
    let mut grouper = Grouper::new(Grouping::Vxid, wanted());
    let now = Instant::now();
    grouper.feed(&make(Tag::Begin, 1, Marker::Client, b"req 0 rxreq"), now);
    let long = make(Tag::ReqHeader, 1, Marker::Client, &vec![b'x'; 60_000]);
    let mut given = 0;
    for _ in 0..(HELD_BYTES / 60_000 + 10) {
        grouper.feed(&long, now);
        while grouper.take(|_| given += 1).is_some() {}
    }
    assert_eq!((given, grouper.all.len(), grouper.held_bytes), (1, 0, 0));
}

#[test]
fn what_stands_alone_is_chosen_as_the_release_does() {
    const LOG: &str = "2:Begin sess 0 HTTP/1\n2:End\n\n3:Begin req 2 rxreq\n3:End\n\n5:Begin req 3 esi 1\n5:End\n\n7:Begin req 5 restart 1\n7:End";
    let check = |format, filter, expected: &[u64]| {
        let mut grouper = Grouper::new(Grouping::Vxid, filter);
        let mut given = Vec::new();
        for batch in log_as(format, LOG) {
            grouper.feed(&batch, Instant::now());
            while grouper.take(|group| given.extend(group.iter().map(|txn| txn.vxid))).is_some() {}
        }
        assert_eq!(given, expected, "{format:?} {filter:?}");
    };
    let client = TxnFilter { client: true, ..wanted() };
    check(LogFormat::Seven, wanted(), &[2, 3, 5, 7]);
    check(LogFormat::Seven, client, &[3, 7]);
    check(LogFormat::Seven, TxnFilter { esi: true, ..client }, &[3, 5, 7]);
    for later in [LogFormat::Eight, LogFormat::Nine] {
        check(later, wanted(), &[2, 3]);
        check(later, client, &[2, 3]);
        check(later, TxnFilter { esi: true, ..client }, &[2, 3, 5, 7]);
        check(later, TxnFilter { backend: true, ..wanted() }, &[]);
    }
}

/// A transaction of which the log has only the ID ends, too, in the format of the record that names it.
#[test]
fn what_is_only_named_ends() {
    const WIDE: u64 = (1 << 51) - 1;
    for (format, most) in [(LogFormat::Seven, (1 << 30) - 1), (LogFormat::Eight, WIDE), (LogFormat::Nine, WIDE)] {
        for id in [9, most, most + 1, u64::from(u32::MAX), u64::MAX] {
            let log = format!("2:Begin req 1 rxreq\n2:Link bereq {id} fetch\n2:End\n\n3:Begin bereq {id} fetch\n3:End");
            let mut grouper = Grouper::new(Grouping::Request, wanted());
            log_as(format, &log).iter().for_each(|batch| grouper.feed(batch, Instant::now()));
            grouper.flush(Instant::now());
            let mut given = Vec::new();
            while grouper.take(|group| given.extend(group.iter().map(|txn| txn.vxid))).is_some() {}
            let expected = if id <= most { vec![2, id, 3] } else { vec![2] };
            assert_eq!((given, grouper.all.len()), (expected, 0), "{format:?} {id}");
        }
    }
}

proptest! {
    #[test]
    fn nothing_can_hurt(lines in proptest::collection::vec((1u64..6, 0usize..6, prop_oneof![8 => 0u64..7, 1 => any::<u64>()], 0usize..5, any::<bool>()), 0..60),
        noise in proptest::collection::vec(any::<u8>(), 0..60), which in 0usize..3) {
        let format = [LogFormat::Seven, LogFormat::Eight, LogFormat::Nine][which];
        for grouping in [Grouping::Vxid, Grouping::Request, Grouping::Session] {
            let mut grouper = Grouper::new(grouping, TxnFilter { limit: 4, ..wanted() });
            let now = Instant::now();
            for (vxid, what, other, reason, batch) in &lines {
                let kind = ["req", "bereq", "sess", "x", ""][*reason];
                let tag = [Tag::Begin, Tag::Link, Tag::End, Tag::ReqUrl, Tag::Begin, Tag::Link][*what];
                let text = format!("{kind} {other} {}", ["rxreq", "esi", "restart", "fetch", "x"][*reason]);
                let mut bytes = make_as(format, tag, *vxid, Marker::Client, text.as_bytes());
                if *batch {
                    bytes.extend(make_as(format, Tag::ReqUrl, *other, Marker::Backend, b"/"));
                }
                grouper.feed(&bytes, now);
                if *batch {
                    let _ = groups(&mut grouper);
                }
            }
            grouper.feed(&noise, now);
            grouper.flush(now);
            let _ = groups(&mut grouper);
            prop_assert!(grouper.all.is_empty());
        }
    }
}
