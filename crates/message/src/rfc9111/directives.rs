// SPDX-License-Identifier: BSD-2-Clause
//! Cache directives, read once: of responses from Cache-Control (RFC 9111 5.2.2) or from a targeted field (RFC 9213), of
//! requests from Cache-Control (5.2.1).

use crate::structured::{Dictionary, FieldItem};
use crate::{Head, chars, list, names};

/// Seconds beyond this are this (RFC 9111 1.2.2).
const MOST_SECONDS: u64 = 1 << 31;

/// A directive that may stand for the whole response or, with an argument, for some fields of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Extent {
    #[default]
    Absent,
    Fields(Vec<Vec<u8>>),
    Whole,
}

impl Extent {
    fn add(&mut self, argument: Option<&[u8]>) {
        let names: Vec<Vec<u8>> = argument.map(|a| list::members(a).map(<[u8]>::to_vec).collect()).unwrap_or_default();
        *self = match std::mem::take(self) {
            // Twice is as much as the greater of both says.
            Extent::Whole => Extent::Whole,
            _ if names.is_empty() => Extent::Whole,
            Extent::Absent => Extent::Fields(names),
            Extent::Fields(mut old) => {
                old.extend(names);
                Extent::Fields(old)
            }
        };
    }

    fn names(&self) -> &[Vec<u8>] {
        match self {
            Extent::Fields(names) => names,
            Extent::Absent | Extent::Whole => &[],
        }
    }
}

/// Directives of a response for this cache. Seconds that can't be read are 0, as doubt must not make a response live
/// longer (RFC 9111 4.2.1); of several equal directives the first counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// A targeted field spoke: Cache-Control and Expires are nothing to us (RFC 9213 2.2).
    pub is_targeted: bool,
    /// Directive `max-age` in seconds.
    pub max_age: Option<u32>,
    /// Directive `s-maxage` in seconds.
    pub s_maxage: Option<u32>,
    /// Directive `stale-while-revalidate` in seconds.
    pub stale_while_revalidate: Option<u32>,
    /// Directive `stale-if-error` in seconds.
    pub stale_if_error: Option<u32>,
    /// Directive `no-store` is present.
    pub no_store: bool,
    /// Directive `public` is present.
    pub public: bool,
    /// Directive `must-revalidate` is present.
    pub must_revalidate: bool,
    /// Directive `proxy-revalidate` is present.
    pub proxy_revalidate: bool,
    /// Directive `must-understand` is present.
    pub must_understand: bool,
    no_cache: Extent,
    private: Extent,
}

impl ResponseDirectives {
    /// The first of the `targeted` fields that is there and is a dictionary with anything in it, else Cache-Control.
    pub fn from_head(response: &Head, targeted: &str) -> Self {
        for name in targeted.split([' ', ',', '\t']).filter(|name| !name.is_empty()) {
            if let Some(dictionary) = response.joined(name).and_then(|text| Dictionary::parse(&text))
                && !dictionary.is_empty()
            {
                return Self::of_targeted(&dictionary);
            }
        }
        let mut all = Self::default();
        for value in response.get_all(names::CACHE_CONTROL.as_bytes()) {
            each_directive(value, |name, argument| all.add(name, argument));
        }
        all
    }

    fn of_targeted(dictionary: &Dictionary) -> Self {
        let mut all = ResponseDirectives { is_targeted: true, ..Self::default() };
        for (name, item) in dictionary.members() {
            // A value of the wrong type is as if the directive weren't there (RFC 9213 2.1).
            match item {
                FieldItem::Boolean(true) => all.add(name, None),
                FieldItem::Integer(seconds) => all.add(name, Some(seconds.to_string().as_bytes())),
                FieldItem::String(fields) if matches!(name, b"no-cache" | b"private") => all.add(name, Some(fields)),
                FieldItem::Boolean(false)
                | FieldItem::String(_)
                | FieldItem::Token(_)
                | FieldItem::Bytes(_)
                | FieldItem::Decimal { .. }
                | FieldItem::Date(_)
                | FieldItem::Display(_)
                | FieldItem::List(_) => {}
            }
        }
        all
    }

    fn add(&mut self, name: &[u8], argument: Option<&[u8]>) {
        let age = |slot: &mut Option<u32>| *slot = slot.or(argument.map(seconds_or_stale));
        match name {
            b"max-age" => age(&mut self.max_age),
            b"s-maxage" => age(&mut self.s_maxage),
            b"stale-while-revalidate" => age(&mut self.stale_while_revalidate),
            b"stale-if-error" => age(&mut self.stale_if_error),
            b"no-store" => self.no_store = true,
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"no-cache" => self.no_cache.add(argument),
            b"private" => self.private.add(argument),
            _ => {}
        }
    }

    /// True if each use needs a successful validation: `no-cache` without names.
    pub fn must_validate(&self) -> bool {
        self.no_cache == Extent::Whole
    }

    /// Fields that mustn't be sent again without a validation: `no-cache="names"`.
    pub fn unshared_fields(&self) -> &[Vec<u8>] {
        self.no_cache.names()
    }

    /// True if the response, as far as it has the named fields, is for one user: `private`, or `private="names"` of
    /// fields that are there.
    pub fn is_private(&self, response: &Head) -> bool {
        self.private == Extent::Whole || self.private.names().iter().any(|name| response.has(name))
    }

    /// True if a stale response must never be served without a validation, whatever else is said (RFC 9111 4.2.4).
    pub fn forbids_stale(&self) -> bool {
        self.must_validate() || self.must_revalidate || self.proxy_revalidate
    }
}

/// Directives of a request for the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// `no-cache`: nothing without a validation.
    pub no_cache: bool,
    /// `no-store`: nothing of this exchange is to be kept.
    pub no_store: bool,
    /// `only-if-cached`: the origin isn't to be asked.
    pub only_if_cached: bool,
    /// `max-age`: nothing that is older.
    pub max_age: Option<u32>,
    /// `min-fresh`: fresh for so long at least.
    pub min_fresh: Option<u32>,
    /// `max-stale`: stale for so long at most; without an argument, any.
    pub max_stale: Option<u32>,
}

impl RequestDirectives {
    /// Those of a request; of several equal directives the first counts. What can't be read isn't there: a client can't break what
    /// others get.
    pub fn from_head(request: &Head) -> Self {
        let mut all = Self::default();
        for value in request.get_all(names::CACHE_CONTROL.as_bytes()) {
            each_directive(value, |name, argument| {
                let age = |slot: &mut Option<u32>| *slot = slot.or(argument.and_then(seconds));
                match name {
                    b"no-cache" => all.no_cache = true,
                    b"no-store" => all.no_store = true,
                    b"only-if-cached" => all.only_if_cached = true,
                    b"max-age" => age(&mut all.max_age),
                    b"min-fresh" => age(&mut all.min_fresh),
                    b"max-stale" if argument.is_none() => all.max_stale = all.max_stale.or(Some(u32::MAX)),
                    b"max-stale" => age(&mut all.max_stale),
                    _ => {}
                }
            });
        }
        all
    }
}

/// delta-seconds: digits and nothing else.
pub(super) fn seconds(text: &[u8]) -> Option<u32> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let value = || text.iter().try_fold(0u64, |sum, c| sum.checked_mul(10)?.checked_add(u64::from(c - b'0')));
    is_number.then(|| value().map_or(MOST_SECONDS, |value| value.min(MOST_SECONDS)) as u32)
}

fn seconds_or_stale(text: &[u8]) -> u32 {
    seconds(text).unwrap_or(0)
}

/// Calls `found` with the name, in lower case, and the argument of each directive of a line. An argument in quotes loses them.
fn each_directive(value: &[u8], mut found: impl FnMut(&[u8], Option<&[u8]>)) {
    for member in members(value) {
        let (name, argument) = match memchr::memchr(b'=', member) {
            Some(at) => (chars::trim(&member[..at]), Some(chars::trim(&member[at + 1..]))),
            None => (member, None),
        };
        let argument = argument.map(unquoted);
        found(&name.to_ascii_lowercase(), argument.as_deref());
    }
}

/// The content of a quoted string, without quotes and escapes; anything else as it is.
fn unquoted(argument: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let Some(inside) = argument.strip_prefix(b"\"").and_then(|a| a.strip_suffix(b"\"")) else { return argument.into() };
    if !inside.contains(&b'\\') {
        return inside.into();
    }
    let mut text = Vec::with_capacity(inside.len());
    let mut bytes = inside.iter();
    while let Some(&c) = bytes.next() {
        text.push(if c == b'\\' { bytes.next().copied().unwrap_or(c) } else { c });
    }
    text.into()
}

/// Members of a list; a comma in quotes is part of its member.
pub(super) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let parts = value.split(move |&c| {
        match c {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' => return !is_quoted,
            _ => {}
        }
        false
    });
    parts.map(chars::trim).filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(lines: &[&str]) -> Head {
        let mut head = Head::new();
        head.start_response(b"HTTP/1.1", 200).unwrap();
        lines.iter().for_each(|line| head.append_line(line.as_bytes()).unwrap());
        head
    }

    fn response(lines: &[&str]) -> ResponseDirectives {
        ResponseDirectives::from_head(&head(lines), "Lacquer-Cache-Control, CDN-Cache-Control")
    }

    #[test]
    fn seconds_are_digits_alone() {
        for (text, want) in [("0", Some(0)), ("60", Some(60)), ("99999999999999999999999", Some(1 << 31)), ("", None)] {
            assert_eq!(seconds(text.as_bytes()), want, "{text}");
        }
        for text in ["-1", "+1", "1.5", "1 ", "1s", "0x1"] {
            assert_eq!(seconds(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_first_of_equal_directives_counts_and_doubt_is_stale() {
        assert_eq!(response(&["Cache-Control: max-age=5, MAX-AGE=7", "cache-control: max-age=9"]).max_age, Some(5));
        assert_eq!(response(&["Cache-Control: max-age=1.5"]).max_age, Some(0));
        assert_eq!(response(&["Cache-Control: max-age=\"60\""]).max_age, Some(60));
        assert_eq!(response(&["Cache-Control: a=\"max-age=5\", b=\", no-store\""]), ResponseDirectives::default());
    }

    #[test]
    fn names_of_fields_and_the_whole() {
        let all = response(&["Cache-Control: no-cache=\"Set-Cookie, A\", private=b"]);
        assert_eq!(all.unshared_fields(), [b"Set-Cookie".to_vec(), b"A".to_vec()]);
        assert!(!all.must_validate() && !all.forbids_stale());
        assert!(all.is_private(&head(&["B: 1"])) && !all.is_private(&head(&["C: 1"])));
        let all = response(&["Cache-Control: no-cache=\"a\", no-cache, private=\"\""]);
        assert!(all.must_validate() && all.is_private(&head(&[])) && all.unshared_fields().is_empty());
    }

    #[test]
    fn a_targeted_field_hides_cache_control() {
        let both = ["Cache-Control: no-store", "CDN-Cache-Control: max-age=60"];
        let all = response(&both);
        assert!(all.is_targeted && !all.no_store && all.max_age == Some(60));
        let all = response(&["Lacquer-Cache-Control: no-store", both[1]]);
        assert!(all.is_targeted && all.no_store && all.max_age.is_none());
        for broken in ["max-age=60, &&&", "", "Max-Age=60"] {
            let all = response(&[both[0], &format!("CDN-Cache-Control: {broken}")]);
            assert!(!all.is_targeted && all.no_store, "{broken}");
        }
        // A directive of the wrong type is left out, the rest counts.
        let all = response(&[both[0], "CDN-Cache-Control: max-age=\"60\", must-revalidate"]);
        assert!(all.is_targeted && all.max_age.is_none() && all.must_revalidate && !all.no_store);
    }

    #[test]
    fn what_requests_ask() {
        let asked = |value: &str| RequestDirectives::from_head(&head(&[&format!("Cache-Control: {value}")]));
        let none = RequestDirectives::default();
        assert_eq!(asked("no-cache, max-age=0"), RequestDirectives { no_cache: true, max_age: Some(0), ..none });
        assert_eq!(asked("max-stale"), RequestDirectives { max_stale: Some(u32::MAX), ..none });
        assert_eq!(
            asked("max-stale=5, min-fresh=6"),
            RequestDirectives { max_stale: Some(5), min_fresh: Some(6), ..none }
        );
        assert_eq!(
            asked("only-if-cached,no-store"),
            RequestDirectives { only_if_cached: true, no_store: true, ..none }
        );
        assert_eq!(asked("max-stale=5, max-stale, max-stale=6"), RequestDirectives { max_stale: Some(5), ..none });
        assert_eq!(asked("max-stale, max-stale=6"), RequestDirectives { max_stale: Some(u32::MAX), ..none });
        assert_eq!(asked("max-age=x, max-age=5, max-age=6"), RequestDirectives { max_age: Some(5), ..none });
        assert_eq!(asked("max-age=x, nothing-to-see-here"), none);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(value in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut all = ResponseDirectives::default();
            each_directive(&value, |name, argument| all.add(name, argument));
        }
    }
}
