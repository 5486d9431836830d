// SPDX-License-Identifier: BSD-2-Clause
//! How a body is framed, decided from its head (RFC 9112 6.3), without the leniency that smuggling lives on.

use message::chars::exact_number;
use message::{Head, HttpVersion, list, names};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    None,
    /// A number of bytes, at least one.
    Length(u64),
    Chunked,
    /// Up to the end of the connection; responses only.
    Eof,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramingError {
    /// Content-Length isn't a number below 2^63, or is a list.
    BadLength,
    /// Content-Length stands on several lines.
    SeveralLengths,
    /// A transfer coding other than chunked alone, or one in HTTP/1.0.
    BadCoding,
    LengthAndCoding,
    /// A status that has no body, with fields that announce one.
    BodyForbidden,
}

impl FramingError {
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

/// The framing that the fields say, apart from method and status.
enum FieldFraming {
    Nothing,
    Length(u64),
    Chunked,
}

fn announced(head: &Head, is_response: bool) -> Result<FieldFraming, FramingError> {
    let length = content_length(head, is_response)?;
    let mut codings = head.get_all(names::TRANSFER_ENCODING.as_bytes());
    let Some(coding) = codings.next() else { return Ok(length.map_or(FieldFraming::Nothing, FieldFraming::Length)) };
    if codings.next().is_some() || !coding.eq_ignore_ascii_case(b"chunked") {
        return Err(FramingError::BadCoding);
    }
    if length.is_some() {
        return Err(FramingError::LengthAndCoding);
    }
    Ok(FieldFraming::Chunked)
}

/// The value of Content-Length. Equal lines count as one in a response; in a request several are an error.
///
/// # Errors
/// [`FramingError::BadLength`] and [`FramingError::SeveralLengths`].
pub fn content_length(head: &Head, is_response: bool) -> Result<Option<u64>, FramingError> {
    let mut lines = head.get_all(names::CONTENT_LENGTH.as_bytes());
    let Some(value) = lines.next() else { return Ok(None) };
    if lines.any(|other| !is_response || other != value) {
        return Err(FramingError::SeveralLengths);
    }
    match exact_number(value) {
        Some(n) if n <= i64::MAX as u64 => Ok(Some(n)),
        _ => Err(FramingError::BadLength),
    }
}

/// The framing of a request's body.
///
/// # Errors
/// Any doubt is an error: what framing the origin would see must not be a matter of opinion.
pub fn request_framing(head: &Head) -> Result<Framing, FramingError> {
    match announced(head, false)? {
        FieldFraming::Chunked if head.version() < HttpVersion::HTTP11 => Err(FramingError::BadCoding),
        FieldFraming::Chunked => Ok(Framing::Chunked),
        FieldFraming::Nothing | FieldFraming::Length(0) => Ok(Framing::None),
        FieldFraming::Length(n) => Ok(Framing::Length(n)),
    }
}

/// The framing of the body of a response; `to_head`: the request's method was HEAD. The head is the final one:
/// for an interim (1xx) head the answer is [`Framing::None`].
///
/// # Errors
/// Several different lengths, a length and a coding, an unknown coding, or a 204 that announces a body.
pub fn response_framing(head: &Head, to_head: bool) -> Result<Framing, FramingError> {
    let status = head.status() % 1000;
    if to_head || status < 200 || status == 304 {
        return Ok(Framing::None);
    }
    let announced = announced(head, true)?;
    if status == 204 {
        return match announced {
            FieldFraming::Nothing | FieldFraming::Length(0) => Ok(Framing::None),
            FieldFraming::Length(_) | FieldFraming::Chunked => Err(FramingError::BodyForbidden),
        };
    }
    match announced {
        FieldFraming::Chunked => Ok(Framing::Chunked),
        FieldFraming::Length(0) => Ok(Framing::None),
        FieldFraming::Length(n) => Ok(Framing::Length(n)),
        // Neither length nor coding, yet the connection is to be kept: varnishd takes it for an empty body, and so do origins
        // that mean one, for which we would wait until a timeout. See `is_guess`.
        FieldFraming::Nothing if head.get(names::CONNECTION).is_some_and(|v| list::is(v, b"keep-alive")) => {
            Ok(Framing::None)
        }
        FieldFraming::Nothing => Ok(Framing::Eof),
    }
}

/// True if [`Framing::None`] of a final response is a guess: by RFC 9112 6.3 its body goes up to the connection's end,
/// so what comes next on the connection may be a body. No other response may be read from there.
pub fn is_guess(head: &Head, to_head: bool) -> bool {
    !to_head && !matches!(head.status() % 1000, 204 | 304) && !head.has(names::CONTENT_LENGTH)
}

/// The meaning of an Expect field (RFC 9110 10.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Nothing,
    Continue,
    /// Something else: varnishd answers 417 and closes.
    Unknown,
}

pub fn expect(head: &Head) -> Expect {
    match head.get(names::EXPECT) {
        None => Expect::Nothing,
        Some(value) if value.eq_ignore_ascii_case(b"100-continue") => Expect::Continue,
        Some(_) => Expect::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(proto: &str, lines: &[&str]) -> Head {
        let mut head = Head::new();
        head.start_request(b"POST", b"/", proto.as_bytes()).unwrap();
        lines.iter().for_each(|l| head.append_line(l.as_bytes()).unwrap());
        head
    }

    fn request(lines: &[&str], want: Result<Framing, FramingError>) {
        assert_eq!(request_framing(&head("HTTP/1.1", lines)), want, "{lines:?}");
    }

    fn response(status: u16, to_head: bool, lines: &[&str], want: Result<Framing, FramingError>) {
        let mut head = head("HTTP/1.1", lines);
        head.set_status(status).unwrap();
        assert_eq!(response_framing(&head, to_head), want, "{status} {lines:?}");
    }

    #[test]
    fn requests_leave_no_doubt() {
        request(&[], Ok(Framing::None));
        request(&["Content-Length: 0"], Ok(Framing::None));
        request(&["Content-Length: 5"], Ok(Framing::Length(5)));
        request(&["Content-Length: 9223372036854775807"], Ok(Framing::Length(i64::MAX as u64)));
        request(&["transfer-ENCODING: Chunked"], Ok(Framing::Chunked));
        for bad in ["", "+5", "-5", "5, 5", "5 5", "0x5", "5x", "9223372036854775808", "99999999999999999999999"] {
            request(&[&format!("Content-Length: {bad}")], Err(FramingError::BadLength));
        }
        request(&["Content-Length: 5", "content-length: 5"], Err(FramingError::SeveralLengths));
        for bad in
            ["", "identity", "gzip, chunked", "chunked, chunked", ",chunked", "chunked;q=1", "xchunked", "\"chunked\""]
        {
            request(&[&format!("Transfer-Encoding: {bad}")], Err(FramingError::BadCoding));
        }
        request(&["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], Err(FramingError::BadCoding));
        request(&["Transfer-Encoding: chunked", "Content-Length: 5"], Err(FramingError::LengthAndCoding));
        assert_eq!(request_framing(&head("HTTP/1.0", &["Transfer-Encoding: chunked"])), Err(FramingError::BadCoding));
    }

    #[test]
    fn responses_by_status_and_method() {
        response(200, false, &[], Ok(Framing::Eof));
        response(200, false, &["Connection: keep-alive"], Ok(Framing::None));
        response(200, false, &["Content-Length: 5"], Ok(Framing::Length(5)));
        response(200, true, &["Content-Length: 5"], Ok(Framing::None));
        response(200, false, &["Content-Length: 5", "Content-Length: 5"], Ok(Framing::Length(5)));
        response(200, false, &["Content-Length: 5", "Content-Length: 6"], Err(FramingError::SeveralLengths));
        response(200, false, &["Content-Length: 5", "Transfer-Encoding: chunked"], Err(FramingError::LengthAndCoding));
        response(304, false, &["Content-Length: 5"], Ok(Framing::None));
        response(204, false, &["Content-Length: 0"], Ok(Framing::None));
        response(204, false, &["Content-Length: 5"], Err(FramingError::BodyForbidden));
        response(204, false, &["Transfer-Encoding: chunked"], Err(FramingError::BodyForbidden));
        response(103, false, &[], Ok(Framing::None));
        let guess = |status, to_head, lines: &[&str]| {
            let mut head = head("HTTP/1.1", lines);
            head.set_status(status).unwrap();
            is_guess(&head, to_head)
        };
        assert!(guess(200, false, &["Connection: keep-alive"]));
        assert!(!guess(200, false, &["Connection: keep-alive", "Content-Length: 0"]));
        assert!(![(204, false), (304, false), (200, true)].iter().any(|&(status, to_head)| guess(
            status,
            to_head,
            &[]
        )));
    }

    #[test]
    fn expectations() {
        assert_eq!(expect(&head("HTTP/1.1", &[])), Expect::Nothing);
        assert_eq!(expect(&head("HTTP/1.1", &["Expect: 100-Continue"])), Expect::Continue);
        assert_eq!(expect(&head("HTTP/1.1", &["Expect: pigs-fly"])), Expect::Unknown);
    }
}
