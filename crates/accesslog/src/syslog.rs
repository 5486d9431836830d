// SPDX-License-Identifier: BSD-2-Clause
//! The head that syslog puts before a line of a log: RFC 3164, RFC 5424, or as rsyslog and journalctl write files.

use crate::ncsa;

/// The line without its head; as it is where it has none.
pub fn message(line: &[u8]) -> &[u8] {
    let (rest, has_priority) = priority(line);
    let found = match rest.get(..4) {
        Some(b) if has_priority && b.starts_with(b"1 ") => after_words(rest, 6).and_then(after_data),
        // `Nov 29 07:32:17`
        Some(b) if b[0].is_ascii_uppercase() => {
            let is_time = rest
                .get(3..16)
                .is_some_and(|t| t[0] == b' ' && t[3] == b' ' && t[6] == b':' && t[9] == b':' && t[12] == b' ');
            rest.get(16..).filter(|_| is_time).and_then(after_tag)
        }
        // `2026-11-29T07:32:17.580362+00:00`
        Some(b) if b.iter().all(u8::is_ascii_digit) => {
            let time = rest.split(|b| *b == b' ').next().unwrap_or_default();
            let is_time = time.contains(&b'T') && ncsa::parse_time(time).is_some();
            rest.get(time.len() + 1..).filter(|_| is_time).and_then(after_tag)
        }
        _ => None,
    };
    found.unwrap_or(line)
}

/// The priority, `<134>`, at the beginning.
fn priority(line: &[u8]) -> (&[u8], bool) {
    let end = line.iter().take(5).position(|&b| b == b'>');
    match end {
        Some(end) if line.starts_with(b"<") && line[1..end].iter().all(u8::is_ascii_digit) => (&line[end + 1..], true),
        _ => (line, false),
    }
}

fn after_words(text: &[u8], words: usize) -> Option<&[u8]> {
    let mut blanks = text.iter().enumerate().filter(|(_, b)| **b == b' ').map(|(at, _)| at);
    blanks.nth(words - 1).map(|at| &text[at + 1..])
}

/// Behind the structured data of RFC 5424, which ends in the bracket that a blank follows.
fn after_data(text: &[u8]) -> Option<&[u8]> {
    let text = match text.strip_prefix(b"- ") {
        Some(rest) => rest,
        None => &text[memchr::memmem::find(text.strip_prefix(b"[")?, b"] ")? + 3..],
    };
    Some(text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text))
}

/// Behind `HOST TAG: ` or `TAG: `; a tag is a program's name with its number in brackets, or without.
fn after_tag(text: &[u8]) -> Option<&[u8]> {
    [1, 2].into_iter().find_map(|words| {
        let rest = after_words(text, words)?;
        let head = &text[..text.len() - rest.len() - 1];
        let tag = head.rsplit(|b| *b == b' ').next()?.strip_suffix(b":")?;
        let is_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/' | b'[' | b']');
        (!tag.is_empty() && tag.iter().all(is_name)).then_some(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, want: &str) {
        assert_eq!(String::from_utf8_lossy(message(line.as_bytes())), want, "{line}");
    }

    #[test]
    fn heads_are_taken_off() {
        for head in [
            "<134>Nov 29 07:32:17 localhost haproxy[31777]: ",
            "<190>Nov  9 07:32:17 web1 nginx: ",
            "Nov 29 07:32:17 web1 nginx: ",
            "<190>Nov 29 07:32:17 nginx: ",
            "<134>1 2026-11-29T07:32:17.580362+00:00 - haproxy 31808 - - ",
            r#"<134>1 2026-11-29T07:32:17Z web1 haproxy 31808 - [x@1 a="b]"] "#,
            "2026-11-29T07:32:17.580362+00:00 web1 haproxy[31808]: ",
        ] {
            check(&format!("{head}::1 - - [x]"), "::1 - - [x]");
        }
    }

    #[test]
    fn other_lines_stay() {
        for line in [
            "",
            "<",
            "<134>",
            "::1 - - [x]",
            "192.0.2.1 - - [x] a: b",
            "May.example 192.0.2.1 - - [x]",
            "1234 - - [x]",
            "2026-11-29T07:32:17Z GET /",
            "Nov 29 07:32:17 web1 no tag",
            "<134>1 2026-11-29T07:32:17Z",
            "é: é: é",
        ] {
            check(line, line);
        }
    }
}
