// SPDX-License-Identifier: BSD-2-Clause
//! vmod_str(3) of varnish-modules: texts as bytes.

use std::collections::HashSet;

use vrt::Text;
use vrt::vmod::{BOOL, CallResult, STRING, VmodCall, give};

vrt::vmod! {
    /// String functions
    pub(crate) static VMOD = str;

    functions {
        /// Returns the length of a string in bytes; -1 if it is unset
        fn count(s: STRING) -> INT, pure = |_, s: Option<&Text>| s.map_or(-1, |text| text.len() as i64);

        /// Returns the length of a string in bytes, as in Varnish Enterprise: 0 if it is unset
        fn len(s: STRING) -> INT, pure = |_, s: &[u8]| s.len() as i64;

        /// Same as take, as in Varnish Enterprise
        fn substr(s: STRING, length: INT, offset: INT = 0) -> STRING, pure = cut;

        /// Returns whether s1 begins with s2
        fn startswith(s1: STRING, s2: STRING) -> BOOL, pure
            = |_, s1: Option<&Text>, s2: Option<&Text>| both(s1, s2, |a, b| a.starts_with(b));

        /// Returns whether s1 ends with s2
        fn endswith(s1: STRING, s2: STRING) -> BOOL, pure
            = |_, s1: Option<&Text>, s2: Option<&Text>| both(s1, s2, |a, b| a.ends_with(b));

        /// Returns whether s2 is in s1
        fn contains(s1: STRING, s2: STRING) -> BOOL, pure
            = |_, s1: Option<&Text>, s2: Option<&Text>| both(s1, s2, |a, b| memchr::memmem::find(a, b).is_some());

        /// Returns n bytes from offset on; a negative offset counts from the end, a negative n selects the bytes before it
        fn take(s: STRING, n: INT, offset: INT = 0) -> STRING, pure = cut;

        /// Returns the bytes in reverse order
        fn reverse(s: STRING) -> STRING, pure = reverse;

        /// Returns the n-th word, separated by bytes of sep; from the end if n is negative; unset if there is none
        fn split(s: STRING, n: INT, sep: STRING = " \t") -> STRING, pure = split;

        /// Returns whether both strings have a common word; words are separated by blanks and commas, unless separators are
        /// given
        fn token_intersect(str1: STRING, str2: STRING, separators: [STRING]) -> BOOL, pure = token_intersect;
    }
}

fn reverse(_: &mut VmodCall<'_>, s: Option<&Text>) -> CallResult<STRING> {
    let reversed = |text: &Text| text.iter().rev().copied().collect::<Vec<u8>>();
    give(s.map(reversed).map(Text::from))
}

fn split(_: &mut VmodCall<'_>, s: Option<&Text>, n: i64, sep: Option<&Text>) -> CallResult<STRING> {
    let texts = s.zip(sep);
    let word = texts.and_then(|(text, separators)| word(text, n, separators));
    give(word.map(Text::copy))
}

fn token_intersect(_: &mut VmodCall<'_>, s1: &[u8], s2: &[u8], separators: Option<&Text>) -> CallResult<BOOL> {
    let separators = separators.map_or(&b" ,"[..], |text| text);
    let is_separator = |byte: &u8| separators.contains(byte);
    let known: HashSet<&[u8]> = s2.split(is_separator).filter(|token| !token.is_empty()).collect();
    give(s1.split(is_separator).any(|token| known.contains(token)))
}

fn cut(_: &mut VmodCall<'_>, s: Option<&Text>, length: i64, offset: i64) -> CallResult<STRING> {
    give(s.map(|text| Text::copy(take(text, length, offset))))
}

fn both(s1: Option<&Text>, s2: Option<&Text>, test: impl Fn(&[u8], &[u8]) -> bool) -> CallResult<BOOL> {
    let (a, b) = (s1, s2);
    give(a.zip(b).is_some_and(|(a, b)| test(a, b)))
}

/// The part of the text between `offset` and `n` bytes on (or back).
fn take(text: &[u8], n: i64, offset: i64) -> &[u8] {
    let len = text.len() as i64;
    // Left of the beginning is the end.
    let offset = if offset < 0 || offset == 0 && n < 0 { offset.saturating_add(len) } else { offset };
    let other = offset.saturating_add(n);
    let (begin, end) = (offset.min(other).clamp(0, len), offset.max(other).clamp(0, len));
    &text[begin as usize..end as usize]
}

fn word<'t>(text: &'t [u8], n: i64, separators: &[u8]) -> Option<&'t [u8]> {
    let mut words = text.split(|byte| separators.contains(byte)).filter(|word| !word.is_empty());
    let steps = usize::try_from(n.unsigned_abs()).ok()?.checked_sub(1)?;
    if n > 0 { words.nth(steps) } else { words.rev().nth(steps) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_as_varnish_modules_does() {
        let all =
            [(3, 0), (10, 0), (3, 2), (3, -2), (-3, -2), (-3, 0), (-3, 4), (-9, 4), (3, 9), (3, -9), (0, 2), (12, -9)];
        let taken = all.map(|(n, offset)| String::from_utf8_lossy(take(b"abcdef", n, offset)).into_owned());
        assert_eq!(taken, ["abc", "abcdef", "cde", "ef", "bcd", "def", "bcd", "abcd", "", "", "", "abcdef"]);
        assert_eq!(take(b"abc", i64::MAX, 1), b"bc");
        assert_eq!(take(b"abc", i64::MIN, i64::MIN), b"");
    }

    #[test]
    fn words_from_both_ends() {
        assert_eq!([1, 2, -1, -2].map(|n| word(b" a\tb  c ", n, b" \t")), [&b"a"[..], b"b", b"c", b"b"].map(Some));
        assert_eq!([0, 4, -4, i64::MIN].map(|n| word(b"a b c", n, b" ")), [None; 4]);
        assert_eq!(word(b"abc", 1, b""), Some(&b"abc"[..]));
    }
}
