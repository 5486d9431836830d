// SPDX-License-Identifier: BSD-2-Clause
//! Lists of certificates that their authorities have revoked (RFC 5280, section 5), out of a file.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateRevocationListDer, Der, TrustAnchor};

use crate::pem;
use crate::verify::provider;

/// The longest file that is read: lists of large authorities have megabytes.
pub const LONGEST_FILE: usize = 16 << 20;

#[derive(Clone)]
pub struct Revoked(Arc<Lists>);

struct Lists {
    lists: Vec<CertificateRevocationListDer<'static>>,
    digest: [u8; 32],
}

impl Revoked {
    /// Reads the lists of a file, in PEM or one list in DER.
    ///
    /// # Errors
    /// There is none, or one can't be read; in words.
    pub fn from_file(file: &[u8]) -> Result<Revoked, String> {
        if file.len() > LONGEST_FILE {
            return Err(format!("the file is longer than {LONGEST_FILE} bytes"));
        }
        let lists = if file.first() == Some(&0x30) {
            vec![CertificateRevocationListDer::from(file.to_vec())]
        } else {
            let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(file).collect();
            lists.map_err(|_| "it isn't PEM".to_owned())?
        };
        if lists.is_empty() {
            return Err("no list in it (-----BEGIN X509 CRL-----)".to_owned());
        }
        readable(&lists)?;
        let digest = digest(&SHA256, file).as_ref().try_into().expect("SHA-256 has 32 bytes");
        Ok(Revoked(Arc::new(Lists { lists, digest })))
    }

    /// The lists of a file without anything else, as [`Revoked::from_file`] takes them: for a copy that others may
    /// read.
    ///
    /// # Errors
    /// Those of [`Revoked::from_file`], or a private key is in the file.
    pub fn public_of(file: &[u8]) -> Result<Vec<u8>, String> {
        pem::without_key(file).map_err(|error| error.to_string())?;
        Ok(pem::written("X509 CRL", Revoked::from_file(file)?.lists()))
    }

    pub fn ders(&self) -> Vec<Vec<u8>> {
        self.0.lists.iter().map(|list| list.as_ref().to_vec()).collect()
    }

    pub(crate) fn lists(&self) -> Vec<CertificateRevocationListDer<'static>> {
        self.0.lists.clone()
    }
}

fn readable(lists: &[CertificateRevocationListDer<'static>]) -> Result<(), String> {
    // rustls reads lists for somebody only: an authority that can't be anybody's.
    let nobody = TrustAnchor {
        subject: Der::from_slice(&[]),
        subject_public_key_info: Der::from_slice(&[]),
        name_constraints: None,
    };
    let nobody = Arc::new(RootCertStore { roots: vec![nobody] });
    let read = WebPkiServerVerifier::builder_with_provider(nobody, provider()).with_crls(lists.to_vec()).build();
    read.map(drop).map_err(|error| error.to_string())
}

impl PartialEq for Revoked {
    fn eq(&self, other: &Self) -> bool {
        self.0.digest == other.0.digest
    }
}

impl Eq for Revoked {}

impl Hash for Revoked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.digest.hash(state);
    }
}

impl fmt::Debug for Revoked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Revoked({})", self.0.lists.len())
    }
}
