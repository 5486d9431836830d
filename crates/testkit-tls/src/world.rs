// SPDX-License-Identifier: BSD-2-Clause
//! A certificate and its authority, and both roles with them.
//!
//! The unit tests of `tls` compile this file, too: a double from another crate would be one of that crate's `tls`, whose
//! types are others than those of the crate under test.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, fail by a panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring::sign;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, SupportedCipherSuite, SupportedProtocolVersion};
use tls::groups::provider as default_provider;

use tls::{
    Certificates, ClientOptions, ErrorKind, Handshake, HandshakeInfo, HandshakeProgress, NoCertificate, ServerOptions,
    TlsClient, TlsError, TlsServer, Traffic,
};

pub const NAME: &str = "a.example";

/// Settings of both sides, with a certificate that nobody else trusts.
#[derive(Debug)]
pub struct TlsWorld {
    pub server: ServerOptions,
    pub client: ClientOptions,
    authority: Authority,
}

#[derive(Debug)]
struct Authority {
    roots: Arc<RootCertStore>,
    pem: String,
    leaf: Arc<CertifiedKey>,
}

/// The state of a side once the handshake is done.
pub type HandshakeSide = (Traffic, HandshakeInfo);

/// The failures of both sides, if they failed.
pub type HandshakeFailures = (Option<TlsError>, Option<TlsError>);

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        // Two of the same name would be taken for each other.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("authority {}", NEXT.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(issuer.der().clone()).unwrap();
        let pem = issuer.pem();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec![NAME.into()]).unwrap().signed_by(&key, &issuer).unwrap();
        Authority { pem, leaf: certified(leaf.der().clone(), &key), roots: Arc::new(roots) }
    }
}

fn certified(leaf: CertificateDer<'static>, key: &KeyPair) -> Arc<CertifiedKey> {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    Arc::new(CertifiedKey::new(vec![leaf], sign::any_supported_type(&key).unwrap()))
}

impl TlsWorld {
    #[expect(clippy::new_without_default, reason = "it costs two keys")]
    pub fn new() -> Self {
        TlsWorld { server: ServerOptions::default(), client: ClientOptions::default(), authority: Authority::new() }
    }

    pub fn with_versions(versions: &[&'static SupportedProtocolVersion]) -> Self {
        let mut world = TlsWorld::new();
        world.server.versions = versions.to_vec();
        world.client.versions = versions.to_vec();
        world
    }

    pub fn with_suite(suite: SupportedCipherSuite) -> Self {
        let mut world = TlsWorld::with_versions(&[suite.version()]);
        world.server.provider =
            Arc::new(rustls::crypto::CryptoProvider { cipher_suites: vec![suite], ..default_provider() });
        world
    }

    /// The certificates of who issued the server's.
    pub fn roots(&self) -> Arc<RootCertStore> {
        self.authority.roots.clone()
    }

    pub fn roots_pem(&self) -> String {
        self.authority.pem.clone()
    }

    pub fn make_server(&self) -> Arc<TlsServer> {
        Arc::new(TlsServer::new(self.authority.leaf.clone(), &self.server).unwrap())
    }

    pub fn make_client(&self) -> Arc<TlsClient> {
        let provider = Arc::new(default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(self.authority.roots.clone(), provider).build().unwrap();
        Arc::new(TlsClient::new(verifier, &self.client).unwrap())
    }

    /// A client for QUIC that offers this application protocol.
    ///
    /// # Panics
    /// The settings contradict themselves.
    pub fn make_quic_client(&self, alpn: &[u8]) -> Arc<dyn quinn_proto::crypto::ClientConfig> {
        quic_client(self.authority.roots.clone(), alpn)
    }

    /// A server for QUIC as quinn has it, that takes this application protocol.
    ///
    /// # Panics
    /// The settings contradict themselves.
    pub fn make_quic_server(&self, alpn: &[u8]) -> Arc<dyn quinn_proto::crypto::ServerConfig> {
        let resolver = rustls::sign::SingleCertAndKey::from(CertifiedKey::clone(&self.authority.leaf));
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![alpn.to_vec()];
        Arc::new(quinn_proto::crypto::rustls::QuicServerConfig::try_from(config).unwrap())
    }

    /// Both at the beginning of a handshake: server, client.
    pub fn both(&self) -> (Result<Handshake, TlsError>, Result<Handshake, TlsError>) {
        let alpn = self.client.alpn.iter().map(Vec::as_slice);
        (Handshake::server(&self.make_server(), Some(NAME), alpn), Handshake::client(&self.make_client(), NAME))
    }

    /// Both at its end.
    pub fn connect(&self) -> (HandshakeSide, HandshakeSide) {
        let (mut server, mut client) = self.both();
        handshake(&mut server, &mut client, usize::MAX).unwrap()
    }
}

/// A client for QUIC that believes these authorities, in PEM, and offers this application protocol.
///
/// # Panics
/// They are none.
pub fn quic_client_for(roots: &str, alpn: &[u8]) -> Arc<dyn quinn_proto::crypto::ClientConfig> {
    let mut store = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(roots.as_bytes()) {
        store.add(root.unwrap()).unwrap();
    }
    quic_client(Arc::new(store), alpn)
}

fn quic_client(roots: Arc<RootCertStore>, alpn: &[u8]) -> Arc<dyn quinn_proto::crypto::ClientConfig> {
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    config.enable_early_data = true;
    Arc::new(quinn_proto::crypto::rustls::QuicClientConfig::try_from(config).unwrap())
}

/// Lets both speak until they are done, or one has failed and the other has heard of it. `step`: how many bytes come at once. A
/// client's tickets are read.
pub fn handshake(
    server: &mut Result<Handshake, TlsError>,
    client: &mut Result<Handshake, TlsError>,
    step: usize,
) -> Result<(HandshakeSide, HandshakeSide), HandshakeFailures> {
    connect(server, client, step, &mut Vec::new())
}

/// The same, with what the client hasn't read.
pub fn connect(
    server: &mut Result<Handshake, TlsError>,
    client: &mut Result<Handshake, TlsError>,
    step: usize,
    unread: &mut Vec<u8>,
) -> Result<(HandshakeSide, HandshakeSide), HandshakeFailures> {
    let (server, client) = shake_hands(server, client, step, unread)?;
    Ok((server.finish().unwrap(), client.finish().unwrap()))
}

/// The same up to where both may finish.
pub fn shake_hands(
    server: &mut Result<Handshake, TlsError>,
    client: &mut Result<Handshake, TlsError>,
    step: usize,
    unread: &mut Vec<u8>,
) -> Result<(Handshake, Handshake), HandshakeFailures> {
    let take = |side: &mut Result<Handshake, TlsError>| {
        std::mem::replace(side, Err(TlsError::new(ErrorKind::Internal, "taken"))).unwrap()
    };
    let (mut server, mut client) = (take(server), take(client));
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let (mut server_reads, mut client_reads) = (Vec::new(), Vec::new());
    let (mut server_is, mut client_is) = (Ok(HandshakeProgress::Waits), Ok(HandshakeProgress::Waits));
    for _ in 0..100_000 {
        if client_is == Ok(HandshakeProgress::Waits) {
            client_reads.extend(to_client.drain(..step.min(to_client.len())));
            client_is = client.advance(&mut client_reads, &mut to_server);
        }
        if server_is == Ok(HandshakeProgress::Waits) {
            server_reads.extend(to_server.drain(..step.min(to_server.len())));
            server_is = server.advance(&mut server_reads, &mut to_client);
        }
        match (&server_is, &client_is) {
            (Ok(HandshakeProgress::Done), Ok(HandshakeProgress::Done)) => {
                unread.append(&mut client_reads);
                unread.append(&mut to_client);
                return Ok((server, client));
            }
            (Err(_), Err(_)) | (Err(_), Ok(HandshakeProgress::Done)) | (Ok(HandshakeProgress::Done), Err(_)) => break,
            _ => {}
        }
    }
    Err((server_is.err(), client_is.err()))
}

#[derive(Debug)]
pub struct OneForAll(Arc<TlsServer>);

impl OneForAll {
    pub fn new(world: &TlsWorld) -> Self {
        OneForAll(world.make_server())
    }
}

impl Certificates for OneForAll {
    fn find(&self, _: &str, sni: Option<&str>) -> Result<Arc<TlsServer>, NoCertificate> {
        match sni {
            Some(name) if name != NAME => Err(NoCertificate::UnknownName),
            _ => Ok(self.0.clone()),
        }
    }
}

pub fn ticketer() -> Arc<tls::tickets::Ticketer> {
    let tickets = tls::tickets::Tickets::default();
    tickets.replace(&[tls::tickets::TicketKey::random().expect("randomness")]);
    tickets.bound_to(b"")
}
