// SPDX-License-Identifier: BSD-2-Clause
//! `--log-format`: lines of a log whose format is declared, in the notation of Apache's LogFormat and varnishncsa's -F.
//!
//! What tells of the request is taken (`%r %m %U %q %t %v %V %{...}i %h %a %s %b %B %O`), and of how it was answered (`%D %T`,
//! `%{us}T`, varnishncsa's `%{Varnish:handling}x`, `%{Varnish:hitmiss}x`, `%{Varnish:time_firstbyte}x`, caches' own
//! fields as `%{X-Cache}o`); all else is passed over.

use std::borrow::Cow;
use std::time::Duration;

use crate::entry::{AccessEntry, EntryStamp, Skip, handling_from_text};
use crate::ncsa;

/// The part of the request that a directive tells.
#[derive(Clone, PartialEq, Eq, Debug)]
enum What {
    Request,
    Method,
    Url,
    Query,
    Time,
    /// Seconds since 1970 times this, in nanoseconds of one.
    Epoch(i64),
    Host,
    Field(String),
    Client,
    Status,
    Bytes,
    Handling,
    /// Time that it took, in units of so many seconds.
    Took(Unit),
    FirstByte,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    Seconds,
    Milliseconds,
    Microseconds,
}

impl Unit {
    fn seconds(self) -> f64 {
        match self {
            Unit::Seconds => 1.0,
            Unit::Milliseconds => 1e-3,
            Unit::Microseconds => 1e-6,
        }
    }
}

const CACHE_FIELDS: [&str; 5] = ["X-Cache", "X-Cache-Status", "Cache-Status", "CF-Cache-Status", "X-Proxy-Cache"];

const FORWARDED: &str = "X-Forwarded-For";

/// A directive and the text up to the next one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Piece {
    what: What,
    after: Vec<u8>,
    is_quoted: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFormat {
    before: Vec<u8>,
    pieces: Vec<Piece>,
}

impl LogFormat {
    /// Reads a format.
    ///
    /// # Errors
    /// A directive that doesn't end, or a format that tells of no request.
    pub fn parse(text: &str) -> Result<LogFormat, String> {
        let (mut before, mut pieces) = (Vec::new(), Vec::<Piece>::new());
        let text = text.replace("\\\"", "\"").replace("\\t", "\t");
        let mut rest = text.as_str();
        while let Some(c) = rest.chars().next() {
            if c == '%' && !rest.starts_with("%%") {
                let (what, next) = directive(&rest[1..]).ok_or_else(|| format!("--log-format: what is {rest:?}?"))?;
                let last = pieces.last().map_or(&before, |p| &p.after);
                let is_quoted = last.ends_with(b"\"");
                pieces.push(Piece { what, after: Vec::new(), is_quoted });
                rest = next;
                continue;
            }
            let literal = pieces.last_mut().map_or(&mut before, |p| &mut p.after);
            literal.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            rest = &rest[if c == '%' { 2 } else { c.len_utf8() }..];
        }
        if !pieces.iter().any(|p| matches!(p.what, What::Request | What::Url)) {
            return Err("--log-format: neither %r nor %U is in it".into());
        }
        Ok(LogFormat { before, pieces })
    }

    pub fn read<'a>(&'a self, line: &'a [u8]) -> Result<AccessEntry<'a>, Skip> {
        let mut entry = AccessEntry { method: Cow::Borrowed(b"GET"), ..AccessEntry::default() };
        let (mut url, mut query, mut first_byte) = (None, None, None);
        let mut rest = line.strip_prefix(&self.before[..]).ok_or(Skip::NotALine)?;
        let mut is_joined = false;
        for piece in &self.pieces {
            // Of `%U%q` the first takes both: nothing stands between them.
            if is_joined {
                is_joined = piece.after.is_empty();
                if !is_joined {
                    rest = rest.strip_prefix(&piece.after[..]).ok_or(Skip::Cut)?;
                }
                continue;
            }
            let stop = self.stop_after(piece);
            let end = if let Some(end) = self.end_of(piece, stop, rest) {
                end
            } else if piece.what == What::Time
                && rest.starts_with(b"[")
                && let Some(bracket) = memchr::memchr(b']', rest)
            {
                // Its blank is no end.
                bracket + 1
            } else if piece.is_quoted && stop.starts_with(b"\"") {
                ncsa::closing_quote(rest).ok_or(Skip::Cut)?
            } else if stop.is_empty() {
                rest.len()
            } else {
                memchr::memmem::find(rest, stop).ok_or(Skip::Cut)?
            };
            if !rest[end..].starts_with(stop) {
                return Err(Skip::NotALine);
            }
            let value = ncsa::unescape(&rest[..end]);
            match &piece.what {
                What::Request => ncsa::set_request(&mut entry, value)?,
                What::Method => entry.method = value,
                What::Url => url = Some(value),
                What::Query => query = Some(value),
                What::Time => ncsa::set_time(&mut entry, &rest[..end]),
                What::Epoch(unit) => entry.time = epoch(&value, *unit),
                What::Host if !value.is_empty() && *value != *b"-" => entry.host = entry.host.or(Some(value)),
                What::Field(name) => {
                    if name.eq_ignore_ascii_case(FORWARDED) && entry.client.is_none() {
                        entry.client = first_of_list(&value);
                    }
                    entry.add_logged(name.as_bytes(), value);
                }
                What::Client if *value != *b"-" => entry.client = Some(value),
                What::Status => entry.status = ncsa::digits(&value),
                What::Bytes => entry.bytes = if *value == *b"-" { Some(0) } else { ncsa::digits(&value) },
                What::Handling => entry.handling = handling_from_text(&value).or(entry.handling),
                What::Took(unit) => entry.duration = time_of(&value, *unit),
                What::FirstByte => first_byte = time_of(&value, Unit::Seconds),
                What::Host | What::Client | What::Other => {}
            }
            rest = &rest[end..];
            if piece.after.is_empty() {
                is_joined = true;
            } else {
                rest = &rest[piece.after.len()..];
            }
        }
        if let Some(url) = url {
            let url = match query {
                Some(query) => Cow::Owned([&url[..], &query[..]].concat()),
                None => url,
            };
            let host = entry.host.take();
            entry.set_url(url)?;
            entry.host = entry.host.take().or(host);
        }
        entry.backend_time = entry.handling.and_then(|handling| match handling.is_fetched() {
            // Behind a cache the first byte comes when the backend has answered.
            true => first_byte.or(entry.duration),
            false => Some(Duration::ZERO),
        });
        if entry.method.is_empty() || !entry.method.iter().all(|&b| message::chars::is_tchar(b)) {
            return Err(Skip::NoRequest);
        }
        Ok(entry)
    }

    /// The end of a value that may have in it the text that ends it; `None`: it has not.
    fn end_of(&self, piece: &Piece, stop: &[u8], rest: &[u8]) -> Option<usize> {
        let ends = |from: usize| memchr::memmem::find(rest.get(from..)?, stop).map(|at| from + at);
        match &piece.what {
            // The port is behind the brackets of an address.
            What::Host if rest.starts_with(b"[") => ends(memchr::memchr(b']', rest)?),
            What::Field(name) if name.eq_ignore_ascii_case(FORWARDED) && !piece.is_quoted && !stop.is_empty() => {
                let mut all = std::iter::successors(ends(0), |at| ends(at + stop.len()));
                all.find(|at| !rest[..*at].ends_with(b","))
            }
            // A user's name may have blanks.
            What::Other if self.is_before_time(piece) && rest.contains(&b'[') => {
                let begin = [stop, b"["].concat();
                let mut all = memchr::memmem::find_iter(rest, &begin);
                let time =
                    |at: &usize| rest[at + begin.len()..].split(|b| *b == b']').next().and_then(ncsa::parse_time);
                all.clone().find(|at| time(at).is_some()).or_else(|| all.next())
            }
            _ => None,
        }
    }

    fn is_before_time(&self, piece: &Piece) -> bool {
        let mut from = self.pieces.iter().skip_while(|p| !std::ptr::eq(*p, piece)).skip(1);
        !piece.after.is_empty() && from.next().is_some_and(|next| next.what == What::Time)
    }

    /// The text that ends a piece: its own, or that of the piece joined to it.
    fn stop_after<'a>(&'a self, piece: &'a Piece) -> &'a [u8] {
        let from = self.pieces.iter().position(|p| std::ptr::eq(p, piece)).unwrap_or(0);
        self.pieces[from..].iter().map(|p| &p.after[..]).find(|after| !after.is_empty()).unwrap_or_default()
    }
}

fn directive(text: &str) -> Option<(What, &str)> {
    let text = text.trim_start_matches(|c: char| matches!(c, '<' | '>' | '!' | ',') || c.is_ascii_digit());
    if let Some(inner) = text.strip_prefix('{') {
        let (name, rest) = inner.split_once('}')?;
        let letter = rest.chars().next()?;
        let what = match letter {
            'i' if name.eq_ignore_ascii_case("host") => What::Host,
            'i' => What::Field(name.to_owned()),
            't' => match name.trim_start_matches("begin:").trim_start_matches("end:") {
                "sec" | "%s" => What::Epoch(1_000_000_000),
                "msec" => What::Epoch(1_000_000),
                "usec" => What::Epoch(1000),
                _ => What::Time,
            },
            'o' if CACHE_FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field)) => What::Handling,
            'x' => match name {
                "Varnish:handling" | "Varnish:hitmiss" => What::Handling,
                "Varnish:time_firstbyte" => What::FirstByte,
                "VSL:Timestamp:Resp[2]" => What::Took(Unit::Seconds),
                _ => What::Other,
            },
            'T' => match name {
                "s" => What::Took(Unit::Seconds),
                "ms" => What::Took(Unit::Milliseconds),
                "us" => What::Took(Unit::Microseconds),
                _ => What::Other,
            },
            _ => What::Other,
        };
        return Some((what, &rest[letter.len_utf8()..]));
    }
    let letter = text.chars().next()?;
    let what = match letter {
        'r' => What::Request,
        'm' => What::Method,
        'U' => What::Url,
        'q' => What::Query,
        't' => What::Time,
        'v' | 'V' => What::Host,
        'h' | 'a' => What::Client,
        's' => What::Status,
        'b' | 'B' | 'O' => What::Bytes,
        'D' => What::Took(Unit::Microseconds),
        'T' => What::Took(Unit::Seconds),
        _ => What::Other,
    };
    Some((what, &text[letter.len_utf8()..]))
}

fn first_of_list<'a>(list: &Cow<'a, [u8]>) -> Option<Cow<'a, [u8]>> {
    let end = list.iter().position(|&b| b == b',').unwrap_or(list.len());
    let first = match list {
        Cow::Borrowed(list) => Cow::Borrowed(&list[..end]),
        Cow::Owned(list) => Cow::Owned(list[..end].to_vec()),
    };
    (!first.is_empty() && *first != *b"-").then_some(first)
}

/// A number of units; nginx writes fractions.
fn time_of(text: &[u8], unit: Unit) -> Option<Duration> {
    let number: f64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    Duration::try_from_secs_f64(number * unit.seconds()).ok()
}

fn epoch(text: &[u8], unit: i64) -> Option<EntryStamp> {
    let (whole, fraction) = std::str::from_utf8(text).ok()?.trim().split_once('.').map_or_else(
        || (std::str::from_utf8(text).unwrap_or_default().trim(), ""),
        |(whole, fraction)| (whole, fraction),
    );
    let ns = whole.parse::<i64>().ok().filter(|n| *n >= 0)?.checked_mul(unit)?;
    let is_whole = unit == 1_000_000_000 && fraction.is_empty();
    let more = fraction.parse::<f64>().map_or(0.0, |n| n / 10f64.powi(fraction.len() as i32) * unit as f64);
    Some(EntryStamp { ns: ns.checked_add(more as i64)?, is_whole_second: is_whole, zone: None })
}

#[cfg(test)]
mod tests {
    use logq::Handling;

    use super::*;
    use proptest::prelude::*;

    fn check(format: &str, line: &str, want: &str) {
        let s = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let got = match LogFormat::parse(format) {
            Err(error) => error,
            Ok(format) => match format.read(line.as_bytes()) {
                Err(skip) => format!("{skip:?}"),
                Ok(d) => {
                    let fields: String = d.fields.iter().map(|(n, v)| format!(" {}={}", s(n), s(v))).collect();
                    let host = d.host.as_deref().map_or_else(|| "-".into(), s);
                    format!(
                        "{} {host} {}{fields} @{}",
                        s(&d.method),
                        s(&d.target),
                        d.time.map_or(0, |t| t.ns / 1_000_000)
                    )
                }
            },
        };
        assert_eq!(got, want, "{format}");
    }

    #[test]
    fn formats() {
        let line = r#"h 1.2.3.4 [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 "x=\"1\"" "gzip""#;
        check(
            r#"%v %h %t "%r" %>s "%{Cookie}i" "%{Accept-Encoding}i""#,
            line,
            r#"GET h /a Cookie=x="1" Accept-Encoding=gzip @971211336000"#,
        );
        check("%t %U", "[10/Oct/2000:13:55:36 -0700] /a", "GET - /a @971211336000");
        check("%t %U", "[10/Oct/2000:13:55:36 -0700]x /a", "NotALine");
        check("%{sec}t %m %U%q %{Host}i", "7 HEAD /a?b www", "HEAD www /a?b @7000");
        check("%{%s}t %m %U%q", "7.25 HEAD /a?b", "HEAD - /a?b @7250");
        check("%U", "http://a/b", "GET a /b @0");
        check("%U|%q|%%", "/b|?c|%", "GET - /b?c @0");
        check("%h %s", "", "--log-format: neither %r nor %U is in it");
        check("%r %", "", "--log-format: what is \"%\"?");
        check("%h \"%r\" %s", "1 \"GET /", "Cut");
        check("x%U", "/a", "NotALine");
    }

    #[test]
    fn who_asked_and_what_was_sent() {
        let format = LogFormat::parse(r#"%h %{X}i "%r" %>s %b"#).unwrap();
        let entry = format.read(br#"192.0.2.1 x "GET / HTTP/1.1" 200 -"#).unwrap();
        assert_eq!((entry.client.as_deref(), entry.status, entry.bytes), (Some(&b"192.0.2.1"[..]), Some(200), Some(0)));
    }

    #[test]
    fn how_it_was_answered() {
        let told = |format: &str, line: &str| {
            let format = LogFormat::parse(format).unwrap();
            let entry = format.read(line.as_bytes()).unwrap();
            (entry.handling, entry.duration.map(|d| d.as_micros()), entry.backend_time.map(|d| d.as_micros()))
        };
        let varnish = r#""%r" %D %{Varnish:time_firstbyte}x %{Varnish:handling}x"#;
        assert_eq!(
            told(varnish, r#""GET / HTTP/1.1" 2500 0.002 miss"#),
            (Some(Handling::Miss), Some(2500), Some(2000))
        );
        assert_eq!(told(varnish, r#""GET / HTTP/1.1" 70 0.000060 hit"#), (Some(Handling::Hit), Some(70), Some(0)));
        assert_eq!(told(varnish, r#""GET / HTTP/1.1" - - -"#), (None, None, None));
        assert_eq!(
            told(r#""%r" %T %{X-Cache}o"#, r#""GET / HTTP/1.1" 0.25 EXPIRED"#),
            (Some(Handling::Miss), Some(250_000), Some(250_000))
        );
        assert_eq!(told(r#""%r" %{ms}T"#, r#""GET / HTTP/1.1" 3"#), (None, Some(3000), None));
        assert_eq!(told(r#""%r" %T"#, r#""GET / HTTP/1.1" -1e99"#), (None, None, None));
    }

    proptest! {
        #[test]
        fn nothing_can_hurt(format in "[%a-zU{}\" ]{0,20}", line in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(format) = LogFormat::parse(&format) {
                let _ = format.read(&line);
            }
            let usual = LogFormat::parse(r#"%h %t "%r" %U%q %{usec}t "%{Cookie}i""#).unwrap();
            let _ = usual.read(&line);
        }
    }
}
