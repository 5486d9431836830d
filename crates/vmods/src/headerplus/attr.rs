// SPDX-License-Identifier: BSD-2-Clause
//! Attributes in the value of a field: what commas and semicolons part, NAME or NAME=VALUE. What is in quotes parts nothing.

use std::ops::Range;

/// Where the attributes of a value are, without the blanks around them.
fn places(value: &[u8]) -> Vec<Range<usize>> {
    let (mut out, mut begin, mut is_quoted, mut is_escaped) = (Vec::new(), 0, false, false);
    let mut end_at = |begin: usize, end: usize| {
        let text = &value[begin..end];
        let from = begin + text.iter().take_while(|b| b.is_ascii_whitespace()).count();
        let len = value[from..end].trim_ascii_end().len();
        if len > 0 {
            out.push(from..from + len);
        }
    };
    for (at, byte) in value.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' | b';' if !is_quoted => {
                end_at(begin, at);
                begin = at + 1;
            }
            _ => {}
        }
    }
    end_at(begin, value.len());
    out
}

fn named(value: &[u8], name: &[u8]) -> Option<Range<usize>> {
    let is = |place: &Range<usize>| {
        let text = &value[place.clone()];
        let end = memchr::memchr(b'=', text).unwrap_or(text.len());
        text[..end].trim_ascii_end().eq_ignore_ascii_case(name)
    };
    places(value).into_iter().find(is)
}

/// The value of an attribute, without its quotes; empty when it is a name alone.
pub(super) fn get(value: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let text = &value[named(value, name)?];
    let Some(at) = memchr::memchr(b'=', text) else { return Some(Vec::new()) };
    let text = text[at + 1..].trim_ascii_start();
    let Some(quoted) = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")) else {
        return Some(text.to_vec());
    };
    let mut is_escaped = false;
    let plain = quoted.iter().filter(|byte| {
        is_escaped = **byte == b'\\' && !is_escaped;
        !is_escaped
    });
    Some(plain.copied().collect())
}

/// The field's value with the attribute set; a value that needs them gets quotes.
pub(super) fn set(value: &[u8], name: &[u8], to: Option<&[u8]>) -> Vec<u8> {
    let mut attr = name.to_vec();
    if let Some(to) = to {
        attr.push(b'=');
        let is_quoted = to.len() > 1 && to.starts_with(b"\"") && to.ends_with(b"\"");
        if !is_quoted && to.iter().any(|b| b" \t,;\"".contains(b)) {
            attr.push(b'"');
            for byte in to {
                attr.extend_from_slice(if b"\"\\".contains(byte) { b"\\" } else { b"" });
                attr.push(*byte);
            }
            attr.push(b'"');
        } else {
            attr.extend_from_slice(to);
        }
    }
    if let Some(place) = named(value, name) {
        return [&value[..place.start], &attr, &value[place.end..]].concat();
    }
    let all = places(value);
    let Some(last) = all.last() else { return attr };
    // The new one is parted as the others are.
    let by_semicolon = all.windows(2).any(|pair| value[pair[0].end..pair[1].start].contains(&b';'));
    let by_comma = all.windows(2).any(|pair| value[pair[0].end..pair[1].start].contains(&b','));
    let separator: &[u8] = if by_semicolon && !by_comma { b"; " } else { b", " };
    [&value[..last.end], separator, &attr].concat()
}

/// The field's value without the attribute and what parted it from its neighbour.
pub(super) fn delete(value: &[u8], name: &[u8]) -> Vec<u8> {
    let Some(place) = named(value, name) else { return value.to_vec() };
    let all = places(value);
    let at = all.iter().position(|other| *other == place).expect("one of them");
    match (all.get(at + 1), at.checked_sub(1)) {
        (Some(next), _) => [&value[..place.start], &value[next.start..]].concat(),
        (None, Some(before)) => value[..all[before].end].to_vec(),
        (None, None) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, name: &str, wanted: Option<&str>) {
        assert_eq!(
            get(value.as_bytes(), name.as_bytes()).map(|v| String::from_utf8_lossy(&v).into_owned()).as_deref(),
            wanted
        );
    }

    #[test]
    fn values_of_attributes() {
        let all = "max-age=3 , no-cache,s-maxage = 4;q=\"a, \\\"b\\\" ; c\",,last";
        check(all, "max-age", Some("3"));
        check(all, "No-Cache", Some(""));
        check(all, "s-maxage", Some("4"));
        check(all, "q", Some("a, \"b\" ; c"));
        check(all, "c", None);
        check(all, "last", Some(""));
        check("", "", None);
        check("a=b=c", "a", Some("b=c"));
        check("x=\"open, y", "y", None);
    }

    #[test]
    fn setting_and_deleting() {
        let set = |value: &str, name: &str, to: Option<&str>| {
            String::from_utf8(set(value.as_bytes(), name.as_bytes(), to.map(str::as_bytes))).expect("text")
        };
        assert_eq!(set("a, b=1; c", "B", Some("2")), "a, B=2; c");
        assert_eq!(set("text/html; charset=x; a", "q", Some("y")), "text/html; charset=x; a; q=y");
        assert_eq!(set("", "q", None), "q");
        assert_eq!(set("a ,", "q", Some("x y\"")), "a, q=\"x y\\\"\"");
        assert_eq!(set("a=1", "a", None), "a");
        let delete =
            |value: &str, name: &str| String::from_utf8(delete(value.as_bytes(), name.as_bytes())).expect("text");
        assert_eq!([delete("a, b, c", "a"), delete("a, b, c", "b"), delete("a, b; c", "c")], ["b, c", "a, c", "a, b"]);
        assert_eq!([delete("a", "a"), delete("a", "b")], ["", "a"]);
    }
}
