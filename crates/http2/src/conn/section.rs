// SPDX-License-Identifier: BSD-2-Clause
//! Field sections: a HEADERS frame and its CONTINUATIONs (RFC 9113 4.3, 6.2, 6.10).
//!
//! They are gathered as they are sent, bounded in bytes and frames, and decoded once they are whole: also those that nobody wants, because
//! the table goes on.

use message::Head;

use super::stream::Closed;
use super::{Connection, Ending, Http2Event, Http2Scratch, Role};
use crate::error::{ErrorCode, Http2Abuse, Http2Fault, StreamFault};
use crate::fields::{FieldFault, HeadBuilder, Malformed, SectionFacts, SectionKind, SectionLimits};
use crate::frame::{END_HEADERS, END_STREAM, FrameHeader, PADDED, PRIORITY};
use crate::hpack::{BadSection, HpackDecoder};
use crate::settings::MAX_WINDOW;

/// Factor by which a decoded section may exceed the limit for encoded ones.
const EXPANSION: usize = 2;

const PROTO: &[u8] = b"HTTP/2.0";

/// Bytes in front of a field section and behind it: length of the padding, priority, padding.
const MOST_AROUND: u32 = 1 + 5 + 255;

/// Field sections of the peer: the one that is gathered, and the table of its compression.
#[derive(Debug)]
pub(super) struct Sections {
    open: Option<OpenSection>,
    /// Fragments of it, when it came in several frames.
    block: Vec<u8>,
    decoder: HpackDecoder,
}

impl Sections {
    pub(super) fn new(table_size: u32) -> Sections {
        Sections { open: None, block: Vec::new(), decoder: HpackDecoder::new(table_size) }
    }

    /// The stream whose section has begun and not ended.
    pub(super) fn open_stream(&self) -> Option<u32> {
        self.open.as_ref().map(|open| open.stream)
    }

    /// Checks that a frame doesn't make the section larger than `most` bytes; 0: no limit.
    fn check_bytes(&self, header: FrameHeader, most: u32) -> Result<(), Http2Fault> {
        let bytes = self.block.len() as u64 + u64::from(header.len);
        if most > 0 && bytes > u64::from(most) + u64::from(MOST_AROUND) {
            Err(Http2Abuse::SectionBytes.into())
        } else {
            Ok(())
        }
    }

    /// Counts a CONTINUATION; 0: no limit.
    fn go_on(&mut self, most: u32) -> Result<(), Http2Fault> {
        let Some(open) = &mut self.open else { return Err(Http2Fault::protocol("CONTINUATION of nothing")) };
        open.continuations += 1;
        if most > 0 && open.continuations > most { Err(Http2Abuse::Continuation.into()) } else { Ok(()) }
    }

    /// The peer has taken our settings: it keeps to the table's size.
    pub(super) fn settings_taken(&mut self) {
        self.decoder.settings_taken();
    }

    pub(super) fn forget(&mut self) {
        (self.open, self.block) = (None, Vec::new());
    }

    pub(super) fn rest(&mut self) {
        if self.block.is_empty() {
            self.block = Vec::new();
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.block.capacity() + self.decoder.memory()
    }
}

#[derive(Debug)]
struct OpenSection {
    stream: u32,
    purpose: Purpose,
    end_stream: bool,
    continuations: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Request,
    Response,
    Trailers,
    /// For no stream: the section comes too late, or too early.
    Nobody,
    /// Another stream is one too many.
    Refused,
}

impl Connection {
    pub(super) fn begin_section(&mut self, header: FrameHeader) -> Result<(), Http2Fault> {
        self.sections.check_bytes(header, self.config.limits.section_bytes)?;
        let purpose = match self.role {
            Role::Server if header.stream > self.streams.highest => self.new_request(header.stream),
            Role::Server | Role::Client => self.later_section(header)?,
        };
        let end_stream = header.has(END_STREAM);
        self.sections.open = Some(OpenSection { stream: header.stream, purpose, end_stream, continuations: 0 });
        Ok(())
    }

    pub(super) fn continue_section(&mut self, header: FrameHeader) -> Result<(), Http2Fault> {
        let limits = &self.config.limits;
        self.sections.check_bytes(header, limits.section_bytes)?;
        self.sections.go_on(limits.continuations)
    }

    fn new_request(&mut self, stream: u32) -> Purpose {
        self.streams.highest = stream;
        self.conduct.pay_back_for_stream();
        if matches!(self.ending, Ending::Final(_)) {
            self.streams.remember(stream, Closed::ByUs);
            return Purpose::Nobody;
        }
        if self.streams.len() as u64 >= u64::from(self.config.settings.max_concurrent_streams) {
            return Purpose::Refused;
        }
        self.streams.last_taken = stream;
        Purpose::Request
    }

    /// The purpose of a section on a stream that has begun.
    fn later_section(&mut self, header: FrameHeader) -> Result<Purpose, Http2Fault> {
        let closed = self.streams.past(header.stream);
        match self.streams.get(header.stream).filter(|_| closed.is_none()) {
            Some(stream) if !stream.receives() => {
                Err(Http2Fault::new(ErrorCode::StreamClosed, "A head behind the end of a stream"))
            }
            Some(stream) if self.role == Role::Client && !stream.has_received_head() => Ok(Purpose::Response),
            Some(_) if header.has(END_STREAM) => Ok(Purpose::Trailers),
            Some(_) => Err(Http2Fault::protocol("Fields behind a head that don't end the stream")),
            _ if self.role == Role::Client || closed == Some(Closed::ByUs) => {
                self.count(|m| &mut m.ignored, |l| l.ignored, Http2Abuse::Ignored)?;
                Ok(Purpose::Nobody)
            }
            _ if closed.is_some() => Err(Http2Fault::new(ErrorCode::StreamClosed, "A head on a stream that is closed")),
            _ => Err(Http2Fault::protocol("A stream with a lower number than the one before")),
        }
    }

    pub(super) fn headers(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        head: &mut Head,
        scratch: &mut Http2Scratch,
    ) -> Result<Http2Event, Http2Fault> {
        let (padding, rest) = match payload {
            rest if !header.has(PADDED) => (0, rest),
            [padding, rest @ ..] => (usize::from(*padding), rest),
            [] => return Err(TOO_MUCH_PADDING),
        };
        let (priority, rest) = if header.has(PRIORITY) {
            rest.split_at_checked(5).ok_or(Http2Fault::protocol("HEADERS too short for its priority"))?
        } else {
            (&[][..], rest)
        };
        let fragment = rest.len().checked_sub(padding).map(|len| &rest[..len]).ok_or(TOO_MUCH_PADDING)?;
        let depends_on = priority.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) & MAX_WINDOW);
        let event = self.fragment(header, fragment, head, scratch)?;
        if let Http2Event::Head { stream, .. } | Http2Event::HeadTooLarge { stream, .. } = event
            && depends_on == Some(stream)
        {
            return self.break_new(stream);
        }
        if depends_on == Some(header.stream) && !header.has(END_HEADERS) {
            return Err(Http2Fault::protocol("A stream that depends on itself"));
        }
        Ok(event)
    }

    fn break_new(&mut self, stream: u32) -> Result<Http2Event, Http2Fault> {
        let text = "A stream that depends on itself";
        let broken = self.break_stream(stream, StreamFault { code: ErrorCode::ProtocolError, text })?;
        self.streams.release(stream);
        Ok(broken)
    }

    pub(super) fn fragment(
        &mut self,
        header: FrameHeader,
        fragment: &[u8],
        head: &mut Head,
        scratch: &mut Http2Scratch,
    ) -> Result<Http2Event, Http2Fault> {
        if !header.has(END_HEADERS) {
            self.sections.block.extend_from_slice(fragment);
            return Ok(Http2Event::None);
        }
        let Some(section) = self.sections.open.take() else { return Ok(Http2Event::None) };
        if self.sections.block.is_empty() {
            return self.whole_section(section, fragment, head, scratch);
        }
        self.sections.block.extend_from_slice(fragment);
        let block = std::mem::take(&mut self.sections.block);
        self.whole_section(section, &block, head, scratch)
    }

    fn whole_section(
        &mut self,
        open: OpenSection,
        block: &[u8],
        head: &mut Head,
        scratch: &mut Http2Scratch,
    ) -> Result<Http2Event, Http2Fault> {
        let extended = self.config.settings.enable_connect_protocol;
        let limits = &self.config.limits;
        let no_limit = |bytes: usize| if bytes == 0 { usize::MAX } else { bytes };
        let most_bytes = no_limit(limits.section_bytes as usize * EXPANSION).min(no_limit(limits.list_bytes as usize));
        let kind = match open.purpose {
            Purpose::Request => SectionKind::Request { extended },
            Purpose::Response => SectionKind::Response,
            Purpose::Trailers => SectionKind::Trailers,
            Purpose::Nobody | Purpose::Refused => {
                let decoder = &mut self.sections.decoder;
                decoder.decode(block, most_bytes, &mut scratch.strings, &mut |_, _, _| {}).map_err(lost_state)?;
                return if open.purpose == Purpose::Refused { self.refuse(open.stream) } else { Ok(Http2Event::None) };
            }
        };
        let most = SectionLimits {
            list_bytes: u64::from(self.config.settings.max_header_list_size),
            line_bytes: no_limit(limits.line_bytes as usize),
        };
        let mut builder = HeadBuilder::new(head, kind, PROTO, most);
        if self.config.late_pseudo {
            builder.take_late_pseudo();
        }
        let take = &mut |name: &[u8], value: &[u8], is_checked| builder.take(name, value, is_checked);
        self.sections.decoder.decode(block, most_bytes, &mut scratch.strings, take).map_err(lost_state)?;
        let built = builder.finish();
        match open.purpose {
            Purpose::Request => self.request(&open, built),
            Purpose::Response => self.response(&open, built, head),
            Purpose::Trailers | Purpose::Nobody | Purpose::Refused => self.trailers(&open, built),
        }
    }

    fn refuse(&mut self, stream: u32) -> Result<Http2Event, Http2Fault> {
        self.count(|m| &mut m.refused, |l| l.refused, Http2Abuse::Refused)?;
        self.answer(|output| output.write_reset(stream, ErrorCode::RefusedStream))?;
        self.streams.remember(stream, Closed::ByUs);
        Ok(Http2Event::Refused { stream })
    }

    fn request(
        &mut self,
        open: &OpenSection,
        built: Result<SectionFacts, Malformed>,
    ) -> Result<Http2Event, Http2Fault> {
        let built = built.and_then(|section| match section.content_length {
            Some(1..) if open.end_stream => Err(Malformed::new(FieldFault::LengthWithoutBody, b"", b"")),
            _ => Ok(section),
        });
        let (section, too_large) = match built {
            Ok(section) => (section, None),
            Err(malformed) => {
                self.count(|m| &mut m.made_resets, |l| l.made_resets, Http2Abuse::MadeReset)?;
                if malformed.status().is_none() {
                    self.answer(|output| output.write_reset(open.stream, malformed.code()))?;
                    self.streams.remember(open.stream, Closed::ByUs);
                    return Ok(Http2Event::BadHead { stream: open.stream, malformed });
                }
                (SectionFacts::default(), Some(malformed))
            }
        };
        let mut stream = self.new_stream(open.stream);
        stream.received_head();
        stream.length_left = section.content_length;
        if open.end_stream {
            stream.received_all();
        }
        self.streams.begin_with(&mut stream, section.priority);
        self.streams.push(stream);
        Ok(match too_large {
            None => Http2Event::Head { stream: open.stream, end: open.end_stream, section },
            Some(malformed) => Http2Event::HeadTooLarge { stream: open.stream, end: open.end_stream, malformed },
        })
    }

    fn response(
        &mut self,
        open: &OpenSection,
        built: Result<SectionFacts, Malformed>,
        head: &Head,
    ) -> Result<Http2Event, Http2Fault> {
        let is_interim = head.status() < 200;
        let Some(stream) = self.streams.get_mut(open.stream) else { return Ok(Http2Event::None) };
        let fault = match &built {
            Err(malformed) => Some((malformed.code(), response_fault(malformed))),
            Ok(_) if is_interim && open.end_stream => {
                Some((ErrorCode::ProtocolError, "An interim response that ends its stream"))
            }
            Ok(_) => None,
        };
        let (Ok(section), None) = (built, fault) else {
            let (code, text) = fault.unwrap_or((ErrorCode::ProtocolError, "A malformed response"));
            return self.break_stream(open.stream, StreamFault { code, text });
        };
        if !is_interim {
            stream.received_head();
            let has_body = !stream.is_head_request && !matches!(head.status(), 204 | 304);
            let is_tunnel = stream.is_tunnel && head.status() < 300;
            stream.length_left = section.content_length.filter(|_| has_body && !is_tunnel);
            if open.end_stream && stream.length_left.is_some_and(|left| left > 0) {
                let text = "Content-Length without a body";
                return self.break_stream(open.stream, StreamFault { code: ErrorCode::ProtocolError, text });
            }
            if open.end_stream {
                stream.received_all();
                self.streams.forget(open.stream);
            }
        }
        Ok(Http2Event::Head { stream: open.stream, end: open.end_stream, section })
    }

    fn trailers(
        &mut self,
        open: &OpenSection,
        built: Result<SectionFacts, Malformed>,
    ) -> Result<Http2Event, Http2Fault> {
        let Some(stream) = self.streams.get_mut(open.stream) else { return Ok(Http2Event::None) };
        let fault = match built {
            Err(malformed) => Some((malformed.code(), "Malformed trailers")),
            Ok(_) if stream.length_left.is_some_and(|left| left > 0) => {
                Some((ErrorCode::ProtocolError, "Received data and Content-Length mismatch"))
            }
            Ok(_) => None,
        };
        if let Some((code, text)) = fault {
            return self.break_stream(open.stream, StreamFault { code, text });
        }
        stream.received_all();
        self.streams.forget(open.stream);
        Ok(Http2Event::Trailers { stream: open.stream })
    }
}

const TOO_MUCH_PADDING: Http2Fault = Http2Fault::protocol("Padding larger than its frame");

fn response_fault(malformed: &Malformed) -> &'static str {
    if malformed.fault == FieldFault::TooLong {
        "A header is longer than http_resp_hdr_len"
    } else if malformed.status().is_some() {
        "Headers are larger than http_resp_size, or more than http_max_hdr"
    } else {
        "A malformed response"
    }
}

fn lost_state(bad: BadSection) -> Http2Fault {
    match bad {
        BadSection::Broken(text) => Http2Fault::new(ErrorCode::CompressionError, text),
        BadSection::TooLarge => Http2Abuse::SectionBytes.into(),
    }
}
