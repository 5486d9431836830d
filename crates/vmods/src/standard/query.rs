// SPDX-License-Identifier: BSD-2-Clause
//! `std.querysort`: parameters in byte order, empty ones dropped. (Varnish leaves a parameter and its own
//! prefix in whatever order its sort gives; here the shorter one is first.).

/// The sorted URL; `None` when there is nothing to sort.
pub(super) fn sort(url: &[u8]) -> Option<Vec<u8>> {
    let at = memchr::memchr(b'?', url)?;
    let (path, query) = url.split_at(at + 1);
    memchr::memchr(b'&', query)?;
    let mut parts: Vec<&[u8]> = query.split(|&b| b == b'&').filter(|part| !part.is_empty()).collect();
    parts.sort();
    let mut out = path.to_vec();
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            out.push(b'&');
        }
        out.extend_from_slice(part);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    fn check(url: &str, want: Option<&str>) {
        assert_eq!(
            super::sort(url.as_bytes()).map(|url| String::from_utf8(url).expect("ASCII")),
            want.map(str::to_owned)
        );
    }

    #[test]
    fn urls() {
        check("/foo", None);
        check("/foo?b", None);
        check("/foo?b&a", Some("/foo?a&b"));
        check("/foo?&&b=2&&a=1&", Some("/foo?a=1&b=2"));
        check("/foo?a=2&a=1&a", Some("/foo?a&a=1&a=2"));
        check("/?t=0&b=1&t=1", Some("/?b=1&t=0&t=1"));
        check("/a?x?y&b", Some("/a?b&x?y"));
    }
}
