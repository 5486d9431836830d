// SPDX-License-Identifier: BSD-2-Clause
//! Addresses as logs write them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address as logs write it: also with a port, in brackets, or the first of several (X-Forwarded-For). IPv4 as a socket of IPv6 shows
/// it (`::ffff:192.0.2.1`) is IPv4.
pub fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.split(',').next()?.trim();
    let inner = text.strip_prefix('[').and_then(|rest| rest.split(']').next()).unwrap_or(text);
    let plain = inner.split('%').next().unwrap_or(inner);
    let without_port = plain.rsplit_once(':').map(|(address, _)| address);
    let found: Option<IpAddr> =
        plain.parse().ok().or_else(|| without_port.filter(|address| address.contains('.'))?.parse().ok());
    found.map(|address| address.to_canonical())
}

/// An address with only its first bits: the network of that length.
pub fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_logs_write_them() {
        for text in ["192.0.2.1", "192.0.2.1:4711", "192.0.2.1, 10.0.0.1", "::ffff:192.0.2.1", "[::ffff:c000:201]:80"] {
            assert_eq!(address(text.as_bytes()).map(|a| a.to_string()).as_deref(), Some("192.0.2.1"), "{text}");
        }
        for text in ["2001:db8::1", "[2001:db8::1]:80", "2001:db8::1%eth0"] {
            assert_eq!(address(text.as_bytes()).map(|a| a.to_string()).as_deref(), Some("2001:db8::1"), "{text}");
        }
        for text in ["", "-", "www.example.org", "1.2.3", "\u{fffd}"] {
            assert_eq!(address(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn networks_of_addresses() {
        let of = |text: &str, bits| masked(text.parse().unwrap(), bits).to_string();
        assert_eq!(of("192.0.2.77", 24), "192.0.2.0");
        assert_eq!(of("192.0.2.77", 32), "192.0.2.77");
        assert_eq!(of("192.0.2.77", 0), "0.0.0.0");
        assert_eq!(of("2001:db8:1:2:3::4", 64), "2001:db8:1:2::");
        assert_eq!(of("2001:db8::1", 0), "::");
    }
}
