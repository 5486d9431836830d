// SPDX-License-Identifier: BSD-2-Clause
//! Accept-Language against a site's list of languages: RFC 9110 12.5.4 for the field, RFC 4647 3.3.1, 3.3.2 and 3.4 for what
//! matches.
//!
//! A range with a weight that isn't one is left out, as if it weren't there; so is one whose bytes no language tag has. A weight
//! of 0 takes the languages that its range names exactly out of the choice.

use vrt::Text;
use vrt::vmod::{CallResult, STRING, VmodCall, give};

vrt::words! {
    enum By { Basic = "basic", Extended = "extended" }
}

vrt::vmod! {
    /// Selects the best of a site's languages for an Accept-Language header (RFC 4647)
    pub(crate) static VMOD = accept_language;

    functions {
        /// Returns one language by RFC 4647's lookup: ranges are tried in order of their q, each with subtags removed from
        /// its end (de-AT: de) until a language matches. Languages are separated by spaces or commas and returned as
        /// written there. Without a match it returns the default, or else the first language. At most `most` ranges are
        /// read
        fn lookup(accept: STRING, languages: STRING, default: STRING = null, most: INT = 100) -> STRING, pure
            = accept_language_lookup;

        /// Returns all languages that the header accepts, best first, separated by ", ", by RFC 4647's basic filtering (de:
        /// de, de-AT) or extended filtering (de-DE: also de-Latn-DE). Empty if there are none
        fn filter(accept: STRING, languages: STRING, by: By = Basic, most: INT = 100) -> STRING, pure
            = accept_language_filter;
    }
}

fn accept_language_lookup(
    _: &mut VmodCall<'_>,
    accept: &[u8],
    languages2: &[u8],
    default: Option<&Text>,
    most2: i64,
) -> CallResult<STRING> {
    let accept = Accept::read(accept, most(most2));
    let languages = languages(languages2);
    let found = accept.lookup(&languages).map(Text::copy);
    let first = || Text::copy(languages.first().copied().unwrap_or_default());
    let found = found.or_else(|| default.cloned()).unwrap_or_else(first);
    give(Some(found))
}

fn accept_language_filter(
    _: &mut VmodCall<'_>,
    accept: &[u8],
    languages2: &[u8],
    by: By,
    most2: i64,
) -> CallResult<STRING> {
    let accept = Accept::read(accept, most(most2));
    let languages = languages(languages2);
    let matches = if by == By::Extended { extended } else { basic };
    give(accept.filter(&languages, matches).join(&b", "[..]))
}

fn most(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// A list with spaces or commas.
fn languages(list: &[u8]) -> Vec<&[u8]> {
    list.split(|c| matches!(c, b',' | b' ' | b'\t' | b'\n' | b'\r')).filter(|tag| !tag.is_empty()).collect()
}

struct Accept<'a> {
    /// Wanted, the best first; of equal ones the first as written.
    wanted: Vec<&'a [u8]>,
    /// Ranges with a weight of 0.
    refused: Vec<&'a [u8]>,
}

impl<'a> Accept<'a> {
    fn read(field: &'a [u8], most: usize) -> Accept<'a> {
        let ranges = field.split(|c| *c == b',').filter_map(range).take(most);
        let (refused, mut wanted): (Vec<_>, Vec<_>) = ranges.partition(|(_, weight)| *weight == 0);
        wanted.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
        let tags = |ranges: Vec<(&'a [u8], u16)>| ranges.into_iter().map(|(tag, _)| tag).collect();
        Accept { wanted: tags(wanted), refused: tags(refused) }
    }

    fn is_refused(&self, language: &[u8]) -> bool {
        self.refused.iter().any(|range| range.eq_ignore_ascii_case(language))
    }

    /// The lookup of RFC 4647, 3.4.
    fn lookup<'b>(&self, languages: &[&'b [u8]]) -> Option<&'b [u8]> {
        let known = |tag: &[u8]| {
            let same = |language: &&&[u8]| language.eq_ignore_ascii_case(tag) && !self.is_refused(language);
            languages.iter().find(same).copied()
        };
        self.wanted.iter().filter(|range| **range != b"*").find_map(|range| shorter(range).find_map(known))
    }

    /// RFC 4647 3.3: the languages that some range matches, in order of the ranges, each once.
    fn filter<'b>(&self, languages: &[&'b [u8]], matches: fn(&[u8], &[u8]) -> bool) -> Vec<&'b [u8]> {
        let mut found: Vec<&[u8]> = Vec::new();
        for range in &self.wanted {
            for language in languages {
                if matches(range, language) && !self.is_refused(language) && !found.contains(language) {
                    found.push(language);
                }
            }
        }
        found
    }
}

/// A range and its weight in thousandths; `None` for what is neither.
fn range(text: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = text.split(|c| *c == b';').map(<[u8]>::trim_ascii);
    let tag = parts.next().filter(|tag| is_range(tag))?;
    match parts.next() {
        None => Some((tag, 1000)),
        Some(parameter) => {
            let (name, value) = parameter.split_at_checked(parameter.iter().position(|c| *c == b'=')? + 1)?;
            let is_weight =
                name[..name.len() - 1].trim_ascii_end().eq_ignore_ascii_case(b"q") && parts.next().is_none();
            let weight = is_weight.then(|| weight(value.trim_ascii_start()))??;
            Some((tag, weight))
        }
    }
}

/// RFC 4647 2.2, as long subtags as there are: private ones of the field have been longer than eight.
fn is_range(tag: &[u8]) -> bool {
    let subtag = |part: &[u8]| part == b"*" || !part.is_empty() && part.iter().all(u8::is_ascii_alphanumeric);
    tag.split(|c| *c == b'-').all(subtag)
}

/// RFC 9110 12.4.2: 0 to 1 with up to three decimals; further decimals are cut off.
fn weight(text: &[u8]) -> Option<u16> {
    let (whole, decimals) = match text {
        [whole @ (b'0' | b'1')] => (whole, &b""[..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.iter().all(u8::is_ascii_digit) => (whole, decimals),
        _ => return None,
    };
    let digit = |at: usize| u16::from(decimals.get(at).unwrap_or(&b'0') - b'0');
    let thousandths = u16::from(whole - b'0') * 1000 + digit(0) * 100 + digit(1) * 10 + digit(2);
    (thousandths <= 1000).then_some(thousandths)
}

/// The range, then without its last subtag and so on; a subtag of one letter goes with the one behind it.
fn shorter(range: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(range), |range| {
        let cut = |tag: &[u8]| tag.iter().rposition(|c| *c == b'-');
        let mut rest = &range[..cut(range)?];
        while cut(rest).map_or(rest.len(), |at| rest.len() - at - 1) == 1 {
            rest = &rest[..cut(rest)?];
        }
        Some(rest)
    })
}

/// RFC 4647 3.3.1: the range is the language, or its beginning up to a hyphen.
fn basic(range: &[u8], language: &[u8]) -> bool {
    range == b"*"
        || language.get(..range.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(range))
            && matches!(language.get(range.len()), None | Some(b'-'))
}

/// Extended filtering (RFC 4647, 3.3.2).
fn extended(range: &[u8], language: &[u8]) -> bool {
    let (mut wanted, mut have) = (range.split(|c| *c == b'-'), language.split(|c| *c == b'-'));
    let first = (wanted.next().unwrap_or_default(), have.next().unwrap_or_default());
    if first.0 != b"*" && !first.0.eq_ignore_ascii_case(first.1) {
        return false;
    }
    for part in wanted.filter(|part| *part != b"*") {
        loop {
            match have.next() {
                Some(next) if next.eq_ignore_ascii_case(part) => break,
                // What follows a singleton belongs to it.
                Some(next) if next.len() != 1 => {}
                _ => return false,
            }
        }
    }
    true
}

#[cfg(test)]
#[path = "tests/accept_language.rs"]
mod tests;
