// SPDX-License-Identifier: BSD-2-Clause
//! What a successful answer to an unsafe request invalidates beside its target: the URLs in Location and Content-Location, if
//! they are of the same origin (RFC 9111 4.4).

use crate::{Head, names};

/// True if the method changes nothing at the origin (RFC 9110 9.2.1, and those of the registry).
pub fn is_safe(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PROPFIND" | b"REPORT" | b"SEARCH" | b"QUERY" | b"PRI")
}

/// The targets, as a request for them would have them, that Location and Content-Location name at `host`; the request was for
/// `url`. The scheme isn't compared: who ends TLS in front of us doesn't show it, and the host is the same.
pub fn locations(response: &Head, host: &[u8], url: &[u8]) -> Vec<Vec<u8>> {
    let fields = [names::LOCATION, names::CONTENT_LOCATION];
    let mut found: Vec<Vec<u8>> =
        fields.into_iter().filter_map(|name| resolve(response.get(name)?, host, url)).collect();
    found.dedup();
    found
}

/// The target of Location alone.
pub fn location(response: &Head, host: &[u8], url: &[u8]) -> Option<Vec<u8>> {
    resolve(response.get(names::LOCATION)?, host, url)
}

fn resolve(reference: &[u8], host: &[u8], base: &[u8]) -> Option<Vec<u8>> {
    let reference = reference.split(|&c| c == b'#').next().unwrap_or_default();
    if reference.is_empty() || reference.iter().any(|&c| c <= b' ' || c == 0x7f) {
        return None;
    }
    let after_scheme = match scheme(reference) {
        Some(b"http" | b"https") => Some(reference.split(|&c| c == b':').next().map(|s| &reference[s.len() + 1..])?),
        Some(_) => return None,
        None => None,
    };
    if let Some(authority) = after_scheme.unwrap_or(reference).strip_prefix(b"//") {
        let end = authority.iter().position(|c| matches!(c, b'/' | b'?')).unwrap_or(authority.len());
        let (there, path) = authority.split_at(end);
        if normal_host(there) != normal_host(host) {
            return None;
        }
        return Some(if path.starts_with(b"/") { clean(path) } else { clean(&[b"/", path].concat()) });
    }
    if after_scheme.is_some() {
        return None;
    }
    let base_path = base.split(|&c| c == b'?').next().filter(|path| path.starts_with(b"/")).unwrap_or(b"/");
    Some(match reference[0] {
        b'/' => clean(reference),
        b'?' => [base_path, reference].concat(),
        _ => {
            let dir = base_path.iter().rposition(|&c| c == b'/').map_or(&b"/"[..], |at| &base_path[..=at]);
            clean(&[dir, reference].concat())
        }
    })
}

/// The scheme of an absolute reference, in lower case as far as it is one of ours.
fn scheme(reference: &[u8]) -> Option<&[u8]> {
    let at = reference.iter().position(|c| matches!(c, b':' | b'/' | b'?'))?;
    if reference[at] != b':' || !reference.first()?.is_ascii_alphabetic() {
        return None;
    }
    let scheme = &reference[..at];
    [&b"http"[..], b"https"].into_iter().find(|known| scheme.eq_ignore_ascii_case(known)).or(Some(scheme))
}

/// A host in lower case, without the port that a scheme has anyway.
pub fn normal_host(host: &[u8]) -> Vec<u8> {
    host.strip_suffix(b":80").or_else(|| host.strip_suffix(b":443")).unwrap_or(host).to_ascii_lowercase()
}

/// The target without the segments `.` and `..` (RFC 3986 5.2.4).
fn clean(target: &[u8]) -> Vec<u8> {
    let path_end = target.iter().position(|&c| c == b'?').unwrap_or(target.len());
    let (path, query) = target.split_at(path_end);
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut all = path.split(|&c| c == b'/').skip(1).peekable();
    while let Some(segment) = all.next() {
        let is_last = all.peek().is_none();
        match segment {
            b"." | b".." => {
                if segment == b".." {
                    segments.pop();
                }
                if is_last {
                    segments.push(b"");
                }
            }
            other => segments.push(other),
        }
    }
    let mut out = Vec::with_capacity(target.len());
    segments.iter().for_each(|segment| {
        out.push(b'/');
        out.extend_from_slice(segment);
    });
    if out.is_empty() {
        out.push(b'/');
    }
    out.extend_from_slice(query);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(location: &str, want: Option<&str>) {
        let got = resolve(location.as_bytes(), b"Example.com", b"/a/b?c");
        assert_eq!(got.as_deref().map(String::from_utf8_lossy).as_deref(), want, "{location}");
    }

    #[test]
    fn references_of_the_same_host() {
        check("/x/y?z#f", Some("/x/y?z"));
        check("x", Some("/a/x"));
        check("?q", Some("/a/b?q"));
        check("../x", Some("/x"));
        check("./", Some("/a/"));
        check("../../../x/./y/..", Some("/x/"));
        check("http://example.COM/x", Some("/x"));
        check("HTTPS://example.com:443/x?y=../z", Some("/x?y=../z"));
        check("//example.com:80", Some("/"));
        check("http://example.com?q", Some("/?q"));
    }

    #[test]
    fn what_is_elsewhere_or_nowhere() {
        for location in [
            "http://other.com/x",
            "//example.com.evil/x",
            "http://example.com:8080/x",
            "ftp://example.com/x",
            "http:x",
            "#f",
            "",
            "/a b",
            "mailto:a@b",
        ] {
            check(location, None);
        }
    }

    #[test]
    fn both_fields_count_once_each() {
        let mut head = Head::new();
        head.append("Location", "/x").unwrap();
        head.append("Content-Location", "/x").unwrap();
        assert_eq!(locations(&head, b"h", b"/"), [b"/x".to_vec()]);
        head.set("Content-Location", "y").unwrap();
        assert_eq!(locations(&head, b"h", b"/"), [b"/x".to_vec(), b"/y".to_vec()]);
    }

    #[test]
    fn safe_methods_change_nothing() {
        assert!(
            is_safe(b"GET") && is_safe(b"OPTIONS") && !is_safe(b"POST") && !is_safe(b"M-SEARCH") && !is_safe(b"get")
        );
    }

    proptest! {
        #[test]
        fn whatever_is_named_is_a_target(location in "(/|\\.|\\?|#|:|http|//|h|[a-c%]|[ -~]){0,16}", base in "/[a-c/.?]{0,8}") {
            if let Some(target) = resolve(location.as_bytes(), b"h", base.as_bytes()) {
                prop_assert!(target.starts_with(b"/") && !target.contains(&b' '), "{:?}", target);
                let path = target.split(|&c| c == b'?').next().unwrap();
                prop_assert!(location.starts_with('?') || !path.split(|&c| c == b'/').any(|s| s == b".." || s == b"."));
            }
        }
    }
}
