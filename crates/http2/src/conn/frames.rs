// SPDX-License-Identifier: BSD-2-Clause
//! The peer's bytes cut into frames: the preface, nine bytes of header, and a payload that may come in parts.

use crate::frame::{FrameHeader, HEADER_BYTES, PREFACE};

#[derive(Clone, Copy, Debug)]
pub(super) struct Current {
    pub(super) header: FrameHeader,
    /// Bytes of the payload that haven't come.
    pub(super) left: u32,
    /// DATA: bytes of padding at its end, once known.
    pub(super) padding: Option<u32>,
    /// DATA: the stream that gets it.
    pub(super) takes: bool,
}

#[derive(Debug)]
pub(super) struct FrameReader {
    preface_left: u8,
    has_begun: bool,
    header: [u8; HEADER_BYTES],
    header_bytes: u8,
    pub(super) current: Option<Current>,
    /// Payload of the current frame, when it came in parts; DATA never.
    partial: Vec<u8>,
}

impl FrameReader {
    pub(super) fn new(expects_preface: bool) -> FrameReader {
        FrameReader {
            preface_left: if expects_preface { PREFACE.len() as u8 } else { 0 },
            has_begun: false,
            header: [0; HEADER_BYTES],
            header_bytes: 0,
            current: None,
            partial: Vec::new(),
        }
    }

    pub(super) fn expects_preface(&self) -> bool {
        self.preface_left > 0
    }

    /// Reads on in the preface. Bytes that were taken; `None`: it is another one.
    pub(super) fn take_preface(&mut self, input: &[u8]) -> Option<usize> {
        let from = PREFACE.len() - usize::from(self.preface_left);
        let len = input.len().min(PREFACE.len() - from);
        if input[..len] != PREFACE[from..from + len] {
            return None;
        }
        self.preface_left -= len as u8;
        Some(len)
    }

    pub(super) fn is_between_frames(&self) -> bool {
        self.current.is_none() && self.header_bytes == 0
    }

    /// Reads on in the header of the next frame, if one is expected; the header, once it is whole.
    pub(super) fn take_header(&mut self, input: &[u8]) -> (usize, Option<FrameHeader>) {
        if self.current.is_some() {
            return (0, None);
        }
        let from = usize::from(self.header_bytes);
        let len = input.len().min(HEADER_BYTES - from);
        self.header[from..from + len].copy_from_slice(&input[..len]);
        if from + len < HEADER_BYTES {
            self.header_bytes += len as u8;
            return (len, None);
        }
        self.header_bytes = 0;
        (len, Some(FrameHeader::parse(&self.header)))
    }

    pub(super) fn begin(&mut self, header: FrameHeader) {
        self.current = Some(Current { header, left: header.len, padding: None, takes: false });
    }

    pub(super) fn is_first(&mut self) -> bool {
        !std::mem::replace(&mut self.has_begun, true)
    }

    pub(super) fn discard(&mut self) {
        if let Some(current) = &mut self.current {
            current.takes = false;
        }
    }

    pub(super) fn taker(&self) -> Option<u32> {
        self.current.filter(|current| current.takes).map(|current| current.header.stream)
    }

    /// A piece of the payload is taken. True if the frame is whole.
    pub(super) fn advance(&mut self, len: usize) -> bool {
        let Some(current) = &mut self.current else { return true };
        current.left -= len as u32;
        let is_whole = current.left == 0;
        if is_whole {
            self.current = None;
        }
        is_whole
    }

    pub(super) fn is_in_one_piece(&self) -> bool {
        self.partial.is_empty()
    }

    /// Keeps a piece of the payload, of which no more than `most` bytes are of interest.
    pub(super) fn keep(&mut self, piece: &[u8], most: u32) {
        let room = (most as usize).saturating_sub(self.partial.len());
        self.partial.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// The pieces that were kept; [`FrameReader::give_back`] returns their memory.
    pub(super) fn kept(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.partial)
    }

    pub(super) fn give_back(&mut self, mut kept: Vec<u8>) {
        kept.clear();
        self.partial = kept;
    }

    pub(super) fn forget(&mut self) {
        self.partial = Vec::new();
    }

    pub(super) fn rest(&mut self) {
        if self.partial.is_empty() {
            self.partial = Vec::new();
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.partial.capacity()
    }
}
