// SPDX-License-Identifier: BSD-2-Clause
//! The PROXY protocol, versions 1 and 2 (haproxy's proxy-protocol.txt): parser and writer, no socket. The outcomes and log
//! texts are varnishd's, but for the line UNKNOWN and headers longer than 1 KB, which varnishd refuses.

#[cfg(test)]
mod tests;
mod v1;
mod v2;

use std::net::SocketAddr;

use tables::SessClose;

pub use v1::write as write_v1;
pub use v2::{tlv, write as write_v2};

/// Most bytes after the fixed part of a version 2 header that tells of a client: room for the client's certificate in a TLV, which
/// varnishd's 1,024 bytes don't have.
pub const MAX_V2_PAYLOAD: usize = 16 * 1024;
/// The same of a LOCAL header, of which nothing is read: as in varnishd.
pub const MAX_V2_LOCAL_PAYLOAD: usize = 1024;
/// Most bytes of a version 1 line, its CRLF included.
pub const MAX_V1_LINE: usize = 108;

const V1_SIGNATURE: &[u8] = b"PROXY";
const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A parsed PROXY header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Bytes that the header takes.
    pub consumed: usize,
    /// Addresses behind the proxy; `None`: the connection's own addresses count (LOCAL, unknown families).
    pub ends: Option<ProxyEnds>,
    /// The raw TLVs of version 2, checked; look into them with [`tlv`].
    pub tlvs: Vec<u8>,
    /// The text of the log record Proxy, when there is one: `1 10.0.0.1 1234 10.0.0.2 80`.
    pub log: Option<String>,
    /// The text of the log record ProxyGarbage for a header that is ignored, not refused.
    pub ignored: Option<String>,
}

/// The two ends that a PROXY header tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyEnds {
    /// Address of the client.
    pub source: SocketAddr,
    /// Address that the client connected to.
    pub destination: SocketAddr,
}

impl ProxyEnds {
    /// Both ends in one family: IPv4 only when both are.
    fn same_family(&self) -> ProxyEnds {
        let v6 = |a: SocketAddr| match a {
            SocketAddr::V4(v4) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
            SocketAddr::V6(_) => a,
        };
        if self.source.is_ipv4() && self.destination.is_ipv4() {
            *self
        } else {
            ProxyEnds { source: v6(self.source), destination: v6(self.destination) }
        }
    }
}

/// Progress of reading a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyProgress {
    /// More bytes are needed.
    Incomplete,
    /// The header is complete.
    Complete(ProxyHeader),
}

/// Reasons to refuse a PROXY header. The session ends, nothing is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyHeaderError {
    /// The bytes don't begin like a PROXY header, or its line doesn't end like one.
    NotProxy,
    /// The header is too long.
    Overflow,
    /// The text of the log record ProxyGarbage.
    Garbage(String),
}

impl ProxyHeaderError {
    /// The reason for the session's end.
    pub fn close(&self) -> SessClose {
        match self {
            Self::Overflow => SessClose::RxOverflow,
            Self::NotProxy | Self::Garbage(_) => SessClose::RxJunk,
        }
    }
}

/// Parses a header from the start of `input`.
///
/// # Errors
/// See [`ProxyHeaderError`].
pub fn parse(input: &[u8]) -> Result<ProxyProgress, ProxyHeaderError> {
    let begins_like = |signature: &[u8]| {
        let n = signature.len().min(input.len());
        input[..n] == signature[..n]
    };
    if begins_like(V1_SIGNATURE) {
        if input.len() <= V1_SIGNATURE.len() { Ok(ProxyProgress::Incomplete) } else { v1::parse(input) }
    } else if begins_like(V2_SIGNATURE) {
        v2::parse(input)
    } else {
        Err(ProxyHeaderError::NotProxy)
    }
}

fn garbage<T>(text: impl Into<String>) -> Result<T, ProxyHeaderError> {
    Err(ProxyHeaderError::Garbage(text.into()))
}
