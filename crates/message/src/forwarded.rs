// SPDX-License-Identifier: BSD-2-Clause
//! `Forwarded` (RFC 7239): what a proxy saw of a request that its next hop doesn't see.

use crate::chars::is_tchar;

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

#[cfg(test)]
mod tests {
    use super::*;

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
