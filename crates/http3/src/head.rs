// SPDX-License-Identifier: BSD-2-Clause
//! Heads between a stream and a [`Head`] (RFC 9114 4.2, 4.3): the rules are those of HTTP/2, and are its codec's.

use http2::fields::{self, HeadBuilder, SectionFacts, SectionKind, SectionLimits};
use message::Head;

use crate::Http3Limits;
use crate::error::{Http3Error, Http3ErrorCode};
use crate::frame;
use crate::qpack::{self, QpackEncoder, QpackScratch};
use crate::stream::SECTION_TOO_LONG;

pub const PROTO: &[u8] = b"HTTP/3.0";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadHead {
    /// The section can't be unpacked.
    Broken(Http3Error),
    Malformed(fields::Malformed),
}

impl BadHead {
    pub fn error(&self) -> Http3Error {
        match self {
            BadHead::Broken(error) => *error,
            BadHead::Malformed(malformed) if malformed.status().is_some() => SECTION_TOO_LONG,
            BadHead::Malformed(_) => Http3Error::stream(Http3ErrorCode::Message, "Malformed message"),
        }
    }
}

/// Reads the section of a request into `head`.
///
/// # Errors
/// The ones of [`BadHead`].
pub fn read_request(
    section: &[u8],
    limits: &Http3Limits,
    scratch: &mut QpackScratch,
    head: &mut Head,
) -> Result<SectionFacts, BadHead> {
    read(section, limits, scratch, head, SectionKind::Request { extended: true })
}

/// Reads the section of a response into `head`.
///
/// # Errors
/// The ones of [`BadHead`].
pub fn read_response(
    section: &[u8],
    limits: &Http3Limits,
    scratch: &mut QpackScratch,
    head: &mut Head,
) -> Result<SectionFacts, BadHead> {
    read(section, limits, scratch, head, SectionKind::Response)
}

/// Reads trailers into `head`.
///
/// # Errors
/// See [`BadHead`].
pub fn read_trailers(
    section: &[u8],
    limits: &Http3Limits,
    scratch: &mut QpackScratch,
    head: &mut Head,
) -> Result<(), BadHead> {
    read(section, limits, scratch, head, SectionKind::Trailers).map(|_| ())
}

fn read(
    section: &[u8],
    limits: &Http3Limits,
    scratch: &mut QpackScratch,
    head: &mut Head,
    kind: SectionKind,
) -> Result<SectionFacts, BadHead> {
    let most = SectionLimits { list_bytes: limits.section_bytes as u64, line_bytes: limits.line_bytes };
    let mut builder = HeadBuilder::new(head, kind, PROTO, most);
    // The builder counts: it knows which field is one too many.
    let decoded = qpack::decode(section, usize::MAX, scratch, |name, value| {
        builder.field(name, value);
        if builder.is_too_large() { Err(SECTION_TOO_LONG) } else { Ok(()) }
    });
    match decoded {
        Err(error) if !builder.is_too_large() => Err(BadHead::Broken(error)),
        _ => builder.finish().map_err(BadHead::Malformed),
    }
}

/// Appends a response's HEADERS; how many bytes they are.
pub fn write_response(head: &Head, out: &mut Vec<u8>) -> usize {
    write(out, |encoder| fields::response_fields(head, &mut |name, value| encoder.field(name, value)))
}

/// Appends a request's HEADERS; how many bytes they are.
pub fn write_request(head: &Head, scheme: &str, out: &mut Vec<u8>) -> usize {
    write(out, |encoder| fields::request_fields(head, scheme, &mut |name, value| encoder.field(name, value)))
}

/// Appends trailers as HEADERS; how many bytes they are.
pub fn write_trailers(trailers: &Head, out: &mut Vec<u8>) -> usize {
    write(out, |encoder| fields::trailer_fields(trailers, &mut |name, value| encoder.field(name, value)))
}

/// Appends a status alone as HEADERS; how many bytes they are.
pub fn write_status(status: u16, out: &mut Vec<u8>) -> usize {
    let text = status.to_string();
    write(out, |encoder| encoder.field(b":status", text.as_bytes()))
}

/// The frame's header has the length of what follows: a section that takes more than two bytes for it is moved.
fn write(out: &mut Vec<u8>, fill: impl FnOnce(&mut QpackEncoder<'_>)) -> usize {
    /// Type, and a length of two bytes.
    const ROOM: usize = 3;
    let at = out.len();
    out.extend_from_slice(&[0; ROOM]);
    fill(&mut QpackEncoder::begin(out));
    let len = out.len() - at - ROOM;
    let mut header = Vec::new();
    match u16::try_from(len) {
        // In two bytes even where one would do.
        Ok(short) if short < 0x4000 => header.extend_from_slice(&[1, 0x40 | (short >> 8) as u8, short as u8]),
        _ => frame::Http3FrameHeader::write(frame::Http3FrameType::Headers, len as u64, &mut header),
    }
    out.splice(at..at + ROOM, header);
    out.len() - at
}
