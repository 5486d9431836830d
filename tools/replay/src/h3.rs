// SPDX-License-Identifier: BSD-2-Clause
//! HTTP/3 over one QUIC connection, one request at a time (`--http3`). No socket and no clock here: datagrams and times in, datagrams and
//! the time of the next step out. quinn-proto has QUIC, `response` what is on a request's stream.

mod response;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http3::control::{self, ControlReader as Control, StreamKind};
use http3::{Http3ErrorCode, head, varint};
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    ReadError, StreamEvent, StreamId, TransportConfig, TransportErrorCode, VarInt,
};
use tls::HandshakeInfo;
use tls::quic::QuicClient;

use crate::answer::ReplayAnswer;
use crate::faults::ReplayFault;
use crate::h2::{HeadBuffers, lay};
use response::ReplayHttp3Response;

/// Windows are of no interest here: as large as bodies can make use of.
const WINDOW: u32 = 64 << 20;
/// Streams of the server's: control, QPACK's two, and some that nobody knows.
const MAX_UNI_STREAMS: u8 = 8;
/// Most such streams in all, more than anybody opens.
const MOST_UNI_STREAMS: usize = 100;
/// Most bytes of a field section, which the server is told.
const SECTION_BYTES: u64 = 256 << 10;
/// Codes of CONNECTION_CLOSE that are TLS' alerts (RFC 9001 4.8).
const ALERTS: std::ops::Range<u64> = 0x100..0x200;

#[derive(Clone)]
pub struct ReplayHttp3Config {
    endpoint: Arc<EndpointConfig>,
    client: ClientConfig,
    /// Start of the clock in nanoseconds.
    epoch: Instant,
}

impl ReplayHttp3Config {
    pub fn new(tls: Arc<tls::TlsClient>, epoch: Instant) -> Result<ReplayHttp3Config, tls::TlsError> {
        let mut client = ClientConfig::new(Arc::new(QuicClient::new(tls)?));
        let mut transport = TransportConfig::default();
        transport.max_concurrent_bidi_streams(0u8.into());
        transport.max_concurrent_uni_streams(MAX_UNI_STREAMS.into());
        transport.stream_receive_window(WINDOW.into());
        transport.receive_window(WINDOW.into());
        // How long a request may take is said by --timeout.
        transport.max_idle_timeout(None);
        transport.datagram_receive_buffer_size(None);
        client.transport_config(Arc::new(transport));
        Ok(ReplayHttp3Config { endpoint: Arc::new(EndpointConfig::default()), client, epoch })
    }

    fn at(&self, now: u64) -> Instant {
        self.epoch + Duration::from_nanos(now)
    }
}

struct Exchange {
    unsent: Vec<u8>,
    to_head: bool,
    /// None: QUIC's handshake isn't done.
    stream: Option<StreamId>,
    is_finished: bool,
    response: ReplayHttp3Response,
}

pub struct Http3 {
    config: ReplayHttp3Config,
    remote: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    quic: Connection,
    now: Instant,
    exchange: Option<Exchange>,
    has_begun: bool,
    /// Streams that the server opened, and what is known of each.
    theirs: Vec<(StreamId, Theirs)>,
    is_connected: bool,
    is_ending: bool,
    over: Option<ReplayFault>,
    reason: Option<tls::TlsError>,
    datagram: Vec<u8>,
}

/// A stream in one direction.
enum Theirs {
    /// Bytes of its type.
    Begins(Vec<u8>),
    Control(Control, Vec<u8>),
    /// QPACK's, which has nothing to say to who has no table, or one that nobody knows.
    Ignored,
}

impl std::fmt::Debug for Http3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http3").field("remote", &self.remote).field("over", &self.over).finish_non_exhaustive()
    }
}

impl Http3 {
    /// A connection that begins; `name` is asked for and verified.
    ///
    /// # Errors
    /// That is no name, or no address.
    pub fn new(config: &ReplayHttp3Config, remote: SocketAddr, name: &str, now: u64) -> Result<Http3, ReplayFault> {
        let now = config.at(now);
        let mut endpoint = Endpoint::new(config.endpoint.clone(), None, false, None);
        let made = endpoint.connect(now, config.client.clone(), remote, name);
        let (handle, quic) = made.map_err(|_| ReplayFault::Connect)?;
        Ok(Http3 {
            config: config.clone(),
            remote,
            endpoint,
            handle,
            quic,
            now,
            exchange: None,
            has_begun: false,
            theirs: Vec::new(),
            is_connected: false,
            is_ending: false,
            over: None,
            reason: None,
            datagram: Vec::new(),
        })
    }

    /// Begins a request, given as HTTP/1 has it.
    ///
    /// # Errors
    /// It can't be said in HTTP/3, or the connection is over.
    pub fn begin(
        &mut self,
        request: &[u8],
        to_head: bool,
        heads: &mut HeadBuffers,
        now: u64,
    ) -> Result<(), ReplayFault> {
        self.now = self.config.at(now);
        self.has_begun = false;
        if let Some(fault) = self.over {
            return Err(fault);
        }
        lay(request, &mut heads.request).ok_or(ReplayFault::BadHead)?;
        let mut unsent = Vec::new();
        head::write_request(&heads.request, "https", &mut unsent);
        let response = ReplayHttp3Response::new();
        self.exchange = Some(Exchange { unsent, to_head, stream: None, is_finished: false, response });
        self.send();
        Ok(())
    }

    pub fn receive(&mut self, datagram: &[u8], now: u64) {
        self.now = self.config.at(now);
        let mut answer = Vec::new();
        match self.endpoint.handle(self.now, self.remote, None, None, datagram.into(), &mut answer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => self.quic.handle_event(event),
            // Who is no server has no connections to begin, and nothing to say of those that aren't known.
            Some(DatagramEvent::NewConnection(_) | DatagramEvent::Response(_)) | None => {}
        }
    }

    pub fn alarm(&mut self) -> Option<u64> {
        let at = self.quic.poll_timeout()?;
        Some(at.saturating_duration_since(self.config.epoch).as_nanos() as u64)
    }

    pub fn elapse(&mut self, now: u64) {
        self.now = self.config.at(now);
        self.quic.handle_timeout(self.now);
    }

    pub fn datagram(&mut self) -> Option<&[u8]> {
        if self.datagram.is_empty() {
            let _ = self.quic.poll_transmit(self.now, 1, &mut self.datagram)?;
        }
        Some(&self.datagram)
    }

    pub fn sent(&mut self) {
        self.datagram.clear();
    }

    pub fn agreed(&self) -> Option<HandshakeInfo> {
        let data = self.quic.crypto_session().handshake_data().filter(|_| self.is_connected)?;
        data.downcast::<HandshakeInfo>().ok().map(|info| *info)
    }

    pub fn reason(&self) -> Option<&tls::TlsError> {
        self.reason.as_ref()
    }

    pub fn has_answer_begun(&self) -> bool {
        self.has_begun
    }

    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    pub fn is_ending(&self) -> bool {
        self.is_ending || self.over.is_some()
    }

    /// Parts from the server; what it is told is the next datagram.
    pub fn close(&mut self) {
        self.quic.close(self.now, VarInt::from_u32(Http3ErrorCode::NoError.number()), Default::default());
    }

    /// Handles received bytes; the answer when it is whole.
    ///
    /// # Errors
    /// There is none, or it is broken, or the connection is over.
    pub fn advance(&mut self, heads: &mut HeadBuffers) -> Result<Option<ReplayAnswer>, ReplayFault> {
        self.events();
        self.send();
        let read = self.listen().and_then(|()| self.read(heads));
        self.settle();
        match (read, self.over) {
            (Ok(None), Some(fault)) => Err(fault),
            (read, _) => read,
        }
    }

    /// Passes events between the endpoint and the connection of quinn-proto.
    fn settle(&mut self) {
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
    }

    fn events(&mut self) {
        self.settle();
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => self.connected(),
                Event::ConnectionLost { reason } => self.over = Some(self.end(&reason)),
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    while let Some(stream) = self.quic.streams().accept(Dir::Uni) {
                        self.theirs.push((stream, Theirs::Begins(Vec::new())));
                        if self.theirs.len() > MOST_UNI_STREAMS {
                            self.over = Some(ReplayFault::BadHead);
                            break;
                        }
                    }
                }
                // What is to be read and written is looked for in any case.
                Event::Stream(_) | Event::HandshakeDataReady | Event::DatagramReceived | Event::DatagramsUnblocked => {}
            }
        }
    }

    /// The handshake is done: our control stream begins.
    fn connected(&mut self) {
        self.is_connected = true;
        let Some(stream) = self.quic.streams().open(Dir::Uni) else {
            self.over = Some(ReplayFault::BadHead);
            return;
        };
        let mut settings = Vec::new();
        control::begin(SECTION_BYTES, &mut settings);
        // Any window has room for that: who grants none isn't spoken with.
        if self.quic.send_stream(stream).write(&settings) != Ok(settings.len()) {
            self.over = Some(ReplayFault::BadHead);
        }
    }

    fn send(&mut self) {
        let Some(exchange) = self.exchange.as_mut().filter(|exchange| self.is_connected && !exchange.is_finished)
        else {
            return;
        };
        if exchange.stream.is_none() {
            exchange.stream = self.quic.streams().open(Dir::Bi);
        }
        let Some(stream) = exchange.stream else { return };
        let mut send = self.quic.send_stream(stream);
        let written = send.write(&exchange.unsent).unwrap_or(0);
        exchange.unsent.drain(..written);
        if exchange.unsent.is_empty() {
            exchange.is_finished = true;
            // It fails where the server wants no more of the request, whose answer is read all the same.
            let _ = send.finish();
        }
    }

    fn listen(&mut self) -> Result<(), ReplayFault> {
        for at in 0..self.theirs.len() {
            while let Some(bytes) = self.next_of(self.theirs[at].0) {
                let end = self.theirs[at].1.take(&bytes).map_err(|_| ReplayFault::BadHead)?;
                if let Some(end) = end {
                    self.is_ending = true;
                    let own = self.exchange.as_ref().and_then(|exchange| exchange.stream).map(u64::from);
                    // The server has done nothing with the request.
                    if own.is_some_and(|own| own >= end) {
                        return Err(ReplayFault::Closed);
                    }
                }
            }
        }
        Ok(())
    }

    /// More bytes of one of the server's own streams; they aren't missed where it was reset.
    fn next_of(&mut self, stream: StreamId) -> Option<Vec<u8>> {
        let mut recv = self.quic.recv_stream(stream);
        let mut chunks = recv.read(true).ok()?;
        let chunk = chunks.next(usize::MAX);
        let _ = chunks.finalize();
        chunk.ok().flatten().map(|chunk| chunk.bytes.to_vec())
    }

    fn read(&mut self, heads: &mut HeadBuffers) -> Result<Option<ReplayAnswer>, ReplayFault> {
        let Some(exchange) = &mut self.exchange else { return Ok(None) };
        let Some(stream) = exchange.stream else { return Ok(None) };
        loop {
            let mut recv = self.quic.recv_stream(stream);
            let Ok(mut chunks) = recv.read(true) else { return Ok(None) };
            let chunk = chunks.next(usize::MAX);
            let _ = chunks.finalize();
            let taken = match chunk {
                Ok(Some(chunk)) => exchange.response.take(&chunk.bytes, heads).map(|()| None),
                Ok(None) => exchange.response.end(exchange.to_head).map(Some),
                Err(ReadError::Blocked) => return Ok(None),
                // It has done nothing with the request.
                Err(ReadError::Reset(code)) if code == VarInt::from_u32(Http3ErrorCode::RequestRejected.number()) => {
                    Err(ReplayFault::Closed)
                }
                Err(ReadError::Reset(_)) => Err(exchange.response.reset()),
            };
            self.has_begun = exchange.response.has_begun();
            if let Some(answer) = taken? {
                self.exchange = None;
                return Ok(Some(ReplayAnswer { keeps: answer.keeps && !self.is_ending(), ..answer }));
            }
        }
    }

    fn end(&mut self, reason: &ConnectionError) -> ReplayFault {
        let (code, is_ours, text) = match reason {
            ConnectionError::TransportError(error) => (error.code, true, error.reason.clone()),
            ConnectionError::ConnectionClosed(close) => {
                (close.error_code, false, String::from_utf8_lossy(&close.reason).into_owned())
            }
            ConnectionError::TimedOut => return ReplayFault::Timeout,
            ConnectionError::Reset => return ReplayFault::Reset,
            ConnectionError::ApplicationClosed(_) | ConnectionError::LocallyClosed if self.has_begun => {
                return ReplayFault::Truncated;
            }
            ConnectionError::ApplicationClosed(_) | ConnectionError::LocallyClosed => return ReplayFault::Closed,
            ConnectionError::VersionMismatch | ConnectionError::CidsExhausted => return ReplayFault::Connect,
        };
        if let Some(alert) = alert(code) {
            self.reason = Some(tls::quic::failure(alert, is_ours, &text));
            return ReplayFault::Tls;
        }
        if !self.is_connected { ReplayFault::Refused } else { ReplayFault::Reset }
    }
}

/// TLS' alert, if it was one.
fn alert(code: TransportErrorCode) -> Option<u8> {
    let code = u64::from(code);
    ALERTS.contains(&code).then(|| (code - ALERTS.start) as u8)
}

impl Theirs {
    /// Takes what came; the first stream of those that the server hasn't done anything with, once it says so.
    fn take(&mut self, bytes: &[u8]) -> Result<Option<u64>, http3::Http3Error> {
        if let Theirs::Begins(held) = self {
            held.extend_from_slice(bytes);
            let Some((kind, len)) = varint::read(held) else { return Ok(None) };
            let rest = held.split_off(len);
            *self = match StreamKind::from_number(kind) {
                StreamKind::Control => Theirs::Control(Control::default(), Vec::new()),
                StreamKind::Push | StreamKind::Encoder | StreamKind::Decoder | StreamKind::Other => Theirs::Ignored,
            };
            return self.take(&rest);
        }
        let Theirs::Control(reader, held) = self else { return Ok(None) };
        held.extend_from_slice(bytes);
        loop {
            let (said, done) = reader.next(held)?;
            held.drain(..done);
            if said.is_none() {
                return Ok(reader.last_goaway());
            }
        }
    }
}
