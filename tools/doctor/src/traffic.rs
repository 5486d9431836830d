// SPDX-License-Identifier: BSD-2-Clause
//! Totals of the requests and fetches in a log, as far as rules need them. Memory is bounded by limits on URLs, on
//! bytes of each, and on variants of one and of all; the number of items beyond a limit is counted.

mod times;
mod transaction;

use std::collections::{BTreeMap, HashMap, HashSet};

use logq::{BeginReason, Txn, TxnType};

pub use times::TrafficTimes;
pub use transaction::COOKIE;
use transaction::{Fetch, Request};

/// Different URLs that are kept: 35 MB at most, with texts that are all as long as they may be.
const MOST_URLS: usize = 20_000;
/// Bytes of a URL, and of a Vary, that are kept.
const MOST_BYTES: usize = 300;
/// Most variants of a URL that are counted. More wouldn't change the finding.
pub const MOST_VARIANTS: usize = 100;
/// Most variants of all URLs that are counted, which take at most 6 MB.
const MOST_VARIANTS_OF_ALL: usize = 200_000;
const MOST_BACKENDS: usize = 1000;
/// Lifetime in seconds below which a response is fetched again and again.
pub const SHORT_TTL: f64 = 10.0;
/// A clock that is further away is wrong: seconds.
pub const SKEW: f64 = 5.0;

#[derive(Debug, Default)]
pub struct LogTraffic {
    pub requests: u64,
    pub fetches: u64,
    /// Responses with a status of 500 and above.
    pub errors: u64,
    /// Requests and fetches whose VCL failed, with the text of one as an example.
    pub vcl_errors: (u64, String),
    /// Passed requests by reason, each with one as an example.
    pub passes: BTreeMap<&'static str, (u64, String)>,
    /// Requests by host and path, without the query.
    pub urls: HashMap<String, Url>,
    pub backends: HashMap<String, BackendLatency>,
    /// Fetches with a parameter that only counts visitors, with an example.
    pub tracked: (u64, String),
    /// Requests that were passed for a Cookie in which only scripts of the browser are interested, with an example of such a Cookie's names.
    pub harmless: (u64, String),
    /// Requests and fetches beyond the limit on URLs or backends.
    pub left_out: u64,
    /// Variants that are kept, of all URLs.
    pub variants: usize,
    /// Fetches whose variants weren't counted, because there were too many of all URLs.
    pub variants_left_out: u64,
    /// The first and the last moment, in seconds since 1970.
    pub window: Option<(f64, f64)>,
    /// Remarks on the log itself, such as an overrun or a truncated file.
    pub remarks: Vec<String>,
}

#[derive(Debug, Default)]
pub struct Url {
    pub requests: u64,
    pub errors: u64,
    pub fetches: u64,
    /// Seconds of all its fetches together.
    pub fetch_seconds: f64,
    /// The backend of the last fetch.
    pub backend: String,
    /// Requests that waited for another's fetch, and how long in all.
    pub waits: u64,
    pub wait_seconds: f64,
    /// Fetches for the cache that live, but not long.
    pub short: u64,
    pub shortest: Option<f64>,
    /// Responses with Set-Cookie to fetches for the cache.
    pub set_cookie: u64,
    pub cookie_passes: u64,
    /// Fetches for the cache that the origin forbids to keep.
    pub forbidden: u64,
    pub vary: String,
    pub variants: HashSet<u64>,
}

#[derive(Debug, Default)]
pub struct BackendLatency {
    pub first_byte: TrafficTimes,
    /// Seconds of all fetches together.
    pub seconds: f64,
    /// Responses with a Date, those far from our clock, and the last one's difference.
    pub dated: u64,
    pub skewed: u64,
    pub skew: f64,
}

impl LogTraffic {
    pub fn add(&mut self, txn: &Txn<'_>) {
        match (txn.kind, txn.reason) {
            (TxnType::Req, BeginReason::Rxreq | BeginReason::Esi) => self.add_request(txn, true),
            (TxnType::Req, BeginReason::Restart) => self.add_request(txn, false),
            (TxnType::Bereq, reason) => self.add_fetch(txn, reason),
            _ => {}
        }
    }

    /// Time between the first and the last moment in the log, in seconds.
    pub fn seconds(&self) -> f64 {
        self.window.map_or(0.0, |(first, last)| last - first)
    }

    fn at(&mut self, time: Option<f64>) {
        let Some(time) = time else { return };
        let (first, last) = self.window.unwrap_or((time, time));
        self.window = Some((first.min(time), last.max(time)));
    }

    /// The place of a URL; None: there are too many.
    fn url(&mut self, host: &[u8], url: &[u8]) -> Option<&mut Url> {
        let path = url.split(|b| *b == b'?').next().unwrap_or_default();
        let name = shown(host) + &shown(path);
        if self.urls.len() >= MOST_URLS && !self.urls.contains_key(&name) {
            self.left_out += 1;
            return None;
        }
        Some(self.urls.entry(name).or_default())
    }

    /// Adds a request, or a restart of one. The last of these transactions has the request's result.
    fn add_request(&mut self, txn: &Txn<'_>, is_first: bool) {
        let request = Request::of(txn);
        self.requests += u64::from(is_first);
        self.at(request.time);
        let is_error = request.status >= 500;
        self.errors += u64::from(is_error);
        self.add_vcl_error(request.vcl_error);
        if let Some(reason) = request.passed {
            let passes = self.passes.entry(reason).or_default();
            passes.0 += 1;
            if passes.1.is_empty() {
                passes.1 = shown(&[request.host, request.url].concat());
            }
        }
        if request.passed == Some(COOKIE) && request.cookies.iter().all(|line| is_harmless(line)) {
            self.harmless.0 += 1;
            if self.harmless.1.is_empty() {
                let names: Vec<&[u8]> = request.cookies.iter().flat_map(|line| cookie_names(line)).collect();
                self.harmless.1 = shown(&names.join(&b' '));
            }
        }
        let Some(url) = self.url(request.host, request.url) else { return };
        url.requests += u64::from(is_first);
        url.errors += u64::from(is_error);
        url.cookie_passes += u64::from(request.passed == Some(COOKIE));
        if let Some(seconds) = request.waited {
            url.waits += 1;
            url.wait_seconds += seconds;
        }
    }

    fn add_fetch(&mut self, txn: &Txn<'_>, reason: BeginReason) {
        let fetch = Fetch::of(txn);
        // A retry doesn't say what is tried again; but only a fetch for the cache gets a lifetime by its headers.
        let is_pass = reason == BeginReason::Pass || reason == BeginReason::Unknown && !fetch.has_lifetime;
        self.fetches += 1;
        self.at(fetch.view.begin().and_then(|stamp| stamp.seconds()));
        self.add_vcl_error(fetch.vcl_error);
        if !is_pass && is_tracked(fetch.url()) {
            self.tracked.0 += 1;
            if self.tracked.1.is_empty() {
                self.tracked.1 = shown(fetch.url());
            }
        }
        self.add_to_backend(&fetch);
        let is_full = self.variants >= MOST_VARIANTS_OF_ALL;
        let Some(url) = self.url(fetch.host(), fetch.url()) else { return };
        url.fetches += 1;
        url.fetch_seconds += fetch.seconds();
        if let Some(backend) = fetch.backend().filter(|backend| *backend != url.backend.as_bytes()) {
            url.backend = shown(backend);
        }
        if is_pass {
            return;
        }
        url.set_cookie += u64::from(fetch.view.response_headers.first("set-cookie").is_some());
        url.forbidden += u64::from(fetch.is_forbidden());
        if let Some(ttl) = fetch.ttl.filter(|ttl| (f64::MIN_POSITIVE..SHORT_TTL).contains(ttl) && !fetch.is_uncacheable)
        {
            url.short += 1;
            url.shortest = Some(url.shortest.map_or(ttl, |shortest| shortest.min(ttl)));
        }
        let Some(vary) = fetch.vary() else { return };
        url.vary = shown(vary);
        let variant = fetch.variant(vary);
        if url.variants.len() >= MOST_VARIANTS || url.variants.contains(&variant) {
            return;
        }
        if is_full {
            self.variants_left_out += 1;
            return;
        }
        url.variants.insert(variant);
        self.variants += 1;
    }

    fn add_vcl_error(&mut self, text: Option<&[u8]>) {
        let Some(text) = text else { return };
        self.vcl_errors.0 += 1;
        if self.vcl_errors.1.is_empty() {
            self.vcl_errors.1 = shown(text);
        }
    }

    fn add_to_backend(&mut self, fetch: &Fetch<'_>) {
        let Some(name) = fetch.backend() else { return };
        let name = shown(name);
        if self.backends.len() >= MOST_BACKENDS && !self.backends.contains_key(&name) {
            self.left_out += 1;
            return;
        }
        let backend = self.backends.entry(name).or_default();
        backend.seconds += fetch.seconds();
        if let Some(seconds) = fetch.first_byte() {
            backend.first_byte.add(seconds);
        }
        if let Some(skew) = fetch.skew() {
            backend.dated += 1;
            if skew.abs() > SKEW {
                backend.skewed += 1;
                backend.skew = skew;
            }
        }
    }
}

/// Text from a stranger for a terminal: bounded, without control characters.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_BYTES)]);
    let mut shown = String::with_capacity(text.len().min(MOST_BYTES));
    for c in text.chars().map(|c| if c.is_control() { '?' } else { c }) {
        // What stands for a byte that is none of UTF-8 is longer than that.
        if shown.len() + c.len_utf8() > MOST_BYTES {
            break;
        }
        shown.push(c);
    }
    shown
}

/// True if a URL's query has a parameter that changes nothing in the response.
fn is_tracked(url: &[u8]) -> bool {
    let query = url.splitn(2, |b| *b == b'?').nth(1).unwrap_or_default();
    query.split(|b| *b == b'&').any(|part| {
        let (name, value) = part.split_at(part.iter().position(|b| *b == b'=').unwrap_or(part.len()));
        let is_time = name == b"_" && value.len() > 10 && value[1..].iter().all(u8::is_ascii_digit);
        name.starts_with(b"utm_") || is_time || [&b"fbclid"[..], b"gclid", b"msclkid", b"mc_cid"].contains(&name)
    })
}

fn cookie_names(cookie: &[u8]) -> impl Iterator<Item = &[u8]> {
    cookie.split(|b| *b == b';').filter_map(|pair| pair.split(|b| *b == b'=').next().map(<[u8]>::trim_ascii))
}

/// True if all cookies belong to known programs that count visitors, on which no page depends.
fn is_harmless(cookie: &[u8]) -> bool {
    let is_known = |name: &[u8]| HARMLESS.iter().any(|start| name.starts_with(start.as_bytes()));
    !cookie.is_empty() && cookie_names(cookie).all(is_known)
}

/// Beginnings of such names: Google Analytics, Facebook, Google Ads, Matomo, Hotjar, HubSpot.
const HARMLESS: [&str; 8] = ["_ga", "_gid", "_fbp", "_gcl_", "__utm", "_pk_", "_hj", "__hs"];

/// True if a URL (host and path) names a file that is the same for everybody.
pub fn is_static(url: &str) -> bool {
    let last = url.rsplit('/').next().unwrap_or_default();
    let ending = last.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    STATIC.contains(&ending.as_str()) && url.contains('/')
}

/// Endings of files that don't change with their reader.
const STATIC: [&str; 25] = [
    "jpg", "jpeg", "gif", "png", "webp", "avif", "svg", "ico", "tif", "tiff", "css", "js", "mjs", "woff", "woff2",
    "ttf", "otf", "swf", "mp3", "mp4", "m4a", "ogg", "webm", "mov", "wmv",
];

#[cfg(test)]
mod tests;
