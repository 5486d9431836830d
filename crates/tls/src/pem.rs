// SPDX-License-Identifier: BSD-2-Clause
//! PEM files as people have them: key and chain in one file or in two, in any order, with text around them (RFC 7468).
//!
//! A key that needs a passphrase is refused: nobody is there to give it when a server starts at night.

use base::base64;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use x509_parser::prelude::FromDer;
use x509_parser::x509::SubjectPublicKeyInfo;
use zeroize::Zeroizing;

use crate::facts;

/// The longest file that is read: a bundle of all public CAs has a quarter of it.
pub const LONGEST_FILE: usize = 1 << 20;
/// More certificates than any chain has.
const MOST_IN_CHAIN: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PemError {
    Empty,
    TooLong,
    Encrypted,
    Malformed(String),
    NoCertificate,
    NoKey,
    SeveralKeys,
    TooManyCertificates,
    Certificate(String),
    /// A key of a kind, size or curve that can't be used, or damaged.
    Key(String),
    /// The key belongs to none of the certificates.
    Mismatch,
    /// A private key where only what is public is wanted.
    Secret,
}

impl std::fmt::Display for PemError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("the file is empty"),
            Self::TooLong => write!(f, "the file is longer than {LONGEST_FILE} bytes"),
            Self::Encrypted => f.write_str(
                "the private key is encrypted; take the passphrase off it: openssl pkey -in KEY -out NEWKEY",
            ),
            Self::Malformed(reason) => write!(f, "not PEM: {reason}"),
            Self::NoCertificate => f.write_str("no certificate in it (-----BEGIN CERTIFICATE-----)"),
            Self::NoKey => f.write_str("no private key in it (-----BEGIN PRIVATE KEY-----)"),
            Self::SeveralKeys => f.write_str("more than one private key"),
            Self::TooManyCertificates => write!(f, "more than {MOST_IN_CHAIN} certificates"),
            Self::Certificate(reason) => write!(f, "a certificate can't be read: {reason}"),
            Self::Key(reason) => write!(f, "the private key can't be used: {reason}"),
            Self::Mismatch => f.write_str("Private key mismatch: it belongs to none of the certificates"),
            Self::Secret => f.write_str("it has a private key, which doesn't belong there: name a file without it"),
        }
    }
}

impl std::error::Error for PemError {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    Pkcs8,
    Pkcs1,
    Sec1,
}

impl KeyForm {
    pub fn number(self) -> u8 {
        match self {
            Self::Pkcs8 => 0,
            Self::Pkcs1 => 1,
            Self::Sec1 => 2,
        }
    }

    pub fn numbered(number: u8) -> Option<KeyForm> {
        [Self::Pkcs8, Self::Pkcs1, Self::Sec1].into_iter().find(|form| form.number() == number)
    }

    pub(crate) fn key(self, der: &[u8]) -> PrivateKeyDer<'_> {
        match self {
            Self::Pkcs8 => PrivatePkcs8KeyDer::from(der).into(),
            Self::Pkcs1 => PrivatePkcs1KeyDer::from(der).into(),
            Self::Sec1 => PrivateSec1KeyDer::from(der).into(),
        }
    }
}

#[derive(Default)]
pub struct Contents {
    certificates: Vec<Vec<u8>>,
    keys: Vec<(KeyForm, Zeroizing<Vec<u8>>)>,
}

/// A chain, leaf first, and the leaf's key; the memory of the key is wiped when it goes.
#[derive(Clone)]
pub struct Pair {
    /// DER, the leaf first, each followed by its issuer as far as the file has it.
    pub chain: Vec<Vec<u8>>,
    pub form: KeyForm,
    pub key: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pair {{ chain: {}, key: .. }}", self.chain.len())
    }
}

/// Reads the certificates and keys of a file.
///
/// # Errors
/// It isn't PEM, is too long, or has an encrypted key.
pub fn read(file: &[u8]) -> Result<Contents, PemError> {
    if file.is_empty() {
        return Err(PemError::Empty);
    }
    if file.len() > LONGEST_FILE {
        return Err(PemError::TooLong);
    }
    if has_encrypted_key(file) {
        return Err(PemError::Encrypted);
    }
    let mut contents = Contents::default();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(file) {
        let (kind, der) = section.map_err(|error| PemError::Malformed(plain(&error)))?;
        match kind {
            SectionKind::Certificate => contents.certificates.push(der),
            SectionKind::PrivateKey => contents.keys.push((KeyForm::Pkcs8, Zeroizing::new(der))),
            SectionKind::RsaPrivateKey => contents.keys.push((KeyForm::Pkcs1, Zeroizing::new(der))),
            SectionKind::EcPrivateKey => contents.keys.push((KeyForm::Sec1, Zeroizing::new(der))),
            // Parameters, requests and the like stand beside keys in many a file.
            _ => {}
        }
        if contents.certificates.len() > MOST_IN_CHAIN {
            return Err(PemError::TooManyCertificates);
        }
    }
    Ok(contents)
}

/// The certificates of a file of CAs.
///
/// # Errors
/// It isn't PEM, is too long, or has no certificate.
pub fn authorities(file: &[u8]) -> Result<Vec<Vec<u8>>, PemError> {
    if file.len() > LONGEST_FILE {
        return Err(PemError::TooLong);
    }
    let mut certificates = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(file) {
        let (kind, der) = section.map_err(|error| PemError::Malformed(plain(&error)))?;
        if kind == SectionKind::Certificate {
            certificates.push(der);
        }
    }
    if certificates.is_empty() { Err(PemError::NoCertificate) } else { Ok(certificates) }
}

/// Looks for private keys of any kind in a file that is to be kept where others may read it.
///
/// # Errors
/// There is one.
pub fn without_key(file: &[u8]) -> Result<(), PemError> {
    let is_key = |line: &[u8]| line.starts_with(b"-----BEGIN ") && line.trim_ascii_end().ends_with(b"PRIVATE KEY-----");
    if file.split(|b| matches!(b, b'\n' | b'\r')).any(is_key) { Err(PemError::Secret) } else { Ok(()) }
}

/// Sections of this label and nothing else, each in one line: never longer than the file that they come from.
pub(crate) fn written<T: AsRef<[u8]>>(label: &str, ders: impl IntoIterator<Item = T>) -> Vec<u8> {
    let sections = ders
        .into_iter()
        .map(|der| format!("-----BEGIN {label}-----\n{}\n-----END {label}-----", base64::encode(der.as_ref())));
    sections.collect::<Vec<_>>().join("\n").into_bytes()
}

/// A key under a passphrase: PKCS #8's own section, or the head of the older form.
fn has_encrypted_key(file: &[u8]) -> bool {
    file.split(|b| *b == b'\n').any(|line| {
        line.starts_with(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
            || (line.starts_with(b"Proc-Type:") && line.windows(9).any(|word| word == b"ENCRYPTED"))
    })
}

/// The reader's errors quote lines of the file, which may be of a key: they say less here.
fn plain(error: &rustls::pki_types::pem::Error) -> String {
    use rustls::pki_types::pem::Error;
    match error {
        Error::MissingSectionEnd { end_marker } => {
            format!("no line -----END {}-----", String::from_utf8_lossy(end_marker).escape_debug())
        }
        Error::IllegalSectionStart { .. } => "a line -----BEGIN that doesn't end in -----".to_owned(),
        Error::Base64Decode(_) => "a section isn't base64".to_owned(),
        _ => "it can't be read".to_owned(),
    }
}

impl Contents {
    pub fn has_key(&self) -> bool {
        !self.keys.is_empty()
    }

    pub fn with_keys_of(mut self, other: Contents) -> Contents {
        self.keys = other.keys;
        self
    }

    /// The chain, in order, and its key.
    ///
    /// # Errors
    /// One of the two is missing, unusable, or they don't belong together.
    pub fn pair(self) -> Result<Pair, PemError> {
        let Contents { mut certificates, mut keys } = self;
        if certificates.is_empty() {
            return Err(PemError::NoCertificate);
        }
        let (form, key) = match keys.len() {
            0 => return Err(PemError::NoKey),
            1 => keys.remove(0),
            _ => return Err(PemError::SeveralKeys),
        };
        let public = public_key(form, &key)?;
        let mut leaf = None;
        for (at, der) in certificates.iter().enumerate() {
            let is_own = facts::public_key(der).map_err(PemError::Certificate)? == public;
            if is_own && leaf.is_none() {
                leaf = Some(at);
            }
        }
        let leaf = certificates.remove(leaf.ok_or(PemError::Mismatch)?);
        Ok(Pair { chain: in_order(leaf, certificates), form, key })
    }
}

fn public_key(form: KeyForm, key: &[u8]) -> Result<Vec<u8>, PemError> {
    let unusable = |reason: &str| PemError::Key(reason.to_owned());
    let key = any_supported_type(&form.key(key))
        .map_err(|_| unusable("RSA of 2048 to 4096 bits, ECDSA on P-256 or P-384, or Ed25519 is needed"))?;
    let spki = key.public_key().ok_or_else(|| unusable("it doesn't tell its public key"))?;
    let (_, spki) = SubjectPublicKeyInfo::from_der(&spki).map_err(|_| unusable("it doesn't tell its public key"))?;
    Ok(spki.subject_public_key.data.into_owned())
}

/// The leaf, its issuer, that one's issuer; then what is left, as it stood: clients may find a way through it.
fn in_order(leaf: Vec<u8>, mut others: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    others.retain(|other| *other != leaf);
    let mut chain = vec![leaf];
    while let Some(next) =
        chain.last().and_then(|last| others.iter().position(|other| facts::is_issued_by(last, other)))
    {
        chain.push(others.remove(next));
    }
    for other in others {
        if !chain.contains(&other) {
            chain.push(other);
        }
    }
    chain
}

#[cfg(test)]
mod tests;
