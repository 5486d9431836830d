// SPDX-License-Identifier: BSD-2-Clause
//! Socket addresses and their text in Varnish's form.

use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// IPv4 or IPv6. A v4-mapped v6 address is kept as IPv4.
    Inet(SocketAddr),
    /// A unix socket: no address; Varnish shows `0.0.0.0 0` and VCL sees the IP 0.0.0.0.
    Unix,
}

impl Address {
    /// The end with an internet address; a v4-mapped v6 address becomes IPv4.
    pub fn inet(addr: SocketAddr) -> Self {
        Address::Inet(SocketAddr::new(addr.ip().to_canonical(), addr.port()))
    }

    /// The IP address as VCL sees it; 0.0.0.0 for a unix socket.
    pub fn ip(&self) -> IpAddr {
        match self {
            Address::Inet(addr) => addr.ip(),
            Address::Unix => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        }
    }

    /// The port; 0 for a unix socket.
    pub fn port(&self) -> u16 {
        match self {
            Address::Inet(addr) => addr.port(),
            Address::Unix => 0,
        }
    }

    /// The address as log records show it: IP, blank, port.
    pub fn log_text(&self) -> String {
        format!("{} {}", self.ip(), self.port())
    }

    /// The same text and its IP alone, without allocating.
    pub fn text(&self) -> AddressText {
        let mut text = AddressText { bytes: [0; 64], ip_len: 0, len: 0 };
        match self.ip() {
            IpAddr::V4(ip) => {
                for (i, octet) in ip.octets().into_iter().enumerate() {
                    if i > 0 {
                        text.push(b'.');
                    }
                    text.number(u16::from(octet));
                }
            }
            // 39 bytes at most: there is room.
            IpAddr::V6(ip) => drop(write!(text, "{ip}")),
        }
        text.ip_len = text.len;
        text.push(b' ');
        text.number(self.port());
        text
    }
}

/// The text that [`Address::text`] gives.
#[derive(Clone, Copy, Debug)]
pub struct AddressText {
    bytes: [u8; 64],
    ip_len: u8,
    len: u8,
}

impl AddressText {
    /// The IP as text.
    pub fn ip(&self) -> &[u8] {
        &self.bytes[..usize::from(self.ip_len)]
    }

    /// IP, blank, port: [`Address::log_text`].
    pub fn ip_port(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    fn push(&mut self, byte: u8) {
        self.bytes[usize::from(self.len)] = byte;
        self.len += 1;
    }

    fn number(&mut self, n: u16) {
        let mut digits = [0; 5];
        let (mut left, mut at) = (n, digits.len());
        loop {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        for &digit in &digits[at..] {
            self.push(digit);
        }
    }
}

impl Write for AddressText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.push(byte));
        Ok(())
    }
}

/// True if `ip` is within `net/prefix_bits`. Addresses of different families never match; v4-mapped v6 counts as IPv4.
pub fn in_network(ip: IpAddr, net: IpAddr, prefix_bits: u8) -> bool {
    fn bits_equal(a: &[u8], b: &[u8], bits: u8) -> bool {
        let whole = usize::from(bits / 8);
        let rest = bits % 8;
        a[..whole] == b[..whole] && (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0)
    }
    match (ip.to_canonical(), net) {
        (IpAddr::V4(a), IpAddr::V4(b)) => bits_equal(&a.octets(), &b.octets(), prefix_bits.min(32)),
        (IpAddr::V6(a), IpAddr::V6(b)) => bits_equal(&a.octets(), &b.octets(), prefix_bits.min(128)),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

/// The address with only its first bits: what counts as one client.
pub fn network_of(ip: IpAddr, v4_bits: u32, v6_bits: u32) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - v4_bits.min(32)).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - v6_bits.min(128)).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_keep_their_first_bits() {
        let check = |ip: &str, v4, v6, want: &str| {
            assert_eq!(network_of(ip.parse().unwrap(), v4, v6), want.parse::<IpAddr>().unwrap());
        };
        check("10.1.2.3", 24, 64, "10.1.2.0");
        check("10.1.2.3", 32, 64, "10.1.2.3");
        check("2001:db8:1:2:3::4", 32, 64, "2001:db8:1:2::");
        check("2001:db8:1:2:3::4", 32, 128, "2001:db8:1:2:3::4");
    }

    #[test]
    fn both_texts_agree() {
        for addr in ["127.0.0.1:80", "255.10.0.99:65535", "[::1]:0", "[2001:db8:1234:5678:9abc:def0:1234:5678]:12345"] {
            let address = Address::inet(addr.parse().unwrap());
            assert_eq!(address.text().ip_port(), address.log_text().as_bytes());
            assert_eq!(address.text().ip(), address.ip().to_string().as_bytes());
        }
        assert_eq!(Address::Unix.text().ip_port(), b"0.0.0.0 0");
    }

    #[test]
    fn text_is_ip_blank_port() {
        assert_eq!(Address::inet("127.0.0.1:80".parse().unwrap()).log_text(), "127.0.0.1 80");
        assert_eq!(Address::inet("[::ffff:10.0.0.1]:80".parse().unwrap()).log_text(), "10.0.0.1 80");
        assert_eq!(Address::inet("[::1]:80".parse().unwrap()).log_text(), "::1 80");
        assert_eq!(Address::Unix.log_text(), "0.0.0.0 0");
    }

    #[test]
    fn networks_compare_by_prefix() {
        let check = |ip: &str, net: &str, bits, want| {
            assert_eq!(in_network(ip.parse().unwrap(), net.parse().unwrap(), bits), want, "{ip} {net}/{bits}");
        };
        check("10.1.2.3", "10.1.0.0", 16, true);
        check("10.2.2.3", "10.1.0.0", 16, false);
        check("10.1.2.3", "10.1.2.2", 31, true);
        check("10.1.2.4", "10.1.2.2", 31, false);
        check("192.0.2.1", "0.0.0.0", 0, true);
        check("::1", "0.0.0.0", 0, false);
        check("::ffff:10.1.2.3", "10.1.2.3", 32, true);
        check("2001:db8::1", "2001:db8::", 32, true);
    }
}
