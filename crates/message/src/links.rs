// SPDX-License-Identifier: BSD-2-Clause
//! Which of a response's Link fields (RFC 8288) a client gets ahead of the response (103, RFC 8297): those that tell it what to fetch or
//! whom to connect to.

use crate::Head;

/// Name of the field.
pub const LINK: &str = "Link";
const AHEAD: [&[u8]; 3] = [b"preload", b"modulepreload", b"preconnect"];
const MAX_LINKS: usize = 32;
const MAX_BYTES: usize = 4096;

/// The links of these values that are sent ahead, joined to one value by `, `; empty when there are none. What is no link is left out.
pub fn ahead<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    let links = values.flat_map(links).filter(|link| is_ahead(link));
    for link in links.take(MAX_LINKS) {
        if out.len() + link.len() + 2 > MAX_BYTES {
            break;
        }
        if !out.is_empty() {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(link);
    }
    out
}

/// The links that are sent ahead for a response; see [`ahead`].
pub fn ahead_of(response: &Head) -> Vec<u8> {
    ahead(response.get_all(LINK.as_bytes()))
}

/// Position of `end` outside of `<>` and quotes, or the text's length.
fn up_to(text: &[u8], end: u8) -> usize {
    let (mut in_target, mut in_quotes, mut is_escaped) = (false, false, false);
    for (at, &b) in text.iter().enumerate() {
        match b {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_quotes => is_escaped = true,
            b'"' if !in_target => in_quotes = !in_quotes,
            b'<' if !in_quotes => in_target = true,
            b'>' if !in_quotes => in_target = false,
            _ if b == end && !in_target && !in_quotes => return at,
            _ => {}
        }
    }
    text.len()
}

fn parts(text: &[u8], between: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let left = rest?;
        let end = up_to(left, between);
        rest = left.get(end + 1..);
        Some(left[..end].trim_ascii())
    })
}

fn links(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    parts(value, b',').filter(|link| link.first() == Some(&b'<') && link.contains(&b'>') && is_closed(link))
}

/// True if its quotes end, so that they don't swallow a link joined behind it.
fn is_closed(link: &[u8]) -> bool {
    let with_end = [link, b","].concat();
    up_to(&with_end, b',') == link.len()
}

/// True if it has one of the relations. Only the first `rel` of a link counts (RFC 8288 3.3), and `nopush` and the like
/// don't matter.
fn is_ahead(link: &[u8]) -> bool {
    let rel = parts(link, b';').skip(1).find_map(|parameter| {
        let equals = parameter.iter().position(|b| *b == b'=')?;
        let (name, value) = (parameter[..equals].trim_ascii(), parameter[equals + 1..].trim_ascii());
        name.eq_ignore_ascii_case(b"rel").then_some(value)
    });
    let rel = rel.unwrap_or_default();
    let rel = rel.strip_prefix(b"\"").and_then(|rel| rel.strip_suffix(b"\"")).unwrap_or(rel);
    rel.split(u8::is_ascii_whitespace).any(|rel| AHEAD.iter().any(|ahead| rel.eq_ignore_ascii_case(ahead)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(values: &[&str], expected: &str) {
        let got = ahead(values.iter().map(|value| value.as_bytes()));
        assert_eq!(String::from_utf8(got).unwrap(), expected);
    }

    #[test]
    fn what_is_worth_to_be_fetched_early() {
        check(&["</a.css>; rel=preload; as=style"], "</a.css>; rel=preload; as=style");
        check(&["</a.css>;rel=\"preload\";as=style, </b>; rel=next"], "</a.css>;rel=\"preload\";as=style");
        check(
            &["<https://cdn.example>; rel=preconnect", "</m.js>; REL=ModulePreload"],
            "<https://cdn.example>; rel=preconnect, </m.js>; REL=ModulePreload",
        );
        check(&["</x>; rel=\"next preload\""], "</x>; rel=\"next preload\"");
        check(&["</x>; rel=next; rel=preload"], "");
        check(&["</x>", "x; rel=preload", "", ",,;", "<x; rel=preload"], "");
    }

    #[test]
    fn commas_and_semicolons_in_targets_and_quotes() {
        check(&["</a,b;c>; rel=preload, </d>; title=\"x, <y>; rel=preload\"; rel=next"], "</a,b;c>; rel=preload");
        check(&["</a>; title=\"\\\"; rel=next; \"; rel=preload"], "</a>; title=\"\\\"; rel=next; \"; rel=preload");
    }

    #[test]
    fn a_page_with_very_many_is_cut() {
        let many = vec!["</abc>; rel=preload"; 1000];
        let got = ahead(many.iter().map(|value| value.as_bytes()));
        assert_eq!(links(&got).count(), MAX_LINKS);
        let long = format!("</{}>; rel=preload", "x".repeat(MAX_BYTES));
        check(&["</a>; rel=preload", &long], "</a>; rel=preload");
    }

    proptest! {
        #[test]
        fn any_value_is_taken(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            let got = ahead(std::iter::once(&value[..]));
            prop_assert!(got.len() <= value.len());
            prop_assert_eq!(ahead(std::iter::once(&got[..])), got.clone(), "what is sent ahead is that again");
        }
    }
}
