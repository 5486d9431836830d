// SPDX-License-Identifier: BSD-2-Clause
//! Lines of a list of URLs: `URL`, `METHOD URL`, and after tabs fields (`Name: value`). `#` begins a comment.

use std::borrow::Cow;

use crate::entry::{AccessEntry, Skip};

pub fn is_url_line(line: &[u8]) -> bool {
    let first = line.split(|b| b.is_ascii_whitespace()).next().unwrap_or_default();
    is_url(first) || (!first.is_empty() && first.iter().all(u8::is_ascii_uppercase) && is_url(second(line)))
}

fn second(line: &[u8]) -> &[u8] {
    line.split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty()).nth(1).unwrap_or_default()
}

fn is_url(word: &[u8]) -> bool {
    let has = |scheme: &[u8]| word.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme));
    word.starts_with(b"/") || has(b"http://") || has(b"https://")
}

/// Reads a line; None for one that says nothing.
///
/// # Errors
/// Why it gives no request.
pub fn parse(line: &[u8]) -> Result<Option<AccessEntry<'_>>, Skip> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    let mut parts = line.split(|b| *b == b'\t');
    let first = parts.next().unwrap_or_default().trim_ascii();
    let mut words = first.splitn(2, |b| *b == b' ');
    let (word, rest) = (words.next().unwrap_or_default(), words.next().map(<[u8]>::trim_ascii));
    let (method, url) = match rest {
        Some(url) if !is_url(word) && word.iter().all(u8::is_ascii_alphabetic) => (word, url),
        Some(_) => return Err(Skip::BadTarget),
        None => (&b"GET"[..], word),
    };
    let mut entry = AccessEntry { method: Cow::Borrowed(method), ..AccessEntry::default() };
    // A list may name hosts without the scheme, as siege's do.
    let is_bare_host = url.first().is_some_and(u8::is_ascii_alphanumeric) && !is_url(url);
    let url = if is_bare_host { Cow::Owned([b"http://", url].concat()) } else { Cow::Borrowed(url) };
    entry.set_url(url)?;
    for field in parts {
        let Some(colon) = field.iter().position(|b| *b == b':') else { return Err(Skip::NotALine) };
        let (name, value) = (field[..colon].trim_ascii(), field[colon + 1..].trim_ascii());
        if name.is_empty() || !name.iter().all(|&b| message::chars::is_tchar(b)) {
            return Err(Skip::NotALine);
        }
        if name.eq_ignore_ascii_case(b"host") {
            entry.host = Some(Cow::Borrowed(value));
        } else {
            entry.fields.push((Cow::Borrowed(name), Cow::Borrowed(value)));
        }
    }
    Ok(Some(entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(line: &str, want: &str) {
        let s = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let got = match parse(line.as_bytes()) {
            Err(skip) => format!("{skip:?}"),
            Ok(None) => "nothing".into(),
            Ok(Some(d)) => {
                let fields: String = d.fields.iter().map(|(n, v)| format!(" {}={}", s(n), s(v))).collect();
                format!("{} {} {}{fields}", s(&d.method), d.host.as_deref().map_or_else(|| "-".into(), s), s(&d.target))
            }
        };
        assert_eq!(got, want, "{line}");
    }

    #[test]
    fn lines_of_lists() {
        check("", "nothing");
        check("# a comment", "nothing");
        check("/a", "GET - /a");
        check("http://a.nz/b?c#d\r", "GET a.nz /b?c");
        check("www.a.nz/b", "GET www.a.nz /b");
        check("HEAD http://a/b", "HEAD a /b");
        check("/a\tHost: h\tCookie: x=y; z", "GET h /a Cookie=x=y; z");
        check("/a b", "BadTarget");
        check("/a\tnonsense", "NotALine");
        check("/a\tX Y: 1", "NotALine");
    }

    #[test]
    fn lists_are_told_from_logs() {
        assert!(is_url_line(b"/a") && is_url_line(b"http://a/") && is_url_line(b"POST /x"));
        assert!(!is_url_line(b"127.0.0.1 - - [x] \"GET /\""));
        assert!(!is_url_line(b"") && !is_url_line(b"hello"));
    }

    proptest! {
        #[test]
        fn no_line_can_hurt(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (is_url_line(&line), parse(&line));
        }
    }
}
