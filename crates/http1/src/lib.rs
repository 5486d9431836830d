// SPDX-License-Identifier: BSD-2-Clause
//! The HTTP/1 codec: heads and body framing, both directions. Bytes and events in, values out (RFC 9112).
//!
//! Knows no socket and no clock. Heads parse into a [`message::Head`]; bodies are never copied: a decoder says which bytes
//! of its input are data.

#![cfg_attr(not(test), warn(clippy::shadow_unrelated, clippy::wildcard_enum_match_arm))]

pub mod body;
mod check;
pub mod error;
mod fields;
pub mod framing;
pub mod purge;
mod request;
pub mod response;
pub mod scan;

pub use body::{BodyError, BodyStep, ChunkHeader, FramingDecoder, LAST_CHUNK, Truncation};
pub use error::{HeadError, Reaction};
pub use framing::{Expect, Framing, FramingError, expect, request_framing, response_framing};
pub use request::{HTTP2_PREFACE, is_bad_preface, parse_found_request, parse_request, request_target};
pub use response::parse_response;
pub use scan::HeadScan;

/// Limits of a head. The number of lines is bounded by the [`message::HeadLimits`] of the head that is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http1Limits {
    /// Most bytes of a head, start line and empty line included: `http_req_size`, `http_resp_size`.
    pub head_bytes: usize,
    /// Most bytes of a field line: `http_req_hdr_len`, `http_resp_hdr_len`.
    pub line_bytes: usize,
    /// `http_lenient`: take what varnishd takes. Off, what no cache should forward is refused before VCL sees it.
    pub lenient: bool,
    /// `feature=+https_scheme`: `https://` in a request target is taken apart like `http://`.
    pub https_scheme: bool,
    /// `http_lone_lf`: a request without a body may end its lines with a lone LF; one with a body never may, unless lenient.
    pub lone_lf: bool,
}

impl Default for Http1Limits {
    /// The defaults of `http_req_size` and `http_req_hdr_len`; those of responses are the same.
    fn default() -> Self {
        Http1Limits { head_bytes: 32 * 1024, line_bytes: 8 * 1024, lenient: false, https_scheme: true, lone_lf: true }
    }
}

/// The part of a head that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadProgress {
    /// Nothing but empty lines so far: a connection in this state is idle.
    Idle,
    Incomplete,
    Complete(ParsedHead),
    /// The peer speaks HTTP/2 with prior knowledge (RFC 9113 3.4); nothing was consumed.
    Http2Preface,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedHead {
    /// Bytes of the input that the head took, empty lines before it included.
    pub consumed: usize,
    /// Offset in the input at which the head begins (after empty lines).
    pub begin: usize,
    /// Framing of the request's body. For a response ask [`response_framing`], which needs the request's method.
    pub framing: Framing,
    pub lone_lf: bool,
    /// The request target was a whole URL, of which Host has the authority now.
    pub is_absolute: bool,
}
