// SPDX-License-Identifier: BSD-2-Clause
//! A way through an HTTP proxy to a host that it passes bytes on to (RFC 9110, 9.3.6).

use std::time::Duration;

use net::{IoError, Stream};
use rt::Instant;

/// Bytes of the proxy's answer.
const MOST: usize = 16 * 1024;

/// Asks the proxy at the other end for a tunnel. Nothing follows its answer before we speak: the host is a TLS server.
pub(crate) async fn through(stream: &Stream, host: &str, port: &str, limit: Duration) -> Result<(), String> {
    let until = (!limit.is_zero()).then(|| Instant::now() + limit);
    let to = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    stream.write_all(request.as_bytes(), until).await.map_err(|error| reason(&error))?;
    let mut answer = Vec::with_capacity(1024);
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= MOST {
            return Err("the proxy's answer is too long".to_owned());
        }
        answer.reserve(1024);
        if stream.read_buf(&mut answer, until).await.map_err(|error| reason(&error))? == 0 {
            return Err("the proxy closed the connection".to_owned());
        }
    }
    let line = answer.split(|b| *b == b'\r').next().unwrap_or_default();
    if is_good(line) { Ok(()) } else { Err(format!("the proxy answers {}", line.escape_ascii())) }
}

/// Whether that is the status line of a 2xx.
fn is_good(line: &[u8]) -> bool {
    line.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(1..4)).is_some_and(|rest| rest.starts_with(b" 2"))
}

fn reason(error: &IoError) -> String {
    match error {
        IoError::Timeout => "the proxy doesn't answer in time".to_owned(),
        IoError::Closed => "the proxy closed the connection".to_owned(),
        IoError::Os(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::is_good;

    #[test]
    fn status_lines() {
        assert!(is_good(b"HTTP/1.1 200 OK") && is_good(b"HTTP/1.0 200"));
        assert!(!is_good(b"HTTP/1.1 407 No") && !is_good(b"HTTP/2 200") && !is_good(b"") && !is_good(b"HTTP/1.1 "));
    }
}
