// SPDX-License-Identifier: BSD-2-Clause
//! `host:port` text, and names to addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use base::text::bad_port;

/// Endpoint that an address text names, before any look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedEndpoint {
    /// Host (`None`: any) and port or service (`None`: the default).
    Inet {
        /// Name or address, without brackets.
        host: Option<String>,
        /// Number or service name.
        port: Option<String>,
    },
    /// A path: text that begins with `/`, or with `@` for an abstract name.
    Unix(PathBuf),
}

/// Reasons why a text gave no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// The text isn't `host[:port]`, `[v6][:port]`, `host port` or a path.
    Syntax(&'static str),
    /// Error of the resolver.
    Lookup(String),
}

impl std::fmt::Display for ResolveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Syntax(text) => f.write_str(text),
            Self::Lookup(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ResolveError {}

impl NamedEndpoint {
    /// Reads `host`, `host:port`, `:port`, `[::1]:port`, `::1`, `host port`, `/path`, as varnishd does.
    ///
    /// # Errors
    /// [`ResolveError::Syntax`].
    pub fn parse(text: &str) -> Result<Self, ResolveError> {
        if text.starts_with('/') || text.starts_with('@') {
            return Ok(NamedEndpoint::Unix(text.into()));
        }
        let inet = |host: &str, port: Option<&str>| NamedEndpoint::Inet {
            host: (!host.is_empty()).then(|| host.to_owned()),
            port: port.filter(|p| !p.is_empty()).map(str::to_owned),
        };
        if let Some(rest) = text.strip_prefix('[') {
            let (host, after) = rest.split_once(']').ok_or(ResolveError::Syntax("IPv6 address lacks ']'"))?;
            return match after.as_bytes() {
                [] => Ok(inet(host, None)),
                [b' ' | b':', ..] => Ok(inet(host, Some(&after[1..]))),
                _ => Err(ResolveError::Syntax("IPv6 address has wrong port separator")),
            };
        }
        if let Some((host, port)) = text.split_once(' ') {
            return Ok(inet(host, Some(port)));
        }
        match text.split_once(':') {
            // Two colons and no brackets: an IPv6 address alone.
            Some((host, port)) if !port.contains(':') => Ok(inet(host, Some(port))),
            Some(_) | None => Ok(inet(text, None)),
        }
    }
}

/// Resolves host and port (a number or a service name) with the system's resolver, on the blocking pool. `passive`: for
/// listening, where no host means any address; else it means loopback.
///
/// # Errors
/// [`ResolveError::Lookup`].
pub async fn resolve(host: Option<&str>, port: &str, passive: bool) -> Result<Vec<SocketAddr>, ResolveError> {
    let (host, port) = (host.map(str::to_owned), port.to_owned());
    let found = rt::blocking_lookup(move || resolve_now(host.as_deref(), &port, passive)).await;
    found.unwrap_or_else(|refused| Err(ResolveError::Lookup(refused.text().to_owned())))
}

/// The same as [`resolve`], blocking the caller.
///
/// # Errors
/// [`ResolveError::Lookup`].
pub fn resolve_now(host: Option<&str>, port: &str, passive: bool) -> Result<Vec<SocketAddr>, ResolveError> {
    let port = service(port)?;
    let Some(host) = host else {
        let (v4, v6) = if passive {
            (Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED)
        } else {
            (Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST)
        };
        return Ok(vec![(v4, port).into(), (v6, port).into()]);
    };
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![(ip, port).into()]);
    }
    let found = base::lookup::addresses(host, port).map_err(|error| {
        let text = error.to_string();
        let word = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
        ResolveError::Lookup(word.to_owned())
    })?;
    let mut addrs: Vec<SocketAddr> = Vec::new();
    found.into_iter().for_each(|addr| {
        if !addrs.contains(&addr) {
            addrs.push(addr);
        }
    });
    Ok(addrs)
}

/// A port number, or a TCP service by its name in the system's table.
fn service(port: &str) -> Result<u16, ResolveError> {
    if port.bytes().all(|c| c.is_ascii_digit()) {
        return port.parse().map_err(|_| ResolveError::Lookup(bad_port(port)));
    }
    let table = std::fs::read_to_string("/etc/services").unwrap_or_default();
    let known = service_in(&table, port).or(match port {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    });
    known.ok_or_else(|| ResolveError::Lookup(bad_port(port)))
}

fn service_in(table: &str, name: &str) -> Option<u16> {
    table.lines().find_map(|line| {
        let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
        let (first, port) = (words.next()?, words.next()?);
        let port = port.strip_suffix("/tcp")?;
        (first == name || words.any(|alias| alias == name)).then(|| port.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, want: Result<(Option<&str>, Option<&str>), &'static str>) {
        let want = want
            .map_err(ResolveError::Syntax)
            .map(|(host, port)| NamedEndpoint::Inet { host: host.map(str::to_owned), port: port.map(str::to_owned) });
        assert_eq!(NamedEndpoint::parse(text), want, "{text}");
    }

    #[test]
    fn address_texts() {
        check("localhost", Ok((Some("localhost"), None)));
        check("localhost:80", Ok((Some("localhost"), Some("80"))));
        check("127.0.0.1 http", Ok((Some("127.0.0.1"), Some("http"))));
        check(":80", Ok((None, Some("80"))));
        check("[::1]", Ok((Some("::1"), None)));
        check("[::1]:80", Ok((Some("::1"), Some("80"))));
        check("[::1] 80", Ok((Some("::1"), Some("80"))));
        check("::1", Ok((Some("::1"), None)));
        check("::1 80", Ok((Some("::1"), Some("80"))));
        check("[::1", Err("IPv6 address lacks ']'"));
        check("[::1]x80", Err("IPv6 address has wrong port separator"));
        assert_eq!(NamedEndpoint::parse("/a/b"), Ok(NamedEndpoint::Unix("/a/b".into())));
    }

    #[test]
    fn numbers_need_no_resolver() {
        assert_eq!(resolve_now(Some("::1"), "80", true), Ok(vec!["[::1]:80".parse().unwrap()]));
        let any = vec!["0.0.0.0:80".parse().unwrap(), "[::]:80".parse().unwrap()];
        assert_eq!(resolve_now(None, "http", true), Ok(any));
        assert!(matches!(resolve_now(None, "65536", true), Err(ResolveError::Lookup(_))));
        assert!(matches!(resolve_now(None, "no-such-service", true), Err(ResolveError::Lookup(_))));
    }

    #[test]
    fn services_by_name_and_alias() {
        let table = "# comment\nhttp\t\t80/tcp\t\twww # x\nfoo 7/udp\nfoo 8/tcp\n";
        assert_eq!(service_in(table, "www"), Some(80));
        assert_eq!(service_in(table, "foo"), Some(8));
        assert_eq!(service_in(table, "x"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,30}") {
            let _ = NamedEndpoint::parse(&text);
        }
    }
}
