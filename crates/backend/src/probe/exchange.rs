// SPDX-License-Identifier: BSD-2-Clause
//! A probe that is sent like a fetch, not written to a stream: for a backend that is no server, or that uses HTTP/2.

use std::future::poll_fn;

use http1::{HeadProgress, Http1Limits, parse_request};
use message::{Head, HeadLimits};
use net::IoError;
use rt::Instant;

use crate::exchange::{BodyLen, Data, ExchangeHeadError, ExchangeSendError, Received, RespLimits};
use crate::{Exchange, ProbeSpec};

const HEAD_BYTES: usize = 4 * 1024 * 1024;
const LINES: u32 = 65_535;

/// Sends the request and reads the whole response. Returns its head, or nothing if there is none.
pub(super) async fn ask(
    exchange: &mut dyn Exchange,
    request: &[u8],
    spec: &ProbeSpec,
    until: Option<Instant>,
) -> Result<Vec<u8>, IoError> {
    let Some(request) = parse(request) else { return Ok(Vec::new()) };
    let mut answer = Vec::new();
    let asked = converse(exchange, &request, &mut answer);
    let done = match until {
        None => Ok(asked.await),
        Some(until) => rt::timeout_at(until, asked).await,
    };
    match done {
        Ok(Ok(())) => Ok(answer),
        Ok(Err(error)) => Err(error),
        Err(rt::Elapsed) if !spec.expect_close && !answer.is_empty() => Ok(answer),
        Err(rt::Elapsed) => Err(IoError::Timeout),
    }
}

async fn converse(exchange: &mut dyn Exchange, request: &Head, answer: &mut Vec<u8>) -> Result<(), IoError> {
    let mut beresp = Head::with_limits(HeadLimits::new(LINES, 2 * HEAD_BYTES as u32));
    let limits = RespLimits { head_bytes: HEAD_BYTES, line_bytes: HEAD_BYTES, lenient: true };
    exchange.send_head(request, BodyLen::None, &limits);
    match poll_fn(|cx| exchange.poll_send(cx, &mut beresp)).await {
        Ok(_) => {}
        Err(ExchangeSendError::Closed | ExchangeSendError::Refused) => return Err(IoError::Closed),
        Err(ExchangeSendError::Os(error)) => return Err(IoError::Os(error)),
    }
    loop {
        match poll_fn(|cx| exchange.poll_head(cx, &mut beresp)).await {
            Ok(Received::Final { .. }) => break,
            Ok(Received::Part | Received::Interim) => {}
            Err(ExchangeHeadError::Os(error)) => return Err(IoError::Os(error)),
            Err(_) => return Ok(()),
        }
    }
    beresp.write_to(answer);
    // The body may be incomplete.
    while let Ok(Data::Piece | Data::Part) = poll_fn(|cx| exchange.poll_data(cx)).await {}
    Ok(())
}

/// The head of a probe's request. Its target isn't checked, so it may be anything.
fn parse(request: &[u8]) -> Option<Head> {
    let line = &request[..memchr(b'\r', request)?];
    let (first, last) = (memchr(b' ', line)?, line.iter().rposition(|b| *b == b' ')?);
    let target = line.get(first + 1..last)?;
    let plain = [&request[..=first], b"/", &request[last..]].concat();
    let limits = Http1Limits {
        head_bytes: HEAD_BYTES,
        line_bytes: HEAD_BYTES,
        lenient: true,
        https_scheme: false,
        lone_lf: true,
    };
    let mut head = Head::with_limits(HeadLimits::new(LINES, 2 * HEAD_BYTES as u32));
    match parse_request(&plain, &limits, &mut head) {
        Ok(HeadProgress::Complete(_)) => head.set_url(target).ok().map(|()| head),
        Ok(_) | Err(_) => None,
    }
}

fn memchr(byte: u8, bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|b| *b == byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_what_stands_there() {
        let target =
            |request: &str| parse(request.as_bytes()).map(|head| String::from_utf8_lossy(head.url()).into_owned());
        assert_eq!(target("GET http://h/a b?c HTTP/1.1\r\nHost: x\r\n\r\n").as_deref(), Some("http://h/a b?c"));
        for bad in ["GET\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/1.1", "", "junk\r\n\r\n"] {
            assert_eq!(target(bad), None, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_for_a_request(head: Vec<u8>, line in "[A-Z /\\x7f]{0,12}") {
            for head in [head, format!("{line}\r\nHost: h\r\n\r\n").into_bytes()] {
                parse(&head);
            }
        }
    }
}
