// SPDX-License-Identifier: BSD-2-Clause
//! Recognises words while they come in byte by byte.

/// A word that follows a `<`, or stands in an ESI tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    CommentEsi,
    EmptyComment,
    Comment,
    EsiEnd,
    Esi,
    Cdata,
    Include,
    Remove,
    EsiComment,
    Src,
    OnError,
}

/// Words after `<`; a longer word comes before its own beginning.
pub(crate) const AFTER_LT: &[(&[u8], Word)] = &[
    (b"!--esi", Word::CommentEsi),
    (b"!---->", Word::EmptyComment),
    (b"!--", Word::Comment),
    (b"/esi:", Word::EsiEnd),
    (b"esi:", Word::Esi),
    (b"![CDATA[", Word::Cdata),
];

pub(crate) const ELEMENTS: &[(&[u8], Word)] =
    &[(b"include", Word::Include), (b"remove", Word::Remove), (b"comment", Word::EsiComment)];

pub(crate) const ATTRIBUTES: &[(&[u8], Word)] = &[(b"src=", Word::Src), (b"onerror=", Word::OnError)];

pub(crate) const LONGEST: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagMatch {
    Partial,
    /// This word, of so many bytes; what follows it belongs to what comes next.
    Word(Word, usize),
    Nothing,
}

pub(crate) fn find(table: &[(&'static [u8], Word)], seen: &[u8]) -> TagMatch {
    for (text, word) in table {
        if seen.starts_with(text) {
            return TagMatch::Word(*word, text.len());
        }
        if text.starts_with(seen) {
            return TagMatch::Partial;
        }
    }
    TagMatch::Nothing
}

pub(crate) fn is_space(c: u8) -> bool {
    matches!(c, b' ' | b'\t' | b'\r' | b'\n')
}

pub(crate) fn starts_name(c: u8) -> bool {
    c.is_ascii_alphabetic() || c == b'_' || c == b':' || c >= 0x80
}

pub(crate) fn in_name(c: u8) -> bool {
    starts_name(c) || c.is_ascii_digit() || c == b'-' || c == b'.'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let check = |seen: &str, want| assert_eq!(find(AFTER_LT, seen.as_bytes()), want, "{seen}");
        check("", TagMatch::Partial);
        check("!--e", TagMatch::Partial);
        check("!--esi", TagMatch::Word(Word::CommentEsi, 6));
        check("!--ex", TagMatch::Word(Word::Comment, 3));
        check("!---", TagMatch::Partial);
        check("!---->", TagMatch::Word(Word::EmptyComment, 6));
        check("!----x", TagMatch::Word(Word::Comment, 3));
        check("b", TagMatch::Nothing);
        check("esi:include", TagMatch::Word(Word::Esi, 4));
    }
}
