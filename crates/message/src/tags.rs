// SPDX-License-Identifier: BSD-2-Clause
//! Tags of objects: those that header fields name, in any number of fields, and those of the URLs that objects were fetched for,
//! which begin with a control character, as what a field names never does. What is done by them is the cache's affair.

use crate::Head;
use crate::tag_fields::{Between, TagField, listed};

/// The tags in what VCL or an operator names: between blanks or commas, as vmod_xkey(3) has them.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    split(text, Between::Both)
}

fn split(text: &[u8], between: Between) -> impl Iterator<Item = &[u8]> {
    let is_between = move |b: &u8| match between {
        Between::Both => matches!(b, b' ' | b'\t' | b','),
        Between::Blanks => matches!(b, b' ' | b'\t'),
        Between::Commas => *b == b',',
    };
    text.split(is_between).map(<[u8]>::trim_ascii).filter(|word| is_plain(word))
}

/// True if a field can name that tag: those of modules and of URLs begin with a control character.
pub fn is_plain(tag: &[u8]) -> bool {
    tag.first().is_some_and(|b| *b > b' ')
}

/// Prefix of the tag of a family: the objects of one URL for different request bodies.
const FAMILY: &[u8] = b"\x01b";

/// The tag of the family whose keys are made of that digest.
pub fn of_family(digest: &[u8; 32]) -> Vec<u8> {
    [FAMILY, digest].concat()
}

/// True for the tag of a family.
pub fn is_of_family(tag: &[u8]) -> bool {
    tag.starts_with(FAMILY)
}

/// Prefix of the tag that keeps a tenant's name in an object's record. No purge is by it.
const TENANT: &[u8] = b"\x01t";

/// The tag of a tenant.
pub fn of_tenant(name: &[u8]) -> Vec<u8> {
    [TENANT, name].concat()
}

/// The name of the tenant whose tag it is; `None`: it is another tag.
pub fn tenant(tag: &[u8]) -> Option<&[u8]> {
    tag.strip_prefix(TENANT)
}

/// Prefix of a URL's tag, and of a purge of all URLs that begin so.
const URL: &[u8] = b"\x01u";
const PREFIX: &[u8] = b"\x01p";

/// The tag of a URL at a host.
pub fn of_url(host: &[u8], url: &[u8]) -> Vec<u8> {
    place(URL, host, url)
}

/// The host and the URL of such a tag; `None`: it is another tag.
pub fn url(tag: &[u8]) -> Option<(&[u8], &[u8])> {
    let place = tag.strip_prefix(URL)?;
    let at = place.iter().position(|byte| *byte == b' ')?;
    Some((&place[..at], &place[at + 1..]))
}

/// The purge for the tags of all URLs at a host that begin so.
pub fn of_prefix(host: &[u8], prefix: &[u8]) -> Vec<u8> {
    place(PREFIX, host, prefix)
}

/// True if only the tags of URLs can be meant.
pub fn is_of_urls(purge: &[u8]) -> bool {
    purge.starts_with(URL) || purge.starts_with(PREFIX)
}

/// The prefix of tags that a purge by prefix means; `None`: it means one tag.
pub fn prefix(purge: &[u8]) -> Option<&[u8]> {
    purge.strip_prefix(PREFIX)
}

/// True if a tag is one that a purge by [`prefix`] means.
pub fn begins_with(tag: &[u8], prefix: &[u8]) -> bool {
    tag.strip_prefix(URL).is_some_and(|place| place.starts_with(prefix))
}

/// True if a purge means that tag.
pub fn covers(purge: &[u8], tag: &[u8]) -> bool {
    prefix(purge).map_or(purge == tag, |prefix| begins_with(tag, prefix))
}

/// Neither host nor URL has a blank. The port that a scheme has anyway is left out.
fn place(kind: &[u8], host: &[u8], url: &[u8]) -> Vec<u8> {
    let host = host.strip_suffix(b":80").or_else(|| host.strip_suffix(b":443")).unwrap_or(host);
    [kind, &host.to_ascii_lowercase(), b" ", url].concat()
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
        check(crate::tag_fields::XKEY, &["a", "b", "c", "d", "e", "f", "g"]);
        check("Surrogate-Key, cache-tag", &["s,1", "s2", "t 1", "t2"]);
        check("Surrogate-Key=both", &["s", "1", "s2"]);
        check("", &[]);
    }

    #[test]
    fn a_family_has_a_tag_that_no_field_and_no_url_names() {
        let tag = of_family(&[b'u'; 32]);
        assert!(is_of_family(&tag) && !is_plain(&tag) && !is_of_urls(&tag) && prefix(&tag).is_none());
        assert!(!is_of_family(&of_url(b"b", b"/")) && !is_of_family(b"word"));
    }

    #[test]
    fn tags_of_urls() {
        let tag = of_url(b"Example.COM:80", b"/a/b?c");
        assert!(!is_plain(&tag) && is_of_urls(&tag));
        let is_hit = |host: &str, begin: &str| covers(&of_prefix(host.as_bytes(), begin.as_bytes()), &tag);
        assert!(is_hit("example.com", "/a/") && is_hit("example.com:443", "") && is_hit("example.com", "/a/b?c"));
        assert!(!is_hit("example.co", "") && !is_hit("example.com", "/b") && !is_hit("example.com:8080", "/a"));
        assert!(covers(&tag, &tag) && !covers(&of_url(b"example.com", b"/a/b"), &tag));
        assert!(!covers(&of_prefix(b"", b""), b"word"));
        assert_eq!(url(&tag), Some((&b"example.com"[..], &b"/a/b?c"[..])));
        assert_eq!((url(b"word"), url(&of_prefix(b"h", b"/"))), (None, None));
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
