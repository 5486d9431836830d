// SPDX-License-Identifier: BSD-2-Clause
//! A unary call of gRPC (its HTTP/2 protocol): one message there, one back, and how it ended.

use std::fmt;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use base::Mono;
use base::text::printable;
use http2::{Connection, Http2Config, Http2Event, Http2Scratch, Http2Settings};
use message::{Head, HeadLimits};

use crate::answer::LONGEST_BODY;
use crate::{WebTarget, in_words};

/// In front of each message: whether it is packed, and its length.
const PREFIX: usize = 5;
const READ_BYTES: usize = 16 << 10;

#[derive(Clone, Copy, Debug)]
pub struct GrpcCall<'a> {
    /// Path of the form `/package.Service/Method`.
    pub path: &'a str,
    /// Further fields: names in lower case, and values.
    pub fields: &'a [(String, String)],
    /// The message, encoded already.
    pub message: &'a [u8],
}

#[derive(Debug)]
pub enum GrpcError {
    Io(io::Error),
    /// The answer isn't gRPC's, but HTTP's with this status.
    Http(u16),
    Status(u32, String),
}

impl GrpcError {
    /// True if the same call may succeed later (OTLP's specification names the codes).
    pub fn is_passing(&self) -> bool {
        const PASSING: [u32; 7] = [1, 4, 8, 10, 11, 14, 15];
        match self {
            GrpcError::Io(_) => true,
            GrpcError::Http(status) => matches!(status, 429 | 502..=504),
            GrpcError::Status(code, _) => PASSING.contains(code),
        }
    }
}

impl fmt::Display for GrpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GrpcError::Io(error) => f.write_str(&in_words(error)),
            GrpcError::Http(status) => write!(f, "answers {status}, not in gRPC"),
            GrpcError::Status(code, message) => write!(f, "the call failed with code {code}: {}", printable(message)),
        }
    }
}

impl From<io::Error> for GrpcError {
    fn from(error: io::Error) -> GrpcError {
        GrpcError::Io(error)
    }
}

fn broken(what: &str) -> GrpcError {
    GrpcError::Io(crate::junk(what))
}

/// A connection to a gRPC server, for one call after the other.
pub struct GrpcChannel<L> {
    link: L,
    codec: Connection,
    begin: Instant,
    head: Head,
    scratch: Http2Scratch,
    /// Bytes that came and aren't taken.
    input: Vec<u8>,
    /// The server takes no more calls here.
    is_leaving: bool,
}

impl<L> fmt::Debug for GrpcChannel<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcChannel").field("is_leaving", &self.is_leaving).finish_non_exhaustive()
    }
}

impl<L: Read + Write> GrpcChannel<L> {
    /// Over a connection on which nothing was said yet.
    pub fn new(link: L) -> GrpcChannel<L> {
        let settings = Http2Settings { enable_push: false, ..Http2Settings::default() };
        let codec = Connection::client(Arc::new(Http2Config { settings, ..Http2Config::default() }), Mono(0.0));
        GrpcChannel {
            link,
            codec,
            begin: Instant::now(),
            head: Head::with_limits(HeadLimits::default()),
            scratch: Http2Scratch::default(),
            input: Vec::new(),
            is_leaving: false,
        }
    }

    pub fn link_mut(&mut self) -> &mut L {
        &mut self.link
    }

    pub fn is_open(&self) -> bool {
        !self.is_leaving && !self.codec.is_over() && self.codec.slots() > 0
    }

    /// Calls, and gives the answer's message.
    ///
    /// # Errors
    /// See [`GrpcError`]. After one of [`GrpcError::Io`] the connection is of no use any more.
    pub fn call(&mut self, target: &WebTarget, call: &GrpcCall<'_>) -> Result<Vec<u8>, GrpcError> {
        let now = self.now();
        let mut calling = Calling::begin(&mut self.codec, now, target, call)?;
        let answer = self.carry_out(&mut calling);
        self.codec.release(calling.stream);
        answer?;
        calling.judge()
    }

    fn now(&self) -> Mono {
        Mono(self.begin.elapsed().as_secs_f64())
    }

    fn carry_out(&mut self, calling: &mut Calling) -> Result<(), GrpcError> {
        let mut piece = vec![0; READ_BYTES];
        loop {
            self.send(calling)?;
            if calling.has_ended {
                return Ok(());
            }
            match self.link.read(&mut piece)? {
                0 => return Err(GrpcError::Io(io::ErrorKind::UnexpectedEof.into())),
                read => self.input.extend_from_slice(&piece[..read]),
            }
            self.take(calling)?;
        }
    }

    fn send(&mut self, calling: &mut Calling) -> io::Result<()> {
        self.codec.flush();
        let mut out = self.codec.output().to_vec();
        self.codec.wrote(out.len());
        calling.send(&mut self.codec, &mut out);
        if out.is_empty() {
            return Ok(());
        }
        self.link.write_all(&out)?;
        self.link.flush()
    }

    fn take(&mut self, calling: &mut Calling) -> Result<(), GrpcError> {
        let (now, input, mut at) = (self.now(), std::mem::take(&mut self.input), 0);
        loop {
            let rest = &input[at..];
            let step = self.codec.receive(rest, now, &mut self.head, &mut self.scratch);
            at += step.consumed;
            let is_none = matches!(step.event, Http2Event::None);
            self.event(calling, step.event, rest)?;
            if is_none && (at == input.len() || step.consumed == 0) {
                self.input.extend_from_slice(&input[at..]);
                return Ok(());
            }
        }
    }

    fn event(&mut self, calling: &mut Calling, event: Http2Event, input: &[u8]) -> Result<(), GrpcError> {
        match event {
            Http2Event::Head { end, .. } if self.head.status() >= 200 => {
                calling.http_status = self.head.status();
                calling.note_status(&self.head);
                calling.has_ended |= end;
            }
            Http2Event::Trailers { .. } => {
                calling.note_status(&self.head);
                calling.has_ended = true;
            }
            Http2Event::Data { body, end, .. } => {
                self.codec.consumed(calling.stream, body.len());
                calling.data(&input[body], end)?;
            }
            Http2Event::Reset { .. } | Http2Event::Broken { .. } => return Err(broken("the call was reset")),
            Http2Event::GoAway { .. } => {
                self.is_leaving = true;
                if !self.codec.was_processed(calling.stream) {
                    return Err(broken("the server goes away"));
                }
            }
            Http2Event::Fault(fault) => return Err(broken(fault.text)),
            _ => {}
        }
        Ok(())
    }
}

struct Calling {
    stream: u32,
    /// The bytes that are sent, and how far.
    body: Vec<u8>,
    sent: usize,
    has_said_all: bool,
    http_status: u16,
    answer: Vec<u8>,
    grpc_status: Option<(u32, String)>,
    has_ended: bool,
}

fn request_head(target: &WebTarget, call: &GrpcCall<'_>) -> Option<Head> {
    let mut head = Head::with_limits(HeadLimits::default());
    head.start_request(b"POST", call.path.as_bytes(), b"HTTP/2.0").ok()?;
    head.append("Host", target.authority.as_bytes()).ok()?;
    head.append("content-type", b"application/grpc").ok()?;
    head.append("te", b"trailers").ok()?;
    for (name, value) in call.fields {
        head.append(name, value.as_bytes()).ok()?;
    }
    Some(head)
}

impl Calling {
    fn begin(codec: &mut Connection, now: Mono, target: &WebTarget, call: &GrpcCall<'_>) -> Result<Calling, GrpcError> {
        let length = u32::try_from(call.message.len()).map_err(|_| broken("a message that is too long"))?;
        let head = request_head(target, call).ok_or_else(|| broken("a field that can't be sent"))?;
        let scheme = if target.is_tls { "https" } else { "http" };
        let stream = codec.open(&head, scheme, false, now).map_err(|_| broken("no stream can be opened"))?;
        codec.offer(stream);
        let body = [&[0], &length.to_be_bytes()[..], call.message].concat();
        Ok(Calling {
            stream,
            body,
            sent: 0,
            has_said_all: false,
            http_status: 0,
            answer: Vec::new(),
            grpc_status: None,
            has_ended: false,
        })
    }

    fn send(&mut self, codec: &mut Connection, out: &mut Vec<u8>) {
        while self.sent < self.body.len()
            && let Some(grant) = codec.next_send()
        {
            let len = grant.max.min(self.body.len() - self.sent);
            let Some(header) = codec.send_data(self.stream, len, false) else { break };
            out.extend_from_slice(&header);
            out.extend_from_slice(&self.body[self.sent..self.sent + len]);
            self.sent += len;
        }
        if self.sent == self.body.len()
            && !self.has_said_all
            && let Some(header) = codec.send_data(self.stream, 0, true)
        {
            self.has_said_all = true;
            out.extend_from_slice(&header);
        }
    }

    fn data(&mut self, piece: &[u8], end: bool) -> Result<(), GrpcError> {
        if self.answer.len() + piece.len() > LONGEST_BODY {
            return Err(broken("an answer of more than 1 MB"));
        }
        self.answer.extend_from_slice(piece);
        self.has_ended |= end;
        Ok(())
    }

    fn note_status(&mut self, head: &Head) {
        let text = |name: &str| head.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
        if let Some(code) = text("grpc-status").and_then(|code| code.trim().parse().ok()) {
            self.grpc_status = Some((code, text("grpc-message").unwrap_or_default()));
        }
    }

    fn judge(self) -> Result<Vec<u8>, GrpcError> {
        match self.grpc_status {
            Some((0, _)) => message(&self.answer).map(|at| self.answer[at].to_vec()),
            Some((code, text)) => Err(GrpcError::Status(code, text)),
            None if self.http_status == 200 => Err(broken("an answer without grpc-status")),
            None => Err(GrpcError::Http(self.http_status)),
        }
    }
}

/// The place of the one message of an answer.
fn message(answer: &[u8]) -> Result<Range<usize>, GrpcError> {
    let &[packed, a, b, c, d, ..] = answer else { return Err(broken("an answer without a message")) };
    let end = PREFIX + u32::from_be_bytes([a, b, c, d]) as usize;
    if packed != 0 || end > answer.len() {
        return Err(broken("a message that is packed or cut"));
    }
    Ok(PREFIX..end)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::ClearText;

    /// Plays a server: takes a call and answers with this status, or with HTTP alone. What it got; and the connection, as one that is closed
    /// before all is read may end by a reset, which overtakes the answer.
    fn served(listener: &TcpListener, code: &str) -> (Vec<u8>, TcpStream) {
        let (mut socket, _) = listener.accept().unwrap();
        let mut codec = Connection::server(Arc::new(Http2Config::default()), Mono(0.0));
        (serve(&mut socket, &mut codec, code), socket)
    }

    fn serve(socket: &mut TcpStream, codec: &mut Connection, code: &str) -> Vec<u8> {
        let (mut head, mut scratch) = (Head::with_limits(HeadLimits::default()), Http2Scratch::default());
        let (mut body, mut buffer, mut ended) = (Vec::new(), vec![0; 1 << 16], None);
        while ended.is_none() {
            let read = socket.read(&mut buffer).unwrap();
            assert!(read > 0, "the client has gone");
            let mut at = 0;
            loop {
                let step = codec.receive(&buffer[at..read], Mono(0.0), &mut head, &mut scratch);
                let piece = &buffer[at..read];
                at += step.consumed;
                let is_none = matches!(step.event, Http2Event::None);
                if let Http2Event::Data { stream, body: range, end } = step.event {
                    codec.consumed(stream, range.len());
                    body.extend_from_slice(&piece[range]);
                    ended = end.then_some(stream);
                }
                if is_none && at == read {
                    break;
                }
            }
            codec.flush();
            socket.write_all(codec.output()).unwrap();
            codec.wrote(codec.output().len());
        }
        let stream = ended.unwrap();
        let mut response = Head::with_limits(HeadLimits::default());
        response.start_response(b"HTTP/2.0", if code.is_empty() { 404 } else { 200 }).unwrap();
        codec.send_head(stream, &response, code.is_empty());
        let mut out = codec.output().to_vec();
        codec.wrote(out.len());
        if !code.is_empty() {
            out.extend(codec.send_data(stream, 7, false).unwrap());
            out.extend(b"\0\0\0\0\x02hi");
            let mut trailers = Head::with_limits(HeadLimits::default());
            trailers.append("grpc-status", code.as_bytes()).unwrap();
            trailers.append("grpc-message", b"why").unwrap();
            codec.send_trailers(stream, &trailers);
            out.extend(codec.output());
        }
        socket.write_all(&out).unwrap();
        body
    }

    fn called(code: &str, message: &[u8]) -> (Result<Vec<u8>, String>, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let server = scope.spawn(|| served(&listener, code));
            let target = WebTarget::parse(&format!("http://{address}/"), ClearText::Anywhere).unwrap();
            let mut channel = GrpcChannel::new(TcpStream::connect(address).unwrap());
            let what = GrpcCall { path: "/a.B/C", fields: &[("x-key".into(), "v".into())], message };
            let answer = channel.call(&target, &what).map_err(|error| error.to_string());
            (answer, server.join().unwrap().0)
        })
    }

    #[test]
    fn a_message_goes_there_and_one_comes_back() {
        let (answer, got) = called("0", b"hello");
        assert_eq!((answer, got), (Ok(b"hi".to_vec()), b"\0\0\0\0\x05hello".to_vec()));
    }

    #[test]
    fn one_connection_has_many_calls() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let (mut socket, _) = listener.accept().unwrap();
                let mut codec = Connection::server(Arc::new(Http2Config::default()), Mono(0.0));
                ["0", "14", "0"].map(|code| serve(&mut socket, &mut codec, code).len())
            });
            let target = WebTarget::parse(&format!("http://{address}/"), ClearText::Anywhere).unwrap();
            let mut channel = GrpcChannel::new(TcpStream::connect(address).unwrap());
            let mut called = |message| {
                assert!(channel.is_open());
                channel.call(&target, &GrpcCall { path: "/a.B/C", fields: &[], message }).is_ok()
            };
            assert_eq!([called(b"1"), called(b"22"), called(&[7; 200_000])], [true, false, true]);
            assert_eq!(server.join().unwrap(), [6, 7, 200_005]);
            // Nobody is there any more: the call says so, and doesn't wait.
            let gone = channel.call(&target, &GrpcCall { path: "/a.B/C", fields: &[], message: b"" });
            assert!(matches!(gone, Err(GrpcError::Io(_))), "{gone:?}");
        });
    }

    #[test]
    fn a_message_larger_than_all_windows_arrives_whole() {
        let long = vec![7; 300_000];
        let (answer, got) = called("0", &long);
        assert_eq!((answer, got.len()), (Ok(b"hi".to_vec()), 300_005));
        assert!(got[5..].iter().all(|&byte| byte == 7));
    }

    #[test]
    fn a_call_that_fails_says_why() {
        assert_eq!(called("14", b"").0, Err("the call failed with code 14: why".to_owned()));
        assert_eq!(called("", b"").0, Err("answers 404, not in gRPC".to_owned()));
        assert!(GrpcError::Status(14, String::new()).is_passing() && !GrpcError::Status(3, String::new()).is_passing());
    }
}
