// SPDX-License-Identifier: BSD-2-Clause
//! The exchange of one request over HTTP/2 (`--http2`), on a connection of its own: in clear text by prior knowledge, else by ALPN. No socket here.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use base::Mono;
use http2::conn::ReceiveWindow;
use http2::{Connection, Http2Config, Http2Event, Http2Scratch, Http2Settings};
use message::Head;

use crate::shot::Shot;

/// Answers are small, and who measures doesn't hold them up.
const WINDOW: u32 = 1 << 20;

pub struct ProbeExchange {
    codec: Connection,
    stream: u32,
    status: Option<u16>,
    head: Head,
    scratch: Http2Scratch,
}

impl ProbeExchange {
    /// A connection that begins with that request.
    ///
    /// # Errors
    /// It can't be said in HTTP/2.
    pub fn begin(shot: &Shot, agent: &str) -> io::Result<ProbeExchange> {
        let settings = Http2Settings { enable_push: false, initial_window_size: WINDOW, ..Http2Settings::default() };
        let windows = ReceiveWindow { low_water: WINDOW / 2, increment: WINDOW, max_unread: WINDOW };
        let config = Arc::new(Http2Config { settings, windows, ..Http2Config::default() });
        let mut codec = Connection::client(config, mono(Duration::ZERO));
        let mut head = Head::new();
        let unsaid = || io::Error::from(ErrorKind::InvalidInput);
        head.start_request(b"GET", shot.path.as_bytes(), b"HTTP/1.1").map_err(|_| unsaid())?;
        for (name, value) in [("Host", shot.host.as_str()), ("User-Agent", agent)] {
            head.append_line(format!("{name}: {value}").as_bytes()).map_err(|_| unsaid())?;
        }
        let scheme = if shot.tls.is_some() { "https" } else { "http" };
        let stream = codec.open(&head, scheme, true, mono(Duration::ZERO)).map_err(|_| unsaid())?;
        Ok(ProbeExchange { codec, stream, status: None, head, scratch: Http2Scratch::default() })
    }

    pub fn output(&mut self) -> &[u8] {
        self.codec.flush();
        self.codec.output()
    }

    pub fn wrote(&mut self) {
        let bytes = self.codec.output().len();
        self.codec.wrote(bytes);
    }

    /// Takes what came so long after the begin, nothing at the end of the connection: the status, once the answer is whole.
    ///
    /// # Errors
    /// The answer is broken, or there will be none.
    pub fn take(&mut self, bytes: &[u8], since: Duration) -> io::Result<Option<u16>> {
        if bytes.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let mut at = 0;
        loop {
            let step = self.codec.receive(&bytes[at..], mono(since), &mut self.head, &mut self.scratch);
            at += step.consumed;
            let is_event = !matches!(step.event, Http2Event::None);
            if self.take_event(step.event)? {
                return Ok(self.status);
            }
            if at >= bytes.len() && !is_event {
                return Ok(None);
            }
        }
    }

    /// Takes an event; true if the answer is whole now.
    fn take_event(&mut self, event: Http2Event) -> io::Result<bool> {
        let is_ours = |stream: u32| self.stream == stream;
        match event {
            Http2Event::Head { stream, end, .. } if is_ours(stream) => {
                let status = self.head.status();
                self.status = (status >= 200).then_some(status);
                Ok(self.status.is_some() && end)
            }
            Http2Event::Trailers { stream } => Ok(is_ours(stream)),
            Http2Event::Data { stream, body, end } => {
                self.codec.consumed(stream, body.len());
                Ok(is_ours(stream) && end)
            }
            Http2Event::Reset { stream, .. } if is_ours(stream) => Err(ErrorKind::ConnectionReset.into()),
            Http2Event::GoAway { .. } if !self.codec.was_processed(self.stream) => Err(ErrorKind::UnexpectedEof.into()),
            Http2Event::Broken { stream, .. } if is_ours(stream) => Err(ErrorKind::InvalidData.into()),
            Http2Event::Fault(_) => Err(ErrorKind::InvalidData.into()),
            _ => Ok(false),
        }
    }
}

fn mono(since: Duration) -> Mono {
    Mono(since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let len = (payload.len() as u32).to_be_bytes();
        [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    /// The result of these frames behind SETTINGS, in pieces of so many bytes, at whose end the connection closes.
    fn answered(frames: &[Vec<u8>], step: usize) -> Result<Option<u16>, ErrorKind> {
        let shot = Shot {
            address: ([127, 0, 0, 1], 80).into(),
            url: String::new(),
            host: "a.example".into(),
            path: "/".into(),
            tls: None,
            is_http2: true,
            sni: String::new(),
            begun_at: 0,
            due: Instant::now(),
            timeout: Duration::from_secs(1),
        };
        let mut exchange = ProbeExchange::begin(&shot, "probe").unwrap();
        assert!(exchange.output().starts_with(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
        exchange.wrote();
        let said = [frame(4, 0, 0, b""), frames.concat()].concat();
        for piece in said.chunks(step).chain([&b""[..]]) {
            if let Some(status) = exchange.take(piece, Duration::from_millis(1)).map_err(|error| error.kind())? {
                return Ok(Some(status));
            }
        }
        Ok(None)
    }

    #[test]
    fn answers_are_read_to_their_end() {
        let head = || frame(1, 4, 1, b"\x88");
        for step in [1, 3, 1000] {
            assert_eq!(answered(&[head(), frame(0, 0, 1, b"o"), frame(0, 1, 1, b"k")], step), Ok(Some(200)));
            assert_eq!(answered(&[frame(1, 5, 1, b"\x8d")], step), Ok(Some(404)));
            assert_eq!(answered(&[head(), frame(0, 0, 1, b"o")], step), Err(ErrorKind::UnexpectedEof));
            assert_eq!(answered(&[head(), frame(3, 0, 1, &[0, 0, 0, 2])], step), Err(ErrorKind::ConnectionReset));
            assert_eq!(answered(&[frame(7, 0, 0, &[0; 8])], step), Err(ErrorKind::UnexpectedEof));
            assert_eq!(answered(&[frame(0, 1, 1, b"no head")], step), Err(ErrorKind::InvalidData));
        }
    }
}
