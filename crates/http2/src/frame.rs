// SPDX-License-Identifier: BSD-2-Clause
//! Frames as they are laid out (RFC 9113 4, 6): nine bytes of header, and a payload.

use std::fmt;

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 9;

/// Preface of a client (RFC 9113 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest payload that a peer takes unless it says otherwise (RFC 9113 6.5.2).
pub const DEFAULT_FRAME_SIZE: u32 = 16_384;

/// DATA, HEADERS: the stream's last.
pub const END_STREAM: u8 = 0x1;
/// SETTINGS, PING: an answer.
pub const ACK: u8 = 0x1;
/// HEADERS, CONTINUATION: the field section ends.
pub const END_HEADERS: u8 = 0x4;
/// DATA, HEADERS: a byte with the length of the padding comes first.
pub const PADDED: u8 = 0x8;
/// HEADERS: five bytes of priority come first.
pub const PRIORITY: u8 = 0x20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Http2FrameType {
    Data,
    Headers,
    Priority,
    RstStream,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    /// PRIORITY_UPDATE of RFC 9218, 7.1.
    PriorityUpdate,
    /// A type to be ignored.
    Unknown(u8),
}

impl Http2FrameType {
    /// The kind of a number on the wire.
    pub fn from_number(number: u8) -> Http2FrameType {
        match number {
            0 => Self::Data,
            1 => Self::Headers,
            2 => Self::Priority,
            3 => Self::RstStream,
            4 => Self::Settings,
            5 => Self::PushPromise,
            6 => Self::Ping,
            7 => Self::GoAway,
            8 => Self::WindowUpdate,
            9 => Self::Continuation,
            0x10 => Self::PriorityUpdate,
            other => Self::Unknown(other),
        }
    }

    /// The number on the wire.
    pub fn number(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::Headers => 1,
            Self::Priority => 2,
            Self::RstStream => 3,
            Self::Settings => 4,
            Self::PushPromise => 5,
            Self::Ping => 6,
            Self::GoAway => 7,
            Self::WindowUpdate => 8,
            Self::Continuation => 9,
            Self::PriorityUpdate => 0x10,
            Self::Unknown(other) => other,
        }
    }
}

impl fmt::Display for Http2FrameType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "DATA",
            Self::Headers => "HEADERS",
            Self::Priority => "PRIORITY",
            Self::RstStream => "RST_STREAM",
            Self::Settings => "SETTINGS",
            Self::PushPromise => "PUSH_PROMISE",
            Self::Ping => "PING",
            Self::GoAway => "GOAWAY",
            Self::WindowUpdate => "WINDOW_UPDATE",
            Self::Continuation => "CONTINUATION",
            Self::PriorityUpdate => "PRIORITY_UPDATE",
            Self::Unknown(number) => return write!(f, "{number:#04x}"),
        })
    }
}

/// Header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the payload, at most 2^24-1.
    pub len: u32,
    /// Type of the frame.
    pub kind: Http2FrameType,
    /// Flags; what they mean depends on the kind.
    pub flags: u8,
    /// The stream, 0 for the connection.
    pub stream: u32,
}

impl FrameHeader {
    /// Reads one. The reserved bit is left out.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> FrameHeader {
        let [a, b, c, kind, flags, s0, s1, s2, s3] = *bytes;
        FrameHeader {
            len: u32::from_be_bytes([0, a, b, c]),
            kind: Http2FrameType::from_number(kind),
            flags,
            stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
        }
    }

    /// Encodes the header of a frame.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let ([_, a, b, c], [s0, s1, s2, s3]) = (self.len.to_be_bytes(), self.stream.to_be_bytes());
        [a, b, c, self.kind.number(), self.flags, s0, s1, s2, s3]
    }

    /// True if all of these flags are set.
    pub fn has(self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}

/// Writes a whole frame.
pub fn write(out: &mut Vec<u8>, kind: Http2FrameType, flags: u8, stream: u32, payload: &[u8]) {
    debug_assert!(payload.len() < 1 << 24);
    out.extend_from_slice(&FrameHeader { len: payload.len() as u32, kind, flags, stream }.to_bytes());
    out.extend_from_slice(payload);
}

/// The whole frames that `bytes` begin with, one after the other.
pub fn walk(bytes: &[u8]) -> impl Iterator<Item = (FrameHeader, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (header, after) = rest.split_first_chunk::<HEADER_BYTES>()?;
        let header = FrameHeader::parse(header);
        let (payload, after) = after.split_at_checked(header.len as usize)?;
        rest = after;
        Some((header, payload))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_laid_out_as_it_was_read() {
        let bytes = [0x01, 0x02, 0x03, 0x09, 0x04, 0x00, 0x00, 0x00, 0x05];
        let header = FrameHeader::parse(&bytes);
        assert_eq!(
            header,
            FrameHeader { len: 0x10203, kind: Http2FrameType::Continuation, flags: END_HEADERS, stream: 5 }
        );
        assert_eq!(header.to_bytes(), bytes);
        for number in 0..=255 {
            assert_eq!(Http2FrameType::from_number(number).number(), number);
        }
        // The reserved bit means nothing.
        assert_eq!(FrameHeader::parse(&[0, 0, 0, 0, 0, 0x80, 0, 0, 1]).stream, 1);
    }

    #[test]
    fn frames_one_after_the_other() {
        let mut wire = Vec::new();
        write(&mut wire, Http2FrameType::Ping, ACK, 0, b"12345678");
        write(&mut wire, Http2FrameType::Settings, 0, 0, b"");
        wire.extend_from_slice(b"half a h");
        let frames: Vec<_> = walk(&wire).map(|(header, payload)| (header.kind, payload.len())).collect();
        assert_eq!(frames, [(Http2FrameType::Ping, 8), (Http2FrameType::Settings, 0)]);
    }
}
