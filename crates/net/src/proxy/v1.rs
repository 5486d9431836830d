// SPDX-License-Identifier: BSD-2-Clause
//! Version 1: a line of text.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use super::{MAX_V1_LINE, ProxyEnds, ProxyHeader, ProxyHeaderError, ProxyProgress, garbage};

pub(super) fn parse(input: &[u8]) -> Result<ProxyProgress, ProxyHeaderError> {
    let Some(lf) = input.iter().take(MAX_V1_LINE).position(|&c| c == b'\n') else {
        return if input.len() >= MAX_V1_LINE {
            Err(ProxyHeaderError::Overflow)
        } else {
            Ok(ProxyProgress::Incomplete)
        };
    };
    let line = &input[..lf];
    let Some(line) = line.strip_suffix(b"\r").filter(|l| !l.contains(&b'\r')) else {
        return Err(ProxyHeaderError::NotProxy);
    };
    let Ok(line) = std::str::from_utf8(line) else { return Err(ProxyHeaderError::NotProxy) };
    let mut words = line.split(' ');
    if words.next() != Some("PROXY") {
        return Err(ProxyHeaderError::NotProxy);
    }
    let fields: Vec<&str> = words.collect();
    if fields.first() == Some(&"UNKNOWN") {
        // The proxy knows nothing of the client; whatever follows is ignored (proxy-protocol.txt 2.1).
        let ignored = Some("PROXY1: Ignoring UNKNOWN addresses".to_owned());
        return Ok(ProxyProgress::Complete(ProxyHeader { consumed: lf + 1, ignored, ..ProxyHeader::default() }));
    }
    let [family, source_ip, destination_ip, source_port, destination_port] = fields[..] else {
        return garbage(if fields.len() < 5 { "PROXY1: Too few fields" } else { "PROXY1: Too many fields" });
    };
    let v6 = match family {
        "TCP4" => false,
        "TCP6" => true,
        _ => return garbage("PROXY1: Wrong TCP[46] field"),
    };
    let Some(source) = address(source_ip, source_port, v6) else {
        return garbage("PROXY1: Cannot resolve source address");
    };
    let Some(destination) = address(destination_ip, destination_port, v6) else {
        return garbage("PROXY1: Cannot resolve destination address");
    };
    Ok(ProxyProgress::Complete(ProxyHeader {
        consumed: lf + 1,
        ends: Some(ProxyEnds { source, destination }),
        log: Some(format!("1 {source_ip} {source_port} {destination_ip} {destination_port}")),
        ..ProxyHeader::default()
    }))
}

fn address(ip: &str, port: &str, v6: bool) -> Option<SocketAddr> {
    let ip: IpAddr = ip.parse().ok().filter(|ip: &IpAddr| ip.is_ipv6() == v6)?;
    let digits = !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit());
    digits.then(|| port.parse().ok())?.map(|port| SocketAddr::new(ip, port))
}

/// Writes a version 1 header.
pub fn write(ends: &ProxyEnds, out: &mut Vec<u8>) {
    let ProxyEnds { source, destination } = ends.same_family();
    let family = if source.is_ipv4() { 4 } else { 6 };
    write!(out, "PROXY TCP{family} {} {} {} {}\r\n", source.ip(), destination.ip(), source.port(), destination.port())
        .expect("a Vec takes every write");
}
