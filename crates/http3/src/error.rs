// SPDX-License-Identifier: BSD-2-Clause
//! What a peer does wrong: a code for it, what has to end, and words for the log (RFC 9114 8, RFC 9204 6).

use std::fmt;

use crate::abuse::Http3Abuse;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http3ErrorCode {
    NoError = 0x100,
    GeneralProtocol = 0x101,
    Internal = 0x102,
    StreamCreation = 0x103,
    ClosedCriticalStream = 0x104,
    FrameUnexpected = 0x105,
    Frame = 0x106,
    ExcessiveLoad = 0x107,
    Id = 0x108,
    Settings = 0x109,
    MissingSettings = 0x10a,
    RequestRejected = 0x10b,
    RequestCancelled = 0x10c,
    RequestIncomplete = 0x10d,
    Message = 0x10e,
    Connect = 0x10f,
    VersionFallback = 0x110,
    Decompression = 0x200,
    EncoderStream = 0x201,
    DecoderStream = 0x202,
}

impl Http3ErrorCode {
    pub fn name(self) -> &'static str {
        match self {
            Http3ErrorCode::NoError => "H3_NO_ERROR",
            Http3ErrorCode::GeneralProtocol => "H3_GENERAL_PROTOCOL_ERROR",
            Http3ErrorCode::Internal => "H3_INTERNAL_ERROR",
            Http3ErrorCode::StreamCreation => "H3_STREAM_CREATION_ERROR",
            Http3ErrorCode::ClosedCriticalStream => "H3_CLOSED_CRITICAL_STREAM",
            Http3ErrorCode::FrameUnexpected => "H3_FRAME_UNEXPECTED",
            Http3ErrorCode::Frame => "H3_FRAME_ERROR",
            Http3ErrorCode::ExcessiveLoad => "H3_EXCESSIVE_LOAD",
            Http3ErrorCode::Id => "H3_ID_ERROR",
            Http3ErrorCode::Settings => "H3_SETTINGS_ERROR",
            Http3ErrorCode::MissingSettings => "H3_MISSING_SETTINGS",
            Http3ErrorCode::RequestRejected => "H3_REQUEST_REJECTED",
            Http3ErrorCode::RequestCancelled => "H3_REQUEST_CANCELLED",
            Http3ErrorCode::RequestIncomplete => "H3_REQUEST_INCOMPLETE",
            Http3ErrorCode::Message => "H3_MESSAGE_ERROR",
            Http3ErrorCode::Connect => "H3_CONNECT_ERROR",
            Http3ErrorCode::VersionFallback => "H3_VERSION_FALLBACK",
            Http3ErrorCode::Decompression => "QPACK_DECOMPRESSION_FAILED",
            Http3ErrorCode::EncoderStream => "QPACK_ENCODER_STREAM_ERROR",
            Http3ErrorCode::DecoderStream => "QPACK_DECODER_STREAM_ERROR",
        }
    }

    pub fn number(self) -> u32 {
        self as u32
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http3ErrorScope {
    Stream,
    Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http3Error {
    pub code: Http3ErrorCode,
    pub scope: Http3ErrorScope,
    pub text: &'static str,
    pub abuse: Option<Http3Abuse>,
}

impl Http3Error {
    pub const fn stream(code: Http3ErrorCode, text: &'static str) -> Self {
        Http3Error { code, scope: Http3ErrorScope::Stream, text, abuse: None }
    }

    pub const fn connection(code: Http3ErrorCode, text: &'static str) -> Self {
        Http3Error { code, scope: Http3ErrorScope::Connection, text, abuse: None }
    }
}

impl fmt::Display for Http3Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.text)
    }
}

impl std::error::Error for Http3Error {}
