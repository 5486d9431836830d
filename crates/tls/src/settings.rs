// SPDX-License-Identifier: BSD-2-Clause
//! What may be said of TLS on a listener or of a certificate, and how it is said: versions, cipher suites, groups, application
//! protocols, certificates of clients. Words and lists are OpenSSL's, as configuration files of hitch and Varnish have them.

mod ciphers;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::{RootCertStore, SupportedCipherSuite, SupportedProtocolVersion};

use crate::groups;

pub use ciphers::{CipherError, ciphers, ciphersuites};

/// Versions that a connection may have: TLS 1.2, TLS 1.3 or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Versions {
    pub tls12: bool,
    pub tls13: bool,
}

/// Words of `tls-protos`, oldest first.
const PROTOCOLS: [&str; 5] = ["SSLv3", "TLSv1.0", "TLSv1.1", "TLSv1.2", "TLSv1.3"];

/// The place of a word of `tls-protos` among the versions; names differ in case only where `ignore_case`.
pub fn protocol(word: &str) -> Option<usize> {
    PROTOCOLS.iter().position(|name| name.eq_ignore_ascii_case(word))
}

impl Versions {
    /// The versions that these words of `tls-protos` allow: all from the oldest to the newest, as in Varnish, as far as
    /// we have them. `None` if we have none of them.
    pub fn between(protocols: &[usize]) -> Option<Versions> {
        let (oldest, newest) = (protocols.iter().min()?, protocols.iter().max()?);
        let within = |at: usize| (*oldest..=*newest).contains(&at);
        let versions = Versions { tls12: within(3), tls13: within(4) };
        (versions.tls12 || versions.tls13).then_some(versions)
    }

    fn list(self) -> Vec<&'static SupportedProtocolVersion> {
        let both = [(self.tls13, &rustls::version::TLS13), (self.tls12, &rustls::version::TLS12)];
        both.into_iter().filter(|(on, _)| *on).map(|(_, version)| version).collect()
    }
}

/// Client certificates: none, optional or required.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientVerify {
    None,
    /// A certificate, which is checked when it comes.
    Optional,
    /// A certificate; without one there is no connection.
    Required,
}

impl ClientVerify {
    pub fn named(word: &str) -> Option<ClientVerify> {
        [Self::None, Self::Optional, Self::Required].into_iter().find(|v| v.as_str() == word)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Optional => "optional",
            Self::Required => "required",
        }
    }
}

const ALPN: [&str; 2] = ["http/1.1", "h2"];

/// Default for `alpn-protos`, the preferred one first.
const OFFERED: [&str; 2] = ["h2", "http/1.1"];

/// Reads `alpn-protos`: what of it can be offered, and what can't be.
pub fn alpn(list: &str) -> (Vec<u8>, Vec<String>) {
    let (mut offered, mut others) = (Vec::new(), Vec::new());
    for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match ALPN.iter().position(|name| *name == word) {
            Some(at) if !offered.contains(&(at as u8)) => offered.push(at as u8),
            Some(_) => {}
            None => others.push(word.to_owned()),
        }
    }
    (offered, others)
}

/// Settings of one scope. `None` leaves a setting to the enclosing scope or the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Overrides {
    pub versions: Option<Versions>,
    /// `ciphers`: suites of TLS 1.2, by preference, as numbers of [`ciphers::SUITES`].
    pub ciphers: Option<Vec<u8>>,
    /// `ciphersuites`: those of TLS 1.3.
    pub ciphersuites: Option<Vec<u8>>,
    pub groups: Option<Vec<u8>>,
    pub prefers_own_order: Option<bool>,
    pub alpn: Option<Vec<u8>>,
    pub client_verify: Option<ClientVerify>,
    /// `client-verify-ca`: the number of a list of CAs.
    pub client_ca: Option<u32>,
    /// `client-verify-crl`: the number of a list of what they have revoked.
    pub client_crl: Option<u32>,
}

impl Overrides {
    /// These, and where they say nothing, what `base` says.
    pub fn over(&self, base: &Overrides) -> Overrides {
        Overrides {
            versions: self.versions.or(base.versions),
            ciphers: self.ciphers.clone().or_else(|| base.ciphers.clone()),
            ciphersuites: self.ciphersuites.clone().or_else(|| base.ciphersuites.clone()),
            groups: self.groups.clone().or_else(|| base.groups.clone()),
            prefers_own_order: self.prefers_own_order.or(base.prefers_own_order),
            alpn: self.alpn.clone().or_else(|| base.alpn.clone()),
            client_verify: self.client_verify.or(base.client_verify),
            client_ca: self.client_ca.or(base.client_ca),
            client_crl: self.client_crl.or(base.client_crl),
        }
    }

    pub fn encode(&self) -> String {
        let list = |numbers: &Vec<u8>| numbers.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
        let words = [
            self.versions.map(|v| format!("versions={}{}", u8::from(v.tls12), u8::from(v.tls13))),
            self.ciphers.as_ref().map(|n| format!("ciphers={}", list(n))),
            self.ciphersuites.as_ref().map(|n| format!("suites={}", list(n))),
            self.groups.as_ref().map(|n| format!("groups={}", list(n))),
            self.prefers_own_order.map(|on| format!("own={}", u8::from(on))),
            self.alpn.as_ref().map(|n| format!("alpn={}", list(n))),
            self.client_verify.map(|v| format!("verify={}", v.as_str())),
            self.client_ca.map(|n| format!("ca={n}")),
            self.client_crl.map(|n| format!("crl={n}")),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    pub fn decode(text: &str) -> Option<Overrides> {
        let mut out = Overrides::default();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            let (key, value) = word.split_once('=')?;
            match key {
                "versions" => {
                    let (tls12, tls13) = match value {
                        "11" => (true, true),
                        "10" => (true, false),
                        "01" => (false, true),
                        _ => return None,
                    };
                    out.versions = Some(Versions { tls12, tls13 });
                }
                "ciphers" => out.ciphers = Some(numbers(value, ciphers::SUITES.len())?),
                "suites" => out.ciphersuites = Some(numbers(value, ciphers::SUITES.len())?),
                "groups" => out.groups = Some(numbers(value, groups::count())?),
                "own" => out.prefers_own_order = Some(value == "1"),
                "alpn" => out.alpn = Some(numbers(value, ALPN.len())?),
                "verify" => out.client_verify = Some(ClientVerify::named(value)?),
                "ca" => out.client_ca = Some(value.parse().ok()?),
                "crl" => out.client_crl = Some(value.parse().ok()?),
                _ => return None,
            }
        }
        Some(out)
    }

    pub fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        self.versions.unwrap_or(Versions { tls12: true, tls13: true }).list()
    }

    /// True if a key of one kind can be used under them and one of another kind can't.
    pub(crate) fn depends_on_key(&self) -> bool {
        self.ciphers.is_some() && self.versions.is_some_and(|versions| !versions.tls13)
    }

    pub fn provider(&self) -> CryptoProvider {
        let mut provider = groups::provider();
        let defaults = std::mem::take(&mut provider.cipher_suites);
        let of = |chosen: &Option<Vec<u8>>, is_tls13: bool| -> Vec<SupportedCipherSuite> {
            match chosen {
                Some(numbers) => numbers.iter().filter_map(|n| ciphers::suite(*n)).collect(),
                None => defaults.iter().filter(|s| s.tls13().is_some() == is_tls13).copied().collect(),
            }
        };
        provider.cipher_suites = of(&self.ciphersuites, true);
        provider.cipher_suites.extend(of(&self.ciphers, false));
        if let Some(groups) = &self.groups {
            provider.kx_groups = groups::at(groups);
        }
        provider
    }

    pub fn alpn(&self) -> Vec<Vec<u8>> {
        match &self.alpn {
            Some(numbers) => {
                numbers.iter().filter_map(|n| Some(ALPN.get(usize::from(*n))?.as_bytes().to_vec())).collect()
            }
            None => OFFERED.iter().map(|name| name.as_bytes().to_vec()).collect(),
        }
    }
}

/// Checks that clients' certificates can be verified with these CAs.
///
/// # Errors
/// None of them is of use; in words.
pub fn check_authorities(ders: &[Vec<u8>]) -> Result<(), String> {
    let ders: Vec<&[u8]> = ders.iter().map(Vec::as_slice).collect();
    roots(&ders).map(|_| ())
}

/// The certificates of a list of CAs, as rustls takes them. One that can't be used is passed over if others can.
pub(crate) fn roots(authorities: &[&[u8]]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let (used, _) = roots.add_parsable_certificates(authorities.iter().map(|der| CertificateDer::from(*der)));
    if used == 0 { Err("none of the CAs can be used".to_owned()) } else { Ok(roots) }
}

/// Numbers below `limit`, none twice.
fn numbers(text: &str, limit: usize) -> Option<Vec<u8>> {
    let mut out: Vec<u8> = Vec::new();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        let number = word.parse().ok().filter(|n| usize::from(*n) < limit && !out.contains(n))?;
        out.push(number);
    }
    Some(out)
}

#[cfg(test)]
mod tests;
