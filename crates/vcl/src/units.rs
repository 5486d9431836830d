// SPDX-License-Identifier: BSD-2-Clause
//! Constants with units, and addresses.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::code::DiagnosticCode;
use crate::program::HostName;
use crate::token::{Tok, Token};
use crate::vcc::{Vcc, VccResult};

pub(crate) struct ResolvedHost {
    pub v4: Option<SocketAddr>,
    pub v6: Option<SocketAddr>,
}

impl Vcc<'_> {
    /// The factor of the unit at the current token, in seconds.
    pub fn duration_unit(&mut self) -> VccResult<f64> {
        let word = self.text_of(&self.token());
        if let Some(seconds) = base::text::unit_seconds(&word) {
            self.next();
            return Ok(seconds);
        }
        let shown = self.token_name(&self.token());
        self.fail(
            DiagnosticCode::Unit,
            &format!("Unknown duration unit {shown}\nLegal duration units are 'ms', 's', 'm', 'h', 'd', 'w' and 'y'\n"),
        )
    }

    /// Compiles a constant like `10s` where no other expression is allowed.
    pub fn duration(&mut self) -> VccResult<f64> {
        if self.tok() != Tok::Real {
            self.expect(Tok::Int)?;
        }
        let num = self.token().num;
        self.next();
        self.expect(Tok::Id)?;
        Ok(num * self.duration_unit()?)
    }

    pub fn unsigned(&mut self) -> VccResult<u32> {
        self.expect(Tok::Int)?;
        let token = self.token();
        if token.num > f64::from(u32::MAX) {
            return self.fail(DiagnosticCode::Limit, "Number is too large.\n");
        }
        self.next();
        Ok(token.num as u32)
    }

    pub fn byte_size(&mut self) -> VccResult<i64> {
        let token = self.token();
        self.next();
        let unit = self.token();
        let shown = self.token_name(&unit);
        if unit.tok != Tok::Id {
            return self.fail(DiagnosticCode::Unit, &format!("Expected BYTES unit (B, KB, MB...) got {shown}\n"));
        }
        let word = self.text_of(&unit).to_ascii_lowercase();
        let shift = match word.strip_suffix('b').unwrap_or(&word) {
            "" if word == "b" => 0,
            "k" => 10,
            "m" => 20,
            "g" => 30,
            "t" => 40,
            "p" => 50,
            _ => {
                return self
                    .fail(DiagnosticCode::Unit, &format!("Unknown BYTES unit of measurement ([KMGTP][B]){shown}"));
            }
        };
        if shift == 0 && token.num.fract() != 0.0 {
            return self.fail(DiagnosticCode::Unit, &format!("Fractional BYTES not allowed{shown}"));
        }
        self.next();
        Ok((token.num * (1u64 << shift) as f64).round() as i64)
    }

    /// Splits `host`, `host:port`, `[v6]:port` or `host port`.
    fn split_port(text: &str) -> Result<(&str, Option<&str>), &'static str> {
        if let Some(rest) = text.strip_prefix('[') {
            let Some((host, after)) = rest.split_once(']') else { return Err("IPv6 address lacks ']'") };
            return match after.strip_prefix([':', ' ']) {
                Some(port) => Ok((host, Some(port))),
                None if after.is_empty() => Ok((host, None)),
                None => Err("IPv6 address has wrong port separator"),
            };
        }
        if let Some((host, port)) = text.split_once(' ') {
            return Ok((host, Some(port)));
        }
        match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => Ok((host, Some(port))),
            _ => Ok((text, None)),
        }
    }

    fn host_and_port(text: &str, default_port: u16) -> Result<(&str, u16), String> {
        let (host, port) = Self::split_port(text)?;
        let port = match port {
            None => default_port,
            Some("") => return Err(base::text::bad_port("")),
            Some(port) => match port.parse::<u16>() {
                Ok(port) => port,
                Err(_) if port == "http" => 80,
                Err(_) if port == "https" => 443,
                Err(_) => return Err(base::text::bad_port(port)),
            },
        };
        Ok((host, port))
    }

    /// True of an address, with or without a port.
    pub fn is_address(text: &str) -> bool {
        let host = Self::host_and_port(text, 80).map_or("", |(host, _)| host);
        host.parse::<IpAddr>().is_ok() || short_ipv4(host).is_some()
    }

    /// The host name in a backend's address, with its current addresses. `None` for a literal address and for text that
    /// can't be resolved.
    pub fn host_name(&mut self, text: &str, default_port: u16) -> Option<HostName> {
        let (host, port) = Self::host_and_port(text, default_port).ok()?;
        let is_literal = host.parse::<IpAddr>().is_ok() || short_ipv4(host).is_some();
        if is_literal || host.is_empty() || host.len() > 255 {
            return None;
        }
        let found = self.outside.resolve(host).unwrap_or_default();
        let found = found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
        Some(HostName { host: host.to_owned(), port, found })
    }

    fn lookup(&mut self, text: &str, default_port: u16) -> Result<Vec<SocketAddr>, String> {
        let (host, port) = Self::host_and_port(text, default_port)?;
        // `:80` is any address of this machine; an empty text is no address.
        let is_any = host.is_empty() && !text.is_empty();
        let found = if is_any { self.outside.resolve(host)? } else { self.addresses(host)? };
        Ok(found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
    }

    pub fn addresses(&mut self, host: &str) -> Result<Vec<IpAddr>, String> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![ip]);
        }
        if let Some(ip) = short_ipv4(host) {
            return Ok(vec![IpAddr::V4(ip)]);
        }
        // An empty name isn't passed to getaddrinfo(3), which would return this machine's own address.
        if host.is_empty() || host.len() > 255 {
            return Err("Name or service not known".to_owned());
        }
        self.outside.resolve(host)
    }

    /// Resolves a backend or an IP constant; errors are shown at `token`.
    pub fn resolve(
        &mut self,
        text: &[u8],
        token: &Token,
        what: &str,
        families: usize,
        default_port: u16,
    ) -> VccResult<ResolvedHost> {
        let text = String::from_utf8_lossy(text).into_owned();
        let shown = self.text_of(token);
        let found = match self.lookup(&text, default_port) {
            Ok(found) => found,
            Err(reason) => {
                if let Some((_, rest)) = text.split_once("://") {
                    let host = rest.split(['/', ':']).next().unwrap_or_default();
                    self.hint(format!(
                        "Only a name or an address stands here, no URL: .host = \"{host}\"; and .port beside it."
                    ));
                } else if text.contains('/') {
                    self.hint("One address has no mask; a network is declared: acl name { \"10.0.0.0\"/8; }");
                }
                // Other reasons have the text of getaddrinfo(3).
                let sorry = match reason.starts_with("there is no port") {
                    true => "",
                    false => "(Sorry if that error message is gibberish.)\n",
                };
                let text = format!("{what} '{shown}' could not be resolved to an IP address:\n\t{reason}\n{sorry}");
                return self.fail_at(DiagnosticCode::Address, &text, token);
            }
        };
        let mut resolved = ResolvedHost { v4: None, v6: None };
        let mut wrong = false;
        for addr in &found {
            let slot = if addr.is_ipv4() { &mut resolved.v4 } else { &mut resolved.v6 };
            wrong |= slot.is_some_and(|old| old != *addr);
            slot.get_or_insert(*addr);
        }
        if found.is_empty() {
            let text = format!("{what} '{shown}': resolves to neither IPv4 nor IPv6 addresses.\n");
            return self.fail_at(DiagnosticCode::Address, &text, token);
        }
        if wrong || usize::from(resolved.v4.is_some()) + usize::from(resolved.v6.is_some()) > families {
            let list: String = found.iter().map(|a| format!("\t{}:{}\n", a.ip(), a.port())).collect();
            let and = if families > 1 { "and one" } else { "or" };
            let text = format!(
                "{what} {shown}: resolves to too many addresses.\nOnly one IPv4 {and} IPv6 are allowed.\n\
                 Please specify which exact address you want to use, we found all of these:\n{list}"
            );
            return self.fail_at(DiagnosticCode::Address, &text, token);
        }
        Ok(resolved)
    }

    /// The single address of an IP constant.
    pub fn resolve_one(&mut self, text: &[u8], token: &Token) -> VccResult<SocketAddr> {
        let resolved = self.resolve(text, token, "IP constant", 1, 80)?;
        match resolved.v4.or(resolved.v6) {
            Some(addr) => Ok(addr),
            None => self.fail_at(DiagnosticCode::Address, "IP constant has no address\n", token),
        }
    }
}

/// Parses old notations of IPv4 addresses with fewer than four parts: `127.1`.
fn short_ipv4(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() >= 4 || parts.iter().any(|p| p.is_empty() || !p.bytes().all(|c| c.is_ascii_digit())) {
        return None;
    }
    let numbers: Option<Vec<u64>> = parts.iter().map(|p| p.parse().ok()).collect();
    let numbers = numbers?;
    let (last, before) = numbers.split_last()?;
    let room = 32 - 8 * before.len() as u32;
    if before.iter().any(|n| *n > 255) || *last >= 1 << room {
        return None;
    }
    let high = before.iter().enumerate().fold(0u64, |sum, (i, n)| sum | n << (24 - 8 * i));
    Some(Ipv4Addr::from((high | last) as u32))
}
