// SPDX-License-Identifier: BSD-2-Clause
//! Version 2: binary, with TLVs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crc32c::{crc32c, crc32c_append};

use super::{
    MAX_V2_LOCAL_PAYLOAD, MAX_V2_PAYLOAD, ProxyEnds, ProxyHeader, ProxyHeaderError, ProxyProgress, V2_SIGNATURE,
    garbage,
};

const FIXED: usize = 16;
/// The command of a connection that the proxy makes for itself, for example to see whether we are there.
const LOCAL: u8 = 0;
const TLV_AUTHORITY: u8 = 0x02;
const TLV_CRC32C: u8 = 0x03;
const TLV_SSL: u8 = 0x20;
/// Client and verify words before the SSL TLV's own TLVs.
const SSL_FIXED: usize = 5;

/// Parses a header that begins with (a part of) the signature.
pub(super) fn parse(input: &[u8]) -> Result<ProxyProgress, ProxyHeaderError> {
    let Some(fixed) = input.get(..FIXED) else { return Ok(ProxyProgress::Incomplete) };
    let payload_len = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let most = if fixed[12] & 15 == LOCAL { MAX_V2_LOCAL_PAYLOAD } else { MAX_V2_PAYLOAD };
    if payload_len > most {
        return Err(ProxyHeaderError::Overflow);
    }
    let Some(header) = input.get(..FIXED + payload_len) else { return Ok(ProxyProgress::Incomplete) };
    whole(header).map(ProxyProgress::Complete)
}

fn whole(header: &[u8]) -> Result<ProxyHeader, ProxyHeaderError> {
    let (version, command, family) = (header[12] >> 4, header[12] & 15, header[13]);
    let consumed = header.len();
    if version != 2 {
        return garbage(format!("PROXY2: bad version ({version})"));
    }
    match command {
        LOCAL => {
            let log = Some("2 local local local local".to_owned());
            return Ok(ProxyHeader { consumed, log, ..ProxyHeader::default() });
        }
        1 => {}
        _ => return garbage(format!("PROXY2: bad command ({command})")),
    }
    let ignore = |text: String| Ok(ProxyHeader { consumed, ignored: Some(text), ..ProxyHeader::default() });
    let (name, ip_len) = match family {
        0x00 => return ignore("PROXY2: Ignoring UNSPEC|UNSPEC addresses".into()),
        0x11 => ("IPv4", 4),
        0x21 => ("IPv6", 16),
        _ => return ignore(format!("PROXY2: Ignoring unsupported protocol (0x{family:02x})")),
    };
    let payload = &header[FIXED..];
    let Some((addresses, tlvs)) = payload.split_at_checked(2 * ip_len + 4) else {
        return ignore(format!("PROXY2: Ignoring short {name} addresses ({})", payload.len()));
    };
    let ends = ends(addresses, ip_len);
    check_tlvs(header, tlvs)?;
    let ProxyEnds { source, destination } = ends;
    let log = format!("2 {} {} {} {}", source.ip(), source.port(), destination.ip(), destination.port());
    Ok(ProxyHeader { consumed, ends: Some(ends), tlvs: tlvs.to_vec(), log: Some(log), ignored: None })
}

/// `addresses` is source, destination, source port, destination port.
fn ends(addresses: &[u8], ip_len: usize) -> ProxyEnds {
    let ip = |bytes: &[u8]| match <[u8; 4]>::try_from(bytes) {
        Ok(v4) => IpAddr::V4(Ipv4Addr::from(v4)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).expect("4 or 16 bytes"))),
    };
    let port = |at: usize| u16::from_be_bytes([addresses[at], addresses[at + 1]]);
    ProxyEnds {
        source: SocketAddr::new(ip(&addresses[..ip_len]), port(2 * ip_len)),
        destination: SocketAddr::new(ip(&addresses[ip_len..2 * ip_len]), port(2 * ip_len + 2)),
    }
}

/// Type, value, and the value's offset of one TLV after another; `Err` when they don't fit.
struct Tlvs<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<(u8, &'a [u8], usize), &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.all[self.at..];
        if rest.is_empty() {
            return None;
        }
        let [kind, high, low, ..] = *rest else {
            self.at = self.all.len();
            return Some(Err("Dribble bytes"));
        };
        let len = usize::from(u16::from_be_bytes([high, low]));
        let Some(value) = rest.get(3..3 + len) else {
            self.at = self.all.len();
            return Some(Err("Length Error"));
        };
        let value_at = self.at + 3;
        self.at = value_at + len;
        Some(Ok((kind, value, value_at)))
    }
}

fn check_tlvs(header: &[u8], tlvs: &[u8]) -> Result<(), ProxyHeaderError> {
    let bad = |text: &str| ProxyHeaderError::Garbage(format!("PROXY2: TLV {text}"));
    let mut has_sum = false;
    for tlv in (Tlvs { all: tlvs, at: 0 }) {
        let (kind, value, at) = tlv.map_err(bad)?;
        match kind {
            TLV_SSL => {
                let inner = value.get(SSL_FIXED..).ok_or_else(|| bad("Length Error"))?;
                (Tlvs { all: inner, at: 0 }).try_for_each(|within| within.map(|_| ())).map_err(bad)?;
            }
            // One sum is for the whole header. A header of nothing but sums would cost as many passes over it.
            TLV_CRC32C if has_sum => return Err(bad("Second CRC")),
            TLV_CRC32C => {
                has_sum = true;
                let want = <[u8; 4]>::try_from(value).map_err(|_| bad("Length Error"))?;
                // The sum is of the header with zeros in its place.
                let (before, rest) = header.split_at(header.len() - tlvs.len() + at);
                let sum = [&[0; 4], &rest[4..]].into_iter().fold(crc32c(before), crc32c_append);
                if sum != u32::from_be_bytes(want) {
                    return garbage("PROXY2: CRC error");
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The value of the TLV of that type, also looked for inside the SSL TLV (0x20).
pub fn tlv(tlvs: &[u8], kind: u8) -> Option<&[u8]> {
    for (this, value, _) in (Tlvs { all: tlvs, at: 0 }).map_while(Result::ok) {
        if this == kind {
            return Some(value);
        }
        if this == TLV_SSL {
            let mut inner = Tlvs { all: value.get(SSL_FIXED..).unwrap_or_default(), at: 0 }.map_while(Result::ok);
            if let Some((_, found, _)) = inner.find(|(within, _, _)| *within == kind) {
                return Some(found);
            }
        }
    }
    None
}

/// Writes a version 2 header, with an authority TLV when one is given that fits.
pub fn write(ends: &ProxyEnds, authority: Option<&str>, out: &mut Vec<u8>) {
    let ProxyEnds { source, destination } = ends.same_family();
    let authority = authority.filter(|a| !a.is_empty() && a.len() < 64 * 1024 - 64);
    let (family, addresses_len) = if source.is_ipv4() { (0x11, 12) } else { (0x21, 36) };
    let len = addresses_len + authority.map_or(0, |a| 3 + a.len());
    out.extend_from_slice(V2_SIGNATURE);
    out.extend_from_slice(&[0x21, family]);
    out.extend_from_slice(&(len as u16).to_be_bytes());
    for ip in [source.ip(), destination.ip()] {
        match ip {
            IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
        }
    }
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
    if let Some(authority) = authority {
        out.push(TLV_AUTHORITY);
        out.extend_from_slice(&(authority.len() as u16).to_be_bytes());
        out.extend_from_slice(authority.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_tlvs(tlvs: &[u8]) -> Vec<u8> {
        let ends = ProxyEnds { source: "1.2.3.4:5".parse().unwrap(), destination: "6.7.8.9:10".parse().unwrap() };
        let mut out = Vec::new();
        write(&ends, None, &mut out);
        out.extend_from_slice(tlvs);
        let len = (out.len() - FIXED) as u16;
        out[14..16].copy_from_slice(&len.to_be_bytes());
        out
    }

    fn check(tlvs: &[u8], want: Result<(), &str>) {
        let got = parse(&with_tlvs(tlvs)).map(|_| ());
        assert_eq!(got, want.map_err(|t| ProxyHeaderError::Garbage(t.to_owned())), "{tlvs:?}");
    }

    #[test]
    fn tlvs_must_fit() {
        check(b"\x01\x00\x02h2", Ok(()));
        check(b"\x01\x00", Err("PROXY2: TLV Dribble bytes"));
        check(b"\x01\x00\x03h2", Err("PROXY2: TLV Length Error"));
        check(b"\x20\x00\x04abcd", Err("PROXY2: TLV Length Error"));
        check(b"\x20\x00\x06abcdex", Err("PROXY2: TLV Dribble bytes"));
        check(b"\x03\x00\x01a", Err("PROXY2: TLV Length Error"));
        check(b"\x03\x00\x04abcd", Err("PROXY2: CRC error"));
    }

    #[test]
    fn a_right_checksum_is_taken() {
        let mut header = with_tlvs(b"\x03\x00\x04\0\0\0\0");
        let crc = crc32c(&header).to_be_bytes();
        let at = header.len() - 4;
        header[at..].copy_from_slice(&crc);
        assert!(parse(&header).is_ok());
        // A second sum is refused before it is worked out.
        let mut twice = with_tlvs(b"\x03\x00\x04\0\0\0\0\x03\x00\x04\0\0\0\0");
        let crc = crc32c(&twice).to_be_bytes();
        let at = twice.len() - 11;
        twice[at..at + 4].copy_from_slice(&crc);
        assert_eq!(parse(&twice), Err(ProxyHeaderError::Garbage("PROXY2: TLV Second CRC".to_owned())));
    }

    #[test]
    fn values_are_found_inside_the_ssl_tlv() {
        let tlvs = b"\x01\x00\x02h2\x20\x00\x0c\x01\0\0\0\0\x21\x00\x04v1.3";
        assert_eq!(tlv(tlvs, 0x01), Some(&b"h2"[..]));
        assert_eq!(tlv(tlvs, 0x21), Some(&b"v1.3"[..]));
        assert_eq!(tlv(tlvs, 0x22), None);
    }
}
