// SPDX-License-Identifier: BSD-2-Clause
//! Field lines (RFC 9112 5). Folded lines are joined the way varnishd does it: each octet of the fold becomes a blank.

use memchr::memchr;
use message::Head;
use message::chars::{is_blank, is_tchar, is_value, is_value_char, trim_end};

use crate::scan::LineFeeds;
use crate::{HeadError, Http1Limits};

/// The line ends of a head, one after the other, and what they looked like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineEnds<'a> {
    pub(crate) lone_lf: bool,
    known: &'a LineFeeds,
    lines: usize,
}

impl<'a> LineEnds<'a> {
    pub(crate) fn new(known: &'a LineFeeds) -> Self {
        LineEnds { lone_lf: false, known, lines: 0 }
    }

    /// The LF that ends the next line, which begins at `from`.
    #[inline]
    pub(crate) fn next(&mut self, input: &[u8], from: usize) -> Option<usize> {
        let known = self.known.get(self.lines);
        self.lines += 1;
        debug_assert!(known.is_none_or(|lf| memchr(b'\n', &input[from..]) == Some(lf - from)));
        known.or_else(|| Some(from + memchr(b'\n', &input[from..])?))
    }
}

/// The length of the line end at `input[at..]`; 0 when there is none.
pub(crate) fn line_end(input: &[u8], at: usize) -> usize {
    match input.get(at..) {
        Some([b'\r', b'\n', ..]) => 2,
        Some([b'\n', ..]) => 1,
        _ => 0,
    }
}

/// Parses the lines of `input` from `at` to the empty line at the end of `input`, which is laid in `head` from `laid` on.
pub(crate) fn parse(
    input: &[u8],
    mut at: usize,
    laid: usize,
    limits: &Http1Limits,
    head: &mut Head,
    ends: &mut LineEnds<'_>,
) -> Result<(), HeadError> {
    let is_clean = is_clean(&input[at..]);
    loop {
        let end = line_end(input, at);
        if end > 0 {
            ends.lone_lf |= end == 1;
            return Ok(());
        }
        let line = Line::find(input, at, is_clean, ends)?;
        line.add(input, laid, limits, head)?;
        at = line.next;
    }
}

/// A line as it lies in the input, its continuations included.
struct Line {
    at: usize,
    end: usize,
    next: usize,
    folded: bool,
}

impl Line {
    /// The line at `at`; `is_clean`: its bytes needn't be looked at.
    fn find(input: &[u8], at: usize, is_clean: bool, ends: &mut LineEnds<'_>) -> Result<Line, HeadError> {
        let (mut from, mut folded) = (at, false);
        loop {
            // Scan saw an empty line further on, so there is a line end.
            let lf = ends.next(input, from).ok_or(HeadError::BadStartLine)?;
            let end = if lf > from && input[lf - 1] == b'\r' { lf - 1 } else { lf };
            ends.lone_lf |= end == lf;
            if !is_clean {
                check_value(&input[from..end])?;
            }
            let next = lf + 1;
            let goes_on = input.get(next).is_some_and(|&c| is_blank(c));
            if !goes_on {
                return Ok(Line { at, end, next, folded });
            }
            (from, folded) = (next, true);
        }
    }

    fn add(&self, input: &[u8], laid: usize, limits: &Http1Limits, head: &mut Head) -> Result<(), HeadError> {
        let at = self.at;
        let text = &input[at..self.end];
        if text.len() > limits.line_bytes {
            return Err(HeadError::LineTooLong { at });
        }
        let name_len = check_name(text, at)?;
        let text = trim_end(text);
        let added = if self.folded {
            let joined: Vec<u8> =
                text.iter().map(|&c| if matches!(c, b'\r' | b'\n' | b'\t') { b' ' } else { c }).collect();
            head.append_checked_line(trim_end(&joined), name_len)
        } else if line_end(input, at + text.len()) == 2 {
            head.append_laid_line(at - laid..at - laid + text.len(), name_len)
        } else {
            head.append_checked_line(text, name_len)
        };
        added.map_err(|lost| HeadError::of_lost(lost, at))
    }
}

/// True if lines have no control characters but HTAB and their ends, all of which are CRLF or LF. One look at all of
/// them, without an early exit so that the compiler makes wide steps of it.
fn is_clean(lines: &[u8]) -> bool {
    let followed = lines.iter().zip(lines.get(1..).unwrap_or_default());
    let is_good = |c: u8, next: u8| is_value_char(c) | (c == b'\n') | ((c == b'\r') & (next == b'\n'));
    lines.last() == Some(&b'\n') && followed.fold(true, |good, (&c, &next)| good & is_good(c, next))
}

#[inline]
fn check_value(text: &[u8]) -> Result<(), HeadError> {
    if is_value(text) {
        return Ok(());
    }
    let byte = text.iter().copied().find(|&c| !is_value_char(c)).unwrap_or_default();
    Err(HeadError::ControlChar { byte })
}

/// The length of the name, in the order in which varnishd complains.
fn check_name(text: &[u8], at: usize) -> Result<usize, HeadError> {
    match text.first() {
        None => return Err(HeadError::NoColon { at }),
        Some(&c) if is_blank(c) => return Err(HeadError::LeadingFold { at }),
        Some(b':') => return Err(HeadError::NoName { at }),
        Some(_) => {}
    }
    match text.iter().position(|&c| !is_tchar(c)) {
        Some(i) if text[i] == b':' => Ok(i),
        // Trailing blanks of a line without a colon are no part of the name.
        Some(i) if trim_end(text).len() > i => Err(HeadError::BadNameChar { byte: text[i] }),
        Some(_) | None => Err(HeadError::NoColon { at }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: Result<&[&str], HeadError>) {
        let mut head = Head::new();
        let limits = Http1Limits { line_bytes: 20, ..Http1Limits::default() };
        head.lay(text.as_bytes()).unwrap();
        let got = parse(text.as_bytes(), 0, 0, &limits, &mut head, &mut LineEnds::new(&LineFeeds::default()));
        let lines: Vec<_> = head.iter().map(|f| String::from_utf8_lossy(f.line()).into_owned()).collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        assert_eq!(got.map(|()| &lines[..]), want, "{text:?}");
    }

    #[test]
    fn lines_as_received_without_blanks_at_their_end() {
        check("a: b \t\r\nC:d\r\nEmpty:\r\n\r\n", Ok(&["a: b", "C:d", "Empty:"]));
        check("a: b\nc: d\n\n", Ok(&["a: b", "c: d"]));
        check("\r\n", Ok(&[]));
    }

    #[test]
    fn folds_become_blanks() {
        check("a: b,\n\tc: d\r\n\r\n", Ok(&["a: b,  c: d"]));
        check("a: b\r\n \r\n\r\n", Ok(&["a: b"]));
        check("a:\r\n b\r\n\r\n", Ok(&["a:   b"]));
    }

    proptest::proptest! {
        /// One look at all lines finds what a look at each of them finds.
        #[test]
        fn clean_lines_are_good_ones(text in "[a:\r\n\t \x01\x7f\u{e9}]{0,40}") {
            let lines = [text.as_bytes(), b"\n"].concat();
            let values = lines[..lines.len() - 1].split(|&c| c == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
            let good = values.map(check_value).all(|checked| checked.is_ok());
            proptest::prop_assert_eq!(is_clean(&lines), good, "{:?}", text);
        }
    }

    #[test]
    fn what_is_no_line() {
        check(" a: b\r\n\r\n", Err(HeadError::LeadingFold { at: 0 }));
        check("a: b\r\n: c\r\n\r\n", Err(HeadError::NoName { at: 6 }));
        check("a : b\r\n\r\n", Err(HeadError::BadNameChar { byte: b' ' }));
        check("a/: b\r\n\r\n", Err(HeadError::BadNameChar { byte: b'/' }));
        check("abc \r\n\r\n", Err(HeadError::NoColon { at: 0 }));
        check("a: b\rc\r\n\r\n", Err(HeadError::ControlChar { byte: b'\r' }));
        check("a: b\r\r\n\r\n", Err(HeadError::ControlChar { byte: b'\r' }));
        check("a: \0\r\n\r\n", Err(HeadError::ControlChar { byte: 0 }));
        check("a: \x7f\r\n\r\n", Err(HeadError::ControlChar { byte: 0x7f }));
        check("a: 0123456789012345678\r\n\r\n", Err(HeadError::LineTooLong { at: 0 }));
    }
}
