// SPDX-License-Identifier: BSD-2-Clause
//! The address of a backend: at most one IPv4 and one IPv6 address, a name that is looked up at run time, or a unix socket. Also the bytes
//! that begin every connection, the TLS settings, and the version of HTTP. Two backends with equal endpoints share a pool.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use net::ConnectTarget;
use tables::origin_proto::OriginProto;
use tls::origin::TlsOrigin;

/// An endpoint; the key of a connection pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub ipv4: Option<SocketAddr>,
    pub ipv6: Option<SocketAddr>,
    /// Unix socket; excludes addresses.
    pub path: Option<PathBuf>,
    /// A name and its port; excludes addresses. The addresses are those of the latest lookup.
    pub name: Option<(String, u16)>,
    /// `.preamble`: sent first on every new connection.
    pub preamble: Vec<u8>,
    pub proto: OriginProto,
    pub tls: Option<Result<TlsOrigin, String>>,
}

/// The reason why a name has no endpoint. VCL turns it into the compile error that Varnish writes.
#[derive(Debug)]
pub enum EndpointError {
    Lookup(std::io::Error),
    Nothing,
    /// More than one address of a family: the two that differ.
    TooMany(SocketAddr, SocketAddr),
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lookup(error) => write!(f, "{error}"),
            Self::Nothing => f.write_str("resolves to no address"),
            Self::TooMany(a, b) => write!(f, "resolves to too many addresses: {a} and {b}"),
        }
    }
}

impl std::error::Error for EndpointError {}

impl Endpoint {
    pub fn addr(addr: SocketAddr) -> Self {
        let (ipv4, ipv6) = if addr.is_ipv4() { (Some(addr), None) } else { (None, Some(addr)) };
        Self { ipv4, ipv6, ..Self::default() }
    }

    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..Self::default() }
    }

    pub fn named(host: &str, port: u16) -> Self {
        Self { name: Some((host.to_owned(), port)), ..Self::default() }
    }

    /// Looks a name up, as `.host` and `.port` are: at most one address per family. Blocks.
    ///
    /// # Errors
    /// Unknown, without an address, or with several of a family.
    pub fn resolve(host: &str, port: u16) -> Result<Self, EndpointError> {
        let found = base::lookup::addresses(host, port).map_err(EndpointError::Lookup)?;
        let mut endpoint = Self::default();
        for addr in found {
            let slot = if addr.is_ipv4() { &mut endpoint.ipv4 } else { &mut endpoint.ipv6 };
            match *slot {
                Some(old) if old != addr => return Err(EndpointError::TooMany(old, addr)),
                _ => *slot = Some(addr),
            }
        }
        if endpoint.ipv4.is_none() && endpoint.ipv6.is_none() {
            return Err(EndpointError::Nothing);
        }
        Ok(endpoint)
    }

    /// The addresses in the order in which they are tried. Empty for a name, which has its own list.
    pub(crate) fn targets(&self, prefer_ipv6: bool) -> Vec<ConnectTarget> {
        if let Some(path) = &self.path {
            return vec![ConnectTarget::Unix(path.clone())];
        }
        let both = if prefer_ipv6 { [self.ipv6, self.ipv4] } else { [self.ipv4, self.ipv6] };
        both.into_iter().flatten().map(ConnectTarget::Inet).collect()
    }

    /// The Host header for a backend that has no `.host_header`.
    pub(crate) fn default_host(&self, prefer_ipv6: bool) -> String {
        match self.targets(prefer_ipv6).first() {
            Some(ConnectTarget::Inet(addr)) => addr.ip().to_string(),
            Some(ConnectTarget::Unix(_)) | None => "0.0.0.0".into(),
        }
    }
}

/// Writes the address for messages: `127.0.0.1:80`, `127.0.0.1:80, [::1]:80`, `host.example:80` or a socket's path.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.path, &self.name, self.ipv4, self.ipv6) {
            (Some(path), ..) => write!(f, "{}", path.display()),
            (_, Some((host, port)), ..) => write!(f, "{host}:{port}"),
            (.., Some(ipv4), Some(ipv6)) => write!(f, "{ipv4}, {ipv6}"),
            (.., Some(one), None) | (.., None, Some(one)) => write!(f, "{one}"),
            (.., None, None) => f.write_str("no address"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_family_comes_first() {
        let mut endpoint = Endpoint::addr("127.0.0.1:80".parse().unwrap());
        endpoint.ipv6 = Some("[::1]:80".parse().unwrap());
        let first = |prefer| endpoint.targets(prefer)[0] == ConnectTarget::Inet("[::1]:80".parse().unwrap());
        assert!(first(true) && !first(false));
    }

    #[test]
    fn numbers_resolve_to_themselves() {
        let endpoint = Endpoint::resolve("127.0.0.1", 8080).unwrap();
        assert_eq!(endpoint, Endpoint::addr("127.0.0.1:8080".parse().unwrap()));
        assert_eq!(endpoint.default_host(false), "127.0.0.1");
    }
}
