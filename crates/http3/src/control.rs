// SPDX-License-Identifier: BSD-2-Clause
//! The streams of a connection that carry no request (RFC 9114 6.2): the peer's control stream, and QPACK's two, which have nothing
//! to say as our table has no room. And what we say on our own control stream.

use crate::abuse::Abuse;
use crate::error::{Code, Error};
use crate::frame::{Header, Kind};
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
pub struct Settings {
    /// Most bytes of a field section that it takes.
    pub max_section_bytes: Option<u64>,
    pub connect_protocol: bool,
}

impl Settings {
    fn read(mut input: &[u8]) -> Result<Self, Error> {
        const CUT: Error = Error::connection(Code::Frame, "SETTINGS cut short");
        let (mut settings, mut seen) = (Settings::default(), Vec::new());
        while !input.is_empty() {
            let (id, at) = varint::read(input).ok_or(CUT)?;
            let (value, len) = varint::read(&input[at..]).ok_or(CUT)?;
            input = &input[at + len..];
            if seen.contains(&id) {
                return Err(Error::connection(Code::Settings, "Setting given twice"));
            }
            if seen.len() == MAX_SETTINGS {
                return Err(Error::connection(Code::ExcessiveLoad, "Too many settings"));
            }
            seen.push(id);
            match id {
                MAX_FIELD_SECTION_SIZE => settings.max_section_bytes = Some(value),
                ENABLE_CONNECT_PROTOCOL if value > 1 => {
                    return Err(Error::connection(Code::Settings, "ENABLE_CONNECT_PROTOCOL is neither 0 nor 1"));
                }
                ENABLE_CONNECT_PROTOCOL => settings.connect_protocol = value == 1,
                // Reserved: HTTP/2 had them, RFC 9114 7.2.4.1.
                0x2..=0x5 => return Err(Error::connection(Code::Settings, "Setting of HTTP/2")),
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
    Header::write(Kind::Settings, settings.len() as u64, out);
    out.extend_from_slice(&settings);
}

/// Requests of this stream and later ones aren't answered.
pub fn go_away(stream: u64, out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    varint::write(stream.min(varint::MAX), &mut payload);
    Header::write(Kind::GoAway, payload.len() as u64, out);
    out.extend_from_slice(&payload);
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Settings(Settings),
    /// The priority of a request (RFC 9218 7.2): the field's value.
    Priority {
        stream: u64,
        value: Box<[u8]>,
    },
    /// The peer takes no more of ours ([`Reader::last_goaway`]): a client pushes, which there are none of, a server
    /// requests.
    GoAway,
    /// The peer would take so many pushes.
    MaxPushId,
    Unknown,
}

impl Event {
    pub fn abuse(&self) -> Option<Abuse> {
        match self {
            Event::Settings(_) => None,
            Event::Priority { .. } => Some(Abuse::Priority),
            Event::GoAway | Event::MaxPushId => Some(Abuse::Control),
            Event::Unknown => Some(Abuse::Ignored),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Reader {
    has_settings: bool,
    skip_left: u64,
    max_push_id: Option<u64>,
    last_goaway: Option<u64>,
}

impl Reader {
    /// The next event, if one is there, and how many bytes of the input are done with; what isn't has to be there again. The input
    /// needs to hold [`MAX_FRAME_BYTES`] and a frame's header at most.
    ///
    /// # Errors
    /// The connection has to end.
    pub fn next(&mut self, input: &[u8]) -> Result<(Option<Event>, usize), Error> {
        let skipped = self.skip_left.min(input.len() as u64);
        self.skip_left -= skipped;
        let at = skipped as usize;
        let Some((header, header_bytes)) = Header::read(&input[at..]) else { return Ok((None, at)) };
        self.check(header)?;
        let begin = at + header_bytes;
        if header.kind == Kind::Other {
            self.skip_left = header.len;
            return Ok((Some(Event::Unknown), begin));
        }
        if header.len > MAX_FRAME_BYTES as u64 {
            return Err(Error::connection(Code::ExcessiveLoad, "Frame of control too long"));
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
    fn check(&self, header: Header) -> Result<(), Error> {
        match header.kind {
            Kind::Settings if self.has_settings => Err(Error::connection(Code::FrameUnexpected, "SETTINGS twice")),
            Kind::Settings => Ok(()),
            _ if !self.has_settings => Err(Error::connection(Code::MissingSettings, "SETTINGS don't come first")),
            Kind::Data | Kind::Headers | Kind::PushPromise | Kind::Forbidden => {
                Err(Error::connection(Code::FrameUnexpected, "Frame of another stream"))
            }
            Kind::CancelPush
            | Kind::GoAway
            | Kind::MaxPushId
            | Kind::PriorityUpdate
            | Kind::PushPriorityUpdate
            | Kind::Other => Ok(()),
        }
    }

    fn take(&mut self, kind: Kind, payload: &[u8]) -> Result<Event, Error> {
        if kind == Kind::Settings {
            self.has_settings = true;
            return Settings::read(payload).map(Event::Settings);
        }
        let Some((id, len)) = varint::read(payload) else {
            return Err(Error::connection(Code::Frame, "Frame of control cut short"));
        };
        if !matches!(kind, Kind::PriorityUpdate | Kind::PushPriorityUpdate) && len != payload.len() {
            return Err(Error::connection(Code::Frame, "Frame of control too long"));
        }
        match kind {
            Kind::GoAway => {
                if self.last_goaway.is_some_and(|last| id > last) {
                    return Err(Error::connection(Code::Id, "GOAWAY takes back another"));
                }
                self.last_goaway = Some(id);
                Ok(Event::GoAway)
            }
            Kind::MaxPushId => {
                if self.max_push_id.is_some_and(|last| id < last) {
                    return Err(Error::connection(Code::Id, "MAX_PUSH_ID becomes smaller"));
                }
                self.max_push_id = Some(id);
                Ok(Event::MaxPushId)
            }
            Kind::PriorityUpdate if id % 4 != 0 => Err(Error::connection(Code::Id, "PRIORITY_UPDATE of no request")),
            Kind::PriorityUpdate => Ok(Event::Priority { stream: id, value: payload[len..].into() }),
            // A push that was never promised.
            Kind::Data
            | Kind::Headers
            | Kind::CancelPush
            | Kind::Settings
            | Kind::PushPromise
            | Kind::PushPriorityUpdate
            | Kind::Forbidden
            | Kind::Other => Err(Error::connection(Code::Id, "Frame of a push that isn't there")),
        }
    }
}

/// Checks what came on QPACK's encoder stream: our table has no room, so only that size may be set. How many instructions there were.
///
/// # Errors
/// The connection has to end.
pub fn check_encoder(input: &[u8]) -> Result<u32, Error> {
    const CAPACITY_0: u8 = 0b0010_0000;
    match input.iter().all(|&byte| byte == CAPACITY_0) {
        true => Ok(input.len() as u32),
        false => Err(Error::connection(Code::EncoderStream, "Instruction for a table without room")),
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
    pub fn check(&mut self, input: &[u8]) -> Result<u32, Error> {
        /// The longest integer, RFC 9204 4.1.1.
        const MAX_BYTES: u8 = 10;
        let mut ended = 0;
        for &byte in input {
            let ends = match self.pending {
                0 if byte >> 6 != 0b01 => {
                    return Err(Error::connection(Code::DecoderStream, "Nothing was sent that could be known"));
                }
                0 => byte & 0x3f != 0x3f,
                MAX_BYTES => return Err(Error::connection(Code::DecoderStream, "Integer too long")),
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

    fn read(input: &[u8], piece: usize) -> Result<Vec<Event>, Error> {
        let (mut reader, mut held, mut events) = (Reader::default(), Vec::new(), Vec::new());
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
        let settings = Settings { max_section_bytes: Some(70_000), connect_protocol: true };
        for piece in [1, 3, 100] {
            assert_eq!(read(&out[1..], piece), Ok(vec![Event::Settings(settings), Event::GoAway]));
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
        let settings = Settings { max_section_bytes: None, connect_protocol: true };
        let priority = Event::Priority { stream: 4, value: (*b"u=1").into() };
        let events = vec![Event::Settings(settings), Event::Unknown, priority, Event::MaxPushId];
        for piece in [1, 7, 9000] {
            assert_eq!(read(&input.concat(), piece), Ok(events.clone()));
        }
        let abuses: Vec<_> = events.iter().map(Event::abuse).collect();
        assert_eq!(abuses, [None, Some(Abuse::Ignored), Some(Abuse::Priority), Some(Abuse::Control)]);
    }

    #[test]
    fn what_ends_the_connection() {
        let check = |frames: &[Vec<u8>], code| {
            assert_eq!(read(&frames.concat(), 9).map_err(|error| error.code), Err(code), "{frames:?}");
        };
        let settings = || frame(4, &[]);
        check(&[frame(7, &[0])], Code::MissingSettings);
        check(&[frame(0x21, &[])], Code::MissingSettings);
        check(&[settings(), settings()], Code::FrameUnexpected);
        for kind in [0, 1, 5, 2, 6, 8, 9] {
            check(&[settings(), frame(kind, &[])], Code::FrameUnexpected);
        }
        check(&[frame(4, &[6, 1, 6, 1])], Code::Settings);
        check(&[frame(4, &[2, 1])], Code::Settings);
        check(&[frame(4, &[8, 2])], Code::Settings);
        check(&[frame(4, &[6])], Code::Frame);
        check(&[settings(), frame(7, &[])], Code::Frame);
        check(&[settings(), frame(7, &[0, 0])], Code::Frame);
        check(&[settings(), frame(7, &[4]), frame(7, &[8])], Code::Id);
        check(&[settings(), frame(0xd, &[4]), frame(0xd, &[3])], Code::Id);
        check(&[settings(), frame(3, &[0])], Code::Id);
        check(&[settings(), frame(0xf0701, &[0])], Code::Id);
        check(&[settings(), frame(0xf0700, &[1])], Code::Id);
        check(&[frame(4, &[0; 1025])], Code::ExcessiveLoad);
        let many: Vec<u8> = (64..64 + 33).flat_map(|id| [0x40, id, 0]).collect();
        check(&[frame(4, &many)], Code::ExcessiveLoad);
    }

    #[test]
    fn qpacks_streams_have_nothing_to_say() {
        assert_eq!(check_encoder(&[0x20, 0x20]), Ok(2));
        assert_eq!(check_encoder(&[0x21]).unwrap_err().code, Code::EncoderStream);
        assert_eq!(check_encoder(&[0xc1]).unwrap_err().code, Code::EncoderStream);
        let check = |input: &[u8]| DecoderStream::default().check(input).map_err(|error| error.code);
        assert_eq!(check(&[0x44, 0x7f, 0x80, 0x01, 0x48]), Ok(3));
        assert_eq!(check(&[0x84]), Err(Code::DecoderStream));
        assert_eq!(check(&[0x01]), Err(Code::DecoderStream));
        assert_eq!(check(&[&[0x7f][..], &[0x80; 10]].concat()), Err(Code::DecoderStream));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(input: Vec<u8>, piece in 1usize..20) {
            proptest::prop_assert_eq!(read(&input, piece), read(&input, 1));
        }
    }
}
