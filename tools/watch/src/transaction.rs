// SPDX-License-Identifier: BSD-2-Clause
//! Parses the records of one transaction, as far as they are counted, in one pass and without copies.
//!
//! Records contain data of clients and origins: malformed ones are left out.

use logq::Handling;
use logq::record::{self, Rec, value_of, word};
use tables::{Tag, no_hit};

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
    /// Method, as the client sent it.
    pub method: &'a [u8],
    /// URL, as the client sent it.
    pub url: &'a [u8],
    /// Host, as the client sent it.
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
    /// Size of the response's body, in bytes.
    pub bytes: u64,
    /// Seconds that it waited for a backend.
    pub backend_seconds: f64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fetch<'a> {
    /// Number of the transaction.
    pub number: u64,
    /// Number of the fetch that repeats it. 0 if none does.
    pub next: u64,
    /// The backend's name. Empty if none was reached.
    pub backend: &'a [u8],
    pub status: u16,
    pub url: &'a [u8],
    /// The name under which its VCL was loaded.
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
    let mut all = record::records(records);
    let begin = all.next().filter(|rec| rec.tag == Tag::Begin)?;
    match word(begin.text(), 0) {
        b"req" => request(all, word(begin.text(), 2)).map(WatchedTransaction::Request),
        b"bereq" => Some(WatchedTransaction::Fetch(fetch(all, begin.vxid))),
        _ => None,
    }
}

fn request<'a>(all: impl Iterator<Item = Rec<'a>>, reason: &[u8]) -> Option<WatchedRequest<'a>> {
    let mut out = WatchedRequest {
        is_first: reason == b"rxreq",
        is_fragment: reason == b"esi",
        is_restarted: false,
        handling: Handling::Synth,
        status: 0,
        method: b"",
        url: b"",
        host: b"",
        vcl: b"",
        loaded: b"",
        fetch: 0,
        why: None,
        start: 0.0,
        first_byte: None,
        duration: None,
        bytes: 0,
        backend_seconds: 0.0,
    };
    let mut is_clients = true;
    for rec in all {
        let text = rec.text();
        match rec.tag {
            Tag::Timestamp => match stamp(text) {
                (b"Start", at, ..) => out.start = at.unwrap_or(0.0),
                (b"Process" | b"Pipe", _, since, _) => out.first_byte = since,
                (b"Resp" | b"PipeSess", _, since, _) => out.duration = since,
                // Beyond max_restarts a return of restart is answered 503 instead.
                (b"Restart", ..) => out.is_restarted = true,
                (b"Fetch", _, _, last) => out.backend_seconds += last.unwrap_or(0.0),
                _ => {}
            },
            Tag::ReqMethod if out.method.is_empty() => out.method = text,
            Tag::ReqUrl if out.url.is_empty() => out.url = text,
            Tag::ReqHeader if is_clients && out.host.is_empty() => out.host = value_of(text, b"host").unwrap_or(b""),
            Tag::VclUse => (out.vcl, out.loaded) = (vcl(text), word(text, 0)),
            Tag::Link => out.fetch = link(text, &[b"fetch", b"pass"]).unwrap_or(out.fetch),
            Tag::VclCall => {
                is_clients = false;
                out.handling = Handling::of_vcl_call(text).unwrap_or(out.handling);
            }
            Tag::RespStatus => out.status = number(text).unwrap_or(0),
            Tag::Notice => out.why = text.strip_prefix(no_hit::NOTICE.as_bytes()).or(out.why),
            Tag::ReqAcct => out.bytes = number(word(text, 4)).unwrap_or(0),
            Tag::PipeAcct => out.bytes = number(word(text, 3)).unwrap_or(0),
            _ => {}
        }
    }
    (!out.method.is_empty()).then_some(out)
}

fn fetch<'a>(all: impl Iterator<Item = Rec<'a>>, vxid: u32) -> Fetch<'a> {
    let mut out = Fetch {
        number: u64::from(vxid),
        next: 0,
        backend: b"",
        status: 0,
        url: b"",
        loaded: b"",
        store: b"",
        error: None,
        first_byte: None,
        duration: None,
        bytes: 0,
    };
    for rec in all {
        let text = rec.text();
        match rec.tag {
            Tag::Timestamp => match stamp(text) {
                (b"Beresp", _, since, _) => out.first_byte = since,
                (b"BerespBody" | b"Error", _, since, _) => out.duration = since,
                _ => {}
            },
            Tag::BackendOpen => out.backend = word(text, 1),
            Tag::BereqUrl => out.url = text,
            Tag::VclUse => out.loaded = word(text, 0),
            Tag::BerespStatus => out.status = number(text).unwrap_or(0),
            Tag::Storage => out.store = word(text, 1),
            Tag::FetchError => out.error = Some(text),
            Tag::Link => out.next = link(text, &[b"retry"]).unwrap_or(out.next),
            Tag::BereqAcct => out.bytes = number(word(text, 4)).unwrap_or(0),
            _ => {}
        }
    }
    // The response consists of its head alone.
    out.duration = out.duration.or(out.first_byte);
    out
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

/// Parses `name`, or `name via label`. The label is stable over reloads.
fn vcl(text: &[u8]) -> &[u8] {
    match word(text, 1) {
        b"via" => word(text, 2),
        _ => word(text, 0),
    }
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses `Process: 1700000000.123456 0.000282 0.000021`: the name, the time, seconds since the start, and seconds since the last one.
fn stamp(text: &[u8]) -> (&[u8], Option<f64>, Option<f64>, Option<f64>) {
    let name = word(text, 0);
    let seconds = |n| number::<f64>(word(text, n)).filter(|s| s.is_finite() && *s >= 0.0);
    (name.strip_suffix(b":").unwrap_or(name), seconds(1), seconds(2), seconds(3))
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
mod tests {
    use logq::record::make;
    use proptest::prelude::*;
    use shm::vsl::Marker;

    use super::*;

    pub fn transaction(records: &[(Tag, &str)]) -> Vec<u8> {
        records.iter().flat_map(|(tag, text)| make(*tag, 7, Marker::Client, text.as_bytes())).collect()
    }

    /// URL, handling and status of each request of a client.
    fn requests(records: &[testkit::recorded::TestRecord]) -> Vec<String> {
        let bytes = testkit::recorded::log(records, |name| Tag::from_name(name).expect("a tag").number());
        let mut transactions: Vec<Vec<u8>> = Vec::new();
        for rec in record::records(&bytes) {
            if rec.tag == Tag::Begin {
                transactions.push(Vec::new());
            }
            let whole = make(rec.tag, 7, Marker::Client, rec.text());
            transactions.last_mut().expect("a transaction begins").extend(whole);
        }
        let one = |bytes: &Vec<u8>| match read(bytes) {
            Some(WatchedTransaction::Request(r)) if !r.is_fragment => {
                assert!(r.start > 1.7e9 && r.host == b"site.test" && (r.vcl == b"boot" || !r.is_first), "{r:?}");
                assert!(r.is_restarted || r.duration.is_some_and(|seconds| seconds < 60.0), "{r:?}");
                Some(format!("{} {:?} {}", String::from_utf8_lossy(r.url), r.handling, r.status))
            }
            Some(WatchedTransaction::Fetch(f)) if f.error.is_none() => {
                assert!(f.backend == b"default" && !f.url.is_empty(), "{f:?}");
                None
            }
            _ => None,
        };
        transactions.iter().filter_map(one).collect()
    }

    #[test]
    fn records_of_both_servers_say_what_became_of_each_request() {
        let (ours, theirs) = (requests(&testkit::recorded::lacquer()), requests(&testkit::recorded::varnish()));
        let want = [
            "/a Miss 200",
            "/a Hit 200",
            "/pass Pass 200",
            "/synth Synth 403",
            "/page Miss 200",
            "/dead Miss 503",
            "/private Miss 200",
            "/pipe Pipe 0",
            "/post Pass 200",
            "/withcookie Pass 200",
        ];
        for all in [&ours, &theirs] {
            want.iter().for_each(|line| assert!(all.iter().any(|got| got == line), "{line}: {all:?}"));
        }
        assert_eq!(ours, theirs);
    }

    #[test]
    fn which_of_several_records_counts() {
        let records = testkit::recorded::repeated();
        let of = |vxid| {
            let own: Vec<_> = records.iter().filter(|rec| rec.vxid == vxid).copied().collect();
            testkit::recorded::log(&own, |name| Tag::from_name(name).expect("a tag").number())
        };
        let (request, fetch) = (of(3), of(4));
        let (Some(WatchedTransaction::Request(r)), Some(WatchedTransaction::Fetch(f))) = (read(&request), read(&fetch))
        else {
            panic!()
        };
        let shown = |bytes| String::from_utf8_lossy(bytes);
        assert_eq!(
            [r.method, r.url, r.host, r.vcl, r.loaded].map(shown),
            ["GET", "/asked?q=1", "asked.test", "www", "reload_2"]
        );
        assert_eq!((r.handling, r.status, r.fetch, r.bytes), (Handling::Pass, 200, 4, 1000));
        assert_eq!((r.start, r.first_byte, r.duration), (1_700_000_000.2, Some(0.7), Some(0.8)));
        assert!((r.backend_seconds - 0.3).abs() < 1e-9 && !r.is_restarted);
        assert_eq!(
            [f.backend, f.url, f.store, f.error.unwrap_or_default()].map(shown),
            ["second", "/sent", "s1", "HTC eof (-1)"]
        );
        assert_eq!((f.status, f.next, f.bytes, f.first_byte, f.duration), (200, 6, 1000, Some(0.1), Some(0.3)));
    }

    #[test]
    fn a_request_is_what_the_client_sent_and_what_became_of_it() {
        let bytes = transaction(&[
            (Tag::Begin, "req 6 rxreq"),
            (Tag::Timestamp, "Start: 1700000000.5 0.000000 0.000000"),
            (Tag::VclUse, "reload_1 via www"),
            (Tag::ReqMethod, "GET"),
            (Tag::ReqUrl, "/a?b"),
            (Tag::ReqHeader, "Host: x.test"),
            (Tag::VclCall, "RECV"),
            (Tag::ReqUrl, "/rewritten"),
            (Tag::ReqHeader, "Host: y.test"),
            (Tag::VclCall, "MISS"),
            (Tag::Link, "bereq 8 bgfetch"),
            (Tag::Link, "bereq 9 fetch"),
            (Tag::Link, "req 10 esi 1"),
            (Tag::Notice, "lacquer: no hit: expired 3s ago"),
            (Tag::Timestamp, "Fetch: 1700000000.6 0.100000 0.090000"),
            (Tag::RespStatus, "200"),
            (Tag::VclCall, "DELIVER"),
            (Tag::Timestamp, "Process: 1700000000.6 0.110000 0.010000"),
            (Tag::Timestamp, "Resp: 1700000000.7 0.200000 0.090000"),
            (Tag::ReqAcct, "35 0 35 246 1000 1246"),
            (Tag::End, ""),
        ]);
        assert!(is_whole(&bytes));
        let Some(WatchedTransaction::Request(r)) = read(&bytes) else { panic!() };
        assert_eq!((r.method, r.url, r.host, r.vcl), (&b"GET"[..], &b"/a?b"[..], &b"x.test"[..], &b"www"[..]));
        assert_eq!((r.handling, r.status, r.bytes, r.is_first), (Handling::Miss, 200, 1000, true));
        assert_eq!((r.first_byte, r.duration, r.backend_seconds), (Some(0.11), Some(0.2), 0.09));
        assert_eq!((r.why, r.fetch, r.loaded), (Some(&b"expired 3s ago"[..]), 9, &b"reload_1"[..]));
    }

    #[test]
    fn a_fetch_names_its_backend_and_store() {
        let bytes = transaction(&[
            (Tag::Begin, "bereq 6 fetch"),
            (Tag::VclUse, "boot"),
            (Tag::BereqUrl, "/a"),
            (Tag::BackendOpen, "24 default 127.0.0.1 8080 127.0.0.1 41234 connect"),
            (Tag::Timestamp, "Beresp: 1700000000.6 0.010000 0.010000"),
            (Tag::BerespStatus, "404"),
            (Tag::Storage, "malloc s0"),
            (Tag::Timestamp, "BerespBody: 1700000000.6 0.020000 0.010000"),
            (Tag::BereqAcct, "100 0 100 200 3000 3200"),
            (Tag::End, ""),
        ]);
        let Some(WatchedTransaction::Fetch(f)) = read(&bytes) else { panic!() };
        assert_eq!((f.backend, f.store, f.status, f.bytes), (&b"default"[..], &b"s0"[..], 404, 3000));
        assert_eq!((f.first_byte, f.duration), (Some(0.01), Some(0.02)));
        assert_eq!((f.number, f.next, f.has_failed(), f.failing()), (7, 0, false, &b"default"[..]));
        assert_eq!(f.loaded, b"boot");
    }

    #[test]
    fn a_failed_fetch_names_its_backend() {
        let check = |records: &[(Tag, &str)], name: &str, had_none_healthy, next| {
            let bytes = transaction(&[&[(Tag::Begin, "bereq 6 fetch")], records].concat());
            let Some(WatchedTransaction::Fetch(f)) = read(&bytes) else { panic!() };
            let found = (String::from_utf8_lossy(f.failing()), f.had_none_healthy(), f.next);
            assert!(f.has_failed() && found == (name.into(), had_none_healthy, next), "{records:?}: {found:?}");
        };
        let open = (Tag::BackendOpen, "24 a 127.0.0.1 8080 127.0.0.1 41234 connect");
        let error = |text: &'static str| (Tag::FetchError, text);
        check(&[error("backend a: fail errno 111 (Connection refused)")], "a", false, 0);
        check(&[error("backend a(10.0.0.1:80): unhealthy"), (Tag::Link, "bereq 8 retry")], "a(10.0.0.1:80)", false, 8);
        check(&[open, error("HTC eof (-1)"), (Tag::BerespStatus, "503")], "a", false, 0);
        check(&[open, (Tag::BerespStatus, "502")], "a", false, 0);
        check(&[error("Director rr returned no backend")], "", true, 0);
        check(&[error("No backend")], "", false, 0);
        check(&[error("backend of nothing")], "", false, 0);
    }

    #[test]
    fn urls_of_a_kind_look_the_same() {
        let p = |url: &str| String::from_utf8(pattern(url.as_bytes())).unwrap();
        assert_eq!(p("/news/2023/11/04/4711.html?page=2"), "/news/#/#/#/#?");
        assert_eq!(p("/a/0d9f3c7e-1111-4222-8333-abcdefabcdef/b"), "/a/#/b");
        assert_eq!(p("/img/photo1.jpg"), "/img/photo1.jpg");
        assert_eq!(p("/1/2/3/4/5/6/7/8"), "/#/#/#/#/#/#/...");
        assert_eq!(p(""), "");
    }

    proptest! {
        #[test]
        fn no_records_can_hurt(bytes in proptest::collection::vec(any::<u8>(), 0..200), url in ".{0,80}") {
            let mut whole = make(Tag::Begin, 1, Marker::Client, b"req 1 rxreq");
            whole.extend(&bytes);
            let _ = read(&whole);
            let _ = read(&bytes);
            let _ = is_whole(&bytes);
            prop_assert!(pattern(url.as_bytes()).len() <= url.len() + 400);
        }
    }
}
