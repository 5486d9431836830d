// SPDX-License-Identifier: BSD-2-Clause
//! Requests of a varnishlog: as the client sent them, before VCL touched them.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use logq::group::{Grouper, Taken, TxnFilter};
use logq::source::RecordFile;
use logq::{BeginReason, Grouping, Txn, TxnType, record};
use shm::reader::log::{LogCursor, RingStep, StartAt};
use shm::reader::{CounterReader, find};
use tables::Tag;
use transactions::{UnixNs, View};

use crate::entry::{AccessEntry, ClassUse, EntryStamp, Skip};

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
        if shown == Taken::Shown(false) {
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
    let view = View::with_headers(first).read();
    let mut entry = match request(&view) {
        Ok(entry) => entry,
        Err(skip) => return Some(Err(skip)),
    };
    let mut last = first;
    while let Some(next) = group.iter().find(|txn| txn.reason == BeginReason::Restart && txn.parent == last.vxid) {
        last = next;
    }
    if last.vxid == first.vxid {
        answer(&mut entry, &view, &view)
    } else {
        answer(&mut entry, &view, &View::of(last))
    }
    let fetches = group.iter().filter(|txn| txn.kind == TxnType::Bereq).map(View::of);
    let mut times = fetches.map(|fetch| seconds_between(&fetch, &fetch).unwrap_or_default()).peekable();
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
        let view = View::with_headers(txn).read();
        let mut entry = request(&view)?;
        answer(&mut entry, &view, &view);
        Ok(entry)
    })
}

fn answer(entry: &mut AccessEntry<'_>, first: &View<'_>, last: &View<'_>) {
    entry.status = Some(last.response.status()).filter(|status| *status > 0);
    // A pipe has no body, as in varnishncsa.
    entry.bytes = last.account.and_then(|_| last.bytes()).map(|bytes| bytes.resp_body);
    entry.handling = last.handling;
    entry.duration = seconds_between(first, last);
    // The client's wait for a backend. Without the fetch's own transaction nothing else has it.
    let waited = last.seconds_until("Fetch").and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let is_local = last.handling.is_some_and(|handling| !handling.is_fetched());
    entry.backend_time = waited.or_else(|| is_local.then_some(Duration::ZERO));
}

fn seconds_between(first: &View<'_>, last: &View<'_>) -> Option<Duration> {
    let ns = last.end()?.0.checked_sub(first.begin()?.at()?.0)?;
    Some(Duration::from_nanos(ns))
}

fn request<'a>(view: &View<'a>) -> Result<AccessEntry<'a>, Skip> {
    let is_token = |text: &[u8]| !text.is_empty() && text.iter().all(|&b| message::chars::is_tchar(b));
    let method = view.came.method.unwrap_or_default();
    let mut entry = AccessEntry {
        client: view.peer().map(|peer| Cow::Borrowed(peer.address)),
        is_tls: view.scheme() == b"https",
        time: view.begin().and_then(|stamp| stamp.at()).and_then(time),
        method: Cow::Borrowed(method),
        ..AccessEntry::default()
    };
    let others = view.request_headers.iter().filter(|(name, _)| is_token(name) && !name.eq_ignore_ascii_case(b"host"));
    entry.fields.extend(others.map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value))));
    let url = view.came.url.ok_or(Skip::NoRequest)?;
    entry.set_url(Cow::Borrowed(url))?;
    // The host of an absolute URL counts, if there is one.
    entry.host = entry.host.or(view.came.host.map(Cow::Borrowed));
    if is_token(method) { Ok(entry) } else { Err(Skip::NoRequest) }
}

fn time(at: UnixNs) -> Option<EntryStamp> {
    Some(EntryStamp { ns: i64::try_from(at.0).ok()?, is_whole_second: false, zone: None })
}

/// Reads the records of a file; an error at its end means that it was cut.
///
/// # Errors
/// It can't be read, or ends within a record.
pub fn read(from: &mut RecordFile, extent: LogExtent, take: &mut TakeFound<'_>) -> io::Result<()> {
    let mut grouper = grouper(extent);
    let ended = loop {
        match from.record() {
            Ok(Some(record)) => grouper.feed(record, Instant::now()),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
        let mut notes = from.notes();
        if !notes.all(|note| take(FoundEntry::Note(note.to_string()))) {
            return Ok(());
        }
        drop(notes);
        if !requests(&mut grouper, &mut |entry| take(FoundEntry::Entry(entry))) {
            return Ok(());
        }
    };
    grouper.flush(Instant::now());
    requests(&mut grouper, &mut |entry| take(FoundEntry::Entry(entry)));
    ended
}

/// Result of reading a log: an entry, nothing new, or something about the log.
pub enum FoundEntry<'a> {
    Entry(Result<AccessEntry<'a>, Skip>),
    Nothing,
    Note(String),
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
    if server.remark.is_some_and(|remark| !take(FoundEntry::Note(remark))) {
        return Ok(());
    }
    let open = || LogCursor::open(workdir, StartAt::Now).map_err(|e| format!("{}: {e}", workdir.display()));
    let mut ring = open()?;
    while let Some(lost) = follow_ring(&mut ring, extent, take) {
        let mut is_on =
            take(FoundEntry::Note(format!("{}: the log was {lost}; some requests are missing", workdir.display())));
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
        if !ring.notes().all(|note| take(FoundEntry::Note(note.to_string()))) {
            return None;
        }
        if !requests(&mut grouper, &mut |entry| take(FoundEntry::Entry(entry))) {
            return None;
        }
    }
}

#[cfg(test)]
mod tests;
