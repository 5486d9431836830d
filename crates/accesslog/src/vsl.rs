// SPDX-License-Identifier: BSD-2-Clause
//! Requests of a varnishlog: as the client sent them, before VCL touched them.

use std::borrow::Cow;
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use logq::group::{Grouper, TxnFilter};
use logq::{BeginReason, Grouping, Handling, Txn, TxnType, record};
use shm::reader::log::{LogCursor, RingStep, StartAt};
use shm::reader::{CounterReader, find};
use tables::Tag;

use crate::entry::{AccessEntry, ClassUse, EntryStamp, Skip};

/// The word of ReqAcct that counts the answer's body.
const BODY_SENT: usize = 4;

/// Time that a follower sleeps when the log has nothing new.
const IDLE: Duration = Duration::from_millis(5);
/// Time between two looks for a log that is gone.
const RETRY: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogExtent {
    /// The client's alone, as soon as it has ended.
    #[default]
    Client,
    /// Those of its fetches, restarts and ESI fragments, too, once all have ended.
    Caused,
}

pub fn grouper(extent: LogExtent) -> Grouper {
    let (timeout, limit) = (Duration::from_secs(120), 1000);
    match extent {
        LogExtent::Client => {
            Grouper::new(Grouping::Vxid, TxnFilter { backend: false, client: true, esi: false, limit, timeout })
        }
        // A request takes three of them where it took one.
        LogExtent::Caused => {
            let wanted = TxnFilter { backend: true, client: true, esi: true, limit: 4 * limit, timeout };
            Grouper::new(Grouping::Request, wanted)
        }
    }
}

/// Takes what came out of a grouper as far as it is requests of clients; false when `take` has had enough.
pub fn requests(grouper: &mut Grouper, take: &mut dyn FnMut(Result<AccessEntry<'_>, Skip>) -> bool) -> bool {
    while let Some(shown) = grouper.take(|group| of_group(group).is_none_or(&mut *take)) {
        if shown == Some(false) {
            return false;
        }
    }
    true
}

/// The entry for a client's request, by its transactions: what it asked by its first one, how it was answered by the last that it was
/// restarted as, what backends did by those that are there. None: no client asked for this (ESI, fetches alone).
///
/// # Errors
/// Why the request is none.
pub fn of_group<'a>(group: &[Txn<'a>]) -> Option<Result<AccessEntry<'a>, Skip>> {
    let first = group.iter().find(|txn| txn.kind == TxnType::Req && txn.reason == BeginReason::Rxreq)?;
    let mut entry = match request(first) {
        Ok(entry) => entry,
        Err(skip) => return Some(Err(skip)),
    };
    let mut last = first;
    while let Some(next) = group.iter().find(|txn| txn.reason == BeginReason::Restart && txn.parent == last.vxid) {
        last = next;
    }
    answer(&mut entry, last);
    entry.duration = seconds_between(first, last);
    let fetches = group.iter().filter(|txn| txn.kind == TxnType::Bereq);
    let mut times = fetches.map(|txn| seconds_between(txn, txn).unwrap_or_default()).peekable();
    if times.peek().is_some() {
        entry.backend_time = Some(times.fold(Duration::ZERO, Duration::saturating_add));
    }
    for txn in group {
        let told = record::records(txn.records).filter(|rec| matches!(rec.tag, Tag::Notice | Tag::Error));
        entry.classes.extend(told.filter_map(|rec| ClassUse::read(rec.text())));
    }
    Some(Ok(entry))
}

/// The entry for one transaction of a request, whoever asked for it and whether it was restarted; None: it is no request's.
///
/// # Errors
/// Why it is none.
pub fn of_transaction<'a>(txn: &Txn<'a>) -> Option<Result<AccessEntry<'a>, Skip>> {
    (txn.kind == TxnType::Req).then(|| {
        let mut entry = request(txn)?;
        answer(&mut entry, txn);
        entry.duration = seconds_between(txn, txn);
        Ok(entry)
    })
}

fn answer(entry: &mut AccessEntry<'_>, txn: &Txn<'_>) {
    for rec in record::records(txn.records) {
        let text = rec.text();
        match rec.tag {
            Tag::RespStatus => entry.status = number(text),
            Tag::ReqAcct => entry.bytes = text.split(|b| *b == b' ').nth(BODY_SENT).and_then(number),
            Tag::Hit => entry.handling = Some(Handling::Hit),
            Tag::VclCall => {
                entry.handling = Handling::of_vcl_call(text).or(entry.handling);
            }
            // What the client waited for a backend: where its own transaction isn't there, nothing else tells.
            Tag::Timestamp if text.starts_with(b"Fetch:") => {
                let waited = text.split(|b| *b == b' ').nth(3).and_then(number::<f64>);
                entry.backend_time = waited.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            }
            _ => {}
        }
    }
    if entry.backend_time.is_none() && entry.handling.is_some_and(|handling| !handling.is_fetched()) {
        entry.backend_time = Some(Duration::ZERO);
    }
}

fn seconds_between(first: &Txn<'_>, last: &Txn<'_>) -> Option<Duration> {
    let stamps = |txn: &Txn<'_>| {
        let stamps = record::records(txn.records).filter(|rec| rec.tag == Tag::Timestamp);
        let mut times = stamps.filter_map(|rec| time(rec.text()).map(|stamp| stamp.ns));
        let first = times.next()?;
        Some((first, times.last().unwrap_or(first)))
    };
    let ns = stamps(last)?.1.checked_sub(stamps(first)?.0)?;
    u64::try_from(ns).ok().map(Duration::from_nanos)
}

fn request<'a>(txn: &Txn<'a>) -> Result<AccessEntry<'a>, Skip> {
    let mut entry = AccessEntry::default();
    let (mut url, mut is_clients) = (None, true);
    for rec in record::records(txn.records) {
        let text = rec.text();
        match rec.tag {
            Tag::ReqStart => {
                let mut words = text.split(|b| *b == b' ');
                entry.client = words.next().map(Cow::Borrowed);
                // Behind port and listener; a connection without TLS has none.
                entry.is_tls = words.nth(2) == Some(b"https");
            }
            Tag::Timestamp if entry.time.is_none() => entry.time = time(text),
            Tag::ReqMethod if entry.method.is_empty() => entry.method = Cow::Borrowed(text),
            Tag::ReqUrl if url.is_none() => url = Some(text),
            Tag::ReqHeader if is_clients => add(&mut entry, text),
            Tag::ReqUnset if is_clients => remove(&mut entry, text),
            // From here on VCL has its say.
            Tag::VclCall => is_clients = false,
            _ => {}
        }
    }
    let host = entry.host.take();
    let set = url.ok_or(Skip::NoRequest).and_then(|url| entry.set_url(Cow::Borrowed(url)));
    entry.host = entry.host.take().or(host);
    let is_method = !entry.method.is_empty() && entry.method.iter().all(|&b| message::chars::is_tchar(b));
    set.and(if is_method { Ok(entry) } else { Err(Skip::NoRequest) })
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = text.iter().position(|b| *b == b':')?;
    let name = &text[..colon];
    let is_name = !name.is_empty() && name.iter().all(|&b| message::chars::is_tchar(b));
    is_name.then(|| (name, text[colon + 1..].trim_ascii()))
}

fn add<'a>(entry: &mut AccessEntry<'a>, text: &'a [u8]) {
    match split(text) {
        Some((name, value)) if name.eq_ignore_ascii_case(b"host") => entry.host = Some(Cow::Borrowed(value)),
        Some((name, value)) => entry.fields.push((Cow::Borrowed(name), Cow::Borrowed(value))),
        None => {}
    }
}

fn remove(entry: &mut AccessEntry<'_>, text: &[u8]) {
    if let Some((name, value)) = split(text) {
        entry.fields.retain(|(n, v)| !(n.eq_ignore_ascii_case(name) && **v == *value));
    }
}

/// `Start: 1700000000.123456 0.000000 0.000000`
fn time(text: &[u8]) -> Option<EntryStamp> {
    let seconds = std::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(1)?;
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let ns = whole.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(digits.parse().ok()?)?;
    Some(EntryStamp { ns, is_whole_second: false, zone: None })
}

/// Reads the records of a file; an error at its end means that it was cut.
///
/// # Errors
/// It can't be read, or ends within a record.
pub fn read(
    from: &mut dyn Read,
    extent: LogExtent,
    take: &mut dyn FnMut(Result<AccessEntry<'_>, Skip>) -> bool,
) -> io::Result<()> {
    let mut grouper = grouper(extent);
    let mut buffer = Vec::new();
    let ended = loop {
        match next_record(from, &mut buffer) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
        grouper.feed(&buffer, Instant::now());
        if !requests(&mut grouper, take) {
            return Ok(());
        }
    };
    grouper.flush(Instant::now());
    requests(&mut grouper, take);
    ended
}

fn next_record(from: &mut dyn Read, buffer: &mut Vec<u8>) -> io::Result<bool> {
    buffer.clear();
    (&mut *from).take(record::HEAD as u64).read_to_end(buffer)?;
    if buffer.is_empty() {
        return Ok(false);
    }
    let first = buffer.get(..4).and_then(|word| word.try_into().ok()).map(u32::from_ne_bytes);
    let whole =
        first.filter(|_| buffer.len() == record::HEAD).map(record::length).ok_or(io::ErrorKind::UnexpectedEof)?;
    from.take((whole - record::HEAD) as u64).read_to_end(buffer)?;
    if buffer.len() < whole { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(true) }
}

/// Result of following a log: an entry, nothing new, or that the log was lost.
pub enum FoundEntry<'a> {
    Entry(Result<AccessEntry<'a>, Skip>),
    Nothing,
    Lost(String),
}

/// Takes what a follower found; false when it has had enough.
pub type TakeFound<'a> = dyn FnMut(FoundEntry<'_>) -> bool + 'a;

/// Follows the log of a workdir until `take` has had enough.
///
/// # Errors
/// There is no log to begin with.
pub fn follow(workdir: &Path, extent: LogExtent, take: &mut TakeFound<'_>) -> Result<(), String> {
    // The usual one is where `--live` begins to look.
    let name = Some(workdir).filter(|workdir| *workdir != CounterReader::workdir_of(None)).and_then(Path::to_str);
    let server = find(name).map_err(|unfound| unfound.to_string())?;
    let workdir = &server.workdir;
    if server.remark.is_some_and(|remark| !take(FoundEntry::Lost(remark))) {
        return Ok(());
    }
    let open = || LogCursor::open(workdir, StartAt::Now).map_err(|e| format!("{}: {e}", workdir.display()));
    let mut ring = open()?;
    while let Some(lost) = follow_ring(&mut ring, extent, take) {
        let mut is_on =
            take(FoundEntry::Lost(format!("{}: the log was {lost}; some requests are missing", workdir.display())));
        ring = loop {
            is_on = is_on && take(FoundEntry::Nothing);
            if !is_on {
                return Ok(());
            }
            match open() {
                Ok(ring) => break ring,
                Err(_) => std::thread::sleep(RETRY),
            }
        };
    }
    Ok(())
}

/// Follows a ring until it is lost (how), or `take` has had enough (None).
fn follow_ring(ring: &mut LogCursor, extent: LogExtent, take: &mut TakeFound<'_>) -> Option<&'static str> {
    let mut grouper = grouper(extent);
    loop {
        match ring.step() {
            RingStep::Records(bytes) => grouper.feed(bytes, Instant::now()),
            RingStep::Overrun => return Some("overrun"),
            RingStep::Abandoned => return Some("abandoned"),
            RingStep::End | RingStep::Eof => {
                if !take(FoundEntry::Nothing) {
                    return None;
                }
                std::thread::sleep(IDLE);
                continue;
            }
        }
        if !requests(&mut grouper, &mut |entry| take(FoundEntry::Entry(entry))) {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shm::vsl::Marker;

    type Records = &'static [(Tag, &'static str)];

    fn file(transactions: &[(u32, &str, Records)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (vxid, begin, records) in transactions {
            let mut put = |tag, text: &str| bytes.extend(record::make(tag, *vxid, Marker::Client, text.as_bytes()));
            put(Tag::Begin, begin);
            records.iter().for_each(|(tag, text)| put(*tag, text));
            put(Tag::End, "");
        }
        bytes
    }

    fn shown(bytes: &[u8]) -> (Vec<String>, bool) {
        let mut all = Vec::new();
        let s = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let ended = read(&mut &bytes[..], LogExtent::Client, &mut |entry| {
            all.push(match entry {
                Err(skip) => format!("{skip:?}"),
                Ok(d) => {
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
    fn which_of_several_records_counts() {
        let log = testkit::recorded::log(&testkit::recorded::repeated(), |name| {
            Tag::from_name(name).expect("a tag").number()
        });
        let request = "GET asked.test /asked?q=1 Cookie=_ga=1 Cookie=b=2 User-Agent=kept @1700000000100000000";
        assert_eq!(shown(&log), (vec![request.to_owned()], true));
        for (extent, backend_ms) in [(LogExtent::Client, 100), (LogExtent::Caused, 300)] {
            let mut times = Vec::new();
            read(&mut &log[..], extent, &mut |entry| {
                let e = entry.expect("a request");
                assert_eq!(
                    (e.status, e.bytes, e.handling, e.is_tls),
                    (Some(200), Some(1000), Some(Handling::Pass), true)
                );
                assert_eq!(e.client.as_deref(), Some(&b"192.0.2.1"[..]));
                times.push((e.duration.map(|d| d.as_millis()), e.backend_time.map(|d| d.as_millis())));
                true
            })
            .expect("whole");
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
        read(&mut &bytes[..], LogExtent::Client, &mut |entry| {
            let entry = entry.expect("a request");
            told.push((entry.client.map(|client| client.to_vec()), entry.status, entry.bytes));
            true
        })
        .expect("whole");
        assert_eq!(told, [(Some(b"192.0.2.1".to_vec()), Some(200), Some(2000))]);
    }

    #[test]
    fn what_came_by_tls() {
        let is_tls = |start: &'static str| {
            let records: Vec<_> =
                TYPICAL.iter().map(|&(tag, text)| (tag, if tag == Tag::ReqStart { start } else { text })).collect();
            let bytes = file(&[(3, "req 2 rxreq", Vec::leak(records))]);
            let mut found = Vec::new();
            read(&mut &bytes[..], LogExtent::Client, &mut |entry| {
                found.push(entry.expect("a request").is_tls);
                true
            })
            .expect("whole");
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
            read(&mut &bytes[..], extent, &mut |entry| {
                let e = entry.expect("a request");
                told.push((
                    e.status,
                    e.bytes,
                    e.handling,
                    e.duration.map(|d| d.as_millis()),
                    e.backend_time.map(|d| d.as_millis()),
                ));
                true
            })
            .expect("whole");
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
}
