// SPDX-License-Identifier: BSD-2-Clause
//! What a server is to a client that asks for a name: one certificate with the settings it is used under, and who finds it.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{DEFAULT_VERSIONS, ProtocolVersion, SupportedProtocolVersion};

use crate::TlsError;
use crate::compressed::COMPRESSORS;
use crate::early::{EarlyData, EarlyPlace};
use crate::groups;
use crate::hello::ClientHello;
use crate::settings::{ClientVerify, Overrides};
use crate::tickets::{Ticketer, Tickets};

/// Finds the certificate for a client, as it is configured at that moment.
pub trait Certificates: Send + Sync + fmt::Debug {
    /// For a client that came to `frontend`, a listener's name, and asks for the name `sni`, in lower case.
    ///
    /// # Errors
    /// See [`NoCertificate`].
    fn find(&self, frontend: &str, sni: Option<&str>) -> Result<Arc<TlsServer>, NoCertificate>;

    /// True if a client that was asked `held` when it came to `frontend` may ask for `host` there. Called where
    /// certificates differ in that ([`TlsServer::clients`]).
    fn admits(&self, _frontend: &str, _host: Option<&str>, _held: ClientPolicy) -> bool {
        true
    }

    /// True if a client that was asked `held` (`None`: it came without TLS, or was asked for nothing) may ask for
    /// `host` at any listener.
    fn admits_anywhere(&self, _host: Option<&str>, _held: Option<ClientPolicy>) -> bool {
        true
    }

    fn asks_clients(&self) -> bool {
        false
    }
}

/// Policy for clients' certificates: whether one is needed, and by which lists it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientPolicy {
    pub verify: ClientVerify,
    pub authorities: Option<u32>,
    pub revoked: Option<u32>,
}

impl ClientPolicy {
    /// The policy in these settings. Without a certificate the lists don't matter.
    pub fn of(said: &Overrides) -> ClientPolicy {
        match said.client_verify.unwrap_or(ClientVerify::None) {
            verify @ ClientVerify::None => ClientPolicy { verify, authorities: None, revoked: None },
            verify => ClientPolicy { verify, authorities: said.client_ca, revoked: said.client_crl },
        }
    }

    pub fn asks_nothing(self) -> bool {
        self.verify == ClientVerify::None
    }

    /// True if a client that was asked `held` has been asked this, too.
    pub fn is_met_by(self, held: ClientPolicy) -> bool {
        self.asks_nothing() || self == held
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCertificate {
    NothingLoaded,
    UnknownName,
    Broken(String),
}

impl fmt::Display for NoCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoCertificate::NothingLoaded => f.write_str("No certificates loaded"),
            NoCertificate::UnknownName => f.write_str("no certificate for the name that was asked for"),
            NoCertificate::Broken(why) => write!(f, "the certificate can't be used: {why}"),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct NothingLoaded;

impl Certificates for NothingLoaded {
    fn find(&self, _: &str, _: Option<&str>) -> Result<Arc<TlsServer>, NoCertificate> {
        Err(NoCertificate::NothingLoaded)
    }
}

#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub provider: Arc<CryptoProvider>,
    pub versions: Vec<&'static SupportedProtocolVersion>,
    pub prefer_server_order: bool,
    /// Application protocols, the preferred one first. A client that offers none of them goes on without.
    pub alpn: Vec<Vec<u8>>,
    /// Verifier of clients' certificates, which also knows if one is needed.
    pub client_verifier: Arc<dyn ClientCertVerifier>,
    /// Tickets for resumption. Sessions under other settings need another ticketer: a client that wasn't verified must
    /// not become one that was.
    pub ticketer: Option<Arc<Ticketer>>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            provider: Arc::new(groups::provider()),
            versions: DEFAULT_VERSIONS.to_vec(),
            prefer_server_order: false,
            alpn: Vec::new(),
            client_verifier: WebPkiClientVerifier::no_client_auth(),
            ticketer: None,
        }
    }
}

/// The name of HTTP/2 in ALPN (RFC 9113 3.2).
const HTTP2: &[u8] = b"h2";

pub struct TlsServer {
    leaf: Arc<[u8]>,
    config: Arc<ServerConfig>,
    /// The settings for a client that offers application protocols and none of ours: rustls would refuse it.
    without_alpn: Option<Arc<ServerConfig>>,
    /// The settings without HTTP/2, made when a client first needs them.
    without_http2: OnceLock<Arc<ServerConfig>>,
    /// The settings for QUIC, which has one application protocol; made when they are first asked for.
    quic: OnceLock<Arc<ServerConfig>>,
    /// The settings for QUIC with early data, and the place whose sessions they have.
    quic_early: Mutex<Option<(Arc<EarlyPlace>, Arc<ServerConfig>)>>,
    resumption: Option<Resumption>,
    has_tls13: bool,
    asks_clients: bool,
    clients: Option<ClientPolicy>,
}

/// The settings for clients that resume a session, by the tickets that they have.
struct Resumption {
    ticketer: Arc<Ticketer>,
    /// TLS 1.3: one ticket for the one that is used up; a new session has two, as browsers open more than one connection.
    one_ticket: Arc<ServerConfig>,
    /// TLS 1.2: none, as the one it has may be used again.
    no_ticket: Arc<ServerConfig>,
}

impl TlsServer {
    /// # Errors
    /// The options contradict themselves.
    pub fn new(key: Arc<CertifiedKey>, options: &ServerOptions) -> Result<Self, TlsError> {
        let leaf = key.cert.first().map_or(&[][..], AsRef::as_ref).into();
        let mut config = ServerConfig::builder_with_provider(options.provider.clone())
            .with_protocol_versions(&options.versions)?
            .with_client_cert_verifier(options.client_verifier.clone())
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        config.ignore_client_order = options.prefer_server_order;
        config.enable_secret_extraction = true;
        config.cert_compressors = COMPRESSORS.to_vec();
        config.session_storage = Arc::new(NoServerSessionStorage {});
        match &options.ticketer {
            Some(ticketer) => config.ticketer = ticketer.clone(),
            None => config.send_tls13_tickets = 0,
        }
        let without_alpn = (!options.alpn.is_empty()).then(|| Arc::new(config.clone()));
        config.alpn_protocols.clone_from(&options.alpn);
        let resumption = options.ticketer.as_ref().map(|ticketer| Resumption::new(ticketer, &config));
        let has_tls13 = options.versions.iter().any(|one| one.version == ProtocolVersion::TLSv1_3);
        let asks_clients = options.client_verifier.offer_client_auth();
        let (config, quic, without_http2) = (Arc::new(config), OnceLock::new(), OnceLock::new());
        Ok(TlsServer {
            leaf,
            config,
            without_alpn,
            without_http2,
            quic,
            quic_early: Mutex::default(),
            resumption,
            has_tls13,
            asks_clients,
            clients: None,
        })
    }

    /// One of a listener whose certificates differ in what they ask of clients: this one asks that.
    pub fn asking(self, clients: Option<ClientPolicy>) -> TlsServer {
        TlsServer { clients, ..self }
    }

    /// The policy for clients, if other certificates of the listener have another one.
    pub fn clients(&self) -> Option<ClientPolicy> {
        self.clients
    }

    pub fn leaf(&self) -> &Arc<[u8]> {
        &self.leaf
    }

    pub(crate) fn asks_clients(&self) -> bool {
        self.asks_clients
    }

    /// For a client that came by QUIC (RFC 9001 8.1): `h3` or nothing.
    pub(crate) fn quic_config(&self) -> &Arc<ServerConfig> {
        self.quic.get_or_init(|| {
            let mut config = ServerConfig::clone(&self.config);
            config.alpn_protocols = vec![b"h3".to_vec()];
            Arc::new(config)
        })
    }

    /// The same where early data is taken. Nothing where no session can be resumed, or clients show certificates: those are looked at anew.
    pub(crate) fn quic_early_config(&self, early: &EarlyData) -> Option<Arc<ServerConfig>> {
        let ticketer = &self.resumption.as_ref().filter(|_| !self.asks_clients)?.ticketer;
        let place = early.place(ticketer.binding());
        let mut made = self.quic_early.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, config)) = &*made
            && at.is(&place)
        {
            return Some(config.clone());
        }
        let (place, mut config) = (Arc::new(place), ServerConfig::clone(self.quic_config()));
        config.session_storage = place.clone();
        // Without keys: rustls takes early data only in sessions that it has stored.
        config.ticketer = Tickets::default().bound_to(b"");
        // QUIC's own limits hold (RFC 9001 4.6.1).
        config.max_early_data_size = u32::MAX;
        let config = Arc::new(config);
        *made = Some((place, config.clone()));
        Some(config)
    }

    pub(crate) fn config<'a>(&self, alpn: impl IntoIterator<Item = &'a [u8]>) -> &Arc<ServerConfig> {
        let ours = &self.config.alpn_protocols;
        let mut offers = alpn.into_iter().peekable();
        match &self.without_alpn {
            Some(without) if offers.peek().is_some() && !offers.any(|theirs| ours.iter().any(|our| our == theirs)) => {
                without
            }
            _ => &self.config,
        }
    }

    /// The settings for a client that offers HTTP/2 and isn't to get it. They are kept for as long as somebody refuses
    /// it: a resumed session has two tickets then, too.
    fn config_without_http2(&self, hello: &ClientHello<'_>) -> &Arc<ServerConfig> {
        let config = self.without_http2.get_or_init(|| {
            let mut config = ServerConfig::clone(&self.config);
            config.alpn_protocols.retain(|name| name != HTTP2);
            Arc::new(config)
        });
        let is_spoken = |theirs: &[u8]| config.alpn_protocols.iter().any(|our| our == theirs);
        self.without_alpn.as_ref().filter(|_| !hello.alpn().any(is_spoken)).unwrap_or(config)
    }

    /// The settings for the client that sent `hello`; `offers_http2` tells if it may have HTTP/2.
    pub(crate) fn config_for(&self, hello: &ClientHello<'_>, offers_http2: bool) -> &Arc<ServerConfig> {
        if !offers_http2 && hello.alpn().any(|theirs| theirs == HTTP2) {
            return self.config_without_http2(hello);
        }
        let config = self.config(hello.alpn());
        let Some(resumption) = self.resumption.as_ref().filter(|_| Arc::ptr_eq(config, &self.config)) else {
            return config;
        };
        match self.has_tls13 && hello.offers_tls13() {
            true if hello.has_psk() => &resumption.one_ticket,
            false if hello.ticket().is_some_and(|ticket| resumption.ticketer.is_fresh(ticket)) => &resumption.no_ticket,
            _ => config,
        }
    }
}

impl Resumption {
    fn new(ticketer: &Arc<Ticketer>, config: &ServerConfig) -> Self {
        let (mut one_ticket, mut no_ticket) = (config.clone(), config.clone());
        one_ticket.send_tls13_tickets = 1;
        no_ticket.ticketer = Arc::new(ticketer.taking());
        Resumption { ticketer: ticketer.clone(), one_ticket: Arc::new(one_ticket), no_ticket: Arc::new(no_ticket) }
    }
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServer").finish_non_exhaustive()
    }
}
