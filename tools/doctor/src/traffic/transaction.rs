// SPDX-License-Identifier: BSD-2-Clause
//! Facts of one request and one fetch that the totals need, beyond those of [`View`].

use std::hash::{DefaultHasher, Hash, Hasher};

use logq::record::{value_of, word};
use logq::{Txn, records};
use tables::Tag;
use transactions::{HeaderLines, Stamp, View};

pub const COOKIE: &str = "they have a Cookie";
pub const AUTHORIZATION: &str = "they have an Authorization";
pub const METHOD: &str = "their method is neither GET nor HEAD";
pub const MARKED: &str = "an earlier answer was marked hit-for-pass";
pub const BY_VCL: &str = "VCL says so";

pub struct Request<'a> {
    pub host: &'a [u8],
    pub url: &'a [u8],
    pub time: Option<f64>,
    pub status: u16,
    pub passed: Option<&'static str>,
    /// Lines of its Cookie when VCL passed it: varnishd doesn't join them.
    pub cookies: Vec<&'a [u8]>,
    pub waited: Option<f64>,
    pub vcl_error: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    pub fn of(txn: &Txn<'a>) -> Request<'a> {
        let (mut view, mut headers) = (View::new(txn), HeaderLines::default());
        let (mut passed, mut cookies, mut vcl_error) = (None, Vec::new(), None);
        for rec in records(txn.records) {
            view.add(&rec);
            match rec.tag {
                Tag::ReqHeader => headers.add(rec.text()),
                Tag::ReqUnset => headers.remove(rec.text()),
                Tag::HitPass => passed = Some(MARKED),
                Tag::VclError => vcl_error = vcl_error.or(Some(rec.text())),
                Tag::VclReturn if rec.text() == b"pass" && passed.is_none() => {
                    passed = Some(why_passed(&view, &headers));
                    cookies = headers.all("cookie").collect();
                }
                _ => {}
            }
        }
        // Beyond max_restarts a return of restart is answered 503 instead.
        let is_restarted = view.stamp(&["Restart"]).is_some();
        Request {
            host: view.came.host.unwrap_or_default(),
            url: view.came.url.unwrap_or_default(),
            time: view.begin().and_then(|stamp| stamp.seconds()),
            status: if is_restarted { 0 } else { view.response.status() },
            passed: passed.filter(|_| !is_restarted),
            cookies,
            waited: view.seconds_until("Waitinglist"),
            vcl_error,
        }
    }
}

/// The reason for which VCL passes a request with these headers.
fn why_passed(view: &View<'_>, headers: &HeaderLines<'_>) -> &'static str {
    match view.came.method {
        Some(b"GET" | b"HEAD") if headers.first("authorization").is_some() => AUTHORIZATION,
        Some(b"GET" | b"HEAD") if headers.first("cookie").is_some() => COOKIE,
        Some(b"GET" | b"HEAD") => BY_VCL,
        _ => METHOD,
    }
}

pub struct Fetch<'a> {
    pub view: View<'a>,
    pub ttl: Option<f64>,
    /// A lifetime was calculated from the response's headers.
    pub has_lifetime: bool,
    pub is_uncacheable: bool,
    /// The origin's own Cache-Control: VCL may have taken it away.
    pub control: Option<&'a [u8]>,
    pub vcl_error: Option<&'a [u8]>,
}

impl<'a> Fetch<'a> {
    pub fn of(txn: &Txn<'a>) -> Fetch<'a> {
        let mut view = View::with_headers(txn);
        let (mut ttl, mut has_lifetime, mut is_uncacheable) = (None, false, false);
        let (mut control, mut vcl_error) = (None, None);
        for rec in records(txn.records) {
            view.add(&rec);
            match rec.tag {
                Tag::VclError => vcl_error = vcl_error.or(Some(rec.text())),
                // An interim response says nothing of the final one.
                Tag::BerespProtocol if !view.is_in_vcl => control = None,
                Tag::BerespHeader => control = control.or(value_of(rec.text(), b"cache-control")),
                Tag::Ttl => {
                    has_lifetime |= word(rec.text(), 0) == b"RFC";
                    (ttl, is_uncacheable) = (number(word(rec.text(), 1)), rec.text().ends_with(b"uncacheable"));
                }
                _ => {}
            }
        }
        Fetch { view, ttl, has_lifetime, is_uncacheable, control, vcl_error }
    }

    pub fn url(&self) -> &'a [u8] {
        self.view.left.url.unwrap_or_default()
    }

    pub fn host(&self) -> &'a [u8] {
        self.view.request_headers.first("host").unwrap_or_default()
    }

    pub fn backend(&self) -> Option<&'a [u8]> {
        self.view.peer().map(|peer| peer.name)
    }

    /// Seconds from the request to the first byte of the response.
    pub fn first_byte(&self) -> Option<f64> {
        self.view.stamp(&["Beresp"])?.since_last()
    }

    pub fn seconds(&self) -> f64 {
        self.view.stamps.iter().filter_map(Stamp::since_start).fold(0.0, f64::max)
    }

    /// True if the origin forbids caching, or caching without revalidation.
    pub fn is_forbidden(&self) -> bool {
        let says = |word: &str| self.control.is_some_and(|value| contains(value, word));
        ["no-store", "no-cache", "private", "max-age=0"].iter().any(|word| says(word))
    }

    pub fn vary(&self) -> Option<&'a [u8]> {
        self.view.response_headers.first("vary").filter(|value| !value.eq_ignore_ascii_case(b"accept-encoding"))
    }

    /// Hash of the request's values for the headers that the response varies on.
    pub fn variant(&self, vary: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        for name in vary.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
            let value =
                self.view.request_headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value);
            value.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Seconds that the origin's clock is ahead of ours; `None` if unknown or if the response came from another cache.
    pub fn skew(&self) -> Option<f64> {
        if self.view.response_headers.first("age").is_some_and(|age| age != b"0") {
            return None;
        }
        let answered = self.view.stamp(&["Beresp"])?.seconds()?;
        Some(message::date::parse(self.view.response_headers.first("date")?)?.0 - answered)
    }
}

fn contains(text: &[u8], word: &str) -> bool {
    text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
}

fn number(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word).ok()?.trim().parse().ok().filter(|n: &f64| n.is_finite())
}
