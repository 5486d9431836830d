// SPDX-License-Identifier: BSD-2-Clause
//! What the built-in origin has: a page with images, a slow page, one with cookies, an uncacheable one, and any answer by query.

use crate::query::Wanted;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Printed at the start.
pub const TRY: &str = "\
try     /  /slow  /cookie  /now  /any?size=100000&latency=50&ttl=60&status=200&gzip&chunked&header=Vary:Accept-Language
each second: requests, hits of lookups, latency of own requests, memory of all processes, objects, bytes stored";

/// How many images the first page has.
pub const IMAGES: u32 = 12;

/// How long the slow page takes when the query says nothing.
const SLOW: Duration = Duration::from_secs(2);

/// An answer, before it is framed.
pub struct Page {
    pub status: u16,
    pub latency: Duration,
    pub fields: Vec<(String, String)>,
    pub body: Body,
    pub gzip: bool,
    pub chunked: bool,
}

/// A body: a text, or so many octets of a repeated pattern.
pub enum Body {
    Text(String),
    Pattern(u64),
}

/// The answer to `path` (without its query) and what the query wants; `visits` is the number in the client's cookie.
pub fn page(path: &str, wanted: Wanted, visits: u32) -> Page {
    let (status, kind, cache, body, latency) = match path {
        "/" => (200, "text/html; charset=utf-8", "max-age=60", index(), Duration::ZERO),
        "/slow" => (200, "text/html; charset=utf-8", "max-age=10", html("Slow", "Was worth the wait."), SLOW),
        "/cookie" => (200, "text/html; charset=utf-8", "max-age=60", cookie(visits), Duration::ZERO),
        "/now" => (200, "text/html; charset=utf-8", "no-store", now(), Duration::ZERO),
        "/any" => (200, "application/octet-stream", "max-age=60", String::new(), Duration::ZERO),
        _ => match image(path) {
            Some(svg) => (200, "image/svg+xml", "max-age=3600", svg, Duration::ZERO),
            None => (404, "text/html; charset=utf-8", "max-age=5", html("Not here", "No such page."), Duration::ZERO),
        },
    };
    let cache = match wanted.ttl {
        Some(0) => "no-store".to_owned(),
        Some(ttl) => format!("max-age={ttl}"),
        None => cache.to_owned(),
    };
    let mut fields = vec![("Content-Type".to_owned(), kind.to_owned()), ("Cache-Control".to_owned(), cache)];
    if path == "/cookie" {
        fields.push(("Set-Cookie".into(), format!("visits={}; Path=/cookie", visits.saturating_add(1))));
    }
    fields.extend(wanted.fields);
    Page {
        status: wanted.status.unwrap_or(status),
        latency: if wanted.latency.is_zero() { latency } else { wanted.latency },
        fields,
        body: wanted.size.map_or(Body::Text(body), Body::Pattern),
        gzip: wanted.gzip,
        chunked: wanted.chunked,
    }
}

fn html(title: &str, text: &str) -> String {
    format!("<!DOCTYPE html>\n<title>{title}</title>\n<h1>{title}</h1>\n{text}\n")
}

fn index() -> String {
    let images: String =
        (1..=IMAGES).map(|n| format!("<img src=\"/img/{n}.svg\" alt=\"{n}\" width=\"96\">\n")).collect();
    let links = "<p><a href=\"/slow\">a slow page</a>, <a href=\"/cookie\">one with cookies</a>, <a href=\"/now\">one that is \
                 never cached</a>, <a href=\"/any?size=1000000&amp;gzip\">a megabyte</a></p>\n";
    html("Lacquer", &format!("{images}{links}"))
}

fn cookie(visits: u32) -> String {
    html("Cookies", &format!("This is visit {}.", visits.saturating_add(1)))
}

fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    html("Now", &format!("It is {seconds:.3} seconds after 1970 began."))
}

/// `/img/N.svg`, a disc whose colour is its number's.
fn image(path: &str) -> Option<String> {
    let n: u32 = path.strip_prefix("/img/")?.strip_suffix(".svg")?.parse().ok().filter(|n| (1..=IMAGES).contains(n))?;
    let hue = n * 360 / IMAGES;
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 96 96\"><circle cx=\"48\" cy=\"48\" r=\"44\" \
         fill=\"hsl({hue},60%,55%)\"/><text x=\"48\" y=\"58\" font-size=\"30\" text-anchor=\"middle\">{n}</text></svg>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, query: &str, status: u16, cache: &str) {
        let p = page(path, Wanted::parse(query).expect("a good query"), 0);
        let got = p.fields.iter().find(|(n, _)| n == "Cache-Control").map(|(_, v)| v.as_str());
        assert_eq!((p.status, got), (status, Some(cache)), "{path}?{query}");
    }

    #[test]
    fn pages() {
        check("/", "", 200, "max-age=60");
        check("/img/12.svg", "", 200, "max-age=3600");
        check("/img/13.svg", "", 404, "max-age=5");
        check("/now", "", 200, "no-store");
        check("/now", "ttl=3", 200, "max-age=3");
        check("/any", "status=503&ttl=0", 503, "no-store");
    }
}
