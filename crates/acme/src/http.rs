// SPDX-License-Identifier: BSD-2-Clause
//! ACME's requests by [`webclient`]. They run in a process that does nothing else.

use std::cell::Cell;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http_body::Body;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use tls::origin::TlsOrigin;
use tls::roots::Roots;
use tls::verify::Verify;
use webclient::{ClearText, WebResponse, WebTarget, connect, in_words, talk};

use crate::certificate::printable;

/// Time for one request, connecting included.
const REQUEST_TIME: Duration = Duration::from_secs(60);
/// Sessions with the CA that are remembered.
const SESSIONS: usize = 8;

thread_local! {
    /// The last answer that was an error, as far as it says when to come again.
    static RETRY_AFTER: Cell<Option<Duration>> = const { Cell::new(None) };
}

pub fn take_retry_after() -> Option<Duration> {
    RETRY_AFTER.take()
}

/// The CA, or the way to it, doesn't work: no fault of the name that was asked for.
#[derive(Debug)]
pub struct CaTrouble(pub String);

impl fmt::Display for CaTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for CaTrouble {}

/// The host and port that a URL leads to. In clear only to this machine: what a CA says must be its own word.
///
/// # Errors
/// The reason why nobody can be asked there.
pub fn target(url: &str) -> Result<WebTarget, String> {
    WebTarget::parse(url, ClearText::Loopback)
}

pub struct AcmeClient {
    tls: Arc<tls::TlsClient>,
}

impl AcmeClient {
    /// One that trusts these certificates in PEM, or the system's.
    ///
    /// # Errors
    /// They can't be read, or there are none.
    pub fn new(trusted: Option<&str>) -> Result<AcmeClient, String> {
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
        let ca = TlsOrigin { name: String::new(), sni: true, verify, roots, revoked: None, certificate: None };
        Ok(AcmeClient { tls: ca.client(SESSIONS)? })
    }

    fn exchange(&self, request: &http::Request<()>, body: &[u8]) -> Result<http::Response<Bytes>, CaTrouble> {
        let url = request.uri().to_string();
        let target = target(&url).map_err(|reason| CaTrouble(format!("{}: {reason}", printable(&url))))?;
        let told = |error: io::Error| CaTrouble(format!("{}: {}", target.authority, in_words(&error)));
        let until = Instant::now() + REQUEST_TIME;
        let bytes = request_bytes(request, &target, body);
        let is_head = request.method() == http::Method::HEAD;
        let link = connect(&target, &self.tls, until).map_err(told)?;
        let answer = talk(link, &bytes, is_head).and_then(response).map_err(told)?;
        judge(answer, &target)
    }
}

impl HttpClient for AcmeClient {
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

fn request_bytes(request: &http::Request<()>, target: &WebTarget, body: &[u8]) -> Vec<u8> {
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

fn response(answer: WebResponse) -> io::Result<http::Response<Bytes>> {
    let mut response = http::Response::builder().status(answer.head.status());
    for field in answer.head.iter() {
        response = response.header(field.name(), field.value());
    }
    response.body(answer.body.into()).map_err(io::Error::other)
}

/// An answer that is an error, and not ACME's way to say so, is trouble with the CA.
fn judge(response: http::Response<Bytes>, target: &WebTarget) -> Result<http::Response<Bytes>, CaTrouble> {
    let status = response.status();
    if status.as_u16() < 400 {
        return Ok(response);
    }
    RETRY_AFTER.set(response.headers().get("retry-after").and_then(|value| retry_after(value.to_str().ok()?)));
    let kind = response.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    match kind.contains("json") {
        true => Ok(response),
        false => Err(CaTrouble(format!("{}: answers {status}", target.authority))),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use testkit_tls::{NAME, TlsWorld};
    use tls::Over;
    use webclient::{Timed, WebLink};

    /// Asks a CA that answers with these bytes over TLS, and ends that in order or not: what came of it.
    fn asked(
        world: &TlsWorld,
        trusted: &str,
        name: &str,
        answer: &[u8],
        ends_in_order: bool,
    ) -> Result<String, String> {
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
        let client = AcmeClient::new(Some(trusted))?;
        let socket = Timed::new(socket, Instant::now() + REQUEST_TIME);
        let link = WebLink::Sealed(Box::new(Over::client(socket, &client.tls, name).unwrap()));
        let got = talk(link, b"GET / HTTP/1.1\r\n\r\n", false);
        ca.join().unwrap();
        got.map(|answer| String::from_utf8(answer.body).unwrap()).map_err(|error| in_words(&error))
    }

    #[test]
    fn a_ca_is_believed_by_its_authority_and_its_name() {
        let (world, answer) = (TlsWorld::new(), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        let trusted = world.roots_pem();
        assert_eq!(asked(&world, &trusted, NAME, answer, true), Ok("hi".to_owned()));
        assert!(asked(&world, &trusted, "other.example", answer, true).is_err());
        assert!(asked(&world, &TlsWorld::new().roots_pem(), NAME, answer, true).is_err());
    }

    #[test]
    fn an_answer_that_ends_with_its_connection_needs_the_cas_word() {
        let (world, answer) = (TlsWorld::new(), b"HTTP/1.0 200 OK\r\n\r\nhi");
        assert_eq!(asked(&world, &world.roots_pem(), NAME, answer, true), Ok("hi".to_owned()));
        assert_eq!(asked(&world, &world.roots_pem(), NAME, answer, false), Err("the connection is cut off".to_owned()));
    }

    #[test]
    fn no_certificate_is_no_authority() {
        let refused = |pem| AcmeClient::new(Some(pem)).map(|_| ()).unwrap_err();
        assert!(refused("junk").starts_with("no certificate in it"));
        let empty = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n";
        assert_eq!(refused(empty), "none of the certificates can be trusted");
    }

    #[test]
    fn an_error_that_is_not_acmes_is_the_cas_trouble() {
        let target = target("https://ca.example/x").unwrap();
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
    fn a_request_names_its_host_and_its_length() {
        let request = http::Request::post("https://ca.example/new")
            .header("content-type", "application/jose+json")
            .body(())
            .unwrap();
        let bytes = request_bytes(&request, &target("https://ca.example/new").unwrap(), b"{}");
        let text = "POST /new HTTP/1.1\r\nHost: ca.example\r\nConnection: close\r\nContent-Length: 2\r\ncontent-type: application/jose+json\r\n\r\n{}";
        assert_eq!(String::from_utf8(bytes).unwrap(), text);
    }
}
