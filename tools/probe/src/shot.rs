// SPDX-License-Identifier: BSD-2-Clause
//! One request on a connection of its own: how long each part of it took, and which packets were sent again.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http1::{FramingDecoder, HeadProgress, Http1Limits};
use message::Head;
use sys::tcp::{Losses, SocketNumber};
use tls::Over;

use crate::h2::ProbeExchange;

const READ: usize = 64 << 10;
const AGENT: &str = concat!("lacquer-probe/", env!("CARGO_PKG_VERSION"));
/// Least time given to a read that is due already.
const LEAST_WAIT: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
pub struct Shot {
    pub address: SocketAddr,
    /// The URL `http://HOST/PATH`, for people.
    pub url: String,
    pub host: String,
    pub path: String,
    pub tls: Option<Arc<tls::TlsClient>>,
    pub is_http2: bool,
    pub sni: String,
    /// Seconds since 1970 when it was sent.
    pub begun_at: u64,
    /// The moment at which it was to begin.
    pub due: Instant,
    pub timeout: Duration,
}

#[derive(Clone, Debug)]
pub struct ProbeSample {
    pub shot: Shot,
    /// Time from when it was due until the connection was there.
    pub connected: Option<Duration>,
    /// Time that TLS' handshake took, from the connection on.
    pub handshake: Option<Duration>,
    /// Version and cipher that were agreed on, and whether an earlier session was taken up.
    pub agreed: Option<(String, bool)>,
    pub reason: Option<String>,
    pub first_byte: Option<Duration>,
    /// Time until the answer was whole, or the failure.
    pub total: Duration,
    pub result: Result<u16, ShotFailure>,
    pub losses: Option<LossesSeen>,
}

/// Packets of a connection that were sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LossesSeen {
    /// Attempts to connect that stayed without an answer.
    pub syns: u32,
    /// Parts of the request.
    pub request: u32,
    /// Parts of the answer that came before an earlier one.
    pub answer: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ShotFailure {
    Refused,
    Unreachable,
    ConnectTimeout,
    HandshakeTimeout,
    Tls,
    Timeout,
    Reset,
    Closed,
    NotHttp,
    NotHttp2,
    /// No descriptor, port or thread is left here.
    Exhausted,
}

impl ShotFailure {
    pub fn as_str(self) -> &'static str {
        match self {
            ShotFailure::Refused => "refused",
            ShotFailure::Unreachable => "unreachable",
            ShotFailure::ConnectTimeout => "connect timeout",
            ShotFailure::HandshakeTimeout => "TLS handshake timeout",
            ShotFailure::Tls => "TLS failed",
            ShotFailure::Timeout => "timeout",
            ShotFailure::Reset => "reset",
            ShotFailure::Closed => "closed early",
            ShotFailure::NotHttp => "no HTTP/1 answer",
            ShotFailure::NotHttp2 => "no HTTP/2 answer",
            ShotFailure::Exhausted => "nothing left here",
        }
    }

    fn of(error: &io::Error) -> ShotFailure {
        match error.kind() {
            _ if tls::over::reason(error).is_some() => ShotFailure::Tls,
            ErrorKind::ConnectionRefused => ShotFailure::Refused,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => ShotFailure::Reset,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => ShotFailure::Timeout,
            ErrorKind::UnexpectedEof => ShotFailure::Closed,
            ErrorKind::InvalidData => ShotFailure::NotHttp,
            ErrorKind::AddrNotAvailable => ShotFailure::Exhausted,
            _ if matches!(error.raw_os_error(), Some(libc_like::EMFILE | libc_like::ENFILE)) => ShotFailure::Exhausted,
            _ => ShotFailure::Unreachable,
        }
    }
}

/// Numbers of errors that std has no names for.
mod libc_like {
    pub const ENFILE: i32 = 23;
    pub const EMFILE: i32 = 24;
}

impl Shot {
    pub fn fire(self) -> ProbeSample {
        let mut sample = self.failed(ShotFailure::Unreachable);
        sample.result = sample.exchange();
        sample.total = sample.shot.due.elapsed();
        sample
    }

    /// The sample of a request that couldn't be sent.
    pub fn failed(self, failure: ShotFailure) -> ProbeSample {
        ProbeSample {
            total: self.due.elapsed(),
            connected: None,
            handshake: None,
            agreed: None,
            reason: None,
            first_byte: None,
            result: Err(failure),
            losses: None,
            shot: self,
        }
    }

    fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.due.elapsed()).max(LEAST_WAIT)
    }
}

impl ProbeSample {
    fn exchange(&mut self) -> Result<u16, ShotFailure> {
        let stream = TcpStream::connect_timeout(&self.shot.address, self.shot.left()).map_err(|error| {
            // The kernel gives up some day, too.
            match error.kind() {
                ErrorKind::TimedOut | ErrorKind::WouldBlock => ShotFailure::ConnectTimeout,
                _ => ShotFailure::of(&error),
            }
        })?;
        self.connected = Some(self.shot.due.elapsed());
        let socket = SocketNumber::new(stream.as_raw_fd());
        let at_connect = socket.losses().ok();
        let answer = match self.shot.tls.clone() {
            None => self.ask(&stream, &stream).map_err(|error| ShotFailure::of(&error)),
            Some(client) => self.ask_by_tls(&client, &stream),
        };
        let answer = answer.map_err(|failure| match failure {
            ShotFailure::NotHttp if self.shot.is_http2 => ShotFailure::NotHttp2,
            failure => failure,
        });
        self.losses = at_connect.zip(socket.losses().ok()).map(|(before, after)| LossesSeen::between(&before, &after));
        answer
    }

    fn ask_by_tls(&mut self, client: &Arc<tls::TlsClient>, stream: &TcpStream) -> Result<u16, ShotFailure> {
        let mut over = Over::client(stream, client, &self.shot.sni).map_err(|error| {
            self.reason = Some(error.to_string());
            ShotFailure::Tls
        })?;
        let result = self.shake(&mut over, stream).map_err(|error| match ShotFailure::of(&error) {
            ShotFailure::Timeout => (ShotFailure::HandshakeTimeout, error),
            failure => (failure, error),
        });
        let result = result
            .and_then(|()| self.ask(stream, &mut over).map_err(|error| (ShotFailure::of(&error), error)))
            .map_err(|(failure, error)| {
                self.reason = tls::over::reason(&error).map(ToString::to_string);
                failure
            });
        over.close();
        result
    }

    fn shake(&mut self, over: &mut Over<&TcpStream>, stream: &TcpStream) -> io::Result<()> {
        let begun = Instant::now();
        stream.set_nodelay(true)?;
        loop {
            stream.set_write_timeout(Some(self.shot.left()))?;
            stream.set_read_timeout(Some(self.shot.left()))?;
            if over.shake()? {
                break;
            }
            if self.shot.due.elapsed() >= self.shot.timeout {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        self.handshake = Some(begun.elapsed());
        self.agreed = over.info().map(|info| (format!("{} {}", info.version.name(), info.cipher()), info.resumed));
        Ok(())
    }

    /// Over `stream`, by whatever carries bytes there.
    fn ask(&mut self, stream: &TcpStream, mut carrier: impl Read + Write) -> io::Result<u16> {
        // Small, and it is one packet.
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(self.shot.left()))?;
        let mut exchange = if self.shot.is_http2 { Some(ProbeExchange::begin(&self.shot, AGENT)?) } else { None };
        match &mut exchange {
            None => {
                let Shot { path, host, .. } = &self.shot;
                let head =
                    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {AGENT}\r\nConnection: close\r\n\r\n");
                carrier.write_all(head.as_bytes())?;
            }
            Some(exchange) => say(exchange, &mut carrier)?,
        }
        carrier.flush()?;
        let (mut answer, mut buffer) = (Answer::default(), vec![0; READ]);
        loop {
            stream.set_read_timeout(Some(self.shot.left()))?;
            let n = carrier.read(&mut buffer)?;
            if n > 0 {
                self.first_byte.get_or_insert_with(|| self.shot.due.elapsed());
            }
            let status = match &mut exchange {
                None => answer.take(&buffer[..n])?,
                Some(exchange) => exchange.take(&buffer[..n], self.shot.due.elapsed())?,
            };
            if let Some(status) = status {
                return Ok(status);
            }
            if self.shot.due.elapsed() >= self.shot.timeout {
                return Err(ErrorKind::TimedOut.into());
            }
            if let Some(exchange) = &mut exchange {
                say(exchange, &mut carrier)?;
            }
        }
    }
}

/// Writes what HTTP/2 has to say: the request, and then what keeps the connection going.
fn say(exchange: &mut ProbeExchange, carrier: &mut impl Write) -> io::Result<()> {
    let output = exchange.output();
    if !output.is_empty() {
        carrier.write_all(output)?;
        carrier.flush()?;
        exchange.wrote();
    }
    Ok(())
}

impl LossesSeen {
    fn between(before: &Losses, after: &Losses) -> LossesSeen {
        LossesSeen {
            syns: before.total_retrans,
            request: after.total_retrans.saturating_sub(before.total_retrans),
            answer: after.rcv_ooopack,
        }
    }
}

#[derive(Default)]
struct Answer {
    head: Vec<u8>,
    body: Option<(u16, FramingDecoder)>,
}

impl Answer {
    /// Takes what came, nothing at the end of the connection: the status, once the answer is whole.
    fn take(&mut self, bytes: &[u8]) -> io::Result<Option<u16>> {
        let broken = |_| io::Error::from(ErrorKind::InvalidData);
        let Some((status, decoder)) = &mut self.body else { return self.take_head(bytes) };
        if bytes.is_empty() {
            decoder.end_of_input().map_err(|_| io::Error::from(ErrorKind::UnexpectedEof))?;
            return Ok(Some(*status));
        }
        let is_whole = decoder.skip(bytes).map_err(broken)?;
        Ok(is_whole.then_some(*status))
    }

    fn take_head(&mut self, bytes: &[u8]) -> io::Result<Option<u16>> {
        let broken = || io::Error::from(ErrorKind::InvalidData);
        if bytes.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.head.extend_from_slice(bytes);
        let limits = Http1Limits { lenient: true, ..Http1Limits::default() };
        loop {
            let mut head = Head::default();
            match http1::parse_response(&self.head, &limits, &mut head) {
                Ok(HeadProgress::Complete(parsed)) => {
                    let rest = self.head.split_off(parsed.consumed);
                    let status = head.status();
                    if (100..200).contains(&status) && status != 101 {
                        self.head = rest;
                        continue;
                    }
                    let framing = http1::response_framing(&head, false).map_err(|_| broken())?;
                    let mut decoder = FramingDecoder::response(framing);
                    let is_whole = decoder.skip(&rest).map_err(|_| broken())?;
                    self.body = Some((status, decoder));
                    return Ok(is_whole.then_some(status));
                }
                Ok(_) => return Ok(None),
                Err(_) => return Err(broken()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of an answer that is cut at every place.
    fn whole(text: &str) -> Vec<Result<Option<u16>, ErrorKind>> {
        let cut = |at: usize| {
            let mut answer = Answer::default();
            let (first, second) = text.as_bytes().split_at(at);
            for bytes in [first, second] {
                if !bytes.is_empty()
                    && let Some(status) = answer.take(bytes).map_err(|error| error.kind())?
                {
                    return Ok(Some(status));
                }
            }
            answer.take(b"").map_err(|error| error.kind())
        };
        let mut results: Vec<_> = (0..text.len()).map(cut).collect();
        results.dedup();
        results
    }

    #[test]
    fn answers_are_read_to_their_end() {
        assert_eq!(whole("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), [Ok(Some(200))]);
        assert_eq!(whole("HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"), [Ok(Some(404))]);
        assert_eq!(whole("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\nto the end"), [Ok(Some(200))]);
        assert_eq!(whole("HTTP/1.1 304 Same\r\n\r\n"), [Ok(Some(304))]);
        assert_eq!(whole("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"), [Err(ErrorKind::UnexpectedEof)]);
        assert_eq!(whole("SSH-2.0-OpenSSH\r\n\r\n"), [Err(ErrorKind::InvalidData)]);
    }
}
