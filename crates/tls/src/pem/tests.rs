// SPDX-License-Identifier: BSD-2-Clause
//! Files as people have them, and what can't be used.

use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::*;

/// A root, an intermediate that it signed, a leaf of that one, and the leaf's key; all PEM.
struct Files {
    root: String,
    intermediate: String,
    leaf: String,
    key: String,
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

fn files(names: &[&str], subject: &str) -> Files {
    let new_key = || KeyPair::generate().unwrap();
    let root = CertifiedIssuer::self_signed(authority("root"), new_key()).unwrap();
    let intermediate = CertifiedIssuer::signed_by(authority("intermediate"), new_key(), &root).unwrap();
    let key = new_key();
    let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    params.distinguished_name.push(DnType::CommonName, subject);
    let leaf = params.signed_by(&key, &intermediate).unwrap();
    Files { root: root.pem(), intermediate: intermediate.pem(), leaf: leaf.pem(), key: key.serialize_pem() }
}

fn subjects(pair: &Pair) -> Vec<String> {
    pair.chain.iter().map(|der| facts::read(der).unwrap().subject).collect()
}

fn pair(file: &str) -> Result<Pair, PemError> {
    read(file.as_bytes())?.pair()
}

#[test]
fn key_and_chain_come_in_any_order() {
    let f = files(&["a.example"], "leaf");
    let parts = [&f.key, &f.leaf, &f.intermediate, &f.root];
    for order in [[0, 1, 2, 3], [1, 2, 3, 0], [3, 2, 1, 0], [2, 1, 0, 3], [3, 0, 2, 1]] {
        let file: String = order.iter().map(|at| format!("some text\n{}", parts[*at])).collect();
        assert_eq!(subjects(&pair(&file).unwrap()), ["leaf", "intermediate", "root"], "{order:?}");
    }
    let twice = format!("{}{}{}{}", f.key, f.leaf, f.leaf, f.intermediate);
    assert_eq!(subjects(&pair(&twice).unwrap()), ["leaf", "intermediate"]);
    let windows = format!("{}{}", f.key, f.leaf).replace('\n', "\r\n");
    assert_eq!(subjects(&pair(&windows).unwrap()), ["leaf"]);
}

#[test]
fn the_key_may_be_in_another_file() {
    let f = files(&["a.example"], "leaf");
    let chain = read(format!("{}{}", f.leaf, f.intermediate).as_bytes()).unwrap();
    assert!(!chain.has_key());
    let key = read(
        format!("-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n{}", f.key).as_bytes(),
    )
    .unwrap();
    assert_eq!(subjects(&chain.with_keys_of(key).pair().unwrap()), ["leaf", "intermediate"]);
}

#[test]
fn what_cannot_be_used_is_refused_in_words() {
    let (f, other) = (files(&["a.example"], "leaf"), files(&["b.example"], "leaf"));
    let check = |file: &str, expected: PemError| assert_eq!(pair(file).map(|_| ()), Err(expected), "{file:?}");
    check("", PemError::Empty);
    check("hello", PemError::NoCertificate);
    check(&f.key, PemError::NoCertificate);
    check(&f.leaf, PemError::NoKey);
    check(&format!("{}{}{}", f.key, other.key, f.leaf), PemError::SeveralKeys);
    check(&format!("{}{}", other.key, f.leaf), PemError::Mismatch);
    check(&format!("{}{}", f.key, f.intermediate), PemError::Mismatch);
    check(&f.key.replace("PRIVATE", "ENCRYPTED PRIVATE"), PemError::Encrypted);
    let old = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END EC PRIVATE KEY-----\n";
    check(&format!("{}{old}", f.leaf), PemError::Encrypted);
    check(
        &f.leaf.replace("-----END CERTIFICATE-----", ""),
        PemError::Malformed("no line -----END CERTIFICATE-----".into()),
    );
    check(&f.leaf.replace('M', "?"), PemError::Malformed("a section isn't base64".into()));
    check(&"x".repeat(LONGEST_FILE + 1), PemError::TooLong);
    check(&format!("{}{}", f.key, f.leaf.repeat(MOST_IN_CHAIN + 1)), PemError::TooManyCertificates);
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    check(&format!("{}{nonsense}", f.key), PemError::Certificate("it isn't an X.509 certificate".into()));
    let no_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(matches!(pair(&format!("{}{no_key}", f.leaf)), Err(PemError::Key(_))));
}

#[test]
fn names_are_those_of_hosts_in_lower_case() {
    let names = |names: &[&str], subject: &str| {
        let f = files(names, subject);
        facts::read(&read(f.leaf.as_bytes()).unwrap().certificates[0]).unwrap()
    };
    let many = names(&["WWW.Example.com", "*.example.com", "10.0.0.1"], "Ignored.example");
    assert_eq!(
        (many.names.join(" ").as_str(), many.subject.as_str(), many.issuer.as_str()),
        ("www.example.com *.example.com", "Ignored.example", "intermediate")
    );
    assert!(many.not_before < many.not_after && !many.serial.is_empty());
    assert_eq!(names(&[], "Only.example").names, ["only.example"]);
    assert!(names(&[], "Two Words").names.is_empty());
}

#[test]
fn a_file_of_authorities_has_at_least_one() {
    let f = files(&["a.example"], "leaf");
    assert_eq!(authorities(format!("{}{}", f.root, f.intermediate).as_bytes()).unwrap().len(), 2);
    assert_eq!(authorities(b"x"), Err(PemError::NoCertificate));
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes: Vec<u8>, at: prop::sample::Index, byte: u8) {
        let _ = read(&bytes).and_then(Contents::pair);
        let mut file = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n".to_vec();
        let at = at.index(file.len());
        file[at] = byte;
        let _ = read(&file).and_then(Contents::pair);
        let _ = (authorities(&bytes), facts::read(&bytes));
    }

    #[test]
    fn a_damaged_certificate_is_answered(at: prop::sample::Index, byte: u8) {
        static DER: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let der = DER.get_or_init(|| read(files(&["a.example", "*.b.example"], "leaf").leaf.as_bytes()).unwrap().certificates.remove(0));
        let mut der = der.clone();
        let at = at.index(der.len());
        der[at] = byte;
        let _ = (facts::read(&der), facts::public_key(&der), facts::is_issued_by(&der, &der));
    }
}
