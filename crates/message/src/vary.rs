// SPDX-License-Identifier: BSD-2-Clause
//! Vary keys: which request fields chose a variant, and what they were (RFC 9111 4.1).
//!
//! A key is a sequence of `u8 name length, name, u16 LE value length (0xffff: the field was absent), value`. An object keeps
//! its key; a later request matches when each field is the same again. Values are compared as bytes, blanks around them
//! taken off. Several lines of a field are one value (RFC 9110 5.2; varnishd compares the first line only). With codings that we
//! undo ourselves Accept-Encoding always matches: everybody gets the packed object, unpacked where needed. That is decided when
//! matching, so that a stored key serves all settings.

use crate::chars::is_blank;
use crate::dictionary::DICTIONARY_OFFER;
use crate::{Codings, Head, names};

const ABSENT: u16 = 0xffff;
const MAX_NAME: usize = 127;

/// Reasons why a response's Vary gives no key: the response is not to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VaryError {
    /// A name longer than 127 bytes.
    NameTooLong,
    /// A request value longer than 65534 bytes.
    ValueTooLong,
    /// Not a list of names.
    Malformed,
}

impl VaryError {
    /// The text of the Error log record.
    pub fn text(self) -> &'static str {
        match self {
            Self::NameTooLong => "Vary header name length exceeded",
            Self::ValueTooLong => "Vary header maximum length exceeded",
            Self::Malformed => "Malformed Vary header",
        }
    }
}

/// True if the response varies on everything (`Vary: *`): no later request can match. (The built-in VCL doesn't cache
/// it.)
pub fn is_star(response: &Head) -> bool {
    response.get_all(names::VARY.as_bytes()).any(|value| crate::list::members(value).any(|m| m == b"*"))
}

/// Appends the key of a response with this Vary value to `out`; says whether there is anything in it.
///
/// # Errors
/// [`VaryError`]; `out` is as it was.
pub fn write_key(vary: &[u8], request: &Head, out: &mut Vec<u8>) -> Result<bool, VaryError> {
    let before = out.len();
    for name in crate::list::members(vary) {
        let written = if name.iter().any(|&c| is_blank(c)) {
            Err(VaryError::Malformed)
        } else {
            write_entry(name, request.joined(name).as_deref(), out)
        };
        if let Err(error) = written {
            out.truncate(before);
            return Err(error);
        }
    }
    Ok(out.len() > before)
}

/// The key of `response` for `request`, `None` without Vary.
///
/// # Errors
/// [`VaryError`].
pub fn key(response: &Head, request: &Head) -> Result<Option<Vec<u8>>, VaryError> {
    let Some(vary) = response.get(names::VARY) else { return Ok(None) };
    let mut key = Vec::new();
    Ok(write_key(vary, request, &mut key)?.then_some(key))
}

/// Appends the key that `request` has over the names of `key`, for looking variants up by hash. Where we support codings,
/// Accept-Encoding is written as absent. A value too long for a key is written as absent too: no stored key can match it,
/// and [`matches`] decides anyway.
pub fn rekey(key: &[u8], request: &Head, supported: Codings, out: &mut Vec<u8>) {
    for entry in VaryEntries(key) {
        let value = if is_ignored(entry.name, supported) { None } else { request.joined(entry.name) };
        let value = value.filter(|v| v.len() < usize::from(ABSENT));
        write_entry(entry.name, value.as_deref(), out).expect("the name comes from a key and the value was checked");
    }
}

pub(crate) fn write_entry(name: &[u8], value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), VaryError> {
    if name.len() > MAX_NAME {
        return Err(VaryError::NameTooLong);
    }
    let len = match value {
        None => ABSENT,
        Some(v) => u16::try_from(v.len()).ok().filter(|&len| len != ABSENT).ok_or(VaryError::ValueTooLong)?,
    };
    out.push(name.len() as u8);
    out.extend_from_slice(name);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(value.unwrap_or_default());
    Ok(())
}

/// Whatever the client takes, we make of the object; its dictionary isn't offered to origins.
pub(crate) fn is_ignored(name: &[u8], supported: Codings) -> bool {
    let is = |own: &str| name.eq_ignore_ascii_case(own.as_bytes());
    !supported.is_empty() && (is(names::ACCEPT_ENCODING) || DICTIONARY_OFFER.into_iter().any(is))
}

/// True if `request` gets the variant with this key. `supported`: the codings that we make and undo. A damaged key
/// matches nothing.
pub fn matches(key: &[u8], request: &Head, supported: Codings) -> bool {
    let mut entries = VaryEntries(key);
    let is_same = |entry: VaryEntry<'_>| {
        is_ignored(entry.name, supported) || request.joined(entry.name).as_deref() == entry.value
    };
    let all = entries.by_ref().all(is_same);
    all && entries.0.is_empty()
}

/// One field of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VaryEntry<'a> {
    /// The field's name as Vary has it.
    pub name: &'a [u8],
    /// The value in the request; `None`: absent.
    pub value: Option<&'a [u8]>,
}

/// The entries of a key, as far as they are whole.
#[derive(Clone, Copy, Debug)]
pub struct VaryEntries<'a>(pub &'a [u8]);

impl<'a> Iterator for VaryEntries<'a> {
    type Item = VaryEntry<'a>;

    fn next(&mut self) -> Option<VaryEntry<'a>> {
        let (&name_len, rest) = self.0.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(name_len))?;
        let (len, rest) = rest.split_at_checked(2)?;
        let len = u16::from_le_bytes([len[0], len[1]]);
        let (value, rest) = rest.split_at_checked(if len == ABSENT { 0 } else { usize::from(len) })?;
        self.0 = rest;
        Some(VaryEntry { name, value: (len != ABSENT).then_some(value) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(lines: &[(&str, &str)]) -> Head {
        let mut head = Head::new();
        lines.iter().for_each(|(n, v)| head.append(n, v).unwrap());
        head
    }

    fn key_of(vary: &str, request: &Head) -> Result<Vec<u8>, VaryError> {
        let mut key = Vec::new();
        write_key(vary.as_bytes(), request, &mut key).map(|_| key)
    }

    #[test]
    fn a_variant_matches_when_all_its_fields_are_the_same_again() {
        let first = request(&[("Cookie", "a  "), ("X", "")]);
        let key = key_of("cookie, X,, Y", &first).unwrap();
        assert!(matches(&key, &first, Codings::GZIP));
        assert!(matches(&key, &request(&[("COOKIE", "a"), ("x", ""), ("z", "1")]), Codings::GZIP));
        assert!(!matches(&key, &request(&[("Cookie", "A"), ("X", "")]), Codings::GZIP));
        assert!(!matches(&key, &request(&[("Cookie", "a")]), Codings::GZIP));
        assert!(!matches(&key, &request(&[("Cookie", "a"), ("X", ""), ("Y", "")]), Codings::GZIP));
    }

    #[test]
    fn lines_of_a_field_are_one_value() {
        let both = request(&[("X", "en"), ("Y", "1"), ("x", "de"), ("Cookie", "a=1"), ("Cookie", "b=2")]);
        let key = key_of("X, Cookie", &both).unwrap();
        assert!(matches(&key, &both, Codings::GZIP));
        assert!(matches(&key, &request(&[("X", "en, de"), ("Cookie", "a=1; b=2")]), Codings::GZIP));
        assert!(!matches(&key, &request(&[("X", "en"), ("Cookie", "a=1; b=2")]), Codings::GZIP));
        assert!(!matches(&key, &request(&[("X", "de"), ("X", "en"), ("Cookie", "a=1; b=2")]), Codings::GZIP));
        assert!(!matches(&key, &request(&[("X", "en, de"), ("Cookie", "a=1")]), Codings::GZIP));
    }

    #[test]
    fn accept_encoding_counts_only_where_no_coding_is_supported() {
        let key = key_of("Accept-Encoding", &request(&[("Accept-Encoding", "gzip")])).unwrap();
        assert!(matches(&key, &request(&[]), Codings::GZIP));
        assert!(!matches(&key, &request(&[]), Codings::NONE));
    }

    #[test]
    fn what_gives_no_key() {
        let none = request(&[]);
        assert_eq!(key_of("a b", &none), Err(VaryError::Malformed));
        assert_eq!(key_of(&"n".repeat(128), &none), Err(VaryError::NameTooLong));
        let mut long = Head::with_limits(crate::HeadLimits::new(64, 1 << 20));
        long.append("X", "v".repeat(65_535)).unwrap();
        assert_eq!(key_of("x", &long), Err(VaryError::ValueTooLong));
        assert_eq!(key_of("", &none), Ok(vec![]));
    }

    #[test]
    fn star_is_seen_in_any_line() {
        assert!(is_star(&request(&[("Vary", "Cookie"), ("Vary", "a, *")])));
        assert!(!is_star(&request(&[("Vary", "Cookie")])));
    }

    proptest! {
        #[test]
        fn rekeying_agrees_with_matching(
            vary in "[a-d]( ?, ?[a-d]){0,3}",
            one in proptest::collection::vec(("[a-d]", "[xy]{0,2}"), 0..4),
            two in proptest::collection::vec(("[a-d]", "[xy]{0,2}"), 0..4),
        ) {
            let head = |lines: &[(String, String)]| {
                let mut head = Head::new();
                lines.iter().for_each(|(n, v)| head.append(n, v).unwrap());
                head
            };
            let (one, two) = (head(&one), head(&two));
            let key = key_of(&vary, &one).unwrap();
            let mut again = Vec::new();
            rekey(&key, &two, Codings::NONE, &mut again);
            prop_assert_eq!(again == key, matches(&key, &two, Codings::NONE));
            prop_assert!(matches(&key, &one, Codings::NONE));
        }

        #[test]
        fn a_damaged_key_is_no_panic(key in proptest::collection::vec(any::<u8>(), 0..60)) {
            let none = Head::new();
            let _ = matches(&key, &none, Codings::GZIP);
            let mut out = Vec::new();
            rekey(&key, &none, Codings::GZIP, &mut out);
        }
    }
}
