// SPDX-License-Identifier: BSD-2-Clause
//! One message on its stream, either way (RFC 9114 4.1): HEADERS, DATA, and HEADERS again for trailers. The reader takes the bytes of
//! the stream and says what they are; pieces of DATA come out as they come in.
//!
//! ```text
//! Head --HEADERS--> Body --HEADERS--> Over
//! ```

use std::ops::Range;

use crate::error::{Http3Error, Http3ErrorCode};
use crate::frame::{Http3FrameHeader, Http3FrameType};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamStep {
    /// A whole field section lies there: of the head, or of trailers once there was one.
    Fields(Range<usize>),
    /// Bytes of the body lie there.
    Data(Range<usize>),
    /// A number of bytes is done with, and more are needed. What is behind them has to be there again.
    More(usize),
}

/// The error of a field section that is longer than a reader takes. Nothing of it was read.
pub const SECTION_TOO_LONG: Http3Error = Http3Error::stream(Http3ErrorCode::ExcessiveLoad, "Field section too long");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameReaderState {
    Head,
    Body,
    Over,
}

#[derive(Clone, Debug)]
pub struct FrameReader {
    state: FrameReaderState,
    data_left: u64,
    skip_left: u64,
    useless: u32,
    section_bytes: usize,
    /// Interim responses may come before the head: a client reads.
    takes_interim: bool,
}

impl FrameReader {
    /// A reader of a request; a field section has at most so many bytes.
    pub fn request(section_bytes: usize) -> Self {
        FrameReader {
            state: FrameReaderState::Head,
            data_left: 0,
            skip_left: 0,
            useless: 0,
            section_bytes,
            takes_interim: false,
        }
    }

    pub fn response(section_bytes: usize) -> Self {
        FrameReader { takes_interim: true, ..FrameReader::request(section_bytes) }
    }

    /// The head that was read last was an interim one: another comes.
    pub fn was_interim(&mut self) {
        debug_assert!(self.takes_interim);
        self.state = FrameReaderState::Head;
    }

    /// The next step. After [`StreamStep::Fields`] and [`StreamStep::Data`] everything up to the range's end is done with.
    ///
    /// # Errors
    /// The stream's framing is broken.
    pub fn step(&mut self, input: &[u8]) -> Result<StreamStep, Http3Error> {
        let mut at = 0;
        loop {
            let rest = input.len() - at;
            if self.skip_left > 0 {
                let skipped = self.skip_left.min(rest as u64);
                self.skip_left -= skipped;
                at += skipped as usize;
                if self.skip_left > 0 {
                    return Ok(StreamStep::More(at));
                }
                continue;
            }
            if self.data_left > 0 {
                if rest == 0 {
                    return Ok(StreamStep::More(at));
                }
                let bytes = self.data_left.min(rest as u64);
                self.data_left -= bytes;
                return Ok(StreamStep::Data(at..at + bytes as usize));
            }
            let Some((header, header_bytes)) = Http3FrameHeader::read(&input[at..]) else {
                return Ok(StreamStep::More(at));
            };
            if header.kind == Http3FrameType::Headers {
                self.check_section(header.len)?;
                let begin = at + header_bytes;
                // It fits: a section has a limit.
                let Some(end) = begin.checked_add(header.len as usize).filter(|end| *end <= input.len()) else {
                    return Ok(StreamStep::More(at));
                };
                self.state =
                    if self.state == FrameReaderState::Head { FrameReaderState::Body } else { FrameReaderState::Over };
                return Ok(StreamStep::Fields(begin..end));
            }
            self.begin(header)?;
            at += header_bytes;
        }
    }

    fn check_section(&self, len: u64) -> Result<(), Http3Error> {
        if self.state == FrameReaderState::Over {
            return Err(Http3Error::connection(Http3ErrorCode::FrameUnexpected, "HEADERS after trailers"));
        }
        if len > self.section_bytes as u64 {
            return Err(SECTION_TOO_LONG);
        }
        Ok(())
    }

    /// A frame begins whose payload comes in pieces.
    fn begin(&mut self, header: Http3FrameHeader) -> Result<(), Http3Error> {
        match (header.kind, self.state) {
            (Http3FrameType::Data, FrameReaderState::Body) => self.data_left = header.len,
            (Http3FrameType::Data, _) => {
                return Err(Http3Error::connection(Http3ErrorCode::FrameUnexpected, "DATA outside of a body"));
            }
            (Http3FrameType::Other, _) => self.skip_left = header.len,
            _ => return Err(Http3Error::connection(Http3ErrorCode::FrameUnexpected, "Frame of another stream")),
        }
        if header.kind == Http3FrameType::Other || header.len == 0 {
            self.useless += 1;
        }
        Ok(())
    }

    /// Number of frames without use since the last call: unknown ones, and DATA of no bytes.
    pub fn take_useless(&mut self) -> u32 {
        std::mem::take(&mut self.useless)
    }

    /// The stream has ended, with so many bytes of input not done with.
    ///
    /// # Errors
    /// It had no right to.
    pub fn end(&self, left: usize) -> Result<(), Http3Error> {
        if left > 0 || self.data_left > 0 || self.skip_left > 0 {
            return Err(Http3Error::connection(Http3ErrorCode::Frame, "Stream ends in a frame"));
        }
        match self.state {
            FrameReaderState::Head => {
                Err(Http3Error::stream(Http3ErrorCode::RequestIncomplete, "Stream ends before its head"))
            }
            FrameReaderState::Body | FrameReaderState::Over => Ok(()),
        }
    }

    pub fn has_head(&self) -> bool {
        self.state != FrameReaderState::Head
    }

    pub fn is_over(&self) -> bool {
        self.state == FrameReaderState::Over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        crate::varint::write(kind, &mut out);
        crate::varint::write(payload.len() as u64, &mut out);
        out.extend_from_slice(payload);
        out
    }

    /// The message that is read from these pieces, and its end.
    fn read(pieces: &[&[u8]]) -> (String, Result<(), Http3Error>) {
        let (mut reader, mut input, mut out) = (FrameReader::request(64), Vec::new(), String::new());
        for piece in pieces {
            input.extend_from_slice(piece);
            loop {
                let done = match reader.step(&input) {
                    Ok(StreamStep::Fields(range)) => {
                        out.push_str(&format!("[{}]", String::from_utf8_lossy(&input[range.clone()])));
                        range.end
                    }
                    Ok(StreamStep::Data(range)) => {
                        out.push_str(&String::from_utf8_lossy(&input[range.clone()]));
                        range.end
                    }
                    Ok(StreamStep::More(done)) => {
                        input.drain(..done);
                        break;
                    }
                    Err(error) => return (out, Err(error)),
                };
                input.drain(..done);
            }
        }
        let end = reader.end(input.len());
        (out, end)
    }

    #[test]
    fn a_message_is_the_same_however_it_is_cut() {
        let message =
            [frame(1, b"head"), frame(0, b"body"), frame(0x21, b"greased"), frame(0, b"more"), frame(1, b"end")]
                .concat();
        for cut in 0..=message.len() {
            let (text, end) = read(&[&message[..cut], &message[cut..]]);
            assert_eq!((text.as_str(), end), ("[head]bodymore[end]", Ok(())), "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = message.chunks(1).collect();
        assert_eq!(read(&bytes).0, "[head]bodymore[end]");
        for cut in 1..message.len() {
            let whole = [6, 12, 21, 27].contains(&cut);
            assert_eq!(read(&[&message[..cut]]).1.is_ok(), whole, "ends at {cut}");
        }
    }

    #[test]
    fn frames_in_the_wrong_place_end_the_connection() {
        let check = |message: &[Vec<u8>], code| {
            assert_eq!(read(&[&message.concat()]).1.map_err(|error| error.code), Err(code), "{message:?}");
        };
        check(&[frame(0, b"body")], Http3ErrorCode::FrameUnexpected);
        check(&[frame(1, b"a"), frame(1, b"b"), frame(0, b"")], Http3ErrorCode::FrameUnexpected);
        check(&[frame(1, b"a"), frame(1, b"b"), frame(1, b"c")], Http3ErrorCode::FrameUnexpected);
        for kind in [2, 3, 4, 5, 6, 7, 8, 9, 0xd, 0xf0700] {
            check(&[frame(1, b"a"), frame(kind, b"")], Http3ErrorCode::FrameUnexpected);
        }
        check(&[frame(1, &[0; 65])], Http3ErrorCode::ExcessiveLoad);
        check(&[], Http3ErrorCode::RequestIncomplete);
        check(&[frame(0x21, b"x")], Http3ErrorCode::RequestIncomplete);
    }

    #[test]
    fn frames_without_use_are_counted() {
        let message = [frame(1, b"a"), frame(0, b""), frame(0x21, b""), frame(0x21, b"abc"), frame(0, b"d")].concat();
        let (mut reader, mut at) = (FrameReader::request(64), 0);
        assert_eq!(reader.step(&message), Ok(StreamStep::Fields(2..3)));
        at += 3;
        assert_eq!(reader.take_useless(), 0);
        let Ok(StreamStep::Data(range)) = reader.step(&message[at..]) else { panic!("there is data") };
        assert_eq!((&message[at..][range], reader.take_useless(), reader.take_useless()), (&b"d"[..], 3, 0));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(message: Vec<u8>, cut in 0usize..200) {
            let cut = cut.min(message.len());
            let (whole, pieces) = (read(&[&message]), read(&[&message[..cut], &message[cut..]]));
            proptest::prop_assert_eq!(whole, pieces);
        }
    }
}
