// SPDX-License-Identifier: BSD-2-Clause
//! A backend's probe: its request, its judgement, and one poke.
//!
//! A poke opens a connection of its own, sends the request, and reads until the backend closes. The schedule is in
//! `registry`, the arithmetic in `health`.

mod exchange;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::Real;
use base::lock::Mutex;
use net::proxy::ProxyEnds;
use net::{Address, IoError, Stream};
use rt::Instant;

use crate::backend::{deadline, proxy_header};
use crate::error::{ConnOpenError, ETIMEDOUT, errno_text};
use crate::exchange::MAX_INTERIM;
use crate::health::{Poke, PokeResult, ProbeState};
use crate::trouble::BackendFault;
use crate::{Backend, Director, Health, ProbeSpec, Summary, VclEvent};

/// Number of kept bytes of a response: enough for the status line.
const KEPT: usize = 127;
/// Maximum size of an interim response's head, in bytes.
const INTERIM_BYTES: usize = 8192;

pub(crate) struct Probe {
    spec: ProbeSpec,
    request: Vec<u8>,
    state: Mutex<ProbeState>,
    /// The judgement of the state, to be read without its lock.
    sick: AtomicBool,
    changed: AtomicU64,
}

impl Probe {
    pub(crate) fn new(spec: &ProbeSpec, hosthdr: &str) -> Self {
        let spec = spec.resolved();
        let request = spec.request.clone().unwrap_or_else(|| {
            let url = spec.url.as_deref().unwrap_or("/");
            format!("GET {url} HTTP/1.1\r\nHost: {hosthdr}\r\nConnection: close\r\n\r\n").into_bytes()
        });
        Self {
            state: Mutex::new(ProbeState::new(&spec)),
            sick: AtomicBool::new(false),
            changed: AtomicU64::new(0),
            request,
            spec,
        }
    }

    pub(crate) fn interval(&self) -> Duration {
        self.spec.interval
    }

    pub(crate) fn is_same(&self, other: &Probe) -> bool {
        self.spec == other.spec && self.request == other.request
    }

    pub(crate) fn health(&self) -> Health {
        Health {
            ok: !self.sick.load(Ordering::Relaxed),
            changed: Real(f64::from_bits(self.changed.load(Ordering::Relaxed))),
        }
    }

    pub(crate) fn summary(&self) -> Summary {
        let state = self.state.lock();
        Summary { good: state.good(), of: state.window(), healthy: !state.is_sick() }
    }

    pub(crate) fn details(&self, out: &mut String) {
        self.state.lock().details(out);
    }

    pub(crate) fn details_json(&self, out: &mut String) {
        self.state.lock().details_json(out);
    }

    /// Resets the probe's history, or takes over another VCL's, when the VCL goes warm or cold.
    pub(crate) fn event(&self, backend: &Backend, event: VclEvent) {
        match event {
            VclEvent::Warm => {
                let known = backend.prober().known_health(backend);
                match known {
                    Some(old) => self.state.lock().carry_over(&old),
                    None => self.state.lock().reset(),
                }
                self.update(backend);
                backend.prober().schedule(backend);
            }
            VclEvent::Cold => {
                backend.prober().cancel(backend);
                self.state.lock().reset();
                self.update(backend);
            }
            VclEvent::Discard => backend.prober().cancel(backend),
        }
    }

    pub(crate) fn update(&self, backend: &Backend) {
        let mut record = String::new();
        let has_changed = {
            let mut state = self.state.lock();
            let has_changed = state.update(backend.name(), &mut record);
            if has_changed {
                self.sick.store(state.is_sick(), Ordering::Relaxed);
                self.changed.store(backend.env().clock.real().0.to_bits(), Ordering::Relaxed);
            }
            self.sick.store(state.is_sick(), Ordering::Relaxed);
            backend.vbe().happy.set(state.happy());
            has_changed
        };
        if has_changed {
            backend.base().report_change();
        }
        backend.env().services.log_health(&record);
    }

    pub(crate) fn poked(&self, backend: &Backend, result: PokeResult) {
        self.state.lock().poked(result);
        self.update(backend);
        let state = self.snapshot();
        let was_good = state.happy() & 1 == 1;
        match state.is_sick() {
            // Too few good answers so far are no failure.
            true if was_good => {}
            true => backend.fails(BackendFault::Sick(state.message())),
            false => backend.is_probed_healthy(),
        }
    }

    pub(crate) fn snapshot(&self) -> ProbeState {
        self.state.lock().clone()
    }

    pub(crate) async fn poke(&self, backend: &Backend) -> PokeResult {
        let start = Instant::now();
        let mut result = PokeResult::default();
        if let Some(service) = backend.service() {
            result.poke = Poke { unix: true, good_xmit: true, ..Poke::default() };
            let until = deadline(self.spec.timeout);
            let answered = exchange::ask(&mut *service.0.exchange(), &self.request, &self.spec, until).await;
            self.judge(answered, start, &mut result);
            return result;
        }
        let params = backend.env().services.params();
        let opened = backend.open_probe(self.spec.timeout, |stream| proxy(backend, stream), &params).await;
        let (stream, is_http2) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                backend.count_failure(&error);
                result.poke.err_xmit = matches!(error, ConnOpenError::Proxy(_));
                result.message = error.text();
                return result;
            }
        };
        let (ipv4, ipv6) = match stream.peer() {
            Address::Unix => (false, false),
            Address::Inet(addr) => (addr.is_ipv4(), addr.is_ipv6()),
        };
        result.poke = Poke { ipv4, ipv6, unix: stream.is_unix(), ..Poke::default() };
        let limit = self.spec.timeout;
        if start.elapsed() >= limit {
            let over = start.elapsed() - limit;
            result.message = format!("Open timeout {:.3}s exceeded by {:.3}s", limit.as_secs_f64(), over.as_secs_f64());
            return result;
        }
        let until = deadline(limit.saturating_sub(start.elapsed()));
        if is_http2 {
            result.poke.good_xmit = true;
            let mut exchange = backend.http2_alone(stream, &params);
            let answered = exchange::ask(&mut exchange, &self.request, &self.spec, until).await;
            self.judge(answered, start, &mut result);
            return result;
        }
        match stream.write_all(&self.request, until).await {
            Ok(()) => result.poke.good_xmit = true,
            Err(error) => {
                result.poke.err_xmit = true;
                result.message = io_text("Write error", &error);
                return result;
            }
        }
        let answered = self.answer(&stream, until).await;
        self.judge(answered, start, &mut result);
        result
    }

    fn judge(&self, answered: Result<Vec<u8>, IoError>, start: Instant, result: &mut PokeResult) {
        match answered {
            Ok(answer) if answer.is_empty() => result.message = "Empty response".into(),
            Ok(answer) => {
                result.took = start.elapsed();
                result.poke.good_recv = true;
                result.message = status_line(&answer);
                result.poke.happy = status_of(&result.message) == Some(u32::from(self.spec.expected_response));
            }
            Err(error) => {
                result.poke.err_recv = true;
                let what = if matches!(error, IoError::Timeout) { "Poll error" } else { "Read error" };
                result.message = io_text(what, &error);
            }
        }
    }

    /// Reads to the end and returns the beginning of the final response.
    async fn answer(&self, stream: &Stream, until: Option<Instant>) -> Result<Vec<u8>, IoError> {
        let (mut answer, mut buf) = (Answer::default(), vec![0; 8192]);
        loop {
            match stream.read(&mut buf, until).await {
                Ok(0) => return Ok(answer.kept),
                Ok(n) => answer.take(&buf[..n]),
                Err(IoError::Timeout) if !self.spec.expect_close && !answer.kept.is_empty() => return Ok(answer.kept),
                Err(error) => return Err(error),
            }
        }
    }
}

/// The beginning of the response to judge. Preceding interim responses say nothing about the backend's health (RFC 9110 15.2).
#[derive(Default)]
struct Answer {
    kept: Vec<u8>,
    interims: u32,
}

impl Answer {
    fn take(&mut self, mut bytes: &[u8]) {
        loop {
            let most = if self.is_interim() { INTERIM_BYTES } else { KEPT };
            let n = bytes.len().min(most.saturating_sub(self.kept.len()));
            if n == 0 {
                return;
            }
            self.kept.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            while self.is_interim()
                && let Some(end) = end_of_head(&self.kept)
            {
                self.kept.drain(..end);
                self.interims += 1;
            }
        }
    }

    /// True if another response follows the kept one. None follows 101. If there are too many, the last one is judged.
    fn is_interim(&self) -> bool {
        let status = status_of(&status_line(&self.kept));
        self.interims < MAX_INTERIM && status.is_some_and(|status| (100..200).contains(&status) && status != 101)
    }
}

/// Offset of the end of the head at the beginning, after the empty line.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let is_empty_line =
        |at: usize| bytes[at..].starts_with(b"\r\n").then_some(2).or(bytes[at..].starts_with(b"\n").then_some(1));
    let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    ends.find_map(|at| is_empty_line(at).map(|len| at + len))
}

fn proxy(backend: &Backend, stream: &Stream) -> Vec<u8> {
    let ends = match (backend.spec().proxy_header, stream.local()) {
        (1, Address::Inet(local)) => Some(ProxyEnds { source: local, destination: local }),
        _ => None,
    };
    proxy_header(backend.spec().proxy_header, ends.as_ref(), None)
}

fn io_text(what: &str, error: &IoError) -> String {
    let errno = match error {
        IoError::Timeout => ETIMEDOUT,
        IoError::Closed => 32,
        IoError::Os(error) => error.raw_os_error().unwrap_or(0),
    };
    format!("{what} {errno} ({})", errno_text(errno))
}

fn status_line(answer: &[u8]) -> String {
    let end = answer.iter().position(|&c| matches!(c, b'\r' | b'\n' | 0)).unwrap_or(answer.len());
    String::from_utf8_lossy(&answer[..end]).into_owned()
}

fn status_of(line: &str) -> Option<u32> {
    let rest = line.strip_prefix("HTTP/")?;
    let version = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let rest = rest[version..].trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    if version == 0 { None } else { rest[..digits].parse().ok() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn status_lines() {
        assert_eq!(status_of("HTTP/1.1 200 OK"), Some(200));
        assert_eq!(status_of("HTTP/1.0 503"), Some(503));
        assert_eq!((status_of("HTTP/ 200"), status_of("HTTP/1.1"), status_of("FOO")), (None, None, None));
        assert_eq!(status_line(b"HTTP/1.1 200 OK\r\nFoo: bar"), "HTTP/1.1 200 OK");
        assert_eq!(status_line(b"\xff\xfe"), "\u{fffd}\u{fffd}");
    }

    /// Checks which status line is judged, for an answer that arrives at once and in pieces of any size.
    fn check(answer: &str, wanted: &str) {
        for piece in 1..=answer.len() {
            let mut taken = Answer::default();
            answer.as_bytes().chunks(piece).for_each(|bytes| taken.take(bytes));
            assert_eq!(status_line(&taken.kept), wanted, "pieces of {piece}");
            assert!(taken.kept.len() <= INTERIM_BYTES);
        }
    }

    #[test]
    fn the_final_response_is_judged() {
        let ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        check(ok, "HTTP/1.1 200 OK");
        for interim in
            ["100 Continue\r\n", "102 Processing\r\n", "103 Early Hints\r\nLink: </a>\r\n", "199\r\n", "100\n"]
        {
            let end = if interim.ends_with("\r\n") { "\r\n" } else { "\n" };
            let interim = format!("HTTP/1.1 {interim}{end}");
            check(&format!("{interim}{ok}"), "HTTP/1.1 200 OK");
            check(&format!("{interim}{interim}HTTP/1.1 503 Down\r\n\r\n"), "HTTP/1.1 503 Down");
            check(&interim, "");
        }
        let link = "x".repeat(3 * KEPT);
        check(&format!("HTTP/1.1 103 {link}\r\nLink: {link}\r\n\r\n{ok}"), "HTTP/1.1 200 OK");
        check("HTTP/1.1 101 Switching\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 101 Switching");
        check("HTTP/1.1 103 Early Hints\r\nLink: </a>", "HTTP/1.1 103 Early Hints");
        check("220 mail ready\r\n\r\n", "220 mail ready");
    }

    #[test]
    fn interim_responses_have_a_bound() {
        let mut taken = Answer::default();
        (0..=MAX_INTERIM).for_each(|_| taken.take(b"HTTP/1.1 100 Continue\r\n\r\n"));
        taken.take(b"HTTP/1.1 200 OK\r\n\r\n");
        assert_eq!(status_line(&taken.kept), "HTTP/1.1 100 Continue");
        let mut taken = Answer::default();
        taken.take(b"HTTP/1.1 103 Early Hints\r\nLink: ");
        (0..1000).for_each(|_| taken.take(&[b'x'; 100]));
        assert_eq!(taken.kept.len(), INTERIM_BYTES);
    }

    proptest! {
        #[test]
        fn any_answer_has_a_status_or_none(answer in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b' '), Just(b'0'), Just(b'.'), any::<u8>()], 0..20), begins: bool) {
            let answer = [if begins { &b"HTTP/"[..] } else { b"" }, &answer].concat();
            let line = status_line(&answer);
            prop_assert!(!line.contains(['\r', '\n', '\0']));
            let _ = status_of(&line);
        }

        #[test]
        fn a_status_is_read(version in "[0-9.]{1,4}", status: u32, rest in "( [ -~]{0,9})?") {
            prop_assert_eq!(status_of(&format!("HTTP/{version} {status}{rest}")), Some(status));
        }
    }
}
