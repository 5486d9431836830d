// SPDX-License-Identifier: BSD-2-Clause
//! Places in texts: bytes here, lines and UTF-16 units in the protocol, lines and columns in the compiler's messages.

use serde_json::{Value, json};

fn line_range(text: &[u8], line: usize) -> std::ops::Range<usize> {
    let mut start = 0;
    for _ in 0..line {
        match text[start..].iter().position(|c| *c == b'\n') {
            Some(n) => start += n + 1,
            None => return text.len()..text.len(),
        }
    }
    let len = text[start..].iter().position(|c| *c == b'\n').unwrap_or(text.len() - start);
    start..start + len
}

fn units(bytes: &[u8]) -> usize {
    String::from_utf8_lossy(bytes).encode_utf16().count()
}

/// The protocol's position of byte `at`.
pub(super) fn position(text: &[u8], at: usize) -> Value {
    let at = at.min(text.len());
    let start = text[..at].iter().rposition(|c| *c == b'\n').map_or(0, |n| n + 1);
    let line = text[..start].iter().filter(|c| **c == b'\n').count();
    json!({ "line": line, "character": units(&text[start..at]) })
}

/// The protocol's range of bytes `from..to`.
pub(super) fn range(text: &[u8], from: usize, to: usize) -> Value {
    json!({ "start": position(text, from), "end": position(text, to) })
}

/// The byte that a position of the protocol means; a position beyond its line is the line's end.
pub(super) fn offset(text: &[u8], position: &Value) -> usize {
    let number = |key: &str| position[key].as_u64().map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let line = line_range(text, number("line").min(text.len()));
    let wanted = number("character");
    (line.start..line.end)
        .find(|at| (*at == line.start || text[*at] & 0xc0 != 0x80) && units(&text[line.start..*at]) >= wanted)
        .unwrap_or(line.end)
}

/// The byte of a line and a column of the compiler's, both from 1.
pub(super) fn of_column(text: &[u8], line: u32, column: u32) -> usize {
    let line = line_range(text, line.saturating_sub(1) as usize);
    let mut at_column = 1;
    for at in line.clone() {
        if at_column >= column {
            return at;
        }
        at_column = if text[at] == b'\t' { ((at_column - 1) & !7) + 9 } else { at_column + 1 };
    }
    line.end
}

/// `file:///a%20b` as a path; `None` for other schemes.
pub(super) fn path_of(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
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

/// A path as a `file:` URI.
pub(super) fn uri_of(path: &str) -> String {
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

    #[test]
    fn positions_come_back() {
        let text = "a\n\tä😀b\n".as_bytes();
        for at in [0, 1, 2, 3, 5, 9, 10, 11] {
            assert_eq!(offset(text, &position(text, at)), at, "{at}");
        }
        assert_eq!(position(text, 9), json!({ "line": 1, "character": 4 }));
        assert_eq!(offset(text, &json!({ "line": 0, "character": 99 })), 1);
        assert_eq!(offset(text, &json!({ "line": u64::MAX, "character": 0 })), text.len());
    }

    #[test]
    fn columns_count_tabs_by_eight() {
        assert_eq!(of_column(b"x\n\tab", 2, 9), 3);
        assert_eq!(of_column(b"x\n\tab", 2, 10), 4);
        assert_eq!(of_column(b"x\n\tab", 9, 1), 5);
    }

    #[test]
    fn uris_come_back() {
        assert_eq!(path_of("file:///a%20b/%C3%A4.vcl").as_deref(), Some("/a b/ä.vcl"));
        assert_eq!(uri_of("/a b/ä.vcl"), "file:///a%20b/%C3%A4.vcl");
        assert_eq!(path_of("untitled:1"), None);
        assert_eq!(path_of("file:///a%2"), Some("/a%2".to_owned()));
    }
}
