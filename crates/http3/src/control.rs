// SPDX-License-Identifier: BSD-2-Clause
//! The streams of a connection that carry no request (RFC 9114 6.2): the peer's control stream, and QPACK's two, which have nothing
//! to say as our table has no room. And what we say on our own control stream.

use crate::abuse::Http3Abuse;
use crate::error::{Http3Error, Http3ErrorCode};
use crate::frame::{Http3FrameHeader, Http3FrameType};
use crate::varint;

/// The longest frame of a control stream that is read: what is longer has nothing for us.
pub const MAX_FRAME_BYTES: usize = 1024;
/// Settings that a peer may have: all there are, and some grease.
const MAX_SETTINGS: usize = 32;

/// Types of streams in one direction, RFC 9114 6.2 and RFC 9204 4.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    Control,
    /// The stream of a push, which only a server has.
    Push,
    Encoder,
    Decoder,
    Other,
}

impl StreamKind {
    pub fn from_number(number: u64) -> Self {
        match number {
            0 => StreamKind::Control,
            1 => StreamKind::Push,
            2 => StreamKind::Encoder,
            3 => StreamKind::Decoder,
            _ => StreamKind::Other,
        }
    }
}

const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;

/// The peer's settings, as far as they matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Http3Settings {
    /// Most bytes of a field section that it takes.
    pub max_section_bytes: Option<u64>,
    pub connect_protocol: bool,
}

impl Http3Settings {
    fn read(mut input: &[u8]) -> Result<Self, Http3Error> {
        const CUT: Http3Error = Http3Error::connection(Http3ErrorCode::Frame, "SETTINGS cut short");
        let (mut settings, mut seen) = (Http3Settings::default(), Vec::new());
        while !input.is_empty() {
            let (id, at) = varint::read(input).ok_or(CUT)?;
            let (value, len) = varint::read(&input[at..]).ok_or(CUT)?;
            input = &input[at + len..];
            if seen.contains(&id) {
                return Err(Http3Error::connection(Http3ErrorCode::Settings, "Setting given twice"));
            }
            if seen.len() == MAX_SETTINGS {
                return Err(Http3Error::connection(Http3ErrorCode::ExcessiveLoad, "Too many settings"));
            }
            seen.push(id);
            match id {
                MAX_FIELD_SECTION_SIZE => settings.max_section_bytes = Some(value),
                ENABLE_CONNECT_PROTOCOL if value > 1 => {
                    return Err(Http3Error::connection(
                        Http3ErrorCode::Settings,
                        "ENABLE_CONNECT_PROTOCOL is neither 0 nor 1",
                    ));
                }
                ENABLE_CONNECT_PROTOCOL => settings.connect_protocol = value == 1,
                // Reserved: HTTP/2 had them, RFC 9114 7.2.4.1.
                0x2..=0x5 => return Err(Http3Error::connection(Http3ErrorCode::Settings, "Setting of HTTP/2")),
                _ => {}
            }
        }
        Ok(settings)
    }
}

/// Writes the beginning of our control stream: its type and our settings.
pub fn begin(max_section_bytes: u64, out: &mut Vec<u8>) {
    let mut settings = Vec::new();
    varint::write(MAX_FIELD_SECTION_SIZE, &mut settings);
    varint::write(max_section_bytes.min(varint::MAX), &mut settings);
    varint::write(ENABLE_CONNECT_PROTOCOL, &mut settings);
    varint::write(1, &mut settings);
    varint::write(0, out);
    Http3FrameHeader::write(Http3FrameType::Settings, settings.len() as u64, out);
    out.extend_from_slice(&settings);
}

/// Requests of this stream and later ones aren't answered.
pub fn go_away(stream: u64, out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    varint::write(stream.min(varint::MAX), &mut payload);
    Http3FrameHeader::write(Http3FrameType::GoAway, payload.len() as u64, out);
    out.extend_from_slice(&payload);
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlEvent {
    Settings(Http3Settings),
    /// The priority of a request (RFC 9218 7.2): the field's value.
    Priority {
        stream: u64,
        value: Box<[u8]>,
    },
    /// The peer takes no more of ours ([`ControlReader::last_goaway`]): a client pushes, which there are none of, a server
    /// requests.
    GoAway,
    /// The peer would take so many pushes.
    MaxPushId,
    Unknown,
}

impl ControlEvent {
    pub fn abuse(&self) -> Option<Http3Abuse> {
        match self {
            ControlEvent::Settings(_) => None,
            ControlEvent::Priority { .. } => Some(Http3Abuse::Priority),
            ControlEvent::GoAway | ControlEvent::MaxPushId => Some(Http3Abuse::Control),
            ControlEvent::Unknown => Some(Http3Abuse::Ignored),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct ControlReader {
    has_settings: bool,
    skip_left: u64,
    max_push_id: Option<u64>,
    last_goaway: Option<u64>,
}

impl ControlReader {
    /// The next event, if one is there, and how many bytes of the input are done with; what isn't has to be there again. The input
    /// needs to hold [`MAX_FRAME_BYTES`] and a frame's header at most.
    ///
    /// # Errors
    /// The connection has to end.
    pub fn next(&mut self, input: &[u8]) -> Result<(Option<ControlEvent>, usize), Http3Error> {
        let skipped = self.skip_left.min(input.len() as u64);
        self.skip_left -= skipped;
        let at = skipped as usize;
        let Some((header, header_bytes)) = Http3FrameHeader::read(&input[at..]) else { return Ok((None, at)) };
        self.check(header)?;
        let begin = at + header_bytes;
        if header.kind == Http3FrameType::Other {
            self.skip_left = header.len;
            return Ok((Some(ControlEvent::Unknown), begin));
        }
        if header.len > MAX_FRAME_BYTES as u64 {
            return Err(Http3Error::connection(Http3ErrorCode::ExcessiveLoad, "Frame of control too long"));
        }
        let end = begin + header.len as usize;
        let Some(payload) = input.get(begin..end) else { return Ok((None, at)) };
        self.take(header.kind, payload).map(|event| (Some(event), end))
    }

    /// The first that the peer doesn't take, once it has said so: a push, or a request's stream.
    pub fn last_goaway(&self) -> Option<u64> {
        self.last_goaway
    }

    /// Checks that such a frame may come now.
    fn check(&self, header: Http3FrameHeader) -> Result<(), Http3Error> {
        match header.kind {
            Http3FrameType::Settings if self.has_settings => {
                Err(Http3Error::connection(Http3ErrorCode::FrameUnexpected, "SETTINGS twice"))
            }
            Http3FrameType::Settings => Ok(()),
            _ if !self.has_settings => {
                Err(Http3Error::connection(Http3ErrorCode::MissingSettings, "SETTINGS don't come first"))
            }
            Http3FrameType::Data
            | Http3FrameType::Headers
            | Http3FrameType::PushPromise
            | Http3FrameType::Forbidden => {
                Err(Http3Error::connection(Http3ErrorCode::FrameUnexpected, "Frame of another stream"))
            }
            Http3FrameType::CancelPush
            | Http3FrameType::GoAway
            | Http3FrameType::MaxPushId
            | Http3FrameType::PriorityUpdate
            | Http3FrameType::PushPriorityUpdate
            | Http3FrameType::Other => Ok(()),
        }
    }

    fn take(&mut self, kind: Http3FrameType, payload: &[u8]) -> Result<ControlEvent, Http3Error> {
        if kind == Http3FrameType::Settings {
            self.has_settings = true;
            return Http3Settings::read(payload).map(ControlEvent::Settings);
        }
        let Some((id, len)) = varint::read(payload) else {
            return Err(Http3Error::connection(Http3ErrorCode::Frame, "Frame of control cut short"));
        };
        if !matches!(kind, Http3FrameType::PriorityUpdate | Http3FrameType::PushPriorityUpdate) && len != payload.len()
        {
            return Err(Http3Error::connection(Http3ErrorCode::Frame, "Frame of control too long"));
        }
        match kind {
            Http3FrameType::GoAway => {
                if self.last_goaway.is_some_and(|last| id > last) {
                    return Err(Http3Error::connection(Http3ErrorCode::Id, "GOAWAY takes back another"));
                }
                self.last_goaway = Some(id);
                Ok(ControlEvent::GoAway)
            }
            Http3FrameType::MaxPushId => {
                if self.max_push_id.is_some_and(|last| id < last) {
                    return Err(Http3Error::connection(Http3ErrorCode::Id, "MAX_PUSH_ID becomes smaller"));
                }
                self.max_push_id = Some(id);
                Ok(ControlEvent::MaxPushId)
            }
            Http3FrameType::PriorityUpdate if id % 4 != 0 => {
                Err(Http3Error::connection(Http3ErrorCode::Id, "PRIORITY_UPDATE of no request"))
            }
            Http3FrameType::PriorityUpdate => Ok(ControlEvent::Priority { stream: id, value: payload[len..].into() }),
            // A push that was never promised.
            Http3FrameType::Data
            | Http3FrameType::Headers
            | Http3FrameType::CancelPush
            | Http3FrameType::Settings
            | Http3FrameType::PushPromise
            | Http3FrameType::PushPriorityUpdate
            | Http3FrameType::Forbidden
            | Http3FrameType::Other => {
                Err(Http3Error::connection(Http3ErrorCode::Id, "Frame of a push that isn't there"))
            }
        }
    }
}

/// Checks what came on QPACK's encoder stream: our table has no room, so only that size may be set. How many instructions there were.
///
/// # Errors
/// The connection has to end.
pub fn check_encoder(input: &[u8]) -> Result<u32, Http3Error> {
    const CAPACITY_0: u8 = 0b0010_0000;
    match input.iter().all(|&byte| byte == CAPACITY_0) {
        true => Ok(input.len() as u32),
        false => Err(Http3Error::connection(Http3ErrorCode::EncoderStream, "Instruction for a table without room")),
    }
}

/// Reads what comes on QPACK's decoder stream: as we fill no table, only that streams were given up.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecoderStream {
    /// Bytes of an instruction that isn't whole.
    pending: u8,
}

impl DecoderStream {
    /// Checks input, and counts the instructions that ended.
    ///
    /// # Errors
    /// The connection has to end.
    pub fn check(&mut self, input: &[u8]) -> Result<u32, Http3Error> {
        /// The longest integer, RFC 9204 4.1.1.
        const MAX_BYTES: u8 = 10;
        let mut ended = 0;
        for &byte in input {
            let ends = match self.pending {
                0 if byte >> 6 != 0b01 => {
                    return Err(Http3Error::connection(
                        Http3ErrorCode::DecoderStream,
                        "Nothing was sent that could be known",
                    ));
                }
                0 => byte & 0x3f != 0x3f,
                MAX_BYTES => return Err(Http3Error::connection(Http3ErrorCode::DecoderStream, "Integer too long")),
                _ => byte & 0x80 == 0,
            };
            self.pending = if ends { 0 } else { self.pending + 1 };
            ended += u32::from(ends);
        }
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        varint::write(kind, &mut out);
        varint::write(payload.len() as u64, &mut out);
        out.extend_from_slice(payload);
        out
    }

    fn read(input: &[u8], piece: usize) -> Result<Vec<ControlEvent>, Http3Error> {
        let (mut reader, mut held, mut events) = (ControlReader::default(), Vec::new(), Vec::new());
        for bytes in input.chunks(piece) {
            held.extend_from_slice(bytes);
            loop {
                let (event, done) = reader.next(&held)?;
                held.drain(..done);
                match event {
                    Some(event) => events.push(event),
                    None => break,
                }
            }
        }
        Ok(events)
    }

    #[test]
    fn our_own_beginning_is_read() {
        let mut out = Vec::new();
        begin(70_000, &mut out);
        assert_eq!(StreamKind::from_number(out[0].into()), StreamKind::Control);
        go_away(8, &mut out);
        let settings = Http3Settings { max_section_bytes: Some(70_000), connect_protocol: true };
        for piece in [1, 3, 100] {
            assert_eq!(read(&out[1..], piece), Ok(vec![ControlEvent::Settings(settings), ControlEvent::GoAway]));
        }
    }

    #[test]
    fn priorities_and_unknown_frames() {
        let input = [
            frame(4, &[0x21, 0x05, 0x08, 0x01]),
            frame(0x21, &[7; 5000]),
            frame(0xf0700, b"\x04u=1"),
            frame(0xd, &[3]),
        ];
        let settings = Http3Settings { max_section_bytes: None, connect_protocol: true };
        let priority = ControlEvent::Priority { stream: 4, value: (*b"u=1").into() };
        let events = vec![ControlEvent::Settings(settings), ControlEvent::Unknown, priority, ControlEvent::MaxPushId];
        for piece in [1, 7, 9000] {
            assert_eq!(read(&input.concat(), piece), Ok(events.clone()));
        }
        let abuses: Vec<_> = events.iter().map(ControlEvent::abuse).collect();
        assert_eq!(abuses, [None, Some(Http3Abuse::Ignored), Some(Http3Abuse::Priority), Some(Http3Abuse::Control)]);
    }

    #[test]
    fn what_ends_the_connection() {
        let check = |frames: &[Vec<u8>], code| {
            assert_eq!(read(&frames.concat(), 9).map_err(|error| error.code), Err(code), "{frames:?}");
        };
        let settings = || frame(4, &[]);
        check(&[frame(7, &[0])], Http3ErrorCode::MissingSettings);
        check(&[frame(0x21, &[])], Http3ErrorCode::MissingSettings);
        check(&[settings(), settings()], Http3ErrorCode::FrameUnexpected);
        for kind in [0, 1, 5, 2, 6, 8, 9] {
            check(&[settings(), frame(kind, &[])], Http3ErrorCode::FrameUnexpected);
        }
        check(&[frame(4, &[6, 1, 6, 1])], Http3ErrorCode::Settings);
        check(&[frame(4, &[2, 1])], Http3ErrorCode::Settings);
        check(&[frame(4, &[8, 2])], Http3ErrorCode::Settings);
        check(&[frame(4, &[6])], Http3ErrorCode::Frame);
        check(&[settings(), frame(7, &[])], Http3ErrorCode::Frame);
        check(&[settings(), frame(7, &[0, 0])], Http3ErrorCode::Frame);
        check(&[settings(), frame(7, &[4]), frame(7, &[8])], Http3ErrorCode::Id);
        check(&[settings(), frame(0xd, &[4]), frame(0xd, &[3])], Http3ErrorCode::Id);
        check(&[settings(), frame(3, &[0])], Http3ErrorCode::Id);
        check(&[settings(), frame(0xf0701, &[0])], Http3ErrorCode::Id);
        check(&[settings(), frame(0xf0700, &[1])], Http3ErrorCode::Id);
        check(&[frame(4, &[0; 1025])], Http3ErrorCode::ExcessiveLoad);
        let many: Vec<u8> = (64..64 + 33).flat_map(|id| [0x40, id, 0]).collect();
        check(&[frame(4, &many)], Http3ErrorCode::ExcessiveLoad);
    }

    #[test]
    fn qpacks_streams_have_nothing_to_say() {
        assert_eq!(check_encoder(&[0x20, 0x20]), Ok(2));
        assert_eq!(check_encoder(&[0x21]).unwrap_err().code, Http3ErrorCode::EncoderStream);
        assert_eq!(check_encoder(&[0xc1]).unwrap_err().code, Http3ErrorCode::EncoderStream);
        let check = |input: &[u8]| DecoderStream::default().check(input).map_err(|error| error.code);
        assert_eq!(check(&[0x44, 0x7f, 0x80, 0x01, 0x48]), Ok(3));
        assert_eq!(check(&[0x84]), Err(Http3ErrorCode::DecoderStream));
        assert_eq!(check(&[0x01]), Err(Http3ErrorCode::DecoderStream));
        assert_eq!(check(&[&[0x7f][..], &[0x80; 10]].concat()), Err(Http3ErrorCode::DecoderStream));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(input: Vec<u8>, piece in 1usize..20) {
            proptest::prop_assert_eq!(read(&input, piece), read(&input, 1));
        }
    }
}
