// SPDX-License-Identifier: BSD-2-Clause
//! What a peer does wrong: a code for it, what has to end, and words for the log (RFC 9114 8, RFC 9204 6).

use std::fmt;

use crate::abuse::Abuse;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
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

impl Code {
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

    pub fn number(self) -> u32 {
        self as u32
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Stream,
    Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    pub code: Code,
    pub scope: Scope,
    pub text: &'static str,
    pub abuse: Option<Abuse>,
}

impl Error {
    pub const fn stream(code: Code, text: &'static str) -> Self {
        Error { code, scope: Scope::Stream, text, abuse: None }
    }

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
