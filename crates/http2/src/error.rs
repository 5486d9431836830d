// SPDX-License-Identifier: BSD-2-Clause
//! What ends a stream or a connection (RFC 9113 5.4, 7), and the abuses that are counted.

/// An error code of RST_STREAM and GOAWAY (RFC 9113 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ErrorCode {
    NoError,
    ProtocolError,
    InternalError,
    FlowControlError,
    SettingsTimeout,
    StreamClosed,
    FrameSizeError,
    RefusedStream,
    Cancel,
    CompressionError,
    ConnectError,
    EnhanceYourCalm,
    InadequateSecurity,
    Http11Required,
    /// One that has no name here.
    Other(u32),
}

impl ErrorCode {
    /// The code of a number on the wire.
    pub fn from_number(number: u32) -> ErrorCode {
        Self::NAMED.iter().find(|code| code.number() == number).copied().unwrap_or(ErrorCode::Other(number))
    }

    /// The number on the wire.
    pub fn number(self) -> u32 {
        match self {
            Self::NoError => 0,
            Self::ProtocolError => 1,
            Self::InternalError => 2,
            Self::FlowControlError => 3,
            Self::SettingsTimeout => 4,
            Self::StreamClosed => 5,
            Self::FrameSizeError => 6,
            Self::RefusedStream => 7,
            Self::Cancel => 8,
            Self::CompressionError => 9,
            Self::ConnectError => 10,
            Self::EnhanceYourCalm => 11,
            Self::InadequateSecurity => 12,
            Self::Http11Required => 13,
            Self::Other(number) => number,
        }
    }

    /// The name in the RFC.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoError => "NO_ERROR",
            Self::ProtocolError => "PROTOCOL_ERROR",
            Self::InternalError => "INTERNAL_ERROR",
            Self::FlowControlError => "FLOW_CONTROL_ERROR",
            Self::SettingsTimeout => "SETTINGS_TIMEOUT",
            Self::StreamClosed => "STREAM_CLOSED",
            Self::FrameSizeError => "FRAME_SIZE_ERROR",
            Self::RefusedStream => "REFUSED_STREAM",
            Self::Cancel => "CANCEL",
            Self::CompressionError => "COMPRESSION_ERROR",
            Self::ConnectError => "CONNECT_ERROR",
            Self::EnhanceYourCalm => "ENHANCE_YOUR_CALM",
            Self::InadequateSecurity => "INADEQUATE_SECURITY",
            Self::Http11Required => "HTTP_1_1_REQUIRED",
            Self::Other(_) => "UNKNOWN_ERROR",
        }
    }

    const NAMED: [ErrorCode; 14] = [
        Self::NoError,
        Self::ProtocolError,
        Self::InternalError,
        Self::FlowControlError,
        Self::SettingsTimeout,
        Self::StreamClosed,
        Self::FrameSizeError,
        Self::RefusedStream,
        Self::Cancel,
        Self::CompressionError,
        Self::ConnectError,
        Self::EnhanceYourCalm,
        Self::InadequateSecurity,
        Self::Http11Required,
    ];
}

macro_rules! abuses {
    ($($(#[$doc:meta])* $variant:ident $name:literal $text:literal;)*) => {
        /// Actions that a peer may do only so often: each ends its connection with ENHANCE_YOUR_CALM.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Http2Abuse {
            $($(#[$doc])* $variant,)*
        }

        impl Http2Abuse {
            /// The name in the RFC.
            pub const ALL: &'static [Http2Abuse] = &[$(Http2Abuse::$variant),*];

            /// A word for a counter's name.
            pub const fn name(self) -> &'static str {
                match self { $(Http2Abuse::$variant => $name,)* }
            }

            /// The text for the log.
            pub const fn text(self) -> &'static str {
                match self { $(Http2Abuse::$variant => $text,)* }
            }
        }
    };
}

abuses! {
    /// Streams that the peer resets soon after it opened them.
    RapidReset "rapid_reset" "Too many streams reset soon after they began";
    /// Streams that we had to reset for what the peer sent.
    MadeReset "made_reset" "Too many stream errors";
    /// Streams above the number that was allowed.
    Refused "refused" "Too many streams above max_concurrent_streams";
    /// CONTINUATION frames in one field section.
    Continuation "continuation" "Too many CONTINUATION frames";
    /// Bytes of one field section, as it is sent.
    SectionBytes "section_bytes" "Field section too large";
    /// SETTINGS frames that the peer sent.
    Settings "settings" "Too many SETTINGS frames";
    /// PING frames that the peer sent.
    Ping "ping" "Too many PING frames";
    /// PRIORITY and PRIORITY_UPDATE frames.
    Priority "priority" "Too many PRIORITY frames";
    /// DATA frames without data that don't end their stream.
    EmptyData "empty_data" "Too many empty DATA frames";
    /// DATA frames of a few bytes that don't end their stream.
    SmallData "small_data" "Too many DATA frames of a few bytes";
    /// WINDOW_UPDATE frames that no data of ours called for.
    WindowUpdate "window_update" "Too many WINDOW_UPDATE frames";
    /// Windows that let us send only a few bytes at a time.
    SmallWindow "small_window" "Too many DATA frames of a few bytes for small windows";
    /// Frames of unknown kinds and for streams that are over.
    Ignored "ignored" "Too many frames that mean nothing";
    /// Answers to control frames that the peer doesn't read.
    Unread "unread" "Answers to control frames are not read";
}

/// A reason to end the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Fault {
    /// The code that GOAWAY has.
    pub code: ErrorCode,
    /// Text for the log.
    pub text: &'static str,
    /// Counted limit that was reached.
    pub abuse: Option<Http2Abuse>,
    /// The peer's frames still make sense: its PINGs are answered until the connection is closed.
    pub soft: bool,
}

impl Http2Fault {
    pub(crate) const fn new(code: ErrorCode, text: &'static str) -> Http2Fault {
        Http2Fault { code, text, abuse: None, soft: false }
    }

    pub(crate) const fn protocol(text: &'static str) -> Http2Fault {
        Http2Fault::new(ErrorCode::ProtocolError, text)
    }

    pub(crate) const fn size(text: &'static str) -> Http2Fault {
        Http2Fault::new(ErrorCode::FrameSizeError, text)
    }

    pub(crate) const fn flow(text: &'static str) -> Http2Fault {
        Http2Fault::new(ErrorCode::FlowControlError, text)
    }
}

impl From<Http2Abuse> for Http2Fault {
    fn from(abuse: Http2Abuse) -> Http2Fault {
        Http2Fault { code: ErrorCode::EnhanceYourCalm, text: abuse.text(), abuse: Some(abuse), soft: false }
    }
}

/// A reason to end one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamFault {
    /// The code that RST_STREAM has.
    pub code: ErrorCode,
    /// Text for the log.
    pub text: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_numbers() {
        for number in 0..20 {
            let code = ErrorCode::from_number(number);
            assert_eq!(code.number(), number);
            assert_eq!(matches!(code, ErrorCode::Other(_)), number > 13, "{number}");
        }
        assert_eq!(ErrorCode::from_number(11).name(), "ENHANCE_YOUR_CALM");
    }
}
