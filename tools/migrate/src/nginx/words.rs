// SPDX-License-Identifier: BSD-2-Clause
//! Words that stand in the results as they are: each is checked before anything is made of it. nginx rejects most of the others, too.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::config::Directive;
use super::site::Listen;
use crate::migrated::Migrated;
use crate::vcl;

/// Checks the words of directives and all in them.
///
/// # Errors
/// A word can't stand in VCL or in tls.conf; the text says where.
pub fn check(all: &[Directive]) -> Result<(), String> {
    for directive in all.iter().filter(|d| !matches!(d.name.as_str(), "stream" | "mail")) {
        own(directive).map_err(|reason| format!("{}: {}: {reason}", directive.place, directive.name))?;
        if directive.name == "upstream" {
            for server in directive.inside().iter().filter(|d| d.name == "server") {
                member(server).map_err(|reason| format!("{}: server: {reason}", server.place))?;
            }
        }
        if !directive.is_table() {
            check(directive.inside())?;
        }
    }
    Ok(())
}

fn own(directive: &Directive) -> Result<(), String> {
    match directive.name.as_str() {
        "listen" => Listen::of(directive, false).map(|_| ()),
        "location" | "server_name" | "default_type" => directive.words.iter().try_for_each(|word| writable(word)),
        "types" => directive.inside().iter().try_for_each(|entry| writable(&entry.name)),
        "ssl_certificate" | "ssl_certificate_key" => match directive.word(0) {
            path if path.contains(|c: char| c == '"' || c.is_control()) => {
                Err(format!("{path:?} can't be written in tls.conf; give the file another name"))
            }
            _ => Ok(()),
        },
        name if name.ends_with("_cache_use_stale") => {
            let is_known = |word: &str| match word.strip_prefix("http_") {
                Some(status) => is_number(status),
                None => ["error", "timeout", "invalid_header", "updating", "off"].contains(&word),
            };
            let odd = directive.words.iter().find(|word| !is_known(word));
            odd.map_or(Ok(()), |word| Err(format!("{word:?} is no case of it")))
        }
        name if name.ends_with("_cache") => writable(directive.word(0)),
        _ => Ok(()),
    }
}

fn member(server: &Directive) -> Result<(), String> {
    if !is_address(server.word(0)) {
        return Err(format!("{:?} is no address of a server", server.word(0)));
    }
    Ok(())
}

/// True of `HOST`, `HOST:PORT` and `unix:PATH` that can be written in VCL.
pub fn is_address(text: &str) -> bool {
    if let Some(path) = text.strip_prefix("unix:") {
        return path.starts_with('/') && !path.contains(|c: char| c == '"' || c.is_control());
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (text, "80"),
    };
    is_host(host) && port.parse::<u16>().is_ok()
}

/// An address or network as an entry of an acl, without the host bits, and whether it had any: nginx doesn't heed them, and VCL takes none.
pub fn address(text: &str) -> Option<(String, bool)> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let ip: IpAddr = address.parse().ok()?;
    let Some(bits) = bits else { return Some((format!("\"{ip}\""), false)) };
    let bits = bits.parse::<u32>().ok()?;
    let network = match ip {
        IpAddr::V4(v4) => {
            let host = 32_u32.checked_sub(bits)?;
            IpAddr::from(Ipv4Addr::from(v4.to_bits() & u32::MAX.checked_shl(host).unwrap_or(0)))
        }
        IpAddr::V6(v6) => {
            let host = 128_u32.checked_sub(bits)?;
            IpAddr::from(Ipv6Addr::from(v6.to_bits() & u128::MAX.checked_shl(host).unwrap_or(0)))
        }
    };
    Some((format!("\"{network}\"/{bits}"), network != ip))
}

/// Says of networks with host bits that these mean nothing.
pub fn tell_host_bits(all: &[Directive], migrated: &mut Migrated) {
    for directive in all {
        let networks: Vec<(&Directive, &str)> = match directive.name.as_str() {
            "allow" | "deny" => vec![(directive, directive.word(0))],
            "geo" => directive.inside().iter().map(|entry| (entry, entry.name.as_str())).collect(),
            _ => Vec::new(),
        };
        for (entry, network) in networks {
            if let Some((network, true)) = address(network) {
                let text = format!("the host bits of its network mean nothing: it is {}", network.replace('"', ""));
                migrated.note(&entry.place, &directive.name, text);
            }
        }
        tell_host_bits(directive.inside(), migrated);
    }
}

/// True of a name or an address, which for IPv6 stands in brackets.
pub fn is_host(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_')),
    }
}

/// True of a header's name that can be written in VCL.
pub fn is_header(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|c| c.is_ascii_digit()) && text.parse::<u32>().is_ok()
}

fn writable(text: &str) -> Result<(), String> {
    vcl::string(text).map(|_| ()).ok_or_else(|| format!("{text:?} can't be written in VCL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        for (text, expect) in [
            ("10.0.0.1", Some(("\"10.0.0.1\"", false))),
            ("192.168.1.1/24", Some(("\"192.168.1.0\"/24", true))),
            ("192.168.1.0/24", Some(("\"192.168.1.0\"/24", false))),
            ("10.0.0.1/32", Some(("\"10.0.0.1\"/32", false))),
            ("10.0.0.1/0", Some(("\"0.0.0.0\"/0", true))),
            ("2001:db8::1/32", Some(("\"2001:db8::\"/32", true))),
            ("::/0", Some(("\"::\"/0", false))),
            ("10.0.0.1/33", None),
            ("::1/129", None),
            ("a", None),
        ] {
            assert_eq!(address(text), expect.map(|(entry, is_masked)| (entry.to_owned(), is_masked)), "{text}");
        }
    }

    #[test]
    fn addresses() {
        for text in ["a", "a.b:80", "10.0.0.1:1", "[::1]:81", "[::1]", "unix:/run/a.sock", "unix:/run/a b:"] {
            assert!(is_address(text), "{text}");
        }
        for text in ["", "a:b", "a:99999", "a\"", "a b", "a:80 ", "[x]:80", "unix:a", "unix:/a\"", "unix:/a\nb", ":80"]
        {
            assert!(!is_address(text), "{text}");
        }
    }
}
