// SPDX-License-Identifier: BSD-2-Clause
//! Converts positions: bytes here, lines and units of the agreed encoding in the protocol, lines and columns in the compiler's messages.

use std::ops::Range;

use serde_json::{Value, json};

/// The unit in which the protocol counts columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf8,
    Utf16,
    Utf32,
}

impl Encoding {
    /// The cheapest of the encodings that a client offers. UTF-16 if it offers none.
    pub fn choose(offered: &Value) -> Encoding {
        let has = |name: &str| offered.as_array().is_some_and(|all| all.iter().any(|one| one == name));
        match () {
            () if has("utf-8") => Encoding::Utf8,
            () if has("utf-16") || !has("utf-32") => Encoding::Utf16,
            () => Encoding::Utf32,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "utf-8",
            Encoding::Utf16 => "utf-16",
            Encoding::Utf32 => "utf-32",
        }
    }

    fn width(self, c: char) -> usize {
        match self {
            Encoding::Utf8 => c.len_utf8(),
            Encoding::Utf16 => c.len_utf16(),
            Encoding::Utf32 => 1,
        }
    }
}

/// A text with the offsets of its lines. Lines end in LF, CRLF or CR.
pub(super) struct Lines<'a> {
    text: &'a [u8],
    starts: Vec<usize>,
    encoding: Encoding,
}

impl<'a> Lines<'a> {
    pub fn new(text: &'a [u8], encoding: Encoding) -> Lines<'a> {
        let mut starts = vec![0];
        for (at, c) in text.iter().enumerate() {
            if *c == b'\n' || *c == b'\r' && text.get(at + 1) != Some(&b'\n') {
                starts.push(at + 1);
            }
        }
        Lines { text, starts, encoding }
    }

    /// The protocol's position of byte `at`.
    pub fn position(&self, at: usize) -> Value {
        let at = at.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= at) - 1;
        let before = String::from_utf8_lossy(&self.text[self.starts[line]..at]);
        let units: usize = before.chars().map(|c| self.encoding.width(c)).sum();
        json!({ "line": line, "character": units })
    }

    pub fn range(&self, bytes: &Range<usize>) -> Value {
        json!({ "start": self.position(bytes.start), "end": self.position(bytes.end) })
    }

    /// The byte at a position of the protocol. Beyond a line's end, it is the end; inside a character, the end of the character.
    pub fn offset(&self, position: &Value) -> usize {
        let number = |key: &str| position[key].as_u64().map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX));
        let Some(start) = self.starts.get(number("line")).copied() else { return self.text.len() };
        let wanted = number("character");
        let line = &self.text[start..];
        let end = line.iter().position(|c| matches!(c, b'\n' | b'\r')).unwrap_or(line.len());
        let (mut units, mut at) = (0, 0);
        while at < end && units < wanted {
            let (c, len) = first_char(&line[at..end]);
            units += self.encoding.width(c);
            at += len;
        }
        start + at
    }
}

/// The first character and its length in bytes. An invalid byte counts as one character.
fn first_char(bytes: &[u8]) -> (char, usize) {
    let head = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
    };
    valid.chars().next().map_or((char::REPLACEMENT_CHARACTER, 1), |c| (c, c.len_utf8()))
}

/// The path of a `file:` URI (`file:///a%20b`). Any other URI is returned unchanged.
pub(super) fn path_of(uri: &str) -> Option<String> {
    let Some(rest) = uri.strip_prefix("file://") else { return Some(uri.to_owned()) };
    let rest = if rest.starts_with('/') { rest } else { rest.find('/').map(|n| &rest[n..])? };
    let mut bytes = Vec::with_capacity(rest.len());
    let mut rest = rest.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
        match rest {
            [b'%', a, b, tail @ ..] if hex(*a).is_some() && hex(*b).is_some() => {
                bytes.push(hex(*a)? << 4 | hex(*b)?);
                rest = tail;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// A path as a `file:` URI. Anything else is returned unchanged.
pub(super) fn uri_of(path: &str) -> String {
    if !path.starts_with('/') {
        return path.to_owned();
    }
    let mut out = "file://".to_owned();
    for c in path.bytes() {
        match c {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => out.push(c as char),
            _ => out.push_str(&format!("%{c:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(encoding: Encoding, at: usize, line: u64, character: u64) {
        let lines = Lines::new("a\r\n\tä😀b\rc\n".as_bytes(), encoding);
        let position = json!({ "line": line, "character": character });
        assert_eq!((lines.position(at), lines.offset(&position)), (position, at));
    }

    #[test]
    fn positions_come_back() {
        for (at, line, utf8, utf16, utf32) in [
            (0, 0, 0, 0, 0),
            (1, 0, 1, 1, 1),
            (3, 1, 0, 0, 0),
            (4, 1, 1, 1, 1),
            (6, 1, 3, 2, 2),
            (10, 1, 7, 4, 3),
            (11, 1, 8, 5, 4),
            (12, 2, 0, 0, 0),
            (14, 3, 0, 0, 0),
        ] {
            check(Encoding::Utf8, at, line, utf8);
            check(Encoding::Utf16, at, line, utf16);
            check(Encoding::Utf32, at, line, utf32);
        }
        let lines = Lines::new("a😀\r\nb".as_bytes(), Encoding::Utf16);
        assert_eq!(lines.offset(&json!({ "line": 0, "character": 99 })), 5);
        assert_eq!(lines.offset(&json!({ "line": 0, "character": 2 })), 5);
        assert_eq!(lines.offset(&json!({ "line": u64::MAX, "character": 0 })), 8);
        assert_eq!(Lines::new(b"\xff\xffb", Encoding::Utf16).offset(&json!({ "line": 0, "character": 2 })), 2);
    }

    #[test]
    fn the_encoding_is_one_that_was_offered() {
        assert_eq!(Encoding::choose(&Value::Null), Encoding::Utf16);
        assert_eq!(Encoding::choose(&json!(["utf-32", "utf-16"])), Encoding::Utf16);
        assert_eq!(Encoding::choose(&json!(["utf-16", "utf-8"])), Encoding::Utf8);
        assert_eq!(Encoding::choose(&json!(["utf-32"])), Encoding::Utf32);
    }

    #[test]
    fn uris_come_back() {
        assert_eq!(path_of("file:///a%20b/%C3%A4.vcl").as_deref(), Some("/a b/ä.vcl"));
        assert_eq!(uri_of("/a b/ä.vcl"), "file:///a%20b/%C3%A4.vcl");
        assert_eq!(path_of("file://localhost/a").as_deref(), Some("/a"));
        assert_eq!(path_of("untitled:1").map(|path| uri_of(&path)).as_deref(), Some("untitled:1"));
        assert_eq!(path_of("file:///a%2"), Some("/a%2".to_owned()));
    }
}
