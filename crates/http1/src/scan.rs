// SPDX-License-Identifier: BSD-2-Clause
//! Finds the end of a head.

use memchr::memchr;
use message::chars::is_blank;

use crate::Http1Limits;
use crate::request::HTTP2_PREFACE;

/// Looks for the empty line that ends a head, and remembers how far it got, so that a head that comes in single bytes costs
/// linear time. Use a new one for each head.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadScan {
    /// Empty lines (and blanks, when lenient) at the start.
    begin: usize,
    /// Everything before was looked at.
    at: usize,
    lenient: bool,
    feeds: LineFeeds,
}

/// Offsets of the ends of a head's first lines, from the start line on: what was searched once needn't be searched
/// again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LineFeeds {
    at: [u16; MAX_FEEDS],
    len: u8,
}

/// More lines than nearly all heads have.
const MAX_FEEDS: usize = 24;

impl LineFeeds {
    #[inline]
    fn push(&mut self, lf: usize) {
        // What doesn't fit is followed by nothing that does.
        if let (Some(place), Ok(lf)) = (self.at.get_mut(usize::from(self.len)), u16::try_from(lf)) {
            *place = lf;
            self.len += 1;
        }
    }

    #[inline]
    pub(crate) fn get(&self, n: usize) -> Option<usize> {
        self.at[..usize::from(self.len).min(MAX_FEEDS)].get(n).map(|lf| usize::from(*lf))
    }
}

impl HeadScan {
    pub fn new(limits: &Http1Limits) -> Self {
        HeadScan { begin: 0, at: 0, lenient: limits.lenient, feeds: LineFeeds::default() }
    }

    /// The length of the head (empty lines before it included) at the start of `input`, once it is whole. `input` must
    /// begin with what it began with at the call before.
    pub fn find(&mut self, input: &[u8]) -> Option<usize> {
        if self.begin == self.at {
            let skip = input[self.begin..].iter().take_while(|&&c| self.is_skipped(c)).count();
            self.begin += skip;
            self.at = self.begin;
        }
        loop {
            let lf = self.at + memchr(b'\n', &input[self.at..])?;
            let rest = &input[lf + 1..];
            if matches!(rest, [] | [b'\r']) {
                // Not decided yet: look at this LF again.
                self.at = lf;
                return None;
            }
            self.feeds.push(lf);
            self.at = lf + 1;
            match rest {
                [b'\n', ..] => return Some(lf + 2),
                [b'\r', b'\n', ..] => return Some(lf + 3),
                _ => {}
            }
        }
    }

    /// Does what [`HeadScan::find`] does for a request's head. The preface of HTTP/2 counts as one head, though it begins
    /// like a whole one.
    pub fn find_request(&mut self, input: &[u8]) -> Option<usize> {
        let head_bytes = self.find(input)?;
        if input[0] != HTTP2_PREFACE[0] || !HTTP2_PREFACE.starts_with(&input[..head_bytes]) {
            return Some(head_bytes);
        }
        let come = input.len().min(HTTP2_PREFACE.len());
        if input[..come] != HTTP2_PREFACE[..come] {
            return Some(head_bytes);
        }
        (come == HTTP2_PREFACE.len()).then_some(come)
    }

    /// Bytes before the start line, as far as they have come.
    pub fn begin(&self) -> usize {
        self.begin
    }

    pub(crate) fn feeds(&self) -> &LineFeeds {
        &self.feeds
    }

    fn is_skipped(&self, c: u8) -> bool {
        c == b'\r' || c == b'\n' || (self.lenient && is_blank(c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: Option<usize>) {
        let mut scan = HeadScan::default();
        assert_eq!(scan.find(text.as_bytes()), want, "{text:?} at once");
        let mut scan = HeadScan::default();
        let found = (0..=text.len()).find_map(|end| scan.find(&text.as_bytes()[..end]));
        assert_eq!(found, want, "{text:?} byte by byte");
    }

    #[test]
    fn the_first_empty_line_after_a_line_ends_the_head() {
        check("", None);
        check("\r\n\r\n", None);
        check("a\r\n", None);
        check("a\r\n\r", None);
        check("a\r\n\r\n", Some(5));
        check("\r\n\r\na\n\nb", Some(7));
        check("a\nb\r\n\n", Some(6));
        check("a\r\n \r\n\r\n", Some(8));
    }

    #[test]
    fn the_preface_of_http2_is_one_head() {
        let found = |text: &[u8]| HeadScan::default().find_request(text);
        assert_eq!(found(HTTP2_PREFACE), Some(24));
        assert_eq!(found(&[HTTP2_PREFACE, b"more"].concat()), Some(24));
        let mut scan = HeadScan::default();
        assert_eq!((0..=24).find_map(|end| scan.find_request(&HTTP2_PREFACE[..end])), Some(24));
        assert_eq!(found(b"PRI * HTTP/2.0\r\n\r\nSN"), Some(18));
        assert_eq!(found(b"PUT / HTTP/1.1\r\n\r\nSM"), Some(18));
        assert_eq!(found(b"\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Some(20));
    }
}
