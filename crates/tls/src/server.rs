// SPDX-License-Identifier: BSD-2-Clause
//! What a server is to a client that asks for a name: one certificate with the settings it is used under, and who finds it.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ProducesTickets, ServerConfig, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{DEFAULT_VERSIONS, SupportedProtocolVersion};

use crate::Error;

/// Finds the certificate for a client, as it is configured at that moment.
pub trait Certificates: Send + Sync + fmt::Debug {
    /// For a client that came to `frontend`, a listener's name, and asks for the name `sni`, in lower case.
    ///
    /// # Errors
    /// See [`NoCertificate`].
    fn find(&self, frontend: &str, sni: Option<&str>) -> Result<Arc<Server>, NoCertificate>;
}

/// Why there is no certificate for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCertificate {
    /// The listener has none at all.
    NothingLoaded,
    /// None has that name, and clients that ask for another are refused.
    UnknownName,
    /// The one that has it can't be used.
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

/// There are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NothingLoaded;

impl Certificates for NothingLoaded {
    fn find(&self, _: &str, _: Option<&str>) -> Result<Arc<Server>, NoCertificate> {
        Err(NoCertificate::NothingLoaded)
    }
}

/// The settings that a certificate is used under.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Cipher suites and groups.
    pub provider: Arc<CryptoProvider>,
    /// Versions.
    pub versions: Vec<&'static SupportedProtocolVersion>,
    /// Whether the order of suites is ours and not the client's.
    pub prefer_server_order: bool,
    /// Application protocols, the preferred one first. A client that offers none of them goes on without.
    pub alpn: Vec<Vec<u8>>,
    /// Whether a client has to have a certificate, and whose.
    pub client_verifier: Arc<dyn ClientCertVerifier>,
    /// What makes sessions resumable. It has to tell apart sessions under other settings: a client that wasn't verified must not
    /// become one that was.
    pub ticketer: Option<Arc<dyn ProducesTickets>>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            provider: Arc::new(default_provider()),
            versions: DEFAULT_VERSIONS.to_vec(),
            prefer_server_order: false,
            alpn: Vec::new(),
            client_verifier: WebPkiClientVerifier::no_client_auth(),
            ticketer: None,
        }
    }
}

/// One certificate with its settings.
pub struct Server {
    leaf: Arc<[u8]>,
    config: Arc<ServerConfig>,
    /// The same for a client that offers application protocols and none of ours: rustls would refuse it.
    without_alpn: Option<Arc<ServerConfig>>,
}

impl Server {
    /// # Errors
    /// The options contradict themselves.
    pub fn new(key: Arc<CertifiedKey>, options: &ServerOptions) -> Result<Self, Error> {
        let leaf = key.cert.first().map_or(&[][..], AsRef::as_ref).into();
        let mut config = ServerConfig::builder_with_provider(options.provider.clone())
            .with_protocol_versions(&options.versions)?
            .with_client_cert_verifier(options.client_verifier.clone())
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        config.ignore_client_order = options.prefer_server_order;
        config.enable_secret_extraction = true;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        match &options.ticketer {
            Some(ticketer) => config.ticketer = ticketer.clone(),
            None => config.send_tls13_tickets = 0,
        }
        if options.alpn.is_empty() {
            return Ok(Server { leaf, config: Arc::new(config), without_alpn: None });
        }
        let without_alpn = Some(Arc::new(config.clone()));
        config.alpn_protocols.clone_from(&options.alpn);
        Ok(Server { leaf, config: Arc::new(config), without_alpn })
    }

    /// Its own certificate, in DER.
    pub fn leaf(&self) -> &Arc<[u8]> {
        &self.leaf
    }

    /// For a client that offers these application protocols.
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
}

impl fmt::Debug for Server {
    /// Nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}
