// SPDX-License-Identifier: BSD-2-Clause
//! Why a head is refused, and what follows from it: decided here and nowhere else.

use message::LostHeader;
use tables::SessClose;

/// The reason why a head is refused. `at` is an offset into the parsed input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// Larger than `http_req_size` or `http_resp_size`.
    Overflow,
    /// Blanks or too many empty lines before the start line.
    LeadingBlanks,
    /// The start line isn't of the three parts it must have, or has control characters.
    BadStartLine,
    BadMethod,
    BadVersion,
    BadStatus,
    ControlChar {
        byte: u8,
    },
    /// A field line longer than `http_req_hdr_len` or `http_resp_hdr_len`.
    LineTooLong {
        /// Offset of the line's beginning.
        at: usize,
    },
    LeadingFold {
        at: usize,
    },
    NoName {
        at: usize,
    },
    /// A character in a field's name that no token has, a blank before the colon included.
    BadNameChar {
        byte: u8,
    },
    NoColon {
        at: usize,
    },
    TooManyFields {
        at: usize,
    },
    NoSpace,
    /// A lone LF ends a line of a request where none may.
    LoneLf,
    /// Content-Length and Transfer-Encoding contradict each other or themselves.
    Framing(crate::FramingError),
    /// A body where none may be: HEAD, or an HTTP/1.0 POST without a length.
    BadBody,
    /// CONNECT: an accelerator is no tunnel.
    Connect,
    /// The request target is neither a path nor an absolute `http` URI (nor `*` with OPTIONS), or has a fragment.
    BadTarget,
    MultipleHost,
    MultipleContentLength,
    BadHost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaction {
    /// The minimal response to send; `None`: close without a word, as varnishd does.
    pub status: Option<u16>,
    pub close: SessClose,
    pub counts_as_400: bool,
    /// True if the head is whole, so that its lines are logged before the error; else the input is logged as
    /// HttpGarbage.
    pub head_is_whole: bool,
}

impl HeadError {
    /// The steps to take with the request. (A response in error is always a failed fetch: FetchError `http format
    /// error`.)
    pub fn reaction(&self) -> Reaction {
        let junk = Reaction { status: Some(400), close: SessClose::RxJunk, counts_as_400: true, head_is_whole: false };
        match self {
            Self::Overflow => {
                Reaction { status: None, close: SessClose::RxOverflow, counts_as_400: false, head_is_whole: false }
            }
            Self::LeadingBlanks
            | Self::BadStartLine
            | Self::BadMethod
            | Self::BadVersion
            | Self::BadStatus
            | Self::ControlChar { .. }
            | Self::LineTooLong { .. }
            | Self::LeadingFold { .. }
            | Self::NoName { .. }
            | Self::BadNameChar { .. }
            | Self::NoColon { .. }
            | Self::TooManyFields { .. }
            | Self::NoSpace
            | Self::LoneLf
            | Self::Framing(_)
            | Self::BadBody => junk,
            Self::Connect => Reaction { status: Some(405), close: SessClose::RxBad, head_is_whole: true, ..junk },
            Self::BadTarget | Self::MultipleHost | Self::MultipleContentLength | Self::BadHost => {
                Reaction { close: SessClose::RxBad, head_is_whole: true, ..junk }
            }
        }
    }

    /// True if the input doesn't even begin like a request.
    pub fn is_of_start_line(&self) -> bool {
        matches!(self, Self::LeadingBlanks | Self::BadStartLine | Self::BadMethod | Self::BadVersion)
    }

    /// The text of the BogoHeader log record, where varnishd writes one. `input` is what was parsed.
    pub fn bogo_header(&self, input: &[u8]) -> Option<Vec<u8>> {
        let quote = |text: &str, at: usize| {
            let rest = input.get(at..).unwrap_or_default();
            let end = rest.iter().position(|&c| c == b'\r' || c == b'\n').unwrap_or(rest.len()).min(20);
            [text.as_bytes(), &rest[..end]].concat()
        };
        match *self {
            Self::ControlChar { byte } => Some(format!("Header has ctrl char 0x{byte:02x}").into_bytes()),
            Self::LineTooLong { at } => Some(quote("Header too long: ", at)),
            Self::LeadingFold { at } => Some(quote("1st header has white space: ", at)),
            Self::NoName { at } => Some(quote("Missing header name: ", at)),
            Self::BadNameChar { byte } => Some(format!("Illegal char 0x{byte:02x} in header name").into_bytes()),
            Self::NoColon { at } => Some(quote("Header without ':' ", at)),
            // varnishd's text, and which parameter it is that was reached.
            Self::TooManyFields { at } => Some([&quote("Too many headers: ", at)[..], b" (see http_max_hdr)"].concat()),
            Self::MultipleHost => Some(b"Multiple Host: headers".to_vec()),
            Self::MultipleContentLength => Some(b"Multiple Content-Length: headers".to_vec()),
            Self::BadHost => Some(b"Invalid Host: header".to_vec()),
            Self::BadTarget => Some(b"Invalid request target".to_vec()),
            Self::Connect => Some(b"CONNECT is not served".to_vec()),
            Self::Framing(error) => Some(error.text().as_bytes().to_vec()),
            Self::LoneLf => Some(b"Lone LF at the end of a line".to_vec()),
            Self::Overflow
            | Self::LeadingBlanks
            | Self::BadStartLine
            | Self::BadMethod
            | Self::BadVersion
            | Self::BadStatus
            | Self::NoSpace
            | Self::BadBody => None,
        }
    }
}

impl HeadError {
    pub(crate) fn of_lost(lost: LostHeader, at: usize) -> Self {
        match lost {
            LostHeader::TooManyFields => Self::TooManyFields { at },
            LostHeader::NoSpace => Self::NoSpace,
            LostHeader::BadField => Self::LineTooLong { at },
        }
    }
}

impl std::fmt::Display for HeadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for HeadError {}
