// SPDX-License-Identifier: BSD-2-Clause
//! A response as frames: pieces of its body lent to QUIC, which keeps them until the client has confirmed them.

use std::collections::VecDeque;

use bytes::Bytes;
use http3::frame::{Http3FrameHeader, Http3FrameType};
use message::Head;
use storage::Buf;

/// A body's piece up to here is copied behind its frame's header: it is cheaper than one more piece.
const COPY_BYTES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseState {
    Nothing,
    /// The body is under way; `left` bytes of an announced length are still to come.
    Body {
        left: Option<u64>,
    },
    Whole,
    Broken,
}

#[derive(Debug)]
pub(super) struct Response {
    pub(super) state: ResponseState,
    /// Frames and copied pieces behind the last lent one.
    own: Vec<u8>,
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

impl Response {
    pub(super) fn new() -> Self {
        Response { state: ResponseState::Nothing, own: Vec::new(), pieces: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn queued(&self) -> usize {
        self.bytes
    }

    /// Queues a head; how many bytes it takes.
    pub(super) fn head(&mut self, head: &Head) -> usize {
        self.frame(|out| http3::head::write_response(head, out))
    }

    /// Queues a bare status; how many bytes it takes.
    pub(super) fn status(&mut self, status: u16) -> usize {
        self.frame(|out| http3::head::write_status(status, out))
    }

    /// Queues the fields behind a whole body; how many bytes they take.
    pub(super) fn trailers(&mut self, trailers: &Head) -> usize {
        match self.state {
            ResponseState::Whole if !trailers.is_empty() => {
                self.frame(|out| http3::head::write_trailers(trailers, out))
            }
            ResponseState::Nothing | ResponseState::Body { .. } | ResponseState::Whole | ResponseState::Broken => 0,
        }
    }

    fn frame(&mut self, write: impl FnOnce(&mut Vec<u8>) -> usize) -> usize {
        let bytes = write(&mut self.own);
        self.bytes += bytes;
        bytes
    }

    /// Queues a piece of the body; how many bytes of it are sent.
    pub(super) fn data(&mut self, mut piece: Buf) -> usize {
        let ResponseState::Body { left } = &mut self.state else { return 0 };
        if let Some(left) = left {
            if piece.len() as u64 > *left {
                piece = piece.slice(0..*left as usize);
                self.state = ResponseState::Broken;
            } else {
                *left -= piece.len() as u64;
            }
        }
        let bytes = piece.len();
        if bytes == 0 {
            return 0;
        }
        let before = self.own.len();
        Http3FrameHeader::write(Http3FrameType::Data, bytes as u64, &mut self.own);
        self.bytes += self.own.len() - before + bytes;
        if bytes <= COPY_BYTES {
            self.own.extend_from_slice(&piece);
        } else {
            self.cut();
            self.pieces.push_back(Bytes::from_owner(piece));
        }
        bytes
    }

    pub(super) fn end(&mut self) {
        self.state = match self.state {
            ResponseState::Nothing | ResponseState::Broken | ResponseState::Body { left: Some(1..) } => {
                ResponseState::Broken
            }
            ResponseState::Body { .. } | ResponseState::Whole => ResponseState::Whole,
        };
    }

    pub(super) fn abort(&mut self) {
        self.state = ResponseState::Broken;
        self.own = Vec::new();
        self.pieces.clear();
        self.bytes = 0;
    }

    fn cut(&mut self) {
        if !self.own.is_empty() {
            self.pieces.push_back(Bytes::from(std::mem::take(&mut self.own)));
        }
    }

    pub(super) fn next(&mut self) -> &mut [Bytes] {
        self.cut();
        self.pieces.make_contiguous()
    }

    /// Removes `bytes` bytes in all, and `pieces` whole pieces of [`Response::next`], which holds what is left of a
    /// piece.
    pub(super) fn wrote(&mut self, pieces: usize, bytes: usize) {
        self.pieces.drain(..pieces);
        self.bytes -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(response: &mut Response) -> Vec<u8> {
        let out = response.next().concat();
        let pieces = response.next().len();
        response.wrote(pieces, out.len());
        assert_eq!(response.queued(), 0);
        out
    }

    #[test]
    fn pieces_are_frames_of_their_own() {
        let mut response = Response::new();
        response.state = ResponseState::Body { left: Some(8195) };
        assert_eq!(response.data(Buf::unaccounted(b"abc".to_vec())), 3);
        assert_eq!(response.data(Buf::unaccounted(vec![b'x'; 8192])), 8192);
        assert_eq!(response.queued(), 2 + 3 + 3 + 8192);
        response.end();
        assert_eq!(response.state, ResponseState::Whole);
        let out = all(&mut response);
        assert_eq!(&out[..8], b"\0\x03abc\0\x60\0");
        assert_eq!(out.len(), 8 + 8192);
    }

    #[test]
    fn a_body_that_isnt_as_long_as_announced_is_broken() {
        let mut response = Response::new();
        response.state = ResponseState::Body { left: Some(2) };
        assert_eq!(response.data(Buf::unaccounted(b"abc".to_vec())), 2);
        response.end();
        assert_eq!(response.state, ResponseState::Broken);
        response.state = ResponseState::Body { left: Some(2) };
        response.end();
        assert_eq!(response.state, ResponseState::Broken);
    }
}
