// SPDX-License-Identifier: BSD-2-Clause
//! The authorities whose certificates are trusted: the system's, or those of a file.
//!
//! The system's are read once and shared; loading a VCL looks whether they have changed. Equal sets are told by a digest, so
//! that connections are shared between those that trust the same, and only between them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use ring::digest::{Context, SHA256};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use crate::pem::{self, PemError};

#[derive(Clone)]
pub struct Roots(Arc<Set>);

struct Set {
    anchors: Arc<RootCertStore>,
    /// All that were given, also those that are no authority's: a server's own certificate may be trusted by itself.
    certificates: Vec<CertificateDer<'static>>,
    digest: [u8; 32],
}

/// The system's, once they were asked for.
static SYSTEM: Mutex<Option<Roots>> = Mutex::new(None);

impl Roots {
    /// Those that the system trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` are heeded), as they were last read. May be none.
    /// Reads files the first time.
    pub fn system() -> Roots {
        let mut system = SYSTEM.lock().unwrap_or_else(PoisonError::into_inner);
        system.get_or_insert_with(read_system).clone()
    }

    pub fn none() -> Roots {
        Roots::new(Vec::new())
    }

    /// Reads the system's again, for those who ask from now on. Blocks.
    pub fn renew_system() -> Roots {
        let fresh = read_system();
        let mut system = SYSTEM.lock().unwrap_or_else(PoisonError::into_inner);
        match &*system {
            Some(known) if *known == fresh => known.clone(),
            _ => system.insert(fresh).clone(),
        }
    }

    /// Those of a file.
    ///
    /// # Errors
    /// It has none, or isn't PEM.
    pub fn from_pem(file: &[u8]) -> Result<Roots, PemError> {
        Ok(Roots::new(pem::authorities(file)?.into_iter().map(CertificateDer::from).collect()))
    }

    /// Those of several sets.
    pub fn of_all(sets: &[Roots]) -> Roots {
        Roots::new(sets.iter().flat_map(|set| set.0.certificates.iter().cloned()).collect())
    }

    /// The certificates of a file without anything else, as [`Roots::from_pem`] takes them: for a copy that others may
    /// read.
    ///
    /// # Errors
    /// Those of [`Roots::from_pem`], or a private key is in the file.
    pub fn public_of(file: &[u8]) -> Result<Vec<u8>, PemError> {
        pem::without_key(file)?;
        Ok(pem::written("CERTIFICATE", pem::authorities(file)?))
    }

    pub(crate) fn new(mut certificates: Vec<CertificateDer<'static>>) -> Roots {
        certificates.sort_unstable_by(|a, b| a.as_ref().cmp(b.as_ref()));
        certificates.dedup();
        let mut anchors = RootCertStore::empty();
        // Among the many of a system some have always been odd: who needs those sees that nobody knows their issuer.
        let _ = anchors.add_parsable_certificates(certificates.iter().cloned());
        let mut digest = Context::new(&SHA256);
        for certificate in &certificates {
            digest.update(&(certificate.len() as u64).to_le_bytes());
            digest.update(certificate);
        }
        let digest = digest.finish().as_ref().try_into().expect("SHA-256 has 32 bytes");
        Roots(Arc::new(Set { anchors: Arc::new(anchors), certificates, digest }))
    }

    pub fn len(&self) -> usize {
        self.0.anchors.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.certificates.is_empty()
    }

    pub fn anchors(&self) -> &Arc<RootCertStore> {
        &self.0.anchors
    }

    pub(crate) fn has(&self, certificate: &CertificateDer<'_>) -> bool {
        self.0.certificates.binary_search_by(|known| known.as_ref().cmp(certificate.as_ref())).is_ok()
    }
}

fn read_system() -> Roots {
    // What can't be read is left out, as everywhere; without any, each check says that nobody is trusted.
    Roots::new(rustls_native_certs::load_native_certs().certs)
}

impl PartialEq for Roots {
    fn eq(&self, other: &Self) -> bool {
        self.0.digest == other.0.digest
    }
}

impl Eq for Roots {}

impl Hash for Roots {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.digest.hash(state);
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roots({})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(name: &str) -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn sets_are_equal_in_any_order_and_else_differ() {
        let (a, b) = (authority("a.example"), authority("b.example"));
        let of = |texts: &[&str]| Roots::from_pem(texts.concat().as_bytes()).unwrap();
        assert_eq!(of(&[&a, &b]), of(&[&b, &a, &a]));
        assert_ne!(of(&[&a, &b]), of(&[&a]));
        assert_eq!(of(&[&a, &b]).len(), 2);
        assert_eq!(Roots::of_all(&[of(&[&b]), of(&[&a]), of(&[&b])]), of(&[&a, &b]));
    }

    #[test]
    fn what_is_kept_of_a_file_are_its_certificates() {
        let (a, b) = (authority("a.example"), authority("b.example"));
        let request = a.replace("CERTIFICATE", "CERTIFICATE REQUEST");
        let file = ["A note\n", &a.replace('\n', "\r\n"), &request, &b, "and its end"].concat();
        let kept = Roots::public_of(file.as_bytes()).unwrap();
        assert_eq!(Roots::from_pem(&kept), Roots::from_pem(file.as_bytes()));
        assert_eq!(Roots::from_pem(&kept).unwrap().len(), 2);
        let lines = String::from_utf8(kept.clone()).unwrap();
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[2]), (6, "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"));
        assert!(kept.len() <= [&*a, &b].concat().trim_end().len());
    }

    #[test]
    fn a_file_with_a_key_is_not_kept() {
        let ca = authority("a.example");
        for kind in ["", "RSA ", "EC ", "DSA ", "ENCRYPTED ", "OPENSSH "] {
            for end in ["\n", "\r\n", " \n", "\r"] {
                let file =
                    format!("{ca}-----BEGIN {kind}PRIVATE KEY-----{end}AAAA{end}-----END {kind}PRIVATE KEY-----{end}");
                assert_eq!(Roots::public_of(file.as_bytes()), Err(PemError::Secret), "{kind}{end:?}");
            }
        }
        let public = format!("{ca}-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n");
        assert!(Roots::public_of(public.as_bytes()).is_ok());
    }

    #[test]
    fn a_file_without_a_certificate_is_refused() {
        assert_eq!(Roots::from_pem(b"nothing"), Err(PemError::NoCertificate));
    }
}
