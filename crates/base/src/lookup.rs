// SPDX-License-Identifier: BSD-2-Clause
//! Host names to addresses by the system's resolver. `localhost` always has one (RFC 6761, 6.3): a container or a fresh root
//! may lack /etc/hosts, and every default that names this machine would fail there.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// The addresses of a host. Blocks, perhaps for long.
///
/// # Errors
/// The name is unknown, or nobody answered.
pub fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    or_loopback(host, port, (host, port).to_socket_addrs().map(Iterator::collect))
}

/// The addresses of `host:port` or `[address]:port`. Blocks, perhaps for long.
///
/// # Errors
/// The text is none of these, the name is unknown, or nobody answered.
pub fn addresses_of_text(text: &str) -> io::Result<Vec<SocketAddr>> {
    let found = text.to_socket_addrs().map(Iterator::collect);
    match text.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
        Some((host, Ok(port))) => or_loopback(host, port, found),
        _ => found,
    }
}

fn or_loopback(host: &str, port: u16, found: io::Result<Vec<SocketAddr>>) -> io::Result<Vec<SocketAddr>> {
    match found {
        Err(_) if is_localhost(host) => Ok(loopback().into_iter().map(|ip| SocketAddr::new(ip, port)).collect()),
        found => found,
    }
}

/// True for `localhost`, also as a full name, and for the names below it.
fn is_localhost(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

fn loopback() -> Vec<IpAddr> {
    // A machine may be without IPv6.
    let has_ipv6 = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    let ipv6 = has_ipv6.then_some(IpAddr::V6(Ipv6Addr::LOCALHOST));
    [Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), ipv6].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_has_an_address_without_a_resolver() {
        let unknown = || Err(io::Error::other("Name or service not known"));
        for name in ["localhost", "LOCALHOST", "localhost.", "www.localhost"] {
            let found = or_loopback(name, 80, unknown()).unwrap();
            assert_eq!(found.first(), Some(&"127.0.0.1:80".parse().unwrap()), "{name}");
            assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 80), "{name}");
        }
        for name in ["localhost.example.com", "mylocalhost", ""] {
            assert!(or_loopback(name, 80, unknown()).is_err(), "{name}");
        }
    }

    #[test]
    fn a_text_has_a_host_and_a_port() {
        assert_eq!(addresses_of_text("127.0.0.1:80").unwrap(), ["127.0.0.1:80".parse().unwrap()]);
        assert!(addresses_of_text("localhost:80").unwrap().iter().all(|address| address.ip().is_loopback()));
        assert!(addresses_of_text("localhost").is_err() && addresses_of_text("localhost:x").is_err());
    }

    #[test]
    fn what_the_system_knows_counts() {
        let own: Vec<SocketAddr> = vec!["127.0.0.2:80".parse().unwrap()];
        assert_eq!(or_loopback("localhost", 80, Ok(own.clone())).unwrap(), own);
    }
}
