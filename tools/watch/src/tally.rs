// SPDX-License-Identifier: BSD-2-Clause
//! Sums over the log's transactions, all in bounded memory. Latency since the start (for Prometheus), and over the last second and minute
//! (for the page); the most requested and the most expensive URLs; the misses and their reasons.

use std::collections::{BTreeMap, VecDeque};

use accesslog::{Hitters, HittersMeasure, Ranking};
use logq::Handling;

use crate::blame::{Blame, Culprit};
use crate::latency::{Buckets, LatencyWindow};
use crate::transaction::{Fetch, LEAST_ERROR, WatchedRequest, WatchedTransaction, pattern};
use crate::used::UsedVcls;

/// Maximum number of VCLs with their own latency. Further ones share one.
pub const MAX_VCLS: usize = 16;
/// Maximum number of backends with their own latency. Further ones share one.
pub const MAX_BACKENDS: usize = 200;
/// Name for everything beyond the bounds of a table.
pub const OTHERS: &str = "(other)";
const TABLE_BYTES: usize = 256 << 10;
const HALF_LIFE_SECONDS: f64 = 30.0;
/// Maximum length of a reason in a table, in bytes.
const MAX_REASON: usize = 160;
/// Length of an interval. Backends' percentiles cover one to two of them.
const BACKEND_SECONDS: u64 = 15;
/// Seconds that [`WatchTally::recent_times`] covers. With a few requests per second, the median of a single second jumps about.
const SMOOTH_SECONDS: usize = 10;
/// Handlings whose times the page shows: hits, misses and passes.
const TIMED: usize = 3;

#[derive(Debug)]
pub struct NumberedNames {
    most: usize,
    all: Vec<String>,
}

impl NumberedNames {
    pub fn new(most: usize) -> NumberedNames {
        NumberedNames { most, all: vec![OTHERS.to_owned()] }
    }

    /// The number of a name. 0 if the list is full.
    pub fn number(&mut self, name: &[u8]) -> u16 {
        if let Some(at) = self.all.iter().position(|known| known.as_bytes() == name) {
            return at as u16;
        }
        if self.all.len() > self.most || name.is_empty() {
            return 0;
        }
        self.all.push(String::from_utf8_lossy(name).into_owned());
        (self.all.len() - 1) as u16
    }

    pub fn name(&self, number: u16) -> &str {
        self.all.get(usize::from(number)).map_or(OTHERS, String::as_str)
    }
}

/// The name of a VCL without the parts that change at each reload: `reload_20261127_060000_1234` becomes `reload`.
pub fn stable_vcl(name: &[u8]) -> &[u8] {
    const RELOAD: &[u8] = b"reload";
    match name.strip_prefix(RELOAD) {
        Some(rest) if !rest.is_empty() && rest.iter().all(|b| b.is_ascii_digit() || *b == b'_') => RELOAD,
        _ => name,
    }
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct RequestTimes {
    /// Times until the response's head was ready.
    pub first_byte: Buckets,
    /// Times until the response's last byte was handed over.
    pub duration: Buckets,
    pub bytes: u64,
}

/// Handling of a request, first digit of the status, number of the VCL.
pub type RequestKind = (Handling, u8, u16);

#[derive(Debug, Default)]
pub struct BackendTimes {
    now: LatencyWindow,
    before: LatencyWindow,
    pub failed: u64,
}

impl BackendTimes {
    /// Percentiles of the time until the response's head had arrived, in milliseconds.
    pub fn percentiles(&self) -> Option<[f32; 3]> {
        let mut both = LatencyWindow::default();
        both.append(&self.now);
        both.append(&self.before);
        both.percentiles()
    }
}

/// Sums since the last [`WatchTally::end_second`].
#[derive(Debug, Default)]
pub struct SecondSums {
    pub requests: u64,
    /// Number of responses with a status of 500 or above.
    pub errors: u64,
    pub error_bytes: u64,
    /// Times until the response's head was ready, by [`Handling`]. Errors aren't among them: a backend that refuses a connection does so
    /// faster than it ever serves a page.
    pub times: [LatencyWindow; 5],
}

pub struct WatchTally {
    /// Latency of requests since the start.
    pub requests: BTreeMap<RequestKind, RequestTimes>,
    /// Latency of fetches since the start, by the backend's number and the first digit of the status.
    pub fetches: BTreeMap<(u16, u8), Buckets>,
    pub vcls: NumberedNames,
    pub backends: NumberedNames,
    pub transactions: u64,
    pub client_requests: u64,
    /// Recent latency of backends, by number.
    pub backend_times: BTreeMap<u16, BackendTimes>,
    pub blame: Blame,
    pub used: UsedVcls,
    second: SecondSums,
    recent: VecDeque<[LatencyWindow; TIMED]>,
    minute: [LatencyWindow; TIMED],
    seconds: u64,
    hot: Hitters,
    dear: Hitters,
    why: Hitters,
    stores: Hitters,
    errors: Hitters,
    key: Vec<u8>,
}

impl std::fmt::Debug for WatchTally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchTally").field("transactions", &self.transactions).finish_non_exhaustive()
    }
}

impl Default for WatchTally {
    fn default() -> WatchTally {
        let table = |measure| Hitters::new(measure, TABLE_BYTES, false);
        WatchTally {
            requests: BTreeMap::new(),
            fetches: BTreeMap::new(),
            vcls: NumberedNames::new(MAX_VCLS),
            backends: NumberedNames::new(MAX_BACKENDS),
            transactions: 0,
            client_requests: 0,
            backend_times: BTreeMap::new(),
            blame: Blame::default(),
            used: UsedVcls::default(),
            second: SecondSums::default(),
            recent: VecDeque::new(),
            minute: Default::default(),
            seconds: 0,
            hot: table(HittersMeasure::Requests),
            dear: table(HittersMeasure::BackendTime),
            why: table(HittersMeasure::Requests),
            stores: table(HittersMeasure::Bytes),
            errors: table(HittersMeasure::Requests),
            key: Vec::new(),
        }
    }
}

/// Lines of a table, and the factor that converts their numbers to rates per second.
pub type RateTable = (Ranking, f64);

impl WatchTally {
    pub fn add(&mut self, transaction: &WatchedTransaction<'_>) {
        self.transactions += 1;
        match transaction {
            WatchedTransaction::Request(request) => self.add_request(request),
            WatchedTransaction::Fetch(fetch) => self.add_fetch(fetch),
        }
    }

    fn add_request(&mut self, r: &WatchedRequest<'_>) {
        self.client_requests += u64::from(r.is_first);
        self.second.requests += u64::from(r.is_first);
        // The request that it continues as is counted instead.
        if r.is_restarted || r.is_fragment {
            return;
        }
        let is_error = r.status >= LEAST_ERROR;
        if is_error {
            self.second.errors += 1;
            self.second.error_bytes += r.bytes;
            self.blame.response(r.fetch);
        }
        self.used.request(r.vcl, r.loaded);
        let kind = (r.handling, class(r.status), self.vcls.number(stable_vcl(r.vcl)));
        let times = self.requests.entry(kind).or_default();
        times.bytes += r.bytes;
        if let Some(seconds) = r.first_byte {
            times.first_byte.add(seconds);
            if !is_error {
                self.second.times[r.handling.index()].add(seconds);
            }
        }
        if let Some(seconds) = r.duration.or(r.first_byte) {
            times.duration.add(seconds);
        }
        let sums = accesslog::Sums {
            requests: 1.0,
            bytes: r.bytes as f64,
            hits: f64::from(u8::from(r.handling == Handling::Hit)),
            misses: f64::from(u8::from(matches!(r.handling, Handling::Miss | Handling::Pass | Handling::Pipe))),
            backend_seconds: r.backend_seconds,
        };
        // One buffer for all keys, since this runs for each request that is read.
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend(r.host);
        key.extend(r.url);
        self.hot.add(&key, &sums, None);
        if sums.backend_seconds > 0.0 {
            self.dear.add(&key, &sums, None);
        }
        if is_error {
            key.splice(0..0, format!("{}\t", r.status).into_bytes());
            self.errors.add(&key, &sums, None);
        }
        if r.handling != Handling::Hit || r.why.is_some() {
            key.clear();
            match r.why {
                Some(why) => key.extend(reason(why)),
                None => key.extend(r.handling.name().as_bytes()),
            }
            key.truncate(MAX_REASON);
            key.push(b'\t');
            key.extend(r.host);
            key.extend(pattern(r.url));
            self.why.add(&key, &sums, None);
        }
        self.key = key;
    }

    fn add_fetch(&mut self, f: &Fetch<'_>) {
        let backend = self.backends.number(f.backend);
        if let Some(seconds) = f.first_byte {
            self.fetches.entry((backend, class(f.status))).or_default().add(seconds);
        }
        let times = self.backend_times.entry(backend).or_default();
        times.failed += u64::from(f.error.is_some());
        if f.has_failed() {
            let culprit = match self.backends.number(f.failing()) {
                0 if f.had_none_healthy() => Culprit::NoneHealthy(f.loaded.into()),
                0 => Culprit::Unknown,
                number => Culprit::Backend(number),
            };
            self.blame.fetch(f.number, culprit, f.next);
        }
        if let Some(seconds) = f.first_byte {
            times.now.add(seconds);
        }
        if !f.store.is_empty() {
            let key = [f.store, b"\t", &pattern(f.url)].concat();
            let sums = accesslog::Sums { requests: 1.0, bytes: f.bytes as f64, ..accesslog::Sums::default() };
            self.stores.add(&key, &sums, None);
        }
    }

    pub fn end_second(&mut self) -> SecondSums {
        self.seconds += 1;
        self.used.end_second();
        let factor = fade_factor();
        for table in [&mut self.hot, &mut self.dear, &mut self.why, &mut self.stores, &mut self.errors] {
            table.fade(factor);
        }
        if self.seconds.is_multiple_of(BACKEND_SECONDS) {
            for times in self.backend_times.values_mut() {
                times.before = std::mem::take(&mut times.now);
            }
        }
        let mut second = std::mem::take(&mut self.second);
        for (minute, times) in self.minute.iter_mut().zip(&second.times) {
            minute.append(times);
        }
        if self.recent.len() == SMOOTH_SECONDS {
            self.recent.pop_front();
        }
        let [hits, misses, passes, ..] = &mut second.times;
        self.recent.push_back([hits, misses, passes].map(std::mem::take));
        second
    }

    /// Percentiles of hits, misses and passes over the last [`SMOOTH_SECONDS`].
    pub fn recent_times(&self) -> [Option<[f32; 3]>; TIMED] {
        std::array::from_fn(|n| {
            let mut all = LatencyWindow::default();
            self.recent.iter().filter(|second| second[n].count() > 0).for_each(|second| all.append(&second[n]));
            all.percentiles()
        })
    }

    /// Ends a minute and returns its percentiles of hits, misses and passes.
    pub fn end_minute(&mut self) -> [Option<[f32; 3]>; TIMED] {
        let out = std::array::from_fn(|n| self.minute[n].percentiles());
        self.minute.iter_mut().for_each(LatencyWindow::clear);
        out
    }

    /// The URLs with the most requests.
    pub fn hot(&self, most: usize) -> RateTable {
        (self.hot.top(most), 1.0 / fade_factor() - 1.0)
    }

    /// The URLs with the most backend time.
    pub fn dear(&self, most: usize) -> RateTable {
        (self.dear.top(most), 1.0 / fade_factor() - 1.0)
    }

    /// Reasons and URL patterns, separated by a tab.
    pub fn why(&self, most: usize) -> RateTable {
        (self.why.top(most), 1.0 / fade_factor() - 1.0)
    }

    /// Statuses of 500 and above and URLs, separated by a tab, by number of responses.
    pub fn errors(&self, most: usize) -> RateTable {
        (self.errors.top(most), 1.0 / fade_factor() - 1.0)
    }

    /// Stores and URL patterns, separated by a tab, by bytes fetched into them.
    pub fn stores(&self, most: usize) -> RateTable {
        (self.stores.top(most), 1.0 / fade_factor() - 1.0)
    }
}

/// Normalizes a reason: keeps its place in VCL or its ban, and removes varying or private parts: values of headers, times, transactions.
fn reason(text: &[u8]) -> Vec<u8> {
    let colon = text.iter().position(|b| *b == b':').unwrap_or(text.len());
    let (word, detail) = (&text[..colon], text.get(colon + 1..).unwrap_or_default().trim_ascii());
    let first = detail.split(|b| *b == b';').next().unwrap_or(detail);
    let place = |part: &[u8]| {
        let digits = part.iter().rev().take_while(|b| b.is_ascii_digit()).count();
        digits > 0 && part.len() > digits && part[part.len() - digits - 1] == b':'
    };
    let kept = match word {
        // The header's name. Its values follow.
        b"vary" => first.split(|b| *b == b':').next().unwrap_or_default(),
        b"banned" => first,
        // The reason why the response wasn't cached. If there is none, the remaining time comes first, which varies.
        b"hit-for-miss" | b"hit-for-pass" if !first.starts_with(b"for ") && !first.starts_with(b"over for ") => first,
        _ if place(first) => first,
        _ => b"",
    };
    if kept.is_empty() { word.to_vec() } else { [word, b": ", kept].concat() }
}

/// Factor f of one fading per second. A steady rate adds up to rate * f / (1 - f) after each fading.
fn fade_factor() -> f64 {
    0.5f64.powf(1.0 / HALF_LIFE_SECONDS)
}

fn class(status: u16) -> u8 {
    u8::try_from(status / 100).unwrap_or(0).min(9)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn request(handling: Handling, status: u16, url: &'static str, seconds: f64) -> WatchedRequest<'static> {
        WatchedRequest {
            is_first: true,
            is_fragment: false,
            is_restarted: false,
            handling,
            status,
            method: b"GET",
            url: url.as_bytes(),
            host: b"a.test",
            vcl: b"reload_20261127_060000_77",
            loaded: b"reload_20261127_060000_77",
            fetch: 0,
            why: None,
            start: 0.0,
            first_byte: Some(seconds),
            duration: Some(seconds * 2.0),
            bytes: 10,
            backend_seconds: if handling == Handling::Miss { seconds } else { 0.0 },
        }
    }

    #[test]
    fn a_request_counts_once_where_it_belongs() {
        let mut tally = WatchTally::default();
        for _ in 0..3 {
            tally.add(&WatchedTransaction::Request(request(Handling::Hit, 200, "/a", 0.0001)));
        }
        tally.add(&WatchedTransaction::Request(request(Handling::Miss, 503, "/b/17?x", 0.2)));
        tally.add(&WatchedTransaction::Request(WatchedRequest {
            is_restarted: true,
            ..request(Handling::Miss, 0, "/c", 0.2)
        }));
        let counts: Vec<_> = tally.requests.iter().map(|(k, t)| (k.0.name(), k.1, t.first_byte.count())).collect();
        assert_eq!(counts, [("hit", 2, 3), ("miss", 5, 1)]);
        assert_eq!((tally.client_requests, tally.transactions), (5, 5));
        assert_eq!(tally.vcls.name(tally.requests.keys().next().unwrap().2), "reload");
        let second = tally.end_second();
        assert_eq!((second.requests, second.errors, second.error_bytes), (5, 1, 10));
        let key = |table: &RateTable| String::from_utf8_lossy(&table.0.rows[0].key).into_owned();
        assert_eq!(key(&tally.hot(1)), "a.test/a");
        assert_eq!(key(&tally.dear(1)), "a.test/b/17?x");
        assert_eq!(key(&tally.why(1)), "miss\ta.test/b/#?");
        assert_eq!(key(&tally.errors(1)), "503\ta.test/b/17?x");
        assert!(tally.recent_times()[0].unwrap()[0] < 0.11);
        assert!(tally.end_minute()[0].unwrap()[2] < 0.11);
        assert_eq!(tally.end_minute(), [None; 3]);
    }

    #[test]
    fn errors_are_no_part_of_the_latency() {
        let mut tally = WatchTally::default();
        for handling in [Handling::Hit, Handling::Miss, Handling::Pass] {
            tally.add(&WatchedTransaction::Request(request(handling, 200, "/a", 0.2)));
            (0..9).for_each(|_| tally.add(&WatchedTransaction::Request(request(handling, 503, "/a", 0.0001))));
        }
        tally.end_second();
        for times in [tally.recent_times(), tally.end_minute()] {
            assert!(times.iter().all(|t| t.unwrap()[0] > 190.0), "{times:?}");
        }
        // Metrics separate them by status, so they count all.
        assert_eq!(tally.requests.values().map(|t| t.first_byte.count()).sum::<u64>(), 30);
    }

    #[test]
    fn percentiles_are_those_of_the_last_ten_seconds() {
        let mut tally = WatchTally::default();
        let median = |tally: &WatchTally| tally.recent_times()[2].map(|t| t[0].round());
        for n in 0..10 {
            let seconds = if n == 0 { 0.08 } else { 0.001 };
            (0..if n == 0 { 11 } else { 1 })
                .for_each(|_| tally.add(&WatchedTransaction::Request(request(Handling::Pass, 200, "/a", seconds))));
            tally.end_second();
        }
        assert_eq!(median(&tally), Some(80.0));
        tally.end_second();
        assert_eq!(median(&tally), Some(1.0));
        (0..9).for_each(|_| drop(tally.end_second()));
        assert_eq!(median(&tally), None);
    }

    #[test]
    fn a_steady_rate_is_shown_as_it_is() {
        let mut tally = WatchTally::default();
        for _ in 0..400 {
            for _ in 0..10 {
                tally.add(&WatchedTransaction::Request(request(Handling::Hit, 200, "/a", 0.001)));
            }
            tally.end_second();
        }
        let (ranking, factor) = tally.hot(1);
        assert!(
            (ranking.rows[0].sums.requests * factor - 10.0).abs() < 0.1,
            "{}",
            ranking.rows[0].sums.requests * factor
        );
    }

    #[test]
    fn reasons_are_kinds() {
        let told = |text: &str| String::from_utf8(reason(text.as_bytes())).unwrap();
        assert_eq!(told("pass: vcl_recv /etc/a.vcl:4"), "pass: vcl_recv /etc/a.vcl:4");
        assert_eq!(told("synth: 410, vcl_recv /etc/a.vcl:5"), "synth: 410, vcl_recv /etc/a.vcl:5");
        assert_eq!(
            told("hit-for-miss: vcl vcl_backend_response a.vcl:8; for 3599 s more; by 4382"),
            "hit-for-miss: vcl vcl_backend_response a.vcl:8"
        );
        assert_eq!(
            told("hit-for-miss: cache-control no-store; for 120 s more; by 4942"),
            "hit-for-miss: cache-control no-store"
        );
        assert_eq!(told("hit-for-pass: for 120 s more; by 4942"), "hit-for-pass");
        assert_eq!(told("expired: 3.1 s ago, ttl 10, grace 10"), "expired");
        assert_eq!(told("vary: Cookie: \"sid=1\" here, \"sid=2\" there"), "vary: Cookie");
        assert_eq!(told("banned: obj.http.x == y"), "banned: obj.http.x == y");
        assert_eq!([told("first-fetch"), told("evicted: 3 s ago"), told("")], ["first-fetch", "evicted", ""]);
    }

    #[test]
    fn names_are_bounded() {
        let mut names = NumberedNames::new(2);
        assert_eq!([&b"a"[..], b"b", b"c", b"a", b""].map(|name| names.number(name)), [1, 2, 0, 1, 0]);
        assert_eq!((names.name(2), names.name(0), names.name(9)), ("b", OTHERS, OTHERS));
        assert_eq!(stable_vcl(b"reload_1_2"), b"reload");
        assert_eq!(
            [stable_vcl(b"reloaded"), stable_vcl(b"boot"), stable_vcl(b"reload")],
            [&b"reloaded"[..], b"boot", b"reload"]
        );
    }
}
