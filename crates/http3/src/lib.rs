// SPDX-License-Identifier: BSD-2-Clause
//! The HTTP/3 codec without I/O (RFC 9114) and its field compression, QPACK (RFC 9204), by the static table alone: bytes of a stream
//! in, frames and fields out. QUIC's streams, their flow control and their ends are somebody else's.
//!
//! A body is never copied: [`stream::FrameReader`] says which bytes of its input are data. What a peer makes us hold is a field section
//! ([`Http3Limits::section_bytes`]) and, on the control stream, a frame of at most [`control::MAX_FRAME_BYTES`].

#![cfg_attr(not(test), warn(clippy::shadow_unrelated, clippy::wildcard_enum_match_arm))]

pub mod abuse;
pub mod control;
pub mod error;
pub mod frame;
pub mod head;
pub mod qpack;
pub mod stream;
pub mod varint;

pub use abuse::Http3Abuse;
pub use error::{Http3Error, Http3ErrorCode, Http3ErrorScope};

/// The application protocol's name in TLS.
pub const ALPN: &[u8] = b"h3";

/// Limits of a request. The number of fields is bounded by the [`message::HeadLimits`] of the head that is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http3Limits {
    /// Most bytes of a field section as it comes, and of its fields unpacked, 32 more for each: `http_req_size`.
    pub section_bytes: usize,
    /// Most bytes of a field: `http_req_hdr_len`.
    pub line_bytes: usize,
}

impl Default for Http3Limits {
    fn default() -> Self {
        Http3Limits { section_bytes: 32 * 1024, line_bytes: 8 * 1024 }
    }
}
