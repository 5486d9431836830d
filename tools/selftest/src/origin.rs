// SPDX-License-Identifier: BSD-2-Clause
//! The origin of the test: a thread for each connection, one answer each. Each answer has its number in `X-Answer`, so that a stored one is told
//! from a new one.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Longer heads and bodies than this are none of ours.
const MAX_REQUEST: u64 = 64 << 10;
const IDLE: Duration = Duration::from_secs(10);

/// Text that packs well, for the test of gzip.
pub const LONG: &str = "All work and no play makes Jack a dull boy. ";
const TIMES: usize = 200;

const PAGE: &str = "<p>before, <esi:include src=\"/part\"/>, after</p>";

/// Starts it on a free port of the loopback address; it ends with the process.
///
/// # Errors
/// There is no socket, or no thread.
pub fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let answers = Arc::new(AtomicU64::new(0));
    thread::Builder::new().name("origin".into()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let answers = Arc::clone(&answers);
            // A connection for which there is no thread is closed: the test then says that there was no answer.
            let _ = thread::Builder::new().name("origin-conn".into()).spawn(move || serve(stream, &answers));
        }
    })?;
    Ok(address)
}

fn serve(mut stream: TcpStream, answers: &AtomicU64) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    let mut input = BufReader::new(stream.try_clone()?).take(MAX_REQUEST);
    let mut line = String::new();
    input.read_line(&mut line)?;
    let path = line.split_whitespace().nth(1).unwrap_or("/").to_owned();
    let mut length = 0;
    loop {
        line.clear();
        if input.read_line(&mut line)? <= 2 {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    stream.write_all(&answer(&path, &body, answers.fetch_add(1, Ordering::Relaxed)))
}

/// The whole answer to a request for `path`; `sent` is the request's body.
fn answer(path: &str, sent: &[u8], number: u64) -> Vec<u8> {
    let (kind, control, body) = match path {
        "/echo" => ("application/octet-stream", "no-store", sent.to_vec()),
        "/long" => ("text/plain", "max-age=60", LONG.repeat(TIMES).into_bytes()),
        "/page" => ("text/html", "max-age=60", PAGE.into()),
        "/part" => ("text/html", "max-age=60", b"a part".to_vec()),
        _ => ("text/plain", "max-age=60", b"hello, world".to_vec()),
    };
    let mut all = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nCache-Control: {control}\r\nETag: \"one\"\r\nX-Answer: {number}\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    all.extend_from_slice(&body);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_once_with_its_number() {
        let address = start().expect("a port");
        for number in 0..2 {
            let mut stream = TcpStream::connect(address).expect("it listens");
            stream.write_all(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").expect("it reads");
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("it answers");
            assert!(text.contains(&format!("X-Answer: {number}\r\n")) && text.ends_with("\r\n\r\nabc"), "{text}");
        }
    }
}
