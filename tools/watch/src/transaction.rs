// SPDX-License-Identifier: BSD-2-Clause
//! Requests and fetches of the log, as far as they are counted. Texts are slices of their records.

use logq::record::{self, word};
use logq::{BeginReason, Handling, Txn, TxnType};
use tables::Tag;
use transactions::View;

/// A client's request, an ESI fragment's, or a restart of one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WatchedRequest<'a> {
    /// True if a client sent it; false for a fragment or a restart.
    pub is_first: bool,
    /// True if an ESI include in another response caused it.
    pub is_fragment: bool,
    /// True if it continues as another transaction.
    pub is_restarted: bool,
    pub handling: Handling,
    /// Status of the response. 0 for a pipe or an abandoned request.
    pub status: u16,
    /// Method, URL and Host, as the client sent them.
    pub method: &'a [u8],
    pub url: &'a [u8],
    pub host: &'a [u8],
    /// The VCL, or the label that led to it.
    pub vcl: &'a [u8],
    /// The name under which that VCL was loaded.
    pub loaded: &'a [u8],
    /// Number of the fetch that the response came from. 0 if there was none.
    pub fetch: u64,
    /// The reason why it was no hit, with the place in VCL, if the server logs it (`log_no_hit`).
    pub why: Option<&'a [u8]>,
    /// Start time in seconds since 1970.
    pub start: f64,
    /// Seconds until the response's head was ready.
    pub first_byte: Option<f64>,
    /// Seconds until the response's last byte was handed over.
    pub duration: Option<f64>,
    pub bytes: u64,
    /// Seconds that it waited for a backend.
    pub backend_seconds: f64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fetch<'a> {
    pub number: u64,
    /// Number of the fetch that repeats it. 0 if none does.
    pub next: u64,
    /// The backend's name. Empty if none was reached.
    pub backend: &'a [u8],
    pub status: u16,
    pub url: &'a [u8],
    pub loaded: &'a [u8],
    pub store: &'a [u8],
    pub error: Option<&'a [u8]>,
    /// Seconds until the response's head had arrived.
    pub first_byte: Option<f64>,
    /// Seconds until the response's last byte had arrived.
    pub duration: Option<f64>,
    pub bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum WatchedTransaction<'a> {
    Request(WatchedRequest<'a>),
    Fetch(Fetch<'a>),
}

/// The lowest status that counts as an error.
pub const LEAST_ERROR: u16 = 500;

pub fn is_whole(records: &[u8]) -> bool {
    let mut all = record::records(records);
    all.next().is_some_and(|first| first.tag == Tag::Begin) && all.last().is_some_and(|last| last.tag == Tag::End)
}

/// Parses a transaction. `None` for a session or malformed records.
pub fn read(records: &[u8]) -> Option<WatchedTransaction<'_>> {
    let txn = Txn::read(records)?;
    match txn.kind {
        TxnType::Req => request(&txn).map(WatchedTransaction::Request),
        TxnType::Bereq => Some(WatchedTransaction::Fetch(fetch(&txn))),
        TxnType::Unknown | TxnType::Sess | TxnType::Raw => None,
    }
}

fn request<'a>(txn: &Txn<'a>) -> Option<WatchedRequest<'a>> {
    let mut view = View::new(txn);
    let mut fetch = 0;
    for rec in record::records(txn.records) {
        view.add(&rec);
        if rec.tag == Tag::Link {
            fetch = link(rec.text(), &[b"fetch", b"pass"]).unwrap_or(fetch);
        }
    }
    Some(WatchedRequest {
        is_first: txn.reason == BeginReason::Rxreq,
        is_fragment: txn.reason == BeginReason::Esi,
        // Beyond max_restarts a return of restart is answered 503 instead.
        is_restarted: view.stamp(&["Restart"]).is_some(),
        handling: view.handling.unwrap_or(Handling::Synth),
        status: view.response.status(),
        method: view.came.method.filter(|method| !method.is_empty())?,
        url: view.came.url.unwrap_or_default(),
        host: view.came.host.unwrap_or_default(),
        vcl: view.vcl_label(),
        loaded: view.vcl(),
        fetch,
        why: view.no_hit,
        start: view.begin().and_then(|stamp| stamp.seconds()).unwrap_or(0.0),
        first_byte: view.stamp(&["Process", "Pipe"]).and_then(|stamp| stamp.since_start()),
        duration: view.stamp(&["Resp", "PipeSess"]).and_then(|stamp| stamp.since_start()),
        bytes: view.bytes().map_or(0, |bytes| bytes.resp_body),
        backend_seconds: view.seconds_until("Fetch").unwrap_or(0.0),
    })
}

fn fetch<'a>(txn: &Txn<'a>) -> Fetch<'a> {
    let mut view = View::new(txn);
    let (mut next, mut store, mut error) = (0, &b""[..], None);
    for rec in record::records(txn.records) {
        view.add(&rec);
        match rec.tag {
            Tag::Storage => store = word(rec.text(), 1),
            Tag::FetchError => error = Some(rec.text()),
            Tag::Link => next = link(rec.text(), &[b"retry"]).unwrap_or(next),
            _ => {}
        }
    }
    let first_byte = view.stamp(&["Beresp"]).and_then(|stamp| stamp.since_start());
    let duration = view.stamp(&["BerespBody", "Error"]).and_then(|stamp| stamp.since_start());
    Fetch {
        number: txn.vxid,
        next,
        backend: view.peer().map_or(b"", |peer| peer.name),
        status: view.response.status(),
        url: view.left.url.unwrap_or_default(),
        loaded: view.vcl(),
        store,
        error,
        first_byte,
        // The response may consist of its head alone.
        duration: duration.or(first_byte),
        bytes: view.bytes().map_or(0, |bytes| bytes.resp_body),
    }
}

impl<'a> Fetch<'a> {
    /// True if the response is an error, or if there was none.
    pub fn has_failed(&self) -> bool {
        self.error.is_some() || self.status >= LEAST_ERROR
    }

    /// The name of the backend that failed, also if none was reached: `backend NAME: fail errno 111 (Connection refused)`.
    pub fn failing(&self) -> &'a [u8] {
        let rest = self.error.and_then(|error| error.strip_prefix(b"backend "));
        let end = |rest: &[u8]| rest.windows(2).position(|two| two == b": ");
        rest.and_then(|rest| Some(&rest[..end(rest)?])).unwrap_or(self.backend)
    }

    /// True if a director had no healthy backend: `Director NAME returned no backend`. It is false for `No backend`: VCL has chosen none.
    pub fn had_none_healthy(&self) -> bool {
        self.error.is_some_and(|error| error.ends_with(b" returned no backend"))
    }
}

/// Parses `bereq 3 fetch`: the number, if the reason is one of `reasons`.
fn link(text: &[u8], reasons: &[&[u8]]) -> Option<u64> {
    number(word(text, 1)).filter(|_| word(text, 0) == b"bereq" && reasons.contains(&word(text, 2)))
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Generalizes a URL: the query becomes `?`, numeric or id-like segments become `#`, and only the first six segments are kept.
pub fn pattern(url: &[u8]) -> Vec<u8> {
    const PARTS: usize = 6;
    let (path, has_query) = match url.iter().position(|b| *b == b'?') {
        Some(at) => (&url[..at], true),
        None => (url, false),
    };
    let mut out = Vec::with_capacity(path.len().min(128));
    for (n, part) in path.split(|b| *b == b'/').enumerate() {
        if n > 0 {
            out.push(b'/');
        }
        if n > PARTS {
            out.extend(b"...");
            break;
        }
        if is_id(part) { out.push(b'#') } else { out.extend(&part[..part.len().min(40)]) }
    }
    if has_query {
        out.push(b'?');
    }
    out
}

fn is_id(part: &[u8]) -> bool {
    let stem = part.split(|b| *b == b'.').next().unwrap_or(part);
    let digits = stem.iter().filter(|b| b.is_ascii_digit()).count();
    let is_hex = stem.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-');
    (digits > 0 && digits == stem.len())
        || (stem.len() >= 8 && digits >= 2 && is_hex)
        || (digits >= 6 && digits * 2 > stem.len())
}

#[cfg(test)]
mod tests;
