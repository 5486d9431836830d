// SPDX-License-Identifier: BSD-2-Clause
//! Control frames and heads that wait to be written, in order. DATA isn't among them: its owner puts nine bytes in front of its own.

use crate::error::{ErrorCode, Http2Abuse, Http2Fault};
use crate::frame::{self, END_HEADERS, END_STREAM, FrameHeader, HEADER_BYTES, Http2FrameType};
use crate::hpack::HpackEncoder;

/// Most output that waits, heads included: an owner stops reading from a peer that reads nothing long before.
const MOST_OUTPUT: usize = 1 << 20;
/// The output's memory is kept up to this.
const KEPT_OUTPUT: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    at: usize,
    /// Bytes of answers to control frames.
    answers: u32,
    encoder: HpackEncoder,
}

impl Output {
    pub(super) fn of(bytes: Vec<u8>) -> Output {
        Output { bytes, ..Output::default() }
    }

    pub(super) fn waiting(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    pub(super) fn wrote(&mut self, len: usize) {
        self.at += len;
        if self.at >= self.bytes.len() {
            (self.at, self.answers) = (0, 0);
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_OUTPUT);
        }
    }

    /// More waits than a peer that reads leaves.
    pub(super) fn is_overfull(&self) -> bool {
        self.waiting().len() > MOST_OUTPUT
    }

    pub(super) fn rest(&mut self) -> Vec<u8> {
        if !self.waiting().is_empty() {
            return Vec::new();
        }
        self.at = 0;
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        bytes
    }

    pub(super) fn resume(&mut self, bytes: Vec<u8>) {
        if self.bytes.capacity() == 0 {
            self.bytes = bytes;
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn write(&mut self, kind: Http2FrameType, flags: u8, stream: u32, payload: &[u8]) {
        frame::write(&mut self.bytes, kind, flags, stream, payload);
    }

    pub(super) fn write_reset(&mut self, stream: u32, code: ErrorCode) {
        self.write(Http2FrameType::RstStream, 0, stream, &code.number().to_be_bytes());
    }

    pub(super) fn write_credit(&mut self, stream: u32, credit: u32) {
        self.write(Http2FrameType::WindowUpdate, 0, stream, &credit.to_be_bytes());
    }

    pub(super) fn write_go_away(&mut self, last: u32, code: ErrorCode) {
        let payload = [last.to_be_bytes(), code.number().to_be_bytes()].concat();
        self.write(Http2FrameType::GoAway, 0, 0, &payload);
    }

    /// Writes an answer to something that the peer may send as often as it likes. More than `most` bytes of such answers, if that isn't 0,
    /// are an abuse.
    pub(super) fn answer(&mut self, most: u32, write: impl FnOnce(&mut Output)) -> Result<(), Http2Fault> {
        let before = self.bytes.len();
        write(self);
        let len = u32::try_from(self.bytes.len() - before).unwrap_or(u32::MAX);
        self.answers = self.answers.saturating_add(len);
        if most > 0 && self.answers > most { Err(Http2Abuse::Unread.into()) } else { Ok(()) }
    }

    pub(super) fn table_size(&mut self, size: u32) {
        self.encoder.table_size(size);
    }

    /// Writes a field section, in as many frames of at most `most` bytes as it takes. Bytes of it without frame headers.
    pub(super) fn write_section(
        &mut self,
        id: u32,
        end: bool,
        most: usize,
        fields: impl FnOnce(&mut Vec<u8>),
    ) -> usize {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&[0; HEADER_BYTES]);
        self.encoder.begin(&mut self.bytes);
        fields(&mut self.bytes);
        let len = self.bytes.len() - begin - HEADER_BYTES;
        let flags = if end { END_STREAM } else { 0 };
        if len <= most {
            let header =
                FrameHeader { len: len as u32, kind: Http2FrameType::Headers, flags: flags | END_HEADERS, stream: id };
            self.bytes[begin..begin + HEADER_BYTES].copy_from_slice(&header.to_bytes());
        } else {
            let block = self.bytes.split_off(begin + HEADER_BYTES);
            self.bytes.truncate(begin);
            self.write_in_frames(id, flags, &block, most);
        }
        len
    }

    fn write_in_frames(&mut self, id: u32, flags: u8, block: &[u8], most: usize) {
        let last = block.len().div_ceil(most) - 1;
        for (i, part) in block.chunks(most).enumerate() {
            let (kind, flags) =
                if i == 0 { (Http2FrameType::Headers, flags) } else { (Http2FrameType::Continuation, 0) };
            self.write(kind, flags | if i == last { END_HEADERS } else { 0 }, id, part);
        }
    }
}
