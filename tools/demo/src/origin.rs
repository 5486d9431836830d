// SPDX-License-Identifier: BSD-2-Clause
//! The built-in origin's sockets: a small HTTP/1.1 server, a thread per connection, a bounded number of them.

use crate::pages::{self, DemoBody, DemoPage};
use crate::query::ResponseSpec;
use flate2::{Compression, write::GzEncoder};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const MAX_CONNECTIONS: usize = 512;
const MAX_HEAD: u64 = 64 << 10;
const MAX_BODY: u64 = 1 << 30;
const IDLE: Duration = Duration::from_secs(60);

pub struct DemoOrigin(SocketAddr);

impl DemoOrigin {
    /// Listens on a free port of the loopback address.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        thread::Builder::new().name("origin".into()).spawn(move || accept(&listener))?;
        Ok(DemoOrigin(address))
    }

    pub fn address(&self) -> SocketAddr {
        self.0
    }
}

fn accept(listener: &TcpListener) {
    let slots = Arc::new(());
    loop {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(Duration::from_millis(10)); // out of descriptors: try again, don't spin
            continue;
        };
        if Arc::strong_count(&slots) > MAX_CONNECTIONS {
            continue; // dropping it closes it
        }
        let slot = Arc::clone(&slots);
        let serve = move || {
            let _slot = slot;
            let _ = serve(&stream); // the peer went away: nobody is left to tell
        };
        let _ = thread::Builder::new().name("origin-conn".into()).spawn(serve);
    }
}

struct Request {
    method: String,
    path: String,
    query: String,
    /// Fit to be shown in a page.
    host: String,
    length: u64,
    visits: u32,
    gzip: bool,
    keep: bool,
}

fn serve(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(IDLE))?;
    stream.set_nodelay(true)?;
    let mut input = BufReader::new(stream);
    let mut output = BufWriter::new(stream);
    while let Some(request) = read_request(&mut input)? {
        io::copy(&mut (&mut input).take(request.length), &mut io::sink())?;
        let page = match ResponseSpec::parse(&request.query) {
            Ok(wanted) => pages::page(&request.path, wanted, &request.host, request.visits),
            Err(reason) => {
                pages::page("/any", ResponseSpec { status: Some(400), ttl: Some(0), ..ResponseSpec::default() }, "", 0)
                    .text(reason + "\n")
            }
        };
        thread::sleep(page.latency);
        answer(&mut output, &request, page)?;
        output.flush()?;
        if !request.keep {
            break;
        }
    }
    Ok(())
}

/// None at the end of the connection; an error for what is no request of ours.
fn read_request(input: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut head = input.take(MAX_HEAD);
    let mut line = String::new();
    if head.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let bad = || io::Error::from(io::ErrorKind::InvalidData);
    let mut words = line.split_whitespace();
    let (method, url) = (words.next().ok_or_else(bad)?.to_owned(), words.next().ok_or_else(bad)?);
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let mut r = Request {
        method,
        path: path.into(),
        query: query.into(),
        host: "127.0.0.1:6081".into(),
        length: 0,
        visits: 0,
        gzip: false,
        keep: words.next() == Some("HTTP/1.1"),
    };
    loop {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            return Err(bad());
        }
        let Some((name, value)) = line.split_once(':') else { return Ok(Some(r)) };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => r.length = value.parse().ok().filter(|&l| l <= MAX_BODY).ok_or_else(bad)?,
            "transfer-encoding" => r.keep = false, // the chunks stay unread, and the connection ends with the answer
            "host" if value.bytes().all(|c| c.is_ascii_alphanumeric() || b".-:[]".contains(&c)) => {
                r.host = value.into()
            }
            "connection" => r.keep &= !value.eq_ignore_ascii_case("close"),
            "accept-encoding" => r.gzip = value.contains("gzip"),
            "cookie" => r.visits = value.strip_prefix("visits=").and_then(|v| v.parse().ok()).unwrap_or(0),
            _ => {}
        }
    }
}

impl DemoPage {
    fn text(mut self, text: String) -> Self {
        self.body = DemoBody::Text(text);
        self
    }
}

fn answer(output: &mut impl Write, request: &Request, page: DemoPage) -> io::Result<()> {
    write!(output, "HTTP/1.1 {} {}\r\nServer: lacquer-demo\r\n", page.status, reason(page.status))?;
    page.fields.iter().try_for_each(|(name, value)| write!(output, "{name}: {value}\r\n"))?;
    if !request.keep {
        write!(output, "Connection: close\r\n")?;
    }
    if matches!(page.status, 204 | 304) {
        return write!(output, "\r\n");
    }
    let packed = page.gzip && request.gzip;
    if page.gzip {
        write!(output, "Vary: Accept-Encoding\r\n")?;
    }
    if packed {
        write!(output, "Content-Encoding: gzip\r\n")?;
    }
    let chunked = packed || page.chunked;
    match chunked {
        true => write!(output, "Transfer-Encoding: chunked\r\n\r\n")?,
        false => write!(output, "Content-Length: {}\r\n\r\n", page.body.len())?,
    }
    if request.method == "HEAD" {
        return Ok(());
    }
    match (packed, chunked) {
        (true, _) => {
            let mut zip = GzEncoder::new(Chunks(output), Compression::fast());
            page.body.write(&mut zip)?;
            zip.finish()?.0.write_all(b"0\r\n\r\n")
        }
        (false, true) => {
            page.body.write(&mut Chunks(output))?;
            output.write_all(b"0\r\n\r\n")
        }
        (false, false) => page.body.write(output),
    }
}

impl DemoBody {
    fn len(&self) -> u64 {
        match self {
            DemoBody::Text(t) => t.len() as u64,
            DemoBody::Pattern(n) => *n,
        }
    }

    fn write(&self, output: &mut impl Write) -> io::Result<()> {
        match self {
            DemoBody::Text(t) => output.write_all(t.as_bytes()),
            DemoBody::Pattern(n) => {
                let block: Vec<u8> = (0..16384u32).map(|i| b'a' + (i * i % 26) as u8).collect();
                let mut left = *n;
                while left > 0 {
                    let now = left.min(block.len() as u64);
                    output.write_all(&block[..now as usize])?;
                    left -= now;
                }
                Ok(())
            }
        }
    }
}

/// Every write as one chunk.
struct Chunks<'a, W: Write>(&'a mut W);

impl<W: Write> Write for Chunks<'_, W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if !data.is_empty() {
            write!(self.0, "{:x}\r\n", data.len())?;
            self.0.write_all(data)?;
            self.0.write_all(b"\r\n")?;
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "As You Wish",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `request`, gives the answer up to the end of the connection.
    fn ask(request: &str) -> String {
        let origin = DemoOrigin::start().expect("a free port");
        let mut stream = TcpStream::connect(origin.address()).expect("our own listener");
        stream.write_all(request.as_bytes()).expect("a connection");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer and the end");
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn check(url: &str, fields: &str, expect: &[&str]) {
        let got = ask(&format!("GET {url} HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n"));
        for text in expect {
            assert!(got.contains(text), "{url}: no {text:?} in {got:?}");
        }
    }

    #[test]
    fn answers() {
        check("/", "", &["HTTP/1.1 200 OK\r\n", "/img/12.svg", "Cache-Control: max-age=60"]);
        check("/", "Host: <b>\r\n", &["curl -i http://a/slow"]);
        check("/any?size=5", "", &["Content-Length: 5\r\n", "\r\n\r\nabejq"]);
        check("/any?size=5&chunked", "", &["Transfer-Encoding: chunked\r\n", "5\r\nabejq\r\n0\r\n\r\n"]);
        check("/any?size=5&gzip", "", &["Content-Length: 5\r\n", "Vary: Accept-Encoding\r\n"]);
        check("/any?size=5&gzip", "Accept-Encoding: gzip\r\n", &["Content-Encoding: gzip\r\n", "\r\n0\r\n\r\n"]);
        check("/any?status=204&size=9", "", &["HTTP/1.1 204 No Content\r\n"]);
        check("/any?size=x", "", &["HTTP/1.1 400 ", "wrong value: size=x"]);
        check("/cookie", "Cookie: visits=4\r\n", &["Set-Cookie: visits=5;", "visit number 5"]);
    }

    #[test]
    fn connections_are_kept() {
        let two = "GET /any?size=3 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxx\
                   HEAD /any?size=4 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let got = ask(two);
        assert!(got.contains("Content-Length: 3") && got.ends_with("Content-Length: 4\r\n\r\n"), "{got:?}");
    }
}
