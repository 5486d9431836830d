// SPDX-License-Identifier: BSD-2-Clause
//! Private keys in a process of their own: it signs what servers ask it to ([`SignerKeys`]), and the certificates of those are without keys
//! ([`crate::Bundle::without_keys`]). Who breaks into a server may have things signed as long as it is in; it never gets a key.
//!
//! A question is a signature scheme's number, the SHA-256 of the certificate whose key it is, and the message; the answer is the signature, or
//! empty.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use ring::digest::{SHA256, digest};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, OtherError, SignatureAlgorithm, SignatureScheme};

use crate::bundle::Bundle;
use crate::certificate::Certificate;

/// The longest question: what TLS signs is much shorter (RFC 8446 4.4.3, RFC 8422 5.4).
pub const MAX_QUESTION: usize = 1024;
/// The longest answer: a signature by an RSA key of 16,384 bits.
pub const MAX_ANSWER: usize = 2048;
/// Keys that stay ready for use in the signer.
const READY: usize = 2048;
const ID_BYTES: usize = 32;

/// The way to the signer. Its caller waits.
pub trait AskSigner: fmt::Debug + Send + Sync {
    /// # Errors
    /// There is no answer.
    fn ask(&self, question: &[u8]) -> io::Result<Vec<u8>>;
}

/// The signer that is asked at present, by all keys that were made with it.
#[derive(Clone, Default)]
pub struct Asked(Arc<ArcSwapOption<Box<dyn AskSigner>>>);

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asked")
    }
}

impl Asked {
    pub fn replace(&self, signer: Box<dyn AskSigner>) {
        self.0.store(Some(Arc::new(signer)));
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RemoteKey {
    id: [u8; ID_BYTES],
    algorithm: SignatureAlgorithm,
    schemes: &'static [SignatureScheme],
    asked: Asked,
}

/// Schemes in rustls' order of preference.
const RSA: [SignatureScheme; 6] = [
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PKCS1_SHA512,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA256,
];

impl RemoteKey {
    /// The key of this certificate; none where no server could use one of its kind.
    pub(crate) fn of(leaf: &[u8], asked: &Asked) -> Option<Self> {
        let kind = Certificate::read(leaf)?.key();
        let (algorithm, schemes): (_, &'static [_]) = match kind.as_str() {
            "EC256" => (SignatureAlgorithm::ECDSA, &[SignatureScheme::ECDSA_NISTP256_SHA256]),
            "EC384" => (SignatureAlgorithm::ECDSA, &[SignatureScheme::ECDSA_NISTP384_SHA384]),
            "ED25519" => (SignatureAlgorithm::ED25519, &[SignatureScheme::ED25519]),
            _ if kind.starts_with("RSA") => (SignatureAlgorithm::RSA, &RSA),
            _ => return None,
        };
        Some(RemoteKey { id: id_of(leaf), algorithm, schemes, asked: asked.clone() })
    }
}

impl SigningKey for RemoteKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = *self.schemes.iter().find(|scheme| offered.contains(scheme))?;
        Some(Box::new(RemoteSigner { key: self.clone(), scheme }))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.algorithm
    }
}

#[derive(Debug)]
struct RemoteSigner {
    key: RemoteKey,
    scheme: SignatureScheme,
}

impl Signer for RemoteSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let question = [&u16::from(self.scheme).to_be_bytes()[..], &self.key.id, message].concat();
        let signer = self.key.asked.0.load();
        let signer = signer.as_ref().ok_or_else(|| Error::General("there is no signer".to_owned()))?;
        match signer.ask(&question) {
            Ok(signature) if signature.is_empty() => Err(Error::General("the signer doesn't sign this".to_owned())),
            Ok(signature) => Ok(signature),
            Err(error) => Err(Error::Other(OtherError(Arc::new(NoAnswer(error))))),
        }
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

#[derive(Debug)]
struct NoAnswer(io::Error);

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the signer doesn't answer: {}", self.0)
    }
}

impl std::error::Error for NoAnswer {}

fn id_of(leaf: &[u8]) -> [u8; ID_BYTES] {
    digest(&SHA256, leaf).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Keys in the signer: those of the present bundle, and of the one before, whose connections may still be shaking
/// hands.
#[derive(Default)]
pub struct SignerKeys {
    held: Vec<Held>,
}

struct Held {
    bundle: Bundle,
    places: HashMap<[u8; ID_BYTES], u32>,
    ready: HashMap<u32, Arc<dyn SigningKey>>,
}

impl fmt::Debug for SignerKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

impl SignerKeys {
    /// The keys of this bundle, too.
    pub fn replace(&mut self, bundle: Bundle) {
        let place = |n: u32| Some((id_of(bundle.keyed(n)?.chain.first()?), n));
        let places = (0..bundle.len() as u32).filter_map(place).collect();
        self.held.insert(0, Held { bundle, places, ready: HashMap::new() });
        self.held.truncate(2);
    }

    /// A signature; empty when there is no such key, or it doesn't sign so.
    pub fn answer(&mut self, question: &[u8]) -> Vec<u8> {
        let Some((scheme, rest)) = question.split_first_chunk::<2>() else { return Vec::new() };
        let Some((id, message)) = rest.split_first_chunk::<ID_BYTES>() else { return Vec::new() };
        let scheme = SignatureScheme::from(u16::from_be_bytes(*scheme));
        let key = self.held.iter_mut().find_map(|held| held.key(id));
        let signer = key.and_then(|key| key.choose_scheme(&[scheme]));
        signer.and_then(|signer| signer.sign(message).ok()).unwrap_or_default()
    }
}

impl Held {
    fn key(&mut self, id: &[u8; ID_BYTES]) -> Option<Arc<dyn SigningKey>> {
        let place = *self.places.get(id)?;
        if let Some(key) = self.ready.get(&place) {
            return Some(key.clone());
        }
        let keyed = self.bundle.keyed(place)?;
        let key = any_supported_type(&keyed.form.key(keyed.key)).ok()?;
        if self.ready.len() >= READY {
            self.ready.clear();
        }
        self.ready.insert(place, key.clone());
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

    use super::*;
    use crate::bundle::{BundleBuilder, BundleEntry, CertificateScope, Material};
    use crate::pem::KeyForm;

    fn bundle(kind: &'static rcgen::SignatureAlgorithm) -> (Bundle, Vec<u8>, Vec<u8>) {
        let key = KeyPair::generate_for(kind).unwrap();
        let leaf = CertificateParams::new(vec!["a.example".to_owned()]).unwrap().self_signed(&key).unwrap();
        let (entry, der) = (BundleEntry { id: "a".into(), ..BundleEntry::default() }, key.serialize_der());
        let mut builder = BundleBuilder::new(vec![CertificateScope::default()], Vec::new());
        builder.add(&entry, Material { form: KeyForm::Pkcs8, key: &der, chain: vec![leaf.der()], ocsp: b"" });
        (Bundle::open(Box::new(builder.build().to_vec())).unwrap(), leaf.der().to_vec(), der)
    }

    #[derive(Debug)]
    struct Here(Mutex<SignerKeys>);

    impl AskSigner for Here {
        fn ask(&self, question: &[u8]) -> io::Result<Vec<u8>> {
            assert!(question.len() <= MAX_QUESTION);
            Ok(self.0.lock().unwrap().answer(question))
        }
    }

    #[test]
    fn the_signer_signs_with_the_certificates_key() {
        for kind in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
            let (bundle, leaf, _) = bundle(kind);
            let mut keys = SignerKeys::default();
            keys.replace(bundle);
            let asked = Asked::default();
            let key = RemoteKey::of(&leaf, &asked).unwrap();
            let offered = [SignatureScheme::RSA_PSS_SHA256, key.schemes[0]];
            let signer = key.choose_scheme(&offered).unwrap();
            assert!(signer.sign(b"message").unwrap_err().to_string().contains("no signer"));
            asked.replace(Box::new(Here(Mutex::new(keys))));
            let signature = signer.sign(b"message").unwrap();
            let parsed = rustls::pki_types::CertificateDer::from(leaf.clone());
            let checked = webpki_of(&parsed, signer.scheme(), &signature);
            assert!(checked, "{kind:?}");
            // The certificate of another is of no use.
            let other = RemoteKey::of(&self::bundle(kind).1, &asked).unwrap();
            assert!(other.choose_scheme(&offered).unwrap().sign(b"message").is_err());
        }
    }

    fn webpki_of(leaf: &rustls::pki_types::CertificateDer<'_>, scheme: SignatureScheme, signature: &[u8]) -> bool {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        let (_, with) = algorithms.mapping.iter().find(|(known, _)| *known == scheme).unwrap();
        let point = crate::facts::public_key(leaf).unwrap();
        with.iter().any(|with| with.verify_signature(&point, b"message", signature).is_ok())
    }

    #[test]
    fn a_bundle_without_keys_is_the_same_without_keys() {
        let (bundle, leaf, key) = bundle(&PKCS_ECDSA_P256_SHA256);
        let bytes = bundle.without_keys();
        // Its private part; the public one is in the certificate, too.
        assert!(!bytes.windows(16).any(|window| window == &key[36..52] || window == &key[52..68]));
        let bare = Bundle::open(Box::new(bytes.to_vec())).unwrap();
        let keyed = bare.keyed(0).unwrap();
        assert!(keyed.is_without_key() && !bundle.keyed(0).unwrap().is_without_key());
        assert_eq!((keyed.chain, bare.entry(0)), (vec![&leaf[..]], bundle.entry(0)));
    }

    #[test]
    fn the_keys_of_the_bundle_before_are_there_until_the_next() {
        let made: Vec<_> = (0..3).map(|_| bundle(&PKCS_ECDSA_P256_SHA256)).collect();
        let ids: Vec<_> = made.iter().map(|(_, leaf, _)| id_of(leaf)).collect();
        let mut keys = SignerKeys::default();
        made.into_iter().for_each(|(bundle, ..)| keys.replace(bundle));
        let mut signs = |id: &[u8; 32]| {
            let scheme = u16::from(SignatureScheme::ECDSA_NISTP256_SHA256).to_be_bytes();
            !keys.answer(&[&scheme[..], id, b"message"].concat()).is_empty()
        };
        assert_eq!(ids.iter().map(&mut signs).collect::<Vec<_>>(), [false, true, true]);
    }

    proptest! {
        #[test]
        fn any_question_is_answered(question in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut keys = SignerKeys::default();
            keys.replace(bundle(&PKCS_ECDSA_P256_SHA256).0);
            prop_assert!(keys.answer(&question).is_empty());
        }
    }
}
