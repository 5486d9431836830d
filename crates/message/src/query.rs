// SPDX-License-Identifier: BSD-2-Clause
//! The arguments in a URL's query: what is between `&`s behind the first `?`, each a name and maybe `=` and a value. Nothing is decoded.

use crate::name_list;

/// The URL with only the arguments that these lists let stay ([`name_list::stays`]), in their order; `None` when all of them do. A
/// query that loses its last argument goes with its `?`.
pub fn filtered(url: &[u8], keep: &str, drop: &str) -> Option<Vec<u8>> {
    let question = url.iter().position(|b| *b == b'?')?;
    let query = &url[question + 1..];
    let stays = |argument: &&[u8]| {
        let name = argument.split(|b| *b == b'=').next().unwrap_or_default();
        // Between two `&`s there is no argument.
        argument.is_empty() || name_list::stays(keep, drop, name)
    };
    let mut arguments = query.split(|b| *b == b'&');
    if arguments.clone().all(|argument| stays(&argument)) {
        return None;
    }
    let mut out = Vec::with_capacity(url.len());
    out.extend_from_slice(&url[..question]);
    let mut between = b'?';
    for argument in arguments.by_ref().filter(|argument| !argument.is_empty() && stays(argument)) {
        out.push(between);
        out.extend_from_slice(argument);
        between = b'&';
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(url: &str, keep: &str, drop: &str, expected: &str) {
        let got = filtered(url.as_bytes(), keep, drop);
        let got = got.map_or(url.to_owned(), |url| String::from_utf8(url).unwrap());
        assert_eq!(got, expected, "{url} {keep} {drop}");
    }

    #[test]
    fn arguments_are_dropped() {
        check("/p?utm_source=x&id=1&fbclid=y", "", "utm_* fbclid", "/p?id=1");
        check("/p?utm_source=x", "", "utm_*", "/p");
        check("/p?id=1", "", "utm_*", "/p?id=1");
        check("/p", "", "*", "/p");
        check("/p?", "", "*", "/p?");
        check("/p?a?utm_x=1&b", "", "utm_*", "/p?a?utm_x=1&b");
        check("/p?gclid&a=b=c&gclid=", "", "gclid", "/p?a=b=c");
        check("/p?&&gclid=1&&a", "", "gclid", "/p?a");
        check("/utm_x?utm_x/utm_x=1", "", "utm_x", "/utm_x?utm_x/utm_x=1");
    }

    #[test]
    fn or_only_some_are_kept() {
        check("/p?page=2&x=1&q=a", "page q", "", "/p?page=2&q=a");
        check("/p?x=1", "page", "", "/p");
        check("/p?page=2", "page", "", "/p?page=2");
        check("/p?page=2&q=1", "page q", "q", "/p?page=2");
    }

    proptest! {
        #[test]
        fn what_stays_is_what_was_there(url in "/[a-c?&=]{0,24}", keep in "([abc]\\*? ?){0,2}", drop in "([abc]\\*? ?){0,2}") {
            let got = filtered(url.as_bytes(), &keep, &drop);
            let (path, query) = url.split_once('?').unwrap_or((&url, ""));
            let expected: Vec<&str> = query
                .split('&')
                .filter(|arg| !arg.is_empty() && name_list::stays(&keep, &drop, arg.split('=').next().unwrap().as_bytes()))
                .collect();
            if let Some(got) = got {
                let wanted = if expected.is_empty() { path.to_owned() } else { format!("{path}?{}", expected.join("&")) };
                prop_assert_eq!(String::from_utf8(got.clone()).unwrap(), wanted);
                prop_assert_eq!(filtered(&got, &keep, &drop), None, "once is enough");
            } else {
                prop_assert_eq!(expected.len(), query.split('&').filter(|arg| !arg.is_empty()).count());
            }
        }
    }
}
