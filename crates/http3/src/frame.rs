// SPDX-License-Identifier: BSD-2-Clause
//! Frames: a type, a length, and a payload that is somebody else's (RFC 9114 7).

use crate::varint;

/// Types of frames, RFC 9114 7.2 and RFC 9218 7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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

const KINDS: [(u64, Kind); 13] = [
    (0x0, Kind::Data),
    (0x1, Kind::Headers),
    (0x2, Kind::Forbidden),
    (0x3, Kind::CancelPush),
    (0x4, Kind::Settings),
    (0x5, Kind::PushPromise),
    (0x6, Kind::Forbidden),
    (0x7, Kind::GoAway),
    (0x8, Kind::Forbidden),
    (0x9, Kind::Forbidden),
    (0xd, Kind::MaxPushId),
    (0xf0700, Kind::PriorityUpdate),
    (0xf0701, Kind::PushPriorityUpdate),
];

impl Kind {
    fn from_number(number: u64) -> Kind {
        KINDS.iter().find(|(known, _)| *known == number).map_or(Kind::Other, |(_, kind)| *kind)
    }

    fn number(self) -> u64 {
        let known = KINDS.iter().find(|(_, kind)| *kind == self && *kind != Kind::Forbidden);
        known.expect("only known frames are written").0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub len: u64,
}

impl Header {
    /// The header at the beginning of `input` and its bytes; `None` when it isn't whole.
    pub fn read(input: &[u8]) -> Option<(Header, usize)> {
        let (number, at) = varint::read(input)?;
        let (len, len_bytes) = varint::read(&input[at..])?;
        Some((Header { kind: Kind::from_number(number), len }, at + len_bytes))
    }

    pub fn write(kind: Kind, len: u64, out: &mut Vec<u8>) {
        varint::write(kind.number(), out);
        varint::write(len, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_written() {
        for kind in [Kind::Data, Kind::Headers, Kind::Settings, Kind::GoAway, Kind::PriorityUpdate] {
            let mut out = Vec::new();
            Header::write(kind, 70_000, &mut out);
            assert_eq!(Header::read(&out), Some((Header { kind, len: 70_000 }, out.len())));
            assert_eq!(Header::read(&out[..out.len() - 1]), None);
        }
        assert_eq!(Header::read(&[0x06, 0]).unwrap().0.kind, Kind::Forbidden);
        assert_eq!(Header::read(&[0x21, 0]).unwrap().0.kind, Kind::Other);
    }
}
