// SPDX-License-Identifier: BSD-2-Clause
//! `std.ip`: an address, a host name, each with or without a port.

use std::net::{IpAddr, SocketAddr};

const SERVICES: &str = "/etc/services";

/// `text` as host and port: `host`, `host:port`, `host port`, `[v6]`, `[v6]:port`, a bare IPv6 address.
fn split(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return match rest.strip_prefix([':', ' ']) {
            Some(port) => Some((host, Some(port))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    match text.find([':', ' ']) {
        Some(at) if text[at + 1..].contains(':') => Some((text, None)),
        Some(at) => Some((&text[..at], Some(&text[at + 1..]))),
        None => Some((text, None)),
    }
}

/// Result of parsing without a lookup.
pub(super) enum Quick {
    Known(SocketAddr),
    /// A name must be looked up: host and port.
    Ask(String, String),
    Wrong,
}

pub(super) fn read(text: &[u8], port: &[u8]) -> Quick {
    let (Ok(text), Ok(port)) = (std::str::from_utf8(text), std::str::from_utf8(port)) else { return Quick::Wrong };
    let Some((host, own)) = split(text) else { return Quick::Wrong };
    let port = own.unwrap_or(port);
    match (host.parse::<IpAddr>(), port.parse::<u16>()) {
        (Ok(ip), Ok(port)) => Quick::Known(SocketAddr::new(ip, port)),
        _ if host.is_empty() || port.is_empty() => Quick::Wrong,
        _ => Quick::Ask(host.to_owned(), port.to_owned()),
    }
}

pub(super) fn look_up(host: &str, port: &str) -> Option<SocketAddr> {
    let port = match port.parse() {
        Ok(port) => port,
        Err(_) => service(&std::fs::read_to_string(SERVICES).ok()?, port)?,
    };
    base::lookup::addresses(host, port).ok()?.into_iter().next()
}

fn service(table: &str, name: &str) -> Option<u16> {
    table.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let first = words.next()?;
        let port = words.next()?.strip_suffix("/tcp")?;
        (first == name || words.any(|alias| alias == name)).then(|| port.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: &str) {
        let got = match read(text.as_bytes(), b"80") {
            Quick::Known(addr) => addr.to_string(),
            Quick::Ask(host, port) => format!("{host} {port}"),
            Quick::Wrong => "wrong".into(),
        };
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn forms() {
        check("1.2.3.4", "1.2.3.4:80");
        check("1.2.3.4:8080", "1.2.3.4:8080");
        check("1.2.3.4 8080", "1.2.3.4:8080");
        check("::1", "[::1]:80");
        check("[::1]:8080", "[::1]:8080");
        check("[::1]", "[::1]:80");
        check("example.com:http", "example.com http");
        check("[::1", "wrong");
        check("", "wrong");
    }

    #[test]
    fn ports_by_name() {
        let table = "# x\nhttp\t80/tcp www # web\nsmtp 25/tcp mail\ndomain 53/udp\n";
        assert_eq!(
            (service(table, "http"), service(table, "mail"), service(table, "domain")),
            (Some(80), Some(25), None)
        );
    }
}
