// SPDX-License-Identifier: BSD-2-Clause
//! Request heads (RFC 9112 3).

use message::chars::{is_blank, is_token, is_value};
use message::{Head, HttpVersion, list, names};

use crate::fields::{self, LineEnds, line_end};
use crate::{
    Framing, FramingError, HeadError, HeadProgress, HeadScan, Http1Limits, ParsedHead, check, purge, request_framing,
};

/// Empty lines that may precede a start line (RFC 9112 2.2 asks for tolerance with at least one).
const MAX_EMPTY_LINES: usize = 16;

/// The first bytes from a client of HTTP/2 with prior knowledge (RFC 9113 3.4).
pub const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Length of its first part, which looks like a whole head.
const PRI_BYTES: usize = 18;

/// Parses a request head from the start of `input` into `head` (cleared first). Call again with more bytes while it says
/// [`HeadProgress::Incomplete`]; a connection that trickles should ask [`HeadScan`] first, which doesn't start over.
/// An absolute request target is taken apart: its authority replaces Host.
///
/// # Errors
/// See [`HeadError`]; `reaction()` says what follows.
pub fn parse_request(input: &[u8], limits: &Http1Limits, head: &mut Head) -> Result<HeadProgress, HeadError> {
    if let Some(progress) = http2_preface(input) {
        return Ok(progress);
    }
    match whole_head(input, limits)? {
        Ok((scan, end)) => parse(&input[..end], &scan, limits, head),
        Err(progress) => Ok(progress),
    }
}

/// Does what [`parse_request`] does for a head that `scan` has found: `input` is all of it, with what came before it.
///
/// # Errors
/// See [`HeadError`].
pub fn parse_found_request(
    input: &[u8],
    scan: &HeadScan,
    limits: &Http1Limits,
    head: &mut Head,
) -> Result<HeadProgress, HeadError> {
    if let Some(progress) = http2_preface(input) {
        return Ok(progress);
    }
    check_size(input, scan.begin(), input.len(), limits)?;
    parse(input, scan, limits, head)
}

/// The target of the request line that `head` begins with, as it came.
pub fn request_target(head: &[u8]) -> &[u8] {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    line.trim_ascii_end().split(|&byte| byte == b' ').nth(1).unwrap_or_default()
}

fn parse(input: &[u8], scan: &HeadScan, limits: &Http1Limits, head: &mut Head) -> Result<HeadProgress, HeadError> {
    let begin = scan.begin();
    head.lay(&input[begin..]).map_err(|lost| HeadError::of_lost(lost, begin))?;
    let mut ends = LineEnds::new(scan.feeds());
    let at = start_line(input, begin, limits, head, &mut ends)?;
    fields::parse(input, at, begin, limits, head, &mut ends)?;
    let framing = framing_of(head)?;
    if ends.lone_lf && !limits.lenient && (framing != Framing::None || !limits.lone_lf) {
        return Err(HeadError::LoneLf);
    }
    let lost = |lost| HeadError::of_lost(lost, begin);
    if check::request(head, limits)? {
        purge::rewrite_host(head).map_err(lost)?;
    }
    let https = limits.https_scheme || head.url().first() != Some(&b'/') && purge::is_method(head.method());
    let is_absolute = message::authority::rewrite_absolute(head, https).map_err(lost)?;
    Ok(HeadProgress::Complete(ParsedHead { consumed: input.len(), begin, framing, lone_lf: ends.lone_lf, is_absolute }))
}

fn http2_preface(input: &[u8]) -> Option<HeadProgress> {
    if input.starts_with(HTTP2_PREFACE) {
        Some(HeadProgress::Http2Preface)
    } else if !input.is_empty() && HTTP2_PREFACE.starts_with(input) {
        Some(HeadProgress::Incomplete)
    } else {
        None
    }
}

/// True if a head begins with a line that names no version of HTTP, or as the preface of HTTP/2 without being it.
pub fn is_bad_preface(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    let version = line.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    let is_http = version.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"HTTP/"));
    let words = line.split(|&byte| byte == b' ').count();
    head.starts_with(&HTTP2_PREFACE[..PRI_BYTES]) || words == 3 && !is_http
}

/// The scan of the head at the start of `input`, and the offset of its end, once it is whole.
pub(crate) fn whole_head(
    input: &[u8],
    limits: &Http1Limits,
) -> Result<Result<(HeadScan, usize), HeadProgress>, HeadError> {
    let mut scan = HeadScan::new(limits);
    let end = scan.find(input);
    let begin = scan.begin();
    check_size(input, begin, end.unwrap_or(begin), limits)?;
    match end {
        Some(end) => Ok(Ok((scan, end))),
        None if begin == input.len() => Ok(Err(HeadProgress::Idle)),
        None if input.len() - begin >= limits.head_bytes => Err(HeadError::Overflow),
        None => Ok(Err(HeadProgress::Incomplete)),
    }
}

/// Neither too many empty lines before `begin` nor too many bytes from there to `end`.
fn check_size(input: &[u8], begin: usize, end: usize, limits: &Http1Limits) -> Result<(), HeadError> {
    if !limits.lenient && memchr::memchr_iter(b'\n', &input[..begin]).count() > MAX_EMPTY_LINES {
        return Err(HeadError::LeadingBlanks);
    }
    if end - begin > limits.head_bytes { Err(HeadError::Overflow) } else { Ok(()) }
}

/// Parses `method SP target SP version` and says where the field lines begin.
fn start_line(
    input: &[u8],
    begin: usize,
    limits: &Http1Limits,
    head: &mut Head,
    ends: &mut LineEnds<'_>,
) -> Result<usize, HeadError> {
    let (line, next) = first_line(input, begin, ends)?;
    if line.first().is_some_and(|&c| is_blank(c)) {
        return Err(HeadError::LeadingBlanks);
    }
    let (method, rest) = word(line, limits.lenient)?;
    let (target, version) = word(rest, limits.lenient)?;
    if !is_token(method) {
        return Err(HeadError::BadMethod);
    }
    if target.is_empty() {
        return Err(HeadError::BadStartLine);
    }
    let in_upper_case = match version {
        b"HTTP/1.1" | b"HTTP/1.0" => None,
        other if limits.lenient && other.eq_ignore_ascii_case(b"HTTP/1.1") => Some("HTTP/1.1"),
        other if limits.lenient && other.eq_ignore_ascii_case(b"HTTP/1.0") => Some("HTTP/1.0"),
        _ => return Err(HeadError::BadVersion),
    };
    let (url, proto) = (line.len() - rest.len(), line.len() - version.len());
    head.start_laid_request(0..method.len(), url..url + target.len(), proto..line.len());
    match in_upper_case {
        None => Ok(next),
        Some(name) => head.set_proto(name).map(|()| next).map_err(|lost| HeadError::of_lost(lost, begin)),
    }
}

/// The first line, free of control characters but HTAB, and where the next one begins.
pub(crate) fn first_line<'a>(
    input: &'a [u8],
    begin: usize,
    ends: &mut LineEnds<'_>,
) -> Result<(&'a [u8], usize), HeadError> {
    let lf = ends.next(input, begin).ok_or(HeadError::BadStartLine)?;
    let end = if lf > begin && input[lf - 1] == b'\r' { lf - 1 } else { lf };
    ends.lone_lf |= line_end(input, end) == 1;
    let line = &input[begin..end];
    if !is_value(line) {
        return Err(HeadError::BadStartLine);
    }
    Ok((line, lf + 1))
}

/// Splits at the first SP; lenient: at any run of blanks.
fn word(line: &[u8], lenient: bool) -> Result<(&[u8], &[u8]), HeadError> {
    if lenient {
        let end = line.iter().position(|&c| is_blank(c)).ok_or(HeadError::BadStartLine)?;
        return Ok((&line[..end], message::chars::trim_start(&line[end..])));
    }
    match memchr::memchr2(b' ', b'\t', line) {
        Some(end) if line[end] == b' ' => Ok((&line[..end], &line[end + 1..])),
        Some(_) | None => Err(HeadError::BadStartLine),
    }
}

fn framing_of(head: &Head) -> Result<Framing, HeadError> {
    let framing = request_framing(head).map_err(|error| match error {
        FramingError::SeveralLengths => HeadError::MultipleContentLength,
        other @ (FramingError::BadLength
        | FramingError::BadCoding
        | FramingError::LengthAndCoding
        | FramingError::BodyForbidden) => HeadError::Framing(other),
    })?;
    let bad = match framing {
        Framing::None => is_endless(head),
        Framing::Length(_) | Framing::Chunked | Framing::Eof => head.method() == b"HEAD",
    };
    if bad { Err(HeadError::BadBody) } else { Ok(framing) }
}

/// An HTTP/1.0 POST or PUT without a length would have a body up to the end of the connection, on which no answer could be
/// sent (RFC 1945 8.3).
fn is_endless(head: &Head) -> bool {
    head.version() == HttpVersion::HTTP10
        && (head.method() == b"POST" || head.method() == b"PUT")
        && !head.has(names::CONTENT_LENGTH)
        && !head.get(names::CONNECTION).is_some_and(|v| list::is(v, b"keep-alive"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_that_of_the_first_line_as_it_came() {
        let check = |head: &str, want: &str| assert_eq!(request_target(head.as_bytes()), want.as_bytes(), "{head:?}");
        check("GET https://a/x?y HTTP/1.1\r\nHost: b c\r\n\r\n", "https://a/x?y");
        check("GET /old\n\n", "/old");
        check("GET\r\n /next\r\n", "");
        check("", "");
    }

    #[test]
    fn what_names_no_version_of_http_is_a_bad_preface() {
        let check = |head: &str, want| assert_eq!(is_bad_preface(head.as_bytes()), want, "{head:?}");
        check("INVALID CONNECTION PREFACE\r\n\r\n", true);
        check("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", true);
        check("PRI * HTTP/2.0\r\nHost: a\r\n\r\n", false);
        check("GET / HTTP/1.1\r\n\r\n", false);
        check("GET / HTTP/7.3\n\n", false);
        check("GET / http/1.1\r\n\r\n", false);
        check("GET /\r\n\r\n", false);
        check("GET / a b HTTP/1.1\r\n\r\n", false);
        check("", false);
    }
}
