// SPDX-License-Identifier: BSD-2-Clause
//! One request over a connection of its own, and its whole answer.

use std::net::SocketAddr;
use std::time::Duration;

use http1::{Decoder, Limits, Progress, Step, parse_response, response_framing};
use message::Head;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes of a body.
const BODY_BYTES: usize = 10_000_000;
const PIECE: usize = 16 * 1024;

#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) url: String,
    pub(crate) method: Vec<u8>,
    pub(crate) fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) body: Option<Vec<u8>>,
    /// How long it may take in all; zero: as long as it likes.
    pub(crate) limit: Duration,
    pub(crate) connect_limit: Duration,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) reason: Vec<u8>,
    pub(crate) fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

/// A URL taken apart.
#[derive(Debug, PartialEq)]
struct Place<'a> {
    host: &'a str,
    port: &'a str,
    /// As it stands in the URL: the Host field.
    authority: &'a str,
    path: String,
}

impl Default for Request {
    fn default() -> Self {
        let (limit, connect_limit) = (Duration::from_secs(30), Duration::from_secs(5));
        Request { url: String::new(), method: b"GET".to_vec(), fields: Vec::new(), body: None, limit, connect_limit }
    }
}

impl Request {
    pub(crate) fn unset(&mut self, name: &[u8]) {
        self.fields.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    }

    /// What is sent.
    fn bytes(&self, place: &Place<'_>) -> Vec<u8> {
        let mut out = [&self.method, &b" "[..], place.path.as_bytes(), b" HTTP/1.1\r\n"].concat();
        let mut line = |name: &[u8], value: &[u8]| out.extend([name, b": ", value, b"\r\n"].concat());
        if !self.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(b"host")) {
            line(b"Host", place.authority.as_bytes());
        }
        self.fields.iter().for_each(|(name, value)| line(name, value));
        line(b"Connection", b"close");
        if let Some(body) = &self.body {
            line(b"Content-Length", body.len().to_string().as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.body.as_deref().unwrap_or_default());
        out
    }
}

fn place(url: &str) -> Result<Place<'_>, &'static str> {
    let Some((scheme, rest)) = url.split_once("://") else { return Err("a URL begins with http://") };
    match scheme.to_ascii_lowercase().as_str() {
        "http" => {}
        "https" => return Err("https isn't built into Lacquer"),
        _ => return Err("a URL begins with http://"),
    }
    if url.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return Err("a URL has no blanks");
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.split('#').next().unwrap_or_default();
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, rest)| (host, rest.strip_prefix(':'))).ok_or("no host")?,
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() || host.contains('@') {
        return Err("no host");
    }
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok(Place { host, port: port.unwrap_or("80"), authority, path })
}

/// Sends it and reads the answer.
pub(crate) async fn ask(request: &Request) -> Result<Answer, String> {
    let place = place(&request.url)?;
    let exchange = async {
        let mut stream = connect(&place, request.connect_limit).await?;
        stream.write_all(&request.bytes(&place)).await.map_err(|why| why.to_string())?;
        read(&mut stream, request.method == b"HEAD").await
    };
    rt::timeout(request.limit, exchange).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

async fn connect(place: &Place<'_>, limit: Duration) -> Result<TcpStream, String> {
    let (host, port) = (place.host.to_owned(), place.port.to_owned());
    let found = rt::blocking(move || net::resolve::resolve_now(Some(&host), &port, false)).await;
    let addresses: Vec<SocketAddr> = found.map_err(|why| why.to_string())?;
    let mut last = "no address".to_owned();
    for address in addresses {
        match rt::timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(why)) => last = why.to_string(),
            Err(_) => last = "no connection in time".to_owned(),
        }
    }
    Err(last)
}

async fn more(stream: &mut TcpStream, input: &mut Vec<u8>) -> Result<bool, String> {
    input.reserve(PIECE);
    Ok(stream.read_buf(input).await.map_err(|why| why.to_string())? > 0)
}

async fn read(stream: &mut TcpStream, to_head: bool) -> Result<Answer, String> {
    let (limits, mut head, mut input) = (Limits::default(), Head::new(), Vec::new());
    loop {
        match parse_response(&input, &limits, &mut head).map_err(|why| format!("bad answer: {why:?}"))? {
            Progress::Complete(parsed) => {
                input.drain(..parsed.consumed);
                if head.status() >= 200 {
                    break;
                }
                head.clear();
            }
            Progress::Idle | Progress::Incomplete | Progress::Http2Preface => {
                if !more(stream, &mut input).await? {
                    return Err("the connection ended before an answer".to_owned());
                }
            }
        }
    }
    let framing = response_framing(&head, to_head).map_err(|why| format!("bad answer: {}", why.text()))?;
    let mut decoder = Decoder::response(framing);
    let mut body = Vec::new();
    while !decoder.is_complete() {
        match decoder.decode(&input).map_err(|why| format!("bad answer: {}", why.text()))? {
            Step::Data(range) => {
                body.extend_from_slice(&input[range.clone()]);
                input.drain(..range.end);
                if body.len() > BODY_BYTES {
                    return Err(format!("a body of more than {BODY_BYTES} bytes"));
                }
            }
            Step::End { .. } => break,
            Step::More { consumed } => {
                input.drain(..consumed);
                if !more(stream, &mut input).await? {
                    decoder.end_of_input().map_err(|why| format!("bad answer: {}", why.text()))?;
                    break;
                }
            }
        }
    }
    let fields = head.iter().map(|field| (field.name().to_vec(), field.value().to_vec())).collect();
    Ok(Answer { status: head.status(), reason: head.reason().to_vec(), fields, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let show = |url: &str| match place(url) {
            Ok(place) => format!("{} {} {} {}", place.host, place.port, place.authority, place.path),
            Err(why) => why.to_owned(),
        };
        assert_eq!(show("http://h/a?b#c"), "h 80 h /a?b");
        assert_eq!(show("HTTP://h:81?b"), "h 81 h:81 /?b");
        assert_eq!(show("http://[::1]:81"), "::1 81 [::1]:81 /");
        assert_eq!(show("https://h/"), "https isn't built into Lacquer");
        assert_eq!(["/a", "ftp://h"].map(show), ["a URL begins with http://"; 2]);
        assert_eq!(["http://", "http:///a", "http://u@h/", "http://[::1"].map(show), ["no host"; 4]);
        assert_eq!(show("http://h/a b"), "a URL has no blanks");
    }
}
