// SPDX-License-Identifier: BSD-2-Clause
//! TLS for QUIC (RFC 9001), as quinn-proto wants it: messages without records in, messages and keys out. As with TCP the hello is read
//! first, and by its name the certificate is found; rustls carries out the handshake.

use std::any::Any;
use std::fmt;
use std::io::Cursor;
use std::sync::Arc;

use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::crypto::ring::cipher_suite;
use rustls::quic::{KeyChange, Secrets, ServerConnection, Suite, Version};
use rustls::server::{ClientHello as RustlsHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, ServerConfig};

use crate::early::EarlyData;
use crate::groups;
use crate::hello::{ClientHello, HelloOutline};
use crate::{Certificates, ClientPolicy, ErrorKind, HandshakeInfo, NoCertificate, TlsError, handshake};

mod client;

pub use client::QuicClient;

const MESSAGE_HEADER: usize = 4;
const CLIENT_HELLO: u8 = 1;
/// The longest hello: as with TCP.
const MAX_HELLO_BYTES: usize = crate::hello::MAX_RAW_BYTES;

/// TLS for a QUIC listener: a `quinn_proto::crypto::ServerConfig`.
pub struct QuicServer {
    certificates: Arc<dyn Certificates>,
    frontend: String,
    /// Tells at a handshake's time if JA3 is wanted.
    wants_ja3: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Has the keys of first packets, which are nobody's.
    first: Arc<QuicServerConfig>,
    /// Early data and the sessions it is taken in; `None` refuses it.
    early: Option<EarlyData>,
    suite: Suite,
}

impl QuicServer {
    /// Shows the certificates of the listener `frontend`.
    ///
    /// # Errors
    /// A fault of ours.
    pub fn new(
        certificates: Arc<dyn Certificates>,
        frontend: &str,
        wants_ja3: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        let suite = first_suite()?;
        let first = nobody(suite)?;
        let (frontend, wants_ja3) = (frontend.to_owned(), Arc::new(wants_ja3));
        Ok(QuicServer { certificates, frontend, wants_ja3, first, early: None, suite })
    }

    /// The same, with early data or without.
    #[must_use]
    pub fn with_early(&self, early: Option<EarlyData>) -> Self {
        let (certificates, wants_ja3) = (self.certificates.clone(), self.wants_ja3.clone());
        QuicServer {
            certificates,
            frontend: self.frontend.clone(),
            wants_ja3,
            first: self.first.clone(),
            early,
            suite: self.suite,
        }
    }
}

impl fmt::Debug for QuicServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicServer").field("frontend", &self.frontend).finish_non_exhaustive()
    }
}

fn no_suite() -> TlsError {
    TlsError::new(ErrorKind::Internal, "no cipher suite for the first packets")
}

fn first_suite() -> Result<Suite, TlsError> {
    cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite()).ok_or_else(no_suite)
}

/// Has what no session is needed for: the keys of first packets, the tags of Retry packets.
fn nobody(suite: Suite) -> Result<Arc<QuicServerConfig>, TlsError> {
    let nobody = ServerConfig::builder_with_provider(Arc::new(groups::provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Nobody));
    QuicServerConfig::with_initial(Arc::new(nobody), suite).map(Arc::new).map_err(|_| no_suite())
}

/// Shows no certificate: sessions have settings of their own.
#[derive(Debug)]
struct Nobody;

impl ResolvesServerCert for Nobody {
    fn resolve(&self, _: RustlsHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

/// RFC 9000 alone; quinn asks [`QuicServerConfig`] first, which knows drafts, too, but endpoints offer none of them.
const VERSION: Version = Version::V1;
pub const VERSION_NUMBER: u32 = 1;

impl crypto::ServerConfig for QuicServer {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.first.initial_keys(version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.first.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(self: Arc<Self>, _: u32, params: &TransportParameters) -> Box<dyn crypto::Session> {
        let mut ours = Vec::new();
        params.write(&mut ours);
        Box::new(Session {
            state: QuicKeysState::Hello { came: Vec::new(), ours },
            server: self,
            next: None,
            is_told: false,
        })
    }
}

struct Session {
    state: QuicKeysState,
    server: Arc<QuicServer>,
    next: Option<Secrets>,
    /// quinn was told that something is known of the client.
    is_told: bool,
}

enum QuicKeysState {
    /// The hello isn't whole; our transport parameters wait for it.
    Hello {
        came: Vec<u8>,
        ours: Vec<u8>,
    },
    Begun(Box<Begun>),
}

struct Begun {
    connection: ServerConnection,
    own_leaf: Arc<[u8]>,
    clients: Option<ClientPolicy>,
    sni: Option<Box<str>>,
    hello: HelloOutline,
}

fn refuse(alert: AlertDescription, reason: impl Into<String>) -> TransportError {
    TransportError { code: TransportErrorCode::crypto(alert.into()), frame: None, reason: reason.into() }
}

fn whole_hello(came: &[u8]) -> Result<Option<&[u8]>, TransportError> {
    let Some((&[kind, a, b, c], body)) = came.split_first_chunk::<MESSAGE_HEADER>() else { return Ok(None) };
    if kind != CLIENT_HELLO {
        return Err(refuse(AlertDescription::UnexpectedMessage, "the first message is no ClientHello"));
    }
    let len = u32::from_be_bytes([0, a, b, c]) as usize;
    if len > MAX_HELLO_BYTES {
        return Err(refuse(AlertDescription::DecodeError, "the ClientHello is too long"));
    }
    Ok(body.get(..len))
}

impl Session {
    fn begin(&mut self, buf: &[u8]) -> Result<(), TransportError> {
        let QuicKeysState::Hello { came, ours } = &mut self.state else { return Ok(()) };
        came.extend_from_slice(buf);
        let Some(hello) = whole_hello(came)? else { return Ok(()) };
        let hello =
            ClientHello::parse(hello).map_err(|error| refuse(AlertDescription::DecodeError, error.to_string()))?;
        let sni = hello.server_name();
        let name = sni.map(str::to_ascii_lowercase);
        let own =
            self.server.certificates.find(&self.server.frontend, name.as_deref()).map_err(|error| match error {
                NoCertificate::Broken(_) => refuse(AlertDescription::InternalError, error.to_string()),
                _ => refuse(AlertDescription::UnrecognisedName, error.to_string()),
            })?;
        let early = self.server.early.as_ref().and_then(|early| own.quic_early_config(early));
        let config = early.unwrap_or_else(|| own.quic_config().clone());
        let connection = ServerConnection::new(config, VERSION, std::mem::take(ours))
            .map_err(|error| refuse(AlertDescription::ProtocolVersion, error.to_string()))?;
        let (own_leaf, sni) = (own.leaf().clone(), sni.map(Into::into));
        let hello = HelloOutline::new(&hello);
        let mut begun = Box::new(Begun { connection, own_leaf, clients: own.clients(), sni, hello });
        let read = begun.read(came);
        self.state = QuicKeysState::Begun(begun);
        read
    }

    fn begun(&self) -> Option<&Begun> {
        match &self.state {
            QuicKeysState::Begun(begun) => Some(begun),
            QuicKeysState::Hello { .. } => None,
        }
    }

    fn begun_mut(&mut self) -> Option<&mut Begun> {
        match &mut self.state {
            QuicKeysState::Begun(begun) => Some(begun),
            QuicKeysState::Hello { .. } => None,
        }
    }
}

impl Begun {
    fn read(&mut self, message: &[u8]) -> Result<(), TransportError> {
        self.connection.read_hs(message).map_err(|error| {
            refuse(self.connection.alert().unwrap_or(AlertDescription::InternalError), error.to_string())
        })
    }

    fn info(&self, with_ja3: bool) -> Option<HandshakeInfo> {
        let info = handshake::info_of(&self.connection, self.sni.clone(), Some(self.own_leaf.clone())).ok()?;
        let early_data = self.connection.zero_rtt_keys().is_some();
        Some(HandshakeInfo { early_data, ..info.of_client(&self.hello, self.clients, with_ja3) })
    }
}

impl crypto::Session for Session {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        initial_keys(self.server.suite, dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.begun()?.info((self.server.wants_ja3)()).map(|info| Box::new(info) as Box<dyn Any>)
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.begun()?.connection.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    /// Asked of clients alone.
    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.begun().is_none_or(|begun| begun.connection.is_handshaking())
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        match &mut self.state {
            QuicKeysState::Hello { .. } => self.begin(buf)?,
            QuicKeysState::Begun(begun) => begun.read(buf)?,
        }
        if !self.is_told && self.begun().is_some_and(|begun| begun.connection.alpn_protocol().is_some()) {
            self.is_told = true;
            return Ok(true);
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(theirs) = self.begun().and_then(|begun| begun.connection.quic_transport_parameters()) else {
            return Ok(None);
        };
        TransportParameters::read(Side::Server, &mut Cursor::new(theirs)).map(Some).map_err(TransportError::from)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let change = self.begun_mut()?.connection.write_hs(buf)?;
        Some(agreed_keys(change, &mut self.next))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.next.as_mut().map(next_keys)
    }

    /// Only clients get them.
    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        false
    }

    /// Nothing here is derived from a session.
    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

fn initial_keys(suite: Suite, dst_cid: &ConnectionId, side: Side) -> Keys {
    let side = if side.is_server() { rustls::Side::Server } else { rustls::Side::Client };
    keys(suite.keys(dst_cid, side, VERSION))
}

/// Those that a handshake has come to; with the last of them the secrets of the next update come.
fn agreed_keys(change: KeyChange, next_secrets: &mut Option<Secrets>) -> Keys {
    match change {
        KeyChange::Handshake { keys: agreed } => keys(agreed),
        KeyChange::OneRtt { keys: agreed, next } => {
            *next_secrets = Some(next);
            keys(agreed)
        }
    }
}

fn next_keys(secrets: &mut Secrets) -> KeyPair<Box<dyn PacketKey>> {
    let keys = secrets.next_packet_keys();
    KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) }
}

fn keys(keys: rustls::quic::Keys) -> Keys {
    Keys {
        header: KeyPair { local: Box::new(keys.local.header), remote: Box::new(keys.remote.header) },
        packet: KeyPair { local: Box::new(keys.local.packet), remote: Box::new(keys.remote.packet) },
    }
}

/// The reason for a handshake that ended with this alert: ours, or the client's.
pub fn failure(alert: u8, is_ours: bool, reason: &str) -> TlsError {
    if !is_ours {
        return crate::error::from_alert(alert);
    }
    let kind = match AlertDescription::from(alert) {
        AlertDescription::ProtocolVersion => ErrorKind::Version,
        AlertDescription::HandshakeFailure
        | AlertDescription::InsufficientSecurity
        | AlertDescription::NoApplicationProtocol => ErrorKind::Parameters,
        AlertDescription::UnrecognisedName => ErrorKind::Name,
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateRequired
        | AlertDescription::UnknownCA => ErrorKind::Certificate,
        AlertDescription::DecryptError | AlertDescription::BadRecordMac => ErrorKind::Decrypt,
        AlertDescription::InternalError => ErrorKind::Internal,
        _ => ErrorKind::Protocol,
    };
    TlsError::new(kind, reason)
}

/// The secrets that a fleet of workers has in common, by which it knows addresses and connections again.
pub struct QuicKeys {
    pub reset: Arc<dyn crypto::HmacKey>,
    pub token: Arc<dyn crypto::HandshakeTokenKey>,
}

impl QuicKeys {
    /// Derives all keys from one secret.
    pub fn new(secret: &[u8; 32]) -> Self {
        let derive = |label: &[u8]| {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
            ring::hmac::sign(&key, label)
        };
        let reset = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, derive(b"stateless reset").as_ref());
        let token = ring::hkdf::Salt::new(ring::hkdf::HKDF_SHA256, &[]).extract(derive(b"address token").as_ref());
        QuicKeys { reset: Arc::new(reset), token: Arc::new(token) }
    }
}

impl fmt::Debug for QuicKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QuicKeys(..)")
    }
}
