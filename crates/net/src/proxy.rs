// SPDX-License-Identifier: BSD-2-Clause
//! The PROXY protocol, versions 1 and 2 (haproxy's proxy-protocol.txt): parser and writer, no socket.

use std::net::SocketAddr;

/// Most bytes after the signature of version 2, as in varnishd.
pub const MAX_V2_PAYLOAD: usize = 1024;
/// Most bytes of a version 1 line.
pub const MAX_V1_LINE: usize = 108;

/// A parsed PROXY header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes it took.
    pub consumed: usize,
    /// Who is behind the proxy; `None`: the connection's own addresses count (LOCAL, unknown families).
    pub ends: Option<Ends>,
    /// The raw TLVs of version 2, checked; look into them with [`tlv`].
    pub tlvs: Vec<u8>,
    /// The text of the log record Proxy, when there is one: `1 10.0.0.1 1234 10.0.0.2 80`.
    pub log: Option<String>,
    /// The text of the log record ProxyGarbage for a header that is ignored, not refused.
    pub ignored: Option<String>,
}

/// The two ends that a PROXY header tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The client.
    pub source: SocketAddr,
    /// Where the client connected to.
    pub destination: SocketAddr,
}

/// How far a header has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    Incomplete,
    /// It is whole.
    Complete(Header),
}

/// Why a PROXY header is refused. The session ends (`RX_JUNK`, overflow `RX_OVERFLOW`), nothing is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyError {
    /// It doesn't begin like a PROXY header.
    NotProxy,
    /// Longer than allowed.
    Overflow,
    /// The text of the log record ProxyGarbage.
    Garbage(String),
}

/// Parses a header from the start of `input`.
///
/// # Errors
/// See [`ProxyError`].
pub fn parse(input: &[u8]) -> Result<Progress, ProxyError> {
    let _ = input;
    todo!()
}

/// The value of the TLV of that type, also looked for inside the SSL TLV (0x20).
pub fn tlv(tlvs: &[u8], kind: u8) -> Option<&[u8]> {
    let _ = (tlvs, kind);
    todo!()
}

/// Writes a version 1 header.
pub fn write_v1(ends: &Ends, out: &mut Vec<u8>) {
    let _ = (ends, out);
    todo!()
}

/// Writes a version 2 header, with an authority TLV when one is given.
pub fn write_v2(ends: &Ends, authority: Option<&str>, out: &mut Vec<u8>) {
    let _ = (ends, authority, out);
    todo!()
}
