// SPDX-License-Identifier: BSD-2-Clause
//! The body of a request as its framing has it (RFC 9112 6). It takes bytes and says what they are; reading them is
//! [`super::transport`]'s.
//!
//! ```text
//! None
//! Unread --end--> Done
//!    \--broken, closed, too slow--> Failed
//! ```

use engine::transport::{BodyState, ReqBodyError};
use http1::{BodyStep, Framing, FramingDecoder, Truncation};

#[derive(Debug)]
pub(super) enum RequestBody {
    None,
    /// Some of it hasn't been read; `len` is its length where that was announced.
    Unread {
        decoder: FramingDecoder,
        len: Option<u64>,
    },
    Done,
    Failed(ReqBodyError),
}

impl RequestBody {
    pub fn new(framing: Framing) -> Self {
        let len = match framing {
            Framing::None => return RequestBody::None,
            Framing::Length(len) => Some(len),
            Framing::Chunked | Framing::Eof => None,
        };
        RequestBody::Unread { decoder: FramingDecoder::request(framing), len }
    }

    pub fn state(&self) -> BodyState {
        match self {
            RequestBody::None => BodyState::None,
            RequestBody::Unread { .. } => BodyState::Unread,
            RequestBody::Done => BodyState::Done,
            RequestBody::Failed(_) => BodyState::Failed,
        }
    }

    /// The length that was announced, until the body's end.
    pub fn len(&self) -> Option<u64> {
        match self {
            RequestBody::Unread { len, .. } => *len,
            RequestBody::None | RequestBody::Done | RequestBody::Failed(_) => None,
        }
    }

    /// Decodes the next step of `input`. At its end, and where there is no body, that is an end of no bytes.
    pub fn decode(&mut self, input: &[u8]) -> Result<BodyStep, ReqBodyError> {
        let decoder = match self {
            RequestBody::None | RequestBody::Done => return Ok(BodyStep::End { consumed: 0 }),
            RequestBody::Failed(error) => return Err(*error),
            RequestBody::Unread { decoder, .. } => decoder,
        };
        let step = decoder.decode(input).map_err(|error| ReqBodyError::Malformed(error.text()));
        match step {
            Ok(BodyStep::End { .. }) => *self = RequestBody::Done,
            Ok(BodyStep::Data(_) | BodyStep::More { .. }) => {}
            Err(error) => *self = RequestBody::Failed(error),
        }
        step
    }

    pub fn fail(&mut self, error: ReqBodyError) -> ReqBodyError {
        *self = RequestBody::Failed(error);
        error
    }

    /// varnishd's word for a body that breaks off where this one is now.
    pub fn cut(&self) -> &'static str {
        let cut = match self {
            RequestBody::Unread { decoder, .. } => decoder.cut(),
            RequestBody::None | RequestBody::Done | RequestBody::Failed(_) => Truncation::Length,
        };
        http1::BodyError::Truncated(cut).text()
    }

    /// True if the client may still be sending something of it that nobody will read.
    pub fn expects_more(&self) -> bool {
        match self {
            RequestBody::None | RequestBody::Done | RequestBody::Failed(ReqBodyError::Closed(_)) => false,
            RequestBody::Unread { .. } | RequestBody::Failed(_) => true,
        }
    }

    /// A second reader, to look ahead with; only a body without an announced length can surprise.
    pub fn scout(&self) -> Option<FramingDecoder> {
        match self {
            RequestBody::Unread { decoder, len: None } => Some(decoder.clone()),
            RequestBody::Unread { .. } | RequestBody::None | RequestBody::Done | RequestBody::Failed(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(framing: Framing, input: &[u8], want: &str, state: BodyState, expects_more: bool) {
        let (mut body, mut at, mut got) = (RequestBody::new(framing), 0, Vec::new());
        let end = loop {
            match body.decode(&input[at..]) {
                Ok(BodyStep::Data(range)) => {
                    got.extend_from_slice(&input[at..][range.clone()]);
                    at += range.end;
                }
                Ok(BodyStep::End { consumed }) => break format!("end at {}", at + consumed),
                Ok(BodyStep::More { consumed }) if at + consumed == input.len() => {
                    break format!("cut: {}", body.cut());
                }
                Ok(BodyStep::More { consumed }) => at += consumed,
                Err(error) => break error.text().to_owned(),
            }
        };
        assert_eq!(format!("{} {end}", String::from_utf8_lossy(&got)), want);
        assert_eq!((body.state(), body.expects_more()), (state, expects_more), "{want}");
    }

    #[test]
    fn a_body_ends_breaks_or_waits() {
        check(Framing::None, b"next", " end at 0", BodyState::None, false);
        check(Framing::Length(4), b"bodynext", "body end at 4", BodyState::Done, false);
        check(Framing::Length(4), b"bo", "bo cut: straight insufficient bytes", BodyState::Unread, true);
        check(Framing::Chunked, b"1\r\nx\r\n0\r\n\r\nnext", "x end at 11", BodyState::Done, false);
        check(Framing::Chunked, b"3\r\nx", "x cut: chunked insufficient bytes", BodyState::Unread, true);
        check(Framing::Chunked, b"1\r\nx\r\nzz\r\n", "x chunked header non-hex", BodyState::Failed, true);
    }

    #[test]
    fn after_a_failure_it_says_the_same_again() {
        let mut body = RequestBody::new(Framing::Length(4));
        assert_eq!(body.len(), Some(4));
        body.fail(ReqBodyError::Closed(body.cut()));
        assert!(!body.expects_more(), "who has closed sends nothing");
        assert_eq!(body.decode(b"body").unwrap_err().text(), "straight insufficient bytes");
    }
}
