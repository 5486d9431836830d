// SPDX-License-Identifier: BSD-2-Clause
//! Certificates of ours with their keys for the backends that VCLs declare (`.certificate`). The manager reads the files as root and gives
//! them to the worker as one piece of sealed memory for each VCL, before that is loaded. None is in a VCL's bundle, which lies in a file.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use zeroize::Zeroizing;

use crate::origin::OwnCertificate;
use crate::pem::{KeyForm, Pair};
use crate::wire::{WireReader, WireWriter};

pub fn encode(vcl: &str, files: &[(String, Pair)]) -> Zeroizing<Vec<u8>> {
    let of_pair = |pair: &Pair| pair.chain.iter().map(|der| 4 + der.len()).sum::<usize>() + 4 + 1 + 4 + pair.key.len();
    let room = 4 + vcl.len() + 4 + files.iter().map(|(path, pair)| 4 + path.len() + of_pair(pair)).sum::<usize>();
    let mut out = WireWriter(Zeroizing::new(Vec::with_capacity(room)));
    out.bytes(vcl.as_bytes());
    out.count(files.len());
    for (path, pair) in files {
        out.bytes(path.as_bytes());
        out.count(pair.chain.len());
        pair.chain.iter().for_each(|der| out.bytes(der));
        out.u8(pair.form.number());
        out.bytes(&pair.key);
    }
    debug_assert_eq!(out.0.len(), room, "a vector that grows leaves pieces of keys behind");
    out.0
}

/// The certificates of one VCL, by the paths of their files.
#[derive(Clone, Default)]
pub struct VclKeys(HashMap<String, OwnCertificate>);

impl VclKeys {
    /// The certificate that a backend has in this file.
    ///
    /// # Errors
    /// In words, with the path: the manager has given none.
    pub fn find(&self, path: &str) -> Result<OwnCertificate, String> {
        self.0.get(path).cloned().ok_or_else(|| format!("{path}: the manager has given no certificate of it"))
    }
}

fn decode(bytes: &[u8]) -> Option<(String, VclKeys)> {
    let mut from = WireReader(bytes);
    let vcl = from.text()?.to_owned();
    let files = (0..from.u32()?).map(|_| {
        let path = from.text()?.to_owned();
        let chain = (0..from.u32()?).map(|_| Some(from.bytes()?.to_vec())).collect::<Option<_>>()?;
        let (form, key) = (KeyForm::numbered(from.u8()?)?, Zeroizing::new(from.bytes()?.to_vec()));
        Some((path, OwnCertificate::from_pair(Pair { chain, form, key }).ok()?))
    });
    let files = files.collect::<Option<_>>()?;
    from.0.is_empty().then_some((vcl, VclKeys(files)))
}

/// Certificates that have come for VCLs that aren't loaded yet, by the VCL's name.
#[derive(Default)]
pub struct OriginKeys(Mutex<HashMap<String, VclKeys>>);

impl OriginKeys {
    /// Takes what [`encode`] made, in the place of what that VCL had.
    ///
    /// # Errors
    /// In words: it can't be read.
    pub fn adopt(&self, bytes: &[u8]) -> Result<(), String> {
        let (vcl, files) = decode(bytes).ok_or("certificates for backends can't be read")?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(vcl, files);
        Ok(())
    }

    /// Hands over those of a VCL that is being loaded.
    pub fn take(&self, vcl: &str) -> VclKeys {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(vcl).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn pair(name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
        let pem = format!("{}{}", certificate.pem(), key.serialize_pem());
        crate::pem::read(pem.as_bytes()).unwrap().pair().unwrap()
    }

    #[test]
    fn each_vcl_has_what_its_files_held_when_it_was_loaded() {
        let keys = OriginKeys::default();
        let (before, after) = (pair("before"), pair("after"));
        keys.adopt(&encode("v1", &[("a.pem".to_owned(), before.clone()), ("b.pem".to_owned(), after.clone())]))
            .unwrap();
        keys.adopt(&encode("v2", &[("a.pem".to_owned(), after.clone())])).unwrap();
        let (first, second) = (keys.take("v1"), keys.take("v2"));
        assert_eq!(first.find("a.pem").unwrap(), OwnCertificate::from_pair(before).unwrap());
        assert_eq!(second.find("a.pem"), first.find("b.pem"));
        assert!(second.find("b.pem").unwrap_err().starts_with("b.pem: "));
        assert!(keys.take("v2").find("a.pem").is_err(), "given once");
    }

    #[test]
    fn what_is_cut_or_followed_by_more_is_refused() {
        let keys = OriginKeys::default();
        let bytes = encode("v", &[("a.pem".to_owned(), pair("a"))]);
        for cut in 0..bytes.len() {
            assert!(keys.adopt(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(keys.adopt(&[&bytes[..], b"x"].concat()).is_err());
        assert!(keys.take("v").find("a.pem").is_err());
    }
}
