// SPDX-License-Identifier: BSD-2-Clause
//! Frames: a type, a length, and a payload that is somebody else's (RFC 9114 7).

use crate::varint;

/// Types of frames, RFC 9114 7.2 and RFC 9218 7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http3FrameType {
    Data,
    Headers,
    CancelPush,
    Settings,
    PushPromise,
    GoAway,
    MaxPushId,
    PriorityUpdate,
    PushPriorityUpdate,
    /// One that HTTP/2 has and HTTP/3 forbids
    Forbidden,
    /// One that we don't know: it is passed over
    Other,
}

const KINDS: [(u64, Http3FrameType); 13] = [
    (0x0, Http3FrameType::Data),
    (0x1, Http3FrameType::Headers),
    (0x2, Http3FrameType::Forbidden),
    (0x3, Http3FrameType::CancelPush),
    (0x4, Http3FrameType::Settings),
    (0x5, Http3FrameType::PushPromise),
    (0x6, Http3FrameType::Forbidden),
    (0x7, Http3FrameType::GoAway),
    (0x8, Http3FrameType::Forbidden),
    (0x9, Http3FrameType::Forbidden),
    (0xd, Http3FrameType::MaxPushId),
    (0xf0700, Http3FrameType::PriorityUpdate),
    (0xf0701, Http3FrameType::PushPriorityUpdate),
];

impl Http3FrameType {
    fn from_number(number: u64) -> Http3FrameType {
        KINDS.iter().find(|(known, _)| *known == number).map_or(Http3FrameType::Other, |(_, kind)| *kind)
    }

    fn number(self) -> u64 {
        let known = KINDS.iter().find(|(_, kind)| *kind == self && *kind != Http3FrameType::Forbidden);
        known.expect("only known frames are written").0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http3FrameHeader {
    pub kind: Http3FrameType,
    pub len: u64,
}

impl Http3FrameHeader {
    /// The header at the beginning of `input` and its bytes; `None` when it isn't whole.
    pub fn read(input: &[u8]) -> Option<(Http3FrameHeader, usize)> {
        let (number, at) = varint::read(input)?;
        let (len, len_bytes) = varint::read(&input[at..])?;
        Some((Http3FrameHeader { kind: Http3FrameType::from_number(number), len }, at + len_bytes))
    }

    pub fn write(kind: Http3FrameType, len: u64, out: &mut Vec<u8>) {
        varint::write(kind.number(), out);
        varint::write(len, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_written() {
        for kind in [
            Http3FrameType::Data,
            Http3FrameType::Headers,
            Http3FrameType::Settings,
            Http3FrameType::GoAway,
            Http3FrameType::PriorityUpdate,
        ] {
            let mut out = Vec::new();
            Http3FrameHeader::write(kind, 70_000, &mut out);
            assert_eq!(Http3FrameHeader::read(&out), Some((Http3FrameHeader { kind, len: 70_000 }, out.len())));
            assert_eq!(Http3FrameHeader::read(&out[..out.len() - 1]), None);
        }
        assert_eq!(Http3FrameHeader::read(&[0x06, 0]).unwrap().0.kind, Http3FrameType::Forbidden);
        assert_eq!(Http3FrameHeader::read(&[0x21, 0]).unwrap().0.kind, Http3FrameType::Other);
    }
}
