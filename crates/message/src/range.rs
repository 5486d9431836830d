// SPDX-License-Identifier: BSD-2-Clause
//! Range and Content-Range (RFC 9110 14). Varnish serves one range; several become parts of one response here.

use crate::chars::{is_token, leading_number, trim};
use crate::{Head, list, names};

/// One range of bytes as asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteRange {
    /// `low-` or `low-high`, both inclusive.
    From {
        /// Offset of the first byte.
        low: u64,
        /// Last byte; `None`: to the end.
        high: Option<u64>,
    },
    /// `-n`: the last `n` bytes, at least one.
    Suffix(u64),
}

/// A range of an existing body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Offset of the first byte.
    pub low: u64,
    /// Offset of the last byte.
    pub high: u64,
}

impl Slice {
    /// Number of its bytes.
    pub fn bytes(&self) -> u64 {
        self.high - self.low + 1
    }

    /// The value of Content-Range, `bytes 0-1/10`; `*` when the length isn't known.
    pub fn content_range(&self, body_bytes: Option<u64>) -> String {
        match body_bytes {
            Some(n) => format!("bytes {}-{}/{n}", self.low, self.high),
            None => format!("bytes {}-{}/*", self.low, self.high),
        }
    }
}

/// Reasons why a Range field can't be served: the client gets 416. The text is varnishd's, for its Debug record
/// `RANGE_FAIL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeError {
    /// There is no `=`.
    NoEquals,
    /// A unit other than bytes, or no unit at all.
    NotBytes,
    /// There is no `-`.
    NoHyphen,
    /// A hyphen stands alone.
    Neither,
    /// A suffix of no bytes, `-0`.
    EmptySuffix,
    /// The end lies before the begin.
    Reversed,
    /// Something after the range, for example a second one.
    Trailing,
    /// The begin lies beyond the body.
    Beyond,
}

impl RangeError {
    /// The text that varnishd logs.
    pub fn text(self) -> &'static str {
        match self {
            Self::NoEquals => "Missing '='",
            Self::NotBytes => "Not Bytes",
            Self::NoHyphen => "Missing hyphen",
            Self::Neither => "Neither high nor low",
            Self::EmptySuffix => "No low, high is zero",
            Self::Reversed => "high smaller than low",
            Self::Trailing => "Trailing stuff",
            Self::Beyond => "low range beyond object",
        }
    }
}

/// The value of a request's Range field. A request with several lines of it asks for the whole: they are no valid set of ranges, which a server may
/// ignore (RFC 9110 14.2). varnishd and nginx take the first.
pub fn asked(request: &Head) -> Option<&[u8]> {
    request.only(names::RANGE)
}

/// Reads the Range field of a request as varnishd does: one range of bytes. `None` without the field.
///
/// # Errors
/// See [`RangeError`].
pub fn requested(request: &Head) -> Result<Option<ByteRange>, RangeError> {
    asked(request).map(parse_one).transpose()
}

/// Reads a Range value of one range.
///
/// # Errors
/// See [`RangeError`].
pub fn parse_one(value: &[u8]) -> Result<ByteRange, RangeError> {
    let (range, rest) = parse_spec(ranges_of(value)?)?;
    if rest.iter().all(|c| matches!(c, b' ' | b'\t' | b'\r' | b'\n')) { Ok(range) } else { Err(RangeError::Trailing) }
}

/// Reads a Range value of up to `max` ranges.
///
/// # Errors
/// See [`RangeError`]; more than `max` is [`RangeError::Trailing`].
pub fn parse_many(value: &[u8], max: usize) -> Result<Vec<ByteRange>, RangeError> {
    let mut ranges = Vec::new();
    for member in list::members(ranges_of(value)?) {
        let (range, rest) = parse_spec(member)?;
        if !rest.is_empty() || ranges.len() == max {
            return Err(RangeError::Trailing);
        }
        ranges.push(range);
    }
    if ranges.is_empty() { Err(RangeError::Neither) } else { Ok(ranges) }
}

/// Parts of an existing body that a Range field selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Answer with the whole body, as if nobody had asked for less.
    Whole,
    /// One part of it.
    One(Slice),
    /// Several, none of which touches another: what overlapped, or had nothing between, is one. In the order asked for.
    Many(Vec<Slice>),
}

/// Parts that a Range value of up to `most` ranges selects in a body of that length. Each byte is selected once, so
/// that a set of ranges costs at most the body and `most` headers; a larger set asks for the whole (RFC 9110 14.2
/// allows both). With `most` at 1 a second range is an error, as in varnishd. A value with a unit that isn't known here
/// is ignored (RFC 9110 14.2; varnishd answers 416), and of a body whose length isn't known yet no part is given.
///
/// # Errors
/// See [`RangeError`]; of several ranges those beyond the body are left out, unless all are.
pub fn select(value: &[u8], body_bytes: Option<u64>, most: usize) -> Result<Selection, RangeError> {
    let set = match ranges_of(value) {
        Err(RangeError::NotBytes) if is_unit(value) => return Ok(Selection::Whole),
        set => set?,
    };
    let Some(body_bytes) = body_bytes else { return parse_many(value, usize::MAX).map(|_| Selection::Whole) };
    if most <= 1 || !set.contains(&b',') {
        let slice = parse_one(value)?.resolve(Some(body_bytes))?;
        return Ok(slice.map_or(Selection::Whole, Selection::One));
    }
    if list::members(set).nth(most).is_some() {
        return Ok(Selection::Whole);
    }
    // Those beyond the body aren't there.
    let there = parse_many(value, most)?.into_iter().filter_map(|range| range.resolve(Some(body_bytes)).ok().flatten());
    let slices = joined(there);
    match slices[..] {
        [] => Err(RangeError::Beyond),
        [one] => Ok(Selection::One(one)),
        [..] => Ok(Selection::Many(slices)),
    }
}

/// The part between two ends that a Range value selects of a body whose length isn't known. `None`: the whole, as for a range
/// that counts from the body's end or to it, for several ranges, and for a unit that isn't known here.
///
/// # Errors
/// See [`RangeError`].
pub fn select_open(value: &[u8]) -> Result<Option<Slice>, RangeError> {
    match select(value, None, 1)? {
        Selection::Whole if is_single(value) => Ok(match parse_one(value)? {
            ByteRange::From { low, high: Some(high) } if high < u64::MAX => Some(Slice { low, high }),
            ByteRange::From { .. } | ByteRange::Suffix(_) => None,
        }),
        Selection::Whole | Selection::One(_) | Selection::Many(_) => Ok(None),
    }
}

fn is_single(value: &[u8]) -> bool {
    ranges_of(value).is_ok_and(|set| !set.contains(&b','))
}

/// Makes one of those that touch, in the place of the first of them. A client may ask for a thousand: they are sorted, not compared each
/// with each.
fn joined(slices: impl Iterator<Item = Slice>) -> Vec<Slice> {
    let mut placed: Vec<(Slice, usize)> = slices.zip(0..).collect();
    placed.sort_unstable_by_key(|(slice, _)| slice.low);
    placed.dedup_by(|(next, next_place), (slice, place)| {
        let touches = next.low <= slice.high.saturating_add(1);
        if touches {
            slice.high = slice.high.max(next.high);
            *place = (*place).min(*next_place);
        }
        touches
    });
    placed.sort_unstable_by_key(|(_, place)| *place);
    placed.into_iter().map(|(slice, _)| slice).collect()
}

fn ranges_of(value: &[u8]) -> Result<&[u8], RangeError> {
    let at = memchr::memchr(b'=', value).ok_or(RangeError::NoEquals)?;
    if !value[..at].eq_ignore_ascii_case(b"bytes") {
        return Err(RangeError::NotBytes);
    }
    Ok(&value[at + 1..])
}

/// True if a value begins with a range unit, known or not: a token before `=` (RFC 9110 14.1).
fn is_unit(value: &[u8]) -> bool {
    value.split(|&byte| byte == b'=').next().is_some_and(is_token)
}

/// Reads one range; numbers beyond 64 bits count as the largest, which lies beyond every body (RFC 9110 14.1.2).
fn parse_spec(text: &[u8]) -> Result<(ByteRange, &[u8]), RangeError> {
    let number = |digits| leading_number(digits).map_or((None, digits), |(n, rest)| (Some(n), rest));
    let (low, rest) = number(text);
    let rest = rest.strip_prefix(b"-").ok_or(RangeError::NoHyphen)?;
    let (high, rest) = number(rest);
    let range = match (low, high) {
        (None, None) => return Err(RangeError::Neither),
        (None, Some(0)) => return Err(RangeError::EmptySuffix),
        (None, Some(n)) => ByteRange::Suffix(n),
        (Some(low), Some(high)) if high < low => return Err(RangeError::Reversed),
        (Some(low), high) => ByteRange::From { low, high },
    };
    Ok((range, rest))
}

impl ByteRange {
    /// The slice of a body of that length (`None`: not known yet). `Ok(None)`: answer with the whole body.
    ///
    /// # Errors
    /// [`RangeError::Beyond`].
    pub fn resolve(self, body_bytes: Option<u64>) -> Result<Option<Slice>, RangeError> {
        match (self, body_bytes) {
            (_, Some(0)) => Err(RangeError::Beyond),
            (ByteRange::Suffix(n), Some(len)) => Ok(Some(Slice { low: len.saturating_sub(n), high: len - 1 })),
            (ByteRange::From { low, .. }, Some(len)) if low >= len => Err(RangeError::Beyond),
            (ByteRange::From { low, high }, Some(len)) => {
                Ok(Some(Slice { low, high: high.map_or(len - 1, |h| h.min(len - 1)) }))
            }
            // A body that ends before the range does would leave a response of the wrong length.
            (ByteRange::Suffix(_) | ByteRange::From { .. }, None) => Ok(None),
        }
    }
}

/// A Content-Range field of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    /// The slice; `None` for `bytes */n`.
    pub slice: Option<Slice>,
    /// The body's length; `None` for `bytes a-b/*`.
    pub complete: Option<u64>,
}

/// Content-Range is malformed or contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadContentRange;

/// Reads Content-Range; `None` without the field or with a unit other than bytes.
///
/// # Errors
/// [`BadContentRange`].
pub fn content_range(response: &Head) -> Result<Option<ContentRange>, BadContentRange> {
    let Some(value) = response.get(names::CONTENT_RANGE) else { return Ok(None) };
    if response.only(names::CONTENT_RANGE).is_none() {
        return Err(BadContentRange);
    }
    let at = memchr::memchr(b' ', value).ok_or(BadContentRange)?;
    if !value[..at].eq_ignore_ascii_case(b"bytes") {
        return Ok(None);
    }
    let number = |text| leading_number(text).filter(|(n, _)| *n <= i64::MAX as u64).ok_or(BadContentRange);
    let (slice, rest) = match value[at + 1..].strip_prefix(b"*") {
        Some(rest) => (None, rest),
        None => {
            let (low, rest) = number(&value[at + 1..])?;
            let (high, rest) = number(rest.strip_prefix(b"-").ok_or(BadContentRange)?)?;
            (Some(Slice { low, high }), rest)
        }
    };
    let rest = rest.strip_prefix(b"/").ok_or(BadContentRange)?;
    let (complete, rest) = match rest.strip_prefix(b"*") {
        Some(rest) => (None, rest),
        None => number(rest).map(|(n, rest)| (Some(n), rest))?,
    };
    let sound = match (slice, complete) {
        (Some(s), Some(n)) => s.low <= s.high && s.high < n,
        (Some(s), None) => s.low <= s.high,
        (None, complete) => complete.is_some(),
    };
    if !sound || !trim(rest).is_empty() {
        return Err(BadContentRange);
    }
    Ok(Some(ContentRange { slice, complete }))
}

/// The reason why a response doesn't fit the Range that was asked for; the text is for the Error record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeMismatch(pub String);

/// Checks a backend's answer against the client's Range (with `http_range_support`): a Content-Range that nobody asked for,
/// of other bytes than asked for, or of another length than the body's is a failed fetch. A 416 that names the complete length
/// alone says nothing of bytes, so it fits every request; varnishd refuses it if it doesn't know the Range, or there was none.
///
/// # Errors
/// [`RangeMismatch`].
pub fn check_response(request: &Head, response: &Head, content_length: Option<u64>) -> Result<(), RangeMismatch> {
    let got =
        content_range(response).map_err(|BadContentRange| RangeMismatch("Invalid content-range header".into()))?;
    if response.is_status(416) && got.is_some_and(|got| got.slice.is_none()) {
        return Ok(());
    }
    let Some(value) = asked(request) else {
        return match got {
            // Which of several lines the origin went by is its own affair.
            Some(_) if request.has(names::RANGE) => Ok(()),
            None => Ok(()),
            Some(_) => Err(RangeMismatch("Unexpected content-range header".into())),
        };
    };
    let asked = match parse_one(value) {
        Ok(one) => vec![one],
        // varnishd fails the fetch. An origin may know units, and more ranges at a time, that a cache doesn't: as long
        // as it names no part, in parts or as a whole, what it sends is its own affair.
        Err(_) if got.is_none() => return Ok(()),
        Err(error) => match parse_many(value, MAX_CHECKED) {
            Ok(many) => many,
            Err(_) => return Err(RangeMismatch(format!("Invalid range header ({})", error.text()))),
        },
    };
    let Some(got) = got else { return Ok(()) };
    let slice = match (got.slice, got.complete) {
        (Some(slice), _) => slice,
        (None, complete) => match complete.unwrap_or(1).checked_sub(1) {
            Some(high) => Slice { low: 0, high },
            None => return Err(RangeMismatch("Invalid content-range header".into())),
        },
    };
    if let Some(n) = content_length.filter(|&n| n != slice.bytes()) {
        return Err(RangeMismatch(format!("Expected content length {}, got {n}", slice.bytes())));
    }
    let mut misfit = Ok(());
    for range in asked {
        match range.misfit(slice) {
            None => return Ok(()),
            Some(text) => misfit = misfit.and(Err(RangeMismatch(text))),
        }
    }
    misfit
}

/// Most ranges of a request that are compared with the response: more than any origin gives parts for.
const MAX_CHECKED: usize = 1000;

impl ByteRange {
    /// The reason why that slice isn't an answer to this range, in varnishd's words.
    fn misfit(self, got: Slice) -> Option<String> {
        match self {
            ByteRange::From { low, .. } if low != got.low => Some(format!("Expected low range {}, got {low}", got.low)),
            ByteRange::From { high: Some(high), .. } if high < got.high => {
                Some(format!("Expected minimum high range {}, got {high}", got.high))
            }
            ByteRange::From { .. } | ByteRange::Suffix(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(value: &str, body: Option<u64>, want: Result<Option<(u64, u64)>, RangeError>) {
        let got = parse_one(value.as_bytes()).and_then(|r| r.resolve(body)).map(|s| s.map(|s| (s.low, s.high)));
        assert_eq!(got, want, "{value} of {body:?}");
    }

    #[test]
    fn one_range_of_a_body() {
        check("bytes=0-0", Some(10), Ok(Some((0, 0))));
        check("bytes=5-", Some(10), Ok(Some((5, 9))));
        check("bytes=5-100", Some(10), Ok(Some((5, 9))));
        check("bytes=-3", Some(10), Ok(Some((7, 9))));
        check("bytes=-100", Some(10), Ok(Some((0, 9))));
        check("bytes=-9223372036854775807", Some(10), Ok(Some((0, 9))));
        check("BYTES=1-2 ", Some(10), Ok(Some((1, 2))));
        check("bytes=10-", Some(10), Err(RangeError::Beyond));
        check("bytes=0-", Some(0), Err(RangeError::Beyond));
    }

    #[test]
    fn several_lines_are_ignored() {
        let (mut request, mut response) = (Head::new(), Head::new());
        request.append(names::RANGE, "bytes=0-1").unwrap();
        response.append(names::CONTENT_RANGE, "bytes 4-5/9").unwrap();
        assert_eq!(asked(&request), Some(&b"bytes=0-1"[..]));
        assert!(check_response(&request, &response, Some(2)).is_err());
        request.append(names::RANGE, "bytes=4-5").unwrap();
        assert_eq!((asked(&request), requested(&request)), (None, Ok(None)));
        assert_eq!(check_response(&request, &response, Some(2)), Ok(()), "the origin took one of them");
        response.append(names::CONTENT_RANGE, "bytes 0-1/9").unwrap();
        assert_eq!(content_range(&response), Err(BadContentRange));
    }

    #[test]
    fn a_body_still_being_fetched() {
        check("bytes=5-7", None, Ok(None));
        check("bytes=5-", None, Ok(None));
        check("bytes=-5", None, Ok(None));
    }

    #[test]
    fn what_is_no_range() {
        check("bytes", Some(10), Err(RangeError::NoEquals));
        check("lines=1-2", Some(10), Err(RangeError::NotBytes));
        check("bytes=1", Some(10), Err(RangeError::NoHyphen));
        check("bytes=-", Some(10), Err(RangeError::Neither));
        check("bytes=-0", Some(10), Err(RangeError::EmptySuffix));
        check("bytes=2-1", Some(10), Err(RangeError::Reversed));
        check("bytes=1-2,3-4", Some(10), Err(RangeError::Trailing));
    }

    #[test]
    fn large_numbers_lie_beyond_the_body() {
        for large in ["9223372036854775807", "9223372036854775808", "18446744073709551615", "99999999999999999999"] {
            check(&format!("bytes=1-{large}"), Some(10), Ok(Some((1, 9))));
            check(&format!("bytes=-{large}"), Some(10), Ok(Some((0, 9))));
            check(&format!("bytes={large}-"), Some(10), Err(RangeError::Beyond));
            check(&format!("bytes={large}-{large}"), Some(10), Err(RangeError::Beyond));
            assert_eq!(selected(&format!("bytes=0-9, 20-{large}"), 4), Ok(vec![(0, 9), (20, 99)]));
        }
    }

    #[test]
    fn an_unknown_unit_is_ignored_and_no_unit_is_an_error() {
        for unit in ["bits=0-1", "lines=1-2,3-4", "items=x", "Byte=0-1"] {
            assert_eq!(select(unit.as_bytes(), Some(100), 4), Ok(Selection::Whole), "{unit}");
            assert_eq!(select(unit.as_bytes(), None, 1), Ok(Selection::Whole), "{unit}");
        }
        for none in ["bytes =0-9", "=0-9", "by tes=0-9", "b\u{e4}ts=0-9"] {
            assert_eq!(select(none.as_bytes(), Some(100), 4), Err(RangeError::NotBytes), "{none}");
        }
        assert_eq!(select(b"bytes", Some(100), 4), Err(RangeError::NoEquals));
    }

    #[test]
    fn of_a_body_without_a_length_a_part_has_two_ends() {
        let slice = |low, high| Ok(Some(Slice { low, high }));
        let whole = Ok(None);
        for (value, expected) in [
            ("bytes=0-9", slice(0, 9)),
            ("bytes=7-7 ", slice(7, 7)),
            ("bytes=5-", whole),
            ("bytes=-5", whole),
            ("bytes=0-1,4-5", whole),
            ("lines=0-1", whole),
            ("bytes=0-18446744073709551615", whole),
            ("bytes=9-0", Err(RangeError::Reversed)),
            ("bytes=-0", Err(RangeError::EmptySuffix)),
            ("bytes=0-9 x", Err(RangeError::Trailing)),
            ("bytes=0-1,4", Err(RangeError::NoHyphen)),
        ] {
            assert_eq!(select_open(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn many_ranges_up_to_a_bound() {
        assert_eq!(parse_many(b"bytes=1-2, -3,,", 2).map(|r| r.len()), Ok(2));
        assert_eq!(parse_many(b"bytes=1-2,3-4,5-6", 2), Err(RangeError::Trailing));
        assert_eq!(parse_many(b"bytes=,", 2), Err(RangeError::Neither));
    }

    fn selected(value: &str, most: usize) -> Result<Vec<(u64, u64)>, RangeError> {
        let slices = match select(value.as_bytes(), Some(100), most)? {
            Selection::Whole => vec![],
            Selection::One(one) => vec![one],
            Selection::Many(many) => many,
        };
        Ok(slices.into_iter().map(|s| (s.low, s.high)).collect())
    }

    #[test]
    fn several_ranges_are_parts() {
        assert_eq!(selected("bytes=0-1,4-5", 4), Ok(vec![(0, 1), (4, 5)]));
        assert_eq!(selected("bytes=40-41, 4-5 ,-1", 4), Ok(vec![(40, 41), (4, 5), (99, 99)]));
        assert_eq!(selected("bytes=0-1,200-300", 4), Ok(vec![(0, 1)]));
        assert_eq!(selected("bytes=200-300,100-", 4), Err(RangeError::Beyond));
    }

    #[test]
    fn ranges_that_touch_are_one() {
        assert_eq!(selected("bytes=0-4,5-9", 4), Ok(vec![(0, 9)]));
        assert_eq!(selected("bytes=0-,0-,0-,0-", 4), Ok(vec![(0, 99)]));
        assert_eq!(selected("bytes=0-1,8-9,50-,2-7", 4), Ok(vec![(0, 9), (50, 99)]));
        assert_eq!(selected("bytes=50-,8-9,0-1,2-7", 4), Ok(vec![(50, 99), (0, 9)]));
    }

    #[test]
    fn too_many_ranges_get_the_whole() {
        assert_eq!(selected("bytes=0-0,2-2,4-4,6-6,8-8", 4), Ok(vec![]));
        assert_eq!(selected("bytes=0-1,4-5", 1), Err(RangeError::Trailing));
        assert_eq!(selected("bytes=0-1,5-4", 4), Err(RangeError::Reversed));
        assert_eq!(selected("bytes=,", 4), Err(RangeError::Neither));
    }

    fn content(value: &str) -> Result<Option<ContentRange>, BadContentRange> {
        let mut head = Head::new();
        head.append(names::CONTENT_RANGE, value).unwrap();
        content_range(&head)
    }

    #[test]
    fn content_range_must_be_sound() {
        let slice = Some(Slice { low: 1, high: 2 });
        assert_eq!(content("bytes 1-2/3"), Ok(Some(ContentRange { slice, complete: Some(3) })));
        assert_eq!(content("bytes 1-2/*"), Ok(Some(ContentRange { slice, complete: None })));
        assert_eq!(content("bytes */3"), Ok(Some(ContentRange { slice: None, complete: Some(3) })));
        assert_eq!(content("bytes */0"), Ok(Some(ContentRange { slice: None, complete: Some(0) })));
        assert_eq!(content("lines 1-2/3"), Ok(None));
        for bad in ["bytes", "bytes 1-2", "bytes 2-1/3", "bytes 1-3/3", "bytes */*", "bytes 1-2/3 x", "bytes -2/3"] {
            assert_eq!(content(bad), Err(BadContentRange), "{bad}");
        }
    }

    #[test]
    fn a_backend_must_send_what_was_asked_for() {
        let check = |range: Option<&str>, sent: &str, length, want: Result<(), &str>| {
            let (mut req, mut resp) = (Head::new(), Head::new());
            range.iter().for_each(|r| req.append("Range", r).unwrap());
            resp.start_response(b"HTTP/1.1", 206).unwrap();
            resp.append("Content-Range", sent).unwrap();
            let want = want.map_err(|text| RangeMismatch(text.to_owned()));
            assert_eq!(check_response(&req, &resp, length), want, "{range:?} {sent}");
        };
        check(Some("bytes=1-2"), "bytes 1-2/3", Some(2), Ok(()));
        check(Some("bytes=1-9"), "bytes 1-2/3", None, Ok(()));
        check(Some("bytes=-2"), "bytes 1-2/3", Some(2), Ok(()));
        check(None, "bytes 1-2/3", Some(2), Err("Unexpected content-range header"));
        check(Some("bytes=0-2"), "bytes 1-2/3", Some(2), Err("Expected low range 1, got 0"));
        check(Some("bytes=1-1"), "bytes 1-2/3", Some(2), Err("Expected minimum high range 2, got 1"));
        check(Some("bytes=1-2"), "bytes 1-2/3", Some(3), Err("Expected content length 2, got 3"));
        check(Some("bytes=0-0,1-2"), "bytes 1-2/3", Some(2), Ok(()));
        check(Some("bytes=0-0,2-2"), "bytes 1-2/3", Some(2), Err("Expected low range 1, got 0"));
        check(Some("lines=1-2"), "bytes 1-2/3", Some(2), Err("Invalid range header (Not Bytes)"));
        check(Some("lines=1-2"), "lines 1-2/3", None, Ok(()));
    }

    #[test]
    fn a_416_without_a_part_fits_every_request() {
        for range in
            [None, Some("bytes=9-"), Some("bytes=alpha"), Some("bytes=10-alpha"), Some("bytes=10"), Some("lines=1-2")]
        {
            for complete in ["bytes */3", "bytes */0"] {
                let (mut req, mut resp) = (Head::new(), Head::new());
                range.iter().for_each(|r| req.append("Range", r).unwrap());
                resp.start_response(b"HTTP/1.1", 416).unwrap();
                resp.append("Content-Range", complete).unwrap();
                assert_eq!(check_response(&req, &resp, Some(20)), Ok(()), "{range:?} {complete}");
            }
        }
    }

    proptest! {
        #[test]
        fn each_byte_is_selected_once(ranges in proptest::collection::vec((0u64..120, 0u64..120), 1..12)) {
            let set: Vec<_> = ranges.iter().map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))).collect();
            let wanted = |byte: u64| ranges.iter().any(|(a, b)| (*a.min(b)..=*a.max(b)).contains(&byte));
            let slices = selected(&format!("bytes={}", set.join(",")), 12).unwrap_or_default();
            for byte in 0..100 {
                let times = slices.iter().filter(|(low, high)| (*low..=*high).contains(&byte)).count();
                prop_assert_eq!(times, usize::from(wanted(byte)), "byte {}", byte);
            }
            for (n, one) in slices.iter().enumerate() {
                prop_assert!(slices[n + 1..].iter().all(|other| other.0 > one.1 + 1 || one.0 > other.1 + 1));
            }
        }

        #[test]
        fn a_content_range_is_sound_or_refused(value in "(bytes|lines)? ?[*]?[0-9]{0,20}-?[0-9]{0,20}/?[*]?[0-9]{0,20}[ -~]?") {
            if let Ok(Some(range)) = content(&value) {
                prop_assert!(range.slice.is_none_or(|slice| slice.low <= slice.high));
                prop_assert!(range.slice.zip(range.complete).is_none_or(|(slice, n)| slice.high < n));
                prop_assert!(range.slice.is_some() || range.complete.is_some());
                let text = match range.slice {
                    Some(slice) => slice.content_range(range.complete),
                    None => format!("bytes */{}", range.complete.unwrap_or(0)),
                };
                prop_assert_eq!(content(&text), Ok(Some(range)));
            }
        }

        #[test]
        fn any_content_range_does_no_harm(value in "[ -~]{0,60}") {
            let mut head = Head::new();
            if head.append_parts(names::CONTENT_RANGE, &[b"bytes ", value.as_bytes()]).is_ok() {
                let _ = (content_range(&head), check_response(&Head::new(), &head, Some(1)));
            }
        }

        #[test]
        fn a_slice_lies_within_its_body(value in "(bytes=)?[0-9]{0,20}-?[0-9]{0,20}", len in proptest::option::of(0u64..1000)) {
            if let Ok(range) = parse_one(value.as_bytes())
                && let Ok(Some(slice)) = range.resolve(len) {
                prop_assert!(slice.low <= slice.high);
                prop_assert!(len.is_none_or(|len| slice.high < len));
            }
        }
    }
}
