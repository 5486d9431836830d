// SPDX-License-Identifier: BSD-2-Clause
//! Lines of web servers' logs: common, combined, with the virtual host in front, as varnishncsa, Squid and HAProxy write them.
//!
//! Nothing is declared: the line's own brackets and quotes say what is what, so files may mix formats. Other formats are
//! told by `--log-format` (see `format`).

use std::borrow::Cow;
use std::time::Duration;

use crate::entry::{AccessEntry, EntryStamp, LineReading, Skip};
use crate::{columns, syslog};

const MAX_WORDS: usize = 32;

/// A word with its brackets or braces; what stands between quotes, without them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word<'a> {
    Bare(&'a [u8]),
    Bracket(&'a [u8]),
    Quoted(&'a [u8]),
}

impl<'a> Word<'a> {
    fn text(self) -> &'a [u8] {
        match self {
            Word::Bare(text) | Word::Bracket(text) | Word::Quoted(text) => text,
        }
    }

    fn is_bracket(&self) -> bool {
        matches!(self, Word::Bracket(_))
    }

    fn is_quoted(&self) -> bool {
        matches!(self, Word::Quoted(_))
    }
}

pub fn parse(line: &[u8]) -> Result<AccessEntry<'_>, Skip> {
    let mut words = [Word::Bare(b""); MAX_WORDS];
    let n = split(syslog::message(line), &mut words)?;
    let words = &words[..n];
    let (time_at, request_at) = places(words).ok_or(Skip::NotALine)?;
    let mut entry = AccessEntry::default();
    set_time(&mut entry, words[time_at].text());
    let before = words[..time_at].iter().map(|word| word.text());
    let mut columns = [&b""[..]; MAX_WORDS];
    columns.iter_mut().zip(before).for_each(|(column, text)| *column = text);
    columns::read(&columns[..time_at], &mut entry)?;
    let after = &words[request_at + 1..];
    let is_haproxy = by_haproxy(&mut entry, &words[time_at + 1..request_at], after);
    if entry.status.is_none() {
        let mut numbers = after.iter().take_while(|word| matches!(word, Word::Bare(_))).map(|word| word.text());
        entry.status = numbers.next().and_then(digits);
        // A dash is no byte.
        entry.bytes = numbers.next().and_then(|text| if text == b"-" { Some(0) } else { digits(text) });
    }
    let request = words[request_at].text();
    set_request(&mut entry, if is_haproxy { unhash(request) } else { unescape(request) })?;
    // Squid doesn't escape quotes: where one is left over, nothing says where a header's value ends.
    let is_torn = after.iter().any(|word| matches!(word, Word::Bare(text) if text.contains(&b'"')));
    let mut quoted = after.iter().filter_map(|word| if let Word::Quoted(text) = word { Some(*text) } else { None });
    for name in [&b"Referer"[..], b"User-Agent"] {
        if let Some(value) = quoted.next().filter(|_| !is_torn && !is_haproxy) {
            entry.add_logged(name, unescape(value));
        }
    }
    Ok(entry)
}

/// The reason why a line can be read in two ways ([`Skip::Ambiguous`]).
pub fn doubt(line: &[u8]) -> String {
    let mut words = [Word::Bare(b""); MAX_WORDS];
    let n = split(syslog::message(line), &mut words).unwrap_or(0);
    let time_at = places(&words[..n]).map_or(0, |(time_at, _)| time_at);
    columns::doubt(&words[..time_at].iter().map(|word| word.text()).collect::<Vec<_>>())
}

/// The places of time and request. The time is the bracket right before the request: a host may be in brackets, too,
/// and a user's name may have brackets or be empty quotes. HAProxy has words between the two.
fn places(words: &[Word<'_>]) -> Option<(usize, usize)> {
    let side_by_side = words.windows(2).position(|pair| pair[0].is_bracket() && pair[1].is_quoted());
    if let Some(at) = side_by_side {
        return Some((at, at + 1));
    }
    let first = words.iter().position(Word::is_bracket)?;
    let request = first + words[first..].iter().position(Word::is_quoted)?;
    Some((words[..request].iter().rposition(Word::is_bracket)?, request))
}

/// Takes what HAProxy says around the request, which it writes in its own way: `option httplog` has
/// `CLIENT:PORT [TIME] FRONTEND BACKEND/SERVER TIMERS STATUS BYTES ... "REQUEST"`, `option httplog clf` has
/// `... "REQUEST" STATUS BYTES "" "" PORT MILLISECONDS "FRONTEND" ...`. False: another program wrote the line.
fn by_haproxy<'a>(entry: &mut AccessEntry<'a>, between: &[Word<'a>], after: &[Word<'a>]) -> bool {
    if let [Word::Bare(_), Word::Bare(server), Word::Bare(timers), Word::Bare(status), Word::Bare(bytes), ..] = between
        && server.contains(&b'/')
        && timers.iter().filter(|b| **b == b'/').count() >= 4
    {
        (entry.status, entry.bytes) = (digits(status), digits(bytes));
        let total = timers.rsplit(|b| *b == b'/').next().and_then(digits);
        entry.duration = total.map(Duration::from_millis);
        if let Some(Cow::Borrowed(client)) = entry.client
            && let Some(colon) = client.iter().rposition(|&b| b == b':')
        {
            entry.client = Some(Cow::Borrowed(&client[..colon]));
        }
        return true;
    }
    let is_number = |word: &Word<'_>| matches!(word, Word::Bare(text) if digits::<u64>(text).is_some());
    matches!(after, [_, _, Word::Quoted(b""), Word::Quoted(b""), port, ms, Word::Quoted(_), ..] if is_number(port) && is_number(ms))
}

/// Takes a time; one without a zone is as the clock of the log's machine showed it.
pub fn set_time(entry: &mut AccessEntry<'_>, text: &[u8]) {
    let inner = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]")).unwrap_or(text);
    // A user's name may have begun a bracket.
    let inner = inner.rsplit(|b| *b == b'[').next().unwrap_or(inner);
    entry.time = parse_time(inner);
    if let Some(time) = &mut entry.time
        && time.zone.is_none()
    {
        time.zone = Some(0);
        entry.assume(LineReading::NoZone);
    }
}

pub fn digits<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}

/// Splits at blanks, except in brackets and quotes: how many words there are.
fn split<'a>(line: &'a [u8], words: &mut [Word<'a>]) -> Result<usize, Skip> {
    let (mut at, mut n) = (0, 0);
    while n < words.len() {
        at += line[at..].iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\r')).count();
        let Some(&first) = line.get(at) else { break };
        let rest = &line[at + 1..];
        let (word, next) = match first {
            b'[' => match memchr::memchr(b']', rest).map(|end| at + end + 2) {
                Some(end) if is_time(line, at, end) => (Word::Bracket(&line[at..end]), end),
                None if !words[..n].iter().any(Word::is_quoted) => return Err(Skip::Cut),
                Some(_) | None => bare(line, at),
            },
            b'"' => match end_of_quoted(rest) {
                Some(end) => (Word::Quoted(&rest[..end]), at + end + 2),
                // Squid's: it ends a header that has quotes of its own.
                None if at > 0 && !line[at - 1].is_ascii_whitespace() && words[..n].iter().any(Word::is_quoted) => {
                    bare(line, at)
                }
                None => return Err(Skip::Cut),
            },
            // Headers that HAProxy captured, which have blanks and quotes, but no brace.
            b'{' if let Some(end) = memchr::memchr(b'}', rest) => (Word::Bare(&line[at..at + end + 2]), at + end + 2),
            _ => bare(line, at),
        };
        words[n] = word;
        n += 1;
        at = next;
    }
    Ok(n)
}

/// True if the text in brackets can be a time: an address, or the beginning of `[2001:db8::1]:80`, is a host.
fn is_time(line: &[u8], at: usize, end: usize) -> bool {
    let is_whole = matches!(line.get(end), None | Some(b' ' | b'\t' | b'\r' | b'"'));
    is_whole && networks::address(&line[at + 1..end - 1]).is_none()
}

fn bare(line: &[u8], at: usize) -> (Word<'_>, usize) {
    let end = line[at..].iter().position(|b| matches!(b, b' ' | b'\t')).map_or(line.len(), |n| at + n);
    (Word::Bare(&line[at..end]), end)
}

/// The offset of a quoted word's end. Squid writes a request's and a header's own quotes as they are: the closing one
/// is followed by a blank, and that of a request by no protocol.
fn end_of_quoted(text: &[u8]) -> Option<usize> {
    let first = closing_quote(text)?;
    let is_last = |at: &usize| matches!(text.get(at + 1), None | Some(b' ' | b'\t' | b'\r'));
    let mut quotes = std::iter::successors(Some(first), |at| Some(at + 1 + closing_quote(text.get(at + 1..)?)?));
    let end = quotes.find(is_last).unwrap_or(first);
    let protocol = text[end + 1..].strip_prefix(b" HTTP/").and_then(|rest| closing_quote(rest).map(|n| &rest[..n]));
    match protocol {
        Some(version) if version.iter().all(|b| b.is_ascii_digit() || *b == b'.') => {
            Some(end + 1 + b" HTTP/".len() + version.len())
        }
        _ => Some(end),
    }
}

/// The offset of the quote that no backslash stands before.
pub fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Undoes what logs do to quotes, backslashes, control characters and bytes above ASCII.
pub fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr(b'\\', text) else { return Cow::Borrowed(text) };
    let mut out = text[..first].to_vec();
    let mut rest = &text[first..];
    while let Some((&b, after)) = rest.split_first() {
        if b != b'\\' {
            out.push(b);
            rest = after;
            continue;
        }
        let (byte, used) = match after {
            [b'x' | b'X', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (nibble(*high) << 4 | nibble(*low), 3)
            }
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b't', ..] => (b'\t', 1),
            [other, ..] => (*other, 1),
            [] => (b'\\', 0),
        };
        out.push(byte);
        rest = &after[used..];
    }
    Cow::Owned(out)
}

fn nibble(digit: u8) -> u8 {
    (digit as char).to_digit(16).unwrap_or(0) as u8
}

/// Undoes HAProxy's escapes: `#22` is a quote.
fn unhash(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'#') {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some((&b, after)) = rest.split_first() {
        match after {
            [high, low, behind @ ..] if b == b'#' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.push(nibble(*high) << 4 | nibble(*low));
                rest = behind;
            }
            _ => {
                out.push(b);
                rest = after;
            }
        }
    }
    Cow::Owned(out)
}

pub fn set_request<'a>(entry: &mut AccessEntry<'a>, request: Cow<'a, [u8]>) -> Result<(), Skip> {
    let first = request.iter().position(|&b| b == b' ').ok_or(Skip::NoRequest)?;
    let last = request.iter().rposition(|&b| b == b' ').filter(|&at| request[at + 1..].starts_with(b"HTTP/"));
    let end = last.unwrap_or(request.len());
    // `GET HTTP/1.1` has no target.
    if first == 0
        || first >= end
        || &request[..first] == b"-"
        || !request[..first].iter().all(|b| b.is_ascii_alphabetic() || *b == b'-')
    {
        return Err(Skip::NoRequest);
    }
    let (method, target) = match request {
        Cow::Borrowed(request) => (Cow::Borrowed(&request[..first]), Cow::Borrowed(&request[first + 1..end])),
        Cow::Owned(request) => (Cow::Owned(request[..first].to_vec()), Cow::Owned(request[first + 1..end].to_vec())),
    };
    entry.method = method;
    let host = entry.host.take();
    entry.set_url(target)?;
    entry.host = entry.host.take().or(host);
    Ok(())
}

/// `10/Oct/2000:13:55:36 -0700`, with a fraction of the second or without; or `2000-10-10T13:55:36-07:00`.
pub fn parse_time(text: &[u8]) -> Option<EntryStamp> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let (date, clock) = if text.as_bytes().get(4) == Some(&b'-') {
        let (date, clock) = text.split_once(['T', ' '])?;
        let mut parts = date.split('-');
        ((number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?), clock)
    } else {
        let (date, clock) = text.split_once(':')?;
        let mut parts = date.split('/');
        let day = number(parts.next()?)?;
        let name = parts.next()?;
        let month = MONTHS.iter().position(|m| m.eq_ignore_ascii_case(name))? as i64 + 1;
        ((number(parts.next()?)?, month, day), clock)
    };
    let (year, month, day) = date;
    if !(1970..=2200).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let zone_at = clock.find(['+', '-', 'Z', ' ']).unwrap_or(clock.len());
    let (clock, zone) = clock.split_at(zone_at);
    let (clock, fraction) = clock.split_once(['.', ',']).unwrap_or((clock, ""));
    let mut parts = clock.split(':');
    let (h, m, s) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    if h > 23 || m > 59 || s > 60 || parts.next().is_some() {
        return None;
    }
    let zone = zone.trim();
    let ahead = zone_seconds(zone)?;
    let seconds = days(year, month, day) * 86_400 + h * 3600 + m * 60 + s - ahead;
    let digits: String = fraction.chars().take_while(char::is_ascii_digit).chain("000000000".chars()).take(9).collect();
    Some(EntryStamp {
        ns: seconds * 1_000_000_000 + digits.parse::<i64>().ok()?,
        is_whole_second: fraction.is_empty(),
        zone: i32::try_from(ahead).ok().filter(|_| !zone.is_empty()),
    })
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

fn number(text: &str) -> Option<i64> {
    if text.is_empty() || text.len() > 4 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

fn zone_seconds(zone: &str) -> Option<i64> {
    if zone.is_empty() || zone == "Z" {
        return Some(0);
    }
    let digits: String = zone.get(1..)?.chars().filter(|c| *c != ':').collect();
    let offset = number(digits.get(..2)?)? * 3600 + number(digits.get(2..4)?)? * 60;
    Some(if zone.starts_with('-') { -offset } else { offset })
}

/// Days since 1970-01-01 (years begin in March, so that the day that is sometimes there comes last).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The parts that are taken from a line, as one line.
    pub fn shown(line: &[u8]) -> String {
        let s = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        match parse(line) {
            Err(skip) => format!("{skip:?}"),
            Ok(d) => {
                let fields: String = d.fields.iter().map(|(n, v)| format!(" {}={}", s(n), s(v))).collect();
                let host = d.host.as_deref().map_or_else(|| "-".into(), s);
                let time = d.time.map_or(0, |t| t.ns / 1_000_000_000);
                format!("{} {host} {}{fields} @{time}", s(&d.method), s(&d.target))
            }
        }
    }

    fn check(line: &str, want: &str) {
        assert_eq!(shown(line.as_bytes()), want, "{line}");
    }

    const TIME: &str = "[10/Oct/2000:13:55:36 -0700]";

    #[test]
    fn who_asked_and_what_was_sent() {
        let told = |line: &str| {
            let entry = parse(line.as_bytes()).expect("a line");
            let client = entry.client.map(|client| String::from_utf8_lossy(&client).into_owned());
            (client.unwrap_or_default(), entry.status, entry.bytes)
        };
        let ours = "192.0.2.1".to_owned();
        assert_eq!(
            told(&format!(r#"192.0.2.1 - - {TIME} "GET / HTTP/1.0" 200 2326"#)),
            (ours.clone(), Some(200), Some(2326))
        );
        assert_eq!(
            told(&format!(r#"a.nz:80 192.0.2.1 - x {TIME} "GET / HTTP/1.0" 304 - "-" "-""#)),
            (ours, Some(304), Some(0))
        );
        assert_eq!(told(&format!(r#"- - - {TIME} "GET / HTTP/1.0" "200" 7"#)), (String::new(), None, None));
        assert_eq!(
            told(&format!(r#"2001:db8::1 - - {TIME} "GET / HTTP/1.0" -1 99999999999999999999"#)),
            ("2001:db8::1".into(), None, None)
        );
    }

    #[test]
    fn lines_of_servers() {
        let common = r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326"#;
        check(common, "GET - /apache_pb.gif @971211336");
        check(
            &format!(r#"{common} "http://r/" "Mozilla/4.08 [en] (Win98; I)""#),
            "GET - /apache_pb.gif Referer=http://r/ User-Agent=Mozilla/4.08 [en] (Win98; I) @971211336",
        );
        check(&format!("www.a.nz:80 {common}"), "GET www.a.nz /apache_pb.gif @971211336");
        check(&format!("www.a.nz:8080 {common}"), "GET www.a.nz:8080 /apache_pb.gif @971211336");
        check(&format!(r#"::1 - John Smith {TIME} "HEAD / HTTP/1.1" 200 -"#), "HEAD - / @971211336");
        check(
            &format!(r#"::1 - - {TIME} "GET http://b.nz:81/x?y HTTP/1.1" 304 0 "-" "a\"b\\c\x41\xzz""#),
            r#"GET b.nz:81 /x?y User-Agent=a"b\cAxzz @971211336"#,
        );
    }

    #[test]
    fn lines_that_give_no_request() {
        check("", "NotALine");
        check("hello", "NotALine");
        check(&format!(r#"::1 - - {TIME} "-" 408 0"#), "NoRequest");
        check(&format!(r#"::1 - - {TIME} "\x16\x03\x01" 400 0"#), "NoRequest");
        check(&format!(r#"::1 - - {TIME} "GET HTTP/1.1" 400 0"#), "NoRequest");
        check(&format!(r#"::1 - - {TIME} "GET /a"#), "Cut");
        check(&format!(r#"::1 - - {TIME} "GET /a\"#), "Cut");
        check("::1 - - [10/Oct/2000:13", "Cut");
        check(&format!(r#"::1 - - {TIME} "GET /a b HTTP/1.1" 400 0"#), "BadTarget");
        check(&format!(r#"::1 - - {TIME} "GET /\0 HTTP/1.1" 400 0"#), "GET - /0 @971211336");
        check(&format!(r#"::1 - - {TIME} "GET /\x00 HTTP/1.1" 400 0"#), "BadTarget");
        check(r#"::1 - - [no time] "GET /a HTTP/1.1" 400 0"#, "GET - /a @0");
    }

    #[test]
    fn times() {
        let ns = |text: &str| parse_time(text.as_bytes()).map(|t| (t.ns, t.is_whole_second));
        assert_eq!(ns("01/Jan/1970:00:00:00 +0000"), Some((0, true)));
        assert_eq!(ns("29/Feb/2000:12:00:00 +0000"), Some((951_825_600_000_000_000, true)));
        assert_eq!(ns("01/Mar/2024:00:00:00.25 +0100"), Some((1_709_247_600_250_000_000, false)));
        assert_eq!(ns("2024-03-01T00:00:00+01:00"), Some((1_709_247_600_000_000_000, true)));
        assert_eq!(ns("2024-03-01T00:00:00.123456789Z"), Some((1_709_251_200_123_456_789, false)));
        for bad in
            ["", "10/Oct/2000", "99/Foo/2000:00:00:00 +0000", "10/Oct/9999:00:00:00 +0000", "10/Oct/2000:25:00:00"]
        {
            assert_eq!(ns(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_line_can_hurt(line in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&line);
        }

        #[test]
        fn no_damage_can_hurt(at in 0usize..120, byte: u8, cut in 0usize..120) {
            let good = br#"a.nz:80 127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a?b HTTP/1.1" 200 5 "http://r/" "M \"x\" \x41""#;
            let mut line = good.to_vec();
            line.insert(at.min(line.len()), byte);
            line.truncate(cut.max(1));
            if let Ok(entry) = parse(&line) {
                prop_assert!(!entry.target.iter().any(|b| *b <= b' '));
                prop_assert!(!entry.method.is_empty());
            }
        }

        #[test]
        fn escapes_are_undone(text in proptest::collection::vec(any::<u8>(), 0..60)) {
            let escaped: Vec<u8> = text.iter().flat_map(|&b| match b {
                b'"' | b'\\' => vec![b'\\', b],
                32..=126 => vec![b],
                _ => format!("\\x{b:02x}").into_bytes(),
            }).collect();
            prop_assert_eq!(&*unescape(&escaped), &text[..]);
            let quoted = [&escaped[..], b"\" rest"].concat();
            prop_assert_eq!(closing_quote(&quoted), Some(escaped.len()));
        }
    }
}
