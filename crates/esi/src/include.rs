// SPDX-License-Identifier: BSD-2-Clause
//! What an `<esi:include>` asks for.

use crate::{Complaint, Features};

/// One include, its URL decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EsiInclude {
    /// Host of an absolute URL, for the fragment's Host field; `None` keeps the parent's.
    pub host: Option<Vec<u8>>,
    /// The URL's path and query. Relative ones are already resolved against the parent's URL when they come out of a program; from the
    /// parser they come as they are, without a leading `/`, and may be a query alone or nothing.
    pub url: Vec<u8>,
    /// `onerror="continue"`: a failed fragment is left out. Else it breaks the delivery, if the feature
    /// `esi_include_onerror` is on.
    pub continue_on_error: bool,
}

impl EsiInclude {
    /// Takes src apart, as HTML and RFC 3986 have it: character references are decoded, then the fragment is dropped. A warning may come
    /// with a good include.
    pub(crate) fn from_src(
        text: &[u8],
        continue_on_error: bool,
        features: Features,
    ) -> (Result<Self, Complaint>, Option<Complaint>) {
        let decoded = decode(text);
        let src = decoded.split(|&c| c == b'#').next().unwrap_or_default();
        let (rest, warning) = if let Some(rest) = behind(src, b"http://").or_else(|| behind(src, b"//")) {
            (Some(rest), None)
        } else if let Some(rest) = behind(src, b"https://") {
            if !features.ignore_https {
                return (Err(Complaint::HttpsIgnored), None);
            }
            (Some(rest), Some(Complaint::HttpsTreated))
        } else {
            (None, None)
        };
        // Blanks and control characters have no place in a request line.
        if src.iter().any(|&c| c <= b' ' || c == 0x7f) {
            return (Err(Complaint::InvalidUrl), warning);
        }
        let (host, path) = match rest {
            None => (None, src.to_vec()),
            Some(rest) => match rest.iter().position(|&c| matches!(c, b'/' | b'?')) {
                None => return (Err(Complaint::InvalidUrl), warning),
                Some(end) => {
                    let (host, path) = rest.split_at(end);
                    let root: &[u8] = if path.starts_with(b"/") { b"" } else { b"/" };
                    (Some(host.to_vec()), [root, path].concat())
                }
            },
        };
        let url = if path.starts_with(b"/") { without_dot_segments(&path) } else { path };
        (Ok(Self { host, url, continue_on_error }), warning)
    }

    /// True if the URL is to be put under the parent's directory.
    pub(crate) fn is_relative(&self) -> bool {
        self.host.is_none() && self.url.first() != Some(&b'/')
    }

    /// The URL where it goes by the page's own path: a query alone takes the place of the page's, and nothing (or a fragment, which was
    /// dropped) is the page (RFC 3986 5.2.2).
    pub(crate) fn of_same_path(&self, page: &[u8]) -> Option<Vec<u8>> {
        if self.host.is_some() {
            return None;
        }
        match self.url.first() {
            None => Some(page.to_vec()),
            Some(b'?') => Some([page.split(|&c| c == b'?').next().unwrap_or(page), &self.url].concat()),
            Some(_) => None,
        }
    }
}

/// The text behind a scheme and two slashes. A scheme has any case (RFC 3986 3.1).
fn behind<'a>(src: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = src.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

const ENTITIES: [(&[u8], u8); 5] =
    [(b"&apos;", b'\''), (b"&quot;", b'"'), (b"&lt;", b'<'), (b"&gt;", b'>'), (b"&amp;", b'&')];

fn decode(mut text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    while let Some((&first, rest)) = text.split_first() {
        if let Some((character, after)) = numeric_reference(text) {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            text = after;
            continue;
        }
        let entity = ENTITIES.iter().find(|(name, _)| text.starts_with(name));
        let (byte, after) = entity.map_or((first, rest), |(name, byte)| (*byte, &text[name.len()..]));
        out.push(byte);
        text = after;
    }
    out
}

/// The character of `&#38;` or `&#x26;`, and what is behind it.
fn numeric_reference(text: &[u8]) -> Option<(char, &[u8])> {
    /// Digits of the highest character, and some zeros.
    const MOST_DIGITS: usize = 10;
    let rest = text.strip_prefix(b"&#")?;
    let (digits, radix) = match rest.strip_prefix(b"x").or_else(|| rest.strip_prefix(b"X")) {
        Some(digits) => (digits, 16),
        None => (rest, 10),
    };
    let end = digits.iter().take(MOST_DIGITS + 1).position(|&c| c == b';')?;
    let is_number = end > 0 && digits[..end].iter().all(|c| char::from(*c).is_digit(radix));
    let number = std::str::from_utf8(&digits[..end]).ok().filter(|_| is_number)?;
    Some((char::from_u32(u32::from_str_radix(number, radix).ok()?)?, &digits[end + 1..]))
}

/// A URL whose path goes on where `.` and `..` lead (RFC 3986 5.2.4), at most up to the root.
pub(crate) fn without_dot_segments(url: &[u8]) -> Vec<u8> {
    let len = url.iter().position(|&c| c == b'?').unwrap_or(url.len());
    let (path, query) = url.split_at(len);
    if !path.windows(2).any(|pair| pair == b"/.") {
        return url.to_vec();
    }
    let (mut kept, mut segments) = (Vec::new(), path.split(|&c| c == b'/').peekable());
    // In front of the first slash there is nothing.
    kept.extend(segments.next());
    while let Some(segment) = segments.next() {
        match segment {
            b"." => {}
            b".." if kept.len() > 1 => drop(kept.pop()),
            b".." => {}
            _ => {
                kept.push(segment);
                continue;
            }
        }
        if segments.peek().is_none() {
            kept.push(b"");
        }
    }
    [&kept.join(&b'/')[..], query].concat()
}

/// The directory that relative URLs of a page are under: its URL up to the last `/` before the query, without it. A URL
/// without any is one itself, as in varnishd.
pub(crate) fn directory(url: &[u8]) -> &[u8] {
    let path = url.split(|&c| c == b'?').next().unwrap_or(url);
    path.iter().rposition(|&c| c == b'/').map_or(path, |slash| &path[..slash])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(src: &str, want: Result<(Option<&str>, &str), Complaint>) {
        let got = EsiInclude::from_src(src.as_bytes(), false, Features::default()).0;
        let text = |v: &[u8]| String::from_utf8_lossy(v).into_owned();
        let got = got.map(|i| (i.host.map(|h| text(&h)), text(&i.url)));
        assert_eq!(got, want.map(|(h, u)| (h.map(String::from), u.to_string())), "{src}");
    }

    #[test]
    fn sources() {
        check("/a?b=c&amp;d=&quot;e&apos;", Ok((None, "/a?b=c&d=\"e'")));
        check("http://h:80/a&lt;&gt;", Ok((Some("h:80"), "/a<>")));
        check("http://h", Err(Complaint::InvalidUrl));
        check("http://h?q=/a/../b", Ok((Some("h"), "/?q=/a/../b")));
        check("//h:80?", Ok((Some("h:80"), "/?")));
        check("?q#f", Ok((None, "?q")));
        check("#f", Ok((None, "")));
        check("https://h/", Err(Complaint::HttpsIgnored));
        check("HTTP://h/a", Ok((Some("h"), "/a")));
        check("HttpS://h/", Err(Complaint::HttpsIgnored));
        check("a/b&nope;&am", Ok((None, "a/b&nope;&am")));
        check("/\u{1}", Err(Complaint::InvalidUrl));
        check("", Ok((None, "")));
        check("/f#x", Ok((None, "/f")));
        check("/f?a#x?y", Ok((None, "/f?a")));
        check("http://h/f#/g", Ok((Some("h"), "/f")));
        check("//h:80/p?q", Ok((Some("h:80"), "/p?q")));
        check("//h", Err(Complaint::InvalidUrl));
        check("/a?b=1&#38;c=2&#x26;d=&#X0026;", Ok((None, "/a?b=1&c=2&d=&")));
        check("/&#228;&#x20ac;", Ok((None, "/\u{e4}\u{20ac}")));
        check("/a&#35;b", Ok((None, "/a")));
        check("/&#;&#x;&#38&#xg;&#+1;&#1114112;", Ok((None, "/&")));
        for made in ["/a&#10;b", "/a&#32;b", "/a&#x7f;b", "/&#0;"] {
            check(made, Err(Complaint::InvalidUrl));
        }
        check("../b", Ok((None, "../b")));
    }

    #[test]
    fn dot_segments() {
        let check = |url: &str, want: &str| {
            assert_eq!(without_dot_segments(url.as_bytes()), want.as_bytes(), "{url}");
        };
        check("/a/b/c/./../../g", "/a/g");
        check("/a/../../../g?x=/../y", "/g?x=/../y");
        check("/a/..", "/");
        check("/a/b/.", "/a/b/");
        check("/..", "/");
        check("/a/..b/.c/...", "/a/..b/.c/...");
        check("/a//../b", "/a/b");
    }

    #[test]
    fn directories() {
        let check = |url: &str, want: &str| assert_eq!(directory(url.as_bytes()), want.as_bytes(), "{url}");
        check("/", "");
        check("/a/b", "/a");
        check("/a/b/?c=/d", "/a/b");
        check("bar", "bar");
        check("bar?c=/d", "bar");
    }
}
