// SPDX-License-Identifier: BSD-2-Clause
//! Attributes in the value of a field: what commas and semicolons, or other bytes, part, NAME or NAME=VALUE. What is in quotes parts nothing.

use std::ops::Range;

use memchr::memmem;

#[derive(Clone, Copy)]
pub(super) struct Form<'a> {
    /// The bytes that part them, blanks beside others only being blanks; commas and semicolons if none are given.
    pub(super) between: Option<&'a [u8]>,
    pub(super) equals: &'a [u8],
}

impl Form<'_> {
    fn parts(self, byte: u8) -> bool {
        let between = self.between.unwrap_or(b",;");
        between.contains(&byte) && (!byte.is_ascii_whitespace() || between.iter().all(u8::is_ascii_whitespace))
    }

    /// True if a text is a name, and can't be read otherwise.
    pub(super) fn is_name(self, text: &[u8]) -> bool {
        !text.contains(&b'"') && !text.iter().any(|byte| self.parts(*byte))
    }

    /// Positions of the attributes of a value, without the blanks around them.
    pub(super) fn places(self, value: &[u8]) -> Vec<Range<usize>> {
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
                byte if !is_quoted && self.parts(*byte) => {
                    end_at(begin, at);
                    begin = at + 1;
                }
                _ => {}
            }
        }
        end_at(begin, value.len());
        out
    }

    fn named(self, value: &[u8], name: &[u8]) -> Option<Range<usize>> {
        let is = |place: &Range<usize>| {
            let text = &value[place.clone()];
            let end = memmem::find(text, self.equals).unwrap_or(text.len());
            text[..end].trim_ascii_end().eq_ignore_ascii_case(name)
        };
        self.places(value).into_iter().find(is)
    }

    /// The value of an attribute, without its quotes; empty when it is a name alone.
    pub(super) fn get(self, value: &[u8], name: &[u8]) -> Option<Vec<u8>> {
        let text = &value[self.named(value, name)?];
        let Some(at) = memmem::find(text, self.equals) else { return Some(Vec::new()) };
        let text = text[at + self.equals.len()..].trim_ascii_start();
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
    pub(super) fn set(self, value: &[u8], name: &[u8], to: Option<&[u8]>) -> Vec<u8> {
        let mut attr = name.to_vec();
        if let Some(to) = to {
            attr.extend_from_slice(self.equals);
            if !is_quoted_string(to) && to.iter().any(|b| b.is_ascii_whitespace() || *b == b'"' || self.parts(*b)) {
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
        if let Some(place) = self.named(value, name) {
            return [&value[..place.start], &attr, &value[place.end..]].concat();
        }
        let all = self.places(value);
        let Some(last) = all.last() else { return attr };
        if let Some(between) = self.between {
            return [&value[..last.end], between, &attr].concat();
        }
        // The new one is parted as the others are.
        let by_semicolon = all.windows(2).any(|pair| value[pair[0].end..pair[1].start].contains(&b';'));
        let by_comma = all.windows(2).any(|pair| value[pair[0].end..pair[1].start].contains(&b','));
        let separator: &[u8] = if by_semicolon && !by_comma { b"; " } else { b", " };
        [&value[..last.end], separator, &attr].concat()
    }

    /// The field's value without the attribute and what parted it from its neighbour.
    pub(super) fn delete(self, value: &[u8], name: &[u8]) -> Vec<u8> {
        let Some(place) = self.named(value, name) else { return value.to_vec() };
        let all = self.places(value);
        let at = all.iter().position(|other| *other == place).expect("one of them");
        match (all.get(at + 1), at.checked_sub(1)) {
            (Some(next), _) => [&value[..place.start], &value[next.start..]].concat(),
            (None, Some(before)) => value[..all[before].end].to_vec(),
            (None, None) => Vec::new(),
        }
    }
}

/// True if the text is one quoted string, so that what is behind it isn't taken in and nothing of it gets out.
fn is_quoted_string(text: &[u8]) -> bool {
    let Some(inner) = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")) else { return false };
    let mut is_escaped = false;
    for byte in inner {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return false,
            _ => {}
        }
    }
    !is_escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: Form<'_> = Form { between: None, equals: b"=" };

    fn get(value: &[u8], name: &[u8]) -> Option<Vec<u8>> {
        PLAIN.get(value, name)
    }

    fn set(value: &[u8], name: &[u8], to: Option<&[u8]>) -> Vec<u8> {
        PLAIN.set(value, name, to)
    }

    fn delete(value: &[u8], name: &[u8]) -> Vec<u8> {
        PLAIN.delete(value, name)
    }

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
    fn other_delimiters() {
        let form = Form { between: Some(b" "), equals: b"->" };
        let value = b"a->1  b;c->2,3 q->\"x y\"";
        assert_eq!(form.places(value).len(), 3);
        assert_eq!(form.get(value, b"b;c"), Some(b"2,3".to_vec()));
        assert_eq!(form.get(value, b"q"), Some(b"x y".to_vec()));
        assert_eq!(form.set(b"a->1 b", b"a", Some(b"9")), b"a->9 b");
        assert_eq!(form.set(b"a->1 b", b"c", Some(b"d e")), b"a->1 b c->\"d e\"");
        assert_eq!(form.delete(b"a->1 b", b"a"), b"b");
        let form = Form { between: Some(b"| "), equals: b"=" };
        assert_eq!(form.get(b"a=x y | b=2,z|c", b"b"), Some(b"2,z".to_vec()));
        assert_eq!(form.get(b"a=x y | b", b"a"), Some(b"x y".to_vec()));
        assert!(form.is_name(b"a,b") && !form.is_name(b"a|b"));
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
        assert_eq!(set("a, b", "q", Some("\"x, y\"")), "a, b, q=\"x, y\"");
        // Two strings in quotes, and a quote that is open: neither gets out of its own.
        assert_eq!(set("a", "q", Some("\"x\", y=\"z\"")), "a, q=\"\\\"x\\\", y=\\\"z\\\"\"");
        assert_eq!(set("a", "q", Some("\"x\\\"")), "a, q=\"\\\"x\\\\\\\"\"");
        let delete =
            |value: &str, name: &str| String::from_utf8(delete(value.as_bytes(), name.as_bytes())).expect("text");
        assert_eq!([delete("a, b, c", "a"), delete("a, b, c", "b"), delete("a, b; c", "c")], ["b, c", "a, c", "a, b"]);
        assert_eq!([delete("a", "a"), delete("a", "b")], ["", "a"]);
    }

    proptest! {
        #[test]
        fn any_bytes_do_no_harm(value: Vec<u8>, name: Vec<u8>, to: Option<Vec<u8>>) {
            get(&value, &name);
            delete(&set(&value, &name, to.as_deref()), &name);
        }

        #[test]
        fn set_get_and_delete_agree(
            others in proptest::collection::btree_map("[a-m]{1,3}", "[!#-+\\--:<-~]{0,4}|\"[ -!#-\\[\\]-~]{0,6}\"", 0..5),
            semicolon: bool, name in "[n-z]{1,3}", to in proptest::option::of("[ -~\\x0c\u{e9}]{0,8}"),
        ) {
            let parts: Vec<String> = others.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let value = parts.join(if semicolon { "; " } else { ", " }).into_bytes();
            let plain = |text: &str| get(format!("x={text}").as_bytes(), b"x");
            let wanted = to.as_ref().map_or(Some(Vec::new()), |to| {
                if is_quoted_string(to.as_bytes()) { plain(to) } else { Some(to.clone().into_bytes()) }
            });
            let made = set(&value, name.as_bytes(), to.as_deref().map(str::as_bytes));
            prop_assert_eq!(get(&made, name.as_bytes()), wanted);
            for (other, value) in &others {
                prop_assert_eq!(get(&made, other.as_bytes()), plain(value));
            }
            prop_assert_eq!(delete(&made, name.as_bytes()), value);
            prop_assert_eq!(PLAIN.places(&made).len(), others.len() + 1);
        }
    }
}
