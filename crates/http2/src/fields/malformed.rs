// SPDX-License-Identifier: BSD-2-Clause
//! Why a message is malformed (RFC 9113 8.1.1): an error of its stream alone.

use crate::error::ErrorCode;

/// Faults of a field section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldFault {
    /// A name of no bytes.
    EmptyName,
    /// An upper-case letter in a name.
    UpperCase,
    /// A byte in a name that no token has.
    Name,
    /// A control character in a value, or a blank at its end.
    Value,
    /// A pseudo-header field that isn't known, or not here.
    UnknownPseudo,
    /// The same pseudo-header field again.
    DuplicatePseudo,
    /// A pseudo-header field behind others.
    LatePseudo,
    /// A pseudo-header field is missing.
    MissingPseudo(&'static str),
    /// Invalid value of `:method`.
    Method,
    /// Not a path, nor `*` with OPTIONS.
    Path,
    /// Invalid value of `:scheme`.
    Scheme,
    /// Invalid value of `:authority`.
    Authority,
    /// Invalid value of `:status`.
    Status,
    /// A field that speaks of a connection.
    Connection,
    /// TE with something else than `trailers`.
    Te,
    /// Content-Length isn't a number, or is there twice.
    ContentLength,
    /// A length that isn't zero, and no body.
    LengthWithoutBody,
    /// CONNECT with a path or a scheme.
    Connect,
    /// `:protocol` without having been offered.
    Protocol,
    /// A field that may not be among trailers.
    Trailer,
    /// More fields than `http_max_hdr`.
    TooManyFields,
    /// A field longer than `http_req_hdr_len` or `http_resp_hdr_len`.
    TooLong,
    /// More bytes than a head may have.
    TooLarge,
    /// `:path` makes the head too large.
    PathTooLarge,
}

/// A malformed message, and the field that makes it so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Fault of the field.
    pub fault: FieldFault,
    quote: Box<[u8]>,
}

const QUOTE_BYTES: usize = 20;

impl Malformed {
    pub(crate) fn new(fault: FieldFault, name: &[u8], value: &[u8]) -> Malformed {
        let quoted = if name.is_empty() && value.is_empty() {
            Vec::new()
        } else {
            let name = &name[..name.len().min(QUOTE_BYTES)];
            let value = &value[..value.len().min(QUOTE_BYTES)];
            [name, b": ", value].concat()
        };
        let end = quoted.len().min(QUOTE_BYTES);
        Malformed { fault, quote: quoted[..end].into() }
    }

    /// A section that is too large to be read at all.
    pub fn too_large() -> Malformed {
        Malformed::new(FieldFault::TooLarge, b"", b"")
    }

    /// The status that answers a request which is only too large (RFC 6585 5, RFC 9110 15.5.15).
    pub fn status(&self) -> Option<u16> {
        let is_large = matches!(self.fault, FieldFault::TooManyFields | FieldFault::TooLong | FieldFault::TooLarge);
        if self.fault == FieldFault::PathTooLarge { Some(414) } else { is_large.then_some(431) }
    }

    /// The code of RST_STREAM.
    pub fn code(&self) -> ErrorCode {
        if self.status().is_some() { ErrorCode::EnhanceYourCalm } else { ErrorCode::ProtocolError }
    }

    /// True if varnishd logs it as LostHeader, not as BogoHeader.
    pub fn is_lost_header(&self) -> bool {
        self.fault == FieldFault::TooManyFields
    }

    /// The text of its log record.
    pub fn record(&self) -> Vec<u8> {
        let (text, quotes): (&str, bool) = match self.fault {
            FieldFault::EmptyName => ("Empty name", false),
            FieldFault::UpperCase => ("Illegal header name (upper-case): ", true),
            FieldFault::Name => ("Illegal header name: ", true),
            FieldFault::Value => ("Illegal header value: ", true),
            FieldFault::UnknownPseudo => ("Unknown pseudo-header: ", true),
            FieldFault::DuplicatePseudo => ("Duplicate pseudo-header ", true),
            FieldFault::LatePseudo => ("Pseudo-header after others: ", true),
            FieldFault::MissingPseudo(name) => return [b"Missing ", name.as_bytes()].concat(),
            FieldFault::Method => ("Invalid method: ", true),
            FieldFault::Path => ("Invalid path: ", true),
            FieldFault::Scheme => ("Invalid scheme: ", true),
            FieldFault::Authority => ("Invalid authority: ", true),
            FieldFault::Status => ("Invalid status: ", true),
            FieldFault::Connection => ("Connection field: ", true),
            FieldFault::Te => ("TE other than trailers: ", true),
            FieldFault::ContentLength => ("Non-parseable Content-Length", false),
            FieldFault::LengthWithoutBody => ("Content-Length without a body", false),
            FieldFault::Connect => ("CONNECT with a path or a scheme", false),
            FieldFault::Protocol => ("Unexpected :protocol", false),
            FieldFault::Trailer => ("Not a trailer field: ", true),
            FieldFault::TooManyFields => ("Too many headers: ", true),
            FieldFault::TooLong | FieldFault::TooLarge | FieldFault::PathTooLarge => ("Header too large: ", true),
        };
        if quotes { [text.as_bytes(), &self.quote].concat() } else { text.as_bytes().to_vec() }
    }
}
