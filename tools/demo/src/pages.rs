// SPDX-License-Identifier: BSD-2-Clause
//! The pages of the built-in origin: one with images, a slow one, one with cookies, an uncacheable one, and any response by query.

use crate::query::ResponseSpec;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub const IMAGES: u32 = 12;

/// Time that the slow page takes when the query says nothing.
const SLOW: Duration = Duration::from_secs(2);

pub struct DemoPage {
    pub status: u16,
    pub latency: Duration,
    pub fields: Vec<(String, String)>,
    pub body: DemoBody,
    pub gzip: bool,
    pub chunked: bool,
}

/// A body: a text, or so many octets of a repeated pattern.
pub enum DemoBody {
    Text(String),
    Pattern(u64),
}

/// The answer to `path` (without its query) and what the query wants, for a client that calls us `host` and has the number
/// `visits` in its cookie.
pub fn page(path: &str, wanted: ResponseSpec, host: &str, visits: u32) -> DemoPage {
    let (status, kind, cache, body, latency) = match path {
        "/" => (200, "text/html; charset=utf-8", "max-age=60", index(host), Duration::ZERO),
        "/slow" => (200, "text/html; charset=utf-8", "max-age=10", html("Slow", &slow()), SLOW),
        "/cookie" => (200, "text/html; charset=utf-8", "max-age=60", cookie(visits), Duration::ZERO),
        "/now" => (200, "text/html; charset=utf-8", "no-store", now(), Duration::ZERO),
        "/any" => (200, "application/octet-stream", "max-age=60", String::new(), Duration::ZERO),
        _ => match image(path) {
            Some(svg) => (200, "image/svg+xml", "max-age=3600", svg, Duration::ZERO),
            None => (
                404,
                "text/html; charset=utf-8",
                "max-age=5",
                html("Not here", "<p>There is no such page. <a href=\"/\">The first page</a> lists them all.</p>"),
                Duration::ZERO,
            ),
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
    DemoPage {
        status: wanted.status.unwrap_or(status),
        latency: if wanted.latency.is_zero() { latency } else { wanted.latency },
        fields,
        body: wanted.size.map_or(DemoBody::Text(body), DemoBody::Pattern),
        gzip: wanted.gzip,
        chunked: wanted.chunked,
    }
}

const STYLE: &str = "<meta name=\"viewport\" content=\"width=device-width\">\n<style>\nbody { font: 1rem/1.5 sans-serif; \
                     max-width: 45rem; margin: 2rem auto; padding: 0 1rem; color: #222 }\ncode, pre { background: #eee; padding: .1rem .3rem }\n\
                     pre { padding: .6rem; overflow-x: auto }\ndt { font-weight: bold; margin-top: .6rem }\nimg { margin: .2rem }\n</style>\n";

fn html(title: &str, text: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n{STYLE}<h1>{title}</h1>\n{text}\n"
    )
}

/// The time of day, in UTC: a repeated time shows that the response was stored.
fn clock() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() % 86_400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// The first page: what there is to see, and what to do next. `host` is what the visitor called us.
fn index(host: &str) -> String {
    let images: String = (1..=IMAGES)
        .map(|n| format!("<img src=\"/img/{n}.svg\" alt=\"disc {n}\" width=\"48\" height=\"48\">\n"))
        .collect();
    let made = clock();
    html(
        "A web site behind a cache",
        &format!(
            "<p>The site generated this page at <strong>{made}</strong>. Reload it: through the cache, the time stays the same for a minute. The \
cache (Lacquer) stored the response and serves it without asking the site again. It can do so many thousands of times per second, so that \
a slow site feels fast and a small server can serve many visitors.</p>\n\
<p>These images may stay in the cache for an hour:</p>\n<p>{images}</p>\n\
<h2>Try</h2>\n<dl>\n\
<dt><a href=\"/slow\">/slow</a></dt><dd>The site takes two seconds to generate this page. The first request waits; for the next ten seconds the cache answers at once.</dd>\n\
<dt><a href=\"/cookie\">/cookie</a></dt><dd>The response sets a cookie, so it is for one visitor: the cache never serves it to another.</dd>\n\
<dt><a href=\"/now\">/now</a></dt><dd>The site forbids caching (<code>Cache-Control: no-store</code>): each request goes to the site.</dd>\n\
<dt><a href=\"/any?size=1000000&amp;gzip\">/any?size=1000000&amp;gzip</a></dt><dd>A megabyte, compressed. The query string sets the \
response: <code>latency=50</code> (milliseconds), <code>ttl=60</code> (seconds in the cache), <code>status=503</code>.</dd>\n</dl>\n\
<h2>See how it works</h2>\n<p>Type this in a terminal, twice:</p>\n<pre>curl -i http://{host}/slow</pre>\n\
<p>The second response comes at once. It has the header <code>X-Cache: hit</code>, and <code>Age</code> says how many seconds ago the site generated it.</p>\n\
<p>The terminal that runs this demo prints the number of requests and the hit rate each second. Its first lines name the tools that show \
each request.</p>\n\
<h2>With your own site</h2>\n<pre>make run BACKEND=http://localhost:8080</pre>\n\
<p>puts the cache in front of the server on port 8080.</p>"
        ),
    )
}

fn slow() -> String {
    let made = clock();
    format!(
        "<p>The site took two seconds to generate this page, at {made}. Reload it: for ten seconds the cache answers at once.</p>"
    )
}

fn cookie(visits: u32) -> String {
    html(
        "Cookies",
        &format!(
            "<p>This is your visit number {}. The cache asks the site each time, because the response is for you alone.</p>",
            visits.saturating_add(1)
        ),
    )
}

fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    html(
        "Now",
        &format!(
            "<p>{seconds:.3} seconds have passed since the start of 1970. The site forbids caching this page, so the number is always new.</p>"
        ),
    )
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
        let p = page(path, ResponseSpec::parse(query).expect("a good query"), "a", 0);
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
