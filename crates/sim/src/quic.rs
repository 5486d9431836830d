// SPDX-License-Identifier: BSD-2-Clause
//! Clients that speak HTTP/3 to the real front, over a network that loses, doubles, delays and reorders datagrams. As TLS draws keys of its own,
//! a seed gives the same plan again, but not each datagram.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fronts::h3;
use http3::qpack::{self, QpackEncoder};
use http3::varint;
use net::quic::{self, Connection, Endpoint, RecvStream, SendStream, VarInt};
use testkit_net::quic::{Path, QuicNetwork};
use testkit_tls::NAME;
use tls::quic::{QuicKeys, QuicServer};

use crate::client::uploaded;
use crate::history::{SimAnswer, SimEnd};
use crate::plan::{SimAsk, SimClient, SimUpload};
use crate::script::SimFraming;
use crate::world::SimWorld;

fn server() -> SocketAddr {
    ([10, 0, 0, 2], 443).into()
}

/// Frames (RFC 9114 7.2).
const DATA: u64 = 0;
const HEADERS: u64 = 1;
/// A request is given up (RFC 9114 8.1).
const CANCELLED: u32 = 0x10c;
const NO_ERROR: u32 = 0x100;
const SECTION_BYTES: usize = 64 * 1024;

pub(crate) struct SimQuic {
    network: QuicNetwork,
    config: quinn::ClientConfig,
    port: Cell<u16>,
}

impl SimQuic {
    /// Serves from now on, as tasks.
    pub fn begin(world: &Rc<SimWorld>, tls: &testkit_tls::TlsWorld, path: Path) -> Self {
        let network = QuicNetwork::new(path, Box::new(|bound| rt::sim::draw(bound).unwrap_or(0)));
        let (engine, keys) = (&world.engine, QuicKeys::new(&[7; 32]));
        let tls_server = QuicServer::new(engine.sessions.certificates.clone(), "a0", || false);
        let tls_server = Arc::new(tls_server.expect("its settings are the usual ones"));
        let params = engine.params.load();
        let bytes = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let limits = quic::QuicLimits {
            streams: params.h3_max_concurrent_streams,
            stream_window: bytes(params.h3_stream_window),
            window: bytes(params.h3_window),
            send_window: bytes(params.h3_send_window),
            idle: params.h3_idle_timeout,
        };
        let config = Arc::new(quic::config(&tls_server, &keys, &limits, None));
        let is_alone = Arc::new(true.into());
        let own_socket = quic::GroupSocket { member: 0, members: 1, life: 1, is_superseded: Arc::default(), is_alone };
        let endpoint = network.serve(server(), own_socket, &keys, quic::ServerConfig::clone(&config));
        let endpoint = endpoint.expect("a network without sockets");
        rt::spawn(accept(world.clone(), endpoint, h3::Http3Config { quic: config, takes_early_data: false }));
        let config = quinn::ClientConfig::new(tls.make_quic_client(http3::ALPN));
        SimQuic { network, config, port: Cell::new(40_000) }
    }

    pub async fn connect(&self, client: &SimClient) -> Option<SimQuicLink> {
        let at = ([192, 0, 2, client.number as u8 + 1], self.port.replace(self.port.get() + 1)).into();
        let endpoint = self.network.client(at).expect("a network without sockets");
        let connecting = endpoint.connect_with(self.config.clone(), server(), NAME).ok()?;
        let connection = connecting.await.ok()?;
        let mut control = connection.open_uni().await.ok()?;
        // A control stream, and SETTINGS that say nothing.
        control.write_all(&[0, 4, 0]).await.ok()?;
        Some(SimQuicLink { connection, _control: control, _endpoint: endpoint })
    }
}

async fn accept(world: Rc<SimWorld>, endpoint: Endpoint, config: h3::Http3Config) {
    let group = Rc::<h3::LinkGroup>::default();
    let own_socket = h3::ListenerSocket { local: server(), number: 0 };
    while let Some(incoming) = endpoint.accept().await {
        world.serve_quic(group.clone(), own_socket, (incoming, config.clone()));
    }
}

/// A client's connection. Its control stream doesn't end before it.
pub(crate) struct SimQuicLink {
    connection: Connection,
    _control: SendStream,
    _endpoint: Endpoint,
}

impl Drop for SimQuicLink {
    fn drop(&mut self) {
        self.connection.close(VarInt::from_u32(NO_ERROR), b"");
    }
}

/// A stream that is given up where nothing else is said.
struct Stream {
    send: SendStream,
    recv: RecvStream,
    is_over: bool,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = self.send.reset(VarInt::from_u32(CANCELLED));
            let _ = self.recv.stop(VarInt::from_u32(CANCELLED));
        }
    }
}

struct Broken;

impl SimQuicLink {
    /// Asks, and waits for the answer as long as `ask` says; whether the connection can be used again.
    pub async fn ask(&self, ask: &SimAsk) -> (SimAnswer, bool) {
        let answer = RefCell::new(SimAnswer::default());
        let exchanged = self.exchange(ask, &answer);
        let is_usable = match ask.gone {
            Some(after) => match rt::timeout(after, exchanged).await {
                Ok(exchanged) => exchanged.is_ok(),
                Err(rt::Elapsed) => {
                    answer.borrow_mut().end = SimEnd::Left;
                    true
                }
            },
            None => exchanged.await.is_ok(),
        };
        (answer.into_inner(), is_usable && self.connection.close_reason().is_none())
    }

    async fn exchange(&self, ask: &SimAsk, answer: &RefCell<SimAnswer>) -> Result<(), Broken> {
        let (send, recv) = self.connection.open_bi().await.map_err(|_| Broken)?;
        let mut stream = Stream { send, recv, is_over: false };
        stream.send.write_all(&head(ask)).await.map_err(|_| Broken)?;
        if let Some(upload) = &ask.body {
            // An answer may come before all of it was taken.
            let _ = send_body(&mut stream.send, upload, uploaded(ask, upload).bytes().as_slice()).await;
            if upload.is_cut {
                return Ok(());
            }
        }
        let _ = stream.send.finish();
        let mut octets = Vec::new();
        let read = read(&mut stream.recv, ask.slow, &mut octets).await;
        let mut answer = answer.borrow_mut();
        take(&octets, &mut answer);
        read?;
        stream.is_over = true;
        let is_whole = ask.method == "HEAD"
            || answer.status == 304
            || answer.number("content-length").is_none_or(|length| length == answer.body.len() as u64);
        answer.end = if is_whole && answer.status > 0 { SimEnd::Whole } else { SimEnd::Cut };
        Ok(())
    }
}

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::write(kind, &mut out);
    varint::write(payload.len() as u64, &mut out);
    out.extend_from_slice(payload);
    out
}

fn head(ask: &SimAsk) -> Vec<u8> {
    let mut section = Vec::new();
    let mut encoder = QpackEncoder::begin(&mut section);
    let mut field = |name: &str, value: &str| encoder.field(name.to_lowercase().as_bytes(), value.as_bytes());
    field(":method", &ask.method);
    field(":scheme", "https");
    field(":authority", "example.com");
    field(":path", &ask.url);
    ask.headers.iter().for_each(|(name, value)| field(name, value));
    if let Some(upload) = ask.body.as_ref().filter(|upload| upload.framing == SimFraming::Length) {
        field("content-length", &uploaded(ask, upload).bytes().len().to_string());
    }
    frame(HEADERS, &section)
}

async fn send_body(send: &mut SendStream, upload: &SimUpload, bytes: &[u8]) -> Result<(), Broken> {
    let pieces = upload.pieces as usize;
    for (at, piece) in bytes.chunks(bytes.len().div_ceil(pieces).max(1)).enumerate() {
        if at > 0 {
            rt::sleep(upload.pause).await;
        }
        let is_last = upload.is_cut && at + 1 >= pieces;
        let piece = if is_last { &piece[..piece.len() / 2] } else { piece };
        send.write_all(&frame(DATA, piece)).await.map_err(|_| Broken)?;
        if is_last {
            return Err(Broken);
        }
    }
    Ok(())
}

/// Reads to the end; who gives up keeps what came.
async fn read(recv: &mut RecvStream, slow: Option<(usize, Duration)>, octets: &mut Vec<u8>) -> Result<(), Broken> {
    let mut piece = vec![0; slow.map_or(16 * 1024, |(bytes, _)| bytes)];
    loop {
        if let Some((_, pause)) = slow {
            rt::sleep(pause).await;
        }
        match recv.read(&mut piece).await {
            Ok(Some(count)) => octets.extend_from_slice(&piece[..count]),
            Ok(None) => return Ok(()),
            Err(_) => return Err(Broken),
        }
    }
}

fn take(mut octets: &[u8], answer: &mut SimAnswer) {
    while let Some((kind, len, begin)) = frame_at(octets) {
        let payload = &octets[begin..octets.len().min(begin + len)];
        match kind {
            DATA => answer.body.extend_from_slice(payload),
            HEADERS if payload.len() == len => fields(payload, answer),
            _ => {}
        }
        octets = &octets[(begin + len).min(octets.len())..];
    }
}

/// Type of a frame, the length of its payload, and the payload's offset.
fn frame_at(octets: &[u8]) -> Option<(u64, usize, usize)> {
    let (kind, first) = varint::read(octets)?;
    let (len, second) = varint::read(&octets[first..])?;
    Some((kind, usize::try_from(len).ok()?, first + second))
}

fn fields(section: &[u8], answer: &mut SimAnswer) {
    let mut fields = Vec::new();
    let unpacked = qpack::decode(section, SECTION_BYTES, &mut qpack::QpackScratch::default(), |name, value| {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        fields.push((text(name), text(value)));
        Ok(())
    });
    let status = fields.iter().find(|(name, _)| name == ":status").and_then(|(_, value)| value.parse().ok());
    // An interim answer is none, and what stands behind a body has no status.
    if let (Ok(()), Some(status @ 200..)) = (unpacked, status) {
        fields.retain(|(name, _)| !name.starts_with(':'));
        (answer.status, answer.headers) = (status, fields);
    }
}
