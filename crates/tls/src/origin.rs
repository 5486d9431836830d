// SPDX-License-Identifier: BSD-2-Clause
//! With whom an origin is spoken to by TLS, and as whom: what must be equal for two connections to be shared.

use std::fmt;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ring::digest::{Context, SHA256};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use crate::pem::{self, Pair, PemError};
use crate::revoked::Revoked;
use crate::roots::Roots;
use crate::verify::{Verify, provider, verifier};
use crate::{ClientOptions, TlsClient};

/// Room for the longest file, and the byte that shows that one is longer.
const ROOM: usize = pem::LONGEST_FILE + 1;
/// Sessions that are remembered of servers at large: eight of each.
const SESSIONS_AT_LARGE: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsOrigin {
    /// Name of the origin, or its address: sent as SNI, and checked against the certificate as `verify` says.
    pub name: String,
    /// Sends the name. An address is never sent (RFC 6066, section 3).
    pub sni: bool,
    pub verify: Verify,
    pub roots: Roots,
    pub revoked: Option<Revoked>,
    pub certificate: Option<OwnCertificate>,
}

impl TlsOrigin {
    /// Settings for any server on the Internet: the system's authorities, and the name is checked.
    pub fn of(name: &str) -> TlsOrigin {
        TlsOrigin {
            name: name.to_owned(),
            sni: true,
            verify: Verify::ChainAndName,
            roots: Roots::system(),
            revoked: None,
            certificate: None,
        }
    }

    /// The client that all connections to the origin share: settings, and sessions for resumption.
    ///
    /// # Errors
    /// A list of revoked certificates can't be read.
    pub fn client(&self, sessions: usize) -> Result<Arc<TlsClient>, String> {
        self.client_offering(&["http/1.1"], sessions)
    }

    /// The same as [`TlsOrigin::client`], offering these protocols, the preferred one first.
    ///
    /// # Errors
    /// Those of [`TlsOrigin::client`].
    pub fn client_offering(&self, protocols: &[&str], sessions: usize) -> Result<Arc<TlsClient>, String> {
        self.client_of(protocols.iter().map(|name| name.as_bytes().to_vec()).collect(), sessions)
    }

    /// The same as [`TlsOrigin::client`], without ALPN.
    ///
    /// # Errors
    /// Those of [`TlsOrigin::client`].
    pub fn client_without_protocol(&self, sessions: usize) -> Result<Arc<TlsClient>, String> {
        self.client_of(Vec::new(), sessions)
    }

    fn client_of(&self, alpn: Vec<Vec<u8>>, sessions: usize) -> Result<Arc<TlsClient>, String> {
        let options = ClientOptions {
            provider: provider(),
            alpn,
            sends_name: self.sni,
            certificate: self.certificate.as_ref().map(|own| own.key.clone()),
            sessions,
            ..ClientOptions::default()
        };
        let verifier = verifier(self.verify, &self.roots, self.revoked.as_ref(), &options.provider)?;
        TlsClient::new(verifier, &options).map(Arc::new).map_err(|error| error.to_string())
    }
}

/// A client for servers at large: the system says whom to trust, and it remembers sessions of many. One for each kind of check, made
/// anew when the system trusts others.
///
/// # Errors
/// As [`TlsOrigin::client`].
pub fn at_large(verify: Verify) -> Result<Arc<TlsClient>, String> {
    type Made = Vec<(Verify, Roots, Arc<TlsClient>)>;
    static MADE: Mutex<Made> = Mutex::new(Vec::new());
    let origin = TlsOrigin { verify, ..TlsOrigin::of("") };
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, _, client)) = made.iter().find(|(of, roots, _)| *of == verify && *roots == origin.roots) {
        return Ok(client.clone());
    }
    let client = origin.client(SESSIONS_AT_LARGE)?;
    made.retain(|(of, _, _)| *of != verify);
    made.push((verify, origin.roots, client.clone()));
    Ok(client)
}

#[derive(Clone)]
pub struct OwnCertificate {
    key: Arc<CertifiedKey>,
    digest: [u8; 32],
}

impl OwnCertificate {
    /// Reads a file that has both.
    ///
    /// # Errors
    /// It can't be read, or as [`OwnCertificate::from_pem`]; the text begins with the path.
    pub fn read(path: &Path) -> Result<OwnCertificate, String> {
        OwnCertificate::from_pem(&file(path)?).map_err(|error| of_file(path, &error))
    }

    /// Reads a file with the certificate and one with its key.
    ///
    /// # Errors
    /// As [`OwnCertificate::read`].
    pub fn read_both(certificate: &Path, key: &Path) -> Result<OwnCertificate, String> {
        let contents = pem::read(&file(certificate)?).map_err(|error| of_file(certificate, &error))?;
        let keys = pem::read(&file(key)?).map_err(|error| of_file(key, &error))?;
        contents.with_keys_of(keys).pair().and_then(OwnCertificate::from_pair).map_err(|error| of_file(key, &error))
    }

    /// Out of a file that has both.
    ///
    /// # Errors
    /// One is missing, encrypted or unusable, or they don't belong together.
    pub fn from_pem(file: &[u8]) -> Result<OwnCertificate, PemError> {
        OwnCertificate::from_pair(pem::read(file)?.pair()?)
    }

    /// Takes over a pair that was read. The process has a key from here on, which no core may hold.
    ///
    /// # Errors
    /// The key is unusable.
    pub fn from_pair(pair: Pair) -> Result<OwnCertificate, PemError> {
        sys::secret::forbid_core().map_err(|error| PemError::Key(format!("cores can't be forbidden: {error}")))?;
        let mut digest = Context::new(&SHA256);
        for certificate in &pair.chain {
            digest.update(&(certificate.len() as u64).to_le_bytes());
            digest.update(certificate);
        }
        let digest = digest.finish().as_ref().try_into().expect("SHA-256 has 32 bytes");
        let key = any_supported_type(&pair.form.key(&pair.key)).map_err(|error| PemError::Key(error.to_string()))?;
        let chain = pair.chain.into_iter().map(CertificateDer::from).collect();
        Ok(OwnCertificate { key: Arc::new(CertifiedKey::new(chain, key)), digest })
    }
}

fn of_file(path: &Path, reason: &dyn fmt::Display) -> String {
    format!("{}: {reason}", path.display())
}

/// All of a file that may have a key; of one that is longer than any of its kind so much that it is refused.
///
/// # Errors
/// It can't be read; the text begins with the path.
pub fn file(path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    // What a vector leaves behind as it grows wouldn't be wiped.
    let mut text = Zeroizing::new(Vec::with_capacity(ROOM));
    let read = File::open(path).and_then(|from| from.take(ROOM as u64).read_to_end(&mut text));
    read.map(|_| text).map_err(|error| of_file(path, &error))
}

// A certificate has one key: the chain tells them apart.
impl PartialEq for OwnCertificate {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for OwnCertificate {}

impl Hash for OwnCertificate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl fmt::Debug for OwnCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnCertificate")
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn who_has_a_key_leaves_no_core() {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["us".to_owned()]).unwrap().self_signed(&key).unwrap();
        sys::limits::set_dumpable(true).unwrap();
        OwnCertificate::from_pem(format!("{}{}", key.serialize_pem(), certificate.pem()).as_bytes()).unwrap();
        assert!(!nix::sys::prctl::get_dumpable().unwrap());
    }

    #[test]
    fn a_file_is_read_in_one_piece_of_memory() {
        let path = std::env::temp_dir().join(format!("origin-file-{}", std::process::id()));
        for (len, kept) in [(10, 10), (pem::LONGEST_FILE, pem::LONGEST_FILE), (pem::LONGEST_FILE + 9, ROOM)] {
            std::fs::write(&path, vec![b'x'; len]).unwrap();
            let text = file(&path).unwrap();
            assert_eq!((text.len(), text.capacity()), (kept, ROOM));
        }
        std::fs::remove_file(&path).unwrap();
    }
}
