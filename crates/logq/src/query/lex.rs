// SPDX-License-Identifier: BSD-2-Clause
//! A query's words, and how errors point at them.

use std::ops::Range;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueryTokenKind {
    Sign(&'static str),
    Value,
    /// A line's end or the text's.
    End,
}

#[derive(Clone, Debug)]
pub struct QueryToken {
    pub kind: QueryTokenKind,
    pub at: Range<usize>,
    pub value: String,
}

/// The signs, longer ones first.
const SIGNS: &[&str] = &[
    "vxid", "and", "not", "==", "!=", "<=", ">=", "eq", "ne", "!~", "or", "<", ">", "~", "[", "]", "{", "}", "(", ")",
    ":", ",",
];

fn is_word(byte: Option<&u8>) -> bool {
    byte.is_some_and(|b| b.is_ascii_alphanumeric() || b"_-+.*".contains(b))
}

/// Points at a place in the text: its position, the text on one line, and a line of marks below.
pub fn place(text: &str, at: &Range<usize>, offset: Option<usize>) -> String {
    let position = at.start + offset.unwrap_or(0) + 1;
    let line: Vec<u8> = text.bytes().map(|b| if b.is_ascii_whitespace() || b == 0x0b { b' ' } else { b }).collect();
    let mark = |i: usize| match at.contains(&i) {
        true if offset == Some(i - at.start) => '^',
        true => '#',
        false => '-',
    };
    let marks: String = (0..line.len()).map(mark).collect();
    format!("(Pos {position})\n{}\n{marks}\n\n", String::from_utf8_lossy(&line))
}

pub fn tokens(text: &str) -> Result<Vec<QueryToken>, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut p = 0;
    while p < bytes.len() {
        let mut push = |kind, at: Range<usize>, value: String| {
            out.push(QueryToken { kind, at: at.clone(), value });
            at.end
        };
        if matches!(bytes[p], b' ' | b'\t') {
            p += 1;
        } else if bytes[p..].starts_with(b"\\\n") {
            p += 2;
        } else if bytes[p] == b'#' {
            p += bytes[p..].iter().position(|b| *b == b'\n').unwrap_or(bytes.len() - p);
        } else if let Some(sign) = sign(&bytes[p..]) {
            p = push(QueryTokenKind::Sign(sign), p..p + sign.len(), String::new());
        } else if matches!(bytes[p], b'"' | b'\'') {
            let (end, closed) = quoted(bytes, p);
            if !closed {
                return Err(format!("Unterminated string {}", place(text, &(p..end), Some(end - p))));
            }
            p = push(QueryTokenKind::Value, p..end, unescape(&text[p + 1..end - 1]));
        } else if is_word(bytes.get(p)) {
            let end = p + bytes[p..].iter().take_while(|b| is_word(Some(b))).count();
            p = push(QueryTokenKind::Value, p..end, text[p..end].to_owned());
        } else if bytes[p] == b'\n' {
            p = push(QueryTokenKind::End, p..p + 1, String::new());
        } else {
            return Err(format!("Syntax error {}", place(text, &(p..p + 1), None)));
        }
    }
    out.push(QueryToken { kind: QueryTokenKind::End, at: bytes.len()..bytes.len(), value: String::new() });
    Ok(out)
}

fn sign(rest: &[u8]) -> Option<&'static str> {
    SIGNS.iter().copied().find(|sign| {
        let last = sign.as_bytes()[sign.len() - 1];
        rest.starts_with(sign.as_bytes()) && !(is_word(Some(&last)) && is_word(rest.get(sign.len())))
    })
}

/// The offset at which the text in quotes ends, and true if it does.
fn quoted(bytes: &[u8], begin: usize) -> (usize, bool) {
    let mut q = begin + 1;
    while q < bytes.len() {
        match bytes[q] {
            b'\\' => {
                q += 1;
                if bytes.get(q).is_none_or(|b| *b == b'\n') {
                    break;
                }
            }
            b'\n' => break,
            b if b == bytes[begin] => return (q + 1, true),
            _ => {}
        }
        q += 1;
    }
    (q.min(bytes.len()), false)
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut escaped = false;
    for c in text.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            escaped = false;
            out.push(c);
        }
    }
    out
}
