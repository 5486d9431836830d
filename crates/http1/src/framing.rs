// SPDX-License-Identifier: BSD-2-Clause
//! How a body is framed, decided from its head (RFC 9112 6.3), without the leniency that smuggling lives on.

use message::chars::exact_number;
use message::{Head, Version, list, names};

/// How the body of a message is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No body.
    None,
    /// So many bytes, at least one.
    Length(u64),
    /// The chunked transfer coding.
    Chunked,
    /// Up to the end of the connection; responses only.
    Eof,
}

/// Fields that contradict each other or themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramingError {
    /// Content-Length isn't a number below 2^63, or is a list.
    BadLength,
    /// Several Content-Length lines.
    SeveralLengths,
    /// A transfer coding other than chunked alone, or one in HTTP/1.0.
    BadCoding,
    /// Both Content-Length and Transfer-Encoding.
    LengthAndCoding,
    /// A status that has no body, with fields that announce one.
    BodyForbidden,
}

impl FramingError {
    /// A short text for the log.
    pub fn text(self) -> &'static str {
        match self {
            Self::BadLength => "Invalid Content-Length",
            Self::SeveralLengths => "Multiple Content-Length: headers",
            Self::BadCoding => "Invalid Transfer-Encoding",
            Self::LengthAndCoding => "Both Content-Length and Transfer-Encoding",
            Self::BodyForbidden => "Body announced where none may be",
        }
    }
}

/// What the fields say, apart from method and status.
enum Announced {
    Nothing,
    Length(u64),
    Chunked,
}

fn announced(head: &Head) -> Result<Announced, FramingError> {
    let length = content_length(head)?;
    let mut codings = head.get_all(names::TRANSFER_ENCODING.as_bytes());
    let Some(coding) = codings.next() else { return Ok(length.map_or(Announced::Nothing, Announced::Length)) };
    if codings.next().is_some() || !coding.eq_ignore_ascii_case(b"chunked") {
        return Err(FramingError::BadCoding);
    }
    if length.is_some() {
        return Err(FramingError::LengthAndCoding);
    }
    Ok(Announced::Chunked)
}

/// The value of Content-Length.
///
/// # Errors
/// [`FramingError::BadLength`] and [`FramingError::SeveralLengths`].
pub fn content_length(head: &Head) -> Result<Option<u64>, FramingError> {
    let mut lines = head.get_all(names::CONTENT_LENGTH.as_bytes());
    let Some(value) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(FramingError::SeveralLengths);
    }
    match exact_number(value) {
        Some(n) if n <= i64::MAX as u64 => Ok(Some(n)),
        _ => Err(FramingError::BadLength),
    }
}

/// How a request's body is framed.
///
/// # Errors
/// Any doubt is an error: what framing the origin would see must not be a matter of opinion.
pub fn request_framing(head: &Head) -> Result<Framing, FramingError> {
    match announced(head)? {
        Announced::Chunked if head.version() < Version::HTTP11 => Err(FramingError::BadCoding),
        Announced::Chunked => Ok(Framing::Chunked),
        Announced::Nothing | Announced::Length(0) => Ok(Framing::None),
        Announced::Length(n) => Ok(Framing::Length(n)),
    }
}

/// How the body of a response to a request is framed; `to_head`: the request's method was HEAD. The head is the final one:
/// for an interim (1xx) head the answer is [`Framing::None`].
///
/// # Errors
/// Several different lengths, a length and a coding, an unknown coding, or a 204 that announces a body.
pub fn response_framing(head: &Head, to_head: bool) -> Result<Framing, FramingError> {
    let status = head.status() % 1000;
    if to_head || status < 200 || status == 304 {
        return Ok(Framing::None);
    }
    let announced = announced(head)?;
    if status == 204 {
        return match announced {
            Announced::Nothing | Announced::Length(0) => Ok(Framing::None),
            Announced::Length(_) | Announced::Chunked => Err(FramingError::BodyForbidden),
        };
    }
    match announced {
        Announced::Chunked => Ok(Framing::Chunked),
        Announced::Length(0) => Ok(Framing::None),
        Announced::Length(n) => Ok(Framing::Length(n)),
        // Neither length nor coding, yet the connection is to be kept: varnishd takes it for an empty body.
        Announced::Nothing if head.get(names::CONNECTION).is_some_and(|v| list::is(v, b"keep-alive")) => {
            Ok(Framing::None)
        }
        Announced::Nothing => Ok(Framing::Eof),
    }
}

/// What an Expect field asks for (RFC 9110 10.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// There is none.
    Nothing,
    /// `100-continue`.
    Continue,
    /// Something else: varnishd answers 417 and closes.
    Unknown,
}

/// Reads the Expect field.
pub fn expect(head: &Head) -> Expect {
    match head.get(names::EXPECT) {
        None => Expect::Nothing,
        Some(value) if value.eq_ignore_ascii_case(b"100-continue") => Expect::Continue,
        Some(_) => Expect::Unknown,
    }
}
