// SPDX-License-Identifier: BSD-2-Clause
//! A client for the few requests that ACME takes: one connection each, blocking, bounded in time and size. It runs in a process that
//! does nothing else.

use std::cell::Cell;
use std::error::Error as StdError;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::Uri;
use http_body::Body;
use http1::{Decoder, Limits, Progress, Step, parse_response, response_framing};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use message::{Head, HeadLimits};
use tls::Over;
use tls::origin::Origin;
use tls::roots::Roots;
use tls::verify::Verify;

use crate::certificate::printable;

/// For one address of the CA's.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// For one request, connecting included.
const REQUEST_TIME: Duration = Duration::from_secs(60);
/// Sessions with the CA that are remembered.
const SESSIONS: usize = 8;
/// The longest answer.
const LONGEST_BODY: usize = 1 << 20;

thread_local! {
    /// What the last answer that was an error said of when to come again.
    static RETRY_AFTER: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// How long the last answer on this thread that was an error asks to wait.
pub fn take_retry_after() -> Option<Duration> {
    RETRY_AFTER.take()
}

/// The CA, or the way to it, doesn't work: no fault of the name that was asked for.
#[derive(Debug)]
pub struct Trouble(pub String);

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Trouble {}

/// Where a URL leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    is_tls: bool,
    /// Without brackets.
    host: String,
    port: u16,
    /// The Host field.
    authority: String,
    path: String,
}

impl Target {
    /// Takes a URL apart. In clear only to this machine: what a CA says must be its own word.
    ///
    /// # Errors
    /// Why nobody can be asked there.
    pub fn of(url: &str) -> Result<Target, String> {
        let uri: Uri = url.parse().map_err(|_| "not a URL".to_owned())?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("not an https URL".to_owned()),
        };
        let authority = uri.authority().filter(|a| !a.as_str().contains('@')).ok_or("no host in it")?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err("no host in it".to_owned());
        }
        if !is_tls && !host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()) {
            return Err("not an https URL (without TLS only a loopback address can be asked)".to_owned());
        }
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Target { is_tls, host, port, authority: authority.as_str().to_owned(), path })
    }
}

/// The client.
pub struct Client {
    tls: Arc<tls::Client>,
}

impl Client {
    /// One that trusts these certificates in PEM, or the system's.
    ///
    /// # Errors
    /// They can't be read, or there are none.
    pub fn new(trusted: Option<&str>) -> Result<Client, String> {
        let roots = match trusted {
            Some(pem) => Roots::from_pem(pem.as_bytes()).map_err(|error| error.to_string())?,
            None => Roots::system(),
        };
        if roots.anchors().is_empty() {
            return Err(match trusted {
                Some(_) => "none of the certificates can be trusted".to_owned(),
                None => "this system trusts no certificate authority (Debian's package is ca-certificates)".to_owned(),
            });
        }
        let verify = Verify::ChainAndName;
        let ca = Origin { name: String::new(), sni: true, verify, roots, revoked: None, certificate: None };
        Ok(Client { tls: ca.client(SESSIONS)? })
    }

    fn exchange(&self, request: &http::Request<()>, body: &[u8]) -> Result<http::Response<Bytes>, Trouble> {
        let url = request.uri().to_string();
        let target = Target::of(&url).map_err(|reason| Trouble(format!("{}: {reason}", printable(&url))))?;
        let told = |error: io::Error| Trouble(format!("{}: {}", target.authority, in_words(&error)));
        let until = Instant::now() + REQUEST_TIME;
        let socket = connect(&target, until).map_err(told)?;
        let bytes = request_bytes(request, &target, body);
        let is_head = request.method() == http::Method::HEAD;
        match target.is_tls {
            true => {
                let over = Over::client(socket, &self.tls, &target.host).map_err(io::Error::other).map_err(told)?;
                talk(Sealed(over), &bytes, is_head).map_err(told)
            }
            false => talk(socket, &bytes, is_head).map_err(told),
        }
        .and_then(|response| judge(response, &target))
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: http::Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (parts, mut body) = request.into_parts();
        let bytes = bytes_of(&mut body);
        let request = http::Request::from_parts(parts, ());
        // Nothing else runs on this thread: it may wait here as well as anywhere.
        let answer = self.exchange(&request, &bytes).map_err(|trouble| Error::Other(Box::new(trouble)));
        Box::pin(std::future::ready(answer.map(|response| {
            let (parts, body) = response.into_parts();
            BytesResponse { parts, body: Box::new(body) }
        })))
    }
}

/// A request's body: one piece, which is at hand.
fn bytes_of(body: &mut BodyWrapper<Bytes>) -> Bytes {
    match Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        Poll::Ready(_) | Poll::Pending => Bytes::new(),
    }
}

/// A socket, each use of which ends by a time.
struct Timed {
    socket: TcpStream,
    until: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Timed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(buf)
    }
}

impl Write for Timed {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(buf)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// What ends without the CA's word for it is no answer.
struct Sealed(Over<Timed>);

impl Read for Sealed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buf)? {
            0 if self.0.was_cut() => Err(junk("the connection is cut off")),
            count => Ok(count),
        }
    }
}

impl Write for Sealed {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn connect(target: &Target, until: Instant) -> io::Result<Timed> {
    const MOST: usize = 8;
    let addresses: Vec<SocketAddr> = (target.host.as_str(), target.port).to_socket_addrs()?.take(MOST).collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address");
    for address in addresses {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&address, left.min(CONNECT_TIME)) {
            Ok(socket) => return Ok(Timed { socket, until }),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn request_bytes(request: &http::Request<()>, target: &Target, body: &[u8]) -> Vec<u8> {
    let mut out =
        format!("{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", request.method(), target.path, target.authority);
    if request.method() == http::Method::POST {
        out.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    let mut out = out.into_bytes();
    for (name, value) in request.headers() {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out
}

fn junk(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Sends a request and reads the answer.
fn talk(mut stream: impl Read + Write, request: &[u8], is_head: bool) -> io::Result<http::Response<Bytes>> {
    stream.write_all(request)?;
    stream.flush()?;
    let limits = Limits::default();
    let mut head = Head::with_limits(HeadLimits::default());
    let mut input = Vec::new();
    loop {
        match parse_response(&input, &limits, &mut head) {
            Ok(Progress::Complete(parsed)) => {
                input.drain(..parsed.consumed);
                // Interim responses (RFC 9110 15.2) go before.
                if head.status() >= 200 {
                    break;
                }
            }
            Ok(Progress::Idle | Progress::Incomplete) => more(&mut stream, &mut input)?,
            Ok(Progress::Http2Preface) | Err(_) => return Err(junk("an answer that is no HTTP/1")),
        }
    }
    let framing = response_framing(&head, is_head).map_err(|error| junk(error.text()))?;
    let body = read_body(&mut stream, input, Decoder::response(framing))?;
    let mut response = http::Response::builder().status(head.status());
    for field in head.iter() {
        response = response.header(field.name(), field.value());
    }
    response.body(body.into()).map_err(io::Error::other)
}

fn more(stream: &mut impl Read, input: &mut Vec<u8>) -> io::Result<()> {
    let mut buf = [0; 8192];
    match stream.read(&mut buf)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        n => {
            input.extend_from_slice(&buf[..n]);
            Ok(())
        }
    }
}

fn read_body(stream: &mut impl Read, mut input: Vec<u8>, mut decoder: Decoder) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        match decoder.decode(&input).map_err(|error| junk(error.text()))? {
            Step::End { .. } => return Ok(body),
            Step::Data(range) => {
                body.extend_from_slice(&input[range.clone()]);
                input.drain(..range.end);
                if body.len() > LONGEST_BODY {
                    return Err(junk("an answer of more than 1 MB"));
                }
            }
            Step::More { consumed } => {
                input.drain(..consumed);
                match more(stream, &mut input) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        decoder.end_of_input().map_err(|error| junk(error.text()))?;
                        return Ok(body);
                    }
                    read => read?,
                }
            }
        }
    }
}

/// An answer that is an error, and not ACME's way to say so, is trouble with the CA.
fn judge(response: http::Response<Bytes>, target: &Target) -> Result<http::Response<Bytes>, Trouble> {
    let status = response.status();
    if status.as_u16() < 400 {
        return Ok(response);
    }
    RETRY_AFTER.set(response.headers().get("retry-after").and_then(|value| retry_after(value.to_str().ok()?)));
    let kind = response.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    match kind.contains("json") {
        true => Ok(response),
        false => Err(Trouble(format!("{}: answers {status}", target.authority))),
    }
}

/// Seconds, or a date (RFC 9110 10.2.3).
fn retry_after(value: &str) -> Option<Duration> {
    match value.trim().parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let date = message::date::parse(value.as_bytes())?;
            crate::talk::time(date.0).duration_since(SystemTime::now()).ok()
        }
    }
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "does not answer in time".to_owned(),
        io::ErrorKind::UnexpectedEof => "closes before it has answered".to_owned(),
        _ => printable(&error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use std::net::TcpListener;

    use tls::testing::{NAME, World};

    /// Asks a CA that answers with these bytes over TLS, and ends that in order or not: what came of it.
    fn asked(world: &World, trusted: &str, name: &str, answer: &[u8], ends_in_order: bool) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = world.both().0.unwrap();
        let answer = answer.to_vec();
        let ca = std::thread::spawn(move || {
            let mut over = Over::new(listener.accept().unwrap().0, server);
            if over.read(&mut [0; 1000]).is_ok() {
                over.write_all(&answer).unwrap();
                over.flush().unwrap();
                if ends_in_order {
                    over.close();
                }
            }
        });
        let client = Client::new(Some(trusted))?;
        let socket = Timed { socket, until: Instant::now() + REQUEST_TIME };
        let got = talk(Sealed(Over::client(socket, &client.tls, name).unwrap()), b"GET / HTTP/1.1\r\n\r\n", false);
        ca.join().unwrap();
        got.map(|answer| String::from_utf8(answer.body().to_vec()).unwrap()).map_err(|error| in_words(&error))
    }

    #[test]
    fn a_ca_is_believed_by_its_authority_and_its_name() {
        let (world, answer) = (World::new(), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        let trusted = world.roots_pem();
        assert_eq!(asked(&world, &trusted, NAME, answer, true), Ok("hi".to_owned()));
        assert!(asked(&world, &trusted, "other.example", answer, true).is_err());
        assert!(asked(&world, &World::new().roots_pem(), NAME, answer, true).is_err());
    }

    #[test]
    fn an_answer_that_ends_with_its_connection_needs_the_cas_word() {
        let (world, answer) = (World::new(), b"HTTP/1.0 200 OK\r\n\r\nhi");
        assert_eq!(asked(&world, &world.roots_pem(), NAME, answer, true), Ok("hi".to_owned()));
        assert_eq!(asked(&world, &world.roots_pem(), NAME, answer, false), Err("the connection is cut off".to_owned()));
    }

    #[test]
    fn no_certificate_is_no_authority() {
        let refused = |pem| Client::new(Some(pem)).map(|_| ()).unwrap_err();
        assert!(refused("junk").starts_with("no certificate in it"));
        let empty = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n";
        assert_eq!(refused(empty), "none of the certificates can be trusted");
    }

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
                .map(|r| (r.status().as_u16(), r.body().to_vec()))
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
        let mut long = b"HTTP/1.0 200 OK\r\n\r\n".to_vec();
        long.resize(LONGEST_BODY + 100, b'x');
        assert_eq!(
            talk(Fake(Cursor::new(long), 65_536), b"", false).unwrap_err().to_string(),
            "an answer of more than 1 MB"
        );
    }

    #[test]
    fn an_error_that_is_not_acmes_is_the_cas_trouble() {
        let target = Target::of("https://ca.example/x").unwrap();
        let response = |status: u16, kind: &str| {
            http::Response::builder()
                .status(status)
                .header("content-type", kind)
                .header("retry-after", "7")
                .body(Bytes::new())
                .unwrap()
        };
        assert!(judge(response(429, "application/problem+json"), &target).is_ok());
        assert_eq!(take_retry_after(), Some(Duration::from_secs(7)));
        let trouble = judge(response(503, "text/html"), &target).unwrap_err();
        assert_eq!(trouble.to_string(), "ca.example: answers 503 Service Unavailable");
    }

    #[test]
    fn urls_are_https_or_on_this_machine() {
        let target = Target::of("https://[2001:db8::1]:14000/dir?a").unwrap();
        assert_eq!(
            (target.host.as_str(), target.port, target.authority.as_str(), target.path.as_str()),
            ("2001:db8::1", 14000, "[2001:db8::1]:14000", "/dir?a")
        );
        assert_eq!(Target::of("http://127.0.0.1/").map(|t| t.port), Ok(80));
        for url in ["http://ca.example/", "ftp://x/", "x", "https:///x", "https://u@h/", "/x", "http://localhost/"] {
            assert!(Target::of(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_request_names_its_host_and_its_length() {
        let request = http::Request::post("https://ca.example/new")
            .header("content-type", "application/jose+json")
            .body(())
            .unwrap();
        let bytes = request_bytes(&request, &Target::of("https://ca.example/new").unwrap(), b"{}");
        let text = "POST /new HTTP/1.1\r\nHost: ca.example\r\nConnection: close\r\nContent-Length: 2\r\ncontent-type: application/jose+json\r\n\r\n{}";
        assert_eq!(String::from_utf8(bytes).unwrap(), text);
    }
}
