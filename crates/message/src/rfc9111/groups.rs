// SPDX-License-Identifier: BSD-2-Clause
//! Cache groups (RFC 9875): responses of an origin that name a group are invalidated together by an answer to an unsafe request.

use crate::Head;
use crate::structured::strings;

/// Groups of one field that count, and bytes of a name. The RFC wants 128 and 32 at least.
const MAX_GROUPS: usize = 128;
const MAX_NAME: usize = 256;

/// Prefix of a group's tag. No field can name such a tag: see [`crate::tags::is_plain`].
const GROUP: &[u8] = b"\x01g";

/// Tags of the groups that a response from `host` belongs to.
pub fn group_tags(response: &Head, host: &[u8]) -> Vec<Box<[u8]>> {
    tags(response, "Cache-Groups", host)
}

/// Tags of the groups that a response to an unsafe request invalidates.
pub fn invalidated_group_tags(response: &Head, host: &[u8]) -> Vec<Box<[u8]>> {
    tags(response, "Cache-Group-Invalidation", host)
}

fn tags(response: &Head, field: &str, host: &[u8]) -> Vec<Box<[u8]>> {
    let Some(names) = response.joined(field).and_then(|text| strings(&text)) else { return Vec::new() };
    let host = super::location::normal_host(host);
    let names = names.into_iter().filter(|name| name.len() <= MAX_NAME).take(MAX_GROUPS);
    names.map(|name| [GROUP, &host, b" ", &name].concat().into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_of_an_origin() {
        let mut head = Head::new();
        head.append("Cache-Groups", "\"a\", \"b c\"").unwrap();
        head.append("cache-groups", "\"d\"").unwrap();
        let tags = group_tags(&head, b"Example.com:80");
        assert_eq!(
            tags.iter().map(|tag| &tag[..]).collect::<Vec<_>>(),
            [&b"\x01gexample.com a"[..], b"\x01gexample.com b c", b"\x01gexample.com d"]
        );
        assert!(invalidated_group_tags(&head, b"example.com").is_empty());
        assert!(tags.iter().all(|tag| !crate::tags::is_plain(tag) && !crate::tags::is_of_urls(tag)));
    }

    #[test]
    fn what_is_no_list_of_strings_names_no_group() {
        let mut head = Head::new();
        head.append("Cache-Groups", "\"a\", b\"").unwrap();
        assert!(group_tags(&head, b"h").is_empty());
        let many = vec!["\"x\""; 200].join(",");
        head.set("Cache-Groups", many).unwrap();
        assert_eq!(group_tags(&head, b"h").len(), MAX_GROUPS);
    }
}
