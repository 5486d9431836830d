// SPDX-License-Identifier: BSD-2-Clause
//! Lines of web servers' logs: common, combined, with the virtual host in front, as varnishncsa writes them.
//!
//! Nothing is declared: the line's own brackets and quotes say what is what, so files may mix formats. Other formats are
//! told by `--log-format` (see `format`).

use std::borrow::Cow;

use crate::entry::{Entry, Skip, Stamp};

/// Words of a line that are looked at.
const MAX_WORDS: usize = 32;

#[derive(Clone, Copy, Debug)]
enum Word<'a> {
    Bare(&'a [u8]),
    Bracket(&'a [u8]),
    Quoted(&'a [u8]),
}

/// Reads a line.
///
/// # Errors
/// Why it gives no request.
pub fn parse(line: &[u8]) -> Result<Entry<'_>, Skip> {
    let mut words = [Word::Bare(b""); MAX_WORDS];
    let n = split(line, &mut words)?;
    let words = &words[..n];
    let at = words.iter().position(|w| matches!(w, Word::Bracket(_))).ok_or(Skip::NotALine)?;
    let Word::Bracket(time) = words[at] else { return Err(Skip::NotALine) };
    let mut quoted = words[at + 1..].iter().filter_map(|w| if let Word::Quoted(text) = w { Some(*text) } else { None });
    let request = quoted.next().ok_or(Skip::NotALine)?;
    let (host, client) = names(&words[..at]);
    let [host, client] = [host, client].map(|name| name.map(Cow::Borrowed));
    let mut entry = Entry { time: parse_time(time), host, client, ..Entry::default() };
    let after = words[at + 1..].iter().skip_while(|word| !matches!(word, Word::Quoted(_))).skip(1);
    let mut numbers = after.map_while(|word| if let Word::Bare(text) = word { Some(*text) } else { None }).fuse();
    entry.status = numbers.next().and_then(digits);
    // A dash is no byte.
    entry.bytes = numbers.next().and_then(|text| if text == b"-" { Some(0) } else { digits(text) });
    set_request(&mut entry, unescape(request))?;
    if let Some(referer) = quoted.next() {
        entry.add_logged(b"Referer", unescape(referer));
    }
    if let Some(agent) = quoted.next() {
        entry.add_logged(b"User-Agent", unescape(agent));
    }
    Ok(entry)
}

/// Virtual host and client. A virtual host may stand before client, ident and user. A user's name may have blanks, but the
/// ident before it is `-`.
fn names<'a>(before: &[Word<'a>]) -> (Option<&'a [u8]>, Option<&'a [u8]>) {
    match before {
        [Word::Bare(vhost), Word::Bare(client), _, _, ..] if *client != b"-" && *vhost != b"-" => {
            let plain = vhost.strip_suffix(b":80").or_else(|| vhost.strip_suffix(b":443"));
            (Some(plain.unwrap_or(vhost)), Some(client))
        }
        [Word::Bare(client), ..] if *client != b"-" => (None, Some(client)),
        _ => (None, None),
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
            b'[' => {
                let end = memchr::memchr(b']', rest).ok_or(Skip::Cut)?;
                (Word::Bracket(&rest[..end]), at + end + 2)
            }
            b'"' => {
                let end = closing_quote(rest).ok_or(Skip::Cut)?;
                (Word::Quoted(&rest[..end]), at + end + 2)
            }
            _ => {
                let end = line[at..].iter().position(|b| matches!(b, b' ' | b'\t')).map_or(line.len(), |n| at + n);
                (Word::Bare(&line[at..end]), end)
            }
        };
        words[n] = word;
        n += 1;
        at = next;
    }
    Ok(n)
}

/// Where the quote is that no backslash stands before.
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

/// Takes a request line: method, target, protocol.
///
/// # Errors
/// It is none.
pub fn set_request<'a>(entry: &mut Entry<'a>, request: Cow<'a, [u8]>) -> Result<(), Skip> {
    let first = request.iter().position(|&b| b == b' ').ok_or(Skip::NoRequest)?;
    let last = request.iter().rposition(|&b| b == b' ').filter(|&at| request[at + 1..].starts_with(b"HTTP/"));
    let end = last.unwrap_or(request.len());
    // `GET HTTP/1.1` has no target.
    if first == 0 || first >= end || !request[..first].iter().all(|b| b.is_ascii_alphabetic() || *b == b'-') {
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
pub fn parse_time(text: &[u8]) -> Option<Stamp> {
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
    Some(Stamp {
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

    /// What is taken from a line, in one line.
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

        /// Damage to a good line: bytes put in, taken out, the line cut.
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

        /// What a log's writer escaped is what was there before.
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
