// SPDX-License-Identifier: BSD-2-Clause
//! Vary with what may be normalised (RFC 9111 4.1): lines of a field are joined, blanks around commas taken off; languages
//! are in lower case and in one order, and a stored response in a language suits every request that likes that one best.
//!
//! Keys are those of [`crate::vary`]. Of a response with one Content-Language the name in the key is `Accept-Language;de`:
//! the value of a request that prefers German is then `de`, whatever else it takes.

use std::borrow::Cow;

use super::directives::members;
use crate::vary::{VaryEntries, VaryError, is_ignored, write_entry};
use crate::{Codings, Head, chars, names, vary};

/// Most members of a list that are put in order; a longer one stays as it is.
const MAX_LANGUAGES: usize = 32;

/// Fields whose commas are no list's (RFC 9110, 6265): they are compared as they come.
const NO_LISTS: [&str; 9] = [
    names::USER_AGENT,
    names::COOKIE,
    names::AUTHORIZATION,
    names::REFERER,
    names::FROM,
    names::IF_MODIFIED_SINCE,
    names::IF_UNMODIFIED_SINCE,
    names::CONTENT_TYPE,
    names::HOST,
];

/// The names that a response to `request` varies on, as a key without values; `None` without Vary.
///
/// # Errors
/// [`VaryError`].
pub fn key(response: &Head, request: &Head) -> Result<Option<Vec<u8>>, VaryError> {
    let Some(plain) = vary::key(response, request)? else { return Ok(None) };
    let mut spec = Vec::with_capacity(plain.len());
    for entry in VaryEntries(&plain) {
        match language_of(response).filter(|_| is_accept_language(entry.name)) {
            Some(language) => write_entry(&[entry.name, b";", &language].concat(), None, &mut spec)?,
            None => write_entry(entry.name, None, &mut spec)?,
        }
    }
    Ok(Some(spec))
}

/// Appends the key that `request` has over the names of `spec`. A value too long for a key is written as absent: no stored key
/// has one, and [`matches`] decides anyway.
pub fn values(spec: &[u8], request: &Head, supported: Codings, out: &mut Vec<u8>) {
    for entry in VaryEntries(spec) {
        let value = if is_ignored(entry.name, supported) { None } else { selecting(entry.name, request) };
        let value = value.filter(|value| value.len() < usize::from(u16::MAX));
        write_entry(entry.name, value.as_deref(), out).expect("the name comes from a key and the value was checked");
    }
}

/// True if `request` gets the variant with these values. A damaged key matches nothing.
pub fn matches(key: &[u8], request: &Head, supported: Codings) -> bool {
    let mut entries = VaryEntries(key);
    let is_same = |entry: vary::VaryEntry<'_>| {
        // What is there as it is stored needs no work.
        is_ignored(entry.name, supported)
            || (request.get(entry.name) == entry.value && entry.value.is_some() && request.count(entry.name) == 1)
            || selecting(entry.name, request).as_deref() == entry.value
    };
    entries.by_ref().all(is_same) && entries.0.is_empty()
}

/// A request's value for a name in a key.
fn selecting<'r>(name: &[u8], request: &'r Head) -> Option<Cow<'r, [u8]>> {
    let (field, language) = match memchr::memchr(b';', name) {
        Some(at) => (&name[..at], Some(&name[at + 1..])),
        None => (name, None),
    };
    let first = request.get(field)?;
    if NO_LISTS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(field)) {
        return Some(first.into());
    }
    let lines: Vec<&[u8]> =
        request.iter().filter(|line| line.name().eq_ignore_ascii_case(field)).map(|line| line.value()).collect();
    let joined = if lines.len() == 1 { Cow::from(first) } else { lines.join(&b","[..]).into() };
    if is_accept_language(field) {
        return Some(match languages(&joined) {
            Some(list) => list.chosen(language).into(),
            None => compact(&joined).into(),
        });
    }
    Some(if has_blank_comma(&joined) { compact(&joined).into() } else { joined })
}

fn is_accept_language(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(names::ACCEPT_LANGUAGE.as_bytes())
}

fn language_of(response: &Head) -> Option<Vec<u8>> {
    let value = response.get(names::CONTENT_LANGUAGE)?;
    let is_one = response.count(names::CONTENT_LANGUAGE) == 1 && is_range(value) && value.len() <= 35;
    is_one.then(|| value.to_ascii_lowercase())
}

fn is_range(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'*'))
}

fn has_blank_comma(value: &[u8]) -> bool {
    memchr::memchr_iter(b',', value).any(|at| {
        let is_blank = |i: usize| value.get(i).is_some_and(|&c| chars::is_blank(c) || c == b',');
        is_blank(at + 1) || (at > 0 && is_blank(at - 1)) || at == 0 || at + 1 == value.len()
    })
}

/// The members with nothing but a comma between them.
fn compact(value: &[u8]) -> Vec<u8> {
    members(value).collect::<Vec<_>>().join(&b","[..])
}

/// Languages by weight and then by name; thousandths.
struct Languages(Vec<(u16, Vec<u8>)>);

impl Languages {
    /// The list in its one order, or `language` alone if none is liked better.
    fn chosen(&self, language: Option<&[u8]>) -> Vec<u8> {
        let best = self.0.first().map_or(0, |(weight, _)| *weight);
        if let Some(language) = language
            && self.0.iter().any(|(weight, range)| *weight == best && best > 0 && range == language)
        {
            return language.to_vec();
        }
        let mut out = Vec::new();
        for (weight, range) in &self.0 {
            if !out.is_empty() {
                out.push(b',');
            }
            out.extend_from_slice(range);
            if *weight != 1000 {
                out.extend_from_slice(format!(";q={weight}").as_bytes());
            }
        }
        out
    }
}

/// Reads Accept-Language (RFC 9110 12.5.4); `None` for what is something else.
fn languages(value: &[u8]) -> Option<Languages> {
    let mut all = Vec::new();
    for member in members(value) {
        let mut parts = member.split(|&c| c == b';');
        let range = chars::trim(parts.next()?);
        let weight = match parts.next() {
            None => 1000,
            Some(text) => weight(chars::trim(text))?,
        };
        if parts.next().is_some() || !is_range(range) || all.len() >= MAX_LANGUAGES {
            return None;
        }
        all.push((weight, range.to_ascii_lowercase()));
    }
    all.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    all.dedup();
    Some(Languages(all))
}

/// Parses `q=0.123` into thousandths.
fn weight(text: &[u8]) -> Option<u16> {
    let text = text.strip_prefix(b"q=").or_else(|| text.strip_prefix(b"Q="))?;
    let (whole, rest) = text.split_first()?;
    let decimals = match rest {
        [] => rest,
        [b'.', decimals @ ..] => decimals,
        _ => return None,
    };
    if decimals.len() > 3 || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let part = (0..3).fold(0, |sum, i| sum * 10 + u16::from(decimals.get(i).unwrap_or(&b'0') - b'0'));
    match whole {
        b'0' => Some(part),
        b'1' if part == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(lines: &[&str]) -> Head {
        let mut head = Head::new();
        lines.iter().for_each(|line| head.append_line(line.as_bytes()).unwrap());
        head
    }

    /// Checks if a response to `first` with these fields is one for `second`.
    fn check(response: &[&str], first: &[&str], second: &[&str], want: bool) {
        let (first, second) = (head(first), head(second));
        let spec = key(&head(response), &first).unwrap().unwrap();
        let (mut stored, mut hashed) = (Vec::new(), Vec::new());
        values(&spec, &first, Codings::NONE, &mut stored);
        values(&spec, &second, Codings::NONE, &mut hashed);
        assert!(matches(&stored, &first, Codings::NONE), "its own request");
        assert_eq!(matches(&stored, &second, Codings::NONE), want);
        assert_eq!(stored == hashed, want, "by hash as by comparing");
    }

    #[test]
    fn lines_are_joined_and_blanks_are_nothing() {
        let by_foo = ["Vary: Foo"];
        check(&by_foo, &["Foo: 1, 2"], &["Foo: 1", "Foo: 2"], true);
        check(&by_foo, &["Foo: 1,2"], &["foo:  1 ,\t2,"], true);
        check(&by_foo, &["Foo: 1"], &["Foo: 1", "Foo: 2"], false);
        check(&by_foo, &["Foo: 1,2"], &["Foo: 2,1"], false);
        check(&by_foo, &["Foo: \"a, b\""], &["Foo: \"a,b\""], false);
        check(&by_foo, &[], &["Foo: "], false);
        check(&by_foo, &[], &[], true);
        check(&["Vary: User-Agent"], &["User-Agent: a, b"], &["User-Agent: a,b"], false);
    }

    #[test]
    fn languages_in_any_order_and_case() {
        let by_language = ["Vary: Accept-Language"];
        for same in ["de, en", "eN,De", " en ,  de", "en;q=1.0, de;q=1"] {
            check(&by_language, &["Accept-Language: en, de"], &[&format!("Accept-Language: {same}")], true);
        }
        for other in ["en", "en, de;q=0.9", "de, en, fr", "en, de;x=1"] {
            check(&by_language, &["Accept-Language: en, de"], &[&format!("Accept-Language: {other}")], false);
        }
        check(&by_language, &["Accept-Language: a;q=0.5,b"], &["Accept-Language: b, a;q=0.500"], true);
    }

    #[test]
    fn a_response_suits_whoever_likes_its_language_best() {
        let german = ["Vary: Accept-Language", "Content-Language: de"];
        check(&german, &["Accept-Language: en, de"], &["Accept-Language: fr;q=0.5, DE;q=1.0"], true);
        check(&german, &["Accept-Language: de"], &["Accept-Language: en, de;q=0.9"], false);
        check(&german, &["Accept-Language: fr"], &["Accept-Language: de"], false);
        check(&german, &["Accept-Language: fr"], &["Accept-Language: FR"], true);
        check(&german, &["Accept-Language: de"], &["Accept-Language: de;q=0"], false);
        let both = ["Vary: Accept-Language", "Content-Language: de, en"];
        check(&both, &["Accept-Language: en, de"], &["Accept-Language: de"], false);
    }

    proptest! {
        #[test]
        fn every_request_gets_its_own_variant(value in "(de|en|,|;|q=|0\\.[0-9]|[01]| |\"|\\*){0,8}", language in "(de|en)?") {
            let request = head(&[&format!("Accept-Language: {}", value.trim())]);
            let response = head(&["Vary: accept-language, b", &format!("Content-Language: {language}")]);
            let spec = key(&response, &request).unwrap().unwrap();
            let mut stored = Vec::new();
            values(&spec, &request, Codings::GZIP, &mut stored);
            prop_assert!(matches(&stored, &request, Codings::GZIP));
        }

        #[test]
        fn a_normal_form_stays_as_it_is(value in "([a-c]|,| |\"|\\\\){0,10}") {
            let once = compact(value.as_bytes());
            prop_assert_eq!(compact(&once), once);
        }
    }
}
