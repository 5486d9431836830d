// SPDX-License-Identifier: BSD-2-Clause
//! What a client is to the servers it speaks with: how it verifies them, who it is itself, and the sessions it remembers.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{DEFAULT_VERSIONS, SupportedProtocolVersion};

use crate::groups;
use crate::sessions::{Noting, Sessions};
use crate::{ErrorKind, TlsError};

#[derive(Clone, Debug)]
pub struct ClientOptions {
    pub provider: Arc<CryptoProvider>,
    pub versions: Vec<&'static SupportedProtocolVersion>,
    pub alpn: Vec<Vec<u8>>,
    /// Sends the server's name (SNI).
    pub sends_name: bool,
    pub certificate: Option<Arc<CertifiedKey>>,
    pub sessions: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            provider: Arc::new(groups::provider()),
            versions: DEFAULT_VERSIONS.to_vec(),
            alpn: Vec::new(),
            sends_name: true,
            certificate: None,
            sessions: 64,
        }
    }
}

/// A client. It remembers sessions, so one is made for each identity and kept.
#[derive(Debug)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    #[cfg(test)]
    sessions: Option<Arc<Sessions>>,
}

impl TlsClient {
    /// A client that accepts servers as `verifier` says.
    ///
    /// # Errors
    /// The options contradict themselves.
    pub fn new(verifier: Arc<dyn ServerCertVerifier>, options: &ClientOptions) -> Result<Self, TlsError> {
        let sessions = (options.sessions > 0).then(|| Arc::new(Sessions::new(options.sessions)));
        let verifier = match &sessions {
            Some(sessions) => Arc::new(Noting { verifier, sessions: sessions.clone() }),
            None => verifier,
        };
        let builder = ClientConfig::builder_with_provider(options.provider.clone())
            .with_protocol_versions(&options.versions)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &options.certificate {
            Some(key) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key.clone()))),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols.clone_from(&options.alpn);
        config.enable_sni = options.sends_name;
        config.enable_secret_extraction = true;
        config.resumption = match &sessions {
            Some(sessions) => Resumption::store(sessions.clone()),
            None => Resumption::disabled(),
        };
        Ok(TlsClient {
            config: Arc::new(config),
            #[cfg(test)]
            sessions,
        })
    }

    #[cfg(test)]
    pub(crate) fn sessions(&self) -> Option<&Arc<Sessions>> {
        self.sessions.as_ref()
    }

    pub(crate) fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// The name as rustls wants it, and what of it is sent.
    pub(crate) fn server_name(&self, name: &str) -> Result<(ServerName<'static>, Option<Box<str>>), TlsError> {
        if let Ok(address) = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            return Ok((ServerName::IpAddress(address.into()), None));
        }
        // RFC 6066 3: without the dot that a name may end with.
        let name = name.strip_suffix('.').unwrap_or(name);
        let parsed = ServerName::try_from(name.to_owned())
            .map_err(|_| TlsError::new(ErrorKind::Name, format!("{name:?} is no name of a server")))?;
        Ok((parsed, self.config.enable_sni.then(|| name.into())))
    }
}
