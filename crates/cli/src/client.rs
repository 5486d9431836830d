// SPDX-License-Identifier: BSD-2-Clause
//! The client's end: writing commands, reading replies. The manager talks so to the worker, and tools to the manager.

use crate::reply::{CliReply, CliStatus, HEAD_LEN};

/// The longest reply that is read.
const LONGEST: usize = 256 << 20;

pub fn quote(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len() + 2);
    out.push(b'"');
    for byte in word {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 | 0x7f => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            byte => out.push(*byte),
        }
    }
    out.push(b'"');
    out
}

/// The line for a command: every word quoted but plain ones.
pub fn encode<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, word) in words.iter().enumerate() {
        let word = word.as_ref();
        if i > 0 {
            out.push(b' ');
        }
        let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"._-+=/:,*".contains(b);
        // A leading `-` would be taken for the mark of a tolerant line.
        if !word.is_empty() && word.iter().all(is_plain) && !(i == 0 && word[0] == b'-') {
            out.extend_from_slice(word);
        } else {
            out.extend_from_slice(&quote(word));
        }
    }
    out.push(b'\n');
    out
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyError {
    Head,
    Status(u16),
    TooLong,
    /// The body does not end in a newline.
    End,
}

impl std::fmt::Display for ReplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Head => f.write_str("CLI communication error (hdr)"),
            Self::Status(number) => write!(f, "CLI communication error (status {number})"),
            Self::TooLong => f.write_str("CLI communication error (length)"),
            Self::End => f.write_str("CLI communication error (body)"),
        }
    }
}

impl std::error::Error for ReplyError {}

#[derive(Debug, Default)]
pub struct ReplyDecoder {
    buffer: Vec<u8>,
}

impl ReplyDecoder {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next reply; `None` until more bytes come. After an error nothing more can be read.
    pub fn next_reply(&mut self) -> Result<Option<CliReply>, ReplyError> {
        let Some(head) = self.buffer.get(..HEAD_LEN) else { return Ok(None) };
        let (status, len) = parse_head(head)?;
        let end = HEAD_LEN + len;
        let Some(newline) = self.buffer.get(end) else { return Ok(None) };
        if *newline != b'\n' {
            return Err(ReplyError::End);
        }
        let body = self.buffer[HEAD_LEN..end].to_vec();
        self.buffer.drain(..=end);
        Ok(Some(CliReply { status, body }))
    }
}

fn parse_head(head: &[u8]) -> Result<(CliStatus, usize), ReplyError> {
    let text = std::str::from_utf8(head).map_err(|_| ReplyError::Head)?;
    let text = text.strip_suffix('\n').ok_or(ReplyError::Head)?;
    let (status, len) = text.split_once(' ').ok_or(ReplyError::Head)?;
    let status: u16 = status.parse().map_err(|_| ReplyError::Head)?;
    let len: usize = len.trim_end().parse().map_err(|_| ReplyError::Head)?;
    if len > LONGEST {
        return Err(ReplyError::TooLong);
    }
    Ok((CliStatus::from_number(status).ok_or(ReplyError::Status(status))?, len))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode::CliDecoder;

    #[test]
    fn malformed_replies() {
        let check = |bytes: &[u8], want| {
            let mut decoder = ReplyDecoder::new();
            decoder.feed(bytes);
            assert_eq!(decoder.next_reply(), want);
        };
        check(b"200 2       \nok", Ok(None));
        check(b"200 2       \nok\n", Ok(Some(CliReply::ok("ok"))));
        check(b"2000 2      \nok\n", Err(ReplyError::Status(2000)));
        check(b"200 2       \nokay", Err(ReplyError::End));
        check(b"200 99999999\nokay", Ok(None));
        check(b"HTTP/1.1 400 Bad", Err(ReplyError::Head));
        check(b"200 -1      \n\n", Err(ReplyError::Head));
    }

    proptest! {
        #[test]
        fn replies_come_back(body in prop::collection::vec(any::<u8>(), 0..100), at in 0usize..120) {
            let reply = CliReply::new(CliStatus::Cant, body);
            let bytes = reply.encode();
            let (a, b) = bytes.split_at(at.min(bytes.len()));
            let mut decoder = ReplyDecoder::new();
            decoder.feed(a);
            let early = decoder.next_reply().unwrap();
            decoder.feed(b);
            prop_assert_eq!(early.or_else(|| decoder.next_reply().unwrap()), Some(reply));
        }

        #[test]
        fn commands_come_back(words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 1..5)) {
            let last_two_are_a_mark = matches!(&words[..], [.., mark, token] if mark == b"<<" && !token.is_empty());
            prop_assume!(!last_two_are_a_mark);
            let mut decoder = CliDecoder::trusted();
            decoder.feed(&encode(&words));
            prop_assert_eq!(decoder.next_request().unwrap().unwrap().words, words);
        }

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut decoder = ReplyDecoder::new();
            decoder.feed(&bytes);
            while let Ok(Some(_)) = decoder.next_reply() {}
        }
    }
}
