// SPDX-License-Identifier: BSD-2-Clause
//! Connections of browsers and scrapers: HTTP/1.1 with small limits, in clear text or over TLS, one task for each. [`crate::routes`]
//! handles the requests.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http1::{Framing, HeadProgress, Http1Limits};
use message::{Head, HeadLimits};
use net::{IoError, Stream};
use rt::Instant;
use tls::Single;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};

use crate::places::{Places, ViewerSlot};
use crate::routes::{self, Context, RouteAnswer};
use crate::sealing::PageTls;

/// Maximum sizes of a request's head and body.
const HEAD_BYTES: usize = 16 << 10;
const BODY_BYTES: u64 = 64 << 10;
/// Time limits: for a request to arrive, for an idle connection that has sent a request before, and for the client to take a write.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);
const IDLE_PATIENCE: Duration = Duration::from_secs(30);
const WRITE_PATIENCE: Duration = Duration::from_secs(20);
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 4096;
/// Send buffer of a connection. The kernel doubles the value.
const SEND_BUFFER: usize = 16 << 10;
const PAUSE: Duration = Duration::from_millis(100);
/// Interval of the empty comments by which a viewer's disconnection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct PageRequest {
    pub head: Head,
    pub body: Vec<u8>,
    /// True if the client has shown a valid certificate.
    pub is_known: bool,
}

/// A response whose body is complete.
#[derive(Debug)]
pub struct PageResponse {
    pub status: u16,
    pub content_type: &'static str,
    pub fields: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl PageResponse {
    pub fn new(status: u16, content_type: &'static str, body: impl Into<Vec<u8>>) -> PageResponse {
        PageResponse { status, content_type, fields: Vec::new(), body: body.into() }
    }

    /// A response of one line of text.
    pub fn text(status: u16, text: &str) -> PageResponse {
        PageResponse::new(status, "text/plain; charset=utf-8", format!("{text}\n"))
    }

    pub fn json(status: u16, value: &serde_json::Value) -> PageResponse {
        PageResponse::new(status, "application/json", value.to_string())
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> PageResponse {
        self.fields.push((name, value.into()));
        self
    }
}

/// Headers of each response: nothing is loaded from elsewhere, no other page can frame ours, and no cache keeps it.
const SAFETY: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'\r\n\
     X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n\
     Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\nCache-Control: no-store\r\n";

/// Accepts connections for ever, over TLS if `sealing` is set.
pub async fn serve(listener: TcpListener, sealing: Option<PageTls>, context: Rc<Context>) {
    let places = Places::default();
    loop {
        match listener.accept().await {
            Ok((stream, client)) => {
                let Some(place) = places.enter(client.ip()) else { continue };
                let (context, single) = (Rc::clone(&context), sealing.as_ref().map(PageTls::single));
                rt::spawn(async move {
                    tokio::select! {
                        // An error means that the client left or was too slow.
                        _ = begin(stream, single, &place, &context) => {}
                        // The connection was ended in favour of another one.
                        () = place.called() => {}
                    }
                });
            }
            Err(_) => {
                places.end_oldest();
                rt::sleep(PAUSE).await;
            }
        }
    }
}

async fn begin(stream: TcpStream, single: Option<Single>, place: &ViewerSlot, context: &Rc<Context>) -> io::Result<()> {
    let _ = stream.set_nodelay(true);
    // Limits the memory that the kernel uses for clients that don't read.
    let _ = socket2::SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER);
    let stream = Stream::Tcp(stream);
    let Some(single) = single else { return connection(stream, false, place, context).await };
    let handshake = single.handshake().map_err(io::Error::other)?;
    let deadline = Some(Instant::now() + HANDSHAKE_PATIENCE);
    match net::handshake::handshake(stream, handshake, Vec::new(), deadline).await {
        Ok((stream, info)) => connection(stream, info.peer_leaf().is_some(), place, context).await,
        Err(failed) => Err(io::Error::other(failed.error.to_string())),
    }
}

async fn connection(stream: Stream, is_known: bool, place: &ViewerSlot, context: &Rc<Context>) -> io::Result<()> {
    let mut input = Vec::new();
    let mut patience = HEAD_PATIENCE;
    loop {
        let request = match request(&stream, &mut input, is_known, patience).await {
            Ok(None) => return Ok(()),
            Err(BadRequest::Io(error)) => return Err(error),
            Err(BadRequest::Status(status, text)) => {
                return write(&stream, &head(&PageResponse::text(status, text), false, true)).await;
            }
            Ok(Some(request)) => request,
        };
        patience = IDLE_PATIENCE;
        let is_head = request.head.method() == b"HEAD";
        let goes_on = !request.head.get("connection").is_some_and(|value| value.eq_ignore_ascii_case(b"close"))
            && request.head.version() == message::HttpVersion::HTTP11;
        match routes::answer(context, &request).await {
            RouteAnswer::Whole(response) => {
                write(&stream, &head(&response, goes_on, !is_head)).await?;
                if !goes_on {
                    stream.shutdown_write();
                    return Ok(());
                }
            }
            RouteAnswer::Seconds(_) | RouteAnswer::Lines(_) if !place.stay() => {
                let text = "too many watch; close another window";
                return write(&stream, &head(&PageResponse::text(503, text), false, !is_head)).await;
            }
            RouteAnswer::Seconds(seconds) => return events(&stream, context, seconds).await,
            RouteAnswer::Lines(lines) => return follow(&stream, lines).await,
        }
    }
}

enum BadRequest {
    Status(u16, &'static str),
    Io(io::Error),
}

/// Reads the next request, which must begin within `patience`. `None`: the connection has ended.
async fn request(
    stream: &Stream,
    input: &mut Vec<u8>,
    is_known: bool,
    patience: Duration,
) -> Result<Option<PageRequest>, BadRequest> {
    let mut deadline = Instant::now() + patience;
    let limits = Http1Limits { head_bytes: HEAD_BYTES, ..Http1Limits::default() };
    let mut head = Head::with_limits(HeadLimits::default());
    let parsed = loop {
        head.clear();
        match http1::parse_request(input, &limits, &mut head) {
            Ok(HeadProgress::Complete(parsed)) => break parsed,
            Ok(HeadProgress::Idle | HeadProgress::Incomplete) => {}
            Ok(HeadProgress::Http2Preface) => return Err(BadRequest::Status(505, "HTTP/1.1 is spoken here")),
            Err(_) => return Err(BadRequest::Status(400, "that is no request")),
        }
        let is_first = input.is_empty();
        if !more(stream, input, deadline).await? {
            return Ok(None);
        }
        if is_first {
            deadline = Instant::now() + HEAD_PATIENCE;
        }
    };
    let length = match parsed.framing {
        Framing::None => 0,
        Framing::Length(length) if length <= BODY_BYTES => length as usize,
        Framing::Length(_) => return Err(BadRequest::Status(413, "that is too much")),
        Framing::Chunked | Framing::Eof => return Err(BadRequest::Status(411, "how long is it?")),
    };
    let whole = parsed.consumed + length;
    while input.len() < whole {
        if !more(stream, input, deadline).await? {
            return Ok(None);
        }
    }
    let body = input[parsed.consumed..whole].to_vec();
    input.drain(..whole);
    Ok(Some(PageRequest { head, body, is_known }))
}

async fn more(stream: &Stream, input: &mut Vec<u8>, deadline: Instant) -> Result<bool, BadRequest> {
    let read = stream.read_more(input, READ_BYTES, Some(deadline)).await;
    Ok(read.map_err(|error| BadRequest::Io(in_words(error)))? > 0)
}

fn in_words(error: IoError) -> io::Error {
    match error {
        IoError::Timeout => io::ErrorKind::TimedOut.into(),
        IoError::Closed => io::ErrorKind::WriteZero.into(),
        IoError::Os(error) => error,
    }
}

fn head(response: &PageResponse, goes_on: bool, with_body: bool) -> Vec<u8> {
    let reason = String::from_utf8_lossy(message::status::reason(response.status).as_bytes()).into_owned();
    let mut text = format!("HTTP/1.1 {} {reason}\r\n", response.status);
    text.push_str(&format!("Content-Type: {}\r\nContent-Length: {}\r\n", response.content_type, response.body.len()));
    response.fields.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
    text.push_str(SAFETY);
    text.push_str(if goes_on { "\r\n" } else { "Connection: close\r\n\r\n" });
    let mut out = text.into_bytes();
    if with_body {
        out.extend(&response.body);
    }
    out
}

async fn write(stream: &Stream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes, Some(Instant::now() + WRITE_PATIENCE)).await.map_err(in_words)
}

fn stream_head(content_type: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{SAFETY}Connection: close\r\n\r\n")
}

struct Viewer<'a>(&'a Context);

impl<'a> Viewer<'a> {
    fn new(context: &'a Context) -> Viewer<'a> {
        context.shared.viewers.fetch_add(1, Ordering::Relaxed);
        Viewer(context)
    }
}

impl Drop for Viewer<'_> {
    fn drop(&mut self) {
        self.0.shared.viewers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends each second's document to a viewer until it disconnects. A viewer that is too slow loses seconds, and is informed how many.
async fn events(stream: &Stream, context: &Context, mut seconds: broadcast::Receiver<Arc<str>>) -> io::Result<()> {
    let _viewer = Viewer::new(context);
    write(stream, format!("{}retry: 2000\n\n", stream_head("text/event-stream")).as_bytes()).await?;
    let mut ignored = [0; 256];
    loop {
        let text: Arc<str> = tokio::select! {
            second = seconds.recv() => match second {
                Ok(second) => second,
                Err(RecvError::Lagged(n)) => {
                    context.shared.lost.fetch_add(usize::try_from(n).unwrap_or(usize::MAX), Ordering::Relaxed);
                    format!("event: lost\ndata: {n}\n\n").into()
                }
                Err(RecvError::Closed) => return Ok(()),
            },
            read = stream.read(&mut ignored, None) => match read {
                // Input from a viewer is ignored.
                Ok(1..) => continue,
                _ => return Ok(()),
            },
            () = rt::sleep(KEEP_ALIVE) => ":\n\n".into(),
        };
        write(stream, text.as_bytes()).await?;
    }
}

/// Sends lines of JSON until either side closes.
async fn follow(stream: &Stream, mut lines: mpsc::Receiver<Arc<str>>) -> io::Result<()> {
    write(stream, format!("{}{{}}\n", stream_head("application/x-ndjson")).as_bytes()).await?;
    let mut ignored = [0; 256];
    loop {
        let text = tokio::select! {
            line = lines.recv() => match line {
                Some(line) => format!("{line}\n"),
                None => return Ok(()),
            },
            read = stream.read(&mut ignored, None) => match read {
                Ok(1..) => continue,
                _ => return Ok(()),
            },
            () = rt::sleep(KEEP_ALIVE) => "{}\n".to_owned(),
        };
        write(stream, text.as_bytes()).await?;
    }
}
