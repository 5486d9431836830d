// SPDX-License-Identifier: BSD-2-Clause
//! One connection: what is sent over it, what comes back.

use std::io;
use std::sync::Arc;

use crate::answer::{Codec, IncomingAnswer, ReplayAnswer};
use crate::faults::ReplayFault;
use crate::h2::ReplayHttp2;
use crate::h3::Http3;
use crate::reader::{PlannedRequest, ReplayBatch};
use crate::socket::{ReplaySocket, connect_fault};
use crate::stats::ReplayStats;

#[derive(Debug)]
pub struct ReplayJob {
    batch: Arc<ReplayBatch>,
    at: usize,
    pub due: u64,
    pub begun: u64,
    pub is_resent: bool,
}

impl ReplayJob {
    pub fn new(batch: Arc<ReplayBatch>, at: usize, due: u64, begun: u64) -> ReplayJob {
        ReplayJob { batch, at, due, begun, is_resent: false }
    }

    pub fn ask(&self) -> &PlannedRequest {
        &self.batch.asks[self.at]
    }

    fn head(&self) -> &[u8] {
        self.batch.head(self.ask())
    }

    pub fn label(&self) -> String {
        let head = self.head();
        let mut lines = head.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
        let mut words = lines.next().unwrap_or_default().split(|b| *b == b' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let host = lines.next().and_then(|line| line.strip_prefix(b"Host: ")).unwrap_or_default();
        let method = if method == b"GET" { String::new() } else { format!("{} ", String::from_utf8_lossy(method)) };
        format!("{method}{}{}", String::from_utf8_lossy(host), String::from_utf8_lossy(target))
    }
}

#[derive(Debug)]
pub enum LinkEvent {
    More,
    Answer(ReplayAnswer),
    Failed(ReplayFault),
}

#[derive(Debug)]
pub struct ReplayLink {
    socket: ReplaySocket,
    pub stream: usize,
    pub address: usize,
    pub job: Option<ReplayJob>,
    pub served: u32,
    pub closes: bool,
    /// When connecting began; None: it is connected.
    connecting: Option<u64>,
    /// When TLS' handshake began; None: it is done, or there is none.
    shaking: Option<u64>,
    written: usize,
    /// The head with `Connection: close`, where that is sent.
    closing: Vec<u8>,
    incoming: IncomingAnswer,
    version: ReplayVersion,
    alarm: Option<u64>,
}

#[derive(Debug)]
pub enum ReplayVersion {
    Http1,
    Http2(Box<ReplayHttp2>),
    /// HTTP/3, whose socket is for datagrams.
    Http3(Box<Http3>),
}

impl ReplayLink {
    pub fn new(socket: ReplaySocket, stream: usize, address: usize, version: ReplayVersion, now: u64) -> ReplayLink {
        // QUIC connects and shakes hands at once.
        let is_quic = matches!(version, ReplayVersion::Http3(_));
        ReplayLink {
            socket,
            stream,
            address,
            job: None,
            served: 0,
            closes: false,
            connecting: (!is_quic).then_some(now),
            shaking: is_quic.then_some(now),
            written: 0,
            closing: Vec::new(),
            incoming: IncomingAnswer::new(),
            version,
            alarm: None,
        }
    }

    /// Takes a request; `closes`: it is the last one here.
    pub fn begin(&mut self, job: ReplayJob, closes: bool, codec: &mut Codec, now: u64) -> LinkEvent {
        let begun = match &mut self.version {
            ReplayVersion::Http1 => None,
            ReplayVersion::Http2(http2) => {
                Some(http2.begin(job.head(), self.socket.keeps_some(), &mut codec.heads, now))
            }
            ReplayVersion::Http3(http3) => Some(http3.begin(job.head(), job.ask().is_head, &mut codec.heads, now)),
        };
        if let Some(begun) = begun {
            (self.closes, self.job) = (closes, Some(job));
            return begun.map_or_else(LinkEvent::Failed, |()| LinkEvent::More);
        }
        self.incoming.expect(job.ask().is_head);
        self.written = 0;
        self.closes = closes;
        self.closing.clear();
        if closes {
            let head = job.head();
            self.closing.extend_from_slice(head.strip_suffix(b"\r\n").unwrap_or(head));
            self.closing.extend_from_slice(b"Connection: close\r\n\r\n");
        }
        self.job = Some(job);
        LinkEvent::More
    }

    pub fn has_answer_begun(&self) -> bool {
        match &self.version {
            ReplayVersion::Http1 => self.incoming.has_begun(),
            ReplayVersion::Http2(http2) => http2.has_answer_begun(),
            ReplayVersion::Http3(http3) => http3.has_answer_begun(),
        }
    }

    pub fn connected(&mut self, now: u64, stats: &mut ReplayStats) -> LinkEvent {
        let Some(since) = self.connecting else { return LinkEvent::More };
        if let Some(error) = self.socket.take_error() {
            return LinkEvent::Failed(connect_fault(&error));
        }
        self.connecting = None;
        stats.connect.add(now.saturating_sub(since));
        self.shaking = self.socket.keeps_some().then_some(now);
        LinkEvent::More
    }

    pub fn shaken(&mut self, now: impl FnOnce() -> u64, stats: &mut ReplayStats) {
        if let Some(since) = self.shaking
            && let Some(info) = self.socket.agreed()
        {
            self.shaking = None;
            stats.tls.add(info, now().saturating_sub(since));
        }
    }

    /// When time is next to tell of it, if that is sooner than was said before.
    pub fn new_alarm(&mut self) -> Option<u64> {
        let ReplayVersion::Http3(http3) = &mut self.version else { return None };
        let due = http3.alarm()?;
        if self.alarm.is_some_and(|alarm| alarm <= due) {
            return None;
        }
        self.alarm = Some(due);
        Some(due)
    }

    /// Handles timers that are due `now`, as set with `alarm`; true if something was due.
    pub fn elapse(&mut self, alarm: u64, now: u64) -> bool {
        let ReplayVersion::Http3(http3) = &mut self.version else { return false };
        if self.alarm != Some(alarm) {
            return false;
        }
        self.alarm = None;
        let is_due = http3.alarm().is_some_and(|due| due <= now);
        if is_due {
            http3.elapse(now);
        }
        is_due
    }

    pub fn part(mut self) {
        self.socket.part();
    }

    pub fn write(&mut self, stats: &mut ReplayStats) -> LinkEvent {
        match &mut self.version {
            ReplayVersion::Http1 => {}
            ReplayVersion::Http2(http2) => {
                return write_http2(&mut self.socket, http2, self.connecting.is_some(), stats);
            }
            ReplayVersion::Http3(http3) => return write_http3(&mut self.socket, http3, &mut stats.bytes.sent),
        }
        let Some(job) = &self.job else { return LinkEvent::More };
        let head = if self.closes { &self.closing[..] } else { job.head() };
        while let Some(rest) = head.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.socket.write(rest) {
                Ok(0) => return LinkEvent::Failed(ReplayFault::Reset),
                Ok(n) => {
                    self.written += n;
                    stats.bytes.sent += n as u64;
                }
                Err(error) => return write_error(&error, self.connecting.is_some(), stats),
            }
        }
        match self.socket.flush() {
            Ok(()) => LinkEvent::More,
            Err(error) => write_error(&error, self.connecting.is_some(), stats),
        }
    }

    /// Reads what has come; `is_closed`: up to the end of the connection, of which no other event will tell.
    pub fn read(
        &mut self,
        buffer: &mut [u8],
        is_closed: bool,
        codec: &mut Codec,
        stats: &mut ReplayStats,
        now: u64,
    ) -> LinkEvent {
        match self.version {
            ReplayVersion::Http1 => {}
            ReplayVersion::Http2(_) => return self.read_http2(buffer, codec, stats, now),
            ReplayVersion::Http3(_) => return self.read_http3(buffer, codec, stats, now),
        }
        loop {
            let plain = self.incoming.plain_rest();
            let read = match plain {
                Some(left) => {
                    let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                    self.socket.discard(&mut buffer[..most]).map(|n| (n, most))
                }
                None => self.socket.read(buffer).map(|n| (n, buffer.len())),
            };
            let (n, most) = match read {
                Ok((0, _)) => return self.incoming.end().map_or_else(LinkEvent::Failed, LinkEvent::Answer),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return LinkEvent::More,
                Err(error) => return LinkEvent::Failed(tls_fault(&error, stats).unwrap_or(ReplayFault::Reset)),
            };
            stats.bytes.received += n as u64;
            let taken = match plain {
                Some(_) => Ok(self.incoming.discarded(n as u64)),
                None => self.incoming.take(&buffer[..n], codec),
            };
            match taken {
                Ok(Some(answer)) => return LinkEvent::Answer(answer),
                Ok(None) => {}
                Err(fault) => return LinkEvent::Failed(fault),
            }
            // Less than there was room for: the socket is empty, and the next bytes are an event of their own.
            if n < most && !is_closed && !self.socket.keeps_some() {
                return LinkEvent::More;
            }
        }
    }

    fn read_http2(&mut self, buffer: &mut [u8], codec: &mut Codec, stats: &mut ReplayStats, now: u64) -> LinkEvent {
        let ReplayVersion::Http2(http2) = &mut self.version else { return LinkEvent::More };
        loop {
            let n = match self.socket.read(buffer) {
                Ok(0) => return LinkEvent::Failed(http2.end()),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return LinkEvent::Failed(tls_fault(&error, stats).unwrap_or(ReplayFault::Reset)),
            };
            stats.bytes.received += n as u64;
            match http2.take(&buffer[..n], &mut codec.heads, now) {
                Ok(Some(answer)) => return LinkEvent::Answer(answer),
                Ok(None) => {}
                Err(fault) => return LinkEvent::Failed(fault),
            }
        }
        // Credit, and answers to what the server wants to know.
        write_http2(&mut self.socket, http2, false, stats)
    }

    fn read_http3(&mut self, buffer: &mut [u8], codec: &mut Codec, stats: &mut ReplayStats, now: u64) -> LinkEvent {
        let ReplayVersion::Http3(http3) = &mut self.version else { return LinkEvent::More };
        loop {
            let received = receive(&mut self.socket, http3, buffer, &mut stats.bytes.received, now);
            let advanced = http3.advance(&mut codec.heads);
            if let Some(since) = self.shaking
                && let Some(info) = http3.agreed()
            {
                self.shaking = None;
                stats.tls.add(&info, now.saturating_sub(since));
            }
            // Acknowledgements, and what the server is told of an end.
            let written = write_http3(&mut self.socket, http3, &mut stats.bytes.sent);
            match (advanced, received) {
                (Ok(Some(answer)), _) => return LinkEvent::Answer(answer),
                (Err(fault), _) => {
                    if let Some(reason) = http3.reason() {
                        stats.tls.failed(reason);
                    }
                    return LinkEvent::Failed(fault);
                }
                (Ok(None), Err(fault)) => return LinkEvent::Failed(fault),
                (Ok(None), Ok(true)) => {}
                (Ok(None), Ok(false)) => return written,
            }
        }
    }

    /// True if an idle connection can't be used any more.
    pub fn is_stale(&mut self, buffer: &mut [u8], codec: &mut Codec, now: u64) -> bool {
        if let ReplayVersion::Http3(http3) = &mut self.version {
            let is_over = loop {
                let received = receive(&mut self.socket, http3, buffer, &mut 0, now);
                match (http3.advance(&mut codec.heads), received) {
                    (Ok(None), Ok(true)) => {}
                    (Ok(None), Ok(false)) => break http3.is_ending(),
                    _ => break true,
                }
            };
            return is_over || matches!(write_http3(&mut self.socket, http3, &mut 0), LinkEvent::Failed(_));
        }
        if let ReplayVersion::Http2(http2) = &mut self.version {
            // Here a server may have something to say.
            let is_over = loop {
                match self.socket.read(buffer) {
                    Ok(0) => break true,
                    Ok(n) if http2.take(&buffer[..n], &mut codec.heads, now).is_err() => break true,
                    Ok(_) => {}
                    Err(error) => break error.kind() != io::ErrorKind::WouldBlock,
                }
            };
            let written = write_http2(&mut self.socket, http2, false, &mut ReplayStats::new(0));
            return is_over || http2.is_ending() || matches!(written, LinkEvent::Failed(_));
        }
        !matches!(self.socket.read(buffer), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// A server would wait for who has left without a word over QUIC.
impl Drop for ReplayLink {
    fn drop(&mut self) {
        if let ReplayVersion::Http3(http3) = &mut self.version {
            http3.close();
            let _ = write_http3(&mut self.socket, http3, &mut 0);
        }
    }
}

/// Datagrams read before what they bring is looked at.
const DATAGRAMS: usize = 32;

/// Reads datagrams, and counts their bytes; whether there may be more.
fn receive(
    socket: &mut ReplaySocket,
    http3: &mut Http3,
    buffer: &mut [u8],
    bytes_in: &mut u64,
    now: u64,
) -> Result<bool, ReplayFault> {
    for _ in 0..DATAGRAMS {
        match socket.read(buffer) {
            Ok(n) => {
                *bytes_in += n as u64;
                http3.receive(&buffer[..n], now);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // Nobody is there any more.
            Err(_) if http3.is_connected() => return Err(ReplayFault::Reset),
            Err(error) => return Err(connect_fault(&error)),
        }
    }
    Ok(true)
}

/// Sends what QUIC has to say, and counts its bytes.
fn write_http3(socket: &mut ReplaySocket, http3: &mut Http3, bytes_out: &mut u64) -> LinkEvent {
    while let Some(datagram) = http3.datagram() {
        match socket.write(datagram) {
            Ok(n) => *bytes_out += n as u64,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return LinkEvent::More,
            Err(_) if http3.is_connected() => return LinkEvent::Failed(ReplayFault::Reset),
            Err(error) => return LinkEvent::Failed(connect_fault(&error)),
        }
        http3.sent();
    }
    LinkEvent::More
}

/// Notes why TLS failed, the first time; the fault if it did.
fn tls_fault(error: &io::Error, stats: &mut ReplayStats) -> Option<ReplayFault> {
    let reason = tls::over::reason(error)?;
    stats.tls.failed(reason);
    Some(ReplayFault::Tls)
}

fn write_http2(
    socket: &mut ReplaySocket,
    http2: &mut ReplayHttp2,
    is_connecting: bool,
    stats: &mut ReplayStats,
) -> LinkEvent {
    loop {
        let output = http2.output();
        if output.is_empty() {
            break;
        }
        match socket.write(output) {
            Ok(0) => return LinkEvent::Failed(ReplayFault::Reset),
            Ok(n) => {
                http2.wrote(n);
                stats.bytes.sent += n as u64;
            }
            Err(error) => return write_error(&error, is_connecting, stats),
        }
    }
    socket.flush().map_or_else(|error| write_error(&error, is_connecting, stats), |()| LinkEvent::More)
}

fn write_error(error: &io::Error, is_connecting: bool, stats: &mut ReplayStats) -> LinkEvent {
    if let Some(fault) = tls_fault(error, stats) {
        return LinkEvent::Failed(fault);
    }
    match error.kind() {
        io::ErrorKind::WouldBlock => LinkEvent::More,
        io::ErrorKind::NotConnected if is_connecting => LinkEvent::More,
        // An answer may have come before the end: what is there to read tells.
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset if !is_connecting => LinkEvent::More,
        _ => LinkEvent::Failed(connect_fault(error)),
    }
}
