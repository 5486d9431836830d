// SPDX-License-Identifier: BSD-2-Clause
//! Response heads (RFC 9112 4).

use message::chars::{is_blank, trim_start};
use message::{Head, HttpVersion, status};

use crate::fields::{self, LineEnds};
use crate::request::{first_line, whole_head};
use crate::{Framing, HeadError, HeadProgress, Http1Limits, ParsedHead};

/// Parses a response head from the start of `input` into `head` (cleared first). Interim heads (1xx) come out like others.
/// A missing reason becomes the standard one. A version above 1.1 is kept as sent; `ParsedHead::framing` means nothing here.
///
/// # Errors
/// See [`HeadError`]: the fetch fails.
pub fn parse_response(input: &[u8], limits: &Http1Limits, head: &mut Head) -> Result<HeadProgress, HeadError> {
    let (scan, end) = match whole_head(input, limits)? {
        Ok(found) => found,
        Err(progress) => return Ok(progress),
    };
    let begin = scan.begin();
    head.lay(&input[begin..end]).map_err(|lost| HeadError::of_lost(lost, begin))?;
    let mut ends = LineEnds::new(scan.feeds());
    let at = start_line(&input[..end], begin, head, &mut ends)?;
    fields::parse(&input[..end], at, begin, limits, head, &mut ends)?;
    Ok(HeadProgress::Complete(ParsedHead {
        consumed: end,
        begin,
        framing: Framing::None,
        lone_lf: ends.lone_lf,
        is_absolute: false,
    }))
}

/// Parses `version SP status [SP [reason]]`, blanks in any number as varnishd does.
fn start_line(input: &[u8], begin: usize, head: &mut Head, ends: &mut LineEnds<'_>) -> Result<usize, HeadError> {
    let (line, next) = first_line(input, begin, ends)?;
    let end = line.iter().position(|&c| is_blank(c)).ok_or(HeadError::BadStartLine)?;
    let (proto, rest) = (&line[..end], trim_start(&line[end..]));
    if !matches!(HttpVersion::parse(proto), HttpVersion::Http(10..=19)) {
        return Err(HeadError::BadVersion);
    }
    let code_end = rest.iter().position(|&c| is_blank(c)).unwrap_or(rest.len());
    let code = status::parse(&rest[..code_end]).ok_or(HeadError::BadStatus)?;
    let reason = trim_start(&rest[code_end..]);
    let lost = |lost| HeadError::of_lost(lost, begin);
    head.set_proto(proto).map_err(lost)?;
    head.set_status(code).map_err(lost)?;
    if !reason.is_empty() {
        head.set_reason(reason).map_err(lost)?;
    }
    Ok(next)
}
