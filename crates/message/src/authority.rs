// SPDX-License-Identifier: BSD-2-Clause
//! Host and request targets (RFC 3986 3.2, RFC 9112 3.2).

use crate::chars::alphanumeric_and;
use crate::{Head, LostHeader, names};

/// True if `text` is `host [":" port]`: a registered name, an IPv4 address or a bracketed IPv6 address; the port is
/// digits up to 65535 and may be missing after its colon. User names aren't taken, nor is a comma, which the grammar
/// would allow in a name: it is how a list of hosts looks. Empty is valid as a Host field (RFC 9112 3.2).
pub fn is_valid(text: &[u8]) -> bool {
    // Nearly all are a name of plain letters. Without an early exit, which costs more than it saves.
    if text.iter().fold(true, |plain, &c| plain & PLAIN[usize::from(c)]) {
        return true;
    }
    let (host, port) = match text.strip_prefix(b"[") {
        Some(rest) => {
            let Some(end) = memchr::memchr(b']', rest) else { return false };
            if !is_ip_literal(&rest[..end]) {
                return false;
            }
            (None, &rest[end + 1..])
        }
        None => {
            let end = memchr::memchr(b':', text).unwrap_or(text.len());
            (Some(&text[..end]), &text[end..])
        }
    };
    host.is_none_or(is_reg_name) && is_port(port)
}

/// Characters that a registered name may have without an escape (RFC 3986 3.2.2), except the comma.
static PLAIN: [bool; 256] = alphanumeric_and(b"-._~!$&'()*+;=");

fn is_port(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b':', digits @ ..] => digits.is_empty() || crate::chars::exact_number(digits).is_some_and(|n| n <= 65_535),
        _ => false,
    }
}

fn is_ip_literal(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|t| t.parse::<std::net::Ipv6Addr>().is_ok())
}

fn is_reg_name(text: &[u8]) -> bool {
    let mut rest = text;
    while let [c, after @ ..] = rest {
        rest = match c {
            b'%' => match after {
                [a, b, after @ ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => after,
                _ => return false,
            },
            &c if PLAIN[usize::from(c)] => after,
            _ => return false,
        };
    }
    true
}

/// A request target by its form (RFC 9112 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetForm<'a> {
    /// The origin form, `/path?query`.
    Origin,
    /// `http://authority/path?query`: authority, and what follows it (empty, or from `/` or `?` on).
    Absolute {
        /// Host, and port if given.
        authority: &'a [u8],
        /// Path and query, or empty.
        rest: &'a [u8],
    },
    /// Asterisk form, `*` alone.
    Asterisk,
    /// Anything else: `host:port` of CONNECT, another scheme, a path without slash.
    Other,
}

/// Tells the form of a request target. `https`: take `https://` for absolute too.
pub fn target(url: &[u8], https: bool) -> TargetForm<'_> {
    let scheme_len = |scheme: &[u8]| {
        url.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme)).then_some(scheme.len())
    };
    match url {
        [b'/', ..] => return TargetForm::Origin,
        b"*" => return TargetForm::Asterisk,
        _ => {}
    }
    let Some(at) = scheme_len(b"http://").or_else(|| if https { scheme_len(b"https://") } else { None }) else {
        return TargetForm::Other;
    };
    let after = &url[at..];
    let end = memchr::memchr3(b'/', b'?', b'#', after).unwrap_or(after.len());
    TargetForm::Absolute { authority: &after[..end], rest: &after[end..] }
}

/// Makes an absolute request target into a path and its authority into Host (RFC 9112 3.2.2). A missing path becomes `/`,
/// with OPTIONS `*` (3.2.4): `req.url` never stays absolute (VSV00018). Other forms are left alone.
///
/// # Errors
/// See [`LostHeader`].
pub fn rewrite_absolute(request: &mut Head, https: bool) -> Result<bool, LostHeader> {
    let TargetForm::Absolute { authority, rest } = target(request.url(), https) else { return Ok(false) };
    let (host, path) = (authority.to_vec(), rest.to_vec());
    request.set(names::HOST, host)?;
    request.set_had_absolute_target();
    if path.is_empty() && request.method() == b"OPTIONS" {
        request.set_url("*")?;
    } else if path.first() == Some(&b'/') {
        request.set_url(path)?;
    } else {
        request.set_url([b"/", &path[..]].concat())?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_an_authority() {
        for good in ["", "a", "A.b-c_d", "BED.TEST.", "h:", "h:80", "1.2.3.4:65535", "[::1]", "[::1]:80", "a%2fb"] {
            assert!(is_valid(good.as_bytes()), "{good}");
        }
        for bad in [
            "a b", "a/x", "a?", "u@h", "h:80x", "h:65536", "h:1:2", "a,b", "a%2", "[::1", "[zz]", "[::1]x", "a#",
            "\u{e4}", "a\\b",
        ] {
            assert!(!is_valid(bad.as_bytes()), "{bad}");
        }
    }

    fn check(url: &str, want_url: &str, want_host: &str) {
        check_method("GET", url, want_url, want_host);
    }

    fn check_method(method: &str, url: &str, want_url: &str, want_host: &str) {
        let mut head = Head::new();
        head.start_request(method.as_bytes(), url.as_bytes(), b"HTTP/1.1").unwrap();
        head.append("Host", "old").unwrap();
        rewrite_absolute(&mut head, false).unwrap();
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        assert_eq!((text(head.url()), text(head.get("host").unwrap())), (want_url.into(), want_host.into()), "{url}");
        assert_eq!(head.count("Host"), 1);
    }

    #[test]
    fn an_absolute_target_gives_path_and_host() {
        check("http://new/a?b", "/a?b", "new");
        check("HTTP://new:80/", "/", "new:80");
        check("http://new", "/", "new");
        check("http://new?x/y", "/?x/y", "new");
        check_method("OPTIONS", "http://new", "*", "new");
        check_method("OPTIONS", "http://new/", "/", "new");
        check_method("OPTIONS", "http://new?a", "/?a", "new");
        check("/a", "/a", "old");
        check("https://new/a", "https://new/a", "old");
        check("*", "*", "old");
    }

    proptest! {
        #[test]
        fn any_target_is_taken_apart(url in "(http://|https://|HTTP://|/|\\*)?[a-z0-9.:@/?#\\[\\]%-]{0,20}|\\PC{0,20}", https: bool) {
            if let TargetForm::Absolute { authority, rest } = target(url.as_bytes(), https) {
                prop_assert!(url.as_bytes().ends_with(&[authority, rest].concat()));
                prop_assert!(!authority.contains(&b'/') && rest.first().is_none_or(|c| b"/?#".contains(c)));
            }
            let mut head = Head::new();
            head.start_request(b"GET", url.as_bytes(), b"HTTP/1.1").unwrap();
            rewrite_absolute(&mut head, https).unwrap();
            let is_absolute = matches!(target(head.url(), https), TargetForm::Absolute { .. });
            prop_assert!(!is_absolute, "{:?}", head.url());
        }

        #[test]
        fn a_valid_authority_has_no_other_meaning(text in proptest::collection::vec(prop_oneof![Just(b':'), Just(b'['), Just(b']'), Just(b'%'), Just(b'1'), Just(b'a'), any::<u8>()], 0..10)) {
            if is_valid(&text) {
                prop_assert!(text.iter().all(|c| c.is_ascii_graphic() && !b"/?#@\\,\"<>".contains(c)));
                let url = [b"http://", &text[..], b"/"].concat();
                prop_assert_eq!(target(&url, false), TargetForm::Absolute { authority: &text, rest: b"/" });
            }
        }
    }
}
