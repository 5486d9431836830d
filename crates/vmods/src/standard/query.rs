// SPDX-License-Identifier: BSD-2-Clause
//! `std.querysort`: parameters in byte order as far as the shorter of two goes, empty ones dropped. A parameter and its
//! own prefix ("b=1" and "b") count as equal, which is no order in the strict sense: what comes out depends on the way
//! of sorting, so the sort here is the merge sort that varnishd gets from its C library.

/// The sorted URL; `None` when there is nothing to sort.
pub(super) fn sort(url: &[u8]) -> Option<Vec<u8>> {
    let at = memchr::memchr(b'?', url)?;
    let (path, query) = url.split_at(at + 1);
    memchr::memchr(b'&', query)?;
    let mut parts: Vec<&[u8]> = query.split(|&b| b == b'&').filter(|part| !part.is_empty()).collect();
    let mut spare = parts.clone();
    merge_sort(&mut parts, &mut spare);
    let mut out = path.to_vec();
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            out.push(b'&');
        }
        out.extend_from_slice(part);
    }
    Some(out)
}

/// Halves (the first one smaller), each sorted, then merged; of equal ones the one from the first half goes first.
fn merge_sort<'a>(parts: &mut [&'a [u8]], spare: &mut [&'a [u8]]) {
    let count = parts.len();
    if count < 2 {
        return;
    }
    let middle = count / 2;
    let (low, high) = parts.split_at_mut(middle);
    merge_sort(low, spare);
    merge_sort(high, spare);
    let (mut i, mut j) = (0, 0);
    for place in &mut spare[..count] {
        let from_low = j == high.len() || (i < low.len() && is_not_after(low[i], high[j]));
        let (side, at) = if from_low { (&*low, &mut i) } else { (&*high, &mut j) };
        *place = side[*at];
        *at += 1;
    }
    parts.copy_from_slice(&spare[..count]);
}

fn is_not_after(a: &[u8], b: &[u8]) -> bool {
    let len = a.len().min(b.len());
    // As chars of C, which are signed here.
    a[..len].iter().map(|&b| b as i8).le(b[..len].iter().map(|&b| b as i8))
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
        check("/foo?a=2&a=1&a", Some("/foo?a=1&a=2&a"));
        check("/?t=0&b=1&t=1", Some("/?b=1&t=0&t=1"));
        check("/a?x?y&b", Some("/a?b&x?y"));
        check("/a?b=1&a&c=2&&a=1&b", Some("/a?a&a=1&b=1&b&c=2"));
    }

    proptest::proptest! {
        #[test]
        fn nothing_is_lost(query in "[ab=&]{0,40}") {
            let url = format!("/?{query}");
            if let Some(sorted) = super::sort(url.as_bytes()) {
                let parts = |url: &[u8]| {
                    let mut parts: Vec<_> = url[2..].split(|b| *b == b'&').map(<[u8]>::to_vec).filter(|p| !p.is_empty()).collect();
                    parts.sort();
                    parts
                };
                proptest::prop_assert_eq!(parts(&sorted), parts(url.as_bytes()));
            }
        }
    }
}
