// SPDX-License-Identifier: BSD-2-Clause
//! Why what a client sent first is no ClientHello.

use std::fmt;

/// Each has its alert, which is sent, and its words, which are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelloError {
    /// A request, which somebody sent to the wrong port.
    PlainHttp,
    /// A PROXY header, which the listener isn't told to expect.
    ProxyHeader,
    /// A hello as SSL 2.0 had it.
    Ssl2,
    /// A `legacy_version` of SSL 3.0 or less, which nobody may answer, whatever else is on offer (RFC 8446 D.5).
    OldVersion(u16),
    NotTls,
    /// A record of another kind than handshake messages have.
    Record(u8),
    /// A record without bytes, which a handshake message mustn't have (RFC 8446 5.1).
    EmptyRecord,
    RecordTooLong(u16),
    Message(u8),
    /// The message is, or is going to be, longer than [`super::MAX_RAW_BYTES`].
    TooLong,
    /// Something in it isn't as it must be.
    Malformed(&'static str),
}

impl HelloError {
    /// The alert that says it to a client (RFC 8446 6); none for who doesn't speak TLS.
    pub fn alert(self) -> Option<u8> {
        match self {
            HelloError::PlainHttp | HelloError::ProxyHeader | HelloError::NotTls => None,
            HelloError::Ssl2 | HelloError::OldVersion(_) => Some(70),
            HelloError::Record(_) | HelloError::EmptyRecord | HelloError::Message(_) => Some(10),
            HelloError::RecordTooLong(_) => Some(22),
            HelloError::TooLong | HelloError::Malformed(_) => Some(50),
        }
    }
}

impl fmt::Display for HelloError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HelloError::PlainHttp => f.write_str("plain HTTP"),
            HelloError::ProxyHeader => f.write_str("a PROXY header"),
            HelloError::Ssl2 => f.write_str("a hello of SSL 2.0"),
            HelloError::OldVersion(version) => write!(f, "a hello of version {version:#06x}"),
            HelloError::NotTls => f.write_str("not TLS"),
            HelloError::Record(kind) => write!(f, "a record of type {kind} before the ClientHello"),
            HelloError::EmptyRecord => f.write_str("an empty record before the ClientHello"),
            HelloError::RecordTooLong(bytes) => write!(f, "a record of {bytes} bytes"),
            HelloError::Message(kind) => write!(f, "a handshake message of type {kind} before the ClientHello"),
            HelloError::TooLong => f.write_str("the ClientHello is too long"),
            HelloError::Malformed(what) => write!(f, "the ClientHello is malformed: {what}"),
        }
    }
}

impl std::error::Error for HelloError {}
