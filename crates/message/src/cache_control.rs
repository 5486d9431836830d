// SPDX-License-Identifier: BSD-2-Clause
//! Cache-Control of requests and responses (RFC 9111 5.2, RFC 5861), read tolerantly: an unknown directive is skipped, a
//! broken number is 0, so that doubt never makes a response live longer.

use crate::{Head, list, names};

/// The directives that a cache acts on. Seconds are whole; a value beyond 2^32-1 counts as that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheControl {
    /// Directive `max-age` in seconds.
    pub max_age: Option<u32>,
    /// Directive `s-maxage` in seconds.
    pub s_maxage: Option<u32>,
    /// Directive `stale-while-revalidate` in seconds.
    pub stale_while_revalidate: Option<u32>,
    /// Directive `stale-if-error` in seconds.
    pub stale_if_error: Option<u32>,
    /// Directive `min-fresh` in seconds (requests).
    pub min_fresh: Option<u32>,
    /// `max-stale` (requests); without an argument any staleness will do: the greatest number.
    pub max_stale: Option<u32>,
    /// `no-cache`, without or with field names
    pub no_cache: bool,
    /// Directive `no-store` is present.
    pub no_store: bool,
    /// `private`, without or with field names
    pub private: bool,
    /// Directive `public` is present.
    pub public: bool,
    /// Directive `must-revalidate` is present.
    pub must_revalidate: bool,
    /// Directive `proxy-revalidate` is present.
    pub proxy_revalidate: bool,
    /// Directive `no-transform` is present.
    pub no_transform: bool,
    /// Directive `only-if-cached` is present (requests).
    pub only_if_cached: bool,
    /// Directive `must-understand` is present.
    pub must_understand: bool,
}

impl CacheControl {
    /// Reads all Cache-Control lines of a head. The first of several equal directives counts.
    pub fn from_head(head: &Head) -> Self {
        let mut cc = CacheControl::default();
        head.get_all(names::CACHE_CONTROL.as_bytes()).for_each(|value| cc.add(value));
        cc
    }

    /// Reads one field value.
    pub fn parse(value: &[u8]) -> Self {
        let mut cc = CacheControl::default();
        cc.add(value);
        cc
    }

    fn add(&mut self, value: &[u8]) {
        for member in (Members { rest: value }) {
            let (name, argument) = match memchr::memchr(b'=', member) {
                Some(at) => (crate::chars::trim(&member[..at]), Some(crate::chars::trim(&member[at + 1..]))),
                None => (member, None),
            };
            self.directive(&name.to_ascii_lowercase(), argument);
        }
    }

    fn directive(&mut self, name: &[u8], argument: Option<&[u8]>) {
        let age = |slot: &mut Option<u32>| {
            if slot.is_none() && argument.is_some() {
                *slot = argument.map(|a| seconds(unquoted(a)));
            }
        };
        match name {
            b"max-age" => age(&mut self.max_age),
            b"s-maxage" => age(&mut self.s_maxage),
            b"stale-while-revalidate" => age(&mut self.stale_while_revalidate),
            b"stale-if-error" => age(&mut self.stale_if_error),
            b"min-fresh" => age(&mut self.min_fresh),
            b"max-stale" => {
                self.max_stale = self.max_stale.or(Some(argument.map_or(u32::MAX, |a| seconds(unquoted(a)))));
            }
            b"no-cache" => self.no_cache = true,
            b"no-store" => self.no_store = true,
            b"private" => self.private = true,
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"no-transform" => self.no_transform = true,
            b"only-if-cached" => self.only_if_cached = true,
            b"must-understand" => self.must_understand = true,
            _ => {}
        }
    }
}

fn unquoted(argument: &[u8]) -> &[u8] {
    argument.strip_prefix(b"\"").and_then(|a| a.strip_suffix(b"\"")).unwrap_or(argument)
}

/// Members of a list whose commas may be hidden in quoted strings (`no-cache="a, b"`).
struct Members<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Members<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let (mut quoted, mut escaped, mut end) = (false, false, self.rest.len());
            for (i, &c) in self.rest.iter().enumerate() {
                match c {
                    _ if escaped => escaped = false,
                    b'\\' if quoted => escaped = true,
                    b'"' => quoted = !quoted,
                    b',' if !quoted => {
                        end = i;
                        break;
                    }
                    _ => {}
                }
            }
            let member = crate::chars::trim(&self.rest[..end]);
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if !member.is_empty() {
                return Some(member);
            }
        }
    }
}

/// A number of seconds as varnishd reads it in Age, max-age and the like: digits, then blanks, a comma, a point or the end.
/// Negative and malformed is 0; too large is the largest.
pub fn seconds(text: &[u8]) -> u32 {
    let text = crate::chars::trim_start(text);
    let Some((number, rest)) = crate::chars::leading_number(text.strip_prefix(b"+").unwrap_or(text)) else { return 0 };
    match crate::chars::trim_start(rest).first() {
        None | Some(b',' | b'.') => u32::try_from(number).unwrap_or(u32::MAX),
        Some(_) if number > u64::from(u32::MAX) => u32::MAX,
        Some(_) => 0,
    }
}

/// The argument in seconds of `directive` in the first Cache-Control line, exactly as varnishd finds it: `None` when it is
/// absent or has no `=`.
pub(crate) fn first_line_seconds(head: &Head, directive: &[u8]) -> Option<u32> {
    list::argument(head.get(names::CACHE_CONTROL)?, directive).map(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn directives_are_read_in_any_case() {
        let cc = CacheControl::parse(b"Public, MAX-AGE=60 , s-maxage=\"70\",, stale-while-revalidate = 5, x=y");
        assert!(cc.public);
        assert_eq!((cc.max_age, cc.s_maxage, cc.stale_while_revalidate), (Some(60), Some(70), Some(5)));
    }

    #[test]
    fn a_quoted_comma_hides_no_directive() {
        let cc = CacheControl::parse(b"no-cache=\"a, no-store\", max-age=1");
        assert!(cc.no_cache && !cc.no_store);
        assert_eq!(cc.max_age, Some(1));
    }

    #[test]
    fn numbers_in_doubt_are_zero() {
        for (text, want) in [
            ("10", 10),
            ("10.5", 10),
            ("10 , x", 10),
            ("-1", 0),
            ("", 0),
            ("10x", 0),
            ("x", 0),
            ("4294967295", u32::MAX),
            ("99999999999999999999999", u32::MAX),
        ] {
            assert_eq!(seconds(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn max_stale_without_argument_is_any() {
        assert_eq!(CacheControl::parse(b"max-stale").max_stale, Some(u32::MAX));
        assert_eq!(CacheControl::parse(b"max-stale=3").max_stale, Some(3));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(text in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = CacheControl::parse(&text);
        }
    }
}
