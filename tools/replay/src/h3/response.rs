// SPDX-License-Identifier: BSD-2-Clause
//! The answer on a request's stream as its bytes come in: heads, body, trailers. What QUIC has to say of the stream is somebody else's.

use http3::stream::{FrameReader, StreamStep};
use http3::{Http3Limits, head};

use crate::answer::{ReplayAnswer, signs};
use crate::faults::ReplayFault;
use crate::h2::HeadBuffers;

/// The longest field section, and the longest field.
const SECTION_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub struct ReplayHttp3Response {
    reader: FrameReader,
    answer: ReplayAnswer,
    /// The beginning of a frame, or of a section, that isn't whole.
    held: Vec<u8>,
    length: Option<u64>,
    has_begun: bool,
    has_head: bool,
}

impl ReplayHttp3Response {
    pub fn new() -> ReplayHttp3Response {
        ReplayHttp3Response {
            reader: FrameReader::response(SECTION_BYTES),
            answer: ReplayAnswer::default(),
            held: Vec::new(),
            length: None,
            has_begun: false,
            has_head: false,
        }
    }

    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    pub fn take(&mut self, bytes: &[u8], heads: &mut HeadBuffers) -> Result<(), ReplayFault> {
        self.has_begun |= !bytes.is_empty();
        if self.held.is_empty() {
            let used = self.run(bytes, heads)?;
            self.held.extend_from_slice(&bytes[used..]);
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(bytes);
            let used = self.run(&held, heads)?;
            held.drain(..used);
            self.held = held;
        }
        Ok(())
    }

    /// The stream has ended; `to_head`: the request was a HEAD.
    ///
    /// # Errors
    /// The answer isn't whole.
    pub fn end(&self, to_head: bool) -> Result<ReplayAnswer, ReplayFault> {
        if self.reader.end(self.held.len()).is_err() || !self.has_head {
            return Err(ReplayFault::Truncated);
        }
        let is_bare = to_head || matches!(self.answer.status, 204 | 304);
        match self.length {
            Some(length) if length != self.answer.body_bytes && !is_bare => Err(ReplayFault::BadBody),
            Some(_) | None => Ok(ReplayAnswer { keeps: true, ..self.answer }),
        }
    }

    /// The fault if the server resets the stream, which isn't the connection's end.
    pub fn reset(&mut self) -> ReplayFault {
        // An answer, if no good one: the request isn't sent again.
        self.has_begun = true;
        if self.has_head { ReplayFault::Truncated } else { ReplayFault::Reset }
    }

    fn run(&mut self, input: &[u8], heads: &mut HeadBuffers) -> Result<usize, ReplayFault> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match self.reader.step(rest).map_err(|_| self.broken())? {
                StreamStep::Fields(range) => {
                    self.section(&rest[range.clone()], heads)?;
                    at += range.end;
                }
                StreamStep::Data(range) => {
                    self.answer.body_bytes += range.len() as u64;
                    at += range.end;
                }
                StreamStep::More(done) => return Ok(at + done),
            }
        }
    }

    fn section(&mut self, section: &[u8], heads: &mut HeadBuffers) -> Result<(), ReplayFault> {
        let limits = Http3Limits { section_bytes: SECTION_BYTES, line_bytes: SECTION_BYTES };
        let HeadBuffers { answer: fields, sections: scratch, .. } = heads;
        if self.has_head {
            return head::read_trailers(section, &limits, scratch, fields).map_err(|_| ReplayFault::BadBody);
        }
        let said = head::read_response(section, &limits, scratch, fields).map_err(|_| ReplayFault::BadHead)?;
        if fields.status() < 200 {
            self.reader.was_interim();
            return Ok(());
        }
        self.has_head = true;
        self.length = said.content_length;
        self.answer = ReplayAnswer { status: fields.status(), verdicts: signs(fields).0, ..ReplayAnswer::default() };
        Ok(())
    }

    fn broken(&self) -> ReplayFault {
        if self.has_head { ReplayFault::BadBody } else { ReplayFault::BadHead }
    }
}

#[cfg(test)]
mod tests {
    use http3::frame::{Http3FrameHeader, Http3FrameType};
    use message::Head;

    use super::*;

    fn frame(kind: Http3FrameType, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Http3FrameHeader::write(kind, payload.len() as u64, &mut out);
        [out, payload.to_vec()].concat()
    }

    fn head(status: u16, fields: &[&str]) -> Vec<u8> {
        let (mut head, mut out) = (Head::new(), Vec::new());
        head.start_response(b"HTTP/1.1", status).unwrap();
        fields.iter().for_each(|line| head.append_line(line.as_bytes()).unwrap());
        head::write_response(&head, &mut out);
        out
    }

    fn check(pieces: &[Vec<u8>], to_head: bool, want: &str) {
        let bytes = pieces.concat();
        for step in [1, 3, 7, 1000] {
            let (mut message, mut heads) = (ReplayHttp3Response::new(), HeadBuffers::default());
            let taken = bytes.chunks(step).try_for_each(|piece| message.take(piece, &mut heads));
            let got = match taken.and_then(|()| message.end(to_head)) {
                Ok(answer) => format!("{} {} {:?}", answer.status, answer.body_bytes, answer.verdicts[3]),
                Err(fault) => format!("{fault:?}"),
            };
            assert_eq!(got, want, "in steps of {step}");
        }
    }

    #[test]
    fn answers_are_whole_or_say_what_is_wrong() {
        let data = |bytes: &[u8]| frame(Http3FrameType::Data, bytes);
        let good = || head(200, &["Age: 7", "Content-Length: 5"]);
        check(&[good(), data(b"abc"), data(b"de")], false, "200 5 Some(Hit)");
        check(&[head(103, &["Link: a"]), good(), data(b"abcde")], false, "200 5 Some(Hit)");
        check(&[good(), data(b"abcde"), head(200, &[])], false, "BadBody");
        check(&[good()], true, "200 0 Some(Hit)");
        check(&[head(304, &["Content-Length: 5"])], false, "304 0 None");
        check(&[good()], false, "BadBody");
        check(&[good(), data(b"abcdef")], false, "BadBody");
        check(&[good(), data(b"abcde")[..4].to_vec()], false, "Truncated");
        check(&[good(), frame(Http3FrameType::Settings, b"")], false, "BadBody");
        check(&[data(b"abc")], false, "BadHead");
        check(&[head(103, &[])], false, "Truncated");
        check(&[], false, "Truncated");
    }
}
