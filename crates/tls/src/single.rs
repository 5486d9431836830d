// SPDX-License-Identifier: BSD-2-Clause
//! A server of one certificate, for programs beside the traffic: HTTP/1.1 alone, no sessions to be taken up, and clients that may show
//! who they are.

use std::sync::Arc;

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;

use crate::groups;
use crate::handshake::Handshake;
use crate::pem::{self, Pair};
use crate::server::{ServerOptions, TlsServer};
use crate::settings::roots;

const HTTP1: &[u8] = b"http/1.1";

#[derive(Clone, Debug)]
pub struct Single(Arc<TlsServer>);

impl Single {
    /// Reads files' contents in PEM: chain and key, the key's own file where it has one, and the authorities whose
    /// clients are known.
    ///
    /// # Errors
    /// The file and its fault, in words.
    pub fn of(chain: &[u8], key: Option<&[u8]>, authorities: Option<&[u8]>) -> Result<Single, String> {
        let told = |error: pem::PemError| error.to_string();
        let contents = pem::read(chain).map_err(told)?;
        let contents = match key {
            Some(key) => contents.with_keys_of(pem::read(key).map_err(told)?),
            None => contents,
        };
        let authorities = authorities.map(pem::authorities).transpose().map_err(told)?;
        Single::from_pair(&contents.pair().map_err(told)?, authorities.as_deref())
    }

    /// The process has a key from here on, which no core may hold.
    fn from_pair(pair: &Pair, authorities: Option<&[Vec<u8>]>) -> Result<Single, String> {
        sys::secret::forbid_core().map_err(|error| format!("cores can't be forbidden: {error}"))?;
        let provider = Arc::new(groups::provider());
        let key = any_supported_type(&pair.form.key(&pair.key)).map_err(|error| error.to_string())?;
        let chain = pair.chain.iter().map(|der| CertificateDer::from(der.clone())).collect();
        let client_verifier = match authorities {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(ders) => {
                let ders: Vec<&[u8]> = ders.iter().map(Vec::as_slice).collect();
                let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(&ders)?), provider.clone());
                builder.allow_unauthenticated().build().map_err(|error| error.to_string())?
            }
        };
        // No tickets: whoever came back by one would be known after the certificate's end, too.
        let options =
            ServerOptions { provider, alpn: vec![HTTP1.to_vec()], client_verifier, ..ServerOptions::default() };
        let server =
            TlsServer::new(Arc::new(CertifiedKey::new(chain, key)), &options).map_err(|error| error.to_string())?;
        Ok(Single(Arc::new(server)))
    }

    /// A handshake with a client that has just connected. Its verified certificate is [`crate::HandshakeInfo::peer_leaf`].
    ///
    /// # Errors
    /// See [`Handshake::server`].
    pub fn handshake(&self) -> Result<Handshake, crate::TlsError> {
        Handshake::server(&self.0, None, [HTTP1])
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

    use super::*;
    use crate::origin::{OwnCertificate, TlsOrigin};
    use crate::roots::Roots;
    use crate::testing;

    struct Authority(CertifiedIssuer<'static, KeyPair>);

    impl Authority {
        fn new(name: &str) -> Authority {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
        }

        fn issue(&self, name: &str) -> String {
            let key = KeyPair::generate().unwrap();
            let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
            format!("{}{}", leaf.pem(), key.serialize_pem())
        }
    }

    /// Handshakes with a client that has this certificate: `None` if it is refused, else true if its certificate is
    /// known.
    fn met(server: &Single, roots: &str, own: Option<String>) -> Option<bool> {
        let certificate = own.map(|pem| OwnCertificate::from_pem(pem.as_bytes()).unwrap());
        let origin =
            TlsOrigin { roots: Roots::from_pem(roots.as_bytes()).unwrap(), certificate, ..TlsOrigin::of("a.test") };
        let mut client = Handshake::client(&origin.client(0).unwrap(), "a.test");
        let ((_, info), _) = testing::handshake(&mut server.handshake(), &mut client, usize::MAX).ok()?;
        Some(info.peer_leaf().is_some())
    }

    #[test]
    fn who_shows_a_good_certificate_is_known_and_who_shows_none_is_let_in() {
        let (ours, others) = (Authority::new("ours"), Authority::new("others"));
        let (chain, roots) = (ours.issue("a.test"), ours.0.pem());
        let plain = Single::of(chain.as_bytes(), None, None).unwrap();
        assert_eq!(met(&plain, &roots, Some(ours.issue("me"))), Some(false), "nobody is asked");
        let asking = Single::of(chain.as_bytes(), None, Some(roots.as_bytes())).unwrap();
        assert_eq!(met(&asking, &roots, Some(ours.issue("me"))), Some(true));
        assert_eq!(met(&asking, &roots, None), Some(false));
        assert_eq!(met(&asking, &roots, Some(others.issue("me"))), None, "of somebody else");
    }

    #[test]
    fn what_is_wrong_is_told() {
        let said = |chain: &[u8], key: Option<&[u8]>, authorities: Option<&[u8]>| {
            Single::of(chain, key, authorities).map_or_else(|error| error, |_| "fine".to_owned())
        };
        let ours = Authority::new("ours");
        let (one, other) = (ours.issue("a.test"), ours.issue("b.test"));
        let chain = one.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap();
        assert_eq!(said(one.as_bytes(), None, None), "fine");
        assert_eq!(said(chain.as_bytes(), Some(one.as_bytes()), None), "fine");
        assert_ne!(said(chain.as_bytes(), None, None), "fine");
        assert_ne!(said(chain.as_bytes(), Some(other.as_bytes()), None), "fine");
        assert_ne!(said(one.as_bytes(), None, Some(b"nothing")), "fine");
        assert_ne!(said(b"", None, None), "fine");
    }
}
