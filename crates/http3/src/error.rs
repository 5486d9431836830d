// SPDX-License-Identifier: BSD-2-Clause
//! What a peer does wrong: a code for it, what has to end, and words for the log (RFC 9114 8, RFC 9204 6).

use std::fmt;

use crate::abuse::Abuse;

/// Error codes of HTTP/3 and QPACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// H3_NO_ERROR
    NoError = 0x100,
    /// H3_GENERAL_PROTOCOL_ERROR
    GeneralProtocol = 0x101,
    /// H3_INTERNAL_ERROR
    Internal = 0x102,
    /// H3_STREAM_CREATION_ERROR
    StreamCreation = 0x103,
    /// H3_CLOSED_CRITICAL_STREAM
    ClosedCriticalStream = 0x104,
    /// H3_FRAME_UNEXPECTED
    FrameUnexpected = 0x105,
    /// H3_FRAME_ERROR
    Frame = 0x106,
    /// H3_EXCESSIVE_LOAD
    ExcessiveLoad = 0x107,
    /// H3_ID_ERROR
    Id = 0x108,
    /// H3_SETTINGS_ERROR
    Settings = 0x109,
    /// H3_MISSING_SETTINGS
    MissingSettings = 0x10a,
    /// H3_REQUEST_REJECTED
    RequestRejected = 0x10b,
    /// H3_REQUEST_CANCELLED
    RequestCancelled = 0x10c,
    /// H3_REQUEST_INCOMPLETE
    RequestIncomplete = 0x10d,
    /// H3_MESSAGE_ERROR
    Message = 0x10e,
    /// H3_CONNECT_ERROR
    Connect = 0x10f,
    /// H3_VERSION_FALLBACK
    VersionFallback = 0x110,
    /// QPACK_DECOMPRESSION_FAILED
    Decompression = 0x200,
    /// QPACK_ENCODER_STREAM_ERROR
    EncoderStream = 0x201,
    /// QPACK_DECODER_STREAM_ERROR
    DecoderStream = 0x202,
}

impl Code {
    /// As the registry calls it.
    pub fn name(self) -> &'static str {
        match self {
            Code::NoError => "H3_NO_ERROR",
            Code::GeneralProtocol => "H3_GENERAL_PROTOCOL_ERROR",
            Code::Internal => "H3_INTERNAL_ERROR",
            Code::StreamCreation => "H3_STREAM_CREATION_ERROR",
            Code::ClosedCriticalStream => "H3_CLOSED_CRITICAL_STREAM",
            Code::FrameUnexpected => "H3_FRAME_UNEXPECTED",
            Code::Frame => "H3_FRAME_ERROR",
            Code::ExcessiveLoad => "H3_EXCESSIVE_LOAD",
            Code::Id => "H3_ID_ERROR",
            Code::Settings => "H3_SETTINGS_ERROR",
            Code::MissingSettings => "H3_MISSING_SETTINGS",
            Code::RequestRejected => "H3_REQUEST_REJECTED",
            Code::RequestCancelled => "H3_REQUEST_CANCELLED",
            Code::RequestIncomplete => "H3_REQUEST_INCOMPLETE",
            Code::Message => "H3_MESSAGE_ERROR",
            Code::Connect => "H3_CONNECT_ERROR",
            Code::VersionFallback => "H3_VERSION_FALLBACK",
            Code::Decompression => "QPACK_DECOMPRESSION_FAILED",
            Code::EncoderStream => "QPACK_ENCODER_STREAM_ERROR",
            Code::DecoderStream => "QPACK_DECODER_STREAM_ERROR",
        }
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self as u32
    }
}

/// What an error ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One request.
    Stream,
    /// All of them.
    Connection,
}

/// What the peer did wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// What it is told.
    pub code: Code,
    /// What ends.
    pub scope: Scope,
    /// For the log.
    pub text: &'static str,
    /// Which counted limit was reached.
    pub abuse: Option<Abuse>,
}

impl Error {
    /// Of one stream.
    pub const fn stream(code: Code, text: &'static str) -> Self {
        Error { code, scope: Scope::Stream, text, abuse: None }
    }

    /// Of the connection.
    pub const fn connection(code: Code, text: &'static str) -> Self {
        Error { code, scope: Scope::Connection, text, abuse: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.text)
    }
}

impl std::error::Error for Error {}
