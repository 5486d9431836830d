// SPDX-License-Identifier: BSD-2-Clause
//! HTTP/2 over one connection, one request at a time (`--http2`): in clear text by prior knowledge, else by ALPN. No socket here.

use std::sync::{Arc, OnceLock};

use base::Mono;
use http2::conn::ReceiveWindow;
use http2::{Connection, ErrorCode, Http2AbuseLimits, Http2Config, Http2Event, Http2Scratch, Http2Settings};
use message::{Head, HeadLimits};

use crate::answer::{ReplayAnswer, signs};
use crate::faults::ReplayFault;

/// Windows are of no interest here: as large as bodies can make use of.
const WINDOW: u32 = 64 << 20;

/// Memory for reading and writing heads; one for all connections, those of HTTP/3 too.
#[derive(Debug)]
pub struct HeadBuffers {
    pub request: Head,
    pub answer: Head,
    scratch: Http2Scratch,
    pub sections: http3::qpack::QpackScratch,
}

impl Default for HeadBuffers {
    fn default() -> HeadBuffers {
        let limits = HeadLimits { fields: 500, bytes: 256 << 10 };
        let (request, answer) = (Head::with_limits(limits), Head::with_limits(limits));
        HeadBuffers { request, answer, scratch: Http2Scratch::default(), sections: Default::default() }
    }
}

#[derive(Debug)]
pub struct ReplayHttp2 {
    codec: Connection,
    stream: Option<u32>,
    answer: ReplayAnswer,
    has_begun: bool,
    has_head: bool,
    is_ending: bool,
}

impl ReplayHttp2 {
    pub fn new(now: u64) -> ReplayHttp2 {
        static CONFIG: OnceLock<Arc<Http2Config>> = OnceLock::new();
        let config = CONFIG.get_or_init(|| {
            let settings =
                Http2Settings { enable_push: false, initial_window_size: WINDOW, ..Http2Settings::default() };
            let windows = ReceiveWindow { low_water: WINDOW, increment: WINDOW, max_unread: WINDOW };
            // Who measures a server takes what it sends.
            let unread_bytes = Http2AbuseLimits::default().unread_bytes;
            let limits = Http2AbuseLimits {
                rapid_resets: 0,
                made_resets: 0,
                settings: 0,
                pings: 0,
                empty_data: 0,
                window_updates: 0,
                ignored: 0,
                unread_bytes,
                ..Http2AbuseLimits::default()
            };
            Arc::new(Http2Config { settings, limits, windows, ..Http2Config::default() })
        });
        ReplayHttp2 {
            codec: Connection::client(config.clone(), mono(now)),
            stream: None,
            answer: ReplayAnswer::default(),
            has_begun: false,
            has_head: false,
            is_ending: false,
        }
    }

    /// Begins a request, given as HTTP/1 has it.
    ///
    /// # Errors
    /// It can't be said in HTTP/2, or the server takes none.
    pub fn begin(
        &mut self,
        request: &[u8],
        is_sealed: bool,
        heads: &mut HeadBuffers,
        now: u64,
    ) -> Result<(), ReplayFault> {
        (self.answer, self.has_begun, self.has_head) = (ReplayAnswer::default(), false, false);
        lay(request, &mut heads.request).ok_or(ReplayFault::BadHead)?;
        let scheme = if is_sealed { "https" } else { "http" };
        // No log holds bodies.
        let stream = self.codec.open(&heads.request, scheme, true, mono(now)).map_err(|_| ReplayFault::Closed)?;
        self.stream = Some(stream);
        Ok(())
    }

    pub fn output(&mut self) -> &[u8] {
        self.codec.flush();
        self.codec.output()
    }

    pub fn wrote(&mut self, bytes: usize) {
        self.codec.wrote(bytes);
    }

    pub fn has_answer_begun(&self) -> bool {
        self.has_begun
    }

    pub fn is_ending(&self) -> bool {
        self.is_ending || self.codec.slots() == 0
    }

    /// Takes what came; the answer when it is whole.
    ///
    /// # Errors
    /// There is none, or it is broken.
    pub fn take(
        &mut self,
        bytes: &[u8],
        heads: &mut HeadBuffers,
        now: u64,
    ) -> Result<Option<ReplayAnswer>, ReplayFault> {
        let (mut at, mut done) = (0, None);
        loop {
            let step = self.codec.receive(&bytes[at..], mono(now), &mut heads.answer, &mut heads.scratch);
            let is_event = !matches!(step.event, Http2Event::None);
            let ends = self.take_event(step.event, &heads.answer)?;
            at += step.consumed;
            if ends {
                self.codec.release(self.stream.take().unwrap_or(0));
                self.answer.keeps = true;
                done = Some(self.answer);
            }
            if at >= bytes.len() && !is_event {
                break;
            }
        }
        Ok(done.map(|answer| ReplayAnswer { keeps: answer.keeps && !self.is_ending(), ..answer }))
    }

    fn take_event(&mut self, event: Http2Event, head: &Head) -> Result<bool, ReplayFault> {
        let is_ours = |stream: u32| self.stream == Some(stream);
        match event {
            Http2Event::Head { stream, end, .. } if is_ours(stream) => {
                self.has_begun = true;
                if head.status() < 200 {
                    return Ok(false);
                }
                self.has_head = true;
                self.answer =
                    ReplayAnswer { status: head.status(), verdicts: signs(head).0, ..ReplayAnswer::default() };
                Ok(end)
            }
            Http2Event::Trailers { stream } => Ok(is_ours(stream)),
            Http2Event::Data { stream, body, end } => {
                self.codec.consumed(stream, body.len());
                if self.stream != Some(stream) {
                    return Ok(false);
                }
                self.answer.body_bytes += body.len() as u64;
                Ok(end)
            }
            // It has done nothing with the request.
            Http2Event::Reset { stream, code: ErrorCode::RefusedStream } if is_ours(stream) => Err(ReplayFault::Closed),
            Http2Event::Reset { stream, .. } if is_ours(stream) => {
                // An answer, if no good one: the request isn't sent again.
                self.has_begun = true;
                Err(if self.has_head { ReplayFault::Truncated } else { ReplayFault::Reset })
            }
            Http2Event::Broken { stream, .. } if is_ours(stream) => {
                Err(if self.has_head { ReplayFault::BadBody } else { ReplayFault::BadHead })
            }
            Http2Event::GoAway { .. } => {
                self.is_ending = true;
                match self.stream {
                    Some(stream) if !self.codec.was_processed(stream) => Err(ReplayFault::Closed),
                    Some(_) | None => Ok(false),
                }
            }
            Http2Event::Fault(_) => Err(ReplayFault::BadHead),
            _ => Ok(false),
        }
    }

    /// The connection has ended: what became of the answer.
    pub fn end(&self) -> ReplayFault {
        if self.has_begun { ReplayFault::Truncated } else { ReplayFault::Closed }
    }
}

fn mono(now: u64) -> Mono {
    Mono(now as f64 / 1e9)
}

/// A head as HTTP/1 has it, taken apart without a judgement: what a log holds is sent as it is.
pub fn lay(request: &[u8], head: &mut Head) -> Option<()> {
    let mut lines = request.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = lines.next()?;
    let (method_end, url_end) = (first.iter().position(|b| *b == b' ')?, first.iter().rposition(|b| *b == b' ')?);
    let url = first.get(method_end + 1..url_end)?;
    head.clear();
    head.start_request(&first[..method_end], url, b"HTTP/1.1").ok()?;
    for line in lines.filter(|line| !line.is_empty()) {
        head.append_line(line).ok()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let len = (payload.len() as u32).to_be_bytes();
        [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    /// The result of the first request over a connection that receives `said` in pieces of `step`.
    fn answered(said: &[u8], step: usize) -> String {
        let (mut http2, mut heads) = (ReplayHttp2::new(0), HeadBuffers::default());
        let begun = http2.begin(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n", false, &mut heads, 1);
        assert_eq!(begun, Ok(()));
        assert!(http2.output().starts_with(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
        for piece in said.chunks(step) {
            match http2.take(piece, &mut heads, 2) {
                Ok(None) => {}
                Ok(Some(answer)) => {
                    return format!(
                        "{} {} {:?} {}",
                        answer.status, answer.body_bytes, answer.verdicts[3], answer.keeps
                    );
                }
                Err(fault) => return format!("{fault:?}"),
            }
        }
        format!("{:?}", http2.end())
    }

    #[test]
    fn answers_are_whole_or_say_what_is_wrong() {
        let settings = frame(4, 0, 0, b"");
        let head = [&b"\x88"[..], b"\0\x03age\x017"].concat();
        let whole = [settings.clone(), frame(1, 4, 1, &head), frame(0, 0, 1, b"abc"), frame(0, 1, 1, b"de")].concat();
        for step in [1, 2, 5, 1000] {
            assert_eq!(answered(&whole, step), "200 5 Some(Hit) true", "in steps of {step}");
        }
        let with_settings = |frames: &[Vec<u8>]| answered(&[settings.clone(), frames.concat()].concat(), 7);
        assert_eq!(with_settings(&[frame(1, 5, 1, b"\x8d")]), "404 0 None true");
        assert_eq!(with_settings(&[frame(3, 0, 1, &[0, 0, 0, 7])]), "Closed");
        assert_eq!(with_settings(&[frame(3, 0, 1, &[0, 0, 0, 2])]), "Reset");
        assert_eq!(with_settings(&[frame(1, 4, 1, b"\x88"), frame(3, 0, 1, &[0, 0, 0, 2])]), "Truncated");
        assert_eq!(with_settings(&[frame(7, 0, 0, &[0; 8])]), "Closed");
        assert_eq!(
            with_settings(&[frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]), frame(1, 5, 1, b"\x88")]),
            "200 0 None false"
        );
        assert_eq!(with_settings(&[frame(1, 4, 1, b"\x88")]), "Truncated");
        assert_eq!(with_settings(&[]), "Closed");
        assert_eq!(answered(b"HTTP/1.1 400 Bad Request\r\n\r\n", 1000), "BadHead");
    }

    #[test]
    fn a_request_of_any_log_is_laid_out() {
        let mut head = Head::new();
        lay(b"GET /a b HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n", &mut head).unwrap();
        assert_eq!((head.method(), head.url(), head.len()), (&b"GET"[..], &b"/a b"[..], 2));
        assert!(lay(b"GET\r\n\r\n", &mut head).is_none());
    }
}
