// SPDX-License-Identifier: BSD-2-Clause
//! A way through an HTTP proxy to a host that it passes bytes on to (RFC 9110, 9.3.6).

use std::time::Duration;

use http1::{HeadProgress, Http1Limits, parse_response};
use message::Head;
use net::{IoError, Stream};
use rt::Instant;

/// Bytes of the proxy's response, interim ones (RFC 9110 15.2) included.
const MOST: usize = 16 * 1024;

/// Asks the proxy at the other end for a tunnel. Nothing follows its response before we speak: the host is a TLS server.
pub(crate) async fn through(stream: &Stream, host: &str, port: &str, limit: Duration) -> Result<(), String> {
    let until = (!limit.is_zero()).then(|| Instant::now() + limit);
    let to = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    stream.write_all(request.as_bytes(), until).await.map_err(|error| reason(&error))?;
    let mut answer = Vec::with_capacity(1024);
    loop {
        if let Some(opened) = judge(&answer) {
            return opened;
        }
        if answer.len() >= MOST {
            return Err("the proxy's answer is too long".to_owned());
        }
        answer.reserve(1024);
        if stream.read_buf(&mut answer, until).await.map_err(|error| reason(&error))? == 0 {
            return Err("the proxy closed the connection".to_owned());
        }
    }
}

/// Verdict of the proxy's final response, once it is there.
fn judge(mut answer: &[u8]) -> Option<Result<(), String>> {
    let limits = Http1Limits { head_bytes: MOST, line_bytes: MOST, lenient: true, ..Http1Limits::default() };
    let mut head = Head::default();
    loop {
        match parse_response(answer, &limits, &mut head) {
            Ok(HeadProgress::Complete(parsed)) => match (head.status(), &answer[parsed.consumed..]) {
                (100 | 102..=199, rest) => answer = rest,
                (200..=299, []) => return Some(Ok(())),
                (200..=299, _) => return Some(Err("the proxy sends more before the host was asked".to_owned())),
                (status, _) => {
                    return Some(Err(format!("the proxy answers {status} {}", head.reason().escape_ascii())));
                }
            },
            Ok(HeadProgress::Idle | HeadProgress::Incomplete) => return None,
            Ok(HeadProgress::Http2Preface) | Err(_) => {
                let line = answer.split(|b| matches!(b, b'\r' | b'\n')).next().unwrap_or_default();
                return Some(Err(format!("the proxy answers {}", line.escape_ascii())));
            }
        }
    }
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
    use super::judge;

    fn check(answer: &str, wanted: Option<Result<(), &str>>) {
        assert_eq!(judge(answer.as_bytes()), wanted.map(|wanted| wanted.map_err(str::to_owned)), "{answer:?}");
    }

    #[test]
    fn the_final_response_opens_the_tunnel() {
        check("HTTP/1.1 200 OK\r\n\r\n", Some(Ok(())));
        check("HTTP/1.0 200\r\nVia: p\r\n\r\n", Some(Ok(())));
        check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Wait\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", Some(Ok(())));
        check("HTTP/1.1 100 Continue\r\n\r\n", None);
        check("HTTP/1.1 200 OK\r\n", None);
        check("", None);
        check("HTTP/1.1 407 No\r\n\r\nwhy", Some(Err("the proxy answers 407 No")));
        check("HTTP/1.1 101 Switching\r\n\r\n", Some(Err("the proxy answers 101 Switching")));
        check("SSH-2.0-x\r\n\r\n", Some(Err("the proxy answers SSH-2.0-x")));
        check("HTTP/1.1 200 OK\r\n\r\n\x16", Some(Err("the proxy sends more before the host was asked")));
    }
}
