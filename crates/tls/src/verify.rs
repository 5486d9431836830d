// SPDX-License-Identifier: BSD-2-Clause
//! Whether a server's certificate is good enough: what it must have is told by [`Verify`].
//!
//! rustls' own check takes a chain or refuses it, and then looks at the name. People ask for less (the chain without the
//! name, as Varnish does unless told otherwise; nothing at all), and OpenSSL, which they are used to, takes two things more:
//! a certificate that is itself among the trusted ones, and the common name of one that has no alternative names.

use std::sync::{Arc, LazyLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::groups;
use crate::revoked::Revoked;
use crate::roots::Roots;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verify {
    /// Nothing: anybody may be the other end.
    Nothing,
    /// The certificate comes from somebody trusted and holds now. It may be another server's.
    Chain,
    /// The chain, and the name that was asked for.
    ChainAndName,
}

impl Verify {
    /// The check that VCL's two settings mean. Without the chain the name says nothing.
    pub fn of(peer: bool, host: bool) -> Verify {
        match (peer, host) {
            (false, _) => Verify::Nothing,
            (true, false) => Verify::Chain,
            (true, true) => Verify::ChainAndName,
        }
    }
}

/// The crypto provider, once for all origins.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(groups::provider()));
    PROVIDER.clone()
}

/// A check for rustls.
///
/// # Errors
/// A list of revoked certificates can't be read.
pub fn verifier(
    verify: Verify,
    roots: &Roots,
    revoked: Option<&Revoked>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let chains = if verify == Verify::Nothing || roots.anchors().is_empty() {
        None
    } else {
        let builder = WebPkiServerVerifier::builder_with_provider(roots.anchors().clone(), provider.clone());
        let builder = match revoked {
            // Of an authority that gave no list nothing is known: its certificates are as good as without the file.
            Some(revoked) => {
                builder.with_crls(revoked.lists()).allow_unknown_revocation_status().enforce_revocation_expiration()
            }
            None => builder,
        };
        Some(builder.build().map_err(|error| error.to_string())?)
    };
    Ok(Arc::new(Judge { verify, roots: roots.clone(), chains, provider: provider.clone() }))
}

#[derive(Debug)]
struct Judge {
    verify: Verify,
    roots: Roots,
    chains: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.verify == Verify::Nothing {
            return Ok(ServerCertVerified::assertion());
        }
        if self.roots.has(leaf) {
            holds_now(leaf, now)?;
            return self.name(leaf, name);
        }
        let Some(chains) = &self.chains else {
            return Err(other("no authority is trusted here: the system has no certificates of any"));
        };
        match chains.verify_server_cert(leaf, others, name, ocsp, now) {
            // The chain was judged before the name.
            Err(Error::InvalidCertificate(error)) if is_of_name(&error) => self.name(leaf, name),
            Err(error) => Err(self.plainer(error, leaf)),
            Ok(good) => Ok(good),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        self.signature(verify_tls12_signature(message, certificate, signed, algorithms))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        self.signature(verify_tls13_signature(message, certificate, signed, algorithms))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl Judge {
    /// The chain is good: is the name?
    fn name(&self, leaf: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<ServerCertVerified, Error> {
        if self.verify == Verify::Chain {
            return Ok(ServerCertVerified::assertion());
        }
        let parsed = rustls::server::ParsedCertificate::try_from(leaf)?;
        match rustls::client::verify_server_name(&parsed, name) {
            Err(_) if is_common_name(leaf, name) => Ok(ServerCertVerified::assertion()),
            judged => judged.map(|()| ServerCertVerified::assertion()),
        }
    }

    /// Checks a signature. If nothing else is checked, a certificate that can't be read (of version 1, say) or has too
    /// short a key is accepted: it proves no less than any other, as a machine in the middle could show a good one of
    /// its own.
    fn signature(&self, judged: Result<HandshakeSignatureValid, Error>) -> Result<HandshakeSignatureValid, Error> {
        match judged {
            Err(Error::InvalidCertificate(_)) if self.verify == Verify::Nothing => {
                Ok(HandshakeSignatureValid::assertion())
            }
            judged => judged,
        }
    }

    /// One that signed itself is what people meet most: they are told so.
    fn plainer(&self, error: Error, leaf: &CertificateDer<'_>) -> Error {
        let is_unknown = match &error {
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
            Error::InvalidCertificate(CertificateError::Other(why)) => why.to_string().contains("CaUsedAsEndEntity"),
            _ => false,
        };
        let signed_itself =
            X509Certificate::from_der(leaf).is_ok_and(|(_, it)| it.issuer().as_raw() == it.subject().as_raw());
        if is_unknown && signed_itself { other("self-signed certificate") } else { error }
    }
}

fn is_of_name(error: &CertificateError) -> bool {
    matches!(error, CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })
}

/// Words of our own, as rustls carries them.
#[derive(Debug)]
struct Words(&'static str);

impl std::fmt::Display for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Words {}

fn other(words: &'static str) -> Error {
    CertificateError::Other(OtherError(Arc::new(Words(words)))).into()
}

/// Checks the validity period of a certificate that is trusted by itself; no chain is looked at.
fn holds_now(leaf: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let (_, parsed) = X509Certificate::from_der(leaf).map_err(|_| CertificateError::BadEncoding)?;
    let validity = parsed.validity();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > validity.not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

/// True if the name is the common name of a certificate without alternative names, as old ones are.
fn is_common_name(leaf: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(leaf) else { return false };
    if !matches!(parsed.subject_alternative_name(), Ok(None)) {
        return false;
    }
    let common = parsed.subject().iter_common_name().next().and_then(|common| common.as_str().ok());
    common.is_some_and(|common| match name {
        ServerName::DnsName(name) => is_name(common, name.as_ref()),
        _ => false,
    })
}

/// True if a certificate's name, maybe with `*` as its whole first label, matches a host (RFC 6125, 6.4.3).
fn is_name(pattern: &str, name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    match pattern.strip_prefix("*.") {
        // The rest must be a domain, not all of them.
        Some(domain) if domain.contains('.') => {
            name.split_once('.').is_some_and(|(first, rest)| !first.is_empty() && rest.eq_ignore_ascii_case(domain))
        }
        Some(_) => false,
        None => pattern.eq_ignore_ascii_case(name),
    }
}

/// The reason for refusing a certificate, in OpenSSL's words where it has some: those are what people search for.
pub fn reason(error: &CertificateError) -> String {
    let text = match error {
        CertificateError::Expired => "certificate has expired",
        CertificateError::ExpiredContext { not_after, .. } => {
            return format!("certificate has expired (at {})", date(not_after));
        }
        CertificateError::NotValidYet => "certificate is not yet valid",
        CertificateError::NotValidYetContext { not_before, .. } => {
            return format!("certificate is not yet valid (before {})", date(not_before));
        }
        CertificateError::Revoked => "certificate revoked",
        CertificateError::UnknownIssuer => "unable to get local issuer certificate",
        CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. } => {
            "CRL has expired"
        }
        CertificateError::BadSignature => "certificate signature failure",
        CertificateError::BadEncoding => "it can't be read",
        CertificateError::UnhandledCriticalExtension => "unhandled critical extension",
        CertificateError::NotValidForName => "hostname mismatch",
        CertificateError::NotValidForNameContext { expected, presented } => {
            return format!("hostname mismatch: {} isn't one of: {}", expected.to_str(), names(presented));
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "unsuitable certificate purpose"
        }
        CertificateError::Other(words) => return words.to_string(),
        error => return error.to_string(),
    };
    text.to_owned()
}

/// A few of the names that a certificate has: the record has an end.
fn names(presented: &[String]) -> String {
    const MOST: usize = 8;
    // As rustls writes them: DnsName("a.example").
    let plain = |name: &String| name.split('"').nth(1).map_or_else(|| name.clone(), str::to_owned);
    let mut text = presented.iter().take(MOST).map(plain).collect::<Vec<_>>().join(", ");
    if presented.is_empty() {
        text.push_str("(none)");
    } else if presented.len() > MOST {
        text.push_str(", ...");
    }
    text.chars().filter(|c| !c.is_control()).collect()
}

fn date(time: &UnixTime) -> String {
    let time = i64::try_from(time.as_secs())
        .ok()
        .and_then(|seconds| x509_parser::time::ASN1Time::from_timestamp(seconds).ok());
    time.map_or_else(|| "?".to_owned(), |time| time.to_string())
}

#[cfg(test)]
mod tests;
