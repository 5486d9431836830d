// SPDX-License-Identifier: BSD-2-Clause
//! Non-ASCII characters that blogs, word processors and foreign keyboards produce instead of VCL's ASCII. Finds them
//! outside of texts and comments, with the ASCII replacement of each.
//!
//! A typographic quote is a delimiter where a text begins, and ends one that such a quote began. Inside a text in plain
//! quotes it is content, unless the line's plain quotes don't come in pairs.

use std::borrow::Cow;
use std::ops::Range;

use crate::token::{BYTE_ORDER_MARK, is_id, is_id_start, lex, line_end};

/// Kinds of non-ASCII characters, in the order in which they are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OddKind {
    NoBreakSpace,
    Quote(Padding),
    Space,
    ZeroWidth,
    ByteOrderMark,
    Dash,
    FullWidth,
    /// Has no ASCII replacement.
    Other,
}

/// The side on which blanks fill up an ASCII quote to the original's length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Padding {
    Before,
    After,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OddCharacter {
    pub at: Range<usize>,
    pub kind: OddKind,
    /// The ASCII replacement. `None` in a replaced character means that it is deleted.
    pub ascii: Option<char>,
}

/// Typographic quotes from word processors, blogs and foreign keyboards.
pub const QUOTES: [char; 21] = [
    '\u{201c}', '\u{201d}', '\u{201e}', '\u{201f}', '\u{2033}', '\u{2036}', '\u{ab}', '\u{bb}', '\u{ff02}', '\u{301d}',
    '\u{301e}', '\u{301f}', '\u{2018}', '\u{2019}', '\u{201a}', '\u{201b}', '\u{2032}', '\u{2035}', '\u{2039}',
    '\u{203a}', '\u{b4}',
];
/// Number of double quotes at the start of [`QUOTES`]; the others are single.
const DOUBLE_QUOTES: usize = 12;

/// The relevant part of Windows-1252 from 0x91 on: files in that encoding aren't valid UTF-8.
const WINDOWS_1252: [(u8, char); 8] = [
    (0x91, '\u{2018}'),
    (0x92, '\u{2019}'),
    (0x93, '\u{201c}'),
    (0x94, '\u{201d}'),
    (0x96, '\u{2013}'),
    (0x97, '\u{2014}'),
    (0xa0, '\u{a0}'),
    (0xad, '\u{ad}'),
];

/// The first character of `rest` and its length in bytes. A byte that isn't UTF-8 is read as Windows-1252.
pub(crate) fn decode(rest: &[u8]) -> (Option<char>, usize) {
    let head = &rest[..rest.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
    };
    match valid.chars().next() {
        Some(c) => (Some(c), c.len_utf8()),
        None => (WINDOWS_1252.iter().find(|(byte, _)| rest.first() == Some(byte)).map(|(_, c)| *c), 1),
    }
}

/// `None` if the character is no quote; else whether it is a double one.
fn quote(c: char) -> Option<bool> {
    QUOTES.iter().position(|quote| *quote == c).map(|n| n < DOUBLE_QUOTES)
}

fn kind_of(c: Option<char>) -> (OddKind, Option<char>) {
    match c {
        Some(c) if quote(c).is_some() => (OddKind::Quote(Padding::After), Some('"')),
        Some('\u{a0}') => (OddKind::NoBreakSpace, Some(' ')),
        Some(
            '\u{85}'
            | '\u{1680}'
            | '\u{2000}'..='\u{200a}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{202f}'
            | '\u{205f}'
            | '\u{3000}',
        ) => (OddKind::Space, Some(' ')),
        Some('\u{feff}') => (OddKind::ByteOrderMark, None),
        Some('\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}') => {
            (OddKind::ZeroWidth, None)
        }
        Some('\u{2010}'..='\u{2015}' | '\u{2212}') => (OddKind::Dash, Some('-')),
        Some(c @ '\u{ff01}'..='\u{ff5e}') => (OddKind::FullWidth, char::from_u32(u32::from(c) - 0xfee0)),
        _ => (OddKind::Other, None),
    }
}

impl OddCharacter {
    pub fn is_replaced(&self) -> bool {
        self.kind != OddKind::Other
    }
}

/// All non-ASCII characters of `text` that stand outside of texts and comments, or delimit a text.
pub(crate) fn find(text: &[u8]) -> Vec<OddCharacter> {
    let at = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    if text.is_ascii() {
        return Vec::new();
    }
    let mut scan = Scan { text, at, found: Vec::new() };
    while scan.at < text.len() {
        scan.step();
    }
    scan.found
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    found: Vec<OddCharacter>,
}

impl Scan<'_> {
    /// Skips a comment, a text, a word, or one character.
    fn step(&mut self) {
        let rest = &self.text[self.at..];
        let behind = |close: &[u8], from: usize| {
            rest.get(from..).and_then(|body| find_bytes(body, close)).map(|n| from + n + close.len())
        };
        let len = match rest {
            [b'#', ..] | [b'/', b'/', ..] => line_end(rest),
            [b'/', b'*', ..] => behind(b"*/", 2).unwrap_or(rest.len()),
            [b'"', b'"', b'"', ..] => behind(b"\"\"\"", 3).unwrap_or(rest.len()),
            [b'C', b'{', ..] => behind(b"}C", 2).unwrap_or(rest.len()),
            [b'{', b'"', ..] => match behind(b"\"}", 2) {
                Some(len) => len,
                None => return self.long_text(2),
            },
            [b'{', c, ..] if !c.is_ascii() && self.quote_at(self.at + 1).is_some_and(|(_, is_double)| is_double) => {
                return self.long_text(1);
            }
            [b'"', ..] => return self.text_in_plain_quotes(),
            [c, ..] if is_id_start(*c) => rest.iter().take_while(|c| is_id(**c)).count(),
            [c, ..] if c.is_ascii() => 1,
            _ => return self.character(),
        };
        self.at += len;
    }

    /// The length of the quote at a byte, and whether it is a double one.
    fn quote_at(&self, at: usize) -> Option<(usize, bool)> {
        let (c, len) = decode(self.text.get(at..)?);
        Some((len, quote(c?)?))
    }

    fn push(&mut self, at: usize, len: usize, padding: Padding) {
        self.found.push(OddCharacter { at: at..at + len, kind: OddKind::Quote(padding), ascii: Some('"') });
    }

    /// Skips a text of several lines with a typographic quote in one of its delimiters `{"` and `"}`. `open` is the
    /// number of ASCII bytes in the first delimiter.
    fn long_text(&mut self, open: usize) {
        let first = self.at + open;
        let opening = if open == 1 { self.quote_at(first).map_or(0, |(len, _)| len) } else { 0 };
        let body = first + opening;
        let ends = |at: usize| match self.text[at] {
            b'"' => Some(1),
            c if c.is_ascii() => None,
            _ => self.quote_at(at).filter(|(_, is_double)| *is_double).map(|(len, _)| len),
        };
        let close = (body..self.text.len()).find_map(|at| {
            let len = ends(at)?;
            (self.text.get(at + len) == Some(&b'}')).then_some((at, len))
        });
        let Some((close, len)) = close else {
            self.at += 1;
            return;
        };
        if opening > 0 {
            self.push(first, opening, Padding::After);
        }
        if self.text[close] != b'"' {
            self.push(close, len, Padding::Before);
        }
        self.at = close + len + 1;
    }

    /// Skips `"...`: up to the next plain quote of the line, or to a typographic one if the number of plain ones is
    /// odd.
    fn text_in_plain_quotes(&mut self) {
        let line = self.at + 1..self.at + line_end(&self.text[self.at..]);
        let plain = self.text[line.clone()].iter().filter(|c| **c == b'"').count();
        let odd = line.clone().find_map(|at| match self.quote_at(at) {
            Some((len, true)) if !self.text[at].is_ascii() => Some((at, len)),
            _ => None,
        });
        match odd {
            Some((at, len)) if plain.is_multiple_of(2) => {
                self.push(at, len, Padding::After);
                self.at = at + len;
            }
            _ => {
                let end = self.text[line.clone()].iter().position(|c| *c == b'"');
                self.at = end.map_or(line.end, |n| line.start + n + 1);
            }
        }
    }

    fn character(&mut self) {
        let (c, len) = decode(&self.text[self.at..]);
        let (at, (kind, ascii)) = (self.at, kind_of(c));
        self.at += len;
        let Some(is_double) = c.and_then(quote) else {
            self.found.push(OddCharacter { at: at..at + len, kind, ascii });
            return;
        };
        self.push(at, len, Padding::Before);
        let line = self.at..self.at + line_end(&self.text[self.at..]);
        let close = line.clone().find_map(|at| match self.text[at] {
            b'"' => Some((at, 1)),
            c if c.is_ascii() => None,
            _ => self.quote_at(at).filter(|(_, double)| *double == is_double).map(|(len, _)| (at, len)),
        });
        let Some((close, len)) = close else { return };
        if self.text[close] != b'"' {
            self.push(close, len, Padding::After);
        }
        self.at = close + len;
    }
}

fn find_bytes(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// Counts of each kind and the replacements; `None` if nothing can be replaced.
pub(crate) fn summary(found: &[OddCharacter]) -> Option<String> {
    use OddKind::{ByteOrderMark, Dash, FullWidth, NoBreakSpace, Other, Quote, Space, ZeroWidth};
    const NAMES: [(OddKind, &str, &str); 7] = [
        (NoBreakSpace, "no-break space", "no-break spaces"),
        (Quote(Padding::After), "typographic quote", "typographic quotes"),
        (Space, "space of another kind", "spaces of other kinds"),
        (ZeroWidth, "character without width", "characters without width"),
        (ByteOrderMark, "byte order mark", "byte order marks"),
        (Dash, "dash", "dashes"),
        (FullWidth, "full-width character", "full-width characters"),
    ];
    let is_of = |odd: &&OddCharacter, kind: OddKind| match odd.kind {
        Quote(_) => matches!(kind, Quote(_)),
        other => other == kind,
    };
    let count = |kind: OddKind| found.iter().filter(|odd| is_of(odd, kind)).count();
    let mut counts: Vec<String> = Vec::new();
    for (kind, one, many) in NAMES {
        match count(kind) {
            0 => {}
            1 => counts.push(format!("1 {one}")),
            n => counts.push(format!("{n} {many}")),
        }
    }
    let others = match count(Other) {
        0 => String::new(),
        1 => " 1 other character has to be typed anew.".to_owned(),
        n => format!(" {n} other characters have to be typed anew."),
    };
    let last = counts.pop()?;
    let all = if counts.is_empty() { last } else { format!("{} and {last}", counts.join(", ")) };
    let replaced = found.iter().filter(|odd| odd.is_replaced()).count();
    let (are, them) = if replaced == 1 { ("is", "it") } else { ("are", "them") };
    Some(format!(
        "Outside of texts and comments there {are} {all}: `lacquer vcl fmt --ascii FILE` replaces {them}.{others}"
    ))
}

/// The characters to replace; empty if the text can be read as it is.
fn replaced(text: &[u8]) -> Vec<OddCharacter> {
    if text.is_ascii() || lex(text, 0, &mut Vec::new(), &mut Vec::new()).is_ok() {
        return Vec::new();
    }
    let mut found = find(text);
    found.retain(OddCharacter::is_replaced);
    found
}

/// The ranges of `text` to replace, with their ASCII. Empty for a text that can be read.
pub fn ascii_edits(text: &[u8]) -> Vec<(Range<usize>, String)> {
    replaced(text).into_iter().map(|odd| (odd.at, odd.ascii.into_iter().collect())).collect()
}

/// Replaces non-ASCII characters of `text` with ASCII. A text that can be read is returned unchanged.
pub fn to_ascii(text: &[u8]) -> Cow<'_, [u8]> {
    let edits = ascii_edits(text);
    if edits.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut done) = (Vec::with_capacity(text.len()), 0);
    for (at, new) in edits {
        out.extend_from_slice(&text[done..at.start]);
        out.extend_from_slice(new.as_bytes());
        done = at.end;
    }
    out.extend_from_slice(&text[done..]);
    Cow::Owned(out)
}

/// Like [`to_ascii`], with blanks at the ends of words for the missing bytes, so that no offset changes.
pub fn to_ascii_in_place(text: &[u8]) -> Cow<'_, [u8]> {
    let found = replaced(text);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut at, mut owed) = (Vec::with_capacity(text.len()), 0, 0);
    let mut next = found.iter().peekable();
    let pay = |out: &mut Vec<u8>, owed: &mut usize| out.extend(std::iter::repeat_n(b' ', std::mem::take(owed)));
    while at < text.len() {
        let Some(odd) = next.next_if(|odd| odd.at.start == at) else {
            if !is_id(text[at]) && text[at] != b'.' {
                pay(&mut out, &mut owed);
            }
            out.push(text[at]);
            at += 1;
            continue;
        };
        let missing = odd.at.len() - usize::from(odd.ascii.is_some());
        match odd.kind {
            OddKind::Quote(Padding::Before) | OddKind::NoBreakSpace | OddKind::Space => {
                owed += missing;
                pay(&mut out, &mut owed);
                out.extend(odd.ascii.map(|c| c as u8));
            }
            OddKind::Quote(Padding::After) => {
                pay(&mut out, &mut owed);
                out.push(b'"');
                owed += missing;
                pay(&mut out, &mut owed);
            }
            _ => {
                out.extend(odd.ascii.map(|c| c as u8));
                owed += missing;
            }
        }
        at = odd.at.end;
    }
    pay(&mut out, &mut owed);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the replaced text, also in place.
    #[track_caller]
    fn becomes(text: &str, ascii: &str) {
        assert_eq!(String::from_utf8_lossy(&to_ascii(text.as_bytes())), ascii);
        let in_place = to_ascii_in_place(text.as_bytes());
        assert_eq!(in_place.len(), text.len(), "{text}");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().concat();
        assert_eq!(words(&String::from_utf8_lossy(&in_place)), words(ascii));
        assert_eq!(to_ascii(ascii.as_bytes()), ascii.as_bytes());
    }

    #[test]
    fn quotes_that_delimit_are_replaced() {
        becomes("if (req.url ~ “\\.(jpg)$”) {", "if (req.url ~ \"\\.(jpg)$\") {");
        becomes("„a“ «b» ‘c’ 'd'", "\"a\" \"b\" \"c\" 'd'");
        becomes("set req.http.a = \"it’s “so”\"; # “so”", "set req.http.a = \"it’s “so”\"; # “so”");
        becomes("set req.http.a = “it’s” + req.url;", "set req.http.a = \"it’s\" + req.url;");
        // Only one of the two quotes is typographic.
        becomes("(req.url ~ \"^/x”) {", "(req.url ~ \"^/x\") {");
        becomes("set req.http.a = “x\" + \"y”;", "set req.http.a = \"x\" + \"y\";");
        becomes("synthetic {“<p class=\"a\">“b”</p>”};", "synthetic {\"<p class=\"a\">“b”</p>\"};");
        becomes("synthetic {\"<p>”};", "synthetic {\"<p>\"};");
        becomes("acl a {“localhost”;}", "acl a {\"localhost\";}");
        becomes("{\"“\n”\"} /* “ ” */", "{\"“\n”\"} /* “ ” */");
    }

    #[test]
    fn all_that_looks_like_ascii_is_replaced() {
        becomes("sub\u{a0}vcl_recv\u{3000}{\u{2009}}", "sub vcl_recv { }");
        becomes("vcl\u{200b}_recv\u{feff} x\u{ad};", "vcl_recv x;");
        becomes(
            "set beresp.ttl = 2s – 1s; set req.http.X—A = \"–\";",
            "set beresp.ttl = 2s - 1s; set req.http.X-A = \"–\";",
        );
        becomes("ｓet req．url ＝＝ ＂a＂；", "set req.url == \"a\";");
        becomes("\u{feff}sub é { }", "\u{feff}sub é { }");
    }

    #[test]
    fn bytes_of_windows_1252_are_known() {
        assert_eq!(&*to_ascii(b"a\xa0= \x93\xe9\x94 \x96 \xe9"), b"a = \"\xe9\" - \xe9");
    }

    #[test]
    fn places_stay() {
        assert_eq!(&*to_ascii_in_place("a\u{a0}“b”\u{a0}c".as_bytes()), b"a    \"b\"    c");
        assert_eq!(&*to_ascii_in_place("{“b”} X–Y = c".as_bytes()), b"{\"  b  \"} X-Y   = c");
    }

    #[test]
    fn they_are_counted() {
        assert_eq!(
            summary(&find("a\u{a0}b\u{a0}“c”–".as_bytes())).as_deref(),
            Some(
                "Outside of texts and comments there are 2 no-break spaces, 2 typographic quotes and 1 dash: \
                 `lacquer vcl fmt --ascii FILE` replaces them."
            )
        );
        assert_eq!(
            summary(&find("a\u{a0}é".as_bytes())).as_deref(),
            Some(
                "Outside of texts and comments there is 1 no-break space: `lacquer vcl fmt --ascii FILE` replaces it. \
                 1 other character has to be typed anew."
            )
        );
        assert_eq!(summary(&find("é".as_bytes())), None);
    }
}
