// SPDX-License-Identifier: BSD-2-Clause
//! Certificates of ours with their keys for the backends that VCLs declare (`.certificate`). The manager reads the files as root and gives
//! them to the worker as one piece of sealed memory for each VCL, before that is loaded. None is in a VCL's bundle, which lies in a file.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

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

type OfVcl = HashMap<String, OwnCertificate>;

fn decode(bytes: &[u8]) -> Option<(String, OfVcl)> {
    let mut from = WireReader(bytes);
    let vcl = from.text()?.to_owned();
    let files = (0..from.u32()?).map(|_| {
        let path = from.text()?.to_owned();
        let chain = (0..from.u32()?).map(|_| Some(from.bytes()?.to_vec())).collect::<Option<_>>()?;
        let (form, key) = (KeyForm::numbered(from.u8()?)?, Zeroizing::new(from.bytes()?.to_vec()));
        Some((path, OwnCertificate::from_pair(Pair { chain, form, key }).ok()?))
    });
    let files = files.collect::<Option<_>>()?;
    from.0.is_empty().then_some((vcl, files))
}

#[derive(Debug, Default)]
pub struct OriginKeys(RwLock<HashMap<String, OfVcl>>);

impl OriginKeys {
    /// Takes what [`encode`] made, in the place of what that VCL had.
    ///
    /// # Errors
    /// In words: it can't be read.
    pub fn adopt(&self, bytes: &[u8]) -> Result<(), String> {
        let (vcl, files) = decode(bytes).ok_or("certificates for backends can't be read")?;
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(vcl, files);
        Ok(())
    }

    /// The one that a VCL's backend has in this file.
    ///
    /// # Errors
    /// In words, with the path: the manager has given none.
    pub fn find(&self, vcl: &str, path: &str) -> Result<OwnCertificate, String> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let found = all.get(vcl).and_then(|files| files.get(path)).cloned();
        found.ok_or_else(|| format!("{path}: the manager has given no certificate of it"))
    }

    pub fn forget(&self, vcl: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(vcl);
    }
}

pub fn of_this_process() -> &'static OriginKeys {
    static ALL: LazyLock<OriginKeys> = LazyLock::new(OriginKeys::default);
    &ALL
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
        assert_eq!(keys.find("v1", "a.pem").unwrap(), OwnCertificate::from_pair(before).unwrap());
        assert_eq!(keys.find("v2", "a.pem"), keys.find("v1", "b.pem"));
        assert!(keys.find("v2", "b.pem").unwrap_err().starts_with("b.pem: "));
        keys.forget("v2");
        assert!(keys.find("v2", "a.pem").is_err() && keys.find("v1", "a.pem").is_ok());
    }

    #[test]
    fn what_is_cut_or_followed_by_more_is_refused() {
        let keys = OriginKeys::default();
        let bytes = encode("v", &[("a.pem".to_owned(), pair("a"))]);
        for cut in 0..bytes.len() {
            assert!(keys.adopt(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(keys.adopt(&[&bytes[..], b"x"].concat()).is_err());
        assert!(keys.find("v", "a.pem").is_err());
    }
}
