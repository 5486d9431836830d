// SPDX-License-Identifier: BSD-2-Clause
//! A request and its answer over HTTP/1.1.

use std::io::{self, Read, Write};

use http1::{BodyStep, FramingDecoder, HeadProgress, Http1Limits, parse_response, response_framing};
use message::{Head, HeadLimits};

use crate::junk;

pub(crate) const LONGEST_BODY: usize = 1 << 20;
/// Interim responses (RFC 9110 15.2) before the final one.
const MAX_INTERIM: u32 = 64;

#[derive(Debug)]
pub struct WebResponse {
    pub head: Head,
    /// The body, at most 1 MB.
    pub body: Vec<u8>,
}

/// Sends a request and reads the answer.
///
/// # Errors
/// There is none, or it isn't whole.
pub fn talk(stream: impl Read + Write, request: &[u8], is_head: bool) -> io::Result<WebResponse> {
    let mut body = Vec::new();
    let head = talk_to(stream, request, is_head, &mut |piece| {
        body.extend_from_slice(piece);
        if body.len() > LONGEST_BODY { Err(junk("an answer of more than 1 MB")) } else { Ok(()) }
    })?;
    Ok(WebResponse { head, body })
}

/// The same for a body of any length, which `each` gets in pieces.
///
/// # Errors
/// The same as for [`talk`], or `each` fails.
pub fn talk_to(
    mut stream: impl Read + Write,
    request: &[u8],
    is_head: bool,
    each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Head> {
    stream.write_all(request)?;
    stream.flush()?;
    let limits = Http1Limits::default();
    let mut head = Head::with_limits(HeadLimits::default());
    let mut input = Vec::new();
    let mut interims = 0;
    loop {
        match parse_response(&input, &limits, &mut head) {
            Ok(HeadProgress::Complete(parsed)) => {
                input.drain(..parsed.consumed);
                match head.status() {
                    101 => return Err(junk("a change of protocol that nobody asked for")),
                    200.. => break,
                    _ if interims == MAX_INTERIM => return Err(junk("interim responses without end")),
                    _ => interims += 1,
                }
            }
            Ok(HeadProgress::Idle | HeadProgress::Incomplete) => more(&mut stream, &mut input)?,
            Ok(HeadProgress::Http2Preface) | Err(_) => return Err(junk("an answer that is no HTTP/1")),
        }
    }
    let framing = response_framing(&head, is_head).map_err(|error| junk(error.text()))?;
    read_body(&mut stream, input, FramingDecoder::response(framing), each)?;
    Ok(head)
}

pub(crate) fn more(stream: &mut impl Read, input: &mut Vec<u8>) -> io::Result<()> {
    let mut buf = [0; 8192];
    match stream.read(&mut buf)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        n => {
            input.extend_from_slice(&buf[..n]);
            Ok(())
        }
    }
}

fn read_body(
    stream: &mut impl Read,
    mut input: Vec<u8>,
    mut decoder: FramingDecoder,
    each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    loop {
        match decoder.decode(&input).map_err(|error| junk(error.text()))? {
            BodyStep::End { .. } => return Ok(()),
            BodyStep::Data(range) => {
                each(&input[range.clone()])?;
                input.drain(..range.end);
            }
            BodyStep::More { consumed } => {
                input.drain(..consumed);
                match more(stream, &mut input) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        decoder.end_of_input().map_err(|error| junk(error.text()))?;
                        return Ok(());
                    }
                    read => read?,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    use crate::in_words;

    /// Reads what is given, takes what is written.
    struct Fake(Cursor<Vec<u8>>, usize);

    impl Read for Fake {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let piece = self.1.min(buf.len());
            self.0.read(&mut buf[..piece])
        }
    }

    impl Write for Fake {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            Ok(buf.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn answer(bytes: &[u8], is_head: bool) -> Result<(u16, Vec<u8>), String> {
        let mut said = None;
        for piece in [1, 7, 10_000] {
            let got = talk(Fake(Cursor::new(bytes.to_vec()), piece), b"", is_head)
                .map(|answer| (answer.head.status(), answer.body))
                .map_err(|error| in_words(&error));
            assert!(said.is_none_or(|said| said == got), "cut into pieces of {piece}");
            said = Some(got);
        }
        said.unwrap()
    }

    #[test]
    fn answers_are_read_whole_or_not_at_all() {
        let ok = |status, body: &str| Ok((status, body.as_bytes().to_vec()));
        assert_eq!(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", false), ok(200, "hi"));
        assert_eq!(
            answer(
                b"HTTP/1.1 103 X\r\n\r\nHTTP/1.1 201 Made\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
                false
            ),
            ok(201, "hi")
        );
        assert_eq!(answer(b"HTTP/1.0 200 OK\r\n\r\nhi", false), ok(200, "hi"));
        assert_eq!(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true), ok(200, ""));
        assert_eq!(
            answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi", false),
            Err("straight insufficient bytes".into())
        );
        assert_eq!(answer(b"HTTP/1.1 200 OK\r\n", false), Err("closes before it has answered".into()));
        assert_eq!(answer(b"SSH-2.0-x\r\n\r\n", false), Err("an answer that is no HTTP/1".into()));
        let many = |interims: u32| {
            ["HTTP/1.1 100 Continue\r\n\r\n"; 65][..interims as usize].concat() + "HTTP/1.1 204 No\r\n\r\n"
        };
        assert_eq!(answer(many(MAX_INTERIM).as_bytes(), false), ok(204, ""));
        assert_eq!(answer(many(MAX_INTERIM + 1).as_bytes(), false), Err("interim responses without end".into()));
        assert_eq!(
            answer(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", false),
            Err("a change of protocol that nobody asked for".into())
        );
        let mut count = 0;
        let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n3\r\nyou\r\n0\r\n\r\n".to_vec();
        let mut each = |piece: &[u8]| {
            count += piece.len();
            Ok(())
        };
        assert!(talk_to(Fake(Cursor::new(chunks), 7), b"", false, &mut each).is_ok_and(|head| head.status() == 200));
        assert_eq!(count, 5);
        let mut long = b"HTTP/1.0 200 OK\r\n\r\n".to_vec();
        long.resize(LONGEST_BODY + 100, b'x');
        assert_eq!(
            talk(Fake(Cursor::new(long), 65_536), b"", false).unwrap_err().to_string(),
            "an answer of more than 1 MB"
        );
    }
}
