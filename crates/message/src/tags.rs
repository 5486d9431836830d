// SPDX-License-Identifier: BSD-2-Clause
//! Tags of objects in header fields, in any number of fields; what they are is the cache's affair.

use tables::tag_fields::{Between, TagField, listed};

use crate::Head;

/// The tags in what VCL or an operator names: between blanks or commas, as vmod_xkey(3) has them.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    split(text, Between::Both)
}

/// The tags in a field's value.
fn split(text: &[u8], between: Between) -> impl Iterator<Item = &[u8]> {
    let is_between = move |b: &u8| match between {
        Between::Both => matches!(b, b' ' | b'\t' | b','),
        Between::Blanks => matches!(b, b' ' | b'\t'),
        Between::Commas => *b == b',',
    };
    text.split(is_between).map(<[u8]>::trim_ascii).filter(|word| !word.is_empty())
}

/// Puts the tags in those fields of a head, as [`listed`] takes them, behind the others.
pub fn gather(head: &Head, fields: &str, tags: &mut Vec<Box<[u8]>>) {
    for TagField { name, between } in listed(fields).flatten() {
        for value in head.get_all(name.as_bytes()) {
            tags.extend(split(value, between).map(Box::from));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fields: &str, expected: &[&str]) {
        let mut head = Head::new();
        for (name, value) in [
            ("xkey", "a  b,c"),
            ("XKEY", ",d, e \tf,"),
            ("X-HashTwo", "g"),
            ("Surrogate-Key", "s,1 s2"),
            ("Cache-Tag", " t 1 , t2,, "),
            ("Other", "h"),
            ("xkey", ""),
        ] {
            head.append(name, value).expect("room");
        }
        let mut tags = Vec::new();
        gather(&head, fields, &mut tags);
        let tags: Vec<_> = tags.iter().map(|tag| String::from_utf8_lossy(tag)).collect();
        assert_eq!(tags, expected, "{fields}");
    }

    #[test]
    fn tags_of_all_fields_in_any_case() {
        check(tables::tag_fields::XKEY, &["a", "b", "c", "d", "e", "f", "g"]);
        check("Surrogate-Key, cache-tag", &["s,1", "s2", "t 1", "t2"]);
        check("Surrogate-Key=both", &["s", "1", "s2"]);
        check("", &[]);
    }

    #[test]
    fn a_long_list_of_tags_is_taken_whole() {
        let mut head = Head::new();
        let value: Vec<String> = (0..8000).map(|n| format!("t{n}")).collect();
        head.append("Cache-Tag", value.join(",")).expect("room");
        let mut tags = Vec::new();
        gather(&head, "Cache-Tag", &mut tags);
        assert_eq!((tags.len(), &*tags[7999]), (8000, &b"t7999"[..]));
    }
}
