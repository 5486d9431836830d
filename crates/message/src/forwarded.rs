// SPDX-License-Identifier: BSD-2-Clause
//! `Forwarded` (RFC 7239): what a proxy saw of a request that its next hop doesn't see.

use crate::chars::{is_blank, is_tchar, is_value_char};

/// `Forwarded`: one element for each proxy, the nearest one last.
pub const FORWARDED: &str = "Forwarded";

/// The element of this server: the client's address (`None`: it has none), the host that it asked for, and how. A value that is no token is
/// quoted.
pub fn element(client: Option<&[u8]>, host: Option<&[u8]>, scheme: &str) -> Vec<u8> {
    let mut element = b"for=".to_vec();
    match client {
        None => element.extend_from_slice(b"unknown"),
        Some(client) if client.contains(&b':') => push_value(&mut element, &[b"[", client, b"]"].concat()),
        Some(client) => push_value(&mut element, client),
    }
    if let Some(host) = host.filter(|host| host.iter().all(|c| matches!(c, b'\t' | b' '..=b'~' | 0x80..))) {
        element.extend_from_slice(b";host=");
        push_value(&mut element, host);
    }
    element.extend_from_slice(b";proto=");
    push_value(&mut element, scheme.as_bytes());
    element
}

fn push_value(element: &mut Vec<u8>, value: &[u8]) {
    if !value.is_empty() && value.iter().all(|c| is_tchar(*c)) {
        return element.extend_from_slice(value);
    }
    element.push(b'"');
    for c in value {
        if matches!(c, b'"' | b'\\') {
            element.push(b'\\');
        }
        element.push(*c);
    }
    element.push(b'"');
}

/// True if `value` is a list of elements (RFC 7239 4), to which another one can be added.
pub fn is_list(value: &[u8]) -> bool {
    let mut rest = value;
    loop {
        let Some(behind) = skip_element(rest.trim_ascii_start()) else { return false };
        rest = skip(behind, is_blank);
        match rest.split_first() {
            None => return true,
            Some((b',', next)) => rest = next,
            Some(_) => return false,
        }
    }
}

/// Skips pairs between semicolons, each of which may be missing. `None`: a pair is malformed.
fn skip_element(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let behind_name = skip(rest, is_tchar);
        if behind_name.len() < rest.len() {
            rest = skip_value(behind_name.strip_prefix(b"=")?)?;
        }
        match rest.strip_prefix(b";") {
            Some(next) => rest = next,
            None => return Some(rest),
        }
    }
}

fn skip_value(value: &[u8]) -> Option<&[u8]> {
    let Some(mut quoted) = value.strip_prefix(b"\"") else {
        return Some(skip(value, is_tchar)).filter(|rest| rest.len() < value.len());
    };
    loop {
        quoted = match quoted {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', c, rest @ ..] if is_value_char(*c) => rest,
            [c, rest @ ..] if *c != b'\\' && is_value_char(*c) => rest,
            _ => return None,
        };
    }
}

fn skip(text: &[u8], is_skipped: fn(u8) -> bool) -> &[u8] {
    let count = text.iter().take_while(|c| is_skipped(**c)).count();
    &text[count..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_elements_are_told_from_what_swallows_the_next_one() {
        for list in [
            "for=a",
            "for=a, for=b,for=c",
            "for=\"[2001:db8::17]:4711\";proto=http ,\tfor=192.0.2.43;",
            "",
            ", ,for=a,",
            ";for=a;;by=b",
            "for=\"a, \\\" \\\\\"",
            "for=\"\"",
        ] {
            assert!(is_list(list.as_bytes()), "{list}");
            assert!(is_list(&[list.as_bytes(), b", for=x"].concat()), "{list}");
        }
        for other in [
            "for=\"a",
            "\"",
            "for=\"a\\\"",
            "for=\"a\"b",
            "for",
            "for=",
            "=a",
            "for=a b",
            "for=a; by=b",
            "for=[::1]",
            "for=a:80",
            "for=\"a\x01\"",
            "for=\"\\",
        ] {
            assert!(!is_list(other.as_bytes()), "{other}");
        }
    }

    fn check(client: &str, host: Option<&str>, want: &str) {
        let client = (!client.is_empty()).then_some(client.as_bytes());
        let element = element(client, host.map(str::as_bytes), "https");
        assert_eq!(String::from_utf8_lossy(&element), want);
    }

    #[test]
    fn what_is_no_token_is_quoted() {
        check("192.0.2.60", Some("example.com"), "for=192.0.2.60;host=example.com;proto=https");
        check("2001:db8:cafe::17", None, "for=\"[2001:db8:cafe::17]\";proto=https");
        check("192.0.2.1", Some("example.com:8443"), "for=192.0.2.1;host=\"example.com:8443\";proto=https");
        check("192.0.2.1", Some("a\"b\\c, for=x"), "for=192.0.2.1;host=\"a\\\"b\\\\c, for=x\";proto=https");
        check("", Some("a"), "for=unknown;host=a;proto=https");
        check("192.0.2.1", Some(""), "for=192.0.2.1;host=\"\";proto=https");
        check("192.0.2.1", Some("a\x01"), "for=192.0.2.1;proto=https");
    }
}
