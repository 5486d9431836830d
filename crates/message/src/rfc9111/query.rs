// SPDX-License-Identifier: BSD-2-Clause
//! No-Vary-Search (draft-ietf-httpbis-no-vary-search, as of July 2026): which parameters of a URL's query, and whether their order, make
//! no difference to what is served.
//!
//! Where the draft's algorithm and its examples disagree, `key-order` alone, this goes by the examples: the order doesn't
//! matter then, and all parameters do.

use crate::Head;
use crate::structured::{Dictionary, FieldItem};

/// Most names of a field, and parameters of a query: one with more varies on all.
const MAX_NAMES: usize = 256;
const MAX_PARAMS: usize = 1024;

/// Parts of a query on which a response depends. A response that names none has no such value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryVariance {
    names: Names,
    /// The order of parameters of different names matters.
    has_order: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    AllBut(Vec<Vec<u8>>),
    Only(Vec<Vec<u8>>),
}

impl QueryVariance {
    /// Reads the field; `None`: URLs are compared as they are, because nothing is said or nothing that can be read.
    pub fn from_head(response: &Head) -> Option<Self> {
        let dictionary = Dictionary::parse(&response.joined("No-Vary-Search")?)?;
        let member = |key: &[u8]| dictionary.members().find(|(name, _)| *name == key).map(|(_, item)| item);
        let has_order = match member(b"key-order") {
            Some(FieldItem::Boolean(is_free)) => !is_free,
            Some(_) => return None,
            None => true,
        };
        let names = |item: &FieldItem| -> Option<Vec<Vec<u8>>> {
            let names = item.strings()?;
            (names.len() <= MAX_NAMES).then(|| names.iter().map(|name| decode_form(name)).collect())
        };
        let names = match (member(b"params"), member(b"except")) {
            (Some(_), Some(_)) => return None,
            (Some(params), None) => Names::AllBut(names(params)?),
            (None, Some(except)) => Names::Only(names(except)?),
            (None, None) => Names::AllBut(Vec::new()),
        };
        let is_default = has_order && names == Names::AllBut(Vec::new());
        (!is_default).then_some(QueryVariance { names, has_order })
    }

    /// The URL with a query that is the same for all that make no difference, and for no others.
    pub fn reduced(&self, url: &[u8]) -> Vec<u8> {
        let Some((path, query)) = split(url) else { return url.to_vec() };
        let mut params: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for piece in query.split(|&c| c == b'&').filter(|piece| !piece.is_empty()) {
            if params.len() >= MAX_PARAMS {
                return url.to_vec();
            }
            let (name, value) = match memchr::memchr(b'=', piece) {
                Some(at) => (&piece[..at], &piece[at + 1..]),
                None => (piece, &b""[..]),
            };
            let name = decode_form(name);
            if self.matters(&name) {
                params.push((name, decode_form(value)));
            }
        }
        if !self.has_order {
            // Stable: several of one name stay in their order.
            params.sort_by(|a, b| a.0.cmp(&b.0));
        }
        let mut out = path.to_vec();
        for (at, (name, value)) in params.iter().enumerate() {
            out.push(if at == 0 { b'?' } else { b'&' });
            encode(name, &mut out);
            out.push(b'=');
            encode(value, &mut out);
        }
        out
    }

    fn matters(&self, name: &[u8]) -> bool {
        let is_in = |names: &[Vec<u8>]| names.iter().any(|other| other == name);
        match &self.names {
            Names::AllBut(names) => !is_in(names),
            Names::Only(names) => is_in(names),
        }
    }
}

/// The path of a URL, without its query.
pub fn path(url: &[u8]) -> &[u8] {
    split(url).map_or(url, |(path, _)| path)
}

/// Path and query. A URL without a query has an empty one.
fn split(url: &[u8]) -> Option<(&[u8], &[u8])> {
    if !url.starts_with(b"/") {
        return None;
    }
    Some(match memchr::memchr(b'?', url) {
        Some(at) => (&url[..at], &url[at + 1..]),
        None => (url, b""),
    })
}

/// A name or value as `application/x-www-form-urlencoded` has it, decoded; what is no UTF-8 becomes U+FFFD.
pub(crate) fn decode_form(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| text.get(at).and_then(|&c| char::from(c).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&c) = text.get(at) {
        match (c, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 2;
            }
            (b'+', ..) => out.push(b' '),
            _ => out.push(c),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned().into_bytes()
}

fn encode(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &c in text {
        if c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_' | b'~') {
            out.push(c);
        } else {
            out.extend([b'%', HEX[usize::from(c >> 4)], HEX[usize::from(c & 15)]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn variance(field: &str) -> Option<QueryVariance> {
        let mut head = Head::new();
        head.append("No-Vary-Search", field).unwrap();
        QueryVariance::from_head(&head)
    }

    fn check(field: &str, url: &str, want: &str) {
        let got = variance(field).expect("it says something").reduced(url.as_bytes());
        assert_eq!(String::from_utf8_lossy(&got), want, "{field} {url}");
    }

    #[test]
    fn what_says_nothing_or_nonsense_varies_on_all() {
        for field in [
            "",
            "key-order=\"x\"",
            "params=\"x\"",
            "params=(a)",
            "params=?1",
            "params=?1, except=(\"x\")",
            "params=(\"a\"), except=(\"x\")",
            "params=(), except=()",
            "except=?1",
            "except=(\"x\" y)",
            "params=()",
            "key-order=?0",
            "unknown",
            "params=(\"a\"",
        ] {
            assert_eq!(variance(field), None, "{field}");
        }
        assert_eq!(QueryVariance::from_head(&Head::new()), None);
    }

    #[test]
    fn parameters_that_make_no_difference_go() {
        check("params=(\"a\" \"b\")", "/x?a=1&c=2&b&a=3&d", "/x?c=2&d=");
        check("params=(\"a\")", "/x?a=1", "/x");
        check("params=(\"a\")", "/x?", "/x");
        check("params=(\"a\"), future=1", "/x?b=2&c=1", "/x?b=2&c=1");
        check("except=(\"id\")", "/x?a=1&id=7&b=2", "/x?id=7");
        check("except=()", "/x?a=1&id=7", "/x");
        check("key-order, except=(\"b\" \"a\")", "/x?b=2&a=1&b=1&c", "/x?a=1&b=2&b=1");
    }

    #[test]
    fn order_alone_may_make_no_difference() {
        check("key-order", "/x?b=2&a=1&b=1", "/x?a=1&b=2&b=1");
        check("key-order=?1", "/x?a=x&&&&", "/x?a=x");
    }

    #[test]
    fn names_and_values_are_compared_decoded() {
        for same in ["/?a=x", "/?%61=%78", "/?a=x&&", "/?&a=x"] {
            check("key-order", same, "/?a=x");
        }
        check("key-order", "/?a", "/?a=");
        check("key-order", "/?a=+", "/?a=%20");
        check("key-order", "/?a=%f6", "/?a=%EF%BF%BD");
        check("key-order", "/?a=%zz%4", "/?a=%25zz%254");
        check("key-order", "/?a=%26b%3D1", "/?a=%26b%3D1");
        check("params=(\"%C3%A9+%E6%B0%97\")", "/?\u{e9}+%E6%B0%97=4&b=1", "/?b=1");
    }

    #[test]
    fn what_is_no_path_stays_and_so_does_what_is_too_long() {
        check("except=()", "http://a/?b", "http://a/?b");
        let long = format!("/?{}", "a&".repeat(MAX_PARAMS + 1));
        check("key-order", &long, &long);
        assert_eq!((path(b"/a?b?c"), path(b"/a"), path(b"*")), (&b"/a"[..], &b"/a"[..], &b"*"[..]));
    }

    proptest! {
        #[test]
        fn what_is_reduced_stays_as_it_is(
            field in "(key-order, )?(params|except)=\\(\"[abc]\"\\)", url in "/([a-d]|&|=|%[0-9a-f]{2}|\\?|\\+){0,12}",
        ) {
            if let Some(variance) = variance(&field) {
                let once = variance.reduced(url.as_bytes());
                prop_assert_eq!(&variance.reduced(&once), &once);
                prop_assert!(once.starts_with(b"/"));
            }
        }
    }
}
